// SPDX-License-Identifier: MIT OR Apache-2.0
//! What came of tests, read from what `cargo test` prints, and kept in `target/tests.json` for `report`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

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

/// Which crate each test program is of, by the program's file name: of what `cargo test --no-run --message-format json` prints.
pub fn programs(messages: &str) -> HashMap<String, String> {
    #[derive(Deserialize)]
    struct Artifact {
        package_id: String,
        executable: Option<PathBuf>,
    }
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Artifact>(line).ok());
    let named = artifacts.filter_map(|artifact| {
        let program = artifact.executable?.file_name()?.to_string_lossy().into_owned();
        Some((program, package(&artifact.package_id)?))
    });
    named.collect()
}

/// A package's name, as in Rust, of its ID: `path+file:///folder#name@version`, or `path+file:///name#version`.
fn package(id: &str) -> Option<String> {
    let (source, rest) = id.split_once('#')?;
    let name = match rest.split_once('@') {
        Some((name, _)) => name,
        None => source.rsplit('/').next()?,
    };
    Some(name.replace('-', "_"))
}

/// Takes lines of `cargo test` as they come.
pub struct Reader {
    programs: HashMap<String, String>,
    /// The crate whose tests run.
    package: Option<String>,
    /// What has ended.
    pub tests: Vec<Outcome>,
}

impl Reader {
    /// At the beginning.
    pub fn new(programs: HashMap<String, String>) -> Reader {
        Reader { programs, package: None, tests: Vec::new() }
    }

    /// Takes a line.
    pub fn line(&mut self, line: &str) {
        let line = line.trim();
        if line.starts_with("Running ") && line.ends_with(')') {
            let program = line.rsplit_once('(').map(|(_, path)| path.trim_end_matches(')'));
            let program = program.and_then(|path| Path::new(path).file_name()?.to_str());
            self.package = program.and_then(|program| self.programs.get(program).cloned());
        } else if line.starts_with("Doc-tests ") {
            self.package = None;
        }
        let Some(package) = &self.package else { return };
        let Some((name, end)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) else {
            return;
        };
        let end = match end {
            "ok" => End::Passed,
            "FAILED" => End::Failed,
            end if end.starts_with("ignored") => End::Ignored,
            _ => return,
        };
        let name = name.trim_end_matches(" - should panic").to_string();
        self.tests.push(Outcome { package: package.clone(), name, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_apart_by_the_program_they_are_in() {
        let messages = "{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///r/hdl#ferrowire-hdl@0.1.0\",\
                        \"executable\":\"/t/debug/deps/ferrowire_hdl-1\"}\n\
                        {\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///r/sim#0.1.0\",\
                        \"executable\":\"/t/debug/deps/write-2\"}\n\
                        {\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///r/sim#0.1.0\",\"executable\":null}\n\
                        {\"reason\":\"build-finished\",\"success\":true}\n";
        let mut reader = Reader::new(programs(messages));
        let said = "     Running unittests src/lib.rs (target/debug/deps/ferrowire_hdl-1)\n\nrunning 2 tests\n\
                    test a::b ... ok\ntest c - should panic ... FAILED\ntest result: FAILED. 1 passed\n\
                    \x20    Running tests/write.rs (target/debug/deps/write-2)\ntest slow ... ignored, takes long\ntest odd ... what\n\
                    \x20  Doc-tests ferrowire_hdl\ntest src/lib.rs - x (line 3) ... ok\n";
        said.lines().for_each(|line| reader.line(line));
        let of = |package: &str, name: &str, end| Outcome { package: package.into(), name: name.into(), end };
        let wanted = [
            of("ferrowire_hdl", "a::b", End::Passed),
            of("ferrowire_hdl", "c", End::Failed),
            of("sim", "slow", End::Ignored),
        ];
        assert_eq!(reader.tests, wanted);
    }
}
