// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`World`]: cards and links on one clock; [`SimBus`]: the driver's way to one of these cards.
//!
//! All cards of a world move together, so a register access of one host lets the others' cards run too. A world is
//! shared by its buses; whoever calls takes its turn.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use ferrowire::{Bus, BusError, DmaBuffer, DmaMapping, HostMemory};

use crate::card::{datapath_gbps, Card, CardModel, CsrAccess};
use crate::switch::{SharedSwitch, Switch};
use crate::wire::{time, Beat, Capture, Link};

/// Bytes of BAR 0 that the card's `csr` stream addresses.
const BAR_BYTES: u32 = 1 << 24;

/// Cycles after which a register access is given up.
const CSR_LIMIT: u64 = 100_000;

/// Cycles of [`Bus::progress`].
const QUANTUM: u64 = 32;

/// Who is at the other end of a card's wire, if that is no card: whole frames, in the card's cycles.
pub trait Peer: Send {
    /// A frame has arrived.
    fn take(&mut self, cycle: u64, frame: Vec<u8>);

    /// The wire is free: the next frame to send.
    fn give(&mut self, cycle: u64) -> Option<Vec<u8>>;

    /// Whether frames wait for the wire, as far as this end knows without being asked for one.
    fn waits(&self) -> bool {
        false
    }

    /// The card at the other end was reset.
    fn link_down(&mut self) {}
}

/// A link and its ends.
struct Wire {
    link: Link,
    from: Option<usize>,
    to: Option<usize>,
}

/// What the cards of a cycle offer and get, each at its number.
#[derive(Default)]
struct Beats {
    offered: Vec<Option<Beat>>,
    delivered: Vec<Option<Beat>>,
    ready: Vec<bool>,
    taken: Vec<bool>,
}

impl Beats {
    /// Nothing for so many cards.
    fn clear(&mut self, cards: usize) {
        for beats in [&mut self.offered, &mut self.delivered] {
            beats.clear();
            beats.resize(cards, None);
        }
        for (flags, value) in [(&mut self.ready, true), (&mut self.taken, false)] {
            flags.clear();
            flags.resize(cards, value);
        }
    }
}

/// A peer, and where it is.
struct Far {
    peer: Box<dyn Peer>,
    /// The links to it and from it.
    takes: usize,
    gives: usize,
    /// What of a frame has come.
    frame: Vec<u8>,
}

impl Far {
    fn new(peer: Box<dyn Peer>, takes: usize, gives: usize) -> Self {
        Self { peer, takes, gives, frame: Vec::new() }
    }
}

/// Cards and links on one clock.
pub struct World {
    cards: Vec<Card>,
    wires: Vec<Wire>,
    peers: Vec<Far>,
    /// What joins more than two cards.
    switch: Option<SharedSwitch>,
    cycle: u64,
    clock_khz: u32,
    capture: Option<Capture>,
    failed: Option<String>,
    /// Why the capture has ended.
    capture_failed: Option<String>,
    beats: Beats,
}

impl World {
    /// Two cards on a wire: link 0 from card 0 to card 1, link 1 back.
    ///
    /// # Errors
    /// The model is not that of a card.
    pub fn pair(model: &CardModel, host_latency: u64, wire_latency: u64) -> Result<Self> {
        let cards = vec![Card::new(model, host_latency)?, Card::new(model, host_latency)?];
        let wire = |from, to| Wire { link: Link::new(model.beat_bytes(), wire_latency), from, to };
        Ok(Self::of(model, cards, vec![wire(Some(0), Some(1)), wire(Some(1), Some(0))]))
    }

    /// One card without a peer: link 0 takes what it sends, link 1 brings it what is injected.
    ///
    /// # Errors
    /// The model is not that of a card.
    pub fn single(model: &CardModel, host_latency: u64) -> Result<Self> {
        let cards = vec![Card::new(model, host_latency)?];
        let wire = |from, to| Wire { link: Link::new(model.beat_bytes(), 0), from, to };
        Ok(Self::of(model, cards, vec![wire(Some(0), None), wire(None, Some(0))]))
    }

    /// One card and a peer that is none: link 0 to the peer, link 1 back.
    ///
    /// # Errors
    /// The model is not that of a card.
    pub fn with_peer(
        model: &CardModel,
        host_latency: u64,
        wire_latency: u64,
        peer: Box<dyn Peer>,
    ) -> Result<Self> {
        let cards = vec![Card::new(model, host_latency)?];
        let wire = |from, to| Wire { link: Link::new(model.beat_bytes(), wire_latency), from, to };
        let world = Self::of(model, cards, vec![wire(Some(0), None), wire(None, Some(0))]);
        Ok(Self { peers: vec![Far::new(peer, 0, 1)], ..world })
    }

    /// Cards on the ports of a learning switch, whose queues hold `depth` frames: link 2i from card i to its port, link 2i + 1 back.
    ///
    /// # Errors
    /// The model is not that of a card.
    pub fn switched(model: &CardModel, cards: usize, host_latency: u64, depth: usize) -> Result<Self> {
        let switch = SharedSwitch::new(Switch::new(cards, depth));
        let wire = |from, to| Wire { link: Link::new(model.beat_bytes(), 0), from, to };
        let wires = (0..cards).flat_map(|i| [wire(Some(i), None), wire(None, Some(i))]).collect();
        let peers = (0..cards).map(|i| Far::new(Box::new(switch.port(i)), 2 * i, 2 * i + 1)).collect();
        let cards = (0..cards).map(|_| Card::new(model, host_latency)).collect::<Result<_>>()?;
        Ok(Self { peers, switch: Some(switch), ..Self::of(model, cards, wires) })
    }

    /// No card, two peers on a wire of so many bytes a beat: link 0 from the first to the second, link 1 back.
    pub fn peers(beat_bytes: usize, clock_khz: u32, wire_latency: u64, peers: [Box<dyn Peer>; 2]) -> Self {
        let wire = || Wire { link: Link::new(beat_bytes, wire_latency), from: None, to: None };
        let [first, second] = peers;
        Self {
            cards: Vec::new(),
            wires: vec![wire(), wire()],
            peers: vec![Far::new(first, 1, 0), Far::new(second, 0, 1)],
            switch: None,
            cycle: 0,
            clock_khz,
            capture: None,
            failed: None,
            capture_failed: None,
            beats: Beats::default(),
        }
    }

    fn of(model: &CardModel, mut cards: Vec<Card>, wires: Vec<Wire>) -> Self {
        let clock_khz = model.clock_khz();
        // Bringing a card up may have taken it some cycles, and each another number.
        let cycle = cards.iter().map(Card::cycle).max().unwrap_or(0);
        for card in &mut cards {
            while card.cycle() < cycle {
                card.step(None, true);
            }
        }
        Self {
            cards,
            wires,
            peers: Vec::new(),
            switch: None,
            cycle,
            clock_khz,
            capture: None,
            failed: None,
            capture_failed: None,
            beats: Beats::default(),
        }
    }

    /// To be shared by buses.
    pub fn share(self) -> SharedWorld {
        SharedWorld(Arc::new(Mutex::new(self)))
    }

    /// Cycles since reset.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Time since reset, by the cards' clock.
    pub fn time(&self) -> Duration {
        time(self.cycle, self.clock_khz)
    }

    /// The cards' clock.
    pub fn clock_khz(&self) -> u32 {
        self.clock_khz
    }

    /// A card.
    pub fn card(&self, card: usize) -> &Card {
        &self.cards[card]
    }

    /// A card.
    pub fn card_mut(&mut self, card: usize) -> &mut Card {
        &mut self.cards[card]
    }

    /// Cards that there are.
    pub fn cards(&self) -> usize {
        self.cards.len()
    }

    /// The switch that joins the cards, if one does.
    pub fn switch(&self) -> Option<&SharedSwitch> {
        self.switch.as_ref()
    }

    /// Links that there are.
    pub fn links(&self) -> usize {
        self.wires.len()
    }

    /// All links, each with whether a frame is captured and meets a wire's faults there: on all of them, or on those from cards to the switch.
    pub fn all_links(&mut self) -> impl Iterator<Item = (&mut Link, bool)> {
        let step = self.step_of_ways();
        self.wires.iter_mut().enumerate().map(move |(at, wire)| (&mut wire.link, at % step == 0))
    }

    fn step_of_ways(&self) -> usize {
        match self.switch {
            Some(_) => 2,
            None => 1,
        }
    }

    /// A link.
    pub fn link(&self, link: usize) -> &Link {
        &self.wires[link].link
    }

    /// A link.
    pub fn link_mut(&mut self, link: usize) -> &mut Link {
        &mut self.wires[link].link
    }

    /// Lets every link take frames no faster than Ethernet of so many Gb/s, or a beat a cycle without.
    pub fn set_line_rate(&mut self, gbps: Option<f64>) {
        let rate = gbps.map(|gbps| gbps * 1e6 / 8.0 / f64::from(self.clock_khz));
        for wire in &mut self.wires {
            wire.link.set_rate(rate);
        }
    }

    /// The same, as a share of what the first card's datapath carries with a beat in each cycle.
    pub fn set_line_share(&mut self, share: f64) {
        let datapath = datapath_gbps(self.cards[0].beat_bytes() as u32, self.clock_khz);
        self.set_line_rate(Some(share * datapath));
    }

    /// Puts another card, as after power-on, in the place of one: its registers, objects and what it had under way are gone, and so is what
    /// of a frame it was sending or taking. What its host has mapped stays mapped. What went wrong is forgotten.
    ///
    /// The links must have filters: without one, half a frame may have reached the other end.
    ///
    /// # Errors
    /// The model is not that of a card.
    pub fn power_on(&mut self, card: usize, model: &CardModel) -> Result<()> {
        let old = &mut self.cards[card];
        let map = std::mem::take(old.host_mut().map_mut());
        *old = Card::new(model, old.host().latency())?;
        *old.host_mut().map_mut() = map;
        for wire in &mut self.wires {
            if wire.from == Some(card) {
                wire.link.end_sender();
            }
            if wire.to == Some(card) {
                wire.link.end_receiver();
            }
        }
        self.link_down(card);
        self.failed = None;
        Ok(())
    }

    /// Tells the card's peer, if that is not a card, of the reset.
    fn link_down(&mut self, card: usize) {
        let wires = &self.wires;
        for far in self.peers.iter_mut().filter(|far| wires[far.takes].from == Some(card)) {
            far.peer.link_down();
        }
    }

    /// A function level reset (PCIe 6.6.2) of a card that faces PCIe, from its beginning to its end; the other cards go on meanwhile. Whether the card
    /// has such a thing and has done it in time, which the standard says is 100 ms.
    pub fn reset_function(&mut self, card: usize) -> bool {
        if self.failed.is_some() || !self.cards[card].begin_function_reset() {
            return false;
        }
        let limit = u64::from(self.clock_khz) * 100;
        let done = |world: &World| world.failed.is_some() || world.card(card).function_reset_done();
        let in_time = self.run_until(limit, done);
        while self.cards[card].interrupt().is_some() {}
        self.cards[card].end_function_reset();
        self.link_down(card);
        // What software writes then is taken before anything else.
        self.run_until(CSR_LIMIT, |world| world.card(card).pcie_idle()) && in_time && self.failed.is_none()
    }

    /// Frames that all links have taken so far.
    pub fn frames(&self) -> u64 {
        self.wires.iter().map(|wire| wire.link.frames()).sum()
    }

    /// Whether neither links nor their ends have frames under way.
    pub fn wires_idle(&self) -> bool {
        self.wires.iter().all(|wire| wire.link.idle()) && !self.peers.iter().any(|far| far.peer.waits())
    }

    /// Delivers a frame over a link that nobody sent.
    pub fn inject(&mut self, link: usize, frame: Vec<u8>) {
        self.wires[link].link.inject(self.cycle, frame);
    }

    /// Writes every frame from now on to a pcapng file, an interface for each sender: a link of a wire, or a port of a switch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn capture(&mut self, path: &Path) -> Result<()> {
        let kind = if self.switch.is_some() { "port" } else { "link" };
        let count = self.wires.len() / self.step_of_ways();
        let names: Vec<String> = (0..count).map(|i| format!("{kind}{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.capture = Some(Capture::create(path, &names, self.clock_khz)?);
        self.all_links().filter(|(_, is_way)| *is_way).for_each(|(link, _)| link.keep_frames(true));
        Ok(())
    }

    /// Ends the capture and its file.
    pub fn end_capture(&mut self) {
        self.capture = None;
        for wire in &mut self.wires {
            wire.link.keep_frames(false);
        }
    }

    /// One clock of every card.
    pub fn step(&mut self) {
        self.beats.clear(self.cards.len());
        let step = self.step_of_ways();
        let Beats { offered, delivered, ready, taken } = &mut self.beats;
        for (card, offered) in self.cards.iter().zip(offered.iter_mut()) {
            *offered = card.tx();
        }
        for (i, wire) in self.wires.iter_mut().enumerate() {
            let tx = wire.from.and_then(|from| {
                ready[from] = wire.link.ready(self.cycle);
                offered[from].as_ref()
            });
            let beat = wire.link.deliver(self.cycle, tx);
            match (wire.to, beat) {
                (Some(to), beat) => delivered[to] = beat,
                (None, Some(beat)) => {
                    let Some(far) = self.peers.iter_mut().find(|far| far.takes == i) else { continue };
                    let bytes = wire.link.width() - usize::from(beat.empty);
                    far.frame.extend_from_slice(&beat.data[..bytes]);
                    if beat.last {
                        far.peer.take(self.cycle, std::mem::take(&mut far.frame));
                    }
                }
                _ => {}
            }
        }
        for (i, card) in self.cards.iter_mut().enumerate() {
            taken[i] = card.step(delivered[i].as_ref(), ready[i]);
            if self.failed.is_none() {
                let broken = card.violation();
                self.failed = broken.map(|why| format!("card {i} breaks a rule of its host's side: {why}"));
            }
        }
        for (i, wire) in self.wires.iter_mut().enumerate() {
            let tx = wire.from.and_then(|from| offered[from].as_ref().filter(|_| ready[from]));
            wire.link.commit(self.cycle, tx, wire.to.is_none_or(|to| taken[to]));
            if let (Some(capture), false) = (&mut self.capture, wire.link.sent().is_empty()) {
                for frame in wire.link.take_frames() {
                    if let Err(error) = capture.write((i / step) as u32, &frame) {
                        self.capture_failed.get_or_insert(error.to_string());
                    }
                }
            }
        }
        for far in &mut self.peers {
            let link = &mut self.wires[far.gives].link;
            if link.ready(self.cycle) {
                if let Some(frame) = far.peer.give(self.cycle) {
                    link.send(self.cycle, frame);
                }
            }
        }
        if self.capture_failed.is_some() && self.capture.is_some() {
            self.end_capture();
        }
        self.cycle += 1;
    }

    /// `n` clocks.
    pub fn run(&mut self, n: u64) {
        for _ in 0..n {
            self.step();
        }
    }

    /// Steps until `done`, at most `limit` clocks. Whether it was done.
    pub fn run_until(&mut self, limit: u64, mut done: impl FnMut(&World) -> bool) -> bool {
        for _ in 0..limit {
            if done(self) {
                return true;
            }
            self.step();
        }
        done(self)
    }

    /// What went wrong beyond repair: a card broke the rules, or a file could not be written.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), BusError> {
        self.sound()?;
        match &self.capture_failed {
            Some(why) => Err(BusError::Gone(why.clone())),
            None => Ok(()),
        }
    }

    /// Why the capture could not be written and has ended: told once.
    pub fn take_capture_failure(&mut self) -> Option<String> {
        self.capture_failed.take()
    }

    /// Whether all cards keep the rules.
    fn sound(&self) -> Result<(), BusError> {
        match &self.failed {
            Some(why) => Err(BusError::Gone(why.clone())),
            None => Ok(()),
        }
    }

    /// A write of 64 bytes in one packet by the host of a card that faces PCIe, until the card has taken it.
    ///
    /// # Errors
    /// The address is not in BAR 0 or not aligned, or the card fails or does not face PCIe.
    pub fn burst(&mut self, card: usize, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        let inside = offset % 64 == 0 && offset < BAR_BYTES;
        let before = self.cards[card].csr_taken();
        let Some(root) = self.cards[card].root_mut().filter(|_| inside) else {
            return Err(BusError::BadOffset { offset });
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        root.cpu_write(offset.into(), &bytes);
        let taken = |world: &World| world.cards[card].csr_taken() > before;
        match self.run_until(CSR_LIMIT, |world| world.failed.is_some() || taken(world)) && taken(self) {
            true => self.sound(),
            false => {
                self.sound()?;
                let why = format!("write of 64 bytes at {offset:#x} not taken in {CSR_LIMIT} cycles");
                self.failed.get_or_insert(why.clone());
                Err(BusError::Gone(why))
            }
        }
    }

    /// A register access of a card's host, until the card has taken it and answered.
    ///
    /// # Errors
    /// The address is not in BAR 0 or not aligned, or the card fails.
    pub fn access(&mut self, card: usize, access: CsrAccess) -> Result<u64, BusError> {
        let align = if access.wide { 8 } else { 4 };
        if access.address >= BAR_BYTES || access.address % align != 0 {
            return Err(BusError::BadOffset { offset: access.address });
        }
        let before = self.cards[card].csr_taken();
        self.cards[card].csr(access);
        for _ in 0..CSR_LIMIT {
            self.step();
            self.sound()?;
            if access.write && self.cards[card].csr_taken() > before {
                return Ok(0);
            }
            if !access.write {
                if let Some(data) = self.cards[card].csr_response() {
                    return Ok(data);
                }
            }
        }
        let verb = if access.write { "write" } else { "read" };
        let why = format!("{verb} of register {:#x} not answered in {CSR_LIMIT} cycles", access.address);
        self.failed.get_or_insert(why.clone());
        Err(BusError::Gone(why))
    }
}

/// A world that several buses share.
#[derive(Clone)]
pub struct SharedWorld(Arc<Mutex<World>>);

impl SharedWorld {
    /// The world, while nobody else moves it. The driver's calls need it too: give it back before them.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver's way to a card.
    pub fn bus(&self, card: usize) -> SimBus {
        SimBus { world: self.clone(), card }
    }
}

/// The driver's way to a card of a world in this process.
pub struct SimBus {
    world: SharedWorld,
    card: usize,
}

impl Bus for SimBus {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        let access = CsrAccess { address: offset, write: false, wide: false, data: 0 };
        Ok(self.world.lock().access(self.card, access)? as u32)
    }

    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        let access = CsrAccess { address: offset, write: true, wide: false, data: value.into() };
        self.world.lock().access(self.card, access).map(|_| ())
    }

    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        let access = CsrAccess { address: offset, write: true, wide: true, data: value };
        self.world.lock().access(self.card, access).map(|_| ())
    }

    fn push(&mut self, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        let mut world = self.world.lock();
        match world.card(self.card).root() {
            // One packet, as where the CPU combines its stores.
            Some(_) => world.burst(self.card, offset, words),
            None => (offset..).step_by(8).zip(words).try_for_each(|(address, word)| {
                let access = CsrAccess { address, write: true, wide: true, data: *word };
                world.access(self.card, access).map(|_| ())
            }),
        }
    }

    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.world.lock().card_mut(self.card).host_mut().map_mut().alloc(bytes, align)
    }

    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.world.lock().card_mut(self.card).host_mut().map_mut().remove(buffer.bus_address())
    }

    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.world.lock().card_mut(self.card).host_mut().dma_map(memory, page_shift)
    }

    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.world.lock().card_mut(self.card).host_mut().dma_unmap(&mapping)
    }

    fn card_cycles(&mut self) -> Result<Option<u64>, BusError> {
        Ok(Some(self.world.lock().cycle()))
    }

    fn needs_progress(&self) -> bool {
        true
    }

    fn progress(&mut self) -> Result<(), BusError> {
        let mut world = self.world.lock();
        world.run(QUANTUM);
        world.check()
    }

    fn now(&self) -> Duration {
        self.world.lock().time()
    }
}
