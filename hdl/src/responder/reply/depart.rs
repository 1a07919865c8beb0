// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where packets leave, in the order in which they were asked for, and where a QP fails.
//!
//! ```text
//!  departures ---> oldest --+--> headers         verdicts, begun: of payload
//!                     |     +--> passes          job, result: of atomics
//!  failed: a bit a QP +     +--> finished entries --> order
//!                           +--> faults, failed --> cut
//! ```
//!
//! A READ response is offered in the cycle in which the first beat of its payload comes, so that the rest is sure to follow, and is
//! done with when the last one has: then it is known whether the payload is good. Data comes in the order of departures,
//! so nobody waits for this who could have gone. An atomic is computed and written while it is the oldest.
//!
//! The first refusal or failed read of a QP is answered with a NAK at the packet's PSN, and its bit is set: everything of
//! it behind is forgotten, whether there is payload or not, until the end of its life comes by. The QP is told to the QP
//! context once. A packet that has been offered when its payload fails is poisoned; its frame does not leave.
//!
//! A READ response in two cycles; an atomic 3 cycles and what `atomic` takes; a NAK 3. Reset: the bits are swept, one QP a cycle.

use super::atomic::{Errand, Job, Outcome};
use super::cut::Work;
use super::issue::Departure;
use super::order::Finished;
use super::Header;
use crate::config::RnicConfig;
use crate::responder::admit::{NAK_ACCESS, NAK_OPERATION};
use crate::stream::{deep_fifo, fifo, half};
use crate::types::{QpFault, TableWrite, FAULT_BITS};
use ferrowire_rtl::{bits, clog2, lit, module, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::EventKind;
use ferrowire_spec::wire::opcode::Opcode;

/// Changes of a QP's bit.
pub(super) fn failed_of(cfg: &RnicConfig) -> TableWrite<Sig> {
    TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: bits(1) }
}

/// What comes out.
#[derive(Interface)]
pub(super) struct Departed {
    pub(super) headers: Stream<Header>,
    /// For each packet with payload: it goes, or is to be forgotten.
    pub(super) passes: Stream<Sig>,
    /// For `atomic`.
    pub(super) jobs: Stream<Job>,
    pub(super) finished: Stream<Finished>,
    pub(super) faults: Stream<QpFault>,
    pub(super) failed: TableWrite<Sig>,
    /// Beats that were reserved in the loop's ring for a response that does not come.
    pub(super) unspent: Sig,
    /// The answer of a repeated atomic is no longer known.
    pub(super) forgotten: Sig,
    /// A NAK goes: what was asked for is no longer allowed, or host memory has failed.
    pub(super) access: Sig,
    pub(super) operation: Sig,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Look,
    /// The packet has gone; is its payload good?
    Verdict,
    /// An atomic is computed.
    Result,
    /// The QP fails while its packet is executed.
    Nak,
    /// And the entry is done with.
    Close,
}

/// The way out.
#[module]
pub(super) fn depart(
    m: &Scope,
    cfg: &RnicConfig,
    departures: Stream<Departure>,
    begun: Sig,
    verdicts: Stream<Sig>,
    results: Stream<Outcome>,
) -> Departed {
    let state = m.fsm("state", State::Sweep);
    let swept = m.reg("swept", cfg.qp_bits()).reset(0);
    let sweeping = state.is(State::Sweep);
    m.when(sweeping, |m| {
        m.set(&swept, swept + 1);
        m.when(swept.all(), |m| m.set(&state, State::Look));
    });
    // Whether its QP has failed is looked up as an entry comes, and what becomes known while it is here counts as well.
    let failed_bits = m.mem("failed", cfg.qps, &bits(1)).style(Style::Distributed).build();
    // The bits are written a cycle later; what is here knows at once, and nothing comes in that cycle.
    let failed = m.wire_of("failed_now", &failed_of(cfg));
    let write = m.reg_zero("failed_write", &failed_of(cfg));
    m.set_all(&write, &failed);
    failed_bits.write(write.enable, write.index, &write.entry);
    let dead = m.reg("dead", 1).no_reset();
    let coming = departures.about.qp;
    let failed_before = failed_bits.read_now(coming);
    let now = m.mux(write.enable & write.index.eq(coming), &write.entry, &failed_before);
    m.when(departures.fire(), |m| m.set(&dead, now))
        .otherwise_when(failed.enable, |m| m.set(&dead, failed.entry));
    let departures = half(&m.label("departure"), departures);
    let about = &departures.about;
    let qp = about.qp;
    let is = |work: Work| match work {
        Work::Atomic | Work::Replay => cfg.only(cfg.atomics, about.is(work)),
        _ => about.is(work),
    };

    // Packets whose payload has begun to come.
    let counted = clog2(u64::from(2 * super::issue::DEPARTURES)) + 1;
    let here = m.reg("here", counted).reset(0);
    let passed = m.wire("passed", 1);
    // One that passes is counted a cycle later: the next departure comes in two.
    let passed_before = m.delay("passed_before", &passed);
    m.set(&here, here + begun.zext(counted) - passed_before.zext(counted));

    let (finished_room, passes_room) = (m.wire("finished_room", 1), m.wire("passes_room", 1));
    let look = state.is(State::Look) & departures.valid & finished_room;
    let lives = look & !dead & !is(Work::Drop);
    let comes = (here.ne(0) | begun) & passes_room;
    let (at_result, at_nak) = (state.is(State::Result), state.is(State::Nak));

    // A refusal: the NAK goes, and what remains is that of a QP that has failed.
    let refused = lives & departures.refused;
    let granted = lives & !departures.refused;
    let response = granted & is(Work::Read) & (comes | !departures.carries);
    let result = at_result & results.valid & finished_room;
    let answers = result & results.found & !results.error;
    let naks = refused | at_nak;
    let opcode = m.wire("opcode", 8);
    m.set(&opcode, about.opcode(m));
    m.when(at_result, |m| m.set(&opcode, Opcode::RcAtomicAcknowledge.code()));
    m.when(naks, |m| m.set(&opcode, Opcode::RcAcknowledge.code()));
    let syndrome = m.wire("syndrome", 8);
    m.set(&syndrome, about.syndrome);
    m.when(refused, |m| m.set(&syndrome, NAK_ACCESS))
        .otherwise_when(at_nak, |m| m.set(&syndrome, NAK_OPERATION));
    let header = Header {
        qp,
        opcode,
        psn: about.psn,
        original: results.original,
        syndrome,
        msn: about.msn,
        bytes: m.mux(departures.carries & !naks, &about.bytes, &lit(13, 0)),
        lane: departures.lane,
        loops: about.loops,
        acknowledges: naks,
        end: lit(1, 0),
    };
    let headers = Stream::new(m, "headers", response | answers | naks, header);
    let goes = headers.fire();
    let responds = goes & response;
    let fails = goes & naks;

    // Payload: with its header, or to be forgotten once it is all there.
    let forgets = look & !lives & departures.carries & comes & verdicts.valid;
    let passes = Stream::new(m, "pass", (responds & departures.carries) | forgets, responds);
    m.drive(&passes_room, passes.ready);
    m.drive(&passed, passes.valid);
    let judges = (responds & departures.carries) | state.is(State::Verdict);
    let judged = judges & verdicts.valid & finished_room;
    verdicts.accept((judges & finished_room) | forgets);

    // Atomics. One of a QP that has failed takes back what it has under way.
    let errand = m.wire("errand", 2);
    m.set(&errand, Errand::Execute.code());
    m.when(is(Work::Replay), |m| m.set(&errand, Errand::Replay.code()));
    m.when(is(Work::End), |m| m.set(&errand, Errand::Forget.code()));
    m.when(dead & is(Work::Atomic), |m| m.set(&errand, Errand::Skip.code()));
    let executes = granted & (is(Work::Atomic) | is(Work::Replay));
    let skips = look & dead & is(Work::Atomic);
    let ends = look & is(Work::End);
    let job = Job { qp, psn: about.psn, errand, granted: !departures.refused };
    let jobs = Stream::new(m, "job", executes | skips | ends, job);
    let given = jobs.fire();
    results.accept(result & (!results.found | results.error | headers.ready));

    // What is done with.
    let silent = look & !lives & !is(Work::End) & !is(Work::Atomic) & !departures.carries;
    let whole = responds & !departures.carries;
    let good = judged & verdicts.payload;
    let known = (result & !results.found & !results.error) | (goes & answers);
    let closes = state.is(State::Close) & finished_room;
    let taken = silent | forgets | (given & (skips | ends)) | whole | good | known | closes;
    departures.accept(taken);
    // A NAK in its place finds its own room.
    let sent = m.reg("sent", 1).reset(0);
    let answered = sent | responds | (goes & answers);
    m.set(&sent, answered & !taken);
    let unspent = about.reserved(cfg);
    let unspent = unspent & (taken & !answered).repeat(unspent.width());
    let finished = Finished {
        qp,
        end: is(Work::End),
        new: about.new,
        atomic: about.atomic,
        dead: (dead | closes) & !is(Work::End),
        psn: about.psn,
    };
    let finished = Stream::new(m, "finish", taken & about.closes, finished);
    m.drive(&finished_room, finished.ready);
    let finished = fifo(&m.label("finished"), 4, finished);

    // The QP's bit, and who is told.
    let clears = given & ends;
    let (enable, index) = (sweeping | fails | clears, m.mux(sweeping, &swept, &qp));
    m.set_all(&failed, &TableWrite { enable, index, entry: fails });
    // A READ or an atomic has no receive that would say why.
    let event = m.mux(refused, &QpFault::told(EventKind::QpAccessError, &qp).event, &lit(FAULT_BITS, 0));
    let has_failed = m.reg("has_failed", 1).reset(0);
    m.set(&has_failed, fails);
    let fault = m.delay("fault_before", &QpFault { qp, event });
    let fault = Stream::new(m, "fault", has_failed, fault);
    m.assert(!fault.valid | fault.ready, "a QP fails once before its end");
    let faults = deep_fifo(&m.label("faults"), cfg.qps, fault);

    m.when(responds & departures.carries & !judged, |m| m.set(&state, State::Verdict));
    m.when(judged, |m| {
        m.when(verdicts.payload, |m| m.set(&state, State::Look)).otherwise(|m| m.set(&state, State::Nak));
    });
    m.when(given & executes, |m| m.set(&state, State::Result));
    m.when(result & results.error, |m| m.set(&state, State::Nak));
    m.when(known | closes, |m| m.set(&state, State::Look));
    m.when(fails & at_nak, |m| m.set(&state, State::Close));
    let forgotten = result & !results.found & !results.error;
    let (access, operation) =
        (m.delay("access", &(fails & refused)), m.delay("operation", &(fails & at_nak)));
    Departed { headers, passes, jobs, finished, faults, failed: write, unspent, forgotten, access, operation }
}
