// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suites `wire` and `loss`: a guest with soft-RoCE on the simulated card's wire, and a tool of rdma-core in it.
//!
//! ```text
//!  ferrowire --- a.sock --- ferrowire-sim card --- wire.sock --- QEMU: eth0, soft-RoCE, ibv_rc_pingpong
//!      |                            |                              | eth1
//!      |                            +---- qmp.sock: stop, cont ----+   |
//!      +------------------- TCP, the tools' side channel --------------+
//! ```
//!
//! The guest's clock stands while the card computes, so its time-outs do not see how slow a simulation is: on a wire that loses nothing, nothing is
//! sent again.

use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

use anyhow::{bail, Context as _, Result};

use super::capture::{self, Again};
use super::process::{last, read, wait, Process, LIMIT};
use super::{Case, Setting, Suite};
use crate::peers::Files;

/// Who the guest is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

/// A run of a pingpong tool of rdma-core.
#[derive(Clone, Copy)]
struct Pingpong {
    /// RC, UC, UD or SRQ, as it is in the tool's name.
    service: &'static str,
    bytes: u32,
    mtu: u32,
    /// Sleeps until events come.
    events: bool,
    ipv6: bool,
    /// In a VLAN.
    vlan: bool,
    /// The wire loses, repeats, reorders and corrupts frames, one in a hundred each.
    loss: bool,
    /// Of the quick ones.
    quick: bool,
    role: Role,
}

/// Messages each way: a guest without an accelerator takes its time.
const COUNT: u32 = 20;
/// Queue pairs that share a receive queue.
const QPS: u32 = 4;
/// Of the suite `loss`.
const FAULTS: &str = "drop=0.01,duplicate=0.01,reorder=0.01,corrupt=0.01";

/// Identifier of the VLAN, and part of the addresses there.
const VLAN: u16 = 5;
/// The card's MAC address.
const MAC: [u8; 6] = [0x02, 0xfe, 0, 0, 0, 1];
/// What QEMU writes of the wire.
const DUMP: &str = "wire.pcap";

/// All cases, each with the guest as client and as server.
pub fn cases() -> Vec<Box<dyn Case>> {
    let boxed = all().into_iter().map(|case| Box::new(case) as Box<dyn Case>);
    boxed.collect()
}

fn all() -> Vec<Pingpong> {
    let rc = Pingpong {
        service: "rc",
        bytes: 3000,
        mtu: 1024,
        events: false,
        ipv6: false,
        vlan: false,
        loss: false,
        quick: false,
        role: Role::Client,
    };
    let (uc, ud) = (Pingpong { service: "uc", ..rc }, Pingpong { service: "ud", bytes: 1000, ..rc });
    let srq = Pingpong { service: "srq", ..rc };
    let lossy = Pingpong { loss: true, ..rc };
    let all = [
        Pingpong { quick: true, ..rc },
        Pingpong { bytes: 1, mtu: 256, ..rc },
        Pingpong { bytes: 5000, mtu: 512, events: true, ..rc },
        Pingpong { bytes: 4096, mtu: 4096, ..rc },
        Pingpong { bytes: 65536, mtu: 256, ..rc },
        Pingpong { bytes: 65536, mtu: 4096, ..rc },
        Pingpong { ipv6: true, ..rc },
        Pingpong { bytes: 65536, mtu: 2048, ipv6: true, events: true, ..rc },
        Pingpong { vlan: true, ..rc },
        Pingpong { vlan: true, ipv6: true, bytes: 65536, mtu: 4096, ..rc },
        Pingpong { vlan: true, ..ud },
        Pingpong { bytes: 1, ..uc },
        Pingpong { bytes: 65536, mtu: 2048, ..uc },
        Pingpong { events: true, ipv6: true, ..uc },
        Pingpong { bytes: 1, ..ud },
        Pingpong { mtu: 2048, bytes: 2048, events: true, ..ud },
        Pingpong { ipv6: true, ..ud },
        srq,
        Pingpong { bytes: 1, events: true, ..srq },
        Pingpong { bytes: 16384, mtu: 4096, ipv6: true, ..srq },
        lossy,
        Pingpong { bytes: 65536, mtu: 4096, ..lossy },
        Pingpong { bytes: 16384, mtu: 256, ipv6: true, events: true, ..lossy },
        Pingpong { service: "srq", ..lossy },
    ];
    all.into_iter()
        .flat_map(|case| [Role::Client, Role::Server].map(|role| Pingpong { role, ..case }))
        .collect()
}

impl Case for Pingpong {
    fn suite(&self) -> Suite {
        if self.loss {
            Suite::Loss
        } else {
            Suite::Wire
        }
    }

    fn name(&self) -> String {
        let more = [(self.events, "-events"), (self.ipv6, "-ipv6"), (self.vlan, "-vlan")];
        let more: String = more.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
        let role = if self.role == Role::Client { "client" } else { "server" };
        format!("{}-{}-{}{more}-{role}", self.service, self.bytes, self.mtu)
    }

    fn quick(&self) -> bool {
        self.quick
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<()> {
        let done = one(setting, self, logs);
        // Also of what failed.
        let again = self.again(logs);
        done?;
        match again {
            None => bail!("QEMU has not written what went over the wire"),
            Some(Again { late, card, .. }) if !self.loss && late + card > 0 => {
                bail!("{late} requests of the guest and {card} of the card were sent again, on a wire that loses nothing")
            }
            _ => Ok(()),
        }
    }

    fn again(&self, logs: &Path) -> Option<Again> {
        let dumped = logs.join(DUMP);
        let frames = capture::read(&dumped).ok().filter(|frames| !frames.is_empty())?;
        // The same as pcapng.
        capture::write(&dumped.with_extension("pcapng"), &frames).ok()?;
        Some(capture::again(&frames, MAC))
    }
}

impl Pingpong {
    /// What the guest runs.
    fn script(&self, port: u16) -> String {
        let Pingpong { service, bytes, mtu, .. } = self;
        let (interface, family) = (
            if self.vlan { format!("eth0.{VLAN}") } else { "eth0".into() },
            if self.ipv6 { "fe80:" } else { "0000:0000:0000:0000:0000:ffff:" },
        );
        let (gid, events) = ("$gid", if self.events { "-e" } else { "" });
        let more = match *service {
            // A datagram's MTU is the port's.
            "ud" => "-c".into(),
            "srq" => format!("-m {mtu} -q {QPS}"),
            _ => format!("-c -m {mtu}"),
        };
        let tool = format!("ibv_{service}_pingpong -g {gid} -n {COUNT} -s {bytes} {more} {events} -p {port}");
        let vlan = match self.vlan {
            true => format!(
                "ip link add link eth0 name eth0.{VLAN} type vlan id {VLAN}\n\
                 echo 0 > /proc/sys/net/ipv6/conf/eth0.{VLAN}/accept_dad\n\
                 ip link set eth0.{VLAN} up\n\
                 ip addr add 10.0.{VLAN}.2/24 dev eth0.{VLAN}\n"
            ),
            false => String::new(),
        };
        // Room for the headers of a packet whose payload is the path MTU.
        let frame = (mtu + 100).max(1500);
        let run = match self.role {
            Role::Client => format!("{tool} 10.0.2.100"),
            Role::Server => format!(
                "(until netstat -tln | grep -q :{port}; do sleep 0.2; done; echo 'guest: listens') &\n{tool}"
            ),
        };
        format!(
            "ip link set lo up\n\
             echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad\n\
             ip link set eth0 mtu {frame} up\n\
             ip addr add 10.0.0.2/24 dev eth0\n\
             {vlan}\
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

    /// Index of the card's GID: the address of its own comes first.
    fn gid(&self) -> u32 {
        u32::from(!self.ipv6)
    }

    /// The command on the card's side.
    fn ferrowire(&self, port: u16) -> Vec<String> {
        let transport = match self.service {
            "srq" => format!("--srq -q {QPS}"),
            service => format!("--transport {service}"),
        };
        let words = format!(
            "-d sim:a.sock pingpong -p {port} -x {} -n {COUNT} -s {} -m {} {transport} -c",
            self.gid(),
            self.bytes,
            self.mtu,
        );
        let mut all: Vec<String> = words.split(' ').map(String::from).collect();
        if self.events {
            all.push("-e".into());
        }
        if self.vlan {
            all.extend(["--vlan".into(), VLAN.to_string()]);
        }
        if self.role == Role::Server {
            all.extend(["localhost".into(), "--stock".into()]);
        }
        all
    }
}

fn one(setting: &Setting, case: &Pingpong, logs: &Path) -> Result<()> {
    let limit = Instant::now() + LIMIT;
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
    let address = if case.vlan { format!("10.0.{VLAN}.1") } else { "10.0.0.1".into() };
    card.args(["--mac", &mac, "--ip", &address, "--qmp", "qmp.sock"]);
    if case.loss {
        card.args(["--faults", FAULTS]);
    }
    let mut card = Process::start("the card", card, &logs.join("card.log"))?;
    // It listens on its wire before it does so for its program.
    while !logs.join("a.sock").exists() {
        card.lives()?;
        wait(limit, "the card's beginning")?;
    }
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .context("looking for a port")?
        .port();
    let mut ferrowire = setting.program("ferrowire", logs);
    ferrowire.args(case.ferrowire(port));
    // The tool's port in the guest is the same.
    let forward = match case.role {
        Role::Client => format!("guestfwd=tcp:10.0.2.100:{port}-tcp:127.0.0.1:{port}"),
        Role::Server => format!("hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:{port}"),
    };
    let mut files = Files::default();
    files.text("case.sh", &case.script(port));
    let mut guest = setting.peers.guest(&files, logs)?;
    guest.args(["-qmp", "unix:qmp.sock", "-rtc", "clock=vm"]);
    guest.args(["-object", &format!("filter-dump,id=dump,netdev=wire,file={DUMP}")]);
    guest.args(["-netdev", "stream,id=wire,server=off,addr.type=unix,addr.path=wire.sock"]);
    guest.args(["-device", "virtio-net-pci,netdev=wire,romfile=,mac=02:00:00:00:00:02"]);
    guest.args(["-netdev", &format!("user,id=side,restrict=on,{forward}")]);
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
    let (mut guest, mut ferrowire) = match case.role {
        Role::Client => {
            let mut ferrowire = Process::start("ferrowire", ferrowire, &own_log)?;
            until(&own_log, "Waiting for client", &mut ferrowire)?;
            (Process::start("the guest", guest, &guest_log)?, ferrowire)
        }
        Role::Server => {
            let mut guest = Process::start("the guest", guest, &guest_log)?;
            until(&guest_log, "guest: listens", &mut guest)?;
            (guest, Process::start("ferrowire", ferrowire, &own_log)?)
        }
    };
    ferrowire.end(limit).with_context(|| last(&own_log))?;
    guest.end(limit).with_context(|| last(&guest_log))?;
    let said = read(&guest_log);
    if !said.contains("guest: case ended with 0") {
        bail!("the tool in the guest failed: {}", last(&guest_log));
    }
    // It says so, and goes on.
    if let Some(line) = said.lines().find(|line| line.contains("invalid data")) {
        bail!("the tool in the guest says: {line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_told_the_same() {
        let all = all();
        assert_eq!(all.iter().filter(|case| case.quick).count(), 2);
        for case in all {
            let (guest, own) = (case.script(18515), case.ferrowire(18515).join(" "));
            let both = format!("-n {COUNT} -s {}", case.bytes);
            assert!(guest.contains(&both) && own.contains(&both), "{}", case.name());
            assert_eq!(guest.contains(" -e "), own.contains(" -e"), "{}", case.name());
            assert_eq!(guest.contains(" -q 4"), own.contains(" --srq -q 4"), "{}", case.name());
            assert_eq!(own.contains("--stock"), case.role == Role::Server, "{}", case.name());
        }
    }
}
