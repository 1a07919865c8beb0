// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the block has received, as entries of a [store](ferrowire_mac::store): a beat, and with the last one the verdict.
//!
//! ```text
//!   rx_axis --> reg --> tkeep becomes `empty` --> reg --> entry
//!   hears? ---> reg --> ends what is under way ---^
//! ```
//!
//! `rx_axis_tkeep` is a run of ones from bit 0 on, and full but in the last beat (PG203, "RX AXI4-Stream Interface"). Where its ones end is one of 64 places, so `empty` is an OR of some of these for each bit. Bytes above the end become zero.
//!
//! The interface has no mark for a frame's beginning: it is what follows an end. So when the link goes down within a frame, what is there of it is ended here as bad, and nothing is taken until the link is up; otherwise its
//! head and another frame's tail would be one good frame.
//!
//! **Reset** of the domain, at any time: the block goes on, and the rest of a frame that is under way is not taken. What says so has no reset; the block's first alignment sets it right.
//!
//! **Latency** 2, a beat a cycle, always; the store always takes entries.

use crate::{keep_bits, BYTES};
use ferrowire_mac::pack::Entry;
use ferrowire_mac::rx::Outcome;
use ferrowire_parts::Beat;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Scope, Sig, Stream};

/// A beat from the block: `rx_axis_*`, without `tready`.
#[derive(Clone, Bundle)]
pub struct Received {
    /// `tvalid`.
    pub valid: Sig,
    /// `tdata`: byte 0 lowest.
    pub data: Sig,
    /// `tkeep`: a bit a byte.
    pub keep: Sig,
    /// `tlast`.
    pub last: Sig,
    /// `tuser`, with `tlast`: the frame is bad.
    pub user: Sig,
}

impl Received {
    /// The shape.
    pub fn of() -> Received {
        Received { valid: bits(1), data: bits(8 * BYTES), keep: keep_bits(), last: bits(1), user: bits(1) }
    }
}

/// `keep` as a count of what is not kept: where the ones end, as a number.
fn empty(keep: Sig) -> Sig {
    let width = BYTES.ilog2();
    // The last one is at place `i`.
    let ends: Vec<Sig> = (0..BYTES)
        .map(|i| match i + 1 < BYTES {
            true => keep.bit(i) & !keep.bit(i + 1),
            false => keep.bit(i),
        })
        .collect();
    let bits: Vec<Sig> = (0..width)
        .map(|bit| {
            let those: Vec<Sig> =
                (0..BYTES).filter(|i| (BYTES - 1 - i) >> bit & 1 == 1).map(|i| ends[i as usize]).collect();
            cat(&those).any()
        })
        .collect();
    cat(&bits)
}

/// `data` where `keep` has ones, else zero.
pub(crate) fn masked(data: Sig, keep: Sig) -> Sig {
    let lanes: Vec<Sig> =
        data.chunks(8).iter().enumerate().map(|(i, lane)| *lane & keep.bit(i as u32).repeat(8)).collect();
    cat(&lanes)
}

/// See the page's top.
#[module]
pub fn receive(m: &Scope, axis: Received, hears: Sig) -> Stream<Entry> {
    // Near the block.
    let came = m.reg_of("came", &Received::of());
    m.set_all(&came, &axis);
    // Whether the block is within a frame, whatever becomes of it here.
    let within = m.reg("within", 1).no_reset();
    m.when(came.valid | !hears, |m| m.set(&within, came.valid & hears & !came.last));

    let inside = m.reg("inside", 1).reset(0);
    let takes = (came.valid & hears & (inside | !within)).named("takes");
    let cut = (inside & !hears).named("cut");
    m.when(takes | cut, |m| m.set(&inside, takes & !came.last));

    let valid = m.reg("valid", 1).reset(0);
    m.set(&valid, takes | cut);
    let shape = Entry::of(BYTES);
    let entry = m.reg_of("entry", &shape);
    let last = cut | came.last;
    let verdict = came.user.then(Outcome::BadFcs.lit(), Outcome::Good.lit());
    let beat = Beat {
        data: masked(came.data, came.keep),
        last,
        empty: came.last.then(empty(came.keep), lit(shape.beat.empty.width(), 0)),
    };
    m.set_all(&entry, &Entry { beat, outcome: cut.then(Outcome::Error.lit(), verdict) });
    let out = Stream::new(m, "out", valid, entry);
    m.assert(!out.valid | out.ready, "what is received finds a place");
    out
}
