// SPDX-License-Identifier: MIT OR Apache-2.0
//! A send queue that drains.

use super::*;

/// QP, index, whether it drains, stay.
fn flushes(bench: &Bench) -> Vec<[u64; 4]> {
    let sink = &bench.sinks[FLUSH];
    sink.items.iter().map(|f| ["qp", "producer", "drains", "stay"].map(|name| f[name].to_u64())).collect()
}

fn drain(bench: &mut Bench, qp: usize, stay: u8) {
    bench.sources[KICK].push_values(&[("qp", qp as u128), ("drains", 1), ("stay", stay.into())]);
}

#[test]
fn who_drains_has_the_completer_told_once_up_to_where_it_was_begun() {
    for seed in 1..=5 {
        let mut bench = Bench::small(seed);
        bench.ring(3, 9);
        bench.ring(2, 5);
        bench.steps(200);
        let begun = bench.qps[3].due;
        assert!(begun > 0, "seed {seed}");
        bench.state(3, QpState::Sqd);
        drain(&mut bench, 3, 77);
        bench.steps(40);
        // What is rung for there waits, and what was begun may be fetched again: neither changes what was told.
        bench.ring(3, 4);
        bench.resume(3, 0, false);
        bench.steps(200);
        assert_eq!(flushes(&bench), [[3, u64::from(begun), 1, 77]], "seed {seed}");
        assert_eq!(bench.qps[3].due, begun, "seed {seed}");
        // Going on, it is asked for no more; and each stay is told of.
        bench.state(3, QpState::Rts);
        bench.kick(3);
        bench.steps(200);
        bench.state(3, QpState::Sqd);
        drain(&mut bench, 3, 78);
        bench.steps(100);
        let begun = u64::from(bench.qps[3].due);
        assert_eq!(flushes(&bench)[1..], [[3, begun, 1, 78]], "seed {seed}");
    }
}

#[test]
fn a_drain_that_is_over_before_its_turn_is_not_told() {
    for state in [QpState::Rts, QpState::Err, QpState::Reset] {
        let mut bench = Bench::small(7);
        // No turn while there are no places.
        bench.returning = 0.0;
        for qp in 0..QPS {
            bench.ring(qp, 20);
        }
        bench.steps(600);
        bench.state(3, QpState::Sqd);
        drain(&mut bench, 3, 1);
        bench.steps(60);
        bench.state(3, state);
        if state == QpState::Err {
            bench.kick(3);
        }
        bench.returning = 1.0;
        bench.steps(600);
        let told = flushes(&bench);
        assert!(told.iter().all(|f| f[2] == 0), "{state}: {told:?}");
        assert_eq!(told.len(), usize::from(state == QpState::Err), "{state}: {told:?}");
    }
}
