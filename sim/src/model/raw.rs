// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw Ethernet: whole frames of what is not RoCE, to and from queue pair 0 (IBTA 10.2.9 calls its like raw datagrams). What is wrong with one is a
//! counted drop, and never an answer.

use ferrowire_spec::csr::port::multicast_hash;
use ferrowire_spec::csr::{DropReason, TrafficCounter};
use ferrowire_spec::qp_state::MAX_RAW_FRAME;
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause, WcStatus};
use ferrowire_spec::wire::{eth, ipv4, ipv6, pause, pfc, udp, Eth, FrameError, Pause};

use super::engine::Node;
use super::qp::Qp;
use super::types::{Completion, SendWr};

/// The broadcast address (IEEE 802.3, 3.2.3).
const BROADCAST: u64 = (1 << 48) - 1;

/// Which frames that are not RoCE the raw Ethernet queue pair gets; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawFilter {
    /// Those to this node.
    pub unicast: bool,
    /// Those to everyone.
    pub broadcast: bool,
    /// Those to every other group.
    pub multicast: bool,
    /// Those to groups whose [`multicast_hash`] has its bit here.
    pub groups: u64,
    /// With `unicast`, those to any address, groups too.
    pub promiscuous: bool,
}

impl RawFilter {
    /// Whether a frame to that address passes, at the station with the other one.
    pub fn passes(&self, to: u64, own: u64) -> bool {
        let group = to >> 40 & 1 == 1;
        let as_group = match to {
            BROADCAST => self.broadcast,
            _ => group && (self.multicast || self.groups >> multicast_hash(to) & 1 == 1),
        };
        as_group || self.unicast && (self.promiscuous || to == own)
    }
}

/// Whether it is what the queue pair may send: an Ethernet header at least.
pub(super) fn check_length(wr: &SendWr) -> Result<(), (WcStatus, u8)> {
    match (eth::BYTES as u64..=u64::from(MAX_RAW_FRAME)).contains(&wr.len()) {
        true => Ok(()),
        false => Err((WcStatus::LocLenErr, LocalCause::Length as u8)),
    }
}

/// Tags and extension headers that the card parses (host interface): a frame with more may be anything.
const TAGS: usize = 2;
const EXTENSIONS: usize = 8;

/// Whether the queue pair may not send a frame, for a receiver could take it for RoCE: EtherType 0x8915 (IBTA annex A16) or UDP to port 4791 (annex A17).
pub(super) fn is_roce(bytes: &[u8]) -> bool {
    let word = |at: usize| bytes.get(at..at + 2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let is_tag = |at: usize| matches!(word(at), Some(0x8100 | 0x88a8 | 0x9100));
    let Some(kind) = (0..=TAGS).map(|tags| eth::BYTES - 2 + 4 * tags).find(|at| !is_tag(*at)) else {
        return true;
    };
    let udp = match word(kind) {
        Some(eth::ethertype::ROCE) => return true,
        Some(eth::ethertype::IPV4) => udp_of_ipv4(bytes, kind + 2),
        Some(eth::ethertype::IPV6) => match udp_of_ipv6(bytes, kind + 2) {
            Ok(udp) => udp,
            Err(TooDeep) => return true,
        },
        _ => None,
    };
    udp.is_some_and(|at| word(at + 2) == Some(udp::ROCE_PORT))
}

/// Where the UDP header lies, if there is one: a fragment that does not begin its packet has none.
fn udp_of_ipv4(bytes: &[u8], at: usize) -> Option<usize> {
    let header = bytes.get(at..at + 10)?;
    let length = 4 * usize::from(header[0] & 15);
    let sound = header[0] >> 4 == 4 && length >= ipv4::BYTES;
    let begins = u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0;
    (sound && begins && header[9] == ipv4::PROTOCOL_UDP).then_some(at + length)
}

/// There are more extension headers than the card parses.
struct TooDeep;

/// The same of IPv6 (RFC 8200, 4).
fn udp_of_ipv6(bytes: &[u8], at: usize) -> Result<Option<usize>, TooDeep> {
    let Some(mut next) = bytes.get(at + 6).copied() else { return Ok(None) };
    let mut at = at + ipv6::BYTES;
    for passed in 0.. {
        let is_extension = matches!(next, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140);
        match next {
            ipv4::PROTOCOL_UDP => return Ok(Some(at)),
            _ if !is_extension => return Ok(None),
            _ if passed == EXTENSIONS => return Err(TooDeep),
            _ => {}
        }
        let Some(&[following, length]) = bytes.get(at..at + 2) else { return Ok(None) };
        at += match next {
            ipv6::NEXT_FRAGMENT => match bytes.get(at + 2..at + 4) {
                Some(&[high, low]) if high == 0 && low < 8 => 8,
                _ => return Ok(None),
            },
            51 => 4 * (usize::from(length) + 2),
            _ => 8 * (usize::from(length) + 1),
        };
        next = following;
    }
    unreachable!("the walk ends")
}

/// What counts a frame of MAC control, which is never a queue pair's (IEEE 802.3 31.4). It is counted alone: nobody pauses this wire. One that has
/// `looped` says nothing of the wire.
///
/// # Errors
/// Why it is dropped.
pub(super) fn mac_control(
    node: &Node,
    bytes: &[u8],
    looped: bool,
) -> Result<Option<TrafficCounter>, DropReason> {
    let Ok(header) = Eth::parse(bytes) else { return Ok(None) };
    if header.ethertype != eth::ethertype::MAC_CONTROL {
        return Ok(None);
    }
    let body = bytes.get(eth::BYTES..).unwrap_or_default();
    let for_us = !looped && (header.dst == pause::GROUP || header.dst == node.config.mac);
    match Pause::parse(body).map(|head| head.opcode) {
        Ok(pause::CODE) if for_us => Ok(Some(TrafficCounter::RxPause)),
        Ok(pfc::CODE) if for_us && body.len() >= pfc::BYTES => Ok(Some(TrafficCounter::RxPfc)),
        _ => Err(DropReason::MacControl),
    }
}

/// Whether a frame that is no RoCE packet goes to the raw Ethernet queue pair.
///
/// # Errors
/// Why it is dropped.
pub(super) fn admit(node: &Node, bytes: &[u8], error: &FrameError) -> Result<(), DropReason> {
    let reason = error.drop_reason().unwrap_or(DropReason::Malformed);
    // A fragment may be one of anything: whoever puts it together knows.
    if !matches!(reason, DropReason::NotRoce | DropReason::IpFragment) {
        return Err(reason);
    }
    let to = Eth::parse(bytes).map_err(|_| DropReason::Runt)?.dst;
    if bytes.len() > MAX_RAW_FRAME as usize {
        return Err(DropReason::NotRoce);
    }
    match node.raw_filter.passes(to, node.config.mac) {
        true => Ok(()),
        false => Err(reason),
    }
}

impl Qp {
    /// A frame that arrived and passed the filter.
    pub(super) fn raw_frame(&mut self, node: &mut Node, bytes: &[u8]) -> Result<(), DropReason> {
        let wr = self.rq.take(node).ok_or(DropReason::NoReceive)?;
        if bytes.len() as u64 > wr.len() {
            self.rq.give_back(wr);
            return Err(DropReason::TooLong);
        }
        let pd = self.rq.pd(node, self.pd);
        let failed = self.rq.has_failed(node).then_some(LocalCause::Dma).or(wr.fault);
        let placed = failed.map_or_else(|| node.scatter(pd, &wr.sges, 0, bytes), Err);
        if let Err(cause) = placed {
            // A fault of this end, as with datagrams (IBTA 10.10.2.2).
            self.complete_recv(node, &wr, WcStatus::LocProtErr, cause as u8);
            self.enter_error(node);
            return Ok(());
        }
        let done = Completion {
            byte_len: bytes.len() as u32,
            ..Completion::new(self.qpn, wr.wr_id, CqeOpcode::Recv)
        };
        node.complete(self.recv_cq, done);
        Ok(())
    }
}
