// SPDX-License-Identifier: MIT OR Apache-2.0
//! `report`: what the other commands have measured, as one HTML page.
//!
//! It measures nothing itself. Each figure is of the commit that it was measured at, and one that is not what is checked out is marked. The
//! page has neither scripts nor anything that it loads.

mod page;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::Deserialize;

use crate::outcomes::{self, End, Outcomes};
use crate::plan::{self, Requirement, TestPlan};
use crate::{bitstream, synth, workspace};

/// Options of `report`.
#[derive(clap::Args)]
pub struct Args {
    /// Where the page goes; target/report.html if this is not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// All that the page tells.
struct Facts {
    /// What is checked out.
    commit: String,
    synth: Vec<synth::Report>,
    bitstreams: Vec<bitstream::Report>,
    bench: Option<Bench>,
    loss: Option<Bench>,
    plan: Vec<Requirement>,
    tests: Option<Outcomes>,
}

/// What `bench` writes; its figures of the synthesis are left where they are from.
#[derive(Deserialize)]
struct Bench {
    #[serde(default)]
    commit: String,
    #[serde(default)]
    results: Vec<Figure>,
    #[serde(default)]
    missing: Vec<Missing>,
}

/// A figure of it.
#[derive(Deserialize)]
struct Figure {
    name: String,
    config: String,
    host_latency_cycles: u64,
    qps: usize,
    value: f64,
    unit: String,
    budget: Option<f64>,
    bound_by: Option<String>,
    met: Option<bool>,
}

/// One that could not be measured.
#[derive(Deserialize)]
struct Missing {
    name: String,
    config: String,
    why: String,
}

/// What is known of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    /// A test that shows it failed.
    Fails,
    /// Not all of its tests were run.
    NotRun,
    /// All passed.
    Holds,
}

/// Writes the page.
pub fn run(args: &Args) -> Result<u8> {
    let target = workspace::target();
    let plan = workspace::root().join(plan::PATH);
    let plan = fs::read_to_string(&plan).with_context(|| format!("reading {}", plan.display()))?;
    let plan: TestPlan = toml::from_str(&plan).with_context(|| format!("reading {}", plan::PATH))?;
    let facts = Facts {
        commit: workspace::commit(),
        synth: all(&target.join("synth"))?,
        bitstreams: all(&target.join("bitstream"))?,
        bench: workspace::read_json(&target.join("bench/report.json"))?,
        loss: workspace::read_json(&target.join("bench/loss.json"))?,
        plan: plan.requirement,
        tests: workspace::read_json(&outcomes::path())?,
    };
    let out = args.out.clone().unwrap_or_else(|| target.join("report.html"));
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    workspace::write_whole(&out, &page::page(&facts))?;
    for (what, command) in facts.lacks() {
        eprintln!("nothing yet of {what}: {command}");
    }
    println!("{}", out.display());
    Ok(0)
}

/// Results of one kind, by name.
fn all<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.with_context(|| format!("reading {}", folder.display()))?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = paths.iter().map(|path| workspace::read_json(path));
    read.filter_map(Result::transpose).collect()
}

impl Facts {
    /// What there is nothing of, and the command that makes it.
    fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        let measured = self.bench.as_ref().is_some_and(|bench| !bench.results.is_empty());
        [
            ("cells and paths", SYNTH, self.synth.is_empty()),
            ("bitstreams", BITSTREAM, self.bitstreams.is_empty()),
            ("cycles", BENCH, !measured),
            ("goodput", LOSS, self.loss.is_none()),
            ("tests", TEST, self.tests.is_none()),
        ]
        .into_iter()
        .filter_map(|(what, command, lacks)| lacks.then_some((what, command)))
        .collect()
    }

    /// What is known of a requirement.
    fn status(&self, requirement: &Requirement) -> Status {
        requirement.tests.iter().map(|test| self.of_test(test)).min().unwrap_or(Status::NotRun)
    }

    /// What is known of a test, as the plan names it. Several of a crate may have its name.
    fn of_test(&self, test: &str) -> Status {
        let Some((package, name)) = plan::parts(test) else { return Status::NotRun };
        let outcomes = self.tests.iter().flat_map(|tests| &tests.tests);
        let own = outcomes
            .filter(|outcome| outcome.package == package && outcome.name.rsplit("::").next() == Some(name));
        let ends = own.map(|outcome| match outcome.end {
            End::Failed => Status::Fails,
            End::Ignored => Status::NotRun,
            End::Passed => Status::Holds,
        });
        ends.min().unwrap_or(Status::NotRun)
    }
}

const SYNTH: &str = "cargo xtask synth --config generic-64b --target xcup";
const BITSTREAM: &str = "cargo xtask bitstream ecpix5";
const BENCH: &str = "cargo xtask bench";
const LOSS: &str = "cargo xtask bench --loss";
const TEST: &str = "cargo xtask test";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::stat::{Block, Cost};
    use crate::flow::Clock;
    use crate::outcomes::Outcome;

    fn facts() -> Facts {
        let requirement = |id: &str, tests: &[&str]| Requirement {
            id: id.into(),
            full: None,
            text: format!("What <{id}> says"),
            tests: tests.iter().map(|test| test.to_string()).collect(),
        };
        let outcome = |name: &str, end| Outcome { package: "c".into(), name: name.into(), end };
        Facts {
            commit: "abc".into(),
            synth: Vec::new(),
            bitstreams: Vec::new(),
            bench: None,
            loss: None,
            plan: vec![
                requirement("one", &["c::m::good"]),
                requirement("two", &["c::good", "c::bad"]),
                requirement("three", &["c::good", "c::gone"]),
                requirement("four", &["c::slow"]),
                requirement("five", &["other::good"]),
            ],
            tests: Some(Outcomes {
                commit: "abc".into(),
                whole: true,
                tests: vec![
                    outcome("x::good", End::Passed),
                    outcome("bad", End::Failed),
                    outcome("slow", End::Ignored),
                ],
            }),
        }
    }

    #[test]
    fn a_requirement_holds_when_all_its_tests_have_passed() {
        let facts = facts();
        let known: Vec<Status> = facts.plan.iter().map(|one| facts.status(one)).collect();
        use Status::*;
        assert_eq!(known, [Holds, Fails, NotRun, NotRun, NotRun]);
        let page = page::page(&facts);
        assert!(page.contains("<b>1 of 5</b>requirements hold"), "{page}");
        assert!(page.contains("What &lt;two&gt; says"));
    }

    #[test]
    fn what_was_not_measured_is_said_with_the_command_that_does() {
        let mut facts = facts();
        facts.tests = None;
        let page = page::page(&facts);
        for command in [SYNTH, BITSTREAM, BENCH, LOSS, TEST] {
            assert!(page.contains(command), "{command}");
        }
        assert_eq!(facts.lacks().len(), 5);
    }

    #[test]
    fn figures_of_another_commit_are_marked() {
        let figure = r#"{ "commit": "COMMIT", "missing": [], "results": [{ "name": "write_64", "config": "generic-8b", "host_latency_cycles": 0,
            "qps": 1, "value": 3.5, "unit": "cycles", "budget": 4.0, "bound": null, "bound_by": null, "met": true }] }"#;
        for (commit, marked) in [("abc", false), ("def", true)] {
            let mut facts = facts();
            facts.bench = Some(serde_json::from_str(&figure.replace("COMMIT", commit)).unwrap());
            assert_eq!(page::page(&facts).contains("not what is checked out"), marked, "{commit}");
        }
    }

    #[test]
    fn blocks_hang_below_each_other_and_clocks_have_their_slack() {
        let block = |name: &str, lut| Block {
            name: name.into(),
            module: String::new(),
            depth: 0,
            instances: 1,
            cost: Cost { lut, ..Cost::default() },
            longest_lut_path: Some(3),
        };
        let mut facts = facts();
        let synth = r#"{ "config": "generic-8b", "set": ["qps=8"], "commit": "abc", "version": "1", "layout_hash": "2", "target": "ecp5", "tool": "Yosys",
            "lut": 10, "lutram": 1, "ff": 2, "ebr": 3, "dsp": 0, "longest_lut_path": 12,
            "path": { "luts": 12, "from": "a", "to": "b", "through": [] }, "wanted_mhz": 50.0, "blocks": [] }"#;
        let mut synth: synth::Report = serde_json::from_str(synth).unwrap();
        synth.blocks = vec![block("top", 10), block("top/a", 7), block("top/a/b", 4), block("top/c", 3)];
        facts.synth = vec![synth];
        let bitstream = r#"{ "board": "ecpix5", "part": "p", "commit": "abc", "version": "1", "layout_hash": "2", "tools": ["Yosys", "nextpnr"],
            "lut": 1, "lutram": 0, "ff": 0, "dsp": 0, "routed": true, "clocks": [], "utilization": {} }"#;
        let mut bitstream: bitstream::Report = serde_json::from_str(bitstream).unwrap();
        bitstream.clocks = vec![Clock { name: "clk".into(), mhz: 62.5, wanted_mhz: 50.0 }];
        facts.bitstreams = vec![bitstream];
        let page = page::page(&facts);
        // 20 ns are there, 16 ns are taken.
        assert!(page.contains("4.00"), "{page}");
        // Two hold others, and c is behind the end of what a holds.
        let blocks: String =
            page.split("all, flattened").nth(1).unwrap().split("Blocks are").next().unwrap().into();
        let at = |what: &str| blocks.find(what).unwrap_or_else(|| panic!("{what}: {blocks}"));
        let ends: Vec<usize> = blocks.match_indices("</details>").map(|(at, _)| at).collect();
        assert_eq!((blocks.matches("<details").count(), ends.len()), (2, 2));
        assert!(at(">b</span>") < ends[0] && ends[0] < at(">c</span>") && at(">c</span>") < ends[1]);
    }
}
