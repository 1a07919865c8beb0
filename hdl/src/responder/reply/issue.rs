// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks candidates up, and asks host memory for what they need.
//!
//! ```text
//!  candidate --> lookups (one, or two where a page ends) --> pending FIFO --+
//!                        |                                                  v
//!                        +------> translate --+--> answers FIFO --+----> decide --> DMA reads, ends
//!                                             +------------------+          +------> departures
//!                                                                           +------> places of atomics
//! ```
//!
//! A packet asks for what it carries, with REMOTE_READ, an atomic for its 8 bytes with REMOTE_ATOMIC. What is refused goes
//! on as such, without a read of host memory: what it means for the QP is decided where packets leave. Candidates
//! that need no memory go the same way, to keep the order.
//!
//! The first response of a READ is not asked for if [`known`](crate::responder::known()) has its address: the answer comes from there in the next cycle.
//!
//! One candidate a cycle, two where it lies on two pages; lookups run ahead of decisions. A decision waits until all its
//! takers have room and the payload buffer can hold the largest packet: read data is never held up. An answer that is waited for is decided on in the
//! cycle in which it comes.
//!
//! Reset: nothing is under way.

use super::atomic::{Place, ATOMICS};
use super::cut::{About, Candidate, Work};
use crate::config::RnicConfig;
use crate::memory::{next_page, to_page_end, Lookup, Passage, Translation};
use crate::responder::known::Known;
use crate::stream::{breath, deep_fifo, few, fifo, forward, half, prompt_fifo, shown_fifo, spare_fifo};
use crate::types::DmaReadRequest;
use ferrowire_rtl::{cat, clog2, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::queue::Access;

/// Lookups under way at once.
const LOOKUPS: u32 = 8;

/// Packets between here and their departure: a READ of 64 bytes each 3 cycles through 1 us of host latency at 250 MHz.
pub(super) const DEPARTURES: u32 = 128;

/// Reads under way: two for each departure, those in registers included.
const READS: u32 = 4 * DEPARTURES;

/// What a read of host memory is for.
#[derive(Clone, Bundle)]
pub(super) struct End {
    /// A word of an atomic.
    pub(super) atomic: Sig,
    /// Which word of a beat it is.
    pub(super) word: Sig,
    /// The packet ends with this read.
    pub(super) last: Sig,
}

impl End {
    /// The shape, for tests; there is a bit of `word` where a beat is one word, too.
    #[cfg(test)]
    pub(super) fn of(cfg: &RnicConfig) -> Self {
        use ferrowire_rtl::bits;
        End { atomic: bits(1), word: bits((cfg.lane_bits() - 3).max(1)), last: bits(1) }
    }
}

/// A candidate on its way out.
#[derive(Clone, Bundle)]
pub(super) struct Departure {
    pub(super) about: About,
    /// Its memory was refused.
    pub(super) refused: Sig,
    /// Payload comes for it.
    pub(super) carries: Sig,
    /// Lane of its first byte.
    pub(super) lane: Sig,
}

/// What comes out.
#[derive(Interface)]
pub(super) struct Issued {
    pub(super) lookup: Stream<Lookup>,
    pub(super) read: Stream<DmaReadRequest>,
    /// For each read, in order.
    pub(super) ends: Stream<End>,
    /// Candidates, in order.
    pub(super) departures: Stream<Departure>,
    /// Where the atomics are that were granted.
    pub(super) places: Stream<Place>,
    /// What is being looked up.
    pub(super) looked_up: Passage,
    /// A read has been asked for.
    pub(super) reading: Sig,
    /// An atomic has been granted.
    pub(super) granted: Sig,
}

#[derive(Clone, Bundle)]
struct Pending {
    about: About,
    lookups: Sig,
    /// Place of its first byte in the page.
    offset: Sig,
    /// Beats of its payload in the payload buffer.
    beats: Sig,
}

#[derive(Clone, Bundle)]
struct Answer {
    ok: Sig,
    address: Sig,
}

/// Answers in LUT RAM, and a way around it for one that comes while none waits.
fn around(m: &Scope, answered: Stream<Answer>) -> Stream<Answer> {
    let passes = m.wire("answer_passes", 1);
    let waits = Stream::new(m, "answer_waits", answered.valid & !passes, answered.payload.clone());
    answered.accept(waits.ready);
    let stored = fifo(&m.label("answers"), LOOKUPS, waits);
    let answer = m.mux(stored.valid, &stored.payload, &answered.payload);
    let out = Stream::new(m, "answer", stored.valid | answered.valid, answer);
    m.drive(&passes, !stored.valid & out.ready);
    stored.accept(out.ready);
    out
}

/// What is under way, and how many lookups belong to it.
struct Queued {
    pending: Stream<Pending>,
    lookups: Sig,
}

/// The queue of what is looked up. A register shows the number of lookups: it decides what is waited for.
fn queue(m: &Scope, cfg: &RnicConfig, pending: Stream<Pending>) -> Queued {
    if cfg.unhurried() {
        let pending = few(&m.label("pending"), LOOKUPS, Some(2), pending);
        return Queued { lookups: pending.lookups, pending };
    }
    let lookups = Stream::new(m, "lookups", pending.fire(), pending.lookups);
    m.assert(!lookups.valid | lookups.ready, "its queue has a place more than that of the rest");
    let lookups = shown_fifo(&m.label("lookups"), LOOKUPS, lookups);
    let pending = few(&m.label("pending"), LOOKUPS, None, pending);
    m.assert(lookups.valid.eq(pending.valid), "both come together");
    lookups.accept(pending.ready);
    m.discard(&pending.lookups);
    Queued { lookups: lookups.payload, pending }
}

/// Looks up and asks. `taken` pulses for each beat that leaves the payload buffer; `written`: atomics that have been
/// written.
#[module]
pub(super) fn issue(
    m: &Scope,
    cfg: &RnicConfig,
    candidates: Stream<Candidate>,
    known: Option<Known>,
    answer: Translation,
    taken: Sig,
    written: Sig,
) -> Issued {
    let lane_bits = cfg.lane_bits();
    let about = candidates.about.clone();
    let is_atomic = cfg.only(cfg.atomics, about.is(Work::Atomic));

    // Lookups: one for the first page, one more where the packet goes on to the next. Only READs and atomics have bytes.
    let asks = about.bytes.ne(0);
    let offset = candidates.va.trunc(12);
    let here = to_page_end(offset).named("to_page_end");
    let crosses = candidates.crosses;
    let second = m.reg("second", 1).reset(0);
    let under_way = m.reg("under_way", clog2(u64::from(LOOKUPS)) + 1).reset(0);
    let pending_room = m.wire("pending_room", 1);
    // The first response of a READ whose lookup is remembered: its answer comes in the next cycle. A question that is on offer stays.
    let known = known.map(|known| (known, m.reg("offered", 1).reset(0)));
    let remembers = known.as_ref().map_or(lit(1, 0), |(known, offered)| {
        let first = about.is(Work::Read) & about.new & about.first & asks & !crosses;
        let same = known.valid & known.qp.eq(about.qp) & known.psn.eq(about.psn);
        candidates.valid & first & same & !*offered & under_way.eq(0)
    });
    let remembers = remembers.named("remembers");
    let may_ask =
        candidates.valid & asks & !remembers & under_way.ne(LOOKUPS) & (pending_room | (crosses & !second));
    let right = |access: Access| lit(8, u32::from(access.code()));
    let question = Lookup {
        key: candidates.rkey,
        pd: candidates.pd,
        qpn: about.qp.zext(24),
        access: m.mux(is_atomic, &right(Access::RemoteAtomic), &right(Access::RemoteRead)),
        va: m.mux(second, &next_page(candidates.va), &candidates.va),
        length: m.mux(second, &(about.bytes - here), &about.bytes).zext(32),
    };
    let lookup = Stream::new(m, "lookup", may_ask, question);
    let recalled = remembers & pending_room;
    let enters_one = lookup.fire() | recalled;
    let enters = candidates.valid & m.mux(asks, &(enters_one & (second | !crosses)), &lit(1, 1));
    m.when(lookup.fire(), |m| m.set(&second, crosses & !second));
    let lookups = m.mux(asks, &m.mux(crosses, &lit(2, 2), &lit(2, 1)), &lit(2, 0));
    let capacity = cfg.payload_buffer_bytes / cfg.beat_bytes;
    let room_bits = clog2(u64::from(capacity) + 1);
    let span = about.bytes.zext(14) + offset.trunc(lane_bits).zext(14) + (cfg.beat_bytes - 1);
    let beats = span.slice(lane_bits, 14 - lane_bits).zext(room_bits.max(14)).trunc(room_bits);
    let pending = Stream::new(m, "entering", enters, Pending { about, lookups, offset, beats });
    m.drive(&pending_room, pending.ready);
    candidates.accept(pending.fire());
    let Queued { pending, lookups } = queue(m, cfg, pending);
    let mut found = Answer { ok: answer.ok, address: answer.address };
    let mut comes = answer.valid;
    if let Some((known, offered)) = known {
        m.set(&offered, lookup.valid & !lookup.ready);
        let recall = m.delay_zero("recall", &recalled);
        let address = m.delay("recalled_address", &known.address);
        m.assert(!(recall & answer.valid), "nothing is looked up before what is remembered");
        found = m.mux(recall, &Answer { ok: lit(1, 1), address }, &found);
        comes = comes | recall;
    }
    let answered = Stream::new(m, "answered", comes, found);
    m.assert(!answered.valid | answered.ready, "an answer finds its place");
    let answers = match cfg.unhurried() {
        true => breath(&m.label("answer"), true, fifo(&m.label("answers"), LOOKUPS, answered)),
        false => around(m, answered),
    };
    let width = under_way.width();
    // That an answer is taken is known late, and counted a cycle later.
    let taken_one = m.delay_zero("taken_one", &answers.fire());
    m.set(&under_way, under_way + enters_one.zext(width) - taken_one.zext(width));

    // Decide. The first of two answers is kept.
    let about = &pending.about;
    let kept = m.reg("kept", 1).reset(0);
    let kept_answer = m.reg_of("kept_answer", &answers.payload);
    let (two, none) = (lookups.eq(2), lookups.eq(0));
    let keeps = pending.valid & two & !kept & answers.valid;
    let known = pending.valid & (none | (answers.valid & (!two | kept)));
    let granted = none | (answers.ok & (!two | kept_answer.ok));
    let is_atomic = cfg.only(cfg.atomics, about.is(Work::Atomic));
    let asked = granted & !none;

    let room = m.reg("room", room_bits).reset(capacity);
    // Room for the largest packet, so that the decision does not wait for this one's length.
    let fits = room.ge(lit(room_bits, 4096 / cfg.beat_bytes + 1));
    let (read_room, departure_room) = (m.wire("read_room", 1), m.wire("departure_room", 1));
    let can = known & fits & read_room & departure_room;
    // Two reads, two cycles.
    let first_out = m.reg("first_out", 1).reset(0);
    let halfway = can & two & asked & !first_out;
    let go = can & !halfway;
    m.when(halfway, |m| m.set(&first_out, 1)).otherwise_when(go, |m| m.set(&first_out, 0));
    let page_rest = to_page_end(pending.offset);
    let lengths = [about.bytes, page_rest, about.bytes, about.bytes - page_rest];
    let read = DmaReadRequest {
        address: m.mux(two & !first_out, &kept_answer.address, &answers.address),
        length: m.select(cat(&[two, first_out]), &lengths),
    };
    let read = Stream::new(m, "read", known & fits & departure_room & asked, read);
    m.drive(&read_room, read.ready);
    let reads = read.fire();
    let read = few(&m.label("read"), 4, cfg.unhurried().then_some(2), read);
    let word = match lane_bits {
        3 => lit(1, 0),
        _ => pending.offset.slice(3, lane_bits - 3),
    };
    let ends = Stream::new(m, "ends", reads, End { atomic: is_atomic, word, last: !halfway });
    m.assert(!ends.valid | ends.ready, "every read has a place");
    // As soon there as out of a deep FIFO, for data may follow at once, and out of a register: what data means is known early.
    let ends = forward(&m.label("end"), prompt_fifo(&m.label("ends"), READS, ends));
    let place = Place { address: answers.address.slice(3, 61), written };
    let places = Stream::new(m, "place", go & is_atomic & granted, place);
    m.assert(!places.valid | places.ready, "every atomic has a place");
    let granted_atomic = places.fire();
    // It is asked for much later: that it goes is known late.
    let places =
        if cfg.unhurried() { half(&m.label("place"), places) } else { forward(&m.label("place"), places) };
    let places = spare_fifo(&m.label("places"), ATOMICS, cfg.unhurried(), places);
    let carries = granted & about.is(Work::Read) & about.bytes.ne(0);
    let departure =
        Departure { about: about.clone(), refused: !granted, carries, lane: pending.offset.trunc(lane_bits) };
    let departure = Stream::new(m, "departure", go, departure);
    m.drive(&departure_room, departure.ready);
    let departure = breath(&m.label("departure"), cfg.unhurried(), departure);
    let departures = deep_fifo(&m.label("departures"), DEPARTURES, departure);

    pending.accept(go);
    answers.accept(keeps | (go & !none));
    m.when(keeps, |m| {
        m.set(&kept, 1);
        m.set_all(&kept_answer, &answers.payload);
    })
    .otherwise_when(go, |m| m.set(&kept, 0));
    let freed_room = room + taken.zext(room_bits);
    m.set(&room, m.mux(go & carries, &(freed_room - pending.beats), &freed_room));
    m.assert(room.le(capacity), "the buffer gives back what it was given");
    let looked_up = Passage { enters: enters_one, leaves: answers.fire() };
    Issued { lookup, read, ends, departures, places, looked_up, reading: reads, granted: granted_atomic }
}
