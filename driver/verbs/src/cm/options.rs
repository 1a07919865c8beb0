// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of identifiers, and enhanced connection establishment.

use core::ffi::{c_int, c_void};

use ferrowire_net::rdma::{Options, Phase};
use rustix::io::Errno;

use super::id::Id;
use super::zero;
use crate::abi::*;
use crate::failure::{Failure, Result};
use crate::log::say;

/// Reads a value of an option, whose length must be that of its type.
///
/// # Safety
/// `value` has `length` bytes.
unsafe fn value<T: Copy>(name: &str, value: *const c_void, length: usize) -> Result<T> {
    if length != size_of::<T>() || value.is_null() {
        let why = format!("{name} has {} bytes, not {length}", size_of::<T>());
        return Err(Failure::text(Errno::INVAL, why));
    }
    // SAFETY: as promised; programs may put it anywhere.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

/// Changes options, of the identifier and of what the service has of it.
fn change(id: &Id, f: impl Fn(&mut Options)) {
    f(&mut id.own().options);
    // Without an address it gets them later.
    let _ = id.with(|id| {
        id.set_options(&f);
        Ok(())
    });
}

/// Its state, if it has an address.
fn phase(id: &Id) -> Phase {
    id.with(|id| Ok(id.phase())).unwrap_or(Phase::Idle)
}

/// # Safety
/// `optval` has `optlen` bytes.
unsafe fn set(id: &Id, level: c_int, name: c_int, optval: *const c_void, optlen: usize) -> Result<()> {
    id.process.check()?;
    // SAFETY: as promised, in each of the calls.
    unsafe {
        match (level, name) {
            (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => {
                let tos: u8 = value("RDMA_OPTION_ID_TOS", optval, optlen)?;
                change(id, |options| options.traffic_class = tos);
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
                let reuse: c_int = value("RDMA_OPTION_ID_REUSEADDR", optval, optlen)?;
                // A listener keeps it (as Linux).
                if !(phase(id) == Phase::Idle || reuse != 0 && phase(id) != Phase::Listening) {
                    return Err(Failure::invalid("RDMA_OPTION_ID_REUSEADDR: the identifier has an address"));
                }
                change(id, |options| options.reuse_address = reuse != 0);
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
                let only: c_int = value("RDMA_OPTION_ID_AFONLY", optval, optlen)?;
                if !matches!(phase(id), Phase::Idle | Phase::Bound) {
                    return Err(Failure::invalid(
                        "RDMA_OPTION_ID_AFONLY: the identifier listens or connects",
                    ));
                }
                change(id, |options| options.only_family = only != 0);
            }
            (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => {
                let timeout: u8 = value("RDMA_OPTION_ID_ACK_TIMEOUT", optval, optlen)?;
                if id.is_datagram() {
                    return Err(Failure::invalid("RDMA_OPTION_ID_ACK_TIMEOUT: datagrams have none"));
                }
                // Five bits of a REQ (IBTA 12.7.34).
                if timeout > 31 {
                    let why = format!("RDMA_OPTION_ID_ACK_TIMEOUT is {timeout}; it is 0 to 31");
                    return Err(Failure::text(Errno::INVAL, why));
                }
                change(id, |options| options.ack_timeout = timeout);
            }
            (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => {
                return Err(Failure::unsupported(
                    "RDMA_OPTION_IB_PATH: paths of Ethernet follow from the addresses; call rdma_resolve_route",
                ));
            }
            _ => {
                let why = format!("option {name} of level {level} is unknown");
                return Err(Failure::text(Errno::NOSYS, why));
            }
        }
    }
    Ok(())
}

/// Sets an option of an identifier.
///
/// # Safety
/// The identifier lives, `optval` has `optlen` bytes.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: as promised.
    zero("rdma_set_option", unsafe { set(Id::of(id), level, optname, optval, optlen) })
}

/// Sets what this side would agree on with the other side's device. Messages of this manager carry nothing of it, so the other side sees a device without.
///
/// # Safety
/// The identifier lives, `ece` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_set_local_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    const CALL: &str = "rdma_set_local_ece";
    // SAFETY: as promised.
    let result = unsafe { Id::of(id).process.check().and_then(|()| check(ece)) };
    let result = result.and_then(|ece| match ece.vendor_id {
        0 => Err(Failure::invalid("vendor_id is 0")),
        _ => {
            say!("{CALL}: the card has no such options, and peers get none");
            Ok(())
        }
    });
    zero(CALL, result)
}

/// What the other side's device would agree on: nothing.
///
/// # Safety
/// The identifier lives, `ece` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_get_remote_ece(id: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    // SAFETY: as promised.
    let result = unsafe { Id::of(id) }.process.check().and_then(|()| {
        // SAFETY: as promised.
        unsafe { check(ece)? };
        // SAFETY: as promised; it is not null.
        unsafe { *ece = ibv_ece::zeroed() };
        Ok(())
    });
    zero("rdma_get_remote_ece", result)
}

/// # Safety
/// `ece` is null or valid.
unsafe fn check(ece: *const ibv_ece) -> Result<ibv_ece> {
    if ece.is_null() {
        return Err(Failure::invalid("ece is null"));
    }
    // SAFETY: as promised.
    let ece = unsafe { *ece };
    match ece.comp_mask {
        0 => Ok(ece),
        _ => Err(Failure::invalid("comp_mask has unknown bits")),
    }
}

const _: cma_functions::rdma_set_option = ferrowire_rdma_set_option;
const _: cma_functions::rdma_set_local_ece = ferrowire_rdma_set_local_ece;
const _: cma_functions::rdma_get_remote_ece = ferrowire_rdma_get_remote_ece;
