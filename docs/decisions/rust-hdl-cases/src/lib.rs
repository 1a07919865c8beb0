// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions that rust-hdl 0.46 turns into Verilog of another meaning.
//!
//! The evidence of decision 0001 (`docs/decisions/0001-own-rtl-builder.md`). Everything is in
//! `tests/miscompilations.rs`, so that rust-hdl is compiled only under test:
//!
//! ```text
//! cargo test -p rust-hdl-cases -- --nocapture
//! ```
#![forbid(unsafe_code)]
