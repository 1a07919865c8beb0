// SPDX-License-Identifier: MIT OR Apache-2.0
//! The card in two simulators: every module by itself and the whole, at both configurations, gives the same in the
//! native simulator and under Verilator, cycle by cycle; and it is generated in under a second.

use crate::tier::{chosen, number};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::host::{pcie, pcie4};
use ferrowire_hdl::top::rnic;
use ferrowire_rtl::Netlist;
use ferrowire_sim::lockstep::{self, Lockstep};
use rustix::time::{clock_gettime, ClockId};
use std::time::Duration;

fn card(config: &str) -> Netlist {
    rnic(&RnicConfig::named(config).unwrap()).unwrap_or_else(|errors| panic!("{config}:\n{errors}"))
}

#[test]
fn every_module_of_a_card_gives_the_same_in_both_simulators() {
    for (config, cycles) in chosen!([("generic-8b", 400), ("generic-64b", 200)]) {
        let zoo = Lockstep::new(&card(config).zoo()).unwrap_or_else(|error| panic!("{error}"));
        (1..=number(1, 3)).for_each(|seed| zoo.run(seed, cycles));
    }
}

/// The rest of such a card is that of the others.
#[test]
fn every_module_that_faces_pcie_gives_the_same_in_both_simulators() {
    for config in chosen!(["pcie-8b", "pcie-64b", "pcie4-64b"]) {
        let cfg = RnicConfig::named(config).unwrap();
        let engine = if cfg.pcie4 { pcie4::engine(&cfg) } else { pcie::engine(&cfg) };
        let engine = engine.unwrap_or_else(|errors| panic!("{config}:\n{errors}"));
        let zoo = Lockstep::new(&engine.zoo()).unwrap_or_else(|error| panic!("{error}"));
        (1..=number(1, 3)).for_each(|seed| zoo.run(seed, 400));
        let whole = Lockstep::new(&engine).unwrap_or_else(|error| panic!("{error}"));
        (1..=number(1, 3)).for_each(|seed| whole.run(seed, 400));
    }
}

#[test]
fn the_whole_card_gives_the_same_in_both_simulators() {
    for config in chosen!(["generic-8b", "generic-64b"]) {
        let whole = Lockstep::of_card(&card(config)).unwrap_or_else(|error| panic!("{error}"));
        (1..=number(1, 3)).for_each(|seed| whole.run(seed, 400));
    }
}

#[test]
fn the_whole_card_lints_without_a_warning() {
    for config in
        chosen!(["generic-8b", "generic-64b", "pcie-8b", "pcie-64b", "pcie4-64b", "axi-8b", "axi-64b"])
    {
        lockstep::lint(&card(config)).unwrap_or_else(|error| panic!("{error}"));
    }
    // And without all that a card can be without.
    for config in chosen!(["generic-8b", "generic-64b", "axi-8b"]) {
        let plain = rnic(&RnicConfig::named(config).unwrap().plain());
        let plain = plain.unwrap_or_else(|errors| panic!("{config}:\n{errors}"));
        lockstep::lint(&plain).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// What this thread has used of a processor.
fn processor() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

#[test]
fn the_whole_card_is_generated_in_under_a_second() {
    for config in chosen!(["generic-8b", "generic-64b"]) {
        // Time of the processor, and the quickest of three: the machine may be busy with other tests.
        let times = (0..3).map(|_| {
            let start = processor();
            let text = card(config).verilog();
            assert!(text.contains("module rnic"));
            processor() - start
        });
        let quickest = times.min().unwrap();
        assert!(quickest.as_millis() < 1000, "{config}: {quickest:?}");
    }
}
