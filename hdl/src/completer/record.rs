// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remembers what was sent, until it is acknowledged.
//!
//! ```text
//!  sent --> tail of the QP's list --+--> pool[tail] = message
//!                ^                  +--> links[tail] = free place = new tail
//!                |                  +--> read copy for track: {tail, next PSN, the WQE that has failed}
//!  free places --+
//!       ^ init: first the never used ones, then those that come back
//! ```
//!
//! The messages of a QP stand in a linked list in one pool, oldest first. The place behind the newest belongs to the
//! list already: `track` reads and frees from the head on, this block writes at the tail, and neither needs the other's
//! pointer to change its own. Hence the pool has a place for each QP beyond those for messages.
//!
//! A packet costs 2 cycles, less than it takes on the wire. What may be sent is bounded by the free places, which `commit`
//! counts. Only what is sent for the first time changes a list. A WQE that failed has no place: its index and cause stand in
//! the QP's row.
//!
//! Messages of UC and UD, which nobody acknowledges, are done when they are sent (IBTA volume 1, 9.8.1, 9.8.3): behind their record
//! their QP stands in a line for `track`, once however many messages it has sent meanwhile. A bind or an invalidation is a
//! message without a packet, done with what is before it: `track` is told likewise to look whether that is done already, and again when
//! nothing is under way any more by what it has taken back (`over`).
//!
//! A QP that goes to RESET gives its places back: whoever used it may never start it again. What comes of it afterwards, from
//! its former life, is forgotten.
//!
//! Reset: the tails are set one QP a cycle, QP `q` to place `q`; what comes meanwhile waits.

use crate::config::RnicConfig;
use crate::context::resets;
use crate::requester::{is_local, messages, FirstSge, Flush, Sent};
use crate::stream::{arbiter, deep_fifo, fork, gather, half, row_of, Flagged, Forget};
use crate::types::{QpBroadcast, SqStart, TableWrite};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::wire::opcode::Service;

/// Bits of a `SendOpcode`. The pool has no message of an unknown one: such a WQE fails before it is sent.
const SEND_OPCODE_BITS: u32 = 4;

/// A message in the pool.
#[derive(Clone, Bundle)]
pub struct Message {
    /// PSN of its last packet.
    pub last_psn: Sig,
    /// A CQE is wanted.
    pub signaled: Sig,
    /// Its `SendOpcode`, for the CQE.
    pub opcode: Sig,
    /// Bytes.
    pub length: Sig,
    /// A READ or an atomic.
    pub answered: Sig,
    /// Then: where its answer goes, the first SGE.
    pub sge: FirstSge,
    /// It has taken a window back.
    pub withdraws: Sig,
}

impl Message {
    /// The shape.
    pub fn of() -> Self {
        Message {
            last_psn: bits(24),
            signaled: bits(1),
            opcode: bits(SEND_OPCODE_BITS),
            length: bits(32),
            answered: bits(1),
            sge: FirstSge::of(),
            withdraws: bits(1),
        }
    }
}

/// What `track` knows of a QP's list.
#[derive(Clone, Bundle)]
pub struct Front {
    /// The place behind the newest message.
    pub tail: Sig,
    /// The PSN behind the newest packet.
    pub next_psn: Sig,
    /// A WQE has failed here.
    pub failed: Sig,
    /// Its index.
    pub failed_index: Sig,
    /// Its `WcStatus`.
    pub status: Sig,
    /// Its `LocalCause`.
    pub cause: Sig,
}

impl Front {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Front {
            tail: bits(place_bits(cfg)),
            next_psn: bits(24),
            failed: bits(1),
            failed_index: bits(16),
            status: bits(8),
            cause: bits(8),
        }
    }
}

/// A place that comes back.
#[derive(Clone, Bundle)]
pub struct Freed {
    /// In this cycle.
    pub valid: Sig,
    /// Which one.
    pub place: Sig,
}

impl Freed {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Freed { valid: bits(1), place: bits(place_bits(cfg)) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Recorded {
    /// A message and its place.
    pub pool: TableWrite<Message>,
    /// The place that follows it.
    pub links: TableWrite<Sig>,
    /// The QP's list, for `track`.
    pub front: TableWrite<Front>,
    /// QPs to look at: a WQE failed, a message without a packet was sent, or
    /// nothing is under way any more by what it took back.
    pub failed: Stream<Sig>,
    /// A place that was kept for a message is not needed.
    pub credit: Sig,
    /// QPs without acknowledgements that have sent messages: an entry for each QP at most, behind the record of them.
    pub own: Stream<Sig>,
    /// QPs that went to RESET, behind all that was sent before.
    pub reset: Stream<Sig>,
    /// QPs that start, likewise.
    pub init: Stream<SqStart>,
    /// QPs to flush, likewise.
    pub flush: Stream<Flush>,
    /// Of the QP that is asked for: the PSN behind the newest packet that was sent.
    pub next_psn: Sig,
}

/// Places of the pool: for each message that may be under way, and behind the newest of each QP; a power of two.
pub fn places(cfg: &RnicConfig) -> u32 {
    (messages(cfg) + cfg.qps).next_power_of_two()
}

/// Bits of a place's number.
pub fn place_bits(cfg: &RnicConfig) -> u32 {
    clog2(u64::from(places(cfg)))
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Write,
}

/// The recorder. `freed`: places that `track` has taken off a list; `over`: QPs that have taken windows back, and nothing by these is
/// under way any more; `query`: of which QP `next_psn` tells.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn record(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    init: Stream<SqStart>,
    sent: Stream<Sent>,
    flush: Stream<Flush>,
    freed: Freed,
    over: Stream<Sig>,
    query: Sig,
) -> Recorded {
    let (qp_bits, place_bits) = (cfg.qp_bits(), place_bits(cfg));
    let state = m.fsm("state", State::Sweep);
    let (sweeping, idle, writing) = (state.is(State::Sweep), state.is(State::Idle), state.is(State::Write));

    // Free places.
    let fresh = m.reg("fresh", place_bits + 1).reset(cfg.qps);
    let back = Stream::new(m, "back", freed.valid, freed.place);
    m.assert(!back.valid | back.ready, "every place of the pool can come back");
    let back = deep_fifo(&m.label("free"), places(cfg), back);
    let all_used = fresh.eq(places(cfg));
    let free = m.mux(all_used, &back.payload, &fresh.trunc(place_bits));

    let state_write = &broadcast.state;
    // In which states what was sent counts is known before it is written.
    let lives = [QpState::Rts, QpState::Sqd, QpState::Err].map(|s| state_write.entry.eq(s.code()));
    let lives = lives[0] | lives[1] | lives[2];
    let life = TableWrite { enable: state_write.enable, index: state_write.index, entry: lives };
    let living = m.mem("living", cfg.qps, &bits(1)).style(Style::Block).build();
    living.write(life.enable, life.index, &life.entry);

    let resets = resets(m, cfg, &broadcast);

    // What was sent goes first: a reset, a start and a flush go on to `track` only behind it.
    let is_sent = idle & sent.valid;
    let clear = idle & !sent.valid;
    let resetting = Stream::new(m, "reset_on", clear & resets.valid, resets.payload);
    resets.accept(resetting.fire());
    let clear = clear & !resets.valid;
    let starting = Stream::new(m, "start", clear & init.valid, init.payload.clone());
    let is_init = starting.fire();
    let flush_on = Stream::new(m, "flush_on", clear & !init.valid & flush.valid, flush.payload.clone());
    sent.accept(is_sent);
    init.accept(is_init);
    flush.accept(flush_on.fire());
    let qp = m.reg("qp", qp_bits).reset(0);
    let by_sent = m.reg("by_sent", 1).reset(0);
    let psn = m.reg("psn", 24).no_reset();
    let event = m.reg_of("event", &sent.payload);
    m.discard(&event);
    // What was sent for the first time, ends a message, has no packet; or it could not be sent.
    let fact = |name: &str| m.reg(name, 1).no_reset();
    let (is_new, is_end, is_silent, is_failure) =
        (fact("is_new"), fact("is_end"), fact("is_silent"), fact("is_failure"));
    let chosen = m.mux(is_init, &init.qp, &sent.qp);
    m.when(is_init | is_sent, |m| {
        m.set(&qp, chosen);
        m.set(&by_sent, is_sent);
        m.set(&psn, m.mux(is_init, &init.psn, &sent.psn));
        m.set_all(&event, &sent.payload);
        let failure = sent.status.ne(0);
        m.set(&is_failure, is_sent & failure);
        m.set(&is_new, is_sent & sent.fresh & !failure);
        m.set(&is_end, is_sent & sent.fresh & sent.last & !failure);
        m.set(&is_silent, is_local(cfg, sent.wqe_opcode));
        m.set(&state, State::Write);
    });
    let rows = m.mem("rows", cfg.qps, &Front::of(cfg)).style(Style::Block).build();
    let writes = writing | sweeping;
    let next = m.wire_of("next", &Front::of(cfg));
    rows.write(writes, qp, &next);
    let row = rows.read(m, is_init | is_sent, chosen, Collision::Never);
    // A read copy for queries, which wait for nobody.
    let psns = m.mem("psns", cfg.qps, &bits(24)).style(Style::Block).build();
    psns.write(writes, qp, &next.next_psn);
    let next_psn = psns.read(m, lit(1, 1), query, Collision::Old);

    // What becomes of the list.
    let lives = row_of(m, "lives", (is_init | is_sent, chosen, qp), &living, &life);
    let new = lives & is_new;
    let ends = lives & is_end;
    // The older failure of two comes first.
    let older = (event.index - row.failed_index).bit(15);
    let fails = lives & is_failure & (!row.failed | older);
    let pushes = writing & ends;
    m.assert(!pushes | !all_used | back.valid, "a message is sent only where its place is known to be free");
    back.accept(pushes & all_used);
    m.when(pushes & !all_used, |m| m.set(&fresh, fresh + 1));
    m.when(writing, |m| m.set(&state, State::Idle));
    m.set_all(&next, &row);
    m.when(ends, |m| m.set(&next.tail, free));
    m.when(new, |m| m.set(&next.next_psn, psn + 1));
    m.when(fails, |m| {
        m.set(&next.failed, 1);
        m.set(&next.failed_index, event.index);
        m.set(&next.status, event.status);
        m.set(&next.cause, event.cause);
    });
    m.when(!by_sent, |m| {
        m.set(&next.next_psn, psn);
        m.set(&next.failed, 0);
    });
    m.when(sweeping, |m| {
        m.set_all(&next, &Front::of(cfg).zeros());
        m.set(&next.tail, qp.zext(place_bits));
        m.set(&qp, qp + 1);
        m.when(qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    });
    let known = (event.wqe_opcode >> SEND_OPCODE_BITS).eq(0);
    m.assert(!pushes | known, "a message that was sent has a known opcode");
    let message = Message {
        last_psn: psn,
        signaled: event.signaled,
        opcode: event.wqe_opcode.trunc(SEND_OPCODE_BITS),
        length: event.length,
        answered: event.answered,
        sge: event.sge.clone(),
        withdraws: event.withdraws,
    };
    // A message without an acknowledgement is done with its record. After a bind, and after a message that failed, `track` looks whether all
    // before it is done. A QP waits once for either, however many its messages.
    let given = &broadcast.attributes;
    let alone = given.entry.service.ne(Service::Rc.code());
    let alones = m.mem("alone", cfg.qps, &bits(1)).style(Style::Block).build();
    alones.write(given.enable, given.index, &alone);
    let is_alone = alones.read(m, is_sent, sent.qp, Collision::Old);
    let flags = cat(&[pushes & is_alone, (pushes & is_silent) | (writing & fails)]);
    let unasked = Stream::new(m, "unasked", flags.any(), Flagged { row: qp, flags });
    m.assert(
        !unasked.valid | unasked.ready,
        "each QP has a place, and all are cleared while the tails are set",
    );
    let unasked = half(&m.label("unasked"), unasked);
    let unasked = gather(&m.label("unasked"), cfg.qps, unasked, Forget::nothing(cfg.qps));
    let mut ways = fork(m, 2, unasked).into_iter();
    let mut way = |flag: u32| {
        let way = ways.next().expect("a way for each flag");
        let not = !way.flags.bit(flag);
        way.discard_if(m, not).map(|unasked| unasked.row)
    };
    let (own, silent) = (half(&m.label("own"), way(0)), way(1));
    let failed = half(&m.label("failed"), arbiter(m, &|_: &Sig| lit(1, 1), vec![silent, over]));
    let credit = writing & !lives & is_end;
    Recorded {
        pool: TableWrite { enable: pushes, index: row.tail, entry: message },
        links: TableWrite { enable: pushes, index: row.tail, entry: free },
        front: TableWrite { enable: writes, index: qp, entry: next },
        failed,
        credit,
        own,
        reset: resetting,
        init: starting,
        flush: flush_on,
        next_psn,
    }
}
