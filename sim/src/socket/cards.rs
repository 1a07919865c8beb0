// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Cards`]: what a server needs of the cards that it serves, whatever they are.
//!
//! ```text
//!  Port --- Device ---+                        +-- Verilated: World, Clock
//!                     +--- trait Cards --------+
//!  Server ------------+                        +-- Engines: Fabric of emulated cards
//! ```
//!
//! [`Device`](super::Device) asks for registers, memory, interrupts and resets of one card; [`Server`](super::Server) asks when all of them move.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use ferrowire::{BusError, MemoryMap};

use crate::bus::World;
use crate::card::CsrAccess;
use crate::wire::Link;

/// Bits of the configuration space that a card obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// MSI-X is enabled.
    pub msix_enabled: bool,
    /// All vectors are masked.
    pub msix_masked: bool,
    /// The card may send requests.
    pub bus_master: bool,
}

/// Cards, each with a BAR of its own, on one clock.
pub trait Cards {
    /// Whether the cards are emulated.
    fn is_engine(&self) -> bool;

    /// A register access, until it is done.
    ///
    /// # Errors
    /// The address is not in BAR 0 or not aligned, or the card fails.
    fn access(&mut self, card: usize, access: CsrAccess) -> Result<u64, BusError>;

    /// Lets a card send what it has begun to send.
    fn settle(&mut self, card: usize);

    /// Brings a card to its state after power-on. What its host has mapped stays mapped.
    ///
    /// # Errors
    /// The card does not answer.
    fn renew(&mut self, card: usize) -> Result<()>;

    /// Does something with what a card's host has mapped.
    fn memory<T>(&mut self, card: usize, f: impl FnOnce(&mut MemoryMap) -> T) -> T;

    /// Reads and writes of a card that were refused: its host had not mapped the memory. The numbers may begin anew after a reset.
    fn refused(&self, card: usize) -> (u64, u64);

    /// Whether the cards have MSI-X tables and pending bits of their own, and decide by these.
    fn has_msix(&self) -> bool;

    /// Tells a card what its configuration space says, as far as it wants to know.
    fn set_function(&mut self, card: usize, function: Function);

    /// The vector of the next interrupt that a card has raised.
    fn interrupt(&mut self, card: usize) -> Option<u8>;

    /// Bus addresses where a write is an interrupt: no memory can be there.
    fn interrupt_window(&self, card: usize) -> Range<u64>;

    /// The cards' clock, in cycles.
    fn cycle(&self) -> u64;

    /// The frequency of that clock, in kHz.
    fn clock_khz(&self) -> u32;

    /// All links, each with whether a frame is captured and meets faults there: that happens once on its way.
    fn links(&mut self) -> Vec<(&mut Link, bool)>;

    /// Tells all cards whether their links are up from now on.
    fn set_link(&mut self, up: bool);

    /// Whether a switch joins the cards.
    fn is_switched(&self) -> bool;

    /// Frames that the switch has lost.
    fn lost(&self) -> u64;

    /// The same for each port, as a message; `None` without losses.
    fn losses(&self) -> Option<String>;

    /// Has the cards move at full speed, for messages or frames have come for them.
    fn wake(&mut self);

    /// How long to wait for something to come before the cards are to move; `None`: for ever.
    fn rest(&self) -> Option<Duration>;

    /// Begins a turn of the server, before it does anything to cards: a clock that goes with this machine's catches up here and nowhere else. `frames_wait`:
    /// frames wait for a card at the end of its wire.
    fn begin(&mut self, frames_wait: bool) {
        let _ = frames_wait;
    }

    /// Lets the cards move for a while, if they are to. `waits`: frames wait at the end of a wire.
    fn run(&mut self, waits: bool);

    /// Whether the cards do something that others see, or did just now.
    fn busy(&self) -> bool;

    /// Writes every frame from now on to a pcapng file.
    ///
    /// # Errors
    /// The file cannot be written.
    fn capture(&mut self, path: &Path) -> Result<()>;

    /// Ends the capture and its file.
    fn end_capture(&mut self);

    /// Why the capture could not be written and has ended: told once.
    fn take_capture_failure(&mut self) -> Option<String>;

    /// What went wrong beyond repair.
    ///
    /// # Errors
    /// That.
    fn check(&self) -> Result<(), BusError>;

    /// The world of Verilated cards, which alone have waves and serial lines.
    fn world(&mut self) -> Option<&mut World> {
        None
    }

    /// The cards have something to say to a serial line, or heard something there.
    fn stir(&mut self) {}
}
