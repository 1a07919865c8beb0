// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a send WQE: behind everything that its answer brought, and with what became of that.
//!
//! ```text
//!  entries --> token: what an answer brings ----+--> completion --> CQ
//!              end of a message --------------- | -> nothing, where none is wanted
//!  outcomes (place) ----------------------------+--> fault: QP to error
//!                                  failed, cause: a table with a place a QP
//! ```
//!
//! `track` puts down here in one order what ends, and where data of READs and atomics stand in between; for each of these a
//! token waits for its outcome from `place`, in the same order. So no completion overtakes what it reports, nor what
//! an older one does (IBTA volume 1, 9.7.7.1.2, 10.8.6).
//!
//! A READ or an atomic counts as done when its outcome is there: who has a fence, or waits for the QP's `max_rd_atomic`, is told then
//! (10.8.3.3).
//!
//! The keys of all SGEs were good when the READ was sent. Where one is not any more, nothing of that packet is written: the message ends with the cause,
//! the QP goes to the error state, and whatever `track` takes for done meanwhile is flushed, one completion each. The
//! first of the QP that ends behind the token is the one that failed, for it is the oldest.
//!
//! An entry a cycle, two for the one that ends with a cause. A QP's failure is forgotten with the mark at the end of its life. Reset: the table
//! is cleared, one QP a cycle.

use crate::config::RnicConfig;
use crate::responder::Outcome;
use crate::stream::{deep_fifo, fifo};
use crate::types::{Completion, ReadsDone, READ_BITS};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};

/// What `track` puts down.
#[derive(Clone, Bundle)]
pub struct Entry {
    /// An answer brings something: its outcome is awaited.
    pub token: Sig,
    /// A message ends, or the QP's life does.
    pub completes: Sig,
    /// What ends is a READ or an atomic.
    pub answered: Sig,
    /// It ends with a completion even if all goes well.
    pub wanted: Sig,
    /// The completion; of a token alone, the QP counts.
    pub completion: Completion,
}

impl Entry {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Entry {
            token: bits(1),
            completes: bits(1),
            answered: bits(1),
            wanted: bits(1),
            completion: Completion::of(cfg),
        }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Settled {
    /// Completions, in order for each QP.
    pub completions: Stream<Completion>,
    /// QPs that go to the error state.
    pub faults: Stream<Sig>,
    /// A message fails here: a pulse.
    pub failed: Sig,
    /// READs and atomics that are done.
    pub reads_done: ReadsDone,
    /// QPs that may wait for that.
    pub kicks: Stream<Sig>,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Ready,
    /// The cause is known.
    Cause,
}

#[derive(Clone, Bundle)]
struct Row {
    failed: Sig,
    /// The message that failed has not ended.
    owes: Sig,
    /// READs and atomics done.
    reads: Sig,
}

/// The end of the line. `outcomes`: one for each token, in order.
#[module]
pub fn settle(m: &Scope, cfg: &RnicConfig, entries: Stream<Entry>, outcomes: Stream<Outcome>) -> Settled {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Sweep);
    let (sweeping, ready) = (state.is(State::Sweep), state.is(State::Ready));
    let sweep = m.reg("sweep", qp_bits).reset(0);
    m.when(sweeping, |m| {
        m.set(&sweep, sweep + 1);
        m.when(sweep.eq(cfg.qps - 1), |m| m.set(&state, State::Ready));
    });

    let entry = &entries.payload;
    let qp = entry.completion.qpn.trunc(qp_bits);
    let marker = entry.completion.marker;
    let shape = Row { failed: bits(1), owes: bits(1), reads: bits(READ_BITS) };
    let table = m.mem("rows", cfg.qps, &shape).style(Style::Distributed).build();
    let before = table.read_now(qp);
    let known = entries.valid & (!entry.token | outcomes.valid);
    let fails = entry.token & outcomes.status.ne(0) & !before.failed;
    let failed = (before.failed | fails) & !marker;

    // The message that failed, if its failure is not of this entry, has its cause in the table.
    let looks_up = ready & known & entry.completes & before.failed & before.owes & !marker;
    let at_cause = state.is(State::Cause);
    let causes = m.mem("causes", cfg.qps, &Outcome::of()).style(Style::Block).build();
    let goes = m.wire("goes", 1);
    causes.write(goes & fails, qp, &outcomes.payload);
    let cause = causes.read(m, looks_up, qp, Collision::Never);
    m.when(looks_up, |m| m.set(&state, State::Cause));

    let can = known & ((ready & !looks_up) | at_cause);
    let tells = entry.completes & (entry.wanted | failed);
    let flushed =
        Outcome { status: lit(8, WcStatus::WrFlushErr.code()), cause: lit(8, LocalCause::None.code()) };
    let ended = m.mux(at_cause, &cause, &m.mux(fails, &outcomes.payload, &flushed));
    let end = Completion {
        // Only status, QP and WQE count in an error completion (IBTA volume 1, 11.4.2.1).
        opcode: m.mux(failed, &lit(8, 0), &entry.completion.opcode),
        byte_len: m.mux(failed, &lit(32, 0), &entry.completion.byte_len),
        status: m.mux(failed, &ended.status, &entry.completion.status),
        syndrome: m.mux(failed, &ended.cause, &entry.completion.syndrome),
        ..entry.completion.clone()
    };
    let kick_room = m.wire("kick_room", 1);
    let may_kick = kick_room | !entry.answered;
    let completion = Stream::new(m, "completion", can & tells & may_kick, end);
    m.drive(&goes, can & (!tells | completion.ready) & may_kick);
    let completions = fifo(&m.label("completions"), 2, completion);
    entries.accept(goes);
    outcomes.accept(goes & entry.token);
    m.when(goes & at_cause, |m| m.set(&state, State::Ready));

    let owes = (before.owes | fails) & !entry.completes;
    let reads = m.mux(marker, &lit(READ_BITS, 0), &(before.reads + entry.answered.zext(READ_BITS)));
    let after = Row { failed, owes: owes & !marker, reads };
    let changes = goes & (fails | marker | before.failed | entry.answered);
    let at = m.mux(sweeping, &sweep, &qp);
    let next = m.mux(sweeping, &shape.zeros(), &after);
    table.write(changes | sweeping, at, &next);
    // Whoever waits for READs hears of it when what they brought is in memory.
    let reads_done = ReadsDone { enable: changes | sweeping, index: at, entry: next.reads };
    let reads_done = m.delay("reads_done", &reads_done);
    let kick = Stream::new(m, "kick", goes & entry.answered, qp);
    m.drive(&kick_room, kick.ready);
    let kicks = fifo(&m.label("kicks"), 4, kick);
    let fault = Stream::new(m, "fault", goes & fails, qp);
    m.assert(!fault.valid | fault.ready, "a QP fails here once in its life");
    let faults = deep_fifo(&m.label("faults"), cfg.qps, fault);
    Settled { completions, faults, failed: goes & fails, reads_done, kicks }
}
