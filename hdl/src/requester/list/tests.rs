// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random WQEs of all sizes; the bench plays the segmenter and the walker, which keep banks for a while.

use super::*;
use crate::testing::{item, step, Item, Random, Sink, Source};
use ferrowire_rtl::{build, Bits, Sim};
use ferrowire_spec::queue::send_wqe::{sge::Sge, SendWqe};
use rand::Rng;
use std::collections::VecDeque;

/// What must come of a WQE.
struct Expected {
    wqe: Item,
    /// Its continuation units, as far as they hold something.
    units: Vec<[u8; 64]>,
    /// Its sum counts.
    sums: bool,
}

struct Bench {
    cfg: RnicConfig,
    sim: Sim,
    sources: [Source; 1],
    sinks: [Sink; 1],
    random: Random,
    expected: VecDeque<Expected>,
    /// Banks that are taken, each with the SGEs that have come.
    banks: [Option<[Option<Vec<u8>>; 16]>; 4],
    /// Banks of WQEs that have been handed on.
    kept: Vec<usize>,
    /// Units on their way: those that return must be as many.
    units: u64,
    returned: u64,
    seen: usize,
    several: usize,
}

impl Bench {
    /// By unit with 64 bytes a beat, by SGE with 8.
    fn new(seed: u64, beat_bytes: u32) -> Bench {
        let cfg = RnicConfig { beat_bytes, ..RnicConfig::named("generic-8b").unwrap() };
        let netlist = build("bench", |m| {
            let units = m.stream_in("unit", &Fetched::of(&cfg, grain(&cfg)));
            let out =
                list(m, &cfg, units, m.input_of("forgotten", &Released::of()), m.input("released", BANKS));
            m.stream_out("wqe", out.wqes);
            // Of the cycle before.
            m.output("stored", &m.delay("was_stored", &out.stored));
            m.output("returned", &m.delay("was_returned", &out.returned));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|e| panic!("{e}")));
        sim.reset();
        let (sources, sinks) =
            ([Source::new("unit", &Fetched::of(&cfg, grain(&cfg)))], [Sink::new("wqe", &Wqe::of(&cfg))]);
        Bench {
            cfg,
            sim,
            sources,
            sinks,
            random: Random::new(seed),
            expected: VecDeque::new(),
            banks: Default::default(),
            kept: Vec::new(),
            units: 0,
            returned: 0,
            seen: 0,
            several: 0,
        }
    }

    /// A WQE with SGEs of these lengths in a slot of `1 << stride` units; `units`: its bytes.
    fn push(&mut self, qp: u128, index: u16, stride: u32, bytes: &[u8], error: Option<usize>) {
        let n = 1usize << stride;
        let head = SendWqe::parse(&bytes[..64]).unwrap();
        let mut lengths = vec![u64::from(head.sge0_len)];
        for at in (64..64 * n).step_by(16) {
            lengths.push(Sge::parse(&bytes[at..at + 16]).unwrap().len.into());
        }
        let room = (4 * n - 3).min(16);
        let large = match head.inline {
            true => usize::from(head.inline_len) > (64 * n - 48).min(256),
            false => usize::from(head.num_sge) > room,
        };
        let total: u64 = lengths.iter().take(head.num_sge.into()).sum();
        let fields = [
            ("qp", qp),
            ("index", index.into()),
            ("total", if large || head.inline { 0 } else { total.into() }),
            ("too_large", large.into()),
            ("banked", u128::from(n > 1)),
            ("error", error.is_some().into()),
        ];
        let mut wqe = item(&Wqe::of(&self.cfg), &fields);
        wqe.insert("unit".into(), Bits::from_bytes(512, &bytes[..64]));
        let units = bytes.chunks(64).skip(1).take(4).map(|unit| unit.try_into().unwrap()).collect();
        self.expected.push_back(Expected { wqe, units, sums: !large && !head.inline });
        let grain = grain(&self.cfg) as usize;
        let pieces = bytes.len() / grain;
        for (part, piece) in bytes.chunks(grain).enumerate() {
            let fields = [
                ("qp", qp),
                ("index", index.into()),
                ("part", part as u128),
                ("ends", u128::from(part + 1 == pieces)),
                ("error", u128::from(error == Some(part * grain / 64))),
            ];
            let mut given = item(&Fetched::of(&self.cfg, grain as u32), &fields);
            given.insert("piece".into(), Bits::from_bytes(8 * grain as u32, piece));
            self.sources[0].push(given);
        }
        self.units += n as u64;
    }

    fn start(&mut self, qp: u128) {
        self.sources[0].push_values(&[("qp", qp), ("start", 1), ("ends", 1)]);
        let wqe = item(&Wqe::of(&self.cfg), &[("qp", qp), ("start", 1)]);
        self.expected.push_back(Expected { wqe, units: Vec::new(), sums: false });
    }

    fn random_wqe(&mut self, strides: std::ops::RangeInclusive<u32>) {
        let stride = self.random.rng.random_range(strides);
        let n = 1usize << stride;
        let mut bytes = self.random.bytes(64 * n);
        let rng = &mut self.random.rng;
        let room = 4 * n - 3;
        let mut head = SendWqe::parse(&bytes[..64]).unwrap();
        head.inline = rng.random_range(0..4) == 0;
        head.num_sge = match rng.random_range(0..6) {
            0 => rng.random(),
            1 => [0, 1, 16, 17, room as u8, room as u8 + 1][rng.random_range(0..6)],
            _ => rng.random_range(0..=room.min(16)) as u8,
        };
        let fits = 64 * n as u16 - 48;
        head.inline_len = match rng.random_range(0..3) {
            0 => rng.random(),
            1 => [0, 16, fits, fits + 1, 256, 257][rng.random_range(0..6)],
            _ => rng.random_range(0..=fits.min(256)),
        };
        if rng.random() {
            head.sge0_len %= 5;
        }
        head.emit(&mut bytes[..64]).unwrap();
        // Lengths small or of any size.
        for at in (64..64 * n).step_by(16) {
            if rng.random() {
                bytes[at + 13..at + 16].fill(0);
            }
        }
        let error = (rng.random_range(0..8) == 0).then(|| rng.random_range(0..n));
        let (qp, index) = (rng.random_range(0..16), rng.random());
        self.push(qp, index, stride, &bytes, error);
    }

    fn step(&mut self, stall: f64, giving: f64) {
        // Banks go back by either way, two at once now and then.
        let mut mask = 0;
        self.sim.set("forgotten_valid", 0);
        for by_segmenter in [false, true] {
            if !self.kept.is_empty() && self.random.chance(giving) {
                let bank = self.kept.remove(self.random.rng.random_range(0..self.kept.len()));
                self.banks[bank] = None;
                if by_segmenter {
                    self.sim.set("forgotten_valid", 1);
                    self.sim.set("forgotten_bank", bank as u64);
                } else {
                    mask |= 1 << bank;
                }
            }
        }
        self.sim.set("released", mask);
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, stall);
        self.returned += self.sim.get("returned");
        if self.sim.get("stored_enable") == 1 {
            let at = self.sim.get("stored_index") as usize;
            let sges = self.sim.get_bits("stored_entry").to_bytes();
            let (sges, at) = (sges.chunks(16), at * sges.len() / 16);
            let bank = self.banks[at / 16].get_or_insert_default();
            assert!(!self.kept.contains(&(at / 16)), "seed {}: a bank that is in use", self.random.seed);
            for (place, sge) in bank[at % 16..].iter_mut().zip(sges) {
                *place = Some(sge.to_vec());
            }
        }
        while self.seen < self.sinks[0].items.len() {
            let mut found = self.sinks[0].items[self.seen].clone();
            let expected = self.expected.pop_front().expect("a WQE");
            let seed = self.random.seed;
            if found["banked"].is_zero() {
                found.insert("bank".into(), Bits::zero(2));
            } else {
                let bank = found.insert("bank".into(), Bits::zero(2)).unwrap().to_u64() as usize;
                assert!(!self.kept.contains(&bank), "seed {seed}: bank {bank} twice");
                let held = self.banks[bank].as_ref().expect("its units");
                for (sge, held) in expected.units.as_flattened().chunks(16).zip(held) {
                    assert_eq!(held.as_deref(), Some(sge), "seed {seed}");
                }
                self.kept.push(bank);
                self.several += 1;
            }
            if !expected.sums {
                found.insert("total".into(), Bits::zero(TOTAL_BITS));
            }
            if !expected.wqe["start"].is_zero() {
                found.insert("unit".into(), Bits::zero(512));
                found.insert("too_large".into(), Bits::zero(1));
            }
            assert_eq!(found, expected.wqe, "seed {seed}: WQE {}", self.seen);
            self.seen += 1;
        }
    }

    fn drain(&mut self, stall: f64, giving: f64) {
        for _ in 0..20_000 {
            if self.expected.is_empty() && self.sources[0].left() == 0 {
                self.step(0.0, 1.0);
                assert_eq!(self.returned, self.units, "seed {}", self.random.seed);
                return;
            }
            self.step(stall, giving);
        }
        panic!("seed {}: {} WQEs are left", self.random.seed, self.expected.len());
    }
}

#[test]
fn every_wqe_comes_in_order_with_its_sum_and_its_units() {
    for (seed, beat_bytes) in [(1, 64), (2, 8), (3, 64), (4, 8)] {
        let mut bench = Bench::new(seed, beat_bytes);
        for round in 0..30 {
            for _ in 0..20 {
                if bench.random.chance(0.05) {
                    let qp = bench.random.rng.random_range(0..16);
                    bench.start(qp);
                }
                bench.random_wqe(if round % 3 == 0 { 0..=1 } else { 0..=MAX_STRIDE });
            }
            bench.drain([0.0, 0.2, 0.7][round % 3], [1.0, 0.3, 0.05][round / 3 % 3]);
        }
        assert!(bench.several > 300, "seed {seed}");
    }
}

#[test]
fn a_wqe_of_one_unit_passes_in_the_cycle_in_which_it_comes() {
    let mut bench = Bench::new(11, 64);
    bench.sources[0].stall = Some(0.0);
    for _ in 0..50 {
        bench.random_wqe(0..=0);
    }
    bench.drain(0.0, 1.0);
    assert_eq!(bench.sources[0].cycles, bench.sinks[0].cycles);
}

#[test]
fn larger_ones_cost_as_many_cycles_as_units_while_banks_are_free() {
    for stride in 1..=MAX_STRIDE {
        let mut bench = Bench::new(12, 64);
        bench.sources[0].stall = Some(0.0);
        for _ in 0..40 {
            bench.random_wqe(stride..=stride);
        }
        bench.drain(0.0, 1.0);
        let (units, wqes) = (&bench.sources[0].cycles, &bench.sinks[0].cycles);
        assert_eq!(wqes[wqes.len() - 1] - units[units.len() - 1], 4, "stride {stride}");
        let n = (40 << stride) - 1;
        let spent = units[units.len() - 1] - units[0];
        // Two units a WQE are gathered faster than their four banks come back.
        let most = if stride == 1 { n * 5 / 4 } else { n };
        assert!(spent <= most, "stride {stride}: {spent} cycles for {n} units");
    }
}

#[test]
fn by_sge_a_wqe_costs_two_cycles_beside_its_pieces() {
    for stride in 0..=MAX_STRIDE {
        let mut bench = Bench::new(14, 8);
        bench.sources[0].stall = Some(0.0);
        for _ in 0..40 {
            bench.random_wqe(stride..=stride);
        }
        bench.drain(0.0, 1.0);
        let (pieces, wqes) = (&bench.sources[0].cycles, &bench.sinks[0].cycles);
        assert_eq!(wqes[wqes.len() - 1] - pieces[pieces.len() - 1], 2, "stride {stride}");
        let spent = wqes[wqes.len() - 1] - pieces[0] + 1;
        assert_eq!(spent, 40 * ((4 << stride) + 2), "stride {stride}");
    }
}

#[test]
fn one_bank_that_is_kept_for_ever_holds_up_nobody() {
    for beat_bytes in [64, 8] {
        let mut bench = Bench::new(13, beat_bytes);
        for _ in 0..60 {
            bench.random_wqe(1..=MAX_STRIDE);
        }
        for _ in 0..3000 {
            let held = bench.kept.pop();
            bench.step(0.0, 1.0);
            bench.kept.extend(held);
        }
        assert!(bench.expected.is_empty(), "{beat_bytes}: {} are left", bench.expected.len());
    }
}
