// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Ferrowire RNIC pipeline, described in `ferrowire-rtl`. Folders are the pipeline's parts, files its blocks.
#![forbid(unsafe_code)]

#[cfg(test)]
use ferrowire_testing as testing;

pub mod choice;
pub mod completer;
pub mod config;
pub mod context;
pub mod engine;
#[cfg(test)]
mod engines_test;
pub mod fields;
pub mod host;
pub mod icrc;
pub mod loopback;
pub mod memory;
pub mod neighbour;
mod path;
pub mod proof;
pub mod requester;
pub mod responder;
pub mod rx;
pub mod stream;
pub mod top;
pub mod transport;
pub mod tx;
pub mod types;
