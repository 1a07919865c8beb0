// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference engine: the whole RoCE v2 transport of a node, written from the specification and not from the hardware.
//!
//! ```text
//!  post_send --> sendq --> requester --+--> poll_transmit          poll_timeout, handle_timeout
//!  post_recv --> recvq, srq      ^     |                                       |
//!                          completer   answers <-- responder <-- handle_frame  timers
//!  poll_cq <---- cq <-----------+---------------------+               |
//!                                                  memory, keys       ud
//! ```
//!
//! It does no IO, starts no threads and reads no clock: frames, time and work come in by calls of [`Engine`], frames, the next
//! deadline, completions and events go out the same way. The same calls give the same frames, always. Whatever bytes
//! [`Engine::handle_frame`] gets, it never panics, and nothing of a frame reaches memory before all checks have passed.
//!
//! What the hardware does in many places at once, the engine does in the plainest way: a READ is answered from a copy that is
//! taken when the request is executed; a WQE that fails waits until those before it are done; every packet with a request for
//! an acknowledgement gets one, unless one is still waiting to be sent.
//!
//! Clauses in comments are of the InfiniBand Architecture volume 1 (IBTA), A17 is its RoCE v2 annex.

mod access;
mod answers;
mod completer;
mod congestion;
mod cq;
mod engine;
mod keys;
mod memory;
pub mod network;
mod packet;
mod qp;
mod recvq;
mod requester;
mod responder;
mod sendq;
mod srq;
mod timers;
mod types;
mod ud;

pub use engine::{Config, Engine, Event};
pub use keys::RegionAttr;
pub use memory::Memory;
pub use qp::{QpAttr, QpInit};
pub use types::{
    AddressVector, Bind, Completion, Error, Instant, RecvWr, Rights, SendWr, Sge, MAX_MESSAGE, MAX_SGES,
};

#[cfg(test)]
mod tests;
