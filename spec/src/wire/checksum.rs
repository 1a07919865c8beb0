// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum: IPv4 header and UDP (RFC 1071, RFC 768, RFC 8200 8.1).

/// A ones' complement sum in progress, over an even number of bytes at a time but for the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Take bytes; an odd last byte counts as if a zero followed it.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut pairs = bytes.chunks_exact(2);
        for p in &mut pairs {
            self.0 += u16::from_be_bytes([p[0], p[1]]) as u64;
        }
        if let [odd] = pairs.remainder() {
            self.0 += (*odd as u64) << 8;
        }
    }

    /// The ones' complement sum; 0xffff when it is over data that hold their right checksum.
    pub const fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum: the complement of the sum.
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Checksum of an IPv4 header whose checksum field is zero; 0 when the field holds the right one.
pub fn ipv4(header: &[u8]) -> u16 {
    let mut sum = Sum::default();
    sum.add(header);
    sum.checksum()
}

/// The pseudo header's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// Source and destination of IPv4.
    V4(u32, u32),
    /// Source and destination of IPv6.
    V6(u128, u128),
}

fn udp_sum(addresses: Addresses, datagram: &[u8]) -> Sum {
    let mut sum = Sum::default();
    match addresses {
        Addresses::V4(src, dst) => {
            sum.add(&src.to_be_bytes());
            sum.add(&dst.to_be_bytes());
        }
        Addresses::V6(src, dst) => {
            sum.add(&src.to_be_bytes());
            sum.add(&dst.to_be_bytes());
        }
    }
    sum.add(&(datagram.len() as u64).to_be_bytes());
    sum.add(&[0, super::ipv4::PROTOCOL_UDP]);
    sum.add(datagram);
    sum
}

/// Checksum of a UDP datagram, from its header on, whose checksum field is zero. Never 0: that means none.
pub fn udp(addresses: Addresses, datagram: &[u8]) -> u16 {
    match udp_sum(addresses, datagram).checksum() {
        0 => 0xffff,
        sum => sum,
    }
}

/// Whether a UDP datagram, from its header on, holds its right checksum, or none.
pub fn udp_is_right(addresses: Addresses, datagram: &[u8]) -> bool {
    datagram.len() >= super::udp::BYTES
        && (datagram[6..8] == [0, 0] || udp_sum(addresses, datagram).folded() == 0xffff)
}
