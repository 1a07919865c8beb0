// SPDX-License-Identifier: MIT OR Apache-2.0
//! The link goes up and down, and the block is reset.

use crate::bench::{built, bytes, random, Arrival, Bench, BLOCK, CORE};
use ferrowire_cmac::config;
use rand::Rng;

fn bench(seed: u64) -> Bench {
    Bench::new(&built(&config()), CORE, BLOCK, random(seed))
}

fn told(bench: &mut Bench) -> [u64; 4] {
    bench.run(12);
    ["ctl_tx_enable", "ctl_tx_send_rfi", "ctl_tx_send_idle", "link_up"].map(|port| bench.sim.get(port))
}

/// PG203, "Without AXI4-Lite Interface", and the description of `ctl_tx_enable`.
#[test]
fn the_link_is_brought_up_in_the_blocks_order() {
    let mut bench = bench(200);
    let set = |bench: &mut Bench, port: &str, value| bench.sim.set(port, value);
    set(&mut bench, "stat_aligned", 0);
    assert_eq!(told(&mut bench), [0, 1, 0, 0], "not aligned: the peer is told");
    set(&mut bench, "stat_aligned", 1);
    set(&mut bench, "stat_remote_fault", 1);
    assert_eq!(told(&mut bench), [0, 0, 1, 0], "aligned, but the peer is not");
    set(&mut bench, "stat_remote_fault", 0);
    assert_eq!(told(&mut bench), [1, 0, 0, 1]);
    set(&mut bench, "stat_rx_reset", 1);
    assert_eq!(told(&mut bench), [0, 1, 0, 0], "a receiver in reset is not aligned, whatever it says");
    set(&mut bench, "stat_rx_reset", 0);
    set(&mut bench, "stat_tx_reset", 1);
    assert_eq!(told(&mut bench)[3], 0);
    set(&mut bench, "stat_tx_reset", 0);
    assert_eq!(told(&mut bench), [1, 0, 0, 1]);
}

#[test]
fn what_the_core_sends_without_a_link_is_lost_and_nothing_piles_up() {
    let mut bench = bench(210);
    bench.sim.set("stat_aligned", 0);
    bench.run(10);
    let frames: Vec<Vec<u8>> = (0..200).map(|_| bytes(&mut bench.rng, 900)).collect();
    frames.iter().for_each(|frame| bench.send(frame));
    bench.drain();
    assert_eq!((bench.sent.len(), bench.counted()), (0, vec![("tx_no_link", 200)]));
    bench.sim.set("stat_aligned", 1);
    bench.run(10);
    bench.send(&frames[0]);
    bench.drain();
    assert!(bench.sent == frames[..1]);
}

/// The block wants to be given the frame that is under way when `ctl_tx_enable` falls.
#[test]
fn a_frame_that_has_begun_is_given_to_its_end_when_the_link_goes_down() {
    for at in 0..40 {
        let mut bench = bench(220 + at);
        let frames: Vec<Vec<u8>> = (0..3).map(|_| bytes(&mut bench.rng, 1400)).collect();
        frames.iter().for_each(|frame| bench.send(frame));
        bench.run(60 + at);
        bench.sim.set("stat_aligned", 0);
        bench.drain();
        let sent = bench.sent.len();
        assert!(bench.sent == frames[..sent], "a frame was cut");
        assert_eq!((sent as u64, 3 - sent as u64), (bench.counts["tx_good"], bench.counts["tx_no_link"]));
    }
}

/// Of a frame that a reset of the block has cut, no tail is sent as if it were a frame.
#[test]
fn a_reset_of_the_block_loses_the_frame_under_way_and_no_other() {
    // The core may break its promise too: stand still, as long as the reset at least.
    for (at, stands) in (0..120).map(|at| (at / 2, at % 2 == 1)) {
        let mut bench = bench(300 + at);
        bench.stalls.ready = 0.3;
        bench.may_spoil = stands;
        let frames: Vec<Vec<u8>> = (0..6).map(|_| bytes(&mut bench.rng, 1400)).collect();
        frames[..3].iter().for_each(|frame| bench.send(frame));
        bench.run(60 + at);
        if stands {
            bench.stalls.breaks = 1.0;
            bench.run(at % 30);
        }
        bench.sim.set("stat_tx_reset", 1);
        bench.blocked = true;
        // From the edge that the adapter sees it at nothing is looked at.
        bench.run(1);
        bench.forget_sending();
        for _ in 0..20 {
            bench.step();
            bench.forget_sending();
        }
        bench.sim.set("stat_tx_reset", 0);
        bench.blocked = false;
        bench.run(at % 3 * 10);
        bench.stalls.breaks = 0.0;
        bench.drain();
        frames[3..].iter().for_each(|frame| bench.send(frame));
        bench.drain();
        let n = bench.sent.len();
        assert!(bench.sent[n - 3..] == frames[3..], "what came later");
        for frame in &bench.sent[..n - 3] {
            assert!(frames[..3].contains(frame), "at {at}: a tail was sent as a frame");
        }
    }
}

/// The head of one frame and the tail of another are not one good frame.
#[test]
fn a_frame_that_the_link_has_cut_never_reaches_the_core() {
    let mut seen = 0;
    for at in 0..40 {
        let mut bench = bench(400 + at);
        let frames: Vec<Vec<u8>> = (0..8).map(|_| bytes(&mut bench.rng, 1400)).collect();
        for frame in &frames[..4] {
            bench.arrivals.push_back(Arrival { frame: frame.clone(), bad: false, gap: 2 });
        }
        bench.run(10 + at);
        let port = if bench.rng.random_bool(0.5) { "stat_rx_reset" } else { "stat_aligned" };
        let down = u64::from(port == "stat_rx_reset");
        bench.sim.set(port, down);
        // The block goes on with what it has, or with nothing.
        if bench.rng.random_bool(0.5) {
            bench.lose_arrivals();
        }
        bench.drain();
        bench.sim.set(port, 1 - down);
        bench.run(10);
        for frame in &frames[4..] {
            bench.arrivals.push_back(Arrival { frame: frame.clone(), bad: false, gap: 20 });
        }
        bench.drain();
        let n = bench.received.len();
        assert!(n >= 4 && bench.received[n - 4..] == frames[4..], "what came later");
        assert!(bench.received[..n - 4] == frames[..n - 4], "what had come whole");
        assert_eq!(bench.counts["rx_good"], n as u64);
        seen += bench.counts["rx_cut"];
    }
    assert!(seen > 10, "{seen} frames were cut");
}

/// A host that restarts resets the core and the adapter at any time; the block, its link and the peer go on.
#[test]
fn a_reset_of_the_host_leaves_the_link_up_and_ends_the_frame_under_way_as_a_bad_one() {
    let mut spoiled = 0;
    for at in 0..60 {
        let mut bench = bench(500 + at);
        bench.stalls.ready = 0.3;
        let frames: Vec<Vec<u8>> = (0..6).map(|_| bytes(&mut bench.rng, 1400)).collect();
        frames[..3].iter().for_each(|frame| bench.send(frame));
        bench.run(60 + at);
        let cycles = bench.rng.random_range(2..40);
        bench.host_reset(cycles);
        bench.drain();
        assert_eq!(told(&mut bench), [1, 0, 0, 1]);
        frames[3..].iter().for_each(|frame| bench.send(frame));
        bench.drain();
        let n = bench.sent.len();
        assert!(bench.sent[n - 3..] == frames[3..], "what came later");
        assert!(bench.sent[..n - 3] == frames[..n - 3], "at {at}: a part was sent as a frame");
        assert!(bench.spoiled <= 1);
        spoiled += bench.spoiled;
    }
    assert!(spoiled > 20, "{spoiled} frames were under way");
}

#[test]
fn of_a_frame_that_comes_in_a_reset_of_the_host_no_part_is_taken_as_a_frame() {
    let mut cut = 0;
    for at in 0..80 {
        let mut bench = bench(600 + at);
        let frames: Vec<Vec<u8>> = (0..8).map(|_| bytes(&mut bench.rng, 1400)).collect();
        for frame in &frames {
            bench.arrivals.push_back(Arrival { frame: frame.clone(), bad: false, gap: 2 });
        }
        bench.run(10 + at);
        let cycles = bench.rng.random_range(2..40);
        bench.host_reset(cycles);
        bench.drain();
        assert!(bench.received.iter().all(|frame| frames.contains(frame)), "at {at}: a part is a frame");
        // After the reset nothing is lost but the frame that it has cut.
        let after =
            bench.received.iter().rev().zip(frames.iter().rev()).take_while(|(one, other)| one == other);
        let after = after.count();
        assert!(after >= 2 && bench.received.last() == frames.last(), "at {at}: {after}");
        cut += frames.len() - bench.received.len();
    }
    assert!(cut > 60, "{cut} frames were cut");
}

/// The watchdog's wait is longer than a test: its own tests look at what it does.
#[test]
fn a_receiver_that_is_aligned_is_not_reset() {
    let mut bench = bench(700);
    bench.run(2000);
    assert_eq!(bench.sim.get("ctl_rx_datapath_reset"), 0);
}

#[test]
fn the_watchdog_waits_for_eight_tenths_of_a_second() {
    let verilog = built(&config()).verilog();
    let counter = verilog.lines().find(|line| line.contains("waited")).expect("its counter");
    let high = counter.split_once('[').and_then(|(_, rest)| rest.split_once(':')).expect("a range").0;
    let seconds = f64::from(1u32 << (high.parse::<u32>().unwrap() + 1)) / 322.265_625e6;
    assert!((0.8..0.9).contains(&seconds), "{seconds} s: {counter}");
}

/// For registers: each bit, and each pulse once, however the two clocks stand to each other.
#[test]
fn what_the_block_says_of_its_link_reaches_the_core_and_every_code_word_is_counted() {
    for (core, block) in [(CORE, BLOCK), (BLOCK - 7, BLOCK), (1_700_001, BLOCK)] {
        let mut bench = Bench::new(&built(&config()), core, block, random(710));
        bench.sim.set("stat_aligned", 0);
        bench.run(20);
        for name in ["aligned", "local_fault", "remote_fault", "high_ber", "rx_reset", "tx_reset"] {
            let health = format!("health_{name}");
            assert_eq!(bench.sim.get(&health), 0, "{name}");
            bench.sim.set(&format!("stat_{name}"), 1);
            bench.run(20);
            assert_eq!(bench.sim.get(&health), 1, "{name}");
            bench.sim.set(&format!("stat_{name}"), 0);
            bench.run(20);
        }
        let mut wanted = [0u64; 2];
        for _ in 0..3000 {
            for (name, wanted) in ["fec_corrected", "fec_uncorrected"].into_iter().zip(&mut wanted) {
                let pulse = bench.rng.random_bool(0.4);
                bench.sim.set(&format!("stat_{name}"), pulse.into());
                *wanted += u64::from(pulse);
            }
            bench.run(1);
        }
        ["stat_fec_corrected", "stat_fec_uncorrected"].iter().for_each(|port| bench.sim.set(port, 0));
        bench.run(20);
        let counted = ["health_fec_corrected", "health_fec_uncorrected"].map(|port| bench.sim.get(port));
        assert_eq!(counted, wanted);
    }
}
