// SPDX-License-Identifier: MIT OR Apache-2.0
//! User-space verbs for the Ferrowire RNIC.
//!
//! A program gives [`Context::open`] a [`Bus`], the way to a card, and gets objects with the names and rules of
//! the verbs (IBTA volume 1, chapters 10 and 11): [`ProtectionDomain`], [`MemoryRegion`], [`CompletionQueue`], [`EventQueue`],
//! [`Qp`], [`SharedReceiveQueue`], [`AddressHandle`].
//! Today that is SEND, RDMA WRITE, RDMA READ and atomics over reliable connections, SEND and RDMA WRITE over unreliable ones,
//! and datagrams, as far as the card has them.
//!
//! [`VfioBus`] is the way to a card on PCI Express, [`VfioUserBus`] to one that another process serves on a socket, [`SerialBus`] to one on a
//! board without PCIe.
//! [`Monitor`] looks at a card that others use.
//!
//! - Objects hold their parents, so any order of dropping is right. Dropping destroys; `destroy()` does the same and says
//!   whether it worked.
//! - A queue pair is typed by its state until it is up: `Qp<Reset>`, `Qp<Init>`, `Qp<Rtr>`, `Qp<Rts>`. An attribute that
//!   is missing is named before the card is asked.
//! - Errors name the operation, the attribute that offends and what to do.
//! - Memory that the card can reach is only ever copied in and out ([`HostMemory`]), by atomic words; no reference into it is made. `unsafe`
//!   is needed, and allowed, in `sys` alone.
//!
//! ```no_run
//! use ferrowire::*;
//! # fn bus() -> Box<dyn Bus> { unimplemented!() }
//! # fn exchange(_: u32, _: Psn) -> (AddressVector, u32, Psn, RemoteAddress) { unimplemented!() }
//! # fn main() -> Result<(), Error> {
//! let context = Context::open(bus())?;
//! context.set_mac([2, 0, 0, 0, 0, 1])?;
//! context.add_gid([10, 0, 0, 1].into(), None)?;
//! let pd = context.alloc_pd()?;
//! let memory = context.alloc(1 << 20, 4096)?;
//! let region = pd.register(&memory, AccessFlags::LOCAL_READ, PageSize::Size4K)?;
//! let mut cq = context.create_cq(256)?;
//! let qp = pd.create_qp(&QpInitAttr::rc(&cq, &cq))?;
//!
//! // The peer's side of the connection comes over some other channel.
//! let psn = context.random_psn()?;
//! let (av, dest_qpn, rq_psn, remote) = exchange(qp.number(), psn);
//! let mut qp = qp
//!     .init(InitAttributes::new().access(AccessFlags::REMOTE_WRITE).pkey(0xffff))?
//!     .rtr(
//!         RtrAttributes::new()
//!             .av(av)
//!             .path_mtu(PathMtu::B1024)
//!             .dest_qpn(dest_qpn)
//!             .rq_psn(rq_psn)
//!             .max_dest_rd_atomic(0)
//!             .min_rnr_timer(12),
//!     )?
//!     .rts(RtsAttributes::new().sq_psn(psn).timeout(14).retry_cnt(7).rnr_retry(7).max_rd_atomic(0))?;
//!
//! memory.write(0, b"over the wire");
//! let mut batch = qp.start_post_send();
//! batch.post(&SendWr::write(1, &[region.sge(0, 13)], remote).signaled())?;
//! batch.ring()?;
//!
//! let mut done = [Completion::default(); 16];
//! while cq.poll(&mut done)? == 0 {}
//! assert!(done[0].is_success(), "{}", done[0].status());
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod access;
mod ah;
mod attach;
mod av;
mod bus;
mod command;
mod completion;
mod congestion;
mod context;
mod cq;
mod csr;
mod eq;
mod error;
mod fault;
mod flow;
mod handle;
mod inflight;
mod memory_map;
mod monitor;
mod mr;
mod mw;
mod owner;
mod pd;
mod port;
mod qp;
mod random;
mod raw;
mod recv;
mod ring;
mod send;
pub mod serial;
mod srq;
mod sync;
pub mod sys;
mod tables;
mod tracker;
pub mod vfio;
pub mod vfio_user;
mod work;

pub use access::AccessFlags;
pub use ah::AddressHandle;
pub use av::AddressVector;
pub use bus::{Bus, BusError, DmaBuffer, DmaMapping, Pause};
pub use completion::{Completion, WorkKind};
pub use congestion::CongestionControl;
pub use context::{Capabilities, Context, ContextOptions};
pub use cq::{CompletionQueue, CompletionTarget};
pub use eq::{Event, EventQueue};
pub use error::{Coded, Error, Result};
pub use fault::WriteFault;
pub use flow::{FlowControl, FlowMode};
pub use memory_map::{MemoryMap, UnmappedError};
pub use monitor::{Identity, Monitor, PortStatus};
pub use mr::{MemoryRegion, PageSize};
pub use mw::{MemoryWindow, WindowType};
pub use pd::ProtectionDomain;
pub use qp::{
    Init, InitAttributes, Qp, QpAttributes, QpInitAttr, QpSizes, QpStatus, QueuePair, ReceiveQueue, Reset,
    Rtr, RtrAttributes, Rts, RtsAttributes, State, StepError,
};
pub use raw::RawFilter;
pub use recv::{PostRecv, RecvWr};
pub use send::{Datagram, Payload, PostSend, RemoteAddress, SendOp, SendWr, Sge};
pub use serial::SerialBus;
pub use srq::{SharedReceiveQueue, SrqInitAttr, SrqStatus};
pub use sys::{HostMemory, LentMemory};
pub use vfio::VfioBus;
pub use vfio_user::VfioUserBus;

pub use ferrowire_spec as spec;
pub use ferrowire_spec::csr::host_memory::WriteKind;
pub use ferrowire_spec::csr::{DropReason, HwCounter, TrafficCounter};
pub use ferrowire_spec::qp_state::QpState;
pub use ferrowire_spec::queue::command::PathMtu;
pub use ferrowire_spec::queue::cqe::LocalCause;
pub use ferrowire_spec::queue::{
    CommandAttribute, CommandOpcode, CommandStatus, CqeOpcode, EventKind, SendOpcode, WcStatus,
};
pub use ferrowire_spec::wire::opcode::Service;
pub use ferrowire_spec::Psn;
