// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits until everything that was looked up before a key went has been done with.
//!
//! ```text
//!  removed ----+--> way of the requester: looked up -> read --------------------------------+--> removed
//!              |                                                                            |
//!              +--> round: way of the responder: looked up -> written ------------------+---+
//!  withdrawn ->+           way of the replies:   looked up -> read -> computed, written +-------> drained
//! ```
//!
//! A way is the row of stages that a looked-up piece passes until memory is not touched on its behalf any more; each stage keeps the
//! order, and counts what is in it. When a key has gone, the first stage waits until as many have left as were inside, then the next,
//! and so on: what comes later is not waited for. So `DEREG_MR` is answered only when no access by the key is in progress (IBTA
//! volume 1, 10.6.6.2.1, 11.2.8.4), and however much is asked for by other keys, it is answered.
//!
//! A window that its owner takes back (`withdrawn`, 10.6.7.2.5) is a key of peers alone: the requester's way is not waited for. The
//! other ways are waited for in rounds, which all share that have asked before they begin; who comes during one has the next.
//!
//! A removal that was refused is told a cycle later. Latency: 2 cycles a stage, and what is inside it, at most twice where a round is under
//! way. Reset: nothing is inside, nothing waits.

use super::Done;
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Scope, Sig};

/// What passes a stage, in order.
#[derive(Clone, Bundle)]
pub struct Passage {
    /// Something enters.
    pub enters: Sig,
    /// The oldest leaves.
    pub leaves: Sig,
}

impl Passage {
    /// The shape.
    pub fn of() -> Self {
        Passage { enters: bits(1), leaves: bits(1) }
    }
}

/// What comes out.
#[derive(Clone, Bundle)]
pub struct Drained {
    /// Ends of removals.
    pub removed: Done,
    /// What was inside with the last `withdrawn` has left.
    pub withdrawn: Sig,
}

/// Hands `removed` on when all that was inside the ways has left, `withdrawn` when that of all but the first has. `most`: what each
/// stage may hold.
#[module]
pub fn drain(
    m: &Scope,
    most: &[Vec<u32>],
    removed: Done,
    withdrawn: Sig,
    ways: Vec<Vec<Passage>>,
) -> Drained {
    let removes = removed.valid & removed.ok;
    // A round for whoever has asked.
    let busy = m.reg("busy", 1).reset(0);
    let begins = m.wire("begins", 1);
    let asked = [("removal", removes), ("withdrawal", withdrawn)].map(|(name, asks)| {
        let waits = m.reg(&format!("{name}_waits"), 1).reset(0);
        let served = m.reg(&format!("{name}_served"), 1).reset(0);
        let wants = waits | asks;
        m.set(&waits, wants & !begins);
        m.when(begins, |m| m.set(&served, wants));
        (wants, served)
    });
    m.set(&begins, !busy & (asked[0].0 | asked[1].0));
    let gone: Vec<Sig> = ways
        .iter()
        .enumerate()
        .map(|(i, way)| {
            let begins = if i == 0 { removes } else { begins };
            let left = way.iter().enumerate().fold(begins, |begins, (j, stage)| {
                left_behind(m, &format!("way{i}_stage{j}"), most[i][j], begins, stage)
            });
            let gone = m.reg(&format!("way{i}_gone"), 1).reset(0);
            m.when(begins, |m| m.set(&gone, 0)).otherwise_when(left, |m| m.set(&gone, 1));
            gone
        })
        .collect();
    let ends = busy & gone[1..].iter().fold(lit(1, 1), |all, gone| all & gone);
    m.when(begins, |m| m.set(&busy, 1)).otherwise_when(ends, |m| m.set(&busy, 0));

    // A removal ends with its round and the first way, whichever is later.
    let removing = m.reg("removing", 1).reset(0);
    let in_time = m.reg("in_time", 1).reset(0);
    let all = removing & gone[0] & in_time;
    m.assert(!(removes & removing), "keys are removed one after the other");
    m.when(removes, |m| m.set(&removing, 1)).otherwise_when(all, |m| m.set(&removing, 0));
    m.when(removes, |m| m.set(&in_time, 0)).otherwise_when(ends & asked[0].1, |m| m.set(&in_time, 1));
    let told = m.mux(all, &Done { valid: lit(1, 1), ok: lit(1, 1), cause: lit(8, 0) }, &removed);
    let valid = all | (removed.valid & !removed.ok);
    Drained { removed: m.delay("told", &Done { valid, ..told }), withdrawn: ends & asked[1].1 }
}

/// Pulses when what was inside with `begins` has left.
fn left_behind(m: &Scope, name: &str, most: u32, begins: Sig, stage: &Passage) -> Sig {
    let width = clog2(u64::from(most) + 1);
    let one = |yes: Sig| yes.zext(width);
    let inside = m.reg(&format!("{name}_inside"), width).reset(0);
    let older = m.reg(&format!("{name}_older"), width).reset(0);
    let waits = m.reg(&format!("{name}_waits"), 1).reset(0);
    m.assert(!stage.leaves | stage.enters | inside.ne(0), &format!("{name}: what leaves has entered"));
    m.assert(
        !stage.enters | stage.leaves | inside.ne(most),
        &format!("{name}: a stage holds no more than it can"),
    );
    let now = inside + one(stage.enters) - one(stage.leaves);
    m.set(&inside, now);
    let none = older.eq(0);
    m.when(begins, |m| {
        m.set(&older, now);
        m.set(&waits, 1);
    })
    .otherwise(|m| {
        m.when(stage.leaves & !none, |m| m.set(&older, older - 1));
        m.when(none, |m| m.set(&waits, 0));
    });
    waits & none
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use ferrowire_rtl::{build, Sim};
    use std::collections::VecDeque;

    const MOST: u32 = 12;
    /// Stages of each way.
    const WAYS: [usize; 3] = [1, 2, 4];

    fn sim() -> Sim {
        let netlist = build("top", |m| {
            let ways: Vec<Vec<Passage>> = WAYS.iter().map(|&stages| vec![Passage::of(); stages]).collect();
            let ways = m.input_of("way", &ways);
            let most = WAYS.map(|stages| vec![MOST; stages]);
            let told = drain(m, &most, m.input_of("removed", &Done::of()), m.input("withdrawn", 1), ways);
            m.output("told", &told.removed);
            m.output("drained", &m.delay("drained", &told.withdrawn));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        sim
    }

    /// Who has asked, and since when.
    #[derive(Default)]
    struct Asked {
        since: Option<u64>,
        /// From then on nothing that was inside is.
        free: Option<u64>,
        told: u32,
        longest: u64,
    }

    impl Asked {
        /// A cycle: whether it is told, and something that came until then is still inside.
        fn see(&mut self, what: &str, cycle: u64, told: bool, inside: impl Fn(u64) -> bool) {
            let Some(since) = self.since else {
                assert!(!told, "cycle {cycle}: {what} is told that was not asked");
                return;
            };
            let inside = inside(since);
            self.free = self.free.or((!inside).then_some(cycle));
            if told {
                assert!(!inside, "cycle {cycle}: {what} in {since}");
                self.longest = self.longest.max(cycle - since);
                (self.since, self.free, self.told) = (None, None, self.told + 1);
            }
            // Behind a stage, what was inside it is counted in the next; and a round may be under way.
            let late = self.free.map_or(0, |free| cycle - free);
            assert!(late < 8_000, "cycle {cycle}: nothing has been inside for {late} cycles: {what}");
        }
    }

    /// Things pass the stages at random, and some are dropped on their way. Each removal is told when those that were inside have left
    /// the last stage, and soon then, however many come behind; a withdrawal likewise, but it does not wait for the first way.
    #[test]
    fn a_removal_is_told_when_what_was_inside_has_left_and_a_withdrawal_when_what_peers_asked_for_has() {
        let mut random = Random::new(1);
        let mut sim = sim();
        // What is in each stage: when it came into the way's first.
        let mut ways: Vec<Vec<VecDeque<u64>>> = WAYS.map(|stages| vec![VecDeque::new(); stages]).to_vec();
        let (mut removal, mut withdrawal) = (Asked::default(), Asked::default());
        let (mut refused, mut both, mut stands) = (0, 0, 0);
        for cycle in 0..100_000 {
            // Sometimes nothing moves for long, sometimes only in the first way.
            let pace = [0.9, 0.3, 0.05][cycle as usize / 300 % 3];
            let first_stands = cycle / 5_000 % 4 == 3;
            for (w, way) in ways.iter_mut().enumerate() {
                let pace = if w == 0 && first_stands { 0.0 } else { pace };
                for s in (0..way.len()).rev() {
                    let last = s + 1 == way.len();
                    let full = !last && way[s + 1].len() == MOST as usize;
                    let left = if !full && random.chance(pace) { way[s].pop_front() } else { None };
                    sim.set(&format!("way_{w}_{s}_leaves"), left.is_some().into());
                    let goes_on = left.filter(|_| !last && random.chance(0.8));
                    if !last {
                        sim.set(&format!("way_{w}_{}_enters", s + 1), goes_on.is_some().into());
                        way[s + 1].extend(goes_on);
                    }
                }
                let comes = way[0].len() < MOST as usize && random.chance(0.8);
                sim.set(&format!("way_{w}_0_enters"), comes.into());
                way[0].extend(comes.then_some(cycle));
            }
            let ask = removal.since.is_none() && random.chance(0.05);
            let ok = random.chance(0.8);
            for (field, value) in [("valid", ask.into()), ("ok", ok.into()), ("cause", 7)] {
                sim.set(&format!("removed_{field}"), value);
            }
            let withdraws = withdrawal.since.is_none() && random.chance(0.05);
            sim.set("withdrawn", withdraws.into());
            sim.tick();
            if ask && ok {
                removal.since = Some(cycle);
            }
            if withdraws {
                withdrawal.since = Some(cycle);
                both += u32::from(removal.since.is_some());
            }
            refused += u32::from(ask && !ok);
            let refusal = ask && !ok;
            if refusal {
                assert_eq!((sim.get("told_ok"), sim.get("told_cause")), (0, 7), "a refusal is told at once");
            }
            let told = sim.get("told_valid") == 1;
            assert!(told || !refusal);
            let done = told && !refusal;
            assert!(!done || sim.get("told_ok") == 1);
            let within = |ways: &[Vec<VecDeque<u64>>], since| {
                ways.iter().flatten().flatten().any(|&came| came <= since)
            };
            removal.see("a removal", cycle, done, |since| within(&ways, since));
            let drained = sim.get("drained") == 1;
            stands += u32::from(drained && first_stands);
            withdrawal.see("a withdrawal", cycle, drained, |since| within(&ways[1..], since));
        }
        let counts = (removal.told, withdrawal.told, refused, both, stands);
        assert!(removal.told > 100 && withdrawal.told > 200 && refused > 50, "{counts:?}");
        assert!(both > 50 && stands > 50, "{counts:?}");
        assert!(removal.longest > 200 && withdrawal.longest > 200);
    }
}
