// SPDX-License-Identifier: MIT OR Apache-2.0
//! RGMII (version 2.0, 1 April 2002): bytes to and from nibbles at both edges of a 125 MHz clock.
//!
//! ```text
//!               +-----+          +--------+
//!   RXD[3:0] ---| DDR |== rise ==|  reg   |--> gmii {data, valid, error}
//!   RX_CTL -----| cell|== fall ==|        |
//!               +-----+          | settle |--> status {up, speed, full_duplex}
//!                                +--------+
//!               +-----+          +--------+
//!   TXD[3:0] <--| DDR |== rise ==|  reg   |<-- gmii
//!   TX_CTL <----| cell|== fall ==|        |
//!               +-----+          +--------+
//! ```
//!
//! The DDR cells and the delay of the clocks are the board's: of an ECP5 those of [`ecp5`](crate::ecp5). Here are what they give and take in a cycle
//! of the clock: bits 3:0 of a byte with the rising edge, bits 7:4 with the falling one that follows it. The control wire has `valid` with the
//! rising edge and `valid ^ error` with the falling one.
//!
//! Between frames (neither valid nor error) a PHY tells on its data wires whether the link is up, its speed, and whether it is of full duplex. A
//! PHY may leave that out, and a nibble may come at the moment of a change: the status is what two cycles in a row said at both edges. It is down after a reset, which ends
//! with a carrier, until the wires say otherwise.
//!
//! **Latency:** one cycle each way. **Bad input:** any bits are bytes; an error without `valid` (false carrier, carrier extension: IEEE 802.3 table
//! 35-2) is no status, and nothing else.

use ferrowire_rtl::{bits, cat, module, Bundle, Interface, Scope, Sig};

/// One cycle of five wires.
#[derive(Clone, Bundle)]
pub struct Edges {
    /// The data wires at the rising edge.
    pub data_rise: Sig,
    /// At the falling edge that follows.
    pub data_fall: Sig,
    /// The control wire at the rising edge.
    pub ctl_rise: Sig,
    /// At the falling edge.
    pub ctl_fall: Sig,
}

impl Edges {
    /// The shape.
    pub fn of() -> Edges {
        Edges { data_rise: bits(4), data_fall: bits(4), ctl_rise: bits(1), ctl_fall: bits(1) }
    }
}

/// One cycle of the GMII (IEEE 802.3 35.2.2).
#[derive(Clone, Bundle)]
pub struct Gmii {
    /// RXD or TXD.
    pub data: Sig,
    /// RX_DV or TX_EN.
    pub valid: Sig,
    /// RX_ER or TX_ER.
    pub error: Sig,
}

impl Gmii {
    /// The shape.
    pub fn of() -> Gmii {
        Gmii { data: bits(8), valid: bits(1), error: bits(1) }
    }
}

/// What a PHY says of its link.
#[derive(Clone, Bundle)]
pub struct LinkStatus {
    /// The link is up.
    pub up: Sig,
    /// 0: 10 Mb/s, 1: 100 Mb/s, 2: 1 Gb/s, 3: reserved.
    pub speed: Sig,
    /// Both sides may send at once.
    pub full_duplex: Sig,
}

impl LinkStatus {
    /// The shape.
    pub fn of() -> LinkStatus {
        LinkStatus { up: bits(1), speed: bits(2), full_duplex: bits(1) }
    }
}

/// What comes from a PHY.
#[derive(Interface)]
pub struct FromPhy {
    /// Its bytes.
    pub gmii: Gmii,
    /// Its status.
    pub status: LinkStatus,
}

/// From the wires.
#[module]
pub fn rgmii_rx(m: &Scope, wires: Edges) -> FromPhy {
    // As if a frame were under way when the reset ends: one may be.
    let valid = m.reg("valid", 1).reset(1);
    let error = m.reg("error", 1).reset(0);
    m.set(&valid, wires.ctl_rise);
    m.set(&error, wires.ctl_rise ^ wires.ctl_fall);
    let data = m.delay("data", &cat(&[wires.data_rise, wires.data_fall]));
    let gmii = Gmii { data, valid, error };

    // Of the cycle that is in the registers, and of the one before.
    let said = (!valid & !error & data.slice(0, 4).eq(data.slice(4, 4))).named("said");
    let before = m.reg("said_before", 1).reset(0);
    let nibble = m.reg("nibble", 4).no_reset();
    m.set(&before, said);
    m.set(&nibble, data.trunc(4));
    let status = m.reg("status", 4).reset(0);
    m.when(said & before & nibble.eq(data.trunc(4)), |m| m.set(&status, nibble));
    FromPhy { gmii, status: LinkStatus::of().unpack(status) }
}

/// To the wires.
#[module]
pub fn rgmii_tx(m: &Scope, gmii: Gmii) -> Edges {
    let wires = m.reg_zero("wires", &Edges::of());
    let next = Edges {
        data_rise: gmii.data.slice(0, 4),
        data_fall: gmii.data.slice(4, 4),
        ctl_rise: gmii.valid,
        ctl_fall: gmii.valid ^ gmii.error,
    };
    m.set_all(&wires, &next);
    wires
}
