// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Listener`]: a Unix socket with a file, which is removed when the listener is dropped.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

use crate::say::say;

/// Longest wait for the lock of a socket's folder: another server has it while it begins.
const LOCK: Duration = Duration::from_secs(5);

/// Pause after something that is not there yet.
const PAUSE: Duration = Duration::from_millis(1);

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
    /// The log says that clients cannot be accepted.
    told: Cell<bool>,
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
        Self::bind_within(path, LOCK)
    }

    fn bind_within(path: &Path, patience: Duration) -> Result<Self> {
        // Of servers that begin together, also after one that is gone, the second finds that the first one listens.
        let _lock = lock(path, patience)?;
        let socket = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                remove_dead(path, |path| UnixStream::connect(path).map(drop))?;
                UnixListener::bind(path)
            }
            other => other,
        };
        let socket = socket.with_context(|| format!("listen on {}", path.display()))?;
        socket.set_nonblocking(true)?;
        let file = identity(path);
        Ok(Self {
            socket,
            path: path.to_path_buf(),
            file,
            reserve: RefCell::new(reserve()),
            told: Cell::new(false),
        })
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
                    self.told.set(false);
                    socket.set_nonblocking(true).ok()?;
                    return Some(socket);
                }
                Err(error) => Errno::from_io_error(&error)?,
            };
            let goes_on = match errno {
                Errno::AGAIN => return None,
                // The client is gone again: the next one.
                Errno::CONNABORTED | Errno::INTR => true,
                Errno::MFILE | Errno::NFILE => self.show_out(),
                // Whatever else it is passes.
                _ => false,
            };
            if !goes_on {
                self.pause(errno);
                return None;
            }
        }
    }

    /// Ends the connection of a client, for which there is no file. Whether that was done.
    fn show_out(&self) -> bool {
        let Some(reserve) = self.reserve.take().or_else(reserve) else { return false };
        drop(reserve);
        let shown_out = self.socket.accept().map(drop);
        self.reserve.replace(self::reserve());
        shown_out.is_ok()
    }

    /// After a failure that lasts, while a client waits: the socket can be read all the time, and the server must not look at nothing else.
    fn pause(&self, errno: Errno) {
        if !self.told.replace(true) {
            say(format_args!("{}: no client can be accepted: {errno}; trying again", self.path.display()));
        }
        std::thread::sleep(PAUSE);
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

/// The lock of a socket's folder, until the file is closed. A file system without locks of folders has none.
fn lock(path: &Path, patience: Duration) -> Result<Option<File>> {
    let name = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = File::open(name) else { return Ok(None) };
    let end = Instant::now() + patience;
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(folder)),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => bail!(
                "another process has locked the folder {} for {patience:?}; end that one, or choose another folder",
                name.display()
            ),
            Err(_) => return Ok(None),
        }
    }
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
    fn of_servers_that_begin_together_one_has_the_socket() {
        let folder = std::env::temp_dir().join(format!("ferrowire-together-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for round in 0..400 {
            let path = folder.join(format!("socket{round}"));
            // In every other round there is none.
            if round % 2 == 0 {
                drop(UnixListener::bind(&path).unwrap());
            }
            let start = std::sync::Barrier::new(4);
            let bind = || {
                start.wait();
                Listener::bind(&path)
            };
            let all: Vec<Result<Listener>> = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let (mut have, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
            assert_eq!((have.len(), others.len()), (1, 3));
            let listener = have.remove(0).unwrap();
            for other in others {
                let error = other.unwrap_err().to_string();
                assert!(error.contains("in use by another server"), "{error}");
            }
            let _client = UnixStream::connect(&path).unwrap();
            assert!(listener.accept().is_some());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_server_does_not_wait_for_ever_for_a_folder_that_another_process_has_locked() {
        let folder = std::env::temp_dir().join(format!("ferrowire-locked-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let held = File::open(&folder).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let bind = || Listener::bind_within(&folder.join("socket"), Duration::from_millis(20));
        let error = bind().unwrap_err().to_string();
        assert!(error.contains("another process has locked the folder"), "{error}");
        drop(held);
        drop(bind().unwrap());
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
