// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invariant CRC: covers what no router changes (IBTA 7.8.1, A17.3.3).
//!
//! CRC-32 of Ethernet over eight bytes of ones and then the packet from the IP header to the last pad byte,
//! with ones in place of what may change on the way: IPv4 type of service, time to live and checksum; IPv6
//! traffic class, flow label and hop limit; UDP checksum; the fifth byte of the BTH. Sent least significant
//! byte first.

use super::{bth, ipv4, ipv6, udp};
use crate::{Error, Field, Order};
use core::fmt;

/// Bytes of the ICRC.
pub const BYTES: usize = 4;

/// Polynomial, bits reversed.
pub const POLYNOMIAL: u32 = 0xedb8_8320;

/// Bytes of ones that stand for the local route header that InfiniBand would have there.
pub const LRH_BYTES: usize = 8;

/// Fields that count as ones, in an IPv4 header.
pub const MASKED_IPV4: &[Field] = &[ipv4::DSCP, ipv4::ECN, ipv4::TTL, ipv4::CHECKSUM];
/// Fields that count as ones, in an IPv6 header.
pub const MASKED_IPV6: &[Field] = &[ipv6::DSCP, ipv6::ECN, ipv6::FLOW_LABEL, ipv6::HOP_LIMIT];
/// Fields that count as ones, in a UDP header.
pub const MASKED_UDP: &[Field] = &[udp::CHECKSUM];
/// Fields that count as ones, in a base transport header.
pub const MASKED_BTH: &[Field] = &[bth::FECN, bth::BECN, bth::RESV6];

const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut t = 1;
    while t < 8 {
        let mut i = 0;
        while i < 256 {
            let before = tables[t - 1][i];
            tables[t][i] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            i += 1;
        }
        t += 1;
    }
    tables
};

/// A CRC-32 in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32 {
    /// Of no bytes yet.
    pub const fn new() -> Self {
        Crc32(u32::MAX)
    }

    /// Take more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut crc = self.0;
        let mut chunks = bytes.chunks_exact(8);
        for c in &mut chunks {
            let low = crc ^ u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
            crc = TABLES[7][(low & 0xff) as usize]
                ^ TABLES[6][(low >> 8 & 0xff) as usize]
                ^ TABLES[5][(low >> 16 & 0xff) as usize]
                ^ TABLES[4][(low >> 24) as usize]
                ^ TABLES[3][c[4] as usize]
                ^ TABLES[2][c[5] as usize]
                ^ TABLES[1][c[6] as usize]
                ^ TABLES[0][c[7] as usize];
        }
        for &byte in chunks.remainder() {
            crc = (crc >> 8) ^ TABLES[0][((crc ^ byte as u32) & 0xff) as usize];
        }
        self.0 = crc;
    }

    /// The CRC of all bytes taken.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

/// An ICRC in progress: begun with the headers, continued with what follows the BTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icrc(Crc32);

impl Icrc {
    /// Begin with the IP header, UDP header and BTH. Returns also how many bytes these take; feed
    /// [`Icrc::update`] with what stands behind them.
    ///
    /// # Errors
    /// `Truncated` when `packet` does not hold the three headers, `UnknownCode` when its first four bits are
    /// neither 4 nor 6. An IPv4 header may have options; they are covered as they stand.
    pub fn begin(packet: &[u8]) -> Result<(Self, usize), Error> {
        let version = packet.first().map_or(0, |b| b >> 4);
        let (ip_bytes, masked): (usize, &[Field]) = match version {
            4 => ((packet[0] & 0xf) as usize * 4, MASKED_IPV4),
            6 => (ipv6::BYTES, MASKED_IPV6),
            _ if packet.is_empty() => return Err(Error::Truncated { what: "icrc", need: 1, have: 0 }),
            _ => return Err(Error::UnknownCode { what: "ip version", value: version }),
        };
        if version == 4 && ip_bytes < ipv4::BYTES {
            return Err(Error::Truncated { what: "ipv4", need: ipv4::BYTES, have: ip_bytes });
        }
        let bth_at = ip_bytes + udp::BYTES;
        let end = bth_at + bth::BYTES;
        if packet.len() < end {
            return Err(Error::Truncated { what: "icrc", need: end, have: packet.len() });
        }
        // The longest: 60 bytes of IPv4 with options.
        let mut head = [0; 60 + udp::BYTES + bth::BYTES];
        let head = &mut head[..end];
        head.copy_from_slice(&packet[..end]);
        for field in masked {
            field.set(Order::Network, head, field.max());
        }
        for field in MASKED_UDP {
            field.set(Order::Network, &mut head[ip_bytes..], field.max());
        }
        for field in MASKED_BTH {
            field.set(Order::Network, &mut head[bth_at..], field.max());
        }
        let mut crc = Crc32::new();
        crc.update(&[0xff; LRH_BYTES]);
        crc.update(head);
        Ok((Icrc(crc), end))
    }

    /// Take more bytes: extension headers, payload, pad.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The ICRC of all bytes taken; `to_le_bytes` gives what is sent.
    pub const fn finish(self) -> u32 {
        self.0.finish()
    }
}

/// ICRC of a packet from its IP header to its last pad byte; the ICRC itself is not part of `packet`.
///
/// # Errors
/// As [`Icrc::begin`].
pub fn icrc(packet: &[u8]) -> Result<u32, Error> {
    let (mut icrc, headers) = Icrc::begin(packet)?;
    icrc.update(&packet[headers..]);
    Ok(icrc.finish())
}

/// Why [`check`] refused a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckError {
    /// The ICRC is wrong.
    Wrong {
        /// What it must be.
        want: u32,
        /// What the packet carries.
        have: u32,
    },
    /// The packet does not hold the headers and an ICRC.
    Headers(Error),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Wrong { want, have } => write!(f, "ICRC is {have:#010x}, must be {want:#010x}"),
            CheckError::Headers(e) => e.fmt(f),
        }
    }
}

impl core::error::Error for CheckError {}

/// Check a packet from its IP header to the last byte of its ICRC.
///
/// # Errors
/// [`CheckError::Wrong`] when the ICRC is, [`CheckError::Headers`] when the packet is too short to have one.
pub fn check(packet: &[u8]) -> Result<(), CheckError> {
    let Some((body, last)) = packet.split_last_chunk::<BYTES>() else {
        let error = Error::Truncated { what: "icrc", need: BYTES, have: packet.len() };
        return Err(CheckError::Headers(error));
    };
    let want = icrc(body).map_err(CheckError::Headers)?;
    let have = u32::from_le_bytes(*last);
    if want == have {
        Ok(())
    } else {
        Err(CheckError::Wrong { want, have })
    }
}
