// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to a card on a board without PCIe, over a serial line: see the page "The serial line" of the book.
//!
//! ```text
//!  driver --- SerialBus --- Link --- Line --- the board's bridge --- registers
//!                 |                                        |
//!               Copies of the board's memory               +--- memory --- DMA of the card
//! ```
//!
//! [`Link`] is the protocol without a line; [`frame`] its bytes; [`SerialBus`] the driver's way.

mod bus;
mod copies;
mod error;
pub mod frame;
mod line;
mod link;

pub use bus::{Patience, SerialBus, BAUD};
pub use error::SerialError;
pub use line::{Line, Stream, Tty};
pub use link::{Answer, Hello, Link, LinkError};
