// SPDX-License-Identifier: MIT OR Apache-2.0
//! Alveo descriptions against facts that were noted from public files, `facts.toml`.

use std::collections::BTreeSet;

use ferrowire_boards::{Alveo, ALVEOS};
use toml::Value;

const FACTS: &str = include_str!("facts.toml");

fn facts() -> Vec<toml::Table> {
    let all: toml::Table = toml::from_str(FACTS).expect("facts.toml");
    let all = all["fact"].as_array().expect("a list").clone();
    all.into_iter().map(|fact| fact.try_into().expect("a table")).collect()
}

fn list<T: Clone + Into<Value>>(values: &[T]) -> Value {
    Value::Array(values.iter().cloned().map(Into::into).collect())
}

/// What a description says of a fact's field; none of a fact that is not a description's.
fn described(board: &Alveo, field: &str) -> Option<Value> {
    let wire = |pin: &str, io: &str| Some(list(&[pin, io]));
    if let Some((cage, field)) = field.strip_prefix("qsfp").and_then(|rest| rest.split_once('_')) {
        let qsfp = &board.qsfp[cage.parse::<usize>().expect("a cage's number")];
        return match field {
            "refclk" => Some(list(&qsfp.refclk)),
            "refclk_mhz" => Some(qsfp.refclk_mhz.clone().into()),
            "rx_p" => Some(list(&qsfp.rx_p)),
            "tx_p" => Some(list(&qsfp.tx_p)),
            "gt" => Some(qsfp.gt.clone().into()),
            "cmac" => Some(qsfp.cmac.clone().into()),
            "slr" => Some(i64::from(qsfp.slr).into()),
            "control" => {
                let control = qsfp.control.as_ref()?;
                Some(list(&[&*control.modsell, &control.resetl, &control.lpmode, &control.io]))
            }
            other => panic!("no field of a cage: {other}"),
        };
    }
    let (clock, pcie) = (&board.clock, &board.pcie);
    match field {
        "part" => Some(board.part.clone().into()),
        "clock" => Some(list(&clock.pins)),
        "clock_io" => Some(clock.io.clone().into()),
        "clock_dqs_bias" => Some(clock.dqs_bias.into()),
        "clock_khz" => Some(i64::from(clock.khz).into()),
        "pcie_refclk" => Some(list(&pcie.refclk)),
        "pcie_perst_n" => wire(&pcie.perst_n, &pcie.io),
        "pcie_rx_p" => Some(list(&pcie.rx_p)),
        "pcie_tx_p" => Some(list(&pcie.tx_p)),
        "pcie_ip" => Some(pcie.block.ip().into()),
        "pcie_slr" => Some(i64::from(pcie.slr).into()),
        "link_led" => board.link_led.as_ref().and_then(|led| wire(&led.pin, &led.io)),
        "hbm_cattrip" => board.hbm_cattrip.as_ref().and_then(|trip| wire(&trip.pin, &trip.io)),
        "config_rate" => Some(board.flash.config_rate.clone().into()),
        "flash_part" => Some(board.flash.part.clone().into()),
        "flash_mcs_mib" => Some(i64::from(board.flash.mcs_mib).into()),
        "flash_offset" => Some(i64::from(board.flash.offset).into()),
        other => panic!("no field of a card: {other}"),
    }
}

/// Of the IP and of all constraints: the shell's tests look at them.
const OF_THE_SHELL: [&str; 3] = ["cmac", "pcie", "overtemp_shutdown"];

#[test]
fn every_alveo_agrees_with_what_public_files_say_of_it() {
    for fact in facts() {
        let (name, from) = (fact["board"].as_str().unwrap(), fact["from"].as_str().unwrap());
        let board = Alveo::named(name).unwrap();
        for (field, value) in fact.iter().filter(|(field, _)| *field != "board" && *field != "from") {
            if !OF_THE_SHELL.contains(&field.as_str()) {
                assert_eq!(described(&board, field).as_ref(), Some(value), "{name}: {field}, from {from}");
            }
        }
    }
}

/// No card is without facts of what can keep it from working.
#[test]
fn every_alveo_has_facts_of_its_clocks_lanes_sites_and_ip() {
    for (name, _) in ALVEOS {
        let own = facts().into_iter().filter(|fact| fact["board"].as_str() == Some(name));
        let fields: BTreeSet<String> =
            own.flat_map(|fact| fact.keys().cloned().collect::<Vec<_>>()).collect();
        let cages = Alveo::named(name).unwrap().qsfp.len();
        let of_cages =
            (0..cages).flat_map(|cage| ["refclk", "rx_p", "tx_p"].map(|f| format!("qsfp{cage}_{f}")));
        let wanted =
            ["clock", "clock_io", "clock_khz", "pcie_refclk", "pcie_perst_n", "pcie_rx_p", "pcie_tx_p"];
        let sites = ["qsfp0_cmac", "qsfp0_gt", "qsfp0_refclk_mhz", "cmac", "pcie", "config_rate"];
        for field in wanted.into_iter().chain(sites).map(String::from).chain(of_cages) {
            assert!(fields.contains(&field), "{name}: no fact of {field}");
        }
    }
}

/// A ball that moves is found.
#[test]
fn a_description_that_drifts_is_found() {
    let text = ALVEOS.iter().find(|(name, _)| *name == "u50").unwrap().1;
    let drifted = Alveo::from_toml("u50", &text.replacen("dqs_bias = true\n", "", 1)).unwrap();
    assert_eq!(described(&drifted, "clock_dqs_bias"), Some(false.into()));
    let fact = facts().into_iter().find_map(|fact| fact.get("clock_dqs_bias").cloned());
    assert_eq!(fact, Some(true.into()));
}
