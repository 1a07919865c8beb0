// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tops of boards, from the outside.

use ferrowire_boards::{Board, Memory, BUILT_IN};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_shell::{Modules, Shell};

fn card() -> RnicConfig {
    RnicConfig { clock_khz: 50_000, ..RnicConfig::named("axi-8b").unwrap() }
}

fn board() -> Board {
    Board::named("ecpix5").unwrap()
}

fn refused(board: Board, card: RnicConfig) -> String {
    Shell::new(board, card).expect_err("it is refused").to_string()
}

/// Each port has its ball, and each ball that is named is one of a port.
#[test]
fn ports_and_constraints_name_each_other() {
    for (name, clocks) in
        [("ecpix5", ["clk100", "rgmii0_rx_clk"]), ("butterstick", ["clk30", "rgmii0_rx_clk"])]
    {
        let board = Board::named(name).unwrap();
        each_port_has_its_ball(board.clone(), clocks);
        each_port_has_its_ball(with_dram(board), clocks);
    }
}

/// The same board with memory in DRAM.
fn with_dram(mut board: Board) -> Board {
    let card = board.card.as_mut().unwrap();
    (card.dram, card.memory_bytes) = (true, 1 << 20);
    board
}

fn each_port_has_its_ball(board: Board, clocks: [&str; 2]) {
    let shell = Shell::new(board, card()).unwrap();
    let top = shell.modules().unwrap_or_else(|errors| panic!("{errors}")).top;
    let lpf = shell.lpf(&top);
    let quoted = |keyword: &str| -> Vec<String> {
        let lines = lpf.lines().filter(|line| line.starts_with(keyword));
        lines.map(|line| line.split('"').nth(1).expect("a name").to_string()).collect()
    };
    let mut ports = Vec::new();
    for port in top.ports() {
        match port.width {
            1 => ports.push(port.name),
            width => ports.extend((0..width).map(|bit| format!("{}[{bit}]", port.name))),
        }
    }
    for keyword in ["LOCATE COMP", "IOBUF PORT"] {
        let mut placed = quoted(keyword);
        placed.sort();
        ports.sort();
        assert_eq!(placed, ports, "{keyword}");
    }
    assert_eq!(quoted("FREQUENCY PORT"), clocks);
}

#[test]
fn the_logic_stands_in_the_top_with_every_pin_connected() {
    let shell = Shell::new(board(), card()).unwrap();
    let modules = shell.modules().unwrap();
    let verilog = modules.verilog();
    let Modules { logic, top } = modules;
    let names: Vec<&str> = verilog.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.last(), Some(&"ecpix5"));
    assert!(names.contains(&logic.top()));
    let mut once = names.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), names.len(), "two modules of one name");
    let verilog = top.verilog();
    for port in logic.ports() {
        assert_eq!(verilog.matches(&format!(".{}(", port.name)).count(), 1, "{}", port.name);
    }
    for cell in ["EHXPLLL", "FD1S3BX"] {
        assert!(verilog.contains(cell), "{cell}");
    }
    assert!(!verilog.contains("always"), "the top has no logic of its own");
}

/// nextpnr reads these from attributes alone, and writes zeros without.
#[test]
fn the_pll_has_its_charge_pump_and_loop_filter() {
    let wanted =
        "    (* ICP_CURRENT = \"12\", LPF_RESISTOR = \"8\", MFG_ENABLE_FILTEROPAMP = \"1\", MFG_GMCREF_SEL = \"2\" *)";
    for (name, _) in BUILT_IN {
        let shell = Shell::new(Board::named(name).unwrap(), card()).unwrap();
        for netlist in [shell.modules().unwrap().top, shell.pll_alone().unwrap()] {
            let verilog = netlist.verilog();
            let (before, _) = verilog.split_once("    EHXPLLL #(").expect("a PLL");
            assert_eq!(before.lines().last(), Some(wanted), "{name}");
        }
    }
}

/// The anodes choose the lights, so all colours are on: a one closes the switch of a colour.
#[test]
fn common_colours_are_on() {
    let mut board = Board::named("butterstick").unwrap();
    let colours = |board: &Board| {
        let top = Shell::new(board.clone(), card()).unwrap().modules().unwrap().top.verilog();
        top.lines().find(|line| line.contains("assign led_colours")).unwrap().to_string()
    };
    assert!(colours(&board).contains("3'd7"), "{}", colours(&board));
    board.led_colours.as_mut().unwrap().active_low = true;
    assert!(colours(&board).contains("3'd0"), "{}", colours(&board));
}

#[test]
fn what_does_not_go_together_is_refused_with_the_field_and_what_to_do() {
    let without = |change: fn(&mut Board)| {
        let mut board = board();
        change(&mut board);
        refused(board, card())
    };
    assert!(without(|board| board.serial = None).contains("no serial line"));
    assert!(without(|board| board.rgmii.clear()).contains("no PHY behind RGMII"));
    assert!(without(|board| board.card.as_mut().unwrap().baud = 100_000_000).contains("baud"));
    assert!(
        without(|board| board.card.as_mut().unwrap().memory_bytes = 1000).contains("memory_bytes is 1000")
    );
    let on_pcie = refused(board(), RnicConfig::named("pcie-8b").unwrap());
    assert!(on_pcie.contains("axi = false: must be true"), "{on_pcie}");
    let wide = refused(board(), RnicConfig::named("axi-64b").unwrap());
    assert!(wide.contains("beat_bytes = 64: must be 8"), "{wide}");
    let odd = refused(board(), RnicConfig { clock_khz: 51_000, ..card() });
    assert!(odd.contains("51000 kHz of 100000 kHz; choose another clock_khz"), "{odd}");
    let none = without(|board| board.card = None);
    assert!(none.contains("board `ecpix5` has no card: its board.toml needs [card]"), "{none}");
    // A memory that no controller is there for.
    assert!(without(|board| board.memory = None).contains("no memory, which `dram` wants"));
    let changed = |mut board: Board, change: fn(&mut Memory)| {
        change(board.memory.as_mut().unwrap());
        refused(board, card())
    };
    let less = |change| changed(with_dram(board()), change);
    assert!(less(|memory| memory.dq.truncate(8)).contains("no DDR3 of 16 bits"));
    assert!(less(|memory| memory.a.truncate(14)).contains("no balls for all rows and banks"));
    assert!(less(|memory| memory.cke.clear()).contains("no balls for CKE and ODT"));
    let mut large = with_dram(board());
    large.card.as_mut().unwrap().memory_bytes = 8 << 20;
    assert!(refused(large, card()).contains("memory_bytes is 8388608"));
    let slow = refused(with_dram(board()), RnicConfig { clock_khz: 20_000, ..card() });
    assert!(slow.contains("clock_khz = 20000: must be from 25000 to 62500"), "{slow}");
}
