// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire`, and an example of the driver, against the cards of `ferrowire-sim`: each run is a process of its own.

mod engine;
mod kills;
#[allow(dead_code)]
#[path = "../../../driver/examples/kv_store.rs"]
mod kv_store;
mod looks;
pub mod process;
mod rig;
mod rping;
mod runs;
mod selective;
mod stock;
