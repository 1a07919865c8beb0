// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for answers to READs and atomics, or for its peer to have receives.

use super::*;

impl Bench {
    /// The completer's word of a QP, whose number it is, and its name some cycles later.
    fn heard(&mut self, qp: usize, answered: bool, number: u64) {
        self.sources[EASED].push_values(&[("qp", qp as u128), ("answered", answered.into())]);
        if answered {
            self.sim.set("reads_done_index", qp as u64);
            self.sim.set("reads_done_entry", number);
            self.sim.set("reads_done_enable", 1);
            self.step();
            self.sim.set("reads_done_enable", 0);
        } else {
            self.sim.set("oldest_entry_told", number);
            let oldest = self.qps[qp].oldest;
            self.oldest(qp, oldest);
        }
    }

    /// It waits, with what was heard by then.
    fn waits(&mut self, qp: usize, index: u16, answers: bool, known: u64) {
        self.qps[qp].rewind = Some(index);
        let fields = [
            ("qp", qp as u128),
            ("index", index.into()),
            ("limited", 1),
            ("unheard", (!answers).into()),
            ("known", known.into()),
        ];
        self.sources[RESUME].push_values(&fields);
    }
}

#[test]
fn who_waits_comes_back_when_it_is_named_and_only_then() {
    for (seed, answers) in [(70, false), (70, true), (71, false), (71, true)] {
        let mut bench = Bench::small(seed);
        bench.returning = 1.0;
        bench.heard(3, answers, 7);
        bench.ring(3, 8);
        bench.steps(100);
        bench.waits(3, 4, answers, 7);
        bench.steps(20);
        let from = bench.sinks[GRANT].items.len();
        for qp in [0, 1, 2, 4] {
            bench.heard(qp, answers, 9);
            // It waits for something else.
            bench.sources[EASED].push_values(&[("qp", 3), ("answered", (!answers).into())]);
            bench.ring(3, 1);
            bench.ring(qp, 1);
            bench.steps(50);
            assert_eq!((bench.granted(from, 3), bench.granted(from, qp)), (vec![], vec![0]));
        }
        bench.heard(3, answers, 8);
        bench.steps(50);
        assert_eq!(bench.granted(from, 3), (4..12).collect::<Vec<_>>());
    }
}

/// In whatever cycles the word and the request to wait come, with events of others around them, and names of those who do not wait.
#[test]
fn no_word_is_missed() {
    for (seed, answers) in [(72, false), (72, true), (73, false), (73, true)] {
        let mut bench = Bench::small(seed);
        bench.returning = 1.0;
        let mut heard = [0; QPS];
        for _ in 0..400 {
            let qp = bench.random.rng.random_range(0..QPS);
            bench.ring(qp, 1);
            bench.steps(60);
            let (index, known) = (bench.qps[qp].due.wrapping_sub(1), heard[qp]);
            heard[qp] = (heard[qp] + 1) % 32;
            let from = bench.sinks[GRANT].items.len();
            let early = bench.random.rng.random_range(0..12);
            let other = (qp + 1) % QPS;
            for cycle in 0..14 {
                if cycle == early {
                    bench.waits(qp, index, answers, known);
                }
                if cycle == 6 {
                    bench.heard(qp, answers, heard[qp]);
                    continue;
                }
                if bench.random.chance(0.3) {
                    bench.kick(other);
                }
                if bench.random.chance(0.3) {
                    bench.sources[EASED].push_values(&[("qp", other as u128), ("answered", 1)]);
                }
                bench.step();
            }
            bench.steps(60);
            assert_eq!(bench.granted(from, qp), [u64::from(index)], "seed {seed}: {early}");
            let oldest = bench.qps[qp].due;
            if !answers {
                bench.sim.set("oldest_entry_told", heard[qp]);
            }
            bench.oldest(qp, oldest);
        }
    }
}

#[test]
fn names_of_those_who_do_not_wait_take_no_time() {
    let mut times = Vec::new();
    for names in [0, 60] {
        let mut bench = Bench::small(76);
        bench.returning = 1.0;
        bench.steps(100);
        let named = bench.sources[EASED].cycles.len();
        (0..names).for_each(|i| {
            bench.sources[EASED].push_values(&[("qp", i % QPS as u128), ("answered", i / 2 % 2)])
        });
        // Events of another, one behind the other.
        (0..40).for_each(|_| bench.kick(0));
        let begun = bench.sources[KICK].cycles.len();
        while bench.sources[KICK].left() > 0 {
            bench.step();
        }
        let cycles = &bench.sources[KICK].cycles[begun..];
        times.push(cycles[cycles.len() - 1] - cycles[0]);
        // But for those of the QP that is looked at, a name a cycle.
        let taken = &bench.sources[EASED].cycles[named..];
        assert_eq!(taken.len(), names as usize);
        assert!(names == 0 || taken[taken.len() - 1] - taken[0] <= 2 * names as u64, "{taken:?}");
    }
    assert_eq!(times[0], times[1]);
}

/// Whoever is woken, and however often, kicks have every other turn.
#[test]
fn those_who_are_woken_keep_no_kick_waiting() {
    for seed in [77, 78] {
        let mut bench = Bench::small(seed);
        bench.returning = 1.0;
        let parked = 1..QPS - 1;
        for qp in parked.clone() {
            bench.ring(qp, 2);
            bench.steps(60);
            bench.waits(qp, 1, true, 0);
            bench.steps(30);
        }
        let (kicked, named) = (bench.sources[KICK].cycles.len(), bench.sources[EASED].cycles.len());
        for qp in parked.clone() {
            bench.sources[EASED].push_values(&[("qp", qp as u128), ("answered", 1)]);
            bench.kick(QPS - 1);
        }
        bench.steps(400);
        let (kicks, names) = (&bench.sources[KICK].cycles[kicked..], &bench.sources[EASED].cycles[named..]);
        assert_eq!((kicks.len(), names.len()), (parked.len(), parked.len()));
        for (i, (kick, name)) in kicks.iter().zip(&names[2..]).enumerate() {
            assert!(kick <= name, "seed {seed}: kick {i} of {kicks:?} comes behind {names:?}");
        }
    }
}
