// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the owner of a card tells its service: the card is gone, the program ends.

use ferrowire_net::mad::PortSpace;
use ferrowire_net::rdma::{EventKind, Phase};
use ferrowire_net::Error;

use crate::rig::*;

#[test]
fn a_card_that_is_gone_is_one_event_for_each_identifier() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let (one, two) = (a.listen(PortSpace::Tcp, 1), a.id());
    a.service.remove("its server has ended");
    // The thread sees it, too, and its owner may say it again.
    a.service.remove("its server has ended");
    a.service.wake();
    for id in [&one, &two] {
        let event = a.expect(EventKind::DeviceRemoval);
        assert_eq!((event.id(), event.status()), (id.number(), -19));
        assert_eq!(id.phase(), Phase::Removed);
    }
    // The thread has ended, so no other event comes.
    assert!(a.channel.try_next().is_none());
    assert!(a.service.failure().unwrap().ends_with("its server has ended"));
    assert!(matches!(two.bind(at(0, false, 2)), Err(Error::Removed { .. })));
    assert!(matches!(a.service.create_id(&a.channel, PortSpace::Tcp, 0), Err(Error::Removed { .. })));
    one.destroy();
    two.destroy();
}

#[test]
fn a_program_that_ends_tells_its_peers_and_its_threads_may_go_on() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let ((near, _), (far, _)) = connected(&a, &b, 1);
    let listener = a.listen(PortSpace::Tcp, 2);
    let asker = b.resolved(PortSpace::Tcp, at(0, false, 2));
    asker.connect(&param(18, b"")).unwrap();
    // It is told, and not taken.
    until("the request was heard", || wire.count(1, "Req") > 0 && wire.delivered(0));
    a.service.end();
    let mut ends: Vec<_> = (0..2).map(|_| b.next()).map(|event| (event.id(), event.kind())).collect();
    ends.sort_by_key(|(id, _)| *id);
    let mut expected = [(far.number(), EventKind::Disconnected), (asker.number(), EventKind::Rejected)];
    expected.sort_by_key(|(id, _)| *id);
    assert_eq!(ends, expected);
    // Another thread of the program may still be at it.
    assert_eq!(listener.phase(), Phase::Listening);
    near.disconnect(&[], None).unwrap();
    near.destroy();
    listener.destroy();
}

#[test]
fn port_spaces_of_connections_are_two_and_have_ports_of_their_own() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let (tcp, ib) = (b.listen(PortSpace::Tcp, 7), b.listen(PortSpace::Ib, 7));
    for (space, listener) in [(PortSpace::Ib, &ib), (PortSpace::Tcp, &tcp)] {
        let id = a.resolved(space, at(1, false, 7));
        id.connect(&param(17, b"")).unwrap();
        let (other, request) = b.request();
        assert_eq!(request.listen_id(), Some(listener.number()));
        assert_eq!(other.port_space(), space);
    }
}
