// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ferrowire` as processes: this program, which becomes the command when it is told so.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use ferrowire::SendWr;
use ferrowire_sim::pair::{bytes, post};

use crate::socket::{Folder, Node, Server, PATIENCE};

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

/// Where the output of a program begins, behind what the test harness prints.
const MARK: &str = "---- ferrowire ----";
/// Between the arguments.
const BETWEEN: char = '\u{1f}';

/// The command: this program begins again as this test alone.
#[test]
#[ignore = "a process of its own, which other tests start"]
fn the_command() {
    let Ok(arguments) = std::env::var("FERROWIRE_TEST_COMMAND") else { return };
    println!("\n{MARK}");
    let arguments = ["ferrowire"].into_iter().chain(arguments.split(BETWEEN)).map(Into::into);
    let code = ferrowire_cli::run(arguments);
    std::process::exit(code.into());
}

/// The key-value store of the driver's examples, likewise.
#[test]
#[ignore = "a process of its own, which other tests start"]
fn the_key_value_store() {
    let Ok(arguments) = std::env::var("FERROWIRE_TEST_KV_STORE") else { return };
    println!("\n{MARK}");
    let arguments: Vec<String> = arguments.split(BETWEEN).map(String::from).collect();
    match crate::kv_store::run(&arguments) {
        Ok(said) => println!("{said}"),
        Err(error) => {
            eprintln!("Error: {error}");
            std::process::exit(1);
        }
    }
    std::process::exit(0);
}

/// What a run of the command left.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Asserts that all went well.
    #[track_caller]
    pub fn good(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self.out
    }

    /// The same, as JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.good();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// A run of the command that goes on.
pub struct Running {
    pub process: Child,
    out: BufReader<ChildStdout>,
    before: String,
}

impl Running {
    /// Waits for a line that contains `word`.
    #[track_caller]
    pub fn until(mut self, word: &str) -> Self {
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended without `{word}`: {}", self.before);
            self.before += &line;
            if line.contains(word) {
                return self;
            }
        }
    }

    /// SIGINT.
    pub fn interrupt(&self) {
        let pid = rustix::process::Pid::from_raw(self.process.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Said {
        let end = Instant::now() + 4 * PATIENCE;
        // What it says fits the pipes.
        while !self.has_ended() {
            assert!(Instant::now() < end, "it does not end: {}", self.before);
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut out = self.before;
        self.out.read_to_string(&mut out).unwrap();
        let mut err = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.process.wait().unwrap().code().unwrap_or(-1);
        let out = out.split_once(&format!("{MARK}\n")).map_or(String::new(), |(_, out)| out.to_string());
        Said { code, out, err }
    }
}

/// Starts the command with its settings in a folder.
pub fn run_in(settings: &Path, arguments: &[&str]) -> Running {
    begin("rig::the_command", "FERROWIRE_TEST_COMMAND", settings, arguments)
}

/// Starts this program again as one of the tests above, which finds its arguments in a variable.
fn begin(test: &str, variable: &str, settings: &Path, arguments: &[&str]) -> Running {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .env(variable, arguments.join(&BETWEEN.to_string()))
        .env("XDG_CONFIG_HOME", settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    Running { process, out, before: String::new() }
}

/// A TCP port that nobody has.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port()
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
        let port = free_port().to_string();
        let (a, b) = (self.name(0), self.name(1));
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
            begin("rig::the_key_value_store", "FERROWIRE_TEST_KV_STORE", &self.folder.0, &arguments)
        };
        (kv(0, "listen", &[]), kv(1, "connect", client))
    }

    /// What both say, as JSON: the server, and the client.
    #[track_caller]
    pub fn both_json(&self, what: &[&str], more: &[&str]) -> (Value, Value) {
        let server = [&["--json"], what].concat();
        let client = [&["--json"], what, more].concat();
        let (server, client) = self.both(&server, &client);
        let client = client.end();
        let server = server.end();
        assert_eq!((server.code, client.code), (0, 0), "{server:?}\n{client:?}");
        (server.json(), client.json())
    }
}

/// A WRITE from one card to the other, with all bytes compared.
pub fn exchange(a: &Node, b: &Node) {
    let (mut qp, _peer) = crate::socket::pair(a, b);
    let (from, to) = (a.region(4096), b.region(4096));
    let data: Vec<u8> = (0..4096u32).map(|i| (i * 7 % 251) as u8).collect();
    from.memory().write(0, &data);
    post(&mut qp, &[SendWr::write(1, &[from.sge(0, 4096)], to.remote(0)).signaled()]);
    a.completions(1);
    assert_eq!(bytes(to.memory()), data);
}
