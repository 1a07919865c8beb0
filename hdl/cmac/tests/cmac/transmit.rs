// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames from the core to the block. That a frame has no gap is looked at by the bench in each cycle.

use crate::bench::{built, built_for, bytes, length, random, Bench, Stalls, BLOCK, CORE};
use ferrowire_cmac::{ahead, config, BLOCK_KHZ};
use ferrowire_hdl::tx::build::LONGEST_FRAME;
use rand::Rng;

/// As the block is to get it.
fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn frames_leave_without_a_gap_whatever_the_core_and_the_block_do() {
    for (i, (core, block)) in
        [(CORE, BLOCK), (BLOCK, CORE), (4_000_000, 4_000_100), (13_370_000, BLOCK), (CORE, 41_000_000)]
            .into_iter()
            .enumerate()
    {
        // As fast as the core is, where the block has its clock.
        let core_khz = (u64::from(BLOCK_KHZ) * block / core) as u32;
        let netlist = built_for(&config(), ahead(core_khz, config().max_frame));
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

/// In whatever phases the clocks are, of frames without end and of single ones.
#[test]
fn the_longest_frame_of_the_card_leaves_before_it_is_whole() {
    let ahead = ahead(250_000, LONGEST_FRAME);
    let netlist = built_for(&config(), ahead);
    let beats = u64::from(LONGEST_FRAME.div_ceil(64));
    for seed in 0..20 {
        let mut bench = Bench::new(&netlist, CORE, BLOCK, random(140 + seed));
        for burst in [1, 1, 5] {
            let frame = bytes(&mut bench.rng, LONGEST_FRAME as usize);
            let start = bench.now;
            (0..burst).for_each(|_| bench.send(&frame));
            while !bench.is_sending() {
                bench.step();
            }
            // Two crossings of the clocks, the store, two slices.
            let most = u64::from(ahead) * CORE + 12 * BLOCK;
            let waited = bench.now - start;
            assert!(waited <= most && waited < beats * CORE, "{} cycles of the core", waited / CORE);
            bench.drain();
            assert_eq!(bench.sent, vec![frame; burst]);
            bench.sent.clear();
        }
        assert_eq!(bench.counted(), [("tx_good", 7)]);
    }
}

/// It is never let down: what began ends as a bad frame, and what comes next is sent.
#[test]
fn a_core_that_breaks_its_promise_spoils_that_frame_and_no_other() {
    let netlist = built_for(&config(), ahead(250_000, LONGEST_FRAME));
    let (mut spoiled, mut whole) = (0, 0);
    for seed in 0..12 {
        let mut bench = Bench::new(&netlist, CORE, BLOCK, random(160 + seed));
        bench.may_spoil = true;
        let breaks = if seed % 2 == 0 { 0.02 } else { 0.3 };
        bench.stalls = Stalls { tx: 0.3, breaks, ready: 0.2 * (seed % 3) as f64, ..Stalls::default() };
        let frames: Vec<Vec<u8>> = (0..60)
            .map(|_| {
                let n = if bench.rng.random_bool(0.5) { 4000 } else { length(&mut bench.rng) };
                bytes(&mut bench.rng, n)
            })
            .collect();
        frames.iter().for_each(|frame| bench.send(frame));
        bench.drain();
        // Those that were sent are some of them, in order.
        let mut rest = frames.iter();
        assert!(bench.sent.iter().all(|sent| rest.any(|frame| padded(frame) == *sent)));
        assert_eq!(bench.sent.len() as u64 + bench.spoiled, 60);
        assert_eq!(bench.counts["tx_dry"], bench.spoiled);
        assert_eq!(bench.counts["tx_good"], bench.sent.len() as u64);
        (spoiled, whole) = (spoiled + bench.spoiled, whole + bench.sent.len());
    }
    assert!(spoiled > 100 && whole > 100, "{spoiled} spoiled, {whole} whole");
}

/// By then it has begun to leave, so it ends as a bad one.
#[test]
fn a_frame_that_is_too_long_is_not_sent_and_its_neighbours_are() {
    let netlist = built(&config());
    // Where the block takes faster than the core gives, it would run dry before the longer one ends; otherwise its end is known in time.
    for (ready, dry) in [(0.0, 1), (0.7, 0)] {
        let mut bench = Bench::new(&netlist, CORE, BLOCK, random(120));
        bench.may_spoil = true;
        bench.stalls.ready = ready;
        let frames = [100, 9018, 9019, 200, 40_000, 9018, 60].map(|n| bytes(&mut bench.rng, n));
        frames.iter().for_each(|frame| bench.send(frame));
        bench.drain();
        let wanted: Vec<Vec<u8>> = frames.iter().filter(|frame| frame.len() <= 9018).cloned().collect();
        assert!(bench.sent == wanted);
        let counts = ["tx_good", "tx_oversize", "tx_dry"].map(|name| bench.counts[name]);
        assert_eq!((counts, bench.spoiled), ([5, 2, dry], 2), "{ready}");
    }
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
