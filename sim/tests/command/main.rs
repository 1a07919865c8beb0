// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` against the cards of `ferrowire-sim`: each run is a process of its own.

mod kills;
mod looks;
mod rig;
mod runs;
#[allow(dead_code)]
#[path = "../socket/rig.rs"]
mod socket;
