// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a packet's frame: every header from Ethernet to the extension headers, the payload, the pad and four zero
//! bytes where [`icrc`](super::icrc) puts the ICRC.
//!
//! ```text
//!  av_write --> sums --> [ address vectors: block RAM, one a QP, one a handle ]
//!                ^             |
//!  packet ----> read --------> +--> plan ---> network ---> header ----+
//!               (A)                  (B) |      (C)       shifts (D)  |     +------+
//!                                        v run                        OR -->| skid |--> out
//!  payload ----------------------->   join    ------------------------+     +------+
//! ```
//!
//! (A) holds the packet, whose address vector is read. (B) has it, and has worked out UDP, BTH and the extension headers that
//! the opcode asks for; it commands the rotator. (C) has the IPv4 checksum: the sum of all that does not change from
//! packet to packet was stored beside the address vector when that was written, so that one addition is left. (D)
//! has the whole header in place and shifts it down by a beat whenever one leaves; the payload comes rotated to the
//! lane where the header ends and is merged in.
//!
//! Where beats are narrow there is no need of the whole header at once: [`by_beat`] stores address vectors as the headers that they make, and
//! (C) and (D) are one.
//!
//! What a frame holds follows IBTA 9.2 and 9.3 and annex A17: IPv4 with DF and identification 0, or IPv6; UDP to port
//! 4791 without checksum; BTH with MigReq set and version 0; pad to a multiple of four. Every field that is not named
//! in [`TxPacket`] or [`AddressVector`] holds the reset value of the specification's table. The original value of
//! AtomicAckETH travels in `va`.
//!
//! A datagram has an address vector of its own, that of its handle; UDP source port and partition key are the sending QP's
//! (IBTA 10.2.2.3). Destination QPN and handle travel in `va` as they stand in the WQE, the queue key in `rkey`: neither
//! is needed for a RETH.
//!
//! Latency: 5 cycles from the packet to its first beat, payload at hand.
//! Throughput: a beat a cycle; a frame of `n` bytes with its ICRC takes `ceil(n / B)` cycles, with no cycle between
//! frames: 17 for 1,024 bytes of payload in 64-byte beats, 3 for a 64-byte WRITE ONLY. Frames of one beat that carry
//! payload (up to 6 bytes of it, at 64-byte beats) leave at three in four cycles. Within a frame there are gaps only
//! where payload is late; the first frame after a pause may have one of a cycle, in front of its payload. A change of
//! the address vector is seen by packets taken 2 cycles after it.
//! Of narrow beats: 4 cycles to the first beat, up to two cycles between frames without payload, and a change is seen some ten cycles after it.
//!
//! A raw frame ([`RAW_OPCODE`](crate::types::RAW_OPCODE)) is its payload and nothing else: from the first byte of the first beat on, of any length,
//! without room for an ICRC. Its priority is 0, for nobody looks into it.
//!
//! A frame may be shorter than Ethernet's 60 bytes; whoever adds the frame check sequence pads it, behind the ICRC.
//!
//! Bad input: none can come from the wire. An opcode that the specification does not know gives a frame without
//! extension headers. Payload beats must be as many as lane and length of the packets ask for; `last` only
//! says when `poisoned` counts, which goes on with the frame's last beat.

use super::join::{join, Run};
use super::{FrameBeat, FrameOf, Payload};
use crate::config::RnicConfig;
use crate::context::timer::Departed;
use crate::fields::assemble;
use crate::loopback::{nothing, reserved};
use crate::stream::{catch, fifo, forward, half, wide_skid, Beat, Wide};
use crate::types::{
    extension_bytes, extensions_of, is_raw, priority_of, AddressVector, TableWrite, TxPacket,
    NEIGHBOUR_OPCODE,
};
use ferrowire_rtl::{cat, clog2, lit, module, Bundle, Collision, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::command::PathMtu;
use ferrowire_spec::wire::opcode::Ext;
use ferrowire_spec::wire::{
    aeth, atomic_ack_eth, atomic_eth, bth, cnp, deth, eth, icrc, ieth, imm_dt, ipv4, ipv6, report, reth, udp,
    vlan, Opcode,
};
use ferrowire_spec::Field;

mod by_beat;

/// Packets whose payload has been taken whole before their frame has ended: three in the rotator, and one behind it.
const VERDICTS: u32 = 4;

/// What of an address vector, a QP's or a handle's, the plan of a packet needs.
#[derive(Clone, Bundle)]
struct Brief {
    vlan: Sig,
    ipv6: Sig,
    priority: Sig,
    /// The ones' complement sum over the IPv4 header of a packet without UDP.
    sum: Sig,
}

/// An address vector as it is stored whole.
#[derive(Clone, Bundle)]
struct Entry {
    network: Network,
    sum: Sig,
}

/// What of it is the QP's in any case.
#[derive(Clone, Bundle)]
struct Ports {
    udp_sport: Sig,
    dest_qpn: Sig,
    pkey: Sig,
}

/// What stands in front of UDP.
#[derive(Clone, Bundle)]
struct Network {
    dst_mac: Sig,
    src_mac: Sig,
    ipv6: Sig,
    dst_ip: Sig,
    src_ip: Sig,
    vlan: Sig,
    vlan_tci: Sig,
    traffic_class: Sig,
    hop_limit: Sig,
    flow_label: Sig,
}

impl Network {
    fn of(vector: &AddressVector) -> Network {
        let v = vector.clone();
        Network {
            dst_mac: v.dst_mac,
            src_mac: v.src_mac,
            ipv6: v.ipv6,
            dst_ip: v.dst_ip,
            src_ip: v.src_ip,
            vlan: v.vlan,
            vlan_tci: v.vlan_tci,
            traffic_class: v.traffic_class,
            hop_limit: v.hop_limit,
            flow_label: v.flow_label,
        }
    }
}

impl Network {
    fn brief(&self, sum: Sig) -> Brief {
        let priority = priority_of(self.vlan, self.vlan_tci);
        Brief { vlan: self.vlan, ipv6: self.ipv6, priority, sum }
    }
}

/// Where the address vectors are.
enum Vectors {
    /// Stored whole: that of the packet that is read.
    Whole(Network),
    /// As headers, beat by beat.
    ByBeat(by_beat::Images),
}

/// Where things end, in words of four bytes: every header but Ethernet's 14 bytes is a multiple of that.
#[derive(Clone, Bundle)]
struct Extent {
    /// From the last two bytes of the Ethernet header on to the payload.
    header: Sig,
    /// Payload with its pad.
    payload: Sig,
}

/// What follows from the packet alone: UDP, BTH and extent without what the address vector says.
#[derive(Clone, Bundle)]
struct Draft {
    /// UDP, BTH, extension headers.
    transport: Sig,
    datagram: Sig,
    datagram_bytes: Sig,
    extent: Extent,
    payload_bytes: Sig,
    payload_lane: Sig,
    departed: Departed,
    request: Sig,
    raw: Sig,
    loops: Sig,
}

/// A packet that waits for B.
#[derive(Clone, Bundle)]
struct Drafted {
    draft: Draft,
    /// Which address vector it has.
    vector: Sig,
}

/// Stage B: the packet with what its address vector says.
#[derive(Clone, Bundle)]
struct Planned {
    brief: Brief,
    draft: Draft,
}

/// A frame that may leave, but for its header.
#[derive(Clone, Bundle)]
struct Next {
    extent: Extent,
    has_payload: Sig,
    /// Bytes of the payload in its last beat, were it to begin in the first lane.
    tail: Sig,
    of: FrameOf,
}

/// Its header, as D takes it.
struct Header {
    /// There is a frame.
    valid: Sig,
    next: Next,
    /// The present beat of the header of the one that leaves; zeros behind it.
    beat: Sig,
    /// B may take another packet.
    frees: Sig,
}

/// Stage C.
#[derive(Clone, Bundle)]
struct Summed {
    network: Network,
    checksum: Sig,
    transport: Sig,
    datagram_bytes: Sig,
    next: Next,
}

/// What a beat has beside its data.
#[derive(Clone, Bundle)]
struct Rest {
    last: Sig,
    empty: Sig,
    poisoned: Sig,
    of: FrameOf,
}

/// What D does.
struct Leaves {
    /// It takes the frame.
    goes: Sig,
    /// It would take one.
    free: Sig,
    /// What it takes next is the first beat of a header: no frame is under way, or this is its last beat.
    turns: Sig,
    /// No frame is under way.
    idle: Sig,
    /// A beat of one leaves.
    fires: Sig,
    /// The beat in which the header ends, or one behind it.
    behind: Sig,
}

/// Bytes of the Ethernet header in front of the first whole word.
const ODD: usize = eth::BYTES % 4;
/// Bytes of the longest headers in front of the extension headers.
const BASE_BYTES: usize = eth::BYTES + vlan::BYTES + ipv6::BYTES + udp::BYTES + bth::BYTES;
/// Bytes of a frame without its FCS, at most: the longest header before a payload, the largest path MTU and the ICRC. A raw
/// frame has 4,096.
pub const LONGEST_FRAME: u32 = {
    let (mut most, mut i) = (0, 0);
    while i < Opcode::ALL.len() {
        let bytes = Opcode::ALL[i].header_bytes() - bth::BYTES;
        if Opcode::ALL[i].carries_payload() && bytes > most {
            most = bytes;
        }
        i += 1;
    }
    (BASE_BYTES + most + icrc::BYTES) as u32 + PathMtu::B4096.bytes() as u32
};
/// Bits that count the words of a header.
const HEADER_WORD_BITS: u32 = usize::BITS - ((BASE_BYTES + report::BYTES) / 4).leading_zeros();

/// Whether the opcode is one of those that the card sends for which `holds` does.
fn is(cfg: &RnicConfig, opcode: Sig, holds: impl Fn(Opcode) -> bool) -> Sig {
    let codes = Opcode::ALL.iter().filter(|o| cfg.speaks(**o) && holds(**o));
    codes.fold(lit(1, 0), |any, o| any | opcode.eq(o.code()))
}

/// One extension header.
fn extension(ext: Ext, p: &TxPacket) -> Sig {
    match ext {
        Ext::Report => unreachable!("it is payload here"),
        Ext::Deth => assemble(
            &deth::LAYOUT,
            &[(deth::QKEY, p.rkey), (deth::SRCQP, p.qp.zext(u32::from(deth::SRCQP.width)))],
        ),
        Ext::Reth => {
            assemble(&reth::LAYOUT, &[(reth::VA, p.va), (reth::RKEY, p.rkey), (reth::LEN, p.dma_length)])
        }
        Ext::AtomicEth => assemble(
            &atomic_eth::LAYOUT,
            &[
                (atomic_eth::VA, p.va),
                (atomic_eth::RKEY, p.rkey),
                (atomic_eth::SWAP, p.swap),
                (atomic_eth::COMPARE, p.compare),
            ],
        ),
        Ext::Aeth => assemble(&aeth::LAYOUT, &[(aeth::SYNDROME, p.syndrome), (aeth::MSN, p.msn)]),
        Ext::AtomicAckEth => assemble(&atomic_ack_eth::LAYOUT, &[(atomic_ack_eth::ORIG, p.va)]),
        Ext::ImmDt => assemble(&imm_dt::LAYOUT, &[(imm_dt::IMM, p.imm)]),
        Ext::Ieth => assemble(&ieth::LAYOUT, &[(ieth::RKEY, p.imm)]),
        Ext::Cnp => assemble(&cnp::LAYOUT, &[]),
    }
}

/// The extension headers of the packet's opcode, and their words.
fn extensions(cfg: &RnicConfig, p: &TxPacket) -> (Sig, Sig) {
    let most = cfg.sent_extension_bytes();
    let width = 8 * most as u32;
    let words_width = clog2(most as u64 / 4 + 1);
    let (mut headers, mut words) = (lit(width, 0), lit(words_width, 0));
    let mut lists: Vec<&[Ext]> = Vec::new();
    for list in Opcode::ALL.iter().filter(|o| cfg.speaks(**o)).map(|o| extensions_of(*o)) {
        if !list.is_empty() && !lists.contains(&list) {
            lists.push(list);
        }
    }
    for list in lists {
        let chosen = is(cfg, p.opcode, |o| extensions_of(o) == list);
        let parts: Vec<Sig> = list.iter().map(|ext| extension(*ext, p)).collect();
        let bytes: usize = list.iter().map(|ext| ext.bytes()).sum();
        headers = headers | (cat(&parts).zext(width) & chosen.repeat(width));
        words = words | (lit(words_width, bytes / 4) & chosen.repeat(words_width));
    }
    (headers, words)
}

/// What follows from the packet.
fn draft(cfg: &RnicConfig, p: &TxPacket) -> Draft {
    let (extension, extension_words) = extensions(cfg, p);

    // Words from the end of the header on: payload and pad.
    let length = p.payload_bytes.width();
    let rounded = p.payload_bytes.zext(length + 1) + 3;
    let payload_words = rounded.slice(2, length - 1);
    let pad = lit(2, 0) - p.payload_bytes.trunc(2);

    // Each bit of the words of all headers comes from the opcode alone, for the extensions have many multiplexers to choose.
    let fixed = (udp::BYTES + bth::BYTES + icrc::BYTES) / 4;
    let header_words = |o: &Opcode| fixed + extension_bytes(*o) / 4;
    let of_headers: Vec<Sig> = (0..clog2(((fixed + cfg.sent_extension_bytes() / 4) + 1) as u64))
        .map(|bit| {
            let usual = (fixed >> bit & 1) as u32;
            is(cfg, p.opcode, |o| (header_words(&o) ^ fixed) >> bit & 1 == 1) ^ lit(1, usual)
        })
        .collect();
    let datagram_words = payload_words.zext(14) + cat(&of_headers).zext(14);
    let datagram_bytes = cat(&[lit(2, 0), datagram_words]);

    let udp = assemble(&udp::LAYOUT, &[(udp::SPORT, lit(16, 0)), (udp::LEN, datagram_bytes)]);
    let datagram = is_datagram(cfg, p.opcode);
    let bth = assemble(
        &bth::LAYOUT,
        &[
            (bth::OPCODE, p.opcode),
            (bth::SE, p.solicited),
            (bth::PAD, pad),
            (bth::PKEY, lit(16, 0)),
            (bth::BECN, is(cfg, p.opcode, |o| o == Opcode::Cnp)),
            (bth::DESTQP, p.va.trunc(24) & datagram.repeat(24)),
            (bth::MIGREQ, !p.again),
            (bth::ACKREQ, p.ack_req),
            (bth::RESV7, p.distance),
            (bth::PSN, p.psn),
        ],
    );
    Draft {
        transport: cat(&[udp, bth, extension]),
        datagram,
        datagram_bytes,
        extent: Extent { header: extension_words.zext(HEADER_WORD_BITS), payload: payload_words },
        payload_bytes: p.payload_bytes,
        payload_lane: p.payload_lane,
        departed: Departed { qp: p.qp, fresh: p.fresh },
        request: !(is(cfg, p.opcode, |o| !o.is_request()) | p.opcode.eq(NEIGHBOUR_OPCODE)),
        raw: is_raw(p.opcode),
        loops: cfg.only(cfg.loopback, p.loops),
    }
}

impl Draft {
    /// What follows from the packet and its address vector.
    fn with(&self, v: &Brief, ports: &Ports) -> Planned {
        let own = self.clone();
        let plain = (eth::BYTES - ODD + ipv4::BYTES + udp::BYTES + bth::BYTES) / 4;
        let longer = (ipv6::BYTES - ipv4::BYTES) / 4;
        let header_words = own.extent.header
            + v.vlan.then(plain + vlan::BYTES / 4, lit(HEADER_WORD_BITS, plain))
            + v.ipv6.then(longer, lit(HEADER_WORD_BITS, 0));
        let header = header_words & (!own.raw).repeat(HEADER_WORD_BITS);
        // Everything else is as in the draft, or zero.
        let nothing = |field: Field| (field, lit(field.width.into(), 0));
        let udp = assemble(&udp::LAYOUT, &[(udp::SPORT, ports.udp_sport), nothing(udp::LEN)]);
        let dest = ports.dest_qpn & (!own.datagram).repeat(24);
        let rest =
            [bth::OPCODE, bth::SE, bth::MIGREQ, bth::PAD, bth::BECN, bth::ACKREQ, bth::PSN].map(nothing);
        let fields = [vec![(bth::PKEY, ports.pkey), (bth::DESTQP, dest)], rest.into()].concat();
        let bth = assemble(&bth::LAYOUT, &fields);
        let transport = own.transport | cat(&[udp, bth]).zext(own.transport.width());
        let extent = Extent { header, payload: own.extent.payload };
        Planned { brief: v.clone(), draft: Draft { transport, extent, ..own } }
    }
}

impl Planned {
    /// That of the IPv4 header, with the length that was not known before.
    fn checksum(&self) -> Sig {
        !fold(sum(17, &[self.brief.sum, self.draft.datagram_bytes]))
    }
}

fn ipv4_header(n: &Network, total_bytes: Sig, checksum: Sig) -> Sig {
    assemble(
        &ipv4::LAYOUT,
        &[
            (ipv4::DSCP, n.traffic_class.slice(2, 6)),
            (ipv4::ECN, n.traffic_class.slice(0, 2)),
            (ipv4::TOTAL_LEN, total_bytes),
            (ipv4::TTL, n.hop_limit),
            (ipv4::CHECKSUM, checksum),
            (ipv4::SRC, n.src_ip.trunc(32)),
            (ipv4::DST, n.dst_ip.trunc(32)),
        ],
    )
}

fn ipv6_header(n: &Network, payload_bytes: Sig) -> Sig {
    assemble(
        &ipv6::LAYOUT,
        &[
            (ipv6::DSCP, n.traffic_class.slice(2, 6)),
            (ipv6::ECN, n.traffic_class.slice(0, 2)),
            (ipv6::FLOW_LABEL, n.flow_label),
            (ipv6::PAYLOAD_LEN, payload_bytes),
            (ipv6::HOP_LIMIT, n.hop_limit),
            (ipv6::SRC, n.src_ip),
            (ipv6::DST, n.dst_ip),
        ],
    )
}

/// Ethernet header and tag, in front of an IP header.
fn link_header(n: &Network, tagged: bool, ipv6: bool) -> Sig {
    let inner = if ipv6 { eth::ethertype::IPV6 } else { eth::ethertype::IPV4 };
    let outer = if tagged { eth::ethertype::VLAN } else { inner };
    let ethernet = assemble(
        &eth::LAYOUT,
        &[(eth::DST, n.dst_mac), (eth::SRC, n.src_mac), (eth::ETHERTYPE, lit(16, outer))],
    );
    if !tagged {
        return ethernet;
    }
    let tag = assemble(
        &vlan::LAYOUT,
        &[
            (vlan::PCP, n.vlan_tci.slice(13, 3)),
            (vlan::DEI, n.vlan_tci.bit(12)),
            (vlan::VID, n.vlan_tci.slice(0, 12)),
            (vlan::ETHERTYPE, lit(16, inner)),
        ],
    );
    cat(&[ethernet, tag])
}

/// What stands before UDP, in each of its four forms. `bytes`: of the IPv4 packet, and behind the IPv6 header.
fn network_headers(n: &Network, bytes: [Sig; 2], checksum: Sig) -> [Sig; 4] {
    let (v4, v6) = (ipv4_header(n, bytes[0], checksum), ipv6_header(n, bytes[1]));
    [(false, false), (true, false), (false, true), (true, true)]
        .map(|(tagged, ipv6)| cat(&[link_header(n, tagged, ipv6), if ipv6 { v6 } else { v4 }]))
}

/// The sum over an IPv4 header of a packet without UDP, in two parts.
fn header_sums(n: &Network) -> [Sig; 2] {
    let fixed = ipv4_header(n, lit(16, ipv4::BYTES), lit(16, 0));
    let words: Vec<Sig> = fixed.chunks(16).iter().map(Sig::swap_bytes).collect();
    let (low, high) = words.split_at(words.len() / 2);
    [sum(19, low), sum(19, high)]
}

/// The sum of numbers of any widths, in `width` bits.
fn sum(width: u32, terms: &[Sig]) -> Sig {
    terms.iter().fold(lit(width, 0), |sum, term| sum + term.zext(width))
}

/// A ones' complement sum brought to 16 bits: the carries are added in again.
fn fold(sum: Sig) -> Sig {
    let once = sum.trunc(16).zext(17) + sum.slice(16, sum.width() - 16).zext(17);
    once.trunc(16) + once.bit(16).zext(16)
}

/// Whether the address vector is a handle's.
fn is_datagram(cfg: &RnicConfig, opcode: Sig) -> Sig {
    is(cfg, opcode, |o| o.extensions().contains(&Ext::Deth))
}

/// Which address vector a packet has.
fn vector_of(cfg: &RnicConfig, packet: &TxPacket) -> Sig {
    let high_part = cfg.av_bits() - 1;
    let handle = packet.va.slice(32, cfg.ah_bits()).zext(high_part);
    let datagram = is_datagram(cfg, packet.opcode);
    cat(&[datagram.then(handle, packet.qp.zext(high_part)), datagram])
}

/// The ports and keys of queue pairs, read where `en` holds. `write`: what is written, where it is a queue pair's.
fn ports_of(m: &Scope, cfg: &RnicConfig, write: TableWrite<AddressVector>, en: Sig, qp: Sig) -> Ports {
    let of = |v: &AddressVector| Ports { udp_sport: v.udp_sport, dest_qpn: v.dest_qpn, pkey: v.pkey };
    let of_qp = m.mem("ports", cfg.qps, &of(&write.entry)).style(Style::Block).build();
    let enable = write.enable & !write.index.bit(cfg.av_bits() - 1);
    of_qp.write(enable, write.index.trunc(cfg.qp_bits()), &of(&write.entry));
    of_qp.read(m, en, qp, Collision::Any)
}

/// The address vectors, read whole for the packet where `en` holds. What is read while it `writes` means nothing. A vector is written with the sum over its IPv4
/// header, two cycles after the command.
fn vectors(
    m: &Scope,
    cfg: &RnicConfig,
    write: TableWrite<AddressVector>,
    en: Sig,
    packet: &Drafted,
) -> (Entry, Ports, Sig) {
    let came = m.reg("write_came", 1).reset(0);
    let index = m.reg("write_index", write.index.width()).no_reset();
    let vector = m.reg_of("write_vector", &write.entry);
    m.set(&came, write.enable);
    m.assert(!write.enable | !came, "vectors come a command apart");
    m.when(write.enable, |m| {
        m.set(&index, write.index);
        m.set_all(&vector, &write.entry);
    });

    let network = Network::of(&vector);
    let [low, high] = header_sums(&network);
    let sums = [m.delay("write_low_sum", &low), m.delay("write_high_sum", &high)];
    let writes = m.reg("write_goes", 1).reset(0);
    m.set(&writes, came);
    let entry = Entry { network, sum: fold(sum(20, &sums)).named("write_sum") };
    let rows = 1 << cfg.av_bits();
    let table = m.mem("vectors", rows, &entry).style(cfg.large(rows)).build();
    table.write(writes, index, &entry);
    let write = TableWrite { enable: writes, index, entry: vector };
    let ports = ports_of(m, cfg, write, en, packet.draft.departed.qp);
    (table.read(m, en, packet.vector, Collision::Any), ports, writes)
}

/// Stage C and the whole header in D, which shifts it: a frame may begin in every cycle.
fn at_once(
    m: &Scope,
    cfg: &RnicConfig,
    network: Network,
    planned: &Planned,
    next: Next,
    able: Sig,
    leaves: &Leaves,
) -> Header {
    let valid = m.reg("summed_valid", 1).reset(0);
    let moves = (!valid | leaves.free).named("summed_moves");
    let frees = able & moves;
    // The opposite of `valid` is for the enable of what is wide, so that the stage before this one does not wait for a net of so many loads. Whether
    // there is a packet is no part of it: without one it loads what nobody looks at.
    let nothing = m.reg("summed_nothing", 1).reset(1);
    m.when(moves, |m| {
        m.set(&valid, able);
        m.set(&nothing, !able);
    });
    let wide_moves = (nothing | leaves.free).named("summed_wide_moves");
    let with_sum = Summed {
        network,
        checksum: planned.checksum(),
        transport: planned.draft.transport,
        datagram_bytes: planned.draft.datagram_bytes,
        next,
    };
    let summed = m.reg_of("summed", &with_sum);
    m.when(wide_moves, |m| m.set_all(&summed, &with_sum));

    let width = 8 * ((BASE_BYTES + cfg.sent_extension_bytes()) as u32).next_multiple_of(cfg.beat_bytes);
    let bytes = [summed.datagram_bytes + ipv4::BYTES, summed.datagram_bytes];
    let forms = network_headers(&summed.network, bytes, summed.checksum)
        .map(|before| cat(&[before, summed.transport]).zext(width));
    let head = m.reg("head", width).no_reset();
    let beat = 8 * cfg.beat_bytes;
    let begun = m.select(cat(&[summed.network.vlan, summed.network.ipv6]), &forms);
    let rest = head.slice(beat, width - beat).zext(width);
    m.when(leaves.fires | leaves.idle, |m| m.set(&head, leaves.turns.then(begun, rest)));
    m.discard(&(leaves.behind, leaves.goes));
    Header { valid, next: summed.next, beat: head.trunc(beat), frees }
}

/// Builds frames: one a packet, in order, without the ICRC's value. `aside`: the priorities that may have to stand still while others go on.
#[module]
pub fn build(
    m: &Scope,
    cfg: &RnicConfig,
    packet: Stream<TxPacket>,
    payload: Stream<Payload>,
    av_write: TableWrite<AddressVector>,
    aside: Sig,
) -> Stream<FrameBeat> {
    let beat_bytes = cfg.beat_bytes;
    let lane_bits = cfg.lane_bits();
    // Words in a beat, as a shift.
    let word_bits = lane_bits - 2;

    // A: the address vector is read. Whether the stages behind move does not concern who sends.
    // Where there is time, a stage is empty for a cycle before it takes the next: nobody needs to know in that cycle what moves behind it.
    let (enters, entering) = (packet.fire(), packet.payload.clone());
    let stage = &m.label("entered");
    let came = if cfg.unhurried() { half(stage, packet) } else { forward(stage, packet) };
    // Only an atomic has these.
    m.discard(&(came.swap, came.compare));
    // What waits is drafted: whether it has waited is known late, and chooses last.
    let drafted = came.map(|packet| Drafted { draft: draft(cfg, packet), vector: vector_of(cfg, packet) });
    let read = if cfg.unhurried() { drafted } else { catch(stage, drafted) };
    let read_moves = read.fire();

    // B: transport headers are known, the rotator gets its command. Narrow beats leave time to look at what was read.
    let planned_valid = m.reg("planned_valid", 1).reset(0);
    let planned_moves = m.wire("planned_moves", 1);
    let plans = if cfg.unhurried() { !planned_valid } else { !planned_valid | planned_moves };
    let (planned, vectors, writes) = match cfg.unhurried() {
        true => {
            let (brief, ports, images) = by_beat::vectors(m, cfg, av_write, enters, &entering);
            let worked_out = read.draft.with(&brief, &ports);
            let planned = m.reg_of("planned", &worked_out);
            m.when(read_moves, |m| m.set_all(&planned, &worked_out));
            m.discard(&planned.draft.datagram);
            (planned, Vectors::ByBeat(images), lit(1, 0))
        }
        false => {
            let planned = m.reg_of("planned", &read.draft);
            m.when(plans, |m| m.set_all(&planned, &read.draft));
            // As long as none is planned it is read again and again: whether a packet is there is no part of the enable.
            let (Entry { network, sum }, ports, writes) = vectors(m, cfg, av_write, plans, &read);
            (planned.with(&network.brief(sum), &ports), Vectors::Whole(network), writes)
        }
    };
    let commanded = m.reg("commanded", 1).reset(0);
    let odd = planned.draft.raw.then(lit(2, 0), lit(2, ODD));
    let offset = cat(&[odd, planned.draft.extent.header]);
    let run = Run {
        from_lane: planned.draft.payload_lane,
        to_lane: offset.trunc(lane_bits),
        length: planned.draft.payload_bytes,
    };
    let run = Stream::new(m, "run", planned_valid & !commanded, run);
    read.accept(plans & !writes);
    m.when(plans | planned_moves, |m| m.set(&planned_valid, read_moves));
    m.when(planned_moves, |m| m.set(&commanded, 0)).otherwise_when(run.fire(), |m| m.set(&commanded, 1));

    // What goes into the frame beside its header, and what of D the header needs.
    let priority = planned.brief.priority & (!planned.draft.raw).repeat(3);
    let next = Next {
        of: FrameOf {
            departed: planned.draft.departed.clone(),
            request: planned.draft.request,
            priority,
            aside: aside.shr_by(priority).bit(0),
            raw: planned.draft.raw,
            loops: planned.draft.loops,
            reserved: planned.draft.loops.then(reserved(cfg, planned.draft.payload_bytes), nothing(cfg)),
        },
        extent: planned.draft.extent.clone(),
        has_payload: planned.draft.payload_bytes.any(),
        tail: planned.draft.payload_bytes.trunc(lane_bits),
    };
    let able = planned_valid & (commanded | run.ready);
    let wire = |name: &str| m.wire(name, 1);
    let leaves = Leaves {
        goes: wire("goes"),
        free: wire("free"),
        turns: wire("turns"),
        idle: wire("idle"),
        fires: wire("fires"),
        behind: wire("behind"),
    };
    let header = match vectors {
        Vectors::ByBeat(images) => {
            let at = m.reg("planned_vector", cfg.av_bits()).no_reset();
            m.when(read_moves, |m| m.set(&at, read.vector));
            by_beat::header(m, cfg, (images, at), &planned, next, able, &leaves)
        }
        Vectors::Whole(network) => at_once(m, cfg, network, &planned, next, able, &leaves),
    };
    m.drive(&planned_moves, header.frees);
    let next = header.next;

    // D: header and payload leave.
    // Whether a frame is poisoned is known with its last beat of payload, and waits for the frame's last beat.
    let verdict = Stream::new(m, "verdict", payload.fire() & payload.last, payload.poisoned);
    m.assert(!verdict.valid | verdict.ready, "a verdict finds its place");
    let verdicts = fifo(&m.label("verdicts"), VERDICTS, verdict);
    let joined = join(m, cfg, run, payload);
    // The last word of the frame is the ICRC; the first begins behind the odd bytes. That of a raw frame is one of its payload.
    let width = next.extent.payload.width() + 1;
    let raw = next.of.raw;
    let last_word = sum(width, &[next.extent.header, next.extent.payload]);
    let end_word = last_word + raw.then(lit(width, (1u64 << width) - 1), lit(width, icrc::BYTES / 4));
    let active = m.reg("active", 1).reset(0);
    // Its opposite, for the enable of the header.
    let idle = m.reg("idle", 1).reset(1);
    let beats_left = m.reg("beats_left", width - word_bits).no_reset();
    let empty = m.reg("empty", lane_bits).no_reset();
    let before_payload = m.reg("before_payload", HEADER_WORD_BITS - word_bits).no_reset();
    let payload_left = m.reg("payload_left", 1).reset(0);

    // What follows from these is known a cycle before.
    let behind = m.reg("behind", 1).reset(0);
    // Payload is in the next beat: once for the bytes of the beat, and once, as its opposite, for what is decided.
    let wants_payload = m.reg("wants_payload", 1).reset(0);
    let without = m.reg("without_payload", 1).reset(1);
    let wants = !without;
    let set_wants = |m: &Scope, value: Sig| {
        m.set(&wants_payload, value);
        m.set(&without, !value);
    };
    let last = m.reg("last", 1).reset(0);
    m.drive(&leaves.behind, behind);
    let carries = m.reg("carries", 1).reset(0);
    let of = m.reg_of("of", &FrameOf::of(cfg));
    let headers = header.beat & (!of.raw).repeat(8 * beat_bytes);
    let data = headers | (joined.data & wants_payload.repeat(8 * beat_bytes));
    let rest = Rest {
        last,
        empty: empty & last.repeat(lane_bits),
        poisoned: last & carries & verdicts.payload,
        of: of.clone(),
    };
    let beats = Stream::new(m, "beat", active & (!wants | joined.valid), rest);
    joined.accept(active & wants & beats.ready);

    let done = beats.fire() & last;
    m.assert(!(done & carries) | verdicts.valid, "the verdict comes with the payload");
    verdicts.accept(done & carries);
    let free = (!active | done).named("frame_free");
    let goes = header.valid & free;
    m.drive(&leaves.goes, goes);
    m.drive(&leaves.free, free);
    m.drive(&leaves.turns, !active | last);
    m.drive(&leaves.idle, idle);
    m.drive(&leaves.fires, !idle & beats.ready & (!wants | joined.valid));
    m.when(beats.fire(), |m| {
        m.set(&beats_left, beats_left - 1);
        m.set(&last, beats_left.eq(1));
        m.when(!behind, |m| m.set(&before_payload, before_payload - 1));
        let reaches = behind | before_payload.eq(1);
        m.set(&behind, reaches);
        m.when(wants & joined.last, |m| m.set(&payload_left, 0));
        set_wants(m, reaches & payload_left & !(wants & joined.last));
    });
    m.when(free, |m| {
        m.set(&active, header.valid);
        m.set(&idle, !header.valid);
        let beats = end_word.slice(word_bits, width - word_bits);
        m.set(&beats_left, beats);
        m.set(&last, beats.eq(0));
        let in_last_beat = raw.then(next.tail, cat(&[lit(2, ODD), end_word.trunc(word_bits)]));
        m.set(&empty, lit(lane_bits, 0) - in_last_beat);
        let before = next.extent.header.slice(word_bits, HEADER_WORD_BITS - word_bits);
        m.set(&before_payload, before);
        m.set(&behind, before.eq(0));
        m.set(&payload_left, next.has_payload);
        set_wants(m, before.eq(0) & next.has_payload);
        m.set(&carries, next.has_payload);
        m.set_all(&of, &next.of);
    });
    // No path leads from the wire's `ready` to the payload's. What says where the frame goes is in registers.
    let Wide { out, wide } = wide_skid(&m.label("leaving"), beats, data);
    out.map(|rest| {
        let beat = Beat { data: wide, last: rest.last, empty: rest.empty };
        FrameBeat::from(&beat, rest.poisoned, rest.of.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::super::pause::PRIORITIES;
    use super::*;
    use crate::testing::{item, run, Random, Sink, Source};
    use crate::types::RAW_OPCODE;
    use ferrowire_rtl::{Bits, Sim};
    use ferrowire_spec::wire::{
        Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Deth, Eth, Extensions, Frame, Ieth, ImmDt, Ip, Ipv4, Ipv6,
        Reth, Udp, Vlan,
    };
    use rand::Rng;

    fn config(beat_bytes: u32) -> RnicConfig {
        RnicConfig { beat_bytes, qps: 16, ..RnicConfig::named("generic-64b").unwrap() }
    }

    fn write_shape(cfg: &RnicConfig) -> TableWrite<AddressVector> {
        use ferrowire_rtl::bits;
        TableWrite { enable: bits(1), index: bits(cfg.av_bits()), entry: AddressVector::of() }
    }

    fn sim(cfg: &RnicConfig) -> Sim {
        let netlist = ferrowire_rtl::build("top", |m| {
            let packet = m.stream_in("packet", &TxPacket::of(cfg));
            let payload = m.stream_in("payload", &Payload::of(cfg));
            let av_write = m.input_of("av_write", &write_shape(cfg));
            let aside = m.input("aside", PRIORITIES);
            let out = build(m, cfg, packet, payload, av_write, aside);
            m.stream_out("out", out);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        sim
    }

    #[derive(Clone, Copy, Default)]
    struct Vector {
        ipv6: bool,
        tag: Option<u16>,
        dst_mac: u64,
        src_mac: u64,
        dst_ip: u128,
        src_ip: u128,
        traffic_class: u8,
        hop_limit: u8,
        flow_label: u32,
        sport: u16,
        dest_qpn: u32,
        pkey: u16,
    }

    impl Vector {
        fn random(random: &mut Random, ipv6: bool, tagged: bool) -> Vector {
            let rng = &mut random.rng;
            let ip_bits = if ipv6 { 128 } else { 32 };
            let mut ip = || rng.random::<u128>() >> (128 - ip_bits);
            let (dst_ip, src_ip) = (ip(), ip());
            Vector {
                ipv6,
                tag: tagged.then(|| rng.random()),
                dst_mac: rng.random::<u64>() >> 16,
                src_mac: rng.random::<u64>() >> 16,
                dst_ip,
                src_ip,
                traffic_class: rng.random(),
                hop_limit: rng.random(),
                flow_label: rng.random::<u32>() >> 12,
                sport: rng.random(),
                dest_qpn: rng.random::<u32>() >> 8,
                pkey: rng.random(),
            }
        }
    }

    #[derive(Clone, Copy)]
    struct Packet {
        qp: usize,
        opcode: Opcode,
        bytes: usize,
        lane: usize,
    }

    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
        sources: [Source; 2],
        sinks: [Sink; 1],
        random: Random,
        vectors: Vec<Vector>,
        handles: Vec<Vector>,
        poisoned: Vec<bool>,
        expected: Vec<Vec<u8>>,
    }

    impl Bench {
        /// The QPs use: IPv4, IPv6, IPv4 tagged, IPv6 tagged, and so on.
        fn new(beat_bytes: u32, seed: u64) -> Bench {
            let cfg = config(beat_bytes);
            let mut bench = Bench {
                sim: sim(&cfg),
                sources: [
                    Source::new("packet", &TxPacket::of(&cfg)),
                    Source::new("payload", &Payload::of(&cfg)),
                ],
                sinks: [Sink::new("out", &FrameBeat::of(&cfg))],
                poisoned: Vec::new(),
                random: Random::new(seed),
                vectors: Vec::new(),
                handles: Vec::new(),
                expected: Vec::new(),
                cfg,
            };
            for qp in 0..16 {
                let vector = Vector::random(&mut bench.random, qp % 2 == 1, qp / 2 % 2 == 1);
                bench.write(qp, vector);
                bench.vectors.push(vector);
            }
            for handle in 0..16 {
                let vector = Vector::random(&mut bench.random, handle % 2 == 0, handle / 2 % 2 == 1);
                bench.write(1 << (bench.cfg.av_bits() - 1) | handle, vector);
                bench.handles.push(vector);
            }
            bench.sim.tick();
            bench
        }

        fn write(&mut self, qp: usize, v: Vector) {
            let values = [
                ("enable", 1),
                ("index", qp as u128),
                ("entry_dst_mac", v.dst_mac.into()),
                ("entry_src_mac", v.src_mac.into()),
                ("entry_ipv6", v.ipv6.into()),
                ("entry_dst_ip", v.dst_ip),
                ("entry_src_ip", v.src_ip),
                ("entry_vlan", v.tag.is_some().into()),
                ("entry_vlan_tci", v.tag.unwrap_or(0x1234).into()),
                ("entry_traffic_class", v.traffic_class.into()),
                ("entry_hop_limit", v.hop_limit.into()),
                ("entry_flow_label", v.flow_label.into()),
                ("entry_udp_sport", v.sport.into()),
                ("entry_dest_qpn", v.dest_qpn.into()),
                ("entry_pkey", v.pkey.into()),
            ];
            for (path, bits) in item(&write_shape(&self.cfg), &values) {
                self.sim.set_bits(&format!("av_write_{path}"), &bits);
            }
            self.sim.tick();
            self.sim.set("av_write_enable", 0);
            // Commands are further apart than that.
            let apart = if self.cfg.unhurried() { 10 } else { 1 };
            (0..apart).for_each(|_| self.sim.tick());
        }

        /// Queues a packet with its payload, and the frame that must come of it.
        fn push(&mut self, p: Packet) {
            let rng = &mut self.random.rng;
            let (mut va, rkey, dma_length): (u64, u32, u32) = (rng.random(), rng.random(), rng.random());
            let datagram = p.opcode.extensions().contains(&Ext::Deth);
            let handle = rng.random_range(0..16usize);
            if datagram {
                va = va & 0xffff_ffff | (handle as u64) << 32;
            }
            let (swap, compare): (u64, u64) = (rng.random(), rng.random());
            let (syndrome, imm, se, ackreq): (u8, u32, bool, bool) =
                (rng.random(), rng.random(), rng.random(), rng.random());
            let (psn, msn) = (rng.random::<u32>() >> 8, rng.random::<u32>() >> 8);
            let (again, distance) = (rng.random::<bool>(), rng.random::<u8>() >> 1);
            self.sources[0].push_values(&[
                ("qp", p.qp as u128),
                ("opcode", p.opcode.code().into()),
                ("solicited", se.into()),
                ("ack_req", ackreq.into()),
                ("again", again.into()),
                ("distance", distance.into()),
                ("psn", psn.into()),
                ("va", va.into()),
                ("rkey", rkey.into()),
                ("dma_length", dma_length.into()),
                ("swap", swap.into()),
                ("compare", compare.into()),
                ("syndrome", syndrome.into()),
                ("msn", msn.into()),
                ("imm", imm.into()),
                ("payload_bytes", p.bytes as u128),
                ("payload_lane", p.lane as u128),
            ]);
            let payload = self.random.bytes(p.bytes);
            self.push_payload(p.lane, &payload);

            let mut ext = Extensions::default();
            for header in p.opcode.extensions() {
                match header {
                    Ext::Report => {
                        ext.report = Some(ferrowire_spec::wire::Report::parse(&payload).expect("40 bytes"))
                    }
                    Ext::Deth => ext.deth = Some(Deth { qkey: rkey, srcqp: p.qp as u32, ..Deth::default() }),
                    Ext::Reth => ext.reth = Some(Reth { va, rkey, len: dma_length }),
                    Ext::AtomicEth => ext.atomic = Some(AtomicEth { va, rkey, swap, compare }),
                    Ext::Aeth => ext.aeth = Some(Aeth { syndrome, msn }),
                    Ext::AtomicAckEth => ext.atomic_ack = Some(AtomicAckEth { orig: va }),
                    Ext::ImmDt => ext.imm = Some(ImmDt { imm }),
                    Ext::Ieth => ext.ieth = Some(Ieth { rkey: imm }),
                    Ext::Cnp => ext.cnp = Some(Cnp::default()),
                }
            }
            let own = self.vectors[p.qp];
            let v = match datagram {
                false => own,
                true => Vector {
                    sport: own.sport,
                    pkey: own.pkey,
                    dest_qpn: va as u32 & 0xff_ffff,
                    ..self.handles[handle]
                },
            };
            let (dscp, ecn) = (v.traffic_class >> 2, v.traffic_class & 3);
            let ip = match v.ipv6 {
                false => Ip::V4(Ipv4 {
                    dscp,
                    ecn,
                    ttl: v.hop_limit,
                    src: v.src_ip as u32,
                    dst: v.dst_ip as u32,
                    ..Default::default()
                }),
                true => Ip::V6(Ipv6 {
                    dscp,
                    ecn,
                    flow_label: v.flow_label,
                    hop_limit: v.hop_limit,
                    src: v.src_ip,
                    dst: v.dst_ip,
                    ..Default::default()
                }),
            };
            let becn = p.opcode == Opcode::Cnp;
            let mut frame = Frame {
                eth: Eth { dst: v.dst_mac, src: v.src_mac, ethertype: 0 },
                vlan: v.tag.map(|tci| Vlan::from_tci(tci, 0)),
                ip,
                udp: Udp { sport: v.sport, ..Default::default() },
                bth: Bth {
                    opcode: p.opcode.code(),
                    se,
                    pkey: v.pkey,
                    becn,
                    destqp: v.dest_qpn,
                    migreq: !again,
                    ackreq,
                    resv7: distance,
                    psn,
                    ..Default::default()
                },
                ext,
                payload: if p.opcode == Opcode::RcReport { &[] } else { &payload },
                ..Default::default()
            };
            frame.seal().unwrap();
            let mut bytes = vec![0; frame.len()];
            frame.emit(&mut bytes).unwrap();
            assert!(frame.bth.tver == 0 && Frame::parse(&bytes).is_ok());
            let end = bytes.len();
            bytes[end - icrc::BYTES..].fill(0);
            self.expected.push(bytes);
        }

        /// Queues a raw frame, which must come as it is.
        fn push_raw(&mut self, bytes: usize, lane: usize) {
            let rng = &mut self.random.rng;
            let (qp, va): (u32, u64) = (rng.random_range(0..16), rng.random());
            self.sources[0].push_values(&[
                ("qp", qp.into()),
                ("opcode", RAW_OPCODE.into()),
                ("va", va.into()),
                ("payload_bytes", bytes as u128),
                ("payload_lane", lane as u128),
            ]);
            let frame = self.random.bytes(bytes);
            self.push_payload(lane, &frame);
            self.expected.push(frame);
        }

        fn push_payload(&mut self, lane: usize, payload: &[u8]) {
            // Of the beats that are not the last the flag means nothing.
            self.poisoned.push(!payload.is_empty() && self.random.chance(0.2));
            if payload.is_empty() {
                return;
            }
            let b = self.cfg.beat_bytes as usize;
            let beats = (lane + payload.len()).div_ceil(b);
            let mut lying = self.random.bytes(beats * b);
            lying[lane..lane + payload.len()].copy_from_slice(payload);
            for (i, beat) in lying.chunks(b).enumerate() {
                let data = Bits::from_bytes(8 * self.cfg.beat_bytes, beat);
                let last = Bits::new(1, u128::from(i + 1 == beats));
                let poisoned = match i + 1 == beats {
                    true => Bits::new(1, u128::from(self.poisoned[self.poisoned.len() - 1])),
                    false => self.random.bits(1),
                };
                let mut given = item(&Payload::of(&self.cfg), &[]);
                let fields =
                    [("data", data), ("ends_piece", last.clone()), ("last", last), ("poisoned", poisoned)];
                given.extend(fields.map(|(field, bits)| (field.into(), bits)));
                self.sources[1].push(given);
            }
        }

        /// Opcodes of the packets that the card sends.
        fn opcodes(&self) -> Vec<Opcode> {
            Opcode::ALL.iter().copied().filter(|opcode| self.cfg.speaks(*opcode)).collect()
        }

        /// A packet that its opcode allows.
        fn random_packet(&mut self, opcode: Opcode) -> Packet {
            let rng = &mut self.random.rng;
            let bytes = match (opcode.carries_payload(), rng.random_range(0..4)) {
                (false, _) if opcode == Opcode::RcReport => ferrowire_spec::wire::report::BYTES,
                (false, _) => 0,
                (true, 0) => rng.random_range(0..=4096),
                (true, _) => rng.random_range(0..=3 * self.cfg.beat_bytes as usize),
            };
            let lane = rng.random_range(0..self.cfg.beat_bytes as usize);
            Packet { qp: rng.random_range(0..16), opcode, bytes, lane }
        }

        fn run(&mut self, stall: f64) {
            let n = self.expected.len();
            let bytes: usize = self.expected.iter().map(Vec::len).sum();
            let cycles = 1000 + 20 * (n + bytes / self.cfg.beat_bytes as usize) as u64;
            run(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall, cycles, |s| {
                s[0].frames_seen() == n
            });
            let frames = self.sinks[0].frames();
            for (i, (frame, expected)) in frames.iter().zip(&self.expected).enumerate() {
                assert_eq!(frame, expected, "seed {}, frame {i}", self.random.seed);
            }
            assert!(self.sources.iter().all(|s| s.left() == 0), "payload is left over");
            let (ends, others): (Vec<_>, Vec<_>) =
                self.sinks[0].items.iter().partition(|item| !item["last"].is_zero());
            assert!(others.iter().all(|item| item["poisoned"].is_zero()));
            let poisoned: Vec<bool> = ends.iter().map(|item| !item["poisoned"].is_zero()).collect();
            assert_eq!(poisoned, self.poisoned, "seed {}", self.random.seed);
            for item in ends {
                let (bytes, empty) = (item["data"].to_bytes(), item["empty"].to_u64() as usize);
                assert!(bytes[bytes.len() - empty..].iter().all(|b| *b == 0), "bytes behind the frame");
            }
        }

        /// Cycles from the end of the first frame to that of the last.
        fn span(&self) -> u64 {
            let sink = &self.sinks[0];
            let beats = sink.items.iter().zip(&sink.cycles);
            let ends: Vec<u64> = beats.filter(|(item, _)| !item["last"].is_zero()).map(|(_, c)| *c).collect();
            ends[ends.len() - 1] - ends[0]
        }
    }

    #[test]
    fn frames_are_those_of_the_specification_for_every_opcode() {
        for (beat_bytes, seed) in [(8, 1), (16, 2), (32, 3), (64, 4)] {
            for stall in [0.0, 0.3] {
                let mut bench = Bench::new(beat_bytes, seed);
                for _ in 0..4 {
                    for opcode in bench.opcodes() {
                        let packet = bench.random_packet(opcode);
                        bench.push(packet);
                    }
                }
                bench.run(stall);
            }
        }
    }

    #[test]
    fn every_short_payload_in_every_lane_is_padded_and_placed() {
        for beat_bytes in [8, 64] {
            let mut bench = Bench::new(beat_bytes, 5);
            for bytes in 0..=70 {
                for step in 0..4 {
                    let lane = (bytes * 5 + step * beat_bytes as usize / 4) % beat_bytes as usize;
                    let qp = (bytes + step) % 16;
                    bench.push(Packet { qp, opcode: Opcode::RcSendOnly, bytes, lane });
                    bench.push(Packet { qp, opcode: Opcode::RcWriteOnlyImm, bytes, lane });
                }
            }
            bench.run(0.0);
        }
    }

    #[test]
    fn the_largest_payload_is_whole_in_every_beat_size() {
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = Bench::new(beat_bytes, 6);
            for qp in 0..4 {
                for bytes in [4093, 4094, 4095, 4096] {
                    let lane = beat_bytes as usize - 1;
                    bench.push(Packet { qp, opcode: Opcode::RcReadResponseOnly, bytes, lane });
                    bench.push(Packet { qp, opcode: Opcode::RcWriteMiddle, bytes, lane: 0 });
                }
            }
            bench.run(0.0);
        }
    }

    #[test]
    fn raw_frames_are_their_payload_alone_among_others() {
        for (beat_bytes, seed) in [(8, 21), (16, 22), (32, 23), (64, 24)] {
            for stall in [0.0, 0.3] {
                let mut bench = Bench::new(beat_bytes, seed);
                let b = beat_bytes as usize;
                for bytes in (14..14 + 2 * b).chain([60, 1514, 4095, 4096]) {
                    let lane = bench.random.rng.random_range(0..b);
                    bench.push_raw(bytes, lane);
                    if bench.random.chance(0.5) {
                        let opcodes = bench.opcodes();
                        let opcode = opcodes[bench.random.rng.random_range(0..opcodes.len())];
                        let packet = bench.random_packet(opcode);
                        bench.push(packet);
                    }
                }
                bench.run(stall);
                let ends = bench.sinks[0].items.iter().filter(|item| !item["last"].is_zero());
                let raw = ends.filter(|item| !item["of_raw"].is_zero()).collect::<Vec<_>>();
                assert_eq!(raw.len(), 2 * b + 4);
                assert!(raw.iter().all(|item| item["of_priority"].is_zero()), "nobody looks into them");
            }
        }
    }

    #[test]
    fn frames_leave_without_a_gap() {
        let middle = Opcode::RcWriteMiddle;
        for (beat_bytes, opcode, bytes, beats) in [
            (64, middle, 1024, 17),
            (64, middle, 4096, 65),
            (64, Opcode::RcWriteOnly, 64, 3),
            (64, Opcode::RcSendOnly, 64, 2),
            (64, Opcode::RcReadResponseOnly, 64, 2),
            (64, Opcode::RcReadRequest, 0, 2),
            (64, Opcode::RcAcknowledge, 0, 1),
            (32, middle, 1024, 34),
            (16, Opcode::RcAcknowledge, 0, 4),
            (16, Opcode::RcWriteOnly, 64, 9),
            (8, middle, 1024, 136),
            (8, Opcode::RcSendOnly, 8, 9),
        ] {
            for lane in [0, 1, 5, 2 * beat_bytes as usize - 10, beat_bytes as usize - 1] {
                let lane = lane % beat_bytes as usize;
                let mut bench = Bench::new(beat_bytes, 7);
                for _ in 0..21 {
                    bench.push(Packet { qp: 0, opcode, bytes, lane });
                }
                bench.run(0.0);
                // After a pause the rotator may need one cycle more than the header.
                assert!(bench.sinks[0].gaps <= 1);
                assert_eq!(
                    bench.span(),
                    20 * beats,
                    "{opcode}, {bytes} bytes, lane {lane}, beats of {beat_bytes}"
                );
            }
        }
    }

    #[test]
    fn frames_of_one_beat_with_payload_leave_at_three_in_four_cycles() {
        let mut bench = Bench::new(64, 8);
        for _ in 0..61 {
            bench.push(Packet { qp: 0, opcode: Opcode::RcSendOnly, bytes: 4, lane: 9 });
        }
        bench.run(0.0);
        assert!(bench.span() <= 80, "{}", bench.span());
    }

    #[test]
    fn a_frame_begins_five_cycles_after_its_packet() {
        for (opcode, bytes, cycles) in
            [(Opcode::RcAcknowledge, 0, 5), (Opcode::RcWriteOnly, 64, 5), (Opcode::RcSendOnly, 64, 5)]
        {
            let mut bench = Bench::new(64, 9);
            bench.push(Packet { qp: 0, opcode, bytes, lane: 0 });
            bench.run(0.0);
            assert_eq!(bench.sinks[0].cycles[0] - bench.sources[0].cycles[0], cycles, "{opcode}");
        }
    }

    #[test]
    fn a_new_address_vector_is_seen_by_packets_two_cycles_after_it() {
        let mut bench = Bench::new(64, 10);
        bench.push(Packet { qp: 3, opcode: Opcode::RcAcknowledge, bytes: 0, lane: 0 });
        bench.run(0.0);
        let vector = Vector::random(&mut bench.random, false, true);
        bench.write(3, vector);
        bench.vectors[3] = vector;
        bench.push(Packet { qp: 3, opcode: Opcode::RcAcknowledge, bytes: 0, lane: 0 });
        bench.run(0.0);
    }
}
