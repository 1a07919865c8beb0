// SPDX-License-Identifier: MIT OR Apache-2.0
//! The top modules of boards: AMD's Alveo cards, in [`alveo`], and those that the open tools build, with an ECP5, a PHY behind RGMII and a serial line to a PC.
//!
//! ```text
//!            +-- ecpix5 ------------------------------------------------------------+
//!  clk100 ---|--> PLL --+-- 125 MHz --+                                             |
//!            |    lock  +-- core -----+                                             |
//!            |     |                  v                                             |
//!            |     +--> resets --> +-- ecpix5_logic ------------------------------+ |
//!  RXC ------|----------^--------->|                                              | |
//!  RXD ------|-------------------->| cells --> MAC <--> card <--> bridge <--------|-|--> serial line
//!  TXC, TXD <|---------------------| cells <--          |                         | |
//!            |                     |                    +--> interconnect, memory | |
//!  LEDs <----|---------------------|                                              | |
//!            |                     +----------------------------------------------+ |
//!            +----------------------------------------------------------------------+
//! ```
//!
//! Two modules, so that the one with all logic can be simulated: [`Modules::logic`] has clocks and resets as ports, [`Modules::top`] makes them. The names of the top's ports are
//! those of the board's [`ports`](Board::ports), so [`Shell::lpf`] places each.
//!
//! **Clocks:** the core's, from `clock_khz` of its configuration; 125 MHz, with which is sent; the PHY's RXC. Nothing is assumed of their phases. **Resets** hold until the PLL has locked, and for two edges
//! of each clock behind that. The PHY is in reset for [`PHY_RESET_MS`] more.
#![forbid(unsafe_code)]

pub mod alveo;
mod dram;
mod ecp5;
mod pll;
mod supplies;

pub use alveo::{AlveoModules, AlveoShell};
pub use pll::Pll;

use ferrowire_boards::Board;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::host::csr::Link;
use ferrowire_mac::ecp5::Delays;
use ferrowire_mac::{Clocks, MacConfig};
use ferrowire_rtl::{build, lit, BuildErrors, Netlist, Scope};
use ferrowire_serial::axi::Requests;
use ferrowire_serial::SerialConfig;

/// How long a PHY is in reset: most want 10 ms.
pub const PHY_RESET_MS: u32 = 20;

/// The longest frame of a card, FCS included: a WRITE with immediate of 4,096 bytes over IPv6 in a VLAN. Headers of Ethernet, IPv6, UDP and IBTA's BTH, RETH and ImmDt, then ICRC and FCS.
const MAX_FRAME: u32 = 14 + 4 + 40 + 8 + 12 + 16 + 4 + 4096 + 4 + 4;

/// Where a frame waits in the MAC, either way: one of the longest and most of another.
const MAC_BUFFER_BYTES: u32 = 8192;

/// Speed of the link while it is up, in units of 100 Mb/s: the MAC takes no other.
const LINK_SPEED: u32 = 10;

/// What a PHY says of it (RGMII 2.0, table 4).
const GIGABIT: u32 = 2;

/// Bytes a beat of the card: more than the wire brings.
const BEAT_BYTES: u32 = 8;

/// Why a board cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// Its description names no card.
    #[error("board `{0}` has no card: its board.toml needs [card] with a configuration that fits the FPGA")]
    NoCard(String),
    /// Something that is needed is not there.
    #[error("board `{board}` has no {what}, without which no card can be used there")]
    Missing {
        /// The board.
        board: String,
        /// What.
        what: &'static str,
    },
    /// The card's configuration does not go with the board.
    #[error("board `{board}`: {field} = {value}: must be {allowed}, on a board with a serial line")]
    Card {
        /// The board.
        board: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The RNIC's configuration, or the link, does not go with the Alveo card.
    #[error("board `{board}`: {field} = {value}: must be {allowed}")]
    Alveo {
        /// The board.
        board: String,
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// No PLL gives these clocks.
    #[error("board `{board}`: no setting of the PLL makes 125 MHz{twice} and {core_khz} kHz of {khz} kHz; choose another clock_khz")]
    Clocks {
        /// The board.
        board: String,
        /// The oscillator.
        khz: u32,
        /// The core's.
        core_khz: u32,
        /// What the memory needs, in words.
        twice: &'static str,
    },
    /// The memory's part.
    #[error("board `{board}`: {source}")]
    Dram {
        /// The board.
        board: String,
        /// What is wrong.
        source: ferrowire_dram::ConfigError,
    },
    /// The serial line's part.
    #[error("board `{board}`: {source}")]
    Serial {
        /// The board.
        board: String,
        /// What is wrong.
        source: ferrowire_serial::ConfigError,
    },
}

/// A board with its card.
#[derive(Clone, Debug)]
pub struct Shell {
    board: Board,
    card: RnicConfig,
    serial: SerialConfig,
    mac: MacConfig,
    delays: Delays,
    pll: Pll,
    dram: Option<ferrowire_dram::DramConfig>,
    /// Whatever the PHY says.
    link_is_up: bool,
}

impl Shell {
    /// A board with a card, which is checked already; what its description says of the card has been applied.
    ///
    /// # Errors
    /// What does not go together.
    pub fn new(board: Board, card: RnicConfig) -> Result<Self, ShellError> {
        let name = || board.name.clone();
        let described = board.card.as_ref().ok_or_else(|| ShellError::NoCard(name()))?;
        let missing = |what| ShellError::Missing { board: name(), what };
        let phy = board.rgmii.first().ok_or_else(|| missing("PHY behind RGMII"))?;
        board.serial.as_ref().ok_or_else(|| missing("serial line"))?;
        let clock = board.clocks.first().ok_or_else(|| missing("oscillator"))?;
        if !card.axi {
            let value = "false".into();
            return Err(ShellError::Card { board: name(), field: "axi", value, allowed: "true" });
        }
        if card.beat_bytes != BEAT_BYTES {
            let value = card.beat_bytes.to_string();
            return Err(ShellError::Card { board: name(), field: "beat_bytes", value, allowed: "8" });
        }
        let serial = SerialConfig {
            clock_khz: card.clock_khz,
            baud: described.baud,
            memory_bytes: described.memory_bytes,
            memory_base: SerialConfig::base_of(described.memory_bytes),
            beat_bytes: card.beat_bytes,
        };
        serial.validate().map_err(|source| ShellError::Serial { board: name(), source })?;
        let (khz, core_khz) = (clock.khz, card.clock_khz);
        let dram = described.dram.then(|| dram::config(&board, core_khz, &serial)).transpose()?;
        let twice = dram.is_some();
        let pll = Pll::find(khz, core_khz, twice).ok_or_else(|| ShellError::Clocks {
            board: name(),
            khz,
            core_khz,
            twice: if twice { ", twice that" } else { "" },
        })?;
        let delays = Delays { rx_data_ps: phy.rx_data_delay_ps, tx_clk_ps: phy.tx_clk_delay_ps };
        let mac = MacConfig {
            beat_bytes: card.beat_bytes,
            max_frame: MAX_FRAME,
            rx_buffer_bytes: MAC_BUFFER_BYTES,
            tx_buffer_bytes: MAC_BUFFER_BYTES,
        };
        let link_is_up = phy.link_is_up();
        Ok(Self { board, card, serial, mac, delays, pll, dram, link_is_up })
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Settings of its PLL.
    pub fn pll(&self) -> Pll {
        self.pll
    }

    fn logic_name(&self) -> String {
        format!("{}_logic", self.top_name())
    }

    /// Name of the top module.
    fn top_name(&self) -> String {
        self.board.name.replace('-', "_")
    }

    /// All logic but the cells at the RGMII's balls, with what these catch and send in their place: for simulators, which do not have the device's cells.
    ///
    /// # Errors
    /// What the build-time checks find; none for a board that ships.
    pub fn without_cells(&self) -> Result<Netlist, BuildErrors> {
        build(&format!("{}_edges", self.top_name()), |m| {
            let memory = self.parts(m, &|m, clocks| ferrowire_mac::ports(m, &self.mac, clocks));
            memory.into_iter().for_each(|memory| memory.edges(m));
        })
    }

    /// All logic; clocks and resets of its three domains are ports: `clk`, `rgmii_rx_clk`, `rgmii_tx_clk`.
    ///
    /// # Errors
    /// What the build-time checks find; none for a board that ships.
    fn logic(&self) -> Result<Netlist, BuildErrors> {
        build(&self.logic_name(), |m| {
            let memory =
                self.parts(m, &|m, clocks| ferrowire_mac::ecp5::ports(m, &self.mac, clocks, self.delays));
            memory.into_iter().for_each(|memory| memory.cells(m, &self.board));
        })
    }

    /// Card, bridge and memory, and a MAC in either form. What is left are DRAM's pins.
    fn parts(&self, m: &Scope, mac: &dyn Fn(&Scope, Clocks)) -> Option<dram::Memory> {
        let clocks = Clocks { core: m.current_domain(), rx: m.domain("rgmii_rx"), tx: m.domain("rgmii_tx") };
        let dram = self.dram.as_ref().map(|cfg| dram::Memory::new(m, cfg));
        let memory = |m: &Scope, requests: Requests| match &dram {
            Some(dram) => dram.answer(m, &self.serial, requests),
            None => ferrowire_serial::memory::memory(m, &self.serial, requests),
        };
        let card =
            m.enclosed(|m| ferrowire_serial::board::card_with_board(m, &self.card, &self.serial, &memory));
        let mac = m.enclosed(|m| mac(m, clocks));
        mac.connect("tx_", &card, "tx_");
        mac.connect("rx_", &card, "rx_");
        m.in_domain(clocks.rx, |m| mac.expose(m, "rgmii_rx_", "rgmii0_rx_"));
        mac.expose(m, "rgmii_tx", "rgmii0_tx");
        card.expose(m, "serial_", "serial_");
        m.output("rgmii0_reset_n", &phy_reset(m, self.card.clock_khz));
        if let Some(own) = &self.board.supplies {
            let (enable, pulses) = supplies::supplies(&m.label("supplies"), self.card.clock_khz, own);
            m.output("supplies_enable", &enable);
            m.output("supplies_pulses", &pulses);
        }
        // A PHY may have agreed on another speed, at which nothing goes.
        let told = mac.get("link_up") & mac.get("link_full_duplex") & mac.get("link_speed").eq(GIGABIT);
        let works = if self.link_is_up {
            m.discard(&told);
            lit(1, 1)
        } else {
            told
        };
        let link = Link::at(works, LINK_SPEED);
        card.drive("link_up", link.up);
        card.drive("link_speed", link.speed);
        m.output("link_up", &link.up);
        dram
    }

    /// The board's top module, and the logic that stands in it.
    ///
    /// # Errors
    /// Likewise.
    pub fn modules(&self) -> Result<Modules, BuildErrors> {
        let logic = self.logic()?;
        let top = build(&self.top_name(), |m| ecp5::top(m, self, &logic))?;
        Ok(Modules { logic, top })
    }

    /// The oscillator, the PLL and the lights alone, of which place-and-route takes seconds: for tests of what it makes of the PLL.
    ///
    /// # Errors
    /// Likewise.
    pub fn pll_alone(&self) -> Result<Netlist, BuildErrors> {
        build(&format!("{}_pll", self.top_name()), |m| ecp5::pll_alone(m, self))
    }

    /// Places of the top's ports, for nextpnr.
    pub fn lpf(&self, top: &Netlist) -> String {
        let ports = top.ports();
        self.board.lpf_of(|name| ports.iter().any(|port| port.name == name))
    }
}

/// What a board is made of.
#[derive(Clone, Debug)]
pub struct Modules {
    /// All logic.
    pub logic: Netlist,
    /// The top, for which the logic is a core.
    pub top: Netlist,
}

impl Modules {
    /// The Verilog of both by module, children before their parents, the top last.
    pub fn verilog(&self) -> Vec<(String, String)> {
        [&self.logic, &self.top].into_iter().flat_map(Netlist::verilog_modules).collect()
    }
}

/// Low for [`PHY_RESET_MS`] behind the core's reset.
fn phy_reset(m: &Scope, clock_khz: u32) -> ferrowire_rtl::Sig {
    let cycles = u64::from(clock_khz) * u64::from(PHY_RESET_MS);
    let bits = ferrowire_rtl::clog2(cycles + 1);
    let left = m.reg("phy_reset", bits).reset(cycles);
    let over = left.eq(0);
    m.when(!over, |m| m.set(&left, left - 1));
    // From a flop: a PHY's reset has no glitches.
    m.delay("phy_released", &over)
}
