// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is held back.

use super::*;

impl Bench {
    fn gate(&mut self, qp: usize, shut: bool) {
        self.sim.set("gate_index", qp as u64);
        self.sim.set("gate_entry_shut", shut.into());
        self.sim.set("gate_entry_stop", 0);
        self.sim.set("gate_enable", 1);
        self.step();
        self.sim.set("gate_enable", 0);
    }

    /// As congestion control does: it opens, and wakes some cycles later.
    fn open(&mut self, qp: usize) {
        self.gate(qp, false);
        self.steps(3);
        self.kick(qp);
    }
}

#[test]
fn who_is_held_back_is_granted_nothing_until_it_is_woken() {
    let mut bench = Bench::small(21);
    bench.returning = 1.0;
    bench.gate(0, true);
    bench.ring(0, 8);
    bench.ring(1, 8);
    bench.steps(100);
    assert_eq!((bench.granted(0, 0), bench.granted(0, 1)), (vec![], (0..8).collect()));
    // Neither a doorbell nor a resume is a way round.
    bench.ring(0, 1);
    bench.resume(0, 0, false);
    bench.kick(0);
    bench.steps(100);
    assert_eq!(bench.granted(0, 0), []);
    bench.open(0);
    bench.steps(100);
    assert_eq!(bench.granted(0, 0), (0..9).collect::<Vec<_>>());
}

#[test]
fn nothing_is_lost_where_gates_open_and_shut_while_queues_are_granted() {
    for seed in 22..=25 {
        let mut bench = Bench::small(seed);
        bench.returning = 1.0;
        // Of each QP, when it was shut, and until when.
        let mut shut: Vec<Vec<(u64, u64)>> = vec![Vec::new(); QPS];
        let is_shut = |of: &[(u64, u64)]| of.last().is_some_and(|last| last.1 == u64::MAX);
        for _ in 0..1500 {
            let qp = bench.random.rng.random_range(0..QPS);
            match bench.random.rng.random_range(0..6) {
                0 | 1 => {
                    let more = bench.random.rng.random_range(0..10);
                    bench.ring(qp, more);
                }
                2 | 3 => {
                    let by = bench.random.rng.random_range(0..=bench.qps[qp].floor());
                    let oldest = bench.qps[qp].oldest.wrapping_add(by);
                    bench.oldest(qp, oldest);
                    bench.kick(qp);
                }
                _ if is_shut(&shut[qp]) => {
                    shut[qp].last_mut().expect("it is shut").1 = bench.sim.cycles();
                    bench.open(qp);
                }
                _ => {
                    shut[qp].push((bench.sim.cycles(), u64::MAX));
                    bench.gate(qp, true);
                }
            }
            bench.steps_up_to(12);
        }
        for (qp, shut) in shut.iter_mut().enumerate().filter(|(_, shut)| is_shut(shut)) {
            shut.last_mut().expect("it is shut").1 = bench.sim.cycles();
            bench.open(qp);
        }
        // What was rung is granted as far as the limit goes, without another kick.
        bench.steps(400);
        for (i, qp) in bench.qps.iter().enumerate() {
            let limit = qp.oldest.wrapping_add(bench.cfg.outstanding_per_qp as u16);
            let bound = if limit.wrapping_sub(qp.producer) >> 15 == 1 { limit } else { qp.producer };
            assert_eq!(qp.due, bound, "seed {seed}: QP {i} stands still");
        }
        bench.settle();
        bench.check_reads();
        let grants = &bench.sinks[GRANT];
        for (grant, cycle) in grants.items.iter().zip(&grants.cycles) {
            let of = &shut[grant["qp"].to_u64() as usize];
            // One that has begun is granted.
            let wrong = of.iter().any(|(from, to)| cycle > &(from + 6) && cycle < to);
            assert!(!wrong, "seed {seed}: a grant in cycle {cycle}: {of:?}");
        }
    }
}
