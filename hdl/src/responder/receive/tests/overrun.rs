// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells that tell of more WQEs than there can be.

use super::*;

impl Bench {
    /// How often each queue was told to be overrun.
    fn overruns(&self) -> Vec<usize> {
        let told = self.sinks[OVERRUN].values("");
        let times = |queue: usize| told.iter().filter(|&&t| u128::from(t) == self.number(queue)).count();
        (0..self.qps.len()).map(times).collect()
    }

    fn goes_to(&mut self, qp: usize, state: QpState) {
        self.state(qp, state);
        self.steps(20);
    }

    /// Some producer that the queue cannot have.
    fn wrong(&mut self, queue: usize) -> u16 {
        let q = &self.qps[queue];
        let room = (1u16 << q.log2) - q.producer.wrapping_sub(q.consumer);
        // The nearest ones, or any.
        let above = match self.random.rng.random_range(0..4) {
            0 => room + 1,
            1 => u16::MAX,
            _ => self.random.rng.random_range(room + 1..=u16::MAX),
        };
        q.producer.wrapping_add(above)
    }

    /// Nothing is there behind what was posted.
    fn ends_with_its_newest(&mut self, queue: usize) {
        let producer = self.qps[queue].producer;
        self.want(queue, producer);
        self.settle();
    }
}

#[test]
fn what_a_queue_cannot_hold_is_told_once_a_life_and_changes_nothing() {
    for (seed, beat_bytes, stall, latency) in [(21, 64, 0.0, 5), (22, 8, 0.3, 60), (23, 64, 0.3, 120)] {
        let mut bench = Bench::new(seed, beat_bytes, stall, latency);
        // Whether each has been overrun in its life, and in how many lives.
        let mut overrun = [false; QPS + SHARED];
        let mut lives = vec![0; QPS + SHARED];
        for _ in 0..1200 {
            let queue = bench.random.rng.random_range(0..QPS + SHARED);
            match bench.random.rng.random_range(0..100) {
                // As many as there is room for, to the last.
                0..35 => {
                    let count = bench.random.rng.random_range(1..400);
                    bench.post(queue, count);
                }
                35..60 => {
                    for _ in 0..bench.random.rng.random_range(1..8) {
                        let q = &bench.qps[queue];
                        let (index, left) = (q.consumer, q.producer.wrapping_sub(q.consumer));
                        bench.want(queue, index);
                        bench.settle();
                        if left > 0 {
                            bench.qps[queue].consumer = index.wrapping_add(1);
                        }
                    }
                }
                60..65 => {
                    let q = &bench.qps[queue];
                    let done = bench.random.rng.random_range(0..=q.producer.wrapping_sub(q.consumer));
                    bench.qps[queue].consumer = q.consumer.wrapping_add(done);
                }
                // What it has been told before.
                65..70 => bench.ring(queue, bench.qps[queue].producer),
                70..90 => {
                    let producer = bench.wrong(queue);
                    bench.settle();
                    bench.ring(queue, producer);
                    if !std::mem::replace(&mut overrun[queue], true) {
                        lives[queue] += 1;
                        let mut cycles = 0;
                        while bench.overruns() != lives {
                            bench.step();
                            cycles += 1;
                            assert!(cycles < 4000, "seed {seed}: queue {queue} is overrun, and nobody told");
                        }
                        bench.qps[queue].failed = queue >= QPS;
                    }
                    bench.ends_with_its_newest(queue);
                }
                90..94 => {
                    bench.settle();
                    bench.create(queue);
                    overrun[queue] = false;
                }
                _ => (0..bench.random.rng.random_range(0..300)).for_each(|_| bench.step()),
            }
        }
        (0..QPS + SHARED).for_each(|queue| bench.ends_with_its_newest(queue));
        bench.check();
        bench.steps(500);
        assert_eq!(bench.overruns(), lives, "seed {seed}: once in a life");
        assert!(
            lives.iter().all(|lives| *lives > 0) && lives.iter().any(|lives| *lives > 1),
            "seed {seed}: {lives:?}"
        );
    }
}

#[test]
fn a_queue_is_full_to_its_last_place_and_wraps() {
    // The largest too, though half of all indices is as far behind as it is ahead.
    for (queue, log2) in [(1, 15), (QPS + 1, 15), (2, 0), (QPS + 2, 4)] {
        let mut bench = Bench::new(24, 64, 0.0, 5);
        bench.create_sized(queue, log2, 0);
        let entries = 1u16 << log2;
        for round in 0..3 {
            bench.qps[queue].consumer = bench.qps[queue].producer;
            bench.post(queue, entries);
            bench.steps(60);
            assert!(bench.sinks[OVERRUN].items.is_empty(), "queue {queue}, round {round}");
            bench.want(queue, bench.qps[queue].consumer);
            bench.settle();
        }
        // One more, before any of them is done.
        bench.ring(queue, bench.qps[queue].producer.wrapping_add(1));
        bench.steps(60);
        assert_eq!(bench.overruns().iter().sum::<usize>(), 1);
        assert_eq!(bench.overruns()[queue], 1);
        bench.check();
    }
}

#[test]
fn who_has_no_life_or_ends_anyway_is_not_told_of() {
    for stall in [0.0, 0.4] {
        let mut bench = Bench::new(25, 8, stall, 20);
        // In the error state nothing is believed either.
        bench.post(0, 2);
        bench.goes_to(0, QpState::Err);
        let producer = bench.wrong(0);
        bench.ring(0, producer);
        bench.ends_with_its_newest(0);
        // One in RESET, with the doorbell of the life before.
        bench.goes_to(1, QpState::Reset);
        bench.ring(1, 0xff00);
        // A shared queue that is gone.
        bench.sim.set("shared_index", 1);
        bench.sim.set("shared_entry_valid", 0);
        bench.sim.set("shared_enable", 1);
        bench.step();
        bench.sim.set("shared_enable", 0);
        bench.ring(QPS + 1, 0xff00);
        bench.steps(300);
        assert!(bench.sinks[OVERRUN].items.is_empty(), "{:?}", bench.overruns());
        for queue in [1, QPS + 1] {
            bench.create(queue);
            bench.post(queue, u16::MAX);
            bench.want(queue, 0);
            bench.ends_with_its_newest(queue);
        }
        bench.check();
        bench.steps(300);
        assert!(bench.sinks[OVERRUN].items.is_empty(), "{:?}", bench.overruns());
    }
}

#[test]
fn who_waits_to_be_told_of_is_forgotten_with_its_life() {
    let mut bench = Bench::new(26, 64, 0.0, 5);
    bench.sinks[OVERRUN].stall = Some(1.0);
    for queue in 0..QPS + SHARED {
        let producer = bench.wrong(queue);
        bench.ring(queue, producer);
    }
    // One is on offer; of the others, two begin another life.
    bench.steps(200);
    for queue in [3, QPS + 2] {
        bench.create(queue);
        bench.post(queue, 1);
        bench.want(queue, 0);
    }
    bench.check();
    bench.sinks[OVERRUN].stall = None;
    bench.steps(400);
    let told = bench.overruns();
    assert_eq!((told[3], told[QPS + 2]), (0, 0), "{told:?}");
    assert_eq!(told.iter().sum::<usize>(), QPS + SHARED - 2, "{told:?}");
}
