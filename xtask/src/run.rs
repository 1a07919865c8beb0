// SPDX-License-Identifier: MIT OR Apache-2.0
//! `demo`, `replay`, `soak`, `hostile` and `bench`: subcommands of the simulator's program, which installs Verilator if it needs it.

use std::ffi::OsString;

use anyhow::{Context, Result};

use crate::{cargo, workspace};

/// What is passed on.
#[derive(clap::Args)]
pub struct Args {
    /// Passed on as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Runs `ferrowire-sim <name>` and returns its exit code.
///
/// In the development profile, which is optimised enough here and shares its build with the tests: the time goes into the
/// Verilated model, which is compiled the same either way. It runs where the command was given, so that paths mean there what
/// they mean to who gave them.
pub fn run(name: &str, args: &Args) -> Result<u8> {
    let setup = std::env::current_exe().context("finding this program")?;
    let here = std::env::current_dir().context("finding the current folder")?;
    let mut command = cargo(["run", "--quiet", "--manifest-path"]);
    command.arg(workspace::root().join("Cargo.toml")).current_dir(here);
    // The program checks its arguments before it has this one install anything.
    command.env("FERROWIRE_SETUP", setup);
    command.args(["--bin", "ferrowire-sim", "--", name]).args(&args.rest);
    workspace::exit_code(command)
}
