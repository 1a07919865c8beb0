// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network side of two cards: neighbours, echoes, TCP, and queue pairs that are connected by a stream or by the communication manager, each card's
//! host in a thread of its own.

use crate::tier::chosen;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrowire::{
    AccessFlags, Completion, Init, InitAttributes, MemoryRegion, PathMtu, Qp, QpInitAttr, QueuePair, RecvWr,
    RemoteAddress, SendWr,
};
use ferrowire_net::cm::machine::{State, Timing};
use ferrowire_net::exchange::SELECTIVE;
use ferrowire_net::mad::{Mad, Message, RejectReason};
use ferrowire_net::{
    connect_exchange, Cm, CmOptions, Config, Error, LocalEnd, Net, RcOptions, TcpListener, TcpStream,
};
use ferrowire_sim::pair::{bytes, post, Node, Pair, PairOptions, EMULATED};
use ferrowire_spec::wire::{Frame, Opcode};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];
const BYTES: usize = 10_000;
/// By the stack's clock, which is so much faster than the card's.
const SPEED: u32 = 2000;
const LIMIT: Duration = Duration::from_secs(120);
/// Half a second until a message is sent again.
const TIMING: Timing = Timing { response: 17, retries: 15, time_wait: 17, service: 22 };

fn pair(config: &str) -> Pair {
    Pair::named(config, &PairOptions::default()).unwrap()
}

fn net(node: &Node) -> Net {
    Net::new(&node.context, &node.pd, Config { speed: SPEED, ..Config::default() }).unwrap()
}

fn queue_pair(node: &Node) -> Qp<Init> {
    let qp = node.pd.create_qp(&QpInitAttr::rc(&node.cq, &node.cq)).unwrap();
    let access = Some(AccessFlags::REMOTE_WRITE);
    qp.init(InitAttributes::new().access(access).pkey(0xffff)).unwrap()
}

/// Runs both hosts until each has ended; who has ended first still answers.
fn run<A, B: Send>(
    here: impl FnOnce() -> A,
    here_polls: impl Fn(),
    there: impl FnOnce() -> B + Send,
    there_polls: impl Fn() + Send,
) -> (A, B) {
    let (ended_here, ended_there) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (ended_here, ended_there) = (&ended_here, &ended_there);
        let other = scope.spawn(move || {
            let done = there();
            ended_there.store(true, Ordering::Release);
            while !ended_here.load(Ordering::Acquire) {
                there_polls();
                // The world's lock is not fair.
                std::thread::sleep(Duration::from_micros(20));
            }
            done
        });
        let done = here();
        ended_here.store(true, Ordering::Release);
        while !ended_there.load(Ordering::Acquire) && !other.is_finished() {
            here_polls();
            std::thread::sleep(Duration::from_micros(20));
        }
        (done, other.join().unwrap())
    })
}

/// Lets `frames` of those that card 1 sends and that `which` knows vanish; how many have come by.
fn lose(pair: &Pair, frames: u32, which: fn(&[u8]) -> bool) -> Arc<AtomicU32> {
    let seen = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&seen);
    let filter = move |frame: &[u8]| match which(frame) && count.fetch_add(1, Ordering::Relaxed) < frames {
        true => Vec::new(),
        false => vec![frame.to_vec()],
    };
    pair.world.lock().link_mut(1).set_filter(Some(Box::new(filter)));
    seen
}

/// An answer of ARP.
fn arp_reply(frame: &[u8]) -> bool {
    frame[12..14] == [8, 6] && frame[21] == 2
}

/// A MAD of the communication manager with this attribute, over IPv4.
fn mad<const ATTRIBUTE: u8>(frame: &[u8]) -> bool {
    frame.len() > 300 && frame[42] == 0x64 && frame[63] == 7 && frame[79] == ATTRIBUTE
}

/// What one side writes and where the other has it.
struct Memory {
    region: MemoryRegion,
}

impl Memory {
    fn source(node: &Node) -> Self {
        let region = node.region(3, BYTES, AccessFlags::LOCAL_READ).unwrap();
        let data: Vec<u8> = (0..BYTES).map(|i| (i * 13 + i / 256) as u8).collect();
        region.memory().write(0, &data);
        Self { region }
    }

    fn target(node: &Node) -> Self {
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        Self { region: node.region(5, BYTES, access).unwrap() }
    }

    fn remote(&self) -> RemoteAddress {
        RemoteAddress { address: self.region.address(), rkey: self.region.rkey() }
    }

    /// Writes it to the other side, and waits for that.
    fn write(&self, pair: &Pair, node: &Node, qp: &mut QueuePair, remote: RemoteAddress) {
        let sges = [self.region.sge(0, BYTES as u32)];
        post(qp, &[SendWr::write(1, &sges, remote).signaled()]);
        let done = node.wait(&pair.world, 1, 200_000).unwrap();
        assert!(done[0].is_success(), "{:?}{}", done[0], pair.diagnose());
    }
}

#[test]
fn neighbours_are_found_and_echoes_come_back_in_both_families() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (a, b) = (net(&pair.a), net(&pair.b));
        let here = || {
            for ipv6 in [false, true] {
                let peer = pair.b.ip(ipv6);
                assert_eq!(a.resolve(peer).unwrap(), pair.b.mac(), "{config}");
                for bytes in [0, 56, 1400] {
                    let took = a.ping(peer, bytes, LIMIT).unwrap();
                    assert!(took > Duration::ZERO && took < LIMIT, "{config}: {took:?}");
                }
            }
        };
        run(here, || a.poll().unwrap(), || (), || b.poll().unwrap());
        // Each knows the other from its question.
        assert_eq!(b.resolve(pair.a.ip(false)).unwrap(), pair.a.mac(), "{config}");
        assert_eq!(b.resolve(pair.a.ip(true)).unwrap(), pair.a.mac(), "{config}");
    }
}

#[test]
fn a_lost_answer_of_arp_is_asked_for_again_and_who_is_not_there_is_named() {
    let pair = pair("generic-8b");
    let answers = lose(&pair, 1, arp_reply);
    let config = Config { speed: 20 * SPEED, ..Config::default() };
    let a = Net::new(&pair.a.context, &pair.a.pd, config).unwrap();
    let b = net(&pair.b);
    let here = || {
        assert_eq!(a.resolve(pair.b.ip(false)).unwrap(), pair.b.mac());
        let error = a.resolve([10, 0, 0, 77].into()).unwrap_err();
        assert!(matches!(error, Error::Unresolved { tries: 6, .. }), "{error}");
    };
    run(here, || a.poll().unwrap(), || (), || b.poll().unwrap());
    assert!(answers.load(Ordering::Relaxed) >= 2, "one was lost, and one was not");
}

/// Two queue pairs connect by a stream, with or without the wish of selective retransmission at each end, and one writes to the other.
fn exchange_and_write(config: &str, ipv6: bool, wishes: [bool; 2]) {
    let pair = pair(config);
    let (a, b) = (net(&pair.a), net(&pair.b));
    let (from, to) = (Memory::source(&pair.a), Memory::target(&pair.b));
    let end = |node: &Node, memory: RemoteAddress| LocalEnd {
        qpn: 0,
        psn: node.context.random_psn().unwrap(),
        ip: node.ip(ipv6),
        memory,
        bytes: BYTES as u64,
        path_mtu: if node.card == 0 { PathMtu::B4096 } else { PathMtu::B1024 },
        rd_atomic: 0,
        selective: 0,
    };
    let options = wishes.map(|selective| RcOptions { selective, ..RcOptions::default() });
    // A completion queue is one thread's: what needs it is made before.
    let (qp, local) = (queue_pair(&pair.b), end(&pair.b, to.remote()));
    let (b_net, options_there) = (&b, &options[1]);
    let there = move || {
        let mut stream = TcpListener::bind(b_net, 18515).unwrap().accept(LIMIT).unwrap();
        stream.set_timeout(LIMIT);
        let way = |ip| b_net.address_vector(ip);
        connect_exchange(&mut stream, qp, &local, options_there, way).unwrap()
    };
    let here = || {
        let peer = SocketAddr::new(pair.b.ip(ipv6), 18515);
        let mut stream = TcpStream::connect(&a, peer, LIMIT).unwrap();
        stream.set_timeout(LIMIT);
        let local = end(&pair.a, RemoteAddress { address: 0, rkey: 0 });
        let way = |ip| a.address_vector(ip);
        connect_exchange(&mut stream, queue_pair(&pair.a), &local, &options[0], way).unwrap()
    };
    let (here, there) = run(here, || a.poll().unwrap(), there, || b.poll().unwrap());
    let ((mut qp, remote), (other, back)) = (here, there);
    assert_eq!((remote.qpn, back.qpn), (other.number(), qp.number()), "{config}");
    assert_eq!((remote.memory, remote.bytes, remote.ip), (to.remote(), BYTES as u64, pair.b.ip(ipv6)));
    let version = u8::from(wishes == [true; 2]) * SELECTIVE;
    assert_eq!([remote.selective, back.selective], [version; 2], "{wishes:?}");
    let again = if config == EMULATED { lose_one_write(&pair) } else { Arc::default() };
    from.write(&pair, &pair.a, &mut qp, remote.memory);
    assert!(bytes(to.region.memory()) == bytes(from.region.memory()), "{config}");
    assert_eq!(again.load(Ordering::Relaxed) > 0, version > 0, "{wishes:?}");
}

/// The first packet in the middle of a WRITE of card 0 vanishes; how many packets are marked as sent again.
fn lose_one_write(pair: &Pair) -> Arc<AtomicU32> {
    let again = Arc::new(AtomicU32::new(0));
    let (count, mut lost) = (Arc::clone(&again), false);
    let filter = move |frame: &[u8]| {
        let Ok(packet) = Frame::parse(frame) else { return vec![frame.to_vec()] };
        count.fetch_add(u32::from(!packet.bth.migreq), Ordering::Relaxed);
        let loses = !lost && packet.bth.opcode == Opcode::RcWriteMiddle.code();
        lost |= loses;
        if loses {
            return Vec::new();
        }
        vec![frame.to_vec()]
    };
    pair.world.lock().link_mut(0).set_filter(Some(Box::new(filter)));
    again
}

#[test]
fn queue_pairs_whose_ends_were_exchanged_over_tcp_write() {
    for (config, ipv6) in chosen!([("generic-8b", true), ("generic-64b", false)]) {
        exchange_and_write(config, ipv6, [false; 2]);
    }
}

#[test]
fn queue_pairs_whose_ends_were_exchanged_retransmit_selectively_if_both_wish_it() {
    for wishes in [[true, true], [true, false], [false, true]] {
        exchange_and_write(EMULATED, false, wishes);
    }
}

#[test]
fn the_wish_of_selective_retransmission_is_an_error_at_a_card_that_does_not_have_it() {
    let pair = pair("generic-8b");
    let options = RcOptions { selective: true, ..RcOptions::default() };
    let local = LocalEnd {
        qpn: 0,
        psn: pair.a.context.random_psn().unwrap(),
        ip: pair.a.ip(false),
        memory: RemoteAddress { address: 0, rkey: 0 },
        bytes: 0,
        path_mtu: PathMtu::B1024,
        rd_atomic: 0,
        selective: 0,
    };
    // Nothing is said to the peer before.
    let mut stream = std::io::Cursor::new(Vec::new());
    let way = |_| panic!("no way is looked for");
    let error = connect_exchange(&mut stream, queue_pair(&pair.a), &local, &options, way).unwrap_err();
    assert!(matches!(error, Error::NoSelective { .. }), "{error}");
    assert!(stream.into_inner().is_empty());
}

#[test]
fn a_stream_passes_where_few_frames_wait_in_the_cards_memory() {
    let pair = pair("generic-8b");
    let config = Config { speed: SPEED, frames: 2, ..Config::default() };
    let a = Net::new(&pair.a.context, &pair.a.pd, config).unwrap();
    let b = net(&pair.b);
    let data: Vec<u8> = (0..40_000usize).map(|i| (i * 5 + i / 256) as u8).collect();
    let there = || {
        let mut stream = TcpListener::bind(&b, 18515).unwrap().accept(LIMIT).unwrap();
        stream.set_timeout(LIMIT);
        let mut came = vec![0; data.len()];
        stream.read_exact(&mut came).unwrap();
        assert!(came == data);
    };
    let here = || {
        let mut stream = TcpStream::connect(&a, SocketAddr::new(pair.b.ip(true), 18515), LIMIT).unwrap();
        stream.set_timeout(LIMIT);
        stream.write_all(&data).unwrap();
        stream.flush().unwrap();
    };
    run(here, || a.poll().unwrap(), there, || b.poll().unwrap());
}

/// A manager on each card.
fn managers(pair: &Pair) -> (Cm, Cm) {
    let cm = |node: &Node| Cm::new(&node.context, &node.pd, &net(node), TIMING).unwrap();
    (cm(&pair.a), cm(&pair.b))
}

/// Address and key of a memory, as private data.
fn told(remote: RemoteAddress) -> Vec<u8> {
    [&remote.address.to_be_bytes()[..], &remote.rkey.to_be_bytes()].concat()
}

/// A connection through both managers, a WRITE, and its end.
fn connect_write_disconnect(pair: &Pair, ipv6: bool) {
    let (a, b) = managers(pair);
    let (from, to) = (Memory::source(&pair.a), Memory::target(&pair.b));
    let options = CmOptions { path_mtu: PathMtu::B2048, ..CmOptions::default() };
    // A completion queue is one thread's: what needs it is made before.
    let (qp, peer_of_b) = (queue_pair(&pair.b), pair.a.ip(ipv6));
    let answer = CmOptions { private_data: told(to.remote()), ..options.clone() };
    let manager = &b;
    let there = move || {
        let listener = manager.listen(7471).unwrap();
        assert!(matches!(manager.listen(7471), Err(Error::PortInUse(7471))));
        let request = listener.accept(LIMIT).unwrap();
        assert_eq!((request.peer(), &request.private_data()[..3]), (peer_of_b, &b"hey"[..]));
        let connection = request.accept(qp, &answer, LIMIT).unwrap();
        connection.wait_disconnected(LIMIT).unwrap();
        assert!(!connection.is_connected().unwrap());
    };
    let here = || {
        let peer = SocketAddr::new(pair.b.ip(ipv6), 7471);
        let options = CmOptions { private_data: b"hey".to_vec(), ..options.clone() };
        let mut connection = a.connect(peer, queue_pair(&pair.a), &options, LIMIT).unwrap();
        assert!(connection.is_connected().unwrap());
        let data = connection.private_data();
        let remote = RemoteAddress {
            address: u64::from_be_bytes(data[..8].try_into().unwrap()),
            rkey: u32::from_be_bytes(data[8..12].try_into().unwrap()),
        };
        from.write(pair, &pair.a, connection.qp(), remote);
        connection.disconnect(LIMIT).unwrap();
    };
    run(here, || a.poll().unwrap(), there, || b.poll().unwrap());
    assert!(bytes(to.region.memory()) == bytes(from.region.memory()));
}

#[test]
fn queue_pairs_connected_by_the_communication_manager_write_and_part() {
    connect_write_disconnect(&pair("generic-8b"), true);
    connect_write_disconnect(&pair("generic-64b"), false);
}

#[test]
fn a_lost_answer_of_the_communication_manager_is_sent_again() {
    let pair = pair("generic-8b");
    let answers = lose(&pair, 1, mad::<0x13>);
    connect_write_disconnect(&pair, false);
    assert!(answers.load(Ordering::Relaxed) >= 2, "one was lost, and one was not");
}

/// What cards say on the wire: messages of the manager, and PSNs of requests.
#[derive(Default)]
struct Heard {
    mads: Vec<Message>,
    psns: Vec<u32>,
}

/// Listens to a card, whose RTUs vanish.
fn hear(pair: &Pair, card: usize) -> Arc<Mutex<Heard>> {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let notes = Arc::clone(&heard);
    let filter = move |frame: &[u8]| {
        let mut notes = notes.lock().unwrap();
        // SEND only, of RC and of UD over IPv4.
        match (frame[12..14] == [8, 0] && frame[23] == 17).then(|| frame[42]) {
            Some(4) => notes.psns.push(u32::from_be_bytes([0, frame[51], frame[52], frame[53]])),
            Some(0x64) => {
                let message = Mad::parse(&frame[62..frame.len() - 4]).unwrap().message;
                notes.mads.push(message);
                if matches!(message, Message::Rtu(_)) {
                    return Vec::new();
                }
            }
            _ => {}
        }
        vec![frame.to_vec()]
    };
    pair.world.lock().link_mut(card).set_filter(Some(Box::new(filter)));
    heard
}

/// The asker's word is lost, again and again; what it sends says the same.
#[test]
fn who_answers_hears_that_the_asker_is_ready_from_what_it_sends_and_each_begins_with_the_psn_told() {
    const BYTES: u32 = 16;
    let pair = pair("generic-8b");
    let heard = [0, 1].map(|card| hear(&pair, card));
    let (a, b) = managers(&pair);
    let region = |node: &Node| node.region(7, 2 * BYTES as usize, AccessFlags::LOCAL_WRITE).unwrap();
    let (here_region, there_region) = (region(&pair.a), region(&pair.b));
    let with_receive = |node: &Node, region: &MemoryRegion| {
        let mut qp = queue_pair(node);
        qp.start_post_recv().post(&RecvWr::new(1, &[region.sge(0, BYTES)])).unwrap();
        qp
    };
    there_region.memory().write(BYTES as usize, b"who has answered");
    let (qp, sges, manager) = (with_receive(&pair.b, &there_region), [there_region.sge(16, BYTES)], &b);
    let peer = SocketAddr::new(pair.a.ip(false), 7471);
    let there = move || {
        let mut connection = manager.connect(peer, qp, &CmOptions::default(), LIMIT).unwrap();
        post(connection.qp(), &[SendWr::send(2, &sges).signaled()]);
        connection.wait_disconnected(LIMIT).unwrap();
    };
    let here = || {
        let request = a.listen(7471).unwrap().accept(LIMIT).unwrap();
        let mut connection =
            request.answer(with_receive(&pair.a, &here_region), &CmOptions::default()).unwrap();
        assert!(connection.state().unwrap() == Some(State::RepSent) && !connection.is_connected().unwrap());
        let mut done = [Completion::default()];
        let mut complete = |wr_id: u64| {
            while pair.a.cq.poll(&mut done).unwrap() == 0 {
                a.poll().unwrap();
            }
            assert!(done[0].is_success() && done[0].wr_id() == wr_id, "{done:?}{}", pair.diagnose());
        };
        complete(1);
        connection.communication_established();
        assert!(connection.is_connected().unwrap());
        assert_eq!(&bytes(here_region.memory())[..BYTES as usize], b"who has answered");
        post(connection.qp(), &[SendWr::send(2, &[here_region.sge(0, BYTES)]).signaled()]);
        complete(2);
        connection.disconnect(LIMIT).unwrap();
    };
    run(here, || a.poll().unwrap(), there, || b.poll().unwrap());
    let [here, there] = heard.map(|heard| std::mem::take(&mut *heard.lock().unwrap()));
    let rep = here.mads.iter().find_map(|mad| if let Message::Rep(rep) = mad { Some(rep) } else { None });
    let req = there.mads.iter().find_map(|mad| if let Message::Req(req) = mad { Some(req) } else { None });
    let (rep, req) = (rep.unwrap(), req.unwrap());
    assert_ne!(rep.starting_psn, req.starting_psn);
    assert_eq!((here.psns, there.psns), (vec![req.starting_psn], vec![rep.starting_psn]));
    assert!(there.mads.iter().any(|mad| matches!(mad, Message::Rtu(_))), "it was said, and lost");
}

#[test]
fn a_wait_ends_when_the_program_is_to_end() {
    static ENDS: AtomicBool = AtomicBool::new(false);
    let pair = pair("generic-8b");
    let config = Config { speed: SPEED, stop: || ENDS.load(Ordering::Relaxed), ..Config::default() };
    let net = Net::new(&pair.a.context, &pair.a.pd, config).unwrap();
    let cm = Cm::new(&pair.a.context, &pair.a.pd, &net, TIMING).unwrap();
    let listener = cm.listen(7471).unwrap();
    let waited = listener.accept(Duration::from_millis(10)).map(drop);
    assert!(matches!(waited, Err(Error::Timeout { .. })), "{waited:?}");
    ENDS.store(true, Ordering::Relaxed);
    let nobody = [10, 0, 0, 77].into();
    let peer = SocketAddr::new(nobody, 7471);
    let connected = cm.connect(peer, queue_pair(&pair.a), &CmOptions::default(), LIMIT).map(drop);
    for waited in [listener.accept(LIMIT).map(drop), net.resolve(nobody).map(drop), connected] {
        assert!(matches!(waited, Err(Error::Stopped)), "{waited:?}");
    }
}

#[test]
fn who_asks_where_nobody_listens_or_is_not_wanted_is_told_so() {
    let pair = pair("generic-8b");
    let (a, b) = managers(&pair);
    let there = || {
        let listener = b.listen(7471).unwrap();
        listener.accept(LIMIT).unwrap().reject(RejectReason::Consumer, b"no").unwrap();
    };
    let here = || {
        for (port, reason) in [(7472, RejectReason::InvalidServiceId), (7471, RejectReason::Consumer)] {
            let peer = SocketAddr::new(pair.b.ip(false), port);
            let asked = a.connect(peer, queue_pair(&pair.a), &CmOptions::default(), LIMIT);
            let error = asked.unwrap_err();
            assert!(matches!(&error, Error::Rejected { reason: why, .. } if *why == reason), "{error}");
        }
    };
    run(here, || a.poll().unwrap(), there, || b.poll().unwrap());
}
