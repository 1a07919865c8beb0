// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test programs: as many run at a time as there are processors, each module of a large one as a process of its own.
//!
//! `cargo test` runs one program after the other, and many of ours have one long test at their end, or wait for a model to be compiled, while the
//! other processor is idle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{waitid, Pid, WaitId, WaitIdOptions};
use serde::Deserialize;

use super::took::{self, Took};
use crate::outcomes::{self, Outcome};
use crate::workspace;

/// A test program as cargo has built it, or one module of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The crate, as in Rust.
    package: String,
    /// The option that selects the program among those of the package.
    option: String,
    executable: PathBuf,
    /// The package's folder, where cargo runs it.
    folder: PathBuf,
    /// The part of the program that runs; all of it without one.
    part: Option<Part>,
}

/// A part of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// The path that the names of its tests begin with, without the last `::`.
    module: String,
    /// Their names.
    tests: Vec<String>,
    /// They are marked `#[ignore]`, and run in the full tier only.
    ignored: bool,
}

/// Programs with a module for each subject.
const BY_MODULE: &str = "--test all";

/// Modules with tests that are marked `#[ignore]` because they need Yosys, nextpnr or much memory: the full tier runs them.
const FULL: [(&str, &str); 4] = [
    ("ferrowire_sim", "alveo::synth"),
    ("ferrowire_sim", "board::mapped"),
    ("ferrowire_sim", "board::pll"),
    ("ferrowire_sim", "large"),
];

/// What came of all.
pub struct Ran {
    /// Each test that ended.
    pub tests: Vec<Outcome>,
    /// The commands that run those which failed alone.
    pub failed: Vec<String>,
    /// All came to their ends.
    pub whole: bool,
}

/// The test programs among what `cargo test --no-run --message-format json` prints.
pub fn built(messages: &str) -> Vec<Program> {
    #[derive(Deserialize)]
    struct Artifact {
        package_id: String,
        manifest_path: PathBuf,
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
        kind: Vec<String>,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    let tests = artifacts
        .filter(|artifact| artifact.profile.test && !artifact.target.kind.contains(&"example".into()));
    let programs = tests.filter_map(|artifact| {
        let Target { name, kind } = artifact.target;
        let option = match kind.first()?.as_str() {
            "test" => format!("--test {name}"),
            "bin" => format!("--bin {name}"),
            _ => "--lib".into(),
        };
        let package = package(&artifact.package_id)?;
        let folder = artifact.manifest_path.parent()?.to_path_buf();
        Some(Program { package, option, executable: artifact.executable?, folder, part: None })
    });
    programs.collect()
}

/// A package's name, as in Rust, of its ID: `path+file:///folder#name@version`, or `path+file:///name#version`.
fn package(id: &str) -> Option<String> {
    let (source, rest) = id.split_once('#')?;
    let name = match rest.split_once('@') {
        Some((name, _)) => name,
        None => source.rsplit('/').next()?,
    };
    Some(name.replace('-', "_"))
}

/// Splits programs by module, adds what the full tier has, and puts those first that take longest.
///
/// # Errors
/// A program does not list its tests, or a module of the full tier is gone.
pub fn parts(programs: Vec<Program>, full: bool) -> Result<Vec<Program>> {
    let mut all = Vec::new();
    for program in programs {
        if program.option != BY_MODULE {
            all.push(program);
            continue;
        }
        if full {
            let ignored = program.list(true)?;
            for (_, module) in FULL.iter().filter(|(package, _)| *package == program.package) {
                let tests = below(module, &ignored);
                if tests.is_empty() {
                    bail!("{} has no test marked `#[ignore]` in {module}", program.package);
                }
                all.push(program.only(module, tests, true));
            }
        }
        let tests = program.list(false)?;
        all.extend(modules(&tests).map(|(module, tests)| program.only(module, tests, false)));
    }
    let earlier = took::earlier();
    // One that has not run before may take long.
    let seconds = |program: &Program| earlier.get(&program.title()).copied().unwrap_or(f64::MAX);
    all.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    Ok(all)
}

/// The names of tests by the first segment of their paths.
fn modules(tests: &[String]) -> impl Iterator<Item = (&str, Vec<String>)> {
    let mut modules: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in tests {
        modules.entry(test.split("::").next().unwrap_or(test)).or_default().push(test.clone());
    }
    modules.into_iter()
}

/// Those in a module.
fn below(module: &str, tests: &[String]) -> Vec<String> {
    let prefix = format!("{module}::");
    tests.iter().filter(|test| test.starts_with(&prefix)).cloned().collect()
}

/// Shared by the threads that start them.
struct State {
    waiting: std::vec::IntoIter<Program>,
    running: BTreeSet<String>,
    ran: Ran,
    took: Vec<Took>,
}

/// Runs all, and goes on after those that fail. In the full tier they find `FERROWIRE_FULL=1` in their environment.
pub fn run(programs: Vec<Program>, full: bool) -> Result<(Ran, Vec<Took>)> {
    let logs = workspace::target().join("tests");
    workspace::remove_folder(&logs)?;
    fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    let at_a_time = std::thread::available_parallelism().map_or(1, |n| n.get()).min(programs.len());
    eprintln!(
        "{} test programs, {at_a_time} at a time; each one's output is in {} while it runs",
        programs.len(),
        logs.display()
    );
    let bar = ProgressBar::new(programs.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}").context("the bar's form")?);
    bar.enable_steady_tick(Duration::from_millis(500));
    let state = Mutex::new(State {
        waiting: programs.into_iter(),
        running: BTreeSet::new(),
        ran: Ran { tests: Vec::new(), failed: Vec::new(), whole: true },
        took: Vec::new(),
    });
    let lock = || state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let work = || -> Result<()> {
        loop {
            let program = {
                let mut state = lock();
                let Some(program) = state.waiting.next().filter(|_| !workspace::interrupted()) else {
                    return Ok(());
                };
                state.running.insert(program.name());
                bar.set_message(names(&state.running));
                program
            };
            let done = program.run(&logs, full);
            let mut state = lock();
            state.running.remove(&program.name());
            bar.set_message(names(&state.running));
            bar.inc(1);
            let Done { said, passed, processor } = done?;
            bar.suspend(|| {
                let mut stdout = std::io::stdout().lock();
                let _ = writeln!(stdout, "     Ran {}\n{said}", program.title());
            });
            let tests: Vec<Outcome> = outcomes::read(&program.package, &said).collect();
            // Tests that were asked for by name are there.
            let missing = program.part.as_ref().is_some_and(|part| tests.len() < part.tests.len());
            state.ran.tests.extend(tests);
            if !passed || missing {
                state.ran.failed.push(program.alone());
            }
            state.took.push(Took { title: program.title(), processor });
        }
    };
    let done: Vec<Result<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    bar.finish_and_clear();
    done.into_iter().collect::<Result<()>>()?;
    let State { mut ran, took, .. } = state.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    ran.whole = !workspace::interrupted();
    summary(&ran, took.len());
    Ok((ran, took))
}

/// Prints how many there were, and which failed.
fn summary(ran: &Ran, programs: usize) {
    eprintln!("{} tests in {programs} programs", ran.tests.len());
    if !ran.failed.is_empty() {
        eprintln!("\n{} of them failed; alone:", ran.failed.len());
        ran.failed.iter().for_each(|command| eprintln!("    {command}"));
    }
}

fn names(running: &BTreeSet<String>) -> String {
    running.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// How a program ended.
struct Done {
    said: String,
    passed: bool,
    /// Seconds of the processors, with its children's.
    processor: f64,
}

impl Program {
    /// The crate, as in Rust.
    pub fn package(&self) -> &str {
        &self.package
    }

    /// The module of the crate's tests, where they have several.
    pub fn module(&self) -> Option<&str> {
        self.part.as_ref().and_then(|part| part.module.split("::").next())
    }

    /// A part of it.
    fn only(&self, module: &str, tests: Vec<String>, ignored: bool) -> Program {
        Program { part: Some(Part { module: module.into(), tests, ignored }), ..self.clone() }
    }

    /// While it runs.
    fn name(&self) -> String {
        match &self.part {
            Some(Part { module, ignored, .. }) => {
                let full = if *ignored { "-full" } else { "" };
                format!("{}-{}{full}", self.package, module.replace("::", "-"))
            }
            None => format!("{}{}", self.package, self.option.replace("--", "-").replace(' ', "-")),
        }
    }

    fn title(&self) -> String {
        match &self.part {
            Some(Part { module, ignored, .. }) => {
                format!("{} {module}{}", self.package, if *ignored { " (full)" } else { "" })
            }
            None => format!("{} {}", self.package, self.option.trim_start_matches('-')),
        }
    }

    /// The command that runs it alone.
    fn alone(&self) -> String {
        let part = self.part.as_ref();
        let part =
            part.map(|part| format!(" {}::{}", part.module, if part.ignored { " -- --ignored" } else { "" }));
        let package = self.package.replace('_', "-");
        format!("cargo test -p {package} {}{}", self.option, part.unwrap_or_default())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// The names of its tests, or of those that are marked `#[ignore]` alone.
    fn list(&self, ignored: bool) -> Result<Vec<String>> {
        let mut command = self.command();
        command.args(["--list", "--format", "terse"]).args(ignored.then_some("--ignored"));
        let output = command.output().with_context(|| format!("starting {}", self.executable.display()))?;
        if !output.status.success() {
            bail!("{} does not list its tests: {}", self.title(), output.status);
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(said.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_string).collect())
    }

    /// Runs it as cargo would.
    fn run(&self, logs: &Path, full: bool) -> Result<Done> {
        let log = logs.join(format!("{}.log", self.name()));
        let said = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = self.command();
        if let Some(Part { tests, ignored, .. }) = &self.part {
            command.arg("--exact").args(ignored.then_some("--ignored")).args(tests);
        }
        if full {
            command.env("FERROWIRE_FULL", "1");
        }
        // A file, and no pipe: processes that a test has left running may hold it open.
        command.stdout(said.try_clone()?).stderr(said);
        let mut child = command.spawn().with_context(|| format!("starting {}", self.executable.display()))?;
        let processor = processor(&child).unwrap_or_default();
        let status = child.wait().with_context(|| format!("waiting for {}", self.title()))?;
        let mut said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if status.code().is_none_or(|code| code != 0 && code != 101) {
            said += &format!("{}: {status}\n", self.title());
        }
        Ok(Done { said, passed: status.success(), processor })
    }
}

/// Waits for its end, and reads how many seconds of a processor it and its children have used.
fn processor(child: &Child) -> Option<f64> {
    let pid = Pid::from_raw(child.id().try_into().ok()?)?;
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    took::seconds(&child.id().to_string(), 11..15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_with_or_without_its_folder() {
        assert_eq!(package("path+file:///r/hdl#ferrowire-hdl@0.1.0").as_deref(), Some("ferrowire_hdl"));
        assert_eq!(package("path+file:///r/sim#0.1.0").as_deref(), Some("sim"));
    }

    fn artifact(kind: &str, name: &str, test: bool) -> String {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///r/sim#ferrowire-sim@0.1.0\",\
             \"manifest_path\":\"/r/sim/Cargo.toml\",\"target\":{{\"name\":\"{name}\",\"kind\":[\"{kind}\"]}},\
             \"profile\":{{\"test\":{test}}},\"executable\":\"/t/{name}-1\"}}\n"
        )
    }

    #[test]
    fn test_programs_are_told_from_what_is_built_beside_them() {
        let messages = [
            artifact("test", "all", true),
            artifact("bin", "ferrowire-sim", false),
            artifact("bin", "ferrowire-sim", true),
            artifact("example", "hello", true),
            artifact("lib", "ferrowire_sim", true),
        ];
        let found = built(&(messages.concat() + "{\"reason\":\"build-finished\",\"success\":true}\n"));
        let alone: Vec<String> = found.iter().map(Program::alone).collect();
        let wanted = ["--test all", "--bin ferrowire-sim", "--lib"];
        assert_eq!(alone, wanted.map(|option| format!("cargo test -p ferrowire-sim {option}")));
        assert_eq!((found[1].package(), &*found[1].folder), ("ferrowire_sim", Path::new("/r/sim")));
    }

    #[test]
    fn a_program_is_split_by_the_first_segments_of_its_tests() {
        let tests = ["alveo::lint::a", "alveo::synth::b", "write::c"].map(String::from);
        let found: Vec<_> = modules(&tests).collect();
        assert_eq!(found, [("alveo", tests[..2].to_vec()), ("write", tests[2..].to_vec())]);
        assert_eq!(below("alveo::synth", &tests), tests[1..2]);
        assert!(below("alve", &tests).is_empty());

        let all = built(&artifact("test", "all", true)).remove(0);
        let full = all.only("alveo::synth", below("alveo::synth", &tests), true);
        assert_eq!(full.alone(), "cargo test -p ferrowire-sim --test all alveo::synth:: -- --ignored");
        assert_eq!((full.name().as_str(), full.module()), ("ferrowire_sim-alveo-synth-full", Some("alveo")));
        assert_eq!(full.title(), "ferrowire_sim alveo::synth (full)");
        let write = all.only("write", tests[2..].to_vec(), false);
        assert_eq!(write.alone(), "cargo test -p ferrowire-sim --test all write::");
    }
}
