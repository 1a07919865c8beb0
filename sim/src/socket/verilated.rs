// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Verilated`]: cards of a [`World`], as a server has them.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use ferrowire::spec::csr::traffic;
use ferrowire::{BusError, MemoryMap};

use super::cards::{Cards, Function};
use super::clock::Clock;
use crate::bus::World;
use crate::card::{CardModel, CsrAccess};
use crate::say::say;
use crate::wire::Link;

/// Cycles without a frame after which a card has none under way: more than one of the largest takes from payload buffer to wire, at 8 bytes a beat and a
/// quarter of a beat a cycle.
const BETWEEN_FRAMES: u64 = 4096;
/// Cycles that a card has to send what it has begun, whatever others send meanwhile.
const MOST_TO_SEND: u64 = 1 << 15;
/// Cycles between two looks at the wires.
const BATCH: u64 = 64;

/// Cards of a world, what to make new ones of, and when they move.
pub struct Verilated {
    world: World,
    model: CardModel,
    clock: Clock,
    /// Cards with registers that can be looked into: none on a board.
    cards: usize,
    /// Links are up.
    link_up: bool,
}

impl Verilated {
    /// The cards of a world, all of that model. `eager`: those that may have a timer running move all the time.
    pub fn new(world: World, model: CardModel, eager: bool) -> Self {
        let cards = if model.on_board() { 0 } else { world.cards() };
        Self { world, model, clock: Clock::new(eager), cards, link_up: true }
    }
}

impl Cards for Verilated {
    fn is_engine(&self) -> bool {
        false
    }

    fn access(&mut self, card: usize, access: CsrAccess) -> Result<u64, BusError> {
        self.world.access(card, access)
    }

    /// A system resets the device of a program some milliseconds after the program's end. By then the device has sent what it had begun. Here a
    /// program ends within a few cycles of the card, so the card gets the cycles that it needs. A card that has taken no command has no QP, and so
    /// nothing to send.
    fn settle(&mut self, card: usize) {
        let address = traffic::TrafficCounter::Commands.address();
        if self.access(card, CsrAccess { address, write: false, wide: false, data: 0 }) == Ok(0) {
            return;
        }
        let end = self.world.cycle() + MOST_TO_SEND;
        let mut seen = (self.world.frames(), self.world.cycle());
        while self.world.cycle() < end.min(seen.1 + BETWEEN_FRAMES) {
            self.world.run(BATCH);
            let now = self.world.frames();
            if now != seen.0 || !self.world.wires_idle() {
                seen = (now, self.world.cycle());
            }
        }
    }

    /// A card that faces PCIe ends what it has begun (PCIe 6.6.2). If it does not do that in time, another one takes its place, as with others.
    fn renew(&mut self, card: usize) -> Result<()> {
        if self.world.reset_function(card) {
            return Ok(());
        }
        if self.model.has_pcie() {
            say(format_args!(
                "card {card} does not end its function level reset; another one takes its place"
            ));
        }
        self.world.power_on(card, &self.model)?;
        if !self.link_up {
            self.world.card_mut(card).set_link(false);
        }
        Ok(())
    }

    fn memory<T>(&mut self, card: usize, f: impl FnOnce(&mut MemoryMap) -> T) -> T {
        f(self.world.card_mut(card).host_mut().map_mut())
    }

    fn refused(&self, card: usize) -> (u64, u64) {
        let stats = self.world.card(card).host().stats();
        (stats.reads_refused, stats.writes_refused)
    }

    fn has_msix(&self) -> bool {
        self.model.has_pcie()
    }

    /// Of a card that does not face PCIe, the server does what is missing, and the bus master bit is not looked at.
    fn set_function(&mut self, card: usize, function: Function) {
        let card = self.world.card_mut(card);
        if card.set_interrupts(function.msix_enabled, function.msix_masked) {
            card.set_bus_master(function.bus_master);
        }
    }

    fn interrupt(&mut self, card: usize) -> Option<u8> {
        self.world.card_mut(card).interrupt().map(|interrupt| interrupt.vector)
    }

    fn interrupt_window(&self, card: usize) -> Range<u64> {
        self.world.card(card).interrupt_window()
    }

    fn cycle(&self) -> u64 {
        self.world.cycle()
    }

    fn clock_khz(&self) -> u32 {
        self.world.clock_khz()
    }

    fn links(&mut self) -> Vec<(&mut Link, bool)> {
        self.world.all_links().collect()
    }

    fn set_link(&mut self, up: bool) {
        self.link_up = up;
        (0..self.world.cards()).for_each(|card| self.world.card_mut(card).set_link(up));
    }

    fn is_switched(&self) -> bool {
        self.world.switch().is_some()
    }

    fn lost(&self) -> u64 {
        self.world.switch().map_or(0, |switch| switch.lock().lost())
    }

    fn losses(&self) -> Option<String> {
        self.world.switch()?.lock().losses()
    }

    fn wake(&mut self) {
        self.clock.wake(&self.world);
    }

    fn rest(&self) -> Option<Duration> {
        self.clock.rest()
    }

    fn run(&mut self, waits: bool) {
        self.clock.run(&mut self.world, self.cards, waits);
    }

    fn busy(&self) -> bool {
        self.clock.busy(&self.world)
    }

    fn capture(&mut self, path: &Path) -> Result<()> {
        self.world.capture(path)
    }

    fn end_capture(&mut self) {
        self.world.end_capture();
    }

    fn take_capture_failure(&mut self) -> Option<String> {
        self.world.take_capture_failure()
    }

    fn check(&self) -> Result<(), BusError> {
        self.world.check()
    }

    fn world(&mut self) -> Option<&mut World> {
        Some(&mut self.world)
    }

    fn stir(&mut self) {
        self.clock.stir();
    }
}
