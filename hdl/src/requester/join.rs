// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins the pieces of a packet's payload: runs of bytes in the lanes of memory become one run.
//!
//! ```text
//!          +---------+      +---------+
//!  beat -->| rotate  |--+-->|  merge  |--> beat
//!          | log2 B  |  |   +---------+
//!          +---------+  |        ^
//!                       +--> held lanes: what the beat under way has already, or what fell into the next one
//! ```
//!
//! The packet's run begins in the lane in which its first piece does: that one, and one that goes on in the next page, is
//! not rotated, and its beats pass in the cycle in which they come. A piece that must go elsewhere is rotated by the same
//! number of lanes in all its beats ([`Fit`], worked out ahead). A beat leaves when it is full or the packet's last, so each
//! beat that comes gives one at most; where the last one leaves bytes behind, these follow in a cycle of their own, in which
//! nothing is taken.
//!
//! Latency: 0; there is a path from the output's `ready` to the input's. A beat a cycle, and one cycle more for a packet whose
//! bytes need more beats joined than its last piece has. Bytes outside the run mean nothing, on either side. Reset: nothing is
//! held.

use crate::config::RnicConfig;
use crate::stream::{byte_mask, lanes_from, rotate};
use crate::tx::Payload;
use ferrowire_rtl::{bits, lit, module, Bundle, Scope, Sig, Stream};

/// How a piece joins what is before it in its packet.
#[derive(Clone, Bundle)]
pub struct Fit {
    /// Lanes to rotate by.
    pub rotate: Sig,
    /// Lane of the piece's first byte among the packet's: those below are there already.
    pub from: Sig,
    /// The first of several beats fills none.
    pub holds: Sig,
    /// The last beat fills one.
    pub fills: Sig,
    /// And leaves bytes for the next.
    pub spills: Sig,
}

impl Fit {
    /// The shape, for lanes of so many bits.
    pub fn of(lane_bits: u32) -> Self {
        let one = bits(1);
        Fit { rotate: bits(lane_bits), from: bits(lane_bits), holds: one, fills: one, spills: one }
    }

    /// For a piece of `bytes`, at least one, that begins in lane `from` and goes to lane `to`.
    pub fn plan(from: Sig, to: Sig, bytes: Sig) -> Self {
        let lane = from.width();
        let (top, width) = (lit(lane + 1, (1u32 << lane) - 1), bytes.width() + 1);
        let shift = to.zext(lane + 1) - from.zext(lane + 1);
        let (rotate, down) = (shift.trunc(lane), shift.bit(lane));
        // The last byte's place, counted from the first beat's lane 0.
        let end = from.zext(width) + bytes.zext(width) - 1;
        let single = end.slice(lane, width - lane).eq(0);
        // Its lane among the packet's bytes; the carry says that it is in the next beat. One that moves down within its only
        // beat stays in it.
        let sum = rotate.zext(lane + 1) + end.trunc(lane).zext(lane + 1);
        let stays = single & down;
        Fit { rotate, from: to, holds: down, fills: sum.ge(top) & !stays, spills: sum.bit(lane) & !stays }
    }
}

/// A beat of a piece.
#[derive(Clone, Bundle)]
pub struct Beat {
    /// As it lay in host memory.
    pub data: Sig,
    /// Inline data.
    pub inline: Sig,
    /// These count, and are not rotated.
    pub is_inline: Sig,
    /// Last beat of its piece.
    pub ends_piece: Sig,
    /// Last beat of its packet.
    pub last: Sig,
    /// With it: the packet must not be sent.
    pub poisoned: Sig,
    /// The piece's.
    pub fit: Fit,
}

/// The joiner.
#[module]
pub fn join(m: &Scope, cfg: &RnicConfig, beats: Stream<Beat>) -> Stream<Payload> {
    let width = 8 * cfg.beat_bytes;
    let first = m.reg("first", 1).reset(1);
    let held = m.reg("held", width).no_reset();
    let spilling = m.reg("spilling", 1).reset(0);
    let spill_poisoned = m.reg("spill_poisoned", 1).no_reset();
    let fit = &beats.fit;

    let rotated = rotate(beats.data, fit.rotate);
    let here = byte_mask(lanes_from(m.mux(first, &fit.from, &fit.rotate)));
    let lies = m.mux(beats.is_inline, &beats.inline, &rotated);
    let merged = (lies & here) | (held & !here);
    let alone = beats.ends_piece;
    let fills = beats.last | m.mux(alone, &fit.fills, &!(first & fit.holds));
    let spills = beats.last & fit.spills;

    let payload = Payload {
        data: m.mux(spilling, &held, &merged),
        last: spilling | (beats.last & !spills),
        poisoned: m.mux(spilling, &spill_poisoned, &(beats.last & !spills & beats.poisoned)),
    };
    let out = Stream::new(m, "out", spilling | (beats.valid & fills), payload);
    beats.accept(!spilling & (out.ready | !fills));
    m.when(beats.fire(), |m| {
        m.set(&first, beats.ends_piece);
        m.set(&held, m.mux(fills, &rotated, &merged));
        m.set(&spilling, spills);
        m.set(&spill_poisoned, beats.poisoned);
    })
    .otherwise_when(out.fire(), |m| m.set(&spilling, 0));
    out
}

#[cfg(test)]
mod tests;
