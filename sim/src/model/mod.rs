// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reference engine: the whole RoCE v2 transport of a node and its raw Ethernet queue pair, written from the specification and not from the hardware.
//!
//! ```text
//!  post_send --> sendq --> requester --+--> poll_transmit          poll_timeout, handle_timeout
//!  post_recv --> recvq, srq      ^     |                                       |
//!                          completer   answers <-- responder <-- handle_frame  timers
//!  poll_cq <---- cq <-----------+---------------------+               |
//!                                                  memory, keys       ud, raw
//! ```
//!
//! It does no IO, starts no threads and reads no clock: frames, time and work come in by calls of [`Engine`], frames, the next
//! deadline, completions and events go out the same way. The same calls give the same frames, always. Whatever bytes
//! [`Engine::handle_frame`] gets, it never panics, and nothing of a frame reaches memory before all checks have passed.
//!
//! What the hardware does in many places at once, the engine does in the plainest way: a response of a READ is
//! read from memory when it is sent; a WQE that fails waits until those before it are done; every packet with a request for
//! an acknowledgement gets one, unless one is still waiting to be sent.
//!
//! A WRITE from one engine to another, frame by frame:
//!
//! ```
//! use ferrowire_sim::model::*;
//! use ferrowire_spec::{wire::opcode::Service, Psn, QpState};
//!
//! let ip = |n| std::net::IpAddr::from([10, 0, 0, n]);
//! let mut engines = [1, 2].map(|n| Engine::new(Config::new(u64::from(n), ip(n))));
//! let mut ends = Vec::new();
//! for (engine, peer) in engines.iter_mut().zip([2, 1]) {
//!     engine.memory_mut().map(0x1000, vec![peer; 64]);
//!     let region = RegionAttr { pd: 1, base: 0x1000, va: 0x7000, len: 64, rights: Rights::ALL, page: 1 };
//!     let key = engine.register(region, None).unwrap();
//!     let cq = engine.create_cq(16);
//!     let qpn = engine.create_qp(QpInit { qpn: Some(5), ..QpInit::new(Service::Rc, 1, cq) }).unwrap();
//!     let init = QpAttr { access: Some(Rights::REMOTE), pkey: Some(0xffff), ..QpAttr::to(QpState::Init) };
//!     let rtr = QpAttr {
//!         av: Some(AddressVector::new(peer.into(), ip(peer))),
//!         path_mtu: Some(1024),
//!         dest_qpn: Some(5),
//!         rq_psn: Some(Psn::new(0)),
//!         max_dest_rd_atomic: Some(1),
//!         min_rnr_timer: Some(1),
//!         ..QpAttr::to(QpState::Rtr)
//!     };
//!     let rts = QpAttr {
//!         sq_psn: Some(Psn::new(0)),
//!         timeout: Some(14),
//!         retry_cnt: Some(7),
//!         rnr_retry: Some(7),
//!         max_rd_atomic: Some(1),
//!         ..QpAttr::to(QpState::Rts)
//!     };
//!     [init, rtr, rts].iter().for_each(|attr| engine.modify_qp(qpn, attr).unwrap());
//!     ends.push((cq, key));
//! }
//! let [a, b] = &mut engines;
//! let ((cq, lkey), (_, rkey)) = (ends[0], ends[1]);
//! a.post_send(5, SendWr::write(77, &[Sge { addr: 0x7000, lkey, len: 8 }], 0x7020, rkey)).unwrap();
//! let request = a.poll_transmit(0).unwrap();
//! b.handle_frame(1_000, &request);
//! assert_eq!(b.memory().get(0x1020, 8), Some(&[2; 8][..]));
//! let answer = b.poll_transmit(1_000).unwrap();
//! a.handle_frame(2_000, &answer);
//! assert_eq!(a.poll_cq(cq).map(|done| (done.wr_id, done.is_success())), Some((77, true)));
//! ```
//!
//! Clauses in comments are of the InfiniBand Architecture volume 1 (IBTA), A17 is its RoCE v2 annex.

mod access;
mod answers;
mod completer;
mod congestion;
mod counters;
mod cq;
mod engine;
mod flow;
mod keys;
mod memory;
pub mod network;
mod objects;
mod packet;
mod qp;
mod qps;
mod raw;
mod recvq;
mod requester;
mod responder;
mod selective;
mod sendq;
mod srq;
mod timers;
mod types;
mod ud;

pub use counters::{Counters, SelectiveCounters};
pub use engine::{Config, Engine, Event, Transmitted};
pub use keys::{KeyStatus, RegionAttr};
pub use memory::{Lent, Memory};
pub use qp::{QpAttr, QpInit, QpStatus};
pub use raw::RawFilter;
pub use types::{
    AddressVector, Bind, Completion, Error, Instant, RecvWr, Rights, SendWr, Sge, WindowType, MAX_MESSAGE,
    MAX_SGES,
};

#[cfg(test)]
mod tests;
