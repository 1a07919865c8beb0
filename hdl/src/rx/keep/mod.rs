// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of queue pairs with selective retransmission that came too early: kept until what is missing has come.

pub mod judge;
pub mod store;
