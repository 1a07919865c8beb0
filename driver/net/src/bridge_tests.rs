// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bridge between a link and an interface in memory.

use std::collections::VecDeque;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpRepr, EthernetAddress, Icmpv4Repr, Icmpv6Repr, IpAddress, Ipv4Repr, Ipv6Repr, NdiscNeighborFlags,
    NdiscRepr, UdpRepr,
};

use super::*;
use crate::stack::{Config, Net};

const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The stack's alone, and the kernel's too.
const ALONE: [u8; 4] = [10, 7, 0, 1];
const SHARED: [u8; 4] = [10, 9, 0, 1];
const PEER: [u8; 4] = [10, 9, 0, 2];

fn v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host)
}

/// A way in memory. Frames that are sent are kept; those that came wait.
struct Ends {
    came: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    /// Frames that it takes until there is more room.
    room: usize,
    broken: bool,
    /// Reads and writes.
    calls: usize,
}

#[derive(Clone)]
struct End(Arc<Mutex<Ends>>);

impl End {
    fn new(room: usize) -> Self {
        let ends = Ends { came: VecDeque::new(), sent: Vec::new(), room, broken: false, calls: 0 };
        Self(Arc::new(Mutex::new(ends)))
    }

    fn ends(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.0.lock().unwrap()
    }

    fn comes(&self, frame: Vec<u8>) {
        self.ends().came.push_back(frame);
    }

    fn taken(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ends().sent)
    }

    fn next(&self, frame: &mut [u8]) -> Option<usize> {
        self.ends().came.pop_front().map(|came| {
            let bytes = came.len().min(frame.len());
            frame[..bytes].copy_from_slice(&came[..bytes]);
            bytes
        })
    }
}

impl Link for End {
    fn receive(&mut self, frame: &mut [u8]) -> ferrowire::Result<Option<usize>> {
        Ok(self.next(frame))
    }
    fn has_room(&mut self) -> ferrowire::Result<bool> {
        Ok(self.ends().room > 0)
    }
    fn room(&mut self) -> ferrowire::Result<usize> {
        Ok(self.ends().room)
    }
    fn send(&mut self, frame: &[u8]) -> ferrowire::Result<()> {
        let mut ends = self.ends();
        ends.room = ends.room.checked_sub(1).expect("nothing is sent without room");
        ends.sent.push(frame.to_vec());
        Ok(())
    }
    fn max_frame(&self) -> usize {
        1600
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl Tap for End {
    fn receive(&mut self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        self.ends().calls += 1;
        let broken = self.ends().broken;
        match broken {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(self.next(frame)),
        }
    }
    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let mut ends = self.ends();
        ends.calls += 1;
        if ends.broken {
            return Err(io::ErrorKind::NotFound.into());
        }
        let takes = ends.room > 0;
        if takes {
            ends.room -= 1;
            ends.sent.push(frame.to_vec());
        }
        Ok(takes)
    }
}

/// Link, interface, and the bridge between them with room for that many frames each way.
fn bridge(room: usize) -> (End, End, Bridge, Bridged) {
    let (link, tap) = (End::new(room), End::new(room));
    let (bridge, bridged) = Bridge::new(Box::new(link.clone()), Box::new(tap.clone())).unwrap();
    bridged.set_alone(vec![ALONE.into(), v6(1).into()]);
    (link, tap, bridge, bridged)
}

/// A stack with both addresses over a bridge.
fn stack(room: usize) -> (End, End, Net, Bridged) {
    let (link, tap, bridge, bridged) = bridge(room);
    let own = [ALONE.into(), SHARED.into(), v6(1).into(), v6(9).into()];
    let config = Config { prefix_v4: 0, prefix_v6: 0, ..Config::default() };
    (link, tap, Net::over(Box::new(bridge), OWN_MAC, &own, 7, config).unwrap(), bridged)
}

fn ethernet(kind: EthernetProtocol, payload: usize, emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + payload];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    frame.set_src_addr(EthernetAddress(PEER_MAC));
    frame.set_dst_addr(EthernetAddress(OWN_MAC));
    frame.set_ethertype(kind);
    emit(frame.payload_mut());
    bytes
}

fn arp(operation: ArpOperation, target: [u8; 4]) -> Vec<u8> {
    let arp = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: EthernetAddress(PEER_MAC),
        source_protocol_addr: PEER.into(),
        target_hardware_addr: EthernetAddress(OWN_MAC),
        target_protocol_addr: target.into(),
    };
    ethernet(EthernetProtocol::Arp, arp.buffer_len(), |bytes| {
        arp.emit(&mut ArpPacket::new_unchecked(bytes));
    })
}

fn packet_v4(to: [u8; 4], next_header: IpProtocol, payload: &[u8]) -> Vec<u8> {
    let ip = Ipv4Repr {
        src_addr: PEER.into(),
        dst_addr: to.into(),
        next_header,
        payload_len: payload.len(),
        hop_limit: 64,
    };
    ethernet(EthernetProtocol::Ipv4, 20 + payload.len(), |bytes| {
        let mut packet = Ipv4Packet::new_unchecked(bytes);
        ip.emit(&mut packet, &ChecksumCapabilities::default());
        packet.payload_mut().copy_from_slice(payload);
    })
}

fn echo_v4(to: [u8; 4], reply: bool) -> Vec<u8> {
    let icmp = match reply {
        false => Icmpv4Repr::EchoRequest { ident: 1, seq_no: 2, data: b"echo" },
        true => Icmpv4Repr::EchoReply { ident: 1, seq_no: 2, data: b"echo" },
    };
    let mut bytes = vec![0; icmp.buffer_len()];
    icmp.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &ChecksumCapabilities::default());
    packet_v4(to, IpProtocol::Icmp, &bytes)
}

fn datagram(to: [u8; 4], port: u16) -> Vec<u8> {
    let udp = UdpRepr { src_port: 5, dst_port: port };
    let mut bytes = vec![0; udp.header_len() + 4];
    let addresses = (IpAddress::from(Ipv4Addr::from(PEER)), IpAddress::from(Ipv4Addr::from(to)));
    udp.emit(
        &mut smoltcp::wire::UdpPacket::new_unchecked(&mut bytes),
        &addresses.0,
        &addresses.1,
        4,
        |data| data.copy_from_slice(b"data"),
        &ChecksumCapabilities::default(),
    );
    packet_v4(to, IpProtocol::Udp, &bytes)
}

fn icmp_v6(to: Ipv6Addr, icmp: &Icmpv6Repr<'_>) -> Vec<u8> {
    let ip = Ipv6Repr {
        src_addr: v6(2),
        dst_addr: to,
        next_header: IpProtocol::Icmpv6,
        payload_len: icmp.buffer_len(),
        hop_limit: 255,
    };
    ethernet(EthernetProtocol::Ipv6, 40 + icmp.buffer_len(), |bytes| {
        let mut packet = Ipv6Packet::new_unchecked(bytes);
        ip.emit(&mut packet);
        let mut message = Icmpv6Packet::new_unchecked(packet.payload_mut());
        icmp.emit(&ip.src_addr, &ip.dst_addr, &mut message, &ChecksumCapabilities::default());
    })
}

fn solicit(target: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
    let ask =
        NdiscRepr::NeighborSolicit { target_addr: target, lladdr: Some(EthernetAddress(PEER_MAC).into()) };
    icmp_v6(group, &Icmpv6Repr::Ndisc(ask))
}

fn advertise(to: Ipv6Addr) -> Vec<u8> {
    let answer = NdiscRepr::NeighborAdvert {
        flags: NdiscNeighborFlags::SOLICITED,
        target_addr: v6(2),
        lladdr: Some(EthernetAddress(PEER_MAC).into()),
    };
    icmp_v6(to, &Icmpv6Repr::Ndisc(answer))
}

fn echo_v6(to: Ipv6Addr) -> Vec<u8> {
    icmp_v6(to, &Icmpv6Repr::EchoRequest { ident: 1, seq_no: 2, data: b"echo" })
}

#[test]
fn each_frame_of_the_wire_has_the_receiver_that_answers_it() {
    let kinds = [
        ("ARP request, shared", arp(ArpOperation::Request, SHARED), Receiver::Tap),
        ("ARP request, alone", arp(ArpOperation::Request, ALONE), Receiver::Stack),
        ("ARP request, another's", arp(ArpOperation::Request, [10, 9, 0, 77]), Receiver::Tap),
        ("ARP reply, shared", arp(ArpOperation::Reply, SHARED), Receiver::Both),
        ("ARP reply, alone", arp(ArpOperation::Reply, ALONE), Receiver::Stack),
        ("echo, shared", echo_v4(SHARED, false), Receiver::Tap),
        ("echo, alone", echo_v4(ALONE, false), Receiver::Stack),
        ("echo reply, shared", echo_v4(SHARED, true), Receiver::Both),
        ("echo reply, alone", echo_v4(ALONE, true), Receiver::Stack),
        ("UDP, shared", datagram(SHARED, 7), Receiver::Tap),
        ("UDP, alone", datagram(ALONE, 7), Receiver::Stack),
        ("UDP, broadcast", datagram([255; 4], 7), Receiver::Tap),
        ("TCP, shared", packet_v4(SHARED, IpProtocol::Tcp, &[0; 20]), Receiver::Tap),
        ("solicitation, shared", solicit(v6(9)), Receiver::Tap),
        ("solicitation, alone", solicit(v6(1)), Receiver::Stack),
        ("advertisement, shared", advertise(v6(9)), Receiver::Both),
        ("advertisement, alone", advertise(v6(1)), Receiver::Stack),
        ("advertisement, all", advertise(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)), Receiver::Both),
        ("echo, shared, IPv6", echo_v6(v6(9)), Receiver::Tap),
        ("echo, alone, IPv6", echo_v6(v6(1)), Receiver::Stack),
        ("of another protocol", ethernet(EthernetProtocol::Unknown(0x88cc), 40, |_| ()), Receiver::Tap),
        ("a packet that is cut", echo_v4(ALONE, false)[..30].to_vec(), Receiver::Tap),
        ("too short", vec![2; 13], Receiver::Tap),
    ];
    for (name, frame, expected) in kinds {
        let (link, tap, mut bridge, bridged) = bridge(8);
        link.comes(frame.clone());
        let mut taken = [0; 2048];
        let came = bridge.receive(&mut taken).unwrap().map(|bytes| taken[..bytes].to_vec());
        let to_tap = tap.taken();
        let to = match (came.is_some(), to_tap.len()) {
            (true, 0) => Receiver::Stack,
            (false, 1) => Receiver::Tap,
            (true, 1) => Receiver::Both,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(to, expected, "{name}");
        for copy in came.into_iter().chain(to_tap) {
            assert_eq!(copy, frame, "{name}");
        }
        assert_eq!(bridged.counts().to_tap, u64::from(expected != Receiver::Stack), "{name}");
    }
}

#[test]
fn the_stack_answers_for_its_own_addresses_only_and_hears_answers_to_its_questions() {
    let (link, tap, net, bridged) = stack(8);
    // What the kernel answers, the stack does not.
    for frame in [
        arp(ArpOperation::Request, SHARED),
        echo_v4(SHARED, false),
        datagram(SHARED, 7),
        packet_v4(SHARED, IpProtocol::Tcp, &[0; 20]),
        solicit(v6(9)),
        echo_v6(v6(9)),
    ] {
        link.comes(frame);
    }
    net.poll().unwrap();
    assert_eq!((tap.taken().len(), link.taken().len()), (6, 0));
    // And the other way round.
    link.comes(arp(ArpOperation::Request, ALONE));
    link.comes(solicit(v6(1)));
    net.poll().unwrap();
    let sent = link.taken();
    assert_eq!((tap.taken().len(), sent.len()), (0, 2));
    let answers: Vec<_> = sent.iter().map(|frame| about(frame).unwrap().1).collect();
    assert_eq!(answers, [true, true]);
    // It asks from the address that is near, and the answer is the kernel's, too.
    assert_eq!(net.source(PEER.into()).unwrap(), IpAddr::from(SHARED));
    assert_eq!(net.source([10, 7, 0, 2].into()).unwrap(), IpAddr::from(ALONE));
    let other = [10, 9, 0, 3];
    assert!(net.try_address_vector(other.into()).unwrap().is_none());
    assert_eq!(about(&link.taken()[0]), Some((other.into(), false)));
    let mut reply = arp(ArpOperation::Reply, SHARED);
    // Its sender.
    reply[28..32].copy_from_slice(&other);
    link.comes(reply);
    net.poll().unwrap();
    let way = net.try_address_vector(other.into()).unwrap().unwrap();
    assert_eq!((way.src_ip, way.dst_mac), (SHARED.into(), PEER_MAC));
    assert_eq!(tap.taken().len(), 1);
    // An address that the kernel loses has no owner, and one that it gets is the kernel's.
    net.set_addresses(&[ALONE.into(), [10, 8, 0, 1].into()]).unwrap();
    bridged.set_alone(vec![[10, 8, 0, 1].into()]);
    link.comes(arp(ArpOperation::Request, ALONE));
    net.poll().unwrap();
    assert_eq!((tap.taken().len(), link.taken().len()), (1, 0));
    link.comes(arp(ArpOperation::Request, [10, 8, 0, 1]));
    net.poll().unwrap();
    assert_eq!((tap.taken().len(), link.taken().len()), (0, 1));
    assert_eq!(net.source(PEER.into()).unwrap(), IpAddr::from([10, 8, 0, 1]));
}

#[test]
fn a_burst_of_the_kernel_waits_for_room_and_leaves_places_for_the_stack() {
    let (link, tap, net, bridged) = stack(16);
    let frame = |n: u16| datagram([10, 9, 0, 2], n);
    (0..40).for_each(|n| tap.comes(frame(1000 + n)));
    net.poll().unwrap();
    // A quarter is the stack's.
    assert_eq!((link.ends().room, tap.ends().came.len()), (4, 28));
    assert!(bridged.is_blocked() && !bridged.has_more());
    // The stack can ask, and answer.
    assert!(net.try_address_vector([10, 7, 0, 2].into()).unwrap().is_none());
    link.comes(arp(ArpOperation::Request, ALONE));
    net.poll().unwrap();
    let sent = link.taken().len();
    assert_eq!((link.ends().room, sent), (2, 14));
    // Nothing is lost, and the order stays.
    let mut later = Vec::new();
    while bridged.is_blocked() {
        link.ends().room = 7;
        net.poll().unwrap();
        later.extend(link.taken());
    }
    assert_eq!(later, (12..40).map(|n| frame(1000 + n)).collect::<Vec<_>>());
    assert_eq!(bridged.counts(), Counts { to_wire: 40, ..Counts::default() });
}

#[test]
fn neither_direction_keeps_the_other_waiting() {
    let (link, tap, net, bridged) = stack(1000);
    (0..300).for_each(|_| link.comes(datagram(SHARED, 7)));
    (0..300).for_each(|_| tap.comes(datagram(PEER, 7)));
    // A poll moves a bounded number each way, and says that more may wait.
    net.poll().unwrap();
    assert_eq!((link.ends().came.len(), tap.ends().came.len()), (300 - BATCH, 300 - BATCH));
    let mut polls = 1;
    while bridged.has_more() {
        net.poll().unwrap();
        polls += 1;
    }
    assert_eq!((link.taken().len(), tap.taken().len(), polls), (300, 300, 5));
    // A stack without room takes nothing from the link, and looks again.
    link.ends().room = 0;
    link.comes(arp(ArpOperation::Request, ALONE));
    net.poll().unwrap();
    assert_eq!((bridged.is_blocked(), link.ends().came.len()), (true, 1));
    link.ends().room = 16;
    net.poll().unwrap();
    assert_eq!(link.taken().len(), 1);
    // There may be room between the stack's look and the bridge's.
    let (link, _, mut bridge, bridged) = super::tests::bridge(8);
    link.ends().room = 0;
    assert!(!bridge.has_room().unwrap());
    link.ends().room = 8;
    bridge.turn().unwrap();
    assert!(bridged.has_more() && !bridged.is_blocked());
    bridge.turn().unwrap();
    assert!(!bridged.has_more());
}

#[test]
fn frames_that_are_lost_are_counted_by_their_reasons() {
    let (link, tap, mut bridge, bridged) = bridge(16);
    // The kernel takes two, as with a queue that is full.
    tap.ends().room = 2;
    (0..5).for_each(|_| link.comes(datagram(SHARED, 7)));
    assert_eq!(bridge.receive(&mut [0; 2048]).unwrap(), None);
    assert_eq!(tap.taken().len(), 2);
    // Too short, too long, RoCE; then the longest and the shortest that leave.
    for bytes in [13, 1601, 4000, 1600, 14] {
        tap.comes(vec![2; bytes]);
    }
    tap.comes(datagram(PEER, 4791));
    bridge.turn().unwrap();
    assert_eq!(link.taken().iter().map(Vec::len).collect::<Vec<_>>(), [1600, 14]);
    let counts = bridged.counts();
    let expected = Counts { to_tap: 2, to_wire: 2, dropped_by_tap: 3, bad_length: 3, roce: 1 };
    assert_eq!((counts, counts.dropped()), (expected, 7));
}

#[test]
fn the_stack_goes_on_without_an_interface_that_is_gone() {
    let (link, tap, net, bridged) = stack(16);
    tap.ends().broken = true;
    net.poll().unwrap();
    assert!(bridged.is_gone());
    let calls = tap.ends().calls;
    link.comes(datagram(SHARED, 7));
    link.comes(arp(ArpOperation::Request, ALONE));
    net.poll().unwrap();
    assert_eq!((link.taken().len(), tap.ends().calls), (1, calls));
    assert_eq!(bridged.counts().dropped_by_tap, 1);
    // It is noticed in the other direction, too.
    let (link, tap, mut bridge, bridged) = super::tests::bridge(16);
    tap.ends().broken = true;
    link.comes(datagram(SHARED, 7));
    assert_eq!(bridge.receive(&mut [0; 2048]).unwrap(), None);
    assert!(bridged.is_gone());
}

#[test]
fn the_source_has_the_scope_of_the_peer() {
    let (_link, _tap, net, _bridged) = stack(16);
    let ip = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    // The link-local one of IPv4 has more bits in common with 169.253.0.1.
    let own = ["fe80::1", "2001:db8::1", "169.254.0.1", "10.8.0.1"].map(ip);
    net.set_addresses(&own).unwrap();
    for (peer, source) in [
        ("fd00::2", "2001:db8::1"),
        ("fe80::2", "fe80::1"),
        ("169.254.7.7", "169.254.0.1"),
        ("169.253.0.1", "10.8.0.1"),
    ] {
        assert_eq!(net.source(ip(peer)).unwrap(), ip(source), "{peer}");
    }
    // One of another scope is better than none.
    net.set_addresses(&own[2..3]).unwrap();
    assert_eq!(net.source(ip("169.253.0.1")).unwrap(), own[2]);
}
