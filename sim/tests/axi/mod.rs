// SPDX-License-Identifier: MIT OR Apache-2.0
//! The whole card on AXI4, before subordinates of every temper: `ferrowire_sim::axi`.
//!
//! Each test prints its seeds; `FERROWIRE_SEED` replaces them, and then it is the only one.

mod faults;
mod interrupts;
mod order;
mod registers;
mod setup;
