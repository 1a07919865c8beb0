// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything that needs `unsafe`: memory shared with a card, and the barriers before and after its use; and the few calls
//! of the system beside it.
#![allow(unsafe_code)]

mod bar;
mod device;
mod fence;
mod lent;
mod memory;
mod shared;
mod slots;
mod vfio;
mod wait;
mod wrapping;

pub use bar::{MappedBar, MappedDoorbell};
pub use fence::{after_phase, before_doorbell};
pub use lent::LentMemory;
pub use memory::HostMemory;
pub(crate) use slots::Slots;
pub(crate) use vfio::Linux;
pub(crate) use wait::monotonic;
pub use wait::{drain, wait_readable, wait_with};
pub(crate) use wrapping::Wrapping;
