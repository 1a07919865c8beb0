// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator's process, which serves a case's cards, and writes waves of them where these are wanted.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use rustix::process::Signal;

use super::process::{wait, Process};
use super::Setting;

/// Folder of a case with the waves.
pub const WAVES: &str = "waves";

/// The process.
pub struct Server {
    process: Process,
    waves: bool,
}

impl Server {
    /// Its output goes to `log`.
    pub fn start(what: &'static str, mut command: Command, log: &Path, setting: &Setting) -> Result<Server> {
        if setting.waves {
            command.args(["--trace", WAVES]);
        }
        Ok(Server { process: Process::start(what, command, log)?, waves: setting.waves })
    }

    /// Waits until it listens at `socket`, which is the last that it does before it serves: a model that is not there is built first.
    pub fn serves(&mut self, socket: &Path, limit: Instant) -> Result<()> {
        while !socket.exists() {
            self.lives()?;
            wait(limit, "the beginning of the simulation")?;
        }
        match self.waves {
            true => self.process.signal(Signal::USR1),
            false => Ok(()),
        }
    }

    /// It must not have ended.
    pub fn lives(&mut self) -> Result<()> {
        self.process.lives()
    }
}
