// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pingpong` against what rdma-core's `ibv_rc_pingpong` and `ibv_srq_pingpong` do: their words over TCP, their one buffer, and their leaving.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use ferrowire::{MemoryRegion, QueuePair, RecvWr, SendWr, WorkKind};

use super::process::free_port;
use super::rig::{cards, Cards};
use crate::socket::rig::Node;

const SIZE: usize = 5000;
const MESSAGES: usize = 4;
const PSN: u32 = 0x12_3456;
/// The peer's card, and the command's.
const OWN: u8 = 2;
const COMMAND: u8 = 1;

/// Such a tool, connected with the command.
struct Tool {
    node: Node,
    qp: QueuePair,
    buffer: MemoryRegion,
}

/// An end as rdma-core tells it.
fn end(qpn: u32, psn: u32, number: u8) -> Vec<u8> {
    format!("0000:{qpn:06x}:{psn:06x}:00000000000000000000ffff0a0000{number:02x}\0").into_bytes()
}

/// QP number and PSN of an end that the command told.
fn heard(socket: &mut TcpStream) -> (u32, u32) {
    let mut bytes = [0; 52];
    socket.read_exact(&mut bytes).unwrap();
    let text = std::str::from_utf8(&bytes).unwrap();
    let number = |at: std::ops::Range<usize>| u32::from_str_radix(&text[at], 16).unwrap();
    let (qpn, psn) = (number(5..11), number(12..18));
    assert_eq!(bytes.as_slice(), end(qpn, psn, COMMAND), "{text}");
    (qpn, psn)
}

impl Tool {
    /// Exchanges ends, the client's first, and says `done` or hears it; a server can receive before it answers.
    fn connect(cards: &Cards, mut socket: TcpStream, client: bool, shared: bool) -> Tool {
        // Where receives are shared, ends of queue pairs that are not there come behind the others.
        let others = if shared { 255 } else { 0 };
        let tell = |socket: &mut TcpStream, qpn: u32| {
            let zeros = "0000:000000:000000:00000000000000000000000000000000\0".repeat(others);
            socket.write_all(&[&end(qpn, PSN, OWN)[..], zeros.as_bytes()].concat()).unwrap();
        };
        let hear = |socket: &mut TcpStream| {
            let first = heard(socket);
            socket.read_exact(&mut vec![0; 52 * others]).unwrap();
            first
        };
        let node = Node::open(cards.socket(1), OWN);
        // As a kernel does.
        node.context.set_neighbour_responder(true).unwrap();
        let buffer = node.region(SIZE);
        buffer.memory().fill(0, SIZE, 0x7b);
        let mut qp = node.queue_pair_at(COMMAND, PSN, |qpn| {
            if client {
                tell(&mut socket, qpn);
            }
            hear(&mut socket)
        });
        let mut batch = qp.start_post_recv();
        for _ in 0..MESSAGES {
            batch.post(&RecvWr::new(0, &[buffer.sge(0, SIZE as u32)])).unwrap();
        }
        batch.ring().unwrap();
        let mut done = *b"done\0";
        match client {
            true => socket.write_all(&done).unwrap(),
            false => {
                tell(&mut socket, qp.number());
                socket.read_exact(&mut done).unwrap();
                assert_eq!(&done, b"done\0");
            }
        }
        // The connection is closed here.
        Tool { node, qp, buffer }
    }

    /// Receives into the buffer that it sends from.
    fn play(mut self, client: bool) {
        let (mut sent, mut received, mut posted) = (0, 0, 0);
        while sent < MESSAGES || received < MESSAGES {
            if posted < MESSAGES && posted == sent && posted < received + usize::from(client) {
                let mut batch = self.qp.start_post_send();
                batch.post(&SendWr::send(0, &[self.buffer.sge(0, SIZE as u32)]).signaled()).unwrap();
                batch.ring().unwrap();
                posted += 1;
            }
            for done in self.node.completions(1) {
                match done.kind() {
                    WorkKind::Send => sent += 1,
                    WorkKind::Receive => {
                        assert_eq!(done.byte_len() as usize, SIZE);
                        received += 1;
                        // What it looks at with -c.
                        let mut page = [1];
                        self.buffer.memory().read(4096, &mut page);
                        assert_eq!(page, [0], "the beginning of a page");
                    }
                }
            }
        }
    }
}

/// With a receive queue of its own, and with a shared one.
const KINDS: [&[&str]; 2] = [&[], &["--srq", "-q", "1"]];

#[test]
fn pingpong_goes_with_a_server_of_rdma_core() {
    let cards = cards();
    let name = cards.name(0);
    let (size, count) = (SIZE.to_string(), MESSAGES.to_string());
    for kind in KINDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let more =
            ["--stock", "--ip", "10.0.0.1", "--mac", "02:fe:00:00:00:01", "-c", "-s", &size, "-n", &count];
        let begin = ["--json", "-d", &name, "pingpong", "-p", &port, "127.0.0.1"];
        let client = cards.start(&[&begin[..], &more, kind].concat());
        let (socket, _) = listener.accept().unwrap();
        Tool::connect(&cards, socket, false, !kind.is_empty()).play(false);
        let said = client.end().json();
        assert_eq!((&said["iterations"], &said["checked"]), (&MESSAGES.into(), &true.into()));
    }
}

#[test]
fn pingpong_knows_a_client_of_rdma_core_when_it_comes() {
    let cards = cards();
    let name = cards.name(0);
    let (size, count) = (SIZE.to_string(), MESSAGES.to_string());
    for kind in KINDS {
        let port = free_port();
        let more = ["--ip", "10.0.0.1", "--mac", "02:fe:00:00:00:01", "-c", "-s", &size, "-n", &count];
        let begin = ["-d", &name, "pingpong", "-p", &port.to_string()];
        let server = cards.start(&[&begin[..], &more, kind].concat()).until("Waiting");
        let socket = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(socket) => break socket,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        Tool::connect(&cards, socket, true, !kind.is_empty()).play(true);
        let text = server.end().good();
        assert!(text.contains(&format!("{MESSAGES} iters in ")), "{text}");
    }
}

#[test]
fn only_a_client_can_be_told_that_its_server_is_of_rdma_core() {
    let cards = cards();
    let said = cards.on(0, &["pingpong", "--stock"]);
    assert!(said.code == 2 && said.err.contains("a server finds out by itself"), "{said:?}");
}
