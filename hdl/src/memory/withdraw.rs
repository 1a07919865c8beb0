// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who has taken a window back that may still be in use.
//!
//! ```text
//!  taken back --> count, mark --> line of the QPs --> a round of drain --> mark gone --> looks: track
//!                      |                                                       |
//!                      +-------------------------------------------------------+----> withdrawals
//! ```
//!
//! `LOCAL_INV`, a bind of nothing and a bind of a window of type 1 are done in the key table at once, and what was looked up before goes on (IBTA volume 1, 10.6.7.2.5:
//! it must not when they are complete). Their QP stands in line here, at most once, until a round of `drain` that began behind them has
//! ended; then `track` looks whether its oldest message is one of them. `withdrawals` tells of each QP how many it has done, and whether
//! one of them is not over: as long as one is not, `track` completes none, and `segment` begins nothing behind them but others
//! of the kind.
//!
//! What is in line when a round begins shares it. A QP that does another one while it is in line stays there for the next round. So
//! nobody waits to enter, and the line has a place for each QP. What is left of a former life of the QP only makes it wait a little.
//!
//! An event takes 2 cycles: one that comes is taken within 4. Reset: nobody is in line, all numbers are 0; the table is cleared, one
//! QP a cycle.

use crate::config::RnicConfig;
use crate::stream::{deep_fifo, fifo};
use crate::types::{OfQp, TableWrite};
use ferrowire_rtl::{bits, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};

/// Bits of a number of withdrawals: fewer are on their way to the key table.
pub const WITHDRAWN_BITS: u32 = 5;

/// What a QP has taken back.
#[derive(Clone, Bundle)]
pub struct Withdrawals {
    /// So often, modulo 32.
    pub count: Sig,
    /// What was looked up before one of these may not be over.
    pub open: Sig,
}

impl Withdrawals {
    /// The shape.
    pub fn of() -> Self {
        Withdrawals { count: bits(WITHDRAWN_BITS), open: bits(1) }
    }

    /// The broadcast of that.
    pub fn write_of(cfg: &RnicConfig) -> TableWrite<Self> {
        TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: Withdrawals::of() }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Withdrawn {
    /// For those who wait.
    pub withdrawals: TableWrite<Withdrawals>,
    /// QPs of which nothing is open any more, behind what `withdrawals` tells of it.
    pub looks: Stream<Sig>,
    /// A round of `drain` is asked for.
    pub asks: Sig,
}

#[derive(Clone, Bundle)]
struct Row {
    count: Sig,
    /// It is in line.
    waits: Sig,
    /// And has done another one since it came there.
    again: Sig,
}

#[derive(Clone, Bundle)]
struct Place {
    qp: Sig,
    /// Which of two rounds it has.
    round: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Row,
}

/// The line. `taken`: at most one in 8 cycles; `drained`: the round that was asked for has ended.
#[module]
pub fn withdraw(m: &Scope, cfg: &RnicConfig, taken: OfQp, drained: Sig) -> Withdrawn {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Sweep);
    let (sweeping, idle, at_row) = (state.is(State::Sweep), state.is(State::Idle), state.is(State::Row));
    let (line, back) = m.later("line", &Place { qp: bits(qp_bits), round: bits(1) });

    // Rounds: what comes into the line has the next one.
    let round = m.reg("round", 1).reset(0);
    let draining = m.reg("draining", 1).reset(0);
    let asks = line.valid & line.round.eq(round) & !draining;
    m.when(asks, |m| {
        m.set(&draining, 1);
        m.set(&round, !round);
    })
    .otherwise_when(drained, |m| m.set(&draining, 0));

    // One that comes, or the first in line whose round has ended.
    let come = m.reg("come", 1).reset(0);
    let come_qp = m.reg("come_qp", qp_bits).no_reset();
    let look_room = m.wire("look_room", 1);
    let comes = idle & come;
    let goes = idle & !come & line.valid & line.round.ne(round) & !draining & look_room;
    m.assert(!taken.valid | !come | comes, "there is time between two operations");
    m.when(taken.valid, |m| {
        m.set(&come, 1);
        m.set(&come_qp, taken.qp);
    })
    .otherwise_when(comes, |m| m.set(&come, 0));
    line.accept(goes);
    let qp = m.reg("qp", qp_bits).reset(0);
    let by_line = m.reg("by_line", 1).no_reset();
    let chosen = m.mux(come, &come_qp, &line.qp);
    m.when(comes | goes, |m| {
        m.set(&qp, chosen);
        m.set(&by_line, goes);
        m.set(&state, State::Row);
    });
    m.when(at_row, |m| m.set(&state, State::Idle));
    m.when(sweeping, |m| {
        m.set(&qp, qp + 1);
        m.when(qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    });

    let shape = Row { count: bits(WITHDRAWN_BITS), waits: bits(1), again: bits(1) };
    let rows = m.mem("rows", cfg.qps, &shape).style(Style::Block).build();
    let becomes = m.wire_of("becomes", &shape);
    rows.write(at_row | sweeping, qp, &becomes);
    let row = rows.read(m, comes | goes, chosen, Collision::Never);
    let next = Row {
        count: row.count + (!by_line).zext(WITHDRAWN_BITS),
        waits: !by_line | row.again,
        again: !by_line & row.waits,
    };
    let next = m.mux(sweeping, &shape.zeros(), &next);
    m.set_all(&becomes, &next);
    let enters = m.mux(by_line, &row.again, &!row.waits);
    let entering = Stream::new(m, "entering", at_row & enters, Place { qp, round });
    m.assert(!entering.valid | entering.ready, "each QP has a place");
    back.connect(deep_fifo(&m.label("line"), cfg.qps, entering));

    let entry = Withdrawals { count: next.count, open: next.waits };
    let withdrawals = TableWrite { enable: at_row | sweeping, index: qp, entry };
    let withdrawals = m.delay("withdrawals", &withdrawals);
    let look = Stream::new(m, "look", at_row & by_line & !row.again, qp);
    m.drive(&look_room, look.ready);
    m.assert(!look.valid | look.ready, "there was room when it was begun");
    // Behind what is told of it.
    let looks = fifo(&m.label("looks"), 2, look);
    // As much later as `drain` sees what enters and leaves.
    let asks = m.delay("asks", &asks);
    Withdrawn { withdrawals, looks, asks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{drain, Done, Passage};
    use crate::testing::Random;
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    const QPS: usize = 8;

    fn sim() -> Sim {
        let cfg = RnicConfig { qps: QPS as u32, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("top", |m| {
            let taken = m.input_of("taken", &OfQp::of(&cfg));
            let out = withdraw(m, &cfg, taken, m.input("drained", 1));
            m.output("told", &out.withdrawals);
            m.stream_out("look", out.looks);
            m.output("asks", &out.asks);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        sim
    }

    #[derive(Clone, Default)]
    struct Qp {
        count: u64,
        /// When it has done them: those that are not told to be over.
        open: Vec<u64>,
        told: (u64, bool),
        /// It is to be looked at.
        owes: bool,
    }

    /// A QP is open from its first operation until a round that began behind its last one has ended; then it is looked at, and no
    /// later than two rounds behind that.
    #[test]
    fn a_queue_pair_is_open_until_a_round_behind_its_last_operation_has_ended() {
        for seed in 1..=4 {
            let mut random = Random::new(seed);
            let mut sim = sim();
            for _ in 0..QPS + 4 {
                sim.tick();
            }
            let mut qps = vec![Qp::default(); QPS];
            let (mut next, mut round, mut ended) = (0, None, 0);
            let (mut looks, mut rounds, mut merged) = (0, 0, 0);
            for cycle in 0..40_000u64 {
                let busy = cycle / 4_000 % 2 == 0;
                let take = cycle >= next && random.chance(if busy { 0.5 } else { 0.01 });
                let qp = random.rng.random_range(0..QPS);
                sim.set("taken_valid", take.into());
                sim.set("taken_qp", qp as u64);
                let ready = random.chance(0.5);
                sim.set("look_ready", ready.into());
                let drained = round.is_some_and(|(_, until)| cycle >= until);
                sim.set("drained", drained.into());
                if sim.get("asks") == 1 {
                    assert!(round.is_none(), "seed {seed}, cycle {cycle}: a round is under way");
                    round = Some((cycle, cycle + random.rng.random_range(2..60)));
                    rounds += 1;
                }
                if sim.get("told_enable") == 1 {
                    let of = &mut qps[sim.get("told_index") as usize];
                    let told = (sim.get("told_entry_count"), sim.get("told_entry_open") == 1);
                    // One may have come that is not told of yet.
                    let unseen = of.count.wrapping_sub(told.0) % 32;
                    assert!(unseen <= 1, "seed {seed}, cycle {cycle}: {told:?} of {}", of.count);
                    if !told.1 {
                        let over: Vec<u64> = of.open.drain(..of.open.len() - unseen as usize).collect();
                        merged += usize::from(over.len() > 1);
                        assert!(over.iter().all(|at| *at < ended), "seed {seed}, cycle {cycle}: too early");
                        of.owes = true;
                    }
                    of.told = told;
                }
                if ready && sim.get("look_valid") == 1 {
                    let of = &mut qps[sim.get("look") as usize];
                    assert!(
                        std::mem::take(&mut of.owes),
                        "seed {seed}, cycle {cycle}: looked at for nothing"
                    );
                    looks += 1;
                }
                for (qp, of) in qps.iter().enumerate() {
                    let since = of.open.first().map_or(0, |at| cycle - at);
                    assert!(since < 6 || of.told.1, "seed {seed}, cycle {cycle}: {qp} has not been told of");
                    let last = of.open.last().map_or(0, |at| cycle - at);
                    assert!(last < 400, "seed {seed}, cycle {cycle}: {qp} is open for ever");
                }
                if drained {
                    ended = round.take().map_or(ended, |(began, _)| began);
                }
                if take {
                    next = cycle + 8;
                    qps[qp].count += 1;
                    qps[qp].open.push(cycle);
                }
                sim.tick();
            }
            assert!(
                looks > 500 && rounds > 300 && merged > 20,
                "{looks} looks, {rounds} rounds, {merged} merged"
            );
        }
    }

    /// From the end of an operation until it is told that nothing is under way by it.
    #[test]
    fn with_nothing_under_way_it_is_over_in_a_dozen_cycles() {
        let cfg = RnicConfig { qps: QPS as u32, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("top", |m| {
            let drained = m.wire("drained", 1);
            let out = withdraw(m, &cfg, m.input_of("taken", &OfQp::of(&cfg)), drained);
            let ways = [2, 2, 3].map(|stages| vec![Passage::of(); stages]).to_vec();
            let ways = m.input_of("way", &ways);
            let most = [2, 2, 3].map(|stages| vec![127; stages]);
            let ended = drain(m, &most, m.input_of("removed", &Done::of()), out.asks, ways);
            m.drive(&drained, ended.withdrawn);
            m.output("removed_on", &ended.removed);
            m.output("told", &out.withdrawals);
            m.stream_out("look", out.looks);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        (0..QPS + 4).for_each(|_| sim.tick());
        sim.set("taken_valid", 1);
        sim.tick();
        sim.set("taken_valid", 0);
        let mut cycles = 1;
        while sim.get("told_enable") == 0 || sim.get("told_entry_open") == 1 {
            sim.tick();
            cycles += 1;
            assert!(cycles < 100, "it is never over");
        }
        println!("{cycles} cycles");
        assert!(cycles <= 12, "{cycles} cycles");
    }
}
