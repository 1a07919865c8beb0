// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clears the slots that hold WQEs of lives that have ended, before the numbers of these come again.
//!
//! ```text
//!  half of a queue's numbers used --> asked --> round: wait for the reads of before, then slot by slot
//!                                       ^         visit --> tag --> life of its queue now --> another? --> clear
//!                                       |           ^                                                     |
//!                                       |           +------------------- next slot -----------------------+
//!                                       +-- the round before is not over
//!  and the other half already, before the round that it asked for is over --> wait for the reads of before --> clear all
//! ```
//!
//! A life's number has [`LIFE_BITS`] bits. A queue that has used half of them asks for a round, which begins behind the one under way, if
//! there is one: when it is over, no slot has a number of a life that had ended by then, for each has been looked at since, and what was being
//! read when the round began had come before. So the numbers of the other half are free when the queue has used those of this one. Each
//! queue's row has the number of the round that it asked for last (`stamp`); should that not be over then, everybody waits, and all slots are
//! cleared, one a cycle. That takes lives of one queue that are shorter than a 32nd of two rounds. A stamp of a round long ago may look like
//! one of now, for numbers of rounds repeat: then all slots are cleared for nothing.
//!
//! A slot takes 4 cycles, 5 where it is cleared, in which others are kept from the lives' table for one. It is looked at when nobody
//! looks for a WQE; where somebody does for long, 7 cycles later at the latest, between two looks. So with 4,096 slots a round takes 16,000 to
//! 54,000 cycles. A fill that comes to the slot meanwhile is of now, and stays.
//!
//! Reset: all slots are cleared.

use crate::config::RnicConfig;
use crate::responder::receive::{slots, LIFE_BITS};
use ferrowire_rtl::{bits, clog2, module, Bundle, Interface, Scope, Sig};

/// Bits of a round's number.
pub(super) const ROUND_BITS: u32 = 8;

/// Bits of the number of reads under way: one for each place of the reads' queue, and of what they become.
const READING_BITS: u32 = 7;

/// A slot's tag, as far as it matters here.
#[derive(Clone, Bundle)]
pub(super) struct Holder {
    pub valid: Sig,
    pub queue: Sig,
    pub life: Sig,
}

impl Holder {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Holder { valid: bits(1), queue: bits(cfg.rq_bits()), life: bits(LIFE_BITS) }
    }
}

/// What it is told.
#[derive(Interface)]
pub(super) struct Input {
    /// A queue has used half of its numbers, and which round it asked for when it had used the other half.
    pub crosses: Sig,
    pub stamp: Sig,
    /// A read is asked for; the last WQE of one has come.
    pub reads: Sig,
    pub ends_read: Sig,
    /// A WQE comes, to this slot.
    pub fills: Sig,
    pub fill_slot: Sig,
    /// Nobody looks at a slot.
    pub free: Sig,
    /// What was found in the slot that was visited in the cycle before; anything, if it was filled in that.
    pub found: Holder,
    /// The life of the queue in `judged`, in the same cycle.
    pub life: Sig,
}

/// What comes out.
#[derive(Interface)]
pub(super) struct Sweep {
    /// The slot in question.
    pub slot: Sig,
    /// Its tag is to be read.
    pub visits: Sig,
    /// It waits for that too long: nobody else may begin.
    pub insists: Sig,
    /// `life` is looked at: that of `judged`.
    pub judges: Sig,
    pub judged: Sig,
    /// The slot is to be cleared. Nothing fills one in this cycle.
    pub clears: Sig,
    /// Nobody may look for a WQE.
    pub halted: Sig,
    /// And nothing may come: all slots are being cleared.
    pub clearing: Sig,
    /// The round that a queue which has used half of its numbers asks for.
    pub stamp: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum Step {
    Visit,
    Found,
    /// The life of its queue is looked up.
    Ask,
    Judge,
    Clear,
}

/// The sweep; see the page's top.
#[module]
pub(super) fn sweep(m: &Scope, cfg: &RnicConfig, input: Input) -> Sweep {
    let Input { crosses, stamp, reads, ends_read, fills, fill_slot, free, found, life } = input;
    let slot = m.reg("slot", clog2(u64::from(slots(cfg)))).reset(0);
    let clearing = m.reg("clearing", 1).reset(1);
    let halts = m.reg("halts", 1).reset(0);
    let cleaning = m.reg("cleaning", 1).reset(0);
    let asked = m.reg("asked", 1).reset(0);
    let round = m.reg("round", ROUND_BITS).reset(0);

    // Reads under way, and those that were when the round began.
    let reading = m.reg("reading", READING_BITS).reset(0);
    let before = m.reg("before", READING_BITS).reset(0);
    let still = reading + reads.zext(READING_BITS) - ends_read.zext(READING_BITS);
    m.assert(!reads | !reading.all(), "fewer reads are under way than are counted");
    m.set(&reading, still);
    let one = (ends_read & before.any()).zext(READING_BITS);
    m.set(&before, before - one);

    // Slot by slot.
    let step = m.fsm("step", Step::Visit);
    let looks = cleaning & before.eq(0) & step.is(Step::Visit);
    let postponed = m.reg("postponed", 3).reset(0);
    let insists = looks & postponed.all();
    let visits = looks & free;
    m.when(visits | !looks, |m| m.set(&postponed, 0))
        .otherwise_when(!postponed.all(), |m| m.set(&postponed, postponed + 1));
    let refilled = m.reg("refilled", 1).no_reset();
    // Which slot is filled is known late: it counts a cycle later, in which that slot is not cleared.
    let filled = m.reg("filled", 1).reset(0);
    m.set(&filled, fills);
    let filled_slot = m.delay("filled_slot", &fill_slot);
    let may_clear = !fills & !(filled & filled_slot.eq(slot));
    m.set(&refilled, (refilled & !visits) | (filled & filled_slot.eq(slot)));
    let holder = m.reg_of("holder", &Holder::of(cfg));
    m.when(visits, |m| m.set(&step, Step::Found));
    m.when(step.is(Step::Found), |m| {
        m.set_all(&holder, &found);
        m.set(&step, Step::Ask);
    });
    let asks = step.is(Step::Ask);
    let now = m.delay("now", &life);
    m.when(asks, |m| m.set(&step, Step::Judge));
    let judges = step.is(Step::Judge);
    let outdated = holder.valid & holder.life.ne(now);
    let clears = step.is(Step::Clear) & may_clear & !refilled;
    let passes = (judges & !outdated) | (step.is(Step::Clear) & (may_clear | refilled));
    m.when(judges & outdated, |m| m.set(&step, Step::Clear));
    m.when(passes, |m| m.set(&step, Step::Visit));
    m.when(passes | clearing, |m| m.set(&slot, slot + 1));
    m.when(slot.all() & passes, |m| m.set(&cleaning, 0));
    // Whatever was asked for before is done.
    m.when(slot.all() & clearing, |m| {
        m.set(&clearing, 0);
        m.set(&round, round + 2);
    });

    // The rounds.
    let next_round = round + 1;
    let halted = (halts | clearing).named("halted");
    let begins = asked & !cleaning & !halted;
    m.when(begins, |m| {
        m.set(&asked, 0);
        m.set(&cleaning, 1);
        m.set(&round, next_round);
        m.set(&before, still);
        m.set(&slot, 0);
    });
    let goes_on = asked | cleaning;
    let too_soon = goes_on & (stamp.eq(round) | stamp.eq(next_round));
    m.when(crosses, |m| m.set(&asked, 1));
    // Where all are to be cleared, what is being read then is waited for as well.
    let idle = step.is(Step::Visit);
    m.when(halts & idle & before.eq(0), |m| {
        m.set(&halts, 0);
        m.set(&clearing, 1);
        m.set(&slot, 0);
    });
    m.when(crosses & (too_soon | halted), |m| {
        m.set(&halts, 1);
        m.set(&before, still);
        m.set(&cleaning, 0);
        m.set(&asked, 0);
        m.set(&clearing, 0);
    });
    Sweep {
        slot,
        visits,
        insists,
        judges: asks,
        judged: holder.queue,
        clears: clears | clearing,
        halted,
        clearing,
        stamp: next_round,
    }
}
