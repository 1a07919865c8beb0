// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Guests`]: virtual machines on a card's wire or bus, whose clocks stand while the card computes.
//!
//! A Verilated card is some hundred times slower than the card would be. To a guest whose own clock goes on meanwhile, that looks like loss:
//! it sends again what is only late. So QEMU is told to stop while a card has something to do, and to go on when it has not; the guest's
//! timers, and its processor, then see none of the time that a simulation takes.
//!
//! ```text
//!  card busy  ____/‾‾‾‾‾‾‾‾‾\_________/‾‾‾‾\____
//!  QMP            stop       cont     stop  cont
//!  guest runs ‾‾‾‾‾\__________/‾‾‾‾‾‾‾‾\____/‾‾‾
//! ```
//!
//! QEMU connects (`-qmp unix:PATH`), as many as want. The protocol is the QEMU Machine Protocol: a JSON object a line; nothing is waited for.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::PollFlags;
use serde_json::Value;

use super::listener::Listener;
use crate::say::say;

/// Longest line that is taken for one of QEMU's.
const MAX_LINE: usize = 1 << 16;

/// All that have connected.
pub struct Guests {
    listener: Listener,
    monitors: Vec<Monitor>,
    /// How long they have run until they stood last, and since when they do.
    ran: Duration,
    runs: Option<Instant>,
}

/// A connection to one.
struct Monitor {
    socket: UnixStream,
    /// It has greeted, so it takes commands.
    ready: bool,
    /// What was said to it.
    held: bool,
    input: Vec<u8>,
}

impl Guests {
    /// Those that connect to `path`.
    ///
    /// # Errors
    /// The path is in use.
    pub fn bind(path: &Path) -> Result<Self> {
        Ok(Self { listener: Listener::bind(path)?, monitors: Vec::new(), ran: Duration::ZERO, runs: None })
    }

    /// What to wait for.
    pub fn files(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let monitors = self.monitors.iter().map(|monitor| monitor.socket.as_fd());
        monitors.chain([self.listener.as_fd()]).map(|file| (file, PollFlags::IN))
    }

    /// How long they have not stood.
    pub fn ran(&self) -> Duration {
        self.ran + self.runs.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Lets guests in, reads what they say, and has all of them stand or go on.
    pub fn hold(&mut self, held: bool) {
        match (held, self.runs) {
            (true, Some(since)) => {
                self.ran += since.elapsed();
                self.runs = None;
            }
            (false, None) => self.runs = Some(Instant::now()),
            _ => {}
        }
        while let Some(socket) = self.listener.accept() {
            self.monitors.push(Monitor { socket, ready: false, held: false, input: Vec::new() });
        }
        self.monitors.retain_mut(|monitor| match monitor.turn(held) {
            Ok(()) => true,
            Err(why) => {
                if let Some(why) = why {
                    say(format_args!("a guest's clock does not follow the card any more: {why}"));
                }
                false
            }
        });
    }
}

impl Drop for Guests {
    /// Nobody is left standing.
    fn drop(&mut self) {
        self.hold(false);
    }
}

impl Monitor {
    /// Reads and says what is due. An error: it is gone, for a reason or of its own will.
    fn turn(&mut self, held: bool) -> Result<(), Option<String>> {
        self.read()?;
        while let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.take(&line)?;
        }
        if self.input.len() > MAX_LINE {
            return Err(Some("what it says has no end".into()));
        }
        if self.ready && self.held != held {
            self.say(if held { "stop" } else { "cont" })?;
            self.held = held;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Option<String>> {
        let mut some = [0; 4096];
        loop {
            match self.socket.read(&mut some) {
                Ok(0) => return Err(None),
                Ok(bytes) => self.input.extend(&some[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(None),
            }
        }
    }

    /// A greeting, an answer or an event.
    fn take(&mut self, line: &[u8]) -> Result<(), Option<String>> {
        let said = String::from_utf8_lossy(line);
        let value: Value = serde_json::from_str(said.trim())
            .map_err(|_| Some(format!("`{}` is not of the QEMU Machine Protocol", said.trim())))?;
        if value.get("QMP").is_some() {
            self.say("qmp_capabilities")?;
            self.ready = true;
        } else if let Some(error) = value.get("error") {
            return Err(Some(error["desc"].as_str().unwrap_or("it refuses a command").into()));
        }
        Ok(())
    }

    fn say(&mut self, command: &str) -> Result<(), Option<String>> {
        let line = format!("{{\"execute\":\"{command}\"}}\n");
        // Some bytes into an empty socket: who cannot take them has not read for thousands of commands.
        match self.socket.write(line.as_bytes()) {
            Ok(bytes) if bytes == line.len() => Ok(()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(None),
            _ => Err(Some("it does not read what it is told".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn guests(name: &str) -> (std::path::PathBuf, Guests) {
        let path = std::env::temp_dir().join(format!("ferrowire-qmp-{}-{name}", std::process::id()));
        let guests = Guests::bind(&path).unwrap();
        (path, guests)
    }

    fn lines(socket: &UnixStream) -> impl Iterator<Item = String> {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        BufReader::new(socket.try_clone().unwrap()).lines().map(|line| {
            let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
            value["execute"].as_str().unwrap().to_string()
        })
    }

    #[test]
    fn a_guest_is_told_of_changes_alone_and_of_none_before_it_has_greeted() {
        let (path, mut guests) = guests("told");
        let mut qemu = UnixStream::connect(&path).unwrap();
        guests.hold(true);
        qemu.write_all(b"{\"QMP\": {\"version\": {}, \"capa").unwrap();
        guests.hold(true);
        qemu.write_all(b"bilities\": []}}\r\n").unwrap();
        guests.hold(true);
        qemu.write_all(b"{\"return\": {}}\r\n{\"timestamp\": {}, \"event\": \"STOP\"}\r\n").unwrap();
        guests.hold(true);
        guests.hold(false);
        guests.hold(false);
        guests.hold(true);
        let mut lines = lines(&qemu);
        // One that comes later stands as well.
        let mut late = UnixStream::connect(&path).unwrap();
        late.write_all(b"{\"QMP\": {}}\r\n").unwrap();
        guests.hold(true);
        drop(guests);
        let said: Vec<String> = lines.by_ref().collect();
        assert_eq!(said, ["qmp_capabilities", "stop", "cont", "stop", "cont"]);
        assert_eq!(self::lines(&late).collect::<Vec<_>>(), ["qmp_capabilities", "stop", "cont"]);
        assert!(!path.exists());
    }

    #[test]
    fn who_leaves_or_speaks_another_protocol_is_forgotten() {
        let (path, mut guests) = guests("gone");
        for said in ["", "hello\n", "{\"error\": {\"desc\": \"no\"}}\n", &"x".repeat(MAX_LINE + 1)] {
            let mut qemu = UnixStream::connect(&path).unwrap();
            guests.hold(false);
            assert_eq!(guests.monitors.len(), 1);
            let left = qemu.try_clone().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let _ = qemu.write_all(said.as_bytes());
                    let _ = qemu.shutdown(std::net::Shutdown::Write);
                });
                while !guests.monitors.is_empty() {
                    guests.hold(false);
                }
            });
            drop(left);
        }
    }
}
