// SPDX-License-Identifier: MIT OR Apache-2.0
//! `test`: what continuous integration runs.

mod beside;
mod programs;

use std::cell::{Cell, RefCell};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result};

use self::beside::Beside;
use crate::interop::{self, Quick};
use crate::outcomes::{self, Outcomes};
use crate::{cargo, check, setup, workspace};

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Make a board's bitstream beside the steps, and run the tests that need Yosys, too; fetches what it needs
    #[arg(long)]
    bitstream: bool,
}

/// Runs the steps up to the first that fails.
pub fn run(args: &Args) -> Result<u8> {
    let begin = Instant::now();
    let beside = Cell::new(None);
    let tools = || {
        let code = setup::run(&setup::Args { synth: args.bitstream, ..Default::default() })?;
        if code == 0 && args.bitstream {
            beside.set(Some(Beside::begin()?));
        }
        Ok(code)
    };
    let bitstream = || beside.take().map_or(Ok(0), Beside::end);
    let bitstream_step = beside::command();
    let test_programs = || tests(args.bitstream);
    let skipped = RefCell::new(None);
    let linux = || match interop::quick()? {
        Quick::Ran(code) => Ok(code),
        Quick::Skipped(why) => {
            eprintln!("{SKIPPED}: {why}");
            *skipped.borrow_mut() = Some(why);
            Ok(0)
        }
    };
    let mut steps: Vec<(&str, &dyn Fn() -> Result<u8>)> = vec![
        ("xtask setup", &tools),
        ("fmt --all --check", &|| plain("fmt --all --check")),
        (CLIPPY, &|| plain(CLIPPY)),
        ("test --workspace --lib --bins --tests", &test_programs),
        (DOC, &|| plain(DOC)),
        ("xtask check", &check::run),
    ];
    if args.bitstream {
        steps.push((&bitstream_step, &bitstream));
    }
    // Alone, for guests have clocks.
    steps.push(("xtask interop --quick", &linux));
    for (index, (name, step)) in steps.iter().enumerate() {
        eprintln!("\n==> {}/{} cargo {name}", index + 1, steps.len());
        let code = step()?;
        if code != 0 {
            let how = if code == 130 { "was interrupted" } else { "failed" };
            eprintln!("\nThis step {how}; to run it alone: cargo {name}");
            return Ok(code);
        }
    }
    let seconds = begin.elapsed().as_secs();
    match skipped.take() {
        None => eprintln!("\nAll {} steps passed in {seconds} s.", steps.len()),
        Some(why) => {
            let ran = steps.len() - 1;
            eprintln!("\n{ran} of {} steps passed in {seconds} s. {SKIPPED}: {why}", steps.len());
        }
    }
    Ok(0)
}

/// Said where the last step cannot be done, and said again at the end.
const SKIPPED: &str = "THE TESTS AGAINST LINUX WERE SKIPPED (cargo xtask interop --quick)";
const CLIPPY: &str = "clippy --workspace --all-targets -- -D warnings";
const DOC: &str = "test --workspace --doc";

fn plain(arguments: &str) -> Result<u8> {
    workspace::exit_code(cargo(arguments.split(' ')))
}

/// Builds all test programs, runs them side by side, those that need Yosys where it is there, and keeps what came of them.
fn tests(yosys: bool) -> Result<u8> {
    workspace::remove_old(&outcomes::path())?;
    let mut build = cargo(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    let built = build.stderr(Stdio::inherit()).output().context("running cargo")?;
    if !built.status.success() {
        return Ok(workspace::code(built.status));
    }
    let mut all = programs::built(&String::from_utf8_lossy(&built.stdout));
    if yosys {
        // First, for they take long.
        all.splice(0..0, programs::with_yosys(&all)?);
    }
    let mut ran = programs::run(all)?;
    outcomes::forget_left_out(&mut ran.tests);
    let code = match ran.failed.is_empty() && ran.whole {
        true => 0,
        false if workspace::interrupted() => 130,
        false => 1,
    };
    Outcomes { commit: workspace::commit(), whole: ran.whole, tests: ran.tests }.keep()?;
    Ok(code)
}
