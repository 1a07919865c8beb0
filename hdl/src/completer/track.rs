// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages end.
//!
//! ```text
//!  answer  --+            +---------------------+         +----------+--> entry --> settle --> CQ
//!            |            |                     |         |          |--> answered --> scatter
//!  expiry  --+            | row of the QP       |-------->| pool of  |--> fault: QP to error
//!  failed  --+--> event ->| head, oldest,       |  lists  | messages |--> kick: room again
//!  flush   --+            | tries ..            |         +----------+--> freed: back to record
//!  init    --+            +---------------------+--> restart --> segment
//!  reset   --+                 |        ^       +--> progress, pause --> timer
//!                              +- line -+ QPs that are being flushed
//! ```
//!
//! An acknowledgement whose message is the oldest costs 3 cycles: what it says of the message is compared in one cycle and done in the
//! next, in which the next answer is taken already. Each further message that it completes along costs 2 more; one of a part of a message and a
//! ghost cost 4, a NAK that makes the QP send again 5. Where beats are narrow no answer is taken in such a cycle, each look at a
//! message costs a cycle more. A completion of a flush costs two. What these depend on is compared in cycles of its own.
//!
//! An acknowledgement of PSN p acknowledges everything up to p; a NAK of p everything before p. One whose PSN is not
//! between the oldest unacknowledged and the newest sent is a ghost and is dropped (IBTA volume 1, 9.7.5.1.1), and so is one
//! with a reserved code. NAK codes 1 to 3 complete the message with the cause, the QP goes to the error state, and
//! everything behind is flushed in order, up to the producer's index that the scheduler hands over. A WQE that failed
//! before it was sent ends with its cause once it is the oldest. Answers count only in RTS and SQD, flushes only in the
//! error state: what comes late for a QP that was taken down completes nothing (10.3.1).
//!
//! A READ response or an atomic acknowledgement acknowledges what is before it; in its turn, it goes on to `scatter`, which
//! places what it brings. One that comes early, or any answer for what is behind a READ or atomic that has not been answered,
//! is an implied NAK (9.7.5.1.1); one for something else is a bad response (9.9.2.1): its token fails in `settle`, and answers are
//! taken until the QP is in the error state. What ends goes through `settle`,
//! where it waits for what was placed before.
//!
//! **Selective retransmission** (`docs/src/selective.md`): of a QP with it responses come in order, but those that were asked for again have the
//! opcodes of a request of their own: the PSN alone tells their place. An acknowledgement or NAK for what is after an unanswered READ or
//! atomic is no implied NAK. It acknowledges what is before that, and waits: one per QP, the one with the newest PSN. When that READ or
//! atomic ends, or a NAK's own response is the next one, it is worked on in 4 cycles (5 in a narrow card) of the same event, and may have to wait again. A NAK that waits for
//! the peer to be sent something again is forgotten when the QP goes back. A response that comes early is an implied NAK as before.
//! Each answer that counts names the QP in `eased`, a NAK too: the QP's window has moved.
//!
//! UC and UD have nobody who acknowledges (9.8.1, 9.8.3): what `record` says of a QP with sent messages stands for an acknowledgement
//! of all that it has sent, and costs as much; what comes from the wire for such a QP is dropped. A send queue that goes on after
//! an error is flushed first as far as it was told of WQEs, in turns as any other; behind the last of these it starts anew, which
//! `recovered` tells.
//! A bind or an invalidation has no packet: it ends when it is the oldest, with whatever event finds it there, one of `record` at
//! least. Where one stands in the list behind others, each acknowledgement looks at the message behind those that it completes.
//! One that has taken a window back ends when nothing is under way by that any more (10.6.7.2.5): `withdrawals` tells, and an event
//! comes behind. Until then it stands, and its QP has sent nothing that is behind it.
//!
//! After a sequence NAK, a time-out, or the pause that follows an RNR NAK, the QP goes back to its oldest PSN. A sequence
//! NAK counts once, until something new is acknowledged or the time is out; RNR NAKs count once a pause. Retries are counted
//! apart for the two, and progress gives all of them back; an RNR NAK gives back the others, for it is an answer. When none
//! is left, the oldest WQE ends with the cause (9.7.5.1.6, 9.7.6.1.3, 9.9.2.1). A NAK that finds no room on the way to
//! the segmenter is lost like one on the wire.
//!
//! Acknowledgements tell how many messages the peer has receives for, counted from its MSN (9.7.7.2). Here they are counted from the oldest message,
//! which is the next of that number: what ends takes one, but for binds and invalidations, which have no number, and `oldest` tells how
//! many are left. READ responses and atomic acknowledgements count as well; a READ that the peer has begun to answer is not done here, so
//! that it is one less than the peer means until the last response. What tells no number (code 31) lifts the limit. Only the latest
//! counts. `eased` names the QP then, and with whatever else makes its oldest message another one: it may wait for that.
//! A start has no limit until an acknowledgement tells one; an acknowledgement that acknowledges nothing is a ghost, and tells none.
//!
//! An answer that met congestion asks for a CNP (A17.9.3) where it is the QP's peer's, the QP waits for answers, and its PSN is one
//! between the oldest unacknowledged and the newest sent: of what kind it is and what becomes of it does not matter. What is dropped as a ghost or
//! comes from elsewhere asks for none.
//!
//! A QP in SQD is told up to where its WQEs were begun. When the oldest is behind these, a mark follows the last of their completions
//! (10.3.1.5); it is looked for in a turn of its own, 3 cycles, behind each answer. It is forgotten where the QP leaves SQD before.
//!
//! A flush takes turns with the others, some completions at a time. While `late` says that packets may be on the wire which
//! are not known here, answers wait.
//!
//! A QP that goes to RESET, or starts, gives back the places that it left behind; behind its last completion it sends a mark
//! to the completion writer, so that the command ends when nothing of the life comes any more; `oldest` tells of the start in the
//! second cycle, before the QP may send. Faults have a place for each QP, so that a start never waits for them.
//!
//! Reset: the heads are set one QP a cycle, QP `q` to place `q`, as in `record`.

use crate::completer::record::{place_bits, places, Freed, Front, Message};
use crate::completer::scatter::{AnswerClass, Answered};
use crate::completer::settle::Entry;
use crate::config::RnicConfig;
use crate::context::congestion::Marked;
use crate::context::timer::{Expired, Pause, Progress};
use crate::memory::Withdrawals;
use crate::path::same_partition;
use crate::requester::{is_local, Flush, Restart};
use crate::rx::address::gid_bits;
use crate::rx::buffer::Dropped;
use crate::rx::parse::opcode_is;
use crate::rx::peer::Origin;
use crate::stream::{deep_fifo, few, fifo, forward, prompt_fifo, row_of, spare_fifo};
use crate::types::{
    credit_bits, Completion, Headers, Oldest, QpBroadcast, SqStart, TableWrite, READ_BITS, STAY_BITS,
    TOLD_BITS,
};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::queue::SendOpcode;
use ferrowire_spec::wire::ipv4::ECN_CE;
use ferrowire_spec::wire::opcode::{Opcode, Operation, Service};
use ferrowire_spec::wire::syndrome::{credits as credits_of, CREDIT_INVALID};

/// What comes out.
#[derive(Interface)]
pub struct Tracked {
    /// How messages end, in order, each behind what its answer still has to bring.
    pub entries: Stream<Entry>,
    /// Of each READ response and atomic acknowledgement, in order, what is to be done with it.
    pub answered: Stream<Answered>,
    /// What an atomic found, one for each of its acknowledgements.
    pub values: Stream<Sig>,
    /// QPs that go to the error state.
    pub faults: Stream<Sig>,
    /// QPs that may have room for more messages.
    pub kicks: Stream<Sig>,
    /// QPs with a limit of messages, which may have moved, or of which all that they have taken back may be over.
    pub eased: Stream<Sig>,
    /// What is oldest of a QP has moved.
    pub oldest: TableWrite<Oldest>,
    /// QPs that send again, or hold.
    pub restarts: Stream<Restart>,
    /// For the timers, which take both at once: something was acknowledged, or the QP starts.
    pub progress: Stream<Progress>,
    /// And the peer is not ready.
    pub pause: Stream<Pause>,
    /// A message's place in the pool is free again.
    pub freed: Freed,
    /// A send queue that goes on after an error has been flushed.
    pub recovered: Sig,
    /// Answers that met congestion.
    pub marked: Marked,
    /// Counted events.
    pub counts: Counts,
}

/// Pulses for the counters.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// An answer was dropped.
    pub dropped: Dropped,
    /// Sequence NAKs.
    pub sequence_naks: Sig,
    /// Answers of READs or atomics that are missing, for a later one came.
    pub implied_naks: Sig,
    /// RNR NAKs.
    pub rnr_naks: Sig,
    /// RNR NAKs after the last retry.
    pub rnr_exceeded: Sig,
    /// Other reasons to go back after the last retry.
    pub retry_exceeded: Sig,
    /// Time-outs.
    pub timeouts: Sig,
    /// NAKs 0x61.
    pub invalid_requests: Sig,
    /// NAKs 0x62.
    pub access_errors: Sig,
    /// NAKs 0x63.
    pub operation_errors: Sig,
    /// WQEs completed with an error.
    pub errors: Sig,
    /// WQEs flushed.
    pub flushed: Sig,
}

/// What has ended and waits for what it brings to be in memory: that takes some 30 cycles.
const ENTRIES: u32 = 32;

/// Answers that wait for their frames.
const ANSWERS: u32 = 8;

/// What atomics found: more than there are answers between here and `place`.
const VALUES: u32 = 32;

/// Completions of a flush before the others have their turn.
const FLUSHED_AT_ONCE: u32 = 16;

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Row,
    /// A QP is to be flushed, or is taken out of the line of those.
    Enlist,
    /// The message that was read is compared.
    Look,
    /// In a card that is not in a hurry: what follows from that is put together.
    Judge,
    Pop,
    /// The answer that was kept is taken up.
    Kept,
    Retry,
    Fail,
    Fault,
    Free,
    Flush,
}

#[derive(Clone, Bundle)]
struct Row {
    head: Sig,
    /// PSN of the oldest message's first packet.
    first_psn: Sig,
    oldest_psn: Sig,
    oldest_index: Sig,
    /// Flushed up to this index.
    until: Sig,
    dead: Sig,
    /// In the line of those that are being flushed.
    flushing: Sig,
    /// An answer waits for what the oldest message has to be answered with.
    kept: Sig,
    /// Has gone back after a sequence NAK; another says nothing new.
    asked: Sig,
    /// Waits for a peer that is not ready.
    paused: Sig,
    /// There may be a message without a packet behind the oldest.
    silent: Sig,
    /// Goes on once it has been flushed.
    recovers: Sig,
    /// In SQD: all up to `until` are waited for, in this stay.
    draining: Sig,
    stay: Sig,
    tries: Sig,
    rnr_tries: Sig,
    /// As in [`Oldest`].
    bounded: Sig,
    credits: Sig,
    told: Sig,
    reads: Sig,
}

#[derive(Clone, Bundle)]
struct Copy {
    cq: Sig,
    peer: Sig,
    gid: Sig,
    pkey: Sig,
    retry_cnt: Sig,
    rnr_retry: Sig,
    pd: Sig,
    mtu: Sig,
    service: Sig,
    selective: Sig,
}

/// An answer that waits for a READ or an atomic before it.
#[derive(Clone, Bundle)]
struct Kept {
    psn: Sig,
    syndrome: Sig,
}

/// What there is to know of it.
struct KeptAnswer {
    psn: Sig,
    syndrome: Sig,
    /// Its PSN is not after that of the answer that is looked at.
    older: Sig,
    /// It asks for something to be sent again.
    repeats: Sig,
}

/// The answers that wait, one a QP, read with the row of the QP that is `chosen`. What is `kept` is so at the end of an event.
fn kept_answers(
    m: &Scope,
    cfg: &RnicConfig,
    (reads, chosen): (Sig, Sig),
    kept: (Sig, Sig, Kept),
) -> KeptAnswer {
    let (keeps, qp, answer) = kept;
    let Kept { psn, syndrome } = match cfg.selective {
        true => {
            let table = m.mem("kept", cfg.qps, &answer).style(Style::Block).build();
            table.write(keeps, qp, &answer);
            table.read(m, reads, chosen, Collision::Never)
        }
        false => answer.zeros(),
    };
    let kind = syndrome.slice(5, 3);
    let repeats = kind.eq(1) | (kind.eq(3) & syndrome.trunc(5).eq(0));
    let older = m.delay("kept_is_older", &!(answer.psn - psn).bit(23));
    KeptAnswer { psn, syndrome, older, repeats }
}

/// What happens to QPs.
#[derive(Interface)]
pub struct Events {
    /// One goes to RESET.
    pub reset: Stream<Sig>,
    /// One starts.
    pub init: Stream<SqStart>,
    /// Its peer answers.
    pub answer: Stream<Headers>,
    /// A WQE of it has failed here, or one without a packet may end.
    pub failed: Stream<Sig>,
    /// Messages of it are done that nobody acknowledges.
    pub own: Stream<Sig>,
    /// It is in the error state, or in SQD.
    pub flush: Stream<Flush>,
    /// Its timer has expired.
    pub expired: Stream<Expired>,
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

/// The completer. `withdrawals`: what was taken back, and is not over; `late`: packets may be on the wire that are not known here.
#[module]
pub fn track(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    written: Written,
    events: Events,
    withdrawals: TableWrite<Withdrawals>,
    late: Sig,
) -> Tracked {
    let Events { reset, init, answer: answers, failed, own, flush, expired } = events;
    let (qp_bits, place_bits) = (cfg.qp_bits(), place_bits(cfg));
    let state = m.fsm("state", State::Sweep);
    let sweeping = state.is(State::Sweep);

    // One event at a time: resets and starts first, which `record` never offers together, then answers and the others in
    // turn.
    let idle = state.is(State::Idle);
    // Where time is short, an answer is taken in the cycle in which the one before it ends, as most do.
    let follows = m.wire("follows", 1);
    let known = answers.dest_qpn.lt(cfg.qps);
    let is = |of: fn(Opcode) -> bool| opcode_is(answers.opcode, |o| cfg.speaks(o) && of(o));
    let is_response = is(|o| o.operation() == Operation::ReadResponse);
    let is_atomic = is(|o| o == Opcode::RcAtomicAcknowledge);
    let is_reply = is_response | is_atomic;
    let answer_room = m.wire("answer_room", 1);
    let (kick_room, restart_room) = (m.wire("kick_room", 1), m.wire("restart_room", 1));
    let eased_room = m.wire("eased_room", 1);
    let (work, works) = m.later("work", &bits(qp_bits));
    let others_turn = m.reg("others_turn", 1).reset(0);
    let expires = expired.valid & restart_room;
    let others = failed.valid | flush.valid | expires | work.valid;
    let free_to = !reset.valid & !init.valid & kick_room & eased_room;
    let answers_wait = answers.valid & !late & answer_room;
    let is_reset = idle & reset.valid;
    let is_init = idle & init.valid;
    // Answers and what stands for one, in turn.
    let own_turn = m.reg("own_turn", 1).reset(0);
    let turn = free_to & !(others_turn & others);
    let is_own = idle & turn & own.valid & (own_turn | !answers_wait);
    // Whether the answer before ends is known late, and is the last to be looked at. An answer to an unknown QP is dropped in the cycle in
    // which it is taken, and one answer can be dropped in a cycle: so it does not follow.
    let answers_turn = turn & answers_wait & !(own_turn & own.valid);
    let (answers_known, answers_none) = (answers_turn & known, idle & answers_turn & !known);
    let is_known = (idle | follows) & answers_known;
    let is_answer = is_known | answers_none;
    let takes = idle & free_to & (others_turn | !(answers_wait | own.valid));
    let is_failed = takes & failed.valid;
    let is_flush = takes & flush.valid & !failed.valid;
    let is_expired = takes & expires & !failed.valid & !flush.valid;
    let is_work = takes & work.valid & !failed.valid & !flush.valid & !expires;
    m.when(is_answer, |m| m.set(&own_turn, 1)).otherwise_when(is_own, |m| m.set(&own_turn, 0));
    own.accept(is_own);
    m.when(is_answer | is_own, |m| m.set(&others_turn, 1))
        .otherwise_when(is_failed | is_flush | is_expired | is_work, |m| m.set(&others_turn, 0));
    reset.accept(idle);
    init.accept(idle);
    answers.accept(is_answer);
    failed.accept(is_failed);
    flush.accept(is_flush);
    expired.accept(is_expired);
    work.accept(is_work);
    m.discard(&answers.payload);
    let others_start = is_reset | is_init | is_failed | is_own | is_flush | is_expired | is_work;
    let starts = others_start | is_known;
    // That an event begins is known late: where time is short, what is loaded and read where one may is not looked at where none does.
    let may_start = if cfg.unhurried() { starts } else { idle | follows };
    let mut chosen = work.payload;
    for (yes, qp) in [
        (is_expired, expired.qp),
        (is_flush, flush.qp),
        (is_own, own.payload),
        (is_failed, failed.payload),
        (is_init, init.qp),
        (is_reset, reset.payload),
    ] {
        chosen = m.mux(yes, &qp, &chosen);
    }
    let chosen = m.mux(others_start, &chosen, &answers.dest_qpn.trunc(qp_bits));
    let qp = m.reg("qp", qp_bits).reset(0);
    let by = |name: &str| m.reg(&format!("by_{name}"), 1).reset(0);
    let (by_reset, by_init, by_answer, by_flush) = (by("reset"), by("init"), by("answer"), by("flush"));
    let (by_timeout, by_pause, by_work) = (by("timeout"), by("pause"), by("work"));
    // Stands for an acknowledgement of all that was sent; it goes on after an error, once it is flushed.
    let (by_own, by_recover) = (by("own"), by("recover"));
    let recover_psn = m.reg("recover_psn", 24).no_reset();
    m.when(is_init & init.recovers, |m| m.set(&recover_psn, init.psn));
    let by_look = by("look");
    // An answer that was kept.
    let by_kept = if cfg.selective { by("kept") } else { lit(1, 0) };
    // In SQD: what is in progress is waited for.
    let (by_drain, stay) = (by("drain"), m.reg("stay", STAY_BITS).no_reset());
    let psn = m.reg("psn", 24).no_reset();
    let origin = m.reg_of("origin", &Origin::of());
    m.discard(&origin.selective);
    let gid = m.reg("gid", gid_bits()).no_reset();
    let pkey = m.reg("pkey", 16).no_reset();
    let syndrome = m.reg("syndrome", 8).no_reset();
    // Of a READ response or an atomic acknowledgement.
    let by_reply = by("reply");
    let by_atomic = by("atomic");
    let begins = m.reg("begins", 1).no_reset();
    let ends = m.reg("ends", 1).no_reset();
    // It has an AETH, of an acknowledgement.
    let grants = m.reg("grants", 1).reset(0);
    let met_congestion = m.reg("met_congestion", 1).no_reset();
    let offset = m.reg("offset", 7).no_reset();
    let bytes = m.reg("bytes", 13).no_reset();
    let value = m.reg("value", 64).no_reset();
    let until = m.reg("until", 16).no_reset();
    m.when(may_start, |m| {
        m.set(&qp, chosen);
        m.set(&by_reset, is_reset);
        m.set(&by_init, is_init & !init.recovers);
        m.set(&by_answer, is_answer | is_own);
        m.set(&by_own, is_own);
        m.set(&by_recover, is_init & init.recovers);
        m.set(&by_flush, is_flush & !flush.drains);
        m.set(&by_drain, is_flush & flush.drains);
        m.set(&stay, flush.stay);
        m.set(&by_timeout, is_expired & !expired.pause);
        m.set(&by_pause, is_expired & expired.pause);
        m.set(&by_work, is_work);
        m.set(&by_look, is_failed);
        m.set(&psn, m.mux(is_init, &init.psn, &answers.psn));
        m.set_all(&origin, &answers.origin);
        m.set(&gid, answers.gid);
        m.set(&pkey, answers.pkey);
        m.set(&syndrome, m.mux(is_own, &lit(8, 0), &answers.syndrome));
        m.set(&by_reply, is_answer & is_reply);
        m.set(&by_atomic, is_answer & is_atomic);
        m.set(&begins, is(|o| o.position().begins()));
        m.set(&ends, is(|o| o.position().ends()));
        let has_aeth = !is(|o| o == Opcode::RcReadResponseMiddle);
        m.set(&grants, is_answer & has_aeth & answers.syndrome.slice(5, 3).eq(0));
        m.set(&met_congestion, is_answer & answers.ecn.eq(ECN_CE));
        m.set(&offset, answers.payload_offset);
        m.set(&bytes, answers.payload_bytes);
        m.set(&value, answers.va);
        m.set(&until, m.mux(is_init, &init.index, &flush.producer));
    });

    // The tables.
    let row_shape = Row {
        head: bits(place_bits),
        first_psn: bits(24),
        oldest_psn: bits(24),
        oldest_index: bits(16),
        until: bits(16),
        dead: bits(1),
        flushing: bits(1),
        kept: bits(1),
        asked: bits(1),
        paused: bits(1),
        silent: bits(1),
        recovers: bits(1),
        draining: bits(1),
        stay: bits(STAY_BITS),
        tries: bits(3),
        rnr_tries: bits(3),
        bounded: bits(1),
        credits: bits(credit_bits(cfg)),
        told: bits(TOLD_BITS),
        reads: bits(READ_BITS),
    };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &row_shape);
    // Whether an event ends is known late: what it makes of the row is written in each of its cycles.
    let works_on_row = !(idle | state.is(State::Row));
    m.assert(!row_write | works_on_row, "a row is written after it was read");
    rows.write(works_on_row, qp, &next);
    let stored = rows.read(m, may_start, chosen, Collision::Any);
    let given = &broadcast.attributes;
    let copy_of = |a: &crate::types::QpAttributes| Copy {
        cq: a.send_cq,
        peer: a.peer,
        gid: a.gid,
        pkey: a.pkey,
        retry_cnt: a.retry_cnt,
        rnr_retry: a.rnr_retry,
        pd: a.pd,
        mtu: a.mtu,
        service: a.service,
        selective: a.selective,
    };
    let copy = copy_of(&crate::types::QpAttributes::of(cfg));
    let copies = m.mem("copies", cfg.qps, &copy).style(Style::Block).build();
    let has_agreed = cfg.only(cfg.selective, given.entry.selective);
    copies.write(given.enable, given.index, &Copy { selective: has_agreed, ..copy_of(&given.entry) });
    // Attributes that are written in the cycle in which they are read count from the next event on.
    let copy = copies.read(m, may_start, chosen, Collision::Old);
    let selective = cfg.only(cfg.selective, copy.selective);
    let keeps = m.wire("keeps", 1);
    let kept_now = (keeps, qp, Kept { psn, syndrome });
    let kept = kept_answers(m, cfg, (may_start, chosen), kept_now);
    let fronts = m.mem("fronts", cfg.qps, &Front::of(cfg)).style(Style::Block).build();
    fronts.write(written.front.enable, written.front.index, &written.front.entry);
    let front = fronts.read(m, may_start, chosen, Collision::New);
    // A withdrawal is told before its message comes.
    m.discard(&withdrawals.entry.count);
    let opens = m.mem("open", cfg.qps, &bits(1)).style(Style::Block).build();
    opens.write(withdrawals.enable, withdrawals.index, &withdrawals.entry.open);
    let open = opens.read(m, may_start, chosen, Collision::New);
    // What is sent while the event lasts is not in `front`.
    let sent_meanwhile = m.reg("sent_meanwhile", 1).no_reset();
    let without_packet = written.pool.enable & is_local(cfg, written.pool.entry.opcode);
    let sends_now = written.front.enable & written.front.index.eq(qp) & !without_packet;
    m.when(may_start, |m| m.set(&sent_meanwhile, 0)).otherwise_when(sends_now, |m| m.set(&sent_meanwhile, 1));
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Block).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let qp_state = row_of(m, "state", (may_start, chosen, qp), &states, &broadcast.state);
    let is_in = |states: &[QpState]| states.iter().fold(lit(1, 0), |any, s| any | qp_state.eq(s.code()));
    let (waits, errs) = (is_in(&[QpState::Rts, QpState::Sqd]), is_in(&[QpState::Err, QpState::Sqe]));
    // After the row's cycle these are registers: a state that is written meanwhile counts a cycle later.
    let still_waits = m.delay("still_waits", &waits);
    let in_error = m.delay("in_error", &errs);
    let in_sqd = m.delay("in_sqd", &is_in(&[QpState::Sqd]));

    // In the row's cycle it comes from the table; all work is done on the copy here.
    let at_row = state.is(State::Row);
    let row = m.reg_of("row", &row_shape);
    // If the next answer is for the same QP, its row is written while it is read: the new row is in the register.
    let same = m.reg("same", 1).no_reset();
    let takes_stored = m.reg("takes_stored", 1).reset(0);
    let is_same = cfg.only(!cfg.unhurried(), follows & answers.dest_qpn.trunc(qp_bits).eq(qp));
    m.when(may_start, |m| m.set(&same, is_same));
    m.set(&takes_stored, starts & !is_same);
    let loaded = stored;
    let stored = m.mux(same, &row, &loaded);
    let nothing = stored.head.eq(front.tail);
    let none = m.reg("none", 1).no_reset();

    // The pool. A place is read only once a message has been written there: never at the tail.
    let pool = m.mem("pool", places(cfg), &Message::of()).style(cfg.large(places(cfg))).build();
    pool.write(written.pool.enable, written.pool.index, &written.pool.entry);
    let links = m.mem("links", places(cfg), &bits(place_bits)).style(cfg.large(places(cfg))).build();
    links.write(written.links.enable, written.links.index, &written.links.entry);
    let following = m.wire("following", place_bits);
    let pops = m.wire("pops", 1);
    let at_free = state.is(State::Free);
    let frees = at_free & !none;
    let was_last = following.eq(front.tail);
    m.when(at_row, |m| m.set(&none, nothing)).otherwise_when(pops | frees, |m| m.set(&none, was_last));
    let first_look = at_row & !nothing;
    let next_look = (pops | frees) & !was_last;
    let look_at = m.mux(at_row, &stored.head, &following);
    // An entry is read for each row, also where the list is empty: that is known late, and then the entry is not used.
    let looks = at_row | next_look;
    for (enable, index) in
        [(written.pool.enable, written.pool.index), (written.links.enable, written.links.index)]
    {
        let meets = enable & index.eq(look_at);
        m.assert(!((first_look | next_look) & meets), "what is looked at is not written now");
    }
    let oldest = pool.read(m, looks, look_at, Collision::Any);
    // What it is compared with stays while it does. What is done with it begins at registers.
    let looked = |name: &str, s: Sig| cfg.fact(m, name, s);
    let judged = |name: &str, s: Sig| m.delay(name, &s);
    m.drive(&following, links.read(m, looks, look_at, Collision::Any));

    // Where nobody else acknowledges, all that was sent is.
    let newest = front.next_psn - 1;
    m.when(at_row & by_own, |m| m.set(&psn, newest));
    m.when(at_row & by_work, |m| m.set(&psn, recover_psn));

    // An answer: is it for something sent, and what does it acknowledge?
    let kind = syndrome.slice(5, 3);
    let code = syndrome.trunc(5);
    let is_ack = by_reply | kind.eq(0);
    let is_rnr = !by_reply & kind.eq(1);
    let reserved = !by_reply & (kind.eq(2) | kind.ge(4) | (kind.eq(3) & code.ge(4)));
    // Fewer than 2^23 PSNs are under way: a sign tells which side of a PSN another lies on.
    let before_oldest = (psn - stored.oldest_psn).bit(23);
    let before_next = (psn - front.next_psn).bit(23);
    let all_done = stored.oldest_psn.eq(front.next_psn);
    let ghost = m.mux(by_own, &all_done, &(before_oldest | !before_next));
    let foreign = !origin.is(copy.peer) | gid.ne(copy.gid);
    let same_key = same_partition(pkey, copy.pkey);
    let ignored = m.reg("ignored", 1).no_reset();
    let stray = copy.service.ne(Service::Rc.code()) | foreign | !same_key | reserved;
    // What `record` said may be of a life before, of another service.
    let not_own = copy.service.eq(Service::Rc.code());
    let ignores = stored.dead | !waits | (by_answer & (ghost | m.mux(by_own, &not_own, &stray)));

    // The reasons to drop one are those of requests, in their order; what is left is a ghost.
    let why = m.reg("why", Dropped::of().reason.width()).no_reset();
    // The state is known last.
    let by_state = m.reg("by_state", 1).no_reset();
    m.when(at_row, |m| {
        m.set(&why, DropReason::GhostAck.code());
        m.set(&by_state, copy.mtu.ne(0) & (!waits | stored.dead));
        m.when(copy.mtu.eq(0), |m| m.set(&why, DropReason::NoQp.code()))
            .otherwise_when(!not_own, |m| m.set(&why, DropReason::Service.code()))
            .otherwise_when(!same_key, |m| m.set(&why, DropReason::Pkey.code()))
            .otherwise_when(!origin.is(copy.peer), |m| m.set(&why, DropReason::SourceAddress.code()))
            .otherwise_when(gid.ne(copy.gid), |m| m.set(&why, DropReason::Destination.code()))
            .otherwise_when(reserved, |m| m.set(&why, DropReason::Malformed.code()));
    });
    let why = m.mux(by_state, &lit(why.width(), DropReason::QpState.code()), &why);
    let unknown = answers_none;
    let reason = m.mux(unknown, &lit(why.width(), DropReason::NoQp.code()), &why);

    let was_row = m.reg("was_row", 1).reset(0);
    m.set(&was_row, at_row);
    let marked = Marked { valid: was_row & met_congestion & !ignored, qp };

    // It acknowledges its PSN, too; a NAK, or what a READ or atomic is answered with, only what is before that.
    let inclusive = is_ack & !by_reply;
    // The PSN after the last one that is acknowledged, from the cycle after the look on.
    let resume = m.delay("resume", &(psn + is_ack.zext(24)));
    let (advances, outstanding) = (m.reg("advances", 1).no_reset(), m.reg("outstanding", 1).no_reset());
    m.when(at_row, |m| {
        m.set(&advances, is_ack | psn.ne(stored.oldest_psn));
        m.set(&outstanding, stored.oldest_psn.ne(front.next_psn));
    });
    let at_pop = state.is(State::Pop);
    // How far the failed WQE is.
    let to_failed = m.reg("to_failed", 16).no_reset();
    m.when(at_row, |m| m.set(&to_failed, front.failed_index - stored.oldest_index))
        .otherwise_when(pops, |m| m.set(&to_failed, to_failed - 1));
    let local = looked("local", front.failed & to_failed.eq(0));
    // Of a QP with selective retransmission the PSN alone says which response it is: a part of a READ may have been asked for again,
    // and its responses have the opcodes of that part.
    // A READ or an atomic ends with its own last answer, and with nothing else. A response is one of its READ's where it comes
    // in turn and in place (IBTA volume 1, 9.7.5.1.3): LAST and ONLY at its end, MIDDLE and LAST not at its beginning. FIRST and ONLY
    // stand where one of the requests for it began; where these were is not kept, so they are taken anywhere.
    let in_turn = looked("in_turn", row.oldest_psn.eq(psn));
    let is_last = looked("is_last", oldest.last_psn.eq(psn));
    let has_first = looked("has_first", begins | row.first_psn.ne(psn) | selective);
    let good_syndrome = (!begins & !ends) | kind.eq(0);
    let of_read = looked("of_read", oldest.opcode.eq(SendOpcode::Read.code()));
    let answered = looked("of_reply", oldest.answered);
    let in_place = m.mux(by_atomic, &!of_read, &(of_read & has_first & (ends.eq(is_last) | selective)));
    let matches = by_reply & answered & in_turn & in_place & good_syndrome;
    // The lowest bits carry the one that is taken off where the PSN itself does not count.
    let reach = cat(&[inclusive, psn]) + cat(&[lit(1, 1), !oldest.last_psn]);
    let behind = looked("behind", !reach.bit(24));
    let reached = m.mux(answered, &(matches & is_last), &behind);
    let is_silent = looked("is_silent", is_local(cfg, oldest.opcode));
    // Nothing behind what is not over has been sent, so that no answer is for it; there is another look.
    let held = looked("held", oldest.withdraws & open);
    let acked = !ignored & !none & !local & !held & ((by_answer & reached) | is_silent);
    let acked = at_pop & judged("acks", acked);
    let local = judged("is_local_failure", local);
    let entry_room = m.wire("entry_room", 1);
    m.set(&pops, acked & entry_room);
    let answers_it = pops & answered;
    // What the answer brings is on its way, and something has been acknowledged.
    let (placed, popped) = (m.reg("placed", 1).no_reset(), m.reg("popped", 1).no_reset());
    m.when(at_row, |m| {
        m.set(&placed, 0);
        m.set(&popped, 0);
    });
    m.when(pops & !is_silent, |m| m.set(&popped, 1));
    m.when(answers_it, |m| m.set(&placed, 1));
    // Mostly the answer is for the oldest message, and nothing is left to be looked at.
    let ends_all = by_answer & is_ack & is_last & !front.failed & !is_silent & !row.silent & !row.kept;
    let exact = pops & judged("ends_all", ends_all);
    m.drive(&follows, cfg.only(!cfg.unhurried(), exact));
    let settled = at_pop & !acked & (entry_room | !by_reply);
    let counts = settled & !ignored;
    let local_fails = counts & local;
    // The oldest waits for an answer that should have come before this one (9.7.5.1.1): as good as a sequence NAK.
    // An answer that counts is at first not before the oldest PSN, and is no more once the message that ends with its PSN has gone.
    let not_before = m.reg("not_before", 1).no_reset();
    let ended_there = judged("ended_there", is_last);
    m.when(at_row, |m| m.set(&not_before, 1)).otherwise_when(pops, |m| m.set(&not_before, !ended_there));
    // With selective retransmission the answer waits for that one: it is on its way, or is asked for again alone.
    let beyond = m.mux(inclusive, &not_before, &!in_turn);
    let speaks = counts & !local & by_answer & !placed;
    let passes = !none & answered & beyond;
    let may_wait = selective & !by_reply;
    let implied = speaks & judged("is_passed_by", passes & !may_wait);
    let holds = match cfg.selective {
        true => speaks & judged("is_early", passes & may_wait),
        false => lit(1, 0),
    };
    let passed_by = implied | holds;
    m.drive(&keeps, holds & (!row.kept | kept.older));
    let good = speaks & judged("is_good", !none & matches);
    let bad = speaks & by_reply & !implied & !good;
    let advances = m.mux(passed_by, &popped, &advances);
    // The failed WQE was acknowledged after all, but the QP is barred.
    let overtaken = counts & judged("is_overtaken", front.failed & to_failed.bit(15));
    let remote_fails = speaks & judged("is_failure", !by_reply & kind.eq(3) & code.ne(0)) & !passed_by;
    // Going back: the row has what the answer acknowledged by then.
    let is_nak = speaks & !is_ack & !remote_fails & !passed_by;
    let naks = is_nak | implied;
    let nak_counts = naks & !row.paused & ((is_rnr & !implied) | !row.asked | advances);
    // A time-out that waited its turn while a pause began means nothing, nor does the end of a former life's pause.
    let late_now = by_timeout & outstanding & !row.paused;
    let retries = nak_counts | (counts & !local & late_now) | (counts & by_pause & row.paused);
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
    let at_retry = state.is(State::Retry);
    let by_implied = m.reg("by_implied", 1).no_reset();
    m.when(at_pop, |m| m.set(&by_implied, implied));
    let rnr = by_answer & is_rnr & !by_implied;
    let (retry_cnt, rnr_retry) =
        (m.delay("retry_cnt", &copy.retry_cnt), m.delay("rnr_retry", &copy.rnr_retry));
    let rnr_spent = rnr_retry.ne(7) & row.rnr_tries.ge(rnr_retry);
    let spent = m.mux(rnr, &rnr_spent, &row.tries.ge(retry_cnt)) & !by_pause;
    let exhausted = at_retry & spent;
    let restart = Stream::new(m, "restart", at_retry & !spent, Restart { qp, hold: rnr, mild: lit(1, 0) });
    m.drive(&restart_room, restart.ready);
    let goes_back = restart.fire();

    // Flushing: forget what is remembered, then one completion for each WQE.
    // What is left is compared in a cycle of its own, before each step.
    let compared = m.reg("compared", 1).reset(0);
    let (in_flush, in_enlist) = (state.is(State::Flush), state.is(State::Enlist));
    let (at_flush, at_enlist) = (in_flush & compared, in_enlist & compared);
    m.set(&compared, (in_flush | in_enlist) & !compared);
    let flush_more = m.delay("flush_more", &row.oldest_index.ne(row.until));
    let turn = m.reg("turn", clog2(u64::from(FLUSHED_AT_ONCE))).no_reset();
    let flushes = at_flush & flush_more & entry_room;
    let ends_turn = flushes & turn.all();
    m.when(at_free, |m| m.set(&turn, 0)).otherwise_when(flushes, |m| m.set(&turn, turn + 1));

    // A failure: the oldest WQE ends with its cause.
    let at_fail = state.is(State::Fail);
    let by_local = m.reg("by_local", 1).reset(0);
    let by_retries = m.reg("by_retries", 1).reset(0);
    let fail_status = m.wire("fail_status", 8);
    m.set(&fail_status, WcStatus::RemOpErr.code());
    m.when(by_local, |m| m.set(&fail_status, front.status))
        .otherwise_when(by_retries & rnr, |m| m.set(&fail_status, WcStatus::RnrRetryExcErr.code()))
        .otherwise_when(by_retries, |m| m.set(&fail_status, WcStatus::RetryExcErr.code()))
        .otherwise_when(code.eq(1), |m| m.set(&fail_status, WcStatus::RemInvReqErr.code()))
        .otherwise_when(code.eq(2), |m| m.set(&fail_status, WcStatus::RemAccessErr.code()));
    let fail_cause = m.wire("fail_cause", 8);
    m.set(&fail_cause, syndrome);
    m.when(by_local, |m| m.set(&fail_cause, front.cause))
        .otherwise_when(by_retries & by_timeout, |m| m.set(&fail_cause, LocalCause::Timeout.code()))
        .otherwise_when(by_retries & !rnr, |m| m.set(&fail_cause, LocalCause::Sequence.code()));
    // While the completion waits for room, the QP may have been taken away.
    let gone = !still_waits;
    let fails = at_fail & !gone & entry_room;

    let ends_init = none & at_free;
    // One that goes on has flushed first.
    let recovers = at_flush & row.recovers & !flush_more;
    let begins_anew = (by_init & ends_init) | recovers;
    // Behind the last completion of the former life goes a mark.
    let marks = by_reset & ends_init;
    let resets = marks & entry_room;
    // So does one behind the last of what was in progress in SQD. Who is asked to wait for that looks in its turn of the line, and
    // again behind each answer.
    let awaits = at_enlist & by_drain & in_sqd & !row.dead;
    let looks = at_enlist & by_work & row.draining;
    let drained = looks & in_sqd & !row.dead & !flush_more;
    let enlists = at_enlist & (!drained | entry_room);
    let completes = acked | (at_fail & !gone) | (at_flush & flush_more) | marks | drained;
    let brings = settled & (good | bad);
    let status = m.mux(at_flush, &lit(8, WcStatus::WrFlushErr.code()), &fail_status);
    let cause = m.mux(at_flush, &lit(8, LocalCause::None.code()), &fail_cause);
    let completion = Completion {
        cq: copy.cq,
        qpn: qp.zext(24),
        // Of an error completion and of a mark `settle` clears these.
        opcode: oldest.opcode.zext(8),
        byte_len: oldest.length,
        wqe_index: m.mux(at_enlist, &row.stay.zext(16), &row.oldest_index),
        status: m.mux(acked, &lit(8, 0), &status),
        syndrome: m.mux(acked, &lit(8, 0), &cause),
        marker: marks | drained,
        solicited: drained,
        ..Completion::of(cfg).zeros()
    };
    let entry = Entry {
        token: brings | (acked & answered),
        completes,
        answered: acked & answered,
        wanted: !acked | oldest.signaled,
        completion,
    };
    let entry = Stream::new(m, "entry", completes | brings, entry);
    m.drive(&entry_room, entry.ready);
    // A failure that waits for room may be taken back here, but not outside.
    let entries = spare_fifo(&m.label("entries"), ENTRIES, cfg.unhurried(), entry);

    // Each READ response and atomic acknowledgement that came is taken up once, in order.
    let foreign_reply = unknown & is_reply;
    let strays = settled & by_reply & !placed & !good & !bad;
    let class = m.mux(bad, &lit(2, AnswerClass::Bad.code()), &lit(2, AnswerClass::Good.code()));
    let class = m.mux(strays | foreign_reply, &lit(2, AnswerClass::Stray.code()), &class);
    let answered = Answered {
        class,
        qp,
        index: row.oldest_index,
        pd: copy.pd,
        mtu: copy.mtu,
        atomic: m.mux(idle, &is_atomic, &by_atomic),
        offset,
        bytes,
        packets: psn - row.first_psn,
        last: is_last,
        length: oldest.length,
        sge: oldest.sge.clone(),
    };
    let taken_up = answers_it | brings | strays | foreign_reply;
    let atomic_found = taken_up & answered.atomic;
    let answered = Stream::new(m, "answered", taken_up, answered);
    // The value of an acknowledgement without a request is never used.
    let found = Stream::new(m, "value", atomic_found, value);
    m.drive(&answer_room, answered.ready & found.ready);
    m.assert(
        !taken_up | (answered.ready & found.ready),
        "an answer is taken where there is room for what it brings",
    );
    let answered = few(&m.label("answered"), ANSWERS, cfg.unhurried().then_some(2), answered);
    // `place` takes the values of two acknowledgements in two cycles.
    let values = forward(&m.label("values"), spare_fifo(&m.label("values"), VALUES, cfg.unhurried(), found));
    let fault = Stream::new(m, "fault", state.is(State::Fault), qp);
    let faulted = fault.fire();
    // The QP context takes no fault while a start waits: a QP has at most one, and all have their place.
    let faults = deep_fifo(&m.label("faults"), cfg.qps, fault);
    let ends_answer = exact | (settled & !local_fails & !overtaken & !remote_fails & !retries);
    let kick = Stream::new(m, "kick", (ends_answer | at_retry) & (moved | (exact & boundary)), qp);
    m.drive(&kick_room, kick.ready);
    let kicks = fifo(&m.label("kick"), 4, kick);
    // Behind what `oldest` tells of it.
    let ends_wait = ends_answer & !ignored & (row.bounded | by_look | selective);
    let eased = Stream::new(m, "eases", ends_wait | (at_retry & by_answer & selective), qp);
    m.drive(&eased_room, eased.ready);
    let eased = fifo(&m.label("eased"), 4, eased);
    // Where frames loop, the segmenter may wait for room that comes free as answers are taken here: no answer may wait for it. A QP has two restarts at most, by an
    // answer and by its timer.
    let restarts = match cfg.loopback {
        true => prompt_fifo(&m.label("restarts"), (2 * cfg.qps).max(16), restart),
        false => fifo(&m.label("restarts"), 16, restart),
    };

    // For the timer.
    let acknowledges = exact | (ends_answer & by_answer & !ignored & advances & !bad & !implied);
    let progress = Progress {
        qp,
        idle: begins_anew | (!at_retry & resume.eq(front.next_psn) & !sent_meanwhile & !sends_now & !holds),
        stop: begins_anew,
        selective,
    };
    let asks_again = goes_back & by_answer & !rnr;
    let progress = Stream::new(m, "progress", acknowledges | asks_again | begins_anew, progress);
    let pause = Stream::new(m, "pause", goes_back & rnr, Pause { qp, code });
    m.assert(!progress.valid | progress.ready, "the timer takes progress at once");
    m.assert(!pause.valid | pause.ready, "the timer takes a pause at once");

    // What becomes of the row.
    m.set_all(&next, &row);
    m.when(pops | frees, |m| m.set(&next.head, following));
    let ends_oldest = pops | fails | flushes;
    m.when(ends_oldest, |m| m.set(&next.oldest_index, row.oldest_index + 1));
    m.when(answers_it, |m| m.set(&next.reads, row.reads + 1));
    m.when(pops, |m| {
        m.set(&next.first_psn, oldest.last_psn + 1);
        m.set(&next.oldest_psn, oldest.last_psn + 1);
    });
    let heard = (counts & by_answer & !bad) | exact;
    m.when(heard, |m| {
        m.when(!passed_by, |m| m.set(&next.oldest_psn, resume));
        m.when(advances, |m| {
            m.set(&next.asked, 0);
            m.set(&next.tries, 0);
            m.set(&next.rnr_tries, 0);
        });
    });
    // Credits: a message takes one, and an answer tells anew how many there are.
    m.when(pops & !is_silent & row.credits.any(), |m| m.set(&next.credits, row.credits - 1));
    m.when(grants & ((counts & by_answer & !bad & !passed_by) | exact), |m| {
        let most = cfg.outstanding_per_qp;
        let codes: Vec<Sig> = (0..32)
            .map(|code| lit(credit_bits(cfg), credits_of(code).map_or(most, |n| u32::from(n).min(most))))
            .collect();
        m.set(&next.bounded, code.ne(u32::from(CREDIT_INVALID)));
        m.set(&next.credits, m.select(code, &codes));
    });
    m.when(goes_back, |m| {
        m.set(&next.paused, rnr);
        m.when(rnr, |m| {
            m.set(&next.rnr_tries, m.mux(row.rnr_tries.all(), &row.rnr_tries, &(row.rnr_tries + 1)));
            m.set(&next.tries, 0);
        })
        .otherwise_when(!by_pause, |m| m.set(&next.tries, row.tries + 1));
        m.set(&next.asked, by_answer & !rnr);
        // What is sent again is answered again.
        m.when(kept.repeats, |m| m.set(&next.kept, 0));
    });
    m.when(keeps, |m| m.set(&next.kept, 1));
    // Until the list has been empty.
    m.when(settled, |m| m.set(&next.silent, !none & (row.silent | by_look)));
    m.assert(!(at_enlist & by_recover) | in_error, "only a queue in error goes on");
    let is_flushed = at_enlist & (by_recover | (by_flush & in_error));
    m.when(fails | state.is(State::Fault) | is_flushed | resets, |m| m.set(&next.dead, 1));
    m.when(resets | begins_anew, |m| {
        m.set_all(&next, &row_shape.zeros());
        m.set(&next.head, row.head);
        m.set(&next.flushing, row.flushing);
        m.set(&next.dead, by_reset);
    });
    // A start is told at once, before what the QP left behind has been given back; its row is written when that is done.
    let starts_anew = at_row & by_init;
    m.when(resets | begins_anew | starts_anew, |m| {
        m.set(&next.bounded, 0);
        m.set(&next.reads, 0);
        m.set(&next.first_psn, psn);
        m.set(&next.oldest_psn, psn);
        m.set(&next.oldest_index, m.mux(by_init, &until, &(row.until & (!by_reset).repeat(16))));
    });
    m.when(begins_anew, |m| m.set(&next.until, m.mux(by_init, &until, &row.until)));
    // A QP is in the line once, whatever it was when it came there.
    m.when(is_flushed | awaits, |m| {
        m.set(&next.until, until);
        m.set(&next.flushing, 1);
        m.set(&next.recovers, row.recovers | by_recover);
        m.set(&next.draining, awaits);
        m.set(&next.stay, stay);
    });
    let ends_work = (enlists & by_work) | (at_flush & !flush_more);
    m.when(ends_work, |m| {
        m.set(&next.flushing, 0);
        m.set(&next.draining, in_sqd & row.draining & !drained);
    });
    m.when(ends_answer & row.draining, |m| m.set(&next.flushing, 1));
    // The QP enters the line a cycle later, when no other QP does. The next answer may be under way by then, so the QP is kept.
    let again = m.delay("looks_again", &(ends_answer & row.draining & !row.flushing));
    let again_qp = m.delay("looks_again_qp", &qp);
    let enter = ((is_flushed | awaits) & !row.flushing) | ends_turn | again;
    let entering = Stream::new(m, "entering", enter, m.mux(again, &again_qp, &qp));
    m.assert(!entering.valid | entering.ready, "the line has a place for every QP");
    works.connect(deep_fifo(&m.label("line"), cfg.qps, entering));
    m.when(sweeping, |m| {
        m.set_all(&next, &row_shape.zeros());
        m.set(&next.head, qp.zext(place_bits));
        m.set(&qp, qp + 1);
    });
    m.set_all(&row, &m.mux(takes_stored, &loaded, &next));
    let lost = at_retry & !spent & !goes_back;
    let abandons = at_fail & gone;
    let ends_event = ends_answer | goes_back | lost | faulted | abandons;
    let ends_event = ends_event | is_flushed | awaits | ends_work | ends_turn;
    m.drive(&row_write, ends_event | fails | begins_anew | resets | sweeping);
    m.when(ends_event | fails, |m| m.set(&next.told, row.told + 1));

    // From one state to the next.
    m.when(sweeping & qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    m.when(at_row, |m| {
        m.set(&state, State::Look);
        m.when(by_flush | by_drain | by_recover | by_work, |m| m.set(&state, State::Enlist));
        // One that was waited for is not flushed before it is told up to where.
        let works = by_work & errs & !stored.draining;
        m.when(by_init | by_reset | works, |m| m.set(&state, State::Free));
    });
    // What the answer before this one has put there may have taken the last place.
    let has_room = kick_room & eased_room & (answer_room | !by_reply);
    let judge = if cfg.unhurried() { State::Judge } else { State::Pop };
    m.when(state.is(State::Look) & (has_room | cfg.unhurried()), |m| m.set(&state, judge));
    m.when(state.is(State::Judge), |m| m.set(&state, State::Pop));
    m.when(pops, |m| m.set(&state, State::Look));
    m.when(enlists, |m| m.set(&state, State::Idle));
    m.when(ends_answer, |m| m.set(&state, State::Idle));
    m.when(local_fails | remote_fails, |m| {
        m.set(&state, State::Fail);
        m.set(&by_local, local_fails);
        m.set(&by_retries, 0);
    });
    m.when(retries, |m| m.set(&state, State::Retry));
    m.when(at_retry, |m| m.set(&state, State::Idle));
    m.when(exhausted, |m| {
        m.set(&state, State::Fail);
        m.set(&by_local, 0);
        m.set(&by_retries, 1);
    });
    m.when(fails | overtaken, |m| m.set(&state, State::Fault));
    m.when(faulted | abandons | (at_flush & !flush_more) | ends_turn, |m| m.set(&state, State::Idle));
    m.when(at_free & none, |m| {
        m.set(&state, State::Flush);
        m.when(by_init | resets, |m| m.set(&state, State::Idle))
            .otherwise_when(by_reset, |m| m.set(&state, State::Free));
    });
    m.when(starts, |m| m.set(&state, State::Row));
    // What an answer waited for has come: the answer is an event of its own, for which the row is in its register already.
    if cfg.selective {
        let comes_up = judged("comes_up", resume.eq(kept.psn));
        let taken_up = ends_answer & row.kept & (placed | (good & comes_up));
        m.when(taken_up, |m| m.set(&state, State::Kept));
        m.when(may_start, |m| m.set(&by_kept, 0));
        m.when(state.is(State::Kept), |m| {
            m.set(&by_kept, 1);
            m.set(&by_reply, 0);
            m.set(&by_atomic, 0);
            m.set(&psn, kept.psn);
            m.set(&syndrome, kept.syndrome);
            m.set(&grants, kept.syndrome.slice(5, 3).eq(0));
            m.set(&met_congestion, 0);
            m.set(&same, 1);
            m.set(&next.kept, 0);
            m.set(&state, State::Row);
        });
    }

    // Each WQE that ends is told at once, too, before the host sees its completion and uses its place again: a doorbell for it is no overrun.
    let oldest_write = TableWrite {
        enable: row_write | ends_oldest | starts_anew,
        index: qp,
        entry: Oldest {
            index: next.oldest_index,
            first_psn: next.first_psn,
            psn: next.oldest_psn,
            bounded: next.bounded,
            credits: next.credits,
            told: next.told,
            reads: next.reads,
        },
    };
    // The way of the decision ends here.
    let oldest_write = m.delay("oldest_write", &oldest_write);
    let freed = Freed { valid: pops | frees, place: row.head };
    let by_code = |n: u32| remote_fails & code.eq(n);
    let counts = Counts {
        dropped: Dropped { valid: unknown | (settled & by_answer & !by_own & !by_kept & ignored), reason },
        sequence_naks: is_nak & !is_rnr,
        implied_naks: implied,
        rnr_naks: is_nak & is_rnr,
        rnr_exceeded: exhausted & rnr,
        retry_exceeded: exhausted & !rnr,
        timeouts: retries & by_timeout,
        invalid_requests: by_code(1),
        access_errors: by_code(2),
        operation_errors: by_code(3),
        errors: fails,
        flushed: flushes,
    };
    Tracked {
        entries,
        answered,
        values,
        faults,
        kicks,
        eased,
        oldest: oldest_write,
        restarts,
        progress,
        pause,
        freed,
        recovered: recovers,
        marked,
        counts,
    }
}
