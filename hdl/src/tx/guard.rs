// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps RoCE frames of the raw Ethernet queue pair off the wire, and finds those that return inside the card.
//!
//! ```text
//!  frame ----------------------------------------+--> gate --> frame, poisoned where it is refused
//!    |                                           |     ^
//!    +--> word of 16 bits --> reg --> walk ------+-----+--> verdicts --> requester::confirm
//!    |          ^                      |         |
//!    |          +-- place of the next -+         |
//!    +--> destination = port's? --> reg ---------+
//! ```
//!
//! | port | what |
//! |---|---|
//! | `frame` in, out | frames from `build` to `append`, a beat each |
//! | `allowed` | the owner of the card lets raw frames be RoCE |
//! | `anew` | pulses when the raw queue pair starts |
//! | `own_mac` | the port's MAC address; a raw frame to it loops, and no other |
//! | `verdicts` | for each raw frame whose payload was read, in order: it does not leave |
//! | `refused` | pulses when a frame ends that is refused for what it is |
//!
//! A raw frame begins in the first lane, and all fields that count are words of 16 bits at even places. So the walk asks for one word after the
//! other, whichever beat it is in: EtherType, after up to [`TAGS`] tags (IEEE 802.1Q); of IPv4 (RFC 791) the header's length, the offset of a
//! fragment and the protocol; of IPv6 (RFC 8200) the next header, after up to [`EXTENSIONS`] extension headers; the destination port of UDP. A frame is
//! refused if it has EtherType 0x8915 (RoCE, IBTA annex A16) or UDP destination port 4791 (RoCE v2, annex A17), and if it has more tags or
//! extension headers than are walked. A fragment that does not begin its packet has no UDP header, and nothing in it can take that one's
//! place (RFC 1858, 2.1: an offset is a multiple of 8 bytes, and the header has 8). A frame that ends before a field has none.
//!
//! `append` keeps a frame until its last beat has come, so a mark in the last beat is early enough. A frame that is refused, or whose payload could not be read,
//! bars the queue pair: its later frames do not leave either, until it starts anew.
//!
//! Latency 0 and a beat a cycle for all other frames. A raw frame waits two cycles for each word, one for ARP, 5 for UDP over IPv4, and a cycle in each beat
//! until all is known. Paths from `ready` to `ready`, through two gates. Reset: no frame is under way, nothing is barred.

use super::{FrameBeat, FrameOf};
use crate::config::RnicConfig;
use crate::requester::PENDING;
use crate::stream::deep_fifo;
use ferrowire_rtl::{cat, lit, module, Fsm, Interface, Scope, Sig, Stream};
use ferrowire_spec::wire::eth::{self, ethertype};
use ferrowire_spec::wire::{ipv4, ipv6, udp, vlan};

/// Tags that are walked over.
pub const TAGS: u32 = 2;
/// Extension headers of IPv6 that are walked over.
pub const EXTENSIONS: u32 = 8;
/// EtherTypes of tags: those of customers, of providers, and what came before the latter.
const TAG_TYPES: [u16; 3] = [ethertype::VLAN, 0x88a8, 0x9100];
/// Extension headers of IPv6 whose second byte is their length in units of 8 bytes, less one: options, routing, mobility, HIP, shim6 (IANA's list).
const LONG: [u8; 6] = [0, 43, 60, 135, 139, 140];
/// That whose length is in units of 4 bytes, less two (RFC 4302, 2.2).
const AUTHENTICATION: u8 = 51;
/// Bits of a word's place: a frame has 2,048 words, and the header after the longest one begins within as many again.
const PLACE: u32 = 12;
/// The place of the first EtherType.
const TYPE_AT: u32 = eth::BYTES as u32 / 2 - 1;

/// What comes out.
#[derive(Interface)]
pub struct Guarded {
    /// Frames.
    pub frame: Stream<FrameBeat>,
    /// Of raw frames.
    pub verdicts: Stream<Sig>,
    /// A frame was refused.
    pub refused: Sig,
}

#[derive(Clone, Copy, Fsm)]
enum Walk {
    /// The EtherType.
    Type,
    /// Of IPv4: version and length of the header.
    Version,
    /// Where in its packet a fragment lies.
    Offset,
    /// The protocol.
    Protocol,
    /// Of IPv6: the first next header.
    Next,
    /// An extension header: what is next, and how long it is.
    Extension,
    /// Where in its packet a fragment lies.
    Piece,
    /// The destination port of UDP.
    Port,
    /// It is known.
    Over,
}

/// Checks raw frames.
#[module]
pub fn guard(
    m: &Scope,
    cfg: &RnicConfig,
    frame: Stream<FrameBeat>,
    allowed: Sig,
    anew: Sig,
    own_mac: Sig,
) -> Guarded {
    // Of the queue pair: what the card itself answers to neighbours is no request.
    let raw = (frame.of.raw & frame.of.request).named("is_raw");
    let walk = m.fsm("walk", Walk::Type);
    let at = m.reg("at", PLACE).reset(TYPE_AT);

    // The word is in this beat, and before the frame's end.
    let index_bits = cfg.lane_bits() - 1;
    let beat = m.reg("beat", PLACE - index_bits).reset(0);
    let index = at.trunc(index_bits);
    let end = cat(&[lit(1, 1), index]);
    let here = (at.slice(index_bits, PLACE - index_bits).eq(beat) & end.le(!frame.empty)).named("here");
    let asks = raw & !walk.is(Walk::Over) & here;
    let held = m.reg("held", 1).reset(0);
    let word = m.reg("word", 16).no_reset();
    let wanted = m.select(index, &frame.data.chunks(16));
    m.set(&word, cat(&[wanted.slice(8, 8), wanted.trunc(8)]));
    m.set(&held, frame.valid & asks & !held);
    let hit = step(m, &walk, at, word, held);
    let refused = m.reg("is_refused", 1).reset(0);
    m.when(hit, |m| m.set(&refused, !allowed));

    // A register says that a beat may pass: whether a word of it is asked for is no part of the way of `ready`.
    let clear = m.reg("clear", 1).reset(0);
    let waits = (raw & !clear).named("waits");

    // The first beat has the destination, and waits at least a cycle.
    let own = m.reg("own", 1).no_reset();
    m.when(!clear & !beat.any(), |m| m.set(&own, frame.data.trunc(48).swap_bytes().eq(own_mac)));
    let of = FrameOf { loops: frame.of.loops & (!raw | own), ..frame.of.clone() };

    // The last beat leaves when all is known.
    let barred = m.reg("barred", 1).reset(0);
    let stops = (raw & (refused | barred)).named("stops");
    let room = m.wire("room", 1);
    let told = raw & frame.last & !frame.poisoned;
    let checked = FrameBeat { poisoned: frame.poisoned | (frame.last & stops), of, ..frame.payload.clone() };
    let out = Stream::new(m, "checked", frame.valid & !waits & (room | !told), checked);
    frame.accept(out.ready & !waits & (room | !told));
    let ends = out.fire() & frame.last;
    m.set(&clear, walk.is(Walk::Over) | (frame.valid & raw & !here & !out.fire()));
    m.when(out.fire(), |m| m.set(&beat, beat + 1));
    m.when(ends, |m| {
        m.set(&clear, 0);
        m.set(&beat, 0);
        m.set(&at, TYPE_AT);
        m.set(&walk, Walk::Type);
        m.set(&refused, 0);
    });
    m.when(ends & raw & (frame.poisoned | refused), |m| m.set(&barred, 1));
    m.when(anew, |m| m.set(&barred, 0));

    let verdict = Stream::new(m, "verdict", out.fire() & told, stops);
    m.drive(&room, verdict.ready);
    let verdicts = deep_fifo(&m.label("verdicts"), 2 * PENDING, verdict);
    Guarded { frame: out, verdicts, refused: ends & raw & refused & !frame.poisoned & !barred }
}

/// Takes a step with a word, where there is one: where the next one is, and what. Whether the frame is to be refused.
fn step(m: &Scope, walk: &Fsm<Walk>, at: Sig, word: Sig, held: Sig) -> Sig {
    let (first, second) = (word.slice(8, 8), word.trunc(8));
    let port = m.reg("port", PLACE).no_reset();
    let tags = m.reg("tags", 2).no_reset();
    let extensions = m.reg("extensions", 4).no_reset();
    let kind = m.reg("kind", 8).no_reset();
    let next = m.reg("next", 8).no_reset();
    let is = |state: Walk| held & walk.is(state);
    let any = |value: Sig, of: &[u32]| of.iter().fold(lit(1, 0), |any, code| any | value.eq(*code));
    let goes = |m: &Scope, to: Sig, state: Walk| {
        m.set(&at, to);
        m.set(walk, state);
    };
    let over = |m: &Scope| m.set(walk, Walk::Over);

    let tagged = any(word, &TAG_TYPES.map(u32::from));
    let first_tag = at.eq(TYPE_AT);
    let many_tags = tagged & !first_tag & tags.eq(TAGS);
    m.when(is(Walk::Type), |m| {
        m.set(&tags, first_tag.then(lit(2, 1), tags + 1));
        m.when(tagged & !many_tags, |m| goes(m, at + vlan::BYTES as u32 / 2, Walk::Type))
            .otherwise_when(word.eq(ethertype::IPV4), |m| goes(m, at + 1, Walk::Version))
            .otherwise_when(word.eq(ethertype::IPV6), |m| goes(m, at + 4, Walk::Next))
            .otherwise(over);
    });

    // IPv4. A host takes no header of another version, or shorter than its fields.
    let words = first.trunc(4);
    let sound = first.slice(4, 4).eq(4) & words.ge(ipv4::BYTES as u32 / 4);
    m.when(is(Walk::Version), |m| {
        m.set(&port, at + cat(&[lit(1, 0), words]).zext(PLACE) + 1);
        m.when(sound, |m| goes(m, at + 3, Walk::Offset)).otherwise(over);
    });
    m.when(is(Walk::Offset), |m| {
        m.when(word.trunc(13).any(), over).otherwise(|m| goes(m, at + 1, Walk::Protocol));
    });
    m.when(is(Walk::Protocol), |m| {
        m.when(second.eq(ipv4::PROTOCOL_UDP), |m| goes(m, port, Walk::Port)).otherwise(over);
    });

    // IPv6: the header that is next, and where it begins.
    let sized = m.mux(
        kind.eq(AUTHENTICATION),
        &(cat(&[lit(1, 0), second]).zext(PLACE) + 4),
        &(cat(&[lit(2, 0), second]).zext(PLACE) + 4),
    );
    let fragment = kind.eq(ipv6::NEXT_FRAGMENT);
    let code = walk.is(Walk::Piece).then(next, first);
    let begins = m.mux(
        walk.is(Walk::Next),
        &(at + (ipv6::BYTES as u32 / 2 - 3)),
        &m.mux(walk.is(Walk::Piece), &(at + 3), &(at + sized)),
    );
    let long = LONG.map(u32::from);
    let extends = any(code, &long) | code.eq(AUTHENTICATION) | code.eq(ipv6::NEXT_FRAGMENT);
    let dispatches =
        is(Walk::Next) | (is(Walk::Extension) & !fragment) | (is(Walk::Piece) & !word.slice(3, 13).any());
    let many_extensions = dispatches & extends & !walk.is(Walk::Next) & extensions.eq(EXTENSIONS);
    m.when(is(Walk::Extension) & fragment, |m| {
        m.set(&next, first);
        goes(m, at + 1, Walk::Piece);
    });
    m.when(is(Walk::Piece) & !dispatches, over);
    m.when(dispatches, |m| {
        m.set(&kind, code);
        m.set(&extensions, walk.is(Walk::Next).then(lit(4, 1), extensions + 1));
        m.when(code.eq(ipv4::PROTOCOL_UDP), |m| goes(m, begins + 1, Walk::Port))
            .otherwise_when(extends & !many_extensions, |m| goes(m, begins, Walk::Extension))
            .otherwise(over);
    });

    m.when(is(Walk::Port), over);
    let of_type = is(Walk::Type) & (word.eq(ethertype::ROCE) | many_tags);
    of_type | many_extensions | (is(Walk::Port) & word.eq(udp::ROCE_PORT))
}

#[cfg(test)]
mod tests;
