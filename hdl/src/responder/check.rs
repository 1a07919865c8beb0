// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a request packet is: the next one in its sequence, a duplicate, a gap, or invalid.
//!
//! ```text
//!  headers --> row of the QP --> PSN, sequence, receive, length --> class --> order --> walk
//!                 ^                                                  |
//!                 +--------------------- new row <-------------------+
//! ```
//!
//! The order of the checks is the specification's (IBTA volume 1, 9.7.4 and 9.9.2), and the first that fails
//! decides: QP state, service and partition key, source address or queue key, and of connections whether the
//! destination is the QP's own among the port's GIDs (dropped); PSN (duplicate or gap); opcode sequence
//! and whether this responder takes the opcode (NAK 0x61); a receive for a SEND's first packet and for the last of a WRITE
//! with immediate (RNR NAK); length (NAK 0x61); then, further on, the room in the receive, key, domain, access, bounds.
//!
//! What takes a walk through SGEs and tables is decided by `admit`. Here the row is written as if it went well: where it does
//! not, the QP is at its end, and `admit` lets nothing of it pass any more. So a packet holds this block for 3 cycles, 8 where
//! beats are narrow, as many as the shortest frame has beats, and the next one, of the same QP or of another, begins only then: there is
//! nothing to forward. Four of the 8 are those in which its order is written.
//!
//! A request is taken from its stream in its first cycle, and stays here. An order of RC that needs no walk passes the queue before `walk` and the
//! walk itself if nothing is between here and `merge` (`direct`): it arrives 3 cycles earlier.
//!
//! The cursor of the receive queue is in the row: the index of the WQE that the next SEND takes, or the one under way has. How
//! many there are is known from `posted`, a read copy of what `receive` owns. Of a QP with a shared receive queue the row has only
//! the index that the message under way has taken; the cursor is with `shared`, which is asked in the cycle of the row.
//!
//! The two give the credits that the packet's answer tells, as a code (9.7.7.2): receives that no message has, after this packet. The number
//! is worked out in the cycle of the row, its code in the next. A QP with a shared queue promises nothing.
//!
//! SENDs and WRITEs behind an atomic of their QP wait here until it is done with, and others behind them: the host's latency, and what
//! the atomic itself waits for. READs may come late; who needs them earlier asks for a fence.
//!
//! # UC and UD
//!
//! Nobody is told what becomes of their packets (IBTA volume 1, 9.8.2 and 9.8.3): what is not executed is dropped with its reason. The PSN of
//! a datagram means nothing. On a connection a packet that is not the expected one gives up the message under way; so does one that
//! does not follow in its sequence, or FIRST or ONLY, which begins another one. The receive of a message that is given up is
//! for the next: of the QP's own queue the cursor stays, one of a shared queue stays with the QP (`kept`).
//!
//! The QP does not end with a message that turns out to be too long for its receive, or to have no right to where it is to be written. What
//! is behind such a packet goes on meanwhile. The rest of its message is dropped by `walk`, of a WRITE by `admit`. Its receive is for the
//! next message: `walk` tells (`mends`), and counts one less from there on until the row does (`Mend`). A packet that finds no receive while
//! there may be such a one is looked at again when that is known.
//!
//! Where the message has the receive of a shared queue, or a WRITE has used one up, the next packet of UC and UD waits until `walk`, of a
//! WRITE `admit`, says what became of it, and the row is put right then: some 9 cycles for a SEND or datagram, 14 for a WRITE. Those of RC wait only
//! behind one that does.
//!
//! A raw frame is a datagram whose source, key and destination nobody checks, and without a GRH.
//!
//! A start, and the end of a life, go on in their place among the packets: behind them nothing of the former life comes. So does the
//! way to ERR of a QP with a shared receive queue: behind it, nothing is taken from there any more.
//!
//! Reset: idle. Rows are written when a QP starts.

use crate::config::RnicConfig;
use crate::context::congestion::Marked;
use crate::context::{errors, resets};
use crate::path::{mtu_bytes, same_partition, whole_mtus};
use crate::responder::order::{Class, Facts, Judged, Operands, Order, Run};
use crate::responder::receive::Touch;
use crate::responder::reply::{places_shared, Kind, Served};
use crate::responder::shared::{Seen, Take};
use crate::rx::grh::GRH_BYTES;
use crate::rx::parse::{opcode_is, REASON_BITS};
use crate::stream::{breath, deep_fifo, fifo, half, row_of, wide_fifo};
use crate::types::{is_connectionless, is_raw, Headers, QpAttributes, QpBroadcast, QpInit, TableWrite};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::CqeOpcode;
use ferrowire_spec::queue::Access;
use ferrowire_spec::wire::ipv4::ECN_CE;
use ferrowire_spec::wire::opcode::{Opcode, Operation, Service};
use ferrowire_spec::wire::syndrome::CREDIT_INVALID;

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    /// Where there is time: what has been read goes to registers.
    Look,
    Row,
    /// Where there is time: what was compared in the row's cycle is put together.
    Judge,
    Tell,
}

#[derive(Clone, Bundle)]
struct Row {
    psn: Sig,
    msn: Sig,
    /// A message is under way.
    inside: Sig,
    /// It is a SEND.
    send: Sig,
    /// A NAK has been sent: nothing is said about packets ahead until the expected one is here.
    silent: Sig,
    va: Sig,
    rkey: Sig,
    /// Bytes of a WRITE that are still to come.
    remaining: Sig,
    /// Bytes of the message that have come.
    received: Sig,
    /// The receive WQE of the SEND under way, or of the next one.
    index: Sig,
    /// It has been taken from a shared queue, and not been completed.
    kept: Sig,
    /// READs and atomics taken, modulo 32.
    taken: Sig,
    /// An atomic may be among those that are pending.
    atomic: Sig,
    /// A packet has come.
    heard: Sig,
}

impl Row {
    fn of() -> Self {
        Row {
            psn: bits(24),
            msn: bits(24),
            inside: bits(1),
            send: bits(1),
            silent: bits(1),
            va: bits(64),
            rkey: bits(32),
            remaining: bits(32),
            received: bits(32),
            index: bits(16),
            kept: bits(1),
            taken: bits(5),
            atomic: bits(1),
            heard: bits(1),
        }
    }
}

#[derive(Clone, Bundle)]
struct Copy {
    service: Sig,
    pd: Sig,
    mtu: Sig,
    access: Sig,
    peer: Sig,
    gid: Sig,
    pkey: Sig,
    qkey: Sig,
    timer: Sig,
    cq: Sig,
    stride: Sig,
    /// READs and atomics that it takes at once.
    places: Sig,
    has_srq: Sig,
    srqn: Sig,
}

impl Copy {
    fn of(a: &QpAttributes) -> Self {
        Copy {
            service: a.service,
            pd: a.pd,
            mtu: a.mtu,
            access: a.access,
            peer: a.peer,
            gid: a.gid,
            pkey: a.pkey,
            qkey: a.qkey,
            timer: a.min_rnr_timer,
            cq: a.recv_cq,
            stride: a.rq_stride,
            places: a.max_dest_rd_atomic,
            has_srq: a.has_srq,
            srqn: a.srqn,
        }
    }
}

/// Largest message (IBTA volume 1, 9.7.7).
const MAX_MESSAGE: u32 = 1 << 31;

/// What this responder takes.
fn known(opcode: Opcode) -> bool {
    opcode.is_request()
}

/// The code of the largest credit that so many receives cover (IBTA volume 1, 9.7.7.2, table of credit codes): the place of the highest
/// bit that is set, and the bit below it. Below the lowest there is a one, so that of a single receive the code is 1.
fn credit_code(m: &Scope, receives: Sig) -> Sig {
    let mut rest = cat(&[lit(1, 1), receives]);
    let mut code = Vec::new();
    for half in [8, 4, 2, 1] {
        let upper = rest.slice(half + 1, half).any();
        rest = m.mux(upper, &rest.slice(half, half + 1), &rest.trunc(half + 1));
        code.insert(0, upper);
    }
    code.insert(0, rest.all());
    cat(&code)
}

/// What comes out.
#[derive(Interface)]
pub struct Checked {
    /// What each packet is, in order.
    pub orders: Stream<Order>,
    /// Likewise of those that come when none is on its way, and need no walk.
    pub direct: Stream<Run>,
    /// Of each READ and atomic among them, whatever comes of it.
    pub operands: Stream<Operands>,
    /// Messages that have come, with the receive that each takes.
    pub touches: Stream<Touch>,
    /// The shared receive queue that is looked at, or taken from.
    pub take: Take,
    /// Packets of peers that met congestion, whatever else comes of them (IBTA A17.9.3).
    pub marked: Marked,
    /// Of the QP that is asked for: the PSN expected of its peer.
    pub expected_psn: Sig,
    /// QPs in RTR of which the first packet has come.
    pub established: Stream<Sig>,
}

/// Packets between here and `walk`, as long as the host's latency: where a frame is seven beats or more, half as many last longer than that.
pub(super) fn packets_ahead(cfg: &RnicConfig) -> u32 {
    if cfg.unhurried() {
        64
    } else {
        128
    }
}

/// Bits of the number of packets between here and there, and of mends.
pub(super) fn open_bits(cfg: &RnicConfig) -> u32 {
    (2 * packets_ahead(cfg)).ilog2() + 1
}

/// READs and atomics between here and `place`, which takes them with their orders: all packets may be, and there are fewer than 40
/// places behind the queue to `walk`.
fn waiting(cfg: &RnicConfig) -> u32 {
    2 * packets_ahead(cfg)
}

/// The responder's checks. `posted`: index behind the newest receive WQE of each QP; `seen`: the shared queue that `take` names;
/// `served`: a READ or atomic is done with; `unused`: one was not executed; `judged`: what became of the packet that is waited for;
/// `mends`: QPs of which a receive was not used after all; `settled`: another was; `query`: of which QP `expected_psn` tells;
/// `passed`: an order has left for `cut`, or ended before.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn check(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    posted: TableWrite<Sig>,
    seen: Seen,
    init: Stream<QpInit>,
    requests: Stream<Headers>,
    served: Served,
    unused: Served,
    judged: Judged,
    mends: Stream<Sig>,
    settled: Sig,
    query: Sig,
    passed: Sig,
) -> Checked {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    let (resets, errors) = (resets(m, cfg, &broadcast), errors(m, cfg, &broadcast));
    // The packet of UC or UD that is waited for, and whether it has used up a receive.
    let doubt = m.reg("doubt", 1).reset(0);
    let (doubt_qp, doubt_used) = (m.reg("doubt_qp", qp_bits).no_reset(), m.reg("doubt_used", 1).no_reset());
    let repairs = m.reg("repairs", 1).reset(0);
    m.assert(!judged.valid | doubt, "only who waits is told");
    m.when(judged.valid, |m| {
        m.set(&doubt, 0);
        m.set(&repairs, judged.refused);
    });
    // First what came first: a QP goes from ERR to RESET, and nowhere from there before its end is told.
    let is_repair = idle & repairs;
    let is_mend = idle & !repairs & mends.valid;
    mends.accept(is_mend);
    let able = idle & !repairs & !mends.valid;
    let is_error = able & errors.valid;
    let is_reset = able & resets.valid & !errors.valid;
    let free = able & !resets.valid & !errors.valid;
    // A life does not begin with what is to be put right of the one before.
    let is_init = free & init.valid & !doubt;
    // What a packet is comes late out of block RAM, and is looked at in the second cycle in which it is on offer.
    let on_offer = m.reg("on_offer", 1).reset(0);
    let waits_for_doubt = doubt & (!on_offer | m.delay("is_quiet", &requests.opcode.slice(5, 2).any()));
    // Packets whose receive may yet be that of the next one; one that finds none waits for these.
    let open_bits = open_bits(cfg);
    let open = m.reg("open", open_bits).reset(0);
    let stalled = m.reg("stalled", 1).reset(0);
    m.when(open.eq(0), |m| m.set(&stalled, 0));
    // It stays here, and comes before the next one: as it was let in, nothing is in doubt.
    let again = m.reg("again", 1).reset(0);
    let may_come = free & !init.valid & !stalled;
    let takes_one = may_come & !again & !waits_for_doubt;
    requests.accept(takes_one);
    let comes = takes_one & requests.valid;
    m.set(&on_offer, requests.valid & !takes_one);
    let is_request = comes | (may_come & again);
    m.when(is_request, |m| m.set(&again, 0));
    m.when(is_repair, |m| m.set(&repairs, 0));
    resets.accept(is_reset);
    errors.accept(is_error);
    init.accept(is_init);
    let begins = is_repair | is_mend | is_reset | is_error | is_init | is_request;
    // The request stays here for the cycles that follow, with what can be said of it before its row is known.
    let request = m.reg_of("request", &requests.payload);
    m.discard(&request);
    let mut chosen = m.mux(again, &request.dest_qpn.trunc(qp_bits), &requests.dest_qpn.trunc(qp_bits));
    chosen = m.mux(is_init, &init.qp, &chosen);
    chosen = m.mux(is_reset, &resets.payload, &chosen);
    chosen = m.mux(is_error, &errors.payload, &chosen);
    chosen = m.mux(is_mend, &mends.payload, &chosen);
    let begin_qp = m.mux(is_repair, &doubt_qp, &chosen).named("begin_qp");

    let fact_when = |m: &Scope, when: Sig, name: &str, value: Sig| {
        let reg = m.reg(name, value.width()).no_reset();
        m.when(when, |m| m.set(&reg, value));
        reg
    };
    let fact = |m: &Scope, name: &str, value: Sig| fact_when(m, begins, name, value);
    let by_reset = fact(m, "by_reset", is_reset);
    let by_init = fact(m, "by_init", is_init);
    let by_error = fact(m, "by_error", is_error);
    let by_repair = fact(m, "by_repair", is_repair);
    let by_mend = fact(m, "by_mend", is_mend);
    let packet = fact(m, "packet", is_request);
    // The class of what is not a packet, or not for us.
    let other_class =
        [(is_reset, Class::End), (is_init, Class::Start), (is_error, Class::Last), (is_mend, Class::Mend)]
            .into_iter()
            .fold(lit(4, Class::Dropped.code()), |other, (is, class)| is.then(class.code(), other));
    let other_class = fact(m, "other_class", other_class);
    let init_psn = fact(m, "init_psn", init.psn);
    let qp = fact(m, "qp", begin_qp);
    let fact = |m: &Scope, name: &str, value: Sig| fact_when(m, comes, name, value);
    let is = |of: fn(Opcode) -> bool| opcode_is(requests.opcode, |o| cfg.speaks(o) && of(o));
    let is_raw = is_raw(requests.opcode);
    let first_or_only = is(|o| o.position().begins()) | is_raw;
    let last_or_only = is(|o| o.position().ends()) | is_raw;
    let immediate = is(Opcode::has_immediate);
    let send = is(|o| o.operation() == Operation::Send) | is_raw;
    let write = is(|o| o.operation() == Operation::Write);
    let exists = requests.dest_qpn.lt(cfg.qps);
    // The service as attributes have it: the opcode says 3 for UD, and 7 for raw frames.
    let of_datagrams = requests.opcode.bit(6);
    let service = cat([&((requests.opcode.bit(5) & !of_datagrams) | is_raw), &of_datagrams]);
    let read = is(|o| o.operation() == Operation::ReadRequest);
    let atomic = is(|o| matches!(o.operation(), Operation::CompareSwap | Operation::FetchAdd));
    let compare = is(|o| o.operation() == Operation::CompareSwap);
    let is_quiet = service.any();
    let exists = fact(m, "exists", exists);
    let service = fact(m, "service", service);
    let quiet = fact(m, "quiet", is_quiet);
    let raw = service.all();
    let datagram = service.eq(Service::Ud.code());
    let starts = fact(m, "starts", first_or_only);
    let ends = fact(m, "ends", last_or_only);
    let known = fact(m, "known", is(known) | is_raw);
    let has_imm = fact(m, "has_imm", immediate);
    let invalidates = fact(m, "invalidates", is(Opcode::has_invalidate));
    let is_send = fact(m, "is_send", send);
    let is_write = fact(m, "is_write", write);
    let is_read = fact(m, "is_read", read);
    let is_atomic = fact(m, "is_atomic", atomic);
    let replies = fact(m, "replies", read | atomic);
    let compares = fact(m, "compares", compare);
    let aligned = fact(m, "aligned", requests.va.trunc(3).eq(0));
    let asks_any = fact(m, "asks_any", requests.dma_length.ne(0));
    let last_byte = fact(m, "last_byte", requests.dma_length - 1);
    // A SEND takes its receive with its first packet, a WRITE with immediate with its last (IBTA volume 1, 9.7.5.1.6).
    let takes = fact(m, "takes", (send & first_or_only) | (write & immediate));
    let has_bytes = fact(m, "has_bytes", requests.payload_bytes.ne(0));
    let whole_words = fact(m, "whole_words", requests.pad.eq(0));
    m.when(comes, |m| {
        m.set_all(&request, &requests.payload);
        // The PSN of a datagram means nothing: its place is the source's.
        m.when(of_datagrams, |m| m.set(&request.psn, requests.va.trunc(24)));
    });
    m.when(begins, |m| m.set(&state, if cfg.unhurried() { State::Look } else { State::Row }));
    m.when(state.is(State::Look), |m| m.set(&state, State::Row));

    // The row, and read copies of the attributes.
    let rows = m.mem("rows", cfg.qps, &Row::of()).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &Row::of());
    rows.write(row_write, qp, &next);
    // Whether anything begins is known late: what is read while nothing does is not looked at.
    let row = cfg.looked(m, "row", rows.read(m, idle, begin_qp, Collision::Never));
    // A read copy for queries, which wait for nobody.
    let psns = m.mem("psns", cfg.qps, &bits(24)).style(Style::Block).build();
    psns.write(row_write, qp, &next.psn);
    let expected_psn = psns.read(m, lit(1, 1), query, Collision::Old);
    let given = &broadcast.attributes;
    let copies = m.mem("copies", cfg.qps, &Copy::of(&QpAttributes::of(cfg))).style(Style::Block).build();
    copies.write(given.enable, given.index, &Copy::of(&given.entry));
    let copy = cfg.looked(m, "copy", copies.read(m, idle, begin_qp, Collision::New));
    let producers = m.mem("producers", cfg.qps, &bits(16)).style(Style::Block).build();
    producers.write(posted.enable & !posted.index.msb(), posted.index.trunc(qp_bits), &posted.entry);
    let producer = cfg.looked(m, "producer", producers.read(m, idle, begin_qp, Collision::New));
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Block).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let qp_state = row_of(m, "state", (idle, begin_qp, qp), &states, &broadcast.state);

    // READs and atomics that are done with, whether they were executed or not: two may end in a cycle. They count three cycles later.
    let at_qp = m.mux(idle, &begin_qp, &qp);
    let ended = |name: &str, end: &Served| {
        let counts = m.mem(name, cfg.qps, &bits(5)).style(Style::Block).init(vec![]).build();
        let counted = m.delay(&format!("{name}_now"), end);
        let count = m.wire(&format!("{name}_count"), 5);
        counts.write(counted.valid, counted.qp, &count);
        m.drive(&count, counts.read(m, end.valid, end.qp, Collision::New) + 1);
        counts.read(m, lit(1, 1), at_qp, Collision::Old)
    };
    let done_with = cfg.looked(m, "done_with", ended("served", &served) + ended("unused", &unused));
    let shared_room = m.wire("shared_room", 1);

    // The row's cycle: all that needs no lookup.
    let at_row = state.is(State::Row);
    let looked = |name: &str, s: Sig| cfg.fact(m, name, s);
    let at_judge = if cfg.unhurried() { state.is(State::Judge) } else { at_row };
    // Every QP that was created has a path MTU.
    let exists = exists & copy.mtu.any();
    let runs = [QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe].map(|s| qp_state.eq(s.code()));
    let takes_it = looked("takes_it", runs[0] | runs[1] | runs[2] | runs[3]);
    let right_service = looked("right_service", service.eq(copy.service));
    let right_key = looked("right_key", raw | same_partition(request.pkey, copy.pkey));
    let from_peer = request.origin.is(copy.peer);
    // Anybody who knows the queue key may send datagrams (IBTA volume 1, 9.8.3.1).
    let right_source = m.mux(datagram, &request.va.slice(32, 32).eq(copy.qkey), &from_peer);
    // The port's filter has let a raw frame pass.
    let right_source = looked("right_source", raw | right_source);
    let right_place = looked("right_place", is_connectionless(service) | request.gid.eq(copy.gid));

    let distance = (request.psn - row.psn).named("distance");
    let expected = looked("expected", request.psn.eq(row.psn));
    let duplicate = looked("duplicate", distance.bit(23));

    let follows = row.inside & is_send.eq(row.send) & expected;
    let in_order = known & m.mux(starts, &(quiet | !row.inside), &follows);
    // A function that the QP does not offer its peer is an invalid request (IBTA volume 1, 9.9.3).
    let right = |access: Access| copy.access.bit(access.code().trailing_zeros());
    let offered = (!is_write | right(Access::RemoteWrite))
        & (!is_read | right(Access::RemoteRead))
        & (!is_atomic | right(Access::RemoteAtomic));
    let offered = looked("offered", offered);
    // READs and atomics have places: some of a QP, one of them for itself, the others shared by all. One that finds none is dropped with a
    // sequence NAK, which leaves after what is pending of its QP: then there is the QP's own place.
    let pending = row.taken - done_with;
    let placeless = looked("placeless", replies & pending.ge(copy.places));
    let crowded = looked("crowded", replies & !shared_room & pending.ne(0));
    // PSNs of the responses, less one.
    let further = (is_read & asks_any).then(whole_mtus(m, last_byte, copy.mtu), lit(24, 0)).named("further");
    let ready = looked("ready", !takes | copy.has_srq | producer.ne(row.index));
    // Receives behind the one that a message has, or takes now.
    let has_one = (row.inside & row.send) | (!duplicate & (is_send | takes));
    let unused_receives = producer - row.index - has_one.zext(16);
    let bytes = request.payload_bytes;
    let mtu = mtu_bytes(copy.mtu).named("mtu");
    let whole = looked("whole", bytes.eq(mtu) & whole_words);
    let only = starts & ends;
    let in_mtu = looked("in_mtu", bytes.le(mtu) & (only | has_bytes));
    let total = m.mux(starts, &request.dma_length, &row.remaining).named("total");
    // A datagram's GRH counts (IBTA volume 1, 11.4.2.1).
    let grh = datagram.then(lit(32, GRH_BYTES), lit(32, 0));
    let before = m.mux(starts, &grh, &row.received);
    let received = (before + bytes.zext(32)).named("received");
    let fits = m.mux(ends, &bytes.zext(32).eq(total), &total.gt(mtu.zext(32))) & total.le(MAX_MESSAGE);
    let right_total = looked("right_total", m.mux(is_send, &received.le(MAX_MESSAGE), &fits));
    let right_length = m.mux(ends, &in_mtu, &whole) & right_total;
    let right_length = m.select(
        cat(&[is_read, is_atomic]),
        &[right_length, request.dma_length.le(MAX_MESSAGE), aligned, aligned],
    );
    let va = m.mux(starts, &request.va, &row.va).named("va");
    let rkey = m.mux(starts, &request.rkey, &row.rkey).named("rkey");

    // What it is, and what goes on from it.
    let class = m.wire("class", 4);
    m.set(&class, Class::Execute.code());
    let code = |reason: DropReason| lit(REASON_BITS, reason.code());
    let wrong_source = m.mux(datagram, &code(DropReason::Qkey), &code(DropReason::SourceAddress));
    let reason = m.wire("reason", REASON_BITS);
    let foreign =
        (!(exists & takes_it & right_service & right_key & right_source & right_place)).named("foreign");
    // Its length, and whether there is a receive, are known last: they count in the next cycle.
    let sound = in_order & offered;
    let passed_over = quiet & !sound;
    // Whether it is executed, but for what is only known in the next cycle.
    let good = sound & packet & !foreign & (quiet | expected);
    m.assert(!(expected & duplicate), "what is expected is no duplicate");
    let foreign_reason = m.wire("foreign_reason", REASON_BITS);
    m.when(!exists, |m| m.set(&foreign_reason, code(DropReason::NoQp)))
        .otherwise_when(!takes_it, |m| m.set(&foreign_reason, code(DropReason::QpState)))
        .otherwise_when(!right_service, |m| m.set(&foreign_reason, code(DropReason::Service)))
        .otherwise_when(!right_key, |m| m.set(&foreign_reason, code(DropReason::Pkey)))
        .otherwise_when(!right_source, |m| m.set(&foreign_reason, wrong_source))
        .otherwise(|m| m.set(&foreign_reason, code(DropReason::Destination)));
    m.when(!in_order, |m| m.set(&reason, code(DropReason::Sequence)))
        .otherwise(|m| m.set(&reason, code(DropReason::Malformed)));
    m.when(passed_over, |m| m.set(&class, Class::Dropped.code()))
        .otherwise_when(quiet, |m| m.set(&class, Class::Execute.code()))
        .otherwise_when(duplicate, |m| m.set(&class, Class::Duplicate.code()))
        .otherwise_when(!expected & row.silent, |m| m.set(&class, Class::Gap.code()))
        .otherwise_when(!expected, |m| m.set(&class, Class::FirstGap.code()))
        .otherwise_when(!sound, |m| m.set(&class, Class::Invalid.code()));
    let keep = |m: &Scope, name: &str, value: Sig| {
        let reg = m.reg(name, value.width()).no_reset();
        m.when(at_judge, |m| m.set(&reg, value));
        reg
    };
    let found = keep(m, "d_class", class);
    let placeless = keep(m, "d_placeless", placeless);
    let crowded = keep(m, "d_crowded", crowded);
    let unused_receives = keep(m, "unused_receives", unused_receives);
    let good = keep(m, "d_good", good);
    let reason = keep(m, "d_reason", reason);
    let foreign_reason = keep(m, "d_foreign_reason", foreign_reason);
    let ours = keep(m, "d_ours", packet & !foreign);
    let foreign = keep(m, "d_foreign", foreign);
    let right_length = keep(m, "d_right_length", right_length);
    let further = keep(m, "d_further", further);
    let past = keep(m, "past", row.psn - request.psn);
    let may_repeat = keep(m, "may_repeat", offered);
    let va = keep(m, "d_va", va);
    let rkey = keep(m, "d_rkey", rkey);
    let total = keep(m, "d_total", m.mux(is_atomic, &lit(32, 8), &total));
    let received = keep(m, "d_received", received);
    // What a shared queue has is known a cycle later than the rest: did all else before the look for a receive go well?
    let from_shared = takes & copy.has_srq & !row.kept;
    let due = expected | quiet;
    let asks_shared = keep(m, "asks_shared", due & in_order & offered & from_shared);
    let unready = Class::Execute.is(found) & keep(m, "has_none", !ready);
    let seen_ready = keep(m, "seen_ready", seen.ready);
    let shared_index = keep(m, "shared_index", seen.index);
    // A receive of a shared queue lies in the queue's domain (IBTA volume 1, 10.2.9.2).
    let by_shared = is_send & copy.has_srq;
    let pd = keep(m, "d_pd", m.mux(by_shared, &seen.pd, &copy.pd));
    let stride = keep(m, "d_stride", m.mux(by_shared, &seen.stride, &copy.stride));
    let has_srq = keep(m, "d_has_srq", copy.has_srq);
    // Where a request is out of order, the receive of the SEND under way ends with the error.
    let in_order = keep(m, "d_in_order", in_order & offered);
    m.when(at_row, |m| m.set(&state, if cfg.unhurried() { State::Judge } else { State::Tell }));
    m.when(state.is(State::Judge), |m| m.set(&state, State::Tell));

    let kind = |send: CqeOpcode, imm: CqeOpcode| {
        m.mux(has_imm, &lit(8, u32::from(imm.code())), &lit(8, u32::from(send.code())))
    };
    let opcode = m.mux(
        is_send,
        &kind(CqeOpcode::Recv, CqeOpcode::RecvImm),
        &kind(CqeOpcode::Recv, CqeOpcode::RecvWriteImm),
    );
    let opcode = m.mux(invalidates, &lit(8, u32::from(CqeOpcode::RecvInv.code())), &opcode);
    let found = m.mux(
        Class::Execute.is(found) & !right_length,
        &m.mux(quiet, &lit(4, Class::Dropped.code()), &lit(4, Class::Invalid.code())),
        &found,
    );
    let none = (asks_shared & !seen_ready) | unready;
    let executes = good & right_length & !none & !(placeless | crowded);
    let executes = executes.named("executes");
    let (asks_shared, none, unready) = (asks_shared & ours, none & ours, unready & quiet & ours);
    // A repeated READ lies in what was asked for (IBTA volume 1, 9.7.5.1.4).
    // Of UC and UD nothing is taken in vain: there is no error to complete it with.
    let takes_shared = (asks_shared & seen_ready & !(quiet & Class::Dropped.is(found))).named("takes_shared");
    let refusal = m.mux(quiet, &lit(4, Class::Dropped.code()), &lit(4, Class::NotReady.code()));
    // A READ or an atomic, which takes no receive, may have no place though all else is good.
    let follows = Class::Execute.is(found);
    let found = m.mux(follows & crowded, &lit(4, Class::Crowded.code()), &found);
    let found = m.mux(follows & placeless, &lit(4, Class::Invalid.code()), &found);
    let found = m.mux(none, &refusal, &found);
    let found = m.mux(ours, &found, &other_class);
    let reason = m.mux(none, &code(DropReason::NoReceive), &reason);
    let reason = m.mux(foreign, &foreign_reason, &reason);
    let is_again = Class::Duplicate.is(found) & replies;
    let unheard = is_again & !(may_repeat & further.lt(past));
    let class = m.mux(unheard, &lit(4, Class::Unheard.code()), &found);
    let is_class = |c: Class| c.is(class);
    m.assert(
        !state.is(State::Tell) | executes.eq(is_class(Class::Execute)),
        "both say whether it is executed",
    );
    let holds = m.mux(in_order, &(is_send | takes), &(row.inside & row.send));
    let index = m.mux(takes_shared, &shared_index, &row.index);
    let kind = m.mux(is_read & packet, &lit(2, Kind::Read.code()), &lit(2, 0));
    let kind = m.mux(is_atomic & packet, &lit(2, Kind::Atomic.code()), &kind);
    let credit = m.mux(copy.has_srq, &lit(5, u32::from(CREDIT_INVALID)), &credit_code(m, unused_receives));
    // Where a packet that may yet fail has used up a receive of which only the row knows, the next one waits.
    let judged = quiet & executes & m.mux(is_send, &has_srq, &has_imm);
    let facts = Facts {
        class,
        qp,
        offset: request.payload_offset - datagram.then(lit(7, GRH_BYTES), lit(7, 0)),
        bytes: m.mux(datagram, &received.trunc(13), &request.payload_bytes),
        ack_req: request.ack_req,
        // A duplicate is acknowledged with the newest PSN that was executed (IBTA volume 1, 9.7.5.1.4).
        psn: m.select(
            cat(&[is_class(Class::Duplicate), is_again | datagram]),
            &[row.psn, row.psn - 1, request.psn, request.psn],
        ),
        msn: row.msn,
        begins: starts,
        ends,
        send: is_send,
        quiet,
        datagram,
        judged,
        kind,
        holds,
        index,
        shared: copy.has_srq,
        takes: takes_shared,
        code: m.mux(is_class(Class::NotReady), &copy.timer, &credit),
        cq: copy.cq,
        opcode: m.mux(is_class(Class::Dropped), &reason.zext(8), &opcode),
        received,
        imm: request.imm,
        imm_valid: has_imm,
        solicited: request.solicited,
    };
    let wide = |number: Sig| number.zext(cfg.rq_bits() - 1);
    let queue = cat([&m.mux(copy.has_srq, &wide(copy.srqn), &wide(qp)), &copy.has_srq]);
    let order = Order { facts, queue, stride, pd, va, rkey, total };
    let at_tell = state.is(State::Tell);
    // SENDs, WRITEs and atomics of a QP are executed in their order (IBTA volume 1, 9.5): what is placed waits for atomics before it.
    let places = executes & !replies;
    // That they are is known a cycle later.
    let pends = m.delay("pends", &(row.atomic & row.taken.ne(done_with)));
    let waits = places & pends;
    // Of a QP with a receive queue of its own nobody needs to know that it has gone to ERR.
    let nothing = by_repair | (by_error & !has_srq);
    let later = (at_tell & unready & open.ne(0)).named("later");
    let touch_room = m.wire("touch_room", 1);
    let touches_one = executes & is_send & starts & has_bytes;
    let touch = Touch { queue, index, stride };
    // What needs no walk goes past the queue where that is empty, and all between there and `merge`.
    let way_bits = open_bits + 1;
    let on_way = m.reg("on_way", way_bits).reset(0);
    let none_on_way = m.reg("none_on_way", 1).reset(1);
    // Known before the order is told, which may take some cycles.
    let straight = executes & !is_send & !quiet & keep(m, "way_is_free", none_on_way);
    let tells = at_tell & !waits & !nothing & !later & touch_room;
    let run = Run::straight(m, &order, order.facts.clone(), lit(1, 1), lit(1, 0));
    let direct = Stream::new(m, "straight", tells & straight, run);
    let telling = Stream::new(m, "telling", tells & !straight, order);
    let told = telling.fire() | direct.fire();
    let direct = half(&m.label("direct"), direct);
    let done = told | (at_tell & nothing);
    // A rollback ends in `walk`, beside runs that pass, and concerns no QP that goes past it.
    let sets_out = told & !by_mend;
    m.assert(!passed | on_way.ne(0), "what passes was on its way");
    m.set(&on_way, on_way + sets_out.zext(way_bits) - passed.zext(way_bits));
    // One that leaves now may still be seen for a cycle.
    m.set(&none_on_way, on_way.eq(0) & !sets_out);
    m.when(later, |m| {
        m.set(&state, State::Idle);
        m.set(&stalled, 1);
        m.set(&again, 1);
    });
    // What is done counts a cycle later: the next packet is decided two cycles after that.
    let later_on = |name: &str, now: Sig| {
        let known = m.reg(name, 1).reset(0);
        m.set(&known, now);
        known
    };
    let opens = later_on("opens", done & executes & quiet & is_send & !has_srq);
    let mended = later_on("mended", done & by_mend);
    let closes = settled.zext(open_bits) + mended.zext(open_bits);
    m.set(&open, open + opens.zext(open_bits) - closes);
    let touch = Stream::new(m, "touch", told & touches_one, touch);
    m.drive(&touch_room, touch.ready);
    let touches = fifo(&m.label("touches"), 16, touch);
    let orders = wide_fifo(&m.label("orders"), packets_ahead(cfg), cfg.unhurried().then_some(4), telling);
    let operands = Operands {
        va: request.va,
        rkey: request.rkey,
        length: request.dma_length,
        swap: request.swap,
        compare: request.compare,
        compares,
    };
    // They stay for the cycle after the decision.
    let operands = Stream::new(m, "operand", later_on("has_operands", done & packet & replies), operands);
    m.assert(!operands.valid | operands.ready, "there are fewer packets between here and `place`");
    // They are on offer for one cycle.
    let operands = breath(&m.label("operand"), cfg.unhurried(), operands);
    let operands = wide_fifo(&m.label("operands"), waiting(cfg), cfg.unhurried().then_some(2), operands);
    let takes_place = done & executes & replies;
    let many = clog2(u64::from(places_shared(cfg)) + 2 * u64::from(cfg.qps)) + 1;
    let used = m.reg("used", many).reset(0);
    // Whether one is taken is known late.
    let left = used - served.valid.zext(many) - unused.valid.zext(many);
    m.set(&used, m.mux(takes_place, &(left + 1), &left));
    m.drive(&shared_room, m.delay("room", &used.lt(places_shared(cfg) - 1)));
    m.when(done, |m| m.set(&state, State::Idle));
    m.when(done & judged, |m| {
        m.set(&doubt, 1);
        m.set(&doubt_qp, qp);
        m.set(&doubt_used, holds & ends);
    });
    // There is no peer to be told of the way of a datagram, or of a frame.
    let met_congestion = packet & request.ecn.eq(ECN_CE) & !foreign & !is_connectionless(service);
    let marked = m.delay("marked", &Marked { valid: done & met_congestion, qp });

    // The new row.
    let not_ready = is_class(Class::NotReady);
    let silences = not_ready | is_class(Class::FirstGap) | is_class(Class::Crowded);
    let takes_note = silences | (quiet & packet & !foreign);
    m.drive(
        &row_write,
        done & (by_init | by_repair | by_mend | executes | takes_note) & !(by_reset | by_error),
    );
    m.set_all(&next, &row);
    m.when(packet, |m| m.set(&next.heard, 1));
    m.when(by_init, |m| {
        m.set_all(&next, &Row::of().zeros());
        m.set(&next.psn, init_psn);
        // All that the former life had pending is done with.
        m.set(&next.taken, done_with);
    })
    .otherwise_when(by_repair, |m| {
        // The message is given up, and its receive is there again.
        m.set(&next.inside, 0);
        m.set(&next.kept, row.kept | (copy.has_srq & doubt_used));
        m.set(&next.index, row.index - (doubt_used & !copy.has_srq).zext(16));
    })
    .otherwise_when(by_mend, |m| m.set(&next.index, row.index - 1))
    .otherwise_when(executes, |m| {
        m.set(&next.psn, request.psn + 1 + further);
        m.set(&next.msn, row.msn + ends.zext(24));
        m.set(&next.inside, !ends);
        m.set(&next.send, is_send);
        m.set(&next.silent, 0);
        m.set(&next.va, va + request.payload_bytes.zext(64));
        m.set(&next.rkey, rkey);
        m.set(&next.remaining, total - request.payload_bytes.zext(32));
        m.set(&next.received, received);
        m.set(&next.index, m.mux(copy.has_srq, &index, &(row.index + (holds & ends).zext(16))));
        m.set(&next.kept, (row.kept | takes_shared) & !(holds & ends));
        m.set(&next.taken, row.taken + kind.ne(0).zext(5));
        m.set(&next.atomic, is_atomic | (row.atomic & kind.ne(0)));
    })
    .otherwise(|m| {
        m.set(&next.silent, !quiet);
        m.when(quiet, |m| {
            m.set(&next.psn, request.psn + 1);
            m.set(&next.inside, 0);
        });
    });
    // What begins a life is told once (11.6.3.4). The QP context takes no more of it while a start waits: each QP has its place.
    let establishes = row_write & packet & !row.heard & qp_state.eq(QpState::Rtr.code());
    let established =
        Stream::new(m, "establishes", m.delay("establishes_now", &establishes), m.delay("whose", &qp));
    m.discard(&established.ready);
    let established = deep_fifo(&m.label("established"), cfg.qps, established);
    // The attributes stay for the cycle after the decision, and the queue is next looked at two cycles after it.
    let take = Take { srq: copy.srqn, valid: later_on("takes_now", done & takes_shared) };
    Checked { orders, direct, operands, touches, take, marked, expected_psn, established }
}
