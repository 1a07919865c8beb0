// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suites `wire`, `both`, `board` and `loss`: a guest with soft-RoCE on the simulated card's wire, and a tool of rdma-core in it.
//!
//! On a wire that loses nothing, nothing is sent again.

use std::path::Path;

use anyhow::{bail, Result};

use super::own::{port, Own, Place, OWN};
use super::pair::{self, Gid, Pair, Role, Wire, VLAN};
use super::{those, Case, Setting, Suite, Tried};
use crate::peers::Files;

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
    /// What the wire does.
    wire: Wire,
    /// Of the quick ones.
    quick: bool,
    /// Where the card's program is.
    place: Place,
    role: Role,
}

/// Messages each way: a guest without an accelerator takes its time.
const COUNT: u32 = 20;
/// Over a simulated serial line.
const FEW: u32 = 4;
/// Queue pairs that share a receive queue.
const QPS: u32 = 4;

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
        wire: Wire::Sound,
        quick: false,
        place: Place::Here,
        role: Role::Client,
    };
    let (uc, ud) = (Pingpong { service: "uc", ..rc }, Pingpong { service: "ud", bytes: 1000, ..rc });
    let srq = Pingpong { service: "srq", ..rc };
    let lossy = Pingpong { wire: Wire::Lossy, ..rc };
    let both = Pingpong { place: Place::Guest, ..rc };
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
        Pingpong { vlan: true, ..lossy },
        // Their time-outs are those of the tools, and shorter.
        Pingpong { wire: Wire::Dead, ..rc },
        both,
        Pingpong { bytes: 65536, mtu: 4096, ipv6: true, events: true, ..both },
        Pingpong { service: "ud", bytes: 1000, vlan: true, ..both },
        Pingpong { service: "srq", ..both },
        Pingpong { place: Place::Board, bytes: 1500, ..rc },
        Pingpong { place: Place::Board, bytes: 100, ..ud },
    ];
    all.into_iter().flat_map(|case| Role::BOTH.map(|role| Pingpong { role, ..case })).collect()
}

impl Case for Pingpong {
    fn suite(&self) -> Suite {
        Suite::of(self.place, self.wire)
    }

    fn name(&self) -> String {
        let more = [
            (self.events, "-events"),
            (self.ipv6, "-ipv6"),
            (self.vlan, "-vlan"),
            (self.wire == Wire::Dead, "-dark"),
        ];
        format!("{}-{}-{}{}-{}", self.service, self.bytes, self.mtu, those(&more), self.role.name())
    }

    fn quick(&self) -> bool {
        self.quick
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        let port = port()?;
        let own = Own::ferrowire(self.place, &self.ferrowire(port), setting, logs);
        let mut files = Files::default();
        files.text("case.sh", &self.script(port));
        let (role, waits, wire) = (self.role, "Waiting for client", self.wire);
        let slow = wire == Wire::Dead;
        let pair = Pair { role, port: Some(port), own, waits, card: self.card(), files, wire, slow };
        Ok(pair.run(setting, logs, |said| {
            // It says so, and goes on.
            match said.lines().find(|line| line.contains("invalid data")) {
                Some(line) => bail!("the tool in the guest says: {line}"),
                None => Ok(()),
            }
        }))
    }
}

impl Pingpong {
    /// What the guest runs.
    fn script(&self, port: u16) -> String {
        let Pingpong { service, bytes, mtu, .. } = self;
        let events = if self.events { "-e" } else { "" };
        let more = match *service {
            // A datagram's MTU is the port's.
            "ud" => "-c".into(),
            "srq" => format!("-m {mtu} -q {QPS}"),
            _ => format!("-c -m {mtu}"),
        };
        let tool = format!(
            "ibv_{service}_pingpong -g $gid -n {} -s {bytes} {more} {events} -p {port}",
            self.count()
        );
        let run = match self.role {
            Role::Client => format!("{tool} {OWN}"),
            Role::Server => format!(
                "(until netstat -tln | grep -q :{port}; do sleep 0.2; done; echo 'guest: listens') &\n{tool}"
            ),
        };
        let run = self.place.neighbour(&self.card()) + &run;
        pair::script(*mtu, Gid { ipv6: self.ipv6, vlan: self.vlan }, &run)
    }

    /// How many messages there are each way.
    fn count(&self) -> u32 {
        if self.place == Place::Board {
            FEW
        } else {
            COUNT
        }
    }

    /// The card's IP address.
    fn card(&self) -> String {
        format!("10.0.{}.1", if self.vlan { VLAN } else { 0 })
    }

    /// Which of the card's addresses: first there is the one of its own. One on a bus or on a board has no other, and is given this.
    fn address(&self) -> String {
        match (self.ipv6, self.place) {
            (true, _) => "-x 0".into(),
            (false, Place::Here) => "-x 1".into(),
            (false, Place::Guest | Place::Board) => format!("--ip {}", self.card()),
        }
    }

    /// What the command on the card's side is told.
    fn ferrowire(&self, port: u16) -> String {
        let transport = match self.service {
            "srq" => format!("--srq -q {QPS}"),
            service => format!("--transport {service}"),
        };
        let mut words = format!(
            "pingpong -p {port} {} -n {} -s {} -m {} {transport} -c",
            self.address(),
            self.count(),
            self.bytes,
            self.mtu,
        );
        if self.events {
            words += " -e";
        }
        if self.vlan {
            words += &format!(" --vlan {VLAN}");
        }
        if self.role == Role::Server {
            words += &format!(" {} --stock", self.place.peer());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_told_the_same() {
        let all = all();
        assert_eq!(all.iter().filter(|case| case.quick).count(), 2);
        for case in all {
            let (guest, own) = (case.script(18515), case.ferrowire(18515));
            let both = format!("-n {} -s {}", case.count(), case.bytes);
            assert!(guest.contains(&both) && own.contains(&both), "{}", case.name());
            assert_eq!(guest.contains(" -e "), own.contains(" -e"), "{}", case.name());
            assert_eq!(guest.contains(" -q 4"), own.contains(" --srq -q 4"), "{}", case.name());
            assert_eq!(own.contains("--stock"), case.role == Role::Server, "{}", case.name());
        }
    }
}
