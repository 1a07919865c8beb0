// SPDX-License-Identifier: MIT OR Apache-2.0
//! `lint`: what of a card's netlist makes its clock slow, beside a budget that can only go down.
//!
//! `ferrowire-rtl-gen --lint` walks the netlist of the description, which takes a second; no tool maps it. [`BUDGET`] has the number of findings that
//! each configuration has today, by rule and pair of blocks. More findings fail, and so does a number that is too high: it hides the next finding.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{bail, Context, Result};
use serde::Deserialize;

use crate::{cargo, workspace};

/// Configurations that are looked at.
const CONFIGS: [&str; 2] = ["generic-64b", "generic-8b"];
/// The budget's file.
pub const BUDGET: &str = "hdl/lint.toml";
/// What lowers it.
const LOWER: &str = "cargo xtask lint --write";

/// Options of `lint`.
#[derive(clap::Args)]
pub struct Args {
    /// Lower the budget to what is found; a number never goes up
    #[arg(long)]
    write: bool,
}

/// What `ferrowire-rtl-gen --lint` finds.
#[derive(Clone, Debug, Deserialize)]
struct Finding {
    rule: String,
    from: String,
    to: String,
    signal: String,
    place: String,
    text: String,
}

impl Finding {
    fn pair(&self) -> String {
        format!("{} -> {}", self.from, self.to)
    }
}

#[derive(Deserialize)]
struct Findings {
    findings: Vec<Finding>,
}

/// Numbers by rule and pair of blocks, of each configuration.
type Budget = BTreeMap<String, Rules>;
type Rules = BTreeMap<String, BTreeMap<String, usize>>;

/// Shows all findings, and compares or lowers the budget.
pub fn run(args: &Args) -> Result<u8> {
    let found = findings()?;
    let mut out = std::io::stdout();
    for (config, found) in &found {
        for finding in found {
            let Finding { rule, signal, place, text, .. } = finding;
            let _ = writeln!(out, "{place}: {config}: {rule}: {}: `{signal}`: {text}", finding.pair());
        }
    }
    let path = workspace::root().join(BUDGET);
    let budget = read(&path)?;
    if args.write {
        workspace::write_whole(&path, &text(&lowered(&budget, &found)))?;
    }
    let wrong = compare(&read(&path)?, &found);
    wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
    Ok(u8::from(!wrong.is_empty()))
}

/// What `check` has to say.
pub fn check() -> Result<Vec<String>> {
    Ok(compare(&read(&workspace::root().join(BUDGET))?, &findings()?))
}

fn findings() -> Result<Vec<(&'static str, Vec<Finding>)>> {
    let of = |config| -> Result<_> {
        let mut command = cargo([
            "run",
            "--quiet",
            "--bin",
            "ferrowire-rtl-gen",
            "--",
            "--lint",
            "--json",
            "--config",
            config,
        ]);
        let said = command.stderr(Stdio::inherit()).output().context("running cargo")?;
        if !said.status.success() {
            bail!("the netlist of {config} could not be looked at");
        }
        let found: Findings = serde_json::from_slice(&said.stdout).context("reading the findings")?;
        Ok((config, found.findings))
    };
    CONFIGS.into_iter().map(of).collect()
}

fn read(path: &Path) -> Result<Budget> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

/// By rule and pair of blocks.
fn grouped(found: &[Finding]) -> BTreeMap<(&str, String), Vec<&Finding>> {
    let mut groups: BTreeMap<(&str, String), Vec<&Finding>> = BTreeMap::new();
    found.iter().for_each(|f| groups.entry((f.rule.as_str(), f.pair())).or_default().push(f));
    groups
}

/// What is above the budget, and where the budget is above what there is.
fn compare(budget: &Budget, found: &[(&str, Vec<Finding>)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (config, found) in found {
        let groups = grouped(found);
        let budget = budget.get(*config).into_iter().flatten();
        let allowed: BTreeMap<(&str, String), usize> = budget
            .flat_map(|(rule, pairs)| pairs.iter().map(move |(pair, n)| ((rule.as_str(), pair.clone()), *n)))
            .collect();
        for ((rule, pair), findings) in &groups {
            let most = allowed.get(&(*rule, pair.clone())).copied().unwrap_or(0);
            if findings.len() <= most {
                continue;
            }
            let mut told = format!("{config}: {rule}: {pair}: {}, at most {most} allowed", findings.len());
            for Finding { signal, place, text, .. } in findings {
                let _ = write!(told, "\n    {place}: `{signal}`: {text}");
            }
            wrong.push(told);
        }
        for ((rule, pair), most) in &allowed {
            let there = groups.get(&(*rule, pair.clone())).map_or(0, Vec::len);
            if there < *most {
                wrong.push(format!(
                    "{BUDGET}: {config}: {rule}: {pair}: {there}, but {most} are allowed: lower it, by `{LOWER}`"
                ));
            }
        }
    }
    let unknown = budget.keys().filter(|config| !found.iter().any(|(known, _)| known == config));
    wrong.extend(unknown.map(|config| format!("{BUDGET}: {config} is not looked at: remove it")));
    wrong
}

/// The budget without what it has too much.
fn lowered(budget: &Budget, found: &[(&str, Vec<Finding>)]) -> Budget {
    let mut lower = Budget::new();
    for (config, found) in found {
        let groups = grouped(found);
        for (rule, pairs) in budget.get(*config).into_iter().flatten() {
            for (pair, most) in pairs {
                let there = groups.get(&(rule.as_str(), pair.clone())).map_or(0, Vec::len).min(*most);
                if there > 0 {
                    let rules = lower.entry(config.to_string()).or_default();
                    rules.entry(rule.clone()).or_default().insert(pair.clone(), there);
                }
            }
        }
    }
    lower
}

fn text(budget: &Budget) -> String {
    let mut text = format!(
        "# SPDX-License-Identifier: MIT OR Apache-2.0\n\
         # Findings of `cargo xtask lint` that a card has today, by rule and pair of blocks. A number can only go down, by `{LOWER}`.\n"
    );
    for (config, rules) in budget {
        for (rule, pairs) in rules {
            let _ = writeln!(text, "\n[{config}.{rule}]");
            for (pair, most) in pairs {
                let _ = writeln!(text, "\"{pair}\" = {most}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: &str, from: &str, to: &str) -> Finding {
        let part = |text: &str| text.to_string();
        let (signal, place, text) =
            (part("in_ready"), part("hdl/src/a.rs:7"), part("passes through 3 blocks"));
        Finding { rule: part(rule), from: part(from), to: part(to), signal, place, text }
    }

    fn budget(text: &str) -> Budget {
        toml::from_str(text).unwrap()
    }

    fn found() -> Vec<(&'static str, Vec<Finding>)> {
        let two = [finding("handshake", "a.b", "c"), finding("handshake", "a.b", "c")];
        vec![("large", two.into_iter().chain([finding("loads", "a", "a")]).collect()), ("small", Vec::new())]
    }

    const EXACT: &str = "[large.handshake]\n\"a.b -> c\" = 2\n[large.loads]\n\"a -> a\" = 1\n";

    #[test]
    fn the_budget_is_the_number_of_findings_neither_less_nor_more() {
        assert_eq!(compare(&budget(EXACT), &found()), [""; 0]);
        let less = compare(&budget(&EXACT.replace("= 2", "= 1")), &found());
        let line = "\n    hdl/src/a.rs:7: `in_ready`: passes through 3 blocks";
        assert_eq!(less, [format!("large: handshake: a.b -> c: 2, at most 1 allowed{line}{line}")]);
        let none = compare(&Budget::new(), &found());
        assert_eq!(none.len(), 2);
        assert!(none[1].starts_with("large: loads: a -> a: 1, at most 0 allowed\n"), "{none:?}");
        let more = compare(&budget(&EXACT.replace("= 1", "= 3")), &found());
        let wanted = "hdl/lint.toml: large: loads: a -> a: 1, but 3 are allowed: lower it, by `cargo xtask lint --write`";
        assert_eq!(more, [wanted]);
    }

    #[test]
    fn a_pair_or_a_configuration_that_is_no_more_is_told() {
        let old =
            compare(&budget(&format!("{EXACT}\"b -> b\" = 1\n[gone.loads]\n\"a -> a\" = 1\n")), &found());
        assert_eq!(old.len(), 2, "{old:?}");
        assert!(old[0].contains("loads: b -> b: 0, but 1 are allowed"), "{old:?}");
        assert_eq!(old[1], "hdl/lint.toml: gone is not looked at: remove it");
        // Findings of one configuration do not count in another.
        let other = compare(&budget(&EXACT.replace("large", "small")), &found());
        assert_eq!(other.len(), 4, "{other:?}");
    }

    #[test]
    fn writing_lowers_the_budget_and_never_raises_it() {
        let high =
            budget("[large.handshake]\n\"a.b -> c\" = 5\n\"d -> e\" = 1\n[gone.loads]\n\"a -> a\" = 1\n");
        let low = lowered(&high, &found());
        assert_eq!(low, budget("[large.handshake]\n\"a.b -> c\" = 2\n"));
        // What it does not allow it does not learn either.
        assert_eq!(compare(&low, &found()).len(), 1);
        let tight = budget("[large.handshake]\n\"a.b -> c\" = 1\n");
        assert_eq!(lowered(&tight, &found()), tight);
        assert_eq!(budget(&text(&budget(EXACT))), budget(EXACT));
    }
}
