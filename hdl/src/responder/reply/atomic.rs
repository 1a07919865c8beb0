// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes and writes atomics, and keeps the answers of each QP's last 16.
//!
//! ```text
//!  operands --+                     +--> write
//!  places   --+--> oldest job --> scan --> compute --> write --+--> history: {address, result} of the last 32
//!  words    --+          ^            \--- history <-----------+--> replay ring of the QP: {PSN, original}
//!  jobs ------+          +--> find: replay ring                +--> result
//! ```
//!
//! All atomics of the card are executed here, one after the other, so each is atomic among them (IBTA volume 1, 9.4.5). Reads
//! of host memory are far ahead: an atomic that read a word which another, older one had not written yet must take that
//! one's result instead. When an atomic is read, the number of those that have been written by then is noted with it; when
//! it is computed, the addresses of those in between are compared, four a cycle from the youngest on. An atomic that was
//! alone when it was read compares nothing. A write counts when the channel has taken it: reads asked for later see it.
//!
//! The host is little-endian: the 8 bytes at the address are one number, least significant byte first. A compare that fails
//! writes nothing (9.4.5.1): what was read may be long ago, and whoever has written since would lose it.
//!
//! The answer is given when the write, if there is one, has been taken. It is kept for 16 further atomics of the QP, the most that may be
//! outstanding (9.4.5.1, 9.7.5.1.5), in four banks by the low bits of its slot; one that is asked for again is found by PSN,
//! four slots a cycle from the newest on. Where there is time there are two banks: ten cycles are fewer than the request that asks again has beats.
//! The end of a QP's life forgets them.
//!
//! 4 cycles an atomic; where others are under way one more, one for each four of them, and one where another's result is taken. Reset: rings are
//! swept, one QP a cycle.

use crate::config::RnicConfig;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};

/// Atomics between the cutter and here.
pub(super) const ATOMICS: u32 = 32;

/// Bits of an atomic's number: it tells which of two that are under way is older.
pub(super) const NUMBER_BITS: u32 = 6;

/// Answers that are kept of a QP.
const KEPT: u32 = 16;

/// Slots that are compared in a cycle, of the history, and of a ring where there is no time for fewer.
const BANKS: u32 = 4;

/// What an atomic computes with.
#[derive(Clone, Bundle)]
pub(super) struct Operands {
    pub(super) swap: Sig,
    pub(super) compare: Sig,
    pub(super) compares: Sig,
}

impl Operands {
    /// The shape, for tests.
    #[cfg(test)]
    pub(super) fn of() -> Self {
        Operands { swap: bits(64), compare: bits(64), compares: bits(1) }
    }
}

/// Where it is.
#[derive(Clone, Bundle)]
pub(super) struct Place {
    /// Bus address in words of 8 bytes.
    pub(super) address: Sig,
    /// Atomics that had been written when it was read.
    pub(super) written: Sig,
}

impl Place {
    /// The shape, for tests.
    #[cfg(test)]
    pub(super) fn of() -> Self {
        Place { address: bits(61), written: bits(NUMBER_BITS) }
    }
}

/// What was read there.
#[derive(Clone, Bundle)]
pub(super) struct Word {
    pub(super) value: Sig,
    pub(super) error: Sig,
}

impl Word {
    /// The shape, for tests.
    #[cfg(test)]
    pub(super) fn of() -> Self {
        Word { value: bits(64), error: bits(1) }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Execute the oldest; a result follows.
    Execute,
    /// Forget the oldest.
    Skip,
    /// Find the answer of this PSN; a result follows.
    Replay,
    /// Forget the QP's answers.
    Forget,
}

impl Errand {
    pub(super) fn code(self) -> u32 {
        self as u32
    }
}

/// A job.
#[derive(Clone, Bundle)]
pub(super) struct Job {
    pub(super) qp: Sig,
    pub(super) psn: Sig,
    /// An [`Errand`].
    pub(super) errand: Sig,
    /// What is to be forgotten has been read, or will be.
    pub(super) granted: Sig,
}

impl Job {
    /// The shape, for tests.
    #[cfg(test)]
    pub(super) fn of(cfg: &RnicConfig) -> Self {
        Job { qp: bits(cfg.qp_bits()), psn: bits(24), errand: bits(2), granted: bits(1) }
    }
}

/// What came of it.
#[derive(Clone, Bundle)]
pub(super) struct Outcome {
    /// What the memory held before.
    pub(super) original: Sig,
    /// That is known.
    pub(super) found: Sig,
    /// It could not be read.
    pub(super) error: Sig,
}

impl Outcome {
    pub(super) fn of() -> Self {
        Outcome { original: bits(64), found: bits(1), error: bits(1) }
    }
}

/// 8 bytes to be written.
#[derive(Clone, Bundle)]
pub(super) struct Write {
    pub(super) address: Sig,
    pub(super) value: Sig,
}

/// What comes out.
#[derive(Interface)]
pub(super) struct Atomics {
    pub(super) results: Stream<Outcome>,
    pub(super) write: Stream<Write>,
    /// How many have been written or forgotten, modulo 2^6.
    pub(super) written: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    /// Four are compared, and it is looked at what the cycle before has found.
    Scan,
    Take,
    Compute,
    Write,
    /// That it has been written is known late, from the other writers.
    Written,
    Find,
    Answer,
}

#[derive(Clone, Bundle)]
struct Row {
    /// The slot that is written next.
    next: Sig,
    /// All slots have been written.
    full: Sig,
}

#[derive(Clone, Bundle)]
struct Past {
    valid: Sig,
    address: Sig,
}

#[derive(Clone, Bundle)]
struct Answered {
    psn: Sig,
    original: Sig,
}

/// The last lane for which `hits` holds.
fn youngest(hits: &[Sig]) -> Sig {
    let width = clog2(hits.len() as u64);
    (1u32..).zip(&hits[1..]).fold(lit(width, 0), |lane, (i, hit)| hit.then(lit(width, i), lane))
}

/// In its place where there are no atomics: only the ends of queue pairs come.
pub(super) fn none(
    m: &Scope,
    operands: Stream<Operands>,
    places: Stream<Place>,
    words: Stream<Word>,
    jobs: Stream<Job>,
) -> Atomics {
    m.discard(&(
        operands.payload.clone(),
        places.payload.clone(),
        words.payload.clone(),
        jobs.payload.clone(),
    ));
    operands.accept(1);
    places.accept(1);
    words.accept(1);
    jobs.accept(1);
    let never = lit(1, 0);
    let write = Stream::new(m, "write", never, Write { address: lit(64, 0), value: lit(64, 0) });
    m.discard(&write.ready);
    let results = Stream::new(m, "results", never, Outcome::of().zeros());
    Atomics { results, write, written: lit(NUMBER_BITS, 0) }
}

/// The atomic unit. `operands`, `places` and `words` have an entry for each atomic that is to be executed, the latter two
/// only where it was granted.
#[module]
pub(super) fn atomic(
    m: &Scope,
    cfg: &RnicConfig,
    operands: Stream<Operands>,
    places: Stream<Place>,
    words: Stream<Word>,
    jobs: Stream<Job>,
) -> Atomics {
    let state = m.fsm("state", State::Sweep);
    let (sweeping, idle) = (state.is(State::Sweep), state.is(State::Idle));
    let qp = m.reg("qp", cfg.qp_bits()).reset(0);
    let psn = m.reg("psn", 24).no_reset();
    let number = m.reg("number", NUMBER_BITS).reset(0);
    let value = m.reg("value", 64).no_reset();
    let result = m.reg("result", 64).no_reset();

    // A job.
    let is = |errand: Errand| jobs.errand.eq(errand.code());
    let (executes, skips) = (is(Errand::Execute), is(Errand::Skip));
    let all_here = operands.valid & places.valid & words.valid;
    // What was there a cycle ago still is, if none was taken.
    let (takes, done) = (m.wire("takes", 1), m.wire("done", 1));
    let (was_here, operand_was_here) =
        (m.delay("all_were_here", &all_here), m.delay("operand_was_here", &operands.valid));
    let may = m.select(
        jobs.errand,
        &[was_here, was_here | (operand_was_here & !jobs.granted), lit(1, 1), lit(1, 1)],
    );
    // What is forgotten leaves the queues in the next cycle, from a register.
    let forgets = m.reg("forgets", 1).reset(0);
    let may = may & !m.delay("just_took", &(takes | done | forgets));
    m.drive(&takes, idle & jobs.valid & may);
    jobs.accept(idle & may);
    let errors = takes & executes & words.error;
    let begins = takes & executes & !words.error;
    let skipped = takes & skips & jobs.granted;
    let alone = places.written.eq(number);
    let newest = (number - 1).slice(2, NUMBER_BITS - 2);
    let group = m.reg("group", NUMBER_BITS - 2).no_reset();
    m.when(takes, |m| {
        m.set(&qp, jobs.qp);
        m.set(&psn, jobs.psn);
        m.set(&value, words.value);
        m.set(&group, newest);
        m.when(begins, |m| {
            m.set(&state, State::Scan);
            m.when(alone, |m| m.set(&state, State::Compute));
        });
        m.when(errors, |m| m.set(&state, State::Answer));
        m.when(is(Errand::Replay), |m| m.set(&state, State::Find));
    });

    // Those between its read and now, four a cycle.
    let changes = m.reg("changes", 1).no_reset();
    m.set(&forgets, skipped | errors);
    let counts = done | forgets;
    let past = Past { valid: done & changes, address: places.address };
    let slot = number.slice(2, 3);
    let results = m.mem("results", ATOMICS, &bits(64)).style(Style::Distributed).build();
    results.write(done, number.trunc(5), &result);
    let under_way = number - places.written;
    let hits: Vec<Sig> = (0..BANKS)
        .map(|lane| {
            let bank =
                m.mem(&format!("history{lane}"), ATOMICS / BANKS, &past).style(Style::Distributed).build();
            bank.write(counts & number.trunc(2).eq(lane), slot, &past);
            let before = bank.read_now(group.trunc(3));
            let place = cat(&[lit(2, lane), group]) - places.written;
            let hit = before.valid & place.lt(under_way) & before.address.eq(places.address);
            m.delay(&format!("hit{lane}"), &hit)
        })
        .collect();
    let at_scan = state.is(State::Scan);
    m.assert(
        !at_scan | under_way.le(lit(NUMBER_BITS, ATOMICS)),
        "all that was written since the read is known",
    );
    let hit = cat(&hits).any();
    let from = m.reg("from", 5).no_reset();
    let (has_scanned, scanned) = (m.delay("has_scanned", &at_scan), m.delay("scanned", &group));
    m.when(at_scan, |m| m.set(&group, group - 1));
    m.when(at_scan & has_scanned, |m| {
        m.set(&from, cat(&[youngest(&hits), scanned.trunc(3)]));
        m.when(hit, |m| m.set(&state, State::Take))
            .otherwise_when(scanned.eq(places.written.slice(2, NUMBER_BITS - 2)), |m| {
                m.set(&state, State::Compute)
            });
    });
    m.when(state.is(State::Take), |m| {
        m.set(&value, results.read_now(from));
        m.set(&state, State::Compute);
    });

    // The result, and its write.
    m.when(state.is(State::Compute), |m| {
        m.set(&changes, !operands.compares | value.eq(operands.compare));
        m.set(&result, m.mux(operands.compares, &operands.swap, &(value + operands.swap)));
        m.set(&state, State::Write);
    });
    let write = Write { address: cat(&[lit(3, 0), places.address]), value: result };
    let write = Stream::new(m, "write", state.is(State::Write) & changes, write);
    let ends = write.fire() | (state.is(State::Write) & !changes);
    m.when(ends, |m| m.set(&state, State::Written));
    m.drive(&done, state.is(State::Written));
    m.when(done, |m| m.set(&state, State::Answer));
    m.when(counts, |m| m.set(&number, number + 1));
    operands.accept(done | errors | (takes & skips));
    places.accept(counts);
    words.accept(begins | forgets);

    // The QP's ring.
    let slot_bits = KEPT.trailing_zeros();
    let row_shape = Row { next: bits(slot_bits), full: bits(1) };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let forgotten = takes & is(Errand::Forget);
    let next = m.wire_of("next", &row_shape);
    rows.write(done | sweeping | forgotten, m.mux(forgotten, &jobs.qp, &qp), &next);
    let row = rows.read(m, takes & !forgotten, jobs.qp, Collision::Never);
    m.set(&next.next, row.next + 1);
    m.set(&next.full, row.full | row.next.all());
    m.when(sweeping | forgotten, |m| m.set_all(&next, &row_shape.zeros()));
    m.when(sweeping, |m| {
        m.set(&qp, qp + 1);
        m.when(qp.all(), |m| m.set(&state, State::Idle));
    });

    // Found by its PSN: the slots before the next one in its own group, then the other groups, then the rest of the first.
    let at_find = state.is(State::Find);
    let banks = if cfg.unhurried() { BANKS / 2 } else { BANKS };
    let (groups, lane_bits) = (KEPT / banks, clog2(banks.into()));
    let step = m.reg("step", clog2(u64::from(groups) + 3)).reset(0);
    let group_bits = slot_bits - lane_bits;
    let own = row.next.slice(lane_bits, group_bits);
    let reads = at_find & step.le(groups);
    let read_group = own - step.trunc(group_bits);
    let looked_at = m.reg("looked_at", group_bits).no_reset();
    m.when(reads, |m| m.set(&looked_at, read_group));
    let answered = Answered { psn, original: value };
    // A group in a row: block RAM and UltraRAM have a write enable for nine bits.
    let width = answered.total_width().next_multiple_of(9);
    let rows = cfg.qps * groups;
    let ring = m.mem("ring", rows, &bits(width * banks)).style(cfg.large(rows)).build();
    let lanes: Vec<Sig> = (0..banks).map(|lane| row.next.trunc(lane_bits).eq(lane)).collect();
    let group = answered.pack().zext(width).repeat(banks);
    ring.write_lanes(done, cat(&[own, qp]), &group, cat(&lanes), width);
    let kept_group = ring.read(m, reads, cat(&[read_group, qp]), Collision::Never);
    let mut found: Vec<(Sig, Sig)> = Vec::new();
    for lane in 0..banks {
        let kept = answered.unpack(kept_group.slice(lane * width, answered.total_width()));
        let newer = row.next.trunc(lane_bits).gt(lane);
        let counts = m.mux(step.eq(1), &newer, &m.mux(step.eq(groups + 1), &!newer, &lit(1, 1)));
        let counts = counts & step.ne(0) & step.ne(groups + 2);
        let written = row.full | cat(&[lit(lane_bits, lane), looked_at]).lt(row.next);
        // What it says is looked at a cycle later.
        let hit = m.delay(&format!("hit{lane}"), &(at_find & counts & written & kept.psn.eq(psn)));
        found.push((hit, m.delay(&format!("original{lane}"), &kept.original)));
    }
    let (hits, originals): (Vec<Sig>, Vec<Sig>) = found.into_iter().unzip();
    let hit = cat(&hits).any();
    let is_found = m.reg("is_found", 1).no_reset();
    let is_error = m.reg("is_error", 1).no_reset();
    m.when(takes, |m| {
        m.set(&is_found, executes);
        m.set(&is_error, executes & words.error);
        m.set(&step, 0);
    });
    m.when(at_find, |m| {
        m.set(&step, step + 1);
        m.when(hit, |m| {
            m.set(&value, m.select(youngest(&hits), &originals));
            m.set(&is_found, 1);
        });
        m.when(hit | step.eq(groups + 2), |m| m.set(&state, State::Answer));
    });

    let outcome = Outcome { original: value, found: is_found, error: is_error };
    let outcome = Stream::new(m, "outcome", state.is(State::Answer) | done, outcome);
    m.when(outcome.fire(), |m| m.set(&state, State::Idle));
    Atomics { results: outcome, write, written: number }
}

#[cfg(test)]
mod tests;
