// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selective retransmission: which connections agree on it.

use ferrowire::{QpState, Service as Transport};
use ferrowire_net::exchange::SELECTIVE;
use ferrowire_net::mad::{IpCm, Message, PortSpace, Rep, Req};
use ferrowire_net::rdma::{EventKind, Id};
use ferrowire_net::Path;

use crate::rig::*;

/// What the last REQ and the last REP on a wire say of it.
fn said(wire: &Wire) -> (u8, u8) {
    let (mut req, mut rep) = (None, None);
    for (_, mad) in wire.sent() {
        match mad.message {
            Message::Req(Req { selective, .. }) => req = Some(selective),
            Message::Rep(Rep { selective, .. }) => rep = Some(selective),
            _ => {}
        }
    }
    (req.expect("a REQ was sent"), rep.expect("a REP was sent"))
}

/// A connection of hosts whose cards have it and whose programs wish it, or not; what REQ and REP say, and what the queue pairs get.
fn connection(has: [bool; 2], wish: [bool; 2], transport: Transport) -> ((u8, u8), [Option<bool>; 2]) {
    let wire = Wire::new(2);
    (0..2).filter(|host| has[*host]).for_each(|host| wire.has_selective(host));
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.listen(PortSpace::Tcp, 7174);
    listener.set_options(|options| options.selective = wish[1]);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 7174));
    id.set_options(|options| options.selective = wish[0]);
    id.set_transport(transport).unwrap();
    // Every byte of both programs arrives.
    let bytes = [0xa5; 56];
    id.connect(&param(17, &bytes)).unwrap();
    let (other, event) = b.request();
    assert_eq!(event.private_data(), bytes);
    drop(event);
    let (mut near, mut far) = (Noted::new(17), Noted::new(40));
    other.accept(&param(0, &[0x5a; 196]), Some(&mut far)).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    assert_eq!(event.private_data(), [0x5a; 196]);
    id.complete(&mut event, &mut near);
    assert_eq!(event.kind(), EventKind::Established);
    b.expect(EventKind::Established);
    let set = [&near, &far].map(|qp| qp.to(QpState::Rtr).selective);
    assert_eq!([&id, &other].map(Id::selective), set.map(|set| set == Some(true)));
    let rc = transport == Transport::Rc;
    assert_eq!(a.service.selective_with(ip(1, false), 40), rc.then_some(set[0] == Some(true)));
    assert_eq!(b.service.selective_with(ip(0, false), 17), rc.then_some(set[1] == Some(true)));
    assert_eq!(a.service.selective_with(ip(1, false), 41), None, "no connection has this queue pair");
    (said(&wire), set)
}

#[test]
fn connections_agree_on_it_if_both_cards_have_it_and_both_programs_wish_it() {
    let both = [true, true];
    for has in [[true, true], [true, false], [false, true], [false, false]] {
        for wish in [[true, true], [true, false], [false, true], [false, false]] {
            let (said, set) = connection(has, wish, Transport::Rc);
            let asks = u8::from(has[0] && wish[0]) * SELECTIVE;
            let agreed = has == both && wish == both;
            assert_eq!(said, (asks, u8::from(agreed) * SELECTIVE), "{has:?} {wish:?}");
            assert_eq!(set, [agreed.then_some(true); 2], "{has:?} {wish:?}");
        }
    }
}

#[test]
fn unreliable_connections_have_none() {
    assert_eq!(connection([true; 2], [true; 2], Transport::Uc), ((0, 0), [None; 2]));
}

#[test]
fn a_program_may_decide_between_a_request_and_its_answer() {
    for (listens, answers) in [(true, false), (false, true)] {
        let wire = Wire::new(2);
        (0..2).for_each(|host| wire.has_selective(host));
        let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
        let listener = b.listen(PortSpace::Tcp, 7174);
        listener.set_options(|options| options.selective = listens);
        let id = a.resolved(PortSpace::Tcp, at(1, false, 7174));
        id.set_options(|options| options.selective = true);
        id.connect(&param(17, b"")).unwrap();
        let (other, _request) = b.request();
        assert_eq!(other.selective(), listens);
        other.set_options(|options| options.selective = answers);
        assert_eq!(other.selective(), answers);
        other.accept(&param(40, b""), None).unwrap();
        // What was agreed on stays.
        other.set_options(|options| options.selective = listens);
        id.set_options(|options| options.selective = false);
        a.expect(EventKind::ConnectResponse);
        assert_eq!((id.selective(), other.selective()), (answers, answers));
        assert_eq!(id.qp_attributes(QpState::Rtr).unwrap().selective, answers.then_some(true));
        assert_eq!(said(&wire), (SELECTIVE, u8::from(answers) * SELECTIVE));
    }
}

#[test]
fn a_request_with_another_version_is_answered_with_none() {
    for version in [0, 2, 15, 0xff] {
        let wire = Wire::new(2);
        (0..2).for_each(|host| wire.has_selective(host));
        let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
        let listener = b.listen(PortSpace::Tcp, 1);
        listener.set_options(|options| options.selective = true);
        a.service.net().resolve(ip(1, false)).unwrap();
        let path = Path { local: ip(1, false), remote: ip(0, false) };
        let header = IpCm { source_port: 1, source: path.remote, destination: path.local };
        let mut req = Req {
            service_id: PortSpace::Tcp.service_id(1),
            local_comm_id: 5,
            local_qpn: 17,
            path_mtu: 3,
            selective: version,
            ..Req::default()
        };
        req.private_data[..IpCm::BYTES].copy_from_slice(&header.to_bytes());
        wire.inject(1, path, req.into());
        let (other, _request) = b.request();
        assert!(!other.selective());
        let mut far = Noted::new(40);
        other.accept(&param(0, b""), Some(&mut far)).unwrap();
        assert_eq!(far.to(QpState::Rtr).selective, None);
        let rep = wire.sent().into_iter().find_map(|(_, mad)| match mad.message {
            Message::Rep(rep) => Some(rep.selective),
            _ => None,
        });
        assert_eq!(rep, Some(0), "{version}");
    }
}
