// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responder: checks, then effects, then the answer.

mod admit;
mod check;
mod place;
mod receive;

pub use admit::{admit, Admitted, Class, Counts, Pending};
pub use check::{check, Checked};
pub use place::{place, Place, Placed};
pub use receive::{receive, Received, Receives, RqDoorbell, Wanted};

#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod tests;
