// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placing and routing of a mapped design by nextpnr.
//!
//! A device most of whose block RAMs are in use is placed twice, for these ([`memories`]). Several seeds may be tried, of which the placement with the
//! shortest wires is routed.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::memories;
use super::router::{self, Clock, Rounds, Routed};
use super::Flow;

/// A mapped design.
pub struct Design<'a> {
    /// Its netlist, in the flow's folder.
    pub json: &'a str,
    /// Its constraints, there too.
    pub lpf: &'a str,
    /// nextpnr's options for the device.
    pub device: &'a [String],
    /// The clock of all nets to which the constraints give none.
    pub mhz: Option<f64>,
    /// Most block RAMs of an LFE5UM5G-85F are in use, and get sites that are looked for.
    pub crowded: bool,
}

/// What is to be done with it.
pub struct Wishes<'a> {
    /// Of the placer.
    pub seed: u32,
    /// So many placements, with that seed and those behind it.
    pub tries: u32,
    /// Route it.
    pub route: bool,
    /// And write what a bitstream is made of.
    pub config: Option<&'a str>,
}

/// What came of it.
pub struct Placed {
    /// nextpnr and its version.
    pub placer: String,
    /// The seed of the placement that was kept.
    pub seed: u32,
    /// The clocks, as estimated before routing.
    pub clocks: Vec<Clock>,
    /// What the router's report says, when it has come to an end.
    pub routed: Option<Routed>,
    /// What the router did, as far as it has come.
    pub rounds: Option<Rounds>,
}

/// Places the design, and routes it where that is wanted.
pub fn place(flow: &Flow, design: &Design<'_>, wishes: &Wishes<'_>) -> Result<Placed> {
    let placer = flow.placer()?.0;
    let common = |json: &str, log: &str, seed: u32| -> Result<Command> {
        let mut command = flow.placer()?.1;
        command.args(design.device).args(["--json", json, "--lpf", design.lpf]);
        command.args(["--seed", &seed.to_string(), "--timing-allow-fail"]);
        if let Some(mhz) = design.mhz {
            command.args(["--freq", &mhz.to_string()]);
        }
        // The other placer's wires are a third longer where three quarters of the cells are in use.
        command.args(["--placer", "static", "--quiet", "--log", &format!("{log}.log")]);
        Ok(command)
    };
    let mut json = design.json;
    if design.crowded {
        let mut first = common(json, "place", wishes.seed)?;
        first.args(["--no-route", "--write", "placed.json"]);
        flow.logged("place", "placing, for the block RAMs", first)?;
        let sites = memories::choose(&flow.read("placed.json")?, wishes.seed).context("in placed.json")?;
        let (before, after) = (sites.before, sites.after);
        eprintln!("wires of block RAMs: {before} tiles after placing, {after} on other sites");
        flow.write("sites.json", &sites.fix(&flow.read(json)?).with_context(|| format!("in {json}"))?)?;
        json = "sites.json";
    }
    let mut best: Option<(u32, Vec<Clock>, f64)> = None;
    for seed in (0..wishes.tries).map(|n| wishes.seed.wrapping_add(n)) {
        let mut second = common(json, "sites", seed)?;
        second.args(["--router", "router2", "--no-route", "--write", "tried.json"]);
        let log = flow.logged("sites", "placing", second)?;
        let wires = wires(&log).context("sites.log tells no length of wires")?;
        let clocks = router::estimates(&log);
        let slowest = router::slowest(&clocks).context("sites.log tells no clock")?;
        eprintln!("seed {seed}: {wires:.0} tiles of wires, {slowest}");
        if best.as_ref().is_none_or(|(_, _, shortest)| wires < *shortest) {
            best = Some((seed, clocks, wires));
            let (tried, kept) = (flow.work.join("tried.json"), flow.work.join("to-route.json"));
            fs::rename(tried, kept).context("keeping the placement")?;
        }
    }
    let (seed, clocks, _) = best.context("no placement was wanted")?;
    let mut placed = Placed { placer, seed, clocks, routed: None, rounds: None };
    if !wishes.route {
        return Ok(placed);
    }
    let prepared = router::with_settings(&flow.read("to-route.json")?, router::ROUTER)?;
    flow.write("to-route.json", &prepared)?;
    let mut command = common("to-route.json", "route", seed)?;
    // Nets of the latest paths would not give way to others, and where wires are few nothing ends then.
    command.args(["--no-pack", "--no-place", "--no-tmdriv", "--report", "route.json"]);
    if let Some(config) = wishes.config {
        command.args(["--textcfg", config]);
    }
    let mut rounds = Rounds::default();
    let ended = flow.watched("route", "routing", command, &mut |line| rounds.stalls(line))?;
    placed.rounds = Some(rounds);
    if ended.is_some() {
        placed.routed = Some(router::routed(&flow.read("route.json")?).context("reading route.json")?);
    }
    Ok(placed)
}

/// How long the wires of the design are, as placed: half the perimeters of the boxes round the pins of nets, in tiles.
fn wires(log: &str) -> Option<f64> {
    let of = |line: &str| line.rsplit_once("wirelen = ")?.1.trim().parse().ok();
    log.lines().rev().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_wires_is_the_last_that_the_log_tells() {
        let log = "Info:   at iteration #1: temp = 0.0, timing cost = 1256, wirelen = 553517\nInfo: \n\
                   Info:   at iteration #15: temp = 0.0, timing cost = 2279, wirelen = 527688 \nInfo: done\n";
        assert_eq!((wires(log), wires("Info: nothing\n")), (Some(527_688.0), None));
    }
}
