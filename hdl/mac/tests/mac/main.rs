// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MAC as a whole, between a PHY and a core, in its three clocks.

mod bench;
mod clocks;
mod loopback;
mod phy;
mod receive;
mod transmit;
