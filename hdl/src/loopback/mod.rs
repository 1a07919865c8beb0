// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loopback: frames to the port's own MAC address return inside the card.
//!
//! ```text
//!  requests, raw frames --> gate ------+
//!  CNPs ------------------> gate ------+--> arbitrate --> build --> tx::icrc --+--> rings of the wire --> wire
//!  answers --+--> READ responses ------+                                       +--> ring of the loop --+
//!            +--> acks, gate ----------+                                                               v
//!                                                                       rx::parse <-- merge <----------+
//!  room: free beats of the loop's ring, a half for requests,               |            ^
//!  a half for answers --> gates, the reply engine's cut                    |            +---- wire
//!                                                                          +-> rx::buffer -- roomy --> merge
//! ```
//!
//! A QP or an address handle *loops* if its destination MAC address was the port's when MODIFY_QP or CREATE_AH gave it: the command processor compares, and the
//! bit is an attribute. A raw frame loops if its destination is the port's now: `tx::guard` looks at its first beat. IP address, VLAN and ICRC of what returns are
//! checked by the receive path, like those of any frame.
//!
//! A looped frame leaves the transmit path after `tx::build`, before the ring in which `tx::icrc` keeps whole frames, so it has its ICRC. It enters the receive path
//! before `rx::parse`, so every check sees it.
//!
//! Nothing is lost and nothing waits in a circle ([0049](../../../docs/decisions/0049-a-looped-frame-has-its-room-before-it-is-built.md)):
//!
//! - [`room`](room::room): a looped packet passes its gate with beats of the loop's ring reserved for it, so it never holds up the transmit path that wire and
//!   loop share. Requests and answers have a half of the ring each.
//! - [`acks`](acks::acks): an acknowledgement that loops waits in a row of its QP, where a newer one takes its place: the receive path never waits for room.
//!   READ responses and answers of atomics have their room before `responder::reply::cut` lets them begin.
//! - [`merge`](merge::merge): a looped frame begins only while the receive buffer has room for the largest frame. Wire and loop take turns, a frame each.

pub mod acks;
pub mod merge;
pub mod room;

use crate::config::RnicConfig;
use ferrowire_rtl::{clog2, lit, Sig};
use ferrowire_spec::wire::{atomic_eth, bth, eth, icrc, ipv6, report, udp, vlan};

/// Bytes round the payload of the longest packet, its pad included.
const AROUND: u32 =
    (eth::BYTES + vlan::BYTES + ipv6::BYTES + udp::BYTES + bth::BYTES + atomic_eth::BYTES + icrc::BYTES + 3)
        as u32;
/// Largest payload of a packet, and largest raw frame.
const PAYLOAD: u32 = 4096;

/// Beats of the loop's ring: 16 KiB, and no fewer than a block RAM has rows.
pub fn beats(cfg: &RnicConfig) -> u32 {
    (16384 / cfg.beat_bytes).max(512)
}

/// Bits of a number of beats of the ring.
pub fn beat_bits(cfg: &RnicConfig) -> u32 {
    clog2(u64::from(beats(cfg))) + 1
}

/// Beats that are reserved for a packet with this payload: those of the longest headers.
pub fn reserved(cfg: &RnicConfig, payload_bytes: Sig) -> Sig {
    let sum = payload_bytes.zext(14) + (AROUND + cfg.beat_bytes - 1);
    let lane = cfg.lane_bits();
    let beats = sum.slice(lane, 14 - lane);
    beats.zext(beats.width().max(beat_bits(cfg))).trunc(beat_bits(cfg))
}

/// Beats reserved for a packet without payload.
pub fn smallest(cfg: &RnicConfig) -> u32 {
    AROUND.div_ceil(cfg.beat_bytes)
}

/// Beats reserved for a report of selective retransmission.
pub fn small_report(cfg: &RnicConfig) -> u32 {
    (AROUND + report::BYTES as u32).div_ceil(cfg.beat_bytes)
}

/// Beats reserved for the largest packet.
pub fn largest(cfg: &RnicConfig) -> u32 {
    (AROUND + PAYLOAD).div_ceil(cfg.beat_bytes)
}

/// Nothing is reserved.
pub fn nothing(cfg: &RnicConfig) -> Sig {
    lit(beat_bits(cfg), 0)
}
