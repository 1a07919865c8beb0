// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thread domains and parent domains.
//!
//! Objects that are made in a parent domain with a thread domain take no lock: the program uses them in one thread at a time. The driver allocates the
//! memory of queues where the card reaches it, so the allocators of a parent domain are not asked.

use core::ffi::c_int;

use crate::abi::*;
use crate::context::Context;
use crate::count::Users;
use crate::failure::{number, pointer, Failure, Result};
use crate::pd::Pd;
use crate::raw::{object, Raw};

/// A thread domain.
#[repr(C)]
pub struct Td {
    base: Raw<ibv_td>,
    /// Parent domains with it.
    pub users: Users,
}

object!(Td, ibv_td);

/// Attributes that this library knows.
const MASK: u32 = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
    | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
    | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;

/// Allocates a thread domain.
///
/// # Safety
/// The context is open, `attr` is valid.
pub unsafe extern "C" fn alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    let make = || -> Result<*mut ibv_td> {
        // SAFETY: as promised.
        if unsafe { (*attr).comp_mask } != 0 {
            return Err(Failure::unsupported("comp_mask must be 0"));
        }
        // SAFETY: as promised.
        unsafe { Context::of(context) }.users.add();
        Ok(Box::new(Td { base: Raw::new(ibv_td { context }), users: Users::default() }).give())
    };
    pointer("ibv_alloc_td", make())
}

/// Frees a thread domain.
///
/// # Safety
/// It lives, and is not used any more if this succeeds.
pub unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: as promised.
    let shared = unsafe { Td::of(td) };
    // SAFETY: a context outlives its domains.
    if unsafe { Context::of((*shared.base.get()).context) }.is_inherited() {
        return 0;
    }
    if let Err(failure) = shared.users.none("thread domain") {
        return number("ibv_dealloc_td", Err(failure));
    }
    // SAFETY: nothing uses it.
    let own = unsafe { Td::back(td) };
    // SAFETY: a context outlives its domains.
    unsafe { Context::of((*own.base.get()).context) }.users.remove();
    0
}

/// Allocates a parent domain.
///
/// # Safety
/// The context is open, `attr` is valid, and so are the domains in it.
pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    let make = || -> Result<*mut ibv_pd> {
        // SAFETY: as promised.
        let attr = unsafe { &*attr };
        if attr.comp_mask & !MASK != 0 {
            return Err(Failure::unsupported("comp_mask has bits that this library does not know"));
        }
        if attr.pd.is_null() {
            return Err(Failure::invalid("pd is null"));
        }
        // SAFETY: as promised.
        let pd = unsafe { Pd::of(attr.pd) };
        if pd.is_parent() || !core::ptr::eq(pd.context_pointer(), context) {
            return Err(Failure::invalid("pd must be a protection domain of this context"));
        }
        // SAFETY: as promised.
        Ok(unsafe { Pd::parent(attr.pd, attr.td) }.give())
    };
    pointer("ibv_alloc_parent_domain", make())
}
