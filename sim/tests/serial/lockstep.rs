// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of the board in two simulators: the native one, in which they are tested, and Verilator.

use ferrowire_serial::board::serial_board;
use ferrowire_sim::lockstep::{self, Lockstep};

use super::bench::config;

#[test]
fn every_module_around_the_card_gives_the_same_in_both_simulators_and_lints_without_a_warning() {
    let netlist = serial_board(&config()).unwrap_or_else(|errors| panic!("{errors}"));
    lockstep::lint(&netlist).unwrap_or_else(|error| panic!("{error}"));
    lockstep::lint(&netlist.zoo()).unwrap_or_else(|error| panic!("{error}"));
    let zoo = Lockstep::new(&netlist.zoo()).unwrap_or_else(|error| panic!("{error}"));
    for seed in 1..=4 {
        zoo.run(seed, 2000);
    }
}
