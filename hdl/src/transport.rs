// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transport core: everything between the wire, the DMA channels and the host's blocks. Wiring only.
//!
//! ```text
//!  doorbell -> schedule -> fetch -> list -> segment -> gather -> commit --> packets --+
//!      ^ kick      | flush                                  |          | sent             v
//!      |           +----------------------------------------|----> launch ----> arbitrate -> build -> guard -> icrc -> wire
//!      +------ completer <----------------------------------|----------+                 ^
//!                ^                       lookups            |                            | answers
//!                |  \ runs             v-------------------+                            |
//!             answers \-> merge --> translate <- check -> admit -> place --> DMA write
//!                |                                   ^          ^
//!                +---------- dispatch <- buffer <----+----------+
//!                                          ^
//!                        parse, icrc ------+ <---------------------------- wire
//!
//!  dispatch -- CNPs --+                   +-- gate --> schedule, segment, the reply engine's cut
//!  segment -- charge -+--> congestion ----+-- wake --> schedule
//!  cut ---- charges --+                   |
//!  check -- marked ---+                   +-- CNPs --> arbitrate
//!  track -- marked ---+
//!
//!  buffer -- pressed --+--> pace, between gather and commit
//!  completions that meet -+
//!
//!  payload -- at hand --> give_way, between launch and arbitrate
//!
//!  guard -- raw frames: refused or not --> confirm, between launch and completer
//!
//!  parse -- PAUSE, PFC --> pause -- who stands still --> schedule, segment, the reply engine's cut, tx::icrc
//! ```

use crate::completer::{self, completer};
use crate::config::RnicConfig;
use crate::context::congestion::{self, congestion, CongestionControl, Gate};
use crate::context::timer::{Departed, PROBE_BITS};
use crate::host::event::Report;
use crate::host::{AhEntry, SrqControl, SrqStatus};
use crate::loopback::acks::acks;
use crate::loopback::merge::merge;
use crate::loopback::nothing;
use crate::loopback::room::{admit, room, Changes};
use crate::memory::{drain, memory, withdraw, Done, Operation, Passage, Tables, Withdrawals};
use crate::neighbour::neighbour;
use crate::requester::{
    commit, confirm, fetch, fetch_again, gather, grain, launch, list, pace, payload, repair, schedule,
    segment, sort_data, take_turns, Ask, Bar, Eased, Freed, News, Proof, Repeated, Restart, Sources,
};
use crate::responder::{self, responder, RqDoorbell};
use crate::rx;
use crate::rx::address::Addresses;
use crate::rx::keep::judge::Start;
use crate::rx::keep::report::Gap;
use crate::rx::keep::shelf::Stops;
use crate::rx::keep::store::CHUNK;
use crate::rx::keep::{keep, Front};
use crate::rx::peer::{Address, Life, Peers};
use crate::stream::{arbiter, breath, fork, half, Beat};
use crate::tx::arbitrate::{arbitrate, TxSource};
use crate::tx::build::build;
use crate::tx::give_way::{give_way, CAME};
use crate::tx::guard::guard;
use crate::tx::icrc::append;
use crate::tx::pause::{pause, FlowControl, PRIORITIES};
use crate::tx::report::report;
use crate::types::{
    reads_done_of, AddressVector, Completion, DmaReadData, DmaReadRequest, DmaWrite, KeyEntry, Kick, OfQp,
    Oldest, Pushes, QpBroadcast, QpFault, QpInit, QpPsns, SqDoorbell, SqStart, TableWrite,
};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::queue::event::EventKind;

/// What the host's blocks tell the transport.
#[derive(Interface)]
pub struct Control {
    /// QP attributes and states.
    pub broadcast: QpBroadcast,
    /// Addresses of the queue pairs' peers.
    pub peers: TableWrite<Address>,
    /// Address vectors.
    pub addresses: TableWrite<AddressVector>,
    /// Address handles.
    pub handles: TableWrite<AhEntry>,
    /// Keys.
    pub keys: TableWrite<KeyEntry>,
    /// Page table.
    pub pages: TableWrite<Sig>,
    /// Keys that are removed.
    pub removals: Stream<Operation>,
    /// Responders that start.
    pub responder: Stream<QpInit>,
    /// Requesters that start.
    pub requester: Stream<SqStart>,
    /// Doorbells of send queues.
    pub doorbell: Stream<SqDoorbell>,
    /// WQEs that the host pushes.
    pub pushes: Pushes,
    /// Shared receive queues.
    pub shared: SrqControl,
    /// Doorbells of receive queues.
    pub receive: Stream<RqDoorbell>,
    /// QPs whose send queue must be looked at.
    pub kick: Stream<Kick>,
    /// The unit of the timers has passed.
    pub tick: Sig,
    /// The parameters of congestion control.
    pub congestion: CongestionControl,
    /// The port's addresses.
    pub port: Addresses,
    /// Flow control of the link.
    pub flow: FlowControl,
    /// The raw Ethernet queue pair may send RoCE.
    pub raw_roce: Sig,
    /// The QP that is asked for.
    pub query: Sig,
}

/// Pulses for the counters.
#[derive(Clone, Bundle)]
pub struct Events {
    /// A frame was dropped, for this reason.
    pub dropped: rx::buffer::Dropped,
    /// What the responder saw.
    pub responder: responder::Counts,
    /// What was answered.
    pub replies: responder::reply::Counts,
    /// What the completer saw.
    pub completer: completer::Counts,
    /// What congestion control saw.
    pub congestion: congestion::Counts,
    /// A packet was sent again.
    pub again: Sig,
    /// A frame came.
    pub rx_frame: Sig,
    /// Bytes of frames that came.
    pub rx_bytes: Sig,
    /// A RoCE packet passed all checks up to the ICRC.
    pub rx_roce: Sig,
    /// A raw frame was taken.
    pub rx_raw: Sig,
    /// A frame left.
    pub tx_frame: Sig,
    /// Bytes of frames that left.
    pub tx_bytes: Sig,
    /// A RoCE packet is on its way to the wire.
    pub tx_roce: Sig,
    /// A raw frame is.
    pub tx_raw: Sig,
    /// A frame returned inside the card.
    pub loop_frame: Sig,
    /// Bytes of frames that did.
    pub loop_bytes: Sig,
    /// A raw frame is not, for it could be taken for RoCE.
    pub tx_raw_refused: Sig,
    /// A PAUSE frame came.
    pub pause: Sig,
    /// A PFC frame came.
    pub pfc: Sig,
    /// A priority stands still.
    pub stands: Sig,
}

/// What reads of host memory bring, in the order of [`Transport::reads`].
#[derive(Interface)]
pub struct ReadData {
    /// Send WQEs.
    pub wqes: Stream<DmaReadData>,
    /// Payload of requests.
    pub payload: Stream<DmaReadData>,
    /// Receive WQEs.
    pub receives: Stream<DmaReadData>,
    /// What READs and atomics of peers ask for.
    pub replies: Stream<DmaReadData>,
    /// Send WQEs whose answers are placed.
    pub recalled: Stream<DmaReadData>,
}

/// What comes out.
#[derive(Interface)]
pub struct Transport {
    /// To the wire.
    pub wire: Stream<Beat>,
    /// Reads of send WQEs, of payload, of receive WQEs, for responses, and of send WQEs that are answered.
    pub reads: Vec<Stream<DmaReadRequest>>,
    /// Received payload, and what atomics write.
    pub writes: Vec<Stream<DmaWrite>>,
    /// Completions of sends and of receives.
    pub completions: Vec<Stream<Completion>>,
    /// QPs whose send queue has failed.
    pub send_faults: Vec<Stream<Sig>>,
    /// QPs that go to the error state, or of which something is to be told.
    pub faults: Vec<Stream<QpFault>>,
    /// Ends of removals.
    pub removed: Done,
    /// Shared receive queues that run low, and queues that are overrun.
    pub reports: Vec<Stream<Report>>,
    /// The shared receive queue that is asked for.
    pub status: SrqStatus,
    /// The receive queue of a QP that has gone to RESET is read no more.
    pub unread: OfQp,
    /// A shared receive queue that was destroyed may still be read.
    pub busy: Sig,
    /// Priorities that stand still.
    pub paused: Sig,
    /// Of the QP that is asked for.
    pub psns: QpPsns,
    /// For the counters.
    pub events: Events,
}

/// The transport core.
#[module]
pub fn transport(
    m: &Scope,
    cfg: &RnicConfig,
    wire: Stream<Beat>,
    data: ReadData,
    control: Control,
) -> Transport {
    let broadcast = control.broadcast;
    let port_mac = control.port.mac;
    let (rx_frame, rx_bytes) = (wire.fire() & wire.last, bytes_of(&wire));
    let (loop_frames, loops_back) = m.later("loop_frames", &Beat::of(cfg.beat_bytes));
    let loop_changes = m.wire_of("loop_changes", &Changes::of(cfg));
    let room = room(m, cfg, loop_changes.clone());
    let (roomy, claims) = (m.wire("roomy", 1), m.wire("claims", 1));

    // Flows of queue pairs begin with them.
    let (responder_starts, requester_starts) = (control.responder, control.requester);
    let starting = requester_starts.payload.clone();
    let mut moves = None;
    let (responder_starts, requester_starts, flow_starts) = if cfg.selective {
        let [init, own_init] = both(m, "responder_starts", responder_starts);
        let [start, own_start] = both(m, "requester_starts", requester_starts);
        let recovers = own_start.recovers;
        let own_start = own_start.discard_if(m, recovers);
        let (moved, moves_of) = m.later("moved", &QpInit::of(cfg));
        moves = Some(moves_of);
        let starts = vec![
            moved.map(Start::of_responses),
            own_init.map(Start::of_requests),
            own_start.map(|start| Start::of_responses(&QpInit { qp: start.qp, psn: start.psn })),
        ];
        (init, start, Some(arbiter(&m.label("flows"), &|_: &Start| lit(1, 1), starts)))
    } else {
        (responder_starts, requester_starts, None)
    };

    // Feedback.
    let (question_r, ask_r) = m.later("requester_question", &crate::memory::Lookup::of());
    let (question_s, ask_s) = m.later("responder_question", &crate::memory::Lookup::of());
    let (question_a, ask_a) = m.later("reply_question", &crate::memory::Lookup::of());
    let (resume, resumes) = m.later("resume", &crate::requester::Resume::of(cfg));
    let (restart, restarts) = m.later("restart", &crate::requester::Restart::of(cfg));
    let (completer_kick, kicks) = m.later("completer_kick", &bits(cfg.qp_bits()));
    let (reads_end, reads_ends) = m.later("reads_end", &bits(cfg.qp_bits()));
    let (eased, eases) = m.later("eased", &bits(cfg.qp_bits()));
    let reads_done = m.wire_of("reads_done", &reads_done_of(cfg));
    let oldest = m.wire_of("oldest", &Oldest::write_of(cfg));
    let returned = m.wire("returned", 1);
    let freed = m.wire("freed", FREED);
    let plenty = m.wire("plenty", 1);
    let started = m.wire("started", 1);
    let (barred, bars) = m.later("barred", &crate::requester::Bar::of(cfg));
    let (unbarred, unbars) = m.later("unbarred", &QpInit::of(cfg));
    let (departed, departs) = m.later("departed", &Departed::of(cfg));
    let (cleared, clears) = m.later("cleared", &QpInit::of(cfg));
    let payload_taken = m.wire("payload_taken", 1);
    let (brought, brings) = m.later("brought", &responder::Run::of(cfg));
    let (values, found) = m.later("values", &bits(64));
    let (outcomes, outcome_s) = m.later("outcomes", &responder::Outcome::of());
    let gate = m.wire_of("gate", &Gate::write_of(cfg));
    let (wake, wakes) = m.later("wake", &bits(cfg.qp_bits()));
    let paused = m.wire("paused", PRIORITIES);
    let withdrawals = m.wire_of("withdrawals", &Withdrawals::write_of(cfg));
    let drained = m.wire("drained", 1);
    let another = m.wire("another", 1);
    let pressed = m.wire("pressed", rx::buffer::PRESSED);
    let receives_one = m.wire("receives_one", 1);

    let (operation_r, operate_r) = m.later("requester_operation", &Operation::of(cfg));
    let (operation_s, operate_s) = m.later("responder_operation", &Operation::of(cfg));
    let given = &broadcast.attributes;
    let domains = TableWrite { enable: given.enable, index: given.index, entry: given.entry.pd };
    let states = broadcast.state.clone();
    let tables = Tables { keys: control.keys, pages: control.pages, domains, states };
    let questions = vec![question_s, question_r, question_a];
    let memory = memory(m, cfg, tables, questions, vec![operation_r, operation_s, control.removals]);
    let (answers, operated, changed) = (memory.answers, memory.done, memory.changed);

    // Requester.
    let recovers = starting.recovers;
    let [completer_kick, wake] = [completer_kick, wake].map(|kick| kick.map(Kick::plain));
    let kicks_in = vec![control.kick, completer_kick, wake];
    let kick = arbiter(m, &|_: &Kick| lit(1, 1), kicks_in);
    let kick = crate::stream::fifo(&m.label("kick"), 4, kick);
    let reads_end = reads_end.map(|qp| Eased { qp: *qp, answered: lit(1, 1) });
    let receives = eased.map(|qp| Eased { qp: *qp, answered: lit(1, 0) });
    let eased = arbiter(m, &|_: &Eased| lit(1, 1), vec![reads_end, receives]);
    let doorbell = half(&m.label("doorbell"), control.doorbell);
    let (ask, asks) = cfg.selective.then(|| m.later("ask", &Ask::of(cfg))).unzip();
    let again_returned = m.wire("again_returned", 1);
    let ask = ask.map(|ask| (ask, again_returned));
    let freed_slot = m.reg_zero("freed_slot", &Freed::of(cfg));
    let scheduled = schedule(
        m,
        cfg,
        broadcast.clone(),
        requester_starts,
        started,
        doorbell,
        resume,
        kick,
        eased,
        oldest.clone(),
        reads_done.clone(),
        returned,
        plenty,
        another,
        gate.clone(),
        paused,
        control.pushes,
        freed_slot.clone(),
        ask,
    );
    let slots = if cfg.push_slots > 0 { vec![scheduled.pushed] } else { vec![] };
    // Reads of what is wanted once more are among the others.
    let (wqe_data, again_units) = match scheduled.again {
        Some((grants, kinds)) => {
            let [due, again] = sort_data(m, kinds, data.wqes);
            (due, Some(fetch_again(m, cfg, grants, again)))
        }
        None => (data.wqes, None),
    };
    let (fetched, taken) = fetch(m, cfg, grain(cfg), scheduled.grants, wqe_data, slots);
    m.set_all(&freed_slot, &taken);
    let forgotten = m.wire_of("forgotten", &crate::requester::Released::of());
    let released = m.wire("released", crate::requester::BANKS);
    let listed = list(m, cfg, fetched, forgotten.clone(), released);
    m.drive(&returned, listed.returned);
    let wqes = breath(&m.label("wqes"), cfg.unhurried(), listed.wqes);
    // What is sent again.
    let mut repairs = None;
    let repeats = again_units.zip(asks).map(|(units, asks)| {
        let repeated = m.wire_of("repeated", &Repeated::of(cfg));
        let (gap, gaps) = m.later("gap", &Gap::of(cfg));
        let (proof, proofs) = m.later("proof", &Proof::of(cfg));
        let (probe, probes) = m.later("probe", &bits(cfg.qp_bits()));
        let news = News { gaps: gap, proofs: proof, probes: probe };
        let of = (broadcast.clone(), oldest.clone());
        let repaired = repair(m, cfg, of, units, news, repeated.clone(), scheduled.asked);
        asks.connect(repaired.asks);
        m.drive(&again_returned, repaired.returned);
        repairs = Some((repeated, gaps, proofs, probes));
        (repaired.wqes, repaired.restarts)
    });
    let (repeats, own_restarts) = repeats.unzip();
    if !cfg.selective {
        m.drive(&again_returned, lit(1, 0));
        m.discard(&again_returned);
    }
    let restart = match own_restarts {
        Some(own) => arbiter(&m.label("restart"), &|_: &Restart| lit(1, 1), vec![restart, own]),
        None => restart,
    };
    let segmented = segment(
        m,
        cfg,
        broadcast.clone(),
        starting.clone(),
        wqes,
        restart,
        oldest.clone(),
        reads_done.clone(),
        scheduled.waiting,
        gate.clone(),
        paused,
        control.handles.clone(),
        withdrawals.clone(),
        repeats,
    );
    // The segmenter waits for the scheduler only, which waits for nobody; yet it need not know it in the same cycle.
    resumes.connect(crate::stream::fifo(&m.label("resume"), 2, segmented.resume));
    m.set_all(&forgotten, &segmented.forgotten);
    m.drive(&another, segmented.another);
    moves.into_iter().zip(segmented.moved).for_each(|(moves, moved)| moves.connect(moved));
    let gathered = gather(m, cfg, segmented.candidates, listed.stored);
    m.drive(&released, gathered.released);
    let parts = breath(&m.label("parts"), cfg.unhurried(), gathered.parts);
    let parts = pace(m, pressed, receives_one, parts);
    let committed = commit(
        m,
        cfg,
        broadcast.clone(),
        control.handles,
        unbarred,
        barred,
        oldest.clone(),
        parts,
        segmented.operands,
        answers[1].clone(),
        operated[0].clone(),
        payload_taken,
        freed,
    );
    m.drive(&plenty, committed.plenty);
    let withdrawn = withdraw(m, cfg, committed.taken_back, drained);
    m.set_all(&withdrawals, &withdrawn.withdrawals);
    ask_r.connect(committed.lookup);
    operate_r.connect(committed.operations);
    let outgoing = payload(m, cfg, data.payload, committed.ends, cleared);
    let reading = Passage { enters: committed.reading, leaves: outgoing.read };
    let reads_payload = vec![committed.looked_up, reading];
    m.drive(&payload_taken, outgoing.taken);
    let read_whole = outgoing.verdicts.fire();
    let packets = breath(&m.label("committed"), cfg.unhurried(), committed.packets);
    let starts = starting.qp;
    let launched = launch(m, cfg, starting, committed.reports, packets, outgoing.verdicts, scheduled.flush);
    let raw_starts = launched.done & starts.eq(RAW_QPN);
    let (sent, flush, starters) = (launched.sent, launched.flush, launched.started);
    // What is known of raw frames comes when they leave.
    let (sent, flush, starters, raw_credit, raw_verdicts) = if cfg.raw_ethernet {
        let (verdict, verdicts) = m.later("raw_verdict", &bits(1));
        let out = confirm(m, cfg, sent, flush, starters, verdict, raw_starts);
        let barred = vec![launched.barred, out.barred];
        bars.connect(arbiter(&m.label("barred"), &|_: &Bar| lit(1, 1), barred));
        (out.sent, out.flush, out.started, out.credit, Some(verdicts))
    } else {
        bars.connect(launched.barred);
        m.discard(&raw_starts);
        m.discard(&control.raw_roce);
        // The cycles of `confirm`: flushes and starts come after the report in the register.
        let sent = half(&m.label("reported"), sent);
        let open = !sent.valid;
        let flush = flush.gate(m, open);
        let starters: Vec<_> = starters.into_iter().map(|start| start.gate(m, open)).collect();
        (sent, flush, starters, lit(1, 0), None)
    };
    let came = read_whole.zext(CAME) + launched.inline.fire().zext(CAME);
    let sources = Sources { read: outgoing.payload, inline: gathered.inline, verdicts: launched.inline };
    let turns = breath(&m.label("turns"), cfg.unhurried(), committed.turns);
    let paid = take_turns(m, turns, sources);
    let mut takers = starters.into_iter();
    let mut taker = || takers.next().expect("the completer, commit and payload");
    let completer_start = taker();
    let whose = |start: &SqStart| QpInit { qp: start.qp, psn: start.psn };
    unbars.connect(half(&m.label("unbars"), taker().map(whose)));
    clears.connect(taker().map(whose));

    // Receive.
    let life = Life { peer: given.entry.peer, selective: given.entry.selective };
    let lives = TableWrite { enable: given.enable, index: given.index, entry: life };
    let peers = Peers { addresses: control.peers, lives };
    let (wire, looped) = match cfg.loopback {
        true => {
            let merged = merge(m, wire, loop_frames.clone(), roomy);
            m.drive(&claims, merged.claims);
            (merged.frame, merged.looped)
        }
        false => {
            loop_frames.accept(1);
            m.drive(&claims, lit(1, 0));
            m.discard(&(roomy, loop_frames.payload.clone()));
            (wire, lit(1, 0))
        }
    };
    let (loop_frame, loop_bytes) = (loop_frames.fire() & loop_frames.last, bytes_of(&loop_frames));
    let (frame, parsed, mac_control) = rx::parse::parse(m, cfg, control.port.clone(), peers, wire, looped);
    let told = (mac_control.pause, mac_control.pfc);
    m.set(&paused, pause(m, cfg, control.flow.clone(), mac_control));
    let (frame, verdict) = rx::icrc::check(m, cfg, frame);
    let verdict = breath(&m.label("verdict"), cfg.unhurried(), verdict);
    let mut received = rx::buffer::buffer(m, cfg, frame, parsed, verdict, claims);
    m.drive(&roomy, received.roomy);
    received.headers = breath(&m.label("headers"), cfg.unhurried(), received.headers);
    // What comes too early waits for what is missing.
    let (received, kept) = match flow_starts {
        Some(starts) => {
            let stops = Stops::of_states(m, &broadcast.state);
            let mtus = TableWrite { enable: given.enable, index: given.index, entry: given.entry.mtu };
            let front = received.headers.map(|sorted| Front::new(cfg, sorted));
            let chunks = cfg.keep_bytes / cfg.beat_bytes / CHUNK;
            let kept = keep(m, cfg, chunks, front, received.frame, mtus, starts, stops, control.tick);
            let received = rx::buffer::Received { headers: kept.headers, frame: kept.frame, ..received };
            (received, Some(kept.of))
        }
        None => (received, None),
    };
    let dispatched = rx::dispatch::dispatch(m, cfg, received);
    m.drive(&pressed, dispatched.pressed);
    // What is missing: of requests it is for the peer, of responses for the requester here.
    let mut probe_in = None;
    let reports = kept.zip(dispatched.reports).zip(repairs).map(|((kept, (notices, frames)), repairs)| {
        let (repeated, gaps, proofs, probes) = repairs;
        m.set_all(&repeated, &segmented.repeated);
        probe_in = Some(probes);
        let is_response = kept.gaps.flow.msb();
        let [own, of_requests] = split(m, "gaps", is_response, kept.gaps);
        let reported = rx::report::reported(m, cfg, notices, frames);
        gaps.connect(arbiter(&m.label("gaps"), &|gap: &Gap| gap.last, vec![reported.gaps, own]));
        proofs.connect(kept.proofs);
        report(m, cfg, broadcast.clone(), of_requests)
    });

    // Responder.
    let input = responder::Input {
        init: responder_starts,
        shared: control.shared,
        doorbell: control.receive,
        data: data.receives,
        requests: dispatched.requests,
        frames: dispatched.frames,
        arrivals: dispatched.arrivals,
        runs: brought,
        values,
        answer: answers[0].clone(),
        reply_answer: answers[2].clone(),
        operated: operated[1].clone(),
        changed,
        reply_data: data.replies,
        gate: gate.clone(),
        paused,
        may_loop: room.may_answer,
        query: control.query,
    };
    let responded = responder(m, cfg, broadcast.clone(), input);

    // A queue that is overrun: its queue pair ends, of which the host is told. Of a shared one, the highest bit is set, and it is told here.
    let of_sends = scheduled.overruns.map(|qp| qp.zext(cfg.rq_bits()));
    let overruns = arbiter(&m.label("overruns"), &|_: &Sig| lit(1, 1), vec![of_sends, responded.overruns]);
    let overruns = breath(&m.label("overrun"), cfg.unhurried(), overruns);
    let mut overruns = fork(m, 2, overruns).into_iter();
    let mut overrun = || overruns.next().expect("a fault and a report");
    let (fault, report) = (overrun(), overrun());
    let is_shared = fault.msb();
    let of_qp = |queue: &Sig| QpFault::told(EventKind::QpFatal, &queue.trunc(cfg.qp_bits()));
    let overrun_fault = fault.discard_if(m, is_shared).map(of_qp);
    let is_own = !report.msb();
    let overrun_report = report.discard_if(m, is_own).map(|queue| Report {
        kind: lit(8, EventKind::SrqFatal.code()),
        object: queue.trunc(cfg.srq_bits()).zext(24),
        cause: lit(8, LocalCause::Overrun.code()),
    });
    let ways = vec![reads_payload, responded.accesses, responded.reply_accesses];
    let reads = 2 * (cfg.payload_buffer_bytes / cfg.beat_bytes).max(512);
    let most = [vec![127, reads], vec![127, 63], vec![127, reads, 127]];
    let mut faults = responded.faults;
    faults.push(overrun_fault);
    // What enters and leaves is known late, and counted a cycle later; so removals are seen a cycle later, and withdrawals ask a cycle later.
    let counted = |(i, way): (usize, Vec<Passage>)| {
        let counted = |(j, stage): (usize, Passage)| m.delay_zero(&format!("way_{i}_{j}"), &stage);
        way.into_iter().enumerate().map(counted).collect()
    };
    let ways = ways.into_iter().enumerate().map(counted).collect();
    let removed = m.delay("removed", &operated[2]);
    let ended = drain(m, &most, removed, withdrawn.asks, ways);
    m.drive(&drained, ended.withdrawn);
    ask_s.connect(responded.lookup);
    ask_a.connect(responded.reply_lookup);
    operate_s.connect(responded.operations);
    outcome_s.connect(responded.outcomes);

    // Completer.
    // A start or a flush behind a report in this register is held by the recorder, which takes reports first.
    let sent = half(&m.label("sent"), sent);
    let replies = half(&m.label("replies"), dispatched.answers);
    let input = completer::Input {
        init: completer_start,
        sent,
        departed,
        answers: replies,
        outcomes,
        kept: gathered.kept,
        data: data.recalled,
        flush,
        late: launched.late,
        tick: control.tick,
        probe: lit(PROBE_BITS, FIRST_PROBE_US),
        withdrawals,
        over: withdrawn.looks,
        query: control.query,
    };
    let tracked = completer(m, cfg, broadcast.clone(), input);
    // What goes on after an error has been flushed before.
    m.drive(&started, m.mux(recovers, &tracked.recovered, &launched.done));
    let mut tracked_kicks = tracked.kicks.into_iter();
    kicks.connect(tracked_kicks.next().expect("for room"));
    reads_ends.connect(tracked_kicks.next().expect("for READs"));
    eases.connect(tracked.eased);
    if let Some((probes, probe)) = probe_in.zip(tracked.probe) {
        probes.connect(probe);
    }
    m.set_all(&reads_done, &tracked.reads_done);
    brings.connect(tracked.runs);
    found.connect(tracked.values);
    restarts.connect(tracked.restarts);
    m.drive(&oldest, tracked.oldest);
    let credits = [tracked.freed, tracked.credit, launched.credit, raw_credit];
    let returned_credits = credits.into_iter().fold(lit(FREED, 0), |sum, credit| sum + credit.zext(FREED));
    m.drive(&freed, m.delay("returned_credits", &returned_credits));

    // Congestion control.
    let input = congestion::Input {
        control: control.congestion,
        broadcast,
        marked: vec![responded.marked, tracked.marked],
        cnps: dispatched.cnps,
        sent: segmented.charge,
        charges: responded.charges,
    };
    let slowed = congestion(m, cfg, input);
    m.set_all(&gate, &slowed.gate);
    wakes.connect(slowed.wake);

    // Send: answers and CNPs beside requests.
    let answers = responded.source.packet;
    // Of what loops, acknowledgements wait where they keep nobody waiting; responses have their room.
    let is_ack = answers.loops & responded.acknowledges;
    let offered = answers.valid;
    let [acks_in, answers] = split(m, "answers", is_ack, answers);
    let acks = acks(m, cfg, room.may_answer, acks_in);
    let notices = admit(&m.label("admit_cnps"), cfg, room.may_answer, slowed.packets);
    // Whether the gate is open is no part of the arbiter's choice.
    let cnps = breath(&m.label("cnps"), cfg.loopback, notices.packets);
    // An answer that comes is another one too, for their register shows one in two cycles. What comes is known late, and counts from the next cycle on.
    let others = responded.comes | offered | acks.packets.valid | cnps.valid;
    let others = m.delay("others_offer", &others);
    let packets = half(&m.label("packets"), launched.packets);
    let packets = give_way(m, others, came, packets);
    let requests = admit(&m.label("admit_requests"), cfg, room.may_request, packets);
    let request_beats = requests.reserves;
    let requests = TxSource { packet: requests.packets, payload: Some(paid) };
    let answers = TxSource { packet: answers, payload: responded.source.payload };
    let small = [notices.passed, acks.reserves];
    let [acks, cnps] = [acks.packets, cnps].map(|packet| TxSource { packet, payload: None });
    let mut sources = vec![requests, answers, cnps];
    if cfg.loopback {
        sources.push(acks);
    } else {
        acks.packet.accept(1);
    }
    if cfg.neighbour_responder {
        sources.push(neighbour(m, cfg, control.port, dispatched.questions));
    } else {
        dispatched.questions.accept(1);
    }
    let report_beats = match reports {
        Some(TxSource { packet, payload }) => {
            let admitted = admit(&m.label("admit_reports"), cfg, room.may_answer, packet);
            sources.push(TxSource { packet: admitted.packets, payload });
            m.discard(&admitted.passed);
            admitted.reserves
        }
        None => nothing(cfg),
    };
    let chosen = arbitrate(m, cfg, sources);
    let packet = breath(&m.label("chosen"), cfg.unhurried(), chosen.packet);
    let frame = build(m, cfg, packet, chosen.payload, control.addresses, control.flow.pfc);
    let (frame, tx_raw_refused) = match raw_verdicts {
        Some(verdicts) => {
            let guarded = guard(m, cfg, frame, control.raw_roce, raw_starts, port_mac);
            verdicts.connect(guarded.verdicts);
            (guarded.frame, guarded.refused)
        }
        None => (frame, lit(1, 0)),
    };
    let (appended, looped) = append(m, cfg, frame, paused);
    loops_back.connect(looped.frames);
    m.set_all(
        &loop_changes,
        &Changes {
            request: request_beats,
            response: responded.reserves,
            small,
            report: report_beats,
            unspent: responded.unspent,
            left: looped.left,
            raw: looped.raw,
        },
    );
    // Requests that leave start a timer.
    let to_wire = appended.left & appended.of.request;
    let departed = m.mux(to_wire, &appended.of.departed, &looped.departed.payload);
    let departing = Stream::new(m, "departing", to_wire | looped.departed.valid, departed);
    looped.departed.accept(!to_wire);
    m.assert(!departing.valid | departing.ready, "the timer takes what leaves at once");
    departs.connect(departing);
    let wire = appended.wire;
    let (tx_frame, tx_bytes) = (wire.fire() & wire.last, bytes_of(&wire));
    let events = Events {
        dropped: dispatched.dropped,
        responder: responded.counts,
        replies: responded.reply_counts,
        completer: tracked.counts,
        congestion: slowed.counts,
        again: committed.again,
        rx_frame,
        rx_bytes,
        rx_roce: dispatched.passed,
        rx_raw: dispatched.raw,
        tx_frame,
        tx_bytes,
        tx_roce: appended.left & !appended.of.raw,
        tx_raw: appended.left & appended.of.raw,
        loop_frame,
        loop_bytes,
        tx_raw_refused,
        pause: told.0,
        pfc: told.1,
        stands: paused.any(),
    };
    let events = m.delay("events", &events);
    m.drive(&receives_one, m.delay("came", &responded.receives_one));
    Transport {
        wire,
        reads: vec![scheduled.read, committed.read, responded.read, responded.reply_read, tracked.read],
        writes: vec![responded.write, responded.atomic_write],
        completions: std::iter::once(tracked.completions).chain(responded.completions).collect(),
        send_faults: tracked.faults,
        faults,
        removed: ended.removed,
        reports: vec![responded.reports, overrun_report],
        status: responded.status,
        unread: responded.unread,
        busy: responded.busy,
        paused,
        psns: QpPsns { sq: tracked.next_psn, rq: responded.expected_psn },
        events,
    }
}

/// A stream for two takers.
fn both<T: Bundle + Interface>(m: &Scope, name: &str, stream: Stream<T>) -> [Stream<T>; 2] {
    let ways = fork(&m.label(name), 2, stream);
    ways.try_into().unwrap_or_else(|_| unreachable!("two ways"))
}

/// A stream in two ways: first that of which `that` is so.
fn split<T: Bundle + Interface>(m: &Scope, name: &str, that: Sig, stream: Stream<T>) -> [Stream<T>; 2] {
    let ways = [("those", that), ("others", !that)];
    let ways = ways.map(|(way, goes)| {
        Stream::new(m, &format!("{name}_{way}"), stream.valid & goes, stream.payload.clone())
    });
    stream.accept(m.mux(that, &ways[0].ready, &ways[1].ready));
    ways
}

/// Bits of a number of messages that the completer has room for again.
const FREED: u32 = 3;

/// Microseconds without an acknowledgement until a queue pair with selective retransmission is probed.
const FIRST_PROBE_US: u32 = 16;

/// Bytes that a stream passes on in this cycle.
fn bytes_of(wire: &Stream<Beat>) -> Sig {
    let width = byte_bits(wire.bytes());
    wire.fire().then(lit(width, wire.bytes()) - wire.empty.zext(width), lit(width, 0))
}

/// Bits of a number of bytes in a cycle.
pub fn byte_bits(beat_bytes: u32) -> u32 {
    clog2(u64::from(beat_bytes)) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::build;

    #[test]
    fn the_transport_passes_the_build_time_checks_at_both_configurations() {
        for name in ["generic-64b", "generic-8b"] {
            let cfg = RnicConfig::named(name).unwrap();
            let net = build("core", |m| {
                let wire = m.stream_in("rx", &Beat::of(cfg.beat_bytes));
                let brings = |name: &str| m.stream_in(name, &DmaReadData::of(&cfg));
                let data = ReadData {
                    wqes: brings("wqe"),
                    payload: brings("payload"),
                    receives: brings("receive"),
                    replies: brings("reply"),
                    recalled: brings("recalled"),
                };
                let key_bits = bits(ferrowire_rtl::clog2(u64::from(cfg.keys)));
                let page_bits = bits(ferrowire_rtl::clog2(u64::from(cfg.page_entries)));
                let control = Control {
                    broadcast: m.input_of("broadcast", &QpBroadcast::of(&cfg)),
                    peers: m.input_of("peers", &Peers::of(&cfg).addresses),
                    addresses: m.input_of(
                        "addresses",
                        &TableWrite {
                            enable: bits(1),
                            index: bits(cfg.av_bits()),
                            entry: AddressVector::of(),
                        },
                    ),
                    handles: m.input_of("handles", &AhEntry::write_of(&cfg)),
                    keys: m.input_of(
                        "keys",
                        &TableWrite { enable: bits(1), index: key_bits, entry: KeyEntry::of(&cfg) },
                    ),
                    removals: m.stream_in("removals", &Operation::of(&cfg)),
                    pages: m.input_of(
                        "pages",
                        &TableWrite { enable: bits(1), index: page_bits, entry: bits(52) },
                    ),
                    responder: m.stream_in("start_responder", &QpInit::of(&cfg)),
                    requester: m.stream_in("start_requester", &SqStart::of(&cfg)),
                    doorbell: m.stream_in("doorbell", &SqDoorbell::of(&cfg)),
                    pushes: Pushes::of(&cfg).zeros(),
                    shared: m.input_of("shared", &SrqControl::of(&cfg)),
                    receive: m.stream_in("receive_doorbell", &RqDoorbell::of(&cfg)),
                    kick: m.stream_in("kick", &Kick::of(&cfg)),
                    tick: m.input("tick", 1),
                    congestion: m.input_of("congestion", &CongestionControl::of()),
                    port: m.input_of("port", &Addresses::of()),
                    flow: m.input_of("flow", &FlowControl::of()),
                    raw_roce: m.input("raw_roce", 1),
                    query: m.input("query", cfg.qp_bits()),
                };
                let out = transport(m, &cfg, wire, data, control);
                m.stream_out("tx", out.wire);
                for (i, read) in out.reads.into_iter().enumerate() {
                    m.stream_out(&format!("read{i}"), read);
                }
                for (i, write) in out.writes.into_iter().enumerate() {
                    m.stream_out(&format!("write{i}"), write);
                }
                for (i, completion) in out.completions.into_iter().enumerate() {
                    m.stream_out(&format!("completion{i}"), completion);
                }
                let send_faults = out.send_faults.into_iter().map(|fault| fault.map(QpFault::silent));
                for (i, fault) in send_faults.chain(out.faults).enumerate() {
                    m.stream_out(&format!("fault{i}"), fault);
                }
                m.output("events", &out.events);
                for (i, report) in out.reports.into_iter().enumerate() {
                    m.stream_out(&format!("report{i}"), report);
                }
                m.output("status", &out.status);
                m.output("removed", &out.removed);
                m.output("unread", &out.unread);
                m.output("busy", &out.busy);
                m.output("paused", &out.paused);
                m.output("psns", &out.psns);
            })
            .unwrap_or_else(|e| panic!("{name}:\n{e}"));
            let lines: usize = net.verilog().lines().count();
            println!("{name}: {:?} nodes, registers, memories; {lines} lines of Verilog", net.size());
            if let Ok(dir) = std::env::var("DUMP") {
                std::fs::write(format!("{dir}/{name}.v"), net.verilog()).unwrap();
            }
        }
    }
}
