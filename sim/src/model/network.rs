// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network of stations with a clock of its own: frames take time, and what happens to them on the way is seeded.
//!
//! ```text
//!  Station -- one frame at a time, at the wire's pace --> faults --> delay --> Station with that MAC address
//! ```
//!
//! A packet to an address that no station has goes to all others, as a switch sends what it does not know.

use std::collections::BTreeMap;

use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{checksum, eth, ipv4, Frame, Ip};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::engine::Engine;
use super::types::Instant;

/// What happens to frames on the way; shares are of 1000 frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Lost.
    pub drop: u32,
    /// Delivered twice. Only reliable connections get that: order is a promise that the others rely on.
    pub duplicate: u32,
    /// Held back so that others overtake it. Only reliable connections get that.
    pub reorder: u32,
    /// One to three bits turned.
    pub corrupt: u32,
    /// Marked as having met congestion, when its sender understands marks; IPv4.
    pub mark: u32,
    /// Least time on the way, in nanoseconds.
    pub delay: Instant,
    /// Most time that a frame may be held back, in nanoseconds.
    pub hold: Instant,
}

impl Faults {
    /// A wire of one microsecond that loses nothing.
    pub fn none() -> Self {
        Self { delay: 1000, ..Self::default() }
    }
}

/// What happened to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sent by engines.
    pub sent: u64,
    /// Lost.
    pub dropped: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Changed.
    pub corrupted: u64,
    /// Marked.
    pub marked: u64,
}

/// What a network joins: an engine, or what has one inside.
pub trait Station {
    /// Its MAC address, a 48-bit number.
    fn mac(&self) -> u64;

    /// Takes a frame.
    fn handle_frame(&mut self, now: Instant, bytes: &[u8]);

    /// The next frame to send.
    fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>>;

    /// The next deadline.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Lets the deadlines pass that are due.
    fn handle_timeout(&mut self, now: Instant);
}

impl Station for Engine {
    fn mac(&self) -> u64 {
        self.config().mac
    }

    fn handle_frame(&mut self, now: Instant, bytes: &[u8]) {
        Engine::handle_frame(self, now, bytes);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        Engine::poll_transmit(self, now)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Engine::poll_timeout(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Engine::handle_timeout(self, now);
    }
}

/// Stations and what is between them.
#[derive(Debug)]
pub struct Network<S = Engine> {
    /// The stations.
    pub engines: Vec<S>,
    /// What happens on the way; may be changed at any time.
    pub faults: Faults,
    /// What happened.
    pub counts: Counts,
    now: Instant,
    /// When each engine's wire is free again.
    free: Vec<Instant>,
    /// Frames on the way by time and order, and which engine gets each.
    way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    order: u64,
    rng: SmallRng,
    /// The last frames sent, with their time and sender, for whoever looks into a failure.
    trace: Vec<(Instant, usize, Vec<u8>)>,
    keep: bool,
}

/// Picoseconds a byte takes: a wire of 100 Gb/s.
const BYTE_PS: u64 = 80;

impl<S: Station> Network<S> {
    /// Stations on a wire.
    pub fn new(engines: Vec<S>, faults: Faults, seed: u64) -> Self {
        Self {
            free: vec![0; engines.len()],
            engines,
            faults,
            counts: Counts::default(),
            now: 0,
            way: BTreeMap::new(),
            order: 0,
            rng: SmallRng::seed_from_u64(seed),
            trace: Vec::new(),
            keep: false,
        }
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Keeps what is sent from now on, for [`Network::sent`].
    pub fn keep_frames(&mut self) {
        self.keep = true;
    }

    /// Frames kept: when, by which engine, what. Before faults.
    pub fn sent(&self) -> &[(Instant, usize, Vec<u8>)] {
        &self.trace
    }

    /// Lets happen what comes next, at one moment; `false` when nothing ever will.
    pub fn step(&mut self) -> bool {
        let busy = self.act();
        match self.next() {
            Some(next) => {
                self.idle_until(next);
                true
            }
            None => busy,
        }
    }

    /// What is due at this moment; whether there was anything.
    fn act(&mut self) -> bool {
        let mut busy = false;
        while let Some(entry) = self.way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, frame) = entry.remove();
            self.engines[to].handle_frame(self.now, &frame);
            busy = true;
        }
        for at in 0..self.engines.len() {
            if self.engines[at].poll_timeout().is_some_and(|deadline| deadline <= self.now) {
                self.engines[at].handle_timeout(self.now);
                busy = true;
            }
            if self.free[at] <= self.now {
                if let Some(frame) = self.engines[at].poll_transmit(self.now) {
                    let bytes = (frame.len() as u64 + 24).max(84);
                    self.free[at] = self.now + (bytes * BYTE_PS).div_ceil(1000);
                    self.send(at, frame);
                    busy = true;
                }
            }
        }
        busy
    }

    /// Lets everything happen; whether it came to an end before that many steps.
    pub fn run(&mut self, steps: usize) -> bool {
        (0..steps).any(|_| !self.step())
    }

    /// Lets everything happen up to a moment, and time pass until then.
    pub fn run_until(&mut self, end: Instant) {
        self.act();
        while let Some(next) = self.next().filter(|next| *next <= end) {
            self.idle_until(next);
            self.act();
        }
        self.idle_until(end);
    }

    fn happens(&mut self, share: u32) -> bool {
        share > 0 && self.rng.random_range(0..1000) < share
    }

    fn send(&mut self, from: usize, mut frame: Vec<u8>) {
        self.counts.sent += 1;
        if self.keep {
            self.trace.push((self.now, from, frame.clone()));
        }
        let Ok(parsed) = Frame::parse(&frame) else { return self.send_raw(from, frame) };
        let mac = parsed.eth.dst;
        let reliable = parsed.opcode().is_ok_and(|opcode| opcode.service() == Service::Rc);
        let known = self.engines.iter().position(|engine| engine.mac() == mac);
        let faults = self.faults;
        if self.happens(faults.drop) {
            self.counts.dropped += 1;
            return;
        }
        if self.happens(faults.mark) && mark(&mut frame) {
            self.counts.marked += 1;
        }
        if self.happens(faults.corrupt) {
            self.counts.corrupted += 1;
            // Behind the Ethernet header, which the FCS of a real wire covers and nothing else does.
            for _ in 0..self.rng.random_range(1..=3) {
                let at = self.rng.random_range(eth::BYTES..frame.len());
                frame[at] ^= 1 << self.rng.random_range(0..8);
            }
        }
        let arrives = self.now + faults.delay;
        if reliable && self.happens(faults.duplicate) {
            self.counts.duplicated += 1;
            let late = arrives + self.rng.random_range(0..=faults.hold);
            self.hand_on(late, from, known, &frame);
        }
        let mut held = 0;
        if reliable && self.happens(faults.reorder) {
            self.counts.reordered += 1;
            held = self.rng.random_range(0..=faults.hold);
        }
        self.hand_on(arrives + held, from, known, &frame);
    }

    /// What is no RoCE packet is everyone's to look at, and what a wire spoils of it falls to the frame check sequence.
    fn send_raw(&mut self, from: usize, frame: Vec<u8>) {
        if self.happens(self.faults.drop + self.faults.corrupt) {
            self.counts.dropped += 1;
            return;
        }
        self.hand_on(self.now + self.faults.delay, from, None, &frame);
    }

    /// To the station that is known, or to all others.
    fn hand_on(&mut self, when: Instant, from: usize, known: Option<usize>, frame: &[u8]) {
        for to in (0..self.engines.len()).filter(|to| known.map_or(*to != from, |known| *to == known)) {
            self.deliver(when, to, frame.to_vec());
        }
    }

    fn deliver(&mut self, when: Instant, to: usize, frame: Vec<u8>) {
        self.order += 1;
        self.way.insert((when, self.order), (to, frame));
    }

    /// Delivers a frame that nobody has sent, next.
    pub fn inject(&mut self, to: usize, frame: Vec<u8>) {
        self.deliver(self.now, to, frame);
    }

    /// When something happens next; `None`: never, if nobody does anything.
    pub fn next(&self) -> Option<Instant> {
        let next = [
            self.way.first_key_value().map(|((when, _), _)| *when),
            self.free.iter().copied().filter(|free| *free > self.now).min(),
            self.engines.iter().filter_map(Station::poll_timeout).min(),
        ];
        next.into_iter().flatten().min()
    }

    /// Lets time pass without anything happening. What is due before that moment happens late.
    pub fn idle_until(&mut self, when: Instant) {
        self.now = self.now.max(when);
    }
}

/// Sets the congestion mark of an IPv4 packet whose sender understands marks (RFC 3168).
fn mark(frame: &mut [u8]) -> bool {
    let Ok(parsed) = Frame::parse(frame) else { return false };
    let Ip::V4(header) = parsed.ip else { return false };
    let at = eth::BYTES + if parsed.vlan.is_some() { 4 } else { 0 };
    let mut header = ipv4::Ipv4 { ecn: ipv4::ECN_CE, checksum: 0, ..header };
    if matches!(parsed.ip.ecn(), 0 | ipv4::ECN_CE) {
        return false;
    }
    header.checksum = header.to_bytes().map_or(0, |bytes| checksum::ipv4(&bytes));
    header.emit(&mut frame[at..]).is_ok()
}
