// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's protocols between threads, compiled with the atomics, locks and threads of loom, which plays every order in which these can see each
//! other's accesses. `cargo xtask loom` runs the models; without `--cfg loom` there is nothing here.
//!
//! The modules are the driver's own files, so a model cannot differ from what it is a model of.
#![cfg(all(test, loom))]
#![forbid(unsafe_code)]
#![allow(dead_code)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;

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
