// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes to the wire.

use crate::bench::{built, khz, random, wire_clock, Bench, Periods, Stalls, STILL, WIRE};
use crate::phy::{judge, padded, random_bytes, random_length, Verdict};
use ferrowire_mac::MacConfig;
use rand::Rng;

const FAST: Periods = Periods { core: WIRE, rx: WIRE, tx: WIRE };

fn assert_sent(bench: &Bench, frames: &[Vec<u8>]) -> Vec<usize> {
    let (seen, gaps) = bench.tap.frames(bench.cfg.max_frame as usize);
    assert_eq!(seen.len(), frames.len());
    for (i, (got, want)) in seen.iter().zip(frames).enumerate() {
        assert!(*got == padded(want), "frame {i}: {} bytes for {}", got.len(), want.len());
    }
    gaps
}

#[test]
fn frames_leave_with_preamble_padding_fcs_and_gap_whatever_the_core_does() {
    for (case, width) in [8, 16, 32, 64].into_iter().enumerate() {
        for stall in [0.0, 0.3, 0.97] {
            let mut rng = random(100 + case as u64);
            let cfg = MacConfig::jumbo(width);
            let core = khz(rng.random_range(50_000..=125_000));
            let periods = Periods { core, rx: WIRE, tx: wire_clock(rng.random_range(-200..=200)) };
            let n = if stall > 0.9 { 30 } else { 150 };
            let frames: Vec<Vec<u8>> = (0..n)
                .map(|_| {
                    // Short ones too: the core need not pad.
                    let n = match rng.random_bool(0.2) {
                        true => rng.random_range(1..60),
                        false => random_length(&mut rng, cfg.max_frame as usize),
                    };
                    random_bytes(&mut rng, n)
                })
                .collect();
            let mut bench = Bench::new(&built(&cfg), cfg, periods, rng);
            bench.stalls = Stalls { tx: stall, rx: 0.0 };
            for frame in &frames {
                bench.send(frame);
            }
            bench.drain();
            assert_sent(&bench, &frames);
            assert_eq!(bench.counts["tx_good"], frames.len() as u64);
            assert_eq!(bench.counts["tx_underrun"] + bench.counts["tx_oversize"], 0);
        }
    }
}

#[test]
fn every_length_is_padded_to_sixty_bytes_or_not_at_all() {
    for width in [8, 64] {
        let cfg = MacConfig::jumbo(width);
        let mut rng = random(110);
        let frames: Vec<Vec<u8>> = (1..200).map(|n| random_bytes(&mut rng, n)).collect();
        let mut bench = Bench::new(&built(&cfg), cfg, FAST, rng);
        frames.iter().for_each(|frame| bench.send(frame));
        bench.drain();
        assert_sent(&bench, &frames);
        let lengths = bench.tap.seen.iter().map(|seen| seen.burst.bytes.len());
        assert!(lengths.zip(1..).all(|(bytes, n)| bytes == 8 + n.max(60) + 4));
    }
}

#[test]
fn frames_follow_each_other_after_twelve_bytes_at_the_slowest_clock_of_a_core() {
    // 125.1 MHz by the bytes of a beat, and faster ones.
    for (width, clock) in [(8, 15_700), (8, 62_500), (8, 125_000), (16, 7_900), (32, 4_000), (64, 2_000)] {
        let cfg = MacConfig::jumbo(width);
        let netlist = built(&cfg);
        for beats in [128 / width, 1024 / width, 9000 / width] {
            let rng = random(120);
            let periods = Periods { core: khz(clock), rx: WIRE, tx: wire_clock(200) };
            let mut bench = Bench::new(&netlist, cfg, periods, rng);
            // Of one length: what is longer than the one before is not whole in time where the core is as slow as the wire.
            let frames: Vec<Vec<u8>> =
                (0..12).map(|_| random_bytes(&mut bench.rng, (beats * width) as usize)).collect();
            frames.iter().for_each(|frame| bench.send(frame));
            bench.drain();
            let gaps = assert_sent(&bench, &frames);
            assert!(gaps[1..].iter().all(|gap| *gap == 12), "{clock} kHz, {width} bytes: {gaps:?}");
            assert_eq!(bench.counts["tx_underrun"], 0);
        }
    }
}

#[test]
fn a_frame_that_is_too_long_is_dropped_and_the_others_pass() {
    for width in [8, 16, 32, 64] {
        let cfg =
            MacConfig { beat_bytes: width, max_frame: 1522, rx_buffer_bytes: 2048, tx_buffer_bytes: 2048 };
        let mut rng = random(130);
        let most = cfg.max_frame as usize - 4;
        let lengths = (0..300).map(|i| match i % 5 {
            0 => most + 1 + i % 7,
            1 => most - i % 70,
            2 => rng.random_range(most + 1..6000),
            _ => rng.random_range(60..1600),
        });
        let lengths: Vec<usize> = lengths.collect();
        let frames: Vec<Vec<u8>> = lengths.iter().map(|n| random_bytes(&mut rng, *n)).collect();
        let mut bench = Bench::new(&built(&cfg), cfg, FAST, rng);
        frames.iter().for_each(|frame| bench.send(frame));
        bench.drain();
        let fit: Vec<Vec<u8>> = frames.into_iter().filter(|frame| frame.len() <= most).collect();
        assert_sent(&bench, &fit);
        assert_eq!(bench.counts["tx_good"], fit.len() as u64);
        assert_eq!(bench.counts["tx_oversize"], (300 - fit.len()) as u64);
    }
}

#[test]
fn nothing_of_a_frame_is_sent_before_all_of_it_is_there() {
    let cfg = MacConfig::jumbo(8);
    let mut rng = random(140);
    let frame = random_bytes(&mut rng, 1000);
    let mut bench = Bench::new(&built(&cfg), cfg, FAST, rng);
    bench.send(&frame);
    let mut began = None;
    bench.stalls.tx = 0.9;
    while bench.tap.seen.is_empty() {
        bench.step();
        if bench.sent.ctl_rise && began.is_none() {
            began = Some(bench.unsent());
        }
    }
    assert_eq!(began, Some(0));
}

#[test]
fn a_frame_whose_core_stands_still_is_cut_and_marked_and_the_others_pass() {
    for (case, width) in [8, 64].into_iter().enumerate() {
        let cfg = MacConfig::jumbo(width);
        let netlist = built(&cfg);
        for stop in 0..12 {
            let mut rng = random(150 + case as u64);
            let frames: Vec<Vec<u8>> = (0..4).map(|_| random_bytes(&mut rng, 5000)).collect();
            let mut bench = Bench::new(&netlist, cfg, FAST, rng);
            frames.iter().for_each(|frame| bench.send(frame));
            // Somewhere in the second frame.
            while bench.tap.seen.is_empty() {
                bench.step();
            }
            bench.run(100 + 250 * stop);
            bench.set_core(STILL);
            bench.run(4000);
            // From 125 MHz on the next frame is right behind the rest of this one.
            bench.set_core(khz([62_500, 125_000, 200_000][stop as usize % 3]));
            // The rest of the frame goes at the pace of the core.
            bench.run(3000);
            bench.drain();
            let verdicts: Vec<Verdict> =
                bench.tap.seen.iter().map(|seen| judge(&seen.burst, cfg.max_frame as usize)).collect();
            let good = |i: usize| Verdict::Good(frames[i].clone());
            let kinds: Vec<_> =
                verdicts.iter().map(|v| if let Verdict::Bad(why) = v { why } else { "good" }).collect();
            assert_eq!(kinds, ["good", "rx_error", "good", "good"], "stopped at {stop}");
            assert!([0, 2, 3].iter().all(|i| verdicts[*i] == good(*i)), "stopped at {stop}");
            assert!(bench.tap.seen[1..].iter().all(|seen| seen.gap_before >= 12));
            assert_eq!((bench.counts["tx_underrun"], bench.counts["tx_good"]), (1, 4));
        }
    }
}
