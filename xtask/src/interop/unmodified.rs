// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `verbs`: programs that others wrote and Debian packages, unmodified, with the libraries of this project.
//!
//! ```text
//!  ferrowire run -- ib_write_bw --- libibverbs.so.1 --- ferrowire0.sock --- ferrowire-sim up --engine
//!        | TCP                                                                        | wire
//!  ferrowire run -- ib_write_bw --- libibverbs.so.1 --- ferrowire1.sock --------------+
//! ```
//!
//! Both programs run on this machine, each with an emulated card. A case passes when both end well and say what they must.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};

use super::process::{last, read, wait, Process};
use super::server::Server;
use super::{Case, Setting, Suite, Tried};

/// The longest that a case may take: it takes some seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// Addresses of the cards: this one, and the next.
const IP: &str = "10.7.0.1";

/// A run of one program or of two.
#[derive(Clone, Copy)]
struct Stock {
    name: &'static str,
    program: &'static str,
    options: &'static [&'static str],
    /// Two of them, of which one is told where the other is.
    pair: bool,
    quick: bool,
    /// What the client, or the only one, must have said.
    says: &'static str,
}

/// All cases.
pub fn cases() -> Vec<Box<dyn Case>> {
    all().into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect()
}

fn all() -> Vec<Stock> {
    let one =
        |name, program, options, says| Stock { name, program, options, pair: false, quick: false, says };
    let two = |name, program, options| Stock {
        name,
        program,
        options,
        pair: true,
        quick: false,
        // The unit of the only line of figures.
        says: if program_is_perftest(program) { "#bytes" } else { "usec/iter" },
    };
    let quick = |stock| Stock { quick: true, ..stock };
    vec![
        one("devices", "ibv_devices", &[], "ferrowire0"),
        one("devinfo", "ibv_devinfo", &["-v"], "PORT_ACTIVE"),
        quick(two("rc-pingpong", "ibv_rc_pingpong", &["-g", "0", "-n", "200", "-c"])),
        two("rc-pingpong-events", "ibv_rc_pingpong", &["-g", "0", "-n", "200", "-c", "-e"]),
        two("rc-pingpong-ipv4", "ibv_rc_pingpong", &["-g", "1", "-n", "200", "-m", "4096", "-s", "100000"]),
        two("rc-pingpong-new-send", "ibv_rc_pingpong", &["-g", "0", "-n", "200", "-N"]),
        two("uc-pingpong", "ibv_uc_pingpong", &["-g", "0", "-n", "200", "-c"]),
        two("uc-pingpong-events", "ibv_uc_pingpong", &["-g", "0", "-n", "200", "-c", "-e"]),
        two("ud-pingpong", "ibv_ud_pingpong", &["-g", "0", "-n", "200", "-s", "1024", "-c"]),
        two("ud-pingpong-events", "ibv_ud_pingpong", &["-g", "0", "-n", "200", "-s", "1024", "-c", "-e"]),
        two("srq-pingpong", "ibv_srq_pingpong", &["-g", "0", "-n", "200", "-q", "8", "-c"]),
        two("srq-pingpong-events", "ibv_srq_pingpong", &["-g", "0", "-n", "200", "-q", "8", "-c", "-e"]),
        quick(two("write-bw", "ib_write_bw", &["-n", "200"])),
        two("write-bw-all", "ib_write_bw", &["-a", "-n", "100"]),
        two("write-bw-both", "ib_write_bw", &["-b", "-n", "100"]),
        two("write-bw-four", "ib_write_bw", &["-q", "4", "-n", "100"]),
        two("write-bw-old-post", "ib_write_bw", &["--use_old_post_send", "-n", "100"]),
        two("write-bw-uc", "ib_write_bw", &["-c", "UC", "-n", "100"]),
        two("write-lat", "ib_write_lat", &["-n", "100"]),
        two("write-lat-inline", "ib_write_lat", &["-n", "100", "-s", "64", "-I", "64"]),
        two("read-bw", "ib_read_bw", &["-n", "100"]),
        quick(two("read-lat", "ib_read_lat", &["-n", "100"])),
        quick(two("send-bw", "ib_send_bw", &["-n", "200"])),
        two("send-bw-events", "ib_send_bw", &["-n", "100", "-e"]),
        two("send-bw-uc", "ib_send_bw", &["-c", "UC", "-n", "100"]),
        two("send-bw-ud", "ib_send_bw", &["-c", "UD", "-n", "100", "-s", "2048"]),
        two("send-bw-srq", "ib_send_bw", &["-n", "100", "--use-srq"]),
        two("send-lat", "ib_send_lat", &["-n", "100"]),
        two("send-lat-ud", "ib_send_lat", &["-c", "UD", "-n", "100", "-s", "1024"]),
        two("atomic-bw", "ib_atomic_bw", &["-n", "100"]),
        two("atomic-lat", "ib_atomic_lat", &["-n", "100"]),
        two("atomic-lat-swap", "ib_atomic_lat", &["-n", "100", "-A", "CMP_AND_SWAP"]),
    ]
}

const fn program_is_perftest(program: &str) -> bool {
    // `ib_...`, and not `ibv_...`.
    program.as_bytes()[2] == b'_'
}

impl Case for Stock {
    fn suite(&self) -> Suite {
        Suite::Verbs
    }

    fn name(&self) -> String {
        self.name.into()
    }

    fn quick(&self) -> bool {
        self.quick
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        let limit = Instant::now() + LIMIT;
        let mut up = setting.program("ferrowire-sim", logs);
        up.args(["up", "--engine", "--ip", IP]);
        let mut cards = Server::start("the cards", up, &logs.join("cards.log"), setting)?;
        for card in 0..2 {
            cards.serves(&logs.join(format!("ferrowire{card}.sock")), limit)?;
        }
        let result = match self.pair {
            true => self.both(setting, logs, limit),
            false => self.alone(setting, logs, limit),
        };
        Ok(Tried { result: result.and_then(|()| cards.lives()), again: None })
    }
}

impl Stock {
    /// The program, on a card.
    fn command(&self, setting: &Setting, logs: &Path, card: u32) -> Result<Command> {
        let programs = setting.programs()?;
        let mut command = setting.program("ferrowire", logs);
        command.args(["run", "-v", "-d", &format!("sim:ferrowire{card}.sock"), "--libraries"]);
        command.arg(setting.libraries()?).arg("--").arg(programs.program(self.program)).args(self.options);
        command.env("LD_LIBRARY_PATH", programs.libraries());
        Ok(command)
    }

    fn alone(&self, setting: &Setting, logs: &Path, limit: Instant) -> Result<()> {
        let log = logs.join("program.log");
        let mut program = Process::start("the program", self.command(setting, logs, 0)?, &log)?;
        program.end(limit).with_context(|| last(&log))?;
        self.said(&log)
    }

    fn both(&self, setting: &Setting, logs: &Path, limit: Instant) -> Result<()> {
        let port = TcpListener::bind("localhost:0").and_then(|free| free.local_addr())?.port();
        let side = |card, more: &[&str]| -> Result<Command> {
            let mut command = self.command(setting, logs, card)?;
            command.args(["-p", &port.to_string()]).args(more);
            Ok(command)
        };
        let [at_server, at_client] = ["server.log", "client.log"].map(|name| logs.join(name));
        let mut server = Process::start("the server", side(0, &[])?, &at_server)?;
        while !listens(port) {
            server.lives().with_context(|| last(&at_server))?;
            wait(limit, "the server")?;
        }
        let mut client = Process::start("the client", side(1, &["localhost"])?, &at_client)?;
        client.end(limit).with_context(|| last(&at_client))?;
        server.end(limit).with_context(|| last(&at_server))?;
        self.said(&at_client)
    }

    fn said(&self, log: &Path) -> Result<()> {
        match read(log).contains(self.says) {
            true => Ok(()),
            false => bail!("it did not say `{}`: {}", self.says, last(log)),
        }
    }
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
