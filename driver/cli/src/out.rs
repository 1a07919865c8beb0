// SPDX-License-Identifier: MIT OR Apache-2.0
//! The standard output: a reader that is gone ends the command, and is no panic.

use std::io::Write as _;

use serde::Serialize;

use crate::failure::Failure;

/// Writes text, as it is.
pub fn text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes a line.
pub fn line(line: &str) -> Result<(), Failure> {
    text(&format!("{line}\n"))
}

/// Writes JSON, for people and programs.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&rendered(value, serde_json::to_string_pretty)?)
}

/// Writes JSON in one line, for programs that read as it comes.
pub fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    line(&rendered(value, serde_json::to_string)?)
}

fn rendered<T: Serialize>(
    value: &T,
    render: impl FnOnce(&T) -> serde_json::Result<String>,
) -> Result<String, Failure> {
    render(value).map_err(|error| Failure::Output(error.into()))
}
