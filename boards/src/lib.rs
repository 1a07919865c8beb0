// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boards that Ferrowire is to be built for: their parts, clocks and pins.
//!
//! Each board is a folder with `board.toml`, and a README that names where its pins were found and what was tried. [`Board::named`] reads and checks one;
//! [`Board::ports`] names all that is there; [`Board::lpf`] writes what nextpnr wants to know.
//!
//! ```
//! let board = ferrowire_boards::Board::named("ecpix5")?;
//! assert_eq!(board.part().nextpnr(), ["--um5g-85k", "--package", "CABGA554", "--speed", "8"]);
//! assert!(board.lpf().contains("LOCATE COMP \"rgmii0_rx_clk\" SITE \"E11\";"));
//! # Ok::<(), ferrowire_boards::BoardError>(())
//! ```
//!
//! Boards with an ECP5 are [`Board`]s, AMD's cards are [`Alveo`]s.
#![forbid(unsafe_code)]

mod alveo;
mod check;
pub mod ecp5;
pub mod nextpnr;
mod part;
mod ports;

pub use alveo::{
    Alveo, AlveoCard, AlveoMemory, Flash, Oscillator, Pcie, PcieBlock, Pin, Qsfp, QsfpControl, Wire, ALVEOS,
    RS_FEC,
};
pub use part::Part;
pub use ports::{Direction, Port};

use serde::Deserialize;

/// The boards with an ECP5 that come with the project, by name.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("butterstick", include_str!("../butterstick/board.toml")),
    ("ecpix5", include_str!("../ecpix5/board.toml")),
];

/// Names of all boards, the Alveo cards among them.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = BUILT_IN.iter().chain(ALVEOS).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names
}

/// A board that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoardError {
    /// No board of that name is built in.
    #[error("no board `{0}`; there are {1}")]
    Unknown(String, String),
    /// The text is not a board.
    #[error("board `{board}`: {why}")]
    Parse {
        /// The board.
        board: String,
        /// What the reader says.
        why: String,
    },
    /// A field makes no sense.
    #[error("board `{board}`: {field} = {value}: {why}")]
    Field {
        /// The board.
        board: String,
        /// The field, with its place.
        field: String,
        /// Its value.
        value: String,
        /// What is wrong with it, or what is allowed.
        why: String,
    },
}

/// A board.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// The folder's name.
    #[serde(skip)]
    pub name: String,
    /// What it is called.
    pub title: String,
    /// The FPGA's ordering number.
    #[serde(rename = "part")]
    part_number: String,
    #[serde(skip)]
    part: Option<Part>,
    /// The card that it is to be, if there is one that fits.
    pub card: Option<Card>,
    /// Oscillators.
    #[serde(rename = "clock")]
    pub clocks: Vec<Clock>,
    /// Light-emitting diodes.
    #[serde(default, rename = "led")]
    pub leds: Vec<Led>,
    /// Where the colours of all `leds` have common cathodes, these.
    pub led_colours: Option<Led>,
    /// Wires of an asynchronous serial line to a PC, if there is one on the board.
    pub serial: Option<Serial>,
    /// Regulators of supplies of the FPGA's own inputs and outputs, where it sets them itself.
    pub supplies: Option<Supplies>,
    /// Ethernet PHYs.
    #[serde(default)]
    pub rgmii: Vec<Rgmii>,
    /// Memory beside the FPGA.
    pub memory: Option<Memory>,
}

/// The card on a board.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// A configuration's name.
    pub config: String,
    /// What is set over it, by field.
    #[serde(default)]
    pub set: toml::Table,
    /// Symbols a second of the serial line.
    pub baud: u32,
    /// Memory that the card and the PC share.
    pub memory_bytes: u64,
    /// It lies in the board's DRAM; else in block RAM.
    #[serde(default)]
    pub dram: bool,
}

impl Card {
    /// What is set, as `field=value`.
    pub fn assignments(&self) -> Vec<String> {
        self.set.iter().map(|(field, value)| format!("{field}={value}")).collect()
    }
}

/// An oscillator.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Name of its port.
    pub name: String,
    /// Its frequency.
    pub khz: u32,
    /// The ball.
    pub pin: String,
    /// Input type.
    pub io: String,
}

/// A light, of one colour or of red, green and blue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Led {
    /// One ball, or three.
    pub pins: Vec<String>,
    /// It is lit by a zero.
    #[serde(default)]
    pub active_low: bool,
    /// Output type.
    pub io: String,
}

/// A serial line, named as the FPGA sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serial {
    /// From the FPGA.
    pub tx: String,
    /// To the FPGA.
    pub rx: String,
    /// Type.
    pub io: String,
}

/// Supplies of the FPGA's inputs and outputs that it sets itself: it gives each regulator pulses, whose mean pulls the voltage down.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supplies {
    /// High lets all regulators begin.
    pub enable: String,
    /// Types of all wires.
    pub io: String,
    /// What a regulator gives of a wire that is always low.
    pub low_mv: u32,
    /// And of one that is always high.
    pub high_mv: u32,
    /// How long the filters of the pulses take: no regulator may begin before.
    pub settle_ms: u32,
    /// Each of them.
    #[serde(rename = "supply")]
    pub each: Vec<Supply>,
}

/// A supply that the FPGA sets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supply {
    /// The pulses.
    pub pulses: String,
    /// What it is to be.
    pub mv: u32,
}

/// A PHY behind RGMII, named as the FPGA sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rgmii {
    /// The PHY, where a source names it.
    pub phy: Option<String>,
    /// TXC.
    pub tx_clk: String,
    /// TX_CTL.
    pub tx_ctl: String,
    /// TXD, bit 0 first.
    pub tx_data: [String; 4],
    /// RXC.
    pub rx_clk: String,
    /// RX_CTL.
    pub rx_ctl: String,
    /// RXD, bit 0 first.
    pub rx_data: [String; 4],
    /// Management clock.
    pub mdc: String,
    /// Management data.
    pub mdio: String,
    /// Low resets the PHY.
    pub reset_n: String,
    /// Type of all wires.
    pub io: String,
    /// Outputs want fast edges.
    #[serde(default)]
    pub fast: bool,
    /// RXD wants pull-ups, for the PHY looks at these wires when its reset ends.
    #[serde(default)]
    pub rx_pull_up: bool,
    /// By how much the FPGA delays TXC against TXD: 2,000 unless PHY or board do.
    pub tx_clk_delay_ps: u32,
    /// By how much the FPGA delays RXD and RX_CTL.
    pub rx_data_delay_ps: u32,
    /// What says whether the link is up: one of [`LINKS`].
    #[serde(default = "in_band")]
    pub link: String,
}

/// Sources of the link state of an RGMII port. A description without `link` has the first.
///
/// - `in-band`: the PHY, by its status between frames (RGMII 2.0, table 4).
/// - `up`: the description. The link is taken as up, at 1 Gb/s and full duplex, for a PHY that sends no status.
pub const LINKS: [&str; 2] = ["in-band", "up"];

fn in_band() -> String {
    LINKS[0].into()
}

impl Rgmii {
    /// Whether the link is taken as up, whatever the PHY says.
    pub fn link_is_up(&self) -> bool {
        self.link == LINKS[1]
    }
}

/// DDR3 or DDR3L SDRAM beside the FPGA. Of differential pairs the positive ball alone is told: the other one is its neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// The device, or one that behaves as it.
    pub device: String,
    /// Its size.
    pub bytes: u64,
    /// Type of the wires that are not differential.
    pub io: String,
    /// Clocks; differential ones' positive balls.
    pub clk_p: Vec<String>,
    /// Clock enables.
    #[serde(default)]
    pub cke: Vec<String>,
    /// On-die terminations.
    #[serde(default)]
    pub odt: Vec<String>,
    /// Chip selects.
    #[serde(default)]
    pub cs_n: Vec<String>,
    /// Reset.
    pub reset_n: Option<String>,
    /// Row address strobe.
    pub ras_n: String,
    /// Column address strobe.
    pub cas_n: String,
    /// Write enable.
    pub we_n: String,
    /// Address, bit 0 first, as everything that follows.
    pub a: Vec<String>,
    /// Bank.
    pub ba: Vec<String>,
    /// Data masks, one a byte.
    #[serde(default)]
    pub dm: Vec<String>,
    /// Data strobes' positive balls, one a byte.
    #[serde(default)]
    pub dqs_p: Vec<String>,
    /// Data.
    pub dq: Vec<String>,
}

impl Board {
    /// A built-in board.
    ///
    /// # Errors
    /// The name is not one of [`BUILT_IN`].
    pub fn named(name: &str) -> Result<Board, BoardError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Board::from_toml(name, text),
            None => Err(BoardError::Unknown(name.into(), names().join(", "))),
        }
    }

    /// The board `name` from TOML, checked.
    ///
    /// # Errors
    /// Unknown, missing or mistyped fields, and what makes no sense: a ball that the package does not have, or that is used twice, an unknown type, a delay
    /// that the FPGA cannot give.
    pub fn from_toml(name: &str, text: &str) -> Result<Board, BoardError> {
        let parsed: Result<Board, _> = toml::from_str(text);
        let mut board =
            parsed.map_err(|e| BoardError::Parse { board: name.into(), why: e.message().to_string() })?;
        board.name = name.into();
        board.part = Part::parse(&board.part_number);
        if board.part.is_none() {
            let why = "no part that is known; as LFE5UM5G-85F-8BG381C, with 25F, 45F or 85F and BG256, BG381, BG554 or BG756";
            return Err(BoardError::Field {
                board: board.name,
                field: "part".into(),
                value: board.part_number,
                why: why.into(),
            });
        }
        check::check(&board)?;
        Ok(board)
    }

    /// The FPGA.
    pub fn part(&self) -> Part {
        self.part.expect("looked up when the board was read")
    }
}
