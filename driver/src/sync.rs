// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the protocols between threads are made of. `driver/loom` compiles the modules of these protocols with the types of loom in this place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use crate::sys::Wrapping;
