// SPDX-License-Identifier: MIT OR Apache-2.0
//! Services on a wire in memory, with a clock that the test moves.

mod channels;
mod connections;
mod datagrams;
mod ends;
mod failures;
mod golden;
mod owners;
mod ports;
mod rig;
mod selective;
