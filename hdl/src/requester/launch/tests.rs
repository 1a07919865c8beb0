// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random messages of eight QPs, some of whose payload cannot be read, against a model of what each report becomes.

use super::*;
use crate::testing::{item, step, Item, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;
use std::collections::VecDeque;

const QPS: usize = 8;

fn config() -> RnicConfig {
    RnicConfig { qps: QPS as u32, outstanding: 16, ..RnicConfig::named("generic-8b").unwrap() }
}

// Sources.
const INIT: usize = 0;
const REPORTS: usize = 1;
const PACKETS_IN: usize = 2;
const VERDICTS: usize = 3;
const FLUSH: usize = 4;
// Sinks.
const SENT: usize = 0;
const FLUSHED: usize = 1;
const BARRED: usize = 2;
const PACKETS_OUT: usize = 3;
const STARTED: usize = 4;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    stall: f64,
    /// Verdicts that come later.
    reading: VecDeque<bool>,
    /// Messages that the completer holds.
    held: u64,
    /// Reports looked at, and closing ones among those that went in.
    seen: usize,
    closing: VecDeque<bool>,
    spent: u64,
    returned: u64,
    freeing: f64,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let cfg = config();
        let netlist = build("bench", |m| {
            let out = launch(
                m,
                &cfg,
                m.stream_in("init", &QpInit::of(&cfg)),
                m.stream_in("reports", &Report::of(&cfg)),
                m.stream_in("packets", &TxPacket::of(&cfg)),
                m.stream_in("verdicts", &bits(1)),
                m.stream_in("flush", &Flush::of(&cfg)),
                m.input("freed", 1),
            );
            m.stream_out("sent", out.sent);
            m.stream_out("flushed", out.flush);
            m.stream_out("barred", out.barred);
            m.stream_out("out", out.packets);
            for (i, started) in out.started.into_iter().enumerate() {
                m.stream_out(&format!("started{i}"), started);
            }
            m.output("credits", &out.credits);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = vec![
            Source::new("init", &QpInit::of(&cfg)),
            Source::new("reports", &Report::of(&cfg)),
            Source::new("packets", &TxPacket::of(&cfg)),
            Source::new("verdicts", &bits(1)),
            Source::new("flush", &Flush::of(&cfg)),
        ];
        let mut sinks = vec![
            Sink::new("sent", &Sent::of(&cfg)),
            Sink::new("flushed", &Flush::of(&cfg)),
            Sink::new("barred", &bits(cfg.qp_bits())),
            Sink::new("out", &TxPacket::of(&cfg)),
        ];
        sinks.extend((0..3).map(|i| Sink::new(&format!("started{i}"), &QpInit::of(&cfg))));
        Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            stall: 0.0,
            reading: VecDeque::new(),
            held: 0,
            seen: 0,
            closing: VecDeque::new(),
            spent: 0,
            returned: 0,
            freeing: 0.3,
        }
    }

    fn step(&mut self) {
        let seed = self.random.seed;
        // Payload comes when it likes, but in order.
        if self.sources[VERDICTS].left() == 0 && self.random.chance(0.4) {
            if let Some(verdict) = self.reading.pop_front() {
                self.sources[VERDICTS].push_values(&[("", verdict.into())]);
            }
        }
        let freed = self.held > 0 && self.random.chance(self.freeing);
        self.sim.set("freed", freed.into());
        self.held -= u64::from(freed);
        self.returned += self.sim.get("credits");
        let before = self.sources[REPORTS].left();
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        if self.sources[REPORTS].left() < before {
            self.spent += u64::from(self.closing.pop_front().unwrap());
        }
        for sent in &self.sinks[SENT].items[self.seen..] {
            self.held += sent["last"].to_u64();
        }
        self.seen = self.sinks[SENT].items.len();
        assert!(self.returned <= self.spent, "seed {seed}: a credit that was not spent came back");
        assert!(self.held <= self.spent - self.returned + 1, "seed {seed}: more messages than places");
    }

    fn until(&mut self, what: &str, done: impl Fn(&Bench) -> bool) {
        for _ in 0..20_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("seed {}: never: {what}", self.random.seed);
    }
}

/// What each report becomes, from the documentation.
#[derive(Default)]
struct Model {
    barred: [bool; QPS],
    psn: [u128; QPS],
    index: [u128; QPS],
    sent: Vec<Item>,
    packets: Vec<Item>,
    bars: Vec<u64>,
}

impl Model {
    /// A message of `packets` packets; one of them may fail to be read.
    fn message(&mut self, bench: &mut Bench, qp: usize) {
        let random = &mut bench.random;
        let bare = random.chance(0.25);
        let count = if bare { 1 } else { random.rng.random_range(1..5) };
        let refused = random.chance(0.05);
        for i in 0..count {
            let last = i + 1 == count || refused;
            let fails = !bare && !refused && random.chance(0.05);
            let mut fields = vec![
                ("qp", qp as u128),
                ("psn", self.psn[qp]),
                ("last", last.into()),
                ("index", self.index[qp]),
                ("signaled", random.rng.random_range(0..2)),
                ("wqe_opcode", 3),
                ("length", random.rng.random_range(0..1000)),
            ];
            if refused {
                fields.extend([("status", 4), ("cause", 0x84)]);
            }
            let sent = item(&Sent::of(&bench.cfg), &fields);
            let mut report: Item = sent.iter().map(|(k, v)| (format!("sent_{k}"), v.clone())).collect();
            report.insert("packet".into(), Bits::new(1, (!refused).into()));
            report.insert("payload".into(), Bits::new(1, (!refused && !bare).into()));
            bench.sources[REPORTS].push(report);
            bench.closing.push_back(last);
            if !refused {
                let bytes = if bare { 0 } else { random.rng.random_range(1..4097) };
                let packet = [("qp", qp as u128), ("psn", self.psn[qp]), ("payload_bytes", bytes)];
                let packet = item(&TxPacket::of(&bench.cfg), &packet);
                bench.sources[PACKETS_IN].push(packet.clone());
                if !bare {
                    bench.reading.push_back(fails || self.barred[qp]);
                }
                // Frames with payload go on and are thrown away later: their payload is poisoned.
                if !bare || !self.barred[qp] {
                    self.packets.push(packet);
                }
            }
            self.psn[qp] = (self.psn[qp] + 1) & 0xff_ffff;
            if !self.barred[qp] {
                let mut told = sent;
                if fails {
                    let fields = [("last", 1, 1), ("status", 8, 2), ("cause", 8, 0x85)];
                    for (field, width, value) in fields {
                        told.insert(field.into(), Bits::new(width, value));
                    }
                    self.bars.push(qp as u64);
                }
                self.sent.push(told);
            }
            self.barred[qp] |= fails;
            if refused {
                break;
            }
        }
        self.index[qp] = (self.index[qp] + 1) & 0xffff;
    }
}

#[test]
fn a_packet_is_reported_when_its_payload_is_good_and_a_failed_read_ends_its_qp() {
    for seed in 1..=6 {
        let (mut bench, mut model) = (Bench::new(seed), Model::default());
        for round in 0..20 {
            bench.stall = [0.0, 0.2, 0.6][bench.random.rng.random_range(0..3)];
            // Sometimes the completer frees nothing for long: messages fail all the same, or wait.
            bench.freeing = if round % 4 == 3 { 0.02 } else { 0.5 };
            for _ in 0..12 {
                let qp = bench.random.rng.random_range(0..QPS);
                model.message(&mut bench, qp);
            }
            if bench.random.chance(0.5) {
                // Read data may still be missing here.
                bench.until("reports enter", |b| b.sources[REPORTS].left() == 0);
                let qp = bench.random.rng.random_range(0..QPS);
                let before = model.sent.len();
                if bench.random.chance(0.5) {
                    let flush = [("qp", qp as u128), ("producer", model.index[qp])];
                    let n = bench.sinks[FLUSHED].items.len();
                    bench.sources[FLUSH].push_values(&flush);
                    bench.until("a flush passes", |b| b.sinks[FLUSHED].items.len() > n);
                    assert_eq!(bench.sinks[FLUSHED].items[n], item(&Flush::of(&bench.cfg), &flush));
                } else {
                    let init = [("qp", qp as u128), ("psn", bench.random.rng.random_range(0..1 << 24))];
                    bench.sources[INIT].push_values(&init);
                    bench.until("a start is taken", |b| b.sources[INIT].left() == 0);
                    for i in 0..3 {
                        let started = bench.sinks[STARTED + i].items.last().cloned();
                        assert_eq!(started, Some(item(&QpInit::of(&bench.cfg), &init)));
                    }
                    (model.barred[qp], model.index[qp], model.psn[qp]) = (false, 0, init[1].1);
                }
                assert_eq!(bench.sinks[SENT].items.len(), before, "seed {seed}: overtaken, or lost");
            }
        }
        bench.freeing = 0.5;
        bench.until("all is over", |b| {
            b.sources.iter().all(|s| s.left() == 0)
                && b.reading.is_empty()
                && b.held == 0
                && b.spent == b.returned
        });
        for _ in 0..50 {
            bench.step();
        }
        assert_eq!(bench.spent, bench.returned, "seed {seed}: credits");
        assert!(bench.sinks[SENT].items == model.sent, "seed {seed}: reports");
        assert!(bench.sinks[PACKETS_OUT].items == model.packets, "seed {seed}: packets");
        assert_eq!(bench.sinks[BARRED].values(""), model.bars, "seed {seed}: barred");
    }
}

#[test]
fn a_packet_with_payload_passes_at_once_and_its_report_only_behind_its_payload() {
    let mut bench = Bench::new(7);
    let cfg = bench.cfg.clone();
    for psn in 0..40u128 {
        let mut report = item(&Report::of(&cfg), &[("packet", 1), ("payload", 1)]);
        let path = report.keys().find(|k| k.ends_with("psn")).unwrap().clone();
        report.insert(path, Bits::new(24, psn));
        bench.sources[REPORTS].push(report);
        bench.closing.push_back(false);
        bench.sources[PACKETS_IN].push_values(&[("psn", psn), ("payload_bytes", 64)]);
    }
    for _ in 0..60 {
        bench.step();
    }
    assert!(bench.sources[PACKETS_IN].cycles == bench.sinks[PACKETS_OUT].cycles);
    assert_eq!(bench.sinks[PACKETS_OUT].items.len(), 40);
    assert_eq!(bench.sinks[SENT].items.len(), 0);
    for _ in 0..40 {
        bench.sources[VERDICTS].push_values(&[("", 0)]);
    }
    for _ in 0..50 {
        bench.step();
    }
    assert_eq!(bench.sinks[SENT].values("psn"), (0..40).collect::<Vec<u64>>());
    let (came, left) = (&bench.sources[VERDICTS].cycles, &bench.sinks[SENT].cycles);
    assert!(came.iter().zip(left).all(|(came, left)| came + 2 == *left), "{came:?} {left:?}");
}
