// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` as processes, which open pseudo-terminals; behind these are simulated boards.

use crate::FEW_TABLES;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ferrowire_sim::bus::World;
use ferrowire_sim::socket::Tty;

use super::model;
use crate::command::process::{free_port, run_in, Running};
use crate::socket::rig::{Folder, Server};

/// For a command, which has waits of its own.
const PATIENCE: Duration = Duration::from_secs(600);

/// Boards that run, and the names of their ports.
struct Boards {
    names: Vec<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Boards {
    fn up(mut world: World, count: usize) -> Self {
        let folder = Folder::new("boards");
        let links: Vec<PathBuf> = (0..count).map(|board| folder.join(&format!("{board}.tty"))).collect();
        let mut ports: Vec<Tty> = links.iter().map(|link| Tty::open(link).unwrap()).collect();
        // The rate tells how patient the driver is: the boards of this machine are slow.
        let names = links.iter().map(|link| format!("serial:{}@1200", link.display())).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for (card, port) in ports.iter_mut().enumerate() {
                    port.exchange(&mut world, card).unwrap();
                }
                world.run(256);
                world.check().unwrap();
            }
            drop((ports, folder));
        });
        Self { names, stop, thread: Some(thread) }
    }

    /// Starts the command on a board.
    fn start(&self, board: usize, arguments: &[&str]) -> Running {
        let settings = std::env::temp_dir().join("ferrowire-no-settings");
        run_in(&settings, &[&["-d", &self.names[board]], arguments].concat())
    }
}

impl Drop for Boards {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

#[test]
fn info_says_over_a_serial_port_what_a_card_is() {
    let boards = Boards::up(World::single(&model(), 0).unwrap(), 1);
    let info = boards.start(0, &["info", "--json"]).end_within(PATIENCE).json();
    println!("{info}");
    assert_eq!(info["hca_id"], boards.names[0].as_str());
    assert_eq!((&info["max_qp"], &info["max_cq"]), (&16.into(), &8.into()));
}

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
    let start = |board: usize, more: &[&str]| {
        let mac = format!("02:fe:00:00:00:0{}", board + 1);
        let name = &names[board];
        let words = [
            "-d", name, "pingpong", "--mac", &mac, "-p", &tcp, "-c", "-s", "300", "-n", "2", "-r", "4",
            "--json",
        ];
        run_in(&folder.join("settings"), &[&words, more].concat())
    };
    let server = start(0, &[]);
    let client = start(1, &["localhost"]).end_within(PATIENCE);
    let server = server.end_within(PATIENCE);
    assert_eq!((server.code, client.code), (0, 0), "{server:?}\n{client:?}");
    // A board serves one program after the other.
    let info = run_in(&folder.join("settings"), &["-d", &names[0], "info", "--json"]);
    assert_eq!(info.end_within(PATIENCE).json()["hca_id"], names[0].as_str());
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
    // Two messages of 300 bytes each way have passed, and what answers them.
    for board in ["a", "b"] {
        let capture = folder.join(&format!("{board}.pcapng"));
        assert!(std::fs::metadata(capture).unwrap().len() > 4 * 300, "{board}");
    }
}

#[test]
fn bw_runs_over_serial_ports() {
    let boards = Boards::up(World::pair(&model(), 0, 20).unwrap(), 2);
    let port = free_port().to_string();
    let what = ["bw", "write", "-s", "256", "-n", "4", "-t", "4", "--json", "-p", &port];
    let mac = |k| ["--mac", ["02:fe:00:00:00:01", "02:fe:00:00:00:02"][k]];
    let server = boards.start(0, &[&what[..], &mac(0)].concat());
    let client = boards.start(1, &[&what[..], &mac(1), &["localhost"]].concat());
    let client = client.end_within(PATIENCE);
    let server = server.end_within(PATIENCE);
    assert_eq!((server.code, client.code), (0, 0), "{server:?}\n{client:?}");
    println!("{}", client.out);
}
