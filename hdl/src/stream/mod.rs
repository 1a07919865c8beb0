// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building blocks for streams: what every stage is joined with.

mod beat;
mod fifo;
mod skid;

pub use beat::Beat;
pub use fifo::{deep_fifo, fifo};
pub use skid::skid;
