// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses: of C programs, of the service, and of verbs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;

use ferrowire::AddressVector;
use ferrowire_cards::gids;
use ferrowire_net::rdma::Route;
use rustix::io::Errno;

use crate::abi::*;
use crate::card::Card;
use crate::failure::{Failure, Result};
use crate::query::mtu_code;

/// `AF_INET`.
pub const INET: u16 = 2;
/// `AF_INET6`.
pub const INET6: u16 = 10;
/// `AF_IB`: addresses of InfiniBand.
pub const IB: u16 = 27;

/// The only port of a card.
pub const PORT: u8 = 1;

/// Selector of a path record: exactly the value (IBTA 15.2.5.16).
const EXACTLY: u8 = 2;

/// Reads a program's address.
///
/// # Safety
/// It is null, or valid as its family says.
pub unsafe fn read(address: *const sockaddr) -> Result<SocketAddr> {
    if address.is_null() {
        return Err(Failure::invalid("the address is null"));
    }
    // SAFETY: as promised; programs may put it anywhere.
    match unsafe { ptr::addr_of!((*address).sa_family).read_unaligned() } {
        INET => {
            // SAFETY: as promised.
            let v4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        INET6 => {
            // SAFETY: as promised.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(
                v6.sin6_addr
                    .words
                    .map(u32::from_be)
                    .map(u128::from)
                    .iter()
                    .fold(0u128, |all, word| all << 32 | word),
            );
            let port = u16::from_be(v6.sin6_port);
            // What is mapped is of IPv4, as with sockets.
            match ip.to_canonical() {
                IpAddr::V4(ip) => Ok(SocketAddr::new(ip.into(), port)),
                IpAddr::V6(ip) => Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into()),
            }
        }
        IB => Err(Failure::unsupported("addresses of the family AF_IB; give one of AF_INET or AF_INET6")),
        other => Err(Failure::text(Errno::INVAL, format!("sa_family {other}: neither AF_INET nor AF_INET6"))),
    }
}

/// A program's address as it is, as far as its family goes.
///
/// # Safety
/// It is valid as its family says.
pub unsafe fn copy(address: *const sockaddr) -> sockaddr_storage {
    let mut all = sockaddr_storage::zeroed();
    // SAFETY: as promised; the storage has room for all families.
    unsafe {
        let family = ptr::addr_of!((*address).sa_family).read_unaligned();
        let bytes = length(family) as usize;
        ptr::copy_nonoverlapping(address.cast::<u8>(), ptr::addr_of_mut!(all).cast::<u8>(), bytes);
    }
    all
}

/// An address as C programs have it.
pub fn storage(address: SocketAddr) -> sockaddr_storage {
    let mut all = sockaddr_storage::zeroed();
    let port = address.port().to_be();
    match address {
        SocketAddr::V4(address) => {
            let v4 = sockaddr_in {
                sin_family: INET,
                sin_port: port,
                sin_addr: in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage has room for it and its alignment.
            unsafe { ptr::addr_of_mut!(all).cast::<sockaddr_in>().write(v4) };
        }
        SocketAddr::V6(address) => {
            let ip = u128::from(*address.ip());
            let [a, b, c, d] = [96, 64, 32, 0].map(|shift| ((ip >> shift) as u32).to_be());
            let v6 = sockaddr_in6 {
                sin6_family: INET6,
                sin6_port: port,
                // As the program has given it: neither side looks into it.
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: in6_addr { words: [a, b, c, d] },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { ptr::addr_of_mut!(all).cast::<sockaddr_in6>().write(v6) };
        }
    }
    all
}

/// Bytes of an address of a family; 0: the family is unknown.
pub fn length(family: u16) -> socklen_t {
    match family {
        INET => size_of::<sockaddr_in>() as socklen_t,
        INET6 => size_of::<sockaddr_in6>() as socklen_t,
        _ => 0,
    }
}

/// An address as a GID.
pub fn gid(ip: IpAddr) -> ibv_gid {
    ibv_gid { raw: gids::as_v6(ip).octets() }
}

/// A way as verbs have it, for `ibv_create_ah` and `ibv_modify_qp`.
pub fn ah_attr(card: &Card, way: &AddressVector) -> ibv_ah_attr {
    let own = gids::as_v6(way.src_ip);
    let index = card.gids().into_iter().position(|ip| gids::as_v6(ip) == own).unwrap_or(0);
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: gid(way.dst_ip),
            flow_label: way.flow_label,
            sgid_index: index as u8,
            hop_limit: way.hop_limit,
            traffic_class: way.traffic_class,
        },
        is_global: 1,
        port_num: PORT,
        ..ibv_ah_attr::zeroed()
    }
}

/// A route as a record of a path.
pub fn path(route: &Route) -> ibv_sa_path_rec {
    let way = &route.way;
    ibv_sa_path_rec {
        dgid: gid(way.dst_ip),
        sgid: gid(way.src_ip),
        flow_label: way.flow_label.to_be(),
        hop_limit: way.hop_limit,
        traffic_class: way.traffic_class,
        reversible: 1,
        numb_path: 1,
        pkey: route.pkey.to_be(),
        mtu_selector: EXACTLY,
        mtu: mtu_code(route.path_mtu) as u8,
        rate_selector: EXACTLY,
        rate: IBV_RATE_MAX as u8,
        packet_life_time_selector: EXACTLY,
        // An ACK takes the time of two packets (IBTA 12.7.34).
        packet_life_time: route.ack_timeout.saturating_sub(1),
        ..ibv_sa_path_rec::zeroed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_c_come_back_as_they_were() {
        let texts =
            ["10.7.0.1:7174", "0.0.0.0:0", "[fd00::1:2]:20079", "[::]:1", "[fe80::fe:ff:fe00:1%3]:65535"];
        let flow = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 7, 0x0123_4567, 9).into();
        for address in texts.into_iter().map(|text| text.parse().unwrap()).chain([flow]) {
            let all = storage(address);
            // SAFETY: it was written just now.
            assert_eq!(unsafe { read(ptr::addr_of!(all).cast()) }.unwrap(), address);
            // SAFETY: as above.
            let copied = unsafe { copy(ptr::addr_of!(all).cast()) };
            // SAFETY: as above.
            assert_eq!(unsafe { read(ptr::addr_of!(copied).cast()) }.unwrap(), address);
            assert!(length(all.ss_family) > 0);
        }
    }

    #[test]
    fn addresses_of_other_families_are_refused_and_mapped_ones_are_of_ipv4() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(ptr::null()) }.unwrap_err().errno, Errno::INVAL);
        let family = |ss_family| sockaddr_storage { ss_family, ..sockaddr_storage::zeroed() };
        for (of, errno) in [(IB, Errno::OPNOTSUPP), (1, Errno::INVAL), (0, Errno::INVAL)] {
            let address = family(of);
            // SAFETY: it has room for any.
            assert_eq!(unsafe { read(ptr::addr_of!(address).cast()) }.unwrap_err().errno, errno);
        }
        let mut mapped = storage("[::1]:7".parse().unwrap());
        let words = ["::ffff:10.0.0.1".parse::<Ipv6Addr>().unwrap()];
        let [a, b, c, d] = [96, 64, 32, 0].map(|shift| ((u128::from(words[0]) >> shift) as u32).to_be());
        // SAFETY: it is an IPv6 address.
        unsafe { (*ptr::addr_of_mut!(mapped).cast::<sockaddr_in6>()).sin6_addr.words = [a, b, c, d] };
        // SAFETY: as above.
        assert_eq!(unsafe { read(ptr::addr_of!(mapped).cast()) }.unwrap(), "10.0.0.1:7".parse().unwrap());
    }
}
