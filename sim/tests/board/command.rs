// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` as processes, which open pseudo-terminals; behind these are simulated boards.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ferrowire_sim::bus::World;
use ferrowire_sim::socket::Tty;
use rustix::process::{kill_process, Pid, Signal};

use super::model;
use super::process::{free_port, run_in, Running};

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
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ferrowire-boards-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let links: Vec<PathBuf> = (0..count).map(|board| folder.join(format!("{board}.tty"))).collect();
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
            drop(ports);
            std::fs::remove_dir_all(&folder).unwrap();
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

/// `ferrowire-sim board` in a folder of its own, until it is dropped.
struct Served {
    process: Child,
    folder: PathBuf,
}

impl Served {
    fn begin(folder: &Path, port: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"))
            .args(["board", "--port", port, "--wire", "stream:wire.sock", "--memory", "131072"])
            .args(["--capture", &format!("{port}.pcapng")])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("ferrowire -d serial:{port}@1200 info\n"));
        Self { process, folder: folder.into() }
    }

    fn end(mut self, port: &str) {
        kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
        assert!(self.process.wait().unwrap().success());
        assert!(std::fs::symlink_metadata(self.folder.join(port)).is_err(), "{port} is left behind");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn two_served_boards_talk_over_a_socket() {
    let folder = std::env::temp_dir().join(format!("ferrowire-served-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let boards = ["a.tty", "b.tty"].map(|port| Served::begin(&folder, port));
    let tcp = free_port().to_string();
    let start = |board: usize, more: &[&str]| {
        let name = format!("serial:{}@1200", folder.join(["a.tty", "b.tty"][board]).display());
        let mac = format!("02:fe:00:00:00:0{}", board + 1);
        let words = [
            "-d", &name, "pingpong", "--mac", &mac, "-p", &tcp, "-c", "-s", "300", "-n", "2", "-r", "4",
            "--json",
        ];
        run_in(&folder.join("settings"), &[&words, more].concat())
    };
    // Twice: a board serves one program behind the other.
    for _ in 0..2 {
        let server = start(0, &[]);
        let client = start(1, &["localhost"]).end_within(PATIENCE);
        let server = server.end_within(PATIENCE);
        assert_eq!((server.code, client.code), (0, 0), "{server:?}\n{client:?}");
    }
    // A port that is served is nobody else's, and only a card on AXI4 has one.
    let refused = |more: &[&str]| {
        let mut second = Command::new(env!("CARGO_BIN_EXE_ferrowire-sim"));
        let output = second.arg("board").args(more).current_dir(&folder).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--port", "a.tty", "--memory", "131072"]);
    assert!(said.contains("a.tty is another board's; end that one"), "{said}");
    let said = refused(&["--port", "c.tty", "--config", "generic-8b"]);
    assert!(said.contains("the card of a board is on AXI4, as axi-8b"), "{said}");
    let said = refused(&["--port", "c.tty", "--memory", "5000"]);
    assert!(said.contains("on a board with a serial line: ") && said.contains("5000"), "{said}");
    let [a, b] = boards;
    a.end("a.tty");
    b.end("b.tty");
    // Twice two messages of 300 bytes each way have passed, and what answers them.
    for port in ["a.tty", "b.tty"] {
        assert!(std::fs::metadata(folder.join(format!("{port}.pcapng"))).unwrap().len() > 8 * 300, "{port}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn pingpong_and_bw_run_over_serial_ports() {
    let boards = Boards::up(World::pair(&model(), 0, 20).unwrap(), 2);
    let port = free_port().to_string();
    let both = |what: &[&str]| {
        let more = ["--json", "-p", &port];
        let mac = |k| ["--mac", ["02:fe:00:00:00:01", "02:fe:00:00:00:02"][k]];
        let server = boards.start(0, &[what, &more, &mac(0)].concat());
        let client = boards.start(1, &[what, &more, &mac(1), &["localhost"]].concat());
        let client = client.end_within(PATIENCE);
        let server = server.end_within(PATIENCE);
        assert_eq!((server.code, client.code), (0, 0), "{server:?}\n{client:?}");
        client.out
    };
    // The bytes of each message are compared.
    println!("{}", both(&["pingpong", "-c", "-s", "300", "-n", "2", "-r", "4"]));
    println!("{}", both(&["bw", "write", "-s", "256", "-n", "4", "-t", "4"]));
}
