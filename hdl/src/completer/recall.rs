// SPDX-License-Identifier: MIT OR Apache-2.0
//! Continuation units of send WQEs whose answers are placed: kept on the card as they are sent, read again where they are not.
//!
//! ```text
//!  kept   ------> slots: tag {qp, index, part}, unit <---- what was read
//!                    |                                        ^
//!  wanted ---------->+--> its tag? --> recalled               |
//!                    |       | no                             |
//!                    +-------+--> DMA read {64 bytes} --------+
//! ```
//!
//! WQEs stay in host memory until they complete, so the slots are a cache, direct-mapped, and nobody waits for a place in it. A READ that is
//! sent for the first time writes its units here, whatever the slots held: so what a tag says is what was sent last under it, also
//! when a QP lives again. A unit that is here takes 4 cycles, another one the host's latency besides. Where one is kept in the cycle in
//! which a read one comes, that one is read once more.
//!
//! The queue of a QP that goes to RESET may be read until the command is answered, for that is behind everything that was placed.
//! Reset: the slots are cleared, one a cycle.

use crate::config::RnicConfig;
use crate::requester::{KeptUnit, Ring};
use crate::stream::forward;
use crate::types::{DmaReadData, DmaReadRequest, QpBroadcast};
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Collision, Interface, Scope, Sig, Stream, Style};

/// A continuation unit that somebody needs.
#[derive(Clone, Bundle)]
pub struct Wanted {
    /// Whose.
    pub qp: Sig,
    /// Index of the WQE, free-running.
    pub index: Sig,
    /// Which of its continuation units.
    pub part: Sig,
}

impl Wanted {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Wanted { qp: bits(cfg.qp_bits()), index: bits(16), part: bits(2) }
    }
}

/// A continuation unit.
#[derive(Clone, Bundle)]
pub struct Recalled {
    /// 64 bytes, as they lay in the queue.
    pub unit: Sig,
    /// Host memory could not be read.
    pub error: Sig,
    /// The WQE has no such unit.
    pub void: Sig,
}

impl Recalled {
    /// The shape.
    pub fn of() -> Self {
        Recalled { unit: bits(512), error: bits(1), void: bits(1) }
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

/// Units that are kept.
fn slots(cfg: &RnicConfig) -> u32 {
    (cfg.outstanding / 4).clamp(32, 512)
}

#[derive(Clone, Bundle)]
struct Slot {
    valid: Sig,
    name: Wanted,
    unit: Sig,
}

/// The units. `kept`: one that is being sent.
#[module]
pub fn recall(
    m: &Scope,
    cfg: &RnicConfig,
    broadcast: QpBroadcast,
    kept: KeptUnit,
    wanted: Stream<Wanted>,
    data: Stream<DmaReadData>,
) -> Recall {
    let slot_bits = clog2(u64::from(slots(cfg)));
    let slot_of = |name: &Wanted| {
        let wqes = slot_bits - 2;
        let fit = |s: Sig| s.zext(s.width().max(wqes)).trunc(wqes);
        cat(&[fit(name.qp) + fit(name.index), name.part])
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

    // A unit that comes, beat by beat.
    let beats = 64 / cfg.beat_bytes;
    let filling = state.is(State::Fill);
    let data = if cfg.unhurried() { forward(&m.label("data"), data) } else { data };
    data.accept(lit(1, 1));
    m.discard(&data.last);
    m.assert(!data.valid | filling, "what comes has been asked for");
    let (unit, error, whole) = match beats {
        1 => (data.data, data.error, lit(1, 1)),
        _ => {
            let beat = m.reg("beat", clog2(u64::from(beats))).reset(0);
            let held = m.reg("held", 512 - 8 * cfg.beat_bytes).no_reset();
            let failed = m.reg("failed", 1).reset(0);
            let whole = beat.all();
            m.when(data.valid, |m| {
                m.set(&beat, beat + 1);
                m.set(&held, cat(&[held, data.data]).slice(8 * cfg.beat_bytes, 512 - 8 * cfg.beat_bytes));
                m.set(&failed, (failed | data.error) & !whole);
            });
            (cat(&[held, data.data]), data.error | failed, whole)
        }
    };
    let filled = data.valid & whole;
    let void = m.reg("void", 1).reset(0);
    let unread = m.reg("unread", 1).reset(0);
    m.when(filled, |m| {
        m.set(&unread, error);
        m.set(&state, State::Again);
    });

    // The slots.
    let shape = Slot { valid: bits(1), name: Wanted::of(cfg), unit: bits(512) };
    let store = m.mem("slots", slots(cfg), &shape).style(Style::Block).build();
    let keeping = Wanted { qp: kept.qp, index: kept.index, part: kept.part };
    let name = m.mux(kept.valid, &keeping, &sought);
    // What could not be read is not kept.
    let slot = Slot {
        valid: !sweeping & (kept.valid | !error),
        name: name.clone(),
        unit: m.mux(kept.valid, &kept.unit, &unit),
    };
    let writes = sweeping | kept.valid | filled;
    store.write(writes, m.mux(sweeping, &sweep, &slot_of(&name)), &slot);
    let found = store.read(m, begins | again, slot_of(&at), Collision::Never);
    let is_it =
        |name: &Wanted| name.qp.eq(sought.qp) & name.index.eq(sought.index) & name.part.eq(sought.part);
    let hit = m.delay("hit", &(found.valid & is_it(&found.name)));
    m.when(state.is(State::Compare), |m| m.set(&state, State::Tell));
    let tells = state.is(State::Tell);
    let answer = Recalled { unit: found.unit, error: unread, void };
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
    let first = queue.piece(m, sought.index, lit(7, 1));
    m.discard(&first.most);
    let address = m.delay("address", &first.address);
    let part = sought.part.zext(3) + 1;
    // Units of the WQE: 1, 2, 4 or 8.
    let beyond = part.zext(4).ge(lit(4, 1).shl_by(queue.stride));
    m.when(at_place, |m| {
        m.set(&void, beyond);
        m.set(&state, State::Ask);
        m.when(beyond, |m| m.set(&state, State::Again));
    });
    let at_ask = state.is(State::Ask);
    let request = DmaReadRequest { address: address + cat(&[lit(6, 0), part]).zext(64), length: lit(13, 64) };
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
            let kept = m.input_of("kept", &KeptUnit::of(&cfg));
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

        fn keep(&mut self, qp: u64, index: u64, part: u64, unit: &[u8]) {
            for (field, value) in [("valid", 1), ("qp", qp), ("index", index), ("part", part)] {
                self.sim.set(&format!("kept_{field}"), value);
            }
            self.sim.set_bits("kept_unit", &Bits::from_bytes(512, unit));
            self.step();
            self.sim.set("kept_valid", 0);
        }

        /// What comes where one is wanted: the unit, whether it is one, and whether it was read. `host` is what memory holds.
        fn want(&mut self, qp: u64, index: u64, part: u64, host: Option<&[u8]>) -> (Vec<u8>, [bool; 3]) {
            let wanted = [("qp", qp.into()), ("index", index.into()), ("part", part.into())];
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
                        (qp << 12) + 256 * (index % 16) + 64 * (part + 1),
                        "of {index}, {part}"
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
            (found["unit"].to_bytes(), [flag("error"), flag("void"), read])
        }

        /// Reads behind `from` whose data have come: one each.
        fn answered(&self, from: usize) -> usize {
            let beats = 64 / self.cfg.beat_bytes as usize;
            (self.sources[1].cycles.len() / beats).saturating_sub(from)
        }
    }

    #[test]
    fn a_unit_is_what_was_kept_last_or_else_what_the_queue_holds() {
        for (seed, beat_bytes) in [(1, 8), (2, 64)] {
            let mut bench = bench(seed, beat_bytes);
            let mut kept = std::collections::HashMap::new();
            let mut reads = 0;
            for _ in 0..400 {
                let rng = &mut bench.random.rng;
                let (qp, index, part) =
                    (rng.random_range(0..2), rng.random_range(14..18), rng.random_range(0..3));
                let unit = bench.random.bytes(64);
                if bench.random.chance(0.5) {
                    bench.keep(qp, index, part, &unit);
                    kept.insert((qp, index, part), unit);
                    continue;
                }
                // Host memory holds what was kept, for the WQE lies there until it is done.
                let host = kept.entry((qp, index, part)).or_insert(unit).clone();
                let (found, [error, void, read]) = bench.want(qp, index, part, Some(&host));
                assert_eq!((found, error, void), (host, false, false), "seed {seed}: {qp} {index} {part}");
                reads += usize::from(read);
            }
            assert!(reads > 20 && reads < 180, "seed {seed}: {reads} of some 200 are read");
        }
    }

    #[test]
    fn what_could_not_be_read_is_read_again() {
        for (seed, beat_bytes) in [(3, 8), (4, 64)] {
            let mut bench = bench(seed, beat_bytes);
            let unit = bench.random.bytes(64);
            for _ in 0..3 {
                assert_eq!(bench.want(1, 7, 2, None).1, [true, false, true], "seed {seed}");
            }
            assert_eq!(bench.want(1, 7, 2, Some(&unit)), (unit.clone(), [false, false, true]), "seed {seed}");
            assert_eq!(bench.want(1, 7, 2, Some(&unit)), (unit, [false, false, false]), "seed {seed}");
            // A WQE of four units has no fifth.
            assert_eq!(bench.want(1, 7, 3, None).1, [false, true, false], "seed {seed}");
        }
    }
}
