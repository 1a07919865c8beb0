// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs that the host has pushed: who gets them without a read, and who does not.

use super::*;
use std::collections::BTreeSet;

/// The scheduler with slots, the QPs of it in RTS.
struct Pushing {
    bench: Bench,
    /// What `fetch` has in each slot.
    store: Vec<[u64; 8]>,
    /// Slots that were given out and not taken yet.
    held: BTreeSet<u64>,
    /// The chance of each to be taken in a cycle.
    taking: f64,
    /// Grants that were looked at, and how many of those were of slots.
    looked: usize,
    pushed: usize,
}

/// What a pushed WQE of the tests says in each of its words.
fn words(qp: usize, index: u16, life: u64) -> [u64; 8] {
    std::array::from_fn(|word| life << 32 | u64::from(index) << 16 | (qp as u64) << 8 | word as u64)
}

impl Pushing {
    fn new(seed: u64, most_stride: u32) -> Pushing {
        let mut bench = Bench::of(RnicConfig { push_slots: 4, ..config(seed) }, seed);
        (bench.most_stride, bench.returning) = (most_stride, 1.0);
        (0..QPS).for_each(|qp| bench.start(qp));
        let looked = bench.sinks[GRANT].items.len();
        Pushing { bench, store: vec![[0; 8]; 4], held: BTreeSet::new(), taking: 1.0, looked, pushed: 0 }
    }

    /// A cycle; each grant of a slot brings what `life` says its QP has pushed there.
    fn step(&mut self, life: impl Fn(usize) -> u64) {
        let Bench { sim, random, .. } = &mut self.bench;
        let freed = self.held.iter().next().copied().filter(|_| random.chance(self.taking));
        sim.set("freed_valid", freed.is_some().into());
        sim.set("freed_slot", freed.unwrap_or(0));
        freed.map(|slot| self.held.remove(&slot));
        self.bench.step();
        self.bench.sim.set("freed_valid", 0);
        for of in ["word_valid", "rings", "pushed"] {
            self.bench.sim.set(&format!("pushes_{of}"), 0);
        }
        let seed = self.bench.random.seed;
        while self.looked < self.bench.sinks[GRANT].items.len() {
            let grant = &self.bench.sinks[GRANT].items[self.looked];
            self.looked += 1;
            if grant["pushed"].is_zero() {
                continue;
            }
            let [qp, index, slot] = ["qp", "index", "slot"].map(|of| grant[of].to_u64());
            let qp = qp as usize;
            assert_eq!((grant["count"].to_u64(), grant["stride"].to_u64()), (1, 0), "seed {seed}");
            assert_eq!(self.store[slot as usize], words(qp, index as u16, life(qp)), "seed {seed}: QP {qp}");
            assert!(self.held.insert(slot), "seed {seed}: slot {slot} is given twice");
            self.pushed += 1;
        }
        if self.bench.sim.get("word_valid") == 1 {
            let [slot, word, data] =
                ["slot", "word", "data"].map(|of| self.bench.sim.get(&format!("word_{of}")));
            assert!(!self.held.contains(&slot), "seed {seed}: slot {slot} is written before it was taken");
            self.store[slot as usize][word as usize] = data;
        }
    }

    /// Pushes the next WQE, and rings for it and `more` before it.
    fn push(&mut self, qp: usize, more: u16, life: impl Fn(usize) -> u64 + Copy) {
        let q = &self.bench.qps[qp];
        if q.producer.wrapping_sub(q.oldest) + more >= 1 << q.log2 {
            return;
        }
        let index = q.producer.wrapping_add(more);
        for (i, word) in words(qp, index, life(qp)).into_iter().enumerate() {
            self.bench.sim.set("pushes_word_valid", 1);
            self.bench.sim.set("pushes_word_word", i as u64);
            self.bench.sim.set("pushes_word_data", word);
            self.step(life);
        }
        self.tell(qp, more + 1, true, life);
    }

    /// Rings for WQEs; `pushed`: the newest was pushed.
    fn tell(&mut self, qp: usize, more: u16, pushed: bool, life: impl Fn(usize) -> u64) {
        self.bench.ring(qp, more);
        self.bench.sim.set("pushes_rings", 1);
        self.bench.sim.set("pushes_bell_qp", qp as u64);
        self.bench.sim.set("pushes_bell_producer", self.bench.qps[qp].producer.into());
        self.bench.sim.set("pushes_pushed", pushed.into());
        self.step(life);
    }

    fn steps(&mut self, n: usize) {
        (0..n).for_each(|_| self.step(|_| 0));
    }

    fn counts(&self) -> (usize, usize) {
        (self.pushed, self.bench.sinks[READ].items.len())
    }
}

#[test]
fn one_that_was_pushed_is_granted_without_a_read_and_no_later_than_others() {
    for seed in [101, 102] {
        let mut p = Pushing::new(seed, 0);
        let mut cycles = [0; 2];
        for index in 0..10 {
            p.push(3, 0, |_| 0);
            let rung = p.bench.sim.cycles();
            p.steps(40);
            assert_eq!(p.counts(), (index + 1, index), "seed {seed}");
            cycles[0] = p.bench.sinks[GRANT].cycles.last().unwrap() - rung;
            // The same, not pushed.
            p.tell(5, 1, false, |_| 0);
            let rung = p.bench.sim.cycles();
            p.steps(40);
            assert_eq!(p.counts(), (index + 1, index + 1), "seed {seed}");
            cycles[1] = p.bench.sinks[GRANT].cycles.last().unwrap() - rung;
            let oldest = p.bench.qps[3].producer;
            for qp in [3, 5] {
                p.bench.oldest(qp, oldest);
            }
        }
        assert_eq!(cycles[0], cycles[1], "seed {seed}");
        p.bench.check_reads();
    }
}

#[test]
fn what_is_wanted_with_others_or_again_or_is_larger_is_read() {
    for seed in [103, 104] {
        // Two at once.
        let mut p = Pushing::new(seed, 0);
        p.push(2, 1, |_| 0);
        p.steps(40);
        assert_eq!(p.counts(), (0, 1), "seed {seed}");
        // A doorbell behind it, before it was wanted.
        p.bench.resume(2, 0, true);
        p.steps(20);
        p.push(2, 0, |_| 0);
        p.tell(2, 0, false, |_| 0);
        p.bench.oldest(2, 2);
        p.bench.resume(2, 2, false);
        p.steps(40);
        assert_eq!(p.counts(), (0, 2), "seed {seed}");
        // Again: sent once more, or given back.
        p.push(2, 0, |_| 0);
        p.steps(40);
        assert_eq!(p.counts(), (1, 2), "seed {seed}");
        p.bench.resume(2, 3, false);
        p.steps(40);
        assert_eq!(p.counts(), (1, 3), "seed {seed}");
        p.bench.check_reads();
        // Of another size.
        let mut p = Pushing::new(seed, 0);
        p.bench.state(1, QpState::Reset);
        for n in 0.. {
            p.bench.most_stride = MAX_STRIDE;
            p.bench.start(1);
            if p.bench.qps[1].stride > 0 {
                break;
            }
            assert!(n < 100);
            p.bench.state(1, QpState::Reset);
        }
        p.push(1, 0, |_| 0);
        p.steps(40);
        assert_eq!(p.counts(), (0, 1), "seed {seed}");
    }
}

#[test]
fn what_was_pushed_for_a_life_that_is_over_is_not_found_in_the_next() {
    for seed in [105, 106] {
        let mut p = Pushing::new(seed, 0);
        for round in 1..6 {
            p.bench.resume(4, 0, true);
            p.steps(20);
            p.push(4, 0, |_| 0);
            p.steps(20);
            p.bench.state(4, QpState::Reset);
            p.steps(12);
            p.bench.start(4);
            p.looked = p.bench.sinks[GRANT].items.len();
            p.tell(4, 1, false, |_| 0);
            p.steps(40);
            assert_eq!(p.counts(), (0, round), "seed {seed}");
            let oldest = p.bench.qps[4].producer;
            p.bench.oldest(4, oldest);
            p.bench.state(4, QpState::Reset);
            p.bench.start(4);
            p.looked = p.bench.sinks[GRANT].items.len();
        }
    }
}

#[test]
fn in_random_programs_each_grant_brings_what_was_pushed_or_is_read() {
    for seed in 111..=116 {
        let mut p = Pushing::new(seed, 1);
        let mut lives = [0u64; QPS];
        for _ in 0..1000 {
            let qp = p.bench.random.rng.random_range(0..QPS);
            let at = lives;
            let life = move |qp: usize| at[qp];
            if p.bench.random.chance(0.05) {
                p.taking = [0.02, 0.3, 1.0][p.bench.random.rng.random_range(0..3)];
                p.bench.stall = [0.0, 0.3, 0.8][p.bench.random.rng.random_range(0..3)];
                p.bench.returning = [0.05, 0.5, 1.0][p.bench.random.rng.random_range(0..3)];
            }
            match p.bench.random.rng.random_range(0..10) {
                0..=4 => {
                    let more = if p.bench.random.chance(0.2) { 1 } else { 0 };
                    p.push(qp, more, life);
                }
                5 => {
                    let more = p.bench.random.rng.random_range(0..4);
                    p.tell(qp, more, false, life);
                }
                6 | 7 => {
                    let floor = p.bench.qps[qp].floor();
                    let oldest = p.bench.qps[qp].oldest.wrapping_add(floor);
                    p.bench.oldest(qp, oldest);
                    p.bench.kick(qp);
                }
                8 => {
                    let q = &p.bench.qps[qp];
                    let span = q.due.wrapping_sub(q.oldest);
                    if span != 0 && q.rewind.is_none() {
                        let to = q.oldest.wrapping_add(p.bench.random.rng.random_range(0..span));
                        p.bench.resume(qp, to, false);
                    }
                }
                _ if p.bench.random.chance(0.2) => {
                    p.bench.state(qp, QpState::Reset);
                    // What comes out meanwhile is of the life before.
                    for _ in 0..300 {
                        p.step(life);
                    }
                    p.bench.stall = 0.0;
                    p.bench.start(qp);
                    assert!(p.bench.sinks[GRANT].items[p.looked..]
                        .iter()
                        .all(|g| { g["qp"].to_u64() != qp as u64 || !g["start"].is_zero() }));
                    lives[qp] += 1;
                }
                _ => {}
            }
            for _ in 0..p.bench.random.rng.random_range(1..25) {
                p.step(life);
            }
        }
        assert!(p.pushed > 60, "seed {seed}: {}", p.pushed);
        let at = lives;
        (0..1000).for_each(|_| p.step(|qp| at[qp]));
        p.bench.check_reads();
    }
}
