// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference engine against captured conversations of Linux machines, and against itself over bad networks.

mod golden;
mod program;
mod soak;
mod world;
