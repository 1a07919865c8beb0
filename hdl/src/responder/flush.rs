// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends the receives that are left when a QP has gone to the error state: one completion each, in order.
//!
//! ```text
//!  event: QP in ERR has receives --> line of QPs --> bar --> {done .. posted} --> flushed, one by one
//!                                       ^                          |                     |
//!                                       +--------- more than a few +                     v
//!  completed --> done, the index behind the last that has ended                        admit
//! ```
//!
//! First the QP is barred: of what is on its way to `admit`, nothing of the QP has an effect any more, and so `done`
//! stands. Then a few receives a turn end, and others have theirs. A QP stands in the line once; an event while it has its
//! turn puts it there again, for more may have been posted.
//!
//! One receive a cycle, where it is taken. A QP that goes to RESET is waited for until nobody has a turn: behind its end no
//! receive of its former life comes. Reset: the line is empty, the tables are cleared one QP a cycle.

use crate::config::RnicConfig;
use crate::stream::{gather, Flagged, Forget};
use crate::types::{QpBroadcast, TableWrite};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Collision, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;

/// What `admit` is told.
#[derive(Clone, Bundle)]
pub struct Flushed {
    /// Which QP.
    pub qp: Sig,
    /// Nothing of it has an effect any more; otherwise a receive ends.
    pub bar: Sig,
    /// Its index.
    pub index: Sig,
    /// CQ of the receives.
    pub cq: Sig,
}

impl Flushed {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Flushed { qp: bits(cfg.qp_bits()), bar: bits(1), index: bits(16), cq: bits(cfg.cq_bits()) }
    }
}

/// A QP of which receives are to be flushed.
#[derive(Clone, Bundle)]
pub struct Event {
    /// In this cycle.
    pub valid: Sig,
    /// Which one.
    pub qp: Sig,
}

impl Event {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Event { valid: bits(1), qp: bits(cfg.qp_bits()) }
    }
}

/// Receives that end in a turn.
const AT_ONCE: u32 = 16;

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    /// The QP of this turn is known.
    Turn,
    Bar,
    /// How far it is is looked up.
    Look,
    Flush,
    Leave,
}

/// The flush. `completed`: a receive has ended, and this index is behind it; `posted`: the index behind the newest; `ends`: QPs
/// that have gone to RESET.
#[module]
pub fn flush(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    event: Event,
    posted: TableWrite<Sig>,
    completed: TableWrite<Sig>,
    ends: Stream<Sig>,
) -> Stream<Flushed> {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Sweep);
    let sweeping = state.is(State::Sweep);
    let idle = state.is(State::Idle);
    let qp = m.reg("qp", qp_bits).reset(0);

    // The line, in which a QP stands once. An event never waits.
    let (leaves, again) = (m.wire("leaves", 1), m.wire("again", 1));
    let joins = Flagged { row: m.mux(event.valid, &event.qp, &qp), flags: lit(1, 1) };
    let joining = Stream::new(m, "joining", event.valid | again, joins);
    m.assert(!joining.valid | joining.ready, "who gathers waits for nobody");
    let line = gather(&m.label("line"), cfg.qps, joining, Forget::nothing(cfg.qps)).map(|line| line.row);
    let takes = idle & line.valid & !ends.valid;
    line.accept(takes);

    // How far each QP is.
    let done = m.reg("done", 16).no_reset();
    let ended = ends.valid & idle & !completed.enable;
    ends.accept(idle & !completed.enable);
    let dones = m.mem("dones", cfg.qps, &bits(16)).style(Style::Block).build();
    let at = m.mux(completed.enable, &completed.index, &m.mux(ended, &ends.payload, &qp));
    let value = m.mux(completed.enable, &completed.entry, &m.mux(ended, &lit(16, 0), &done));
    let zero = lit(16, 0);
    dones.write(
        completed.enable | ended | leaves | sweeping,
        m.mux(sweeping, &qp, &at),
        &m.mux(sweeping, &zero, &value),
    );
    let at_look = state.is(State::Look);
    let looks = m.wire("looks", 1);
    let stored = dones.read(m, looks, qp, Collision::New);
    let producers = m.mem("producers", cfg.qps, &bits(16)).style(Style::Block).build();
    producers.write(posted.enable, posted.index, &posted.entry);
    let producer = producers.read(m, looks, qp, Collision::New);
    let given = &broadcast.attributes;
    let cqs = m.mem("cqs", cfg.qps, &bits(cfg.cq_bits())).style(Style::Block).build();
    cqs.write(given.enable, given.index, &given.entry.recv_cq);
    let cq = cqs.read(m, looks, qp, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let in_error = states.read_now(qp).eq(QpState::Err.code());

    // A turn.
    let at_bar = state.is(State::Bar);
    let at_flush = state.is(State::Flush);
    let until = m.reg("until", 16).no_reset();
    let count = m.reg("count", clog2(u64::from(AT_ONCE))).no_reset();
    let more = done.ne(until);
    let flushed = Flushed { qp, bar: at_bar, index: done, cq };
    let flushed = Stream::new(m, "flushed", at_bar | (at_flush & more), flushed);
    let fired = flushed.fire();
    m.when(takes, |m| {
        m.set(&qp, line.payload);
        m.set(&state, State::Turn);
    });
    m.when(state.is(State::Turn), |m| {
        m.when(in_error, |m| m.set(&state, State::Bar)).otherwise(|m| m.set(&state, State::Idle));
    });
    // What was decided in the cycle of the bar is known to the table in the next one.
    let barred = m.delay("barred", &(at_bar & fired));
    m.drive(&looks, barred & at_look);
    m.when(at_bar & fired, |m| m.set(&state, State::Look));
    m.when(at_look & !barred, |m| {
        m.set(&done, stored);
        // Of a QP that has gone to RESET meanwhile the number of receives means nothing any more.
        m.set(&until, m.mux(in_error, &producer, &stored));
        m.set(&count, 0);
        m.set(&state, State::Flush);
    });
    m.when(at_flush & fired, |m| {
        m.set(&done, done + 1);
        m.set(&count, count + 1);
    });
    let last = count.all() & fired;
    m.when(at_flush & (!more | last), |m| m.set(&state, State::Leave));
    let at_leave = state.is(State::Leave);
    m.drive(&again, at_leave & more & !completed.enable & !event.valid);
    m.drive(&leaves, at_leave);
    m.when(at_leave & !completed.enable & !event.valid, |m| m.set(&state, State::Idle));
    m.when(sweeping, |m| {
        m.set(&qp, qp + 1);
        m.when(qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    });
    flushed
}
