// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive WQEs on the card: a direct-mapped cache in front of the receive queues, filled ahead of need.
//!
//! ```text
//!  doorbell --+              +-----------------+
//!  reset    --+--> event --->| producer,       |--> DMA read {base + 64 * index, 64 * count}
//!  used     --+              | fetched, limit  |--> grants --> fetch <-- read data
//!      +-------------------->|                 |                 |
//!      |   oldest in line    +-----------------+                 v fill
//!      +--- FIFO of QPs <----------+      ^ demand     +-------------------+
//!                                         +------------| tags, WQEs: slots |<-- wanted {qp, index}
//!                                                      +-------------------+--> received
//! ```
//!
//! WQE `index` of QP `q` has one slot, `spread * q + index` modulo the slots, so that one QP alone may use them all while
//! many have a few each. A doorbell brings the first few on the card; a WQE that is used brings those behind it, up to
//! `AHEAD`. A WQE whose slot another has taken meanwhile is read again: that is slow, and nothing else. It is in host memory
//! until it completes.
//!
//! A WQE that is wanted is there 2 cycles later if its slot has it, and one can be wanted every 2 cycles. If not, it is waited
//! for while reads are under way; then it is asked for, and those who want another wait behind: at most the host's latency
//! for a read under way and one more. What the QP has not posted, or no longer, comes as void.
//!
//! A QP that goes to RESET begins another life once no read is under way; the number of its life is in each slot's tag, and
//! when the numbers have been used up all slots are cleared.
//!
//! Reset: slots and rows are cleared, one a cycle; what comes meanwhile waits.

use crate::config::RnicConfig;
use crate::context::resets;
use crate::requester::{fetch, least, wqe_places, Grant, Ring};
use crate::stream::{deep_fifo, fifo};
use crate::types::{DmaReadData, DmaReadRequest, QpBroadcast, SqDoorbell};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;

/// A receive queue's doorbell, already checked for page and range.
pub type RqDoorbell = SqDoorbell;

/// A receive WQE that somebody needs.
#[derive(Clone, Bundle)]
pub struct Wanted {
    /// Whose.
    pub qp: Sig,
    /// Its index, free-running.
    pub index: Sig,
}

impl Wanted {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Wanted { qp: bits(cfg.qp_bits()), index: bits(16) }
    }
}

/// A receive WQE.
#[derive(Clone, Bundle)]
pub struct Received {
    /// 64 bytes, as they lay in the queue.
    pub unit: Sig,
    /// Host memory could not be read.
    pub error: Sig,
    /// There is no such WQE: it has not been posted, or the QP has gone to RESET.
    pub void: Sig,
}

impl Received {
    /// The shape.
    pub fn of() -> Self {
        Received { unit: bits(512), error: bits(1), void: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Receives {
    /// Reads of WQEs.
    pub read: Stream<DmaReadRequest>,
    /// What was wanted, in order.
    pub received: Stream<Received>,
}

/// WQEs that a doorbell brings on the card, and each QP's share of the slots.
const SPREAD: u32 = 4;

/// Lives of a QP before all slots are cleared.
const LIFE_BITS: u32 = 6;

/// WQEs that are brought on the card ahead of the one that is used.
fn ahead(cfg: &RnicConfig) -> u32 {
    6 * cfg.fetch_batch
}

/// Slots of the cache.
pub fn slots(cfg: &RnicConfig) -> u32 {
    (SPREAD * cfg.qps).max((2 * ahead(cfg)).next_power_of_two()).min(32768)
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Row,
    Act,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum Look {
    Idle,
    /// Tag and WQE of the slot are known.
    Compare,
    /// The slot has another; it is looked at again when no fill comes.
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
    queued: Sig,
}

impl Row {
    fn of() -> Self {
        Row { producer: bits(16), fetched: bits(16), limit: bits(16), queued: bits(1) }
    }
}

#[derive(Clone, Bundle)]
struct Tag {
    valid: Sig,
    qp: Sig,
    index: Sig,
    life: Sig,
}

#[derive(Clone, Bundle)]
struct Slot {
    unit: Sig,
    error: Sig,
}

/// The cache.
#[module]
pub fn receive(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    doorbell: Stream<RqDoorbell>,
    wanted: Stream<Wanted>,
    data: Stream<DmaReadData>,
) -> Receives {
    let qp_bits = cfg.qp_bits();
    let slot_bits = clog2(u64::from(slots(cfg)));
    let slot_of = |qp: Sig, index: Sig| {
        let base = qp.zext(qp_bits + clog2(u64::from(SPREAD))) << clog2(u64::from(SPREAD));
        let wide = base.zext(base.width().max(slot_bits)).trunc(slot_bits);
        wide + index.zext(slot_bits.max(16)).trunc(slot_bits)
    };
    let state = m.fsm("state", State::Sweep);
    let look = m.fsm("look", Look::Idle);
    let (sweeping, idle) = (state.is(State::Sweep), state.is(State::Idle));
    let (grant, grants) = m.later("grant", &Grant::of(cfg));
    let fill = fetch(m, cfg, grant, data);
    m.discard(&fill.start);

    // Reads under way, as WQEs.
    let places_bits = clog2(u64::from(wqe_places(cfg)) + 1);
    let places = m.reg("places", places_bits).reset(wqe_places(cfg));
    let none_under_way = places.eq(wqe_places(cfg)).named("none_under_way");

    // Lives.
    let resets = resets(m, cfg, &broadcast);
    let lives = m.mem("lives", cfg.qps, &bits(LIFE_BITS)).style(Style::Distributed).build();

    // The slots: fills write, who wants one reads, never in one cycle.
    let sweep = m.reg("sweep", slot_bits).reset(0);
    let tag_shape = Tag { valid: bits(1), qp: bits(qp_bits), index: bits(16), life: bits(LIFE_BITS) };
    let tags = m.mem("tags", slots(cfg), &tag_shape).style(Style::Block).build();
    let store =
        m.mem("slots", slots(cfg), &Slot { unit: bits(512), error: bits(1) }).style(Style::Block).build();
    let clearing = m.reg("clearing", 1).reset(1);
    fill.accept(!clearing);
    let fills = fill.fire();
    let fill_slot = slot_of(fill.qp, fill.index);
    let fill_life = lives.read_now(fill.qp);
    let tag = Tag { valid: !clearing, qp: fill.qp, index: fill.index, life: fill_life };
    tags.write(fills | clearing, m.mux(clearing, &sweep, &fill_slot), &tag);
    store.write(fills, fill_slot, &Slot { unit: fill.unit, error: fill.error });
    m.when(clearing, |m| {
        m.set(&sweep, sweep + 1);
        m.when(sweep.all(), |m| m.set(&clearing, 0));
    });

    // Who wants one.
    let sought = m.reg_of("sought", &wanted.payload);
    let quiet = !fills & !clearing;
    let begins = look.is(Look::Idle) & wanted.valid & quiet;
    let again = look.is(Look::Wait) & quiet;
    wanted.accept(begins);
    m.when(begins, |m| m.set_all(&sought, &wanted.payload));
    let at = m.mux(begins, &wanted.payload, &sought);
    let slot = slot_of(at.qp, at.index);
    let found_tag = tags.read(m, begins | again, slot, Collision::Never);
    let found = store.read(m, begins | again, slot, Collision::Never);
    let life = lives.read_now(sought.qp);
    let same = found_tag.qp.eq(sought.qp) & found_tag.index.eq(sought.index);
    let hit = found_tag.valid & same & found_tag.life.eq(life);
    let void = m.reg("void", 1).reset(0);
    let compares = look.is(Look::Compare);
    let answers = compares & (hit | void);
    let answer = Received { unit: found.unit, error: found.error, void: void & !hit };
    let received = Stream::new(m, "received", answers, answer);
    m.when(begins, |m| {
        m.set(&void, 0);
        m.set(&look, Look::Compare);
    });
    m.when(received.fire(), |m| m.set(&look, Look::Idle));
    m.when(compares & !answers, |m| m.set(&look, Look::Wait));
    m.when(again, |m| m.set(&look, Look::Compare));
    // Nothing is read ahead while somebody waits.
    let waiting = look.is_any(&[Look::Wait, Look::Ask, Look::Asked]) | (compares & !answers);
    m.when(compares & !answers & none_under_way & idle, |m| m.set(&look, Look::Ask));
    let asked = m.wire("asked", 1);
    let found_void = m.wire("found_void", 1);
    m.when(look.is(Look::Ask) & asked, |m| m.set(&look, Look::Asked));
    m.when(look.is(Look::Asked) & (fills | found_void), |m| {
        m.set(&look, Look::Wait);
        m.set(&void, found_void);
    });
    // What was used is told when it is taken. It only helps to guess ahead: one that finds no room is not missed.
    let used = Stream::new(m, "used", received.fire() & hit, sought.clone());
    m.discard(&used.ready);
    let used = fifo(&m.label("used"), 4, used);

    // One event or the oldest in line; what it is stays for the two cycles that follow.
    let (line, back) = m.later("line", &bits(qp_bits));
    let may_read = m.wire("may_read", 1);
    let is_demand = idle & look.is(Look::Ask) & may_read;
    let is_reset = idle & !is_demand & resets.valid & none_under_way & !waiting & !clearing;
    let free = idle & !is_demand & !is_reset;
    let lines_turn = m.reg("lines_turn", 1).reset(0);
    let any_event = used.valid | doorbell.valid;
    let is_line = free & (!any_event | lines_turn) & line.valid & may_read & !waiting & !resets.valid;
    let is_used = free & !is_line & used.valid;
    let is_doorbell = free & !is_line & !used.valid & doorbell.valid;
    m.drive(&asked, is_demand);
    resets.accept(is_reset);
    used.accept(is_used);
    doorbell.accept(is_doorbell);
    line.accept(is_line);
    let mut chosen = line.payload;
    for (yes, qp) in
        [(is_doorbell, doorbell.qp), (is_used, used.qp), (is_reset, resets.payload), (is_demand, sought.qp)]
    {
        chosen = m.mux(yes, &qp, &chosen);
    }
    let starts = is_demand | is_reset | is_line | is_used | is_doorbell;
    let qp = m.reg("qp", qp_bits).reset(0);
    let index = m.reg("index", 16).no_reset();
    let kind = |name: &str| m.reg(&format!("kind_{name}"), 1).reset(0);
    let (kind_demand, kind_reset, kind_line) = (kind("demand"), kind("reset"), kind("line"));
    let (kind_used, kind_doorbell) = (kind("used"), kind("doorbell"));
    m.when(starts, |m| {
        m.set(&qp, chosen);
        m.set(&index, m.mux(is_demand, &sought.index, &m.mux(is_used, &used.index, &doorbell.producer)));
        m.set(&kind_demand, is_demand);
        m.set(&kind_reset, is_reset);
        m.set(&kind_line, is_line);
        m.set(&kind_used, is_used);
        m.set(&kind_doorbell, is_doorbell);
        m.set(&lines_turn, !is_line);
        m.set(&state, State::Row);
    });

    // The tables.
    let next = m.wire_of("next", &Row::of());
    let row_write = m.wire("row_write", 1);
    let rows = m.mem("rows", cfg.qps, &next).style(Style::Block).build();
    rows.write(row_write, qp, &next);
    let row = rows.read(m, starts, chosen, Collision::Never);
    let queues = m.mem("queues", cfg.qps, &Ring::of()).style(Style::Block).build();
    let given = &broadcast.attributes;
    let queue = Ring { base: given.entry.rq_base, log2: given.entry.rq_log2 };
    queues.write(given.enable, given.index, &queue);
    let queue = queues.read(m, starts, chosen, Collision::New);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    // The queue of a QP in RESET may be gone before its row is cleared.
    let lives_now = states.read_now(qp).ne(QpState::Reset.code());

    // The row's cycle: how much can be read at once.
    let at_row = state.is(State::Row);
    let from = m.mux(kind_demand, &index, &row.fetched);
    let posted = row.producer - from;
    let posted_any = posted.ne(0) & !posted.bit(15);
    let allowed = m.mux(kind_demand, &lit(16, cfg.fetch_batch), &(row.limit - row.fetched));
    let allowed_any = allowed.ne(0) & !allowed.bit(15);
    let piece = queue.piece(m, from, lit(7, cfg.fetch_batch));
    let bounded = least(m, allowed, posted);
    let count = m.delay("count", &least(m, bounded, piece.most.zext(16)).trunc(7));
    let address = m.delay("address", &piece.address);
    let can = m.delay("can", &(posted_any & allowed_any & lives_now));
    let begin = m.delay("begin", &from);
    m.when(at_row, |m| m.set(&state, State::Act));

    let done = state.is(State::Act).named("done");
    m.when(done, |m| m.set(&state, State::Idle));
    let reads = done & (kind_line | kind_demand) & can;
    m.drive(&found_void, done & kind_demand & !can);
    let read = Stream::new(m, "read", reads, DmaReadRequest { address, length: cat(&[lit(6, 0), count]) });
    let grant = Grant { qp, index: begin, count, differs: lit(1, 0), start: lit(1, 0) };
    let granted = Stream::new(m, "granted", reads, grant);
    let room = read.ready & granted.ready;
    m.assert(!reads | room, "a read finds the room that it began with");
    // It knows of the last read only from the second cycle of the next state on.
    let after = m.delay("after", &(done & (kind_line | kind_demand)));
    let had_room = m.delay("had_room", &(room & places.ge(cfg.fetch_batch)));
    m.drive(&may_read, had_room & !after);
    let read = fifo(&m.label("read"), 4, read);
    grants.connect(fifo(&m.label("grant"), 16, granted));
    let taken = reads.then(count.zext(places_bits.max(7)).trunc(places_bits), lit(places_bits, 0));
    m.set(&places, places - taken + fills.zext(places_bits));

    // What the row becomes.
    m.set_all(&next, &row);
    m.when(kind_doorbell, |m| m.set(&next.producer, index));
    let beyond = index + (1 + ahead(cfg));
    m.when(kind_used & (row.limit - beyond).bit(15), |m| m.set(&next.limit, beyond));
    m.when(kind_line & can, |m| m.set(&next.fetched, row.fetched + count.zext(16)));
    m.when(kind_reset, |m| {
        m.set(&next.producer, 0);
        m.set(&next.fetched, 0);
        m.set(&next.limit, SPREAD);
    });
    // In line as long as there was something to read: what is left shows in the next turn.
    let joins = (kind_doorbell | kind_used) & !row.queued;
    m.when(kind_line, |m| m.set(&next.queued, can));
    m.when(joins, |m| m.set(&next.queued, 1));
    m.when(sweeping, |m| {
        m.set_all(&next, &Row::of().zeros());
        m.set(&next.limit, SPREAD);
        m.set(&qp, qp + 1);
        m.when(qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    });
    m.drive(&row_write, done | sweeping);
    let enter = done & (joins | (kind_line & can));
    let entering = Stream::new(m, "entering", enter, qp);
    m.assert(!entering.valid | entering.ready, "the line has a place for every QP");
    back.connect(deep_fifo(&m.label("line"), cfg.qps, entering));

    // Another life; when the numbers are used up, no slot may have one of them.
    let life = lives.read_now(qp);
    lives.write((done & kind_reset) | sweeping, qp, &m.mux(sweeping, &lit(LIFE_BITS, 0), &(life + 1)));
    m.when(done & kind_reset & life.all(), |m| m.set(&clearing, 1));

    Receives { read, received }
}

#[cfg(test)]
mod tests;
