// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages under way and their end.
//!
//! ```text
//!  sent ----+            +-----------------------+         +------------------+--> completion --> CQ
//!  answer --+--> event ->| row of the QP         |-------->| pool of messages |--> fault: QP to error
//!  flush ---+            | head, tail, oldest .. |  lists  | in linked lists  |--> kick: room again
//!  init ----+            +-----------------------+         +------------------+
//! ```
//!
//! Each QP's messages stand in a linked list in one pool, oldest first. An event costs 2 cycles; each message that an
//! acknowledgement completes costs one more, and the acknowledgement itself another. What was sent goes before
//! answers: the answer to a packet cannot be looked at before the packet is known here.
//!
//! An acknowledgement of PSN p acknowledges everything up to p; a NAK of p everything before p. One whose PSN is not
//! between the oldest unacknowledged and the newest sent is a ghost and is dropped (IBTA volume 1, 9.7.5.1.1). NAK
//! codes 1 to 3 complete the message with the cause, the QP goes to the error state, and everything behind is flushed
//! in order, up to the producer's index that the scheduler hands over. A sequence NAK or an RNR NAK ends likewise, as
//! exhausted retries: there is no resending yet.
//!
//! Reset: the pool is empty; rows are written when a QP starts, and messages that it left behind are forgotten then.

use crate::config::RnicConfig;
use crate::requester::{Flush, Sent};
use crate::types::{Completion, Headers, QpBroadcast, QpInit, TableWrite};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
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
    pub freed: Sig,
    /// An answer was dropped: ghost, wrong source, or a QP that expects none.
    pub dropped: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    Row,
    Pop,
    Fail,
    Fault,
    Free,
    Flush,
    Kick,
}

#[derive(Clone, Bundle)]
struct Row {
    head: Sig,
    tail: Sig,
    count: Sig,
    oldest_psn: Sig,
    next_psn: Sig,
    oldest_index: Sig,
    dead: Sig,
}

#[derive(Clone, Bundle)]
struct Message {
    last_psn: Sig,
    index: Sig,
    signaled: Sig,
    opcode: Sig,
    length: Sig,
    status: Sig,
    cause: Sig,
}

#[derive(Clone, Bundle)]
struct Failure {
    status: Sig,
    cause: Sig,
}

#[derive(Clone, Bundle)]
struct Copy {
    cq: Sig,
    peer_ipv6: Sig,
    peer_ip: Sig,
}

/// The completer.
#[module]
pub fn track(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    init: Stream<QpInit>,
    sent: Stream<Sent>,
    answers: Stream<Headers>,
    flush: Stream<Flush>,
) -> Tracked {
    let (qp_bits, at_bits) = (cfg.qp_bits(), clog2(u64::from(cfg.outstanding)));
    let state = m.fsm("state", State::Idle);

    // One event at a time, in this order.
    let idle = state.is(State::Idle);
    let known = answers.dest_qpn.lt(cfg.qps) & answers.opcode.eq(Opcode::RcAcknowledge.code());
    let is_init = idle & init.valid;
    let is_sent = idle & !init.valid & sent.valid;
    let is_answer = idle & !init.valid & !sent.valid & answers.valid;
    let is_flush = idle & !init.valid & !sent.valid & !answers.valid & flush.valid;
    init.accept(is_init);
    sent.accept(is_sent);
    answers.accept(is_answer);
    flush.accept(is_flush);
    m.discard(&answers.payload);
    let starts = is_init | is_sent | (is_answer & known) | is_flush;
    let mut chosen = flush.qp;
    chosen = m.mux(is_answer, &answers.dest_qpn.trunc(qp_bits), &chosen);
    chosen = m.mux(is_sent, &sent.qp, &chosen);
    chosen = m.mux(is_init, &init.qp, &chosen);
    let qp = m.reg("qp", qp_bits).no_reset();
    let [by_init, by_sent, by_answer, by_flush] =
        ["by_init", "by_sent", "by_answer", "by_flush"].map(|name| m.reg(name, 1).reset(0));
    let psn = m.reg("psn", 24).no_reset();
    let event = m.reg_of("event", &sent.payload);
    m.discard(&event);
    let source_ipv6 = m.reg("source_ipv6", 1).no_reset();
    let source_ip = m.reg("source_ip", 128).no_reset();
    let syndrome = m.reg("syndrome", 8).no_reset();
    let until = m.reg("until", 16).no_reset();
    m.when(starts, |m| {
        m.set(&qp, chosen);
        m.set(&by_init, is_init);
        m.set(&by_sent, is_sent);
        m.set(&by_answer, is_answer);
        m.set(&by_flush, is_flush);
        let answered = m.mux(is_sent, &sent.psn, &answers.psn);
        m.set(&psn, m.mux(is_init, &init.psn, &answered));
        m.set_all(&event, &sent.payload);
        m.set(&source_ipv6, answers.ipv6);
        m.set(&source_ip, answers.src_ip);
        m.set(&syndrome, answers.syndrome);
        m.set(&until, flush.producer);
        m.set(&state, State::Row);
    });

    // The tables.
    let row_shape = Row {
        head: bits(at_bits),
        tail: bits(at_bits),
        count: bits(at_bits + 1),
        oldest_psn: bits(24),
        next_psn: bits(24),
        oldest_index: bits(16),
        dead: bits(1),
    };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &row_shape);
    rows.write(row_write, qp, &next);
    let stored = rows.read(m, starts, chosen, Collision::Never);
    let given = &broadcast.attributes;
    let copy = Copy { cq: bits(cfg.cq_bits()), peer_ipv6: bits(1), peer_ip: bits(128) };
    let copies = m.mem("copies", cfg.qps, &copy).style(Style::Block).build();
    let copy =
        Copy { cq: given.entry.send_cq, peer_ipv6: given.entry.peer_ipv6, peer_ip: given.entry.peer_ip };
    copies.write(given.enable, given.index, &copy);
    let copy = copies.read(m, starts, chosen, Collision::New);

    // In the row's cycle the row comes from the table, afterwards from here.
    let at_row = state.is(State::Row);
    let held = m.reg_of("held", &row_shape);
    let row = m.mux(at_row, &stored, &held);

    // Free places: never used ones first, then those that came back.
    let fresh = m.reg("fresh", at_bits + 1).reset(0);
    let give_back = m.wire("give_back", 1);
    let back = Stream::new(m, "back", give_back, row.head);
    m.assert(!back.valid | back.ready, "every place of the pool can come back");
    let back = crate::stream::deep_fifo(&m.label("free"), cfg.outstanding, back);
    let all_used = fresh.eq(cfg.outstanding);
    let free_at = m.mux(all_used, &back.payload, &fresh.trunc(at_bits));
    let remember = at_row & by_sent & !row.dead & event.last;
    m.assert(
        !remember | !all_used | back.valid,
        "a message is sent only where its place is known to be free",
    );
    back.accept(remember & all_used);
    m.when(remember & !all_used, |m| m.set(&fresh, fresh + 1));

    // The pool.
    let message = Message {
        last_psn: psn,
        index: event.index,
        signaled: event.signaled,
        opcode: event.wqe_opcode,
        length: event.length,
        status: event.status,
        cause: event.cause,
    };
    let pool = m.mem("pool", cfg.outstanding, &message).style(Style::Block).build();
    pool.write(remember, free_at, &message);
    let links = m.mem("links", cfg.outstanding, &bits(at_bits)).style(Style::Distributed).build();
    let none = row.count.eq(0);
    links.write(remember & !none, row.tail, &free_at);
    let following = links.read_now(row.head);
    let look = m.wire("look", 1);
    let look_at = m.mux(at_row, &row.head, &following);
    let oldest = pool.read(m, look, look_at, Collision::Never);

    // An answer: is it for something sent, and what does it acknowledge?
    let kind = syndrome.slice(5, 3);
    let code = syndrome.trunc(5);
    let is_ack = kind.eq(0);
    let ahead = (psn - row.oldest_psn).named("ahead");
    let ghost = ahead.ge(row.next_psn - row.oldest_psn);
    let foreign = source_ipv6.ne(copy.peer_ipv6) | source_ip.ne(copy.peer_ip);
    let ignored = row.dead | ghost | foreign | kind.eq(2) | kind.ge(4);

    // Up to here, exclusive: one past an acknowledged PSN, a NAK's own.
    let upto = m.mux(is_ack, &(ahead + 1), &ahead);
    let at_pop = state.is(State::Pop);
    let local = oldest.status.ne(0);
    let acked = at_pop & by_answer & !none & !local & (oldest.last_psn - row.oldest_psn).lt(upto);
    let wants_cqe = oldest.signaled;
    let completion_room = m.wire("completion_room", 1);
    let pops = acked & (!wants_cqe | completion_room);
    let settled = at_pop & !acked;
    let local_fails = settled & !none & local;
    let remote_fails = settled & !local_fails & by_answer & !is_ack;
    let moved = m.reg("moved", 1).reset(0);
    let kick_bits = clog2(u64::from(cfg.outstanding_per_qp)) - 2;
    m.when(at_row, |m| m.set(&moved, 0));
    let boundary = match kick_bits {
        0 => lit(1, 1),
        n => oldest.index.trunc(n).all(),
    };
    m.when(pops & boundary, |m| m.set(&moved, 1));

    // Flushing: forget what is remembered, then one completion for each WQE.
    let at_free = state.is(State::Free);
    let frees = at_free & !none;
    let at_flush = state.is(State::Flush);
    let flush_more = row.oldest_index.ne(until);
    let flushes = at_flush & flush_more & completion_room;
    m.drive(&give_back, pops | frees);
    m.drive(&look, (at_row & by_answer) | pops);

    // A failure: the oldest WQE ends with its cause.
    let at_fail = state.is(State::Fail);
    let fail_status = m.wire("fail_status", 8);
    let fail_cause = m.wire("fail_cause", 8);
    let by_local = m.reg("by_local", 1).reset(0);
    m.set(&fail_status, WcStatus::RetryExcErr.code());
    // Where the list was empty, the failed WQE is the event itself; else it has become the oldest of the list.
    let failed = Failure { status: oldest.status, cause: oldest.cause };
    let failed = m.mux(by_sent, &Failure { status: event.status, cause: event.cause }, &failed);
    m.set(&fail_cause, m.mux(by_local, &failed.cause, &syndrome));
    m.when(by_local, |m| m.set(&fail_status, failed.status))
        .otherwise_when(kind.eq(1), |m| m.set(&fail_status, WcStatus::RnrRetryExcErr.code()))
        .otherwise_when(code.eq(1), |m| m.set(&fail_status, WcStatus::RemInvReqErr.code()))
        .otherwise_when(code.eq(2), |m| m.set(&fail_status, WcStatus::RemAccessErr.code()))
        .otherwise_when(code.eq(3), |m| m.set(&fail_status, WcStatus::RemOpErr.code()));
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
    let at_fault = state.is(State::Fault);
    let faults = Stream::new(m, "faults", at_fault, qp);
    let at_kick = state.is(State::Kick);
    let kicks = Stream::new(m, "kicks", at_kick, qp);

    // What becomes of the row.
    m.set_all(&next, &row);
    m.when(at_row & by_sent & !row.dead, |m| {
        m.when(event.status.eq(0), |m| m.set(&next.next_psn, psn + 1));
        m.when(event.last, |m| {
            m.set(&next.tail, free_at);
            m.set(&next.count, row.count + 1);
            m.when(none, |m| m.set(&next.head, free_at));
        });
    });
    m.when(pops | frees, |m| {
        m.set(&next.head, following);
        m.set(&next.count, row.count - 1);
    });
    // A completed message takes the unsignalled ones before it along: the index is its own.
    m.when(pops | fails | flushes, |m| m.set(&next.oldest_index, row.oldest_index + 1));
    m.when(settled & by_answer, |m| m.set(&next.oldest_psn, row.oldest_psn + upto));
    m.when(fails | (at_row & by_flush), |m| m.set(&next.dead, 1));
    let restarts = by_init & ((at_row & none) | (at_free & none));
    m.when(restarts, |m| {
        m.set(&next.count, 0);
        m.set(&next.oldest_psn, psn);
        m.set(&next.next_psn, psn);
        m.set(&next.oldest_index, 0);
        m.set(&next.dead, 0);
    });
    m.set_all(&held, &next);
    let ends_sent = at_row & by_sent & (row.dead | event.status.eq(0) | !none);
    let ends_flush = at_flush & !flush_more;
    m.drive(&row_write, ends_sent | (settled & !local_fails & !remote_fails) | fails | ends_flush | restarts);

    // From one state to the next.
    m.when(at_row, |m| {
        m.set(&state, State::Idle);
        m.when(by_init & !none, |m| m.set(&state, State::Free));
        m.when(by_flush, |m| m.set(&state, State::Free));
        m.when(by_answer & !ignored, |m| m.set(&state, State::Pop));
        // The first of its list failed before it was sent: nothing has to come before it.
        m.when(by_sent & !ends_sent, |m| m.set(&state, State::Fail));
        m.set(&by_local, by_sent);
    });
    m.when(settled, |m| {
        m.set(&state, State::Idle);
        m.when(moved, |m| m.set(&state, State::Kick));
        m.when(local_fails | remote_fails, |m| m.set(&state, State::Fail));
        m.set(&by_local, local_fails);
    });
    m.when(fails, |m| m.set(&state, State::Fault));
    m.when(faults.fire() | kicks.fire() | ends_flush, |m| m.set(&state, State::Idle));
    m.when(at_free & none, |m| {
        m.set(&state, State::Flush);
        m.when(by_init, |m| m.set(&state, State::Idle));
    });

    let oldest_write = TableWrite { enable: row_write, index: qp, entry: next.oldest_index };
    let ignored_answer = at_row & by_answer & ignored;
    let dropped = (is_answer & !known) | ignored_answer;
    let forgotten = at_row & by_sent & row.dead & event.last;
    Tracked { completions, faults, kicks, oldest: oldest_write, freed: give_back | forgotten, dropped }
}
