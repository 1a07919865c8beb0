// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event writer: turns what host software is to be told into 16-byte entries of event queues, and interrupts. It alone
//! owns their producer indices, and knows which of them are armed.
//!
//! ```text
//!  notices ---> gather: flags of each CQ --->|                             full
//!                 ^                          | one ---> its EQ ---> room? ------> back (CQs), lost (others)
//!                 +------------- back        |            ^           |
//!  reports ------> round robin ------------->|            |           +---> entry ---> write
//!                                                         |                   |
//!  CREATE_EQ, CREATE_CQ, doorbell -------> tables --------+                   v
//!                     |                                              armed? ---> behind the write ---> interrupt
//!                     +--- arms ---------------------------------------^
//! ```
//!
//! A notice is about a CQ and goes to the CQ's event queue; a report is about anything else and goes to the asynchronous one. A CQ
//! without an event queue tells nobody of its entries, and the asynchronous one of its overrun. What has no queue to go to is
//! dropped: nobody asked.
//!
//! Notices are never lost. Each CQ has a place in a line and a flag for each kind of notice; what finds its event queue full goes back
//! to the end, and is tried again until the host has taken entries. So one full event queue holds up no other. A report for a full
//! event queue is lost, with a pulse on `lost`, and the next entry there says so: who sends reports must not wait for the host.
//!
//! An event takes 6 cycles, and as long as the write channel; one that goes back 5. 8 cycles, or 7 where there are few queues, from a notice to the entry's first beat.
//!
//! A doorbell writes the consumer's index and, when it arms, makes the next entry raise an interrupt; at once where there are entries
//! behind the consumer. It is decided in a cycle in which the producer stands still, and waits for nothing else. `interrupt` pulses
//! when the entry has left the card's write port, so that what the PCIe engine sends for it comes behind. An interrupt
//! uses the arming up. Several that wait leave the lowest number first, one in four cycles. That of a queue which is removed before it leaves is forgotten.
//!
//! An event queue with a moderation time raises an interrupt at most once in it: behind each it is quiet for so long. What comes meanwhile is written at
//! once, and raises its interrupt at the end of the quiet time, if it finds the queue armed. The time is counted in microseconds, of which one has
//! begun already: a queue is quiet for its time and at most one microsecond and `eqs` cycles more, for a sweep looks at a queue a cycle.
//!
//! `busy` is low in some cycle behind each removal of a queue: from then on, nothing is written into an event queue that was
//! removed, nor about a CQ that was.
//!
//! Bad input: a doorbell with a consumer ahead of the producer makes its queue look full, and harms nobody else. Reset empties the line
//! and forgets the asynchronous queue; the command processor then clears the tables.

use super::cq::NOTICES;
use super::dma::{write_entry, EntryWrite, Order};
use super::{CqEntry, EqDoorbell, EqEntry};
use crate::config::RnicConfig;
use crate::fields::assemble;
use crate::stream::{arbiter, gather, half, Flagged, Forget};
use crate::types::{DmaWrite, TableWrite};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::queue::event as spec;
use ferrowire_spec::queue::EventKind;

/// An event that belongs to no CQ.
#[derive(Clone, Bundle)]
pub struct Report {
    /// What happened, as `EventKind`.
    pub kind: Sig,
    /// Whom it befell: the QPN or SRQN.
    pub object: Sig,
    /// Why, as `syndrome` of a CQE.
    pub cause: Sig,
}

impl Report {
    /// The shape.
    pub fn of() -> Self {
        Report { kind: bits(8), object: bits(24), cause: bits(8) }
    }
}

/// An interrupt for an event queue.
#[derive(Clone, Bundle)]
pub struct Interrupt {
    /// In this cycle.
    pub valid: Sig,
    /// For which event queue.
    pub eqn: Sig,
    /// Its MSI-X vector.
    pub vector: Sig,
}

impl Interrupt {
    /// The shape.
    pub fn of() -> Self {
        Interrupt { valid: bits(1), eqn: bits(8), vector: bits(8) }
    }
}

/// The card's write port: what has left it is on its way to the host.
#[derive(Clone, Bundle)]
pub struct WritePort {
    /// A beat is on offer.
    pub valid: Sig,
    /// It is taken.
    pub fire: Sig,
}

/// What leaves the event writer.
#[derive(Interface)]
pub struct EventWriter {
    /// Entries on the way to memory.
    pub write: Stream<DmaWrite>,
    /// Interrupts.
    pub interrupt: Interrupt,
    /// An entry was written in this cycle.
    pub written: Sig,
    /// A report was lost in this cycle.
    pub lost: Sig,
    /// An entry may be on its way to the write channel.
    pub busy: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    /// Takes something to tell.
    Idle,
    /// Its event queue is known.
    Look,
    /// That queue has answered.
    Weigh,
    /// Whether it has room is known.
    Decide,
    /// The entry is offered.
    Write,
    /// It counts.
    Count,
    /// A CQ goes to the end of the line.
    Back,
}

/// What of an event queue the writer needs.
#[derive(Clone, Bundle)]
struct Place {
    valid: Sig,
    base: Sig,
    log2: Sig,
    vector: Sig,
}

/// Where a CQ's events go.
#[derive(Clone, Bundle)]
struct Asks {
    valid: Sig,
    eqn: Sig,
}

/// Bits of an index within a queue.
const INDEX: u32 = super::MAX_CQ_LOG2;

/// Bits of the time in microseconds; it wraps after more than twice the longest quiet time.
const TIME: u32 = 17;

/// Beats that may stand in the write port's register slice.
const SLICE: u32 = 2;

/// Writes events.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn event(
    m: &Scope,
    cfg: &RnicConfig,
    notices: Stream<Flagged>,
    reports: Vec<Stream<Report>>,
    cqs: TableWrite<CqEntry>,
    eqs: TableWrite<EqEntry>,
    doorbell: Stream<EqDoorbell>,
    port: WritePort,
) -> EventWriter {
    for unused in [&cqs.entry.base, &cqs.entry.log2, &cqs.entry.doorbell_page] {
        m.discard(unused);
    }
    m.discard(&eqs.entry.doorbell_page);
    let eq_bits = cfg.eq_bits();
    let state = m.fsm("state", State::Idle);

    // Tables.
    let eqns = m.mem("eqns", cfg.cqs, &Asks { valid: bits(1), eqn: bits(eq_bits) }).init(vec![]).build();
    eqns.write(cqs.enable, cqs.index, &Asks { valid: cqs.entry.valid, eqn: cqs.entry.eqn.trunc(eq_bits) });
    let shape = Place { valid: bits(1), base: bits(64), log2: bits(5), vector: bits(8) };
    let table = |name: &str| m.mem(name, cfg.eqs, &bits(32)).style(Style::Distributed).init(vec![]).build();
    let places = m.mem("places", cfg.eqs, &shape).style(Style::Distributed).init(vec![]).build();
    let (producers, consumers) = (table("producers"), table("consumers"));
    let EqEntry { valid, base, log2, vector, asynchronous, .. } = eqs.entry.clone();
    places.write(eqs.enable, eqs.index, &Place { valid, base, log2, vector });
    // Where reports go; 0: nowhere.
    let reports_to = m.reg("reports_to", eq_bits).reset(0);
    m.when(eqs.enable & valid & asynchronous, |m| m.set(&reports_to, eqs.index))
        .otherwise_when(eqs.enable & eqs.index.eq(reports_to), |m| m.set(&reports_to, 0));

    // An entry counts in a cycle in which no queue is created, and no doorbell acts.
    let count = (state.is(State::Count) & !eqs.enable).named("count");
    let eq = m.reg("eq", eq_bits).no_reset();
    let producer_after = m.wire("producer_after", 32);
    producers.write(
        eqs.enable | count,
        eqs.enable.then(eqs.index, eq),
        &eqs.enable.then(lit(32, 0), producer_after),
    );

    // Doorbells.
    let rung = m.reg("rung", 1).reset(0);
    let bell = m.reg_of("bell", &doorbell.payload);
    doorbell.accept(!rung);
    m.when(doorbell.fire(), |m| m.set_all(&bell, &doorbell.payload));
    let acts = (rung & !eqs.enable & !state.is(State::Count)).named("acts");
    m.when(doorbell.fire(), |m| m.set(&rung, 1)).otherwise_when(acts, |m| m.set(&rung, 0));
    consumers.write(
        eqs.enable | acts,
        eqs.enable.then(eqs.index, bell.eq),
        &eqs.enable.then(lit(32, 0), bell.consumer),
    );

    // What is to be told. A CQ that begins or ends its life has nothing to tell of the former one.
    let held = m.reg_of("held", &Flagged::of(cfg.cqs, NOTICES));
    let back = Stream::new(m, "back", state.is(State::Back), held.clone());
    let flagged = arbiter(&m.label("flagged"), &|_: &Flagged| lit(1, 1), vec![notices, back.clone()]);
    let forget = Forget { valid: cqs.enable, row: cqs.index };
    let told = gather(&m.label("notices"), cfg.cqs, flagged, forget.clone());
    let outdated = forget.outdates(m, &told);
    let report = arbiter(&m.label("reports"), &|_: &Report| lit(1, 1), reports);
    let report = half(&m.label("report"), report);
    let reported = report.valid;
    let idle = state.is(State::Idle);
    let of_cq = m.reg("of_cq", 1).no_reset();
    let said = m.reg_of("said", &Report::of());
    // In turns.
    let cq_next = m.reg("cq_next", 1).reset(0);
    told.accept(idle & (cq_next | !report.valid));
    report.accept(idle & !(told.valid & cq_next));
    m.when(told.fire(), |m| {
        m.set_all(&held, &told.payload);
        m.set(&of_cq, 1);
        m.set(&cq_next, 0);
        m.set(&state, State::Look);
    });
    m.when(report.fire(), |m| {
        m.set_all(&said, &report.payload);
        m.set(&of_cq, 0);
        m.set(&cq_next, 1);
        m.set(&state, State::Look);
    });

    // Its event queue.
    let Asks { valid: lives, eqn: own } = eqns.read(m, told.fire(), told.row, Collision::New);
    let of_entry = held.flags.bit(0);
    // The CQ's life has ended since it was on offer.
    let ended = m.reg("ended", 1).no_reset();
    let ends = cqs.enable & cqs.index.eq(held.row);
    m.when(told.fire(), |m| m.set(&ended, outdated)).otherwise_when(ends, |m| m.set(&ended, 1));
    let look = state.is(State::Look);
    let to_reports = !of_cq | (own.eq(0) & !of_entry);
    let target = to_reports.then(reports_to, own);
    let place = places.read(m, look, target, Collision::New);
    let producer = producers.read(m, look, target, Collision::New);
    let consumer = consumers.read(m, look, target, Collision::New);
    m.drive(&producer_after, producer + 1);
    m.when(look, |m| {
        m.set(&eq, target);
        m.set(&state, State::Weigh);
        m.when(of_cq & (!lives | ended | ends), |m| m.set(&state, State::Idle));
    });

    // Room for it?
    m.when(state.is(State::Weigh), |m| m.set(&state, State::Decide));
    let decide = state.is(State::Decide);
    let there = place.valid & eq.any();
    let full = m.delay("taken", &(producer - consumer)).shr_by(place.log2).any();
    let rest = cat([&lit(1, 0), &(held.flags.bit(1) & of_entry)]);
    // This kind is done with; the CQ may have another to tell of.
    let goes_on = |m: &Scope| {
        m.set(&held.flags, rest);
        m.when(of_cq & rest.any(), |m| m.set(&state, State::Look)).otherwise(|m| m.set(&state, State::Idle));
    };
    let marks = m.reg("marks", cfg.eqs).reset(0);
    let bit_of = |eq: Sig| lit(cfg.eqs, 1).shl_by(eq);
    let lost = decide & there & full & !of_cq;
    m.when(decide, |m| {
        m.when(!there, goes_on)
            .otherwise_when(!full, |m| m.set(&state, State::Write))
            .otherwise_when(of_cq, |m| m.set(&state, State::Back))
            .otherwise(|m| m.set(&state, State::Idle));
    });
    m.when(back.fire(), |m| m.set(&state, State::Idle));

    // The entry.
    let address = m.reg("address", 64).no_reset();
    let bytes = m.reg("bytes", 128).no_reset();
    let mask = !lit(1, 1).repeat(INDEX).shl_by(place.log2);
    let offset = cat([&lit(4, 0), &(producer.trunc(INDEX) & mask)]);
    let kind = of_entry.then(lit(8, EventKind::Completion.code()), lit(8, EventKind::CqOverrun.code()));
    m.when(decide, |m| {
        m.set(&address, cfg.bus(place.base + offset.zext(64)));
        let fields = [
            (spec::OBJECT, of_cq.then(held.row.zext(24), said.object)),
            (spec::KIND, of_cq.then(kind, said.kind)),
            (spec::CAUSE, of_cq.then(lit(8, 0), said.cause)),
            (spec::LOST, (marks & bit_of(eq)).any()),
            (spec::PHASE, !producer.bit_at(place.log2)),
        ];
        m.set(&bytes, assemble(&spec::LAYOUT, &fields));
    });
    let entry = Stream::new(m, "entry", state.is(State::Write), EntryWrite { address, entry: bytes });
    m.when(entry.fire(), |m| m.set(&state, State::Count));

    m.when(count, goes_on);

    let behind = producers.read_now(bell.eq).ne(bell.consumer);

    // Which queues are armed, which are to raise an interrupt, which have lost a report: a bit each.
    let armed = m.reg("armed", cfg.eqs).reset(0);
    let due = m.reg("due", cfg.eqs).reset(0);
    let none = lit(cfg.eqs, 0);
    let here = |when: Sig, eq: Sig| when.then(bit_of(eq), none);
    let gone = here(eqs.enable, eqs.index);
    let counted = here(count, eq);
    let arms = here(acts & bell.arm, bell.eq);
    let some = behind.repeat(cfg.eqs);
    let begins = m.wire("begins", 1);
    // Those that are quiet, for a while after their interrupts.
    let quiet = m.reg("quiet", cfg.eqs).reset(0);
    let moderated = m.reg("moderated", cfg.eqs).reset(0);
    let wanted = (due & !quiet).named("wanted");
    let first = wanted & (none - wanted);
    m.set(&armed, (armed | (arms & !some)) & !counted & !gone);
    m.set(&due, ((due & !(begins.repeat(cfg.eqs) & first)) | (armed & counted) | (arms & some)) & !gone);
    m.set(&marks, (marks & !counted & !gone) | here(lost, eq));

    // An interrupt waits until what was in the write port's slice has left it.
    let waits = m.reg("waits", 1).reset(0);
    let left = m.reg("left", 2).no_reset();
    let raised = m.reg("raised", eq_bits).no_reset();
    let port = m.delay("port_before", &port);
    m.drive(&begins, !waits & wanted.any());
    let number: Vec<Sig> = (0..eq_bits)
        .map(|bit| {
            let hits: Vec<Sig> = (0..cfg.eqs).filter(|i| i >> bit & 1 == 1).map(|i| first.bit(i)).collect();
            cat(&hits).any()
        })
        .collect();
    m.when(begins, |m| {
        m.set(&waits, 1);
        m.set(&left, SLICE);
        m.set(&raised, cat(&number));
    });
    // That of a queue that has gone meanwhile is nobody's; it may have been chosen in the cycle in which the queue went.
    let went = m.reg("went", 1).reset(0);
    m.set(&went, eqs.enable);
    let went_index = m.delay("went_index", &eqs.index);
    let nobodys = (eqs.enable & eqs.index.eq(raised)) | (went & went_index.eq(raised));
    let over = waits & (!port.valid | left.eq(0)) & !nobodys;
    m.when(waits & port.fire & left.ne(0), |m| m.set(&left, left - 1));
    m.when(over | nobodys, |m| m.set(&waits, 0));
    // The time runs from when the interrupt is raised, however long it had to wait.
    let periods = m.mem("periods", cfg.eqs, &bits(16)).style(Style::Distributed).init(vec![]).build();
    let stamps = m.mem("stamps", cfg.eqs, &bits(TIME)).style(Style::Distributed).init(vec![]).build();
    let now = m.reg("now_us", TIME).reset(0);
    m.when(cfg.microsecond(m), |m| m.set(&now, now + 1));
    periods.write(eqs.enable, eqs.index, &eqs.entry.moderation_us);
    stamps.write(over, raised, &now);
    let at = m.reg("sweep", eq_bits).reset(0);
    m.set(&at, at + 1);
    let passed = (now - stamps.read_now(at)).named("passed_us");
    let rested = passed.gt(periods.read_now(at).zext(TIME)) & !(waits & raised.eq(at));
    let raises = begins.repeat(cfg.eqs) & first & moderated;
    // One that raises an interrupt now begins its time, whatever the sweep says of the one before.
    m.set(&quiet, ((quiet & !here(rested, at)) | raises) & !gone);
    m.when(eqs.enable, |m| {
        m.set(&moderated, (moderated & !gone) | here(eqs.entry.moderation_us.any(), eqs.index));
    });
    let vector = places.read_now(raised).vector;
    let interrupt = m.delay("interrupt", &Interrupt { valid: over, eqn: raised.zext(8), vector });

    let busy = reported | state.is_any(&[State::Weigh, State::Decide, State::Write, State::Count]);
    EventWriter { write: write_entry(m, cfg, Order::Event, entry), interrupt, written: count, lost, busy }
}

/// Tells when the link comes up or goes down: of changes that follow each other before one is told, only whether it is another now.
/// After reset the link is down.
#[module]
pub fn link_changes(m: &Scope, up: Sig) -> Stream<Report> {
    let (known, offered) = (m.reg("known", 1).reset(0), m.reg("offered", 1).reset(0));
    let kind = known.then(lit(8, EventKind::PortUp.code()), lit(8, EventKind::PortDown.code()));
    let out = Stream::new(m, "out", offered, Report { kind, object: lit(24, 0), cause: lit(8, 0) });
    m.when(!offered & known.ne(up), |m| {
        m.set(&known, up);
        m.set(&offered, 1);
    })
    .otherwise_when(out.fire(), |m| m.set(&offered, 0));
    out
}

/// Reports once that a write of host memory failed. Reset: none has.
#[module]
pub fn first_fault(m: &Scope, failed: Sig) -> Stream<Report> {
    let said = m.reg("said", 1).reset(0);
    let (kind, cause) = (EventKind::DeviceFatal.code(), LocalCause::Dma.code());
    let report = Report { kind: lit(8, kind), object: lit(24, 0), cause: lit(8, cause) };
    let out = Stream::new(m, "out", failed & !said, report);
    m.when(out.fire(), |m| m.set(&said, 1));
    out
}

#[cfg(test)]
mod tests;
