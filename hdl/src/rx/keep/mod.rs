// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of queue pairs with selective retransmission that come too early are kept here, and handed on when what is missing has come
//! (`docs/src/selective.md`, decision 0074).
//!
//! ```text
//!            +----------------------- others ------------------------------+
//!  headers --+--> waiting -----------------------------------------------> execute --> headers
//!            +--> claim --> judge --> shelf --> decisions ------------------^   |
//!                            ^          |                                       | fates
//!                            +-- asks --+--> fetches ---+                       v
//!  frame ---------------------------------------------- | -------------------> move --> frame
//!                                                       v                      |  ^
//!                                     unload <------- store <--- kept frames --+  |
//!                                       +-----------------------------------------+
//! ```
//!
//! [`judge`] knows what each flow waits for, [`shelf`] what is kept, and [`store`] has the frames, each after its headers. Headers and frames leave in one
//! order, which is that of the decisions. Packets of other queue pairs pass in the same cycle if none with selective retransmission is before them.
//!
//! **Throughput:** others one a cycle; of those with selective retransmission one in three cycles, one in seven if it is kept. A frame goes into the store while another one leaves it.
//! **Latency:** others none; those with selective retransmission [`LATENCY`]. **Backpressure:** what is kept never waits for the taker of frames; `ready` of the inputs
//! follows that of the outputs in the same cycle for others. **Reset:** nothing is kept.

pub mod judge;
pub mod report;
pub mod shelf;
pub mod store;

use crate::config::RnicConfig;
use crate::path::whole_mtus;
use crate::requester::Proof;
use crate::rx::dispatch::Sorted;
use crate::stream::{fifo, fork, forward, Beat};
use crate::types::{TableWrite, DISTANCE_BITS};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use judge::{flow_bits, judge, Claim, Start};
use report::Gap;
use shelf::{shelf, Decision, Fate, Stops, Wish};
use store::store;

/// Cycles by which the headers of a packet with selective retransmission are later.
pub const LATENCY: u32 = 10;
/// Packets that may be judged at the same time.
const JUDGED: u32 = 16;
/// Packets that may be fetched before they are handed on.
const FETCHED: u32 = 16;
/// Packets whose headers may leave before their frames.
const AHEAD: u32 = 128;

/// Headers, and what is to be known of them here.
#[derive(Clone, Bundle)]
pub struct Front<T: Bundle> {
    /// What is handed on.
    pub item: T,
    /// It is a request or a response that counts in a flow of a queue pair with selective retransmission.
    pub selective: Sig,
    /// Which flow.
    pub flow: Sig,
    /// Its PSN.
    pub psn: Sig,
    /// It asks for so many bytes, less one: a READ request that asks for any; `reads` tells.
    pub last_byte: Sig,
    /// See `last_byte`.
    pub reads: Sig,
    /// Its distance from the READ or atomic before it; 0 unless it is a response.
    pub distance: Sig,
    /// Its MigReq is 0: it has been sent before.
    pub again: Sig,
}

impl<T: Bundle> Front<T> {
    /// The shape.
    pub fn of(cfg: &RnicConfig, item: T) -> Self {
        Front {
            item,
            selective: bits(1),
            flow: bits(flow_bits(cfg)),
            psn: bits(24),
            last_byte: bits(32),
            reads: bits(1),
            distance: bits(DISTANCE_BITS),
            again: bits(1),
        }
    }
}

impl Front<Sorted> {
    /// Of what was received.
    pub fn new(cfg: &RnicConfig, sorted: &Sorted) -> Self {
        let (h, sort) = (&sorted.headers, &sorted.sort);
        let known = !(h.dest_qpn >> cfg.qp_bits()).any();
        Front {
            selective: sort.counts & h.origin.from_peer & h.origin.selective & known,
            flow: cat(&[h.dest_qpn.trunc(cfg.qp_bits()), sort.answer]),
            psn: h.psn,
            last_byte: h.dma_length - 1,
            reads: sort.reads & h.dma_length.any(),
            distance: h.distance & sort.answer.repeat(DISTANCE_BITS),
            again: h.again,
            item: sorted.clone(),
        }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Keep<T: Bundle + Interface> {
    /// Headers of packets that are handed on.
    pub headers: Stream<T>,
    /// Their frames, in the same order.
    pub frame: Stream<Beat>,
    /// What else is to be known of them.
    pub of: Kept,
}

/// What is kept.
#[derive(Interface)]
pub struct Kept {
    /// What is missing of flows: of requests for the peer, of responses for the requester here.
    pub gaps: Stream<Gap>,
    /// Responses to what was asked for again, as they come. Whether they are taken does not matter.
    pub proofs: Stream<Proof>,
    /// A packet is kept: a pulse.
    pub keeps: Sig,
    /// A packet found no room: a pulse.
    pub full: Sig,
    /// Nothing is kept.
    pub empty: Sig,
}

/// What of a packet passes by the table of its flow.
#[derive(Clone, Bundle)]
struct Facts {
    psn: Sig,
    distance: Sig,
    further: Sig,
    again: Sig,
}

/// What becomes of the next frame of the receive buffer.
#[derive(Clone, Copy)]
enum Move {
    Pass = 0,
    Keep = 1,
    Drop = 2,
}

/// Keeps packets; see the page's top. `mtus`: codes of the path MTU of queue pairs.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn keep<T: Bundle + Interface>(
    m: &Scope,
    cfg: &RnicConfig,
    #[param] chunks: u32,
    headers: Stream<Front<T>>,
    frame: Stream<Beat>,
    mtus: TableWrite<Sig>,
    starts: Stream<Start>,
    stops: Stops,
    tick: Sig,
) -> Keep<T> {
    let front = headers.payload.clone();
    let shape = front.item.clone();

    // The front: what has selective retransmission waits for its decision.
    let count_bits = clog2(u64::from(JUDGED) + 1);
    let judged = m.reg("judged", count_bits).reset(0);
    let some = judged.ne(0).named("some");
    let (waiting_room, look_room) = (m.wire("waiting_room", 1), m.wire("look_room", 1));
    let comes = headers.valid & front.selective & look_room;
    let waiting = Stream::new(m, "waiting", comes, shape.clone());
    m.drive(&waiting_room, waiting.ready);
    let enters = waiting.fire().named("enters");
    let proof = Proof { flow: front.flow, psn: front.psn };
    let proofs = Stream::new(m, "proof", enters & front.again & front.flow.msb(), proof);
    m.discard(&proofs.ready);
    let waiting = fifo(&m.label("waiting"), JUDGED, waiting);
    let looked = Front { item: lit(1, 0), ..Front::of(cfg, bits(1)) };
    let looked = Front {
        selective: front.selective,
        flow: front.flow,
        psn: front.psn,
        last_byte: front.last_byte,
        reads: front.reads,
        distance: front.distance,
        again: front.again,
        ..looked
    };
    let look = Stream::new(m, "look", headers.valid & front.selective & waiting_room, looked);
    m.drive(&look_room, look.ready);
    let codes = m.mem("mtus", cfg.qps, &bits(3)).style(Style::Block).build();
    codes.write(mtus.enable, mtus.index, &mtus.entry);
    let code = codes.read(m, look.fire(), front.flow.trunc(cfg.qp_bits()), Collision::New);
    let look = forward(&m.label("looked"), look);
    let further = look.reads.then(whole_mtus(m, look.last_byte, code), lit(24, 0)).named("further");
    let claim = Claim { flow: look.flow, first: look.psn - look.distance.zext(24), last: look.psn + further };
    let facts = Facts { psn: look.psn, distance: look.distance, further, again: look.again };
    let (claim_room, fact_room) = (m.wire("claim_room", 1), m.wire("fact_room", 1));
    let claims = Stream::new(m, "claim", look.valid & fact_room, claim);
    let facts = Stream::new(m, "facts", look.valid & claim_room, facts);
    m.drive(&claim_room, claims.ready);
    m.drive(&fact_room, facts.ready);
    look.accept(claims.ready & facts.ready);
    let facts = fifo(&m.label("facts"), 2 * JUDGED, facts);
    let claims = forward(&m.label("claimed"), claims);

    // Rulings, and what is kept.
    let (ask, asks) = m.later("asks", &Claim::of(cfg));
    // A flow that starts has its first tolerance, too.
    let mut starts = fork(m, 2, starts).into_iter();
    let mut start = || starts.next().expect("two ways");
    let (starts, begins) = (start(), start().map(|start| start.flow));
    let rulings = judge(m, cfg, starts, ask, claims);
    let missing = !rulings.asked & !facts.valid;
    let wish = Wish {
        ruling: judge::Ruling { first: facts.psn, ..rulings.payload.clone() },
        distance: facts.distance,
        further: facts.further,
        again: facts.again,
    };
    let wishes = Stream::new(m, "wish", rulings.valid & !missing, wish);
    rulings.accept(wishes.ready & !missing);
    facts.accept(wishes.fire() & !rulings.asked);
    let (kept_frame, kept_frames) = m.later("kept_frame", &frame.payload);
    let packed = shape.pack();
    let per_beat = 8 * cfg.beat_bytes;
    let parts = packed.width().div_ceil(per_beat);
    let (fetch, fetches) = m.later("fetch", &store::Fetch::of(cfg, chunks));
    let stored = store(m, cfg, chunks, parts, kept_frame, fetch);
    let executed = m.wire("executed", 1);
    let shelf = shelf(m, cfg, chunks, wishes, stored.kept, stored.free, begins, executed, stops, tick);
    asks.connect(shelf.asks);
    let kept_fetches = fifo(&m.label("fetches"), FETCHED, shelf.fetches);
    // The headers of the next frame wait in a register while this one leaves: what they are for takes its time.
    let (head_taken, shown) = (m.reg("head_taken", 1).reset(0), m.reg("shown", 1).reset(0));
    let free = !head_taken | kept_fetches.discard;
    let fetching = Stream::new(m, "fetching", kept_fetches.valid & free, kept_fetches.payload.clone());
    kept_fetches.accept(fetching.ready & free);
    let takes_head = fetching.fire() & !fetching.discard;
    fetches.connect(fetching);
    let counter = |name: &str| m.reg(name, clog2(u64::from(parts) + 1)).reset(0);
    let unloaded = counter("unloaded");
    let head = m.reg("head", per_beat * parts).no_reset();
    let fetched: T = shape.unpack(head.trunc(packed.width()));
    if head.width() > packed.width() {
        m.discard(&head.slice(packed.width(), head.width() - packed.width()));
    }
    let (out, part) = (stored.out, stored.head);
    let whole = part.valid & unloaded.eq(parts - 1);
    m.when(part.valid, |m| {
        m.set(&head, cat(&[head, part.data]).slice(per_beat, per_beat * parts));
        m.set(&unloaded, whole.then(lit(unloaded.width(), 0), unloaded + 1));
    });

    // Execution: one order of headers and of frames.
    let decided: Stream<Decision> = shelf.decisions;
    let (fate_room, order_room) = (m.wire("fate_room", 1), m.wire("order_room", 1));
    let room = fate_room & order_room;
    let passes = Fate::Pass.is(decided.fate);
    let of_store = decided.valid & decided.asked;
    let of_packet = decided.valid & !decided.asked & waiting.valid;
    let stays = m.reg("stays", 1).reset(0);
    let plain = headers.valid & !front.selective & !some & (stays | !decided.valid);
    let plain = plain.named("plain");
    let passing = (of_store & shown) | (of_packet & passes);
    let item = m.mux(plain, &shape, &m.mux(decided.asked, &fetched, &*waiting));
    let given = Stream::new(m, "given", (plain | (!stays & passing)) & room, item);
    let gives = given.fire().named("gives");
    // What is on offer stays.
    m.set(&stays, plain & room & !given.ready);
    let keeper_room = m.wire("keeper_room", 1);
    let keeps = (of_packet & Fate::Keep.is(decided.fate) & fate_room & keeper_room).named("keeps");
    let dropped = Fate::Drop.is(decided.fate) | Fate::Copy.is(decided.fate);
    let drops = (of_packet & dropped & fate_room).named("drops");
    let executes = (gives & !plain) | keeps | drops;
    decided.accept(executes);
    let ends = (executes & !decided.asked).named("ends");
    waiting.accept(ends);
    headers.accept(front.selective.then(waiting_room & look_room, gives & plain));
    m.set(&judged, judged + enters.zext(count_bits) - ends.zext(count_bits));
    m.assert(!plain | !of_packet, "a packet that is judged is before those that are not");
    let from_store = !plain & decided.asked;
    let fate = m.mux(keeps, &lit(2, Move::Keep as u32), &lit(2, Move::Drop as u32));
    let fate = m.mux(gives, &lit(2, Move::Pass as u32), &fate);
    let fates = Stream::new(m, "fate", (gives & !from_store) | keeps | drops, fate);
    m.drive(&fate_room, fates.ready);
    let fates = fifo(&m.label("fates"), AHEAD, fates);
    let order = Stream::new(m, "order", gives, from_store);
    m.drive(&order_room, order.ready);
    let order = fifo(&m.label("order"), AHEAD, order);
    // Headers of the frames that go into the store. What is decided after them does not wait for these frames.
    let held = Stream::new(m, "held", keeps, waiting.payload.clone());
    m.drive(&keeper_room, held.ready);
    let held = fifo(&m.label("held"), JUDGED, held);

    // Frames of the receive buffer.
    let is = |what: Move| fates.valid & fates.eq(what as u32);
    let written = counter("written");
    let heads = written.ne(parts);
    let words = held.pack().zext(per_beat * parts);
    let words: Vec<Sig> = (0..parts).map(|part| words.slice(part * per_beat, per_beat)).collect();
    let word = match parts {
        1 => words[0],
        _ => m.select(written.trunc(clog2(parts.into())), &words),
    };
    let header = Beat { data: word, last: lit(1, 0), empty: lit(frame.empty.width(), 0) };
    let stores = is(Move::Keep) & held.valid & (heads | frame.valid);
    let keeping = Stream::new(m, "keeping", stores, m.mux(heads, &header, &frame.payload));
    let kept_last = keeping.fire() & !heads & frame.last;
    m.when(keeping.fire(), |m| {
        m.when(heads, |m| m.set(&written, written + 1));
        m.when(kept_last, |m| m.set(&written, 0));
    });
    held.accept(kept_last);
    let turn = order.valid & !*order;
    let (from_ring, from_kept) = (is(Move::Pass) & turn & frame.valid, order.valid & *order & out.valid);
    let beats = m.mux(*order, &*out, &frame.payload);
    let frames = Stream::new(m, "frames", from_ring | from_kept, beats);
    let taken = (from_ring & frames.ready) | (is(Move::Drop) & frame.valid) | (keeping.fire() & !heads);
    frame.accept(taken);
    fates.accept(taken & frame.last);
    order.accept(frames.fire() & frames.last);
    kept_frames.connect(keeping);

    // Frames of the store.
    let shows = gives & from_store;
    m.drive(&executed, m.delay_zero("shows_now", &shows));
    m.when(whole, |m| m.set(&shown, 1)).otherwise_when(shows, |m| m.set(&shown, 0));
    m.when(takes_head, |m| m.set(&head_taken, 1)).otherwise_when(shows, |m| m.set(&head_taken, 0));
    out.accept(from_kept & frames.ready);
    let of = Kept { gaps: shelf.gaps, proofs, keeps: shelf.keeps, full: shelf.full, empty: shelf.empty };
    Keep { headers: given, frame: frames, of }
}

#[cfg(test)]
mod tests;
