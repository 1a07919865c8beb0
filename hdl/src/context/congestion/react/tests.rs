// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use rand::Rng;

const QPS: usize = 16;

/// Line rate in Mb/s, and bytes that the wire takes in a cycle.
const LINE: f64 = 10_000.0;
const WIRE: u64 = 20;
const PACKET: u64 = 1000;
const CYCLES_PER_US: f64 = 62.5;

const CNP: usize = 0;
const RESET: usize = 1;

#[derive(Clone, Copy)]
struct Parameters {
    least: f64,
    gain: u32,
    alpha_us: f64,
    rate_us: f64,
    bytes: u64,
    steps: u32,
    additive: f64,
    hyper: f64,
}

const PUBLISHED: Parameters = Parameters {
    least: 10.0,
    gain: 8,
    alpha_us: 55.0,
    rate_us: 55.0,
    bytes: 10_000_000,
    steps: 5,
    additive: 40.0,
    hyper: 400.0,
};

/// A sender that always has packets, for the QPs that are said, and obeys the gate.
struct Bench {
    sim: Sim,
    sources: [Source; 2],
    sinks: [Sink; 1],
    random: Random,
    gate: [bool; QPS],
    stop: [bool; QPS],
    /// The sender goes on until it must stop, as with what has been fetched.
    eager: bool,
    /// QPs whose gate has opened and that have not been woken.
    owed: [bool; QPS],
    busy: [bool; QPS],
    sent: [u64; QPS],
    wire_free: u64,
    next: usize,
    handled: u64,
    ignored: u64,
    woken: usize,
}

fn bench(p: &Parameters, seed: u64) -> Bench {
    let cfg = RnicConfig { beat_bytes: 64, ..RnicConfig::named("generic-8b").unwrap() };
    assert_eq!((cfg.clock_khz, cfg.qps as usize), (62_500, QPS));
    let qp = bits(cfg.qp_bits());
    let netlist = build("top", |m| {
        let control = m.input_of("control", &CongestionControl::of());
        let (cnps, resets) = (m.stream_in("cnp", &qp), m.stream_in("reset", &qp));
        let out = react(m, &cfg, control, m.input_of("sent", &Sent::of(&cfg)), cnps, resets);
        m.output("gate", &out.gate);
        m.output("handled", &out.handled);
        m.output("ignored", &out.ignored);
        m.stream_out("wake", out.wake);
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    for (name, value) in [
        ("line_mbps", LINE as u64),
        ("least_mbps", p.least as u64),
        ("gain", p.gain.into()),
        ("alpha_us", p.alpha_us as u64),
        ("rate_us", p.rate_us as u64),
        ("bytes", p.bytes),
        ("steps", p.steps.into()),
        ("additive_mbps", p.additive as u64),
        ("hyper_mbps", p.hyper as u64),
    ] {
        sim.set(&format!("control_{name}"), value);
    }
    (0..QPS + 4).for_each(|_| sim.tick());
    Bench {
        sim,
        sources: [Source::new("cnp", &qp), Source::new("reset", &qp)],
        sinks: [Sink::new("wake", &qp)],
        random: Random::new(seed),
        gate: [false; QPS],
        stop: [false; QPS],
        eager: false,
        owed: [false; QPS],
        busy: [false; QPS],
        sent: [0; QPS],
        wire_free: 0,
        next: 0,
        handled: 0,
        ignored: 0,
        woken: 0,
    }
}

impl Bench {
    fn now_us(&self) -> f64 {
        self.sim.cycles() as f64 / CYCLES_PER_US
    }

    fn step(&mut self) {
        let now = self.sim.cycles();
        let sender = (0..QPS).map(|i| (self.next + i) % QPS).find(|qp| {
            now >= self.wire_free && self.busy[*qp] && !(if self.eager { self.stop } else { self.gate })[*qp]
        });
        self.sim.set("sent_valid", sender.is_some().into());
        if let Some(qp) = sender {
            self.sim.set("sent_qp", qp as u64);
            self.sim.set("sent_bytes", PACKET - u64::from(HEADERS));
            self.sent[qp] += PACKET;
            self.wire_free = now + PACKET / WIRE;
            self.next = qp + 1;
        }
        self.handled += self.sim.get("handled");
        self.ignored += self.sim.get("ignored");
        if self.sim.get("gate_enable") == 1 {
            let (qp, shut) = (self.sim.get("gate_index") as usize, self.sim.get("gate_entry_shut") == 1);
            self.owed[qp] |= self.gate[qp] && !shut;
            self.gate[qp] = shut;
            self.stop[qp] = self.sim.get("gate_entry_stop") == 1;
            assert!(shut || !self.stop[qp], "who must stop must wait");
        }
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, 0.1);
        for item in &self.sinks[0].items[self.woken..] {
            self.owed[item[""].to_u64() as usize] = false;
        }
        self.woken = self.sinks[0].items.len();
    }

    fn run_us(&mut self, us: f64) {
        let end = self.now_us() + us;
        while self.now_us() < end {
            self.step();
        }
    }

    fn cnp(&mut self, qp: usize) {
        self.sources[CNP].push_values(&[("", qp as u128)]);
    }

    /// Mb/s of a QP over some time.
    fn rate(&mut self, qp: usize, us: f64) -> f64 {
        let (before, start) = (self.sent[qp], self.now_us());
        self.run_us(us);
        (self.sent[qp] - before) as f64 * 8.0 / (self.now_us() - start)
    }
}

/// The published algorithm in real numbers.
struct Model {
    p: Parameters,
    rate: f64,
    target: f64,
    alpha: f64,
    alpha_at: f64,
    rate_at: f64,
    bytes: u64,
    by_time: u32,
    by_bytes: u32,
}

impl Model {
    fn new(p: &Parameters) -> Self {
        let (rate, target, alpha) = (LINE, LINE, 1.0);
        let (by_time, by_bytes) = (0, 0);
        Model { p: *p, rate, target, alpha, alpha_at: 0.0, rate_at: 0.0, bytes: 0, by_time, by_bytes }
    }

    fn cnp(&mut self, now: f64) {
        self.target = self.rate;
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(self.p.least);
        self.alpha += (1.0 - self.alpha) / f64::from(1 << self.p.gain);
        (self.alpha_at, self.rate_at) = (now + self.p.alpha_us, now + self.p.rate_us);
        (self.bytes, self.by_time, self.by_bytes) = (0, 0, 0);
    }

    fn rise(&mut self) {
        let (least, most) = (self.by_time.min(self.by_bytes), self.by_time.max(self.by_bytes));
        if least > self.p.steps {
            self.target += self.p.hyper;
        } else if most > self.p.steps {
            self.target += self.p.additive;
        }
        self.target = self.target.min(LINE);
        self.rate = (self.rate + self.target) / 2.0;
    }

    fn advance(&mut self, now: f64, bytes: u64) {
        self.bytes += bytes;
        while self.alpha_at <= now {
            self.alpha_at += self.p.alpha_us;
            self.alpha -= self.alpha / f64::from(1 << self.p.gain);
        }
        while self.rate_at <= now {
            self.rate_at += self.p.rate_us;
            self.by_time += 1;
            self.rise();
        }
        while self.bytes >= self.p.bytes {
            self.bytes -= self.p.bytes;
            self.by_bytes += 1;
            self.rise();
        }
    }
}

#[test]
fn a_flow_sends_at_the_rate_of_the_published_algorithm() {
    let cases = [
        (PUBLISHED, 200.0),
        // Bytes raise it too, far enough for the hyper increase, and alpha moves fast.
        (Parameters { gain: 3, rate_us: 31.0, bytes: 40_000, steps: 2, hyper: 300.0, ..PUBLISHED }, 400.0),
        (
            Parameters { gain: 4, alpha_us: 20.0, bytes: 100_000, steps: 1, additive: 200.0, ..PUBLISHED },
            150.0,
        ),
    ];
    for (case, (p, every)) in cases.into_iter().enumerate() {
        let mut bench = bench(&p, 71);
        let mut model = Model::new(&p);
        bench.busy[3] = true;
        bench.run_us(20.0);
        let mut expected = bench.sent[3] as f64;
        let mut next = bench.now_us();
        let (mut lowest, mut windows) = (LINE, 0);
        for window in 0..20 {
            let (from, sent) = (expected, bench.sent[3]);
            let end = bench.now_us() + 60.0;
            while bench.now_us() < end {
                let before = (bench.now_us(), bench.sent[3]);
                // Before it is forgotten: the model forgets nothing.
                if (bench.now_us() >= next || model.rate > 0.998 * LINE) && window < 16 {
                    bench.cnp(3);
                    model.cnp(bench.now_us());
                    lowest = lowest.min(model.rate);
                    next = bench.now_us() + bench.random.rng.random_range(0.2 * every..2.0 * every);
                }
                bench.step();
                expected += model.rate / 8.0 * (bench.now_us() - before.0);
                model.advance(bench.now_us(), bench.sent[3] - before.1);
            }
            let (wanted, got) = (expected - from, (bench.sent[3] - sent) as f64);
            // Some packets, and some per cent of a rate that changes a period sooner or later.
            let slack = 3.0 * PACKET as f64 + 0.06 * wanted;
            assert!(
                (wanted - got).abs() < slack,
                "seed {}, case {case}, window {window}: {got} bytes, expected {wanted:.0} at {:.0} Mb/s",
                bench.random.seed,
                model.rate
            );
            windows += 1;
        }
        assert!(windows == 20 && lowest < 0.6 * LINE, "lowest {lowest}");
        assert_eq!(bench.ignored, 0);
    }
}

#[test]
fn notifications_without_end_lead_to_the_least_rate_and_their_end_to_the_line_rate() {
    let p = Parameters { least: 100.0, alpha_us: 20.0, rate_us: 20.0, additive: 400.0, ..PUBLISHED };
    let mut bench = bench(&p, 72);
    bench.busy[5] = true;
    for _ in 0..60 {
        bench.cnp(5);
        bench.run_us(3.0);
    }
    let mut slow = 0.0;
    for _ in 0..40 {
        bench.cnp(5);
        slow += bench.rate(5, 10.0) / 40.0;
    }
    assert!((70.0..130.0).contains(&slow), "{slow} Mb/s");
    bench.run_us(800.0);
    let fast = bench.rate(5, 100.0);
    assert!(fast > 0.97 * LINE, "{fast} Mb/s");
    assert_eq!((bench.gate, bench.stop, bench.owed), ([false; QPS], [false; QPS], [false; QPS]));
    // Its flow has ended: a CNP begins with alpha as at first.
    bench.cnp(5);
    bench.run_us(4.0);
    let half = bench.rate(5, 14.0);
    assert!((0.44..0.56).contains(&(half / LINE)), "{half} Mb/s");
}

#[test]
fn others_share_what_a_flow_leaves_and_wake_ups_come_for_all() {
    let p = Parameters { alpha_us: 10.0, rate_us: 10.0, ..PUBLISHED };
    let mut bench = bench(&p, 73);
    bench.busy = [true; QPS];
    bench.run_us(30.0);
    for _ in 0..12 {
        (0..8).for_each(|qp| bench.cnp(qp));
        bench.run_us(8.0);
    }
    let before = bench.sent;
    for _ in 0..20 {
        (0..8).for_each(|qp| bench.cnp(qp));
        bench.run_us(8.0);
    }
    let got: Vec<u64> = bench.sent.iter().zip(before).map(|(now, before)| now - before).collect();
    // 200,000 bytes fit on the wire, and it is never idle.
    assert!(got.iter().sum::<u64>() >= 195_000, "{got:?}");
    assert!(got[..8].iter().all(|slow| got[8..].iter().all(|fast| slow < fast)), "{got:?}");
    bench.busy = [false; QPS];
    bench.run_us(500.0);
    assert_eq!((bench.gate, bench.owed), ([false; QPS], [false; QPS]));
}

#[test]
fn a_queue_pair_that_finds_no_flow_is_not_held_back_and_counted() {
    let cfg = RnicConfig::named("generic-8b").unwrap();
    let count = flows(&cfg) as usize;
    // One flow a QP here, so the flows are all used only with a smaller clock.
    assert_eq!((count, flows(&RnicConfig::named("generic-64b").unwrap())), (16, 64));
    assert_eq!(flows(&RnicConfig { clock_khz: 25_000, ..cfg }), 4);
    let cfg = RnicConfig { clock_khz: 25_000, ..RnicConfig::named("generic-8b").unwrap() };
    let qp = bits(cfg.qp_bits());
    let netlist = build("top", |m| {
        let control = m.input_of("control", &CongestionControl::of());
        let (cnps, resets) = (m.stream_in("cnp", &qp), m.stream_in("reset", &qp));
        let out = react(m, &cfg, control, m.input_of("sent", &Sent::of(&cfg)), cnps, resets);
        m.output("gate", &out.gate);
        m.output("counts", &vec![out.handled, out.ignored]);
        m.stream_out("wake", out.wake);
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    for (name, value) in
        [("line_mbps", 1000), ("gain", 8), ("alpha_us", 55), ("rate_us", 55), ("bytes", 1 << 30)]
    {
        sim.set(&format!("control_{name}"), value);
    }
    let mut sources = [Source::new("cnp", &qp), Source::new("reset", &qp)];
    let mut sinks = [Sink::new("wake", &qp)];
    let mut random = Random::new(74);
    let mut run = |sim: &mut Sim, sources: &mut [Source; 2], cycles: u32| {
        let (mut gates, mut counts) = (Vec::new(), [0, 0]);
        for _ in 0..cycles {
            if sim.get("gate_enable") == 1 {
                gates.push((sim.get("gate_index"), sim.get("gate_entry_shut")));
            }
            counts[0] += sim.get("counts_0");
            counts[1] += sim.get("counts_1");
            step(sim, sources, &mut sinks, &mut random, 0.0);
        }
        (gates, counts)
    };
    (0..6).for_each(|qp| sources[CNP].push_values(&[("", qp)]));
    let (gates, counts) = run(&mut sim, &mut sources, 300);
    assert_eq!(counts, [4, 2]);
    // After reset every copy of the gate is told that it is open.
    assert!((0..16).all(|qp| gates.contains(&(qp, 0))));
    assert!(gates.iter().all(|(qp, shut)| *shut == 0 || *qp < 4));
    // A QP that begins a new life gives its flow to another, and is not held back.
    sources[RESET].push_values(&[("", 2)]);
    sources[RESET].push_values(&[("", 9)]);
    run(&mut sim, &mut sources, 60);
    sources[CNP].push_values(&[("", 5)]);
    let (gates, counts) = run(&mut sim, &mut sources, 60);
    assert_eq!(counts, [1, 0]);
    assert!(gates.contains(&(5, 1)));
    // Without a line rate nobody is held back any more.
    sim.set("control_line_mbps", 0);
    run(&mut sim, &mut sources, 200);
    sources[CNP].push_values(&[("", 5)]);
    let (gates, counts) = run(&mut sim, &mut sources, 200);
    assert_eq!((gates.len(), counts), (0, [0, 1]));
}

#[test]
fn a_reset_opens_the_gate() {
    let mut bench = bench(&Parameters { least: 1.0, ..PUBLISHED }, 75);
    bench.busy[7] = true;
    for _ in 0..30 {
        bench.cnp(7);
        bench.run_us(3.0);
    }
    assert!(bench.gate[7] && !bench.stop[7]);
    bench.sources[RESET].push_values(&[("", 7)]);
    bench.run_us(2.0);
    // It wakes like any other: it may have begun a new life by then.
    assert!(!bench.gate[7] && !bench.owed[7]);
    let rate = bench.rate(7, 50.0);
    assert!(rate > 0.95 * LINE, "{rate} Mb/s");
}

#[test]
fn who_goes_on_behind_the_gate_stops_at_its_debt_and_keeps_its_rate() {
    let never = Parameters { alpha_us: 65_535.0, rate_us: 65_535.0, bytes: 0, ..PUBLISHED };
    for cnps in [1, 3, 6] {
        let mut bench = bench(&never, 76);
        bench.busy[2] = true;
        bench.eager = true;
        bench.run_us(20.0);
        for _ in 0..cnps {
            bench.cnp(2);
            bench.run_us(1.0);
        }
        bench.run_us(60.0);
        let mut stops = 0;
        let (start, mut before) = ((bench.now_us(), bench.sent[2]), false);
        while bench.now_us() < start.0 + 600.0 {
            bench.step();
            stops += u32::from(bench.stop[2] && !before);
            before = bench.stop[2];
        }
        let rate = LINE / f64::from(1 << cnps);
        let (got, wanted) = ((bench.sent[2] - start.1) as f64, rate / 8.0 * 600.0);
        // A debt of some packets is paid before the next one.
        let slack = f64::from(DEBT) + 4.0 * PACKET as f64;
        assert!((got - wanted).abs() < slack, "{cnps} CNPs: {got} bytes, expected {wanted}");
        assert!(stops > 2, "{cnps} CNPs: {stops} stops");
        let burst = got / f64::from(stops);
        assert!(burst > f64::from(DEBT) / 2.0, "{cnps} CNPs: {burst} bytes between stops");
    }
}
