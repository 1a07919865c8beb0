// SPDX-License-Identifier: MIT OR Apache-2.0
//! `test`: the tiers. Without options it is what continuous integration runs.

mod areas;
mod beside;
mod programs;
mod took;

use std::cell::{Cell, RefCell};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result};

use self::areas::Area;
use self::beside::Beside;
use self::took::Took;
use crate::interop::{self, Quick};
use crate::outcomes::{self, Outcomes};
use crate::{cargo, check, foreign, formal, instructions, loom, setup, workspace};

/// Options of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// Add what takes long: every configuration and bus, long soaks, proofs, and a board's bitstream (fetches 290 MB of tools)
    #[arg(long)]
    full: bool,
    /// Build and run only the tests of these areas, for the edit loop: no formatting, lints or checks
    #[arg(long, value_enum, value_delimiter = ',', value_name = "AREA")]
    only: Vec<Area>,
}

/// A step's name, which is cargo's arguments, and what it does.
type Step<'a> = (&'a str, &'a dyn Fn() -> Result<u8>);

/// Runs the steps: up to the first that fails, or all of them in the full tier, whose steps take long.
pub fn run(args: &Args) -> Result<u8> {
    let full = args.full;
    let beside = Cell::new(None);
    let bitstream = full && args.only.is_empty();
    let tools = || {
        let code = setup::run(&setup::Args { synth: full, ..Default::default() })?;
        if code == 0 && bitstream {
            beside.set(Some(Beside::begin()?));
        }
        Ok(code)
    };
    let programs = RefCell::new(Vec::new());
    let skipped = RefCell::new(Vec::new());
    let all = || tests(args, &mut programs.borrow_mut());
    let wait = || beside.take().map_or(Ok(0), Beside::end);
    let wait_name = beside::command();
    let tried = |what: &str, came: Result<Quick>| match came? {
        Quick::Ran(code) => Ok(code),
        Quick::Skipped(why) => {
            let line = format!("SKIPPED: cargo {what}: {why}");
            eprintln!("{line}");
            skipped.borrow_mut().push(line);
            Ok(0)
        }
    };
    let clippy = if full { CLIPPY_ALL } else { CLIPPY };
    let lints = || plain(clippy);
    let foreign = || tried(FOREIGN, foreign::attempt(&foreign::Args::default()));
    let linux = || tried(INTEROP, interop::quick());
    let others = || tried(PROGRAMS, interop::quick_programs());
    let proofs = || tried(FORMAL, formal::attempt());
    let counts = || tried(INSTRUCTIONS, instructions::attempt());
    let mut steps: Vec<Step> = vec![("xtask setup", &tools)];
    if args.only.is_empty() {
        steps.push((FMT, &|| plain(FMT)));
        steps.push((clippy, &lints));
    }
    if args.only.iter().any(|area| *area != Area::Interop) || args.only.is_empty() {
        steps.push((TESTS, &all));
    }
    if args.only.is_empty() {
        steps.push((DOC, &|| plain(DOC)));
        steps.push((LOOM, &loom::run));
        steps.push((INSTRUCTIONS, &counts));
        steps.push(("xtask check", &check::run));
        steps.push((FOREIGN, &foreign));
    }
    if full && (args.only.is_empty() || args.only.contains(&Area::Transport)) {
        steps.push((SOAK, &|| plain(SOAK)));
    }
    if full && (args.only.is_empty() || args.only.contains(&Area::Hdl)) {
        steps.push((FORMAL, &proofs));
    }
    if bitstream {
        steps.push((&wait_name, &wait));
    }
    if args.only.is_empty() || args.only.contains(&Area::Interop) {
        // Alone on the machine, for guests have clocks.
        steps.push((INTEROP, &linux));
        steps.push((PROGRAMS, &others));
    }
    let code = follow(&steps, full, &programs)?;
    skipped.take().iter().for_each(|line| eprintln!("{line}"));
    Ok(code)
}

/// Runs steps up to the first that fails, or all, and prints where the time went.
fn follow(steps: &[Step], all: bool, programs: &RefCell<Vec<Took>>) -> Result<u8> {
    let begin = Instant::now();
    let (mut took, mut failed) = (Vec::new(), Vec::new());
    for (index, (name, step)) in steps.iter().enumerate() {
        eprintln!("\n==> {}/{} cargo {name}", index + 1, steps.len());
        let before = took::all();
        let code = match step() {
            Err(error) if all && !workspace::interrupted() => {
                eprintln!("Error: {error:#}");
                1
            }
            code => code?,
        };
        took.push(Took { title: format!("cargo {name}"), processor: took::all() - before });
        match code {
            0 => {}
            130 => {
                eprintln!("\nThis step was interrupted; to run it alone: cargo {name}");
                return Ok(code);
            }
            _ => failed.push((name, code)),
        }
        // All others need the first.
        if code != 0 && (!all || index == 0) {
            break;
        }
    }
    eprint!("\n{}", took::table(&took, &mut programs.borrow_mut()));
    let seconds = begin.elapsed().as_secs();
    for (name, _) in &failed {
        eprintln!("\nThis step failed; to run it alone: cargo {name}");
    }
    match failed.first() {
        None => eprintln!("\nAll {} steps passed in {seconds} s.", steps.len()),
        Some(_) => {
            let (bad, ran) = (failed.len(), took.len());
            eprintln!(
                "\n{bad} of the {ran} steps that ran failed, in {seconds} s; there are {}.",
                steps.len()
            );
        }
    }
    Ok(failed.first().map_or(0, |(_, code)| *code))
}

const FMT: &str = "fmt --all --check";
const CLIPPY: &str = "clippy --all-targets -- -D warnings";
const CLIPPY_ALL: &str = "clippy --workspace --all-targets -- -D warnings";
const TESTS: &str = "test --lib --bins --tests";
const DOC: &str = "test --doc";
const SOAK: &str = "run --quiet --bin ferrowire-sim -- soak --seconds 600";
const FORMAL: &str = "xtask formal";
const LOOM: &str = "xtask loom";
const INSTRUCTIONS: &str = "xtask instructions";
const FOREIGN: &str = "xtask foreign";
const INTEROP: &str = "xtask interop --quick --suite wire,loss,bus,both,board";
const PROGRAMS: &str = "xtask interop --quick --suite verbs";

fn plain(arguments: &str) -> Result<u8> {
    workspace::exit_code(cargo(arguments.split(' ')))
}

/// Builds test programs, runs them side by side, and keeps what came of them.
fn tests(args: &Args, took: &mut Vec<Took>) -> Result<u8> {
    let mut build = cargo(["test", "--no-run", "--message-format", "json-render-diagnostics"]);
    if args.only.is_empty() {
        workspace::remove_old(&outcomes::path())?;
        // The default members otherwise.
        build.args(args.full.then_some("--workspace"));
    } else {
        build.args(Area::packages(&args.only, args.full).iter().flat_map(|package| ["-p", package]));
    }
    let built = build.stderr(Stdio::inherit()).output().context("running cargo")?;
    if !built.status.success() {
        return Ok(workspace::code(built.status));
    }
    let mut chosen = programs::parts(programs::built(&String::from_utf8_lossy(&built.stdout)), args.full)?;
    if !args.only.is_empty() {
        chosen.retain(|program| args.only.contains(&Area::of(program)));
    }
    let (mut ran, programs) = programs::run(chosen, args.full)?;
    took::keep(&programs)?;
    took.extend(programs);
    let code = match ran.failed.is_empty() && ran.whole {
        true => 0,
        false if workspace::interrupted() => 130,
        false => 1,
    };
    if args.only.is_empty() {
        outcomes::forget_left_out(&mut ran.tests);
        Outcomes { commit: workspace::commit(), whole: ran.whole, tests: ran.tests }.keep()?;
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_ends_the_default_tier_and_not_the_full_one() {
        let ran = RefCell::new(Vec::new());
        let step = |name, code| {
            ran.borrow_mut().push(name);
            Ok(code)
        };
        let (good, bad, last) = (|| step("good", 0), || step("bad", 3), || step("last", 0));
        let broken = || -> Result<u8> {
            ran.borrow_mut().push("broken");
            anyhow::bail!("no such tool")
        };
        let stopped = || step("stopped", 130);
        let programs = RefCell::new(Vec::new());
        let follow = |steps: &[Step], all| (follow(steps, all, &programs), ran.take());
        let steps: [Step; 4] = [("good", &good), ("bad", &bad), ("broken", &broken), ("last", &last)];
        let (code, ran) = follow(&steps, true);
        assert_eq!((code.unwrap(), ran), (3, vec!["good", "bad", "broken", "last"]));
        let (code, ran) = follow(&steps, false);
        assert_eq!((code.unwrap(), ran), (3, vec!["good", "bad"]));
        assert!(follow(&steps[2..], false).0.is_err());
        let (code, ran) = follow(&steps[1..], true);
        assert_eq!((code.unwrap(), ran), (3, vec!["bad"]), "all steps need the first");
        // An interrupt ends either tier.
        let (code, ran) = follow(&[("good", &good), ("stopped", &stopped), ("last", &last)], true);
        assert_eq!((code.unwrap(), ran), (130, vec!["good", "stopped"]));
        assert_eq!(follow(&[("good", &good), ("last", &last)], true).0.unwrap(), 0);
    }
}
