// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last step before a packet exists: its memory is looked up, and only then anything is done for it.
//!
//! ```text
//!           +--> pieces FIFO --------------------------------+
//!  parts ---+--> packets: pending FIFO --> next: rows --> facts
//!           |                                                v
//!           +--> lookups --> translate --> answers FIFO --> decide --> DMA reads, ends --> payload
//!                                     +--> all good? ------^  +------> packet  --> launch
//!                                                             +------> report  --> launch
//! ```
//!
//! The lookup of a piece asks for the rest of its SGE, so a range that the region does not hold is refused before the
//! first packet that needs it. A packet is decided when all its pieces are answered: a refused WQE, and everything of its QP
//! after it, goes nowhere: the completer gets the cause in its place, and the QP is barred from that index on until it starts
//! anew. What the rows of its QP say of a packet is in registers by then: they are loaded while the packet before it is
//! decided and follow what is written meanwhile, so a decision counts for the next packet of the same QP too. `launch` bars
//! a QP likewise, where payload that was read is not good. What is before may still be sent again, for it completes before
//! the failure does. A QP that may not send any more is dropped here, and what the completer has done with meanwhile: its
//! memory may be somebody else's.
//!
//! A bind or an invalidation is executed here, in its place among the packets: the owner of the keys is asked when the WQE is the next to
//! be decided, and answers some 10 cycles later. It becomes a message for the completer, without a packet. What is behind it in its queue is
//! decided later, so it finds the key as it was left (IBTA volume 1, 10.6.7.2.2). What was looked up before a window was taken back is
//! not waited for here: `memory::withdraw` is told (`taken_back`), and the completer waits.
//!
//! A piece a cycle, and one more for each packet: `gather` needs as many. Lookups run ahead of decisions, so that the table's latency shows once. There is room
//! for the answers of the largest packet, 32 pieces, and those before it need nothing of what is behind: it is always decided. A decision
//! waits until all its takers have room and the payload buffer can hold the packet, hence read data is never held up. Of READs and atomics
//! only the lookups are made, for the right to write. Inline data need neither lookups nor that room. A decision does not wait for a place
//! at the completer: the scheduler has seen to that, as `plenty` told.

use crate::config::RnicConfig;
use crate::host::AhEntry;
use crate::memory::{Done, Lookup, Operation, OperationKind, Passage, Translation};
use crate::requester::gather::Part;
use crate::requester::list::MAX_SGES;
use crate::requester::payload::End;
use crate::requester::schedule::wqe_places;
use crate::requester::segment::{is_local, Operands, Packet};
use crate::requester::turns::Turn;
use crate::rx::parse::opcode_is;
use crate::stream::{
    breath, deep_fifo, fact_of, few, fifo, forward, half, prompt_fifo, row_of, shown_fifo, wide_fifo,
};
use crate::types::{is_raw, DmaReadRequest, OfQp, Oldest, QpBroadcast, QpInit, TableWrite, TxPacket};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::queue::{Access, SendOpcode};
use ferrowire_spec::wire::opcode::Ext;

/// What the completer learns of each packet sent, or of a WQE that failed here.
#[derive(Clone, Bundle)]
pub struct Sent {
    /// The sender.
    pub qp: Sig,
    /// The last PSN that the packet takes.
    pub psn: Sig,
    /// The message ends with it.
    pub last: Sig,
    /// The WQE's index.
    pub index: Sig,
    /// A CQE is wanted.
    pub signaled: Sig,
    /// Opcode of the CQE.
    pub wqe_opcode: Sig,
    /// Bytes of the message.
    pub length: Sig,
    /// `WcStatus`: not zero for a WQE that failed.
    pub status: Sig,
    /// Its `LocalCause`.
    pub cause: Sig,
    /// The PSN has not been sent before.
    pub fresh: Sig,
    /// A READ or an atomic.
    pub answered: Sig,
    /// Then: where its answer goes, the first SGE.
    pub sge: FirstSge,
    /// What peers might do by a key has been taken back.
    pub withdraws: Sig,
}

/// The first SGE of a READ or an atomic that holds something.
#[derive(Clone, Bundle)]
pub struct FirstSge {
    /// Address.
    pub va: Sig,
    /// Local key.
    pub key: Sig,
    /// Bytes.
    pub length: Sig,
    /// Its number: those before it hold nothing.
    pub number: Sig,
}

impl FirstSge {
    /// The shape.
    pub fn of() -> Self {
        FirstSge { va: bits(64), key: bits(32), length: bits(32), number: bits(4) }
    }
}

impl Sent {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Sent {
            qp: bits(cfg.qp_bits()),
            psn: bits(24),
            last: bits(1),
            index: bits(16),
            signaled: bits(1),
            wqe_opcode: bits(8),
            length: bits(32),
            status: bits(8),
            cause: bits(8),
            fresh: bits(1),
            answered: bits(1),
            sge: FirstSge::of(),
            withdraws: bits(1),
        }
    }
}

/// A report on its way through `launch`.
#[derive(Clone, Bundle)]
pub struct Report {
    /// What the completer is to learn.
    pub sent: Sent,
    /// There is a packet.
    pub packet: Sig,
    /// It has payload.
    pub payload: Sig,
    /// That is inline.
    pub inline: Sig,
    /// Neither a packet nor a failure: the QP starts.
    pub start: Sig,
}

impl Report {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Report { sent: Sent::of(cfg), packet: bits(1), payload: bits(1), inline: bits(1), start: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Committed {
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// Binds and invalidations.
    pub operations: Stream<Operation>,
    /// Payload reads, in the order of the packets.
    pub read: Stream<DmaReadRequest>,
    /// For each of them: its packet.
    pub ends: Stream<End>,
    /// Whence payload comes next, for each packet that has some, and for inline data that are not sent.
    pub turns: Stream<Turn>,
    /// Packets.
    pub packets: Stream<TxPacket>,
    /// For the completer, one a packet and one a WQE that failed, in their order.
    pub reports: Stream<Report>,
    /// The completer has places beside those that the first message of each QP may take.
    pub plenty: Sig,
    /// A packet was sent again.
    pub again: Sig,
    /// Pieces that are looked up.
    pub looked_up: Passage,
    /// A read has been asked for.
    pub reading: Sig,
    /// A window has been taken back.
    pub taken_back: OfQp,
}

#[derive(Clone, Bundle)]
struct Pending {
    packet: Packet,
    /// It has pieces in host memory.
    asks: Sig,
    /// Its payload is inline.
    inline: Sig,
    /// Lane of its first byte.
    lane: Sig,
}

#[derive(Clone, Bundle)]
struct Piece {
    bytes: Sig,
    /// Beats that it takes in the payload buffer.
    beats: Sig,
    last: Sig,
}

/// A QP from which nothing goes out any more from this WQE on.
#[derive(Clone, Bundle)]
pub struct Bar {
    /// Which QP.
    pub qp: Sig,
    /// Index of the WQE that failed.
    pub index: Sig,
}

impl Bar {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Bar { qp: bits(cfg.qp_bits()), index: bits(16) }
    }
}

/// What is kept of a bar.
#[derive(Clone, Bundle)]
pub(super) struct Barred {
    pub(super) barred: Sig,
    pub(super) index: Sig,
}

impl Barred {
    pub(super) fn of() -> Self {
        Barred { barred: bits(1), index: bits(16) }
    }

    /// Whether it keeps this WQE back: the failed one or a later one.
    pub(super) fn stops(&self, index: Sig) -> Sig {
        self.barred & !(index - self.index).bit(15)
    }
}

/// Packets that wait for their payload: a 64-byte WRITE each 3 cycles through 1 us of host latency at 250 MHz.
pub(super) const PACKETS: u32 = 128;

/// Packets with payload between here and the wire: more than wait for theirs.
const TURNS: u32 = 2 * PACKETS;

/// Pieces of the largest packet: 16 SGEs, each over a page's end.
const PIECES: u32 = 2 * MAX_SGES;

/// Packets of which lookups are under way at once.
const LOOKUPS: u32 = 8;

/// First SGEs: those of packets that wait, of the two in registers, and of the one that comes.
const FIRSTS: u32 = (LOOKUPS + 3).next_power_of_two();

/// WQEs between the scheduler's places and the decision, and in the cycles until that is known there.
const ON_THE_WAY: u32 = 24;

/// Messages that the completer has room for: those of the configuration, the first of each QP, and what the scheduler may
/// have granted before it sees that there is no plenty left.
pub fn messages(cfg: &RnicConfig) -> u32 {
    cfg.outstanding + cfg.qps + wqe_places(cfg) + ON_THE_WAY
}

/// Beats of the largest packet in the payload buffer: each of its SGEs may begin and end within a beat. A page's end costs none,
/// for the lanes go on behind it.
fn most_beats(cfg: &RnicConfig) -> u32 {
    4096 / cfg.beat_bytes + 2 * MAX_SGES
}

/// What the lookups of a packet's pieces found.
#[derive(Clone, Bundle)]
struct Verdict {
    ok: Sig,
    /// Of the first that was refused.
    cause: Sig,
}

/// Looks up, decides, sends. `operated`: an operation has ended; `unbarred`: QPs that start; `barred`: QPs whose payload could not be read;
/// `handles`: those of datagrams; `payload_taken` pulses for each beat that leaves the payload buffer, `freed` counts the messages that the completer has room for again.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn commit(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    handles: TableWrite<AhEntry>,
    unbarred: Stream<QpInit>,
    barred: Stream<Bar>,
    oldest: TableWrite<Oldest>,
    parts: Stream<Part>,
    operands: Stream<Operands>,
    answer: Translation,
    operated: Done,
    payload_taken: Sig,
    freed: Sig,
) -> Committed {
    // Messages that the completer has room for: one that it could not remember must not be sent.
    let credit_bits = clog2(u64::from(messages(cfg)) + 1);
    let credits = m.reg("credits", credit_bits).reset(messages(cfg));
    let plenty = m.delay("plenty", &credits.ge(messages(cfg) - cfg.outstanding));
    // Read copies.
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Block).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    m.discard(&oldest.entry);
    let oldest = TableWrite { enable: oldest.enable, index: oldest.index, entry: oldest.entry.index };
    let oldests = m.mem("oldests", cfg.qps, &oldest.entry).style(Style::Block).build();
    oldests.write(oldest.enable, oldest.index, &oldest.entry);

    // Which queue pairs' packets return inside the card, and those to which handles.
    let given = &broadcast.attributes;
    let of_qps = TableWrite { enable: given.enable, index: given.index, entry: given.entry.loops };
    let of_handles = TableWrite { enable: handles.enable, index: handles.index, entry: handles.entry.loops };
    m.discard(&(given.entry.clone(), handles.entry.clone()));
    let loops = m.mem("loops", cfg.qps, &bits(1)).style(Style::Block).build();
    loops.write(of_qps.enable, of_qps.index, &of_qps.entry);
    let handles_loop = m.mem("handles_loop", cfg.ahs, &bits(1)).style(Style::Block).build();
    handles_loop.write(of_handles.enable, of_handles.index, &of_handles.entry);

    // A lookup a piece; the packet waits with its last one.
    let lane_bits = cfg.lane_bits();
    let first = m.reg("first", 1).reset(1);
    let first_lane = m.reg("first_lane", lane_bits).no_reset();
    let lane = m.mux(first, &parts.va.trunc(lane_bits), &first_lane);
    let under_way = m.reg("under_way", clog2(u64::from(PIECES)) + 1).reset(0);
    let (pending_room, piece_room) = (m.wire("pending_room", 1), m.wire("piece_room", 1));
    let has_piece = parts.asks | parts.inline;
    let room = (pending_room | !parts.last) & (piece_room | !has_piece);
    let local_write = lit(8, u32::from(Access::LocalWrite.code()));
    let question = Lookup {
        key: parts.key,
        pd: parts.packet.pd,
        qpn: parts.packet.qp.zext(24),
        access: parts.packet.answered.then(local_write, lit(8, 0)),
        va: parts.va,
        length: parts.rest,
    };
    let lookup = Stream::new(m, "lookup", parts.valid & parts.asks & !under_way.msb() & room, question);
    let asked = lookup.fire();
    let passes = parts.valid & m.mux(parts.asks, &asked, &room);
    parts.accept(passes);
    // The first SGE of each packet lies apart until it is decided. What is not taken is written once more.
    let sge = FirstSge { va: parts.va, key: parts.key, length: parts.rest, number: parts.number };
    let place = |name: &str| m.reg(name, clog2(u64::from(FIRSTS))).reset(0);
    let (coming_at, decided_at) = (place("coming_at"), place("decided_at"));
    let firsts = m.mem("firsts", FIRSTS, &sge).style(Style::Distributed).build();
    firsts.write(first, coming_at, &sge);
    m.when(passes, |m| {
        m.set(&first, parts.last);
        m.set(&first_lane, lane);
    });
    let room_bits = clog2(u64::from(cfg.payload_buffer_bytes / cfg.beat_bytes) + 1);
    let enters = Pending { packet: parts.packet.clone(), asks: parts.asks, inline: parts.inline, lane };
    let entering = Stream::new(m, "entering", passes & parts.last, enters);
    m.when(entering.valid, |m| m.set(&coming_at, coming_at + 1));
    m.drive(&pending_room, entering.ready);
    let pending = few(&m.label("pending"), LOOKUPS, cfg.unhurried().then_some(1), entering);
    // A page's offset is the same in host memory.
    let span = parts.bytes.zext(14) + parts.va.trunc(lane_bits).zext(14) + (cfg.beat_bytes - 1);
    let beats = span.slice(lane_bits, 14 - lane_bits).zext(room_bits.max(14)).trunc(room_bits);
    let piece = Piece { bytes: parts.bytes, beats, last: parts.last };
    let piece = Stream::new(m, "piece", passes & has_piece, piece);
    m.drive(&piece_room, piece.ready);
    let pieces = fifo(&m.label("pieces"), PIECES, piece);

    // Answers; and, with that of a packet's last piece, whether all of them were good.
    let answered = Stream::new(m, "answered", answer.valid, answer.address);
    m.assert(!answered.valid | answered.ready, "no more is asked than answers have room for");
    let answers = fifo(&m.label("answers"), PIECES, answered);
    let closing = Stream::new(m, "closing", asked, parts.last);
    m.assert(!closing.valid | closing.ready, "a lookup under way has its mark");
    let closing = fifo(&m.label("closing"), PIECES, closing);
    closing.accept(answer.valid);
    m.assert(!answer.valid | closing.valid, "an answer has been asked for");
    let refused = m.reg("refused", 1).reset(0);
    let first_cause = m.reg("first_cause", 8).no_reset();
    let cause = m.mux(refused, &first_cause, &answer.cause);
    m.when(answer.valid, |m| {
        m.set(&refused, !closing.payload & (refused | !answer.ok));
        m.set(&first_cause, cause);
    });
    let verdict = Verdict { ok: answer.ok & !refused, cause };
    let verdict = Stream::new(m, "verdict", answer.valid & closing.payload, verdict);
    m.assert(!verdict.valid | verdict.ready, "there are no more verdicts than packets");
    let verdicts = fifo(&m.label("verdicts"), 2 * LOOKUPS, verdict);

    // Of what is next the rows are read. What they say of it is in registers when it is decided, and stays up to date while
    // it waits for its answers.
    let (enters, coming) = (pending.fire(), pending.packet.qp);
    let handle_of = |packet: &Packet| packet.remote_va.slice(32, cfg.ah_bits());
    let coming_handle = handle_of(&pending.packet);
    let next = half(&m.label("next"), pending);
    let moves = next.fire();
    let next_packet = next.packet.clone();
    let at = (enters, coming, next_packet.qp);
    let to_handle = (enters, coming_handle, handle_of(&next_packet));
    let bar_write = m.wire_of(
        "bar_write",
        &TableWrite { enable: bits(1), index: bits(cfg.qp_bits()), entry: Barred::of() },
    );
    let bars = m.mem("bars", cfg.qps, &Barred::of()).style(Style::Block).build();
    bars.write(bar_write.enable, bar_write.index, &bar_write.entry);
    let bar = row_of(m, "bar", at, &bars, &bar_write);
    let (enters, coming, bar_comes) = (barred.fire(), barred.qp, barred.valid);
    let barred = half(&m.label("barred"), barred);
    // It is compared in its second cycle: by then what has failed before is written.
    let compared = m.reg("compared", 1).reset(0);
    m.set(&compared, barred.valid & !compared);
    barred.accept(compared);
    let bar_there = row_of(m, "bar_there", (enters, coming, barred.qp), &bars, &bar_write);
    let oldest_index = row_of(m, "oldest", at, &oldests, &oldest);
    let qp_state = row_of(m, "state", at, &states, &broadcast.state);
    let qp_loops = row_of(m, "qp_loops", at, &loops, &of_qps);
    let handle_loops = row_of(m, "handle_loops", to_handle, &handles_loop, &of_handles);
    let pending = half(&m.label("decided"), next);
    let packet = &pending.packet;
    let (was, is) = (&next_packet, packet);
    let of_qp = (moves, was.qp, is.qp);
    let of_handle = (moves, handle_of(was), handle_of(is));
    let sends = |state: &Sig, _: &Packet| state.eq(QpState::Rts.code()) | state.eq(QpState::Sqd.code());
    let sends = fact_of(m, "sends", of_qp, (was, is), &qp_state, &broadcast.state, &sends);
    let is_done = |oldest: &Sig, packet: &Packet| (packet.index - *oldest).bit(15);
    let is_done = fact_of(m, "is_done", of_qp, (was, is), &oldest_index, &oldest, &is_done);
    let stopped = |bar: &Barred, packet: &Packet| bar.stops(packet.index);
    let stopped = fact_of(m, "stopped", of_qp, (was, is), &bar, &bar_write, &stopped);
    let loops = |loops: &Sig, _: &Packet| *loops;
    let qp_loops = fact_of(m, "qp_is_looped", of_qp, (was, is), &qp_loops, &of_qps, &loops);
    let handle_loops =
        fact_of(m, "handle_is_looped", of_handle, (was, is), &handle_loops, &of_handles, &loops);
    // Likewise what follows from the packet alone.
    let known_of = |name: &str, fact: Sig| {
        let known = m.reg(name, 1).no_reset();
        m.when(moves, |m| m.set(&known, fact));
        known
    };
    let healthy = known_of("healthy", was.status.eq(0));
    let local = is_local(cfg, was.wqe_opcode) & !was.start;
    let executes = known_of("executes", local & was.status.eq(0));
    let atomic = cfg.only(cfg.atomics, was.answered & was.wqe_opcode.ne(SendOpcode::Read.code()));
    let has_operands = known_of("has_operands", atomic | local);
    let is_datagram = opcode_is(packet.opcode, |o| cfg.speaks(o) && o.has(Ext::Deth));
    let loops = cfg.only(cfg.loopback, is_raw(packet.opcode) | m.mux(is_datagram, &handle_loops, &qp_loops));

    // Decide.
    m.discard(&packet.pd);
    let has_piece = pending.asks | pending.inline;
    let present = pending.valid;
    let alive = sends & !is_done & !packet.start;
    // A bind or an invalidation is asked for once.
    let (operated_ok, operated_cause) =
        (m.reg("operated_ok", 1).no_reset(), m.reg("operated_cause", 8).no_reset());
    let (asked_for, ended) = (m.reg("asked_for", 1).reset(0), m.reg("ended", 1).reset(0));
    let may_execute = executes & alive & !stopped;
    let executing = present & may_execute & !asked_for;
    let is_bind = packet.wqe_opcode.eq(SendOpcode::BindMw.code());
    let kinds = [OperationKind::Invalidate, OperationKind::Bind, OperationKind::Rebind];
    let [invalidates, binds, rebinds] = kinds.map(|kind| lit(2, kind.code()));
    let operation = Operation {
        kind: m.mux(is_bind, &m.mux(operands.swap.bit(8), &rebinds, &binds), &invalidates),
        qp: packet.qp,
        key: packet.imm,
        region: packet.rkey,
        va: packet.remote_va,
        length: operands.compare,
        access: operands.swap.trunc(8),
    };
    let operation = Stream::new(m, "operation", executing, operation);
    m.assert(!operation.valid | operation.ready, "there is one operation at a time");
    let operations = forward(&m.label("operations"), operation);
    m.when(executing, |m| m.set(&asked_for, 1));
    m.when(operated.valid, |m| {
        m.set(&ended, 1);
        m.set(&operated_ok, operated.ok);
        m.set(&operated_cause, operated.cause);
    });
    let settled = m.mux(asked_for, &ended, &!may_execute);
    let known = present & settled & (!pending.asks | verdicts.valid);
    let granted = m.mux(executes, &operated_ok, &(!pending.asks | verdicts.ok));
    let sound = healthy & granted;
    // What was decided when its first piece left stays so.
    let inside = m.reg("inside", 1).reset(0);
    let kept = m.reg("kept", 1).reset(0);
    let good = m.mux(inside, &kept, &(alive & sound & !stopped));
    let failed = alive & !sound & !stopped;

    let capacity = cfg.payload_buffer_bytes / cfg.beat_bytes;
    let room = m.reg("room", room_bits).reset(capacity);
    // Room for the largest packet, so that the decision does not wait for this one's length. One that has begun has its room.
    let fits = inside | room.ge(lit(room_bits, most_beats(cfg)));

    let (read_room, packet_room, sent_room) =
        (m.wire("read_room", 1), m.wire("packet_room", 1), m.wire("sent_room", 1));
    let (end_room, turn_room) = (m.wire("end_room", 1), m.wire("turn_room", 1));
    let closes = packet.last | failed;
    // Who starts or is barred comes before a failure, which needs the same write port. What the decision waits for does
    // not depend on what it will be.
    let claimed = unbarred.valid | barred.valid | m.delay("claimed", &(unbarred.fire() | compared));
    let rooms = packet_room & sent_room & read_room & end_room & turn_room & fits & !claimed;
    let can = known & rooms;
    // A piece a cycle, be they read or passed over, and the packet with its last one.
    let go = can & (!has_piece | pieces.last);
    m.when(go, |m| {
        m.set(&asked_for, 0);
        m.set(&ended, 0);
        m.set(&decided_at, decided_at + 1);
    });
    m.when(can, |m| {
        m.set(&inside, !go);
        m.set(&kept, good);
    });
    // The SGEs of READs and atomics are only looked up.
    let reads = pending.asks & !packet.answered;
    let pays = good & (reads | pending.inline);
    let whole = DmaReadRequest { address: answers.payload, length: pieces.bytes };
    let read = Stream::new(m, "read", can & good & reads, whole);
    m.drive(&read_room, read.ready);
    let read = few(&m.label("read"), 4, cfg.unhurried().then_some(4), read);
    pieces.accept(can & has_piece);
    answers.accept(can & pending.asks);
    verdicts.accept(go & pending.asks);
    // Both are known late: the sums are at hand by then.
    let (less, more) = (can & pending.asks, under_way + 1);
    m.when(asked & !less, |m| m.set(&under_way, more))
        .otherwise_when(!asked & less, |m| m.set(&under_way, under_way - 1));

    let from = answers.payload.trunc(lane_bits);
    let last_lane = from + pieces.bytes.trunc(lane_bits) - 1;
    let end = End { qp: packet.qp, index: packet.index, last: pieces.last, from, end: last_lane };
    let ends = Stream::new(m, "ends", can & good & reads, end);
    m.drive(&end_room, ends.ready);
    let reading = ends.fire();
    let ends = prompt_fifo(&m.label("ends"), capacity, ends);
    let turn = Turn { inline: pending.inline, skip: !good };
    let turns = Stream::new(m, "turns", go & (pending.inline | pays), turn);
    m.drive(&turn_room, turns.ready);
    // Out of a register where it is asked for at once.
    let turns = match cfg.unhurried() {
        true => deep_fifo(&m.label("turns"), TURNS, turns),
        false => shown_fifo(&m.label("turns"), TURNS, turns),
    };
    m.assert(!(pending.valid & has_operands) | operands.valid, "operands come before their packet");
    operands.accept(go & has_operands);
    let header = TxPacket {
        qp: packet.qp,
        opcode: packet.opcode,
        solicited: packet.solicited,
        ack_req: packet.ack_req,
        psn: packet.psn,
        fresh: packet.fresh,
        again: packet.again,
        distance: packet.distance,
        va: packet.remote_va,
        rkey: packet.rkey,
        dma_length: packet.length,
        swap: operands.swap,
        compare: operands.compare,
        syndrome: lit(8, 0),
        msn: lit(24, 0),
        imm: packet.imm,
        payload_bytes: packet.bytes,
        payload_lane: pending.lane,
        loops,
    };
    let out = Stream::new(m, "packet", go & good & !executes, header);
    m.drive(&packet_room, out.ready);
    let out = breath(&m.label("packet"), cfg.unhurried(), out);
    let packets = wide_fifo(&m.label("packets"), PACKETS, cfg.unhurried().then_some(4), out);
    // Also for an invalidation: it is a memory management operation (IBTA volume 1, 11.6.2).
    let refused = [WcStatus::LocProtErr, WcStatus::MwBindErr].map(|status| lit(8, status.code()));
    let status = m.mux(healthy, &m.mux(executes, &refused[1], &refused[0]), &packet.status);
    let cause = m.mux(healthy, &m.mux(executes, &operated_cause, &verdicts.cause), &packet.cause);
    let sent = Sent {
        qp: packet.qp,
        psn: packet.last_psn,
        last: closes,
        index: packet.index,
        signaled: packet.signaled,
        wqe_opcode: packet.wqe_opcode,
        length: packet.length,
        status: m.mux(failed, &status, &lit(8, 0)),
        cause: m.mux(failed, &cause, &lit(8, 0)),
        fresh: packet.fresh,
        answered: packet.answered,
        sge: firsts.read_now(decided_at),
        withdraws: packet.withdraws,
    };
    let tells = good | failed | packet.start;
    let report =
        Report { sent, packet: good & !executes, payload: pays, inline: pending.inline, start: packet.start };
    let report = Stream::new(m, "report", go & tells, report);
    m.drive(&sent_room, report.ready);
    let reports = half(&m.label("report"), report);

    pending.accept(go);
    // A cycle late: who takes payload decides late in the cycle.
    let freed_room = room + m.delay("payload_left", &payload_taken).zext(room_bits);
    m.set(&room, m.mux(can & good & reads, &(freed_room - pieces.beats), &freed_room));

    let spent = go & good & packet.last & packet.fresh;
    m.assert(!spent | credits.ne(0), "the scheduler grants no more than the completer has room for");
    m.set(&credits, credits - spent.zext(credit_bits) + freed.zext(credit_bits));

    // One write port: a QP that fails is barred, one that starts anew is no longer. Written a cycle later: by then the packet that was decided has gone,
    // and the next one only comes to where it is decided.
    let fails = go & failed;
    // A bar of the life before is written first.
    unbarred.accept(!barred.valid & !bar_comes);
    let starts = unbarred.fire();
    // What failed here meanwhile may be older than what `launch` has found.
    let bars = compared & !bar_there.stops(barred.index);
    let bar_now = TableWrite {
        enable: fails | starts | bars,
        index: m.mux(compared, &barred.qp, &m.mux(unbarred.valid, &unbarred.qp, &packet.qp)),
        entry: Barred { barred: !starts, index: m.mux(compared, &barred.index, &packet.index) },
    };
    m.set_all(&bar_write, &m.delay("bar_now", &bar_now));
    m.discard(&unbarred.psn);
    let again = go & good & !packet.fresh;
    let looked_up = Passage { enters: asked, leaves: answers.fire() };
    let taken_back = OfQp { valid: operated.valid & operated.ok & packet.withdraws, qp: packet.qp };
    Committed {
        lookup,
        operations,
        read,
        ends,
        turns,
        packets,
        reports,
        plenty,
        again,
        looked_up,
        reading,
        taken_back,
    }
}

#[cfg(test)]
mod tests;
