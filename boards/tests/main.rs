// SPDX-License-Identifier: MIT OR Apache-2.0
//! All integration tests of this crate, a module each; one program, so that it links once.

mod alveo;
mod boards;
mod facts;
mod facts_ecp5;
