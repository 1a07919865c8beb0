// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA WRITE over wires that lose, repeat, reorder, delay and change frames: whatever is lost comes, once and in order, or the
//! queue pair ends with the cause. Two Verilated cards, each with its driver; `FERROWIRE_SEED` replaces the seed of random tests.

mod ends;
mod lives;
mod naks;
mod once;
mod random;
mod rig;
mod waiting;
