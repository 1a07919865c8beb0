// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suites `wire`, `both`, `board` and `loss`: a guest with soft-RoCE on the simulated card's wire, and a tool of rdma-core in it. In cases of the suite `verbs` the same tool, as
//! Debian packages it, is on the card's side, with libibverbs.so.1 of this project.
//!
//! On a wire that loses nothing, nothing is sent again.

use std::path::Path;

use anyhow::{bail, Context as _, Result};

use super::own::{port, Own, Place, OWN};
use super::pair::{self, Gid, Pair, Role, Waits, Wire, VLAN};
use super::process::read;
use super::unmodified::expect::Expect;
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
    /// On the card's side is the tool, too, and not the command `ferrowire`.
    stock: bool,
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
        stock: false,
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
    let stock = [rc, uc, ud, srq].map(|case| Pingpong { stock: true, ..case });
    let stock = stock.into_iter().flat_map(|case| [false, true].map(|events| Pingpong { events, ..case }));
    all.into_iter().chain(stock).flat_map(|case| Role::BOTH.map(|role| Pingpong { role, ..case })).collect()
}

impl Case for Pingpong {
    fn suite(&self) -> Suite {
        if self.stock {
            return Suite::Verbs;
        }
        Suite::of(self.place, self.wire)
    }

    fn name(&self) -> String {
        if self.stock {
            let events = those(&[(self.events, "-events")]);
            return format!("soft-roce-{}-pingpong{events}-{}", self.service, self.role.name());
        }
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
        let (own, waits) = match self.stock {
            true => {
                let program = format!("ibv_{}_pingpong", self.service);
                (Own::stock(&program, &self.tool(port), setting, logs)?, Waits::Listens(port))
            }
            false => {
                let own = Own::ferrowire(self.place, &self.ferrowire(port), setting, logs);
                (own, Waits::Says("Waiting for client"))
            }
        };
        let mut files = Files::default();
        files.text("case.sh", &self.script(port));
        let (role, wire) = (self.role, self.wire);
        let slow = wire == Wire::Dead;
        let pair = Pair { role, port: Some(port), own, waits, card: self.card(), files, wire, slow };
        let expect = Expect::Pingpong { bytes: self.bytes.into(), rounds: self.count().into() };
        Ok(pair.run(setting, logs, |said| {
            if self.stock {
                let own = read(&logs.join(pair::OWN_LOG));
                expect.check(&own, "").context("the tool on the card's side")?;
                expect.check(said, "").context("the tool in the guest")?;
            }
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

    /// What the tool on the card's side is told.
    fn tool(&self, port: u16) -> String {
        // First there is the card's own address.
        let mut words = format!("-g 1 -n {} -s {} -c -p {port}", self.count(), self.bytes);
        match self.service {
            "ud" => {}
            "srq" => words += &format!(" -m {} -q {QPS}", self.mtu),
            _ => words += &format!(" -m {}", self.mtu),
        }
        if self.events {
            words += " -e";
        }
        if self.role == Role::Server {
            words += " localhost";
        }
        words
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
            let tool = case.tool(18515);
            assert!([&guest, &own, &tool].iter().all(|words| words.contains(&both)), "{}", case.name());
            assert_eq!(guest.contains(" -e "), tool.contains(" -e"), "{}", case.name());
            assert_eq!(guest.contains(" -q 4"), tool.contains(" -q 4"), "{}", case.name());
            assert_eq!(tool.ends_with("localhost"), case.role == Role::Server, "{}", case.name());
            assert_eq!(guest.contains(" -e "), own.contains(" -e"), "{}", case.name());
            assert_eq!(guest.contains(" -q 4"), own.contains(" --srq -q 4"), "{}", case.name());
            assert_eq!(own.contains("--stock"), case.role == Role::Server, "{}", case.name());
        }
    }
}
