// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection domains, thread domains and XRC domains.

use core::ffi::{c_int, c_void};

use super::ibv_context;
use super::layout::*;

constants! {
    /// Bits of `ibv_xrcd_init_attr.comp_mask`.
    enum ibv_xrcd_init_attr_mask: c_uint {
        IBV_XRCD_INIT_ATTR_FD = 1 << 0,
        IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
        IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2,
    }

    /// Bits of `ibv_parent_domain_init_attr.comp_mask`.
    enum ibv_parent_domain_init_attr_mask: c_uint {
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0,
        IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
        [since 65] IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
    }

    addresses {
        IBV_ALLOCATOR_USE_DEFAULT = usize::MAX,
    }
}

layout! {
    /// A protection domain.
    struct ibv_pd {
        context: *mut ibv_context,
        handle: u32,
    }

    /// Attributes of a thread domain.
    struct ibv_td_init_attr {
        comp_mask: u32,
    }

    /// A thread domain.
    struct ibv_td {
        context: *mut ibv_context,
    }

    /// Attributes of an XRC domain.
    struct ibv_xrcd_init_attr {
        comp_mask: u32,
        fd: c_int,
        oflags: c_int,
    }

    /// An XRC domain.
    struct ibv_xrcd {
        context: *mut ibv_context,
    }

    /// Attributes of a parent domain. `alloc` may return `IBV_ALLOCATOR_USE_DEFAULT`.
    struct ibv_parent_domain_init_attr {
        pd: *mut ibv_pd,
        td: *mut ibv_td,
        comp_mask: u32,
        alloc: Option<
            unsafe extern "C" fn(
                pd: *mut ibv_pd,
                pd_context: *mut c_void,
                size: usize,
                alignment: usize,
                resource_type: u64,
            ) -> *mut c_void,
        >,
        free: Option<
            unsafe extern "C" fn(
                pd: *mut ibv_pd,
                pd_context: *mut c_void,
                ptr: *mut c_void,
                resource_type: u64,
            ),
        >,
        pd_context: *mut c_void,
    }
}
