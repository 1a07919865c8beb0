// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program on the card's side, and one in a guest with soft-RoCE on the card's wire.
//!
//! ```text
//!  ferrowire --- a.sock --- ferrowire-sim card --- wire.sock --- QEMU: eth0, soft-RoCE, ibv_rc_pingpong
//!      |                            |                              | eth1
//!      |                            +---- qmp.sock: stop, cont ----+   |
//!      +------------------- TCP, the programs' side channel -----------+
//! ```
//!
//! The guest's clock stands while the card computes, so its time-outs do not see how slow a simulation is.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, Context as _, Result};

use super::capture::{self, Again};
use super::process::{last, read, wait, Process, LIMIT};
use super::{Setting, Tried};
use crate::peers::Files;

/// The card's MAC address.
const MAC: [u8; 6] = [0x02, 0xfe, 0, 0, 0, 1];
/// What QEMU writes of the wire.
const DUMP: &str = "wire.pcap";

/// Who the guest is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It connects to 10.0.2.100.
    Client,
    /// It says `guest: listens` when it does.
    Server,
}

impl Role {
    /// Both.
    pub const BOTH: [Role; 2] = [Role::Client, Role::Server];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Server => "server",
        }
    }
}

/// A VLAN of the wire, by its identifier.
pub const VLAN: u16 = 5;
/// Of a wire that loses: one frame of a hundred each.
const FAULTS: &str = "drop=0.01,duplicate=0.01,reorder=0.01,corrupt=0.01";

/// What a wire does, and what of it may be sent again behind its time-out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// It loses nothing: nothing.
    Sound,
    /// It loses nothing, but the programs see to it that some answers do not come.
    Provoked,
    /// It loses, repeats, reorders and corrupts frames.
    Lossy,
}

impl Wire {
    /// One of which a case depends on nothing else.
    pub fn of(loss: bool) -> Wire {
        if loss {
            Wire::Lossy
        } else {
            Wire::Sound
        }
    }
}

/// The two.
pub struct Pair<'a> {
    /// Of the guest.
    pub role: Role,
    /// Where the server of the side channel listens, on either side, if they have one.
    pub port: Option<u16>,
    /// The program on the card's side.
    pub own: Command,
    /// What it says as a server when the guest may begin.
    pub waits: &'a str,
    /// The card's IP address.
    pub card: String,
    /// Of the guest, `case.sh` among them.
    pub files: Files,
    /// The wire between them.
    pub wire: Wire,
}

/// A port of this host that is free.
pub fn port() -> Result<u16> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    Ok(free.context("looking for a port")?.port())
}

/// A guest's `case.sh`: it has soft-RoCE on the wire, does `run`, and tells soft-RoCE's counters. For `run`, `$gid` is the index of the GID of its IPv4
/// address, or of its link-local one, in the VLAN or in none.
pub fn script(mtu: u32, gid: Gid, run: &str) -> String {
    let Gid { ipv6, vlan } = gid;
    let family = if ipv6 { "fe80:" } else { "0000:0000:0000:0000:0000:ffff:" };
    let (interface, more) = match vlan {
        true => (
            format!("eth0.{VLAN}"),
            format!(
                "ip link add link eth0 name eth0.{VLAN} type vlan id {VLAN}\n\
                 echo 0 > /proc/sys/net/ipv6/conf/eth0.{VLAN}/accept_dad\n\
                 ip link set eth0.{VLAN} up\n\
                 ip addr add 10.0.{VLAN}.2/24 dev eth0.{VLAN}\n"
            ),
        ),
        false => ("eth0".into(), String::new()),
    };
    // Room for the headers of a packet whose payload is the path MTU.
    let frame = (mtu + 100).max(1500);
    format!(
        "ip link set lo up\n\
         echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad\n\
         ip link set eth0 mtu {frame} up\n\
         ip addr add 10.0.0.2/24 dev eth0\n\
         ip addr add fd00::2/64 dev eth0\n\
         {more}\
         ip link set eth1 up\n\
         ip addr add 10.0.2.15/24 dev eth1\n\
         rdma link add rxe0 type rxe netdev eth0 || exit 1\n\
         sleep 1\n\
         port=/sys/class/infiniband/rxe0/ports/1\n\
         for gid in $(seq 0 16); do\n\
         case $(cat $port/gid_attrs/ndevs/$gid 2>&1),$(cat $port/gids/$gid) in {interface},{family}*) break;; esac\n\
         done\n\
         {run}\n\
         code=$?\n\
         for counter in $port/hw_counters/*; do\n\
         echo \"counter ${{counter##*/}} $(cat $counter)\"\n\
         done\n\
         exit $code\n"
    )
}

/// Which of a guest's GIDs is meant.
#[derive(Clone, Copy, Default)]
pub struct Gid {
    /// The link-local address.
    pub ipv6: bool,
    /// Of the VLAN's interface.
    pub vlan: bool,
}

impl Pair<'_> {
    /// Runs both to their ends, which must be good ones, and what the guest has said must be `right`. On a sound wire no request may have been out for
    /// its whole time-out, and the card may have sent none again. What went over the wire is kept as pcapng.
    pub fn run(self, setting: &Setting, logs: &Path, right: impl FnOnce(&str) -> Result<()>) -> Tried {
        let wire = self.wire;
        let done = self.converse(setting, logs).and_then(|said| right(&said));
        let dumped = logs.join(DUMP);
        let passed = capture::read(&dumped).and_then(|frames| {
            capture::write(&dumped.with_extension("pcapng"), &frames)?;
            Ok(capture::again(&frames, MAC))
        });
        let again = passed.as_ref().ok().copied();
        let result = done.and_then(|()| match passed? {
            Again { late, card, .. } if wire == Wire::Sound && late + card > 0 => {
                bail!("{late} requests of the guest and {card} of the card were sent again, on a wire that loses nothing")
            }
            _ => Ok(()),
        });
        Tried { result, again }
    }

    /// Runs both to their ends; gives what the guest has said.
    fn converse(self, setting: &Setting, logs: &Path) -> Result<String> {
        let limit = Instant::now() + LIMIT;
        let Pair { role, port, own, waits, card: address, files, wire } = self;
        let mut card = setting.program("ferrowire-sim", logs);
        card.args([
            "card",
            "--eager",
            "--socket",
            "a.sock",
            "--wire",
            "stream:wire.sock",
            "--config",
            &setting.config,
        ]);
        let mac = MAC.map(|byte| format!("{byte:02x}")).join(":");
        card.args(["--mac", &mac, "--ip", &address, "--qmp", "qmp.sock"]);
        if wire == Wire::Lossy {
            card.args(["--faults", FAULTS]);
        }
        let mut card = Process::start("the card", card, &logs.join("card.log"))?;
        // It listens on its wire before it does so for its program.
        while !logs.join("a.sock").exists() {
            card.lives()?;
            wait(limit, "the card's beginning")?;
        }
        // The port in the guest is the same.
        let forward = match (port, role) {
            (None, _) => String::new(),
            (Some(port), Role::Client) => format!(",guestfwd=tcp:10.0.2.100:{port}-tcp:127.0.0.1:{port}"),
            (Some(port), Role::Server) => format!(",hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:{port}"),
        };
        let mut guest = setting.peers.guest(&files, logs)?;
        guest.args(["-qmp", "unix:qmp.sock", "-rtc", "clock=vm"]);
        guest.args(["-object", &format!("filter-dump,id=dump,netdev=wire,file={DUMP}")]);
        guest.args(["-netdev", "stream,id=wire,server=off,addr.type=unix,addr.path=wire.sock"]);
        guest.args(["-device", "virtio-net-pci,netdev=wire,romfile=,mac=02:00:00:00:00:02"]);
        guest.args(["-netdev", &format!("user,id=side,restrict=on{forward}")]);
        guest.args(["-device", "virtio-net-pci,netdev=side,romfile="]);
        let (guest_log, own_log) = (logs.join("guest.log"), logs.join("ferrowire.log"));
        let mut until = |path: &Path, word: &str, process: &mut Process| -> Result<()> {
            while !read(path).contains(word) {
                process.lives()?;
                card.lives()?;
                wait(limit, process.what)?;
            }
            Ok(())
        };
        let (mut guest, mut own) = match role {
            Role::Client => {
                let mut own = Process::start("ferrowire", own, &own_log)?;
                until(&own_log, waits, &mut own)?;
                (Process::start("the guest", guest, &guest_log)?, own)
            }
            Role::Server => {
                let mut guest = Process::start("the guest", guest, &guest_log)?;
                until(&guest_log, "guest: listens", &mut guest)?;
                (guest, Process::start("ferrowire", own, &own_log)?)
            }
        };
        own.end(limit).with_context(|| last(&own_log))?;
        guest.end(limit).with_context(|| last(&guest_log))?;
        let said = read(&guest_log);
        if !said.contains("guest: case ended with 0") {
            bail!("the program in the guest failed: {}", last(&guest_log));
        }
        Ok(said)
    }
}
