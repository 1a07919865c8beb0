// SPDX-License-Identifier: MIT OR Apache-2.0
//! A well-behaved driver of the device, and one departure from it for each rule.
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{catch_unwind, AssertUnwindSafe};

use super::*;

const MODES: [(u8, u32); 4] = [(2, 0x08), (3, 0), (1, 0x01), (0, 0x620)];

type PlainChange = (&'static str, fn(&mut Pins));
type Change = Box<dyn FnOnce(&mut Pins)>;

/// Drives the device's balls from a list of changes by time.
struct Bench {
    dev: Ddr3,
    tck: u64,
    /// The next rising edge.
    next: u64,
    running: bool,
    pins: Pins,
    changes: BTreeMap<u64, Vec<Change>>,
    samples: BTreeSet<u64>,
    sampled: Vec<u16>,
    /// How late DQS is in writes, and when it is to be let go.
    late: i64,
    release: u64,
    preamble: u64,
}

fn timing(dqsck_ps: u64) -> Timing {
    let skew_ps = std::array::from_fn(|bit| (bit as i32 * 37) % 300 - 150);
    Timing { startup_divisor: 1_000, dqsck_ps, skew_ps, ..Timing::ddr3_1600_4gb() }
}

impl Bench {
    /// At power-up with RESET# and CKE low.
    fn off(timing: Timing, tck: u64, seed: u64) -> Self {
        let mut dev = Ddr3::new(timing, 14, seed);
        let pins = Pins { cs_n: true, ras_n: true, cas_n: true, we_n: true, ..Pins::default() };
        dev.drive(0, pins);
        Self {
            dev,
            tck,
            next: tck,
            running: true,
            pins,
            changes: BTreeMap::new(),
            samples: BTreeSet::new(),
            sampled: Vec::new(),
            late: 0,
            release: 0,
            preamble: tck,
        }
    }

    /// With CKE just high, before tXPR.
    fn awake(timing: Timing, tck: u64, seed: u64) -> Self {
        let mut b = Self::off(timing, tck, seed);
        b.at(200_000, |p| p.reset_n = true);
        b.run(700_000);
        b.at(b.next + tck / 2, |p| p.cke = true);
        b.edges(2);
        b
    }

    /// Ready for use.
    fn ready(timing: Timing, tck: u64, seed: u64) -> Self {
        let mut b = Self::awake(timing, tck, seed);
        b.start_up();
        b
    }

    fn start_up(&mut self) {
        self.edges(270_000_u64.div_ceil(self.tck) - 1);
        for (register, value) in MODES {
            self.command(0, register, value);
            self.edges(3);
        }
        self.edges(8);
        self.command(6, 0, 0x400);
        self.edges(511.max(640_000_u64.div_ceil(self.tck) - 1));
    }

    fn at(&mut self, ps: u64, change: impl FnOnce(&mut Pins) + 'static) {
        self.changes.entry(ps).or_default().push(Box::new(change));
    }

    /// Everything until `until`, the edges of the clock included.
    fn run(&mut self, until: u64) {
        loop {
            let clock = if !self.running {
                u64::MAX
            } else if self.pins.ck {
                self.next - self.tck + self.tck / 2
            } else {
                self.next
            };
            let change = self.changes.keys().next().copied().unwrap_or(u64::MAX);
            let sample = self.samples.first().copied().unwrap_or(u64::MAX);
            let now = clock.min(change).min(sample);
            if now > until {
                return;
            }
            for change in self.changes.remove(&now).unwrap_or_default() {
                change(&mut self.pins);
            }
            if now == clock {
                self.pins.ck = !self.pins.ck;
                if self.pins.ck {
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

    /// Has what was to happen at `from` happen at `to`.
    fn shift(&mut self, from: u64, to: u64) {
        let changes = self.changes.remove(&from).expect("something to shift");
        self.changes.entry(to).or_default().extend(changes);
    }

    fn edges(&mut self, count: u64) {
        for _ in 0..count {
            self.run(self.next);
        }
    }

    /// Runs up to the rising edge that takes the command, and gives its time.
    fn command(&mut self, code: u8, ba: u8, a: u32) -> u64 {
        let edge = self.next;
        self.at(edge - self.tck / 2, move |p| {
            (p.cs_n, p.ba, p.a) = (false, ba, a);
            (p.ras_n, p.cas_n, p.we_n) = (code & 4 != 0, code & 2 != 0, code & 1 != 0);
        });
        self.at(edge + self.tck / 2, |p| p.cs_n = true);
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

    /// A WRITE whose DQS is `late` and in the middle of each word.
    fn write(&mut self, ba: u8, a: u32, words: [u16; 8], masks: [u8; 8]) -> u64 {
        let taken = self.command(4, ba, a);
        let tck = self.tck;
        let first = (taken + 6 * tck).checked_add_signed(self.late).unwrap();
        if first < self.release + tck / 2 {
            self.changes.remove(&self.release);
        }
        self.at(first - self.preamble, |p| p.dqs = p.dqs.or(Some(0)));
        for i in 0..8 {
            let edge = first + i * tck / 2;
            let (word, mask) = (words[i as usize], masks[i as usize]);
            self.at(edge - tck / 4, move |p| (p.dq, p.dm) = (Some(word), mask));
            self.at(edge, move |p| p.dqs = Some(if i % 2 == 0 { 3 } else { 0 }));
        }
        let last = first + 7 * tck / 2;
        self.release = last + 2 * tck / 5;
        self.at(self.release, |p| (p.dq, p.dqs) = (None, None));
        taken
    }

    fn plain_write(&mut self) -> u64 {
        self.write(0, 0, [0x1234; 8], [0; 8])
    }

    /// A READ, each word of which is sampled in its middle.
    fn read(&mut self, ba: u8, a: u32) -> u64 {
        let taken = self.command(5, ba, a);
        let first = taken + 5 * self.tck + self.dev.timing.dqsck_ps + self.tck / 4;
        self.samples.extend((0..8).map(|i| first + i * self.tck / 2));
        taken
    }
}

/// A device at 10 ns, ready.
fn ready() -> Bench {
    Bench::ready(timing(5_000), 10_000, 1)
}

/// The same with row 5 of bank 0 open and tRCD over.
fn open() -> Bench {
    let mut b = ready();
    b.act(0, 5);
    b.edges(1);
    b
}

/// Runs `f` and expects a panic that holds `rule`.
fn breaks(rule: &str, f: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err(&format!("no panic, but expected: {rule}"));
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(text.starts_with("DDR3 model at ") && text.contains(rule), "expected {rule:?}, got {text:?}");
}

/// Bursts in random places, seamless or not, with random masks, against a copy of what should be there.
fn traffic(tck: u64, dqsck: u64, seed: u64) {
    println!("tck {tck}, dqsck {dqsck}, seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut b = Bench::ready(timing(dqsck), tck, seed);
    let mut copy = HashMap::new();
    for round in 0..20 {
        // No more than 16 within 2 tREFI, and no fewer than it takes.
        if round % 2 == 0 {
            b.refresh();
            b.edges(260_000 / tck + 1);
        }
        let (ba, row) = (rng.random_range(0..8), rng.random_range(0..4));
        b.act(ba, row);
        b.edges(13_750 / tck);
        for _ in 0..rng.random_range(1..6) {
            b.late = rng.random_range(-(tck as i64) / 50..tck as i64 / 50);
            let column = 8 * rng.random_range(0..4);
            let words: [u16; 8] = rng.random();
            let masks: [u8; 8] = std::array::from_fn(|_| rng.random_range(0..4));
            for i in 0..8 {
                let key = (ba, row, column + i as u32);
                let old = *copy.entry(key).or_insert_with(|| b.dev.word(ba, row, key.2));
                let mask = [0, 0xff, 0xff00, 0xffff][usize::from(masks[i])];
                copy.insert(key, old & mask | words[i] & !mask);
            }
            // A12 has no meaning while the burst length is fixed.
            b.write(ba, column | rng.random_range(0..2) << 12, words, masks);
            b.edges(3 + [0, 1, 2, 7][rng.random_range(0..4)]);
        }
        b.edges(10);
        let mut wanted = Vec::new();
        for _ in 0..rng.random_range(1..6) {
            let column = 8 * rng.random_range(0..4);
            b.read(ba, column);
            b.edges(3 + [0, 1, 4][rng.random_range(0..3)]);
            wanted.extend(
                (column..column + 8)
                    .map(|c| copy.get(&(ba, row, c)).copied().unwrap_or_else(|| b.dev.word(ba, row, c))),
            );
        }
        b.edges(8);
        assert_eq!(std::mem::take(&mut b.sampled), wanted);
        b.pre(ba);
        b.edges(13_750 / tck);
    }
    for ((ba, row, column), word) in copy {
        assert_eq!(b.dev.word(ba, row, column), word);
    }
}

#[test]
fn what_is_written_is_read_back() {
    for (i, tck) in [20_000, 10_000, 8_000, 13_333, 40_000].into_iter().enumerate() {
        for (j, dqsck) in [1_000, 2_500, 5_000, 10_000].into_iter().enumerate() {
            traffic(tck, dqsck, (10 * i + j) as u64);
        }
    }
}

#[test]
fn the_tightest_timing_is_legal() {
    let mut b = ready();
    b.act(0, 5);
    b.edges(1);
    b.plain_write();
    b.edges(11);
    b.pre(0);
    b.edges(1);
    b.act(0, 6);
    b.edges(3);
    b.act(1, 6);
    b.read(0, 0);
    b.edges(5);
    b.plain_write();
    b.edges(13);
    b.read(0, 0);
    b.edges(3);
    b.pre(0);
    b.pre(1);
    b.edges(1);
    b.refresh();
    b.edges(25);
    b.command(6, 0, 0);
    b.edges(63);
    b.command(6, 0, 0x400);
    b.edges(255);
    b.command(0, 0, 0x720);
    b.edges(11);
    b.command(2, 0, 0x400);
    assert_eq!(b.sampled[8..], [0x1234; 8]);
    let counts = Counts { activates: 3, precharges: 4, reads: 2, writes: 2, refreshes: 1, mode_writes: 5 };
    assert_eq!(b.dev.counts(), counts);
}

#[test]
fn strobes_may_be_a_quarter_cycle_off() {
    for late in [-2_500, 2_500] {
        let mut b = open();
        b.late = late;
        b.preamble = 9_000;
        b.plain_write();
        b.edges(3);
        b.plain_write();
        b.edges(12);
        assert_eq!(b.dev.word(0, 5, 7), 0x1234);
    }
}

#[test]
fn a_strobe_may_be_parked_low() {
    let mut b = Bench::off(timing(5_000), 10_000, 1);
    b.pins.dqs = Some(0);
    b.at(200_000, |p| p.reset_n = true);
    b.at(755_000, |p| p.cke = true);
    b.run(760_000);
    b.start_up();
    b.act(0, 5);
    b.edges(1);
    b.plain_write();
    b.edges(12);
    assert_eq!(b.dev.word(0, 5, 7), 0x1234);
}

#[test]
fn pins_of_a_device_that_is_not_selected_may_change_at_any_time() {
    let mut b = ready();
    b.at(b.next, |p| (p.a, p.ba, p.we_n) = (7, 3, false));
    b.edges(2);
}

#[test]
fn reads_wrap_within_their_block() {
    let mut b = open();
    b.write(0, 3, std::array::from_fn(|i| i as u16), [0; 8]);
    b.edges(13);
    for (start, order) in
        [(0, [0, 1, 2, 3, 4, 5, 6, 7]), (3, [3, 0, 1, 2, 7, 4, 5, 6]), (6, [6, 7, 4, 5, 2, 3, 0, 1])]
    {
        b.read(0, start);
        b.edges(12);
        assert_eq!(std::mem::take(&mut b.sampled), order);
    }
}

#[test]
fn samples_are_random_at_changes_and_where_nothing_is_driven() {
    let mut t = timing(5_000);
    t.skew_ps = [0; 16];
    t.skew_ps[3] = 1_000;
    let mut b = Bench::ready(t, 10_000, 1);
    b.act(0, 5);
    b.edges(1);
    b.write(0, 0, [0, 0xffff, 0xffff, 0, 0, 0xffff, 0, 0xffff], [0; 8]);
    b.edges(13);
    let taken = b.read(0, 0);
    b.edges(7);
    // Which bits have been 0 and which 1 at a time since the start of the data, which is 55 ns behind the command.
    let mut seen = |ps: u64| {
        let words: Vec<u16> = (0..99).map(|_| b.dev.sample(taken + 55_000 + ps)).collect();
        words.iter().fold((0, 0), |(low, high), word| (low | !word, high | word))
    };
    assert_eq!(seen(499).0 & seen(499).1 & 0xfff7, 0xfff7, "begins");
    assert_eq!(seen(2_000), (0xffff, 0));
    assert_eq!(seen(4_600), (0xffff, 0xfff7), "changes, but for the bit that is late");
    assert_eq!(seen(5_600), (0x0008, 0xffff), "the late bit changes");
    assert_eq!(seen(10_000), (0, 0xffff), "equal words do not change");
    assert_eq!(seen(12_500), (0, 0xffff));
    b.edges(8);
    let words: Vec<u16> = (0..99).map(|_| b.dev.sample(b.next - b.tck)).collect();
    assert!(
        (0..16).all(|bit| words.iter().any(|w| w >> bit & 1 == 1) && words.iter().any(|w| w >> bit & 1 == 0))
    );
}

#[test]
fn blank_words_depend_on_seed_and_address() {
    let word = |seed, ba, row, column| Ddr3::new(timing(5_000), 14, seed).word(ba, row, column);
    let words: BTreeSet<u16> = (0..100).map(|column| word(1, 0, 0, column)).collect();
    assert!(words.len() > 90);
    assert_eq!(word(1, 2, 3, 4), word(1, 2, 3, 4));
    assert!(word(1, 2, 3, 4) != word(2, 2, 3, 4) && word(1, 2, 3, 4) != word(1, 2, 4, 4));
}

#[test]
fn a_reset_forgets_all_and_starts_anew() {
    let mut b = open();
    b.plain_write();
    b.edges(12);
    let t = b.next + b.tck / 2;
    b.at(t, |p| (p.reset_n, p.cke) = (false, false));
    b.at(t + 100_000, |p| p.reset_n = true);
    b.run(t + 600_000);
    assert_ne!(b.dev.word(0, 5, 0), 0x1234);
    b.at(b.next + b.tck / 2, |p| p.cke = true);
    b.edges(2);
    b.start_up();
    b.act(0, 5);
}

#[test]
fn eight_refreshes_may_be_postponed_and_eight_come_early() {
    let mut b = ready();
    b.edges(9 * 780 - 2);
    for count in [9 + 7, 1] {
        for _ in 0..count {
            b.refresh();
            b.edges(25);
        }
        b.edges(2 * 780 - 26);
    }
    // Until 9 tREFI behind the last.
    b.edges(7 * 780);
    b.refresh();
}

#[test]
fn start_up_has_an_order() {
    let off = || Bench::off(timing(5_000), 10_000, 1);
    let awake = |edges| {
        let mut b = Bench::awake(timing(5_000), 10_000, 1);
        b.edges(edges);
        b
    };
    let modes = |from: usize, to: usize| {
        let mut b = awake(26);
        for (register, value) in &MODES[from..to] {
            b.command(0, *register, *value);
            b.edges(3);
        }
        b
    };
    breaks("RESET# is high at power-up", || {
        Ddr3::new(timing(5_000), 14, 1).drive(0, Pins { reset_n: true, ..Pins::default() });
    });
    breaks("RESET# was low for 199998 ps, not 200000", || {
        let mut b = off();
        b.at(199_998, |p| p.reset_n = true);
        b.run(300_000);
    });
    breaks("CKE is not low from 10 ns before RESET# rises", || {
        let mut b = off();
        b.at(100_000, |p| p.cke = true);
        b.at(191_000, |p| p.cke = false);
        b.at(200_000, |p| p.reset_n = true);
        b.run(300_000);
    });
    breaks("CKE was low for 490000 ps behind RESET#, not 500000", || {
        let mut b = off();
        b.at(200_000, |p| p.reset_n = true);
        b.at(685_000, |p| p.cke = true);
        b.run(800_000);
    });
    breaks("CK has not been stable", || {
        let mut b = off();
        (b.running, b.next) = (false, 800_000);
        b.at(200_000, |p| p.reset_n = true);
        b.run(790_000);
        b.running = true;
        b.at(845_000, |p| p.cke = true);
        b.at(845_000, |p| p.odt = false);
        b.run(840_000);
        b.shift(845_000, 842_000);
        b.next = 852_000;
        b.run(900_000);
    });
    breaks("tXPR: MRS", || _ = awake(25).command(0, 2, 0x08));
    breaks("MR3 is loaded before MR2", || _ = modes(1, 2));
    breaks("MR0 is loaded before MR1", || _ = modes(0, 2).command(0, 0, 0x620));
    breaks("mode register 4 is reserved", || _ = awake(26).command(0, 4, 0));
    breaks("ACT before initialisation is complete", || modes(0, 4).act(0, 0));
    breaks("PRE before initialisation is complete", || awake(26).pre(0));
    breaks("REF before initialisation is complete", || awake(26).refresh());
    breaks("ZQ before initialisation is complete", || _ = modes(0, 3).command(6, 0, 0x400));
    breaks("ZQCS before initialisation", || {
        let mut b = modes(0, 4);
        b.edges(8);
        b.command(6, 0, 0);
    });
    breaks("tMRD: MRS", || {
        let mut b = awake(26);
        b.command(0, 2, 0x08);
        b.edges(2);
        b.command(0, 3, 0);
    });
    breaks("tMOD: ZQ", || {
        let mut b = modes(0, 4);
        b.edges(7);
        b.command(6, 0, 0x400);
    });
    breaks("tZQinit: REF", || {
        let mut b = modes(0, 4);
        b.edges(8);
        b.command(6, 0, 0x400);
        b.edges(510);
        b.refresh();
    });
}

#[test]
fn mode_registers_have_one_fit_value() {
    for (register, value, why) in [
        (0, 0x621, "burst length"),
        (0, 0x622, "burst length"),
        (0, 0x628, "burst type"),
        (0, 0x610, "CL is not 6"),
        (0, 0x624, "CL is not 6"),
        (0, 0x6a0, "test mode"),
        (0, 0x2620, "reserved"),
        (1, 0x00, "DLL is not off"),
        (1, 0x21, "output driver"),
        (1, 0x05, "Rtt_Nom"),
        (1, 0x41, "Rtt_Nom"),
        (1, 0x201, "Rtt_Nom"),
        (1, 0x09, "additive latency"),
        (1, 0x81, "write levelling"),
        (1, 0x801, "TDQS"),
        (1, 0x1001, "outputs are off"),
        (1, 0x101, "reserved"),
        (1, 0x401, "reserved"),
        (2, 0x09, "partial array"),
        (2, 0x00, "CWL is not 6"),
        (2, 0x208, "Rtt_WR"),
        (2, 0x108, "reserved"),
        (2, 0xc8, "both ASR and SRT"),
        (3, 0x04, "multi purpose register"),
        (3, 0x01, "reserved"),
    ] {
        breaks(why, || _ = ready().command(0, register, value));
    }
    ready().command(0, 0, 0x1f20);
    ready().command(0, 1, 0x03);
    ready().command(0, 2, 0x88);
}

#[test]
fn commands_keep_their_distance() {
    let with = |change: fn(&mut Timing)| {
        let mut t = timing(5_000);
        change(&mut t);
        Bench::ready(t, 10_000, 1)
    };
    // First a command (a WRITE or READ goes to the open bank), then idle edges, then another.
    breaks("tRCD: READ", || {
        let mut b = ready();
        b.act(0, 5);
        b.read(0, 0);
    });
    breaks("tRAS: PRE", || {
        let mut b = open();
        b.edges(1);
        b.pre(0);
    });
    breaks("tRP: ACT", || {
        let mut b = open();
        b.edges(2);
        b.pre(0);
        b.act(0, 5);
    });
    breaks("tRP: ACT", || {
        let mut b = ready();
        b.pre(0);
        b.act(0, 5);
    });
    breaks("tRC: ACT", || {
        let mut b = with(|t| t.rc.ps = 100_000);
        b.act(0, 5);
        b.edges(3);
        b.pre(0);
        b.edges(4);
        b.act(0, 5);
    });
    breaks("tRRD: ACT", || {
        let mut b = open();
        b.edges(1);
        b.act(1, 5);
    });
    breaks("tFAW: ACT", || {
        let mut b = with(|t| t.faw.ps = 170_000);
        for ba in 0..5 {
            b.act(ba, 5);
            b.edges(3);
        }
    });
    breaks("tCCD: READ", || {
        let mut b = open();
        b.read(0, 0);
        b.edges(2);
        b.read(0, 8);
    });
    breaks("tCCD: WRITE", || {
        let mut b = open();
        b.plain_write();
        b.edges(2);
        b.plain_write();
    });
    breaks("READ to WRITE", || {
        let mut b = open();
        b.read(0, 0);
        b.edges(4);
        b.plain_write();
    });
    breaks("tWTR: READ", || {
        let mut b = open();
        b.plain_write();
        b.edges(12);
        b.read(0, 0);
    });
    breaks("tWR: PRE", || {
        let mut b = open();
        b.plain_write();
        b.edges(10);
        b.command(2, 0, 0x400);
    });
    breaks("tRTP: PRE", || {
        let mut b = open();
        b.read(0, 0);
        b.edges(2);
        b.pre(0);
    });
    breaks("tRFC: ACT", || {
        let mut b = ready();
        b.refresh();
        b.edges(24);
        b.act(0, 0);
    });
    breaks("tRP: REF", || {
        let mut b = ready();
        b.pre(3);
        b.refresh();
    });
    breaks("tZQCS: ACT", || {
        let mut b = ready();
        b.command(6, 0, 0);
        b.edges(62);
        b.act(0, 0);
    });
    breaks("tZQoper: ACT", || {
        let mut b = ready();
        b.command(6, 0, 0x400);
        b.edges(254);
        b.act(0, 0);
    });
    breaks("MRS before the end of a read burst", || {
        let mut b = open();
        b.read(0, 0);
        b.edges(3);
        b.pre(0);
        b.edges(1);
        b.command(0, 0, 0x620);
    });
}

#[test]
fn commands_need_a_fit_state() {
    breaks("ACT of bank 0, which is open", || open().act(0, 5));
    breaks("READ of bank 1, which is closed", || _ = open().read(1, 0));
    breaks("WRITE of bank 1, which is closed", || _ = open().write(1, 0, [0; 8], [0; 8]));
    breaks("READ with auto precharge", || _ = open().read(0, 0x400));
    breaks("WRITE with auto precharge", || _ = open().write(0, 0x400, [0; 8], [0; 8]));
    breaks("REF while bank 0 is open", || open().refresh());
    breaks("MRS while bank 0 is open", || _ = open().command(0, 0, 0x620));
    breaks("ZQ while bank 0 is open", || _ = open().command(6, 0, 0));
    breaks("more than 14 bits", || ready().act(0, 0x4000));
    breaks("BA is 8", || ready().act(8, 0));
    breaks("ODT is high", || {
        let mut b = ready();
        b.at(b.next + 5_000, |p| p.odt = true);
        b.edges(2);
    });
    breaks("CKE is low", || {
        let mut b = ready();
        b.at(b.next + 5_000, |p| p.cke = false);
        b.edges(2);
    });
    breaks("drive() is called for the earlier 5 ps", || ready().dev.drive(5, Pins::default()));
    breaks("which drive() has not reached", || _ = ready().dev.sample(u64::MAX));
}

#[test]
fn refreshes_come_in_time() {
    breaks("refresh: no REF for more than 9 tREFI", || ready().edges(9 * 780 + 2));
    breaks("refresh: no REF for more than 9 tREFI", || {
        let mut b = ready();
        (0..9).for_each(|_| {
            b.refresh();
            b.edges(25);
        });
        b.edges(9 * 780);
    });
    breaks("refresh: more than 8 REF are postponed", || {
        let mut b = ready();
        b.edges(9 * 780 - 2);
        b.refresh();
        b.edges(800);
    });
    breaks("refresh: more than 16 REF within 2 tREFI", || {
        let mut b = ready();
        (0..17).for_each(|_| {
            b.refresh();
            b.edges(25);
        });
    });
}

#[test]
fn the_clock_is_steady() {
    breaks("tCK is 7900 ps", || _ = Bench::awake(timing(5_000), 7_900, 1));
    breaks("tCK is 101000 ps", || {
        let mut b = Bench::off(timing(5_000), 101_000, 1);
        b.at(200_000, |p| p.reset_n = true);
        b.run(1_400_000);
        b.at(b.next + 50_000, |p| p.cke = true);
        b.edges(2);
    });
    breaks("tCK is 9700 ps, but was 10000 ps", || {
        let mut b = ready();
        b.tck = 9_700;
        b.edges(3);
    });
    breaks("2 % longer", || {
        let mut b = ready();
        b.tck = 10_300;
        b.edges(3);
    });
    breaks("2 % longer", || {
        let mut b = ready();
        b.running = false;
        b.at(b.next + 100_000, |p| p.cs_n = true);
        b.run(b.next + 100_000);
    });
}

#[test]
fn inputs_are_steady_around_the_edge() {
    let changes: [PlainChange; 6] = [
        ("CKE", |p| p.cke = !p.cke),
        ("CS#", |p| p.cs_n = !p.cs_n),
        ("ODT", |p| p.odt = !p.odt),
        ("RAS#, CAS# or WE#", |p| p.we_n = !p.we_n),
        ("BA", |p| p.ba ^= 1),
        ("A", |p| p.a ^= 1),
    ];
    for (name, change) in changes {
        for (rule, offset) in [("tIS", -498), ("tIS", 0), ("tIH", 498)] {
            breaks(&format!("{rule}: {name} changes"), || {
                let mut b = ready();
                b.at(b.next.checked_add_signed(offset).unwrap(), change);
                b.command(7, 0, 0);
                b.edges(1);
            });
        }
    }
    breaks("tIS: CKE", || {
        let mut b = Bench::off(timing(5_000), 10_000, 1);
        b.at(200_000, |p| p.reset_n = true);
        b.at(799_600, |p| p.cke = true);
        b.run(900_000);
    });
    breaks("tIH: CKE", || {
        let mut b = Bench::off(timing(5_000), 10_000, 1);
        b.at(200_000, |p| p.reset_n = true);
        b.at(800_400, |p| p.cke = true);
        b.run(900_000);
    });
}

#[test]
fn the_controller_keeps_off_the_bus_of_a_read() {
    // Data from 55 to 95 ns behind the READ, give or take the skew of 150 ps; DQS from 45 ns.
    for (rule, from, to) in [
        ("DQ is driven", 54_000, 60_000),
        ("DQ is driven", 40_000, 53_900),
        ("DQ is driven", 70_000, 71_000),
        ("DQ is driven", 96_000, 99_000),
    ] {
        breaks(&format!("bus contention: {rule}"), || {
            let mut b = open();
            let taken = b.read(0, 0);
            b.at(taken + from, |p| p.dq = Some(0));
            b.at(taken + to, |p| p.dq = None);
            b.edges(12);
        });
    }
    for (from, to) in [(44_000, 45_000), (95_900, 98_000)] {
        breaks("bus contention: DQS is driven", || {
            let mut b = open();
            let taken = b.read(0, 0);
            b.at(taken + from, |p| p.dqs = Some(0));
            b.at(taken + to, |p| p.dqs = None);
            b.edges(12);
        });
    }
    let mut b = open();
    let taken = b.read(0, 0);
    b.at(taken + 40_000, |p| (p.dq, p.dqs) = (Some(0), Some(0)));
    b.at(taken + 43_800, |p| p.dqs = None);
    b.at(taken + 53_800, |p| p.dq = None);
    b.at(taken + 96_200, |p| (p.dq, p.dqs) = (Some(0), Some(0)));
    b.edges(12);
}

#[test]
fn write_data_is_strobed_well() {
    // What happens to the burst, given the time of its first edge.
    let burst = |rule: &str, change: fn(&mut Bench, u64)| {
        breaks(rule, || {
            let mut b = open();
            let first = b.plain_write() + 60_000;
            change(&mut b, first);
            b.edges(14);
        });
    };
    for late in [-2_520, 2_520] {
        breaks("tDQSS", || {
            let mut b = open();
            b.late = late;
            b.plain_write();
            b.edges(12);
        });
    }
    breaks("tDQSS: DQS0 edge 0 of a write burst is missing", || {
        let mut b = open();
        b.command(4, 0, 0);
        b.edges(12);
    });
    breaks("tWPRE", || {
        let mut b = open();
        b.preamble = 8_900;
        b.plain_write();
        b.edges(12);
    });
    breaks("tWPRE", || {
        let mut b = open();
        let last = b.plain_write() + 95_000;
        b.edges(3);
        b.plain_write();
        b.at(last + 3_200, |p| p.dqs = None);
        b.at(last + 4_000, |p| p.dqs = Some(0));
        b.edges(12);
    });
    burst("tWPRE", |b, first| b.shift(first - 10_000, first));
    burst("tDQSH, tDQSL: DQS0 edge 3 is 4000 ps", |b, first| b.shift(first + 15_000, first + 14_000));
    burst("tDQSH, tDQSL: DQS0 edge 3 of a write burst is missing", |b, first| {
        b.shift(first + 15_000, first + 16_000);
    });
    burst("tDQSH, tDQSL: DQS1 edge 1 of a write burst is missing", |b, first| {
        b.at(first + 5_000, |p| p.dqs = Some(2));
    });
    burst("DQS0 has an edge outside of a write burst", |b, first| {
        b.at(first + 45_000, |p| p.dqs = Some(0));
        b.at(first + 50_000, |p| p.dqs = Some(1));
    });
    burst("DQS1 has an edge outside of a write burst", |b, first| b.at(first + 45_000, |p| p.dqs = Some(2)));
    burst("is let go within a write burst", |b, first| b.at(first + 6_000, |p| p.dqs = None));
    burst("tWPST", |b, first| b.shift(first + 39_000, first + 37_900));
    burst("tDS: byte 0", |b, first| b.at(first + 9_502, |p| p.dq = Some(0x1235)));
    burst("tDS: byte 1", |b, first| b.at(first + 9_700, |p| p.dq = Some(0x5534)));
    burst("tDS: byte 0", |b, first| b.at(first + 9_700, |p| p.dm = 1));
    burst("tDH: byte 0", |b, first| b.at(first + 10_498, |p| p.dm = 1));
    burst("tDH: byte 1", |b, first| b.at(first + 10_498, |p| p.dq = Some(0x5534)));
    burst("tDH: byte 0", |b, first| b.at(first + 35_400, |p| p.dq = None));
    burst("DQ is not driven at DQS0 edge 2", |b, first| b.at(first + 8_000, |p| p.dq = None));
    breaks("DQS0 edge 0 of a write burst has the wrong direction", || {
        let mut b = Bench::off(timing(5_000), 10_000, 1);
        b.pins.dqs = Some(3);
        b.at(200_000, |p| p.reset_n = true);
        b.at(755_000, |p| p.cke = true);
        b.run(760_000);
        b.start_up();
        b.act(0, 5);
        b.edges(1);
        let first = b.plain_write() + 60_000;
        b.at(first - 10_000, |p| p.dqs = Some(0));
        b.edges(12);
    });
}
