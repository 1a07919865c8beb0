// SPDX-License-Identifier: MIT OR Apache-2.0
//! The card in two simulators: every module by itself and the whole, at both configurations, gives the same in the
//! native simulator and under Verilator, cycle by cycle; and it is generated in under a second.

use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::top::rnic;
use ferrowire_rtl::Netlist;
use ferrowire_sim::lockstep::{self, Lockstep};
use std::time::Instant;

fn card(config: &str) -> Netlist {
    rnic(&RnicConfig::named(config).unwrap()).unwrap_or_else(|errors| panic!("{config}:\n{errors}"))
}

fn every_module(config: &str, cycles: u64) {
    let zoo = Lockstep::new(&card(config).zoo()).unwrap_or_else(|error| panic!("{error}"));
    for seed in 1..=3 {
        zoo.run(seed, cycles);
    }
}

#[test]
fn every_module_of_the_small_card_gives_the_same_in_both_simulators() {
    every_module("generic-8b", 400);
}

#[test]
fn every_module_of_the_100g_card_gives_the_same_in_both_simulators() {
    every_module("generic-64b", 200);
}

#[test]
fn the_whole_card_gives_the_same_in_both_simulators() {
    for config in ["generic-8b", "generic-64b"] {
        let whole = Lockstep::new(&card(config)).unwrap_or_else(|error| panic!("{error}"));
        whole.run(1, 400);
    }
}

#[test]
fn the_whole_card_lints_without_a_warning() {
    for config in ["generic-8b", "generic-64b"] {
        lockstep::lint(&card(config)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_whole_card_is_generated_in_under_a_second() {
    for config in ["generic-8b", "generic-64b"] {
        // The quickest of three: the machine may be busy with other tests.
        let times = (0..3).map(|_| {
            let start = Instant::now();
            let text = card(config).verilog();
            assert!(text.contains("module rnic"));
            start.elapsed()
        });
        let quickest = times.min().unwrap();
        assert!(quickest.as_millis() < 1000, "{config}: {quickest:?}");
    }
}

/// Congestion control is not part of the card yet.
fn congestion(config: &str) -> Netlist {
    use ferrowire_hdl::context::congestion::{notify, react, CongestionControl, Sent};
    use ferrowire_rtl::{bits, build};
    let cfg = RnicConfig::named(config).unwrap();
    let qp = bits(cfg.qp_bits());
    let netlist = build("congestion", |m| {
        let control = m.input_of("control", &CongestionControl::of());
        let marked = m.stream_in("marked", &qp);
        m.stream_out("send", notify(m, &cfg, marked, control.interval_us, m.input("microsecond", 1)));
        let (cnps, resets) = (m.stream_in("cnp", &qp), m.stream_in("reset", &qp));
        let out = react(m, &cfg, control, m.input_of("sent", &Sent::of(&cfg)), cnps, resets);
        m.output("gate", &out.gate);
        m.output("counts", &vec![out.handled, out.ignored]);
        m.stream_out("wake", out.wake);
    });
    netlist.unwrap_or_else(|errors| panic!("{config}:\n{errors}"))
}

#[test]
fn congestion_control_gives_the_same_in_both_simulators_and_lints_without_a_warning() {
    for config in ["generic-8b", "generic-64b"] {
        let net = congestion(config);
        lockstep::lint(&net).unwrap_or_else(|error| panic!("{error}"));
        let whole = Lockstep::new(&net).unwrap_or_else(|error| panic!("{error}"));
        (1..=3).for_each(|seed| whole.run(seed, 3000));
    }
}
