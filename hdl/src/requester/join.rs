// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins the pieces of a packet's payload: runs of bytes in the lanes of memory become one run.
//!
//! ```text
//!          +---------+      +---------+               +-----+
//!  beat -->| rotate  |--+-->|  merge  |--+----------->| out |--> beat
//!          | log2 B  |  |   +---------+  |            +-----+
//!          +---------+  |        ^       +--> waits ---^
//!                       +--> held lanes: what the beat under way has already, or what fell into the next one
//! ```
//!
//! The packet's run begins in the lane in which its first piece does: that one, and one that goes on in the next page, is
//! not rotated, and its beats pass in the cycle in which they come. A piece that must go elsewhere is rotated by the same
//! number of lanes in all its beats ([`Fit`], worked out ahead). A beat leaves when it is full or the packet's last.
//!
//! What comes is never held up while the taker has room. A beat that comes gives one, or none, or with the last of a packet
//! two: then one waits, and leaves before what comes next. No packet has more beats joined than it came with, so a packet
//! that gives two at its end gave none for an earlier one: never does more than one wait.
//!
//! Latency: 0; there is a path from the output's `ready` to the input's. A beat a cycle. Bytes outside the run mean nothing,
//! on either side. Reset: nothing is held.

use crate::config::RnicConfig;
use crate::stream::{byte_mask, lanes_from, rotate};
use crate::tx::Payload;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Scope, Sig, Stream};

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
    let first = m.reg("first", 1).reset(1);
    // A register a byte, for each byte keeps what it has or takes what comes.
    let held: Vec<Sig> =
        (0..cfg.beat_bytes).map(|lane| m.reg(&format!("held{lane}"), 8).no_reset()).collect();
    let fit = &beats.fit;

    let rotated = rotate(beats.data, fit.rotate);
    let lanes = lanes_from(m.mux(first, &fit.from, &fit.rotate));
    let here = byte_mask(lanes);
    let merged = (rotated & here) | (cat(&held) & !here);
    let fills = beats.last | m.mux(beats.ends_piece, &fit.fills, &!(first & fit.holds));
    let spills = beats.last & fit.spills;

    let whole = beats.last & !spills;
    let joined = Payload { data: merged, last: whole, poisoned: whole & beats.poisoned };
    let rest = Payload { data: rotated, last: lit(1, 1), poisoned: beats.poisoned };
    let waits = m.reg("waits", 1).reset(0);
    let waiting = m.reg_of("waiting", &joined);
    let out = Stream::new(m, "out", waits | (beats.valid & fills), m.mux(waits, &waiting, &joined));
    beats.accept(out.ready | !(fills | waits));
    let comes = beats.fire();
    m.assert(!(comes & spills & waits), "one beat at most waits");
    m.when(comes, |m| {
        m.set(&first, beats.ends_piece);
        for (lane, (held, byte)) in (0..).zip(held.iter().zip(rotated.chunks(8))) {
            m.when(fills | lanes.bit(lane), |m| m.set(held, byte));
        }
    });
    m.when(comes & fills, |m| m.set_all(&waiting, &m.mux(spills, &rest, &joined)));
    m.when(comes & (spills | (waits & fills)), |m| m.set(&waits, 1))
        .otherwise_when(out.fire(), |m| m.set(&waits, 0));
    out
}

#[cfg(test)]
mod tests;
