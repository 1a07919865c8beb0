// SPDX-License-Identifier: MIT OR Apache-2.0
//! Echo requests and their answers (RFC 792, RFC 4443).

use std::net::IpAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr};

/// An echo request.
pub(crate) fn request(own: IpAddr, ip: IpAddr, ident: u16, data: &[u8]) -> Vec<u8> {
    let checksums = ChecksumCapabilities::default();
    match (own, ip) {
        (IpAddr::V6(own), IpAddr::V6(ip)) => {
            let repr = Icmpv6Repr::EchoRequest { ident, seq_no: 0, data };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&own, &ip, &mut Icmpv6Packet::new_unchecked(&mut bytes[..]), &checksums);
            bytes
        }
        _ => {
            let repr = Icmpv4Repr::EchoRequest { ident, seq_no: 0, data };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes[..]), &checksums);
            bytes
        }
    }
}

/// Whether an ICMP packet is the answer.
pub(crate) fn is_reply(packet: &[u8], ip: IpAddr, own: IpAddr, ident: u16, data: &[u8]) -> bool {
    let checksums = ChecksumCapabilities::default();
    match (ip, own) {
        (IpAddr::V6(ip), IpAddr::V6(own)) => {
            let Ok(packet) = Icmpv6Packet::new_checked(packet) else { return false };
            let repr = Icmpv6Repr::parse(&ip, &own, &packet, &checksums);
            matches!(repr, Ok(Icmpv6Repr::EchoReply { ident: i, data: d, .. }) if i == ident && d == data)
        }
        _ => {
            let Ok(packet) = Icmpv4Packet::new_checked(packet) else { return false };
            let repr = Icmpv4Repr::parse(&packet, &checksums);
            matches!(repr, Ok(Icmpv4Repr::EchoReply { ident: i, data: d, .. }) if i == ident && d == data)
        }
    }
}
