// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells that tell of more WQEs than there can be.

use super::*;

impl Bench {
    fn rings_for(&mut self, qp: usize, producer: u16) {
        self.sources[DOORBELL].push_values(&[("qp", qp as u128), ("producer", producer.into())]);
    }

    /// How often each QP was told to be overrun.
    fn overruns(&self) -> [usize; QPS] {
        let told = self.sinks[OVERRUN].values("");
        std::array::from_fn(|qp| told.iter().filter(|&&q| q == qp as u64).count())
    }
}

#[test]
fn what_a_queue_cannot_hold_is_told_and_changes_nothing() {
    for seed in 1..=3 {
        let mut bench = Bench::new(seed);
        let mut wrong = [0; QPS];
        for _ in 0..600 {
            let qp = bench.random.rng.random_range(0..QPS);
            let q = bench.qps[qp].clone();
            match bench.random.rng.random_range(0..10) {
                // As many as there is room for, to the last.
                0..=4 => {
                    let more = bench.random.rng.random_range(0..300);
                    bench.ring(qp, more);
                }
                5..=7 => {
                    let oldest = q.oldest.wrapping_add(bench.random.rng.random_range(0..=q.floor()));
                    bench.oldest(qp, oldest);
                    bench.kick(qp);
                }
                8 => {
                    // The oldest may move before the doorbell is looked at, up to the producer.
                    let most = q.producer.wrapping_add(1 << q.log2);
                    let above = bench.random.rng.random_range(1..0x4000);
                    bench.rings_for(qp, most.wrapping_add(above));
                    wrong[qp] += 1;
                }
                _ => {
                    let back = bench.random.rng.random_range(1..0x4000);
                    bench.rings_for(qp, q.producer.wrapping_sub(back));
                    wrong[qp] += 1;
                }
            }
            for _ in 0..bench.random.rng.random_range(1..60) {
                bench.step();
            }
        }
        bench.settle();
        bench.check_reads();
        for (qp, (told, wrong)) in bench.overruns().into_iter().zip(wrong).enumerate() {
            let what = format!("seed {seed}: QP {qp}, wrong {wrong} times, told {told} times");
            assert!(told <= wrong && (told > 0) == (wrong > 0), "{what}");
            assert_eq!(bench.qps[qp].due, bench.qps[qp].producer, "{what}");
        }
    }
}

#[test]
fn a_queue_is_full_to_its_last_place_and_wraps() {
    let mut bench = Bench::new(5);
    let entries = 1u16 << bench.qps[0].log2;
    for round in 0..3 {
        bench.oldest(0, bench.qps[0].producer);
        bench.ring(0, entries);
        bench.steps(40);
        assert_eq!(bench.overruns()[0], 0, "round {round}");
        bench.settle();
    }
    // One more, before any of them is done.
    let producer = bench.qps[0].producer;
    bench.ring(0, entries);
    bench.rings_for(0, producer.wrapping_add(entries + 1));
    bench.steps(40);
    assert_eq!(bench.overruns(), [1, 0, 0, 0, 0, 0, 0, 0]);
    // In the error state nothing is told any more, and the queue is flushed as far as it was before.
    bench.state(0, QpState::Err);
    bench.rings_for(0, producer.wrapping_add(2 * entries + 1));
    bench.kick(0);
    bench.steps(60);
    assert_eq!(bench.overruns(), [1, 0, 0, 0, 0, 0, 0, 0]);
    let flushed = bench.sinks[FLUSH].values("producer");
    assert!(!flushed.is_empty() && flushed.iter().all(|&f| f == u64::from(bench.qps[0].producer)));
}

#[test]
fn the_largest_queue_may_be_filled_at_once() {
    let mut bench = Bench::asleep(7);
    bench.log2s = 15..16;
    bench.start(3);
    bench.ring(3, 1 << 15);
    bench.steps(60);
    assert_eq!(bench.overruns()[3], 0);
    assert!(bench.sinks[GRANT].items.iter().any(|grant| !grant["count"].is_zero()));
    bench.rings_for(3, bench.qps[3].producer.wrapping_add(1));
    bench.steps(60);
    assert_eq!(bench.overruns()[3], 1);
}
