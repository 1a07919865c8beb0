// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last step before a packet exists: its memory is looked up, and only then anything is done for it.
//!
//! ```text
//!  candidate --> lookups (one, or two where a page ends) --> pending FIFO --+
//!                        |                                                  v
//!                        +------> translate ------> answers FIFO -------> decide --> DMA reads
//!                                                                           +------> packet  --> launch
//!                                                                           +------> report  --> launch
//! ```
//!
//! The lookup of a packet asks for the rest of its message, so a range that the region does not hold is refused
//! before the first packet. A refused WQE, and everything of its QP behind it, goes nowhere: the completer gets the
//! cause in its place, and the QP is barred from that index on until it starts anew. `launch` bars a QP likewise, where
//! payload that was read is not good. What is before may still be sent again, for it completes before the failure does. A
//! QP that may not send any more is dropped here, and what the completer has done with meanwhile: its memory may be
//! somebody else's.
//!
//! One packet a cycle, two where it lies on two pages; lookups run ahead of decisions, so that the table's latency
//! shows once. A decision waits until all its takers have room and the payload buffer can hold the packet, hence read
//! data is never held up. It does not wait for a place at the completer: the scheduler has seen to that, as `plenty` told.

use crate::config::RnicConfig;
use crate::memory::{Lookup, Translation};
use crate::requester::payload::End;
use crate::requester::schedule::wqe_places;
use crate::requester::segment::Candidate;
use crate::stream::{deep_fifo, fifo};
use crate::types::{DmaReadRequest, Oldest, QpBroadcast, QpInit, TableWrite, TxPacket};
use ferrowire_rtl::{bits, clog2, lit, module, Bundle, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};

/// What the completer learns of each packet sent, or of a WQE that failed here.
#[derive(Clone, Bundle)]
pub struct Sent {
    /// The sender.
    pub qp: Sig,
    /// PSN of the packet.
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
    /// Neither a packet nor a failure: the QP starts.
    pub start: Sig,
}

impl Report {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Report { sent: Sent::of(cfg), packet: bits(1), payload: bits(1), start: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Committed {
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// Payload reads, in the order of the packets.
    pub read: Stream<DmaReadRequest>,
    /// For each of them: its packet.
    pub ends: Stream<End>,
    /// Packets.
    pub packets: Stream<TxPacket>,
    /// For the completer, one a packet and one a WQE that failed, in their order.
    pub reports: Stream<Report>,
    /// The completer has places beside those that the first message of each QP may take.
    pub plenty: Sig,
    /// A packet was sent again.
    pub again: Sig,
}

#[derive(Clone, Bundle)]
struct Pending {
    candidate: Candidate,
    lookups: Sig,
    /// Beats of its payload in the payload buffer.
    beats: Sig,
}

#[derive(Clone, Bundle)]
struct Answer {
    ok: Sig,
    address: Sig,
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

/// Lookups under way at once.
const LOOKUPS: u32 = 8;

/// WQEs between the scheduler's places and the decision, and in the cycles until that is known there.
const ON_THE_WAY: u32 = 16;

/// Messages that the completer has room for: those of the configuration, the first of each QP, and what the scheduler may
/// have granted before it sees that there is no plenty left.
pub fn messages(cfg: &RnicConfig) -> u32 {
    cfg.outstanding + cfg.qps + wqe_places(cfg) + ON_THE_WAY
}

/// Looks up, decides, sends. `unbarred`: QPs that start; `barred`: QPs whose payload could not be read; `payload_taken`
/// pulses for each beat that leaves the payload buffer, `freed` counts the messages that the completer has room for again.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn commit(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    unbarred: Stream<QpInit>,
    barred: Stream<Bar>,
    oldest: TableWrite<Oldest>,
    candidates: Stream<Candidate>,
    answer: Translation,
    payload_taken: Sig,
    freed: Sig,
) -> Committed {
    // Messages that the completer has room for: one that it could not remember must not be sent.
    let credit_bits = clog2(u64::from(messages(cfg)) + 1);
    let credits = m.reg("credits", credit_bits).reset(messages(cfg));
    let plenty = m.delay("plenty", &credits.ge(messages(cfg) - cfg.outstanding));
    // Read copies.
    let pds = m.mem("pds", cfg.qps, &bits(24)).style(Style::Distributed).build();
    pds.write(broadcast.attributes.enable, broadcast.attributes.index, &broadcast.attributes.entry.pd);
    let states = m.mem("states", cfg.qps, &bits(3)).style(Style::Distributed).build();
    states.write(broadcast.state.enable, broadcast.state.index, &broadcast.state.entry);
    let oldests = m.mem("oldest", cfg.qps, &bits(16)).style(Style::Distributed).build();
    oldests.write(oldest.enable, oldest.index, &oldest.entry.index);
    m.discard(&oldest.entry);

    // Lookups: one for the first page, one more where the packet goes on to the next.
    let asks = !candidates.start & candidates.status.eq(0) & candidates.bytes.ne(0);
    let to_page_end = (lit(13, 4096) - candidates.local_va.trunc(12).zext(13)).named("to_page_end");
    let crosses = (asks & candidates.bytes.gt(to_page_end)).named("crosses");
    let second = m.reg("second", 1).reset(0);
    let under_way = m.reg("under_way", clog2(u64::from(LOOKUPS)) + 1).reset(0);
    let pending_room = m.wire("pending_room", 1);
    let may_ask = candidates.valid & asks & under_way.ne(LOOKUPS) & (pending_room | (crosses & !second));
    let rest = (candidates.bytes - to_page_end).zext(32);
    let next_page = (candidates.local_va.slice(12, 52) + 1).named("next_page");
    let question = Lookup {
        key: candidates.lkey,
        pd: pds.read_now(candidates.qp),
        access: lit(8, 0),
        va: m.mux(second, &ferrowire_rtl::cat(&[lit(12, 0), next_page]), &candidates.local_va),
        length: m.mux(second, &rest, &candidates.remaining),
    };
    let lookup = Stream::new(m, "lookup", may_ask, question);
    let enters = candidates.valid & m.mux(asks, &(lookup.fire() & (second | !crosses)), &lit(1, 1));
    m.when(lookup.fire(), |m| m.set(&second, crosses & !second));
    let lookups = m.mux(asks, &m.mux(crosses, &lit(2, 2), &lit(2, 1)), &lit(2, 0));
    let lane_bits = cfg.lane_bits();
    let room_bits = clog2(u64::from(cfg.payload_buffer_bytes / cfg.beat_bytes) + 1);
    let lane = candidates.local_va.trunc(lane_bits);
    let span = candidates.bytes.zext(14) + lane.zext(14) + (cfg.beat_bytes - 1);
    let beats = span.slice(lane_bits, 14 - lane_bits).zext(room_bits.max(14)).trunc(room_bits);
    let entering =
        Stream::new(m, "entering", enters, Pending { candidate: candidates.payload.clone(), lookups, beats });
    m.drive(&pending_room, entering.ready);
    candidates.accept(entering.fire());
    let pending = fifo(&m.label("pending"), LOOKUPS, entering);
    let answered =
        Stream::new(m, "answered", answer.valid, Answer { ok: answer.ok, address: answer.address });
    m.assert(!answered.valid | answered.ready, "an answer finds its place");
    let answers = fifo(&m.label("answers"), LOOKUPS, answered);
    m.set(
        &under_way,
        under_way + lookup.fire().zext(under_way.width()) - answers.fire().zext(under_way.width()),
    );

    // Decide. The first of two answers is kept.
    let packet = &pending.candidate;
    let kept = m.reg("kept", 1).reset(0);
    let kept_answer = m.reg_of("kept_answer", &answers.payload);
    let two = pending.lookups.eq(2);
    let none = pending.lookups.eq(0);
    let keeps = pending.valid & two & !kept & answers.valid;
    let known = pending.valid & (none | (answers.valid & (!two | kept)));
    let granted = none | (answers.ok & (!two | kept_answer.ok));
    let bars = m.mem("bars", cfg.qps, &Barred::of()).style(Style::Distributed).build();
    let qp_state = states.read_now(packet.qp);
    let sends = qp_state.eq(QpState::Rts.code()) | qp_state.eq(QpState::Sqd.code());
    let is_done = (packet.index - oldests.read_now(packet.qp)).bit(15);
    let alive = sends & !is_done & !packet.start;
    let stopped = bars.read_now(packet.qp).stops(packet.index);
    let sound = packet.status.eq(0) & granted;
    // What was decided when the read of its first page left stays so.
    let first_out = m.reg("first_out", 1).reset(0);
    let good = first_out | (alive & sound & !stopped);
    let failed = !first_out & alive & !sound & !stopped;
    let broken = packet.status.ne(0);

    let lane = packet.local_va.trunc(lane_bits);
    let capacity = cfg.payload_buffer_bytes / cfg.beat_bytes;
    let room = m.reg("room", room_bits).reset(capacity);
    // Room for the largest packet, so that the decision does not wait for this one's length.
    let fits = room.ge(lit(room_bits, 4096 / cfg.beat_bytes + 1));

    let (read_room, packet_room, sent_room) =
        (m.wire("read_room", 1), m.wire("packet_room", 1), m.wire("sent_room", 1));
    // The second page's read leaves in a cycle of its own, before the decision is taken off.
    let reads = good & packet.bytes.ne(0);
    let closes = packet.last | failed;
    // Who starts or is barred comes before a failure, which needs the same write port. What the decision waits for does
    // not depend on what it will be.
    let claimed = unbarred.valid | barred.valid;
    let rooms = packet_room & sent_room & read_room & fits & !claimed;
    let can = known & rooms;
    // Two lookups, two cycles.
    let half = can & two & !first_out & good;
    let go = can & !half;
    m.when(half, |m| m.set(&first_out, 1)).otherwise_when(go, |m| m.set(&first_out, 0));
    let page_rest = lit(13, 4096) - packet.local_va.trunc(12).zext(13);
    let whole = DmaReadRequest {
        address: m.mux(two & !first_out, &kept_answer.address, &answers.address),
        length: m.select(
            ferrowire_rtl::cat(&[two, first_out]),
            &[packet.bytes, page_rest, packet.bytes, packet.bytes - page_rest],
        ),
    };
    let read = Stream::new(m, "read", can & reads, whole);
    m.drive(&read_room, read.ready);
    let read = fifo(&m.label("read"), 4, read);
    // A read has at least one beat in the payload buffer: there are never more of them than beats.
    let ends = Stream::new(m, "ends", can & reads, End { qp: packet.qp, index: packet.index, last: !half });
    m.assert(!ends.valid | ends.ready, "every read has a place");
    let ends = deep_fifo(&m.label("ends"), capacity, ends);
    let header = TxPacket {
        qp: packet.qp,
        opcode: packet.opcode,
        solicited: packet.solicited,
        ack_req: packet.ack_req,
        psn: packet.psn,
        fresh: packet.fresh,
        va: packet.remote_va,
        rkey: packet.rkey,
        dma_length: packet.length,
        syndrome: lit(8, 0),
        msn: lit(24, 0),
        imm: packet.imm,
        payload_bytes: packet.bytes,
        payload_lane: lane,
    };
    let out = Stream::new(m, "packet", go & good, header);
    m.drive(&packet_room, out.ready);
    let packets = deep_fifo(&m.label("packets"), PACKETS, out);
    let status = m.mux(broken, &packet.status, &lit(8, WcStatus::LocProtErr.code()));
    let cause = m.mux(broken, &packet.cause, &lit(8, LocalCause::KeyBounds.code()));
    let sent = Sent {
        qp: packet.qp,
        psn: packet.psn,
        last: closes,
        index: packet.index,
        signaled: packet.signaled,
        wqe_opcode: packet.wqe_opcode,
        length: packet.length,
        status: m.mux(failed, &status, &lit(8, 0)),
        cause: m.mux(failed, &cause, &lit(8, 0)),
        fresh: packet.fresh,
    };
    let tells = good | failed | packet.start;
    let report = Report { sent, packet: good, payload: reads, start: packet.start };
    let report = Stream::new(m, "report", go & tells, report);
    m.drive(&sent_room, report.ready);
    let reports = fifo(&m.label("report"), 4, report);

    pending.accept(go);
    answers.accept(keeps | (go & !none));
    m.when(keeps, |m| {
        m.set(&kept, 1);
        m.set_all(&kept_answer, &answers.payload);
    })
    .otherwise_when(go, |m| m.set(&kept, 0));
    let freed_room = room + payload_taken.zext(room_bits);
    m.set(&room, m.mux(go & reads, &(freed_room - pending.beats), &freed_room));

    let spent = go & good & packet.last & packet.fresh;
    m.assert(!spent | credits.ne(0), "the scheduler grants no more than the completer has room for");
    m.set(&credits, credits - spent.zext(credit_bits) + freed.zext(credit_bits));

    // One write port: a QP that fails is barred, one that starts anew is no longer.
    let fails = go & failed;
    barred.accept(lit(1, 1));
    unbarred.accept(!barred.valid);
    let bar_at = m.mux(barred.valid, &barred.qp, &m.mux(unbarred.valid, &unbarred.qp, &packet.qp));
    let bar = Barred {
        barred: barred.valid | !unbarred.valid,
        index: m.mux(barred.valid, &barred.index, &packet.index),
    };
    // What failed here meanwhile may be older than what `launch` has found.
    let kept_back = barred.valid & bars.read_now(barred.qp).stops(barred.index);
    bars.write((fails | claimed) & !kept_back, bar_at, &bar);
    m.discard(&unbarred.psn);
    let again = go & good & !packet.fresh;
    Committed { lookup, read, ends, packets, reports, plenty, again }
}

#[cfg(test)]
mod tests;
