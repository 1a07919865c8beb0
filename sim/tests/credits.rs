// SPDX-License-Identifier: MIT OR Apache-2.0
//! End-to-end flow control: what acknowledgements tell of receives, and who waits for them (IBTA volume 1, 9.7.7.2), through the
//! driver, the Verilated cards and the wire.

use crate::tier::{chosen, here, number, one_of};
use ferrowire::{
    AccessFlags, Completion, HwCounter, MemoryRegion, PathMtu, QpInitAttr, QueuePair, RecvWr, SendWr,
    SrqInitAttr,
};
use ferrowire_sim::hostile::forge::{seal, transport_at};
use ferrowire_sim::pair::{bytes, Connection, Pair, PairOptions, EMULATED};
use ferrowire_spec::wire::frame::Frame;
use ferrowire_spec::wire::opcode::Operation;
use ferrowire_spec::wire::syndrome::{credit_code, CREDIT_INVALID};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];
const CARDS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
const LIMIT: u64 = 600_000;

const ROOM: usize = 1 << 16;

fn pair(config: &str) -> Pair {
    let options = PairOptions { wire_latency: 60, ..PairOptions::default() };
    let pair = Pair::named(config, &options).unwrap();
    // A pause of 0.01 ms, as RNR NAKs ask for, takes some 160 cycles.
    [&pair.a, &pair.b].iter().for_each(|node| node.context.set_timer_tick(64).unwrap());
    pair
}

fn connection() -> Connection {
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    Connection { min_rnr_timer: 1, mtu: PathMtu::B256, rd_atomic: 4, access, ..Connection::default() }
}

/// Memory of the sender, filled, and of the receiver.
fn memory(pair: &Pair) -> (MemoryRegion, MemoryRegion) {
    let from = pair.a.region(0, ROOM, AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE).unwrap();
    let mut data = vec![0; ROOM];
    SmallRng::seed_from_u64(3).fill_bytes(&mut data);
    from.memory().write(0, &data);
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    (from, pair.b.region(0, ROOM, access).unwrap())
}

fn receive(peer: &mut QueuePair, to: &MemoryRegion, ids: std::ops::Range<u64>) {
    let mut batch = peer.start_post_recv();
    for id in ids {
        batch.post(&RecvWr::new(id, &[to.sge(1024 * (id as usize % 60), 1024)])).unwrap();
    }
    batch.ring().unwrap();
}

/// Puts another credit code into each acknowledgement that card 0 gets.
fn tell(pair: &Pair, code: u8) {
    pair.world.lock().link_mut(1).set_filter(Some(Box::new(move |frame| {
        let mut frame = frame.to_vec();
        let parsed = Frame::parse(&frame).unwrap();
        let is_ack = parsed.ext.aeth.is_some_and(|aeth| aeth.syndrome < 0x20);
        if is_ack {
            let at = transport_at(&frame) + 12;
            frame[at] = code;
            seal(&mut frame);
        }
        vec![frame]
    })));
}

fn counter(pair: &Pair, counter: HwCounter) -> u64 {
    pair.b.context.hw_counter(counter).unwrap()
}

/// The syndromes of what came back.
fn answers(pair: &Pair) -> Vec<u8> {
    let frames = pair.world.lock().link_mut(1).take_frames();
    frames.iter().filter_map(|frame| Some(Frame::parse(&frame.bytes).unwrap().ext.aeth?.syndrome)).collect()
}

/// What a run took.
#[derive(Debug)]
struct Cost {
    refusals: u64,
    packets: u64,
    cycles: u64,
}

/// So many SENDs to a peer that has `first` receives and posts `more` each `every` cycles.
fn slow(config: &str, code: Option<u8>, first: u64, (more, every): (u64, u64)) -> Cost {
    const COUNT: u64 = 60;
    let pair = pair(config);
    let (from, to) = memory(&pair);
    let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
    if let Some(code) = code {
        tell(&pair, code);
    }
    let mut given = first;
    receive(&mut peer, &to, 0..first);
    let mut batch = qp.start_post_send();
    for i in 0..COUNT {
        batch.post(&SendWr::send(i, &[from.sge(1024 * i as usize, 600)]).signaled()).unwrap();
    }
    batch.ring().unwrap();
    let begin = pair.world.lock().cycle();
    let (mut ended, mut got, mut next) = (0, 0, begin + every);
    let mut some = [Completion::default(); 8];
    while got < COUNT || ended < COUNT {
        let now = pair.world.lock().cycle();
        if now >= next && given < COUNT {
            let upto = (given + more).min(COUNT);
            receive(&mut peer, &to, given..upto);
            (given, next) = (upto, next + every);
        }
        for (node, count) in [(&pair.a, &mut ended), (&pair.b, &mut got)] {
            let n = node.cq.poll(&mut some).unwrap();
            for done in &some[..n] {
                assert_eq!((done.wr_id(), done.is_success()), (*count, true), "{config}: {done:?}");
                *count += 1;
            }
        }
        assert!(now < begin + LIMIT, "{config}: {got} of {COUNT}{}", pair.diagnose());
    }
    let (here, there) = (bytes(from.memory()), bytes(to.memory()));
    for at in (0..COUNT as usize).map(|i| 1024 * i) {
        assert_eq!(here[at..at + 600], there[at..at + 600]);
    }
    let cycle = pair.world.lock().cycle();
    let packets = pair.world.lock().link_mut(0).frames();
    Cost { refusals: counter(&pair, HwCounter::SendRnrErr), packets, cycles: cycle - begin }
}

#[test]
fn a_slow_receiver_gets_what_it_has_receives_for_and_a_packet_that_asks() {
    for config in chosen!(CARDS) {
        for (first, post) in one_of(here!(), vec![(8, (4, 4000)), (1, (1, 1500)), (16, (2, 600))]) {
            let [without, with] = [Some(CREDIT_INVALID), None].map(|code| slow(config, code, first, post));
            println!("{config}, {first} receives, then {post:?}: without {without:?}, with {with:?}");
            // Three packets a message; what was sent before anything was known, and what asked.
            assert!(with.packets <= 3 * 60 + 3 * 60 + with.refusals, "{config}: {with:?}");
            assert!(with.packets < without.packets, "{config}: {without:?}, {with:?}");
            // How many are refused is a matter of the pauses; each is of one packet.
            assert!(with.refusals <= 2 * without.refusals + 4, "{config}: {without:?}, {with:?}");
            assert!(with.cycles < without.cycles + without.cycles / 2, "{config}: {without:?}, {with:?}");
        }
    }
}

#[test]
fn a_receiver_that_always_has_some_refuses_nothing() {
    for config in chosen!(CONFIGS) {
        let cost = slow(config, None, 60, (0, LIMIT));
        assert_eq!((cost.refusals, cost.packets), (0, 180), "{config}: {cost:?}");
    }
}

/// A peer that never has a receive to tell of: each message asks, and all arrive.
#[test]
fn a_peer_that_tells_of_no_receive_gets_a_message_at_a_time() {
    for config in chosen!(CONFIGS) {
        let [all, each] = [CREDIT_INVALID, 0].map(|code| slow(config, Some(code), 60, (0, LIMIT)));
        println!("{config}: without a limit {all:?}, with none ever {each:?}");
        assert_eq!((each.refusals, each.packets), (0, 180), "{config}: {each:?}");
    }
}

#[test]
fn acknowledgements_tell_how_many_receives_are_left() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = memory(&pair);
        let (mut qp, mut peer) = pair.connect(&Connection { recv_wr: 64, ..connection() }).unwrap();
        pair.world.lock().link_mut(1).keep_frames(true);
        receive(&mut peer, &to, 0..40);
        let mut left = 40;
        let post = |qp: &mut QueuePair, wr: SendWr<'_>| {
            let mut batch = qp.start_post_send();
            batch.post(&wr.signaled()).unwrap();
            batch.ring().unwrap();
            pair.a.wait(&pair.world, 1, LIMIT).unwrap();
        };
        while left > 0 {
            // WRITEs and READs take none.
            let (sges, target) = ([from.sge(0, 300)], to.remote(61 << 10));
            match left % 4 {
                0 => post(&mut qp, SendWr::write(1, &sges, target)),
                1 => post(&mut qp, SendWr::read(1, &sges, target)),
                _ => (),
            }
            let before = answers(&pair);
            let code = credit_code(left);
            assert!(before.iter().all(|syndrome| *syndrome == code), "{config}: {before:x?}, {left} left");
            left -= 1;
            match left % 2 {
                0 => post(&mut qp, SendWr::send(2, &sges)),
                _ => post(&mut qp, SendWr::write_imm(2, &sges, target, left)),
            }
            assert_eq!(answers(&pair), [credit_code(left)], "{config}: {left} left");
        }
    }
}

#[test]
fn a_queue_pair_with_a_shared_queue_sets_no_limit() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (from, to) = memory(&pair);
        let mut attr = SrqInitAttr::default();
        (attr.max_wr, attr.max_sge) = (64, 1);
        let mut srq = pair.b.pd.create_srq(&attr).unwrap();
        let own = pair.a.pd.create_qp(&QpInitAttr::rc(&pair.a.cq, &pair.a.cq)).unwrap();
        let mut init = QpInitAttr::rc(&pair.b.cq, &pair.b.cq);
        init.srq = Some(&srq);
        let peer = pair.b.pd.create_qp(&init).unwrap();
        let (mut qp, _peer) = pair.bring_up(own, peer, &connection()).unwrap();
        let mut batch = srq.start_post_recv();
        (0..10).for_each(|id| batch.post(&RecvWr::new(id, &[to.sge(0, 1024)])).unwrap());
        batch.ring().unwrap();
        pair.world.lock().link_mut(1).keep_frames(true);
        for id in 0..10 {
            let mut batch = qp.start_post_send();
            batch.post(&SendWr::send(id, &[from.sge(0, 100)]).signaled()).unwrap();
            batch.ring().unwrap();
            pair.a.wait(&pair.world, 1, LIMIT).unwrap();
        }
        assert_eq!(answers(&pair), [CREDIT_INVALID; 10], "{config}");
    }
}

/// All kinds of messages, a receiver that posts now and then, and a wire that loses some: all end well and in order.
#[test]
fn messages_of_all_kinds_go_on_whatever_is_told_and_lost() {
    const COUNT: u64 = 80;
    for (config, seed) in
        chosen!(CONFIGS).into_iter().flat_map(|config| (1..number(2, 4)).map(move |seed| (config, seed)))
    {
        let pair = pair(config);
        let (from, to) = memory(&pair);
        let (mut qp, mut peer) =
            pair.connect(&Connection { timeout: 6, send_wr: 16, ..connection() }).unwrap();
        let mut rng = SmallRng::seed_from_u64(seed);
        for link in [0, 1] {
            let mut rng = SmallRng::seed_from_u64(10 * seed + link as u64);
            pair.world.lock().link_mut(link).set_filter(Some(Box::new(move |frame| {
                match rng.random_bool(0.03) {
                    true => Vec::new(),
                    false => vec![frame.to_vec()],
                }
            })));
        }
        let kinds: Vec<(u32, u32)> =
            (0..COUNT).map(|_| (rng.random_range(0..5), rng.random_range(0..900))).collect();
        let receives = kinds.iter().filter(|(kind, _)| *kind < 3).count() as u64;
        let (mut sent, mut ended, mut given, mut got) = (0, 0, 0, 0);
        let mut some = [Completion::default(); 8];
        let begin = pair.world.lock().cycle();
        while ended < COUNT || got < receives {
            if given < receives && rng.random_bool(0.01) {
                let upto = (given + rng.random_range(1..4)).min(receives).min(got + 64);
                receive(&mut peer, &to, given..upto);
                given = upto;
            }
            let mut batch = qp.start_post_send();
            while sent < COUNT && batch.room() > 0 {
                let (kind, length) = kinds[sent as usize];
                let (sges, target) = ([from.sge(0, length)], to.remote(61 << 10));
                let wr = match kind {
                    0 | 1 => SendWr::send(sent, &sges),
                    2 => SendWr::write_imm(sent, &sges, target, 1),
                    3 => SendWr::write(sent, &sges, target),
                    _ => SendWr::read(sent, &sges, target),
                };
                batch.post(&wr.signaled()).unwrap();
                sent += 1;
            }
            batch.ring().unwrap();
            let n = pair.a.cq.poll(&mut some).unwrap();
            for done in &some[..n] {
                assert_eq!((done.wr_id(), done.is_success()), (ended, true), "{config}, {seed}: {done:?}");
                ended += 1;
            }
            let n = pair.b.cq.poll(&mut some).unwrap();
            for done in &some[..n] {
                assert_eq!((done.wr_id(), done.is_success()), (got, true), "{config}, {seed}: {done:?}");
                got += 1;
            }
            let now = pair.world.lock().cycle();
            assert!(now < begin + 4 * LIMIT, "{config}, {seed}: {ended} of {COUNT}{}", pair.diagnose());
        }
    }
}

/// A peer that has none is sent one packet, which asks, and what follows waits for the answer.
#[test]
fn a_message_beyond_the_receives_is_one_packet_until_it_is_acknowledged() {
    for config in chosen!(CARDS) {
        let pair = pair(config);
        let (from, to) = memory(&pair);
        let (mut qp, mut peer) = pair.connect(&connection()).unwrap();
        receive(&mut peer, &to, 0..1);
        let mut post = |count: u64| {
            let mut batch = qp.start_post_send();
            (0..count).for_each(|i| batch.post(&SendWr::send(i, &[from.sge(0, 1000)]).signaled()).unwrap());
            batch.ring().unwrap();
        };
        post(1);
        pair.a.wait(&pair.world, 1, LIMIT).unwrap();
        pair.world.lock().link_mut(0).keep_frames(true);
        post(3);
        pair.world.lock().run(8_000);
        let frames = pair.world.lock().link_mut(0).take_frames();
        assert!(frames.len() > 3, "{config}");
        let first = Frame::parse(&frames[0].bytes).unwrap().bth.psn;
        for frame in &frames {
            let frame = Frame::parse(&frame.bytes).unwrap();
            let opcode = frame.opcode().unwrap();
            assert_eq!((opcode.operation(), frame.bth.psn, frame.bth.ackreq), (Operation::Send, first, true));
        }
        receive(&mut peer, &to, 1..4);
        pair.a.wait(&pair.world, 3, LIMIT).unwrap();
        assert_eq!(pair.b.wait(&pair.world, 4, LIMIT).unwrap().len(), 4);
    }
}
