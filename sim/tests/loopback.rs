// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loopback: frames to the card's own MAC address return inside the card, beside those of the wire.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Completion, DropReason, FlowControl, FlowMode, HwCounter, InitAttributes, MemoryRegion,
    PathMtu, Psn, Qp, QpInitAttr, QueuePair, RawFilter, RecvWr, Reset, RtrAttributes, RtsAttributes, SendWr,
    Service, TrafficCounter, WcStatus,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{bytes, post, Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_spec::qp_state::{GSI_QKEY, GSI_QPN};
use ferrowire_spec::wire::Pause;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

const CONFIGS: [&str; 4] = ["generic-8b", "generic-64b", "axi-8b", EMULATED];
const CARDS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what a test waits for.
const LIMIT: u64 = 400_000;

fn all() -> AccessFlags {
    AccessFlags::LOCAL_WRITE
        | AccessFlags::REMOTE_WRITE
        | AccessFlags::REMOTE_READ
        | AccessFlags::REMOTE_ATOMIC
}

fn connection() -> Connection {
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC;
    // Nothing is lost, so nothing may time out.
    Connection { access, rd_atomic: 8, timeout: 0, signal_all: true, ..Connection::default() }
}

fn pair(config: &str) -> Pair {
    Pair::named(config, &PairOptions::default()).unwrap()
}

fn traffic(node: &Node, counter: TrafficCounter) -> u64 {
    node.context.traffic_counter(counter).unwrap()
}

/// A region with something in it.
fn filled(node: &Node, offset: usize, length: usize, seed: u64) -> MemoryRegion {
    let region = node.region(offset, length, all()).unwrap();
    let mut data = vec![0; length];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut data);
    region.memory().write(0, &data);
    region
}

#[track_caller]
fn wait(pair: &Pair, node: &Node, count: usize) -> Vec<Completion> {
    let done = node.wait(&pair.world, count, LIMIT);
    let done = done.unwrap_or_else(|error| panic!("{error}{}", pair.diagnose()));
    assert!(done.iter().all(Completion::is_success), "{done:?}{}", pair.diagnose());
    // What is acknowledged may be on its way to memory yet, and so are counters.
    pair.world.lock().run(1000);
    done
}

/// No frame was dropped, sent again or sent to the wire.
#[track_caller]
fn nothing_lost(node: &Node, what: &str) {
    for reason in DropReason::ALL {
        assert_eq!(node.context.drop_counter(*reason).unwrap(), 0, "{what}: {}", reason.name());
    }
    for counter in [HwCounter::Retransmitted, HwCounter::OutOfSequence, HwCounter::LocalAckTimeoutErr] {
        assert_eq!(node.context.hw_counter(counter).unwrap(), 0, "{what}: {}", counter.name());
    }
}

/// A queue pair whose peer is itself.
fn to_itself(node: &Node, connection: &Connection) -> QueuePair {
    let mut attr = match connection.service {
        Service::Uc => QpInitAttr::uc(&node.cq, &node.cq),
        _ => QpInitAttr::rc(&node.cq, &node.cq),
    };
    (attr.max_send_wr, attr.max_recv_wr, attr.sq_sig_all) = (32, 32, true);
    let qp: Qp<Reset> = node.pd.create_qp(&attr).unwrap();
    let (number, rc) = (qp.number(), connection.service == Service::Rc);
    let init = InitAttributes::new().access(connection.access).pkey(0xffff);
    let rtr = RtrAttributes::new()
        .av(node.way(node, connection))
        .path_mtu(connection.mtu)
        .dest_qpn(number)
        .rq_psn(Psn::new(0xff_fff0))
        .max_dest_rd_atomic(rc.then_some(8))
        .min_rnr_timer(rc.then_some(12));
    let rts = RtsAttributes::new()
        .sq_psn(Psn::new(0xff_fff0))
        .timeout(rc.then_some(0))
        .retry_cnt(rc.then_some(7))
        .rnr_retry(rc.then_some(7))
        .max_rd_atomic(rc.then_some(8));
    qp.init(init).unwrap().rtr(rtr).unwrap().rts(rts).unwrap()
}

#[test]
fn a_queue_pair_is_its_own_peer_for_every_operation_over_both_families_and_vlans() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let node = &pair.a;
        let vlan = 0x6005;
        node.context.add_gid(node.ip(true), Some(5)).unwrap();
        for (ipv6, vlan, mtu) in
            [(false, None, PathMtu::B1024), (true, Some(vlan), PathMtu::B256), (false, None, PathMtu::B4096)]
        {
            let mut qp = to_itself(node, &Connection { ipv6, vlan, mtu, ..connection() });
            for length in [1, 64, 1500, 9000] {
                let what = format!("{config}, {length} bytes, {mtu:?}");
                let (from, to) = (filled(node, 3, length, 1), filled(node, 9, length, 2));
                let own = [from.sge(0, length as u32)];
                post(&mut qp, &[SendWr::write(1, &own, to.remote(0))]);
                wait(&pair, node, 1);
                assert!(bytes(to.memory()) == bytes(from.memory()), "{what}: WRITE");
                let back = filled(node, 1, length, 3);
                post(&mut qp, &[SendWr::read(2, &[back.sge(0, length as u32)], to.remote(0))]);
                wait(&pair, node, 1);
                assert!(bytes(back.memory()) == bytes(from.memory()), "{what}: READ");
                let inbox = filled(node, 7, length, 4);
                let receive = [inbox.sge(0, length as u32)];
                qp.start_post_recv().post(&RecvWr::new(3, &receive)).unwrap();
                post(&mut qp, &[SendWr::send(4, &own)]);
                wait(&pair, node, 2);
                assert!(bytes(inbox.memory()) == bytes(from.memory()), "{what}: SEND");
            }
            let (value, was) = (filled(node, 0, 8, 5), filled(node, 0, 8, 6));
            value.memory().write(0, &40u64.to_le_bytes());
            let place = [was.sge(0, 8)];
            post(&mut qp, &[SendWr::fetch_add(5, &place, value.remote(0), 2)]);
            wait(&pair, node, 1);
            assert_eq!(bytes(was.memory()), 40u64.to_le_bytes(), "{config}");
            post(&mut qp, &[SendWr::compare_swap(6, &place, value.remote(0), 42, 7)]);
            wait(&pair, node, 1);
            assert_eq!(bytes(was.memory()), 42u64.to_le_bytes(), "{config}");
            assert_eq!(bytes(value.memory()), 7u64.to_le_bytes(), "{config}");
        }
        nothing_lost(node, config);
        for counter in [TrafficCounter::TxFrames, TrafficCounter::RxFrames, TrafficCounter::TxRoce] {
            assert_eq!(traffic(node, counter), 0, "{config}: {}", counter.name());
        }
        let [frames, roce] =
            [TrafficCounter::LoopbackFrames, TrafficCounter::RxRoce].map(|c| traffic(node, c));
        assert!(frames > 100 && frames == roce, "{config}: {frames} frames, {roce} RoCE packets");
        // An Ethernet, IP, UDP and base header each at least, and the ICRC.
        assert!(traffic(node, TrafficCounter::LoopbackBytes) > 58 * frames + 95_085, "{config}");
        assert_eq!(pair.world.lock().link_mut(0).frames(), 0, "{config}");
        assert!(node.context.capabilities().loopback);
    }
}

#[test]
fn messages_of_unreliable_services_and_of_queue_pair_1_return() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let node = &pair.a;
        let uc = Connection { service: Service::Uc, access: AccessFlags::REMOTE_WRITE, ..connection() };
        let mut uc = to_itself(node, &uc);
        let (from, to) = (filled(node, 3, 5000, 1), filled(node, 9, 5000, 2));
        post(&mut uc, &[SendWr::write(1, &[from.sge(0, 5000)], to.remote(0))]);
        wait(&pair, node, 1);
        pair.world.lock().run(4000);
        assert!(bytes(to.memory()) == bytes(from.memory()), "{config}: UC");
        let way = node.way(node, &Connection::default());
        let handle = node.pd.create_ah(&way).unwrap();
        for gsi in [false, true] {
            let mut attr = QpInitAttr::ud(&node.cq, &node.cq);
            (attr.gsi, attr.sq_sig_all) = (gsi, true);
            let qkey = if gsi { GSI_QKEY } else { 77 };
            let init = InitAttributes::new().pkey(0xffff).qkey(qkey);
            let rts = RtsAttributes::new().sq_psn(Psn::new(5));
            let qp = node.pd.create_qp(&attr).unwrap().init(init).unwrap();
            let mut qp = qp.rtr(RtrAttributes::default()).unwrap().rts(rts).unwrap();
            assert_eq!(qp.number() == GSI_QPN, gsi);
            let inbox = filled(node, 0, 40 + 256, 3);
            qp.start_post_recv().post(&RecvWr::new(3, &[inbox.sge(0, 296)])).unwrap();
            let number = qp.number();
            post(&mut qp, &[SendWr::send(4, &[from.sge(0, 256)]).to(&handle, number, qkey)]);
            let done = wait(&pair, node, 2);
            assert!(done.iter().any(|done| done.src_qpn() == Some(number)), "{config}: {done:?}");
            assert!(bytes(inbox.memory())[40..] == bytes(from.memory())[..256], "{config}: UD");
        }
        nothing_lost(node, config);
        assert_eq!(traffic(node, TrafficCounter::TxFrames), 0, "{config}");
        assert_eq!(traffic(node, TrafficCounter::LoopbackFrames), 7, "{config}");
    }
}

/// A frame of so many bytes that is not RoCE.
fn frame(dst: [u8; 6], length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|i| (i * 29 + length) as u8).collect();
    bytes[..6].copy_from_slice(&dst);
    bytes[12..14].copy_from_slice(&[0x08, 0x06]);
    bytes
}

#[test]
fn raw_frames_to_the_own_address_return_and_all_others_go_to_the_wire() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let node = &pair.a;
        node.context.set_raw_filter(&RawFilter::port()).unwrap();
        let flow = FlowControl { mode: FlowMode::Pause, ..FlowControl::default() };
        node.context.set_flow_control(&flow).unwrap();
        let mut attr = QpInitAttr::raw(&node.cq, &node.cq);
        (attr.max_send_sge, attr.max_send_wr, attr.max_recv_wr) = (3, 64, 64);
        let qp = node.pd.create_qp(&attr).unwrap().init(InitAttributes::default()).unwrap();
        let qp = qp.rtr(RtrAttributes::default()).unwrap();
        let mut qp = qp.rts(RtsAttributes::default()).unwrap();
        pair.world.lock().link_mut(0).keep_frames(true);
        let (out, inbox) = (filled(node, 3, 4096, 1), filled(node, 5, 4096, 2));
        let (mut to_wire, mut looped) = (Vec::new(), 0);
        let groups = [[0xff; 6], [0x33, 0x33, 0, 0, 0, 1]];
        for (i, length) in [14, 60, 61, 64, 128, 1514, 4096].into_iter().enumerate() {
            for to in [node.mac(), pair.b.mac(), groups[i % 2], node.mac()] {
                let sent = frame(to, length);
                out.memory().write(0, &sent);
                let own = to == node.mac();
                if own {
                    qp.start_post_recv().post(&RecvWr::new(9, &[inbox.sge(0, 4096)])).unwrap();
                }
                // In pieces that cut its address in two, and in one.
                let rest = (length - 9) as u32;
                let pieces = [out.sge(0, 4), out.sge(4, 5), out.sge(9, rest)];
                let whole = [out.sge(0, length as u32)];
                let wr = if i % 2 == 0 { SendWr::send(8, &pieces) } else { SendWr::send(8, &whole) };
                post(&mut qp, &[wr.signaled()]);
                let done = wait(&pair, node, 1 + usize::from(own));
                if own {
                    let came =
                        done.iter().find(|done| done.wr_id() == 9).expect("a receive").byte_len() as usize;
                    assert!(bytes(inbox.memory())[..came] == sent, "{config}: {length} bytes");
                    looped += 1;
                } else {
                    to_wire.push(sent);
                }
            }
        }
        nothing_lost(node, config);
        let came: Vec<_> = pair.world.lock().link_mut(0).take_frames().into_iter().map(|f| f.bytes).collect();
        assert!(came == to_wire, "{config}: {} frames on the wire", came.len());
        assert_eq!(traffic(node, TrafficCounter::LoopbackFrames), looped, "{config}");
        assert_eq!(traffic(node, TrafficCounter::RxRaw), looped, "{config}");
        assert_eq!(traffic(node, TrafficCounter::TxRaw), to_wire.len() as u64, "{config}");
        // A PAUSE from itself says nothing of the wire.
        let mut pause = Pause::new(0xffff).frame(1).to_vec();
        pause[..6].copy_from_slice(&node.mac());
        out.memory().write(0, &pause);
        post(&mut qp, &[SendWr::send(8, &[out.sge(0, pause.len() as u32)]).signaled()]);
        wait(&pair, node, 1);
        pair.world.lock().run(2000);
        assert_eq!(node.context.drop_counter(DropReason::MacControl).unwrap(), 1, "{config}");
        assert_eq!(traffic(node, TrafficCounter::RxPause), 0, "{config}");
        assert_eq!(node.context.paused_priorities().unwrap(), 0, "{config}");
    }
}

#[test]
fn what_is_for_another_address_of_the_port_is_dropped_and_counted_until_it_has_that_address() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let node = &pair.a;
        let mut qp = to_itself(node, &Connection { service: Service::Uc, ..connection() });
        let (from, to) = (filled(node, 3, 64, 1), filled(node, 9, 64, 2));
        node.context.remove_gid(node.ip(false), None).unwrap();
        post(&mut qp, &[SendWr::write(1, &[from.sge(0, 64)], to.remote(0))]);
        wait(&pair, node, 1);
        assert_eq!(node.context.drop_counter(DropReason::Destination).unwrap(), 1, "{config}");
        assert!(bytes(to.memory()) != bytes(from.memory()), "{config}");
        assert_eq!(traffic(node, TrafficCounter::TxFrames), 0, "{config}");
    }
}

#[test]
fn a_card_without_loopback_sends_such_frames_to_the_wire() {
    let config = RnicConfig { loopback: false, ..RnicConfig::named("generic-8b").unwrap() };
    let model = CardModel::rnic(&config, false).unwrap();
    let pair = Pair::new(&model, &PairOptions::default()).unwrap();
    let node = &pair.a;
    assert!(!node.context.capabilities().loopback);
    let short = Connection { timeout: 1, retry_cnt: 1, ..connection() };
    let (mut one, _two) = node.connect(node, &short).unwrap();
    let (from, to) = (filled(node, 3, 64, 1), filled(node, 9, 64, 2));
    post(&mut one, &[SendWr::write(1, &[from.sge(0, 64)], to.remote(0))]);
    let done = node.wait(&pair.world, 1, LIMIT).unwrap();
    assert_eq!(done[0].status().known(), Some(WcStatus::RetryExcErr));
    assert_eq!(traffic(node, TrafficCounter::TxFrames), 2);
    assert_eq!(traffic(node, TrafficCounter::LoopbackFrames), 0);
    // A switch that reflects them brings them back.
    let (mut one, _two) = node.connect(node, &connection()).unwrap();
    pair.world.lock().link_mut(0).keep_frames(true);
    post(&mut one, &[SendWr::write(2, &[from.sge(0, 64)], to.remote(0))]);
    let mut done = vec![Completion::default(); 4];
    let mut came = 0;
    for _ in 0..200 {
        let mut world = pair.world.lock();
        let frames = world.link_mut(0).take_frames();
        frames.into_iter().for_each(|sent| world.inject(1, sent.bytes));
        world.run(100);
        drop(world);
        came += node.cq.poll(&mut done[came..]).unwrap();
    }
    assert!(came == 1 && done[0].is_success(), "{done:?}{}", pair.diagnose());
    assert!(bytes(to.memory()) == bytes(from.memory()));
}

/// Room that is reserved comes back, whatever becomes of the packet: more of them fail than the loop has room for.
#[test]
fn what_is_refused_or_cannot_be_read_gives_its_room_back() {
    for config in chosen!(CARDS) {
        let pair = pair(config);
        let node = &pair.a;
        let large = Connection { mtu: PathMtu::B4096, ..connection() };
        let (from, to) = (filled(node, 0, 4096, 1), filled(node, 0, 4096, 2));
        let gone = filled(node, 0, 4096, 3);
        pair.unmap(0, gone.memory().address());
        let fails = |qp: &mut QueuePair, wr: SendWr<'_>| {
            post(qp, &[wr]);
            let done = node.wait(&pair.world, 1, LIMIT).unwrap_or_else(|e| panic!("{e}{}", pair.diagnose()));
            done[0].status().known().expect("a status")
        };
        for _ in 0..8 {
            let (mut one, _two) = node.connect(node, &large).unwrap();
            let remote = ferrowire::RemoteAddress { rkey: to.rkey() ^ 1, ..to.remote(0) };
            let status = fails(&mut one, SendWr::read(1, &[from.sge(0, 4096)], remote));
            assert_eq!(status, WcStatus::RemAccessErr, "{config}");
            let (mut one, _two) = node.connect(node, &large).unwrap();
            let status = fails(&mut one, SendWr::read(2, &[from.sge(0, 4096)], gone.remote(0)));
            assert_eq!(status, WcStatus::RemOpErr, "{config}");
            let (mut one, _two) = node.connect(node, &large).unwrap();
            let status = fails(&mut one, SendWr::write(3, &[gone.sge(0, 4096)], to.remote(0)));
            assert_eq!(status, WcStatus::LocQpOpErr, "{config}");
        }
        let (mut one, _two) = node.connect(node, &large).unwrap();
        post(&mut one, &[SendWr::write(4, &[from.sge(0, 4096)], to.remote(0))]);
        wait(&pair, node, 1);
        let back = filled(node, 0, 4096, 4);
        post(&mut one, &[SendWr::read(5, &[back.sge(0, 4096)], to.remote(0))]);
        wait(&pair, node, 1);
        assert!(bytes(back.memory()) == bytes(from.memory()), "{config}");
    }
}

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
    Send,
    Atomic,
}

/// A queue pair with something to do at any time: message `i` goes from slot `i` to slot `i`.
struct Flow<'a> {
    node: &'a Node,
    peer: &'a Node,
    kind: Kind,
    qp: QueuePair,
    /// Its peer, where that is not itself.
    other: Option<QueuePair>,
    from: MemoryRegion,
    to: MemoryRegion,
    size: usize,
    posted: u64,
    done: u64,
    received: u64,
}

const SLOTS: usize = 8;

impl<'a> Flow<'a> {
    fn new(node: &'a Node, peer: &'a Node, kind: Kind, size: usize, itself: bool) -> Self {
        let connection = Connection { send_wr: 32, recv_wr: 64, ..connection() };
        let (qp, other) = match itself {
            true => (to_itself(node, &connection), None),
            false => {
                let (qp, other) = node.connect(peer, &connection).unwrap();
                (qp, Some(other))
            }
        };
        let size = if kind == Kind::Atomic { 8 } else { size };
        let (source, target) = if kind == Kind::Read { (peer, node) } else { (node, peer) };
        let (from, to) =
            (filled(source, 0, SLOTS * size, size as u64), target.region(0, SLOTS * size, all()).unwrap());
        Flow { node, peer, kind, qp, other, from, to, size, posted: 0, done: 0, received: 0 }
    }

    fn post(&mut self, room: u64) {
        while self.posted - self.done < room.min(24) {
            let at = self.posted as usize % SLOTS * self.size;
            let (id, size) = (self.posted, self.size as u32);
            let [local_from, local_to] = [[self.from.sge(at, size)], [self.to.sge(at, size)]];
            let wr = match self.kind {
                Kind::Write => SendWr::write(id, &local_from, self.to.remote(at)),
                Kind::Read => SendWr::read(id, &local_to, self.from.remote(at)),
                Kind::Atomic => SendWr::fetch_add(id, &local_from, self.to.remote(at), 1),
                Kind::Send => {
                    let receiver = self.other.as_mut().unwrap_or(&mut self.qp);
                    receiver.start_post_recv().post(&RecvWr::new(1 << 32 | id, &local_to)).unwrap();
                    SendWr::send(id, &local_from)
                }
            };
            post(&mut self.qp, &[wr]);
            self.posted += 1;
        }
    }

    fn is_of(&self, qpn: u32) -> bool {
        self.qp.number() == qpn || self.other.as_ref().is_some_and(|other| other.number() == qpn)
    }

    fn took(&mut self, done: &Completion) {
        let count = if done.wr_id() >> 32 == 1 { &mut self.received } else { &mut self.done };
        assert_eq!(done.wr_id() & 0xffff_ffff, *count, "{:?}: {done:?}", self.kind);
        *count += 1;
    }

    fn finished(&self) -> bool {
        self.done == self.posted && (self.kind != Kind::Send || self.received == self.posted)
    }

    fn check(&self, what: &str) {
        let slots = (self.posted as usize).min(SLOTS) * self.size;
        if self.kind != Kind::Atomic {
            let [from, to] = [&self.from, &self.to].map(|region| bytes(region.memory())[..slots].to_vec());
            assert!(from == to, "{what}: {:?} of {} bytes", self.kind, self.size);
            return;
        }
        for slot in 0..SLOTS {
            let adds = (self.posted + (SLOTS - 1 - slot) as u64) / SLOTS as u64;
            let value = bytes(self.to.memory())[8 * slot..8 * slot + 8].to_vec();
            assert_eq!(value, adds.to_le_bytes(), "{what}: {slot}");
        }
    }
}

/// Lets all flows go on for so many cycles, those of `busy` with new messages.
fn run(pair: &Pair, flows: &mut [Flow<'_>], cycles: u64, busy: impl Fn(usize) -> bool) {
    let end = pair.world.lock().cycle() + cycles;
    let mut some = [Completion::default(); 64];
    while pair.world.lock().cycle() < end {
        for (_, flow) in flows.iter_mut().enumerate().filter(|(i, _)| busy(*i)) {
            flow.post(24);
        }
        pair.world.lock().run(50);
        for node in [&pair.a, &pair.b] {
            let n = node.cq.poll(&mut some).unwrap();
            for done in &some[..n] {
                assert!(done.is_success(), "{done:?}{}", pair.diagnose());
                // Numbers of the two cards' queue pairs may be the same.
                let flow = flows.iter_mut().find(|flow| {
                    let at = if done.wr_id() >> 32 == 1 { flow.peer } else { flow.node };
                    at.card == node.card && flow.is_of(done.qpn())
                });
                flow.expect("a completion of somebody's").took(done);
            }
        }
    }
    pair.world.lock().check().unwrap();
}

/// Lets what was posted come to its end, and checks that it did.
fn finish(pair: &Pair, flows: &mut [Flow<'_>], what: &str) {
    for _ in 0..400 {
        run(pair, flows, 1000, |_| false);
        if flows.iter().all(Flow::finished) {
            break;
        }
    }
    for flow in flows.iter() {
        let end = (flow.kind, flow.size, flow.done, flow.posted);
        assert!(flow.finished(), "{what}: {end:?} stands still{}", pair.diagnose());
        flow.check(what);
    }
}

#[test]
fn looped_traffic_and_both_directions_of_the_wire_have_fair_turns() {
    for config in chosen!(CARDS) {
        let pair = pair(config);
        // The peer has time to place what comes.
        pair.world.lock().set_line_share(0.8);
        let (a, b) = (&pair.a, &pair.b);
        let mut flows = [
            Flow::new(a, a, Kind::Write, 2000, false),
            Flow::new(a, b, Kind::Write, 2000, false),
            Flow::new(b, a, Kind::Write, 2000, false),
        ];
        let beats = 2000 / pair.world.lock().card(0).beat_bytes() as u64;
        run(&pair, &mut flows, 100 * beats, |_| true);
        let before = flows.each_ref().map(|flow| flow.done);
        let (start, cycles) = (pair.world.lock().cycle(), 600 * beats);
        run(&pair, &mut flows, cycles, |_| true);
        let cycles = pair.world.lock().cycle() - start;
        let shares: Vec<f64> = flows
            .iter()
            .zip(before)
            .map(|(flow, before)| ((flow.done - before) * beats) as f64 / cycles as f64)
            .collect();
        println!(
            "{config}: messages' beats a cycle: loop {:.2}, out {:.2}, in {:.2}",
            shares[0], shares[1], shares[2]
        );
        // The transmit path is for the first two, the parser for the first and the last.
        assert!((shares[0] / shares[1] - 1.0).abs() < 0.3, "{config}: {shares:?}");
        assert!(shares.iter().all(|share| *share > 0.3), "{config}: {shares:?}");
        assert!(shares[2] >= 0.8 * shares[0], "{config}: {shares:?}");
        finish(&pair, &mut flows, config);
        [a, b].into_iter().for_each(|node| nothing_lost(node, config));
    }
}

#[test]
fn what_loops_goes_on_while_the_wire_pauses() {
    for config in chosen!(CARDS) {
        let pair = pair(config);
        let (a, b) = (&pair.a, &pair.b);
        let flow = FlowControl { mode: FlowMode::Pause, ..FlowControl::default() };
        a.context.set_flow_control(&flow).unwrap();
        let mut flows = [
            Flow::new(a, a, Kind::Write, 1000, true),
            Flow::new(a, a, Kind::Read, 1000, false),
            Flow::new(a, b, Kind::Write, 1000, false),
        ];
        run(&pair, &mut flows, 5000, |_| true);
        pair.world.lock().inject(1, Pause::new(0xffff).frame(0x0200_0000_0099).to_vec());
        run(&pair, &mut flows, 5000, |_| true);
        let before = flows.each_ref().map(|flow| flow.done);
        run(&pair, &mut flows, 20_000, |_| true);
        assert_eq!(a.context.paused_priorities().unwrap(), 0xff, "{config}");
        assert_eq!(flows[2].done, before[2], "{config}: the wire stands still");
        for (flow, before) in flows.iter().zip(before).take(2) {
            assert!(
                flow.done > before + 10,
                "{config}: {:?} {}{}",
                flow.kind,
                flow.done - before,
                pair.diagnose()
            );
        }
        pair.world.lock().inject(1, Pause::new(0).frame(0x0200_0000_0099).to_vec());
        finish(&pair, &mut flows, config);
        nothing_lost(a, config);
    }
}

/// Every queue pair and operation at once, to itself, to others of the card and to a peer, and nothing stands still or is lost.
#[test]
fn nothing_stands_still_and_nothing_is_lost_whatever_the_host_takes() {
    let all =
        [("generic-8b", (1, 0)), ("generic-8b", (2, 250)), ("generic-64b", (3, 250)), (EMULATED, (4, 0))];
    for (config, (seed, host_latency)) in chosen!(all) {
        let what = format!("{config}, seed {seed}, host latency {host_latency}");
        let pair = Pair::named(config, &PairOptions { host_latency, ..PairOptions::default() }).unwrap();
        let (a, b) = (&pair.a, &pair.b);
        let mut random = SmallRng::seed_from_u64(seed);
        let mut flows = Vec::new();
        for kind in [Kind::Write, Kind::Read, Kind::Send, Kind::Atomic] {
            let size = [1, 64, 700, 4096, 9000][random.random_range(0..5)];
            flows.push(Flow::new(a, a, kind, size, true));
        }
        for kind in [Kind::Write, Kind::Read] {
            flows.push(Flow::new(a, a, kind, [16, 300, 5000][random.random_range(0..3)], false));
        }
        flows.push(Flow::new(a, b, Kind::Write, 1500, false));
        flows.push(Flow::new(b, a, Kind::Read, 1500, false));
        for _ in 0..12 {
            let busy: u32 = random.random();
            run(&pair, &mut flows, 3000, |i| busy >> i & 1 == 1);
        }
        finish(&pair, &mut flows, &what);
        nothing_lost(a, &what);
        assert!(flows.iter().all(|flow| flow.done > 0), "{what}");
        // All small ones at once: acknowledgements are half of all frames.
        drop(flows);
        let mut flows: Vec<Flow<'_>> = (0..3).map(|_| Flow::new(a, a, Kind::Send, 8, true)).collect();
        run(&pair, &mut flows, 6000, |_| true);
        finish(&pair, &mut flows, &what);
        nothing_lost(a, &what);
    }
}
