// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts instructions by callgrind: each case is run by a process of its own under it, which counts inside [`counted`] alone. The figures are exact and the
//! same in each run of one build.
//!
//! `-- --check` compares with the recorded counts, which are of one compiler, and fails where one is more than 5 % above its own, or if this is another
//! compiler. `-- --record` writes them anew.

use std::fmt::Write;
use std::hint::black_box;
use std::process::{Command, ExitCode};

/// A case, of which `run` does what is counted.
pub struct Case<R> {
    pub name: &'static str,
    pub what: &'static str,
    /// What a round's figure is divided by.
    pub each: usize,
    pub run: R,
}

/// The cases of a program.
pub struct Bench<R: 'static> {
    pub cases: &'static [Case<R>],
    /// Rounds of a case, each of which is counted once.
    pub rounds: u64,
    /// Where the counts are kept, one a line.
    pub recorded: &'static str,
    /// The command that runs this program.
    pub command: &'static str,
    /// Runs all rounds of a case.
    pub run: fn(&Case<R>),
}

/// How far above its recorded count a case may be, in percent.
const MARGIN: u64 = 5;

/// The only function that callgrind looks into.
#[inline(never)]
pub fn counted<T>(f: impl FnOnce() -> T) -> T {
    black_box(f())
}

/// Instructions in [`counted`], all rounds together.
fn measure(name: &str) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
    let out = std::env::temp_dir().join(format!("ferrowire-callgrind-{}-{name}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counting::counted*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(["--run", name])
        .output()
        .map_err(|e| {
            format!("callgrind counts the instructions, and valgrind does not start ({e}): install valgrind")
        })?;
    let text = std::fs::read_to_string(&out).unwrap_or_default();
    let _ = std::fs::remove_file(&out);
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let total =
        text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let total = total.and_then(|number| number.trim().parse().ok()).filter(|total| *total > 0);
    total.ok_or_else(|| format!("{name}: callgrind counted nothing"))
}

/// The compiler, as the file names it: its version, and what it compiles for.
fn compiler() -> Result<String, String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let said = Command::new(&rustc).arg("-vV").output().map_err(|e| format!("{rustc} -vV: {e}"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    match (said.lines().next(), host) {
        (Some(version), Some(host)) => Ok(format!("{version} for {host}")),
        _ => Err(format!("{rustc} -vV does not say its version and host")),
    }
}

impl<R> Bench<R> {
    /// The count of a case in the file.
    fn kept(&self, text: &str, name: &str) -> Result<u64, String> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|count| count.trim().parse().ok())
            .ok_or_else(|| format!("{}: no count of {name}; write it with --record", self.recorded))
    }

    /// Refuses to compare with the counts of another compiler.
    fn same_compiler(&self, text: &str, compiler: &str) -> Result<(), String> {
        let of = text.lines().find_map(|line| line.strip_prefix("compiler ")).unwrap_or("no compiler");
        match of == compiler {
            true => Ok(()),
            false => Err(format!(
                "{} has the counts of {of}, and this is {compiler}; take that one, or record with {} -- --record",
                self.recorded, self.command
            )),
        }
    }

    /// Measures all cases, prints them, and does with the counts what was asked for.
    fn all(&self, check: bool, record: bool) -> Result<(), String> {
        let kept = match check {
            true => std::fs::read_to_string(self.recorded).map_err(|e| format!("{}: {e}", self.recorded))?,
            false => String::new(),
        };
        let compiler = compiler()?;
        if check {
            self.same_compiler(&kept, &compiler)?;
        }
        let mut new = format!(
            "# Instructions of each case of instructions.rs. Written by: {} -- --record\ncompiler {compiler}\n",
            self.command,
        );
        let mut worse = Vec::new();
        println!("| case | instructions |\n|---|---|");
        for Case { name, what, each, .. } in self.cases {
            let count = measure(name)? / (self.rounds * *each as u64);
            println!("| {what} | {count} |");
            let _ = writeln!(new, "{name} {count}");
            if check {
                let kept = self.kept(&kept, name)?;
                if count * 100 > kept * (100 + MARGIN) {
                    worse.push(format!("{name}: {count} instructions, {kept} are recorded"));
                } else if count * (100 + MARGIN) < kept * 100 {
                    eprintln!("{name}: {count} instructions, {kept} are recorded; record the new counts");
                }
            }
        }
        if record {
            std::fs::write(self.recorded, new).map_err(|e| format!("{}: {e}", self.recorded))?;
        }
        match worse.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "more than {MARGIN} % above the counts in {}:\n  {}\nMake the path as short as it was; or, for a reason, write the new \
                 counts with --record",
                self.recorded,
                worse.join("\n  ")
            )),
        }
    }

    /// The program.
    pub fn main(&self) -> ExitCode {
        let args: Vec<String> = std::env::args().collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        if let Some(at) = args.iter().position(|arg| arg == "--run") {
            let case = args.get(at + 1).and_then(|name| self.cases.iter().find(|case| case.name == *name));
            (self.run)(case.expect("a case's name after --run"));
            return ExitCode::SUCCESS;
        }
        if has("--test") {
            // `cargo test --benches`: each case once, uncounted.
            self.cases.iter().for_each(self.run);
            return ExitCode::SUCCESS;
        }
        match self.all(has("--check"), has("--record")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }
    }
}
