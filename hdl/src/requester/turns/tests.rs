// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of either kind, in random order, under random stalls.

use super::*;
use crate::config::RnicConfig;
use crate::testing::{drain, item, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;

const TURN: usize = 0;
const READ: usize = 1;
const INLINE: usize = 2;
const VERDICT: usize = 3;

fn rig(cfg: &RnicConfig) -> (Sim, [Source; 4], [Sink; 1]) {
    let netlist = build("bench", |m| {
        let sources = Sources {
            read: m.stream_in("read", &Payload::of(cfg)),
            inline: m.stream_in("inline", &Inline::of(cfg)),
            verdicts: m.stream_in("verdict", &bits(1)),
        };
        m.stream_out("out", take_turns(m, m.stream_in("turn", &Turn::of()), sources));
    });
    let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
    sim.reset();
    let sources = [
        Source::new("turn", &Turn::of()),
        Source::new("read", &Payload::of(cfg)),
        Source::new("inline", &Inline::of(cfg)),
        Source::new("verdict", &bits(1)),
    ];
    (sim, sources, [Sink::new("out", &Payload::of(cfg))])
}

#[test]
fn payload_comes_in_the_order_of_the_packets_and_what_is_not_sent_is_passed_over() {
    for (seed, beat_bytes) in [(1, 8), (2, 64)] {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let (mut sim, mut sources, mut sinks) = rig(&cfg);
        let mut random = Random::new(seed);
        let mut expected = Vec::new();
        for round in 0..12 {
            for _ in 0..50 {
                let inline = random.chance(0.5);
                let skip = inline && random.chance(0.3);
                let poisoned = !skip && random.chance(0.2);
                sources[TURN].push_values(&[("inline", inline.into()), ("skip", skip.into())]);
                if inline && !skip {
                    sources[VERDICT].push_values(&[("", poisoned.into())]);
                }
                let count = random.rng.random_range(1..6);
                for beat in 0..count {
                    let last = beat + 1 == count;
                    let data = random.bits(8 * beat_bytes);
                    let flags = [("last", last.into()), ("poisoned", (last && poisoned).into())];
                    let mut out = item(&Payload::of(&cfg), &flags);
                    out.insert("data".into(), data.clone());
                    if inline {
                        // It is one piece.
                        *out.get_mut("ends_piece").unwrap() = Bits::new(1, last.into());
                        let mut beat = item(&Inline::of(&cfg), &[("last", last.into())]);
                        beat.insert("data".into(), data);
                        sources[INLINE].push(beat);
                    } else {
                        sources[READ].push(out.clone());
                    }
                    if !skip {
                        expected.push(out);
                    }
                }
            }
            // One of them may be late.
            let late = random.rng.random_range(0..4);
            sources[late].stall = Some(0.95);
            drain(&mut sim, &mut sources, &mut sinks, &mut random, [0.0, 0.4][round % 2], 20_000, 30);
            sources[late].stall = None;
        }
        assert!(sinks[0].items == expected, "seed {seed}: {beat_bytes} bytes a beat");
    }
}
