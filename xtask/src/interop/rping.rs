// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rping` of rdma-core against `ferrowire rping`: connections of the communication manager, READs and WRITEs, all over the card's wire.

use std::path::Path;

use anyhow::{bail, Context as _, Result};

use super::own::{Own, Place};
use super::pair::{self, Gid, Pair, Role, Waits, Wire};
use super::process::read;
use super::unmodified::expect::Expect;
use super::{those, Case, Setting, Suite, Tried};
use crate::peers::Files;

/// A run of it.
#[derive(Clone, Copy)]
struct Rping {
    bytes: u32,
    ipv6: bool,
    wire: Wire,
    place: Place,
    role: Role,
    /// On the card's side is `rping` of Debian, with librdmacm.so.1 of this project.
    stock: bool,
}

/// Rounds, each a READ and a WRITE.
const ROUNDS: u32 = 5;

/// All cases, each with the guest as client and as server.
pub fn cases() -> Vec<Box<dyn Case>> {
    let of = |bytes| Rping {
        bytes,
        ipv6: false,
        wire: Wire::Sound,
        place: Place::Here,
        role: Role::Client,
        stock: false,
    };
    let all = [
        of(64),
        of(65535),
        Rping { ipv6: true, ..of(5000) },
        Rping { wire: Wire::Lossy, ..of(5000) },
        Rping { wire: Wire::Dark, ..of(65535) },
        Rping { place: Place::Guest, ..of(64) },
        Rping { place: Place::Board, ..of(64) },
        Rping { place: Place::Guest, ipv6: true, ..of(65535) },
        Rping { stock: true, ..of(64) },
        Rping { stock: true, ipv6: true, ..of(65535) },
    ];
    let both = all.into_iter().flat_map(|case| Role::BOTH.map(|role| Rping { role, ..case }));
    both.map(|case| Box::new(case) as Box<dyn Case>).collect()
}

impl Case for Rping {
    fn suite(&self) -> Suite {
        if self.stock {
            return Suite::Verbs;
        }
        Suite::of(self.place, self.wire)
    }

    fn name(&self) -> String {
        let more = [(self.ipv6, "-ipv6"), (self.wire == Wire::Dark, "-dark")];
        let of = if self.stock { "soft-roce-" } else { "" };
        format!("{of}rping-{}{}-{}", self.bytes, those(&more), self.role.name())
    }

    fn quick(&self) -> bool {
        false
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        let network = if self.ipv6 { "fd00::" } else { "10.0.0." };
        let (card, guest) = (format!("{network}1"), format!("{network}2"));
        // The client says what both sides' time-outs are.
        let slow = self.wire != Wire::Sound;
        let mut words = format!("rping --ip {card} -V -C {ROUNDS}");
        if slow {
            // Linux says two seconds, and a busy machine takes several times that to simulate them.
            words += " -W 300";
        }
        let options = format!("-v -V -C {ROUNDS} -S {}", self.bytes);
        let tool = match self.role {
            Role::Client => format!("rping -c -a {card} {options}"),
            Role::Server => {
                words += &format!(" {guest} -S {}", self.bytes);
                if slow {
                    // For both sides: a second, as often as it is sent again.
                    words += " -u 18";
                }
                format!(
                    "(until rdma resource show cm_id | grep -q LISTEN; do sleep 0.2; done; echo 'guest: listens') &\n\
                     rping -s -a {guest} {options}"
                )
            }
        };
        let mut files = Files::default();
        files.text("case.sh", &pair::script(1024, Gid::default(), &(self.place.neighbour(&card) + &tool)));
        let (own, waits) = match self.stock {
            true => {
                let side = if self.role == Role::Client {
                    format!("-s -a {card}")
                } else {
                    format!("-c -a {guest}")
                };
                // The library says this when it listens.
                (Own::stock("rping", &format!("{side} {options}"), setting, logs)?, "rdma_listen")
            }
            false => (Own::ferrowire(self.place, &words, setting, logs), "listens on"),
        };
        let (role, waits, wire) = (self.role, Waits::Says(waits), self.wire);
        let pair = Pair { role, port: None, own, waits, card, files, wire, slow };
        Ok(pair.run(setting, logs, |said| {
            if self.stock && role == Role::Server {
                let own = read(&logs.join(pair::OWN_LOG));
                let expect = Expect::Rping { rounds: ROUNDS as usize };
                expect.check(&own, "").context("rping on the card's side")?;
            }
            // As a client it shows what came back.
            let shown = said.lines().filter(|line| line.trim_start().starts_with("ping data: ")).count();
            match role {
                Role::Client if shown != ROUNDS as usize => bail!("rping shows the data of {shown} rounds"),
                _ => Ok(()),
            }
        }))
    }
}
