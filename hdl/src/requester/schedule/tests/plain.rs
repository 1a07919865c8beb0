// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is granted what, and when.

use super::*;

#[test]
fn every_wqe_is_granted_once_in_order_within_all_limits() {
    for seed in 1..=4 {
        let mut bench = Bench::new(seed);
        for _ in 0..400 {
            if bench.random.chance(0.05) {
                bench.stall = [0.0, 0.3, 0.8][bench.random.rng.random_range(0..3)];
                bench.returning = [0.05, 0.5, 1.0][bench.random.rng.random_range(0..3)];
            }
            let qp = bench.random.rng.random_range(0..QPS);
            match bench.random.rng.random_range(0..10) {
                0..=3 => {
                    let more = bench.random.rng.random_range(0..30);
                    bench.ring(qp, more);
                }
                4 | 5 => {
                    let by = bench.random.rng.random_range(0..=bench.qps[qp].floor());
                    let oldest = bench.qps[qp].oldest.wrapping_add(by);
                    bench.oldest(qp, oldest);
                    bench.kick(qp);
                }
                6 => bench.sources[KICK].push_values(&[("qp", qp as u128)]),
                7 => {
                    // Back to something that was granted, be it to stay there.
                    let q = &bench.qps[qp];
                    let span = q.due.wrapping_sub(q.oldest);
                    if span != 0 && (q.held || q.rewind.is_none()) {
                        let to = q.oldest.wrapping_add(bench.random.rng.random_range(0..span));
                        let hold = !bench.qps[qp].held && bench.random.chance(0.3);
                        bench.resume(qp, to, hold);
                    }
                }
                8 => {
                    let plenty = bench.random.chance(0.7);
                    bench.sim.set("plenty", plenty.into());
                    let state = if bench.random.chance(0.3) { QpState::Sqd } else { QpState::Rts };
                    bench.state(qp, state);
                    bench.kick(qp);
                }
                9 if bench.random.chance(0.2) => {
                    bench.state(qp, QpState::Reset);
                    bench.start(qp);
                }
                _ => {}
            }
            for _ in 0..bench.random.rng.random_range(1..20) {
                bench.step();
            }
        }
        for qp in 0..QPS {
            bench.state(qp, QpState::Rts);
            if bench.qps[qp].held {
                let oldest = bench.qps[qp].oldest;
                bench.resume(qp, oldest, false);
            }
        }
        bench.settle();
        for (i, qp) in bench.qps.iter().enumerate() {
            assert_eq!(qp.due, qp.producer, "seed {seed}: QP {i} was not served to its end");
            assert_eq!(qp.rewind, None, "seed {seed}: a rewind of QP {i} was lost");
        }
        bench.check_reads();
        assert!(bench.tokens > QPS, "seed {seed}");
        assert!(bench.sinks[FLUSH].items.is_empty(), "seed {seed}");
    }
}

#[test]
fn a_broken_queue_pair_is_flushed_up_to_its_producer_and_starts_anew_at_0() {
    for seed in 11..=14 {
        let mut bench = Bench::new(seed);
        for round in 0..12 {
            bench.stall = [0.0, 0.4][round % 2];
            for qp in 0..QPS {
                let more = bench.random.rng.random_range(0..60);
                bench.ring(qp, more);
            }
            bench.steps_up_to(60);
            let broken = bench.random.rng.random_range(0..QPS);
            bench.state(broken, QpState::Err);
            bench.kick(broken);
            let others = bench.random.rng.random_range(0..QPS);
            bench.ring(others, 3);
            bench.settle();
            let flushes = &bench.sinks[FLUSH].items;
            let last = flushes.iter().rfind(|f| f["qp"].to_u64() == broken as u64);
            let producer = last.map(|f| f["producer"].to_u64() as u16);
            assert_eq!(producer, Some(bench.qps[broken].producer), "seed {seed}");
            assert!(flushes.iter().all(|f| f["qp"].to_u64() == broken as u64), "seed {seed}");
            let grants = bench.sinks[GRANT].items.len();
            bench.ring(broken, 5);
            bench.settle();
            let after = &bench.sinks[GRANT].items[grants..];
            assert!(after.is_empty(), "seed {seed}: a broken QP was granted {after:?}");
            // All its WQEs fall out; nobody else notices.
            bench.sinks[FLUSH].clear();
            bench.state(broken, QpState::Reset);
            bench.start(broken);
            let grants = bench.sinks[GRANT].items.len();
            bench.ring(broken, 7);
            bench.settle();
            let first = bench.sinks[GRANT].items[grants..].first().map(|g| g["index"].to_u64());
            assert_eq!(first, Some(0), "seed {seed}");
            for (i, qp) in bench.qps.iter().enumerate() {
                assert_eq!(qp.due, qp.producer, "seed {seed}: QP {i}");
            }
            assert!(bench.sinks[FLUSH].items.is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn a_queue_pair_with_work_waits_for_one_grant_of_each_other() {
    let mut bench = Bench::new(21);
    let from = bench.sinks[GRANT].items.len();
    bench.returning = 1.0;
    for qp in 0..QPS {
        bench.ring(qp, 16);
    }
    bench.steps(800);
    let qps = bench.sinks[GRANT].values("qp").split_off(from);
    let each: Vec<usize> = bench.qps.iter().map(|q| 16 / (4 >> q.stride).max(1)).collect();
    assert!(qps.len() >= each.iter().sum(), "{qps:?}");
    // Once all stand in the line: between two grants of one there is one of each that still has work.
    for (from, qp) in qps.iter().enumerate().skip(QPS) {
        let Some(to) = (from + 1..qps.len()).find(|i| qps[*i] == *qp) else { continue };
        for other in (0..QPS as u64).filter(|other| other != qp) {
            let served = qps[..from].iter().filter(|q| **q == other).count() >= each[other as usize];
            assert!(served || qps[from..to].contains(&other), "QP {other} is passed over: {qps:?}");
        }
    }
}

#[test]
fn a_flood_of_events_does_not_keep_the_others_from_their_grants() {
    let mut bench = Bench::small(22);
    bench.returning = 1.0;
    for qp in 1..QPS {
        bench.ring(qp, 16);
    }
    for _ in 0..600 {
        bench.ring(0, 0);
        bench.kick(0);
    }
    bench.steps(400);
    for qp in 1..QPS {
        assert_eq!(bench.qps[qp].due, 16, "QP {qp} waits for a flood of others' events to end");
    }
}

#[test]
fn a_flood_of_doorbells_does_not_keep_the_completer_waiting() {
    let mut bench = Bench::small(23);
    bench.returning = 1.0;
    (0..300).for_each(|_| bench.ring(0, 0));
    (1..QPS).for_each(|qp| bench.kick(qp));
    bench.steps(130);
    assert_eq!(bench.sources[KICK].left(), 0, "a kick has every second turn");
    assert!(bench.sources[DOORBELL].left() > 200, "the flood goes on");
}

#[test]
fn events_are_taken_within_bounded_time_whatever_the_takers_do() {
    for seed in 31..=34 {
        let mut bench = Bench::new(seed);
        for sink in &mut bench.sinks {
            sink.stall = Some(1.0);
        }
        bench.returning = 0.0;
        for qp in [1, 4] {
            bench.state(qp, QpState::Err);
        }
        // A start that does not arrive.
        bench.sources[START].push_values(&[("qp", 6)]);
        bench.steps(20);
        let mut waited = 0;
        for _ in 0..3000 {
            if bench.sources[1..].iter().all(|s| s.left() == 0) {
                waited = 0;
                let qp = bench.random.rng.random_range(0..QPS) as u128;
                match bench.random.rng.random_range(0..3) {
                    0 => bench.ring(qp as usize, 9),
                    1 => bench.kick(qp as usize),
                    _ => {
                        let hold = bench.random.rng.random();
                        bench.resume(qp as usize, 0, hold);
                    }
                }
            }
            bench.step();
            waited += 1;
            // Behind another one and a grant.
            let most = if bench.cfg.unhurried() { 9 } else { 7 };
            assert!(waited <= most, "seed {seed}: an event waits for {waited} cycles");
        }
    }
}

#[test]
fn who_else_waits_is_told_while_work_of_another_stands_in_line() {
    let mut bench = Bench::new(41);
    bench.sinks[GRANT].stall = Some(1.0);
    bench.ring(3, 4);
    bench.steps(20);
    assert_eq!(bench.sim.get_bits("waiting_any"), Bits::new(1, 0));
    let fields = ["waiting_any", "waiting_others"];
    let values = |bench: &mut Bench| fields.map(|field| bench.sim.get(field));
    let alone = values(&mut bench);
    bench.ring(5, 40);
    bench.steps(20);
    let [any, others] = values(&mut bench);
    assert!(any + others > 0 && alone[0] == 0, "{alone:?}, {any} {others}");
}

/// From when they are asked for until the first of them stands behind the WQEs of nobody else.
#[test]
fn wqes_that_are_on_their_way_wait_until_they_arrive() {
    let mut bench = Bench::small(42);
    (bench.returning, bench.tells) = (1.0, false);
    let others = |bench: &mut Bench| {
        bench.steps(40);
        assert_eq!(bench.sim.get("waiting_any"), 0, "nobody stands in line");
        bench.sim.get("waiting_others")
    };
    let told = |bench: &mut Bench| {
        assert!(bench.arrivals > 0);
        bench.tells = true;
        bench.step();
        bench.tells = false;
        others(bench)
    };
    bench.ring(3, 2);
    assert_eq!(others(&mut bench), 1);
    assert_eq!(told(&mut bench), 0);
    bench.ring(3, 2);
    assert_eq!((others(&mut bench), bench.arrivals), (0, 0), "more of the same");
    bench.ring(5, 2);
    assert_eq!(others(&mut bench), 1);
    bench.ring(3, 2);
    assert_eq!(others(&mut bench), 1);
    assert_eq!(told(&mut bench), 1, "one of two");
    assert_eq!(told(&mut bench), 0);
}
