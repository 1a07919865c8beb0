// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that come, go and die; servers that rest and end.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use ferrowire::vfio_user::message::{command, pci, RegionAccess};
use ferrowire::vfio_user::SocketError;
use ferrowire::{Bus, BusError, Monitor, RecvWr, SendWr, TrafficCounter, VfioUserBus};
use ferrowire_sim::pair::{bytes, post};

use super::raw::Raw;
use super::rig::{connect, pair, take_everything, Folder, Mortal, Node, Server, KINDS, PATIENCE};
use super::work::exchange;

#[test]
fn a_client_may_die_at_any_moment_and_the_next_has_the_whole_card() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("lives");
        let mut server = Server::up(&folder, kind);
        let (files, mappings) = (server.files(), server.mappings());
        let b = Node::open(&server.sockets[1], 2);
        for life in 0..20 {
            let (bus, life_line) = Mortal::of(connect(&server.sockets[0]));
            let a = Node::of(bus, 1);
            // An emulated one has more than a program can take.
            if life % 4 == 3 && kind.is_empty() {
                take_everything(&a);
            }
            let (mut qa, qb) = pair(&a, &b);
            let (from, to) = (a.region(16384), b.region(16384));
            // It has much under way when its socket goes, and says goodbye to nothing of it.
            for _ in 0..8 {
                post(&mut qa, &[SendWr::write(1, &[from.sge(0, 16384)], to.remote(0))]);
            }
            std::thread::sleep(Duration::from_millis(life));
            life_line.cut();
            drop((qa, from, a));
            drop((qb, to));
            server.lives();
        }
        let a = Node::open(&server.sockets[0], 1);
        if kind.is_empty() {
            take_everything(&a);
        }
        exchange(&a, &b);
        drop((a, b));
        let end = Instant::now() + PATIENCE;
        while (server.files(), server.mappings()) != (files, mappings) {
            let (f, m) = (server.files(), server.mappings());
            assert!(Instant::now() < end, "{files} files and {mappings} mappings became {f} and {m}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// UC has no acknowledgements: a message completes when the card has read it, before its last packet leaves. The card still sends that packet if the
/// program ends at once, because a system resets a device much later.
#[test]
fn what_has_completed_is_on_the_wire_though_its_program_ends_at_once() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("farewell");
        let mut server = Server::up(&folder, kind);
        let b = Node::open(&server.sockets[1], 2);
        let to = b.region(4096);
        for life in 1..=10u8 {
            let (bus, life_line) = Mortal::of(connect(&server.sockets[0]));
            let a = Node::of(bus, 1);
            let mut other = None;
            let mut qp = a.unreliable(2, |own| other.insert(b.unreliable(1, |_| own)).number());
            let mut batch = other.as_mut().unwrap().start_post_recv();
            batch.post(&RecvWr::new(7, &[to.sge(0, 4096)])).unwrap();
            batch.ring().unwrap();
            let from = a.region(4096);
            from.memory().fill(0, 4096, life);
            post(&mut qp, &[SendWr::send(1, &[from.sge(0, 4000)]).signaled()]);
            a.completions(1);
            life_line.cut();
            drop((qp, from, a));
            let received = b.completions(1)[0];
            assert_eq!((received.wr_id(), received.byte_len()), (7, 4000));
            assert!(bytes(to.memory())[..4000].iter().all(|byte| *byte == life));
        }
        server.lives();
    }
}

#[test]
fn a_second_client_is_told_that_the_card_is_in_use() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("second");
        let server = Server::up(&folder, kind);
        let first = connect(&server.sockets[0]);
        for _ in 0..20 {
            let error = VfioUserBus::connect(&server.sockets[0]).unwrap_err();
            assert!(matches!(error, SocketError::Busy), "{error}");
        }
        drop(first);
        // At once: who has hung up has the card no more, and nothing that he left in its registers is there.
        let promiscuous = ferrowire::spec::csr::port::BLOCK.address(&ferrowire::spec::csr::port::LINK);
        for _ in 0..20 {
            let mut next = connect(&server.sockets[0]);
            assert_eq!(next.csr_read32(promiscuous).unwrap() & 2, 0);
            next.csr_write32(promiscuous, 2).unwrap();
            assert_eq!(next.csr_read32(promiscuous).unwrap() & 2, 2);
            // Much of what he posted is unread when he leaves.
            (0..200).for_each(|_| next.csr_write32(promiscuous, 2).unwrap());
        }
    }
}

#[test]
fn observers_see_a_card_at_work_and_change_nothing() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("observers");
        let mut server = Server::up(&folder, kind);
        // Nobody has the card: it can be looked at.
        let mut early = Monitor::open(VfioUserBus::observe(&server.sockets[0]).unwrap()).unwrap();
        let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
        let mut late = Monitor::open(VfioUserBus::observe(&server.sockets[0]).unwrap()).unwrap();
        let before = late.card_cycles().unwrap().expect("the card is simulated");
        exchange(&a, &b);
        assert_eq!(late.capabilities(), a.context.capabilities());
        assert_eq!(late.port().unwrap().mac, a.context.mac());
        assert!(late.card_cycles().unwrap().unwrap() > before);
        for monitor in [&mut early, &mut late] {
            let frames = monitor.traffic_counter(TrafficCounter::TxFrames).unwrap();
            assert_eq!(frames, a.context.traffic_counter(TrafficCounter::TxFrames).unwrap());
            assert!(frames > 0);
        }
        // What they may not do is refused on this side, and on the other.
        let mut bus = VfioUserBus::observe(&server.sockets[0]).unwrap();
        let refused = |error: BusError| matches!(error, BusError::Observed { .. });
        assert!(
            refused(bus.csr_write32(0x180, 0).unwrap_err()) && refused(bus.doorbell(0x10000, 0).unwrap_err())
        );
        assert!(refused(bus.dma_alloc(4096, 4096).unwrap_err()) && refused(bus.interrupt(1).unwrap_err()));
        let mut raw = Raw::observe(&server.sockets[0]);
        let access = RegionAccess { offset: 0x180, region: pci::BAR0, count: 4 }.to_bytes();
        let eperm = Err(rustix::io::Errno::PERM.raw_os_error());
        let write = [&access[..], &[7, 0, 0, 0]].concat();
        assert_eq!(raw.ask(command::REGION_WRITE, &write, &[]).unwrap().map(|_| ()), eperm);
        assert_eq!(raw.ask(command::DEVICE_RESET, &[], &[]).unwrap().map(|_| ()), eperm);
        // There is an end to their number; who has hung up makes room, and the card's client is none of them.
        let mut more = Vec::new();
        let error = loop {
            match VfioUserBus::observe(&server.sockets[0]) {
                Ok(bus) => more.push(bus),
                Err(error) => break error,
            }
            assert!(more.len() < 100);
        };
        assert!(matches!(error, SocketError::Busy), "{error}");
        drop(more);
        let end = Instant::now() + PATIENCE;
        while let Err(error) = VfioUserBus::observe(&server.sockets[0]) {
            assert!(Instant::now() < end, "{error}");
        }
        exchange(&a, &b);
        drop(a);
        // The next client's card counts from zero, as each one's; one that faces PCIe has been reset itself, and its counters go on.
        let before = late.traffic_counter(TrafficCounter::TxFrames).unwrap();
        let a = Node::open(&server.sockets[0], 1);
        let keeps = kind.is_empty() && ferrowire_sim::card::all_face_pcie();
        let kept = if keeps { before } else { 0 };
        assert_eq!(late.traffic_counter(TrafficCounter::TxFrames).unwrap(), kept);
        exchange(&a, &b);
        server.lives();
    }
}

#[test]
fn errors_say_what_to_do() {
    let folder = Folder::new("errors");
    let error = VfioUserBus::connect(folder.join("nobody")).unwrap_err().to_string();
    assert!(error.contains("ferrowire-sim up"), "{error}");
    let server = Server::up(&folder, &[]);
    let mut bus = connect(&server.sockets[0]);
    assert!(matches!(bus.csr_read32(1 << 24), Err(BusError::BadOffset { .. })));
    assert!(matches!(bus.csr_read32(2), Err(BusError::BadOffset { .. })));
    assert_eq!(bus.interrupt(4).unwrap().map(|_| ()), None, "the configuration has 4 vectors");
    drop(server);
    let error = bus.csr_read32(0).unwrap_err();
    assert!(matches!(&error, BusError::Gone(why) if why.contains("start it again")), "{error}");
}

#[test]
fn a_reset_leaves_mapped_memory_and_event_files() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("reset");
        let server = Server::up(&folder, kind);
        let mut bus = connect(&server.sockets[0]);
        let memory = bus.host_alloc(8192, 4096).unwrap();
        let mapping = bus.dma_map(&memory, 12).unwrap();
        let file = bus.interrupt(1).unwrap().unwrap();
        let mac_register = ferrowire::spec::csr::port::BLOCK.address(&ferrowire::spec::csr::port::MAC_LO);
        bus.csr_write32(mac_register, 77).unwrap();
        assert_eq!(bus.csr_read32(mac_register), Ok(77));
        bus.reset().unwrap();
        assert_eq!(bus.csr_read32(mac_register), Ok(1), "that of power-on");
        bus.dma_unmap(mapping).unwrap();
        assert!(!ferrowire::sys::wait_readable(std::os::fd::AsFd::as_fd(&file), Duration::ZERO).unwrap());
        // Whoever opens it next finds a card that works.
        let node = Node::of(bus, 1);
        exchange(&node, &Node::open(&server.sockets[1], 2));
    }
}

#[test]
fn a_function_level_reset_is_one_and_takes_the_configuration_along() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("flr");
        let server = Server::up(&folder, kind);
        let mut raw = Raw::begin(&server.sockets[0]);
        let mut access = |region: u32, offset: u32, write: Option<&[u8]>| -> Vec<u8> {
            let count = write.map_or(4, |data| data.len() as u32);
            let access = RegionAccess { offset: offset.into(), region, count }.to_bytes();
            let answer = match write {
                Some(data) => raw.ask(command::REGION_WRITE, &[&access[..], data].concat(), &[]),
                None => raw.ask(command::REGION_READ, &access, &[]),
            };
            answer.unwrap().unwrap().body[16..].to_vec()
        };
        let promiscuous = ferrowire::spec::csr::port::BLOCK.address(&ferrowire::spec::csr::port::LINK);
        access(pci::BAR0, promiscuous, Some(&[2, 0, 0, 0]));
        access(pci::CONFIG, 4, Some(&[6, 0]));
        assert_eq!((access(pci::BAR0, promiscuous, None)[0] & 2, access(pci::CONFIG, 4, None)[0]), (2, 6));
        // Device control, in the capability of PCI Express.
        let capability = u32::from(access(pci::CONFIG, 0x34, None)[0]);
        assert_eq!(access(pci::CONFIG, capability, None)[0], 0x10);
        access(pci::CONFIG, capability + 8, Some(&[0, 0x80]));
        assert_eq!((access(pci::BAR0, promiscuous, None)[0] & 2, access(pci::CONFIG, 4, None)[0]), (0, 0));
    }
}

#[test]
fn a_card_without_work_costs_next_to_nothing() {
    let folder = Folder::new("idle");
    let server = Server::up(&folder, &[]);
    let share = |server: &Server| {
        let before = server.used();
        std::thread::sleep(Duration::from_secs(2));
        (server.used() - before).as_secs_f64() / 2.0
    };
    // After power-on, and after a client: until the tables are clear.
    std::thread::sleep(Duration::from_secs(2));
    let empty = share(&server);
    let node = Node::open(&server.sockets[0], 1);
    std::thread::sleep(Duration::from_secs(3));
    let opened = share(&server);
    drop(node);
    assert!(empty < 0.02, "nobody is there: {empty}");
    assert!(opened < 0.15, "a driver is there, and does nothing: {opened}");
}

#[test]
fn a_socket_of_a_live_server_is_refused_and_that_of_a_dead_one_replaced() {
    let folder = Folder::new("sockets");
    let server = Server::up(&folder, &[]);
    let again = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"))
        .args(["card", "--socket", server.sockets[0].to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && said.contains("in use by another server"), "{said}");
    let sockets = server.sockets.clone();
    // Killed: the files stay.
    drop(server);
    let refused = UnixStream::connect(&sockets[0]).unwrap_err().kind();
    assert_eq!(refused, ErrorKind::ConnectionRefused);
    let server = Server::up(&folder, &[]);
    drop(connect(&server.sockets[0]));
    let _ = Raw::connect(&server.sockets[0]);
    assert!(server.interrupt());
    assert!(sockets.iter().all(|path| !path.exists()));
}
