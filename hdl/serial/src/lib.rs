// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an open board has around the card instead of a PC: a serial line to one, and memory.
//!
//! ```text
//!  rx --> uart --> slip --> frame --+                +--> m_axil: registers and doorbells of the card
//!                                   +--> bridge -----+
//!  tx <-- uart <-- slip <-- send <--+                +--> AXI4 --+
//!                                                                +--> interconnect --> memory
//!  the card's m_axi -------------------------------------------->+
//! ```
//!
//! The protocol is on the page "The serial line" of the book. [`board`] joins the parts; each of them is a file with its schematic.
//!
//! **One clock**: the UART counts it. **Reset** forgets frames and sessions; memory keeps what is in it.
#![forbid(unsafe_code)]

pub mod axi;
pub mod board;
pub mod bridge;

mod config;
pub mod dirty;
pub mod frame;
pub mod interconnect;
pub mod line;
pub mod manager;
pub mod memory;

pub mod send;
pub mod slip;
#[cfg(test)]
mod tests;
pub mod uart;

pub use config::{ConfigError, SerialConfig};
pub use ferrowire_spec::serial as protocol;
