// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one truth about bits.
//!
//! Every wire header, queue entry, command and register of the card is declared in this crate once, as a
//! [`Layout`] or a [`Block`]: name, position, width, access, reset value, clause of the standard and meaning.
//! The hardware takes positions from the `Field` constants, host software parses and emits the structs, and
//! the register pages and the C header are printed from the same tables.
//!
//! # Naming
//! `wire::bth::PSN` is the [`Field`] of the packet sequence number, `wire::bth::LAYOUT` the whole header,
//! `wire::bth::BYTES` its size and `wire::bth::Bth` the struct with `parse` and `emit`. All other modules of
//! [`wire`] and [`queue`] look the same. One-bit fields are `bool`, other fields the smallest unsigned integer
//! that holds them. Reserved fields are kept by `parse` and written by `emit`, so encoding what was decoded
//! gives the same bytes.
//!
//! # Bit numbering
//! [`Order::Network`] counts from the most significant bit of byte 0, as the standards draw headers;
//! [`Order::Little`] counts from the least significant bit of byte 0, as hosts of our kind store words.
//! [`Field::bus_bit`] turns either into the position on a bus whose bits 7:0 are byte 0.
//!
//! ```
//! use ferrowire_spec::wire::bth::{self, Bth};
//!
//! let bytes = [0x04, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0x00, 0x01, 0x00];
//! let header = Bth::parse(&bytes).unwrap();
//! assert_eq!((header.opcode, header.destqp, header.ackreq, header.psn), (4, 0x11, true, 0x100));
//! assert_eq!(bth::PSN.get(bth::LAYOUT.order, &bytes), 0x100);
//! ```
#![no_std]
#![forbid(unsafe_code)]

pub mod csr;
pub mod generate;
pub mod hash;
pub mod pci;
pub mod pcie;
pub mod psn;
pub mod qp_state;
pub mod queue;
pub mod serial;
mod table;
pub mod wire;

pub use generate::{c_header, registers_md};
pub use hash::{ALL_BLOCKS, ALL_CODES, ALL_LAYOUTS, LAYOUT_HASH};
pub use psn::{Psn, PsnClass};
pub use qp_state::QpState;
pub use table::{Access, Bits, Block, Code, Codes, Error, Field, Layout, Order, Register};
