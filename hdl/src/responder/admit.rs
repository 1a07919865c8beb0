// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of a request packet: executed, acknowledged again, refused, or dropped.
//!
//! ```text
//!  pending --> register -----------+--> decision --> place (in order)
//!  translate --> ok, one a piece --+     ^   |  +---> counted
//!         \                              |   +------> fault: QP to error
//!          \--> addresses ---------------|----------> place
//!                dead bits <-------------+
//!  flushed ------------------------------+
//! ```
//!
//! Here a packet meets what its lookups found. All answers and completions leave through `place`, in the order of the
//! requests and behind the data that they confirm. After a NAK that ends the QP its bit is set, and what `check` has let
//! pass since then goes nowhere: that is what allows `check` not to wait. The receive that such a packet holds ends with the
//! cause (IBTA volume 1, 9.9.3); the others are flushed, which `flush` asks for. One that such a packet has taken from a shared queue
//! is flushed here: nobody else knows of it (10.2.9).
//!
//! The receives of a QP's own queue go with its life. A SEND that finds none any more is dropped, and sets the bit: an acknowledgement of what
//! is behind it would acknowledge the SEND as well (9.7.5.1.2).
//!
//! A SEND that invalidates a key (9.4.1.1.1) asks for that when all else is good, and is decided when the answer is there, some
//! 15 cycles later: a key that the peer may not invalidate is a refused access, and no effect comes before it.
//! A packet of UC or UD is executed or dropped, and nobody is told; where this end is at fault, the receive ends and the QP with it
//! (IBTA volume 1, 9.9.3). A datagram's source goes into its completion.
//!
//! A packet in two cycles, or as many as it has pieces. Faults have a place for each QP, so that a start never waits
//! for them. Reset: nothing under way; a QP's bit is cleared when it starts.

use crate::config::RnicConfig;
use crate::memory::{Done as Operated, Operation, OperationKind, Translation};
use crate::responder::cut::WAITING;
use crate::responder::flush::{Done, Flushed};
use crate::responder::known::GrantedRead;
use crate::responder::order::{Class, Judged, Pending, Walk};
use crate::responder::place::Place;
use crate::responder::reply::Kind;
use crate::rx::buffer::Dropped;
use crate::rx::grh::{is_ipv4, GRH_BYTES};
use crate::rx::parse::REASON_BITS;
use crate::stream::{deep_fifo, fifo, forward, half, row_of, spare_fifo, through_fifo};
use crate::types::{Completion, QpFault, TableWrite, FAULT_BITS};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::queue::command::PathMtu;
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause, WcStatus};
use ferrowire_spec::queue::EventKind;

/// Pulses for the counters.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// A packet was dropped.
    pub dropped: Dropped,
    /// Duplicate requests.
    pub duplicate: Sig,
    /// Gaps.
    pub out_of_sequence: Sig,
    /// Sequence NAKs sent.
    pub sequence_naks: Sig,
    /// RNR NAKs sent.
    pub rnr_naks: Sig,
    /// Requests refused as invalid.
    pub invalid: Sig,
    /// Requests refused for key, domain, access or bounds.
    pub access: Sig,
    /// Requests that failed here.
    pub operation: Sig,
    /// Messages too long for their receive.
    pub length: Sig,
    /// Receives that end with an error.
    pub errors: Sig,
    /// Receives flushed.
    pub flushed: Sig,
    /// WRITE packets executed.
    pub writes: Sig,
}

/// Where a piece goes.
#[derive(Clone, Bundle)]
pub struct Target {
    /// Bus address of its first byte.
    pub address: Sig,
    /// Its write may pass others.
    pub relaxed: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Admitted {
    /// What to do with each packet, in order.
    pub place: Stream<Place>,
    /// Where the pieces go, in order.
    pub addresses: Stream<Target>,
    /// QPs that go to the error state.
    pub faults: Stream<QpFault>,
    /// Keys that peers invalidate.
    pub operations: Stream<Operation>,
    /// What becomes of a SEND that invalidates a key is decided.
    pub invalidated: Sig,
    /// A receive has ended, or one of a shared queue is held.
    pub completed: TableWrite<Done>,
    /// QPs in error that take nothing of their shared queue any more.
    pub lasts: Stream<Sig>,
    /// QPs whose life has ended.
    pub ends: Stream<Sig>,
    /// What became of a WRITE for which `check` waits.
    pub judged: Judged,
    /// A READ was granted.
    pub reads: GrantedRead,
    /// Counted events.
    pub counts: Counts,
}

/// What a lookup found.
#[derive(Clone, Bundle)]
struct Granted {
    ok: Sig,
    cause: Sig,
}

/// What stands of a QP.
#[derive(Clone, Bundle)]
struct Standing {
    /// It has failed, or its life is over: nothing of it has an effect.
    dead: Sig,
    /// A packet of its message was not executed, and nobody was told.
    spoilt: Sig,
}

/// Syndromes: ACK with its credit code, RNR NAK with that of its timer, NAKs (IBTA volume 1, 9.7.5.2).
const ACK: u32 = 0;
const RNR: u32 = 1;
pub(super) const NAK_SEQUENCE: u32 = 0x60;
const NAK_INVALID: u32 = 0x61;
pub(super) const NAK_ACCESS: u32 = 0x62;
pub(super) const NAK_OPERATION: u32 = 0x63;

/// The decision. `operated`: an operation has ended.
#[module]
pub fn admit(
    m: &Scope,
    cfg: &RnicConfig,
    pending: Stream<Pending>,
    answer: Translation,
    operated: Operated,
    flushed: Stream<Flushed>,
) -> Admitted {
    // A piece has its place in front of `place` before it is looked up; its answer and its address have theirs here.
    let target = Target { address: answer.address, relaxed: answer.relaxed };
    let address = Stream::new(m, "target", answer.valid, target);
    let granted = Stream::new(m, "granted", answer.valid, Granted { ok: answer.ok, cause: answer.cause });
    m.assert(!answer.valid | (address.ready & granted.ready), "an answer finds its place");
    let addresses = spare_fifo(&m.label("addresses"), WAITING, cfg.unhurried(), address);
    // A packet waits for the answer of its last piece alone: that one is seen as it comes.
    let answers = match cfg.unhurried() {
        true => half(&m.label("answer"), deep_fifo(&m.label("answers"), WAITING, granted)),
        false => through_fifo(&m.label("answers"), WAITING, granted),
    };

    // The answers of a packet's pieces, one a cycle.
    let seen = m.reg("seen", 6).reset(0);
    let refused = m.reg("refused", 1).reset(0);
    let first_cause = m.reg("first_cause", 8).no_reset();
    let cause_now = m.mux(refused, &first_cause, &answers.cause);
    // A packet passes a register, in the time in which its pieces are looked up: what stands of its QP is read meanwhile.
    let (enters, coming) = (pending.fire(), pending.payload.clone());
    let pending = half(&m.label("decided"), pending);
    let facts = &pending.facts;
    let [none, last, invalidates] =
        ["has_none", "is_last_piece", "invalidates"].map(|name| m.reg(name, 1).no_reset());
    m.when(enters, |m| {
        m.set(&none, coming.pieces.eq(0));
        m.set(&invalidates, coming.facts.invalidates(cfg));
    });
    // Where there is time, what stands of it is put together in the cycle in which it comes, and again behind a bar.
    let bars = m.wire("bars", 1);
    let there = cfg.known(m, "was_there", pending.valid, bars);
    let counts_one = there & !none & !last & answers.valid;
    m.when(enters, |m| m.set(&last, coming.pieces.eq(1)))
        .otherwise_when(counts_one, |m| m.set(&last, (seen + 2).eq(pending.pieces)));
    let known = there & (none | (last & answers.valid));
    let granted = none | (answers.ok & !refused);

    // The decision.
    let shape = Standing { dead: bits(1), spoilt: bits(1) };
    let standings = m.mem("standings", cfg.qps, &shape).style(Style::Distributed).build();
    let shape = TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: shape };
    let write = m.wire_of("stands", &shape);
    standings.write(write.enable, write.index, &write.entry);
    // What a packet's own decision writes is in the table when the next one comes to the register: only a bar changes it there.
    let bar = Standing { dead: lit(1, 1), spoilt: lit(1, 0) };
    let barred = TableWrite { enable: bars, index: flushed.qp, entry: bar };
    let standing = row_of(m, "standing", (enters, coming.facts.qp, facts.qp), &standings, &barred);
    // Each class that is decided on is a register, set as the packet comes.
    let is = |c: Class| {
        let is = m.reg(&format!("is_{}", format!("{c:?}").to_lowercase()), 1).no_reset();
        m.when(enters, |m| m.set(&is, c.is(coming.facts.class)));
        is
    };
    let [executing, crowding, repeating] = [Class::Execute, Class::Crowded, Class::Duplicate].map(is);
    let looked = |name: &str, fact: Sig| cfg.looked(m, name, fact);
    let (starts, life_ends, lasts) = (is(Class::Start), is(Class::End), is(Class::Last));
    let foreign = is(Class::Dropped);
    // What an answer brings does not depend on the responder's state.
    let (good_answer, bad_answer) = (is(Class::Answer), is(Class::BadAnswer));
    let answered = good_answer | bad_answer | is(Class::Stray);
    let dead = standing.dead & !foreign & !answered;
    let lives = !foreign & !dead & !starts & !life_ends & !answered & !lasts;
    let runs = looked("runs", lives & executing);
    let refused_invalid = looked("refused_invalid", lives & is(Class::Invalid));
    let repeats = looked("repeats", lives & repeating);
    let naks_gap = looked("naks_gap", lives & (is(Class::FirstGap) | crowding));
    let naks_ready = looked("naks_ready", lives & is(Class::NotReady));
    let out_of_turn = looked("out_of_turn", lives & is(Class::Gap));
    let unheard = looked("unheard", lives & is(Class::Unheard));
    let crowded = looked("crowded", lives & crowding);
    let [starts, life_ends, lasts, foreign, good_answer, bad_answer, answered, dead] = [
        ("starts", starts),
        ("life_ends", life_ends),
        ("is_last", lasts),
        ("foreign", foreign),
        ("good_answer", good_answer),
        ("bad_answer", bad_answer),
        ("answered", answered),
        ("dead", dead),
    ]
    .map(|(name, fact)| looked(name, fact));
    let walked = |w: Walk| w.is(pending.walk);
    let gone = runs & walked(Walk::Gone);
    // Of UC, what is behind a packet of its message that was not executed is not either: `walk` sees to that for a SEND.
    let spoilt = looked("spoilt", standing.spoilt & facts.quiet & !facts.begins);
    let granted = granted & (!spoilt | facts.send);
    let may_execute = runs & walked(Walk::Whole) & granted;
    // The key that it invalidates: asked once, when nothing else is wrong.
    let [asked, told] = ["asked", "told"].map(|name| m.reg(name, 1).reset(0));
    let told_ok = m.reg("told_ok", 1).no_reset();
    let told_cause = m.reg("told_cause", 8).no_reset();
    let asks = known & may_execute & invalidates & !asked;
    let operation = Operation {
        kind: lit(2, OperationKind::Invalidate.code()),
        qp: facts.qp,
        key: facts.imm,
        ..Operation::of(cfg).zeros()
    };
    let operation = Stream::new(m, "operation", asks, operation);
    m.assert(!operation.valid | operation.ready, "there is one operation at a time");
    let operations = forward(&m.label("operations"), operation);
    m.when(asks, |m| m.set(&asked, 1));
    m.when(operated.valid, |m| {
        m.set(&told, 1);
        m.set(&told_ok, operated.ok);
        m.set(&told_cause, operated.cause);
    });
    // What else is wrong with it is known a cycle later: no other decision waits for what its lookups found.
    let kept_out = m.reg("kept_out", 1).reset(0);
    let settled = !invalidates | m.mux(asked, &told, &kept_out);
    let executes = may_execute & (!invalidates | told_ok);
    let locked = may_execute & invalidates & !told_ok;
    // Those of UC and UD that do not go well have no more effect than those dropped before.
    let heard = !facts.quiet;
    let too_short = runs & walked(Walk::Short);
    let short = too_short & heard;
    let unread = runs & walked(Walk::Unread);
    let brings = good_answer & walked(Walk::Whole) & granted;
    let keeps_out = good_answer & walked(Walk::Whole) & !granted;
    let forbidden = runs & walked(Walk::Whole) & !granted;
    let (no_access, refused_local) = (forbidden & !facts.send, forbidden & facts.send);
    let refused_access = (no_access & heard) | locked;
    let passed_over = (too_short | no_access) & facts.quiet;
    // A late copy of a READ may ask for what is no longer granted; that is no reason to end the connection, but the reply engine knows then
    // that it brings nothing.
    let again = repeats & granted;
    let invalid = refused_invalid | short;
    let local = refused_local | unread;
    let ends_qp = refused_access | invalid | local;
    let syndrome = m.wire("syndrome", 8);
    m.set(&syndrome, cat(&[facts.code, lit(3, ACK)]));
    m.when(naks_gap, |m| m.set(&syndrome, NAK_SEQUENCE));
    m.when(naks_ready, |m| m.set(&syndrome, cat(&[facts.code, lit(3, RNR)])));
    m.when(invalid, |m| m.set(&syndrome, NAK_INVALID));
    m.when(refused_access, |m| m.set(&syndrome, NAK_ACCESS));
    m.when(local, |m| m.set(&syndrome, NAK_OPERATION));

    // The receive.
    let ends_message = executes & facts.ends;
    let lost = dead & facts.takes;
    let completes = (facts.holds & (ends_message | ends_qp)) | lost;
    let (status, cause) = (m.wire("status", 8), m.wire("cause", 8));
    m.set(&status, WcStatus::Success.code());
    m.set(&cause, LocalCause::None.code());
    let is_datagram = ends_message & facts.datagram;
    // Of a datagram the completion has the source in the place of a cause and above its length, and between these the family of the packet.
    m.when(is_datagram, |m| m.set(&cause, facts.psn.slice(16, 8)));
    const { assert!(GRH_BYTES + PathMtu::B4096.bytes() as u32 <= 1 << 15) };
    let source = cat([&facts.received.trunc(15), &is_ipv4(facts.offset), &facts.psn.trunc(16)]);
    let received = m.mux(facts.datagram, &source, &facts.received);
    let known_cause = |cause: LocalCause| lit(8, cause.code());
    for (yes, code, why) in [
        (refused_invalid, WcStatus::RemInvReqErr, known_cause(LocalCause::None)),
        (short, WcStatus::LocLenErr, known_cause(LocalCause::Length)),
        (refused_access, WcStatus::RemAccessErr, m.mux(locked, &told_cause, &cause_now)),
        (refused_local, WcStatus::LocProtErr, cause_now),
        (unread, WcStatus::LocProtErr, known_cause(LocalCause::Dma)),
        (bad_answer, WcStatus::BadRespErr, known_cause(LocalCause::Response)),
        (keeps_out, WcStatus::LocProtErr, cause_now),
        (good_answer & walked(Walk::Short), WcStatus::LocLenErr, known_cause(LocalCause::Length)),
        (good_answer & walked(Walk::Unread), WcStatus::LocQpOpErr, known_cause(LocalCause::Dma)),
        (lost, WcStatus::WrFlushErr, known_cause(LocalCause::None)),
    ] {
        m.when(yes, |m| {
            m.set(&status, code.code());
            m.set(&cause, why);
        });
    }

    let [place_room, fault_room, end_room, last_room] =
        ["place_room", "fault_room", "end_room", "last_room"].map(|name| m.wire(name, 1));
    // A flush has its turn where no packet is decided, and after each that is.
    let flush_turn = m.reg("flush_turn", 1).reset(0);
    let decides = known & settled & fault_room & (end_room | !life_ends) & (last_room | !lasts);
    // That none is, is known a cycle before: the decision is late. One that is ready then goes in the next cycle.
    let undecided = m.reg("undecided", 1).reset(0);
    m.set(&undecided, !decides);
    let flushes = flushed.valid & (flush_turn | undecided);
    let can = decides & !flushes;
    let tells = !starts & !lasts;
    let atomic_answer = cfg.only(cfg.atomics, answered & facts.kind.eq(Kind::Atomic.code()));
    let replies = facts.kind.ne(0) & (executes | repeats);
    let kind = replies.then(facts.kind, lit(2, Kind::Acknowledge.code()));
    let place_it = Place {
        write: (executes | brings) & facts.bytes.ne(0),
        frame: tells & !life_ends & !atomic_answer,
        value: atomic_answer,
        result: good_answer | bad_answer,
        pieces: pending.pieces,
        offset: facts.offset,
        bytes: facts.bytes,
        answer: (heard & ((executes & facts.ack_req) | ends_qp))
            | again
            | naks_gap
            | naks_ready
            | replies
            | life_ends,
        kind: life_ends.then(lit(2, Kind::End.code()), kind),
        operands: facts.kind.ne(0) & !answered,
        again: repeating,
        refused: repeats & !granted,
        counted: executing & facts.kind.ne(0),
        qp: facts.qp,
        psn: facts.psn,
        syndrome,
        msn: facts.msn + ends_message.zext(24),
        completes,
        completion: Completion {
            cq: facts.cq,
            qpn: facts.qp.zext(24),
            // Only status, QP and WQE count in an error completion (IBTA volume 1, 11.4.2.1).
            opcode: m.mux(ends_message, &facts.opcode, &lit(8, CqeOpcode::Recv as u32)),
            byte_len: ends_message.then(received, lit(32, 0)),
            wqe_index: facts.index,
            status,
            syndrome: cause,
            imm: facts.imm,
            imm_valid: ends_message & facts.imm_valid,
            invalidated: ends_message & invalidates,
            solicited: ends_message & facts.solicited,
            datagram: is_datagram,
            marker: lit(1, 0),
        },
    };
    let mut flush_it = Place::of(cfg).zeros();
    flush_it.completes = lit(1, 1);
    flush_it.completion = Completion {
        cq: flushed.cq,
        qpn: flushed.qp.zext(24),
        opcode: lit(8, CqeOpcode::Recv as u32),
        wqe_index: flushed.index,
        status: lit(8, WcStatus::WrFlushErr.code()),
        // Behind the last receive of a shared queue: not a completion.
        marker: flushed.last,
        solicited: flushed.last,
        ..Completion::of(cfg).zeros()
    };
    let place_valid = (can & tells) | (flushes & !flushed.bar);
    let place = Stream::new(m, "place", place_valid, m.mux(flushes, &flush_it, &place_it));
    m.drive(&place_room, place.ready);
    let place = half(&m.label("place"), place);
    let go = can & (place_room | !tells);
    let flush_goes = flushes & (place_room | flushed.bar);
    m.when(go, |m| m.set(&flush_turn, 1)).otherwise_when(flush_goes, |m| m.set(&flush_turn, 0));
    flushed.accept(flush_goes);
    // What is refused is told, for there may be no receive that ends with it (11.6.3); what fails here has one.
    let event =
        m.mux(invalid, &QpFault::told(EventKind::QpRequestError, &facts.qp).event, &lit(FAULT_BITS, 0));
    let event = m.mux(refused_access, &QpFault::told(EventKind::QpAccessError, &facts.qp).event, &event);
    let fault = Stream::new(m, "fault", go & ends_qp, QpFault { qp: facts.qp, event });
    m.drive(&fault_room, fault.ready);
    // The QP context takes no fault while a start waits: a QP has at most one, and all have their place.
    let faults = deep_fifo(&m.label("faults"), cfg.qps, half(&m.label("fault"), fault));
    // They leave from a register: their arbiter is slow.
    let faults = half(&m.label("fault_shown"), faults);
    m.set(&kept_out, known & !may_execute & !go);
    m.when(go, |m| {
        m.set(&asked, 0);
        m.set(&told, 0);
    });
    let invalidated = m.delay("invalidated", &(go & invalidates));
    let ends =
        Stream::new(m, "end", known & settled & fault_room & life_ends & !flushes & place_room, facts.qp);
    m.drive(&end_room, ends.ready);
    let last = Stream::new(m, "last", go & lasts, facts.qp);
    m.drive(&last_room, last.ready);
    let last_told = fifo(&m.label("lasts"), 2, last);

    pending.accept(go);
    answers.accept(counts_one | (go & !none));
    m.when(go, |m| {
        m.set(&seen, 0);
        m.set(&refused, 0);
    })
    .otherwise_when(counts_one, |m| {
        m.set(&seen, seen + 1);
        m.when(!answers.ok, |m| {
            m.set(&refused, 1);
            m.set(&first_cause, cause_now);
        });
    });

    // One write port: a bar is never taken in the cycle of a decision. What is executed, or passed over, is of one that lives; and
    // whatever stands of the message of a QP that is dead, or starts, means nothing.
    m.drive(&bars, flush_goes & flushed.bar);
    let marks = go & (ends_qp | gone | starts | life_ends);
    let notes = go & runs & facts.quiet;
    let standing = Standing { dead: bars | (marks & !starts), spoilt: passed_over & !facts.ends & !bars };
    let index = m.mux(bars, &flushed.qp, &facts.qp);
    m.set_all(&write, &TableWrite { enable: bars | marks | notes, index, entry: standing });

    // A message holds the receive that it has of a shared queue until it ends, and leaves it to the next if it is dropped; of a
    // QP's own queue it is the oldest.
    let holds = facts.shared & facts.holds & ((executes & !facts.ends) | passed_over);
    let index = m.mux(facts.shared, &facts.index, &(facts.index + 1));
    let done = Done { index, held: holds, cq: facts.cq };
    let completed = TableWrite { enable: go & ((completes & !lost) | holds), index: facts.qp, entry: done };
    // The way of the decision ends here.
    let completed = m.delay("completed", &completed);
    let late = (dead & !starts & !life_ends & !lasts) | gone;
    let code = |reason: DropReason| lit(REASON_BITS, reason.code());
    let reason = m.mux(late, &code(DropReason::QpState), &facts.opcode.trunc(REASON_BITS));
    let reason = m.mux(no_access, &code(DropReason::Malformed), &reason);
    let reason = m.mux(too_short, &code(DropReason::TooLong), &reason);
    // What `check` has dropped for more than its place in the sequence, it took for a part of the message.
    let [unreceived, malformed] = [DropReason::NoReceive, DropReason::Malformed]
        .map(|reason| facts.opcode.trunc(REASON_BITS).eq(reason.code()));
    let given_up = spoilt & (passed_over | (foreign & (unreceived | malformed)));
    let reason = m.mux(given_up, &code(DropReason::Sequence), &reason);
    let reason = m.mux(crowded, &code(DropReason::Overrun), &reason);
    let judged = Judged { valid: go & facts.judged & !facts.send, refused: passed_over };
    let judged = m.delay("judged", &judged);
    let reads = go & executes & facts.kind.eq(Kind::Read.code());
    let reads = m.delay("reads", &GrantedRead { valid: reads, qp: facts.qp, psn: facts.psn });
    let counts = Counts {
        dropped: Dropped { valid: go & (foreign | late | passed_over | crowded), reason },
        duplicate: go & (repeats | unheard),
        out_of_sequence: go & ((naks_gap & !crowded) | out_of_turn),
        sequence_naks: go & naks_gap,
        rnr_naks: go & naks_ready,
        invalid: go & invalid,
        access: go & refused_access,
        operation: go & local,
        length: go & short,
        errors: go & completes & ends_qp,
        flushed: (flush_goes & !flushed.bar & !flushed.last) | (go & lost),
        writes: go & executes & !facts.send & facts.kind.eq(0),
    };
    // Who counts is not in a hurry.
    let counts = m.delay("counted", &counts);
    Admitted {
        place,
        addresses,
        faults,
        operations,
        invalidated,
        completed,
        lasts: last_told,
        ends,
        judged,
        reads,
        counts,
    }
}
