// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagram services, found by SIDR.

use std::time::Duration;

use ferrowire::{QpState, Service as Transport};
use ferrowire_net::mad::{Message, PortSpace, SidrStatus};
use ferrowire_net::rdma::{EventKind, Phase, QKEY};

use crate::rig::*;

const SPACES: [PortSpace; 2] = [PortSpace::Udp, PortSpace::Ipoib];

#[test]
fn a_datagram_service_is_found_with_its_queue_pair_key_and_way_and_the_bytes_of_both_programs() {
    for (space, ipv6) in SPACES.into_iter().zip([false, true]) {
        let wire = Wire::new(2);
        let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
        let listener = b.listen(space, 7174);
        let id = a.resolved(space, at(1, ipv6, 7174));
        assert_eq!(id.transport(), Transport::Ud);
        // Queue pairs of datagrams need no other side to come up.
        let mut near = Noted::new(17);
        id.init_qp(&mut near).unwrap();
        assert_eq!(near.states(), [QpState::Init, QpState::Rtr, QpState::Rts]);
        assert_eq!(near.to(QpState::Init).qkey, Some(QKEY));
        id.connect(&param(17, &[7; 180])).unwrap();

        let (other, event) = b.request();
        assert_eq!((event.listen_id(), event.private_data()), (Some(listener.number()), &[7; 180][..]));
        assert_eq!(event.ud().unwrap().way.unwrap().dst_ip, ip(0, ipv6));
        drop(event);
        assert_eq!((other.port_space(), other.remote()), (space, id.local()));
        let mut far = Noted::new(40);
        other.init_qp(&mut far).unwrap();
        other.accept(&param(40, &[8; 136]), None).unwrap();

        let event = a.expect(EventKind::Established);
        let ud = event.ud().unwrap();
        assert_eq!((event.status(), ud.qp_num, ud.qkey), (0, 40, QKEY));
        assert_eq!(event.private_data(), [8; 136]);
        let way = ud.way.unwrap();
        assert_eq!((way.dst_ip, way.dst_mac), (ip(1, ipv6), mac(1)));
        drop(event);
        assert_eq!((id.phase(), other.phase()), (Phase::Connected, Phase::Connected));
        // There is no connection that could end.
        id.disconnect(&[], Some(&mut near)).unwrap();
        other.disconnect(&[], None).unwrap();
        id.destroy();
        other.destroy();
        a.quiet();
        b.quiet();
        assert_eq!((wire.count(0, "SidrReq"), wire.count(1, "SidrRep")), (1, 1));
    }
}

#[test]
fn a_datagram_service_that_refuses_or_is_not_there_is_unreachable_with_its_status() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Udp, 1);
    // The port of another space is none.
    let _tcp = b.listen(PortSpace::Tcp, 2);
    let id = a.resolved(PortSpace::Udp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let (other, event) = b.request();
    drop(event);
    assert!(other.reject(&[0; 137]).is_err());
    other.reject(b"full").unwrap();
    let event = a.expect(EventKind::Unreachable);
    assert_eq!(event.status(), i32::from(SidrStatus::Rejected.code()));
    assert_eq!(event.private_data()[..4], *b"full");
    let id = a.resolved(PortSpace::Udp, at(1, false, 2));
    id.connect(&param(17, b"")).unwrap();
    assert_eq!(a.expect(EventKind::Unreachable).status(), i32::from(SidrStatus::Unsupported.code()));
    assert_eq!(id.phase(), Phase::Ended);
}

#[test]
fn a_lookup_survives_lost_and_doubled_messages_and_is_told_once() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Udp, 1);
    let (mut requests, mut answers) = (0, 0);
    wire.set_fate(move |_, message| match message {
        // The first one is lost, the others come twice.
        Message::SidrReq(_) => {
            requests += 1;
            if requests == 1 {
                0
            } else {
                2
            }
        }
        Message::SidrRep(_) => {
            answers += 1;
            if answers == 1 {
                0
            } else {
                2
            }
        }
        _ => 1,
    });
    let id = a.resolved(PortSpace::Udp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let mut event = next_while_time_passes(&wire, &b.channel, Duration::from_millis(200));
    let other = event.take_request().unwrap();
    other.accept(&param(40, b""), None).unwrap();
    let event = next_while_time_passes(&wire, &a.channel, Duration::from_millis(200));
    assert_eq!((event.kind(), event.ud().unwrap().qp_num), (EventKind::Established, 40));
    a.quiet();
    b.quiet();
}

#[test]
fn a_lookup_that_nobody_answers_is_unreachable_after_all_tries() {
    let wire = Wire::new(2);
    let (a, _b) = (Host::with(&wire, 0, hasty(), 1), Host::new(&wire, 1));
    wire.set_fate(|_, _| 0);
    let id = a.resolved(PortSpace::Udp, at(1, false, 1));
    id.connect(&param(17, b"")).unwrap();
    let event = next_while_time_passes(&wire, &a.channel, Duration::from_millis(10));
    assert_eq!((event.kind(), event.status()), (EventKind::Unreachable, -110));
    assert_eq!(wire.count(0, "SidrReq"), 4);
}
