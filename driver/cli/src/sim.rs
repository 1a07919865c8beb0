// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire sim`: runs `ferrowire-sim`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};

use crate::failure::Failure;

/// Runs simulated cards on sockets, and boards on serial ports: `ferrowire-sim`, found beside this command or on PATH
///
/// `up` serves two cards on one wire, `card` one card on a wire that leads elsewhere, `board` a board on such a wire. What follows goes to `ferrowire-sim` as it is;
/// `ferrowire sim up --help` lists it.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\n  \
    ferrowire sim up\n  \
    ferrowire sim up /tmp/cards --config generic-64b\n  \
    ferrowire sim card --socket a.sock --wire stream:wire.sock\n  \
    ferrowire sim board --port a.tty --wire stream:wire.sock"
)]
pub struct SimArgs {
    /// What to run
    what: What,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// Two cards on one wire
    Up,
    /// One card
    Card,
    /// One board
    Board,
}

/// Name of the program.
const PROGRAM: &str = "ferrowire-sim";

/// Becomes `ferrowire-sim`.
pub fn run(args: &SimArgs) -> Result<(), Failure> {
    let what = match args.what {
        What::Up => "up",
        What::Card => "card",
        What::Board => "board",
    };
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(PROGRAM)));
    let beside = beside.filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).arg(what).args(&args.arguments).exec();
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
