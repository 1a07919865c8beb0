// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rdma_getaddrinfo`: names of hosts and services, by `getaddrinfo` of the C library.
//!
//! Structures and addresses are memory of the C library's allocator: programs put addresses of their own into them, and `rdma_freeaddrinfo` frees these.

use core::ffi::{c_char, c_int};
use std::ptr;

use rustix::io::Errno;

use super::address::{self, INET, INET6};
use crate::abi::*;
use crate::failure::{report, Failure, Result};
use crate::sys::{self, addrinfo, set_errno};

/// `AI_PASSIVE` of `getaddrinfo`.
const AI_PASSIVE: c_int = 1;
/// `AI_NUMERICHOST`.
const AI_NUMERICHOST: c_int = 4;
/// `SOCK_STREAM`.
const STREAM: c_int = 1;
/// `SOCK_DGRAM`.
const DATAGRAM: c_int = 2;
/// `EAI_MEMORY`: there is no memory.
const EAI_MEMORY: c_int = -10;
/// `EAI_SYSTEM`: `errno` says why.
const EAI_SYSTEM: c_int = -11;

/// Why there is no result: a number of `getaddrinfo`, or `errno`.
enum Refusal {
    Names(c_int),
    Failure(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Type of queue pair and port space, of hints that name one of them, both or none.
fn kinds(hints: Option<&rdma_addrinfo>) -> Result<(ibv_qp_type, rdma_port_space)> {
    let (kind, space) = hints.map_or((0, 0), |hints| (hints.ai_qp_type, hints.ai_port_space));
    let (kind, space) = (kind as ibv_qp_type, space as rdma_port_space);
    let kind_of = |space| match space {
        RDMA_PS_UDP | RDMA_PS_IPOIB => IBV_QPT_UD,
        _ => IBV_QPT_RC,
    };
    let space_of = |kind| if kind == IBV_QPT_UD { RDMA_PS_UDP } else { RDMA_PS_TCP };
    match space {
        0 | RDMA_PS_IPOIB | RDMA_PS_TCP | RDMA_PS_UDP | RDMA_PS_IB => {}
        other => {
            return Err(Failure::text(Errno::INVAL, format!("ai_port_space {other:#x} is unknown")));
        }
    }
    Ok(match (kind, space) {
        (0, 0) => (IBV_QPT_RC, RDMA_PS_TCP),
        (0, space) => (kind_of(space), space),
        (kind, 0) => (kind, space_of(kind)),
        both => both,
    })
}

/// A copy in memory of the C library. `Ok` of null: there is none to copy.
///
/// # Safety
/// The address is null or has so many bytes.
unsafe fn copy(from: *const sockaddr, length: socklen_t) -> Result<*mut sockaddr, Refusal> {
    if from.is_null() || length == 0 {
        return Ok(ptr::null_mut());
    }
    // Programs write other addresses over it.
    let room = (length as usize).max(size_of::<sockaddr_storage>());
    let to = sys::calloc(room).cast::<sockaddr>();
    if to.is_null() {
        return Err(Refusal::Names(EAI_MEMORY));
    }
    // SAFETY: as promised, and there is room.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), length as usize) };
    Ok(to)
}

/// Asks the C library.
///
/// # Safety
/// The names are null or end.
unsafe fn ask(
    node: *const c_char,
    service: *const c_char,
    flags: c_int,
    family: c_int,
    kind: ibv_qp_type,
    to: &mut rdma_addrinfo,
) -> Result<(), Refusal> {
    let passive = flags & RAI_PASSIVE != 0;
    let hints = addrinfo {
        ai_flags: if passive { AI_PASSIVE } else { 0 }
            | if flags & RAI_NUMERICHOST != 0 { AI_NUMERICHOST } else { 0 },
        // Without the flag it is a family that is liked, and the port spaces have the numbers of sockets.
        ai_family: if flags & RAI_FAMILY != 0 { family } else { 0 },
        ai_socktype: if kind == IBV_QPT_UD { DATAGRAM } else { STREAM },
        ..addrinfo::EMPTY
    };
    let mut found = ptr::null_mut();
    // SAFETY: as promised.
    let result = unsafe { sys::getaddrinfo(node, service, &hints, &mut found) };
    if result != 0 {
        return Err(Refusal::Names(result));
    }
    // SAFETY: the list has one at least, and lives until it is freed.
    unsafe {
        // A family that is liked comes first.
        let mut one = found;
        while !one.is_null() && family != 0 && (*one).ai_family != family {
            one = (*one).ai_next;
        }
        let one = if one.is_null() { found } else { one };
        to.ai_family = (*one).ai_family;
        let copied = copy((*one).ai_addr, (*one).ai_addrlen).map(|address| {
            if passive {
                (to.ai_src_addr, to.ai_src_len) = (address, (*one).ai_addrlen);
            } else {
                (to.ai_dst_addr, to.ai_dst_len) = (address, (*one).ai_addrlen);
            }
        });
        sys::freeaddrinfo(found);
        copied
    }
}

/// # Safety
/// As of `rdma_getaddrinfo`.
unsafe fn get(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
    to: &mut rdma_addrinfo,
) -> Result<(), Refusal> {
    let (kind, space) = kinds(hints)?;
    (to.ai_qp_type, to.ai_port_space) = (kind as c_int, space as c_int);
    let (flags, family) = hints.map_or((0, 0), |hints| (hints.ai_flags, hints.ai_family));
    to.ai_flags = flags;
    if ![0, c_int::from(INET), c_int::from(INET6)].contains(&family) {
        let why = format!("ai_family {family}: neither AF_INET nor AF_INET6");
        return Err(Failure::text(Errno::OPNOTSUPP, why).into());
    }
    if node.is_null() && service.is_null() && hints.is_none() {
        return Err(Failure::invalid("there is neither a name nor a service nor a hint").into());
    }
    if !node.is_null() || !service.is_null() {
        // SAFETY: as promised.
        unsafe { ask(node, service, flags, family, kind, to)? };
    } else {
        to.ai_family = family;
    }
    let Some(hints) = hints else { return Ok(()) };
    // What a name has not given, hints may.
    if to.ai_src_addr.is_null() && !hints.ai_src_addr.is_null() {
        // SAFETY: as promised.
        to.ai_src_addr = unsafe { copy(hints.ai_src_addr, hints.ai_src_len)? };
        to.ai_src_len = hints.ai_src_len;
    }
    if to.ai_dst_addr.is_null() && !hints.ai_dst_addr.is_null() {
        // SAFETY: as promised.
        to.ai_dst_addr = unsafe { copy(hints.ai_dst_addr, hints.ai_dst_len)? };
        to.ai_dst_len = hints.ai_dst_len;
    }
    for address in [to.ai_dst_addr, to.ai_src_addr] {
        // SAFETY: it was copied just now.
        if to.ai_family == 0 && !address.is_null() && address::length(unsafe { (*address).sa_family }) > 0 {
            // SAFETY: as above.
            to.ai_family = unsafe { (*address).sa_family }.into();
        }
    }
    Ok(())
}

/// Finds the addresses of a name and of a service. Returns 0, a number of `getaddrinfo` for `gai_strerror`, or -1 with `errno`.
///
/// # Safety
/// The names are null or end, `hints` is null or valid, `res` is valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> c_int {
    const CALL: &str = "rdma_getaddrinfo";
    let to = sys::calloc(size_of::<rdma_addrinfo>()).cast::<rdma_addrinfo>();
    if to.is_null() {
        return EAI_MEMORY;
    }
    // SAFETY: as promised; the memory is new, and zero is a value of each member.
    let result = unsafe { get(node, service, hints.as_ref(), &mut *to) };
    match result {
        Ok(()) => {
            // SAFETY: as promised.
            unsafe { *res = to };
            0
        }
        Err(refusal) => {
            // SAFETY: it was made just now.
            unsafe { ferrowire_rdma_freeaddrinfo(to) };
            match refusal {
                Refusal::Names(EAI_SYSTEM) => EAI_SYSTEM,
                Refusal::Names(number) => {
                    let why = format!("the name or the service is not found: {number} of getaddrinfo(3)");
                    report(CALL, &Failure::text(Errno::NODATA, why));
                    number
                }
                Refusal::Failure(failure) => {
                    set_errno(report(CALL, &failure));
                    -1
                }
            }
        }
    }
}

/// Frees what `rdma_getaddrinfo` has made.
///
/// # Safety
/// The list is null, or came from `rdma_getaddrinfo` and was not freed.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    let mut one = res;
    while !one.is_null() {
        // SAFETY: as promised: all parts are memory of the C library, or null.
        unsafe {
            let next = (*one).ai_next;
            let parts = [
                (*one).ai_src_addr.cast(),
                (*one).ai_dst_addr.cast(),
                (*one).ai_src_canonname.cast(),
                (*one).ai_dst_canonname.cast(),
                (*one).ai_route,
                (*one).ai_connect,
                one.cast(),
            ];
            for part in parts {
                sys::free(part);
            }
            one = next;
        }
    }
}

const _: cma_functions::rdma_getaddrinfo = ferrowire_rdma_getaddrinfo;
const _: cma_functions::rdma_freeaddrinfo = ferrowire_rdma_freeaddrinfo;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn find(
        node: &core::ffi::CStr,
        hints: rdma_addrinfo,
    ) -> (rdma_addrinfo, Option<SocketAddr>, Option<SocketAddr>) {
        let mut found = ptr::null_mut();
        // SAFETY: all are valid; the result is freed once.
        unsafe {
            let result = ferrowire_rdma_getaddrinfo(node.as_ptr(), c"7174".as_ptr(), &hints, &mut found);
            assert_eq!(result, 0);
            let address = |at: *mut sockaddr| (!at.is_null()).then(|| address::read(at).unwrap());
            let all = (*found, address((*found).ai_src_addr), address((*found).ai_dst_addr));
            ferrowire_rdma_freeaddrinfo(found);
            all
        }
    }

    #[test]
    fn names_become_addresses_of_the_side_that_is_asked_for() {
        let none = rdma_addrinfo::zeroed();
        let (info, source, destination) = find(c"10.7.0.1", none);
        assert_eq!((source, destination), (None, Some("10.7.0.1:7174".parse().unwrap())));
        assert_eq!((info.ai_qp_type as u32, info.ai_port_space as u32), (IBV_QPT_RC, RDMA_PS_TCP));
        let passive = rdma_addrinfo { ai_flags: RAI_PASSIVE, ai_port_space: RDMA_PS_UDP as c_int, ..none };
        let (info, source, destination) = find(c"fd00::1", passive);
        assert_eq!((source, destination), (Some("[fd00::1]:7174".parse().unwrap()), None));
        assert_eq!((info.ai_qp_type as u32, info.ai_port_space as u32), (IBV_QPT_UD, RDMA_PS_UDP));
        assert_eq!((info.ai_family, info.ai_src_len), (INET6.into(), 28));
    }

    #[test]
    fn an_address_of_the_hints_is_copied() {
        let mut own = address::storage("10.7.0.2:0".parse().unwrap());
        let hints = rdma_addrinfo {
            ai_src_addr: ptr::addr_of_mut!(own).cast(),
            ai_src_len: 16,
            ..rdma_addrinfo::zeroed()
        };
        let (info, source, destination) = find(c"10.7.0.1", hints);
        assert_eq!(source, Some("10.7.0.2:0".parse().unwrap()));
        assert_eq!(destination, Some("10.7.0.1:7174".parse().unwrap()));
        assert!(!ptr::addr_eq(info.ai_src_addr, &own));
    }

    #[test]
    fn what_is_not_found_has_a_number_of_getaddrinfo_and_what_makes_no_sense_an_errno() {
        let mut found = ptr::null_mut();
        let numeric = rdma_addrinfo { ai_flags: RAI_NUMERICHOST, ..rdma_addrinfo::zeroed() };
        // SAFETY: all are valid.
        unsafe {
            let result =
                ferrowire_rdma_getaddrinfo(c"no-address".as_ptr(), ptr::null(), &numeric, &mut found);
            assert_eq!(result, -2);
            assert_eq!(ferrowire_rdma_getaddrinfo(ptr::null(), ptr::null(), ptr::null(), &mut found), -1);
        }
        assert!(found.is_null());
    }
}
