// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the wire: parse, check, keep, hand on.

#[cfg(test)]
mod frames;
pub mod parse;
pub mod icrc;
