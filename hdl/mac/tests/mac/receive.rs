// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes from the wire.

use crate::bench::{built, khz, random, wire_clock, Bench, Periods, Stalls, STILL, WIRE};
use crate::phy::{judge, random_burst, random_bytes, sealed, Burst, Idle, Verdict};
use ferrowire_mac::MacConfig;
use rand::rngs::SmallRng;
use rand::Rng;
use std::collections::BTreeMap;

const SLOW: Periods = Periods { core: 20_000_000, rx: WIRE, tx: WIRE };

/// A small longest frame where many frames are wanted.
fn small(beat_bytes: u32) -> MacConfig {
    MacConfig { beat_bytes, max_frame: 1522, rx_buffer_bytes: 4096, tx_buffer_bytes: 2048 }
}

/// What must become of these bursts: good frames, and how many of each kind there are.
fn expected(bursts: &[Burst], max_frame: u32) -> (Vec<Vec<u8>>, BTreeMap<&'static str, u64>) {
    let (mut good, mut counts) = (Vec::new(), BTreeMap::new());
    for burst in bursts {
        let name = match judge(burst, max_frame as usize) {
            Verdict::Good(frame) => {
                good.push(frame);
                "rx_good"
            }
            Verdict::Bad(name) => name,
        };
        *counts.entry(name).or_default() += 1;
    }
    (good, counts)
}

/// Of the counters those that are not zero.
fn counted(bench: &Bench) -> BTreeMap<&'static str, u64> {
    bench.counts.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (*name, *n)).collect()
}

/// Brings these bursts, and wants exactly what the model says of them, in order.
fn bring(bench: &mut Bench, bursts: Vec<Burst>) {
    let (good, counts) = expected(&bursts, bench.cfg.max_frame);
    bench.line.bursts.extend(bursts);
    bench.drain();
    assert_eq!(counted(bench), counts);
    assert_eq!(bench.received.len(), good.len());
    for (i, (got, want)) in bench.received.iter().zip(&good).enumerate() {
        assert!(got == want, "frame {i}: {} bytes of {}", got.len(), want.len());
    }
}

fn bursts_of(rng: &mut SmallRng, n: usize, max_frame: u32) -> Vec<Burst> {
    (0..n).map(|_| random_burst(rng, max_frame as usize)).collect()
}

#[test]
fn good_frames_come_whole_and_bad_ones_are_counted_by_their_kind() {
    for (case, width) in [8, 16, 32, 64, 8, 8].into_iter().enumerate() {
        let mut rng = random(case as u64);
        let cfg = if case < 4 { MacConfig::jumbo(width) } else { small(width) };
        let ppm = [200, -200, 0][case % 3];
        let periods =
            Periods { core: khz(rng.random_range(50_000..=125_000)), rx: wire_clock(ppm), tx: WIRE };
        let bursts = bursts_of(&mut rng, if case < 4 { 200 } else { 800 }, cfg.max_frame);
        let mut bench = Bench::new(&built(&cfg), cfg, periods, rng);
        bench.line.idle = Idle::Noise(0b1101);
        bench.stalls = Stalls { rx: 0.2, tx: 0.0 };
        bring(&mut bench, bursts);
        // Each kind was among them.
        let kinds = counted(&bench).len();
        assert_eq!(kinds, 6, "{:?}", bench.counts);
    }
}

#[test]
fn every_length_around_every_limit_is_judged_rightly() {
    let cfg = small(16);
    let mut rng = random(20);
    let lengths = (0..200).chain(1490..1540);
    let bursts: Vec<Burst> =
        lengths.map(|n| Burst::new(7, &sealed(&random_bytes(&mut rng, n)), 12)).collect();
    let (good, counts) = expected(&bursts, cfg.max_frame);
    assert_eq!((good.len(), counts["rx_runt"], counts["rx_oversize"]), (140 + 29, 60, 21));
    let mut bench = Bench::new(&built(&cfg), cfg, SLOW, rng);
    bring(&mut bench, bursts);
}

#[test]
fn the_longest_frames_of_9000_bytes_pass_and_one_byte_more_does_not() {
    for width in [8, 64] {
        let cfg = MacConfig::jumbo(width);
        let mut rng = random(21);
        let lengths = [9000, 9014, 9018, 9019, 9018, 12_000, 60];
        let bursts = lengths.map(|n| Burst::new(7, &sealed(&random_bytes(&mut rng, n)), 12));
        let mut bench = Bench::new(&built(&cfg), cfg, SLOW, rng);
        bring(&mut bench, bursts.to_vec());
        assert_eq!((bench.counts["rx_good"], bench.counts["rx_oversize"]), (5, 2));
    }
}

#[test]
fn a_gap_of_one_byte_and_a_preamble_of_none_are_enough() {
    for gap in [1, 2, 7, 8, 12] {
        let cfg = small(8);
        let mut rng = random(22);
        let bursts = (0..300)
            .map(|i| {
                let n = if i % 3 == 0 { 60 } else { rng.random_range(60..140) };
                Burst::new(i % 8, &sealed(&random_bytes(&mut rng, n)), gap)
            })
            .collect();
        let mut bench = Bench::new(&built(&cfg), cfg, SLOW, rng);
        bring(&mut bench, bursts);
        assert_eq!(bench.counts["rx_good"], 300);
    }
}

#[test]
fn an_error_at_any_place_of_a_frame_drops_it_and_no_other() {
    let cfg = small(8);
    let mut rng = random(23);
    let good = Burst::new(7, &sealed(&random_bytes(&mut rng, 70)), 12);
    let bursts: Vec<Burst> = (0..good.bytes.len())
        .flat_map(|at| {
            let mut bad = good.clone();
            bad.bytes[at].1 = true;
            [bad, good.clone()]
        })
        .collect();
    let n = good.bytes.len() as u64;
    let mut bench = Bench::new(&built(&cfg), cfg, SLOW, rng);
    bring(&mut bench, bursts);
    assert_eq!((bench.counts["rx_error"], bench.counts["rx_good"]), (n, n));
}

#[test]
fn any_wrong_bit_drops_a_frame() {
    let cfg = small(32);
    let mut rng = random(24);
    let frame = sealed(&random_bytes(&mut rng, 60));
    let bursts = (0..8 * frame.len())
        .map(|bit| {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            Burst::new(7, &frame, 12)
        })
        .collect();
    let mut bench = Bench::new(&built(&cfg), cfg, SLOW, rng);
    bring(&mut bench, bursts);
    assert_eq!(bench.counts["rx_bad_fcs"], 512);
}

/// Whether `got` are some of `sent`, in order.
fn are_some_of(got: &[Vec<u8>], sent: &[Vec<u8>]) -> bool {
    let mut sent = sent.iter();
    got.iter().all(|frame| sent.any(|other| other == frame))
}

#[test]
fn a_core_that_takes_too_little_loses_whole_frames_and_each_is_counted() {
    for (case, width) in [8, 16, 64, 8].into_iter().enumerate() {
        let mut rng = random(30 + case as u64);
        let cfg = small(width);
        let periods = Periods { core: khz(62_500), rx: wire_clock(200), tx: WIRE };
        let bursts = bursts_of(&mut rng, 600, cfg.max_frame);
        let (good, counts) = expected(&bursts, cfg.max_frame);
        let mut bench = Bench::new(&built(&cfg), cfg, periods, rng);
        bench.line.bursts.extend(bursts);
        // It sleeps, takes all, or takes a third of what comes.
        while !bench.line.is_done() {
            let slow = 1.0 - 5.0 / f64::from(width);
            bench.stalls.rx = [1.0, 1.0, 0.0, slow.max(0.3)][bench.rng.random_range(0..4)];
            let cycles = bench.rng.random_range(1..15_000);
            bench.run(cycles);
        }
        bench.stalls.rx = 0.0;
        bench.drain();
        let (got, lost) = (bench.counts["rx_good"], bench.counts["rx_overflow"]);
        assert_eq!(got, bench.received.len() as u64);
        assert_eq!(got + lost, good.len() as u64);
        assert!(lost > 20 && got > 100, "{got} came, {lost} were lost");
        assert!(are_some_of(&bench.received, &good));
        for name in ["rx_bad_fcs", "rx_runt", "rx_oversize", "rx_error", "rx_no_sfd"] {
            assert_eq!(bench.counts[name], counts[name], "{name}");
        }
    }
}

#[test]
fn a_core_whose_clock_stops_or_is_too_slow_loses_whole_frames_and_each_is_counted() {
    for (case, width) in [8, 32].into_iter().enumerate() {
        let mut rng = random(40 + case as u64);
        let cfg = small(width);
        let bursts = bursts_of(&mut rng, 500, cfg.max_frame);
        let n = bursts.len() as u64;
        let (good, _) = expected(&bursts, cfg.max_frame);
        let mut bench = Bench::new(&built(&cfg), cfg, SLOW, rng);
        bench.line.bursts.extend(bursts);
        while !bench.line.is_done() {
            let core = [STILL, khz(3000), khz(62_500), khz(125_000)][bench.rng.random_range(0..4)];
            bench.set_core(core);
            let cycles = bench.rng.random_range(1..5000);
            bench.run(cycles);
        }
        bench.set_core(SLOW.core);
        bench.drain();
        let received = bench.received.len() as u64;
        assert_eq!(bench.counts["rx_good"], received);
        assert!(are_some_of(&bench.received, &good));
        let all: u64 = bench.counts.iter().filter(|(name, _)| name.starts_with("rx")).map(|(_, n)| n).sum();
        assert_eq!(all, n, "{:?}", bench.counts);
        let lost = bench.counts["rx_overflow"];
        assert!(lost > 20 && received > 50, "{received} came, {lost} were lost");
        // From now on nothing is.
        let (more, before) = (bursts_of(&mut bench.rng, 100, cfg.max_frame), bench.received.len());
        let (good, _) = expected(&more, cfg.max_frame);
        bench.line.bursts.extend(more);
        bench.drain();
        assert!(bench.received[before..] == good[..]);
    }
}

#[test]
fn a_frame_that_is_under_way_when_the_reset_ends_is_skipped() {
    let cfg = small(8);
    let netlist = built(&cfg);
    for at in 0..98 {
        let mut rng = random(50);
        // What stands in it looks like a delimiter everywhere.
        let first = Burst::new(7, &[0xd5; 90], 12);
        let second = sealed(&random_bytes(&mut rng, 80));
        let mut bench = Bench::new(&netlist, cfg, SLOW, rng);
        bench.line.bursts.extend([first, Burst::new(7, &second, 40)]);
        bench.run(20 + at);
        // The reset begins within the first frame and ends there, or in the gap, or in the second one's preamble at most.
        for (level, edges) in [(1, 17), (0, 0)] {
            for reset in ["rst", "rgmii_rx_rst", "rgmii_tx_rst"] {
                bench.sim.set(reset, level);
            }
            bench.run(edges);
        }
        let ends = at + 17;
        bench.drain();
        let skipped = (110..).contains(&ends);
        let (good, want) = if skipped { (0, vec![]) } else { (1, vec![second[..80].to_vec()]) };
        assert_eq!(bench.received, want, "reset after {at} cycles");
        assert_eq!(
            (bench.counts["rx_good"], counted(&bench).len()),
            (good, good as usize),
            "after {at} cycles"
        );
    }
}

#[test]
fn the_status_between_frames_is_told_and_nothing_else_is_taken_for_it() {
    let cfg = small(8);
    let mut rng = random(60);
    let bursts = bursts_of(&mut rng, 2000, cfg.max_frame);
    let mut bench = Bench::new(&built(&cfg), cfg, SLOW, rng);
    bench.run(10);
    // After a reset nothing is known.
    assert_eq!(bench.link(), [0, 0, 0]);
    bench.line.bursts.extend(bursts);
    for status in [0b1101u8, 0b1100, 0b1011, 0b0001, 0b1101, 0b0000, 0b1101] {
        bench.line.idle = Idle::Noise(status);
        let mut settled = None;
        for cycle in 0..6000 {
            bench.run(1);
            let link = [status & 1, status >> 1 & 3, status >> 3].map(u64::from);
            match (bench.link() == link, settled) {
                (true, None) => settled = Some(cycle),
                (false, Some(at)) => panic!("{status:04b}: there at cycle {at}, gone at {cycle}"),
                _ => {}
            }
        }
        assert!(settled.is_some(), "{status:04b} is not told");
    }
    assert!(!bench.line.bursts.is_empty());
}
