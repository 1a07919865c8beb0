// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log: a line on the standard error for each refusal, if `FERROWIRE_LOG` is set.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

/// The environment variable that turns the log on: any text but `0`.
pub const VARIABLE: &str = "FERROWIRE_LOG";

/// Whether the log is on. The environment is read once.
pub fn enabled() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0"))
}

/// Writes a line. Programs of several processes share a terminal, so it names the process.
pub fn line(text: fmt::Arguments<'_>) {
    // In one piece, so that lines of two processes do not mix. There is no one to tell if this fails.
    let line = format!("ferrowire[{}]: {text}\n", std::process::id());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Writes a line if the log is on.
macro_rules! say {
    ($($text:tt)*) => {
        if $crate::log::enabled() {
            $crate::log::line(format_args!($($text)*));
        }
    };
}

pub(crate) use say;
