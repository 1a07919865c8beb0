// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is held back, by congestion control or by a priority that stands still.

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

/// It stays in line, without being one for whom others make way.
#[test]
fn who_stands_still_is_granted_nothing_and_keeps_nobody_from_sending() {
    let mut bench = Bench::small(26);
    bench.returning = 1.0;
    let waits = |bench: &mut Bench| {
        bench.steps(60);
        (0..100).any(|_| {
            bench.step();
            bench.sim.get("waiting_any") + bench.sim.get("waiting_others") > 0
        })
    };
    for stops in [vec![3], vec![2, 3], vec![2, 3, 4, 5]] {
        let from = bench.sinks[GRANT].items.len();
        let paused = stops.iter().fold(0, |paused, qp| paused | 1 << priority(*qp));
        bench.sim.set("paused", paused);
        stops.iter().for_each(|qp| bench.ring(*qp, 4));
        assert!(!waits(&mut bench), "{stops:?}");
        bench.ring(0, 4);
        assert!(!waits(&mut bench), "{stops:?}");
        let due = |bench: &Bench, qp: usize| bench.granted(from, qp).len();
        assert_eq!(due(&bench, 0), 4);
        assert!(stops.iter().all(|qp| due(&bench, *qp) == 0), "{stops:?}");
        bench.sim.set("paused", 0);
        bench.steps(200);
        assert!(stops.iter().all(|qp| due(&bench, *qp) == 4), "{stops:?}");
        for qp in 0..QPS {
            let producer = bench.qps[qp].producer;
            bench.oldest(qp, producer);
        }
    }
}

/// A datagram's priority is known when its WQE is there: the QP is told to go on from it when that goes on.
#[test]
fn who_has_a_datagram_of_a_priority_that_stands_still_waits_for_that_one() {
    let mut bench = Bench::small(27);
    bench.returning = 1.0;
    let Qp { base, log2, .. } = bench.qps[1];
    let fields = [("service", Service::Ud.code().into()), ("sq_base", base.into()), ("sq_log2", log2.into())];
    for (path, bits) in item(&QpAttributes::of(&bench.cfg), &fields) {
        bench.sim.set_bits(&format!("broadcast_attributes_entry_{path}"), &bits);
    }
    bench.sim.set("broadcast_attributes_index", 1);
    bench.sim.set("broadcast_attributes_enable", 1);
    bench.step();
    bench.sim.set("broadcast_attributes_enable", 0);
    bench.sim.set("paused", 0xff);
    bench.ring(1, 4);
    bench.steps(60);
    assert_eq!(bench.granted(0, 1), [0, 1, 2, 3], "what it is of is not known yet");
    let from = bench.sinks[GRANT].items.len();
    bench.qps[1].rewind = Some(2);
    bench.sources[RESUME].push_values(&[("qp", 1), ("index", 2), ("stands", 1), ("priority", 5)]);
    bench.ring(1, 2);
    bench.sim.set("paused", 0xff & !(1 << 4));
    bench.steps(100);
    assert_eq!(bench.granted(from, 1), []);
    bench.sim.set("paused", 0xff & !(1 << 5));
    bench.steps(60);
    assert_eq!(bench.granted(from, 1), [2, 3, 4, 5]);
    bench.sim.set("paused", 0xff);
    bench.ring(1, 1);
    bench.steps(60);
    assert_eq!(bench.granted(from, 1), [2, 3, 4, 5, 6], "what is behind may be of another");
}
