// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completion writer: turns completions into 32-byte CQEs in host memory. It alone owns the producer indices, and knows
//! which CQs are armed.
//!
//! ```text
//!  completion --->|                                        +--> address, beats ---> write
//!                 | one ---> read tables ---> decide ------+             |
//!  arms --------->|            ^       ^        |  |       +------- behind it ---> notices
//!    ^                         |       |        |  +--> row: producer, armed, newest notable entry
//!    +-- doorbell -------------|--> consumers   +--> faults ---> gather ---> faults
//!  CREATE_CQ, RESIZE_CQ, ------+         |
//!  MODIFY_CQ                             |
//!     late <-- periods <-- first waits --+
//! ```
//!
//! A CQE is written by 32 / `beat_bytes` beats, or by one. Completions leave in the order in which they came. Two CQEs
//! take 3 cycles, or as many as they have beats: one at most 4. Latency 2 from a completion to its first beat. Where beats are narrow,
//! a CQE takes a cycle more, and the latency is 4.
//!
//! A marker is no completion: it is told when all that came before it has been handed to the write channel, so that what
//! is written afterwards (the completion of the command that took a QP to RESET) comes behind.
//!
//! The phase is the inverse of the wrap count's low bit, so that the first pass over a zeroed queue writes ones.
//! Creating a CQ sets both its indices to zero, and it is not armed. So does its end, and an arm of a former life asks for nothing, wherever it waits.
//!
//! An armed CQ tells of its next entry, or of its next notable one: solicited, or failed (IBTA volume 1, 11.4.2.2). A doorbell that
//! arms makes the CQ be looked at, in turns with completions, by the block that owns the producer: there is no time between the
//! look and the next entry. An entry after those that the host had seen is told of at once. A notice uses the arming up. It leaves when the
//! write channel has taken the entry that it is about, so what is written for it later is never seen before the entry. A doorbell
//! waits for neither: its consumer is written as it comes, and what it arms waits in a place that each CQ has; arms that come
//! meanwhile join it. A look takes 2 cycles.
//!
//! Of a CQ that is moderated ([`moderation`](super::moderation)) entries may wait: it tells when one more than `spare` of the kind that it is armed for have come since, or
//! the period after the first of them is over. What is there already when it is armed counts as if it came then: after what the host had seen
//! all entries, or one notable one, however many there are. A doorbell that arms it again counts anew if there are such, and does not put off the end
//! of the period; what waits already goes on waiting. New limits hold at once.
//!
//! What the host had seen is that of the first arm of those that wait together: the next one must not hide an entry that the first asked for. An arm that comes while an earlier
//! one of its CQ is on offer counts from there too, and may tell of an entry that the host had seen.
//!
//! RESIZE_CQ is a look too, after those of the arms that came before it: between two entries the CQ goes to the new ring, with both its indices zero. It stays armed, or
//! overrun. The request is taken when that is done, a cycle after the look; entries of the old ring have left then, as before a marker. How long entries have waited, and how many, stays too.
//!
//! A CQ that has no free entry by the consumer index of the last doorbell, when a completion comes, is overrun: it tells so, and takes
//! nothing any more until it is created again. Each QP with a completion that is lost goes to the error state (`faults`), for
//! it must not go on; faults that have not left are forgotten with the life of their QP. Nothing is overwritten.
//!
//! Bad input: a completion for a CQ that does not exist is dropped with a pulse on `dropped`, as those that find no room. A
//! consumer index ahead of the producer makes the CQ look full, and one that is ahead with what the host has seen tells at once: this harms no other CQ.

use super::dma::{write_entry, EntryWrite, Order};
use super::event::Report;
use super::moderation::moderation;
use super::{CqDoorbell, CqEntry, CqLimits, CqResize};
use crate::config::RnicConfig;
use crate::fields::assemble;
use crate::stream::{gather, Flagged, Forget};
use crate::types::{Completion, DmaWrite, Drained, Mark, TableWrite, STAY_BITS};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
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

/// What has been decided: an entry that has its place, or none, and what is to be told behind it.
#[derive(Clone, Bundle)]
struct Made {
    writes: Sig,
    base: Sig,
    offset: Sig,
    entry: Sig,
    notice: Flagged,
}

/// Base and size: what of a CQ the writer needs.
#[derive(Clone, Bundle)]
struct Place {
    valid: Sig,
    base: Sig,
    log2: Sig,
}

/// What changes with each entry.
#[derive(Clone, Bundle)]
struct Row {
    producer: Sig,
    /// Entries written since the newest notable one, as far as that counts.
    since: Sig,
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

/// Bits of an index within a queue.
const INDEX: u32 = super::MAX_CQ_LOG2;

/// Bits of an index that tell how far it is after another one of the same queue, full or not.
const AFTER: u32 = INDEX + 2;

/// What the arms of a CQ ask for: an event with the next entry, with the next notable one; a new ring.
const ASKS: u32 = 3;

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
    let shape = Place { valid: bits(1), base: bits(64), log2: bits(5) };
    let fresh = Row {
        producer: lit(32, 0),
        since: lit(1, 1).repeat(INDEX + 1),
        next: lit(1, 0),
        solicited: lit(1, 0),
        broken: lit(1, 0),
        waits: lit(1, 0),
        waiting: lit(16, 0),
    };
    let places = m.mem("places", cfg.cqs, &shape).init(vec![]).build();
    let rows = m.mem("rows", cfg.cqs, &fresh).init(vec![]).build();
    let consumers = m.mem("consumers", cfg.cqs, &bits(32)).init(vec![]).build();
    // Where what the host had not seen begins; an arm of the CQ waits, if the two bits differ.
    let unseen = m.mem("unseen", cfg.cqs, &bits(AFTER)).init(vec![]).build();
    let bit = |name: &str| m.mem(name, cfg.cqs, &bits(1)).style(Style::Distributed).init(vec![]).build();
    let (asked, answered) = (bit("asked"), bit("answered"));

    let spares = m.mem("spares", cfg.cqs, &bits(16)).init(vec![]).build();
    spares.write(limits.enable, limits.index, &limits.entry.spare);

    // A CQ begins anew: it is created, or goes to a new ring. These do not meet, for one command is done at a time.
    let switched = m.reg("switched", 1).reset(0);
    let begins = create.enable | switched;
    let begun = create.enable.then(create.index, resize.cq);
    let place = Place { valid: create.entry.valid, base: create.entry.base, log2: create.entry.log2 };
    let moved = Place { valid: lit(1, 1), base: resize.base, log2: resize.log2 };
    places.write(begins, begun, &m.mux(create.enable, &place, &moved));
    resize.accept(switched);

    // Doorbells. One write port: a beginning goes first, and resets.
    let wants = cat([&doorbell.arm_next, &doorbell.arm_solicited, &lit(1, 0)]);
    // A new ring waits in line with the arms, once.
    let lined_up = m.reg("lined_up", 1).reset(0);
    let lines_up = resize.valid & !lined_up;
    let arms =
        Flagged { row: lines_up.then(resize.cq, doorbell.cq), flags: lines_up.then(lit(ASKS, 4), wants) };
    let arms = Stream::new(m, "arms", lines_up | (doorbell.valid & wants.any()), arms);
    m.when(switched, |m| m.set(&lined_up, 0)).otherwise_when(lines_up & arms.ready, |m| m.set(&lined_up, 1));
    doorbell.accept(!begins & !lines_up & arms.ready);
    consumers.write(
        begins | doorbell.fire(),
        begins.then(begun, doorbell.cq),
        &begins.then(lit(32, 0), doorbell.consumer),
    );
    let asks = doorbell.fire() & wants.any();
    let was_answered = answered.read_now(doorbell.cq);
    let joins = asked.read_now(doorbell.cq).ne(was_answered);
    let seen = doorbell.consumer.trunc(AFTER) + doorbell.seen.zext(AFTER);
    unseen.write(
        begins | (asks & !joins),
        begins.then(begun, doorbell.cq),
        &begins.then(lit(AFTER, 0), seen),
    );
    asked.write(
        create.enable | asks,
        create.enable.then(create.index, doorbell.cq),
        &create.enable.then(lit(1, 0), !was_answered),
    );
    let created = m.delay("created", &Forget { valid: create.enable, row: create.index });
    let armed = gather(&m.label("arming"), cfg.cqs, arms, created.clone());
    // What is on offer when its CQ's life ends asks for nothing any more.
    let outdated = created.outdates(m, &armed);
    // A CQ that moderation asks for: before the others, for each such look uses an arming up or has cost a command.
    let waits =
        m.wire_of("waits", &TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: bits(1) });
    let moderated = moderation(m, cfg, limits, waits.clone());
    let looks_valid = armed.valid | moderated.looks.valid;

    // Completions and looks take turns.
    let deciding = m.reg("deciding", 1).reset(0);
    let held = m.reg_of("held", &completion.payload);
    let looking = m.reg("looking", 1).no_reset();
    let arming = m.reg("arming", ASKS).no_reset();
    let late = m.reg("late", 1).no_reset();
    let looks_next = m.reg("looks_next", 1).reset(0);
    // One is taken in the cycle of a decision that waits for nothing, so that nobody waits for the write channel in that cycle.
    let sure = m.wire("sure", 1);
    completion.accept((!deciding | sure) & !(looks_valid & looks_next));
    // Not in the two cycles of a creation: then it is found out whether what is on offer is of the former life.
    let may_look = !deciding & !create.enable & !created.valid & (looks_next | !completion.valid);
    moderated.looks.accept(may_look);
    armed.accept(may_look & !moderated.looks.valid);
    let looks = looks_valid & may_look;
    let looked_row = moderated.looks.valid.then(moderated.looks.row, armed.row);
    // An arm that came since the look is on offer has a look of its own.
    let overtaken = m.reg("overtaken", 1).reset(0);
    let overtakes = asks & armed.valid & armed.row.eq(doorbell.cq);
    m.set(&overtaken, (overtaken | overtakes) & !armed.fire());
    let answers = armed.fire() & !overtaken & !overtakes;
    answered.write(
        create.enable | answers,
        create.enable.then(create.index, armed.row),
        &create.enable.then(lit(1, 0), asked.read_now(armed.row)),
    );
    m.when(completion.fire(), |m| {
        m.set_all(&held, &completion.payload);
        m.set(&looking, 0);
        m.set(&looks_next, 1);
    });
    m.when(looks, |m| {
        m.set(&held.cq, looked_row);
        m.set(&arming, armed.flags & !(moderated.looks.valid | outdated).repeat(ASKS));
        m.set(&late, moderated.looks.valid & moderated.looks.flags);
        m.set(&looking, 1);
        m.set(&looks_next, 0);
    });
    // Nor does an arm that is held ask the new CQ for anything. No look is taken in this cycle.
    m.when(create.enable & create.index.eq(held.cq), |m| m.set(&arming, 0));
    // What is held is looked at anew each cycle: consumers go on, and a CQ may be created meanwhile.
    let starts = completion.fire() | looks;
    let read = starts | deciding;
    let wanted = (deciding & !sure).then(held.cq, looks.then(looked_row, completion.cq));
    let row_after = m.wire_of("row_after", &fresh);
    let changes = m.wire("changes", 1);
    rows.write(
        create.enable | changes,
        create.enable.then(create.index, held.cq),
        &m.mux(create.enable, &fresh, &row_after),
    );
    let place = cfg.looked(m, "place", places.read(m, read, wanted, Collision::New));
    let row = cfg.looked(m, "row", rows.read(m, read, wanted, Collision::New));
    let consumer = cfg.looked(m, "consumer", consumers.read(m, read, wanted, Collision::New));
    let spare = cfg.looked(m, "spare", spares.read(m, read, wanted, Collision::New));
    // Read once: the next arm may change it before the decision.
    let unseen = cfg.looked(m, "seen", unseen.read(m, armed.fire(), armed.row, Collision::New));

    // What was decided, on its way out.
    let made_valid = m.reg("made_valid", 1).reset(0);
    let made = m.reg_of(
        "made",
        &Made {
            writes: bits(1),
            base: bits(64),
            offset: bits(INDEX + 5),
            entry: bits(256),
            notice: Flagged::of(cfg.cqs, NOTICES),
        },
    );
    let told_valid = m.reg("told_valid", 1).reset(0);
    let told = m.reg_of("told", &made.notice);
    let entry = Stream::new(
        m,
        "entry",
        made_valid & made.writes & !told_valid,
        EntryWrite { address: cfg.bus(made.base + made.offset.zext(64)), entry: made.entry },
    );
    let leaves = made_valid & !told_valid & (entry.ready | !made.writes);
    let fault_valid = m.reg("fault_valid", 1).reset(0);
    let fault_qp = m.reg("fault_qp", cfg.qp_bits()).no_reset();

    // Decide. While a CQ is created, its row has no port to be written through; while one begins, what was read of it is not so any more.
    // Where there is time, the place is empty for a cycle: that it empties is known late, from the other writers.
    let free = if cfg.unhurried() { !made_valid } else { !made_valid | leaves };
    let (last_valid, last_qp) = (m.reg("last_valid", 1).reset(0), m.reg("last_qp", 24).no_reset());
    let (last_receive, last_stay) =
        (m.reg("last_receive", 1).no_reset(), m.reg("last_stay", STAY_BITS).no_reset());
    let may = deciding & !fault_valid & !last_valid & !begins;
    // Where there is time, what is read is compared a cycle later and decided on in the next, and nothing else is taken meanwhile.
    let (may, overlaps) = match cfg.unhurried() {
        true => {
            let stands = deciding & !begins;
            let known = m.delay("known", &stands);
            (may & m.delay("compared", &(stands & known)), lit(1, 0))
        }
        false => (may, lit(1, 1)),
    };
    let decide = (may & free).named("decide");
    m.drive(&sure, may & !made_valid & overlaps);
    let completes = decide & !looking & !held.marker;
    let gap = row.producer - consumer;
    let fits = cfg.looked(m, "fits", place.valid & !row.broken & !gap.shr_by(place.log2).any());
    let notable = held.solicited | held.status.any();
    let told_of_entry = row.next | (row.solicited & notable);
    let written = (completes & fits).named("written");
    let lost = (completes & !fits).named("lost");
    let overruns = lost & place.valid & !row.broken;
    // An entry uses up what is spare, or waits.
    let spent = cfg.looked(m, "spent", row.waiting.ge(spare));
    let wakes = written & told_of_entry;
    // A look for a doorbell: what is there is enough, or waits.
    let arms = arming.trunc(2).any();
    let (next, solicited) = (row.next | arming.bit(0), row.solicited | arming.bit(1));
    let news = row.producer.trunc(AFTER) - unseen;
    let there = place.valid & ((next & news.any()) | (solicited & row.since.zext(AFTER).lt(news)));
    let enough = next.then(spare.zext(AFTER).lt(news), !spare.any());
    let (there, enough) = (cfg.looked(m, "there", there), cfg.looked(m, "enough", enough));
    // A look for moderation: the time is over, or fewer may wait than do. One for a new ring finds neither.
    let beyond = cfg.looked(m, "beyond", spare.lt(row.waiting));
    let looked = decide & looking;
    let told_of_look = arms.then(there & enough, (row.waits & late) | beyond);
    let tells = (wakes & spent) | (looked & told_of_look);

    let switches = (looked & arming.bit(2)).named("switches");
    m.set(&switched, switches);
    let produced = m.delay("produced", &row.producer);

    m.drive(&changes, decide & (looking | !held.marker));
    let counted = row.since.all().then(row.since, row.since + 1);
    let kept = switches.then(fresh.producer, row.producer);
    m.drive(&row_after.producer, written.then(row.producer + 1, kept));
    let kept = switches.then(fresh.since, row.since);
    m.drive(&row_after.since, written.then(notable.then(lit(INDEX + 1, 0), counted), kept));
    m.drive(&row_after.next, looking.then(next, row.next) & !tells);
    m.drive(&row_after.solicited, looking.then(solicited, row.solicited) & !tells);
    m.drive(&row_after.broken, row.broken | overruns);
    // An arm takes back none that waits: an earlier arm asked for it, or it is in the ring of before.
    let anew = looking & arms & there;
    let waits_after = !tells & (row.waits | anew | wakes);
    m.drive(&row_after.waits, waits_after);
    let waiting = next.then(news.trunc(16), lit(16, 1));
    m.drive(&row_after.waiting, waits_after.repeat(16) & anew.then(waiting, row.waiting + wakes.zext(16)));
    m.drive(&waits.enable, create.enable | (decide & (waits_after.ne(row.waits) | (looking & !arms & late))));
    m.drive(&waits.index, create.enable.then(create.index, held.cq));
    m.drive(&waits.entry, !create.enable & waits_after);

    let phase = !row.producer.bit_at(place.log2);
    let mask = !lit(1, 1).repeat(INDEX).shl_by(place.log2);
    use cqe::*;
    // Of a datagram two fields have its source beside themselves.
    let source = cat([&held.byte_len.slice(16, 16), &held.syndrome]);
    let short_len = held.byte_len.trunc(15).zext(32);
    let bytes = assemble(
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
    m.when(starts, |m| m.set(&deciding, 1)).otherwise_when(decide, |m| m.set(&deciding, 0));
    m.when(written | tells | overruns, |m| {
        m.set(&made_valid, 1);
        m.set(&made.writes, written);
        m.set(&made.base, place.base);
        m.set(&made.offset, (row.producer.trunc(INDEX) & mask).zext(INDEX + 5) << 5);
        m.set(&made.entry, bytes);
        m.set_all(&made.notice, &Flagged { row: held.cq, flags: cat([&tells, &overruns]) });
    })
    .otherwise_when(leaves, |m| m.set(&made_valid, 0));

    // Behind the entry.
    let notices = Stream::new(m, "notices", told_valid, told.clone());
    m.when(leaves & made.notice.flags.any(), |m| {
        m.set(&told_valid, 1);
        m.set_all(&told, &made.notice);
    })
    .otherwise_when(notices.ready, |m| m.set(&told_valid, 0));

    // QPs that must not go on; in a queue of their own, for the QP context may wait for a marker.
    let marks = decide & !looking & held.marker;
    let drained = Drained {
        valid: marks & !held.solicited,
        qp: held.qpn.trunc(cfg.qp_bits()),
        receive: held.opcode.msb(),
    };
    // A cycle later, as the marker is told: a new life's first fault is far behind.
    let ended = m.delay("ended", &Forget { valid: drained.valid, row: drained.qp });
    let fault = Stream::new(m, "fault", fault_valid, Flagged { row: fault_qp, flags: lit(1, 1) });
    m.when(lost & place.valid, |m| {
        m.set(&fault_valid, 1);
        m.set(&fault_qp, held.qpn.trunc(cfg.qp_bits()));
    })
    .otherwise_when(fault.ready, |m| m.set(&fault_valid, 0));
    let faults = gather(&m.label("faults"), cfg.qps, fault, ended).map(|fault| fault.row);

    // The entries before it have left.
    let tells = last_valid & !made_valid;
    let last = Stream::new(m, "last", tells & last_receive, last_qp);
    let mark = Mark { qp: last_qp.trunc(cfg.qp_bits()), stay: last_stay };
    let mark = Stream::new(m, "mark", tells & !last_receive, mark);
    m.when(marks & held.solicited, |m| {
        m.set(&last_valid, 1);
        m.set(&last_qp, held.qpn);
        m.set(&last_receive, held.opcode.msb());
        m.set(&last_stay, held.wqe_index.trunc(STAY_BITS));
    })
    .otherwise_when(last.fire() | mark.fire(), |m| m.set(&last_valid, 0));
    let reports =
        last.map(|qpn| Report { kind: lit(8, EventKind::LastWqe.code()), object: *qpn, cause: lit(8, 0) });
    let write = write_entry(m, cfg, Order::Completion, entry);
    CqWriter {
        write,
        written,
        dropped: lost,
        produced,
        drained,
        notices,
        faults,
        reports,
        marks: mark,
        changing: moderated.changing,
    }
}

#[cfg(test)]
mod tests;
