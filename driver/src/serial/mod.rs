// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way to a card on a board without PCIe, over a serial line: see the page "The serial line" of the book.
//!
//! [`Link`] is the protocol without a line; [`frame`] its bytes.

pub mod frame;
mod link;

pub use link::{Answer, Hello, Link, LinkError};
