// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placing and routing of a mapped design by nextpnr.
//!
//! A device most of whose block RAMs are in use is placed twice, for these ([`memories`]). Several seeds may be tried, of which the placement with the
//! shortest wires is routed. Where the router does not come to an end, LUTs are left free where wires are short, and it is placed anew ([`spread`]).

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use ferrowire_boards::nextpnr;

use super::memories;
use super::router::{self, Clock, Rounds, Routed};
use super::spread::Spread;
use super::Flow;
use crate::workspace;

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
    /// Leave LUTs free: beside the block RAMs of a crowded device, and where wires are short if the router does not come to an end, which is so
    /// often placed anew.
    pub spread: Option<u32>,
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
    /// LUTs that were left free.
    pub left_free: usize,
}

impl Placed {
    /// Calls clocks what their nets are told to be.
    pub fn rename_clocks(&mut self, name: &dyn Fn(&str) -> Option<String>) {
        let routed = self.routed.iter_mut().flat_map(|routed| &mut routed.clocks);
        for clock in self.clocks.iter_mut().chain(routed) {
            if let Some(name) = name(&clock.name) {
                clock.name = name;
            }
        }
    }
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
    let mut spread = Spread::default();
    if design.crowded {
        let mut first = common(json, "place", wishes.seed)?;
        first.args(["--no-route", "--write", "placed.json"]);
        flow.logged("place", "placing, for the block RAMs", first)?;
        let placed = flow.read("placed.json")?;
        let sites = memories::choose(&placed, wishes.seed).context("in placed.json")?;
        let (before, after) = (sites.before, sites.after);
        eprintln!("wires of block RAMs: {before} tiles after placing, {after} on other sites");
        flow.write("sites.json", &sites.fix(&flow.read(json)?).with_context(|| format!("in {json}"))?)?;
        json = "sites.json";
        if wishes.spread.is_some() {
            spread.beside(&sites.rows(), &placed);
        }
    }
    let mut again = wishes.spread.unwrap_or(0);
    loop {
        let mut design = json;
        if spread.luts() > 0 {
            let left = spread.leave(&flow.read(json)?).with_context(|| format!("in {json}"))?;
            flow.write("spread.json", &left)?;
            design = "spread.json";
        }
        let (seed, clocks) = shortest(flow, wishes, &|seed| common(design, "sites", seed))?;
        let left_free = spread.luts();
        let mut placed =
            Placed { placer: placer.clone(), seed, clocks, routed: None, rounds: None, left_free };
        if !wishes.route {
            return Ok(placed);
        }
        let to_route = flow.read("to-route.json")?;
        flow.write("to-route.json", &router::with_settings(&to_route, &nextpnr::ROUTER)?)?;
        let mut command = common("to-route.json", "route", seed)?;
        // Nets of the latest paths would not give way to others, and where wires are few nothing ends then.
        command.args(["--no-pack", "--no-place", "--no-tmdriv", "--report", "route.json"]);
        if let Some(config) = wishes.config {
            command.args(["--textcfg", config]);
        }
        let maps = (again > 0).then(|| Maps::new(flow)).transpose()?;
        if maps.is_some() {
            command.args(["--router2-heatmap", &format!("{}/{}", Maps::FOLDER, Maps::PREFIX)]);
        }
        let mut rounds = Rounds::default();
        let ended = flow.watched("route", "routing", command, &mut |line| rounds.stalls(line))?;
        placed.rounds = Some(rounds);
        if ended.is_some() {
            let report = flow.read("route.json")?;
            placed.routed = Some(router::routed(&report, &placed.clocks).context("reading route.json")?);
            return Ok(placed);
        }
        let Some(maps) = maps else { return Ok(placed) };
        let more = spread.learn(&to_route, &maps.last(rounds.round)?);
        if more == 0 {
            return Ok(placed);
        }
        again -= 1;
        let (why, all) = (rounds.unrouted().unwrap_or_default(), spread.luts());
        eprintln!(
            "{why}; {more} LUTs more, {all} in all, stay free where wires are short, and it is placed anew"
        );
    }
}

/// Places with each seed, and keeps the placement with the shortest wires as `to-route.json`; its seed and its clocks.
fn shortest(
    flow: &Flow,
    wishes: &Wishes<'_>,
    common: &dyn Fn(u32) -> Result<Command>,
) -> Result<(u32, Vec<Clock>)> {
    let mut best: Option<(u32, Vec<Clock>, f64)> = None;
    for seed in (0..wishes.tries).map(|n| wishes.seed.wrapping_add(n)) {
        let mut command = common(seed)?;
        command.args(["--router", "router2", "--no-route", "--write", "tried.json"]);
        let log = flow.logged("sites", "placing", command)?;
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
    Ok((seed, clocks))
}

/// nextpnr's maps of its router's rounds, in a folder that is gone with this.
struct Maps(PathBuf);

impl Maps {
    const FOLDER: &str = "maps";

    /// How their names begin.
    const PREFIX: &str = "heat";

    fn new(flow: &Flow) -> Result<Maps> {
        let folder = flow.work.join(Maps::FOLDER);
        workspace::remove_folder(&folder)?;
        fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Maps(folder))
    }

    /// How many wires were wanted twice in each tile, in the last rounds up to this one. There may be later ones, of a run that crashed.
    fn last(&self, round: u64) -> Result<Vec<String>> {
        let of = |round: u64| self.0.join(format!("{}_congestion_by_coordinate_{round}.csv", Maps::PREFIX));
        let paths: Vec<PathBuf> = (1..=round).map(of).take_while(|path| path.exists()).collect();
        // The router may have been stopped while it wrote the last one.
        let last = paths.iter().rev().skip(1).take(nextpnr::SPREAD.rounds);
        last.map(|path| fs::read_to_string(path).with_context(|| format!("reading {}", path.display())))
            .collect()
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        let _ = workspace::remove_folder(&self.0);
    }
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

    #[test]
    fn the_maps_of_the_last_rounds_are_read_but_for_one_that_may_not_be_whole_and_all_are_gone_then() {
        let work = std::env::temp_dir().join(format!("ferrowire-maps-{}", std::process::id()));
        let flow = Flow::new(work.clone()).unwrap();
        fs::create_dir(work.join(Maps::FOLDER)).unwrap();
        flow.write("maps/heat_congestion_by_coordinate_1.csv", "of another run").unwrap();
        let maps = Maps::new(&flow).unwrap();
        assert!(maps.last(103).unwrap().is_empty());
        for round in 1..=103 {
            flow.write(&format!("maps/heat_congestion_by_coordinate_{round}.csv"), &format!("{round}\n"))
                .unwrap();
            flow.write(&format!("maps/heat_congestion_by_net_{round}.csv"), "net,2\n").unwrap();
        }
        flow.write("sites.log", "").unwrap();
        for round in [103, 60] {
            let last = maps.last(round).unwrap();
            let last: Vec<u64> = last.iter().map(|map| map.trim().parse().unwrap()).collect();
            assert_eq!(last, (round - 20..round).rev().collect::<Vec<u64>>());
        }
        drop(maps);
        let left: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["sites.log"]);
        fs::remove_dir_all(&work).unwrap();
    }
}
