// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames out of their parts, and what of a frame counts for addressing.

use std::net::IpAddr;

use ferrowire_spec::wire::opcode::{Operation, Position, Service};
use ferrowire_spec::wire::{Bth, Eth, Extensions, Frame, Ip, Ipv4, Ipv6, Opcode, Udp, Vlan};

use super::engine::Config;
use super::types::AddressVector;

/// The bits of a MAC address.
const MAC: u64 = (1 << 48) - 1;

/// A sealed frame. A packet longer than IP can carry does not exist here: a payload is at most 4,096 bytes.
pub(super) fn build(
    config: &Config,
    av: &AddressVector,
    sport: u16,
    bth: Bth,
    ext: Extensions,
    payload: &[u8],
) -> Vec<u8> {
    let (dscp, ecn) = (av.traffic_class >> 2, av.traffic_class & 3);
    let (mac, own) = av.source(config);
    let ip = match (own, av.ip) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => match Ip::default() {
            Ip::V4(h) => Ip::V4(Ipv4 { dscp, ecn, ttl: av.hop_limit, src: src.into(), dst: dst.into(), ..h }),
            other => other,
        },
        (src, dst) => Ip::V6(Ipv6 {
            version: 6,
            dscp,
            ecn,
            flow_label: av.flow_label & 0xf_ffff,
            next_header: 17,
            hop_limit: av.hop_limit,
            src: number(src),
            dst: number(dst),
            ..Ipv6::default()
        }),
    };
    let mut frame = Frame {
        eth: Eth { dst: av.mac & MAC, src: mac & MAC, ..Eth::default() },
        vlan: av.vlan.map(|tci| Vlan::from_tci(tci, 0)),
        ip,
        udp: Udp { sport, ..Udp::default() },
        bth,
        ext,
        payload,
        ..Frame::default()
    };
    let mut bytes = Vec::new();
    if frame.seal().is_ok() {
        bytes.resize(frame.len(), 0);
        if frame.emit(&mut bytes).is_err() {
            bytes.clear();
        }
    }
    bytes
}

/// An address as a number; one of IPv4 as IPv6 maps it.
pub(super) fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

/// Source and destination of a packet.
pub(super) fn addresses(ip: &Ip) -> (IpAddr, IpAddr) {
    match ip {
        Ip::V4(h) => (IpAddr::V4(h.src.into()), IpAddr::V4(h.dst.into())),
        Ip::V6(h) => (IpAddr::V6(h.src.into()), IpAddr::V6(h.dst.into())),
    }
}

/// Whether partition keys let two ends talk: the same partition, and not two limited members (IBTA 10.9.3).
pub(super) fn pkey_matches(ours: u16, theirs: u16) -> bool {
    (ours ^ theirs) & 0x7fff == 0 && (ours | theirs) & 0x8000 != 0
}

/// The opcode of a request or answer, found by its meaning.
pub(super) fn opcode(
    service: Service,
    operation: Operation,
    position: Position,
    imm: bool,
    inv: bool,
) -> Option<Opcode> {
    Opcode::ALL.iter().copied().find(|opcode| {
        opcode.service() == service
            && opcode.operation() == operation
            && opcode.position() == position
            && opcode.has_immediate() == imm
            && opcode.has_invalidate() == inv
    })
}

/// Where packet `at` of `count` stands in its message.
pub(super) fn position(at: u32, count: u32) -> Position {
    match (at == 0, at + 1 >= count) {
        (true, true) => Position::Only,
        (true, false) => Position::First,
        (false, true) => Position::Last,
        (false, false) => Position::Middle,
    }
}
