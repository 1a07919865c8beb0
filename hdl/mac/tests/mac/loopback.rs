// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two MACs on one cable.

use crate::bench::{built, khz, random, wire_clock, Bench, Periods, Stalls};
use crate::phy::{padded, random_bytes, random_length, Wires};
use ferrowire_mac::MacConfig;
use rand::Rng;
use std::collections::BTreeSet;

/// Two MACs, of which each receives in the other's transmit clock what that one sent.
struct Pair {
    ends: [Bench; 2],
    /// How often a bit of a frame is turned over: one byte in so many.
    noise: f64,
    /// The frames of each end, by number, that it hit.
    hit: [BTreeSet<usize>; 2],
}

impl Pair {
    fn new(widths: [u32; 2], cores: [u64; 2], ppm: [i64; 2], seed: u64) -> Pair {
        let clocks = ppm.map(wire_clock);
        let end = |i: usize| {
            let cfg = MacConfig::jumbo(widths[i]);
            let periods = Periods { core: khz(cores[i]), rx: clocks[1 - i], tx: clocks[i] };
            let mut bench = Bench::new(&built(&cfg), cfg, periods, random(seed + i as u64));
            bench.from = Some(Wires::default());
            bench
        };
        Pair { ends: [end(0), end(1)], noise: 0.0, hit: Default::default() }
    }

    fn step(&mut self) {
        let i = usize::from(self.ends[1].next_edge() < self.ends[0].next_edge());
        let end = &mut self.ends[i];
        let before = end.tx_cycles;
        end.step();
        if end.tx_cycles == before {
            return;
        }
        let mut wires = end.sent;
        // Not in the preamble, where a wrong bit need not hurt.
        if end.tap.under_way() > 8 && self.noise > 0.0 && end.rng.random_bool(self.noise) {
            wires.data_fall ^= 1 << end.rng.random_range(0..4);
            self.hit[i].insert(end.tap.seen.len());
        }
        self.ends[1 - i].from = Some(wires);
    }

    /// Both send these.
    fn run(&mut self, frames: &[Vec<Vec<u8>>; 2]) {
        for (end, frames) in self.ends.iter_mut().zip(frames) {
            frames.iter().for_each(|frame| end.send(frame));
        }
        while !self.ends.iter().all(Bench::is_quiet) {
            self.step();
        }
    }
}

fn frames(seed: u64, n: usize) -> [Vec<Vec<u8>>; 2] {
    let mut rng = random(seed);
    let mut one = |_| {
        let n = if rng.random_bool(0.2) { rng.random_range(14..60) } else { random_length(&mut rng, 9022) };
        random_bytes(&mut rng, n)
    };
    [(0..n).map(&mut one).collect(), (0..n).map(&mut one).collect()]
}

#[test]
fn two_macs_bring_each_other_every_frame() {
    for (case, (widths, cores)) in
        [([8, 8], [62_500, 62_500]), ([8, 64], [125_000, 50_000]), ([16, 32], [50_000, 77_777])]
            .into_iter()
            .enumerate()
    {
        let sent = frames(200 + case as u64, 120);
        let mut pair = Pair::new(widths, cores, [100, -100], 210 + case as u64);
        pair.ends[0].stalls = Stalls { tx: 0.1, rx: 0.1 };
        pair.run(&sent);
        for (from, to) in [(0, 1), (1, 0)] {
            let want: Vec<Vec<u8>> = sent[from].iter().map(|frame| padded(frame)).collect();
            assert!(pair.ends[to].received == want, "{} of {}", pair.ends[to].received.len(), want.len());
            assert_eq!(pair.ends[to].counts["rx_good"], pair.ends[from].counts["tx_good"]);
        }
    }
}

#[test]
fn a_noisy_cable_costs_the_frames_that_it_hits_and_no_others() {
    let sent = frames(220, 300);
    let mut pair = Pair::new([8, 8], [62_500, 100_000], [200, 0], 221);
    pair.noise = 3e-4;
    pair.run(&sent);
    for (from, to) in [(0, 1), (1, 0)] {
        let whole = sent[from].iter().enumerate().filter(|(i, _)| !pair.hit[from].contains(i));
        let want: Vec<Vec<u8>> = whole.map(|(_, frame)| padded(frame)).collect();
        let hit = pair.hit[from].len();
        assert!(hit > 10 && want.len() > 10, "{hit} were hit");
        assert!(pair.ends[to].received == want, "{} of {}", pair.ends[to].received.len(), want.len());
        assert_eq!(pair.ends[to].counts["rx_bad_fcs"], hit as u64);
    }
}
