// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared receive queues, through the driver, the Verilated cards and the wire.

use crate::tier::chosen;
use std::cell::RefCell;

use ferrowire::{
    AccessFlags, Bus, Coded, Completion, Error, Event, EventKind, EventQueue, LocalCause, MemoryRegion,
    PathMtu, QpAttributes, QpInitAttr, QpState, QueuePair, RecvWr, SendWr, Sge, SharedReceiveQueue,
    SrqInitAttr, WcStatus,
};
use ferrowire_sim::pair::{bytes, Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_spec::queue::doorbell::{self, rq::RqDoorbell};
use ferrowire_spec::wire::frame::Frame;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];

/// Cycles for what a test waits for.
const LIMIT: u64 = 300_000;

/// A pair, and a shared receive queue of card 1.
struct Bench {
    pair: Pair,
    eq: EventQueue,
    srq: RefCell<SharedReceiveQueue>,
    from: MemoryRegion,
    to: MemoryRegion,
}

const ROOM: usize = 1 << 16;

fn bench(config: &str, max_wr: u32) -> Bench {
    let pair = Pair::named(config, &PairOptions::default()).unwrap();
    // A pause of 0.01 ms, as RNR NAKs ask for, takes some 160 cycles.
    [&pair.a, &pair.b].iter().for_each(|node| node.context.set_timer_tick(64).unwrap());
    let eq = pair.b.context.create_async_eq(32).unwrap();
    let mut attr = SrqInitAttr::default();
    (attr.max_wr, attr.max_sge) = (max_wr, 6);
    let srq = pair.b.pd.create_srq(&attr).unwrap();
    let from = pair.a.region(0, ROOM, AccessFlags::LOCAL_READ).unwrap();
    let mut data = vec![0; ROOM];
    SmallRng::seed_from_u64(7).fill_bytes(&mut data);
    from.memory().write(0, &data);
    let to = pair.b.region(0, ROOM, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE).unwrap();
    Bench { pair, eq, srq: RefCell::new(srq), from, to }
}

fn connection() -> Connection {
    Connection { min_rnr_timer: 1, mtu: PathMtu::B256, send_wr: 16, ..Connection::default() }
}

impl Bench {
    /// A connection whose receives at card 1 come from the shared queue.
    fn connect(&self) -> (QueuePair, QueuePair) {
        let Pair { a, b, .. } = &self.pair;
        let own = a.pd.create_qp(&QpInitAttr::rc(&a.cq, &a.cq)).unwrap();
        let srq = self.srq.borrow();
        let mut attr = QpInitAttr::rc(&b.cq, &b.cq);
        attr.srq = Some(&srq);
        let peer = b.pd.create_qp(&attr).unwrap();
        self.pair.bring_up(own, peer, &connection()).unwrap()
    }

    fn post(&self, wr_id: u64, sges: &[Sge]) {
        let mut srq = self.srq.borrow_mut();
        let mut batch = srq.start_post_recv();
        batch.post(&RecvWr::new(wr_id, sges)).unwrap();
        batch.ring().unwrap();
    }

    #[track_caller]
    fn wait(&self, node: &Node, count: usize) -> Vec<Completion> {
        match node.wait(&self.pair.world, count, LIMIT) {
            Ok(done) => done,
            Err(error) => panic!("{error}{}", self.pair.diagnose()),
        }
    }

    /// The next event, which is there before so many cycles have passed.
    #[track_caller]
    fn event(&self) -> Event {
        let limit = self.pair.world.lock().cycle() + LIMIT;
        let mut some = [Event::default()];
        while self.pair.world.lock().cycle() < limit {
            if self.eq.poll(&mut some).unwrap() > 0 {
                return some[0];
            }
        }
        panic!("no event{}", self.pair.diagnose());
    }

    fn no_event(&self) {
        self.pair.world.lock().run(3000);
        assert_eq!(self.eq.poll(&mut [Event::default(); 4]), Ok(0));
    }

    /// From now on, packets of this queue pair of card 0 do not arrive, but for so many.
    fn cut(&self, peer: u32, after: usize) {
        let mut passed = 0;
        self.pair.world.lock().link_mut(0).set_filter(Some(Box::new(move |frame| {
            let bth = Frame::parse(frame).unwrap().bth;
            passed += usize::from(bth.destqp == peer);
            match bth.destqp == peer && passed > after {
                true => Vec::new(),
                false => vec![frame.to_vec()],
            }
        })));
    }
}

fn event(kind: EventKind, object: u32) -> Event {
    Event { kind: Coded::Known(kind), object, ..Event::default() }
}

fn send(qp: &mut QueuePair, wr: SendWr<'_>) {
    let mut batch = qp.start_post_send();
    batch.post(&wr.signaled()).unwrap();
    batch.ring().unwrap();
}

fn ends(done: &[Completion]) -> Vec<(u32, u64, WcStatus)> {
    done.iter().map(|done| (done.qpn(), done.wr_id(), done.status().known().unwrap())).collect()
}

const WELL: WcStatus = WcStatus::Success;
const FLUSHED: WcStatus = WcStatus::WrFlushErr;

#[test]
fn messages_of_many_queue_pairs_share_a_queue_that_wraps() {
    const COUNT: usize = 60;
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 16);
        let Pair { a, b, world, .. } = &bench.pair;
        let mut rng = SmallRng::seed_from_u64(3);
        let mut pairs: Vec<_> = (0..5).map(|_| bench.connect()).collect();
        let numbers: Vec<u32> = pairs.iter().map(|(_, peer)| peer.number()).collect();
        let target = bench.to.remote(ROOM - 8192);
        // What each queue pair sends: where from, how many bytes, and whether as a WRITE with immediate.
        let mut plan = || (rng.random_range(0..8192), rng.random_range(0..1500u32), rng.random_bool(0.2));
        let plans: Vec<Vec<_>> = pairs.iter().map(|_| (0..COUNT).map(|_| plan()).collect()).collect();
        let (mut sent, mut ended, mut got) = (vec![0; 5], 0, vec![0; 5]);
        let mut free: Vec<u64> = (0..20).collect();
        let mut order = Vec::new();
        let mut some = [Completion::default(); 8];
        while got.iter().sum::<usize>() < 5 * COUNT || ended < 5 * COUNT {
            let mut srq = bench.srq.borrow_mut();
            let mut batch = srq.start_post_recv();
            while batch.room() > 0 {
                let Some(id) = free.pop() else { break };
                let at = 2000 * id as usize;
                let sges = [bench.to.sge(at, 700), bench.to.sge(at + 700, 0), bench.to.sge(at + 800, 800)];
                batch.post(&RecvWr::new(id, &sges)).unwrap();
            }
            batch.ring().unwrap();
            for (i, (qp, _)) in pairs.iter_mut().enumerate() {
                let mut batch = qp.start_post_send();
                while sent[i] < COUNT && batch.room() > 0 {
                    let (at, len, write) = plans[i][sent[i]];
                    let sges = [bench.from.sge(at, len)];
                    let wr = match write {
                        true => SendWr::write_imm(0, &sges, target, i as u32),
                        false => SendWr::send(0, &sges),
                    };
                    batch.post(&wr.signaled()).unwrap();
                    sent[i] += 1;
                }
                batch.ring().unwrap();
            }
            let n = a.cq.poll(&mut some).unwrap();
            assert!(some[..n].iter().all(Completion::is_success), "{config}: {:?}", &some[..n]);
            ended += n;
            let n = b.cq.poll(&mut some).unwrap();
            for done in &some[..n] {
                let i = numbers.iter().position(|number| *number == done.qpn()).unwrap();
                let (at, len, write) = plans[i][got[i]];
                assert!(done.is_success(), "{config}: {done:?}");
                assert_eq!((done.byte_len(), done.imm()), (len, write.then_some(i as u32)), "{config}");
                // Those of a queue pair come in the order of its messages, whatever the others do.
                if !write {
                    let (data, into) = (bytes(bench.from.memory()), bytes(bench.to.memory()));
                    let place = 2000 * done.wr_id() as usize;
                    let (first, rest) = data[at..at + len as usize].split_at(700.min(len as usize));
                    assert_eq!(&into[place..place + first.len()], first, "{config}");
                    assert_eq!(&into[place + 800..place + 800 + rest.len()], rest, "{config}");
                }
                got[i] += 1;
                free.push(done.wr_id());
                order.push(i);
            }
            assert!(world.lock().cycle() < 4_000_000, "{config}: {got:?}{}", bench.pair.diagnose());
        }
        let mixed = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(mixed > 10, "{config}: they mix, {mixed} times");
        assert_eq!(bench.srq.borrow().query().unwrap().left as usize + free.len(), 20, "{config}");
    }
}

#[test]
fn a_message_that_finds_the_queue_empty_is_sent_again_until_there_is_a_receive() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 4);
        let Pair { a, b, .. } = &bench.pair;
        let (mut qp, peer) = bench.connect();
        let (mut other, second) = bench.connect();
        bench.pair.world.lock().link_mut(1).keep_frames(true);
        send(&mut qp, SendWr::send(1, &[bench.from.sge(0, 1000)]));
        bench.pair.world.lock().run(5_000);
        let frames = bench.pair.world.lock().link_mut(1).take_frames();
        let naks = frames.iter().map(|f| Frame::parse(&f.bytes).unwrap().ext.aeth.unwrap().syndrome);
        let naks: Vec<_> = naks.collect();
        assert!(naks.len() > 1 && naks.iter().all(|syndrome| *syndrome == 0x21), "{config}: {naks:x?}");
        bench.post(5, &[bench.to.sge(0, 1000)]);
        assert_eq!(ends(&bench.wait(b, 1)), [(peer.number(), 5, WELL)], "{config}");
        assert_eq!(ends(&bench.wait(a, 1)), [(qp.number(), 1, WELL)], "{config}");
        assert_eq!(bytes(bench.to.memory())[..1000], bytes(bench.from.memory())[..1000]);
        bench.post(6, &[bench.to.sge(0, 1000)]);
        send(&mut other, SendWr::send(2, &[bench.from.sge(0, 1000)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(second.number(), 6, WELL)], "{config}");
    }
}

#[test]
fn a_limit_is_told_once_for_each_arming_and_at_once_when_it_was_passed_before() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 8);
        let Pair { a, b, .. } = &bench.pair;
        let (mut qp, _peer) = bench.connect();
        let srqn = bench.srq.borrow().number();
        (0..6).for_each(|i| bench.post(i, &[bench.to.sge(0, 64)]));
        bench.srq.borrow_mut().arm_limit(4).unwrap();
        let message = |qp: &mut QueuePair| {
            send(qp, SendWr::send(0, &[bench.from.sge(0, 64)]));
            bench.wait(a, 1);
            bench.wait(b, 1);
        };
        message(&mut qp);
        message(&mut qp);
        bench.no_event();
        assert_eq!(bench.srq.borrow().query().unwrap(), status(4, 4), "{config}");
        message(&mut qp);
        assert_eq!(bench.event(), event(EventKind::SrqLimit, srqn), "{config}");
        message(&mut qp);
        bench.no_event();
        assert_eq!(bench.srq.borrow().query().unwrap(), status(2, 0), "{config}");
        bench.srq.borrow_mut().arm_limit(3).unwrap();
        assert_eq!(bench.event(), event(EventKind::SrqLimit, srqn), "{config}");
        bench.srq.borrow_mut().arm_limit(2).unwrap();
        bench.srq.borrow_mut().arm_limit(0).unwrap();
        message(&mut qp);
        bench.no_event();
    }
}

fn status(left: u16, limit: u16) -> ferrowire::SrqStatus {
    ferrowire::SrqStatus { left, limit }
}

#[test]
fn a_queue_pair_in_error_flushes_what_it_holds_and_leaves_the_rest_to_others() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 4);
        let b = &bench.pair.b;
        let (mut qp, mut peer) = bench.connect();
        let (mut other, second) = bench.connect();
        (0..4).for_each(|i| bench.post(i, &[bench.to.sge(4096 * i as usize, 2000)]));
        // The first packet of a message arrives, and no more.
        bench.cut(peer.number(), 1);
        send(&mut qp, SendWr::send(1, &[bench.from.sge(0, 2000)]));
        bench.pair.world.lock().run(2_000);
        assert_eq!(bench.srq.borrow().query().unwrap().left, 3, "{config}");
        send(&mut other, SendWr::send(2, &[bench.from.sge(100, 2000)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(second.number(), 1, WELL)], "{config}");
        assert_eq!(bytes(bench.to.memory())[4096..6096], bytes(bench.from.memory())[100..2100]);
        peer.modify(QpState::Err, &QpAttributes::default()).unwrap();
        // The completion is there before the event.
        assert_eq!(bench.event(), event(EventKind::LastWqe, peer.number()), "{config}");
        let mut some = [Completion::default(); 4];
        assert_eq!(b.cq.poll(&mut some), Ok(1), "{config}");
        assert_eq!(ends(&some[..1]), [(peer.number(), 0, FLUSHED)], "{config}");
        bench.no_event();
        assert_eq!(bench.srq.borrow().query().unwrap().left, 2, "{config}");
        // Its places are free again, and the others' messages go on.
        (4..6).for_each(|i| bench.post(i, &[bench.to.sge(0, 2000)]));
        for id in 2..6 {
            send(&mut other, SendWr::send(id, &[bench.from.sge(0, 2000)]));
            assert_eq!(ends(&bench.wait(b, 1)), [(second.number(), id, WELL)], "{config}");
        }
        // One that held nothing says so at once.
        drop((qp, peer));
        let (_qp, mut idle) = bench.connect();
        idle.modify(QpState::Err, &QpAttributes::default()).unwrap();
        assert_eq!(bench.event(), event(EventKind::LastWqe, idle.number()), "{config}");
        assert_eq!(b.cq.poll(&mut some), Ok(0), "{config}");
    }
}

#[test]
fn a_queue_pair_that_is_reset_or_destroyed_gives_the_place_of_its_receive_back() {
    for config in chosen!(CONFIGS) {
        for destroyed in [false, true] {
            let bench = bench(config, 2);
            let b = &bench.pair.b;
            let (mut qp, peer) = bench.connect();
            bench.post(1, &[bench.to.sge(0, 2000)]);
            bench.cut(peer.number(), 1);
            send(&mut qp, SendWr::send(1, &[bench.from.sge(0, 2000)]));
            bench.pair.world.lock().run(2_000);
            assert_eq!(bench.srq.borrow().query().unwrap().left, 0, "{config}");
            bench.post(2, &[bench.to.sge(0, 2000)]);
            assert_eq!(bench.srq.borrow_mut().start_post_recv().room(), 0, "{config}");
            let full = bench.srq.borrow_mut().start_post_recv().post(&RecvWr::new(3, &[])).unwrap_err();
            assert_eq!(full, Error::SharedQueueFull { srqn: bench.srq.borrow().number(), size: 2 });
            let (mut qp, peer) = match destroyed {
                true => {
                    peer.destroy().unwrap();
                    drop(qp);
                    bench.connect()
                }
                false => bench.pair.reconnect(qp, peer, &connection()).unwrap(),
            };
            bench.pair.world.lock().link_mut(0).set_filter(None);
            assert_eq!(
                b.cq.poll(&mut [Completion::default(); 4]),
                Ok(0),
                "{config}: none of the life before"
            );
            bench.post(3, &[bench.to.sge(0, 2000)]);
            for id in 2..4 {
                send(&mut qp, SendWr::send(id, &[bench.from.sge(0, 2000)]));
                assert_eq!(ends(&bench.wait(b, 1)), [(peer.number(), id, WELL)], "{config}");
            }
        }
    }
}

#[test]
fn a_receive_that_fails_ends_its_queue_pair_alone() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 8);
        let Pair { a, b, .. } = &bench.pair;
        // Its elements are of the queue's domain, whatever that of the queue pairs is.
        let domain = b.context.alloc_pd().unwrap();
        let mut attr = QpInitAttr::rc(&b.cq, &b.cq);
        let srq = bench.srq.borrow();
        attr.srq = Some(&srq);
        let foreign = domain.create_qp(&attr).unwrap();
        drop(srq);
        let own = a.pd.create_qp(&QpInitAttr::rc(&a.cq, &a.cq)).unwrap();
        let (mut qp, peer) = bench.pair.bring_up(own, foreign, &connection()).unwrap();
        let (mut other, second) = bench.connect();
        let memory = b.context.alloc(4096, 4096).unwrap();
        let wrong = domain.register(&memory, AccessFlags::LOCAL_WRITE, ferrowire::PageSize::Size4K).unwrap();
        let sges = [bench.to.sge(0, 600), wrong.sge(0, 64), bench.to.sge(0, 100), bench.to.sge(0, 600)];
        for (i, sge) in sges.iter().enumerate() {
            bench.post(i as u64, &[*sge]);
        }
        send(&mut qp, SendWr::send(0, &[bench.from.sge(0, 600)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(peer.number(), 0, WELL)], "{config}");
        bench.wait(a, 1);
        send(&mut qp, SendWr::send(1, &[bench.from.sge(0, 64)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(peer.number(), 1, WcStatus::LocProtErr)], "{config}");
        assert_eq!(ends(&bench.wait(a, 1)), [(qp.number(), 1, WcStatus::RemOpErr)], "{config}");
        assert_eq!(bench.event(), event(EventKind::LastWqe, peer.number()), "{config}");
        assert_eq!(peer.state(), QpState::Err, "{config}");
        assert!(bytes(&memory).iter().all(|byte| *byte == 0), "{config}");
        let (mut third, last) = bench.connect();
        send(&mut third, SendWr::send(2, &[bench.from.sge(0, 600)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(last.number(), 2, WcStatus::LocLenErr)], "{config}");
        let refused = Event { cause: 0x61, ..event(EventKind::QpRequestError, last.number()) };
        assert_eq!(bench.event(), refused, "{config}");
        assert_eq!(bench.event(), event(EventKind::LastWqe, last.number()), "{config}");
        send(&mut other, SendWr::send(3, &[bench.from.sge(0, 600)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(second.number(), 3, WELL)], "{config}");
    }
}

#[test]
fn a_queue_that_is_overrun_fails_and_ends_those_who_take_from_it() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 8);
        let Pair { a, b, .. } = &bench.pair;
        let (mut qp, peer) = bench.connect();
        let (mut other, second) = bench.connect();
        let (mut own, mut apart) = bench.pair.connect(&connection()).unwrap();
        (0..6).for_each(|i| bench.post(i, &[bench.to.sge(0, 64)]));
        for id in 0..2 {
            send(&mut qp, SendWr::send(id, &[bench.from.sge(0, 64)]));
            assert_eq!(ends(&bench.wait(b, 1)), [(peer.number(), id, WELL)], "{config}");
            bench.wait(a, 1);
        }
        let ring = |producer: u16| {
            let word =
                RqDoorbell { qpn: bench.srq.borrow().number(), srq: true, producer, ..RqDoorbell::default() };
            let value = u64::from_le_bytes(word.to_bytes().unwrap());
            bench.pair.bus(1).doorbell(doorbell::address(0, doorbell::RQ), value).unwrap();
        };
        // There is room for 8, and 2 have been taken.
        ring(11);
        let overrun = Event {
            cause: LocalCause::Overrun.code(),
            ..event(EventKind::SrqFatal, bench.srq.borrow().number())
        };
        assert_eq!(bench.event(), overrun, "{config}");
        ring(3);
        bench.no_event();
        // Nothing happens to those who take nothing.
        assert_eq!((peer.state(), second.state()), (QpState::Rts, QpState::Rts), "{config}");
        send(&mut other, SendWr::write(5, &[bench.from.sge(64, 64)], bench.to.remote(0)));
        assert!(bench.wait(a, 1)[0].is_success(), "{config}");
        let before = bytes(bench.to.memory());
        send(&mut qp, SendWr::send(6, &[bench.from.sge(4096, 64)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(peer.number(), 2, WcStatus::LocProtErr)], "{config}");
        assert_eq!(ends(&bench.wait(a, 1)), [(qp.number(), 6, WcStatus::RemOpErr)], "{config}");
        assert_eq!(bench.event(), event(EventKind::LastWqe, peer.number()), "{config}");
        assert_eq!((peer.state(), second.state()), (QpState::Err, QpState::Rts), "{config}");
        assert_eq!(bytes(bench.to.memory()), before, "{config}");
        // One with a queue of its own goes on.
        let mut batch = apart.start_post_recv();
        batch.post(&RecvWr::new(9, &[bench.to.sge(0, 64)])).unwrap();
        batch.ring().unwrap();
        send(&mut own, SendWr::send(7, &[bench.from.sge(0, 64)]));
        assert_eq!(ends(&bench.wait(b, 1)), [(apart.number(), 9, WELL)], "{config}");
        bench.no_event();
    }
}

#[test]
fn a_queue_lives_as_long_as_it_is_used_and_what_makes_no_sense_is_named() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 4);
        let b = &bench.pair.b;
        let (_qp, mut peer) = bench.connect();
        let create = |change: &dyn Fn(&mut SrqInitAttr)| {
            let mut attr = SrqInitAttr::default();
            change(&mut attr);
            match b.pd.create_srq(&attr) {
                Err(Error::Attribute { operation: "create_srq", attribute, .. }) => attribute,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(create(&|attr| attr.max_wr = 0), "max_wr");
        assert_eq!(create(&|attr| attr.max_wr = 1 << 15 | 1), "max_wr");
        assert_eq!(create(&|attr| attr.max_sge = 17), "max_sge");
        assert_eq!(create(&|attr| attr.limit = 257), "limit");
        let beyond = bench.srq.borrow_mut().arm_limit(5).unwrap_err().to_string();
        assert_eq!(beyond, "arm limit: limit is 0x5; the queue has 4 work requests; choose 0 to that");
        let mut batch = peer.start_post_recv();
        assert_eq!(batch.room(), 0);
        let refused = batch.post(&RecvWr::new(1, &[])).unwrap_err().to_string();
        assert!(refused.contains("post receive: qpn is") && refused.contains("shared"), "{refused}");
        drop(batch);
        // All that there are, each with what it was made with; then none is left.
        let mut many = Vec::new();
        let error = loop {
            match b.pd.create_srq(&SrqInitAttr::default()) {
                Ok(srq) => many.push(srq),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::NoResource { operation: "create_srq", .. }), "{error}");
        assert_eq!(many.len() as u32 + 1, b.context.capabilities().max_srq);
        many.into_iter().for_each(|srq| srq.destroy().unwrap());
        let Bench { srq, pair, .. } = bench;
        let busy = srq.into_inner().destroy().unwrap_err();
        assert!(matches!(busy, Error::Busy { what: "shared receive queue", .. }), "{busy}");
        let b = &pair.b;
        let again = || {
            (0..).map_while(|_| b.pd.create_srq(&SrqInitAttr::default()).ok()).collect::<Vec<_>>().len()
                as u32
        };
        assert_eq!(again() + 1, b.context.capabilities().max_srq, "it lives while it is used");
        peer.destroy().unwrap();
        assert_eq!(again(), b.context.capabilities().max_srq, "and no longer");
    }
}

#[test]
fn two_kinds_of_receive_queues_stand_side_by_side() {
    for config in chosen!(CONFIGS) {
        let bench = bench(config, 8);
        let b = &bench.pair.b;
        let (mut qp, peer) = bench.connect();
        let (mut other, mut second) = bench.pair.connect(&connection()).unwrap();
        for id in 0..20 {
            bench.post(id, &[bench.to.sge(0, 100)]);
            let mut batch = second.start_post_recv();
            batch.post(&RecvWr::new(100 + id, &[bench.to.sge(1000, 100)])).unwrap();
            batch.ring().unwrap();
            let at = 64 * id as usize;
            send(&mut qp, SendWr::send(id, &[bench.from.sge(at, 100)]));
            assert_eq!(ends(&bench.wait(b, 1)), [(peer.number(), id, WELL)], "{config}");
            send(&mut other, SendWr::send(id, &[bench.from.sge(at + 7, 100)]));
            assert_eq!(ends(&bench.wait(b, 1)), [(second.number(), 100 + id, WELL)], "{config}");
            let (data, into) = (bytes(bench.from.memory()), bytes(bench.to.memory()));
            assert_eq!((&into[..100], &into[1000..1100]), (&data[at..at + 100], &data[at + 7..at + 107]));
            bench.wait(&bench.pair.a, 2);
        }
    }
}
