// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Failure`]: what went wrong, and what to do about it.

use ferrowire::serial::SerialError;
use ferrowire::vfio::VfioError;
use ferrowire::vfio_user::SocketError;
use ferrowire::BusError;
use ferrowire_cards::{gids, OpenError};

/// What ends a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The card, or the driver.
    #[error(transparent)]
    Card(#[from] ferrowire::Error),
    /// The way to the card.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The socket of a card.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The serial line to a board.
    #[error(transparent)]
    Serial(#[from] SerialError),
    /// The PCI device of a card.
    #[error(transparent)]
    Vfio(#[from] VfioError),
    /// The way to a card that `-d` names.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file of addresses.
    #[error(transparent)]
    Gids(#[from] gids::Error),
    /// The IP stack.
    #[error(transparent)]
    Net(#[from] ferrowire_net::Error),
    /// The operating system.
    #[error("{operation}: {source}; {fix}")]
    Os {
        /// What was asked of it.
        operation: String,
        /// What it said.
        source: std::io::Error,
        /// What to do.
        fix: &'static str,
    },
    /// Something else.
    #[error("{what}; {fix}")]
    Failed {
        /// What.
        what: String,
        /// What to do.
        fix: String,
    },
    /// The other side gave up, and said why, and what to do.
    #[error("the other side, {peer}, gave up: {why}")]
    Peer {
        /// Where it is.
        peer: String,
        /// What it said.
        why: String,
    },
    /// Arguments that make no sense.
    #[error("{what}; {fix}")]
    Usage {
        /// Which.
        what: String,
        /// What to do.
        fix: String,
    },
    /// The standard output.
    #[error("write to the standard output: {0}; is there room?")]
    Output(std::io::Error),
    /// SIGINT or SIGTERM.
    #[error("stopped by a signal; what was done until then is undone, and the card is reset")]
    Stopped,
}

impl Failure {
    /// Something that failed.
    pub fn failed(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Failure::Failed { what: what.into(), fix: fix.into() }
    }

    /// Arguments that make no sense.
    pub fn usage(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Failure::Usage { what: what.into(), fix: fix.into() }
    }

    /// Of the operating system.
    pub fn os(operation: impl Into<String>, fix: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let operation = operation.into();
        move |source| Failure::Os { operation, source, fix }
    }

    /// Of the command.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage { .. } => 2,
            _ => 1,
        }
    }
}
