// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Ferrowire RNIC pipeline, described in `ferrowire-rtl`. Folders are the pipeline's parts, files its blocks.
#![forbid(unsafe_code)]

pub mod config;
pub mod fields;
pub mod stream;
pub mod types;
pub mod rx;
pub mod tx;
#[cfg(test)]
pub mod testing;
