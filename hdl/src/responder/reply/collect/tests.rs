// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data for packets and atomics in any order, some of it bad, some of it to be forgotten.

use super::*;
use crate::testing::{drain, item, Item, Random, Sink, Source};
use ferrowire_rtl::{bits, build, Sim};
use rand::Rng;

#[test]
fn payload_leaves_whole_or_is_forgotten_and_words_find_their_atomics() {
    for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 16)] {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let data = m.stream_in("data", &DmaReadData::of(&cfg));
            let ends = m.stream_in("ends", &End::of(&cfg));
            let out = collect(m, &cfg, data, ends, m.stream_in("passes", &bits(1)));
            m.stream_out("payload", out.payload);
            m.stream_out("verdict", out.verdicts);
            m.stream_out("word", out.words);
            let begun = m.reg("begun", 32).reset(0);
            m.set(&begun, begun + out.begun.zext(32));
            m.output("begun", &begun);
            let taken = m.reg("taken", 32).reset(0);
            m.set(&taken, taken + out.taken.zext(32));
            m.output("taken", &taken);
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let mut random = Random::new(seed);
        let mut sources = [
            Source::new("data", &DmaReadData::of(&cfg)),
            Source::new("ends", &End::of(&cfg)),
            Source::new("passes", &bits(1)),
        ];
        let mut sinks = [
            Sink::new("payload", &Payload::of(&cfg)),
            Sink::new("verdict", &bits(1)),
            Sink::new("word", &Word { value: bits(64), error: bits(1) }),
        ];
        let (mut expected, mut verdicts, mut words): (Vec<Item>, Vec<u64>, Vec<(u64, u64)>) =
            Default::default();
        let (mut packets, mut beats_in) = (0, 0);
        for round in 0..30 {
            // As much as there is room for.
            for _ in 0..20 {
                let atomic = random.chance(0.3);
                let reads = if atomic { 1 } else { random.rng.random_range(1..=2) };
                let bad = random.chance(0.1).then(|| random.rng.random_range(0..reads));
                let (mut beats, word) = (Vec::new(), random.rng.random_range(0..beat_bytes / 8));
                for read in 0..reads {
                    let last = read + 1 == reads;
                    let count = if atomic { 1 } else { random.rng.random_range(1..5) };
                    sources[1].push_values(&[
                        ("atomic", atomic.into()),
                        ("word", word.into()),
                        ("last", last.into()),
                    ]);
                    // A read that failed says so with any of its beats.
                    let bad_beat = random.rng.random_range(0..count);
                    for beat in 0..count {
                        let error = bad == Some(read) && beat == bad_beat;
                        let flags = [("last", (beat + 1 == count).into()), ("error", error.into())];
                        let mut data = item(&DmaReadData::of(&cfg), &flags);
                        let bytes = random.bits(8 * beat_bytes);
                        data.insert("data".into(), bytes.clone());
                        sources[0].push(data);
                        beats.push(bytes);
                    }
                }
                if atomic {
                    let at = 8 * word as usize;
                    let bytes = beats[0].to_bytes()[at..at + 8].try_into().unwrap();
                    words.push((u64::from_le_bytes(bytes), bad.is_some().into()));
                    continue;
                }
                verdicts.push(bad.is_none().into());
                packets += 1;
                beats_in += beats.len() as u64;
                let goes = random.chance(0.8);
                sources[2].push_values(&[("", goes.into())]);
                let all = beats.len();
                for (i, bytes) in beats.into_iter().enumerate().filter(|_| goes) {
                    let last = i + 1 == all;
                    let flags = [
                        ("ends_piece", u128::from(last)),
                        ("last", last.into()),
                        ("poisoned", (last && bad.is_some()).into()),
                    ];
                    let mut beat = item(&Payload::of(&cfg), &flags);
                    beat.insert("data".into(), bytes);
                    expected.push(beat);
                }
            }
            // Data is never held up: `ends` are ahead.
            let stall = [0.0, 0.4, 0.7][round % 3];
            sources[1].stall = Some(0.0);
            let data = std::mem::replace(&mut sources[0], Source::new("data", &DmaReadData::of(&cfg)));
            drain_ends(&mut sim, &mut sources, &mut sinks, &mut random);
            sources[0] = data;
            drain(&mut sim, &mut sources, &mut sinks, &mut random, stall, 5000, 40);
        }
        drain(&mut sim, &mut sources, &mut sinks, &mut random, 0.0, 1, 200);
        let seed = random.seed;
        assert!(sinks[0].items == expected, "seed {seed}: {beat_bytes} bytes a beat");
        assert_eq!(sinks[1].values(""), verdicts, "seed {seed}");
        let got: Vec<(u64, u64)> =
            sinks[2].items.iter().map(|i| (i["value"].to_u64(), i["error"].to_u64())).collect();
        assert_eq!(got, words, "seed {seed}");
        assert_eq!((sim.get("begun"), sim.get("taken")), (packets, beats_in), "seed {seed}");
    }
}

/// Until the block knows what comes.
fn drain_ends(sim: &mut Sim, sources: &mut [Source; 3], sinks: &mut [Sink; 3], random: &mut Random) {
    for _ in 0..3 {
        crate::testing::step(sim, sources, sinks, random, 0.0);
    }
}
