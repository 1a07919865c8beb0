// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues that are armed and overrun, and their events, through the driver, the Verilated cards and the wire.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Bus, Coded, Completion, CompletionQueue, Error, Event, EventKind, EventQueue, LocalCause,
    QpInitAttr, QpState, QueuePair, RecvWr, RemoteAddress, SendWr, TrafficCounter, WcStatus,
};
use ferrowire_sim::pair::{Connection, Pair, PairOptions, EMULATED};
use ferrowire_spec::csr::port;
use ferrowire_spec::queue::doorbell::{self, rq::RqDoorbell, sq::SqDoorbell};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];

/// Cycles for what a test waits for.
const LIMIT: u64 = 100_000;

/// A pair, and a queue pair of card 0 whose completions go to a queue of its own.
struct Bench {
    pair: Pair,
    qp: QueuePair,
    peer: QueuePair,
    cq: CompletionQueue,
    from: ferrowire::MemoryRegion,
    to: ferrowire::MemoryRegion,
}

fn bench(config: &str, latency: u64, make: impl FnOnce(&Pair) -> CompletionQueue) -> Bench {
    let options = PairOptions { host_latency: latency, wire_latency: latency, ..PairOptions::default() };
    bench_of(Pair::named(config, &options).unwrap(), make)
}

fn bench_of(pair: Pair, make: impl FnOnce(&Pair) -> CompletionQueue) -> Bench {
    let cq = make(&pair);
    let own = pair.a.pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
    let peer = pair.b.pd.create_qp(&QpInitAttr::rc(&pair.b.cq, &pair.b.cq)).unwrap();
    let (qp, peer) = pair.bring_up(own, peer, &Connection::default()).unwrap();
    let from = pair.a.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
    let to = pair.b.region(0, 4096, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
    Bench { pair, qp, peer, cq, from, to }
}

impl Bench {
    fn post(&mut self, count: usize) {
        let mut batch = self.qp.start_post_send();
        for i in 0..count {
            let sge = self.from.sge(0, 64);
            batch.post(&SendWr::write(i as u64, &[sge], self.to.remote(0)).signaled()).unwrap();
        }
        batch.ring().unwrap();
    }

    /// Polls for events until there is one; what came with it.
    #[track_caller]
    fn wake(&self, eq: &EventQueue) -> Vec<Event> {
        let limit = self.pair.world.lock().cycle() + LIMIT;
        let mut some = [Event::default(); 4];
        while self.pair.world.lock().cycle() < limit {
            let n = eq.poll(&mut some).unwrap();
            if n > 0 {
                return some[..n].to_vec();
            }
        }
        panic!("no event{}", self.pair.diagnose());
    }

    fn none(&self, eq: &EventQueue) {
        self.pair.world.lock().run(3000);
        assert_eq!(eq.poll(&mut [Event::default(); 4]), Ok(0));
    }
}

fn completion(cq: &CompletionQueue) -> Event {
    Event { kind: Coded::Known(EventKind::Completion), object: cq.number(), ..Event::default() }
}

#[test]
fn a_wait_without_interrupts_to_wait_for_lets_the_card_run() {
    let mut eq = None;
    let mut bench = bench("generic-8b", 0, |pair| {
        eq = Some(pair.a.context.create_eq(16).unwrap());
        pair.a.context.create_cq_with_events(64, eq.as_ref().unwrap()).unwrap()
    });
    let eq = eq.unwrap();
    let mut events = [Event::default(); 4];
    assert!(eq.interrupt_file().is_none());
    let before = bench.pair.world.lock().time();
    let short = std::time::Duration::from_micros(50);
    assert_eq!(eq.wait(&mut events, short), Ok(0));
    assert!(bench.pair.world.lock().time() - before >= short, "by the card's clock");
    bench.cq.request_notify(false).unwrap();
    bench.post(1);
    assert_eq!(eq.wait(&mut events, std::time::Duration::from_millis(10)), Ok(1));
    assert_eq!(events[0], completion(&bench.cq));
}

#[test]
fn an_armed_queue_wakes_its_host_and_never_before_its_completion() {
    for (config, latency) in chosen!([("generic-8b", 0), ("generic-64b", 0), ("generic-64b", 100)]) {
        let mut eq = None;
        let mut bench = bench(config, latency, |pair| {
            eq = Some(pair.a.context.create_eq(16).unwrap());
            pair.a.context.create_cq_with_events(64, eq.as_ref().unwrap()).unwrap()
        });
        let eq = eq.unwrap();
        let mut rng = SmallRng::seed_from_u64(51);
        let mut some = [Completion::default(); 16];
        // Without arming nobody is woken.
        bench.post(1);
        bench.none(&eq);
        // What is there already wakes at once.
        bench.cq.request_notify(false).unwrap();
        assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
        assert_eq!(bench.cq.poll(&mut some), Ok(1));
        for _ in 0..60 {
            bench.cq.request_notify(false).unwrap();
            let count = rng.random_range(1..4);
            bench.post(count);
            // Not always at the same place of the simulation's steps.
            bench.pair.world.lock().run(rng.random_range(0..40));
            let mut left = count;
            assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
            // The completion is there, without a cycle more.
            let before = bench.pair.world.lock().cycle();
            while left > 0 {
                let n = bench.cq.poll(&mut some).unwrap();
                assert!(n > 0 || left < count, "{config}: an event before its completion");
                left -= n;
                if left + n == count {
                    let after = bench.pair.world.lock().cycle();
                    assert!(after - before < 32, "{config}");
                }
            }
        }
        bench.none(&eq);
        // Armed for solicited ones, it tells of a failure too, and of nothing else.
        bench.cq.request_notify(true).unwrap();
        bench.post(2);
        bench.none(&eq);
        let mut batch = bench.qp.start_post_send();
        let remote = RemoteAddress { rkey: 0, ..bench.to.remote(0) };
        batch.post(&SendWr::write(9, &[bench.from.sge(0, 64)], remote)).unwrap();
        batch.ring().unwrap();
        assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
        assert_eq!(bench.cq.poll(&mut some), Ok(3));
        assert_eq!(some[2].status(), WcStatus::RemAccessErr);
        drop(bench.qp);
        let cq = bench.cq;
        cq.destroy().unwrap();
        eq.destroy().unwrap();
    }
}

#[test]
fn completions_that_are_in_the_queue_when_an_event_is_asked_for_send_none_and_the_next_one_does() {
    for config in chosen!(CONFIGS) {
        let mut eq = None;
        let mut bench = bench(config, 20, |pair| {
            eq = Some(pair.a.context.create_eq(16).unwrap());
            pair.a.context.create_cq_with_events(64, eq.as_ref().unwrap()).unwrap()
        });
        let eq = eq.unwrap();
        let mut some = [Completion::default(); 16];
        for unpolled in 1..4 {
            bench.post(unpolled);
            bench.pair.world.lock().run(5000);
            bench.cq.request_notify_of_next(false).unwrap();
            bench.none(&eq);
            bench.post(1);
            assert_eq!(bench.wake(&eq), [completion(&bench.cq)], "{config}");
            assert_eq!(bench.cq.poll(&mut some), Ok(unpolled + 1));
        }
        // After a resize what is in the old ring counts as seen, and what comes into the new one is told of.
        bench.post(2);
        bench.pair.world.lock().run(5000);
        bench.cq.resize(30).unwrap();
        bench.cq.request_notify_of_next(false).unwrap();
        bench.none(&eq);
        bench.post(1);
        assert_eq!(bench.wake(&eq), [completion(&bench.cq)], "{config}");
        bench.cq.request_notify_of_next(false).unwrap();
        bench.none(&eq);
        assert_eq!(bench.cq.poll(&mut some), Ok(3));
        // However the call and the completion meet: it is seen by the call, and then it is there, or it sends an event.
        let mut rng = SmallRng::seed_from_u64(52);
        let (mut told, mut seen) = (0, 0);
        for n in 0..60 {
            bench.post(1);
            // An emulated card takes some tens of cycles, a Verilated one some hundreds.
            let most = if n % 2 == 0 { 60 } else { 600 };
            bench.pair.world.lock().run(rng.random_range(0..most));
            bench.cq.request_notify_of_next(false).unwrap();
            match bench.cq.poll(&mut some).unwrap() {
                0 => {
                    assert_eq!(bench.wake(&eq), [completion(&bench.cq)], "{config}");
                    assert_eq!(bench.cq.poll(&mut some), Ok(1));
                    told += 1;
                }
                _ => {
                    // One that came after the look: it may have told, and the arm of before lasts.
                    bench.pair.world.lock().run(3000);
                    eq.poll(&mut [Event::default(); 4]).unwrap();
                    seen += 1;
                }
            }
        }
        assert!(told > 5 && seen > 5, "{config}: {told}, {seen}");
    }
}

#[test]
fn an_interrupt_finds_its_event_there() {
    for config in chosen!(CONFIGS) {
        let mut eq = None;
        let mut bench = bench(config, 0, |pair| {
            eq = Some(pair.a.context.create_eq(4).unwrap());
            pair.a.context.create_cq_with_events(64, eq.as_ref().unwrap()).unwrap()
        });
        let eq = eq.unwrap();
        for round in 0..20 {
            bench.cq.request_notify(false).unwrap();
            eq.request_interrupt().unwrap();
            bench.post(1 + round % 3);
            let stepped = |_| {
                bench.pair.world.lock().step();
                bench.pair.interrupt(0)
            };
            let interrupt = (0..LIMIT).find_map(stepped);
            let (_, vector) = interrupt.unwrap_or_else(|| panic!("no interrupt{}", bench.pair.diagnose()));
            assert_eq!(vector, eq.number());
            let mut some = [Event::default(); 4];
            let before = bench.pair.world.lock().cycle();
            assert_eq!(eq.poll(&mut some), Ok(1), "{config}, round {round}");
            assert!(bench.pair.world.lock().cycle() - before < 32);
            bench.pair.world.lock().run(2000);
            while bench.cq.poll(&mut [Completion::default(); 8]).unwrap() > 0 {}
            assert_eq!(bench.pair.interrupt(0), None, "{config}, round {round}");
        }
    }
}

#[test]
fn an_overrun_ends_the_queue_pair_and_is_told() {
    for config in chosen!(CONFIGS) {
        for with_events in [true, false] {
            let mut eq = None;
            let mut bench = bench(config, 0, |pair| {
                let context = &pair.a.context;
                let queue = context.create_async_eq(8).unwrap();
                let cq = match with_events {
                    true => context.create_cq_with_events(4, &queue).unwrap(),
                    false => context.create_cq(4).unwrap(),
                };
                eq = Some(queue);
                cq
            });
            let eq = eq.unwrap();
            // A ring of eight, for four were asked for and the card may not know yet what was taken.
            let room = bench.cq.capacity();
            bench.post(13);
            let overrun = Event {
                kind: Coded::Known(EventKind::CqOverrun),
                object: bench.cq.number(),
                ..Event::default()
            };
            assert_eq!(bench.wake(&eq), [overrun], "{config}");
            bench.none(&eq);
            assert_eq!(bench.qp.query().unwrap().state, QpState::Err, "{config}");
            // What is there is handed out; nothing comes behind.
            let mut some = [Completion::default(); 16];
            assert_eq!(bench.cq.poll(&mut some), Ok(8));
            assert!(some[..8].iter().all(Completion::is_success));
            bench.post(1);
            bench.pair.world.lock().run(3000);
            let error = bench.cq.poll(&mut some).unwrap_err();
            assert_eq!(error, Error::CqOverrun { cqn: bench.cq.number(), entries: room });
            bench.none(&eq);
            let lost = bench.pair.a.context.traffic_counter(TrafficCounter::CompletionsLost).unwrap();
            assert_eq!(lost, 6, "{config}: five WRITEs or their flushes, and a flush");
            assert_eq!(bench.pair.a.context.traffic_counter(TrafficCounter::Events).unwrap(), 1);
            // Others go on.
            let (mut other, _peer) = bench.pair.connect(&Connection::default()).unwrap();
            let mut batch = other.start_post_send();
            batch.post(&SendWr::write(7, &[bench.from.sge(0, 64)], bench.to.remote(0)).signaled()).unwrap();
            batch.ring().unwrap();
            let done = bench.pair.a.wait(&bench.pair.world, 1, LIMIT).unwrap();
            assert!(done[0].is_success());
        }
    }
}

/// Keeps a completion queue as full as it may be: each place that is free gets a work request, and all of them complete before the next is taken.
fn keep_full(pair: Pair, what: &str) {
    let mut bench = bench_of(pair, |pair| pair.a.context.create_cq(5).unwrap());
    let room = bench.cq.capacity() as usize;
    assert!(room >= 5, "{what}");
    let (mut free, mut taken) = (room, 0);
    let mut some = [Completion::default(); 16];
    while taken < 300 {
        bench.post(free);
        bench.pair.world.lock().run(2500);
        // By ones, twos and more: the card learns of it each quarter of the ring only.
        free = bench.cq.poll(&mut some[..1 + taken % 5]).unwrap();
        assert_eq!(free, 1 + taken % 5, "{what}: all have completed");
        assert!(some[..free].iter().all(Completion::is_success), "{what}: {some:?}");
        taken += free;
    }
    let lost = bench.pair.a.context.traffic_counter(TrafficCounter::CompletionsLost).unwrap();
    assert_eq!(lost, 0, "{what}");
}

#[test]
fn a_completion_queue_that_is_kept_full_to_its_limit_is_not_overrun() {
    keep_full(Pair::emulated(&PairOptions::default()).unwrap(), "emulated");
    for config in chosen!(CONFIGS) {
        keep_full(Pair::named(config, &PairOptions::default()).unwrap(), config);
    }
}

/// A pair whose card 0 tells of what goes wrong.
fn watched(config: &str) -> (Bench, EventQueue) {
    let mut eq = None;
    let bench = bench(config, 20, |pair| {
        eq = Some(pair.a.context.create_async_eq(8).unwrap());
        pair.a.context.create_cq(128).unwrap()
    });
    (bench, eq.unwrap())
}

fn overrun(qp: &QueuePair) -> Event {
    Event {
        kind: Coded::Known(EventKind::QpFatal),
        object: qp.number(),
        cause: LocalCause::Overrun.code(),
        ..Event::default()
    }
}

/// Rings card 0's doorbell with whatever word, as a host that does not count would.
fn ring(pair: &Pair, offset: u32, word: [u8; 8]) {
    pair.bus(0).doorbell(doorbell::address(0, offset), u64::from_le_bytes(word)).unwrap();
}

#[test]
fn a_send_queue_that_is_overrun_ends_and_says_so() {
    for config in chosen!(CONFIGS) {
        for (posted, producer) in [(0, 65), (3, 68), (3, 0xffff), (3, 2)] {
            let (mut bench, eq) = watched(config);
            bench.post(posted);
            let mut some = [Completion::default(); 128];
            bench.pair.world.lock().run(3000);
            assert_eq!(bench.cq.poll(&mut some), Ok(posted), "{config}");
            let frames = bench.pair.world.lock().link(0).frames();
            let word = SqDoorbell { qpn: bench.qp.number(), producer, ..SqDoorbell::default() };
            ring(&bench.pair, doorbell::SQ, word.to_bytes().unwrap());
            assert_eq!(bench.wake(&eq), [overrun(&bench.qp)], "{config}, producer {producer} of {posted}");
            bench.none(&eq);
            assert_eq!(bench.qp.query().unwrap().state, QpState::Err, "{config}");
            assert_eq!(bench.pair.world.lock().link(0).frames(), frames, "{config}: nothing was sent");
            assert_eq!(bench.cq.poll(&mut some), Ok(0), "{config}: what was not told is not flushed");
            // Others go on.
            let (mut other, _peer) = bench.pair.connect(&Connection::default()).unwrap();
            let mut batch = other.start_post_send();
            batch.post(&SendWr::write(7, &[bench.from.sge(0, 64)], bench.to.remote(0)).signaled()).unwrap();
            batch.ring().unwrap();
            assert!(bench.pair.a.wait(&bench.pair.world, 1, LIMIT).unwrap()[0].is_success());
        }
    }
}

#[test]
fn a_receive_queue_that_is_overrun_ends_and_says_so() {
    for config in chosen!(CONFIGS) {
        // One receive is outstanding beside those that have been used; there are 64 places.
        for (used, producer) in [(0, 65), (3, 68), (3, 0xffff), (3, 2)] {
            let (mut bench, eq) = watched(config);
            let into = bench.pair.a.region(0, 4096, AccessFlags::LOCAL_WRITE).unwrap();
            let message = bench.pair.b.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
            let mut batch = bench.qp.start_post_recv();
            (0..=used).for_each(|i| batch.post(&RecvWr::new(i, &[into.sge(0, 64)])).unwrap());
            batch.ring().unwrap();
            let mut batch = bench.peer.start_post_send();
            (0..used).for_each(|i| batch.post(&SendWr::send(i, &[message.sge(0, 64)]).signaled()).unwrap());
            batch.ring().unwrap();
            bench.pair.b.wait(&bench.pair.world, used as usize, LIMIT).unwrap();
            bench.pair.world.lock().run(3000);
            let mut some = [Completion::default(); 128];
            assert_eq!(bench.cq.poll(&mut some), Ok(used as usize), "{config}");
            let receives = |producer: u16| {
                let word = RqDoorbell { qpn: bench.qp.number(), producer, ..RqDoorbell::default() };
                ring(&bench.pair, doorbell::RQ, word.to_bytes().unwrap());
            };
            receives(used as u16 + 1);
            bench.none(&eq);
            receives(producer);
            assert_eq!(bench.wake(&eq), [overrun(&bench.qp)], "{config}, producer {producer}, {used} used");
            receives(producer);
            bench.none(&eq);
            assert_eq!(bench.qp.query().unwrap().state, QpState::Err, "{config}");
            assert_eq!(bench.cq.poll(&mut some), Ok(1), "{config}: what was not told is not flushed");
            assert_eq!(some[0].wr_id(), used, "{config}");
            assert_eq!(some[0].status(), WcStatus::WrFlushErr, "{config}");
            // Others go on.
            let (mut other, mut peer) = bench.pair.connect(&Connection::default()).unwrap();
            let mut batch = peer.start_post_recv();
            batch.post(&RecvWr::new(8, &[bench.to.sge(0, 64)])).unwrap();
            batch.ring().unwrap();
            let mut batch = other.start_post_send();
            batch.post(&SendWr::send(7, &[bench.from.sge(0, 64)]).signaled()).unwrap();
            batch.ring().unwrap();
            assert!(bench.pair.a.wait(&bench.pair.world, 1, LIMIT).unwrap()[0].is_success());
            assert!(bench.pair.b.wait(&bench.pair.world, 1, LIMIT).unwrap()[0].is_success());
        }
    }
}

#[test]
fn a_moderated_queue_interrupts_less_often_than_it_has_events_and_forgets_none() {
    const QUIET_US: u16 = 20;
    for config in chosen!(CONFIGS) {
        let mut counts = Vec::new();
        for moderation in [0, QUIET_US] {
            let mut eq = None;
            let mut bench = bench(config, 0, |pair| {
                eq = Some(pair.a.context.create_moderated_eq(16, moderation).unwrap());
                pair.a.context.create_cq_with_events(64, eq.as_ref().unwrap()).unwrap()
            });
            let eq = eq.unwrap();
            let mut some = [Completion::default(); 16];
            let (mut interrupts, mut events) = (Vec::new(), 0);
            let interrupted = |bench: &Bench, all: &mut Vec<u64>| {
                while let Some((cycle, vector)) = bench.pair.interrupt(0) {
                    assert_eq!(vector, eq.number());
                    all.push(cycle);
                }
            };
            for _ in 0..40 {
                eq.request_interrupt().unwrap();
                bench.cq.request_notify(false).unwrap();
                bench.post(1);
                // A host that polls meanwhile finds the event at once.
                events += bench.wake(&eq).len();
                while bench.cq.poll(&mut some).unwrap() == 0 {}
                interrupted(&bench, &mut interrupts);
            }
            // Nobody polls: the interrupt comes, at the end of the quiet time at the latest.
            let cycles_us = u64::from(bench.pair.world.lock().clock_khz()).div_ceil(1000);
            bench.pair.world.lock().run(2 * u64::from(QUIET_US) * cycles_us);
            interrupted(&bench, &mut interrupts);
            let before = interrupts.len();
            eq.request_interrupt().unwrap();
            bench.cq.request_notify(false).unwrap();
            bench.post(1);
            bench.pair.world.lock().run(u64::from(QUIET_US + 2) * cycles_us + 3000);
            interrupted(&bench, &mut interrupts);
            assert_eq!(interrupts.len(), before + 1, "{config}: the last event's interrupt");
            let least = u64::from(moderation) * cycles_us;
            assert!(interrupts.windows(2).all(|pair| pair[1] - pair[0] >= least), "{interrupts:?}");
            println!("{config}, {moderation} us: {events} events, {} interrupts", interrupts.len());
            counts.push(interrupts.len());
        }
        assert!(counts[0] >= 40 && counts[1] < counts[0] / 2, "{config}: {counts:?}");
    }
}

/// Both kinds of card, by the same calls: what comes when, in the time that the card counts.
#[test]
fn a_moderated_completion_queue_has_its_event_at_the_count_or_at_the_end_of_the_period() {
    const PERIOD_US: u64 = 30;
    for config in chosen!(CONFIGS) {
        let mut eq = None;
        let mut bench = bench(config, 0, |pair| {
            eq = Some(pair.a.context.create_eq(16).unwrap());
            pair.a.context.create_cq_with_events(64, eq.as_ref().unwrap()).unwrap()
        });
        let eq = eq.unwrap();
        let cycles_us = u64::from(bench.pair.world.lock().clock_khz()).div_ceil(1000);
        let now = |bench: &Bench| bench.pair.world.lock().cycle();
        let take = |bench: &mut Bench, count: usize| {
            let mut some = [Completion::default(); 16];
            let mut left = count;
            while left > 0 {
                left -= bench.cq.poll(&mut some).unwrap();
            }
        };
        bench.cq.moderate(4, PERIOD_US as u16).unwrap();
        // Four make an event, long before the period is over.
        for _ in 0..3 {
            bench.cq.request_notify(false).unwrap();
            let before = now(&bench);
            bench.post(4);
            assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
            let passed = now(&bench) - before;
            assert!(passed < PERIOD_US * cycles_us, "{config}: {passed} cycles");
            take(&mut bench, 4);
        }
        // One alone waits for the period, and for no more than a sweep and its own way besides.
        for _ in 0..3 {
            bench.cq.request_notify(false).unwrap();
            let before = now(&bench);
            bench.post(1);
            take(&mut bench, 1);
            let there = now(&bench);
            assert_eq!(eq.poll(&mut [Event::default(); 4]), Ok(0), "{config}: not at once");
            assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
            let (least, most) = (now(&bench) - before, now(&bench) - there);
            assert!(least >= (PERIOD_US - 1) * cycles_us, "{config}: after {least} cycles");
            assert!(most < (PERIOD_US + 10) * cycles_us, "{config}: after {most} cycles");
        }
        // What is there when it is armed waits as if it came then.
        bench.post(2);
        bench.none(&eq);
        let before = now(&bench);
        bench.cq.request_notify(false).unwrap();
        bench.post(1);
        assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
        let passed = now(&bench) - before;
        assert!(passed >= (PERIOD_US - 1) * cycles_us, "{config}: after {passed} cycles");
        bench.cq.request_notify(false).unwrap();
        let before = now(&bench);
        bench.post(1);
        assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
        assert!(now(&bench) - before < PERIOD_US * cycles_us, "{config}: the fourth that is there");
        take(&mut bench, 4);
        // New limits hold at once, also those of a thread that does not poll.
        bench.cq.moderate(40, u16::MAX).unwrap();
        bench.cq.request_notify(false).unwrap();
        bench.post(3);
        take(&mut bench, 3);
        bench.none(&eq);
        bench.cq.target().moderate(3, u16::MAX).unwrap();
        assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
        bench.cq.moderate(0, 0).unwrap();
        bench.cq.request_notify(false).unwrap();
        bench.post(1);
        assert_eq!(bench.wake(&eq), [completion(&bench.cq)]);
        take(&mut bench, 1);
        bench.none(&eq);
    }
}

#[test]
fn a_moderated_completion_queue_that_ends_leaves_nothing_to_the_next() {
    let pair = Pair::named("generic-8b", &PairOptions::default()).unwrap();
    let eq = pair.a.context.create_eq(16).unwrap();
    // All numbers but one are taken, so each queue has the number of the one before.
    let mut others: Vec<_> = std::iter::from_fn(|| pair.a.context.create_cq(4).ok()).collect();
    assert!(others.len() > 1);
    drop(others.pop());
    let mut numbers = Vec::new();
    for round in 0..3 {
        let mut cq = pair.a.context.create_cq_with_events(64, &eq).unwrap();
        numbers.push(cq.number());
        let own = pair.a.pd.create_qp(&QpInitAttr::rc(&cq, &cq)).unwrap();
        let peer = pair.b.pd.create_qp(&QpInitAttr::rc(&pair.b.cq, &pair.b.cq)).unwrap();
        let (mut qp, _peer) = pair.bring_up(own, peer, &Connection::default()).unwrap();
        let from = pair.a.region(0, 4096, AccessFlags::LOCAL_READ).unwrap();
        let to = pair.b.region(0, 4096, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        cq.request_notify(false).unwrap();
        if round < 2 {
            cq.moderate(8, 20).unwrap();
        }
        let mut batch = qp.start_post_send();
        batch.post(&SendWr::write(1, &[from.sge(0, 64)], to.remote(0)).signaled()).unwrap();
        batch.ring().unwrap();
        let mut some = [Completion::default(); 4];
        while cq.poll(&mut some).unwrap() == 0 {}
        let mut events = [Event::default(); 4];
        match round {
            // It goes while an entry waits.
            0 | 1 => assert_eq!(eq.poll(&mut events), Ok(0)),
            // The next one is not moderated.
            _ => {
                pair.world.lock().run(2000);
                assert_eq!(eq.poll(&mut events), Ok(1));
                assert_eq!(events[0], completion(&cq));
            }
        }
        drop(qp);
        cq.destroy().unwrap();
        pair.world.lock().run(20_000);
        assert_eq!(eq.poll(&mut events), Ok(0), "of a queue that is gone");
    }
    assert_eq!(numbers, [numbers[0]; 3]);
}

#[test]
fn a_link_that_goes_down_and_comes_back_is_told_and_seen() {
    for (config, speed) in chosen!([("generic-8b", 10), ("generic-64b", 1000)]) {
        let bench = bench(config, 0, |pair| pair.a.context.create_cq(4).unwrap());
        let events = bench.pair.a.context.create_async_eq(8).unwrap();
        let state = || {
            let read = |register| bench.pair.bus(0).csr_read32(port::BLOCK.address(register)).unwrap();
            let value = read(&port::LINK);
            let field = |name| port::LINK.field(name).unwrap();
            let of = |name| u128::from(value) >> field(name).offset & field(name).max();
            (of("up"), of("speed"))
        };
        assert_eq!(state(), (1, speed), "{config}");
        bench.none(&events);
        for (up, kind) in [(false, EventKind::PortDown), (true, EventKind::PortUp)] {
            bench.pair.world.lock().card_mut(0).set_link(up);
            let told = Event { kind: Coded::Known(kind), ..Event::default() };
            assert_eq!(bench.wake(&events), [told], "{config}");
            bench.none(&events);
            assert_eq!(state(), (up.into(), speed), "{config}");
        }
    }
}
