// SPDX-License-Identifier: MIT OR Apache-2.0
//! All integration tests of this crate, a module each; one program, so that it links once.

mod alveo;
mod axi;
mod bench_wave;
mod board;
mod bring_up;
mod card;
mod classes;
mod cmac;
mod command;
mod configurations;
mod congestion;
mod counters;
mod credits;
mod deep;
mod emulated;
mod events;
mod examples;
mod fairness;
mod functions;
mod hostile;
mod large;
mod lives;
mod lockstep;
mod loopback;
mod loss;
mod mac;
mod malformed;
mod messages;
mod model;
mod net;
mod pages;
mod pause;
mod payload_errors;
mod pcie;
mod push;
mod qp_events;
mod quiet;
mod raw;
mod rdma;
mod reads;
mod replay;
mod replay_cli;
mod reset;
mod resize;
mod rtl_fuzz;
mod rtl_language;
mod rtl_ops;
mod serial;
mod soak;
mod socket;
mod srq;
mod tier;
mod unreliable;
mod verbs;
mod windows;
mod write;

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::config::{resolve, SetArgs};

/// Few tables, so that a card is soon there.
const FEW_TABLES: [&str; 8] = [
    "qps=16",
    "cqs=8",
    "keys=32",
    "srqs=4",
    "ahs=4",
    "outstanding=64",
    "outstanding_per_qp=16",
    "page_entries=1024",
];

/// A configuration with few tables.
fn few_tables(name: &str) -> RnicConfig {
    let set = FEW_TABLES.map(String::from).to_vec();
    resolve(&SetArgs { set }.over(name)).unwrap()
}
