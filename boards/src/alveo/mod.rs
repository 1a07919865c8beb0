// SPDX-License-Identifier: MIT OR Apache-2.0
//! Alveo cards: an UltraScale+ device with PCI Express and QSFP28 cages.
//!
//! ```
//! let board = ferrowire_boards::Alveo::named("u50")?;
//! assert_eq!(board.part, "xcu50-fsvh2104-2-e");
//! assert!(board.pins_xdc().contains("set_property PACKAGE_PIN N36 [get_ports {qsfp0_refclk_p}]"));
//! # Ok::<(), ferrowire_boards::BoardError>(())
//! ```

mod check;
mod pins;

pub use pins::Pin;

use crate::BoardError;
use serde::Deserialize;

/// The Alveo cards that come with the project, by name.
pub const ALVEOS: &[(&str, &str)] = &[
    ("u200", include_str!("../../u200/board.toml")),
    ("u250", include_str!("../../u250/board.toml")),
    ("u280", include_str!("../../u280/board.toml")),
    ("u50", include_str!("../../u50/board.toml")),
    ("u55c", include_str!("../../u55c/board.toml")),
    ("u55n", include_str!("../../u55n/board.toml")),
    ("vcu1525", include_str!("../../vcu1525/board.toml")),
];

/// A card.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alveo {
    /// The folder's name.
    #[serde(skip)]
    pub name: String,
    /// What it is called.
    pub title: String,
    /// RS-FEC is on (IEEE 802.3 clause 91). Both ends of a cable need the same: without it at one end the link never comes up.
    #[serde(default = "on")]
    pub rs_fec: bool,
    /// Vivado's name of the device.
    pub part: String,
    /// Dies of the device ("super logic regions").
    pub slrs: u32,
    /// The RNIC that it is to be.
    pub card: AlveoCard,
    /// An oscillator that runs whatever the host does, for what brings transceivers up.
    pub clock: Oscillator,
    /// The edge connector.
    pub pcie: Pcie,
    /// QSFP28 cages; the first is used.
    pub qsfp: Vec<Qsfp>,
    /// Lit while the link is up.
    pub link_led: Option<Wire>,
    /// Of devices with HBM: high says that it is too hot, and cuts the power.
    pub hbm_cattrip: Option<Wire>,
    /// Memory beside the logic.
    pub memory: AlveoMemory,
    /// Where the device finds its configuration.
    pub flash: Flash,
}

fn on() -> bool {
    true
}

/// The RNIC on a card.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlveoCard {
    /// A configuration's name.
    pub config: String,
    /// What is set over it, by field.
    #[serde(default)]
    pub set: toml::Table,
}

impl AlveoCard {
    /// What is set, as `field=value`.
    pub fn assignments(&self) -> Vec<String> {
        self.set.iter().map(|(field, value)| format!("{field}={value}")).collect()
    }
}

/// A differential oscillator at pins of the logic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oscillator {
    /// Positive and negative ball.
    pub pins: [String; 2],
    /// Its frequency.
    pub khz: u32,
    /// What it is divided by, 1 to 8 (`BUFGCE_DIV`).
    pub divide: u32,
    /// I/O standard.
    pub io: String,
    /// The inputs are biased inside the FPGA, for the pair is AC-coupled.
    #[serde(default)]
    pub dqs_bias: bool,
}

impl Oscillator {
    /// Behind the divider.
    pub fn divided_khz(&self) -> u32 {
        self.khz / self.divide
    }
}

/// Which integrated block a device has (PG213).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PcieBlock {
    /// PCIE4: up to Gen3 x16.
    Pcie4,
    /// PCIE4C, which has Gen4 x8 as well; the tops do not use it.
    Pcie4c,
}

impl PcieBlock {
    /// Name of its IP.
    pub fn ip(self) -> &'static str {
        match self {
            PcieBlock::Pcie4 => "pcie4_uscale_plus",
            PcieBlock::Pcie4c => "pcie4c_uscale_plus",
        }
    }
}

/// The edge connector.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// The block.
    pub block: PcieBlock,
    /// The die that it is in.
    pub slr: u32,
    /// Lanes of the link.
    pub lanes: u32,
    /// Generation of the link.
    pub generation: u32,
    /// The connector's 100 MHz: positive and negative ball.
    pub refclk: [String; 2],
    /// PERST#.
    pub perst_n: String,
    /// Its I/O standard.
    pub io: String,
    /// To the device, lane 0 first.
    pub rx_p: Vec<String>,
    /// Likewise.
    pub rx_n: Vec<String>,
    /// From the device.
    pub tx_p: Vec<String>,
    /// Likewise.
    pub tx_n: Vec<String>,
}

/// A QSFP28 cage.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qsfp {
    /// The Ethernet block for it.
    pub cmac: String,
    /// The die that this is in.
    pub slr: u32,
    /// The first of its four transceivers.
    pub gt: String,
    /// Their reference clock: positive and negative ball.
    pub refclk: [String; 2],
    /// Its frequency, as the IP wants it.
    pub refclk_mhz: String,
    /// To the device, lane 0 first.
    pub rx_p: [String; 4],
    /// Likewise.
    pub rx_n: [String; 4],
    /// From the device.
    pub tx_p: [String; 4],
    /// Likewise.
    pub tx_n: [String; 4],
    /// Wires to the module, where they are not the satellite controller's.
    pub control: Option<QsfpControl>,
}

impl Qsfp {
    /// Column and row of the first transceiver.
    pub fn gt_place(&self) -> Option<(u32, u32)> {
        let (x, y) = self.gt.strip_prefix('X')?.split_once('Y')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    }

    /// Places of all four.
    pub fn gts(&self) -> [String; 4] {
        let (x, y) = self.gt_place().expect("checked when the board was read");
        [0, 1, 2, 3].map(|lane| format!("X{x}Y{}", y + lane))
    }
}

/// Wires to a module (SFF-8679).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QsfpControl {
    /// ModSelL: low lets it hear the two-wire bus.
    pub modsell: String,
    /// ResetL.
    pub resetl: String,
    /// LPMode: high keeps it in low power.
    pub lpmode: String,
    /// I/O standard.
    pub io: String,
}

/// One wire.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// The ball.
    pub pin: String,
    /// I/O standard.
    pub io: String,
}

/// Memory beside the logic; nothing uses it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlveoMemory {
    /// HBM in the package.
    pub hbm_gib: u32,
    /// DDR4 on the card.
    pub ddr4_gib: u32,
}

/// The configuration memory, behind four wires.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Clock with which it is read, in MHz.
    pub config_rate: String,
    /// Vivado's name of the memory.
    pub part: String,
    /// Size of the image file.
    pub mcs_mib: u32,
    /// Where the design begins.
    pub offset: u32,
}

impl Alveo {
    /// A built-in card.
    ///
    /// # Errors
    /// The name is not one of [`ALVEOS`].
    pub fn named(name: &str) -> Result<Alveo, BoardError> {
        match ALVEOS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Alveo::from_toml(name, text),
            None => Err(BoardError::Unknown(name.into(), crate::names().join(", "))),
        }
    }

    /// The card `name` from TOML, checked.
    ///
    /// # Errors
    /// Unknown, missing or mistyped fields, and what makes no sense: a ball that the package does not have or that is used twice, a place that is none.
    pub fn from_toml(name: &str, text: &str) -> Result<Alveo, BoardError> {
        let parsed: Result<Alveo, _> = toml::from_str(text);
        let mut board =
            parsed.map_err(|e| BoardError::Parse { board: name.into(), why: e.message().to_string() })?;
        board.name = name.into();
        check::check(&board)?;
        Ok(board)
    }

    /// Dies between those of the PCIe block and of the first cage's Ethernet block, in the order from the first to the second.
    pub fn dies_between(&self) -> Vec<u32> {
        let (pcie, ethernet) = (self.pcie.slr, self.qsfp[0].slr);
        let between = pcie.min(ethernet) + 1..pcie.max(ethernet);
        if pcie < ethernet {
            between.collect()
        } else {
            between.rev().collect()
        }
    }

    /// The same card with another value of a field that can be set: `rs_fec`, true or false.
    ///
    /// # Errors
    /// Another field, and a value that it does not take.
    pub fn set(mut self, field: &str, value: &str) -> Result<Alveo, BoardError> {
        match (field, value.parse()) {
            (RS_FEC, Ok(on)) => {
                self.rs_fec = on;
                Ok(self)
            }
            (RS_FEC, Err(_)) => check::wrong(&self, field, value, "must be true or false"),
            _ => check::wrong(&self, field, value, format!("no field of an Alveo card: set {RS_FEC}")),
        }
    }
}

/// The field of a card itself, not of its RNIC, that can be set.
pub const RS_FEC: &str = "rs_fec";
