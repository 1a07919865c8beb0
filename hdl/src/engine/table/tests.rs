// SPDX-License-Identifier: MIT OR Apache-2.0
//! The template against a model that does one event after the other.

use super::*;
use crate::testing::{step, Random, Source as Feed};
use ferrowire_rtl::{bits, build, Bundle, Sim};
use rand::Rng;

const KEYS: u32 = 8;

/// An event adds its number to a hash of those of its key.
#[derive(Clone, Bundle)]
struct Event {
    key: Sig,
    number: Sig,
}

/// What is seen of an event in En.
#[derive(Clone, Bundle)]
struct Seen {
    valid: Sig,
    key: Sig,
    number: Sig,
    done: Sig,
    old: Sig,
    new: Sig,
}

fn event() -> Event {
    Event { key: bits(3), number: bits(16) }
}

/// A table with a function of so many stages.
fn engine(stages: u32, sources: usize, turns: usize) -> Sim {
    let netlist = build("bench", |m| {
        let (sources, offers): (Vec<Source>, Vec<Event>) = (0..sources)
            .map(|i| {
                let (events, hold) =
                    (m.stream_in(&format!("in{i}"), &event()), m.input(&format!("hold{i}"), 1));
                Source::new(m, &format!("s{i}"), events, hold)
            })
            .unzip();
        let first = |key: Sig| key.zext(16) + 7;
        let shape = Shape { keys: KEYS, row: bits(16), stages, style: Style::Block, turns, first: &first };
        let (table, at) = Table::begin(m, &shape, sources, &|picked| {
            let first = offers[0].clone();
            let event =
                picked.iter().zip(&offers).skip(1).fold(first, |event, (yes, one)| m.mux(*yes, one, &event));
            (event.key, event)
        });
        m.discard(&(table.sweeps, table.swept));
        m.discard(&at.key);
        m.discard(&at.event);
        let new = at.row + (at.row << 2) + at.event.number;
        let (mut old, mut new, mut number) = (at.row, new, at.event.number);
        for stage in 1..stages {
            let delay = |what: &str, s: &Sig| m.delay(&format!("{what}_{stage}"), s);
            (old, new, number) = (delay("old", &old), delay("new", &new), delay("number", &number));
        }
        // A row may be written whether the event is done or not.
        let (again, keeps) = (m.input("refuses", 1), m.input("keeps", 1));
        let row = m.mux(keeps, &old, &new);
        let (valid, key) = (table.valid, table.key);
        let done = table.end(m, &Verdict { again, row });
        m.output("seen", &Seen { valid, key, number, done, old, new: row });
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    sim
}

struct Bench {
    sim: Sim,
    feeds: Vec<Feed>,
    random: Random,
    rows: Vec<u64>,
    /// The numbers that each source has sent, and those that are done.
    sent: Vec<Vec<u64>>,
    done: Vec<Vec<u64>>,
    /// When: the cycle of each pass through En, and whether it was the last.
    passes: Vec<(u64, u64, bool)>,
    holds: f64,
    refuses: f64,
}

impl Bench {
    fn new(stages: u32, sources: usize, turns: usize, seed: u64) -> Bench {
        Bench {
            sim: engine(stages, sources, turns),
            feeds: (0..sources).map(|i| Feed::new(&format!("in{i}"), &event())).collect(),
            random: Random::new(seed),
            rows: (0..u64::from(KEYS)).map(|key| key + 7).collect(),
            sent: vec![Vec::new(); sources],
            done: vec![Vec::new(); sources],
            passes: Vec::new(),
            holds: 0.0,
            refuses: 0.0,
        }
    }

    fn push(&mut self, source: usize, key: u64) {
        let number = (source << 12 | self.sent[source].len()) as u64;
        self.feeds[source].push_values(&[("key", key.into()), ("number", number.into())]);
        self.sent[source].push(number);
    }

    fn left(&self) -> bool {
        self.sent != self.done
    }

    fn step(&mut self) {
        for i in 0..self.feeds.len() {
            let holds = self.random.chance(self.holds);
            self.sim.set(&format!("hold{i}"), holds.into());
        }
        let (refuses, keeps) = (self.random.chance(self.refuses), self.random.chance(self.refuses));
        self.sim.set("refuses", refuses.into());
        self.sim.set("keeps", keeps.into());
        let cycle = self.sim.cycles();
        let [valid, key, number, done, old, new] = ["valid", "key", "number", "done", "old", "new"]
            .map(|field| self.sim.get(&format!("seen_{field}")));
        if valid == 1 {
            let row = &mut self.rows[key as usize];
            assert_eq!(old, *row, "seed {}, cycle {cycle}: {number} sees the newest row", self.random.seed);
            let changed = row.wrapping_mul(5).wrapping_add(number) & 0xffff;
            *row = if keeps { old } else { changed };
            assert_eq!((new, done == 0), (*row, refuses));
            self.passes.push((cycle, number, !refuses));
            if !refuses {
                self.done[(number >> 12) as usize].push(number);
            }
        }
        step(&mut self.sim, &mut self.feeds, &mut [], &mut self.random, 0.0);
    }

    fn run(&mut self, cycles: u32) {
        let mut n = 0;
        while self.left() {
            self.step();
            n += 1;
            assert!(n < cycles, "seed {}: {:?} of {:?}", self.random.seed, self.done, self.sent);
        }
        let passes = self.passes.len();
        (0..20).for_each(|_| self.step());
        assert_eq!(self.passes.len(), passes, "what is done is done once");
    }

    /// The cycles in which events were done.
    fn cycles(&self) -> Vec<u64> {
        self.passes.iter().filter(|pass| pass.2).map(|pass| pass.0).collect()
    }

    fn swept(mut self) -> Bench {
        (0..KEYS + 2).for_each(|_| self.sim.tick());
        self
    }
}

#[test]
fn each_event_is_done_once_in_the_order_of_its_source_and_sees_the_newest_row_of_its_key() {
    for stages in 1..=4 {
        for (turn, (sources, turns)) in [(1, 0), (2, 0), (3, 2), (4, 4)].into_iter().enumerate() {
            for (keys, into, holds, refuses) in [
                (1, 0.0, 0.0, 0.0),
                (2, 0.0, 0.0, 0.3),
                (2, 0.5, 0.3, 0.0),
                (8, 0.0, 0.1, 0.1),
                (3, 0.2, 0.2, 0.7),
            ] {
                let mut bench = Bench::new(stages, sources, turns, 10 * u64::from(stages) + turn as u64);
                bench.feeds.iter_mut().for_each(|feed| feed.stall = Some(into));
                (bench.holds, bench.refuses) = (holds, refuses);
                for i in 0..300 {
                    let key = bench.random.rng.random_range(0..keys);
                    bench.push(i % sources, key);
                }
                bench.run(20_000);
            }
        }
    }
}

#[test]
fn events_of_different_keys_pass_one_a_cycle_and_those_of_one_key_one_in_n() {
    for stages in 1..=4u32 {
        let n = u64::from(stages);
        for (keys, apart) in [(8, 1), (n, 1), (1, n)] {
            let mut bench = Bench::new(stages, 1, 0, 1).swept();
            (0..100).for_each(|i| bench.push(0, i % keys));
            bench.run(1000);
            let cycles = bench.cycles();
            assert_eq!(cycles[99] - cycles[0], 99 * apart, "{keys} keys, {n} stages");
            // Into the ring, I, F, and the stages.
            assert_eq!(cycles[0] - bench.feeds[0].cycles[0], 2 + n, "{n} stages");
        }
    }
}

#[test]
fn an_event_that_goes_again_is_back_two_cycles_after_the_stages_and_holds_up_its_own_source_alone() {
    for stages in 1..=4u32 {
        let n = u64::from(stages);
        let mut bench = Bench::new(stages, 2, 0, 1).swept();
        // The second source is done with at once, before and after.
        (0..3).for_each(|key| bench.push(0, key));
        (3..6).for_each(|key| bench.push(1, key));
        bench.refuses = 0.0;
        while bench.passes.is_empty() {
            let valid = bench.sim.get("seen_valid") == 1;
            bench.refuses = if valid { 1.0 } else { 0.0 };
            bench.step();
        }
        bench.refuses = 0.0;
        bench.run(100);
        let of = |source: u64| -> Vec<(u64, bool)> {
            let own = bench.passes.iter().filter(|pass| pass.1 >> 12 == source);
            own.map(|pass| (pass.0, pass.2)).collect()
        };
        let (first, second) = (of(0), of(1));
        assert_eq!(
            first.iter().map(|pass| pass.1).collect::<Vec<_>>(),
            [false, true, true, true],
            "{n} stages"
        );
        assert_eq!(first[1].0 - first[0].0, n + 2, "{n} stages");
        assert!(second.iter().all(|pass| pass.1) && second.len() == 3, "{n} stages: {second:?}");
    }
}

#[test]
fn the_first_source_goes_first_and_those_that_take_turns_get_the_same() {
    let mut bench = Bench::new(3, 4, 3, 1).swept();
    for (source, events) in [(0, 10), (1, 40), (2, 40), (3, 40)] {
        (0..events).for_each(|i| bench.push(source, i % 8));
    }
    // All rings are full when the first event is issued.
    bench.holds = 1.0;
    (0..10).for_each(|_| bench.step());
    bench.holds = 0.0;
    bench.run(1000);
    let order: Vec<u64> = bench.passes.iter().map(|pass| pass.1 >> 12).collect();
    assert!(order[..8].iter().all(|source| *source == 0), "{order:?}");
    let others: Vec<u64> = order.into_iter().filter(|source| *source > 0).collect();
    assert!(others.windows(3).all(|three| three[0] != three[1] && three[0] != three[2]), "{others:?}");
}

#[test]
fn a_source_that_is_held_back_is_not_picked_and_its_ring_has_eight_places() {
    let mut bench = Bench::new(3, 1, 0, 1).swept();
    bench.holds = 1.0;
    (0..20).for_each(|i| bench.push(0, i % 8));
    (0..50).for_each(|_| bench.step());
    assert_eq!((bench.feeds[0].left(), bench.passes.len()), (12, 0));
    bench.holds = 0.0;
    bench.run(100);
}

#[test]
fn a_reset_of_one_cycle_as_an_event_is_done_leaves_a_ring_with_eight_places() {
    let mut bench = Bench::new(2, 1, 0, 1).swept();
    bench.push(0, 0);
    // It is done in the cycle in which the reset comes.
    while bench.sim.get("seen_done") == 0 {
        bench.step();
    }
    bench.sim.set("rst", 1);
    bench.step();
    bench.sim.set("rst", 0);
    bench.holds = 1.0;
    (0..20).for_each(|i| bench.push(0, i % 8));
    (0..50).for_each(|_| bench.step());
    assert_eq!(bench.feeds[0].left(), 12);
}
