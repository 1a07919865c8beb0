// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network beside RDMA: neighbours, echoes, TCP for programs' side channels, and connections of queue pairs, in user space.
//!
//! A card leaves what is not RoCE to its raw Ethernet queue pair. [`Net`] puts an IP stack (smoltcp) there:
//!
//! - [`Net::resolve`] and [`Net::address_vector`]: the MAC address behind an IP address, by ARP or neighbour discovery, through a gateway where one is needed;
//! - [`Net::ping`]: an echo and the time that it took;
//! - [`TcpStream`] and [`TcpListener`]: streams with a time-out for everything.
//!
//! Two ways lead from there to a connection of two queue pairs:
//!
//! - [`connect_exchange`]: both programs tell each other their ends over a stream, this stack's or any other;
//! - [`Cm`]: the RDMA communication manager over QP1, whose messages Linux' `rdma_cm` speaks, too.
//!
//! [`Bridge`] connects the raw queue pair with a TAP interface, beside the stack: then the kernel of this machine has an interface on the card's port.
//!
//! These have no thread. The stack and the manager answer others while a thread of the program waits in one of their methods or calls `poll`: a program that
//! does neither for long is not there for its neighbours. [`rdma`] has the stack and the manager behind a thread, with operations that do not wait and an event
//! queue with a file, as `librdmacm` has them; it also finds datagram services. Waits are bounded by the clock of the card's bus, which for a card that this
//! process simulates is simulated time ([`Config::speed`]).
//!
//! ```no_run
//! use std::time::Duration;
//! use ferrowire::*;
//! use ferrowire_net::{connect_exchange, Config, LocalEnd, Net, RcOptions, TcpStream};
//!
//! # fn bus() -> Box<dyn Bus> { unimplemented!() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Context::open(bus())?;
//! context.set_mac([2, 0, 0, 0, 0, 1])?;
//! context.add_gid([10, 0, 0, 1].into(), None)?;
//! let pd = context.alloc_pd()?;
//! let net = Net::new(&context, &pd, Config::default())?;
//! println!("10.0.0.2 answers after {:?}", net.ping([10, 0, 0, 2].into(), 56, Duration::from_secs(1))?);
//!
//! let cq = context.create_cq(256)?;
//! let access = AccessFlags::REMOTE_WRITE;
//! let qp = pd
//!     .create_qp(&QpInitAttr::rc(&cq, &cq))?
//!     .init(InitAttributes::new().access(access).pkey(0xffff))?;
//! let local = LocalEnd {
//!     qpn: qp.number(),
//!     psn: context.random_psn()?,
//!     ip: [10, 0, 0, 1].into(),
//!     memory: RemoteAddress { address: 0, rkey: 0 },
//!     bytes: 0,
//!     path_mtu: PathMtu::B4096,
//!     rd_atomic: 0,
//!     selective: 0,
//! };
//! let mut stream = TcpStream::connect(&net, ([10, 0, 0, 2], 18515).into(), Duration::from_secs(5))?;
//! let way = |ip| net.address_vector(ip);
//! let (qp, remote) = connect_exchange(&mut stream, qp, &local, &RcOptions::default(), way)?;
//! // RDMA WRITEs to `remote.memory` can be posted to `qp`.
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod bridge;
pub mod cm;
mod echo;
mod error;
pub mod exchange;
mod gsi;
mod guard;
mod link;
pub mod mad;
mod neighbour;
pub mod rdma;
mod stack;
mod tcp;
mod vlan;

pub use bridge::{Bridge, Bridged, Counts, Tap};
pub use cm::{Cm, CmConnection, CmListener, CmOptions, CmRequest};
pub use error::{Error, Result};
pub use exchange::{connect_exchange, exchange, LocalEnd, RcOptions, RemoteEnd};
pub use gsi::{Gsi, Limits, Path};
pub use link::{Link, RawLink};
pub use stack::{Config, Net};
pub use tcp::{TcpListener, TcpStream};
