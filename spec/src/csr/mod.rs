// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers: BAR 0 below the doorbell pages.
//!
//! | address | what |
//! |---|---|
//! | 0x0000 | [`identity`] |
//! | 0x0040 | [`capabilities`] |
//! | 0x0100 | [`command_queue`] |
//! | 0x0180 | [`port`] |
//! | 0x0200 | [`timers`] |
//! | 0x0240 | [`congestion`] |
//! | 0x0280 | [`flow_control`] |
//! | 0x02c0 | [`host_memory`] |
//! | 0x0800 | [`traffic`] counters |
//! | 0x0900 | [`drops`]: a counter for each reason to drop a packet |
//! | 0x0a00 | [`hw_counters`], named as in Linux |
//! | 0x4000 | MSI-X table, 0x800 bytes reserved |
//! | 0x4800 | MSI-X pending bits, 0x800 bytes reserved |
//! | 0x10000 | doorbell pages, [`crate::queue::doorbell`] |
//!
//! Registers are 32 bits and are read and written whole. A 64-bit value takes two, low word first. A 64-bit
//! counter moves while it is read: read high, low, high, until both high words are the same.

pub mod capabilities;
pub mod command_queue;
pub mod congestion;
pub mod drops;
pub mod flow_control;
pub mod host_memory;
pub mod hw_counters;
pub mod identity;
pub mod port;
pub mod timers;
pub mod traffic;

pub use drops::DropReason;
pub use hw_counters::HwCounter;
pub use traffic::TrafficCounter;

/// Address of the MSI-X table.
pub const MSIX_TABLE: u32 = 0x4000;
/// Address of the MSI-X pending bits.
pub const MSIX_PBA: u32 = 0x4800;
