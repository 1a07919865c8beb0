// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks over the SGEs of a message: where the payload of each packet lies, piece by piece.
//!
//! ```text
//!                  +--> first SGE of the WQE --+
//!  candidate ------+                           v
//!                  +----> place {va, left} -> cut -> part {packet, piece} --> commit
//!                              ^               |
//!  units --> store --> next SGE + <------------+ used up, or nothing in it
//!              |
//!              +--> inline data, beat by beat --> FIFO --> payload
//! ```
//!
//! A piece ends where its packet, its SGE, or a page of 4 KiB does. A part leaves in the cycle after its candidate comes, then one a cycle, and none
//! in the cycle in which the next candidate comes. An SGE of no bytes costs a cycle and gives none. A message that goes on in its middle begins its
//! walk at the first SGE, one a cycle, until it is where it was: the first SGE comes with the candidate, less what of the message was sent already,
//! and what is more than it holds is taken from the next (its address goes up by that, its length down). Where beats are narrow, each of these
//! steps takes two cycles.
//!
//! Each piece is to be looked up with what is left of its SGE, so that one that its region does not hold is refused at its
//! first byte (IBTA volume 1, 10.8.3.1). The key of an SGE without bytes is not looked at (10.8.3.2).
//!
//! A READ's answer goes into its SGEs: each of them is looked up before the request is sent, whole, for one piece. So is an
//! atomic's. Their further SGEs go to those who will place the answer, as the walk comes by.
//!
//! Inline data come from the WQE as if it were memory: the first byte is byte 48 of the first unit. A message of them is one
//! packet, for no path MTU is smaller. Their beats wait in a FIFO for their turn in `payload`; a packet of them is one part,
//! and costs a cycle a beat.
//!
//! The units of a WQE are kept until its last packet has passed, or, where the message stops before that, until another WQE
//! begins. Which of packet, SGE and page ends first is known in a register beside the place, but where beats are narrow: they are compared when the place is
//! set. Longest path: the next SGE out of the store, what is to be passed over of it, and these comparisons. Reset: nothing is kept.

use crate::config::RnicConfig;
use crate::memory::{next_page, to_page_end};
use crate::requester::fetch::{grain, UNIT};
use crate::requester::list::{Released, BANKS, MAX_INLINE, UNITS};
use crate::requester::segment::{Candidate, Packet};
use crate::stream::{deep_fifo, half};
use crate::types::TableWrite;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::send_wqe::{sge, INLINE_AT, SGES_PER_UNIT};

/// A packet, or a piece of its payload.
#[derive(Clone, Bundle)]
pub struct Part {
    /// The packet, the same in all its parts.
    pub packet: Packet,
    /// There is a piece in host memory.
    pub asks: Sig,
    /// Its key.
    pub key: Sig,
    /// Its address; of inline data, only the lane counts.
    pub va: Sig,
    /// What is left of its SGE.
    pub rest: Sig,
    /// Its bytes, all of them of one page of 4 KiB.
    pub bytes: Sig,
    /// The packet's payload is inline.
    pub inline: Sig,
    /// Number of its SGE.
    pub number: Sig,
    /// Last part of the packet.
    pub last: Sig,
}

impl Part {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Part {
            packet: Packet::of(cfg),
            asks: bits(1),
            key: bits(32),
            va: bits(64),
            rest: bits(32),
            bytes: bits(13),
            inline: bits(1),
            number: bits(4),
            last: bits(1),
        }
    }
}

/// A beat of inline data.
#[derive(Clone, Bundle)]
pub struct Inline {
    /// The bytes, in the lanes of the WQE.
    pub data: Sig,
    /// Last beat of the message.
    pub last: Sig,
}

impl Inline {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Inline { data: bits(8 * cfg.beat_bytes), last: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Gathered {
    /// Parts, in the order of the packets.
    pub parts: Stream<Part>,
    /// Inline data, in the order of the parts that have some.
    pub inline: Stream<Inline>,
    /// Banks whose units are not needed any more, one bit each.
    pub released: Sig,
    /// A further SGE of a READ or an atomic, for those who place its answer.
    pub kept: KeptSge,
}

/// Bits of an SGE.
pub const SGE_BITS: u32 = 128;

/// A further SGE of a send WQE.
#[derive(Clone, Bundle)]
pub struct KeptSge {
    /// In this cycle.
    pub valid: Sig,
    /// Whose.
    pub qp: Sig,
    /// Index of the WQE, free-running.
    pub index: Sig,
    /// Which one: 0 is the first of its continuation units.
    pub number: Sig,
    /// 16 bytes.
    pub sge: Sig,
}

impl KeptSge {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let (qp, index, number) = (bits(cfg.qp_bits()), bits(16), bits(4));
        KeptSge { valid: bits(1), qp, index, number, sge: bits(SGE_BITS) }
    }
}

/// Beats of inline data that may wait for what has been read before them.
const INLINE_BEATS: u32 = 128;

/// Place in the SGEs of a message.
#[derive(Clone, Bundle)]
struct Place {
    va: Sig,
    key: Sig,
    /// Bytes of the SGE from there on, with a sign: below zero is what must be passed over behind it.
    left: Sig,
    /// Bytes from there to the end of its page.
    page_left: Sig,
    /// Number of the SGE behind it, less one.
    next: Sig,
}

/// Where a walk is.
#[derive(Clone, Bundle)]
struct Walk {
    at: Place,
    /// Bytes that the packet still needs.
    needs: Sig,
    /// Of a READ or an atomic, bytes that are not looked up.
    to_probe: Sig,
}

/// What there is to do there.
#[derive(Clone, Bundle)]
struct Facts {
    /// The SGE holds something: there is a piece.
    here: Sig,
    /// All that the packet needs is in it.
    holds: Sig,
    /// Otherwise it ends with the page, before the SGE does.
    page_first: Sig,
    /// Nothing is left of the SGE.
    used_up: Sig,
    /// It is the last one.
    all: Sig,
}

impl Walk {
    /// `walks`: there are pieces at all; `probes`: SGEs are looked up whole.
    fn facts(&self, walks: Sig, probes: Sig) -> Facts {
        let (needs, page_left) = (self.needs, self.at.page_left);
        let (left, large) = (self.at.left.trunc(13), self.at.left.slice(13, 19).any());
        let holds = (large | needs.le(left)) & needs.le(page_left);
        Facts {
            here: walks & !self.at.left.bit(32) & self.at.left.any(),
            holds,
            page_first: large | page_left.lt(left),
            used_up: probes | (!large & left.le(needs) & left.le(page_left)),
            all: probes.then(self.at.left.trunc(32).ge(self.to_probe), holds),
        }
    }
}

/// The walker. `stored`: continuation units.
#[module]
pub fn gather(
    m: &Scope,
    cfg: &RnicConfig,
    candidates: Stream<Candidate>,
    stored: TableWrite<Sig>,
) -> Gathered {
    // The place: the candidate's own, or where the walk has come to. It is known when the candidate has entered.
    let shape = Place { va: bits(64), key: bits(32), left: bits(33), page_left: bits(13), next: bits(4) };
    let at = m.reg_of("at", &shape);
    let needs = m.reg("needs", 13).no_reset();
    // Of a READ or an atomic, whole SGEs are looked up.
    let to_probe = m.reg("to_probe", 32).no_reset();
    let comes = candidates.fire();
    let begun = Place {
        va: candidates.sge_va,
        key: candidates.sge_key,
        left: candidates.sge_left,
        page_left: to_page_end(candidates.sge_va),
        next: lit(4, 0),
    };
    let begun = Walk {
        at: m.mux(candidates.begins, &begun, &at),
        needs: candidates.packet.bytes,
        to_probe: candidates.packet.length,
    };
    let end = m.reg("end_beat", 9 - cfg.lane_bits()).no_reset();
    let last_byte = candidates.packet.bytes.trunc(9) + (INLINE_AT as u32 - 1);
    m.when(comes, |m| m.set(&end, last_byte.slice(cfg.lane_bits(), end.width())));
    let (coming_pays, coming_probes) = (candidates.pays & !candidates.inline, candidates.packet.answered);
    let coming_next = m.mux(candidates.begins, &lit(4, 0), &at.next);
    let (coming_unit, coming_sge) = (cat(&[coming_next.slice(2, 2), candidates.bank]), coming_next.trunc(2));
    let candidates = half(&m.label("candidates"), candidates);
    let packet = &candidates.packet;
    let bare = !candidates.pays;
    let is_inline = candidates.pays & candidates.inline;
    let probes = candidates.pays & packet.answered;
    let walks = candidates.pays & !candidates.inline;

    // Where there is time, a step is two: it is compared, and then something comes of it.
    let steps = cfg.unhurried().then(|| m.reg("measured", 1).reset(0));
    let measured = steps.unwrap_or(lit(1, 1));

    // The piece. What it is follows from the place: where there is no time, the facts are worked out with the place itself.
    let walk = Walk { at: at.clone(), needs, to_probe };
    let (next, moves) = (m.wire_of("next", &walk), m.wire("moves", 1));
    let facts = match cfg.unhurried() {
        true => m.delay("facts", &walk.facts(walks, probes)),
        false => {
            let goes_on = candidates.valid;
            let (walks, probes) =
                (m.mux(goes_on, &walks, &coming_pays), m.mux(goes_on, &probes, &coming_probes));
            let next_facts = next.facts(walks, probes);
            let facts = m.reg_of("facts", &next_facts);
            m.when(moves, |m| m.set_all(&facts, &next_facts));
            facts
        }
    };
    let here = facts.here & measured;
    let (page_left, left) = (at.page_left, at.left.trunc(13));
    let bytes = m.mux(facts.holds, &needs, &m.mux(facts.page_first, &page_left, &left));
    let bytes = match cfg.unhurried() {
        true => here.then(bytes, lit(13, 0)),
        false => bytes,
    };
    let Facts { used_up, all, .. } = facts;

    // Inline data: a beat a cycle, from the one with the first byte to the one with the last.
    let per_unit = 64 / cfg.beat_bytes;
    let first_beat = INLINE_AT as u32 / cfg.beat_bytes;
    let beat_bits = clog2(u64::from((INLINE_AT as u32 + MAX_INLINE).div_ceil(cfg.beat_bytes)));
    let beat = m.reg("beat", beat_bits).reset(first_beat);
    let last_beat = beat.zext(9).eq(end.zext(9));
    let in_unit = per_unit.trailing_zeros();
    let unit_of = |beat: Sig| match in_unit {
        0 => beat,
        _ => beat.slice(in_unit, beat_bits - in_unit),
    };
    let unit_of_beat = unit_of(beat);

    // The store: what comes next, an SGE or inline data.
    let first = cat(&[candidates.sge_va, candidates.sge_key, candidates.sge_left.trunc(32)]);
    let (inline_room, parts_room) = (m.wire("inline_room", 1), m.wire("parts_room", 1));
    // The walk goes on to the next place in the store, or inline data do. Behind their last beat nothing of the store is looked at.
    let walks_on = m.wire("walks_on", 1);
    let goes_inline = (is_inline & !last_beat & inline_room).named("goes_inline");
    let (quarter, data) = if grain(cfg) < UNIT {
        // Read by the SGE in the cycle before it is looked at: the walk has time, and inline data come one beat behind the other.
        m.discard(&(walks_on, goes_inline));
        let store = m.mem("store", BANKS * UNITS * SGES_PER_UNIT as u32, &bits(SGE_BITS));
        let store = store.style(Style::Block).build();
        store.write(stored.enable, stored.index, &stored.entry);
        let per_sge = SGE_BITS / 8 / cfg.beat_bytes;
        let behind = beat_bits - per_sge.trailing_zeros();
        let sge_of = |beat: Sig| beat.slice(per_sge.trailing_zeros(), behind);
        let goes_on = candidates.valid & is_inline & inline_room & !last_beat;
        let coming = m.mux(goes_on, &(beat + 1), &beat);
        let at_inline = (sge_of(coming) - SGES_PER_UNIT as u32).trunc(at.next.width());
        let place = m.mux(is_inline, &at_inline, &at.next);
        let reads = candidates.valid & candidates.banked;
        let sge = store.read(m, reads, cat(&[place, candidates.bank]), Collision::Never);
        let bytes = m.mux(unit_of_beat.eq(0), &first, &sge);
        let beats = bytes.chunks(8 * cfg.beat_bytes);
        (sge, m.select(beat.trunc(per_sge.trailing_zeros()), &beats))
    } else {
        let store = m.mem("store", BANKS * UNITS, &bits(512)).style(Style::Distributed).build();
        store.write(stored.enable, stored.index, &stored.entry);
        // Inline data go from unit to unit as the walk does. The unit of the place is in a register: it is read when the candidate comes, and when it goes on.
        let next_unit = unit_of(beat + 1).trunc(2) - 1;
        let following = m.mux(is_inline, &next_unit, &(at.next + 1).slice(2, 2));
        let following = cat(&[following, candidates.bank]);
        let (unit, quarter) = (m.reg("unit", 512).no_reset(), m.reg("quarter", SGE_BITS).no_reset());
        let read = store.read_now(m.mux(candidates.valid, &following, &coming_unit));
        // The SGE of the place is in one, too: inline data need none.
        let coming_sge = m.mux(candidates.valid, &(at.next + 1).trunc(2), &coming_sge);
        m.when(!candidates.valid | goes_inline, |m| m.set(&unit, read));
        m.when(!candidates.valid | walks_on, |m| {
            m.set(&quarter, m.select(coming_sge, &read.chunks(SGE_BITS)))
        });
        // Lanes before the first byte mean nothing.
        let in_wqe = cat(&[unit.trunc(8 * INLINE_AT as u32), first]);
        let inline = m.mux(unit_of_beat.eq(0), &in_wqe, &unit);
        let data = match in_unit {
            0 => inline,
            _ => m.select(beat.trunc(in_unit), &inline.chunks(8 * cfg.beat_bytes)),
        };
        (quarter, data)
    };
    let following = |f| crate::fields::field(&sge::LAYOUT, &f, quarter);

    // What goes out.
    let leaves = candidates.valid & m.mux(is_inline, &(last_beat & inline_room), &(bare | here));
    let last = bare | is_inline | all;
    let part = Part {
        packet: packet.clone(),
        asks: here,
        key: at.key,
        va: m.mux(is_inline, &lit(64, INLINE_AT), &at.va),
        rest: at.left.trunc(32),
        bytes: m.mux(is_inline, &packet.bytes, &bytes),
        inline: is_inline,
        number: at.next,
        last,
    };
    let parts = Stream::new(m, "part", leaves, part);
    m.drive(&parts_room, parts.ready);
    let fires = parts.fire();
    let taken = fires & last;
    candidates.accept(taken);

    let enters = candidates.valid & is_inline & (!last_beat | parts_room);
    let inline = Stream::new(m, "inline", enters, Inline { data, last: last_beat });
    m.drive(&inline_room, inline.ready);
    m.when(inline.fire(), |m| m.set(&beat, m.mux(last_beat, &lit(beat_bits, first_beat), &(beat + 1))));
    if grain(cfg) == UNIT {
        let next_unit = unit_of(beat + 1).trunc(2) - 1;
        m.when(inline.fire(), |m| m.set(&at.next, cat(&[lit(2, 0), next_unit])));
    }
    let inline = deep_fifo(&m.label("inline"), INLINE_BEATS, inline);

    // On to the next SGE: behind a piece that uses up this one, or where there is nothing in it.
    let empty = candidates.valid & walks & measured & !here;
    let over = m.mux(here, &lit(33, 0), &at.left);
    let on = empty | (fires & here & used_up);
    m.drive(&walks_on, on);
    let more = page_left - needs;
    let va = following(sge::ADDR) - over.sext(64);
    let (page_at, behind) = (following(sge::ADDR).trunc(12), over.trunc(12));
    let further = Place {
        va,
        key: following(sge::LKEY),
        left: following(sge::LEN).zext(33) + over,
        // As `to_page_end(va)`, beside the difference.
        page_left: cat(&[behind - page_at, page_at.eq(behind)]),
        next: at.next + 1,
    };
    let inside = Place {
        va: m.mux(all, &(at.va + needs.zext(64)), &next_page(at.va)),
        left: at.left - m.mux(all, &needs, &page_left).zext(33),
        // Nothing is left where both are equal: the next piece begins a page.
        page_left: cat(&[all.then(more.trunc(12), lit(12, 0)), !all | page_left.eq(needs) | more.bit(12)]),
        ..at.clone()
    };
    // Which of them it is where it moves is known before whether it does.
    let stepped = Walk {
        at: m.mux(here & !used_up, &inside, &further),
        needs: m.mux(here, &(needs - m.mux(used_up, &left, &page_left)), &needs),
        to_probe: m.mux(here, &(to_probe - at.left.trunc(32)), &to_probe),
    };
    m.set_all(&next, &m.mux(candidates.valid, &stepped, &begun));
    m.drive(&moves, comes | empty | (fires & here));
    m.when(moves, |m| m.set_all(&walk, &next));
    if let Some(measured) = steps {
        m.set(&measured, candidates.valid & walks & !(fires | empty));
    }

    // Banks: that of a message that is done, and that of one that stopped when another begins.
    let holds = m.reg("holds", 1).reset(0);
    let held = m.reg("held", 2).no_reset();
    let done = Released { valid: taken & packet.last & candidates.banked, bank: candidates.bank };
    let stopped = Released { valid: taken & candidates.begins & holds, bank: held };
    m.when(taken & candidates.begins, |m| {
        m.set(&holds, candidates.banked);
        m.set(&held, candidates.bank);
    });
    m.when(taken & packet.last, |m| m.set(&holds, 0));
    let released = m.reg("released", BANKS).reset(0);
    m.set(&released, done.mask() | stopped.mask());
    let valid = on & probes & !(here & all);
    let kept = KeptSge { valid, qp: packet.qp, index: packet.index, number: at.next, sge: quarter };
    // It is far from here.
    let kept = m.delay("kept_sge", &kept);
    Gathered { parts, inline, released, kept }
}

#[cfg(test)]
mod tests;
