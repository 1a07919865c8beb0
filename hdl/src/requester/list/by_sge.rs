// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes up WQEs SGE by SGE, for cards of narrow beats: one WQE at a time, in a register that holds its first unit.
//!
//! ```text
//!  pieces ---+-- first unit --> head (shifts) -----------------------> WQE
//!            +-- further ones ---> store in gather                      ^
//!            +-- length --> is it in use? --> total --> too large? -----+
//! ```
//!
//! A piece comes at most every other cycle. A WQE is whole two cycles behind its last one, and the next begins when it has left. Each piece
//! behind the head's first three is an SGE, whose length counts once the head is there. Reset: nothing is held.

use super::{banks, inline_room, room, sge_room, Banks, Listed, Released, Repeat, Wqe, TOTAL_BITS, UNITS};
use crate::config::RnicConfig;
use crate::fields::field;
use crate::requester::fetch::{Fetched, UNIT};
use crate::requester::gather::SGE_BITS;
use crate::requester::schedule::MAX_STRIDE;
use crate::types::TableWrite;
use ferrowire_rtl::{cat, lit, module, Bundle, Scope, Sig, Stream};
use ferrowire_spec::queue::send_wqe::{self, sge, INLINE_AT};

/// Pieces of a unit.
const PIECES: u32 = 8 * UNIT / SGE_BITS;
const PIECE_BITS: u32 = PIECES.trailing_zeros();

/// Takes up WQEs.
#[module]
pub fn list_by_sge(
    m: &Scope,
    cfg: &RnicConfig,
    pieces: Stream<Fetched>,
    forgotten: Released,
    released: Sig,
) -> Listed {
    let in_unit = pieces.part.trunc(PIECE_BITS);
    let unit = pieces.part.slice(PIECE_BITS, MAX_STRIDE);
    let is_head = unit.eq(0);
    let ends_unit = in_unit.all() & !pieces.start;

    // A WQE that goes on behind its head needs a bank.
    let (closing, full) = (m.reg("closing", 1).reset(0), m.reg("full", 1).reset(0));
    let asks_bank = is_head & ends_unit & !pieces.ends;
    let begins = m.wire("begins", 1);
    let Banks { any_free, first_free } = banks(m, begins, &forgotten, released);
    let takes = pieces.valid & !closing & !full & (!asks_bank | any_free);
    m.drive(&begins, takes & asks_bank);
    pieces.accept(!closing & !full & (!asks_bank | any_free));
    let bank = m.reg("bank", 2).no_reset();
    m.when(begins, |m| m.set(&bank, first_free));

    // The head comes in from above.
    let head = m.reg("head", 8 * UNIT).no_reset();
    let of = |f| field(&send_wqe::LAYOUT, &f, head);
    let (qp, index) = (m.reg("qp", cfg.qp_bits()).no_reset(), m.reg("index", 16).no_reset());
    let (last_unit, start) = (m.reg("last_unit", MAX_STRIDE).no_reset(), m.reg("start", 1).no_reset());
    let failed = m.reg("failed", 1).no_reset();
    let (tag, last) = (m.reg_of("tag", &pieces.tag), m.reg("last", 1).no_reset());
    m.when(takes, |m| {
        m.set(&qp, pieces.qp);
        m.set(&index, pieces.index);
        m.set(&last_unit, unit);
        m.set(&start, pieces.start);
        m.set_all(&tag, &pieces.tag);
        m.set(&last, pieces.last);
        m.set(&failed, !pieces.start & (pieces.error | (failed & pieces.part.ne(0))));
    });
    m.when(takes & is_head, |m| m.set(&head, cat(&[head, pieces.piece]).slice(SGE_BITS, 8 * UNIT)));
    m.set(&closing, takes & pieces.ends);

    // An SGE's length, in the cycle behind it. The first one is the head's last piece.
    let sums = m.reg("sums", 1).reset(0);
    m.set(&sums, takes);
    let first = INLINE_AT as u32 * 8 / SGE_BITS;
    let part = m.delay("part", &pieces.part);
    let length = m.delay("length", &field(&sge::LAYOUT, &sge::LEN, pieces.piece));
    let number = part - first;
    // Beyond sixteen nothing counts, for such a WQE is refused.
    let in_use = part.ge(first) & number.lt(of(send_wqe::NUM_SGE).trunc(number.width())) & !start;
    let total = m.reg("total", TOTAL_BITS).no_reset();
    let so_far = m.mux(part.eq(0), &lit(TOTAL_BITS, 0), &total);
    m.when(sums, |m| m.set(&total, so_far + in_use.then(length, lit(32, 0)).zext(TOTAL_BITS)));

    // Room of its slot.
    let alone = last_unit.eq(0);
    let sges = m.mux(alone, &lit(8, sge_room(1)), &room(m, last_unit, sge_room, 8));
    let bytes = m.mux(alone, &lit(16, inline_room(1)), &room(m, last_unit, inline_room, 16));
    let no_room =
        m.mux(of(send_wqe::INLINE), &of(send_wqe::INLINE_LEN).gt(bytes), &of(send_wqe::NUM_SGE).gt(sges));
    let too_large = m.delay("too_large", &(no_room & !start));
    let banked = !alone & !start;
    let wqe = Wqe {
        qp,
        index,
        unit: head,
        total,
        too_large,
        banked,
        bank,
        error: failed,
        start,
        tag,
        last,
        repeat: Repeat::of().zeros(),
    };
    let wqes = Stream::new(m, "wqe", full, wqe);
    m.when(closing, |m| m.set(&full, 1)).otherwise_when(wqes.ready, |m| m.set(&full, 0));

    let place = cat(&[in_unit, unit.trunc(UNITS.trailing_zeros()) - 1, bank]);
    let stored = TableWrite { enable: takes & !is_head & unit.le(UNITS), index: place, entry: pieces.piece };
    Listed { wqes, stored, returned: takes & ends_unit }
}
