// SPDX-License-Identifier: MIT OR Apache-2.0
//! `demo`, `replay`, `soak`, `hostile` and `bench`: subcommands of the simulator's program, behind setup.

use std::ffi::OsString;

use anyhow::{Context, Result};

use crate::{cargo, setup, workspace};

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
    setup::run(&setup::Args::default())?;
    let here = std::env::current_dir().context("finding the current folder")?;
    let mut command = cargo(["run", "--quiet", "--manifest-path"]);
    command.arg(workspace::root().join("Cargo.toml")).current_dir(here);
    command.args(["-p", "ferrowire-sim", "--bin", "ferrowire-sim", "--", name]).args(&args.rest);
    workspace::exit_code(command)
}
