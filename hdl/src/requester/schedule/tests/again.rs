// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts, holds, queues that drain, and what is sent again.

use super::*;

#[test]
fn a_start_goes_out_behind_what_was_granted_before_and_only_where_there_is_room() {
    let mut bench = Bench::small(51);
    bench.returning = 0.0;
    bench.sinks[GRANT].stall = Some(1.0);
    let from = bench.sinks[GRANT].items.len();
    bench.ring(2, 12);
    bench.ring(3, 9);
    bench.steps(60);
    bench.state(2, QpState::Reset);
    bench.sinks[GRANT].stall = None;
    bench.announce(2);
    // After the token nothing of the former life may come: the bench has forgotten it.
    bench.steps(100);
    let items = &bench.sinks[GRANT].items;
    let token = items[from..].iter().position(|g| !g["start"].is_zero()).expect("a start") + from;
    assert_eq!(token, items.len() - 1);
    assert_eq!(bench.granted(from, 2), (0..12).collect::<Vec<_>>());
    assert_eq!(bench.granted(from, 3), (0..9).collect::<Vec<_>>());
    bench.arrive(2);
    // Without places no start; everybody's events are taken nevertheless.
    for qp in 4..QPS {
        bench.ring(qp, 16);
    }
    bench.steps(200);
    bench.state(1, QpState::Reset);
    let tokens = bench.tokens;
    bench.starting = Some((1, Qp { log2: 5, ..Qp::default() }));
    bench.sources[START].push_values(&[("qp", 1)]);
    for _ in 0..30 {
        bench.kick(0);
        bench.ring(4, 1);
        bench.steps(10);
        assert_eq!(bench.sources[KICK].left() + bench.sources[DOORBELL].left(), 0);
    }
    assert_eq!(bench.tokens, tokens, "a start without places");
    bench.returning = 1.0;
    bench.steps(100);
    assert_eq!(bench.tokens, tokens + 1);
    bench.arrive(1);
}

#[test]
fn nothing_of_a_former_life_is_left_after_a_reset_and_after_a_start() {
    for seed in 52..=55 {
        let mut bench = Bench::new(seed);
        for round in 0..20 {
            bench.stall = [0.0, 0.4][round % 2];
            let qp = bench.random.rng.random_range(0..QPS);
            let more = bench.random.rng.random_range(1..30);
            bench.ring(qp, more);
            bench.steps_up_to(80);
            while bench.sources[DOORBELL].left() > 0 {
                bench.step();
            }
            if bench.random.rng.random() {
                let oldest = bench.qps[qp].oldest;
                let hold = bench.random.rng.random();
                bench.resume(qp, oldest, hold);
                bench.steps(20);
            }
            bench.state(qp, QpState::Reset);
            // The next command does not come in the same cycles.
            bench.steps(12);
            bench.state(qp, QpState::Init);
            let broken = bench.random.chance(0.5);
            if broken {
                bench.state(qp, QpState::Err);
                bench.kick(qp);
                bench.steps(200);
                // Twice where it stood in the line already.
                let flushes = bench.sinks[FLUSH].items.split_off(0);
                assert!((1..=2).contains(&flushes.len()), "seed {seed}: {flushes:?}");
                for flush in flushes {
                    let found = (flush["qp"].to_u64(), flush["producer"].to_u64());
                    assert_eq!(found, (qp as u64, 0), "seed {seed}");
                }
                bench.state(qp, QpState::Reset);
            }
            bench.announce(qp);
            // A doorbell and a resume that come too late.
            let late = bench.random.rng.random_range(1..9);
            bench.sources[DOORBELL].push_values(&[("qp", qp as u128), ("producer", late)]);
            let fields = [("qp", qp as u128), ("index", late - 1), ("hold", u128::from(!broken))];
            bench.sources[RESUME].push_values(&fields);
            bench.arrive(qp);
            let from = bench.sinks[GRANT].items.len();
            bench.kick(qp);
            bench.steps(100);
            assert_eq!(bench.granted(from, qp), [], "seed {seed}");
            // In SQD nothing: nothing of this life was granted.
            bench.state(qp, QpState::Sqd);
            bench.ring(qp, 7);
            bench.steps(100);
            assert_eq!(bench.granted(from, qp), [], "seed {seed}");
            bench.state(qp, QpState::Rts);
            bench.settle();
            assert_eq!(bench.granted(from, qp), (0..7).collect::<Vec<_>>(), "seed {seed}");
        }
        bench.check_reads();
    }
}

#[test]
fn the_tables_are_cleared_after_a_reset_whatever_they_held() {
    let mut bench = Bench::new(56);
    for round in 0..4 {
        // Much is rung for, some is granted, some is held.
        bench.returning = 0.02;
        for qp in 0..QPS {
            bench.ring(qp, 30);
        }
        for _ in 0..20 {
            bench.steps_up_to(10);
            let qp = bench.random.rng.random_range(0..QPS);
            let q = &bench.qps[qp];
            if q.due != q.oldest && q.rewind.is_none() {
                let (oldest, hold) = (q.oldest, bench.random.rng.random());
                bench.resume(qp, oldest, hold);
            }
        }
        bench.sim.reset();
        (bench.sources, bench.sinks) = (sources(&bench.cfg), sinks(&bench.cfg));
        (bench.places, bench.seen, bench.last_qp) = (0, 0, 0);
        (bench.returning, bench.queues) = (1.0, Vec::new());
        // What comes meanwhile waits.
        bench.kick(round);
        for cycle in 0..QPS {
            assert_eq!(bench.sources[KICK].left(), 1, "taken in cycle {cycle}");
            bench.step();
        }
        bench.steps(5);
        assert_eq!(bench.sources[KICK].left(), 0);
        for qp in 0..QPS {
            bench.qps[qp] = Qp { log2: 5, ..Qp::default() };
            bench.oldest(qp, 0);
            let broken = (qp + round) % 3 == 0;
            bench.state(qp, if broken { QpState::Err } else { QpState::Rts });
            bench.kick(qp);
        }
        bench.steps(300);
        assert!(bench.sinks[GRANT].items.is_empty(), "{:?}", bench.sinks[GRANT].items);
        let flushed = bench.sinks[FLUSH].values("producer");
        assert!(!flushed.is_empty() && flushed.iter().all(|producer| *producer == 0), "{flushed:?}");
        // Nobody is held.
        bench.sinks[FLUSH].clear();
        for qp in 0..QPS {
            bench.state(qp, QpState::Reset);
            bench.start(qp);
            bench.ring(qp, 5);
        }
        bench.settle();
        for qp in 0..QPS {
            assert_eq!(bench.granted(0, qp), (0..5).collect::<Vec<_>>(), "QP {qp}");
        }
    }
}

#[test]
fn a_queue_pair_that_holds_gets_nothing_until_it_is_told_to_go_on() {
    let mut bench = Bench::new(61);
    bench.returning = 1.0;
    bench.ring(3, 14);
    bench.steps(100);
    assert_eq!(bench.qps[3].due, 14);
    bench.resume(3, 4, true);
    bench.steps(10);
    let from = bench.sinks[GRANT].items.len();
    bench.oldest(3, 3);
    for _ in 0..10 {
        bench.ring(3, 1);
        bench.kick(3);
        bench.ring(5, 1);
        bench.steps(30);
    }
    assert_eq!(bench.granted(from, 3), []);
    assert_eq!(bench.granted(from, 5), (0..10).collect::<Vec<_>>());
    // Held once more, then released: up to as many as may be under way.
    bench.resume(3, 3, true);
    bench.steps(50);
    assert_eq!(bench.granted(from, 3), []);
    bench.resume(3, 6, false);
    bench.steps(100);
    assert_eq!(bench.granted(from, 3), (6..19).collect::<Vec<_>>());
    // An error is told in spite of it.
    bench.resume(3, 5, true);
    bench.state(3, QpState::Err);
    bench.kick(3);
    bench.steps(50);
    assert_eq!(bench.sinks[FLUSH].values("producer").last(), Some(&24));
    assert_eq!(bench.granted(from, 3).len(), 13);
}

#[test]
fn a_queue_that_drains_is_fetched_again_up_to_what_was_fetched_once() {
    let mut bench = Bench::new(62);
    bench.returning = 1.0;
    bench.ring(5, 9);
    bench.steps(100);
    let mut high = 9;
    for _ in 0..8 {
        bench.state(5, QpState::Sqd);
        let from = bench.sinks[GRANT].items.len();
        bench.ring(5, 4);
        bench.kick(5);
        bench.steps(60);
        assert_eq!(bench.granted(from, 5), []);
        let back = bench.random.rng.random_range(1..6);
        bench.resume(5, high - back, false);
        bench.steps(60);
        bench.kick(5);
        bench.steps(60);
        let again: Vec<u64> = ((high - back).into()..high.into()).collect();
        assert_eq!(bench.granted(from, 5), again);
        // Back without being served before it goes on.
        let hold = bench.random.rng.random();
        if hold {
            bench.resume(5, high - 1, true);
            bench.steps(20);
            bench.resume(5, high - 1, false);
        }
        bench.oldest(5, high - 1);
        bench.state(5, QpState::Rts);
        bench.kick(5);
        bench.steps(60);
        let producer = bench.qps[5].producer;
        assert_eq!((bench.qps[5].due, producer), (high + 4, high + 4));
        bench.qps[5].rewind = None;
        high = producer;
    }
}

#[test]
fn what_is_done_meanwhile_is_not_granted_again() {
    for seed in 63..=66 {
        let mut bench = Bench::new(seed);
        bench.overtaking = true;
        bench.returning = 1.0;
        let mut skipped = 0;
        for _ in 0..600 {
            let qp = bench.random.rng.random_range(0..4);
            let more = bench.random.rng.random_range(0..12);
            bench.ring(qp, more);
            bench.steps_up_to(40);
            let q = &bench.qps[qp];
            let span = q.due.wrapping_sub(q.oldest);
            if span == 0 || q.rewind.is_some() {
                continue;
            }
            let (oldest, due) = (q.oldest, q.due);
            let to = oldest.wrapping_add(bench.random.rng.random_range(0..span));
            bench.resume(qp, to, false);
            bench.steps_up_to(12);
            // All that was granted may be done before it is fetched again.
            let by = bench.random.rng.random_range(0..=span);
            bench.oldest(qp, oldest.wrapping_add(by));
            bench.kick(qp);
            bench.steps(200);
            let q = &mut bench.qps[qp];
            skipped += u32::from(q.rewind.take().is_some() || by > to.wrapping_sub(oldest));
            // All that was left may be done.
            if q.oldest.wrapping_sub(q.due) >> 15 == 0 {
                q.due = q.oldest;
            }
            assert!(q.due.wrapping_sub(due) >> 15 == 0, "seed {seed}: QP {qp} stays behind");
        }
        assert!(skipped > 50, "seed {seed}: {skipped}");
        bench.settle();
        for (i, qp) in bench.qps.iter().enumerate() {
            assert_eq!(qp.due, qp.producer, "seed {seed}: QP {i}");
        }
        bench.check_reads();
    }
}

#[test]
fn a_queue_that_drains_and_was_overtaken_ends_where_it_was() {
    let mut bench = Bench::new(67);
    (bench.returning, bench.overtaking) = (1.0, true);
    bench.ring(1, 10);
    bench.steps(60);
    bench.state(1, QpState::Sqd);
    bench.ring(1, 3);
    // Held meanwhile, so that it comes late for sure.
    bench.resume(1, 2, true);
    bench.steps(20);
    bench.oldest(1, 7);
    let from = bench.sinks[GRANT].items.len();
    bench.resume(1, 2, false);
    bench.steps(60);
    assert_eq!(bench.granted(from, 1), [7, 8, 9]);
    bench.state(1, QpState::Rts);
    bench.kick(1);
    bench.steps(60);
    assert_eq!(bench.granted(from, 1), [7, 8, 9, 10, 11, 12]);
}

#[test]
fn where_there_is_no_plenty_everybody_gets_one_and_the_rest_when_there_is_again() {
    let mut bench = Bench::small(71);
    bench.returning = 1.0;
    bench.ring(6, 3);
    bench.steps(60);
    bench.sim.set("plenty", 0);
    let from = bench.sinks[GRANT].items.len();
    for qp in [1, 2, 6] {
        bench.ring(qp, 8);
    }
    bench.steps(200);
    let granted = |bench: &Bench| [1, 2, 6].map(|qp| bench.granted(from, qp));
    assert_eq!(granted(&bench), [vec![0], vec![0], vec![]]);
    // They stay in line: nobody need kick them when their first is done ..
    for index in 1..4 {
        bench.oldest(2, index);
        bench.steps(50);
        assert_eq!(granted(&bench), [vec![0], (0..=index.into()).collect(), vec![]]);
    }
    // .. nor one that goes back to what is under way, but for its oldest.
    bench.resume(2, 3, false);
    bench.steps(50);
    assert_eq!(granted(&bench)[1], [0, 1, 2, 3, 3]);
    // .. nor when there is plenty again.
    bench.sim.set("plenty", 1);
    bench.steps(60);
    let all = [(0..8).collect(), vec![0, 1, 2, 3, 3, 4, 5, 6, 7], (3..11).collect()];
    assert_eq!(granted(&bench), all);
}
