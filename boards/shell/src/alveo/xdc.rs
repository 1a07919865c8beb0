// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constraints: places, clocks, what passes between clocks, dies.

use std::fmt::Write;

use super::logic::die_name;
use super::{AlveoModules, AlveoShell, INSIDE};

/// The shorter of the two clocks' periods, in ns: a bit that crosses arrives within it, so of a Gray-coded pointer no two changes are on the way at once.
const CROSSING_NS: &str = "3.103";

/// A cell in Vivado, as it calls the registers of a signal (UG901).
fn cells(instance: &str, register: &str, width: u32) -> String {
    let path = match instance {
        "" => format!("{INSIDE}/{register}_reg"),
        instance => format!("{INSIDE}/{instance}/{register}_reg"),
    };
    // A register of one bit has no index; braces keep the brackets of others from Tcl.
    match width {
        1 => format!("[get_cells {{{path}}}]"),
        _ => format!("[get_cells {{{path}[*]}}]"),
    }
}

pub(super) fn xdc(shell: &AlveoShell, modules: &AlveoModules) -> String {
    let (board, ports) = (&shell.board, modules.top.ports());
    let has = |name: &str| ports.iter().any(|port| port.name == name);
    let mut text = format!("# {}: {}\n\n# Places and clocks of ports.\n", board.name, board.title);
    text.push_str(&board.pins_xdc_of(has));

    text.push_str("\n# Wires that no clock looks at.\n");
    text.push_str("set_false_path -from [get_ports {pcie_perst_n}]\n");
    for name in ["link_led", "hbm_cattrip", "qsfp0_modsell", "qsfp0_resetl", "qsfp0_lpmode"] {
        if has(name) {
            let _ = writeln!(text, "set_false_path -to [get_ports {{{name}}}]");
        }
    }

    text.push_str(
        "\n# From one clock to another: every register that another clock's feeds, and nothing else.\n",
    );
    let clock = |name: &str| match name {
        "clk" => format!("[get_clocks -of_objects [get_pins {{{}/user_clk}}]]", "pcie"),
        _ => format!("[get_clocks -of_objects [get_pins {{{}/gt_txusrclk2}}]]", "ethernet"),
    };
    for crossing in modules.logic.clock_crossings() {
        let cells = cells(&crossing.instance, &crossing.register, crossing.width);
        let from = clock(&crossing.from);
        let _ = writeln!(text, "set_max_delay -datapath_only -from {from} -to {cells} {CROSSING_NS}");
    }
    for name in ["core", "cmac"] {
        let _ = writeln!(
            text,
            "set_false_path -to [get_pins {{{name}_reset_meta/PRE {name}_reset/PRE}}]\n\
             set_property ASYNC_REG TRUE [get_cells {{{name}_reset_meta {name}_reset}}]"
        );
    }

    if board.slrs > 1 {
        let _ = writeln!(
            text,
            "\n# Dies: each part of the logic is in that of its block, and register slices in those between."
        );
        let own = |name: &str, cell: &str, slr| (name.to_string(), cell.to_string(), slr);
        let between = board.dies_between().into_iter().map(|slr| {
            let (name, cell) = die_name(slr);
            (name, cell, slr)
        });
        let ends = [own("card", "card", board.pcie.slr), own("mac", "cmac", board.qsfp[0].slr)];
        for (name, cell, slr) in ends.into_iter().chain(between) {
            let _ = writeln!(
                text,
                "create_pblock pblock_{name}\n\
                 resize_pblock [get_pblocks pblock_{name}] -add {{SLR{slr}}}\n\
                 add_cells_to_pblock [get_pblocks pblock_{name}] [get_cells {{{INSIDE}/{cell}}}]"
            );
        }
    }

    let rate = &board.flash.config_rate;
    text.push_str("\n# Configuration, from a memory behind four wires; what the card's satellite controller and golden image need stays as it is.\n");
    for (property, value) in [
        ("CFGBVS", "GND"),
        ("CONFIG_VOLTAGE", "1.8"),
        ("CONFIG_MODE", "SPIx4"),
        ("BITSTREAM.GENERAL.COMPRESS", "TRUE"),
        ("BITSTREAM.CONFIG.CONFIGFALLBACK", "ENABLE"),
        ("BITSTREAM.CONFIG.EXTMASTERCCLK_EN", "DISABLE"),
        ("BITSTREAM.CONFIG.CONFIGRATE", rate),
        ("BITSTREAM.CONFIG.SPI_BUSWIDTH", "4"),
        ("BITSTREAM.CONFIG.SPI_32BIT_ADDR", "YES"),
        ("BITSTREAM.CONFIG.SPI_FALL_EDGE", "YES"),
        ("BITSTREAM.CONFIG.UNUSEDPIN", "PULLUP"),
        ("BITSTREAM.CONFIG.OVERTEMPSHUTDOWN", "ENABLE"),
    ] {
        let _ = writeln!(text, "set_property {property} {value} [current_design]");
    }
    text
}
