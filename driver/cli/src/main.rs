// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire`: all of it is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ferrowire_cli::run(std::env::args_os()))
}
