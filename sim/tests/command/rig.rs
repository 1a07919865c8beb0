// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two cards, and `ferrowire` as processes that open them.

use std::path::Path;

use serde_json::Value;

use ferrowire::SendWr;
use ferrowire_sim::pair::{bytes, post};

use super::process::{begin, free_port, run_in, Running, Said, BETWEEN, MARK};
use crate::socket::rig::{Folder, Node, Server};

/// Two cards on a wire.
pub struct Cards {
    pub server: Server,
    /// Settings of the command, so that those of whoever runs this do not count.
    pub folder: Folder,
}

/// Cards for a test.
pub fn cards() -> Cards {
    Cards::up("command", &[])
}

/// The key-value store of the driver's examples, likewise.
#[test]
#[ignore = "a process of its own, which other tests start"]
fn the_key_value_store() {
    let Ok(arguments) = std::env::var("FERROWIRE_TEST_KV_STORE") else { return };
    println!("\n{MARK}");
    let arguments: Vec<String> = arguments.split(BETWEEN).map(String::from).collect();
    match super::kv_store::run(&arguments) {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("Error: {error}");
            std::process::exit(1);
        }
    }
    std::process::exit(0);
}

impl Cards {
    /// Starts them.
    pub fn up(name: &str, more: &[&str]) -> Self {
        let folder = Folder::new(name);
        Self { server: Server::up(&folder, more), folder }
    }

    /// The name of a card.
    pub fn name(&self, card: usize) -> String {
        format!("sim:{}", self.server.sockets[card].display())
    }

    /// The socket of a card.
    pub fn socket(&self, card: usize) -> &Path {
        &self.server.sockets[card]
    }

    /// Starts the command.
    pub fn start(&self, arguments: &[&str]) -> Running {
        run_in(&self.folder.0, arguments)
    }

    /// Runs the command on a card.
    #[track_caller]
    pub fn on(&self, card: usize, arguments: &[&str]) -> Said {
        let name = self.name(card);
        self.start(&[&["-d", &name], arguments].concat()).end()
    }

    /// Starts a server on card 0 and a client on card 1.
    pub fn both(&self, server: &[&str], client: &[&str]) -> (Running, Running) {
        self.both_on([0, 1], server, client)
    }

    /// Starts a server and a client, each on its card.
    pub fn both_on(&self, cards: [usize; 2], server: &[&str], client: &[&str]) -> (Running, Running) {
        let port = free_port().to_string();
        let [a, b] = cards.map(|card| self.name(card));
        let server = self.start(&[&["-d", &a], server, &["-p", &port]].concat());
        let client = self.start(&[&["-d", &b], client, &["-p", &port, "localhost"]].concat());
        (server, client)
    }

    /// Starts the key-value store on card 0, and on card 1 a client of it that does so.
    pub fn both_kv(&self, client: &[&str]) -> (Running, Running) {
        let place = format!("127.0.0.1:{}", free_port());
        let kv = |card: usize, role: &str, more: &[&str]| {
            let name = self.name(card);
            let arguments = [&[&name, role, &place], more].concat();
            begin("command::rig::the_key_value_store", "FERROWIRE_TEST_KV_STORE", &self.folder.0, &arguments)
        };
        (kv(0, "listen", &[]), kv(1, "connect", client))
    }

    /// What both say, as JSON: the server, and the client.
    #[track_caller]
    pub fn both_json(&self, what: &[&str], more: &[&str]) -> (Value, Value) {
        self.both_json_on([0, 1], what, more)
    }

    /// The same of other cards.
    #[track_caller]
    pub fn both_json_on(&self, cards: [usize; 2], what: &[&str], more: &[&str]) -> (Value, Value) {
        let server = [&["--json"], what].concat();
        let client = [&["--json"], what, more].concat();
        let (server, client) = self.both_on(cards, &server, &client);
        let client = client.end();
        let server = server.end();
        assert_eq!((server.code, client.code), (0, 0), "{server:?}\n{client:?}");
        (server.json(), client.json())
    }
}

/// A WRITE from one card to the other, with all bytes compared.
pub fn exchange(a: &Node, b: &Node) {
    let (mut qp, _peer) = crate::socket::rig::pair(a, b);
    let (from, to) = (a.region(4096), b.region(4096));
    let data: Vec<u8> = (0..4096u32).map(|i| (i * 7 % 251) as u8).collect();
    from.memory().write(0, &data);
    post(&mut qp, &[SendWr::write(1, &[from.sge(0, 4096)], to.remote(0)).signaled()]);
    a.completions(1);
    assert_eq!(bytes(to.memory()), data);
}
