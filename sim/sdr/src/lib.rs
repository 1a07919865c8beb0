// SPDX-License-Identifier: MIT OR Apache-2.0
//! A strict behavioural model of one SDR SDRAM device of 4 banks, 2048 rows, 256 columns and 32 bits (JESD21-C
//! 3.11.5; ESMT M12L64322A and its equals), to test a memory controller with. CKE is tied high, CS# and DQM are tied
//! low. [`Sdr::drive`] takes the levels at the balls as they change, [`Sdr::sample`] gives what the device puts on DQ, and
//! [`Cells`] is what is between both and a controller of one clock. **Every breach of protocol panics** with the time and
//! the rule, for the device itself would lose data silently.
//!
//! Word `i` of a READ taken at the rising edge `T` is on DQ from `access_ps` behind the edge `T + CL - 1 + i` to tOH
//! behind the next; at all other times a sample is random. Word `i` of a WRITE is taken at the edge `T + i`.
//!
//! A burst is truncated by what the standard has for it: a READ or WRITE, a PRECHARGE of its bank, a BURST TERMINATE.
//! What comes of a READ then ends `CL` edges later; but a WRITE has DQ at once, and as DQM cannot silence the device
//! where it is tied low, no word may be due at its edge or the next. Of a WRITE, what was taken before that edge stays.
//!
//! Not supported, and so a panic: full page and interleaved bursts, test modes, bursts with auto precharge that are
//! interrupted (which not all makers' devices bear), and a PRECHARGE of such a bank before it has closed itself. Power-down, self
//! refresh, clock suspend and data masks take wires that the board ties.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// `never!(device, bad, "rule")` panics with the time and the rule where something bad is true.
macro_rules! never {
    ($device:expr, $bad:expr, $($what:tt)+) => {
        if $bad {
            $device.fail(format_args!($($what)+));
        }
    };
}

mod balls;
mod cells;
mod commands;
#[cfg(test)]
mod tests;
mod timing;

pub use cells::{Cells, Sent, Ways};
pub use timing::{Counts, Pins, Span, Timing};

/// Comparisons with the clock's edges do not fail by less than this, which covers rounding.
const SLACK: u64 = 1;
/// For how long samples may ask for the past.
const PAST_PS: u64 = 1_000_000;
const GROUPS: [&str; 4] = ["RAS#, CAS# or WE#", "BA", "A", "DQ"];

/// A rising edge of CLK.
#[derive(Clone, Copy)]
struct Stamp {
    ps: u64,
    cycle: u64,
}

/// What starts a wait, and for which bank.
#[derive(Clone, Copy)]
struct Since {
    at: Stamp,
    what: &'static str,
}

#[derive(Clone, Copy)]
enum Phase {
    /// Power is good; the wait is from CLK's first edge.
    Waiting,
    /// All banks are closed, so many AUTO REFRESHes have been, and perhaps MODE.
    Starting {
        refreshes: u64,
    },
    Ready,
}

#[derive(Clone, Copy)]
struct Mode {
    burst: u64,
    /// What a WRITE takes.
    write_burst: u64,
    /// CAS latency, 2 or 3.
    cl: u64,
}

#[derive(Clone, Copy, Default)]
struct Bank {
    row: Option<u32>,
    activate: Option<Since>,
    precharge: Option<Since>,
    /// The edge from which tWR runs.
    written: Option<Since>,
    auto: Option<Auto>,
}

/// A bank is to close itself: no earlier than at an edge, and where it is of a WRITE, then tWR behind its last word.
#[derive(Clone, Copy)]
struct Auto {
    from: u64,
    writes: bool,
}

/// A burst of words that are to be taken.
#[derive(Clone, Copy)]
struct Write {
    bank: u8,
    row: u32,
    column: u32,
    taken: u64,
    length: u64,
    auto: bool,
}

/// A word of a READ: the edge at which it is valid.
struct Due {
    cycle: u64,
    bank: u8,
    word: u32,
    auto: bool,
}

/// What the device puts on DQ behind an edge, until behind the next.
struct Output {
    bank: u8,
    from: u64,
    access_ps: u64,
    hz_ps: u64,
    till: Option<u64>,
    word: u32,
}

/// One SDR SDRAM device; see the crate's page.
pub struct Sdr {
    timing: Timing,
    seed: u64,
    rng: SmallRng,
    memory: HashMap<u32, u32>,
    counts: Counts,
    now: u64,
    started: bool,
    pins: Pins,
    /// When each of `GROUPS` changed last.
    changed: [u64; 4],
    /// The last rising edge, and which of `GROUPS` were taken there.
    rise: Option<(Stamp, [bool; 4])>,
    fell: u64,
    tck: u64,
    /// The first rising edge.
    first: Option<u64>,
    phase: Phase,
    mode: Option<Mode>,
    mode_write: Option<Since>,
    refresh: Option<Since>,
    activate: Option<Since>,
    /// The end of initialisation; until when the refreshes so far suffice for the pace; the last `rows` of them.
    ready: u64,
    refreshed_to: u64,
    refreshes: VecDeque<u64>,
    banks: [Bank; 4],
    write: Option<Write>,
    due: VecDeque<Due>,
    outputs: VecDeque<Output>,
}

impl Sdr {
    /// How many banks there are.
    pub const BANKS: u32 = 4;
    /// How many rows a bank has.
    pub const ROWS: u32 = 2_048;
    /// How many words a row has.
    pub const COLUMNS: u32 = 256;

    /// A device at power-up.
    pub fn new(timing: Timing, seed: u64) -> Self {
        assert!(timing.startup_divisor > 0, "startup_divisor is 0");
        assert!(timing.rows > 0, "rows is 0");
        let device = Self {
            timing,
            seed,
            rng: SmallRng::seed_from_u64(seed),
            memory: HashMap::new(),
            counts: Counts::default(),
            now: 0,
            started: false,
            pins: Pins::default(),
            changed: [0; 4],
            rise: None,
            fell: 0,
            tck: 0,
            first: None,
            phase: Phase::Waiting,
            mode: None,
            mode_write: None,
            refresh: None,
            activate: None,
            ready: 0,
            refreshed_to: 0,
            refreshes: VecDeque::new(),
            banks: [Bank::default(); 4],
            write: None,
            due: VecDeque::new(),
            outputs: VecDeque::new(),
        };
        device.check_access();
        device
    }

    /// From now on read data come so far behind the clock's edge.
    pub fn drift(&mut self, access_ps: u64) {
        self.timing.access_ps = access_ps;
        self.check_access();
    }

    /// Contents, for tests. Words that were never written are pseudo-random.
    pub fn word(&self, bank: u8, row: u32, column: u32) -> u32 {
        self.at(address(bank, row, column))
    }

    /// Commands since power-up.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn fail(&self, what: impl Display) -> ! {
        panic!("SDR model at {} ps: {what}", self.now)
    }

    fn check_access(&self) {
        let Timing { access_ps, oh_ps, ac_ps: [slow, quick], .. } = self.timing;
        let fits = (oh_ps..=slow.max(quick)).contains(&access_ps);
        assert!(
            fits,
            "access_ps is {access_ps}, not from tOH to tAC: {oh_ps} to {slow} at CL 2, to {quick} at 3"
        );
    }

    fn at(&self, address: u32) -> u32 {
        let blank = || SmallRng::seed_from_u64(self.seed.rotate_left(32) ^ u64::from(address)).random();
        self.memory.get(&address).copied().unwrap_or_else(blank)
    }
}

fn address(bank: u8, row: u32, column: u32) -> u32 {
    let fits = u32::from(bank) < Sdr::BANKS && row < Sdr::ROWS && column < Sdr::COLUMNS;
    assert!(fits, "no word {bank}, {row}, {column}");
    (u32::from(bank) * Sdr::ROWS + row) * Sdr::COLUMNS + column
}
