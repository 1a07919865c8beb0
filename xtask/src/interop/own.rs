// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program with the card: of this machine, in a guest that has the card on its PCI bus, or at the serial port of a board.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::pair::Role;
use super::process::Process;
use super::{slot, Setting};

/// The card's socket, in the case's folder.
pub const CARD: &str = "a.sock";
/// A board's serial port, there too.
pub const PORT: &str = "board.tty";
/// The program's address on the side channel's network: QEMU's own passes on to this machine what goes there.
pub const OWN: &str = "10.0.2.100";
/// That of the guest with soft-RoCE.
pub const PEER: &str = "10.0.2.15";

/// Where the program is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On this machine.
    Here,
    /// In a guest.
    Guest,
    /// On this machine, with a board.
    Board,
}

impl Place {
    /// What the guest with soft-RoCE does first. Linux asks three times for the address of who is on its wire, a second apart; a program at a board's serial line answers later, in a
    /// simulation, than one at a board would.
    pub fn neighbour(self, card: &str) -> String {
        match self {
            Place::Board => format!("arp -i eth0 -s {card} {} || exit 1\n", mac()),
            Place::Here | Place::Guest => String::new(),
        }
    }

    /// Whom the program connects to for its side channel.
    pub fn peer(self) -> &'static str {
        match self {
            Place::Here | Place::Board => "localhost",
            Place::Guest => PEER,
        }
    }
}

/// The program.
pub enum Own {
    /// On this machine; it opens [`CARD`].
    Here(Command),
    /// `ferrowire` in a guest, and what it is told.
    Guest(String),
    /// On this machine; it opens [`PORT`].
    Board(Command),
}

impl Own {
    /// The command `ferrowire`, told `words`.
    pub fn ferrowire(place: Place, words: &str, setting: &Setting, logs: &Path) -> Own {
        match place {
            Place::Guest => Own::Guest(words.into()),
            Place::Here => {
                let mut command = setting.program("ferrowire", logs);
                command.args(["-d", &format!("sim:{CARD}")]).args(words.split(' '));
                Own::Here(command)
            }
            Place::Board => {
                let mut command = setting.program("ferrowire", logs);
                // It is as patient as with a line of that rate. A board's card has no address of its own.
                command.args(["-d", &format!("serial:{PORT}@1200")]).args(words.split(' '));
                command.args(["--mac", &mac()]);
                Own::Board(command)
            }
        }
    }

    /// A program of Debian on this machine, with libibverbs.so.1 of this project.
    pub fn stock(program: &str, words: &str, setting: &Setting, logs: &Path) -> Result<Own> {
        let mut command = setting.stock(logs)?;
        command.args(["-d", &format!("sim:{CARD}"), "--"]).arg(setting.programs()?.program(program));
        command.args(words.split(' '));
        Ok(Own::Here(command))
    }

    /// Its beginning; what it says goes to `log`.
    pub fn start(self, setting: &Setting, logs: &Path, log: &Path) -> Result<Process> {
        match self {
            Own::Here(command) | Own::Board(command) => Process::start("ferrowire", command, log),
            Own::Guest(words) => {
                let files = slot::files(&script(&words), logs)?;
                let mut guest = slot::guest(setting, &files, logs, &[CARD])?;
                guest.args(side("own", "peer"));
                Process::start("the guest with the card", guest, log)
            }
        }
    }

    /// What QEMU is told of the network that the other guest has for the side channel, whose server listens on `port`.
    pub fn network(&self, role: Role, port: Option<u16>) -> Vec<String> {
        if matches!(self, Own::Guest(_)) {
            return side("peer", "own");
        }
        // The port in the guest is the same.
        let forward = match (port, role) {
            (None, _) => String::new(),
            (Some(port), Role::Client) => format!(",guestfwd=tcp:{OWN}:{port}-tcp:127.0.0.1:{port}"),
            (Some(port), Role::Server) => format!(",hostfwd=tcp:127.0.0.1:{port}-{PEER}:{port}"),
        };
        device(&format!("user,id=side,restrict=on{forward}"), 1)
    }
}

/// The card's MAC address.
pub const MAC: [u8; 6] = [0x02, 0xfe, 0, 0, 0, 1];

/// As the command line has it.
pub fn mac() -> String {
    MAC.map(|byte| format!("{byte:02x}")).join(":")
}

/// A port that is free on this machine.
pub fn port() -> Result<u16> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    Ok(free.context("looking for a port")?.port())
}

/// What the guest with the card does.
fn script(words: &str) -> String {
    format!(
        "ip link set eth0 up\n\
         ip addr add {OWN}/24 dev eth0\n\
         says 0 \"is with vfio-pci\" ferrowire bind --yes $A\n\
         echo \"guest: ferrowire -d $A {words}\"\n\
         ferrowire -d $A {words}\n"
    )
}

/// An end of the wire between both guests, who need not be there at the same time: a datagram a frame.
fn side(own: &str, other: &str) -> Vec<String> {
    let at = |end: &str, who: &str| format!("{end}.type=unix,{end}.path=side-{who}.sock");
    let last = if own == "own" { 1 } else { 2 };
    device(&format!("dgram,id=side,{},{}", at("local", own), at("remote", other)), last)
}

/// A network device of the side channel; the last byte of its address.
fn device(backend: &str, last: u8) -> Vec<String> {
    let device = format!("virtio-net-pci,netdev=side,romfile=,mac=02:00:00:00:01:{last:02x}");
    ["-netdev", backend, "-device", &device].map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_the_side_channel_are_at_each_others_paths() {
        let paths = |device: &[String]| -> Vec<String> {
            let parts = device[1].split(',').filter_map(|part| part.split_once(".path="));
            parts.map(|(end, path)| format!("{end} {path}")).collect()
        };
        let (peer, own) = (Own::Guest(String::new()).network(Role::Client, Some(1)), side("own", "peer"));
        assert_eq!(paths(&peer), ["local side-peer.sock", "remote side-own.sock"]);
        assert_eq!(paths(&own), ["local side-own.sock", "remote side-peer.sock"]);
        assert_ne!(peer[3], own[3], "one MAC address each");
    }

    #[test]
    fn a_shell_can_read_what_the_guest_with_the_card_does() {
        let script = script("pingpong -p 1 --ip 10.0.0.1 10.0.2.15 --stock");
        let read = Command::new("sh").args(["-n", "-c", &script]).output().unwrap();
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        assert!(script.ends_with("ferrowire -d $A pingpong -p 1 --ip 10.0.0.1 10.0.2.15 --stock\n"));
    }
}
