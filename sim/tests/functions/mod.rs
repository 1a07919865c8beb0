// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards that are built without some of the functions: where nobody asks for these, they are the card that has them, cycle for cycle; who asks is
//! refused, and all else goes on.

mod commands;
mod peers;
mod registers;
mod requests;
mod same;

use crate::tier::{here, number, one_of};
use ferrowire::AccessFlags;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::top::rnic;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::lockstep::{self, Lockstep};

/// The card with all functions.
fn full() -> RnicConfig {
    RnicConfig::named("generic-8b").unwrap()
}

/// The same card without those of the transport that it can be without.
fn small() -> RnicConfig {
    let mut card = full();
    RnicConfig::WITHOUT.iter().for_each(|take| take(&mut card));
    card
}

fn model(config: &RnicConfig) -> CardModel {
    CardModel::rnic(config, false).unwrap()
}

/// READs and WRITEs.
fn rights() -> AccessFlags {
    AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE
}

#[test]
fn a_card_without_a_function_lints_whichever_it_is() {
    let lacks = RnicConfig::WITHOUT;
    let mut all: Vec<RnicConfig> = Vec::new();
    for name in ["generic-8b", "pcie-64b"] {
        let named = RnicConfig::named(name).unwrap();
        let mut none = named.clone();
        lacks.iter().for_each(|lack| lack(&mut none));
        all.push(none);
        if name == "generic-8b" {
            all.extend(lacks.iter().map(|lack| {
                let mut config = named.clone();
                lack(&mut config);
                config
            }));
        }
    }
    assert_eq!(all[0], small());
    for config in one_of(here!(), all) {
        config.validate().unwrap();
        let netlist = rnic(&config).unwrap_or_else(|errors| panic!("{config:?}:\n{errors}"));
        lockstep::lint(&netlist).unwrap_or_else(|error| panic!("{config:?}:\n{error}"));
    }
}

#[test]
fn the_card_without_functions_gives_the_same_in_both_simulators() {
    let netlist = rnic(&small()).unwrap_or_else(|errors| panic!("{errors}"));
    let whole = Lockstep::of_card(&netlist).unwrap_or_else(|error| panic!("{error}"));
    (1..=number(1, 3)).for_each(|seed| whole.run(seed, 400));
}
