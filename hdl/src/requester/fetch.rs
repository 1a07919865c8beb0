// SPDX-License-Identifier: MIT OR Apache-2.0
//! WQEs as they come from host memory: each with its QP and its index.
//!
//! A FIFO with a place for every unit that the scheduler may ask for, so that read data is never held up; behind it,
//! beats narrower than a unit are put together. One unit every `64 / beat_bytes` cycles; those of a WQE come one behind
//! the other. A failed read marks each of its units. The start of a QP passes in its place among the grants, and takes no
//! data.

use crate::config::RnicConfig;
use crate::requester::schedule::{wqe_places, Grant, MAX_STRIDE};
use crate::stream::deep_fifo;
use crate::types::DmaReadData;
use ferrowire_rtl::{bits, cat, clog2, lit, module, Bundle, Scope, Sig, Stream};

/// A WQE's unit as it lay in the queue.
#[derive(Clone, Bundle)]
pub struct Fetched {
    /// Whose.
    pub qp: Sig,
    /// Its index, free-running.
    pub index: Sig,
    /// 64 bytes.
    pub unit: Sig,
    /// Which of the WQE's units: its first is 0.
    pub part: Sig,
    /// It is the WQE's last.
    pub ends: Sig,
    /// The read failed.
    pub error: Sig,
    /// Not a WQE: the QP starts, and everything of its former life has come by. It waits for nobody's data: those that come
    /// while it is on offer are seen in `unit` and `error`, which mean nothing.
    pub start: Sig,
}

impl Fetched {
    /// The shape.
    pub fn of(cfg: &RnicConfig) -> Self {
        Fetched {
            qp: bits(cfg.qp_bits()),
            index: bits(16),
            unit: bits(512),
            part: bits(MAX_STRIDE),
            ends: bits(1),
            error: bits(1),
            start: bits(1),
        }
    }
}

/// Pairs grants with what their reads bring.
#[module]
pub fn fetch(
    m: &Scope,
    cfg: &RnicConfig,
    grants: Stream<Grant>,
    data: Stream<DmaReadData>,
) -> Stream<Fetched> {
    let beats = 64 / cfg.beat_bytes;
    m.discard(&data.payload);
    let data = deep_fifo(&m.label("wqe"), wqe_places(cfg) * beats, data);
    let (unit, error, whole) = match beats {
        1 => (data.data, data.error, lit(1, 1)),
        _ => {
            let beat_bits = clog2(u64::from(beats));
            let beat = m.reg("beat", beat_bits).reset(0);
            let held = m.reg("held", 512 - 8 * cfg.beat_bytes).no_reset();
            let failed = m.reg("failed", 1).reset(0);
            let whole = beat.eq(beats - 1);
            m.when(data.fire(), |m| {
                m.set(&beat, beat + 1);
                m.set(&held, cat(&[held, data.data]).slice(8 * cfg.beat_bytes, 512 - 8 * cfg.beat_bytes));
                m.set(&failed, (failed | data.error) & !whole);
            });
            (cat(&[held, data.data]), data.error | failed, whole)
        }
    };
    let done = m.reg("done", 7).reset(0);
    let part = m.reg("unit", MAX_STRIDE).reset(0);
    let last_part = lit(MAX_STRIDE + 1, 1).shl_by(grants.stride) - 1;
    let ends = part.eq(last_part.trunc(MAX_STRIDE)) | grants.start;
    let index = grants.index + done.zext(16);
    let start = grants.start;
    let valid = grants.valid & (start | (data.valid & whole));
    let out = Stream::new(m, "out", valid, Fetched { qp: grants.qp, index, unit, part, ends, error, start });
    let last = start | (ends & (done + 1).eq(grants.count));
    data.accept(grants.valid & !start & (out.ready | !whole));
    grants.accept(out.fire() & last);
    m.when(out.fire() & !start, |m| m.set(&part, m.mux(ends, &lit(MAX_STRIDE, 0), &(part + 1))));
    m.when(out.fire() & ends, |m| m.set(&done, m.mux(last, &lit(7, 0), &(done + 1))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{item, run, Random, Sink, Source};
    use ferrowire_rtl::{build, Bits, Sim};
    use rand::Rng;

    fn rig(cfg: &RnicConfig) -> (Sim, [Source; 2], [Sink; 1]) {
        let netlist = build("bench", |m| {
            let grants = m.stream_in("grants", &Grant::of(cfg));
            let out = fetch(m, cfg, grants, m.stream_in("data", &DmaReadData::of(cfg)));
            let known = |fetched: &Fetched| Fetched {
                unit: fetched.start.then(lit(512, 0), fetched.unit),
                error: fetched.error & !fetched.start,
                ..fetched.clone()
            };
            m.stream_out("out", out.map(known));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = [Source::new("grants", &Grant::of(cfg)), Source::new("data", &DmaReadData::of(cfg))];
        (sim, sources, [Sink::new("out", &Fetched::of(cfg))])
    }

    #[test]
    fn every_unit_comes_whole_with_its_queue_pair_index_and_place_and_failed_reads_are_marked() {
        for (seed, beat_bytes) in [(1, 8), (2, 16), (3, 32), (4, 64)] {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
            let mut random = Random::new(seed);
            for stall in [0.0, 0.3, 0.7] {
                let (mut sim, mut sources, mut sinks) = rig(&cfg);
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
                    for (i, unit) in bytes.chunks(64).enumerate() {
                        let (index, part) = (index.wrapping_add((i >> stride) as u16), i % (1 << stride));
                        let fields = [("qp", qp), ("index", index.into()), ("error", error.into())];
                        let place = [("part", part as u128), ("ends", u128::from(part + 1 == 1 << stride))];
                        let mut wqe = item(&Fetched::of(&cfg), &[&fields[..], &place].concat());
                        wqe.insert("unit".into(), Bits::from_bytes(512, unit));
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
    fn read_data_is_never_held_up_for_as_many_wqes_as_there_are_places() {
        for beat_bytes in [8, 64] {
            let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
            let (mut sim, mut sources, mut sinks) = rig(&cfg);
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
