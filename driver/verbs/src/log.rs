// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log: a line on the standard error for each refusal, if `FERROWIRE_LOG` is set.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// The environment variable that turns the log on: any text but `0`.
pub const VARIABLE: &str = "FERROWIRE_LOG";

/// Whether the log is on. The environment is read once. No thread waits for another one: a forked child would wait for ever.
pub fn enabled() -> bool {
    /// 0: not read yet.
    static ON: AtomicU8 = AtomicU8::new(0);
    match ON.load(Ordering::Relaxed) {
        0 => {
            let on = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
            ON.store(if on { 2 } else { 1 }, Ordering::Relaxed);
            on
        }
        known => known == 2,
    }
}

/// Writes a line. Programs of several processes share a terminal, so it names the process.
pub fn line(text: fmt::Arguments<'_>) {
    let line = format!("ferrowire[{}]: {text}\n", std::process::id());
    // In one piece, so that lines of two processes do not mix, and without the lock of Rust's own, which another thread of the parent may have held.
    // A line that cannot be written is lost.
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
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
