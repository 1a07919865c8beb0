// SPDX-License-Identifier: MIT OR Apache-2.0
//! `interop`: a simulated card against Linux, both as they are.
//!
//! ```text
//!  ferrowire --- a.sock --- ferrowire-sim card --- wire.sock --- QEMU: eth0, soft-RoCE, ibv_rc_pingpong
//!      |                                                               eth1
//!      +------------------- TCP, the tools' side channel ---------------+
//! ```
//!
//! Each case is a guest of its own. What all said is left in `target/interop/CASE`.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use serde::Serialize;

use crate::peers::{Files, Peers};
use crate::{cargo, setup, workspace};

/// Options of `interop`.
#[derive(clap::Args)]
pub struct Args {
    /// The card's configuration
    #[arg(long, value_name = "NAME|FILE", default_value = "generic-8b")]
    config: String,
    /// Only RC, a client and a server
    #[arg(long)]
    quick: bool,
    /// Only cases with one of these in their name
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Who the guest is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

/// A run of a tool of rdma-core.
#[derive(Clone, Copy)]
struct Case {
    /// RC, UC or UD, as it is in the tool's name.
    service: &'static str,
    bytes: u32,
    mtu: u32,
    /// Sleeps until events come.
    events: bool,
    ipv6: bool,
    /// Of the quick ones.
    quick: bool,
    role: Role,
}

/// Messages each way: a guest without an accelerator takes its time.
const COUNT: u32 = 20;

/// All cases, each with the guest as client and as server.
fn cases() -> Vec<Case> {
    let rc = Case {
        service: "rc",
        bytes: 3000,
        mtu: 1024,
        events: false,
        ipv6: false,
        quick: false,
        role: Role::Client,
    };
    let all = [
        Case { quick: true, ..rc },
        Case { bytes: 1, mtu: 256, ..rc },
        Case { bytes: 4096, mtu: 4096, ..rc },
        Case { events: true, ..rc },
        Case { ipv6: true, ..rc },
        Case { service: "uc", bytes: 1000, ..rc },
        Case { service: "ud", bytes: 1000, ..rc },
    ];
    all.into_iter().flat_map(|case| [Role::Client, Role::Server].map(|role| Case { role, ..case })).collect()
}

impl Case {
    fn name(&self) -> String {
        let more = [(self.events, "-events"), (self.ipv6, "-ipv6")];
        let more: String = more.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
        let role = if self.role == Role::Client { "client" } else { "server" };
        format!("{}-{}-{}{more}-{role}", self.service, self.bytes, self.mtu)
    }

    /// What the guest runs.
    fn script(&self, port: u16) -> String {
        let Case { service, bytes, mtu, .. } = self;
        let (gid, events) = (self.gid(), if self.events { "-e" } else { "" });
        // A datagram's MTU is the port's.
        let mtu_option = if *service == "ud" { String::new() } else { format!("-m {mtu}") };
        let tool = format!(
            "ibv_{service}_pingpong -g {gid} -n {COUNT} -s {bytes} {mtu_option} {events} -c -p {port}"
        );
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
             ip link set eth1 up\n\
             ip addr add 10.0.2.15/24 dev eth1\n\
             rdma link add rxe0 type rxe netdev eth0 || exit 1\n\
             sleep 1\n\
             {run}\n\
             code=$?\n\
             for counter in /sys/class/infiniband/rxe0/ports/1/hw_counters/*; do\n\
             echo \"counter ${{counter##*/}} $(cat $counter)\"\n\
             done\n\
             exit $code\n"
        )
    }

    /// Index of its GIDs: the address of the interface's own comes first, with either side.
    fn gid(&self) -> u32 {
        u32::from(!self.ipv6)
    }

    /// The command on the card's side.
    fn ferrowire(&self, port: u16) -> Vec<String> {
        let words = format!(
            "-d sim:a.sock pingpong -p {port} -x {} -n {COUNT} -s {} -m {} --transport {} -c",
            self.gid(),
            self.bytes,
            self.mtu,
            self.service
        );
        let mut all: Vec<String> = words.split(' ').map(String::from).collect();
        if self.events {
            all.push("-e".into());
        }
        if self.role == Role::Server {
            all.extend(["localhost".into(), "--stock".into()]);
        }
        all
    }
}

/// What came of a case.
#[derive(Serialize)]
struct Outcome {
    case: String,
    /// Why it failed, if it did.
    failure: Option<String>,
    /// Requests that the guest sent again or got again. Its clock does not wait for the simulation, so a slow one may be taken for a loss.
    again: Option<u64>,
    logs: PathBuf,
}

/// Runs the cases.
pub fn run(args: &Args) -> Result<u8> {
    setup::run(&setup::Args::default())?;
    let build = cargo(["build", "--quiet", "-p", "ferrowire-sim", "-p", "ferrowire-cli", "--bins"]);
    if workspace::exit_code(build)? != 0 {
        bail!("the simulator could not be built");
    }
    let peers = Peers::get(false)?;
    let wanted = |case: &Case| {
        let name = case.name();
        (!args.quick || case.quick)
            && (args.only.is_empty() || args.only.iter().any(|part| name.contains(part.as_str())))
    };
    let cases: Vec<Case> = cases().into_iter().filter(wanted).collect();
    if cases.is_empty() {
        bail!(
            "no case has that in its name; there are {}",
            self::cases().iter().map(Case::name).collect::<Vec<_>>().join(", ")
        );
    }
    let mut outcomes = Vec::new();
    for case in &cases {
        let name = case.name();
        let logs = workspace::target().join("interop").join(&name);
        eprint!("{name:<28} ");
        let result = one(&peers, case, &args.config, &logs);
        if workspace::interrupted() {
            bail!("interrupted");
        }
        let failure = result.err().map(|error| format!("{error:#}"));
        let again = again(&read(&logs.join("guest.log")));
        eprintln!("{}", failure.as_deref().unwrap_or("ok"));
        outcomes.push(Outcome { case: name, failure, again, logs });
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else {
        println!("{:<28} {:<8} requests again", "case", "");
        for Outcome { case, failure, again, logs } in &outcomes {
            let again = again.map_or("-".into(), |again| again.to_string());
            println!("{case:<28} {:<8} {again}", if failure.is_some() { "FAILED" } else { "ok" });
            if failure.is_some() {
                println!("  see {}", logs.display());
            }
        }
        println!("{} of {} passed", outcomes.len() - failed, outcomes.len());
    }
    Ok(u8::from(failed > 0))
}

/// The longest that a case may take: a guest boots in some ten seconds.
const LIMIT: Duration = Duration::from_secs(240);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A process that does not outlive its case.
struct Process {
    what: &'static str,
    child: Child,
}

impl Process {
    /// Its output goes to `log`.
    fn start(what: &'static str, mut command: Command, log: &Path) -> Result<Process> {
        let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(Process { what, child: command.spawn().with_context(|| format!("starting {what}"))? })
    }

    /// Waits for its end, which must be a good one.
    fn end(&mut self, limit: Instant) -> Result<()> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return match status.success() {
                    true => Ok(()),
                    false => bail!("{} ended with {status}", self.what),
                };
            }
            wait(limit, self.what)?;
        }
    }

    fn lives(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended with {status}", self.what),
            None => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(limit: Instant, what: &str) -> Result<()> {
    if workspace::interrupted() {
        bail!("interrupted");
    }
    if Instant::now() > limit {
        bail!("{what} takes longer than {} s", LIMIT.as_secs());
    }
    std::thread::sleep(LOOK);
    Ok(())
}

/// A text, or as much of it as there is.
fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn one(peers: &Peers, case: &Case, config: &str, logs: &Path) -> Result<()> {
    workspace::remove_folder(logs)?;
    fs::create_dir_all(logs).with_context(|| format!("creating {}", logs.display()))?;
    let limit = Instant::now() + LIMIT;
    let program = |name: &str| {
        let mut command = Command::new(workspace::target().join("debug").join(name));
        // Names of sockets are short; the tools are found below the target folder.
        command.current_dir(logs).env("CARGO_TARGET_DIR", workspace::target());
        command
    };
    let config = match Path::new(config).exists() {
        true => std::path::absolute(config)?.display().to_string(),
        false => config.to_string(),
    };
    let mut card = program("ferrowire-sim");
    card.args(["card", "--eager", "--socket", "a.sock", "--wire", "stream:wire.sock", "--config", &config]);
    card.args(["--mac", "02:fe:00:00:00:01", "--ip", "10.0.0.1", "--qmp", "qmp.sock"]);
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
    let mut ferrowire = program("ferrowire");
    ferrowire.args(case.ferrowire(port));
    // The tool's port in the guest is the same.
    let forward = match case.role {
        Role::Client => format!("guestfwd=tcp:10.0.2.100:{port}-tcp:127.0.0.1:{port}"),
        Role::Server => format!("hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:{port}"),
    };
    let mut files = Files::default();
    files.text("case.sh", &case.script(port));
    let mut guest = peers.guest(&files, logs)?;
    guest.args(["-qmp", "unix:qmp.sock", "-rtc", "clock=vm"]);
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

/// The last line of a log that says something.
fn last(log: &Path) -> String {
    let text = read(log);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    line.trim().to_string()
}

/// Requests that were sent again, by what soft-RoCE counts: its own, and those of the card that it had already.
fn again(log: &str) -> Option<u64> {
    let count = |name: &str| {
        let line = log
            .lines()
            .find_map(|line| line.trim().strip_prefix("counter ")?.strip_prefix(name)?.strip_prefix(' '));
        line?.trim().parse::<u64>().ok()
    };
    Some(count("completer_retry_err")? + count("duplicate_request")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_tell_both_sides_the_same() {
        let all = cases();
        let mut names: Vec<String> = all.iter().map(Case::name).collect();
        assert_eq!(names[..2], ["rc-3000-1024-client", "rc-3000-1024-server"]);
        assert_eq!(all.iter().filter(|case| case.quick).count(), 2);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for case in all {
            let (guest, own) = (case.script(18515), case.ferrowire(18515).join(" "));
            let both = format!("-n {COUNT} -s {}", case.bytes);
            assert!(guest.contains(&both) && own.contains(&both), "{}", case.name());
            assert_eq!(guest.contains(" -e "), own.contains(" -e"), "{}", case.name());
            assert_eq!(own.contains("--stock"), case.role == Role::Server, "{}", case.name());
        }
    }

    #[test]
    fn what_the_guest_counts_is_read_from_its_serial_line() {
        let log = "rc 0\r\ncounter completer_retry_err 3\r\ncounter duplicate_request 2\r\nguest: case ended with 0\r\n";
        assert_eq!(again(log), Some(5));
        assert_eq!(again("counter duplicate_request 2\n"), None);
    }
}
