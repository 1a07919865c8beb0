// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boards with an ECP5 against facts that were noted from public files, `facts-ecp5.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ferrowire_boards::{Board, Direction, Part, BUILT_IN};
use serde::Deserialize;

const FACTS: &str = include_str!("facts-ecp5.toml");

#[derive(Deserialize)]
struct Facts {
    fact: Vec<Fact>,
}

/// What a public file says of a board.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    board: String,
    from: String,
    part: Option<String>,
    tx_clk_delay_ps: Option<u32>,
    rx_data_delay_ps: Option<u32>,
    leds_active_low: Option<bool>,
    led_colours_active_low: Option<bool>,
    supplies_mv: Option<Vec<u32>>,
    memory_device: Option<String>,
    #[serde(default)]
    port: BTreeMap<String, Wires>,
    /// Reasons, by what is not as it says.
    #[serde(default)]
    differs: BTreeMap<String, String>,
}

/// A port.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wires {
    pins: Vec<String>,
    #[serde(default)]
    pins_n: Vec<String>,
    io: Option<String>,
    #[serde(default)]
    attributes: BTreeSet<String>,
    khz: Option<u32>,
}

fn facts() -> Vec<Fact> {
    toml::from_str::<Facts>(FACTS).unwrap_or_else(|error| panic!("facts-ecp5.toml: {error}")).fact
}

/// The attributes that count: slew is of what the FPGA drives, and a pull of what it does not.
fn counted(attributes: impl Iterator<Item = String>, direction: Direction) -> BTreeSet<String> {
    let idle = match direction {
        Direction::In => "SLEWRATE=",
        Direction::Out => "PULLMODE=",
        Direction::InOut => return attributes.collect(),
    };
    attributes.filter(|attribute| !attribute.starts_with(idle)).collect()
}

/// What a description says otherwise than a fact does, by field.
fn differences(board: &Board, fact: &Fact) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let phy = &board.rgmii[0];
    let supplies =
        board.supplies.iter().flat_map(|supplies| &supplies.each).map(|supply| supply.mv).collect::<Vec<_>>();
    let leds_low = board.leds[0].active_low;
    let device = board.memory.as_ref().map(|memory| memory.device.clone());
    for (field, same) in [
        ("part", fact.part.as_ref().is_none_or(|part| Part::parse(part) == Some(board.part()))),
        ("tx_clk_delay_ps", fact.tx_clk_delay_ps.is_none_or(|ps| ps == phy.tx_clk_delay_ps)),
        ("rx_data_delay_ps", fact.rx_data_delay_ps.is_none_or(|ps| ps == phy.rx_data_delay_ps)),
        (
            "leds_active_low",
            fact.leds_active_low.is_none_or(|low| low == leds_low)
                && board.leds.iter().all(|led| led.active_low == leds_low),
        ),
        (
            "led_colours_active_low",
            fact.led_colours_active_low
                .is_none_or(|low| board.led_colours.as_ref().is_some_and(|led| led.active_low == low)),
        ),
        ("supplies_mv", fact.supplies_mv.as_ref().is_none_or(|mv| *mv == supplies)),
        ("memory_device", fact.memory_device.is_none() || fact.memory_device == device),
    ] {
        if !same {
            found.insert(field.to_string());
        }
    }
    let ports = board.ports();
    for (name, wires) in &fact.port {
        let own: Vec<_> = ports.iter().filter(|port| port.base() == name).collect();
        assert!(!own.is_empty(), "{}: no port {name}", board.name);
        let attributes = |of: &str| -> BTreeSet<String> {
            counted(of.split_whitespace().map(String::from), own[0].direction)
        };
        let theirs = counted(wires.attributes.iter().cloned(), own[0].direction);
        for (field, same) in [
            ("pins", own.iter().map(|port| &port.pin).eq(&wires.pins)),
            ("pins_n", ports.iter().all(|port| !wires.pins_n.contains(&port.pin))),
            ("io", wires.io.as_ref().is_none_or(|io| own.iter().all(|port| port.io == *io))),
            ("attributes", own.iter().all(|port| attributes(&port.attributes) == theirs)),
            ("khz", wires.khz.is_none_or(|khz| own[0].khz == Some(khz))),
        ] {
            if !same {
                found.insert(format!("{name}.{field}"));
            }
        }
    }
    found
}

/// The README of a board says of each difference what the list of facts says.
#[test]
fn every_ecp5_board_agrees_with_public_files_but_where_a_reason_is_given() {
    for fact in facts() {
        let board = Board::named(&fact.board).unwrap();
        let reasons: BTreeSet<String> = fact.differs.keys().cloned().collect();
        assert_eq!(differences(&board, &fact), reasons, "{}, from {}", fact.board, fact.from);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(&fact.board);
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        let (_, decisions) = readme.split_once("## Decisions").expect("decisions");
        for field in reasons {
            assert!(decisions.contains(&format!("`{field}`")), "{}: no reason for {field}", fact.board);
        }
    }
}

/// No wire of a board is without a public file that names its ball and its type.
#[test]
fn every_port_of_every_ecp5_board_has_a_fact() {
    for (name, _) in BUILT_IN {
        let own: Vec<Fact> = facts().into_iter().filter(|fact| fact.board == *name).collect();
        for port in Board::named(name).unwrap().ports() {
            let typed = own.iter().any(|fact| fact.port.get(port.base()).is_some_and(|f| f.io.is_some()));
            assert!(typed, "{name}: no fact of {}", port.base());
        }
        assert!(own.iter().any(|fact| fact.part.is_some()), "{name}: no fact of its part");
        for delays in [|fact: &Fact| fact.tx_clk_delay_ps, |fact: &Fact| fact.rx_data_delay_ps] {
            assert!(own.iter().any(|fact| delays(fact).is_some()), "{name}: no fact of its delays");
        }
    }
}

/// Each kind of drift is found.
#[test]
fn an_ecp5_board_that_drifts_is_found() {
    let text = BUILT_IN.iter().find(|(name, _)| *name == "butterstick").unwrap().1;
    let fact = facts().into_iter().find(|fact| fact.board == "butterstick").unwrap();
    let known: BTreeSet<String> = fact.differs.keys().cloned().collect();
    for (from, to, field) in [
        ("\"C15\", \"B16\"", "\"B16\", \"C15\"", "rgmii0_tx_data.pins"),
        ("khz = 30000", "khz = 25000", "clk30.khz"),
        ("fast = true", "fast = false", "rgmii0_mdc.attributes"),
        ("io = \"SSTL135_I\"", "io = \"SSTL15_I\"", "dram_dqs.io"),
        ("8BG381C", "7BG381C", "part"),
    ] {
        let drifted = Board::from_toml("butterstick", &text.replacen(from, to, 1)).unwrap();
        let found = differences(&drifted, &fact);
        assert!(found.contains(field) && found.is_superset(&known), "{field}: {found:?}");
    }
}
