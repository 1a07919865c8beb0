// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Mw`]: memory windows (IBTA 10.6.7).
//!
//! The types are the card's. A work request of the program binds a window of type 2B, with a key that the program chooses, and only the
//! peer of that queue pair may use it. [`bind_mw`] binds a window of type 1, with a key that it chooses: the peers of all queue pairs of
//! the domain may use that, and a window that is bound is bound again by one work request.

use core::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use ferrowire::{AccessFlags, MemoryWindow, Payload, SendOp, SendWr, WindowType};
use rustix::io::Errno;

use crate::abi::*;
use crate::failure::{number, pointer, report, Failure, Result};
use crate::mr::Mr;
use crate::pd::Pd;
use crate::post::{with_flags, NOT_READY};
use crate::qp::Qp;
use crate::raw::{object, Raw};

/// A memory window.
#[repr(C)]
pub struct Mw {
    base: Raw<ibv_mw>,
    window: MemoryWindow,
    /// Binds of threads take their keys, and are posted, one after the other.
    binds: Mutex<()>,
}

object!(Mw, ibv_mw);

impl Mw {
    fn pd<'a>(&self) -> &'a Pd {
        // SAFETY: the program does not change it, and a domain outlives its windows.
        unsafe { Pd::of((*self.base.get()).pd) }
    }
}

/// Allocates a memory window.
///
/// # Safety
/// The domain lives.
pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    let make = || -> Result<*mut ibv_mw> {
        let own = match kind {
            IBV_MW_TYPE_1 => WindowType::Type1,
            IBV_MW_TYPE_2 => WindowType::Type2B,
            _ => return Err(Failure::invalid("type must be IBV_MW_TYPE_1 or IBV_MW_TYPE_2")),
        };
        // SAFETY: as promised.
        let pd = unsafe { Pd::of(pd) };
        let card = pd.context().card()?;
        if !card.context.capabilities().memory_windows {
            return Err(Failure::unsupported("the card has no memory windows; register a region"));
        }
        let window = pd.domain().alloc_window_of(own)?;
        pd.users.add();
        let key = window.rkey();
        let base = ibv_mw {
            context: pd.context_pointer(),
            pd: pd.pointer(),
            rkey: key,
            handle: key >> 8,
            r#type: kind,
        };
        Ok(Box::new(Mw { base: Raw::new(base), window, binds: Mutex::new(()) }).give())
    };
    pointer("ibv_alloc_mw", make())
}

/// Frees a memory window, bound or not.
///
/// # Safety
/// The window lives, and is not used any more.
pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: as promised.
    if unsafe { Mw::of(mw) }.pd().context().is_inherited() {
        return 0;
    }
    // SAFETY: as promised.
    let own = unsafe { Mw::back(mw) };
    own.pd().users.remove();
    if let Err(error) = own.window.destroy() {
        report("ibv_dealloc_mw", &error.into());
    }
    0
}

/// Rights that a window can give.
fn rights(access: u32) -> Result<AccessFlags> {
    let known = [
        (IBV_ACCESS_REMOTE_WRITE, AccessFlags::REMOTE_WRITE),
        (IBV_ACCESS_REMOTE_READ, AccessFlags::REMOTE_READ),
        (IBV_ACCESS_REMOTE_ATOMIC, AccessFlags::REMOTE_ATOMIC),
        (IBV_ACCESS_ZERO_BASED, AccessFlags::ZERO_BASED),
    ];
    // A right of the region, which means nothing for a window; other devices take it, and pyverbs' tests ask for it.
    let access = access & !IBV_ACCESS_LOCAL_WRITE;
    let rest = known.iter().fold(access, |rest, (bit, _)| rest & !bit);
    if rest != 0 {
        return Err(Failure::text(
            Errno::INVAL,
            format!(
                "mw_access_flags {access:#x}: a window has remote rights, and IBV_ACCESS_ZERO_BASED, only"
            ),
        ));
    }
    let given = known.iter().filter(|(bit, _)| access & bit != 0);
    Ok(given.fold(AccessFlags::default(), |all, (_, right)| all | *right))
}

/// The operation that binds a window to a range, with a key; a range of no bytes takes the rights back.
fn operation(kind: WindowType, key: u32, info: &ibv_mw_bind_info) -> Result<SendOp> {
    let access = rights(info.mw_access_flags)?;
    if info.length == 0 {
        let access = AccessFlags::default();
        return Ok(SendOp::BindMw { key, lkey: 0, address: 0, bytes: 0, access, kind });
    }
    if info.mr.is_null() {
        return Err(Failure::invalid("bind_info.mr is null"));
    }
    // SAFETY: the program gives a region that lives.
    let region = unsafe { Mr::of(info.mr) }.window_base();
    let (lkey, has) = region.ok_or(Failure::invalid("bind_info.mr is no region of memory"))?;
    if !has.contains(AccessFlags::MW_BIND) {
        return Err(Failure::invalid("the region lacks IBV_ACCESS_MW_BIND"));
    }
    let writes = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
    if access.intersects(writes) && !has.contains(AccessFlags::LOCAL_WRITE) {
        return Err(Failure::invalid(
            "a window for remote writes needs a region with IBV_ACCESS_LOCAL_WRITE",
        ));
    }
    Ok(SendOp::BindMw { key, lkey, address: info.addr, bytes: info.length, access, kind })
}

/// The operation of a work request that binds a window of type 2.
///
/// # Safety
/// Window and region live.
pub unsafe fn bind_operation(qp: &Qp, mw: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Result<SendOp> {
    if mw.is_null() {
        return Err(Failure::invalid("bind_mw.mw is null"));
    }
    // SAFETY: as promised.
    let window = unsafe { Mw::of(mw) };
    if window.window.kind() != WindowType::Type2B {
        return Err(Failure::invalid("a window of type 1 is bound by ibv_bind_mw"));
    }
    same_domain(qp, window)?;
    // SAFETY: the program changes it in no other thread meanwhile.
    let own = unsafe { (*mw).rkey };
    if own >> 8 != rkey >> 8 {
        return Err(Failure::text(
            Errno::INVAL,
            format!("rkey {rkey:#x}: only the low byte may differ from the window's {own:#x} (ibv_inc_rkey)"),
        ));
    }
    operation(WindowType::Type2B, rkey, info)
}

/// The next key of a window, as `ibv_inc_rkey` makes it.
fn next_key(key: u32) -> u32 {
    key & !0xff | key.wrapping_add(1) & 0xff
}

fn same_domain(qp: &Qp, mw: &Mw) -> Result<()> {
    match core::ptr::eq(mw.pd().domain_of(), qp.pd().domain_of()) {
        true => Ok(()),
        false => Err(Failure::new(Errno::PERM, "window and queue pair are of different protection domains")),
    }
}

fn bind(qp: &Qp, mw: &Mw, bind: &ibv_mw_bind) -> Result<()> {
    let card = qp.context().card()?;
    if !card.context.capabilities().memory_windows {
        return Err(Failure::unsupported("the card has no memory windows"));
    }
    if mw.window.kind() != WindowType::Type1 {
        return Err(Failure::invalid("a window of type 2 is bound by a work request: IBV_WR_BIND_MW"));
    }
    same_domain(qp, mw)?;
    let _order = mw.binds.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the program changes it in no other thread meanwhile.
    let key = next_key(unsafe { (*mw.base.get()).rkey });
    let op = operation(WindowType::Type1, key, &bind.bind_info)?;
    qp.with(|inner| {
        if !inner.takes_sends() {
            return Err(NOT_READY);
        }
        let wr = SendWr::new(bind.wr_id, op, Payload::Sges(&[]));
        let wr = with_flags(wr, bind.send_flags & !IBV_SEND_INLINE | inner.forced)?;
        let mut batch = inner.queue.start_post_send();
        batch.post(&wr)?;
        batch.ring()?;
        // SAFETY: as above.
        unsafe { (*mw.base.get()).rkey = key };
        Ok(())
    })
}

/// Binds a window of type 1. Its key is another one afterwards.
///
/// # Safety
/// Queue pair, window and region live, `mw_bind` is valid.
pub unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, mw_bind: *mut ibv_mw_bind) -> c_int {
    // SAFETY: as promised.
    number("ibv_bind_mw", bind(unsafe { Qp::of(qp) }, unsafe { Mw::of(mw) }, unsafe { &*mw_bind }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_index() {
        assert_eq!(next_key(0x1234_56ff), 0x1234_5600);
        assert_eq!(next_key(0x1234_5600), 0x1234_5601);
    }

    #[test]
    fn windows_have_remote_rights_and_that_of_the_region_means_nothing() {
        let both = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        assert_eq!(rights(both).unwrap(), AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE);
        assert_eq!(rights(both | IBV_ACCESS_LOCAL_WRITE).unwrap(), rights(both).unwrap());
        assert_eq!(rights(both | IBV_ACCESS_MW_BIND).unwrap_err().errno, Errno::INVAL);
    }
}
