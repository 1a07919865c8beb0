// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Listener`]: a Unix socket with a file, which is removed when the listener is dropped.

use std::cell::RefCell;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

/// A listening socket, which does not wait.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of its file: another server may have put its own in the place of this one.
    file: Option<(u64, u64)>,
    /// A file that is given up for a client when the process may open no more: so the client is accepted and told, by the end of its connection, in place of
    /// waiting for ever while the listener can be read.
    reserve: RefCell<Option<File>>,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// Listens on `path`. The file of a server that is gone is replaced.
    ///
    /// # Errors
    /// A server listens there, something else is there, or the system refuses.
    pub fn bind(path: &Path) -> Result<Self> {
        let socket = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // Of two servers that find the same dead socket, the second finds that of the first.
                let _lock = lock(path);
                remove_dead(path, |path| UnixStream::connect(path).map(drop))?;
                UnixListener::bind(path)
            }
            other => other,
        };
        let socket = socket.with_context(|| format!("listen on {}", path.display()))?;
        socket.set_nonblocking(true)?;
        let file = identity(path);
        Ok(Self { socket, path: path.to_path_buf(), file, reserve: RefCell::new(reserve()) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A client that has connected, if there is one; the connection does not wait. One for which this process or the system has no file left is shown out.
    pub fn accept(&self) -> Option<UnixStream> {
        loop {
            let errno = match self.socket.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(true).ok()?;
                    return Some(socket);
                }
                Err(error) => Errno::from_io_error(&error)?,
            };
            // The client is gone again: the next one.
            if matches!(errno, Errno::CONNABORTED | Errno::INTR) {
                continue;
            }
            // Whatever else it is passes.
            if !matches!(errno, Errno::MFILE | Errno::NFILE) {
                return None;
            }
            drop(self.reserve.take()?);
            let shown_out = self.socket.accept().map(drop);
            self.reserve.replace(reserve());
            shown_out.ok()?;
        }
    }
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.file.is_some() && identity(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What a file is known by: its device and its inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let about = std::fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

/// The lock of a socket's folder, until the file is closed. A file system without locks of folders leaves it as it is.
fn lock(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::LockExclusive).ok()?;
    Some(folder)
}

/// Removes the file of a socket to which nobody listens, as `connect` finds out.
pub(super) fn remove_dead(path: &Path, connect: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    let there = path.display();
    let kind = std::fs::symlink_metadata(path).with_context(|| format!("look at {there}"))?.file_type();
    if !kind.is_socket() {
        bail!("{there} is a file, and no socket; choose another path");
    }
    match connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).with_context(|| format!("remove {there}, whose server is gone"))
        }
        Err(error) => bail!("{there} exists, and cannot be connected to ({error}); choose another path"),
        Ok(()) => bail!("{there} is in use by another server; end that one, or choose another path"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_servers_that_find_a_dead_socket_together_one_has_it() {
        let folder = std::env::temp_dir().join(format!("ferrowire-together-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for round in 0..100 {
            let path = folder.join(format!("socket{round}"));
            drop(UnixListener::bind(&path).unwrap());
            let start = std::sync::Barrier::new(4);
            let bind = || {
                start.wait();
                Listener::bind(&path).ok()
            };
            let all: Vec<Option<Listener>> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let mut all = all.into_iter().flatten();
            let listener = all.next().expect("one has it");
            assert!(all.next().is_none(), "and no other");
            let _client = UnixStream::connect(&path).unwrap();
            assert!(listener.accept().is_some());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_listener_removes_no_file_of_another() {
        let path = std::env::temp_dir().join(format!("ferrowire-other-{}", std::process::id()));
        let listener = Listener::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(UnixStream::connect(&path).is_ok());
        drop(other);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let folder = std::env::temp_dir().join(format!("ferrowire-listener-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a server that was killed leaves its file");
        let listener = Listener::bind(&path).unwrap();
        assert!(listener.accept().is_none());
        let error = Listener::bind(&path).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "no socket").unwrap();
        let error = Listener::bind(&path).unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
