// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 1 Gb/s MAC in two simulators: the native one, in which `hdl/mac` tests it, and Verilator with the Verilog that boards get.

use ferrowire_mac::ecp5::{self, Delays};
use ferrowire_mac::{netlist, MacConfig};
use ferrowire_rtl::Netlist;
use ferrowire_sim::lockstep::{self, Lockstep};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

fn mac(cfg: MacConfig) -> Netlist {
    netlist(&cfg).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_module_of_the_mac_gives_the_same_in_both_simulators() {
    for width in [8, 64] {
        let zoo =
            Lockstep::new(&mac(MacConfig::jumbo(width)).zoo()).unwrap_or_else(|error| panic!("{error}"));
        for seed in 1..=4 {
            zoo.run(seed, 1000);
        }
    }
}

#[test]
fn the_mac_lints_without_a_warning_at_every_width() {
    for width in [8, 16, 32, 64] {
        let netlist = mac(MacConfig::jumbo(width));
        lockstep::lint(&netlist).unwrap_or_else(|error| panic!("{error}"));
        lockstep::lint(&netlist.zoo()).unwrap_or_else(|error| panic!("{error}"));
        let delays = Delays { rx_data_ps: 2000, tx_clk_ps: 2000 };
        let with_cells = ecp5::netlist(&MacConfig::jumbo(width), delays);
        let with_cells = with_cells.unwrap_or_else(|errors| panic!("{errors}"));
        lockstep::lint(&with_cells).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The wires of a PHY: mostly sound frames, between them its status or anything.
#[derive(Default)]
struct Wire {
    bytes: VecDeque<(u8, bool, bool)>,
}

impl Wire {
    fn next(&mut self, rng: &mut SmallRng) -> (u8, bool, bool) {
        if self.bytes.is_empty() {
            let most = if rng.random_bool(0.1) { 1600 } else { 150 };
            let n = rng.random_range(0..most);
            let frame: Vec<u8> = (0..n).map(|_| rng.random()).collect();
            // The frame check sequence, bit by bit.
            let crc = frame.iter().fold(u32::MAX, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |s, _| s >> 1 ^ (0xedb8_8320 & (s & 1).wrapping_neg()))
            });
            let preamble = rng.random_range(0..9);
            let all = [vec![0x55; preamble], vec![0xd5], frame, (!crc).to_le_bytes().to_vec()].concat();
            let wrong = rng.random_bool(0.2).then(|| rng.random_range(0..all.len()));
            let spoils = rng.random_bool(0.5);
            for (i, byte) in all.into_iter().enumerate() {
                let hit = wrong == Some(i);
                self.bytes.push_back((byte ^ u8::from(hit && !spoils), true, hit && spoils));
            }
            let status: u8 = rng.random_range(0..16);
            for _ in 0..rng.random_range(1..30) {
                self.bytes.push_back(match rng.random_bool(0.1) {
                    true => (rng.random(), false, true),
                    false => (status << 4 | status, false, false),
                });
            }
        }
        self.bytes.pop_front().expect("just filled")
    }
}

/// Frames both ways through both simulators, with three unrelated clocks; all outputs are compared before each edge.
#[test]
fn the_mac_gives_the_same_in_both_simulators_with_frames_and_three_clocks() {
    for width in [8u32, 32] {
        let cfg =
            MacConfig { beat_bytes: width, max_frame: 1522, rx_buffer_bytes: 2048, tx_buffer_bytes: 2048 };
        let netlist = mac(cfg);
        let both = Lockstep::new(&netlist).unwrap_or_else(|error| panic!("{error}"));
        let outputs: Vec<String> =
            netlist.ports().into_iter().filter(|port| !port.input).map(|port| port.name).collect();
        for seed in 0..4 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut sim, mut model) = (both.sim(), both.model());
            macro_rules! set {
                ($name:expr, $value:expr) => {{
                    let bits = ferrowire_rtl::Bits::new($value.0, $value.1);
                    sim.set_bits($name, &bits);
                    let port = model.port($name).expect("a port of both");
                    model.set_words(port, bits.words());
                }};
            }
            let clocks = ["clk", "rgmii_rx_clk", "rgmii_tx_clk"];
            let periods = [rng.random_range(6_000u64..30_000), 8_000 + seed, 8_000];
            let mut next = periods.map(|period| rng.random_range(0..period));
            let resets = ["rst", "rgmii_rx_rst", "rgmii_tx_rst"];
            resets.iter().for_each(|reset| set!(reset, (1, 1)));
            let (mut wire, mut left, mut good, mut sent) = (Wire::default(), 0u32, 0u64, 0u64);
            let mut offered = false;
            for step in 0..40_000 {
                let now = *next.iter().min().expect("three clocks");
                let on: Vec<usize> = (0..3).filter(|clock| next[*clock] == now).collect();
                if step == 20 {
                    resets.iter().for_each(|reset| set!(reset, (1, 0)));
                }
                for clock in &on {
                    next[*clock] += periods[*clock];
                    if *clock == 1 {
                        let (byte, valid, error) = wire.next(&mut rng);
                        set!("rgmii_rx_data_rise", (4, u128::from(byte & 15)));
                        set!("rgmii_rx_data_fall", (4, u128::from(byte >> 4)));
                        set!("rgmii_rx_ctl_rise", (1, u128::from(valid)));
                        set!("rgmii_rx_ctl_fall", (1, u128::from(valid != error)));
                    }
                    if *clock == 0 {
                        set!("rx_ready", (1, u128::from(rng.random_bool(0.7))));
                        if !offered && rng.random_bool(0.8) {
                            offered = true;
                            if left == 0 {
                                left = if rng.random_bool(0.1) { 300 } else { rng.random_range(1..20) };
                            }
                            left -= 1;
                            set!("tx_valid", (1, 1));
                            let bytes: Vec<u8> = (0..width).map(|_| rng.random()).collect();
                            let data = ferrowire_rtl::Bits::from_bytes(8 * width, &bytes);
                            sim.set_bits("tx_data", &data);
                            let port = model.port("tx_data").expect("a port of both");
                            model.set_words(port, data.words());
                            let last = left == 0;
                            let empty = if last { rng.random_range(0..width) } else { 0 };
                            set!("tx_last", (1, u128::from(last)));
                            set!("tx_empty", (width.trailing_zeros(), u128::from(empty)));
                        } else if !offered {
                            set!("tx_valid", (1, 0));
                        }
                    }
                }
                model.eval();
                for name in &outputs {
                    let port = model.port(name).expect("a port of both");
                    let native = sim.get_bits(name);
                    let mut verilated = vec![0; native.words().len()];
                    model.get_words(port, &mut verilated);
                    assert_eq!(native.words(), verilated, "seed {seed}, step {step}: {name}");
                }
                if on.contains(&0) && step > 20 {
                    good += sim.get("counts_rx_good");
                    sent += sim.get("counts_tx_good");
                    offered &= sim.get("tx_ready") == 0;
                }
                for clock in &on {
                    let port = model.port(clocks[*clock]).expect("a clock");
                    model.set_u64(port, 1);
                }
                model.eval();
                let names: Vec<&str> = on.iter().map(|clock| clocks[*clock]).collect();
                sim.tick_clocks(&names);
                for clock in &on {
                    let port = model.port(clocks[*clock]).expect("a clock");
                    model.set_u64(port, 0);
                }
                model.eval();
            }
            assert!(good > 20 && sent > 20, "seed {seed}: {good} came, {sent} went");
        }
    }
}
