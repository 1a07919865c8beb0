// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that needs `unsafe`: memory shared with a card, and the barriers before and after its use; and the few calls
//! of the system beside it.
#![allow(unsafe_code)]

mod bar;
mod fence;
mod lent;
mod memory;
mod shared;
mod vfio;
mod wait;

pub use bar::MappedBar;
pub use fence::{after_phase, before_doorbell};
pub use lent::LentMemory;
pub use memory::HostMemory;
pub(crate) use vfio::Linux;
pub use wait::{drain, wait_readable, wait_with};
