// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes to host memory as bursts, and what is known of them.
//!
//! ```text
//!           +--> payload -------------------------+
//!  write ---+--> completions --> behind payload --+--> round robin --+--> bursts --> AW
//!           +--> events -------> behind both -----+                  +-------------> W
//!
//!  B --> bursts done, by ID; faults: the page of the first one that fails
//! ```
//!
//! A kind of write ([`DmaWrite::order`]) has an AXI ID of its own. An entry of a completion queue waits until the payload that was taken before
//! it has its responses; an event or a command's reply, until completions have theirs, too. Payload passes both: nobody looks for it before its
//! completion. So a completion costs no wait of those behind it, and is never seen before its data.
//!
//! A beat a cycle. Payload reaches W in two cycles; an entry four later than the responses before it. No more than [`MOST`] bursts of an ID are under
//! way. What is written in the middle of a burst does not wait for AW, nor AW for it.

use super::barrier::{barrier, Bursts, COUNT, MOST};
use super::bursts::{bursts, ends_at, place_bits, Burst, Run};
use super::faults::{faults, Coming, Leaving, WriteFault};
use super::{Response, WriteBeat, ID_BITS};
use crate::config::RnicConfig;
use crate::host::dma::{Order, ENTRY};
use crate::stream::{arbiter, fork, forward};
use crate::types::DmaWrite;
use ferrowire_rtl::{clog2, lit, module, Bundle, Interface, Scope, Sig, Stream};

/// Kinds of writes that wait for each other, hence IDs: payload, completions, events.
pub const KINDS: u32 = 3;

/// Beats of entries that wait: 32 completions at 64 bytes a beat, and 16 events; at 8 bytes four and eight, which a frame each of eight beats does not fill while
/// a memory takes its time.
fn waiting(cfg: &RnicConfig) -> [u32; 2] {
    [if cfg.unhurried() { 16 } else { 32 }, 16]
}

/// What comes of writes.
#[derive(Interface)]
pub struct Writes {
    /// Where bursts go.
    pub address: Stream<Burst>,
    /// Their data.
    pub data: Stream<WriteBeat>,
    /// Of each ID.
    pub bursts: Vec<Bursts>,
    /// A write failed in this cycle.
    pub error: Sig,
    /// The first one that failed.
    pub fault: WriteFault,
    /// Every write has its response.
    pub idle: Sig,
}

/// A beat of a write, and whether its burst ends with it.
#[derive(Clone, Bundle)]
struct Part {
    write: DmaWrite,
    ends: Sig,
}

impl Part {
    /// Another width of the data.
    fn with_data(&self, data: Sig) -> Self {
        Part { write: DmaWrite { data, ..self.write.clone() }, ends: self.ends }
    }
}

/// Writes host memory. `forgets`: clears the recorded fault, and records none meanwhile.
#[module]
pub fn writes(
    m: &Scope,
    cfg: &RnicConfig,
    write: Stream<DmaWrite>,
    response: Stream<Response>,
    forgets: Sig,
) -> Writes {
    let (bytes, lanes) = (cfg.beat_bytes, cfg.lane_bits());
    // Where in its page the beat lies.
    let within = m.reg("within", 1).reset(0);
    let next = m.reg("next_place", place_bits(cfg)).no_reset();
    let place = within.then(next, write.address.slice(lanes, place_bits(cfg)));
    let ends = (write.last | ends_at(cfg, place)).named("burst_ends");
    m.when(write.fire(), |m| {
        m.set(&within, !write.last);
        m.set(&next, place + 1);
    });

    // Counts of each ID.
    response.accept(1);
    let relaxed = write.order.eq(Order::Relaxed.code());
    let kind = relaxed.then(Order::Payload.code(), write.order).named("kind");
    let counts: Vec<(Bursts, Sig)> = (0..KINDS)
        .map(|order| {
            let count = |name: &str| m.reg(&format!("{name}{order}"), COUNT).reset(0);
            let (taken, done) = (count("taken"), count("done"));
            let takes = write.fire() & ends & kind.eq(order);
            let after = taken + takes.zext(COUNT);
            m.set(&taken, after);
            m.set(&done, done + (response.valid & response.id.eq(order)).zext(COUNT));
            m.assert(!response.valid | response.id.ne(order) | done.ne(taken), "a response to nothing");
            (Bursts { taken: after, done }, (taken - done).lt(MOST))
        })
        .collect();
    let (counted, rooms): (Vec<Bursts>, Vec<Sig>) = counts.into_iter().unzip();
    let room = m.select(kind, &rooms);

    let write = write.gate(m, room);
    let part = Part { write: DmaWrite { order: kind, ..write.payload.clone() }, ends };
    let entry = (8 * bytes).min(8 * ENTRY);
    let narrow = part.with_data(part.write.data.trunc(entry));
    let payload = Stream::new(m, "payload", write.valid & kind.eq(0), part.clone());
    let entries: Vec<Stream<Part>> = (1..KINDS)
        .map(|order| {
            // What is known of it needs no place.
            let mut entry = narrow.clone();
            entry.write.order = lit(kind.width(), order);
            Stream::new(m, &format!("entry{order}"), write.valid & kind.eq(order), entry)
        })
        .collect();
    let mut readys = vec![payload.ready];
    readys.extend(entries.iter().map(|entry| entry.ready));
    write.accept(m.select(kind, &readys));

    // Who waits for whom.
    let waits = (1..).zip(waiting(cfg)).zip(entries).map(|((order, depth), entries): ((usize, _), _)| {
        let before = counted[..order].to_vec();
        let out = barrier(&m.label(&format!("order{order}")), depth, before, entries);
        out.map(|part| part.with_data(part.write.data.repeat(8 * bytes / entry)))
    });
    let mut sources = vec![forward(&m.label("payload"), payload)];
    sources.extend(waits);
    let chosen = arbiter(m, &|part: &Part| part.write.last, sources);

    let mut parts = fork(m, 2, forward(&m.label("chosen"), chosen)).into_iter();
    let mut part = || parts.next().expect("two parts");
    let first = part();
    let goes_on = m.reg("goes_on", 1).reset(0);
    m.when(first.fire(), |m| m.set(&goes_on, !first.write.last));
    let runs = first.discard_if(m, goes_on).map(|part| {
        let DmaWrite { address, length, order, .. } = part.write.clone();
        Run { address, length, id: order.zext(ID_BITS) }
    });
    let address = bursts(m, cfg, runs);
    let data =
        part().map(|part| WriteBeat { data: part.write.data, strb: part.write.strobe, last: part.ends });
    let still = counted.iter().map(|bursts| bursts.taken.eq(bursts.done)).reduce(|a, b| a & b);
    let idle = still.expect("some kinds of writes").named("is_idle");
    let error = response.valid & response.resp.bit(1);
    let numbers: Vec<Sig> = counted.iter().map(|b| b.done.trunc(clog2(u64::from(MOST)))).collect();
    let coming = Coming { valid: error, id: response.id, done: m.select(response.id, &numbers) };
    let leaving = Leaving { valid: address.fire(), burst: address.payload.clone() };
    let fault = faults(m, cfg, leaving, coming, forgets);
    Writes { address, data, bursts: counted, error, fault, idle }
}
