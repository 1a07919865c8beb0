// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive WQEs on the card: a direct-mapped cache in front of the receive queues, filled ahead of need.
//!
//! ```text
//!  doorbell --+              +-----------------+
//!  reset    --+--> event --->| producer,       |--> DMA read {base + 64 * index, 64 * count}
//!  need     --+              | fetched, limit  |--> grants --> fetch <-- read data
//!      +-------------------->|                 |--> marks            |
//!      |   oldest in line    +-----------------+       v             v fill
//!      +--- FIFO of queues <-------+      ^ demand   ahead     +-------------------+
//!                                         |           ^  ^     | tags, WQEs: slots |<-- wanted {queue, index}
//!  touch {queue, index} ----------------------------- +  +-----|                   |--> received
//!                                                       probe  +-------------------+
//!  ask {queue} --> flush, shared --> oldest --> is it overrun? --> row --> overruns
//! ```
//!
//! The queues are those of QPs and the shared ones. WQE `index` of queue `q` has one slot: in groups of [`SPREAD`], group `q + apart *
//! (index / SPREAD)` modulo the groups, so that one queue alone may use them all, a few neighbours do not meet, and many have a group each. A WQE
//! whose slot another has taken meanwhile is read again. It is in host memory until it completes.
//!
//! Who takes messages tells of each when it comes (`touch`), and wants its WQE when it is placed; in between lies a queue that is as long as the
//! host's latency. [`ahead`] knows what has been asked for; what has not is read, with those behind it: a batch, and where few queues are in use
//! [`DISTANCES`] farther, so that messages do not wait at all. How many are in use is counted: those that needed something in
//! the last [`EPOCH`] needs. A doorbell brings the first few WQEs of a queue.
//!
//! A WQE that is wanted is there 2 cycles later if its slot has it, and one can be wanted every 2 cycles; 4 where beats are narrow. Its slot is
//! where who wants it says that it is, by the stride of the queue, or from the first read for it on where that brings it. If not, it is
//! waited for where it has been asked for, and asked for where it has not. Where another takes its slot before it has been seen, that shows when no read
//! is under way any more, or after [`PATIENCE`] cycles, in which nothing else is read from then on; so nobody waits for ever. What the
//! QP has not posted, or no longer, comes as void.
//!
//! What is read ahead of the messages leaves places for what they wait for: with many queues it is more than the host brings in the time that
//! a packet buffer lasts.
//!
//! One event or read in 4 cycles, of up to `fetch_batch` units. Messages with a WQE of 64 bytes: one in 3 cycles, at 1 us of host latency, of one
//! queue or of many, in bursts or in turns.
//!
//! The queue of a QP that goes to RESET begins another life; the number of the life in which a WQE was asked for is in its slot's
//! tag. When a queue has used half of the numbers, [`sweep`] clears what former lives have left. What `ahead` remembers of a former life may be
//! taken for that of one with the same number: it only makes somebody wait as for a WQE whose slot another has taken. A shared queue that is
//! destroyed begins another life as well. Behind the reads of either goes a mark; where that has come, nothing of its host memory is read any
//! more: `unread` tells of a QP's, and `busy` is low when none of a shared one is on its way.
//!
//! How many receives a queue has is known here, and told to the others as `posted`. That of a QP in the error state is told to
//! `flush`, when it goes there and whenever it posts more.
//!
//! # Overruns
//!
//! A doorbell that tells of more WQEs than the queue has places for, or of fewer than before, changes nothing: the queue is overrun. That is
//! told once in its life, when the queue, which stands in the line like one with something to read, has its turn. How far a queue is its owner
//! knows, and is asked behind the row: of a QP `flush` has the index behind the last receive that has ended, of a shared queue `shared` counts those
//! that messages have taken. Both move before the completion leaves the card, so who posts only where completions have made room is
//! never refused. Of a shared queue a message may hold a place still that is not counted: who posts over that spoils its own message, and is
//! not found out.
//!
//! A QP ends with its queue; one in the error state, or in RESET, is not told of. A shared queue that is overrun has failed (IBTA volume 1,
//! 11.6.3): from then on its WQEs come with an error, for they may have been written over. So a QP ends with the first message that takes one,
//! or goes on in one, with that receive completed and its peer told; others that share the queue go on with what takes none (10.2.9).
//!
//! Reset: slots and rows are cleared, one a cycle; what comes meanwhile waits.

mod ahead;
mod sweep;

pub use ahead::Touch;

use crate::config::RnicConfig;
use crate::context::{errors, resets};
use crate::host::SrqEntry;
use crate::requester::{fetch, grain, least_of_three, overfills, steps_back, wqe_places, Grant, Ring, UNIT};
use crate::responder::queues::Queues;
use crate::responder::receive::ahead::{ahead, Life, Mark, Probe, UNIT_BITS};
use crate::responder::receive::sweep::{sweep, Holder, ROUND_BITS};
use crate::stream::{deep_fifo, fifo, forward, row_of, spare_fifo};
use crate::types::{DmaReadData, DmaReadRequest, OfQp, QpBroadcast, TableWrite};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;

/// A receive queue's doorbell, already checked for page and range.
#[derive(Clone, Bundle)]
pub struct RqDoorbell {
    /// Which queue: a QP's, or with the highest bit set a shared one.
    pub queue: Sig,
    /// Index past the newest WQE, free-running.
    pub producer: Sig,
}

impl RqDoorbell {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        RqDoorbell { queue: bits(cfg.rq_bits()), producer: bits(16) }
    }
}

/// A piece of a receive WQE that somebody needs.
#[derive(Clone, Bundle)]
pub struct Wanted {
    /// Of which queue, as in a doorbell.
    pub queue: Sig,
    /// Its index, free-running.
    pub index: Sig,
    /// Which of its pieces.
    pub part: Sig,
    /// Log2 of the units of each WQE of the queue.
    pub stride: Sig,
}

impl Wanted {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let part = bits(MAX_STRIDE + piece_bits(cfg));
        Wanted { queue: bits(cfg.rq_bits()), index: bits(16), part, stride: bits(2) }
    }
}

/// A piece of a receive WQE.
#[derive(Clone, Bundle)]
pub struct Received {
    /// Its bytes, as they lay in the queue.
    pub piece: Sig,
    /// Host memory could not be read.
    pub error: Sig,
    /// There is no such WQE: it has not been posted, or the life of its queue has ended.
    pub void: Sig,
}

impl Received {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Received { piece: bits(8 * grain(cfg)), error: bits(1), void: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Receives {
    /// Reads of WQEs.
    pub read: Stream<DmaReadRequest>,
    /// What was wanted, in order.
    pub received: Stream<Received>,
    /// The index behind a queue's newest receive has moved.
    pub posted: TableWrite<Sig>,
    /// A QP in the error state may have receives that are to be flushed; with the newest of `posted`, or behind.
    pub flush: OfQp,
    /// The queue of a QP that has gone to RESET is read no more.
    pub unread: OfQp,
    /// A shared queue that was destroyed may still be read.
    pub busy: Sig,
    /// The queue of which `oldest` is asked for.
    pub ask: Ask,
    /// Queues that the host has overrun, as in a doorbell.
    pub overruns: Stream<Sig>,
}

/// Whoever owns a queue is asked how far it is.
#[derive(Clone, Bundle)]
pub struct Ask {
    /// In this cycle.
    pub valid: Sig,
    /// Which one, as in a doorbell.
    pub queue: Sig,
}

impl Ask {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Ask { valid: bits(1), queue: bits(cfg.rq_bits()) }
    }
}

/// The answers, in the next cycle.
#[derive(Clone, Bundle)]
pub struct Oldest {
    /// Of a QP's queue: the index behind the last receive that has ended.
    pub done: Sig,
    /// Of a shared queue: how many have been taken.
    pub taken: Sig,
}

impl Oldest {
    /// The shape.
    pub fn of() -> Self {
        Oldest { done: bits(16), taken: bits(16) }
    }
}

/// WQEs that a doorbell brings on the card, and each QP's share of the slots.
const SPREAD: u32 = 4;

/// Log2 of the units of the largest receive WQE.
const MAX_STRIDE: u32 = 2;

/// Log2 of the pieces of a unit.
fn piece_bits(cfg: &RnicConfig) -> u32 {
    (UNIT / grain(cfg)).trailing_zeros()
}

/// Lives of a queue before their numbers come again; [`sweep`] goes by halves.
const LIFE_BITS: u32 = 6;

/// Needs after which the queues in use are counted anew, and the bits of such a time's number.
const EPOCH: u32 = 256;
const EPOCH_BITS: u32 = 4;

/// How far ahead of a message's WQE is read, in batches, where few queues are in use, and where some are: the first is enough for a
/// message each 4 cycles and 1 us of host latency at 250 MHz.
const DISTANCES: [u32; 2] = [6, 1];

/// Cycles for which a WQE that has been asked for is waited for before nothing else is read.
const PATIENCE: u32 = 2048;

/// The same in units.
fn distance_of(cfg: &RnicConfig, at: usize) -> u32 {
    DISTANCES[at] * cfg.fetch_batch.max(SPREAD)
}

/// Units that a read may have.
fn longest(cfg: &RnicConfig) -> u32 {
    cfg.fetch_batch.max(1 << MAX_STRIDE)
}

/// Up to how many queues in use: all that they have on the card takes half of the slots.
fn queues_of(cfg: &RnicConfig, at: usize) -> u32 {
    (slots(cfg) / (2 * (distance_of(cfg, at) + 2 * cfg.fetch_batch))).max(1)
}

/// Groups between those of a QP's successive blocks of WQEs: past those of all QPs, or of the neighbours.
fn apart(cfg: &RnicConfig) -> u32 {
    let groups = slots(cfg) / SPREAD;
    if groups >= 2 * cfg.qps {
        cfg.qps + 1
    } else {
        37
    }
}

/// The fewest slots: two for each packet that may be between `check` and `walk`, of which 128 are most. Half as many would leave a few queues in use a
/// shorter way ahead.
const LEAST: u32 = 256;

/// Slots of the cache: twice what may be looked for at once, or more.
pub fn slots(cfg: &RnicConfig) -> u32 {
    (SPREAD * cfg.qps).max((2 * distance_of(cfg, 0)).next_power_of_two()).clamp(LEAST, 32768)
}

/// The group of slots that a queue's unit has.
fn group_of(cfg: &RnicConfig, queue: Sig, unit: Sig) -> Sig {
    let spread = clog2(u64::from(SPREAD));
    let group = clog2(u64::from(slots(cfg))) - spread;
    let fit = |s: Sig| s.zext(s.width().max(group)).trunc(group);
    let block = fit(unit.slice(spread, UNIT_BITS - spread));
    let times = |power: u32| match power {
        0 => block,
        _ => fit(cat(&[lit(power, 0), block])),
    };
    let factor = (0..group).filter(|power| apart(cfg) >> power & 1 == 1).map(times);
    let apart = factor.reduce(|a, b| a + b).expect("blocks lie apart");
    fit(queue) + apart
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Row,
    Plan,
    Act,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum Look {
    Idle,
    /// Where there is time: the tag of the slot is compared.
    Read,
    /// Tag and WQE of the slot are known.
    Compare,
    /// The slot has another: has it been asked for?
    Probe,
    Probed,
    /// It is on its way, and looked at again when no fill comes.
    Wait,
    /// It is asked for.
    Ask,
    /// And the answer is awaited.
    Asked,
}

#[derive(Clone, Bundle)]
struct Row {
    producer: Sig,
    /// Next index to read.
    fetched: Sig,
    /// Index up to which reads go ahead.
    limit: Sig,
    /// When one of its WQEs was needed last.
    epoch: Sig,
    queued: Sig,
    /// The host has overrun it, and that has been told.
    overrun: Sig,
    told: Sig,
    /// The round of [`sweep`] that it asked for last.
    stamp: Sig,
}

impl Row {
    fn of() -> Self {
        Row {
            producer: bits(16),
            fetched: bits(16),
            limit: bits(16),
            epoch: bits(EPOCH_BITS),
            queued: bits(1),
            overrun: bits(1),
            told: bits(1),
            stamp: bits(ROUND_BITS),
        }
    }
}

#[derive(Clone, Bundle)]
struct Tag {
    valid: Sig,
    queue: Sig,
    index: Sig,
    part: Sig,
    life: Sig,
}

/// A read under way.
#[derive(Clone, Bundle)]
struct UnderWay {
    life: Sig,
    /// The index of its last WQE.
    last: Sig,
    /// Log2 of the units of each.
    stride: Sig,
}

#[derive(Clone, Bundle)]
struct Piece {
    bytes: Sig,
    error: Sig,
}

/// The cache. `shared`: a shared queue begins, or ends; `touches`: messages have come; `oldest`: what `ask` asked for in the cycle before.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn receive(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    shared: TableWrite<SrqEntry>,
    doorbell: Stream<RqDoorbell>,
    touches: Stream<Touch>,
    wanted: Stream<Wanted>,
    data: Stream<DmaReadData>,
    oldest: Oldest,
) -> Receives {
    let (qp_bits, rq_bits) = (cfg.qp_bits(), cfg.rq_bits());
    m.discard(&shared.entry);
    let slot_bits = clog2(u64::from(slots(cfg)));
    let spread = clog2(u64::from(SPREAD));
    let unit_of =
        |index: Sig, part: Sig, stride: Sig| index.zext(UNIT_BITS).shl_by(stride) | part.zext(UNIT_BITS);
    let slot_of = |queue: Sig, unit: Sig| cat(&[unit.trunc(spread), group_of(cfg, queue, unit)]);
    let state = m.fsm("state", State::Sweep);
    let look = m.fsm("look", Look::Idle);
    // The marks of a read are made before the next one.
    let marking = m.wire("marking", 1);
    let (sweeping, idle) = (state.is(State::Sweep), state.is(State::Idle) & !marking);
    let (grant, grants) = m.later("grant", &Grant { qp: bits(rq_bits), ..Grant::of(cfg) });
    let ends_read = m.wire("ends_read", 1);
    let fill = forward(&m.label("fill"), fetch(m, cfg, grain(cfg), grant, data, vec![]).0);

    // Reads under way, as WQEs.
    let places_bits = clog2(u64::from(wqe_places(cfg)) + 1);
    let places = m.reg("places", places_bits).reset(wqe_places(cfg));
    let none_under_way = places.eq(wqe_places(cfg)).named("none_under_way");

    // Lives. What is read belongs to that in which it was asked for.
    let (resets, errors) = (resets(m, cfg, &broadcast), errors(m, cfg, &broadcast));
    let under_way_shape = UnderWay { life: bits(LIFE_BITS), last: bits(16), stride: bits(2) };
    let (under_way, goes_under_way) = m.later("under_way", &under_way_shape);
    let lives = Queues::new(m, cfg, "lives", &bits(LIFE_BITS), Style::Distributed);

    // Shared queues that are destroyed. A mark behind the reads of each says that there are none any more.
    // Whoever destroys them all waits for nobody: each has a bit.
    let going = m.reg("going", cfg.srq_rows()).reset(0);
    let (gone_valid, gone_srq) =
        (m.reg("gone_valid", 1).reset(0), m.reg("gone_srq", cfg.srq_bits()).no_reset());
    let gone = Stream::new(m, "gone", gone_valid, gone_srq);
    let lowest = going & (lit(cfg.srq_rows(), 0) - going);
    let hits =
        |bit: u32| (0..cfg.srq_rows()).filter(move |srq| srq >> bit & 1 == 1).map(move |srq| lowest.bit(srq));
    let number: Vec<Sig> = (0..cfg.srq_bits()).map(|bit| cat(&hits(bit).collect::<Vec<_>>()).any()).collect();
    let none = lit(cfg.srq_rows(), 0);
    let moves = !gone_valid & going.any();
    let ends_now =
        (shared.enable & !shared.entry.valid).then(lit(cfg.srq_rows(), 1).shl_by(shared.index), none);
    m.set(&going, (going & !moves.then(lowest, none)) | ends_now);
    m.when(moves, |m| {
        m.set(&gone_valid, 1);
        m.set(&gone_srq, cat(&number));
    })
    .otherwise_when(gone.fire(), |m| m.set(&gone_valid, 0));
    // Those of shared queues on their way: there is a place for each among the grants.
    let marked = m.reg("marked", 6).reset(0);

    // The slots: fills write, who wants one reads; what comes in the same cycle is seen when it is looked at again, and so is whether it was
    // there before.
    let tag_shape =
        Tag { valid: bits(1), queue: bits(rq_bits), index: bits(16), part: bits(2), life: bits(LIFE_BITS) };
    let tags = m.mem("tags", slots(cfg), &tag_shape).style(cfg.large(slots(cfg))).build();
    let piece_bits = piece_bits(cfg);
    let pieces = 1 << piece_bits;
    let piece_shape = Piece { bytes: bits(8 * grain(cfg)), error: bits(1) };
    let rows = slots(cfg) * pieces;
    let store = m.mem("slots", rows, &piece_shape).style(cfg.large(rows)).build();
    let clearing = m.wire("clearing", 1);
    fill.accept(!clearing);
    let fills = fill.fire() & !fill.start;
    let marks = fill.fire() & fill.start;
    let of_shared = fill.qp.msb();
    m.set(&marked, marked + gone.fire().zext(6) - (marks & of_shared).zext(6));
    let unread = OfQp { valid: marks & !of_shared, qp: fill.qp.trunc(qp_bits) };
    let fill_part = fill.part.slice(piece_bits, MAX_STRIDE);
    let fill_slot = slot_of(fill.qp, unit_of(fill.index, fill_part, under_way.stride));
    m.drive(&ends_read, fills & fill.ends & fill.index.eq(under_way.last));
    under_way.accept(ends_read);
    m.assert(!fills | under_way.valid, "what is read has been asked for");
    let holder = m.wire_of("holder", &Holder::of(cfg));
    let (reads, crosses) = (m.wire("reads", 1), m.wire("crosses", 1));
    let stamp = m.wire("stamp", ROUND_BITS);
    let (nobody_looks, life_there) = (m.wire("nobody_looks", 1), m.wire("life_there", LIFE_BITS));
    let swept = sweep(
        m,
        cfg,
        sweep::Input {
            crosses,
            stamp,
            reads,
            ends_read,
            fills,
            fill_slot,
            free: nobody_looks,
            found: holder.clone(),
            life: life_there,
        },
    );
    m.drive(&clearing, swept.clearing);
    let (visits, clears) = (swept.visits, swept.clears);
    let tag =
        Tag { valid: !clears, queue: fill.qp, index: fill.index, part: fill_part, life: under_way.life };
    // While its pieces come, a slot has nothing.
    let (first_piece, last_piece) = match piece_bits {
        0 => (lit(1, 1), lit(1, 1)),
        _ => {
            let piece = fill.part.trunc(piece_bits);
            (piece.eq(0), piece.all())
        }
    };
    let tag = Tag { valid: tag.valid & last_piece, ..tag };
    let writes = (fills & (first_piece | last_piece)) | clears;
    let written_slot = m.mux(clears, &swept.slot, &fill_slot);
    tags.write(writes, written_slot, &tag);
    let place_of = |slot: Sig, part: Sig| match piece_bits {
        0 => slot,
        _ => cat(&[part.trunc(piece_bits), slot]),
    };
    let piece = Piece { bytes: fill.piece, error: fill.error };
    store.write(fills, place_of(fill_slot, fill.part), &piece);

    // Who wants one.
    let sought = m.reg_of("sought", &wanted.payload);
    let kept_off = swept.halted | swept.judges;
    let begins = look.is(Look::Idle) & wanted.valid & !kept_off & !swept.insists;
    // A look that found nothing while no read was under way.
    let missed = m.reg("missed", 1).reset(0);
    let again = look.is(Look::Wait) & !missed & !kept_off & !swept.insists;
    wanted.accept(begins);
    m.when(begins, |m| m.set_all(&sought, &wanted.payload));
    let at = m.mux(look.is(Look::Idle), &wanted.payload, &sought);
    let given = &broadcast.attributes;
    let part_of = |wanted: &Wanted| wanted.part.slice(piece_bits, MAX_STRIDE);
    let unit = unit_of(wanted.index, part_of(&wanted.payload), wanted.stride);
    let sought_unit = m.reg("sought_unit", UNIT_BITS).no_reset();
    m.when(begins, |m| m.set(&sought_unit, unit));
    // Where there is time, what is sought is known before it is looked for.
    let (seeks, slot) = match cfg.unhurried() {
        true => (again, slot_of(sought.queue, sought_unit)),
        false => {
            let unit = m.mux(look.is(Look::Idle), &unit, &sought_unit);
            (begins | again, slot_of(at.queue, unit))
        }
    };
    let cleans_here = if cfg.unhurried() { !again } else { visits };
    // Known a cycle later, beside the tag.
    let (both, seen_slot) = (m.delay("both", &(seeks & writes)), m.delay("seen_slot", &slot));
    let met = both & seen_slot.eq(m.delay("was_written", &written_slot));
    let found_tag = tags.read(m, seeks | visits, m.mux(cleans_here, &swept.slot, &slot), Collision::Any);
    m.set_all(&holder, &Holder { valid: found_tag.valid, queue: found_tag.queue, life: found_tag.life });
    let sought_part = if cfg.unhurried() { sought.part } else { at.part };
    let found = store.read(m, seeks, place_of(slot, sought_part), Collision::Any);
    let life = m.reg("life", LIFE_BITS).no_reset();
    // Shared queues that have failed.
    let failures = m.mem("failures", cfg.srq_rows(), &bits(1)).style(Style::Distributed).build();
    let failed = m.reg("failed", 1).no_reset();
    let life_at = lives.read_now(m, m.mux(swept.judges, &swept.judged, &at.queue));
    m.drive(&life_there, life_at);
    m.when(begins | again, |m| {
        m.set(&life, life_at);
        m.set(&failed, at.queue.msb() & failures.read_now(at.queue.trunc(cfg.srq_bits())));
    });
    let same = found_tag.queue.eq(sought.queue)
        & found_tag.index.eq(sought.index)
        & found_tag.part.eq(part_of(&sought));
    let hit = found_tag.valid & same & found_tag.life.eq(life) & !met;
    // Where there is time, what was read is compared in a cycle of its own.
    let hit = cfg.looked(m, "hit", hit);
    let compare = if cfg.unhurried() { Look::Read } else { Look::Compare };
    let void = m.reg("void", 1).reset(0);
    let compares = look.is(Look::Compare);
    // An offer stands, though the QP may begin another life meanwhile: who wants it has begun with it.
    let offered = m.reg("offered", 1).reset(0);
    let answers = compares & (hit | void | offered);
    // While it stands, the tag of another slot may be looked at.
    let offered_void = m.reg("offered_void", 1).no_reset();
    let is_void = m.mux(offered, &offered_void, &(void & !hit));
    m.set(&offered_void, is_void);
    m.drive(
        &nobody_looks,
        (look.is(Look::Idle) & !begins) | (look.is(Look::Wait) & !again) | (compares & offered),
    );
    let answer = Received { piece: found.bytes, error: found.error | failed, void: is_void };
    let received = Stream::new(m, "received", answers, answer);
    m.when(begins, |m| {
        m.set(&void, 0);
        m.set(&look, if cfg.unhurried() { Look::Wait } else { compare });
    });
    m.when(look.is(Look::Read), |m| m.set(&look, Look::Compare));
    m.set(&offered, received.valid & !received.fire());
    m.when(received.fire(), |m| m.set(&look, Look::Idle));
    // The first look that finds it missing asks whether it is on its way; the last one when nothing is.
    let first_look = m.reg("first_look", 1).reset(0);
    let patience = m.reg("patience", clog2(u64::from(PATIENCE)) + 1).reset(0);
    let asks_whether = look.is_any(&[Look::Probe, Look::Probed]);
    let waiting = (patience.msb() & !asks_whether).named("waiting");
    m.when(begins, |m| m.set(&patience, 0))
        .otherwise_when(!patience.msb() & !look.is(Look::Idle) & !swept.halted, |m| {
            m.set(&patience, patience + 1)
        });
    m.when(begins, |m| m.set(&first_look, 1));
    let misses = compares & !answers;
    m.when(misses, |m| m.set(&look, Look::Wait));
    m.when(again, |m| m.set(&look, compare));
    // It asks in the next idle cycle, unless a read begins first. A loop of looks could miss every idle cycle, as both loops may take the same number of cycles.
    let missed_now = (misses & !first_look) | missed;
    m.set(&missed, missed_now & none_under_way & !idle);
    m.when(missed_now & none_under_way & idle, |m| m.set(&look, Look::Ask));
    m.when(misses & first_look, |m| {
        m.set(&look, Look::Probe);
        m.set(&first_look, 0);
    });
    let probe = Probe { queue: sought.queue, unit: sought_unit };
    let probe = Stream::new(m, "probe", look.is(Look::Probe), probe);
    m.when(probe.fire(), |m| m.set(&look, Look::Probed));
    let found_void = m.wire("found_void", 1);
    let asked = m.wire("asked", 1);
    // Who wants it may know the stride of a shared queue that has been destroyed since: from here on that of the read counts.
    let read_unit = m.wire("read_unit", UNIT_BITS);
    m.when(look.is(Look::Asked) & (asked | found_void), |m| {
        m.set(&look, Look::Wait);
        m.set(&void, found_void);
        m.set(&sought_unit, read_unit);
    });

    // What has been asked for.
    let now_read = m.wire_of("now_read", &Mark::of(cfg));
    let new_life = m.wire_of("new_life", &Life::of(cfg));
    let plans = m.reg("plans", 1).reset(0);
    let far = |at: usize| distance_of(cfg, at);
    let distance = m.reg("distance", clog2(u64::from(far(0))) + 1).reset(far(0));
    let touched = ahead(
        m,
        cfg,
        ahead::Input {
            touches,
            probes: probe,
            mark: now_read.clone(),
            life: new_life.clone(),
            distance,
            plans,
            clear: swept.slot.slice(spread, slot_bits - spread),
            cleared: clearing,
        },
    );
    let needs = touched.needs;
    m.drive(&marking, touched.marking);
    m.when(touched.answers, |m| m.set(&look, Look::Ask));
    m.when(touched.answers & touched.there, |m| m.set(&look, Look::Wait));

    // One event or the oldest in line; what it is stays for the three cycles that follow.
    let (line, back) = m.later("line", &bits(rq_bits));
    // Of those that come seldom and are first, which one it would be is known a cycle before: each stands until it is taken.
    let mark_room = m.wire("mark_room", 1);
    let rare_goes = m.wire("rare_goes", 1);
    let of_shared = |srq: Sig| cat(&[srq.zext(rq_bits - 1), lit(1, 1)]);
    let demands = look.is(Look::Ask);
    let mut candidates = Vec::new();
    let mut open = !rare_goes;
    for (name, comes, queue) in [
        ("demand", demands, sought.queue),
        ("reset", resets.valid, resets.payload.zext(rq_bits)),
        ("gone", gone.valid, of_shared(gone.payload)),
        ("error", errors.valid, errors.payload.zext(rq_bits)),
    ] {
        let next = m.reg(&format!("is_{name}"), 1).reset(0);
        m.set(&next, open & comes);
        candidates.push((next, comes, queue));
        open = open & !comes;
    }
    let [is_demand, next_reset, next_gone, is_error] = [0, 1, 2, 3].map(|at: usize| candidates[at].0);
    let rare_queue =
        candidates.iter().rev().fold(lit(rq_bits, 0), |queue, (_, comes, own)| comes.then(*own, queue));
    let rare_queue = m.delay("rare_queue", &rare_queue);
    let (is_reset, is_gone) = (next_reset & mark_room, next_gone & mark_room);
    let rare = (is_demand | is_error | ((next_reset | next_gone) & mark_room)).named("rare");
    m.drive(&rare_goes, idle & rare);
    let free = !rare;
    m.when(idle & is_demand, |m| m.set(&look, Look::Asked));
    let lines_turn = m.reg("lines_turn", 1).reset(0);
    let any_event = needs.valid | doorbell.valid;
    // Who reads ahead leaves places for WQEs that messages wait for, and does not come in line where it finds none.
    let kept = (wqe_places(cfg) - longest(cfg)).min(2 * longest(cfg));
    let spare = m.delay("spare", &places.ge(kept));
    let may_line = line.valid & spare & !waiting;
    let is_line = free & (!any_event | lines_turn) & may_line & !resets.valid & !gone.valid;
    // Needs and doorbells take turns: neither waits for the host while the other goes on.
    let needs_turn = m.reg("needs_turn", 1).reset(0);
    let is_need = free & !is_line & needs.valid & (needs_turn | !doorbell.valid);
    let is_doorbell = free & !is_line & !is_need & doorbell.valid;
    m.when(idle & is_need, |m| m.set(&needs_turn, 0))
        .otherwise_when(idle & is_doorbell, |m| m.set(&needs_turn, 1));
    resets.accept(idle & is_reset);
    gone.accept(idle & is_gone);
    errors.accept(idle & is_error);
    doorbell.accept(idle & is_doorbell);
    line.accept(idle & is_line);
    let chosen = m.mux(is_need, &needs.queue, &m.mux(is_line, &line.payload, &doorbell.queue));
    let chosen = m.mux(rare, &rare_queue, &chosen);
    let any = rare | is_line | is_need | is_doorbell;
    let starts = idle & any;
    let number = m.reg("queue", rq_bits).reset(0);
    let index = m.reg("index", 16).no_reset();
    let kind = |name: &str| m.reg(&format!("kind_{name}"), 1).reset(0);
    let (kind_demand, kind_reset, kind_line) = (kind("demand"), kind("reset"), kind("line"));
    let (kind_need, kind_doorbell, kind_error) = (kind("need"), kind("doorbell"), kind("error"));
    let (kind_gone, kind_exact) = (kind("gone"), kind("exact"));
    m.when(starts, |m| {
        m.set(&number, chosen);
        m.set(&index, m.mux(is_demand, &sought.index, &m.mux(is_need, &needs.index, &doorbell.producer)));
        m.set(&kind_demand, is_demand);
        m.set(&kind_reset, is_reset | is_gone);
        m.set(&kind_gone, is_gone);
        m.set(&kind_line, is_line);
        m.set(&kind_need, is_need);
        m.set(&kind_exact, is_demand | (is_need & needs.exact));
        m.set(&kind_doorbell, is_doorbell);
        m.set(&kind_error, is_error);
        m.set(&lines_turn, !is_line);
        m.set(&state, State::Row);
    });

    // The tables.
    let next = m.wire_of("next", &Row::of());
    let row_write = m.wire("row_write", 1);
    let rows = Queues::new(m, cfg, "rows", &next, Style::Block);
    rows.write(row_write, number, &next);
    // What is read while nothing begins is not looked at.
    let row = rows.read(m, idle, chosen, Collision::Never);
    let queues = Queues::new(m, cfg, "queues", &Ring::of(), Style::Block);
    let queue = Ring { base: given.entry.rq_base, log2: given.entry.rq_log2, stride: given.entry.rq_stride };
    queues.own.write(given.enable, given.index, &queue);
    let SrqEntry { base, log2, stride, .. } = shared.entry.clone();
    queues.write_shared(shared.enable, shared.index, &Ring { base, log2, stride });
    let queue = queues.read(m, idle, chosen, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Block).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    // The queue of a QP in RESET may be gone before its row is cleared.
    let exist = m.mem("exist", cfg.srq_rows(), &bits(1)).style(Style::Distributed).init(vec![]).build();
    exist.write(shared.enable, shared.index, &shared.entry.valid);
    let qp_of = |number: Sig| number.trunc(qp_bits);
    let qp_state = row_of(m, "state", (idle, qp_of(chosen), qp_of(number)), &states, &broadcast.state);
    let exists = exist.read_now(number.trunc(cfg.srq_bits()));
    let lives_now = m.mux(number.msb(), &exists, &qp_state.ne(QpState::Reset.code()));

    // The row's cycle: from where to where may be read.
    let behind = index + 1;
    let passed = kind_need & (row.fetched - behind).bit(15);
    let own = m.mux(passed, &behind, &row.fetched);
    let begin = m.delay("begin", &m.mux(kind_exact, &index, &own));
    let producer = m.delay("producer", &m.mux(kind_doorbell, &index, &row.producer));
    // Places are units; each WQE has some. What is looked for ahead of a WQE ends with its group.
    // Of each stride, for that comes late out of block RAM.
    let of_each = |n: Sig| {
        [0, 1, 2, 3].map(|stride: u32| {
            let wqes = n.slice(stride, n.width() - stride).zext(n.width());
            wqes | wqes.eq(0).zext(n.width())
        })
    };
    let fewer = |n: Sig| m.select(queue.stride, &of_each(n));
    let reaches = of_each(distance + (SPREAD - 1));
    let reaches = [0, 1, 2, 3].map(|stride: usize| m.delay(&format!("reach{stride}"), &reaches[stride]));
    let wishes = reaches.map(|reach| behind + reach.zext(16));
    let wished = m.delay("wished", &m.select(queue.stride, &wishes));
    // Of each stride, and not by a multiplexer, before which synthesis would have one subtraction for all.
    let short_of = [0, 1, 2, 3]
        .map(|stride: usize| (row.limit - wishes[stride]).bit(15) & queue.stride.eq(stride as u32));
    let farther = m.delay("farther", &(kind_need & cat(&short_of).any()));
    let batch = m.delay("batch", &fewer(lit(7, cfg.fetch_batch)));
    let bounds = m.delay("bounds", &queue.bounds());
    let ring = m.delay("ring", &queue);
    m.discard(&ring.log2);
    // Where many queues are in use, each has its share of the slots.
    let many = distance.eq(0);
    let share = fewer(m.mux(many, &lit(7, SPREAD.min(cfg.fetch_batch)), &lit(7, cfg.fetch_batch)));
    let share = m.delay("share", &share);
    let at_row = state.is(State::Row);
    let ask = Ask { valid: at_row & kind_doorbell, queue: number };
    let too_few = m.delay("too_few", &steps_back(index, row.producer));
    let row_limit = m.delay("row_limit", &row.limit);
    m.when(at_row, |m| m.set(&state, State::Plan));

    // How much can be read at once.
    let at_plan = state.is(State::Plan);
    let until = m.mux(farther, &wished, &row_limit).named("until");
    let posted = producer - begin;
    // A queue holds up to 2^15.
    let posted_any = posted.ne(0) & posted.le(1u32 << 15);
    let ahead = m.mux(farther, &(wished - begin), &(row_limit - begin));
    let allowed = m.mux(kind_exact, &share.zext(16), &ahead);
    let allowed_any = allowed.ne(0) & !allowed.bit(15);
    let piece = ring.piece_within(m, &bounds, begin, batch);
    let in_piece = piece.most.zext(16);
    let (most, _) = least_of_three(m, in_piece, allowed, posted);
    let oldest = m.mux(number.msb(), &oldest.taken, &oldest.done);
    let refuses = kind_doorbell & (overfills(index, oldest, bounds.queue) | too_few);
    let refused = m.delay("refused", &refuses);
    // Told once, and not of a life that has ended. One in the error state has been.
    let in_error = qp_state.eq(QpState::Err.code()) & !number.msb();
    let breaks = refused & m.delay("may_break", &(lives_now & !in_error & !row.overrun));
    let lived = m.delay("lived", &lives_now);
    let count = m.delay("count", &most.trunc(7));
    let rest = m.delay("rest", &(in_piece.lt(allowed) & in_piece.lt(posted)));
    let address = m.delay("address", &cfg.bus(piece.address));
    let limit = m.delay("limit", &until);
    let from = m.delay("from", &begin);
    let there = m.delay("there", &(posted_any & lives_now));
    let producer_kept = m.delay("producer_kept", &producer);
    let may = !refused & m.delay("may", &(posted_any & allowed_any & lives_now));
    // Nothing else is read where somebody has waited for long.
    let room = m.wire("room", 1);
    let reader = kind_line | kind_need | kind_doorbell;
    let can = m.delay("can", &(room & (kind_demand | (reader & !waiting & (kind_exact | spare)))));
    m.when(at_plan, |m| m.set(&state, State::Act));

    let units = count.shl_by(ring.stride).named("units");
    let done = state.is(State::Act).named("done");
    m.when(done, |m| m.set(&state, State::Idle));
    m.drive(&reads, done & can & may);
    m.drive(&found_void, done & kind_demand & !there);
    m.drive(&asked, done & kind_demand & there & reads);
    // A need that finds no room stands.
    needs.accept(done & kind_need & (reads | !kind_exact | !there));
    // In the last cycle of each event, whether anything is read is known late.
    let may_read = m.mux(starts, &(is_need | is_demand), &(kind_need | kind_demand));
    m.set(&plans, at_plan | ((starts | at_row) & may_read));
    m.when(done & kind_demand & there & !reads, |m| m.set(&look, Look::Ask));
    let read = Stream::new(m, "read", reads, DmaReadRequest { address, length: cat(&[lit(6, 0), units]) });
    let mark = done & (kind_gone | kind_reset);
    let grant = Grant {
        qp: number,
        index: from,
        count,
        stride: queue.stride,
        start: kind_gone | kind_reset,
        ..Grant::of(cfg).zeros()
    };
    let granted = Stream::new(m, "granted", reads | mark, grant);
    m.drive(&mark_room, granted.ready);
    // What was read last has been counted by the cycle in which the next read is planned.
    m.drive(&room, read.ready & granted.ready & places.ge(longest(cfg)));
    m.assert(!reads | read.ready, "a read finds the room that it was planned with");
    m.assert(!granted.valid | granted.ready, "so does a mark");
    let read = fifo(&m.label("read"), 4, read);
    let last = from + count.zext(16) - 1;
    grants.connect(fifo(&m.label("grant"), 32, granted));
    let life_now = lives.read_now(m, number);
    m.drive(&read_unit, m.delay("of_read", &unit_of(sought.index, part_of(&sought), queue.stride)));
    let unit = |index: Sig| unit_of(index, lit(2, 0), queue.stride);
    // What goes on in the middle of a group has asked for its beginning before.
    let first_unit =
        m.mux(kind_exact, &unit(from), &cat(&[lit(spread, 0), unit(from).slice(spread, UNIT_BITS - spread)]));
    let last_unit = unit(last) | (lit(UNIT_BITS, 1).shl_by(queue.stride) - 1);
    m.set_all(
        &now_read,
        &Mark { valid: reads, queue: number, first: first_unit, last: last_unit, life: life_now },
    );
    let reading = Stream::new(m, "reading", reads, UnderWay { life: life_now, last, stride: queue.stride });
    m.assert(!reading.valid | reading.ready, "there is a place for each grant and one more");
    goes_under_way.connect(spare_fifo(&m.label("under_way"), 64, cfg.unhurried(), reading));
    let taken = reads.then(units.zext(places_bits.max(7)).trunc(places_bits), lit(places_bits, 0));
    m.set(&places, places - taken + (fills & last_piece).zext(places_bits));

    // How many queues are in use.
    let epoch = m.reg("epoch", EPOCH_BITS).reset(0);
    let needed = m.reg("needed", clog2(u64::from(EPOCH))).reset(0);
    let in_use = m.reg("in_use", clog2(u64::from(queues_of(cfg, 1)) + 2)).reset(0);
    let is_new = done & kind_need & row.epoch.ne(epoch);
    let full = in_use.gt(queues_of(cfg, 1));
    m.when(done & kind_need, |m| m.set(&needed, needed + 1));
    m.when(is_new & !full, |m| m.set(&in_use, in_use + 1));
    // More of them count at once, fewer when the time is over.
    let ends_epoch = needed.all() & done & kind_need;
    let few = in_use.le(queues_of(cfg, 0));
    let at_most = |at: usize| lit(distance.width(), far(at));
    m.when(ends_epoch, |m| {
        m.set(&epoch, epoch + 1);
        m.set(&in_use, 0);
        m.set(&distance, m.mux(few, &at_most(0), &at_most(1)));
    })
    .otherwise_when(!few & distance.gt(far(1)), |m| m.set(&distance, at_most(1)));
    m.when(full, |m| m.set(&distance, 0));

    // It is told in its turn.
    let untold = kind_line & row.overrun & !row.told;
    let telling = m.reg("telling", 1).reset(0);
    let told = m.reg("told", rq_bits).no_reset();
    let tells = done & untold & lived & !telling & !shared.enable;
    let overruns = Stream::new(m, "overruns", telling, told);
    m.when(tells, |m| {
        m.set(&telling, 1);
        m.set(&told, number);
    })
    .otherwise_when(overruns.ready, |m| m.set(&telling, 0));
    failures.write(
        shared.enable | (tells & number.msb()),
        m.mux(shared.enable, &shared.index, &number.trunc(cfg.srq_bits())),
        &!shared.enable,
    );

    // What the row becomes.
    m.set_all(&next, &row);
    // A doorbell that comes behind the reset of its QP is of its former life.
    m.set(&next.producer, m.mux((kind_doorbell & !lives_now) | refused, &row.producer, &producer_kept));
    m.when(breaks, |m| m.set(&next.overrun, 1));
    m.when(tells, |m| m.set(&next.told, 1));
    m.when(kind_need, |m| m.set(&next.epoch, epoch));
    m.when(reader, |m| {
        m.set(&next.fetched, m.mux(reads, &(from + count.zext(16)), &from));
        m.set(&next.limit, limit);
    });
    m.when(kind_reset, |m| {
        m.set(&next.producer, 0);
        m.set(&next.fetched, 0);
        m.set(&next.limit, SPREAD);
        m.set(&next.overrun, 0);
        m.set(&next.told, 0);
    });
    // In line as long as there is something to read, or to tell.
    let left = (may & (!can | rest)) | breaks | (untold & !tells);
    let joins = reader & left & (kind_line | !row.queued);
    m.when(kind_line, |m| m.set(&next.queued, left)).otherwise_when(joins, |m| m.set(&next.queued, 1));
    m.when(sweeping, |m| {
        m.set_all(&next, &Row::of().zeros());
        m.set(&next.limit, SPREAD);
        m.set(&number, number + 1);
        let first = 1u32 << (rq_bits - 1);
        let last = match cfg.has_srqs() {
            true => first + cfg.srqs - 1,
            false => cfg.qps - 1,
        };
        m.when(number.eq(cfg.qps - 1), |m| m.set(&number, first));
        m.when(number.eq(last), |m| m.set(&state, State::Idle));
    });
    m.drive(&row_write, done | sweeping);
    let entering = Stream::new(m, "entering", done & joins, number);
    m.assert(!entering.valid | entering.ready, "the line has a place for every queue");
    back.connect(deep_fifo(&m.label("line"), (cfg.qps + cfg.srq_rows()).next_power_of_two(), entering));

    // Another life.
    let begins_life = (done & kind_reset) | sweeping;
    let next_life = m.mux(sweeping, &lit(LIFE_BITS, 0), &(life_now + 1));
    lives.write(begins_life, number, &next_life);
    m.set_all(&new_life, &Life { valid: begins_life, queue: number, life: next_life });
    m.drive(&crosses, done & kind_reset & life_now.trunc(LIFE_BITS - 1).all());
    m.drive(&stamp, m.delay("row_stamp", &row.stamp));
    m.when(crosses, |m| m.set(&next.stamp, swept.stamp));

    let posted = TableWrite {
        enable: (done & (kind_doorbell | kind_reset)) | sweeping,
        index: number,
        entry: next.producer,
    };
    let flush = OfQp { valid: done & (kind_error | (kind_doorbell & in_error)), qp: number.trunc(qp_bits) };
    let flush = m.delay("flushes", &flush);
    let busy = going.any() | gone_valid | marked.any();
    Receives { read, received, posted, flush, unread, busy, ask, overruns }
}

#[cfg(test)]
mod tests;
