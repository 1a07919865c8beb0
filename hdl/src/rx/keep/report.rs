// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is missing of a flow, and what has come since: of the contexts of [`shelf`](super::shelf) one after the other.
//!
//! ```text
//!  due --> choose --> the flow's place, its marks from the last one down --> how much was heard, how much is lost --> eight words of marks
//! ```
//!
//! A PSN is lost if it is missing and as many kept packets begin after it as the tolerance of its flow says (`docs/src/selective.md`, "Lost or late"). So the marks are
//! taken one by one from the highest on, as many as the tolerance says: before the last of these all that is missing is lost.
//!
//! While a context is looked at, [`Reports::busy`] keeps its place as it is, and what is marked.
//!
//! **Throughput:** a report in 20 to 60 cycles: what asks for one has heard of eight packets. **Backpressure:** a report waits for its taker. **Reset:** idle. The longest path is from the
//! word of marks through the highest one to the register without it.

use super::judge::flow_bits;
use super::shelf::{Chosen, CONTEXTS, SLOT_BITS, TOLERANCE, WORD, WORD_BITS};
use crate::config::RnicConfig;
use crate::requester::range;
use crate::stream::half;
use ferrowire_rtl::{bits, cat, clog2, lit, Bundle, Fsm, Interface, Scope, Sig, Stream};

/// Words of a report.
pub const WORDS: u32 = 1 << (SLOT_BITS - WORD_BITS);
/// Bits of a number of PSNs, up to 256.
pub const COUNT_BITS: u32 = SLOT_BITS + 1;

/// A part of a report: all of it is the same in all eight parts, but for the word and `last`.
#[derive(Clone, Bundle)]
pub struct Gap {
    /// Of which flow.
    pub flow: Sig,
    /// The first PSN that is missing.
    pub base: Sig,
    /// PSNs from there up to the last packet that is kept.
    pub heard: Sig,
    /// So many of them are lost if they are missing.
    pub lost: Sig,
    /// Bit `i` of word `w` is that of the PSNs whose low eight bits are `32 w + i`: a packet that is kept begins there.
    pub word: Sig,
    /// It is the last of eight.
    pub last: Sig,
}

impl Gap {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Gap {
            flow: bits(flow_bits(cfg)),
            base: bits(24),
            heard: bits(COUNT_BITS),
            lost: bits(COUNT_BITS),
            word: bits(WORD),
            last: bits(1),
        }
    }
}

/// What the contexts tell of themselves.
pub(super) struct Looks<'a> {
    /// Which want a report, and may be looked at: a bit each.
    pub due: Sig,
    /// Of a context, its flow and its tolerance, and whether all that is missing counts as lost.
    pub of: &'a dyn Fn(Sig) -> Chosen,
    /// The first PSN that it misses.
    pub place: &'a dyn Fn(Sig) -> Sig,
    /// A word of its marks.
    pub marks: &'a dyn Fn(Sig, Sig) -> Sig,
}

/// What comes out.
#[derive(Interface)]
pub(super) struct Reports {
    /// The reports.
    pub gaps: Stream<Gap>,
    /// One begins.
    pub begins: Sig,
    /// Of this context, from the next cycle on.
    pub context: Sig,
    /// One is under way.
    pub busy: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Idle,
    Begin,
    Load,
    Pop,
    Words,
}

/// The number of the highest bit, and the word without it.
fn highest(word: Sig) -> (Sig, Sig) {
    let number = (1..WORD)
        .fold(lit(WORD_BITS, 0), |index, i| word.bit(i).then(lit(WORD_BITS, i), index))
        .named("highest");
    let only: Vec<Sig> = (0..WORD).map(|i| number.eq(i)).collect();
    (number, word & !cat(&only))
}

/// Makes reports; see the page's top.
pub(super) fn reports(m: &Scope, cfg: &RnicConfig, looks: &Looks) -> Reports {
    let context_bits = clog2(CONTEXTS.into());
    let state = m.fsm("reporting", State::Idle);
    let context = m.reg("reported", context_bits).no_reset();
    let turn = m.reg("report_turn", CONTEXTS).reset(0);
    let after = looks.due & turn;
    let choice = super::shelf::lowest(after.any().then(after, looks.due)).named("report_choice");
    let begins = (state.is(State::Idle) & looks.due.any()).named("report_begins");
    m.when(begins, |m| {
        m.set(&context, choice);
        let later: Vec<Sig> = (0..CONTEXTS).map(|c| lit(context_bits, c).gt(choice)).collect();
        m.set(&turn, cat(&later));
        m.set(&state, State::Begin);
    });
    let chosen = m.reg_of("report_of", &Chosen::of(cfg));
    m.discard(&chosen.halved);
    let base = m.reg("report_base", 24).no_reset();
    // The highest mark, and the one that was taken last.
    let (newest, taken) = (m.reg("newest", SLOT_BITS).no_reset(), m.reg("taken", SLOT_BITS).no_reset());
    let seen = m.reg("seen", 1).no_reset();
    let left = m.reg("left", clog2(u64::from(TOLERANCE) + 1)).no_reset();
    // Nine steps: the first word of the circle is looked at twice, its low part first.
    let step = m.reg("step", clog2(u64::from(WORDS) + 1)).no_reset();
    let word = m.reg("report_word", WORD).no_reset();
    m.when(state.is(State::Begin), |m| {
        m.set_all(&chosen, &(looks.of)(context));
        m.set(&base, (looks.place)(context));
        m.set(&seen, 0);
        m.set(&step, WORDS);
        m.set(&left, lit(left.width(), TOLERANCE).shr_by((looks.of)(context).halved));
        m.set(&state, State::Load);
    });
    let sends = state.is(State::Words);
    let first_word = base.slice(WORD_BITS, SLOT_BITS - WORD_BITS);
    let index = first_word + step.trunc(SLOT_BITS - WORD_BITS);
    let number = m.reg("report_number", SLOT_BITS - WORD_BITS).no_reset();
    let marks = (looks.marks)(context, sends.then(number, index));
    let low: Vec<Sig> = (0..WORD).map(|i| base.trunc(WORD_BITS).gt(i)).collect();
    let low = cat(&low);
    let masked = step.eq(WORDS).then(marks & low, step.eq(0).then(marks & !low, marks));
    m.when(state.is(State::Load), |m| {
        m.set(&word, masked);
        m.set(&state, State::Pop);
    });
    let (top, rest) = highest(word);
    let position = cat(&[top, index]);
    let pops = state.is(State::Pop);
    m.when(pops & word.any(), |m| {
        m.set(&word, rest);
        m.set(&seen, 1);
        m.set(&left, left - 1);
        m.when(!seen, |m| m.set(&newest, position));
        m.set(&taken, position);
        m.set(&number, 0);
        m.when(chosen.all | left.eq(1), |m| m.set(&state, State::Words));
    })
    .otherwise_when(pops, |m| {
        m.set(&step, step - 1);
        m.when(step.eq(0), |m| m.set(&state, State::Idle)).otherwise(|m| m.set(&state, State::Load));
    });
    let last = number.all();
    let from_base = |position: Sig| (position - base.trunc(SLOT_BITS)).zext(COUNT_BITS);
    let heard = from_base(newest) + 1;
    let lost = m.mux(chosen.all, &heard, &from_base(taken));
    // What has been kept meanwhile is told the next time.
    let inside = range(base, heard, number);
    let gap = Gap { flow: chosen.flow, base, heard, lost, word: marks & inside, last };
    // All that is kept may be about to be handed on.
    let any = lost.any().named("any_lost");
    m.when(sends & !any, |m| m.set(&state, State::Idle));
    let gaps = Stream::new(m, "gap", sends & any, gap);
    m.when(gaps.fire(), |m| {
        m.set(&number, number + 1);
        m.when(last, |m| m.set(&state, State::Idle));
    });
    Reports { gaps: half(&m.label("gaps"), gaps), begins, context, busy: !state.is(State::Idle) }
}
