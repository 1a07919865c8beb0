// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tops of Alveo cards: the RNIC between AMD's PCIe4 block and its 100 Gb/s Ethernet block.
//!
//! ```text
//!            +-- u50 ------------------------------------------------------------------------------------+
//!  refclk ---|--> IBUFDS_GTE4 --> pcie_block --+-- user_clk, 250 MHz --+                                 |
//!  PERST# ---|------------------->             +-- user_reset --> resets                                 |
//!  lanes <---|------------------->             |                  |    |                                 |
//!            |                    RQ RC CQ CC  |   +-- u50_logic -v----v--------------------------+      |
//!            |                    <============|==>| card <-- skids, two clocks --> cmac          |      |
//!            |                                     |                                 ^ ^          |      |
//!            |                                     +---------------------------------|-|----------+      |
//!            |                    tx_axis, rx_axis, ctl, stat  <=====================+ |                 |
//!  refclk ---|------------------> cmac_block -- gt_txusrclk2, 322.27 MHz --------------+                 |
//!  lanes <---|------------------>     ^                                                                  |
//!  clock ----|--> IBUFDS --> BUFGCE_DIV --> init_clk, and once after configuration sys_reset             |
//!            +-------------------------------------------------------------------------------------------+
//! ```
//!
//! [`AlveoModules::logic`] has all logic and can be simulated; [`AlveoModules::top`] has AMD's blocks and cells and not a gate. `docs/decisions/0042` says why the clocks are so.
//!
//! **Resets.** The core's and the adapter's come with `user_reset`, at once, and hold for two edges of each clock behind it. The Ethernet block is reset once, when the device has been configured: its clock goes on and the link stays up while the host
//! is reset, so both ends of a crossing see every reset.

mod logic;
mod tcl;
mod top;
mod vendor;
mod xdc;

pub use vendor::{Vendor, Way, BUFGCE_DIV, CMAC, FDPE, IBUFDS, IBUFDS_GTE4, PCIE4, SRLC32E};

use ferrowire_boards::Alveo;
use ferrowire_cmac::MacConfig;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_rtl::{build, BuildErrors, Netlist};

use crate::ShellError;

/// The core's clock: what the PCIe block gives (PG213: 512 bits at 250 MHz).
pub const CORE_KHZ: u32 = 250_000;

/// Name of the PCIe IP as it is made here.
const PCIE: &str = "pcie_block";
/// Name of the Ethernet IP as it is made here.
const ETHERNET: &str = "cmac_block";
/// The instance of the logic. Constraints name it, so it is no word that SystemVerilog keeps (`inside` would be printed as `inside_1`).
const INSIDE: &str = "nic";

/// A card with its RNIC.
#[derive(Clone, Debug)]
pub struct AlveoShell {
    board: Alveo,
    card: RnicConfig,
    mac: MacConfig,
}

impl AlveoShell {
    /// A card with an RNIC, which is checked already; what its description says of the RNIC has been applied.
    ///
    /// # Errors
    /// What does not go together.
    pub fn new(board: Alveo, card: RnicConfig) -> Result<Self, ShellError> {
        let wrong = |field, value: String, allowed| ShellError::Alveo {
            board: board.name.clone(),
            field,
            value,
            allowed,
        };
        let mac = ferrowire_cmac::config();
        if !card.pcie4 {
            return Err(wrong("pcie4", "false".into(), "true, before AMD's PCIe block"));
        }
        if card.beat_bytes != ferrowire_cmac::BYTES {
            return Err(wrong("beat_bytes", card.beat_bytes.to_string(), "64, as both blocks have"));
        }
        if card.clock_khz != CORE_KHZ {
            return Err(wrong("clock_khz", card.clock_khz.to_string(), "250000, the PCIe block's clock"));
        }
        if board.pcie.lanes != 16 {
            let lanes = board.pcie.lanes.to_string();
            return Err(wrong("pcie.lanes", lanes, "16: no top for other links is there"));
        }
        Ok(Self { board, card, mac })
    }

    /// The card.
    pub fn board(&self) -> &Alveo {
        &self.board
    }

    /// The RNIC.
    pub fn card(&self) -> &RnicConfig {
        &self.card
    }

    fn logic_name(&self) -> String {
        format!("{}_logic", self.board.name)
    }

    /// All logic but what reads the PCIe block's configuration space, whose settings are ports as the RNIC alone has them: for simulators.
    ///
    /// # Errors
    /// What the build-time checks find; none for a card that ships.
    pub fn without_blocks(&self) -> Result<Netlist, BuildErrors> {
        build(&format!("{}_streams", self.board.name), |m| {
            logic::parts(m, &self.card, &self.mac, &self.board.dies_between(), false)
        })
    }

    /// The top module, and the logic that stands in it.
    ///
    /// # Errors
    /// Likewise.
    pub fn modules(&self) -> Result<AlveoModules, BuildErrors> {
        let between = self.board.dies_between();
        let logic = build(&self.logic_name(), |m| logic::parts(m, &self.card, &self.mac, &between, true))?;
        let top = build(&self.board.name, |m| top::top(m, self, &logic))?;
        Ok(AlveoModules { logic, top })
    }

    /// Constraints, for Vivado.
    pub fn xdc(&self, modules: &AlveoModules) -> String {
        xdc::xdc(self, modules)
    }

    /// A script for Vivado that makes the bitstream and the flash image.
    pub fn build_script(&self) -> String {
        tcl::build(self)
    }

    /// A script for Vivado that loads the bitstream by JTAG.
    pub fn program_script(&self) -> String {
        tcl::program(self)
    }

    /// A script for Vivado that writes the image into the flash by JTAG.
    pub fn flash_script(&self) -> String {
        tcl::flash(self)
    }

    /// The instance in which a register that the constraints name stands, as a path from the top.
    pub fn inside() -> &'static str {
        INSIDE
    }

    /// Verilog modules in place of AMD's blocks and cells, for other tools.
    pub fn stubs(&self) -> String {
        let blocks = [(PCIE, PCIE4), (ETHERNET, CMAC)];
        let cells = [
            ("IBUFDS_GTE4", IBUFDS_GTE4),
            ("IBUFDS", IBUFDS),
            ("BUFGCE_DIV", BUFGCE_DIV),
            ("FDPE", FDPE),
            ("SRLC32E", SRLC32E),
        ];
        let mut text =
            String::from("/* verilator lint_off DECLFILENAME */\n/* verilator lint_off UNUSED */\n");
        blocks.into_iter().chain(cells).for_each(|(name, vendor)| text.push_str(&vendor.stub(name)));
        text.push_str("/* verilator lint_on UNUSED */\n/* verilator lint_on DECLFILENAME */\n");
        text
    }
}

/// What a card is made of.
#[derive(Clone, Debug)]
pub struct AlveoModules {
    /// All logic.
    pub logic: Netlist,
    /// The top, for which the logic is a core.
    pub top: Netlist,
}

impl AlveoModules {
    /// The Verilog of both by module, children before their parents, the top last.
    pub fn verilog(&self) -> Vec<(String, String)> {
        [&self.logic, &self.top].into_iter().flat_map(Netlist::verilog_modules).collect()
    }
}
