// SPDX-License-Identifier: MIT OR Apache-2.0
//! The top of a board with an ECP5: PLL, resets, and the logic as a core.

use ferrowire_rtl::{lit, Netlist, Scope, Sig};

use crate::Shell;

pub(crate) fn top(m: &Scope, shell: &Shell, logic: &Netlist) {
    let oscillator = m.input(&shell.board.clocks[0].name, 1);
    let rxc = m.input("rgmii0_rx_clk", 1);
    let (wire, core, lock) = pll(m, shell, oscillator);
    let resets =
        [("core", core), ("rgmii_tx", wire), ("rgmii_rx", rxc)].map(|(n, clock)| reset(m, n, clock, lock));

    let mut inputs: Vec<(String, Sig)> = Vec::new();
    let mut outputs: Vec<(String, u32)> = Vec::new();
    for port in logic.ports() {
        let given = match port.name.as_str() {
            "clk" => core,
            "rst" => resets[0],
            "rgmii_tx_clk" => wire,
            "rgmii_tx_rst" => resets[1],
            "rgmii_rx_clk" => rxc,
            "rgmii_rx_rst" => resets[2],
            name if port.input => m.input(name, port.width),
            _ => {
                outputs.push((port.name, port.width));
                continue;
            }
        };
        inputs.push((port.name, given));
    }
    let inputs: Vec<(&str, Sig)> = inputs.iter().map(|(name, sig)| (name.as_str(), *sig)).collect();
    let widths: Vec<(&str, u32)> = outputs.iter().map(|(name, width)| (name.as_str(), *width)).collect();
    let given = m.label("inside").black_box(&shell.logic_name(), &[], &[], &inputs, &widths);
    for ((name, _), sig) in widths.iter().zip(given) {
        match *name {
            "link_up" => lights(m, shell, sig),
            "rgmii0_tx_clk_out" => m.output("rgmii0_tx_clk", &sig),
            name => m.output(name, &sig),
        }
    }
    // Nobody manages the PHY: it comes up as its straps say.
    m.output("rgmii0_mdc", &lit(1, 0));
}

/// 125 MHz, the core's clock, and whether they can be used.
fn pll(m: &Scope, shell: &Shell, oscillator: Sig) -> (Sig, Sig, Sig) {
    let pll = shell.pll;
    let number = |n: u32| n.to_string();
    let mut numbers = vec![
        ("CLKI_DIV", number(pll.refclk)),
        ("CLKFB_DIV", number(pll.feedback)),
        ("CLKOP_DIV", number(pll.wire)),
        // No phase between outputs but that of the divider itself.
        ("CLKOP_CPHASE", number(pll.wire - 1)),
        ("CLKOP_FPHASE", number(0)),
        ("CLKOS_DIV", number(pll.core)),
        ("CLKOS_CPHASE", number(pll.core - 1)),
        ("CLKOS_FPHASE", number(0)),
    ];
    if let Some(own) = pll.own {
        let own = [("CLKOS2_DIV", own), ("CLKOS2_CPHASE", own - 1), ("CLKOS2_FPHASE", 0)];
        numbers.extend(own.map(|(name, value)| (name, number(value))));
    }
    let (own_enable, path) = match pll.own {
        Some(_) => ("\"ENABLED\"", "\"CLKOS2\""),
        None => ("\"DISABLED\"", "\"CLKOP\""),
    };
    let words = [
        ("CLKOP_ENABLE", "\"ENABLED\""),
        ("CLKOS_ENABLE", "\"ENABLED\""),
        ("CLKOS2_ENABLE", own_enable),
        ("FEEDBK_PATH", path),
        ("PLLRST_ENA", "\"DISABLED\""),
        ("INTFB_WAKE", "\"DISABLED\""),
        ("STDBY_ENABLE", "\"DISABLED\""),
        ("DPHASE_SOURCE", "\"DISABLED\""),
        ("OUTDIVIDER_MUXA", "\"DIVA\""),
        ("OUTDIVIDER_MUXB", "\"DIVB\""),
        ("OUTDIVIDER_MUXC", "\"DIVC\""),
        ("OUTDIVIDER_MUXD", "\"DIVD\""),
    ];
    let params: Vec<(&str, &str)> =
        numbers.iter().map(|(name, value)| (*name, value.as_str())).chain(words).collect();
    let feedback = m.wire("feedback", 1);
    let off = lit(1, 0);
    let inputs = [
        ("CLKI", oscillator),
        ("CLKFB", feedback),
        ("RST", off),
        ("STDBY", off),
        ("PHASESEL0", off),
        ("PHASESEL1", off),
        ("PHASEDIR", off),
        ("PHASESTEP", off),
        ("PHASELOADREG", off),
        ("PLLWAKESYNC", off),
        ("ENCLKOP", off),
        ("ENCLKOS", off),
    ];
    let mut outputs = vec![("CLKOP", 1), ("CLKOS", 1), ("LOCK", 1)];
    outputs.extend(pll.own.map(|_| ("CLKOS2", 1)));
    let made = m.label("pll").black_box("EHXPLLL", &params, &[], &inputs, &outputs);
    m.drive(&feedback, made[if pll.own.is_some() { 3 } else { 0 }]);
    (made[0], made[1], made[2])
}

/// Holds while the PLL has not locked, whether its clock runs or not, and for two edges behind that.
fn reset(m: &Scope, name: &str, clock: Sig, lock: Sig) -> Sig {
    let flop = |place: &str, input: Sig| {
        let inputs = [("D", input), ("CK", clock), ("PD", !lock)];
        let params = [("GSR", "\"DISABLED\"")];
        m.label(&format!("{name}_{place}")).black_box("FD1S3BX", &params, &[], &inputs, &[("Q", 1)])[0]
    };
    flop("reset", flop("reset_meta", lit(1, 0)))
}

/// The first light, or its green part, is lit while the link is up; the others are dark.
fn lights(m: &Scope, shell: &Shell, link: Sig) {
    for (i, led) in shell.board.leds.iter().enumerate() {
        let width = led.pins.len() as u32;
        let lit_part = match (i, width) {
            (0, 1) => link,
            (0, _) => link.zext(width) << 1,
            _ => lit(width, 0),
        };
        let wires = if led.active_low { !lit_part } else { lit_part };
        m.output(&format!("led{i}"), &wires);
    }
    if let Some(colours) = &shell.board.led_colours {
        let all = lit(colours.pins.len() as u32, 0);
        m.output("led_colours", &if colours.active_low { !all } else { all });
    }
}
