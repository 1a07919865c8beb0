// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections from the first question to the end.

use std::time::Duration;

use ferrowire::{AccessFlags, PathMtu, QpState, Service as Transport};
use ferrowire_net::mad::{Message, PortSpace, RejectReason};
use ferrowire_net::rdma::{ConnParam, EventKind, ManagedQp, Phase};

use crate::rig::*;

/// Bytes, filled up as a message's are.
fn filled(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut all = bytes.to_vec();
    all.resize(length, 0);
    all
}

#[test]
fn a_connection_comes_up_and_ends_with_the_bytes_of_both_programs_in_both_families() {
    for ipv6 in [false, true] {
        let wire = Wire::new(2);
        let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
        let listener = b.listen(PortSpace::Tcp, 7174);
        listener.set_context(5);
        let id = a.service.create_id(&a.channel, PortSpace::Tcp, 77).unwrap();
        id.resolve_address(None, at(1, ipv6, 7174), RESOLVE).unwrap();
        let event = a.expect(EventKind::AddressResolved);
        assert_eq!((event.id(), event.context(), event.status()), (id.number(), 77, 0));
        assert_eq!((event.listen_id(), event.conn()), (None, None));
        drop(event);
        id.resolve_route().unwrap();
        a.expect(EventKind::RouteResolved);
        let route = id.route().unwrap();
        assert_eq!((route.way.src_ip, route.way.dst_ip), (ip(0, ipv6), ip(1, ipv6)));
        assert_eq!((route.way.dst_mac, route.path_mtu), (mac(1), PathMtu::B1024));
        let mut near = Noted::new(17);
        id.init_qp(&mut near).unwrap();
        id.connect(&param(17, b"hello")).unwrap();

        let (other, event) = b.request();
        assert_eq!((event.listen_id(), event.listen_context()), (Some(listener.number()), Some(5)));
        assert_eq!((event.id(), event.context()), (other.number(), 0));
        let conn = event.conn().unwrap();
        // What the asker would have outstanding, this side has to answer.
        assert_eq!((conn.responder_resources, conn.initiator_depth), (3, 4));
        assert_eq!((conn.qp_num, conn.retry_count, conn.rnr_retry_count), (17, 7, 6));
        assert_eq!(conn.private_data, filled(b"hello", 56));
        event.acknowledge();
        assert_eq!((other.local(), other.remote()), (Some(at(1, ipv6, 7174)), id.local()));
        other.set_context(78);
        let mut far = Noted::new(40);
        other.init_qp(&mut far).unwrap();
        other.accept(&param(0, b"welcome"), Some(&mut far)).unwrap();

        let mut event = a.expect(EventKind::ConnectResponse);
        assert_eq!(event.private_data(), filled(b"welcome", 196));
        assert_eq!(event.conn().unwrap().qp_num, 40);
        id.complete(&mut event, &mut near);
        assert_eq!((event.kind(), event.status(), event.context()), (EventKind::Established, 0, 77));
        drop(event);
        assert_eq!(b.expect(EventKind::Established).context(), 78);
        assert_eq!((id.phase(), other.phase()), (Phase::Connected, Phase::Connected));

        // The attributes of each queue pair fit the other one.
        let up = [QpState::Init, QpState::Rtr, QpState::Rts];
        assert_eq!((near.states(), far.states()), (up.to_vec(), up.to_vec()));
        for (one, two, number) in [(&near, &far, 40), (&far, &near, 17)] {
            let (rtr, rts) = (one.to(QpState::Rtr), one.to(QpState::Rts));
            assert_eq!(rtr.dest_qpn, Some(number));
            assert_eq!(rtr.rq_psn, two.to(QpState::Rts).sq_psn);
            assert_eq!((rts.retry_cnt, rts.rnr_retry, rts.timeout), (Some(7), Some(6), Some(14)));
            assert_eq!((rtr.path_mtu, rtr.min_rnr_timer), (Some(PathMtu::B1024), Some(12)));
            assert_eq!(rtr.access, Some(AccessFlags::REMOTE));
            let outstanding = two.to(QpState::Rts).max_rd_atomic.unwrap();
            assert!(rtr.max_dest_rd_atomic.unwrap() >= outstanding);
        }
        assert_ne!(near.to(QpState::Rts).sq_psn, far.to(QpState::Rts).sq_psn);
        assert_eq!(
            (near.to(QpState::Rts).max_rd_atomic, far.to(QpState::Rts).max_rd_atomic),
            (Some(3), Some(3))
        );

        id.disconnect(b"bye", Some(&mut near)).unwrap();
        let event = b.expect(EventKind::Disconnected);
        assert_eq!((event.status(), event.private_data()), (0, &filled(b"bye", 220)[..]));
        drop(event);
        assert_eq!(a.expect(EventKind::Disconnected).status(), 0);
        other.disconnect(&[], Some(&mut far)).unwrap();
        assert_eq!((near.states()[3], far.states()[3]), (QpState::Err, QpState::Err));
        assert_eq!((id.phase(), other.phase()), (Phase::Disconnected, Phase::Disconnected));
        assert_eq!(wire.count(0, "Dreq") + wire.count(1, "Dreq"), 1);
        // Once more says nothing.
        id.disconnect(&[], None).unwrap();
        wire.pass(Duration::from_secs(2));
        a.expect(EventKind::TimeWaitExit);
        b.expect(EventKind::TimeWaitExit);
        id.destroy();
        other.destroy();
        listener.destroy();
        a.quiet();
        b.quiet();
    }
}

/// As `rdma_init_qp_attr` gives them, and the program says when it is ready.
#[test]
fn a_program_may_bring_its_queue_pairs_up_by_itself() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    assert_eq!(id.qp_attributes(QpState::Init).unwrap().access, Some(AccessFlags::default()));
    let early = id.qp_attributes(QpState::Rtr).unwrap_err();
    assert_eq!(early.errno(), rustix::io::Errno::INVAL);
    id.connect(&param(17, b"")).unwrap();
    assert_eq!(id.qp_attributes(QpState::Init).unwrap().access, Some(AccessFlags::REMOTE));
    let (other, _) = b.request();
    let mut far = Noted::new(40);
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        far.modify(state, &other.qp_attributes(state).unwrap()).unwrap();
    }
    other.accept(&param(40, b""), None).unwrap();
    a.expect(EventKind::ConnectResponse);
    let rtr = id.qp_attributes(QpState::Rtr).unwrap();
    assert_eq!((rtr.dest_qpn, rtr.rq_psn), (Some(40), far.to(QpState::Rts).sq_psn));
    assert_eq!(id.qp_attributes(QpState::Rts).unwrap().sq_psn, far.to(QpState::Rtr).rq_psn);
    id.establish().unwrap();
    b.expect(EventKind::Established);
    // INIT again, with the rights of the connection.
    assert_eq!(id.qp_attributes(QpState::Init).unwrap().access, Some(AccessFlags::REMOTE));
}

#[test]
fn a_program_that_refuses_gives_its_bytes() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, true, 1));
    id.connect(&param(17, b"")).unwrap();
    let (other, event) = b.request();
    drop(event);
    other.reject(b"not now").unwrap();
    let event = a.expect(EventKind::Rejected);
    assert_eq!(event.status(), i32::from(RejectReason::Consumer.code()));
    assert_eq!(event.private_data(), filled(b"not now", 148));
    assert_eq!((id.phase(), other.phase()), (Phase::Ended, Phase::Ended));
    // A request that the program does not take is refused, too.
    let again = a.resolved(PortSpace::Tcp, at(1, true, 1));
    again.connect(&param(18, b"")).unwrap();
    drop(b.expect(EventKind::ConnectRequest));
    assert_eq!(a.expect(EventKind::Rejected).status(), 28);
    // And the asker may refuse the answer.
    let third = a.resolved(PortSpace::Tcp, at(1, true, 1));
    third.connect(&param(19, b"")).unwrap();
    let (other, _) = b.request();
    other.accept(&param(41, b""), None).unwrap();
    a.expect(EventKind::ConnectResponse);
    third.reject_with(RejectReason::NoResources, b"sorry").unwrap();
    let event = b.expect(EventKind::Rejected);
    assert_eq!((event.status(), event.private_data()), (3, &filled(b"sorry", 148)[..]));
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    // Bound alone is not enough, and neither is another space.
    let bound = b.id();
    bound.bind(at(1, false, 7)).unwrap();
    let _other = b.listen(PortSpace::Udp, 7);
    for port in [7, 8] {
        let id = a.resolved(PortSpace::Tcp, at(1, false, port));
        id.connect(&param(17, b"")).unwrap();
        let event = a.expect(EventKind::Rejected);
        assert_eq!(event.status(), i32::from(RejectReason::InvalidServiceId.code()));
    }
    b.quiet();
}

#[test]
fn a_card_connects_with_itself_by_its_own_address_and_by_loopback_addresses() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let _listener = a.listen(PortSpace::Tcp, 1);
    let loopback = ["127.0.0.1:1", "[::1]:1", "0.0.0.0:1"].map(|text| text.parse().unwrap());
    for to in [at(0, false, 1), at(0, true, 1)].into_iter().chain(loopback) {
        let id = a.resolved(PortSpace::Tcp, to);
        assert_eq!(id.route().unwrap().way.dst_mac, mac(0));
        assert_eq!(id.remote(), Some(at(0, to.is_ipv6(), 1)));
        let (mut near, mut far) = (Noted::new(2), Noted::new(3));
        id.connect(&param(2, b"")).unwrap();
        let (other, event) = a.request();
        drop(event);
        other.accept(&param(3, b""), Some(&mut far)).unwrap();
        let mut event = a.expect(EventKind::ConnectResponse);
        id.complete(&mut event, &mut near);
        assert_eq!(a.expect(EventKind::Established).id(), other.number());
        id.disconnect(&[], None).unwrap();
        let ended = [a.expect(EventKind::Disconnected).id(), a.expect(EventKind::Disconnected).id()];
        assert!(ended.contains(&id.number()) && ended.contains(&other.number()));
        wire.pass(Duration::from_secs(2));
        a.expect(EventKind::TimeWaitExit);
        a.expect(EventKind::TimeWaitExit);
    }
}

#[test]
fn sixty_four_connections_come_up_at_once_and_each_has_its_own_bytes() {
    const COUNT: u32 = 64;
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let resolved = |_| a.resolved(PortSpace::Tcp, at(1, false, 1));
    let ids: Vec<_> = (0..COUNT).map(resolved).collect();
    for (n, id) in (0..).zip(&ids) {
        id.set_context(n as usize);
        id.connect(&param(100 + n, &[n as u8; 56])).unwrap();
    }
    let mut others = Vec::new();
    for _ in 0..COUNT {
        let (other, event) = b.request();
        let n = event.conn().unwrap().qp_num - 100;
        assert_eq!(event.private_data(), [n as u8; 56]);
        other.accept(&param(0, &[n as u8; 196]), Some(&mut Noted::new(500 + n))).unwrap();
        others.push(other);
    }
    for _ in 0..COUNT {
        let mut event = a.expect(EventKind::ConnectResponse);
        let n = event.context() as u32;
        assert_eq!((event.conn().unwrap().qp_num, event.private_data()), (500 + n, &[n as u8; 196][..]));
        ids[n as usize].complete(&mut event, &mut Noted::new(100 + n));
        assert_eq!(event.kind(), EventKind::Established);
    }
    (0..COUNT).for_each(|_| drop(b.expect(EventKind::Established)));
    ids.iter().for_each(|id| id.disconnect(&[], None).unwrap());
    for _ in 0..COUNT {
        a.expect(EventKind::Disconnected);
        b.expect(EventKind::Disconnected);
    }
    assert!(others.iter().all(|other| other.phase() == Phase::Disconnected));
    assert_eq!(wire.count(0, "Dreq"), COUNT as usize);
}

#[test]
fn requests_beyond_the_backlog_come_when_there_is_room() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.id();
    listener.bind(at(1, false, 1)).unwrap();
    listener.listen(2).unwrap();
    let ids: Vec<_> = (0..3).map(|_| a.resolved(PortSpace::Tcp, at(1, false, 1))).collect();
    for (n, id) in (0..).zip(&ids) {
        id.connect(&param(100 + n, &[])).unwrap();
    }
    until("all have asked", || wire.count(0, "Req") == 3 && wire.delivered(1));
    assert_eq!(listener.phase(), Phase::Listening);
    let first = b.request();
    let second = b.request();
    b.quiet();
    // The third one asks again.
    let mut event = next_while_time_passes(&wire, &b.channel, Duration::from_millis(200));
    let third = event.take_request().unwrap();
    let numbers = [first.1.conn(), second.1.conn(), event.conn()].map(|conn| conn.unwrap().qp_num);
    assert_eq!(numbers, [100, 101, 102]);
    drop((first, second, third, event));
    (0..3).for_each(|_| drop(a.expect(EventKind::Rejected)));
}

/// The time-outs of the asker would be over long before.
#[test]
fn a_program_that_takes_its_time_is_waited_for() {
    let wire = Wire::new(2);
    let (a, b) = (Host::with(&wire, 0, hasty(), 1), Host::with(&wire, 1, hasty(), 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let pass = |long: Duration| {
        for _ in 0..long.as_millis() / 50 {
            wire.pass(Duration::from_millis(50));
        }
    };
    let (other, _) = b.request();
    pass(Duration::from_secs(3));
    assert!(wire.count(1, "Mra") > 0);
    other.accept(&param(40, b""), None).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    pass(Duration::from_secs(3));
    assert!(wire.count(0, "Mra") > 0);
    id.complete(&mut event, &mut Noted::new(17));
    assert_eq!(event.kind(), EventKind::Established);
    b.expect(EventKind::Established);
}

#[test]
fn options_reach_the_messages_and_the_queue_pairs_of_both_sides() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.listen(PortSpace::Tcp, 1);
    listener.set_options(|options| options.min_rnr_timer = 3);
    assert_eq!(listener.options().min_rnr_timer, 3);
    let id = a.id();
    id.set_transport(Transport::Uc).unwrap();
    id.set_transport(Transport::Rc).unwrap();
    id.set_options(|options| {
        (options.traffic_class, options.ack_timeout, options.path_mtu) = (0x68, 9, PathMtu::B4096);
    });
    id.resolve_address(None, at(1, true, 1), RESOLVE).unwrap();
    a.expect(EventKind::AddressResolved);
    id.resolve_route().unwrap();
    a.expect(EventKind::RouteResolved);
    // More than the cards can.
    id.connect(&ConnParam { responder_resources: 255, initiator_depth: 255, ..param(17, b"") }).unwrap();
    let (other, event) = b.request();
    let conn = event.conn().unwrap();
    assert_eq!((conn.responder_resources, conn.initiator_depth), (16, 8));
    let (mut near, mut far) = (Noted::new(17), Noted::new(40));
    other
        .accept(
            &ConnParam { responder_resources: 255, initiator_depth: 255, ..param(0, b"") },
            Some(&mut far),
        )
        .unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    id.complete(&mut event, &mut near);
    for qp in [&near, &far] {
        let (rtr, rts) = (qp.to(QpState::Rtr), qp.to(QpState::Rts));
        assert_eq!((rtr.path_mtu, rtr.av.unwrap().traffic_class), (Some(PathMtu::B4096), 0x68));
        assert_eq!((rts.timeout, rtr.max_dest_rd_atomic, rts.max_rd_atomic), (Some(9), Some(8), Some(8)));
    }
    assert_eq!(far.to(QpState::Rtr).min_rnr_timer, Some(3));
    let Some((_, mad)) = wire.sent().into_iter().find(|(_, mad)| matches!(mad.message, Message::Req(_)))
    else {
        panic!("asked")
    };
    let Message::Req(req) = mad.message else { panic!("asked") };
    assert_eq!((req.primary_traffic_class, req.primary_local_ack_timeout, req.path_mtu), (0x68, 9, 5));
}

/// `rdma_set_option` on a request, and on an asker that has its answer.
#[test]
fn options_that_are_set_late_reach_the_queue_pairs() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.listen(PortSpace::Tcp, 1);
    listener.set_options(|options| options.ack_timeout = 20);
    let connect = |late: bool| {
        let id = a.id();
        id.set_options(|options| options.ack_timeout = 9);
        id.resolve_address(None, at(1, false, 1), RESOLVE).unwrap();
        a.expect(EventKind::AddressResolved);
        id.resolve_route().unwrap();
        a.expect(EventKind::RouteResolved);
        id.connect(&param(17, b"")).unwrap();
        let (other, _) = b.request();
        let (mut near, mut far) = (Noted::new(17), Noted::new(40));
        if late {
            other.set_options(|options| (options.min_rnr_timer, options.ack_timeout) = (3, 11));
        }
        other.accept(&param(0, b""), Some(&mut far)).unwrap();
        let mut event = a.expect(EventKind::ConnectResponse);
        if late {
            id.set_options(|options| (options.min_rnr_timer, options.ack_timeout) = (4, 12));
        }
        id.complete(&mut event, &mut near);
        b.expect(EventKind::Established);
        [near, far].map(|qp| (qp.to(QpState::Rtr).min_rnr_timer, qp.to(QpState::Rts).timeout))
    };
    assert_eq!(connect(false), [(Some(12), Some(9)); 2]);
    assert_eq!(connect(true), [(Some(4), Some(12)), (Some(3), Some(11))]);
}

#[test]
fn reads_outstanding_are_the_smaller_number_of_both_sides() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    for (asks, answers) in [((4, 3), (1, 2)), ((1, 2), (4, 3)), ((0, 5), (5, 0))] {
        let with = |qp, (responder_resources, initiator_depth)| ConnParam {
            responder_resources,
            initiator_depth,
            ..param(qp, b"")
        };
        let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
        id.connect(&with(17, asks)).unwrap();
        let (other, _) = b.request();
        let (mut near, mut far) = (Noted::new(17), Noted::new(40));
        other.accept(&with(0, answers), Some(&mut far)).unwrap();
        let mut event = a.expect(EventKind::ConnectResponse);
        id.complete(&mut event, &mut near);
        b.expect(EventKind::Established);
        let outstanding = |qp: &Noted| qp.to(QpState::Rts).max_rd_atomic.unwrap();
        let taken = |qp: &Noted| qp.to(QpState::Rtr).max_dest_rd_atomic.unwrap();
        assert_eq!(outstanding(&near), u8::min(asks.1, answers.0));
        assert_eq!(outstanding(&far), u8::min(asks.0, answers.1));
        assert_eq!(taken(&far), u8::min(asks.1, answers.0));
        assert_eq!(taken(&near), u8::min(asks.0, answers.1));
        drop((id, other));
    }
}

/// The answer of another manager may name more than was asked for: the asker goes by it as far as its card does (as Linux).
#[test]
fn reads_of_an_answer_beyond_the_request_are_taken_as_far_as_the_card_goes() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    wire.set_fate(|_, message| usize::from(!matches!(message, Message::Rep(_))));
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&ConnParam { responder_resources: 1, initiator_depth: 1, ..param(17, b"") }).unwrap();
    let (other, _) = b.request();
    other.accept(&param(40, b""), None).unwrap();
    let sent = wire.sent();
    let rep = sent.iter().find_map(|(_, mad)| match mad.message {
        Message::Rep(rep) => Some(rep),
        _ => None,
    });
    let path = ferrowire_net::Path { local: ip(0, false), remote: ip(1, false) };
    // The card answers 8 READs, and has 16 outstanding.
    let more = ferrowire_net::mad::Rep { responder_resources: 5, initiator_depth: 9, ..rep.unwrap() };
    wire.inject(0, path, more.into());
    a.expect(EventKind::ConnectResponse);
    let (rtr, rts) = (id.qp_attributes(QpState::Rtr).unwrap(), id.qp_attributes(QpState::Rts).unwrap());
    assert_eq!((rtr.max_dest_rd_atomic, rts.max_rd_atomic), (Some(8), Some(5)));
}

/// As on Linux: the queue pair ends whatever the state is, and the other side hears of connections alone.
#[test]
fn what_is_not_connected_yet_disconnects_without_a_message() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    let errs = |id: &ferrowire_net::rdma::Id, good: bool| {
        let mut qp = Noted::new(17);
        assert_eq!(id.disconnect(&[], Some(&mut qp)).is_ok(), good);
        assert_eq!(qp.states(), [QpState::Err]);
    };
    errs(&id, false);
    id.connect(&param(17, b"")).unwrap();
    errs(&id, true);
    let (other, _) = b.request();
    errs(&other, true);
    other.accept(&param(40, b""), None).unwrap();
    a.expect(EventKind::ConnectResponse);
    errs(&id, true);
    assert_eq!((id.phase(), other.phase()), (Phase::Replied, Phase::Accepted));
    assert_eq!(wire.count(0, "Dreq") + wire.count(0, "Rej") + wire.count(1, "Rej"), 0);
    id.establish().unwrap();
    b.expect(EventKind::Established);
    errs(&other, true);
    assert_eq!(a.expect(EventKind::Disconnected).id(), id.number());
}

#[test]
fn a_connection_without_acknowledgements_has_fewer_attributes() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.set_transport(Transport::Uc).unwrap();
    id.connect(&param(17, b"")).unwrap();
    let (other, event) = b.request();
    drop(event);
    assert_eq!(other.transport(), Transport::Uc);
    let (mut near, mut far) = (Noted::new(17), Noted::new(40));
    other.accept(&param(0, b""), Some(&mut far)).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    id.complete(&mut event, &mut near);
    for qp in [&near, &far] {
        for (state, _) in &qp.steps {
            let mask = qp.to(*state).mask();
            let from = if *state == QpState::Rtr { QpState::Init } else { QpState::Rtr };
            ferrowire::spec::qp_state::check(Transport::Uc, from, *state, mask).unwrap();
        }
    }
}

#[test]
fn bytes_beyond_a_message_are_refused_and_change_nothing() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    assert!(id.connect(&param(17, &[0; 57])).is_err());
    id.connect(&param(17, &[1; 56])).unwrap();
    let (other, event) = b.request();
    assert_eq!(event.private_data(), [1; 56]);
    assert!(other.reject(&[0; 149]).is_err());
    assert!(other.accept(&param(40, &[0; 197]), None).is_err());
    other.accept(&param(40, &[2; 196]), None).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    assert_eq!(event.private_data(), [2; 196]);
    id.complete(&mut event, &mut Noted::new(17));
    assert!(id.disconnect(&[0; 221], None).is_err());
    id.disconnect(&[3; 220], None).unwrap();
    b.expect(EventKind::Established);
    assert_eq!(b.expect(EventKind::Disconnected).private_data(), [3; 220]);
}

/// `rdma_disconnect` between the answer and `rdma_establish` sends nothing on Linux, too.
#[test]
fn an_answer_that_the_program_has_not_confirmed_is_rejected_and_not_disconnected() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    let mut near = Noted::new(17);
    id.connect(&param(17, b"")).unwrap();
    let (other, _) = b.request();
    other.accept(&param(40, b""), None).unwrap();
    a.expect(EventKind::ConnectResponse);
    id.disconnect(&[], Some(&mut near)).unwrap();
    // Nothing has happened to the connection.
    assert_eq!((near.states(), id.phase()), (vec![QpState::Err], Phase::Replied));
    b.quiet();
    id.reject(b"").unwrap();
    assert_eq!(b.expect(EventKind::Rejected).id(), other.number());
}

/// The asked program may end what it has accepted before the asker is ready.
#[test]
fn an_asked_program_that_disconnects_at_once_refuses() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    wire.set_fate(|_, message| usize::from(!matches!(message, Message::Rep(_))));
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let (other, _) = b.request();
    other.accept(&param(40, b""), None).unwrap();
    assert_eq!(other.phase(), Phase::Accepted);
    other.disconnect(b"", None).unwrap();
    assert_eq!(a.expect(EventKind::Rejected).status(), 28);
    assert_eq!(b.expect(EventKind::Disconnected).status(), 0);
    assert_eq!((id.phase(), other.phase()), (Phase::Ended, Phase::Disconnected));
}

/// `rdma_notify`: what the queue pair receives says that the asker is ready.
#[test]
fn an_asker_whose_word_is_lost_is_known_to_be_ready_by_what_it_sends() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    wire.set_fate(|_, message| usize::from(!matches!(message, Message::Rtu(_))));
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let (other, _) = b.request();
    other.accept(&param(40, b""), None).unwrap();
    let mut event = a.expect(EventKind::ConnectResponse);
    id.complete(&mut event, &mut Noted::new(17));
    b.quiet();
    assert_eq!(other.phase(), Phase::Accepted);
    other.communication_established();
    b.expect(EventKind::Established);
    other.communication_established();
    b.quiet();
}
