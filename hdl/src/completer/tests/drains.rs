// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of what was in progress in SQD.

use super::*;

impl Bench {
    /// The QP is in SQD, with so many WQEs begun.
    fn drain(&mut self, qp: usize, begun: u16, stay: u8) {
        let values = [("qp", qp as u128), ("producer", begun.into()), ("drains", 1), ("stay", stay.into())];
        self.sources[FLUSH].push_values(&values);
        self.taken(FLUSH);
    }

    /// WQEs that have ended, with the stay of each mark in between: it counts from 1,000.
    fn marked_ends(&self, qp: usize) -> Vec<u64> {
        let of = |item: &crate::testing::Item, name: &str| item[name].to_u64();
        let own = self.sinks[COMPLETION].items.iter().filter(|item| of(item, "qpn") == qp as u64);
        own.map(|item| of(item, "wqe_index") + 1000 * of(item, "marker")).collect()
    }
}

#[test]
fn a_mark_follows_the_last_of_what_was_begun() {
    for (seed, stall) in [(1, 0.0), (2, 0.4)] {
        let mut bench = bench(seed, stall);
        (0..QPS).for_each(|qp| bench.start(qp));
        // Nothing in progress: at once.
        bench.set_state(1, QpState::Sqd);
        bench.drain(1, 0, 5);
        bench.steps(60);
        assert_eq!(bench.marked_ends(1), [1005], "seed {seed}");
        // Some of it sent before, some behind.
        bench.send(2, 3);
        bench.set_state(2, QpState::Sqd);
        bench.drain(2, 5, 6);
        bench.send(2, 2);
        for n in 0..5 {
            bench.steps(60);
            assert_eq!(bench.marked_ends(2), (0..n).collect::<Vec<u64>>(), "seed {seed}");
            bench.answer_at(2, 0, ACK);
        }
        bench.steps(60);
        assert_eq!(bench.marked_ends(2), [0, 1, 2, 3, 4, 1006], "seed {seed}");
        // One acknowledgement for all.
        bench.send(3, 4);
        bench.set_state(3, QpState::Sqd);
        bench.drain(3, 4, 7);
        bench.answer_at(3, 3, ACK);
        bench.steps(60);
        assert_eq!(bench.marked_ends(3), [0, 1, 2, 3, 1007], "seed {seed}");
        assert!([1, 2, 3].iter().all(|qp| bench.sinks[FAULT].values("").iter().all(|f| f != qp)));
    }
}

#[test]
fn a_stay_that_is_over_has_no_mark() {
    for state in [QpState::Rts, QpState::Err, QpState::Reset] {
        let mut bench = bench(3, 0.0);
        (0..QPS).for_each(|qp| bench.start(qp));
        bench.send(2, 2);
        bench.set_state(2, QpState::Sqd);
        bench.drain(2, 2, 6);
        bench.steps(30);
        bench.set_state(2, state);
        match state {
            QpState::Err => {
                bench.sources[FLUSH].push_values(&[("qp", 2), ("producer", 4)]);
                bench.steps(200);
                assert_eq!(bench.marked_ends(2), [0, 1, 2, 3]);
            }
            QpState::Rts => {
                // The next stay has its own, though the former was not told.
                bench.set_state(2, QpState::Sqd);
                bench.drain(2, 2, 7);
                bench.answer_at(2, 1, ACK);
                bench.steps(60);
                assert_eq!(bench.marked_ends(2), [0, 1, 1007]);
            }
            _ => {
                bench.steps(200);
                assert_eq!(bench.marked_ends(2), [0u64; 0]);
            }
        }
    }
}

#[test]
fn a_mark_comes_whoever_is_answered_right_after_the_last_of_what_was_begun() {
    for beat_bytes in [8, 64] {
        let mut bench = bench_of(&RnicConfig { beat_bytes, ..config(32, LIMIT.into()) }, 1, 0.0);
        (0..QPS).for_each(|qp| bench.start(qp));
        bench.send(2, 1);
        bench.send(4, 3);
        bench.set_state(2, QpState::Sqd);
        bench.drain(2, 1, 6);
        bench.steps(40);
        let psn_of = |(qp, ahead): (usize, u32)| (qp, (bench.qps[qp].oldest_psn + ahead) % MODULUS);
        let answers = [(4, 0), (2, 0), (4, 1), (4, 2)].map(psn_of);
        answers.into_iter().for_each(|(qp, psn)| bench.answer(qp, psn, ACK));
        bench.taken(ANSWER);
        bench.steps(200);
        assert_eq!(bench.marked_ends(2), [0, 1006], "{beat_bytes} bytes a beat");
        // What was posted after it is flushed.
        bench.set_state(2, QpState::Err);
        bench.sources[FLUSH].push_values(&[("qp", 2), ("producer", 4)]);
        bench.steps(300);
        assert_eq!(bench.marked_ends(2), [0, 1006, 1, 2, 3], "{beat_bytes} bytes a beat");
    }
}
