// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which packets are kept, for which flows, and when they are fetched.
//!
//! ```text
//!  rulings --> whose? --> admit ----------------------------> decisions
//!                |          |  coming          there
//!                v          v     |              |
//!             wanted --> [ slots: 256 a context, block RAM ] <-- kept (from the store)
//!                |          ^
//!                +--> walk -+-------------------------------> fetches (to the store)
//! ```
//!
//! A flow with a gap has one of [`CONTEXTS`] contexts: which flow it is, how many packets and chunks are kept for it, and a slot for each PSN of 256, by the
//! PSN's low eight bits. A slot is empty, or its packet is *coming* (on its way into the store), or *there*.
//!
//! **Admission** (`docs/src/selective.md`, "Receiving"): a packet that is ahead of its flow is
//!
//! | | decision |
//! |---|---|
//! | without a context, and none is free | passed: the responder says that it is out of sequence |
//! | in a slot that is not empty | dropped: a copy |
//! | of a flow with seven times as many chunks as are free, or more | dropped, and counted |
//! | otherwise | kept |
//!
//! **Walk.** When a packet was the next of its flow, or one is there now, the flow's context is *wanted*. The walk looks for the packet that follows `base`: in the slot
//! of `base`, and for responses, which reach back to PSNs without a response, also in the slots after it. It fetches that packet, empties the slot and goes on with the one
//! after it. It does not wait until a fetched packet has been ruled on: `base` can only be there or further by then. A context without packets is free.
//!
//! A context is emptied, and its packets are thrown away, when its queue pair does not run any more, and when nothing was fetched for [`AGE`] ticks.
//!
//! **Throughput:** a decision in two cycles, in six of a packet that is ahead; a fetch in four cycles. **Backpressure:** rulings wait for decisions to be taken, fetches wait for
//! the store; neither waits for the other. **Memory:** one read and one write of a slot in a cycle; the walk gives way. **Reset:** every slot is emptied, one a cycle; until then what is ahead
//! is passed. The longest path is from the contexts' flows through the comparison to the register of hits.

use super::judge::{flow_bits, Claim, Class, Ruling};
use super::report::{reports, Gap, Looks};
use super::store::{largest, Chain, Fetch, CHUNK};
use crate::config::RnicConfig;
use crate::stream::{fifo, half};
use crate::types::TableWrite;
use ferrowire_rtl::{
    bits, cat, clog2, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style,
};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::wire::report::{MAX_DISTANCE, REACH};

/// Flows for which packets are kept at the same time.
pub const CONTEXTS: u32 = 8;
/// Ticks of 4.096 us without a fetch after which a context is emptied.
pub const AGE: u32 = 255;
/// Bits of a PSN within a context.
pub(super) const SLOT_BITS: u32 = 8;
const _: () = assert!(REACH == 1 << SLOT_BITS && MAX_DISTANCE == 127);
/// Bits of a word of marks.
pub(super) const WORD_BITS: u32 = 5;
pub(super) const WORD: u32 = 1 << WORD_BITS;
/// Kept packets after a missing PSN that make it a lost one, at first.
pub(super) const TOLERANCE: u32 = 32;
/// How often that may be halved.
const HALVED: u32 = 4;
const HALVED_BITS: u32 = 3;
/// Packets after which what is still lost is told once more.
const EACH: u32 = 8;
/// Bits of a distance.
const DISTANCE_BITS: u32 = 7;
/// Packets that are fetched and not handed on.
const ASKED: u32 = 3;
/// Packets that may be on their way into the store.
const COMING: u32 = 32;

/// A ruling on a packet, with what has to be known to keep it.
#[derive(Clone, Bundle)]
pub struct Wish {
    /// The ruling; its `first` is the PSN that the packet has, not that which it reaches back to.
    pub ruling: Ruling,
    /// The PSNs that it reaches back.
    pub distance: Sig,
    /// The PSNs that it covers after its own.
    pub further: Sig,
    /// Its MigReq is 0: it has been sent before.
    pub again: Sig,
}

impl Wish {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Wish { ruling: Ruling::of(cfg), distance: bits(DISTANCE_BITS), further: bits(24), again: bits(1) }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is handed on.
    Pass,
    /// It goes into the store.
    Keep,
    /// It is dropped: it is too far ahead, or there is no room.
    Drop,
    /// It is dropped: the same packet is kept.
    Copy,
}

impl Fate {
    /// Its number between the blocks.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Whether a signal is this fate.
    pub fn is(self, fate: Sig) -> Sig {
        fate.eq(self.code())
    }
}

/// Of each ruling, in their order.
#[derive(Clone, Bundle)]
pub struct Decision {
    /// It is of a packet that was fetched.
    pub asked: Sig,
    /// A [`Fate`]; of a packet that was fetched always `Pass`.
    pub fate: Sig,
}

impl Decision {
    /// The shape.
    pub fn of() -> Self {
        Decision { asked: bits(1), fate: bits(2) }
    }
}

/// Flows of a queue pair that does not run.
#[derive(Clone, Bundle)]
pub struct Stops {
    /// In this cycle.
    pub valid: Sig,
    /// Which queue pair.
    pub qp: Sig,
}

impl Stops {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Stops { valid: bits(1), qp: bits(cfg.qp_bits()) }
    }

    /// Those of which a new state is told in which nothing is received.
    pub fn of_states(m: &Scope, told: &TableWrite<Sig>) -> Self {
        let runs = [QpState::Rtr, QpState::Rts, QpState::Sqd];
        let runs = runs.iter().fold(lit(1, 0), |any, state| any | told.entry.eq(state.code()));
        Stops { valid: m.delay_zero("stops", &(told.enable & !runs)), qp: m.delay("stopped", &told.index) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Shelf {
    /// What becomes of packets.
    pub decisions: Stream<Decision>,
    /// Packets that are fetched.
    pub fetches: Stream<Fetch>,
    /// What those of them that are not thrown away cover: to be ruled on, in their order.
    pub asks: Stream<Claim>,
    /// What is missing of flows.
    pub gaps: Stream<Gap>,
    /// A packet is kept: a pulse.
    pub keeps: Sig,
    /// A packet found no room: a pulse.
    pub full: Sig,
    /// No context is in use.
    pub empty: Sig,
}

/// A slot.
#[derive(Clone, Bundle)]
struct Slot {
    coming: Sig,
    there: Sig,
    distance: Sig,
    further: Sig,
    chain: Chain,
}

/// A packet that is fetched.
#[derive(Clone, Bundle)]
struct Found {
    distance: Sig,
    further: Sig,
    chain: Chain,
}

/// A packet on its way into the store.
#[derive(Clone, Bundle)]
struct Coming {
    context: Sig,
    psn: Sig,
    distance: Sig,
    further: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum Admit {
    /// The next ruling is taken.
    Idle,
    /// Whose flow it is, is known.
    Act,
    /// Its slot is read.
    Read,
    /// Likewise.
    ReadOn,
    /// It is known.
    Decide,
    /// The decision is on offer.
    Tell,
}

#[derive(Clone, Copy, Fsm)]
enum Walk {
    /// A context that is wanted is chosen.
    Idle,
    /// Where it is.
    Begin,
    /// Its `base` is not before its place.
    Settle,
    /// A word of marks is read.
    Load,
    /// A packet is looked for in it.
    Find,
    /// A slot is asked for.
    Read,
    /// It is read.
    ReadOn,
    /// It is known.
    Look,
    /// Its packet is fetched.
    Fetch,
    /// It is written down where the walk ended.
    End,
}

/// One context's registers.
struct Context {
    valid: Sig,
    flow: Sig,
    packets: Sig,
    chunks: Sig,
    wanted: Sig,
    empties: Sig,
    age: Sig,
    /// How often its tolerance has been halved.
    halved: Sig,
    /// Packets since the last report, up to [`EACH`].
    since: Sig,
    /// There was one since something is lost.
    told: Sig,
    /// One of all that is missing is wanted; there was one since `base` moved, and so many packets before another one.
    all: Sig,
    forced: Sig,
    repeats: Sig,
}

/// What a report has to know of a context.
#[derive(Clone, Bundle)]
pub(super) struct Chosen {
    pub(super) flow: Sig,
    pub(super) halved: Sig,
    /// All that is missing counts as lost.
    pub(super) all: Sig,
}

impl Chosen {
    pub(super) fn of(cfg: &RnicConfig) -> Self {
        Chosen { flow: bits(flow_bits(cfg)), halved: bits(HALVED_BITS), all: bits(1) }
    }
}

/// The lowest of a set of contexts.
pub(super) fn lowest(set: Sig) -> Sig {
    let context_bits = clog2(CONTEXTS.into());
    (0..CONTEXTS - 1)
        .rev()
        .fold(lit(context_bits, CONTEXTS - 1), |index, c| set.bit(c).then(lit(context_bits, c), index))
}

/// Keeps account; see the page's top. `free`: chunks of the store that are free; `begins`: flows that start; `executed`: a fetched packet has been
/// handed on.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn shelf(
    m: &Scope,
    cfg: &RnicConfig,
    #[param] chunks: u32,
    rulings: Stream<Wish>,
    kept: Stream<Chain>,
    free: Sig,
    begins: Stream<Sig>,
    executed: Sig,
    stops: Stops,
    tick: Sig,
) -> Shelf {
    let context_bits = clog2(CONTEXTS.into());
    let chunk_bits = clog2(u64::from(chunks)) + 1;
    let slot_shape = Slot {
        coming: bits(1),
        there: bits(1),
        distance: bits(DISTANCE_BITS),
        further: bits(24),
        chain: Chain::of(cfg, chunks),
    };
    let slots = m.mem("slots", CONTEXTS << SLOT_BITS, &slot_shape).style(Style::Block).build();
    let contexts: Vec<Context> = (0..CONTEXTS)
        .map(|c| {
            let reg = |name: &str, width: u32| m.reg(&format!("{name}_{c}"), width);
            Context {
                valid: reg("valid", 1).reset(0),
                flow: reg("flow", flow_bits(cfg)).no_reset(),
                packets: reg("packets", SLOT_BITS + 1).no_reset(),
                chunks: reg("chunks", chunk_bits).no_reset(),
                wanted: reg("wanted", 1).reset(0),
                empties: reg("empties", 1).reset(0),
                age: reg("age", 8).no_reset(),
                halved: reg("halved", HALVED_BITS).no_reset(),
                since: reg("since", clog2(u64::from(EACH) + 1)).no_reset(),
                told: reg("told", 1).no_reset(),
                all: reg("all", 1).no_reset(),
                forced: reg("forced", 1).no_reset(),
                repeats: reg("repeats", clog2(EACH.into())).no_reset(),
            }
        })
        .collect();
    let each = |of: &dyn Fn(&Context) -> Sig| -> Vec<Sig> { contexts.iter().map(of).collect() };

    // After reset all slots are emptied.
    let sweeping = m.reg("sweeping", 1).reset(1);
    let swept = m.reg("swept", context_bits + SLOT_BITS).reset(0);
    m.when(sweeping, |m| {
        m.set(&swept, swept + 1);
        m.set(&sweeping, !swept.all());
    });

    // Admission: whose flow it is, in the first cycle.
    let admit = m.fsm("admit", Admit::Idle);
    let idle = admit.is(Admit::Idle);
    rulings.accept(idle);
    let wish = m.reg_of("wish", &rulings.payload);
    let hits = m.reg("hits", CONTEXTS).no_reset();
    let frees = m.reg("frees", CONTEXTS).no_reset();
    let own = |c: &Context| c.valid & c.flow.eq(rulings.ruling.flow);
    m.when(idle, |m| {
        m.set_all(&wish, &rulings.payload);
        m.set(&hits, cat(&each(&own)));
        m.set(&frees, !cat(&each(&|c| c.valid)));
        m.when(rulings.valid, |m| m.set(&admit, Admit::Act));
    });
    let Wish { ruling, distance, further, again } = wish.clone();
    let psn = ruling.first.trunc(SLOT_BITS);
    let acts = admit.is(Admit::Act);
    let known = hits.any();
    let is_ahead = Class::Ahead.is(ruling.class);
    let admits = (is_ahead & (known | frees.any()) & !sweeping).named("admits");
    // What is passed wakes its flow's context.
    let moves = (acts & known & Class::Next.is(ruling.class)).named("moves");
    let chosen = lowest(known.then(hits, frees)).named("chosen");
    let context = m.reg("context", context_bits).no_reset();
    m.when(acts, |m| m.set(&context, chosen));
    let bases = m.mem("bases", CONTEXTS, &bits(24)).style(Style::Distributed).build();
    bases.write(acts & (known | is_ahead), chosen, &ruling.base);

    // The tolerance of each flow, as what fills its gap or comes once more shows it.
    let tolerances = m.mem("tolerances", 2 * cfg.qps, &bits(HALVED_BITS)).style(Style::Block).build();
    let halved_then = tolerances.read(m, idle, rulings.ruling.flow, Collision::Old);
    let comes = (acts & !ruling.asked).named("comes");
    let fills = comes & known & Class::Next.is(ruling.class);
    let late_one = comes & Class::Before.is(ruling.class) & !again;
    let most = halved_then.eq(HALVED);
    let more = again.then(most.then(halved_then, halved_then + 1), lit(HALVED_BITS, 0));
    let halved_now = fills.then(more, late_one.then(lit(HALVED_BITS, 0), halved_then)).named("halved_now");
    begins.accept(!acts);
    let flow = acts.then(ruling.flow, *begins);
    tolerances.write(fills | late_one | begins.fire(), flow, &acts.then(halved_now, lit(HALVED_BITS, 0)));
    let halved = m.delay("halved", &halved_now);
    // What its context hears of it, a cycle later.
    let arrived = m.delay_zero("arrived", &(comes & known));
    let moved = m.delay_zero("moved", &moves);
    let repeated =
        (arrived & again & (Class::Next.is(ruling.class) | Class::Before.is(ruling.class))).named("repeated");

    // Its slot, and what its context has.
    let entering = Coming { context, psn, distance, further };
    let (coming, comings) = m.later("coming", &entering);
    let coming = fifo(&m.label("coming"), COMING, coming);
    let coming_room = m.wire("coming_room", 1);
    let reads = admit.is(Admit::Read) & coming_room;
    let used = m.delay("used", &m.select(context, &each(&|c| c.chunks)));
    let leaving = m.delay("leaving", &m.select(context, &each(&|c| c.empties)));
    let share_bits = chunk_bits + 3;
    let seven = m.delay("seven", &((free.zext(share_bits) << 3) - free.zext(share_bits)));
    // Frames that are admitted and not written whole count as the largest ones, and so do this one and what the next cycles may bring.
    let pending = m.reg("pending", clog2(u64::from(COMING) + 1)).reset(0);
    let most = lit(16, largest(cfg).div_ceil(CHUNK));
    let needed = m.delay("needed", &((pending.zext(16) + 2) * most).trunc(16));
    let few = m.delay("few", &free.zext(16).lt(needed));
    // Every packet of a context lies within 256 PSNs of its place. What is before it is a copy of one that was fetched.
    let places = m.mem("places", CONTEXTS, &bits(24)).style(Style::Distributed).build();
    let beyond = m.delay("beyond", &(ruling.first - places.read_now(context)));
    let before = beyond.bit(23);
    let outside = !before & beyond.slice(SLOT_BITS, 23 - SLOT_BITS).any();
    let decides = admit.is(Admit::Decide);
    let slot = m.wire_of("slot", &slot_shape);
    let taken = slot.coming | slot.there | before;
    let no_share = known & used.zext(share_bits).ge(seven);
    let no_room = (no_share | few | (known & leaving)).named("no_room");
    let keeps = (decides & !taken & !no_room & !outside).named("keeps");
    let fate = m.reg("fate", 2).no_reset();
    m.when(decides, |m| {
        let refused = taken.then(lit(2, Fate::Copy.code()), lit(2, Fate::Drop.code()));
        m.set(&fate, keeps.then(lit(2, Fate::Keep.code()), refused));
    });
    let entry = Stream::new(m, "entering", keeps, entering);
    m.drive(&coming_room, entry.ready);
    m.assert(!keeps | entry.ready, "there was a place when the slot was read");
    comings.connect(entry);
    let far = Class::Far.is(ruling.class);
    let at_once = far.then(lit(2, Fate::Drop.code()), lit(2, Fate::Pass.code()));
    let told = Decision { asked: ruling.asked, fate: acts.then(at_once, fate) };
    let tell = Stream::new(m, "tell", (acts & !admits) | admit.is(Admit::Tell), told);
    m.when(acts & admits, |m| m.set(&admit, Admit::Read));
    m.when(reads, |m| m.set(&admit, Admit::ReadOn));
    m.when(admit.is(Admit::ReadOn), |m| m.set(&admit, Admit::Decide));
    m.when(decides, |m| m.set(&admit, Admit::Tell));
    m.when(tell.fire(), |m| m.set(&admit, Admit::Idle));
    let full = m.delay_zero("full_now", &(decides & !taken & no_room));

    // The walk looks for the first packet from the context's place on, by the marks of slots that have one.
    let walk = m.fsm("walk", Walk::Idle);
    let walked = m.reg("walked", context_bits).no_reset();
    let (at, base, place) =
        (m.reg("at", 24).no_reset(), m.reg("base", 24).no_reset(), m.reg("place", 24).no_reset());
    let words = m.reg("words", SLOT_BITS - WORD_BITS + 1).no_reset();
    let (reporting, reported) = (m.wire("is_reporting", 1), m.wire("is_reported", context_bits));
    let due =
        (0..).zip(&contexts).map(|(i, c)| c.valid & (c.wanted | c.empties) & !(reporting & reported.eq(i)));
    let due = cat(&due.collect::<Vec<_>>());
    let turn = m.reg("turn", CONTEXTS).reset(0);
    let after = due & turn;
    let choice = lowest(after.any().then(after, due)).named("choice");
    let walk_begins = (walk.is(Walk::Idle) & due.any() & !sweeping).named("begins");
    m.when(walk_begins, |m| {
        m.set(&walked, choice);
        let later: Vec<Sig> = (0..CONTEXTS).map(|c| lit(context_bits, c).gt(choice)).collect();
        m.set(&turn, cat(&later));
        m.set(&walk, Walk::Begin);
    });
    let discards = m.reg("discards", 1).no_reset();
    let walked_flow = m.reg("walked_flow", flow_bits(cfg)).no_reset();
    m.when(walk.is(Walk::Begin), |m| {
        m.set(&discards, m.select(walked, &each(&|c| c.empties)));
        m.set(&walked_flow, m.select(walked, &each(&|c| c.flow)));
        m.set(&at, places.read_now(walked));
        m.set(&place, places.read_now(walked));
        m.set(&base, bases.read_now(walked));
        m.set(&words, 0);
        m.set(&walk, Walk::Settle);
    });
    // The ruling that moves `base` to the place may still be under way.
    m.when(walk.is(Walk::Settle), |m| {
        m.when((base - place).bit(23), |m| m.set(&base, place));
        m.set(&walk, Walk::Load);
    });
    let marks =
        m.mem("marks", CONTEXTS << (SLOT_BITS - WORD_BITS), &bits(WORD)).style(Style::Distributed).build();
    let word_of = |context: Sig, psn: Sig| cat(&[psn.slice(WORD_BITS, SLOT_BITS - WORD_BITS), context]);
    let from: Vec<Sig> = (0..WORD).map(|i| at.trunc(WORD_BITS).le(i)).collect();
    let loads = walk.is(Walk::Load);
    let word = m.reg("word", WORD).no_reset();
    m.when(loads, |m| {
        m.set(&word, marks.read_now(word_of(walked, at)) & cat(&from));
        m.set(&walk, Walk::Find);
    });
    let first = (0..WORD - 1)
        .rev()
        .fold(lit(WORD_BITS, WORD - 1), |index, i| word.bit(i).then(lit(WORD_BITS, i), index));
    let finds = walk.is(Walk::Find);
    // The ninth word is the rest of the first one.
    let none = (words.msb() & !word.any()).named("none");
    m.when(finds, |m| {
        m.set(&words, words + 1);
        let high = at.slice(WORD_BITS, 24 - WORD_BITS);
        m.set(&at, word.any().then(cat(&[first, high]), cat(&[lit(WORD_BITS, 0), high + 1])));
        m.when(word.any(), |m| m.set(&walk, Walk::Read))
            .otherwise_when(none, |m| m.set(&walk, Walk::End))
            .otherwise(|m| m.set(&walk, Walk::Load));
    });
    let walk_reads = (walk.is(Walk::Read) & !reads).named("walk_reads");
    m.when(walk_reads, |m| m.set(&walk, Walk::ReadOn));
    m.when(walk.is(Walk::ReadOn), |m| m.set(&walk, Walk::Look));
    let looks = walk.is(Walk::Look);
    // Before `base` nothing is wanted any more. Only a response reaches back.
    // Both stay while the slot is read.
    let ahead = m.delay("ahead_of_base", &(at - base));
    let passed = ahead.bit(23);
    let reaches =
        !ahead.slice(DISTANCE_BITS, 23 - DISTANCE_BITS).any() & ahead.trunc(DISTANCE_BITS).le(slot.distance);
    let throws = m.reg("throws", 1).no_reset();
    let found = Found { distance: slot.distance, further: slot.further, chain: slot.chain.clone() };
    let (seen, found) = (found.clone(), m.reg_of("found", &found));
    m.when(looks, |m| {
        m.set_all(&found, &seen);
        m.set(&throws, discards | passed);
        m.set(&walk, Walk::End);
        // One that is still on its way will have the walk begin again.
        m.when(slot.there & (discards | passed | reaches), |m| m.set(&walk, Walk::Fetch));
    });
    m.assert(!looks | slot.there | slot.coming, "a slot with a mark has a packet");
    // The one write of a slot and of a place in a cycle.
    // Few are on their way, for what arrives is decided on after them.
    let asked_for = m.reg("asked_for", clog2(u64::from(ASKED) + 1)).reset(0);
    let may_ask = m.reg("may_ask", 1).reset(1);
    // What a report tells stays as it is.
    let told_of = reporting & reported.eq(walked);
    let offers = walk.is(Walk::Fetch) & !decides & !acts & !told_of & (may_ask | throws);
    let (fetch_room, ask_room) = (m.wire("fetch_room", 1), m.wire("ask_room", 1));
    let fetch = Fetch { chain: found.chain.clone(), discard: throws };
    let fetch = Stream::new(m, "fetch", offers & ask_room, fetch);
    let claim = Claim { flow: walked_flow, first: at - found.distance.zext(24), last: at + found.further };
    let ask = Stream::new(m, "ask", offers & fetch_room & !throws, claim);
    m.drive(&fetch_room, fetch.ready);
    m.drive(&ask_room, ask.ready);
    let leaves = fetch.fire().named("leaves");
    let one = |pulse: Sig| pulse.zext(asked_for.width());
    let now = asked_for + one(ask.fire()) - one(executed);
    m.set(&asked_for, now);
    m.set(&may_ask, now.lt(ASKED));
    let (fetches, asks) = (half(&m.label("fetched"), fetch), half(&m.label("asked"), ask));
    let freed = m.wire("freed", 1);
    // `base` will be there when the next one is ruled on.
    let next = (at + throws.then(lit(24, 0), found.further) + 1).named("next");
    m.when(leaves, |m| {
        m.set(&at, next);
        m.set(&place, next);
        m.set(&words, 0);
        m.when(!throws, |m| m.set(&base, next));
        m.set(&walk, Walk::Load);
        m.when(freed, |m| m.set(&walk, Walk::Idle));
    });
    // A context that begins has its place from the ruling. One whose walk ends has all that is kept after `base`.
    let starts = (acts & is_ahead & !known).named("starts");
    let ends_walk = walk.is(Walk::End) & !acts;
    m.when(ends_walk, |m| m.set(&walk, Walk::Idle));
    let ended = m.mux(leaves, &next, &base);
    let ended = m.mux(starts, &ruling.base, &ended);
    places.write(starts | leaves | (ends_walk & !discards), starts.then(chosen, walked), &ended);

    // What has come into the store.
    let writes_slot = keeps | leaves | sweeping;
    let may_arrive = coming.valid & !writes_slot;
    let arrives = (kept.valid & may_arrive).named("arrives");
    kept.accept(may_arrive);
    coming.accept(arrives);
    m.set(&pending, pending + keeps.zext(pending.width()) - arrives.zext(pending.width()));
    let nothing = slot_shape.zeros();
    let (yes, no) = (lit(1, 1), lit(1, 0));
    let is_coming = Slot { coming: yes, there: no, ..nothing.clone() };
    let Coming { distance, further, .. } = coming.payload.clone();
    let is_there = Slot { coming: no, there: yes, distance, further, chain: kept.payload.clone() };
    let walk_place = cat(&[at.trunc(SLOT_BITS), walked]);
    // Marks follow the slots.
    let marked = m.mux(keeps, &word_of(context, psn), &word_of(walked, at));
    let bit_of = |psn: Sig| -> Vec<Sig> { (0..WORD).map(|i| psn.trunc(WORD_BITS).eq(i)).collect() };
    let bit = m.mux(keeps, &cat(&bit_of(psn)), &cat(&bit_of(at)));
    let old = marks.read_now(marked);
    let new = keeps.then(old | bit, old & !bit);
    let marked = m.mux(sweeping, &swept.trunc(marked.width()), &marked);
    marks.write(keeps | leaves | sweeping, marked, &sweeping.then(lit(WORD, 0), new));
    let place = m.mux(keeps, &cat(&[psn, context]), &walk_place);
    let place = m.mux(arrives, &cat(&[coming.psn, coming.context]), &place);
    let place = m.mux(sweeping, &swept, &place);
    let word = m.mux(keeps, &is_coming, &nothing);
    let word = m.mux(arrives, &is_there, &word);
    slots.write(writes_slot | arrives, place, &word);
    let asked = reads.then(cat(&[psn, context]), walk_place);
    let read = slots.read(m, lit(1, 1), asked, Collision::New);
    m.set_all(&slot, &m.delay("slot_read", &read));

    // Reports. Packets that are about to be handed on may still be kept then: what is missing after them need not wait.
    let wants = contexts.iter().map(|c| {
        let again = !c.told | c.since.eq(EACH);
        c.valid & !c.empties & (c.all | (loses(m, c) & again))
    });
    let wants = cat(&wants.collect::<Vec<_>>());
    let of = |context: Sig| Chosen {
        flow: m.select(context, &each(&|c| c.flow)),
        halved: m.select(context, &each(&|c| c.halved)),
        all: m.select(context, &each(&|c| c.all)),
    };
    let looks = Looks {
        due: wants,
        of: &of,
        place: &|context| {
            let (place, base) = (places.read_now(context), bases.read_now(context));
            m.mux((base - place).bit(23), &place, &base)
        },
        marks: &|context, word| marks.read_now(cat(&[word, context])),
    };
    let report = reports(m, cfg, &looks);
    m.drive(&reporting, report.busy);
    m.drive(&reported, report.context);
    let report_begun = m.delay_zero("report_begun", &report.begins);

    // The contexts.
    let mut lasts = lit(1, 0);
    let chunks_of = |beats: Sig| ((beats + (CHUNK - 1)).slice(2, beats.width() - 2)).zext(chunk_bits);
    for (c, one) in (0..).zip(&contexts) {
        let admitted = keeps & context.eq(c);
        let fetched = leaves & walked.eq(c);
        let here = arrives & coming.context.eq(c);
        let begun = walk_begins & choice.eq(c);
        let count = one.packets + admitted.zext(SLOT_BITS + 1) - fetched.zext(SLOT_BITS + 1);
        let given = fetched.then(chunks_of(found.chain.beats), lit(chunk_bits, 0));
        let gets = here.then(chunks_of(kept.beats), lit(chunk_bits, 0));
        m.when(one.valid, |m| {
            m.set(&one.packets, count);
            m.set(&one.chunks, one.chunks + gets - given);
        });
        // Nothing is admitted in that cycle.
        let last = (one.valid & fetched & one.packets.eq(1)).named(&format!("last_{c}"));
        lasts = lasts | last;
        m.when(begun, |m| m.set(&one.wanted, 0));
        m.when(here | (moves & hits.bit(c)), |m| m.set(&one.wanted, 1));
        m.when(tick & one.valid, |m| m.set(&one.age, one.age + 1));
        m.when(fetched, |m| m.set(&one.age, 0));
        let stopped = stops.valid & one.flow.trunc(cfg.qp_bits()).eq(stops.qp);
        m.when(one.valid & (stopped | one.age.eq(AGE)), |m| m.set(&one.empties, 1));
        let own = context.eq(c);
        m.when(!loses(m, one), |m| m.set(&one.told, 0));
        m.when(report_begun & reported.eq(c), |m| {
            m.set(&one.told, 1);
            m.set(&one.since, 0);
            m.set(&one.all, 0);
        });
        m.when(arrived & own, |m| {
            m.set(&one.halved, halved);
            m.when(one.since.ne(EACH), |m| m.set(&one.since, one.since + 1));
        });
        m.when(repeated & own, |m| {
            m.set(&one.forced, 1);
            m.set(&one.repeats, one.repeats + 1);
            m.when(!one.forced | moved | one.repeats.all(), |m| m.set(&one.all, 1));
            m.when(!one.forced | moved, |m| m.set(&one.repeats, 0));
        })
        .otherwise_when(moved & own, |m| m.set(&one.forced, 0));
        m.when(admitted & !one.valid, |m| {
            m.set(&one.halved, halved);
            m.set(&one.since, 0);
            m.set(&one.told, 0);
            m.set(&one.all, 0);
            m.set(&one.forced, 0);
            m.set(&one.repeats, 0);
            m.set(&one.valid, 1);
            m.set(&one.flow, ruling.flow);
            m.set(&one.packets, 1);
            m.set(&one.chunks, 0);
            m.set(&one.age, 0);
        });
        m.when(last, |m| {
            m.set(&one.valid, 0);
            m.set(&one.wanted, 0);
            m.set(&one.empties, 0);
        });
    }
    m.drive(&freed, lasts);
    let empty = !cat(&each(&|c| c.valid)).any();
    Shelf {
        decisions: half(&m.label("decided"), tell),
        fetches,
        asks,
        gaps: report.gaps,
        keeps: m.delay_zero("kept_now", &keeps),
        full,
        empty,
    }
}

/// As many packets are kept as make what is missing before them a loss.
fn loses(m: &Scope, context: &Context) -> Sig {
    let tolerance = clog2(TOLERANCE.into());
    let over: Vec<Sig> = (0..=HALVED).map(|halved| (context.packets >> (tolerance - halved)).any()).collect();
    m.select(context.halved, &over)
}
