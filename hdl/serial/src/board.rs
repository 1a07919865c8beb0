// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that is between a card on AXI4, a serial line and memory. Wiring only.
//!
//! ```text
//!  rx, tx <--> bridge <--> m_axil_*          the card's s_axil_*
//!                |
//!                v 1
//!           interconnect <--> memory --> dirty --> bridge
//!                ^ 0
//!                |
//!            s_axi_*                          the card's m_axi_*
//!            interrupt_*                      the card's
//! ```
//!
//! The ports fit those of `rnic` in a configuration on AXI4 with 8 bytes a beat, name by name.

use crate::axi::{self, Answers, Requests};
use crate::bridge::{bridge, Bridged};
use crate::dirty::{dirty, Scanned, Wrote};
use crate::interconnect::interconnect;
use crate::memory::memory;
use crate::SerialConfig;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_hdl::host::event::Interrupt;
use ferrowire_rtl::{build, BuildErrors, Netlist, Scope};

/// Bits of the card's IDs.
pub const ID_BITS: u32 = 2;

/// The board's part around a card, as the module `serial_board`.
///
/// # Errors
/// What the build-time checks find; none for a valid configuration.
pub fn serial_board(cfg: &SerialConfig) -> Result<Netlist, BuildErrors> {
    build("serial_board", |m| board(m, cfg, &|m, requests| memory(m, cfg, requests)))
}

/// A card and the board's part, as the module `serial_card`: the card's streams `rx` and `tx` to its wire, and the pins `serial_rx` and `serial_tx`.
///
/// # Errors
/// What the build-time checks find; none for valid configurations, of which the card's is on AXI4 with 8 bytes a beat.
pub fn serial_card(card: &RnicConfig, cfg: &SerialConfig) -> Result<Netlist, BuildErrors> {
    build("serial_card", |m| card_with_board(m, card, cfg, &|m, requests| memory(m, cfg, requests)))
}

/// What answers for memory, and tells what of it the card has written.
pub type Memory<'a> = &'a dyn Fn(&Scope, Requests) -> (Answers, Wrote);

/// Both between ports of the module that is open, which is the top or [encloses](Scope::enclosed) it.
pub fn card_with_board(m: &Scope, card: &RnicConfig, cfg: &SerialConfig, memory: Memory) {
    let card = m.enclosed(|m| ferrowire_hdl::top::card(m, card));
    let board = m.enclosed(|m| board(m, cfg, memory));
    board.connect("s_axi_", &card, "m_axi_");
    board.connect("m_axil_", &card, "s_axil_");
    board.connect("interrupt_", &card, "interrupt_");
    card.expose(m, "link_", "link_");
    card.expose(m, "rx_", "rx_");
    card.expose(m, "tx_", "tx_");
    board.expose(m, "rx", "serial_rx");
    board.expose(m, "tx", "serial_tx");
}

/// The same between ports of the module that is open, which is the top or [encloses](Scope::enclosed) it.
pub fn board(m: &Scope, cfg: &SerialConfig, memory: Memory) {
    let bytes = cfg.beat_bytes;
    let card = axi::subordinate_in(m, "s_axi_", ID_BITS, bytes);
    let registers = axi::lite_in(m, "m_axil_");
    let interrupt = m.input_of("interrupt", &Interrupt::of());

    let (b, later_b) = m.later("bridge_b", &axi::response(ID_BITS));
    let (r, later_r) = m.later("bridge_r", &axi::read_beat(ID_BITS, bytes));
    let scanned = m.wire_of("scanned", &Scanned::of());
    let rx = m.input("rx", 1);
    let Bridged { tx, requests: asked, lite, scan } =
        bridge(m, cfg, rx, interrupt, Answers { b, r }, registers, scanned.clone());
    let (memory_b, later_memory_b) = m.later("memory_b", &axi::response(ID_BITS + 1));
    let (memory_r, later_memory_r) = m.later("memory_r", &axi::read_beat(ID_BITS + 1, bytes));
    let answers = Answers { b: memory_b, r: memory_r };
    let (requests, [to_card, to_bridge]) = interconnect(m, [card, asked], answers);
    let (Answers { b, r }, wrote) = memory(m, requests);
    m.drive(&scanned, dirty(m, cfg, wrote, scan));
    later_memory_b.connect(b);
    later_memory_r.connect(r);
    later_b.connect(to_bridge.b);
    later_r.connect(to_bridge.r);

    axi::subordinate_out(m, "s_axi_", to_card);
    axi::lite_out(m, "m_axil_", lite);
    m.output("tx", &tx);
}
