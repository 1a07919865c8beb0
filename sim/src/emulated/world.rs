// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`EngineWorld`]: engines' cards on one network; [`EngineBus`]: the driver's way to one of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrowire::{Bus, BusError, DmaBuffer, DmaMapping, HostMemory};

use super::card::Card;
use super::fabric::FIRST_MAC;
use crate::model::network::{Counts, Faults, Network};
use crate::model::Instant;

/// How much time passes at once while nothing happens, in nanoseconds: so all who wait come to their end.
const QUIET: Instant = 1_000;

/// Where a card is: who has it, and lets its time pass.
pub trait Place: Clone + Send {
    /// Does something with the card, which nobody else has meanwhile.
    fn with<T>(&self, f: impl FnOnce(&mut Card) -> T) -> T;

    /// Lets time pass, and what happens then. Time must pass in any case.
    ///
    /// # Errors
    /// The card is gone.
    fn progress(&self) -> Result<(), BusError>;

    /// The card's time, in nanoseconds.
    fn now(&self) -> Instant;
}

/// Cards that are engines, on one network with a clock of its own. Clones are the same world.
///
/// It moves when somebody waits: each [`Bus::progress`] of each of its buses lets happen what comes next, for all of them, and time jumps there. So
/// a time-out of seconds passes at once when nothing else is to happen, and time says nothing of how fast anything is.
#[derive(Clone, Debug)]
pub struct EngineWorld(Arc<Mutex<Network<Card>>>);

impl EngineWorld {
    /// So many cards. Each has a MAC address, as from a board's memory: 02:fe:00:00:00:01 and those that follow it.
    pub fn new(cards: usize) -> Self {
        Self::with_faults(cards, Faults::none(), 0)
    }

    /// Two cards.
    pub fn pair() -> Self {
        Self::new(2)
    }

    /// So many cards on a wire that loses, doubles, delays or spoils frames, as the seed says.
    pub fn with_faults(cards: usize, faults: Faults, seed: u64) -> Self {
        let cards = (FIRST_MAC..).take(cards).map(Card::new).collect();
        Self(Arc::new(Mutex::new(Network::new(cards, faults, seed))))
    }

    /// Leaves selective retransmission out of all cards: for programs that compare them with the hardware, which does not have it yet.
    pub fn leave_out_selective(&self) {
        self.lock().engines.iter_mut().for_each(Card::leave_out_selective);
    }

    /// The network, while nobody else moves it. The driver's calls need it too: give it back before them.
    pub fn lock(&self) -> MutexGuard<'_, Network<Card>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver's way to a card, counted from 0.
    ///
    /// # Panics
    /// There is no such card.
    #[track_caller]
    pub fn bus(&self, card: usize) -> EngineBus {
        let cards = self.lock().engines.len();
        assert!(card < cards, "no card {card} in a world of {cards}");
        EngineBus::new(Slot { world: self.clone(), card })
    }

    /// The time of all cards.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.lock().now())
    }

    /// Lets happen what comes next, and time jump there; a microsecond, when nothing is to happen.
    pub fn progress(&self) {
        let mut network = self.lock();
        if !network.step() {
            let now = network.now();
            network.idle_until(now + QUIET);
        }
    }

    /// Lets so much time pass, and all that happens in it.
    pub fn run(&self, time: Duration) {
        let mut network = self.lock();
        let end = network.now().saturating_add(time.as_nanos().try_into().unwrap_or(Instant::MAX));
        network.run_until(end);
    }

    /// What happens to frames from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// What has happened to frames.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }
}

/// A card's place in a world.
#[derive(Clone, Debug)]
pub struct Slot {
    world: EngineWorld,
    card: usize,
}

impl Place for Slot {
    fn with<T>(&self, f: impl FnOnce(&mut Card) -> T) -> T {
        let mut network = self.world.lock();
        let now = network.now();
        // A bus is made for a card that there is.
        let card = &mut network.engines[self.card];
        card.set_now(now);
        f(card)
    }

    fn progress(&self) -> Result<(), BusError> {
        self.world.progress();
        Ok(())
    }

    fn now(&self) -> Instant {
        self.world.lock().now()
    }
}

/// The driver's way to a card that is an engine. Clones are ways to the same card.
#[derive(Clone, Debug)]
pub struct EngineBus<P = Slot> {
    place: P,
}

impl<P: Place> EngineBus<P> {
    /// The way to the card at a place.
    pub fn new(place: P) -> Self {
        Self { place }
    }
}

impl<P: Place> Bus for EngineBus<P> {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        self.place.with(|card| card.read32(offset))
    }

    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.place.with(|card| card.write32(offset, value))
    }

    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.place.with(|card| card.write64(offset, value))
    }

    fn push(&mut self, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        self.place.with(|card| {
            (offset..).step_by(8).zip(words).try_for_each(|(offset, word)| card.write64(offset, *word))
        })
    }

    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.place.with(|card| card.dma_alloc(bytes, align))
    }

    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.place.with(|card| card.dma_free(&buffer))
    }

    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.place.with(|card| card.dma_map(memory, page_shift))
    }

    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.place.with(|card| card.dma_unmap(&mapping))
    }

    /// A cycle is a nanosecond of the world's time.
    fn card_cycles(&mut self) -> Result<Option<u64>, BusError> {
        Ok(Some(self.place.now()))
    }

    fn is_engine(&self) -> bool {
        true
    }

    fn needs_progress(&self) -> bool {
        true
    }

    fn progress(&mut self) -> Result<(), BusError> {
        self.place.progress()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.place.now())
    }
}
