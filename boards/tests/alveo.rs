// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Alveo cards that come with the project, and descriptions that are refused.

use ferrowire_boards::{Alveo, ALVEOS};
use std::path::Path;

fn alveos() -> Vec<Alveo> {
    ALVEOS.iter().map(|(name, _)| Alveo::named(name).unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn every_alveo_is_sound_and_says_where_its_pins_were_found() {
    for board in alveos() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(&board.name);
        let readme = std::fs::read_to_string(folder.join("README.md")).expect("a README beside board.toml");
        let wanted = ["## Sources", "## Decisions", "## What was tried", "ISSUE_TEMPLATE/board-report.md"];
        for wanted in wanted.into_iter().chain([&*board.title]) {
            assert!(readme.contains(wanted), "{}: {wanted}", board.name);
        }
    }
}

#[test]
fn the_alveos_are_what_they_are_known_as() {
    let found: Vec<_> = alveos()
        .into_iter()
        .map(|board| {
            let (cages, memory) = (board.qsfp.len(), board.memory);
            (board.name, board.slrs, board.pcie.block.ip(), cages, memory.hbm_gib, memory.ddr4_gib)
        })
        .collect();
    let known = [
        ("u200".to_string(), 3, "pcie4_uscale_plus", 2, 0, 64),
        ("u250".to_string(), 4, "pcie4_uscale_plus", 2, 0, 64),
        ("u280".to_string(), 3, "pcie4c_uscale_plus", 2, 8, 32),
        ("u50".to_string(), 2, "pcie4c_uscale_plus", 1, 8, 0),
        ("u55c".to_string(), 3, "pcie4c_uscale_plus", 2, 16, 0),
        ("u55n".to_string(), 2, "pcie4c_uscale_plus", 2, 8, 0),
        ("vcu1525".to_string(), 3, "pcie4_uscale_plus", 2, 0, 64),
    ];
    assert_eq!(found, known);
    // Where HBM can get too hot, there is a wire that says so.
    assert!(alveos().iter().all(|board| board.hbm_cattrip.is_some() == (board.memory.hbm_gib > 0)));
}

/// The pairs of a package are neighbours: which ball is positive is told by another.
#[test]
fn both_balls_of_a_pair_lie_side_by_side() {
    let place = |ball: &str| {
        let letters = ball.trim_end_matches(|c: char| c.is_ascii_digit()).to_string();
        let column: i32 = ball[letters.len()..].parse().unwrap();
        (letters, column)
    };
    for board in alveos() {
        let pins = board.pins();
        for pin in pins.iter().filter(|pin| pin.base().ends_with("_p")) {
            let (front, back) = pin.name.rsplit_once("_p").expect("the filter's");
            let other = format!("{front}_n{back}");
            let other = pins.iter().find(|pin| pin.name == other).unwrap_or_else(|| panic!("{other}"));
            let ((row, column), (row_n, column_n)) = (place(&pin.pin), place(&other.pin));
            let near = if row == row_n { (column - column_n).abs() == 1 } else { column == column_n };
            assert!(near, "{}: {} {} {}", board.name, pin.name, pin.pin, other.pin);
        }
    }
}

#[test]
fn constraints_name_each_port_once_and_each_clock() {
    for board in alveos() {
        let (xdc, pins) = (board.pins_xdc(), board.pins());
        let count = |start: &str| xdc.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("set_property PACKAGE_PIN"), pins.len(), "{}", board.name);
        assert_eq!(count("create_clock"), 2 + board.qsfp.len(), "{}", board.name);
    }
    let xdc = Alveo::named("u50").unwrap().pins_xdc();
    for port in ["clock_p", "clock_n"] {
        assert!(xdc.contains(&format!("set_property DQS_BIAS TRUE [get_ports {{{port}}}]")));
    }
    assert!(
        xdc.contains("set_property DRIVE 8 [get_ports {link_led}]")
            && !xdc.contains("DRIVE 8 [get_ports {pcie")
    );
    assert!(xdc.contains("create_clock -name qsfp0_refclk -period 6.206 [get_ports {qsfp0_refclk_p}]"));
}

#[test]
fn rs_fec_is_on_unless_it_is_set() {
    let board = Alveo::named("u50").unwrap();
    assert!(alveos().iter().all(|board| board.rs_fec));
    assert!(!board.clone().set("rs_fec", "false").unwrap().rs_fec);
    assert_eq!(board.clone().set("rs_fec", "true").unwrap(), board);
    let refused = |field, value| board.clone().set(field, value).unwrap_err().to_string();
    assert_eq!(refused("rs_fec", "off"), "board `u50`: rs_fec = off: must be true or false");
    assert_eq!(
        refused("pcie", "gen4x8"),
        "board `u50`: pcie = gen4x8: no field of an Alveo card: set rs_fec"
    );
}

/// What passes between PCIe and Ethernet needs registers in these.
#[test]
fn dies_between_the_blocks_are_those_of_the_u280_alone() {
    for board in alveos() {
        let wanted: &[u32] = if board.name == "u280" { &[1] } else { &[] };
        assert_eq!(board.dies_between(), wanted, "{}", board.name);
    }
    let mut board = Alveo::named("u250").unwrap();
    (board.pcie.slr, board.qsfp[0].slr) = (3, 0);
    assert_eq!(board.dies_between(), [2, 1]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_field_and_the_reason() {
    let text = ALVEOS.iter().find(|(name, _)| *name == "u50").unwrap().1;
    let cases = [
        ("AF9", "BP9", "pcie_refclk_p = BP9: no ball of xcu50-fsvh2104-2-e"),
        ("\"AL2\"", "\"AL1\"", "pcie_rx_n[0] = AL1: that ball is pcie_rx_p[0] already"),
        ("\"AL2\", ", "", "pcie.rx_p = 15: must be a ball for each of 16 lanes"),
        (
            "generation = 3",
            "generation = 4",
            "pcie.generation = 4 with 16 lanes: must be 3 with 16 lanes: as many bytes as 512 bits at 250 MHz bring",
        ),
        ("X0Y28", "X0Y29", "qsfp[0].gt = X0Y29: must be the first of a quad, as X0Y28"),
        ("161.1328125", "125", "qsfp[0].refclk_mhz = 125: must be one of 156.25, 161.1328125, 322.265625"),
        ("slr = 1", "slr = 2", "qsfp[0].slr = 2: must be below slrs, 2"),
        ("divide = 1", "divide = 9", "clock.divide = 9: must be from 1 to 8, and divide khz"),
        ("io = \"LVDS\"", "io = \"LVDS_25\"", "clock_p = LVDS_25: must be one of LVCMOS12, LVCMOS18, LVDS"),
        (
            "mt25qu01g-spi-x1_x2_x4",
            "mt28gu512aax1e-bpi-x16",
            "flash.part = mt28gu512aax1e-bpi-x16: must be a memory behind four wires, as mt25qu01g-spi-x1_x2_x4",
        ),
        ("mcs_mib = 128", "mcs_mib = 16", "flash.offset = 16785408: must lie in mcs_mib MiB"),
        (
            "xcu50-fsvh2104-2-e",
            "xcvu13p-fsgd2104-2L-e",
            "part = xcvu13p-fsgd2104-2L-e: no part that is known; as xcu50-fsvh2104-2-e, with 2104 or 2892 balls",
        ),
    ];
    for (from, to, why) in cases {
        assert!(text.contains(from), "{from}");
        let error = Alveo::from_toml("mine", &text.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), format!("board `mine`: {why}"));
    }
    let error = Alveo::from_toml("mine", &text.replacen("divide =", "divided =", 1)).unwrap_err().to_string();
    assert!(error.starts_with("board `mine`: unknown field `divided`"), "{error}");
    assert!(Alveo::named("u51")
        .unwrap_err()
        .to_string()
        .starts_with("no board `u51`; there are butterstick,"));
}
