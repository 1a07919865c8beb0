// SPDX-License-Identifier: MIT OR Apache-2.0
//! To the wire: choose, build, seal.
pub mod icrc;
