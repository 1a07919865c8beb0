// SPDX-License-Identifier: MIT OR Apache-2.0
//! Congestion: notifications for marked packets (IBTA A17.9.3), and the reaction to them.
//!
//! The reaction is DCQCN (Zhu et al., SIGCOMM 2015), with the parameters of that paper. It is off unless
//! [`Config::line_rate`](super::Config) is given. A queue pair that has been told of congestion sends its requests and READ
//! responses at a rate; acknowledgements are not slowed down. Numbers are integers, so that all runs are alike.

use ferrowire_spec::csr::HwCounter;
use ferrowire_spec::wire::{Bth, Cnp, Extensions, Opcode};

use super::engine::Node;
use super::packet;
use super::qp::Qp;
use super::types::Instant;

/// Time between two decays of alpha, and between two increases of the rate, in nanoseconds.
const PERIOD: Instant = 55_000;
/// Bytes between two increases of the rate.
const BYTES: u64 = 10_000_000;
/// Increases that only recover what was lost.
const FAST: u32 = 5;
/// Steps of the additive and the hyper increase, and the least rate, in bytes a second: 40, 400 and 10 Mb/s.
const ADDITIVE: u64 = 5_000_000;
const HYPER: u64 = 50_000_000;
const LEAST: u64 = 1_250_000;
/// Alpha is a fraction of 2^16, and moves by 1/256 of the way.
const ONE: u64 = 1 << 16;
const GAIN: u64 = 256;
/// Periods without a notification after which there is no limit any more.
const FORGET: u64 = 1000;
const SECOND: u64 = 1_000_000_000;

/// The pace of a queue pair that has been told of congestion.
#[derive(Debug)]
pub(super) struct Pace {
    line: u64,
    /// Bytes a second, now and to be recovered.
    rate: u64,
    target: u64,
    alpha: u64,
    /// When alpha decays and the rate rises next.
    tick: Instant,
    bytes: u64,
    by_time: u32,
    by_bytes: u32,
    /// Nothing is sent before.
    free: Instant,
}

impl Pace {
    fn new(line: u64) -> Self {
        let (rate, target) = (line, line);
        Self { line, rate, target, alpha: ONE, tick: 0, bytes: 0, by_time: 0, by_bytes: 0, free: 0 }
    }

    fn notified(&mut self, now: Instant) {
        self.target = self.rate;
        self.rate = (self.rate - self.rate * self.alpha / (2 * ONE)).max(LEAST);
        self.alpha += (ONE - self.alpha) / GAIN;
        (self.bytes, self.by_time, self.by_bytes) = (0, 0, 0);
        self.tick = now.saturating_add(PERIOD);
    }

    fn increase(&mut self) {
        let (least, most) = (self.by_time.min(self.by_bytes), self.by_time.max(self.by_bytes));
        if least > FAST {
            self.target += HYPER;
        } else if most > FAST {
            self.target += ADDITIVE;
        }
        self.target = self.target.min(self.line);
        self.rate = (self.rate + self.target).div_ceil(2);
    }

    /// Lets time pass; whether there is still a limit.
    fn advance(&mut self, now: Instant) -> bool {
        if now.saturating_sub(self.tick) / PERIOD > FORGET {
            return false;
        }
        while self.tick <= now {
            self.tick += PERIOD;
            self.alpha -= self.alpha / GAIN;
            self.by_time += 1;
            self.increase();
        }
        self.rate < self.line
    }

    fn sent(&mut self, now: Instant, bytes: u64) {
        self.free = now.max(self.free).saturating_add((bytes * SECOND).div_ceil(self.rate));
        self.bytes += bytes;
        if self.bytes >= BYTES {
            self.bytes -= BYTES;
            self.by_bytes += 1;
            self.increase();
        }
    }
}

impl Qp {
    /// A notification for the peer, when the last one is long enough ago (IBTA A17.9.3).
    pub(super) fn congested(&mut self, node: &Node, now: Instant) -> Option<Vec<u8>> {
        let av = self.av?;
        if self.last_cnp.is_some_and(|last| now < last.saturating_add(node.config.cnp_interval)) {
            return None;
        }
        self.last_cnp = Some(now);
        let bth = Bth {
            opcode: Opcode::Cnp as u8,
            becn: true,
            pkey: self.pkey,
            destqp: self.dest_qpn,
            ..Bth::default()
        };
        let ext = Extensions { cnp: Some(Cnp::default()), ..Extensions::default() };
        Some(packet::build(&node.config, &av, self.sport, bth, ext, &[]))
    }

    /// A notification of the peer.
    pub(super) fn notified(&mut self, node: &mut Node, now: Instant) {
        self.cnps += 1;
        let line = node.config.line_rate;
        node.counters.count(if line.is_some() { HwCounter::RpCnpHandled } else { HwCounter::RpCnpIgnored });
        if let Some(line) = line {
            self.pace.get_or_insert_with(|| Pace::new((line / 8).max(LEAST))).notified(now);
        }
    }

    /// Whether the next packet with data must wait.
    pub(super) fn must_wait(&mut self, now: Instant) -> bool {
        if !self.pace.as_mut().is_some_and(|pace| pace.advance(now)) {
            self.pace = None;
        }
        self.paced_until(now).is_some()
    }

    /// When it need not wait any more.
    pub(super) fn paced_until(&self, now: Instant) -> Option<Instant> {
        self.pace.as_ref().map(|pace| pace.free).filter(|free| *free > now)
    }

    /// A packet was sent.
    pub(super) fn took(&mut self, now: Instant, bytes: usize) {
        if let Some(pace) = &mut self.pace {
            pace.sent(now, bytes as u64);
        }
    }

    /// Bytes a second, when there is a limit.
    pub(super) fn rate(&self) -> Option<u64> {
        self.pace.as_ref().map(|pace| pace.rate)
    }
}
