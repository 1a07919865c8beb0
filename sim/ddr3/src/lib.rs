// SPDX-License-Identifier: MIT OR Apache-2.0
//! A strict behavioural model of one x16 DDR3 SDRAM device (JESD79-3F) with 8 banks and 10 column bits in
//! DLL-off mode, to test a memory controller with. [`Ddr3::drive`] takes the levels at the balls
//! as they change, [`Ddr3::sample`] gives what the device puts on DQ. **Every breach of protocol panics** with
//! the time and the rule, for the device itself would lose data silently.
//!
//! Latency: CL = 6 and CWL = 6, bursts of 8. Word `i` of a READ taken at the rising edge `T` is on DQ for half a
//! cycle from `T + 5 tCK + dqsck + i tCK / 2 + skew`; the first DQS edge of a WRITE is due at `T + 6 tCK`.
//!
//! Not supported, and so a panic: auto precharge, power-down, self refresh, on-die termination, write levelling,
//! the multi purpose register, and burst chop. DQS is not modelled on reads, but for its being driven.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

mod cells;
#[cfg(test)]
mod tests;
mod timing;

pub use cells::{Cells, Sent, Ways};
pub use timing::{Counts, Pins, Span, Timing};

/// `never!(device, bad, "rule")` panics with the time and the rule where something bad is true.
macro_rules! never {
    ($device:expr, $bad:expr, $($what:tt)+) => {
        if $bad {
            $device.fail(format_args!($($what)+));
        }
    };
}

/// Comparisons with the clock's edges do not fail by less than this, which covers rounding.
const SLACK: u64 = 1;
/// The same for times that are up to ten periods ahead of the edge they are worked out from.
const FAR_SLACK: u64 = 10;
/// CL and CWL, the only value that DLL-off mode need support ("DLL-off Mode" in the standard).
const LATENCY: u64 = 6;
/// How near to the device's driving DQ or DQS the controller may not.
const TURN_PS: i64 = 1_000;
const GROUPS: [&str; 6] = ["CKE", "CS#", "ODT", "RAS#, CAS# or WE#", "BA", "A"];
const COMMANDS: [&str; 8] = ["MRS", "REF", "PRE", "ACT", "WRITE", "READ", "ZQ", "NOP"];
/// The order in which start-up loads the mode registers ("Power-up initialization sequence").
const MODE_ORDER: [u8; 4] = [2, 3, 1, 0];
/// For each mode register which bits must have what value, and why ("Programming the mode registers").
const MODE_RULES: [&[(u32, u32, &str)]; 4] = [
    &[
        (0x0003, 0, "burst length is not fixed 8"),
        (0x0008, 0, "burst type is not sequential"),
        (0x0074, 0x20, "CL is not 6"),
        (0x0080, 0, "test mode"),
        (!0x1fff, 0, "reserved bits"),
    ],
    &[
        (0x0001, 1, "DLL is not off"),
        (0x0020, 0, "output driver impedance is reserved"),
        (0x0244, 0, "Rtt_Nom is not off"),
        (0x0018, 0, "additive latency is not 0"),
        (0x0080, 0, "write levelling"),
        (0x0800, 0, "TDQS is for x8 devices only"),
        (0x1000, 0, "outputs are off"),
        (!0x1aff, 0, "reserved bits"),
    ],
    &[
        (0x0007, 0, "partial array self refresh"),
        (0x0038, 0x08, "CWL is not 6"),
        (0x0600, 0, "Rtt_WR is not off"),
        (!0x06ff, 0, "reserved bits"),
    ],
    &[(0x0004, 0, "multi purpose register"), (!0x0004, 0, "reserved bits")],
];

/// A rising edge of CK.
#[derive(Clone, Copy)]
struct Stamp {
    ps: u64,
    cycle: u64,
}

#[derive(Clone, Copy)]
enum Phase {
    Reset {
        since: u64,
    },
    CkeLow {
        since: u64,
    },
    /// CKE is high, and this many of `MODE_ORDER` are loaded.
    Modes(usize),
    Calibration,
    Ready,
}

#[derive(Clone, Copy, Default)]
struct Bank {
    row: Option<u32>,
    activate: Option<Stamp>,
    precharge: Option<Stamp>,
    read: Option<Stamp>,
    /// The edge from which tWR runs.
    write_end: Option<Stamp>,
}

struct Read {
    start: u64,
    tck: u64,
    words: [u16; 8],
}

struct Write {
    /// When DQS's first edge is due.
    start: u64,
    tck: u64,
    /// Follows another burst with no preamble between.
    seamless: bool,
    /// Address of the first word.
    address: u64,
    /// How many edges each strobe has had.
    edges: [u64; 2],
}

/// One x16 DDR3 device; see the crate's page.
pub struct Ddr3 {
    timing: Timing,
    row_bits: u32,
    seed: u64,
    rng: SmallRng,
    memory: HashMap<u64, u16>,
    counts: Counts,
    now: u64,
    started: bool,
    /// Has been through a reset since power-up.
    was_reset: bool,
    /// RESET# is the controller's.
    reset_wired: bool,
    pins: Pins,
    /// When each of `GROUPS` and each byte of DQ with its DM changed last.
    changed: [u64; 6],
    byte_changed: [u64; 2],
    /// The last rising edge, and whether a command was selected there.
    rise: Option<(Stamp, bool)>,
    tck: u64,
    /// tCK when CKE went high.
    reference: u64,
    /// Periods of equal length until now, and their sum.
    stable: (u64, u64),
    phase: Phase,
    cke_high: Option<Stamp>,
    mode_write: Option<Stamp>,
    calibration: Option<(Stamp, Span, &'static str)>,
    /// The last REF, or the end of initialisation.
    refreshed: u64,
    /// Until when the refreshes so far suffice; no less than 9 tREFI ago.
    refreshed_to: u64,
    refreshes: VecDeque<Stamp>,
    banks: [Bank; 8],
    activates: VecDeque<Stamp>,
    read: Option<Stamp>,
    write: Option<Stamp>,
    reads: VecDeque<Read>,
    writes: VecDeque<Write>,
    /// For each strobe: driven low since, its last edge within a burst, the end of its postamble.
    low_since: [Option<u64>; 2],
    strobed: [u64; 2],
    postamble: [u64; 2],
}

impl Ddr3 {
    /// A device at power-up with `row_bits` row address bits.
    pub fn new(timing: Timing, row_bits: u32, seed: u64) -> Self {
        assert!((1..=16).contains(&row_bits), "row_bits is {row_bits}, not 1 to 16");
        assert!((1_000..=10_000).contains(&timing.dqsck_ps), "dqsck_ps is {}", timing.dqsck_ps);
        assert!(timing.startup_divisor > 0, "startup_divisor is 0");
        Self {
            timing,
            row_bits,
            seed,
            rng: SmallRng::seed_from_u64(seed),
            memory: HashMap::new(),
            counts: Counts::default(),
            now: 0,
            started: false,
            was_reset: false,
            reset_wired: true,
            pins: Pins::default(),
            changed: [0; 6],
            byte_changed: [0; 2],
            rise: None,
            tck: 0,
            reference: 0,
            stable: (0, 0),
            phase: Phase::Reset { since: 0 },
            cke_high: None,
            mode_write: None,
            calibration: None,
            refreshed: 0,
            refreshed_to: 0,
            refreshes: VecDeque::new(),
            banks: [Bank::default(); 8],
            activates: VecDeque::new(),
            read: None,
            write: None,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            low_since: [None; 2],
            strobed: [0; 2],
            postamble: [0; 2],
        }
    }

    /// RESET# is not the controller's behind power-up: where it would fall the device begins anew in all but the rows that are open, for nothing has closed them.
    pub fn unwire_reset(&mut self) {
        self.reset_wired = false;
    }

    /// The balls have these levels from `ps` on. Called in order of time, whenever a level changes (or more often).
    pub fn drive(&mut self, ps: u64, pins: Pins) {
        never!(self, ps < self.now, "drive() is called for the earlier {ps} ps");
        if !self.started {
            (self.started, self.now, self.pins) = (true, ps, pins);
            (self.changed, self.byte_changed) = ([ps; 6], [ps; 2]);
            self.phase = Phase::Reset { since: ps };
            (0..2).for_each(|s| self.note_low(s, None));
            never!(self, pins.reset_n, "RESET# is high at power-up");
            return;
        }
        self.check_contention(ps);
        let old = std::mem::replace(&mut self.pins, pins);
        self.now = ps;
        if self.cke_high.is_some() && pins.reset_n {
            self.check_overdue();
        }
        self.note_changes(old);
        if !pins.reset_n {
            if old.reset_n {
                self.enter_reset();
            }
            return;
        }
        if let Phase::Reset { since } = self.phase {
            self.leave_reset(since);
        }
        if self.cke_high.is_some() {
            for s in 0..2 {
                let level = |dqs: Option<u8>| dqs.map(|dqs| dqs >> s & 1 == 1);
                self.strobe(s, level(old.dqs), level(pins.dqs));
            }
        }
        if pins.ck && !old.ck {
            self.rising();
        }
    }

    /// From now on read data come so far behind the clock's edge.
    pub fn drift(&mut self, dqsck_ps: u64) {
        self.timing.dqsck_ps = dqsck_ps;
    }

    /// What each DQ ball has at `ps` while the device drives it; random bits where it does not drive or the bit is
    /// about to change. `ps` may be up to some 300 ns in the past or the present, never later than the last drive.
    pub fn sample(&mut self, ps: u64) -> u16 {
        never!(self, ps > self.now, "sample() is called for {ps} ps, which drive() has not reached");
        let mut word: u16 = self.rng.random();
        if self.reads.is_empty() {
            return word;
        }
        let around = self.timing.uncertain_ps as i64;
        for bit in 0..16 {
            let level = self.level(bit, ps as i64);
            let steady = [-around, around].iter().all(|by| self.level(bit, ps as i64 + by) == level);
            if let (Some(level), true) = (level, steady) {
                word = word & !(1 << bit) | u16::from(level) << bit;
            }
        }
        word
    }

    /// Contents, for tests. Words that were never written are pseudo-random, and a reset changes them.
    pub fn word(&self, bank: u8, row: u32, column: u32) -> u16 {
        self.at(self.address(bank, row, column))
    }

    /// Commands since power-up.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn fail(&self, what: impl Display) -> ! {
        panic!("DDR3 model at {} ps: {what}", self.now)
    }

    fn address(&self, bank: u8, row: u32, column: u32) -> u64 {
        assert!(bank < 8 && row >> self.row_bits == 0 && column < 1024, "no word {bank}, {row}, {column}");
        (u64::from(bank) << self.row_bits | u64::from(row)) << 10 | u64::from(column)
    }

    fn at(&self, address: u64) -> u16 {
        let blank = || SmallRng::seed_from_u64(self.seed.rotate_left(32) ^ address).random();
        self.memory.get(&address).copied().unwrap_or_else(blank)
    }

    /// What the device drives on a DQ ball.
    fn level(&self, bit: usize, ps: i64) -> Option<bool> {
        self.reads.iter().find_map(|read| {
            let into = ps - read.start as i64 - i64::from(self.timing.skew_ps[bit]);
            let word = usize::try_from(into).ok()? * 2 / read.tck as usize;
            Some(read.words.get(word)? >> bit & 1 == 1)
        })
    }

    /// Whether the controller has driven DQ or DQS between the last call and `ps` against the device.
    fn check_contention(&self, ps: u64) {
        let skews = self.timing.skew_ps;
        let (dq, dqs) = (self.pins.dq.is_some(), self.pins.dqs.is_some());
        for read in &self.reads {
            let end = (read.start + 4 * read.tck) as i64 + i64::from(*skews.iter().max().unwrap()) + TURN_PS;
            let start = read.start as i64 + i64::from(*skews.iter().min().unwrap()) - TURN_PS;
            let meets = |start| (self.now + SLACK) < end as u64 && ps as i64 > start + SLACK as i64;
            never!(
                self,
                dq && meets(start),
                "bus contention: DQ is driven, by the device {start} to {end} ps"
            );
            // The device drives DQS low for a preamble of one cycle (tRPRE).
            let start = read.start as i64 - read.tck as i64 - TURN_PS;
            never!(
                self,
                dqs && meets(start),
                "bus contention: DQS is driven, by the device {start} to {end} ps"
            );
        }
    }

    /// What should have come by now.
    fn check_overdue(&self) {
        if let Some((rise, _)) = self.rise {
            let stopped = self.now > rise.ps + self.reference + self.reference / 50 + SLACK;
            never!(self, stopped, "tCK is more than 2 % longer than when CKE went high");
        }
        for s in 0..2 {
            let Some(write) = self.writes.iter().find(|write| write.edges[s] < 8) else { continue };
            let i = write.edges[s];
            let late = i % 2 == 0 && self.now > write.start + i * write.tck / 2 + write.tck / 4 + FAR_SLACK;
            never!(self, late, "tDQSS: DQS{s} edge {i} of a write burst is missing or late");
            let late = i > 0 && self.now > self.strobed[s] + write.tck * 55 / 100 + SLACK;
            never!(self, late, "tDQSH, tDQSL: DQS{s} edge {i} of a write burst is missing or late");
        }
        if matches!(self.phase, Phase::Ready) {
            let none = self.now > self.refreshed + 9 * self.timing.refi_ps + SLACK;
            never!(self, none, "refresh: no REF for more than 9 tREFI");
            let few = self.now > self.refreshed_to + 9 * self.timing.refi_ps + SLACK;
            never!(self, few, "refresh: more than 8 REF are postponed");
        }
    }

    /// Takes down what has changed, and checks that nothing changes behind an edge that samples it.
    fn note_changes(&mut self, old: Pins) {
        let (before, after) = (groups(&old), groups(&self.pins));
        for (i, name) in GROUPS.iter().enumerate().filter(|&(i, _)| before[i] != after[i]) {
            self.changed[i] = self.now;
            let Some((rise, selected)) = self.rise else { continue };
            // CKE, CS# and ODT are sampled at each edge, the others where CS# is low.
            let sampled = i == 0 || self.cke_high.is_some() && (i < 3 || selected);
            let early = sampled && self.now + SLACK < rise.ps + self.timing.ih_ps;
            never!(self, early, "tIH: {name} changes within it of the rising edge at {} ps", rise.ps);
        }
        for s in 0..2 {
            self.note_low(s, old.dqs);
            let byte = |pins: &Pins| (pins.dq.map(|dq| dq >> (8 * s) & 0xff), pins.dm >> s & 1);
            if byte(&old) != byte(&self.pins) {
                self.byte_changed[s] = self.now;
                // No edge, no hold: `strobed` is 0 until the first.
                let early = self.strobed[s] > 0 && self.now + SLACK < self.strobed[s] + self.timing.dh_ps;
                never!(self, early, "tDH: byte {s} of DQ or DM changes within it of a DQS edge");
            }
        }
    }

    /// A preamble counts from where a strobe is driven low, which is kept while it then goes high.
    fn note_low(&mut self, s: usize, old: Option<u8>) {
        let low = |dqs: Option<u8>| dqs.is_some_and(|dqs| dqs >> s & 1 == 0);
        if self.pins.dqs.is_none() {
            self.low_since[s] = None;
        } else if low(self.pins.dqs) && !low(old) {
            self.low_since[s] = Some(self.now);
        }
    }

    /// RESET# falls: all is forgotten, the contents too, but for how the device is wired and what it counted.
    fn enter_reset(&mut self) {
        let fresh = Self::new(self.timing.clone(), self.row_bits, self.seed.wrapping_add(1));
        let (counts, now, pins, was_reset) = (self.counts, self.now, self.pins, self.was_reset);
        let phase = Phase::Reset { since: now };
        let (changed, low_since, reset_wired) = (self.changed, self.low_since, self.reset_wired);
        let banks = self.banks.map(|bank| Bank { row: bank.row.filter(|_| !reset_wired), ..Bank::default() });
        let fresh = Self { changed, low_since, reset_wired, banks, ..fresh };
        *self = Self { counts, now, pins, phase, started: true, was_reset, ..fresh };
    }

    /// RESET# rises ("Reset initialization with stable power" has 100 ns suffice then).
    fn leave_reset(&mut self, since: u64) {
        let power_up = self.timing.reset_low_ps / self.timing.startup_divisor;
        let least = if self.was_reset { power_up.min(100_000) } else { power_up };
        let early = self.now + SLACK < since + least;
        never!(self, early, "RESET# was low for {} ps, not {least}", self.now - since);
        let high = self.pins.cke || self.now + SLACK < self.changed[0] + 10_000;
        never!(self, high, "CKE is not low from 10 ns before RESET# rises");
        self.was_reset = true;
        self.phase = Phase::CkeLow { since: self.now };
    }

    /// DQS strobe `s` has gone from one level to another, within a write burst or not.
    fn strobe(&mut self, s: usize, old: Option<bool>, new: Option<bool>) {
        let now = self.now;
        let turn = self.writes.iter().position(|write| write.edges[s] < 8);
        if old.is_some() && new.is_none() {
            let within = turn.is_some_and(|turn| self.writes[turn].edges[s] > 0);
            never!(self, within, "DQS{s} is let go within a write burst");
            never!(self, now + SLACK < self.postamble[s], "tWPST: DQS{s} is let go before its end");
        }
        let rises = new == Some(true);
        if new == old || new.is_none() || (!rises && old.is_none()) {
            return;
        }
        let Some(turn) = turn else { self.fail(format_args!("DQS{s} has an edge outside of a write burst")) };
        let Write { start, tck, seamless, address, edges } = self.writes[turn];
        let i = edges[s];
        never!(self, rises != (i % 2 == 0), "DQS{s} edge {i} of a write burst has the wrong direction");
        let early = rises && now + FAR_SLACK < start + i * tck / 2 - tck / 4;
        never!(self, early, "tDQSS: DQS{s} edge {i} of a write burst is early");
        // A seamless burst has the last low pulse of the one before for its preamble.
        let since = if i > 0 || seamless { now - self.strobed[s] } else { tck * 9 / 10 };
        let low = self.low_since[s].is_some_and(|low| now + SLACK >= low + since);
        never!(self, i == 0 && !low, "tWPRE: DQS{s} was not driven low all of its preamble");
        if i > 0 || seamless {
            let pulse = now - self.strobed[s];
            let off = pulse + SLACK < tck * 45 / 100 || pulse > tck * 55 / 100 + SLACK;
            never!(self, off, "tDQSH, tDQSL: DQS{s} edge {i} is {pulse} ps behind the one before");
        }
        let unset = now + SLACK < self.byte_changed[s] + self.timing.ds_ps;
        never!(self, unset, "tDS: byte {s} of DQ or DM changes within it of DQS edge {i}");
        let Some(dq) = self.pins.dq else { self.fail(format_args!("DQ is not driven at DQS{s} edge {i}")) };
        if self.pins.dm >> s & 1 == 0 {
            let mask = 0xff << (8 * s);
            let word = self.at(address + i) & !mask | dq & mask;
            self.memory.insert(address + i, word);
        }
        self.strobed[s] = now;
        self.writes[turn].edges[s] += 1;
        if i == 7 {
            self.postamble[s] = now + tck * 3 / 10;
            while self.writes.front().is_some_and(|write| write.edges == [8; 2]) {
                self.writes.pop_front();
            }
        }
    }

    /// A rising edge of CK.
    fn rising(&mut self) {
        let (now, pins) = (self.now, self.pins);
        let (cycle, period) = self.rise.map_or((0, 0), |(rise, _)| (rise.cycle + 1, now - rise.ps));
        let at = Stamp { ps: now, cycle };
        self.rise = Some((at, !pins.cs_n));
        let differs = |from: u64| period.abs_diff(from) > from / 50 + SLACK;
        self.stable =
            if differs(self.tck) { (1, period) } else { (self.stable.0 + 1, self.stable.1 + period) };
        self.tck = period;
        if self.cke_high.is_some() || pins.cke {
            let unfit = !(8_000 - SLACK..=100_000 + SLACK).contains(&period);
            never!(self, unfit, "tCK is {period} ps, not 8 to 100 ns");
            let moved = self.cke_high.is_some() && differs(self.reference);
            never!(self, moved, "tCK is {period} ps, but was {} ps when CKE went high", self.reference);
            for (i, name) in GROUPS.iter().enumerate() {
                let late = (i < 3 || !pins.cs_n) && now + SLACK < self.changed[i] + self.timing.is_ps;
                never!(self, late, "tIS: {name} changes within it of the rising edge");
            }
        }
        match (pins.cke, self.cke_high) {
            (false, None) => return,
            (false, Some(_)) => self.fail("CKE is low: power-down and self refresh are not supported"),
            (true, None) => self.raise_cke(at),
            (true, Some(_)) => {}
        }
        never!(self, pins.odt, "ODT is high in DLL-off mode");
        let oldest = now.saturating_sub(500_000);
        self.reads.retain(|read| read.start + 4 * read.tck > oldest);
        if let (Phase::Calibration, Some((zq, span, _))) = (self.phase, self.calibration) {
            if cycle >= zq.cycle + span.ck && now + SLACK >= zq.ps + span.ps {
                (self.phase, self.refreshed, self.refreshed_to) = (Phase::Ready, now, now);
            }
        }
        let code = usize::from(pins.ras_n) << 2 | usize::from(pins.cas_n) << 1 | usize::from(pins.we_n);
        if !pins.cs_n && code != 7 {
            self.command(code, at);
        }
    }

    /// The first rising edge with CKE high.
    fn raise_cke(&mut self, at: Stamp) {
        let Phase::CkeLow { since } = self.phase else { unreachable!("RESET# is high and CKE has been low") };
        let least = self.timing.cke_low_ps / self.timing.startup_divisor;
        let early = at.ps + SLACK < since + least;
        never!(self, early, "CKE was low for {} ps behind RESET#, not {least}", at.ps - since);
        let unstable = self.stable.0 < 5 || self.stable.1 + SLACK < 10_000;
        never!(self, unstable, "CK has not been stable for 5 cycles and 10 ns (tCKSRX) before CKE goes high");
        (self.cke_high, self.reference, self.phase) = (Some(at), self.tck, Phase::Modes(0));
    }

    /// Fails if `span` has not yet passed since a command.
    fn after(&self, since: Option<Stamp>, span: Span, rule: &str, command: &str) {
        let (Some(since), Some((at, _))) = (since, self.rise) else { return };
        let (ps, ck) = (since.ps + span.ps, since.cycle + span.ck);
        let early = at.ps + SLACK < ps || at.cycle < ck;
        never!(
            self,
            early,
            "{rule}: {command} must wait until {ps} ps and {} more cycles",
            ck.saturating_sub(at.cycle)
        );
    }

    fn command(&mut self, code: usize, at: Stamp) {
        let Pins { ba, a, .. } = self.pins;
        let name = COMMANDS[code];
        never!(self, ba > 7, "BA is {ba}, but has 3 bits");
        self.after(self.cke_high, self.timing.xpr, "tXPR", name);
        match (code, self.phase) {
            (_, Phase::Ready) | (0, Phase::Modes(_)) | (6, Phase::Modes(4)) => {}
            // A PRE of all does nothing behind RESET#, for all banks are idle.
            (2, Phase::Modes(0)) if a >> 10 & 1 == 1 => {}
            (_, Phase::Calibration) => self.fail(format_args!("tZQinit: {name} within it")),
            _ => self.fail(format_args!("{name} before initialisation is complete")),
        }
        if code == 0 {
            self.after(self.mode_write, self.timing.mrd, "tMRD", name);
        } else {
            self.after(self.mode_write, self.timing.mod_, "tMOD", name);
        }
        self.after(self.refreshes.back().copied(), self.timing.rfc, "tRFC", name);
        if let Some((zq, span, rule)) = self.calibration {
            self.after(Some(zq), span, rule, name);
        }
        match code {
            0 => self.load_mode(ba, a, at),
            1 => self.take_refresh(at),
            2 => self.take_precharge(ba, a, at),
            3 => self.take_activate(ba, a, at),
            4 | 5 => self.take_column(code == 4, ba, a, at),
            _ => self.take_calibration(a, at),
        }
    }

    /// All banks are precharged; with `quiet` bursts of read data are over, too.
    fn check_idle(&self, name: &str, quiet: bool) {
        for (i, bank) in self.banks.iter().enumerate() {
            never!(self, bank.row.is_some(), "{name} while bank {i} is open");
            self.after(bank.precharge, self.timing.rp, "tRP", name);
        }
        let bursts = quiet && self.reads.iter().any(|read| read.start + 4 * read.tck > self.now);
        never!(self, bursts, "{name} before the end of a read burst");
    }

    fn load_mode(&mut self, register: u8, value: u32, at: Stamp) {
        self.check_idle("MRS", true);
        let Some(rules) = MODE_RULES.get(usize::from(register)) else {
            self.fail(format_args!("mode register {register} is reserved"))
        };
        for (mask, wanted, why) in *rules {
            never!(self, value & mask != *wanted, "MR{register} = {value:#x}: {why}");
        }
        never!(self, register == 2 && value & 0xc0 == 0xc0, "MR2 = {value:#x}: both ASR and SRT");
        if let Phase::Modes(loaded) = self.phase {
            if MODE_ORDER.get(loaded) == Some(&register) {
                self.phase = Phase::Modes(loaded + 1);
            } else if !MODE_ORDER[..loaded].contains(&register) {
                self.fail(format_args!("MR{register} is loaded before MR{}", MODE_ORDER[loaded]));
            }
        }
        self.mode_write = Some(at);
        self.counts.mode_writes += 1;
    }

    fn take_calibration(&mut self, a: u32, at: Stamp) {
        self.check_idle("ZQ", true);
        let long = a >> 10 & 1 == 1;
        let initial = !matches!(self.phase, Phase::Ready);
        self.calibration = Some(match (initial, long) {
            (true, true) => (at, self.timing.zq_init, "tZQinit"),
            (true, false) => self.fail("ZQCS before initialisation is complete, which takes ZQCL"),
            (false, true) => (at, self.timing.zq_oper, "tZQoper"),
            (false, false) => (at, self.timing.zq_cs, "tZQCS"),
        });
        if initial {
            self.phase = Phase::Calibration;
        }
    }

    fn take_refresh(&mut self, at: Stamp) {
        self.check_idle("REF", false);
        let refi = self.timing.refi_ps;
        if self.refreshes.len() == 16 {
            let oldest = self.refreshes.pop_front().unwrap();
            never!(self, at.ps + SLACK < oldest.ps + 2 * refi, "refresh: more than 16 REF within 2 tREFI");
        }
        self.refreshes.push_back(at);
        // At most 8 count ahead of time ("Refresh command").
        self.refreshed_to = (self.refreshed_to + refi).min(at.ps + 8 * refi);
        self.refreshed = at.ps;
        self.counts.refreshes += 1;
    }

    fn take_precharge(&mut self, ba: u8, a: u32, at: Stamp) {
        let all = a >> 10 & 1 == 1;
        for i in (0..8).filter(|&i| all || i == usize::from(ba)) {
            let bank = self.banks[i];
            if bank.row.is_some() {
                self.after(bank.activate, self.timing.ras, "tRAS", "PRE");
                self.after(bank.write_end, self.timing.wr, "tWR", "PRE");
                self.after(bank.read, self.timing.rtp, "tRTP", "PRE");
            }
            // A bank that is closed already counts tRP anew ("PRECHARGE command").
            let activate = bank.activate;
            self.banks[i] = Bank { activate, precharge: Some(at), ..Bank::default() };
        }
        self.counts.precharges += 1;
    }

    fn take_activate(&mut self, ba: u8, row: u32, at: Stamp) {
        let bank = self.banks[usize::from(ba)];
        never!(self, bank.row.is_some(), "ACT of bank {ba}, which is open");
        let large = row >> self.row_bits != 0;
        never!(self, large, "ACT of row {row:#x}, which has more than {} bits", self.row_bits);
        self.after(bank.precharge, self.timing.rp, "tRP", "ACT");
        self.after(bank.activate, self.timing.rc, "tRC", "ACT");
        self.after(self.activates.back().copied(), self.timing.rrd, "tRRD", "ACT");
        if self.activates.len() == 4 {
            self.after(self.activates.front().copied(), self.timing.faw, "tFAW", "ACT");
            self.activates.pop_front();
        }
        self.activates.push_back(at);
        self.banks[usize::from(ba)] = Bank { row: Some(row), activate: Some(at), ..bank };
        self.counts.activates += 1;
    }

    /// WRITE or READ. A12 and A11 may have any level, for bursts are fixed and the device is x16.
    fn take_column(&mut self, writes: bool, ba: u8, a: u32, at: Stamp) {
        let name = if writes { "WRITE" } else { "READ" };
        let bank = self.banks[usize::from(ba)];
        let Some(row) = bank.row else { self.fail(format_args!("{name} of bank {ba}, which is closed")) };
        never!(self, a >> 10 & 1 == 1, "{name} with auto precharge (A10), which is not supported");
        let cycles = |ck| Span { ps: 0, ck };
        self.after(bank.activate, self.timing.rcd, "tRCD", name);
        self.after(self.read, self.timing.ccd, "tCCD", name);
        self.after(self.write, self.timing.ccd, "tCCD", name);
        let block = self.address(ba, row, a & 0x3f8);
        let tck = self.tck;
        if writes {
            // "READ operation": RL + tCCD + 2 tCK - WL.
            self.after(self.read, cycles(self.timing.ccd.ck + 2), "READ to WRITE", name);
            let seamless = self.write.is_some_and(|write| write.cycle + 4 == at.cycle);
            // A burst of writes goes through the block from its start, whatever the column's low bits (table of
            // "Burst type and order").
            let start = at.ps + LATENCY * tck;
            self.writes.push_back(Write { start, tck, seamless, address: block, edges: [0; 2] });
            self.write = Some(at);
            self.banks[usize::from(ba)].write_end = Some(write_end(at, tck));
            self.counts.writes += 1;
        } else {
            self.after(self.write.map(|write| write_end(write, tck)), self.timing.wtr, "tWTR", name);
            // Sequential order: within the half of the block that holds the column, then the other (same table).
            let word = |i: u64| self.at(block + (u64::from(a) & 4 ^ i & 4 | (u64::from(a) + i) & 3));
            let words = std::array::from_fn(|i| word(i as u64));
            let start = at.ps + (LATENCY - 1) * tck + self.timing.dqsck_ps;
            self.reads.push_back(Read { start, tck, words });
            self.read = Some(at);
            self.banks[usize::from(ba)].read = Some(at);
            self.counts.reads += 1;
        }
    }
}

/// The rising edge behind the last data of a WRITE, from which tWR and tWTR run.
fn write_end(at: Stamp, tck: u64) -> Stamp {
    Stamp { ps: at.ps + (LATENCY + 4) * tck, cycle: at.cycle + LATENCY + 4 }
}

/// The inputs that CK samples, as `GROUPS` names them.
fn groups(pins: &Pins) -> [u32; 6] {
    let command = u32::from(pins.ras_n) << 2 | u32::from(pins.cas_n) << 1 | u32::from(pins.we_n);
    [pins.cke.into(), pins.cs_n.into(), pins.odt.into(), command, pins.ba.into(), pins.a]
}
