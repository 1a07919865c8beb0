// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter between a core and a model of the block's user interface, with two clocks.

mod bench;
mod link;
mod receive;
mod transmit;
