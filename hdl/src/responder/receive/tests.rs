// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache of receive WQEs against host memory: whatever is wanted is what was posted last at its index.

mod overrun;

use super::*;
use crate::host::SrqControl;
use crate::testing::{item, step, Random, Sink, Source};
use crate::types::QpAttributes;
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;
use std::collections::{HashMap, VecDeque};

const QPS: usize = 8;
/// Shared queues, behind those of QPs.
const SHARED: usize = 4;

// Sources.
const DOORBELL: usize = 0;
const WANTED: usize = 1;
const DATA: usize = 2;
const TOUCH: usize = 3;
// Sinks.
const READ: usize = 0;
const RECEIVED: usize = 1;
const OVERRUN: usize = 2;

#[derive(Clone, Default)]
struct Qp {
    base: u64,
    log2: u32,
    stride: u32,
    producer: u16,
    /// Index of the oldest that is still needed.
    consumer: u16,
    /// It is a shared queue that has been overrun.
    failed: bool,
    /// What was posted, by index and unit.
    units: HashMap<(u16, u32), Vec<u8>>,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    stall: f64,
    qps: Vec<Qp>,
    memory: HashMap<u64, Vec<u8>>,
    /// Reads that host memory answers when their time has come.
    reads: VecDeque<(u64, u64, u64)>,
    latency: u64,
    cycle: u64,
    seen: usize,
    /// What was wanted: the unit, or nothing where there is none; and whether it comes with an error.
    expected: Vec<Option<Vec<u8>>>,
    errors: Vec<bool>,
    /// Where shared queues lie.
    old: Vec<std::ops::Range<u64>>,
    /// How many of those that are wanted are touched before.
    touched: f64,
    /// How many of them come with any stride.
    outdated: f64,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32, stall: f64, latency: u64) -> Bench {
        let mut bench = Bench::of(seed, beat_bytes, stall, latency, QPS);
        (0..QPS + SHARED).for_each(|queue| bench.create(queue));
        bench
    }

    /// Without queues.
    fn of(seed: u64, beat_bytes: u32, stall: f64, latency: u64, qps: usize) -> Bench {
        let config = if beat_bytes == 64 { "generic-64b" } else { "generic-8b" };
        let cfg = RnicConfig {
            beat_bytes,
            qps: qps as u32,
            srqs: SHARED as u32,
            ..RnicConfig::named(config).unwrap()
        };
        let netlist = build("bench", |m| {
            let out = receive(
                m,
                &cfg,
                m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                m.input_of("shared", &SrqControl::of(&cfg).entry),
                m.stream_in("doorbell", &RqDoorbell::of(&cfg)),
                m.stream_in("touch", &Touch::of(&cfg)),
                m.stream_in("wanted", &Wanted::of(&cfg)),
                m.stream_in("data", &DmaReadData::of(&cfg)),
                m.input_of("oldest", &Oldest::of()),
            );
            m.stream_out("read", out.read);
            m.stream_out("received", out.received);
            m.output("posted", &out.posted);
            m.output("flush", &out.flush);
            m.output("unread", &out.unread);
            m.output("busy", &out.busy);
            m.output("ask", &out.ask);
            m.stream_out("overrun", out.overruns);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = vec![
            Source::new("doorbell", &RqDoorbell::of(&cfg)),
            Source::new("wanted", &Wanted::of(&cfg)),
            Source::new("data", &DmaReadData::of(&cfg)),
            Source::new("touch", &Touch::of(&cfg)),
        ];
        let sinks = vec![
            Sink::new("read", &DmaReadRequest::of()),
            Sink::new("received", &Received::of(&cfg)),
            Sink::new("overrun", &bits(cfg.rq_bits())),
        ];
        let mut bench = Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            stall,
            qps: vec![Qp::default(); qps + SHARED],
            memory: HashMap::new(),
            reads: VecDeque::new(),
            latency,
            cycle: 0,
            seen: 0,
            expected: Vec::new(),
            errors: Vec::new(),
            old: vec![0..0; qps + SHARED],
            touched: 0.8,
            outdated: 0.0,
        };
        for _ in 0..slots(&bench.cfg) + 20 {
            bench.step();
        }
        bench
    }

    fn step(&mut self) {
        let beat = u64::from(self.cfg.beat_bytes);
        while let Some(read) = self.sinks[READ].items.get(self.seen) {
            self.seen += 1;
            let (address, length) = (read["address"].to_u64(), read["length"].to_u64());
            assert_eq!(address / 4096, (address + length - 1) / 4096, "within a page");
            self.reads.push_back((self.cycle + self.latency, address, length));
        }
        while self.reads.front().is_some_and(|(due, ..)| *due <= self.cycle) {
            let (_, address, length) = self.reads.pop_front().unwrap();
            for at in (address..address + length).step_by(beat as usize) {
                let unit = self.memory.get(&(at / 64 * 64)).unwrap_or_else(|| {
                    panic!("seed {}: {at:#x} is read, where nothing was posted", self.random.seed)
                });
                let from = (at % 64) as usize;
                let last = [("last", u128::from(at + beat == address + length))];
                let mut data = item(&DmaReadData::of(&self.cfg), &last);
                let bytes = &unit[from..from + beat as usize];
                data.insert("data".into(), Bits::from_bytes(8 * self.cfg.beat_bytes, bytes));
                self.sources[DATA].push(data);
            }
        }
        let asked = (self.sim.get("ask_valid") == 1).then(|| self.sim.get("ask_queue"));
        let Bench { sim, sources, sinks, random, stall, .. } = self;
        step(sim, sources, sinks, random, *stall);
        self.cycle += 1;
        // How far a queue is comes in the cycle behind the question only, and from its owner only.
        let mut oldest = [0, 1].map(|_| self.random.rng.random::<u16>());
        if let Some(queue) = asked {
            let (shared, of) =
                (queue >> (self.cfg.rq_bits() - 1), queue as usize & (self.cfg.qps as usize - 1));
            oldest[shared as usize] = self.qps[of + shared as usize * self.cfg.qps as usize].consumer;
        }
        for (name, value) in ["done", "taken"].iter().zip(oldest) {
            self.sim.set(&format!("oldest_{name}"), value.into());
        }
    }

    /// An empty queue of some size, in RESET.
    fn create(&mut self, qp: usize) {
        let stride = self.random.rng.random_range(0..3);
        self.create_of(qp, stride);
    }

    fn create_of(&mut self, qp: usize, stride: u32) {
        let log2 = self.random.rng.random_range(3..9);
        self.create_sized(qp, log2, stride);
    }

    fn create_sized(&mut self, qp: usize, log2: u32, stride: u32) {
        let bytes = 64u64 << log2 << stride;
        let base = self.random.rng.random_range(1..1u64 << 40) * bytes.max(4096);
        self.qps[qp] = Qp { base, log2, stride, ..Qp::default() };
        if qp >= self.cfg.qps as usize {
            return self.create_shared(qp);
        }
        let fields = [("rq_base", base.into()), ("rq_log2", log2.into()), ("rq_stride", u128::from(stride))];
        for (path, bits) in item(&QpAttributes::of(&self.cfg), &fields) {
            self.sim.set_bits(&format!("broadcast_attributes_entry_{path}"), &bits);
        }
        for port in ["attributes", "state"] {
            self.sim.set(&format!("broadcast_{port}_index"), qp as u64);
            self.sim.set(&format!("broadcast_{port}_enable"), 1);
        }
        self.sim.set("broadcast_state_entry", u64::from(QpState::Reset.code()));
        self.step();
        for port in ["attributes", "state"] {
            self.sim.set(&format!("broadcast_{port}_enable"), 0);
        }
        let mut cycles = 0;
        while (self.sim.get("unread_valid"), self.sim.get("unread_qp")) != (1, qp as u64) {
            self.step();
            cycles += 1;
            assert!(cycles < 40_000, "seed {}: the queue does not end", self.random.seed);
        }
        self.is_gone(qp);
        self.state(qp, QpState::Init);
    }

    /// From here on a queue's former memory may be gone.
    fn is_gone(&mut self, queue: usize) {
        let Qp { base, log2, stride, .. } = self.qps[queue];
        let old = std::mem::replace(&mut self.old[queue], base..base + (64u64 << log2 << stride));
        let asked = self.sinks[READ].items[self.seen..].iter().map(|read| read["address"].to_u64());
        let mut reads = asked.chain(self.reads.iter().map(|(_, at, _)| *at));
        assert!(reads.all(|at| !old.contains(&at)), "seed {}: it is still read", self.random.seed);
    }

    /// A QP is in another state.
    fn state(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", u64::from(state.code()));
        self.sim.set("broadcast_state_enable", 1);
        self.step();
        self.sim.set("broadcast_state_enable", 0);
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| self.step());
    }

    /// The same of a shared queue: it ends, and then it begins anew.
    fn create_shared(&mut self, queue: usize) {
        let Qp { base, log2, stride, .. } = self.qps[queue].clone();
        let srq = queue - self.cfg.qps as usize;
        self.sim.set("shared_index", srq as u64);
        for (valid, [base, log2, stride]) in [(0, [0; 3]), (1, [base, u64::from(log2), u64::from(stride)])] {
            for (name, value) in [("valid", valid), ("base", base), ("log2", log2), ("stride", stride)] {
                self.sim.set(&format!("shared_entry_{name}"), value);
            }
            self.sim.set("shared_enable", 1);
            self.step();
            self.sim.set("shared_enable", 0);
            let mut cycles = 0;
            while self.sim.get("busy") == 1 {
                self.step();
                cycles += 1;
                assert!(cycles < 20_000, "seed {}: the queue does not end", self.random.seed);
            }
            if valid == 0 {
                self.is_gone(queue);
            }
        }
    }

    fn number(&self, queue: usize) -> u128 {
        match queue.checked_sub(self.cfg.qps as usize) {
            None => queue as u128,
            Some(srq) => 1 << (self.cfg.rq_bits() - 1) | srq as u128,
        }
    }

    fn post(&mut self, qp: usize, count: u16) {
        let q = &mut self.qps[qp];
        let free = (1u16 << q.log2) - q.producer.wrapping_sub(q.consumer);
        for _ in 0..count.min(free) {
            let place = u64::from(q.producer) & ((1 << q.log2) - 1);
            for part in 0..1 << q.stride {
                let unit = self.random.bytes(64);
                self.memory.insert(q.base + 64 * ((place << q.stride) + u64::from(part)), unit.clone());
                q.units.insert((q.producer, part), unit);
            }
            q.producer = q.producer.wrapping_add(1);
        }
        let producer = q.producer;
        self.ring(qp, producer);
    }

    fn ring(&mut self, queue: usize, producer: u16) {
        let fields = [("queue", self.number(queue)), ("producer", producer.into())];
        self.sources[DOORBELL].push_values(&fields);
        // Who wants what has been posted knows that the doorbell has come.
        while self.sources[DOORBELL].left() > 0 {
            self.step();
        }
        (0..8).for_each(|_| self.step());
    }

    fn want(&mut self, qp: usize, index: u16) {
        let q = &self.qps[qp];
        // Of the largest queue all may be.
        let posted = (1..=1 << 15).contains(&q.producer.wrapping_sub(index));
        let (grain, pieces) = (grain(&self.cfg) as usize, (UNIT / grain(&self.cfg)) as usize);
        let part = self.random.rng.random_range(0..pieces << q.stride);
        let stride = q.stride;
        let piece = |unit: &Vec<u8>| unit[part % pieces * grain..][..grain].to_vec();
        self.expected.push(posted.then(|| piece(&q.units[&(index, (part / pieces) as u32)])));
        self.errors.push(q.failed);
        if posted && self.random.chance(self.touched) {
            let fields = [("queue", self.number(qp)), ("index", index.into()), ("stride", stride.into())];
            self.sources[TOUCH].push_values(&fields);
        }
        // Who wants it may have its queue's stride from a former life.
        let told = match self.random.chance(self.outdated) {
            true => self.random.rng.random_range(0..4),
            false => stride,
        };
        let fields = [
            ("queue", self.number(qp)),
            ("index", index.into()),
            ("part", part as u128),
            ("stride", told.into()),
        ];
        self.sources[WANTED].push_values(&fields);
    }

    fn settle(&mut self) {
        let mut cycles = 0;
        while self.sinks[RECEIVED].items.len() < self.expected.len() {
            self.step();
            cycles += 1;
            assert!(cycles < 200_000, "seed {}: it stands still", self.random.seed);
        }
    }

    fn check(&mut self) {
        self.settle();
        for (i, (found, expected)) in self.sinks[RECEIVED].items.iter().zip(&self.expected).enumerate() {
            match expected {
                Some(piece) => {
                    assert_eq!(found["void"].to_u64(), 0, "seed {}, {i}", self.random.seed);
                    let error = u64::from(self.errors[i]);
                    assert_eq!(found["error"].to_u64(), error, "seed {}, {i}", self.random.seed);
                    assert_eq!(found["piece"].to_bytes(), *piece, "seed {}, {i}", self.random.seed);
                }
                None => assert_eq!(found["void"].to_u64(), 1, "seed {}, {i}", self.random.seed),
            }
        }
    }
}

#[test]
fn what_is_wanted_is_what_was_posted_through_many_lives() {
    for (seed, beat_bytes, stall, latency) in [(1, 64, 0.0, 5), (2, 8, 0.0, 120), (3, 64, 0.3, 60)] {
        let mut bench = Bench::new(seed, beat_bytes, stall, latency);
        bench.outdated = 0.1;
        for _ in 0..2500 {
            let qp = bench.random.rng.random_range(0..QPS + SHARED);
            match bench.random.rng.random_range(0..100) {
                0..40 => {
                    let count = bench.random.rng.random_range(1..12);
                    bench.post(qp, count);
                }
                40..95 => {
                    // The packets of some messages: each wants the same WQE a few times.
                    for _ in 0..bench.random.rng.random_range(1..8) {
                        let q = &bench.qps[qp];
                        let (index, left) = (q.consumer, q.producer.wrapping_sub(q.consumer));
                        for _ in 0..bench.random.rng.random_range(1..3) {
                            bench.want(qp, index);
                        }
                        bench.settle();
                        if left > 0 {
                            bench.qps[qp].consumer = index.wrapping_add(1);
                        }
                    }
                }
                95..97 => {
                    bench.settle();
                    bench.create(qp);
                }
                _ => (0..bench.random.rng.random_range(0..300)).for_each(|_| bench.step()),
            }
        }
        bench.check();
    }
}

#[test]
fn a_queue_alone_gets_a_wqe_every_four_cycles_whatever_the_latency() {
    for (latency, queue) in [(0, 3), (250, 3), (0, QPS + 3), (250, QPS + 3)] {
        let mut bench = Bench::new(4, 64, 0.0, latency);
        bench.touched = 1.0;
        while bench.qps[queue].log2 < 8 || bench.qps[queue].stride > 0 {
            bench.create_of(queue, 0);
        }
        // A message takes its WQE when its first packet comes, and the host posts another when it is done.
        for round in 0..6 {
            if round == 0 {
                bench.post(queue, 256);
            }
            let from = bench.qps[queue].consumer;
            for i in 0..64 {
                bench.want(queue, from.wrapping_add(i));
                (0..3).for_each(|_| bench.step());
            }
            bench.settle();
            bench.qps[queue].consumer = from.wrapping_add(64);
            bench.post(queue, 64);
        }
        bench.check();
        let cycles = &bench.sinks[RECEIVED].cycles;
        // The pauses between the rounds are the test's own.
        for round in 1..6 {
            let each = (cycles[64 * round + 63] - cycles[64 * round]) as f64 / 63.0;
            println!("queue {queue}, round {round}: {each:.2} cycles at {latency}");
            assert!(each <= 4.0, "queue {queue}, round {round}: {each} cycles at {latency}");
        }
    }
}

#[test]
fn slots_are_cleared_before_the_number_of_a_life_comes_again() {
    // Of two, the second comes to half of its numbers while the slots of the first are looked through.
    for queues in [vec![2], vec![QPS + 2], vec![2, 3], vec![3, QPS + 1]] {
        let mut bench = Bench::new(5, 64, 0.0, 3);
        for life in 0..140u64 {
            queues.iter().for_each(|queue| bench.create(*queue));
            for &queue in &queues {
                bench.want(queue, 0);
                bench.check();
                bench.post(queue, 1);
                for _ in 0..30 {
                    bench.step();
                }
                bench.want(queue, 0);
                bench.check();
                assert!(!bench.expected.is_empty(), "queue {queue}, life {life}");
            }
        }
    }
}

/// Of several queues, too, that come to half of their numbers one behind the other.
#[test]
fn others_get_their_wqes_while_slots_are_looked_through() {
    for queues in [vec![2], vec![2, 3, QPS + 1]] {
        let mut bench = Bench::new(9, 64, 0.0, 3);
        bench.create_sized(1, 8, 0);
        bench.post(1, 256);
        let mut longest = 0;
        for life in 0..70 {
            for &queue in &queues {
                let got = bench.sinks[RECEIVED].items.len();
                (0..60).for_each(|i| bench.want(1, (life + i) % 256));
                bench.create(queue);
                bench.settle();
                let cycles = &bench.sinks[RECEIVED].cycles[got..];
                assert_eq!(cycles.len(), 60, "life {life}");
                longest = longest.max(cycles.windows(2).map(|w| w[1] - w[0]).max().unwrap());
            }
        }
        bench.check();
        assert!(longest < 100, "{longest} cycles with {} queues", queues.len());
    }
}

/// Half of the numbers are used in less time than it takes to look through the slots.
#[test]
fn lives_that_follow_one_another_at_once_find_nothing_of_those_before() {
    let mut bench = Bench::new(11, 64, 0.0, 3);
    bench.touched = 0.0;
    bench.create_sized(2, 7, 0);
    // Its slot is the last one.
    let index = 87;
    for _ in 0..4 {
        bench.latency = 60;
        bench.post(2, index + 1);
        bench.want(2, index);
        bench.check();
        bench.latency = 3;
        bench.steps(300);
        let from = bench.cycle;
        for _ in 0..1 << LIFE_BITS {
            bench.state(2, QpState::Reset);
            bench.steps(16);
            bench.state(2, QpState::Init);
            bench.step();
        }
        let half = (bench.cycle - from) / 2;
        assert!(half < 3 * u64::from(slots(&bench.cfg)), "{half} cycles");
        let Qp { base, log2, .. } = bench.qps[2];
        bench.qps[2] = Qp { base, log2, ..Qp::default() };
    }
}

/// It comes when the slots have been looked through, and its number when the life of as many later has posted anew.
#[test]
fn what_was_read_for_long_is_not_taken_for_that_of_a_later_life() {
    let mut bench = Bench::new(10, 64, 0.0, 3);
    bench.touched = 0.0;
    let lives = 1u32 << LIFE_BITS;
    // `new` and the first of these are lives, too: the last one before half of the numbers have been used.
    let (sized, before) = (|bench: &mut Bench| bench.create_sized(2, 4, 0), lives / 2 - 2);
    (0..before).for_each(|_| sized(&mut bench));
    bench.latency = 30_000;
    bench.post(2, 1);
    bench.latency = 3;
    assert_eq!(bench.reads.len(), 1, "it is being read");
    sized(&mut bench);
    while !bench.reads.is_empty() || bench.sources[DATA].left() > 0 {
        bench.step();
    }
    (0..lives - 1).for_each(|_| sized(&mut bench));
    // It is found at once, or not at all.
    bench.latency = 60;
    bench.post(2, 1);
    bench.want(2, 0);
    bench.check();
}

/// Messages come in bursts of one queue pair after the other, and are told of as far ahead as the responder does.
fn cycles_each(qps: usize, used: usize, burst: usize, rounds: usize, latency: u64) -> f64 {
    let mut bench = Bench::of(6, 64, 0.0, latency, qps);
    bench.touched = 1.0;
    let each = (burst * rounds).next_power_of_two();
    let log2 = each.trailing_zeros().max(3);
    for qp in 0..used {
        bench.create_sized(qp, log2, 0);
        bench.post(qp, (burst * rounds) as u16);
    }
    for _ in 0..rounds {
        for qp in 0..used {
            for _ in 0..burst {
                // Between the touch and the place of a message are 128 others at most.
                while bench.sources[WANTED].left() >= 128 {
                    bench.step();
                }
                let index = bench.qps[qp].consumer;
                bench.want(qp, index);
                bench.qps[qp].consumer = index + 1;
            }
        }
    }
    bench.check();
    let cycles = &bench.sinks[RECEIVED].cycles;
    // First it must turn out how many are in use.
    let (from, to) = (cycles.len() / 2, cycles.len() * 7 / 8);
    (cycles[to] - cycles[from]) as f64 / (to - from) as f64
}

#[test]
fn many_queues_get_a_wqe_every_three_cycles() {
    let mut slow = false;
    for (latency, used, burst, rounds) in
        [(0, 2, 16, 12), (250, 2, 16, 12), (250, 16, 1, 64), (250, 64, 16, 12), (250, 64, 4, 48)]
    {
        let each = cycles_each(1024, used, burst, rounds, latency);
        let what = format!("{used} queue pairs, bursts of {burst}, latency {latency}");
        println!("{what}: {each:.2} cycles each");
        slow |= each > 3.0;
    }
    assert!(!slow);
}

#[test]
fn what_a_message_waits_for_is_read_at_once_though_much_is_read_ahead() {
    // Of this many slots no two of these queues have the same.
    let mut bench = Bench::of(7, 64, 0.0, 0, 1024);
    bench.touched = 1.0;
    let late = 16;
    for qp in 0..=late {
        bench.create_sized(qp, 7, 0);
        bench.post(qp, if qp == late { 8 } else { 128 });
    }
    // From now on nothing comes back from host memory for a while. The last of a group looks for more behind it.
    bench.latency = 4000;
    (0..late).for_each(|qp| (0..4).for_each(|index| bench.want(qp, index)));
    (0..1000).for_each(|_| bench.step());
    let ahead = bench.sinks[READ].items.len();
    bench.want(late, 4);
    (0..60).for_each(|_| bench.step());
    let reads: Vec<u64> = bench.sinks[READ].items.iter().map(|read| read["address"].to_u64()).collect();
    let sought = bench.qps[late].base + 4 * 64;
    assert!(reads[ahead..].contains(&sought), "{sought:#x} is not among {:x?}", &reads[ahead..]);
    assert!(ahead > late + 2, "{ahead} reads, none of them ahead");
    bench.check();
}

#[test]
fn a_look_that_missed_asks_in_whatever_cycles_a_need_stands() {
    for (beat_bytes, k) in [8, 64].into_iter().flat_map(|beat| (0..16).map(move |k| (beat, k))) {
        let mut bench = Bench::of(3 + k, beat_bytes, 0.0, 600, QPS);
        bench.touched = 0.0;
        (0..QPS).for_each(|qp| bench.create_sized(qp, 8, 0));
        // WQE 8 of queue 1 and WQE 236 of queue 0 have the same slot.
        bench.post(0, 237);
        bench.post(1, 9);
        (2..QPS).for_each(|qp| bench.post(qp, 256));
        bench.steps(3000);
        let touch = |bench: &mut Bench, qp: usize, index: u16| {
            let fields = [("queue", bench.number(qp)), ("index", index.into()), ("stride", 0)];
            bench.sources[TOUCH].push_values(&fields);
        };
        touch(&mut bench, 1, 8);
        bench.steps(60);
        bench.want(1, 8);
        bench.steps(40);
        touch(&mut bench, 0, 236);
        bench.steps(60);
        assert_eq!(bench.reads.len(), 2);
        // The two arrive one after the other, so the first may be replaced before the look sees it. Then others need more than there is room for.
        let due = bench.cycle + 20 + k;
        bench.reads.iter_mut().for_each(|read| read.0 = due);
        for _ in 0..3000 {
            let (qp, index) = (bench.random.rng.random_range(2..QPS), bench.random.rng.random_range(8..250));
            touch(&mut bench, qp, index);
        }
        let mut cycles = 0;
        while bench.sinks[RECEIVED].items.is_empty() {
            bench.step();
            cycles += 1;
            assert!(cycles < 10_000, "{beat_bytes}, {k}: it waits for ever");
        }
        bench.check();
    }
}
