// SPDX-License-Identifier: MIT OR Apache-2.0
//! Channels: their file, their order, and acknowledgements.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrowire_net::mad::PortSpace;
use ferrowire_net::rdma::{Channel, EventKind};
use ferrowire_net::Error;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};

use crate::rig::*;

fn readable(channel: &Channel) -> bool {
    poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
}

/// An identifier with so many events on the channel: its address, and its route.
#[test]
fn the_file_can_be_read_exactly_while_there_are_events() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    assert!(!readable(&a.channel));
    let id = a.id();
    id.resolve_address(None, at(0, false, 1), RESOLVE).unwrap();
    id.resolve_route().unwrap();
    assert!(readable(&a.channel));
    a.expect(EventKind::AddressResolved);
    assert!(readable(&a.channel));
    a.expect(EventKind::RouteResolved);
    assert!(!readable(&a.channel));
    // What an identifier leaves when it ends is no event.
    let gone = a.id();
    gone.resolve_address(None, at(0, false, 1), RESOLVE).unwrap();
    assert!(readable(&a.channel));
    gone.destroy();
    assert!(!readable(&a.channel));
}

/// Or its child does, after a fork.
#[test]
fn a_program_that_reads_the_file_itself_stops_nothing() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let id = a.id();
    id.resolve_address(None, at(0, false, 1), RESOLVE).unwrap();
    assert_eq!(rustix::io::read(&a.channel, &mut [0; 8]).unwrap(), 8);
    let (done, taken) = std::sync::mpsc::channel();
    let channel = a.channel.clone();
    std::thread::spawn(move || done.send(channel.try_next().map(|event| event.kind())));
    let kind = taken.recv_timeout(PATIENCE);
    if kind.is_err() {
        // The test fails, and does not hang with the thread that waits.
        rustix::io::write(&a.channel, &1u64.to_ne_bytes()).unwrap();
    }
    assert_eq!(kind.unwrap(), Some(EventKind::AddressResolved));
    // And the next one is there as always.
    assert!(!readable(&a.channel));
    id.resolve_route().unwrap();
    assert!(readable(&a.channel));
    a.expect(EventKind::RouteResolved);
    assert!(!readable(&a.channel));
}

#[test]
fn an_edge_comes_with_each_event() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let file = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    epoll::add(&file, &a.channel, EventData::new_u64(1), EventFlags::IN | EventFlags::ET).unwrap();
    let edge = || {
        let mut events = Vec::with_capacity(1);
        epoll::wait(&file, rustix::buffer::spare_capacity(&mut events), Some(&Timespec::default())).unwrap()
            == 1
    };
    assert!(!edge());
    let id = a.id();
    id.resolve_address(None, at(0, false, 1), RESOLVE).unwrap();
    assert!(edge() && !edge());
    id.resolve_route().unwrap();
    assert!(edge() && !edge());
}

#[test]
fn a_channel_waits_or_says_again() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let id = a.id();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| a.channel.next().map(|event| event.kind()));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        id.resolve_address(None, at(0, false, 1), RESOLVE).unwrap();
        assert_eq!(waiter.join().unwrap().unwrap(), EventKind::AddressResolved);
    });
    fcntl_setfl(&a.channel, fcntl_getfl(&a.channel).unwrap() | OFlags::NONBLOCK).unwrap();
    let error = a.channel.next().unwrap_err();
    assert!(matches!(error, Error::WouldBlock), "{error}");
    id.resolve_route().unwrap();
    assert_eq!(a.channel.next().unwrap().kind(), EventKind::RouteResolved);
}

#[test]
fn many_threads_take_each_event_once() {
    const IDS: usize = 100;
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let ids: Vec<_> = (0..IDS).map(|_| a.id()).collect();
    let taken: Vec<u64> = std::thread::scope(|scope| {
        let take = || (0..IDS / 4).map(|_| a.channel.next().unwrap().id()).collect::<Vec<_>>();
        let takers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        ids.iter().for_each(|id| id.resolve_address(None, at(0, false, 1), RESOLVE).unwrap());
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect()
    });
    let mut taken = taken;
    taken.sort_unstable();
    assert_eq!(taken, ids.iter().map(|id| id.number()).collect::<Vec<_>>());
    assert!(!readable(&a.channel));
}

#[test]
fn the_end_of_an_identifier_waits_for_the_events_that_the_program_has() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let id = a.id();
    id.resolve_address(None, at(1, false, 1), RESOLVE).unwrap();
    let event = a.expect(EventKind::AddressResolved);
    id.resolve_route().unwrap();
    let ended = AtomicBool::new(false);
    let ends = |destroy: Box<dyn FnOnce() + Send + '_>, event| {
        ended.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                destroy();
                ended.store(true, Ordering::Relaxed);
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!ended.load(Ordering::Relaxed));
            drop(event);
            waiter.join().unwrap();
        });
    };
    ends(Box::new(move || id.destroy()), event);
    a.quiet();
    // A request is its listener's to acknowledge, and not that of the new identifier.
    let listener = b.listen(PortSpace::Tcp, 1);
    let asker = a.resolved(PortSpace::Tcp, at(1, false, 1));
    asker.connect(&param(17, b"")).unwrap();
    let (other, event) = b.request();
    other.destroy();
    ends(Box::new(move || listener.destroy()), event);
}

#[test]
fn an_identifier_moves_to_another_channel_with_its_events() {
    let wire = Wire::new(1);
    let a = Host::new(&wire, 0);
    let (id, stays) = (a.id(), a.id());
    for id in [&id, &stays] {
        id.resolve_address(None, at(0, false, 1), RESOLVE).unwrap();
    }
    let other = Channel::new().unwrap();
    id.migrate(&other);
    assert!(id.channel().is(&other));
    assert_eq!(next(&other).id(), id.number());
    assert_eq!(a.next().id(), stays.number());
    id.resolve_route().unwrap();
    assert_eq!(next(&other).kind(), EventKind::RouteResolved);
    assert!(!readable(&a.channel) && !readable(&other));
}

#[test]
fn a_request_goes_on_where_its_listener_has_gone() {
    let wire = Wire::new(2);
    let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
    let listener = b.listen(PortSpace::Tcp, 1);
    let asker = a.resolved(PortSpace::Tcp, at(1, false, 1));
    asker.connect(&param(17, b"")).unwrap();
    until("the request waits", || readable(&b.channel));
    let other = Channel::new().unwrap();
    listener.migrate(&other);
    let mut event = next(&other);
    let request = event.take_request().unwrap();
    assert!(request.channel().is(&other));
    request.accept(&param(40, b""), None).unwrap();
    a.expect(EventKind::ConnectResponse);
    asker.establish().unwrap();
    assert_eq!(next(&other).kind(), EventKind::Established);
    assert!(!readable(&b.channel));
}

#[test]
fn services_of_two_cards_share_a_channel() {
    // An identifier of the other card leaves the channel while a request waits there: it moves, or it ends.
    for moves in [true, false] {
        let wire = Wire::new(2);
        let (a, b) = (Host::new(&wire, 0), Host::new(&wire, 1));
        let channel = Channel::new().unwrap();
        // Each is the first identifier of its card.
        let leaves = a.service.create_id(&channel, PortSpace::Tcp, 0).unwrap();
        let listener = b.service.create_id(&channel, PortSpace::Tcp, 1).unwrap();
        listener.bind(at(1, false, 1)).unwrap();
        listener.listen(1).unwrap();
        let id = a.service.create_id(&channel, PortSpace::Tcp, 2).unwrap();
        assert_ne!(leaves.number(), listener.number());
        id.resolve_address(None, at(1, false, 1), RESOLVE).unwrap();
        assert_eq!(next(&channel).context(), 2);
        id.resolve_route().unwrap();
        assert_eq!(next(&channel).context(), 2);
        id.connect(&param(17, b"")).unwrap();
        until("the request is there", || readable(&channel));
        match moves {
            true => {
                let other = Channel::new().unwrap();
                leaves.migrate(&other);
                assert!(!readable(&other));
            }
            false => leaves.destroy(),
        }
        let event = next(&channel);
        assert_eq!((event.kind(), event.listen_context()), (EventKind::ConnectRequest, Some(1)));
        assert_eq!(event.listen_id(), Some(listener.number()));
    }
}
