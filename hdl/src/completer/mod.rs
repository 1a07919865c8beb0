// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completer: what has been sent and not yet acknowledged, and how it ended.

mod track;

pub use track::{track, Tracked};
