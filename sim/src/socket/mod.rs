// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards on sockets, `ferrowire-sim card` and `ferrowire-sim up`, and boards on serial ports, `ferrowire-sim board`. A card is a PCI device of the vfio-user protocol, for the driver's
//! [`VfioUserBus`](ferrowire::VfioUserBus) and for whatever else speaks it.
//!
//! ```text
//!  client --- socket --- Port --- Device --- Cards ====== Line: a socket, a TAP interface; another card; a switch
//!                          |        |          +- Verilated: World, Clock; or Engines: Fabric
//!                          |        +- ConfigSpace, Msix, ClientMemory
//!  client --- port ---- Tty ---------------- Verilated, a card on a board
//!                        Server: one loop, one thread; Guests: whose clocks stand while cards are busy
//! ```

// A server outlives those that read what it says: see `crate::say`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod bar;
mod cable;
mod cards;
mod clock;
pub mod command;
mod config_space;
mod device;
mod engines;
mod guest;
mod limits;
pub mod line;
mod listener;
mod losses;
mod memory;
mod msix;
mod observers;
mod outage;
mod port;
mod refusals;
mod server;
mod trace;
mod tty;
mod verilated;

pub use cable::Cables;
pub use cards::{Cards, Function};
pub use clock::Clock;
pub use device::Device;
pub use engines::Engines;
pub use guest::Guests;
pub use listener::Listener;
pub use losses::Losses;
pub use port::Port;
pub use server::{Server, Signals};
pub use trace::Tracer;
pub use tty::Tty;
pub use verilated::Verilated;
