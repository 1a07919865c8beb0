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
//! Rates are in 1/16 Mb/s, so that rate times microseconds is bytes times 128: a grant is a sum. A visit takes 5 cycles, 2 more for each
//! rise, a CNP 6. Each flow is visited in each period: there are as many flows as 7 cycles a flow allow ([`flows`]), so that CNPs
//! have their time too; where visits are late, they make up.
//!
//! `sent` is a pulse; `cnps` and `resets` wait for some cycles, never for others. `gate` is a broadcast as those of the QP context. Behind a gate that opens comes a `wake`, always. A QP that goes to RESET ends its flow. Reset ends
//! all: it takes as many cycles as there are QPs, in which every copy of the gate is told so.
//!
//! Bad input: a line rate below the least rate, or steps of zero, make no sense and no harm: a flow then ends at once.

use super::{CongestionControl, Gate};
use crate::config::RnicConfig;
use crate::stream::{gather, Flagged, Forget};
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
    /// Its row is read.
    Read,
    /// What was sent is charged.
    Charge,
    /// Bytes are granted, and time goes on.
    Grant,
    /// The target rises.
    Raise,
    /// The rate follows.
    Follow,
    /// A CNP cuts the rate.
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
    let nobody = Held { valid: lit(1, 0), flow: lit(at_bits, 0) };
    let held = m.mem("held", cfg.qps, &held_shape).build();
    let owners = m.mem("owners", count, &bits(qp_bits)).style(Style::Distributed).build();
    let used = m.reg("used", count).reset(0);
    let shut = m.reg("shut", count).reset(0);
    let stopped = m.reg("stopped", count).reset(0);
    let clearing = m.reg("clearing", 1).reset(1);
    let row = m.reg("row", qp_bits).reset(0);
    m.when(clearing, |m| m.set(&row, row + 1));
    m.when(row.all(), |m| m.set(&clearing, 0));
    let bit_of = |flow: Sig| lit(count, 1).shl_by(flow);
    let is_in = |set: Sig, flow: Sig| (set & bit_of(flow)).any();

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

    // Who comes next: visits, then resets, then CNPs.
    let never = Forget::nothing(cfg.qps);
    let cnps = cnps.map(|qp| Flagged { row: *qp, flags: lit(1, 1) });
    let cnps = gather(&m.label("cnps"), cfg.qps, cnps, never.clone()).map(|cnp| cnp.row);
    let free = idle & !sweeps & !late.any();
    resets.accept(free);
    cnps.accept(free & !resets.valid);
    m.when(starts, |m| m.set(&sweeps, 1));
    m.when(idle & sweeps, |m| {
        m.set(&turn, turn + 1);
        m.set(&at, turn);
        m.set(&qp, owners.read_now(turn));
        m.set(&of_cnp, 0);
        m.set(&of_reset, 0);
        m.set(&begins, 0);
        m.when(turn.all(), |m| m.set(&sweeps, 0));
        m.when(is_in(used, turn), |m| go(m, State::Read));
    });
    m.when(resets.fire() | cnps.fire(), |m| {
        m.set(&qp, resets.valid.then(resets.payload, cnps.payload));
        m.set(&of_cnp, !resets.valid);
        m.set(&of_reset, resets.valid);
        go(m, State::Find);
    });
    let looked = resets.valid.then(resets.payload, cnps.payload);

    // The row of a QP; a new one takes the lowest flow that is free.
    let writes = m.wire("writes", 1);
    let held_after = m.wire_of("held_after", &held_shape);
    held.write(clearing | writes, clearing.then(row, qp), &m.mux(clearing, &nobody, &held_after));
    let known = held.read(m, resets.fire() | cnps.fire(), looked, Collision::New);
    let first = !used & (used + 1);
    let number: Vec<Sig> = (0..at_bits)
        .map(|bit| {
            let hits: Vec<Sig> = (0..count).filter(|i| i >> bit & 1 == 1).map(|i| first.bit(i)).collect();
            if hits.is_empty() {
                lit(1, 0)
            } else {
                cat(&hits).any()
            }
        })
        .collect();
    let (full, lowest) = (m.delay("full", &used.all()), m.delay("lowest", &cat(&number)));
    let find = state.is(State::Find);
    let lacks = !known.valid & (of_reset | full | line.eq(0));
    m.when(find, |m| {
        m.set(&at, known.valid.then(known.flow, lowest));
        m.set(&begins, !known.valid);
        go(m, State::Read);
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
    let grants = m.mem("grants", count, &bits(GRANT)).style(Style::Distributed).build();
    // The flow may have ended or begun anew meanwhile.
    let his = is_in(used, of_sender.flow) & owners.read_now(of_sender.flow).eq(sender);
    let charges = (arrives & of_sender.valid & his).named("charges");
    let spent = unpaid.read_now(of_sender.flow) + bytes.zext(RATE);
    let cost = |bytes: Sig| cat([&lit(7, 0), &bytes]).zext(GRANT);
    // Compared a cycle later, in which no row is written. A shut flow's grant is not above zero.
    let was_charged = m.reg("was_charged", 1).reset(0);
    m.set(&was_charged, charges);
    let (charged_flow, charged_qp) =
        (m.delay("charged_flow", &of_sender.flow), m.delay("charged_qp", &sender));
    let (debt, grant) = (m.delay("debt", &spent), m.delay("grant", &grants.read_now(of_sender.flow)));
    let left_over = grant + cost(lit(RATE, DEBT)) - cost(debt);
    let goes_over = was_charged & !is_in(stopped, charged_flow) & left_over.msb();
    let uses_up = was_charged & !is_in(shut, charged_flow) & cost(debt).ge(grant);

    // Steps, in a cycle in which nothing is charged or compared where they meet what is sent.
    let quiet = !arrives & !was_charged;
    let stored = m.mem("flows", count, &Flow::of()).style(Style::Distributed).build();
    let fresh = Flow { rate: line, target: line, alpha: lit(ALPHA, 1 << 16), ..Flow::of().zeros() };
    m.when(state.is(State::Read), |m| {
        m.set_all(&flow, &m.mux(begins, &fresh, &stored.read_now(at)));
        go(m, State::Charge);
        m.when(of_reset, |m| go(m, State::Write));
    });
    let charge = (state.is(State::Charge) & quiet).named("charge");
    let used_up = begins.then(lit(RATE, 0), unpaid.read_now(at));
    m.when(charge, |m| {
        m.set(&flow.granted, flow.granted - cost(used_up));
        m.set(&flow.bytes, flow.bytes + used_up.zext(33));
        go(m, State::Grant);
        m.when(of_cnp, |m| go(m, State::Cut));
    });
    unpaid.write(charges | charge, charges.then(of_sender.flow, at), &charges.then(spent, lit(RATE, 0)));

    // A visit.
    let one = 1u32 << 16;
    let timed = m.reg("timed", 1).no_reset();
    let counted = m.reg("counted", 1).no_reset();
    let credit = (flow.rate.zext(GRANT)) << PERIOD_US.trailing_zeros();
    let sum = flow.granted + credit;
    let most = credit << SAVED;
    let above = !sum.msb() & sum.ge(most);
    let (alpha_us, rate_us) = (flow.alpha_us + PERIOD_US, flow.rate_us + PERIOD_US);
    let decays = alpha_us.ge(control.alpha_us.zext(17));
    let rises = rate_us.ge(control.rate_us.zext(17));
    let enough = flow.bytes.ge(control.bytes.zext(33)) & control.bytes.any();
    m.when(state.is(State::Grant), |m| {
        m.set(&flow.granted, above.then(most, sum));
        m.set(&flow.alpha_us, decays.then(alpha_us - control.alpha_us.zext(17), alpha_us));
        m.when(decays, |m| m.set(&flow.alpha, flow.alpha - flow.alpha.shr_by(control.gain)));
        m.set(&flow.rate_us, rises.then(rate_us - control.rate_us.zext(17), rate_us));
        m.when(enough, |m| m.set(&flow.bytes, flow.bytes - control.bytes.zext(33)));
        m.set(&timed, rises);
        m.set(&counted, enough);
        go(m, State::Write);
        m.when(rises | enough, |m| go(m, State::Raise));
    });
    // By time first; a count stays at its end.
    let more = |n: Sig, by: Sig| n + (by & !n.all()).zext(5);
    let (by_time, by_bytes) = (more(flow.by_time, timed), more(flow.by_bytes, !timed));
    let behind = |n: Sig| n.gt(control.steps.zext(5));
    let step_of = |by_time: Sig, by_bytes: Sig| {
        let (one_kind, both) = (behind(by_time) | behind(by_bytes), behind(by_time) & behind(by_bytes));
        let additive = rate_of(control.additive_mbps) & one_kind.repeat(RATE);
        both.then(rate_of(control.hyper_mbps), additive)
    };
    let step = if cfg.unhurried() {
        // What either kind would give is known a cycle before it is known which it is.
        let by_time = m.delay("step_by_time", &step_of(more(flow.by_time, lit(1, 1)), flow.by_bytes));
        let by_bytes = m.delay("step_by_bytes", &step_of(flow.by_time, more(flow.by_bytes, lit(1, 1))));
        m.mux(timed, &by_time, &by_bytes)
    } else {
        step_of(by_time, by_bytes)
    };
    // The target stands still in the cycle before: what it lacks of the line rate is known when the step is.
    let room = m.delay("room", &(line.zext(RATE + 1) - flow.target.zext(RATE + 1)));
    let too_far = room.msb() | step.zext(RATE + 1).gt(room);
    m.when(state.is(State::Raise), |m| {
        m.set(&flow.by_time, by_time);
        m.set(&flow.by_bytes, by_bytes);
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

    // A CNP. The row does not change while it is charged.
    let product = m.delay("product", &(flow.rate * flow.alpha));
    let reduced = flow.rate - product.slice(17, RATE);
    m.when(state.is(State::Cut), |m| {
        m.set(&flow.target, flow.rate);
        m.set(&flow.rate, reduced.lt(least).then(least, reduced));
        m.set(&flow.alpha, flow.alpha + (lit(ALPHA, one) - flow.alpha).shr_by(control.gain));
        for zero in [&flow.bytes, &flow.by_time, &flow.by_bytes, &flow.alpha_us, &flow.rate_us] {
            m.set(zero, lit(zero.width(), 0));
        }
        go(m, State::Write);
    });

    // The row is written; what was sent since it was charged counts.
    let write = (state.is(State::Write) & quiet).named("write");
    let ends = of_reset | flow.rate.ge(line);
    stored.write(write, at, &flow);
    grants.write(write, at, &flow.granted);
    owners.write(write & begins, at, &qp);
    let left = !flow.granted.msb() & flow.granted.gt(cost(unpaid.read_now(at)));
    let shuts = !ends & !left;
    let was_shut = is_in(shut, at) & !begins;
    m.drive(&writes, write & (begins | ends));
    m.drive(&held_after, &Held { valid: !ends, flow: at });
    let here = |when: Sig, at: Sig| when.then(bit_of(at), lit(count, 0));
    m.set(&used, (used | here(write & begins, at)) & !here(write & ends, at));
    let stays_shut = write & shuts & !begins;
    m.set(&stopped, (stopped & !here(write & !stays_shut, at)) | here(goes_over, charged_flow));
    m.set(&shut, (shut & !here(write, at)) | here(write & shuts, at) | here(uses_up, charged_flow));
    m.when(write, |m| go(m, State::Idle));

    let opens = write & was_shut & !shuts;
    let woken = Stream::new(
        m,
        "woken",
        m.delay("woken", &opens),
        Flagged { row: m.delay("woken_qp", &qp), flags: lit(1, 1) },
    );
    m.assert(!woken.valid | woken.ready, "who gathers waits for nobody");
    let wake = gather(&m.label("wake"), cfg.qps, woken, never).map(|qp| qp.row);
    let charged = uses_up | goes_over;
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
