// SPDX-License-Identifier: MIT OR Apache-2.0
//! What faces the host: registers, doorbells, commands, completions, and the two DMA channels.

pub mod axi;
pub mod command;
pub mod cq;
pub mod csr;
pub mod dma;
pub mod doorbell;
pub mod event;
pub mod moderation;
pub mod pcie;
pub mod pcie4;
pub mod ports;
pub mod reset;
mod types;

pub use types::*;
