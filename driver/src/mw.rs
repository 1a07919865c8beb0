// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`MemoryWindow`]: a part of a region that peers may use for a while (IBTA 10.6.7), of type 1 or 2B.

use std::fmt;
use std::sync::Arc;

use ferrowire_spec::queue::command::alloc_mw::AllocMw;
use ferrowire_spec::queue::CommandOpcode;

use crate::access::AccessFlags;
use crate::error::{Error, Result};
use crate::mr::MemoryRegion;
use crate::pd::{Pd, ProtectionDomain};
use crate::send::{RemoteAddress, SendOp, SendWr};

const OPERATION: &str = "bind window";

/// Types of memory windows (IBTA 10.6.7.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowType {
    /// Belongs to its protection domain: the peers of all queue pairs of the domain may use the key (10.6.7.2.1). A bind may follow
    /// another one and takes back what that gave. Only the own side takes rights back; no invalidation does.
    Type1,
    /// Belongs to the queue pair that bound it: only the peer of that one may use the key (10.6.7.2.4). It is invalidated before it is
    /// bound again.
    #[default]
    Type2B,
}

/// A memory window: bound by a work request to a part of a region, it gives rights to peers, to which ones its [`WindowType`] says.
///
/// A bind is faster than a registration, for it is a work request. What it gives ends with a bind of nothing
/// ([`unbind`](Self::unbind)), or with the window; that of type 2B also by the peer ([`SendOp::SendInv`]) and by
/// [`invalidate`](Self::invalidate). Each bind has a new key, whose tag is random: a peer that keeps an old one has nothing.
///
/// `Send` and `Sync`; holds its protection domain. Dropping it takes the rights back. A region stays registered as long as windows are
/// bound to it, though it is dropped before them (11.2.8.5).
pub struct MemoryWindow {
    pd: Arc<Pd>,
    kind: WindowType,
    key: u32,
    live: bool,
}

impl fmt::Debug for MemoryWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWindow").finish_non_exhaustive()
    }
}

impl MemoryWindow {
    /// Its type.
    pub fn kind(&self) -> WindowType {
        self.kind
    }

    /// Key of the last bind, for peers and for invalidations.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// What a peer needs to know to reach `address` in the window.
    pub fn remote(&self, address: u64) -> RemoteAddress {
        RemoteAddress { address, rkey: self.key }
    }

    /// A work request that binds the window to `bytes` of `region` from `offset` on, with a new key, which
    /// [`rkey`](Self::rkey) gives from now on. Peers name the bytes as the region does; with [`AccessFlags::ZERO_BASED`] their addresses
    /// begin at the place of the first one in its page, as those of zero based regions.
    ///
    /// The window must be of the queue pair's protection domain, like the region (10.6.7.2.2); one of type 2B must not be bound. What is
    /// posted after the bind finds it done. When a bind of type 1 is complete, accesses by the old key are over. One that fails ends with
    /// `MwBindErr`, and the queue pair is in error.
    ///
    /// # Errors
    /// `Attribute` for an empty range, one that leaves the region, rights that are none of a peer's or that the card does not have, and a region that lacks
    /// `MW_BIND`, or `LOCAL_WRITE` where peers write; `Random` when there is no random number. Then the key is what it was.
    pub fn bind(
        &mut self,
        wr_id: u64,
        region: &MemoryRegion,
        offset: usize,
        bytes: usize,
        access: AccessFlags,
    ) -> Result<SendWr<'static>> {
        let refuse = |attribute, value: u64, fix: &str| {
            Err(Error::Attribute { operation: OPERATION, attribute, value, fix: fix.into() })
        };
        let rights = u64::from(access.bits());
        if !(AccessFlags::REMOTE | AccessFlags::ZERO_BASED).contains(access) {
            return refuse("access", rights, "a window has remote rights, and ZERO_BASED, only");
        }
        access.check(OPERATION, &self.pd.device.capabilities)?;
        if bytes == 0 {
            return refuse("length", 0, "bind at least a byte; `unbind` makes a bind of nothing");
        }
        if offset > region.len() || bytes > region.len() - offset {
            return refuse("length", bytes as u64, "the window must lie in the region");
        }
        if !region.access().contains(AccessFlags::MW_BIND) {
            return refuse("mr_key", region.lkey().into(), "register the region with MW_BIND");
        }
        let writes = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(writes) && !region.access().contains(AccessFlags::LOCAL_WRITE) {
            return refuse("access", rights, "remote write and atomic need a region with LOCAL_WRITE");
        }
        let key = self.pd.device.tables(|t| t.keys.renew(self.key, &mut t.random))?;
        self.key = key;
        let address = region.address() + offset as u64;
        let (lkey, bytes, kind) = (region.lkey(), bytes as u64, self.kind);
        Ok(SendWr::local(wr_id, SendOp::BindMw { key, lkey, address, bytes, access, kind }))
    }

    /// A work request that binds the window to nothing: it takes the rights of the last bind back. The key is another one from now on. That of
    /// type 2B is of the queue pair that bound the window, or the window is not bound. When it is complete, accesses by the old key are over.
    ///
    /// # Errors
    /// `Random` when there is no random number. Then the key is what it was.
    pub fn unbind(&mut self, wr_id: u64) -> Result<SendWr<'static>> {
        let key = self.pd.device.tables(|t| t.keys.renew(self.key, &mut t.random))?;
        self.key = key;
        let (access, kind) = (AccessFlags::default(), self.kind);
        Ok(SendWr::local(wr_id, SendOp::BindMw { key, lkey: 0, address: 0, bytes: 0, access, kind }))
    }

    /// A work request that takes the rights of the last bind back, of type 2B only: the card refuses it for a window of type 1
    /// (10.6.7.2.5).
    pub fn invalidate(&self, wr_id: u64) -> SendWr<'static> {
        SendWr::local_inv(wr_id, self.key)
    }

    /// Frees the window, bound or not, and says whether that worked.
    ///
    /// # Errors
    /// `Command` when the card refuses, `Timeout` when it does not answer.
    pub fn destroy(mut self) -> Result<()> {
        self.free()
    }

    fn free(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.live) {
            return Ok(());
        }
        let device = &self.pd.device;
        device.commands.simple(CommandOpcode::FreeMw, self.key)?;
        device.tables(|t| t.keys.give_back(self.key));
        // A region may have waited for it.
        self.pd.leftovers.retry(device);
        Ok(())
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        // A window that the card does not give back keeps its key.
        let _ = self.free();
    }
}

impl ProtectionDomain {
    /// Makes a memory window of type 2B, not bound (IBTA 11.2.9.1).
    ///
    /// # Errors
    /// As [`alloc_window_of`](Self::alloc_window_of).
    pub fn alloc_window(&self) -> Result<MemoryWindow> {
        self.alloc_window_of(WindowType::Type2B)
    }

    /// Makes a memory window of a type, not bound (IBTA 11.2.9.1).
    ///
    /// # Errors
    /// `Attribute` when the card has none; `NoResource` when keys are used up; `Command` when the card refuses.
    pub fn alloc_window_of(&self, kind: WindowType) -> Result<MemoryWindow> {
        const OPERATION: &str = "alloc window";
        let device = &self.pd.device;
        if !device.capabilities.memory_windows {
            let fix = "the card has no memory windows; register a region instead".into();
            return Err(Error::Attribute {
                operation: OPERATION,
                attribute: "memory_windows",
                value: 0,
                fix,
            });
        }
        let limit = u64::from(device.capabilities.max_mr);
        let key = device.tables(|t| t.keys.take(&mut t.random))?;
        let key = key.ok_or(Error::NoResource { operation: OPERATION, what: "memory keys", limit })?;
        let pd = self.pd.number;
        let result = device.commands.run(CommandOpcode::AllocMw, key, |token| {
            let type_1 = kind == WindowType::Type1;
            AllocMw { token, object: key, pd, type_1, ..AllocMw::default() }.to_bytes()
        });
        match result {
            Ok(_) => Ok(MemoryWindow { pd: Arc::clone(&self.pd), kind, key, live: true }),
            Err(error) => {
                if !error.is_unanswered() {
                    device.tables(|t| t.keys.give_back(key));
                }
                Err(error)
            }
        }
    }
}
