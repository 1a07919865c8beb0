// SPDX-License-Identifier: MIT OR Apache-2.0
//! All integration tests of this crate, a module each; one program, so that it links once.

mod common;
mod frames;
mod golden;
mod host_interface;
mod properties;
mod qp_states;
mod tables;
