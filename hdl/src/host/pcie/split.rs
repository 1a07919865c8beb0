// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cuts a run of bytes where a PCIe limit says so.
//!
//! ```text
//!  run --> first chunk --> [ chunk on offer, bytes left after it ] --> chunk
//! ```
//!
//! Chunks end at multiples of the size (PCIe 2.2.7: a request is no longer than that; 2.3.1.1: a completion of what is aligned takes
//! fewest packets). A run lies within 4 KiB, of which every size is a part, so a chunk does, too.
//!
//! A chunk a cycle, latency 1; with the last chunk of a run the next run is taken: a path from the output's `ready` to the input's.
//! A code that the standard reserves counts as 4,096 bytes. A run has the size that was set in the cycle before it came, to its end. Reset forgets the run.

use ferrowire_rtl::{bits, cat, lit, module, Bundle, Scope, Sig, Stream};
use ferrowire_spec::pcie;

/// Bytes within one page of 4 KiB.
#[derive(Clone, Bundle)]
pub struct Run {
    /// Of its first byte.
    pub address: Sig,
    /// Bytes, 1 to 4,096.
    pub length: Sig,
    /// Others may pass what is made of it.
    pub relaxed: Sig,
}

impl Run {
    /// The shape.
    pub fn of() -> Self {
        Run { address: bits(64), length: bits(13), relaxed: bits(1) }
    }
}

/// A part of a run.
#[derive(Clone, Bundle)]
pub struct Chunk {
    /// Of its first byte.
    pub address: Sig,
    /// Bytes, 1 to 4,096.
    pub length: Sig,
    /// The run ends with it.
    pub last: Sig,
    /// As of its run.
    pub relaxed: Sig,
}

impl Chunk {
    /// The shape.
    pub fn of() -> Self {
        Chunk { address: bits(64), length: bits(13), last: bits(1), relaxed: bits(1) }
    }
}

/// Cuts runs at multiples of `pcie::size(code)` bytes.
#[module]
pub fn split(m: &Scope, code: Sig, run: Stream<Run>) -> Stream<Chunk> {
    let held = m.reg("held", 1).reset(0);
    let page = m.reg("page", 52).no_reset();
    let at = m.reg("at", 12).no_reset();
    let relaxed = m.reg("relaxed", 1).no_reset();
    // Of the chunk on show; bytes of the run from its end on, if it is not the last one.
    let length = m.reg("length", 13).no_reset();
    let over = m.reg("over", 1).no_reset();
    let left = m.reg("left", 13).no_reset();

    let masks: Vec<Sig> = (0..8).map(|code| lit(12, pcie::size(code).min(pcie::PAGE) - 1)).collect();
    let mask = m.delay("mask", &m.select(code, &masks));
    // A run keeps to the size with which it began.
    let own = m.reg("own_mask", 12).no_reset();
    let size = own.zext(13) + 1;
    let chunk = Chunk { address: cat(&[at, page]), length, last: !over, relaxed };
    let out = Stream::new(m, "out", held, chunk);

    run.accept(!held | (out.ready & !over));
    // The chunk that comes next: the first of a run, or one that begins at a multiple of the size.
    let room = (!run.address.trunc(12) & mask).zext(13) + 1;
    let first = (run.length.gt(room), room, run.length, run.length - room);
    let next = (left.gt(size), size, left, left - size);
    let show = |m: &Scope, (goes_on, room, all, rest): (Sig, Sig, Sig, Sig)| {
        m.set(&over, goes_on);
        m.set(&length, goes_on.then(room, all));
        m.set(&left, rest);
    };
    m.when(run.fire(), |m| {
        m.set(&held, 1);
        m.set(&page, run.address.slice(12, 52));
        m.set(&at, run.address.trunc(12));
        m.set(&relaxed, run.relaxed);
        m.set(&own, mask);
        show(m, first);
    })
    .otherwise_when(out.fire(), |m| {
        m.set(&held, over);
        m.set(&at, (at | own) + 1);
        show(m, next);
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drain, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use rand::Rng;

    #[test]
    fn a_run_keeps_to_the_size_with_which_it_began() {
        let netlist = build("top", |m| {
            let run = m.stream_in("run", &Run::of());
            m.stream_out("out", split(m, m.input("code", 3), run));
        });
        let netlist = netlist.unwrap();
        for (before, after) in [(0u64, 3u64), (3, 0), (1, 5), (5, 1)] {
            for cycles in 0..6 {
                let mut sim = Sim::new(&netlist);
                sim.set("code", before);
                sim.set("out_ready", 1);
                sim.reset();
                for (name, value) in [("valid", 1), ("address", 0x7040), ("length", 0xf00)] {
                    sim.set(&format!("run_{name}"), value);
                }
                assert_eq!(sim.get("run_ready"), 1);
                let (mut at, mut taken) = (0x7040, 0);
                for cycle in 0..60 {
                    sim.set("run_valid", u64::from(cycle == 0));
                    if cycle == cycles {
                        sim.set("code", after);
                    }
                    if sim.get("out_valid") == 1 {
                        let to = (0x7040 + 0xf00u64).min((at / (128 << before) + 1) * (128 << before));
                        assert_eq!((sim.get("out_address"), sim.get("out_length")), (at, to - at));
                        (at, taken) = (to, taken + sim.get("out_last"));
                    }
                    sim.tick();
                }
                assert_eq!((at, taken), (0x7f40, 1), "from {before} to {after} after {cycles} cycles");
            }
        }
    }

    #[test]
    fn chunks_cover_the_run_and_end_at_the_boundary() {
        for code in 0..6u8 {
            let netlist = build("top", |m| {
                let run = m.stream_in("run", &Run::of());
                m.stream_out("out", split(m, m.input("code", 3), run));
            });
            let mut sim = Sim::new(&netlist.unwrap());
            sim.set("code", u64::from(code));
            sim.reset();
            let mut random = Random::new(1);
            let mut sources = [Source::new("run", &Run::of())];
            let mut sinks = [Sink::new("out", &Chunk::of())];
            let mut expected = Vec::new();
            let size = u64::from(pcie::size(code));
            for _ in 0..300 {
                let at = random.rng.random_range(0..4096u64);
                let length = random.rng.random_range(1..=4096 - at);
                let base = random.rng.random_range(0..1u64 << 52) << 12;
                let relaxed = random.rng.random_range(0..2u64);
                let fields = [("address", base + at), ("length", length), ("relaxed", relaxed)];
                sources[0].push_values(&fields.map(|(name, value)| (name, value.into())));
                let (mut from, end) = (base + at, base + at + length);
                while from < end {
                    let to = end.min((from / size + 1) * size);
                    expected.push([from, to - from, u64::from(to == end), relaxed]);
                    from = to;
                }
            }
            drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.2, 100_000, 200);
            let got = sinks[0].items.iter();
            let fields = ["address", "length", "last", "relaxed"];
            let got: Vec<_> = got.map(|i| fields.map(|field| i[field].to_u64())).collect();
            for (got, expected) in got.iter().zip(&expected) {
                assert_eq!(got, expected, "seed {}, code {code}", random.seed);
            }
            assert_eq!(got.len(), expected.len(), "seed {}, code {code}", random.seed);
        }
    }
}
