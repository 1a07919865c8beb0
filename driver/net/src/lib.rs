// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stack.
#![forbid(unsafe_code)]

pub mod cm;
pub mod mad;
