// SPDX-License-Identifier: MIT OR Apache-2.0
//! The WQE scheduler: which send queue goes next, and the fetch of its WQEs ahead of need.
//!
//! ```text
//!  reset    --+
//!  start    --+             +----------------+    grant {qp, index, count} --> fetch
//!  resume   --+--> event -->| producer,      |
//!  doorbell --+             | fetch index,   |--> DMA read {WQEs from index on}
//!  kick     --+             | queued, held   |
//!      +------------------->|                |--> flush {qp, producer} --> completer
//!      |   oldest in line   +----------------+
//!      +--- FIFO of QPs <-----------+
//! ```
//!
//! A QP with work stands in the FIFO once, marked `queued`. An event (3 cycles, 4 where there is time) updates the QP's row and puts it in
//! line; a grant (as many) takes the oldest in line, asks with one read for as many WQEs as `fetch_batch` units hold, at
//! least one, and puts the QP back in line if more are left. A WQE is 1, 2, 4 or 8 units, as its queue says; all indices
//! count WQEs, and the places that `fetch` has are units. Nothing waits for the read: several grants of one QP may be under way.
//!
//! Where both wait, an event and a grant take turns: a program that floods the card with doorbells takes nobody's grants. If no QP
//! is in line when a doorbell comes, the same 3 cycles are the grant of its QP too.
//!
//! What has begun is done 3 cycles later, whatever the others do: a grant begins only when each of its takers has room
//! and `fetch` has places for a whole batch. The blocks that give back places, or take flushes, wait for events of
//! theirs to be taken here; were a grant to wait for them in turn, all would stand still. For the same reason nobody
//! behind waits for a place at the completer: a QP gets no more than its first message while these are not `plenty`, and
//! for the first of every QP there is one.
//!
//! A grant stays within one page of 4 KiB and the queue's end, within the places that `fetch` has left, and within `outstanding_per_qp`
//! messages from the completer's oldest one; a QP at that limit leaves the line and comes back with the completer's next kick. So does one
//! whose next WQE waits for READs or atomics before it: the segmenter tells, with what it knew to be answered, so that an answer which came
//! meanwhile is not missed. One that waits for the peer to have receives, as far as that is told, leaves the line likewise. Each READ or
//! atomic that is done, and each acknowledgement that may tell of receives, names its QP here (`eased`): who does not wait for that is passed
//! over, beside other events and in no time of its own, who does comes back as with a kick, in turns with these. So what comes from the wire
//! waits for no turn here. One that congestion control holds back leaves the line too, and comes back when
//! that wakes it. One whose priority stands still on the wire stays in line, and gets nothing: its turns cost others 3 cycles each, and it counts
//! for nobody who waits. So does one whose next datagram is of such a priority, as the segmenter tells. A QP in
//! the error state, its send queue's own included, is handed to the completer to be flushed; one that may not send leaves the line. In SQD,
//! what was fetched once may be fetched again, and nothing else (IBTA volume 1, 10.3.1.5); the kick that tells of it has the completer told,
//! in the QP's next turn, up to where that is.
//!
//! A doorbell that tells of more WQEs than the queue has places for, or of fewer than before, changes nothing: the queue is overrun, which is
//! told once, and ends the QP. WQEs that the host has written over others are not fetched behind that.
//!
//! The start of a QP goes the way of its WQEs, as a grant without any: behind everything of its former life, through all
//! blocks of the requester to the completer. It is taken from its giver when `started` says that it has arrived.
//! One that goes on after an error of its send queue begins behind what it has been told up to then; that is flushed, and nothing
//! behind (IBTA volume 1, 10.3.1.7).
//!
//! Reset: the line is empty, rows are cleared one a cycle, QP by QP; what comes meanwhile waits.

use crate::config::RnicConfig;
use crate::context::congestion::Gate;
use crate::context::resets;
use crate::requester::push::{push, Freed, SlotWrite, Slots, Wanted};
use crate::requester::ring::{steps_back, Bounds, Ring};
use crate::stream::{fifo, gather, prompt_fifo, row_of, shown_fifo, Flagged, Forget};
use crate::types::{
    DmaReadRequest, Kick, Oldest, Pushes, QpBroadcast, ReadsDone, SqDoorbell, SqStart, TableWrite, READ_BITS,
    STAY_BITS,
};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::wire::opcode::Service;

/// WQEs that were sent before, of which packets are to be sent again ([`again`](super::again)).
#[derive(Clone, Bundle)]
pub struct Tag {
    /// They are such ones.
    pub again: Sig,
    /// Of the only one, the oldest packet.
    pub probe: Sig,
    /// Otherwise what a context of `again` wants.
    pub context: Sig,
}

/// Bits of the number of a context of `again`.
pub const CONTEXT_BITS: u32 = 3;

impl Tag {
    /// The shape.
    pub fn of() -> Self {
        Tag { again: bits(1), probe: bits(1), context: bits(CONTEXT_BITS) }
    }

    /// That of others.
    pub fn none() -> Self {
        Self::of().zeros()
    }
}

/// WQEs are wanted once more.
#[derive(Clone, Bundle)]
pub struct Ask {
    /// Whose.
    pub qp: Sig,
    /// From the completer's oldest on, or from `index` on.
    pub oldest: Sig,
    /// See `oldest`.
    pub index: Sig,
    /// What for; with `probe`, one only.
    pub tag: Tag,
}

impl Ask {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Ask { qp: bits(cfg.qp_bits()), oldest: bits(1), index: bits(16), tag: Tag::of() }
    }
}

/// What becomes of an [`Ask`]: told as its grant is made.
#[derive(Clone, Bundle)]
pub struct Asked {
    /// In this cycle.
    pub valid: Sig,
    /// Its tag.
    pub tag: Tag,
    /// No WQE comes: there is none, or the queue pair does not send.
    pub none: Sig,
}

impl Asked {
    /// The shape.
    pub fn of() -> Self {
        Asked { valid: bits(1), tag: Tag::of(), none: bits(1) }
    }
}

/// WQEs that are on their way.
#[derive(Clone, Bundle)]
pub struct Grant {
    /// Whose.
    pub qp: Sig,
    /// Index of the first, free-running.
    pub index: Sig,
    /// How many, at least one.
    pub count: Sig,
    /// Log2 of the units of each.
    pub stride: Sig,
    /// No WQEs: the QP starts.
    pub start: Sig,
    /// The WQE is not read: it was pushed.
    pub pushed: Sig,
    /// Into which slot.
    pub slot: Sig,
    /// They are looked at for what is to be sent again.
    pub tag: Tag,
}

impl Grant {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Grant {
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            count: bits(7),
            stride: bits(2),
            start: bits(1),
            pushed: bits(1),
            slot: bits(cfg.push_bits()),
            tag: Tag::of(),
        }
    }
}

/// The fetch goes on from another index: after a yield inside a message, or to send again.
#[derive(Clone, Bundle)]
pub struct Resume {
    /// Whose.
    pub qp: Sig,
    /// Next index to fetch.
    pub index: Sig,
    /// Nothing is fetched until the next of these: the peer is not ready.
    pub hold: Sig,
    /// Nothing of the QP's former life comes any more: its queue is empty.
    pub start: Sig,
    /// Nothing is fetched until another READ or atomic is answered.
    pub limited: Sig,
    /// Then: or rather until the completer has something else to tell.
    pub unheard: Sig,
    /// Then: how many had been answered, or what `Oldest::told` was, when this was told.
    pub known: Sig,
    /// The priority of the next packet stands still on the wire: a datagram's, which its handle has.
    pub stands: Sig,
    /// That priority.
    pub priority: Sig,
}

impl Resume {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Resume {
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            hold: bits(1),
            start: bits(1),
            limited: bits(1),
            unheard: bits(1),
            known: bits(READ_BITS),
            stands: bits(1),
            priority: bits(3),
        }
    }
}

/// What a QP may have waited for.
#[derive(Clone, Bundle)]
pub struct Eased {
    /// Which QP.
    pub qp: Sig,
    /// Another READ or atomic of it is done; otherwise its peer may have receives.
    pub answered: Sig,
}

impl Eased {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Eased { qp: bits(cfg.qp_bits()), answered: bits(1) }
    }
}

/// A QP whose WQEs are to be flushed, or awaited.
#[derive(Clone, Bundle)]
pub struct Flush {
    /// Which QP: in the error state.
    pub qp: Sig,
    /// Up to this index.
    pub producer: Sig,
    /// No: it is in SQD, and all up to there are waited for.
    pub drains: Sig,
    /// Then: which of its stays there this is.
    pub stay: Sig,
}

impl Flush {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Flush { qp: bits(cfg.qp_bits()), producer: bits(16), drains: bits(1), stay: bits(STAY_BITS) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Scheduled {
    /// Reads of WQEs, in the order of the grants.
    pub read: Stream<DmaReadRequest>,
    /// What the reads bring.
    pub grants: Stream<Grant>,
    /// QPs to flush, or to wait for.
    pub flush: Stream<Flush>,
    /// Who else wants to send.
    pub waiting: Waiting,
    /// QPs whose send queue the host has overrun.
    pub overruns: Stream<Sig>,
    /// Words of pushed WQEs.
    pub pushed: SlotWrite,
    /// What becomes of what is asked for once more.
    pub asked: Asked,
    /// With selective retransmission: grants of such WQEs, and of each read in order whether it is for one of these.
    pub again: Option<(Stream<Grant>, Stream<Sig>)>,
}

/// Whether a QP that sends keeps others from it.
#[derive(Clone, Bundle)]
pub struct Waiting {
    /// Somebody stands in the line.
    pub any: Sig,
    /// The first in line.
    pub head: Sig,
    /// At least two stand in the line, or WQEs of another QP are on their way to the segmenter, or a QP starts.
    pub others: Sig,
}

impl Waiting {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Waiting { any: bits(1), head: bits(cfg.qp_bits()), others: bits(1) }
    }

    /// Somebody other than `qp` waits.
    pub fn for_another(&self, qp: Sig) -> Sig {
        self.others | (self.any & self.head.ne(qp))
    }
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    /// Where there is time: what has been read goes to registers.
    Look,
    Row,
    /// Of WQEs that are wanted once more: where they are, and how many.
    Again,
    Grant,
}

#[derive(Clone, Bundle)]
struct Row {
    producer: Sig,
    /// Next index to fetch.
    fetch: Sig,
    /// Index past the newest that was fetched.
    high: Sig,
    queued: Sig,
    held: Sig,
    /// Waits for an answer to a READ or an atomic, or for one that tells of receives.
    limited: Sig,
    /// For the latter.
    unheard: Sig,
    /// Its next datagram is of this priority, and stood still.
    stands: Sig,
    priority: Sig,
    /// The completer is to be told of this stay in SQD.
    drains: Sig,
    stay: Sig,
}

impl Row {
    fn of() -> Self {
        Row {
            producer: bits(16),
            fetch: bits(16),
            high: bits(16),
            queued: bits(1),
            held: bits(1),
            limited: bits(1),
            unheard: bits(1),
            stands: bits(1),
            priority: bits(3),
            drains: bits(1),
            stay: bits(STAY_BITS),
        }
    }
}

/// WQEs of a grant, less one: as many as there are, or as it may bring otherwise.
struct Count {
    all: Sig,
    pending: Sig,
    /// Otherwise `room`, or `piece` where that is less.
    narrow: Sig,
    room: Sig,
    piece: Sig,
}

/// As many WQEs as a grant brings to a QP that has some, and fewer than 2^`limit` under way. All numbers are less by one, so that a power of two
/// is a mask, and what is left up to the limit is no difference: `pending` up to the producer, `newest` from the oldest up to there,
/// `under_way` up to the next to fetch, `rest` of the piece of memory, `batch`. What is compared is compared side by side.
fn count(
    m: &Scope,
    limit: u32,
    (pending, newest, under_way): (Sig, Sig, Sig),
    rest: Sig,
    batch: Sig,
) -> Count {
    let bits = rest.width();
    let over = (rest & !batch).any();
    let piece = m.mux(over, &batch, &(rest & batch));
    let room = (!under_way.trunc(limit)).zext(16);
    let within = |number: Sig| !(number >> bits).any() & number.trunc(bits).le(piece);
    let all = within(pending) & !(newest >> limit).any();
    Count { all, pending: pending.trunc(bits), narrow: within(room), room: room.trunc(bits), piece }
}

/// A grant of WQEs that are wanted once more.
struct OnceMore {
    any: Sig,
    less: Sig,
    address: Sig,
    index: Sig,
}

/// What a QP waits for.
#[derive(Clone, Bundle)]
struct Parked {
    answers: Sig,
    receives: Sig,
}

/// What is kept of what the completer tells.
#[derive(Clone, Bundle)]
struct Heard {
    index: Sig,
    told: Sig,
}

/// A QP in the line.
#[derive(Clone, Bundle)]
struct InLine {
    qp: Sig,
    /// It stays there, though its priority stands still: it keeps nobody from sending.
    still: Sig,
}

/// What is kept of a QP's attributes.
#[derive(Clone, Bundle)]
struct Given {
    queue: Ring,
    /// Worked out before they are wanted.
    bounds: Bounds,
    /// WQEs that a grant may bring at most, less one.
    batch: Sig,
    priority: Priority,
}

/// The priority of a QP's packets.
#[derive(Clone, Bundle)]
struct Priority {
    value: Sig,
    /// It is the QP's, not that of the handle of each packet.
    is_own: Sig,
    /// Its packets return inside the card: they do not stand still with the wire.
    loops: Sig,
}

/// Log2 of the units of the largest WQE.
pub const MAX_STRIDE: u32 = 3;

/// Units that one grant may bring at most.
fn batch_units(cfg: &RnicConfig) -> u32 {
    cfg.fetch_batch.max(1 << MAX_STRIDE)
}

/// Places for units of WQEs that are wanted once more.
pub const AGAIN_PLACES: u32 = 32;

/// Places for units of WQEs on the card, all QPs together: eight batches may be under way.
pub fn wqe_places(cfg: &RnicConfig) -> u32 {
    (8 * cfg.fetch_batch).max(2 * batch_units(cfg))
}

/// The scheduler. `returned` pulses when a unit's place is free again; `oldest` is the completer's index of the oldest WQE under way;
/// `plenty`: there are places at the completer beside those for the first message of each QP; `started` pulses when the start on offer has
/// arrived at the completer; `another` pulses behind the arrival of WQEs at the segmenter that are not of the QP of those before; `eased`: who
/// may have waited, each behind what `reads_done` or `oldest` tells of that; `gate` tells who is held back, and behind it comes a kick;
/// `paused`: the priorities that stand still; `pushes`: WQEs that need not be read, `freed`: slots of these that were taken; `asks`: WQEs that are wanted once more, and when a
/// place of theirs is free again.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn schedule(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    start: Stream<SqStart>,
    started: Sig,
    doorbell: Stream<SqDoorbell>,
    resume: Stream<Resume>,
    kick: Stream<Kick>,
    eased: Stream<Eased>,
    oldest: TableWrite<Oldest>,
    reads_done: ReadsDone,
    returned: Sig,
    plenty: Sig,
    another: Sig,
    gate: TableWrite<Gate>,
    paused: Sig,
    pushes: Pushes,
    freed: Freed,
    asks: Option<(Stream<Ask>, Sig)>,
) -> Scheduled {
    let qp_bits = cfg.qp_bits();
    let state = m.fsm("state", State::Sweep);
    let sweeping = state.is(State::Sweep);

    // Queues of QPs that go to RESET are empty from then on.
    let reset = resets(m, cfg, &broadcast);

    // One event or the oldest in line; what it is stays for the two cycles that follow.
    let (line, back) = m.later("line", &InLine { qp: bits(qp_bits), still: bits(1) });
    let idle = state.is(State::Idle);
    let announced = m.reg("announced", 1).reset(0);
    let may_grant = m.wire("may_grant", 1);
    let offered = start.valid & !announced & may_grant;
    // Who waits for answers or for receives of its peer, and has heard of some.
    let woken = m.reg("woken", 1).reset(0);
    let woken_qp = m.reg("woken_qp", qp_bits).no_reset();
    let may_again = m.wire("may_again", 1);
    let (asks, ask, returned_again) = match asks {
        Some((stream, returned)) => (Some(stream.clone()), stream.payload, returned),
        None => (None, Ask::of(cfg).zeros(), lit(1, 0)),
    };
    let asks_now = asks.as_ref().map_or(lit(1, 0), |asks| asks.valid & may_again);
    let any_event = reset.valid | offered | doorbell.valid | resume.valid | kick.valid | woken | asks_now;
    // Events first, but behind each of them it is the line's turn.
    let lines_turn = m.reg("lines_turn", 1).reset(0);
    let is_grant = idle & (!any_event | lines_turn) & line.valid & may_grant;
    let takes = idle & !is_grant;
    let is_reset = takes & reset.valid;
    let is_start = takes & !reset.valid & offered;
    let takes = takes & !reset.valid & !offered;
    let is_resume = takes & resume.valid;
    // Who rings without end keeps nobody from what the completer waits to tell.
    let kicks_turn = m.reg("kicks_turn", 1).reset(0);
    let kicks = kick.valid | woken;
    let kick_first = kicks & (kicks_turn | !doorbell.valid);
    // What is asked for once more has its turn after one of the others.
    let asks_turn = m.reg("asks_turn", 1).reset(0);
    let is_again = takes & !resume.valid & asks_now & (asks_turn | !(doorbell.valid | kicks));
    let is_doorbell = takes & !resume.valid & doorbell.valid & !kick_first & !is_again;
    let is_kick = takes & !resume.valid & kick_first & !is_again;
    m.when(is_again, |m| m.set(&asks_turn, 0))
        .otherwise_when(is_doorbell | is_kick, |m| m.set(&asks_turn, 1));
    if let Some(asks) = asks {
        asks.accept(is_again);
    }
    // Nor do those who are woken, however many.
    let after_woken = m.reg("after_woken", 1).reset(0);
    let by_woken = (woken & !(after_woken & kick.valid)).named("by_woken");
    m.when(is_kick, |m| m.set(&after_woken, by_woken));
    m.when(is_doorbell, |m| m.set(&kicks_turn, 1)).otherwise_when(is_kick, |m| m.set(&kicks_turn, 0));
    reset.accept(is_reset);
    start.accept(started);
    m.discard(&start.psn);
    m.discard(&start.index);
    m.when(is_start, |m| m.set(&announced, 1)).otherwise_when(started, |m| m.set(&announced, 0));
    resume.accept(is_resume);
    doorbell.accept(is_doorbell);
    kick.accept(is_kick & !by_woken);
    line.accept(is_grant);
    let mut chosen = line.qp;
    for (yes, qp) in [
        (is_kick, m.mux(by_woken, &woken_qp, &kick.qp)),
        (is_doorbell, doorbell.qp),
        (is_again, ask.qp),
        (is_resume, resume.qp),
        (is_start, start.qp),
        (is_reset, reset.payload),
    ] {
        chosen = m.mux(yes, &qp, &chosen);
    }
    let starts = is_reset | is_start | is_resume | is_doorbell | is_kick | is_grant | is_again;
    let qp = m.reg("qp", qp_bits).reset(0);
    let index = m.reg("index", 16).no_reset();
    let hold = m.reg("hold", 1).no_reset();
    let limited = m.reg("limited", 1).no_reset();
    let unheard = m.reg("unheard", 1).no_reset();
    let known = m.reg("known", READ_BITS).no_reset();
    let (stands, stood) = (m.reg("stands", 1).no_reset(), m.reg("stood", 3).no_reset());
    let (drained, stay) = (m.reg("drained", 1).no_reset(), m.reg("stay", STAY_BITS).no_reset());
    let kind = |name: &str| m.reg(&format!("kind_{name}"), 1).reset(0);
    let (kind_clear, kind_start, kind_resume) = (kind("clear"), kind("start"), kind("resume"));
    let kind_again = kind("again");
    let asked = m.reg_of("asked", &ask);
    m.discard(&asked.qp);
    if !cfg.selective {
        m.discard(&(asked.oldest, asked.index));
    }
    let (kind_doorbell, kind_kick, kind_grant) = (kind("doorbell"), kind("kick"), kind("grant"));
    // The event is a doorbell, the line was empty when it came, and a grant had room.
    let at_once = m.reg("at_once", 1).reset(0);
    m.when(starts, |m| {
        m.set(&qp, chosen);
        m.set(&index, m.mux(is_resume, &resume.index, &doorbell.producer));
        m.set(&hold, resume.hold);
        m.set(&limited, resume.limited);
        m.set(&unheard, resume.unheard);
        m.set(&known, resume.known);
        m.set(&stands, resume.stands);
        m.set(&stood, resume.priority);
        m.set(&drained, kick.drains & !by_woken);
        m.set(&stay, kick.stay);
        m.set(&kind_clear, is_reset | (is_resume & resume.start));
        m.set(&kind_start, is_start);
        m.set(&kind_resume, is_resume & !resume.start);
        m.set(&kind_doorbell, is_doorbell);
        m.set(&at_once, is_doorbell & !line.valid & may_grant);
        m.set(&kind_kick, is_kick);
        m.set(&kind_again, is_again);
        m.set_all(&asked, &ask);
        m.set(&kind_grant, is_grant);
        m.set(&lines_turn, !is_grant);
        m.set(&state, if cfg.unhurried() { State::Look } else { State::Row });
    });
    m.when(state.is(State::Look), |m| m.set(&state, State::Row));

    // The tables: our rows, and read copies of others'.
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &Row::of());
    let rows = m.mem("rows", cfg.qps, &next).style(Style::Block).build();
    rows.write(row_write, qp, &next);
    let row = cfg.looked(m, "row", rows.read(m, starts, chosen, Collision::Never));
    let given = &broadcast.attributes;
    let queue = Ring { base: given.entry.sq_base, log2: given.entry.sq_log2, stride: given.entry.sq_stride };
    // Datagrams have the priorities of their handles.
    let is_own = given.entry.service.ne(Service::Ud.code());
    let priority = Priority { value: given.entry.priority, is_own, loops: given.entry.loops };
    let batches: Vec<Sig> =
        (0..=MAX_STRIDE).map(|stride| lit(6, (cfg.fetch_batch >> stride).max(1) - 1)).collect();
    let batch = m.select(queue.stride, &batches);
    let attributes = Given { bounds: queue.bounds(), batch, queue, priority };
    let copies = m.mem("copies", cfg.qps, &attributes).style(Style::Block).build();
    copies.write(given.enable, given.index, &attributes);
    let copy = cfg.looked(m, "copy", copies.read(m, starts, chosen, Collision::New));
    m.discard(&copy);
    let Given { queue, bounds, batch: given_batch, priority } = copy;
    let batch = given_batch;
    // These may change while the QP is looked at.
    let looked_at = (starts, chosen, qp);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Block).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let qp_state = row_of(m, "state", looked_at, &states, &broadcast.state);
    let gates = m.mem("gates", cfg.qps, &bits(1)).style(Style::Block).build();
    m.discard(&gate.entry);
    let gate = TableWrite { enable: gate.enable, index: gate.index, entry: gate.entry.shut };
    gates.write(gate.enable, gate.index, &gate.entry);
    let shut = row_of(m, "gate", looked_at, &gates, &gate);
    // What moves while an event is worked on kicks.
    let heard = |of: &Oldest| Heard { index: of.index, told: of.told };
    let oldests = m.mem("oldest", cfg.qps, &heard(&Oldest::of(cfg))).style(Style::Block).build();
    oldests.write(oldest.enable, oldest.index, &heard(&oldest.entry));
    m.discard(&oldest.entry);
    let known_oldest = cfg.looked(m, "known_oldest", oldests.read(m, starts, chosen, Collision::New));
    let Heard { index: oldest_index, told } = known_oldest;
    // An event that makes its QP wait is over, or begins and sees what is told, before anybody is passed over.
    let parked_shape = Parked { answers: bits(1), receives: bits(1) };
    let parked = m.mem("parked", cfg.qps, &parked_shape).style(Style::Distributed).build();
    let looks = !woken & (idle | (!sweeping & eased.qp.ne(qp)));
    let waits = parked.read_now(eased.qp);
    let wakes = looks & eased.valid & m.mux(eased.answered, &waits.answers, &waits.receives);
    eased.accept(looks);
    m.when(wakes, |m| {
        m.set(&woken, 1);
        m.set(&woken_qp, eased.qp);
    })
    .otherwise_when(is_kick & by_woken, |m| m.set(&woken, 0));
    let answers = m.mem("answers", cfg.qps, &bits(READ_BITS)).style(Style::Block).build();
    answers.write(reads_done.enable, reads_done.index, &reads_done.entry);
    let answered = row_of(m, "answers", looked_at, &answers, &reads_done);

    // The row's cycle: an event is done here; a grant is worked out.
    let at_row = state.is(State::Row);
    let in_error = qp_state.eq(QpState::Err.code()) | qp_state.eq(QpState::Sqe.code());
    let drains = qp_state.eq(QpState::Sqd.code());
    let may_send = !row.held & !row.limited & !shut;
    let sends = (qp_state.eq(QpState::Rts.code()) | drains) & may_send;
    let under_way = row.fetch - oldest_index;
    // What is done meanwhile is not fetched again: its place in the queue may hold another WQE.
    let behind = under_way.bit(15);
    let limit = cfg.outstanding_per_qp.trailing_zeros();
    let allows = !(under_way >> limit).any();
    let alone = row.fetch.eq(oldest_index);
    let places_bits = clog2(u64::from(wqe_places(cfg)) + 1);
    let returned = cfg.looked(m, "returned", returned);
    let places = m.reg("places", places_bits).reset(wqe_places(cfg));
    // What lies in one piece of memory, how much of it is wanted, and how much is allowed.
    let producer = m.mux(kind_doorbell, &index, &row.producer);
    let newest = producer + !oldest_index;
    let batch = plenty.then(batch, lit(6, 0));
    let numbers = (producer + !row.fetch, newest, under_way);
    let granted = count(m, limit, numbers, queue.rest(&bounds, row.fetch), batch);
    // The state comes later than the row. What was fetched before SQD is fetched again one by one, and then there is nothing more.
    let any_work = m.mux(drains, &row.high.ne(row.fetch), &producer.ne(row.fetch));
    let all = m.delay("all", &(granted.all & !drains));
    // The least of both limits is chosen a cycle later.
    let pending = m.delay("pending", &granted.pending);
    let narrow = m.delay("narrow", &(granted.narrow | drains));
    let room_left = m.delay("room_left", &(!drains).then(granted.room, lit(6, 0)));
    let others = m.mux(narrow, &room_left, &m.delay("piece", &granted.piece));
    let less = m.mux(all, &pending, &others);
    let address = m.delay("address", &cfg.bus(queue.base + queue.bytes_to(&bounds, row.fetch)));
    let has_work = sends & any_work;
    let value = m.mux(priority.is_own, &priority.value, &row.priority);
    let still = (priority.is_own | row.stands) & !priority.loops & paused.shr_by(value).bit(0);
    let stays_still = m.delay("stays_still", &still);
    let can = m.delay("can", &(has_work & allows & (plenty | alone) & !still));
    // It stays in line, though it gets nothing now.
    let waits = m.delay("waits", &(has_work & (behind | still | (allows & !plenty & !alone))));
    let catches_up = m.delay("catches_up", &(has_work & behind));
    let caught_up = m.delay("caught_up", &oldest_index);
    // What one is told that goes on after an error is not flushed, though its state still says so.
    let recovering = m.reg("recovering", 1).reset(0);
    let recovered = m.reg("recovered", qp_bits).no_reset();
    let flushes = m.delay("flushes", &(in_error & !(recovering & recovered.eq(qp))));
    // What was answered since it was told has kicked already, or will find that it waits.
    let marks = m.delay("marks", &(row.drains & drains));
    let limits = m.delay("limits", &(limited & m.mux(unheard, &told, &answered).eq(known)));
    // The producer of a doorbell is the newest. The verdict on it is late: parts of it go to registers.
    let beyond = (newest & !bounds.queue).chunks(4);
    let beyond = cat(&beyond.iter().map(|part| part.any()).collect::<Vec<_>>());
    let overfills = m.delay("beyond", &beyond).any() & m.delay("moves", &index.ne(oldest_index));
    let refused = (overfills | m.delay("steps_back", &steps_back(index, row.producer))).named("refused");
    let dies = m.delay("dies", &qp_state.ne(QpState::Err.code()));
    m.when(at_row, |m| m.set(&state, State::Grant));
    let once_more = cfg.selective.then(|| {
        m.when(at_row & kind_again, |m| m.set(&state, State::Again));
        m.when(state.is(State::Again), |m| m.set(&state, State::Grant));
        let first = m.delay("again_from", &m.mux(asked.oldest, &oldest_index, &asked.index));
        let runs = m.delay("again_runs", &(qp_state.eq(QpState::Rts.code()) | drains));
        let left = row.high - first;
        let rest = queue.rest(&bounds, first);
        let piece = (rest & !given_batch).any().then(given_batch, rest & given_batch);
        let pending = left - 1;
        let few = !(pending >> 6).any() & pending.trunc(6).le(piece);
        let less = few.then(pending.trunc(6), piece) & (!asked.tag.probe).repeat(6);
        let to = cfg.bus(queue.base + queue.bytes_to(&bounds, first));
        OnceMore {
            any: m.delay("again_any", &(left.any() & !left.bit(15) & runs)),
            less: m.delay("again_less", &less),
            address: m.delay("again_address", &to),
            index: m.delay("again_index", &first),
        }
    });

    // The grant's cycle. Who took the room that it began with? Nobody: only grants do.
    let done = state.is(State::Grant).named("done");
    m.when(done, |m| m.set(&state, State::Idle));
    let grants_now = m.delay("grants_now", &(at_once & !row.queued)) & !refused;
    let grants = kind_grant | grants_now;
    let go = done & grants & can;
    let flushing = done & kind_grant & flushes;
    let starting = done & kind_start;
    let goes_on = starting & start.recovers;
    let state_write = &broadcast.state;
    m.when(goes_on, |m| {
        m.set(&recovering, 1);
        m.set(&recovered, qp);
    })
    .otherwise_when(state_write.enable & state_write.index.eq(recovered), |m| m.set(&recovering, 0));
    let goes_again = match &once_more {
        Some(more) => done & kind_again & more.any,
        None => lit(1, 0),
    };
    let less_now = once_more.as_ref().map_or(less, |more| kind_again.then(more.less, less));
    let count = less_now.zext(7) + 1;
    // The same as in the read copy, from a register: a block RAM is slow to read.
    let stride = m.delay("stride", &queue.stride);
    let units = count.shl_by(stride);
    let length = cat(&[lit(6, 0), units]);
    let last_qp = m.reg("last_qp", qp_bits).reset(0);
    m.when(go, |m| m.set(&last_qp, qp));
    // One alone may have been pushed.
    let (in_slot, slot, pushed) = match cfg.push_slots {
        0 => {
            m.discard(&pushes);
            m.discard(&freed);
            (lit(1, 0), lit(cfg.push_bits(), 0), SlotWrite::of(cfg).zeros())
        }
        _ => {
            let takes = (go & less.eq(0) & stride.eq(0)).named("takes_pushed");
            let Slots { found, slot, write } =
                push(m, cfg, pushes, Wanted { qp, index: row.fetch }, takes, freed);
            (takes & found, slot, write)
        }
    };
    let address = once_more.as_ref().map_or(address, |more| kind_again.then(more.address, address));
    let read = Stream::new(m, "read", (go & !in_slot) | goes_again, DmaReadRequest { address, length });
    let index_of_start = start.recovers.then(row.producer, lit(16, 0));
    let first = m.mux(kind_start, &index_of_start, &row.fetch);
    let first = once_more.as_ref().map_or(first, |more| kind_again.then(more.index, first));
    let asked_tag = asked.tag.clone();
    let tag = Tag { again: kind_again, probe: asked_tag.probe & kind_again, context: asked_tag.context };
    let tag = m.mux(lit(1, u32::from(cfg.selective)), &tag, &Tag::none());
    let told = Asked { valid: done & kind_again, tag: asked_tag, none: !goes_again };
    let grant = Grant { qp, index: first, count, stride, start: kind_start, pushed: in_slot, slot, tag };
    let again = cfg.selective.then(|| {
        let again_granted = Stream::new(m, "again_granted", goes_again, grant.clone());
        let kind = Stream::new(m, "kind", (go & !in_slot) | goes_again, goes_again);
        m.assert(!kind.valid | kind.ready, "every read that is under way has its place");
        m.discard(&kind.ready);
        (again_granted, kind)
    });
    let granted = Stream::new(m, "granted", go | starting, grant);
    // What was fetched in SQD was fetched before: nothing is behind `high`.
    let marking = done & kind_grant & marks;
    let upto = m.mux(marks, &row.high, &row.producer);
    let flush = Flush { qp, producer: upto, drains: marks, stay: row.stay };
    let flush = Stream::new(m, "flush", flushing | marking, flush);
    let room = read.ready & granted.ready & flush.ready;
    m.assert(!(go | flushing | marking | starting) | room, "a grant finds the room that it began with");
    // A register, so it knows of the last grant only from the second cycle of the next state on: that one is let pass.
    let after = m.delay("after", &(done & (grants | kind_start | kind_again)));
    let had_room = m.delay("had_room", &(room & places.ge(batch_units(cfg))));
    m.drive(&may_grant, had_room & !after);
    // Those that are wanted once more have places of their own.
    let again = match again {
        Some((granted, kind)) => {
            let room = read.ready & granted.ready;
            let free = m.reg("again_places", clog2(u64::from(AGAIN_PLACES) + 1)).reset(AGAIN_PLACES);
            let one = |units: Sig| units.zext(free.width().max(7)).trunc(free.width());
            let taken = goes_again.then(units, lit(7, 0));
            m.set(&free, free - one(taken) + one(returned_again));
            m.drive(&may_again, m.delay_zero("again_room", &(room & free.ge(batch_units(cfg)))) & !after);
            m.assert(!goes_again | room, "a grant of what is wanted once more finds its room");
            let kinds =
                fifo(&m.label("kinds"), (2 * (wqe_places(cfg) + AGAIN_PLACES)).next_power_of_two(), kind);
            Some((fifo(&m.label("again_grants"), 4, granted), kinds))
        }
        None => {
            m.drive(&may_again, lit(1, 0));
            m.discard(&may_again);
            m.discard(&returned_again);
            None
        }
    };
    let read = fifo(&m.label("read"), 4, read);
    let granted = shown_fifo(&m.label("grant"), 16, granted);
    let flush = fifo(&m.label("flush"), 4, flush);

    let taken = go.then(units.zext(places_bits.max(7)).trunc(places_bits), lit(places_bits, 0));
    m.set(&places, places - taken + returned.zext(places_bits));

    // What the row becomes.
    let fetched = row.fetch - !less.zext(16);
    let granted_now = grants_now & can;
    let stays = go & !all | (done & kind_grant & waits);
    // A QP whose queue is cleared may still stand in the line from before; it leaves when its turn comes.
    let joins = !row.queued & !kind_grant & !kind_clear & !kind_start & !granted_now & !kind_again;
    m.set_all(&next, &row);
    let leaves = kind_grant | granted_now;
    m.set(&next.queued, m.mux(leaves, &stays, &(row.queued | !(kind_clear | kind_start | kind_again))));
    m.when(kind_doorbell & !refused, |m| m.set(&next.producer, index));
    m.when(kind_resume, |m| {
        m.set(&next.fetch, index);
        m.set(&next.held, hold);
        m.set(&next.limited, limits);
        m.set(&next.unheard, limits & unheard);
        m.set(&next.stands, stands);
        m.set(&next.priority, stood);
    });
    m.when(kind_kick, |m| {
        m.set(&next.limited, 0);
        m.set(&next.unheard, 0);
        m.when(drained, |m| {
            m.set(&next.drains, 1);
            m.set(&next.stay, stay);
        });
    });
    m.when(goes_on, |m| m.set(&next.high, row.producer));
    m.when(kind_grant, |m| m.set(&next.drains, 0));
    m.when(kind_grant & catches_up, |m| m.set(&next.fetch, caught_up));
    m.when(go, |m| {
        m.set(&next.fetch, fetched);
        m.set(&next.stands, 0);
        m.when((row.high - fetched).bit(15), |m| m.set(&next.high, fetched));
    });
    m.when(kind_clear, |m| {
        m.set(&next.producer, 0);
        m.set(&next.fetch, 0);
        m.set(&next.high, 0);
        m.set(&next.held, 0);
        m.set(&next.limited, 0);
        m.set(&next.unheard, 0);
        m.set(&next.stands, 0);
        m.set(&next.drains, 0);
    });
    m.when(sweeping, |m| {
        m.set_all(&next, &Row::of().zeros());
        m.set(&qp, qp + 1);
        m.when(qp.eq(cfg.qps - 1), |m| m.set(&state, State::Idle));
    });
    m.drive(&row_write, done | sweeping);
    let waits = Parked { answers: next.limited & !next.unheard, receives: next.unheard };
    parked.write(row_write, qp, &waits);

    // Told once, and not of a life that has ended.
    let overrun = done & kind_doorbell & refused & dies;
    let overrun = Stream::new(m, "overrun", overrun, Flagged { row: qp, flags: lit(1, 1) });
    m.assert(!overrun.valid | overrun.ready, "who gathers waits for nobody");
    let forget = Forget { valid: done & kind_clear, row: qp };
    let overruns = gather(&m.label("overruns"), cfg.qps, overrun, forget).map(|overrun| overrun.row);

    // The line has a place for every QP, and each stands in it once: it never fills.
    let enter = done & (joins | stays);
    let still = kind_grant & stays_still;
    let entering = Stream::new(m, "entering", enter, InLine { qp, still });
    m.assert(!entering.valid | entering.ready, "the line has a place for every QP");
    back.connect(prompt_fifo(&m.label("line"), cfg.qps, entering));
    // Who waits: in the line, or with WQEs behind those that the segmenter has. A grant to another QP than the one before counts until its
    // first WQE is there.
    let in_line = m.reg("in_line", qp_bits + 1).reset(0);
    let (comes, goes) = (enter & !still, is_grant & !line.still);
    m.set(&in_line, in_line + comes.zext(qp_bits + 1) - goes.zext(qp_bits + 1));
    let others = m.reg("others", 5).reset(0);
    let follows = go & qp.ne(last_qp);
    m.assert(!follows | !others.all(), "fewer grants are under way than are counted");
    m.assert(!another | others.any(), "what arrives has been granted");
    m.set(&others, others + follows.zext(5) - another.zext(5));
    // A start goes the way of the WQEs, and whose it is stands behind what is on its way.
    let start_waits = m.delay("start_waits", &start.valid);
    let others = in_line.gt(1) | others.ne(0) | start_waits;
    let waiting = Waiting { any: line.valid & !line.still, head: line.qp, others };
    Scheduled { read, grants: granted, flush, waiting, overruns, pushed, asked: told, again }
}

#[cfg(test)]
mod tests;
