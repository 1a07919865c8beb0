// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PCIe engine alone, between a client that reads and writes host memory, a register model, and a root complex made from the standard.
//!
//! ```text
//!  Client    <-- read, data, write -->  +--------+  <-- rq, rc -->  +-------------+
//!  Registers <-- csr, csr_response -->  | engine |                  | RootComplex |
//!  interrupts ----------------------->  +--------+  <-- cq, cc -->  +-------------+
//! ```
//!
//! The tests know the engine's ports and documentation, and the standard, but not how it is made. Each prints its seed; `FERROWIRE_SEED`
//! replaces it, and then it is the only one.

mod client;
mod faults;
mod interrupts;
mod kinds;
mod order;
mod random;
mod rates;
mod registers;
mod rig;
mod run;
mod setup;
mod target;
mod timeouts;
