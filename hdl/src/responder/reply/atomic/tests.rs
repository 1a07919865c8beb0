// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics that are read far ahead of their turn, against memory that changes only with their writes.

use super::*;
use crate::testing::{step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use rand::Rng;
use std::collections::{HashMap, VecDeque};

const QPS: u64 = 4;

#[test]
fn each_atomic_sees_the_result_of_the_one_before_and_is_answered_again_from_the_ring() {
    let cfg = RnicConfig { qps: QPS as u32, ..RnicConfig::named("generic-8b").unwrap() };
    let netlist = build("bench", |m| {
        let out = atomic(
            m,
            &cfg,
            m.stream_in("operand", &Operands::of()),
            m.stream_in("place", &Place::of()),
            m.stream_in("word", &Word::of()),
            m.stream_in("job", &Job::of(&cfg)),
        );
        m.stream_out("result", out.results);
        m.stream_out("write", out.write);
        m.output("written", &out.written);
    })
    .unwrap_or_else(|e| panic!("{e}"));
    for (stall, ahead, addresses, seed) in
        [(0.0, 31, 3, 1), (0.0, 4, 1, 2), (0.3, 31, 20, 3), (0.6, 20, 2, 4)]
    {
        let mut sim = Sim::new(&netlist);
        sim.reset();
        let mut random = Random::new(seed);
        let mut sources = [
            Source::new("operand", &Operands::of()),
            Source::new("place", &Place::of()),
            Source::new("word", &Word::of()),
            Source::new("job", &Job::of(&cfg)),
        ];
        let mut sinks = [
            Sink::new("result", &Outcome::of()),
            Sink::new("write", &Write { address: bits(64), value: bits(64) }),
        ];
        // What is in memory, and what will be when all that was handed over is done.
        let (mut memory, mut future): (HashMap<u64, u64>, HashMap<u64, u64>) = Default::default();
        let (mut expected, mut writes) = (Vec::new(), Vec::new());
        let mut rings: Vec<VecDeque<(u64, u64)>> = vec![VecDeque::new(); QPS as usize];
        let (mut under_way, mut issued, mut applied) = (0, 0u64, 0);
        let mut kinds = [0; 6];
        let mut psn = 0u64;
        for _ in 0..20_000 {
            // The number of those that are done with, as far as the block tells.
            let written = sim.get("written");
            under_way = under_way.min(issued.wrapping_sub(written) % 64);
            if sources[3].left() < 40 && random.chance(0.4) {
                let qp = random.rng.random_range(0..QPS);
                let kind = random.rng.random_range(0..20);
                let job = |sources: &mut [Source; 4], errand: Errand, psn: u64, granted: bool| {
                    sources[3].push_values(&[
                        ("qp", qp.into()),
                        ("psn", psn.into()),
                        ("errand", errand.code().into()),
                        ("granted", granted.into()),
                    ]);
                };
                let ring = &mut rings[qp as usize];
                match kind {
                    0 | 1 => {
                        let ask = match ring.len() {
                            0 => 1 << 23,
                            n => ring[random.rng.random_range(0..n)].0 + u64::from(random.chance(0.1)),
                        };
                        // The newest of that PSN among the last 16.
                        let found = ring.iter().rev().take(16).find(|r| r.0 == ask).map(|r| r.1);
                        job(&mut sources, Errand::Replay, ask, true);
                        expected.push((found.is_some(), false, found));
                        kinds[usize::from(found.is_some())] += 1;
                    }
                    2 if random.chance(0.1) => {
                        job(&mut sources, Errand::Forget, 0, true);
                        ring.clear();
                        kinds[2] += 1;
                    }
                    _ if under_way < ahead => {
                        let address = random.rng.random_range(0..addresses) * 0x1_0000_0001;
                        let (swap, compares): (u64, bool) = (random.rng.random(), random.rng.random());
                        let now = *future.get(&address).unwrap_or(&0);
                        let compare = if random.chance(0.5) { now } else { random.rng.random() };
                        let error = random.chance(0.05);
                        let granted = random.chance(0.95);
                        let skips = !granted || random.chance(0.05);
                        sources[0].push_values(&[
                            ("swap", swap.into()),
                            ("compare", compare.into()),
                            ("compares", compares.into()),
                        ]);
                        if granted {
                            let read = *memory.get(&address).unwrap_or(&0);
                            let garbage = if error { random.rng.random() } else { read };
                            sources[1]
                                .push_values(&[("address", address.into()), ("written", written.into())]);
                            sources[2].push_values(&[("value", garbage.into()), ("error", error.into())]);
                            issued += 1;
                            under_way += 1;
                        }
                        // Numbers come back now and then, as they do when PSNs wrap.
                        psn = if random.chance(0.05) { psn.saturating_sub(9) } else { psn + 1 };
                        job(&mut sources, if skips { Errand::Skip } else { Errand::Execute }, psn, granted);
                        if skips {
                            kinds[3] += 1;
                        } else if error {
                            expected.push((true, true, None));
                            kinds[4] += 1;
                        } else {
                            // A compare that fails writes nothing.
                            if !compares || now == compare {
                                let result = if compares { swap } else { now.wrapping_add(swap) };
                                future.insert(address, result);
                                writes.push((address << 3, result));
                            }
                            expected.push((true, false, Some(now)));
                            ring.push_back((psn, now));
                            kinds[5] += 1;
                        }
                    }
                    _ => {}
                }
            }
            step(&mut sim, &mut sources, &mut sinks, &mut random, stall);
            for item in &sinks[1].items[applied..] {
                memory.insert(item["address"].to_u64() >> 3, item["value"].to_u64());
            }
            applied = sinks[1].items.len();
        }
        crate::testing::drain(&mut sim, &mut sources, &mut sinks, &mut random, stall, 5000, 200);
        let seed = random.seed;
        let got: Vec<(u64, u64)> =
            sinks[1].items.iter().map(|i| (i["address"].to_u64(), i["value"].to_u64())).collect();
        assert_eq!(got, writes, "seed {seed}");
        assert_eq!(sinks[0].items.len(), expected.len(), "seed {seed}");
        for (i, (item, (found, error, original))) in sinks[0].items.iter().zip(&expected).enumerate() {
            let flags = (!item["found"].is_zero(), !item["error"].is_zero());
            assert_eq!(flags, (*found, *error), "seed {seed}: result {i}");
            if let Some(original) = original {
                assert_eq!(item["original"].to_u64(), *original, "seed {seed}: result {i}");
            }
        }
        assert!(kinds.iter().all(|n| *n > 5), "seed {seed}: {kinds:?}");
    }
}
