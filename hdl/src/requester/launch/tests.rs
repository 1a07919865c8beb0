// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random messages of eight QPs, some of whose payload cannot be read, against a model of what each report becomes.

use super::*;
use crate::testing::{item, step, Item, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;
use std::collections::VecDeque;

mod edges;

const QPS: usize = 8;

fn config(beat_bytes: u32) -> RnicConfig {
    RnicConfig { qps: QPS as u32, outstanding: 16, beat_bytes, ..RnicConfig::named("generic-8b").unwrap() }
}

// Sources.
const REPORTS: usize = 0;
const PACKETS_IN: usize = 1;
const VERDICTS: usize = 2;
const FLUSH: usize = 3;
// Sinks.
const SENT: usize = 0;
const FLUSHED: usize = 1;
const BARRED: usize = 2;
const PACKETS_OUT: usize = 3;
const INLINE: usize = 4;
const STARTED: usize = 5;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: Vec<Source>,
    sinks: Vec<Sink>,
    random: Random,
    stall: f64,
    /// Verdicts that come later.
    reading: VecDeque<bool>,
    /// Starts, QP and PSN: the first is on its way, or none is.
    starts: VecDeque<(usize, u64, u16)>,
    started: usize,
    /// Pulses of `credit`, and the cycles in which `late` was high.
    credits: usize,
    late: Vec<u64>,
}

impl Bench {
    /// A report a cycle.
    fn new(seed: u64) -> Bench {
        Bench::of(64, seed)
    }

    fn of(beat_bytes: u32, seed: u64) -> Bench {
        let cfg = config(beat_bytes);
        let netlist = build("bench", |m| {
            let out = launch(
                m,
                &cfg,
                m.input_of("starting", &SqStart::of(&cfg)),
                m.stream_in("reports", &Report::of(&cfg)),
                m.stream_in("packets", &TxPacket::of(&cfg)),
                m.stream_in("verdicts", &bits(1)),
                m.stream_in("flush", &Flush::of(&cfg)),
            );
            m.stream_out("sent", out.sent);
            m.stream_out("flushed", out.flush);
            m.stream_out("barred", out.barred);
            m.stream_out("out", out.packets);
            m.stream_out("inline", out.inline);
            for (i, started) in out.started.into_iter().enumerate() {
                m.stream_out(&format!("started{i}"), started);
            }
            // Of the cycle before.
            m.output("done", &m.delay("was_done", &out.done));
            m.output("credit", &m.delay("was_credit", &out.credit));
            m.output("late", &m.delay("was_late", &out.late));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = vec![
            Source::new("reports", &Report::of(&cfg)),
            Source::new("packets", &TxPacket::of(&cfg)),
            Source::new("verdicts", &bits(1)),
            Source::new("flush", &Flush::of(&cfg)),
        ];
        let mut sinks = vec![
            Sink::new("sent", &Sent::of(&cfg)),
            Sink::new("flushed", &Flush::of(&cfg)),
            Sink::new("barred", &Bar::of(&cfg)),
            Sink::new("out", &TxPacket::of(&cfg)),
            Sink::new("inline", &bits(1)),
        ];
        sinks.extend((0..3).map(|i| Sink::new(&format!("started{i}"), &SqStart::of(&cfg))));
        Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            stall: 0.0,
            reading: VecDeque::new(),
            starts: VecDeque::new(),
            started: 0,
            credits: 0,
            late: Vec::new(),
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
        let rng = &mut self.random.rng;
        let none = (rng.random_range(0..QPS), rng.random_range(0..1 << 24), rng.random());
        let (qp, psn, index) = self.starts.front().copied().unwrap_or(none);
        // What it says beside that means nothing.
        self.sim.set("starting_qp", qp as u64);
        self.sim.set("starting_psn", rng.random_range(0..1 << 24));
        self.sim.set("starting_index", rng.random_range(0..1 << 16));
        let recovers = index & 1;
        self.sim.set("starting_recovers", recovers.into());
        let cycle = self.sim.cycles();
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        self.credits += self.sim.get("credit") as usize;
        if self.sim.get("late") == 1 {
            self.late.push(cycle);
        }
        if self.sim.get("done") == 1 {
            self.starts.pop_front().expect("a start that nobody asked for is done");
            self.started += 1;
            let takers: Vec<usize> = self.sinks[STARTED..].iter().map(|sink| sink.items.len()).collect();
            assert_eq!(takers, [self.started; 3], "seed {seed}: done when all have it, and then");
            let fields = [
                ("qp", qp as u128),
                ("psn", psn.into()),
                ("index", index.into()),
                ("recovers", recovers.into()),
            ];
            let start = item(&SqStart::of(&self.cfg), &fields);
            assert!(
                self.sinks[STARTED..].iter().all(|sink| sink.items.last() == Some(&start)),
                "seed {seed}"
            );
        }
    }

    /// A start among the reports. What else it says means nothing.
    fn start(&mut self, qp: usize, psn: u64) {
        let index: u16 = self.random.rng.random();
        let place = [("sent_psn", psn.into()), ("sent_index", index.into())];
        let fields = [("sent_qp", qp as u128), ("start", 1)];
        let mut report = item(&Report::of(&self.cfg), &[fields, place].concat());
        for field in ["sent_last", "sent_length", "sent_fresh"] {
            let width = report[field].width();
            report.insert(field.into(), self.random.bits(width));
        }
        self.sources[REPORTS].push(report);
        self.starts.push_back((qp, psn, index));
    }

    /// The bars that were told, QP and index.
    fn bars(&self) -> Vec<(u64, u64)> {
        let sink = &self.sinks[BARRED];
        sink.values("qp").into_iter().zip(sink.values("index")).collect()
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

/// Whether a bar keeps a WQE back.
fn stops(bar: Option<u16>, index: u16) -> bool {
    bar.is_some_and(|bar| index.wrapping_sub(bar) < 0x8000)
}

/// What each report becomes, from the documentation.
#[derive(Default)]
struct Model {
    /// The oldest WQE of each QP whose payload could not be read.
    barred: [Option<u16>; QPS],
    psn: [u128; QPS],
    index: [u16; QPS],
    sent: Vec<Item>,
    packets: Vec<Item>,
    bars: Vec<(u64, u64)>,
    /// For each packet of inline data: it is not to be sent.
    inline: Vec<u64>,
    credits: usize,
    /// Reports forgotten, those of packets sent again, told though their QP is barred, bars in the place of later ones.
    kinds: [usize; 4],
}

impl Model {
    /// A message, new or an earlier one, some of it sent again; one of its packets may fail to be read, or all may be
    /// refused.
    fn message(&mut self, bench: &mut Bench, qp: usize) {
        let random = &mut bench.random;
        let bare = random.chance(0.25);
        let count = if bare { 1 } else { random.rng.random_range(1..5) };
        let refused = random.chance(0.08);
        let again = if random.chance(0.4) { random.rng.random_range(1..=count) } else { 0 };
        let back = if random.chance(0.4) { random.rng.random_range(1..6) } else { 0 };
        let again = if back > 0 { count } else { again };
        // Where its QP is barred, mostly about there.
        let near = [0x7fff, 0x8000, 0xfffe, 0xffff, 0, 1][random.rng.random_range(0..6)];
        let index = match self.barred[qp] {
            Some(bar) if back > 0 && random.chance(0.7) => bar.wrapping_add(near),
            _ => self.index[qp].wrapping_sub(back),
        };
        for i in 0..count {
            let last = i + 1 == count || refused;
            let fresh = i >= again;
            let often = if back > 0 && self.barred[qp].is_some() { 0.3 } else { 0.08 };
            let inline = !bare && !refused && random.chance(0.3);
            let fails = !bare && !inline && !refused && random.chance(often);
            let mut fields = vec![
                ("qp", qp as u128),
                ("psn", self.psn[qp]),
                ("last", last.into()),
                ("index", index.into()),
                ("signaled", random.rng.random_range(0..2)),
                ("wqe_opcode", 3),
                ("length", random.rng.random_range(0..1000)),
                ("fresh", fresh.into()),
            ];
            if refused {
                fields.extend([("status", 4), ("cause", 0x84)]);
            }
            let sent = item(&Sent::of(&bench.cfg), &fields);
            let mut report: Item =
                sent.iter().map(|(k, v)| (format!("sent_{k}").into(), v.clone())).collect();
            report.insert("packet".into(), Bits::new(1, (!refused).into()));
            report.insert("payload".into(), Bits::new(1, (!refused && !bare).into()));
            report.insert("inline".into(), Bits::new(1, inline.into()));
            report.insert("start".into(), Bits::new(1, 0));
            bench.sources[REPORTS].push(report);
            let forgotten = stops(self.barred[qp], index);
            if !refused {
                let bytes = if bare { 0 } else { random.rng.random_range(1..4097) };
                let packet = [("qp", qp as u128), ("psn", self.psn[qp]), ("payload_bytes", bytes)];
                let packet = item(&TxPacket::of(&bench.cfg), &packet);
                bench.sources[PACKETS_IN].push(packet.clone());
                if inline {
                    self.inline.push(forgotten.into());
                } else if !bare {
                    bench.reading.push_back(fails || forgotten);
                }
                // Frames with payload go on and are thrown away later: their payload is poisoned.
                if !bare || !forgotten {
                    self.packets.push(packet);
                }
            }
            self.credits += usize::from(!refused && last && fresh && (fails || forgotten));
            self.psn[qp] = (self.psn[qp] + 1) & 0xff_ffff;
            self.kinds[0] += usize::from(forgotten);
            self.kinds[1] += usize::from(forgotten && !fresh && !fails && !refused);
            if !forgotten {
                self.kinds[2] += usize::from(self.barred[qp].is_some() && !fails);
                let mut told = sent;
                if fails {
                    let fields = [("last", 1, 1), ("status", 8, 2), ("cause", 8, 0x85)];
                    for (field, width, value) in fields {
                        told.insert(field.into(), Bits::new(width, value));
                    }
                    self.bars.push((qp as u64, index.into()));
                    self.kinds[3] += usize::from(self.barred[qp].is_some());
                    self.barred[qp] = Some(index);
                }
                self.sent.push(told);
            }
            if refused {
                break;
            }
        }
        self.index[qp] = self.index[qp].wrapping_add(u16::from(back == 0));
    }
}

#[test]
fn a_packet_is_reported_when_its_payload_is_good_and_a_failed_read_ends_its_qp() {
    for (seed, beat_bytes) in (1..=8).zip([64, 8].into_iter().cycle()) {
        let (mut bench, mut model) = (Bench::of(beat_bytes, seed), Model::default());
        for _ in 0..30 {
            bench.stall = [0.0, 0.2, 0.6][bench.random.rng.random_range(0..3)];
            for _ in 0..12 {
                let qp = bench.random.rng.random_range(0..QPS);
                model.message(&mut bench, qp);
            }
            let qp = bench.random.rng.random_range(0..QPS);
            // Read data may still be missing here.
            match bench.random.rng.random_range(0..4) {
                0 => {
                    bench.until("reports enter", |b| b.sources[REPORTS].left() == 0);
                    let before = model.sent.len();
                    let flush = [("qp", qp as u128), ("producer", model.index[qp].into())];
                    let n = bench.sinks[FLUSHED].items.len();
                    bench.sources[FLUSH].push_values(&flush);
                    bench.until("a flush passes", |b| b.sinks[FLUSHED].items.len() > n);
                    assert_eq!(bench.sinks[FLUSHED].items[n], item(&Flush::of(&bench.cfg), &flush));
                    assert_eq!(bench.sinks[SENT].items.len(), before, "seed {seed}: overtaken, or lost");
                    assert_eq!(bench.credits, model.credits, "seed {seed}: credits before a flush");
                }
                n @ 1..=2 => {
                    let psn = bench.random.rng.random_range(0..1 << 24);
                    let (before, credits) = (model.sent.len(), model.credits);
                    bench.start(qp, psn);
                    (model.barred[qp], model.index[qp], model.psn[qp]) = (None, 0, psn.into());
                    if n == 1 {
                        // What comes behind it is in the queue at once.
                        for i in 0..6 {
                            model.message(&mut bench, (qp + i % 2) % QPS);
                        }
                    }
                    let mut told = 0;
                    for _ in 0..20_000 {
                        told = bench.sinks[SENT].items.len();
                        bench.step();
                        if bench.starts.is_empty() {
                            break;
                        }
                    }
                    assert!(bench.starts.is_empty(), "seed {seed}: a start is never done");
                    assert_eq!(told, before, "seed {seed}: overtaken, or lost");
                    assert_eq!(bench.credits, credits, "seed {seed}: credits before a start");
                }
                _ => {}
            }
        }
        bench.until("all is over", |b| b.sources.iter().all(|s| s.left() == 0) && b.reading.is_empty());
        for _ in 0..50 {
            bench.step();
        }
        assert_eq!(bench.credits, model.credits, "seed {seed}: credits");
        assert!(bench.sinks[SENT].items == model.sent, "seed {seed}: reports");
        assert!(bench.sinks[PACKETS_OUT].items == model.packets, "seed {seed}: packets");
        assert_eq!(bench.bars(), model.bars, "seed {seed}: barred");
        assert_eq!(bench.sinks[INLINE].values(""), model.inline, "seed {seed}: inline data");
        assert!(model.inline.contains(&0) && model.inline.contains(&1), "seed {seed}");
        let kinds = [&[model.bars.len(), model.credits], &model.kinds[..]].concat();
        assert!(kinds.iter().all(|n| *n > 1), "seed {seed}: too little of something: {kinds:?}");
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
    for _ in 0..90 {
        bench.step();
    }
    assert_eq!(bench.sinks[SENT].values("psn"), (0..40).collect::<Vec<u64>>());
    let (came, left) = (&bench.sources[VERDICTS].cycles, &bench.sinks[SENT].cycles);
    let at = came[0] + 2;
    assert!(left.iter().zip(0..).all(|(left, i)| *left == at + 2 * i), "two cycles apart: {left:?}");
}
