// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who waits for its peer to have receives.

use super::*;

impl Bench {
    /// The completer's word of a QP, whose number it is, and its name some cycles later.
    fn heard(&mut self, qp: usize, told: u64) {
        self.sim.set("oldest_entry_told", told);
        let oldest = self.qps[qp].oldest;
        self.sources[EASED].push_values(&[("", qp as u128)]);
        self.oldest(qp, oldest);
    }

    /// It waits, with what was heard by then.
    fn waits(&mut self, qp: usize, index: u16, known: u64) {
        self.qps[qp].rewind = Some(index);
        let fields = [
            ("qp", qp as u128),
            ("index", index.into()),
            ("limited", 1),
            ("unheard", 1),
            ("known", known.into()),
        ];
        self.sources[RESUME].push_values(&fields);
    }
}

#[test]
fn who_waits_for_receives_comes_back_when_it_is_named_and_only_then() {
    let mut bench = Bench::small(71);
    bench.returning = 1.0;
    bench.heard(3, 7);
    bench.ring(3, 8);
    bench.steps(100);
    bench.waits(3, 4, 7);
    bench.steps(20);
    let from = bench.sinks[GRANT].items.len();
    for qp in [0, 1, 2, 4] {
        bench.heard(qp, 9);
        bench.ring(3, 1);
        bench.ring(qp, 1);
        bench.steps(50);
        assert_eq!((bench.granted(from, 3), bench.granted(from, qp)), (vec![], vec![0]));
    }
    bench.heard(3, 8);
    bench.steps(50);
    assert_eq!(bench.granted(from, 3), (4..12).collect::<Vec<_>>());
}

/// In whatever cycles the word and the request to wait come, with events of others around them.
#[test]
fn no_word_is_missed() {
    for seed in 72..=75 {
        let mut bench = Bench::small(seed);
        bench.returning = 1.0;
        let mut told = [0; QPS];
        for _ in 0..400 {
            let qp = bench.random.rng.random_range(0..QPS);
            bench.ring(qp, 1);
            bench.steps(60);
            let (index, known) = (bench.qps[qp].due.wrapping_sub(1), told[qp]);
            told[qp] = (told[qp] + 1) % 32;
            let from = bench.sinks[GRANT].items.len();
            let early = bench.random.rng.random_range(0..12);
            let other = (qp + 1) % QPS;
            for cycle in 0..14 {
                if cycle == early {
                    bench.waits(qp, index, known);
                }
                if cycle == 6 {
                    bench.heard(qp, told[qp]);
                    continue;
                }
                if bench.random.chance(0.3) {
                    bench.kick(other);
                }
                bench.step();
            }
            bench.steps(60);
            assert_eq!(bench.granted(from, qp), [u64::from(index)], "seed {seed}: {early}");
            let oldest = bench.qps[qp].due;
            bench.sim.set("oldest_entry_told", told[qp]);
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
        (0..names).for_each(|i| bench.sources[EASED].push_values(&[("", i % QPS as u128)]));
        // Events of another, one behind the other.
        (0..40).for_each(|_| bench.kick(0));
        let begun = bench.sources[KICK].cycles.len();
        while bench.sources[KICK].left() > 0 {
            bench.step();
        }
        let cycles = &bench.sources[KICK].cycles[begun..];
        times.push(cycles[cycles.len() - 1] - cycles[0]);
        assert!(bench.sources[EASED].cycles.len() - named >= names.min(40) as usize);
    }
    assert_eq!(times[0], times[1]);
}
