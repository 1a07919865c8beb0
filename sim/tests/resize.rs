// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues that get other rings while completions come, through the driver, the Verilated cards and the wire; and emulated ones.

use std::collections::VecDeque;

use ferrowire::{
    AccessFlags, Completion, CompletionQueue, Error, Event, EventQueue, MemoryRegion, QpInitAttr, QueuePair,
    SendWr,
};
use ferrowire_sim::pair::{Connection, Pair, PairOptions, EMULATED};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::tier::{chosen, number};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];

/// Cycles for what a test waits for.
const LIMIT: u64 = 200_000;

/// Card 0 writes to card 1, and its completions go to a queue with events.
struct Bench {
    pair: Pair,
    qp: QueuePair,
    _peer: QueuePair,
    cq: CompletionQueue,
    eq: EventQueue,
    from: MemoryRegion,
    to: MemoryRegion,
    posted: u64,
}

fn bench(config: &str, entries: u32) -> Bench {
    let options = PairOptions { host_latency: 20, wire_latency: 20, ..PairOptions::default() };
    let pair = Pair::named(config, &options).unwrap();
    let eq = pair.a.context.create_eq(16).unwrap();
    let cq = pair.a.context.create_cq_with_events(entries, &eq).unwrap();
    let mut attr = QpInitAttr::rc(&cq, &cq);
    attr.max_send_wr = 128;
    let own = pair.a.pd.create_qp(&attr).unwrap();
    let peer = pair.b.pd.create_qp(&QpInitAttr::rc(&pair.b.cq, &pair.b.cq)).unwrap();
    let (qp, peer) = pair.bring_up(own, peer, &Connection::default()).unwrap();
    let from = pair.a.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
    let to = pair.b.region(0, 4096, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
    Bench { pair, qp, _peer: peer, cq, eq, from, to, posted: 0 }
}

impl Bench {
    fn post(&mut self, count: usize) {
        let mut batch = self.qp.start_post_send();
        for _ in 0..count {
            let wr_id = self.posted;
            batch.post(&SendWr::write(wr_id, &[self.from.sge(0, 64)], self.to.remote(0)).signaled()).unwrap();
            self.posted += 1;
        }
        batch.ring().unwrap();
    }

    /// Takes up to `most` completions, which follow those before.
    #[track_caller]
    fn take(&mut self, most: usize, next: &mut u64) -> usize {
        let mut some = [Completion::default(); 32];
        let n = self.cq.poll(&mut some[..most]).unwrap();
        for done in &some[..n] {
            assert!(done.is_success());
            assert_eq!(done.wr_id(), *next, "each once, in order");
            *next += 1;
        }
        n
    }

    fn run(&self, cycles: u64) {
        self.pair.world.lock().run(cycles);
    }
}

#[test]
fn a_queue_under_traffic_goes_to_other_rings_and_each_completion_is_polled_once_in_order() {
    for config in chosen!(CONFIGS) {
        for seed in 0..number(2, 8) {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut bench = bench(config, 40);
            let (mut next, mut resizes, mut undrained, mut wakes) = (0, 0, 0, 0);
            let mut armed = false;
            for _ in 0..number(300, 1500) {
                let outstanding = (bench.posted - next) as usize;
                match rng.random_range(0..10) {
                    0..4 if outstanding < 24 => bench.post(rng.random_range(1..=24 - outstanding)),
                    4..7 => {
                        bench.take(rng.random_range(1..32), &mut next);
                    }
                    7 if !armed => {
                        bench.cq.request_notify(false).unwrap();
                        armed = true;
                    }
                    8 => bench.run(rng.random_range(0..400)),
                    9 => {
                        undrained += usize::from(outstanding > 0);
                        bench.cq.resize(rng.random_range(24..200)).unwrap();
                        resizes += 1;
                    }
                    _ => {}
                }
                let mut events = [Event::default(); 4];
                let n = bench.eq.poll(&mut events).unwrap();
                assert!(n <= usize::from(armed), "{config}, seed {seed}: an event for nothing");
                armed &= n == 0;
                wakes += n;
            }
            let limit = bench.pair.world.lock().cycle() + LIMIT;
            while next < bench.posted {
                bench.take(32, &mut next);
                let late = bench.pair.world.lock().cycle() > limit;
                assert!(!late, "{config}, seed {seed}: {next} of {}{}", bench.posted, bench.pair.diagnose());
            }
            assert!(resizes > 10 && undrained > 5 && wakes > 3, "{config}: {resizes}, {undrained}, {wakes}");
            // An event that was asked for before has come by now.
            bench.run(3000);
            let mut events = [Event::default(); 4];
            assert!(bench.eq.poll(&mut events).unwrap() <= usize::from(armed), "{config}, seed {seed}");
            // What waits for an event gets it.
            bench.cq.request_notify(false).unwrap();
            bench.cq.resize(30).unwrap();
            bench.post(1);
            let limit = bench.pair.world.lock().cycle() + LIMIT;
            while bench.eq.poll(&mut events).unwrap() == 0 {
                assert!(bench.pair.world.lock().cycle() < limit, "{config}: not woken");
            }
            assert_eq!(bench.take(32, &mut next), 1);
            let Bench { qp, cq, eq, .. } = bench;
            drop(qp);
            cq.destroy().unwrap();
            eq.destroy().unwrap();
        }
    }
}

#[test]
fn a_queue_has_the_room_that_it_was_resized_to_and_refuses_less_than_is_in_it() {
    let mut bench = bench(EMULATED, 8);
    let mut next = 0;
    bench.post(8);
    bench.run(20_000);
    for bad in [0, 7, bench.pair.a.context.capabilities().max_cqe() + 1] {
        let error = bench.cq.resize(bad).unwrap_err();
        let Error::Attribute { operation: "resize_cq", attribute: "entries", value, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(*value, u64::from(bad), "{error}");
    }
    // Refused, it goes on as it was.
    assert_eq!(bench.cq.capacity(), 12);
    assert_eq!(bench.take(2, &mut next), 2);
    // Twice, without a poll in between, and to fewer.
    bench.cq.resize(100).unwrap();
    assert!((100..200).contains(&bench.cq.capacity()));
    bench.post(40);
    bench.run(60_000);
    bench.cq.resize(46).unwrap();
    assert!((46..100).contains(&bench.cq.capacity()));
    bench.post(40);
    bench.run(60_000);
    assert_eq!(bench.pair.a.context.traffic_counter(ferrowire::TrafficCounter::CompletionsLost).unwrap(), 0);
    let mut left = VecDeque::from([6, 32, 8, 32, 8]);
    while let Some(most) = left.pop_front() {
        assert_eq!(bench.take(most, &mut next), most);
    }
    assert_eq!((bench.take(32, &mut next), next), (0, bench.posted));
    // Round the new ring, more than once.
    for _ in 0..20 {
        bench.post(16);
        bench.run(30_000);
        assert_eq!(bench.take(32, &mut next), 16);
    }
}

#[test]
fn entries_of_a_queue_pair_that_is_gone_are_passed_over_in_the_old_ring_and_in_the_new_one() {
    for between in [false, true] {
        let mut bench = bench(EMULATED, 64);
        bench.post(5);
        bench.run(20_000);
        if between {
            bench.cq.resize(64).unwrap();
            bench.post(3);
            bench.run(20_000);
        }
        // The next one has its number.
        let Bench { pair, qp, _peer, mut cq, eq, from, to, posted } = bench;
        let number = qp.number();
        drop(qp);
        cq.resize(32).unwrap();
        let most = pair.a.context.capabilities().max_qp;
        let mut others = (0..=most).map(|_| pair.a.pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap());
        let own = others.find(|own| own.number() == number).expect("numbers come again after all others");
        let peer = pair.b.pd.create_qp(&QpInitAttr::rc(&pair.b.cq, &pair.b.cq)).unwrap();
        let (qp, _peer) = pair.bring_up(own, peer, &Connection::default()).unwrap();
        let mut bench = Bench { pair, qp, _peer, cq, eq, from, to, posted };
        let mut next = bench.posted;
        bench.post(4);
        bench.run(20_000);
        assert_eq!(bench.take(32, &mut next), 4);
        assert_eq!(bench.take(32, &mut next), 0);
    }
}
