// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requester: from doorbells to packets.

mod commit;
mod fetch;
mod launch;
mod payload;
mod ring;
mod schedule;
mod segment;

pub use commit::{commit, messages, Bar, Committed, Report, Sent};
pub use fetch::{fetch, Fetched};
pub use launch::{launch, Launched};
pub use payload::{payload, End, PayloadOut};
pub(crate) use ring::least;
pub use ring::{Piece, Ring};
pub use schedule::{schedule, wqe_places, Flush, Grant, Resume, Scheduled, Waiting};
pub use segment::{segment, Candidate, Restart, Segmented, ACK_BITS, QUANTUM};
