// SPDX-License-Identifier: MIT OR Apache-2.0
//! `test`: what continuous integration runs.

use std::time::Instant;

use anyhow::Result;

use crate::{cargo, check, setup, workspace};

/// The steps between setup and check, as arguments of `cargo`.
const STEPS: [&[&str]; 3] = [
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    &["test", "--workspace"],
];

/// Runs the steps up to the first that fails.
pub fn run() -> Result<u8> {
    let begin = Instant::now();
    let total = STEPS.len() + 2;
    header(1, total, "xtask setup");
    setup::run(&setup::Args::default())?;
    for (index, step) in STEPS.iter().enumerate() {
        let name = step.join(" ");
        header(index + 2, total, &name);
        let code = workspace::exit_code(cargo(step.iter().copied()))?;
        if code != 0 {
            return Ok(failed(&name, code));
        }
    }
    header(total, total, "xtask check");
    let code = check::run()?;
    if code != 0 {
        return Ok(failed("xtask check", code));
    }
    eprintln!("\nAll {total} steps passed in {} s.", begin.elapsed().as_secs());
    Ok(0)
}

fn header(number: usize, total: usize, name: &str) {
    eprintln!("\n==> {number}/{total} cargo {name}");
}

fn failed(name: &str, code: u8) -> u8 {
    let how = if code == 130 { "was interrupted" } else { "failed" };
    eprintln!("\nThis step {how}; to run it alone: cargo {name}");
    code
}
