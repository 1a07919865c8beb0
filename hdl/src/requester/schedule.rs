// SPDX-License-Identifier: MIT OR Apache-2.0
//! The WQE scheduler: which send queue goes next, and the fetch of its WQEs ahead of need.
//!
//! ```text
//!  doorbell --+             +----------------+    grant {qp, index, count} --> fetch
//!  rewind   --+--> event -->| producer,      |
//!  kick     --+             | fetch index,   |--> DMA read {base + 64 * index, 64 * count}
//!      +------------------->| queued         |
//!      |   oldest in line   +----------------+--> flush {qp, producer} --> completer
//!      +--- FIFO of QPs <-----------+
//! ```
//!
//! A QP with work stands in the FIFO once, marked `queued`. An event (3 cycles) updates the QP's row and puts it in
//! line; a grant (3 cycles) takes the oldest in line, asks for up to `fetch_batch` WQEs with one read and puts the QP
//! back in line if more are left. Nothing waits for the read: several grants of one QP may be under way.
//!
//! Where both wait, an event and a grant take turns: whoever floods the card with doorbells takes nobody's grants.
//!
//! What has begun is done 3 cycles later, whatever the others do: a grant begins only when each of its takers has room
//! and `fetch` has places for a whole batch. The blocks that give back places, or take flushes, wait for events of
//! theirs to be taken here; were a grant to wait for them in turn, all would stand still.
//!
//! A grant stays within one page of 4 KiB and the queue's end, within the WQE places that `fetch` has left, and within
//! `outstanding_per_qp` messages from the completer's oldest one; a QP at that limit leaves the line and comes back
//! with the completer's next kick. A QP in the error state is handed to the completer to be flushed; one that may not
//! send leaves the line.
//!
//! Reset: the line is empty, rows are written when a QP starts.

use crate::config::RnicConfig;
use crate::stream::fifo;
use crate::types::{DmaReadRequest, QpBroadcast, QpInit, SqDoorbell, TableWrite};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;

/// WQEs that are on their way.
#[derive(Clone, Bundle)]
pub struct Grant {
    /// Whose.
    pub qp: Sig,
    /// Index of the first, free-running.
    pub index: Sig,
    /// How many, at least one.
    pub count: Sig,
    /// The grant before was another QP's.
    pub differs: Sig,
}

impl Grant {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Grant { qp: bits(cfg.qp_bits()), index: bits(16), count: bits(7), differs: bits(1) }
    }
}

/// The fetch goes on from another index: a yield inside a message, or a rewind.
#[derive(Clone, Bundle)]
pub struct Rewind {
    /// Whose.
    pub qp: Sig,
    /// Next index to fetch.
    pub index: Sig,
}

impl Rewind {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Rewind { qp: bits(cfg.qp_bits()), index: bits(16) }
    }
}

/// A QP in the error state, with the index up to which its WQEs are to be flushed.
pub type Flush = SqDoorbell;

/// What comes out.
#[derive(Interface)]
pub struct Scheduled {
    /// Reads of WQEs, in the order of the grants.
    pub read: Stream<DmaReadRequest>,
    /// What the reads bring.
    pub grants: Stream<Grant>,
    /// QPs to flush.
    pub flush: Stream<Flush>,
    /// Who else wants to send.
    pub waiting: Waiting,
}

/// Whether a QP that sends keeps others from it.
#[derive(Clone, Bundle)]
pub struct Waiting {
    /// Somebody stands in the line.
    pub any: Sig,
    /// The first in line.
    pub head: Sig,
    /// At least two stand in the line, or WQEs of another QP than the one that sends have been asked for.
    pub others: Sig,
}

impl Waiting {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Waiting { any: bits(1), head: bits(cfg.qp_bits()), others: bits(1) }
    }

    /// Somebody other than `qp` waits.
    pub fn for_another(&self, qp: Sig) -> Sig {
        self.others | (self.any & self.head.ne(qp))
    }
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    Row,
    Grant,
}

/// Where a send queue lies.
#[derive(Clone, Bundle)]
struct Queue {
    base: Sig,
    log2: Sig,
}

#[derive(Clone, Bundle)]
struct Row {
    producer: Sig,
    fetch: Sig,
    queued: Sig,
}

/// Places for WQEs on the card, all QPs together: eight batches may be under way.
pub fn wqe_places(cfg: &RnicConfig) -> u32 {
    8 * cfg.fetch_batch
}

/// The scheduler. `returned` pulses when a WQE's place is free again; `oldest` is the completer's index of the oldest
/// WQE under way.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn schedule(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    init: Stream<QpInit>,
    doorbell: Stream<SqDoorbell>,
    rewind: Stream<Rewind>,
    kick: Stream<Sig>,
    oldest: TableWrite<Sig>,
    returned: Sig,
) -> Scheduled {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Idle);

    // One event or the oldest in line; what it is stays for the two cycles that follow.
    let (line, back) = m.later("line", &bits(qp_bits));
    let idle = state.is(State::Idle);
    let any_event = init.valid | doorbell.valid | rewind.valid | kick.valid;
    let may_grant = m.wire("may_grant", 1);
    // Events first, but behind each of them it is the line's turn.
    let lines_turn = m.reg("lines_turn", 1).reset(0);
    let is_grant = idle & (!any_event | lines_turn) & line.valid & may_grant;
    let takes = idle & !is_grant;
    let is_init = takes & init.valid;
    let is_rewind = takes & !init.valid & rewind.valid;
    let is_doorbell = takes & !init.valid & !rewind.valid & doorbell.valid;
    let is_kick = takes & !init.valid & !rewind.valid & !doorbell.valid & kick.valid;
    init.accept(is_init);
    rewind.accept(is_rewind);
    doorbell.accept(is_doorbell);
    kick.accept(is_kick);
    line.accept(is_grant);
    let mut chosen = line.payload;
    for (yes, qp) in
        [(is_kick, kick.payload), (is_doorbell, doorbell.qp), (is_rewind, rewind.qp), (is_init, init.qp)]
    {
        chosen = m.mux(yes, &qp, &chosen);
    }
    let starts = is_init | is_rewind | is_doorbell | is_kick | is_grant;
    let qp = m.reg("qp", qp_bits).no_reset();
    let index = m.reg("index", 16).no_reset();
    let kind_init = m.reg("kind_init", 1).reset(0);
    let kind_rewind = m.reg("kind_rewind", 1).reset(0);
    let kind_doorbell = m.reg("kind_doorbell", 1).reset(0);
    let kind_grant = m.reg("kind_grant", 1).reset(0);
    m.when(starts, |m| {
        m.set(&qp, chosen);
        m.set(&index, m.mux(is_rewind, &rewind.index, &doorbell.producer));
        m.set(&kind_init, is_init);
        m.set(&kind_rewind, is_rewind);
        m.set(&kind_doorbell, is_doorbell);
        m.set(&kind_grant, is_grant);
        m.set(&lines_turn, !is_grant);
        m.set(&state, State::Row);
    });

    // The tables: our rows, and read copies of others'.
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &Row { producer: bits(16), fetch: bits(16), queued: bits(1) });
    let rows = m.mem("rows", cfg.qps, &next).style(Style::Block).build();
    rows.write(row_write, qp, &next);
    let row = rows.read(m, starts, chosen, Collision::Never);
    let queue = Queue { base: bits(64), log2: bits(4) };
    let queues = m.mem("queues", cfg.qps, &queue).style(Style::Block).build();
    let given = &broadcast.attributes;
    let queue = Queue { base: given.entry.sq_base, log2: given.entry.sq_log2 };
    queues.write(given.enable, given.index, &queue);
    let queue = queues.read(m, starts, chosen, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let qp_state = states.read_now(qp);
    let oldests = m.mem("oldest", cfg.qps, &bits(16)).style(Style::Distributed).build();
    oldests.write(oldest.enable, oldest.index, &oldest.entry);
    let oldest_index = oldests.read_now(qp);

    // The row's cycle: an event is done here; a grant is worked out.
    let at_row = state.is(State::Row);
    let in_error = qp_state.eq(QpState::Err.code());
    let sends = qp_state.eq(QpState::Rts.code());
    let pending = row.producer - row.fetch;
    let under_way = row.fetch - oldest_index;
    let limit = lit(16, cfg.outstanding_per_qp);
    let allows = under_way.lt(limit);
    let place = row.fetch.trunc(6);
    let to_page_end = lit(7, 64) - place.zext(7);
    let size = lit(16, 1).shl_by(queue.log2);
    let slot = row.fetch & (size - 1);
    let to_queue_end = size - slot;
    let places_bits = clog2(u64::from(wqe_places(cfg)) + 1);
    let places = m.reg("places", places_bits).reset(wqe_places(cfg));
    let least = |a: Sig, b: Sig| m.mux(a.lt(b), &a, &b);
    // What lies in one piece of memory, then how much of it is wanted and allowed: side by side, for each is a sum and a
    // comparison.
    let most = lit(7, cfg.fetch_batch);
    let near_end = to_queue_end.slice(6, 10).any();
    let to_end = m.mux(near_end, &lit(7, 64), &to_queue_end.trunc(6).zext(7));
    let in_one = least(least(to_page_end, to_end), most);
    let bounded = least(limit - under_way, pending);
    let want = least(bounded, in_one.zext(16));
    let count = m.delay("count", &want.trunc(7));
    let address = m.delay("address", &(queue.base + cat(&[lit(6, 0), slot]).zext(64)));
    let can = m.delay("can", &(sends & allows & pending.ne(0)));
    let all = m.delay("all", &want.eq(pending));
    let flushes = m.delay("flushes", &in_error);
    m.when(at_row, |m| m.set(&state, State::Grant));

    // The grant's cycle. Who took the room that it began with? Nobody: only grants do.
    let done = state.is(State::Grant).named("done");
    m.when(done, |m| m.set(&state, State::Idle));
    let go = done & kind_grant & can;
    let flushing = done & kind_grant & flushes;
    let length = cat(&[lit(6, 0), count]);
    let last_qp = m.reg("last_qp", qp_bits).reset(0);
    let differs = qp.ne(last_qp);
    m.when(go, |m| m.set(&last_qp, qp));
    let read = Stream::new(m, "read", go, DmaReadRequest { address, length });
    let granted = Stream::new(m, "granted", go, Grant { qp, index: row.fetch, count, differs });
    let flush = Stream::new(m, "flush", flushing, Flush { qp, producer: row.producer });
    let room = read.ready & granted.ready & flush.ready;
    m.assert(!(go | flushing) | room, "a grant finds the room that it began with");
    // A register, so it knows of the last grant only from the second cycle of the next state on: that one is let pass.
    let after = m.delay("after", &(done & kind_grant));
    let had_room = m.delay("had_room", &(room & places.ge(cfg.fetch_batch)));
    m.drive(&may_grant, had_room & !after);
    let read = fifo(&m.label("read"), 4, read);
    let granted = fifo(&m.label("grant"), 16, granted);
    let flush = fifo(&m.label("flush"), 4, flush);

    let taken = go.then(count.zext(places_bits.max(7)).trunc(places_bits), lit(places_bits, 0));
    m.set(&places, places - taken + returned.zext(places_bits));

    // What the row becomes.
    m.drive(&row_write, done);
    // A QP that starts anew may still stand in the line from before; it leaves when its turn comes.
    let joins = !row.queued & !kind_grant & !kind_init;
    m.drive(&next.queued, m.mux(kind_grant, &(go & !all), &(row.queued | !kind_init)));
    m.set(&next.producer, row.producer);
    m.set(&next.fetch, row.fetch);
    m.when(kind_doorbell, |m| m.set(&next.producer, index));
    m.when(kind_rewind, |m| m.set(&next.fetch, index));
    m.when(go, |m| m.set(&next.fetch, row.fetch + count.zext(16)));
    m.when(kind_init, |m| {
        m.set(&next.producer, 0);
        m.set(&next.fetch, 0);
    });

    // The line has a place for every QP, and each stands in it once: it never fills.
    let enter = done & (joins | (kind_grant & go & !all));
    let entering = Stream::new(m, "entering", enter, qp);
    m.assert(!entering.valid | entering.ready, "the line has a place for every QP");
    let line_in = crate::stream::deep_fifo(&m.label("line"), cfg.qps, entering);
    back.connect(line_in);
    // Who waits: in the line, or behind the grant that is being filled. A grant to another QP counts until it is that one.
    let in_line = m.reg("in_line", qp_bits + 1).reset(0);
    m.set(&in_line, in_line + enter.zext(qp_bits + 1) - is_grant.zext(qp_bits + 1));
    let others = m.reg("others", 5).reset(0);
    let begun = m.reg("begun", 1).reset(0);
    let begins = granted.valid & granted.differs & !begun;
    m.when(granted.fire(), |m| m.set(&begun, 0)).otherwise_when(begins, |m| m.set(&begun, 1));
    m.set(&others, others + (go & differs).zext(5) - begins.zext(5));
    let waiting = Waiting { any: line.valid, head: line.payload, others: in_line.gt(1) | others.ne(0) };
    Scheduled { read, grants: granted, flush, waiting }
}

#[cfg(test)]
mod tests;
