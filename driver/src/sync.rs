// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the protocols between threads are made of. `driver/loom` compiles the modules of these protocols with the types of loom in this place.

pub(crate) use std::sync::atomic::{fence, AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use crate::sys::Wrapping;

/// A number that other accesses order: loom reports one that is read and written at the same time. It is atomic all the same, for a
/// faulty card can complete what was never posted.
pub(crate) struct Plain(AtomicU64);

impl Plain {
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
