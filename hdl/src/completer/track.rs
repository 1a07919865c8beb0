// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages end.
//!
//! ```text
//!  answer --+            +---------------------+         +----------+--> completion --> CQ
//!  failed --+--> event ->| row of the QP       |-------->| pool of  |--> fault: QP to error
//!  flush ---+            | head, oldest ..     |  lists  | messages |--> kick: room again
//!  init ----+            +---------------------+         +----------+--> freed: back to record
//!  reset ---+
//! ```
//!
//! An acknowledgement costs 3 cycles, whether it completes a message or a part of one, and one more for each further
//! message that it completes along; a ghost costs 3.
//!
//! An acknowledgement of PSN p acknowledges everything up to p; a NAK of p everything before p. One whose PSN is not
//! between the oldest unacknowledged and the newest sent is a ghost and is dropped (IBTA volume 1, 9.7.5.1.1). NAK
//! codes 1 to 3 complete the message with the cause, the QP goes to the error state, and everything behind is flushed
//! in order, up to the producer's index that the scheduler hands over. A sequence NAK or an RNR NAK ends likewise, as
//! exhausted retries: there is no resending yet. A WQE that failed before it was sent ends with its cause once it is the
//! oldest. Answers count only in RTS and SQD, flushes only in the error state: what comes late for a QP that was taken
//! down completes nothing (10.3.1).
//!
//! A QP that goes to RESET, or starts, gives back the places that it left behind; `oldest` tells of the start in the
//! second cycle, before the QP may send. Faults have a place for each QP, so that a start never waits for them.
//!
//! Reset: the heads are set one QP a cycle, QP `q` to place `q`, as in `record`.

use crate::completer::record::{place_bits, places, Freed, Front, Message};
use crate::config::RnicConfig;
use crate::requester::Flush;
use crate::stream::{deep_fifo, fifo};
use crate::types::{Completion, Headers, QpBroadcast, QpInit, TableWrite};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::wire::opcode::Opcode;

/// What comes out.
#[derive(Interface)]
pub struct Tracked {
    /// Completions, in order for each QP.
    pub completions: Stream<Completion>,
    /// QPs that go to the error state.
    pub faults: Stream<Sig>,
    /// QPs that may have room for more messages.
    pub kicks: Stream<Sig>,
    /// The oldest WQE index of a QP has moved.
    pub oldest: TableWrite<Sig>,
    /// A message's place in the pool is free again.
    pub freed: Freed,
    /// An answer was dropped: ghost, wrong source, or a QP that expects none.
    pub dropped: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Row,
    Pop,
    Fail,
    Fault,
    Free,
    Flush,
}

#[derive(Clone, Bundle)]
struct Row {
    head: Sig,
    oldest_psn: Sig,
    oldest_index: Sig,
    dead: Sig,
}

#[derive(Clone, Bundle)]
struct Copy {
    cq: Sig,
    peer_ipv6: Sig,
    peer_ip: Sig,
    pkey: Sig,
}

/// What happens to QPs.
#[derive(Interface)]
pub struct Events {
    /// One goes to RESET.
    pub reset: Stream<Sig>,
    /// One starts.
    pub init: Stream<QpInit>,
    /// Its peer answers.
    pub answer: Stream<Headers>,
    /// A WQE of it has failed here.
    pub failed: Stream<Sig>,
    /// It is in the error state.
    pub flush: Stream<Flush>,
}

/// What `record` writes.
#[derive(Clone, Bundle)]
pub struct Written {
    /// Messages.
    pub pool: TableWrite<Message>,
    /// Which place follows which.
    pub links: TableWrite<Sig>,
    /// The newest end of each QP's list.
    pub front: TableWrite<Front>,
}

impl Written {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let place = bits(place_bits(cfg));
        let (enable, qp) = (bits(1), bits(cfg.qp_bits()));
        Written {
            pool: TableWrite { enable, index: place, entry: Message::of() },
            links: TableWrite { enable, index: place, entry: place },
            front: TableWrite { enable, index: qp, entry: Front::of(cfg) },
        }
    }
}

/// The completer.
#[module]
pub fn track(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    written: Written,
    events: Events,
) -> Tracked {
    let Events { reset, init, answer: answers, failed, flush } = events;
    let (qp_bits, place_bits) = (cfg.qp_bits(), place_bits(cfg));
    let state = m.fsm("state", State::Sweep);
    let sweeping = state.is(State::Sweep);

    // One event at a time: resets and starts first, which `record` never offers together, then answers and the others in
    // turn.
    let idle = state.is(State::Idle);
    let known = answers.dest_qpn.lt(cfg.qps) & answers.opcode.eq(Opcode::RcAcknowledge.code());
    let kick_room = m.wire("kick_room", 1);
    let others_turn = m.reg("others_turn", 1).reset(0);
    let others = failed.valid | flush.valid;
    let free_to = idle & !reset.valid & !init.valid & kick_room;
    let is_reset = idle & reset.valid;
    let is_init = idle & init.valid;
    let is_answer = free_to & answers.valid & !(others_turn & others);
    let is_failed = free_to & failed.valid & (others_turn | !answers.valid);
    let is_flush = free_to & flush.valid & !failed.valid & (others_turn | !answers.valid);
    m.when(is_answer, |m| m.set(&others_turn, 1))
        .otherwise_when(is_failed | is_flush, |m| m.set(&others_turn, 0));
    reset.accept(idle);
    init.accept(idle);
    answers.accept(is_answer);
    failed.accept(is_failed);
    flush.accept(is_flush);
    m.discard(&answers.payload);
    let starts = is_reset | is_init | is_failed | (is_answer & known) | is_flush;
    let mut chosen = flush.qp;
    chosen = m.mux(is_answer, &answers.dest_qpn.trunc(qp_bits), &chosen);
    chosen = m.mux(is_failed, &failed.payload, &chosen);
    chosen = m.mux(is_init, &init.qp, &chosen);
    chosen = m.mux(is_reset, &reset.payload, &chosen);
    let qp = m.reg("qp", qp_bits).reset(0);
    let [by_reset, by_init, by_answer, by_flush] =
        ["by_reset", "by_init", "by_answer", "by_flush"].map(|name| m.reg(name, 1).reset(0));
    let psn = m.reg("psn", 24).no_reset();
    let source_ipv6 = m.reg("source_ipv6", 1).no_reset();
    let source_ip = m.reg("source_ip", 128).no_reset();
    let pkey = m.reg("pkey", 16).no_reset();
    let syndrome = m.reg("syndrome", 8).no_reset();
    let until = m.reg("until", 16).no_reset();
    m.when(starts, |m| {
        m.set(&qp, chosen);
        m.set(&by_reset, is_reset);
        m.set(&by_init, is_init);
        m.set(&by_answer, is_answer);
        m.set(&by_flush, is_flush);
        m.set(&psn, m.mux(is_init, &init.psn, &answers.psn));
        m.set(&source_ipv6, answers.ipv6);
        m.set(&source_ip, answers.src_ip);
        m.set(&pkey, answers.pkey);
        m.set(&syndrome, answers.syndrome);
        m.set(&until, flush.producer);
        m.set(&state, State::Row);
    });

    // The tables.
    let row_shape =
        Row { head: bits(place_bits), oldest_psn: bits(24), oldest_index: bits(16), dead: bits(1) };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &row_shape);
    rows.write(row_write, qp, &next);
    let stored = rows.read(m, starts, chosen, Collision::Never);
    let given = &broadcast.attributes;
    let copy = Copy { cq: bits(cfg.cq_bits()), peer_ipv6: bits(1), peer_ip: bits(128), pkey: bits(16) };
    let copies = m.mem("copies", cfg.qps, &copy).style(Style::Block).build();
    let copy = Copy {
        cq: given.entry.send_cq,
        peer_ipv6: given.entry.peer_ipv6,
        peer_ip: given.entry.peer_ip,
        pkey: given.entry.pkey,
    };
    copies.write(given.enable, given.index, &copy);
    let copy = copies.read(m, starts, chosen, Collision::New);
    let fronts = m.mem("fronts", cfg.qps, &Front::of(cfg)).style(Style::Block).build();
    fronts.write(written.front.enable, written.front.index, &written.front.entry);
    let front = fronts.read(m, starts, chosen, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let qp_state = states.read_now(qp);

    // In the row's cycle the row comes from the table, afterwards from here.
    let at_row = state.is(State::Row);
    let held = m.reg_of("held", &row_shape);
    let row = m.mux(at_row, &stored, &held);
    let none = row.head.eq(front.tail);

    // The pool. A place is read only once a message has been written there: never at the tail.
    let pool = m.mem("pool", places(cfg), &Message::of()).style(Style::Block).build();
    pool.write(written.pool.enable, written.pool.index, &written.pool.entry);
    let links = m.mem("links", places(cfg), &bits(place_bits)).style(Style::Distributed).build();
    links.write(written.links.enable, written.links.index, &written.links.entry);
    let following = links.read_now(row.head);
    let pops = m.wire("pops", 1);
    let first_look = at_row & !none;
    let next_look = pops & following.ne(front.tail);
    let look_at = m.mux(at_row, &row.head, &following);
    let oldest = pool.read(m, first_look | next_look, look_at, Collision::Never);

    // An answer: is it for something sent, and what does it acknowledge?
    let kind = syndrome.slice(5, 3);
    let code = syndrome.trunc(5);
    let is_ack = kind.eq(0);
    // Fewer than 2^23 PSNs are under way: a sign tells which side of a PSN another lies on.
    let before_oldest = (psn - stored.oldest_psn).bit(23);
    let before_next = (psn - front.next_psn).bit(23);
    let ghost = before_oldest | !before_next;
    let foreign = source_ipv6.ne(copy.peer_ipv6) | source_ip.ne(copy.peer_ip);
    let same_key = pkey.trunc(15).eq(copy.pkey.trunc(15)) & (pkey.bit(15) | copy.pkey.bit(15));
    let waits = qp_state.eq(QpState::Rts.code()) | qp_state.eq(QpState::Sqd.code());
    let in_error = qp_state.eq(QpState::Err.code());
    let ignored = m.reg("ignored", 1).no_reset();
    let ignores =
        stored.dead | !waits | (by_answer & (ghost | foreign | !same_key | kind.eq(2) | kind.ge(4)));

    // Up to here: an acknowledged PSN, the one before a NAK's own.
    let upto = m.delay("upto", &m.mux(is_ack, &psn, &(psn - 1)));
    let resume = m.delay("resume", &m.mux(is_ack, &(psn + 1), &psn));
    let at_pop = state.is(State::Pop);
    let local = oldest.status.ne(0);
    let acked = at_pop & by_answer & !ignored & !none & !local & !(upto - oldest.last_psn).bit(23);
    let wants_cqe = oldest.signaled;
    let completion_room = m.wire("completion_room", 1);
    m.set(&pops, acked & (!wants_cqe | completion_room));
    // Mostly the answer is for the oldest message, and nothing is left to be looked at.
    let exact = pops & is_ack & oldest.last_psn.eq(psn) & !front.failed;
    let settled = at_pop & !acked;
    let local_fails = settled & !ignored & !none & local;
    let remote_fails = settled & !ignored & !local_fails & by_answer & !is_ack;
    let moved = m.reg("moved", 1).reset(0);
    let kick_bits = clog2(u64::from(cfg.outstanding_per_qp)) - 2;
    m.when(at_row, |m| {
        m.set(&moved, 0);
        m.set(&ignored, ignores);
    });
    let boundary = match kick_bits {
        0 => lit(1, 1),
        n => row.oldest_index.trunc(n).all(),
    };
    m.when(pops & boundary, |m| m.set(&moved, 1));

    // Flushing: forget what is remembered, then one completion for each WQE.
    let at_free = state.is(State::Free);
    let frees = at_free & !none;
    let at_flush = state.is(State::Flush);
    let flush_more = row.oldest_index.ne(until);
    let flushes = at_flush & flush_more & completion_room;

    // A failure: the oldest WQE ends with its cause.
    let at_fail = state.is(State::Fail);
    let by_local = m.reg("by_local", 1).reset(0);
    let fail_status = m.wire("fail_status", 8);
    m.set(&fail_status, WcStatus::RetryExcErr.code());
    m.when(by_local, |m| m.set(&fail_status, oldest.status))
        .otherwise_when(kind.eq(1), |m| m.set(&fail_status, WcStatus::RnrRetryExcErr.code()))
        .otherwise_when(code.eq(1), |m| m.set(&fail_status, WcStatus::RemInvReqErr.code()))
        .otherwise_when(code.eq(2), |m| m.set(&fail_status, WcStatus::RemAccessErr.code()))
        .otherwise_when(code.eq(3), |m| m.set(&fail_status, WcStatus::RemOpErr.code()));
    let fail_cause = m.mux(by_local, &oldest.cause, &syndrome);
    let fails = at_fail & completion_room;

    let completes = (acked & wants_cqe) | at_fail | (at_flush & flush_more);
    let status = m.mux(at_flush, &lit(8, WcStatus::WrFlushErr.code()), &fail_status);
    let cause = m.mux(at_flush, &lit(8, LocalCause::None.code()), &fail_cause);
    let completion = Completion {
        cq: copy.cq,
        qpn: qp.zext(24),
        // Only status, QP and WQE count in an error completion (IBTA volume 1, 11.4.2.1).
        opcode: m.mux(acked, &oldest.opcode, &lit(8, 0)),
        byte_len: m.mux(acked, &oldest.length, &lit(32, 0)),
        wqe_index: row.oldest_index,
        status: m.mux(acked, &lit(8, 0), &status),
        syndrome: m.mux(acked, &lit(8, 0), &cause),
    };
    let completions = Stream::new(m, "completions", completes, completion);
    m.drive(&completion_room, completions.ready);
    let fault = Stream::new(m, "fault", state.is(State::Fault), qp);
    let faulted = fault.fire();
    // The QP context takes no fault while a start waits: a QP has at most one, and all have their place.
    let faults = deep_fifo(&m.label("faults"), cfg.qps, fault);
    let ends_answer = exact | (settled & !local_fails & !remote_fails);
    let kick = Stream::new(m, "kick", ends_answer & (moved | (exact & boundary)), qp);
    m.drive(&kick_room, kick.ready);
    let kicks = fifo(&m.label("kick"), 4, kick);

    // What becomes of the row.
    m.set_all(&next, &row);
    m.when(pops | frees, |m| m.set(&next.head, following));
    m.when(pops | fails | flushes, |m| m.set(&next.oldest_index, row.oldest_index + 1));
    m.when((settled & by_answer & !ignored) | exact, |m| m.set(&next.oldest_psn, resume));
    let ends_free = none & (at_row | at_free);
    let restarts = by_init & ends_free;
    let resets = by_reset & ends_free;
    m.when(fails | (at_row & by_flush & in_error) | resets, |m| m.set(&next.dead, 1));
    m.when(restarts, |m| {
        m.set(&next.oldest_psn, psn);
        m.set(&next.oldest_index, 0);
        m.set(&next.dead, 0);
    });
    m.when(sweeping, |m| {
        m.set_all(&next, &row_shape.zeros());
        m.set(&next.head, qp.zext(place_bits));
        m.set(&qp, qp + 1);
    });
    m.set_all(&held, &next);
    let ends_flush = at_flush & !flush_more;
    m.drive(&row_write, ends_answer | fails | ends_flush | restarts | resets | sweeping);

    // From one state to the next.
    m.when(sweeping & qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    m.when(at_row, |m| {
        m.set(&state, State::Pop);
        m.when(by_init | by_reset | (by_flush & in_error), |m| m.set(&state, State::Free));
        m.when(restarts | resets | (by_flush & !in_error), |m| m.set(&state, State::Idle));
    });
    m.when(ends_answer, |m| m.set(&state, State::Idle));
    m.when(local_fails | remote_fails, |m| {
        m.set(&state, State::Fail);
        m.set(&by_local, local_fails);
    });
    m.when(fails, |m| m.set(&state, State::Fault));
    m.when(faulted | ends_flush, |m| m.set(&state, State::Idle));
    m.when(at_free & none, |m| {
        m.set(&state, State::Flush);
        m.when(by_init | by_reset, |m| m.set(&state, State::Idle));
    });

    let oldest_write = TableWrite {
        enable: row_write | (at_row & by_init),
        index: qp,
        entry: m.mux(by_init, &lit(16, 0), &next.oldest_index),
    };
    let dropped = (is_answer & !known) | (settled & by_answer & ignored);
    let freed = Freed { valid: pops | frees, place: row.head };
    Tracked { completions, faults, kicks, oldest: oldest_write, freed, dropped }
}
