// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identifiers that end in each of their states.

use std::time::Duration;

use ferrowire_net::mad::PortSpace;
use ferrowire_net::rdma::{EventKind, Id, Phase};
use ferrowire_net::Error;

use crate::rig::*;

/// What leads to a state.
type Step = fn(&mut Stage);

/// Two hosts, an asker on the first and a listener on the second, as far as a state of either.
struct Stage {
    wire: Wire,
    a: Host,
    b: Host,
    listener: Option<Id>,
    id: Option<Id>,
    other: Option<Id>,
}

impl Stage {
    fn until(phase: Phase) -> Self {
        let wire = Wire::new(2);
        let (a, b) = (Host::with(&wire, 0, hasty(), 1), Host::with(&wire, 1, hasty(), 1));
        let listener = b.listen(PortSpace::Tcp, 1);
        let id = a.id();
        let mut stage = Self { wire, a, b, listener: Some(listener), id: Some(id), other: None };
        stage.go(phase);
        stage
    }

    fn id(&self) -> &Id {
        self.id.as_ref().unwrap()
    }

    fn go(&mut self, phase: Phase) {
        let steps: [(Phase, Step); 10] = [
            (Phase::Bound, |s| s.id().bind(at(0, false, 4711)).unwrap()),
            (Phase::ResolvingAddress, |s| s.id().resolve_address(None, at(1, false, 1), RESOLVE).unwrap()),
            (Phase::AddressResolved, |s| drop(s.a.expect(EventKind::AddressResolved))),
            (Phase::RouteResolved, |s| {
                s.id().resolve_route().unwrap();
                s.a.expect(EventKind::RouteResolved);
            }),
            (Phase::Connecting, |s| s.id().connect(&param(17, b"")).unwrap()),
            (Phase::Requested, |s| s.other = Some(s.b.request().0)),
            (Phase::Replied, |s| {
                s.other.as_ref().unwrap().accept(&param(40, b""), None).unwrap();
                s.a.expect(EventKind::ConnectResponse);
            }),
            (Phase::Connected, |s| {
                s.id().establish().unwrap();
                s.b.expect(EventKind::Established);
            }),
            (Phase::Disconnecting, |s| {
                // The other side does not hear of it.
                s.wire.set_fate(|_, _| 0);
                s.id().disconnect(&[], None).unwrap();
            }),
            (Phase::Disconnected, |s| {
                s.wire.set_fate(|_, _| 1);
                let event = next_while_time_passes(&s.wire, &s.a.channel, Duration::from_millis(20));
                assert_eq!(event.kind(), EventKind::Disconnected);
                let event = next_while_time_passes(&s.wire, &s.b.channel, Duration::ZERO);
                assert_eq!(event.kind(), EventKind::Disconnected);
            }),
        ];
        for (to, step) in steps {
            if self.id().phase() == phase {
                return;
            }
            step(self);
            if to == phase {
                return;
            }
        }
    }
}

const PHASES: [Phase; 11] = [
    Phase::Idle,
    Phase::Bound,
    Phase::ResolvingAddress,
    Phase::AddressResolved,
    Phase::RouteResolved,
    Phase::Connecting,
    Phase::Requested,
    Phase::Replied,
    Phase::Connected,
    Phase::Disconnecting,
    Phase::Disconnected,
];

/// The other side hears that it is over, once, and nothing stays: port and queue pair can be used again.
#[test]
fn an_asker_may_end_in_every_state() {
    for phase in PHASES {
        let mut stage = Stage::until(phase);
        stage.wire.set_fate(|_, _| 1);
        stage.id.take().unwrap().destroy();
        let Stage { wire, a, b, other, listener, .. } = stage;
        let event = match phase {
            // The request may have been seen before its asker ended. What is not accepted has no events.
            Phase::Connecting => {
                wire.settle();
                assert_eq!(listener.as_ref().unwrap().phase(), Phase::Listening);
                drop(b.channel.try_next());
                b.quiet();
                None
            }
            Phase::Requested => {
                b.quiet();
                assert_eq!(other.as_ref().unwrap().phase(), Phase::Ended);
                None
            }
            Phase::Replied => Some((b.next(), EventKind::Rejected)),
            Phase::Connected => Some((b.next(), EventKind::Disconnected)),
            // It was not heard the first time.
            Phase::Disconnecting => {
                let event = next_while_time_passes(&wire, &b.channel, Duration::from_millis(20));
                Some((event, EventKind::Disconnected))
            }
            _ => None,
        };
        if let Some((event, kind)) = event {
            assert_eq!(event.kind(), kind, "{phase:?}");
        }
        a.quiet();
        drop(other);
        // The port and the queue pair are free.
        wire.pass(Duration::from_secs(1));
        while b.channel.try_next().is_some() {}
        drop(listener);
        a.id().bind(at(0, false, 4711)).unwrap();
        connected(&a, &b, 1);
    }
}

#[test]
fn the_asked_side_may_end_in_every_state() {
    for (phase, kind) in [
        (Phase::Requested, EventKind::Rejected),
        (Phase::Replied, EventKind::Rejected),
        (Phase::Connected, EventKind::Disconnected),
    ] {
        let mut stage = Stage::until(phase);
        stage.other.take().unwrap().destroy();
        let event = stage.a.next();
        assert_eq!((event.kind(), event.id()), (kind, stage.id().number()), "{phase:?}");
        stage.b.quiet();
        // An answer that is not one any more can be used for nothing.
        if kind == EventKind::Rejected {
            let error = stage.id().establish().unwrap_err();
            assert!(matches!(error, Error::Gone { .. }), "{error}");
        }
    }
}

#[test]
fn a_listener_that_ends_refuses_the_requests_that_its_program_has_not_taken() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.listen(PortSpace::Tcp, 1);
    let ids: Vec<_> = (0..3).map(|_| a.resolved(PortSpace::Tcp, at(1, false, 1))).collect();
    for (n, id) in (17..).zip(&ids) {
        id.connect(&param(n, b"")).unwrap();
    }
    let (taken, _) = b.request();
    until("the others wait", || wire.count(0, "Req") == 3 && wire.delivered(1));
    listener.destroy();
    let mut refused = [a.expect(EventKind::Rejected).id(), a.expect(EventKind::Rejected).id()];
    refused.sort_unstable();
    a.quiet();
    b.quiet();
    assert!(refused.iter().all(|id| ids.iter().any(|other| other.number() == *id)));
    // The one that was taken is the program's.
    taken.accept(&param(40, b""), None).unwrap();
    a.expect(EventKind::ConnectResponse);
}

/// The last identifier of the service takes the thread with it, and its last message leaves before.
#[test]
fn a_service_that_ends_ends_its_connections() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let (near, _far) = connected(&a, &b, 1);
    let events = a.channel.clone();
    // The identifier keeps the thread.
    drop(a);
    wire.settle();
    assert_eq!(near.0.phase(), Phase::Connected);
    drop(near);
    let event = b.expect(EventKind::Disconnected);
    assert_eq!(event.status(), 0);
    drop(event);
    wire.settle();
    assert_eq!((wire.count(0, "Dreq"), wire.count(1, "Drep")), (1, 1));
    assert!(events.try_next().is_none());
    let error = b.id().resolve_address(None, at(0, false, 1), RESOLVE);
    assert!(error.is_ok(), "the other card goes on");
}
