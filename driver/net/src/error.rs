// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Error`]: what was tried, what offends, and what to do about it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;

use crate::exchange::ExchangeError;
use crate::mad::{PortSpace, RejectReason};

/// What the network side can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A verb failed.
    #[error(transparent)]
    Verb(#[from] ferrowire::Error),
    /// The port has no address of that family.
    #[error("{operation} {peer}: the port has no address of its family; give it one with `Context::add_gid` before `Net::new`")]
    NoAddress {
        /// What was tried.
        operation: &'static str,
        /// The other side.
        peer: IpAddr,
    },
    /// The port has more addresses than the IP stack takes.
    #[error("network: the port has {found} addresses outside VLANs, the IP stack takes {limit}; remove some with `Context::remove_gid`")]
    TooManyAddresses {
        /// How many it has.
        found: usize,
        /// How many are taken.
        limit: usize,
    },
    /// Neither a neighbour nor behind a gateway.
    #[error("{operation} {peer}: it is not on the link, and there is no gateway; set one in `Config`, or another prefix length")]
    NoRoute {
        /// What was tried.
        operation: &'static str,
        /// The other side.
        peer: IpAddr,
    },
    /// Nobody has told the MAC address of an IP address.
    #[error("resolve {peer}: {asked} did not answer {tries} questions within {after:?}; is its port up, and its stack polled?")]
    Unresolved {
        /// Whose way was asked for.
        peer: IpAddr,
        /// Who was asked: that, or the gateway.
        asked: IpAddr,
        /// How often.
        tries: u32,
        /// For how long.
        after: Duration,
    },
    /// No answer in time.
    #[error("{operation} {peer}: no answer within {after:?}; raise the time-out, or see whether the other side runs")]
    Timeout {
        /// What was tried.
        operation: &'static str,
        /// The other side.
        peer: IpAddr,
        /// For how long.
        after: Duration,
    },
    /// The program is to end: [`Config::stop`](crate::Config::stop) said so.
    #[error("the wait was stopped by the program itself")]
    Stopped,
    /// Somebody of this stack listens there already.
    #[error("listen on port {0}: somebody does already, or it is 0; take another one")]
    PortInUse(u16),
    /// The other side refuses a TCP connection.
    #[error("connect to {0}: refused; nobody listens there")]
    Refused(SocketAddr),
    /// The exchange of two queue pairs' ends failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The other side refuses a connection of queue pairs.
    #[error("connect to {peer}: rejected, {reason}")]
    Rejected {
        /// The other side.
        peer: IpAddr,
        /// Why.
        reason: RejectReason,
    },
    /// The own card cannot do selective retransmission, which the options wish.
    #[error("{operation}: the options wish selective retransmission, which the card does not have; set `selective` to false for go-back-N, or take a card with the feature `selective`")]
    NoSelective {
        /// What was tried.
        operation: &'static str,
    },
    /// An identifier is in a state in which it does not do that.
    #[error("{operation}: the identifier is {state}; see the order of calls in `ferrowire_net::rdma`")]
    State {
        /// What was tried.
        operation: &'static str,
        /// Its state.
        state: &'static str,
    },
    /// An identifier has that port already.
    #[error("bind to {0}: another identifier has the port; take another port, or 0")]
    AddressInUse(SocketAddr),
    /// The address is none of the card's.
    #[error("bind to {0}: the card does not have the address; take one of its own, or the unspecified one")]
    NotLocal(IpAddr),
    /// A connection has two ends, and a group has more.
    #[error("resolve {0}: it is the address of a group; take that of one host")]
    NotUnicast(IpAddr),
    /// Every port is in use.
    #[error("bind: every port that the system chooses from is in use in the port space {0:?}; destroy identifiers")]
    NoPort(PortSpace),
    /// The card has failed or is gone.
    #[error("{operation}: the card has failed: {cause}; open it again")]
    Removed {
        /// What was tried.
        operation: &'static str,
        /// What it failed with.
        cause: String,
    },
    /// There is no event, and the program does not wait.
    #[error("get event: there is none, and the channel does not block; wait until its file can be read")]
    WouldBlock,
    /// A signal has ended a wait.
    #[error("get event: a signal came; call again")]
    Interrupted,
    /// The system refuses something.
    #[error("{operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// What it said.
        source: std::io::Error,
    },
    /// The connection of queue pairs has ended before it was whole, or is none.
    #[error("{operation} with {peer}: the other side has given the connection up; ask again")]
    Gone {
        /// What was tried.
        operation: &'static str,
        /// The other side.
        peer: IpAddr,
    },
}

impl Error {
    /// The number of the system that says the most of it, for interfaces of C.
    pub fn errno(&self) -> Errno {
        use ferrowire::Error as Verb;
        match self {
            Error::Verb(Verb::NoResource { .. }) => Errno::NOMEM,
            Error::Verb(Verb::Timeout { .. }) | Error::Timeout { .. } => Errno::TIMEDOUT,
            Error::Verb(Verb::Bus(_) | Verb::WriteFault { .. } | Verb::CommandQueueFailed { .. }) => {
                Errno::IO
            }
            Error::Verb(_) | Error::TooManyAddresses { .. } | Error::State { .. } => Errno::INVAL,
            Error::NoAddress { .. } | Error::NoRoute { .. } => Errno::NETUNREACH,
            Error::Unresolved { .. } => Errno::HOSTUNREACH,
            Error::Stopped | Error::Interrupted => Errno::INTR,
            Error::PortInUse(_) | Error::AddressInUse(_) => Errno::ADDRINUSE,
            Error::NotLocal(_) | Error::NoPort(_) => Errno::ADDRNOTAVAIL,
            Error::NotUnicast(_) | Error::NoSelective { .. } => Errno::OPNOTSUPP,
            Error::Removed { .. } => Errno::NODEV,
            Error::WouldBlock => Errno::AGAIN,
            Error::System { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::IO),
            Error::Exchange(_) => Errno::PROTO,
            Error::Refused(_) | Error::Rejected { .. } => Errno::CONNREFUSED,
            Error::Gone { .. } => Errno::CONNRESET,
        }
    }
}

/// The result of what the network side does.
pub type Result<T, E = Error> = std::result::Result<T, E>;
