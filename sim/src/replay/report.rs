// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Report`]: what came of every case, for people and for programs.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use super::compare::Difference;
use super::scenario::Role;

/// Differences of a case that are printed; JSON has them all.
const SHOWN: usize = 20;

/// What came of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing differs.
    Passed,
    /// Something does.
    Failed,
    /// It needs what is not built yet, and was not played.
    Unsupported,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Unsupported => "unsupported",
        })
    }
}

/// A case at one end of a card of one configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Its name.
    pub case: String,
    /// The end that the card played.
    pub role: Role,
    /// Configuration of the card.
    pub config: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Frames of the card that were compared.
    pub frames: usize,
    /// Clock cycles it took, set-up and a while of waiting for too much included.
    pub cycles: u64,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// Everything that was played.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The folder.
    pub folder: String,
    /// In the order in which they were played.
    pub results: Vec<Entry>,
    /// How many passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// How many were not played.
    pub unsupported: usize,
}

impl Report {
    /// Of nothing yet.
    pub fn new(folder: String) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Adds an entry.
    pub fn add(&mut self, entry: Entry) {
        *match entry.outcome {
            Outcome::Passed => &mut self.passed,
            Outcome::Failed => &mut self.failed,
            Outcome::Unsupported => &mut self.unsupported,
        } += 1;
        self.results.push(entry);
    }

    /// A line for each entry, its differences below it, and the sum.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let width = self.results.iter().map(|entry| entry.case.len()).max().unwrap_or(0);
        let config = self.results.iter().map(|entry| entry.config.len()).max().unwrap_or(0);
        for Entry { case, role, config: name, outcome, missing, frames, differences, .. } in &self.results {
            write!(out, "{outcome:<11}  {case:<width$}  {role:<9}  {name:<config$}")?;
            match missing {
                Some(missing) => writeln!(out, "  not built yet: {missing}")?,
                None => writeln!(out, "  frames compared: {frames}")?,
            }
            for difference in differences.iter().take(SHOWN) {
                writeln!(out, "    {difference}")?;
            }
            if differences.len() > SHOWN {
                let more = differences.len() - SHOWN;
                writeln!(out, "    and {more} more; --case {case} --json has them all")?;
            }
        }
        writeln!(out, "\n{} passed, {} failed, {} unsupported", self.passed, self.failed, self.unsupported)
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare::Place;
    use super::*;

    #[test]
    fn the_last_line_counts_and_differences_stand_below_their_case() {
        let mut report = Report::new("x".into());
        for (outcome, missing) in
            [(Outcome::Passed, None), (Outcome::Failed, None), (Outcome::Unsupported, Some("verb X".into()))]
        {
            let differences = match outcome {
                Outcome::Failed => vec![Difference::new(Place::Memory, "head", "1", "2"); SHOWN + 3],
                _ => Vec::new(),
            };
            report.add(Entry {
                case: "a_case".into(),
                role: Role::Responder,
                config: "generic-8b".into(),
                outcome,
                missing,
                frames: 2,
                cycles: 100,
                differences,
            });
        }
        let mut text = Vec::new();
        report.print(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with("\n1 passed, 1 failed, 1 unsupported\n"), "{text}");
        assert!(text.contains("FAILED       a_case  responder  generic-8b  frames compared: 2\n"), "{text}");
        assert_eq!(text.matches("    memory: head: expected 1, got 2\n").count(), SHOWN);
        assert!(text.contains("and 3 more") && text.contains("not built yet: verb X"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["results"][1]["differences"][0]["place"], "memory");
        assert_eq!((&json["failed"], &json["results"][2]["outcome"]), (&1.into(), &"unsupported".into()));
    }
}
