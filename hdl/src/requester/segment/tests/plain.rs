// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is sent once.

use super::*;

#[test]
fn packets_are_those_of_the_specification_and_broken_wqes_come_out_once_with_their_cause() {
    for (seed, beat_bytes) in [(1, 8), (2, 64), (3, 64)] {
        let mut bench = Bench::new(seed, beat_bytes);
        for _ in 0..200 {
            let qp = bench.random.rng.random_range(0..QPS);
            let wqe = bench.any(qp);
            bench.post(qp, wqe);
            if bench.random.chance(0.2) {
                // Fetched twice: stale when it comes, for its turn is over.
                let index = bench.random.rng.random_range(0..bench.qps[qp].wqes.len() as u16);
                bench.hand(qp, index);
            }
            let (stall, others) =
                ([0.0, 0.3, 0.7][bench.random.rng.random_range(0..3)], bench.random.chance(0.5));
            for _ in 0..bench.random.rng.random_range(1..60) {
                bench.step(stall, others);
            }
        }
        bench.settle();
        bench.check_all_sent();
        assert_eq!(bench.again, 0, "seed {seed}");
        assert!(bench.packets > 300 && bench.yields > 0, "seed {seed}: {}", bench.packets);
    }
}

#[test]
fn messages_behind_each_other_share_the_quantum_while_others_wait() {
    for beat_bytes in [8, 64] {
        // How many messages pass before others wait.
        for (alone, turns) in [(0, 3), (4, 2), (5, 1), (9, 0), (13, 0)] {
            let mut bench = Bench::new(7, beat_bytes);
            bench.start(0, 5);
            for _ in 0..13 {
                let wqe = bench.sound(4_096);
                bench.post(0, wqe);
            }
            while !bench.under_way.is_empty() {
                let others = bench.qps[0].at.index >= alone;
                bench.step(0.0, others);
            }
            bench.check_all_sent();
            // Four messages a turn.
            assert_eq!((bench.gave_way, bench.yields), (turns, 0), "{beat_bytes}, {alone}");
        }
    }
}

#[test]
fn what_has_nothing_due_is_no_turn() {
    for beat_bytes in [8, 64] {
        let mut bench = Bench::new(8, beat_bytes);
        bench.start(0, 5);
        bench.start(1, 5);
        let wqe = bench.sound(4_096);
        bench.post(1, wqe);
        while !bench.under_way.is_empty() {
            bench.step(0.0, false);
        }
        for _ in 0..8 {
            let wqe = bench.sound(4_096);
            bench.post(0, wqe);
            // Of another, that it has sent.
            bench.hand(1, 0);
        }
        while !bench.under_way.is_empty() {
            bench.step(0.0, true);
        }
        bench.check_all_sent();
        // Four go before the others have their turn, and what was fetched behind them is not due any more.
        assert_eq!((bench.stale >= 8, bench.gave_way), (true, 1), "{beat_bytes}");
    }
}

#[test]
fn the_longest_message_asks_for_acknowledgements_on_its_way() {
    let mut bench = Bench::new(4, 64);
    bench.start(0, 5);
    let wqe = bench.sound(1 << 31);
    bench.post(0, wqe);
    for _ in 0..(1 << ACK_BITS) / 4096 * 2 + 20 {
        bench.step(0.0, false);
    }
    let asked: Vec<u64> = bench.sinks[CANDIDATE]
        .items
        .iter()
        .filter(|p| p["packet_start"].is_zero())
        .enumerate()
        .filter(|(_, p)| !p["packet_ack_req"].is_zero())
        .map(|(i, _)| i as u64 * 4096)
        .collect();
    assert_eq!(asked, [1 << 24, 2 << 24]);
}

#[test]
fn a_queue_pair_that_starts_anew_begins_at_its_first_wqe_wherever_it_stopped() {
    let mut bench = Bench::new(5, 64);
    for round in 0..10 {
        let mtu = bench.random.rng.random_range(1..6);
        bench.start(1, mtu);
        let wqe = bench.sound(40_000);
        bench.post(1, wqe.clone());
        // It yields inside the message, and nobody fetches that again; or it is to hold.
        bench.refetch = false;
        while !bench.under_way.is_empty() {
            bench.step(0.2, true);
        }
        let stopped = bench.qps[1].at;
        assert!(stopped.index == 0 && stopped.psn != stopped.first_psn, "{stopped:?}");
        if round % 2 == 1 {
            bench.restart(1, true);
            bench.settle();
        }
        bench.refetch = true;
        bench.start(1, mtu);
        let psn = bench.qps[1].at.psn;
        bench.post(1, wqe);
        while !bench.under_way.is_empty() {
            bench.step(0.2, false);
        }
        let packets = 40_000u32.div_ceil(128 << mtu);
        assert_eq!((bench.qps[1].at.index, bench.qps[1].at.psn), (1, (psn + packets) & 0xff_ffff));
    }
}

#[test]
fn what_falls_out_right_behind_a_start_gives_its_place_back() {
    let mut bench = Bench::new(6, 64);
    bench.refetch = false;
    let wqe = bench.sound(100);
    bench.post(2, wqe);
    bench.settle();
    bench.sources[FETCHED].push_values(&[("qp", 1), ("start", 1)]);
    let psn = bench.qps[1].at.psn;
    bench.sim.set("starting_psn", psn.into());
    bench.starting = bench.qps[1].clone();
    bench.under_way.push_back((1, None));
    bench.hand(2, 0);
    bench.settle();
    assert_eq!(bench.stale, 1);
}
