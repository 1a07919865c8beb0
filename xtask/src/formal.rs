// SPDX-License-Identifier: MIT OR Apache-2.0
//! `formal`: what `ferrowire_hdl::proof` says of blocks is proven by SymbiYosys, and faults put into them are found.
//!
//! ```text
//!   ferrowire-rtl-gen --proofs --> Verilog, proofs.json --> a job each --> SymbiYosys --> verdict
//!                                                                            +--> trace.vcd --> table of cycles
//! ```

mod cex;
mod job;

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{available_parallelism, sleep};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use self::cex::Counterexample;
use self::job::{Job, Running};
use crate::interop::Quick;
use crate::{cargo, setup, workspace};

/// Options of `formal`.
#[derive(clap::Args)]
pub struct Args {
    /// Prove what has this name, or a name that begins so, with its faults; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Show the names, and what is proven
    #[arg(long)]
    list: bool,
    /// Leave out the deliberate faults, which the prover has to find
    #[arg(long)]
    no_faults: bool,
    /// Stop a job after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// So many at once; otherwise one a processor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Print the result as JSON instead of lines
    #[arg(long)]
    json: bool,
}

impl Default for Args {
    fn default() -> Args {
        Args { only: Vec::new(), list: false, no_faults: false, timeout: TIMEOUT, jobs: None, json: false }
    }
}

/// Seconds that a job may take: the longest one takes one minute, and some times that on a busy machine.
const TIMEOUT: u64 = 900;

/// A proof, as `ferrowire-rtl-gen` lists it.
#[derive(Clone, Deserialize)]
struct Proof {
    name: String,
    about: String,
    file: String,
    way: Way,
    faults: Vec<Fault>,
}

/// How something is proven.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    /// For runs of any length, by an invariant that ABC's `pdr` finds.
    Invariant,
    /// For runs of any length, by induction over so many cycles.
    Induction(u32),
    /// For so many cycles from reset.
    Bounded(u32),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Invariant => write!(f, "proven for runs of any length, by an invariant"),
            Way::Induction(cycles) => {
                write!(f, "proven for runs of any length, by induction over {cycles} cycles")
            }
            Way::Bounded(cycles) => {
                write!(f, "holds in the first {cycles} cycles of a run; later ones are open")
            }
        }
    }
}

/// A fault in the Verilog of a proof.
#[derive(Clone, Deserialize)]
struct Fault {
    name: String,
    file: String,
}

/// What came of a job.
#[derive(Serialize)]
struct Outcome {
    name: String,
    about: String,
    way: Way,
    /// The deliberate fault in it.
    fault: Option<String>,
    /// Proven, or for a fault: found.
    good: bool,
    verdict: String,
    seconds: f64,
    counterexample: Option<Counterexample>,
    /// The waveform of a counterexample.
    waveform: Option<PathBuf>,
    log: PathBuf,
}

/// All of them.
#[derive(Serialize)]
struct Report {
    commit: String,
    whole: bool,
    outcomes: Vec<Outcome>,
}

/// Proves, if the tools can be had; under `CI=true` nothing is skipped.
pub fn attempt() -> Result<Quick> {
    match setup::formal() {
        Ok(_) => run(&Args::default()).map(Quick::Ran),
        Err(_) if workspace::interrupted() => Ok(Quick::Ran(130)),
        Err(error) if std::env::var("CI").is_ok_and(|ci| ci == "true") => Err(error),
        Err(error) => Ok(Quick::Skipped(format!("{error:#}"))),
    }
}

/// Proves.
pub fn run(args: &Args) -> Result<u8> {
    let folder = workspace::target().join("formal");
    let proofs = generate(&folder)?;
    if args.list {
        for proof in &proofs {
            println!("{:<26} {}", proof.name, proof.about);
        }
        return Ok(0);
    }
    let proofs = chosen(proofs, &args.only)?;
    let tool = setup::formal()?;
    let result = folder.with_extension("json");
    workspace::remove_old(&result)?;
    let mut jobs = VecDeque::new();
    for proof in &proofs {
        jobs.push_back(Job::new(proof, None));
        if !args.no_faults {
            jobs.extend(proof.faults.iter().map(|fault| Job::new(proof, Some(fault))));
        }
    }
    let outcomes = follow(args, &folder, &tool, jobs)?;
    let bad = outcomes.iter().filter(|outcome| !outcome.good).count();
    let (proven, faults): (Vec<_>, Vec<_>) = outcomes.iter().partition(|outcome| outcome.fault.is_none());
    let good = |of: &[&Outcome]| of.iter().filter(|outcome| outcome.good).count();
    let bounded = proven.iter().filter(|outcome| matches!(outcome.way, Way::Bounded(_))).count();
    eprintln!(
        "{} of {} proofs hold, {bounded} of which are bounded; {} of {} faults are found.",
        good(&proven),
        proven.len(),
        good(&faults),
        faults.len()
    );
    let whole = args.only.is_empty() && !args.no_faults;
    let report = Report { commit: workspace::commit(), whole, outcomes };
    let text = serde_json::to_string_pretty(&report)?;
    workspace::write_whole(&result, &text)?;
    if args.json {
        // A reader that goes away is no fault.
        let _ = writeln!(std::io::stdout(), "{text}");
    }
    Ok(u8::from(bad > 0))
}

/// Has the circuits written.
fn generate(folder: &Path) -> Result<Vec<Proof>> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let rtl = folder.join("rtl");
    let mut command = cargo(["run", "--quiet", "--bin", "ferrowire-rtl-gen", "--", "--proofs", "--out"]);
    command.arg(&rtl);
    if workspace::exit_code(command)? != 0 {
        bail!("the circuits could not be generated");
    }
    let list = rtl.join("proofs.json");
    workspace::read_json(&list)?.with_context(|| format!("{} is not there", list.display()))
}

/// Those whose names begin so.
fn chosen(proofs: Vec<Proof>, only: &[String]) -> Result<Vec<Proof>> {
    for name in only {
        if !proofs.iter().any(|proof| proof.name.starts_with(name.as_str())) {
            bail!(
                "no proof has a name that begins with `{name}`: `cargo xtask formal --list` shows the names"
            );
        }
    }
    let wanted =
        |proof: &Proof| only.is_empty() || only.iter().any(|name| proof.name.starts_with(name.as_str()));
    Ok(proofs.into_iter().filter(wanted).collect())
}

/// Runs the jobs, some at once, and says what comes of each.
fn follow(args: &Args, folder: &Path, tool: &Path, mut jobs: VecDeque<Job>) -> Result<Vec<Outcome>> {
    let at_once = args.jobs.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from);
    let limit = Duration::from_secs(args.timeout);
    let bar = bar(jobs.len());
    let (mut running, mut outcomes): (Vec<Running>, Vec<Outcome>) = (Vec::new(), Vec::new());
    let quiet = args.json;
    while !jobs.is_empty() || !running.is_empty() {
        if workspace::interrupted() {
            // What runs is stopped as it is dropped.
            bail!("interrupted");
        }
        while running.len() < at_once {
            let Some(job) = jobs.pop_front() else { break };
            running.push(job.start(folder, tool)?);
        }
        let names: Vec<String> = running.iter().map(|one| one.job.title()).collect();
        bar.set_message(names.join(", "));
        let mut i = 0;
        while i < running.len() {
            let late = running[i].began.elapsed() > limit;
            if !late && !running[i].ended()? {
                i += 1;
                continue;
            }
            let outcome = running.swap_remove(i).outcome(late)?;
            bar.inc(1);
            bar.suspend(|| show(&outcome, quiet));
            outcomes.push(outcome);
        }
        sleep(Duration::from_millis(50));
    }
    bar.finish_and_clear();
    outcomes.sort_by(|a, b| (&a.name, &a.fault).cmp(&(&b.name, &b.fault)));
    Ok(outcomes)
}

fn bar(jobs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(jobs as u64);
    let template = "{spinner} {pos} of {len}, {elapsed}: {wide_msg}";
    bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A line; and of what is not proven, the counterexample.
fn show(outcome: &Outcome, quiet: bool) {
    let word = match (outcome.good, &outcome.fault) {
        (true, None) => "proven",
        (true, Some(_)) => "found",
        (false, _) => "FAILED",
    };
    let fault = outcome.fault.as_ref().map_or(String::new(), |fault| format!(" with a fault, {fault}"));
    eprintln!("{word:<7} {}{fault}: {} ({:.0} s)", outcome.name, outcome.verdict, outcome.seconds);
    if outcome.good || quiet {
        return;
    }
    eprintln!("        {}", outcome.about);
    if let Some(counterexample) = &outcome.counterexample {
        eprint!("{}", counterexample.table());
    }
    if let Some(waveform) = &outcome.waveform {
        eprintln!("        waveform: {}", waveform.display());
    }
    eprintln!(
        "        log: {}\n        again: cargo xtask formal --only {}",
        outcome.log.display(),
        outcome.name
    );
}

/// How a program of `setup::formal` is called.
fn program(tool: &Path, name: &str) -> Command {
    let mut command = setup::python_program(tool, "formal.py");
    command.arg(name);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(name: &str) -> Proof {
        let (name, file, about) = (name.into(), format!("{name}.v"), "something".into());
        Proof { name, about, file, way: Way::Invariant, faults: Vec::new() }
    }

    #[test]
    fn a_name_chooses_what_begins_so_and_an_unknown_one_is_refused() {
        let all = || ["table-rows-1", "table-rows-2", "stream-half"].map(proof).to_vec();
        let names = |only: &[&str]| -> Result<Vec<String>> {
            let only: Vec<String> = only.iter().map(|name| name.to_string()).collect();
            Ok(chosen(all(), &only)?.into_iter().map(|proof| proof.name).collect())
        };
        assert_eq!(names(&[]).unwrap().len(), 3);
        assert_eq!(names(&["table-rows"]).unwrap(), ["table-rows-1", "table-rows-2"]);
        assert_eq!(names(&["stream-half", "table-rows-2"]).unwrap(), ["table-rows-2", "stream-half"]);
        let why = names(&["stream", "tabel"]).unwrap_err().to_string();
        assert!(why.contains("`tabel`") && why.contains("--list"), "{why}");
    }
}
