// SPDX-License-Identifier: MIT OR Apache-2.0
//! The top of a board with an ECP5: PLL, resets, and the logic as a core.

use ferrowire_dram::WORD_BITS;
use ferrowire_rtl::{lit, Netlist, Scope, Sig};

use crate::Shell;

pub(crate) fn top(m: &Scope, shell: &Shell, logic: &Netlist) {
    let oscillator = m.input(&shell.board.clocks[0].name, 1);
    let rxc = m.input("rgmii0_rx_clk", 1);
    let Made { wire, core, twice, lock } = pll(m, shell, oscillator);
    let resets =
        [("core", core), ("rgmii_tx", wire), ("rgmii_rx", rxc)].map(|(n, clock)| reset(m, n, clock, lock));
    // DDR3's clock and its reset; what DRAM's data wires have.
    let memory = twice.map(|twice| (twice, reset(m, "memory", twice, lock)));
    let ddr3 = || memory.expect("the logic has DDR3");
    let read = shell.dram.as_ref().map(|_| m.wire("dram_dq_read", WORD_BITS));

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
            "memory_clk" => ddr3().0,
            "memory_rst" => ddr3().1,
            "dram_dq_in" => read.expect("the logic has DRAM"),
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
    let given: Vec<(&str, Sig)> = widths.iter().map(|(name, _)| *name).zip(given).collect();
    let of = |wanted: &str| given.iter().find(|(name, _)| *name == wanted).expect("the logic has it").1;
    for (name, sig) in &given {
        match *name {
            name if name == "link_up" || name.starts_with("dram_") => (),
            "rgmii0_tx_clk_out" => m.output("rgmii0_tx_clk", sig),
            name => m.output(name, sig),
        }
    }
    let known = read.map(|read| {
        m.drive(&read, balls_of_dram(m, shell, &of));
        (of("dram_done"), of("dram_broken"))
    });
    lights(m, shell, of("link_up"), known);
    // Nobody manages the PHY: it comes up as its straps say.
    m.output("rgmii0_mdc", &lit(1, 0));
}

/// The balls of DRAM; what those of DQ have. A second rank is left alone: its CKE is low.
fn balls_of_dram(m: &Scope, shell: &Shell, of: &dyn Fn(&str) -> Sig) -> Sig {
    let memory = shell.board.memory.as_ref().expect("the logic has DRAM");
    for name in ["ras_n", "cas_n", "we_n", "ba", "a"] {
        m.output(&format!("dram_{name}"), &of(&format!("dram_{name}")));
    }
    m.output("dram_clk", &of("dram_ck"));
    let pads = |name: &str| {
        let (sent, off) = (of(&format!("dram_{name}")), of(&format!("dram_{name}_off")));
        let balls = m.inout(&format!("dram_{name}"), sent.width());
        let read: Vec<Sig> = (0..sent.width())
            .map(|i| {
                let inputs = [("B", balls.bit(i)), ("I", sent.bit(i)), ("T", off.bit(i))];
                m.label(&format!("dram_{name}{i}")).black_box("BB", &[], &[], &inputs, &[("O", 1)])[0]
            })
            .collect();
        ferrowire_rtl::cat(&read)
    };
    m.output("dram_dm", &of("dram_dm"));
    let ranks = |pins: &[String]| pins.len() as u32;
    m.output("dram_cke", &of("dram_cke").zext(ranks(&memory.cke)));
    m.output("dram_odt", &lit(ranks(&memory.odt), 0));
    if !memory.cs_n.is_empty() {
        m.output("dram_cs_n", &!lit(ranks(&memory.cs_n), 1));
    }
    if memory.reset_n.is_some() {
        m.output("dram_reset_n", &of("dram_reset_n"));
    }
    // Words are caught by time, not by their strobes.
    m.discard(&pads("dqs"));
    pads("dq")
}

/// What the PLL gives.
struct Made {
    /// 125 MHz.
    wire: Sig,
    /// The core's clock.
    core: Sig,
    /// Twice that, where DRAM wants it.
    twice: Option<Sig>,
    /// They can be used.
    lock: Sig,
}

/// Charge pump and loop filter of the PLL. nextpnr reads them from attributes, and writes zeros without: the loop may not lock.
/// The values are those of Project Trellis's `ecppll`, which has the same for all dividers.
const LOOP: [(&str, &str); 4] =
    [("ICP_CURRENT", "12"), ("LPF_RESISTOR", "8"), ("MFG_ENABLE_FILTEROPAMP", "1"), ("MFG_GMCREF_SEL", "2")];

/// The PLL alone, between the oscillator and the first light, which is lit once it has locked.
pub(crate) fn pll_alone(m: &Scope, shell: &Shell) {
    let made = pll(m, shell, m.input(&shell.board.clocks[0].name, 1));
    for clock in [made.wire, made.core].into_iter().chain(made.twice) {
        m.discard(&clock);
    }
    lights(m, shell, made.lock, None);
}

fn pll(m: &Scope, shell: &Shell, oscillator: Sig) -> Made {
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
    if let Some(twice) = pll.twice {
        let twice = [("CLKOS3_DIV", twice), ("CLKOS3_CPHASE", twice - 1), ("CLKOS3_FPHASE", 0)];
        numbers.extend(twice.map(|(name, value)| (name, number(value))));
    }
    let twice_enable = if pll.twice.is_some() { "\"ENABLED\"" } else { "\"DISABLED\"" };
    let (own_enable, path) = match pll.own {
        Some(_) => ("\"ENABLED\"", "\"CLKOS2\""),
        None => ("\"DISABLED\"", "\"CLKOP\""),
    };
    let words = [
        ("CLKOP_ENABLE", "\"ENABLED\""),
        ("CLKOS_ENABLE", "\"ENABLED\""),
        ("CLKOS2_ENABLE", own_enable),
        ("CLKOS3_ENABLE", twice_enable),
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
    outputs.extend(pll.twice.map(|_| ("CLKOS3", 1)));
    let made = m.label("pll").black_box_with("EHXPLLL", &LOOP, &params, &[], &inputs, &outputs);
    m.drive(&feedback, made[if pll.own.is_some() { 3 } else { 0 }]);
    let twice = pll.twice.map(|_| made[made.len() - 1]);
    Made { wire: made[0], core: made[1], twice, lock: made[2] }
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

/// The first light, or its green part, is lit while the link is up. The second is while DRAM can be used; where it has parts, the red one if it never will be. The others are dark.
fn lights(m: &Scope, shell: &Shell, link: Sig, dram: Option<(Sig, Sig)>) {
    let (ready, broken) = dram.unwrap_or((lit(1, 0), lit(1, 0)));
    for (i, led) in shell.board.leds.iter().enumerate() {
        let width = led.pins.len() as u32;
        let (green, red) = match i {
            0 => (link, lit(1, 0)),
            1 => (ready & !broken, broken),
            _ => (lit(1, 0), lit(1, 0)),
        };
        let lit_part = match width {
            1 => green,
            _ => ferrowire_rtl::cat(&[red, green]).zext(width),
        };
        let wires = if led.active_low { !lit_part } else { lit_part };
        m.output(&format!("led{i}"), &wires);
    }
    if let Some(colours) = &shell.board.led_colours {
        // All colours are on: the anodes choose which lights are lit.
        let on = !lit(colours.pins.len() as u32, 0);
        m.output("led_colours", &if colours.active_low { !on } else { on });
    }
}
