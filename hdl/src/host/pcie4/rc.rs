// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions for the card, several of which may share a beat: each one's header, and its data from lane 0 on.
//!
//! ```text
//!                    +--> rotate: the packet under way --+
//!  beat of 16 DWs ---|                                   +--> row: 16 DWs of data
//!                    +--> rotate: the next packet -------+
//!                    |        |                    ^     |
//!                    |        +--> header          +-- carry
//!                    +--> where packets begin and end
//! ```
//!
//! A packet begins at a multiple of four double words, `u`, and its data three behind that: `r = 4u + 3`. Rotated down by `r`, a beat has the rest of the
//! row before it in its highest `r` places, and below these what is kept for the next row.
//!
//! A beat takes a cycle where the packet under way ends at most, and at most one other begins and goes on. It takes one more for each packet that begins and
//! ends in it, and where the end of the packet under way fills more than its row. So completions of 64 bytes or of a multiple take as many cycles as beats.
//!
//! Latency 1. Bad input: what the block reports as an error of its request ends that request, by a status; what it reports as nobody's gets a tag that
//! there is not. A beat with `discontinue` spoils its packets. The block itself throws away what is longer or shorter than its header says.

use super::{Axis, BITS, WORDS};
use crate::fields::{assemble, field};
use crate::host::pcie::strip::Parts;
use crate::stream::fifo;
use ferrowire_rtl::{bits, cat, lit, module, Scope, Sig, Stream};
use ferrowire_spec::pcie::pcie4::{rc, rc_user, ErrorCode};
use ferrowire_spec::pcie::{completion, kind, CompletionStatus};

/// Places behind it: who takes headers and rows does so a cycle after another.
const PLACES: u32 = 4;

/// `data` rotated down by `4 * unit + 3` double words.
fn rotate(m: &Scope, data: Sig, unit: Sig) -> Sig {
    let by = |unit: u32| 32 * (4 * unit + 3);
    let turned: Vec<Sig> =
        (0..4).map(|unit| cat(&[data.slice(by(unit), BITS - by(unit)), data.trunc(by(unit))])).collect();
    m.select(unit, &turned)
}

/// The errors with which no data comes.
fn bare(descriptor: Sig) -> Sig {
    let error = field(&rc::LAYOUT, &rc::ERROR, descriptor);
    error.eq(ErrorCode::FunctionReset.code()) | error.eq(ErrorCode::Timeout.code())
}

/// Whether data follows a descriptor.
fn with_data(descriptor: Sig) -> Sig {
    field(&rc::LAYOUT, &rc::DWORDS, descriptor).any() & !bare(descriptor)
}

/// The header of a descriptor, with data after it or without.
fn header(descriptor: Sig, has_data: Sig) -> Sig {
    let of = |which| field(&rc::LAYOUT, which, descriptor);
    let error = of(&rc::ERROR);
    let is = |code: ErrorCode| error.eq(code.code());
    let ends = bare(descriptor) | is(ErrorCode::ByteCount);
    let strange = is(ErrorCode::Mismatch) | is(ErrorCode::Address) | is(ErrorCode::Tag);
    let dwords = of(&rc::DWORDS);
    let kind = has_data.then(lit(8, kind::COMPLETION_DATA), lit(8, kind::COMPLETION));
    use completion::{BYTE_COUNT, EP, FMT, LAYOUT, LENGTH, LOWER_ADDRESS, STATUS, T9, TAG, TYPE};
    assemble(
        &LAYOUT,
        &[
            (FMT, kind.slice(5, 3)),
            (TYPE, kind.trunc(5)),
            (T9, strange),
            (EP, of(&rc::POISONED) | is(ErrorCode::Poisoned)),
            (LENGTH, dwords.trunc(10)),
            (STATUS, ends.then(CompletionStatus::CompleterAbort.code(), of(&rc::STATUS))),
            (BYTE_COUNT, of(&rc::BYTE_COUNT).trunc(12)),
            (TAG, of(&rc::TAG)),
            (LOWER_ADDRESS, of(&rc::LOWER_ADDRESS).trunc(7)),
        ],
    )
}

/// Takes beats apart.
#[module]
pub fn rc(m: &Scope, beat: Stream<Axis>) -> (Parts, Stream<Sig>) {
    m.discard(&beat.keep);
    m.discard(&beat.last);
    let side = |which| field(&rc_user::LAYOUT, which, beat.user.zext(8 * rc_user::BYTES as u32));
    let (sops, eops) = (side(&rc_user::IS_SOP), side(&rc_user::IS_EOP));
    let places = [&rc_user::SOP0_PTR, &rc_user::SOP1_PTR, &rc_user::SOP2_PTR, &rc_user::SOP3_PTR].map(side);
    let ends = [&rc_user::EOP0_PTR, &rc_user::EOP1_PTR, &rc_user::EOP2_PTR, &rc_user::EOP3_PTR].map(side);
    let spoils = side(&rc_user::DISCONTINUE);

    // A packet has begun in an earlier beat, at this place; what is kept of it; a beat of it was spoiled.
    let open = m.reg("open", 1).reset(0);
    let unit = m.reg("unit", 2).no_reset();
    let carry = m.reg("carry", BITS).no_reset();
    let spoiled = m.reg("spoiled", 1).reset(0);
    // Of this beat: the packet under way has its part yet to come, or has had it; what is kept is to leave as a row; packets begun, and ended.
    let goes_on = m.reg("goes_on", 1).reset(0);
    let continued = m.reg("continued", 1).reset(0);
    let flushing = m.reg("flushing", 1).reset(0);
    let begun = m.reg("begun", 3).reset(0);
    let ended = m.reg("ended", 3).reset(0);

    let last_part = goes_on & eops.bit(0);
    // Its end lies behind the place up to which its row is filled.
    let full = cat(&[lit(2, 3), unit]);
    let spills = (last_part & ends[0].ge(full)).named("spills");

    // The next packet: it may share the cycle with the one under way, if it makes no row of its own.
    let sops = sops.zext(8);
    let there = (sops.bit_at(begun)).named("there");
    let place = m.select(begun.trunc(2), &places);
    let eops = eops.zext(8);
    let ends_alone = eops.bit_at(ended);
    let ends_here = m.mux(last_part, &(eops >> 1).bit_at(ended), &ends_alone);
    let whole = (there & ends_here).named("whole");
    // But for a row that spills over.
    let would_begin = there & !flushing & (!goes_on | !whole);
    let begins = would_begin & !spills;
    // What each place says is worked out beside the choice of one.
    let heads = beat.data.chunks(BITS / 4).into_iter().map(|quarter| quarter.trunc(8 * rc::BYTES as u32));
    let heads: Vec<Sig> = heads.collect();
    let has_data = m.select(place, &heads.iter().map(|head| with_data(*head)).collect::<Vec<_>>());
    let head = header(m.select(place, &heads), has_data);

    // What belongs to the row of this cycle, and what is kept for later ones: both may be of one packet.
    let here = rotate(m, beat.data, goes_on.then(unit, place));
    let kept = rotate(m, beat.data, begins.then(place, unit));
    // Place `i` is filled by what was kept where `i < 16 - r`.
    let below: Vec<Sig> = (0..WORDS)
        .map(|i| match (WORDS - 4).checked_sub(i) {
            Some(left) => unit.le(left / 4),
            None => lit(1, 0),
        })
        .collect();
    let row: Vec<Sig> = carry
        .chunks(32)
        .iter()
        .zip(here.chunks(32))
        .zip(&below)
        .map(|((carried, here), below)| (flushing | (goes_on & below)).then(*carried, here))
        .collect();
    let row = cat(&row);
    // Where neither is so, the next packet begins if it is there.
    let makes = flushing | goes_on | (there & ends_alone & has_data);
    let ends_row = flushing | (goes_on & last_part & !spills) | (!goes_on & !flushing);

    let (heads, head_out) = m.later("heads", &bits(8 * completion::BYTES as u32));
    let (rows, row_out) = m.later("rows", &bits(BITS));
    let room = m.wire("room", 2);
    // A step waits for room in both FIFOs, also where it fills one only: what they hold leaves without it.
    let step = (beat.valid & room.all()).named("step");
    let row = Stream::new(m, "row", step & makes, row);
    let head = Stream::new(m, "head", step & begins, head);
    // Both are registers of the FIFOs.
    m.drive(&room, cat(&[row.ready, head.ready]));
    let bad = Stream::new(m, "bad", row.valid & ends_row, spoiled | spoils);
    m.assert(!bad.valid | bad.ready, "the verdict finds room");
    row_out.connect(fifo(&m.label("row_fifo"), PLACES, row));
    head_out.connect(fifo(&m.label("head_fifo"), PLACES, head));

    // Packets begun are counted in two ways at once: whether one begins is known late.
    let others = m.mux(would_begin, &(sops >> 1).bit_at(begun), &sops.bit_at(begun));
    let more = spills | others;
    let leaves = step & !more;
    beat.accept(leaves);
    // What spills over ends.
    let would_stay = would_begin.then(!whole, open & !last_part);
    let stays_open = (would_stay & !spills).named("stays_open");
    let continues = continued | goes_on;
    let counted = (begins & whole).named("counted");
    m.when(step, |m| {
        m.set(&open, stays_open);
        m.set(&goes_on, stays_open & !(others & continues));
        m.set(&continued, more & continues);
        m.set(&flushing, spills);
        m.set(&begun, more.repeat(3) & begins.then(begun + 1, begun));
        m.set(&ended, more.repeat(3) & (ended + last_part.zext(3) + counted.zext(3)));
        m.set(&spoiled, (stays_open | spills) & (spoils | (spoiled & !begins)));
        m.when(begins, |m| m.set(&unit, place));
        m.set(&carry, kept);
    });
    m.assert(goes_on.eq(open & !continued & !flushing), "the packet under way has its part once a beat");
    (Parts { head: heads, data: rows }, bad)
}
