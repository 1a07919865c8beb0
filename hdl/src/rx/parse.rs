// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet parser: every field of a frame's headers, and the first reason to drop it.
//!
//! ```text
//!          +------+     +------+
//!   mac -->| reg  |--+->| gate |-----------------------------------------------------------> frame
//!          +------+  |  +------+
//!                    |  first 128 bytes     +------------+    +-------------+
//!                    +--at fixed places---->| layer 3: 2 |--->| opcode:     |--> [fifo] --+
//!                    |  (a register a beat) | layer 4: 4 |    | extensions  |             +--> parsed
//!                    |                      +------------+    +-------------+             |
//!                    +--> mask --> adder tree --> sum of the UDP datagram -----> [fifo] --+
//! ```
//!
//! Fields lie at fixed places but for two choices: layer 3 begins at byte 14 or, behind an 802.1Q tag, 18; layer 4
//! 20 or 40 bytes later. Each bit is chosen once, from two places or from four; where an extension header lies follows from the
//! opcode, by tables made from [`Opcode`]. The checks and their order are those of [`DropReason`], which are those of
//! `Frame::parse` in `ferrowire-spec`; only the ICRC is left to [`crate::rx::icrc`]. The UDP checksum, where there is
//! one, is verified: the datagram and the addresses in front of it are one range of bytes, whose 16-bit words lie
//! aligned in the beats. Last comes whether the packet is for this port: its MAC address, and [`address`] with IP and VLAN;
//! and whether it comes from its queue pair's peer, [`peer`], which is for others to judge.
//!
//! A frame that is no RoCE packet, whole or in fragments, is not dropped where the port's filter lets it pass and it is no longer than
//! [`MAX_RAW_FRAME`]: it is a packet of [`RAW_OPCODE`] to the raw Ethernet queue pair, all payload. One by which a neighbour asks for the port's
//! address has [`NEIGHBOUR_OPCODE`] where the card answers itself.
//!
//! A sound PAUSE or PFC frame (IEEE 802.3 annexes 31B and 31D), to their group address or the port's own, is told as it comes and goes no
//! further: its result is [`TAKEN`]. One that `looped` is dropped as such. Whether the frame check sequence is right is the MAC's affair.
//!
//! Where frames last seven beats or more, what was kept stays until all is known of it, instead of wandering through registers with what
//! is found; the next frame's last beat waits for that.
//!
//! **Latency:** beats 1 cycle; the result [`latency`] cycles after the last beat came. **Throughput:** one beat a
//! cycle, one frame a cycle where frames are as short as a beat of 64 bytes, and one in eight where beats are narrow. Up to 32 frames, or as
//! many as a beat has bytes, may be between their first beat and the moment at which their result is taken, of narrow beats two; then the
//! next frame waits. There is a path from `frame`'s `ready` to `mac`'s: a register slice that cuts it costs a LUT for each bit of a beat.
//!
//! **Bad input:** any sequence of beats is a sequence of frames; each gives exactly one result. A frame longer than
//! 128 KiB counts as that long. Bytes above the end of a frame are not believed: what would reach past the end is
//! dropped by a length check that comes before it.

use crate::config::RnicConfig;
use crate::fields::field;
use crate::neighbour;
use crate::rx::address::{address, gid_bits, Addresses, GidKey, LATENCY};
use crate::rx::peer::{self, Address, Origin, Peers};
use crate::stream::{fifo, forward, half, Beat};
use crate::types::{extension_bytes, Headers, NEIGHBOUR_OPCODE, RAW_OPCODE};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream};
use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::{MAX_RAW_FRAME, RAW_QPN};
use ferrowire_spec::wire::opcode::Ext;
use ferrowire_spec::wire::{atomic_eth, bth, eth, icrc, ipv4, ipv6, pause, pfc, udp, vlan, Opcode};
use ferrowire_spec::Field;

/// Bytes of a frame that are kept: more than the longest headers.
const KEPT: usize = 128;
/// Where the ethertype lies; behind a tag there is another one.
const ETHERTYPE_AT: u32 = eth::ETHERTYPE.offset as u32 / 8;
/// Bytes behind the Ethernet header and tag among them.
const PACKET: usize = KEPT - eth::BYTES - vlan::BYTES;
/// UDP, base and extension headers of any card.
const LAYER4_MOST: usize = udp::BYTES + bth::BYTES + atomic_eth::BYTES;
/// Words of an IPv4 header.
const LEAST_WORDS: usize = ipv4::BYTES / 4;
const MOST_WORDS: usize = 15;
const _: () = assert!(ipv6::BYTES + LAYER4_MOST <= PACKET && MOST_WORDS * 4 + udp::BYTES <= PACKET);
/// Bits of a length: IP packets go up to 65,575 bytes, longer frames are told as longer.
const LENGTH_BITS: u32 = 18;
/// Frames under way at 64 bytes a beat, where one may end in every cycle; narrower beats have no need of as many.
const RESULTS: u32 = 32;
/// Cycles for which the headers of a frame are looked at where the next one may wait for it: the sum and the destination are known then. Fewer than
/// the shortest frame has beats.
const KEPT_FOR: u32 = LATENCY;
/// The largest path MTU (IBTA 9.4).
const MAX_PAYLOAD: u32 = 4096;
/// Bits of as many.
const PAYLOAD_BITS: u32 = 13;
const _: () = assert!(MAX_RAW_FRAME < 1 << PAYLOAD_BITS);

/// Bits of a drop reason's code.
pub const REASON_BITS: u32 = clog2_const(DropReason::ALL.len());

const fn clog2_const(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

/// In the place of a reason: the frame has been dealt with.
pub const TAKEN: u32 = (1 << REASON_BITS) - 1;
const _: () = assert!(DropReason::ALL.len() < 1 << REASON_BITS);

/// A MAC control frame, in one cycle.
#[derive(Clone, Bundle)]
pub struct MacControl {
    /// A sound PAUSE.
    pub pause: Sig,
    /// A sound PFC frame.
    pub pfc: Sig,
    /// What stands behind the ethertype, as long as that of PFC.
    pub fields: Sig,
}

impl MacControl {
    /// The shape.
    pub fn of() -> MacControl {
        MacControl { pause: bits(1), pfc: bits(1), fields: bits(8 * pfc::BYTES as u32) }
    }
}

/// What the parser found.
#[derive(Clone, Bundle)]
pub struct Parsed {
    /// The frame must be dropped.
    pub dropped: Sig,
    /// Why: the code of a [`DropReason`], or [`TAKEN`]. A wrong ICRC takes precedence over those between it and `overrun`.
    pub reason: Sig,
    /// Meaningless where the frame is dropped.
    pub headers: Headers,
}

impl Parsed {
    /// The shape.
    pub fn of() -> Parsed {
        Parsed { dropped: bits(1), reason: bits(REASON_BITS), headers: Headers::of() }
    }
}

/// Header fields and the checks that need no sum over the payload.
#[derive(Clone, Bundle)]
struct Found {
    /// A reason that comes before the UDP checksum.
    early: Sig,
    /// One that comes behind it.
    late: Sig,
    /// The first of them.
    reason: Sig,
    /// No RoCE, and taken nevertheless.
    raw: Sig,
    headers: Headers,
}

/// What takes longer than the headers.
#[derive(Clone, Bundle)]
struct Sound {
    /// There is no wrong UDP checksum.
    sum: Sig,
    /// The destination is the port's.
    ours: Sig,
    /// By this entry of its GIDs.
    gid: Sig,
    /// Where it comes from.
    origin: Origin,
}

/// Cycles from the last beat of a frame to its result.
pub fn latency(cfg: &RnicConfig) -> u32 {
    match cfg.unhurried() {
        true => 4 + KEPT_FOR,
        false => 7 + tree_stages(cfg) + spare_stages(cfg),
    }
}

/// Cycles by which a sum is known before the destination: from the IP header on, the sum takes two and the tree's.
fn spare_stages(cfg: &RnicConfig) -> u32 {
    LATENCY - 2 - tree_stages(cfg)
}

/// Frames under way, where they do not wait for each other.
fn results(cfg: &RnicConfig) -> u32 {
    RESULTS.min(cfg.beat_bytes)
}

/// Stages of the adder tree, which joins four words a stage.
fn tree_stages(cfg: &RnicConfig) -> u32 {
    (cfg.beat_bytes / 2).ilog2().div_ceil(2)
}

/// Bytes `from` to `from + length` of a signal.
fn bytes_of(sig: Sig, from: usize, length: usize) -> Sig {
    sig.slice(8 * from as u32, 8 * length as u32)
}

/// Whether any holds, and the code of the first that does.
fn first_of(reasons: &[(Sig, DropReason)]) -> (Sig, Sig) {
    let mut any = lit(1, 0);
    let mut code = lit(REASON_BITS, 0);
    for (holds, reason) in reasons.iter().rev() {
        any = any | *holds;
        code = holds.then(reason.code(), code);
    }
    (any, code)
}

/// Bits that are set in some opcode that the card has.
fn opcode_bits(cfg: &RnicConfig) -> u8 {
    let packets = Opcode::ALL.iter().filter(|o| cfg.hears(**o)).map(|o| o.code());
    let raw = cfg.raw_ethernet.then_some(RAW_OPCODE);
    let asks = cfg.neighbour_responder.then_some(NEIGHBOUR_OPCODE);
    packets.chain(raw).chain(asks).fold(0, |all, code| all | code)
}

/// Whether `opcode` is one of those of which `fact` holds.
pub(crate) fn opcode_is(opcode: Sig, fact: impl Fn(Opcode) -> bool) -> Sig {
    let matching = Opcode::ALL.iter().filter(|o| fact(**o)).map(|o| opcode.eq(o.code()));
    matching.reduce(|a, b| a | b).unwrap_or_else(|| lit(1, 0))
}

/// Bytes from the first extension header to this one.
fn ext_offset(opcode: Opcode, ext: Ext) -> usize {
    opcode.extensions().iter().take_while(|e| **e != ext).map(|e| e.bytes()).sum()
}

/// A place where a field can lie: the header, its field, its offset among the extension headers, and whether the opcode
/// puts it there.
type Place = (Ext, Field, usize, Sig);

/// The places of a field that stands in one of several extension headers, whichever the opcode has.
fn ext_places(cfg: &RnicConfig, opcode: Sig, wanted: &[(Ext, Field)]) -> Vec<Place> {
    let mut places: Vec<(Ext, Field, usize)> = Vec::new();
    let bit = |(ext, f): (Ext, Field), opcode: Opcode| 8 * ext_offset(opcode, ext) + f.offset as usize;
    for &opcode in Opcode::ALL.iter().filter(|o| cfg.speaks(**o)) {
        for &(ext, f) in wanted.iter().filter(|(ext, _)| opcode.has(*ext)) {
            let at = bit((ext, f), opcode);
            if !places.iter().any(|(_, f, offset)| 8 * offset + f.offset as usize == at) {
                places.push((ext, f, ext_offset(opcode, ext)));
            }
        }
    }
    let puts = |o: Opcode, at: usize| cfg.speaks(o) && wanted.iter().any(|w| o.has(w.0) && bit(*w, o) == at);
    let chosen = |at: usize| opcode_is(opcode, |o| puts(o, at));
    places
        .into_iter()
        .map(|(ext, f, offset)| (ext, f, offset, chosen(8 * offset + f.offset as usize)))
        .collect()
}

/// Parses frames; see the page's top. `looped`: the beat is of a frame that returns inside the card.
#[module]
pub fn parse(
    m: &Scope,
    cfg: &RnicConfig,
    addresses: Addresses,
    peers: Peers,
    mac: Stream<Beat>,
    looped: Sig,
) -> (Stream<Beat>, Stream<Parsed>, MacControl) {
    use DropReason::{
        BthVersion, Destination, IpChecksum, IpFragment, IpHeader, Length, Malformed, NotRoce,
        ReservedOpcode, Runt, UdpChecksum,
    };
    let lanes = cfg.beat_bytes;
    let delay = |name: &str, sig: Sig| m.delay(name, &sig);
    // What follows from what is held stays as long; it needs no registers of its own but to cut paths.
    let pass = |name: &str, sig: Sig| if cfg.unhurried() { sig.named(name) } else { m.delay(name, &sig) };

    // Of three registers without a reset in a row the tools make a shift register, which is a LUT.
    let third = |name: &str, sig: Sig| m.delay_zero(name, &sig);

    // Where there is time, a frame ends when the one before has its result; elsewhere it begins when there is room for its own.
    let held = cfg.unhurried();
    let go = m.wire("go", 1);
    let in_frame = (!held).then(|| m.reg("in_frame", 1).reset(0));
    let from_loop = m.reg("from_loop", 1).no_reset();
    m.when(mac.fire(), |m| m.set(&from_loop, looped));
    let frame = forward(m, mac);
    let open = go | in_frame.unwrap_or(!frame.last);
    let frame = frame.gate(m, open);
    let fire = frame.fire();
    if let Some(in_frame) = in_frame {
        m.when(fire, |m| m.set(&in_frame, !frame.last));
    }

    // Place of the beat in the frame; it stops at 128 KiB.
    let index_bits = LENGTH_BITS - cfg.lane_bits();
    let index = m.reg("index", index_bits).reset(0);
    m.when(fire, |m| m.set(&index, frame.last.then(0, index.msb().then(index, index + 1))));
    let beats = index + 1;
    let length = cat(&[lit(cfg.lane_bits(), 0), beats]) - frame.empty.zext(LENGTH_BITS);

    // Stage 0: the first bytes at fixed places, and the beat for the sum.
    let kept: Vec<Sig> = (0..KEPT as u32 / lanes)
        .map(|k| {
            let kept = m.reg(&format!("kept{k}"), 8 * lanes).no_reset();
            m.when(fire & index.eq(k), |m| m.set(&kept, frame.data));
            kept
        })
        .collect();
    let bytes = cat(&kept);
    // Ethertypes are compared as they come.
    let ethertype = |name: &str, at: u32, code: u16| {
        let is = m.reg(name, 1).no_reset();
        let word = frame.data.slice(8 * (at % lanes), 16).swap_bytes();
        m.when(fire & index.eq(at / lanes), |m| m.set(&is, word.eq(code)));
        is
    };
    let outer = |name: &str, code: u16| ethertype(&format!("outer_{name}"), ETHERTYPE_AT, code);
    let inner =
        |name: &str, code: u16| ethertype(&format!("inner_{name}"), ETHERTYPE_AT + vlan::BYTES as u32, code);
    let length0 = delay("length0", length);
    let seen0 = m.reg("seen0", 1).reset(0);
    m.set(&seen0, fire);
    let ended0 = m.reg("ended0", 1).reset(0);
    m.set(&ended0, fire & frame.last);
    let index0 = delay("index0", index);
    let data0 = delay("data0", frame.data);
    let looped0 = delay("looped0", from_loop);

    // Stage 1: where layer 3 and layer 4 begin.
    let tag = bytes_of(bytes, eth::BYTES, vlan::BYTES);
    let has_tag = cfg.only(cfg.vlan, outer("vlan", eth::ethertype::VLAN));
    let is_type = |name: &str, code: u16| has_tag.then(inner(name, code), outer(name, code));
    let is_v4 = is_type("v4", eth::ethertype::IPV4);
    let is_v6 = cfg.only(cfg.ipv6, is_type("v6", eth::ethertype::IPV6));
    let behind_tag = bytes_of(bytes, eth::BYTES + vlan::BYTES, PACKET);
    let packet0 = has_tag.then(behind_tag, bytes_of(bytes, eth::BYTES, PACKET));
    let layer3 = has_tag.then(lit(LENGTH_BITS, eth::BYTES + vlan::BYTES), lit(LENGTH_BITS, eth::BYTES));
    let v6_total = field(&ipv6::LAYOUT, &ipv6::PAYLOAD_LEN, packet0).zext(LENGTH_BITS) + ipv6::BYTES;
    let total0 = is_v6.then(v6_total, field(&ipv4::LAYOUT, &ipv4::TOTAL_LEN, packet0).zext(LENGTH_BITS));

    // Where layer 4 begins is known as well: four places, a LUT a bit.
    let longest_extensions = cfg.heard_extension_bytes();
    let layer4_bytes = udp::BYTES + bth::BYTES + longest_extensions;
    let layer4_of = |ip_bytes: usize| bytes_of(packet0, ip_bytes, layer4_bytes);
    let layer4_0 = is_v6.then(layer4_of(ipv6::BYTES), layer4_of(ipv4::BYTES));
    // The UDP port follows the IP header and its options: so many words after the place it has without options.
    let ihl0 = field(&ipv4::LAYOUT, &ipv4::IHL, packet0);
    let words0 = is_v6.then(ipv6::BYTES / 4, ihl0).zext(5);
    let port_at0 = words0 + has_tag.zext(5) - LEAST_WORDS as u32;
    let port_of = |words: usize| {
        let at = eth::BYTES + 4 * words;
        field(&udp::LAYOUT, &udp::DPORT, bytes_of(bytes, at, udp::BYTES))
    };
    let ports0: Vec<Sig> = (LEAST_WORDS..=MOST_WORDS + vlan::BYTES / 4).map(port_of).collect();

    let ended1 = m.reg("ended1", 1).reset(0);
    m.set(&ended1, ended0);
    // The headers stay here where there is time.
    let take = |name: &str, sig: Sig| {
        let reg = m.reg(name, sig.width()).no_reset();
        m.when(if held { ended0 } else { lit(1, 1) }, |m| m.set(&reg, sig));
        reg
    };
    let runt1 = take("runt1", length0.lt(eth::BYTES) | (has_tag & length0.lt(eth::BYTES + vlan::BYTES)));
    let rest1 = take("rest1", length0 - layer3);
    let length1 = take("length1", length0.trunc(PAYLOAD_BITS));
    let fits1 = take("fits1", length0.le(MAX_RAW_FRAME));
    let total1 = take("total1", total0);
    let v4_1 = take("v4_1", is_v4);
    let v6_1 = take("v6_1", is_v6);
    let has_tag1 = take("has_tag1", has_tag);
    let packet1 = take("packet1", packet0.trunc(8 * (ipv6::BYTES as u32 + 1)));
    let layer4_1 = if held { take("layer4_1", layer4_0) } else { third("layer4_1", layer4_0) };
    // What is held shows the next frame before its result is taken, so the port is taken with the rest.
    let port2 = match held {
        true => take("port1", m.select(port_at0.trunc(4), &ports0)),
        false => {
            let at = take("port_at1", port_at0.trunc(4));
            let ports: Vec<Sig> =
                (0..).zip(&ports0).map(|(i, port)| m.delay(&format!("port{i}_1"), port)).collect();
            m.select(at, &ports)
        }
    };
    // A tag of VLAN 0 is a priority and no VLAN (IEEE 802.1Q 6.9.1).
    let vid1 = take("vid1", field(&vlan::LAYOUT, &vlan::VID, tag) & has_tag.repeat(12));
    let dst_mac = field(&eth::LAYOUT, &eth::DST, bytes);
    let own_mac = dst_mac.eq(addresses.mac) | addresses.promiscuous;
    let own_mac1 = take("own_mac1", own_mac);
    let passes1 = take("passes1", cfg.only(cfg.raw_ethernet, addresses.raw.passes(dst_mac, own_mac)));
    // Somebody asks for the port's MAC address.
    let heard = own_mac | dst_mac.all() | dst_mac.slice(24, 24).eq(neighbour::SOLICITED_NODES);
    // Whose last byte is this one of layer 3, or lies behind it.
    let has = |byte: u32| length0.gt(layer3 + byte);
    let is_arp = is_type("arp", eth::ethertype::ARP)
        & bytes_of(packet0, 6, 2).swap_bytes().eq(neighbour::ARP_REQUEST)
        & has(7);
    let message = bytes_of(packet0, ipv6::BYTES, 1);
    let next_header = field(&ipv6::LAYOUT, &ipv6::NEXT_HEADER, packet0);
    let solicits = is_v6
        & next_header.eq(ipv6::NEXT_ICMPV6)
        & message.eq(neighbour::SOLICITATION)
        & has(ipv6::BYTES as u32);
    let is_short = length0.le(neighbour::LONGEST);
    let asks1 = take("asks1", addresses.respond & heard & is_short & (is_arp | solicits));
    let control1 = take("control1", outer("control", eth::ethertype::MAC_CONTROL));
    // What the card sends itself says nothing of the wire.
    let heard = (dst_mac.eq(addresses.mac) | dst_mac.eq(pause::GROUP)) & !looped0;
    let heard1 = take("heard1", heard);
    // For the sum, while the frame comes.
    let end1 = delay("end1", layer3 + total0);
    let (sum_v6, sum_tag) = match held {
        true => (delay("sum_v6", is_v6), delay("sum_tag", has_tag)),
        false => (v6_1, has_tag1),
    };

    // Stage 2: the IP header.
    let v4 = |f: &Field| field(&ipv4::LAYOUT, f, packet1);
    let v6 = |f: &Field| field(&ipv6::LAYOUT, f, packet1);
    let ihl = v4(&ipv4::IHL);
    let ip_words = v6_1.then(ipv6::BYTES / 4, ihl);
    let ip_bytes = cat(&[lit(2, 0), ip_words]).zext(LENGTH_BITS);
    let plain_bytes = v6_1.then(lit(LENGTH_BITS, ipv6::BYTES), lit(LENGTH_BITS, ipv4::BYTES));
    let next = v6(&ipv6::NEXT_HEADER);
    let fragment_header = bytes_of(packet1, ipv6::BYTES, 1).eq(ipv4::PROTOCOL_UDP)
        & rest1.ge(ipv6::BYTES + 4)
        & next.eq(ipv6::NEXT_FRAGMENT);
    let v4_version = v4(&ipv4::VERSION).ne(4) | ihl.lt(5);
    let least = (udp::BYTES + bth::BYTES + icrc::BYTES) as u32;

    let ended2 = m.reg("ended2", 1).reset(0);
    m.set(&ended2, ended1);
    let runt2 = delay("runt2", runt1);
    let other_type2 = delay("other_type2", !(v4_1 | v6_1));
    let short_ip2 = delay("short_ip2", rest1.lt(plain_bytes));
    let version2 = delay("version2", v6_1.then(v6(&ipv6::VERSION).ne(6), v4_version));
    let v6_fragment2 = delay("v6_fragment2", v6_1 & fragment_header);
    let protocol2 = delay("protocol2", v6_1.then(next, v4(&ipv4::PROTOCOL)));
    let offset2 = delay("offset2", v4_1 & v4(&ipv4::FRAG_OFFSET).any());
    let short_udp2 = delay("short_udp2", rest1.lt(ip_bytes + udp::BYTES));
    let dport2 = delay("dport2", port2);
    let options2 = delay("options2", v4_1 & ihl.ne(5));
    let more2 = delay("more2", v4_1 & v4(&ipv4::MF));
    // The header's nine other words (RFC 1071).
    let words: Vec<Sig> = (0..ipv4::BYTES)
        .step_by(2)
        .filter(|at| 8 * at != ipv4::CHECKSUM.offset as usize)
        .map(|at| bytes_of(packet1, at, 2).swap_bytes().zext(20))
        .collect();
    let thirds2: Vec<Sig> =
        words.chunks(3).enumerate().map(|(i, w)| delay(&format!("third{i}"), w[0] + w[1] + w[2])).collect();
    let checksum2 = pass("checksum2", v4(&ipv4::CHECKSUM));
    let v4_2 = delay("v4_2", v4_1);
    let v6_2 = delay("v6_2", v6_1);
    let has_tag2 = delay("has_tag2", has_tag1);
    let lengths2 = delay("lengths2", total1.gt(rest1) | total1.lt(plain_bytes + least));
    let datagram2 = delay("datagram2", total1 - plain_bytes);
    let src_ip2 = pass("src_ip2", v6_1.then(v6(&ipv6::SRC), v4(&ipv4::SRC).zext(128)));
    let dst_ip2 = pass("dst_ip2", v6_1.then(v6(&ipv6::DST), v4(&ipv4::DST).zext(128)));
    let ecn2 = pass("ecn2", v6_1.then(v6(&ipv6::ECN), v4(&ipv4::ECN)));
    let layer4_2 = pass("layer4_2", layer4_1);
    let vid2 = pass("vid2", vid1);
    let own_mac2 = pass("own_mac2", own_mac1);
    // A MAC control frame has no tag.
    let for_us = control1 & heard1 & !runt1;
    let code = field(&pause::LAYOUT, &pause::OPCODE, packet1);
    let control = |code_is: u16, bytes: usize| for_us & code.eq(code_is) & rest1.ge(bytes);
    let (is_pause, is_pfc) = (control(pause::CODE, pause::BYTES), control(pfc::CODE, pfc::BYTES));
    let fields = bytes_of(packet1, 0, pfc::BYTES);
    let mac_control = MacControl { pause: ended1 & is_pause, pfc: ended1 & is_pfc, fields };
    let taken2 = delay("taken2", is_pause | is_pfc);
    let raw2 = delay("raw2", asks1 | (passes1 & fits1));
    let asks2 = delay("asks2", asks1);
    let length2 = pass("frame_length2", length1);
    let control2 = delay("control2", control1);

    // Stage 3: UDP and the opcode.
    let sum = thirds2[0] + thirds2[1] + thirds2[2];
    let folded = sum.trunc(16).zext(17) + sum.slice(16, 4).zext(17);
    let udp_length = field(&udp::LAYOUT, &udp::LEN, layer4_2);
    let transport2 = bytes_of(layer4_2, udp::BYTES, layer4_bytes - udp::BYTES);
    let opcode = field(&bth::LAYOUT, &bth::OPCODE, transport2);
    let ext_sources: [(&str, &[(Ext, Field)]); 8] = {
        use ferrowire_spec::wire::{aeth, atomic_ack_eth, atomic_eth, ieth, imm_dt, reth};
        [
            (
                "va",
                &[
                    (Ext::Reth, reth::VA),
                    (Ext::AtomicEth, atomic_eth::VA),
                    (Ext::AtomicAckEth, atomic_ack_eth::ORIG),
                ],
            ),
            ("rkey", &[(Ext::Reth, reth::RKEY), (Ext::AtomicEth, atomic_eth::RKEY)]),
            ("dma_length", &[(Ext::Reth, reth::LEN)]),
            ("swap", &[(Ext::AtomicEth, atomic_eth::SWAP)]),
            ("compare", &[(Ext::AtomicEth, atomic_eth::COMPARE)]),
            ("syndrome", &[(Ext::Aeth, aeth::SYNDROME)]),
            ("msn", &[(Ext::Aeth, aeth::MSN)]),
            ("imm", &[(Ext::ImmDt, imm_dt::IMM), (Ext::Ieth, ieth::RKEY)]),
        ]
    };
    let ext_places3: Vec<Vec<Place>> = ext_sources
        .iter()
        .map(|(name, wanted)| {
            let places = ext_places(cfg, opcode, wanted);
            // The first place is taken where no other is chosen.
            let hold = |(i, (ext, f, at, chosen)): (usize, Place)| {
                let chosen = if i == 0 { chosen } else { delay(&format!("{name}_place{i}"), chosen) };
                (ext, f, at, chosen)
            };
            places.into_iter().enumerate().map(hold).collect()
        })
        .collect();
    let mut header_bytes = lit(6, 0);
    let heard = |o: &Opcode| cfg.hears(*o);
    let mut sizes: Vec<usize> = Opcode::ALL.iter().copied().filter(heard).map(extension_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        header_bytes = header_bytes
            | opcode_is(opcode, |o| heard(&o) && extension_bytes(o) == size)
                .then(bth::BYTES + size, lit(6, 0));
    }

    let ended3 = m.reg("ended3", 1).reset(0);
    m.set(&ended3, ended2);
    let reasons = [
        (runt2, Runt),
        (control2, DropReason::MacControl),
        (other_type2, NotRoce),
        (short_ip2, Runt),
        (version2, IpHeader),
        (v6_fragment2, IpFragment),
        (protocol2.ne(ipv4::PROTOCOL_UDP), NotRoce),
        (offset2, IpFragment),
        (short_udp2, Runt),
        (dport2.ne(udp::ROCE_PORT), NotRoce),
        (options2, IpHeader),
        (more2, IpFragment),
    ];
    let header_early = first_of(&reasons);
    let other = reasons.iter().rev().fold(lit(1, 0), |other, (holds, reason)| match reason.may_be_raw() {
        true => other | *holds,
        false => other & !*holds,
    });
    let raw3 = delay("raw3", raw2 & other);
    let asks3 = delay("asks3", asks2);
    let frame_length3 = third("frame_length3", length2);
    let early3 = delay("early3", header_early.0);
    let early_reason3 = delay("early_reason3", header_early.1 | taken2.repeat(REASON_BITS));
    let folded3 = delay("folded3", folded);
    let checksum3 = delay("checksum3", checksum2);
    let v4_3 = delay("v4_3", v4_2);
    let v6_3 = delay("v6_3", v6_2);
    let has_tag3 = delay("has_tag3", has_tag2);
    let length3 = delay("length3", lengths2 | udp_length.zext(LENGTH_BITS).ne(datagram2));
    // Base header to pad.
    let between3 = delay("between3", datagram2 - (udp::BYTES + icrc::BYTES));
    let header_bytes3 = delay("header_bytes3", header_bytes);
    let known3 = delay("known3", opcode_is(opcode, |o| heard(&o)));
    let no_payload3 = delay(
        "no_payload3",
        opcode_is(opcode, |o| heard(&o) && !o.carries_payload() && o != Opcode::RcReport),
    );
    let transport3 = pass("transport3", transport2);
    let src_ip3 = if held { src_ip2.named("src_ip3") } else { third("src_ip3", src_ip2) };
    let ecn3 = pass("ecn3", ecn2);

    // Stage 4: what is left behind the headers.
    let refolded = folded3.trunc(16) + folded3.msb().zext(16);
    let bad_sum = v4_3 & (!refolded).ne(checksum3);
    let base = |f: &Field| field(&bth::LAYOUT, f, transport3);
    let pad = base(&bth::PAD);
    let need = header_bytes3.zext(LENGTH_BITS) + pad.zext(LENGTH_BITS);
    let left = between3 - need;
    let malformed = between3.lt(need)
        | between3.trunc(2).any()
        | (no_payload3 & between3.ne(header_bytes3.zext(LENGTH_BITS)))
        | left.gt(MAX_PAYLOAD);
    let (early_here, early_here_reason) = first_of(&[(bad_sum, IpChecksum), (length3, Length)]);
    let (late, late_reason) =
        first_of(&[(base(&bth::TVER).any(), BthVersion), (!known3, ReservedOpcode), (malformed, Malformed)]);
    let early = early3 | early_here;
    let reason = early3.then(early_reason3, early_here.then(early_here_reason, late_reason));
    let extensions = bytes_of(transport3, bth::BYTES, longest_extensions);
    let ext = |name: &str| {
        let index = ext_sources.iter().position(|(n, _)| *n == name).expect("a source");
        let places = &ext_places3[index];
        let at = |(ext, f, at, _): &Place| field(ext.layout(), f, bytes_of(extensions, *at, ext.bytes()));
        match places.split_first() {
            Some((first, rest)) => rest.iter().fold(at(first), |value, place| place.3.then(at(place), value)),
            // Where no opcode has it, nobody asks for it.
            None => lit(ext_sources[index].1[0].1.width.into(), 0),
        }
    };
    let layer4_offset = [lit(7, eth::BYTES + ipv4::BYTES), lit(7, eth::BYTES + ipv6::BYTES)]
        .map(|untagged| [untagged + udp::BYTES, untagged + (vlan::BYTES + udp::BYTES)]);
    let layer4_offset = v6_3.then(
        has_tag3.then(layer4_offset[1][1], layer4_offset[1][0]),
        has_tag3.then(layer4_offset[0][1], layer4_offset[0][0]),
    );
    let headers = Headers {
        origin: Origin::of().zeros(),
        gid: lit(gid_bits(), 0),
        ecn: ecn3,
        opcode: raw3.then(asks3.then(lit(8, NEIGHBOUR_OPCODE), lit(8, RAW_OPCODE)), base(&bth::OPCODE))
            & lit(8, opcode_bits(cfg)),
        solicited: !raw3 & base(&bth::SE),
        pad,
        pkey: base(&bth::PKEY),
        becn: base(&bth::BECN),
        dest_qpn: raw3.then(lit(24, RAW_QPN), base(&bth::DESTQP)),
        ack_req: base(&bth::ACKREQ),
        again: !base(&bth::MIGREQ),
        distance: base(&bth::RESV7),
        psn: base(&bth::PSN),
        va: ext("va"),
        rkey: ext("rkey"),
        dma_length: ext("dma_length"),
        swap: ext("swap"),
        compare: ext("compare"),
        syndrome: ext("syndrome"),
        msn: ext("msn"),
        imm: ext("imm"),
        payload_offset: raw3.then(lit(7, 0), layer4_offset + header_bytes3.zext(7)),
        payload_bytes: raw3.then(frame_length3, left.trunc(PAYLOAD_BITS)),
    };
    let found = Found { early, late, reason, raw: raw3, headers };

    // The sum: the addresses and the datagram are one range, from 12 (IPv6: 8) bytes behind the IP header's start to
    // the packet's end. Its first byte is at least the 22nd, when all that tells where it begins has come.
    let v6_low = eth::BYTES + 8;
    let middle = eth::BYTES + 12;
    let v4_high = eth::BYTES + vlan::BYTES + 12;
    let (from_low, from_middle) = (sum_v6 & !sum_tag, sum_v6 | !sum_tag);
    let index1 = delay("index1", index0);
    let data1 = delay("data1", data0);
    let end_beat = end1.slice(cfg.lane_bits(), index_bits);
    let end_lane = end1.trunc(cfg.lane_bits());
    let whole = index1.lt(end_beat);
    let partly = index1.eq(end_beat);
    let unclear = v4_high.div_ceil(lanes as usize) as u32;
    let begins: Vec<Sig> = (0..unclear).map(|k| index1.eq(k)).collect();
    let keep: Vec<Sig> = (0..lanes)
        .map(|lane| {
            let mut before_begin = lit(1, 0);
            for k in 0..unclear {
                let byte = (k * lanes + lane) as usize;
                let before = match byte {
                    _ if byte < v6_low => lit(1, 1),
                    _ if byte < middle => !from_low,
                    _ if byte < v4_high => !from_middle,
                    _ => continue,
                };
                before_begin = before_begin | (begins[k as usize] & before);
            }
            !before_begin & (whole | (partly & end_lane.gt(lane)))
        })
        .collect();
    let keep2 = delay("keep2", cat(&keep));
    let data2 = delay("data2", data1);
    let mut sums: Vec<Sig> = (0..lanes / 2)
        .map(|w| {
            let byte = |i: u32| data2.slice(8 * (2 * w + i), 8) & keep2.bit(2 * w + i).repeat(8);
            cat(&[byte(1), byte(0)])
        })
        .collect();
    let pipe = |name: &str, sig: Sig, stages: u32| {
        (0..stages).fold(sig, |sig, i| {
            let next = m.reg(&format!("{name}{i}"), 1).reset(0);
            m.set(&next, sig);
            next
        })
    };
    let stages = tree_stages(cfg);
    for stage in 0..stages {
        let width = sums[0].width() + 2;
        sums = sums
            .chunks(4)
            .enumerate()
            .map(|(i, four)| {
                let wide = four.iter().map(|s| s.zext(width));
                delay(&format!("sum{stage}_{i}"), wide.reduce(|a, b| a + b).expect("at least one"))
            })
            .collect();
    }
    let seen = pipe("seen_sum", seen0, 2 + stages);
    let ended = pipe("ended_sum", ended0, 2 + stages);
    let running = m.reg("running", 1).reset(0);
    let total = m.reg("total", 32).no_reset();
    m.when(seen, |m| {
        m.set(&running, !ended);
        m.set(&total, running.then(total, lit(32, 0)) + sums[0].zext(32));
    });
    let summed = pipe("summed", ended, 1);
    // The pseudo header has the length once more, and the protocol (RFC 768, RFC 8200 8.1).
    let none = !field(&udp::LAYOUT, &udp::CHECKSUM, layer4_2).any();
    let pseudo = udp_length.zext(17) + ipv4::PROTOCOL_UDP;
    let (pseudo, none) = (0..=stages)
        .fold((pseudo, none), |(p, n), i| (third(&format!("pseudo{i}"), p), third(&format!("none{i}"), n)));
    let folded_total = m.reg("folded_total", 18).no_reset();
    m.when(if held { summed } else { lit(1, 1) }, |m| {
        m.set(&folded_total, total.trunc(16).zext(18) + total.slice(16, 16).zext(18) + pseudo.zext(18));
    });
    let none = delay("none", none);
    // Ones' complement zero, up to three times round.
    let right = none | folded_total.eq(0xffff) | folded_total.eq(2 * 0xffff) | folded_total.eq(3 * 0xffff);

    // Where it goes to.
    let key = GidKey { ip: dst_ip2, vid: vid2, tagged: vid2.any(), ipv6: if held { v6_1 } else { v6_2 } };
    let known = address(m, held, addresses, key);
    // And where it comes from.
    let qp = base(&bth::DESTQP).trunc(cfg.qp_bits());
    let source = Address { ipv6: if held { v6_1 } else { v6_3 }, ip: src_ip3 };
    let origin = peer::source_of(m, cfg, held, peers, qp, source);
    let parsed = |found: &Found, sound: Sound| {
        let bad_udp = !sound.sum & !found.early;
        let headers = (found.early | found.late).then(found.reason, lit(REASON_BITS, Destination.code()));
        Parsed {
            dropped: !found.raw & (found.early | bad_udp | found.late | !sound.ours),
            reason: bad_udp.then(UdpChecksum.code(), headers),
            headers: Headers { gid: sound.gid, origin: sound.origin, ..found.headers.clone() },
        }
    };
    if held {
        m.discard(&ended3);
        let there = m.reg("there", 1).reset(0);
        let age = m.reg("age", clog2(u64::from(KEPT_FOR) + 1)).no_reset();
        let sound = Sound { sum: right, ours: known.ours & own_mac2, gid: known.gid, origin };
        let result = Stream::new(m, "result", there & age.eq(KEPT_FOR), parsed(&found, sound));
        m.when(ended0, |m| {
            m.set(&there, 1);
            m.set(&age, 0);
        })
        .otherwise(|m| {
            m.when(result.fire(), |m| m.set(&there, 0));
            m.when(age.ne(KEPT_FOR), |m| m.set(&age, age + 1));
        });
        m.drive(&go, !(there | ended0));
        return (frame, half(&m.label("parsed"), result), mac_control);
    }

    let results = results(cfg);
    let found = Stream::new(m, "found", ended3, found);
    m.assert(!found.valid | found.ready, "a result finds room");
    let found = fifo(&m.label("found"), results, found);
    // Sum and destination are known in the same cycle.
    let spare = spare_stages(cfg);
    let right = (0..spare).fold(right, |right, i| delay(&format!("right{i}"), right));
    let sum_known = pipe("sum_known", summed, 1 + spare);
    let own_mac = (0..LATENCY).fold(own_mac2, |own, i| delay(&format!("own_mac{}", 3 + i), own));
    // The source is asked for a cycle later than the destination.
    let origin =
        (peer::LATENCY + 1..LATENCY).fold(origin, |origin, i| m.delay(&format!("origin{i}"), &origin));
    let sound = Sound { sum: right, ours: known.ours & own_mac, gid: known.gid, origin };
    let checked = Stream::new(m, "checked", sum_known, sound);
    m.assert(!checked.valid | checked.ready, "a sum finds room");
    let checked = fifo(&m.label("checked"), results.next_power_of_two(), checked);
    let parsed =
        Stream::new(m, "parsed", found.valid & checked.valid, parsed(&found, checked.payload.clone()));
    found.accept(parsed.fire());
    checked.accept(parsed.fire());

    let under_way = m.reg("under_way", clog2(u64::from(results) + 1)).reset(0);
    // A frame that waits has no place to begin: in a register, for the way of `ready` passes here.
    let all_taken = m.reg("all_taken", 1).reset(0);
    m.drive(&go, !all_taken);
    let begun = in_frame.map_or(fire, |in_frame| fire & !in_frame);
    m.set(&all_taken, !parsed.fire() & (all_taken | (begun & under_way.eq(results - 1))));
    m.assert(all_taken.eq(under_way.eq(results)), "the flag tells of the count");
    m.when(begun & !parsed.fire(), |m| m.set(&under_way, under_way + 1))
        .otherwise_when(!begun & parsed.fire(), |m| m.set(&under_way, under_way - 1));
    (frame, parsed, mac_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rx::frames::{
        captured, expected_item, expected_raw, mutated, other_frame, random_frame, random_frame_of,
        set_addresses, verdict_without_icrc, Filter,
    };
    use crate::testing::{drain, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use ferrowire_spec::csr::DropReason::{NotRoce, ReservedOpcode};
    use ferrowire_spec::wire::opcode::Service;
    use ferrowire_spec::wire::{Frame, Ip};
    use rand::Rng;

    fn config(beat_bytes: u32) -> RnicConfig {
        // The specification's frames.
        RnicConfig { beat_bytes, selective: false, ..RnicConfig::named("generic-64b").unwrap() }
    }

    struct Bench {
        sim: Sim,
        source: [Source; 1],
        sinks: [Sink; 2],
    }

    fn bench(beat_bytes: u32) -> Bench {
        bench_of(&config(beat_bytes))
    }

    fn bench_of(cfg: &RnicConfig) -> Bench {
        let beat_bytes = cfg.beat_bytes;
        let netlist = build("top", |m| {
            let mac = m.stream_in("mac", &Beat::of(beat_bytes));
            let addresses = m.input_of("addresses", &Addresses::of());
            let peers = m.input_of("peers", &Peers::of(cfg));
            let (frame, parsed, control) = parse(m, cfg, addresses, peers, mac, lit(1, 0));
            m.output("control", &control);
            m.stream_out("frame", frame);
            m.stream_out("parsed", parsed);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        set_addresses(&mut sim);
        let sinks = [Sink::new("frame", &Beat::of(beat_bytes)), Sink::new("parsed", &Parsed::of())];
        Bench { sim, source: [Source::new("mac", &Beat::of(beat_bytes))], sinks }
    }

    /// Sends frames and compares every result with the specification's parser.
    fn check(beat_bytes: u32, frames: &[Vec<u8>], stall: f64, random: &mut Random) {
        check_with(Filter::default(), beat_bytes, frames, stall, random);
    }

    /// The same with a raw Ethernet queue pair.
    fn check_with(filter: Filter, beat_bytes: u32, frames: &[Vec<u8>], stall: f64, random: &mut Random) {
        check_on(bench(beat_bytes), filter, beat_bytes, frames, stall, random);
    }

    fn check_on(
        bench: Bench,
        filter: Filter,
        beat_bytes: u32,
        frames: &[Vec<u8>],
        stall: f64,
        random: &mut Random,
    ) {
        let Bench { mut sim, mut source, mut sinks } = bench;
        filter.set(&mut sim);
        for frame in frames {
            source[0].push_frame(frame);
        }
        drain(&mut sim, &mut source, &mut sinks, random, stall, 4_000_000, 400);
        assert_eq!(sinks[0].frames(), frames, "frames pass unchanged");
        assert_eq!(sinks[1].items.len(), frames.len(), "one result a frame");
        for (n, (frame, got)) in frames.iter().zip(&sinks[1].items).enumerate() {
            let what =
                || format!("seed {}, frame {n} at {beat_bytes} bytes a beat: {frame:02x?}", random.seed);
            match verdict_without_icrc(frame) {
                Err(_) if filter.takes(frame) || filter.answers(frame) => {
                    assert_eq!(got["dropped"].to_u64(), 0, "{filter:?}: {}", what());
                    for (field, value) in expected_raw(frame, filter.answers(frame)) {
                        let got = &got[&*format!("headers_{field}")];
                        assert_eq!(got.to_u128(), value, "{field}: {}", what());
                    }
                }
                Err(reason) => {
                    assert_eq!(got["dropped"].to_u64(), 1, "{reason}: {}", what());
                    assert_eq!(got["reason"].to_u64(), u64::from(reason.code()), "{reason}: {}", what());
                }
                Ok(fixed) => {
                    let reason = DropReason::from_code(got["reason"].to_u64() as u8);
                    assert_eq!(got["dropped"].to_u64(), 0, "{reason:?}: {}", what());
                    for (field, value) in expected_item(&fixed) {
                        let got = &got[&*format!("headers_{field}")];
                        assert_eq!(got.to_u128(), value, "{field}: {}", what());
                    }
                }
            }
        }
    }

    #[test]
    fn a_card_without_functions_drops_their_packets_and_reads_all_others_alike() {
        let mut random = Random::new(21);
        let mut frames = captured();
        frames.extend((0..2_000).map(|_| random_frame(&mut random.rng)));
        for beat_bytes in [8, 64] {
            let Bench { mut sim, mut source, mut sinks } = bench_of(&config(beat_bytes).plain());
            frames.iter().for_each(|frame| source[0].push_frame(frame));
            drain(&mut sim, &mut source, &mut sinks, &mut random, 0.0, 8_000_000, 400);
            assert_eq!(sinks[1].items.len(), frames.len());
            // Those that pass, of other services, of IPv6 or with a tag, and requests that the responder is to refuse.
            let mut seen = [0; 4];
            for (frame, got) in frames.iter().zip(&sinks[1].items) {
                let dropped = got["dropped"].to_u64() == 1;
                let Ok(fixed) = verdict_without_icrc(frame) else {
                    assert!(dropped, "{frame:02x?}");
                    continue;
                };
                let sound = Frame::parse(&fixed).unwrap();
                let opcode = sound.opcode().unwrap();
                let plain = matches!(sound.ip, Ip::V4(_)) && sound.vlan.is_none();
                let refused = opcode.has(Ext::AtomicEth) || opcode.has_invalidate();
                let served = matches!(opcode.service(), Service::Rc | Service::Cnp);
                let what = || format!("{opcode:?} at {beat_bytes} bytes a beat: {frame:02x?}");
                if !plain || !served || opcode.has(Ext::AtomicAckEth) {
                    seen[if plain { 1 } else { 2 }] += 1;
                    let reason = if plain { ReservedOpcode } else { NotRoce };
                    assert!(dropped && got["reason"].to_u64() == reason.code().into(), "{}", what());
                    continue;
                }
                assert!(!dropped, "{}", what());
                seen[if refused { 3 } else { 0 }] += 1;
                // Of a request that is refused only what its sender is told counts.
                let told = ["gid", "opcode", "pkey", "dest_qpn", "psn", "ack_req"];
                for (field, value) in expected_item(&fixed) {
                    let got = got[&*format!("headers_{field}")].to_u128();
                    let counts = !refused || told.contains(&field);
                    assert!(!counts || got == value, "{field}: {got:#x}, not {value:#x}: {}", what());
                }
            }
            assert!(seen.iter().all(|n| *n > 20), "{seen:?}");
        }
    }

    #[test]
    fn captured_frames_parse_as_the_specification_does() {
        let mut random = Random::new(1);
        let frames = captured();
        assert!(frames.len() > 1000, "captures are missing");
        for beat_bytes in [8, 64] {
            check(beat_bytes, &frames, 0.0, &mut random);
        }
    }

    #[test]
    fn the_report_of_selective_retransmission_has_a_reserved_opcode() {
        let mut random = Random::new(22);
        for beat_bytes in [8, 64] {
            let mut frames = Vec::new();
            for _ in 0..100 {
                frames.push(random_frame_of(&mut random.rng, Opcode::RcReport));
                assert_eq!(verdict_without_icrc(&frames[frames.len() - 1]), Err(ReservedOpcode));
                frames.push(random_frame(&mut random.rng));
            }
            check(beat_bytes, &frames, 0.1, &mut random);
        }
    }

    #[test]
    fn random_frames_parse_at_every_width_with_stalls() {
        let mut random = Random::new(2);
        for beat_bytes in [8, 16, 32, 64] {
            let frames: Vec<_> = (0..300).map(|_| random_frame(&mut random.rng)).collect();
            check(beat_bytes, &frames, 0.3, &mut random);
        }
    }

    /// Where there is time, what was kept of a frame is overwritten by the next one.
    #[test]
    fn a_result_that_waits_for_long_is_that_of_its_own_frame() {
        let mut random = Random::new(12);
        for beat_bytes in [8, 16, 32, 64] {
            let frames: Vec<_> = (0..200)
                .map(|n| match n % 3 {
                    0 => other_frame(&mut random.rng),
                    _ => random_frame(&mut random.rng),
                })
                .collect();
            let mut bench = bench(beat_bytes);
            bench.sinks[1].stall = Some(0.9);
            check_on(bench, Filter::default(), beat_bytes, &frames, 0.0, &mut random);
        }
    }

    #[test]
    fn what_is_no_roce_is_a_raw_frame_where_the_filter_lets_it_pass() {
        let mut random = Random::new(7);
        let mut seen = [0, 0];
        for beat_bytes in [8, 16, 32, 64] {
            for _ in 0..6 {
                // Packets of RoCE are to the port's address alone, whoever else may be spoken to.
                let filter = Filter { promiscuous: false, ..Filter::random(&mut random.rng) };
                let frames: Vec<_> = (0..200)
                    .map(|n| match n % 4 {
                        0 => random_frame(&mut random.rng),
                        1 => mutated(&mut random.rng),
                        _ => other_frame(&mut random.rng),
                    })
                    .collect();
                frames.iter().for_each(|frame| seen[usize::from(filter.takes(frame))] += 1);
                check_with(filter, beat_bytes, &frames, 0.2, &mut random);
            }
            let filter = Filter { promiscuous: true, ..Filter::random(&mut random.rng) };
            let frames: Vec<_> = (0..200).map(|_| other_frame(&mut random.rng)).collect();
            check_with(filter, beat_bytes, &frames, 0.0, &mut random);
        }
        assert!(seen.iter().all(|n| *n > 500), "{seen:?}");
    }

    #[test]
    fn mutated_frames_are_dropped_for_the_reason_of_the_specification() {
        let mut random = Random::new(3);
        let mut seen = std::collections::BTreeSet::new();
        for beat_bytes in [8, 16, 32, 64] {
            let mut frames = Vec::new();
            for _ in 0..2000 {
                frames.push(mutated(&mut random.rng));
                seen.extend(verdict_without_icrc(frames.last().unwrap()).err());
            }
            check(beat_bytes, &frames, 0.1, &mut random);
        }
        use DropReason::*;
        for reason in [Runt, NotRoce, IpHeader, IpFragment, IpChecksum, Length, UdpChecksum] {
            assert!(seen.contains(&reason), "no mutation led to {reason}");
        }
        for reason in [BthVersion, ReservedOpcode, Malformed, Destination] {
            assert!(seen.contains(&reason), "no mutation led to {reason}");
        }
    }

    #[test]
    fn garbage_of_any_length_does_not_disturb_the_next_frame() {
        let mut random = Random::new(4);
        for beat_bytes in [8, 64] {
            let mut frames = Vec::new();
            for n in 1..150 {
                frames.push(random.bytes(n));
                frames.push(random_frame(&mut random.rng));
            }
            frames.push(random.bytes(140_000));
            frames.push(random_frame(&mut random.rng));
            check(beat_bytes, &frames, 0.0, &mut random);
        }
    }

    #[test]
    fn sound_pause_and_pfc_frames_are_told_and_others_dropped() {
        use crate::rx::frames::OWN_MAC;
        use ferrowire_spec::wire::{Pause, Pfc};
        let mut random = Random::new(6);
        for beat_bytes in [8, 16, 32, 64] {
            let Bench { mut sim, mut source, mut sinks } = bench(beat_bytes);
            // Of each frame, whether it is a PAUSE or PFC frame and what stands in it, and its code.
            let (mut told, mut codes) = (Vec::new(), Vec::new());
            for _ in 0..400 {
                let (is_pfc, mac) = (random.chance(0.5), random.rng.random::<u64>() >> 16);
                let times = std::array::from_fn(|_| random.chance(0.5).then(|| random.rng.random()));
                let mut frame = match is_pfc {
                    true => Pfc::new(times).frame(mac),
                    false => Pause::new(random.rng.random()).frame(mac),
                }
                .to_vec();
                let least = eth::BYTES + if is_pfc { pfc::BYTES } else { pause::BYTES };
                if random.chance(0.3) {
                    frame[..6].copy_from_slice(&OWN_MAC.to_be_bytes()[2..]);
                }
                let mut sound = true;
                match random.rng.random_range(0..8) {
                    0 => {
                        frame.truncate(random.rng.random_range(1..60));
                        sound = frame.len() >= least;
                    }
                    1 => {
                        let at =
                            [0, 1, 2, 3, 4, 5, eth::BYTES, eth::BYTES + 1][random.rng.random_range(0..8)];
                        frame[at] ^= 2 << random.rng.random_range(0..7);
                        sound = false;
                    }
                    2 => frame.truncate(random.rng.random_range(least..=60)),
                    3 => frame.extend(random.bytes(70)),
                    _ => {}
                }
                source[0].push_frame(&frame);
                if sound {
                    let bytes = frame[eth::BYTES..least].to_vec();
                    told.push((is_pfc, bytes));
                }
                codes.push(match (sound, frame.len() < eth::BYTES) {
                    (true, _) => TAKEN,
                    (_, true) => DropReason::Runt.code().into(),
                    _ => DropReason::MacControl.code().into(),
                });
                if random.chance(0.3) {
                    source[0].push_frame(&random_frame(&mut random.rng));
                    codes.push(0);
                }
            }
            let mut heard = Vec::new();
            while sinks[1].items.len() < codes.len() {
                crate::testing::step(&mut sim, &mut source, &mut sinks, &mut random, 0.1);
                let kinds = [sim.get("control_pause"), sim.get("control_pfc")];
                assert!(kinds != [1, 1]);
                if kinds != [0, 0] {
                    let length = if kinds[1] == 1 { pfc::BYTES } else { pause::BYTES };
                    let bytes = sim.get_bits("control_fields").to_bytes();
                    heard.push((kinds[1] == 1, bytes[..length].to_vec()));
                }
                assert!(sim.cycles() < 200_000);
            }
            assert!(heard == told, "seed {}: {} of {}", random.seed, heard.len(), told.len());
            for (got, code) in sinks[1].items.iter().zip(codes) {
                let (dropped, reason) = (got["dropped"].to_u64() == 1, got["reason"].to_u64());
                assert_eq!((dropped, if dropped { reason } else { 0 }), (code != 0 || dropped, code.into()));
            }
        }
    }

    #[test]
    fn frames_pass_back_to_back_and_results_come_in_the_stated_time() {
        let mut random = Random::new(5);
        for beat_bytes in [8, 16, 32, 64] {
            let Bench { mut sim, mut source, mut sinks } = bench(beat_bytes);
            let mut ends = Vec::new();
            let mut beats = 0;
            for _ in 0..200 {
                // The shortest frames are the hardest.
                let frame = crate::rx::frames::short_frame(&mut random.rng);
                beats += frame.len().div_ceil(beat_bytes as usize);
                ends.push(beats - 1);
                source[0].push_frame(&frame);
            }
            drain(&mut sim, &mut source, &mut sinks, &mut random, 0.0, 10_000, 100);
            let came = &source[0].cycles;
            assert_eq!(came[beats - 1] - came[0], beats as u64 - 1, "the input never waits");
            for (cycle, end) in sinks[1].cycles.iter().zip(ends) {
                assert_eq!(cycle - came[end], u64::from(latency(&config(beat_bytes))), "{beat_bytes}");
            }
        }
    }
}
