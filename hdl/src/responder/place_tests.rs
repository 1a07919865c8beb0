// SPDX-License-Identifier: MIT OR Apache-2.0
//! The placer alone: every alignment, page ends, and the pace of frames.

use super::*;
use crate::config::RnicConfig;
use crate::stream::Beat;
use crate::testing::{drain, Random, Sink, Source};
use crate::types::{Completion, DmaWrite};
use ferrowire_rtl::{build, Sim};
use rand::Rng;

const PAGE: u64 = 4096;

struct Bench {
    beat_bytes: u32,
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 3],
    random: Random,
    /// Each write: its address and bytes.
    writes: Vec<(u64, Vec<u8>)>,
    /// PSN of each answer, and the writes before it.
    answers: Vec<(u64, usize)>,
    /// Index of each completion, likewise.
    completions: Vec<(u64, usize)>,
    orders: u128,
}

fn bench(beat_bytes: u32, seed: u64) -> Bench {
    let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
    let netlist = build("top", |m| {
        let orders = m.stream_in("order", &Place::of(&cfg));
        let pieces = m.stream_in("piece", &Piece::of());
        let frames = m.stream_in("frame", &Beat::of(beat_bytes));
        let operands = m.stream_in("operands", &Operands::of());
        let values = m.stream_in("value", &ferrowire_rtl::bits(64));
        let placed = place(m, &cfg, orders, pieces, frames, operands, values);
        m.stream_out("outcome", placed.outcomes);
        m.stream_out("write", placed.write);
        m.stream_out("answer", placed.replies);
        m.output("unused", &placed.unused);
        m.stream_out("completion", placed.completions);
    });
    let mut sim = Sim::new(&netlist.unwrap());
    sim.reset();
    Bench {
        beat_bytes,
        sim,
        sources: [
            Source::new("order", &Place::of(&cfg)),
            Source::new("frame", &Beat::of(beat_bytes)),
            Source::new("piece", &Piece::of()),
            Source::new("value", &ferrowire_rtl::bits(64)),
        ],
        sinks: [
            Sink::new("write", &DmaWrite::of(&cfg)),
            Sink::new("answer", &reply::Reply::of(&cfg)),
            Sink::new("completion", &Completion::of(&cfg)),
        ],
        random: Random::new(seed),
        writes: Vec::new(),
        answers: Vec::new(),
        completions: Vec::new(),
        orders: 0,
    }
}

impl Bench {
    /// A frame whose payload goes to `address`; to another page where that one ends.
    fn place(&mut self, offset: usize, address: u64, length: usize, tail: usize, answer: bool) {
        let here = length.min((PAGE - address % PAGE) as usize);
        let second: u64 = (self.random.rng.random::<u64>() >> 12) * PAGE;
        let pieces = [(address, here), (second, length - here)];
        let pieces: Vec<_> = pieces.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
        self.scatter(offset, &pieces, tail, answer);
    }

    /// A frame whose payload goes to several places.
    fn scatter(&mut self, offset: usize, pieces: &[(u64, usize)], tail: usize, answer: bool) {
        let length = pieces.iter().map(|(_, bytes)| bytes).sum();
        let payload = self.random.bytes(length);
        let frame = [self.random.bytes(offset), payload.clone(), self.random.bytes(tail)].concat();
        self.order(true, offset, pieces, length, answer);
        self.sources[1].push_frame(&frame);
        let mut from = 0;
        for (address, bytes) in pieces {
            self.writes.push((*address, payload[from..from + bytes].to_vec()));
            from += bytes;
        }
        self.follow(answer);
    }

    /// A frame that is only answered, or forgotten.
    fn forget(&mut self, bytes: usize, answer: bool) {
        let (offset, length) = (self.random.rng.random_range(0..128), self.random.rng.random_range(0..200));
        let pieces: Vec<_> =
            (0..self.random.rng.random_range(0..2)).map(|_| (self.random.rng.random(), 1)).collect();
        self.order(false, offset, &pieces, length, answer);
        let frame = self.random.bytes(bytes);
        self.sources[1].push_frame(&frame);
        self.follow(answer);
    }

    fn follow(&mut self, answer: bool) {
        let (number, before) = (self.orders as u64 - 1, self.writes.len());
        if answer {
            self.answers.push((number, before));
        }
        if number % 3 == 0 {
            self.completions.push((number, before));
        }
    }

    /// The value of an atomic.
    fn value(&mut self, address: u64) {
        let value: u64 = self.random.rng.random();
        self.order_of("value", true, 0, &[(address, 8)], 8, true);
        self.sources[3].push_values(&[("", value.into())]);
        self.writes.push((address, value.to_le_bytes().to_vec()));
        self.follow(true);
    }

    /// A completion without a frame.
    fn complete(&mut self) {
        self.orders += 1;
        let index = self.orders - 1;
        let fields = [("completes", 1), ("completion_wqe_index", index % 0x10000)];
        self.sources[0].push_values(&fields);
        self.completions.push((index as u64, self.writes.len()));
    }

    fn order(&mut self, write: bool, offset: usize, pieces: &[(u64, usize)], length: usize, answer: bool) {
        self.order_of("frame", write, offset, pieces, length, answer);
    }

    fn order_of(
        &mut self,
        what: &str,
        write: bool,
        offset: usize,
        pieces: &[(u64, usize)],
        length: usize,
        answer: bool,
    ) {
        self.sources[0].push_values(&[
            (what, 1),
            ("write", write.into()),
            ("pieces", pieces.len() as u128),
            ("offset", offset as u128),
            ("bytes", length as u128),
            ("answer", answer.into()),
            ("qp", self.orders % 16),
            ("psn", self.orders),
            ("syndrome", 0x1f),
            ("completes", u128::from(self.orders % 3 == 0)),
            ("completion_wqe_index", self.orders % 0x10000),
        ]);
        for (address, bytes) in pieces {
            self.sources[2].push_values(&[("address", (*address).into()), ("bytes", *bytes as u128)]);
        }
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
        for (sink, field, due) in [(1, "psn", &self.answers), (2, "completion_wqe_index", &self.completions)]
        {
            let sink = &self.sinks[sink];
            assert_eq!(sink.items.len(), due.len(), "seed {seed}");
            for (i, (number, before)) in due.iter().enumerate() {
                let field = field.trim_start_matches("completion_");
                assert_eq!(sink.items[i][field].to_u64(), *number, "seed {seed}: {field} {i}");
                if *before > 0 {
                    assert!(sink.cycles[i] > ends[before - 1], "seed {seed}: {field} {i} overtakes its data");
                }
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
            match rng.random_range(0..6) {
                4 => bench.complete(),
                5 => {
                    let lengths: Vec<usize> = (0..rng.random_range(1..9))
                        .map(|_| [1, 7, 63, 64, 65, 300][rng.random_range(0..6)])
                        .collect();
                    let pieces: Vec<_> = lengths
                        .into_iter()
                        .map(|n| {
                            ((rng.random::<u64>() >> 20 << 12) + rng.random_range(0..=PAGE - n as u64), n)
                        })
                        .collect();
                    bench.scatter(length % 99, &pieces, tail, answer);
                }
                0 => bench.forget([1, 60, 200][length % 3], answer),
                1 => bench.place(length % 7, address, 1, 0, answer),
                _ => bench.place([54, 58, 70, 94][length % 4], address, length, tail, answer),
            }
        }
        bench.run(stall);
    }
}

#[test]
fn values_that_come_at_once_are_placed_one_after_the_other_and_among_frames() {
    for (beat_bytes, stall, seed) in [(8, None, 12), (64, None, 13), (64, Some(0.3), 14)] {
        let mut bench = bench(beat_bytes, seed);
        bench.sinks[0].stall = stall;
        for i in 0..200u64 {
            match i % 7 {
                3 => bench.place(70, 0x5000 + i, 30, 4, true),
                5 => bench.forget(60, true),
                _ => bench.value(0x7000 + 8 * i),
            }
        }
        bench.run(0.0);
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

/// Frames of 1,024 bytes fill the wire, in 17 beats each, of which 16 are written: there is room for one completion with each.
#[test]
fn frames_keep_the_pace_of_the_wire_beside_other_writes() {
    let mut bench = bench(64, 11);
    for i in 0..300u64 {
        bench.place(58, 0x5000 + i * 1024 % PAGE, 1024, 4, false);
    }
    bench.sinks[0].stall = Some(0.04);
    bench.run(0.0);
    let taken = &bench.sources[1].cycles;
    let beats = taken.len() as u64;
    assert_eq!(beats, 17 * 300);
    let cycles = taken[taken.len() - 1] - taken[0];
    assert!(cycles <= beats + beats / 100, "{cycles} cycles for {beats} beats");
}
