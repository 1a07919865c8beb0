// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes to host memory as packets.
//!
//! ```text
//!           +--> split --> header ------------+
//!  write ---+                  |              v
//!           +--> FIFO --> realign: to behind the header --> merge --> FIFO of whole packets --> write
//! ```
//!
//! A write becomes as many packets as `max_payload` makes of it. The data moves from the lanes of its address to behind a header of 12 or 16
//! bytes; bytes of the first and last double word that are not written are masked by the byte enables.
//!
//! A beat a cycle, where a packet may have one more than the write had; latency from its last beat to its first beat out: 7 cycles. A packet leaves
//! only when it is there to its end, so nothing waits in the middle of one for a card that pauses, or that is reset.

use super::send::{enables, header, Header, RequestBeat, HEADER};
use super::split::{split, Run};
use super::PcieSettings;
use crate::config::RnicConfig;
use crate::host::dma::Order;
use crate::stream::{catch, deep_fifo, fifo, fork, forward, realign, Beat, Realign, Realigned};
use crate::types::DmaWrite;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream};

/// Bits of a count of writes. The sign of a difference tells which of two counts is older, so fewer than half of what they count may pass
/// while a read waits for a credit or a tag: 2^31 writes take seconds.
pub const COUNT: u32 = 32;

/// Packets that are planned, and beats that wait for their plan.
const PACKETS: u32 = 8;

/// How many writes were taken, free-running.
#[derive(Clone, Bundle)]
pub struct Taken {
    /// Those taken in this cycle are counted.
    pub count: Sig,
}

/// Counts writes; `takes`: the last beat of one is taken in this cycle. The second result is the count before this cycle, from a register.
pub fn taken(m: &Scope, takes: Sig) -> (Taken, Sig) {
    let before = m.reg("writes_taken", COUNT).reset(0);
    let count = before + takes.zext(COUNT);
    m.set(&before, count);
    (Taken { count }, before)
}

/// Writes that no read passes any more.
#[derive(Clone, Bundle)]
pub struct Passed {
    /// How many, free-running.
    pub count: Sig,
    /// One more from the next cycle on.
    pub more: Sig,
}

impl Passed {
    /// The shape.
    pub fn of() -> Self {
        Passed { count: bits(COUNT), more: bits(1) }
    }

    /// Those counted by `before` have passed, from the next cycle on. `more` is known late.
    pub fn covers(&self, before: Sig) -> Sig {
        let beyond = self.count - before;
        !beyond.msb() | (beyond.all() & self.more)
    }
}

/// A packet that is to be put together.
#[derive(Clone, Bundle)]
struct Packet {
    header: Sig,
    long: Sig,
    /// Bytes at the top of the last beat that are none.
    empty: Sig,
    ends: Sig,
}

/// Bytes of packets that wait.
fn store_bytes(beat_bytes: u32) -> u32 {
    match beat_bytes {
        64 => 4096,
        _ => 2048,
    }
}

/// Where data begins: behind a header of so many bytes.
fn lane(cfg: &RnicConfig, long: Sig) -> Sig {
    let lane = |bytes: u32| lit(cfg.lane_bits(), bytes % cfg.beat_bytes);
    long.then(lane(HEADER), lane(HEADER - 4))
}

/// Makes packets of writes.
#[module]
pub fn writes(
    m: &Scope,
    cfg: &RnicConfig,
    settings: PcieSettings,
    write: Stream<DmaWrite>,
) -> Stream<RequestBeat> {
    let lanes = cfg.lane_bits();
    // The first beat tells where the write goes.
    let within = m.reg("within", 1).reset(0);
    m.when(write.fire(), |m| m.set(&within, !write.last));
    m.when(write.valid & within & !write.last, |m| {
        m.assert(write.strobe.all(), "every byte between the first and the last is written");
    });
    let relaxed = settings.relaxed_ordering & write.order.eq(Order::Relaxed.code());
    let run = Run { address: write.address, length: write.length, relaxed };
    // Both takers know from a register whether they have room, so a beat goes to both in one cycle.
    let (run_room, data_room) = (m.wire("run_room", 1), m.wire("data_room", 1));
    let run = Stream::new(m, "run", write.valid & !within & data_room, run);
    let data = Stream::new(m, "beat", write.valid & (within | run_room), write.data);
    m.drive(&run_room, run.ready);
    m.drive(&data_room, data.ready);
    write.accept((within | run_room) & data_room);
    let run = catch(&m.label("run"), run);
    // More than 1,024 bytes would not find room in the store.
    let largest = settings.max_payload.gt(3).then(lit(3, 3), settings.max_payload);
    let chunks = split(m, largest, run);
    let packets = chunks.map(|chunk| {
        let (dwords, first_be, last_be) = enables(chunk.address.trunc(2), chunk.length);
        let head = Header {
            write: lit(1, 1),
            requester: settings.requester,
            tag: lit(8, 0),
            address: chunk.address,
            dwords,
            first_be,
            last_be,
            relaxed: chunk.relaxed,
        };
        let (header, long) = header(&head, cfg.pcie4);
        let (to_lane, length) = (lane(cfg, long), cat(&[lit(2, 0), dwords]));
        Plan {
            run: Realign {
                from_lane: cat(&[lit(2, 0), chunk.address.slice(2, lanes - 2)]),
                to_lane,
                length,
                keep: lit(1, 0),
            },
            packet: Packet {
                header,
                long,
                empty: lit(lanes, 0) - to_lane - length.trunc(lanes),
                ends: chunk.last,
            },
        }
    });
    let mut plans = fork(m, 2, forward(&m.label("plan"), packets)).into_iter();
    let mut plan = || plans.next().expect("two plans");
    let runs = plan().map(|plan| plan.run.clone());
    let packets = fifo(&m.label("packets"), PACKETS, plan().map(|plan| plan.packet.clone()));
    // While a write's first packet is planned, its beats wait here, and not the writes behind it.
    let data = fifo(&m.label("data"), PACKETS, data);
    let beats = merge(m, cfg, packets, realign(m, runs, data));
    whole(m, store_bytes(cfg.beat_bytes) / cfg.beat_bytes, beats)
}

/// What becomes of a chunk.
#[derive(Clone, Bundle)]
struct Plan {
    run: Realign,
    packet: Packet,
}

/// Puts the header before the data.
#[module]
fn merge(
    m: &Scope,
    cfg: &RnicConfig,
    packet: Stream<Packet>,
    rows: Stream<Realigned>,
) -> Stream<RequestBeat> {
    let (bytes, lanes) = (cfg.beat_bytes, cfg.lane_bits());
    m.discard(&rows.strobe);
    // Beats with nothing but header; what is left of it shares a beat with data.
    let beats = HEADER / bytes + 1;
    let alone = |length: u32| lit(2, length / bytes);
    let alone = packet.long.then(alone(HEADER), alone(HEADER - 4));
    let at = m.reg("at", 2).reset(0);
    let data_on = m.reg("data_on", 1).reset(0);
    // A wide beat holds the header and data after it.
    let in_header = if bytes > HEADER { lit(1, 0) } else { (!data_on & at.ne(alone)).named("in_header") };
    let parts = packet.header.zext(8 * bytes * beats).chunks(8 * bytes);
    let head = m.select(at.trunc(clog2(u64::from(beats)).max(1)), &parts);
    let data = (data_on.then(lit(head.width(), 0), head)) | ((!in_header).repeat(8 * bytes) & rows.data);
    let last = (!in_header & rows.last).named("is_last");
    let beat = Beat { data, last, empty: last.then(packet.empty, lit(lanes, 0)) };
    let valid = packet.valid & (in_header | rows.valid);
    let out = Stream::new(m, "out", valid, RequestBeat { beat, ends: packet.ends, read: lit(1, 0) });
    rows.accept(packet.valid & out.ready & !in_header);
    packet.accept(out.ready & last & rows.valid);
    m.when(out.fire(), |m| {
        m.set(&at, last.then(lit(2, 0), in_header.then(at + 1, at)));
        m.set(&data_on, !in_header & !last);
    });
    out
}

/// Lets a packet out when it is there to its end.
#[module]
fn whole(m: &Scope, #[param] depth: u32, input: Stream<RequestBeat>) -> Stream<RequestBeat> {
    let count = m.reg("count", clog2(u64::from(depth)) + 1).reset(0);
    let enters = input.fire() & input.beat.last;
    let store = deep_fifo(m, depth, input);
    // Something is counted. Whether a packet leaves is known late.
    let some = m.reg("some", 1).reset(0);
    let out = store.gate(m, some);
    let leaves = out.fire() & out.beat.last;
    m.set(&some, enters | (some & !(leaves & count.eq(1))));
    m.assert(some.eq(count.ne(0)), "a packet leaves when it is whole");
    m.when(enters & !leaves, |m| m.set(&count, count + 1))
        .otherwise_when(leaves & !enters, |m| m.set(&count, count - 1));
    out
}
