// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `bus`: two simulated cards on a guest's PCI bus, behind its IOMMU, and the command `ferrowire` in the guest.
//!
//! ```text
//!                       QEMU, with intel-iommu
//!  ferrowire-sim up --- ferrowire0.sock: vfio-user-pci --- 00:10.0 --- vfio-pci --- ferrowire
//!     the cards' wire                                                                  | TCP
//!                   --- ferrowire1.sock: vfio-user-pci --- 00:11.0 --- vfio-pci --- ferrowire
//! ```
//!
//! What the guest does is a script of its own shell, which ends at the first step that does not do what it must. The guest's clock goes on while the cards
//! compute: nothing in it has time-outs that they could miss, for both cards have the simulation's clock.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{bail, Context as _, Result};

use super::process::{last, read, Process, LIMIT};
use super::server::Server;
use super::unmodified::expect::Expect;
use super::{slot, Case, Setting, Suite, Tried};
use crate::workspace;

/// Files that the server of the cards may have open: QEMU sends one for each page of memory, and none of them may stay.
const SERVER_FILES: u32 = 64;
/// What a round of `kills` adds to the time that a case has.
const ROUND: Duration = Duration::from_secs(30);

/// What the guest does.
#[derive(Clone, Copy)]
struct Bus {
    name: &'static str,
    /// Of the quick ones.
    quick: bool,
    /// The cards' configuration, if it is not the command line's.
    config: Option<&'static str>,
    script: &'static str,
    /// An example of the driver that the guest has besides.
    example: Option<&'static str>,
    /// How often programs are killed.
    rounds: u32,
    /// What the server of the cards must have said.
    told: Option<fn(&str) -> Result<()>>,
    /// Programs of Debian that the guest has, with the libraries of verbs: a case of the suite `verbs`.
    programs: &'static [&'static str],
}

/// All cases.
pub fn cases() -> Vec<Box<dyn Case>> {
    all().into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect()
}

fn all() -> Vec<Bus> {
    let of = |name, script| Bus {
        name,
        quick: false,
        config: None,
        script,
        example: None,
        rounds: 0,
        told: None,
        programs: &[],
    };
    let bind = of("bind", include_str!("bus/bind.sh"));
    let pingpong = of("pingpong", include_str!("bus/pingpong.sh"));
    let kills = Bus { rounds: 50, ..of("kills", include_str!("bus/kills.sh")) };
    let iommu =
        Bus { example: Some("iommu"), told: Some(refused), ..of("iommu", include_str!("bus/iommu.sh")) };
    // It faces PCIe: masks, resets and the PCIe engine are the card's own.
    let pcie = Some("pcie-8b");
    vec![
        Bus { quick: true, ..bind },
        Bus { quick: true, ..pingpong },
        Bus { quick: true, name: "kill", rounds: 1, ..kills },
        of("services", include_str!("bus/services.sh")),
        of("bandwidth", include_str!("bus/bandwidth.sh")),
        of("latency", include_str!("bus/latency.sh")),
        of("user", include_str!("bus/user.sh")),
        Bus { example: Some("kv_store"), ..of("store", include_str!("bus/store.sh")) },
        iommu,
        kills,
        Bus { name: "bind-pcie", config: pcie, ..bind },
        Bus { name: "pingpong-pcie", config: pcie, ..pingpong },
        Bus { name: "iommu-pcie", config: pcie, ..iommu },
        Bus { name: "kills-pcie", config: pcie, rounds: 10, ..kills },
        Bus { programs: &["ib_write_bw", "rping"], ..of("vfio-programs", include_str!("bus/programs.sh")) },
    ]
}

impl Case for Bus {
    fn suite(&self) -> Suite {
        match self.programs {
            [] => Suite::Bus,
            _ => Suite::Verbs,
        }
    }

    fn name(&self) -> String {
        self.name.into()
    }

    fn quick(&self) -> bool {
        self.quick
    }

    fn run(&self, setting: &Setting, logs: &Path) -> Result<Tried> {
        // A model that is not there is built first.
        let limit = Instant::now() + 4 * LIMIT;
        let cards = self.cards(setting, logs);
        let mut cards = Server::start("the cards", cards, &logs.join("cards.log"), setting)?;
        cards.serves(&logs.join("ferrowire1.sock"), limit)?;
        let limit = Instant::now() + 2 * LIMIT + ROUND * self.rounds;
        let log = logs.join("guest.log");
        let mut guest = Process::start("the guest", self.guest(setting, logs)?, &log)?;
        guest.end(limit).with_context(|| last(&log))?;
        cards.lives()?;
        let said = read(&log);
        if !said.contains("guest: case ended with 0") {
            let why = said.lines().rfind(|line| line.contains("guest: FAILED"));
            bail!("{}", why.map_or_else(|| last(&log), |line| line.trim().into()));
        }
        // The cards' server has refused nothing that QEMU asked for.
        let refused = |line: &&str| line.contains("error reply") || line.contains("vfio_container_dma");
        if let Some(line) = said.lines().find(refused) {
            bail!("QEMU says: {}", line.trim());
        }
        if !self.programs.is_empty() {
            figures(&said)?;
        }
        let result = self.told.map_or(Ok(()), |told| told(&read(&logs.join("cards.log"))));
        Ok(Tried { result, again: None })
    }
}

/// Options of `ib_write_bw` and `rping` on both sides.
const PERFTEST: &str = "-F -c RC -s 4096 -n 50";
const RPING: &str = "-v -V -C 10 -S 1000";

/// What the programs of Debian must have said.
fn figures(said: &str) -> Result<()> {
    Expect::Perftest { sizes: vec![4096], iterations: 50 }.check(said, "").context("ib_write_bw")?;
    Expect::Rping { rounds: 10 }.check(said, "").context("rping")
}

/// The first card was refused reads, and the second one both: so the server must have said of each.
fn refused(log: &str) -> Result<()> {
    const TEXT: &str = ".sock: the card was refused memory that is not mapped: ";
    let of = |card: &str| {
        let mut said = log.lines().filter_map(|line| line.trim().split_once(TEXT));
        let (_, counts) = said.rfind(|(socket, _)| socket.ends_with(card))?;
        let (reads, writes) = counts.strip_suffix(" writes")?.split_once(" reads, ")?;
        Some((reads.parse::<u64>().ok()?, writes.parse::<u64>().ok()?))
    };
    match (of("ferrowire0"), of("ferrowire1")) {
        (Some((1.., 0)), Some((1.., 1..))) => Ok(()),
        counts => bail!("the server of the cards tells of refused reads and writes: {counts:?}"),
    }
}

impl Bus {
    /// Who serves both cards.
    fn cards(&self, setting: &Setting, logs: &Path) -> Command {
        let own = setting.program("ferrowire-sim", logs);
        let mut limited = Command::new("sh");
        limited.current_dir(logs).envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.args(["-c", &format!("ulimit -n {SERVER_FILES} && exec \"$0\" \"$@\"")]);
        limited.arg(own.get_program()).args(["up", "--eager", "--verbose", "--config"]);
        limited.arg(self.config.unwrap_or(&setting.config));
        if !setting.waves {
            limited.args(["--capture", "wire.pcapng"]);
        }
        limited
    }

    /// The script. The seed says who is killed, and when.
    fn script(&self, seed: u16) -> String {
        format!(
            "ROUNDS={} SEED={seed} PERFTEST=\"{PERFTEST}\" RPING=\"{RPING}\"\necho \"guest: seed $SEED\"\n{}",
            self.rounds, self.script
        )
    }

    /// The machine whose bus they are on.
    fn guest(&self, setting: &Setting, logs: &Path) -> Result<Command> {
        let now = UNIX_EPOCH.elapsed().map_or(1, |since| since.as_millis());
        let mut files = slot::files(&self.script((now % 30_000 + 1) as u16), logs)?;
        if let Some(example) = self.example {
            let example = setting.example(example)?;
            files.own_program(&workspace::target().join("debug").join(example), logs)?;
        }
        if !self.programs.is_empty() {
            let (programs, libraries) = (setting.programs()?, setting.libraries()?);
            let mut folders = libraries.as_os_str().to_owned();
            folders.push(":");
            folders.push(programs.libraries());
            for program in self.programs {
                files.program_with(&programs.program(program), &folders, logs)?;
            }
        }
        slot::guest(setting, &files, logs, &["ferrowire0.sock", "ferrowire1.sock"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_can_read_each_script() {
        for case in all() {
            let whole = include_str!("bus/common.sh").to_string() + &case.script(1);
            let read = Command::new("sh").args(["-n", "-c", &whole]).output().unwrap();
            assert!(read.status.success(), "{}: {}", case.name, String::from_utf8_lossy(&read.stderr));
        }
    }

    #[test]
    fn what_the_server_refused_is_read_from_its_log() {
        let line = |card: u8, reads: u64, writes: u64| {
            format!("./ferrowire{card}.sock: the card was refused memory that is not mapped: {reads} reads, {writes} writes\n")
        };
        let first = "ferrowire -d sim:./ferrowire0.sock info\n".to_string() + &line(0, 1, 0) + &line(1, 4, 0);
        assert!(refused(&first).is_err(), "no write");
        assert!(refused(&(first.clone() + &line(1, 8, 1))).is_ok());
        assert!(refused(&(line(1, 8, 1) + &line(0, 8, 1))).is_err(), "the first card writes nothing");
        assert!(refused(&line(1, 8, 1)).is_err(), "nothing of the first card");
    }

    #[test]
    fn few_are_quick_and_those_end_soon() {
        let quick: Vec<_> = all().into_iter().filter(|case| case.quick).collect();
        assert_eq!(quick.iter().map(|case| case.name).collect::<Vec<_>>(), ["bind", "pingpong", "kill"]);
        assert!(quick.iter().all(|case| case.rounds <= 1 && case.config.is_none() && case.example.is_none()));
    }
}
