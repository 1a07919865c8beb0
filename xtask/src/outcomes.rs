// SPDX-License-Identifier: MIT OR Apache-2.0
//! What came of tests, read from what test programs print, and kept in `target/tests.json` for `report`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::workspace;

/// A run of the tests.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// What was tested.
    pub commit: String,
    /// It came to its end; a failure ends it before.
    pub whole: bool,
    /// Every test that ended, in that order.
    pub tests: Vec<Outcome>,
}

/// A test that ended.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its crate, whose name is written as in Rust.
    pub package: String,
    /// Its name, with modules.
    pub name: String,
    /// How it ended.
    pub end: End,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// As it should.
    Passed,
    /// Not so.
    Failed,
    /// It was not run, as its source wants it.
    Ignored,
}

/// Where it is kept.
pub fn path() -> PathBuf {
    workspace::target().join("tests.json")
}

impl Outcomes {
    /// Keeps them.
    pub fn keep(&self) -> Result<()> {
        workspace::write_whole(&path(), &(serde_json::to_string_pretty(self)? + "\n"))
    }
}

/// The tests of a crate that ended, of what their program printed.
pub fn read<'a>(package: &'a str, said: &'a str) -> impl Iterator<Item = Outcome> + 'a {
    said.lines().filter_map(move |line| {
        let (name, end) = line.trim().strip_prefix("test ")?.rsplit_once(" ... ")?;
        let end = match end {
            "ok" => End::Passed,
            "FAILED" => End::Failed,
            end if end.starts_with("ignored") => End::Ignored,
            _ => return None,
        };
        let name = name.trim_end_matches(" - should panic").to_string();
        Some(Outcome { package: package.to_string(), name, end })
    })
}

/// Forgets that a test was left out of one run if another one had it.
pub fn forget_left_out(tests: &mut Vec<Outcome>) {
    let key = |test: &Outcome| (test.package.clone(), test.name.clone());
    let ran: BTreeSet<_> = tests.iter().filter(|test| test.end != End::Ignored).map(key).collect();
    tests.retain(|test| test.end != End::Ignored || !ran.contains(&key(test)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_prints_tells_how_each_test_ended() {
        let said = "\nrunning 3 tests\ntest a::b ... ok\ntest c - should panic ... FAILED\ntest slow ... ignored, takes long\n\
                    test odd ... what\ntest result: FAILED. 1 passed\n";
        let of = |name: &str, end| Outcome { package: "ferrowire_hdl".into(), name: name.into(), end };
        let wanted = [of("a::b", End::Passed), of("c", End::Failed), of("slow", End::Ignored)];
        assert_eq!(read("ferrowire_hdl", said).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn what_one_run_left_out_and_another_had_counts_as_that_one_says() {
        let of = |package: &str, name: &str, end| Outcome { package: package.into(), name: name.into(), end };
        let mut tests = vec![
            of("a", "x", End::Ignored),
            of("a", "y", End::Ignored),
            of("b", "x", End::Ignored),
            of("a", "x", End::Failed),
            of("a", "z", End::Passed),
        ];
        forget_left_out(&mut tests);
        let left: Vec<_> = tests.iter().map(|test| (&*test.package, &*test.name, test.end)).collect();
        let wanted = [
            ("a", "y", End::Ignored),
            ("b", "x", End::Ignored),
            ("a", "x", End::Failed),
            ("a", "z", End::Passed),
        ];
        assert_eq!(left, wanted);
    }
}
