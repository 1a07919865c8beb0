// SPDX-License-Identifier: MIT OR Apache-2.0
//! The communication manager as a service, for programs that wait for many things at once and for the interface of `librdmacm`: a [`Service`] for each card,
//! with a thread of its own; [`Id`]s, whose operations do not wait; and [`Channel`]s, which have a file that can be read while there are [`Event`]s.
//!
//! | | `rdma_cm` | here |
//! |---|---|---|
//! | asker | `rdma_resolve_addr`, event `ADDR_RESOLVED` | [`Id::resolve_address`], [`EventKind::AddressResolved`] |
//! | | `rdma_resolve_route`, `ROUTE_RESOLVED` | [`Id::resolve_route`], [`EventKind::RouteResolved`] |
//! | | `rdma_create_qp` | [`Id::init_qp`] of a queue pair of the caller |
//! | | `rdma_connect`, `CONNECT_RESPONSE`, `ESTABLISHED` | [`Id::connect`], [`EventKind::ConnectResponse`], [`Id::complete`] |
//! | asked side | `rdma_bind_addr`, `rdma_listen`, `CONNECT_REQUEST` | [`Id::bind`], [`Id::listen`], [`Event::take_request`] |
//! | | `rdma_accept`, `ESTABLISHED` | [`Id::accept`], [`EventKind::Established`] |
//! | | `rdma_reject` | [`Id::reject`] |
//! | both | `rdma_disconnect`, `DISCONNECTED` | [`Id::disconnect`], [`EventKind::Disconnected`] |
//! | | `rdma_ack_cm_event`, `rdma_destroy_id` | [`Event::acknowledge`], [`Id::destroy`] |
//!
//! Events of an identifier come in the order in which things happened. Queue pairs belong to the caller, and only the caller's threads change them:
//! [`ManagedQp`] says how, [`Id::qp_attributes`] with which attributes.
//!
//! ```no_run
//! use std::time::Duration;
//! use ferrowire::*;
//! use ferrowire_net::rdma::{Channel, ConnParam, EventKind, Service, ServiceConfig, StagedQp};
//! use ferrowire_net::mad::PortSpace;
//!
//! # fn f(context: Context, pd: ProtectionDomain, cq: CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
//! let service = Service::new(&context, &pd, ServiceConfig::default())?;
//! let channel = Channel::new()?;
//! let id = service.create_id(&channel, PortSpace::Tcp, 0)?;
//! id.resolve_address(None, "10.0.0.2:7174".parse()?, Duration::from_secs(2))?;
//! assert_eq!(channel.next()?.kind(), EventKind::AddressResolved);
//! id.resolve_route()?;
//! assert_eq!(channel.next()?.kind(), EventKind::RouteResolved);
//! let mut qp = Some(StagedQp::from(pd.create_qp(&QpInitAttr::rc(&cq, &cq))?));
//! id.init_qp(&mut qp)?;
//! let qp_num = qp.as_ref().map_or(0, StagedQp::number);
//! id.connect(&ConnParam { qp_num, retry_count: 7, rnr_retry_count: 7, ..ConnParam::default() })?;
//! let mut event = channel.next()?;
//! id.complete(&mut event, &mut qp);
//! assert_eq!(event.kind(), EventKind::Established);
//! # Ok(())
//! # }
//! ```

mod channel;
mod event;
mod id;
mod ports;
mod qp;
mod service;
mod shared;

pub use self::channel::Channel;
pub use self::event::{ConnParam, Event, EventKind, Param, UdParam};
pub use self::id::{Id, Options, Phase, Route, MAX_BACKLOG, QKEY};
pub use self::qp::{ManagedQp, StagedQp};
pub use self::service::{Service, ServiceConfig};
#[cfg(test)]
pub(crate) use self::shared::tests as fakes;
pub(crate) use self::shared::Shared;
