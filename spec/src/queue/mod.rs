// SPDX-License-Identifier: MIT OR Apache-2.0
//! What host and card hand each other through memory, and the doorbells.
//!
//! Everything is little-endian. No field lies across a 64-bit word, IP addresses excepted. Entries that the
//! card writes end with a phase bit, the last bit of the entry: it is the inverse of the wrap count's low bit,
//! so the first pass over a zeroed queue writes ones. The card writes it after all other bits.

pub mod command;
pub mod command_completion;
pub mod cqe;
pub mod doorbell;
pub mod event;
pub mod recv_wqe;
pub mod send_wqe;

pub use command::{Access, CommandOpcode};
pub use command_completion::{CommandAttribute, CommandCompletion, CommandStatus};
pub use cqe::{Cqe, CqeOpcode, WcStatus};
pub use event::{Event, EventKind};
pub use recv_wqe::RecvWqe;
pub use send_wqe::{SendOpcode, SendWqe};

/// Unit of a work queue in bytes. All WQEs of a queue have as many as it was created with: 1, 2 or 4, of a send queue also 8.
pub const WQE_UNIT: usize = 64;
