// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Ah`]: address handles of datagrams.

use core::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ferrowire::AddressHandle;
use ferrowire_cards::gids;
use rustix::io::Errno;

use crate::abi::*;
use crate::context::Context;
use crate::cq::{PACKET_IPV4, PACKET_IPV6};
use crate::failure::{number, pointer, report, signed, Failure, Result};
use crate::modify::address_vector;
use crate::pd::Pd;
use crate::query::check_port;
use crate::raw::{object, Raw};

/// An address handle.
#[repr(C)]
pub struct Ah {
    base: Raw<ibv_ah>,
    /// The handle as the driver has it.
    pub handle: AddressHandle,
}

object!(Ah, ibv_ah);

fn create(pd: &Pd, attr: &ibv_ah_attr) -> Result<*mut ibv_ah> {
    let card = pd.context().card()?;
    let vector = address_vector(card, attr)?;
    let handle = pd.domain().create_ah(&vector)?;
    let base = ibv_ah { context: pd.context_pointer(), pd: pd.pointer(), handle: handle.number() };
    pd.users.add();
    Ok(Box::new(Ah { base: Raw::new(base), handle }).give())
}

/// Creates an address handle.
///
/// # Safety
/// The domain lives, `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: as promised.
    pointer("ibv_create_ah", create(unsafe { Pd::of(pd) }, unsafe { &*attr }))
}

/// What the 40 bytes before a datagram say: IPv6's header, or 20 bytes that mean nothing and IPv4's (IBTA A17.4.5.2).
#[derive(Debug, PartialEq, Eq)]
struct Received {
    source: IpAddr,
    destination: IpAddr,
    traffic_class: u8,
    flow_label: u32,
    hop_limit: u8,
}

/// Whether a datagram's packet was of IPv4: what its completion says, or the header where the program made the completion itself, without
/// the member that says it. The 20 bytes before an IPv4 header are zeros.
fn is_ipv4(sl: u8, header: &[u8; 40]) -> bool {
    match sl {
        PACKET_IPV4 => true,
        PACKET_IPV6 => false,
        _ => header[0] >> 4 != 6,
    }
}

impl Received {
    fn parse(bytes: &[u8; 40], ipv4: bool) -> Option<Self> {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let v4 = |at: usize| IpAddr::from(Ipv4Addr::from(word(at)));
        let v6 = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[at..at + 16]);
            IpAddr::from(Ipv6Addr::from(octets))
        };
        if !ipv4 {
            let first = word(0);
            return (bytes[0] >> 4 == 6).then(|| Self {
                source: v6(8),
                destination: v6(24),
                traffic_class: (first >> 20) as u8,
                flow_label: first & 0xf_ffff,
                hop_limit: bytes[7],
            });
        }
        (bytes[20] >> 4 == 4).then(|| Self {
            source: v4(32),
            destination: v4(36),
            traffic_class: bytes[21],
            flow_label: 0,
            hop_limit: bytes[28],
        })
    }
}

/// The way back to the sender of a datagram.
fn back(context: &Context, port_num: u8, wc: &ibv_wc, header: &[u8; 40]) -> Result<ibv_ah_attr> {
    check_port(port_num.into())?;
    if wc.wc_flags & IBV_WC_GRH == 0 {
        return Err(Failure::invalid("the completion is of no datagram: wc_flags lacks IBV_WC_GRH"));
    }
    let came = Received::parse(header, is_ipv4(wc.sl, header))
        .ok_or(Failure::invalid("grh does not hold the IP header of the packet"))?;
    let own = gids::as_v6(came.destination);
    let index = context.gids()?.iter().position(|gid| *gid == own).ok_or_else(|| {
        Failure::text(Errno::INVAL, format!("{} is no address of the port", came.destination))
    })?;
    Ok(ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: gids::as_v6(came.source).octets() },
            flow_label: came.flow_label,
            sgid_index: index as u8,
            // That of the way back is not known: as long as can be.
            hop_limit: 0xff,
            traffic_class: came.traffic_class,
        },
        // What the completion has there is no service level.
        sl: 0,
        is_global: 1,
        port_num,
        ..ibv_ah_attr::zeroed()
    })
}

/// The way back to the sender of a datagram.
///
/// # Safety
/// The context is open, the other pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port_num: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    ah_attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: as promised; a header has 40 bytes.
    let found = unsafe { back(Context::of(context), port_num, &*wc, &*grh.cast::<[u8; 40]>()) };
    let result = found.map(|found| {
        // SAFETY: as promised.
        unsafe { *ah_attr = found };
        0
    });
    signed("ibv_init_ah_from_wc", result)
}

/// An address handle of the way back to the sender of a datagram.
///
/// # Safety
/// The domain lives, the other pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port_num: u8,
) -> *mut ibv_ah {
    // SAFETY: as promised.
    let pd = unsafe { Pd::of(pd) };
    // SAFETY: as promised; a header has 40 bytes.
    let found = unsafe { back(pd.context(), port_num, &*wc, &*grh.cast::<[u8; 40]>()) };
    pointer("ibv_create_ah_from_wc", found.and_then(|attr| create(pd, &attr)))
}

/// Destroys an address handle.
///
/// # Safety
/// The handle lives, and is not used any more.
#[no_mangle]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: as promised; a domain outlives its handles.
    let pd = unsafe { Pd::of((*ah).pd) };
    if pd.context().is_inherited() {
        return 0;
    }
    // SAFETY: as promised.
    let own = unsafe { Ah::back(ah) };
    pd.users.remove();
    if let Err(error) = own.handle.destroy() {
        report("ibv_destroy_ah", &error.into());
    }
    0
}

/// The MAC address and the VLAN to which packets for an address go.
///
/// # Safety
/// The context is open, `attr` is valid, `eth_mac` has room for 6 bytes, `vid` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    eth_mac: *mut u8,
    vid: *mut u16,
) -> c_int {
    /// No VLAN.
    const NONE: u16 = 0xffff;
    // SAFETY: as promised.
    let (context, attr) = unsafe { (Context::of(context), &*attr) };
    let found = context.card().and_then(|card| address_vector(card, attr));
    let result = found.map(|way| {
        // SAFETY: as promised.
        unsafe {
            core::ptr::copy_nonoverlapping(way.dst_mac.as_ptr(), eth_mac, 6);
            if !vid.is_null() {
                *vid = NONE;
            }
        }
    });
    number("ibv_resolve_eth_l2_from_gid", result)
}

const _: functions::ibv_create_ah = ibv_create_ah;
const _: functions::ibv_init_ah_from_wc = ibv_init_ah_from_wc;
const _: functions::ibv_create_ah_from_wc = ibv_create_ah_from_wc;
const _: functions::ibv_destroy_ah = ibv_destroy_ah;
const _: functions::ibv_resolve_eth_l2_from_gid = ibv_resolve_eth_l2_from_gid;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_before_a_datagram_is_of_either_family() {
        let mut v4 = [0; 40];
        v4[20..].copy_from_slice(&[0x45, 0x08, 0, 100, 0, 0, 0, 0, 63, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let came = Received::parse(&v4, true).unwrap();
        assert_eq!((came.source, came.destination), ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        assert_eq!((came.traffic_class, came.hop_limit, came.flow_label), (8, 63, 0));
        let mut v6 = [0; 40];
        v6[..8].copy_from_slice(&[0x6a, 0xb1, 0x23, 0x45, 0, 100, 17, 64]);
        v6[23] = 1;
        v6[39] = 2;
        let came = Received::parse(&v6, false).unwrap();
        assert_eq!((came.source, came.destination), ("::1".parse().unwrap(), "::2".parse().unwrap()));
        assert_eq!((came.traffic_class, came.hop_limit, came.flow_label), (0xab, 64, 0x12345));
        for ipv4 in [true, false] {
            assert_eq!(Received::parse(&[0; 40], ipv4), None);
        }
        assert_eq!((Received::parse(&v4, false), Received::parse(&v6, true)), (None, None));
        // The completion decides, whatever looks like a version in the 20 bytes before an IPv4 header.
        v4[0] = 0x60;
        assert!(is_ipv4(PACKET_IPV4, &v4) && !is_ipv4(PACKET_IPV6, &v4));
        assert!(!is_ipv4(0, &v6) && is_ipv4(0, &[0; 40]));
    }
}
