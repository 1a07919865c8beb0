// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tty`]: the serial port of a board, as a pseudo-terminal of this machine.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use rustix::event::PollFlags;
use rustix::fs::{fcntl_setfl, flock, FlockOperation, Mode, OFlags};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{ioctl_tiocnxcl, tcgetattr, tcsetattr, OptionalActions};

use super::cards::Cards;

/// Bits that wait for the line, above which no more is read: whoever writes waits then, as at a real port.
const WAITING: usize = 1 << 15;

/// A pseudo-terminal and the link that names it, which is removed with it.
#[derive(Debug)]
pub struct Tty {
    board: File,
    /// While nobody has the PC's end open, it would be gone.
    pc: File,
    link: PathBuf,
    /// Held while the link is this one's; who is killed lets go of it.
    _lock: File,
    /// Enough waits for the line.
    full: bool,
}

impl Tty {
    /// One that `link` names. A link that a dead server has left is replaced; `link` with `.lock` behind it tells who is alive.
    ///
    /// # Errors
    /// Another one serves there, something else is there, or the system refuses.
    pub fn open(link: &Path) -> Result<Self> {
        let there = link.display();
        let failed = || format!("open a serial port for {there}");
        let lock = File::create(lock(link)).with_context(failed)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{there} is another board's; end that one, or choose another path");
        }
        if std::fs::symlink_metadata(link).is_ok() {
            if !std::fs::read_link(link).is_ok_and(|port| port.starts_with("/dev/pts")) {
                bail!("{there} exists, and is no link to a serial port; choose another path");
            }
            std::fs::remove_file(link).with_context(|| format!("remove {there}, whose board is gone"))?;
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
        let (board, pc, link) = (board.into(), pc.into(), link.to_path_buf());
        Ok(Self { board, pc, link, _lock: lock, full: false })
    }

    /// What to wait for.
    pub fn file(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.board.as_fd(), if self.full { PollFlags::empty() } else { PollFlags::IN })
    }

    /// Bytes go to the board's pins, and come from there. Whether there are any on their way.
    ///
    /// # Errors
    /// The card is on no board, or the system refuses.
    pub fn exchange(&mut self, cards: &mut impl Cards, card: usize) -> Result<bool> {
        let serial = cards.world().and_then(|world| world.card_mut(card).serial());
        let (to_board, to_pc) = serial.context("the card is on no board")?;
        self.full = to_board.waiting() >= WAITING;
        let mut come = 0;
        if !self.full {
            let mut bytes = [0; 256];
            come = none_yet(self.board.read(&mut bytes))?;
            to_board.push(&bytes[..come]);
        }
        if come > 0 {
            // A program has it for itself (TIOCEXCL), and that ends with the last who has it open: here it is open for ever.
            ioctl_tiocnxcl(&self.pc).context("the serial port")?;
        }
        let mut gone = 0;
        if !to_pc.bytes.is_empty() {
            gone = none_yet(self.board.write(&to_pc.bytes))?;
            to_pc.bytes.drain(..gone);
        }
        Ok(gone > 0 || to_board.waiting() > 0)
    }
}

/// Nothing has come, or nothing more is taken, for now.
fn none_yet(done: std::io::Result<usize>) -> Result<usize> {
    match done {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        other => other.context("the serial port"),
    }
}

/// The file that a living server holds.
fn lock(link: &Path) -> PathBuf {
    let mut name = link.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
        let _ = std::fs::remove_file(lock(&self.link));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_of_a_board_that_is_gone_is_replaced_and_anything_else_is_not() {
        let folder = std::env::temp_dir().join(format!("ferrowire-tty-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let link = folder.join("board.tty");
        // Another one may have that port now.
        std::os::unix::fs::symlink("/dev/pts/0", &link).unwrap();
        std::fs::write(folder.join("board.tty.lock"), "").unwrap();
        let tty = Tty::open(&link).unwrap();
        let port = std::fs::read_link(&link).unwrap();
        assert!(port.starts_with("/dev/pts") && port.exists());
        let error = Tty::open(&link).unwrap_err().to_string();
        assert!(error.contains("is another board's; end that one"), "{error}");
        drop(tty);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::os::unix::fs::symlink(folder.join("gone"), &link).unwrap();
        let error = Tty::open(&link).unwrap_err().to_string();
        assert!(error.contains("is no link to a serial port"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
