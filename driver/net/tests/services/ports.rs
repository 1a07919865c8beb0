// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses and ports.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ferrowire_net::mad::PortSpace;
use ferrowire_net::rdma::{EventKind, Phase};
use ferrowire_net::Error;
use rustix::io::Errno;

use crate::rig::*;

fn any(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

#[test]
fn an_address_that_nobody_has_is_an_error_after_the_time_that_was_given() {
    for ipv6 in [false, true] {
        let wire = Wire::new(2);
        let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
        let _listener = b.listen(PortSpace::Tcp, 1);
        let id = a.id();
        id.resolve_address(None, at(7, ipv6, 1), RESOLVE).unwrap();
        assert_eq!(id.phase(), Phase::ResolvingAddress);
        wire.pass(RESOLVE - Duration::from_millis(1));
        a.quiet();
        wire.pass(Duration::from_millis(1));
        let event = a.expect(EventKind::AddressError);
        assert_eq!((event.status(), event.id()), (-Errno::TIMEDOUT.raw_os_error(), id.number()));
        // It may try another one.
        assert_eq!(id.phase(), Phase::Bound);
        id.resolve_address(None, at(1, ipv6, 1), RESOLVE).unwrap();
        a.expect(EventKind::AddressResolved);
    }
}

#[test]
fn an_address_without_a_way_is_refused_at_once() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let refused = |source: Option<SocketAddr>, to: &str| {
        a.id().resolve_address(source, to.parse().unwrap(), RESOLVE).unwrap_err().errno()
    };
    assert_eq!(refused(None, "192.168.9.9:1"), Errno::NETUNREACH);
    assert_eq!(refused(None, "224.0.0.1:1"), Errno::OPNOTSUPP);
    assert_eq!(refused(None, "[ff02::1]:1"), Errno::OPNOTSUPP);
    assert_eq!(refused(Some(at(5, false, 0)), "10.0.0.2:1"), Errno::ADDRNOTAVAIL);
    assert_eq!(refused(Some(at(0, true, 0)), "10.0.0.2:1"), Errno::NETUNREACH);
}

#[test]
fn a_source_that_is_given_is_the_one_that_the_other_side_sees() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let _listener = b.listen(PortSpace::Tcp, 1);
    let wanted = at(0, false, 4711);
    for bind in [false, true] {
        let id = a.id();
        if bind {
            id.bind(wanted).unwrap();
        }
        let source = (!bind).then_some(wanted);
        id.resolve_address(source, at(1, false, 1), RESOLVE).unwrap();
        a.expect(EventKind::AddressResolved);
        id.resolve_route().unwrap();
        a.expect(EventKind::RouteResolved);
        id.connect(&param(17, b"")).unwrap();
        let (other, _) = b.request();
        assert_eq!((id.local(), other.remote()), (Some(wanted), Some(wanted)));
        drop(other);
        a.expect(EventKind::Rejected);
    }
    // Bound to all addresses, it goes out from one.
    let id = a.id();
    id.bind(any(0)).unwrap();
    let port = id.local().unwrap().port();
    id.resolve_address(None, at(1, false, 1), RESOLVE).unwrap();
    assert_eq!(id.local(), Some(at(0, false, port)));
}

#[test]
fn ports_are_chosen_shared_taken_and_given_back() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let first = a.id();
    first.bind(any(0)).unwrap();
    let port = first.local().unwrap().port();
    assert!((32_768..=60_999).contains(&port));
    let second = a.id();
    let error = second.bind(at(0, false, port)).unwrap_err();
    assert!(matches!(error, Error::AddressInUse(_)) && error.errno() == Errno::ADDRINUSE, "{error}");
    assert_eq!(second.phase(), Phase::Idle);
    // Another space, and another family.
    a.id_of(PortSpace::Udp).bind(any(port)).unwrap();
    second.bind(at(0, true, port)).unwrap();
    let error = second.bind(any(0)).unwrap_err();
    assert!(matches!(error, Error::State { .. }), "{error}");
    first.destroy();
    let third = a.id();
    third.bind(at(0, false, port)).unwrap();
    // Both may have it with the option, until one listens.
    let shared: Vec<_> = (0..2).map(|_| a.id()).collect();
    for id in &shared {
        id.set_options(|options| options.reuse_address = true);
        id.bind(any(99)).unwrap();
    }
    assert_eq!(shared[0].listen(1).unwrap_err().errno(), Errno::ADDRINUSE);
    let foreign = a.id().bind(at(3, false, 1)).unwrap_err();
    assert_eq!(foreign.errno(), Errno::ADDRNOTAVAIL);
}

#[test]
fn options_that_are_set_after_the_bind_count_for_those_that_bind_after_that() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let every = SocketAddr::from(([0u16; 8], 99));
    let (first, second) = (a.id(), a.id());
    first.bind(every).unwrap();
    second.set_options(|options| options.reuse_address = true);
    assert_eq!(second.bind(every).unwrap_err().errno(), Errno::ADDRINUSE);
    first.set_options(|options| options.reuse_address = true);
    second.bind(every).unwrap();
    second.destroy();
    // Of IPv6 alone it leaves IPv4 to another one.
    first.set_options(|options| (options.reuse_address, options.only_family) = (false, true));
    let third = a.id();
    third.bind(any(99)).unwrap();
    third.listen(1).unwrap();
    first.listen(1).unwrap();
}

#[test]
fn scope_and_flow_of_an_address_stay_with_it() {
    let wire = Wire::new(2);
    let (a, _b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let scoped = |host: usize, port, scope| {
        let IpAddr::V6(ip) = ip(host, true) else { panic!("it is of IPv6") };
        SocketAddr::from(std::net::SocketAddrV6::new(ip, port, 0x1234, scope))
    };
    let id = a.id();
    id.bind(scoped(0, 4711, 3)).unwrap();
    assert_eq!(id.local(), Some(scoped(0, 4711, 3)));
    id.resolve_address(None, scoped(1, 1, 5), RESOLVE).unwrap();
    a.expect(EventKind::AddressResolved);
    assert_eq!((id.local(), id.remote()), (Some(scoped(0, 4711, 3)), Some(scoped(1, 1, 5))));
}

#[test]
fn a_listener_without_an_address_gets_a_port_and_one_of_an_address_gets_only_its_requests() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let free = b.id();
    free.listen(1).unwrap();
    let port = free.local().unwrap().port();
    let specific = b.id();
    specific.bind(at(1, true, port)).unwrap();
    specific.listen(1).unwrap();
    for ipv6 in [false, true] {
        let id = a.resolved(PortSpace::Tcp, at(1, ipv6, port));
        id.connect(&param(17, b"")).unwrap();
        let (other, event) = b.request();
        let listener = if ipv6 { &specific } else { &free };
        assert_eq!(event.listen_id(), Some(listener.number()));
        assert_eq!(other.local().unwrap().ip(), ip(1, ipv6));
        drop(other);
        a.expect(EventKind::Rejected);
    }
    // The other one goes on when one ends.
    free.destroy();
    let refused = a.resolved(PortSpace::Tcp, at(1, false, port));
    refused.connect(&param(17, b"")).unwrap();
    assert_eq!(a.expect(EventKind::Rejected).status(), 8);
    let served = a.resolved(PortSpace::Tcp, at(1, true, port));
    served.connect(&param(18, b"")).unwrap();
    b.request();
}

#[test]
fn neighbours_and_echoes_are_answered_while_no_call_is_under_way() {
    let wire = Wire::new(2);
    let (a, _b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    for ipv6 in [false, true] {
        let host: IpAddr = ip(1, ipv6);
        assert_eq!(a.service.net().resolve(host).unwrap(), mac(1));
        a.service.net().ping(host, 56, Duration::from_secs(1)).unwrap();
    }
}

#[test]
fn operations_out_of_order_say_where_the_identifier_stands() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.listen(PortSpace::Tcp, 1);
    let id = a.id();
    let early: Vec<Error> = [
        id.connect(&param(1, b"")),
        id.resolve_route(),
        id.accept(&param(1, b""), None),
        id.reject(b""),
        id.establish(),
        id.disconnect(b"", None),
        listener.connect(&param(1, b"")),
        listener.resolve_address(None, at(0, false, 1), RESOLVE),
    ]
    .into_iter()
    .map(Result::unwrap_err)
    .collect();
    for error in early {
        assert!(matches!(error, Error::State { .. }) && error.errno() == Errno::INVAL, "{error}");
    }
    let id = a.resolved(PortSpace::Tcp, at(1, false, 1));
    assert!(id.listen(1).is_err() && id.resolve_route().is_err());
}
