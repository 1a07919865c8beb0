// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` as processes, which open pseudo-terminals; behind these are simulated boards.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ferrowire_sim::bus::World;
use rustix::fs::{fcntl_setfl, Mode, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};

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
        let mut names = Vec::new();
        let mut ports: Vec<(File, File)> = (0..count)
            .map(|_| {
                let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
                let master = openpt(flags).unwrap();
                grantpt(&master).unwrap();
                unlockpt(&master).unwrap();
                fcntl_setfl(&master, OFlags::NONBLOCK).unwrap();
                let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
                // While nobody has it open, it would be gone.
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
                let kept = rustix::fs::open(name.as_str(), flags, Mode::empty()).unwrap();
                // The rate tells how patient the driver is: the boards of this machine are slow.
                names.push(format!("serial:{name}@1200"));
                (master.into(), kept.into())
            })
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while !stopped.load(Ordering::Relaxed) {
                for (card, (port, _)) in ports.iter_mut().enumerate() {
                    let (to_board, to_pc) = world.card_mut(card).serial().unwrap();
                    if let Ok(n) = port.read(&mut bytes) {
                        to_board.push(&bytes[..n]);
                    }
                    if let Ok(n) = port.write(&to_pc.bytes) {
                        to_pc.bytes.drain(..n);
                    }
                }
                world.run(256);
                world.check().unwrap();
            }
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
