// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds Verilator.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::cache::target_dirs;
use crate::error::BuildError;

/// Oldest release that works, as (major, minor).
const OLDEST: (u32, u32) = (5, 6);

/// An installed Verilator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verilator {
    /// The program to run.
    pub program: PathBuf,
    /// `VERILATOR_ROOT`: the folder that holds `include/verilated.h`.
    pub root: PathBuf,
    /// What it calls itself; part of a cached model's key.
    pub version: String,
}

impl Verilator {
    /// A command that runs it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("VERILATOR_ROOT", &self.root);
        command
    }

    fn at(program: PathBuf, root: PathBuf) -> Result<Self, String> {
        let config = root.join("include/verilated_config.h");
        let config = std::fs::read_to_string(&config).map_err(|e| format!("{}: {e}", config.display()))?;
        let said = Command::new(&program)
            .arg("--version")
            .env("VERILATOR_ROOT", &root)
            .output()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let said = String::from_utf8_lossy(&said.stdout).trim().to_string();
        // The wheel's --version prints no number; its header does.
        let number =
            config.lines().find_map(|l| l.strip_prefix("#define VERILATOR_VERSION ")).unwrap_or_default();
        let number = number.trim().trim_matches('"').split(' ').next().unwrap_or_default();
        let parts = parse(number).ok_or_else(|| format!("{}: version `{number}`?", program.display()))?;
        if parts < OLDEST {
            return Err(format!("{} is {number}", program.display()));
        }
        Ok(Self { program, root, version: format!("{number} ({said})") })
    }
}

fn parse(number: &str) -> Option<(u32, u32)> {
    let (major, minor) = number.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Finds Verilator 5.006 or newer: in `FERROWIRE_VERILATOR_ROOT`, or else on the `PATH`, or else where
/// `cargo xtask setup` puts it. Remembered until that variable or the `PATH` changes.
pub fn find() -> Result<Verilator, BuildError> {
    static FOUND: Mutex<Option<(String, Verilator)>> = Mutex::new(None);
    let key = format!("{:?} {:?}", env::var_os("FERROWIRE_VERILATOR_ROOT"), env::var_os("PATH"));
    let mut found = FOUND.lock().unwrap_or_else(|e| e.into_inner());
    match &*found {
        Some((at, verilator)) if *at == key => Ok(verilator.clone()),
        _ => {
            let verilator = search()?;
            *found = Some((key, verilator.clone()));
            Ok(verilator)
        }
    }
}

fn search() -> Result<Verilator, BuildError> {
    if let Some(root) = env::var_os("FERROWIRE_VERILATOR_ROOT") {
        return in_root(Path::new(&root))
            .map_err(|e| BuildError::NoVerilator { looked: format!("FERROWIRE_VERILATOR_ROOT: {e}") });
    }
    let mut looked = Vec::new();
    match on_path() {
        Ok(verilator) => return Ok(verilator),
        Err(e) => looked.push(e),
    }
    for target in target_dirs() {
        // The layout of the PyPI wheel under `pip install --target`.
        let root = target.join("tools/verilator/verilator");
        match in_root(&root) {
            Ok(verilator) => return Ok(verilator),
            Err(e) => looked.push(e),
        }
    }
    Err(BuildError::NoVerilator { looked: looked.join("; ") })
}

/// `verilator_bin` needs no Perl, so it is preferred; a distribution puts it two folders up from the root.
fn in_root(root: &Path) -> Result<Verilator, String> {
    let candidates =
        [root.join("bin/verilator_bin"), root.join("../../bin/verilator_bin"), root.join("bin/verilator")];
    let program = candidates
        .into_iter()
        .find(|p| p.exists())
        .ok_or_else(|| format!("nothing in {}", root.display()))?;
    Verilator::at(program, root.to_path_buf())
}

fn on_path() -> Result<Verilator, String> {
    let answer = Command::new("verilator")
        .args(["--getenv", "VERILATOR_ROOT"])
        .output()
        .map_err(|_| "no `verilator` on the PATH".to_string())?;
    let root = String::from_utf8_lossy(&answer.stdout).trim().to_string();
    if !answer.status.success() || root.is_empty() {
        return Err("`verilator` on the PATH names no VERILATOR_ROOT".to_string());
    }
    in_root(Path::new(&root)).or_else(|_| Verilator::at("verilator".into(), root.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(parse("5.006"), Some((5, 6)));
        assert_eq!(parse("5.49"), Some((5, 49)));
        assert!(parse("4.228").unwrap() < OLDEST);
        assert_eq!(parse("rev"), None);
    }
}
