// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responder: checks, then effects, then the answer.
//!
//! ```text
//!  requests --> check --> walk --> cut --> admit --> place --> writes, answers, completions
//!                 ^        | ^      |        ^ |       ^
//!          posted |        v |      v        | v       |
//!  doorbell --> receive ---+-+   translate --+ flush   frames
//! ```

mod admit;
mod check;
mod cut;
mod flush;
mod order;
mod place;
mod receive;
mod walk;
pub mod reply;

pub use admit::{admit, Admitted, Counts};
pub use check::check;
pub use cut::{cut, Cut};
pub use flush::{flush, Event, Flushed};
pub use order::{Class, Facts, Order, Pending, Piece, Run, Walk};
pub use place::{place, Place, Placed};
pub use receive::{receive, Received, Receives, RqDoorbell, Wanted};
pub use walk::{walk, Walked};

use crate::config::RnicConfig;
use crate::memory::{Lookup, Translation};
use crate::stream::{fifo, Beat};
use crate::types::{
    Completion, DmaReadData, DmaReadRequest, DmaWrite, Headers, QpBroadcast, QpInit, TxPacket,
};
use ferrowire_rtl::{Interface, Scope, Sig, Stream};

/// What the responder is told.
#[derive(Interface)]
pub struct Input {
    /// QPs that start.
    pub init: Stream<QpInit>,
    /// Receives have been posted.
    pub doorbell: Stream<RqDoorbell>,
    /// What its reads bring.
    pub data: Stream<DmaReadData>,
    /// What the peers ask for.
    pub requests: Stream<Headers>,
    /// A frame for each of these.
    pub frames: Stream<Beat>,
    /// Answers of the key and page tables.
    pub answer: Translation,
}

/// What comes out.
#[derive(Interface)]
pub struct Responder {
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// Reads of receive WQEs.
    pub read: Stream<DmaReadRequest>,
    /// Received payload.
    pub write: Stream<DmaWrite>,
    /// ACKs and NAKs.
    pub answers: Stream<TxPacket>,
    /// Receives that have ended.
    pub completions: Stream<Completion>,
    /// QPs that go to the error state.
    pub faults: Stream<Sig>,
    /// Counted events.
    pub counts: Counts,
}

/// Its parts, joined.
pub fn responder(m: &Scope, cfg: &RnicConfig, broadcast: QpBroadcast, input: Input) -> Responder {
    let (wanted, wants) = m.later("wanted", &Wanted::of(cfg));
    let receives = receive(m, cfg, broadcast.clone(), input.doorbell, wanted, input.data);
    let orders = check(m, cfg, broadcast.clone(), receives.posted.clone(), input.init, input.requests);
    let walked = walk(m, cfg, orders, receives.received);
    wants.connect(walked.wanted);
    let cut = cut(m, fifo(&m.label("runs"), 2, walked.runs));
    let (flushed, flushes) = m.later("flushed", &Flushed::of(cfg));
    let admitted = admit(m, cfg, cut.pending, input.answer, flushed);
    flushes.connect(flush(
        m,
        cfg,
        broadcast,
        receives.flush,
        receives.posted,
        admitted.completed,
        admitted.ends,
    ));
    // A piece's length waits for its address.
    let both = cut.pieces.valid & admitted.addresses.valid;
    let piece = Piece { address: admitted.addresses.payload, bytes: cut.pieces.payload };
    let pieces = Stream::new(m, "pieces", both, piece);
    cut.pieces.accept(both & pieces.ready);
    admitted.addresses.accept(both & pieces.ready);
    let placed = place(m, cfg, admitted.place, pieces, input.frames);
    Responder {
        lookup: cut.lookup,
        read: receives.read,
        write: placed.write,
        answers: placed.answers,
        completions: placed.completions,
        faults: admitted.faults,
        counts: admitted.counts,
    }
}

#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod tests;
