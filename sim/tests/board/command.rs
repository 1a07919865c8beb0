// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` drives simulated boards. Each board runs in a process of its own, `ferrowire-sim board`, which serves it on a pseudo-terminal.

use crate::tier::{here, one_of};
use crate::FEW_TABLES;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::command::process::{free_port, run_in};
use crate::socket::rig::{Folder, Server};

/// For a command, which has waits of its own.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn two_served_boards_talk_over_a_socket() {
    let folder = Folder::new("served");
    let wire = format!("stream:{}", folder.join("wire.sock").display());
    let [a, b] = ["a", "b"].map(|board| {
        let [port, capture] =
            ["tty", "pcapng"].map(|kind| folder.join(&format!("{board}.{kind}")).display().to_string());
        let options = ["--wire", &wire, "--memory", "131072", "--capture", &capture];
        let tables = FEW_TABLES.iter().flat_map(|set| ["--set", set]);
        let words: Vec<&str> = ["board", "--port", &port].into_iter().chain(options).chain(tables).collect();
        let server = Server::start(&words, 1);
        assert_eq!(server.sockets, [PathBuf::from(port)]);
        server
    });
    let names = [&a, &b].map(|server| format!("serial:{}@1200", server.sockets[0].display()));
    let tcp = free_port().to_string();
    // Four messages of 300 bytes.
    let pingpong = "pingpong -c -s 300 -n 2 -r 4";
    let bw = "bw write -s 300 -n 4 -t 4";
    for what in one_of(here!(), vec![pingpong, bw]) {
        let start = |board: usize, more: &[&str]| {
            let mac = format!("02:fe:00:00:00:0{}", board + 1);
            let card = ["-d", &names[board]];
            let words: Vec<&str> = card.into_iter().chain(what.split(' ')).collect();
            let side = ["--mac", &mac, "-p", &tcp, "--json"];
            run_in(&folder.join("settings"), &[&words, &side[..], more].concat())
        };
        let server = start(0, &[]);
        let client = start(1, &["localhost"]).end_within(PATIENCE);
        let server = server.end_within(PATIENCE);
        assert_eq!((server.code, client.code), (0, 0), "{what}: {server:?}\n{client:?}");
    }
    // A board serves one program after the other.
    let info = run_in(&folder.join("settings"), &["-d", &names[0], "info", "--json"]);
    let info = info.end_within(PATIENCE).json();
    assert_eq!(info["hca_id"], names[0].as_str());
    assert_eq!((&info["max_qp"], &info["max_cq"]), (&16.into(), &8.into()));
    // A port that is served is nobody else's, and only a card on AXI4 has one.
    let refused = |more: &[&str]| {
        let mut second = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"));
        let output = second.arg("board").args(more).current_dir(&folder.0).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--port", "a.tty", "--memory", "131072"]);
    assert!(said.contains("a.tty is another board's; end that one"), "{said}");
    let said = refused(&["--port", "c.tty", "--config", "generic-8b"]);
    assert!(said.contains("the card of a board is on AXI4, as axi-8b"), "{said}");
    let said = refused(&["--port", "c.tty", "--memory", "5000"]);
    assert!(said.contains("on a board with a serial line: ") && said.contains("5000"), "{said}");
    for server in [a, b] {
        let port = server.sockets[0].clone();
        assert!(server.interrupt());
        assert!(std::fs::symlink_metadata(&port).is_err(), "{} is left behind", port.display());
    }
    // The messages have passed, and what answers them.
    for board in ["a", "b"] {
        let capture = folder.join(&format!("{board}.pcapng"));
        assert!(std::fs::metadata(capture).unwrap().len() > 4 * 300, "{board}");
    }
}
