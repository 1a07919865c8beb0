// SPDX-License-Identifier: MIT OR Apache-2.0
//! All integration tests of this crate, a module each; one program, so that it links once.

mod common;
mod data_path;
mod events;
mod features;
mod messages;
mod no_alloc;
mod push;
mod serial;
mod verbs;
mod vfio;
