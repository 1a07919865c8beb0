// SPDX-License-Identifier: MIT OR Apache-2.0
//! More than two cards on sockets: what the switch between them does to frames.

use ferrowire::{HwCounter, SendWr, TrafficCounter};
use ferrowire_sim::pair::{bytes, post};
use ferrowire_sim::wire::read_frames;

use super::rig::{pair, Folder, Node, Server};
use super::work::exchange;

#[test]
fn cards_on_a_switch_repair_what_bad_wires_do() {
    let folder = Folder::new("switch-faults");
    let faults = "drop=0.03,duplicate=0.05,corrupt=0.05,reorder=0.05,stale=0.03,seed=5";
    let mut server = Server::engines(&folder, 4, &["--faults", faults]);
    let nodes: Vec<Node> =
        (1..).zip(&server.sockets).map(|(number, socket)| Node::open(socket, number)).collect();
    // Time-outs of 16 us times 2^4.
    nodes.iter().for_each(|node| node.context.set_timer_tick(64).unwrap());
    for (i, j) in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)] {
        exchange(&nodes[i], &nodes[j]);
    }
    server.lives();
}

#[test]
fn a_capture_of_a_switch_has_an_interface_for_each_port_and_each_frame_once() {
    let folder = Folder::new("switch-capture");
    let file = folder.join("wire.pcapng");
    let server = Server::engines(&folder, 3, &["--capture", file.to_str().unwrap()]);
    let sent: Vec<u64> = {
        let nodes: Vec<Node> =
            (1..).zip(&server.sockets).map(|(number, socket)| Node::open(socket, number)).collect();
        exchange(&nodes[0], &nodes[1]);
        exchange(&nodes[1], &nodes[2]);
        nodes.iter().map(|node| node.context.traffic_counter(TrafficCounter::TxFrames).unwrap()).collect()
    };
    assert!(server.interrupt());
    let frames = read_frames(&file).unwrap();
    let of = |port| frames.iter().filter(|frame| frame.interface == port).count() as u64;
    assert!(sent.iter().all(|count| *count > 0));
    assert_eq!([0, 1, 2].map(of)[..], sent[..]);
    assert_eq!(frames.len() as u64, sent.iter().sum::<u64>());
    assert!(frames.windows(2).all(|two| two[0].time <= two[1].time), "in the order of their times");
}

/// Two cards send to a third one as fast as they can, and its port holds four frames.
#[test]
fn a_queue_that_is_full_loses_frames_and_connections_repair_that() {
    const SIZE: usize = 100_000;
    let folder = Folder::new("switch-queue");
    let server = Server::engines(&folder, 3, &["--queue", "4", "--verbose"]);
    let nodes: Vec<Node> =
        (1..).zip(&server.sockets).map(|(number, socket)| Node::open(socket, number)).collect();
    let sender = |node: &Node| {
        let (qp, peer) = pair(node, &nodes[2]);
        let (from, to) = (node.region(SIZE), nodes[2].region(SIZE));
        let data: Vec<u8> = (0..SIZE).map(|i| (i * 7 + usize::from(node.number)) as u8).collect();
        from.memory().write(0, &data);
        (qp, peer, from, to, data)
    };
    let mut both = [sender(&nodes[0]), sender(&nodes[1])];
    // At the same time: the server finds both doorbells.
    server.signal(rustix::process::Signal::STOP);
    for (qp, _, from, to, _) in &mut both {
        post(qp, &[SendWr::write(1, &[from.sge(0, SIZE as u32)], to.remote(0)).signaled()]);
    }
    server.signal(rustix::process::Signal::CONT);
    for (node, (_, _, _, to, data)) in nodes.iter().zip(&both) {
        node.completions(1);
        assert!(bytes(to.memory()) == *data, "card {}", node.number);
    }
    let counted = |node: &Node, counter| node.context.hw_counter(counter).unwrap();
    let gaps = counted(&nodes[2], HwCounter::OutOfSequence);
    let waits: Vec<u64> = nodes.iter().map(|node| counted(node, HwCounter::LocalAckTimeoutErr)).collect();
    println!("{gaps} packets came after a gap; time-outs {waits:?}");
    assert!(gaps > 0, "no frame was lost");
}

#[test]
fn three_verilated_cards_are_on_a_switch_too() {
    let folder = Folder::new("switch-cards");
    let file = folder.join("wire.pcapng");
    let mut server = Server::up(&folder, &["--cards", "3", "--capture", file.to_str().unwrap()]);
    let nodes: Vec<Node> =
        (1..).zip(&server.sockets).map(|(number, socket)| Node::open(socket, number)).collect();
    exchange(&nodes[0], &nodes[1]);
    exchange(&nodes[1], &nodes[2]);
    exchange(&nodes[2], &nodes[0]);
    // Another program gets a card of its own while the others go on.
    drop(nodes);
    exchange(&Node::open(&server.sockets[2], 3), &Node::open(&server.sockets[0], 1));
    server.lives();
    assert!(server.interrupt());
    let frames = read_frames(&file).unwrap();
    assert!((0..3).all(|port| frames.iter().any(|frame| frame.interface == port)));
}
