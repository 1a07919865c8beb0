// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completion writer: turns completions into 32-byte CQEs in host memory. It alone owns the producer indices.
//!
//! ```text
//!  completion ---> read tables ---> full? index, phase ---> address, beats ---> write
//!                   ^      ^              |
//!  CREATE_CQ -------+      +-- consumer   +--> producer + 1
//!  doorbell ------------------- index
//! ```
//!
//! A CQE is written by 32 / `beat_bytes` beats, or by one. Completions leave in the order in which they came. One CQE
//! takes 2 cycles, or as many as it has beats: at most 4. Latency 2 from a completion to its first beat.
//!
//! A marker is no completion: it is told when all that came before it has been handed to the write channel, so that what
//! is written afterwards (the completion of the command that took a QP to RESET) comes behind.
//!
//! The phase is the inverse of the wrap count's low bit, so that the first pass over a zeroed queue writes ones.
//! Creating a CQ sets both its indices to zero.
//!
//! Bad input: a completion for a CQ that does not exist, or that has no free entry by the consumer index of the last
//! doorbell, is dropped with a pulse on `dropped`; nothing is overwritten. A consumer index ahead of the producer makes
//! the CQ look full: it harms nobody else.

use super::dma::{write_entry, EntryWrite};
use super::{CqDoorbell, CqEntry};
use crate::config::RnicConfig;
use crate::fields::assemble;
use crate::types::{Completion, DmaWrite, Drained, TableWrite};
use ferrowire_rtl::{bits, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream};
use ferrowire_spec::queue::cqe;

/// What leaves the completion writer.
#[derive(Interface)]
pub struct CqWriter {
    /// CQEs on the way to memory.
    pub write: Stream<DmaWrite>,
    /// A CQE was made in this cycle.
    pub written: Sig,
    /// A completion was dropped in this cycle: no such CQ, or no free entry.
    pub dropped: Sig,
    /// A marker has come by.
    pub drained: Drained,
}

/// An entry that has its place.
#[derive(Clone, Bundle)]
struct Made {
    base: Sig,
    offset: Sig,
    entry: Sig,
}

/// Base and size: what of a CQ the writer needs.
#[derive(Clone, Bundle)]
struct Place {
    valid: Sig,
    base: Sig,
    log2: Sig,
}

/// Bits of an index within a queue.
const INDEX: u32 = super::MAX_CQ_LOG2;

/// Writes completions.
#[module]
pub fn cq(
    m: &Scope,
    cfg: &RnicConfig,
    completion: Stream<Completion>,
    create: TableWrite<CqEntry>,
    doorbell: Stream<CqDoorbell>,
) -> CqWriter {
    m.discard(&create.entry.doorbell_page);
    let shape = Place { valid: bits(1), base: bits(64), log2: bits(5) };
    let places = m.mem("places", cfg.cqs, &shape).init(vec![]).build();
    let producers = m.mem("producers", cfg.cqs, &bits(32)).init(vec![]).build();
    let consumers = m.mem("consumers", cfg.cqs, &bits(32)).init(vec![]).build();

    let place = Place { valid: create.entry.valid, base: create.entry.base, log2: create.entry.log2 };
    places.write(create.enable, create.index, &place);

    // One write port: creation goes first, and resets.
    doorbell.accept(!create.enable);
    consumers.write(
        create.enable | doorbell.valid,
        create.enable.then(create.index, doorbell.cq),
        &create.enable.then(lit(32, 0), doorbell.consumer),
    );

    // Decide: the tables have answered for `held`.
    let deciding = m.reg("deciding", 1).reset(0);
    let held = m.reg_of("held", &completion.payload);
    let made_valid = m.reg("made_valid", 1).reset(0);
    let made = m.reg_of("made", &Made { base: bits(64), offset: bits(INDEX + 5), entry: bits(256) });
    let entry = Stream::new(
        m,
        "entry",
        made_valid,
        EntryWrite { address: made.base + made.offset.zext(64), entry: made.entry },
    );
    // While a CQ is created, the producer index has no port to be written through.
    let decide = (deciding & (!made_valid | entry.ready) & !create.enable).named("decide");
    let completes = !held.marker;
    let accept = !deciding;
    completion.accept(accept);
    // A CQ that is created or removed meanwhile is looked at again.
    let read = (completion.valid & accept) | (deciding & create.enable);
    let wanted = deciding.then(held.cq, completion.cq);

    // The index is written back one cycle before it may be read again.
    let producer_after = m.wire("producer_after", 32);
    let written = m.wire("written", 1);
    producers.write(
        create.enable | written,
        create.enable.then(create.index, held.cq),
        &create.enable.then(lit(32, 0), producer_after),
    );
    let place = places.read(m, read, wanted, Collision::New);
    let producer = producers.read(m, read, wanted, Collision::New);
    let consumer = consumers.read(m, read, wanted, Collision::New);

    let full = (producer - consumer).shr_by(place.log2).any();
    let phase = !producer.bit_at(place.log2);
    let mask = !lit(1, 1).repeat(INDEX).shl_by(place.log2);
    m.drive(&producer_after, producer + 1);
    m.drive(&written, decide & completes & place.valid & !full);

    use cqe::*;
    let bytes = assemble(
        &LAYOUT,
        &[
            (QPN, held.qpn),
            (OPCODE, held.opcode),
            (BYTE_LEN, held.byte_len),
            (RECEIVE, held.opcode.msb()),
            (WQE_INDEX, held.wqe_index),
            (STATUS, held.status),
            (SYNDROME, held.syndrome),
            (IMM, held.imm),
            (IMM_VALID, held.imm_valid),
            (INVALIDATED, held.invalidated),
            (SOLICITED, held.solicited),
            (PHASE, phase),
        ],
    );
    m.when(completion.fire(), |m| {
        m.set(&deciding, 1);
        m.set_all(&held, &completion.payload);
    })
    .otherwise_when(decide, |m| m.set(&deciding, 0));
    m.when(written, |m| {
        m.set(&made_valid, 1);
        m.set(&made.base, place.base);
        m.set(&made.offset, (producer.trunc(INDEX) & mask).zext(INDEX + 5) << 5);
        m.set(&made.entry, bytes);
    })
    .otherwise_when(entry.ready, |m| m.set(&made_valid, 0));

    let dropped = decide & completes & (!place.valid | full);
    let drained = Drained {
        valid: decide & held.marker,
        qp: held.qpn.trunc(cfg.qp_bits()),
        receive: held.opcode.msb(),
    };
    CqWriter { write: write_entry(m, cfg, entry), written, dropped, drained }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drain, run, Random, Sink, Source};
    use ferrowire_rtl::{build, Sim};
    use ferrowire_spec::queue::Cqe;
    use rand::Rng;
    use std::collections::HashMap;

    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
        sources: [Source; 2],
        sinks: [Sink; 1],
    }

    fn bench(beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let shape = TableWrite { enable: bits(1), index: bits(cfg.cq_bits()), entry: CqEntry::of() };
        let netlist = build("top", |m| {
            let completion = m.stream_in("completion", &Completion::of(&cfg));
            let doorbell = m.stream_in("doorbell", &CqDoorbell::of(&cfg));
            let out = cq(m, &cfg, completion, m.input_of("create", &shape), doorbell);
            m.stream_out("write", out.write);
            m.output("written", &out.written);
            m.output("dropped", &out.dropped);
            // A cycle late: it may follow from inputs of the same cycle.
            m.output("drained", &m.delay("drained", &out.drained));
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        let sources = [
            Source::new("completion", &Completion::of(&cfg)),
            Source::new("doorbell", &CqDoorbell::of(&cfg)),
        ];
        let sinks = [Sink::new("write", &DmaWrite::of(&cfg))];
        Bench { cfg, sim, sources, sinks }
    }

    impl Bench {
        fn create(&mut self, cq: u64, base: u64, log2: u64) {
            for (port, value) in
                [("index", cq), ("entry_valid", 1), ("entry_base", base), ("entry_log2", log2)]
            {
                self.sim.set(&format!("create_{port}"), value);
            }
            self.sim.set("create_enable", 1);
            self.sim.tick();
            self.sim.set("create_enable", 0);
        }

        fn complete(&mut self, cq: u64, wqe_index: u64) {
            let fields =
                [("cq", cq), ("wqe_index", wqe_index), ("qpn", 5), ("opcode", 0x80), ("byte_len", 99)];
            self.sources[0].push_values(&fields.map(|(name, value)| (name, u128::from(value))));
        }

        /// Replays the writes into memory, and gives the entries' addresses in the order of their last beats.
        fn memory(&self) -> (HashMap<u64, u8>, Vec<u64>) {
            let (mut memory, mut order, mut at) = (HashMap::new(), Vec::new(), None);
            let lanes = u64::from(self.cfg.beat_bytes);
            for item in &self.sinks[0].items {
                let address = item["address"].to_u64();
                assert_eq!(item["length"].to_u64(), 32);
                let beat = at.unwrap_or(address & !(lanes - 1));
                for (i, byte) in item["data"].to_bytes().iter().enumerate() {
                    if item["strobe"].bit(i as u32) {
                        memory.insert(beat + i as u64, *byte);
                    }
                }
                at = Some(beat + lanes);
                if !item["last"].is_zero() {
                    order.push(address);
                    at = None;
                }
            }
            (memory, order)
        }
    }

    fn entry(memory: &HashMap<u64, u8>, address: u64) -> Cqe {
        let bytes: Vec<u8> = (0..32).map(|i| memory[&(address + i)]).collect();
        Cqe::parse(&bytes).unwrap()
    }

    #[test]
    fn a_mark_is_told_when_all_before_it_is_written_and_writes_nothing() {
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            bench.create(0, 0x1000, 4);
            let mut random = Random::new(12);
            bench.sinks[0].stall = Some(0.8);
            let (mut sent, mut told) = (0, 0);
            for round in 0..5 {
                for i in 0..round {
                    bench.complete(0, i);
                }
                sent += round as usize;
                bench.sources[0].push_values(&[("cq", 3), ("qpn", 7), ("marker", 1)]);
                for _ in 0..400 {
                    if bench.sim.get("drained_valid") == 1 {
                        told += 1;
                        assert_eq!(bench.sim.get("drained_qp"), 7);
                        let lasts = bench.sinks[0].values("last").iter().filter(|last| **last == 1).count();
                        assert_eq!(lasts, sent, "are written");
                    }
                    let Bench { sim, sources, sinks, .. } = &mut bench;
                    crate::testing::step(sim, sources, sinks, &mut random, 0.0);
                }
                assert_eq!(told, round + 1);
            }
            assert_eq!(bench.sinks[0].values("last").iter().filter(|last| **last == 1).count(), sent);
            assert_eq!(bench.sim.get("dropped"), 0);
        }
    }

    #[test]
    fn entries_follow_each_other_and_the_phase_turns_with_each_pass() {
        for beat_bytes in [8, 16, 32, 64] {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(3);
            bench.create(3, 0x1_0000, 2);
            bench.create(5, 0x8_0000_3000, 4);
            let mut sent: HashMap<u64, Vec<u64>> = HashMap::new();
            let mut expected = Vec::new();
            for i in 0..200u64 {
                let cq = [3, 5][random.rng.random_range(0..2usize)];
                bench.complete(cq, i);
                let list = sent.entry(cq).or_default();
                list.push(i);
                let (base, log2) = if cq == 3 { (0x1_0000, 2) } else { (0x8_0000_3000, 4) };
                expected.push(base + 32 * ((list.len() as u64 - 1) % (1 << log2)));
                // The host has taken all: never full.
                run(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.3, 1000, |s| {
                    s[0].frames_seen() as u64 == i + 1
                });
                let (memory, order) = bench.memory();
                let cqe = entry(&memory, *order.last().unwrap());
                assert_eq!(u64::from(cqe.wqe_index), i, "seed {}", random.seed);
                assert_eq!((cqe.qpn, cqe.opcode, cqe.byte_len, cqe.receive), (5, 0x80, 99, true));
                assert_eq!(cqe.phase, (sent[&cq].len() - 1) >> log2 & 1 == 0, "seed {}", random.seed);
                let consumer = sent[&cq].len() as u128;
                bench.sources[1].push_values(&[("cq", u128::from(cq)), ("consumer", consumer)]);
                drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.3, 1000, 2);
            }
            assert_eq!(bench.memory().1, expected);
        }
    }

    #[test]
    fn a_full_or_absent_queue_drops_and_overwrites_nothing() {
        for beat_bytes in [8, 64] {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(4);
            bench.create(3, 0x1_0000, 2);
            for i in 0..6 {
                bench.complete(3, i);
            }
            bench.complete(4, 7);
            let mut dropped = 0;
            for _ in 0..200 {
                crate::testing::step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0);
                dropped += bench.sim.get("dropped");
            }
            assert_eq!((bench.sinks[0].frames_seen(), dropped), (4, 3));
            bench.sources[1].push_values(&[("cq", 3), ("consumer", 1)]);
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 2);
            bench.complete(3, 8);
            bench.complete(3, 9);
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 100, 20);
            let (memory, order) = bench.memory();
            assert_eq!(order[4..], [0x1_0000]);
            let cqe = entry(&memory, 0x1_0000);
            assert_eq!((cqe.wqe_index, cqe.phase), (8, false));
        }
    }

    #[test]
    fn an_entry_takes_at_most_four_cycles() {
        for (beat_bytes, cycles) in [(8, 4), (16, 2), (32, 2), (64, 2)] {
            let mut bench = bench(beat_bytes);
            let mut random = Random::new(5);
            bench.create(1, 0x1000, 8);
            for i in 0..64 {
                bench.complete(1, i);
            }
            drain(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut random, 0.0, 1000, 20);
            assert_eq!(bench.sinks[0].frames_seen(), 64);
            let taken = &bench.sources[0].cycles;
            assert_eq!(taken[63] - taken[31], 32 * cycles);
            assert_eq!(bench.sinks[0].cycles[0] - taken[0], 2);
        }
    }
}
