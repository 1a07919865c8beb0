// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is pending of each QP: lets an ACK pass or keeps it, and appends READs and atomics to the QP's list.
//!
//! ```text
//!  finished --+--> read row --> row: what becomes of it --+--> pass: ACKs
//!  replies  --+      ^              |                     +--> pool[tail], links[tail], front --> cut
//!                    +--------------+                     +--> wake --> cut
//!  free places: first the never used ones, then those that come back
//! ```
//!
//! One event a cycle, of one QP too: an engine of one stage ([`Table`]). A reply that passes is offered three cycles after it was taken. What is
//! finished goes first: an ACK that waited for it is older than the reply beside it. An event whose answer or wake finds no room comes again.
//!
//! READs and atomics of a QP stand in a linked list in one pool, oldest first. The place behind the newest belongs to the
//! list already, so `cut`, which takes them off, needs nothing of the tail but its number.
//!
//! An ACK or a NAK waits while anything is pending, and there is one answer at most. It leaves when nothing is pending any more, unless the QP has
//! failed; a QP that has failed sends none until its end. If another answer comes meanwhile, one of the two stays (9.7.5.2.8: the
//! responder is silent after a NAK, so a NAK that is lost here stops the QP):
//!
//! | waits | comes | then waits |
//! |---|---|---|
//! | ACK | ACK | the one that comes: its PSN is not older. It is sent as it came: what follows the responses may be lost |
//! | ACK | NAK | the NAK, which acknowledges all that is before its PSN |
//! | NAK | ACK | the NAK: a duplicate's ACK is older, and the peer sends again what a later one acknowledges |
//! | NAK | NAK | the one that comes: its PSN is not older |
//! | ACK | new READ or atomic | nothing: the response acknowledges as much |
//! | NAK | new READ or atomic | a sequence NAK for the PSN after its response: the packet that came too early is behind that |
//! | any | repetition | what waits: a repetition is older |
//! | any | end of the QP | nothing |
//!
//! Who lost an answer asks for everything from there on once more (9.7.6), so what older entries would still answer is of no
//! use to him, and where congestion control holds the QP back it would cost him one time-out after another. Repetitions whose
//! PSNs rise are one such run; `cut` knows its first PSN (`start`) and which entries are before it (`since`). When the run has come to
//! the newest entry that is not a repetition (`whole`), `cut` drops the READs among those whose next packet has that PSN or one
//! behind it. The repetition of a request that the network has made twice comes no further than its original: what was asked for
//! behind that one stays. A repetition that finds no place or is refused ends a run that is not whole, for then it does not bring
//! everything, and so does a new entry. One that the wire has lost is not missed: who asked for it must do so once more anyway.
//!
//! Places: one behind the newest entry of each QP, one for the first of each, [`places_shared`] for other new ones, which
//! those who hand them over count, and the rest for repetitions. A QP has fewer than [`PENDING`] entries when a repetition is
//! still taken.
//!
//! Reset: rows are swept, one a cycle, QP `q` to place `q`; what comes meanwhile waits.

use super::{Header, Kind, Reply};
use crate::config::RnicConfig;
use crate::engine::{Shape, Source, Table, Verdict, Visit};
use crate::requester::messages;
use crate::responder::admit::NAK_SEQUENCE;
use crate::stream::{deep_fifo, fifo};
use crate::types::TableWrite;
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::wire::opcode::Opcode;

/// Entries of a QP behind which no repetition is taken: as many as a peer may have under way, and all of them once more, twice.
pub const PENDING: u32 = 48;

/// The bit of an AETH's syndrome that is set in NAKs alone.
pub const NAK_BIT: u32 = 5;

/// Bits that count the entries of a QP: `PENDING`, 16 new ones behind them and the end, and as many again, so that numbers can be compared.
pub(super) const COUNT_BITS: u32 = 8;

/// New READs and atomics that may be pending beside the first one of each QP: as many as a card like this one may have under way, so
/// that none of its is dropped; and those that are counted a little late. Several peers may have more under way: see `Class::Crowded`.
pub fn places_shared(cfg: &RnicConfig) -> u32 {
    messages(cfg) - cfg.qps + 2
}

/// Places of the pool, a power of two: repetitions have at least one for two QPs.
pub(super) fn places(cfg: &RnicConfig) -> u32 {
    (2 * cfg.qps + cfg.qps / 2 + places_shared(cfg)).next_power_of_two()
}

/// Repetitions that may be pending.
pub(super) fn repetitions(cfg: &RnicConfig) -> u32 {
    places(cfg) - 2 * cfg.qps - places_shared(cfg)
}

/// Bits of a place's number.
pub(super) fn place_bits(cfg: &RnicConfig) -> u32 {
    clog2(u64::from(places(cfg)))
}

/// A READ or an atomic in the pool.
#[derive(Clone, Bundle)]
pub(super) struct Entry {
    pub(super) atomic: Sig,
    pub(super) again: Sig,
    pub(super) compares: Sig,
    pub(super) psn: Sig,
    pub(super) syndrome: Sig,
    pub(super) msn: Sig,
    pub(super) va: Sig,
    pub(super) rkey: Sig,
    /// What an atomic adds or stores; the length of a READ in its low half.
    pub(super) swap: Sig,
    pub(super) compare: Sig,
}

impl Entry {
    pub(super) fn of() -> Self {
        Entry {
            atomic: bits(1),
            again: bits(1),
            compares: bits(1),
            psn: bits(24),
            syndrome: bits(8),
            msn: bits(24),
            va: bits(64),
            rkey: bits(32),
            swap: bits(64),
            compare: bits(64),
        }
    }
}

/// What `cut` knows of a QP's list.
#[derive(Clone, Bundle)]
pub(super) struct Front {
    /// The place behind the newest entry.
    pub(super) tail: Sig,
    /// Entries that are done with, modulo 2^8.
    pub(super) finished: Sig,
    /// The number of a run's first repetition: entries before have lower ones.
    pub(super) since: Sig,
    /// The run has come to the newest request that is not a repetition: it brings what there is from its start on.
    pub(super) whole: Sig,
}

impl Front {
    pub(super) fn of(cfg: &RnicConfig) -> Self {
        let count = bits(COUNT_BITS);
        Front { tail: bits(place_bits(cfg)), finished: count, since: count, whole: bits(1) }
    }
}

/// A QP whose list must be looked at, which it may be from the next cycle on.
#[derive(Clone, Bundle)]
pub(super) struct Wake {
    pub(super) qp: Sig,
    /// It ends: nothing is appended any more.
    pub(super) end: Sig,
    /// A new entry wakes it, which is known early in the cycle.
    pub(super) new: Sig,
}

impl Wake {
    /// The shape, for tests.
    #[cfg(test)]
    pub(super) fn of(cfg: &RnicConfig) -> Self {
        Wake { qp: bits(cfg.qp_bits()), end: bits(1), new: bits(1) }
    }
}

/// The lists, as `cut` sees them.
#[derive(Clone, Bundle)]
pub(super) struct Lists {
    pub(super) pool: TableWrite<Entry>,
    pub(super) links: TableWrite<Sig>,
    pub(super) front: TableWrite<Front>,
    /// The PSN at which a QP's run starts.
    pub(super) start: TableWrite<Sig>,
}

/// A place that comes back.
#[derive(Clone, Bundle)]
pub(super) struct Freed {
    pub(super) valid: Sig,
    pub(super) place: Sig,
}

impl Freed {
    pub(super) fn of(cfg: &RnicConfig) -> Self {
        Freed { valid: bits(1), place: bits(place_bits(cfg)) }
    }
}

/// An entry that is done with: its last packet has gone, or it was dropped.
#[derive(Clone, Bundle)]
pub(super) struct Finished {
    pub(super) qp: Sig,
    /// It was the end of the QP's life.
    pub(super) end: Sig,
    /// Not a repetition.
    pub(super) new: Sig,
    pub(super) atomic: Sig,
    /// The QP has failed.
    pub(super) dead: Sig,
    /// PSN of its last packet.
    pub(super) psn: Sig,
}

impl Finished {
    pub(super) fn of(cfg: &RnicConfig) -> Self {
        let one = bits(1);
        Finished { qp: bits(cfg.qp_bits()), end: one, new: one, atomic: one, dead: one, psn: bits(24) }
    }
}

/// A new READ or atomic of a QP is done with, answered or dropped: its place is free.
#[derive(Clone, Bundle)]
pub struct Served {
    /// In this cycle.
    pub valid: Sig,
    /// Which QP.
    pub qp: Sig,
}

impl Served {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Served { valid: bits(1), qp: bits(cfg.qp_bits()) }
    }
}

/// What comes out.
#[derive(Interface)]
pub(super) struct Ordered {
    /// ACKs that wait for nothing, and ends.
    pub(super) pass: Stream<Header>,
    pub(super) lists: Lists,
    /// QPs whose list must be looked at. `ready` must come from registers: what finds none comes again.
    pub(super) wakes: Stream<Wake>,
    pub(super) served: Served,
    pub(super) reads: Sig,
    pub(super) atomics: Sig,
    pub(super) crowded: Sig,
}

#[derive(Clone, Bundle)]
struct Row {
    tail: Sig,
    /// Entries that are not done with, and the end.
    pending: Sig,
    finished: Sig,
    dead: Sig,
    /// An ACK or a NAK waits.
    acks: Sig,
    psn: Sig,
    syndrome: Sig,
    msn: Sig,
    /// PSN of the newest entry that is not a repetition.
    newest: Sig,
    /// PSN of the newest repetition.
    last: Sig,
    /// There is a run with entries before it.
    run: Sig,
    since: Sig,
    whole: Sig,
}

impl Row {
    /// The shape.
    fn of(place_bits: u32) -> Self {
        Row {
            tail: bits(place_bits),
            pending: bits(COUNT_BITS),
            finished: bits(COUNT_BITS),
            dead: bits(1),
            acks: bits(1),
            psn: bits(24),
            syndrome: bits(8),
            msn: bits(24),
            newest: bits(24),
            last: bits(24),
            run: bits(1),
            since: bits(COUNT_BITS),
            whole: bits(1),
        }
    }
}

/// What happens to a QP.
#[derive(Clone, Bundle)]
struct Event {
    by_finish: Sig,
    done: Finished,
    reply: Reply,
}

/// What an event does to its row: one bit each, but for the last.
struct Steps {
    /// An entry enters, and whether it is new.
    enters: Sig,
    enters_new: Sig,
    /// A repetition enters, and whether it begins a run.
    repeats: Sig,
    starts: Sig,
    /// All that was before the run is done with, or something of it is missing.
    over: Sig,
    breaks: Sig,
    is_end: Sig,
    /// An ACK or a NAK waits from now on.
    keeps: Sig,
    finishes: Sig,
    /// The repetition is not older than the newest entry.
    reaches_newest: Sig,
    nak_waits: Sig,
    /// The PSN of what waits.
    asked: Sig,
}

impl Steps {
    /// What becomes of the row; an entry has its place at `free`.
    fn follow(&self, m: &Scope, row: &Row, done: &Finished, reply: &Reply, free: Sig) -> Row {
        let next = m.wire_of("next", row);
        m.set_all(&next, row);
        m.when(self.enters, |m| m.set(&next.tail, free));
        m.when(self.enters_new, |m| m.set(&next.newest, reply.psn));
        m.when(self.repeats, |m| {
            m.set(&next.last, reply.psn);
            m.set(&next.run, !row.pending.eq(0));
            m.set(&next.whole, self.reaches_newest & !row.pending.eq(0));
        })
        .otherwise_when(self.over | self.breaks, |m| {
            m.set(&next.run, 0);
            m.set(&next.whole, 0);
        });
        m.when(self.starts, |m| m.set(&next.since, row.finished + row.pending));
        m.when(self.enters | self.is_end, |m| m.set(&next.pending, row.pending + 1));
        m.when(self.enters_new, |m| {
            m.set(&next.acks, self.nak_waits);
            m.set(&next.syndrome, NAK_SEQUENCE);
            m.set(&next.msn, reply.msn);
        });
        m.when(self.is_end, |m| m.set(&next.acks, 0));
        m.when(self.keeps, |m| {
            m.set(&next.acks, 1);
            m.set(&next.psn, reply.psn);
            m.set(&next.syndrome, reply.syndrome);
            m.set(&next.msn, reply.msn);
        });
        m.when(self.finishes, |m| {
            m.set(&next.psn, self.asked);
            m.set(&next.pending, row.pending - 1);
            m.set(&next.finished, row.finished + (!done.end).zext(COUNT_BITS));
            m.set(&next.dead, (row.dead | done.dead) & !done.end);
            m.when(row.pending.eq(1), |m| m.set(&next.acks, 0));
        });
        next
    }

    /// What `cut` is told, with the row as it will be.
    fn lists(&self, m: &Scope, row: &Row, reply: &Reply, told: &Row, about: &About) -> Lists {
        Lists {
            pool: TableWrite {
                enable: self.enters,
                index: row.tail,
                entry: Entry {
                    atomic: about.is_atomic,
                    again: reply.again,
                    compares: reply.compares,
                    psn: reply.psn,
                    syndrome: reply.syndrome,
                    msn: reply.msn,
                    va: reply.va,
                    rkey: reply.rkey,
                    swap: m.mux(about.is_read, &reply.length.zext(64), &reply.swap),
                    compare: reply.compare,
                },
            },
            links: TableWrite { enable: self.enters, index: row.tail, entry: about.free },
            front: TableWrite {
                enable: self.enters | self.finishes | self.breaks | about.sweeps,
                index: about.at,
                entry: Front {
                    tail: told.tail,
                    finished: told.finished,
                    since: told.since,
                    whole: told.whole,
                },
            },
            start: TableWrite { enable: self.starts, index: about.at, entry: reply.psn },
        }
    }
}

/// What else of an event goes to the lists.
struct About {
    /// It is none: a row is swept.
    sweeps: Sig,
    /// Whose row it is.
    at: Sig,
    is_atomic: Sig,
    is_read: Sig,
    /// The place of the next entry.
    free: Sig,
}

/// The ACK or NAK that waits, with this PSN, or the one that comes and passes.
fn answer(
    m: &Scope,
    cfg: &RnicConfig,
    (qp, loops): (Sig, Sig),
    asked: Sig,
    row: &Row,
    event: &Event,
) -> Header {
    Header {
        qp,
        opcode: lit(8, Opcode::RcAcknowledge.code()),
        psn: m.mux(event.by_finish, &asked, &event.reply.psn),
        original: lit(64, 0),
        syndrome: m.mux(event.by_finish, &row.syndrome, &event.reply.syndrome),
        msn: m.mux(event.by_finish, &row.msn, &event.reply.msn),
        bytes: lit(13, 0),
        lane: lit(cfg.lane_bits(), 0),
        loops: cfg.only(cfg.loopback, loops),
        acknowledges: lit(1, 1),
        end: event.by_finish & event.done.end,
    }
}

/// Answers that have passed.
const PASSED: u32 = 2;

/// The owner of what is pending. `looping`: queue pairs whose packets return inside the card.
#[module]
pub(super) fn order(
    m: &Scope,
    cfg: &RnicConfig,
    replies: Stream<Reply>,
    finished: Stream<Finished>,
    freed: Freed,
    looping: TableWrite<Sig>,
) -> Ordered {
    let place_bits = place_bits(cfg);

    // Free places.
    let fresh = m.reg("fresh", place_bits + 1).reset(cfg.qps);
    let back = Stream::new(m, "back", freed.valid, freed.place);
    m.assert(!back.valid | back.ready, "every place of the pool can come back");
    let back = deep_fifo(&m.label("free"), places(cfg), back);
    let all_used = fresh.eq(places(cfg));
    let free = m.mux(all_used, &back.payload, &fresh.trunc(place_bits));

    // What is finished goes first.
    let row_shape = Row::of(place_bits);
    let first = |qp: Sig| Row { tail: qp.zext(place_bits), ..row_shape.zeros() };
    let shape = Shape {
        keys: cfg.qps,
        row: row_shape.clone(),
        stages: 1,
        style: Style::Block,
        turns: 0,
        first: &first,
    };
    let (finishing, done) = Source::new(m, "finishing", finished, lit(1, 0));
    let (replying, reply) = Source::new(m, "replying", replies, lit(1, 0));
    let (rows, at) = Table::begin(m, &shape, vec![finishing, replying], &|picked| {
        let by_finish = picked[0];
        let event = Event { by_finish, done: done.clone(), reply: reply.clone() };
        (m.mux(by_finish, &done.qp, &reply.qp), event)
    });
    let loops = m.mem("loops", cfg.qps, &bits(1)).style(Style::Block).build();
    loops.write(looping.enable, looping.index, &looping.entry);
    let loops = rows.beside(m, "looped", &loops);
    let acts = rows.valid;
    let Visit { key: qp, row, event, coming } = at;
    let Event { by_finish, done, reply } = event.clone();
    m.discard(&(done.qp, reply.qp, reply.kind, reply.refused));

    // What a reply is, from the cycle before.
    let came = |name: &str, is: Sig| m.delay(name, &(!coming.by_finish & is));
    let kind = |kind: Kind| coming.reply.kind.eq(kind.code());
    let (again, refused) = (coming.reply.again, coming.reply.refused);
    m.discard(&coming);
    let atomic = cfg.only(cfg.atomics, kind(Kind::Atomic));
    let entry = kind(Kind::Read) | atomic;
    let is_ack = acts & came("is_ack", kind(Kind::Acknowledge));
    let is_end = acts & came("is_end", kind(Kind::End));
    let is_atomic = came("is_atomic", atomic);
    let is_read = came("is_read", kind(Kind::Read));
    let is_refused = acts & came("is_refused", entry & refused);
    let is_new = acts & came("is_new", entry & !refused & !again);
    let is_repeat = acts & came("is_repeat", entry & !refused & again);
    let idle = row.pending.eq(0);
    let repeats_bits = clog2(u64::from(repetitions(cfg)) + 1);
    let room = m.reg("room", repeats_bits).reset(repetitions(cfg));
    let no_room = m.reg("no_room", 1).reset(0);
    let no_place = row.pending.ge(PENDING) | no_room;
    let (crowded, repeats) = (is_repeat & no_place, is_repeat & !no_place);
    let enters = is_new | repeats;
    // Syndromes of NAKs, those of receivers that are not ready too, have this bit (9.7.5.2.1, table 45).
    let nak = |syndrome: Sig| syndrome.bit(NAK_BIT);
    let nak_waits = row.acks & nak(row.syndrome);
    let keeps = is_ack & !idle & !row.dead & (nak(reply.syndrome) | !nak_waits);
    // A NAK after a new READ or atomic asks for what follows that. An ACK acknowledges what has come, and nothing after it. A repetition is older,
    // maybe by so much that its PSN looks newer by now.
    let after = done.psn + 1;
    let follows = done.new & nak(row.syndrome) & !(after - row.psn).bit(23);
    let asked = m.mux(follows, &after, &row.psn);
    // Or something is done with.
    let finishes = acts & by_finish;
    let releases = finishes & row.pending.eq(1) & row.acks & !row.dead & !done.dead;
    let passes = releases | (is_ack & idle & !row.dead) | (finishes & done.end);
    let pass = answer(m, cfg, (qp, loops), asked, &row, &event);
    let (pass_room, wake_room) = (m.wire("pass_room", 1), m.wire("wake_room", 1));
    let pass = Stream::new(m, "pass", passes & pass_room, pass);
    m.drive(&pass_room, pass.ready);
    let pass = fifo(&m.label("passed"), PASSED, pass);
    // A READ may wait for an atomic before it.
    let wakes = enters | is_end | (finishes & done.atomic & row.pending.ne(1));
    let wake = Stream::new(m, "wake", wakes & wake_room, Wake { qp, end: is_end, new: is_new });
    m.drive(&wake_room, wake.ready);
    m.assert(!(passes & wakes), "an event has one outcome");
    // One that finds no room with its taker comes again.
    let again = m.mux(passes, &!pass_room, &(wakes & !wake_room));
    // What wakes `cut` and does not pass: that is told apart before `again`.
    let (enters_new, repeats) = (is_new & wake_room, repeats & wake_room);
    let (enters, finishes) =
        ((enters & wake_room).named("enters_now"), (finishes & !again).named("finishes_now"));
    let is_end = is_end & wake_room;
    let served = Served { valid: finishes & done.new, qp };

    m.assert(!(finishes & idle), "only what is pending is finished");
    m.assert(!(acts & !by_finish & row.pending.all()), "the entries of a QP can be counted");
    m.assert(
        !enters | !all_used | back.valid,
        "an entry is handed over only where its place is known to be free",
    );
    back.accept(enters & all_used);
    m.when(enters & !all_used, |m| m.set(&fresh, fresh + 1));
    let one = |s: Sig| s.zext(repeats_bits);
    let returns = finishes & !done.new & !done.end;
    m.set(&room, room - one(repeats) + one(returns));
    m.set(&no_room, !returns & (no_room | (repeats & room.eq(1))));
    m.assert(no_room.eq(room.eq(0)), "it is known that no place is left");

    // A repetition goes on with the run until it is whole, or begins one. PSNs are compared within half of their circle.
    let reaches = |psn: Sig| !(reply.psn - psn).bit(23);
    let goes_on = row.run & !row.whole & reaches(row.last) & reply.psn.ne(row.last);
    let starts = repeats & !goes_on;
    // All that was before it is done with; or something is missing.
    let over = finishes & (row.finished + 1).eq(row.since);
    let breaks = !row.whole & (enters_new | is_refused | crowded);

    let steps = Steps {
        enters,
        enters_new,
        repeats,
        starts,
        over,
        breaks,
        is_end,
        keeps,
        finishes,
        reaches_newest: reaches(row.newest),
        nak_waits,
        asked,
    };
    let next = steps.follow(m, &row, &done, &reply, free);
    let (sweeps, swept) = (rows.sweeps, rows.swept);
    let told = m.mux(sweeps, &first(swept), &next);
    let at = m.mux(sweeps, &swept, &qp);

    let about = About { sweeps, at, is_atomic, is_read, free };
    let lists = steps.lists(m, &row, &reply, &told, &about);
    let (reads, atomics) = (enters_new & is_read, enters_new & is_atomic);
    rows.end(m, &Verdict { again, row: next });
    Ordered { pass, lists, wakes: wake, served, reads, atomics, crowded }
}

#[cfg(test)]
mod tests;
