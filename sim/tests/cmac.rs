// SPDX-License-Identifier: MIT OR Apache-2.0
//! The adapter to the 100 Gb/s block in two simulators: the native one, in which `hdl/cmac` tests it, and Verilator with the Verilog that boards get.

use ferrowire_cmac::{ahead, config, netlist};
use ferrowire_hdl::tx::build::LONGEST_FRAME;
use ferrowire_sim::lockstep::{self, Lockstep};

const AHEAD: u32 = ahead(250_000, LONGEST_FRAME);

#[test]
fn every_module_of_the_adapter_gives_the_same_in_both_simulators() {
    let netlist = netlist(&config(), AHEAD).unwrap_or_else(|errors| panic!("{errors}"));
    let zoo = Lockstep::new(&netlist.zoo()).unwrap_or_else(|error| panic!("{error}"));
    for seed in 1..=4 {
        zoo.run(seed, 1000);
    }
}

#[test]
fn the_adapter_lints_without_a_warning() {
    let netlist = netlist(&config(), AHEAD).unwrap_or_else(|errors| panic!("{errors}"));
    lockstep::lint(&netlist).unwrap_or_else(|error| panic!("{error}"));
    lockstep::lint(&netlist.zoo()).unwrap_or_else(|error| panic!("{error}"));
}
