// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program on the card's side, and one in a guest with soft-RoCE on the card's wire.
//!
//! ```text
//!  here:
//!
//!  ferrowire --- a.sock --- ferrowire-sim card --- wire.sock --- QEMU: eth0, soft-RoCE, ibv_rc_pingpong
//!      |                            |                              | eth1
//!      |                            +---- qmp.sock: stop, cont ----+   |
//!      +------------------- TCP, the programs' side channel -----------+
//!
//!  in a guest:
//!
//!  QEMU: 00:10.0, vfio-pci, ferrowire --- a.sock --- ferrowire-sim card --- wire.sock --- QEMU: eth0, soft-RoCE, ibv_rc_pingpong
//!    eth0                                                  +---- qmp.sock: stop, cont ----+       eth1
//!     +------------------------------- the programs' side channel, on a wire of its own -------------+
//!
//!  on a board:
//!
//!  ferrowire --- board.tty --- ferrowire-sim board --- wire.sock --- and so on as above
//! ```
//!
//! The clock of the guest with soft-RoCE stands while the card computes, and goes by the instructions that the guest carries out, so its time-outs see neither how slow a
//! simulation is nor how slow an emulated processor. The driver's guest has none that it could miss: they are by the card's clock.

use std::path::Path;
use std::time::Instant;

use anyhow::{bail, Context as _, Result};

use super::capture::{self, Again};
use super::counters;
use super::own::{mac, Own, CARD, MAC, PEER, PORT};
use super::process::{last, listens, read, wait, Process, LIMIT};
use super::server::Server;
use super::{Setting, Tried};
use crate::peers::Files;

/// What the program on the card's side says, in the case's folder.
pub const OWN_LOG: &str = "ferrowire.log";
/// What QEMU writes of the wire.
const DUMP: &str = "wire.pcap";

/// Who the guest is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It connects to [`OWN`](super::own::OWN).
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
/// Of one that goes dark for a second, in the middle of what passes.
const DARK: &str = "dark=40";
/// Clock of a [slow](Pair::slow) card in kHz.
const SLOW_KHZ: u32 = 1000;

/// What a wire does, and what of it may be sent again behind its time-out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// It loses nothing: nothing.
    Sound,
    /// It loses nothing, but the programs see to it that some answers do not come.
    Provoked,
    /// It loses, repeats, reorders and corrupts frames.
    Lossy,
    /// It loses all for a second, and both sides wait for longer: all comes to a good end.
    Dark,
    /// The same, and they do not: who asked is told that there was no answer.
    Dead,
}

/// How a server shows that it waits for its client.
#[derive(Clone, Copy)]
pub enum Waits<'a> {
    /// It says this.
    Says(&'a str),
    /// It listens at a TCP port of this machine: programs of others keep what they say until they end.
    Listens(u16),
}

impl Waits<'_> {
    /// Whether it does, by its log.
    fn is_seen(self, log: &Path) -> bool {
        match self {
            Waits::Says(text) => read(log).contains(text),
            Waits::Listens(port) => listens(port),
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
    pub own: Own,
    /// How a server here shows that the guest may begin.
    pub waits: Waits<'a>,
    /// The card's IP address.
    pub card: String,
    /// Of the guest, `case.sh` among them.
    pub files: Files,
    /// The wire between them.
    pub wire: Wire,
    /// The card's clock is about as slow as its simulation, so that a second of the one is a second of the other: for time-outs that are as long.
    pub slow: bool,
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
         ip addr add {PEER}/24 dev eth1\n\
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
    /// Runs both to their ends, which must be good ones, and what the guest has said must be `right`. On a sound wire nothing may have been sent
    /// again, by what passed and by soft-RoCE's counters. What went over the wire is kept as pcapng.
    pub fn run(self, setting: &Setting, logs: &Path, right: impl FnOnce(&str) -> Result<()>) -> Tried {
        let wire = self.wire;
        let said = self.converse(setting, logs).and_then(|said| right(&said).map(|()| said));
        let dumped = logs.join(DUMP);
        let passed = capture::read(&dumped).and_then(|frames| {
            capture::write(&dumped.with_extension("pcapng"), &frames)?;
            Ok(capture::again(&frames, MAC))
        });
        let again = passed.as_ref().ok().copied();
        let result = said.and_then(|said| {
            let Again { guest, card } = passed?;
            if wire != Wire::Sound {
                return Ok(());
            }
            counters::nothing_was_sent_again(&said)?;
            if guest + card > 0 {
                bail!("{guest} requests of the guest and {card} of the card were sent again, on a wire that loses nothing")
            }
            Ok(())
        });
        Tried { result, again }
    }

    /// Runs both to their ends; gives what the guest has said.
    fn converse(self, setting: &Setting, logs: &Path) -> Result<String> {
        let Pair { role, port, own, waits, card: address, files, wire, slow } = self;
        let guests = if matches!(own, Own::Guest(_)) { 2 } else { 1 };
        let limit = Instant::now() + guests * if slow { 2 * LIMIT } else { LIMIT };
        let mut card = setting.program("ferrowire-sim", logs);
        let serves = match own {
            Own::Board(_) => {
                card.args(["board", "--port", PORT]);
                PORT
            }
            _ => {
                card.args(["card", "--socket", CARD, "--config", &setting.config]);
                card.args(["--mac", &mac(), "--ip", &address]);
                CARD
            }
        };
        card.args(["--eager", "--wire", "stream:wire.sock", "--qmp", "qmp.sock"]);
        match wire {
            Wire::Sound | Wire::Provoked => {}
            Wire::Lossy => drop(card.args(["--faults", FAULTS])),
            Wire::Dark | Wire::Dead => drop(card.args(["--faults", DARK])),
        }
        if slow {
            card.args(["--clock-khz", &SLOW_KHZ.to_string()]);
        }
        let card_log = logs.join("card.log");
        let mut card = Server::start("the card", card, &card_log, setting)?;
        // It listens on its wire before it does so for its program.
        card.serves(&logs.join(serves), limit)?;
        let mut guest = setting.peers()?.guest("guest", &files, logs)?;
        guest.args(["-qmp", "unix:qmp.sock", "-rtc", "clock=vm"]);
        if !slow {
            // A nanosecond of its clock for each instruction. Where the card's clock is as slow as its simulation, so is the guest's.
            guest.args(["-icount", "shift=0"]);
        }
        guest.args(["-object", &format!("filter-dump,id=dump,netdev=wire,file={DUMP}")]);
        guest.args(["-netdev", "stream,id=wire,server=off,addr.type=unix,addr.path=wire.sock"]);
        guest.args(["-device", "virtio-net-pci,netdev=wire,romfile=,mac=02:00:00:00:00:02"]);
        guest.args(own.network(role, port));
        let (guest_log, own_log) = (logs.join("guest.log"), logs.join(OWN_LOG));
        let mut until = |path: &Path, waits: Waits<'_>, process: &mut Process| -> Result<()> {
            while !waits.is_seen(path) {
                process.lives()?;
                card.lives()?;
                wait(limit, process.what)?;
            }
            Ok(())
        };
        let (mut guest, mut own) = match role {
            Role::Client => {
                let mut own = own.start(setting, logs, &own_log)?;
                until(&own_log, waits, &mut own)?;
                (Process::start("the guest", guest, &guest_log)?, own)
            }
            Role::Server => {
                let mut guest = Process::start("the guest", guest, &guest_log)?;
                until(&guest_log, Waits::Says("guest: listens"), &mut guest)?;
                (guest, own.start(setting, logs, &own_log)?)
            }
        };
        if wire == Wire::Dead {
            unanswered((&mut guest, &guest_log), (&mut own, &own_log), limit)?;
            return heard(&card_log, "the wire is dark").map(|()| read(&guest_log));
        }
        own.end(limit).with_context(|| last(&own_log))?;
        if guests > 1 {
            ended(&read(&own_log)).context("ferrowire in its guest")?;
        }
        guest.end(limit).with_context(|| last(&guest_log))?;
        let said = read(&guest_log);
        ended(&said).context("the program in the guest")?;
        if wire == Wire::Dark {
            heard(&card_log, "the wire carries again")?;
        }
        Ok(said)
    }
}

/// What either side says of a request that was sent as often as it may be, and not answered: libibverbs and the driver.
const UNANSWERED: [&str; 2] = ["Failed status transport retry counter exceeded", "ended with RETRY_EXC_ERR"];

/// Waits until either side has ended for want of an answer. The other one may wait for ever for what it was to be sent.
fn unanswered(guest: (&mut Process, &Path), own: (&mut Process, &Path), limit: Instant) -> Result<()> {
    let mut sides = [guest, own];
    loop {
        let mut gone = 0;
        for (process, log) in &mut sides {
            let ended = process.ended()?;
            let said = read(log);
            if UNANSWERED.iter().any(|text| said.contains(text)) {
                return Ok(());
            }
            if said.contains(WELL) || said.contains("usec/iter") {
                bail!(
                    "{} came to a good end, on a wire that was dark for longer than it waits",
                    process.what
                );
            }
            gone += usize::from(ended);
        }
        if gone == sides.len() {
            bail!(
                "neither side says that its request was not answered: {}; {}",
                last(sides[0].1),
                last(sides[1].1)
            );
        }
        wait(limit, "the end of what is not answered")?;
    }
}

/// The card's server has said so.
fn heard(log: &Path, what: &str) -> Result<()> {
    match read(log).contains(what) {
        true => Ok(()),
        false => bail!("the card's server has not said: {what}"),
    }
}

/// What a guest says then.
const WELL: &str = "guest: case ended with 0";

/// A guest's case has ended well, by what it said.
fn ended(said: &str) -> Result<()> {
    if said.contains(WELL) {
        return Ok(());
    }
    let failed = said.lines().rfind(|line| line.contains("guest: FAILED"));
    let last = || said.lines().rfind(|line| !line.trim().is_empty());
    bail!("{}", failed.or_else(last).unwrap_or("it said nothing").trim())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    /// What comes of two programs on a wire that is dark for longer than they wait.
    fn dead(name: &str, guest: &str, own: &str) -> Result<()> {
        let logs = std::env::temp_dir().join(format!("ferrowire-dead-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&logs).unwrap();
        let start = |what: &'static str, script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            let log = logs.join(what);
            (Process::start(what, shell, &log).unwrap(), log)
        };
        let (mut guest, mut own) = (start("guest", guest), start("own", own));
        let limit = Instant::now() + Duration::from_secs(30);
        let result = unanswered((&mut guest.0, &guest.1), (&mut own.0, &own.1), limit);
        drop((guest.0, own.0));
        std::fs::remove_dir_all(&logs).unwrap();
        result
    }

    #[test]
    fn one_side_must_be_told_that_it_is_not_answered_and_none_may_end_well() {
        let tool = "echo 'Failed status transport retry counter exceeded (12) for wr_id 2'; exit 1";
        let own = "echo 'a work request of queue pair 0x2 ended with RETRY_EXC_ERR (TIMEOUT)'; exit 1";
        assert!(dead("guest", tool, "exec sleep 60").is_ok());
        assert!(dead("own", "exec sleep 60", own).is_ok());
        let well = dead("well", "echo 'guest: case ended with 0'", "exec sleep 60").unwrap_err();
        assert!(well.to_string().contains("good end"), "{well}");
        let silent = dead("silent", "echo 'guest: case ended with 1'", "echo lost; exit 1").unwrap_err();
        assert!(silent.to_string().contains("neither side"), "{silent}");
    }
}
