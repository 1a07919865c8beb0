// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Pair`]: two cards on a wire, each opened by a driver of its own, and queue pairs between them.

use anyhow::Result;
use ferrowire::spec::csr::MSIX_TABLE;
use ferrowire::spec::pci::{MSIX_ENTRY, MSIX_MAX};
use ferrowire::{Bus, HostMemory, Qp, QueuePair, Reset, Rtr, RtsAttributes, SendWr, SharedReceiveQueue};

use crate::bus::{SharedWorld, World};
use crate::card::CardModel;
use crate::emulated::{Place as _, Wired};
use crate::node::counters;
pub use crate::node::{Connection, Node, PairOptions};

/// What [`Pair::named`] takes for a configuration, and is none.
pub const EMULATED: &str = "emulated";

/// Two cards on a wire.
pub struct Pair {
    /// Card 0.
    pub a: Node,
    /// Card 1.
    pub b: Node,
    /// Both, and the wire: link 0 from `a` to `b`, link 1 back.
    pub world: SharedWorld,
    host_latency: u64,
    /// The cards, where they are emulated.
    emulated: Option<[Wired; 2]>,
}

impl Pair {
    /// Two cards out of reset, opened.
    ///
    /// # Errors
    /// A card does not come up.
    pub fn new(model: &CardModel, options: &PairOptions) -> Result<Self> {
        Self::of(World::pair(model, options.host_latency, options.wire_latency)?.share(), options)
    }

    /// The same of a configuration's cards, or of [emulated](Self::emulated) ones where it is [`EMULATED`]: so one test is of both kinds.
    ///
    /// # Errors
    /// There is no such configuration, or a card does not come up.
    pub fn named(config: &str, options: &PairOptions) -> Result<Self> {
        match config {
            EMULATED => Self::emulated(options),
            _ => Self::new(&CardModel::rnic(&crate::config::resolve(config)?, false)?, options),
        }
    }

    /// The two cards of a world, opened.
    ///
    /// # Errors
    /// A card does not come up.
    pub fn of(world: SharedWorld, options: &PairOptions) -> Result<Self> {
        let buses = (world.bus(0), world.bus(1));
        Self::over(world, buses, options)
    }

    /// The same by other ways to them.
    ///
    /// # Errors
    /// A card does not come up.
    pub fn over(
        world: SharedWorld,
        (a, b): (impl Bus + 'static, impl Bus + 'static),
        options: &PairOptions,
    ) -> Result<Self> {
        let (a, b) = (Node::open(a, 0, options)?, Node::open(b, 1, options)?);
        Ok(Self { a, b, world, host_latency: options.host_latency, emulated: None })
    }

    /// Two emulated cards on such a wire, opened: their hosts have no latency, and have enabled MSI-X and all vectors, as an operating system does.
    ///
    /// # Errors
    /// A card does not come up.
    pub fn emulated(options: &PairOptions) -> Result<Self> {
        let (world, cards) = Wired::pair(options.wire_latency);
        for card in &cards {
            card.with(|card| {
                card.set_interrupts(true, false);
                (0..MSIX_MAX).try_for_each(|vector| card.write32(MSIX_TABLE + MSIX_ENTRY * vector + 12, 0))
            })?;
        }
        let pair = Self::over(world, (cards[0].bus(), cards[1].bus()), options)?;
        Ok(Self { emulated: Some(cards), ..pair })
    }

    /// The driver's way to a card, beside the one that has it open.
    pub fn bus(&self, card: usize) -> Box<dyn Bus> {
        match &self.emulated {
            Some(cards) => Box::new(cards[card].bus()),
            None => Box::new(self.world.bus(card)),
        }
    }

    /// Accesses of a card to memory of its host that was not mapped: none of them took place.
    pub fn refused(&self, card: usize) -> u64 {
        match &self.emulated {
            Some(cards) => cards[card].with(|card| card.refused()),
            None => {
                let world = self.world.lock();
                let stats = world.card(card).host().stats();
                stats.reads_refused + stats.writes_refused
            }
        }
    }

    /// Pieces of memory that the host of a card has mapped for it.
    pub fn mapped(&self, card: usize) -> usize {
        match &self.emulated {
            Some(cards) => cards[card].with(|card| card.mapped()),
            None => self.world.lock().card(card).host().map().len(),
        }
    }

    /// The next interrupt that a card has raised: its cycle, and its vector.
    pub fn interrupt(&self, card: usize) -> Option<(u64, u8)> {
        match &self.emulated {
            Some(cards) => {
                let message = cards[card].with(|card| card.interrupt())?;
                Some((message.at, message.vector))
            }
            None => {
                let interrupt = self.world.lock().card_mut(card).interrupt()?;
                Some((interrupt.cycle, interrupt.vector))
            }
        }
    }

    /// Takes a page out of the memory that the host of a card has, by the address in this process of its first byte there.
    ///
    /// # Panics
    /// No page begins there.
    #[track_caller]
    pub fn unmap(&self, card: usize, address: u64) {
        let gone = match &self.emulated {
            Some(cards) => cards[card].with(|card| card.forget_page(address)),
            None => {
                let mut world = self.world.lock();
                let host = world.card_mut(card).host_mut();
                host.bus_address(address).is_some_and(|at| host.map_mut().remove(at).is_ok())
            }
        };
        assert!(gone, "no page of card {card} begins at {address:#x}");
    }

    /// Does something that is only a preparation with hosts that answer at once: a thousand queue pairs take their time otherwise.
    ///
    /// # Errors
    /// Those of what is done.
    pub fn prepare<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.emulated.is_some() {
            return work();
        }
        let set = |latency| {
            let mut world = self.world.lock();
            [0, 1].into_iter().for_each(|card| world.card_mut(card).host_mut().set_latency(latency));
        };
        set(0);
        let done = work();
        set(self.host_latency);
        done
    }

    /// Every counter that is not zero, of both cards, and what their hosts' memory saw: for who looks for a fault.
    pub fn diagnose(&self) -> String {
        let mut text = String::new();
        for node in [&self.a, &self.b] {
            text.push_str(&format!("\ncard {}: {}", node.card, counters(&node.context)));
            match &self.emulated {
                Some(_) => text.push_str(&format!("; {} accesses refused", self.refused(node.card))),
                None => {
                    let stats = self.world.lock().card(node.card).host().stats();
                    text.push_str(&format!("; {stats:?}"));
                }
            }
        }
        text
    }

    /// A queue pair on each card, connected with each other.
    ///
    /// # Errors
    /// A card refuses.
    pub fn connect(&self, connection: &Connection) -> Result<(QueuePair, QueuePair)> {
        self.connect_sharing(connection, None)
    }

    /// The same, where that of card 1 has its receives from this queue.
    ///
    /// # Errors
    /// A card refuses.
    pub fn connect_sharing(
        &self,
        connection: &Connection,
        srq: Option<&SharedReceiveQueue>,
    ) -> Result<(QueuePair, QueuePair)> {
        let (a, b) = (self.a.queue_pair(connection, None)?, self.b.queue_pair(connection, srq)?);
        self.bring_up(a, b, connection)
    }

    /// Takes the two queue pairs to RESET and connects them with each other again: the same numbers, a new life. What is on
    /// the wire stays there.
    ///
    /// # Errors
    /// A card refuses.
    pub fn reconnect(
        &self,
        a: QueuePair,
        b: QueuePair,
        connection: &Connection,
    ) -> Result<(QueuePair, QueuePair)> {
        let reset = |qp: QueuePair| qp.reset().map_err(|step| step.error);
        let (a, b) = (reset(a)?, reset(b)?);
        self.bring_up(a, b, connection)
    }

    /// The same with queue pairs that exist already, of card 0 and card 1: that begin a new life, or are of another kind.
    ///
    /// # Errors
    /// A card refuses.
    pub fn bring_up(
        &self,
        a: Qp<Reset>,
        b: Qp<Reset>,
        connection: &Connection,
    ) -> Result<(QueuePair, QueuePair)> {
        self.a.bring_up(&self.b, a, b, connection)
    }

    /// The same, but for the last step of that of card 1, which answers and does not ask; and what it takes for that step.
    ///
    /// # Errors
    /// A card refuses.
    pub fn half_up(
        &self,
        a: Qp<Reset>,
        b: Qp<Reset>,
        connection: &Connection,
    ) -> Result<(QueuePair, Qp<Rtr>, RtsAttributes)> {
        self.a.half_up(&self.b, a, b, connection)
    }
}

/// Posts work requests and rings once.
///
/// # Panics
/// The queue pair does not take one.
#[track_caller]
pub fn post(qp: &mut QueuePair, requests: &[SendWr<'_>]) {
    let mut batch = qp.start_post_send();
    requests.iter().for_each(|wr| batch.post(wr).expect("a work request that the queue takes"));
    batch.ring().expect("a doorbell");
}

/// The bytes of a memory.
pub fn bytes(memory: &HostMemory) -> Vec<u8> {
    let mut all = vec![0; memory.len()];
    memory.read(0, &mut all);
    all
}
