// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deep queues: filled to the last place, and gone round more than once. At `generic-64b` they are as deep as a card has them, 2^15 work
//! requests, and the producers of their doorbells, which count modulo 2^16, go round as well.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Completion, CompletionQueue, CompletionTarget, Error, MemoryRegion, Payload, Qp, QpInitAttr,
    QueuePair, RecvWr, Reset, SendWr, SharedReceiveQueue, SrqInitAttr, WorkKind,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{Connection, Node, Pair, PairOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Configurations, and the work requests of each queue there.
const CONFIGS: [(&str, usize); 2] = [("generic-8b", 1 << 12), ("generic-64b", DEEPEST)];

/// Most work requests of a queue.
const DEEPEST: usize = 1 << 15;

/// Those of queues whose messages are not signalled.
const SILENT: usize = 1 << 12;

/// Bytes of a message: its number.
const SIZE: usize = 8;

/// Cycles without a completion after which a test gives up, and those of a message at most.
const STUCK: u64 = 200_000;
const EACH: u64 = 100;

fn pair(config: &str) -> Pair {
    let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
    let pair = Pair::new(&model, &PairOptions::default()).unwrap();
    let can = pair.a.context.capabilities();
    assert_eq!((can.max_sq_log2, can.max_rq_log2), (15, 15), "{config}: is {DEEPEST} the deepest?");
    pair
}

fn make(
    node: &Node,
    cq: impl Into<CompletionTarget>,
    depth: usize,
    srq: Option<&SharedReceiveQueue>,
) -> Qp<Reset> {
    let cq = cq.into();
    let mut attr = QpInitAttr::rc(&cq, &cq);
    (attr.max_send_wr, attr.max_recv_wr, attr.srq) = (depth as u32, depth as u32, srq);
    node.pd.create_qp(&attr).unwrap()
}

/// Posts numbered SENDs up to `end`.
fn send(qp: &mut QueuePair, numbers: std::ops::Range<u64>, tag: u64) {
    let mut batch = qp.start_post_send();
    for n in numbers {
        batch.post(&SendWr::send(n, Payload::Inline(&(tag | n).to_le_bytes())).signaled()).unwrap();
    }
    batch.ring().unwrap();
}

/// The place of a message in a region.
fn place(region: &MemoryRegion, id: u64) -> usize {
    id as usize * SIZE % region.len()
}

fn number_at(region: &MemoryRegion, id: u64) -> u64 {
    let mut bytes = [0; SIZE];
    region.memory().read(place(region, id), &mut bytes);
    u64::from_le_bytes(bytes)
}

/// Both cards of a test, what came of a queue pair's messages, and where those are received.
struct Bench {
    pair: Pair,
    /// As deep as the queues.
    cqs: [CompletionQueue; 2],
    inbox: MemoryRegion,
    sent: u64,
    received: u64,
}

impl Bench {
    fn new(config: &str, depth: usize) -> Self {
        let pair = pair(config);
        let cqs = [&pair.a, &pair.b].map(|node| node.context.create_cq(depth as u32).unwrap());
        let inbox = pair.b.region(0, depth * SIZE, AccessFlags::LOCAL_WRITE).unwrap();
        Bench { pair, cqs, inbox, sent: 0, received: 0 }
    }

    fn receive(&self, peer: &mut QueuePair, numbers: std::ops::Range<u64>) {
        let mut batch = peer.start_post_recv();
        for n in numbers {
            batch.post(&RecvWr::new(n, &[self.inbox.sge(place(&self.inbox, n), SIZE as u32)])).unwrap();
        }
        batch.ring().unwrap();
    }

    /// What both sides are told, at most so much of each: numbers in their order, and the right bytes.
    fn look(&mut self, most: usize) {
        let mut some = vec![Completion::default(); most];
        // A sender is told behind its receiver.
        for (cq, kind) in [(0, WorkKind::Send), (1, WorkKind::Receive)] {
            let n = self.cqs[cq].poll(&mut some).unwrap();
            for done in &some[..n] {
                let count = if kind == WorkKind::Send { &mut self.sent } else { &mut self.received };
                assert!(done.is_success() && done.kind() == kind, "message {count}: {done:?}");
                assert_eq!(done.wr_id(), *count);
                *count += 1;
                if kind == WorkKind::Receive {
                    assert_eq!(number_at(&self.inbox, done.wr_id()), done.wr_id());
                }
            }
        }
    }

    /// Looks until both were told of `end` messages.
    fn look_for(&mut self, end: u64) {
        let (mut before, mut since) = ((0, 0), self.pair.world.lock().cycle());
        while (self.sent, self.received) != (end, end) {
            self.look(256);
            let cycle = self.pair.world.lock().cycle();
            if (self.sent, self.received) != before {
                (before, since) = ((self.sent, self.received), cycle);
            }
            assert!(cycle < since + STUCK, "{before:?} of {end}{}", self.pair.diagnose());
        }
    }
}

#[test]
fn queues_of_all_places_are_filled_and_gone_round_in_order() {
    for (config, depth) in chosen!(CONFIGS) {
        let mut bench = Bench::new(config, depth);
        let (a, b) = (
            make(&bench.pair.a, &bench.cqs[0], depth, None),
            make(&bench.pair.b, &bench.cqs[1], depth, None),
        );
        let (mut qp, mut peer) = bench.pair.bring_up(a, b, &Connection::default()).unwrap();
        // Three quarters, so that the doorbells that fill the queues do not begin at their first place.
        let mut next = depth as u64 * 3 / 4;
        bench.receive(&mut peer, 0..next);
        send(&mut qp, 0..next, 0);
        bench.look_for(next);
        // Full twice, by one doorbell each, and nobody takes a completion before all are there.
        for _ in 0..2 {
            let end = next + depth as u64;
            bench.receive(&mut peer, next..end);
            send(&mut qp, next..end, 0);
            assert_eq!((qp.start_post_send().room(), peer.start_post_recv().room()), (0, 0));
            let full = qp.start_post_send().post(&SendWr::send(0, Payload::Inline(&[]))).unwrap_err();
            assert!(matches!(full, Error::SendQueueFull { .. }), "{full}");
            let mut world = bench.pair.world.lock();
            let told = |world: &ferrowire_sim::bus::World| world.card(0).host().stats().writes;
            let all = told(&world) + depth as u64;
            assert!(
                world.run_until(EACH * depth as u64, |world| told(world) == all),
                "{config}: not all is told"
            );
            drop(world);
            bench.look_for(end);
            next = end;
        }
        // The deepest have been round 2^16. Now in batches of any size.
        let (mut rng, end) = (SmallRng::seed_from_u64(1), next + depth as u64 / 4);
        assert!(next > 1 << 16 || depth < DEEPEST);
        while next < end {
            let more = (next + rng.random_range(1..3000)).min(end);
            bench.receive(&mut peer, next..more);
            send(&mut qp, next..more, 0);
            bench.look(rng.random_range(1..2000));
            next = more;
        }
        bench.look_for(end);
    }
}

#[test]
fn a_deep_queue_without_signals_is_freed_by_its_last_message() {
    for (config, _) in chosen!(CONFIGS) {
        let pair = pair(config);
        let to =
            pair.b.region(0, SILENT * SIZE, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        let (a, b) = (make(&pair.a, &pair.a.cq, SILENT, None), make(&pair.b, &pair.b.cq, 1, None));
        let (mut qp, _peer) = pair.bring_up(a, b, &Connection::default()).unwrap();
        let mut next = 0u64;
        // The third time not from the first place.
        for count in [SILENT as u64, SILENT as u64 - 1, SILENT as u64, 1] {
            let mut batch = qp.start_post_send();
            for n in next..next + count {
                let number = n.to_le_bytes();
                let wr = SendWr::write(n, Payload::Inline(&number), to.remote(place(&to, n)));
                batch.post(&if n + 1 == next + count { wr.signaled() } else { wr }).unwrap();
            }
            assert_eq!(batch.room(), SILENT - count as usize);
            batch.ring().unwrap();
            let done = pair.a.wait(&pair.world, 1, EACH * count + STUCK);
            let done = done.unwrap_or_else(|error| panic!("{config}: {error}{}", pair.diagnose()));
            assert!(done[0].is_success() && done[0].wr_id() == next + count - 1, "{config}: {done:?}");
            let wrong = (next..next + count).find(|n| number_at(&to, *n) != *n);
            assert_eq!(wrong, None, "{config}: after {next} messages");
            next += count;
        }
    }
}

#[test]
fn a_deep_shared_queue_is_filled_and_gone_round_by_several_queue_pairs() {
    const SENDERS: usize = 4;
    for (config, depth) in chosen!(CONFIGS) {
        let mut bench = Bench::new(config, depth);
        let mut attr = SrqInitAttr::default();
        attr.max_wr = depth as u32;
        let mut srq = bench.pair.b.pd.create_srq(&attr).unwrap();
        let mut qps: Vec<_> = (0..SENDERS)
            .map(|_| {
                let a = make(&bench.pair.a, &bench.cqs[0], depth / SENDERS, None);
                let b = make(&bench.pair.b, &bench.cqs[1], 1, Some(&srq));
                bench.pair.bring_up(a, b, &Connection::default()).unwrap()
            })
            .collect();
        let mut some = vec![Completion::default(); 256];
        // Of each queue pair, messages that were sent and received.
        let mut told = [[0u64; 2]; SENDERS];
        let mut next = 0u64;
        for count in [depth, depth, SENDERS * 100] {
            let mut taken = vec![false; depth];
            let mut batch = srq.start_post_recv();
            for n in next..next + count as u64 {
                batch.post(&RecvWr::new(n, &[bench.inbox.sge(place(&bench.inbox, n), SIZE as u32)])).unwrap();
            }
            assert_eq!(batch.room(), depth - count);
            batch.ring().unwrap();
            assert_eq!(usize::from(srq.query().unwrap().left), count, "{config}");
            let each = (count / SENDERS) as u64;
            for (i, (qp, _)) in qps.iter_mut().enumerate() {
                send(qp, told[i][0]..told[i][0] + each, (i as u64) << 32);
            }
            let (mut left, mut since) = ([count; 2], bench.pair.world.lock().cycle());
            while left != [0, 0] {
                for side in 0..2 {
                    let n = bench.cqs[side].poll(&mut some).unwrap();
                    left[side] -= n;
                    for done in &some[..n] {
                        let number = |(qp, peer): &(QueuePair, QueuePair)| [qp.number(), peer.number()][side];
                        let i = qps.iter().position(|qps| number(qps) == done.qpn()).unwrap();
                        let count = &mut told[i][side];
                        assert!(done.is_success(), "{config}: {done:?}");
                        match side {
                            0 => assert_eq!(done.wr_id(), *count, "{config}"),
                            _ => {
                                let message = (i as u64) << 32 | *count;
                                assert_eq!(
                                    number_at(&bench.inbox, done.wr_id()),
                                    message,
                                    "{config}: {done:?}"
                                );
                                let again =
                                    std::mem::replace(&mut taken[done.wr_id() as usize % depth], true);
                                assert!(!again && done.wr_id() >= next, "{config}: {done:?}");
                            }
                        }
                        *count += 1;
                        since = bench.pair.world.lock().cycle();
                    }
                }
                let late = bench.pair.world.lock().cycle() > since + STUCK;
                assert!(!late, "{config}: {left:?} of {count} are missing{}", bench.pair.diagnose());
            }
            assert_eq!(srq.query().unwrap().left, 0, "{config}");
            next += count as u64;
        }
        assert!(next > 1 << 16 || depth < DEEPEST);
    }
}
