// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completion writer: turns completions into 32-byte CQEs in host memory. It alone owns the producer indices, and knows
//! which CQs are armed.
//!
//! ```text
//!  CREATE_CQ, RESIZE_CQ --->|
//!  doorbell --------------->| control --->|\   +---+   +---+   +----+
//!  late looks of ---------->|             | >->| I |-->| F |-->| E1 |--+--> leaving ---> CQE ---> write
//!  moderation               completion -->|/   +---+   +---+   +----+  |       |           +----> drained, marks, reports
//!       ^                                        |       ^       |     |       v
//!       |                                      places, spares   row    +--> gather -----> after what is leaving ---> notices
//!       +---- first waits, none waits -----------------<---------------+--> gather ---> faults
//! ```
//!
//! A [table](crate::engine::table) of one row a CQ: its indices, what it is armed for, and what waits to be told of. All that happens to a CQ is an event of this
//! table: an entry, a doorbell, a look for [`moderation`](super::moderation), a new ring, a beginning or an end. The block's function has one stage, so events of
//! one CQ may follow each other in successive cycles. None of them ever waits in the stages: completions are issued while there is room for them after E1, and
//! the others need none.
//!
//! A CQE is written by 32 / `beat_bytes` beats, or by one. Completions leave in the order in which they came, and take as many cycles as they have beats. Latency 5 from a
//! completion to its first beat: ring, I, F, E1, and the register in which the CQE is put together.
//! Control goes first: a doorbell takes one cycle, and comes every other cycle at most.
//!
//! A marker is no completion: it is told when all that came before it has been handed to the write channel, so that what
//! is written afterwards (the completion of the command that took a QP to RESET) comes after it.
//!
//! The phase is the inverse of the wrap count's low bit, so that the first pass over a zeroed queue writes ones.
//! Creating a CQ sets both its indices to zero, and it is not armed. So does its end, and what an arm of a former life asked for is forgotten, wherever it is.
//!
//! An armed CQ tells of its next entry, or of its next notable one: solicited, or failed (IBTA volume 1, 11.4.2.2). A doorbell that
//! arms looks at the row in the cycle in which it arms, so no entry can come between the two. An entry after those that the host had seen is told of
//! at once. A notice uses the arming up. It leaves when the write channel has taken what was on its way out, so what is written for it later is never seen
//! before the entry that it is about. Until then it waits in a place that each CQ has, and is one with those that come meanwhile: a doorbell waits neither for the
//! host nor for others.
//!
//! Of a CQ that is moderated ([`moderation`](super::moderation)) entries may wait: it tells when one more than `spare` of the kind that it is armed for have come since, or
//! the period after the first of them is over. What is there already when it is armed counts as if it came then: after what the host had seen
//! all entries, or one notable one, however many there are. A doorbell that arms it again counts anew if there are such, and does not put off the end
//! of the period; what waits already goes on waiting. New limits hold at once.
//!
//! RESIZE_CQ: no completion is issued until what is on its way has been handed to the write channel. Then the CQ goes to the new ring, with both its indices zero, and the
//! request is taken. It stays armed, or overrun. How long entries have waited, and how many, stays too.
//!
//! A CQ that has no free entry by the consumer index of the last doorbell, when a completion comes, is overrun: it tells so, and takes
//! nothing any more until it is created again. Each QP with a completion that is lost goes to the error state (`faults`), for
//! it must not go on; faults that have not left are forgotten with the life of their QP. Nothing is overwritten.
//!
//! Bad input: a completion for a CQ that does not exist is dropped with a pulse on `dropped`, as those that find no room. A
//! consumer index ahead of the producer makes the CQ look full, and one that is ahead with what the host has seen tells of what is not there: this harms no other CQ.
//! Reset: each CQ gets its first row, one a cycle. Nothing is taken meanwhile, and what is created then is not there.

use super::dma::{write_entry, EntryWrite, Order};
use super::event::Report;
use super::moderation::moderation;
use super::{CqDoorbell, CqEntry, CqLimits, CqResize};
use crate::config::RnicConfig;
use crate::engine::{Shape, Source, Table, Verdict};
use crate::fields::{assemble, field};
use crate::stream::{fifo, gather, Flagged, Forget};
use crate::types::{Completion, DmaWrite, Drained, Mark, TableWrite, STAY_BITS};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Fsm, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::{cqe, EventKind};

/// Flags of a notice: an armed CQ has a new entry; a CQ was overrun.
pub const NOTICES: u32 = 2;

/// What leaves the completion writer.
#[derive(Interface)]
pub struct CqWriter {
    /// CQEs on the way to memory.
    pub write: Stream<DmaWrite>,
    /// A CQE was made in this cycle.
    pub written: Sig,
    /// A completion was dropped in this cycle: no such CQ, or no free entry.
    pub dropped: Sig,
    /// When a new ring is taken: entries that went to the old one.
    pub produced: Sig,
    /// A marker has come by.
    pub drained: Drained,
    /// What host software is to be told of a CQ: bit 0, an armed one has a new entry; bit 1, it was overrun.
    pub notices: Stream<Flagged>,
    /// QPs that lost a completion.
    pub faults: Stream<Sig>,
    /// QPs in error that have nothing left of a shared receive queue.
    pub reports: Stream<Report>,
    /// QPs in SQD that have nothing in progress any more.
    pub marks: Stream<Mark>,
    /// Limits have changed that do not hold yet.
    pub changing: Sig,
}

/// Base and size: what of a CQ the writer needs.
#[derive(Clone, Bundle)]
struct Place {
    valid: Sig,
    /// In units of [`PAGE`].
    base: Sig,
    log2: Sig,
}

impl Place {
    fn new(valid: Sig, base: Sig, log2: Sig) -> Place {
        Place { valid, base: base.slice(PAGE, 64 - PAGE), log2 }
    }
}

/// What changes with each entry.
#[derive(Clone, Bundle)]
struct Row {
    producer: Sig,
    /// Entries that the host had not taken by its last doorbell, while they are fewer than there are places.
    gap: Sig,
    /// There is no free entry.
    full: Sig,
    /// Index after the newest notable entry; whether there is one that still counts; whether the producer has not passed a multiple of the largest queue since.
    notable: Sig,
    marked: Sig,
    recent: Sig,
    /// Armed for the next entry.
    next: Sig,
    /// Armed for the next notable entry.
    solicited: Sig,
    /// It was overrun.
    broken: Sig,
    /// It is armed, and entries wait to be told of.
    waits: Sig,
    /// How many.
    waiting: Sig,
}

impl Row {
    /// Of a CQ that begins, or is not there.
    fn fresh() -> Row {
        Row {
            producer: bits(32),
            gap: bits(INDEX),
            full: bits(1),
            notable: bits(AFTER),
            marked: bits(1),
            recent: bits(1),
            next: bits(1),
            solicited: bits(1),
            broken: bits(1),
            waits: bits(1),
            waiting: bits(16),
        }
        .zeros()
    }
}

/// What happens to a CQ, other than entries. The flags exclude each other.
#[derive(Clone, Bundle)]
struct Control {
    cq: Sig,
    /// It begins or ends its life.
    created: Sig,
    /// It goes to a new ring.
    switched: Sig,
    /// Moderation looks at it; the period is over.
    looks: Sig,
    late: Sig,
    /// A doorbell; one that arms.
    bell: Sig,
    arms: Sig,
    next: Sig,
    solicited: Sig,
    consumer: Sig,
    /// Index after the entries that ask for no event.
    unseen: Sig,
}

/// An event of the table.
#[derive(Clone, Bundle)]
struct Event {
    /// Its flags are zero where it is a completion or a marker.
    control: Control,
    entry: Sig,
    marker: Sig,
    /// Solicited or failed.
    notable: Sig,
    /// The completion without its CQ.
    rest: Sig,
}

/// A CQ's attributes, prepared for E1.
#[derive(Clone, Bundle)]
struct Facts {
    place: Place,
    /// Bits of a number of entries of which none is set while there is room.
    mask: Sig,
    spare: Sig,
    /// It is moderated.
    spares: Sig,
    /// A doorbell's: more entries than may wait are there if the producer is after this index.
    limit: Sig,
}

/// What follows from an event.
#[derive(Clone, Bundle)]
struct Outcome {
    row: Row,
    written: Sig,
    lost: Sig,
    overruns: Sig,
    tells: Sig,
    /// Whether entries wait is to be said to moderation.
    answers: Sig,
}

/// What leaves: a CQE, or a marker.
#[derive(Clone, Bundle)]
struct Leaving {
    writes: Sig,
    base: Sig,
    log2: Sig,
    producer: Sig,
    rest: Sig,
}

/// A CQE, put together, or a marker.
#[derive(Clone, Bundle)]
struct Made {
    writes: Sig,
    address: Sig,
    entry: Sig,
}

/// Bits of an index within a queue.
const INDEX: u32 = super::MAX_CQ_LOG2;

/// Bits of an index that tell how far it is after another one of the same queue, full or not, or of twice its size before.
const AFTER: u32 = INDEX + 2;

/// Bits of an address within a page; a ring begins with one.
const PAGE: u32 = 12;

/// Places for what leaves, beside the register of the CQE. No completion is issued when [`ENOUGH`] are used: four may be on their way then, one in each of I, F and
/// E1, and one that is not counted yet. A notice waits for all of them, so they are few.
const PLACES: u32 = 8;
const ENOUGH: u32 = 4;

/// Cycles from the last completion that is issued until it is counted.
const STAGES: u32 = 4;

/// A completion without its CQ, and the other way round.
fn without_cq(completion: &Completion) -> Sig {
    let all = completion.pack();
    all.slice(completion.cq.width(), all.width() - completion.cq.width())
}

fn with_no_cq(cfg: &RnicConfig, rest: Sig) -> Completion {
    Completion::of(cfg).unpack(cat([&lit(cfg.cq_bits(), 0), &rest]))
}

#[derive(Clone, Copy, Fsm)]
enum Resize {
    Rest,
    /// No completion is issued.
    Stop,
    /// The new ring is in line.
    Switch,
    /// What is on its way leaves.
    Leave,
}

/// Where RESIZE_CQ is.
struct NewRing {
    stops: Sig,
    /// It is to go into line.
    offers: Sig,
    /// It does.
    goes: Sig,
}

/// A new ring: completions stop, what is in the stages comes through, the ring changes, and what went to the old one leaves. `left`: nothing is on its way out.
fn new_ring(m: &Scope, resize: &Stream<CqResize>, left: Sig) -> NewRing {
    let state = m.fsm("resize", Resize::Rest);
    let passed = m.reg("resize_passed", 3).reset(0);
    let goes = m.wire("switch_goes", 1);
    let (stop, leave) = (state.is(Resize::Stop), state.is(Resize::Leave));
    let over = passed.eq(STAGES + 1);
    m.when(state.is(Resize::Rest) & resize.valid, |m| m.set(&state, Resize::Stop));
    m.when(stop & over, |m| m.set(&state, Resize::Switch));
    m.when(goes, |m| m.set(&state, Resize::Leave));
    m.when(stop | leave, |m| m.set(&passed, over.then(passed, passed + 1)))
        .otherwise(|m| m.set(&passed, lit(3, 0)));
    resize.accept(leave & over & left);
    m.when(resize.fire(), |m| m.set(&state, Resize::Rest));
    NewRing { stops: !state.is(Resize::Rest), offers: state.is(Resize::Switch), goes }
}

/// A look for moderation that is on its way: one at a time.
struct Look {
    under_way: Sig,
    /// It is for limits that have changed.
    changed: Sig,
    /// The CQ that was late has not been told of since, and waits for nothing newer.
    stands: Sig,
    cq: Sig,
}

/// What control there is, one in each cycle: a beginning, a new ring, a look, a doorbell.
fn control(
    m: &Scope,
    create: &TableWrite<CqEntry>,
    resize: &Stream<CqResize>,
    ring: &NewRing,
    looks: Stream<Flagged>,
    doorbell: Stream<CqDoorbell>,
    sweeps: Sig,
) -> (Stream<Control>, Look) {
    let look = Look {
        under_way: m.reg("look_under_way", 1).reset(0),
        changed: m.reg("look_changed", 1).no_reset(),
        stands: m.reg("look_stands", 1).no_reset(),
        cq: m.reg("look_cq", looks.row.width()).no_reset(),
    };
    let created = create.enable & !sweeps;
    let switched = ring.offers & !create.enable;
    let free = !sweeps & !create.enable & !ring.offers;
    let looked = looks.valid & !look.under_way & free;
    let bell = doorbell.valid & !(looks.valid & !look.under_way) & free;
    let arms = doorbell.arm_next | doorbell.arm_solicited;
    let cq =
        create.enable.then(create.index, ring.offers.then(resize.cq, looked.then(looks.row, doorbell.cq)));
    let event = Control {
        cq,
        created,
        switched,
        looks: looked,
        late: looked & looks.flags,
        bell,
        arms: bell & arms,
        next: bell & doorbell.arm_next,
        solicited: bell & doorbell.arm_solicited,
        consumer: doorbell.consumer,
        unseen: doorbell.consumer.trunc(AFTER) + doorbell.seen.zext(AFTER),
    };
    let out = Stream::new(m, "control", created | switched | looked | bell, event);
    m.assert(!created | out.ready, "control waits for nobody");
    m.drive(&ring.goes, switched & out.ready);
    looks.accept(!look.under_way & free & out.ready);
    doorbell.accept(!(looks.valid & !look.under_way) & free & out.ready);
    m.when(looks.fire(), |m| {
        m.set(&look.under_way, 1);
        m.set(&look.changed, !looks.flags);
        m.set(&look.stands, 1);
        m.set(&look.cq, looks.row);
    });
    (out, look)
}

/// The new row of a CQ, and what follows. `stands`: a look that is late is not outdated.
fn decide(row: &Row, event: &Event, facts: &Facts, stands: Sig) -> Outcome {
    let Control { created, switched, looks, bell, arms, consumer, unseen, .. } = event.control;
    // An entry that fits.
    let lives = facts.place.valid;
    let fits = lives & !row.broken & !row.full;
    let written = (event.entry & fits).named("writes");
    let lost = event.entry & !fits;
    let overruns = lost & lives & !row.broken;
    let after = row.producer + 1;
    // A doorbell: how many entries has the host left? An entry may take the last place.
    let left = row.producer - consumer;
    let above = lit(1, 1).repeat(32 - INDEX);
    let mask = cat([&facts.mask, &above]);
    let was_last = (row.gap | facts.mask).all();
    let full = bell.then((left & mask).any(), row.full | (written & was_last));
    let gap = bell.then(left.trunc(INDEX), row.gap + written.zext(INDEX));
    // The newest notable entry. It is forgotten when the producer has passed a multiple of the largest queue twice: it is older than any entry then.
    let turns = written & row.producer.trunc(INDEX).all();
    let marks = written & event.notable;
    let (marked, recent) = (marks | (row.marked & !(turns & !row.recent)), marks | (row.recent & !turns));
    // An entry uses up what is spare, or waits; a look for moderation finds that fewer may wait than do.
    let over = cat([&event.entry, &row.waiting]).gt(cat([&lit(1, 0), &facts.spare]));
    let wakes = written & (row.next | (row.solicited & event.notable));
    // A doorbell that arms: what is there is enough, or waits.
    let (next, solicited) = (row.next | event.control.next, row.solicited | event.control.solicited);
    let producer = row.producer.trunc(AFTER);
    let any_news = producer.ne(unseen);
    let notable_news = row.marked & (unseen - row.notable).msb();
    let there = arms & lives & ((next & any_news) | (solicited & notable_news));
    let enough = !facts.spares | (next & (facts.limit - producer).msb());
    let late = looks & event.control.late & stands;
    let tells = ((wakes & over) | (there & enough) | (late & row.waits) | (looks & over)).named("tells");
    // An arm takes back none that waits: an earlier arm asked for it, or it is in the ring of before.
    let waits = !tells & (row.waits | there | wakes);
    let waiting =
        there.then(next.then((producer - unseen).trunc(16), lit(16, 1)), row.waiting + wakes.zext(16));
    let begins = created | switched;
    let after = Row {
        producer: begins.then(lit(32, 0), written.then(after, row.producer)),
        gap: begins.then(lit(INDEX, 0), gap),
        full: full & !begins,
        notable: marks.then(after.trunc(AFTER), row.notable),
        marked: marked & !begins,
        recent: recent & !begins,
        next: next & !tells & !created,
        solicited: solicited & !tells & !created,
        broken: (row.broken | overruns) & !created,
        waits: waits & !created,
        waiting: waiting & (waits & !created).repeat(16),
    };
    Outcome { answers: created | late | waits.ne(row.waits), row: after, written, lost, overruns, tells }
}

/// A CQE of what leaves.
fn put_together(cfg: &RnicConfig, leaving: &Leaving) -> Made {
    let held = with_no_cq(cfg, leaving.rest);
    let phase = !leaving.producer.bit_at(leaving.log2);
    let mask = !lit(1, 1).repeat(INDEX).shl_by(leaving.log2);
    let offset = cat([&lit(5, 0), &(leaving.producer.trunc(INDEX) & mask)]);
    let page = leaving.base + offset.slice(PAGE, INDEX + 5 - PAGE).zext(64 - PAGE);
    use cqe::*;
    // Of a datagram two fields have its source beside themselves.
    let source = cat([&held.byte_len.slice(16, 16), &held.syndrome]);
    let short_len = held.byte_len.trunc(15).zext(32);
    let entry = assemble(
        &LAYOUT,
        &[
            (QPN, held.qpn),
            (OPCODE, held.opcode),
            (BYTE_LEN, held.datagram.then(short_len, held.byte_len)),
            (SRC_QPN, held.datagram.then(source, lit(24, 0))),
            (RECEIVE, held.opcode.msb()),
            (WQE_INDEX, held.wqe_index),
            (STATUS, held.status),
            (SYNDROME, held.datagram.then(lit(8, 0), held.syndrome)),
            (IMM, held.imm),
            (IMM_VALID, held.imm_valid),
            (INVALIDATED, held.invalidated),
            (SOLICITED, held.solicited),
            (GRH, held.datagram),
            (IPV4, held.datagram & held.byte_len.bit(15)),
            (PHASE, phase),
        ],
    );
    let address = cfg.bus(cat([&offset.trunc(PAGE), &page]));
    Made { writes: leaving.writes, address, entry }
}

/// What has left the table, on its way out.
struct Out {
    write: Stream<DmaWrite>,
    drained: Drained,
    reports: Stream<Report>,
    marks: Stream<Mark>,
    /// How many are on their way.
    inside: Sig,
    /// One has left.
    leaves: Sig,
}

/// CQEs and markers, one after the other.
fn leave(m: &Scope, cfg: &RnicConfig, leaving: Stream<Leaving>) -> Out {
    m.assert(!leaving.valid | leaving.ready, "what is issued has a place");
    let (enters, leaves) = (leaving.valid, m.wire("leaves", 1));
    let inside = m.reg("inside", 5).reset(0);
    m.set(&inside, inside + enters.zext(5) - leaves.zext(5));
    let waiting = fifo(&m.label("leaving"), PLACES, leaving);
    let made_valid = m.reg("made_valid", 1).reset(0);
    let made = m.reg_of("made", &Made { writes: bits(1), address: bits(64), entry: bits(256) });
    let free = !made_valid | leaves;
    waiting.accept(free);
    m.when(free, |m| {
        m.set(&made_valid, waiting.valid);
        m.set_all(&made, &put_together(cfg, &waiting.payload));
    });
    let of = |f: &ferrowire_spec::Field| field(&cqe::LAYOUT, f, made.entry);
    let (qpn, receive, told) = (of(&cqe::QPN), of(&cqe::RECEIVE), of(&cqe::SOLICITED));
    let entry = EntryWrite { address: made.address, entry: made.entry };
    let entry = Stream::new(m, "entry", made_valid & made.writes, entry);
    let marker = made_valid & !made.writes;
    let drained = Drained { valid: marker & !told, qp: qpn.trunc(cfg.qp_bits()), receive };
    let last = Stream::new(m, "last", marker & told & receive, qpn);
    let mark = Mark { qp: drained.qp, stay: of(&cqe::WQE_INDEX).trunc(STAY_BITS) };
    let marks = Stream::new(m, "mark", marker & told & !receive, mark);
    m.drive(&leaves, entry.fire() | drained.valid | last.fire() | marks.fire());
    let reports =
        last.map(|qpn| Report { kind: lit(8, EventKind::LastWqe.code()), object: *qpn, cause: lit(8, 0) });
    let write = write_entry(m, cfg, Order::Completion, entry);
    Out { write, drained, reports, marks, inside, leaves }
}

/// Notices, each after what is on its way out when it comes. `forget`: a CQ begins or ends its life; `waits`: one does so that has not come through the table.
fn after_entries(
    m: &Scope,
    cqs: u32,
    notice: Stream<Flagged>,
    forget: Forget,
    waits: Sig,
    out: &Out,
) -> Stream<Flagged> {
    let offer = gather(&m.label("notices"), cqs, notice, forget.clone());
    let outdated = forget.outdates(m, &offer);
    let counts = m.reg("notice_counts", 1).reset(0);
    let ahead = m.reg("notice_ahead", 5).no_reset();
    m.when(offer.valid & !counts, |m| {
        m.set(&counts, 1);
        m.set(&ahead, out.inside - out.leaves.zext(5));
    })
    .otherwise_when(out.leaves & ahead.any(), |m| m.set(&ahead, ahead - 1));
    let told_valid = m.reg("told_valid", 1).reset(0);
    let told = m.reg_of("told", &offer.payload);
    let notices = Stream::new(m, "notices", told_valid, told.clone());
    offer.accept(counts & ahead.eq(0) & !waits & !told_valid);
    m.when(offer.fire(), |m| {
        m.set(&counts, 0);
        m.set(&told_valid, !outdated);
        m.set_all(&told, &offer.payload);
    })
    .otherwise_when(notices.ready, |m| m.set(&told_valid, 0));
    notices
}

/// Writes completions.
#[module]
pub fn cq(
    m: &Scope,
    cfg: &RnicConfig,
    completion: Stream<Completion>,
    create: TableWrite<CqEntry>,
    limits: TableWrite<CqLimits>,
    resize: Stream<CqResize>,
    doorbell: Stream<CqDoorbell>,
) -> CqWriter {
    m.discard(&create.entry.doorbell_page);
    m.discard(&create.entry.eqn);
    let waits =
        m.wire_of("waits", &TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: bits(1) });
    let moderated = moderation(m, cfg, limits.clone(), waits.clone());
    let (left, sweeps) = (m.wire("left", 1), m.wire("sweeps", 1));
    let ring = new_ring(m, &resize, left);
    let (events, look) = control(m, &create, &resize, &ring, moderated.looks, doorbell, sweeps);

    // A beginning is in the table before what comes after it, for control goes first.
    let shape = Place { valid: bits(1), base: bits(64 - PAGE), log2: bits(5) };
    let places = m.mem("places", cfg.cqs, &shape).init(vec![]).build();
    let place = Place::new(create.entry.valid, create.entry.base, create.entry.log2);
    let moved = Place::new(lit(1, 1), resize.base, resize.log2);
    places.write(
        create.enable | ring.goes,
        create.enable.then(create.index, resize.cq),
        &m.mux(create.enable, &place, &moved),
    );
    let spares = m.mem("spares", cfg.cqs, &bits(16)).init(vec![]).build();
    spares.write(limits.enable, limits.index, &limits.entry.spare);

    // The table.
    let holds = m.reg("holds", 1).reset(0);
    let (control_source, control) = Source::new(m, "control", events, lit(1, 0));
    let (source, held) = Source::new(m, "completion", completion, holds | ring.stops);
    let fresh = Row::fresh();
    let shape = Shape {
        keys: cfg.cqs,
        row: fresh.clone(),
        stages: 1,
        style: Style::Block,
        turns: 0,
        first: &|_| fresh.clone(),
    };
    let (table, at) = Table::begin(m, &shape, vec![control_source, source], &|picked| {
        let of_completion = picked[1];
        let key = of_completion.then(held.cq, control.cq);
        let flag = |flag: Sig| flag & picked[0];
        let event = Event {
            control: Control {
                cq: key,
                created: flag(control.created),
                switched: flag(control.switched),
                looks: flag(control.looks),
                late: control.late,
                bell: flag(control.bell),
                arms: flag(control.arms),
                next: flag(control.next),
                solicited: flag(control.solicited),
                consumer: control.consumer,
                unseen: control.unseen,
            },
            entry: of_completion & !held.marker,
            marker: of_completion & held.marker,
            notable: held.solicited | held.status.any(),
            rest: without_cq(&held),
        };
        (key, event)
    });
    m.drive(&sweeps, table.sweeps);
    let unseen = at.coming.control.unseen;
    let (place, mask) = table.prepared(m, "place", &places, |place| {
        let mask = lit(1, 1).repeat(INDEX).shl_by(place.log2);
        (place, mask)
    });
    let (spare, spares, limit) = table.prepared(m, "spare", &spares, |spare| {
        let limit = unseen + spare.zext(AFTER);
        (spare, spare.any(), limit)
    });
    let facts = Facts { place, mask, spare, spares, limit };
    let event = at.event;
    m.discard(&event.control.cq);
    let outcome = decide(&at.row, &event, &facts, look.stands);
    let (valid, key) = (table.valid, table.key);
    let (written, lost) = (valid & outcome.written, valid & outcome.lost);
    m.drive(&waits.enable, valid & outcome.answers);
    m.drive(&waits.index, key);
    m.drive(&waits.entry, outcome.row.waits);
    m.when(waits.enable & key.eq(look.cq), |m| m.set(&look.stands, 0));
    m.when(valid & event.control.looks, |m| m.set(&look.under_way, 0));
    let produced = m.reg("produced", 32).no_reset();
    m.when(valid & event.control.switched, |m| m.set(&produced, at.row.producer));

    // What leaves.
    let held = with_no_cq(cfg, event.rest);
    let marker = valid & event.marker;
    let leaving = Leaving {
        writes: outcome.written,
        base: facts.place.base,
        log2: facts.place.log2,
        producer: at.row.producer.trunc(INDEX + 1),
        rest: event.rest,
    };
    let out = leave(m, cfg, Stream::new(m, "leaving", written | marker, leaving));
    m.set(&holds, out.inside.ge(ENOUGH));
    m.drive(&left, out.inside.eq(0));

    // Notices; a cycle later, as what is forgotten with a life.
    let flags = cat([&outcome.tells, &outcome.overruns]);
    let notice = m.delay("notice", &Flagged { row: key, flags });
    let notice = Stream::new(m, "notice", told(m, "notice", valid & flags.any()), notice);
    m.assert(!notice.valid | notice.ready, "a notice waits for nobody");
    let created = m.delay("created", &key);
    let forget = Forget { valid: told(m, "created", valid & event.control.created), row: created };
    let begins = begins(m, create.enable);
    let notices = after_entries(m, cfg.cqs, notice, forget, begins, &out);

    // QPs that must not go on; in a queue of their own, for the QP context may wait for a marker.
    let qp = m.delay("fault_qp", &held.qpn.trunc(cfg.qp_bits()));
    let fault = Flagged { row: qp, flags: lit(1, 1) };
    let fault = Stream::new(m, "fault", told(m, "fault", lost & facts.place.valid), fault);
    m.assert(!fault.valid | fault.ready, "a fault waits for nobody");
    let ended = Forget { valid: told(m, "ended", marker & !held.solicited), row: qp };
    let faults = gather(&m.label("faults"), cfg.qps, fault, ended).map(|fault| fault.row);

    let done = table.end(m, &Verdict { again: lit(1, 0), row: outcome.row });
    m.discard(&done);
    CqWriter {
        write: out.write,
        written: told(m, "written", written),
        dropped: told(m, "dropped", lost),
        produced,
        drained: out.drained,
        notices,
        faults,
        reports: out.reports,
        marks: out.marks,
        changing: moderated.changing | (look.under_way & look.changed),
    }
}

/// A cycle later.
fn told(m: &Scope, name: &str, now: Sig) -> Sig {
    let told = m.reg(&format!("{name}_now"), 1).reset(0);
    m.set(&told, now);
    told
}

/// A life that begins or ends has not come through the table: what it forgets may be on offer still.
fn begins(m: &Scope, now: Sig) -> Sig {
    let on_its_way = m.reg("begins", STAGES).reset(0);
    m.set(&on_its_way, cat([&now, &on_its_way.trunc(STAGES - 1)]));
    now | on_its_way.any()
}

#[cfg(test)]
mod tests;
