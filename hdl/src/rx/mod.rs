// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the wire: parse, check, keep, hand on.

pub mod address;
pub mod buffer;
pub mod dispatch;
pub mod door;
#[cfg(test)]
pub(crate) mod frames;
pub mod grh;
pub mod icrc;
pub mod keep;
pub mod parse;
pub mod peer;
pub mod report;
