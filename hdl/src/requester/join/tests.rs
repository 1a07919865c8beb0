// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of random pieces against their bytes one behind the other.

use super::*;
use crate::testing::{drain, item, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use rand::Rng;

/// A beat with what its piece's [`Fit`] is worked out from, as `commit` does.
#[derive(Clone, Bundle)]
struct Given {
    beat: Beat,
    from: Sig,
    to: Sig,
    bytes: Sig,
}

impl Given {
    fn of(cfg: &RnicConfig) -> Self {
        let (lane, data, one) = (bits(cfg.lane_bits()), bits(8 * cfg.beat_bytes), bits(1));
        let fit = Fit::of(cfg.lane_bits());
        let beat = Beat { data, ends_piece: one, last: one, poisoned: one, fit };
        Given { beat, from: lane, to: lane, bytes: bits(13) }
    }
}

/// A packet: where each piece lies, and whether it is poisoned.
struct Packet {
    pieces: Vec<(usize, usize)>,
    poisoned: bool,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 1],
    sinks: [Sink; 1],
    random: Random,
    /// Each packet's lane, its bytes, whether it is poisoned.
    expected: Vec<(usize, Vec<u8>, bool)>,
    beats_in: u64,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let given = m.stream_in("given", &Given::of(&cfg));
            m.discard(&given.beat.fit);
            let beats = given.map(|given| Beat {
                fit: Fit::plan(given.from, given.to, given.bytes),
                ..given.beat.clone()
            });
            m.stream_out("out", join(m, &cfg, beats));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let (sources, sinks) =
            ([Source::new("given", &Given::of(&cfg))], [Sink::new("out", &Payload::of(&cfg))]);
        Bench { cfg, sim, sources, sinks, random: Random::new(seed), expected: Vec::new(), beats_in: 0 }
    }

    fn push(&mut self, packet: &Packet) {
        let b = self.cfg.beat_bytes as usize;
        let lane = packet.pieces[0].0;
        let (mut to, mut all) = (lane, Vec::new());
        for (i, (from, bytes)) in packet.pieces.iter().enumerate() {
            let run = self.random.bytes(*bytes);
            let beats = (from + bytes).div_ceil(b);
            // Noise round it.
            let mut lying = self.random.bytes(beats * b);
            lying[*from..from + bytes].copy_from_slice(&run);
            for (j, beat) in lying.chunks(b).enumerate() {
                let ends = j + 1 == beats;
                let last = ends && i + 1 == packet.pieces.len();
                let fields = [
                    ("beat_ends_piece", ends.into()),
                    ("beat_last", last.into()),
                    ("beat_poisoned", (last && packet.poisoned).into()),
                    ("from", *from as u128),
                    ("to", to as u128),
                    ("bytes", *bytes as u128),
                ];
                let mut given = item(&Given::of(&self.cfg), &fields);
                given.insert("beat_data".into(), Bits::from_bytes(8 * b as u32, beat));
                self.sources[0].push(given);
                self.beats_in += 1;
            }
            all.extend(run);
            to = (to + bytes) % b;
        }
        self.expected.push((lane, all, packet.poisoned));
    }

    fn run(&mut self, stall: f64) {
        let cycles = 1000 + 20 * self.beats_in;
        drain(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall, cycles, 30);
        let (b, seed) = (self.cfg.beat_bytes as usize, self.random.seed);
        let mut beats = self.sinks[0].items.iter();
        for (i, (lane, bytes, poisoned)) in self.expected.iter().enumerate() {
            let count = (lane + bytes.len()).div_ceil(b);
            let mut found = Vec::new();
            for j in 0..count {
                let beat = beats.next().expect("a beat");
                let flags = ["last", "poisoned"].map(|flag| !beat[flag].is_zero());
                let last = j + 1 == count;
                assert_eq!(flags, [last, last && *poisoned], "seed {seed}: beat {j} of packet {i}");
                found.extend(beat["data"].to_bytes());
            }
            let found = &found[*lane..lane + bytes.len()];
            assert!(found == &bytes[..], "seed {seed}: packet {i}, {b} bytes a beat");
        }
        assert!(beats.next().is_none(), "seed {seed}: a beat too many");
    }
}

#[test]
fn every_pair_of_short_pieces_becomes_one_run() {
    let mut bench = Bench::new(1, 8);
    for from in 0..8 {
        for bytes in [1, 2, 7, 8, 9, 15, 16, 17] {
            for behind in 0..8 {
                for more in [1, 3, 8, 10, 16, 21] {
                    let pieces = vec![(from, bytes), (behind, more)];
                    bench.push(&Packet { pieces, poisoned: false });
                }
            }
        }
    }
    bench.run(0.0);
}

#[test]
fn random_pieces_survive_random_stalls_at_every_beat_size() {
    for (seed, beat_bytes) in [(2, 8), (3, 16), (4, 32), (5, 64)] {
        for stall in [0.0, 0.2, 0.6] {
            let mut bench = Bench::new(seed, beat_bytes);
            for _ in 0..200 {
                let (rng, b) = (&mut bench.random.rng, beat_bytes as usize);
                let pieces = rng.random_range(1..=32);
                let most = [3, 2 * b, 4096 / pieces][rng.random_range(0..3)];
                let piece = |rng: &mut rand::rngs::SmallRng| {
                    (rng.random_range(0..b), rng.random_range(1..=most.max(1)))
                };
                let pieces = (0..pieces).map(|_| piece(rng)).collect();
                let poisoned = rng.random_range(0..8) == 0;
                bench.push(&Packet { pieces, poisoned });
            }
            bench.run(stall);
        }
    }
}

#[test]
fn one_piece_passes_in_the_cycle_in_which_it_comes_and_so_does_one_over_a_page_end() {
    let mut bench = Bench::new(6, 64);
    bench.sources[0].stall = Some(0.0);
    for from in [0, 1, 33, 63] {
        for bytes in [1, 31, 64, 65, 1000] {
            let first = (64 - from) + 64 * (bytes / 100);
            bench.push(&Packet { pieces: vec![(from, bytes)], poisoned: false });
            bench.push(&Packet { pieces: vec![(from, first), (0, bytes)], poisoned: false });
        }
    }
    bench.run(0.0);
    assert_eq!(bench.sinks[0].cycles, bench.sources[0].cycles);
}

#[test]
fn nothing_that_comes_is_held_up_whatever_spills_over() {
    let mut bench = Bench::new(7, 64);
    bench.sources[0].stall = Some(0.0);
    let four: Vec<(usize, usize)> = (0..16).map(|i| (4 * i, 4)).collect();
    for n in 0..200 {
        // Sixteen pieces of a beat; two beats that become two with the last; one, which leaves at once.
        bench.push(&Packet { pieces: four.clone(), poisoned: false });
        bench.push(&Packet { pieces: vec![(0, 40), (5, 40)], poisoned: n % 3 == 0 });
        for _ in 0..n % 4 {
            bench.push(&Packet { pieces: vec![(n % 64, 64 - n % 64)], poisoned: false });
        }
        bench.push(&Packet { pieces: vec![(60, 68), (58, 6), (0, 60)], poisoned: false });
    }
    bench.run(0.0);
    let cycles = &bench.sources[0].cycles;
    assert_eq!(cycles[cycles.len() - 1] - cycles[0] + 1, bench.beats_in);
}
