// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SocketError`]: what goes wrong with a card on a socket.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use super::message::command;
use super::stream::StreamError;
use crate::bus::BusError;
use crate::owner::owner;

/// What can go wrong with a card on a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Nobody is there.
    #[error("connect to {path}: {source}; {}", unreachable(.path, .source))]
    Connect {
        /// The socket's file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody else has the card.
    #[error("the card is in use by another program; end that one, or take another card")]
    Busy,
    /// The server answers with something else.
    #[error("{asked}: {found}; is this the socket of a Ferrowire card of this driver's version?")]
    Protocol {
        /// What was asked for.
        asked: &'static str,
        /// What came.
        found: String,
    },
    /// The server did not do it.
    #[error("{}: the card refuses: {}; {}", command::name(*.command), std::io::Error::from_raw_os_error(*.errno), fix(*.errno))]
    Refused {
        /// The command of the protocol.
        command: u16,
        /// The system's number of the error.
        errno: i32,
    },
    /// The server does not answer.
    #[error("{asked}: no answer in {after:?}; end `ferrowire-sim` and start it again")]
    Silent {
        /// What was asked for.
        asked: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// The connection has ended.
    #[error("{asked}: the server of the card is gone ({why}); start it again")]
    Gone {
        /// What was asked for.
        asked: &'static str,
        /// What the socket said.
        why: String,
    },
    /// The operating system refused.
    #[error("{operation}: {source}")]
    Os {
        /// What was asked of it.
        operation: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

/// Why a socket cannot be connected to, as far as its file says, and what to do.
fn unreachable(path: &Path, error: &std::io::Error) -> String {
    let there = path.display();
    let found = std::fs::metadata(path);
    match (error.kind(), &found) {
        (ErrorKind::PermissionDenied, Ok(_)) => format!(
            "the socket belongs to {}, and may be opened by those that may write it: run the command as that user, or let the owner do `chmod o+rw {there}`",
            owner(path)
        ),
        (ErrorKind::PermissionDenied, Err(_)) => {
            let folder = path.ancestors().skip(1).find(|folder| std::fs::metadata(folder).is_ok());
            let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            format!(
                "the folder {} belongs to {}, and may not be searched by your user: run the command as that user, or move the socket",
                folder.display(),
                owner(folder)
            )
        }
        (_, Ok(file)) if file.is_dir() => {
            format!("it is a folder; give the path of a card's socket, as {}", path.join("ferrowire0.sock").display())
        }
        (_, Ok(file)) if !file.file_type().is_socket() => {
            "it is a file and no socket; give the path of a card's socket: `ferrowire list` shows those that are here".into()
        }
        (_, Ok(_)) => format!("its server is gone: start the card again with `ferrowire-sim up` or `ferrowire-sim card --socket {there}`"),
        _ => format!("start the card with `ferrowire-sim up` or `ferrowire-sim card --socket {there}`"),
    }
}

/// What to do about a refusal.
fn fix(errno: i32) -> &'static str {
    match Errno::from_raw_os_error(errno) {
        Errno::BUSY => "end the program that has it",
        Errno::EXIST => "unmap the range first",
        Errno::NOENT => "map the range first",
        Errno::PERM => "share memory of `Bus::host_alloc`, which cannot become shorter",
        Errno::NOSPC | Errno::NOMEM => "map less at once, or larger pieces",
        Errno::IO => "see what `ferrowire-sim` says; the card was reset",
        _ => "build driver and card from one revision",
    }
}

impl SocketError {
    /// Of a connection that has ended while something was asked for.
    pub(super) fn of_stream(asked: &'static str, error: StreamError) -> Self {
        match error {
            StreamError::Closed | StreamError::Os(_) => Self::Gone { asked, why: error.to_string() },
            StreamError::Size(_) => Self::Protocol { asked, found: error.to_string() },
        }
    }

    /// For the operating system's own answers.
    pub(super) fn os(operation: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Os { operation, source }
    }
}

impl From<SocketError> for BusError {
    fn from(error: SocketError) -> Self {
        match error {
            SocketError::Os { operation, source } => {
                BusError::Os { operation, message: source.to_string(), errno: source.raw_os_error() }
            }
            SocketError::Refused { command, errno } => {
                let message = error.to_string();
                BusError::Os { operation: command::name(command), message, errno: Some(errno) }
            }
            error => BusError::Gone(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &Path, kind: ErrorKind) -> String {
        SocketError::Connect { path: path.into(), source: kind.into() }.to_string()
    }

    #[test]
    fn what_cannot_be_connected_to_says_why_and_what_to_do() {
        let folder = std::env::temp_dir().join(format!("ferrowire-connect-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("card.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let denied = told(&socket, ErrorKind::PermissionDenied);
        assert!(denied.contains(&owner(&socket)) && denied.contains("chmod o+rw"), "{denied}");
        assert!(!denied.contains("ferrowire-sim"), "{denied}");
        // The file is not to be seen when its folder may not be searched.
        let denied = told(&folder.join("closed/card.sock"), ErrorKind::PermissionDenied);
        assert!(denied.contains(&format!("the folder {} belongs to", folder.display())), "{denied}");
        assert!(told(&socket, ErrorKind::ConnectionRefused).contains("start the card again"));
        assert!(told(&folder.join("none"), ErrorKind::NotFound).contains("start the card with"));
        std::fs::write(folder.join("file"), "").unwrap();
        assert!(told(&folder.join("file"), ErrorKind::ConnectionRefused).contains("no socket"));
        assert!(told(&folder, ErrorKind::ConnectionRefused).contains("it is a folder"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
