// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes up whole WQEs: how long the message is, and where its continuation units are kept.
//!
//! ```text
//!            +-- WQE of one unit ------------------------------------------+
//!            |                                                             v
//!  units ----+-- first unit --> heads (a bank each) ------------------> choose --> WQE
//!            |                                                             ^
//!            +-- further units ---> store in gather                        |
//!            +-- lengths -> mask -> add -> add -> total --> whole ones ----+
//! ```
//!
//! A message's total length stands in front of its first packet (RETH, IBTA volume 1, 9.3.3), so that a WQE counts only
//! when all its units are here. One of a single unit passes in the cycle in which it comes and is kept nowhere. The units of
//! others come one a cycle; they take one of four banks, and are whole 4 cycles behind their last unit. Up to four are
//! gathered while the segmenter is busy with those before them; the order stays. Where beats are narrow, they come SGE by SGE
//! ([`by_sge`](mod@by_sge)).
//!
//! A bank is free again when nobody needs its units any more: the segmenter says so of a WQE that falls out (`forgotten`),
//! `gather` of one that is sent (`released`). `gather` keeps at most one bank of a message that it has no packet of, so three
//! are always on their way, and nothing stands still.
//!
//! What is too large for its slot or for the card is marked: more than 16 SGEs, more than the slot has, more than 256 bytes
//! of inline data, more than 2^31 bytes (9.7.2, 10.8.3). SGEs that are not in use are not looked at. Reset: all banks are free.

mod by_sge;

use crate::config::RnicConfig;
use crate::fields::field;
use crate::requester::fetch::{grain, Fetched, UNIT};
use crate::requester::schedule::{Tag, CONTEXT_BITS, MAX_STRIDE};
use crate::stream::fifo;
use crate::types::{TableWrite, DISTANCE_BITS};
use by_sge::list_by_sge;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::send_wqe::{self, sges};

/// SGEs of a message.
pub const MAX_SGES: u32 = 16;

/// Bytes of inline data.
pub const MAX_INLINE: u32 = 256;

/// WQEs of more than one unit that are gathered at once.
pub(crate) const BANKS: u32 = 4;

/// Continuation units that hold something: 16 SGEs, or 256 bytes behind the first unit's 16.
pub(super) const UNITS: u32 = 4;

/// Bits of the sum of all lengths.
pub(super) const TOTAL_BITS: u32 = 36;

/// A packet of a WQE that is to be sent again.
#[derive(Clone, Bundle)]
pub struct Repeat {
    /// There is one; otherwise the WQE is due.
    pub valid: Sig,
    /// It is the oldest packet that is not acknowledged, and nobody has asked for it.
    pub probe: Sig,
    /// Of a READ, one packet of its answer is asked for.
    pub part: Sig,
    /// It is the first of this WQE.
    pub first: Sig,
    /// Another one of the same WQE follows.
    pub more: Sig,
    /// Its PSN.
    pub psn: Sig,
    /// How far into the message it begins.
    pub offset: Sig,
    /// The context of [`again`](super::again) that wants it.
    pub context: Sig,
    /// Its distance, if it is a READ or atomic.
    pub distance: Sig,
}

impl Repeat {
    /// The shape.
    pub fn of() -> Self {
        Repeat {
            valid: bits(1),
            probe: bits(1),
            part: bits(1),
            first: bits(1),
            more: bits(1),
            psn: bits(24),
            offset: bits(32),
            context: bits(CONTEXT_BITS),
            distance: bits(DISTANCE_BITS),
        }
    }
}

/// A whole WQE.
#[derive(Clone, Bundle)]
pub struct Wqe {
    /// Whose.
    pub qp: Sig,
    /// Its index, free-running.
    pub index: Sig,
    /// Its first unit.
    pub unit: Sig,
    /// Bytes of its SGEs.
    pub total: Sig,
    /// More SGEs or inline data than it has room for, or than a message may have.
    pub too_large: Sig,
    /// It has continuation units.
    pub banked: Sig,
    /// Where they are.
    pub bank: Sig,
    /// The read failed.
    pub error: Sig,
    /// Not a WQE: the QP starts, and everything of its former life has come by.
    pub start: Sig,
    /// As in its grant.
    pub tag: Tag,
    /// It is the last of that.
    pub last: Sig,
    /// A packet of it that is to be sent again.
    pub repeat: Repeat,
}

impl Wqe {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Wqe {
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            unit: bits(512),
            total: bits(TOTAL_BITS),
            too_large: bits(1),
            banked: bits(1),
            bank: bits(2),
            error: bits(1),
            start: bits(1),
            tag: Tag::of(),
            last: bits(1),
            repeat: Repeat::of(),
        }
    }
}

/// A bank in which nothing is needed any more.
#[derive(Clone, Bundle)]
pub struct Released {
    /// In this cycle.
    pub valid: Sig,
    /// Which one.
    pub bank: Sig,
}

impl Released {
    /// The shape.
    pub fn of() -> Self {
        Released { valid: bits(1), bank: bits(2) }
    }

    /// One bit a bank.
    pub(super) fn mask(&self) -> Sig {
        lit(BANKS, 1).shl_by(self.bank) & self.valid.repeat(BANKS)
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Listed {
    /// WQEs in order.
    pub wqes: Stream<Wqe>,
    /// Continuation units, for `gather`: bank in the high bits of the index, then the unit, then which SGE of it where they come one by one.
    pub stored: TableWrite<Sig>,
    /// A unit's place in the fetch buffer is free.
    pub returned: Sig,
}

/// The shape of [`Listed::stored`].
pub fn stored_of(cfg: &RnicConfig) -> TableWrite<Sig> {
    let pieces = BANKS * UNITS * UNIT / grain(cfg);
    TableWrite { enable: bits(1), index: bits(clog2(u64::from(pieces))), entry: bits(8 * grain(cfg)) }
}

#[derive(Clone, Bundle)]
struct Head {
    qp: Sig,
    index: Sig,
    unit: Sig,
    tag: Tag,
    last: Sig,
}

/// A unit on its way through the sum.
#[derive(Clone, Bundle)]
struct Flow {
    first: Sig,
    ends: Sig,
    bank: Sig,
    too_large: Sig,
    error: Sig,
}

/// What is known of a WQE when its last unit has come.
#[derive(Clone, Bundle)]
struct Whole {
    bank: Sig,
    total: Sig,
    too_large: Sig,
    error: Sig,
}

/// Takes up WQEs. `forgotten`: the bank of one that falls out; `released`: those of WQEs that are sent, one bit a bank.
pub fn list(
    m: &Scope,
    cfg: &RnicConfig,
    pieces: Stream<Fetched>,
    forgotten: Released,
    released: Sig,
) -> Listed {
    if grain(cfg) < UNIT {
        list_by_sge(m, cfg, pieces, forgotten, released)
    } else {
        list_by_unit(m, pieces, forgotten, released)
    }
}

/// Which bank is free: in `begins` it is taken.
struct Banks {
    any_free: Sig,
    first_free: Sig,
}

fn banks(m: &Scope, begins: Sig, forgotten: &Released, released: Sig) -> Banks {
    let busy = m.reg("busy", BANKS).reset(0);
    let free = !busy;
    let first_free = m.mux(
        free.bit(0),
        &lit(2, 0),
        &m.mux(free.bit(1), &lit(2, 1), &m.mux(free.bit(2), &lit(2, 2), &lit(2, 3))),
    );
    let allocated = Released { valid: begins, bank: first_free };
    m.set(&busy, (busy & !forgotten.mask() & !released) | allocated.mask());
    Banks { any_free: !busy.all(), first_free }
}

/// Of a slot of so many units, of which `last` is the last one: 2, 4 or 8.
fn room(m: &Scope, last: Sig, of: fn(u32) -> u32, width: u32) -> Sig {
    let values: Vec<Sig> = (1..=MAX_STRIDE).map(|stride| lit(width, of(1 << stride))).collect();
    m.mux(last.bit(2), &values[2], &m.mux(last.bit(1), &values[1], &values[0]))
}

#[module]
fn list_by_unit(m: &Scope, units: Stream<Fetched>, forgotten: Released, released: Sig) -> Listed {
    // WQEs that have a bank and are not handed on.
    let ahead = m.reg("ahead", 3).reset(0);
    let out_ready = m.wire("out_ready", 1);
    let is_head = units.part.eq(0);
    let single = units.valid & is_head & units.ends;
    let passes = single & ahead.eq(0);
    let begins = m.wire("begins", 1);
    let Banks { any_free, first_free } = banks(m, begins, &forgotten, released);
    m.drive(&begins, units.valid & is_head & !units.ends & any_free);
    let goes_on = units.valid & !is_head;
    let takes = begins | goes_on;
    // What is offered is known late: ready does not wait for whether it is.
    // So is that what is offered alone is taken: it counts last.
    units.accept((!is_head | (!units.ends & any_free)) | (is_head & units.ends & ahead.eq(0) & out_ready));

    let held_bank = m.reg("held_bank", 2).no_reset();
    let bank = m.mux(is_head, &first_free, &held_bank);
    m.when(begins, |m| m.set(&held_bank, first_free));

    // The first unit says what is in use; a further one holds four SGEs.
    let head = |f| field(&send_wqe::LAYOUT, &f, units.piece);
    let more = |f| field(&sges::LAYOUT, &f, units.piece);
    let count = m.reg("count", 8).no_reset();
    let inline = m.reg("inline", 1).no_reset();
    let inline_length = m.reg("inline_length", 16).no_reset();
    m.when(begins, |m| {
        m.set(&count, head(send_wqe::NUM_SGE));
        m.set(&inline, head(send_wqe::INLINE));
        m.set(&inline_length, head(send_wqe::INLINE_LEN));
    });
    // SGE 4n + 1 + j in continuation unit n + 1. Beyond sixteen nothing counts, for such a WQE is refused.
    let base = cat(&[lit(2, 0), units.part.trunc(2) - 1]);
    let in_use = |j: u32| count.trunc(5).zext(6).gt(base.zext(6) + (1 + j));
    let lengths = [sges::SGE0_LEN, sges::SGE1_LEN, sges::SGE2_LEN, sges::SGE3_LEN];
    let none = lit(32, 0);
    let inside = units.part.le(UNITS);
    let mut masked: Vec<Sig> = (0..)
        .zip(lengths)
        .map(|(j, length)| m.mux(!is_head & inside & in_use(j), &more(length), &none))
        .collect();
    let first_length = m.mux(head(send_wqe::NUM_SGE).eq(0), &none, &head(send_wqe::SGE0_LEN));
    masked[0] = m.mux(is_head, &first_length, &masked[0]);

    let no_sges = count.gt(room(m, units.part, sge_room, 8));
    let no_inline = inline_length.gt(room(m, units.part, inline_room, 16));
    let too_large = m.mux(inline, &no_inline, &no_sges);

    // Sums, one behind the other.
    let mut flow = Flow { first: is_head, ends: units.ends, bank, too_large, error: units.error };
    let mut comes = takes;
    for stage in ["one", "two", "three"] {
        let valid = m.reg(&format!("{stage}_valid"), 1).reset(0);
        m.set(&valid, comes);
        (flow, comes) = (m.delay(stage, &flow), valid);
    }
    let parts: Vec<Sig> = (0..).zip(masked).map(|(j, part)| m.delay(&format!("part_{j}"), &part)).collect();
    let half = |a: Sig, b: Sig| a.zext(33) + b.zext(33);
    let low = m.delay("low", &half(parts[0], parts[1]));
    let high = m.delay("high", &half(parts[2], parts[3]));
    let sum = m.delay("sum", &(low.zext(34) + high.zext(34)));
    let so_far = m.reg("so_far", TOTAL_BITS).no_reset();
    let failed = m.reg("failed", 1).reset(0);
    let total = m.mux(flow.first, &lit(TOTAL_BITS, 0), &so_far) + sum.zext(TOTAL_BITS);
    let error = flow.error | (failed & !flow.first);
    m.when(comes, |m| {
        m.set(&so_far, total);
        m.set(&failed, error);
    });
    let whole = Whole { bank: flow.bank, total, too_large: flow.too_large, error };
    let whole = Stream::new(m, "whole", comes & flow.ends, whole);
    m.assert(!whole.valid | whole.ready, "there are no more WQEs than banks");
    let whole = fifo(&m.label("whole"), BANKS, whole);

    // Their first units.
    let heads = Head {
        qp: units.qp,
        index: units.index,
        unit: units.piece,
        tag: units.tag.clone(),
        last: units.last,
    };
    let store = m.mem("heads", BANKS, &heads).style(Style::Distributed).build();
    store.write(begins, first_free, &heads);
    let kept = store.read_now(whole.bank);

    let alone_too_large = m.mux(
        head(send_wqe::INLINE),
        &head(send_wqe::INLINE_LEN).gt(inline_room(1)),
        &head(send_wqe::NUM_SGE).gt(sge_room(1)),
    );
    // What stands in the unit of a start means nothing.
    let alone = Wqe {
        qp: units.qp,
        index: units.index,
        unit: units.start.then(lit(512, 0), units.piece),
        total: units.start.then(lit(TOTAL_BITS, 0), first_length.zext(TOTAL_BITS)),
        too_large: alone_too_large & !units.start,
        banked: lit(1, 0),
        bank: lit(2, 0),
        error: units.error & !units.start,
        start: units.start,
        tag: m.mux(units.start, &Tag::none(), &units.tag),
        last: units.last & !units.start,
        repeat: Repeat::of().zeros(),
    };
    let gathered = Wqe {
        qp: kept.qp,
        index: kept.index,
        unit: kept.unit,
        total: whole.total,
        too_large: whole.too_large,
        banked: lit(1, 1),
        bank: whole.bank,
        error: whole.error,
        start: lit(1, 0),
        tag: kept.tag,
        last: kept.last,
        repeat: Repeat::of().zeros(),
    };
    let wqe = m.mux(whole.valid, &gathered, &alone);
    let wqes = Stream::new(m, "wqe", whole.valid | passes, wqe);
    m.drive(&out_ready, wqes.ready);
    whole.accept(wqes.ready);
    m.set(&ahead, ahead + begins.zext(3) - whole.fire().zext(3));

    let place = cat(&[units.part.trunc(2) - 1, bank]);
    let stored = TableWrite { enable: goes_on & inside, index: place, entry: units.piece };
    Listed { wqes, stored, returned: units.fire() & !units.start }
}

/// SGEs that a slot has room for, and a message may have.
pub(super) fn sge_room(units: u32) -> u32 {
    (4 * units - 3).min(MAX_SGES)
}

/// Bytes of inline data, likewise.
pub(super) fn inline_room(units: u32) -> u32 {
    (64 * units - send_wqe::INLINE_AT as u32).min(MAX_INLINE)
}

#[cfg(test)]
mod tests;
