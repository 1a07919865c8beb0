// SPDX-License-Identifier: MIT OR Apache-2.0
//! The boards that come with the project, and descriptions that are refused.

use ferrowire_boards::{Board, BUILT_IN};
use std::collections::BTreeSet;
use std::path::Path;

fn boards() -> Vec<Board> {
    BUILT_IN.iter().map(|(name, _)| Board::named(name).unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn every_board_is_sound_and_says_where_its_pins_were_found() {
    for board in boards() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(&board.name);
        let readme = std::fs::read_to_string(folder.join("README.md")).expect("a README beside board.toml");
        let wanted = ["## Sources", "## Decisions", "## What was tried", "ISSUE_TEMPLATE/board-report.md"];
        for wanted in wanted.into_iter().chain([&*board.title]) {
            assert!(readme.contains(wanted), "{}: {wanted}", board.name);
        }
        assert!(!board.rgmii.is_empty() && board.memory.is_some(), "{}", board.name);
    }
    // No folder is forgotten.
    let folders = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).expect("the folder of boards");
    let with_board = folders.filter_map(|entry| {
        let path = entry.expect("an entry").path();
        path.join("board.toml").exists().then(|| path.file_name().unwrap().to_string_lossy().into_owned())
    });
    let built_in: BTreeSet<String> = ferrowire_boards::names().into_iter().map(String::from).collect();
    assert_eq!(with_board.collect::<BTreeSet<_>>(), built_in);
}

#[test]
fn constraints_name_each_port_once_with_its_ball_and_its_type() {
    for board in boards() {
        let (lpf, ports) = (board.lpf(), board.ports());
        let count = |start: &str| lpf.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((count("LOCATE"), count("IOBUF")), (ports.len(), ports.len()), "{}", board.name);
        assert_eq!(count("FREQUENCY"), board.clocks.len() + board.rgmii.len(), "{}", board.name);
        for port in &ports {
            assert!(lpf.contains(&format!("LOCATE COMP \"{}\" SITE \"{}\";\n", port.name, port.pin)));
            assert!(lpf.contains(&format!("IOBUF PORT \"{}\" IO_TYPE={}", port.name, port.io)));
        }
    }
}

#[test]
fn the_boards_are_what_they_are_known_as() {
    let found: Vec<_> = boards()
        .into_iter()
        .map(|board| {
            let (part, memory) = (board.part(), board.memory.as_ref().expect("memory"));
            let mib = memory.bytes >> 20;
            (board.name, part.luts, part.speed, board.clocks[0].khz, board.rgmii.len(), memory.dq.len(), mib)
        })
        .collect();
    let known = [
        ("butterstick".to_string(), 83_640, 8, 30_000, 1, 16, 128),
        ("ecpix5".to_string(), 83_640, 8, 100_000, 1, 16, 512),
    ];
    assert_eq!(found, known);
}

/// Both PHYs delay RXC themselves, and neither delays TXC (the sources are in the boards' READMEs).
#[test]
fn the_fpga_delays_what_the_phy_does_not() {
    for board in boards() {
        let delays: Vec<_> =
            board.rgmii.iter().map(|phy| (phy.tx_clk_delay_ps, phy.rx_data_delay_ps)).collect();
        assert_eq!(delays, [(2000, 0)], "{}", board.name);
    }
}

#[test]
fn the_phy_says_whether_the_link_is_up_unless_the_description_does() {
    let text = BUILT_IN.iter().find(|(name, _)| *name == "ecpix5").unwrap().1;
    let with = |link: &str| {
        let text = text.replacen("rx_data_delay_ps = 0", &format!("rx_data_delay_ps = 0\n{link}"), 1);
        Board::from_toml("mine", &text).unwrap().rgmii[0].link_is_up()
    };
    assert_eq!(["", "link = \"in-band\"", "link = \"up\""].map(with), [false, false, true]);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_field_and_the_reason() {
    let text = BUILT_IN.iter().find(|(name, _)| *name == "ecpix5").unwrap().1;
    let cases = [
        ("pin = \"K23\"", "pin = \"K27\"", "clk100 = K27: no ball of LFE5UM5G-85F-8BG554I"),
        ("pin = \"K23\"", "pin = \"R24\"", "serial_tx = R24: that ball is clk100 already"),
        ("khz = 100000", "khz = 100", "clock[0].khz = 100: must be from 8000 to 400000"),
        ("name = \"clk100\"", "name = \"Clock\"", "clock[0].name = Clock: must be lower-case letters, digits and `_`"),
        ("name = \"clk100\"", "name = \"serial_tx\"", "serial_tx = R24: there are two ports of that name"),
        ("io = \"SSTL15_I\"", "io = \"LVCMOS33\"", "memory.io = LVCMOS33: must be one of SSTL15_I, SSTL135_I"),
        (
            "tx_clk_delay_ps = 2000",
            "tx_clk_delay_ps = 2010",
            "rgmii[0].tx_clk_delay_ps = 2010: must be a multiple of 25, at most 3175",
        ),
        (
            "rx_data_delay_ps = 0",
            "rx_data_delay_ps = 3200",
            "rgmii[0].rx_data_delay_ps = 3200: must be a multiple of 25, at most 3175",
        ),
        (
            "rx_data_delay_ps = 0",
            "rx_data_delay_ps = 0\nlink = \"auto\"",
            "rgmii[0].link = auto: must be one of in-band, up",
        ),
        ("bytes = 536870912", "bytes = 536870911", "memory.bytes = 536870911: must be a power of two"),
        ("dm = [\"U4\", \"U1\"]", "dm = [\"U4\"]", "memory.dm = 1: must be a pin for each of 2 bytes"),
        ("\"P21\", \"R23\", \"P22\"", "\"P21\", \"R23\"", "led[0].pins = 2: must be one pin, or three"),
        (
            "io = \"LVCMOS33\"\n\n[[led]]",
            "io = \"LVCMOS12\"\n\n[[led]]",
            "clock[0].io = LVCMOS12: must be one of LVCMOS33, LVCMOS25, LVCMOS18",
        ),
        (
            "LFE5UM5G-85F-8BG554I",
            "XC7A35T",
            "part = XC7A35T: no part that is known; as LFE5UM5G-85F-8BG381C, with 25F, 45F or 85F and BG256, BG381, BG554 or BG756",
        ),
    ];
    for (from, to, why) in cases {
        assert!(text.contains(from), "{from}");
        let error = Board::from_toml("mine", &text.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), format!("board `mine`: {why}"));
    }
    let text = BUILT_IN.iter().find(|(name, _)| *name == "butterstick").unwrap().1;
    let cases = [
        ("mv = 3300", "mv = 3466", "supplies.supply[0].mv = 3466: must be from 946 to 3465"),
        ("mv = 1200", "mv = 900", "supplies.supply[1].mv = 900: must be from 946 to 3465"),
        (
            "low_mv = 3547",
            "low_mv = 946",
            "supplies.low_mv = 946: must be above high_mv: pulses pull the voltage down",
        ),
        ("settle_ms = 200", "settle_ms = 0", "supplies.settle_ms = 0: must be from 1 to 1000"),
        (
            "pulses = \"T2\"",
            "pulses = \"E12\"",
            "supplies_pulses[2] = E12: that ball is supplies_enable already",
        ),
    ];
    for (from, to, why) in cases {
        assert!(text.contains(from), "{from}");
        let error = Board::from_toml("mine", &text.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), format!("board `mine`: {why}"));
    }
    let error = Board::from_toml("mine", &text.replacen("mdc =", "mcd =", 1)).unwrap_err().to_string();
    assert!(error.starts_with("board `mine`: unknown field `mcd`"), "{error}");
    assert_eq!(
        Board::named("ecpix").unwrap_err().to_string(),
        "no board `ecpix`; there are butterstick, ecpix5, u200, u250, u280, u50, u55c, u55n, vcu1525"
    );
}
