// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sim/testplan.toml`: what is required, and the tests that show it.

use serde::Deserialize;

/// Where it is, from the root.
pub const PATH: &str = "sim/testplan.toml";

/// All requirements.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestPlan {
    /// In the order of the file.
    #[serde(default)]
    pub requirement: Vec<Requirement>,
}

/// One of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// By which it is known.
    pub id: String,
    /// What it says.
    pub text: String,
    /// As `crate::test_name`, with modules in between or not.
    pub tests: Vec<String>,
    /// Why only `cargo xtask test --full` shows it: it needs Yosys, nextpnr or hours. Without a reason, the default tier shows it.
    pub full: Option<String>,
}

/// The crate of a test of the plan, and its function's name; `None` if it is not of that form.
pub fn parts(test: &str) -> Option<(&str, &str)> {
    let (package, rest) = test.split_once("::")?;
    Some((package, rest.rsplit("::").next().unwrap_or(rest)))
}
