// SPDX-License-Identifier: MIT OR Apache-2.0
//! Further SGEs of send WQEs whose answers are placed: kept on the card as they are sent, read again where they are not.
//!
//! ```text
//!  kept   ------> slots: tag {qp, index, number}, SGE <---- what was read
//!                    |                                         ^
//!  wanted ---------->+--> its tag? --> recalled                |
//!                    |       | no                              |
//!                    +-------+--> DMA read {64 bytes} ---------+
//! ```
//!
//! WQEs stay in host memory until they complete, so the slots are a cache, direct-mapped, and nobody waits for a place in it. A READ that is
//! sent for the first time writes its SGEs here, whatever the slots held: so what a tag says is what was sent last under it, also
//! when a QP lives again. What is read again is a unit, and all four SGEs of it are kept. An SGE that is here takes 4 cycles, another one the host's latency besides. Where one is kept in the cycle in
//! which a read one comes, that one is not kept, and read once more if it is the one that is wanted.
//!
//! The queue of a QP that goes to RESET may be read until the command is answered, for that is behind everything that was placed.
//! Reset: the slots are cleared, one a cycle.

use crate::config::RnicConfig;
use crate::requester::{KeptSge, Ring, SGE_BITS, UNIT};
use crate::stream::forward;
use crate::types::{DmaReadData, DmaReadRequest, QpBroadcast};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::send_wqe::SGES_PER_UNIT;

/// An SGE that somebody needs.
#[derive(Clone, Bundle)]
pub struct Wanted {
    /// Whose.
    pub qp: Sig,
    /// Index of the WQE, free-running.
    pub index: Sig,
    /// Which of its SGEs: 0 is the first of its continuation units.
    pub number: Sig,
}

impl Wanted {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Wanted { qp: bits(cfg.qp_bits()), index: bits(16), number: bits(4) }
    }
}

/// An SGE.
#[derive(Clone, Bundle)]
pub struct Recalled {
    /// 16 bytes, as they lay in the queue.
    pub sge: Sig,
    /// Host memory could not be read.
    pub error: Sig,
    /// The WQE has no such SGE.
    pub void: Sig,
}

impl Recalled {
    /// The shape.
    pub fn of() -> Self {
        Recalled { sge: bits(SGE_BITS), error: bits(1), void: bits(1) }
    }
}

/// What comes out.
#[derive(Interface)]
pub struct Recall {
    /// What was wanted, in order.
    pub recalled: Stream<Recalled>,
    /// Reads of units.
    pub read: Stream<DmaReadRequest>,
}

#[derive(Clone, Copy, ferrowire_rtl::Fsm)]
enum State {
    Sweep,
    Idle,
    Compare,
    /// It is known whether it is here.
    Tell,
    Again,
    Place,
    Ask,
    Fill,
}

/// SGEs that are kept: sixteen of a WQE, side by side.
fn slots(cfg: &RnicConfig) -> u32 {
    cfg.outstanding.clamp(128, 2048)
}

#[derive(Clone, Bundle)]
struct Slot {
    valid: Sig,
    name: Wanted,
    sge: Sig,
}

/// The SGEs. `kept`: one that is being sent.
#[module]
pub fn recall(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    kept: KeptSge,
    wanted: Stream<Wanted>,
    data: Stream<DmaReadData>,
) -> Recall {
    let slot_bits = clog2(u64::from(slots(cfg)));
    let slot_of = |name: &Wanted| {
        let wqes = slot_bits - name.number.width();
        let fit = |s: Sig| s.zext(s.width().max(wqes)).trunc(wqes);
        cat(&[fit(name.qp) + fit(name.index), name.number])
    };
    let state = m.fsm("state", State::Sweep);
    let sweeping = state.is(State::Sweep);
    let sweep = m.reg("sweep", slot_bits).reset(0);
    m.when(sweeping, |m| {
        m.set(&sweep, sweep + 1);
        m.when(sweep.all(), |m| m.set(&state, State::Idle));
    });

    // Who wants one. A slot is not read in the cycle in which one is written.
    let sought = m.reg_of("sought", &wanted.payload);
    let begins = state.is(State::Idle) & wanted.valid & !kept.valid;
    let again = state.is(State::Again) & !kept.valid;
    wanted.accept(begins);
    m.when(begins, |m| {
        m.set_all(&sought, &wanted.payload);
        m.set(&state, State::Compare);
    });
    m.when(again, |m| m.set(&state, State::Compare));
    let at = m.mux(begins, &wanted.payload, &sought);

    // A unit that comes, SGE by SGE: as its beats come, or where a beat has several, once it is here.
    let filling = state.is(State::Fill);
    let data = if cfg.unhurried() { forward(&m.label("data"), data) } else { data };
    data.accept(lit(1, 1));
    m.discard(&data.last);
    m.assert(!data.valid | filling, "what comes has been asked for");
    let piece = m.reg("piece", SGES_PER_UNIT.trailing_zeros()).reset(0);
    let failed = m.reg("failed", 1).reset(0);
    let last_piece = piece.all();
    let (sge, error, comes) = if 8 * cfg.beat_bytes > SGE_BITS {
        let beats = UNIT / cfg.beat_bytes;
        let unit = m.reg("unit", 8 * UNIT).no_reset();
        let left = m.reg("left", clog2(u64::from(beats)) + 1).reset(beats);
        m.when(data.valid, |m| {
            let above = 8 * cfg.beat_bytes;
            let with = cat(&[unit, data.data]);
            m.set(&unit, with.slice(above, 8 * UNIT));
            m.set(&left, left - 1);
            m.set(&failed, failed | data.error);
        });
        let comes = left.eq(0) & !kept.valid;
        m.when(comes & last_piece, |m| m.set(&left, beats));
        (m.select(piece, &unit.chunks(SGE_BITS)), failed, comes)
    } else {
        let beats = SGE_BITS / 8 / cfg.beat_bytes;
        let (sge, whole) = match beats {
            1 => (data.data, lit(1, 1)),
            _ => {
                let beat = m.reg("beat", clog2(u64::from(beats))).reset(0);
                let rest = SGE_BITS - 8 * cfg.beat_bytes;
                let held = m.reg("held", rest).no_reset();
                let sge = cat(&[held, data.data]);
                m.when(data.valid, |m| {
                    m.set(&beat, beat + 1);
                    m.set(&held, sge.slice(8 * cfg.beat_bytes, rest));
                });
                (sge, beat.all())
            }
        };
        m.when(data.valid, |m| m.set(&failed, failed | data.error));
        (sge, failed | data.error, data.valid & whole)
    };
    m.when(comes, |m| m.set(&piece, piece + 1));
    let filled = comes & last_piece;
    m.when(filled, |m| m.set(&failed, 0));
    let void = m.reg("void", 1).reset(0);
    let unread = m.reg("unread", 1).reset(0);
    m.when(filled, |m| {
        m.set(&unread, error);
        m.set(&state, State::Again);
    });

    // The slots.
    let shape = Slot { valid: bits(1), name: Wanted::of(cfg), sge: bits(SGE_BITS) };
    let store = m.mem("slots", slots(cfg), &shape).style(Style::Block).build();
    let keeping = Wanted { qp: kept.qp, index: kept.index, number: kept.number };
    let unit = sought.number.slice(piece.width(), 2);
    let coming = Wanted { number: cat(&[piece, unit]), ..sought.clone() };
    let name = m.mux(kept.valid, &keeping, &coming);
    // What could not be read is not kept.
    let slot = Slot {
        valid: !sweeping & (kept.valid | !error),
        name: name.clone(),
        sge: m.mux(kept.valid, &kept.sge, &sge),
    };
    let writes = sweeping | kept.valid | comes;
    store.write(writes, m.mux(sweeping, &sweep, &slot_of(&name)), &slot);
    let found = store.read(m, begins | again, slot_of(&at), Collision::Never);
    let is_it =
        |name: &Wanted| name.qp.eq(sought.qp) & name.index.eq(sought.index) & name.number.eq(sought.number);
    let hit = m.delay("hit", &(found.valid & is_it(&found.name)));
    m.when(state.is(State::Compare), |m| m.set(&state, State::Tell));
    let tells = state.is(State::Tell);
    let answer = Recalled { sge: found.sge, error: unread, void };
    let recalled = Stream::new(m, "recalled", tells & (hit | unread | void), answer);
    m.when(recalled.fire(), |m| {
        m.set(&unread, 0);
        m.set(&void, 0);
        m.set(&state, State::Idle);
    });
    m.when(tells & !(hit | unread | void), |m| m.set(&state, State::Place));

    // Where it lies.
    let given = &broadcast.attributes;
    let queues = m.mem("queues", cfg.qps, &Ring::of()).style(Style::Block).build();
    let queue = Ring { base: given.entry.sq_base, log2: given.entry.sq_log2, stride: given.entry.sq_stride };
    queues.write(given.enable, given.index, &queue);
    let queue = queues.read(m, begins, wanted.qp, Collision::New);
    let at_place = state.is(State::Place);
    let way = m.delay("way", &queue.bytes_to(&queue.bounds(), sought.index));
    let address = m.delay("address", &cfg.bus(queue.base + way));
    // Units of the WQE: 1, 2, 4 or 8. The first has no further SGE.
    let place = unit.zext(3) + 1;
    let beyond = place.zext(4).ge(lit(4, 1).shl_by(queue.stride));
    m.when(at_place, |m| {
        m.set(&void, beyond);
        m.set(&state, State::Ask);
        m.when(beyond, |m| m.set(&state, State::Again));
    });
    let at_ask = state.is(State::Ask);
    let address = cfg.bus(address + cat(&[lit(clog2(u64::from(UNIT)), 0), place]).zext(64));
    let request = DmaReadRequest { address, length: lit(13, UNIT) };
    let read = Stream::new(m, "read", at_ask, request);
    m.when(read.fire(), |m| m.set(&state, State::Fill));
    Recall { recalled, read }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{step, Random, Sink, Source};
    use ferrowire_rtl::{build, Bits, Sim};
    use rand::Rng;

    struct Bench {
        cfg: RnicConfig,
        sim: Sim,
        sources: [Source; 2],
        sinks: [Sink; 2],
        random: Random,
        taken: usize,
    }

    fn bench(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let data = DmaReadData::of(&cfg);
        let netlist = build("bench", |m| {
            let broadcast = m.input_of("broadcast", &QpBroadcast::of(&cfg));
            let kept = m.input_of("kept", &KeptSge::of(&cfg));
            let wanted = m.stream_in("wanted", &Wanted::of(&cfg));
            let out = recall(m, &cfg, broadcast, kept, wanted, m.stream_in("data", &data));
            m.stream_out("recalled", out.recalled);
            m.stream_out("read", out.read);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        // Queues of 16 WQEs of four units, a page each.
        for qp in 0..4 {
            sim.set("broadcast_attributes_enable", 1);
            sim.set("broadcast_attributes_index", qp);
            sim.set("broadcast_attributes_entry_sq_base", qp << 12);
            sim.set("broadcast_attributes_entry_sq_log2", 4);
            sim.set("broadcast_attributes_entry_sq_stride", 2);
            sim.tick();
        }
        sim.set("broadcast_attributes_enable", 0);
        let sources = [Source::new("wanted", &Wanted::of(&cfg)), Source::new("data", &data)];
        let sinks = [Sink::new("recalled", &Recalled::of()), Sink::new("read", &DmaReadRequest::of())];
        let mut bench = Bench { cfg, sim, sources, sinks, random: Random::new(seed), taken: 0 };
        (0..600).for_each(|_| bench.step());
        bench
    }

    impl Bench {
        fn step(&mut self) {
            step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, 0.2);
        }

        fn keep(&mut self, qp: u64, index: u64, number: u64, sge: &[u8]) {
            for (field, value) in [("valid", 1), ("qp", qp), ("index", index), ("number", number)] {
                self.sim.set(&format!("kept_{field}"), value);
            }
            self.sim.set_bits("kept_sge", &Bits::from_bytes(SGE_BITS, sge));
            self.step();
            self.sim.set("kept_valid", 0);
        }

        /// What comes where one is wanted: the SGE, whether it is one, and whether it was read. `host` is what memory
        /// holds of its unit.
        fn want(&mut self, qp: u64, index: u64, number: u64, host: Option<&[u8]>) -> (Vec<u8>, [bool; 3]) {
            let wanted = [("qp", qp.into()), ("index", index.into()), ("number", number.into())];
            self.sources[0].push_values(&wanted);
            let reads = self.sinks[1].items.len();
            for _ in 0..400 {
                if self.sinks[0].items.len() > self.taken {
                    break;
                }
                if self.sinks[1].items.len() > reads + self.answered(reads) {
                    let address = self.sinks[1].items[reads]["address"].to_u64();
                    assert_eq!(
                        address,
                        (qp << 12) + 256 * (index % 16) + 64 + number / 4 * 64,
                        "of {index}, {number}"
                    );
                    let junk = [0xa5; 64];
                    let (unit, error) = host.map_or((&junk[..], 1), |unit| (unit, 0));
                    for (i, beat) in unit.chunks(self.cfg.beat_bytes as usize).enumerate() {
                        let last = u128::from((i + 1) * beat.len() == 64);
                        let mut item = crate::testing::item(
                            &DmaReadData::of(&self.cfg),
                            &[("last", last), ("error", error)],
                        );
                        item.insert("data".into(), Bits::from_bytes(8 * self.cfg.beat_bytes, beat));
                        self.sources[1].push(item);
                    }
                    while self.sources[1].left() > 0 {
                        self.step();
                    }
                }
                self.step();
            }
            let found = &self.sinks[0].items[self.taken];
            self.taken += 1;
            let flag = |name: &str| !found[name].is_zero();
            let read = self.sinks[1].items.len() > reads;
            (found["sge"].to_bytes(), [flag("error"), flag("void"), read])
        }

        /// Reads behind `from` whose data have come: one each.
        fn answered(&self, from: usize) -> usize {
            let beats = 64 / self.cfg.beat_bytes as usize;
            (self.sources[1].cycles.len() / beats).saturating_sub(from)
        }
    }

    #[test]
    fn an_sge_is_what_was_kept_last_or_else_what_the_queue_holds() {
        for (seed, beat_bytes) in [(1, 8), (2, 64), (5, 16), (6, 32)] {
            let mut bench = bench(seed, beat_bytes);
            // Host memory holds what was kept, for the WQE lies there until it is done.
            let mut memory = std::collections::HashMap::new();
            let mut reads = 0;
            for _ in 0..400 {
                let rng = &mut bench.random.rng;
                let (qp, index) = (rng.random_range(0..2), rng.random_range(14..18));
                let number: u64 = [0, 1, 6, 11][rng.random_range(0..4)];
                let (sge, empty) = (bench.random.bytes(16), bench.random.bytes(64));
                let unit = memory.entry((qp, index, number / 4)).or_insert(empty);
                let place = number as usize % 4 * 16;
                if bench.random.chance(0.3) {
                    unit[place..place + 16].copy_from_slice(&sge);
                    bench.keep(qp, index, number, &sge);
                    continue;
                }
                let host = unit.clone();
                let (found, [error, void, read]) = bench.want(qp, index, number, Some(&host));
                let what = format!("seed {seed}: {qp} {index} {number}");
                assert_eq!((&found[..], error, void), (&host[place..place + 16], false, false), "{what}");
                reads += usize::from(read);
            }
            assert!(reads > 20 && reads < 180, "seed {seed}: {reads} of some 280 are read");
        }
    }

    #[test]
    fn what_could_not_be_read_is_read_again() {
        for (seed, beat_bytes) in [(3, 8), (4, 64)] {
            let mut bench = bench(seed, beat_bytes);
            let unit = bench.random.bytes(64);
            // The eleventh, behind which its unit has one more.
            let sge = unit[32..48].to_vec();
            for _ in 0..3 {
                assert_eq!(bench.want(1, 7, 10, None).1, [true, false, true], "seed {seed}");
            }
            assert_eq!(bench.want(1, 7, 10, Some(&unit)), (sge.clone(), [false, false, true]), "seed {seed}");
            assert_eq!(
                bench.want(1, 7, 10, Some(&unit)),
                (sge.clone(), [false, false, false]),
                "seed {seed}"
            );
            // A WQE of four units has no fifth.
            assert_eq!(bench.want(1, 7, 12, Some(&unit)).1, [false, true, false], "seed {seed}");
        }
    }
}
