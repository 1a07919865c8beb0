// SPDX-License-Identifier: MIT OR Apache-2.0
//! What crosses the wire, one header a file, in the order it appears in a packet.
//!
//! Addresses are numbers: a MAC address is a 48-bit integer, an IP address a 32-bit or 128-bit one, whose most
//! significant byte is sent first.

pub mod aeth;
pub mod atomic_ack_eth;
pub mod atomic_eth;
pub mod bth;
pub mod checksum;
pub mod cnp;
pub mod deth;
pub mod eth;
pub mod frame;
pub mod icrc;
pub mod ieth;
pub mod imm_dt;
pub mod ipv4;
pub mod ipv6;
pub mod opcode;
pub mod pause;
pub mod pfc;
pub mod report;
pub mod reth;
pub mod syndrome;
pub mod udp;
pub mod vlan;

pub use aeth::Aeth;
pub use atomic_ack_eth::AtomicAckEth;
pub use atomic_eth::AtomicEth;
pub use bth::Bth;
pub use cnp::Cnp;
pub use deth::Deth;
pub use eth::Eth;
pub use frame::{Extensions, Frame, FrameError, Ip};
pub use ieth::Ieth;
pub use imm_dt::ImmDt;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use opcode::Opcode;
pub use pause::Pause;
pub use pfc::Pfc;
pub use report::Report;
pub use reth::Reth;
pub use syndrome::Syndrome;
pub use udp::Udp;
pub use vlan::Vlan;
