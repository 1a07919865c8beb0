// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tops of Alveo cards, from the outside.

use ferrowire_boards::{Alveo, ALVEOS};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_rtl::{build, lit};
use ferrowire_shell::alveo::{CMAC, PCIE4};
use ferrowire_shell::{AlveoModules, AlveoShell};
use std::collections::{BTreeMap, BTreeSet};

fn card() -> RnicConfig {
    RnicConfig::named("pcie4-64b").unwrap()
}

fn shell(name: &str) -> AlveoShell {
    AlveoShell::new(Alveo::named(name).unwrap(), card()).unwrap_or_else(|error| panic!("{error}"))
}

fn modules(shell: &AlveoShell) -> AlveoModules {
    shell.modules().unwrap_or_else(|errors| panic!("{errors}"))
}

/// What stands between the braces behind `get_ports`, `get_cells` or `get_pins`.
fn named<'t>(xdc: &'t str, what: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    for line in xdc.lines().filter(|line| !line.starts_with('#')) {
        for part in line.split(&format!("[{what} {{")).skip(1) {
            found.extend(part.split_once("}]").expect("a brace").0.split(' '));
        }
    }
    found
}

/// Each port has its ball, and each ball that is named is one of a port.
#[test]
fn ports_and_constraints_name_each_other_on_every_alveo() {
    for (name, _) in ALVEOS {
        let shell = shell(name);
        let modules = modules(&shell);
        let xdc = shell.xdc(&modules);
        let mut ports = Vec::new();
        for port in modules.top.ports() {
            match port.width {
                1 => ports.push(port.name),
                width => ports.extend((0..width).map(|bit| format!("{}[{bit}]", port.name))),
            }
        }
        let placed = xdc.lines().filter(|line| line.starts_with("set_property PACKAGE_PIN"));
        let mut placed: Vec<String> =
            placed.flat_map(|line| named(line, "get_ports")).map(String::from).collect();
        placed.sort();
        ports.sort();
        assert_eq!(placed, ports, "{name}");
        // No other line names a port that is not there.
        assert!(
            named(&xdc, "get_ports").iter().all(|port| ports.iter().any(|known| known == port)),
            "{name}"
        );
    }
}

#[test]
fn every_register_that_another_clock_feeds_has_an_exception_and_nothing_else_has() {
    let shell = shell("u250");
    let modules = modules(&shell);
    let xdc = shell.xdc(&modules);
    let cells: BTreeSet<String> = modules
        .logic
        .clock_crossings()
        .into_iter()
        .map(|crossing| {
            let index = if crossing.width == 1 { "" } else { "[*]" };
            format!("nic/{}/{}_reg{index}", crossing.instance, crossing.register)
        })
        .collect();
    let delayed: String =
        xdc.lines().filter(|line| line.starts_with("set_max_delay")).map(|l| format!("{l}\n")).collect();
    let excepted: BTreeSet<String> = named(&delayed, "get_cells").into_iter().map(String::from).collect();
    assert_eq!(excepted, cells);
    // Two crossings of two pointers and a memory each, the link, what the block says of it, and two counts.
    assert_eq!(cells.len(), 10, "{cells:?}");
    // No clock is cut from another as a whole.
    assert!(!xdc.contains("set_clock_groups"));
    // The cells and instances of the top.
    let top = modules.top.verilog();
    for pin in named(&xdc, "get_pins") {
        let (cell, port) = pin.rsplit_once('/').expect("a pin");
        assert!(top.contains(&format!(" {cell} (\n")) && top.contains(&format!(".{port}(")), "{pin}");
    }
}

/// Whether the Verilog has a cell of this path: instances, and behind them an instance or a register, which Vivado calls by its name with `_reg` behind it (UG901).
fn has_cell(texts: &BTreeMap<String, String>, top: &str, path: &str) -> bool {
    let (above, cell) = path.rsplit_once('/').unwrap_or(("", path));
    let mut module = top.to_string();
    for instance in above.split('/').filter(|part| !part.is_empty()) {
        let end = format!(" {instance} (");
        let Some(line) = texts[&module].lines().find(|line| line.ends_with(&end)) else { return false };
        module = line.split_whitespace().next().expect("the module's name").to_string();
    }
    let text = &texts[&module];
    match cell.trim_end_matches("[*]").strip_suffix("_reg") {
        Some(register) => text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default().trim();
            code.split_whitespace().any(|word| word == "reg") && code.ends_with(&format!(" {register};"))
        }),
        None => text.lines().any(|line| line.ends_with(&format!(" {cell} ("))),
    }
}

/// The Verilog keeps the names that the constraints use: a name that is a word of SystemVerilog, or that is there twice, it would print with a number behind it.
#[test]
fn every_cell_that_a_constraint_names_is_in_the_verilog() {
    for (name, _) in ALVEOS {
        let shell = shell(name);
        let modules = modules(&shell);
        let texts: BTreeMap<String, String> = modules.verilog().into_iter().collect();
        let xdc = shell.xdc(&modules);
        let cells = named(&xdc, "get_cells");
        // Ten crossings, two resets of two flip-flops each, two parts in dies, and what lies between these.
        assert_eq!(cells.len(), 16 + shell.board().dies_between().len(), "{cells:?}");
        for cell in cells {
            assert!(has_cell(&texts, name, cell), "{name}: {cell}");
        }
        assert!(!has_cell(&texts, name, "nic/cmac/no_such_reg"));
        assert!(!has_cell(&texts, name, "inside/cmac"));
    }
}

#[test]
fn each_part_of_the_logic_is_in_the_die_of_its_block() {
    for (name, card, mac) in [
        ("u50", 0, 1),
        ("u55c", 0, 1),
        ("u55n", 0, 1),
        ("u200", 1, 2),
        ("u250", 1, 2),
        ("vcu1525", 1, 2),
        ("u280", 0, 2),
    ] {
        let shell = shell(name);
        let modules = modules(&shell);
        let xdc = shell.xdc(&modules);
        let mut regions = vec![("card", card, "nic/card"), ("mac", mac, "nic/cmac")];
        // A stream that crosses two borders has register slices in the die between them.
        if mac - card == 2 {
            regions.push(("slr1", 1, "nic/slr1_die"));
        }
        assert_eq!(xdc.matches("create_pblock").count(), regions.len());
        for (region, slr, cell) in regions {
            let text = format!(
                "resize_pblock [get_pblocks pblock_{region}] -add {{SLR{slr}}}\nadd_cells_to_pblock [get_pblocks pblock_{region}] [get_cells {{{cell}}}]"
            );
            assert!(xdc.contains(&text), "{name}: {text}");
        }
        let instances: Vec<String> = modules.logic.instances();
        for instance in ["card", "cmac"] {
            assert!(instances.contains(&format!("{name}_logic.{instance}")), "{instance}");
        }
    }
}

#[test]
fn the_top_has_no_logic_and_connects_every_pin_of_the_logic_and_of_the_blocks() {
    let modules = modules(&shell("u280"));
    let top = modules.top.verilog();
    assert!(!top.contains("always"), "the top has no logic of its own");
    let instance = top.split_once("u280_logic nic (").expect("the logic").1;
    let instance = instance.split_once(");").expect("its end").0;
    for port in modules.logic.ports() {
        assert_eq!(instance.matches(&format!(".{}(", port.name)).count(), 1, "{}", port.name);
    }
    for (_, port, _) in PCIE4.ports.iter().chain(CMAC.ports) {
        assert!(top.contains(&format!(".{port}(")), "{port}");
    }
}

/// `boards/tests/facts.toml`, whose balls and sites the tests of `ferrowire-boards` look at.
#[test]
fn ip_and_constraints_agree_with_what_public_files_say_of_each_alveo() {
    let facts: toml::Table = toml::from_str(include_str!("../../tests/facts.toml")).unwrap();
    let mut compared = 0;
    for fact in facts["fact"].as_array().unwrap() {
        let shell = shell(fact["board"].as_str().unwrap());
        let script = shell.build_script();
        let of = |ip: &str| fact.get(ip).and_then(|properties| properties.as_table()).into_iter().flatten();
        for (property, value) in of("cmac").chain(of("pcie")) {
            let line = format!("    {property} {{{}}}\n", value.as_str().unwrap());
            assert!(script.contains(&line), "{}: {property}, from {}", shell.board().name, fact["from"]);
            compared += 1;
        }
        if fact.get("overtemp_shutdown").is_some() {
            let xdc = shell.xdc(&modules(&shell));
            assert!(xdc.contains("set_property BITSTREAM.CONFIG.OVERTEMPSHUTDOWN ENABLE [current_design]\n"));
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn rs_fec_is_wired_on_or_off_as_the_card_says() {
    let with = |on: &str| {
        let board = Alveo::named("u50").unwrap().set("rs_fec", on).unwrap();
        modules(&AlveoShell::new(board, card()).unwrap()).top.verilog()
    };
    let ports =
        ["tx_rsfec_enable", "rx_rsfec_enable", "rx_rsfec_enable_correction", "rx_rsfec_enable_indication"];
    let (on, off) = (with("true"), with("false"));
    for port in ports {
        assert!(
            on.contains(&format!(".ctl_{port}(1'b1)")) && off.contains(&format!(".ctl_{port}(1'b0)")),
            "{port}"
        );
    }
}

/// Only the power-on reset resets the Ethernet block, so that the link outlives a reset of the host. The watchdog resets its receiver.
#[test]
fn resets_of_the_ethernet_block_are_wired() {
    for (name, _) in ALVEOS {
        let top = modules(&shell(name)).top.verilog();
        let ethernet = top.split_once(" ethernet (").expect("the block").1;
        let ethernet = ethernet.split_once(");").expect("its end").0;
        for pin in [".sys_reset(power_up_Q)", ".gtwiz_reset_rx_datapath(nic_ctl_rx_datapath_reset)"] {
            assert!(ethernet.contains(pin), "{name}: {pin}");
        }
    }
}

/// PG213 and PG203 have these widths at 512 bits; see the tables for the rest.
#[test]
fn the_tables_of_ports_have_the_documents_widths() {
    for (port, width) in [
        ("s_axis_rq_tuser", 137),
        ("m_axis_rc_tuser", 161),
        ("m_axis_cq_tuser", 183),
        ("s_axis_cc_tuser", 81),
        ("s_axis_rq_tready", 4),
        ("pcie_rq_seq_num0", 6),
        ("pcie_tfc_nph_av", 4),
        ("cfg_mgmt_addr", 10),
    ] {
        assert_eq!(PCIE4.width(port), Some(width), "{port}");
    }
    for (port, width) in
        [("tx_axis_tdata", 512), ("rx_axis_tkeep", 64), ("gt_loopback_in", 12), ("tx_preamblein", 56)]
    {
        assert_eq!(CMAC.width(port), Some(width), "{port}");
    }
    for table in [PCIE4, CMAC] {
        let names: BTreeSet<&str> = table.ports.iter().map(|(_, name, _)| *name).collect();
        assert_eq!(names.len(), table.ports.len(), "a port stands twice");
    }
}

fn place_pcie(change: impl FnOnce(&mut Vec<(&'static str, ferrowire_rtl::Sig)>)) {
    let _ = build("bench", |m| {
        let mut inputs = PCIE4.zeros(&[]);
        change(&mut inputs);
        PCIE4.place(m, "pcie", "pcie_block", &[], &inputs);
    });
}

#[test]
#[should_panic(expected = "pcie_block.cfg_dsn has 64 bits (PG213, Port Descriptions), not 32")]
fn a_pin_of_another_width_is_refused() {
    place_pcie(|inputs| {
        inputs.iter_mut().filter(|(name, _)| *name == "cfg_dsn").for_each(|pin| pin.1 = lit(32, 0))
    });
}

#[test]
#[should_panic(expected = "pcie_block.sys_clk is given 0 times")]
fn a_pin_that_is_forgotten_is_refused() {
    place_pcie(|inputs| inputs.retain(|(name, _)| *name != "sys_clk"));
}

#[test]
fn the_script_makes_what_the_card_says_of_itself() {
    let shell = shell("u55c");
    let script = shell.build_script();
    for line in [
        "create_project -in_memory -part xcu55c-fsvh2892-2L-e",
        "make_ip pcie4c_uscale_plus pcie_block {",
        "    vendor_id {1AF4}",
        "    PF0_DEVICE_ID {10F0}",
        "    PF0_CLASS_CODE {020700}",
        "    pf0_bar0_size {16}",
        "    PF0_MSIX_CAP_TABLE_SIZE {00F}",
        "    PF0_MSIX_CAP_TABLE_OFFSET {00004000}",
        "    PF0_MSIX_CAP_PBA_OFFSET {00004800}",
        "    CMAC_CORE_SELECT {CMACE4_X0Y3}",
        "    GT_GROUP_SELECT {X0Y24~X0Y27}",
        "    LANE4_GT_LOC {X0Y27}",
        "    GT_DRP_CLK {100.00}",
        "    RX_MAX_PACKET_LEN {9022}",
        "-loadbit \"up 0x01002000 written.bit\"",
    ] {
        assert!(script.contains(line), "{line}\n{script}");
    }
    assert_eq!(script.matches('{').count(), script.matches('}').count());
    assert!(script.contains("LINK_SPEED {8.0_GT/s}") && script.contains("LINK_WIDTH {X16}"));
    assert_eq!(shell.card().eqs, 16);
    // Files of an earlier run go first, and this one's have their names when the last of both is whole.
    let steps = [
        "file delete u55c.bit u55c.mcs u55c.prm",
        "create_project",
        "route_design",
        "a path is too slow or too fast",
        "write_bitstream -force written.bit",
        "write_cfgmem",
        "file rename written.bit u55c.bit",
        "file rename written.mcs u55c.mcs",
    ];
    assert!(steps.map(|step| script.find(step).unwrap_or_else(|| panic!("{step}"))).is_sorted(), "{script}");
}

#[test]
fn what_does_not_go_together_is_refused_with_the_field_and_what_to_do() {
    let refused = |change: fn(&mut Alveo, &mut RnicConfig)| {
        let (mut board, mut card) = (Alveo::named("u50").unwrap(), card());
        change(&mut board, &mut card);
        AlveoShell::new(board, card).expect_err("it is refused").to_string()
    };
    let plain = refused(|_, card| *card = RnicConfig::named("pcie-64b").unwrap());
    assert_eq!(plain, "board `u50`: pcie4 = false: must be true, before AMD's PCIe block");
    let slow = refused(|_, card| card.clock_khz = 200_000);
    assert_eq!(slow, "board `u50`: clock_khz = 200000: must be 250000, the PCIe block's clock");
    let few = refused(|board, _| board.pcie.lanes = 4);
    assert_eq!(few, "board `u50`: pcie.lanes = 4: must be 16: no top for other links is there");
    assert!(refused(|_, card| card.beat_bytes = 32).contains("beat_bytes = 32: must be 64"));
}
