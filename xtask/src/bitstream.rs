// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bitstream`: from a board's name to what its FPGA loads, with free tools.
//!
//! `ferrowire-rtl-gen --board` writes the top module and its constraints, Yosys maps, nextpnr places and routes, ecppack writes the bitstream. That is kept only where
//! every clock is as fast as it must be: a board never gets one that works by chance.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::process::Command;

use anyhow::{bail, Context, Result};
use ferrowire_boards::ecp5::PLL_CLOCKS;
use ferrowire_boards::nextpnr::{memory_rows, SPREAD};
use ferrowire_boards::{Alveo, Board, ALVEOS, BUILT_IN};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flow::blif::Blif;
use crate::flow::place::{self, Design, Placed, Wishes};
use crate::flow::stat::{Cost, Stat};
use crate::flow::{Clock, Critical, Flow, Manifest, Usage};
use crate::{setup, workspace};

/// Of the placer, unless somebody says otherwise.
const SEED: u32 = 1;
const TRIES: u32 = 1;

/// Options of `bitstream`.
#[derive(clap::Args)]
pub struct Args {
    /// The board; `cargo run -p ferrowire-rtl-gen -- --list` shows all
    board: String,
    /// Give a field of its card's configuration another value; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// Of the placer; each gives another placement, and clocks that differ by a tenth
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u32,
    /// So many placements, with this seed and those behind it, of which the one with the shortest wires is routed
    #[arg(long, value_name = "N", default_value_t = TRIES, value_parser = clap::value_parser!(u32).range(1..=64))]
    tries: u32,
    /// If the router does not come to an end, leave LUTs free where wires are short and place anew, so often
    #[arg(long, value_name = "N", default_value_t = SPREAD.again)]
    again: u32,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// The file that comes out.
#[derive(Serialize, Deserialize)]
pub struct Report {
    pub board: String,
    pub part: String,
    pub commit: String,
    pub version: String,
    pub layout_hash: String,
    pub tools: [String; 2],
    /// What Yosys made of it.
    #[serde(flatten)]
    pub mapped: Cost,
    pub seed: Option<u32>,
    /// When it has been routed; before, as estimated.
    pub routed: bool,
    pub clocks: Vec<Clock>,
    pub critical_path: Option<Critical>,
    /// By nextpnr's kinds of cells. Those that only keep LUTs free are counted.
    pub utilization: BTreeMap<String, Usage>,
    /// So many.
    #[serde(default)]
    pub left_free: usize,
    /// Why there is no bitstream. The program ends with 1 then.
    pub failure: Option<String>,
    pub bitstream: Option<String>,
}

/// Makes the bitstream and reports.
pub fn run(args: &Args) -> Result<u8> {
    if ALVEOS.iter().any(|(name, _)| *name == args.board) {
        if (args.seed, args.tries, args.again, args.json) != (SEED, TRIES, SPREAD.again, false) {
            bail!("--seed, --tries, --again and --json are for boards with an ECP5; `{}` is Vivado's, and has --set alone", args.board);
        }
        return vivado(&Alveo::named(&args.board)?.name, args);
    }
    if !BUILT_IN.iter().any(|(name, _)| *name == args.board) {
        let all: Vec<&str> = BUILT_IN.iter().chain(ALVEOS).map(|(name, _)| *name).collect();
        bail!("no board `{}`; there are {}", args.board, all.join(", "));
    }
    let board = Board::named(&args.board)?;
    let out = workspace::target().join("bitstream");
    let flow = Flow::new(out.join(&board.name))?;
    let (result, bit) = (out.join(format!("{}.json", board.name)), out.join(format!("{}.bit", board.name)));
    [&result, &bit].into_iter().try_for_each(|old| workspace::remove_old(old))?;
    // What is wrong with the card's values is said before anything is fetched.
    let manifest = flow.generate(&options(&board.name, args))?;
    setup::run(&setup::Args { synth: true, ..setup::Args::default() })?;
    let top = &manifest.top;
    let (yosys, mapped) = map(&flow, &manifest)?;
    let part = board.part();
    let misfit = mapped.too_large(&part);
    let placed = match misfit {
        Some(_) => None,
        None => {
            let (lpf, config, device) = (format!("rtl/{top}.lpf"), format!("{top}.config"), part.nextpnr());
            let crowded = !memory_rows(&part).is_empty() && mapped.crowds(&part);
            let design = Design { json: "mapped.json", lpf: &lpf, device: &device, mhz: None, crowded };
            let (seed, tries, spread) = (args.seed, args.tries, Some(args.again));
            let wishes = Wishes { seed, tries, route: true, spread, config: Some(&config) };
            let mut placed = place::place(&flow, &design, &wishes)?;
            let names = clocks(&flow.read("mapped.json")?, top).context("in mapped.json")?;
            placed.rename_clocks(&|net| names.get(net).map(|name| name.to_string()));
            Some(placed)
        }
    };
    let mut report = Report {
        board: board.name.clone(),
        part: part.device(),
        commit: workspace::commit(),
        version: manifest.version.clone(),
        layout_hash: manifest.layout_hash.clone(),
        tools: [yosys, placed.as_ref().map(|placed| placed.placer.clone()).unwrap_or_default()],
        mapped,
        seed: placed.as_ref().map(|placed| placed.seed),
        routed: false,
        clocks: Vec::new(),
        critical_path: None,
        utilization: Default::default(),
        left_free: 0,
        failure: misfit.map(|why| format!("{why}; a smaller card may fit: --set")),
        bitstream: None,
    };
    if let Some(placed) = placed {
        report.take(placed);
    }
    if report.failure.is_none() {
        flow.pack(top)?;
        fs::rename(flow.work.join(format!("{top}.bit")), &bit).context("keeping the bitstream")?;
        report.bitstream = Some(bit.display().to_string());
    }
    let text = serde_json::to_string_pretty(&report).context("writing the result")? + "\n";
    workspace::write_whole(&result, &text)?;
    let mut stdout = std::io::stdout();
    let _ = if args.json { stdout.write_all(text.as_bytes()) } else { report.table(&mut stdout) };
    eprintln!("{}", result.display());
    match (&report.failure, &report.bitstream) {
        (Some(failure), _) => eprintln!("failed: {failure}"),
        (None, Some(bit)) => eprintln!("{bit}"),
        _ => {}
    }
    Ok(u8::from(report.failure.is_some()))
}

/// Options of `ferrowire-rtl-gen`.
fn options<'a>(board: &'a str, args: &'a Args) -> Vec<&'a str> {
    let sets = args.set.iter().flat_map(|set| ["--set", set.as_str()]);
    ["--board", board].into_iter().chain(sets).collect()
}

/// Vivado is no free tool: writes what it needs, says what is to be run, and runs that where it is on the PATH.
fn vivado(board: &str, args: &Args) -> Result<u8> {
    let flow = Flow::new(workspace::target().join("bitstream").join(board))?;
    for kind in ["bit", "mcs", "prm"] {
        workspace::remove_old(&flow.work.join("rtl.build").join(format!("{board}.{kind}")))?;
    }
    flow.generate(&options(board, args))?;
    let command = ["vivado", "-mode", "batch", "-source", "rtl/build.tcl"];
    eprintln!("in {}: {}", flow.work.display(), command.join(" "));
    if Command::new(command[0]).arg("-version").output().is_err() {
        eprintln!("failed: Vivado is not on the PATH; all that it needs is there, for a machine that has it");
        return Ok(1);
    }
    let mut vivado = Command::new(command[0]);
    vivado.args(&command[1..]).current_dir(&flow.work);
    workspace::exit_code(vivado)
}

/// What a net clocks, if the top's PLL drives it: Yosys calls it after any of the modules that it goes to.
fn clocks(mapped: &str, top: &str) -> Result<HashMap<String, &'static str>> {
    #[derive(Deserialize)]
    struct Mapped {
        modules: HashMap<String, Module>,
    }
    #[derive(Deserialize)]
    struct Module {
        cells: HashMap<String, Cell>,
        netnames: HashMap<String, Net>,
    }
    #[derive(Deserialize)]
    struct Cell {
        r#type: String,
        connections: HashMap<String, Vec<Value>>,
    }
    #[derive(Deserialize)]
    struct Net {
        bits: Vec<Value>,
    }
    let mut mapped: Mapped = serde_json::from_str(mapped)?;
    let module = mapped.modules.remove(top).with_context(|| format!("no module `{top}`"))?;
    let plls = module.cells.values().filter(|cell| cell.r#type == "EHXPLLL");
    let outputs = plls.flat_map(|pll| &pll.connections).filter_map(|(pin, bits)| {
        let (_, name) = PLL_CLOCKS.iter().find(|(output, _)| output == pin)?;
        Some((bits.first()?, *name))
    });
    let outputs: Vec<(&Value, &str)> = outputs.collect();
    let named = module.netnames.iter().filter_map(|(net, Net { bits })| {
        let (_, name) = outputs.iter().find(|(bit, _)| bits.len() == 1 && *bit == &bits[0])?;
        Some((net.clone(), *name))
    });
    Ok(named.collect())
}

/// Maps the board's top; gives the tool's version.
fn map(flow: &Flow, manifest: &Manifest) -> Result<(String, Cost)> {
    let top = &manifest.top;
    let script = format!(
        "{}{}write_json mapped.json\ntee -q -o mapped-stat.json stat -json\nwrite_blif mapped.blif\n",
        flow.read_verilog()?,
        flow.ecp5(top, true)?
    );
    let tool = flow.yosys("map", "mapping", &script)?;
    let netlist = flow.read_netlist("mapped.blif")?;
    let cost = Stat::read(&flow.read("mapped-stat.json")?, &Blif::read(&netlist)?)?.total(top)?;
    Ok((tool, cost))
}

impl Report {
    /// Takes what nextpnr has done; a clock that is too slow, and nets without wires, are failures.
    fn take(&mut self, placed: Placed) {
        (self.routed, self.left_free) = (placed.routed.is_some(), placed.left_free);
        match placed.routed {
            Some(routed) => {
                (self.clocks, self.utilization) = (routed.clocks, routed.utilization);
                self.critical_path = Some(routed.critical);
            }
            None => self.clocks = placed.clocks,
        }
        let slow: Vec<String> =
            self.clocks.iter().filter(|clock| clock.missed()).map(Clock::to_string).collect();
        let slow = (!slow.is_empty()).then(|| {
            format!(
                "{}; other placements may do better (--seed, --tries), or set a slower clock_khz",
                slow.join("; ")
            )
        });
        self.failure = placed.rounds.and_then(|rounds| rounds.unrouted()).or(slow);
    }

    fn table(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{} of {}, {}", self.board, self.part, self.tools.join(", "))?;
        if !self.utilization.is_empty() {
            writeln!(out, "\n{:<24} {:>8} {:>10} {:>6}", "cells", "used", "available", "%")?;
        }
        for (kind, Usage { used, available }) in self.utilization.iter().filter(|(_, usage)| usage.used > 0) {
            let share = 100.0 * *used as f64 / *available as f64;
            writeln!(out, "{kind:<24} {used:>8} {available:>10} {share:>6.1}")?;
        }
        if self.left_free > 0 {
            writeln!(
                out,
                "of these, {} do nothing but leave LUTs free where wires are short",
                self.left_free
            )?;
        }
        if !self.clocks.is_empty() {
            let when = if self.routed { "routed" } else { "placed" };
            writeln!(out, "\n{:<40} {when:>10} {:>10}", "clock, MHz", "wanted")?;
        }
        for Clock { name, mhz, wanted_mhz } in &self.clocks {
            writeln!(out, "{name:<40} {mhz:>10.1} {wanted_mhz:>10.1}")?;
        }
        if let Some(Critical { from, to, logic_ns, wires_ns }) = &self.critical_path {
            writeln!(
                out,
                "\nthe tightest: {from} -> {to}, {logic_ns:.1} ns in cells and {wires_ns:.1} ns in wires"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::router::{Rounds, Routed};

    /// What there is to say of a design that nextpnr has placed and, with clocks, routed.
    fn taken(routed: Option<&[(f64, f64)]>, rounds: &[&str]) -> Report {
        let clock = |(mhz, wanted_mhz): &(f64, f64)| Clock {
            name: "core".into(),
            mhz: *mhz,
            wanted_mhz: *wanted_mhz,
        };
        let critical = Critical { from: String::new(), to: String::new(), logic_ns: 1.0, wires_ns: 1.0 };
        let routed = routed.map(|clocks| Routed {
            clocks: clocks.iter().map(clock).collect(),
            critical,
            utilization: Default::default(),
        });
        let mut seen = Rounds::default();
        for line in rounds {
            seen.stalls(line);
        }
        let placed = Placed {
            placer: "nextpnr".into(),
            seed: 1,
            // Estimates are more hopeful.
            clocks: vec![clock(&(60.0, 50.0))],
            routed,
            rounds: Some(seen),
            left_free: 7,
        };
        let mut report = Report {
            board: "ecpix5".into(),
            part: "LFE5UM5G-85F".into(),
            commit: String::new(),
            version: String::new(),
            layout_hash: String::new(),
            tools: Default::default(),
            mapped: Default::default(),
            seed: Some(1),
            routed: false,
            clocks: vec![],
            critical_path: None,
            utilization: Default::default(),
            left_free: 0,
            failure: None,
            bitstream: None,
        };
        report.take(placed);
        report
    }

    #[test]
    fn there_is_no_bitstream_where_a_clock_is_too_slow_and_where_nets_have_no_wires() {
        let ended = ["iter=1 wires=100 overused=7", "iter=2 wires=101 overused=0"];
        let good = taken(Some(&[(50.0, 50.0), (130.2, 125.0)]), &ended);
        assert!(good.failure.is_none() && good.routed && good.left_free == 7);
        let slow = taken(Some(&[(49.9, 50.0), (130.2, 125.0)]), &ended).failure.unwrap();
        assert!(
            slow.contains("49.9") && slow.contains("set a slower clock_khz") && !slow.contains("130.2"),
            "{slow}"
        );
        let open = taken(
            None,
            &["iter=1 wires=100 overused=7", "iter=2 wires=101 overused=3", "iter=3 wires=101 overused=5"],
        );
        let why = open.failure.unwrap();
        assert!(
            !open.routed
                && why.starts_with("the router left 3 of 101 wires wanted by more than one net in round 2"),
            "{why}"
        );
    }

    #[test]
    fn what_is_nextpnrs_is_refused_of_an_alveo_card() {
        let args = |seed, json| Args {
            board: "u50".into(),
            set: vec![],
            seed,
            tries: TRIES,
            again: SPREAD.again,
            json,
        };
        for args in [args(SEED + 1, false), args(SEED, true)] {
            let told = run(&args).unwrap_err().to_string();
            assert!(told.contains("are for boards with an ECP5; `u50` is Vivado's"), "{told}");
        }
    }

    #[test]
    fn clocks_are_called_after_what_the_plls_outputs_are_for() {
        let mapped = r#"{"modules": {"top": {"ports": {}, "cells": {
            "pll": {"type": "EHXPLLL", "connections": {"CLKOP": [3], "CLKOS": [4], "LOCK": [5], "CLKI": [2]}},
            "flop": {"type": "TRELLIS_FF", "connections": {"CLK": [4], "Q": [6], "D": ["0"]}}},
            "netnames": {"clk": {"bits": [2]}, "feedback": {"bits": [3]}, "a.b.clk": {"bits": [4]}, "pll_CLKOS": {"bits": [4]},
            "lock": {"bits": [5]}, "both": {"bits": [3, 4]}}}}}"#;
        let found = clocks(mapped, "top").unwrap();
        let wanted = [("feedback", "wire"), ("a.b.clk", "core"), ("pll_CLKOS", "core")];
        assert_eq!(found, wanted.map(|(net, name)| (net.to_string(), name)).into());
        assert!(clocks(mapped, "other").is_err());
    }
}
