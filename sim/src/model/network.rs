// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network of engines with a clock of its own: frames take time, and what happens to them on the way is seeded.
//!
//! ```text
//!  Engine -- one frame at a time, at the wire's pace --> faults --> delay --> Engine with that MAC address
//! ```

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

/// Engines and what is between them.
#[derive(Debug)]
pub struct Network {
    /// The engines.
    pub engines: Vec<Engine>,
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

impl Network {
    /// Engines on a wire.
    pub fn new(engines: Vec<Engine>, faults: Faults, seed: u64) -> Self {
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
        let next = [
            self.way.first_key_value().map(|((when, _), _)| *when),
            self.free.iter().copied().filter(|free| *free > self.now).min(),
            self.engines.iter().filter_map(Engine::poll_timeout).min(),
        ];
        match next.into_iter().flatten().min() {
            Some(next) => {
                self.now = self.now.max(next);
                true
            }
            None => busy,
        }
    }

    /// Lets everything happen; whether it came to an end before that many steps.
    pub fn run(&mut self, steps: usize) -> bool {
        (0..steps).any(|_| !self.step())
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
        let Some(to) = self.engines.iter().position(|engine| engine.config().mac == mac) else { return };
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
            self.deliver(late, to, frame.clone());
        }
        let mut held = 0;
        if reliable && self.happens(faults.reorder) {
            self.counts.reordered += 1;
            held = self.rng.random_range(0..=faults.hold);
        }
        self.deliver(arrives + held, to, frame);
    }

    /// What is no RoCE packet is everyone's to look at, and what a wire spoils of it falls to the frame check sequence.
    fn send_raw(&mut self, from: usize, frame: Vec<u8>) {
        if self.happens(self.faults.drop + self.faults.corrupt) {
            self.counts.dropped += 1;
            return;
        }
        let arrives = self.now + self.faults.delay;
        for to in (0..self.engines.len()).filter(|to| *to != from) {
            self.deliver(arrives, to, frame.clone());
        }
    }

    fn deliver(&mut self, when: Instant, to: usize, frame: Vec<u8>) {
        self.order += 1;
        self.way.insert((when, self.order), (to, frame));
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
