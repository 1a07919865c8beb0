// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verilator --lint-only -Wall`, against stubs of AMD's blocks with their documents' ports.

use crate::tier::{here, one_of};
use ferrowire_rtl::Netlist;
use ferrowire_verilator::{lint, PortSpec, Source};

use super::{modules, shell, shells};

fn source(netlist: &Netlist, verilog: String) -> Source {
    let ports = netlist.ports().into_iter();
    let ports = ports.map(|p| PortSpec { name: p.name, width: p.width, input: p.input });
    Source::new(netlist.top(), verilog, ports.collect())
}

/// The folder of each card as it is generated: top, logic and stubs.
#[test]
fn every_alveos_top_lints_without_a_warning() {
    for (name, shell) in one_of(here!(), shells()) {
        let modules = modules(&shell);
        let texts: Vec<String> = modules.verilog().into_iter().map(|(_, text)| text).collect();
        let verilog = format!("{}{}", texts.concat(), shell.stubs());
        lint(&source(&modules.top, verilog)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_block_with_another_width_is_found() {
    let shell = shell("u50");
    let modules = modules(&shell);
    let verilog = |stubs: String| format!("{}{}{stubs}", modules.logic.verilog(), modules.top.verilog());
    let stubs = shell.stubs();
    let narrow = stubs.replace("output wire [160:0] m_axis_rc_tuser", "output wire [159:0] m_axis_rc_tuser");
    assert_ne!(narrow, stubs);
    let error = lint(&source(&modules.top, verilog(narrow))).unwrap_err().to_string();
    assert!(error.contains("WIDTH") && error.contains("m_axis_rc_tuser"), "{error}");
}
