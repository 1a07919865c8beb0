// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random frames that are no RoCE packets: of other protocols, of none, and some that were meant to be RoCE.

use ferrowire_spec::wire::{checksum, eth, udp, Eth, Frame, Ip, Ipv4, Opcode};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, RngCore};

use super::super::ends::{ip, mac};
use super::{BROADCAST, GROUPS};

/// MAC control, PAUSE among it (IEEE 802.3, 31): the link's own affair, and no frame of anybody's.
const MAC_CONTROL: u16 = 0x8808;

/// A frame that one side sends to another, to groups, or to others; `number` is in its source address, so that no other one is like it.
pub fn random(rng: &mut SmallRng, sides: [usize; 2], number: u32) -> Vec<u8> {
    let to = match rng.random_range(0..10) {
        0..=4 => mac(sides[1]),
        5 => BROADCAST,
        6 | 7 => GROUPS[rng.random_range(0..GROUPS.len())],
        8 => [2, 0xaa, 1, 2, 3, rng.random()],
        // Any group.
        _ => {
            let mut to = [0; 6];
            rng.fill_bytes(&mut to);
            to[0] |= 1;
            to
        }
    };
    loop {
        let (ethertype, body) = body(rng, sides);
        let [a, b, c, d] = number.to_be_bytes();
        let mut frame = [&to[..], &[6, sides[0] as u8, a, b, c, d]].concat();
        if rng.random_bool(0.2) {
            // A tag, of this VLAN or another, or of a priority alone.
            let tci = [0, 5, 0xe000, rng.random()].choose(rng).copied().unwrap_or_default();
            frame.extend([eth::ethertype::VLAN.to_be_bytes(), u16::to_be_bytes(tci)].concat());
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(body);
        frame.truncate(4096);
        // What happens to be one is for others to send.
        let control =
            [12, 16].iter().any(|at| frame.get(*at..at + 2) == Some(&MAC_CONTROL.to_be_bytes()[..]));
        if Frame::parse(&frame).is_err() && !control {
            return frame;
        }
    }
}

fn length(rng: &mut SmallRng) -> usize {
    match rng.random_range(0..12) {
        0..=5 => rng.random_range(0..120),
        6..=9 => rng.random_range(0..1500),
        10 => rng.random_range(4060..4090),
        _ => rng.random_range(0..4082),
    }
}

fn bytes(rng: &mut SmallRng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Ethertype, and what is behind it.
fn body(rng: &mut SmallRng, sides: [usize; 2]) -> (u16, Vec<u8>) {
    use eth::ethertype::{IPV4, IPV6, VLAN};
    let len = length(rng);
    match rng.random_range(0..12) {
        // ARP, or nearly (RFC 826).
        0 | 1 => {
            let head = [0, 1, 8, 0, 6, 4, 0, rng.random_range(1..=2)];
            let rest = [20, 38, 5][rng.random_range(0..3)];
            (0x0806, [&head[..], &bytes(rng, rest)].concat())
        }
        2 => (rng.random(), bytes(rng, len)),
        // Anything in IP, or less than a header.
        3 => ([IPV4, IPV6, VLAN][rng.random_range(0..3)], bytes(rng, len)),
        // UDP to another port, well made or with a byte changed.
        4..=6 => {
            let port = [53, 67, 4790, 4792, rng.random()][rng.random_range(0..5)];
            let mut packet = ipv4(sides, 17, (0, false), &datagram(rng, port, len.min(2000)));
            if rng.random_bool(0.3) {
                let at = rng.random_range(0..packet.len());
                packet[at] ^= 1 << rng.random_range(0..8);
            }
            (IPV4, packet)
        }
        // Another protocol; and a fragment of anything, RoCE too.
        7 => (IPV4, ipv4(sides, [1, 2, 6][rng.random_range(0..3)], (0, false), &bytes(rng, len.min(2000)))),
        8 | 9 => {
            let fragment = [(0, true), (rng.random_range(1..1000), rng.random())][rng.random_range(0..2)];
            (IPV4, ipv4(sides, 17, fragment, &datagram(rng, udp::ROCE_PORT, len.min(1400))))
        }
        _ => look_alike(rng, sides[0]),
    }
}

fn datagram(rng: &mut SmallRng, port: u16, len: usize) -> Vec<u8> {
    let mut head = [0xc0, 0, 0, 0, 0, 0, 0, 0];
    head[2..4].copy_from_slice(&port.to_be_bytes());
    head[4..6].copy_from_slice(&(8 + len as u16).to_be_bytes());
    [&head[..], &bytes(rng, len)].concat()
}

fn ipv4(sides: [usize; 2], protocol: u8, (offset, more): (u16, bool), body: &[u8]) -> Vec<u8> {
    let address = |side: usize| match ip(side, false) {
        std::net::IpAddr::V4(ip) => u32::from(ip),
        std::net::IpAddr::V6(_) => 0,
    };
    let mut header = Ipv4 {
        version: 4,
        ihl: 5,
        ttl: 64,
        protocol,
        total_len: 20 + body.len() as u16,
        frag_offset: offset,
        mf: more,
        src: address(sides[0]),
        dst: address(sides[1]),
        ..Ipv4::default()
    };
    header.checksum = header.to_bytes().map_or(0, |bytes| checksum::ipv4(&bytes));
    [&header.to_bytes().map_or_else(|_| Vec::new(), |bytes| bytes.to_vec())[..], body].concat()
}

/// What was meant to be a RoCE packet, and is cut short, has another ICRC, or other headers.
fn look_alike(rng: &mut SmallRng, side: usize) -> (u16, Vec<u8>) {
    let len = rng.random_range(0..200);
    let payload = bytes(rng, len);
    let mut frame = Frame {
        eth: Eth::default(),
        ip: match ip(side, rng.random()) {
            std::net::IpAddr::V4(src) => match Ip::default() {
                Ip::V4(header) => Ip::V4(Ipv4 { src: src.into(), dst: u32::from(src) ^ 3, ..header }),
                other => other,
            },
            std::net::IpAddr::V6(src) => Ip::V6(ferrowire_spec::wire::Ipv6 {
                version: 6,
                next_header: 17,
                hop_limit: 64,
                src: src.into(),
                dst: u128::from(src) ^ 3,
                ..Default::default()
            }),
        },
        payload: &payload,
        ..Frame::default()
    };
    frame.bth.opcode = Opcode::UcSendOnly.code();
    frame.bth.destqp = rng.random_range(0..20);
    let mut whole = Vec::new();
    if frame.seal().is_ok() {
        whole.resize(frame.len(), 0);
        let _ = frame.emit(&mut whole);
    }
    let mut packet = whole.split_off(eth::BYTES.min(whole.len()));
    match rng.random_range(0..3) {
        0 => packet.truncate(rng.random_range(0..packet.len())),
        1 => {
            let at = packet.len() - 1 - rng.random_range(0..4.min(packet.len()));
            packet[at] ^= 1 << rng.random_range(0..8);
        }
        _ => {
            let at = rng.random_range(0..packet.len().min(60));
            packet[at] ^= 1 << rng.random_range(0..8);
        }
    }
    let ethertype = whole.get(12..14).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
    (ethertype, packet)
}
