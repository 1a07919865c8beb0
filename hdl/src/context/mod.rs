// SPDX-License-Identifier: MIT OR Apache-2.0
//! What outlives a packet and belongs to no engine: state and attributes of queue pairs.

pub mod qp;
pub mod timer;

pub use qp::{QpContext, QpRecord, QpUpdate};
