// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responder: checks, then effects, then the answer.
//!
//! ```text
//!  requests --> check --> walk --> merge --> cut --> admit --> place --> writes, answers, completions
//!                 ^        | ^      ^        |        ^ |       ^
//!          posted |        v |    runs of    v        | v       |
//!  doorbell --> receive ---+-+    answers  translate -+ flush   frames, replies --> reply --> packets
//!       shared: what is left of the shared receive queues
//! ```
//!
//! `known` keeps where in memory the newest READ begins, for the reply engine.
//!
//! Who rings a receive queue's doorbell for more than it holds, or for less than before, has overrun it (`overruns`): `receive` asks `flush`
//! and `shared`, which know how far each queue is.
//!
//! A QP takes its receives from a queue of its own or from a shared one. There all of them take the oldest, when a message begins,
//! and hold it until the message ends: `check` asks `shared` for its index, which the packets carry from there on, so that all
//! others do the same for both. A packet of UC or UD that is not executed after all leaves its receive to the next: `walk` and `admit` tell
//! `check` (`judged`, `mends`). What a QP in error holds is flushed by `flush`, what its packets take in the meantime by `admit`.

mod admit;
mod check;
mod cut;
mod flush;
mod known;
mod merge;
mod order;
mod place;
mod queues;
mod receive;
pub mod reply;
mod shared;
mod walk;

pub use admit::{admit, Admitted, Counts, Target};
pub use check::{check, Checked};
use cut::first_length;
pub use cut::{cut, Cut};
pub use flush::{flush, Done, Flush, Flushed};
pub use known::{known, GrantedRead, Known};
pub use merge::merge;
pub use order::{Class, Facts, Judged, Operands, Order, Outcome, Pending, Piece, Run, Walk};
pub use place::{place, Place, Placed};
pub use receive::{receive, Ask, Oldest, Received, Receives, RqDoorbell, Touch, Wanted};
pub use shared::{shared, Seen, Shared, Take};
pub use walk::{walk, Walked};

use crate::config::RnicConfig;
use crate::context::congestion::{Charge, Gate, Marked};
use crate::host::event::Report;
use crate::host::{SrqControl, SrqStatus};
use crate::memory::{self, Lookup, Operation, Passage, Translation};
use crate::stream::{breath, half, Beat};
use crate::tx::arbitrate::TxSource;
use crate::types::{
    Completion, DmaReadData, DmaReadRequest, DmaWrite, Headers, OfQp, QpBroadcast, QpFault, QpInit,
    TableWrite,
};
use ferrowire_rtl::{bits, lit, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::queue::{CqeOpcode, EventKind};

/// What the responder is told.
#[derive(Interface)]
pub struct Input {
    /// QPs that start.
    pub init: Stream<QpInit>,
    /// Shared receive queues begin and end.
    pub shared: SrqControl,
    /// Receives have been posted.
    pub doorbell: Stream<RqDoorbell>,
    /// What its reads bring.
    pub data: Stream<DmaReadData>,
    /// What the peers ask for.
    pub requests: Stream<Headers>,
    /// A frame for each of these, and for each READ response.
    pub frames: Stream<Beat>,
    /// The order of requests and of what answers READs and atomics: whether the next is an answer.
    pub arrivals: Stream<Sig>,
    /// Where the answers go.
    pub runs: Stream<Run>,
    /// What atomics found.
    pub values: Stream<Sig>,
    /// Answers of the key and page tables.
    pub answer: Translation,
    /// Likewise, for responses.
    pub reply_answer: Translation,
    /// Ends of operations on keys.
    pub operated: memory::Done,
    /// What the tables answer may change soon, or has changed.
    pub changed: Sig,
    /// What the reads for responses bring.
    pub reply_data: Stream<DmaReadData>,
    /// Who is held back.
    pub gate: TableWrite<Gate>,
    /// The priorities that stand still on the wire.
    pub paused: Sig,
    /// The loop has room for a response.
    pub may_loop: Sig,
    /// The QP that is asked for.
    pub query: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Responder {
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// Likewise, for responses.
    pub reply_lookup: Stream<Lookup>,
    /// Keys that peers invalidate.
    pub operations: Stream<Operation>,
    /// Reads of receive WQEs.
    pub read: Stream<DmaReadRequest>,
    /// Reads for responses.
    pub reply_read: Stream<DmaReadRequest>,
    /// Received payload.
    pub write: Stream<DmaWrite>,
    /// What atomics write.
    pub atomic_write: Stream<DmaWrite>,
    /// ACKs, NAKs and responses.
    pub source: TxSource,
    /// The packet on offer is an ACK or a NAK.
    pub acknowledges: Sig,
    /// A packet will be on offer in the next cycle, if the register is free.
    pub comes: Sig,
    /// Receives that have ended, and ends of lives.
    pub completions: Vec<Stream<Completion>>,
    /// A message that takes a receive has come.
    pub receives_one: Sig,
    /// What became of answers.
    pub outcomes: Stream<Outcome>,
    /// QPs that go to the error state, or of which the first packet has come.
    pub faults: Vec<Stream<QpFault>>,
    /// Shared receive queues that run low.
    pub reports: Stream<Report>,
    /// Receive queues that the host has overrun, as in a doorbell.
    pub overruns: Stream<Sig>,
    /// The shared receive queue that is asked for.
    pub status: SrqStatus,
    /// The receive queue of a QP that has gone to RESET is read no more.
    pub unread: OfQp,
    /// A shared receive queue that was destroyed may still be read.
    pub busy: Sig,
    /// What passes on its way from a lookup to memory.
    pub accesses: Vec<Passage>,
    /// Likewise, for responses.
    pub reply_accesses: Vec<Passage>,
    /// Requests that met congestion.
    pub marked: Marked,
    /// READ responses that are cut, for congestion control.
    pub charges: Stream<Charge>,
    /// Beats of the loop's ring for a response that begins.
    pub reserves: Sig,
    /// Likewise, of one that does not come.
    pub unspent: Sig,
    /// Of the QP that is asked for: the PSN expected of its peer.
    pub expected_psn: Sig,
    /// Counted events.
    pub counts: Counts,
    /// Likewise, of responses.
    pub reply_counts: reply::Counts,
}

/// Its parts, joined.
pub fn responder(m: &Scope, cfg: &RnicConfig, broadcast: QpBroadcast, input: Input) -> Responder {
    let (wanted, wants) = m.later("wanted", &Wanted::of(cfg));
    let settled = m.wire("settled", 1);
    let passed = m.reg("passed", 1).reset(0);
    let (mended, mends) = m.later("mended", &bits(cfg.qp_bits()));
    let (touched, touches) = m.later("touched", &Touch::of(cfg));
    let entry = input.shared.entry.clone();
    let oldest = m.wire_of("oldest", &Oldest::of());
    let (bells, data) = (input.doorbell, input.data);
    let receives = receive(m, cfg, broadcast.clone(), entry, bells, touched, wanted, data, oldest.clone());
    let take = m.wire_of("take", &Take::of(cfg));
    let ask = receives.ask;
    let srq = ask.queue.trunc(cfg.srq_bits());
    let shared = shared(m, cfg, input.shared, receives.posted.clone(), take.clone(), srq);
    let served = m.wire_of("served", &reply::Served::of(cfg));
    let unused = m.wire_of("unused", &reply::Served::of(cfg));
    let judged = m.wire_of("judged", &Judged::of());
    let posted = receives.posted.clone();
    let checked = check(
        m,
        cfg,
        broadcast.clone(),
        posted,
        shared.seen,
        input.init,
        input.requests,
        served.clone(),
        unused.clone(),
        judged.clone(),
        mended,
        settled,
        input.query,
        passed,
    );
    m.drive(&take, &checked.take);
    let receives_one = checked.touches.fire();
    touches.connect(breath(&m.label("touches"), cfg.unhurried(), checked.touches));
    let walked = walk(m, cfg, checked.orders, receives.received);
    let (direct, of_walk) = (checked.direct, half(&m.label("runs"), walked.runs));
    wants.connect(walked.wanted);
    mends.connect(walked.mends);
    m.drive(&settled, walked.settled);
    // Which comes next is known long before it comes.
    let arrivals = half(&m.label("arrivals"), input.arrivals);
    let ends_one = direct.fire() | (of_walk.fire() & of_walk.last);
    let merged = merge(m, arrivals, direct, of_walk, input.runs);
    m.set(&passed, ends_one);
    let invalidated = m.wire("invalidated", 1);
    let (runs, first) = match cfg.unhurried() {
        true => {
            m.discard(&merged.length);
            let runs = half(&m.label("merged"), merged.runs);
            let first = first_length(m, &runs);
            (runs, first)
        }
        false => (merged.runs, merged.length),
    };
    let cut = cut(m, cfg, runs, first, invalidated);
    let (flushed, flushes) = m.later("flushed", &Flushed::of(cfg));
    let admitted = admit(m, cfg, cut.pending, input.answer.clone(), input.operated, flushed);
    m.drive(&invalidated, admitted.invalidated);
    // Only one packet is waited for.
    let (of_walk, of_admit) = (&walked.judged, &admitted.judged);
    let refused = m.mux(of_walk.valid, &of_walk.refused, &of_admit.refused);
    m.set_all(&judged, &Judged { valid: of_walk.valid | of_admit.valid, refused });
    let flush = flush(
        m,
        cfg,
        broadcast.clone(),
        receives.flush,
        receives.posted,
        admitted.completed,
        admitted.lasts,
        admitted.ends,
        OfQp { valid: ask.valid & !ask.queue.msb(), qp: ask.queue.trunc(cfg.qp_bits()) },
    );
    flushes.connect(flush.flushed);
    m.set_all(&oldest, &Oldest { done: flush.done, taken: shared.taken });
    // A piece's length waits for its address.
    let both = cut.pieces.valid & admitted.addresses.valid;
    let Target { address, relaxed } = admitted.addresses.payload.clone();
    let piece = Piece { address, bytes: cut.pieces.payload, relaxed };
    let pieces = Stream::new(m, "pieces", both, piece);
    let looked_up = Passage { enters: cut.lookup.fire(), leaves: pieces.fire() };
    // Where there is time, decisions come too late for it.
    let known = (!cfg.unhurried())
        .then(|| known(m, looked_up.clone(), input.answer, admitted.reads.clone(), input.changed));
    if known.is_none() {
        m.discard(&(admitted.reads, input.changed));
    }
    cut.pieces.accept(both & pieces.ready);
    admitted.addresses.accept(both & pieces.ready);
    let placed = place(m, cfg, admitted.place, pieces, input.frames, checked.operands, input.values);
    m.set_all(&unused, &m.delay_zero("not_executed", &placed.unused));
    let (answer, data) = (input.reply_answer, input.reply_data);
    let replies = breath(&m.label("replies"), cfg.unhurried(), placed.replies);
    let replied = reply::reply(
        m,
        cfg,
        broadcast,
        replies,
        known,
        answer,
        data,
        input.gate,
        input.paused,
        input.may_loop,
    );
    m.set_all(&served, &m.delay_zero("executed", &replied.served));
    let established = checked.established.map(|qp| QpFault::told(EventKind::CommEstablished, qp));
    // The end of a life is told behind its last answer.
    let marker = Completion {
        opcode: lit(8, u32::from(CqeOpcode::Recv.code())),
        marker: lit(1, 1),
        ..Completion::of(cfg).zeros()
    };
    let markers = replied.ended.map(|qp| Completion { qpn: qp.zext(24), ..marker.clone() });
    Responder {
        lookup: cut.lookup,
        reply_lookup: replied.lookup,
        operations: admitted.operations,
        read: receives.read,
        reply_read: replied.read,
        write: placed.write,
        atomic_write: replied.write,
        source: replied.source,
        acknowledges: replied.acknowledges,
        comes: replied.comes,
        completions: vec![placed.completions, markers],
        receives_one,
        outcomes: placed.outcomes,
        faults: vec![admitted.faults, replied.faults, established],
        reports: shared.reports,
        overruns: receives.overruns,
        status: shared.status,
        unread: receives.unread,
        busy: receives.busy,
        accesses: vec![looked_up, placed.writing],
        reply_accesses: replied.accesses,
        marked: checked.marked,
        charges: replied.charges,
        reserves: replied.reserves,
        unspent: replied.unspent,
        expected_psn: checked.expected_psn,
        counts: admitted.counts,
        reply_counts: replied.counts,
    }
}

#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod tests;
