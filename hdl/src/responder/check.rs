// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a request packet: executed, acknowledged again, refused, or dropped.
//!
//! ```text
//!  headers --> row of the QP --> PSN, sequence, length --> lookup --> decision --> place (in order)
//!                 ^                                                     |  +-----> fault: QP to error
//!                 +---------------- new row <----------------------------+
//! ```
//!
//! The order of the checks is the specification's (IBTA volume 1, 9.7.4 and 9.9.2), and the first that fails
//! decides: QP state, service and partition key, source address (dropped); PSN (duplicate or gap); opcode sequence
//! and whether this responder takes the opcode; length (NAK 0x61); key, domain, access and bounds (NAK 0x62).
//!
//! A packet holds the block for 3 cycles, one that needs a lookup for 7; the next one begins only then, so that two
//! packets of one QP back to back need no forwarding. All answers leave through `place`, in the order of the
//! requests and behind the data that they confirm. After a NAK that ends the QP, its row is dead at once.
//!
//! Reset: idle. Rows are written when a QP starts.

use crate::config::RnicConfig;
use crate::memory::{Lookup, Translation};
use crate::responder::place::Place;
use crate::types::{Headers, QpBroadcast, QpInit};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::wire::opcode::Opcode;

/// What comes out.
#[derive(Interface)]
pub struct Checked {
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// What to do with each packet, in order.
    pub place: Stream<Place>,
    /// QPs that go to the error state.
    pub faults: Stream<Sig>,
    /// Counted events.
    pub counts: Counts,
}

/// Pulses for the counters.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// Dropped: no such QP, or one whose state takes nothing.
    pub no_qp: Sig,
    /// Dropped: partition key.
    pub pkey: Sig,
    /// Dropped: not from the peer's address.
    pub source: Sig,
    /// Duplicate requests.
    pub duplicate: Sig,
    /// Gaps.
    pub out_of_sequence: Sig,
    /// Requests refused as invalid.
    pub invalid: Sig,
    /// Requests refused for key, domain, access or bounds.
    pub access: Sig,
    /// WRITE packets executed.
    pub writes: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    Row,
    Lookup,
    Decide,
    Fault,
}

#[derive(Clone, Bundle)]
struct Row {
    psn: Sig,
    msn: Sig,
    inside: Sig,
    nak_sent: Sig,
    dead: Sig,
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
/// Syndromes: ACK without credit count, NAKs.
const ACK: u32 = 0x1f;
const NAK_SEQUENCE: u32 = 0x60;
const NAK_INVALID: u32 = 0x61;
const NAK_ACCESS: u32 = 0x62;

/// The responder's checks.
#[module]
pub fn check(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    init: Stream<QpInit>,
    requests: Stream<Headers>,
    answer: Translation,
) -> Checked {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    m.discard(&requests.payload);
    init.accept(idle);
    let begins = idle & !init.valid & requests.valid;
    let qp = requests.dest_qpn.trunc(qp_bits).named("qp");
    m.when(begins, |m| m.set(&state, State::Row));

    // The row, and read copies of the attributes.
    let row_shape = Row {
        psn: bits(24),
        msn: bits(24),
        inside: bits(1),
        nak_sent: bits(1),
        dead: bits(1),
        va: bits(64),
        rkey: bits(32),
        remaining: bits(32),
    };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &row_shape);
    rows.write(row_write, m.mux(init.fire(), &init.qp, &qp), &next);
    let row = rows.read(m, begins, qp, Collision::Never);
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
    let copy = copies.read(m, begins, qp, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let qp_state = states.read_now(qp);

    // The row's cycle: all that needs no lookup.
    let at_row = state.is(State::Row);
    let takes = qp_state.eq(QpState::Rtr.code())
        | qp_state.eq(QpState::Rts.code())
        | qp_state.eq(QpState::Sqd.code());
    let rc = copy.service.eq(0) & requests.opcode.slice(5, 3).eq(0);
    let served = requests.dest_qpn.lt(cfg.qps) & takes & rc & !row.dead;
    let same_key = requests.pkey.trunc(15).eq(copy.pkey.trunc(15));
    let full_member = requests.pkey.bit(15) | copy.pkey.bit(15);
    let right_key = same_key & full_member;
    let right_source = requests.ipv6.eq(copy.peer_ipv6) & requests.src_ip.eq(copy.peer_ip);
    let admitted = served & right_key & right_source;

    let distance = (requests.psn - row.psn).named("distance");
    let expected = distance.eq(0);
    let duplicate = distance.bit(23);

    let is = |o: Opcode| requests.opcode.eq(o.code());
    let (first, middle) = (is(Opcode::RcWriteFirst), is(Opcode::RcWriteMiddle));
    let (last, only) = (is(Opcode::RcWriteLast), is(Opcode::RcWriteOnly));
    let starts = first | only;
    let known = starts | middle | last;
    let in_order = known & starts.ne(row.inside);
    let bytes = requests.payload_bytes;
    let mtu = lit(13, 128).shl_by(copy.mtu).named("mtu");
    let total = m.mux(starts, &requests.dma_length, &row.remaining).named("total");
    let full = bytes.eq(mtu) & requests.pad.eq(0) & total.gt(mtu.zext(32));
    let rest = bytes.zext(32).eq(total) & bytes.le(mtu) & (only | bytes.ne(0));
    let right_length = m.mux(first | middle, &full, &rest) & total.le(1u32 << 31);
    let valid_request = in_order & right_length;
    let va = m.mux(starts, &requests.va, &row.va).named("va");
    let rkey = m.mux(starts, &requests.rkey, &row.rkey).named("rkey");
    let needs_lookup = admitted & expected & valid_request & bytes.ne(0);

    // Facts that the decision needs later.
    let keep = |m: &Scope, name: &str, value: Sig| {
        let reg = m.reg(name, value.width()).no_reset();
        m.when(at_row, |m| m.set(&reg, value));
        reg
    };
    let d_admitted = keep(m, "d_admitted", admitted);
    let d_expected = keep(m, "d_expected", expected);
    let d_duplicate = keep(m, "d_duplicate", duplicate);
    let d_valid = keep(m, "d_valid", valid_request);
    let d_va = keep(m, "d_va", va);
    let d_rkey = keep(m, "d_rkey", rkey);
    let d_total = keep(m, "d_total", total);
    let d_ends = keep(m, "d_ends", last | only);
    m.when(at_row, |m| {
        m.set(&state, State::Decide);
        m.when(needs_lookup, |m| m.set(&state, State::Lookup));
    });

    // Lookups: the whole rest of the message from here, then the second page if the packet goes on to one.
    let at_lookup = state.is(State::Lookup);
    let to_page_end = lit(13, 4096) - d_va.trunc(12).zext(13);
    let crosses = bytes.gt(to_page_end);
    let asked = m.reg("asked", 2).reset(0);
    let wanted = m.mux(crosses, &lit(2, 2), &lit(2, 1));
    let second = asked.eq(1);
    let next_page = d_va.slice(12, 52) + 1;
    let question = Lookup {
        key: d_rkey,
        pd: copy.pd,
        access: lit(8, REMOTE_WRITE),
        va: m.mux(second, &ferrowire_rtl::cat(&[lit(12, 0), next_page]), &d_va),
        length: m.mux(second, &(bytes - to_page_end).zext(32), &d_total),
    };
    let lookup = Stream::new(m, "lookup", at_lookup & asked.ne(wanted), question);
    let heard = m.reg("heard", 2).reset(0);
    let granted = m.reg("granted", 1).no_reset();
    let address = m.reg("address", 64).no_reset();
    let second_address = m.reg("second_address", 64).no_reset();
    m.when(at_row, |m| {
        m.set(&asked, 0);
        m.set(&heard, 0);
        m.set(&granted, 1);
    });
    m.when(lookup.fire(), |m| m.set(&asked, asked + 1));
    m.when(answer.valid, |m| {
        m.set(&heard, heard + 1);
        m.set(&granted, granted & answer.ok);
        m.when(heard.eq(0), |m| m.set(&address, answer.address))
            .otherwise(|m| m.set(&second_address, answer.address));
    });
    m.when(at_lookup & answer.valid & (heard + 1).eq(wanted), |m| m.set(&state, State::Decide));

    // The decision.
    let at_decide = state.is(State::Decide);
    let allowed = granted & copy.access.bit(1) | bytes.eq(0);
    let executes = d_admitted & d_expected & d_valid & allowed;
    let refused_access = d_admitted & d_expected & d_valid & !allowed;
    let refused_invalid = d_admitted & d_expected & !d_valid;
    let again = d_admitted & d_duplicate;
    let gap = d_admitted & !d_expected & !d_duplicate;
    let naks_gap = gap & !row.nak_sent;
    let ends_qp = refused_access | refused_invalid;
    let answers = (executes & requests.ack_req) | again | naks_gap | ends_qp;
    let psn_before = row.psn - 1;
    let msn = m.mux(executes & d_ends, &(row.msn + 1), &row.msn).named("msn");
    let syndrome = m.wire("syndrome", 8);
    m.set(&syndrome, ACK);
    m.when(naks_gap, |m| m.set(&syndrome, NAK_SEQUENCE));
    m.when(refused_invalid, |m| m.set(&syndrome, NAK_INVALID));
    m.when(refused_access, |m| m.set(&syndrome, NAK_ACCESS));
    let place = Place {
        write: executes & bytes.ne(0),
        offset: requests.payload_offset,
        bytes,
        address,
        second_address,
        answer: answers,
        qp,
        psn: m.mux(again, &psn_before, &row.psn),
        syndrome,
        msn,
    };
    let place = Stream::new(m, "place", at_decide, place);
    let done = place.fire();
    requests.accept(done);
    m.when(done, |m| {
        m.set(&state, State::Idle);
        m.when(ends_qp, |m| m.set(&state, State::Fault));
    });
    let fault_qp = m.reg("fault_qp", qp_bits).no_reset();
    m.when(done, |m| m.set(&fault_qp, qp));
    let faults = Stream::new(m, "faults", state.is(State::Fault), fault_qp);
    m.when(faults.fire(), |m| m.set(&state, State::Idle));

    // The new row.
    m.drive(&row_write, init.fire() | (done & (executes | naks_gap | ends_qp)));
    m.set_all(&next, &row);
    m.when(executes, |m| {
        m.set(&next.psn, row.psn + 1);
        m.set(&next.msn, msn);
        m.set(&next.inside, !d_ends);
        m.set(&next.nak_sent, 0);
        m.set(&next.va, d_va + bytes.zext(64));
        m.set(&next.rkey, d_rkey);
        m.set(&next.remaining, d_total - bytes.zext(32));
    });
    m.when(naks_gap, |m| m.set(&next.nak_sent, 1));
    m.when(ends_qp, |m| m.set(&next.dead, 1));
    m.when(init.fire(), |m| {
        m.set_all(&next, &row_shape.zeros());
        m.set(&next.psn, init.psn);
    });

    let counts = Counts {
        no_qp: at_row & !served,
        pkey: at_row & served & !right_key,
        source: at_row & served & right_key & !right_source,
        duplicate: done & again,
        out_of_sequence: done & gap,
        invalid: done & refused_invalid,
        access: done & refused_access,
        writes: done & executes,
    };
    Checked { lookup, place, faults, counts }
}
