// SPDX-License-Identifier: MIT OR Apache-2.0
//! A board's bitstream, made beside the tests of the full tier.
//!
//! It takes one processor for a long time and little else, so it begins first and is waited for last; whoever needs the machine alone waits for it. It
//! is the board's own shell with all that the board has, around a card that is left without what it can be built without, which is mapped and placed sooner.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{kill_process_group, Pid, Signal};

use crate::workspace;

/// Which board.
const BOARD: &str = "ecpix5";

/// What its card is left without.
const WITHOUT: [&str; 8] = [
    "srqs=0",
    "uc=false",
    "ud=false",
    "raw_ethernet=false",
    "atomics=false",
    "memory_windows=false",
    "ipv6=false",
    "vlan=false",
];

/// The command that does the same alone.
pub fn command() -> String {
    let sets: Vec<String> = WITHOUT.iter().map(|set| format!("--set {set}")).collect();
    format!("xtask bitstream {BOARD} {}", sets.join(" "))
}

/// The program that makes it. It ends with this.
pub struct Beside {
    child: Child,
    log: PathBuf,
}

impl Beside {
    /// Begins. The tools are there.
    pub fn begin() -> Result<Beside> {
        let this = std::env::current_exe().context("finding this program")?;
        // The tests have clocks, and go first.
        let mut nice = Command::new("nice");
        nice.args(["-n", "5"]).arg(this).args(["bitstream", BOARD]);
        nice.args(WITHOUT.iter().flat_map(|set| ["--set", set]));
        Beside::of(nice, workspace::target().join("bitstream-beside-tests.log"))
    }

    /// A program that writes this log.
    fn of(mut program: Command, log: PathBuf) -> Result<Beside> {
        let output = File::create(&log).with_context(|| format!("making {}", log.display()))?;
        program.process_group(0).stdout(output.try_clone()?).stderr(output);
        let name = program.get_program().to_string_lossy().into_owned();
        let child = program.spawn().with_context(|| format!("running {name}"))?;
        Ok(Beside { child, log })
    }

    /// Waits for its end, shows what it says, and gives its exit code.
    pub fn end(mut self) -> Result<u8> {
        let mut said = 0;
        loop {
            let ended = self.child.try_wait().context("waiting for the bitstream")?;
            let log = fs::read(&self.log).with_context(|| format!("reading {}", self.log.display()))?;
            let lines = whole_lines(&log[said..], ended.is_some());
            said += lines.len();
            eprint!("{}", String::from_utf8_lossy(lines));
            match ended {
                Some(status) => return Ok(workspace::code(status)),
                None if workspace::interrupted() => return Ok(130),
                None => sleep(Duration::from_millis(500)),
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // All that it has begun, too.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// As much of a text as ends with a line, or all of it.
fn whole_lines(text: &[u8], all: bool) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    &text[..if all { text.len() } else { end }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, name: &str) -> Beside {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        let log = std::env::temp_dir().join(format!("ferrowire-beside-{}-{name}", std::process::id()));
        Beside::of(shell, log).unwrap()
    }

    #[test]
    fn its_exit_code_is_that_of_the_program() {
        for code in [0, 3] {
            let beside = shell(&format!("echo placing; sleep 0.1; echo routing >&2; exit {code}"), "code");
            let log = beside.log.clone();
            assert_eq!(beside.end().unwrap(), code);
            assert_eq!(fs::read_to_string(&log).unwrap(), "placing\nrouting\n");
            fs::remove_file(log).unwrap();
        }
    }

    #[test]
    fn all_that_it_has_begun_ends_with_it() {
        let beside = shell("sleep 60 & echo $!; wait", "end");
        let log = beside.log.clone();
        let child: i32 = loop {
            if let Ok(pid) = fs::read_to_string(&log).unwrap().trim().parse() {
                break pid;
            }
            sleep(Duration::from_millis(10));
        };
        drop(beside);
        let gone =
            || fs::read_to_string(format!("/proc/{child}/stat")).map_or(true, |stat| stat.contains(") Z"));
        assert!((0..500).any(|_| {
            sleep(Duration::from_millis(10));
            gone()
        }));
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_line_is_shown_when_it_is_whole() {
        assert_eq!(whole_lines(b"placing ...\nrou", false), b"placing ...\n");
        assert_eq!(whole_lines(b"rou", false), b"");
        assert_eq!(whole_lines(b"rou", true), b"rou");
    }
}
