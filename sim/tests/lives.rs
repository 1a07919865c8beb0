// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs that drain, are taken down and come back, and peers that never answer.

use crate::tier::chosen;
use std::net::Ipv4Addr;

use ferrowire::{
    AccessFlags, Completion, DropReason, HwCounter, QpAttributes, QpState, QueuePair, SendWr, WcStatus,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::pair::{bytes, Connection, Pair, PairOptions, EMULATED};
use ferrowire_spec::csr::port::{self, GidEntry};
use ferrowire_spec::wire::frame::Frame;

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];
const CARDS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

fn pair_of(config: &str, options: &PairOptions) -> Pair {
    Pair::named(config, options).unwrap()
}

/// Nobody answers, and nobody gives up.
fn patient(send_wr: u32) -> Connection {
    Connection { send_wr, timeout: 0, ..Connection::default() }
}

/// Posts `count` WRITEs of `size` bytes, message `i` from and to place `i`.
fn post(
    qp: &mut QueuePair,
    count: usize,
    size: usize,
    from: &ferrowire::MemoryRegion,
    to: &ferrowire::MemoryRegion,
) {
    let mut batch = qp.start_post_send();
    for i in 0..count {
        let sge = from.sge(i * size, size as u32);
        batch.post(&SendWr::write(i as u64, &[sge], to.remote(i * size)).signaled()).unwrap();
    }
    batch.ring().unwrap();
}

#[track_caller]
fn wait(pair: &Pair, count: usize) -> Vec<Completion> {
    match pair.a.wait(&pair.world, count, LIMIT) {
        Ok(done) => done,
        Err(error) => panic!("{error}{}", pair.diagnose()),
    }
}

/// Card 1 hears nothing that is for these of its queue pairs.
fn silence(pair: &Pair, peers: &[u32]) {
    let peers = peers.to_vec();
    let filter = move |frame: &[u8]| match Frame::parse(frame) {
        Ok(parsed) if peers.contains(&parsed.bth.destqp) => Vec::new(),
        _ => vec![frame.to_vec()],
    };
    pair.world.lock().link_mut(0).set_filter(Some(Box::new(filter)));
}

#[test]
fn peers_that_never_answer_hold_up_nobody() {
    for config in chosen!(CARDS) {
        let cfg = RnicConfig::named(config).unwrap();
        let pair = pair_of(config, &PairOptions::default());
        let from = pair.a.region(0, 64 * 512, AccessFlags::LOCAL_READ).unwrap();
        let to = pair.b.region(0, 64 * 512, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        // More messages than the card has places for.
        let each = 2 * cfg.outstanding_per_qp as usize;
        let silent = 2 + (cfg.outstanding / cfg.outstanding_per_qp) as usize;
        let mut dead: Vec<(QueuePair, QueuePair)> =
            (0..silent).map(|_| pair.connect(&patient(each as u32)).unwrap()).collect();
        silence(&pair, &dead.iter().map(|(_, peer)| peer.number()).collect::<Vec<_>>());
        for (qp, _) in &mut dead {
            post(qp, each, 64, &from, &to);
        }
        pair.world.lock().run(20_000);
        assert!(pair.a.wait(&pair.world, 1, 0).is_err(), "{config}: nobody has answered");
        // Others start, send, and are taken down.
        for round in 0..3 {
            let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
            post(&mut qp, 40, 64, &from, &to);
            let done = wait(&pair, 40);
            assert!(done.iter().all(Completion::is_success), "{config}, round {round}: {done:?}");
            qp.destroy().unwrap();
        }
        // So are the silent ones; their places are others' then.
        let (qp, _peer) = dead.pop().unwrap();
        qp.reset().unwrap();
        let (mut qp, _peer) = dead.pop().unwrap();
        qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
        let done = wait(&pair, each);
        assert!(done.iter().all(|c| c.status() == WcStatus::WrFlushErr), "{config}: {done:?}");
        assert_eq!(done.iter().map(|c| c.wr_id()).collect::<Vec<_>>(), (0..each as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_queue_pair_that_drains_finishes_what_it_has_begun_and_goes_on_afterwards() {
    const SIZE: usize = 3000;
    const COUNT: usize = 60;
    for config in chosen!(CONFIGS) {
        for cycles in [0, 40, 150, 400, 1000, 3000] {
            let pair = pair_of(config, &PairOptions { host_latency: 100, ..PairOptions::default() });
            let from = pair.a.region(0, SIZE * COUNT, AccessFlags::LOCAL_READ).unwrap();
            let to =
                pair.b.region(0, SIZE * COUNT, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
            let data: Vec<u8> = (0..SIZE * COUNT).map(|i| (i * 7 + i / 253) as u8).collect();
            from.memory().write(0, &data);
            let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
            post(&mut qp, COUNT, SIZE, &from, &to);
            pair.world.lock().run(cycles);
            qp.modify(QpState::Sqd, &QpAttributes::default()).unwrap();
            pair.world.lock().run(20_000);
            let sent = pair.world.lock().link(0).frames();
            pair.world.lock().run(5_000);
            assert_eq!(pair.world.lock().link(0).frames(), sent, "{config}: it sends nothing new");
            qp.modify(QpState::Rts, &QpAttributes::new().cur_state(QpState::Sqd)).unwrap();
            let done = wait(&pair, COUNT);
            assert!(done.iter().all(Completion::is_success), "{config}, {cycles} cycles: {done:?}");
            assert!(bytes(to.memory()) == data, "{config}, {cycles} cycles");
            // Without a gap that the peer would have to complain of.
            let counter = |counter| pair.a.context.hw_counter(counter).unwrap();
            assert_eq!((counter(HwCounter::PacketSeqErr), counter(HwCounter::Retransmitted)), (0, 0));
        }
    }
}

#[test]
fn a_queue_pair_that_comes_back_has_nothing_of_its_former_life() {
    for config in chosen!(CONFIGS) {
        for cycles in [0, 30, 60, 100, 200, 500, 2000] {
            let pair = pair_of(config, &PairOptions { host_latency: 250, ..PairOptions::default() });
            let from = pair.a.region(0, 2048 * 16, AccessFlags::LOCAL_READ).unwrap();
            let to =
                pair.b.region(0, 2048 * 16, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
            from.memory().fill(0, 2048 * 16, 1);
            let (mut qp, peer) = pair.connect(&patient(16)).unwrap();
            silence(&pair, &[peer.number()]);
            post(&mut qp, 16, 2048, &from, &to);
            pair.world.lock().run(cycles);
            let (qp, peer) = (qp.reset().unwrap(), peer.reset().unwrap());
            pair.world.lock().link_mut(0).set_filter(None);
            // The old life's WQEs may still be on their way from host memory: none of them is the new life's.
            let (mut qp, peer) = pair.bring_up(qp, peer, &Connection::default()).unwrap();
            let ghosts = pair.a.context.drop_counter(DropReason::GhostAck).unwrap();
            from.memory().fill(0, 2048 * 16, 2);
            to.memory().fill(0, 2048 * 16, 0);
            post(&mut qp, 3, 100, &from, &to);
            let done = wait(&pair, 3);
            assert!(done.iter().all(Completion::is_success), "{config}, {cycles} cycles: {done:?}");
            pair.world.lock().run(5_000);
            let mut expected = vec![0; 2048 * 16];
            expected[..300].fill(2);
            assert!(bytes(to.memory()) == expected, "{config}, {cycles} cycles");
            assert_eq!(pair.a.context.drop_counter(DropReason::GhostAck).unwrap(), ghosts);
            // And a flush completes what was posted in this life.
            silence(&pair, &[peer.number()]);
            post(&mut qp, 5, 100, &from, &to);
            qp.modify(QpState::Err, &QpAttributes::default()).unwrap();
            let done = wait(&pair, 5);
            assert!(done.iter().all(|c| c.status() == WcStatus::WrFlushErr), "{config}: {done:?}");
            pair.world.lock().run(5_000);
            assert!(pair.a.wait(&pair.world, 1, 0).is_err(), "{config}: no completion more");
        }
    }
}

#[test]
fn whoever_comes_next_has_its_addresses_where_the_card_looks_whatever_the_last_one_had() {
    for config in chosen!(CARDS) {
        let options = PairOptions::default();
        let pair = pair_of(config, &options);
        let salt = || pair.bus(1).csr_read32(port::BLOCK.address(&port::GID_SALT)).unwrap();
        let first = salt();
        let std::net::IpAddr::V4(own) = pair.b.ip(false) else { unreachable!("asked for IPv4") };
        let slot = |ip: u32| GidEntry { ip: ip.into(), ipv6: false, vid: None }.slot(first as u16);
        let shared = (1..1 << 16).map(|host| u32::from(own) ^ host).find(|ip| slot(*ip) == slot(own.into()));
        pair.b.context.add_gid(Ipv4Addr::from(shared.unwrap()).into(), None).unwrap();
        assert_ne!(salt(), first, "{config}: two addresses with one slot");
        let world = pair.world.clone();
        drop(pair);
        let pair = Pair::of(world, &options).unwrap();
        let from = pair.a.region(0, 256, AccessFlags::LOCAL_READ).unwrap();
        let to = pair.b.region(0, 256, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
        from.memory().fill(0, 256, 3);
        let (mut qp, _peer) = pair.connect(&Connection::default()).unwrap();
        post(&mut qp, 1, 256, &from, &to);
        assert!(wait(&pair, 1).iter().all(Completion::is_success), "{config}");
        assert!(bytes(to.memory()) == [3; 256], "{config}");
    }
}
