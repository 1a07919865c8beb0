// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler against what its page promises, with eight QPs that are rung, sent back, held, broken and started anew.

use super::*;
use crate::testing::{item, step, Item, Random, Sink, Source};
use crate::types::QpAttributes;
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;
use std::collections::VecDeque;

mod again;
mod drain;
mod eased;
mod gate;
mod overrun;
mod plain;
mod pushed;
mod recover;

const QPS: usize = 8;

/// A seed that is odd makes a card with time, another one without.
fn config(seed: u64) -> RnicConfig {
    let beat_bytes = if seed % 2 == 1 { 8 } else { 64 };
    let cfg = RnicConfig::named("generic-8b").unwrap();
    RnicConfig { beat_bytes, qps: QPS as u32, outstanding_per_qp: 16, ..cfg }
}

// Sources.
const START: usize = 0;
const DOORBELL: usize = 1;
const RESUME: usize = 2;
const KICK: usize = 3;
const EASED: usize = 4;
// Sinks.
const READ: usize = 0;
const GRANT: usize = 1;
const FLUSH: usize = 2;
const OVERRUN: usize = 3;

/// Cycles from the look at a QP's row until its grant is seen, where nobody stalls.
fn latency(cfg: &RnicConfig) -> usize {
    4 + usize::from(cfg.unhurried())
}

/// Of a QP's packets; two have the same.
fn priority(qp: usize) -> u32 {
    qp as u32 / 2
}

/// What the tests know of a QP.
#[derive(Clone, Default)]
struct Qp {
    base: u64,
    log2: u32,
    stride: u32,
    state: u8,
    /// The newest doorbell's.
    producer: u16,
    /// What the next grant begins with, unless a rewind comes before it.
    due: u16,
    /// Where a resume that has been asked for goes back to: a grant must begin there.
    rewind: Option<u16>,
    /// And it is to hold.
    held: bool,
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
    /// Of the queues that are begun.
    most_stride: u32,
    log2s: std::ops::Range<u32>,
    /// Places that the tests hold.
    places: u32,
    returning: f64,
    /// That of the WQEs that came last, and arrivals of another's that are to be told.
    last_qp: usize,
    arrivals: u32,
    /// Whether they are told at once.
    tells: bool,
    seen: usize,
    /// The QP that starts, and what it will be.
    starting: Option<(usize, Qp)>,
    /// Starts that have come out.
    tokens: usize,
    /// Where the queue of each grant lies.
    queues: Vec<(u64, u32, u32)>,
    /// The oldest may overtake the fetch; what it was in the last cycles.
    overtaking: bool,
    past: VecDeque<Vec<u16>>,
}

fn sinks(cfg: &RnicConfig) -> Vec<Sink> {
    vec![
        Sink::new("read", &DmaReadRequest::of()),
        Sink::new("grant", &Grant::of(cfg)),
        Sink::new("flush", &Flush::of(cfg)),
        Sink::new("overrun", &bits(cfg.qp_bits())),
    ]
}

fn sources(cfg: &RnicConfig) -> Vec<Source> {
    vec![
        Source::new("start", &SqStart::of(cfg)),
        Source::new("doorbell", &SqDoorbell::of(cfg)),
        Source::new("resume", &Resume::of(cfg)),
        Source::new("kick", &Kick::of(cfg)),
        Source::new("eased", &Eased::of(cfg)),
    ]
}

impl Bench {
    /// All QPs in RTS.
    fn new(seed: u64) -> Bench {
        let mut bench = Bench::asleep(seed);
        for qp in 0..QPS {
            bench.start(qp);
        }
        bench
    }

    /// The same, with WQEs of one unit.
    fn small(seed: u64) -> Bench {
        let mut bench = Bench::asleep(seed);
        bench.most_stride = 0;
        for qp in 0..QPS {
            bench.start(qp);
        }
        bench
    }

    /// All QPs in RESET.
    fn asleep(seed: u64) -> Bench {
        Bench::of(config(seed), seed)
    }

    fn of(cfg: RnicConfig, seed: u64) -> Bench {
        let pushes = cfg.push_slots > 0;
        let netlist = build("bench", |m| {
            let out = schedule(
                m,
                &cfg,
                m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                m.stream_in("start", &SqStart::of(&cfg)),
                m.input("started", 1),
                m.stream_in("doorbell", &SqDoorbell::of(&cfg)),
                m.stream_in("resume", &Resume::of(&cfg)),
                m.stream_in("kick", &Kick::of(&cfg)),
                m.stream_in("eased", &Eased::of(&cfg)),
                m.input_of("oldest", &Oldest::write_of(&cfg)),
                m.input_of("reads_done", &crate::types::reads_done_of(&cfg)),
                m.input("returned", 1),
                m.input("plenty", 1),
                m.input("another", 1),
                m.input_of("gate", &Gate::write_of(&cfg)),
                m.input("paused", 8),
                if pushes { m.input_of("pushes", &Pushes::of(&cfg)) } else { Pushes::of(&cfg).zeros() },
                if pushes { m.input_of("freed", &Freed::of(&cfg)) } else { Freed::of(&cfg).zeros() },
                cfg.selective.then(|| (m.stream_in("asks", &Ask::of(&cfg)), m.input("again_returned", 1))),
            );
            if let Some((grants, kinds)) = out.again {
                m.stream_out("again_grants", grants);
                kinds.accept(1);
                m.output("kind", &*kinds);
            }
            m.output("asked", &m.delay_zero("asked_now", &out.asked));
            if pushes {
                m.output("word", &m.delay("word", &out.pushed));
            }
            m.stream_out("read", out.read);
            m.stream_out("grant", out.grants);
            m.stream_out("flush", out.flush);
            m.output("waiting", &out.waiting);
            m.stream_out("overrun", out.overruns);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        sim.set("plenty", 1);
        let (sources, sinks) = (sources(&cfg), sinks(&cfg));
        Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            stall: 0.0,
            qps: vec![Qp::default(); QPS],
            most_stride: MAX_STRIDE,
            log2s: 5..9,
            places: 0,
            returning: 0.5,
            last_qp: 0,
            arrivals: 0,
            tells: true,
            seen: 0,
            starting: None,
            tokens: 0,
            queues: Vec::new(),
            overtaking: false,
            past: VecDeque::new(),
        }
    }

    /// A QP with a queue of some size, from RESET to RTS.
    fn start(&mut self, qp: usize) {
        self.announce(qp);
        self.arrive(qp);
    }

    /// Its start comes out, once.
    fn announce(&mut self, qp: usize) {
        let rng = &mut self.random.rng;
        let (log2, stride) = (rng.random_range(self.log2s.clone()), rng.random_range(0..=self.most_stride));
        let bytes = 64u64 << (log2 + stride);
        // A queue lies on a multiple of its size, or of a page.
        let base = rng.random_range(1..1u64 << 40) * bytes.max(4096);
        self.starting = Some((qp, Qp { base, log2, stride, ..Qp::default() }));
        let fields = [
            ("sq_base", u128::from(base)),
            ("sq_log2", log2.into()),
            ("sq_stride", stride.into()),
            ("priority", priority(qp).into()),
        ];
        for (path, bits) in item(&QpAttributes::of(&self.cfg), &fields) {
            self.sim.set_bits(&format!("broadcast_attributes_entry_{path}"), &bits);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.step();
        self.sim.set("broadcast_attributes_enable", 0);
        self.sources[START].push_values(&[("qp", qp as u128), ("psn", 5)]);
        let tokens = self.tokens;
        for n in 0.. {
            if self.tokens > tokens {
                break;
            }
            assert!(n < 5000, "seed {}: the start of QP {qp} does not come", self.random.seed);
            self.step();
        }
    }

    /// It comes to the segmenter, then to the completer, and is done.
    fn arrive(&mut self, qp: usize) {
        let tokens = self.tokens;
        self.steps_up_to(20);
        while self.sources[DOORBELL].left() + self.sources[RESUME].left() > 0 {
            self.step();
        }
        self.sources[RESUME].push_values(&[("qp", qp as u128), ("start", 1)]);
        while self.sources[RESUME].left() > 0 {
            self.step();
        }
        self.steps_up_to(20);
        self.oldest(qp, 0);
        let seed = self.random.seed;
        assert_eq!(self.sources[START].left(), 1, "seed {seed}: taken before it has arrived");
        self.sim.set("started", 1);
        self.step();
        self.sim.set("started", 0);
        assert_eq!(self.sources[START].left(), 0, "seed {seed}: not taken when it has arrived");
        assert_eq!(self.tokens, tokens, "seed {seed}: QP {qp} was announced twice");
        self.state(qp, QpState::Rts);
    }

    /// The completer's oldest moves.
    fn oldest(&mut self, qp: usize, index: u16) {
        self.qps[qp].oldest = index;
        self.sim.set("oldest_index", qp as u64);
        self.sim.set("oldest_entry_index", index.into());
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

    fn kick(&mut self, qp: usize) {
        self.sources[KICK].push_values(&[("qp", qp as u128)]);
    }

    /// The fetch is to go on from `index`.
    fn resume(&mut self, qp: usize, index: u16, hold: bool) {
        let q = &mut self.qps[qp];
        (q.rewind, q.held) = (Some(index), hold);
        let fields = [("qp", qp as u128), ("index", index.into()), ("hold", hold.into())];
        self.sources[RESUME].push_values(&fields);
    }

    fn steps(&mut self, n: usize) {
        for _ in 0..n {
            self.step();
        }
    }

    fn steps_up_to(&mut self, n: usize) {
        let n = self.random.rng.random_range(0..n);
        self.steps(n);
    }

    fn step(&mut self) {
        let returned = self.places > 0 && self.random.chance(self.returning);
        self.places -= u32::from(returned);
        self.sim.set("returned", returned.into());
        let arrives = self.tells && self.arrivals > 0;
        self.arrivals -= u32::from(arrives);
        self.sim.set("another", arrives.into());
        self.past.push_back(self.qps.iter().map(|q| q.oldest).collect());
        if self.past.len() > latency(&self.cfg) {
            self.past.pop_front();
        }
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
        if values("start") == 1 {
            let (starting, new) = self.starting.take().unwrap_or_else(|| panic!("seed {seed}: QP {qp}"));
            assert_eq!(qp, starting, "seed {seed}: a start");
            self.qps[qp] = Qp { state: self.qps[qp].state, ..new };
            self.tokens += 1;
            return;
        }
        let q = &mut self.qps[qp];
        let what =
            format!("seed {seed}: QP {qp}, {count} WQEs from {index}, of {} to {}", q.oldest, q.producer);
        let most = (self.cfg.fetch_batch >> q.stride).max(1);
        assert!((1..=most).contains(&count.into()), "{what}");
        assert_eq!(values("stride"), q.stride.into(), "{what}");
        let units = u32::from(count) << q.stride;
        if values("pushed") == 0 {
            self.queues.push((q.base, q.log2, q.stride));
        }
        // In order, each once, unless the QP went back.
        if self.overtaking {
            let ahead = |to: u16, from: u16| !to.wrapping_sub(from) >> 15 == 1;
            let oldest = self.past[0][qp];
            assert!(ahead(index, oldest), "{what}: {oldest} was the oldest");
            let from = if ahead(index, q.due) { q.due } else { q.rewind.take().expect(&what) };
            assert!(index == from || (ahead(index, from) && ahead(q.oldest, index)), "{what}: from {from}");
        } else if q.due != index {
            assert!(!q.held, "{what}: it was to hold");
            assert_eq!(q.rewind.take(), Some(index), "{what}: {} was due", q.due);
        }
        q.due = index.wrapping_add(count);
        let ahead = q.due.wrapping_sub(q.oldest);
        let done = self.overtaking && ahead >> 15 == 1;
        assert!(done || ahead <= q.producer.wrapping_sub(q.oldest), "{what}: past the producer");
        assert!(done || ahead <= self.cfg.outstanding_per_qp as u16, "{what}: too many under way");
        self.arrivals += u32::from(qp != self.last_qp);
        self.last_qp = qp;
        self.places += units;
        assert!(self.places <= wqe_places(&self.cfg), "{what}: no place");
    }

    /// The reads are those of the grants.
    fn check_reads(&self) {
        let is_read = |grant: &&Item| grant["start"].is_zero() && grant["pushed"].is_zero();
        let grants = self.sinks[GRANT].items.iter().filter(is_read);
        assert_eq!(self.sinks[READ].items.len(), self.queues.len(), "seed {}", self.random.seed);
        for ((read, grant), (base, log2, stride)) in
            self.sinks[READ].items.iter().zip(grants).zip(&self.queues)
        {
            let (slot, count) = (grant["index"].to_u64() % (1 << log2), grant["count"].to_u64());
            let (address, length) = (read["address"].to_u64(), read["length"].to_u64());
            let bytes = 64 << stride;
            assert_eq!((address, length), (base + bytes * slot, bytes * count), "seed {}", self.random.seed);
            assert!(slot + count <= 1 << log2, "seed {}: past the queue's end", self.random.seed);
            assert!(address % 4096 + length <= 4096, "seed {}: across a page", self.random.seed);
        }
    }

    /// Runs until nothing more can be granted, with everybody kicked.
    fn settle(&mut self) {
        (self.stall, self.returning) = (0.1, 1.0);
        self.sim.set("plenty", 1);
        let served = |q: &Qp| q.state != QpState::Rts.code() || (q.due == q.producer && q.rewind.is_none());
        for turn in 0.. {
            assert!(turn < 300, "seed {}: what is left is not granted", self.random.seed);
            if turn > 2 && self.qps.iter().all(served) {
                break;
            }
            for qp in 0..QPS {
                let floor = self.qps[qp].floor();
                let oldest = self.qps[qp].oldest.wrapping_add(floor);
                self.oldest(qp, oldest);
                self.kick(qp);
            }
            self.steps(60);
        }
        self.steps(100);
        assert!(self.sources.iter().all(|s| s.left() == 0), "seed {}", self.random.seed);
    }

    /// Indices of the WQEs that the grants from the `from`-th on bring to a QP, in order.
    fn granted(&self, from: usize, qp: usize) -> Vec<u64> {
        let grants = self.sinks[GRANT].items[from..].iter();
        grants
            .filter(|g| g["qp"].to_u64() == qp as u64 && g["start"].is_zero())
            .flat_map(|g| g["index"].to_u64()..g["index"].to_u64() + g["count"].to_u64())
            .collect()
    }
}
