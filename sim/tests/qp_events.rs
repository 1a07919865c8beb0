// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a card tells of its queue pairs: events and queries, through the driver, the Verilated cards and the wire.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Coded, Event, EventKind, EventQueue, MemoryRegion, QpAttributes, QpInitAttr, QpState,
    QueuePair, RecvWr, RemoteAddress, SendWr, WcStatus,
};
use ferrowire_sim::pair::{Connection, Pair, PairOptions, EMULATED};
use ferrowire_spec::Psn;

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];

/// Cycles for what a test waits for.
const LIMIT: u64 = 100_000;

/// Bytes of a message: some packets.
const SIZE: u32 = 3000;

/// Messages that there is memory for.
const MESSAGES: usize = 16;

/// First PSNs of the two cards: the first comes round soon.
const PSNS: (u32, u32) = (0xff_fffe, 0x12_3456);

/// A pair; the cards tell of what befalls their queue pairs, each in a queue of its own.
struct Bench {
    pair: Pair,
    events: [EventQueue; 2],
    from: MemoryRegion,
    to: MemoryRegion,
}

fn bench(config: &str, latency: u64) -> Bench {
    let options = PairOptions { host_latency: latency, wire_latency: latency, ..PairOptions::default() };
    let pair = Pair::named(config, &options).unwrap();
    let events = [&pair.a, &pair.b].map(|node| node.context.create_async_eq(8).unwrap());
    let bytes = SIZE as usize * MESSAGES;
    let from = pair.a.region(0, bytes, AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE).unwrap();
    let remote = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    let to = pair.b.region(0, bytes, remote).unwrap();
    Bench { pair, events, from, to }
}

fn connection() -> Connection {
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    Connection { psns: Some(PSNS), access, rd_atomic: 4, min_rnr_timer: 1, ..Connection::default() }
}

fn event(kind: EventKind, qp: &QueuePair, cause: u8) -> Event {
    Event { kind: Coded::Known(kind), object: qp.number(), cause, ..Event::default() }
}

impl Bench {
    /// Messages of three packets each, READs among them.
    fn post(&self, qp: &mut QueuePair, count: usize) {
        let mut batch = qp.start_post_send();
        for i in 0..count {
            let at = i % MESSAGES * SIZE as usize;
            let (sges, remote) = ([self.from.sge(at, SIZE)], self.to.remote(at));
            let wr = match i % 3 {
                2 => SendWr::read(i as u64, &sges, remote),
                _ => SendWr::write(i as u64, &sges, remote),
            };
            batch.post(&wr.signaled()).unwrap();
        }
        batch.ring().unwrap();
    }

    /// What card `card` tells next.
    #[track_caller]
    fn told(&self, card: usize) -> Event {
        let limit = self.pair.world.lock().cycle() + LIMIT;
        let mut some = [Event::default()];
        while self.pair.world.lock().cycle() < limit {
            if self.events[card].poll(&mut some).unwrap() > 0 {
                return some[0];
            }
        }
        panic!("no event{}", self.pair.diagnose());
    }

    #[track_caller]
    fn nothing(&self, card: usize) {
        self.pair.world.lock().run(4000);
        let mut some = [Event::default(); 4];
        let n = self.events[card].poll(&mut some).unwrap();
        assert!(n == 0, "{:?}", &some[..n]);
    }

    /// Completions of card 0 that are in memory.
    fn done(&self) -> usize {
        let mut some = [ferrowire::Completion::default(); 64];
        let n = self.pair.a.cq.poll(&mut some).unwrap();
        assert!(some[..n].iter().all(ferrowire::Completion::is_success), "{:?}", &some[..n]);
        n
    }
}

fn to_sqd(qp: &mut QueuePair, event: bool) {
    let wanted = QpAttributes::new().sqd_event(event);
    qp.modify(QpState::Sqd, &wanted).unwrap();
}

fn to_rts(qp: &mut QueuePair) {
    qp.modify(QpState::Rts, &QpAttributes::default()).unwrap();
}

#[test]
fn a_drain_is_told_once_behind_the_completions_of_all_that_was_begun() {
    for (config, latency) in chosen!([("generic-8b", 0), ("generic-64b", 0), ("generic-64b", 150)]) {
        let bench = bench(config, latency);
        let (mut qp, _peer) = bench.pair.connect(&connection()).unwrap();
        for (round, cycles) in [0, 30, 90, 200, 500, 4000].into_iter().enumerate() {
            for wanted in [true, false] {
                let count = 3 * round;
                bench.post(&mut qp, count);
                bench.pair.world.lock().run(cycles);
                to_sqd(&mut qp, wanted);
                let mut done = 0;
                if wanted {
                    assert_eq!(bench.told(0), event(EventKind::SqDrained, &qp, 0), "{config}");
                } else {
                    let limit = bench.pair.world.lock().cycle() + LIMIT;
                    while qp.query().unwrap().sq_draining {
                        assert!(bench.pair.world.lock().cycle() < limit, "{config}: it drains for ever");
                    }
                }
                done += bench.done();
                let status = qp.query().unwrap();
                assert!(!status.sq_draining, "{config}");
                assert_eq!(status.state, QpState::Sqd);
                // Nothing comes behind it.
                bench.nothing(0);
                assert_eq!(bench.done(), 0, "{config}, {cycles} cycles: a completion behind the end");
                to_rts(&mut qp);
                let left = bench.pair.a.wait(&bench.pair.world, count - done, LIMIT).unwrap();
                assert!(left.iter().all(ferrowire::Completion::is_success));
            }
        }
        bench.nothing(0);
    }
}

#[test]
fn a_drain_lasts_as_long_as_the_peer_has_not_answered_and_is_not_told_of_another_stay() {
    for config in chosen!(CONFIGS) {
        for end in [QpState::Rts, QpState::Err, QpState::Reset] {
            let bench = bench(config, 20);
            let (mut qp, mut peer) = bench.pair.connect(&connection()).unwrap();
            // The peer has no receive yet.
            let mut batch = qp.start_post_send();
            batch.post(&SendWr::send(1, &[bench.from.sge(0, 64)]).signaled()).unwrap();
            batch.ring().unwrap();
            bench.pair.world.lock().run(2000);
            to_sqd(&mut qp, true);
            bench.nothing(0);
            assert!(qp.query().unwrap().sq_draining, "{config}");
            if end == QpState::Reset {
                let (mut qp, _peer) = bench.pair.reconnect(qp, peer, &connection()).unwrap();
                assert!(!qp.query().unwrap().sq_draining, "{config}");
                bench.nothing(0);
                to_sqd(&mut qp, true);
                assert_eq!(bench.told(0), event(EventKind::SqDrained, &qp, 0), "{config}");
                bench.nothing(0);
                continue;
            }
            qp.modify(end, &QpAttributes::default()).unwrap();
            assert!(!qp.query().unwrap().sq_draining, "{config}");
            bench.nothing(0);
            if end == QpState::Err {
                let done = bench.pair.a.wait(&bench.pair.world, 1, LIMIT).unwrap();
                assert_eq!(done[0].status(), WcStatus::WrFlushErr);
                bench.nothing(0);
                continue;
            }
            // Another stay, without an event; then one with.
            to_sqd(&mut qp, false);
            let mut batch = peer.start_post_recv();
            batch.post(&RecvWr::new(1, &[bench.to.sge(0, 64)])).unwrap();
            batch.ring().unwrap();
            let done = bench.pair.a.wait(&bench.pair.world, 1, LIMIT).unwrap();
            assert!(done[0].is_success(), "{config}");
            assert!(!qp.query().unwrap().sq_draining, "{config}");
            bench.nothing(0);
            to_rts(&mut qp);
            to_sqd(&mut qp, true);
            assert_eq!(bench.told(0), event(EventKind::SqDrained, &qp, 0), "{config}");
            bench.nothing(0);
        }
    }
}

#[test]
fn a_query_tells_the_psns_of_both_sequences() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 20);
        let (mut qp, peer) = bench.pair.connect(&connection()).unwrap();
        let psns = |qp: &QueuePair| {
            let status = qp.query().unwrap();
            (status.sq_psn, status.rq_psn)
        };
        let at = |psn: u32, more: u32| Psn::new((psn + more) & 0xff_ffff);
        for messages in 0..5u32 {
            // Three PSNs each, whether WRITE or READ.
            let sent = 3 * messages;
            assert_eq!(psns(&qp), (at(PSNS.0, sent), at(PSNS.1, 0)), "{config}");
            assert_eq!(psns(&peer), (at(PSNS.1, 0), at(PSNS.0, sent)), "{config}");
            let mut batch = qp.start_post_send();
            let (sges, remote) = ([bench.from.sge(0, SIZE)], bench.to.remote(0));
            let wr = match messages % 2 {
                0 => SendWr::write(1, &sges, remote),
                _ => SendWr::read(1, &sges, remote),
            };
            batch.post(&wr.signaled()).unwrap();
            batch.ring().unwrap();
            assert!(bench.pair.a.wait(&bench.pair.world, 1, LIMIT).unwrap()[0].is_success());
        }
        // Not of a former life.
        let qp = qp.reset().unwrap();
        let status = qp.query().unwrap();
        assert_eq!(
            (status.state, status.sq_psn, status.rq_psn),
            (Coded::Known(QpState::Reset), at(0, 0), at(0, 0))
        );
    }
}

#[test]
fn what_a_peer_may_not_do_ends_the_queue_pair_and_is_told_once() {
    // A key that grants nothing, for WRITE and READ; more than the receive holds; and a READ that the queue pair does not offer.
    for config in chosen!(CONFIGS) {
        for (case, kind, cause) in [
            ("write", EventKind::QpAccessError, 0x62),
            ("read", EventKind::QpAccessError, 0x62),
            ("long", EventKind::QpRequestError, 0x61),
            ("unoffered", EventKind::QpRequestError, 0x61),
        ] {
            let bench = bench(config, 20);
            let access = match case {
                "unoffered" => AccessFlags::REMOTE_WRITE,
                _ => connection().access,
            };
            let (mut qp, mut peer) = bench.pair.connect(&Connection { access, ..connection() }).unwrap();
            if case == "long" {
                let mut batch = peer.start_post_recv();
                batch.post(&RecvWr::new(1, &[bench.to.sge(0, 63)])).unwrap();
                batch.ring().unwrap();
            }
            let (sges, remote) = ([bench.from.sge(0, 64)], bench.to.remote(0));
            let nowhere = RemoteAddress { rkey: remote.rkey ^ 1, ..remote };
            let mut batch = qp.start_post_send();
            // Several are on their way.
            for i in 0..4 {
                let wr = match case {
                    "write" => SendWr::write(i, &sges, nowhere),
                    "read" => SendWr::read(i, &sges, nowhere),
                    "long" => SendWr::send(i, &sges),
                    _ => SendWr::read(i, &sges, remote),
                };
                batch.post(&wr.signaled()).unwrap();
            }
            batch.ring().unwrap();
            assert_eq!(bench.told(1), event(kind, &peer, cause), "{config}, {case}");
            assert_eq!(peer.query().unwrap().state, QpState::Err, "{config}, {case}");
            // Of the sender its completion says why.
            let done = bench.pair.a.wait(&bench.pair.world, 4, LIMIT).unwrap();
            let status = if cause == 0x62 { WcStatus::RemAccessErr } else { WcStatus::RemInvReqErr };
            assert_eq!(done[0].status(), status, "{config}, {case}");
            bench.nothing(0);
            bench.nothing(1);
        }
    }
}

#[test]
fn the_first_packet_in_rtr_is_told_once_in_a_life() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 20);
        let (a, b) = bench.pair.connect(&connection()).unwrap();
        // In RTS, where both were before anything came, nobody is told.
        let (mut qp, peer) = (a, b);
        bench.post(&mut qp, 3);
        assert_eq!(bench.pair.a.wait(&bench.pair.world, 3, LIMIT).unwrap().len(), 3);
        bench.nothing(1);
        drop((qp, peer));
        for _ in 0..2 {
            let make = |node: &ferrowire_sim::pair::Node| {
                let attr = QpInitAttr::rc(&node.cq, &node.cq);
                node.pd.create_qp(&attr).unwrap()
            };
            let (a, b) = (make(&bench.pair.a), make(&bench.pair.b));
            let (mut qp, peer, _) = bench.pair.half_up(a, b, &connection()).unwrap();
            bench.nothing(1);
            for _ in 0..2 {
                bench.post(&mut qp, 2);
                assert_eq!(bench.pair.a.wait(&bench.pair.world, 2, LIMIT).unwrap().len(), 2);
            }
            let told = Event {
                kind: Coded::Known(EventKind::CommEstablished),
                object: peer.number(),
                ..Event::default()
            };
            assert_eq!(bench.told(1), told, "{config}");
            bench.nothing(1);
            assert_eq!(peer.query().unwrap().state, QpState::Rtr);
        }
    }
}
