// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of a mapped card beside what they may be at most, in the report that `bench` writes its figures to as well.
//!
//! `target/bench/report.json` has the keys `commit`, `results` and `missing` of the bench, and `synthesis`: an object with an entry
//! for each configuration and target, `generic-64b-xcup`, which has the `commit` that was mapped, and `results`, each with `name`, `value`, `unit`,
//! `budget` and `met`. Whoever writes leaves what is not his as it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{json, Map, Value};

use super::timing::Late;
use crate::flow::stat::Cost;
use crate::workspace;

/// A figure, under a name that stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// What it may be at most.
    pub budget: Option<f64>,
    /// Whether it is within its budget.
    pub met: Option<bool>,
}

impl Figure {
    fn new(name: &'static str, value: f64, unit: &'static str, budget: Option<f64>) -> Figure {
        let value = (value * 1000.0).round() / 1000.0;
        Figure { name, value, unit, budget, met: budget.map(|budget| value <= budget) }
    }

    /// What is wrong, if it is over its budget.
    pub fn missed(&self) -> Option<String> {
        let Figure { name, value, unit, .. } = self;
        let budget = self.budget.filter(|_| self.met == Some(false))?;
        Some(format!("{name} is {value} {unit}, at most {budget} are wanted"))
    }
}

/// A clock's period in ns, of a frequency in MHz.
fn period(mhz: f64) -> f64 {
    1000.0 / mhz
}

/// What the estimate of `generic-64b` may come to: today's values, rounded up a little, so that no change makes it worse unnoticed. The target is
/// a period of 4.0 ns and no endpoint over it.
const LUT: f64 = 53_500.0;
const WORST_NS: f64 = 4.4;
const OVER_PERIOD: f64 = 150.0;

/// The figures of a card. `name` is its configuration with the fields that are set over it. Cells and the estimate have budgets if the card is
/// `generic-64b` as it is built in; the clock's budget is the one that the configuration wants. `late` is the estimate before placement.
/// `clocks` are the estimate after placing, and the clock after routing.
pub fn figures(
    name: &str,
    target: &str,
    cost: &Cost,
    path: u32,
    late: Option<Late>,
    clocks: [Option<f64>; 2],
    wanted_mhz: f64,
) -> Vec<Figure> {
    let large = (name, target) == ("generic-64b", "xcup");
    let mut figures = vec![
        Figure::new("lut", cost.lut as f64, "LUT", large.then_some(LUT)),
        Figure::new("ff", cost.ff as f64, "FF", None),
        Figure::new("longest_lut_path", path.into(), "LUT levels", None),
    ];
    if let Some(Late { worst_ns, endpoints, over }) = late {
        figures.extend([
            Figure::new("worst_ns", worst_ns, "ns before placement", large.then_some(WORST_NS)),
            Figure::new("endpoints", endpoints as f64, "endpoints", None),
            Figure::new("endpoints_over_period", over as f64, "endpoints", large.then_some(OVER_PERIOD)),
        ]);
    }
    for (name, value) in [("bram18", cost.bram18), ("ebr", cost.ebr)] {
        figures.extend(value.map(|value| Figure::new(name, value as f64, "block RAM", None)));
    }
    // The estimate has no budget: it says what routing may come to.
    for (name, mhz, budget) in [
        ("placed_clock_period", clocks[0], None),
        ("clock_period", clocks[1], Some((period(wanted_mhz) * 1000.0).round() / 1000.0)),
    ] {
        figures.extend(mhz.map(|mhz| Figure::new(name, period(mhz), "ns", budget)));
    }
    figures
}

/// Wires that more than one net wants where the router comes furthest: none, or the design has no wires.
pub fn contested(wires: u64) -> Figure {
    Figure::new("contested_wires", wires as f64, "wires", Some(0.0))
}

/// Puts figures into the report, in the place of older ones of the same configuration and target.
pub fn report(name: &str, target: &str, figures: &[Figure]) -> Result<PathBuf> {
    let path = workspace::target().join("bench/report.json");
    report_in(&path, &format!("{name}-{target}"), &workspace::commit(), figures)?;
    Ok(path)
}

fn report_in(path: &Path, entry: &str, commit: &str, figures: &[Figure]) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut report = match path.exists() {
        false => Map::new(),
        true => fs::read_to_string(path)
            .map_err(anyhow::Error::from)
            .and_then(|text| Ok(serde_json::from_str(&text)?))
            .with_context(|| format!("reading {}; remove it to begin a new one", path.display()))?,
    };
    let synthesis = report.entry("synthesis").or_insert_with(|| json!({}));
    let synthesis = synthesis.as_object_mut().context("`synthesis` of the report is no object")?;
    synthesis.insert(entry.into(), json!({ "commit": commit, "results": figures }));
    workspace::write_whole(path, &(serde_json::to_string_pretty(&Value::Object(report))? + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_budgets_in_the_built_in_card_alone_and_what_is_over_one_is_told() {
        let cost = Cost { lut: LUT as u64 + 1, ff: 5, bram18: Some(900), ..Cost::default() };
        let late = Late { worst_ns: 9.25, endpoints: 48_000, over: OVER_PERIOD as usize };
        let of = |name: &str| figures(name, "xcup", &cost, 12, Some(late), [None, None], 250.0);
        let large = of("generic-64b");
        assert_eq!(
            large.iter().map(|f| f.name).collect::<Vec<_>>(),
            ["lut", "ff", "longest_lut_path", "worst_ns", "endpoints", "endpoints_over_period", "bram18"]
        );
        let missed: Vec<String> = large.iter().filter_map(Figure::missed).collect();
        assert_eq!(
            missed,
            [
                format!("lut is {} LUT, at most {LUT} are wanted", LUT + 1.0),
                format!("worst_ns is 9.25 ns before placement, at most {WORST_NS} are wanted")
            ]
        );
        assert_eq!((large[1].met, large[2].met, large[5].met), (None, None, Some(true)));
        assert!(of("generic-64b+qps=64").iter().all(|figure| figure.budget.is_none()));
    }

    #[test]
    fn a_clock_is_told_as_its_period() {
        let cost = Cost { ebr: Some(165), ..Cost::default() };
        let told = figures("generic-8b", "ecp5", &cost, 10, None, [Some(61.0), Some(62.5)], 62.5);
        let clock = |name: &str| told.iter().find(|figure| figure.name == name).unwrap().clone();
        assert_eq!((clock("placed_clock_period").value, clock("placed_clock_period").met), (16.393, None));
        assert_eq!((clock("clock_period").value, clock("clock_period").met), (16.0, Some(true)));
        let slow = figures("generic-8b", "ecp5", &cost, 10, None, [None, Some(62.4)], 62.5);
        let slow: Vec<String> = slow.iter().filter_map(Figure::missed).collect();
        assert_eq!(slow, ["clock_period is 16.026 ns, at most 16 are wanted"]);
    }

    #[test]
    fn what_is_not_of_the_synthesis_stays_as_it_is() {
        let path = workspace::target().join(format!("tmp/report-{}.json", std::process::id()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, r#"{ "commit": "a", "results": [1], "synthesis": { "x-ecp5": 2, "y-xcup": 3 } }"#)
            .unwrap();
        let cost = Cost { lut: 7, ..Cost::default() };
        report_in(&path, "x-ecp5", "b", &figures("x", "ecp5", &cost, 1, None, [None, None], 1.0)).unwrap();
        let now: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!((&now["commit"], &now["results"]), (&json!("a"), &json!([1])));
        assert_eq!(now["synthesis"]["y-xcup"], 3);
        assert_eq!(now["synthesis"]["x-ecp5"]["commit"], "b");
        assert_eq!(now["synthesis"]["x-ecp5"]["results"][0]["value"], 7.0);
    }
}
