// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several unrelated clocks.

use crate::{Model, PortId};

/// A clock of a [`Clocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockId(usize);

#[derive(Clone, Debug)]
struct Clock {
    port: PortId,
    period: u64,
    high: bool,
    next: u64,
}

/// Moves a model from clock edge to clock edge, whichever clock's comes next. Edges at the same time happen together.
///
/// ```no_run
/// # fn example(model: &mut ferrowire_verilator::Model) -> Result<(), ferrowire_verilator::PortError> {
/// let mut clocks = ferrowire_verilator::Clocks::new();
/// let core = clocks.add(model.port("clk")?, 4_000, 0);
/// let mac = clocks.add(model.port("mac_clk")?, 3_103, 700);
/// let edges = clocks.step(model);
/// if edges.rising(mac) { /* sample the MAC side */ }
/// # let _ = core; Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    clocks: Vec<Clock>,
}

/// The edges of one [`Clocks::step`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// When, in picoseconds.
    pub time: u64,
    rising: u64,
    falling: u64,
}

impl Edges {
    /// Whether `clock` rose.
    pub fn rising(&self, clock: ClockId) -> bool {
        self.rising >> clock.0 & 1 == 1
    }

    /// Whether `clock` fell.
    pub fn falling(&self, clock: ClockId) -> bool {
        self.falling >> clock.0 & 1 == 1
    }
}

impl Clocks {
    /// No clocks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a clock that is low at first, rises at `phase` picoseconds and then every `period`, and falls half a period
    /// later. For an odd period, low is the longer half.
    ///
    /// # Panics
    ///
    /// If the period is below 2, or at the 65th clock.
    pub fn add(&mut self, port: PortId, period: u64, phase: u64) -> ClockId {
        assert!(period >= 2, "a clock period of {period} ps has no half");
        assert!(self.clocks.len() < 64, "at most 64 clocks");
        self.clocks.push(Clock { port, period, high: false, next: phase });
        ClockId(self.clocks.len() - 1)
    }

    /// When the next edge is; `None` without clocks.
    pub fn next_edge(&self) -> Option<u64> {
        self.clocks.iter().map(|c| c.next).min()
    }

    /// Moves time to the next edge, drives it and evaluates. Inputs set before are what a rising edge samples.
    ///
    /// # Panics
    ///
    /// Without clocks, or when the model's time is already past the edge.
    pub fn step(&mut self, model: &mut Model) -> Edges {
        let time = self.next_edge().expect("a clock was added");
        model.set_time(time);
        let mut edges = Edges { time, ..Edges::default() };
        for (index, clock) in self.clocks.iter_mut().enumerate().filter(|(_, c)| c.next == time) {
            clock.high = !clock.high;
            model.set_u64(clock.port, clock.high.into());
            let half = clock.period / 2;
            clock.next += if clock.high { half } else { clock.period - half };
            let set = if clock.high { &mut edges.rising } else { &mut edges.falling };
            *set |= 1 << index;
        }
        model.eval();
        edges
    }

    /// Steps until `clock` has risen `n` times.
    pub fn run(&mut self, model: &mut Model, clock: ClockId, n: u64) {
        let mut left = n;
        while left > 0 {
            left -= u64::from(self.step(model).rising(clock));
        }
    }
}
