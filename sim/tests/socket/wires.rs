// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards of two servers on one wire.

use std::time::{Duration, Instant};

use ferrowire::Bus;

use super::rig::{Folder, Node, Server, KINDS};
use super::work::exchange;

fn two(folder: &Folder, wires: [String; 2], more: &[&str]) -> [Server; 2] {
    let start = |i: usize| {
        let socket = folder.join(&format!("{i}.sock"));
        Server::card(&socket, &[&["--wire", wires[i].as_str()], more].concat())
    };
    [start(0), start(1)]
}

fn talk(servers: &[Server; 2]) {
    let (a, b) = (Node::open(&servers[0].sockets[0], 1), Node::open(&servers[1].sockets[0], 2));
    exchange(&a, &b);
}

#[test]
fn a_stream_carries_frames_and_is_found_again() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("stream");
        let wire = format!("stream:{}", folder.join("wire").display());
        let [first, second] = two(&folder, [wire.clone(), wire.clone()], kind);
        talk(&[first, second]);
        // Killed both; the sockets' files are there still.
        let [first, second] = two(&folder, [wire.clone(), wire.clone()], kind);
        let socket = folder.join("1.sock");
        drop(second);
        let second = Server::card(&socket, &[&["--wire", &wire], kind].concat());
        let servers = [first, second];
        talk(&servers);
        let [first, second] = servers;
        assert!(first.interrupt() && second.interrupt());
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    }
}

#[test]
fn datagrams_carry_frames() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("dgram");
        let path = |i: usize| folder.join(&format!("wire{i}")).display().to_string();
        let wire = |i: usize| format!("dgram:{},{}", path(i), path(1 - i));
        talk(&two(&folder, [wire(0), wire(1)], kind));
    }
}

#[test]
fn a_bad_wire_is_repaired_by_the_cards() {
    let folder = Folder::new("faults");
    let server =
        Server::up(&folder, &["--faults", "drop=0.05,duplicate=0.1,corrupt=0.05,reorder=0.05,seed=3"]);
    let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
    // Time-outs of 2^14 cycles.
    [&a, &b].into_iter().for_each(|node| node.context.set_timer_tick(1).unwrap());
    (0..5).for_each(|_| exchange(&a, &b));
    let lost = |node: &Node| node.context.hw_counter(ferrowire::HwCounter::LocalAckTimeoutErr).unwrap();
    println!("time-outs: {} and {}", lost(&a), lost(&b));
}

#[test]
fn a_signal_begins_and_ends_a_trace() {
    let folder = Folder::new("trace");
    let traces = folder.join("traces");
    let mut server = Server::up(&folder, &["--trace", traces.to_str().unwrap()]);
    let signal = |server: &Server| {
        let pid = rustix::process::Pid::from_raw(server.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    };
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let limit = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < limit, "{what} does not come");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let bytes = |name: &str| std::fs::metadata(traces.join(name)).map_or(0, |file| file.len());
    let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
    signal(&server);
    until("the trace", &|| traces.join("1-card1.fst").exists());
    exchange(&a, &b);
    // Another card takes the place of a's: its waves go on in a file of their own.
    drop(a);
    let a = Node::open(&server.sockets[0], 1);
    exchange(&a, &b);
    signal(&server);
    for wave in ["1-card0.fst", "1-card0-2.fst", "1-card1.fst"] {
        until(wave, &|| bytes(wave) > 1000);
    }
    server.lives();
    let frames = ferrowire_sim::wire::read_frames(&traces.join("1-wire.pcapng")).unwrap();
    assert!(frames.len() > 20, "{} frames", frames.len());
}

#[test]
fn a_capture_has_all_frames_from_the_beginning_on() {
    for kind in KINDS {
        println!("{kind:?}");
        let folder = Folder::new("capture");
        let file = folder.join("wire.pcapng");
        let server = Server::up(&folder, &[&["--capture", file.to_str().unwrap()], kind].concat());
        let sent = {
            let (a, b) = (Node::open(&server.sockets[0], 1), Node::open(&server.sockets[1], 2));
            exchange(&a, &b);
            [a, b].map(|node| node.context.traffic_counter(ferrowire::TrafficCounter::TxFrames).unwrap())
        };
        assert!(server.interrupt());
        let frames = ferrowire_sim::wire::read_frames(&file).unwrap();
        assert!(sent.iter().all(|count| *count > 0));
        assert_eq!(frames.len() as u64, sent.iter().sum::<u64>());
    }
}

#[test]
fn a_tap_interface_carries_frames_where_this_machine_allows_one() {
    let folder = Folder::new("tap");
    let name = format!("fw{}", std::process::id());
    let ip = |arguments: &str| {
        let ran = std::process::Command::new("ip").args(arguments.split(' ')).output();
        ran.is_ok_and(|output| output.status.success())
    };
    if !ip(&format!("tuntap add {name} mode tap")) {
        println!("no TAP interface here: not tested");
        return;
    }
    let socket = folder.join("card.sock");
    let wire = format!("tap:{name}");
    let server = Server::card(&socket, &["--wire", &wire]);
    let a = Node::open(&server.sockets[0], 1);
    assert!(ip(&format!("link set {name} up")));
    let count = |way: &str| -> u64 {
        let path = format!("/sys/class/net/{name}/statistics/{way}_packets");
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    };
    // A request goes out, to nobody.
    let mut qp = a.queue_pair(2, |_| 3);
    let from = a.region(4096);
    let remote = ferrowire::RemoteAddress { address: 0, rkey: 0 };
    let before = count("rx");
    ferrowire_sim::pair::post(&mut qp, &[ferrowire::SendWr::write(1, &[from.sge(0, 64)], remote)]);
    // What the interface has for its neighbours comes in: it has an address, and another after each time it goes down and up.
    let seen = || a.context.traffic_counter(ferrowire::TrafficCounter::RxFrames).unwrap();
    let end = std::time::Instant::now() + super::rig::PATIENCE;
    while (count("rx") == before || seen() == 0) && std::time::Instant::now() < end {
        ip(&format!("neigh replace 10.77.0.2 lladdr 02:fe:00:00:00:01 dev {name}"));
        ip(&format!("addr replace 10.77.0.1/24 dev {name}"));
        let socket = std::net::UdpSocket::bind("10.77.0.1:0");
        let _ = socket.and_then(|socket| socket.send_to(b"frame", "10.77.0.2:4791"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let (out, into) = (count("rx") - before, seen());
    drop((qp, from, a));
    drop(server);
    ip(&format!("tuntap del {name} mode tap"));
    assert!(out > 0 && into > 0, "{out} frames out, {into} frames in");
}

/// `--mac` and `--ip`: what the card is told to be is there for each program, and for who looks beside it.
#[test]
fn a_card_has_the_addresses_that_its_server_was_given() {
    let folder = Folder::new("addresses");
    let socket = folder.join("card.sock");
    let addresses = ["--mac", "02:fe:00:00:00:2a", "--ip", "10.0.0.7,fd00::7"];
    let server = Server::card(&socket, &addresses);
    let told: Vec<std::net::IpAddr> = ["10.0.0.7", "fd00::7"].map(|text| text.parse().unwrap()).into();
    for _ in 0..2 {
        let bus = ferrowire::VfioUserBus::connect(&server.sockets[0]).unwrap();
        assert_eq!(bus.addresses(), told);
        assert_eq!(ferrowire::VfioUserBus::observe(&server.sockets[0]).unwrap().addresses(), told);
        assert_eq!(ferrowire::Context::open(bus).unwrap().mac(), [2, 0xfe, 0, 0, 0, 0x2a]);
    }
}
