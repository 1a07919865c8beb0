// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `verbs`: programs that others wrote and Debian packages, unmodified, with the libraries of this project.
//!
//! ```text
//!  ferrowire run -- ib_write_bw --- libibverbs.so.1 --- ferrowire0.sock --- ferrowire-sim up --engine
//!        | TCP                                                                        | wire
//!  ferrowire run -- ib_write_bw --- libibverbs.so.1 --- ferrowire1.sock --------------+
//! ```
//!
//! All programs run on this machine, each process with an emulated card. A case passes when the programs end well, their output has the figures of all
//! that was asked for (`expect`), and no process is left.

mod expect;
mod list;
mod pyverbs;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use rustix::process::Signal;

use super::process::{end_those_in, errors, last, read, wait, Process};
use super::server::Server;
use super::{Case, Setting, Suite, Tried};
pub use list::cases;

/// The longest that a case may take: most take some seconds, and those of all sizes half a minute on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// Addresses of the cards: this one, and the next ones.
const IP: [&str; 4] = ["10.7.0.1", "10.7.0.2", "10.7.0.3", "10.7.0.4"];

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
        // What is fetched and built by the first case is none of its time.
        setting.programs()?;
        setting.libraries()?;
        if self.newer {
            setting.newer()?;
        }
        let limit = Instant::now() + LIMIT;
        let count = if let Run::Mpi(_) = self.run { 4 } else { 2 };
        let mut up = setting.program("ferrowire-sim", logs);
        up.args(["up", "--engine", "--cards", &count.to_string(), "--ip", IP[0]]);
        let mut cards = Server::start("the cards", up, &logs.join("cards.log"), setting)?;
        for card in 0..count {
            cards.serves(&logs.join(format!("ferrowire{card}.sock")), limit)?;
        }
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
        let mut command = setting.program("ferrowire", logs);
        command.args(["run", "-v", "--libraries"]).arg(setting.libraries()?);
        command.env("LD_LIBRARY_PATH", programs.libraries());
        // Of the machine that runs this.
        command.env_remove("FERROWIRE_DEVICE").env_remove("LD_PRELOAD");
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

/// Whether a program of this machine listens at a TCP port: a look that is no connection.
fn listens(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| is_in(&read(Path::new(table)), port))
}

/// Whether the kernel's table of TCP has a listener (state 0A) at a port.
fn is_in(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|address| address.ends_with(&local)) && words.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st\n   0: 00000000:4853 00000000:0000 0A 0\n   1: 0100007F:4854 0100007F:9999 01 0\n";
        assert!(is_in(table, 0x4853) && !is_in(table, 0x4854) && !is_in(table, 0x9999));
        let listener = TcpListener::bind("localhost:0").unwrap();
        assert!(listens(listener.local_addr().unwrap().port()));
    }
}
