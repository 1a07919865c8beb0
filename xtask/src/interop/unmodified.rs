// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `verbs`: programs that others wrote and Debian packages, unmodified, with the libraries of this project.
//!
//! ```text
//!  ferrowire run -- ib_write_bw --- libibverbs.so.1 --- ferrowire0.sock --- ferrowire-sim up --engine
//!        | TCP                                                                        | wire
//!  ferrowire run -- ib_write_bw --- libibverbs.so.1 --- ferrowire1.sock --------------+
//! ```
//!
//! All programs run on this machine, each process with an emulated card, or with a Verilated one. The same programs with soft-RoCE as the other side are cases of
//! `wire.rs` and `rping.rs`, and those in a guest with the cards on its bus of `bus.rs`. A case passes when the programs end well, their output has the figures of all
//! that was asked for (`expect`), and no process is left.

pub mod expect;
mod list;
mod pyverbs;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use rustix::process::Signal;

use super::process::{self, end_those_in, errors, last, listens, read, wait, Process};
use super::server::Server;
use super::{Case, Setting, Suite, Tried};
pub use list::cases;

/// The longest that a case may take: most take some seconds, and those of all sizes half a minute on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Addresses of the cards: this one, and the next ones.
const IP: [&str; 4] = ["10.7.0.1", "10.7.0.2", "10.7.0.3", "10.7.0.4"];

/// What the cards of a case are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cards {
    /// The reference engine.
    Emulated,
    /// The design, in this configuration.
    Verilated(&'static str),
}

/// How the programs of a case are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// One program with one card.
    Alone,
    /// The same program twice; the second is told the first's host, after its options.
    Pair,
    /// The same, but the first has no option but its port, and the second has the host as its first word, and its options after.
    Server,
    /// Two programs of the connection manager, with options for each, and whether the first one ends after its client.
    Managed { own: &'static str, peer: &'static str, ends: bool },
    /// The program waits for events, of which one comes when the server of its card ends.
    Watch,
    /// Python runs tests of pyverbs.
    Pyverbs,
    /// Four processes of MPI, each with a card, run this script.
    Mpi(&'static str),
}

/// A run of one program or of several.
struct Stock {
    name: String,
    program: &'static str,
    options: Vec<String>,
    run: Run,
    cards: Cards,
    /// Variables for the programs.
    environment: &'static [(&'static str, &'static str)],
    /// The option by which the program is given a TCP port.
    port: Option<&'static str>,
    quick: bool,
    /// The program is of a newer Debian, whose loader and C library run it.
    newer: bool,
    /// What the client, or the only program, must have said, and what must not be there.
    expect: expect::Expect,
}

impl Case for Stock {
    fn suite(&self) -> Suite {
        Suite::Verbs
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn quick(&self) -> bool {
        self.quick
    }

    fn has_waves(&self) -> bool {
        self.cards != Cards::Emulated
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        let result = self.with_cards(setting, logs);
        let left = end_those_in(logs);
        let result = result.and_then(|()| match left.is_empty() {
            true => Ok(()),
            false => bail!("processes were left behind: {}", left.join(", ")),
        });
        Ok(Tried { result, again: None })
    }
}

impl Stock {
    fn with_cards(&self, setting: &Setting, logs: &Path) -> Result<()> {
        // What is not there is fetched and built before a limit begins.
        setting.stock(logs)?;
        if self.newer {
            setting.newer()?;
        }
        let count = if let Run::Mpi(_) = self.run { 4 } else { 2 };
        let mut up = setting.program("ferrowire-sim", logs);
        up.args(["up", "--cards", &count.to_string(), "--ip", IP[0]]);
        let (begin, limit) = match self.cards {
            Cards::Emulated => {
                up.arg("--engine");
                (LIMIT, LIMIT)
            }
            Cards::Verilated(config) => {
                up.args(["--eager", "--config", config]);
                // A model that is not there is built first.
                (4 * process::LIMIT, process::LIMIT)
            }
        };
        let begin = Instant::now() + begin;
        let mut cards = Server::start("the cards", up, &logs.join("cards.log"), setting)?;
        for card in 0..count {
            cards.serves(&logs.join(format!("ferrowire{card}.sock")), begin)?;
        }
        let limit = Instant::now() + limit;
        match self.run {
            Run::Alone | Run::Pyverbs | Run::Mpi(_) => self.alone(setting, logs, limit)?,
            Run::Pair | Run::Server | Run::Managed { .. } => self.both(setting, logs, limit)?,
            // It ends the server of the cards.
            Run::Watch => return self.watch(setting, logs, limit, cards),
        }
        cards.lives()
    }

    /// The program, on a card, without what differs between both sides.
    fn command(&self, setting: &Setting, logs: &Path, card: u32) -> Result<Command> {
        let programs = setting.programs()?;
        let mut command = setting.stock(logs)?;
        command.envs(self.environment.iter().copied());
        match self.run {
            // Each process takes a card of the folder.
            Run::Mpi(script) => {
                programs.openmpi(&mut command);
                programs.python(&mut command);
                let path = logs.join("program.py");
                std::fs::write(&path, script).with_context(|| format!("writing {}", path.display()))?;
                command.arg("--").arg(programs.program(self.program)).args(&self.options);
                command.arg(programs.python_program()).arg(path);
            }
            _ => {
                command.args(["-d", &format!("sim:ferrowire{card}.sock"), "--"]);
                if self.run == Run::Pyverbs {
                    programs.python(&mut command);
                    command.arg(programs.python_program()).arg(programs.pyverbs_tests().join(self.program));
                } else if self.newer {
                    setting.newer()?.add(&mut command, self.program, setting.libraries()?);
                } else {
                    command.arg(programs.program(self.program));
                }
                if self.run != Run::Server {
                    command.args(&self.options);
                }
            }
        }
        Ok(command)
    }

    fn alone(&self, setting: &Setting, logs: &Path, limit: Instant) -> Result<()> {
        let log = logs.join("program.log");
        let mut program = Process::start_apart("the program", self.command(setting, logs, 0)?, &log)?;
        match program.end(limit) {
            // Tests end badly if one fails: which may is said elsewhere.
            Err(_) if self.run == Run::Pyverbs && program.ended()? => {}
            ended => ended.with_context(|| why(&log))?,
        }
        self.said(&log)
    }

    fn both(&self, setting: &Setting, logs: &Path, limit: Instant) -> Result<()> {
        let port = TcpListener::bind("localhost:0").and_then(|free| free.local_addr())?.port().to_string();
        let side = |card: u32, more: &[&str]| -> Result<Command> {
            let mut command = self.command(setting, logs, card)?;
            command.args(more);
            if let Some(option) = self.port {
                command.args([option, &port]);
            }
            if self.run == Run::Server && card == 1 {
                command.args(&self.options);
            }
            Ok(command)
        };
        let (at_server, at_client): (Vec<&str>, Vec<&str>) = match self.run {
            Run::Managed { own, peer, .. } => {
                (list::words(own, IP[0], &port), list::words(peer, IP[0], &port))
            }
            _ => (Vec::new(), vec!["localhost"]),
        };
        let [server_log, client_log] = ["server.log", "client.log"].map(|name| logs.join(name));
        let mut server = Process::start_apart("the server", side(0, &at_server)?, &server_log)?;
        let number: u16 = port.parse()?;
        while !self.serves(number, &server_log) {
            server.lives().with_context(|| why(&server_log))?;
            wait(limit, "the server")?;
        }
        let mut client = Process::start_apart("the client", side(1, &at_client)?, &client_log)?;
        client.end(limit).with_context(|| why(&client_log))?;
        match self.run {
            // It serves the next client.
            Run::Server | Run::Managed { ends: false, .. } => {
                server.lives().with_context(|| why(&server_log))?
            }
            _ => server.end(limit).with_context(|| why(&server_log))?,
        }
        if self.expect.of_both() {
            self.said(&server_log)?;
        }
        self.said(&client_log)
    }

    /// Whether the server waits for its client: at a TCP port, or at one of the card's own stack, which it says.
    fn serves(&self, port: u16, log: &Path) -> bool {
        match self.run {
            Run::Managed { own, .. } if !own.contains(list::PORT) => {
                read(&errors(log)).contains("rdma_listen")
            }
            _ => listens(port),
        }
    }

    /// Waits until the program watches, ends the server of its card, and waits for what the program says of it.
    fn watch(&self, setting: &Setting, logs: &Path, limit: Instant, cards: Server) -> Result<()> {
        let log = logs.join("program.log");
        let mut program = Process::start_apart("the program", self.command(setting, logs, 0)?, &log)?;
        let mut until = |text: &str| -> Result<()> {
            while !read(&log).contains(text) {
                program.lives().with_context(|| why(&log))?;
                wait(limit, &format!("`{text}`")).with_context(|| why(&log))?;
            }
            Ok(())
        };
        until("async event FD")?;
        drop(cards);
        until("event_type")?;
        program.signal(Signal::INT)?;
        self.said(&log)
    }

    fn said(&self, log: &Path) -> Result<()> {
        self.expect.check(&read(log), &read(&errors(log))).with_context(|| format!("see {}", log.display()))
    }
}

/// The last lines of a program's outputs.
fn why(log: &Path) -> String {
    format!("it said `{}`, and `{}`", last(log), last(&errors(log)))
}
