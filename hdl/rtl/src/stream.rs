// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Stream`]: valid, ready and a payload.
//!
//! A beat passes in each cycle in which valid and ready are both high. Valid never depends on ready; once valid is
//! high, it stays and the payload with it until the beat has passed.

use crate::bundle::{Bundle, Crossing, Interface};
use crate::scope::{drive_at, Scope};
use crate::sig::Sig;
use std::ops::Deref;
use std::panic::Location;

/// The consumer's end of a stream. Whoever takes it drives `ready`, exactly once.
#[derive(Clone)]
pub struct Stream<T: Bundle> {
    /// A beat is on offer.
    pub valid: Sig,
    /// The consumer's to drive: the beat is taken.
    pub ready: Sig,
    /// The beat.
    pub payload: T,
}

impl<T: Bundle> Deref for Stream<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

impl<T: Bundle> Stream<T> {
    /// A stream from its producer's signals; the result's `ready` can be read by the producer.
    #[track_caller]
    pub fn new(m: &Scope, name: &str, valid: Sig, payload: T) -> Self {
        let ready = m.wire_weak(&crate::join(name, "ready"), 1);
        let payload = payload.named_as(name);
        let valid = valid.named_as(&crate::join(name, "valid"));
        Stream { valid, ready, payload }
    }

    /// The beat passes in this cycle.
    #[track_caller]
    pub fn fire(&self) -> Sig {
        self.valid & self.ready
    }

    /// Drives `ready`.
    #[track_caller]
    pub fn accept(&self, ready: impl crate::Operand) {
        let loc = Location::caller();
        drive_at(self.ready, ready.operand(1, loc), loc);
    }

    /// The same beats with another payload.
    pub fn map<U: Bundle>(self, f: impl FnOnce(&T) -> U) -> Stream<U> {
        Stream { valid: self.valid, ready: self.ready, payload: f(&self.payload) }
    }

    /// Lets beats pass only while `open` holds; it may depend on the payload.
    #[track_caller]
    pub fn gate(self, m: &Scope, open: Sig) -> Stream<T> {
        let out = Stream::new(m, "gated", self.valid & open, self.payload.clone());
        self.accept(out.ready & open);
        out
    }

    /// Takes and forgets the beats for which `drop` holds.
    #[track_caller]
    pub fn discard_if(self, m: &Scope, drop: Sig) -> Stream<T> {
        let out = Stream::new(m, "kept", self.valid & !drop, self.payload.clone());
        self.accept(out.ready | drop);
        out
    }
}

impl<T: Bundle + Interface> Interface for Stream<T> {
    fn cross(self, crossing: &mut Crossing, path: &str) -> Self {
        let valid = crossing.forward(&crate::join(path, "valid"), self.valid);
        let ready = crossing.backward(&crate::join(path, "ready"), self.ready);
        let payload = self.payload.cross(crossing, path);
        Stream { valid, ready, payload }
    }
}

/// The producer's end of a stream that was declared before it is connected: feedback.
#[must_use = "a declared stream must be connected"]
pub struct Later<T: Bundle> {
    pub(crate) valid: Sig,
    pub(crate) ready: Sig,
    pub(crate) payload: T,
}

impl<T: Bundle> Later<T> {
    /// Connects the source.
    #[track_caller]
    pub fn connect(self, source: Stream<T>) {
        let loc = Location::caller();
        drive_at(self.valid, source.valid, loc);
        drive_at(source.ready, self.ready, loc);
        crate::bundle::zip(&self.payload, &source.payload, loc, |wire, value| {
            drive_at(wire, value, loc);
            wire
        });
    }
}
