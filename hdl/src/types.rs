// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passes between the parts of the pipeline. A bundle that only one part uses lives with that part.

use crate::config::RnicConfig;
use crate::rx::address::gid_bits;
use crate::rx::peer::{Origin, PEER_BITS};
use ferrowire_rtl::{bits, clog2, lit, Bundle, Sig};
use ferrowire_spec::queue::EventKind;
use ferrowire_spec::wire::opcode::Ext;
use ferrowire_spec::wire::{bth, Opcode};

/// What the parser knows of a frame. Numbers are in host order: bit 0 is the least significant.
#[derive(Clone, Bundle)]
pub struct Headers {
    /// Whether it comes from the peer of its destination QP, and from which one.
    pub origin: Origin,
    /// Which of the port's GIDs the packet is sent to.
    pub gid: Sig,
    /// ECN field of the IP header.
    pub ecn: Sig,
    /// BTH opcode, or [`RAW_OPCODE`]: then only destination, place and length of the payload mean something.
    pub opcode: Sig,
    /// BTH solicited event.
    pub solicited: Sig,
    /// BTH pad count.
    pub pad: Sig,
    /// BTH partition key.
    pub pkey: Sig,
    /// BTH BECN.
    pub becn: Sig,
    /// BTH destination QP.
    pub dest_qpn: Sig,
    /// BTH acknowledge request.
    pub ack_req: Sig,
    /// BTH MigReq 0: between queue pairs with selective retransmission, it has been sent before.
    pub again: Sig,
    /// The seven bits of the BTH after AckReq: between such queue pairs, the distance of a READ or atomic.
    pub distance: Sig,
    /// BTH packet sequence number.
    pub psn: Sig,
    /// RETH or AtomicETH virtual address; of an atomic's answer what the memory held before; of a datagram its DETH: the Q_Key in the
    /// high 32 bits, the source QP in the low 24. Meaningless where the opcode has none; so are all below.
    pub va: Sig,
    /// RETH or AtomicETH remote key.
    pub rkey: Sig,
    /// RETH DMA length.
    pub dma_length: Sig,
    /// AtomicETH value to store or to add.
    pub swap: Sig,
    /// AtomicETH value to compare with.
    pub compare: Sig,
    /// AETH syndrome.
    pub syndrome: Sig,
    /// AETH message sequence number.
    pub msn: Sig,
    /// Immediate data, or IETH's key.
    pub imm: Sig,
    /// Place of the payload's first byte in the frame. Of a datagram 40 bytes of GRH stand before it, in what goes to the responder.
    pub payload_offset: Sig,
    /// Payload bytes without pad and ICRC.
    pub payload_bytes: Sig,
}

impl Headers {
    /// The shape.
    pub fn of() -> Headers {
        Headers {
            origin: Origin::of(),
            gid: bits(gid_bits()),
            ecn: bits(2),
            opcode: bits(8),
            solicited: bits(1),
            pad: bits(2),
            pkey: bits(16),
            becn: bits(1),
            dest_qpn: bits(24),
            ack_req: bits(1),
            again: bits(1),
            distance: bits(DISTANCE_BITS),
            psn: bits(24),
            va: bits(64),
            rkey: bits(32),
            dma_length: bits(32),
            swap: bits(64),
            compare: bits(64),
            syndrome: bits(8),
            msn: bits(24),
            imm: bits(32),
            payload_offset: bits(7),
            payload_bytes: bits(13),
        }
    }
}

/// Bits of the distance of a READ or atomic from the one before it (`docs/src/selective.md`).
pub const DISTANCE_BITS: u32 = 7;

/// In the place of a BTH opcode: a frame that is not RoCE, of which the whole is payload. One of those that the standard leaves to manufacturers,
/// which no packet of ours has (IBTA volume 1, 9.2.1).
pub const RAW_OPCODE: u8 = 0xe0 | Opcode::RcSendOnly as u8;

/// Likewise, of what [`neighbour`](crate::neighbour) deals with: a frame that asks for an address of the port, and the answer.
pub const NEIGHBOUR_OPCODE: u8 = RAW_OPCODE | 1;

/// The extension headers of an opcode. What a report tells passes as payload.
pub const fn extensions_of(opcode: Opcode) -> &'static [Ext] {
    match opcode {
        Opcode::RcReport => &[],
        _ => opcode.extensions(),
    }
}

/// Their bytes.
pub const fn extension_bytes(opcode: Opcode) -> usize {
    match opcode {
        Opcode::RcReport => 0,
        _ => opcode.header_bytes() - bth::BYTES,
    }
}

/// Whether one of these stands there. Of no known opcode the highest three bits are set.
pub fn is_raw(opcode: Sig) -> Sig {
    opcode.slice(5, 3).all()
}

/// Whether queue pairs of a service, as attributes have it, have no peer of their own: datagrams and raw Ethernet.
pub fn is_connectionless(service: Sig) -> Sig {
    service.msb()
}

/// A packet to be sent: what `tx::build` needs beside the QP's address vector.
#[derive(Clone, Bundle)]
pub struct TxPacket {
    /// The sending QP: chooses the address vector, but for a datagram.
    pub qp: Sig,
    /// BTH opcode; tells which extension headers follow. Of a raw frame [`RAW_OPCODE`].
    pub opcode: Sig,
    /// BTH solicited event.
    pub solicited: Sig,
    /// BTH acknowledge request.
    pub ack_req: Sig,
    /// BTH packet sequence number.
    pub psn: Sig,
    /// A request whose PSN has not been sent before.
    pub fresh: Sig,
    /// Its BTH has MigReq 0: of a queue pair with selective retransmission, it has been sent before, or answers what has.
    pub again: Sig,
    /// The seven bits of the BTH after AckReq: of such a queue pair's READ or atomic and its first answer, the distance.
    pub distance: Sig,
    /// RETH or AtomicETH virtual address; of an atomic's answer what the memory held before; of a datagram the destination QPN
    /// in the low 24 bits, the address handle in the high 32.
    pub va: Sig,
    /// RETH or AtomicETH remote key; of a datagram the queue key.
    pub rkey: Sig,
    /// RETH DMA length.
    pub dma_length: Sig,
    /// AtomicETH value to store or to add.
    pub swap: Sig,
    /// AtomicETH value to compare with.
    pub compare: Sig,
    /// AETH syndrome.
    pub syndrome: Sig,
    /// AETH message sequence number.
    pub msn: Sig,
    /// Immediate data or IETH's key.
    pub imm: Sig,
    /// Payload bytes, 0 to 4,096, without pad.
    pub payload_bytes: Sig,
    /// Lane of the payload's first byte in its first beat, as it lies in host memory.
    pub payload_lane: Sig,
    /// It returns inside the card; of a raw frame: it may. Room for it is reserved, see [`loopback`](crate::loopback).
    pub loops: Sig,
}

impl TxPacket {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> TxPacket {
        TxPacket {
            qp: bits(cfg.qp_bits()),
            opcode: bits(8),
            solicited: bits(1),
            ack_req: bits(1),
            psn: bits(24),
            fresh: bits(1),
            again: bits(1),
            distance: bits(DISTANCE_BITS),
            va: bits(64),
            rkey: bits(32),
            dma_length: bits(32),
            swap: bits(64),
            compare: bits(64),
            syndrome: bits(8),
            msn: bits(24),
            imm: bits(32),
            payload_bytes: bits(13),
            payload_lane: bits(cfg.lane_bits()),
            loops: bits(1),
        }
    }
}

/// Priority of packets on the wire: that of their 802.1Q tag, 0 without one.
pub fn priority_of(vlan: Sig, vlan_tci: Sig) -> Sig {
    vlan_tci.slice(13, 3) & vlan.repeat(3)
}

/// A QP's address vector, as SET_AV and MODIFY_QP give it.
#[derive(Clone, Bundle)]
pub struct AddressVector {
    /// Ethernet destination.
    pub dst_mac: Sig,
    /// Ethernet source.
    pub src_mac: Sig,
    /// IPv6 rather than IPv4.
    pub ipv6: Sig,
    /// IP destination; IPv4 in the low 32 bits.
    pub dst_ip: Sig,
    /// IP source, likewise.
    pub src_ip: Sig,
    /// An 802.1Q tag is sent.
    pub vlan: Sig,
    /// Its PCP, DEI and VID.
    pub vlan_tci: Sig,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: Sig,
    /// IPv4 TTL or IPv6 hop limit.
    pub hop_limit: Sig,
    /// IPv6 flow label.
    pub flow_label: Sig,
    /// UDP source port.
    pub udp_sport: Sig,
    /// The peer's QPN.
    pub dest_qpn: Sig,
    /// BTH partition key.
    pub pkey: Sig,
}

impl AddressVector {
    /// The shape.
    pub fn of() -> AddressVector {
        AddressVector {
            dst_mac: bits(48),
            src_mac: bits(48),
            ipv6: bits(1),
            dst_ip: bits(128),
            src_ip: bits(128),
            vlan: bits(1),
            vlan_tci: bits(16),
            traffic_class: bits(8),
            hop_limit: bits(8),
            flow_label: bits(20),
            udp_sport: bits(16),
            dest_qpn: bits(24),
            pkey: bits(16),
        }
    }
}

/// A write into a table by the command processor: the owner's other ports only read.
#[derive(Clone, Bundle)]
pub struct TableWrite<T: Bundle> {
    /// Written in this cycle.
    pub enable: Sig,
    /// Which entry.
    pub index: Sig,
    /// Its new value.
    pub entry: T,
}

/// A read of host memory: up to 4,096 bytes, within one page of 4 KiB.
#[derive(Clone, Bundle)]
pub struct DmaReadRequest {
    /// Bus address of the first byte.
    pub address: Sig,
    /// Bytes, 1 to 4,096.
    pub length: Sig,
}

impl DmaReadRequest {
    /// The shape.
    pub fn of() -> Self {
        DmaReadRequest { address: bits(64), length: bits(13) }
    }
}

/// A beat of what was read, in the order of the requests; byte `address mod beat_bytes` of memory is in that lane.
#[derive(Clone, Bundle)]
pub struct DmaReadData {
    /// The bytes.
    pub data: Sig,
    /// Last beat of a request.
    pub last: Sig,
    /// The read failed: the bytes mean nothing.
    pub error: Sig,
}

impl DmaReadData {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        DmaReadData { data: bits(8 * cfg.beat_bytes), last: bits(1), error: bits(1) }
    }
}

/// Kinds of writes by what must be seen before them: payload; entries of completion queues, behind the payload that came before; events and replies
/// to commands, behind both; payload of regions with relaxed ordering, which other payload may pass.
pub const ORDERS: u32 = 4;

/// A beat of a write to host memory, in the lanes of the address. A write stays within one page of 4 KiB.
#[derive(Clone, Bundle)]
pub struct DmaWrite {
    /// Bus address of the write's first byte, the same in all its beats.
    pub address: Sig,
    /// Bytes of the whole write, 1 to 4,096, the same in all its beats.
    pub length: Sig,
    /// The bytes.
    pub data: Sig,
    /// Which bytes are written.
    pub strobe: Sig,
    /// Last beat of the write.
    pub last: Sig,
    /// Its kind, below [`ORDERS`].
    pub order: Sig,
}

impl DmaWrite {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        DmaWrite {
            address: bits(64),
            length: bits(13),
            data: bits(8 * cfg.beat_bytes),
            strobe: bits(cfg.beat_bytes),
            last: bits(1),
            order: bits(clog2(ORDERS.into())),
        }
    }
}

/// What the command processor keeps of a QP. Engines hold read copies, written by broadcast.
#[derive(Clone, Bundle)]
pub struct QpAttributes {
    /// Service: RC 0, UC 1, UD 2, raw Ethernet 3.
    pub service: Sig,
    /// Protection domain.
    pub pd: Sig,
    /// CQ of the send queue.
    pub send_cq: Sig,
    /// CQ of the receive queue.
    pub recv_cq: Sig,
    /// Bus address of the send queue.
    pub sq_base: Sig,
    /// Log2 of the send queue's WQEs, at most 15.
    pub sq_log2: Sig,
    /// Log2 of the 64-byte units of each.
    pub sq_stride: Sig,
    /// Every send WQE is signalled.
    pub sq_sig_all: Sig,
    /// Bus address of the receive queue.
    pub rq_base: Sig,
    /// Log2 of the receive queue's WQEs, at most 15.
    pub rq_log2: Sig,
    /// Log2 of the 64-byte units of each, at most 2.
    pub rq_stride: Sig,
    /// The doorbell page that this QP answers to.
    pub doorbell_page: Sig,
    /// Path MTU code: 1 is 256 bytes, 5 is 4,096.
    pub mtu: Sig,
    /// What the peer may do (the access bits of the command).
    pub access: Sig,
    /// Which of its peers it has, as [`Origin::peer`].
    pub peer: Sig,
    /// Which of the port's GIDs is its own: other packets are not for it.
    pub gid: Sig,
    /// Priority of its packets on the wire: that of the tag, 0 without one.
    pub priority: Sig,
    /// Its packets return inside the card: its peer's MAC address was the port's when it was given.
    pub loops: Sig,
    /// Partition key.
    pub pkey: Sig,
    /// Queue key; UD.
    pub qkey: Sig,
    /// Time-out code of an acknowledgement; 0 of UC and UD.
    pub timeout: Sig,
    /// How often a request is sent again.
    pub retry_cnt: Sig,
    /// The same after RNR NAKs; 7: without end.
    pub rnr_retry: Sig,
    /// Timer code of the RNR NAKs that it sends.
    pub min_rnr_timer: Sig,
    /// READs and atomics that may be outstanding, at most 16.
    pub max_rd_atomic: Sig,
    /// READs and atomics that it takes at once, at most 16.
    pub max_dest_rd_atomic: Sig,
    /// It and its peer have agreed on selective retransmission.
    pub selective: Sig,
    /// Its receives come from a shared queue.
    pub has_srq: Sig,
    /// That one.
    pub srqn: Sig,
}

impl QpAttributes {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        QpAttributes {
            service: bits(2),
            pd: bits(24),
            send_cq: bits(cfg.cq_bits()),
            recv_cq: bits(cfg.cq_bits()),
            sq_base: bits(64),
            sq_log2: bits(4),
            sq_stride: bits(2),
            sq_sig_all: bits(1),
            rq_base: bits(64),
            rq_log2: bits(4),
            rq_stride: bits(2),
            doorbell_page: bits(16),
            mtu: bits(3),
            access: bits(8),
            peer: bits(PEER_BITS),
            gid: bits(gid_bits()),
            priority: bits(3),
            loops: bits(1),
            pkey: bits(16),
            qkey: bits(32),
            timeout: bits(5),
            retry_cnt: bits(3),
            rnr_retry: bits(3),
            min_rnr_timer: bits(5),
            max_rd_atomic: bits(5),
            max_dest_rd_atomic: bits(5),
            selective: bits(1),
            has_srq: bits(1),
            srqn: bits(cfg.srq_bits()),
        }
    }
}

/// The broadcasts from the QP context to every engine's read copies. A write is visible to a read in the next cycle.
#[derive(Clone, Bundle)]
pub struct QpBroadcast {
    /// New attributes.
    pub attributes: TableWrite<QpAttributes>,
    /// A new state (`ferrowire_spec::qp_state::QpState` codes).
    pub state: TableWrite<Sig>,
}

impl QpBroadcast {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let index = bits(cfg.qp_bits());
        QpBroadcast {
            attributes: TableWrite { enable: bits(1), index, entry: QpAttributes::of(cfg) },
            state: TableWrite { enable: bits(1), index, entry: bits(3) },
        }
    }
}

/// The responder of a QP starts from nothing with this PSN, on the way to RTR. The payload stays the same from the offer until it is taken, which is when the start is done.
#[derive(Clone, Bundle)]
pub struct QpInit {
    /// Which QP.
    pub qp: Sig,
    /// First PSN expected.
    pub psn: Sig,
}

impl QpInit {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        QpInit { qp: bits(cfg.qp_bits()), psn: bits(24) }
    }
}

/// A send queue starts: from nothing on the way to RTS, or behind what was flushed after an error. `index` and `psn` are known where
/// it has passed the scheduler and the segmenter. Otherwise as [`QpInit`].
#[derive(Clone, Bundle)]
pub struct SqStart {
    /// Which QP.
    pub qp: Sig,
    /// First PSN.
    pub psn: Sig,
    /// Index of its first WQE.
    pub index: Sig,
    /// It goes on after an error: index and PSN follow those of before.
    pub recovers: Sig,
}

impl SqStart {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        SqStart { qp: bits(cfg.qp_bits()), psn: bits(24), index: bits(16), recovers: bits(1) }
    }
}

/// Bits of the number of a QP's stay in SQD: what is told of an earlier one is known by it, for that is on its way for less than as many
/// commands take.
pub const STAY_BITS: u32 = 8;

/// A QP whose send queue must be looked at.
#[derive(Clone, Bundle)]
pub struct Kick {
    /// Which QP.
    pub qp: Sig,
    /// It has gone to SQD: the completer is to tell when what was begun is done.
    pub drains: Sig,
    /// Then: which of its stays there this is.
    pub stay: Sig,
}

impl Kick {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Kick { qp: bits(cfg.qp_bits()), drains: bits(1), stay: bits(STAY_BITS) }
    }

    /// One that says no more than whose it is.
    pub fn plain(qp: &Sig) -> Self {
        Kick { qp: *qp, drains: lit(1, 0), stay: lit(STAY_BITS, 0) }
    }
}

/// A QP in SQD: what was in progress has ended, and the completions of that have left.
#[derive(Clone, Bundle)]
pub struct Mark {
    /// Which QP.
    pub qp: Sig,
    /// Which of its stays this is about.
    pub stay: Sig,
}

impl Mark {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Mark { qp: bits(cfg.qp_bits()), stay: bits(STAY_BITS) }
    }
}

/// What a query tells of a QP's place in its sequences.
#[derive(Clone, Bundle)]
pub struct QpPsns {
    /// PSN of the next packet to send for the first time; of a requester that has started.
    pub sq: Sig,
    /// PSN expected of the peer; of a responder that has started.
    pub rq: Sig,
}

impl QpPsns {
    /// The shape.
    pub fn of() -> Self {
        QpPsns { sq: bits(24), rq: bits(24) }
    }
}

/// A QP that cannot go on, or of which something is to be told.
#[derive(Clone, Bundle)]
pub struct QpFault {
    /// Which QP.
    pub qp: Sig,
    /// What the host is told, an `EventKind` of up to [`FAULT_BITS`] bits; 0: nothing, for a completion or another event says it. With
    /// `CommEstablished`, the QP goes on.
    pub event: Sig,
}

/// Bits of the kinds of events that are told of a QP.
pub const FAULT_BITS: u32 = 3;

impl QpFault {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        QpFault { qp: bits(cfg.qp_bits()), event: bits(FAULT_BITS) }
    }

    /// Nothing is told.
    pub fn silent(qp: &Sig) -> Self {
        QpFault { qp: *qp, event: lit(FAULT_BITS, 0) }
    }

    /// This is told.
    pub fn told(kind: EventKind, qp: &Sig) -> Self {
        QpFault { qp: *qp, event: lit(FAULT_BITS, u32::from(kind.code())) }
    }
}

/// A send queue's doorbell, already checked for page and range.
#[derive(Clone, Bundle)]
pub struct SqDoorbell {
    /// Which QP.
    pub qp: Sig,
    /// Index past the newest WQE, in 64-byte units, free-running.
    pub producer: Sig,
}

impl SqDoorbell {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        SqDoorbell { qp: bits(cfg.qp_bits()), producer: bits(16) }
    }
}

/// A word of a WQE that the host pushes.
#[derive(Clone, Bundle)]
pub struct PushWord {
    /// In this cycle; words come in order, and begin anew with the first.
    pub valid: Sig,
    /// Which of the eight.
    pub word: Sig,
    /// Its eight bytes.
    pub data: Sig,
}

/// What of doorbell pages has to do with pushed WQEs.
#[derive(Clone, Bundle)]
pub struct Pushes {
    /// A word.
    pub word: PushWord,
    /// A send queue's doorbell rings.
    pub rings: Sig,
    /// What it says.
    pub bell: SqDoorbell,
    /// Its newest WQE is that of the last eight words.
    pub pushed: Sig,
}

impl Pushes {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        let word = PushWord { valid: bits(1), word: bits(3), data: bits(64) };
        Pushes { word, rings: bits(1), bell: SqDoorbell::of(cfg), pushed: bits(1) }
    }
}

/// Bits of the number of a QP's life. Lives of all QPs are numbered together; a window that is left bound meets its number again
/// after 65,536 others.
pub const LIFE_BITS: u32 = 16;

/// Bits of a count of READs and atomics: at most 16 of a QP are outstanding.
pub const READ_BITS: u32 = 5;

/// How many READs and atomics of each QP are done, what they bring included, modulo 32: the completer's broadcast.
pub type ReadsDone = TableWrite<Sig>;

/// The shape of that.
pub fn reads_done_of(cfg: &RnicConfig) -> ReadsDone {
    TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: bits(READ_BITS) }
}

/// Up to where a QP's work is done: the completer's, for those who send again.
#[derive(Clone, Bundle)]
pub struct Oldest {
    /// Index of the oldest WQE that is not done.
    pub index: Sig,
    /// PSN of that WQE's first packet.
    pub first_psn: Sig,
    /// The oldest PSN that is not acknowledged.
    pub psn: Sig,
    /// The peer has told how many messages it has receives for (IBTA volume 1, 9.7.7.2).
    pub bounded: Sig,
    /// Then: so many from the oldest one on; as many as may be under way, or more, are that number.
    pub credits: Sig,
    /// Counts what has been told of the QP, modulo 32.
    pub told: Sig,
    /// READs and atomics that have been answered, modulo 32: the peer has let their resources go. What they bring may be on its way to memory still.
    pub reads: Sig,
}

/// Bits of [`Oldest::told`]: more than are told of a QP while its segmenter speaks to the scheduler.
pub const TOLD_BITS: u32 = READ_BITS;

impl Oldest {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Oldest {
            index: bits(16),
            first_psn: bits(24),
            psn: bits(24),
            bounded: bits(1),
            credits: bits(credit_bits(cfg)),
            told: bits(TOLD_BITS),
            reads: bits(READ_BITS),
        }
    }

    /// The completer's broadcasts.
    pub fn write_of(cfg: &RnicConfig) -> TableWrite<Self> {
        TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: Oldest::of(cfg) }
    }
}

/// Bits of a number of credits, up to the messages that may be under way.
pub fn credit_bits(cfg: &RnicConfig) -> u32 {
    clog2(u64::from(cfg.outstanding_per_qp)) + 1
}

/// An entry of the key table.
#[derive(Clone, Bundle)]
pub struct KeyEntry {
    /// Registered.
    pub valid: Sig,
    /// The key's low byte.
    pub tag: Sig,
    /// Protection domain.
    pub pd: Sig,
    /// Access bits: local write 0, remote write 1, remote read 2, remote atomic 3, MW bind 4, zero based 5.
    pub access: Sig,
    /// 0: 4 KiB, 1: 2 MiB, 2: 1 GiB.
    pub page_size: Sig,
    /// First virtual address.
    pub va: Sig,
    /// Bytes.
    pub length: Sig,
    /// Page-table entry of the first page.
    pub first_entry: Sig,
    /// A window rather than a region.
    pub window: Sig,
    /// Of a window: it is of type 1, and serves every QP of its protection domain.
    pub type_1: Sig,
    /// It is bound; all but `valid`, `tag`, `pd` and `type_1` of a window counts only then.
    pub bound: Sig,
    /// By this QP.
    pub qp: Sig,
    /// In this of its lives.
    pub life: Sig,
    /// Index of the region that it is bound to; of a region, the number of windows that are bound to it.
    pub link: Sig,
}

impl KeyEntry {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        KeyEntry {
            valid: bits(1),
            tag: bits(8),
            pd: bits(24),
            access: bits(8),
            page_size: bits(2),
            va: bits(64),
            length: bits(64),
            first_entry: bits(ferrowire_rtl::clog2(u64::from(cfg.page_entries))),
            window: bits(1),
            type_1: bits(1),
            bound: bits(1),
            qp: bits(cfg.qp_bits()),
            life: bits(LIFE_BITS),
            link: bits(ferrowire_rtl::clog2(u64::from(cfg.keys)) + 1),
        }
    }
}

/// A completion to be written: what `host::cq` turns into a CQE.
#[derive(Clone, Bundle)]
pub struct Completion {
    /// Which CQ.
    pub cq: Sig,
    /// The QP.
    pub qpn: Sig,
    /// CQE opcode.
    pub opcode: Sig,
    /// Bytes.
    pub byte_len: Sig,
    /// Index of the WQE.
    pub wqe_index: Sig,
    /// `ibv_wc_status`.
    pub status: Sig,
    /// AETH syndrome or local cause.
    pub syndrome: Sig,
    /// Immediate data, or the key that was invalidated.
    pub imm: Sig,
    /// `imm` is an immediate.
    pub imm_valid: Sig,
    /// `imm` is a key that was invalidated.
    pub invalidated: Sig,
    /// The peer asked for an event.
    pub solicited: Sig,
    /// A datagram has come, after a GRH: `byte_len` has the source QP's low 16 bits in its upper half, `syndrome` the others. Bit 15 of
    /// `byte_len` says whether its packet was of IPv4.
    pub datagram: Sig,
    /// Not a completion: everything before it is to be written before the end of the QP's life is told; with `solicited`, before it
    /// is told that the QP, in error, has none left of a shared receive queue; of a send queue, that what was in progress in SQD is
    /// done (`wqe_index` is the number of that stay).
    pub marker: Sig,
}

impl Completion {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Completion {
            cq: bits(cfg.cq_bits()),
            qpn: bits(24),
            opcode: bits(8),
            byte_len: bits(32),
            wqe_index: bits(16),
            status: bits(8),
            syndrome: bits(8),
            imm: bits(32),
            imm_valid: bits(1),
            invalidated: bits(1),
            solicited: bits(1),
            datagram: bits(1),
            marker: bits(1),
        }
    }
}

/// A QP, where something is said of it for a cycle.
#[derive(Clone, Bundle)]
pub struct OfQp {
    /// In this cycle.
    pub valid: Sig,
    /// Which one.
    pub qp: Sig,
}

impl OfQp {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        OfQp { valid: bits(1), qp: bits(cfg.qp_bits()) }
    }
}

/// A QP of which no completion of its former life comes any more, of one of its queues.
#[derive(Clone, Bundle)]
pub struct Drained {
    /// In this cycle.
    pub valid: Sig,
    /// Which QP.
    pub qp: Sig,
    /// Of its receive queue, rather than of its send queue.
    pub receive: Sig,
}

impl Drained {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Drained { valid: bits(1), qp: bits(cfg.qp_bits()), receive: bits(1) }
    }
}
