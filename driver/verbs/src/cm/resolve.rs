// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses and routes of identifiers, and listeners.

use core::ffi::c_int;
use std::time::Duration;

use super::id::Id;
use super::{address, zero};
use crate::abi::*;
use crate::failure::{Failure, Result};
use crate::log::say;

/// A time-out of C: milliseconds, none of which is negative.
fn timeout(ms: c_int) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// # Safety
/// The address is null or valid.
unsafe fn bind(id: &Id, address: *const sockaddr) -> Result<()> {
    // SAFETY: as promised.
    let address = unsafe { address::read(address)? };
    id.attach()?;
    id.with(|id| id.bind(address))?;
    id.show()
}

/// Gives an identifier an own address and port; port 0: a free one. The unspecified address is every address of the card.
///
/// # Safety
/// The identifier lives, `addr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    // SAFETY: as promised.
    zero("rdma_bind_addr", unsafe { bind(Id::of(id), addr) })
}

/// # Safety
/// The addresses are valid; the source may be null.
pub unsafe fn resolve_address(
    id: &Id,
    source: *const sockaddr,
    destination: *const sockaddr,
    timeout_ms: c_int,
) -> Result<()> {
    // SAFETY: as promised.
    let (destination, given) = unsafe { (address::read(destination)?, address::copy(destination)) };
    let source = match source.is_null() {
        true => None,
        // SAFETY: as promised.
        false => Some(unsafe { address::read(source)? }),
    };
    id.attach()?;
    id.with(|service| {
        // The event, whose address counts, may be taken by another thread before this call ends: that waits for the lock.
        let _own = id.own();
        service.resolve_address(source, destination, timeout(timeout_ms))?;
        // SAFETY: the program reads the member after the call.
        unsafe { (*id.pointer()).route.addr.dst.dst_storage = given };
        Ok(())
    })?;
    id.complete()
}

/// Looks for the way to an address: the event `ADDR_RESOLVED` or `ADDR_ERROR` follows.
///
/// # Safety
/// The identifier lives, the addresses are valid; `src_addr` may be null.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_resolve_addr(
    id: *mut rdma_cm_id,
    src_addr: *mut sockaddr,
    dst_addr: *mut sockaddr,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as promised.
    zero("rdma_resolve_addr", unsafe { resolve_address(Id::of(id), src_addr, dst_addr, timeout_ms) })
}

/// Finds the route.
pub fn resolve_route(id: &Id) -> Result<()> {
    id.with(ferrowire_net::rdma::Id::resolve_route)?;
    id.complete()
}

/// Finds the route: the event `ROUTE_RESOLVED` follows. Ethernet has the route with the address, so there is nothing to wait for.
///
/// # Safety
/// The identifier lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_resolve_route(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int {
    let _ = timeout_ms;
    // SAFETY: as promised.
    zero("rdma_resolve_route", resolve_route(unsafe { Id::of(id) }))
}

fn listen(id: &Id, backlog: c_int) -> Result<()> {
    id.attach()?;
    // What is negative is as good as 0: as many as can be.
    let backlog = u32::try_from(backlog).unwrap_or(0);
    id.with(|id| id.listen(backlog))?;
    id.show()?;
    if let Some(local) = id.with(|id| Ok(id.local()))? {
        say!("rdma_listen: at {local}");
    }
    Ok(())
}

/// Takes requests: each is an event `CONNECT_REQUEST`.
///
/// # Safety
/// The identifier lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    // SAFETY: as promised.
    zero("rdma_listen", listen(unsafe { Id::of(id) }, backlog))
}

/// Port of an address that a program sees.
///
/// # Safety
/// The address is valid.
unsafe fn port(address: *const sockaddr_storage) -> be16 {
    // SAFETY: as promised.
    unsafe {
        match (*address).ss_family {
            address::INET => (*address.cast::<sockaddr_in>()).sin_port,
            address::INET6 => (*address.cast::<sockaddr_in6>()).sin6_port,
            _ => 0,
        }
    }
}

/// The own port, in network byte order; 0: there is none yet.
///
/// # Safety
/// The identifier lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_get_src_port(id: *mut rdma_cm_id) -> be16 {
    // SAFETY: as promised.
    unsafe { port(core::ptr::addr_of!((*id).route.addr.src).cast()) }
}

/// The other side's port, in network byte order; 0: there is none yet.
///
/// # Safety
/// The identifier lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_get_dst_port(id: *mut rdma_cm_id) -> be16 {
    // SAFETY: as promised.
    unsafe { port(core::ptr::addr_of!((*id).route.addr.dst).cast()) }
}

/// A listener of `rdma_create_ep` gets its address.
///
/// # Safety
/// The address is null or valid.
pub unsafe fn bind_to(id: &Id, address: *const sockaddr) -> Result<()> {
    if address.is_null() {
        return Err(Failure::invalid("ai_src_addr is null; a listener needs an address"));
    }
    // SAFETY: as promised.
    unsafe { bind(id, address) }
}

const _: cma_functions::rdma_bind_addr = ferrowire_rdma_bind_addr;
const _: cma_functions::rdma_resolve_addr = ferrowire_rdma_resolve_addr;
const _: cma_functions::rdma_resolve_route = ferrowire_rdma_resolve_route;
const _: cma_functions::rdma_listen = ferrowire_rdma_listen;
const _: cma_functions::rdma_get_src_port = ferrowire_rdma_get_src_port;
const _: cma_functions::rdma_get_dst_port = ferrowire_rdma_get_dst_port;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_addresses_and_0_without_one() {
        let mut id = rdma_cm_id::zeroed();
        id.route.addr.src.src_storage = address::storage("10.0.0.1:7174".parse().unwrap());
        // SAFETY: it is valid.
        unsafe {
            assert_eq!(ferrowire_rdma_get_src_port(&mut id), 7174u16.to_be());
            assert_eq!(ferrowire_rdma_get_dst_port(&mut id), 0);
        }
        id.route.addr.dst.dst_storage = address::storage("[fd00::1]:20079".parse().unwrap());
        // SAFETY: as above.
        assert_eq!(unsafe { ferrowire_rdma_get_dst_port(&mut id) }, 20079u16.to_be());
    }
}
