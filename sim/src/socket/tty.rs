// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tty`]: the serial port of a board, as a pseudo-terminal of this machine.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use rustix::fs::{fcntl_setfl, Mode, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcgetattr, tcsetattr, OptionalActions};

use crate::bus::World;

/// A pseudo-terminal and the link that names it, which is removed with it.
#[derive(Debug)]
pub struct Tty {
    board: File,
    /// While nobody has the PC's end open, it would be gone.
    _pc: File,
    link: PathBuf,
}

impl AsFd for Tty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.board.as_fd()
    }
}

impl Tty {
    /// One that `link` names. A link to a port that is gone is replaced.
    ///
    /// # Errors
    /// Something else is there, or the system refuses.
    pub fn open(link: &Path) -> Result<Self> {
        let there = link.display();
        let failed = || format!("open a serial port for {there}");
        if let Ok(found) = std::fs::symlink_metadata(link) {
            if !found.is_symlink() || link.exists() {
                bail!("{there} exists; end the board that is there, remove it, or choose another path");
            }
            std::fs::remove_file(link).with_context(|| format!("remove {there}, whose port is gone"))?;
        }
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let board = openpt(flags).with_context(failed)?;
        grantpt(&board).with_context(failed)?;
        unlockpt(&board).with_context(failed)?;
        fcntl_setfl(&board, OFlags::NONBLOCK).with_context(failed)?;
        let name = ptsname(&board, Vec::new()).with_context(failed)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let pc = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).with_context(failed)?;
        // What the board says before a program is there comes back otherwise.
        let mut modes = tcgetattr(&pc).with_context(failed)?;
        modes.make_raw();
        tcsetattr(&pc, OptionalActions::Now, &modes).with_context(failed)?;
        let name = name.to_str().with_context(failed)?;
        std::os::unix::fs::symlink(name, link).with_context(|| format!("make the link {there}"))?;
        Ok(Self { board: board.into(), _pc: pc.into(), link: link.to_path_buf() })
    }

    /// Bytes go to the board's pins, and come from there. Whether there were any.
    ///
    /// # Errors
    /// The card is on no board, or the system refuses.
    pub fn exchange(&mut self, world: &mut World, card: usize) -> Result<bool> {
        let (to_board, to_pc) = world.card_mut(card).serial().context("the card is on no board")?;
        let mut bytes = [0; 4096];
        let come = none_yet(self.board.read(&mut bytes))?;
        to_board.push(&bytes[..come]);
        if to_pc.bytes.is_empty() {
            return Ok(come > 0);
        }
        let gone = none_yet(self.board.write(&to_pc.bytes))?;
        to_pc.bytes.drain(..gone);
        Ok(come + gone > 0)
    }
}

/// Nothing has come, or nothing more is taken, for now.
fn none_yet(done: std::io::Result<usize>) -> Result<usize> {
    match done {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        other => other.context("the serial port"),
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_port_that_is_gone_is_replaced_and_anything_else_is_not() {
        let folder = std::env::temp_dir().join(format!("ferrowire-tty-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let link = folder.join("board.tty");
        std::os::unix::fs::symlink(folder.join("gone"), &link).unwrap();
        let tty = Tty::open(&link).unwrap();
        assert!(std::fs::read_link(&link).unwrap().starts_with("/dev/pts"));
        let error = Tty::open(&link).unwrap_err().to_string();
        assert!(error.contains("end the board that is there"), "{error}");
        drop(tty);
        assert!(std::fs::symlink_metadata(&link).is_err());
        std::fs::write(&link, "no link").unwrap();
        assert!(Tty::open(&link).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
