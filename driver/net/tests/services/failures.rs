// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lost messages, killed peers, queue pairs that fail, and cards that are gone.

use std::time::Duration;

use ferrowire::QpState;
use ferrowire_net::mad::{IpCm, Message, PortSpace, Rej, Req, SidrReq};
use ferrowire_net::rdma::{EventKind, Phase};
use ferrowire_net::{Error, Path};
use rustix::io::Errno;

use crate::rig::*;

const STEP: Duration = Duration::from_millis(20);

#[test]
fn the_first_of_each_message_may_be_lost_and_the_second_may_come_twice() {
    let wire = Wire::new(2);
    let (a, b) = (Host::with(&wire, 0, hasty(), 1), Host::with(&wire, 1, hasty(), 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let mut seen: Vec<&'static str> = Vec::new();
    wire.set_fate(move |_, message| {
        let name = message.name();
        let before = seen.iter().filter(|other| **other == name).count();
        seen.push(name);
        before.min(2)
    });
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let mut event = next_while_time_passes(&wire, &b.channel, STEP);
    let other = event.take_request().unwrap();
    drop(event);
    other.accept(&param(40, b""), None).unwrap();
    let mut event = next_while_time_passes(&wire, &a.channel, STEP);
    id.complete(&mut event, &mut Noted::new(17));
    assert_eq!(event.kind(), EventKind::Established);
    drop(event);
    assert_eq!(next_while_time_passes(&wire, &b.channel, STEP).kind(), EventKind::Established);
    id.disconnect(&[], None).unwrap();
    assert_eq!(next_while_time_passes(&wire, &b.channel, STEP).kind(), EventKind::Disconnected);
    let event = next_while_time_passes(&wire, &a.channel, STEP);
    assert_eq!((event.kind(), event.status()), (EventKind::Disconnected, 0));
    drop(event);
    for host in [&a, &b] {
        assert_eq!(next_while_time_passes(&wire, &host.channel, STEP).kind(), EventKind::TimeWaitExit);
    }
    for name in ["Req", "Rtu", "Dreq"] {
        assert!(wire.count(0, name) > 1, "{name}");
    }
    assert!(wire.count(1, "Rep") > 1 && wire.count(1, "Drep") > 1);
}

#[test]
fn a_host_that_does_not_answer_is_unreachable_after_all_tries() {
    let wire = Wire::new(2);
    let (a, b) = (Host::with(&wire, 0, hasty(), 1), Host::with(&wire, 1, hasty(), 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    wire.set_fate(|_, message| usize::from(!matches!(message, Message::Rep(_) | Message::Rej(_))));
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let mut event = b.expect(EventKind::ConnectRequest);
    let other = event.take_request().unwrap();
    drop(event);
    other.accept(&param(40, b""), None).unwrap();
    let event = next_while_time_passes(&wire, &a.channel, STEP);
    assert_eq!((event.kind(), event.status()), (EventKind::Unreachable, -Errno::TIMEDOUT.raw_os_error()));
    // The asked side hears it from the asker's last word, which is lost here, or from its own tries.
    let event = next_while_time_passes(&wire, &b.channel, STEP);
    assert_eq!(event.kind(), EventKind::Unreachable);
    assert_eq!((id.phase(), other.phase()), (Phase::Ended, Phase::Ended));
    assert_eq!((wire.count(0, "Req"), wire.count(1, "Rep")), (4, 4 + 3));
}

#[test]
fn a_killed_peer_ends_a_connection_when_this_side_ends_it() {
    let wire = Wire::new(2);
    let (a, b) = (Host::with(&wire, 0, hasty(), 1), Host::new(&wire, 1));
    let ((id, mut qp), _far) = connected(&a, &b, 1);
    wire.kill(1);
    a.quiet();
    id.disconnect(&[], Some(&mut qp)).unwrap();
    let event = next_while_time_passes(&wire, &a.channel, STEP);
    assert_eq!((event.kind(), event.status()), (EventKind::Disconnected, -Errno::TIMEDOUT.raw_os_error()));
    drop(event);
    assert_eq!(next_while_time_passes(&wire, &a.channel, STEP).kind(), EventKind::TimeWaitExit);
    id.destroy();
}

/// It has the same queue pair again, and this side does not know that it was killed.
#[test]
fn a_peer_that_was_killed_and_started_again_connects_again() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let (_near, far) = connected(&a, &b, 1);
    // Its identifiers are gone without a word.
    std::mem::forget(_near);
    let a = a.restart(&wire);
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let event = next_while_time_passes(&wire, &b.channel, STEP);
    assert_eq!((event.kind(), event.id()), (EventKind::Disconnected, far.0.number()));
    drop(event);
    // Asked again, without the program of the asker.
    let mut event = next_while_time_passes(&wire, &b.channel, STEP);
    while event.kind() == EventKind::TimeWaitExit {
        event = next_while_time_passes(&wire, &b.channel, STEP);
    }
    let other = event.take_request().unwrap();
    drop(event);
    other.accept(&param(40, b""), None).unwrap();
    a.expect(EventKind::ConnectResponse);
}

#[test]
fn a_queue_pair_that_does_not_come_up_is_an_error_of_the_connection() {
    for fails in [QpState::Rtr, QpState::Rts] {
        let wire = Wire::new(2);
        let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
        let _listener = b.listen(PortSpace::Tcp, 1);
        let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
        id.connect(&param(17, b"")).unwrap();
        let (other, _) = b.request();
        // The asked side's: the request can still be answered.
        let mut broken = Noted { fails: Some(fails), ..Noted::new(40) };
        let error = other.accept(&param(0, b""), Some(&mut broken)).unwrap_err();
        assert_eq!(error.errno(), Errno::IO);
        assert_eq!(other.phase(), Phase::Requested);
        other.accept(&param(0, b""), Some(&mut Noted::new(41))).unwrap();
        // The asker's.
        let mut event = a.expect(EventKind::ConnectResponse);
        let mut broken = Noted { fails: Some(fails), ..Noted::new(17) };
        id.complete(&mut event, &mut broken);
        assert_eq!((event.kind(), event.status()), (EventKind::ConnectError, -Errno::IO.raw_os_error()));
        drop(event);
        assert_eq!(b.expect(EventKind::Rejected).status(), 28);
        assert_eq!(id.phase(), Phase::Ended);
    }
}

#[test]
fn an_answer_to_a_request_that_its_asker_has_given_up_says_so() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let (other, event) = b.request();
    drop(event);
    id.destroy();
    // A program need not know a request that it has not accepted: nothing says that it is over but the answer to it.
    b.quiet();
    let error = other.accept(&param(40, b""), None).unwrap_err();
    assert!(matches!(error, Error::Gone { .. }) && error.errno() == Errno::CONNRESET, "{error}");
    // What this program has refused itself is another thing.
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let (other, _) = b.request();
    other.reject(b"").unwrap();
    let error = other.accept(&param(40, b""), None).unwrap_err();
    assert!(matches!(error, Error::State { .. }), "{error}");
}

#[test]
fn a_card_that_is_gone_tells_every_identifier_and_takes_no_more_operations() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let ((id, mut qp), _far) = connected(&a, &b, 1);
    let idle = a.id();
    wire.kill(0);
    let mut told = [a.expect(EventKind::DeviceRemoval), a.expect(EventKind::DeviceRemoval)];
    told.sort_by_key(|event| event.id());
    assert_eq!(told.each_ref().map(|event| event.id()), [id.number(), idle.number()]);
    assert!(told.iter().all(|event| event.status() == -Errno::NODEV.raw_os_error()));
    drop(told);
    assert!(a.service.failure().unwrap().contains("killed"));
    for error in [
        idle.bind(at(0, false, 1)).unwrap_err(),
        id.disconnect(&[], Some(&mut qp)).unwrap_err(),
        a.service.create_id(&a.channel, PortSpace::Tcp, 0).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Removed { .. }) && error.errno() == Errno::NODEV, "{error}");
    }
    assert_eq!(idle.phase(), Phase::Removed);
    id.destroy();
    idle.destroy();
}

#[test]
fn a_request_that_is_not_accepted_hears_nothing_of_a_card_that_is_gone() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.listen(PortSpace::Tcp, 1);
    let ids: Vec<_> = (0..2).map(|_| a.resolved(PortSpace::Tcp, at(1, false, 1))).collect();
    ids.iter().for_each(|id| id.connect(&param(17 + id.number() as u32, b"")).unwrap());
    let (accepted, _) = b.request();
    let (other, _) = b.request();
    accepted.accept(&param(40, b""), None).unwrap();
    wire.kill(1);
    let mut told = [b.expect(EventKind::DeviceRemoval).id(), b.expect(EventKind::DeviceRemoval).id()];
    told.sort_unstable();
    assert_eq!(told, [listener.number(), accepted.number()]);
    assert!(b.channel.try_next().is_none());
    let error = other.accept(&param(41, b""), None).unwrap_err();
    assert!(matches!(error, Error::Removed { .. }), "{error}");
}

#[test]
fn a_thread_that_panics_is_a_failure_of_the_card() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let ((id, _), _far) = connected(&a, &b, 1);
    wire.upset(0);
    assert_eq!(a.expect(EventKind::DeviceRemoval).id(), id.number());
    let cause = a.service.failure().unwrap();
    assert!(cause.contains("panicked"), "{cause}");
    assert_eq!(a.service.create_id(&a.channel, PortSpace::Tcp, 0).unwrap_err().errno(), Errno::NODEV);
    id.destroy();
}

/// Requests of a connection and of datagrams from host 2, of which host 1 has not heard.
fn ask_from_afar(wire: &Wire) -> Path {
    let path = Path { local: ip(1, false), remote: ip(2, false) };
    let header = IpCm { source_port: 4000, source: path.remote, destination: path.local }.to_bytes();
    let mut req =
        Req { service_id: PortSpace::Tcp.service_id(1), local_comm_id: 5, path_mtu: 3, ..Req::default() };
    req.private_data[..IpCm::BYTES].copy_from_slice(&header);
    let mut sidr = SidrReq { service_id: PortSpace::Udp.service_id(1), request_id: 6, ..SidrReq::default() };
    sidr.private_data[..IpCm::BYTES].copy_from_slice(&header);
    wire.inject(1, path, req.into());
    wire.inject(1, path, sidr.into());
    path
}

#[test]
fn a_request_from_an_unknown_neighbour_is_told_when_the_way_back_is_known() {
    let wire = Wire::new(3);
    let b = Host::new(&wire, 1);
    let _listeners = [PortSpace::Tcp, PortSpace::Udp].map(|space| b.listen(space, 1));
    ask_from_afar(&wire);
    until("it was heard", || wire.delivered(1));
    b.quiet();
    let _c = Host::new(&wire, 2);
    for _ in 0..2 {
        let mut event = next_while_time_passes(&wire, &b.channel, STEP);
        let id = event.take_request().unwrap();
        assert_eq!(id.remote(), Some(at(2, false, 4000)));
        assert_eq!(id.route().unwrap().way.dst_mac, mac(2));
    }
}

#[test]
fn a_request_whose_asker_or_listener_has_gone_before_the_way_back_is_known_is_not_told() {
    for asker in [true, false] {
        let wire = Wire::new(3);
        let b = Host::new(&wire, 1);
        let listeners = [PortSpace::Tcp, PortSpace::Udp].map(|space| b.listen(space, 1));
        let path = ask_from_afar(&wire);
        until("it was heard", || wire.delivered(1));
        let _more = if asker {
            // SIDR has no message that takes a request back.
            wire.inject(1, path, Rej { local_comm_id: 5, reason: 4, ..Rej::default() }.into());
            until("it was heard", || wire.delivered(1));
            listeners[1].phase();
            Some(listeners)
        } else {
            listeners.into_iter().for_each(|listener| listener.destroy());
            let again = [PortSpace::Tcp, PortSpace::Udp].map(|space| b.listen(space, 1));
            Some(again)
        };
        let _c = Host::new(&wire, 2);
        for _ in 0..50 {
            wire.pass(STEP);
        }
        let told: Vec<_> = std::iter::from_fn(|| b.channel.try_next()).collect();
        assert_eq!(told.len(), usize::from(asker), "{told:?}");
        assert!(told.iter().all(|event| event.ud().is_some()));
        let refused = wire.count(1, "Rej") + wire.count(1, "SidrRep");
        assert_eq!(refused, if asker { 0 } else { 2 });
    }
}

#[test]
fn a_request_from_nowhere_and_one_that_says_nothing_of_addresses_are_not_told() {
    let wire = Wire::new(2);
    let (_a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let service_id = PortSpace::Tcp.service_id(1);
    let far = Path { local: ip(1, false), remote: [192, 168, 1, 1].into() };
    let header = IpCm { source_port: 1, source: far.remote, destination: far.local };
    let mut req = Req { service_id, local_comm_id: 5, path_mtu: 3, ..Req::default() };
    req.private_data[..IpCm::BYTES].copy_from_slice(&header.to_bytes());
    wire.inject(1, far, req.into());
    // Not of the RDMA IP CM service, to another address, with a path MTU that the card does not have.
    let near = Path { local: ip(1, false), remote: ip(0, false) };
    let mut elsewhere = req;
    let other = IpCm { source: ip(0, true), destination: ip(7, true), ..header };
    elsewhere.private_data[..IpCm::BYTES].copy_from_slice(&other.to_bytes());
    let mut bare = req;
    bare.private_data[1] = 0;
    let mut large = req;
    let header = IpCm { source: near.remote, ..header };
    large.private_data[..IpCm::BYTES].copy_from_slice(&header.to_bytes());
    for (n, req) in (6..).zip([elsewhere, bare, Req { path_mtu: 6, ..large }]) {
        wire.inject(1, near, Req { local_comm_id: n, local_qpn: n, ..req }.into());
    }
    until("they were heard", || wire.delivered(1));
    // What cannot be answered is not; the others are.
    next_rejections(&wire, &[8, 8, 26]);
    b.quiet();
}

/// A program that admits by address would admit host 0 for another one.
#[test]
fn a_request_that_names_other_addresses_than_its_packet_is_refused() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listeners = [PortSpace::Tcp, PortSpace::Udp].map(|space| b.listen(space, 1));
    a.service.net().resolve(ip(1, false)).unwrap();
    let packet = Path { local: ip(1, false), remote: ip(0, false) };
    let own = IpCm { source_port: 1, source: packet.remote, destination: packet.local };
    let foreign = [
        IpCm { source: ip(5, false), ..own },
        // An own address of the card, but not the one to which the packet went.
        IpCm { source: ip(0, true), destination: ip(1, true), ..own },
    ];
    for (n, header) in (5..).zip(foreign) {
        let service_id = PortSpace::Tcp.service_id(1);
        let mut req = Req { service_id, local_comm_id: n, local_qpn: n, path_mtu: 3, ..Req::default() };
        req.private_data[..IpCm::BYTES].copy_from_slice(&header.to_bytes());
        wire.inject(1, packet, req.into());
        let mut sidr =
            SidrReq { service_id: PortSpace::Udp.service_id(1), request_id: n, ..SidrReq::default() };
        sidr.private_data[..IpCm::BYTES].copy_from_slice(&header.to_bytes());
        wire.inject(1, packet, sidr.into());
    }
    next_rejections(&wire, &[8, 8]);
    until("the lookups were refused", || wire.count(1, "SidrRep") == 2);
    b.quiet();
}

/// Host 1 has refused with these reasons.
#[track_caller]
fn next_rejections(wire: &Wire, reasons: &[u16]) {
    let rejections = || {
        let sent = wire.sent().into_iter().filter(|(host, _)| *host == 1);
        sent.filter_map(|(_, mad)| match mad.message {
            Message::Rej(rej) => Some(rej.reason),
            _ => None,
        })
        .collect::<Vec<_>>()
    };
    until("they were refused", || {
        wire.pass(STEP);
        rejections().len() == reasons.len()
    });
    assert_eq!(rejections(), reasons);
}
