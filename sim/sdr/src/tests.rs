// SPDX-License-Identifier: MIT OR Apache-2.0
//! A well-behaved driver of the device, whose departures are in the modules.
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{catch_unwind, AssertUnwindSafe};

use super::*;

mod cells;
mod distances;
mod levels;
mod traffic;

type Change = Box<dyn FnOnce(&mut Pins)>;

/// MODE for a burst of `1 << power` and a CAS latency.
fn mode(power: u32, cl: u32) -> u32 {
    cl << 4 | power
}

/// Drives the device's balls from a list of changes by time.
struct Bench {
    dev: Sdr,
    tck: u64,
    high: u64,
    /// The next rising edge.
    next: u64,
    pins: Pins,
    changes: BTreeMap<u64, Vec<Change>>,
    /// What DQ is driven with from a time on.
    dq: BTreeMap<u64, Option<u32>>,
    samples: BTreeSet<u64>,
    sampled: Vec<u32>,
}

/// All limits in multiples of 10 ns, for exact comparisons.
fn timing() -> Timing {
    let ps = |ps| Span { ps, ck: 0 };
    Timing {
        ck_ps: [10_000, 10_000],
        rcd: ps(20_000),
        rp: ps(20_000),
        ras: ps(50_000),
        rc: ps(70_000),
        rfc: ps(70_000),
        rrd: ps(20_000),
        wr: ps(20_000),
        startup_divisor: 1_000,
        ..Timing::m12l64322a_7()
    }
}

impl Bench {
    /// At power-up, before CLK's first edge.
    fn off(timing: Timing, tck: u64, seed: u64) -> Self {
        let mut dev = Sdr::new(timing, seed);
        dev.drive(0, Pins::default());
        Self {
            dev,
            tck,
            high: tck / 2,
            next: tck,
            pins: Pins::default(),
            changes: BTreeMap::new(),
            dq: BTreeMap::new(),
            samples: BTreeSet::new(),
            sampled: Vec::new(),
        }
    }

    /// Power is good for 200 us.
    fn waited(timing: Timing, tck: u64, seed: u64) -> Self {
        let mut b = Self::off(timing, tck, seed);
        b.edges(200_000_u64.div_ceil(tck));
        b
    }

    /// Ready for use, with a mode.
    fn ready(timing: Timing, tck: u64, seed: u64, value: u32) -> Self {
        let mut b = Self::waited(timing, tck, seed);
        b.command(2, 0, 0x400);
        b.edges(9);
        for _ in 0..8 {
            b.refresh();
            b.edges(20);
        }
        b.set_mode(value);
        b.edges(9);
        b
    }

    fn at(&mut self, ps: u64, change: impl FnOnce(&mut Pins) + 'static) {
        self.changes.entry(ps).or_default().push(Box::new(change));
    }

    /// Everything until `until`, the edges of the clock included.
    fn run(&mut self, until: u64) {
        loop {
            let clock = if self.pins.clk { self.next - self.tck + self.high } else { self.next };
            let change = self.changes.keys().next().copied().unwrap_or(u64::MAX);
            let dq = self.dq.keys().next().copied().unwrap_or(u64::MAX);
            let sample = self.samples.first().copied().unwrap_or(u64::MAX);
            let now = clock.min(change).min(dq).min(sample);
            if now > until {
                return;
            }
            if let Some(dq) = self.dq.remove(&now) {
                self.pins.drive = if dq.is_some() { u32::MAX } else { 0 };
                self.pins.dq = dq.unwrap_or(self.pins.dq);
            }
            for change in self.changes.remove(&now).unwrap_or_default() {
                change(&mut self.pins);
            }
            if now == clock {
                self.pins.clk = !self.pins.clk;
                if self.pins.clk {
                    self.next += self.tck;
                }
            }
            self.dev.drive(now, self.pins);
            if self.samples.remove(&now) {
                let word = self.dev.sample(now);
                self.sampled.push(word);
            }
        }
    }

    fn edges(&mut self, count: u64) {
        for _ in 0..count {
            self.run(self.next);
        }
    }

    /// Runs up to the rising edge that takes the command, and gives its time.
    fn command(&mut self, code: u8, ba: u8, a: u32) -> u64 {
        let edge = self.next;
        let half = self.tck / 2;
        self.at(edge - half, move |p| {
            (p.ba, p.a) = (ba, a);
            (p.ras_n, p.cas_n, p.we_n) = (code & 4 != 0, code & 2 != 0, code & 1 != 0);
        });
        self.at(edge + self.tck - half, |p| (p.ras_n, p.cas_n, p.we_n) = (true, true, true));
        self.edges(1);
        edge
    }

    fn act(&mut self, ba: u8, row: u32) {
        self.command(3, ba, row);
    }

    fn pre(&mut self, ba: u8) {
        self.command(2, ba, 0);
    }

    fn refresh(&mut self) {
        self.command(1, 0, 0);
    }

    fn set_mode(&mut self, value: u32) {
        self.command(0, 0, value);
    }

    fn terminate(&mut self) {
        self.command(6, 0, 0);
    }

    /// DQ is let go before the next edge.
    fn hush(&mut self) {
        let at = self.next - self.tck / 2;
        self.dq.retain(|ps, _| *ps < at);
        self.dq.insert(at, None);
    }

    /// A WRITE with words from its edge on.
    fn write(&mut self, ba: u8, a: u32, words: &[u32]) -> u64 {
        let first = self.next - self.tck / 2;
        self.dq.retain(|ps, _| *ps < first);
        let levels = words.iter().copied().map(Some).chain([None]);
        self.dq.extend((0..).zip(levels).map(|(i, level): (u64, _)| (first + i * self.tck, level)));
        self.command(4, ba, a)
    }

    /// A READ.
    fn read(&mut self, ba: u8, a: u32) -> u64 {
        self.command(5, ba, a)
    }

    /// So many words of a READ are sampled, in the middle of when they are valid.
    fn fetch(&mut self, taken: u64, words: u64) {
        let first = taken + (self.dev.cl() - 1) * self.tck;
        let Timing { access_ps, oh_ps, .. } = self.dev.timing;
        let middle = (access_ps + self.tck + oh_ps) / 2;
        self.samples.extend((0..words).map(|i| first + i * self.tck + middle));
    }
}

/// A device at 10 ns with bursts of 4 and a CAS latency of 3, ready.
fn ready() -> Bench {
    with(|_| ())
}

/// The same with other limits.
fn with(change: impl Fn(&mut Timing)) -> Bench {
    let mut t = timing();
    change(&mut t);
    Bench::ready(t, 10_000, 1, mode(2, 3))
}

/// The same with row 5 of bank 0 open and tRCD over.
fn open() -> Bench {
    opened(ready())
}

fn opened(mut b: Bench) -> Bench {
    b.act(0, 5);
    b.edges(4);
    b
}

/// Runs `f` and expects a panic that holds `rule`.
fn breaks(rule: &str, f: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err(&format!("no panic, but expected: {rule}"));
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.starts_with("SDR model at ") && text.contains(rule), "expected {rule:?}, got {text:?}");
}
