// SPDX-License-Identifier: MIT OR Apache-2.0
//! The placer alone: every alignment, page ends, and the pace of frames.

use super::*;
use crate::config::RnicConfig;
use crate::stream::Beat;
use crate::testing::{drain, Random, Sink, Source};
use crate::types::{DmaWrite, TxPacket};
use ferrowire_rtl::{build, Sim};
use rand::Rng;

const PAGE: u64 = 4096;

struct Bench {
    beat_bytes: u32,
    sim: Sim,
    sources: [Source; 2],
    sinks: [Sink; 2],
    random: Random,
    /// Each write: its address and bytes.
    writes: Vec<(u64, Vec<u8>)>,
    /// PSN of each answer, and the writes before it.
    answers: Vec<(u64, usize)>,
    orders: u128,
}

fn bench(beat_bytes: u32, seed: u64) -> Bench {
    let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
    let netlist = build("top", |m| {
        let orders = m.stream_in("order", &Place::of(&cfg));
        let placed = place(m, &cfg, orders, m.stream_in("frame", &Beat::of(beat_bytes)));
        m.stream_out("write", placed.write);
        m.stream_out("answer", placed.answers);
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    Bench {
        beat_bytes,
        sim,
        sources: [Source::new("order", &Place::of(&cfg)), Source::new("frame", &Beat::of(beat_bytes))],
        sinks: [Sink::new("write", &DmaWrite::of(&cfg)), Sink::new("answer", &TxPacket::of(&cfg))],
        random: Random::new(seed),
        writes: Vec::new(),
        answers: Vec::new(),
        orders: 0,
    }
}

impl Bench {
    /// A frame whose payload goes to `address`; to another page where that one ends.
    fn place(&mut self, offset: usize, address: u64, length: usize, tail: usize, answer: bool) {
        let payload = self.random.bytes(length);
        let frame = [self.random.bytes(offset), payload.clone(), self.random.bytes(tail)].concat();
        let second: u64 = (self.random.rng.random::<u64>() >> 12) * PAGE;
        self.order(true, offset, (address, second), length, answer);
        self.sources[1].push_frame(&frame);
        let here = length.min((PAGE - address % PAGE) as usize);
        self.writes.push((address, payload[..here].to_vec()));
        if here < length {
            self.writes.push((second, payload[here..].to_vec()));
        }
        if answer {
            self.answers.push((self.orders as u64 - 1, self.writes.len()));
        }
    }

    /// A frame that is only answered, or forgotten.
    fn forget(&mut self, bytes: usize, answer: bool) {
        let (offset, length) = (self.random.rng.random_range(0..128), self.random.rng.random_range(0..200));
        let address = self.random.rng.random();
        self.order(false, offset, (address, 0), length, answer);
        let frame = self.random.bytes(bytes);
        self.sources[1].push_frame(&frame);
        if answer {
            self.answers.push((self.orders as u64 - 1, self.writes.len()));
        }
    }

    fn order(&mut self, write: bool, offset: usize, to: (u64, u64), length: usize, answer: bool) {
        self.sources[0].push_values(&[
            ("write", write.into()),
            ("offset", offset as u128),
            ("bytes", length as u128),
            ("address", to.0.into()),
            ("second_address", to.1.into()),
            ("answer", answer.into()),
            ("qp", self.orders % 16),
            ("psn", self.orders),
            ("syndrome", 0x1f),
        ]);
        self.orders += 1;
    }

    fn run(&mut self, stall: f64) {
        drain(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall, 400_000, 100);
        let (seed, lanes) = (self.random.seed, u64::from(self.beat_bytes));
        let mut ends = Vec::new();
        let mut items = self.sinks[0].items.iter().zip(&self.sinks[0].cycles);
        for (i, (address, bytes)) in self.writes.iter().enumerate() {
            let beats = (address % lanes + bytes.len() as u64).div_ceil(lanes);
            let mut left = bytes.iter();
            for beat in 0..beats {
                let (item, cycle) = items.next().unwrap_or_else(|| panic!("seed {seed}: no write {i}"));
                assert_eq!(
                    (item["address"].to_u64(), item["length"].to_u64()),
                    (*address, bytes.len() as u64)
                );
                assert_eq!(!item["last"].is_zero(), beat + 1 == beats, "seed {seed}: write {i}, beat {beat}");
                let from = address / lanes * lanes + beat * lanes;
                let data = item["data"].to_bytes();
                for lane in 0..lanes {
                    let inside = (*address..address + bytes.len() as u64).contains(&(from + lane));
                    assert_eq!(
                        item["strobe"].bit(lane as u32),
                        inside,
                        "seed {seed}: write {i}, beat {beat}"
                    );
                    if inside {
                        assert_eq!(data[lane as usize], *left.next().unwrap(), "seed {seed}: write {i}");
                    }
                }
                if beat + 1 == beats {
                    ends.push(*cycle);
                }
            }
        }
        assert!(items.next().is_none(), "seed {seed}: a write too many");
        assert_eq!(self.sinks[1].items.len(), self.answers.len(), "seed {seed}");
        for (i, (psn, before)) in self.answers.iter().enumerate() {
            let item = &self.sinks[1].items[i];
            let from = (item["qp"].to_u64(), item["psn"].to_u64());
            assert_eq!(from, (*psn % 16, *psn), "seed {seed}: answer {i}");
            if *before > 0 {
                assert!(
                    self.sinks[1].cycles[i] > ends[before - 1],
                    "seed {seed}: answer {i} overtakes its data"
                );
            }
        }
    }
}

#[test]
fn every_place_in_the_frame_goes_to_every_place_in_memory() {
    for (beat_bytes, seed) in [(8, 1), (64, 2)] {
        let mut bench = bench(beat_bytes, seed);
        for offset in 0..beat_bytes as usize {
            for lane in 0..u64::from(beat_bytes) {
                let rng = &mut bench.random.rng;
                let length = rng.random_range(1..3 * beat_bytes as usize);
                let page = rng.random::<u64>() >> 20 << 12;
                // As often as not the page ends within.
                let beat = match rng.random() {
                    true => PAGE - u64::from(beat_bytes),
                    false => rng.random_range(0..PAGE / u64::from(beat_bytes)) * u64::from(beat_bytes),
                };
                let further = rng.random_range(0..2) * beat_bytes as usize % 64;
                let (tail, answer) = (rng.random_range(0..9), rng.random());
                bench.place(offset + further, page + beat + lane, length, tail, answer);
            }
        }
        bench.run(if beat_bytes == 8 { 0.3 } else { 0.0 });
    }
}

#[test]
fn placed_answered_and_forgotten_frames_mix_under_random_stalls() {
    for (beat_bytes, stall, seed) in [(8, 0.4, 3), (64, 0.4, 4), (64, 0.1, 5)] {
        let mut bench = bench(beat_bytes, seed);
        for _ in 0..300 {
            let rng = &mut bench.random.rng;
            let (answer, tail) = (rng.random(), rng.random_range(0..12));
            let length =
                if rng.random_bool(0.9) { rng.random_range(1..300) } else { rng.random_range(1..=4096) };
            let near_end = PAGE - rng.random_range(1..=300.min(length as u64 + 1));
            let address = rng.random::<u64>() >> 20 << 12 | near_end;
            match rng.random_range(0..4) {
                0 => bench.forget([1, 60, 200][length % 3], answer),
                1 => bench.place(length % 7, address, 1, 0, answer),
                _ => bench.place([54, 58, 70, 94][length % 4], address, length, tail, answer),
            }
        }
        bench.run(stall);
    }
}

#[test]
fn padding_without_end_touches_neither_this_write_nor_the_next_one() {
    for (beat_bytes, seed) in [(8, 8), (16, 9), (64, 10)] {
        let mut bench = bench(beat_bytes, seed);
        // To just below where the count of beats ends, to just above, and far on.
        for tail in [16_000, 16_384 - 200, 16_384, 16_384 + 200, 33_000, 60_000] {
            for (offset, length) in [(54, 100), (70, 1), (0, 4096)] {
                bench.place(offset, 0x7000 - 50, length, tail, true);
                bench.place(58, 0x9000 + 3, 200, 4, true);
                bench.forget(tail, true);
                bench.place(94, 0x5000 + 9, 77, 0, true);
            }
        }
        bench.run(if beat_bytes == 16 { 0.2 } else { 0.0 });
    }
}

#[test]
fn frames_of_one_beat_pass_back_to_back() {
    for placed in [true, false] {
        let mut bench = bench(64, 6);
        for i in 0..100u64 {
            match placed {
                true => bench.place(16, 0x5000 + 64 * i % PAGE + 20, 40, 8, false),
                false => bench.forget(64, false),
            }
        }
        bench.run(0.0);
        let taken = &bench.sources[1].cycles;
        assert_eq!(taken[99] - taken[49], 50, "placed: {placed}");
    }
}

#[test]
fn a_small_write_and_its_answer_take_at_most_three_cycles() {
    for lane in [0, 6, 30, 63] {
        let mut bench = bench(64, 7);
        for _ in 0..100 {
            bench.place(70, 0x5000 + lane, 64, 4, true);
        }
        bench.run(0.0);
        let answers = &bench.sinks[1].cycles;
        assert!(answers[99] - answers[49] <= 150, "lane {lane}: {}", answers[99] - answers[49]);
    }
}
