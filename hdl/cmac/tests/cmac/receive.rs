// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames from the block to the core.

use crate::bench::{built, bytes, length, random, Arrival, Bench, Stalls, BLOCK, CORE};
use ferrowire_cmac::config;
use rand::Rng;

/// Clocks at odd ratios, the core's first.
const RATIOS: [(u64, u64); 4] = [(CORE, BLOCK), (BLOCK, CORE), (4_000_000, 4_000_100), (13_370_000, BLOCK)];

#[test]
fn good_frames_come_whole_and_bad_ones_are_dropped_and_counted() {
    let netlist = built(&config());
    for (i, (core, block)) in RATIOS.into_iter().enumerate() {
        let mut bench = Bench::new(&netlist, core, block, random(10 + i as u64));
        bench.stalls = Stalls { rx: 0.2, arrivals: 0.3, ..Stalls::default() };
        let (mut wanted, mut bad) = (Vec::new(), 0);
        for _ in 0..150 {
            let n = length(&mut bench.rng);
            let frame = bytes(&mut bench.rng, n);
            let is_bad = bench.rng.random_bool(0.2);
            bad += u64::from(is_bad);
            if !is_bad {
                wanted.push(frame.clone());
            }
            // As slow as the core is.
            let gap = bench.rng.random_range(0..4) + (n as u64 / 64 * core / block * 2) as u32;
            bench.arrivals.push_back(Arrival { frame, bad: is_bad, gap });
        }
        bench.drain();
        assert_eq!(bench.received, wanted, "{core} {block}");
        assert_eq!(bench.counted(), [("rx_bad", bad), ("rx_good", wanted.len() as u64)]);
    }
}

#[test]
fn every_length_passes_without_a_gap() {
    let mut bench = Bench::new(&built(&config()), CORE, BLOCK, random(20));
    let lengths: Vec<usize> = (60..330).chain(8950..=9018).collect();
    for chunk in lengths.chunks(60) {
        let frames: Vec<Vec<u8>> = chunk.iter().map(|n| bytes(&mut bench.rng, *n)).collect();
        bench.received.clear();
        // Some beats more than the core's clock takes wait in the store.
        for frame in &frames {
            let gap = frame.len() as u32 / 64;
            bench.arrivals.push_back(Arrival { frame: frame.clone(), bad: false, gap });
        }
        bench.drain();
        assert_eq!(bench.received, frames);
    }
}

/// 281 million beats a second come, and 250 are taken: a burst passes.
#[test]
fn a_burst_at_the_full_rate_of_the_shortest_pairs_of_beats_passes() {
    let mut bench = Bench::new(&built(&config()), CORE, BLOCK, random(30));
    let frames: Vec<Vec<u8>> = (0..400).map(|_| bytes(&mut bench.rng, 65)).collect();
    // 89 bytes of the wire take 7.12 ns: 2.3 cycles, two of which have a beat.
    let (mut wire, mut cycle) = (0.0f64, 0.0f64);
    for frame in &frames {
        wire += 7.12e6 / BLOCK as f64;
        let gap = (wire - cycle - 2.0).max(0.0).floor();
        cycle += gap + 2.0;
        bench.arrivals.push_back(Arrival { frame: frame.clone(), bad: false, gap: gap as u32 });
    }
    bench.drain();
    assert_eq!(bench.received.len(), frames.len());
    assert!(bench.received == frames);
}

#[test]
fn a_core_that_takes_too_little_loses_whole_frames_and_each_is_counted() {
    let mut bench = Bench::new(&built(&config()), CORE, BLOCK, random(40));
    bench.stalls.rx = 0.8;
    let frames: Vec<Vec<u8>> = (0..300)
        .map(|i: u32| {
            let n = length(&mut bench.rng);
            let mut frame = bytes(&mut bench.rng, n);
            frame[..4].copy_from_slice(&i.to_le_bytes());
            frame
        })
        .collect();
    for (i, frame) in frames.iter().enumerate() {
        bench.arrivals.push_back(Arrival { frame: frame.clone(), bad: i % 7 == 6, gap: 1 });
    }
    bench.drain();
    let bad = frames.len() as u64 / 7;
    let lost = bench.counts["rx_overflow"];
    // Each that came is one that was sent, in order.
    let mut numbers = Vec::new();
    for frame in &bench.received {
        let number = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
        assert!(*frame == frames[number], "frame {number}");
        numbers.push(number);
    }
    assert!(numbers.is_sorted() && numbers.iter().all(|i| i % 7 != 6));
    assert!(lost > 0, "nothing was lost, so nothing was shown");
    assert_eq!(bench.received.len() as u64, bench.counts["rx_good"]);
    // A bad frame that finds no room counts once, as bad.
    assert_eq!(bench.counts["rx_bad"], bad);
    assert_eq!(bench.received.len() as u64 + lost + bad, frames.len() as u64);
}
