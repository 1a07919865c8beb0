// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests on their way out: reads and writes take turns, and no read leaves before the writes that were taken before it.
//!
//! ```text
//!  read ---> wait for the writes before it --> beats of its header --+
//!                                                                    +--> turns --> reg --> rq
//!  write --> whole packets ------------------------------------------+      |
//!                                                                           +--> departures
//! ```
//!
//! A beat a cycle, also between packets; latency 1. Once a packet has begun, its beats are on offer without a gap, as some hard blocks want
//! it: a write comes from where it is whole, a read is a header.
//!
//! Before a hard block a read begins only where there is a credit for it: one that waits in the block holds up the writes behind it, which must be able to pass it
//! (PCIe 2.4.1, table 2-40, A3 and A4 are "Yes"): the host may give credits only when it has seen such a write. What the block says of its credits lags by [`LAG`] cycles.
//!
//! A host that takes a bus master's right away stops them between two packets. If the card is being reset then (`drops`), they are thrown away: of a read
//! the tag comes back, with which nobody was asked.

use super::reads::ReadTlp;
use super::writes::Passed;
use crate::config::RnicConfig;
use crate::fields::{assemble, field};
use crate::stream::{lanes_from, skid, Beat};
use ferrowire_rtl::{cat, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::pcie::{kind, request32, request64};

/// Bytes of the longest header.
pub const HEADER: u32 = request64::BYTES as u32;
/// Bytes of the header of a request below 4 GiB.
const SHORT: u32 = request32::BYTES as u32;

/// Cycles from a read on `rq` until the credits that are shown have it taken off: two in the block (PG213, `pcie_tfc_nph_av`), one to here, and one to spare.
const LAG: u32 = 4;
/// Bits of what the block shows of its credits, at most "15 or more".
pub const CREDITS: u32 = 4;

/// What a memory request says.
pub struct Header {
    /// A write rather than a read.
    pub write: Sig,
    /// Who asks.
    pub requester: Sig,
    /// Of a read.
    pub tag: Sig,
    /// Of its first byte.
    pub address: Sig,
    /// Double words, 1 to 1,024.
    pub dwords: Sig,
    /// Bytes of the first one.
    pub first_be: Sig,
    /// Bytes of the last one, if it is another.
    pub last_be: Sig,
    /// Relaxed ordering.
    pub relaxed: Sig,
}

/// Its bytes, 16 of them, and whether these are all: a request below 4 GiB has three double words (PCIe 2.2.4.1), unless `always_long`:
/// then it is not for the wire as it is.
pub fn header(h: &Header, always_long: bool) -> (Sig, Sig) {
    let long = match always_long {
        true => lit(1, 1),
        false => (h.address >> 32).any(),
    };
    let of = |read: u8, write: u8| h.write.then(lit(8, write), lit(8, read));
    let kind = long.then(of(kind::READ64, kind::WRITE64), of(kind::READ32, kind::WRITE32));
    use request64::{ADDRESS, FIRST_BE, FMT, LAST_BE, LAYOUT, LENGTH, REQUESTER, RO, TAG, TYPE};
    let header = assemble(
        &LAYOUT,
        &[
            (FMT, kind.slice(5, 3)),
            (TYPE, kind.trunc(5)),
            (RO, h.relaxed),
            (LENGTH, h.dwords.trunc(10)),
            (REQUESTER, h.requester),
            (TAG, h.tag),
            (LAST_BE, h.last_be),
            (FIRST_BE, h.first_be),
            (ADDRESS, h.address.slice(2, 62)),
        ],
    );
    // Both kinds have the same fields in the same places, but for the upper half of the address, which the short one does not have.
    let words = header.chunks(32);
    let short = cat(&[words[0], words[1], words[3], lit(32, 0)]);
    (long.then(header, short), long)
}

/// Double words that a run of bytes lies in, and which bytes of the first and of the last one: `at` is the place of its first byte in
/// the first double word (PCIe 2.2.5).
pub fn enables(at: Sig, length: Sig) -> (Sig, Sig, Sig) {
    let end = (at.zext(13) + length - 1).named("run_end");
    let dwords = end.slice(2, 11) + 1;
    let one = dwords.eq(1);
    let from = lanes_from(at);
    let to = !(lanes_from(end.trunc(2)) << 1);
    let all = lit(4, 0xf);
    (dwords, from & one.then(to, all), to & (!one).repeat(4))
}

/// A beat of a request.
#[derive(Clone, Bundle)]
pub struct RequestBeat {
    /// Its bytes.
    pub beat: Beat,
    /// The packet is the last one of a write of the card.
    pub ends: Sig,
    /// The packet is a read.
    pub read: Sig,
}

/// What leaves in a cycle.
#[derive(Clone, Bundle)]
pub struct Departed {
    /// A read, with its last beat; or it was thrown away.
    pub read: Sig,
    /// Writes of the card that have left to their ends or were thrown away, free-running.
    pub writes: Sig,
    /// The end of a write was thrown away.
    pub dropped: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Sent {
    /// Packets.
    pub rq: Stream<RequestBeat>,
    /// What leaves.
    pub departed: Departed,
    /// Tags of reads that were thrown away.
    pub returned: Stream<Sig>,
    /// Writes of the card that no read passes any more.
    pub passed: Passed,
}

/// Beats of a header that no data follows.
#[module]
fn bare(m: &Scope, #[param] beat_bytes: u32, packet: Stream<ReadTlp>) -> Stream<Beat> {
    m.discard(&packet.behind);
    let shape = Beat::of(beat_bytes);
    let empty = |bytes: u32| lit(shape.empty.width(), (beat_bytes - bytes % beat_bytes) % beat_bytes);
    if beat_bytes >= HEADER {
        return packet.map(|tlp| Beat {
            data: tlp.header.zext(8 * beat_bytes),
            last: lit(1, 1),
            empty: tlp.long.then(empty(HEADER), empty(SHORT)),
        });
    }
    // Two beats of eight bytes, either way.
    let second = m.reg("second", 1).reset(0);
    let halves = packet.header.chunks(8 * beat_bytes);
    let beat = Beat {
        data: second.then(halves[1], halves[0]),
        last: second,
        empty: (second & !packet.long).then(empty(SHORT), lit(shape.empty.width(), 0)),
    };
    let out = Stream::new(m, "out", packet.valid, beat);
    packet.accept(out.ready & second);
    m.when(out.fire(), |m| m.set(&second, !second));
    out
}

/// Takes requests that may not leave out of both streams: reads, and whole packets of writes.
struct Dropped {
    reads: Stream<ReadTlp>,
    writes: Stream<RequestBeat>,
    returned: Stream<Sig>,
    /// The end of a write.
    write: Sig,
}

/// `may`: they are to be taken out, between packets; `idle`: nothing of what came before is on its way to `rq`.
fn drop_requests(
    m: &Scope,
    reads: Stream<ReadTlp>,
    writes: Stream<RequestBeat>,
    may: [Sig; 2],
    idle: Sig,
) -> Dropped {
    // Reads leave in order; that of one that is thrown away is told with the others.
    let drops = (may[0] & idle).named("drops_read");
    let tag = field(&request64::LAYOUT, &request64::TAG, reads.header);
    let returned = Stream::new(m, "returned", reads.valid & drops, tag);
    let kept = Stream::new(m, "kept_read", reads.valid & !drops, reads.payload.clone());
    reads.accept(m.mux(drops, &returned.ready, &kept.ready));
    let within = m.reg("within_dropped", 1).reset(0);
    let drops = (within | may[1]).named("drops_write");
    let gone = writes.valid & drops;
    m.when(gone, |m| m.set(&within, !writes.beat.last));
    let write = gone & writes.beat.last & writes.ends;
    Dropped { reads: kept, writes: writes.discard_if(m, drops), returned, write }
}

/// Reads that have passed the turns (`begins`) and have not left (`leaves`), or not for [`LAG`] cycles.
fn count_owing(m: &Scope, begins: Sig, leaves: Sig) -> Sig {
    let count = m.reg("owing_reads", CREDITS + 1).reset(0);
    let over = (0..LAG).fold(leaves, |before, i| {
        let later = m.reg(&format!("left{i}"), 1).reset(0);
        m.set(&later, before);
        later
    });
    let one = |when: Sig| when.zext(CREDITS + 1);
    m.set(&count, count + one(begins) - one(over));
    count
}

/// Sends requests. `credits`: for so many reads, as a hard block tells; or nobody holds up writes behind a read.
/// `clear`: the writes before the read on offer have passed.
#[allow(clippy::too_many_arguments)]
#[module]
pub fn send(
    m: &Scope,
    cfg: &RnicConfig,
    bus_master: Sig,
    drops: Sig,
    credits: Option<Sig>,
    reads: Stream<ReadTlp>,
    clear: Sig,
    writes: Stream<RequestBeat>,
) -> Sent {
    let counter = |name: &str| m.reg(name, super::writes::COUNT).reset(0);
    // Writes that have passed the turns, and those that are gone.
    let (passed, departed) = (counter("writes_passed"), counter("writes_departed"));
    let master = m.delay("bus_master", &bus_master);
    let drops = m.delay("drops", &(drops & !bus_master));
    let (within_read, within_write) = (m.reg("within_read", 1).reset(0), m.reg("within_write", 1).reset(0));
    let busy = m.wire("rq_busy", 1);
    let may = [within_read, within_write].map(|within| drops & !within);
    let Dropped { reads, writes, returned, write: dropped } = drop_requests(m, reads, writes, may, !busy);
    // Reads that have begun and are not taken off the credits yet.
    let credits = credits.map(|credits| (m.delay("credits", &credits), m.wire("owing", CREDITS + 1)));
    let credit = credits.map_or(lit(1, 1), |(credits, owing)| credits.zext(CREDITS + 1).gt(owing));
    let read = bare(m, cfg.beat_bytes, reads).gate(m, within_read | (master & clear & credit));
    let write = writes.gate(m, within_write | master);
    m.when(read.fire(), |m| m.set(&within_read, !read.last));
    m.when(write.fire(), |m| m.set(&within_write, !write.beat.last));
    let read = read.map(|beat| RequestBeat { beat: beat.clone(), ends: lit(1, 0), read: lit(1, 1) });
    // Turns, packet by packet. What was on offer and may not leave any more holds up nobody: it may never come again.
    let read_next = m.reg("read_next", 1).reset(0);
    let begins = read.valid & (read_next | !write.valid) & !within_write;
    let reads = (within_read | begins).named("read_turn");
    let chosen = Stream::new(
        m,
        "chosen",
        m.mux(reads, &read.valid, &write.valid),
        m.mux(reads, &read.payload, &write.payload),
    );
    read.accept(chosen.ready & reads);
    write.accept(chosen.ready & !reads);
    m.when(chosen.fire(), |m| m.set(&read_next, !reads));
    let one = |when: Sig| when.zext(super::writes::COUNT);
    let passes = chosen.fire() & chosen.beat.last & chosen.ends;
    let begins_one = chosen.fire() & chosen.beat.last & chosen.read;
    m.set(&passed, passed + one(passes) + one(dropped));
    let rq = skid(m, chosen);
    m.drive(&busy, rq.valid);
    let leaves = rq.fire() & rq.beat.last;
    m.set(&departed, departed + one(leaves & rq.ends) + one(dropped));
    let read_leaves = leaves & rq.read;
    if let Some((_, owing)) = credits {
        m.drive(&owing, count_owing(m, begins_one, read_leaves));
    }
    let read = read_leaves | returned.fire();
    Sent {
        rq,
        departed: Departed { read, writes: departed, dropped },
        returned,
        passed: Passed { count: passed, more: passes },
    }
}
