// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Wired`]: an emulated card on a wire of [`World`](crate::bus::World), where Verilated cards are, with the world's filters, captures and cycles. So a test of cards
//! can be one of emulated cards as well.

use ferrowire::BusError;

use super::card::Card;
use super::limits::CLOCK_KHZ;
use super::world::{EngineBus, Place};
use crate::bus::{SharedWorld, World};
use crate::model::Instant;
use crate::on_wire::{OnWire, TICK_NS};

/// Cycles of [`ferrowire::Bus::progress`], as many as of a Verilated card.
const QUANTUM: u64 = 32;

/// Bytes a cycle of the wire: some 100 Gb/s at the card's clock.
const BEAT_BYTES: usize = 16;

/// The place of a card in such a world.
#[derive(Clone)]
pub struct Wired {
    card: OnWire<Card>,
    world: SharedWorld,
}

impl Wired {
    /// The card at an end of one of the world's wires.
    pub fn new(card: OnWire<Card>, world: &SharedWorld) -> Self {
        Self { card, world: world.clone() }
    }

    /// A card to be put to an end of a wire: its cycles, which are nanoseconds, are those of the wire.
    pub fn card(mac: u64) -> OnWire<Card> {
        OnWire::new(Card::new(mac), TICK_NS)
    }

    /// Two cards on a wire: link 0 from the first to the second, link 1 back.
    pub fn pair(wire_latency: u64) -> (SharedWorld, [Wired; 2]) {
        let cards = [1, 2].map(Self::card);
        let [first, second] = cards.clone();
        let peers: [Box<dyn crate::bus::Peer>; 2] = [Box::new(first), Box::new(second)];
        let world = World::peers(BEAT_BYTES, CLOCK_KHZ, wire_latency, peers).share();
        let places = cards.map(|card| Self::new(card, &world));
        (world, places)
    }

    /// The driver's way to it.
    pub fn bus(&self) -> EngineBus<Wired> {
        EngineBus::new(self.clone())
    }
}

impl Place for Wired {
    fn with<T>(&self, f: impl FnOnce(&mut Card) -> T) -> T {
        let mut core = self.card.lock();
        let now = core.now();
        core.station.set_now(now);
        let done = f(&mut core.station);
        core.touched();
        done
    }

    fn progress(&self) -> Result<(), BusError> {
        let mut world = self.world.lock();
        world.run(QUANTUM);
        world.check()
    }

    fn now(&self) -> Instant {
        self.world.lock().cycle()
    }
}
