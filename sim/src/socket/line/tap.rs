// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`TapLine`]: frames of a TAP interface.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{ensure, Context as _, Result};
use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::{Line, MAX_FRAME};

/// Bytes of an interface's name, the 0 behind it included.
const NAME: usize = 16;

/// Frames of an interface.
pub struct TapLine {
    file: File,
}

impl TapLine {
    /// Opens the interface, or makes one of that name until the end.
    ///
    /// # Errors
    /// The name is too long, or the system does not allow it.
    pub fn new(name: &str) -> Result<Self> {
        let plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        ensure!(
            plain && (1..NAME).contains(&name.len()),
            "`{name}`: an interface's name has 1 to 15 letters"
        );
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open("/dev/net/tun")
            .context("open /dev/net/tun; load the module `tun`")?;
        let attach = crate::sys::attach_tap(file.as_fd(), name);
        attach.with_context(|| {
            format!("TAP interface {name}; make it yours with `ip tuntap add {name} mode tap user $USER`, or be root")
        })?;
        Ok(Self { file })
    }
}

impl Line for TapLine {
    fn file(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        Some((self.file.as_fd(), PollFlags::IN))
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; MAX_FRAME];
        let bytes = self.file.read(&mut frame).ok().filter(|bytes| *bytes > 0)?;
        frame.truncate(bytes);
        Some(frame)
    }

    fn send(&mut self, frame: &[u8]) {
        let _ = self.file.write(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_is_refused() {
        for name in ["", "sixteen_letters_", "a b", "a/b"] {
            assert!(TapLine::new(name).is_err_and(|error| error.to_string().contains("1 to 15")), "{name}");
        }
    }
}
