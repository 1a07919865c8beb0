// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Engines`]: emulated cards, as a server has them.
//!
//! Their clock goes by the events of frames while frames are under way, and with this machine's clock while none is (see [`Fabric`]).
//!
//! ```text
//!  frames under way  ____/‾‾‾‾\__________/‾‾‾‾‾‾‾‾\______
//!  cards' clock      real  wire   real      wire    real
//!  server            waits works  waits     works   waits until a message comes or a timer is due
//! ```
//!
//! So a server without work sleeps in `poll(2)` until the next timer or for ever, and time-outs do not depend on the speed of this machine: what it
//! takes to work frames through does not count.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use ferrowire::{BusError, MemoryMap};

use super::cards::{Cards, Function};
use crate::card::CsrAccess;
use crate::emulated::{Fabric, CLOCK_KHZ};
use crate::wire::Link;

/// Events between two looks at the sockets.
const BATCH: usize = 64;

/// Emulated cards, and how far their clock may go.
pub struct Engines {
    fabric: Fabric,
    /// The time up to which their clock goes while no frame is under way, in nanoseconds.
    granted: u64,
    /// Since when no frame is under way and nothing was granted; `None` while frames are.
    idle_since: Option<Instant>,
}

impl Engines {
    /// The cards of a fabric.
    pub fn new(fabric: Fabric) -> Self {
        Self { fabric, granted: 0, idle_since: Some(Instant::now()) }
    }

    /// The time up to which their clock may go by now: real time counts as far as the cards were idle in it.
    fn allowance(&self) -> u64 {
        let idle = self.idle_since.map_or(0, |since| since.elapsed().as_nanos());
        self.granted.max(self.fabric.now()).saturating_add(idle.try_into().unwrap_or(u64::MAX))
    }

    /// Lets happen what is due, some events at most.
    fn catch_up(&mut self) {
        self.granted = self.allowance();
        let idle = self.fabric.run(self.granted, BATCH);
        self.idle_since = idle.then(Instant::now);
    }
}

impl Cards for Engines {
    fn is_engine(&self) -> bool {
        true
    }

    fn access(&mut self, card: usize, access: CsrAccess) -> Result<u64, BusError> {
        // What is done now is done after the timers that are due.
        if self.fabric.is_idle() {
            self.catch_up();
        }
        self.fabric.access(card, access)
    }

    fn renew(&mut self, card: usize) -> Result<()> {
        self.fabric.power_on(card);
        self.fabric.forgive();
        Ok(())
    }

    fn memory<T>(&mut self, card: usize, f: impl FnOnce(&mut MemoryMap) -> T) -> T {
        self.fabric.card(card).with_memory(f)
    }

    fn refused(&self, card: usize) -> (u64, u64) {
        self.fabric.card(card).refusals()
    }

    fn has_msix(&self) -> bool {
        true
    }

    /// The bus master bit is not looked at.
    fn set_function(&mut self, card: usize, function: Function) {
        self.fabric.with(card, |card| card.set_interrupts(function.msix_enabled, function.msix_masked));
    }

    fn interrupt(&mut self, card: usize) -> Option<u8> {
        self.fabric.interrupt(card).map(|message| message.vector)
    }

    /// The addresses of their messages are kept and mean nothing, as with other cards on a socket.
    fn interrupt_window(&self, _: usize) -> Range<u64> {
        0..0
    }

    fn cycle(&self) -> u64 {
        match self.fabric.is_idle() {
            true => self.allowance(),
            false => self.fabric.now(),
        }
    }

    fn clock_khz(&self) -> u32 {
        CLOCK_KHZ
    }

    fn links(&mut self) -> Vec<(&mut Link, bool)> {
        self.fabric.all_links().collect()
    }

    fn is_switched(&self) -> bool {
        self.fabric.switch().is_some()
    }

    fn lost(&self) -> Option<String> {
        self.fabric.switch()?.lost()
    }

    /// What comes is worked through in any case.
    fn wake(&mut self) {}

    fn rest(&self) -> Option<Duration> {
        let since = self.idle_since.filter(|_| self.fabric.is_idle());
        let Some(since) = since else { return Some(Duration::ZERO) };
        let left = self.fabric.deadline()?.saturating_sub(self.fabric.now());
        Some(Duration::from_nanos(left).saturating_sub(since.elapsed()))
    }

    fn run(&mut self, _: bool) {
        self.catch_up();
    }

    fn busy(&self) -> bool {
        !self.fabric.is_idle()
    }

    fn capture(&mut self, path: &Path) -> Result<()> {
        self.fabric.capture(path)
    }

    fn end_capture(&mut self) {
        self.fabric.end_capture();
    }

    fn check(&self) -> Result<(), BusError> {
        self.fabric.check()
    }
}
