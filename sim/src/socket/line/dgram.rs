// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`DgramLine`]: frames over a pair of Unix datagram sockets, one each.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::event::PollFlags;

use super::{Line, MAX_FRAME};
use crate::socket::listener::remove_dead;

/// Frames from and to a path each.
pub struct DgramLine {
    socket: UnixDatagram,
    local: PathBuf,
    remote: PathBuf,
}

impl DgramLine {
    /// Takes what is sent to `local`, and sends to `remote`, whether somebody is there or not.
    ///
    /// # Errors
    /// The path is in use.
    pub fn new(local: &Path, remote: &Path) -> Result<Self> {
        let socket = match UnixDatagram::bind(local) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_dead(local, |path| UnixDatagram::unbound()?.connect(path))?;
                UnixDatagram::bind(local)
            }
            other => other,
        };
        let socket = socket.with_context(|| format!("take datagrams at {}", local.display()))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, local: local.to_path_buf(), remote: remote.to_path_buf() })
    }
}

impl Drop for DgramLine {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.local);
    }
}

impl Line for DgramLine {
    fn file(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        Some((self.socket.as_fd(), PollFlags::IN))
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        // One byte more, to tell what is too long.
        let mut frame = vec![0; MAX_FRAME + 1];
        loop {
            match self.socket.recv(&mut frame) {
                Ok(bytes) if (1..=MAX_FRAME).contains(&bytes) => {
                    frame.truncate(bytes);
                    return Some(frame);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    fn send(&mut self, frame: &[u8]) {
        let _ = self.socket.send_to(frame, &self.remote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_to_the_other_path_and_nowhere_while_nobody_is_there() {
        let path =
            |end: &str| std::env::temp_dir().join(format!("ferrowire-dgram-{}-{end}", std::process::id()));
        let mut a = DgramLine::new(&path("a"), &path("b")).unwrap();
        a.send(&[1; 60]);
        let mut b = DgramLine::new(&path("b"), &path("a")).unwrap();
        assert!(DgramLine::new(&path("b"), &path("a")).is_err());
        a.send(&[2; 60]);
        b.send(&[3; MAX_FRAME + 1]);
        b.send(&[4; MAX_FRAME]);
        assert_eq!(b.receive(), Some(vec![2; 60]));
        assert_eq!(b.receive(), None);
        assert_eq!(a.receive(), Some(vec![4; MAX_FRAME]));
        drop((a, b));
        assert!(!path("a").exists() && !path("b").exists());
    }
}
