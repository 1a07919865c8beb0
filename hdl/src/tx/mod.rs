// SPDX-License-Identifier: MIT OR Apache-2.0
//! To the wire: choose, build, seal.

pub mod arbitrate;
pub mod build;
pub mod icrc;

use crate::config::RnicConfig;
use ferrowire_rtl::{bits, Bundle, Sig};

/// A beat of a packet's payload on its way to the frame, in the lanes of host memory: the first byte in lane
/// `payload_lane` of the packet's first beat. A packet without payload has none.
#[derive(Clone, Bundle)]
pub struct Payload {
    /// The bytes; those outside the packet's payload mean nothing.
    pub data: Sig,
    /// Last beat of the packet.
    pub last: Sig,
}

impl Payload {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Payload {
        Payload { data: bits(8 * cfg.beat_bytes), last: bits(1) }
    }
}
