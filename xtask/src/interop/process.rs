// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes of a case, which do not outlive it, and what they say.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};

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
    pub fn start(what: &'static str, mut command: Command, log: &Path) -> Result<Process> {
        let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
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

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let sent = pid.map(|pid| kill_process(pid, signal));
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
        let _ = self.child.kill();
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

/// The last line of a log that says something.
pub fn last(log: &Path) -> String {
    let text = read(log);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    line.trim().to_string()
}
