// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that do what cards are for.

use std::time::{Duration, Instant};

use ferrowire::{Event, HostMemory, PageSize, RecvWr, RemoteAddress, SendWr};
use ferrowire_sim::pair::{bytes, post};

use super::rig::{pair, rights, Folder, Node, Server};

/// WRITE, SEND and READ between two cards, with all bytes compared.
pub fn exchange(a: &Node, b: &Node) {
    let (mut qa, mut qb) = pair(a, b);
    let (from, to) = (a.region(3 * 4096), b.region(3 * 4096));
    let data: Vec<u8> = (0..12288u32).map(|i| (i * 7 % 251) as u8).collect();
    from.memory().write(0, &data);

    post(&mut qa, &[SendWr::write(1, &[from.sge(0, 12288)], to.remote(0)).signaled()]);
    assert_eq!(a.completions(1)[0].wr_id(), 1);
    assert_eq!(bytes(to.memory()), data);

    let mut batch = qb.start_post_recv();
    batch.post(&RecvWr::new(7, &[to.sge(4096, 4096)])).unwrap();
    batch.ring().unwrap();
    post(&mut qa, &[SendWr::send(2, &[from.sge(100, 999)]).signaled()]);
    assert_eq!(a.completions(1)[0].wr_id(), 2);
    let received = b.completions(1)[0];
    assert_eq!((received.wr_id(), received.byte_len()), (7, 999));
    assert_eq!(bytes(to.memory())[4096..][..999], data[100..1099]);

    to.memory().fill(0, 12288, 0xab);
    post(&mut qa, &[SendWr::read(3, &[from.sge(5000, 6000)], to.remote(1)).signaled()]);
    assert_eq!(a.completions(1)[0].wr_id(), 3);
    assert!(bytes(from.memory())[5000..11000].iter().all(|byte| *byte == 0xab));
}

#[test]
fn two_programs_write_send_and_read_and_sleep_meanwhile() {
    let folder = Folder::new("work");
    let mut server = Server::up(&folder, &[]);
    let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
    assert!(a.events.interrupt_file().is_some(), "events come by a file");
    exchange(&a, &b);
    drop((a, b));
    server.lives();
    assert!(server.interrupt());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "sockets are removed");
}

/// Memory that a program has from elsewhere than the driver: no file is behind it.
#[test]
fn memory_of_the_programs_own_is_read_and_written() {
    let folder = Folder::new("own");
    let mut server = Server::up(&folder, &[]);
    let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
    let (mut qa, _qb) = pair(&a, &b);
    // Not at a page's start, and over the ends of some.
    let region = |node: &Node| {
        let memory = HostMemory::zeroed(5 * 4096, 8).unwrap().slice(777, 4 * 4096);
        assert!(memory.shared_file().is_none());
        node.pd.register(&memory, rights(), PageSize::Size4K).unwrap()
    };
    let (from, to) = (region(&a), region(&b));
    let (files, mappings) = (server.files(), server.mappings());
    let data: Vec<u8> = (0..9999u32).map(|i| (i * 13 % 241) as u8).collect();
    from.memory().write(3, &data);
    post(&mut qa, &[SendWr::write(1, &[from.sge(3, 9999)], to.remote(1234)).signaled()]);
    assert_eq!(a.completions(1)[0].wr_id(), 1);
    let all = bytes(to.memory());
    assert!(
        all[1234..][..9999] == data && all[..1234].iter().chain(&all[1234 + 9999..]).all(|byte| *byte == 0)
    );
    post(&mut qa, &[SendWr::read(2, &[from.sge(100, 5000)], to.remote(1300)).signaled()]);
    assert_eq!(a.completions(1)[0].wr_id(), 2);
    assert_eq!(bytes(from.memory())[100..5100], data[66..5066]);
    // Regions of it share one file, and take no mapping.
    let more: Vec<_> = (0..20).map(|_| region(&a)).collect();
    assert_eq!((server.files(), server.mappings()), (files, mappings));
    drop((more, from, to));
    drop((qa, _qb, a, b));
    exchange(&Node::open(&server.sockets[0], 1), &Node::open(&server.sockets[1], 2));
    server.lives();
}

#[test]
fn a_card_of_100g_with_large_pages() {
    let folder = Folder::new("large");
    let server = Server::up(&folder, &["--config", "generic-64b"]);
    let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
    let (mut qa, _qb) = pair(&a, &b);
    // Not at a page's start, and over the end of one.
    let region = |node: &Node| {
        let memory = node.context.alloc(4 << 20, 2 << 20).unwrap().slice(12345, 3 << 20);
        node.pd.register(&memory, rights(), PageSize::Size2M).unwrap()
    };
    let (from, to) = (region(&a), region(&b));
    let at = (2 << 20) - 12345 - 5000;
    let data: Vec<u8> = (0..10_000u32).map(|i| (i * 13 % 241) as u8).collect();
    from.memory().write(at, &data);
    post(&mut qa, &[SendWr::write(1, &[from.sge(at, 10_000)], to.remote(at)).signaled()]);
    a.completions(1);
    let mut back = vec![0; 10_000];
    to.memory().read(at, &mut back);
    assert_eq!(back, data);
}

/// The other program of the next test: it does its part, and then waits to be killed.
#[test]
#[ignore = "a process of its own, which another test starts"]
fn the_other_program() {
    let Ok(folder) = std::env::var("FERROWIRE_TEST_FOLDER").map(std::path::PathBuf::from) else { return };
    let first: u32 = std::fs::read_to_string(folder.join("first")).unwrap().parse().unwrap();
    let b = Node::open(&folder.join("ferrowire1.sock"), 2);
    let to = b.region(8192);
    let mut qp = b.queue_pair(1, |_| first);
    let mut batch = qp.start_post_recv();
    batch.post(&RecvWr::new(1, &[to.sge(4096, 4096)])).unwrap();
    batch.ring().unwrap();
    let remote = to.remote(0);
    let text = format!("{} {} {}", qp.number(), remote.address, remote.rkey);
    // Whole, or not there.
    std::fs::write(folder.join("new"), text).unwrap();
    std::fs::rename(folder.join("new"), folder.join("second")).unwrap();
    let received = b.completions(1)[0];
    assert_eq!((received.wr_id(), received.byte_len()), (1, 500));
    post(&mut qp, &[SendWr::send(2, &[to.sge(0, 300)]).signaled()]);
    b.completions(1);
    std::thread::sleep(super::rig::PATIENCE);
}

#[test]
fn two_processes_talk_and_one_is_killed() {
    let folder = Folder::new("two");
    let mut server = Server::up(&folder, &[]);
    let a = Node::open(&server.sockets[0], 1);
    let from = a.region(8192);
    let data: Vec<u8> = (0..4096u32).map(|i| (i * 11 % 239) as u8).collect();
    from.memory().write(0, &data);
    let mut child = None;
    let mut remote = None;
    let mut qp = a.queue_pair(2, |own| {
        std::fs::write(folder.join("first"), own.to_string()).unwrap();
        let process = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "socket::work::the_other_program"])
            .env("FERROWIRE_TEST_FOLDER", &folder.0)
            .stdout(std::process::Stdio::null())
            .spawn();
        child = Some(process.unwrap());
        let end = Instant::now() + super::rig::PATIENCE;
        let text = loop {
            match std::fs::read_to_string(folder.join("second")) {
                Ok(text) => break text,
                Err(error) => assert!(Instant::now() < end, "the other program: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        remote = Some(RemoteAddress { address: numbers[1], rkey: numbers[2] as u32 });
        numbers[0] as u32
    });
    let mut batch = qp.start_post_recv();
    batch.post(&RecvWr::new(9, &[from.sge(4096, 4096)])).unwrap();
    batch.ring().unwrap();
    post(&mut qp, &[SendWr::write(1, &[from.sge(0, 4096)], remote.unwrap())]);
    post(&mut qp, &[SendWr::send(2, &[from.sge(0, 500)]).signaled()]);
    let mut done = a.completions(2);
    done.sort_by_key(|completion| completion.wr_id());
    assert_eq!(done.iter().map(|completion| completion.wr_id()).collect::<Vec<_>>(), [2, 9]);
    assert_eq!(bytes(from.memory())[4096..][..300], data[..300], "there and back");
    // SIGKILL: nothing says goodbye.
    let mut child = child.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    exchange(&a, &Node::open(&server.sockets[1], 2));
    server.lives();
}

#[test]
fn an_event_ends_a_wait_and_no_event_does_not() {
    let folder = Folder::new("event");
    let server = Server::up(&folder, &[]);
    let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
    let (mut qa, _qb) = pair(&a, &b);
    let (from, to) = (a.region(4096), b.region(4096));
    let mut events = [Event::default(); 4];
    let start = Instant::now();
    assert_eq!(a.events.wait(&mut events, Duration::from_millis(50)), Ok(0));
    assert!(start.elapsed() >= Duration::from_millis(50));
    a.cq.request_notify(false).unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| a.events.wait(&mut events, Duration::from_secs(60)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        post(&mut qa, &[SendWr::write(1, &[from.sge(0, 64)], to.remote(0)).signaled()]);
        assert_eq!(sleeper.join().unwrap(), 1);
    });
    assert!(start.elapsed() < Duration::from_secs(30), "the event did not wake it");
    assert_eq!(events[0].object, a.cq.number());
}
