// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SerialError`]: why a board cannot be reached.

use std::path::PathBuf;

use super::link::LinkError;
use crate::bus::BusError;
use crate::owner::owner;
use crate::spec::serial::{Command, Status};

/// What can go wrong between driver and board.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SerialError {
    /// Nothing has that name.
    #[error("open {}: there is no such serial port; plug the board in, and see `ls /dev/serial/by-id` for its name", path.display())]
    NoPort {
        /// The port.
        path: PathBuf,
    },
    /// It is somebody else's.
    #[error(
        "open {}: permission denied, for it belongs to {}; its group, mostly `dialout`, may open it: `sudo usermod -aG dialout $USER`, then log in again",
        path.display(), owner(path)
    )]
    Permission {
        /// The port.
        path: PathBuf,
    },
    /// Another program has it.
    #[error("open {}: another program has it; end that, `fuser -v` names it", path.display())]
    Busy {
        /// The port.
        path: PathBuf,
    },
    /// It is a file of another kind.
    #[error("open {}: it is no serial port; give the name of one, as /dev/ttyUSB1", path.display())]
    NotATty {
        /// The port.
        path: PathBuf,
    },
    /// The adapter cannot send so fast.
    #[error("open {}: it has no rate of {asked} baud, the next is {has}; give the board's rate behind an @, or build the board with another `baud`", path.display())]
    Baud {
        /// The port.
        path: PathBuf,
        /// What was asked for.
        asked: u32,
        /// What it has.
        has: u32,
    },
    /// The system refused something else.
    #[error("{operation} {}: {source}; is the adapter plugged in?", path.display())]
    Os {
        /// What was asked of it.
        operation: &'static str,
        /// The port.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The protocol came to an end.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The line itself has failed.
    #[error("the serial line: {0}; is the adapter plugged in?")]
    Line(String),
    /// The board refused a request.
    #[error("{command:?} of {bytes} bytes at {address:#x}: the board says {status:?}; {}", remedy(*status))]
    Refused {
        /// The request.
        command: Command,
        /// Its bytes.
        bytes: u16,
        /// Where.
        address: u32,
        /// Why.
        status: Status,
    },
    /// The operating system has no random number for the session.
    #[error("begin a session: {0}")]
    Random(String),
}

/// What to do about a refusal.
fn remedy(status: Status) -> &'static str {
    match status {
        Status::Bus => "its memory does not work: of a board with DRAM, look at the second light, and load the bitstream again",
        _ => "build driver and board from one revision",
    }
}

impl From<SerialError> for BusError {
    fn from(error: SerialError) -> Self {
        BusError::Gone(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = |status| {
            SerialError::Refused { command: Command::Read, bytes: 8, address: 0x40_0000, status }.to_string()
        };
        assert!(refused(Status::Bus)
            .starts_with("Read of 8 bytes at 0x400000: the board says Bus; its memory does not work"));
        assert!(refused(Status::Length).ends_with("build driver and board from one revision"));
    }
}
