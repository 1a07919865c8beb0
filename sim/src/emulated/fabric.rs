// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Fabric`]: emulated cards, their cables and what joins these, on one clock that counts nanoseconds.
//!
//! ```text
//!  Card ---- cable ---- Card              two cards
//!  Card ---- cable ---- Peer              one card, and the end of a wire that leads elsewhere
//!  Card ---- cable ---- Switch            many cards
//!  Card ---- cable -------'
//! ```
//!
//! It does for whole frames what [`World`](crate::bus::World) does for beats, and goes from event to event. A cable is two
//! [links](crate::wire::Link), so wires have the same faults, rates and captures in both.
//!
//! # Time
//!
//! | while | the clock |
//! |---|---|
//! | frames are under way, or wait for a cable | goes from event to event, as fast as this machine works through them: [`Fabric::run`] |
//! | none is, or faults hold all of them back for long | goes as far as the caller says, and at most to the next deadline: [`Fabric::advance`] |
//!
//! Timers that fall between two events of frames pass in their order. So a time-out measures what the wire takes and never what this machine takes,
//! and an idle connection is given up after the time that its attributes say.

use std::path::Path;

use anyhow::Result;
use ferrowire::BusError;

use super::card::Card;
use super::limits::{CLOCK_KHZ, LINK_SPEED};
use super::msix::Message;
use crate::bus::Peer;
use crate::card::CsrAccess;
use crate::model::network::Station as _;
use crate::model::{Instant, Transmitted};
use crate::switch::Switch;
use crate::wire::{wire_bytes, Capture, Link};

/// Rate of a cable.
const BYTES_PER_NS: f64 = LINK_SPEED as f64 / 80.0;

/// Time that a frame takes through a cable, in nanoseconds.
const CABLE: Instant = 500;

/// A frame that is due later than that is held back by faults, so the clock does not jump there: other cards have timers, and programs that count on real
/// time. All other frames are due sooner.
const HELD: Instant = 100_000;

/// MAC addresses of the cards: this one and those that follow it.
pub const FIRST_MAC: u64 = 0x02fe_0000_0001;

/// A card, and what is known of it.
struct Slot {
    card: Card,
    mac: u64,
    /// It may have a frame to send.
    busy: bool,
    /// When it may build the next frame: one that it sends to itself takes it as long as the wire would.
    free_at: Instant,
    /// Its next deadline.
    deadline: Option<Instant>,
}

impl Slot {
    fn new(mac: u64) -> Self {
        Self { card: Card::new(mac), mac, busy: false, free_at: 0, deadline: None }
    }

    fn touched(&mut self) {
        self.busy = true;
        self.deadline = self.card.poll_timeout();
    }
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Card(usize),
    /// A port of the switch.
    Port(usize),
    /// The only peer.
    Peer,
}

struct Cable {
    link: Link,
    from: End,
    to: End,
}

impl Cable {
    fn new(from: End, to: End, latency: Instant) -> Self {
        let mut link = Link::new(0, latency);
        link.set_rate(Some(BYTES_PER_NS));
        Self { link, from, to }
    }
}

/// Emulated cards on cables.
pub struct Fabric {
    slots: Vec<Slot>,
    cables: Vec<Cable>,
    switch: Option<Switch>,
    peer: Option<Box<dyn Peer>>,
    now: Instant,
    /// The link that is looked at first.
    turn: usize,
    capture: Option<Capture>,
    /// Why the capture has ended.
    capture_failed: Option<String>,
}

impl Fabric {
    fn of(cards: usize, cables: Vec<Cable>) -> Self {
        let slots = (FIRST_MAC..).take(cards).map(Slot::new).collect();
        Self { slots, cables, switch: None, peer: None, now: 0, turn: 0, capture: None, capture_failed: None }
    }

    /// Two cards on a wire: link 0 from the first to the second, link 1 back.
    pub fn pair() -> Self {
        let (a, b) = (End::Card(0), End::Card(1));
        Self::of(2, vec![Cable::new(a, b, 2 * CABLE), Cable::new(b, a, 2 * CABLE)])
    }

    /// `cards` cards on the ports of a switch whose queues hold `depth` frames: link 2i from card i to its port, link 2i + 1 back.
    pub fn switched(cards: usize, depth: usize) -> Self {
        let both = |i| [(End::Card(i), End::Port(i)), (End::Port(i), End::Card(i))];
        let cables = (0..cards).flat_map(both).map(|(from, to)| Cable::new(from, to, CABLE)).collect();
        Self { switch: Some(Switch::new(cards, depth)), ..Self::of(cards, cables) }
    }

    /// A card without a MAC address, and what is at the other end of its wire: link 0 from the card, link 1 back. Without a peer, what the card sends
    /// is lost.
    pub fn single(peer: Option<Box<dyn Peer>>) -> Self {
        let (card, far) = (End::Card(0), End::Peer);
        let cables = vec![Cable::new(card, far, CABLE), Cable::new(far, card, CABLE)];
        Self { peer, slots: vec![Slot::new(0)], ..Self::of(0, cables) }
    }

    /// The time, in nanoseconds: a cycle is one.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Cards that there are.
    pub fn cards(&self) -> usize {
        self.slots.len()
    }

    /// A card, to be looked at.
    pub fn card(&self, card: usize) -> &Card {
        &self.slots[card].card
    }

    /// Does something to a card, now. What it sends for that is sent by [`run`](Self::run).
    pub fn with<T>(&mut self, card: usize, f: impl FnOnce(&mut Card) -> T) -> T {
        let slot = &mut self.slots[card];
        slot.card.set_now(self.now);
        let done = f(&mut slot.card);
        slot.touched();
        done
    }

    /// The next interrupt of a card, as a message to its host.
    pub fn interrupt(&mut self, card: usize) -> Option<Message> {
        self.slots[card].card.interrupt()
    }

    /// The switch, if one joins the cards.
    pub fn switch(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    /// All links, each with whether a frame is captured and meets a wire's faults there: on all of them, or on those from cards to the switch.
    pub fn all_links(&mut self) -> impl Iterator<Item = (&mut Link, bool)> {
        let step = self.step();
        self.cables.iter_mut().enumerate().map(move |(at, cable)| (&mut cable.link, at % step == 0))
    }

    fn ways(&mut self) -> impl Iterator<Item = &mut Link> {
        self.all_links().filter_map(|(link, is_way)| is_way.then_some(link))
    }

    fn step(&self) -> usize {
        if self.switch.is_some() {
            2
        } else {
            1
        }
    }

    /// A register access of a card's host.
    ///
    /// # Errors
    /// The address is not in BAR 0 or not aligned.
    pub fn access(&mut self, card: usize, access: CsrAccess) -> Result<u64, BusError> {
        let CsrAccess { address, write, wide, data } = access;
        match (write, wide) {
            (true, false) => self.with(card, |card| card.write32(address, data as u32)).map(|()| 0),
            (true, true) => self.with(card, |card| card.write64(address, data)).map(|()| 0),
            (false, false) => self.card(card).read32(address).map(u64::from),
            (false, true) if address % 8 != 0 => Err(BusError::BadOffset { offset: address }),
            (false, true) => {
                let card = self.card(card);
                let (low, high) = (card.read32(address)?, card.read32(address + 4)?);
                Ok(u64::from(high) << 32 | u64::from(low))
            }
        }
    }

    /// The card as after power-on. What its host has mapped stays mapped; what is on its cable comes to the new card.
    pub fn power_on(&mut self, card: usize) {
        let mac = self.slots[card].mac;
        self.with(card, |card| card.power_on(mac));
        if let Some(switch) = &mut self.switch {
            switch.forget(card);
        }
        if let Some(peer) = &mut self.peer {
            peer.link_down();
        }
    }

    /// Writes every frame from now on to a pcapng file, an interface for each sender: a link of a wire, or a port of the switch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn capture(&mut self, path: &Path) -> Result<()> {
        let kind = if self.switch.is_some() { "port" } else { "link" };
        let names: Vec<String> = (0..self.ways().count()).map(|i| format!("{kind}{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.capture = Some(Capture::create(path, &names, CLOCK_KHZ)?);
        self.ways().for_each(|link| link.keep_frames(true));
        Ok(())
    }

    /// Ends the capture and its file.
    pub fn end_capture(&mut self) {
        self.capture = None;
        self.ways().for_each(|link| link.keep_frames(false));
    }

    /// What went wrong: a file cannot be written.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), BusError> {
        match &self.capture_failed {
            Some(why) => Err(BusError::Gone(why.clone())),
            None => Ok(()),
        }
    }

    /// Why the capture could not be written and has ended: told once.
    pub fn take_capture_failure(&mut self) -> Option<String> {
        self.capture_failed.take()
    }

    /// Whether no frame is under way: nothing happens but by timers, by frames that are held back, and by what is done to cards.
    pub fn is_idle(&self) -> bool {
        self.next_frame().is_none()
    }

    /// When the next timer of a card, or the next frame that is held back, is due.
    pub fn deadline(&self) -> Option<Instant> {
        let from = self.now.saturating_add(HELD);
        let held = self.cables.iter().filter_map(|cable| cable.link.due()).filter(|due| *due > from);
        held.chain(self.timer()).min()
    }

    /// When the next timer of a card is due.
    fn timer(&self) -> Option<Instant> {
        self.slots.iter().filter_map(|slot| slot.deadline).min()
    }

    /// Lets time pass in which no frame was under way: up to `until`, and at most to the next deadline. Nothing happens here: what is due then happens in
    /// [`run`](Self::run), after what the caller does to cards at this time.
    pub fn advance(&mut self, until: Instant) {
        self.pass(self.deadline().map_or(until, |deadline| deadline.min(until)));
    }

    /// Processes what is due, and goes from event to event while frames are under way: at most `events` events. Returns whether no frame is left under way and
    /// no timer is due.
    pub fn run(&mut self, events: usize) -> bool {
        for _ in 0..events {
            self.act();
            let timer = self.timer();
            match self.next_frame() {
                Some(frame) => self.pass(timer.map_or(frame, |timer| timer.min(frame))),
                None if timer.is_some_and(|timer| timer <= self.now) => {}
                None => return true,
            }
        }
        false
    }

    fn pass(&mut self, until: Instant) {
        self.now = self.now.max(until);
    }

    /// Whether the end of a link has something for it.
    fn waits(&self, from: End) -> bool {
        match from {
            End::Card(card) => self.slots[card].busy,
            End::Port(port) => self.switch.as_ref().is_some_and(|switch| switch.waits(port)),
            End::Peer => self.peer.as_ref().is_some_and(|peer| peer.waits()),
        }
    }

    /// When the next frame of those under way arrives, or may be sent.
    fn next_frame(&self) -> Option<Instant> {
        let until = self.now.saturating_add(HELD);
        let next = |cable: &Cable| {
            let free_at = cable.link.free_at().max(self.free_at(cable.from));
            let sends = self.waits(cable.from).then(|| free_at.max(self.now));
            let arrives = cable.link.due().filter(|due| *due <= until);
            arrives.into_iter().chain(sends).min()
        };
        self.cables.iter().filter_map(next).min()
    }

    /// When the end of a link may give the next frame.
    fn free_at(&self, from: End) -> Instant {
        match from {
            End::Card(card) => self.slots[card].free_at,
            End::Port(_) | End::Peer => 0,
        }
    }

    /// What is due now: frames arrive, timers pass, and each link that is free takes a frame.
    fn act(&mut self) {
        let now = self.now;
        // Of frames that arrive at the same time, another one is first each time.
        self.turn = (self.turn + 1) % self.cables.len();
        for at in (self.turn..self.cables.len()).chain(0..self.turn) {
            while let Some(frame) = self.cables[at].link.arrived(now) {
                self.deliver(self.cables[at].to, frame);
            }
        }
        for slot in &mut self.slots {
            if slot.deadline.is_some_and(|deadline| deadline <= now) {
                slot.card.handle_timeout(now);
                slot.touched();
            }
        }
        for at in 0..self.cables.len() {
            let from = self.cables[at].from;
            if self.cables[at].link.ready(now) && self.free_at(from) <= now && self.waits(from) {
                if let Some(frame) = self.next_of(from) {
                    self.cables[at].link.send(now, frame);
                    self.keep(at);
                }
            }
        }
    }

    fn deliver(&mut self, to: End, frame: Vec<u8>) {
        match to {
            End::Card(card) => {
                let slot = &mut self.slots[card];
                slot.card.handle_frame(self.now, &frame);
                slot.touched();
            }
            End::Port(port) => {
                if let Some(switch) = &mut self.switch {
                    switch.take(port, frame);
                }
            }
            End::Peer => {
                if let Some(peer) = &mut self.peer {
                    peer.take(self.now, frame);
                }
            }
        }
    }

    /// The next frame of an end.
    fn next_of(&mut self, from: End) -> Option<Vec<u8>> {
        match from {
            End::Card(card) => {
                let slot = &mut self.slots[card];
                let done = slot.card.transmit_one(self.now);
                slot.busy = done != Transmitted::Nothing;
                slot.deadline = slot.card.poll_timeout();
                match done {
                    Transmitted::Frame(frame) => Some(frame),
                    Transmitted::Looped(bytes) => {
                        let time = wire_bytes(bytes as u64) as f64 / BYTES_PER_NS;
                        slot.free_at = self.now + time.ceil() as Instant;
                        None
                    }
                    Transmitted::Nothing => None,
                }
            }
            End::Port(port) => self.switch.as_mut()?.give(port),
            End::Peer => self.peer.as_mut()?.give(self.now),
        }
    }

    /// Writes what a link has kept.
    fn keep(&mut self, at: usize) {
        let step = self.step();
        let Some(capture) = &mut self.capture else { return };
        for frame in self.cables[at].link.take_frames() {
            if let Err(error) = capture.write((at / step) as u32, &frame) {
                self.capture_failed.get_or_insert(error.to_string());
            }
        }
        if self.capture_failed.is_some() {
            self.end_capture();
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::csr::{identity, port, traffic};

    use super::*;

    fn broadcast(from: u8) -> Vec<u8> {
        let header = [&[0xff; 6][..], &[2, 0, 0, 0, 0, from], &[0x08, 0x06]].concat();
        [&header[..], &[0; 46]].concat()
    }

    fn received(fabric: &mut Fabric, card: usize) -> u64 {
        let address = ferrowire_spec::csr::TrafficCounter::RxFrames.address();
        assert!(address >= traffic::BLOCK.base);
        fabric.access(card, CsrAccess { address, write: false, wide: true, data: 0 }).unwrap()
    }

    #[test]
    fn registers_are_read_and_written_in_either_width() {
        let mut fabric = Fabric::pair();
        let access = |address, write, wide, data| CsrAccess { address, write, wide, data };
        let at = port::BLOCK.address(&port::MAC_LO);
        assert_eq!(at % 8, 0);
        assert_eq!(fabric.access(1, access(at, false, true, 0)), Ok(FIRST_MAC + 1));
        fabric.access(1, access(at, true, false, 0x77)).unwrap();
        assert_eq!(fabric.access(1, access(at, false, false, 0)), Ok(0x77));
        assert_eq!(fabric.access(0, access(at, false, false, 0)), Ok(1));
        fabric.power_on(1);
        assert_eq!(fabric.access(1, access(at, false, true, 0)), Ok(FIRST_MAC + 1));
        assert_eq!(fabric.access(0, access(0, false, false, 0)), Ok(u64::from(identity::MAGIC_VALUE)));
        for (address, wide) in [(2, false), (4, true), (1 << 24, false), (1 << 24, true)] {
            for write in [false, true] {
                assert!(fabric.access(0, access(address, write, wide, 0)).is_err(), "{address:#x}");
            }
        }
    }

    #[test]
    fn a_frame_crosses_cables_and_the_switch_in_the_time_that_these_take() {
        let mut fabric = Fabric::switched(4, 8);
        fabric.cables[0].link.send(0, broadcast(9));
        assert!(!fabric.is_idle());
        assert!(fabric.run(100), "no time is granted, and frames arrive");
        // Each link holds it for its latency and the cycle in which it comes whole.
        assert_eq!(fabric.now(), 2 * (CABLE + 1));
        assert!(fabric.is_idle());
        assert_eq!([0, 1, 2, 3].map(|card| received(&mut fabric, card)), [0, 1, 1, 1]);
        // Without frames time goes as far as it may.
        fabric.advance(5_000_000);
        assert!(fabric.run(1));
        assert_eq!((fabric.now(), fabric.deadline()), (5_000_000, None));
    }

    #[test]
    fn a_queue_of_the_switch_is_as_deep_as_it_says() {
        let mut fabric = Fabric::switched(3, 4);
        // Two ports send at the rate that the third one has.
        for nth in 0..64 {
            for at in [0, 2] {
                fabric.cables[at].link.inject(100 * nth, [&broadcast(at as u8)[..], &[0; 1000]].concat());
            }
        }
        assert!(fabric.run(10_000), "it comes to an end");
        let counts = fabric.switch().unwrap().counts(2);
        assert_eq!(counts.sent + counts.lost, 128);
        assert!(counts.lost > 0 && received(&mut fabric, 2) == counts.sent, "{counts:?}");
        assert!(fabric.switch().unwrap().losses().unwrap().contains("at port 2"));
    }

    #[test]
    fn a_queue_of_the_switch_takes_as_many_frames_at_once_as_it_is_deep_and_no_more() {
        for (frames, lost) in [(4, 0), (5, 1), (9, 5)] {
            let mut fabric = Fabric::switched(3, 4);
            // All at the same time, for both other ports.
            (0..frames).for_each(|_| fabric.cables[0].link.inject(100, broadcast(1)));
            assert!(fabric.run(1000), "it comes to an end");
            assert_eq!((received(&mut fabric, 1), received(&mut fabric, 2)), (frames - lost, frames - lost));
            let switch = fabric.switch().unwrap();
            assert_eq!((switch.counts(1).lost, switch.counts(2).lost, switch.lost()), (lost, lost, 2 * lost));
        }
    }

    #[test]
    fn a_peer_that_is_no_card_gets_frames_and_gives_them() {
        use crate::socket::line::Plug;
        let plug = Plug::default();
        let mut fabric = Fabric::single(Some(Box::new(plug.clone())));
        fabric.cables[0].link.send(0, broadcast(1));
        assert!(fabric.run(100));
        struct Far(Vec<Vec<u8>>, Vec<Vec<u8>>);
        impl crate::socket::line::Line for Far {
            fn file(&self) -> Option<(std::os::fd::BorrowedFd<'_>, rustix::event::PollFlags)> {
                None
            }
            fn receive(&mut self) -> Option<Vec<u8>> {
                self.0.pop()
            }
            fn send(&mut self, frame: &[u8]) {
                self.1.push(frame.to_vec());
            }
        }
        let mut far = Far(vec![broadcast(7), broadcast(8)], Vec::new());
        assert!(plug.exchange(&mut far));
        assert_eq!(far.1, [broadcast(1)]);
        assert!(!fabric.is_idle(), "frames wait for the card");
        assert!(fabric.run(100));
        assert_eq!(received(&mut fabric, 0), 2);
        // What a card without a peer sends is lost.
        let mut alone = Fabric::single(None);
        alone.cables[0].link.send(0, broadcast(1));
        assert!(alone.run(100) && alone.is_idle());
    }

    #[test]
    fn a_frame_that_is_held_back_does_not_make_the_clock_jump() {
        const MS: Instant = 1_000_000;
        let mut fabric = Fabric::pair();
        fabric.cables[0].link.inject(50 * MS, broadcast(9));
        fabric.cables[1].link.send(0, broadcast(8));
        assert!(fabric.run(100) && fabric.is_idle(), "the other frame alone is under way");
        assert!(fabric.now() < 2 * HELD, "{}", fabric.now());
        assert_eq!((received(&mut fabric, 0), received(&mut fabric, 1)), (1, 0));
        assert_eq!(fabric.deadline(), Some(50 * MS));
        fabric.advance(30 * MS);
        assert!(fabric.run(100));
        assert_eq!((fabric.now(), received(&mut fabric, 1)), (30 * MS, 0));
        fabric.advance(70 * MS);
        assert_eq!(fabric.now(), 50 * MS, "time passes to the next deadline and no further");
        assert!(fabric.run(100));
        assert_eq!((received(&mut fabric, 1), fabric.deadline()), (1, None));
    }
}
