// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of a case, which do not outlive it, and what they say.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, kill_process_group, Pid, Signal};

use crate::workspace;

/// The longest that a case may take: the longest one takes two minutes, and some times that on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(600);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// A process that does not outlive its case.
pub struct Process {
    /// What it is called.
    pub what: &'static str,
    child: Child,
}

impl Process {
    /// Its output goes to `log`.
    pub fn start(what: &'static str, command: Command, log: &Path) -> Result<Process> {
        let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        Process::spawn(what, command, file.try_clone()?, file)
    }

    /// Its standard output goes to `log`, and its standard error to a file beside it, so that neither cuts the other's lines.
    pub fn start_apart(what: &'static str, command: Command, log: &Path) -> Result<Process> {
        let create = |path: &Path| File::create(path).with_context(|| format!("creating {}", path.display()));
        Process::spawn(what, command, create(log)?, create(&errors(log))?)
    }

    fn spawn(what: &'static str, mut command: Command, out: File, err: File) -> Result<Process> {
        // A group of its own, so that what it starts ends with it.
        command.process_group(0).stdin(Stdio::null()).stdout(out).stderr(err);
        Ok(Process { what, child: command.spawn().with_context(|| format!("starting {what}"))? })
    }

    /// Waits for its end, which must be a good one.
    pub fn end(&mut self, limit: Instant) -> Result<()> {
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

    /// Whether it has ended, well or not.
    pub fn ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let sent = self.pid().map(|pid| kill_process(pid, signal));
        sent.with_context(|| format!("{} has no number", self.what))?
            .with_context(|| format!("a signal to {}", self.what))
    }

    /// It must not have ended.
    pub fn lives(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("{} ended with {status}", self.what),
            None => Ok(()),
        }
    }
}

/// How long one that is asked to end may take for that.
const FAREWELL: Duration = Duration::from_secs(5);

impl Drop for Process {
    /// It is asked first: then files are written whole, and sockets removed.
    fn drop(&mut self) {
        let limit = Instant::now() + FAREWELL;
        let lives = matches!(self.child.try_wait(), Ok(None));
        if lives && self.signal(Signal::TERM).is_ok() {
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < limit {
                std::thread::sleep(LOOK);
            }
        }
        // What it started and left is asked for nothing.
        if let Some(group) = self.pid() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Waits a little, unless it has taken too long.
pub fn wait(limit: Instant, what: &str) -> Result<()> {
    if workspace::interrupted() {
        bail!("interrupted");
    }
    if Instant::now() > limit {
        bail!("{what} takes too long");
    }
    std::thread::sleep(LOOK);
    Ok(())
}

/// A text, or as much of it as there is.
pub fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The file of the standard error that belongs to a log.
pub fn errors(log: &Path) -> PathBuf {
    log.with_extension("err")
}

/// Ends the processes that work in a folder, and gives their numbers and names: a case starts all its processes there.
pub fn end_those_in(folder: &Path) -> Vec<String> {
    let Ok(folder) = fs::canonicalize(folder) else { return Vec::new() };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ended = Vec::new();
    for entry in all {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let works_there = fs::read_link(entry.path().join("cwd")).is_ok_and(|at| at == folder);
        if let (Some(pid), true) = (number.and_then(Pid::from_raw), works_there) {
            let name = read(&entry.path().join("comm"));
            if kill_process(pid, Signal::KILL).is_ok() {
                ended.push(format!("{} ({})", pid.as_raw_nonzero(), name.trim()));
            }
        }
    }
    ended
}

/// Whether a program of this machine listens at a TCP port: a look that is no connection.
pub fn listens(port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| is_in(&read(Path::new(table)), port))
}

/// Whether the kernel's table of TCP has a listener (state 0A) at a port.
fn is_in(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|address| address.ends_with(&local)) && words.nth(1) == Some("0A")
    })
}

/// The last line of a log that says something.
pub fn last(log: &Path) -> String {
    let text = read(log);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    line.trim().to_string()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listeners_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st\n   0: 00000000:4853 00000000:0000 0A 0\n   1: 0100007F:4854 0100007F:9999 01 0\n";
        assert!(is_in(table, 0x4853) && !is_in(table, 0x4854) && !is_in(table, 0x9999));
        let listener = TcpListener::bind("localhost:0").unwrap();
        assert!(listens(listener.local_addr().unwrap().port()));
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ferrowire-process-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn shell(script: &str, folder: &Path) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(folder);
        shell
    }

    fn gone(pid: &str) -> bool {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z"))
        })
    }

    /// The first line that a log gets.
    fn line(log: &Path) -> String {
        while !read(log).contains('\n') {
            std::thread::sleep(Duration::from_millis(10));
        }
        read(log).trim().to_string()
    }

    #[test]
    fn all_that_a_process_started_ends_with_it() {
        let folder = folder("group");
        let log = folder.join("log");
        let process =
            Process::start_apart("a shell", shell("sleep 60 & echo $!; wait", &folder), &log).unwrap();
        let child = line(&log);
        drop(process);
        assert!(gone(&child));
        assert_eq!(end_those_in(&folder), [""; 0]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_process_that_left_its_group_is_found_by_its_folder() {
        let folder = folder("left");
        let log = folder.join("log");
        let script = "setsid sh -c 'echo $$; exec sleep 60' & wait";
        let process = Process::start_apart("a shell", shell(script, &folder), &log).unwrap();
        let child = line(&log);
        drop(process);
        let ended = end_those_in(&folder);
        assert!(ended.len() == 1 && ended[0].starts_with(&child), "{ended:?}, and {child}");
        assert!(gone(&child));
        fs::remove_dir_all(folder).unwrap();
    }
}
