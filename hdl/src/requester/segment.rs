// SPDX-License-Identifier: MIT OR Apache-2.0
//! From WQEs to packets: where each begins and ends, its opcode and its PSN.
//!
//! ```text
//!  WQE     --> row of the QP {index, psn, offset} --> packet, packet, ... --> gather
//!             |  not the index that is due: forgotten
//!             +--> others wait and the quantum is used up, in a message or behind one: place kept in the row, fetch resumed from this WQE
//!  restart --> row := what the completer has as the oldest {index, psn}; fetch resumed from there
//!  start   --> row cleared; passed on among the packets
//! ```
//!
//! A WQE costs 2 cycles to look up its QP, 4 where there is time, and one for each packet, or one where it falls out, and one more where the scheduler is told of it;
//! the row is written with the WQE's last packet. The index that a WQE carries is compared with the one that is due: WQEs fetched before a restart or a yield, those of a QP
//! that must hold, and those behind a broken one, fall out here.
//!
//! ```text
//!  idle: the WQE, its row and all tables are read | row: compared; facts go to registers | send: judged by the facts; the first packet
//! ```
//!
//! The first packet's cycle decides whether it is sent, and the WQE that is not leaves in the next one. Where there is time, that is a cycle of its own.
//!
//! A restart (4 cycles) goes back to the oldest PSN that is not acknowledged, in the middle of its message if need be; a
//! message that is being cut up yields to it after its current packet. Where the completer is further than the row, for
//! acknowledgements came while packets were sent again, the row follows (4 cycles), and the completer's oldest WQE is looked up once
//! more: what is done is not looked at again. Packets carry whether their PSN is sent for the first time: only then they become new to the completer.
//!
//! SENDs and WRITEs, with or without an immediate, SENDs also with a key to invalidate: the opcode of a packet follows from
//! the WQE's and from where in the message the packet lies (IBTA volume 1, 9.2.1). The solicited event bit is in the packet
//! that ends a SEND or a WRITE with immediate (9.2.3).
//!
//! A READ or an atomic is one packet, with as many PSNs as its answer has packets (9.7.2.1); one that goes on in its middle
//! asks for the rest. They are begun while fewer than the QP's `max_rd_atomic` are outstanding, and what has a fence when none
//! is (9.7.3.3.1, 10.8.3.3). A QP that must wait for that does so here, with its WQEs, while no other QP wants to send; otherwise it leaves
//! the scheduler's line until one is answered. A QP of which a whole batch of READs may be outstanding waits here for up to 512 cycles of its turn
//! although others want to send: the READs of the QPs overlap, and no WQE is fetched twice.
//!
//! A SEND or a WRITE with immediate takes a receive of the peer. Where the acknowledgements tell how many there are, one beyond that is limited
//! (9.7.7.2.5): it waits until nothing before it is outstanding, then one packet of it leaves, which asks for an acknowledgement. When that is there,
//! the rest follows, for the first packet of a SEND has its receive. So a QP without credits always has something outstanding, or sends
//! one packet that finds out: it needs no word of receives that are posted later. It waits as one does for READs. Sent again, messages are
//! limited as well: where the peer was not ready, one packet asks, not all that had been sent. A start knows of no limit, and neither does
//! one with a peer that tells none (code 31). A packet that is sent again after a late copy of it was acknowledged does not ask.
//!
//! UC and UD have no acknowledgements and ask for none. UD has messages of one packet, SEND alone, and a WQE of its own form: what takes
//! the place of the remote address, destination and address handle, travels like it, and so does the queue key, which is the QP's
//! own where its highest bit is set (10.2.5). The handle must be of the QP's domain. What a service does not have (9.4, 10.8.3) is
//! refused before anything is sent.
//! Raw Ethernet has SEND alone, of one frame from its first byte on: at least its header, at most 4,096 bytes.
//!
//! Binds and invalidations of keys are no packets and take no PSN: a candidate each, which `commit` executes in its place among the
//! packets. One is executed once, whatever is sent again: the row knows up to which WQE all has been begun, and those before are
//! passed over.
//!
//! Behind one that takes a window back (an invalidation, a bind of nothing or of a window of type 1) only others of their kind are begun until all that was looked up
//! before it is over: its completion waits for that, and nothing that comes behind it is to be answered before (`memory::withdraw`). The QP
//! waits as it does for receives of its peer, and is looked for likewise.
//!
//! A QP that congestion control stops begins nothing, and yields inside a message; so does one whose priority stands still on the wire, a
//! datagram's being that of its handle.
//! Packets of one that must wait soon ask for an acknowledgement, so that none is outstanding meanwhile. Each packet is charged when it
//! leaves here, as what it is on the wire, more or less.
//!
//! **Selective retransmission** (`docs/src/selective.md`), of queue pairs that have agreed:
//! - The window ends a message after the packet that fills it. The WQE stays and is looked at once more: as one that begins there, it waits for the next thing that the completer
//!   tells, here with its WQEs or out of the line. One with continuation units is fetched again. The last packet of each quarter of the window asks for an acknowledgement.
//! - What is sent again has MigReq 0. A packet that is missing comes as a WQE of its own (`repeats`), before all others, with its PSN and its place in the message. It costs 3
//!   cycles, the row stays as it is, and limits of READs, receives and the window do not count. It falls out if it has been acknowledged or was never sent, or if the queue pair goes back,
//!   holds, is stopped or does not run; `repeated` tells of each.
//! - A READ or an atomic carries its distance from the one before. If all before it are in memory, `moved` tells that its PSN is the first that waits for an answer, and takes that before
//!   the packet leaves. After a restart the first one reaches back as far as there is: nothing before it waits for an answer.
//!
//! Where the bytes of a packet lie is `gather`'s affair: it is told the packet's bytes, and with the first one since the WQE was
//! taken up how far from the first SGE's beginning it lies.
//!
//! What is wrong with a WQE itself (opcode, size, a failed fetch, one that got shorter since its first packets were sent) travels as a cause
//! instead of a packet, so that it completes in its place.
//!
//! Reset: idle. Rows are written when a QP starts; where its send queue goes on after an error, the PSN does too.

use crate::config::RnicConfig;
use crate::context::congestion::{Gate, Sent};
use crate::fields::field;
use crate::host::AhEntry;
use crate::memory::{Withdrawals, WITHDRAWN_BITS};
use crate::path::{any_whole_mtu, bytes_of_packets, mtu_bytes, whole_mtus};
use crate::requester::list::{Released, Wqe};
use crate::requester::schedule::{Resume, Waiting};
use crate::requester::Repeated;
use crate::stream::fifo;
use crate::types::{
    Oldest, QpAttributes, QpBroadcast, QpInit, ReadsDone, SqStart, TableWrite, DISTANCE_BITS, RAW_OPCODE,
    READ_BITS,
};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::{QpState, MAX_RAW_FRAME};
use ferrowire_spec::queue::command::PathMtu;
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::queue::send_wqe::{self, bind, ud, SendOpcode};
use ferrowire_spec::wire::opcode::{Opcode, Service};
use ferrowire_spec::wire::{eth, report};

/// Payload that one QP may send while others wait, of one message or of several: what a batch of WQEs has, of the largest packet each. What was
/// fetched beyond it is fetched again: where messages are long, some hundredths of the reads.
pub fn quantum(cfg: &RnicConfig) -> u32 {
    (4096 * cfg.fetch_batch).max(16384)
}

/// A QP of which as many READs may be outstanding as a batch has, or more, waits for their responses with its WQEs for `2^PATIENCE_BITS` cycles of
/// a turn although others wait. A QP of fewer would hold up the others for several round trips a batch.
const PATIENCE_BITS: u32 = 9;

/// READs that such a QP may have outstanding, at least.
fn patient_depth(cfg: &RnicConfig) -> u32 {
    cfg.fetch_batch.clamp(8, 16)
}

/// A long message asks for an acknowledgement each `2^ACK_BITS` bytes, so that the unacknowledged PSNs stay far under
/// 2^23 (IBTA volume 1, 9.7.2): 65,536 packets at the smallest path MTU.
pub const ACK_BITS: u32 = 24;

/// Nothing is begun where 2^`WINDOW_BITS` PSNs or more wait for their acknowledgement, and no more than as many are sent
/// before that is looked at again: they stay under 2^23. Only a READ of 2^31 bytes at the smallest path MTU, which goes alone, takes
/// as many.
pub const WINDOW_BITS: u32 = 22;

/// A QP is to go back to the oldest PSN that is not acknowledged.
#[derive(Clone, Bundle)]
pub struct Restart {
    /// Which QP.
    pub qp: Sig,
    /// And to send nothing until the next of these: the peer is not ready.
    pub hold: Sig,
    /// Unless it goes back already.
    pub mild: Sig,
}

impl Restart {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Restart { qp: bits(cfg.qp_bits()), hold: bits(1), mild: bits(1) }
    }
}

/// A packet to be sent, or a WQE that cannot be.
#[derive(Clone, Bundle)]
pub struct Packet {
    /// The sender.
    pub qp: Sig,
    /// Its protection domain.
    pub pd: Sig,
    /// The WQE's index.
    pub index: Sig,
    /// BTH opcode.
    pub opcode: Sig,
    /// PSN.
    pub psn: Sig,
    /// The last PSN that it takes: of a READ, that of its answer's last packet.
    pub last_psn: Sig,
    /// BTH acknowledge request.
    pub ack_req: Sig,
    /// A READ or an atomic: its SGEs are written by the answer.
    pub answered: Sig,
    /// Last packet of its message.
    pub last: Sig,
    /// A CQE is wanted.
    pub signaled: Sig,
    /// Opcode of the CQE.
    pub wqe_opcode: Sig,
    /// BTH solicited event.
    pub solicited: Sig,
    /// The WQE's immediate, or key to invalidate, for opcodes that carry one.
    pub imm: Sig,
    /// Remote address, of the first byte that it is about.
    pub remote_va: Sig,
    /// Remote key.
    pub rkey: Sig,
    /// Bytes of the message; of a READ, those that it asks for.
    pub length: Sig,
    /// Payload bytes of this packet.
    pub bytes: Sig,
    /// `WcStatus`: not zero where the WQE cannot be sent.
    pub status: Sig,
    /// `LocalCause` of that.
    pub cause: Sig,
    /// The PSN has not been sent before.
    pub fresh: Sig,
    /// As in [`TxPacket`](crate::types::TxPacket).
    pub again: Sig,
    /// Likewise.
    pub distance: Sig,
    /// Not a packet: the QP starts.
    pub start: Sig,
    /// Nor this: what peers may do by a key is taken back.
    pub withdraws: Sig,
}

impl Packet {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Packet {
            qp: bits(cfg.qp_bits()),
            pd: bits(24),
            index: bits(16),
            opcode: bits(8),
            psn: bits(24),
            last_psn: bits(24),
            ack_req: bits(1),
            answered: bits(1),
            last: bits(1),
            signaled: bits(1),
            wqe_opcode: bits(8),
            solicited: bits(1),
            imm: bits(32),
            remote_va: bits(64),
            rkey: bits(32),
            length: bits(32),
            bytes: bits(13),
            status: bits(8),
            cause: bits(8),
            fresh: bits(1),
            again: bits(1),
            distance: bits(DISTANCE_BITS),
            start: bits(1),
            withdraws: bits(1),
        }
    }
}

/// A packet, and what `gather` must know of its WQE.
#[derive(Clone, Bundle)]
pub struct Candidate {
    /// The packet.
    pub packet: Packet,
    /// It has payload.
    pub pays: Sig,
    /// It is the first since its WQE was taken up: the walk over the SGEs begins.
    pub begins: Sig,
    /// Then: address in the first SGE, as far behind its beginning as the packet is behind that of the message.
    pub sge_va: Sig,
    /// Local key of the first SGE.
    pub sge_key: Sig,
    /// Bytes of the first SGE from there on; below zero where the packet lies behind it.
    pub sge_left: Sig,
    /// The payload is in the WQE; the first SGE's place holds its first 16 bytes.
    pub inline: Sig,
    /// The WQE has continuation units.
    pub banked: Sig,
    /// Where they are.
    pub bank: Sig,
}

impl Candidate {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Candidate {
            packet: Packet::of(cfg),
            pays: bits(1),
            begins: bits(1),
            sge_va: bits(64),
            sge_key: bits(32),
            sge_left: bits(33),
            inline: bits(1),
            banked: bits(1),
            bank: bits(2),
        }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Segmented {
    /// Packets in order.
    pub candidates: Stream<Candidate>,
    /// Places from which the fetch must go on.
    pub resume: Stream<Resume>,
    /// What each atomic among the packets adds, stores and compares with.
    pub operands: Stream<Operands>,
    /// A WQE falls out: nobody needs its continuation units.
    pub forgotten: Released,
    /// What is sent, for congestion control.
    pub charge: Sent,
    /// Behind the arrival of WQEs that are not of the QP of those before.
    pub another: Sig,
    /// What became of a packet that was to be sent again.
    pub repeated: Repeated,
    /// With selective retransmission: a READ or an atomic is the first that waits for its answer, which has this PSN.
    pub moved: Option<Stream<QpInit>>,
}

/// What an atomic carries beside its address.
#[derive(Clone, Bundle)]
pub struct Operands {
    /// What is added or stored; of a bind, the rights, and in bit 8 whether the window is of type 1.
    pub swap: Sig,
    /// What is compared with; the bytes of a bind.
    pub compare: Sig,
}

impl Operands {
    /// The shape.
    pub fn of() -> Self {
        Operands { swap: bits(64), compare: bits(64) }
    }
}

/// READs of fewer than 2^n bytes follow when one is answered, larger ones when it is in memory.
const SMALL_READ_BITS: u32 = 9;

/// Atomics, binds and invalidations between here and `commit`.
const ATOMICS: u32 = 16;

#[derive(Clone, Bundle)]
struct Row {
    index: Sig,
    psn: Sig,
    offset: Sig,
    /// The PSN behind the newest that was sent.
    high: Sig,
    held: Sig,
    /// READs and atomics sent, modulo 32.
    reads: Sig,
    /// One packet of a limited message has been sent.
    asks: Sig,
    /// The index behind the newest WQE that was sent, or executed.
    begun: Sig,
    /// Of these, how many take something back, as in [`Withdrawals`].
    withdrawn: Sig,
    /// With selective retransmission: the last PSN of the newest READ or atomic that was sent since the last restart, and whether there is one.
    read_psn: Sig,
    read_known: Sig,
}

/// What is needed of a QP's attributes.
#[derive(Clone, Bundle)]
struct Copy {
    service: Sig,
    pd: Sig,
    qkey: Sig,
    mtu: Sig,
    sig_all: Sig,
    /// READs and atomics that may be outstanding.
    depth: Sig,
    /// Priority of its packets.
    priority: Sig,
    /// They return inside the card.
    loops: Sig,
    /// It has selective retransmission.
    selective: Sig,
}

/// What is sent, and the opcodes of its packets.
struct Kind {
    wqe: SendOpcode,
    /// FIRST, MIDDLE, LAST, ONLY.
    packets: [Opcode; 4],
}

/// A WQE's opcode is its kind's place here. Immediate and key are in the packet that ends the message (IBTA volume 1,
/// 9.2.1 and 9.3).
const KINDS: [Kind; 8] = {
    use Opcode::*;
    [
        Kind { wqe: SendOpcode::Send, packets: [RcSendFirst, RcSendMiddle, RcSendLast, RcSendOnly] },
        Kind { wqe: SendOpcode::SendImm, packets: [RcSendFirst, RcSendMiddle, RcSendLastImm, RcSendOnlyImm] },
        Kind { wqe: SendOpcode::SendInv, packets: [RcSendFirst, RcSendMiddle, RcSendLastInv, RcSendOnlyInv] },
        Kind { wqe: SendOpcode::Write, packets: [RcWriteFirst, RcWriteMiddle, RcWriteLast, RcWriteOnly] },
        Kind {
            wqe: SendOpcode::WriteImm,
            packets: [RcWriteFirst, RcWriteMiddle, RcWriteLastImm, RcWriteOnlyImm],
        },
        Kind { wqe: SendOpcode::Read, packets: [RcReadRequest; 4] },
        Kind { wqe: SendOpcode::CmpSwap, packets: [RcCompareSwap; 4] },
        Kind { wqe: SendOpcode::FetchAdd, packets: [RcFetchAdd; 4] },
    ]
};

const _: () = {
    let mut i = 0;
    while i < KINDS.len() {
        assert!(KINDS[i].wqe as usize == i, "a kind stands at its WQE opcode");
        i += 1;
    }
};

// A datagram's WQE has at the place of the remote address what its packet carries there, and its queue key at that of the key.
const _: () = {
    assert!(ud::DEST_QPN.offset == send_wqe::REMOTE_VA.offset && ud::AH.offset == ud::DEST_QPN.offset + 32);
    assert!(ud::QKEY.offset == send_wqe::RKEY.offset && ud::INLINE_LEN.offset == send_wqe::INLINE_LEN.offset);
    assert!(Opcode::UcSendFirst as u8 == 0x20 && Opcode::UdSendOnly as u8 == 0x60 | Opcode::RcSendOnly as u8);
    assert!(RAW_OPCODE == 0xe0 | Opcode::RcSendOnly as u8);
};
/// Whether a WQE is about keys of this side.
pub(crate) fn is_local(cfg: &RnicConfig, wqe_opcode: Sig) -> Sig {
    let local = wqe_opcode.eq(SendOpcode::BindMw.code()) | wqe_opcode.eq(SendOpcode::LocalInv.code());
    cfg.only(cfg.memory_windows, local)
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Idle,
    /// Where there is time: what has been read goes to registers.
    Look,
    /// The row is known: what follows from comparing it goes to registers.
    Row,
    /// Where there is time: what becomes of the WQE.
    Judge,
    /// Otherwise that is known in the first cycle of this.
    Send,
    /// A restart: the row is known.
    Back,
    /// The row goes to the completer's oldest: it is known how far into its message the oldest PSN is.
    Place,
    /// The scheduler is told where to go on.
    Tell,
    /// The WQE leaves: where the scheduler has been told of it, or where there is time and it is not due.
    Fall,
}

/// The segmenter. `waiting`: who wants to send beside the QP that does; `starting`: the start that is on its way;
/// `gate`: who is held back; `paused`: the priorities that stand still; `handles`: address handles come and go; `withdrawals`: what
/// was taken back, and is not over; `repeats`: packets that are to be sent again, which go before whatever
/// else there is.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn segment(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    starting: SqStart,
    wqes: Stream<Wqe>,
    restarts: Stream<Restart>,
    oldest: TableWrite<Oldest>,
    reads_done: ReadsDone,
    waiting: Waiting,
    gate: TableWrite<Gate>,
    paused: Sig,
    handles: TableWrite<AhEntry>,
    withdrawals: TableWrite<Withdrawals>,
    repeats: Option<Stream<Wqe>>,
) -> Segmented {
    let state = m.fsm("state", State::Idle);
    let idle = state.is(State::Idle);
    // What is sent again goes first. A message that is under way gives way after a packet, and goes on from its row.
    let mains = wqes;
    let (mains_valid, main) = (mains.valid, mains.payload.clone());
    let (wqes, repeats_wait) = match repeats {
        Some(repeats) => {
            let repeating = m.reg("repeating", 1).reset(0);
            let turn = m.mux(idle, &repeats.valid, &repeating);
            m.when(idle, |m| m.set(&repeating, repeats.valid));
            let valid = m.mux(turn, &repeats.valid, &mains.valid);
            let wqes = Stream::new(m, "wqes_now", valid, m.mux(turn, &repeats.payload, &mains.payload));
            repeats.accept(wqes.ready & turn);
            mains.accept(wqes.ready & !turn);
            (wqes, m.delay("repeats_wait", &(repeats.valid & !turn)))
        }
        None => (mains, lit(1, 0)),
    };
    let goes_back = idle & restarts.valid;
    let mild = m.reg("mild", 1).no_reset();
    let begins = idle & !restarts.valid & wqes.valid;
    let qp = m.reg("qp", cfg.qp_bits()).no_reset();
    let hold = m.reg("hold", 1).no_reset();
    let chosen = m.mux(restarts.valid, &restarts.qp, &wqes.qp);
    restarts.accept(goes_back);
    // Whether there is a WQE is known late: what is read while nothing begins is not looked at.
    m.when(idle, |m| {
        m.set(&qp, chosen);
        m.set(&hold, restarts.hold & goes_back);
        m.set(&mild, cfg.only(cfg.selective, restarts.mild));
    });
    m.when(begins | goes_back, |m| {
        m.when(goes_back, |m| m.set(&state, State::Back)).otherwise(|m| m.set(&state, State::Row));
    });
    if cfg.unhurried() {
        let returns = m.reg("returns", 1).no_reset();
        m.when(begins | goes_back, |m| {
            m.set(&returns, goes_back);
            m.set(&state, State::Look);
        });
        m.when(state.is(State::Look), |m| {
            m.when(returns, |m| m.set(&state, State::Back)).otherwise(|m| m.set(&state, State::Row));
        });
    }
    let at_row = state.is(State::Row);
    // What follows from the row and the tables, which stay as they were read until the next WQE.
    let fact = |name: &str, fact: Sig| m.delay(name, &fact);
    let judging = if cfg.unhurried() { state.is(State::Judge) } else { m.delay("judging", &at_row) };

    // The QP's row, and read copies of its attributes and of the completer's view.
    let row_shape = Row {
        index: bits(16),
        psn: bits(24),
        offset: bits(32),
        high: bits(24),
        held: bits(1),
        reads: bits(READ_BITS),
        asks: bits(1),
        begun: bits(16),
        withdrawn: bits(WITHDRAWN_BITS),
        read_psn: bits(if cfg.selective { 24 } else { 1 }),
        read_known: bits(1),
    };
    let rows = m.mem("rows", cfg.qps, &row_shape).style(Style::Block).build();
    let row_write = m.wire("row_write", 1);
    let next = m.wire_of("next", &row_shape);
    rows.write(row_write, qp, &next);
    let row = cfg.looked(m, "row", rows.read(m, idle, chosen, Collision::Never));
    let oldests = m.mem("oldest", cfg.qps, &Oldest::of(cfg)).style(Style::Block).build();
    oldests.write(oldest.enable, oldest.index, &oldest.entry);
    let oldest = oldests.read(m, idle, chosen, Collision::New);
    let oldest = cfg.looked(m, "known_oldest", oldest);
    let dones = m.mem("reads_done", cfg.qps, &bits(READ_BITS)).style(Style::Block).build();
    dones.write(reads_done.enable, reads_done.index, &reads_done.entry);
    let done_reads = dones.read(m, idle, chosen, Collision::New);
    let done_reads = cfg.looked(m, "done_reads", done_reads);
    let backs = m.mem("withdrawals", cfg.qps, &Withdrawals::of()).style(Style::Block).build();
    backs.write(withdrawals.enable, withdrawals.index, &withdrawals.entry);
    let withdrawals = backs.read(m, idle, chosen, Collision::New);
    let withdrawals = cfg.looked(m, "known_withdrawals", withdrawals);
    let given = &broadcast.attributes;
    let copy_of = |a: &QpAttributes| Copy {
        service: a.service,
        pd: a.pd,
        qkey: a.qkey,
        mtu: a.mtu,
        sig_all: a.sq_sig_all,
        depth: a.max_rd_atomic,
        priority: a.priority,
        loops: a.loops,
        selective: a.selective,
    };
    let copies = m.mem("copies", cfg.qps, &copy_of(&QpAttributes::of(cfg))).style(Style::Block).build();
    // It belongs to reliable connections.
    let has_agreed = given.entry.selective & given.entry.service.eq(Service::Rc.code());
    let written = Copy { selective: cfg.only(cfg.selective, has_agreed), ..copy_of(&given.entry) };
    copies.write(given.enable, given.index, &written);
    let copy = cfg.looked(m, "copy", copies.read(m, idle, chosen, Collision::Old));
    let selective = cfg.only(cfg.selective, copy.selective);
    m.discard(&copy.selective);
    let told = &broadcast.state;
    let in_state = |state: QpState| told.entry.eq(state.code());
    let states = m.mem("running", cfg.qps, &bits(1)).style(Style::Block).build();
    states.write(told.enable, told.index, &(in_state(QpState::Rts) | in_state(QpState::Sqd)));
    let running = cfg.looked(m, "runs", states.read(m, idle, chosen, Collision::New));
    let of_service = |service: Service| copy.service.eq(service.code());
    let (is_uc, is_ud, is_raw) = (of_service(Service::Uc), of_service(Service::Ud), of_service(Service::Raw));
    let is_rc = of_service(Service::Rc);
    let number = field(&ud::LAYOUT, &ud::AH, wqes.unit);
    let entries = m.mem("handles", cfg.ahs, &AhEntry::of()).style(Style::Block).build();
    entries.write(handles.enable, handles.index, &handles.entry);
    let handle = entries.read(m, idle, number.trunc(cfg.ah_bits()), Collision::Old);
    let handle = cfg.looked(m, "handle", handle);
    let no_handle = (number >> cfg.ah_bits()).any() | !handle.valid | handle.pd.ne(copy.pd);

    let gates = m.mem("gates", cfg.qps, &Gate::of()).style(Style::Distributed).build();
    gates.write(gate.enable, gate.index, &gate.entry);
    let gate = gates.read_now(qp);
    // Its priority on the wire stands still, or it has to wait. Datagrams have the priorities of their handles.
    let priority = m.mux(is_ud, &handle.priority, &copy.priority);
    // What returns inside the card does not stand still with the wire.
    let loops = m.mux(is_ud, &handle.loops, &copy.loops);
    let still = !loops & paused.shr_by(priority).bit(0);
    let stops = gate.stop | still;
    let stop = m.delay("stop", &stops);
    let shut = m.reg("shut", 1).reset(0);

    // What the WQE says.
    let wqe = |f| field(&send_wqe::LAYOUT, &f, wqes.unit);
    let wqe_opcode = wqe(send_wqe::OPCODE);
    let inline = wqe(send_wqe::INLINE);
    let told_length = m.mux(inline, &wqe(send_wqe::INLINE_LEN).zext(32), &wqes.total.trunc(32));
    let of_bind = |f| field(&bind::LAYOUT, &f, wqes.unit);
    // It comes out of LUT RAM, or of block RAM, and stays until it is taken: what is known of it goes to registers while its row is read.
    let taken = |name: &str, value: Sig| m.delay(name, &value);
    let index = taken("index", wqes.index);
    let (starts, unread) = (taken("starts", wqes.start), taken("unread", wqes.error));
    let local = is_local(cfg, wqe_opcode) & !wqes.start;
    let is_local = taken("is_local", local);
    let kinds = KINDS.iter().filter(|kind| cfg.does(kind.wqe));
    let unknown = kinds.fold(!local, |none, kind| none & wqe_opcode.ne(kind.wqe.code()));
    let unknown = taken("unknown", unknown);
    let carries = inline | wqe(send_wqe::NUM_SGE).any();
    let too_large = taken("too_large", wqes.too_large);
    let length = taken("length", told_length);
    let (is_inline, beyond_32) = (taken("is_inline", inline), taken("beyond_32", (wqes.total >> 32).any()));
    let too_long = !is_inline & (beyond_32 | (length.bit(31) & length.trunc(31).any()));
    // A start has no WQE: what stands in its place is of the one before.
    let is = |codes: &[SendOpcode]| {
        let codes = codes.iter().filter(|o| cfg.does(**o));
        !wqes.start & codes.fold(lit(1, 0), |any, o| any | wqe_opcode.eq(o.code()))
    };
    let is_read = taken("is_read", is(&[SendOpcode::Read]));
    let is_compare = taken("is_compare", is(&[SendOpcode::CmpSwap]));
    let is_atomic = taken("is_atomic", is(&[SendOpcode::CmpSwap, SendOpcode::FetchAdd]));
    let wants_answer = is(&[SendOpcode::Read, SendOpcode::CmpSwap, SendOpcode::FetchAdd]);
    let answered = taken("answered", wants_answer);
    let is_send = taken("is_send", is(&[SendOpcode::Send, SendOpcode::SendImm]));
    let takers = [SendOpcode::Send, SendOpcode::SendImm, SendOpcode::SendInv, SendOpcode::WriteImm];
    let takes = taken("takes", is(&takers));
    let takes_receive = takes & is_rc;
    let invalidates = taken("invalidates", is(&[SendOpcode::SendInv]));
    let is_plain = taken("is_plain", is(&[SendOpcode::Send]));
    let unserved = (!is_rc & (answered | invalidates)) | (is_ud & !is_send) | (is_raw & !is_plain);
    const _: () = assert!(MAX_RAW_FRAME == PathMtu::B4096.bytes() as u32);
    let (long, no_frame) = (length.gt(MAX_RAW_FRAME), length.lt(eth::BYTES));
    // An invalidation, a bind of nothing, or one of a window that may be bound.
    let is_bind = wqe_opcode.eq(SendOpcode::BindMw.code());
    let type_1 = of_bind(bind::TYPE_1);
    let withdraws = taken("withdraws", local & (!is_bind | type_1 | of_bind(bind::LENGTH).eq(0)));
    let misfits = taken("misfits", (wants_answer & inline) | (local & carries));
    let whole_word = taken("aligned", wqe(send_wqe::REMOTE_VA).trunc(3).eq(0)) & length.eq(8) & !beyond_32;
    let (status, cause) = (m.wire("status", 8), m.wire("cause", 8));
    m.set(&status, WcStatus::Success.code());
    m.set(&cause, LocalCause::None.code());
    m.when(starts, |_| ())
        .otherwise_when(unread, |m| {
            m.set(&status, WcStatus::LocQpOpErr.code());
            m.set(&cause, LocalCause::Dma.code());
        })
        .otherwise_when(unknown | unserved, |m| {
            m.set(&status, WcStatus::LocQpOpErr.code());
            m.set(&cause, LocalCause::WqeOpcode.code());
        })
        .otherwise_when(misfits, |m| {
            m.set(&status, WcStatus::LocQpOpErr.code());
            m.set(&cause, LocalCause::WqeSize.code());
        })
        .otherwise_when(too_large, |m| {
            m.set(&status, WcStatus::LocLenErr.code());
            m.set(&cause, LocalCause::WqeSize.code());
        })
        .otherwise_when(too_long | ((is_ud | is_raw) & long) | (is_raw & no_frame), |m| {
            m.set(&status, WcStatus::LocLenErr.code());
            m.set(&cause, LocalCause::Length.code());
        })
        .otherwise_when(is_atomic & !whole_word, |m| {
            m.set(&status, WcStatus::LocQpOpErr.code());
            m.set(&cause, LocalCause::Alignment.code());
        })
        .otherwise_when(answered & copy.depth.eq(0), |m| {
            m.set(&status, WcStatus::LocQpOpErr.code());
            m.set(&cause, LocalCause::ReadDepth.code());
        });
    // Whether there is any of these, for what is decided in the same cycle.
    let own_fault = unread | unknown | misfits | too_large | too_long | (is_atomic & !whole_word);
    let of_its_size = ((is_ud | is_raw) & long) | (is_raw & no_frame);
    let no_depth = answered & copy.depth.eq(0);
    let faulty = !starts & (own_fault | unserved | of_its_size | no_depth);
    // The PSNs of a READ's answer, less one, and of the part that has come: so many path MTUs.
    let reads_some = is_read & length.any();
    let behind_first = reads_some.then(whole_mtus(m, length - 1, copy.mtu), lit(24, 0));

    // A packet that is sent again has its own place, and the row stays as it is.
    let repeat = &wqes.repeat;
    let again = cfg.only(cfg.selective, taken("again", repeat.valid & !wqes.start));
    let part = cfg.only(cfg.selective, taken("part", repeat.part));
    m.discard(&wqes.repeat);
    let from_psn = again.then(repeat.psn, row.psn);
    let from_offset = again.then(repeat.offset, row.offset);

    // Lookup: is this WQE the one that is due? Where the completer is further than the row, its oldest one is, and the row follows.
    let psn = m.reg("psn", 24).no_reset();
    let offset = m.reg("offset", 32).no_reset();
    let behind = (row.index - oldest.index).bit(15);
    let is_oldest = oldest.index.eq(index);
    // That it is further is known late: it is put together with the rest a cycle later, in the one in which it counts.
    let is_behind = fact("is_behind", at_row & behind & !starts & !again);
    let goes_along = fact("goes_along", is_oldest & !row.held);
    let not_due = !starts & !again & (row.held | row.index.ne(index));
    // It has been acknowledged, or never sent; or the QP does not send, goes back, or must stand still.
    let acknowledged = (index - oldest.index).bit(15) | (repeat.psn - oldest.psn).bit(23);
    let was_sent = (repeat.psn - row.high).bit(23);
    let goes_back_now = row.psn.ne(row.high) | row.held;
    let refuses = acknowledged | !was_sent | goes_back_now | !running | !selective | is_local;
    let refused_again = again & (refuses | stops | faulty);
    let follows = is_behind & goes_along;
    let stale = m.mux(is_behind, &!goes_along, &fact("not_due", not_due | refused_again));
    // It has been executed: the QP went back, and comes by again.
    let has_passed = (index - row.begun).bit(15);
    let passed = fact("passed", has_passed);
    let skips = fact("skips", is_local & has_passed);
    // What may have to wait: neither a start nor what is passed over.
    let may_wait = !starts & !(is_local & has_passed) & !again;
    // How many PSNs wait for their acknowledgement, counted from the row: none or too many are a bit each.
    let unacknowledged = row.psn - oldest.psn;
    let (same_low, same_top) =
        (row.psn.trunc(23).eq(oldest.psn.trunc(23)), row.psn.msb().eq(oldest.psn.msb()));
    let any_unacknowledged = !(same_low & same_top);
    let whole_window = same_low & !same_top;
    let at_first = row.offset.eq(0);
    let is_new = row.high.eq(row.psn) & at_first;
    // Nobody acknowledges what UC and UD send.
    let full = is_rc & ((unacknowledged.bit(WINDOW_BITS) & !unacknowledged.bit(23)) | whole_window);
    // A READ with as many PSNs as are open at once goes alone.
    let large = behind_first.slice(WINDOW_BITS, 24 - WINDOW_BITS).any();
    // With selective retransmission there is a window, by the path MTU (`docs/src/selective.md`).
    let wide = [copy.mtu.eq(5), copy.mtu.eq(4)];
    let by_mtu = |of: [Sig; 3]| m.mux(wide[0], &of[0], &m.mux(wide[1], &of[1], &of[2]));
    let windows =
        [PathMtu::B4096, PathMtu::B2048, PathMtu::B1024].map(|mtu| report::window(mtu.bytes() as u32));
    let beyond = |window: u32| (unacknowledged >> 8).any() | unacknowledged.trunc(8).ge(window);
    let beyond_window = by_mtu(windows.map(beyond));
    let at_window = (selective & may_wait & beyond_window & !unacknowledged.bit(23)).named("at_window");
    let window_open = by_mtu(windows.map(|packets| lit(9, packets) - unacknowledged.trunc(9)));
    let is_full = may_wait & (full | (is_new & large & any_unacknowledged));
    // It waits for whatever is acknowledged next: for READs too, of which each response is told.
    let waits_window = fact("waits_window", at_window & running & !faulty);
    let full = fact("full", is_full);
    let token = m.reg("token", 1).reset(0);
    m.assert(!at_row | faulty.eq(status.ne(0)), "what is wrong with a WQE has a cause");
    let broken = fact("broken", faulty | starts);
    // Who runs no more waits for nothing: what it has here has places that its flush needs, and `commit` sends none of it.
    let new = is_new & running & may_wait;
    // The peer is free for another when one is answered. What a large one brings waits for those before it to be in memory: no more may come at
    // once than the depth says. Those that are not in memory are counted modulo 32, too.
    let small = !(length >> SMALL_READ_BITS).any();
    let answered_reads = m.mux(small, &oldest.reads, &done_reads);
    let outstanding = (row.reads - answered_reads).named("outstanding");
    let (deep, some) =
        (answered & (outstanding.ge(copy.depth) | (row.reads - done_reads).all()), row.reads.ne(done_reads));
    // A READ or an atomic whose distance from the one before is too large waits as with a fence.
    let apart = match cfg.selective {
        true => row.psn - row.read_psn - 1,
        false => lit(24, 0),
    };
    let far = apart.slice(DISTANCE_BITS, 24 - DISTANCE_BITS).any();
    let too_far = selective & answered & row.read_known & far;
    let fenced = taken("fence", wqe(send_wqe::FENCE)) | too_far;
    let lacks = fact("lacks", at_row & new & !faulty & (deep | (fenced & some)));
    // What waits for PSNs that READs have taken waits for these as well: asking again and again would be of no use.
    let with_reads = fact("with_reads", new & some);
    let answer_lacks = lacks | (full & with_reads & !broken);
    // A limited message: it has the place behind those that the peer has receives for. Its first packet asks when it is the oldest.
    let credit_bits = oldest.credits.width();
    let place_in_window = (index - oldest.index).trunc(credit_bits);
    let beyond = fact("beyond", place_in_window.ge(oldest.credits));
    let bounded = takes_receive & oldest.bounded & running & !again;
    let asked = row.asks & !at_first & any_unacknowledged & !unacknowledged.bit(23);
    let unheard = beyond & fact("unheard", at_row & bounded & m.mux(at_first, &!is_oldest, &asked));
    // A packet that was acknowledged meanwhile does not ask: the completer drops the answer to it as a ghost, and wakes no QP for a ghost.
    let asks = beyond & fact("questions", bounded & at_first & !unacknowledged.bit(23));
    // What is behind a withdrawal waits until all that was looked up before it is over.
    let unsettled = withdrawals.open | withdrawals.count.ne(row.withdrawn);
    let is_kept = new & !is_local & unsettled;
    let kept_behind = fact("kept_behind", is_kept);
    let limited = answer_lacks | unheard | kept_behind | waits_window;
    // Whom only answers keep from going on waits here, with its WQEs, as long as nobody else wants to send: to fetch them again takes the
    // host's latency.
    let waits_beside = waiting.for_another(qp);
    let patient = m.delay("patient", &!waits_beside);
    // Its own WQEs count as another's until their arrival has been told: the first of them looks again.
    let last_qp = m.reg("last_qp", cfg.qp_bits()).reset(0);
    let arrives = mains_valid & !main.start;
    let of_another = arrives & main.qp.ne(last_qp);
    m.when(arrives, |m| m.set(&last_qp, main.qp));
    let just_came = m.reg("just_came", 1).reset(0);
    m.when(of_another, |m| m.set(&just_came, 1)).otherwise_when(judging, |m| m.set(&just_came, 0));
    let another = m.delay("another", &of_another);
    // While others wait, what a QP sends before another has its turn shares the quantum; who is looked at and has nothing due has no turn.
    let most = quantum(cfg);
    let used = m.reg("used", clog2(most.into()) + 1).no_reset();
    let sender = m.reg("sender", cfg.qp_bits()).no_reset();
    // Whose turn it is is known with the first packet: it begins with nothing used.
    let is_sender = qp.eq(sender);
    let turned = match cfg.unhurried() {
        true => judging & fact("turned", !is_sender),
        false => m.delay("turned", &(at_row & !is_sender)),
    };
    let turns = turned & !starts & !stale & !again;
    let others_wait = m.mux(turns, &waits_beside, &waiting.for_another(sender));
    let used_now = turned.then(lit(used.width(), 0), used);
    let gives_way = waiting.for_another(sender) & used.ge(most) & is_sender;
    let has_no_turn = may_wait & (stops | gives_way);
    let not_now = fact("not_now", has_no_turn);
    // One of many READs keeps its turn although others wait: its answers come in the time that the turns of the others take.
    let tired = m.reg("tired", PATIENCE_BITS + 1).reset(0);
    let waited_on = tired + (!tired.bit(PATIENCE_BITS)).zext(PATIENCE_BITS + 1);
    m.set(&tired, (others_wait & !turns).then(waited_on, lit(PATIENCE_BITS + 1, 0)));
    let deep = fact("deep", new & deep & copy.depth.ge(patient_depth(cfg)));
    let awaits_read = deep & !broken & (turned | !tired.bit(PATIENCE_BITS));
    let stays = (limited & (patient | just_came) & !stop) | (awaits_read & !not_now);
    m.when(turns, |m| {
        m.set(&sender, qp);
        m.set(&used, 0);
    });
    // Most of it is put together before: what is sent is known late.
    let stands_back = not_due | is_full | at_window | is_kept | has_no_turn | refused_again;
    let refused = fact("stands_back", at_row & stands_back);
    let refused = refused | is_behind | lacks | unheard;
    m.assert(!refused | judging, "whether a WQE is refused counts in one cycle");
    m.assert(!judging | refused | starts | !(is_behind | stale), "what is not due is refused");
    let further = m.reg("further", 24).no_reset();
    let begun_psn = m.reg("begun_psn", 24).no_reset();
    let run = m.reg("run", WINDOW_BITS).no_reset();
    let to_high = m.reg("to_high", 24).no_reset();
    // Packets that the window has room for.
    let allowed = m.reg("allowed", 9).no_reset();
    let remaining = m.reg("remaining", 32).no_reset();
    // That is more than a path MTU: whether a packet is the last one decides much else.
    let more = m.reg("more", 1).no_reset();
    // Of the addresses, what the offset makes of the lower half; the upper one counts the carry when a packet is there.
    let remote_low = m.reg("remote_low", 33).no_reset();
    // The WQE was longer when its packets before this were sent.
    let short = m.reg("short", 1).no_reset();
    // There is no such handle, or not for this QP.
    let astray = m.reg("astray", 1).no_reset();
    let sge_low = m.reg("sge_low", 33).no_reset();
    let low_of = |va: Sig, offset: Sig| va.trunc(32).zext(33) + offset.zext(33);
    let whole_of = |low: Sig, va: Sig| cat(&[low.trunc(32), va.slice(32, 32) + low.msb().zext(32)]);
    let sge_left = m.reg("sge_left", 33).no_reset();
    // A packet of it has been sent since it was taken up.
    let ran = m.reg("ran", 1).no_reset();
    let mtu = m.reg("mtu", 13).no_reset();
    let (of_wqe, why) = (m.reg("of_wqe", 8).no_reset(), m.reg("why", 8).no_reset());
    let executes = m.reg("executes", 1).no_reset();
    m.when(at_row, |m| {
        m.set(&token, starts);
        let start_psn = m.mux(starting.recovers, &row.psn, &starting.psn);
        m.set(&psn, m.mux(starts, &start_psn, &from_psn));
        m.set(&offset, from_offset);
        m.set(&further, behind_first);
        let sent_before = is_read.then(whole_mtus(m, from_offset, copy.mtu), lit(24, 0));
        m.set(&begun_psn, from_psn - sent_before);
        m.set(&to_high, row.high - row.psn);
        m.set(&remaining, length - from_offset);
        // By the number of its last byte.
        m.set(&more, any_whole_mtu(length + !from_offset, copy.mtu) & length.any());
        m.set(&remote_low, low_of(wqe(send_wqe::REMOTE_VA), from_offset));
        m.set(&short, from_offset.any() & length.le(from_offset) & !starts);
        m.set(&allowed, window_open);
        m.set(&astray, is_ud & no_handle & !starts);
        m.set(&sge_low, low_of(wqe(send_wqe::SGE0_ADDR), from_offset));
        m.set(&sge_left, wqe(send_wqe::SGE0_LEN).zext(33) - from_offset.zext(33));
        m.set(&ran, 0);
        m.set(&mtu, mtu_bytes(copy.mtu));
        m.set(&of_wqe, status);
        m.set(&why, cause);
        m.set(&executes, is_local & !unserved);
        m.set(&run, 0);
        m.set(&state, if cfg.unhurried() { State::Judge } else { State::Send });
    });

    // What the scheduler is told where the WQE is not sent, or not all of it.
    let [tells_start, tells_limited, tells_unheard, tells_stands] =
        ["start", "limited", "unheard", "stands"].map(|name| m.reg(&format!("tells_{name}"), 1).no_reset());
    let following = m.reg("following", 1).reset(0);
    m.when(judging, |m| {
        // Behind the packet that asks nothing is sent either, until it is answered.
        // One that is stopped before it has asked waits for that alone: nobody would name it.
        m.set(&tells_limited, (limited | (asks & !not_now)) & !starts);
        m.set(&tells_unheard, !answer_lacks);
        m.set(&tells_start, starts & !starting.recovers);
        m.set(&tells_stands, is_ud & still & !starts);
        m.set(&following, follows);
        if cfg.unhurried() {
            m.set(&state, State::Send);
        }
        m.when(refused, |m| m.set(&state, State::Tell));
        m.when(stays, |m| m.set(&state, State::Idle));
        m.when(follows, |m| m.set(&state, State::Place));
        m.when(stale, |m| m.set(&state, if cfg.unhurried() { State::Fall } else { State::Idle }));
    });
    let drops = cfg.only(!cfg.unhurried(), judging & stale);
    let falls = state.is(State::Fall);

    // A packet a cycle.
    let sending = state.is(State::Send);
    let sending = if cfg.unhurried() { sending } else { (sending & !refused).named("sends") };
    let first = offset.eq(0);
    let last = (!more | broken | short | astray | answered | executes).named("last");
    let fails_short = short & !broken;
    let status = m.mux(fails_short, &lit(8, WcStatus::LocLenErr.code()), &of_wqe);
    let cause = m.mux(fails_short, &lit(8, LocalCause::WqeSize.code()), &why);
    let fails_astray = astray & !broken;
    let status = m.mux(fails_astray, &lit(8, WcStatus::LocQpOpErr.code()), &status);
    let cause = m.mux(fails_astray, &lit(8, LocalCause::AddressHandle.code()), &cause);
    let bytes = m.mux(answered, &lit(13, 0), &m.mux(last, &remaining.trunc(13), &mtu));
    // What takes no PSN is done with what is before it.
    let whole_read = is_read & !part;
    let last_psn = m.mux(whole_read, &(begun_psn + further), &(psn - executes.zext(24)));
    let fresh = to_high.eq(0) & !again;
    let opcode_at = |at: usize| {
        let codes = KINDS.map(|kind| lit(8, kind.packets[at].code()));
        m.select(wqe_opcode.trunc(3), &codes)
    };
    // `last` comes late.
    let [begins, goes_on, ends, alone] = [0, 1, 2, 3].map(opcode_at);
    let opcode = m.mux(last, &m.mux(first, &alone, &ends), &m.mux(first, &begins, &goes_on));
    // The service stands in the highest three bits, and an operation has the same code in each that has it.
    let opcode = opcode | cat(&[lit(5, 0), !is_rc, is_ud | is_raw, is_raw]);
    let own_key = is_ud & wqe(send_wqe::RKEY).bit(31);
    let rkey = m.mux(own_key, &copy.qkey, &wqe(send_wqe::RKEY));
    let event = wqe(send_wqe::SOLICITED) & wqe_opcode.ne(SendOpcode::Write.code()) & !answered;
    let now_and_then = offset.trunc(ACK_BITS).eq(0) & !first;
    // Each quarter of the window has an acknowledgement.
    let quarter = by_mtu(windows.map(|window| psn.trunc((window / 4).ilog2()).all())) & selective;
    // The distance of a READ or an atomic. The first one after a restart reaches back as far as there is.
    let furthest = lit(DISTANCE_BITS, (1 << DISTANCE_BITS) - 1);
    let is_far = fact("is_far", far | !row.read_known);
    let exact = is_far.then(furthest, fact("apart", apart.trunc(DISTANCE_BITS)));
    let alone_waits = fact("alone_waits", !some | !row.read_known);
    let moves = (selective & answered & fresh & alone_waits).named("moves");
    let of_own = exact & (first & !moves).repeat(DISTANCE_BITS);
    let distance = again.then(repeat.distance, of_own) & (selective & answered).repeat(DISTANCE_BITS);
    let packet = Packet {
        qp,
        pd: copy.pd,
        index: wqes.index,
        opcode,
        psn,
        last_psn,
        ack_req: (last | now_and_then | shut | asks | quarter | again) & is_rc,
        answered,
        last,
        signaled: wqe(send_wqe::SIGNALED) | copy.sig_all,
        wqe_opcode,
        solicited: event & last,
        imm: wqe(send_wqe::IMM),
        remote_va: whole_of(remote_low, wqe(send_wqe::REMOTE_VA)),
        rkey,
        length: m.mux(is_read, &m.mux(part & more, &mtu.zext(32), &remaining), &length),
        bytes,
        status,
        cause,
        fresh,
        again: selective & !fresh,
        distance,
        start: token,
        withdraws,
    };
    let candidate = Candidate {
        packet,
        pays: !broken & !short & !astray & remaining.any(),
        begins: !ran,
        sge_va: whole_of(sge_low, wqe(send_wqe::SGE0_ADDR)),
        sge_key: wqe(send_wqe::SGE0_LKEY),
        sge_left,
        inline,
        banked: wqes.banked,
        bank: wqes.bank,
    };
    let moved_room = m.wire("moved_room", 1);
    // Its WQE is shorter now: a packet of it is not sent again.
    let voids = again & short;
    let passes = skips | voids;
    let candidates = Stream::new(m, "candidates", sending & !passes & (!moves | moved_room), candidate);
    let first_answers = cfg.selective.then(|| {
        let first_waits = QpInit { qp, psn };
        let moved = Stream::new(m, "moved", candidates.fire() & moves & !broken, first_waits);
        m.drive(&moved_room, moved.ready);
        fifo(&m.label("moves"), 4, moved)
    });
    if !cfg.selective {
        m.drive(&moved_room, lit(1, 1));
    }
    let sent = candidates.fire() | (sending & passes);
    m.assert(!(sending & skips & starts), "a start is no WQE that was executed");
    // An offer that stands does not change.
    m.when(!sending | sent, |m| m.set(&shut, gate.shut));
    let (swap, compare) = (wqe(send_wqe::SWAP), wqe(send_wqe::COMPARE_ADD));
    let compares = is_compare.repeat(64);
    let operands = Operands { swap: m.mux(is_compare, &swap, &compare), compare: compare & compares };
    let bound =
        Operands { swap: cat(&[of_bind(bind::ACCESS), type_1]).zext(64), compare: of_bind(bind::LENGTH) };
    let operands = m.mux(is_local, &bound, &operands);
    let operands = Stream::new(m, "operand", candidates.fire() & (is_atomic | is_local), operands);
    m.assert(!operands.valid | operands.ready, "there are fewer packets between here and `commit`");
    let operands = fifo(&m.label("operands"), ATOMICS, operands);
    let next_psn = last_psn + 1;
    // Where more comes behind the packet, it has a whole path MTU.
    let next_offset = offset + mtu.zext(32);
    let spent = used_now.ge(most);
    let quantum = others_wait & used_now.ge(most - 4096);
    // The window has no room for another. The WQE is looked at once more, and waits as one does that begins there. One with continuation units is
    // fetched again: its walk over them begins anew in any case, and `gather` frees them when it does.
    let closes = selective & allowed.eq(1);
    let pauses = !last & !again & (repeats_wait | closes);
    let parks = pauses & !wqes.banked;
    let gives_up = quantum | restarts.valid | run.all() | stop | asks | (closes & wqes.banked);
    let yields = !last & !again & gives_up;
    m.when(sent, |m| {
        m.set(&psn, next_psn);
        m.set(&offset, next_offset);
        m.set(&remaining, remaining - mtu.zext(32));
        m.set(&more, remaining.gt(cat(&[lit(1, 0), mtu]).zext(32)));
        m.set(&ran, 1);
        m.set(&allowed, allowed - 1);
        m.when(!again, |m| m.set(&used, m.mux(spent, &used_now, &(used_now + bytes.zext(used.width())))));
        m.set(&run, run + 1);
        m.when(!fresh, |m| m.set(&to_high, to_high - 1));
        m.when(yields | token, |m| m.set(&state, State::Tell))
            .otherwise_when(last | again | parks, |m| m.set(&state, State::Idle));
    });

    // A restart: the place of the oldest PSN in its message is as many path MTUs from the message's first. A row that follows goes to the
    // message's first.
    let back = state.is(State::Back);
    let packets = m.reg("packets", 24).no_reset();
    m.set(&packets, back.then(oldest.psn - oldest.first_psn, lit(24, 0)));
    let place = state.is(State::Place);
    let into_message = bytes_of_packets(packets, copy.mtu);
    let needless = mild & row.psn.ne(row.high);
    m.when(back, |m| {
        m.set(&following, 0);
        m.when(needless, |m| m.set(&state, State::Idle)).otherwise(|m| m.set(&state, State::Place));
    });
    m.when(place, |m| {
        m.when(following, |m| m.set(&state, State::Idle)).otherwise(|m| m.set(&state, State::Tell));
        m.set(&token, 0);
    });

    // A yield asks for the same WQE again.
    let by_restart = m.reg("by_restart", 1).reset(0);
    m.when(at_row, |m| m.set(&by_restart, 0)).otherwise_when(back, |m| m.set(&by_restart, 1));
    let by_wqe = !by_restart;
    // These values stay for some cycles before they are told, so they leave from registers.
    let (first_index, told_then) = (fact("first_index", oldest.index), fact("told_then", oldest.told));
    let (done_then, priority) = (fact("done_then", done_reads), fact("tells_priority", priority));
    let resume = Resume {
        qp,
        index: m.mux(by_restart, &first_index, &wqes.index),
        hold: hold & by_restart,
        start: tells_start & by_wqe,
        limited: tells_limited & by_wqe,
        unheard: tells_unheard & by_wqe,
        known: m.mux(tells_unheard & by_wqe, &told_then, &done_then),
        stands: tells_stands & by_wqe,
        priority,
    };
    let resume = Stream::new(m, "resume", state.is(State::Tell), resume);
    let told = resume.fire() & by_wqe;
    m.when(told | (judging & starts) | !others_wait, |m| m.set(&used, 0));
    // The WQE leaves in the next cycle: that the scheduler takes what it is told is known late.
    m.when(resume.fire(), |m| m.set(&state, State::Idle));
    m.when(told, |m| m.set(&state, State::Fall));
    m.when(falls, |m| m.set(&state, State::Idle));
    let done = (sent & (last | again) & !token) | drops | falls;
    wqes.accept(done);
    m.drive(&row_write, place | (sent & (last | yields | parks) & !again));
    m.set(&next.index, m.mux(last, &(wqes.index + 1), &wqes.index));
    let moved = cat(&[m.mux(place, &following, &token), place]);
    m.set(&next.psn, m.select(moved, &[next_psn, psn, oldest.psn, oldest.first_psn]));
    m.set(&next.offset, m.mux(last, &lit(32, 0), &next_offset));
    m.set(&next.high, m.mux(fresh, &next_psn, &row.high));
    m.set(&next.held, 0);
    m.set(&next.reads, row.reads + (answered & fresh & !broken & !short & !astray).zext(READ_BITS));
    m.set(&next.asks, asks & !last);
    m.set(&next.begun, m.mux(last & !passed, &(wqes.index + 1), &row.begun));
    let reads_one = answered & !broken & !short;
    m.set(&next.read_psn, reads_one.then(last_psn.trunc(next.read_psn.width()), row.read_psn));
    m.set(&next.read_known, cfg.only(cfg.selective, reads_one | row.read_known));
    m.set(&next.withdrawn, row.withdrawn + (executes & withdraws & !skips & !broken).zext(WITHDRAWN_BITS));
    m.when(place, |m| {
        m.set(&next.index, oldest.index);
        m.set(&next.offset, into_message);
        m.set(&next.high, row.high);
        m.set(&next.held, hold);
        m.set(&next.reads, row.reads);
        m.set(&next.asks, 0);
        m.set(&next.begun, row.begun);
        m.set(&next.withdrawn, row.withdrawn);
        m.set(&next.read_known, 0);
    })
    .otherwise_when(token, |m| {
        let from = starting.recovers.then(wqes.index, lit(16, 0));
        m.set(&next.index, from);
        m.set(&next.offset, 0);
        m.set(&next.high, psn);
        m.set(&next.reads, 0);
        m.set(&next.begun, from);
        m.set(&next.withdrawn, withdrawals.count);
        m.set(&next.read_known, 0);
    });
    m.discard(&starting.qp);
    m.discard(&starting.index);
    let falls_out = drops | (falls & !ran) | (sending & passes);
    let forgotten = Released { valid: falls_out & wqes.banked, bank: wqes.bank };
    let leaves = sent & !broken & !short & !astray & !executes;
    let charge = m.delay("charge", &Sent { valid: leaves, qp, bytes });
    let repeated = Repeated {
        valid: again & (sent | drops | falls),
        qp,
        context: repeat.context,
        psn: repeat.psn,
        high: row.high,
        sent: candidates.fire(),
        probe: repeat.probe,
    };
    Segmented { candidates, resume, operands, forgotten, charge, another, repeated, moved: first_answers }
}

#[cfg(test)]
mod tests;
