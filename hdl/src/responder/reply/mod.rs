// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reply engine: acknowledgements, READ responses and atomics, in the order of each QP's requests.
//!
//! ```text
//!            ACK of a QP with nothing pending
//!          +--------------------------------------------------------------------------+
//!          |                                                                          v
//!  reply --+--> order --> lists --> cut --> candidates --> issue --> departures --> depart --> header --> packet
//!                 ^                  |        lookups <--+  |  +--> DMA reads          |  ^
//!                 |                  |                      | ends                    |  | job, result
//!                 |                  | operands   data -> collect --> payload ---------)--)---------> payload
//!                 |                  v                      | words                   |  |
//!                 |               atomic <------------------+ <-----------------------)--+
//!                 |                  +--> DMA write                                   |
//!                 +------------------------- finished <-------------------------------+
//! ```
//!
//! - `order` owns what is pending of a QP: it lets an ACK pass or keeps the newest one, and appends READs and atomics
//!   to the QP's list.
//! - `cut` owns the heads of the lists. QPs with something in them take turns, a response packet each.
//! - `issue` looks each packet up and asks host memory for it; it reserves the room first.
//! - `collect` takes what was read: payload into a buffer, words for atomics to `atomic`.
//! - `depart` is the one place where packets leave, in the order in which they were asked for, and where a QP fails.
//! - `atomic` computes, writes, and keeps the answers of each QP's last 16 atomics.
//!
//! From `cut` on everything is in one order, that of the reads of host memory. So whatever is behind a failure, or the end
//! of a QP's life, is found there.
//!
//! READ (IBTA volume 1, 9.7.5.1.4): one path MTU a packet, FIRST, MIDDLE, LAST, or ONLY. Each packet is looked up when it
//! is its turn, but for the first of a READ whose own lookup is remembered; a key that has been taken back meanwhile ends the QP with NAK 0x62 at the packet's PSN, a failed read of
//! host memory with 0x63. Atomics (9.7.5.1.5): see `atomic`. A READ behind an atomic of its QP waits until that has written.
//!
//! ACKs (9.7.5.1.2 and 9.7.5.1.3): one that has something of its QP before it waits, and a newer one takes its place. A new
//! READ or atomic does so too, for its response acknowledges all that was before (9.7.5.1.2).
//!
//! Congestion: READ responses of a QP that was told of it are cut at its rate (`context::congestion`). ACKs, NAKs and answers of atomics are
//! small, and their peer waits for them: they are neither held back nor charged.
//!
//! Room: `check` bounds what is new: a QP has [`places_shared`] and one place of its own, see [`Served`]; what finds none is dropped with a
//! sequence NAK, which waits here like an ACK. Repetitions have places of their own, and are dropped where there is none, as the wire might have. So nobody waits for a place, and what
//! waits for the wire or for host memory waits for nothing else.
//!
//! An ACK that passes is out 5 cycles after its reply, a READ response 13 cycles and the host's latency, 8 of a READ that
//! came alone (see [`known`](super::known)), a cycle after the first beat of its payload. READs of 64 bytes: one in 3 cycles, of one QP or of many; a response of `n` beats in `n`
//! cycles. Atomics: one in 8 cycles, 9 of many QPs, whatever the host's latency between read and write, on one address or on
//! many. Reset: tables are swept, one QP a cycle; what comes meanwhile waits.

mod atomic;
mod collect;
mod cut;
mod depart;
mod issue;
mod order;

pub use order::{places_shared, Served, NAK_BIT};

use crate::config::RnicConfig;
use crate::context::congestion::{Charge, Gate};
use crate::host::dma::{write_entry, EntryWrite, Order};
use crate::memory::{Lookup, Passage, Translation};
use crate::responder::known::Known;
use crate::stream::{breath, deep_fifo};
use crate::tx::arbitrate::TxSource;
use crate::types::{
    DmaReadData, DmaReadRequest, DmaWrite, QpBroadcast, QpFault, TableWrite, TxPacket, DISTANCE_BITS,
};
use ferrowire_rtl::{bits, lit, module, Bundle, Interface, Scope, Sig, Stream};

/// What a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ACK or a NAK.
    Acknowledge,
    /// A READ to be executed.
    Read,
    /// An atomic to be executed or answered again.
    Atomic,
    /// The QP goes to RESET.
    End,
}

impl Kind {
    /// Its number in [`Reply`].
    pub fn code(self) -> u32 {
        self as u32
    }
}

/// What is to be answered, in the order in which requests were executed.
#[derive(Clone, Bundle)]
pub struct Reply {
    /// To whose peer.
    pub qp: Sig,
    /// A [`Kind`].
    pub kind: Sig,
    /// PSN of the answer, of a READ that of its first response.
    pub psn: Sig,
    /// AETH syndrome.
    pub syndrome: Sig,
    /// AETH MSN.
    pub msn: Sig,
    /// Virtual address; of an atomic a multiple of 8.
    pub va: Sig,
    /// Remote key.
    pub rkey: Sig,
    /// Bytes of a READ, up to 2^31.
    pub length: Sig,
    /// What an atomic adds or stores.
    pub swap: Sig,
    /// What CMP_SWAP compares with.
    pub compare: Sig,
    /// CMP_SWAP rather than FETCH_ADD.
    pub compares: Sig,
    /// A request seen before.
    pub again: Sig,
    /// And not granted any more: nothing is answered.
    pub refused: Sig,
}

impl Reply {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Reply {
            qp: bits(cfg.qp_bits()),
            kind: bits(2),
            psn: bits(24),
            syndrome: bits(8),
            msn: bits(24),
            va: bits(64),
            rkey: bits(32),
            length: bits(32),
            swap: bits(64),
            compare: bits(64),
            compares: bits(1),
            again: bits(1),
            refused: bits(1),
        }
    }
}

/// What varies in the packets of this engine.
#[derive(Clone, Bundle)]
struct Header {
    qp: Sig,
    opcode: Sig,
    psn: Sig,
    /// What the memory held before an atomic.
    original: Sig,
    syndrome: Sig,
    msn: Sig,
    bytes: Sig,
    lane: Sig,
    /// It returns inside the card.
    loops: Sig,
    /// An ACK or a NAK.
    acknowledges: Sig,
    /// Not a packet: the QP ends behind all packets before.
    end: Sig,
}

impl Header {
    fn packet(&self) -> TxPacket {
        TxPacket {
            qp: self.qp,
            opcode: self.opcode,
            solicited: lit(1, 0),
            ack_req: lit(1, 0),
            psn: self.psn,
            fresh: lit(1, 0),
            again: lit(1, 0),
            distance: lit(DISTANCE_BITS, 0),
            va: self.original,
            rkey: lit(32, 0),
            dma_length: lit(32, 0),
            swap: lit(64, 0),
            compare: lit(64, 0),
            syndrome: self.syndrome,
            msn: self.msn,
            imm: lit(32, 0),
            payload_bytes: self.bytes,
            payload_lane: self.lane,
            loops: self.loops,
        }
    }
}

/// Pulses for the counters.
#[derive(Clone, Bundle)]
pub struct Counts {
    /// A READ was taken that had not been seen before.
    pub reads: Sig,
    /// Likewise an atomic.
    pub atomics: Sig,
    /// A repetition had no room.
    pub crowded: Sig,
    /// The answer of a repeated atomic is no longer known.
    pub forgotten: Sig,
    /// NAKs 0x62.
    pub access: Sig,
    /// NAKs 0x63.
    pub operation: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Replied {
    /// Packets and payload.
    pub source: TxSource,
    /// The packet on offer is an ACK or a NAK.
    pub acknowledges: Sig,
    /// One, or the end of a QP, will be in the register in the next cycle if that is free now.
    pub comes: Sig,
    /// Questions to the key and page tables.
    pub lookup: Stream<Lookup>,
    /// Reads of host memory; room for the data is reserved.
    pub read: Stream<DmaReadRequest>,
    /// What atomics write.
    pub write: Stream<DmaWrite>,
    /// QPs that go to the error state.
    pub faults: Stream<QpFault>,
    /// QPs of whose former life nothing is under way any more.
    pub ended: Stream<Sig>,
    /// A new READ or atomic is done with.
    pub served: Served,
    /// READ responses that are cut, for congestion control.
    pub charges: Stream<Charge>,
    /// Beats of the loop's ring for a response that begins.
    pub reserves: Sig,
    /// Likewise, of one that does not come.
    pub unspent: Sig,
    /// What passes on its way from a lookup to memory.
    pub accesses: Vec<Passage>,
    /// Counted events.
    pub counts: Counts,
}

/// The reply engine. A read of host memory must see what was written before it was asked for. `known`: where the newest READ begins; `gate`: who is held back; `paused`: the
/// priorities that stand still; `may_loop`: the loop has room for a response.
#[module]
#[allow(clippy::too_many_arguments)]
pub fn reply(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    replies: Stream<Reply>,
    known: Option<Known>,
    answer: Translation,
    data: Stream<DmaReadData>,
    gate: TableWrite<Gate>,
    paused: Sig,
    may_loop: Sig,
) -> Replied {
    // Feedback.
    let (finished, finishes) = m.later("finished", &order::Finished::of(cfg));
    let (passes, tokens) = m.later("passes", &bits(1));
    let freed = m.wire_of("freed", &order::Freed::of(cfg));
    let failed = m.wire_of("failed", &depart::failed_of(cfg));
    let taken = m.wire("taken", 1);
    let written = m.wire("written", atomic::NUMBER_BITS);

    let given = &broadcast.attributes;
    let looping = TableWrite { enable: given.enable, index: given.index, entry: given.entry.loops };
    let ordered = order::order(m, cfg, replies, finished, freed.clone(), looping);
    let waits = cut::Waits { gate, paused, may_loop };
    let cut = cut::cut(m, cfg, broadcast, ordered.lists, ordered.wakes, failed.clone(), waits);
    m.drive(&freed, cut.freed);
    let issued = issue::issue(m, cfg, cut.candidates, known, answer, taken, written);
    // What passes from stage to stage, and that an atomic is done, is seen a cycle later, as is that a beat has left: what is between two
    // stages counts in the first.
    let looked_up = Passage {
        enters: issued.looked_up.enters,
        leaves: m.delay_zero("answered_one", &issued.looked_up.leaves),
    };
    let reading = Passage { enters: m.delay_zero("reads_one", &issued.reading), leaves: issued.ends.fire() };
    let computing = Passage {
        enters: m.delay_zero("granted_one", &issued.granted),
        leaves: m.delay_zero("computed_one", &issued.places.fire()),
    };
    let collected = collect::collect(m, cfg, data, issued.ends, passes);
    m.drive(&taken, m.delay("taken_before", &collected.taken));
    let (result, results) = m.later("result", &atomic::Outcome::of());
    let departed = depart::depart(m, cfg, issued.departures, collected.begun, collected.verdicts, result);
    tokens.connect(breath(&m.label("passes"), cfg.unhurried(), departed.passes));
    finishes.connect(departed.finished);
    m.drive(&failed, departed.failed);
    let jobs = breath(&m.label("jobs"), cfg.unhurried(), departed.jobs);
    let computed = match cfg.atomics {
        true => atomic::atomic(m, cfg, cut.operands, issued.places, collected.words, jobs),
        false => atomic::none(m, cut.operands, issued.places, collected.words, jobs),
    };
    results.connect(computed.results);
    m.drive(&written, computed.written);
    let write = computed.write.map(|w| EntryWrite { address: w.address, entry: w.value });
    let write = write_entry(m, cfg, Order::Payload, write);

    // Behind this point nothing overtakes: what is finished has been taken here.
    let passed = breath(&m.label("passed"), cfg.unhurried(), ordered.pass);
    let header = in_turn(m, passed, departed.headers);
    let comes = header.valid;
    let (packet, ended) = shown(m, header);
    let acknowledges = packet.acknowledges;
    let packet = packet.map(Header::packet);
    let ended = deep_fifo(&m.label("ended"), cfg.qps, ended);
    Replied {
        source: TxSource { packet, payload: Some(collected.payload) },
        acknowledges,
        comes,
        lookup: issued.lookup,
        read: issued.read,
        write,
        faults: departed.faults,
        ended,
        served: ordered.served,
        charges: cut.charges,
        reserves: cut.reserves,
        unspent: departed.unspent,
        accesses: vec![looked_up, reading, computing],
        counts: Counts {
            reads: ordered.reads,
            atomics: ordered.atomics,
            crowded: ordered.crowded,
            forgotten: departed.forgotten,
            access: departed.access,
            operation: departed.operation,
        },
    }
}

/// A [`half`](crate::stream::half) that shows packets apart from the ends of QPs, from a register each. An end stays for a cycle.
fn shown(m: &Scope, header: Stream<Header>) -> (Stream<Header>, Stream<Sig>) {
    let [held, shows_packet, shows_end] =
        ["shows_header", "shows_packet", "shows_end"].map(|name| m.reg(name, 1).reset(0));
    let shown = m.reg_of("shown_header", &header.payload);
    m.discard(&shown.end);
    header.accept(!held);
    m.when(!held, |m| m.set_all(&shown, &header.payload));
    let packet = Stream::new(m, "packet", shows_packet, shown.clone());
    let ended = Stream::new(m, "end", shows_end, shown.qp);
    m.assert(!ended.valid | ended.ready, "a QP ends once");
    m.set(&held, m.mux(held, &(shows_packet & !packet.ready), &header.valid));
    m.set(&shows_packet, m.mux(held, &(shows_packet & !packet.ready), &(header.valid & !header.end)));
    m.set(&shows_end, !held & header.valid & header.end);
    (packet, ended)
}

/// Takes turns where both wait. A departure that comes in this cycle is no part of the choice: it is known late. So what is on
/// offer may change until it is taken; a [`half`] takes it.
fn in_turn(m: &Scope, passed: Stream<Header>, departing: Stream<Header>) -> Stream<Header> {
    let waited = m.reg("waited", 1).reset(0);
    m.set(&waited, departing.valid & !departing.ready);
    let departed_last = m.reg("departed_last", 1).reset(0);
    let gives_way = (waited & !departed_last).named("gives_way");
    let passes = (passed.valid & !gives_way).named("passes_first");
    let header = m.mux(passes, &passed.payload, &departing.payload);
    let header = Stream::new(m, "header", passes | departing.valid, header);
    passed.accept(header.ready & !gives_way);
    departing.accept(header.ready & !passes);
    m.when(header.fire(), |m| m.set(&departed_last, !passes));
    header
}

#[cfg(test)]
mod tests;
