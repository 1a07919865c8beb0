// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends the receives that are left when a QP has gone to the error state: one completion each, in order.
//!
//! ```text
//!  event: QP in ERR has receives --> line of QPs --> bar --> {done .. posted} --> flushed, one by one
//!                                       ^                |         |                     |
//!                                       +----------------|- more --+                     v
//!  completed --> done, the index behind the last that    |                             admit
//!                has ended, or the one that is held      +--> held --> last --------------^
//!  ask {QP} ------^------> done
//! ```
//!
//! First the QP is barred: of what is on its way to `admit`, nothing of the QP has an effect any more, and so `done`
//! stands. Then a few receives a turn end, and others have theirs. A QP stands in the line once; an event while it has its
//! turn puts it there again, for more may have been posted.
//!
//! Of a shared queue a QP has at most the one receive that its message holds; the others are for other QPs. Those that packets
//! have taken which are on their way to `admit` still are flushed there; so a QP that can take none any more has a second turn, when
//! `admit` has seen all of them (`lasts`), and the host is told then: behind the completions, for the mark goes their way (IBTA
//! volume 1, 10.2.9.3).
//!
//! `receive` asks how far a QP's own queue is, and has the answer in the next cycle; who reads the table here waits for it. The
//! table follows a decision within a few cycles, those of a turn as well, and so is ahead of what the host has seen completed.
//!
//! One receive a cycle, where it is taken. A QP that goes to RESET is waited for until nobody has a turn: behind its end no
//! receive of its former life comes. What its message held of a shared queue is flushed before that end. Reset: the line is empty, the tables are cleared one QP a cycle.

use crate::config::RnicConfig;
use crate::stream::{gather, Flagged, Forget};
use crate::types::{OfQp, QpBroadcast, TableWrite};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;

/// What `admit` is told.
#[derive(Clone, Bundle)]
pub struct Flushed {
    /// Which QP.
    pub qp: Sig,
    /// Nothing of it has an effect any more; otherwise a receive ends.
    pub bar: Sig,
    /// No receive of a shared queue comes any more: not a receive either.
    pub last: Sig,
    /// Its index.
    pub index: Sig,
    /// CQ of the receives.
    pub cq: Sig,
}

impl Flushed {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Flushed {
            qp: bits(cfg.qp_bits()),
            bar: bits(1),
            last: bits(1),
            index: bits(16),
            cq: bits(cfg.cq_bits()),
        }
    }
}

/// How far the receives of a QP are.
#[derive(Clone, Bundle)]
pub struct Done {
    /// Behind the last of its own queue that has ended, or the one of a shared queue.
    pub index: Sig,
    /// That one is held by the message under way.
    pub held: Sig,
    /// Where it completes.
    pub cq: Sig,
}

impl Done {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Done { index: bits(16), held: bits(1), cq: bits(cfg.cq_bits()) }
    }
}

/// Where the receives of a QP come from, and complete.
#[derive(Clone, Bundle)]
struct Queue {
    cq: Sig,
    shared: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Flush {
    /// What `admit` is told.
    pub flushed: Stream<Flushed>,
    /// Of the QP asked for in the cycle before: the index behind the last receive of its own queue that has ended.
    pub done: Sig,
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
    /// None of a shared queue is left.
    Last,
    /// It is known whether more are left.
    Rest,
    Leave,
    /// What a QP that goes to RESET holds is known.
    Ending,
    Release,
    Ended,
}

/// The flush. `completed`: how far a QP is; `posted`: the index behind the newest of each queue; `lasts`: QPs of which no packet
/// that has taken from a shared queue is under way; `ends`: QPs that have gone to RESET; `ask`: the queue of which `done` is asked for.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn flush(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    event: OfQp,
    posted: TableWrite<Sig>,
    completed: TableWrite<Done>,
    lasts: Stream<Sig>,
    ends: Stream<Sig>,
    ask: OfQp,
) -> Flush {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Sweep);
    let sweeping = state.is(State::Sweep);
    let idle = state.is(State::Idle);
    let qp = m.reg("qp", qp_bits).reset(0);

    // The line, in which a QP stands once. An event never waits.
    let (leaves, again) = (m.wire("leaves", 1), m.wire("again", 1));
    let (is_event, is_last) = (event.valid, lasts.valid & !event.valid);
    lasts.accept(!event.valid);
    let joins = m.mux(is_event, &event.qp, &m.mux(is_last, &lasts.payload, &qp));
    // The upper flag: it is the last turn.
    let joins = Flagged { row: joins, flags: cat([&lit(1, 1), &is_last]) };
    let joining = Stream::new(m, "joining", is_event | is_last | again, joins);
    m.assert(!joining.valid | joining.ready, "who gathers waits for nobody");
    let line = gather(&m.label("line"), cfg.qps, joining, Forget::nothing(cfg.qps));
    let takes = idle & line.valid & !ends.valid;
    line.accept(takes);

    // How far each QP is.
    let done = m.reg("done", 16).no_reset();
    let ends_now = ends.valid & idle & !ask.valid;
    let at_ended = state.is(State::Ended);
    let ended = at_ended & !completed.enable;
    ends.accept(ended);
    let dones = m.mem("dones", cfg.qps, &Done::of(cfg)).style(Style::Block).build();
    let none = Done::of(cfg).zeros();
    // What is not flushed here is when the QP's end comes.
    let keeps = m.reg("keeps", 1).no_reset();
    let at_look = state.is(State::Look);
    let looks = m.wire("looks", 1);
    let kept_cq = m.reg("kept_cq", cfg.cq_bits()).no_reset();
    let value = m.mux(ended | sweeping, &none, &Done { index: done, held: keeps, cq: kept_cq });
    // What has been flushed counts at once: the host may see it, and post again, before the turn is over.
    let at_flush = state.is(State::Flush);
    dones.write(
        completed.enable | ended | at_flush | leaves | sweeping,
        m.mux(completed.enable, &completed.index, &qp),
        &m.mux(completed.enable, &completed.entry, &value),
    );
    let of = m.mux(ask.valid, &ask.qp, &m.mux(ends_now, &ends.payload, &qp));
    let stored = dones.read(m, looks | ends_now | ask.valid, of, Collision::New);
    let producers = m.mem("producers", cfg.qps, &bits(16)).style(Style::Block).build();
    producers.write(posted.enable & !posted.index.msb(), posted.index.trunc(qp_bits), &posted.entry);
    let producer = producers.read(m, looks, qp, Collision::New);
    let given = &broadcast.attributes;
    let queues = m.mem("queues", cfg.qps, &Queue { cq: bits(cfg.cq_bits()), shared: bits(1) });
    let queues = queues.style(Style::Block).build();
    let queue = Queue { cq: given.entry.recv_cq, shared: given.entry.has_srq };
    queues.write(given.enable, given.index, &queue);
    let queue = queues.read(m, looks, qp, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let in_error = states.read_now(qp).eq(QpState::Err.code());

    // A turn.
    let at_bar = state.is(State::Bar);
    let until = m.reg("until", 16).no_reset();
    let count = m.reg("count", clog2(u64::from(AT_ONCE))).no_reset();
    let more = done.ne(until);
    let (at_last, at_release) = (state.is(State::Last), state.is(State::Release));
    let (is_last_turn, tells) = (m.reg("is_last_turn", 1).no_reset(), m.reg("tells", 1).no_reset());
    let flushed = Flushed { qp, bar: at_bar, last: at_last, index: done, cq: kept_cq };
    let offers = at_bar | (at_flush & more) | at_last | at_release;
    let flushed = Stream::new(m, "flushed", offers, flushed);
    let fired = flushed.fire();
    m.when(takes, |m| {
        m.set(&qp, line.row);
        m.set(&is_last_turn, line.flags.msb());
        m.set(&state, State::Turn);
    });
    m.when(ends_now, |m| {
        m.set(&qp, ends.payload);
        m.set(&state, State::Ending);
    });
    // Attributes of a QP that goes to RESET may be gone: what is held knows its CQ.
    let cq = m.mux(stored.held, &stored.cq, &queue.cq);
    m.when(state.is(State::Ending), |m| {
        m.set(&done, stored.index);
        m.set(&kept_cq, cq);
        m.when(stored.held, |m| m.set(&state, State::Release)).otherwise(|m| m.set(&state, State::Ended));
    });
    m.when(at_release & fired, |m| m.set(&state, State::Ended));
    m.when(ended, |m| m.set(&state, State::Idle));
    m.when(state.is(State::Turn), |m| {
        m.when(in_error, |m| m.set(&state, State::Bar)).otherwise(|m| m.set(&state, State::Idle));
    });
    // What was decided in the cycle of the bar is known to the table in the next one.
    let looked = m.delay("looked", &looks);
    m.drive(&looks, at_look & !looked & !ask.valid);
    m.when(at_bar & fired, |m| m.set(&state, State::Look));
    m.when(at_look & looked, |m| {
        m.set(&done, stored.index);
        // Of a QP that has gone to RESET meanwhile the number of receives means nothing any more.
        let posted = m.mux(queue.shared, &(stored.index + stored.held.zext(16)), &producer);
        m.set(&until, m.mux(in_error, &posted, &stored.index));
        m.set(&keeps, stored.held & !in_error);
        m.set(&kept_cq, cq);
        m.set(&tells, in_error & queue.shared & is_last_turn);
        m.set(&count, 0);
        m.set(&state, State::Flush);
    });
    m.when(at_flush & fired, |m| {
        m.set(&done, done + 1);
        m.set(&count, count + 1);
    });
    let last = count.all() & fired;
    m.when(at_flush & (!more | last), |m| {
        m.when(tells, |m| m.set(&state, State::Last)).otherwise(|m| m.set(&state, State::Rest));
    });
    m.when(at_last & fired, |m| m.set(&state, State::Rest));
    m.when(state.is(State::Rest), |m| m.set(&state, State::Leave));
    let more = m.delay("more", &more);
    let at_leave = state.is(State::Leave);
    let free = !completed.enable & !is_event & !is_last;
    m.drive(&again, at_leave & more & free);
    m.drive(&leaves, at_leave);
    m.when(at_leave & free, |m| m.set(&state, State::Idle));
    m.when(sweeping, |m| {
        m.set(&qp, qp + 1);
        m.when(qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    });
    Flush { flushed, done: stored.index }
}
