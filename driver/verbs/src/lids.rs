// SPDX-License-Identifier: MIT OR Apache-2.0
//! LIDs: addresses of InfiniBand, which RoCE does not have, for programs that know no other. qperf is one.
//!
//! With `FERROWIRE_LIDS=1` the LID of a port is the low half of its first IPv4 address, and a LID without a GRH names the station whose IPv4 address has
//! that low half, and the high half of the port's own. Without the variable the LID is 0, and an address needs a GRH (IBTA A17.4.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use crate::abi::*;
use crate::failure::{Failure, Result};
use crate::log::say;

/// The environment variable.
const LIDS: &str = "FERROWIRE_LIDS";

/// The permissive LID, which is of no station (IBTA 4.1.3). RoCE has no multicast LIDs, so all below are of stations.
const PERMISSIVE: u16 = 0xffff;

/// Whether this process has LIDs.
fn wanted() -> bool {
    std::env::var_os(LIDS).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The index of the first IPv4 address, and the address.
fn first(gids: &[Ipv6Addr]) -> Option<(usize, Ipv4Addr)> {
    let v4 = |gid: &Ipv6Addr| match gid.to_canonical() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    };
    gids.iter().enumerate().find_map(|(index, gid)| Some((index, v4(gid)?)))
}

/// The two halves of an address.
fn halves(ip: Ipv4Addr) -> (u16, u16) {
    let bits = ip.to_bits();
    ((bits >> 16) as u16, bits as u16)
}

/// The LID of a port with these GIDs, 0 for none.
pub fn own(gids: &[Ipv6Addr]) -> u16 {
    match first(gids) {
        Some((_, ip)) if wanted() => of(ip),
        _ => 0,
    }
}

/// The LID of an address, 0 if it has none.
fn of(ip: Ipv4Addr) -> u16 {
    match halves(ip).1 {
        lid @ (0 | PERMISSIVE) => {
            say!("{ip}: no LID can be made of an address that ends with {lid:#06x}");
            0
        }
        lid => lid,
    }
}

/// The route to a LID from a port with these GIDs.
///
/// # Errors
/// This process has no LIDs, the port has no IPv4 address, or it is no LID of a station.
pub fn route(gids: &[Ipv6Addr], lid: u16) -> Result<ibv_global_route> {
    if !wanted() {
        return Err(Failure::invalid(
            "is_global is 0; RoCE needs a GRH with the GIDs of both ends: give the program an index of a GID (often -g or -x); for one that knows LIDs alone, set FERROWIRE_LIDS=1 for all programs",
        ));
    }
    to(gids, lid)
}

fn to(gids: &[Ipv6Addr], lid: u16) -> Result<ibv_global_route> {
    let (index, own) = first(gids).ok_or(Failure::invalid(
        "FERROWIRE_LIDS is set, and the port has no IPv4 address of which a LID could be made",
    ))?;
    if matches!(lid, 0 | PERMISSIVE) {
        return Err(Failure::text(Errno::INVAL, format!("dlid {lid:#x} is of no station")));
    }
    let peer = Ipv4Addr::from_bits(u32::from(halves(own).0) << 16 | u32::from(lid));
    Ok(ibv_global_route {
        dgid: ibv_gid { raw: peer.to_ipv6_mapped().octets() },
        sgid_index: index as u8,
        ..ibv_global_route::zeroed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lid_is_the_low_half_of_an_ipv4_address() {
        let gids: Vec<Ipv6Addr> =
            ["fe80::1", "::ffff:10.7.1.2", "::ffff:10.8.0.1"].map(|gid| gid.parse().unwrap()).into();
        let route = to(&gids, 0x0103).unwrap();
        // SAFETY: all its bytes are numbers.
        let peer = Ipv6Addr::from(unsafe { route.dgid.raw });
        assert_eq!((route.sgid_index, peer), (1, "::ffff:10.7.1.3".parse().unwrap()));
        assert_eq!(first(&gids).map(|(_, ip)| halves(ip).1), Some(0x0102));
    }

    #[test]
    fn each_lid_that_a_port_has_leads_to_it() {
        let gids: Vec<Ipv6Addr> = vec!["::ffff:10.7.1.2".parse().unwrap()];
        for ip in ["10.7.192.1", "10.7.255.254", "10.7.0.1"] {
            let lid = of(ip.parse().unwrap());
            // SAFETY: all its bytes are numbers.
            let peer = Ipv6Addr::from(unsafe { to(&gids, lid).unwrap().dgid.raw });
            assert_eq!(peer, format!("::ffff:{ip}").parse::<Ipv6Addr>().unwrap());
        }
        assert_eq!(["10.7.0.0", "10.7.255.255"].map(|ip| of(ip.parse().unwrap())), [0, 0]);
    }

    #[test]
    fn lids_of_no_station_are_refused() {
        let gids: Vec<Ipv6Addr> = vec!["::ffff:10.7.1.2".parse().unwrap()];
        for lid in [0, PERMISSIVE] {
            assert!(to(&gids, lid).is_err(), "{lid:#x}");
        }
        assert!(to(&["fe80::1".parse().unwrap()], 1).is_err());
        // Without the variable there are none.
        assert_eq!(own(&gids), 0);
        assert!(route(&gids, 1).is_err());
    }
}
