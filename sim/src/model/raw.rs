// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raw Ethernet: whole frames of what is not RoCE, to and from queue pair 0 (IBTA 10.2.9 calls its like raw datagrams). What is wrong with one is a
//! counted drop, and never an answer.

use ferrowire_spec::csr::port::multicast_hash;
use ferrowire_spec::csr::{DropReason, TrafficCounter};
use ferrowire_spec::qp_state::MAX_RAW_FRAME;
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause, WcStatus};
use ferrowire_spec::wire::{eth, pause, pfc, Eth, FrameError, Pause};

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
