// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of librdmacm, over [`ferrowire_net::rdma`].
//!
//! `librdmacm.so.1` is a table of jumps: `rdma_connect` there jumps to `ferrowire_rdma_connect` here. So both libraries have one state, in
//! `libibverbs.so.1`.
//!
//! ```text
//!  program -- rdma_connect --> Id --> rdma::Id --> rdma::Service (thread) --> QP1, IP stack
//!     ^                                               |
//!     +-- rdma_get_cm_event <-- Event <-- Events (fd) <-+
//! ```
//!
//! | module | content |
//! |---|---|
//! | `manager` | the service of a card, the context and the domain that identifiers have by default |
//! | `channel`, `event` | event channels, and what is taken from them |
//! | `id`, `options` | identifiers, their channels and options |
//! | `resolve` | addresses, routes, listeners |
//! | `connect` | connections, from a request to their end |
//! | `qp` | queue pairs and queues of identifiers, and how their states change |
//! | `endpoint`, `addrinfo` | `rdma_create_ep` and the names of hosts |
//! | `address` | addresses of C, of the driver and of verbs |
//! | `refused` | what is not there: multicast, sockets, the subnet administrator |
//!
//! A thread that waits holds no lock of this module. The service's thread only adds events to channels; queue pairs change in the program's threads.

use std::sync::atomic::{AtomicU32, Ordering};

use core::ffi::c_int;
use rustix::io::Errno;

use crate::failure::{signed, Failure, Result};

mod address;
mod addrinfo;
mod channel;
mod connect;
mod endpoint;
mod event;
mod id;
mod manager;
mod options;
mod qp;
mod refused;
mod resolve;

pub use manager::Manager;

/// Counts the forks between the first process with this library and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// In a forked child: what the parent has is not the child's. Nothing here takes a lock or allocates.
pub fn forget_parent() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process that made an object. Its forked children do not touch it: other threads may have held its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process(u32);

impl Process {
    /// This one.
    fn this() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Refuses if it is another.
    fn check(self) -> Result<()> {
        match self == Self::this() {
            true => Ok(()),
            false => Err(Failure::new(
                Errno::IO,
                "the object is the parent process's; a forked child makes identifiers and channels of its own",
            )),
        }
    }
}

/// The result of a call that returns 0, or -1 with `errno`.
fn zero(call: &str, result: Result<()>) -> c_int {
    signed(call, result.map(|()| 0))
}

/// An error of the service, in the words of librdmacm.
fn failure(error: ferrowire_net::Error) -> Failure {
    use ferrowire_net::Error as E;
    let errno = error.errno();
    let text = match error {
        E::Verb(error) => return error.into(),
        E::State { state, .. } => format!("the identifier is {state}"),
        E::NoAddress { peer, .. } => format!(
            "the card has no address of the family of {peer}; give it one with --ip of the simulator, or `ferrowire gids add`"
        ),
        E::NotLocal(ip) => format!("{ip} is no address of the card; `ferrowire gids` lists these"),
        E::Gone { peer, .. } => format!("{peer} has given the connection up"),
        E::Removed { cause, .. } => format!("the card is gone: {cause}"),
        other => other.to_string(),
    };
    Failure::text(errno, text)
}
