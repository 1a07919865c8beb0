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
//! A host that takes a bus master's right away stops them between two packets.

use super::reads::ReadTlp;
use crate::config::RnicConfig;
use crate::fields::assemble;
use crate::stream::{arbiter, lanes_from, skid, Beat};
use ferrowire_rtl::{cat, lit, module, Bundle, Interface, Scope, Sig, Stream};
use ferrowire_spec::pcie::{kind, request32, request64};

/// Bytes of the longest header.
pub const HEADER: u32 = request64::BYTES as u32;
/// Bytes of the header of a request below 4 GiB.
const SHORT: u32 = request32::BYTES as u32;

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
    use request64::{ADDRESS, FIRST_BE, FMT, LAST_BE, LAYOUT, LENGTH, REQUESTER, TAG, TYPE};
    let header = assemble(
        &LAYOUT,
        &[
            (FMT, kind.slice(5, 3)),
            (TYPE, kind.trunc(5)),
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
    /// A read, with its last beat.
    pub read: Sig,
    /// Writes of the card that have left to their ends, free-running.
    pub writes: Sig,
}

/// What comes out.
#[derive(Interface)]
pub struct Sent {
    /// Packets.
    pub rq: Stream<RequestBeat>,
    /// What leaves.
    pub departed: Departed,
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

/// Sends requests.
#[module]
pub fn send(
    m: &Scope,
    cfg: &RnicConfig,
    bus_master: Sig,
    reads: Stream<ReadTlp>,
    writes: Stream<RequestBeat>,
) -> Sent {
    let counter = |name: &str| m.reg(name, super::writes::COUNT).reset(0);
    // Writes that have passed the turns, and those that are gone.
    let (passed, departed) = (counter("writes_passed"), counter("writes_departed"));
    // The writes before it have passed: the difference is not negative.
    let behind = (passed - reads.behind.count).msb();
    let master = m.delay("bus_master", &bus_master);
    let (within_read, within_write) = (m.reg("within_read", 1).reset(0), m.reg("within_write", 1).reset(0));
    let read = bare(m, cfg.beat_bytes, reads).gate(m, within_read | (master & !behind));
    let write = writes.gate(m, within_write | master);
    m.when(read.fire(), |m| m.set(&within_read, !read.last));
    m.when(write.fire(), |m| m.set(&within_write, !write.beat.last));
    let read = read.map(|beat| RequestBeat { beat: beat.clone(), ends: lit(1, 0), read: lit(1, 1) });
    let chosen = arbiter(m, &|request: &RequestBeat| request.beat.last, vec![read, write]);
    m.when(chosen.fire() & chosen.beat.last & chosen.ends, |m| m.set(&passed, passed + 1));
    let rq = skid(m, chosen);
    let leaves = rq.fire() & rq.beat.last;
    m.when(leaves & rq.ends, |m| m.set(&departed, departed + 1));
    let read = leaves & rq.read;
    Sent { rq, departed: Departed { read, writes: departed } }
}
