// SPDX-License-Identifier: MIT OR Apache-2.0
//! The raw Ethernet queue pair: whole frames of everything that is not RoCE, in both directions, beside RoCE.

use crate::tier::chosen;
use ferrowire::{
    AccessFlags, Completion, DropReason, Error, InitAttributes, LocalCause, MemoryRegion, Payload,
    QpAttributes, QpInitAttr, QpState, QueuePair, RawFilter, RecvWr, RemoteAddress, RtrAttributes,
    RtsAttributes, SendWr, TrafficCounter, WcStatus,
};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::pair::{bytes, post, Connection, Node, Pair, PairOptions, EMULATED};
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::wire::{eth, Bth, Deth, Eth, Frame, Ip, Ipv4, Opcode};

const CONFIGS: [&str; 3] = ["generic-8b", "generic-64b", EMULATED];
const LIMIT: u64 = 200_000;
const PLACE: usize = 4096;
const RECEIVES: u32 = 64;
const BROADCAST: [u8; 6] = [0xff; 6];

fn pair(config: &str) -> Pair {
    Pair::named(config, &PairOptions::default()).unwrap()
}

/// A card's raw Ethernet queue pair, with a place for each receive.
struct Port<'a> {
    pair: &'a Pair,
    node: Node,
    qp: QueuePair,
    inbox: MemoryRegion,
    out: MemoryRegion,
    posted: u64,
}

impl<'a> Port<'a> {
    fn new(pair: &'a Pair, node: &'a Node) -> Self {
        let cq = node.context.create_cq(256).unwrap();
        let mut attr = QpInitAttr::raw(&cq, &cq);
        (attr.max_send_sge, attr.max_inline, attr.max_recv_wr, attr.max_recv_sge) = (4, 208, RECEIVES, 2);
        let qp = node.pd.create_qp(&attr).unwrap();
        assert_eq!(qp.number(), RAW_QPN);
        let qp = qp.init(InitAttributes::default()).unwrap();
        let qp = qp.rtr(RtrAttributes::default()).unwrap().rts(RtsAttributes::default()).unwrap();
        let inbox = node.region(5, RECEIVES as usize * PLACE, AccessFlags::LOCAL_WRITE).unwrap();
        let out = node.region(3, 8 * PLACE, AccessFlags::LOCAL_READ).unwrap();
        let node =
            Node { card: node.card, cq: cq.into(), pd: node.pd.clone(), context: node.context.clone() };
        Self { pair, node, qp, inbox, out, posted: 0 }
    }

    /// Posts a receive of `length` bytes in two parts.
    fn receive_into(&mut self, length: usize) {
        let at = (self.posted % u64::from(RECEIVES)) as usize * PLACE;
        let head = length.min(18);
        let sges = [self.inbox.sge(at, head as u32), self.inbox.sge(at + head, (length - head) as u32)];
        self.qp
            .start_post_recv()
            .post(&RecvWr::new(self.posted, &sges[..1 + usize::from(length > head)]))
            .unwrap();
        self.posted += 1;
    }

    #[track_caller]
    fn wait(&self, count: usize) -> Vec<Completion> {
        match self.node.wait(&self.pair.world, count, LIMIT) {
            Ok(done) => done,
            Err(error) => panic!("{error}{}", self.pair.diagnose()),
        }
    }

    /// The frame that a completion tells of.
    fn frame(&self, done: &Completion) -> Vec<u8> {
        assert!(done.is_success() && done.src_qpn().is_none() && done.imm().is_none(), "{done:?}");
        assert!(!done.solicited(), "a frame has no such bit: {done:?}");
        let at = (done.wr_id() % u64::from(RECEIVES)) as usize * PLACE;
        bytes(&self.inbox.memory().slice(at, done.byte_len() as usize))
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.node.context.drop_counter(reason).unwrap()
    }

    /// A counter when nothing is left to be added: it lags by a sweep of the counter memory (`host::csr`).
    fn traffic(&self, counter: TrafficCounter) -> u64 {
        self.pair.world.lock().run(200);
        self.node.context.traffic_counter(counter).unwrap()
    }
}

/// A frame of so many bytes that is not RoCE.
fn frame(dst: [u8; 6], length: usize, seed: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|i| (i * 29 + i / 256 + 101 * seed) as u8).collect();
    bytes[..6].copy_from_slice(&dst);
    bytes[12..14].copy_from_slice(&[0x08, 0x06]);
    bytes
}

#[test]
fn frames_of_every_length_pass_as_they_are_beside_writes() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (mut a, mut b) = (Port::new(&pair, &pair.a), Port::new(&pair, &pair.b));
        b.node.context.set_raw_filter(&RawFilter::port()).unwrap();
        a.node.context.set_raw_filter(&RawFilter::port()).unwrap();
        let (mut writer, _reader) = pair.connect(&Connection::default()).unwrap();
        let from = pair.a.region(1, 8 * PLACE, AccessFlags::LOCAL_READ).unwrap();
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        let to = pair.b.region(2, 8 * PLACE, access).unwrap();
        from.memory().write(0, &frame([7; 6], 8 * PLACE, 77));
        let lengths: Vec<usize> = (14..84).chain([127, 128, 129, 1514, 1518, 4095, 4096]).collect();
        for (round, four) in lengths.chunks(4).enumerate() {
            let remote = RemoteAddress { address: to.address(), rkey: to.rkey() };
            let sges = [from.sge(0, (8 * PLACE) as u32)];
            post(&mut writer, &[SendWr::write(9, &sges, remote).signaled()]);
            for there in [true, false] {
                let (sender, receiver) = if there { (&mut a, &mut b) } else { (&mut b, &mut a) };
                let mac = if round % 2 == 0 { receiver.node.mac() } else { BROADCAST };
                let frames: Vec<_> = four.iter().map(|n| frame(mac, *n, *n + usize::from(there))).collect();
                for (i, bytes) in frames.iter().enumerate() {
                    receiver.receive_into(PLACE);
                    sender.out.memory().write(i * PLACE, bytes);
                    let (at, n) = (i * PLACE, bytes.len());
                    // In three pieces, in one, or in the work request itself.
                    let pieces = [
                        sender.out.sge(at, 5),
                        sender.out.sge(at + 5, 8),
                        sender.out.sge(at + 13, (n - 13) as u32),
                    ];
                    let whole = [sender.out.sge(at, n as u32)];
                    let id = i as u64;
                    let wr = match (i % 3, n <= 208) {
                        (0, true) => SendWr::send(id, Payload::Inline(bytes)),
                        (1, _) => SendWr::send(id, &pieces),
                        _ => SendWr::send(id, &whole),
                    };
                    post(&mut sender.qp, &[wr.signaled()]);
                }
                let sent = sender.wait(frames.len());
                assert!(sent.iter().all(Completion::is_success), "{config}: {sent:?}");
                let came: Vec<_> =
                    receiver.wait(frames.len()).iter().map(|done| receiver.frame(done)).collect();
                assert!(came == frames, "{config}: frames of {four:?} bytes");
            }
            assert!(pair.a.wait(&pair.world, 1, LIMIT).unwrap()[0].is_success());
            // What is acknowledged may be on its way to memory yet, behind PCIe.
            pair.world.lock().run(1000);
            assert!(bytes(to.memory()) == bytes(from.memory()), "{config}: the WRITE beside them");
            to.memory().fill(0, 8 * PLACE, 0);
        }
        let n = lengths.len() as u64;
        for port in [&a, &b] {
            assert_eq!(port.traffic(TrafficCounter::RxRaw), n, "{config}");
            assert_eq!(port.traffic(TrafficCounter::TxRaw), n, "{config}");
            let all = [TrafficCounter::TxFrames, TrafficCounter::RxFrames].map(|c| port.traffic(c));
            let roce = [TrafficCounter::TxRoce, TrafficCounter::RxRoce].map(|c| port.traffic(c));
            assert_eq!(all, roce.map(|roce| roce + n), "{config}");
            assert!(DropReason::ALL.iter().all(|reason| port.drops(*reason) == 0), "{config}");
        }
    }
}

#[test]
fn the_filter_decides_which_frames_come_and_opening_the_card_clears_it() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let mut b = Port::new(&pair, &pair.b);
        let own = b.node.mac();
        let other = [2, 0xaa, 1, 2, 3, 4];
        let groups = [[0x33, 0x33, 0xff, 0, 0, 2], [1, 0, 0x5e, 0, 0, 1]];
        // Of the filter's four kinds, whose frames come.
        let none = RawFilter::default();
        let filters = [
            (none.clone(), false, [false, false, false, false, false]),
            (RawFilter { unicast: true, ..none.clone() }, false, [true, false, false, false, false]),
            (RawFilter { broadcast: true, ..none.clone() }, false, [false, false, true, false, false]),
            (RawFilter { multicast: true, ..none.clone() }, false, [false, false, false, true, true]),
            (
                RawFilter { groups: vec![groups[1]], ..none.clone() },
                false,
                [false, false, false, false, true],
            ),
            (RawFilter { unicast: true, ..none.clone() }, true, [true; 5]),
            (RawFilter::port(), false, [true, false, true, true, true]),
        ];
        for (filter, promiscuous, comes) in filters {
            b.node.context.set_raw_filter(&filter).unwrap();
            b.node.context.set_promiscuous(promiscuous).unwrap();
            let dropped = b.drops(DropReason::NotRoce);
            let frames: Vec<_> = [own, other, BROADCAST, groups[0], groups[1]]
                .into_iter()
                .enumerate()
                .map(|(i, to)| frame(to, 60 + i, i))
                .collect();
            let wanted: Vec<_> = frames
                .iter()
                .zip(comes)
                .filter(|(_, comes)| *comes)
                .map(|(frame, _)| frame.clone())
                .collect();
            wanted.iter().for_each(|_| b.receive_into(PLACE));
            frames.iter().for_each(|frame| pair.world.lock().inject(0, frame.clone()));
            pair.world.lock().run(3000);
            let came: Vec<_> = b.wait(wanted.len()).iter().map(|done| b.frame(done)).collect();
            assert!(came == wanted, "{config}: {filter:?}");
            let left = (frames.len() - wanted.len()) as u64;
            assert_eq!(b.drops(DropReason::NotRoce) - dropped, left, "{config}: {filter:?}");
        }
        let single = RawFilter { groups: vec![own], ..RawFilter::default() };
        let error = b.node.context.set_raw_filter(&single).unwrap_err();
        assert!(matches!(error, Error::Attribute { attribute: "groups", .. }), "{error}");
        drop(b);
        // A process that comes next hears nothing that it has not asked for.
        let bus = pair.bus(1);
        drop(pair.b);
        let next = ferrowire::Context::open(bus).unwrap();
        let dropped = next.drop_counter(DropReason::NotRoce).unwrap();
        let taken = next.traffic_counter(TrafficCounter::RxRaw).unwrap();
        pair.world.lock().inject(0, frame(own, 60, 1));
        pair.world.lock().run(3000);
        assert_eq!(next.drop_counter(DropReason::NotRoce).unwrap(), dropped + 1, "{config}");
        assert_eq!(next.traffic_counter(TrafficCounter::RxRaw).unwrap(), taken, "{config}");
    }
}

/// A datagram to this queue pair.
fn datagram(pair: &Pair, destqp: u32) -> Vec<u8> {
    let ip = |node: &Node| match node.ip(false) {
        std::net::IpAddr::V4(ip) => u32::from(ip),
        std::net::IpAddr::V6(_) => unreachable!("asked for the other"),
    };
    let mut frame = Frame {
        eth: Eth { dst: eth::mac_number(pair.b.mac()), src: eth::mac_number(pair.a.mac()), ethertype: 0 },
        ip: Ip::V4(Ipv4 { src: ip(&pair.a), dst: ip(&pair.b), ..Ipv4::default() }),
        bth: Bth { opcode: Opcode::UdSendOnly.code(), pkey: 0xffff, destqp, ..Bth::default() },
        payload: &[5; 64],
        ..Frame::default()
    };
    frame.ext.deth = Some(Deth { qkey: 0, srcqp: 5, ..Deth::default() });
    frame.seal().unwrap();
    let mut bytes = vec![0; frame.len()];
    frame.emit(&mut bytes).unwrap();
    bytes
}

#[test]
fn what_cannot_be_received_is_dropped_and_counted_and_the_next_frame_comes() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let mut b = Port::new(&pair, &pair.b);
        b.node.context.set_raw_filter(&RawFilter::port()).unwrap();
        let own = b.node.mac();
        let inject = |frame: Vec<u8>| {
            pair.world.lock().inject(0, frame);
            pair.world.lock().run(2000);
        };
        // Nobody waits for it.
        inject(frame(own, 60, 1));
        assert_eq!(b.drops(DropReason::NoReceive), 1, "{config}");
        // It is longer than its receive, which stays for the next; and longer than any may be.
        b.receive_into(100);
        inject(frame(own, 101, 2));
        assert_eq!(b.drops(DropReason::TooLong), 1, "{config}");
        inject(frame(own, 4097, 3));
        assert_eq!(b.drops(DropReason::NotRoce), 1, "{config}");
        inject(frame(own, 14, 4)[..13].to_vec());
        assert_eq!(b.drops(DropReason::Runt), 1, "{config}");
        // A RoCE packet is none of its business, whatever number it names.
        inject(datagram(&pair, RAW_QPN));
        assert_eq!(b.drops(DropReason::Service), 1, "{config}");
        // A fragment is: whoever puts it together knows what it is of.
        let mut fragment = datagram(&pair, 5);
        fragment[eth::BYTES + 6] = 0x20;
        let sum = ferrowire_spec::wire::checksum::ipv4(&{
            let mut header = fragment[eth::BYTES..eth::BYTES + 20].to_vec();
            header[10..12].fill(0);
            header
        });
        fragment[eth::BYTES + 10..eth::BYTES + 12].copy_from_slice(&sum.to_be_bytes());
        b.receive_into(PLACE);
        inject(frame(own, 100, 5));
        inject(fragment.clone());
        let came: Vec<_> = b.wait(2).iter().map(|done| b.frame(done)).collect();
        assert!(came == [frame(own, 100, 5), fragment], "{config}");
    }
}

#[test]
fn there_is_one_raw_queue_pair_and_it_sends_frames_alone() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let mut a = Port::new(&pair, &pair.a);
        let again = a.node.pd.create_qp(&QpInitAttr::raw(&a.node.cq, &a.node.cq));
        assert!(again.is_err(), "{config}: there is one");
        let text = [1; 13];
        for payload in [Payload::Inline(&text), Payload::Inline(&[])] {
            let error = a.qp.start_post_send().post(&SendWr::send(1, payload)).unwrap_err();
            assert!(matches!(error, Error::Attribute { attribute: "length", .. }), "{error}");
        }
        let long = [a.out.sge(0, 4097)];
        assert!(a.qp.start_post_send().post(&SendWr::send(1, &long)).is_err());
        // What is not SEND ends as a wrong opcode, and the queue goes on from SQE.
        let sges = [a.out.sge(0, 60)];
        let remote = RemoteAddress { address: 0, rkey: 0 };
        post(&mut a.qp, &[SendWr::write(1, &sges, remote).signaled()]);
        let done = a.wait(1);
        assert_eq!(done[0].cause(), Some(ferrowire::LocalCause::WqeOpcode), "{config}: {done:?}");
        assert_eq!(a.traffic(TrafficCounter::TxFrames), 0, "{config}");
        let Port { qp, node, .. } = a;
        qp.destroy().unwrap();
        node.pd.create_qp(&QpInitAttr::raw(&node.cq, &node.cq)).unwrap();
    }
}

#[test]
fn the_card_itself_answers_who_asks_for_its_addresses() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (mut a, b) = (Port::new(&pair, &pair.a), Port::new(&pair, &pair.b));
        for port in [&a, &b] {
            port.node.context.set_raw_filter(&RawFilter::port()).unwrap();
        }
        let (own, peer) = (a.node.mac(), b.node.mac());
        let v4 = |node: &Node| match node.ip(false) {
            std::net::IpAddr::V4(ip) => ip.octets(),
            std::net::IpAddr::V6(_) => unreachable!("asked for the other"),
        };
        let arp = |dst: [u8; 6], operation: u8, from: ([u8; 6], [u8; 4]), to: ([u8; 6], [u8; 4])| {
            let head = [&dst[..], &from.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
            [&head[..], &from.0, &from.1, &to.0, &to.1].concat()
        };
        let question = arp(BROADCAST, 1, (own, v4(&a.node)), ([0; 6], v4(&b.node)));
        let ask = |a: &mut Port<'_>| {
            a.out.memory().write(0, &question);
            a.receive_into(PLACE);
            post(&mut a.qp, &[SendWr::send(1, &[a.out.sge(0, question.len() as u32)]).signaled()]);
        };
        // It is its owner's affair, until the owner says otherwise.
        let mut b = b;
        b.receive_into(PLACE);
        ask(&mut a);
        let came = b.wait(1);
        assert!(a.wait(1)[0].is_success() && b.frame(&came[0]) == question, "{config}");
        let can = b.node.context.capabilities().neighbour_responder;
        let built = RnicConfig::named(config).is_ok_and(|config| config.neighbour_responder);
        assert_eq!(can, built, "{config}");
        if !can {
            let refused = b.node.context.set_neighbour_responder(true).unwrap_err();
            let wanted = matches!(&refused, Error::Attribute { attribute: "neighbour_responder", .. });
            assert!(wanted, "{refused}");
            continue;
        }
        b.node.context.set_neighbour_responder(true).unwrap();
        ask(&mut a);
        let done = a.wait(2);
        let answer = done.iter().find(|done| done.kind() == ferrowire::WorkKind::Receive).expect("an answer");
        let wanted = arp(own, 2, (peer, v4(&b.node)), (own, v4(&a.node)));
        assert!(a.frame(answer) == wanted, "{config}: {:02x?}", a.frame(answer));
        assert!(b.node.cq.poll(&mut [Completion::default()]).unwrap() == 0, "{config}: not the queue pair's");
        // An answer to b itself is its owner's.
        b.receive_into(PLACE);
        let reply = arp(peer, 2, (own, v4(&a.node)), (peer, v4(&b.node)));
        pair.world.lock().inject(0, reply.clone());
        let came = b.wait(1);
        assert!(b.frame(&came[0]) == reply, "{config}");
        // Nobody is answered for another's address.
        let other = arp(BROADCAST, 1, (own, v4(&a.node)), ([0; 6], [10, 9, 9, 9]));
        let sent = b.traffic(TrafficCounter::TxFrames);
        pair.world.lock().inject(0, other);
        pair.world.lock().run(3000);
        assert_eq!(b.traffic(TrafficCounter::TxFrames), sent, "{config}");
    }
}

/// A frame with a tag in front of its EtherType.
fn tagged(frame: &[u8], kind: [u8; 2]) -> Vec<u8> {
    [&frame[..12], &kind, &[0x20, 5], &frame[12..]].concat()
}

/// A UDP datagram to this port over IPv6, after such extension headers.
fn over_ipv6(dst: [u8; 6], port: u16, extensions: &[(u8, usize)]) -> Vec<u8> {
    let mut next = extensions.iter().skip(1).map(|(kind, _)| *kind).chain([17]);
    let mut bytes = [&dst[..], &[2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 80]].concat();
    bytes.push(extensions.first().map_or(17, |(kind, _)| *kind));
    bytes.resize(bytes.len() + 33, 64);
    for (kind, units) in extensions {
        let length = if *kind == 44 { 0 } else { *units as u8 };
        bytes.extend([next.next().unwrap(), length, 0, 0, 0, 0, 0, 0]);
        bytes.resize(bytes.len() + 8 * usize::from(length), 0);
    }
    bytes.extend([0, 99]);
    bytes.extend(port.to_be_bytes());
    bytes.resize(bytes.len() + 40, 7);
    bytes
}

/// The same over IPv4, with so many words of options and this offset and mark of a fragment.
fn over_ipv4(dst: [u8; 6], port: u16, options: usize, fragment: u16) -> Vec<u8> {
    let mut header = vec![0; 20 + 4 * options];
    (header[0], header[8], header[9]) = (0x45 + options as u8, 64, 17);
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    let sum = ferrowire_spec::wire::checksum::ipv4(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let head = [&dst[..], &[2, 0, 0, 0, 0, 9, 8, 0]].concat();
    let port = port.to_be_bytes();
    [&head[..], &header, &[0x12, 0xb7], &port, &[0, 40, 0, 0], &[3; 32]].concat()
}

#[test]
fn roce_of_the_raw_queue_pair_does_not_leave_unless_the_owner_of_the_card_allows_it() {
    for config in chosen!(CONFIGS) {
        let pair = pair(config);
        let (mut a, mut b) = (Port::new(&pair, &pair.a), Port::new(&pair, &pair.b));
        b.node.context.set_raw_filter(&RawFilter::port()).unwrap();
        let (mut writer, _reader) = pair.connect(&Connection::default()).unwrap();
        let from = pair.a.region(1, 4 * PLACE, AccessFlags::LOCAL_READ).unwrap();
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
        let to = pair.b.region(2, 4 * PLACE, access).unwrap();
        let dst = b.node.mac();
        let roce = datagram(&pair, 77);
        let bad = [
            roce.clone(),
            tagged(&roce, [0x81, 0]),
            tagged(&tagged(&roce, [0x81, 0]), [0x88, 0xa8]),
            tagged(&tagged(&tagged(&frame(dst, 60, 1), [0x81, 0]), [0x81, 0]), [0x88, 0xa8]),
            [&frame(dst, 60, 2)[..12], &[0x89, 0x15], &[9; 64]].concat(),
            over_ipv4(dst, 4791, 10, 0),
            over_ipv4(dst, 4791, 0, 0x2000),
            over_ipv6(dst, 4791, &[]),
            over_ipv6(dst, 4791, &[(0, 0), (60, 3), (44, 0)]),
        ];
        // Nothing of these is RoCE: another port, what is not the first fragment, what is not UDP.
        let mut tcp = over_ipv4(dst, 4791, 0, 0);
        tcp[eth::BYTES + 9] = 6;
        let good = [
            over_ipv4(dst, 4790, 15 - 5, 0),
            over_ipv4(dst, 4791, 0, 1),
            over_ipv6(dst, 53, &[(0, 0), (43, 1)]),
            tcp,
            frame(dst, 60, 3),
        ];
        // As pieces that cut the headers, and in the work request itself.
        let send = |a: &mut Port<'_>, id: u64, bytes: &[u8], inline: bool| {
            a.out.memory().write(0, bytes);
            let cuts = [13, 24.min(bytes.len()), bytes.len()];
            let mut at = 0;
            let pieces: Vec<_> = cuts
                .iter()
                .map(|end| {
                    let sge = a.out.sge(at, (end - at) as u32);
                    at = *end;
                    sge
                })
                .collect();
            let wr =
                if inline { SendWr::send(id, Payload::Inline(bytes)) } else { SendWr::send(id, &pieces[..]) };
            post(&mut a.qp, &[wr.signaled()]);
        };
        let ends = |a: &Port<'_>, n: usize| -> Vec<_> {
            a.wait(n)
                .iter()
                .map(|done| (done.wr_id(), done.status().known().unwrap(), done.cause()))
                .collect()
        };
        for (i, bytes) in bad.iter().enumerate() {
            let inline = i % 2 == 0 && bytes.len() <= 208;
            post(&mut writer, &[SendWr::write(9, &[from.sge(0, 4000)], to.remote(0)).signaled()]);
            send(&mut a, 1, &good[i % good.len()], false);
            b.receive_into(PLACE);
            assert_eq!(ends(&a, 1), [(1, WcStatus::Success, None)], "{config}, frame {i}");
            assert_eq!(b.frame(&b.wait(1)[0]), good[i % good.len()], "{config}, frame {i}");
            let sent = a.traffic(TrafficCounter::TxRaw);
            send(&mut a, 2, bytes, inline);
            // Later work requests are flushed, and not sent either.
            let bystander = frame(dst, 100, i);
            a.out.memory().write(PLACE, &bystander);
            let sges = [a.out.sge(PLACE, 100)];
            let wr = |id| SendWr::send(id, &sges).signaled();
            post(&mut a.qp, &[wr(3), wr(4)]);
            let flushed = |id| (id, WcStatus::WrFlushErr, None);
            let refused = (2, WcStatus::LocQpOpErr, Some(LocalCause::RawRoce));
            assert_eq!(ends(&a, 3), [refused, flushed(3), flushed(4)], "{config}, frame {i}");
            assert_eq!(a.qp.query().unwrap().state, QpState::Sqe, "{config}, frame {i}");
            pair.world.lock().run(3000);
            assert_eq!(a.traffic(TrafficCounter::TxRaw), sent, "{config}, frame {i}");
            assert_eq!(a.traffic(TrafficCounter::TxRawRefused), i as u64 + 1, "{config}, frame {i}");
            assert!(
                pair.a.wait(&pair.world, 1, LIMIT).unwrap()[0].is_success(),
                "{config}: the WRITE beside it"
            );
            a.qp.modify(QpState::Rts, &QpAttributes::default()).unwrap();
        }
        // With the right they leave; a RoCE packet is none of the other raw queue pair's business.
        a.node.context.set_raw_roce(true).unwrap();
        a.node.context.set_raw_filter(&RawFilter::port()).unwrap();
        let sent = a.traffic(TrafficCounter::TxRaw);
        for (i, bytes) in bad.iter().enumerate() {
            send(&mut a, 5, bytes, i % 2 == 1 && bytes.len() <= 208);
            assert_eq!(ends(&a, 1), [(5, WcStatus::Success, None)], "{config}, frame {i}");
        }
        pair.world.lock().run(3000);
        assert_eq!(a.traffic(TrafficCounter::TxRaw), sent + bad.len() as u64, "{config}");
        a.node.context.set_raw_roce(false).unwrap();
        send(&mut a, 6, &bad[0], true);
        let refused = (6, WcStatus::LocQpOpErr, Some(LocalCause::RawRoce));
        assert_eq!(ends(&a, 1), [refused], "{config}");
    }
}
