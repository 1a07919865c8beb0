// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds in WQEs that were sent before the packets that are to be sent again.
//!
//! ```text
//!  units --> which PSNs has it? --> the next one that is todo --> WQEs, each with the packet
//!                    |    ^               |           |
//!                    v    |               |           +--> restart: go back
//!              [ walk: PSN of the next    +--> look -- again
//!                WQE, the READ before it ]
//! ```
//!
//! A walk begins at the completer's oldest WQE, whose first PSN is known; that of each further WQE follows from the lengths before it. While it lasts the completer goes on, and the
//! host may use the places of what is done for other WQEs. So each WQE is compared with the oldest one as it comes: what is before that is passed over, and the oldest one has the
//! PSN that the completer tells.
//!
//! | flow | WQE | packets that may be due |
//! |---|---|---|
//! | requests | SEND, WRITE | each |
//! | requests | READ, atomic | the request, by its first PSN |
//! | responses | READ | a request for each response that is missing |
//! | responses | atomic | the request |
//!
//! A probe is the oldest packet that is not acknowledged, if its WQE is still the oldest; of a READ it asks for all that has not come.
//!
//! Only the first unit of a WQE is looked at. If a packet is due of one with more SGEs or inline data than that holds, the queue pair goes back to its oldest PSN, as without
//! selective retransmission.
//!
//! **Distance:** of a READ or atomic that begins with its first PSN, that from the READ or atomic before it in this walk; of the first one in a walk, whose responses come before all
//! others that are missing, the largest.
//!
//! **Throughput:** a WQE without a due packet in 6 cycles, a packet in 4 more. **Reset:** idle. The longest path is from the word of due PSNs through the lowest one to its
//! register.

use crate::config::RnicConfig;
use crate::fields::field;
use crate::path::{bytes_of_packets, whole_mtus};
use crate::requester::again::{again, lowest, Look, Proof, Repeated, Seen, Walked, CONTEXTS};
use crate::requester::fetch::Fetched;
use crate::requester::list::{inline_room, sge_room, Repeat, Wqe, TOTAL_BITS};
use crate::requester::segment::Restart;
use crate::requester::{is_local, Ask, Asked};
use crate::rx::keep::report::Gap;
use crate::stream::half;
use crate::types::{Oldest, QpBroadcast, TableWrite, DISTANCE_BITS};
use ferrowire_rtl::{bits, cat, lit, module, Bundle, Collision, Fsm, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::send_wqe::{self, SendOpcode};

/// Bits of a PSN within a word.
const WORD_BITS: u32 = 5;

/// What comes out.
#[derive(Interface)]
pub struct Resent {
    /// Packets that are to be sent again.
    pub wqes: Stream<Wqe>,
    /// A batch has been looked at.
    pub walked: Walked,
    /// Which PSNs are looked for.
    pub look: Look,
    /// QPs that go back: what is due of them cannot be sent alone.
    pub restarts: Stream<Restart>,
    /// A unit's place is free.
    pub returned: Sig,
}

/// What queue pairs with selective retransmission are told of their packets.
#[derive(Interface)]
pub struct News {
    /// What is missing of requests, as peers report it, and of responses.
    pub gaps: Stream<Gap>,
    /// Responses to what was asked for again.
    pub proofs: Stream<Proof>,
    /// Queue pairs of which the oldest packet is to be sent again.
    pub probes: Stream<Sig>,
}

/// What comes of it.
#[derive(Interface)]
pub struct Repaired {
    /// Packets that are to be sent again.
    pub wqes: Stream<Wqe>,
    /// WQEs that are wanted once more.
    pub asks: Stream<Ask>,
    /// QPs that go back.
    pub restarts: Stream<Restart>,
    /// A unit's place is free.
    pub returned: Sig,
}

/// [`again`] and [`resend`](fn@resend). `repeated`: what became of a packet; `asked`: what becomes of `asks`.
pub fn repair(
    m: &Scope,
    cfg: &RnicConfig,
    (broadcast, oldest): (QpBroadcast, TableWrite<Oldest>),
    units: Stream<Fetched>,
    news: News,
    repeated: Repeated,
    asked: Asked,
) -> Repaired {
    let seen = m.wire_of("seen", &Seen::of());
    let resent = resend(m, cfg, broadcast, oldest, units, seen.clone());
    let News { gaps, proofs, probes } = news;
    let again = again(m, cfg, gaps, proofs, probes, repeated, resent.walked, asked, resent.look);
    m.set_all(&seen, &again.seen);
    let Resent { wqes, restarts, returned, .. } = resent;
    Repaired { wqes, asks: again.asks, restarts, returned }
}

/// Where a walk is.
#[derive(Clone, Bundle)]
struct Walk {
    /// The first PSN of its next WQE.
    psn: Sig,
    /// The last PSN of the READ or atomic before that.
    read: Sig,
    /// There was one.
    reads: Sig,
}

impl Walk {
    fn of() -> Self {
        Walk { psn: bits(24), read: bits(24), reads: bits(1) }
    }
}

/// What is needed of the completer's oldest.
#[derive(Clone, Bundle)]
struct Heard {
    index: Sig,
    first_psn: Sig,
    psn: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum State {
    Idle,
    /// The tables are there.
    Row,
    /// So is the number of packets.
    Span,
    /// A word of due PSNs.
    Seek,
    /// The PSN in it.
    Found,
    /// Whether it is the WQE's.
    Judge,
    Emit,
    /// The QP goes back.
    Restart,
    Done,
}

/// Looks through WQEs; see the page's top.
#[module]
pub fn resend(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    oldest: TableWrite<Oldest>,
    units: Stream<Fetched>,
    seen: Seen,
) -> Resent {
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    let wqes = &units.payload;
    // Further units are passed over.
    let is_first = units.part.eq(0);
    let begins = (idle & units.valid & is_first).named("begins");
    let (probes, context) = (wqes.tag.probe, wqes.tag.context);
    m.discard(&(wqes.tag.again, wqes.ends, wqes.start));
    let given = &broadcast.attributes;
    let heard = |of: &Oldest| Heard { index: of.index, first_psn: of.first_psn, psn: of.psn };
    let oldests = m.mem("oldest", cfg.qps, &heard(&Oldest::of(cfg))).style(Style::Block).build();
    oldests.write(oldest.enable, oldest.index, &heard(&oldest.entry));
    m.discard(&oldest.entry);
    let oldest = oldests.read(m, idle, wqes.qp, Collision::New);
    let mtus = m.mem("mtus", cfg.qps, &bits(3)).style(Style::Block).build();
    mtus.write(given.enable, given.index, &given.entry.mtu);
    m.discard(&(given.entry.clone(), broadcast.state.clone()));
    let mtu = mtus.read(m, idle, wqes.qp, Collision::New);
    let walks = m.mem("walks", CONTEXTS, &Walk::of()).style(Style::Distributed).build();
    let walk = m.delay("walk", &walks.read_now(context));

    // What the WQE says.
    let wqe = |f| field(&send_wqe::LAYOUT, &f, wqes.piece);
    let opcode = wqe(send_wqe::OPCODE);
    let is = |code: SendOpcode| opcode.eq(code.code());
    let is_read = m.delay("is_read", &is(SendOpcode::Read));
    let is_atomic = m.delay("is_atomic", &(is(SendOpcode::CmpSwap) | is(SendOpcode::FetchAdd)));
    let local = m.delay("local", &is_local(cfg, opcode));
    let inline = wqe(send_wqe::INLINE);
    let sges = wqe(send_wqe::NUM_SGE);
    let first_length = wqe(send_wqe::SGE0_LEN) & sges.any().repeat(32);
    let length = m.delay("length", &inline.then(wqe(send_wqe::INLINE_LEN).zext(32), first_length));
    // More than the first unit holds.
    let spreads = inline.then(wqe(send_wqe::INLINE_LEN).gt(inline_room(1)), sges.gt(sge_room(1)));
    let spreads = m.delay("spreads", &spreads);
    let last_byte = m.delay("last_byte", &(length - 1));
    let some = m.delay("some", &length.any());
    let answered = is_read | is_atomic;
    let (mtu_then, info) = (m.delay("mtu_then", &mtu), m.reg_of("info", &seen));
    m.discard(&info.todo);
    let broken = wqes.error;

    // Its PSNs.
    let at_row = state.is(State::Row);
    let oldest_psn = m.reg("oldest_psn", 24).no_reset();
    let (behind, at_oldest) = (m.reg("behind", 1).no_reset(), m.reg("at_oldest", 1).no_reset());
    let stale = m.reg("stale", 1).no_reset();
    let (first, read_before, reads_before) = (
        m.reg("first", 24).no_reset(),
        m.reg("read_before", 24).no_reset(),
        m.reg("reads_before", 1).no_reset(),
    );
    m.when(begins, |m| m.set(&state, State::Row));
    m.when(at_row, |m| {
        let is_oldest = wqes.index.eq(oldest.index);
        m.set(&behind, (wqes.index - oldest.index).bit(15));
        m.set(&at_oldest, is_oldest);
        m.set(&first, m.mux(is_oldest, &oldest.first_psn, &walk.psn));
        m.set(&read_before, walk.read);
        m.set(&reads_before, walk.reads & !is_oldest);
        m.set_all(&info, &seen);
        // What was missing when the report left has been acknowledged since.
        m.set(&stale, (seen.base - oldest.psn).bit(23) & !seen.answer);
        m.set(&oldest_psn, oldest.psn);
        m.set(&state, State::Span);
    });
    let spans = state.is(State::Span);
    let more = (some & !is_atomic).then(whole_mtus(m, last_byte, mtu_then), lit(24, 0));
    let end = first + (!local).then(more + 1, lit(24, 0));
    let psn = m.reg("psn", 24).no_reset();
    let next_psn = m.reg("next_psn", 24).no_reset();
    let limit = m.reg("limit", 24).no_reset();
    let cursor = m.reg("cursor", 24).no_reset();
    let nothing = m.reg("nothing", 1).no_reset();
    let from = (info.base - first).msb();
    m.when(spans, |m| {
        m.set(&next_psn, end);
        // The PSN after the last one that may be due.
        let whole = m.mux(info.answer | !answered, &end, &(first + 1));
        m.set(&limit, whole);
        m.set(&cursor, m.mux(from, &first, &info.base));
        let foreign = local | (info.answer & !answered);
        m.set(&nothing, behind | stale | foreign | broken);
        m.set(&state, State::Seek);
        // The oldest packet, if it is still in this WQE.
        m.when(probes, |m| {
            m.set(&psn, oldest_psn);
            m.when(at_oldest & !broken & !local, |m| {
                m.when(spreads, |m| m.set(&state, State::Restart)).otherwise(|m| m.set(&state, State::Emit))
            })
            .otherwise(|m| m.set(&state, State::Done));
        });
    });
    let seeks = state.is(State::Seek);
    let before = |a: Sig, b: Sig| (a - b).msb();
    let in_reach = before(cursor, limit) & before(cursor, info.top) & !nothing;
    let from_here: Vec<Sig> = (0..1 << WORD_BITS).map(|i| cursor.trunc(WORD_BITS).le(i)).collect();
    let word = m.reg("word", 1 << WORD_BITS).no_reset();
    let reaches = m.reg("reaches", 1).no_reset();
    m.when(seeks, |m| {
        m.set(&word, seen.todo & cat(&from_here));
        m.set(&reaches, in_reach);
        m.set(&state, State::Found);
    });
    let finds = state.is(State::Found);
    let high = cursor.slice(WORD_BITS, 24 - WORD_BITS);
    let found = cat(&[lowest(word).0, high]);
    let has = m.reg("has", 1).no_reset();
    let inside = before(psn, limit) & before(psn, info.top) & !before(psn, cursor);
    m.when(finds, |m| {
        m.set(&psn, found);
        m.set(&has, word.any());
        m.set(&state, State::Judge);
    });
    m.when(state.is(State::Judge), |m| {
        m.set(&cursor, cat(&[lit(WORD_BITS, 0), high + 1]));
        m.when(!reaches | (has & !inside), |m| m.set(&state, State::Done))
            .otherwise_when(has & spreads, |m| m.set(&state, State::Restart))
            .otherwise_when(has, |m| m.set(&state, State::Emit))
            .otherwise(|m| m.set(&state, State::Seek));
    });
    let emits = state.is(State::Emit);
    let offset = bytes_of_packets(psn - first, mtu_then);

    // Its distance.
    let apart = first - read_before - 1;
    let furthest = lit(DISTANCE_BITS, (1 << DISTANCE_BITS) - 1);
    let far = apart.slice(DISTANCE_BITS, 24 - DISTANCE_BITS).any() | !reads_before;
    let distance =
        far.then(furthest, apart.trunc(DISTANCE_BITS)) & (answered & psn.eq(first)).repeat(DISTANCE_BITS);
    let repeat = Repeat {
        valid: lit(1, 1),
        probe: probes,
        part: info.answer & !probes,
        first: lit(1, 1),
        more: lit(1, 0),
        psn,
        offset,
        context,
        distance,
    };
    let wqe = Wqe {
        qp: wqes.qp,
        index: wqes.index,
        unit: wqes.piece,
        total: length.zext(TOTAL_BITS),
        too_large: lit(1, 0),
        banked: lit(1, 0),
        bank: lit(2, 0),
        error: lit(1, 0),
        start: lit(1, 0),
        tag: wqes.tag.clone(),
        last: wqes.last,
        repeat,
    };
    let out = Stream::new(m, "out", emits, wqe);
    m.when(out.fire(), |m| {
        m.set(&cursor, psn + 1);
        m.when(probes, |m| m.set(&state, State::Done)).otherwise(|m| m.set(&state, State::Seek));
    });
    let restart = Restart { qp: wqes.qp, hold: lit(1, 0), mild: lit(1, 1) };
    let restarts = Stream::new(m, "restart", state.is(State::Restart), restart);
    let spreads_due = m.reg("spreads_due", 1).no_reset();
    m.when(begins, |m| m.set(&spreads_due, 0));
    m.when(restarts.fire(), |m| {
        m.set(&state, State::Done);
        m.set(&spreads_due, 1);
    });
    let done = state.is(State::Done);
    m.when(done, |m| m.set(&state, State::Idle));
    units.accept(done | (idle & !is_first));
    let read = m.mux(answered, &(next_psn - 1), &read_before);
    let next = Walk { psn: next_psn, read, reads: reads_before | answered };
    walks.write(done & !behind & !probes, context, &next);
    let over = !behind & (broken | spreads_due | !before(next_psn, info.top));
    let walked =
        Walked { valid: done & wqes.last, probe: probes, context, qp: wqes.qp, index: wqes.index + 1, over };
    let look = Look { context, word: cursor.slice(WORD_BITS, 3) };

    let restarts = half(&m.label("restarts"), restarts);
    Resent { wqes: out, walked, look, restarts, returned: m.delay_zero("returned", &units.fire()) }
}

#[cfg(test)]
#[path = "again_tests.rs"]
mod tests;
