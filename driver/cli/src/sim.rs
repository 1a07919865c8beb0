// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire sim`: runs `ferrowire-sim`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Runs simulated cards on sockets, and boards on serial ports: `ferrowire-sim`, found beside this command or on PATH
///
/// What follows one of the commands goes to `ferrowire-sim` as it is. `ferrowire sim up --help` lists it, if `ferrowire-sim` is installed: `cargo build -p ferrowire-sim`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    ferrowire sim up\n  \
    ferrowire sim up --engine --cards 4\n  \
    ferrowire sim up /tmp/cards --config generic-8b\n  \
    ferrowire sim card --socket a.sock --wire stream:wire.sock\n  \
    ferrowire sim board --port a.tty --wire stream:wire.sock")]
pub struct SimArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Serves two cards on one wire, at ferrowire0.sock and ferrowire1.sock, or more on a switch
    #[command(disable_help_flag = true)]
    Up(Passed),
    /// Serves one card, on a wire that leads elsewhere
    #[command(disable_help_flag = true)]
    Card(Passed),
    /// Serves a board without PCIe, on a serial port and on a wire that leads elsewhere
    #[command(disable_help_flag = true)]
    Board(Passed),
}

#[derive(Args, Debug)]
struct Passed {
    /// For `ferrowire-sim`; its `--help` lists all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Name of the program.
const PROGRAM: &str = "ferrowire-sim";

/// Becomes `ferrowire-sim`.
pub fn run(args: &SimArgs) -> Result<(), Failure> {
    let (what, passed) = match &args.what {
        What::Up(passed) => ("up", passed),
        What::Card(passed) => ("card", passed),
        What::Board(passed) => ("board", passed),
    };
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let beside = beside.filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).arg(what).args(&passed.arguments).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => Failure::failed(
            format!("sim {what}: `{PROGRAM}` is neither beside this command nor on PATH"),
            "build it with `cargo build -p ferrowire-sim`, or run `cargo run -p ferrowire-sim -- up`",
        ),
        _ => Failure::Os {
            operation: format!("sim {what}: run {}", program.display()),
            source: error,
            fix: "build it with `cargo build -p ferrowire-sim`",
        },
    })
}
