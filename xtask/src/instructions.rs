// SPDX-License-Identifier: MIT OR Apache-2.0
//! `instructions`: counts those of the driver's data path, and compares with what is recorded for one compiler.

use std::env;
use std::fs;
use std::process::Command;

use anyhow::{bail, Context, Result};

use crate::interop::Quick;
use crate::{cargo, workspace};

/// What counts, and where the counts are, from the root.
const BENCHES: [(&str, &str); 2] = [
    ("ferrowire", "driver/benches/instructions.txt"),
    ("ferrowire-verbs", "driver/verbs/benches/instructions.txt"),
];

/// Counts, and fails where one is 5 % above what is recorded. It needs valgrind, and the compiler that the counts are of; under `CI=true` nothing is
/// skipped.
pub fn attempt() -> Result<Quick> {
    let ci = env::var("CI").is_ok_and(|ci| ci == "true");
    match missing()? {
        Some(why) if ci => bail!("{why}; under CI=true nothing is skipped"),
        Some(why) => Ok(Quick::Skipped(why)),
        None => run().map(Quick::Ran),
    }
}

/// The same without looking for what it needs first.
pub fn run() -> Result<u8> {
    let mut worst = 0;
    for (package, _) in BENCHES {
        let arguments = ["bench", "-p", package, "--bench", "instructions", "--", "--check"];
        worst = worst.max(workspace::exit_code(cargo(arguments))?);
    }
    Ok(worst)
}

/// What is not there.
fn missing() -> Result<Option<String>> {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(Some("valgrind, which counts, is not on the PATH; install it".into()));
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output().context("running rustc -vV")?;
    let said = String::from_utf8_lossy(&said.stdout);
    for bench in BENCHES {
        let path = workspace::root().join(bench.1);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        if let Some(why) = other_compiler(bench, &text, &said) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Why the counts are not those of the compiler that says this.
fn other_compiler((package, file): (&str, &str), recorded: &str, said: &str) -> Option<String> {
    let version = said.lines().next().unwrap_or_default();
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let own = format!("{version} for {host}");
    let of = recorded.lines().find_map(|line| line.strip_prefix("compiler ")).unwrap_or("no compiler");
    (own != of).then(|| {
        format!("{file} has the counts of {of}, and this is {own}; take that one, or record with `cargo bench -p {package} -- --record`")
    })
}

#[cfg(test)]
mod tests {
    use super::{other_compiler, BENCHES};

    #[test]
    fn counts_are_compared_with_those_of_the_same_compiler_only() {
        let said = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n";
        let kept = "# Instructions\ncompiler rustc 1.95.0 (59807616e 2026-04-14) for x86_64-unknown-linux-gnu\nwrite-1 100\n";
        assert_eq!(other_compiler(BENCHES[0], kept, said), None);
        for other in [said.replace("1.95.0", "1.96.0"), said.replace("x86_64", "aarch64"), String::new()] {
            let why = other_compiler(BENCHES[0], kept, &other).unwrap();
            assert!(why.contains("1.95.0") && why.contains("--record"), "{why}");
        }
        assert!(other_compiler(BENCHES[0], "", said).is_some());
    }
}
