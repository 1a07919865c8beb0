// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames from the core to the block. That a frame has no gap is looked at by the bench in each cycle.

use crate::bench::{built, bytes, length, random, Bench, Stalls, BLOCK, CORE};
use ferrowire_cmac::config;

/// As the block is to get it.
fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn frames_leave_without_a_gap_whatever_the_core_and_the_block_do() {
    let netlist = built(&config());
    for (i, (core, block)) in
        [(CORE, BLOCK), (BLOCK, CORE), (4_000_000, 4_000_100), (13_370_000, BLOCK), (CORE, 41_000_000)]
            .into_iter()
            .enumerate()
    {
        for (tx, ready) in [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.3, 0.4)] {
            let mut bench = Bench::new(&netlist, core, block, random(100 + i as u64));
            bench.stalls = Stalls { tx, ready, ..Stalls::default() };
            let frames: Vec<Vec<u8>> = (0..40)
                .map(|_| {
                    let n = length(&mut bench.rng);
                    bytes(&mut bench.rng, n)
                })
                .collect();
            frames.iter().for_each(|frame| bench.send(frame));
            bench.drain();
            assert!(bench.sent == frames, "{core} {block} {tx} {ready}");
            assert_eq!(bench.counted(), [("tx_good", 40)]);
        }
    }
}

#[test]
fn every_length_leaves_and_short_ones_are_filled_up_with_zeros() {
    let mut bench = Bench::new(&built(&config()), CORE, BLOCK, random(110));
    let frames: Vec<Vec<u8>> = (14..300).chain(8990..=9018).map(|n| bytes(&mut bench.rng, n)).collect();
    frames.iter().for_each(|frame| bench.send(frame));
    bench.drain();
    assert!(bench.sent == frames.iter().map(|frame| padded(frame)).collect::<Vec<_>>());
}

#[test]
fn a_frame_that_is_too_long_is_not_sent_and_its_neighbours_are() {
    let mut bench = Bench::new(&built(&config()), CORE, BLOCK, random(120));
    let frames = [100, 9018, 9019, 200, 40_000, 9018, 60].map(|n| bytes(&mut bench.rng, n));
    frames.iter().for_each(|frame| bench.send(frame));
    bench.drain();
    let wanted: Vec<Vec<u8>> = frames.iter().filter(|frame| frame.len() <= 9018).cloned().collect();
    assert!(bench.sent == wanted);
    assert_eq!(bench.counted(), [("tx_good", 5), ("tx_oversize", 2)]);
}

/// The wire is as slow as 100 Gb/s; the adapter is not what makes it wait.
#[test]
fn at_the_wires_rate_the_core_is_never_stopped_for_long() {
    let mut bench = Bench::new(&built(&config()), CORE, BLOCK, random(130));
    // 64 bytes take 5.12 ns of 3.1: the block takes three beats in five cycles.
    bench.stalls.ready = 0.394;
    let frames: Vec<Vec<u8>> = (0..300).map(|_| bytes(&mut bench.rng, 1500)).collect();
    let start = bench.block_cycles;
    frames.iter().for_each(|frame| bench.send(frame));
    bench.drain();
    assert!(bench.sent == frames);
    let beats = 300 * 1500u64.div_ceil(64);
    let cycles = bench.block_cycles - start - 1000;
    // As many as the block takes alone: 1.65 a beat, and some for the first frame.
    assert!(cycles < beats * 175 / 100 + 400, "{cycles} cycles for {beats} beats");
}
