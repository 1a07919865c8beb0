// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building blocks for streams: what every stage is joined with.

mod arbiter;
mod fifo;
mod gather;
mod realign;
mod row;
mod skid;

pub use arbiter::{arbiter, arbiter_from, arbiter_held, fork, Chosen};
pub use ferrowire_parts::Beat;
pub use fifo::{
    deep_fifo, few, fifo, folded_fifo, keyed, keyed_fifo, prompt_fifo, spare_fifo, wide_fifo, Keyed,
};
pub use gather::{gather, Flagged, Forget};
pub(crate) use realign::{byte_mask, lanes_from, rotate};
pub use realign::{realign, Realign, Realigned};
pub(crate) use row::row_of;
pub use skid::{breath, catch, forward, half, skid, slice};
