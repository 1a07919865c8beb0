// SPDX-License-Identifier: MIT OR Apache-2.0
//! The border of a board's logic: AMD's blocks, which no tool of ours maps, and what the constraints say of paths that no clock times.
//!
//! A path ends at an input of a block and begins at an output. Which pin is which is read from the stubs that stand in the blocks' place; each
//! pin is an endpoint. The constraints are Vivado's: `set_max_delay -datapath_only` from a clock to registers, and `set_false_path` to pins.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result};

use super::delays::Delays;
use super::netlist::Netlist;

/// The RNIC's module in a board's logic. If it is left out, paths from it begin at a port and paths to it end at one.
pub const RNIC: &str = "card";

/// A block of AMD's.
pub struct Block {
    /// The module's name.
    pub cell: &'static str,
    /// The clock output in which most of its pins are.
    pub clock: &'static str,
    /// Pins of another clock, or of none, by the beginning of their name: transceivers, clocks, and what the block synchronises itself.
    aside: &'static [(&'static str, Option<&'static str>)],
}

/// The PCIe block (PG213, Clocking: the user's side is in `user_clk`) and the Ethernet block, whose `rx_clk` is `gt_txusrclk2` as well.
const BLOCKS: [Block; 2] = [
    Block { cell: "pcie_block", clock: "user_clk", aside: &[("sys_", None), ("pci_exp_", None)] },
    Block {
        cell: "cmac_block",
        clock: "gt_txusrclk2",
        aside: &[
            ("gt_", None),
            ("rx_clk", None),
            ("init_clk", None),
            ("drp_clk", None),
            ("sys_reset", Some("init_clk")),
            ("core_drp_reset", Some("drp_clk")),
            ("drp_", Some("drp_clk")),
        ],
    },
];

impl Block {
    /// The block of this name.
    pub fn of(cell: &str) -> Option<&'static Block> {
        BLOCKS.iter().find(|block| block.cell == cell)
    }

    /// The clock pin in whose clock a pin is.
    pub fn clock_of(&self, pin: &str) -> Option<&'static str> {
        let aside = self.aside.iter().find(|(begins, _)| pin.starts_with(begins));
        aside.map_or((pin != self.clock).then_some(self.clock), |(_, clock)| *clock)
    }

    /// From the clock to an output, and the set-up of an input.
    pub fn delays(&self, delays: &Delays) -> (f64, f64) {
        match self.cell {
            "pcie_block" => (delays.pcie_out, delays.pcie_setup),
            _ => (delays.cmac_out, delays.cmac_setup),
        }
    }
}

/// Cells of a board's top that make or pass on clocks.
pub fn is_clock_cell(cell: &str) -> bool {
    matches!(cell, "IBUFDS" | "IBUFDS_GTE4" | "BUFGCE_DIV")
}

/// A clock that registers of another clock's may take `ns` from.
pub struct MaxDelay {
    /// The pin that gives the clock, without its instance.
    pub from: String,
    /// The signal of the registers, joined by dots.
    pub to: String,
    pub ns: f64,
}

/// What is known of the border. For a card without a board, nothing.
#[derive(Default)]
pub struct Border {
    /// Outputs of the blocks by module.
    outputs: HashMap<String, HashSet<String>>,
    pub delays: Vec<MaxDelay>,
    /// Cells with their pins that no clock times.
    cut: BTreeSet<(String, String)>,
}

impl Border {
    /// Of the stubs' Verilog and Vivado's constraints.
    ///
    /// # Errors
    /// An exception in another form than `ferrowire-rtl-gen` writes.
    pub fn read(stubs: &str, xdc: &str) -> Result<Border> {
        let mut border = Border::default();
        let mut module = "";
        for line in stubs.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["module", name, ..] => module = name,
                ["output", "wire", .., name] => {
                    let outputs = border.outputs.entry(module.into()).or_default();
                    outputs.insert(name.trim_end_matches(',').into());
                }
                _ => {}
            }
        }
        for line in xdc.lines() {
            border.exception(line).with_context(|| format!("in the constraints: {line}"))?;
        }
        Ok(border)
    }

    fn exception(&mut self, line: &str) -> Result<()> {
        let named = |what: &str| -> Option<&str> {
            let (_, rest) = line.split_once(&format!("[{what} {{"))?;
            rest.split_once("}]").map(|(names, _)| names)
        };
        if line.starts_with("set_max_delay") {
            let from =
                named("get_pins").and_then(|pin| pin.rsplit('/').next()).context("from no pin's clock")?;
            let to = named("get_cells").context("to no cells")?;
            // Vivado names the register of a signal `s`: `s_reg` (UG901).
            let to =
                to.trim_end_matches("[*]").strip_suffix("_reg").context("to cells that are no registers")?;
            let ns = line.rsplit(' ').next().and_then(|ns| ns.parse().ok()).context("no delay")?;
            self.delays.push(MaxDelay { from: from.into(), to: to.replace('/', "."), ns });
        } else if line.starts_with("set_false_path -to [get_pins") {
            for pin in named("get_pins").context("to no pin")?.split(' ') {
                let (cell, pin) = pin.rsplit_once('/').context("a pin without its cell")?;
                self.cut.insert((cell.replace('/', "."), pin.into()));
            }
        }
        Ok(())
    }

    /// Outputs of a block.
    ///
    /// # Errors
    /// The block has no stub.
    pub fn outputs(&self, block: &Block) -> Result<&HashSet<String>> {
        self.outputs.get(block.cell).with_context(|| format!("{} has no stub", block.cell))
    }

    /// Whether nothing is known of it.
    pub fn is_open(&self) -> bool {
        self.delays.is_empty() && self.cut.is_empty()
    }

    /// Pins that the constraints name and the netlist does not have.
    pub fn uncut(&self, netlist: &Netlist<'_>) -> Vec<String> {
        let there = |cell: &str, pin: &str| {
            netlist.cut.iter().any(|(net, at)| at == pin && own(netlist.nets[*net as usize]) == cell)
        };
        let idle = self.cut.iter().filter(|(cell, pin)| !there(cell, pin));
        idle.map(|(cell, pin)| format!("{cell}/{pin}: set_false_path, but there is no such pin")).collect()
    }

    /// Whether no clock times this pin of the cell that drives a net.
    pub fn cuts(&self, net: &str, pin: &str) -> bool {
        self.cut.iter().any(|(cell, at)| own(net) == cell && at == pin)
    }
}

/// The cell that drives a net, if that has the cell's name with the pin's.
fn own(net: &str) -> &str {
    net.strip_suffix("_Q").unwrap_or(net)
}
