// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reaction point: queue pairs that were told of congestion send at a rate (DCQCN, Zhu et al., SIGCOMM 2015).
//!
//! ```text
//!  cnps ---> gather --+                                        +--> gate: who must wait
//!  resets ------------+--> one ---> row of its flow ---> steps-+--> wake: who may go on
//!  every 2 us: each ->+      ^                             |
//!                            +------- write back <---------+
//!  sent ---> flow of the QP ---> bytes not charged yet; all used up? too much? ---> gate
//! ```
//!
//! A QP that gets a CNP becomes a flow, if one is free; otherwise the CNP is counted as ignored. Its rate begins at the line rate and
//! is cut at once: `target = rate; rate -= rate * alpha / 2; alpha += (1 - alpha) * g`. Without CNPs alpha decays every
//! `alpha_us`, and the rate rises every `rate_us` and every `bytes` sent: half the way to the target, which in the first `steps` rises of
//! both kinds stays, then rises by `additive_mbps`, and by `hyper_mbps` when both kinds are behind them. A flow whose rate is the line
//! rate again ends.
//!
//! Bytes are granted every [`PERIOD_US`] microseconds: a flow may send while what it was granted is not used up, and goes into debt with its
//! last packets. It may save what it does not use, but no more than four periods grant: it takes a while until WQEs that were held
//! back have been fetched again. The gate closes with the packet that uses the last byte up, 2
//! cycles after it is sent: no more WQEs are fetched. Those that are under way may go on until the debt is [`DEBT`] bytes, so that small
//! messages need not be fetched twice; then all stops.
//!
//! Requests and READ responses of a QP are one flow. A packet costs its payload and [`HEADERS`].
//!
//! Rates are in 1/16 Mb/s, so that rate times microseconds is bytes times 128: a grant is a sum. A visit takes 5 cycles, 6 with a rise and 8
//! with two, a CNP 6. Each flow is visited in each period: there are as many flows as 7 cycles a flow allow ([`flows`]), so that CNPs
//! have their time too; where visits are late, they make up.
//!
//! `sent` is a pulse; `cnps` and `resets` wait for some cycles. A row waits to be written until its `wake` has room. `gate` is a broadcast as those of the QP context. Behind a gate that opens comes a `wake`, always. A QP that goes to RESET ends its flow. Reset ends
//! all: it takes as many cycles as there are QPs, in which every copy of the gate is told so.
//!
//! Bad input: a line rate below the least rate, or steps of zero, make no sense and no harm: a flow then ends at once.

use super::{CongestionControl, Gate};
use crate::config::RnicConfig;
use crate::stream::{fifo, gather, half, Flagged, Forget};
use crate::types::TableWrite;
use ferrowire_rtl::{
    bits, cat, clog2, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style,
};

/// Time between two grants.
pub const PERIOD_US: u32 = 2;

/// Periods whose grants a flow may save, as a power of two: 8 us cover the way to the host.
const SAVED: u32 = 2;

/// Bytes of debt with which a QP may still send what has been fetched.
pub const DEBT: u32 = 4096;

/// What is charged for a packet beside its payload: a frame's headers and CRC, and what stands between frames.
pub const HEADERS: u32 = 64;

/// Cycles that a flow may take of each period.
const SHARE: u32 = 7;

/// Bits of a rate, of alpha as a fraction of 2^16, and of a number of granted bytes times 128.
const RATE: u32 = 24;
const ALPHA: u32 = 17;
const GRANT: u32 = 36;

/// Cycles in a period.
fn period(cfg: &RnicConfig) -> u32 {
    (cfg.clock_khz * PERIOD_US / 1000).max(4 * SHARE)
}

/// How many QPs can be held back at once.
pub fn flows(cfg: &RnicConfig) -> u32 {
    let most = (period(cfg) / SHARE).min(cfg.qps);
    1 << (31 - most.leading_zeros())
}

/// A packet with data that leaves.
#[derive(Clone, Bundle)]
pub struct Sent {
    /// In this cycle.
    pub valid: Sig,
    /// Whose.
    pub qp: Sig,
    /// Bytes of its payload.
    pub bytes: Sig,
}

impl Sent {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Sent { valid: bits(1), qp: bits(cfg.qp_bits()), bytes: bits(13) }
    }
}

/// A READ response that is to leave.
#[derive(Clone, Bundle)]
pub struct Charge {
    /// Whose.
    pub qp: Sig,
    /// Bytes of its payload.
    pub bytes: Sig,
}

impl Charge {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Charge { qp: bits(cfg.qp_bits()), bytes: bits(13) }
    }
}

/// What comes of it.
#[derive(Interface)]
pub struct Reaction {
    /// Who must wait: for everybody's copies.
    pub gate: TableWrite<Gate>,
    /// QPs that need not wait any more.
    pub wake: Stream<Sig>,
    /// A CNP was obeyed in this cycle.
    pub handled: Sig,
    /// A CNP was ignored in this cycle: no flow was free, or there is no line rate.
    pub ignored: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Idle,
    /// The flow of a QP is found.
    Find,
    /// Its row is here, and what was sent is charged.
    Charge,
    /// Bytes are granted, and time goes on.
    Grant,
    /// It has no more than it may save, and what is due is known.
    Limit,
    /// What it may send is compared with what it has sent.
    Weigh,
    /// The target rises.
    Raise,
    /// The rate follows.
    Follow,
    /// What a CNP takes off.
    Multiply,
    /// And cuts the rate by.
    Cut,
    /// The row is written, and the gate.
    Write,
}

/// A flow.
#[derive(Clone, Bundle)]
struct Flow {
    rate: Sig,
    target: Sig,
    alpha: Sig,
    /// Bytes granted and not used, times 128; less than zero is debt.
    granted: Sig,
    /// Bytes sent since the last rise by them.
    bytes: Sig,
    /// Rises by time and by bytes since the last CNP.
    by_time: Sig,
    by_bytes: Sig,
    /// Microseconds since alpha decayed and since the rate rose.
    alpha_us: Sig,
    rate_us: Sig,
}

impl Flow {
    fn of() -> Self {
        Flow {
            rate: bits(RATE),
            target: bits(RATE),
            alpha: bits(ALPHA),
            granted: bits(GRANT),
            bytes: bits(33),
            by_time: bits(5),
            by_bytes: bits(5),
            alpha_us: bits(17),
            rate_us: bits(17),
        }
    }
}

/// Which flow a QP is.
#[derive(Clone, Bundle)]
struct Held {
    valid: Sig,
    flow: Sig,
}

/// Which QP a flow is.
#[derive(Clone, Bundle)]
struct Owner {
    valid: Sig,
    qp: Sig,
}

/// A rate in Mb/s, in units of 1/16.
fn rate_of(mbps: Sig) -> Sig {
    cat([&lit(4, 0), &mbps]).zext(RATE)
}

/// Holds back who was told to.
#[module]
pub fn react(
    m: &Scope,
    cfg: &RnicConfig,
    control: CongestionControl,
    sent: Sent,
    cnps: Stream<Sig>,
    resets: Stream<Sig>,
) -> Reaction {
    m.discard(&control.interval_us);
    let (qp_bits, count) = (cfg.qp_bits(), flows(cfg));
    let at_bits = clog2(u64::from(count)).max(1);
    let state = m.fsm("state", State::Idle);
    let go = |m: &Scope, to: State| m.set(&state, to);
    let line = m.delay("line", &rate_of(control.line_mbps));
    let least = m.delay("least", &rate_of(control.least_mbps));

    // Who is a flow. After reset nobody is.
    let held_shape = Held { valid: bits(1), flow: bits(at_bits) };
    let owner_shape = Owner { valid: bits(1), qp: bits(qp_bits) };
    let held = m.mem("held", cfg.qps, &held_shape).build();
    let owners = m.mem("owners", count, &owner_shape).style(Style::Distributed).build();
    let clearing = m.reg("clearing", 1).reset(1);
    let row = m.reg("row", qp_bits).reset(0);
    m.when(clearing, |m| m.set(&row, row + 1));
    m.when(row.all(), |m| m.set(&clearing, 0));

    // What is done, and for whom.
    let qp = m.reg("qp", qp_bits).no_reset();
    let at = m.reg("at", at_bits).no_reset();
    let of_cnp = m.reg("of_cnp", 1).no_reset();
    let of_reset = m.reg("of_reset", 1).no_reset();
    let begins = m.reg("begins", 1).no_reset();
    let flow = m.reg_of("flow", &Flow::of());

    // Periods.
    let passed = m.reg("passed", 16).reset(0);
    let over = passed.eq(period(cfg) - 1);
    m.set(&passed, over.then(lit(16, 0), passed + 1));
    let late = m.reg("late", 2).reset(0);
    let sweeps = m.reg("sweeps", 1).reset(0);
    let turn = m.reg("turn", at_bits).reset(0);
    let idle = state.is(State::Idle) & !clearing;
    let starts = idle & !sweeps & late.any();
    m.when(over & !starts & !late.all(), |m| m.set(&late, late + 1))
        .otherwise_when(starts & !over, |m| m.set(&late, late - 1));

    // Visits come first, then resets, then CNPs. A visit begins in the cycle that writes the row of the visit before it.
    let write = m.wire("write", 1);
    let never = Forget::nothing(cfg.qps);
    let cnps = cnps.map(|qp| Flagged { row: *qp, flags: lit(1, 1) });
    let cnps = gather(&m.label("cnps"), cfg.qps, cnps, never).map(|cnp| cnp.row);
    let free = idle & !sweeps & !late.any();
    resets.accept(free);
    cnps.accept(free & !resets.valid);
    m.when(write, |m| go(m, State::Idle));
    m.when(starts, |m| m.set(&sweeps, 1));
    let owner = owners.read_now(turn);
    let visits = ((idle | write) & sweeps).named("visits");
    m.when(visits, |m| {
        m.set(&turn, turn + 1);
        m.set(&at, turn);
        m.set(&qp, owner.qp);
        m.set(&of_cnp, 0);
        m.set(&of_reset, 0);
        m.set(&begins, 0);
        m.when(turn.all(), |m| m.set(&sweeps, 0));
        m.when(owner.valid, |m| go(m, State::Charge));
    });
    m.when(resets.fire() | cnps.fire(), |m| {
        m.set(&qp, resets.valid.then(resets.payload, cnps.payload));
        m.set(&of_cnp, !resets.valid);
        m.set(&of_reset, resets.valid);
        go(m, State::Find);
    });
    let looked = resets.valid.then(resets.payload, cnps.payload);

    // The row of a QP; a new one takes a flow that is free.
    let changes_holder = m.wire("changes_holder", 1);
    let held_after = m.wire_of("held_after", &held_shape);
    let holder = m.mux(clearing, &held_shape.zeros(), &held_after);
    held.write(clearing | changes_holder, clearing.then(row, qp), &holder);
    let known = held.read(m, resets.fire() | cnps.fire(), looked, Collision::New);
    let (unused, back) = m.later("unused", &bits(at_bits));
    let unused = fifo(&m.label("unused"), count.max(2), unused);
    let find = state.is(State::Find);
    let lacks = !known.valid & (of_reset | !unused.valid | line.eq(0));
    let found = known.valid.then(known.flow, unused.payload);
    m.when(find, |m| {
        m.set(&at, found);
        m.set(&begins, !known.valid);
        go(m, State::Charge);
        m.when(of_reset, |m| go(m, State::Write));
        m.when(lacks, |m| go(m, State::Idle));
    });
    let ignored = find & of_cnp & lacks;
    let handled = find & of_cnp & !lacks;

    // What was sent. The flow of a QP is known a cycle after.
    let (arrives, bytes) = (m.reg("arrives", 1).reset(0), m.delay("bytes", &(sent.bytes + HEADERS)));
    m.set(&arrives, sent.valid);
    let sender = m.delay("sender", &sent.qp);
    let of_sender = held.read(m, sent.valid, sent.qp, Collision::New);
    let unpaid = m.mem("unpaid", count, &bits(RATE)).style(Style::Distributed).build();
    let limits = m.mem("limits", count, &bits(GRANT)).style(Style::Distributed).build();
    // The flow may have ended or begun anew meanwhile.
    let claimed = owners.read_now(of_sender.flow);
    let his = claimed.valid & claimed.qp.eq(sender);
    let charges = (arrives & of_sender.valid & his).named("charges");
    let spent = unpaid.read_now(of_sender.flow) + bytes.zext(RATE);
    let cost = |bytes: Sig| cat([&lit(7, 0), &bytes]).zext(GRANT);
    // Compared a cycle later, in which no row is written. A shut flow's grant is not above zero.
    let was_charged = m.reg("was_charged", 1).reset(0);
    m.set(&was_charged, charges);
    let (charged_flow, charged_qp) =
        (m.delay("charged_flow", &of_sender.flow), m.delay("charged_qp", &sender));
    let (debt, limit) = (m.delay("debt", &spent), m.delay("limit", &limits.read_now(of_sender.flow)));
    let most_debt = cost(lit(RATE, DEBT));
    let left_over = (limit - cost(debt)).named("left_over");
    let is_gated = m.mem("gated", count, &Gate::of()).style(Style::Distributed).build();
    let charged_gate = is_gated.read_now(charged_flow);
    let goes_over = was_charged & !charged_gate.stop & left_over.msb();
    let uses_up = was_charged & !charged_gate.shut & (left_over.msb() | left_over.le(most_debt));

    // Steps, in a cycle in which nothing is charged or compared where they meet what is sent.
    let quiet = !arrives & !was_charged;
    let style = if count < 32 { Style::Distributed } else { Style::Block };
    let rows = m.mem("flows", count, &Flow::of()).style(style).build();
    rows.write(write, at, &flow);
    let stored = rows.read(m, find | visits, find.then(found, turn), Collision::Never);
    let fresh = Flow { rate: line, target: line, alpha: lit(ALPHA, 1 << 16), ..Flow::of().zeros() };
    let charge = (state.is(State::Charge) & quiet).named("charge");
    let owes = unpaid.read_now(at);
    let used_up = begins.then(lit(RATE, 0), owes);
    m.when(charge, |m| {
        let stored = m.mux(begins, &fresh, &stored);
        m.set_all(&flow, &stored);
        m.set(&flow.granted, stored.granted - cost(used_up));
        m.set(&flow.bytes, stored.bytes + used_up.zext(33));
        go(m, State::Grant);
        m.when(of_cnp, |m| go(m, State::Multiply));
    });
    unpaid.write(charges | charge, charges.then(of_sender.flow, at), &charges.then(spent, lit(RATE, 0)));

    // A visit: all that time adds, then all that is taken off where it is more than its limit.
    let timed = m.reg("timed", 1).no_reset();
    let counted = m.reg("counted", 1).no_reset();
    let credit = (flow.rate.zext(GRANT)) << PERIOD_US.trailing_zeros();
    m.when(state.is(State::Grant), |m| {
        m.set(&flow.granted, flow.granted + credit);
        m.set(&flow.alpha_us, flow.alpha_us + PERIOD_US);
        m.set(&flow.rate_us, flow.rate_us + PERIOD_US);
        go(m, State::Limit);
    });
    // What alpha loses in a visit, or gains by a CNP: it stands still in the cycle before.
    let lacks_of_one = lit(ALPHA, 1 << 16) - flow.alpha;
    let part = m.delay("part", &m.mux(of_cnp, &lacks_of_one, &flow.alpha).shr_by(control.gain));
    // Below zero: less than the limit.
    let less = |n: Sig, limit: Sig| n.zext(n.width() + 1) - limit.zext(n.width() + 1);
    let most = credit << SAVED;
    let above = !flow.granted.msb() & flow.granted.ge(most);
    let (decay, rise) = (less(flow.alpha_us, control.alpha_us), less(flow.rate_us, control.rate_us));
    let more_bytes = less(flow.bytes, control.bytes);
    let (decays, rises) = (!decay.msb(), !rise.msb());
    let enough = !more_bytes.msb() & control.bytes.any();
    m.when(state.is(State::Limit), |m| {
        m.when(above, |m| m.set(&flow.granted, most));
        m.when(decays, |m| {
            m.set(&flow.alpha_us, decay.trunc(17));
            m.set(&flow.alpha, flow.alpha - part);
        });
        m.when(rises, |m| m.set(&flow.rate_us, rise.trunc(17)));
        m.when(enough, |m| m.set(&flow.bytes, more_bytes.trunc(33)));
        m.set(&timed, rises);
        m.set(&counted, enough);
        go(m, State::Weigh);
        m.when(rises | enough, |m| go(m, State::Raise));
    });
    m.when(state.is(State::Weigh), |m| go(m, State::Write));

    // The rise by time comes first. A count stops at its largest value. Both comparisons with the number of first steps, of the count
    // and of the count plus one, are made a cycle earlier.
    let more = |n: Sig, by: Sig| n + (by & !n.all()).zext(5);
    let steps = control.steps.zext(5);
    let behind = |name: &str, n: Sig, now: Sig| {
        m.mux(now, &m.delay(&format!("next_{name}"), &n.ge(steps)), &m.delay(name, &n.gt(steps)))
    };
    let behind_time = behind("behind_time", flow.by_time, timed);
    let behind_bytes = behind("behind_bytes", flow.by_bytes, !timed);
    let additive = rate_of(control.additive_mbps) & (behind_time | behind_bytes).repeat(RATE);
    let step = (behind_time & behind_bytes).then(rate_of(control.hyper_mbps), additive);
    // The target stands still in the cycle before: what it lacks of the line rate is known when the step is.
    let room = m.delay("room", &(line.zext(RATE + 1) - flow.target.zext(RATE + 1)));
    let too_far = room.msb() | step.zext(RATE + 1).gt(room);
    m.when(state.is(State::Raise), |m| {
        m.set(&flow.by_time, more(flow.by_time, timed));
        m.set(&flow.by_bytes, more(flow.by_bytes, !timed));
        m.set(&flow.target, too_far.then(line, flow.target + step));
        go(m, State::Follow);
    });
    let middle = flow.rate.zext(RATE + 1) + flow.target.zext(RATE + 1) + 1;
    m.when(state.is(State::Follow), |m| {
        m.set(&flow.rate, middle.slice(1, RATE));
        m.set(&timed, 0);
        m.set(&counted, counted & timed);
        go(m, State::Write);
        m.when(counted & timed, |m| go(m, State::Raise));
    });

    // A CNP.
    let product = m.delay("product", &(flow.rate * flow.alpha));
    let reduced = flow.rate - product.slice(17, RATE);
    m.when(state.is(State::Multiply), |m| go(m, State::Cut));
    m.when(state.is(State::Cut), |m| {
        m.set(&flow.target, flow.rate);
        m.set(&flow.rate, reduced.lt(least).then(least, reduced));
        m.set(&flow.alpha, flow.alpha + part);
        for zero in [&flow.bytes, &flow.by_time, &flow.by_bytes, &flow.alpha_us, &flow.rate_us] {
            m.set(zero, lit(zero.width(), 0));
        }
        go(m, State::Write);
    });

    // The row is written; what was sent since it was charged counts, and was weighed in the cycle before.
    let wake_room = m.wire("wake_room", 1);
    m.drive(&write, state.is(State::Write) & quiet & wake_room);
    let ends = of_reset | flow.rate.ge(line);
    limits.write(write, at, &(flow.granted + most_debt));
    let owned = Owner { valid: !clearing & !ends, qp };
    owners.write(clearing | (write & (begins | ends)), clearing.then(row.trunc(at_bits), at), &owned);
    let left = m.delay("left", &(!flow.granted.msb() & flow.granted.gt(cost(owes))));
    let shuts = !ends & !left;
    let gated = is_gated.read_now(at);
    let was_shut = gated.shut & !begins;
    m.drive(&changes_holder, write & (begins | ends));
    m.set_all(&held_after, &Held { valid: !ends, flow: at });
    // After reset each flow comes back once.
    unused.accept(write & begins & !ends);
    let first = if count == cfg.qps { clearing } else { clearing & row.lt(count) };
    let comes_back =
        Stream::new(m, "comes_back", first | (write & ends & !begins), clearing.then(row.trunc(at_bits), at));
    m.assert(!comes_back.valid | comes_back.ready, "every flow has a place");
    back.connect(comes_back);

    let charged = uses_up | goes_over;
    let stays = Gate { shut: shuts, stop: shuts & gated.stop & !begins };
    let after = Gate { shut: lit(1, 1), stop: charged_gate.stop | goes_over };
    is_gated.write(charged | write, charged.then(charged_flow, at), &m.mux(charged, &after, &stays));

    // A wake leaves after its gate has opened. The row is written only when there is room for the wake.
    let opens = m.reg("opens", 1).reset(0);
    m.set(&opens, write & was_shut & !shuts);
    let woken = Stream::new(m, "woken", opens, m.delay("woken_qp", &qp));
    m.drive(&wake_room, woken.ready);
    let wake = half(&m.label("wake"), fifo(&m.label("woken"), 4, woken));
    let changes = charged | (write & was_shut.ne(shuts));
    let gate = TableWrite {
        enable: changes | clearing,
        index: clearing.then(row, charged.then(charged_qp, qp)),
        entry: Gate { shut: !clearing & (charged | shuts), stop: !clearing & goes_over },
    };
    Reaction { gate: m.delay("gate", &gate), wake, handled, ignored }
}

#[cfg(test)]
mod tests;
