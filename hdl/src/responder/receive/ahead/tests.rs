// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is needed against a table of what was marked.

use super::*;
use crate::testing::{item, step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use rand::Rng;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    /// Answers of probes.
    answers: Vec<bool>,
}

impl Bench {
    fn new(seed: u64, distance: u64) -> Bench {
        let cfg = RnicConfig { qps: 16, srqs: 4, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let group = clog2(u64::from(slots(&cfg) / SPREAD));
            let out = ahead(
                m,
                &cfg,
                Input {
                    touches: m.stream_in("touch", &Touch::of(&cfg)),
                    probes: m.stream_in("probe", &Probe::of(&cfg)),
                    mark: m.input_of("mark", &Mark::of(&cfg)),
                    life: m.input_of("life", &Life::of(&cfg)),
                    distance: m.input("distance", 8),
                    plans: m.input("plans", 1),
                    clear: m.input("clear", group),
                    cleared: m.input("cleared", 1),
                },
            );
            m.stream_out("need", out.needs);
            m.output("answers", &out.answers);
            m.output("there", &out.there);
            m.output("marking", &out.marking);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = vec![Source::new("touch", &Touch::of(&cfg)), Source::new("probe", &Probe::of(&cfg))];
        let mut need = Sink::new("need", &Need::of(&cfg));
        need.stall = Some(1.0);
        let mut bench =
            Bench { sim, sources, sinks: vec![need], random: Random::new(seed), answers: Vec::new(), cfg };
        bench.sim.set("distance", distance);
        bench.sim.set("cleared", 1);
        for group in 0..slots(&bench.cfg) / SPREAD {
            bench.sim.set("clear", group.into());
            bench.step();
        }
        bench.sim.set("cleared", 0);
        for queue in 0..20 {
            bench.life(queue, 0);
        }
        bench
    }

    fn number(&self, queue: u64) -> u64 {
        match queue.checked_sub(16) {
            None => queue,
            Some(srq) => 1 << (self.cfg.rq_bits() - 1) | srq,
        }
    }

    fn step(&mut self) {
        let Bench { sim, sources, sinks, random, .. } = self;
        step(sim, sources, sinks, random, 0.0);
        if self.sim.get("answers") == 1 {
            self.answers.push(self.sim.get("there") == 1);
        }
    }

    fn life(&mut self, queue: u64, life: u64) {
        self.sim.set("life_queue", self.number(queue));
        self.sim.set("life_life", life);
        self.sim.set("life_valid", 1);
        self.step();
        self.sim.set("life_valid", 0);
    }

    fn mark(&mut self, queue: u64, first: u64, last: u64, life: u64) {
        for (name, value) in [("queue", self.number(queue)), ("first", first), ("last", last), ("life", life)]
        {
            self.sim.set(&format!("mark_{name}"), value);
        }
        // Who reads plans until it marks, in that cycle too.
        self.sim.set("mark_valid", 1);
        self.sim.set("plans", 1);
        self.step();
        self.sim.set("mark_valid", 0);
        self.sim.set("plans", 0);
        let groups = last / 4 - first / 4 + 1;
        (0..groups + 1).for_each(|_| self.step());
        assert_eq!(self.sim.get("marking"), 0, "a group a cycle");
    }

    /// What is needed for a touch: the WQE itself, or those behind it.
    fn touch(&mut self, queue: u64, index: u64, stride: u64) -> Option<bool> {
        let queue = self.number(queue);
        let fields = [("queue", queue.into()), ("index", index.into()), ("stride", stride.into())];
        self.sources[0].push_values(&fields);
        (0..10).for_each(|_| self.step());
        let need = self.sim.get("need_valid") == 1;
        need.then(|| {
            assert_eq!((self.sim.get("need_queue"), self.sim.get("need_index")), (queue, index));
            self.sim.get("need_exact") == 1
        })
    }

    /// Takes what is needed.
    fn take(&mut self) {
        self.sinks[0].stall = Some(0.0);
        self.step();
        self.sinks[0].stall = Some(1.0);
        self.step();
    }

    fn probe(&mut self, queue: u64, unit: u64) -> bool {
        let number = self.number(queue);
        let shape = Probe::of(&self.cfg);
        self.sources[1].push(item(&shape, &[("queue", number.into()), ("unit", unit.into())]));
        let before = self.answers.len();
        (0..10).for_each(|_| self.step());
        assert_eq!(self.answers.len(), before + 1);
        self.answers[before]
    }
}

#[test]
fn what_is_marked_is_there_until_its_group_is_anothers_or_its_life_ends() {
    let mut bench = Bench::new(1, 0);
    assert_eq!(bench.touch(3, 5, 0), Some(true));
    bench.take();
    bench.mark(3, 5, 20, 0);
    for (unit, there) in [(4, false), (5, true), (7, true), (8, true), (20, true), (21, false)] {
        assert_eq!(bench.probe(3, unit), there, "unit {unit}");
    }
    assert!(!bench.probe(4, 5), "another queue's");
    assert_eq!(bench.touch(3, 20, 0), None);
    assert_eq!(bench.touch(3, 21, 0), Some(true));
    bench.take();
    // A WQE of four units has a group of its own.
    bench.mark(16, 4 * 9, 4 * 9 + 3, 0);
    assert_eq!(bench.touch(16, 9, 2), None);
    assert_eq!(bench.touch(16, 10, 2), Some(true));
    bench.take();
    bench.life(3, 1);
    assert!(!bench.probe(3, 8), "of the life before");
    bench.mark(3, 8, 9, 1);
    assert!(bench.probe(3, 8));
    let groups = u64::from(slots(&bench.cfg) / SPREAD);
    bench.mark(3, 8 + 4 * groups, 11 + 4 * groups, 1);
    assert!(!bench.probe(3, 8), "its group is that of others now");
}

#[test]
fn what_lies_ahead_is_needed_when_its_group_has_not_been_asked_for() {
    let mut bench = Bench::new(2, 16);
    bench.mark(7, 100, 103, 0);
    assert_eq!(bench.touch(7, 100, 0), None, "not before the group's last");
    assert_eq!(bench.touch(7, 103, 0), Some(false));
    bench.take();
    // Of the group ahead a part is enough: what is behind it is needed later.
    bench.mark(7, 104, 117, 0);
    bench.mark(7, 118, 119, 0);
    assert_eq!(bench.touch(7, 103, 0), None);
    assert_eq!(bench.touch(7, 105, 0), None);
    assert_eq!(bench.touch(7, 107, 0), Some(false));
    bench.take();
    // Of WQEs of two units each second one ends its group, of larger ones each.
    bench.mark(8, 40, 47, 0);
    assert_eq!(bench.touch(8, 20, 1), None);
    assert_eq!(bench.touch(8, 21, 1), Some(false));
    bench.take();
    assert_eq!(bench.touch(8, 10, 2), Some(false));
}

#[test]
fn a_need_holds_up_what_is_behind_it_until_it_is_marked() {
    let mut bench = Bench::new(3, 0);
    let mut needs = 0;
    for round in 0..200u64 {
        let first = bench.random.rng.random_range(0..60_000u64);
        let queue = round % 20;
        for index in first..first + 16u64 {
            let number = bench.number(queue);
            let fields = [("queue", number.into()), ("index", u128::from(index)), ("stride", 0u128)];
            bench.sources[0].push_values(&fields);
        }
        let mut cycles = 0;
        while bench.sources[0].left() > 0 || bench.sim.get("need_valid") == 1 {
            bench.step();
            cycles += 1;
            assert!(cycles < 100, "seed {}: it stands still", bench.random.seed);
            if bench.sim.get("need_valid") == 1 {
                let index = bench.sim.get("need_index");
                needs += 1;
                // As who reads does: plans for some cycles, then takes it and marks.
                bench.sim.set("plans", 1);
                (0..bench.random.rng.random_range(1..4)).for_each(|_| bench.step());
                bench.take();
                bench.sim.set("plans", 0);
                bench.mark(queue, index, index + 15, 0);
            }
        }
        (0..5).for_each(|_| bench.step());
    }
    assert_eq!(needs, 200, "seed {}: each burst is asked for once", bench.random.seed);
}
