// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards that `ferrowire-sim` serves on sockets, and their clients: good ones, those that die, and bad ones.

mod engine;
mod hostile;
mod lives;
mod pcie;
mod raw;
pub mod rig;
mod service;
mod switch;
mod wires;
mod work;
