// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's protocols between threads, compiled with the atomics, locks and threads of loom. `cargo xtask loom` runs the models;
//! without `--cfg loom` there is nothing here.
//!
//! The modules are the driver's own files: a model cannot differ from what it is a model of. Three things are not in a model. The memory that the
//! card writes is an array of atomics here. A mutex protects commands, and another one page lists; neither has a protocol of its own. Loom itself
//! plays every order of steps, but not every value that an access weaker than sequentially consistent may see: a load may not see a store
//! that comes after it (load buffering).
#![cfg(all(test, loom))]
#![deny(unsafe_code)]
#![allow(dead_code)]

mod sync {
    pub(crate) use loom::sync::atomic::{fence, AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;

    /// As of `driver/src/sync.rs`: here loom looks whether an access is ordered against all writes.
    pub(crate) struct Plain(loom::cell::UnsafeCell<u64>);

    #[allow(unsafe_code)]
    impl Plain {
        pub(crate) fn new(value: u64) -> Self {
            Self(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn get(&self) -> u64 {
            // SAFETY: loom ends the test if another thread may write meanwhile.
            self.0.with(|value| unsafe { *value })
        }

        pub(crate) fn set(&self, value: u64) {
            // SAFETY: loom ends the test if another thread may access it meanwhile.
            self.0.with_mut(|place| unsafe { *place = value });
        }
    }

    /// As of `driver/src/sys/wrapping.rs`, but for the check of the index.
    pub(crate) struct Wrapping<T>(Box<[T]>);

    impl<T> Wrapping<T> {
        pub(crate) fn new(log2: u8, value: impl FnMut(usize) -> T) -> Self {
            Self((0..1 << log2).map(value).collect())
        }

        pub(crate) fn at(&self, index: u16) -> &T {
            &self.0[usize::from(index) & (self.0.len() - 1)]
        }
    }
}

#[path = "../../src/attach.rs"]
mod attach;
#[path = "../../src/tracker.rs"]
mod tracker;

mod models;
