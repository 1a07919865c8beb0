// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers neighbours that ask for the port's MAC address: ARP requests (RFC 826) and neighbour solicitations (RFC 4861), for boards
//! without a host.
//!
//! ```text
//!            +--------------+     word      +---------------------+
//!  frames -->| the question |-------------->| checks, sum         |   own MAC, constants
//!            | 128 bytes    |    ^          | same as a GID?      |         |
//!            +--------------+    |          +---------------------+         v
//!                                |               ^                    +-----------+    +---------+
//!                          place in frame   [ 16 GIDs ]        word ->| shift     |--->| reply   |--> packet, payload
//!                                                                     | to a beat |    +---------+
//!                                                                     +-----------+
//! ```
//!
//! One question at a time, a word of 16 bits a cycle: it is walked through and checked, its target compared with each of the port's GIDs of the
//! same VLAN, and the answer put together from the question's words, the port's address and constants, once to sum it up and once to write
//! it. What comes meanwhile is forgotten, as what is lost on the way: who asks, asks again.
//!
//! An answer goes to the station that asked, in its VLAN and priority: of ARP the one that the packet names, otherwise the frame's source. A
//! solicitation without a source address, by which somebody looks whether the address is free, is answered to all nodes (RFC 4861, 7.2.4).
//!
//! **Latency:** some 50 cycles to 300, by the place of the GID. Beats are always taken. The reply leaves a beat a cycle: it is whole before its packet is
//! offered. Reset: waits for a question.
//!
//! **Bad input:** what is not valid is not answered: for solicitations the conditions of RFC 4861, 7.1.1, their checksum among them, and no more than 64
//! bytes behind the IPv6 header. Frames longer than 128 bytes are forgotten.

use crate::config::RnicConfig;
use crate::rx::address::{Addresses, GidKey};
use crate::stream::Beat;
use crate::tx::arbitrate::TxSource;
use crate::tx::Payload;
use crate::types::{TxPacket, NEIGHBOUR_OPCODE};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream, Style};
use ferrowire_spec::csr::port::GIDS;
use ferrowire_spec::wire::eth::ethertype::{self, ARP};
use ferrowire_spec::wire::ipv6::NEXT_ICMPV6;
use ferrowire_spec::wire::{eth, ipv6, vlan};

#[cfg(test)]
mod tests;

/// Bytes of a question, at most.
pub const LONGEST: u32 = 128;
/// ARP's operation of a request, and of a reply.
pub const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;
/// The types of ICMPv6 of a neighbour solicitation, and of an advertisement.
pub const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// The first three bytes of the Ethernet addresses of solicited nodes.
pub const SOLICITED_NODES: u32 = 0x33_33ff;

/// Places of words in a frame with a tag; without one, those behind it come two words earlier.
const TAG: u32 = eth::BYTES as u32 / 2 - 1;
const TCI: u32 = TAG + 1;
const TYPE: u32 = TCI + 1;
const LAYER3: u32 = TYPE + 1;
const TAG_WORDS: u32 = vlan::BYTES as u32 / 2;
/// Bits of a place.
const PLACE: u32 = 6;
/// Behind layer 3's begin: of ARP the sender's addresses and the target's IP address, and the packet's words.
const ARP_SENDER_MAC: u32 = 4;
const ARP_SENDER_IP: u32 = 7;
const ARP_TARGET_IP: u32 = 12;
const ARP_WORDS: u32 = 14;
/// Of a solicitation its addresses, the message, the target and the first option.
const SOURCE: u32 = 4;
const DESTINATION: u32 = 12;
const MESSAGE: u32 = ipv6::BYTES as u32 / 2;
const CHECKSUM: u32 = MESSAGE + 1;
const FLAGS: u32 = MESSAGE + 2;
const TARGET: u32 = MESSAGE + 4;
const OPTION: u32 = TARGET + 8;
/// Bytes behind the IPv6 header: of an advertisement, and of a solicitation at least and at most.
const ADVERTISED: u32 = 32;
const LEAST: u32 = 24;
const MOST: u32 = 64;
const _: () = assert!(2 * LAYER3 + ipv6::BYTES as u32 + MOST <= LONGEST && LONGEST / 2 <= 1 << PLACE);

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    /// A question may come.
    Take,
    /// It is looked at, word by word.
    Walk,
    /// Was it right?
    Judge,
    /// Its target is compared with the GIDs.
    Match,
    /// The answer is summed up.
    Sum,
    /// It is written.
    Write,
    /// And sent.
    Send,
}

/// What a word of the answer is.
#[derive(Clone, Copy)]
enum Source {
    Constant(u16),
    /// One of the port's address.
    Own(u32),
    /// The question's word at this place.
    Asked(u32),
    /// The checksum.
    Sum,
}

/// The answers: of ARP, of a solicitation, and of one without a source address.
const ANSWERS: usize = 3;

/// The word at a place of an answer.
fn source(answer: usize, place: u32) -> Source {
    use Source::{Asked, Constant, Own, Sum};
    const ALL_NODES: [u16; 3] = [0x3333, 0, 1];
    let (arp, to_all) = (answer == 0, answer == 2);
    let of_arp = |word: u32| Asked(LAYER3 + word);
    match place {
        0..=2 if arp => of_arp(ARP_SENDER_MAC + place),
        0..=2 if to_all => Constant(ALL_NODES[place as usize]),
        0..=2 => Asked(3 + place),
        3..=5 => Own(place - 3),
        TAG => Constant(ethertype::VLAN),
        TCI => Asked(TCI),
        TYPE => Constant(if arp { ARP } else { ethertype::IPV6 }),
        _ => match (arp, place - LAYER3) {
            // Ethernet and IPv4, and the lengths of their addresses.
            (true, 0) => Constant(1),
            (true, 1) => Constant(ethertype::IPV4),
            (true, 2) => Constant(0x0604),
            (true, 3) => Constant(ARP_REPLY),
            (true, word @ 4..=6) => Own(word - 4),
            (true, word @ 7..=8) => of_arp(ARP_TARGET_IP + word - 7),
            (true, word @ 9..=11) => of_arp(ARP_SENDER_MAC + word - 9),
            (true, word @ 12..=13) => of_arp(ARP_SENDER_IP + word - 12),
            // Version 6, and a hop limit of 255.
            (false, 0) => Constant(0x6000),
            (false, 2) => Constant(ADVERTISED as u16),
            (false, 3) => Constant((NEXT_ICMPV6 as u16) << 8 | 0xff),
            (false, word @ SOURCE..DESTINATION) => of_arp(TARGET + word - SOURCE),
            // ff02::1.
            (false, DESTINATION) if to_all => Constant(0xff02),
            (false, word) if to_all && word == MESSAGE - 1 => Constant(1),
            (false, word @ DESTINATION..MESSAGE) if !to_all => of_arp(SOURCE + word - DESTINATION),
            (false, MESSAGE) => Constant((ADVERTISEMENT as u16) << 8),
            (false, CHECKSUM) => Sum,
            // It overrides what is known; and it was asked for, unless it goes to all.
            (false, FLAGS) => Constant(if to_all { 0x2000 } else { 0x6000 }),
            (false, word @ TARGET..OPTION) => of_arp(word),
            // The target's link-layer address, eight bytes.
            (false, OPTION) => Constant(0x0201),
            (false, word) if (OPTION + 1..OPTION + 4).contains(&word) => Own(word - OPTION - 1),
            _ => Constant(0),
        },
    }
}

/// The last place of each answer.
fn last_place(answer: usize) -> u32 {
    LAYER3 - 1 + if answer == 0 { ARP_WORDS } else { MESSAGE + ADVERTISED / 2 }
}

/// A word of the answer, but for what is read of the question.
#[derive(Clone, Bundle)]
struct Word {
    constant: Sig,
    own: Sig,
    asked: Sig,
    sum: Sig,
}

/// Where answers come from: what they are at each place.
fn table(m: &Scope, answer: Sig, place: Sig, mac: Sig, checksum: Sig) -> (Word, Sig) {
    let of = |value: &dyn Fn(Source) -> Sig| {
        let rows: Vec<Sig> = (0..ANSWERS)
            .map(|answer| {
                m.select(place, &(0..1 << PLACE).map(|at| value(source(answer, at))).collect::<Vec<_>>())
            })
            .collect();
        m.select(answer, &[rows[0], rows[1], rows[2], rows[2]])
    };
    let flag = |yes: bool| lit(1, u32::from(yes));
    let own = of(&|s| match s {
        Source::Own(word) => lit(2, word + 1),
        _ => lit(2, 0),
    });
    // The address is a number whose high byte is sent first.
    let words = mac.chunks(16);
    let word = Word {
        constant: of(&|s| match s {
            Source::Constant(word) => lit(16, word),
            _ => lit(16, 0),
        }),
        own: m.select(own, &[lit(16, 0), words[2], words[1], words[0]]),
        asked: of(&|s| flag(matches!(s, Source::Asked(_)))),
        sum: of(&|s| flag(matches!(s, Source::Sum))).repeat(16) & checksum,
    };
    let from = of(&|s| match s {
        Source::Asked(place) => lit(PLACE, place),
        _ => lit(PLACE, 0),
    });
    (word, from)
}

/// Ones' complement sum (RFC 1071).
fn add(sum: Sig, word: Sig) -> Sig {
    let wide = sum.zext(17) + word.zext(17);
    wide.trunc(16) + wide.msb().zext(16)
}

/// The responder; `frames`: questions, as they came. What it sends are answers.
#[module]
pub fn neighbour(m: &Scope, cfg: &RnicConfig, addresses: Addresses, frames: Stream<Beat>) -> TxSource {
    let lanes = cfg.beat_bytes;
    let words = lanes / 2;
    let beats = LONGEST / lanes;
    let (word_bits, beat_bits) = (clog2(words.into()), clog2(beats.into()));
    let state = m.fsm("state", State::Take);
    m.discard(&addresses.promiscuous);
    m.discard(&addresses.salt);
    m.discard(&addresses.raw);
    m.discard(&addresses.respond);

    // The question. What comes while another is dealt with is passed over, to its end.
    let takes = state.is(State::Take);
    let passes_over = m.reg("passes_over", 1).reset(0);
    let at = m.reg("at", beat_bits + 1).reset(0);
    frames.accept(lit(1, 1));
    let fire = frames.fire();
    m.when(fire, |m| m.set(&passes_over, !frames.last & (passes_over | !takes)));
    let keeps = fire & takes & !passes_over;
    let question = m.mem("question", beats, &bits(8 * lanes)).style(Style::Distributed).build();
    question.write(keeps & !at.msb(), at.trunc(beat_bits), &frames.data);
    let length = m.reg("length", clog2(LONGEST.into()) + 1).no_reset();
    m.when(keeps, |m| {
        m.set(&at, frames.last.then(lit(at.width(), 0), at.msb().then(at, at + 1)));
        let whole = cat(&[lit(cfg.lane_bits(), 0), at + 1]).zext(length.width() + 1);
        m.set(&length, (whole - frames.empty.zext(whole.width())).trunc(length.width()));
        m.when(frames.last & !at.msb(), |m| m.set(&state, State::Walk));
    });

    // A place in the question or in the answer; the word there is known in the next cycle.
    let place = m.reg("place", PLACE).no_reset();
    let tagged = m.reg("tagged", 1).no_reset();
    let (v6, to_all) = (m.reg("v6", 1).no_reset(), m.reg("to_all", 1).no_reset());
    let answer = cat(&[v6 & !to_all, v6 & to_all]);
    let checksum = m.reg("checksum", 16).no_reset();
    let (written, from) = table(m, answer, place, addresses.mac, checksum);
    let (entry, part) = (m.reg("entry", clog2(GIDS.into())).no_reset(), m.reg("part", 3).no_reset());
    let at_target =
        v6.then(lit(PLACE, LAYER3 + TARGET), lit(PLACE, LAYER3 + ARP_TARGET_IP - 6)) + part.zext(PLACE);
    let asks = m.mux(state.is(State::Walk), &place, &m.mux(state.is(State::Match), &at_target, &from));
    let behind_tag = asks.ge(TYPE) & !tagged;
    let index = asks - behind_tag.then(lit(PLACE, TAG_WORDS), lit(PLACE, 0));
    let beat = question.read_now(index.slice(word_bits, beat_bits));
    let word = m.delay("word", &m.select(index.trunc(word_bits), &beat.chunks(16)).swap_bytes());
    let seen = m.delay("seen", &place);
    let running = m.wire("running", 1);
    let live = m.reg("live", 1).reset(0);
    m.set(&live, running);

    // The walk: first the tag, which says where the rest is.
    let walks = state.is(State::Walk);
    let good = m.reg("good", 1).no_reset();
    let sum = m.reg("sum", 16).no_reset();
    let bytes = m.reg("bytes", clog2(MOST.into()) + 1).no_reset();
    let named = m.reg("named", 1).no_reset();
    let (to_group, told) = (m.reg("to_group", 1).no_reset(), m.reg("told", 1).no_reset());
    // Where the next option begins.
    let option = m.reg("option", PLACE).no_reset();
    let vid = m.reg("vid", 12).no_reset();
    m.when(takes, |m| {
        m.set(&place, TAG);
        m.set(&good, 1);
        m.set(&named, 0);
        m.set(&to_group, 1);
        m.set(&told, 0);
        m.set(&option, LAYER3 + OPTION);
        m.set(&tagged, 0);
        m.set(&vid, 0);
    });
    let message_words = bytes.slice(1, bytes.width() - 1);
    let last =
        v6.then(message_words.zext(PLACE) + (LAYER3 + MESSAGE - 1), lit(PLACE, LAYER3 + ARP_WORDS - 1));
    let walked = walks & live & seen.ge(LAYER3 + 3) & (seen.eq(last) | !good);
    m.when(walks, |m| m.set(&place, place + 1));
    m.when(walks & live, |m| {
        let here = |at: u32| seen.eq(at);
        let must = |m: &Scope, at: u32, holds: Sig| {
            m.when(here(at) & !holds, |m| m.set(&good, 0));
        };
        m.when(here(TAG), |m| m.set(&tagged, word.eq(ethertype::VLAN)));
        m.when(here(TCI) & tagged, |m| m.set(&vid, word.trunc(12)));
        let is_v6 = word.eq(ethertype::IPV6);
        must(m, TYPE, word.eq(ARP) | is_v6);
        m.when(here(TYPE), |m| m.set(&v6, is_v6));
        let layer3 = |at: u32, of_arp: Sig, of_v6: Sig| (LAYER3 + at, m.mux(v6, &of_v6, &of_arp));
        // Six bytes and four; the payload is of options of eight bytes each.
        let is_short = word.ge(LEAST) & word.le(MOST) & word.trunc(3).eq(0);
        for (at, holds) in [
            layer3(0, word.eq(1), word.slice(12, 4).eq(6)),
            layer3(1, word.eq(ethertype::IPV4), lit(1, 1)),
            layer3(2, word.eq(0x0604), is_short),
            layer3(3, word.eq(ARP_REQUEST), word.eq((NEXT_ICMPV6 as u16) << 8 | 0xff)),
            layer3(MESSAGE, lit(1, 1), word.eq((SOLICITATION as u16) << 8)),
        ] {
            must(m, at, holds);
        }
        m.when(here(LAYER3 + 2), |m| {
            m.set(&bytes, word.trunc(bytes.width()));
            m.set(&sum, word + u32::from(NEXT_ICMPV6));
        });
        m.when(seen.ge(LAYER3 + SOURCE), |m| m.set(&sum, add(sum, word)));
        let of_source = seen.ge(LAYER3 + SOURCE) & seen.lt(LAYER3 + DESTINATION);
        m.when(of_source & word.any(), |m| m.set(&named, 1));
        // Solicited nodes: ff02::1:ff00:0 and 24 bits of the target.
        let others = [0xff02, 0, 0, 0, 0, 1];
        for (at, wanted) in (LAYER3 + DESTINATION..).zip(others) {
            m.when(here(at) & word.ne(wanted), |m| m.set(&to_group, 0));
        }
        m.when(here(LAYER3 + MESSAGE - 2) & !word.slice(8, 8).all(), |m| m.set(&to_group, 0));
        // Each option tells where the next one begins, in units of four words; one that is longer than all of the message is the last.
        let (kind, units) = (word.slice(8, 8), word.trunc(8));
        m.when(v6 & seen.eq(option), |m| {
            m.set(
                &option,
                (units >> 3).any().then(lit(PLACE, 0), option + cat(&[lit(2, 0), units.trunc(4)])),
            );
            // A source's link-layer address.
            m.when(kind.eq(1), |m| m.set(&told, 1));
            m.when(units.eq(0), |m| m.set(&good, 0));
        });
        m.when(walked, |m| m.set(&state, State::Judge));
    });
    // All of it is there; what has no source comes to solicited nodes, and has no link-layer address of one.
    let layer3_bytes = v6.then(bytes.zext(8) + ipv6::BYTES, lit(8, 2 * ARP_WORDS));
    let header = tagged.then(lit(8, 2 * LAYER3), lit(8, 2 * (LAYER3 - TAG_WORDS)));
    let whole = length.zext(8).ge(layer3_bytes + header);
    let right = good & whole & (!v6 | (sum.all() & (named | (to_group & !told))));
    m.when(state.is(State::Judge), |m| {
        m.set(&to_all, !named);
        m.set(&entry, 0);
        m.set(&part, v6.then(lit(3, 0), lit(3, 6)));
        m.set(&state, State::Take);
        m.when(right, |m| m.set(&state, State::Match));
    });

    // Is the target one of the port's GIDs, in the VLAN of the question? An IPv4 address is the last two of eight words.
    let write = &addresses.write;
    m.discard(&write.slot);
    let gids = m.mem("gids", GIDS, &GidKey::of()).style(Style::Distributed).build();
    gids.write(write.enable, write.index, &write.entry);
    let valid = m.reg("valid", GIDS).reset_once(0);
    let bit = lit(GIDS, 1).shl_by(write.index);
    m.when(write.enable, |m| m.set(&valid, (valid & !bit) | (bit & write.valid.repeat(GIDS))));
    m.when(addresses.clear, |m| m.set(&valid, 0));
    let matches = state.is(State::Match);
    let gid = gids.read_now(entry);
    let parts: Vec<Sig> = gid.ip.chunks(16).into_iter().rev().collect();
    let of_gid = m.delay("of_gid", &m.select(part, &parts));
    let in_vlan = m.mux(vid.any(), &(gid.tagged & gid.vid.eq(vid)), &!gid.tagged);
    let fits = m.delay("fits", &(valid.bit_at(entry) & gid.ipv6.eq(v6) & in_vlan));
    let first = part.eq(v6.then(lit(3, 0), lit(3, 6)));
    let (begins, ends) = (m.delay("begins", &first), m.delay("ends", &part.all()));
    let last_entry = m.delay("last_entry", &entry.all());
    let same = m.reg("same", 1).no_reset();
    let still_same = (begins | same) & word.eq(of_gid);
    m.when(matches, |m| {
        m.set(&part, part.all().then(v6.then(lit(3, 0), lit(3, 6)), part + 1));
        m.when(part.all(), |m| m.set(&entry, entry + 1));
    });
    let found = ends & still_same & fits;
    m.when(matches & live, |m| {
        m.set(&same, still_same);
        m.when(ends & last_entry, |m| m.set(&state, State::Take));
        m.when(found, |m| {
            m.set(&place, 0);
            m.set(&state, State::Write);
            m.when(v6, |m| {
                m.set(&place, LAYER3 + SOURCE);
                m.set(&state, State::Sum);
            });
        });
    });

    // The answer, twice: the first time for its checksum.
    let written = m.delay("written", &written);
    let out = written.constant | written.own | written.sum | (word & written.asked.repeat(16));
    let ends_of = |answer: usize| lit(PLACE, last_place(answer));
    let end = v6.then(ends_of(1), ends_of(0));
    let sums = state.is(State::Sum);
    let summed = sums & live & seen.eq(end);
    m.when(matches, |m| {
        m.set(&sum, ADVERTISED + u32::from(NEXT_ICMPV6));
        m.set(&checksum, 0);
    });
    m.when(sums & live, |m| m.set(&sum, add(sum, out)));
    m.when(sums, |m| m.set(&place, place + 1));
    m.when(summed, |m| {
        m.set(&checksum, !add(sum, out));
        m.set(&place, 0);
        m.set(&state, State::Write);
    });

    // Words are shifted into a beat, zeros behind the last; the reply is whole before it is offered.
    let writes = state.is(State::Write);
    let skips = place.eq(TAG - 1) & !tagged;
    let over = m.reg("over", 1).no_reset();
    let beyond = m.reg("beyond", 1).no_reset();
    m.set(&beyond, over);
    let shifted = m.reg("shifted", 8 * lanes).no_reset();
    let count = m.reg("count", PLACE).no_reset();
    let next = cat(&[shifted.slice(16, 8 * lanes - 16), (out & (!beyond).repeat(16)).swap_bytes()]);
    let reply = m.mem("reply", beats, &bits(8 * lanes)).style(Style::Distributed).build();
    let fills = writes & live & count.trunc(word_bits).all();
    reply.write(fills, count.slice(word_bits, beat_bits), &next);
    m.when(!writes, |m| {
        m.set(&count, 0);
        m.set(&over, 0);
    });
    m.when(writes, |m| {
        m.when(place.eq(end), |m| m.set(&over, 1));
        m.set(&place, skips.then(lit(PLACE, TYPE), place + 1));
    });
    let done = fills & (beyond | seen.eq(end));
    m.when(writes & live, |m| {
        m.set(&shifted, next);
        m.set(&count, count + 1);
        m.when(done, |m| m.set(&state, State::Send));
    });
    // Nothing is known of a place in its first cycle.
    let passes = [State::Walk, State::Match, State::Sum, State::Write].map(|pass| state.is(pass));
    let stops = walked | (matches & live & (found | (ends & last_entry))) | summed | done;
    m.drive(&running, passes.into_iter().reduce(|a, b| a | b).expect("four") & !stops);

    let sends = state.is(State::Send);
    let told_packet = m.reg("told_packet", 1).reset(0);
    let tag_bytes = tagged.then(lit(8, 2 * TAG_WORDS), lit(8, 0));
    let untagged = |answer: usize| lit(8, 2 * (last_place(answer) + 1 - TAG_WORDS));
    let reply_bytes = v6.then(untagged(1), untagged(0)) + tag_bytes;
    let packet = TxPacket {
        opcode: lit(8, NEIGHBOUR_OPCODE),
        payload_bytes: reply_bytes.zext(13),
        ..TxPacket::of(cfg).zeros()
    };
    let packet = Stream::new(m, "packet", sends & !told_packet, packet);
    let leaving = m.reg("leaving", beat_bits).reset(0);
    let last_beat = (reply_bytes - 1).slice(cfg.lane_bits(), beat_bits);
    let ends_reply = leaving.eq(last_beat);
    let data = Payload::of_one_piece(reply.read_now(leaving), ends_reply, lit(1, 0));
    let payload = Stream::new(m, "payload", sends & told_packet, data);
    m.when(packet.fire(), |m| m.set(&told_packet, 1));
    m.when(payload.fire(), |m| {
        m.set(&leaving, leaving + 1);
        m.when(ends_reply, |m| {
            m.set(&leaving, 0);
            m.set(&told_packet, 0);
            m.set(&state, State::Take);
        });
    });
    TxSource { packet, payload: Some(payload) }
}
