// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test programs, as many at a time as there are processors.
//!
//! `cargo test` runs one behind the other, and many of ours have one long test at their end, or wait for a model to be compiled, while the other
//! processors have nothing to do.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{waitid, Pid, WaitId, WaitIdOptions};
use serde::Deserialize;

use crate::outcomes::{self, Outcome};
use crate::workspace;

/// One of them, as cargo has built it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The crate, as in Rust.
    package: String,
    /// The file with the tests, without its ending, or the crate's own.
    target: String,
    /// By which cargo chooses it among those of the package.
    option: String,
    executable: PathBuf,
    /// The package's folder, where cargo runs it.
    folder: PathBuf,
    /// Of its tests, those in this module that are left out otherwise; all others without it.
    left_out: Option<&'static str>,
}

/// Tests that need Yosys, of each of these programs of the simulator in one module.
const YOSYS: [(&str, &str); 2] = [("alveo", "synth::"), ("board", "mapped::")];

/// Those of these programs that need Yosys.
///
/// # Errors
/// One is not there any more.
pub fn with_yosys(programs: &[Program]) -> Result<Vec<Program>> {
    let of = |(target, module)| {
        let own = |program: &&Program| program.package == "ferrowire_sim" && program.target == target;
        let program = programs.iter().find(own).with_context(|| format!("no test program `{target}`"))?;
        Ok(Program { left_out: Some(module), ..program.clone() })
    };
    YOSYS.into_iter().map(of).collect()
}

/// What came of all.
pub struct Ran {
    /// Of each that ended.
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
        Some(Program {
            package,
            target: name,
            option,
            executable: artifact.executable?,
            folder,
            left_out: None,
        })
    });
    let mut programs: Vec<Program> = programs.collect();
    // One that takes long begins while others are left to run beside it; these take longest, and a wrong guess costs nothing but time.
    programs.sort_by_key(|program| !LONG.contains(&program.target.as_str()));
    programs
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

/// Begun first.
const LONG: [&str; 4] = ["board", "reset", "soak", "lockstep"];

/// What a program has used when it ended.
struct Took {
    title: String,
    /// Seconds of the processors, its children's too.
    processor: f64,
}

/// Shared by those who start them.
struct State {
    waiting: std::vec::IntoIter<Program>,
    running: BTreeSet<String>,
    ran: Ran,
    took: Vec<Took>,
}

/// Runs all, and goes on behind those that fail.
pub fn run(programs: Vec<Program>) -> Result<Ran> {
    let logs = workspace::target().join("tests");
    workspace::remove_folder(&logs)?;
    fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    let at_a_time = std::thread::available_parallelism().map_or(1, |n| n.get()).min(programs.len());
    eprintln!(
        "{} test programs, {at_a_time} at a time; each one's lines are in {} while it runs",
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
            let done = program.run(&logs);
            let mut state = lock();
            state.running.remove(&program.name());
            bar.set_message(names(&state.running));
            bar.inc(1);
            let (said, passed, processor) = done?;
            bar.suspend(|| {
                let mut stdout = std::io::stdout().lock();
                let _ = writeln!(stdout, "     Ran {}\n{said}", program.title());
            });
            let tests: Vec<Outcome> = outcomes::read(&program.package, &said).collect();
            // One that is asked for certain tests has some.
            let none = program.left_out.is_some() && tests.is_empty();
            state.ran.tests.extend(tests);
            if !passed || none {
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
    summary(&ran, took);
    Ok(ran)
}

/// Says who took longest, and who failed.
fn summary(ran: &Ran, mut took: Vec<Took>) {
    took.sort_by(|a, b| b.processor.total_cmp(&a.processor));
    let all: f64 = took.iter().map(|took| took.processor).sum();
    eprintln!(
        "{} tests in {} programs, {all:.0} s of processor time; most of it by",
        ran.tests.len(),
        took.len()
    );
    for Took { title, processor } in took.iter().take(12) {
        eprintln!("{processor:8.0}  {title}");
    }
    if !ran.failed.is_empty() {
        eprintln!("\n{} of them failed; alone:", ran.failed.len());
        ran.failed.iter().for_each(|command| eprintln!("    {command}"));
    }
}

fn names(running: &BTreeSet<String>) -> String {
    running.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

impl Program {
    /// While it runs.
    fn name(&self) -> String {
        let module = self.left_out.map(|module| format!("-{}", module.trim_end_matches(':')));
        format!("{}{}", self.target, module.unwrap_or_default())
    }

    fn title(&self) -> String {
        let module = self.left_out.map(|module| format!(", {module}"));
        format!("{}, {}{}", self.package, self.option.trim_start_matches('-'), module.unwrap_or_default())
    }

    /// The command that runs it alone.
    fn alone(&self) -> String {
        let left_out = self.left_out.map(|module| format!(" {module} -- --ignored"));
        let package = self.package.replace('_', "-");
        format!("cargo test -p {package} {}{}", self.option, left_out.unwrap_or_default())
    }

    /// Runs it as cargo would: what it said, whether it passed, and the seconds of processors that it took.
    fn run(&self, logs: &Path) -> Result<(String, bool, f64)> {
        let log = logs.join(format!("{}-{}.log", self.package, self.name()));
        let said = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = Command::new(&self.executable);
        if let Some(module) = self.left_out {
            command.args([module, "--ignored"]);
        }
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        // A file, and no pipe: processes that a test has left behind may hold it open.
        command.stdout(said.try_clone()?).stderr(said);
        let mut child = command.spawn().with_context(|| format!("starting {}", self.executable.display()))?;
        let processor = processor(&child).unwrap_or_default();
        let status = child.wait().with_context(|| format!("waiting for {}", self.title()))?;
        let mut said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if status.code().is_none_or(|code| code != 0 && code != 101) {
            said += &format!("{}: {status}\n", self.title());
        }
        Ok((said, status.success(), processor))
    }
}

/// Waits for its end, and tells how many seconds it and its children have had a processor: `utime` to `cstime` of proc_pid_stat(5).
fn processor(child: &Child) -> Option<f64> {
    let pid = Pid::from_raw(child.id().try_into().ok()?)?;
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    let ticks = fields.skip(11).take(4).map_while(|field| field.parse::<u64>().ok());
    Some(ticks.sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_with_or_without_its_folder() {
        assert_eq!(package("path+file:///r/hdl#ferrowire-hdl@0.1.0").as_deref(), Some("ferrowire_hdl"));
        assert_eq!(package("path+file:///r/sim#0.1.0").as_deref(), Some("sim"));
    }

    #[test]
    fn test_programs_are_told_from_what_is_built_beside_them() {
        let of = |kind: &str, name: &str, test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///r/sim#ferrowire-sim@0.1.0\",\
                 \"manifest_path\":\"/r/sim/Cargo.toml\",\"target\":{{\"name\":\"{name}\",\"kind\":[\"{kind}\"]}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":\"/t/{name}-1\"}}\n"
            )
        };
        let messages = [
            of("test", "write", true),
            of("bin", "ferrowire-sim", false),
            of("bin", "ferrowire-sim", true),
            of("example", "hello", true),
            of("lib", "ferrowire_sim", true),
            of("test", "soak", true),
        ];
        let found = built(&(messages.concat() + "{\"reason\":\"build-finished\",\"success\":true}\n"));
        let alone: Vec<String> = found.iter().map(Program::alone).collect();
        let wanted = ["--test soak", "--test write", "--bin ferrowire-sim", "--lib"];
        assert_eq!(alone, wanted.map(|option| format!("cargo test -p ferrowire-sim {option}")));
        assert_eq!((found[1].package.as_str(), &*found[1].folder), ("ferrowire_sim", Path::new("/r/sim")));
        assert!(with_yosys(&found).is_err());
        let [alveo, board] = ["alveo", "board"].map(|name| built(&of("test", name, true)));
        let [needs_yosys, _] = &with_yosys(&[found, alveo, board].concat()).unwrap()[..] else {
            panic!("two")
        };
        assert_eq!(needs_yosys.alone(), "cargo test -p ferrowire-sim --test alveo synth:: -- --ignored");
        assert_eq!(
            (needs_yosys.name().as_str(), needs_yosys.title().as_str()),
            ("alveo-synth", "ferrowire_sim, test alveo, synth::")
        );
    }
}
