// SPDX-License-Identifier: MIT OR Apache-2.0
//! `loom`: the driver's protocols between threads, in every order in which these can see each other's accesses.

use std::env;

use anyhow::Result;

use crate::{cargo, workspace};

/// Runs the models, which have a target folder of their own: all that they use is compiled with another configuration.
pub fn run() -> Result<u8> {
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let mut command = cargo(["test", "-p", "ferrowire-loom", "--lib", "--target-dir"]);
    command.arg(workspace::target().join("loom")).env("RUSTFLAGS", format!("{flags} --cfg loom"));
    // Cargo would take these flags in the place of the ones above.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    workspace::exit_code(command)
}
