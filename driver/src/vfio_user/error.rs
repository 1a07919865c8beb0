// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SocketError`]: what goes wrong with a card on a socket.

use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use super::message::command;
use super::stream::StreamError;
use crate::bus::BusError;

/// What can go wrong with a card on a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Nobody is there.
    #[error("connect to {path}: {source}; start the card with `ferrowire-sim up` or `ferrowire-sim card --socket {path}`")]
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
            SocketError::Os { operation, source } => BusError::Os { operation, message: source.to_string() },
            SocketError::Refused { command, .. } => {
                BusError::Os { operation: command::name(command), message: error.to_string() }
            }
            error => BusError::Gone(error.to_string()),
        }
    }
}
