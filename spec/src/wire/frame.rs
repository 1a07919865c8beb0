// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole frame: from Ethernet to ICRC, decoded and encoded.
//!
//! The checks come in the order of [`DropReason`], so that [`FrameError::drop_reason`] names the counter that
//! the card would step.

use super::checksum::{self, Addresses};
use super::opcode::{Ext, Opcode};
use super::{
    aeth, atomic_ack_eth, atomic_eth, bth, cnp, deth, eth, icrc, ieth, imm_dt, ipv4, ipv6, report, reth, udp,
    vlan,
};
use super::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Deth, Eth, Ieth, ImmDt, Ipv4, Ipv6, Report, Reth, Udp, Vlan,
};
use crate::csr::DropReason;
use crate::Error;
use core::fmt;

/// The network header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
}

impl Default for Ip {
    /// IPv4 with the values a sender puts there: don't fragment, time to live 64, protocol UDP.
    fn default() -> Self {
        Ip::V4(Ipv4 {
            version: 4,
            ihl: 5,
            df: true,
            ttl: 64,
            protocol: ipv4::PROTOCOL_UDP,
            ..Ipv4::default()
        })
    }
}

impl Ip {
    /// Bytes of the header.
    pub const fn bytes(&self) -> usize {
        match self {
            Ip::V4(_) => ipv4::BYTES,
            Ip::V6(_) => ipv6::BYTES,
        }
    }

    /// Its ethertype.
    pub const fn ethertype(&self) -> u16 {
        match self {
            Ip::V4(_) => eth::ethertype::IPV4,
            Ip::V6(_) => eth::ethertype::IPV6,
        }
    }

    /// Source and destination, as the UDP checksum takes them.
    pub const fn addresses(&self) -> Addresses {
        match self {
            Ip::V4(h) => Addresses::V4(h.src, h.dst),
            Ip::V6(h) => Addresses::V6(h.src, h.dst),
        }
    }

    /// Explicit congestion notification.
    pub const fn ecn(&self) -> u8 {
        match self {
            Ip::V4(h) => h.ecn,
            Ip::V6(h) => h.ecn,
        }
    }

    fn emit(&self, bytes: &mut [u8]) -> Result<(), Error> {
        match self {
            Ip::V4(h) => h.emit(bytes),
            Ip::V6(h) => h.emit(bytes),
        }
    }
}

/// The extension headers; which are there follows from the opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extensions {
    /// Datagram.
    pub deth: Option<Deth>,
    /// RDMA.
    pub reth: Option<Reth>,
    /// Atomic request.
    pub atomic: Option<AtomicEth>,
    /// Acknowledgement.
    pub aeth: Option<Aeth>,
    /// Atomic answer.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate.
    pub imm: Option<ImmDt>,
    /// Key to invalidate.
    pub ieth: Option<Ieth>,
    /// Reserved bytes of a CNP.
    pub cnp: Option<Cnp>,
    /// Report of selective retransmission.
    pub report: Option<Report>,
}

impl Extensions {
    /// Whether a header is there.
    pub const fn has(&self, ext: Ext) -> bool {
        match ext {
            Ext::Deth => self.deth.is_some(),
            Ext::Reth => self.reth.is_some(),
            Ext::AtomicEth => self.atomic.is_some(),
            Ext::Aeth => self.aeth.is_some(),
            Ext::AtomicAckEth => self.atomic_ack.is_some(),
            Ext::ImmDt => self.imm.is_some(),
            Ext::Ieth => self.ieth.is_some(),
            Ext::Cnp => self.cnp.is_some(),
            Ext::Report => self.report.is_some(),
        }
    }

    /// Decode the headers that follow a base transport header with that opcode. Returns their bytes too.
    ///
    /// # Errors
    /// `Truncated` when `bytes` ends before they do.
    pub fn parse(opcode: Opcode, bytes: &[u8]) -> Result<(Self, usize), Error> {
        let mut headers = Self::default();
        let mut at = 0;
        for &ext in opcode.extensions() {
            let rest = bytes.get(at..).unwrap_or_default();
            match ext {
                Ext::Deth => headers.deth = Some(Deth::parse(rest)?),
                Ext::Reth => headers.reth = Some(Reth::parse(rest)?),
                Ext::AtomicEth => headers.atomic = Some(AtomicEth::parse(rest)?),
                Ext::Aeth => headers.aeth = Some(Aeth::parse(rest)?),
                Ext::AtomicAckEth => headers.atomic_ack = Some(AtomicAckEth::parse(rest)?),
                Ext::ImmDt => headers.imm = Some(ImmDt::parse(rest)?),
                Ext::Ieth => headers.ieth = Some(Ieth::parse(rest)?),
                Ext::Cnp => headers.cnp = Some(Cnp::parse(rest)?),
                Ext::Report => headers.report = Some(Report::parse(rest)?),
            }
            at += ext.bytes();
        }
        Ok((headers, at))
    }

    /// Encode those that are there, in the order of the wire. Returns their bytes.
    ///
    /// # Errors
    /// `Truncated` when they do not fit, `OutOfRange` as in `emit` of each.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let mut at = 0;
        macro_rules! put {
            ($($field:ident $header:ident;)+) => {$(
                if let Some(h) = &self.$field {
                    h.emit(bytes.get_mut(at..).unwrap_or_default())?;
                    at += $header::BYTES;
                }
            )+};
        }
        put! {
            deth deth; reth reth; atomic atomic_eth; aeth aeth; atomic_ack atomic_ack_eth; imm imm_dt; ieth ieth;
            cnp cnp; report report;
        }
        Ok(at)
    }

    fn match_opcode(&self, opcode: Opcode) -> bool {
        let all = [
            Ext::Deth,
            Ext::Reth,
            Ext::AtomicEth,
            Ext::Aeth,
            Ext::AtomicAckEth,
            Ext::ImmDt,
            Ext::Ieth,
            Ext::Cnp,
            Ext::Report,
        ];
        all.iter().all(|&ext| self.has(ext) == opcode.has(ext))
    }
}

/// A RoCE v2 frame, without preamble and frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frame<'a> {
    /// Ethernet header.
    pub eth: Eth,
    /// 802.1Q tag.
    pub vlan: Option<Vlan>,
    /// Network header.
    pub ip: Ip,
    /// UDP header.
    pub udp: Udp,
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers.
    pub ext: Extensions,
    /// Payload, without pad.
    pub payload: &'a [u8],
    /// Pad bytes: the first `bth.pad` count; zero by rule, kept as they are.
    pub pad: [u8; 3],
    /// ICRC; `emit` computes it and does not look here.
    pub icrc: u32,
    /// Bytes of the frame behind the packet: Ethernet padding.
    pub trailer: &'a [u8],
}

/// Why a frame is not a sound RoCE v2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Not for RoCE: another protocol or another UDP port.
    NotRoce(NotRoce),
    /// The frame ends inside its Ethernet, VLAN, IP or UDP header.
    Truncated {
        /// The header.
        what: &'static str,
        /// Bytes it takes.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The version field of the IP header contradicts the ethertype.
    BadVersion {
        /// By the ethertype.
        want: u8,
        /// By the header.
        have: u8,
    },
    /// The IPv4 header is shorter than 20 bytes or has options.
    BadHeaderLength {
        /// In 32-bit words.
        ihl: u8,
    },
    /// A fragment.
    Fragment {
        /// Offset, in units of 8 bytes.
        offset: u16,
        /// More follow.
        more: bool,
    },
    /// IPv4 header checksum is wrong.
    BadIpChecksum {
        /// What it must be.
        want: u16,
        /// What it is.
        have: u16,
    },
    /// A length contradicts what holds it or what it holds.
    LengthMismatch {
        /// Whose length.
        what: &'static str,
        /// Bytes it must have, or have at least.
        want: usize,
        /// Bytes it has.
        have: usize,
    },
    /// UDP checksum is there and wrong.
    BadUdpChecksum,
    /// ICRC is wrong.
    BadIcrc {
        /// What it must be.
        want: u32,
        /// What it is.
        have: u32,
    },
    /// Transport header version is not 0.
    BadTver {
        /// What it is.
        tver: u8,
    },
    /// Opcode has no meaning.
    ReservedOpcode {
        /// The opcode.
        opcode: u8,
    },
    /// Behind UDP there is less than the headers and the pad that the opcode and pad count ask for, or not a
    /// multiple of 4 bytes.
    BadTransportLength {
        /// The opcode.
        opcode: Opcode,
        /// Bytes it must have, at least.
        want: usize,
        /// Bytes it has.
        have: usize,
    },
    /// The opcode forbids payload, and there is some.
    UnexpectedPayload {
        /// The opcode.
        opcode: Opcode,
        /// Bytes, pad included.
        bytes: usize,
    },
    /// Only when encoding: the extension headers are not those of the opcode.
    WrongExtensions {
        /// The opcode.
        opcode: Opcode,
    },
    /// Only when encoding: a value does not fit its field, or the frame does not fit the buffer.
    Encode(Error),
}

/// What a frame is instead of RoCE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRoce {
    /// Another ethertype.
    Ethertype(u16),
    /// Another IP protocol.
    Protocol(u8),
    /// Another UDP port.
    Port(u16),
}

impl FrameError {
    /// The counter that the card steps for it; `None` for errors of encoding.
    pub const fn drop_reason(&self) -> Option<DropReason> {
        Some(match self {
            FrameError::NotRoce(_) => DropReason::NotRoce,
            FrameError::Truncated { .. } => DropReason::Runt,
            FrameError::BadVersion { .. } | FrameError::BadHeaderLength { .. } => DropReason::IpHeader,
            FrameError::Fragment { .. } => DropReason::IpFragment,
            FrameError::BadIpChecksum { .. } => DropReason::IpChecksum,
            FrameError::LengthMismatch { .. } => DropReason::Length,
            FrameError::BadUdpChecksum => DropReason::UdpChecksum,
            FrameError::BadIcrc { .. } => DropReason::Icrc,
            FrameError::BadTver { .. } => DropReason::BthVersion,
            FrameError::ReservedOpcode { .. } => DropReason::ReservedOpcode,
            FrameError::BadTransportLength { .. } | FrameError::UnexpectedPayload { .. } => {
                DropReason::Malformed
            }
            FrameError::WrongExtensions { .. } | FrameError::Encode(_) => return None,
        })
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameError::NotRoce(NotRoce::Ethertype(t)) => write!(f, "not RoCE: ethertype {t:#06x}"),
            FrameError::NotRoce(NotRoce::Protocol(p)) => write!(f, "not RoCE: IP protocol {p}"),
            FrameError::NotRoce(NotRoce::Port(p)) => write!(f, "not RoCE: UDP port {p}"),
            FrameError::Truncated { what, need, have } => {
                write!(f, "frame ends inside {what}: takes {need} bytes, {have} left")
            }
            FrameError::BadVersion { want, have } => write!(f, "IP version is {have}, must be {want}"),
            FrameError::BadHeaderLength { ihl } => write!(f, "IPv4 header of {ihl} words, must be 5"),
            FrameError::Fragment { offset, more } => write!(f, "fragment: offset {offset}, more: {more}"),
            FrameError::BadIpChecksum { want, have } => {
                write!(f, "IPv4 header checksum is {have:#06x}, must be {want:#06x}")
            }
            FrameError::LengthMismatch { what, want, have } => {
                write!(f, "{what}: length is {have}, must be {want}")
            }
            FrameError::BadUdpChecksum => write!(f, "UDP checksum is wrong"),
            FrameError::BadIcrc { want, have } => write!(f, "ICRC is {have:#010x}, must be {want:#010x}"),
            FrameError::BadTver { tver } => write!(f, "transport header version is {tver}, must be 0"),
            FrameError::ReservedOpcode { opcode } => write!(f, "opcode {opcode:#04x} is reserved"),
            FrameError::BadTransportLength { opcode, want, have } => {
                write!(f, "{opcode}: {have} bytes between UDP and ICRC, must be {want}")
            }
            FrameError::UnexpectedPayload { opcode, bytes } => {
                write!(f, "{opcode} carries no payload, {bytes} bytes found")
            }
            FrameError::WrongExtensions { opcode } => {
                write!(f, "extension headers are not those of {opcode}")
            }
            FrameError::Encode(e) => e.fmt(f),
        }
    }
}

impl core::error::Error for FrameError {}

impl From<Error> for FrameError {
    fn from(e: Error) -> Self {
        FrameError::Encode(e)
    }
}

/// An error of a `parse` on the way in: only that bytes are missing.
fn short(e: Error) -> FrameError {
    match e {
        Error::Truncated { what, need, have } => FrameError::Truncated { what, need, have },
        other => FrameError::Encode(other),
    }
}

impl<'a> Frame<'a> {
    /// The opcode, if it has a meaning; it does in every frame that `parse` gives.
    pub fn opcode(&self) -> Result<Opcode, FrameError> {
        Opcode::from_code(self.bth.opcode).ok_or(FrameError::ReservedOpcode { opcode: self.bth.opcode })
    }

    /// Decode and check a frame. A UDP checksum of zero is none; IP options are not taken; what the IP
    /// length leaves over is Ethernet padding.
    ///
    /// # Errors
    /// The first thing wrong, in the order of [`DropReason`].
    pub fn parse(frame: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        let eth = Eth::parse(frame).map_err(short)?;
        let mut rest = &frame[eth::BYTES..];
        let mut ethertype = eth.ethertype;
        let mut tag = None;
        if ethertype == eth::ethertype::VLAN {
            let parsed = Vlan::parse(rest).map_err(short)?;
            rest = &rest[vlan::BYTES..];
            ethertype = parsed.ethertype;
            tag = Some(parsed);
        }

        let (ip, ip_bytes, total, protocol, fragment) = match ethertype {
            eth::ethertype::IPV4 => {
                let h = Ipv4::parse(rest).map_err(short)?;
                if h.version != 4 {
                    return Err(FrameError::BadVersion { want: 4, have: h.version });
                }
                if h.ihl < 5 {
                    return Err(FrameError::BadHeaderLength { ihl: h.ihl });
                }
                (Ip::V4(h), h.ihl as usize * 4, h.total_len as usize, h.protocol, (h.frag_offset, h.mf))
            }
            eth::ethertype::IPV6 => {
                let h = Ipv6::parse(rest).map_err(short)?;
                if h.version != 6 {
                    return Err(FrameError::BadVersion { want: 6, have: h.version });
                }
                let total = ipv6::BYTES + h.payload_len as usize;
                let fragment = match (h.next_header, rest.get(ipv6::BYTES..ipv6::BYTES + 4)) {
                    (ipv6::NEXT_FRAGMENT, Some(f)) if f[0] == ipv4::PROTOCOL_UDP => {
                        let word = u16::from_be_bytes([f[2], f[3]]);
                        return Err(FrameError::Fragment { offset: word >> 3, more: word & 1 == 1 });
                    }
                    _ => (0, false),
                };
                (Ip::V6(h), ipv6::BYTES, total, h.next_header, fragment)
            }
            other => return Err(FrameError::NotRoce(NotRoce::Ethertype(other))),
        };
        if protocol != ipv4::PROTOCOL_UDP {
            return Err(FrameError::NotRoce(NotRoce::Protocol(protocol)));
        }
        let (offset, more) = fragment;
        if offset != 0 {
            // Whose it is stands in the first fragment only.
            return Err(FrameError::Fragment { offset, more });
        }
        let udp = Udp::parse(rest.get(ip_bytes..).unwrap_or_default()).map_err(short)?;
        if udp.dport != udp::ROCE_PORT {
            return Err(FrameError::NotRoce(NotRoce::Port(udp.dport)));
        }
        if let Ip::V4(h) = &ip {
            if h.ihl != 5 {
                return Err(FrameError::BadHeaderLength { ihl: h.ihl });
            }
            if more {
                return Err(FrameError::Fragment { offset, more });
            }
            let right = Ipv4 { checksum: 0, ..*h }.to_bytes().map(|b| checksum::ipv4(&b))?;
            if right != h.checksum {
                return Err(FrameError::BadIpChecksum { want: right, have: h.checksum });
            }
        }

        // From here on the IP length rules; what the frame has more is padding.
        if total > rest.len() {
            return Err(FrameError::LengthMismatch { what: "frame", want: total, have: rest.len() });
        }
        let least = ip_bytes + udp::BYTES + bth::BYTES + icrc::BYTES;
        if total < least {
            return Err(FrameError::LengthMismatch { what: ip_name(&ip), want: least, have: total });
        }
        let (packet, trailer) = rest.split_at(total);
        let datagram = &packet[ip_bytes..];
        if udp.len as usize != datagram.len() {
            return Err(FrameError::LengthMismatch {
                what: "udp",
                want: datagram.len(),
                have: udp.len as usize,
            });
        }
        if !checksum::udp_is_right(ip.addresses(), datagram) {
            return Err(FrameError::BadUdpChecksum);
        }
        match icrc::check(packet) {
            Ok(()) => {}
            Err(icrc::CheckError::Wrong { want, have }) => return Err(FrameError::BadIcrc { want, have }),
            Err(icrc::CheckError::Headers(e)) => return Err(short(e)),
        }

        let transport = &datagram[udp::BYTES..datagram.len() - icrc::BYTES];
        let bth = Bth::parse(transport).map_err(short)?;
        if bth.tver != 0 {
            return Err(FrameError::BadTver { tver: bth.tver });
        }
        let Some(opcode) = Opcode::from_code(bth.opcode) else {
            return Err(FrameError::ReservedOpcode { opcode: bth.opcode });
        };
        let need = opcode.header_bytes() + bth.pad as usize;
        if transport.len() < need {
            return Err(FrameError::BadTransportLength { opcode, want: need, have: transport.len() });
        }
        if transport.len() % 4 != 0 {
            let want = transport.len().next_multiple_of(4);
            return Err(FrameError::BadTransportLength { opcode, want, have: transport.len() });
        }
        let (ext, ext_bytes) = Extensions::parse(opcode, &transport[bth::BYTES..]).map_err(short)?;
        let body = &transport[bth::BYTES + ext_bytes..];
        if !opcode.carries_payload() && !body.is_empty() {
            return Err(FrameError::UnexpectedPayload { opcode, bytes: body.len() });
        }
        let (payload, padding) = body.split_at(body.len() - bth.pad as usize);
        let mut pad = [0; 3];
        pad[..padding.len()].copy_from_slice(padding);
        let have = &packet[packet.len() - icrc::BYTES..];
        let icrc = u32::from_le_bytes([have[0], have[1], have[2], have[3]]);
        Ok(Frame { eth, vlan: tag, ip, udp, bth, ext, payload, pad, icrc, trailer })
    }

    /// The same for a card without selective retransmission: the opcode of its report is reserved.
    ///
    /// # Errors
    /// As [`Frame::parse`].
    pub fn parse_standard(frame: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        const REPORT: u8 = Opcode::RcReport as u8;
        match Frame::parse(frame) {
            Ok(Frame { bth: Bth { opcode: REPORT, .. }, .. })
            | Err(
                FrameError::BadTransportLength { opcode: Opcode::RcReport, .. }
                | FrameError::UnexpectedPayload { opcode: Opcode::RcReport, .. },
            ) => Err(FrameError::ReservedOpcode { opcode: REPORT }),
            parsed => parsed,
        }
    }

    /// Bytes of the encoded frame.
    pub fn len(&self) -> usize {
        eth::BYTES + self.tag_bytes() + self.ip.bytes() + self.datagram_bytes() + self.trailer.len()
    }

    /// Never: a frame has headers.
    pub const fn is_empty(&self) -> bool {
        false
    }

    fn tag_bytes(&self) -> usize {
        if self.vlan.is_some() {
            vlan::BYTES
        } else {
            0
        }
    }

    fn datagram_bytes(&self) -> usize {
        let ext = Opcode::from_code(self.bth.opcode).map_or(0, |o| o.header_bytes() - bth::BYTES);
        udp::BYTES + bth::BYTES + ext + self.payload.len() + self.bth.pad as usize % 4 + icrc::BYTES
    }

    /// Set what follows from the rest: ethertypes, pad count, lengths, the IPv4 checksum, and the ICRC. The UDP
    /// checksum becomes 0: none. The pad bytes become zero.
    ///
    /// # Errors
    /// `LengthMismatch` when the packet is too long for IP, otherwise as [`Frame::emit`].
    pub fn seal(&mut self) -> Result<(), FrameError> {
        self.bth.pad = (self.payload.len().wrapping_neg() & 3) as u8;
        self.pad = [0; 3];
        match &mut self.vlan {
            Some(tag) => {
                self.eth.ethertype = eth::ethertype::VLAN;
                tag.ethertype = self.ip.ethertype();
            }
            None => self.eth.ethertype = self.ip.ethertype(),
        }
        let datagram = self.datagram_bytes();
        let total = datagram + ipv4::BYTES;
        if total > u16::MAX as usize {
            return Err(FrameError::LengthMismatch { what: "ip", want: u16::MAX as usize, have: total });
        }
        self.udp.dport = udp::ROCE_PORT;
        self.udp.len = datagram as u16;
        self.udp.checksum = 0;
        match &mut self.ip {
            Ip::V4(h) => {
                h.total_len = total as u16;
                h.checksum = 0;
                h.checksum = checksum::ipv4(&h.to_bytes()?);
            }
            Ip::V6(h) => h.payload_len = datagram as u16,
        }
        self.icrc = self.compute_icrc()?;
        Ok(())
    }

    /// Network, UDP, base and extension headers, without payload.
    fn headers(&self, bytes: &mut [u8]) -> Result<usize, FrameError> {
        let opcode = self.opcode()?;
        if !self.ext.match_opcode(opcode) {
            return Err(FrameError::WrongExtensions { opcode });
        }
        let mut at = 0;
        self.ip.emit(bytes)?;
        at += self.ip.bytes();
        self.udp.emit(bytes.get_mut(at..).unwrap_or_default())?;
        at += udp::BYTES;
        self.bth.emit(bytes.get_mut(at..).unwrap_or_default())?;
        at += bth::BYTES;
        at += self.ext.emit(bytes.get_mut(at..).unwrap_or_default())?;
        Ok(at)
    }

    fn compute_icrc(&self) -> Result<u32, FrameError> {
        let mut head = [0; ipv6::BYTES + udp::BYTES + bth::BYTES + report::BYTES];
        let len = self.headers(&mut head)?;
        let (mut icrc, used) = icrc::Icrc::begin(&head[..len])?;
        icrc.update(&head[used..len]);
        icrc.update(self.payload);
        icrc.update(&self.pad[..self.bth.pad as usize]);
        Ok(icrc.finish())
    }

    /// Encode, with the ICRC computed. Everything else is written as it stands, wrong or right; see
    /// [`Frame::seal`]. Returns the bytes written.
    ///
    /// # Errors
    /// `ReservedOpcode`, `WrongExtensions`, or `Encode` when a value or the whole does not fit.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, FrameError> {
        let need = self.len();
        if bytes.len() < need {
            return Err(Error::Truncated { what: "frame", need, have: bytes.len() }.into());
        }
        self.eth.emit(bytes)?;
        let mut at = eth::BYTES;
        if let Some(tag) = &self.vlan {
            tag.emit(&mut bytes[at..])?;
            at += vlan::BYTES;
        }
        let packet = at;
        at += self.headers(&mut bytes[at..])?;
        for part in [self.payload, &self.pad[..self.bth.pad as usize]] {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let icrc = icrc::icrc(&bytes[packet..at])?;
        for part in [&icrc.to_le_bytes()[..], self.trailer] {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Ok(at)
    }
}

const fn ip_name(ip: &Ip) -> &'static str {
    match ip {
        Ip::V4(_) => "ipv4",
        Ip::V6(_) => "ipv6",
    }
}

// The buffer of `compute_icrc` holds the longest headers.
const _: () = {
    let mut i = 0;
    while i < Opcode::ALL.len() {
        assert!(Opcode::ALL[i].header_bytes() <= bth::BYTES + report::BYTES);
        i += 1;
    }
    assert!(reth::BYTES + imm_dt::BYTES <= atomic_eth::BYTES);
    assert!(deth::BYTES + imm_dt::BYTES <= atomic_eth::BYTES && ieth::BYTES <= cnp::BYTES);
    assert!(aeth::BYTES + atomic_ack_eth::BYTES <= atomic_eth::BYTES);
};
