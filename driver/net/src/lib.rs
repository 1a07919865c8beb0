// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stack.
#![forbid(unsafe_code)]

pub mod cm;
mod error;
pub mod exchange;
mod link;
pub mod mad;
mod neighbour;
mod stack;
mod tcp;

pub use cm::{Cm, CmConnection, CmListener, CmOptions, CmRequest};
pub use error::{Error, Result};
pub use exchange::{connect_exchange, exchange, LocalEnd, RcOptions, RemoteEnd};
pub use link::{Link, RawLink};
pub use stack::{Config, Net};
pub use tcp::{TcpListener, TcpStream};
