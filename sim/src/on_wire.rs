// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`OnWire`]: a station of the reference engine's at an end of a wire of [`World`](crate::bus::World), beside cards or in their place.
//!
//! The station counts nanoseconds, and its time-outs may have the standard's unit of 4.096 us; the wire counts cycles. So the station's clock is the wire's,
//! stretched until so many cycles as are said make 4.096 us.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bus::Peer;
use crate::model::network::Station;

/// Nanoseconds of the unit of time-outs (IBTA 9.7.6.1.3).
pub const TICK_NS: u64 = 4096;

/// A station, and what its end of the wire needs.
pub struct Core<S> {
    /// The station. Whoever does something to it says so: [`Core::touched`].
    pub station: S,
    tick: u64,
    /// It may have something to send.
    busy: bool,
    /// Its next deadline, in nanoseconds.
    deadline: Option<u64>,
    /// When its wire moved last, in nanoseconds.
    now: u64,
}

impl<S: Station> Core<S> {
    /// The time of a cycle, which the wire has reached.
    fn reach(&mut self, cycle: u64) -> u64 {
        self.now = cycle * TICK_NS / self.tick;
        self.now
    }

    /// The station's time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Something was done to the station, which may have something to send now.
    pub fn touched(&mut self) {
        self.busy = true;
        self.deadline = self.station.poll_timeout();
    }
}

/// A station that a wire and a program share.
pub struct OnWire<S>(Arc<Mutex<Core<S>>>);

impl<S> Clone for OnWire<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> OnWire<S> {
    /// A station for whom so many cycles make 4.096 us.
    pub fn new(station: S, tick: u64) -> Self {
        Self(Arc::new(Mutex::new(Core { station, tick, busy: false, deadline: None, now: 0 })))
    }

    /// The station, while nothing happens on its wire.
    pub fn lock(&self) -> MutexGuard<'_, Core<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Station + Send> Peer for OnWire<S> {
    fn take(&mut self, cycle: u64, frame: Vec<u8>) {
        let mut core = self.lock();
        let now = core.reach(cycle);
        core.station.handle_frame(now, &frame);
        core.touched();
    }

    fn give(&mut self, cycle: u64) -> Option<Vec<u8>> {
        let mut core = self.lock();
        let now = core.reach(cycle);
        if core.deadline.is_some_and(|deadline| deadline <= now) {
            core.station.handle_timeout(now);
            core.touched();
        }
        if !core.busy {
            return None;
        }
        let frame = core.station.poll_transmit(now);
        core.busy = frame.is_some();
        core.deadline = core.station.poll_timeout();
        frame
    }
}
