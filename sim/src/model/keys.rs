// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys of regions and windows, and the checks before every access (IBTA 10.6, 9.7.4.1.5).
//!
//! A key is an index in bits 31:8 and a tag in bits 7:0; both must match. Local and remote keys are checked by the same
//! code: index, tag, protection domain, rights, bounds.

use std::collections::BTreeMap;

use ferrowire_spec::queue::cqe::LocalCause;

use super::types::{Bind, Error, Rights, Sge, WindowType};

/// A region to register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAttr {
    /// Protection domain.
    pub pd: u32,
    /// Host address of its first byte.
    pub base: u64,
    /// The address by which requests name that byte; 0 with `ZERO_BASED`.
    pub va: u64,
    /// Bytes.
    pub len: u64,
    /// Rights.
    pub rights: Rights,
    /// Bytes of a page: zero-based windows begin at the place of their first byte in its page. With 1 they begin at 0.
    pub page: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    region: u32,
    /// The queue pair that bound it; `None`: its life has ended.
    qpn: Option<u32>,
    va: u64,
    /// Host address of the first byte.
    base: u64,
    len: u64,
    rights: Rights,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    pd: u32,
    kind: WindowType,
    /// `None`: not bound.
    bound: Option<Bound>,
}

impl Window {
    /// What it gives to the peer of a queue pair of its domain. Type 1 belongs to the domain (IBTA 10.6.7.2.1), type 2B to the queue pair
    /// that bound it (10.6.7.2.4).
    fn for_peer_of(&self, qpn: u32) -> Option<&Bound> {
        self.bound.as_ref().filter(|bound| self.kind == WindowType::Type1 || bound.qpn == Some(qpn))
    }

    /// A queue pair of its domain may bind it, to something or to `nothing`: type 1 always, type 2B where it is not bound, or was left
    /// bound by a queue pair whose life has ended. That which bound it may bind it to nothing.
    fn may_be_bound(&self, qpn: u32, nothing: bool) -> bool {
        let held = self.bound.and_then(|bound| bound.qpn);
        self.kind == WindowType::Type1 || held.is_none_or(|binder| nothing && binder == qpn)
    }
}

#[derive(Clone, Copy, Debug)]
enum Object {
    Region(RegionAttr),
    Window(Window),
}

/// All keys of a node.
#[derive(Debug, Default)]
pub(super) struct Keys {
    objects: BTreeMap<u32, (u8, Object)>,
    next: u32,
}

/// Who has a key's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// The tag that the key must have.
    pub tag: u8,
    /// A window, not a region.
    pub window: bool,
}

const fn index(key: u32) -> u32 {
    key >> 8
}

/// The offset of `len` bytes at `addr` in an area; the end must not wrap (IBTA 10.6.3.1).
fn within(addr: u64, len: u64, start: u64, size: u64) -> Result<u64, LocalCause> {
    let offset = addr.checked_sub(start).ok_or(LocalCause::KeyBounds)?;
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(offset),
        _ => Err(LocalCause::KeyBounds),
    }
}

impl Keys {
    fn place(&mut self, key: Option<u32>, tag: u8, object: Object) -> Result<u32, Error> {
        let key = match key {
            Some(key) => key,
            None => {
                while self.objects.contains_key(&(self.next + 1)) {
                    self.next += 1;
                }
                self.next += 1;
                self.next << 8 | u32::from(tag)
            }
        };
        if self.objects.contains_key(&index(key)) {
            return Err(Error::Exists { what: "key", number: key });
        }
        self.objects.insert(index(key), (key as u8, object));
        Ok(key)
    }

    /// Who has an index.
    pub(super) fn status(&self, index: u32) -> Option<KeyStatus> {
        let (tag, object) = self.objects.get(&index)?;
        Some(KeyStatus { tag: *tag, window: matches!(object, Object::Window(..)) })
    }

    /// Whether one belongs to a protection domain.
    pub(super) fn uses_pd(&self, pd: u32) -> bool {
        self.objects.values().any(|(_, object)| match object {
            Object::Region(region) => region.pd == pd,
            Object::Window(window) => window.pd == pd,
        })
    }

    /// Registers a region, with that key or one of its own choice with that tag.
    pub(super) fn register(&mut self, attr: RegionAttr, key: Option<u32>, tag: u8) -> Result<u32, Error> {
        let attr = match attr.rights.has(Rights::ZERO_BASED) {
            true => RegionAttr { va: 0, ..attr },
            false => attr,
        };
        self.place(key, tag, Object::Region(attr))
    }

    /// Makes a window, not bound.
    pub(super) fn window(
        &mut self,
        pd: u32,
        kind: WindowType,
        key: Option<u32>,
        tag: u8,
    ) -> Result<u32, Error> {
        self.place(key, tag, Object::Window(Window { pd, kind, bound: None }))
    }

    /// Removes a region or a window. A region with windows is busy (IBTA 11.2.8.5). Of a window's key only the index counts, for
    /// binds change the tag (host interface).
    pub(super) fn remove(&mut self, key: u32) -> Result<(), Error> {
        let window = matches!(self.objects.get(&index(key)), Some((_, Object::Window(..))));
        if !window && self.find(key).is_err() {
            return Err(Error::Unknown { what: "key", number: key });
        }
        let uses = |(_, object): &(u8, Object)| matches!(object, Object::Window(window) if window.bound.is_some_and(|bound| bound.region == index(key)));
        if self.objects.values().any(uses) {
            return Err(Error::Busy);
        }
        self.objects.remove(&index(key));
        Ok(())
    }

    fn find(&self, key: u32) -> Result<Object, LocalCause> {
        let (tag, object) = self.objects.get(&index(key)).ok_or(LocalCause::KeyIndex)?;
        match *tag == key as u8 {
            true => Ok(*object),
            false => Err(LocalCause::KeyTag),
        }
    }

    /// The host address for a local access. Windows give none (IBTA 10.6.7).
    pub(super) fn local(&self, pd: u32, sge: &Sge, write: bool) -> Result<u64, LocalCause> {
        let Object::Region(region) = self.find(sge.lkey)? else { return Err(LocalCause::KeyAccess) };
        if region.pd != pd {
            return Err(LocalCause::KeyPd);
        }
        if write && !region.rights.has(Rights::LOCAL_WRITE) {
            return Err(LocalCause::KeyAccess);
        }
        Ok(region.base.wrapping_add(within(sge.addr, sge.len.into(), region.va, region.len)?))
    }

    /// The host address for an access of the peer of queue pair `qpn`.
    pub(super) fn remote(
        &self,
        pd: u32,
        qpn: u32,
        key: u32,
        va: u64,
        len: u64,
        right: Rights,
    ) -> Result<u64, LocalCause> {
        let (owner, start, base, size, rights) = match self.find(key)? {
            Object::Region(r) => (r.pd, r.va, r.base, r.len, r.rights),
            Object::Window(window) => {
                let b = window.for_peer_of(qpn).ok_or(LocalCause::KeyAccess)?;
                (window.pd, b.va, b.base, b.len, b.rights)
            }
        };
        if owner != pd {
            return Err(LocalCause::KeyPd);
        }
        if !rights.has(right) {
            return Err(LocalCause::KeyAccess);
        }
        Ok(base.wrapping_add(within(va, len, start, size)?))
    }

    /// Binds a window by WQE (IBTA 10.6.7.2, 11.2.9.1): the window must be of the bind's type and free to be bound, the region must
    /// allow it, and a peer that may write by it must be able to write the region. What it gave before, it gives no more.
    pub(super) fn bind(&mut self, pd: u32, qpn: u32, bind: &Bind) -> Result<(), LocalCause> {
        let (_, window) = self.objects.get(&index(bind.key)).ok_or(LocalCause::KeyIndex)?;
        let nothing = bind.len == 0;
        let window = match *window {
            Object::Window(window) if window.kind == bind.kind && window.may_be_bound(qpn, nothing) => window,
            _ => return Err(LocalCause::KeyAccess),
        };
        let owner = window.pd;
        if nothing {
            // Without a length it is unbound (host interface).
            if owner != pd {
                return Err(LocalCause::KeyPd);
            }
            let free = Object::Window(Window { bound: None, ..window });
            self.objects.insert(index(bind.key), (bind.key as u8, free));
            return Ok(());
        }
        let Object::Region(region) = self.find(bind.lkey)? else { return Err(LocalCause::KeyAccess) };
        if owner != pd || region.pd != pd {
            return Err(LocalCause::KeyPd);
        }
        let writes = bind.rights.has(Rights::REMOTE_WRITE) || bind.rights.has(Rights::REMOTE_ATOMIC);
        if !region.rights.has(Rights::MW_BIND) || writes && !region.rights.has(Rights::LOCAL_WRITE) {
            return Err(LocalCause::KeyAccess);
        }
        let offset = within(bind.addr, bind.len, region.va, region.len)?;
        let bound = Bound {
            region: index(bind.lkey),
            qpn: Some(qpn),
            va: if bind.rights.has(Rights::ZERO_BASED) { bind.addr % region.page.max(1) } else { bind.addr },
            base: region.base.wrapping_add(offset),
            len: bind.len,
            rights: bind.rights,
        };
        let window = Object::Window(Window { bound: Some(bound), ..window });
        self.objects.insert(index(bind.key), (bind.key as u8, window));
        Ok(())
    }

    /// Whether a key may be invalidated by that queue pair or its peer: a window of type 2B that it bound (IBTA 10.6.7.2.5, o10-37.2.26).
    pub(super) fn may_invalidate(&self, pd: u32, qpn: u32, key: u32) -> Result<(), LocalCause> {
        match self.find(key)? {
            Object::Window(window) if window.pd != pd => Err(LocalCause::KeyPd),
            Object::Window(window) if window.kind == WindowType::Type1 => Err(LocalCause::KeyAccess),
            Object::Window(window) => window.for_peer_of(qpn).map(|_| ()).ok_or(LocalCause::KeyAccess),
            Object::Region(_) => Err(LocalCause::KeyAccess),
        }
    }

    /// No peer can use or invalidate any more what a queue pair has bound, of type 2B: its life has ended (IBTA 10.6.7.2.4). Regions keep
    /// such windows until these are bound anew or freed.
    pub(super) fn orphan(&mut self, qpn: u32) {
        for (_, object) in self.objects.values_mut() {
            let Object::Window(Window { bound: Some(bound), .. }) = object else { continue };
            if bound.qpn == Some(qpn) {
                bound.qpn = None;
            }
        }
    }

    /// Invalidates it.
    pub(super) fn invalidate(&mut self, pd: u32, qpn: u32, key: u32) -> Result<(), LocalCause> {
        self.may_invalidate(pd, qpn, key)?;
        if let Some((_, Object::Window(window))) = self.objects.get_mut(&index(key)) {
            window.bound = None;
        }
        Ok(())
    }
}
