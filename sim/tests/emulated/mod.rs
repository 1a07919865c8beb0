// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emulated cards: what only they have, and what they must have in common with Verilated ones. The driver's programs of `messages`, `write`, `reads`,
//! `srq`, `windows`, `events` and others run over both kinds where they stand.

mod commands;
mod hostile;
pub mod random;
mod speed;
mod world;
