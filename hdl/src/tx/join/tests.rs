// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of random pieces against their bytes one behind the other.

use super::*;
use crate::testing::{drain, item, step, Random, Sink, Source};
use ferrowire_rtl::{build, Sim};
use rand::Rng;

const RUN: usize = 0;
const BEAT: usize = 1;

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 2],
    sinks: [Sink; 1],
    random: Random,
    /// Bytes of each beat that must come, and whether it is the last.
    expected: Vec<(Vec<u8>, bool)>,
    beats_in: u64,
}

impl Bench {
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let runs = m.stream_in("run", &Run::of(&cfg));
            let beats = m.stream_in("beat", &Payload::of(&cfg));
            m.discard(&beats.poisoned);
            m.stream_out("out", join(m, &cfg, runs, beats));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let sources = [Source::new("run", &Run::of(&cfg)), Source::new("beat", &Payload::of(&cfg))];
        let sinks = [Sink::new("out", &Joined::of(&cfg))];
        Bench { cfg, sim, sources, sinks, random: Random::new(seed), expected: Vec::new(), beats_in: 0 }
    }

    /// A packet of pieces of so many bytes, in these lanes; none is one of length 0.
    fn push(&mut self, to: usize, pieces: &[(usize, usize)]) {
        let b = self.cfg.beat_bytes as usize;
        let mut all = vec![0; to];
        for (i, (from, bytes)) in pieces.iter().enumerate() {
            let run = self.random.bytes(*bytes);
            let beats = (from + bytes).div_ceil(b);
            // Noise round it.
            let mut lying = self.random.bytes(beats * b);
            lying[*from..from + bytes].copy_from_slice(&run);
            let is_last = i + 1 == pieces.len();
            for (j, beat) in lying.chunks(b).enumerate() {
                let ends = j + 1 == beats;
                // Where it is not looked at there is noise, too.
                let noise = |random: &mut Random| random.rng.random_range(0..b as u128);
                let from = if i == 0 { noise(&mut self.random) } else { *from as u128 };
                let end = (pieces[i].0 + bytes - 1) % b;
                let end = if ends && !is_last { end as u128 } else { noise(&mut self.random) };
                let fields = [
                    ("ends_piece", ends.into()),
                    ("from", from),
                    ("end", end),
                    ("last", (ends && is_last).into()),
                ];
                let mut given = item(&Payload::of(&self.cfg), &fields);
                given.insert("data".into(), Bits::from_bytes(8 * b as u32, beat));
                self.sources[BEAT].push(given);
                self.beats_in += 1;
            }
            all.extend(run);
        }
        let length = all.len() - to;
        let from = pieces.first().map_or(0, |piece| piece.0);
        let fields = [("from_lane", from as u128), ("to_lane", to as u128), ("length", length as u128)];
        self.sources[RUN].push_values(&fields);
        if length > 0 {
            let count = all.len().div_ceil(b);
            all.resize(count * b, 0);
            let beats = all.chunks(b).enumerate().map(|(i, beat)| (beat.to_vec(), i + 1 == count));
            self.expected.extend(beats);
        }
    }

    fn run(&mut self, stall: f64) {
        let cycles = 1000 + 20 * (self.beats_in + self.expected.len() as u64);
        drain(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall, cycles, 30);
        let (b, seed) = (self.cfg.beat_bytes, self.random.seed);
        let found = self.sinks[0].items.iter().map(|beat| (beat["data"].to_bytes(), beat["last"].bit(0)));
        for (i, (found, expected)) in found.zip(&self.expected).enumerate() {
            assert_eq!(&found, expected, "seed {seed}: beat {i}, {b} bytes a beat");
        }
        assert_eq!(self.sinks[0].items.len(), self.expected.len(), "seed {seed}: {b} bytes a beat");
    }

    /// Cycles from the first to the last beat out.
    fn span(&self) -> u64 {
        let cycles = &self.sinks[0].cycles;
        cycles[cycles.len() - 1] - cycles[0] + 1
    }
}

#[test]
fn every_pair_of_lanes_and_every_short_length_moves_the_right_bytes() {
    let mut bench = Bench::new(1, 8);
    for from in 0..8 {
        for to in 0..8 {
            bench.push(to, &[]);
            for length in 1..=26 {
                bench.push(to, &[(from, length)]);
            }
        }
    }
    bench.run(0.0);
}

#[test]
fn every_pair_of_short_pieces_becomes_one_run() {
    let mut bench = Bench::new(2, 8);
    for from in 0..8 {
        for bytes in [1, 2, 7, 8, 9, 15, 16, 17] {
            for behind in 0..8 {
                for more in [1, 3, 8, 10, 16, 21] {
                    bench.push((from * 5 + bytes + more) % 8, &[(from, bytes), (behind, more)]);
                }
            }
        }
    }
    bench.run(0.0);
}

#[test]
fn random_pieces_survive_random_stalls_at_every_beat_size() {
    for (seed, beat_bytes) in [(3, 8), (4, 16), (5, 32), (6, 64)] {
        for stall in [0.0, 0.2, 0.6] {
            let mut bench = Bench::new(seed, beat_bytes);
            // Runs may be late, or the beats.
            let late = bench.random.rng.random_range(0..3);
            if late < 2 {
                bench.sources[late].stall = Some(0.9);
            }
            for _ in 0..200 {
                let (rng, b) = (&mut bench.random.rng, beat_bytes as usize);
                let pieces = rng.random_range(1..=32);
                let most = [3, 2 * b, 4096 / pieces][rng.random_range(0..3)];
                let pieces: Vec<(usize, usize)> = (0..pieces)
                    .map(|_| (rng.random_range(0..b), rng.random_range(1..=most.max(1))))
                    .collect();
                let to = rng.random_range(0..b);
                bench.push(to, &pieces);
            }
            bench.run(stall);
        }
    }
}

#[test]
fn the_longest_run_from_the_last_lane_is_complete() {
    for beat_bytes in [8, 16, 32, 64] {
        let mut bench = Bench::new(beat_bytes.into(), beat_bytes);
        let top = beat_bytes as usize - 1;
        for (from, to) in [(top, 0), (0, top), (top, top), (0, 0)] {
            bench.push(to, &[(from, 4096)]);
            bench.push(to, &[(from, 2048 - from), (0, 2048 + from)]);
        }
        bench.run(0.0);
    }
}

#[test]
fn runs_of_one_kind_leave_without_a_bubble() {
    for (from, to, length) in
        [(0, 54, 1024), (60, 54, 1024), (63, 0, 64), (20, 6, 64), (54, 54, 10), (10, 0, 20)]
    {
        let mut bench = Bench::new(7, 64);
        for _ in 0..20 {
            bench.push(to, &[(from, length)]);
        }
        bench.run(0.0);
        // The first beat of the first packet may be held, and each beat takes a cycle on either side.
        let beats = (from + length).div_ceil(64).max((to + length).div_ceil(64)) as u64;
        let hidden = u64::from(to < from);
        assert!(bench.span() >= 20 * beats - hidden && bench.span() <= 20 * beats, "{from} {to} {length}");
    }
}

/// A beat a cycle is taken, however little of it is the packet's.
#[test]
fn pieces_of_some_bytes_are_joined_at_one_a_cycle() {
    let mut bench = Bench::new(8, 64);
    let pieces: Vec<(usize, usize)> = (0..16).map(|i| (60 - 4 * i, 4)).collect();
    for _ in 0..20 {
        bench.push(0, &pieces);
    }
    bench.run(0.0);
    let cycles = &bench.sources[BEAT].cycles;
    let count = cycles.len() as u64;
    assert!(cycles[cycles.len() - 1] - cycles[0] <= count, "{count} beats");
}

/// The first beat of a packet turns as its plan says, whichever of the two comes first, and behind whatever packet.
#[test]
fn a_plan_comes_any_number_of_cycles_before_or_after_its_beat() {
    for (late, cycles) in [RUN, BEAT].into_iter().flat_map(|late| (0..7).map(move |cycles| (late, cycles))) {
        for beat_bytes in [8, 64] {
            let mut bench = Bench::new(8, beat_bytes);
            let top = beat_bytes as usize - 1;
            for (to, from, bytes) in [(0, 0, 3), (top, 2, 1), (1, top, 4), (5, 5, 3), (top, 0, 9), (2, 6, 2)]
            {
                bench.sources[late].stall = Some(1.0);
                bench.push(to, &[(from, bytes)]);
                bench.push(from, &[(to, 1), (from, bytes)]);
                for _ in 0..cycles {
                    step(&mut bench.sim, &mut bench.sources, &mut bench.sinks, &mut bench.random, 0.0);
                }
                bench.sources[late].stall = None;
            }
            bench.run(0.0);
        }
    }
}
