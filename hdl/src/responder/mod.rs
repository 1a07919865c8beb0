// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responder: checks, then effects, then the answer.

mod check;
mod place;

pub use check::{check, Checked, Counts};
pub use place::{place, Place, Placed};
