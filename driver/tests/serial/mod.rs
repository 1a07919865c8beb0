// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's way over a serial line, to a board in plain Rust and over pseudo-terminals.

mod board;
mod memory;
mod tty;
mod work;
