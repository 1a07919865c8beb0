// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers, which are kept, as bytes of frames.
//!
//! ```text
//!  words ----------> data, 8 blocks ------------------+
//!  answer --> kept heads, 8 --> slots to be sent --> [ head, data, CRC, marks ] --> symbols
//!  refused --> notice, one -------------------------->+
//! ```
//!
//! An answer has one of [`WINDOW`] slots, that of its number. It stays there until another has the slot, so it can be sent again. Answers are sent in the order in which they were asked for; a notice when
//! nothing else waits, however often there was a reason: a noisy line costs one notice at a time.
//!
//! A byte in one cycle, of data in two. An answer begins 2 cycles after it came. Memory: 256 words of 64 bits, and 8 heads in LUT RAM; a word is written while none of the slot under way is read (`sending`).
//! Reset forgets what is to be sent.
//!
//! Longest path: a byte of eight, then the CRC.

use crate::frame::{Refused, COUNT, PLACE};
use crate::protocol::{Reason, ANSWER, ANSWER_HEAD, BLOCK, CHECK, NOTICE, WINDOW};
use crate::slip::Symbol;
use ferrowire_hdl::stream::fifo;
use ferrowire_parts::crc::crc_step;
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style};

/// Bits of a slot's number.
pub const SLOT: u32 = WINDOW.trailing_zeros();

/// Answers that wait; more than a window, for some are sent again.
const WAITING: u32 = 16;

/// A word of an answer's data.
#[derive(Clone, Bundle)]
pub struct Store {
    /// In this cycle.
    pub valid: Sig,
    /// Of which answer.
    pub slot: Sig,
    /// Which word of the block.
    pub word: Sig,
    /// Eight bytes.
    pub data: Sig,
}

impl Store {
    /// The shape.
    pub fn of() -> Self {
        Store { valid: bits(1), slot: bits(SLOT), word: bits(PLACE - 3), data: bits(64) }
    }
}

/// What an answer has beside its data.
#[derive(Clone, Bundle)]
pub struct Head {
    /// That of the request.
    pub command: Sig,
    /// Its number.
    pub sequence: Sig,
    /// What became of it.
    pub status: Sig,
    /// Bytes of data.
    pub length: Sig,
    /// Place of the first in its block.
    pub place: Sig,
}

impl Head {
    /// The shape.
    pub fn of() -> Self {
        Head { command: bits(8), sequence: bits(8), status: bits(3), length: bits(COUNT), place: bits(PLACE) }
    }
}

/// An answer to be sent.
#[derive(Clone, Bundle)]
pub struct Answer {
    /// Where it is kept.
    pub slot: Sig,
    /// It is a new one; else what is kept is sent again.
    pub fresh: Sig,
    /// Its head, if it is new.
    pub head: Head,
}

impl Answer {
    /// The shape.
    pub fn of() -> Self {
        Answer { slot: bits(SLOT), fresh: bits(1), head: Head::of() }
    }
}

/// The answer that is on its way.
#[derive(Clone, Bundle)]
pub struct Sending {
    /// There is one.
    pub valid: Sig,
    /// Its slot.
    pub slot: Sig,
}

impl Sending {
    /// The shape.
    pub fn of() -> Self {
        Sending { valid: bits(1), slot: bits(SLOT) }
    }
}

/// What goes to the line, and what is on its way.
#[derive(Interface)]
pub struct Sent {
    /// Bytes and marks.
    pub symbol: Stream<Symbol>,
    /// The answer under way.
    pub sending: Sending,
}

#[derive(Clone, Copy, Fsm)]
enum Part {
    /// Nothing is sent.
    Idle,
    /// The mark before.
    Mark,
    /// The head.
    Head,
    /// Fetches a byte of data.
    Fetch,
    /// Data.
    Data,
    /// The CRC.
    Check,
    /// The mark behind.
    End,
}

/// Sends answers and notices. `expected`: the number of the next request; `interrupts`: some wait to be read, and `raised` begins with this cycle.
#[module]
pub fn send(
    m: &Scope,
    store: Store,
    answer: Stream<Answer>,
    refused: Vec<Refused>,
    expected: Sig,
    interrupts: Sig,
    raised: Sig,
) -> Sent {
    let data = m.mem("data", WINDOW * BLOCK / 8, &bits(64)).style(Style::Block).build();
    data.write(store.valid, cat(&[store.word, store.slot]), &store.data);
    let heads = m.mem("heads", WINDOW, &Head::of()).style(Style::Distributed).build();
    heads.write(answer.fire() & answer.fresh, answer.slot, &answer.head);
    let next = fifo(m, WAITING, answer.map(|answer| answer.slot));

    // One notice: the last reason, and an interrupt only where there is none.
    let notice = m.reg("notice", 1).reset(0);
    let reason = m.reg("reason", 3).no_reset();
    let part = m.fsm("part", Part::Idle);
    let idle = part.is(Part::Idle);
    let goes = (idle & next.valid).named("goes");
    let tells = (idle & notice & !next.valid).named("tells");
    next.accept(idle);
    m.when(tells, |m| m.set(&notice, 0));
    m.when(raised & (!notice | tells), |m| {
        m.set(&notice, 1);
        m.set(&reason, Reason::Interrupt as u32);
    });
    for refused in &refused {
        m.when(refused.valid, |m| {
            m.set(&notice, 1);
            m.set(&reason, refused.reason);
        });
    }

    // What is on its way.
    let kept = heads.read_now(next.payload);
    let slot = m.reg("slot", SLOT).no_reset();
    let head = m.reg("head", 8 * ANSWER_HEAD).no_reset();
    let left = m.reg("left", COUNT).no_reset();
    let place = m.reg("place", PLACE).no_reset();
    let index = m.reg("index", 2).no_reset();
    let state = m.reg("crc", 32).no_reset();
    let flags = interrupts.zext(8);
    m.when(goes | tells, |m| {
        m.set(&part, Part::Mark);
        m.set(&index, 0);
        m.set(&state, u32::MAX);
    });
    m.when(tells, |m| {
        m.set(&head, cat(&[lit(8, NOTICE), expected, reason.zext(8), flags]));
        m.set(&left, 0);
    });
    m.when(goes, |m| {
        m.set(&head, cat(&[kept.command | ANSWER, kept.sequence, kept.status.zext(8), flags]));
        m.set(&slot, next.payload);
        m.set(&left, kept.length);
        m.set(&place, kept.place);
    });
    let of_answer = m.reg("of_answer", 1).reset(0);
    m.when(goes, |m| m.set(&of_answer, 1)).otherwise_when(idle, |m| m.set(&of_answer, 0));

    let word = data.read(m, part.is(Part::Fetch), cat(&[place.slice(3, PLACE - 3), slot]), Collision::Any);
    let byte_of_word = m.select(place.trunc(3), &word.chunks(8));
    let check = m.select(index, &(!state).chunks(8));
    let byte = part.is(Part::Data).then(byte_of_word, part.is(Part::Check).then(check, head.trunc(8)));
    let mark = part.is_any(&[Part::Mark, Part::End]);
    let offers = !idle & !part.is(Part::Fetch);
    let symbol = Stream::new(m, "symbol", offers, Symbol { byte, mark });
    m.when(part.is(Part::Fetch), |m| m.set(&part, Part::Data));
    m.when(symbol.fire(), |m| {
        m.when(part.is(Part::Mark), |m| m.set(&part, Part::Head));
        m.when(part.is_any(&[Part::Head, Part::Data]), |m| m.set(&state, crc_step(state, byte)));
        m.when(part.is(Part::Head), |m| {
            m.set(&index, index + 1);
            m.set(&head, head >> 8);
            m.when(index.eq(ANSWER_HEAD - 1), |m| {
                m.set(&part, Part::Check);
                m.when(left.any(), |m| m.set(&part, Part::Fetch));
            });
        });
        m.when(part.is(Part::Data), |m| {
            m.set(&place, place + 1);
            m.set(&left, left - 1);
            m.set(&part, Part::Fetch);
            m.when(left.eq(1), |m| m.set(&part, Part::Check));
        });
        m.when(part.is(Part::Check), |m| {
            m.set(&index, index + 1);
            m.when(index.eq(CHECK - 1), |m| m.set(&part, Part::End));
        });
        m.when(part.is(Part::End), |m| m.set(&part, Part::Idle));
    });
    Sent { symbol, sending: Sending { valid: goes | of_answer, slot: goes.then(next.payload, slot) } }
}
