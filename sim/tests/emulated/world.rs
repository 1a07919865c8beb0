// SPDX-License-Identifier: MIT OR Apache-2.0
//! Worlds of emulated cards: their time, their wires, and programs that share them.

use std::time::Duration;

use ferrowire::{
    AccessFlags, Completion, Event, HostMemory, LentMemory, LocalCause, MemoryRegion, PageSize, PathMtu,
    QueuePair, RecvWr, SendWr, Service, WcStatus,
};
use ferrowire_sim::emulated::EngineWorld;
use ferrowire_sim::model::network::{Counts, Faults};
use ferrowire_sim::pair::{bytes, post, Connection, Node, PairOptions};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

fn nodes(world: &EngineWorld, count: usize) -> Vec<Node> {
    let open = |card| Node::open(world.bus(card), card, &PairOptions::default()).unwrap();
    (0..count).map(open).collect()
}

/// So many completions; polls let time pass, so whatever comes has come by then.
#[track_caller]
fn wait(node: &Node, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    let mut some = [Completion::default(); 64];
    for _ in 0..1_000_000 {
        let n = node.cq.poll(&mut some).unwrap();
        all.extend_from_slice(&some[..n]);
        if all.len() >= count {
            return all;
        }
    }
    panic!("{} of {count} completions", all.len());
}

fn filled(node: &Node, size: usize, seed: u64, access: AccessFlags) -> MemoryRegion {
    let region = node.region(0, size, access).unwrap();
    let mut data = vec![0; size];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut data);
    region.memory().write(0, &data);
    region
}

fn receive(qp: &mut QueuePair, wr_id: u64, region: &MemoryRegion, at: usize, size: u32) {
    let mut batch = qp.start_post_recv();
    batch.post(&RecvWr::new(wr_id, &[region.sge(at, size)])).unwrap();
    batch.ring().unwrap();
}

#[test]
fn every_wait_ends_for_time_passes_also_when_nothing_happens() {
    let world = EngineWorld::pair();
    let nodes = nodes(&world, 2);
    let events = nodes[0].context.create_eq(8).unwrap();
    let before = world.now();
    assert_eq!(events.wait(&mut [Event::default()], Duration::from_millis(2)), Ok(0));
    assert!(world.now() - before >= Duration::from_millis(2));
    let before = world.now();
    world.run(Duration::from_secs(3600));
    assert_eq!(world.now() - before, Duration::from_secs(3600));
}

#[test]
fn a_peer_that_is_not_heard_is_given_up_after_the_time_of_all_retries() {
    let world = EngineWorld::pair();
    let nodes = nodes(&world, 2);
    let connection = Connection { timeout: 14, retry_cnt: 3, ..Connection::default() };
    let (mut qp, _peer) = nodes[0].connect(&nodes[1], &connection).unwrap();
    let from = filled(&nodes[0], 4096, 1, AccessFlags::LOCAL_READ);
    world.set_faults(Faults { drop: 1000, ..Faults::none() });
    let before = world.now();
    let to = nodes[1].region(0, 64, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
    post(&mut qp, &[SendWr::write(1, &[from.sge(0, 64)], to.remote(0)).signaled()]);
    assert_eq!(wait(&nodes[0], 1)[0].status(), WcStatus::RetryExcErr);
    // The first time and three more, 4.096 us times 2^14 each (IBTA 9.7.6.1.3).
    let all = Duration::from_nanos((4 * 4096) << 14);
    let took = world.now() - before;
    assert!(took >= all && took < all + Duration::from_millis(1), "{took:?}");
}

/// Every card writes to every other one, over wires that lose, double, delay and spoil frames.
fn all_to_all(seed: u64) -> (Counts, Duration) {
    const CARDS: usize = 5;
    const SIZE: usize = 20_000;
    let faults = Faults { drop: 20, duplicate: 20, reorder: 20, corrupt: 20, hold: 5_000, ..Faults::none() };
    let world = EngineWorld::with_faults(CARDS, faults, seed);
    let nodes = nodes(&world, CARDS);
    let mut rng = SmallRng::seed_from_u64(seed);
    let source = |node: &Node| filled(node, SIZE, node.card as u64, AccessFlags::LOCAL_READ);
    let sources: Vec<_> = nodes.iter().map(source).collect();
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let mut pairs = Vec::new();
    for (i, j) in (0..CARDS).flat_map(|i| (i + 1..CARDS).map(move |j| (i, j))) {
        let mtu = [PathMtu::B256, PathMtu::B1024, PathMtu::B4096][rng.random_range(0..3)];
        let connection = Connection { mtu, timeout: 8, ipv6: rng.random(), ..Connection::default() };
        let (a, b) = nodes[i].connect(&nodes[j], &connection).unwrap();
        for (from, to, mut qp) in [(i, j, a), (j, i, b)] {
            let target = nodes[to].region(0, SIZE, access).unwrap();
            let sge = sources[from].sge(0, SIZE as u32);
            post(&mut qp, &[SendWr::write(1, &[sge], target.remote(0)).signaled()]);
            pairs.push((from, qp, target));
        }
    }
    for (at, node) in nodes.iter().enumerate() {
        assert!(wait(node, CARDS - 1).iter().all(Completion::is_success), "seed {seed}, card {at}");
    }
    for (from, _, target) in &pairs {
        assert!(bytes(target.memory()) == bytes(sources[*from].memory()), "seed {seed}, from {from}");
    }
    (world.counts(), world.now())
}

#[test]
fn many_cards_reach_each_other_over_bad_wires_and_a_seed_repeats_it() {
    for seed in 0..8 {
        let (counts, now) = all_to_all(seed);
        assert!(counts.dropped > 0 && counts.corrupted > 0 && counts.reordered > 0, "{counts:?}");
        assert_eq!((counts, now), all_to_all(seed), "seed {seed}");
    }
}

/// Pages of every size, of a region that begins and ends within one.
#[test]
fn regions_of_every_page_size_are_reached_page_by_page() {
    const SIZE: usize = 5 << 20;
    let world = EngineWorld::pair();
    let nodes = nodes(&world, 2);
    for page in [PageSize::Size4K, PageSize::Size2M, PageSize::Size1G] {
        let connection = Connection { mtu: PathMtu::B4096, ..Connection::default() };
        let (mut qp, _peer) = nodes[0].connect(&nodes[1], &connection).unwrap();
        let make = |node: &Node, access| {
            let memory = node.context.alloc(SIZE + 100, 8).unwrap().slice(77, SIZE);
            node.pd.register(&memory, access, page).unwrap()
        };
        let from = make(&nodes[0], AccessFlags::LOCAL_READ);
        let to = make(&nodes[1], AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE);
        let mut data = vec![0; SIZE];
        SmallRng::seed_from_u64(5).fill_bytes(&mut data);
        from.memory().write(0, &data);
        post(&mut qp, &[SendWr::write(1, &[from.sge(0, SIZE as u32)], to.remote(0)).signaled()]);
        assert!(wait(&nodes[0], 1)[0].is_success(), "{page:?}");
        assert!(bytes(to.memory()) == data, "{page:?}");
        assert_eq!([0, 1].map(|card| world.lock().engines[card].refused()), [0, 0]);
    }
}

/// Each program in its thread, with its card; and one that only looks.
#[test]
fn programs_in_threads_share_a_world() {
    const MESSAGES: u64 = 300;
    let world = EngineWorld::pair();
    let mut all = nodes(&world, 2);
    let (mut b, mut a) = (all.pop().unwrap(), all.pop().unwrap());
    let connection = Connection { signal_all: true, ..Connection::default() };
    let (mut near, mut far) = a.connect(&b, &connection).unwrap();
    let play = |node: &mut Node, qp: &mut QueuePair, begins: bool| {
        let own = filled(node, 4096, 9, AccessFlags::LOCAL_READ);
        let inbox = node.region(0, 4096, AccessFlags::LOCAL_WRITE).unwrap();
        let mut some = [Completion::default(); 8];
        let (mut came, mut sent, mut ended) = (0, 0, 0);
        receive(qp, 0, &inbox, 0, 4096);
        if begins {
            post(qp, &[SendWr::send(0, &[own.sge(0, 64)])]);
            sent += 1;
        }
        // Its regions stay until its last message has left.
        while came < MESSAGES || ended < MESSAGES {
            let n = node.cq.poll(&mut some).unwrap();
            for done in &some[..n] {
                assert!(done.is_success(), "{done:?}");
                if done.kind() == ferrowire::WorkKind::Receive {
                    came += 1;
                    receive(qp, came, &inbox, 0, 4096);
                    if sent < MESSAGES {
                        post(qp, &[SendWr::send(sent, &[own.sge(0, 64)])]);
                        sent += 1;
                    }
                } else {
                    ended += 1;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(&mut a, &mut near, true));
        scope.spawn(|| play(&mut b, &mut far, false));
        let mut looking = world.clone().bus(0);
        assert_eq!(
            ferrowire::Bus::csr_read32(&mut looking, 0),
            Ok(ferrowire_spec::csr::identity::MAGIC_VALUE)
        );
    });
}

/// The last address of a datagram's way decides, and a card that has other addresses hears nothing of it.
#[test]
fn datagrams_find_their_card_among_many() {
    let world = EngineWorld::new(4);
    let nodes = nodes(&world, 4);
    let connection = Connection { service: Service::Ud, signal_all: true, ..Connection::default() };
    let inboxes: Vec<_> =
        nodes.iter().map(|node| node.region(0, 4096, AccessFlags::LOCAL_WRITE).unwrap()).collect();
    let mut pairs = Vec::new();
    for to in 1..4 {
        let (qp, mut peer) = nodes[0].connect(&nodes[to], &connection).unwrap();
        receive(&mut peer, to as u64, &inboxes[to], 0, 4096);
        pairs.push((qp, peer));
    }
    let from = filled(&nodes[0], 512, 3, AccessFlags::LOCAL_READ);
    for to in 1..4 {
        let way = nodes[0].pd.create_ah(&nodes[0].way(&nodes[to], &connection)).unwrap();
        let (qp, peer) = &mut pairs[to - 1];
        let sges = [from.sge(0, 512)];
        let wr = SendWr::send(1, &sges).to(&way, peer.number(), connection.qkey);
        post(qp, &[wr]);
        assert!(wait(&nodes[0], 1)[0].is_success());
        let done = wait(&nodes[to], 1)[0];
        assert_eq!((done.wr_id(), done.byte_len(), done.src_qpn()), (to as u64, 512 + 40, Some(qp.number())));
        assert_eq!(bytes(inboxes[to].memory())[40..552], bytes(from.memory())[..]);
    }
}

/// Memory that is mapped and that a card cannot write, as when the process that has lent it has unmapped it since.
#[test]
fn bytes_for_memory_that_cannot_be_written_are_an_error_on_both_sides() {
    let world = EngineWorld::pair();
    let nodes = nodes(&world, 2);
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    for write in [false, true] {
        let (mut qp, mut peer) = nodes[0].connect(&nodes[1], &Connection::default()).unwrap();
        let from = filled(&nodes[0], 4096, 1, AccessFlags::LOCAL_READ);
        let to = nodes[1].region(0, 4096, access).unwrap();
        let own = std::sync::Arc::new(std::fs::File::open("/proc/self/mem").unwrap().into());
        let lent = LentMemory::of_file(own, to.memory().address(), 4096, false).unwrap();
        world.lock().engines[1].with_memory(|map| {
            let of_region = |(_, memory): &(u64, &HostMemory)| memory.address() == to.memory().address();
            let (at, _) = map.iter().find(of_region).unwrap();
            map.remove(at).unwrap();
            map.insert_lent(at, lent).unwrap();
        });
        let sges = [from.sge(0, 256)];
        if write {
            post(&mut qp, &[SendWr::write(1, &sges, to.remote(0)).signaled()]);
        } else {
            receive(&mut peer, 7, &to, 0, 4096);
            post(&mut qp, &[SendWr::send(1, &sges).signaled()]);
            let done = wait(&nodes[1], 1)[0];
            assert_eq!((done.wr_id(), done.cause()), (7, Some(LocalCause::Dma)));
        }
        assert_eq!(wait(&nodes[0], 1)[0].status(), WcStatus::RemOpErr);
        assert!(bytes(to.memory()).iter().all(|byte| *byte == 0));
    }
    let (_, writes) = world.lock().engines[1].refusals();
    assert_eq!(writes, 2);
}
