// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rping` against itself, and against one that is written here from what rdma-core's does.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ferrowire::{
    AccessFlags, Completion, Init, InitAttributes, MemoryRegion, Qp, QpInitAttr, RecvWr, RemoteAddress,
    SendWr, WorkKind,
};
use ferrowire_net::cm::machine::Timing;
use ferrowire_net::mad::RejectReason;
use ferrowire_net::{Cm, CmConnection, CmOptions, Config, Net, RcOptions};

use super::process::{run_in, Running};
use super::rig::{cards, Cards};
use crate::socket::rig::{Folder, Node, PATIENCE};

/// The command's card is 0, and its address this; the other one's is 10.0.0.2.
const COMMAND: [u8; 4] = [10, 0, 0, 1];
const PORT: u16 = 7174;

/// The command as a server on card 0, which listens.
fn server(cards: &Cards, more: &[&str]) -> Running {
    let name = cards.name(0);
    cards.start(&[&["-d", &name, "rping", "--ip", "10.0.0.1"], more].concat()).until("listens on 10.0.0.1")
}

/// The command as a client on a card.
fn client(cards: &Cards, card: usize, to: &str, more: &[&str]) -> Running {
    let (name, own) = (cards.name(card), format!("10.0.0.{}", card + 1));
    cards.start(&[&["-d", &name, "rping", "--ip", &own, to], more].concat())
}

/// The data of a round, as rdma-core makes them.
fn data(round: usize, bytes: usize) -> Vec<u8> {
    let mut all = format!("rdma-ping-{round}: ").into_bytes();
    let mut character = 65 + round as u8;
    while all.len() < bytes {
        all.push(character);
        character = if character == 122 { 65 } else { character + 1 };
    }
    all[bytes - 1] = 0;
    all
}

/// One side of rping, written by hand.
struct Tool {
    node: Node,
    cm: Cm,
    connection: CmConnection,
    /// 16 bytes to send from, 16 to receive into, and what is read and written.
    memory: MemoryRegion,
    sent: usize,
    received: usize,
}

const LETTER: usize = 16;
const DATA: usize = 2 * LETTER;
const BYTES: usize = 70_000;

/// A card with a communication manager.
fn manager(cards: &Cards) -> (Node, Cm) {
    let node = Node::open(cards.socket(1), 2);
    let net = Net::new(&node.context, &node.pd, Config::default()).unwrap();
    let timing = Timing { response: 18, ..Timing::default() };
    let cm = Cm::new(&node.context, &node.pd, &net, timing).unwrap();
    (node, cm)
}

impl Tool {
    fn queue_pair(node: &Node) -> (Qp<Init>, MemoryRegion) {
        let memory = node.region(DATA + BYTES);
        let access = AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        let init = InitAttributes::new().access(access).pkey(0xffff);
        let mut qp = node.pd.create_qp(&QpInitAttr::rc(&node.cq, &node.cq)).unwrap().init(init).unwrap();
        qp.start_post_recv().post(&RecvWr::new(0, &[memory.sge(LETTER, LETTER as u32)])).unwrap();
        (qp, memory)
    }

    fn options() -> CmOptions {
        CmOptions { rc: RcOptions { rd_atomic: 1, ..RcOptions::default() }, ..CmOptions::default() }
    }

    /// Asks the command.
    fn ask(cards: &Cards) -> Tool {
        let (node, cm) = manager(cards);
        let (qp, memory) = Tool::queue_pair(&node);
        let to = SocketAddr::new(COMMAND.into(), PORT);
        let connection = cm.connect(to, qp, &Tool::options(), PATIENCE).unwrap();
        Tool { node, cm, connection, memory, sent: 0, received: 0 }
    }

    /// Waits for the command.
    fn listen(cards: &Cards, client: impl FnOnce() -> Running) -> (Tool, Running) {
        let (node, cm) = manager(cards);
        let listener = cm.listen(PORT).unwrap();
        let client = client();
        let request = listener.accept(PATIENCE).unwrap();
        let param = request.param();
        assert_eq!((request.peer(), param.initiator_depth), (IpAddr::from(COMMAND), 1));
        assert_eq!((param.responder_resources, param.retry_count, param.rnr_retry_count), (1, 7, 7));
        let (qp, memory) = Tool::queue_pair(&node);
        let connection = request.accept(qp, &Tool::options(), PATIENCE).unwrap();
        (Tool { node, cm, connection, memory, sent: 0, received: 0 }, client)
    }

    /// Until so many work requests have completed, of both kinds.
    fn complete(&mut self, sent: usize, received: usize) {
        let end = Instant::now() + PATIENCE;
        let mut some = [Completion::default(); 4];
        while self.sent < sent || self.received < received {
            assert!(Instant::now() < end, "{} of {sent}, {} of {received}", self.sent, self.received);
            self.cm.poll().unwrap();
            let taken = self.node.cq.poll(&mut some).unwrap();
            for done in &some[..taken] {
                assert!(done.is_success(), "{done:?}");
                match done.kind() {
                    WorkKind::Send => self.sent += 1,
                    WorkKind::Receive => {
                        assert_eq!(done.byte_len() as usize, LETTER);
                        self.received += 1;
                    }
                }
            }
        }
    }

    fn post(&mut self, wr: &SendWr<'_>) {
        self.connection.qp().start_post_send().post(wr).unwrap();
        self.complete(self.sent + 1, self.received);
    }

    /// Sends a message.
    fn say(&mut self, letter: [u8; LETTER]) {
        self.memory.memory().write(0, &letter);
        let sges = [self.memory.sge(0, LETTER as u32)];
        self.post(&SendWr::send(0, &sges).signaled());
    }

    /// The next message, when there have been so many.
    fn hear(&mut self, number: usize) -> [u8; LETTER] {
        self.complete(self.sent, number);
        let mut letter = [0; LETTER];
        self.memory.memory().read(LETTER, &mut letter);
        let sges = [self.memory.sge(LETTER, LETTER as u32)];
        self.connection.qp().start_post_recv().post(&RecvWr::new(0, &sges)).unwrap();
        letter
    }

    /// Where its data are, as it tells it.
    fn place(&self, bytes: usize) -> [u8; LETTER] {
        let address = self.memory.address() + DATA as u64;
        let parts =
            [&address.to_be_bytes()[..], &self.memory.rkey().to_be_bytes(), &(bytes as u32).to_be_bytes()];
        parts.concat().try_into().unwrap()
    }

    /// Ends the connection, and gives the card up.
    fn part(self) {
        self.connection.disconnect(PATIENCE).unwrap();
    }

    fn write(&self, data: &[u8]) {
        self.memory.memory().write(DATA, data);
    }

    fn data(&self, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        self.memory.memory().read(DATA, &mut all);
        all
    }
}

/// What a letter of the command says.
fn place(letter: [u8; LETTER]) -> (RemoteAddress, usize) {
    let address = u64::from_be_bytes(letter[..8].try_into().unwrap());
    let rkey = u32::from_be_bytes(letter[8..12].try_into().unwrap());
    (RemoteAddress { address, rkey }, u32::from_be_bytes(letter[12..].try_into().unwrap()) as usize)
}

#[test]
fn rping_goes_there_and_back_between_two_cards_and_looks_at_each_byte() {
    let cards = cards();
    for (more, rounds, size) in [
        (&["-C", "3"][..], 3, 64),
        (&["-C", "2", "-S", "5000", "-m", "256"], 2, 5000),
        (&["-C", "1", "-S", "65535", "-p", "1024"], 1, 65535),
    ] {
        let count = rounds.to_string();
        let port = if size == 65535 { "1024" } else { "7174" };
        // What it says fits a pipe.
        let shows = if size < 10_000 { "-vV" } else { "-V" };
        let server = server(&cards, &[shows, "-C", &count, "-p", port]);
        let said = client(&cards, 1, "10.0.0.1", &[&["-V", "--json"], more].concat()).end().json();
        assert_eq!(
            (&said["rounds"], &said["size"], &said["validated"]),
            (&rounds.into(), &size.into(), &true.into())
        );
        assert_eq!((&said["peer"], &said["side"]), (&"10.0.0.1".into(), &"client".into()));
        assert_eq!(said["clock"], "card");
        assert!(said["cycles"].as_u64().unwrap() > 0 && said["usec_per_round"].as_f64().unwrap() > 0.0);
        let text = server.end().good();
        let last = data(rounds - 1, size);
        let last = String::from_utf8(last[..size - 1].to_vec()).unwrap();
        assert!(text.contains("10.0.0.2 has connected"), "{text}");
        let line = format!("server ping data: {last}\n");
        assert_eq!(text.contains(&line), shows == "-vV", "{text}");
        assert!(text.contains(&format!("{rounds} rounds of {size} bytes with 10.0.0.2 in ")), "{text}");
    }
    // The other way round: a server that prints JSON says nothing before.
    let name = cards.name(0);
    let server = cards.start(&["--json", "-d", &name, "rping", "--ip", "10.0.0.1"]);
    let text = loop {
        let said = client(&cards, 1, "10.0.0.1", &["-C", "2", "-v"]).end();
        if said.code == 0 {
            break said.out;
        }
        assert!(said.err.contains("nobody on the wire") || said.err.contains("does not answer"), "{said:?}");
    };
    assert!(
        text.contains("\nping data: rdma-ping-1: BCDEF") && text.contains("2 rounds of 64 bytes"),
        "{text}"
    );
    let said = server.end().json();
    assert_eq!(
        (&said["rounds"], &said["side"], &said["validated"]),
        (&2.into(), &"server".into(), &false.into())
    );
}

#[test]
fn rping_serves_a_client_of_rdma_core() {
    let cards = cards();
    let server = server(&cards, &["-V"]);
    let mut tool = Tool::ask(&cards);
    for (round, bytes) in [64, 3000, 64].into_iter().enumerate() {
        let sent = data(round, bytes);
        tool.write(&sent);
        tool.say(tool.place(bytes));
        tool.hear(2 * round + 1);
        // What comes back is not what is there.
        tool.write(&vec![0xee; bytes + 1]);
        tool.say(tool.place(bytes));
        tool.hear(2 * round + 2);
        assert_eq!(tool.data(bytes + 1), [&sent[..], &[0xee]].concat(), "round {round}");
    }
    tool.part();
    let text = server.end().good();
    assert!(
        text.contains("3 rounds of 3000 bytes with 10.0.0.2") && text.contains("every byte right"),
        "{text}"
    );
}

#[test]
fn rping_asks_a_server_of_rdma_core() {
    const SIZE: usize = 2500;
    let cards = cards();
    let size = SIZE.to_string();
    let (mut tool, client) =
        Tool::listen(&cards, || client(&cards, 0, "10.0.0.2", &["-V", "-C", "3", "-S", &size]));
    for round in 0..3 {
        let (source, bytes) = place(tool.hear(2 * round + 1));
        assert_eq!(bytes, SIZE);
        let sges = [tool.memory.sge(DATA, SIZE as u32)];
        tool.post(&SendWr::read(0, &sges, source).signaled());
        assert_eq!(tool.data(SIZE), data(round, SIZE), "round {round}");
        tool.say([0; LETTER]);
        let (sink, bytes) = place(tool.hear(2 * round + 2));
        assert_eq!(bytes, SIZE);
        tool.post(&SendWr::write(0, &sges, sink).signaled());
        tool.say([0; LETTER]);
    }
    tool.connection.wait_disconnected(PATIENCE).unwrap();
    // The answer is under way.
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        tool.cm.poll().unwrap();
    }
    let text = client.end().good();
    assert!(text.contains("3 rounds of 2500 bytes with 10.0.0.2"), "{text}");
}

#[test]
fn rping_names_a_byte_that_is_wrong_and_a_round_that_is_not_whole() {
    let cards = cards();
    // A server that looks finds what is none of rping's data.
    let looks = server(&cards, &["-V"]);
    let mut tool = Tool::ask(&cards);
    let mut wrong = data(0, 100);
    wrong[70] ^= 0x20;
    tool.write(&wrong);
    tool.say(tool.place(100));
    tool.connection.wait_disconnected(PATIENCE).unwrap();
    drop(tool);
    let said = looks.end();
    assert!(said.code == 1 && said.err.contains("byte 70 of round 0 is "), "{said:?}");
    // One whose client leaves in the middle says where.
    let left = server(&cards, &[]);
    let mut tool = Tool::ask(&cards);
    tool.write(&data(0, 64));
    tool.say(tool.place(64));
    tool.hear(1);
    tool.part();
    let said = left.end();
    assert!(
        said.code == 1 && said.err.contains("10.0.0.2 ended the connection in round 0, while the place"),
        "{said:?}"
    );
    // A client gets back what is not its own.
    let (mut tool, client) = Tool::listen(&cards, || client(&cards, 0, "10.0.0.2", &["-V"]));
    tool.hear(1);
    tool.say([0; LETTER]);
    let (sink, bytes) = place(tool.hear(2));
    tool.write(&data(1, bytes));
    let sges = [tool.memory.sge(DATA, bytes as u32)];
    tool.post(&SendWr::write(0, &sges, sink).signaled());
    tool.say([0; LETTER]);
    tool.connection.wait_disconnected(PATIENCE).unwrap();
    drop(tool);
    let said = client.end();
    assert!(said.code == 1 && said.err.contains("byte 10 of round 0 is 0x31, 0x30 was expected"), "{said:?}");
}

#[test]
fn rping_says_why_there_is_no_connection_and_what_to_do() {
    let cards = cards();
    let ask = |more: &[&str]| {
        let said = client(&cards, 1, "10.0.0.1", more).end();
        assert_eq!(said.code, 1, "{said:?}");
        said.err
    };
    let nobody = ask(&["-W", "1"]);
    assert!(
        nobody.contains("nobody on the wire is 10.0.0.1") && nobody.contains("; see whether"),
        "{nobody}"
    );
    // Somebody who has no manager.
    let name = cards.name(0);
    let there =
        cards.start(&["-d", &name, "ping", "--answer", "--ip", "10.0.0.1"]).until("answers to 10.0.0.1");
    let silent = ask(&["-W", "1"]);
    assert!(silent.contains("10.0.0.1 does not answer the communication manager within 1s"), "{silent}");
    there.interrupt();
    there.end().good();
    // A server on another port, which a signal ends.
    let there = server(&cards, &["-p", "7175"]);
    let refused = ask(&[]);
    assert!(
        refused.contains("rejects the connection to port 7174: nobody listens there (reason 8)"),
        "{refused}"
    );
    there.interrupt();
    let said = there.end();
    assert!(said.code == 1 && said.err.contains("stopped by a signal"), "{said:?}");
    // A program that does not want.
    let (node, cm) = manager(&cards);
    let listener = cm.listen(PORT).unwrap();
    let asking = client(&cards, 0, "10.0.0.2", &[]);
    listener.accept(PATIENCE).unwrap().reject(RejectReason::Consumer, b"").unwrap();
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        cm.poll().unwrap();
    }
    drop((listener, cm, node));
    let said = asking.end();
    assert!(
        said.code == 1 && said.err.contains("the program there refused (reason 28); see what it says"),
        "{said:?}"
    );
}

#[test]
fn rping_ends_on_a_signal_and_tells_the_other_side() {
    let cards = cards();
    // Without a count a signal is the end that was meant.
    let there = server(&cards, &["-V"]);
    let endless = client(&cards, 1, "10.0.0.1", &["-V", "-C", "0", "-v"]).until("ping data: rdma-ping-2: ");
    endless.interrupt();
    let text = endless.end().good();
    assert!(text.contains(" bytes with 10.0.0.1 in "), "{text}");
    there.end().good();
    // With one it is not.
    let there = server(&cards, &[]);
    let counted = client(&cards, 1, "10.0.0.1", &["-C", "1000000", "-v"]).until("ping data: rdma-ping-2: ");
    counted.interrupt();
    let said = counted.end();
    assert!(said.code == 1 && said.err.contains("stopped by a signal"), "{said:?}");
    let said = there.end_within(PATIENCE);
    assert!(said.code == 0 || said.err.contains("10.0.0.2 ended the connection in round"), "{said:?}");
}

#[test]
fn rping_runs_both_sides_in_one_process() {
    let nowhere = Folder::new("rping");
    let run = |arguments: &[&str]| {
        run_in(&nowhere.0, &[&["-d", "inproc:engine", "rping"], arguments].concat()).end()
    };
    let said = run(&["--json", "-V", "-C", "4", "-S", "3000"]).json();
    assert_eq!((&said["rounds"], &said["clock"], &said["size"]), (&4.into(), &"engine".into(), &3000.into()));
    let text = run(&["-V"]).good();
    assert!(text.contains("reference engine, no card") && text.contains("10 rounds of 64 bytes"), "{text}");
    let said = run(&["10.0.0.1"]);
    assert!(said.code == 2 && said.err.contains("leave the address out"), "{said:?}");
}
