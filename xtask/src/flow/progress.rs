// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a program is that writes a log.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line that says what is being done: a spinner on a terminal, else one line at the beginning.
pub struct Progress {
    bar: ProgressBar,
    what: String,
}

impl Progress {
    pub fn new(what: &str) -> Progress {
        if !std::io::stderr().is_terminal() {
            eprintln!("{what} ...");
            return Progress { bar: ProgressBar::hidden(), what: what.into() };
        }
        let bar = ProgressBar::new_spinner().with_message(what.to_string());
        bar.set_style(
            ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}").expect("a valid template"),
        );
        bar.enable_steady_tick(Duration::from_millis(100));
        Progress { bar, what: what.into() }
    }

    /// Takes a line of the log: the passes of Yosys and of nextpnr are steps.
    pub fn line(&self, line: &str) {
        let pass = line
            .split_once("Executing ")
            .filter(|(number, _)| number.starts_with(|c: char| c.is_ascii_digit()));
        let step = match pass {
            Some((_, pass)) => Some(pass.split(" (").next().unwrap_or(pass)),
            None => line.strip_prefix("Info: ").filter(|l| l.ends_with("..") || l.contains("ing ")),
        };
        if let Some(step) = step {
            self.bar.set_message(format!("{}: {}", self.what, step.trim_end_matches('.')));
        }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
