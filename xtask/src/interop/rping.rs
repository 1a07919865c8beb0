// SPDX-License-Identifier: MIT OR Apache-2.0
//! `rping` of rdma-core against `ferrowire rping`: connections of the communication manager, READs and WRITEs, all over the card's wire.

use std::path::Path;

use anyhow::{bail, Result};

use super::pair::{self, Gid, Pair, Role, Wire};
use super::{Case, Setting, Suite, Tried};
use crate::peers::Files;

/// A run of it.
#[derive(Clone, Copy)]
struct Rping {
    bytes: u32,
    ipv6: bool,
    /// The wire loses, repeats, reorders and corrupts frames.
    loss: bool,
    role: Role,
}

/// Rounds, each a READ and a WRITE.
const ROUNDS: u32 = 5;

/// All cases, each with the guest as client and as server. As a client the guest says what the card's ACK time-out is, and Linux says half a second or more: millions of cycles
/// of a simulation for each packet that is lost.
pub fn cases() -> Vec<Box<dyn Case>> {
    let of = |bytes, ipv6, loss| Rping { bytes, ipv6, loss, role: Role::Client };
    let all = [of(64, false, false), of(65535, false, false), of(5000, true, false), of(5000, false, true)];
    let both = all.into_iter().flat_map(|case| Role::BOTH.map(|role| Rping { role, ..case }));
    let timely = both.filter(|case| !case.loss || case.role == Role::Server);
    timely.map(|case| Box::new(case) as Box<dyn Case>).collect()
}

impl Case for Rping {
    fn suite(&self) -> Suite {
        Suite::of_wire(self.loss)
    }

    fn name(&self) -> String {
        format!("rping-{}{}-{}", self.bytes, if self.ipv6 { "-ipv6" } else { "" }, self.role.name())
    }

    fn quick(&self) -> bool {
        false
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        let network = if self.ipv6 { "fd00::" } else { "10.0.0." };
        let (card, guest) = (format!("{network}1"), format!("{network}2"));
        let mut own = setting.program("ferrowire", logs);
        own.args(["-d", "sim:a.sock", "rping", "--ip", &card, "-V", "-C", &ROUNDS.to_string()]);
        let options = format!("-v -V -C {ROUNDS} -S {}", self.bytes);
        let tool = match self.role {
            Role::Client => format!("rping -c -a {card} {options}"),
            Role::Server => {
                own.args([&guest, "-S", &self.bytes.to_string()]);
                format!(
                    "(until rdma resource show cm_id | grep -q LISTEN; do sleep 0.2; done; echo 'guest: listens') &\n\
                     rping -s -a {guest} {options}"
                )
            }
        };
        let mut files = Files::default();
        files.text("case.sh", &pair::script(1024, Gid::default(), &tool));
        let (role, waits, wire) = (self.role, "listens on", Wire::of(self.loss));
        let pair = Pair { role, port: None, own, waits, card, files, wire };
        Ok(pair.run(setting, logs, |said| {
            // As a client it shows what came back.
            let shown = said.lines().filter(|line| line.trim_start().starts_with("ping data: ")).count();
            match role {
                Role::Client if shown != ROUNDS as usize => bail!("rping shows the data of {shown} rounds"),
                _ => Ok(()),
            }
        }))
    }
}
