// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flushes: in turns, in order, and no longer than the QP is in the error state.

use super::*;

fn large(seed: u64) -> Bench {
    let mut bench = bench_of(&config(256, 128), seed, 0.0);
    bench.steps(2 * QPS);
    bench
}

impl Bench {
    fn indices(&self, qp: usize) -> Vec<u16> {
        self.completions_of(qp).iter().map(|done| done.2).collect()
    }
}

#[test]
fn others_have_their_turn_between_sixteen_completions() {
    let mut bench = large(80);
    (0..3).for_each(|qp| bench.start(qp));
    bench.send(1, 100);
    bench.send(2, 1);
    bench.flush(0, 300);
    bench.flush(2, 200);
    bench.taken(FLUSH);
    bench.steps(40);
    let first = bench.sources[ANSWER].cycles.len();
    for n in 0..20 {
        let psn = (bench.qps[1].oldest_psn + n) % MODULUS;
        bench.answer(1, psn, ACK);
    }
    bench.taken(ANSWER);
    assert!(bench.indices(0).len() < 300 && bench.indices(2).len() < 201, "the flushes are under way");
    let taken = &bench.sources[ANSWER].cycles[first..];
    let most = taken.windows(2).map(|w| w[1] - w[0]).max().unwrap();
    // Beats are narrow here: a completion takes two cycles.
    assert!((33..=44).contains(&most), "{most} cycles");
    bench.compare();
    assert_eq!(bench.indices(0), (0..300).collect::<Vec<_>>());
    assert_eq!(bench.indices(2), (0..201).collect::<Vec<_>>());
    let qpns = bench.sinks[COMPLETION].values("qpn");
    let turns = qpns.windows(2).filter(|w| w[0] != w[1]).count();
    assert!(turns > 20, "they take turns: {turns}");
    bench.end();
}

#[test]
fn a_flush_is_exact_whatever_its_length() {
    for n in [0, 1, 15, 16, 17, 31, 32, 33, 64] {
        for under_way in [0, 1, 5] {
            let mut bench = large(81);
            bench.start(3);
            bench.send(3, under_way);
            bench.flush(3, n);
            bench.compare();
            assert_eq!(bench.indices(3), (0..under_way as u16 + n).collect::<Vec<_>>());
            assert_eq!(bench.freed, under_way);
            bench.end();
        }
    }
}

#[test]
fn a_later_flush_extends_the_one_that_is_under_way() {
    for wait in [0, 5, 12, 20, 33, 47, 60, 90, 200] {
        let mut bench = large(82);
        bench.start(3);
        bench.send(3, 4);
        bench.flush(3, 40);
        bench.taken(FLUSH);
        bench.steps(wait);
        // The producer has moved on meanwhile.
        let q = &mut bench.qps[3];
        for _ in 0..30 {
            q.done.push((0, 0, q.oldest_index, WcStatus::WrFlushErr.code(), 0));
            q.oldest_index += 1;
        }
        bench.flush_pushed(3, 74);
        bench.compare();
        assert_eq!(bench.indices(3), (0..74).collect::<Vec<_>>());
        bench.end();
    }
}

#[test]
fn a_reset_stops_a_flush() {
    for wait in [0, 9, 22, 40, 51, 70] {
        let mut bench = large(83);
        bench.start(3);
        bench.send(3, 4);
        bench.set_state(3, QpState::Err);
        bench.flush_pushed(3, 400);
        bench.taken(FLUSH);
        bench.steps(wait);
        let before = bench.indices(3).len();
        bench.set_state(3, QpState::Reset);
        bench.steps(300);
        let after = bench.indices(3).len();
        assert!(after - before <= 20, "{after} after {before}");
        assert_eq!(bench.indices(3), (0..after as u16).collect::<Vec<_>>());
        // Through the states to the error state: nothing of the former life is flushed.
        bench.set_state(3, QpState::Init);
        bench.steps(wait);
        bench.set_state(3, QpState::Err);
        bench.steps(300);
        assert_eq!(bench.indices(3).len(), after);
        // Nor is it in the next one.
        bench.restart_life(3);
        bench.send(3, 2);
        bench.steps(100);
        assert_eq!(bench.indices(3).len(), after);
        bench.qps[3].done = bench.completions_of(3);
        bench.flush(3, 0);
        bench.compare();
        assert_eq!(bench.indices(3).len(), after + 2);
        bench.end();
    }
}

#[test]
fn a_queue_pair_that_goes_to_the_error_state_at_once_after_a_reset_flushes_nothing_old() {
    for wait in 0..40 {
        let mut bench = large(84);
        bench.start(3);
        bench.send(3, 4);
        bench.set_state(3, QpState::Err);
        bench.flush_pushed(3, 200);
        bench.taken(FLUSH);
        bench.steps(wait);
        for state in [QpState::Reset, QpState::Init, QpState::Err] {
            bench.set_state(3, state);
            bench.steps(4);
        }
        let before = bench.indices(3).len();
        bench.steps(400);
        // What was begun ends; the rest does not come.
        let after = bench.indices(3).len();
        assert!(after - before <= 16 && after < 40, "{wait}: {after} after {before}");
        // WQEs of the new life, posted in the error state, are flushed from the first on.
        bench.flush_pushed(3, 20);
        bench.steps(200);
        let indices = bench.indices(3);
        assert_eq!(indices[after..], (0..20).collect::<Vec<_>>());
        bench.restart_life(3);
        bench.qps[3].done = bench.completions_of(3);
        bench.end();
    }
}

#[test]
fn a_flush_from_before_a_start_is_forgotten() {
    let mut bench = bench(10, 0.0);
    bench.start(2);
    for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts] {
        match state {
            QpState::Rts => bench.start(2),
            state => bench.set_state(2, state),
        }
        bench.flush_pushed(2, 5);
        bench.steps(30);
    }
    bench.send(2, 1);
    bench.answer_at(2, 0, ACK);
    bench.compare();
    assert_eq!(bench.sinks[COMPLETION].items.len(), 1);
}
