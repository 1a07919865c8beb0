// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames out of parts, right or wrong: with a correct ICRC unless a part of the damage is that it has none.

use std::net::IpAddr;

use ferrowire_spec::wire::{
    atomic_eth, bth, checksum, eth, icrc, ipv4, ipv6, udp, Bth, Eth, Extensions, Ip, Ipv4, Ipv6, Udp,
};
use rand::rngs::SmallRng;
use rand::Rng;

use crate::soak::ends::{ip, mac};

/// Who is on the wire: the card, the well-behaved peer, the hostile one.
pub const CARD: usize = 0;
/// See [`CARD`].
pub const FRIEND: usize = 1;
/// See [`CARD`].
pub const FOE: usize = 2;

/// A MAC address as a number.
pub fn mac_number(side: usize) -> u64 {
    eth::mac_number(mac(side))
}

/// The header between two sides.
pub fn ip_between(from: usize, to: usize, v6: bool) -> Ip {
    between(ip(from, v6), ip(to, v6))
}

/// The header between two addresses, which are of one kind.
pub fn between(from: IpAddr, to: IpAddr) -> Ip {
    match (from, to, Ip::default()) {
        (IpAddr::V4(src), IpAddr::V4(dst), Ip::V4(h)) => {
            Ip::V4(Ipv4 { src: src.into(), dst: dst.into(), ..h })
        }
        (IpAddr::V6(src), IpAddr::V6(dst), _) => Ip::V6(Ipv6 {
            version: 6,
            next_header: ipv4::PROTOCOL_UDP,
            hop_limit: 64,
            src: src.into(),
            dst: dst.into(),
            ..Ipv6::default()
        }),
        (_, _, ip) => ip,
    }
}

/// A packet to be made a frame.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Ethernet addresses.
    pub eth: Eth,
    /// Addresses, and all else of the network header but lengths and checksum.
    pub ip: Ip,
    /// Source port.
    pub sport: u16,
    /// Base transport header; the opcode may be any.
    pub bth: Bth,
    /// What stands behind it: extension headers, payload, pad.
    pub body: Vec<u8>,
}

impl Packet {
    /// From the foe to the card.
    pub fn new(v6: bool, bth: Bth) -> Self {
        Self {
            eth: Eth { dst: mac_number(CARD), src: mac_number(FOE), ethertype: 0 },
            ip: ip_between(FOE, CARD, v6),
            sport: 0xc000 | (bth.destqp as u16 & 0x3fff),
            bth,
            body: Vec::new(),
        }
    }

    /// With these extension headers and this payload, padded as it must be.
    pub fn with(mut self, ext: &Extensions, payload: &[u8]) -> Self {
        let mut head = [0; 2 * atomic_eth::BYTES];
        let bytes = ext.emit(&mut head).unwrap_or_default();
        self.body = [&head[..bytes], payload].concat();
        self.bth.pad = (payload.len().wrapping_neg() & 3) as u8;
        self.body.resize(self.body.len() + usize::from(self.bth.pad), 0);
        self
    }

    /// The frame; nothing, where a value does not fit its field.
    pub fn frame(&self) -> Vec<u8> {
        self.emit().unwrap_or_default()
    }

    fn emit(&self) -> Result<Vec<u8>, ferrowire_spec::Error> {
        let datagram = udp::BYTES + bth::BYTES + self.body.len() + icrc::BYTES;
        let mut ip = self.ip;
        match &mut ip {
            Ip::V4(h) => {
                h.total_len = (ipv4::BYTES + datagram) as u16;
                h.checksum = 0;
                h.checksum = checksum::ipv4(&h.to_bytes()?);
            }
            Ip::V6(h) => h.payload_len = datagram as u16,
        }
        let eth = Eth { ethertype: ip.ethertype(), ..self.eth };
        let udp = Udp { sport: self.sport, dport: udp::ROCE_PORT, len: datagram as u16, checksum: 0 };
        let head = eth::BYTES + ip.bytes() + udp::BYTES + bth::BYTES;
        let mut bytes = vec![0; head];
        eth.emit(&mut bytes)?;
        match ip {
            Ip::V4(h) => h.emit(&mut bytes[eth::BYTES..])?,
            Ip::V6(h) => h.emit(&mut bytes[eth::BYTES..])?,
        }
        let at = eth::BYTES + ip.bytes();
        udp.emit(&mut bytes[at..])?;
        self.bth.emit(&mut bytes[at + udp::BYTES..])?;
        bytes.extend_from_slice(&self.body);
        bytes.extend_from_slice(&[0; icrc::BYTES]);
        seal(&mut bytes);
        Ok(bytes)
    }
}

/// Where the transport header of a frame without a tag begins.
pub fn transport_at(bytes: &[u8]) -> usize {
    let v6 = bytes.get(12..14) == Some(&[0x86, 0xdd]);
    eth::BYTES + udp::BYTES + if v6 { ipv6::BYTES } else { ipv4::BYTES }
}

/// Makes the ICRC of a frame without a tag and a trailer right.
pub fn seal(bytes: &mut [u8]) {
    if bytes.len() < transport_at(bytes) + bth::BYTES + icrc::BYTES {
        return;
    }
    let end = bytes.len() - icrc::BYTES;
    if let Ok(right) = icrc::icrc(&bytes[eth::BYTES..end]) {
        bytes[end..].copy_from_slice(&right.to_le_bytes());
    }
}

/// Makes the IPv4 header checksum right.
pub fn sum(bytes: &mut [u8]) {
    if transport_at(bytes) == eth::BYTES + ipv4::BYTES + udp::BYTES && bytes.len() >= eth::BYTES + ipv4::BYTES
    {
        let ip = &mut bytes[eth::BYTES..eth::BYTES + ipv4::BYTES];
        ip[10..12].fill(0);
        let sum = checksum::ipv4(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// What [`damage`] knows to do.
pub const DAMAGES: usize = 24;

/// Damages a sound frame in the way of that number; what was done.
pub fn damage(rng: &mut SmallRng, which: usize, mut bytes: Vec<u8>) -> (&'static str, Vec<u8>) {
    let v4 = transport_at(&bytes) == eth::BYTES + ipv4::BYTES + udp::BYTES;
    let (ip, bth) = (eth::BYTES, transport_at(&bytes));
    let udp = bth - udp::BYTES;
    let other = |rng: &mut SmallRng, byte: u8| byte ^ rng.random_range(1..=255u8);
    let what = match which % DAMAGES {
        0 => {
            bytes.truncate(rng.random_range(1..bytes.len()));
            "truncated"
        }
        1 => {
            let more = rng.random_range(1..64);
            bytes.resize(bytes.len() + more, rng.random());
            "trailer"
        }
        2 => {
            bytes.resize(rng.random_range(bytes.len() + 1..20_000), 0x5a);
            "oversized"
        }
        3 => {
            bytes[ip] = other(rng, bytes[ip]) & 0xf0 | bytes[ip] & 0xf;
            sum(&mut bytes);
            seal(&mut bytes);
            "IP version"
        }
        4 if v4 => {
            bytes[ip] = 0x40 | rng.random_range(0..16);
            sum(&mut bytes);
            "header length"
        }
        5 if v4 => {
            // Options that are there: the header is longer, and all behind it is right.
            let options = 4 * rng.random_range(1..=10usize);
            bytes.splice(ip + ipv4::BYTES..ip + ipv4::BYTES, vec![1; options]);
            bytes[ip] = 0x40 | (5 + options / 4) as u8;
            let total = (bytes.len() - ip) as u16;
            bytes[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
            let header = ip..ip + ipv4::BYTES + options;
            bytes[ip + 10..ip + 12].fill(0);
            let sum = checksum::ipv4(&bytes[header]);
            bytes[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            "IP options"
        }
        6 if v4 => {
            let flags = [0x20, 0x3f, 0x01, 0x00][rng.random_range(0..4)];
            bytes[ip + 6..ip + 8].copy_from_slice(&[flags, rng.random_range(1..=255)]);
            sum(&mut bytes);
            seal(&mut bytes);
            "fragment"
        }
        6 => {
            bytes[ip + 6] = ipv6::NEXT_FRAGMENT;
            bytes[ip + ipv6::BYTES] = ipv4::PROTOCOL_UDP;
            "fragment"
        }
        7 if v4 => {
            bytes[ip + 10] = other(rng, bytes[ip + 10]);
            "IP checksum"
        }
        8 => {
            let at = if v4 { ip + 2 } else { ip + 4 };
            let by = [1u16, 2, 4, 64, 0x8000, 0xfff0][rng.random_range(0..6)];
            let len = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let len = if rng.random() { len.wrapping_add(by) } else { len.wrapping_sub(by) };
            bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
            sum(&mut bytes);
            "IP length"
        }
        9 => {
            let at = if v4 { ip + 9 } else { ip + 6 };
            bytes[at] = other(rng, bytes[at]);
            sum(&mut bytes);
            seal(&mut bytes);
            "protocol"
        }
        10 => {
            bytes[udp + 3] = other(rng, bytes[udp + 3]);
            seal(&mut bytes);
            "UDP port"
        }
        11 => {
            let len = [0, 7, 8, 20, rng.random()][rng.random_range(0..5)];
            bytes[udp + 4..udp + 6].copy_from_slice(&u16::to_be_bytes(len));
            seal(&mut bytes);
            "UDP length"
        }
        12 => {
            bytes[udp + 6..udp + 8].copy_from_slice(&rng.random_range(1..=u16::MAX).to_be_bytes());
            "UDP checksum"
        }
        13 => {
            let at = bytes.len() - 1 - rng.random_range(0..icrc::BYTES);
            bytes[at] = other(rng, bytes[at]);
            "ICRC"
        }
        14 => {
            bytes[bth + 1] |= rng.random_range(1..16);
            seal(&mut bytes);
            "transport version"
        }
        15 => {
            let pkey: u16 = [0x7fff, 0, 0x8000, rng.random()][rng.random_range(0..4)];
            bytes[bth + 2..bth + 4].copy_from_slice(&pkey.to_be_bytes());
            seal(&mut bytes);
            "P_Key"
        }
        16 => {
            bytes[bth + 5] = other(rng, bytes[bth + 5]);
            seal(&mut bytes);
            "queue pair"
        }
        17 => {
            let at = if v4 { ip + 12 } else { ip + 8 } + rng.random_range(0..4);
            bytes[at] = other(rng, bytes[at]);
            sum(&mut bytes);
            seal(&mut bytes);
            "source address"
        }
        18 => {
            let at = if v4 { ip + 16 } else { ip + 24 } + rng.random_range(0..4);
            bytes[at] = other(rng, bytes[at]);
            sum(&mut bytes);
            seal(&mut bytes);
            "destination address"
        }
        19 => {
            let at = rng.random_range(0..6);
            bytes[at] = other(rng, bytes[at]);
            "destination MAC"
        }
        20 => {
            let tag = [0x81, 0x00, rng.random(), rng.random()];
            bytes.splice(12..12, tag);
            "VLAN"
        }
        21 => {
            let kind = [[0x08, 0x06], [0x88, 0xcc], [0x86, 0xdd], [0x08, 0x00]][rng.random_range(0..4)];
            bytes[12..14].copy_from_slice(&kind);
            "ethertype"
        }
        22 => {
            // Anywhere in what the ICRC covers, with one that is right.
            for _ in 0..rng.random_range(1..=4) {
                let at = rng.random_range(bth..bytes.len() - icrc::BYTES);
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            seal(&mut bytes);
            "bits of the transport"
        }
        _ => {
            for _ in 0..rng.random_range(1..=8) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] ^= 1 << rng.random_range(0..8);
            }
            "bits"
        }
    };
    (what, bytes)
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::wire::{Frame, Opcode, Reth};
    use rand::SeedableRng;

    use super::*;

    fn packet(v6: bool) -> Packet {
        let bth =
            Bth { opcode: Opcode::RcWriteOnly as u8, destqp: 7, psn: 9, pkey: 0xffff, ..Bth::default() };
        let reth = Some(Reth { va: 1, rkey: 2, len: 5 });
        Packet::new(v6, bth).with(&Extensions { reth, ..Extensions::default() }, &[1, 2, 3, 4, 5])
    }

    #[test]
    fn a_packet_without_damage_is_sound_and_damage_does_not_panic() {
        let mut rng = SmallRng::seed_from_u64(1);
        for v6 in [false, true] {
            let bytes = packet(v6).frame();
            let frame = Frame::parse(&bytes).unwrap();
            assert_eq!((frame.payload, frame.bth.psn), (&[1, 2, 3, 4, 5][..], 9));
            for which in 0..DAMAGES {
                let (mut refused, mut all) = (0, 0);
                for _ in 0..200 {
                    let (_, damaged) = damage(&mut rng, which, bytes.clone());
                    assert!(!damaged.is_empty());
                    all += 1;
                    refused += u32::from(Frame::parse(&damaged).is_err());
                }
                // What is sound by itself is for the queue pair to refuse, or has Ethernet padding.
                let sound = [1, 2, 15, 16, 17, 18, 19, 20, 22].contains(&which);
                assert!(sound || refused * 10 >= all * 7, "{which} v6 {v6}: {refused} of {all}");
            }
        }
    }
}
