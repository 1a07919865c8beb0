// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreign`: tools that know nothing of this project read and run its Verilog.
//!
//! `lint`: Icarus Verilog and slang read all configurations without a warning, and find the errors of [`SEEDS`].
//! `cocotb`: `examples/cocotb-axi`, a card on AXI4 under Icarus Verilog.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{bail, Context, Result};

use crate::flow::{Flow, Manifest};
use crate::interop::Quick;
use crate::peers::debian::Apt;
use crate::{setup, workspace};

/// Options of `foreign`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Do one of the two parts alone
    #[arg(long, value_enum)]
    only: Option<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Icarus Verilog and slang read the Verilog of all configurations
    Lint,
    /// The example of examples/cocotb-axi
    Cocotb,
}

/// The example's packages; the first lines of the tool's.
const REQUIREMENTS: &str = include_str!("../../examples/cocotb-axi/requirements.txt");
const SLANG: &str = "pyslang==12.1.0";
/// The configuration that the example brings up, and that errors are seeded in.
const EXAMPLE: &str = "axi-8b";
/// The release that Icarus Verilog is of. Its programs run with the host's C library, which must be as new: 2.36.
const SUITES: &[&str] = &["bookworm"];
/// What Icarus Verilog needs and a small system may not have.
const LIBRARIES: [&str; 3] = ["libreadline.so.8", "libtinfo.so.6", "libbz2.so.1.0"];
const LIBRARY_FOLDER: &str = "lib/x86_64-linux-gnu";

/// What is run.
struct Tools {
    /// Python packages.
    python: PathBuf,
    /// Folder of `iverilog` and `vvp`, if they are not on the PATH.
    icarus: Option<PathBuf>,
}

/// A tool that reads Verilog and complains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Linter {
    Icarus,
    Slang,
}

/// Warnings that are no faults: part of the line, and why. All other warnings are.
const ACCEPTED: [(&str, &str); 1] = [(
    "unused net '_unused_ok' [-Wunused-net]",
    "a module names in this net the inputs that it does not read, so that other linters are content",
)];

/// An error put into one module of the Verilog.
struct Seed {
    what: &'static str,
    /// Changes one line; none if there is no place for it.
    change: fn(&str) -> Option<String>,
    /// Who must find it. Icarus Verilog takes inputs of the top module for nets without drivers too, so it is not asked for those.
    finders: &'static [Linter],
}

const SEEDS: [Seed; 2] = [
    Seed {
        what: "an input that is one bit narrower",
        change: narrow_an_input,
        finders: &[Linter::Icarus, Linter::Slang],
    },
    Seed { what: "an output without a driver", change: drop_a_driver, finders: &[Linter::Slang] },
];

/// Runs both parts, or one, and says so if they were skipped.
pub fn run(args: &Args) -> Result<u8> {
    match attempt(args)? {
        Quick::Ran(code) => Ok(code),
        Quick::Skipped(why) => {
            eprintln!("foreign: SKIPPED: {why}");
            Ok(0)
        }
    }
}

/// Runs both parts, or one, if the tools can be had.
pub fn attempt(args: &Args) -> Result<Quick> {
    let tools = match Tools::get() {
        Ok(tools) => tools,
        Err(_) if workspace::interrupted() => return Ok(Quick::Ran(130)),
        Err(error) => return missing(&format!("{error:#}"), env::var("CI").is_ok_and(|ci| ci == "true")),
    };
    let folder = workspace::target().join("foreign");
    if args.only != Some(Part::Cocotb) {
        lint(&tools, &folder)?;
    }
    match args.only {
        Some(Part::Lint) => Ok(Quick::Ran(0)),
        _ => cocotb(&tools, &folder).map(Quick::Ran),
    }
}

/// Where the tools cannot be had: skipped, but a fault in continuous integration.
fn missing(why: &str, ci: bool) -> Result<Quick> {
    const FIX: &str = "install iverilog, and python3 with pip and its shared library (Debian: apt-get install iverilog python3-venv libpython3-dev)";
    if ci {
        bail!("{why}; under CI=true nothing is skipped: {FIX}");
    }
    Ok(Quick::Skipped(format!("{why}; {FIX}")))
}

impl Tools {
    /// The tools, installed if they are not there.
    fn get() -> Result<Tools> {
        let packages: Vec<&str> =
            REQUIREMENTS.lines().filter(|line| !line.starts_with('#')).chain([SLANG]).collect();
        let python = setup::place("foreign", "cocotb, scapy and slang (50 MB)", &packages, |partial| {
            setup::pip_install(&packages, partial)?;
            let mut command = python(partial);
            command.args(["-c", "import cocotbext.axi, scapy, pyslang"]);
            setup::answer(&mut command).context("they are installed but do not run").map(drop)
        })?;
        let mut shared = self::python(&python);
        shared.args(["-c", "import find_libpython as f; print(f.find_libpython() or '')"]);
        if setup::answer(&mut shared)?.is_empty() {
            bail!("python3 has no shared library libpython3.*.so, which cocotb runs in");
        }
        let on_path = Command::new("iverilog").arg("-V").output().is_ok_and(|said| said.status.success());
        let icarus = match on_path {
            true => None,
            false => Some(icarus()?.join("bin")),
        };
        Ok(Tools { python, icarus })
    }

    /// Lets a command find `iverilog` and `vvp`.
    fn with_icarus(&self, mut command: Command) -> Command {
        if let Some(bin) = &self.icarus {
            let path = env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", bin.display()));
        }
        command
    }
}

/// `python3` with the packages.
fn python(packages: &Path) -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Icarus Verilog from Debian's package, without root, with a script for each program that tells it where its parts are.
fn icarus() -> Result<PathBuf> {
    setup::place("iverilog", "Icarus Verilog (10 MB)", &["iverilog"], |partial| {
        let all = partial.join("all");
        Apt::new(partial.join("apt"), SUITES)?.unpack(&["iverilog"], &all)?;
        workspace::remove_folder(&partial.join("apt"))?;
        let ivl = format!("{LIBRARY_FOLDER}/ivl");
        for folder in ["bin", "programs", LIBRARY_FOLDER] {
            fs::create_dir_all(partial.join(folder)).with_context(|| format!("creating {folder}"))?;
        }
        fs::rename(all.join("usr").join(&ivl), partial.join(&ivl))
            .with_context(|| format!("moving {ivl}"))?;
        for library in LIBRARIES {
            let name = format!("{LIBRARY_FOLDER}/{library}");
            let found = [all.join(&name), all.join("usr").join(&name)].into_iter().find(|path| path.exists());
            let found = found.with_context(|| format!("no package has {library}"))?;
            fs::copy(found, partial.join(&name)).with_context(|| format!("copying {library}"))?;
        }
        for (program, option) in [("iverilog", format!(" -B\"$here/{ivl}\"")), ("vvp", String::new())] {
            let to = partial.join("programs").join(program);
            fs::rename(all.join("usr/bin").join(program), to).with_context(|| format!("moving {program}"))?;
            let script = format!(
                "#!/bin/sh\nhere=$(cd \"$(dirname \"$0\")/..\" && pwd)\n\
                 export LD_LIBRARY_PATH=\"$here/{LIBRARY_FOLDER}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"\n\
                 exec \"$here/programs/{program}\"{option} \"$@\"\n"
            );
            let path = partial.join("bin").join(program);
            fs::write(&path, script)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
                .with_context(|| format!("writing {}", path.display()))?;
            setup::answer(Command::new(&path).arg("-V")).context("it is installed but does not run")?;
        }
        workspace::remove_folder(&all)
    })
}

/// Generates the Verilog of a configuration, below `folder`; none of it is there if that fails.
fn generate(folder: &Path, config: &str) -> Result<(PathBuf, Manifest)> {
    let flow = Flow::new(folder.join(config))?;
    let manifest = flow.generate(&["--config", config])?;
    Ok((flow.work.join("rtl"), manifest))
}

/// Both linters read all configurations, and one with errors.
fn lint(tools: &Tools, folder: &Path) -> Result<()> {
    let mut findings = Vec::new();
    for config in configurations()? {
        let begin = Instant::now();
        let (rtl, manifest) = generate(folder, &config)?;
        for linter in [Linter::Icarus, Linter::Slang] {
            let found = linter.findings(tools, &rtl, &manifest.top)?;
            findings.extend(found.iter().map(|line| format!("{config}, {linter:?}: {line}")));
        }
        if config == EXAMPLE {
            for seed in &SEEDS {
                find(tools, folder, &rtl, &manifest.top, seed)?;
            }
        }
        eprintln!("lint {config}: {} finding(s), {} s", findings.len(), begin.elapsed().as_secs());
    }
    if !findings.is_empty() {
        let shown: Vec<&str> = findings.iter().take(20).map(String::as_str).collect();
        bail!("{} finding(s) in the Verilog, for instance\n{}", findings.len(), shown.join("\n"));
    }
    Ok(())
}

/// The built-in configurations.
fn configurations() -> Result<Vec<String>> {
    let folder = workspace::root().join("hdl/configs");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Puts a seeded error into a copy, in the first module that has a place for it; each of its finders must name that module.
fn find(tools: &Tools, folder: &Path, rtl: &Path, top: &str, seed: &Seed) -> Result<()> {
    let copy = folder.join("seeded");
    workspace::remove_folder(&copy)?;
    fs::create_dir_all(&copy).with_context(|| format!("creating {}", copy.display()))?;
    let mut seeded = None;
    for file in modules(rtl)? {
        let mut text = fs::read_to_string(rtl.join(&file)).with_context(|| format!("reading {file}"))?;
        if seeded.is_none() {
            if let Some(changed) = (seed.change)(&text) {
                text = changed;
                seeded = Some(file.trim_end_matches(".v").to_string());
            }
        }
        fs::write(copy.join(&file), text).with_context(|| format!("writing {file}"))?;
    }
    fs::copy(rtl.join("files.f"), copy.join("files.f")).context("copying files.f")?;
    let module = seeded.with_context(|| format!("no module has a place for {}", seed.what))?;
    for linter in seed.finders {
        let findings = linter.findings(tools, &copy, top)?;
        if !findings.iter().any(|line| line.contains(&module)) {
            bail!("{linter:?} does not find {} in {module}: {findings:?}", seed.what);
        }
    }
    Ok(())
}

fn modules(rtl: &Path) -> Result<Vec<String>> {
    let list = rtl.join("files.f");
    let text = fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
    Ok(text.lines().map(str::to_string).collect())
}

/// Makes the first input that has several bits one bit narrower.
fn narrow_an_input(text: &str) -> Option<String> {
    let (before, after) = text.split_once("    input  wire [")?;
    let (high, rest) = after.split_once(':')?;
    let narrower = high.parse::<u32>().ok()?.checked_sub(1)?;
    Some(format!("{before}    input  wire [{narrower}:{rest}"))
}

/// Leaves out the first assignment of an output of its own that stands on one line.
fn drop_a_driver(text: &str) -> Option<String> {
    let outputs: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("output wire "))
        .filter_map(|port| port.trim_end_matches(',').rsplit(' ').next())
        .collect();
    let line = text.lines().find(|line| {
        let whole = line.trim().strip_prefix("assign ").filter(|rest| rest.contains(';'));
        whole.and_then(|rest| rest.split_once(" = ")).is_some_and(|(name, _)| outputs.contains(&name))
    })?;
    Some(text.replacen(&format!("{line}\n"), "", 1))
}

impl Linter {
    /// What it finds in the Verilog of a folder, without what is accepted.
    fn findings(self, tools: &Tools, rtl: &Path, top: &str) -> Result<Vec<String>> {
        let mut command = match self {
            Linter::Icarus => {
                let mut command = tools.with_icarus(Command::new("iverilog"));
                command.args(["-g2005", "-Wall", "-t", "null", "-s", top, "-f", "files.f"]);
                command
            }
            Linter::Slang => {
                let mut command = python(&tools.python);
                command.arg(workspace::root().join("xtask/src/foreign/slang.py"));
                command.args(["-Weverything", "--error-limit=0", "--top", top, "-f", "files.f"]);
                command
            }
        };
        let output = command.current_dir(rtl).output().with_context(|| format!("running {self:?}"))?;
        let said = [output.stdout, output.stderr].concat();
        Ok(findings(&String::from_utf8_lossy(&said), output.status.success()))
    }
}

/// The lines that are warnings or errors and not accepted; all lines if a tool failed and has none.
fn findings(said: &str, success: bool) -> Vec<String> {
    let complains = |line: &&str| [": warning: ", "error: ", "syntax error"].iter().any(|c| line.contains(c));
    let complaints: Vec<&str> = said.lines().filter(complains).collect();
    if complaints.is_empty() && !success {
        return std::iter::once("it failed").chain(said.lines()).map(str::to_string).collect();
    }
    let fault = |line: &&&str| !ACCEPTED.iter().any(|(accepted, _)| line.contains(accepted));
    complaints.iter().filter(fault).map(|line| line.to_string()).collect()
}

/// Runs the example; what it says goes to a file, and its last lines to the standard error.
fn cocotb(tools: &Tools, folder: &Path) -> Result<u8> {
    const SHOWN: usize = 12;
    let (rtl, _) = generate(folder, EXAMPLE)?;
    let log = folder.join("cocotb.log");
    let file = fs::File::create(&log).with_context(|| format!("creating {}", log.display()))?;
    let mut command = tools.with_icarus(python(&tools.python));
    command.arg(workspace::root().join("examples/cocotb-axi/run.py")).arg(&rtl);
    command.arg("--build").arg(folder.join("cocotb")).stdin(Stdio::null());
    command.stdout(file.try_clone().context("sharing the log")?).stderr(file);
    let code = workspace::exit_code(command)?;
    let said = fs::read_to_string(&log).with_context(|| format!("reading {}", log.display()))?;
    for line in last(&said, if code == 0 { SHOWN } else { 4 * SHOWN }) {
        eprintln!("{line}");
    }
    if code != 0 {
        eprintln!("examples/cocotb-axi failed; all that it said is in {}", log.display());
    }
    Ok(code)
}

fn last(text: &str, lines: usize) -> Vec<&str> {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_skipped_and_a_fault_under_ci() {
        assert!(
            matches!(missing("no network", false).unwrap(), Quick::Skipped(why) if why.contains("no network"))
        );
        let error = missing("no network", true).unwrap_err().to_string();
        assert!(error.contains("no network") && error.contains("iverilog"), "{error}");
    }

    #[test]
    fn every_warning_is_a_finding_unless_it_is_accepted() {
        let said = "a.v:4: warning: Port 2 (b) of sub expects 8 bits, got 4.\na.v:4:        : Padding 4 high bits\n\
                    b.v:5:10: warning: unused net '_unused_ok' [-Wunused-net]\nBuild succeeded: 0 errors, 1 warning\n\
                    c.v:3:13: warning: net 'u' is never driven [-Wundriven-net]\nd.v:7: syntax error\n";
        let found = findings(said, true);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(["a.v:4", "c.v:3", "d.v:7"].iter().zip(&found).all(|(at, line)| line.starts_with(at)));
        assert!(findings("b.v:1: warning: unused net '_unused_ok' [-Wunused-net]\n", true).is_empty());
        // A tool that ends without a word has not read the Verilog.
        assert_eq!(findings("Killed\n", false), ["it failed", "Killed"]);
    }

    #[test]
    fn errors_are_seeded_in_one_line() {
        let module =
            "module m (\n    input  wire clk,\n    input  wire [7:0] a,\n    output wire [7:0] b\n);\n    \
                      assign c = 1'd0;\n    assign b = a; // x.rs:1\nendmodule\n";
        assert_eq!(
            narrow_an_input(module).unwrap(),
            module.replace("input  wire [7:0]", "input  wire [6:0]")
        );
        assert_eq!(drop_a_driver(module).unwrap(), module.replace("    assign b = a; // x.rs:1\n", ""));
        assert_eq!(narrow_an_input("module m (\n    input  wire a\n);"), None);
        assert_eq!(drop_a_driver("module m (\n    input  wire a\n);"), None);
    }

    #[test]
    fn every_built_in_configuration_is_read() {
        let names = configurations().unwrap();
        assert!(names.iter().any(|name| name == EXAMPLE) && names.len() > 1, "{names:?}");
    }
}
