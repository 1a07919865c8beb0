// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots against what their page promises: what is found is what was told last, and stays as it was until it is taken.

use super::*;
use crate::testing::Random;
use ferrowire_rtl::{build, Sim};
use rand::Rng;
use std::collections::BTreeMap;

type Words = [u64; 8];

/// Few of either, so that they meet.
const QPS: u64 = 5;
const INDICES: u64 = 4;

fn config(push_slots: u32) -> RnicConfig {
    RnicConfig { push_slots, ..RnicConfig::named("generic-8b").unwrap() }
}

struct Bench {
    sim: Sim,
    random: Random,
    /// What the store of `fetch` has.
    store: Vec<Words>,
    /// What was told and may be found, by QP.
    told: BTreeMap<u64, (u64, Words)>,
    /// What was given out and not taken yet, by slot.
    given: Vec<Option<Words>>,
    /// Words of the WQE that comes.
    words: Vec<u64>,
    /// What is looked at, and for how many cycles it was.
    look: Option<((u64, u64), u32)>,
    found: u64,
}

impl Bench {
    fn new(seed: u64, slots: u32) -> Bench {
        let cfg = config(slots);
        let netlist = build("bench", |m| {
            let wanted = Wanted { qp: bits(cfg.qp_bits()), index: bits(16) };
            let out = push(
                m,
                &cfg,
                m.input_of("pushes", &Pushes::of(&cfg)),
                m.input_of("wanted", &wanted),
                m.input("takes", 1),
                m.input_of("freed", &Freed::of(&cfg)),
            );
            m.output("found", &out.found);
            m.output("slot", &out.slot);
            m.output("write", &out.write);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let slots = slots as usize;
        Bench {
            sim,
            random: Random::new(seed),
            store: vec![[0; 8]; slots],
            told: BTreeMap::new(),
            given: vec![None; slots],
            words: Vec::new(),
            look: None,
            found: 0,
        }
    }

    fn any_wqe(&mut self) -> (u64, u64) {
        (self.random.rng.random_range(0..QPS), self.random.rng.random_range(0..INDICES))
    }

    /// The next word, or the first of another WQE.
    fn word(&mut self) {
        if self.words.len() == 8 || (!self.words.is_empty() && self.random.chance(0.03)) {
            self.words.clear();
        }
        let data = self.random.rng.random();
        self.sim.set("pushes_word_valid", 1);
        self.sim.set("pushes_word_word", self.words.len() as u64);
        self.sim.set("pushes_word_data", data);
        self.words.push(data);
    }

    /// A doorbell of `qp` whose newest WQE is that at `index`; what it tells, once it has rung.
    fn ring(&mut self, (qp, index): (u64, u64), pushed: bool) -> Option<(u64, Words)> {
        self.sim.set("pushes_rings", 1);
        self.sim.set("pushes_bell_qp", qp);
        self.sim.set("pushes_bell_producer", (index + 1) & 0xffff);
        self.sim.set("pushes_pushed", pushed.into());
        pushed.then(|| (index, self.words[..].try_into().unwrap()))
    }

    /// One cycle, in which a WQE that has been looked at for one is taken if `takes`.
    fn step(&mut self, takes: bool, frees: bool) -> Option<bool> {
        let seed = self.random.seed;
        let cycle = self.sim.cycles();
        let ((qp, index), looked) = self.look.unwrap_or(((0, 0), 0));
        self.sim.set("wanted_qp", qp);
        self.sim.set("wanted_index", index);
        let takes = takes && looked > 0;
        self.sim.set("takes", takes.into());
        let taken: Vec<usize> = (0..self.given.len()).filter(|slot| self.given[*slot].is_some()).collect();
        let frees = frees && !taken.is_empty();
        self.sim.set("freed_valid", frees.into());
        if frees {
            let slot = taken[self.random.rng.random_range(0..taken.len())];
            self.sim.set("freed_slot", slot as u64);
            self.given[slot] = None;
        }
        let mut found = None;
        if looked > 0 {
            found = Some(self.sim.get("found") == 1);
            if self.sim.get("found") == 1 {
                let slot = self.sim.get("slot") as usize;
                let what = format!("seed {seed}, cycle {cycle}: QP {qp}, WQE {index} in slot {slot}");
                let (told, words) = self.told.get(&qp).unwrap_or_else(|| panic!("{what}: nothing is told"));
                assert_eq!((*told, self.store[slot]), (index, *words), "{what}");
                if takes {
                    assert_eq!(self.given[slot].replace(*words), None, "{what}: it was given already");
                    self.told.remove(&qp);
                    self.found += 1;
                }
            }
        }
        if self.sim.get("write_valid") == 1 {
            let at = ["slot", "word"].map(|of| self.sim.get(&format!("write_{of}")) as usize);
            self.store[at[0]][at[1]] = self.sim.get("write_data");
        }
        self.sim.tick();
        for of in ["word_valid", "rings", "pushed"] {
            self.sim.set(&format!("pushes_{of}"), 0);
        }
        for (slot, given) in self.given.iter().enumerate() {
            let kept = given.is_none_or(|words| words == self.store[slot]);
            assert!(kept, "seed {seed}, cycle {cycle}: slot {slot} is written before it was taken");
        }
        self.look = self.look.map(|(wqe, looked)| (wqe, looked + 1));
        found
    }

    /// All eight words, then the doorbell.
    fn push(&mut self, wqe: (u64, u64)) {
        self.words.clear();
        while self.words.len() < 8 {
            let data = self.random.rng.random();
            self.sim.set("pushes_word_valid", 1);
            self.sim.set("pushes_word_word", self.words.len() as u64);
            self.sim.set("pushes_word_data", data);
            self.words.push(data);
            self.step(false, false);
        }
        let told = self.ring(wqe, true).unwrap();
        self.step(false, false);
        self.told.insert(wqe.0, told);
    }

    /// Whether it is there; `takes`: and it is given out.
    fn finds(&mut self, wqe: (u64, u64), takes: bool) -> bool {
        self.look = Some((wqe, 0));
        self.step(false, false);
        let found = self.step(takes, false).unwrap();
        self.look = None;
        found
    }
}

#[test]
fn what_is_found_was_told_last_of_its_queue_pair_and_stays_until_it_is_taken() {
    for (seed, slots) in [(1, 2), (2, 2), (3, 4), (4, 4), (5, 8), (6, 8)] {
        let mut bench = Bench::new(seed, slots);
        for _ in 0..30_000 {
            // One doorbell or word in a cycle, or none.
            let whole = bench.words.len() == 8;
            let mut told = None;
            match bench.random.rng.random_range(0..8) {
                0..=3 if !whole => bench.word(),
                4 if whole && bench.random.chance(0.2) => bench.word(),
                5 if whole => {
                    let wqe = bench.any_wqe();
                    told = Some((wqe.0, bench.ring(wqe, true)));
                    bench.words.clear();
                }
                6 if bench.random.chance(0.1) => {
                    let wqe = bench.any_wqe();
                    told = Some((wqe.0, bench.ring(wqe, false)));
                }
                _ => {}
            }
            if bench.look.is_none_or(|(_, looked)| looked > 1) {
                let all: Vec<(u64, u64)> = bench.told.iter().map(|(qp, (index, _))| (*qp, *index)).collect();
                let some = match all.len() {
                    0 => bench.any_wqe(),
                    n => all[bench.random.rng.random_range(0..n)],
                };
                let any = bench.any_wqe();
                let wqe = if bench.random.chance(0.7) { some } else { any };
                bench.look = bench.random.chance(0.5).then_some((wqe, 0));
            }
            let (takes, frees) = (bench.random.chance(0.7), bench.random.chance(0.08));
            bench.step(takes, frees);
            // Known from the next cycle on.
            if let Some((qp, told)) = told {
                bench.told.remove(&qp);
                if let Some(told) = told {
                    bench.told.insert(qp, told);
                }
            }
        }
        assert!(bench.found > 300, "seed {seed}: {}", bench.found);
    }
}

#[test]
fn the_newest_are_there_as_many_as_there_are_slots_less_one() {
    for (seed, slots) in [(7, 2), (8, 4), (9, 8)] {
        let mut bench = Bench::new(seed, slots);
        let mut order: Vec<(u64, u64)> = Vec::new();
        for _ in 0..200 {
            let wqe = (bench.random.rng.random_range(0..16), bench.random.rng.random_range(0..1 << 16));
            bench.push(wqe);
            order.push(wqe);
            for (later, wqe) in order.clone().into_iter().rev().enumerate().take(12) {
                let rung = order[order.len() - later..].iter().any(|(qp, _)| *qp == wqe.0);
                let found = bench.finds(wqe, false);
                if rung || later >= slots as usize {
                    assert!(!found, "seed {seed}: {wqe:?}, and {later} later ones");
                } else if later < slots as usize - 1 {
                    assert!(found, "seed {seed}: {wqe:?}, and {later} later ones");
                }
            }
        }
    }
}

#[test]
fn a_slot_is_given_once_and_is_filled_again_when_its_wqe_was_taken() {
    let mut bench = Bench::new(10, 2);
    for round in 0..20 {
        bench.push((1, round));
        assert!(bench.finds((1, round), true), "round {round}");
        assert!(!bench.finds((1, round), true), "round {round}: it was given");
        bench.push((2, round));
        assert!(bench.finds((2, round), true), "round {round}");
        // Both are given: there is no room.
        bench.push((3, round));
        assert!(!bench.finds((3, round), false), "round {round}");
        bench.step(false, true);
        bench.step(false, true);
        assert_eq!(bench.given, [None, None]);
    }
}

#[test]
fn a_reset_empties_the_slots() {
    let mut bench = Bench::new(11, 4);
    (0..3).for_each(|qp| bench.push((qp, 7)));
    assert!(bench.finds((1, 7), true));
    bench.sim.reset();
    bench.given.fill(None);
    for qp in 0..3 {
        assert!(!bench.finds((qp, 7), false), "QP {qp}");
    }
    for round in 0..8 {
        bench.push((4, round));
        assert!(bench.finds((4, round), false), "round {round}: nothing is given any more");
    }
}
