// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated Ferrowire cards: Verilated models with host memory, joined by links, and driven by the same driver as
//! cards on a bus.
//!
//! ```text
//!  program --- driver --- SimBus --+                                 +-- SimBus --- driver --- program
//!                                  |                                 |
//!                  World:  Host -- Card ====== Link, Link ====== Card -- Host
//! ```
//!
//! - [`card::Card`] is one RNIC: a Verilated model, [`host::Host`] behind its DMA streams, and its registers.
//! - [`wire::Link`] is one direction of a wire: beat-accurate, or through a filter that drops, changes or adds frames.
//! - [`bus::World`] steps cards and links on one clock; [`bus::SimBus`] is the driver's way to one of the cards.
//! - [`switch::Switch`] is a learning Ethernet switch, which joins more than two cards.
//! - [`line::SerialLine`] is a serial line to a card that is on a board with its memory: what the driver's `SerialBus` is given.
//! - [`node::Node`] is a card, opened; [`pair::Pair`] is two cards, opened and connected: what demo, bench and most tests begin with.
//! - [`feed`] keeps queue pairs of a pair busy, and checks what comes of it.
//! - [`model`] is the transport once more, written from the specification: what the cards are compared with.
//! - [`emulated`] puts that behind the registers and rings of a card: for programs, where speed matters more than truth.
//! - [`root`] is a root complex: the other end of a PCI Express link, memory, interrupts and CPU.
//! - [`axi`] is a subordinate on AXI4: the memory of a card in a system on chip, and its CPU.
//! - [`replay`] plays captured conversations again, with a card as one of the ends.
//! - [`soak`] runs random programs over bad wires, card against card and card against [`model`].
//! - [`hostile`] lets an attacker have a card's wire, and judges all that the card does.
//! - [`socket`] serves cards to other processes.
//! - [`config`] is which card a command takes, and [`progress`] says how far it is.
//! - [`lockstep`] compares the native simulator with Verilator.
#![deny(unsafe_code)]

pub mod axi;
pub mod bench;
pub mod bus;
pub mod card;
pub mod config;
pub mod demo;
pub mod emulated;
pub mod feed;
pub mod goodput;
pub mod host;
pub mod hostile;
pub mod line;
pub mod lockstep;
mod mappings;
pub mod measure;
pub mod model;
pub mod node;
pub mod on_wire;
pub mod pair;
pub mod progress;
pub mod replay;
pub mod root;
mod say;
pub mod shared_cq;
pub mod soak;
pub mod socket;
pub mod switch;
mod sys;
pub mod wire;
