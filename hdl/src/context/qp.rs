// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owner of every QP's state and attributes. All others hold read copies, written by its broadcast.
//!
//! ```text
//!  query --->+-------+---> reply                 (command processor)
//!  update -->|       |---> broadcast             (every engine's copies)
//!  fault 0 ->| table |---> responder, requester, completer: start with this PSN
//!  fault n ->|       |---> kick                  (scheduler: flush this QP, go on, or drain it)
//!  mark ---->|       |---> report                (event writer)
//!            +-------+
//! ```
//!
//! A query is answered with the whole record, and holds all faults back until its update has come: nobody changes a
//! record between the look and the decision. Each query must be followed by one update of the same QP, which may write
//! nothing (`write` low). The engines are told their first PSN before the new state is broadcast, so that no packet
//! finds a state without its PSN; a kick comes after the broadcast, so that the flush finds the state.
//!
//! A fault moves a QP that is in INIT, RTR, RTS, SQD or SQE to ERR and kicks it; in RESET and ERR it is ignored, so any
//! number of faults make one kick. A fault of a send queue that is not RC's moves the QP only from RTS or SQD to SQE, where receives
//! go on (IBTA 10.3.1.7); from there the requester starts again on the way to RTS, and goes on where it was. A fault takes 4 cycles, and as long as a kick before it waits; a query's reply comes one
//! cycle after the query, an update takes 2 cycles and as long as the engines take. Faults wait behind an update:
//! engines must take their PSN without waiting for their own fault to be taken.
//!
//! A QP that goes to SQD drains (IBTA volume 1, 10.3.1.5). The kick asks the completer, by way of the scheduler, to tell when what was begun
//! is done; the mark that comes back has passed the completion writer, behind the completions of all that. It says how often the QP had
//! come to SQD when it was asked for: one of an earlier stay, or of a stay that is over, means nothing. A mark waits for no query and
//! for nobody's start, only for the report before it.
//!
//! What ends a QP is told where it is not a completion that says it: with the fault that moves it to ERR, so once in a life, and of the causes
//! of one that has several the first. The first packet in RTR comes the same way, and changes nothing. Whoever has something to tell
//! waits until the event writer has taken what was told before; that waits for nobody but the write channel.
//!
//! Reset leaves the table as it is; the command processor then writes every record.

use crate::config::RnicConfig;
use crate::host::event::Report;
use crate::stream::{arbiter, half};
use crate::types::{
    Drained, Kick, Mark, OfQp, QpAttributes, QpBroadcast, QpFault, QpInit, SqStart, TableWrite, FAULT_BITS,
    STAY_BITS,
};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream};
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::queue::EventKind;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::syndrome::{NakCode, Syndrome};
use ferrowire_spec::QpState;

/// What the table holds of a QP.
#[derive(Clone, Bundle)]
pub struct QpRecord {
    /// It was created.
    pub exists: Sig,
    /// Its state, as `QpState`.
    pub state: Sig,
    /// Its attributes.
    pub attributes: QpAttributes,
}

impl QpRecord {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        QpRecord { exists: bits(1), state: bits(3), attributes: QpAttributes::of(cfg) }
    }
}

/// What a query finds.
#[derive(Clone, Bundle)]
pub struct QpFound {
    /// The record.
    pub record: QpRecord,
    /// In SQD: what was in progress is not done.
    pub draining: Sig,
}

impl QpFound {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        QpFound { record: QpRecord::of(cfg), draining: bits(1) }
    }
}

/// What follows a query.
#[derive(Clone, Bundle)]
pub struct QpUpdate {
    /// Which QP: that of the query.
    pub qp: Sig,
    /// Write the record; otherwise nothing changes.
    pub write: Sig,
    /// What CREATE_QP alone says stays as it is, whatever the record says of it.
    pub keeps: Sig,
    /// The new record.
    pub record: QpRecord,
    /// The responder starts.
    pub responder: Sig,
    /// The requester starts, and with it the completer.
    pub requester: Sig,
    /// The responder's first PSN.
    pub rq_psn: Sig,
    /// The requester's first PSN.
    pub sq_psn: Sig,
    /// A life ends: the update is done when no completion of it comes any more.
    pub drains: Sig,
    /// Of a QP that goes to SQD: an event is wanted when what is in progress is done.
    pub event: Sig,
}

impl QpUpdate {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        QpUpdate {
            qp: bits(cfg.qp_bits()),
            write: bits(1),
            keeps: bits(1),
            record: QpRecord::of(cfg),
            responder: bits(1),
            requester: bits(1),
            rq_psn: bits(24),
            sq_psn: bits(24),
            drains: bits(1),
            event: bits(1),
        }
    }
}

/// What leaves the QP context.
#[derive(Interface)]
pub struct QpContext {
    /// The answer to a query.
    pub reply: Stream<QpFound>,
    /// Writes into every engine's copies.
    pub broadcast: QpBroadcast,
    /// QPs whose send queue must be looked at: they have just entered ERR, SQE or SQD, or gone on from SQD or SQE.
    pub kick: Stream<Kick>,
    /// QPs on the way to RTR.
    pub responder: Stream<QpInit>,
    /// QPs on the way to RTS, or back to it after an error of the send queue.
    pub requester: Stream<SqStart>,
    /// What the host is told of QPs.
    pub reports: Stream<Report>,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Idle,
    /// The record is on offer.
    Reply,
    /// Waits for the update.
    Locked,
    /// The engines are told their PSN.
    Start,
    /// The update is written.
    Write,
    /// A life has ended; its last completions are on their way, and what is read of its receive queue.
    Drain,
    /// What is read of its send queue, and of payload, is on its way before a start that goes there for this alone.
    Settle,
    /// The state of a QP with a fault is read.
    Look,
    /// It is known.
    Fault,
    /// The scheduler is told.
    Kick,
}

/// The small part of a record, which faults change.
#[derive(Clone, Bundle)]
struct Life {
    exists: Sig,
    state: Sig,
}

/// Attributes that CREATE_QP alone says.
#[derive(Clone, Bundle)]
struct Made {
    service: Sig,
    pd: Sig,
    send_cq: Sig,
    recv_cq: Sig,
    sq_base: Sig,
    sq_log2: Sig,
    sq_stride: Sig,
    sq_sig_all: Sig,
    rq_base: Sig,
    rq_log2: Sig,
    rq_stride: Sig,
    doorbell_page: Sig,
    has_srq: Sig,
    srqn: Sig,
}

impl Made {
    fn of(a: &QpAttributes) -> Made {
        Made {
            service: a.service,
            pd: a.pd,
            send_cq: a.send_cq,
            recv_cq: a.recv_cq,
            sq_base: a.sq_base,
            sq_log2: a.sq_log2,
            sq_stride: a.sq_stride,
            sq_sig_all: a.sq_sig_all,
            rq_base: a.rq_base,
            rq_log2: a.rq_log2,
            rq_stride: a.rq_stride,
            doorbell_page: a.doorbell_page,
            has_srq: a.has_srq,
            srqn: a.srqn,
        }
    }
}

/// Attributes that MODIFY_QP may change.
#[derive(Clone, Bundle)]
struct Given {
    mtu: Sig,
    access: Sig,
    peer: Sig,
    gid: Sig,
    priority: Sig,
    loops: Sig,
    pkey: Sig,
    qkey: Sig,
    timeout: Sig,
    retry_cnt: Sig,
    rnr_retry: Sig,
    min_rnr_timer: Sig,
    max_rd_atomic: Sig,
    max_dest_rd_atomic: Sig,
    selective: Sig,
}

impl Given {
    fn of(a: &QpAttributes) -> Given {
        Given {
            mtu: a.mtu,
            access: a.access,
            peer: a.peer,
            gid: a.gid,
            priority: a.priority,
            loops: a.loops,
            pkey: a.pkey,
            qkey: a.qkey,
            timeout: a.timeout,
            retry_cnt: a.retry_cnt,
            rnr_retry: a.rnr_retry,
            min_rnr_timer: a.min_rnr_timer,
            max_rd_atomic: a.max_rd_atomic,
            max_dest_rd_atomic: a.max_dest_rd_atomic,
            selective: a.selective,
        }
    }
}

/// All attributes.
fn joined(made: &Made, given: &Given) -> QpAttributes {
    QpAttributes {
        service: made.service,
        pd: made.pd,
        send_cq: made.send_cq,
        recv_cq: made.recv_cq,
        sq_base: made.sq_base,
        sq_log2: made.sq_log2,
        sq_stride: made.sq_stride,
        sq_sig_all: made.sq_sig_all,
        rq_base: made.rq_base,
        rq_log2: made.rq_log2,
        rq_stride: made.rq_stride,
        doorbell_page: made.doorbell_page,
        has_srq: made.has_srq,
        srqn: made.srqn,
        mtu: given.mtu,
        access: given.access,
        peer: given.peer,
        gid: given.gid,
        priority: given.priority,
        loops: given.loops,
        pkey: given.pkey,
        qkey: given.qkey,
        timeout: given.timeout,
        retry_cnt: given.retry_cnt,
        rnr_retry: given.rnr_retry,
        min_rnr_timer: given.min_rnr_timer,
        max_rd_atomic: given.max_rd_atomic,
        max_dest_rd_atomic: given.max_dest_rd_atomic,
        selective: given.selective,
    }
}

/// A QP's stay in SQD.
#[derive(Clone, Bundle)]
struct Stay {
    /// What was in progress is not done. Never outside SQD.
    draining: Sig,
    /// An event is wanted.
    event: Sig,
    /// How many there have been.
    number: Sig,
}

/// A QP that cannot go on.
#[derive(Clone, Bundle)]
struct Fault {
    qp: Sig,
    /// Its send queue has failed.
    sends: Sig,
    /// What is told, as in [`QpFault`].
    event: Sig,
}

/// Keeps state and attributes. `send_faults`: those of send queues; `unread`: a QP in RESET of whose receive queue nothing is read any more;
/// `marks`: QPs in SQD that are drained.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn qp(
    m: &Scope,
    cfg: &RnicConfig,
    query: Stream<Sig>,
    update: Stream<QpUpdate>,
    send_faults: Stream<Sig>,
    faults: Vec<Stream<QpFault>>,
    drained: Drained,
    unread: OfQp,
    marks: Stream<Mark>,
) -> QpContext {
    let state = m.fsm("state", State::Idle);
    // The engines' decisions end here, and the scheduler's readiness at the kick's register.
    let of = |sends: u32| move |f: &QpFault| Fault { qp: f.qp, sends: lit(1, sends), event: f.event };
    let mut all = vec![half(&m.label("send_fault"), send_faults).map(QpFault::silent).map(of(1))];
    let slices = (0..).zip(faults).map(|(i, fault): (u32, _)| half(&m.label(&format!("fault{i}")), fault));
    all.extend(slices.map(|fault| fault.map(of(0))));
    let fault = half(&m.label("fault"), arbiter(m, &|_: &Fault| lit(1, 1), all));
    let index = m.reg("index", cfg.qp_bits()).no_reset();
    let wanted = query.valid.then(query.payload, fault.qp);
    let read = (state.is(State::Idle) & (query.valid | fault.valid)).named("read");
    query.accept(state.is(State::Idle));
    // What is to be told waits for what was told before.
    let told = m.reg("told", 1).reset(0);
    let at_fault = (state.is(State::Fault) & (!told | fault.event.eq(0))).named("at_fault");
    fault.accept(at_fault);
    // What is written is known cycles before.
    let (writes, to_state) = (m.delay("writes", &update.write), m.delay("to_state", &update.record.state));
    let waits = m.delay("waits", &(update.write & update.drains));
    // Both queues have to be, and the receives that are read.
    let told_of = |valid: Sig, qp: Sig| valid & qp.eq(index);
    let completed = told_of(drained.valid, drained.qp);
    let quiet = [
        ("send", completed & !drained.receive),
        ("receive", completed & drained.receive),
        ("unread", told_of(unread.valid, unread.qp)),
    ]
    .map(|(name, now)| {
        let quiet = m.reg(&format!("{name}_quiet"), 1).reset(0);
        m.when(state.is(State::Write), |m| m.set(&quiet, 0)).otherwise_when(now, |m| m.set(&quiet, 1));
        quiet
    });
    let is_drained = state.is(State::Drain) & quiet.iter().fold(lit(1, 1), |all, one| all & one);
    let settled = m.wire("settled", 1);
    update.accept((state.is(State::Write) & !waits) | settled);

    // A read and a write never share a cycle: reads are in Idle alone.
    let lives = m.mem("lives", cfg.qps, &Life { exists: bits(1), state: bits(3) }).init(vec![]).build();
    let of = QpAttributes::of(cfg);
    let (made, given) = (Made::of(&of), Given::of(&of));
    let made = m.mem("made", cfg.qps, &made).init(vec![]).build();
    let given = m.mem("given", cfg.qps, &given).init(vec![]).build();
    let life_after = m.wire_of("life_after", &Life { exists: bits(1), state: bits(3) });
    let change = m.wire("change", 1);
    let write = (state.is(State::Write) & writes).named("write");
    lives.write(change, index, &life_after);
    // What a QP is made with is written first, and told as it is read then: so nothing chooses between old and new, which are wide.
    let starts = state.is(State::Start);
    let makes = state.is(State::Locked) & update.valid & update.write & !update.keeps;
    made.write(makes, index, &Made::of(&update.record.attributes));
    let gives = Given::of(&update.record.attributes);
    given.write(write, index, &gives);
    let read_life = lives.read(m, read, wanted, Collision::Never);
    let known_made = made.read(m, read | starts, m.mux(starts, &index, &wanted), Collision::Never);
    let known_given = given.read(m, read, wanted, Collision::Never);
    let known = joined(&known_made, &known_given);
    // Block RAM is slow to read. Faults are looked at a cycle later, and updates come later still.
    let life = m.delay("life", &read_life);

    let error = lit(3, QpState::Err.code());
    let runs = life.state.ne(QpState::Reset.code()) & life.state.lt(error);
    let (rts, sqd) = (lit(3, QpState::Rts.code()), lit(3, QpState::Sqd.code()));
    let alone = fault.sends & m.delay("service", &known.service).ne(Service::Rc.code());
    let sends = life.state.eq(rts) | life.state.eq(sqd);
    let greets = fault.event.eq(u32::from(EventKind::CommEstablished.code()));
    let breaks = (at_fault & !greets & m.mux(alone, &sends, &runs)).named("breaks");
    let broken = alone.then(lit(3, QpState::Sqe.code()), error);
    m.drive(&change, write | breaks);
    m.drive(&life_after.exists, write.then(update.record.exists, life.exists));
    m.drive(&life_after.state, write.then(to_state, broken));
    let recovers = life.state.eq(QpState::Sqe.code());
    let goes_on = (life.state.eq(sqd) | recovers) & to_state.eq(rts);
    // Stays in SQD: a table of its own, for marks come while a record is held.
    let stays = Stay { draining: bits(1), event: bits(1), number: bits(STAY_BITS) };
    let stays = m.mem("stays", cfg.qps, &stays).init(vec![]).build();
    // One port: a mark waits a cycle where a record is read.
    let marked = marks.valid & !read;
    let stay_at = m.mux(read, &wanted, &marks.qp);
    let known_stay = stays.read(m, read | marked, stay_at, Collision::Old);
    let reads_stay = m.reg("reads_stay", 1).reset(0);
    m.set(&reads_stay, read);
    let (stay, was_draining) = (m.reg("stay", STAY_BITS).no_reset(), m.reg("was_draining", 1).no_reset());
    m.when(reads_stay, |m| {
        m.set(&stay, known_stay.number);
        m.set(&was_draining, known_stay.draining);
    });
    let drains = write & to_state.eq(sqd) & life.state.ne(sqd);
    let ends_stay = change & life.state.eq(sqd) & life_after.state.ne(sqd);
    let moves = drains | ends_stay;
    let this_stay = stay + drains.zext(STAY_BITS);
    // What was read in the cycle of a change is looked at again.
    let looked = m.reg("looked", 1).reset(0);
    marks.accept(looked & !moves & !told & !state.is(State::Fault));
    let ends = marks.fire() & known_stay.draining & known_stay.number.eq(marks.stay);
    m.set(&looked, marked & !marks.fire() & !moves);
    let after = Stay { draining: drains, event: update.event, number: this_stay };
    let ended = Stay { draining: lit(1, 0), ..known_stay.clone() };
    stays.write(moves | ends, moves.then(index, marks.qp), &m.mux(moves, &after, &ended));
    let told_qp = m.reg("told_qp", cfg.qp_bits()).no_reset();
    let told_kind = m.reg("told_kind", FAULT_BITS).no_reset();
    // With the NAK that was sent, where that was the end.
    let causes: Vec<Sig> = (0..1 << FAULT_BITS)
        .map(|kind| match EventKind::from_code(kind) {
            Some(EventKind::QpFatal) => lit(8, LocalCause::Overrun.code()),
            Some(EventKind::QpRequestError) => lit(8, Syndrome::Nak(NakCode::InvalidRequest).encode()),
            Some(EventKind::QpAccessError) => lit(8, Syndrome::Nak(NakCode::RemoteAccess).encode()),
            _ => lit(8, LocalCause::None.code()),
        })
        .collect();
    let report =
        Report { kind: told_kind.zext(8), object: told_qp.zext(24), cause: m.select(told_kind, &causes) };
    let reports = Stream::new(m, "reports", told, report);
    let receives = life.state.ne(QpState::Init.code()) & runs;
    let of_fault = at_fault & fault.event.any() & m.mux(greets, &receives, &runs);
    m.when(of_fault | (ends & known_stay.event), |m| {
        m.set(&told, 1);
        m.set(&told_qp, m.mux(of_fault, &index, &marks.qp));
        let drained = lit(FAULT_BITS, u32::from(EventKind::SqDrained.code()));
        m.set(&told_kind, m.mux(of_fault, &fault.event, &drained));
    })
    .otherwise_when(reports.ready, |m| m.set(&told, 0));
    let asks = m.reg("asks", 1).reset(0);
    m.when(write | state.is(State::Fault), |m| m.set(&asks, drains));

    let kicks = writes & ((to_state.eq(error) & runs) | goes_on | drains);

    // The engines that have not taken their PSN yet.
    let waiting = ["responder", "requester"].map(|name| m.reg(&format!("{name}_waits"), 1).reset(0));
    let responder = Stream::new(m, "responder", waiting[0], QpInit { qp: index, psn: update.rq_psn });
    let recovers = recovers & !update.drains;
    let begun = SqStart { qp: index, psn: update.sq_psn, index: lit(16, 0), recovers };
    let requester = Stream::new(m, "requester", waiting[1], begun);
    m.when(responder.ready, |m| m.set(&waiting[0], 0));
    m.when(requester.ready, |m| m.set(&waiting[1], 0));
    let started = !(waiting[0] | waiting[1]);

    // It is on offer from the cycle after the read on.
    let record = QpRecord { exists: read_life.exists, state: read_life.state, attributes: known };
    let draining = m.mux(reads_stay, &known_stay.draining, &was_draining);
    let found = QpFound { record, draining };
    let reply = Stream::new(m, "reply", state.is(State::Reply), found);
    let kick = Kick { qp: index, drains: asks, stay: stay + 1 };
    let kick = Stream::new(m, "kick", state.is(State::Kick), kick);

    m.when(read, |m| {
        m.set(&index, wanted);
        m.when(query.valid, |m| m.set(&state, State::Reply)).otherwise(|m| m.set(&state, State::Look));
    });
    m.when(state.is(State::Look), |m| m.set(&state, State::Fault));
    m.when(reply.fire(), |m| m.set(&state, State::Locked));
    m.when(state.is(State::Locked) & update.valid, |m| {
        m.assert(update.qp.eq(index), "an update for another QP than the query's");
        m.set(&waiting[0], update.write & update.responder);
        m.set(&waiting[1], update.write & update.requester);
        m.set(&state, State::Start);
    });
    m.when(state.is(State::Start) & started, |m| m.set(&state, State::Write));
    m.when(state.is(State::Write), |m| {
        m.when(waits, |m| m.set(&state, State::Drain))
            .otherwise_when(kicks, |m| m.set(&state, State::Kick))
            .otherwise(|m| m.set(&state, State::Idle));
    });
    // Nothing of the requester overtakes a start: where that has arrived, nothing is under way before it.
    m.when(is_drained, |m| {
        m.set(&waiting[1], 1);
        m.set(&state, State::Settle);
    });
    m.drive(&settled, state.is(State::Settle) & started);
    m.when(settled, |m| m.set(&state, State::Idle));
    m.when(at_fault, |m| {
        m.when(breaks, |m| m.set(&state, State::Kick)).otherwise(|m| m.set(&state, State::Idle));
    });
    m.when(kick.fire(), |m| m.set(&state, State::Idle));

    let broadcast = QpBroadcast {
        attributes: TableWrite { enable: write, index, entry: joined(&known_made, &gives) },
        state: TableWrite { enable: change, index, entry: life_after.state },
    };
    QpContext { reply, broadcast, kick: half(&m.label("kick"), kick), responder, requester, reports }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    /// The sinks, in order.
    const REPLY: usize = 0;
    const KICK: usize = 1;
    const RESPONDER: usize = 2;
    const REQUESTER: usize = 3;
    const REPORT: usize = 4;

    /// The source of marks.
    const MARK: usize = 4;

    struct Bench {
        sim: Sim,
        sources: Vec<Source>,
        sinks: Vec<Sink>,
        random: Random,
        stall: f64,
        /// States as broadcast, with the number of starts and kicks seen before.
        states: Vec<(u64, u64, usize)>,
        attributes: Vec<(u64, u64)>,
    }

    fn bench(beat_bytes: u32, stall: f64) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let number = bits(cfg.qp_bits());
        let netlist = build("top", |m| {
            let query = m.stream_in("query", &number);
            let update = m.stream_in("update", &QpUpdate::of(&cfg));
            let drained = m.input_of("drained", &Drained::of(&cfg));
            let unread = m.input_of("unread", &OfQp::of(&cfg));
            let faults = vec![m.stream_in("fault1", &QpFault::of(&cfg))];
            let marks = m.stream_in("mark", &Mark::of(&cfg));
            let out =
                qp(m, &cfg, query, update, m.stream_in("fault0", &number), faults, drained, unread, marks);
            m.stream_out("reply", out.reply);
            m.stream_out("kick", out.kick);
            m.stream_out("report", out.reports);
            m.stream_out("responder", out.responder);
            m.stream_out("requester", out.requester);
            m.output("broadcast", &out.broadcast);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        Bench {
            sim,
            sources: vec![
                Source::new("query", &number),
                Source::new("update", &QpUpdate::of(&cfg)),
                Source::new("fault0", &number),
                Source::new("fault1", &QpFault::of(&cfg)),
                Source::new("mark", &Mark::of(&cfg)),
            ],
            sinks: vec![
                Sink::new("reply", &QpFound::of(&cfg)),
                Sink::new("kick", &Kick::of(&cfg)),
                Sink::new("responder", &QpInit::of(&cfg)),
                Sink::new("requester", &SqStart::of(&cfg)),
                Sink::new("report", &Report::of()),
            ],
            random: Random::new(8),
            stall,
            states: Vec::new(),
            attributes: Vec::new(),
        }
    }

    impl Bench {
        fn step(&mut self) {
            if self.sim.get("broadcast_state_enable") == 1 {
                self.states.push((
                    self.sim.get("broadcast_state_index"),
                    self.sim.get("broadcast_state_entry"),
                    self.sinks[RESPONDER].items.len() + self.sinks[REQUESTER].items.len(),
                ));
            }
            if self.sim.get("broadcast_attributes_enable") == 1 {
                self.attributes.push((
                    self.sim.get("broadcast_attributes_index"),
                    self.sim.get("broadcast_attributes_entry_pd"),
                ));
            }
            step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        }

        fn settle(&mut self) {
            let mut idle = 0;
            while idle < 40 {
                idle = if self.sources.iter().all(|s| s.left() == 0) { idle + 1 } else { 0 };
                self.step();
            }
        }

        fn query(&mut self, qp: u64) -> (u64, u64, u64) {
            self.sources[0].push_values(&[("", u128::from(qp))]);
            let before = self.sinks[REPLY].items.len();
            for _ in 0..1000 {
                self.step();
                if let Some(reply) = self.sinks[REPLY].items.get(before) {
                    return (
                        reply["record_exists"].to_u64(),
                        reply["record_state"].to_u64(),
                        reply["record_attributes_pd"].to_u64(),
                    );
                }
            }
            panic!("seed {}: no reply", self.random.seed);
        }

        /// One of a send queue, or of an engine, with what it tells.
        fn fault(&mut self, source: usize, qp: u64, event: u8) {
            match source {
                2 => self.sources[2].push_values(&[("", qp.into())]),
                _ => self.sources[source].push_values(&[("qp", qp.into()), ("event", event.into())]),
            }
        }

        /// Kind, QP and cause of what was told.
        fn told(&self) -> Vec<[u64; 3]> {
            let items = self.sinks[REPORT].items.iter();
            items.map(|item| ["kind", "object", "cause"].map(|name| item[name].to_u64())).collect()
        }

        fn update(&mut self, qp: u64, fields: &[(&str, u128)]) {
            let mut all = vec![("qp", u128::from(qp))];
            all.extend(fields);
            self.sources[1].push_values(&all);
            self.settle();
        }

        fn set(&mut self, qp: u64, state: QpState, pd: u128) {
            self.query(qp);
            let state = u128::from(state.code());
            let record =
                [("write", 1), ("record_exists", 1), ("record_state", state), ("record_attributes_pd", pd)];
            self.update(qp, &record);
        }
    }

    fn code(state: QpState) -> u64 {
        u64::from(state.code())
    }

    #[test]
    fn an_update_is_kept_and_broadcast() {
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.4)] {
            let mut bench = bench(beat_bytes, stall);
            assert_eq!(bench.query(5), (0, 0, 0));
            bench.update(5, &[]);
            assert!(bench.states.is_empty() && bench.attributes.is_empty());
            bench.set(5, QpState::Init, 77);
            assert_eq!(bench.states, [(5, code(QpState::Init), 0)]);
            assert_eq!(bench.attributes, [(5, 77)]);
            assert_eq!(bench.query(5), (1, code(QpState::Init), 77));
            bench.update(5, &[]);
            assert_eq!(bench.query(4), (0, 0, 0));
        }
    }

    #[test]
    fn what_a_queue_pair_is_made_with_stays_when_the_rest_changes() {
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.4)] {
            let mut bench = bench(beat_bytes, stall);
            bench.set(5, QpState::Init, 77);
            bench.set(6, QpState::Init, 78);
            let (rtr, sqd) = (u128::from(QpState::Rtr.code()), u128::from(QpState::Sqd.code()));
            for (state, responder) in [(rtr, 1), (sqd, 0)] {
                bench.query(5);
                let record = [("write", 1), ("keeps", 1), ("record_exists", 1), ("record_state", state)];
                let other = [("record_attributes_pd", 9), ("responder", responder)];
                bench.update(5, &[&record[..], &other].concat());
                assert_eq!(bench.attributes.last(), Some(&(5, 77)));
                assert_eq!(bench.query(5), (1, state as u64, 77));
                bench.update(5, &[("keeps", 0), ("record_attributes_pd", 9)]);
                assert_eq!(bench.query(5), (1, state as u64, 77), "nothing is written");
                bench.update(5, &[]);
            }
            // Made anew.
            bench.set(5, QpState::Reset, 80);
            assert_eq!(bench.attributes.last(), Some(&(5, 80)));
            assert_eq!(bench.query(6), (1, code(QpState::Init), 78));
            bench.update(6, &[]);
        }
    }

    #[test]
    fn engines_start_before_the_state_is_broadcast() {
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.6)] {
            let mut bench = bench(beat_bytes, stall);
            let record = [("write", 1), ("record_exists", 1), ("rq_psn", 0x111111), ("sq_psn", 0x222222)];
            bench.query(9);
            let rtr = u128::from(QpState::Rtr.code());
            bench.update(9, &[&record[..], &[("record_state", rtr), ("responder", 1)]].concat());
            bench.query(9);
            let rts = u128::from(QpState::Rts.code());
            bench.update(9, &[&record[..], &[("record_state", rts), ("requester", 1)]].concat());
            assert_eq!(bench.states, [(9, code(QpState::Rtr), 1), (9, code(QpState::Rts), 2)]);
            for (sink, psn) in [(RESPONDER, 0x111111), (REQUESTER, 0x222222)] {
                assert_eq!(
                    (bench.sinks[sink].values("qp"), bench.sinks[sink].values("psn")),
                    (vec![9], vec![psn])
                );
            }
        }
    }

    #[test]
    fn a_fault_moves_a_running_qp_to_err_once() {
        for state in QpState::ALL.iter().copied() {
            let mut bench = bench(8, 0.3);
            bench.set(2, state, 1);
            bench.states.clear();
            bench.sinks[KICK].clear();
            for source in [2, 3, 2, 3] {
                bench.fault(source, 2, 0);
            }
            bench.settle();
            let runs = !matches!(state, QpState::Reset | QpState::Err);
            assert_eq!(bench.states.len(), usize::from(runs), "{state}");
            assert_eq!(bench.sinks[KICK].values("qp"), vec![2; usize::from(runs)], "{state}");
            let end = if runs { QpState::Err } else { state };
            assert_eq!(bench.query(2).1, code(end), "{state}");
        }
    }

    #[test]
    fn a_move_to_err_by_command_kicks_too() {
        let mut bench = bench(8, 0.3);
        bench.set(2, QpState::Rts, 1);
        bench.set(2, QpState::Err, 1);
        bench.set(2, QpState::Err, 1);
        assert_eq!(bench.sinks[KICK].values("qp"), [2]);
    }

    #[test]
    fn the_end_of_a_life_is_done_when_its_last_completion_is_written_and_nothing_of_it_is_read() {
        let mut bench = bench(8, 0.0);
        bench.set(3, QpState::Rts, 1);
        bench.query(3);
        bench.sources[1].push_values(&[("qp", 3), ("write", 1), ("record_exists", 1), ("drains", 1)]);
        let drained = |bench: &mut Bench, qp: u64, receive: u64| {
            bench.sim.set("drained_valid", 1);
            bench.sim.set("drained_qp", qp);
            bench.sim.set("drained_receive", receive);
            bench.step();
            bench.sim.set("drained_valid", 0);
        };
        let unread = |bench: &mut Bench, qp: u64| {
            bench.sim.set("unread_valid", 1);
            bench.sim.set("unread_qp", qp);
            bench.step();
            bench.sim.set("unread_valid", 0);
        };
        let waits = |bench: &mut Bench| {
            (0..50).for_each(|_| bench.step());
            assert_eq!(bench.sources[1].left(), 1, "another queue pair's, or not all of its own");
        };
        // RTS was a start as well.
        let starts = |bench: &Bench| bench.sinks[REQUESTER].values("qp");
        waits(&mut bench);
        // The others know at once.
        assert_eq!(bench.states.last(), Some(&(3, code(QpState::Reset), 0)));
        for (qp, receive) in [(2, 0), (3, 1), (2, 1), (3, 1)] {
            drained(&mut bench, qp, receive);
            waits(&mut bench);
        }
        unread(&mut bench, 2);
        waits(&mut bench);
        unread(&mut bench, 3);
        waits(&mut bench);
        assert_eq!(starts(&bench), [0; 0], "before the last completion");
        drained(&mut bench, 3, 0);
        bench.settle();
        assert_eq!(starts(&bench), [3], "behind everything that is read");
        assert_eq!(bench.query(3), (1, code(QpState::Reset), 0));
        bench.update(3, &[]);
    }

    #[test]
    fn a_send_queue_that_goes_on_after_a_drain_is_kicked() {
        let mut bench = bench(8, 0.3);
        for (state, kicks) in [(QpState::Rts, 0), (QpState::Sqd, 1), (QpState::Rts, 2), (QpState::Rts, 2)] {
            bench.set(2, state, 1);
            assert_eq!(bench.sinks[KICK].values("qp"), vec![2; kicks], "{state}");
        }
    }

    /// To SQD, with or without an event; the number of the stay.
    fn drain(bench: &mut Bench, qp: u64, event: bool) -> u64 {
        bench.query(qp);
        let sqd = u128::from(QpState::Sqd.code());
        let record = [("write", 1), ("record_exists", 1), ("record_state", sqd), ("event", event.into())];
        bench.update(qp, &record);
        let kick = bench.sinks[KICK].items.last().expect("a kick");
        assert_eq!((kick["qp"].to_u64(), kick["drains"].to_u64()), (qp, 1));
        kick["stay"].to_u64()
    }

    fn mark(bench: &mut Bench, qp: u64, stay: u64) {
        bench.sources[MARK].push_values(&[("qp", qp.into()), ("stay", (stay % 256).into())]);
        bench.settle();
    }

    fn drains(bench: &mut Bench, qp: u64) -> bool {
        bench.query(qp);
        bench.update(qp, &[]);
        !bench.sinks[REPLY].items.last().unwrap()["draining"].is_zero()
    }

    #[test]
    fn a_drain_is_told_once_and_not_of_another_stay() {
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.5)] {
            let mut bench = bench(beat_bytes, stall);
            bench.set(2, QpState::Rts, 1);
            bench.set(3, QpState::Rts, 1);
            let stay = drain(&mut bench, 2, true);
            let other = drain(&mut bench, 3, false);
            assert!(drains(&mut bench, 2) && drains(&mut bench, 3));
            mark(&mut bench, 2, stay + 1);
            assert!(drains(&mut bench, 2), "another stay's");
            mark(&mut bench, 2, stay);
            mark(&mut bench, 2, stay);
            mark(&mut bench, 3, other);
            assert!(!drains(&mut bench, 2) && !drains(&mut bench, 3));
            let kind = u64::from(EventKind::SqDrained.code());
            assert_eq!(bench.told(), [[kind, 2, 0]], "one event, where one is wanted");
            // Attributes may change there: that is no new stay.
            bench.set(2, QpState::Sqd, 4);
            assert!(!drains(&mut bench, 2));
            let kicks = bench.sinks[KICK].items.len();
            bench.set(2, QpState::Rts, 4);
            assert_eq!(bench.sinks[KICK].items[kicks..].len(), 1);
            assert_eq!(bench.sinks[KICK].items[kicks]["drains"].to_u64(), 0);
            // What is told late of a stay that is over, by command or by a fault.
            for state in [QpState::Rts, QpState::Err, QpState::Reset] {
                let stay = drain(&mut bench, 2, true);
                match state {
                    QpState::Err => {
                        bench.sources[2].push_values(&[("", 2)]);
                        bench.settle();
                    }
                    _ => bench.set(2, state, 1),
                }
                assert!(!drains(&mut bench, 2), "{state}");
                mark(&mut bench, 2, stay);
                bench.set(2, QpState::Rts, 1);
                let next = drain(&mut bench, 2, true);
                assert_ne!(stay, next);
                mark(&mut bench, 2, stay);
                assert!(drains(&mut bench, 2), "{state}");
                assert_eq!(bench.told().len(), 1, "{state}");
                bench.set(2, QpState::Rts, 1);
            }
        }
    }

    #[test]
    fn what_ends_a_queue_pair_is_told_once_in_a_life_and_its_first_packet_too() {
        use EventKind::{CommEstablished, QpAccessError, QpFatal, QpRequestError};
        for (seed, stall) in [(1, 0.0), (2, 0.5)] {
            let mut bench = bench(8, stall);
            bench.random = Random::new(seed);
            let mut expected: Vec<[u64; 3]> = Vec::new();
            for (kind, cause) in [(QpFatal, 0x90), (QpRequestError, 0x61), (QpAccessError, 0x62)] {
                for state in QpState::ALL.iter().copied() {
                    bench.set(2, state, 1);
                    // Several at once; of another queue pair, too.
                    bench.fault(3, 2, kind.code());
                    bench.fault(3, 2, QpFatal.code());
                    bench.fault(3, 4, kind.code());
                    bench.settle();
                    let runs = !matches!(state, QpState::Reset | QpState::Err);
                    if runs {
                        expected.push([kind.code().into(), 2, cause]);
                    }
                    assert_eq!(bench.told(), expected, "{kind:?}, {state}");
                }
                // A fault without an event says nothing, and neither does what follows it.
                bench.set(2, QpState::Rts, 1);
                bench.fault(3, 2, 0);
                bench.fault(3, 2, kind.code());
                bench.settle();
                assert_eq!(bench.told(), expected);
            }
            for state in QpState::ALL.iter().copied() {
                bench.set(2, state, 1);
                bench.fault(3, 2, CommEstablished.code());
                bench.settle();
                if !matches!(state, QpState::Reset | QpState::Init | QpState::Err) {
                    expected.push([CommEstablished.code().into(), 2, 0]);
                }
                assert_eq!(bench.told(), expected, "{state}");
                assert_eq!(bench.query(2).1, code(state), "it goes on");
                bench.update(2, &[]);
            }
        }
    }

    #[test]
    fn a_mark_waits_for_no_command() {
        let mut bench = bench(8, 0.0);
        bench.set(2, QpState::Rts, 1);
        let stay = drain(&mut bench, 2, true);
        bench.query(5);
        bench.sources[MARK].push_values(&[("qp", 2), ("stay", stay.into())]);
        for _ in 0..20 {
            bench.step();
        }
        assert_eq!(bench.sinks[REPORT].values("object"), [2]);
        bench.update(5, &[]);
        assert!(!drains(&mut bench, 2));
    }

    #[test]
    fn a_send_queue_that_fails_alone_leaves_its_queue_pair_in_sqe_and_can_go_on() {
        let uc = u128::from(Service::Uc.code());
        let put = |bench: &mut Bench, state: QpState, requester: u128| {
            bench.query(2);
            let state = u128::from(state.code());
            let record =
                [("write", 1), ("record_exists", 1), ("record_state", state), ("requester", requester)];
            bench.update(2, &[&record[..], &[("record_attributes_service", uc), ("sq_psn", 9)]].concat());
        };
        for (beat_bytes, stall) in [(8, 0.0), (64, 0.4)] {
            let mut bench = bench(beat_bytes, stall);
            let fault = |bench: &mut Bench, source: usize| {
                bench.fault(source, 2, 0);
                bench.settle();
                bench.sinks[KICK].items.len()
            };
            for (state, after) in [
                (QpState::Init, QpState::Init),
                (QpState::Rtr, QpState::Rtr),
                (QpState::Sqd, QpState::Sqe),
                (QpState::Rts, QpState::Sqe),
            ] {
                put(&mut bench, state, 0);
                let kicks = bench.sinks[KICK].items.len();
                // Told twice, it counts once.
                fault(&mut bench, 2);
                let kicked = fault(&mut bench, 2) - kicks;
                assert_eq!((bench.query(2).1, kicked), (code(after), usize::from(state != after)), "{state}");
                bench.update(2, &[]);
            }
            let kicks = bench.sinks[KICK].items.len();
            put(&mut bench, QpState::Rts, 1);
            let start = bench.sinks[REQUESTER].items.last().expect("a start");
            assert_eq!((start["qp"].to_u64(), start["recovers"].to_u64()), (2, 1));
            assert_eq!(bench.sinks[KICK].items.len(), kicks + 1, "it goes on");
            // Any other fault takes it down, from there too.
            fault(&mut bench, 2);
            fault(&mut bench, 3);
            assert_eq!(bench.query(2).1, code(QpState::Err));
            bench.update(2, &[]);
        }
    }

    #[test]
    fn a_fault_between_query_and_update_is_not_lost() {
        let mut bench = bench(8, 0.0);
        bench.set(2, QpState::Rtr, 1);
        bench.query(2);
        bench.sources[2].push_values(&[("", 2)]);
        for _ in 0..50 {
            bench.step();
        }
        assert_eq!(bench.sinks[KICK].items.len(), 0);
        let rts = u128::from(QpState::Rts.code());
        bench.update(2, &[("write", 1), ("record_exists", 1), ("record_state", rts)]);
        assert_eq!(bench.sinks[KICK].values("qp"), [2]);
        assert_eq!(bench.query(2).1, code(QpState::Err));
    }

    #[test]
    fn random_faults_and_updates_follow_a_model() {
        let mut bench = bench(64, 0.2);
        let mut model = [QpState::Reset; 8];
        for _ in 0..300 {
            let qp = bench.random.rng.random_range(0..8usize);
            if bench.random.chance(0.5) {
                let state = QpState::ALL[bench.random.rng.random_range(0..7usize)];
                bench.set(qp as u64, state, 3);
                model[qp] = state;
            } else {
                let source = bench.random.rng.random_range(2..4usize);
                bench.fault(source, qp as u64, 0);
                bench.settle();
                if !matches!(model[qp], QpState::Reset | QpState::Err) {
                    model[qp] = QpState::Err;
                }
            }
        }
        for (qp, state) in model.iter().enumerate() {
            assert_eq!(bench.query(qp as u64).1, code(*state));
            bench.update(qp as u64, &[]);
        }
    }
}
