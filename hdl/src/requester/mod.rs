// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requester: from doorbells to packets.

mod again;
mod commit;
mod confirm;
mod fetch;
mod gather;
mod launch;
mod list;
mod pace;
mod payload;
mod push;
mod resend;
mod ring;
mod schedule;
mod segment;
mod turns;

pub(crate) use again::range;
pub use again::{Proof, Repeated};
pub use commit::{commit, messages, Bar, Committed, FirstSge, Report, Sent};
pub use confirm::{confirm, Confirmed};
pub use fetch::{fetch, fetch_again, grain, sort_data, Fetched, UNIT};
pub use gather::{gather, Gathered, Inline, KeptSge, Part, SGE_BITS};
pub use launch::{launch, Launched, PENDING};
pub(crate) use list::BANKS;
pub use list::{list, stored_of, Listed, Released, Repeat, Wqe, MAX_INLINE, MAX_SGES};
pub use pace::pace;
pub use payload::{payload, End, PayloadOut};
pub use push::{push, Freed, SlotWrite, Slots, Wanted};
pub use resend::{repair, News, Repaired};
pub(crate) use ring::{least_of_three, overfills, steps_back};
pub use ring::{Piece, Ring};
pub use schedule::{
    schedule, wqe_places, Ask, Asked, Eased, Flush, Grant, Resume, Scheduled, Tag, Waiting, MAX_STRIDE,
};
pub(crate) use segment::is_local;
pub use segment::{segment, Candidate, Operands, Packet, Restart, Segmented, ACK_BITS};
pub use turns::{take_turns, Sources, Turn};

#[cfg(test)]
mod tests;
