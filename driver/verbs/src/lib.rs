// SPDX-License-Identifier: MIT OR Apache-2.0
//! `libibverbs.so.1` and `librdmacm.so.1` on Ferrowire cards: programs that others wrote and packaged run unmodified.
//!
//! ```text
//!  program -- libibverbs.so.1 = this crate -- ferrowire (driver) -- card
//!     |             ^
//!     +------- librdmacm.so.1: jumps into it
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`abi`] | the structures, constants and types of functions of C |
//! | `device`, `card`, `context`, `query` | which cards there are, the one that is open, and what it is |
//! | `pd`, `parent`, `mr`, `mw`, `null`, `memory`, `ah`, `lids` | domains, memory, addresses |
//! | `cq`, `cq_ex`, `channel`, `events`, `queue` | completions and events |
//! | `qp`, `modify`, `post`, `qp_ex`, `srq` | queue pairs |
//! | `service`, `neighbour`, `tap`, `fork` | what the kernel does for other devices |
//! | `strings`, `unsupported` | the rest |
//! | `cm` | functions of librdmacm: its own page says which file has which |
//! | `kern` | structures of the kernel: functions that stock librdmacm imports; ours needs none of them |
//!
//! `cargo xtask verbs` builds the libraries. A panic ends the process with its message: it does not unwind into C.

// A function of C checks nothing that its manual page leaves to the caller.
#![allow(clippy::missing_safety_doc)]

pub mod abi;

mod ah;
mod card;
mod channel;
mod cm;
mod context;
mod count;
mod cq;
mod cq_ex;
mod device;
mod events;
mod failure;
mod fork;
mod kern;
mod lids;
mod lock;
mod log;
mod memory;
mod modify;
mod mr;
mod mw;
mod neighbour;
mod null;
mod parent;
mod pd;
mod post;
mod qp;
mod qp_ex;
mod query;
mod queue;
mod raw;
mod selective;
mod service;
mod srq;
mod strings;
mod sys;
mod tap;
mod unsupported;

#[doc(hidden)]
pub use device::over;
