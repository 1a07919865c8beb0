// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma_create_ep`: a synchronous identifier with its addresses and its queue pair, of what `rdma_getaddrinfo` found.

use core::ffi::c_int;
use std::ptr;

use super::id::{ferrowire_rdma_destroy_id, port_space, Id};
use super::qp::{create, ferrowire_rdma_destroy_qp, ferrowire_rdma_destroy_srq};
use super::{resolve, zero};
use crate::abi::*;
use crate::failure::{Failure, Result};

/// Longest wait for the address of the other side.
const TIMEOUT_MS: c_int = 2000;

/// # Safety
/// As of `rdma_create_ep`.
unsafe fn create_ep(
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<*mut rdma_cm_id> {
    let space = port_space(info.ai_port_space as rdma_port_space)?;
    let kind = match (info.ai_qp_type as ibv_qp_type, space.is_datagram()) {
        (0 | IBV_QPT_UD, true) => IBV_QPT_UD,
        (0 | IBV_QPT_RC, false) => IBV_QPT_RC,
        (IBV_QPT_UC, false) => IBV_QPT_UC,
        (other, _) => {
            let why = format!("ai_qp_type {other} does not fit ai_port_space {:#x}", info.ai_port_space);
            return Err(Failure::text(rustix::io::Errno::INVAL, why));
        }
    };
    let pointer = Id::create(ptr::null_mut(), ptr::null_mut(), space, kind)?;
    // SAFETY: it was made just now.
    let id = unsafe { Id::of(pointer) };
    // SAFETY: as promised.
    let attr = (!attr.is_null()).then(|| unsafe { &mut *attr });
    let begin = || -> Result<()> {
        if info.ai_flags & RAI_PASSIVE != 0 {
            // SAFETY: as promised.
            unsafe { resolve::bind_to(id, info.ai_src_addr)? };
            if !pd.is_null() {
                // Instead of the domain by default. Queue pairs of requests are made in it.
                // SAFETY: the program does not have it yet.
                unsafe { (*pointer).pd = pd };
            }
            id.own().endpoint = attr.map(|attr| ibv_qp_init_attr { qp_type: kind, ..*attr });
            return Ok(());
        }
        // SAFETY: as promised.
        unsafe { resolve::resolve_address(id, info.ai_src_addr, info.ai_dst_addr, TIMEOUT_MS)? };
        resolve::resolve_route(id)?;
        if let Some(attr) = attr {
            attr.qp_type = kind;
            // SAFETY: as promised.
            unsafe { create(id, pd, attr)? };
        }
        Ok(())
    };
    match begin() {
        Ok(()) => Ok(pointer),
        Err(failure) => {
            // SAFETY: the program does not have it.
            unsafe { ferrowire_rdma_destroy_id(pointer) };
            Err(failure)
        }
    }
}

/// Creates a synchronous identifier: one that can listen, whose requests get a queue pair with these attributes; or one that can connect, with its queue pair.
///
/// # Safety
/// `id` and `res` are valid; `pd` and `qp_init_attr` are null or valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_create_ep(
    id: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    if res.is_null() {
        return zero("rdma_create_ep", Err(Failure::invalid("res is null; call rdma_getaddrinfo first")));
    }
    // SAFETY: as promised.
    let made = unsafe { create_ep(&*res, pd, qp_init_attr) };
    // SAFETY: as promised.
    zero("rdma_create_ep", made.map(|made| unsafe { *id = made }))
}

/// Destroys an identifier with its queue pair and its shared receive queue.
///
/// # Safety
/// The identifier lives, and is not used any more.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_destroy_ep(id: *mut rdma_cm_id) {
    // SAFETY: as promised.
    unsafe {
        if !(*id).qp.is_null() {
            ferrowire_rdma_destroy_qp(id);
        }
        if !(*id).srq.is_null() {
            ferrowire_rdma_destroy_srq(id);
        }
        ferrowire_rdma_destroy_id(id);
    }
}

const _: cma_functions::rdma_create_ep = ferrowire_rdma_create_ep;
const _: cma_functions::rdma_destroy_ep = ferrowire_rdma_destroy_ep;
