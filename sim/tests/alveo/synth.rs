// SPDX-License-Identifier: MIT OR Apache-2.0
//! Yosys: every top elaborates against the stubs, and the cells that the constraints name are there behind `synth_xilinx`. These need `cargo xtask setup --synth`, so they are run by name:
//! `cargo test -p ferrowire-sim --test all alveo:: -- --ignored`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use ferrowire_rtl::ClockCrossing;
use ferrowire_shell::AlveoShell;
use serde_json::Value;

use super::yosys::yosys;
use super::{modules, shell, shells};

#[test]
#[ignore = "needs `cargo xtask setup --synth`"]
fn every_alveos_top_elaborates_against_the_stubs() {
    for (name, shell) in shells() {
        let (modules, top) = (modules(&shell), &shell.board().name);
        let texts: Vec<String> = modules.verilog().into_iter().map(|(_, text)| text).collect();
        let verilog = format!("{}{}", texts.concat(), shell.stubs());
        let script =
            format!("read_verilog -noautowire all.v; hierarchy -check -top {top}; proc; check -assert");
        yosys(&format!("elaborate-{name}"), &[("all.v", &verilog)], &script);
    }
}

/// A synthesised design.
struct Design(HashMap<String, Value>);

impl Design {
    fn read(path: &Path) -> Design {
        let text = fs::read_to_string(path).unwrap();
        let mut all: Value = serde_json::from_str(&text).unwrap();
        Design(serde_json::from_value(all["modules"].take()).unwrap())
    }

    /// The module of an instance by its path.
    fn module(&self, top: &str, path: &str) -> &Value {
        let mut module = &self.0[top];
        for instance in path.split('/').filter(|part| !part.is_empty()) {
            let kind = module["cells"][instance]["type"].as_str();
            let kind = kind.unwrap_or_else(|| panic!("no instance {instance} of {path}"));
            module = &self.0[kind];
        }
        module
    }

    fn check(&self, top: &str, inside: &str, crossings: &[ClockCrossing]) {
        assert!(!crossings.is_empty());
        for crossing in crossings {
            let module = self.module(top, &format!("{inside}/{}", crossing.instance));
            let flops = flops(module, &crossing.register);
            assert_eq!(flops, crossing.width as usize, "{}/{}", crossing.instance, crossing.register);
        }
    }
}

/// Flip-flops of a signal, which Vivado calls by its name with `_reg` behind it (UG901): the output of one for each bit.
fn flops(module: &Value, register: &str) -> usize {
    let bits = module["netnames"][register]["bits"].as_array();
    let bits = bits.unwrap_or_else(|| panic!("no signal {register}"));
    let outputs: HashSet<u64> = module["cells"]
        .as_object()
        .unwrap()
        .values()
        .filter(|cell| matches!(cell["type"].as_str(), Some("FDRE" | "FDSE" | "FDCE" | "FDPE")))
        .filter_map(|cell| cell["connections"]["Q"][0].as_u64())
        .collect();
    bits.iter().filter(|bit| bit.as_u64().is_some_and(|bit| outputs.contains(&bit))).count()
}

const SYNTH: &str = "synth_xilinx -family xcup -noiopad -noclkbuf -top";

/// What crosses is in the adapter, which is synthesised here without the RNIC: the names below it are the same.
#[test]
#[ignore = "needs `cargo xtask setup --synth`"]
fn the_cells_of_clock_exceptions_are_there_behind_synth_xilinx() {
    let ahead = ferrowire_cmac::ahead(250_000, ferrowire_hdl::tx::build::LONGEST_FRAME);
    let netlist = ferrowire_cmac::netlist(&ferrowire_cmac::config(), ahead).unwrap();
    let crossings = netlist.clock_crossings();
    let script = format!("read_verilog -noautowire all.v; {SYNTH} {}; write_json out.json", netlist.top());
    let folder = yosys("adapter", &[("all.v", &netlist.verilog())], &script);
    Design::read(&folder.join("out.json")).check(netlist.top(), "", &crossings);
    // The constraints of a card name these and no others, one instance further down.
    let logic = modules(&shell("u50")).logic;
    assert_eq!(logic.clock_crossings(), crossings);
}

/// The whole of one card, the RNIC too: some minutes. Up to `map_luts` flip-flops are mapped and logic is not, which is what takes longest and has no cell that a constraint names.
#[test]
#[ignore = "needs `cargo xtask setup --synth`, and some minutes"]
fn the_cells_of_clock_exceptions_are_there_in_the_whole_card() {
    let shell = shell("u50");
    let modules = modules(&shell);
    let texts: Vec<String> = modules.verilog().into_iter().map(|(_, text)| text).collect();
    let verilog = format!("{}{}", texts.concat(), shell.stubs());
    let script =
        format!("read_verilog -noautowire all.v; {SYNTH} u50 -run begin:map_luts; blackbox =A:whitebox; write_json out.json");
    let folder = yosys("u50", &[("all.v", &verilog)], &script);
    let design = Design::read(&folder.join("out.json"));
    design.check("u50", AlveoShell::inside(), &modules.logic.clock_crossings());
    let top = &design.0["u50"]["cells"];
    for cell in ["core_reset_meta", "core_reset", "cmac_reset_meta", "cmac_reset"] {
        assert_eq!(top[cell]["type"], "FDPE", "{cell}");
    }
    for part in ["card", "cmac"] {
        design.module("u50", &format!("{}/{part}", AlveoShell::inside()));
    }
}
