// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Error`]: what was tried, what offends, and what to do about it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::exchange::ExchangeError;
use crate::mad::RejectReason;

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
    /// The connection of queue pairs has ended before it was whole, or is none.
    #[error("{operation} with {peer}: the other side has given the connection up; ask again")]
    Gone {
        /// What was tried.
        operation: &'static str,
        /// The other side.
        peer: IpAddr,
    },
}

/// The result of what the network side does.
pub type Result<T, E = Error> = std::result::Result<T, E>;
