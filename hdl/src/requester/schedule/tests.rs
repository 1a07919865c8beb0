// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler against what its page promises, with eight QPs that are rung, rewound, broken and started anew.

use super::*;
use crate::testing::{item, step, Random, Sink, Source};
use crate::types::QpAttributes;
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;

const QPS: usize = 8;

fn config() -> RnicConfig {
    RnicConfig { qps: QPS as u32, outstanding_per_qp: 16, ..RnicConfig::named("generic-8b").unwrap() }
}

fn oldest_shape(cfg: &RnicConfig) -> TableWrite<Sig> {
    TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: bits(16) }
}

// Sources.
const INIT: usize = 0;
const DOORBELL: usize = 1;
const REWIND: usize = 2;
const KICK: usize = 3;
// Sinks.
const READ: usize = 0;
const GRANT: usize = 1;
const FLUSH: usize = 2;

/// What the tests know of a QP.
#[derive(Clone, Default)]
struct Qp {
    base: u64,
    log2: u32,
    state: u8,
    /// The newest doorbell's.
    producer: u16,
    /// What the next grant begins with, unless a rewind comes before it.
    due: u16,
    /// A rewind that has been asked for: a grant must begin there.
    rewind: Option<u16>,
    oldest: u16,
}

impl Qp {
    /// No index from here on is forgotten.
    fn floor(&self) -> u16 {
        let ahead = |index: u16| index.wrapping_sub(self.oldest);
        ahead(self.rewind.unwrap_or(self.due)).min(ahead(self.due))
    }
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    stall: f64,
    qps: Vec<Qp>,
    /// Places that the tests hold.
    places: u32,
    returning: f64,
    last_qp: usize,
    seen: usize,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let cfg = config();
        let netlist = build("bench", |m| {
            let out = schedule(
                m,
                &cfg,
                m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                m.stream_in("init", &QpInit::of(&cfg)),
                m.stream_in("doorbell", &SqDoorbell::of(&cfg)),
                m.stream_in("rewind", &Rewind::of(&cfg)),
                m.stream_in("kick", &bits(cfg.qp_bits())),
                m.input_of("oldest", &oldest_shape(&cfg)),
                m.input("returned", 1),
            );
            m.stream_out("read", out.read);
            m.stream_out("grant", out.grants);
            m.stream_out("flush", out.flush);
            m.output("waiting", &out.waiting);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = vec![
            Source::new("init", &QpInit::of(&cfg)),
            Source::new("doorbell", &SqDoorbell::of(&cfg)),
            Source::new("rewind", &Rewind::of(&cfg)),
            Source::new("kick", &bits(cfg.qp_bits())),
        ];
        let sinks = vec![
            Sink::new("read", &DmaReadRequest::of()),
            Sink::new("grant", &Grant::of(&cfg)),
            Sink::new("flush", &Flush::of(&cfg)),
        ];
        let mut bench = Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            stall: 0.0,
            qps: vec![Qp::default(); QPS],
            places: 0,
            returning: 0.5,
            last_qp: 0,
            seen: 0,
        };
        for qp in 0..QPS {
            bench.start(qp);
        }
        bench
    }

    /// A QP with a queue of some size, from nothing to RTS.
    fn start(&mut self, qp: usize) {
        let rng = &mut self.random.rng;
        let log2 = rng.random_range(5..9);
        let bytes = 64u64 << log2;
        // A queue lies on a multiple of its size, or of a page.
        let base = rng.random_range(1..1u64 << 40) * bytes.max(4096);
        self.qps[qp] = Qp { base, log2, ..Qp::default() };
        let fields = [("sq_base", u128::from(base)), ("sq_log2", u128::from(log2))];
        for (path, bits) in item(&QpAttributes::of(&self.cfg), &fields) {
            self.sim.set_bits(&format!("broadcast_attributes_entry_{path}"), &bits);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.oldest(qp, 0);
        self.sim.set("broadcast_attributes_enable", 0);
        self.sources[INIT].push_values(&[("qp", qp as u128), ("psn", 5)]);
        for _ in 0..50 {
            self.step();
        }
        assert_eq!(self.sources[INIT].left(), 0, "seed {}", self.random.seed);
        self.state(qp, QpState::Rts);
    }

    /// The completer's oldest moves.
    fn oldest(&mut self, qp: usize, index: u16) {
        self.qps[qp].oldest = index;
        self.sim.set("oldest_index", qp as u64);
        self.sim.set("oldest_entry", index.into());
        self.sim.set("oldest_enable", 1);
        self.step();
        self.sim.set("oldest_enable", 0);
    }

    fn state(&mut self, qp: usize, state: QpState) {
        self.qps[qp].state = state.code();
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.sim.set("broadcast_state_enable", 1);
        self.step();
        self.sim.set("broadcast_state_enable", 0);
    }

    /// Rings for `more` WQEs, as far as the ring has room.
    fn ring(&mut self, qp: usize, more: u16) {
        let q = &mut self.qps[qp];
        let room = (1u16 << q.log2) - q.producer.wrapping_sub(q.oldest);
        q.producer = q.producer.wrapping_add(more.min(room));
        self.sources[DOORBELL].push_values(&[("qp", qp as u128), ("producer", q.producer.into())]);
    }

    fn step(&mut self) {
        let returned = self.places > 0 && self.random.chance(self.returning);
        self.places -= u32::from(returned);
        self.sim.set("returned", returned.into());
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        while self.seen < self.sinks[GRANT].items.len() {
            self.grant();
            self.seen += 1;
        }
    }

    /// A grant came: everything that is promised of it.
    fn grant(&mut self) {
        let seed = self.random.seed;
        let values = |field: &str| self.sinks[GRANT].items[self.seen][field].to_u64();
        let (qp, index, count) = (values("qp") as usize, values("index") as u16, values("count") as u16);
        let differs = values("differs") == 1;
        let q = &mut self.qps[qp];
        let what =
            format!("seed {seed}: QP {qp}, {count} WQEs from {index}, of {} to {}", q.oldest, q.producer);
        assert!((1..=self.cfg.fetch_batch as u16).contains(&count), "{what}");
        // In order, each once, unless the QP was rewound.
        if q.due != index {
            assert_eq!(q.rewind.take(), Some(index), "{what}: {} was due", q.due);
        }
        q.due = index.wrapping_add(count);
        let ahead = q.due.wrapping_sub(q.oldest);
        assert!(ahead <= q.producer.wrapping_sub(q.oldest), "{what}: past the producer");
        assert!(ahead <= self.cfg.outstanding_per_qp as u16, "{what}: too many under way");
        assert_eq!(differs, qp != self.last_qp, "{what}");
        self.last_qp = qp;
        self.places += u32::from(count);
        assert!(self.places <= wqe_places(&self.cfg), "{what}: no place");
    }

    /// The reads are those of the grants.
    fn check_reads(&self, bases: impl Fn(usize) -> (u64, u32)) {
        assert_eq!(self.sinks[READ].items.len(), self.sinks[GRANT].items.len());
        for (read, grant) in self.sinks[READ].items.iter().zip(&self.sinks[GRANT].items) {
            let (base, log2) = bases(grant["qp"].to_u64() as usize);
            let (slot, count) = (grant["index"].to_u64() % (1 << log2), grant["count"].to_u64());
            let (address, length) = (read["address"].to_u64(), read["length"].to_u64());
            assert_eq!((address, length), (base + 64 * slot, 64 * count), "seed {}", self.random.seed);
            assert!(slot + count <= 1 << log2, "seed {}: past the queue's end", self.random.seed);
            assert!(address % 4096 + length <= 4096, "seed {}: across a page", self.random.seed);
        }
    }

    /// Runs until nothing more can be granted, with everybody kicked.
    fn settle(&mut self) {
        (self.stall, self.returning) = (0.1, 1.0);
        let served = |q: &Qp| q.state != QpState::Rts.code() || (q.due == q.producer && q.rewind.is_none());
        for turn in 0..100 {
            if turn > 2 && self.qps.iter().all(served) {
                break;
            }
            for qp in 0..QPS {
                let floor = self.qps[qp].floor();
                let oldest = self.qps[qp].oldest.wrapping_add(floor);
                self.oldest(qp, oldest);
                self.sources[KICK].push_values(&[("", qp as u128)]);
            }
            for _ in 0..60 {
                self.step();
            }
        }
        for _ in 0..100 {
            self.step();
        }
        assert!(self.sources.iter().all(|s| s.left() == 0), "seed {}", self.random.seed);
    }
}

#[test]
fn every_wqe_is_granted_once_in_order_within_all_limits() {
    for seed in 1..=4 {
        let mut bench = Bench::new(seed);
        for _ in 0..400 {
            if bench.random.chance(0.05) {
                bench.stall = [0.0, 0.3, 0.8][bench.random.rng.random_range(0..3)];
                bench.returning = [0.05, 0.5, 1.0][bench.random.rng.random_range(0..3)];
            }
            let qp = bench.random.rng.random_range(0..QPS);
            match bench.random.rng.random_range(0..10) {
                0..=3 => {
                    let more = bench.random.rng.random_range(0..30);
                    bench.ring(qp, more);
                }
                4 | 5 => {
                    let by = bench.random.rng.random_range(0..=bench.qps[qp].floor());
                    let oldest = bench.qps[qp].oldest.wrapping_add(by);
                    bench.oldest(qp, oldest);
                    bench.sources[KICK].push_values(&[("", qp as u128)]);
                }
                6 => bench.sources[KICK].push_values(&[("", qp as u128)]),
                7 => {
                    // Back to something that was granted.
                    let q = &mut bench.qps[qp];
                    if q.rewind.is_none() && q.due != q.oldest {
                        let ahead = bench.random.rng.random_range(0..q.due.wrapping_sub(q.oldest));
                        let to = q.oldest.wrapping_add(ahead);
                        q.rewind = Some(to);
                        bench.sources[REWIND].push_values(&[("qp", qp as u128), ("index", to.into())]);
                    }
                }
                _ => {}
            }
            for _ in 0..bench.random.rng.random_range(1..20) {
                bench.step();
            }
        }
        bench.settle();
        for (i, qp) in bench.qps.iter().enumerate() {
            assert_eq!(qp.due, qp.producer, "seed {seed}: QP {i} was not served to its end");
            assert_eq!(qp.rewind, None, "seed {seed}: a rewind of QP {i} was lost");
        }
        let bases: Vec<_> = bench.qps.iter().map(|q| (q.base, q.log2)).collect();
        bench.check_reads(|qp| bases[qp]);
        assert!(bench.sinks[FLUSH].items.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_broken_queue_pair_is_flushed_up_to_its_producer_and_starts_anew_at_0() {
    for seed in 11..=14 {
        let mut bench = Bench::new(seed);
        for round in 0..12 {
            bench.stall = [0.0, 0.4][round % 2];
            for qp in 0..QPS {
                let more = bench.random.rng.random_range(0..60);
                bench.ring(qp, more);
            }
            for _ in 0..bench.random.rng.random_range(0..60) {
                bench.step();
            }
            let broken = bench.random.rng.random_range(0..QPS);
            bench.state(broken, QpState::Err);
            bench.sources[KICK].push_values(&[("", broken as u128)]);
            let others = bench.random.rng.random_range(0..QPS);
            bench.ring(others, 3);
            bench.settle();
            let flushes = &bench.sinks[FLUSH].items;
            let last = flushes.iter().rfind(|f| f["qp"].to_u64() == broken as u64);
            let producer = last.map(|f| f["producer"].to_u64() as u16);
            assert_eq!(producer, Some(bench.qps[broken].producer), "seed {seed}");
            assert!(flushes.iter().all(|f| f["qp"].to_u64() == broken as u64), "seed {seed}");
            let grants = bench.sinks[GRANT].items.len();
            bench.ring(broken, 5);
            bench.settle();
            let after = &bench.sinks[GRANT].items[grants..];
            assert!(after.is_empty(), "seed {seed}: a broken QP was granted {after:?}");
            // All its WQEs fall out; nobody else notices.
            bench.sinks[FLUSH].clear();
            bench.state(broken, QpState::Reset);
            bench.start(broken);
            let grants = bench.sinks[GRANT].items.len();
            bench.ring(broken, 7);
            bench.settle();
            let first = bench.sinks[GRANT].items[grants..].first().map(|g| g["index"].to_u64());
            assert_eq!(first, Some(0), "seed {seed}");
            for (i, qp) in bench.qps.iter().enumerate() {
                assert_eq!(qp.due, qp.producer, "seed {seed}: QP {i}");
            }
            assert!(bench.sinks[FLUSH].items.is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn a_queue_pair_with_work_waits_for_one_grant_of_each_other() {
    let mut bench = Bench::new(21);
    bench.returning = 1.0;
    for qp in 0..QPS {
        bench.ring(qp, 16);
    }
    for _ in 0..300 {
        bench.step();
    }
    let qps = bench.sinks[GRANT].values("qp");
    let each = 16 / bench.cfg.fetch_batch as usize;
    assert!(qps.len() >= QPS * each, "{qps:?}");
    // Once all stand in the line: between two grants of one there is one of each that still has work.
    for (from, qp) in qps.iter().enumerate().skip(QPS) {
        let Some(to) = (from + 1..qps.len()).find(|i| qps[*i] == *qp) else { continue };
        for other in (0..QPS as u64).filter(|other| other != qp) {
            let served = qps[..from].iter().filter(|q| **q == other).count() >= each;
            assert!(served || qps[from..to].contains(&other), "QP {other} is passed over: {qps:?}");
        }
    }
}

#[test]
fn a_flood_of_events_does_not_keep_the_others_from_their_grants() {
    let mut bench = Bench::new(22);
    bench.returning = 1.0;
    for qp in 1..QPS {
        bench.ring(qp, 16);
    }
    for _ in 0..600 {
        bench.ring(0, 0);
        bench.sources[KICK].push_values(&[("", 0)]);
    }
    for _ in 0..400 {
        bench.step();
    }
    for qp in 1..QPS {
        assert_eq!(bench.qps[qp].due, 16, "QP {qp} waits for a flood of others' events to end");
    }
}

#[test]
fn events_are_taken_within_bounded_time_whatever_the_takers_do() {
    for seed in 31..=34 {
        let mut bench = Bench::new(seed);
        for sink in &mut bench.sinks {
            sink.stall = Some(1.0);
        }
        bench.returning = 0.0;
        for qp in [1, 4] {
            bench.state(qp, QpState::Err);
        }
        let mut waited = 0;
        for _ in 0..3000 {
            if bench.sources.iter().all(|s| s.left() == 0) {
                waited = 0;
                let qp = bench.random.rng.random_range(0..QPS) as u128;
                match bench.random.rng.random_range(0..3) {
                    0 => bench.ring(qp as usize, 9),
                    1 => bench.sources[KICK].push_values(&[("", qp)]),
                    _ => bench.sources[REWIND].push_values(&[("qp", qp), ("index", 0)]),
                }
            }
            bench.step();
            waited += 1;
            assert!(waited <= 7, "seed {seed}: an event waits for {waited} cycles");
        }
    }
}

#[test]
fn who_else_waits_is_told_while_work_of_another_stands_in_line() {
    let mut bench = Bench::new(41);
    bench.sinks[GRANT].stall = Some(1.0);
    bench.ring(3, 4);
    for _ in 0..20 {
        bench.step();
    }
    assert_eq!(bench.sim.get_bits("waiting_any"), Bits::new(1, 0));
    let fields = ["waiting_any", "waiting_others"];
    let values = |bench: &mut Bench| fields.map(|field| bench.sim.get(field));
    let alone = values(&mut bench);
    bench.ring(5, 40);
    for _ in 0..20 {
        bench.step();
    }
    let [any, others] = values(&mut bench);
    assert!(any + others > 0 && alone[0] == 0, "{alone:?}, {any} {others}");
}
