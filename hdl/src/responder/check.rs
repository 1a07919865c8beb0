// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a request packet is: the next one in its sequence, a duplicate, a gap, or invalid.
//!
//! ```text
//!  headers --> row of the QP --> PSN, sequence, length --> class --+--> pending, in order --> admit
//!                 ^                                          |     +--> lookups --> translate
//!                 +---------------- new row <----------------+
//! ```
//!
//! The order of the checks is the specification's (IBTA volume 1, 9.7.4 and 9.9.2), and the first that fails
//! decides: QP state, service and partition key, source address (dropped); PSN (duplicate or gap); opcode sequence
//! and whether this responder takes the opcode; length (NAK 0x61); key, domain, access and bounds (NAK 0x62).
//!
//! The last of these takes a walk through the tables, which `admit` waits for. Here the row is written as if it went
//! well: where it does not, the QP is at its end, and `admit` lets nothing of it pass any more. So a packet holds this
//! block for 3 cycles, 4 where it goes on to a second page, and the next one, of the same QP or of another, begins only
//! then: there is nothing to forward.
//!
//! Reset: idle. Rows are written when a QP starts, once no packet is on its way to `admit`.

use crate::config::RnicConfig;
use crate::memory::Lookup;
use crate::responder::admit::{Class, Pending};
use crate::stream::fifo;
use crate::types::{Headers, QpBroadcast, QpInit, TableWrite};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::wire::opcode::Opcode;

/// What comes out.
#[derive(Interface)]
pub struct Checked {
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// What each packet is, in order.
    pub pending: Stream<Pending>,
    /// The QP whose responder starts in this cycle.
    pub started: TableWrite<Sig>,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    Row,
    Ask,
}

#[derive(Clone, Bundle)]
struct Row {
    psn: Sig,
    msn: Sig,
    inside: Sig,
    nak_sent: Sig,
    va: Sig,
    rkey: Sig,
    remaining: Sig,
}

#[derive(Clone, Bundle)]
struct Copy {
    service: Sig,
    pd: Sig,
    mtu: Sig,
    access: Sig,
    peer_ipv6: Sig,
    peer_ip: Sig,
    pkey: Sig,
}

const REMOTE_WRITE: u32 = 1 << 1;

/// Packets between here and `admit`, and so lookups under way.
const DEPTH: u32 = 8;

/// The responder's checks.
#[module]
pub fn check(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    init: Stream<QpInit>,
    requests: Stream<Headers>,
) -> Checked {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    m.discard(&requests.payload);
    let quiet = m.wire("quiet", 1);
    init.accept(idle & quiet);
    let begins = idle & !init.valid & requests.valid;
    let begin_qp = requests.dest_qpn.trunc(qp_bits).named("begin_qp");

    // The request stays here for the cycles that follow, with what can be said of it before its row is known.
    let request = m.reg_of("request", &requests.payload);
    m.discard(&request);
    let fact = |m: &Scope, name: &str, value: Sig| {
        let reg = m.reg(name, 1).no_reset();
        m.when(begins, |m| m.set(&reg, value));
        reg
    };
    let is = |o: Opcode| requests.opcode.eq(o.code());
    let (is_first, is_middle) = (is(Opcode::RcWriteFirst), is(Opcode::RcWriteMiddle));
    let (is_last, is_only) = (is(Opcode::RcWriteLast), is(Opcode::RcWriteOnly));
    let exists = requests.dest_qpn.lt(cfg.qps) & requests.opcode.slice(5, 3).eq(0);
    let exists = fact(m, "exists", exists);
    let starts = fact(m, "starts", is_first | is_only);
    let goes_on = fact(m, "goes_on", is_first | is_middle);
    let only = fact(m, "only", is_only);
    let known = fact(m, "known", is_first | is_middle | is_last | is_only);
    let has_bytes = fact(m, "has_bytes", requests.payload_bytes.ne(0));
    let whole_words = fact(m, "whole_words", requests.pad.eq(0));
    m.when(begins, |m| {
        m.set_all(&request, &requests.payload);
        m.set(&state, State::Row);
    });
    requests.accept(begins);
    let qp = request.dest_qpn.trunc(qp_bits).named("qp");

    // The row, and read copies of the attributes.
    let row_shape = Row {
        psn: bits(24),
        msn: bits(24),
        inside: bits(1),
        nak_sent: bits(1),
        va: bits(64),
        rkey: bits(32),
        remaining: bits(32),
    };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &row_shape);
    rows.write(row_write, m.mux(init.fire(), &init.qp, &qp), &next);
    let row = rows.read(m, begins, begin_qp, Collision::Never);
    let given = &broadcast.attributes;
    let copy_of = |a: &crate::types::QpAttributes| Copy {
        service: a.service,
        pd: a.pd,
        mtu: a.mtu,
        access: a.access,
        peer_ipv6: a.peer_ipv6,
        peer_ip: a.peer_ip,
        pkey: a.pkey,
    };
    let copies =
        m.mem("copies", cfg.qps, &copy_of(&crate::types::QpAttributes::of(cfg))).style(Style::Block).build();
    copies.write(given.enable, given.index, &copy_of(&given.entry));
    let copy = copies.read(m, begins, begin_qp, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let qp_state = states.read_now(qp);

    // The row's cycle: all that needs no lookup.
    let at_row = state.is(State::Row);
    let takes = qp_state.eq(QpState::Rtr.code())
        | qp_state.eq(QpState::Rts.code())
        | qp_state.eq(QpState::Sqd.code());
    let served = exists & takes & copy.service.eq(0);
    let same_key = request.pkey.trunc(15).eq(copy.pkey.trunc(15));
    let full_member = request.pkey.bit(15) | copy.pkey.bit(15);
    let right_key = same_key & full_member;
    let right_source = request.ipv6.eq(copy.peer_ipv6) & request.src_ip.eq(copy.peer_ip);

    let distance = (request.psn - row.psn).named("distance");
    let expected = distance.eq(0);
    let duplicate = distance.bit(23);

    let in_order = known & starts.ne(row.inside);
    let bytes = request.payload_bytes;
    let mtu = lit(13, 128).shl_by(copy.mtu).named("mtu");
    let total = m.mux(starts, &request.dma_length, &row.remaining).named("total");
    let full = bytes.eq(mtu) & whole_words & total.gt(mtu.zext(32));
    let rest = bytes.zext(32).eq(total) & bytes.le(mtu) & (only | has_bytes);
    let right_length = m.mux(goes_on, &full, &rest) & total.le(1u32 << 31);
    // A function that the QP does not offer its peer is an invalid request (IBTA volume 1, 9.9.3).
    let valid_request = in_order & copy.access.bit(1) & right_length;
    let va = m.mux(starts, &request.va, &row.va).named("va");
    let rkey = m.mux(starts, &request.rkey, &row.rkey).named("rkey");

    // What it is, and what goes on from it.
    let class = m.wire("class", 4);
    m.set(&class, Class::Execute.code());
    m.when(!served, |m| m.set(&class, Class::NoQp.code()))
        .otherwise_when(!right_key, |m| m.set(&class, Class::Pkey.code()))
        .otherwise_when(!right_source, |m| m.set(&class, Class::Source.code()))
        .otherwise_when(duplicate, |m| m.set(&class, Class::Duplicate.code()))
        .otherwise_when(!expected & row.nak_sent, |m| m.set(&class, Class::Gap.code()))
        .otherwise_when(!expected, |m| m.set(&class, Class::FirstGap.code()))
        .otherwise_when(!valid_request, |m| m.set(&class, Class::Invalid.code()));
    let keep = |m: &Scope, name: &str, value: Sig| {
        let reg = m.reg(name, value.width()).no_reset();
        m.when(at_row, |m| m.set(&reg, value));
        reg
    };
    let class = keep(m, "d_class", class);
    let va = keep(m, "d_va", va);
    let rkey = keep(m, "d_rkey", rkey);
    let total = keep(m, "d_total", total);
    let ends = !goes_on;
    let asked = m.reg("asked", 1).reset(0);
    m.when(at_row, |m| {
        m.set(&state, State::Ask);
        m.set(&asked, 0);
    });

    // Lookups: the whole rest of the message from here, then the second page if the packet goes on to one.
    let at_ask = state.is(State::Ask);
    let is_class = |c: Class| class.eq(c.code());
    let executes = is_class(Class::Execute);
    let asks = executes & has_bytes;
    let to_page_end = lit(13, 4096) - va.trunc(12).zext(13);
    let crosses = asks & bytes.gt(to_page_end);
    let next_page = va.slice(12, 52) + 1;
    let room = m.wire("room", 1);
    let question = Lookup {
        key: rkey,
        pd: copy.pd,
        access: lit(8, REMOTE_WRITE),
        va: m.mux(asked, &ferrowire_rtl::cat(&[lit(12, 0), next_page]), &va),
        length: m.mux(asked, &(bytes - to_page_end).zext(32), &total),
    };
    let lookup = Stream::new(m, "lookup", at_ask & asks & room, question);
    let done = at_ask & room & m.mux(asks, &(lookup.ready & (asked | !crosses)), &lit(1, 1));
    m.when(lookup.fire(), |m| m.set(&asked, 1));
    let lookups = m.mux(asks, &m.mux(crosses, &lit(2, 2), &lit(2, 1)), &lit(2, 0));
    let pending = Pending {
        class,
        lookups,
        offset: request.payload_offset,
        bytes,
        ack_req: request.ack_req,
        qp,
        // A duplicate is acknowledged with the newest PSN that was executed (IBTA volume 1, 9.7.5.1.4).
        psn: m.mux(is_class(Class::Duplicate), &(row.psn - 1), &row.psn),
        msn: row.msn,
        ends,
    };
    let entering = Stream::new(m, "entering", done, pending);
    m.drive(&room, entering.ready);
    let pending = fifo(&m.label("pending"), DEPTH, entering);
    m.drive(&quiet, !pending.valid);
    m.when(done, |m| m.set(&state, State::Idle));

    // The new row.
    m.drive(&row_write, init.fire() | (done & (executes | is_class(Class::FirstGap))));
    m.set_all(&next, &row);
    m.when(executes, |m| {
        m.set(&next.psn, row.psn + 1);
        m.set(&next.msn, row.msn + ends.zext(24));
        m.set(&next.inside, !ends);
        m.set(&next.nak_sent, 0);
        m.set(&next.va, va + bytes.zext(64));
        m.set(&next.rkey, rkey);
        m.set(&next.remaining, total - bytes.zext(32));
    })
    .otherwise(|m| m.set(&next.nak_sent, 1));
    m.when(init.fire(), |m| {
        m.set_all(&next, &row_shape.zeros());
        m.set(&next.psn, init.psn);
    });
    let started = TableWrite { enable: init.fire(), index: init.qp, entry: lit(1, 0) };
    Checked { lookup, pending, started }
}
