// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where things are, and running children.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// Set by Ctrl-C.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C was pressed.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// The workspace's root.
pub fn root() -> PathBuf {
    let package =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().map(Path::to_path_buf).unwrap_or(package)
}

/// The target folder; `ferrowire-verilator` looks for the tools by the same rule.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR").filter(|d| !d.is_empty()) {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// Writes a file, whole or not at all.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    let partial = path.with_file_name(name);
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("writing {}", path.display()))
}

/// Removes a file if it is there: so that a run that fails leaves no older result that looks like its own.
pub fn remove_old(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.with_context(|| format!("removing {}", path.display())),
    }
}

/// Removes a folder with all that is in it, if it is there.
pub fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done.with_context(|| format!("removing {}", path.display())),
    }
}

/// What a command has left as JSON; none if it has not.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let read = serde_json::from_str(&text);
    read.with_context(|| format!("{} is of another version: remove it, or make it again", path.display()))
        .map(Some)
}

/// Runs a child to its end and returns its exit code; 130 if it was interrupted, 1 if it was killed otherwise.
pub fn exit_code(mut command: Command) -> Result<u8> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.status().map(code).with_context(|| format!("running {name}"))
}

/// The exit code that tells how a child ended.
pub fn code(status: ExitStatus) -> u8 {
    match status.code() {
        _ if interrupted() => 130,
        Some(code) => u8::try_from(code).unwrap_or(1),
        None => 1,
    }
}

/// What is checked out, and whether that was changed.
pub fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]).current_dir(root());
    match git.output() {
        Ok(said) if said.status.success() => String::from_utf8_lossy(&said.stdout).trim().to_string(),
        _ => "unknown".into(),
    }
}
