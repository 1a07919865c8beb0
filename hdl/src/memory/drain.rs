// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits until everything that was looked up before a key went has been done with.
//!
//! ```text
//!  removed --+--> way of the requester: looked up -> read -----------------------------+
//!            +--> way of the responder: looked up -> written --------------------------+--> removed
//!            +--> way of the replies:   looked up -> read -> computed and written -------+
//! ```
//!
//! A way is the row of stages that a looked-up piece passes until memory is not touched on its behalf any more; each stage keeps the
//! order, and counts what is in it. When a key has gone, the first stage waits until as many have left as were inside, then the next,
//! and so on: what comes later is not waited for. So `DEREG_MR` is answered only when no access by the key is in progress (IBTA
//! volume 1, 10.6.6.2.1, 11.2.8.4), and however much is asked for by other keys, it is answered.
//!
//! A removal that was refused is told a cycle later. Latency: 2 cycles a stage, and what is inside it. Reset: nothing is inside, nothing waits.

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

/// Hands `removed` on when all that was inside the ways has left. `most`: what each stage may hold.
#[module]
pub fn drain(m: &Scope, most: &[Vec<u32>], removed: Done, ways: Vec<Vec<Passage>>) -> Done {
    let begins = removed.valid & removed.ok;
    let waits = m.reg("waits", 1).reset(0);
    let ends: Vec<Sig> = ways
        .iter()
        .enumerate()
        .map(|(i, way)| {
            let left = way.iter().enumerate().fold(begins, |begins, (j, stage)| {
                left_behind(m, &format!("way{i}_stage{j}"), most[i][j], begins, stage)
            });
            let gone = m.reg(&format!("way{i}_gone"), 1).reset(0);
            m.when(begins, |m| m.set(&gone, 0)).otherwise_when(left, |m| m.set(&gone, 1));
            gone
        })
        .collect();
    let all = waits & ends.iter().fold(lit(1, 1), |all, gone| all & gone);
    m.assert(!(begins & waits), "keys are removed one after the other");
    m.when(begins, |m| m.set(&waits, 1)).otherwise_when(all, |m| m.set(&waits, 0));
    let told = m.mux(all, &Done { valid: lit(1, 1), ok: lit(1, 1), cause: lit(8, 0) }, &removed);
    let valid = all | (removed.valid & !removed.ok);
    m.delay("told", &Done { valid, ..told })
}

/// Pulses when what was inside with `begins` has left.
fn left_behind(m: &Scope, name: &str, most: u32, begins: Sig, stage: &Passage) -> Sig {
    let width = clog2(u64::from(most) + 1);
    let one = |yes: Sig| yes.zext(width);
    let inside = m.reg(&format!("{name}_inside"), width).reset(0);
    let older = m.reg(&format!("{name}_older"), width).reset(0);
    let waits = m.reg(&format!("{name}_waits"), 1).reset(0);
    m.assert(!stage.leaves | stage.enters | inside.ne(0), "what leaves has entered");
    m.assert(!stage.enters | stage.leaves | inside.ne(most), "a stage holds no more than it can");
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
            let told =
                drain(m, &WAYS.map(|stages| vec![MOST; stages]), m.input_of("removed", &Done::of()), ways);
            m.output("told", &told);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        sim
    }

    /// Things pass the stages at random, and some are dropped on their way. Each removal is told when those that were inside have left
    /// the last stage, and soon then, however many come behind.
    #[test]
    fn a_removal_is_told_when_what_was_inside_has_left() {
        let mut random = Random::new(1);
        let mut sim = sim();
        // What is in each stage: when it came into the way's first.
        let mut ways: Vec<Vec<VecDeque<u64>>> = WAYS.map(|stages| vec![VecDeque::new(); stages]).to_vec();
        let (mut removed, mut free) = (None, None);
        let (mut told, mut refused, mut longest) = (0, 0, 0);
        for cycle in 0..60_000 {
            // Sometimes nothing moves for long.
            let pace = [0.9, 0.3, 0.05][cycle as usize / 300 % 3];
            for (w, way) in ways.iter_mut().enumerate() {
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
            let ask = removed.is_none() && random.chance(0.05);
            let ok = random.chance(0.8);
            for (field, value) in [("valid", ask.into()), ("ok", ok.into()), ("cause", 7)] {
                sim.set(&format!("removed_{field}"), value);
            }
            sim.tick();
            if ask && ok {
                removed = Some(cycle);
            }
            refused += u32::from(ask && !ok);
            let Some(since) = removed else {
                assert_eq!(sim.get("told_valid"), u64::from(ask), "cycle {cycle}: a refusal is told at once");
                assert!(!ask || (sim.get("told_ok"), sim.get("told_cause")) == (0, 7));
                continue;
            };
            let inside = ways.iter().flatten().flatten().any(|&came| came <= since);
            free = free.or((!inside).then_some(cycle));
            if sim.get("told_valid") == 1 {
                assert!(sim.get("told_ok") == 1 && !inside, "cycle {cycle}: removed in {since}");
                longest = longest.max(cycle - since);
                (removed, free, told) = (None, None, told + 1);
            }
            // Behind a stage, what was inside it is counted in the next.
            let late = free.map_or(0, |free| cycle - free);
            assert!(late < 2_000, "cycle {cycle}: nothing has been inside for {late} cycles");
        }
        assert!(told > 100 && refused > 50 && longest > 200, "{told} removals, the longest {longest} cycles");
    }
}
