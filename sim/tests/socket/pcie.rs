// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards that face PCIe, on sockets: resets, masks, pending bits and the right to send requests are the card's own affair.
//!
//! `FERROWIRE_CONFIG` is another configuration than `pcie-8b`. With `FERROWIRE_PCIE=1` all other tests of sockets have such cards too.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ferrowire::spec::csr::{command_queue, port, MSIX_PBA, MSIX_TABLE};
use ferrowire::spec::Register;
use ferrowire::sys::wait_readable;
use ferrowire::vfio_user::message::{command, pci, RegionAccess};
use ferrowire::{Bus, RecvWr, SendWr};
use ferrowire_sim::pair::{bytes, post};

use super::raw::Raw;
use super::rig::{connect, pair, take_everything, Folder, Mortal, Node, Server, PATIENCE};
use super::work::exchange;

fn up(name: &str) -> (Server, Folder) {
    let folder = Folder::new(name);
    let config = std::env::var("FERROWIRE_CONFIG").unwrap_or_else(|_| "pcie-8b".into());
    (Server::up(&folder, &["--config", &config]), folder)
}

/// Vector control, in the card's table (PCIe 7.7.2.7).
fn control(vector: u8) -> u32 {
    MSIX_TABLE + 16 * u32::from(vector) + 12
}

#[test]
fn two_programs_write_send_and_read_and_sleep_meanwhile_over_pcie() {
    let (mut server, _folder) = up("pcie-work");
    let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
    assert!(a.events.interrupt_file().is_some(), "events come by a file");
    exchange(&a, &b);
    exchange(&b, &a);
    drop((a, b));
    server.lives();
    assert!(server.interrupt());
}

#[test]
fn a_masked_vector_is_pending_in_the_card_and_goes_when_the_mask_does() {
    let (server, _folder) = up("pcie-mask");
    let (bus, mut registers) = Mortal::of(connect(&server.sockets[0]));
    let (a, b) = (Node::of(bus, 1), Node::open(&server.sockets[1], 2));
    let (mut qa, _qb) = pair(&a, &b);
    let (from, to) = (a.region(4096), b.region(4096));
    let vector = a.events.number();
    let mut word = |at: u32, value: Option<u32>| match value {
        Some(value) => registers.csr_write32(at, value).map(|()| value).unwrap(),
        None => registers.csr_read32(at).unwrap(),
    };
    assert_eq!(word(control(vector), None) & 1, 0, "who gives a file takes the mask away");
    let other = (0..4).find(|other| *other != vector && word(control(*other), None) & 1 == 1);
    assert!(other.is_some(), "a vector without a file is masked");
    // An address and data are kept, and mean nothing: the file is where it goes.
    for (at, value) in [(control(vector) - 12, 0xfee0_1000), (control(vector) - 4, 0x41)] {
        word(at, Some(value));
        assert_eq!(word(at, None), value);
    }
    let file = a.events.interrupt_file().unwrap();
    let mut notified = |a: &Node| {
        a.cq.request_notify(false).unwrap();
        a.events.request_interrupt().unwrap();
        post(&mut qa, &[SendWr::write(1, &[from.sge(0, 64)], to.remote(0)).signaled()]);
        a.completions(1);
    };
    word(control(vector), Some(1));
    assert_eq!(word(control(vector), None) & 1, 1);
    // `completions` takes what comes, and each look at the events asks for an interrupt of the next.
    notified(&a);
    let end = Instant::now() + PATIENCE;
    while word(MSIX_PBA, None) != 1 << vector {
        assert!(Instant::now() < end, "nothing is pending: {:#x}", word(MSIX_PBA, None));
    }
    assert!(!wait_readable(file.as_fd(), Duration::from_millis(50)).unwrap(), "it is masked");
    word(control(vector), Some(0));
    assert!(wait_readable(file.as_fd(), PATIENCE).unwrap(), "the mask is gone");
    assert_eq!(word(MSIX_PBA, None), 0);
}

#[test]
fn a_card_that_is_no_bus_master_asks_its_host_for_nothing() {
    let (server, _folder) = up("pcie-master");
    let mut raw = Raw::begin(&server.sockets[0]);
    let mut access = |region: u32, offset: u32, write: Option<u32>| -> u32 {
        let access = RegionAccess { offset: offset.into(), region, count: 4 }.to_bytes();
        let answer = match write {
            Some(data) => raw.ask(command::REGION_WRITE, &[&access[..], &data.to_le_bytes()].concat(), &[]),
            None => raw.ask(command::REGION_READ, &access, &[]),
        };
        answer.unwrap().unwrap().body[16..].try_into().map_or(0, u32::from_le_bytes)
    };
    let at = |register: &Register| command_queue::BLOCK.address(register);
    let fatal = 2;
    while access(pci::BAR0, at(&command_queue::STATUS), None) & 1 == 0 {}
    // A command at an address where nothing is: whoever reads it finds the ring broken.
    for (register, value) in [
        (&command_queue::CMDQ_BASE_LO, 1 << 20),
        (&command_queue::CMDQ_LOG2, 4),
        (&command_queue::COMPL_LOG2, 4),
        (&command_queue::CONTROL, 1),
        (&command_queue::CMDQ_PRODUCER, 1),
    ] {
        access(pci::BAR0, at(register), Some(value));
    }
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        assert_eq!(
            access(pci::BAR0, at(&command_queue::STATUS), None) & fatal,
            0,
            "it has read its host's memory"
        );
    }
    access(pci::CONFIG, 4, Some(6));
    while access(pci::BAR0, at(&command_queue::STATUS), None) & fatal == 0 {
        assert!(start.elapsed() < PATIENCE, "it reads nothing");
    }
}

#[test]
fn a_reset_in_the_middle_of_everything_ends_what_the_card_has_begun() {
    let (mut server, _folder) = up("pcie-reset");
    let b = Node::open(&server.sockets[1], 2);
    for life in 0..6 {
        let (bus, mut own) = Mortal::of(connect(&server.sockets[0]));
        let a = Node::of(bus, 1);
        let (mut qa, mut qb) = pair(&a, &b);
        let (near, far) = (a.region(1 << 16), b.region(1 << 16));
        // Reads and writes of both memories, both ways.
        for i in 0..8 {
            qa.start_post_recv().post(&RecvWr::new(i, &[near.sge(0, 4096)])).unwrap();
            post(&mut qa, &[SendWr::write(i, &[near.sge(0, 1 << 16)], far.remote(0))]);
            post(&mut qa, &[SendWr::read(i, &[near.sge(0, 1 << 16)], far.remote(0))]);
            post(&mut qb, &[SendWr::write(i, &[far.sge(0, 1 << 16)], near.remote(0))]);
        }
        std::thread::sleep(Duration::from_millis(3 * life));
        own.reset();
        near.memory().fill(0, 1 << 16, 0x77);
        let mac = port::BLOCK.address(&port::MAC_LO);
        assert_eq!(own.csr_read32(mac), Ok(1), "that of power-on");
        let status = |register: &Register| command_queue::BLOCK.address(register);
        assert_eq!(own.csr_read32(status(&command_queue::CONTROL)).unwrap() & 1, 0, "no commands are taken");
        std::thread::sleep(Duration::from_millis(20));
        assert!(bytes(near.memory()).iter().all(|byte| *byte == 0x77), "it writes after its reset");
        own.cut();
        drop((qa, qb, near, far, a));
        server.lives();
    }
    let a = Node::open(&server.sockets[0], 1);
    take_everything(&a);
    exchange(&a, &b);
}
