// SPDX-License-Identifier: MIT OR Apache-2.0
//! `interop`: a simulated card against Linux, both as they are. A suite is a file; each case has a guest of its own, and what all said is left in `target/interop/SUITE/CASE`.

mod bus;
mod capture;
mod counters;
mod own;
mod pair;
mod process;
mod rping;
mod server;
mod slot;
mod unmodified;
mod verbs;
mod wire;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};
use serde::Serialize;

use crate::peers::{Newer, Peers, Programs};
use crate::{cargo, setup, workspace};
use capture::Again;
use own::Place;
use pair::Wire;

/// Options of `interop`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Only these suites
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SUITE")]
    suite: Vec<Suite>,
    /// The card's configuration; with another one than this there are no cases of boards, whose card is `axi-8b`
    #[arg(long, value_name = "NAME|FILE", default_value = CONFIG)]
    config: String,
    /// Only the few cases that `cargo xtask test` runs
    #[arg(long)]
    quick: bool,
    /// Only cases with one of these in their name
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// A guest with soft-RoCE on the card's wire
    Wire,
    /// The same, on a wire that loses, repeats, reorders and corrupts, or goes dark for a second
    Loss,
    /// Two cards on a guest's PCI bus, behind its IOMMU
    Bus,
    /// A guest with the card on its PCI bus, and one with soft-RoCE on the card's wire
    Both,
    /// A guest with soft-RoCE on the wire of a board, whose serial line the program uses
    Board,
    /// Programs of Debian with libibverbs.so.1 of this project: on this machine, with emulated cards, or against a guest with soft-RoCE; and in a guest with cards on its bus
    Verbs,
}

impl Suite {
    /// The one of a case with soft-RoCE at the other end of the wire: where the card's program is, and what the wire does.
    fn of(place: Place, wire: Wire) -> Suite {
        match (wire, place) {
            (Wire::Lossy | Wire::Dark | Wire::Dead, _) => Suite::Loss,
            (Wire::Sound | Wire::Provoked, Place::Here) => Suite::Wire,
            (Wire::Sound | Wire::Provoked, Place::Guest) => Suite::Both,
            (Wire::Sound | Wire::Provoked, Place::Board) => Suite::Board,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Suite::Wire => "wire",
            Suite::Loss => "loss",
            Suite::Bus => "bus",
            Suite::Both => "both",
            Suite::Board => "board",
            Suite::Verbs => "verbs",
        }
    }
}

/// What cases are run with.
pub struct Setting {
    /// Linux, its programs and QEMU, fetched when a case wants them.
    peers: OnceCell<Peers>,
    /// Programs for this machine, likewise.
    programs: OnceCell<Programs>,
    /// Those of a newer Debian, likewise.
    newer: OnceCell<Newer>,
    /// Folder of the libraries of verbs, likewise.
    libraries: OnceCell<PathBuf>,
    /// The card's configuration.
    pub config: String,
    /// Waves of the cards are written.
    pub waves: bool,
}

/// The value, made if it is not there.
fn get_or_make<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if cell.get().is_none() {
        let _ = cell.set(make()?);
    }
    cell.get().context("it was made just now")
}

impl Setting {
    fn new(config: String) -> Self {
        let (peers, programs, newer, libraries) = Default::default();
        Self { peers, programs, newer, libraries, config, waves: false }
    }

    /// Linux, its programs and QEMU.
    pub fn peers(&self) -> Result<&Peers> {
        get_or_make(&self.peers, || Peers::get(false))
    }

    /// Programs of Debian for this machine.
    pub fn programs(&self) -> Result<&Programs> {
        get_or_make(&self.programs, Programs::get)
    }

    /// Programs of a newer Debian.
    pub fn newer(&self) -> Result<&Newer> {
        get_or_make(&self.newer, Newer::get)
    }

    /// The folder of libibverbs.so.1 and its fellows.
    pub fn libraries(&self) -> Result<&Path> {
        let folder = workspace::target().join("interop").join("libraries");
        get_or_make(&self.libraries, || crate::verbs::build(true, Some(&folder))).map(PathBuf::as_path)
    }

    /// A program of this project, which runs in the folder of the case: names of sockets are short.
    pub fn program(&self, name: &str, logs: &Path) -> Command {
        let mut command = Command::new(workspace::target().join("debug").join(name));
        // The tools are found below the target folder.
        command.current_dir(logs).env("CARGO_TARGET_DIR", workspace::target());
        command
    }

    /// `ferrowire run` with the libraries of verbs, for a program of Debian: the card and the program are still to be named.
    pub fn stock(&self, logs: &Path) -> Result<Command> {
        let mut command = self.program("ferrowire", logs);
        command.args(["run", "-v", "--libraries"]).arg(self.libraries()?);
        command.env("LD_LIBRARY_PATH", self.programs()?.libraries());
        // Of the machine that runs this.
        command.env_remove("FERROWIRE_DEVICE").env_remove("LD_PRELOAD");
        Ok(command)
    }

    /// Builds an example, and gives its name for [`program`](Self::program): a few cases want one.
    pub fn example(&self, name: &str) -> Result<String> {
        let build = cargo(["build", "--quiet", "--example", name]);
        match workspace::exit_code(build)? {
            0 => Ok(format!("examples/{name}")),
            _ => bail!("the example {name} could not be built"),
        }
    }
}

/// Something to be tried.
pub trait Case {
    /// Which suite it is of.
    fn suite(&self) -> Suite;
    /// Its name, which no other of its suite has.
    fn name(&self) -> String;
    /// One of the few.
    fn quick(&self) -> bool;
    /// Whether its cards can write waves: emulated ones have none.
    fn has_waves(&self) -> bool {
        true
    }
    /// Tries it; what is said meanwhile goes to files of `logs`.
    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried>;
}

/// What there is of a case, as its name has it.
pub fn those(all: &[(bool, &str)]) -> String {
    all.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect()
}

/// What came of a try that was begun.
pub struct Tried {
    /// Why it failed, if it did.
    pub result: Result<()>,
    /// Requests that were sent again, where that is known.
    pub again: Option<Again>,
}

/// All of all suites.
fn cases() -> Vec<Box<dyn Case>> {
    let mut all = wire::cases();
    all.extend(rping::cases());
    all.extend(verbs::cases());
    all.extend(bus::cases());
    all.extend(unmodified::cases());
    all
}

/// What came of a case.
#[derive(Serialize)]
struct Outcome {
    suite: Suite,
    case: String,
    /// Why it failed, if it did.
    failure: Option<String>,
    /// Requests that were sent again.
    again: Option<Again>,
    logs: PathBuf,
}

/// What came of [`quick`] or [`quick_programs`].
#[derive(Debug)]
pub enum Quick {
    /// Cases were run, with this exit code.
    Ran(u8),
    /// Linux, or the programs, cannot be had here, for this reason.
    Skipped(String),
}

/// Suites with Linux in QEMU.
const LINUX: [Suite; 5] = [Suite::Wire, Suite::Loss, Suite::Bus, Suite::Both, Suite::Board];

/// Runs the few cases with Linux, where kernel, tools and QEMU can be had, with the programs that were built for the tests.
pub fn quick() -> Result<Quick> {
    few(&LINUX, || Peers::get(false).map(drop))
}

/// Runs the few cases of the suite `verbs`, where Debian's packages can be had, with the programs that were built for the tests.
pub fn quick_programs() -> Result<Quick> {
    few(&[Suite::Verbs], || Programs::get().map(drop))
}

/// Runs the few cases of suites, if what they need can be had.
fn few(suites: &[Suite], get: impl FnOnce() -> Result<()>) -> Result<Quick> {
    match get() {
        Ok(()) => {
            let args = Args { quick: true, config: CONFIG.into(), suite: suites.to_vec(), ..Args::default() };
            try_all(&args, &chosen(&args)?, args.config.clone()).map(Quick::Ran)
        }
        Err(_) if workspace::interrupted() => Ok(Quick::Ran(130)),
        Err(error) => Ok(Quick::Skipped(format!("{error:#}"))),
    }
}

/// Which card is taken if nobody says.
const CONFIG: &str = "generic-8b";

/// Builds the programs of this side, and runs the cases.
pub fn run(args: &Args) -> Result<u8> {
    // What is wrong with the command line is said before anything is fetched.
    let (cases, config) = (chosen(args)?, configuration(&args.config)?);
    setup::run(&setup::Args::default())?;
    let build = cargo(["build", "--quiet", "--bin", "ferrowire-sim", "--bin", "ferrowire"]);
    if workspace::exit_code(build)? != 0 {
        bail!("the simulator could not be built");
    }
    try_all(args, &cases, config)
}

/// The configuration, as programs in other folders are told of it.
fn configuration(name: &str) -> Result<String> {
    let path = Path::new(name);
    if path.is_file() {
        return Ok(std::path::absolute(path)?.display().to_string());
    }
    let listed = cargo(["run", "--quiet", "--bin", "ferrowire-rtl-gen", "--", "--list", "--json"]).output();
    let listed: serde_json::Value = serde_json::from_slice(&listed.context("running cargo")?.stdout)?;
    let all = listed["configurations"].as_array().into_iter().flatten();
    let names: Vec<&str> = all.filter_map(|config| config["name"].as_str()).collect();
    if !names.contains(&name) {
        bail!("--config {name}: neither a file nor a built-in configuration; there are {}", names.join(", "));
    }
    Ok(name.into())
}

/// Runs cases, with the programs that are there.
fn try_all(args: &Args, cases: &[Box<dyn Case>], config: String) -> Result<u8> {
    let mut setting = Setting::new(config);
    let mut outcomes = Vec::new();
    for case in cases {
        let (suite, name) = (case.suite(), case.name());
        let logs = workspace::target().join("interop").join(suite.name()).join(&name);
        eprint!("{:<32} ", format!("{}/{name}", suite.name()));
        let Tried { result, again } = tried(case.as_ref(), &setting, &logs)?;
        let failure = result.err().map(|error| format!("{error:#}"));
        eprintln!("{}", failure.as_deref().unwrap_or("ok"));
        if failure.is_some() && case.has_waves() {
            let logs = logs.join("again");
            eprint!("{:<32} ", "  once more, with waves");
            setting.waves = true;
            let Tried { result, .. } = tried(case.as_ref(), &setting, &logs)?;
            setting.waves = false;
            let came = result.map_or_else(|error| format!("{error:#}"), |()| "it passes".into());
            eprintln!("{came}; see {}", logs.join(server::WAVES).display());
        }
        outcomes.push(Outcome { suite, case: name, failure, again, logs });
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else {
        table(&outcomes);
        println!("{} of {} passed", outcomes.len() - failed, outcomes.len());
    }
    Ok(u8::from(failed > 0))
}

/// Tries a case, in a folder of its own.
fn tried(case: &dyn Case, setting: &Setting, logs: &Path) -> Result<Tried> {
    workspace::remove_folder(logs)?;
    fs::create_dir_all(logs).with_context(|| format!("creating {}", logs.display()))?;
    let tried = case.run(setting, logs).unwrap_or_else(|error| Tried { result: Err(error), again: None });
    if workspace::interrupted() {
        bail!("interrupted");
    }
    Ok(tried)
}

/// Those that the command line asks for.
fn chosen(args: &Args) -> Result<Vec<Box<dyn Case>>> {
    let wanted = |case: &dyn Case| {
        let name = case.name();
        // A board's card is another one.
        (case.suite() != Suite::Board || args.config == CONFIG)
            && (!args.quick || case.quick())
            && (args.suite.is_empty() || args.suite.contains(&case.suite()))
            && (args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str())))
    };
    let (found, others): (Vec<_>, Vec<_>) = cases().into_iter().partition(|case| wanted(case.as_ref()));
    if found.is_empty() {
        let names: Vec<String> =
            others.iter().map(|case| format!("{}/{}", case.suite().name(), case.name())).collect();
        bail!("no case is like that; there are {}", names.join(", "));
    }
    Ok(found)
}

fn table(outcomes: &[Outcome]) {
    println!("{:<32} {:<8} sent again: by the guest   by the card", "case", "");
    for Outcome { suite, case, failure, again, logs } in outcomes {
        let again = again.map_or(String::new(), |Again { guest, card }| format!("{guest:>24} {card:>13}"));
        let result = if failure.is_some() { "FAILED" } else { "ok" };
        println!("{:<32} {result:<8} {again}", format!("{}/{case}", suite.name()));
        if failure.is_some() {
            println!("  see {}", logs.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_a_folder_of_its_own() {
        let all = cases();
        let mut names: Vec<String> =
            all.iter().map(|case| format!("{}/{}", case.suite().name(), case.name())).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn each_of_the_few_cases_is_of_a_step_of_the_tests() {
        let quick: Vec<Suite> = cases().iter().filter(|case| case.quick()).map(|case| case.suite()).collect();
        assert!(quick.iter().all(|suite| *suite == Suite::Verbs || LINUX.contains(suite)), "{quick:?}");
        assert!(quick.contains(&Suite::Verbs) && quick.contains(&Suite::Wire), "{quick:?}");
    }
}
