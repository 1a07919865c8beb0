// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire at its full rate, both ways, with clocks that drift.
//!
//! At 200 ppm two clocks of 125 MHz slip past each other by a whole cycle every 5,000 cycles: each run here sees many such slips, in both directions.
//! `FERROWIRE_MAC_CYCLES=n` makes the runs longer.

use crate::bench::{built, khz, random, wire_clock, Bench, Periods, WIRE};
use crate::phy::{padded, random_bytes, random_length, sealed, Burst};
use ferrowire_mac::MacConfig;
use rand::Rng;

/// From the delimiter on the wires to the first beat on offer: the frame's bytes and so many cycles of the wire, and at most so many of the core.
const RX_WIRE: u64 = 8;
const RX_CORE: u64 = 7;
/// From the last beat that is taken to the first byte of preamble on the wires, of a frame that finds the wire idle.
const TX_CORE: u64 = 2;
const TX_WIRE: u64 = 7;

/// Cycles of the wire of each run.
fn cycles() -> u64 {
    let text = std::env::var("FERROWIRE_MAC_CYCLES").unwrap_or("120000".into());
    text.parse().expect("FERROWIRE_MAC_CYCLES is a number of cycles")
}

/// Frames back to back for as long, of random lengths, with random gaps of these.
fn full_rate(ppm: i64, core: u64, width: u32, gaps: std::ops::RangeInclusive<usize>, all_short: bool) {
    let cfg = MacConfig::jumbo(width);
    let mut rng = random((ppm + 1000) as u64 + core);
    let periods = Periods { core: khz(core), rx: wire_clock(ppm), tx: WIRE };
    let mut frame = |_| {
        let n = if all_short { 60 } else { random_length(&mut rng, cfg.max_frame as usize) };
        random_bytes(&mut rng, n)
    };
    let mut of_wire = |bytes: usize| {
        let mut frames = Vec::new();
        let mut all = 0;
        while all < bytes {
            frames.push(frame(()));
            all += frames.last().expect("just pushed").len() + 24;
        }
        frames
    };
    let (coming, going) = (of_wire(cycles() as usize), of_wire(cycles() as usize));
    let mut bench = Bench::new(&built(&cfg), cfg, periods, random(1));
    for frame in &coming {
        let gap = bench.rng.random_range(gaps.clone());
        bench.line.bursts.push_back(Burst::new(7, &sealed(frame), gap));
    }
    going.iter().for_each(|frame| bench.send(frame));
    bench.drain();
    let what = format!("{ppm} ppm, {core} kHz, {width} bytes");
    assert!(bench.received == coming, "{what}: {} of {}", bench.received.len(), coming.len());
    let (sent, gaps) = bench.tap.frames(cfg.max_frame as usize);
    assert!(sent.len() == going.len() && sent.iter().zip(&going).all(|(a, b)| *a == padded(b)), "{what}");
    // Nothing holds the wire up once the store is full: each gap is the shortest. A core as slow as the wire never fills it.
    let begun = sent.iter().scan(0, |all, frame| {
        *all += frame.len();
        Some(*all)
    });
    let filled = begun.take_while(|all| *all < 2 * cfg.tx_buffer_bytes as usize).count() + 1;
    let shortest = gaps.iter().skip(filled).all(|gap| *gap == 12);
    assert!(shortest || core * u64::from(width) < 250_000, "{what}: {gaps:?}");
    assert!(gaps.len() > filled + 10, "{what}: {} frames", gaps.len());
    let bad: u64 = bench.counts.iter().filter(|(name, _)| !name.ends_with("good")).map(|(_, n)| n).sum();
    assert_eq!(bad, 0, "{what}: {:?}", bench.counts);
}

#[test]
fn no_frame_is_lost_at_the_full_rate_with_clocks_that_drift_by_200_ppm() {
    for ppm in [-200, 200] {
        for (core, width) in [(50_000, 8), (62_500, 8), (100_000, 8), (125_000, 8), (50_000, 64)] {
            full_rate(ppm, core, width, 12..=12, false);
        }
    }
}

#[test]
fn no_shortest_frame_is_lost_at_the_full_rate_with_gaps_that_shrank() {
    for ppm in [-200, 200] {
        full_rate(ppm, 50_000, 8, 8..=12, true);
        full_rate(ppm, 125_000, 16, 8..=12, true);
    }
}

#[test]
fn no_frame_is_lost_at_the_slowest_clock_of_a_core() {
    // Both ways the most that a beat can be filled.
    full_rate(200, 17_700, 8, 12..=12, true);
    full_rate(-200, 17_700, 8, 12..=12, false);
}

#[test]
fn a_frame_takes_its_own_time_and_a_few_cycles_more() {
    for width in [8, 64] {
        let cfg = MacConfig::jumbo(width);
        let netlist = built(&cfg);
        let (mut most_rx, mut most_tx) = (0, 0);
        for (seed, bytes) in [60, 61, 64, 1000, 9018].into_iter().cycle().take(100).enumerate() {
            let mut rng = random(seed as u64);
            let core = khz(rng.random_range(20_000..=125_000));
            let mut bench = Bench::new(&netlist, cfg, Periods { core, rx: WIRE, tx: WIRE }, rng);
            let frame = random_bytes(&mut bench.rng, bytes);
            // The gap behind the reset is over.
            bench.run(40);
            // The delimiter is the first byte.
            bench.line.bursts.push_back(Burst::new(0, &sealed(&frame), 12));
            bench.send(&frame);
            bench.drain();
            let moments = bench.moments;
            let between = |from: Option<u64>, to: Option<u64>| to.expect("it came") - from.expect("it began");
            // Behind the cycles of one clock, those of the other.
            let rx = between(moments.carrier, moments.offered) - (bytes as u64 + RX_WIRE) * WIRE;
            let tx = between(moments.taken, moments.sent) - TX_CORE * core;
            (most_rx, most_tx) = (most_rx.max(rx.div_ceil(core)), most_tx.max(tx.div_ceil(WIRE)));
        }
        // The bounds are met, and by phases that are less unlucky than the worst nearly reached.
        assert!((RX_CORE - 1..=RX_CORE).contains(&most_rx), "{width} bytes: {most_rx} cycles");
        assert!((TX_WIRE - 1..=TX_WIRE).contains(&most_tx), "{width} bytes: {most_tx} cycles");
    }
}
