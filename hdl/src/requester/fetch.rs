// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs as they come from host memory: each with its QP and its index.
//!
//! A FIFO with a place for every unit that the scheduler may ask for, so that read data is never held up; behind it,
//! beats narrower than a piece are put together. Pieces are whole units, or fewer bytes where who takes them wants no more at once. One every
//! `grain / beat_bytes` cycles; those of a WQE come one behind the other. A failed read marks each of its pieces. The start of a QP passes in its place among the grants, and takes no
//! data.

use crate::config::RnicConfig;
use crate::requester::push::{Freed, SlotWrite};
use crate::requester::schedule::{wqe_places, Grant, Tag, AGAIN_PLACES, MAX_STRIDE};
use crate::stream::{deep_fifo, fifo};
use crate::types::DmaReadData;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream, Style};
use ferrowire_spec::queue::send_wqe::SGES_PER_UNIT;

/// Bytes of a WQE's unit.
pub const UNIT: u32 = 64;

/// Bytes of a piece: WQEs are given out by units, or where beats are narrow by SGEs, so that there are no ways of 512 bits.
pub fn grain(cfg: &RnicConfig) -> u32 {
    if cfg.unhurried() {
        UNIT / SGES_PER_UNIT as u32
    } else {
        UNIT
    }
}

/// A piece of a WQE as it lay in the queue.
#[derive(Clone, Bundle)]
pub struct Fetched {
    /// Whose.
    pub qp: Sig,
    /// Its index, free-running.
    pub index: Sig,
    /// The bytes.
    pub piece: Sig,
    /// Which of the WQE's pieces: its first is 0.
    pub part: Sig,
    /// It is the WQE's last.
    pub ends: Sig,
    /// The read failed.
    pub error: Sig,
    /// Not a WQE: the QP starts, and everything of its former life has come by. It waits for nobody's data: those that come
    /// while it is on offer are seen in `piece` and `error`, which mean nothing.
    pub start: Sig,
    /// As in its grant.
    pub tag: Tag,
    /// It is the last WQE of its grant.
    pub last: Sig,
}

impl Fetched {
    /// The shape, in pieces of `grain` bytes.
    pub fn of(cfg: &RnicConfig, grain: u32) -> Self {
        Fetched {
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            piece: bits(8 * grain),
            part: bits(part_bits(grain)),
            ends: bits(1),
            error: bits(1),
            start: bits(1),
            tag: Tag::of(),
            last: bits(1),
        }
    }
}

/// Bits of a piece's number in its WQE.
fn part_bits(grain: u32) -> u32 {
    MAX_STRIDE + (UNIT / grain).trailing_zeros()
}

/// What reads of WQEs bring, in two ways, by which each of them is for: first those that are due, then those that are wanted once more.
#[module]
pub fn sort_data(m: &Scope, kinds: Stream<Sig>, data: Stream<DmaReadData>) -> [Stream<DmaReadData>; 2] {
    let ways = [("due", !*kinds), ("again", *kinds)];
    let ways =
        ways.map(|(name, goes)| Stream::new(m, name, data.valid & kinds.valid & goes, data.payload.clone()));
    data.accept(kinds.valid & m.mux(*kinds, &ways[1].ready, &ways[0].ready));
    kinds.accept(data.fire() & data.last);
    ways
}

/// Pairs grants of WQEs that are wanted once more with what their reads bring, unit by unit.
#[module]
pub fn fetch_again(
    m: &Scope,
    cfg: &RnicConfig,
    grants: Stream<Grant>,
    data: Stream<DmaReadData>,
) -> Stream<Fetched> {
    m.discard(&data.payload);
    let data = match UNIT / cfg.beat_bytes {
        1 => fifo(&m.label("wqe"), AGAIN_PLACES, data),
        beats => deep_fifo(&m.label("wqe"), AGAIN_PLACES * beats, data),
    };
    pair(m, cfg, UNIT, grants, data, vec![]).0
}

/// Pairs grants with what their reads bring, in pieces of `grain` bytes: a beat or more. `pushed`: words of WQEs that are not read, where there are such; the second
/// result tells which of their slots is free again.
#[module]
pub fn fetch(
    m: &Scope,
    cfg: &RnicConfig,
    #[param] grain: u32,
    grants: Stream<Grant>,
    data: Stream<DmaReadData>,
    pushed: Vec<SlotWrite>,
) -> (Stream<Fetched>, Freed) {
    m.discard(&data.payload);
    let data = deep_fifo(&m.label("wqe"), wqe_places(cfg) * (UNIT / cfg.beat_bytes), data);
    pair(m, cfg, grain, grants, data, pushed)
}

/// The same, with the data at hand.
fn pair(
    m: &Scope,
    cfg: &RnicConfig,
    grain: u32,
    grants: Stream<Grant>,
    data: Stream<DmaReadData>,
    pushed: Vec<SlotWrite>,
) -> (Stream<Fetched>, Freed) {
    let beats = grain / cfg.beat_bytes;
    let (piece, error, whole) = match beats {
        1 => (data.data, data.error, lit(1, 1)),
        _ => {
            let beat_bits = clog2(u64::from(beats));
            let beat = m.reg("beat", beat_bits).reset(0);
            let rest = 8 * (grain - cfg.beat_bytes);
            let held = m.reg("held", rest).no_reset();
            let failed = m.reg("failed", 1).reset(0);
            let whole = beat.eq(beats - 1);
            m.when(data.fire(), |m| {
                m.set(&beat, beat + 1);
                m.set(&held, cat(&[held, data.data]).slice(8 * cfg.beat_bytes, rest));
                m.set(&failed, (failed | data.error) & !whole);
            });
            (cat(&[held, data.data]), data.error | failed, whole)
        }
    };
    let done = m.reg("done", 7).reset(0);
    let part_bits = part_bits(grain);
    let part = m.reg("part", part_bits).reset(0);
    // The last part of a WQE is the first whose bits, as many as its parts have, are ones.
    let of_unit = (UNIT / grain).trailing_zeros();
    let all_ones = |bits: u32| if bits == 0 { lit(1, 1) } else { part.trunc(bits).all() };
    let last_parts: Vec<Sig> = (0..=MAX_STRIDE).map(|stride| all_ones(of_unit + stride)).collect();
    let ends = m.select(grants.stride, &last_parts) | grants.start;
    let index = grants.index + done.zext(16);
    let start = grants.start;
    // Those that were pushed lie here by pieces, and need no data.
    let (in_slot, piece) = match &pushed[..] {
        [write] => {
            let lanes = grain / 8;
            let pieces = UNIT / grain;
            let (lane_bits, piece_bits) = (lanes.trailing_zeros(), pieces.trailing_zeros());
            let row = |slot: Sig, place: Sig, from: u32| match piece_bits {
                0 => slot,
                n => cat(&[place.slice(from, n), slot]),
            };
            let shape = bits(8 * grain);
            let store = m.mem("slots", cfg.push_slots * pieces, &shape).style(Style::Distributed).build();
            let at = row(write.slot, write.word, lane_bits);
            let lane = lit(lanes, 1).shl_by(write.word.trunc(lane_bits));
            store.write_lanes(write.valid, at, &write.data.repeat(lanes), lane, 64);
            let of_slot = store.read_now(row(grants.slot, part, 0));
            (grants.pushed, m.mux(grants.pushed, &of_slot, &piece))
        }
        _ => {
            m.discard(&grants.pushed);
            m.discard(&grants.slot);
            (lit(1, 0), piece)
        }
    };
    let error = error & !in_slot;
    let valid = grants.valid & (start | in_slot | (data.valid & whole));
    let last_one = (done + 1).eq(grants.count);
    let last = start | (ends & last_one);
    let (tag, last_one) = (grants.tag.clone(), cfg.only(cfg.selective, last_one));
    let item = Fetched { qp: grants.qp, index, piece, part, ends, error, start, tag, last: last_one };
    let out = Stream::new(m, "out", valid, item);
    data.accept(grants.valid & !start & !in_slot & (out.ready | !whole));
    grants.accept(out.fire() & last);
    m.when(out.fire() & !start, |m| m.set(&part, m.mux(ends, &lit(part_bits, 0), &(part + 1))));
    m.when(out.fire() & ends, |m| m.set(&done, m.mux(last, &lit(7, 0), &(done + 1))));
    let freed = Freed { valid: out.fire() & last & in_slot, slot: grants.slot };
    (out, freed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{item, run, step, Random, Sink, Source};
    use ferrowire_rtl::{build, Bits, Sim};
    use rand::Rng;

    fn rig(cfg: &RnicConfig, grain: u32) -> (Sim, [Source; 2], [Sink; 1]) {
        let netlist = build("bench", |m| {
            let grants = m.stream_in("grants", &Grant::of(cfg));
            let out = fetch(m, cfg, grain, grants, m.stream_in("data", &DmaReadData::of(cfg)), vec![]).0;
            let known = |fetched: &Fetched| Fetched {
                piece: fetched.start.then(lit(8 * grain, 0), fetched.piece),
                error: fetched.error & !fetched.start,
                ..fetched.clone()
            };
            m.stream_out("out", out.map(known));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = [Source::new("grants", &Grant::of(cfg)), Source::new("data", &DmaReadData::of(cfg))];
        (sim, sources, [Sink::new("out", &Fetched::of(cfg, grain))])
    }

    #[test]
    fn every_piece_comes_whole_with_its_queue_pair_index_and_place_and_failed_reads_are_marked() {
        for (seed, beat_bytes, grain) in
            [(1, 8, 64), (2, 16, 64), (3, 32, 64), (4, 64, 64), (5, 8, 16), (6, 16, 16)]
        {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
            let mut random = Random::new(seed);
            for stall in [0.0, 0.3, 0.7] {
                let (mut sim, mut sources, mut sinks) = rig(&cfg, grain);
                let mut expected = Vec::new();
                for _ in 0..60 {
                    let qp: u128 = random.rng.random_range(0..16);
                    if random.chance(0.2) {
                        sources[0].push_values(&[("qp", qp), ("start", 1)]);
                        expected.push((qp as u64, None));
                        continue;
                    }
                    let stride = random.rng.random_range(0..=MAX_STRIDE);
                    let wqes = random.rng.random_range(1..=(cfg.fetch_batch as usize >> stride).max(1));
                    let count = wqes << stride;
                    let index: u16 = random.rng.random();
                    let error = random.chance(0.2);
                    let fields = [("qp", qp), ("index", index.into()), ("count", wqes as u128)];
                    sources[0].push_values(&[&fields[..], &[("stride", stride.into())]].concat());
                    let bytes = random.bytes(64 * count);
                    let beats = bytes.len() / beat_bytes as usize;
                    for (i, beat) in bytes.chunks(beat_bytes as usize).enumerate() {
                        let flags = [("last", u128::from(i + 1 == beats)), ("error", error.into())];
                        let mut data = item(&DmaReadData::of(&cfg), &flags);
                        data.insert("data".into(), Bits::from_bytes(8 * beat_bytes, beat));
                        sources[1].push(data);
                    }
                    let pieces = (UNIT / grain) as usize;
                    for (i, piece) in bytes.chunks(grain as usize).enumerate() {
                        let (index, part) =
                            (index.wrapping_add(((i / pieces) >> stride) as u16), i % (pieces << stride));
                        let fields = [("qp", qp), ("index", index.into()), ("error", error.into())];
                        let place =
                            [("part", part as u128), ("ends", u128::from(part + 1 == pieces << stride))];
                        let mut wqe = item(&Fetched::of(&cfg, grain), &[&fields[..], &place].concat());
                        wqe.insert("piece".into(), Bits::from_bytes(8 * grain, piece));
                        expected.push((qp as u64, Some(wqe)));
                    }
                }
                let n = expected.len();
                run(&mut sim, &mut sources, &mut sinks, &mut random, stall, 50_000, |s| {
                    s[0].items.len() >= n
                });
                for (found, (qp, wqe)) in sinks[0].items.iter().zip(&expected) {
                    assert_eq!(found["qp"].to_u64(), *qp, "seed {seed}: {beat_bytes} bytes a beat");
                    assert_eq!(found["start"].to_u64(), u64::from(wqe.is_none()), "seed {seed}");
                    assert!(wqe.as_ref().is_none_or(|wqe| wqe == found), "seed {seed}");
                }
                assert_eq!(sources[0].left(), 0, "seed {seed}");
            }
        }
    }

    #[test]
    fn wqes_that_were_pushed_come_in_their_turn_between_those_that_are_read() {
        for (seed, beat_bytes, grain) in [(11, 8, 64), (12, 64, 64), (13, 8, 16), (14, 16, 16)] {
            let cfg = RnicConfig { beat_bytes, push_slots: 4, ..RnicConfig::named("generic-8b").unwrap() };
            let netlist = build("bench", |m| {
                let (grants, data) =
                    (m.stream_in("grants", &Grant::of(&cfg)), m.stream_in("data", &DmaReadData::of(&cfg)));
                let write = m.input_of("write", &SlotWrite::of(&cfg));
                let (out, freed) = fetch(m, &cfg, grain, grants, data, vec![write]);
                m.stream_out("out", out);
                m.output("freed", &m.delay("freed", &freed));
            });
            let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
            sim.reset();
            let mut sources =
                [Source::new("grants", &Grant::of(&cfg)), Source::new("data", &DmaReadData::of(&cfg))];
            let mut sinks = [Sink::new("out", &Fetched::of(&cfg, grain))];
            let mut random = Random::new(seed);
            let (mut free, mut expected, mut given) = ((0..4u64).collect::<Vec<_>>(), Vec::new(), 0);
            let pieces = (UNIT / grain) as usize;
            let mut cycle = |sim: &mut Sim, sources: &mut _, random: &mut Random, free: &mut Vec<u64>| {
                step(sim, sources, &mut sinks, random, 0.3);
                if sim.get("freed_valid") == 1 {
                    let slot = sim.get("freed_slot");
                    assert!(!free.contains(&slot), "seed {seed}: slot {slot} was free");
                    free.push(slot);
                }
                sinks[0].items.len()
            };
            for index in 0..200u16 {
                let pushed = random.chance(0.5) && !free.is_empty();
                let error = !pushed && random.chance(0.1);
                let bytes = random.bytes(64);
                let mut slot = 0;
                if pushed {
                    slot = free.swap_remove(random.rng.random_range(0..free.len()));
                    given += 1;
                    for (i, word) in bytes.chunks(8).enumerate() {
                        sim.set("write_valid", 1);
                        sim.set("write_slot", slot);
                        sim.set("write_word", i as u64);
                        sim.set("write_data", u64::from_le_bytes(word.try_into().unwrap()));
                        cycle(&mut sim, &mut sources, &mut random, &mut free);
                    }
                    sim.set("write_valid", 0);
                } else {
                    let beats = 64 / beat_bytes as usize;
                    for (i, beat) in bytes.chunks(beat_bytes as usize).enumerate() {
                        let flags = [("last", u128::from(i + 1 == beats)), ("error", error.into())];
                        let mut data = item(&DmaReadData::of(&cfg), &flags);
                        data.insert("data".into(), Bits::from_bytes(8 * beat_bytes, beat));
                        sources[1].push(data);
                    }
                }
                let fields = [("qp", 3), ("index", index.into()), ("count", 1)];
                let place = [("pushed", pushed.into()), ("slot", slot.into())];
                sources[0].push_values(&[&fields[..], &place].concat());
                for (part, piece) in bytes.chunks(grain as usize).enumerate() {
                    let fields = [("qp", 3), ("index", index.into()), ("error", error.into())];
                    let place = [("part", part as u128), ("ends", u128::from(part + 1 == pieces))];
                    let mut wqe = item(&Fetched::of(&cfg, grain), &[&fields[..], &place].concat());
                    wqe.insert("piece".into(), Bits::from_bytes(8 * grain, piece));
                    expected.push(wqe);
                }
                for _ in 0..random.rng.random_range(0..12) {
                    cycle(&mut sim, &mut sources, &mut random, &mut free);
                }
            }
            for n in 0.. {
                assert!(n < 10_000, "seed {seed}: {beat_bytes} bytes a beat");
                if cycle(&mut sim, &mut sources, &mut random, &mut free) == expected.len() {
                    break;
                }
            }
            cycle(&mut sim, &mut sources, &mut random, &mut free);
            assert_eq!(free.len(), 4, "seed {seed}: all slots come back");
            assert!(given > 50, "seed {seed}: {given}");
            assert!(sinks[0].items == expected, "seed {seed}: {beat_bytes} bytes a beat");
        }
    }

    #[test]
    fn read_data_is_never_held_up_for_as_many_wqes_as_there_are_places() {
        for (beat_bytes, grain) in [(8, 64), (64, 64), (8, 16)] {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
            let (mut sim, mut sources, mut sinks) = rig(&cfg, grain);
            let mut random = Random::new(5);
            sinks[0].stall = Some(1.0);
            let beats = wqe_places(&cfg) * 64 / beat_bytes;
            for i in 0..beats {
                sources[1].push_values(&[("last", u128::from(i % 4 == 3))]);
            }
            let mut n = 0;
            run(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 2000, |_| {
                n += 1;
                n > beats + 5
            });
            let cycles = &sources[1].cycles;
            assert_eq!(cycles.len() as u32, beats, "{beat_bytes} bytes a beat");
            assert_eq!(cycles[cycles.len() - 1] - cycles[0], u64::from(beats - 1));
        }
    }
}
