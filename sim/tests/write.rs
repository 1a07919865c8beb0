// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA WRITE from one card's host to the other's, through the driver, the Verilated cards and the wire.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Completion, DropReason, HwCounter, MemoryRegion, PathMtu, QpState, QueuePair, RemoteAddress,
    SendWr, Sge, WcStatus,
};
use ferrowire_sim::pair::{bytes, Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_sim::wire::SentFrame;
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::Opcode;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

const TARGET: AccessFlags = AccessFlags::REMOTE_WRITE;

fn pair_of(config: &str, options: &PairOptions) -> Pair {
    Pair::named(config, options).unwrap()
}

fn pair(config: &str) -> Pair {
    pair_of(config, &PairOptions::default())
}

fn source(node: &Node, bytes: usize) -> MemoryRegion {
    node.region(0, bytes, AccessFlags::LOCAL_READ).unwrap()
}

fn target(node: &Node, bytes: usize) -> MemoryRegion {
    node.region(0, bytes, AccessFlags::LOCAL_WRITE | TARGET).unwrap()
}

/// Posts one signalled WRITE and rings.
fn post(qp: &mut QueuePair, wr_id: u64, sge: Sge, remote: RemoteAddress) {
    let mut batch = qp.start_post_send();
    batch.post(&SendWr::write(wr_id, &[sge], remote).signaled()).unwrap();
    batch.ring().unwrap();
}

#[track_caller]
fn wait(pair: &Pair, count: usize) -> Vec<Completion> {
    match pair.a.wait(&pair.world, count, LIMIT) {
        Ok(done) => done,
        Err(error) => panic!("{error}{}", pair.diagnose()),
    }
}

#[track_caller]
fn wait_well(pair: &Pair, count: usize) {
    for completion in wait(pair, count) {
        assert!(completion.is_success(), "{completion:?}{}", pair.diagnose());
    }
}

/// Frames that a link carried, with their opcodes.
fn opcodes(frames: &[SentFrame]) -> Vec<Opcode> {
    frames.iter().map(|frame| Frame::parse(&frame.bytes).unwrap().opcode().unwrap()).collect()
}

#[test]
fn writes_of_every_size_and_place_arrive_and_touch_nothing_else() {
    const ROOM: usize = 3 * 4096 + 8192;
    let sizes = [0, 1, 3, 4, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 8192];
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, ROOM), target(&pair.b, ROOM));
        let mut rng = SmallRng::seed_from_u64(1);
        let mut data = vec![0; ROOM];
        rng.fill_bytes(&mut data);
        from.memory().write(0, &data);
        let mut expected = vec![0; ROOM];
        for mtu in [PathMtu::B256, PathMtu::B1024, PathMtu::B4096] {
            let (mut qp, _peer) = pair.connect(&Connection { mtu, ..Connection::default() }).unwrap();
            for size in sizes {
                for _ in 0..3 {
                    // Near a page's end as often as not.
                    let mut place = || match rng.random_bool(0.5) {
                        true => rng.random_range(4096 - 70..4096 + 70),
                        false => rng.random_range(0..4096),
                    };
                    let (at, there) = (place(), place());
                    post(&mut qp, 1, from.sge(at, size as u32), to.remote(there));
                    wait_well(&pair, 1);
                    expected[there..there + size].copy_from_slice(&data[at..at + size]);
                    let got = bytes(to.memory());
                    let wrong = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                    assert_eq!(wrong, None, "{config}, MTU {mtu:?}: {size} bytes from {at} to {there}");
                }
            }
        }
    }
}

#[test]
fn long_messages_of_one_and_of_several_queue_pairs_all_arrive() {
    const SIZE: usize = 20_000;
    for config in chosen!(CONFIGS) {
        for (qps, each) in [(1, 24), (3, 8)] {
            let pair = pair(config);
            let from = source(&pair.a, SIZE);
            let mut data = vec![0; SIZE];
            SmallRng::seed_from_u64(4).fill_bytes(&mut data);
            from.memory().write(0, &data);
            let ends: Vec<_> = (0..qps)
                .map(|_| (pair.connect(&Connection::default()).unwrap(), target(&pair.b, SIZE)))
                .collect();
            let mut kept = Vec::new();
            let mut targets = Vec::new();
            for ((mut qp, peer), to) in ends {
                let mut batch = qp.start_post_send();
                for i in 0..each {
                    let sges = [from.sge(0, SIZE as u32)];
                    batch.post(&SendWr::write(i, &sges, to.remote(0)).signaled()).unwrap();
                }
                batch.ring().unwrap();
                kept.push((qp, peer));
                targets.push(to);
            }
            wait_well(&pair, qps * each as usize);
            for to in targets {
                assert!(bytes(to.memory()) == data, "{config}, {qps} queue pairs");
            }
        }
    }
}

#[test]
fn ipv6_carries_writes_too() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 3000), target(&pair.b, 3000));
        from.memory().fill(0, 3000, 7);
        let (mut qp, _peer) = pair.connect(&Connection { ipv6: true, ..Connection::default() }).unwrap();
        post(&mut qp, 1, from.sge(0, 3000), to.remote(0));
        wait_well(&pair, 1);
        assert_eq!(bytes(to.memory()), [7; 3000]);
    }
}

#[test]
fn many_queue_pairs_share_the_wire_with_host_latency() {
    const EACH: usize = 6;
    const ROOM: usize = 2048;
    for (config, host_latency) in chosen!([("generic-8b", 0), ("generic-64b", 250)]) {
        let seed = 11;
        let pair = pair_of(config, &PairOptions { host_latency, wire_latency: 20, ..PairOptions::default() });
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut qps: Vec<_> = (0..10).map(|_| pair.connect(&Connection::default()).unwrap()).collect();
        let (from, to) = (source(&pair.a, ROOM * EACH * 10), target(&pair.b, ROOM * EACH * 10));
        let mut data = vec![0; ROOM * EACH * 10];
        rng.fill_bytes(&mut data);
        from.memory().write(0, &data);
        let mut expected = vec![0; data.len()];
        for (i, (qp, _)) in qps.iter_mut().enumerate() {
            let mut batch = qp.start_post_send();
            for j in 0..EACH {
                let at = (i * EACH + j) * ROOM + rng.random_range(0..64);
                let size = rng.random_range(1..ROOM - 64);
                let sges = [from.sge(at, size as u32)];
                batch.post(&SendWr::write(j as u64, &sges, to.remote(at)).signaled()).unwrap();
                expected[at..at + size].copy_from_slice(&data[at..at + size]);
            }
            batch.ring().unwrap();
        }
        let done = wait(&pair, 10 * EACH);
        assert!(done.iter().all(Completion::is_success), "seed {seed}");
        for (qp, _) in &qps {
            let order: Vec<u64> = done.iter().filter(|c| c.qpn() == qp.number()).map(|c| c.wr_id()).collect();
            assert_eq!(order, (0..EACH as u64).collect::<Vec<_>>(), "seed {seed}");
        }
        assert!(bytes(to.memory()) == expected, "{config}, seed {seed}");
    }
}

#[test]
fn an_access_that_is_not_granted_is_refused_and_ends_the_connection() {
    type Case = fn(&Pair, &MemoryRegion) -> (Connection, RemoteAddress, Option<MemoryRegion>);
    let cases: [(&str, Case); 6] = [
        ("tag of the key", |_, to| {
            let there = to.remote(0);
            (Connection::default(), RemoteAddress { rkey: there.rkey ^ 1, ..there }, None)
        }),
        ("index of the key", |_, to| {
            let there = to.remote(0);
            (Connection::default(), RemoteAddress { rkey: there.rkey + 0x100, ..there }, None)
        }),
        ("behind the region", |_, to| (Connection::default(), to.remote(to.len() - 99), None)),
        ("before the region", |_, to| {
            let there = to.remote(0);
            (Connection::default(), RemoteAddress { address: there.address - 1, ..there }, None)
        }),
        ("another domain", |pair, _| {
            let pd = pair.b.context.alloc_pd().unwrap();
            let memory = pair.b.context.alloc(4096, 4096).unwrap();
            let access = AccessFlags::LOCAL_WRITE | TARGET;
            let other = pd.register(&memory, access, ferrowire::PageSize::Size4K).unwrap();
            (Connection::default(), other.remote(0), Some(other))
        }),
        ("a region without the right", |pair, _| {
            let other = pair.b.region(0, 4096, AccessFlags::LOCAL_WRITE).unwrap();
            (Connection::default(), other.remote(0), Some(other))
        }),
    ];
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 4096), target(&pair.b, 4096));
        from.memory().fill(0, 4096, 0xee);
        for (what, case) in cases {
            let (connection, remote, other) = case(&pair, &to);
            let (mut qp, _peer) = pair.connect(&connection).unwrap();
            pair.world.lock().link_mut(1).keep_frames(true);
            let mut batch = qp.start_post_send();
            batch.post(&SendWr::write(1, &[from.sge(0, 100)], remote).signaled()).unwrap();
            batch.post(&SendWr::write(2, &[from.sge(0, 8)], to.remote(0)).signaled()).unwrap();
            batch.post(&SendWr::write(3, &[from.sge(0, 8)], to.remote(0))).unwrap();
            batch.ring().unwrap();
            let done = wait(&pair, 3);
            let ends: Vec<_> = done.iter().map(|c| (c.wr_id(), c.status().known())).collect();
            let flushed = Some(WcStatus::WrFlushErr);
            assert_eq!(
                ends,
                [(1, Some(WcStatus::RemAccessErr)), (2, flushed), (3, flushed)],
                "{config}: {what}"
            );
            assert_eq!(done[0].syndrome(), 0x62, "{config}: {what}");
            let answers = pair.world.lock().link_mut(1).take_frames();
            let naks: Vec<u8> = answers
                .iter()
                .filter_map(|frame| Some(Frame::parse(&frame.bytes).unwrap().ext.aeth?.syndrome))
                .collect();
            assert_eq!(naks, [0x62], "{config}: {what}");
            assert_eq!(qp.query().unwrap().state, QpState::Err, "{config}: {what}");
            let untouched = |region: &MemoryRegion| bytes(region.memory()).iter().all(|byte| *byte == 0);
            assert!(untouched(&to) && other.as_ref().is_none_or(untouched), "{config}: {what}");
        }
        // The host saw no access that it had to refuse.
        for card in 0..2 {
            assert_eq!(pair.refused(card), 0);
        }
    }
}

#[test]
fn a_queue_pair_without_the_right_refuses_writes() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 64), target(&pair.b, 64));
        let connection = Connection { access: AccessFlags::default(), ..Connection::default() };
        let (mut qp, _peer) = pair.connect(&connection).unwrap();
        post(&mut qp, 1, from.sge(0, 64), to.remote(0));
        assert_eq!(wait(&pair, 1)[0].status(), WcStatus::RemInvReqErr);
    }
}

#[test]
fn a_local_key_that_is_wrong_never_reaches_the_wire() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 4096), target(&pair.b, 4096));
        let good = from.sge(0, 100);
        let bad = [
            Sge { lkey: good.lkey ^ 1, ..good },
            Sge { address: good.address + 4090, ..good },
            Sge { lkey: good.lkey + 0x100, ..good },
        ];
        for sge in bad {
            let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
            let before = pair.world.lock().link(0).frames();
            let mut batch = qp.start_post_send();
            batch.post(&SendWr::write(1, &[sge], to.remote(0)).signaled()).unwrap();
            batch.post(&SendWr::write(2, &[good], to.remote(0)).signaled()).unwrap();
            batch.ring().unwrap();
            let done = wait(&pair, 2);
            assert_eq!((done[0].wr_id(), done[0].status().known()), (1, Some(WcStatus::LocProtErr)));
            assert_eq!((done[1].wr_id(), done[1].status().known()), (2, Some(WcStatus::WrFlushErr)));
            assert_eq!(pair.world.lock().link(0).frames(), before);
        }
    }
}

/// A message of eight packets of which one is lost, and the syndromes that came back.
fn lose_one(pair: &Pair, to: &MemoryRegion, lost: usize) -> (QueuePair, Vec<u8>, Vec<Completion>, Vec<u8>) {
    let from = source(&pair.a, 8192);
    let data: Vec<u8> = (0..8192).map(|i| (i % 251) as u8 + 1).collect();
    from.memory().write(0, &data);
    let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
    let mut n = 0;
    pair.world.lock().link_mut(0).set_filter(Some(Box::new(move |frame| {
        n += 1;
        if n == lost + 1 {
            Vec::new()
        } else {
            vec![frame.to_vec()]
        }
    })));
    pair.world.lock().link_mut(1).keep_frames(true);
    post(&mut qp, 1, from.sge(0, 8192), to.remote(0));
    let done = wait(pair, 1);
    pair.world.lock().run(2000);
    let answers = pair.world.lock().link_mut(1).take_frames();
    let syndromes = answers.iter().filter_map(|f| Some(Frame::parse(&f.bytes).unwrap().ext.aeth?.syndrome));
    (qp, data, done, syndromes.collect())
}

#[test]
fn a_gap_is_reported_once_and_nothing_behind_it_is_executed() {
    for config in chosen!(CONFIGS) {
        for lost in [0, 3, 6] {
            let pair = pair(config);
            let to = target(&pair.b, 8192);
            let (_qp, data, _, syndromes) = lose_one(&pair, &to, lost);
            assert_eq!(syndromes.iter().filter(|s| **s == 0x60).count(), 1, "{config}: {syndromes:x?}");
            let got = bytes(to.memory());
            assert!(got[..lost * 1024] == data[..lost * 1024]);
            assert!(
                got[lost * 1024..] == data[lost * 1024..] || got[lost * 1024..].iter().all(|byte| *byte == 0)
            );
            assert!(pair.b.context.hw_counter(HwCounter::OutOfSequence).unwrap() > 0);
        }
    }
}

#[test]
fn a_lost_request_is_sent_again() {
    for config in chosen!(CONFIGS) {
        for lost in [0, 3, 6] {
            let pair = pair(config);
            let to = target(&pair.b, 8192);
            let (_qp, data, done, _) = lose_one(&pair, &to, lost);
            assert!(done[0].is_success(), "{:?}", done[0]);
            assert!(bytes(to.memory()) == data);
        }
    }
}

#[test]
fn a_duplicate_is_acknowledged_again_and_not_executed() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 256), target(&pair.b, 256));
        from.memory().fill(0, 256, 1);
        let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
        pair.world.lock().link_mut(0).keep_frames(true);
        post(&mut qp, 1, from.sge(0, 256), to.remote(0));
        wait_well(&pair, 1);
        let sent = pair.world.lock().link_mut(0).take_frames();
        assert_eq!(opcodes(&sent), [Opcode::RcWriteOnly]);
        to.memory().fill(0, 256, 9);
        let mut world = pair.world.lock();
        world.link_mut(1).keep_frames(true);
        world.inject(0, sent[0].bytes.clone());
        world.run_until(LIMIT, |world| !world.link(1).sent().is_empty());
        world.run(500);
        let answers = world.link_mut(1).take_frames();
        drop(world);
        assert_eq!(opcodes(&answers), [Opcode::RcAcknowledge]);
        let answer = Frame::parse(&answers[0].bytes).unwrap();
        let request = Frame::parse(&sent[0].bytes).unwrap();
        assert_eq!(answer.bth.psn, request.bth.psn);
        assert_eq!(answer.ext.aeth.unwrap().syndrome & 0xe0, 0);
        assert_eq!(bytes(to.memory()), [9; 256]);
        assert_eq!(pair.b.context.hw_counter(HwCounter::DuplicateRequest).unwrap(), 1);
        // What comes next is taken as if nothing had been.
        post(&mut qp, 2, from.sge(0, 256), to.remote(0));
        wait_well(&pair, 1);
        assert_eq!(bytes(to.memory()), [1; 256]);
    }
}

#[test]
fn frames_with_a_bit_changed_change_nothing_and_are_counted() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 300), target(&pair.b, 300));
        from.memory().fill(0, 300, 1);
        let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
        pair.world.lock().link_mut(0).keep_frames(true);
        post(&mut qp, 1, from.sge(0, 300), to.remote(0));
        wait_well(&pair, 1);
        let sent = pair.world.lock().link_mut(0).take_frames().remove(0).bytes;
        to.memory().fill(0, 300, 0);
        let mut rng = SmallRng::seed_from_u64(3);
        let before = pair.b.context.drop_counter(DropReason::Icrc).unwrap();
        let mut by_icrc = 0;
        pair.world.lock().link_mut(1).keep_frames(true);
        for _ in 0..100 {
            let mut frame = sent.clone();
            // Behind the IP and UDP headers, whose checks have counters of their own, and which the ICRC covers in part.
            let bit = rng.random_range(42 * 8..frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            by_icrc += u64::from(
                matches!(Frame::parse(&frame), Err(error) if error.drop_reason() == Some(DropReason::Icrc)),
            );
            pair.world.lock().inject(0, frame);
        }
        let mut world = pair.world.lock();
        world.run_until(LIMIT, |world| world.link(0).idle());
        world.run(2000);
        drop(world);
        assert!(by_icrc > 90);
        assert_eq!(pair.b.context.drop_counter(DropReason::Icrc).unwrap() - before, by_icrc);
        assert_eq!(bytes(to.memory()), [0; 300]);
    }
}

#[test]
fn psns_wrap_within_a_message() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = (source(&pair.a, 8192), target(&pair.b, 8192));
        from.memory().fill(0, 8192, 3);
        let connection = Connection { psns: Some((0xff_fffc, 0xff_ffff)), ..Connection::default() };
        let (mut qp, _peer) = pair.connect(&connection).unwrap();
        pair.world.lock().link_mut(0).keep_frames(true);
        post(&mut qp, 1, from.sge(0, 8192), to.remote(0));
        wait_well(&pair, 1);
        assert_eq!(bytes(to.memory()), vec![3; 8192]);
        let sent = pair.world.lock().link_mut(0).take_frames();
        let psns: Vec<u32> = sent.iter().map(|frame| Frame::parse(&frame.bytes).unwrap().bth.psn).collect();
        assert_eq!(psns, [0xff_fffc, 0xff_fffd, 0xff_fffe, 0xff_ffff, 0, 1, 2, 3]);
    }
}
