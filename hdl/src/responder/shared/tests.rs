// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared receive queues against a small model: who takes what, and when few are left.

use super::*;
use crate::testing::{step, Random, Sink};
use ferrowire_rtl::{build, Sim};
use rand::Rng;

const SRQS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Queue {
    exists: bool,
    pd: u64,
    stride: u64,
    taken: u16,
    posted: u16,
    limit: u16,
}

impl Queue {
    fn left(&self) -> u16 {
        self.posted.wrapping_sub(self.taken)
    }
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sinks: [Sink; 1],
    random: Random,
    queues: [Queue; SRQS],
    /// Times that a limit was passed, by queue.
    passed: [u64; SRQS],
}

fn bench(seed: u64) -> Bench {
    let cfg = RnicConfig { srqs: SRQS as u32, ..RnicConfig::named("generic-8b").unwrap() };
    let netlist = build("top", |m| {
        let control = m.input_of("control", &SrqControl::of(&cfg));
        let posted = TableWrite { enable: bits(1), index: bits(cfg.rq_bits()), entry: bits(16) };
        let posted = m.input_of("posted", &posted);
        let take = m.input_of("take", &Take::of(&cfg));
        let out = shared(m, &cfg, control, posted, take, m.input("ask", cfg.srq_bits()));
        m.output("taken", &out.taken);
        m.output("seen", &out.seen);
        m.output("status", &out.status);
        m.stream_out("report", out.reports);
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    let sinks = [Sink::new("report", &Report::of())];
    let mut bench = Bench {
        cfg,
        sim,
        sinks,
        random: Random::new(seed),
        queues: Default::default(),
        passed: Default::default(),
    };
    (0..SRQS + 4).for_each(|_| bench.step());
    bench
}

impl Bench {
    fn step(&mut self) {
        step(&mut self.sim, &mut [], &mut self.sinks, &mut self.random, 0.0);
    }

    fn pulse(&mut self, port: &str) {
        self.sim.set(port, 1);
        self.step();
        self.sim.set(port, 0);
    }

    fn create(&mut self, srq: usize, exists: bool, limit: u16) {
        let pd = self.random.rng.random_range(0..1 << 24);
        let stride = self.random.rng.random_range(0..3);
        self.queues[srq] = Queue { exists, pd, stride, limit, ..Queue::default() };
        for (field, value) in [("valid", u64::from(exists)), ("pd", pd), ("stride", stride)] {
            self.sim.set(&format!("control_entry_entry_{field}"), value);
        }
        self.sim.set("control_entry_index", srq as u64);
        self.sim.set("control_limit_index", srq as u64);
        self.sim.set("control_limit_entry", limit.into());
        self.sim.set("control_limit_enable", exists.into());
        self.pulse("control_entry_enable");
        self.sim.set("control_limit_enable", 0);
        // What was on offer of the life before.
        (0..8).for_each(|_| self.step());
        self.passed[srq] = self.told(srq);
        self.post(srq, 0);
    }

    fn told(&self, srq: usize) -> u64 {
        self.sinks[0].values("object").into_iter().filter(|object| *object == srq as u64).count() as u64
    }

    fn post(&mut self, srq: usize, count: u16) {
        let queue = &mut self.queues[srq];
        queue.posted = queue.posted.wrapping_add(count);
        let number = 1 << (self.cfg.rq_bits() - 1) | srq as u64;
        self.sim.set("posted_index", number);
        self.sim.set("posted_entry", queue.posted.into());
        self.pulse("posted_enable");
        // Those of queue pairs are not its business.
        self.sim.set("posted_index", srq as u64);
        self.sim.set("posted_entry", 0xdead);
        self.pulse("posted_enable");
    }

    fn low(&mut self, srq: usize) {
        let queue = &mut self.queues[srq];
        if queue.left() < queue.limit {
            queue.limit = 0;
            self.passed[srq] += 1;
        }
    }

    fn arm(&mut self, srq: usize, limit: u16) {
        self.sim.set("control_limit_index", srq as u64);
        self.sim.set("control_limit_entry", limit.into());
        self.pulse("control_limit_enable");
        self.queues[srq].limit = limit;
        self.low(srq);
    }

    fn take(&mut self, srq: usize) {
        let queue = self.queues[srq];
        self.sim.set("take_srq", srq as u64);
        let seed = self.random.seed;
        let see = |sim: &mut Sim, field: &str| sim.get(&format!("seen_{field}"));
        assert_eq!(see(&mut self.sim, "ready"), u64::from(queue.left() > 0), "seed {seed}");
        assert_eq!(see(&mut self.sim, "index"), u64::from(queue.taken), "seed {seed}");
        assert_eq!(see(&mut self.sim, "pd"), queue.pd, "seed {seed}");
        assert_eq!(see(&mut self.sim, "stride"), queue.stride, "seed {seed}");
        if queue.left() == 0 {
            return;
        }
        self.step();
        self.pulse("take_valid");
        self.queues[srq].taken = queue.taken.wrapping_add(1);
        self.low(srq);
    }
}

#[test]
fn messages_take_receives_in_order_and_a_limit_is_told_once() {
    for seed in 1..6 {
        let mut bench = bench(seed);
        (0..SRQS).for_each(|srq| bench.create(srq, true, 3));
        let mut limits = 0;
        for _ in 0..4000 {
            let srq = bench.random.rng.random_range(0..SRQS);
            let queue = bench.queues[srq];
            match bench.random.rng.random_range(0..100) {
                0..12 if queue.exists => {
                    let count = bench.random.rng.random_range(1..12);
                    bench.post(srq, count);
                }
                25..35 if queue.exists => {
                    let limit = bench.random.rng.random_range(0..9);
                    // The next take may come in the very next cycle.
                    bench.arm(srq, limit);
                    if bench.random.chance(0.5) {
                        bench.take(srq);
                    }
                    (0..12).for_each(|_| bench.step());
                    limits += 1;
                }
                35..36 => {
                    bench.step();
                    (0..10).for_each(|_| bench.step());
                    let limit = bench.random.rng.random_range(0..4);
                    bench.create(srq, !queue.exists, limit * u16::from(!queue.exists));
                }
                36..95 if queue.exists => bench.take(srq),
                _ => (0..bench.random.rng.random_range(0..9)).for_each(|_| bench.step()),
            }
            if bench.random.chance(0.05) {
                (0..8).for_each(|_| bench.step());
                for srq in 0..SRQS {
                    assert_eq!(bench.told(srq), bench.passed[srq], "seed {seed}, queue {srq}");
                    bench.sim.set("control_query", srq as u64);
                    bench.sim.set("ask", srq as u64);
                    bench.step();
                    let queue = bench.queues[srq];
                    assert_eq!(bench.sim.get("taken"), u64::from(queue.taken), "seed {seed}, queue {srq}");
                    for (name, due) in
                        [("taken", queue.taken), ("posted", queue.posted), ("limit", queue.limit)]
                    {
                        let got = bench.sim.get(&format!("status_{name}"));
                        assert_eq!(got, u64::from(due), "seed {seed}, queue {srq}: {name}");
                    }
                }
            }
        }
        let told = bench.sinks[0].items.len();
        assert!(told > 50 && limits > 50, "seed {seed}: {told} of {limits}");
        let kinds = bench.sinks[0].values("kind");
        assert!(kinds.iter().all(|kind| *kind == u64::from(EventKind::SrqLimit.code())));
    }
}

#[test]
fn an_arming_tells_at_once_what_was_true_before_and_a_creation_does_not() {
    let mut bench = bench(9);
    bench.create(1, true, 5);
    (0..20).for_each(|_| bench.step());
    assert_eq!(bench.told(1), 0);
    bench.arm(1, 5);
    (0..20).for_each(|_| bench.step());
    assert_eq!(bench.told(1), 1);
    // It is told once, and not at all where the limit is taken back.
    bench.post(1, 9);
    (0..6).for_each(|_| bench.take(1));
    (0..20).for_each(|_| bench.step());
    assert_eq!(bench.told(1), 1);
    bench.arm(1, 2);
    (0..12).for_each(|_| bench.step());
    bench.arm(1, 0);
    (0..3).for_each(|_| bench.take(1));
    (0..20).for_each(|_| bench.step());
    assert_eq!(bench.told(1), 1);
}
