// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `ferrowire` as processes, which open pseudo-terminals; behind these are simulated boards.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrowire_sim::bus::World;
use rustix::fs::{fcntl_setfl, Mode, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use serde_json::Value;

use super::model;

/// Between the arguments.
const BETWEEN: char = '\u{1f}';
/// Where the output of the command begins, behind what the test harness prints.
const MARK: &str = "---- ferrowire ----";
/// For a command, which has waits of its own.
const PATIENCE: Duration = Duration::from_secs(600);

/// The command: this program begins again as this test alone.
#[test]
#[ignore = "a process of its own, which other tests start"]
fn the_command() {
    let Ok(arguments) = std::env::var("FERROWIRE_TEST_COMMAND") else { return };
    println!("\n{MARK}");
    let arguments = ["ferrowire"].into_iter().chain(arguments.split(BETWEEN)).map(Into::into);
    std::process::exit(ferrowire_cli::run(arguments).into());
}

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
    fn start(&self, board: usize, arguments: &[&str]) -> Child {
        let arguments = [&["-d", &self.names[board]], arguments].concat();
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "command::the_command"])
            .env("FERROWIRE_TEST_COMMAND", arguments.join(&BETWEEN.to_string()))
            .env("XDG_CONFIG_HOME", std::env::temp_dir().join("ferrowire-no-settings"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
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

/// Waits for its end: exit code, output, errors.
fn end(mut process: Child) -> (i32, String, String) {
    let end = Instant::now() + PATIENCE;
    while process.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let _ = process.kill();
            let _ = process.wait();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = process.wait_with_output().unwrap();
    let [out, err] = [said.stdout, said.stderr].map(|text| String::from_utf8(text).unwrap());
    let out = out.split_once(&format!("{MARK}\n")).map_or(String::new(), |(_, out)| out.to_string());
    (said.status.code().unwrap_or(-1), out, err)
}

#[track_caller]
fn json(process: Child) -> Value {
    let (code, out, err) = end(process);
    assert_eq!(code, 0, "{out}\n{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[test]
fn info_says_over_a_serial_port_what_a_card_is() {
    let boards = Boards::up(World::single(&model(), 0).unwrap(), 1);
    let info = json(boards.start(0, &["info", "--json"]));
    println!("{info}");
    assert_eq!(info["hca_id"], boards.names[0].as_str());
    assert_eq!((&info["max_qp"], &info["max_cq"]), (&16.into(), &8.into()));
}

#[test]
fn pingpong_and_bw_run_over_serial_ports() {
    let boards = Boards::up(World::pair(&model(), 0, 20).unwrap(), 2);
    let port = std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port().to_string();
    let both = |what: &[&str]| {
        let more = ["--json", "-p", &port];
        let mac = |k| ["--mac", ["02:fe:00:00:00:01", "02:fe:00:00:00:02"][k]];
        let server = boards.start(0, &[what, &more, &mac(0)].concat());
        let client = boards.start(1, &[what, &more, &mac(1), &["localhost"]].concat());
        let client = end(client);
        let server = end(server);
        assert_eq!((server.0, client.0), (0, 0), "{server:?}\n{client:?}");
        client.1
    };
    // The bytes of each message are compared.
    println!("{}", both(&["pingpong", "-c", "-s", "300", "-n", "2", "-r", "4"]));
    println!("{}", both(&["bw", "write", "-s", "256", "-n", "4", "-t", "4"]));
}
