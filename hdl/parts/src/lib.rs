// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the pipeline, the MAC and the serial bridge share: [`Beat`], a clock cycle's worth of a frame, and [`crc`], Ethernet's CRC-32 as
//! linear algebra over bits.
#![forbid(unsafe_code)]

mod beat;
pub mod crc;

pub use beat::Beat;
