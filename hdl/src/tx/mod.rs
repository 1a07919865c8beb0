// SPDX-License-Identifier: MIT OR Apache-2.0
//! To the wire: choose, build, seal.

pub mod arbitrate;
pub mod build;
pub mod give_way;
pub mod guard;
pub mod icrc;
pub mod join;
pub mod pause;
pub mod report;

use crate::config::RnicConfig;
use crate::context::timer::Departed;
use crate::stream::Beat;
use ferrowire_rtl::{bits, clog2, lit, Bundle, Sig};

/// A beat of a packet's payload on its way to the frame, in the lanes of host memory. The payload is one or more pieces, each of
/// whole beats: the first byte of the first piece lies in lane `payload_lane` of the packet's first beat. A packet without payload has none.
#[derive(Clone, Bundle)]
pub struct Payload {
    /// The bytes; those outside the packet's payload mean nothing.
    pub data: Sig,
    /// Last beat of a piece.
    pub ends_piece: Sig,
    /// Lane of the first byte of its piece. Of the packet's first piece it is not looked at.
    pub from: Sig,
    /// With `ends_piece`: lane of the piece's last byte. Of the packet's last piece it is not looked at.
    pub end: Sig,
    /// Last beat of the packet.
    pub last: Sig,
    /// With the last beat: the payload is not the user's, the frame must not be sent.
    pub poisoned: Sig,
}

impl Payload {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Payload {
        let (data, lane) = (bits(8 * cfg.beat_bytes), bits(cfg.lane_bits()));
        Payload { data, ends_piece: bits(1), from: lane, end: lane, last: bits(1), poisoned: bits(1) }
    }

    /// A beat of payload that lies in one piece.
    pub fn of_one_piece(data: Sig, last: Sig, poisoned: Sig) -> Payload {
        let lane = lit(clog2(u64::from(data.width() / 8)), 0);
        Payload { data, ends_piece: last, from: lane, end: lane, last, poisoned }
    }
}

/// Whose a frame is, and who may hold it up.
#[derive(Clone, Bundle)]
pub struct FrameOf {
    /// The sender.
    pub departed: Departed,
    /// A request: it starts a timer when it leaves.
    pub request: Sig,
    /// Its priority on the wire: that of its tag, or 0.
    pub priority: Sig,
    /// That may have to stand still while others go on.
    pub aside: Sig,
    /// A raw frame, which has no ICRC.
    pub raw: Sig,
    /// It returns inside the card; of a raw frame before `guard`: it may.
    pub loops: Sig,
    /// Beats of the loop's ring that are reserved for it.
    pub reserved: Sig,
}

impl FrameOf {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> FrameOf {
        let departed = Departed::of(cfg);
        let one = bits(1);
        let reserved = bits(crate::loopback::beat_bits(cfg));
        FrameOf { departed, request: one, priority: bits(3), aside: one, raw: one, loops: one, reserved }
    }
}

/// A beat of a frame on its way to `icrc`.
#[derive(Clone, Bundle)]
pub struct FrameBeat {
    /// The bytes.
    pub data: Sig,
    /// The frame ends with this beat.
    pub last: Sig,
    /// Bytes at the top of the last beat that are not the frame's; zero in all other beats.
    pub empty: Sig,
    /// With the last beat: the frame must not be sent.
    pub poisoned: Sig,
    /// The same in all beats of a frame.
    pub of: FrameOf,
}

impl FrameBeat {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> FrameBeat {
        FrameBeat::from(&Beat::of(cfg.beat_bytes), bits(1), FrameOf::of(cfg))
    }

    /// A beat, whether its frame is poisoned, and whose it is.
    pub fn from(beat: &Beat, poisoned: Sig, of: FrameOf) -> FrameBeat {
        FrameBeat { data: beat.data, last: beat.last, empty: beat.empty, poisoned, of }
    }

    /// The beat alone.
    pub fn beat(&self) -> Beat {
        Beat { data: self.data, last: self.last, empty: self.empty }
    }
}
