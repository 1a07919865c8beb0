// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic class and VLAN tag of the address vector, in every kind of packet that a connection sends, and of the address handle in
//! datagrams.

use crate::tier::chosen;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use ferrowire::{AccessFlags, AddressHandle, CongestionControl, QueuePair, RecvWr, SendOp, SendWr};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::pair::{Connection, Pair, PairOptions};
use ferrowire_sim::wire::{mark_congestion, SentFrame};
use ferrowire_spec::wire::frame::{Frame, Ip};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::Opcode;

const CONFIGS: [&str; 2] = ["generic-8b", "generic-64b"];

/// Cycles for what the test waits for.
const LIMIT: u64 = 300_000;

/// Tags and traffic classes: a VLAN, a priority alone, neither. No two are alike in any bit field.
const WAYS: [(Option<u16>, u8); 4] = [(Some(0x6123), 0x68), (Some(0xa000), 0xb9), (None, 0x12), (None, 0)];

/// Tag and traffic class of a frame, and the addresses.
fn class(frame: &Frame<'_>) -> (Option<u16>, u8, std::net::IpAddr) {
    let tci = frame.vlan.map(|tag| tag.tci());
    match &frame.ip {
        Ip::V4(ip) => (tci, ip.dscp << 2 | ip.ecn, Ipv4Addr::from(ip.src).into()),
        Ip::V6(ip) => (tci, ip.dscp << 2 | ip.ecn, Ipv6Addr::from(ip.src).into()),
    }
}

#[test]
fn requests_answers_and_notifications_have_tag_and_traffic_class_of_their_queue_pair() {
    for (config, ipv6) in chosen!(CONFIGS).into_iter().flat_map(|config| [(config, false), (config, true)]) {
        let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
        let pair = Pair::new(&model, &PairOptions::default()).unwrap();
        // Both ends are told of congestion at once, and often.
        let often = CongestionControl { cnp_interval_us: 1, ..CongestionControl::default() };
        for node in [&pair.a, &pair.b] {
            node.context.set_congestion_control(&often).unwrap();
            for (vlan, _) in WAYS {
                node.context.add_gid(node.ip(ipv6), vlan).unwrap();
            }
        }
        let all = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let (there, here) = (pair.b.region(0, 65536, all).unwrap(), pair.a.region(0, 65536, all).unwrap());
        let mut qps: Vec<_> = WAYS
            .map(|(vlan, traffic_class)| {
                let connection = Connection {
                    ipv6,
                    vlan,
                    traffic_class,
                    access: AccessFlags::REMOTE,
                    rd_atomic: 4,
                    signal_all: true,
                    ..Connection::default()
                };
                pair.connect(&connection).unwrap()
            })
            .into();
        {
            let mut world = pair.world.lock();
            for link in [0, 1] {
                world.link_mut(link).keep_frames(true);
                world.link_mut(link).set_filter(Some(Box::new(|frame| {
                    let mut frame = frame.to_vec();
                    mark_congestion(&mut frame);
                    vec![frame]
                })));
            }
        }
        // What a packet to a queue pair must look like.
        let mut wanted: [BTreeMap<u32, (Option<u16>, u8)>; 2] = Default::default();
        for ((qp, peer), way) in qps.iter().zip(WAYS) {
            wanted[0].insert(peer.number(), way);
            wanted[1].insert(qp.number(), way);
        }
        let mut posted = 0;
        for round in 0..3 {
            for (i, (qp, peer)) in qps.iter_mut().enumerate() {
                let sge = [there.sge(60_000 + 64 * i, 64)];
                let mut receives = peer.start_post_recv();
                receives.post(&RecvWr::new(1, &sge)).unwrap();
                receives.ring().unwrap();
                let at = 8192 * i;
                let long = [here.sge(at, 3000)];
                let word = [here.sge(at, 8)];
                let short = [here.sge(at, 50)];
                let mut batch = qp.start_post_send();
                for (op, sge) in [
                    (SendOp::Write { remote: there.remote(at) }, &long),
                    (SendOp::Read { remote: there.remote(at) }, &long),
                    (SendOp::Send, &short),
                    (SendOp::FetchAdd { remote: there.remote(at), add: round }, &word),
                    (SendOp::Write { remote: there.remote(at) }, &short),
                    (SendOp::Read { remote: there.remote(at) }, &short),
                ] {
                    batch.post(&SendWr::new(posted, op, sge)).unwrap();
                    posted += 1;
                }
                batch.ring().unwrap();
            }
            let done = pair.a.wait(&pair.world, 6 * WAYS.len(), LIMIT);
            let done = done.unwrap_or_else(|error| panic!("{config}: {error}{}", pair.diagnose()));
            assert!(done.iter().all(|done| done.is_success()), "{config}: {done:?}");
        }
        pair.world.lock().run(2000);
        for (link, node) in [(0, &pair.a), (1, &pair.b)] {
            let frames: Vec<SentFrame> = pair.world.lock().link_mut(link).take_frames();
            let mut seen: BTreeMap<u32, BTreeSet<Opcode>> = BTreeMap::new();
            for sent in &frames {
                let frame = Frame::parse(&sent.bytes).unwrap();
                let opcode = frame.opcode().unwrap();
                let (tci, class, src) = class(&frame);
                let way = wanted[link][&frame.bth.destqp];
                assert_eq!((tci, class), way, "{config}: {opcode} over link {link}");
                assert_eq!(src, node.ip(ipv6), "{config}: {opcode}");
                seen.entry(frame.bth.destqp).or_default().insert(opcode);
            }
            use Opcode::*;
            let kinds = match link {
                0 => vec![
                    RcWriteFirst,
                    RcWriteMiddle,
                    RcWriteLast,
                    RcWriteOnly,
                    RcSendOnly,
                    RcReadRequest,
                    RcFetchAdd,
                ],
                _ => vec![
                    RcAcknowledge,
                    RcReadResponseFirst,
                    RcReadResponseMiddle,
                    RcReadResponseLast,
                    RcReadResponseOnly,
                    RcAtomicAcknowledge,
                    Cnp,
                ],
            };
            for qpn in wanted[link].keys() {
                let missing: Vec<&Opcode> = kinds.iter().filter(|kind| !seen[qpn].contains(kind)).collect();
                assert!(missing.is_empty(), "{config}, queue pair {qpn}: no {missing:?}");
            }
        }
    }
}

/// The traffic class in what is put before a datagram (IBTA A17.4.5.2).
fn class_before(datagram: &[u8], ipv6: bool) -> u8 {
    match ipv6 {
        true => datagram[0] << 4 | datagram[1] >> 4,
        false => datagram[21],
    }
}

#[test]
fn unreliable_packets_have_tag_and_traffic_class_of_their_queue_pair_or_of_their_handle() {
    const LONG: u32 = 3000;
    const GRH: usize = 40;
    for (config, ipv6) in chosen!(CONFIGS).into_iter().flat_map(|config| [(config, false), (config, true)]) {
        let model = CardModel::rnic(&RnicConfig::named(config).unwrap(), false).unwrap();
        let pair = Pair::new(&model, &PairOptions::default()).unwrap();
        for node in [&pair.a, &pair.b] {
            for (vlan, _) in WAYS {
                node.context.add_gid(node.ip(ipv6), vlan).unwrap();
            }
        }
        let all = AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let (here, there) = (pair.a.region(0, 65536, all).unwrap(), pair.b.region(0, 65536, all).unwrap());
        let of = |service, (vlan, traffic_class)| Connection {
            service,
            ipv6,
            vlan,
            traffic_class,
            signal_all: true,
            ..Connection::default()
        };
        let mut connected: Vec<_> =
            WAYS.map(|way| pair.connect(&of(Service::Uc, way)).unwrap()).into_iter().collect();
        // One for all ways, each of which has its handle.
        let (mut qp, mut peer) = pair.connect(&of(Service::Ud, WAYS[0])).unwrap();
        let handles: Vec<AddressHandle> = WAYS
            .map(|way| pair.a.pd.create_ah(&pair.a.way(&pair.b, &of(Service::Ud, way))).unwrap())
            .into_iter()
            .collect();
        pair.world.lock().link_mut(0).keep_frames(true);
        let receive = |peer: &mut QueuePair, id: usize| {
            let sges = [there.sge(32_768 + id * 4096, 4096)];
            peer.start_post_recv().post(&RecvWr::new(id as u64, &sges)).unwrap();
        };
        for round in 0..3 {
            for (i, (qp, peer)) in connected.iter_mut().enumerate() {
                (0..3).for_each(|_| receive(peer, i));
                let (long, short) = ([here.sge(i * 4096, LONG)], [here.sge(i * 4096, 50)]);
                let remote = there.remote(i * 4096);
                let mut batch = qp.start_post_send();
                for (op, sge) in [
                    (SendOp::Write { remote }, &long),
                    (SendOp::Send, &short),
                    (SendOp::WriteImm { remote, imm: round }, &short),
                    (SendOp::Write { remote }, &short),
                    (SendOp::SendImm { imm: round }, &long),
                ] {
                    batch.post(&SendWr::new(0, op, sge)).unwrap();
                }
                batch.ring().unwrap();
            }
            // In turns, and each way's with and without an immediate.
            let ways: Vec<usize> = (0..8).map(|n| (n * 3 + round as usize) % WAYS.len()).collect();
            let mut batch = qp.start_post_send();
            for way in &ways {
                receive(&mut peer, *way);
                let sges = [here.sge(way * 4096, 1000 + *way as u32)];
                let op = if round == 1 { SendOp::SendImm { imm: 7 } } else { SendOp::Send };
                batch.post(&SendWr::new(0, op, &sges).to(&handles[*way], peer.number(), 1 << 31)).unwrap();
            }
            batch.ring().unwrap();
            for (node, count) in [(&pair.a, 5 * WAYS.len() + 8), (&pair.b, 3 * WAYS.len() + 8)] {
                let done = node.wait(&pair.world, count, LIMIT);
                let done = done.unwrap_or_else(|error| panic!("{config}: {error}{}", pair.diagnose()));
                assert!(done.iter().all(|done| done.is_success()), "{config}: {done:?}");
                for done in done.iter().filter(|done| done.qpn() == peer.number() && done.src_qpn().is_some())
                {
                    let way = done.wr_id() as usize;
                    let mut grh = [0; GRH];
                    there.memory().read(32_768 + way * 4096, &mut grh);
                    assert_eq!(done.byte_len() as usize, GRH + 1000 + way, "{config}");
                    assert_eq!(class_before(&grh, ipv6), WAYS[way].1, "{config}, way {way}");
                }
            }
        }
        let frames: Vec<SentFrame> = pair.world.lock().link_mut(0).take_frames();
        let mut seen: BTreeMap<usize, BTreeSet<Opcode>> = BTreeMap::new();
        for sent in &frames {
            let frame = Frame::parse(&sent.bytes).unwrap();
            let opcode = frame.opcode().unwrap();
            let (tci, class, src) = class(&frame);
            let way = match connected.iter().position(|(_, peer)| peer.number() == frame.bth.destqp) {
                Some(way) => way,
                // The length of a datagram tells which it is.
                None => frame.payload.len() - 1000,
            };
            assert_eq!((tci, class), WAYS[way], "{config}: {opcode}");
            assert_eq!(src, pair.a.ip(ipv6), "{config}: {opcode}");
            seen.entry(way).or_default().insert(opcode);
        }
        use Opcode::*;
        let kinds = [
            UcWriteFirst,
            UcWriteMiddle,
            UcWriteLast,
            UcWriteOnly,
            UcWriteOnlyImm,
            UcSendOnly,
            UcSendFirst,
            UcSendMiddle,
            UcSendLastImm,
            UdSendOnly,
            UdSendOnlyImm,
        ];
        for way in 0..WAYS.len() {
            let missing: Vec<&Opcode> = kinds.iter().filter(|kind| !seen[&way].contains(kind)).collect();
            assert!(missing.is_empty(), "{config}, way {way}: no {missing:?}");
        }
    }
}
