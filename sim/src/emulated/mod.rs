// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards without hardware, for programs and tests where speed matters more than truth: the reference engine ([`crate::model`]) behind the
//! registers, commands, doorbells and rings of a card.
//!
//! ```text
//!  program -- driver -- EngineBus --+                                  +-- EngineBus -- driver -- program
//!                                   |                                  |
//!                 EngineWorld:     Card ========== Network ========== Card
//!                                   |
//!              registers, command, doorbell --> Engine <--> host (regions, page by page)
//!                     rings (completions, events) <--'
//! ```
//!
//! - [`Card`] is what the driver sees: [`ferrowire_spec`]'s tables on one side, the engine on the other. It is sans-IO, too.
//! - [`EngineWorld`] is cards on a network with a clock; [`EngineBus`] is the driver's way to one of them.
//! - [`Wired`] puts one on the wire of a world of Verilated cards, for tests that are of both kinds.
//! - [`Fabric`] is cards on a wire or a switch, for [servers](crate::socket): programs in processes of their own reach them by sockets.
//!
//! **It is no card.** It keeps what the host interface promises, and nothing of it says how a card does that: no cycle, no buffer that is full, no
//! datapath is in it. Its time is the model's own: commands and doorbells take none, a wire of 100 Gb/s takes what it takes, and waits are
//! jumped over in a process, and take real time on a socket. A figure made of it is no measurement.
//!
//! What differs from the hardware, all of it within the host interface:
//!
//! | what | here |
//! |---|---|
//! | a WQE | is read when its doorbell is rung |
//! | a command | is done, and completed, when the register write returns; of more than four, the others after 10 us each four |
//! | what is wrong with a send's elements | ends it before its first packet, not at the packet where it stands |
//! | a requester without a credit | sends one message, not one packet of it (IBTA 9.7.7.2.5) |
//! | a window that its owner invalidates | may have let in the first packets of a message, whose others are refused |
//! | congestion control | as DCQCN was published: of the registers, interval and line rate count |
//! | PAUSE and PFC | are counted and not obeyed |
//! | a frame to the own MAC address | returns at once, by the address that the card has then; on a [`Fabric`] the next one waits as long as it would take on the wire |
//! | interrupts | as MSI-X of a card that faces PCIe: an event queue's arming, vector and moderation, the table, masks and pending bits. A program in the same process cannot sleep until one comes, for time stops while it sleeps; [`EngineBus`] has no event files |
//! | the bus master bit | is ignored |
//! | selective retransmission | is there; the hardware does not have it yet |
//! | several vectors that are raised at once | send their messages in the order of their numbers; the hardware looks at a vector in each cycle |
//! | a completion queue that is overrun | takes all its queue pairs to error, not only those that lost a completion (IBTA 10.10.2.4) |
//!
//! Two programs, each with its card, and a WRITE:
//!
//! ```
//! use ferrowire::*;
//! use ferrowire_sim::emulated::EngineWorld;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = EngineWorld::pair();
//! let (a, b) = (Context::open(world.bus(0))?, Context::open(world.bus(1))?);
//! let (ip_a, ip_b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
//! a.add_gid(ip_a, None)?;
//! b.add_gid(ip_b, None)?;
//! let (pd_a, pd_b) = (a.alloc_pd()?, b.alloc_pd()?);
//! let (mut cq_a, cq_b) = (a.create_cq(16)?, b.create_cq(16)?);
//! let (from, to) = (a.alloc(4096, 4096)?, b.alloc(4096, 4096)?);
//! let from = pd_a.register(&from, AccessFlags::LOCAL_READ, PageSize::Size4K)?;
//! let to = pd_b.register(&to, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE, PageSize::Size4K)?;
//!
//! let up = |qp: Qp<Reset>, way: AddressVector, peer: u32| -> Result<QueuePair> {
//!     let init = InitAttributes::new().access(AccessFlags::REMOTE_WRITE).pkey(0xffff);
//!     let rtr = RtrAttributes::new()
//!         .av(way)
//!         .path_mtu(PathMtu::B1024)
//!         .dest_qpn(peer)
//!         .rq_psn(Psn::new(7))
//!         .max_dest_rd_atomic(0)
//!         .min_rnr_timer(12);
//!     let rts = RtsAttributes::new().sq_psn(Psn::new(7)).timeout(14).retry_cnt(7).rnr_retry(7).max_rd_atomic(0);
//!     Ok(qp.init(init)?.rtr(rtr)?.rts(rts)?)
//! };
//! let (qp_a, qp_b) = (pd_a.create_qp(&QpInitAttr::rc(&cq_a, &cq_a))?, pd_b.create_qp(&QpInitAttr::rc(&cq_b, &cq_b))?);
//! let (qpn_a, qpn_b) = (qp_a.number(), qp_b.number());
//! let mut qp_a = up(qp_a, AddressVector::new(a.mac(), ip_a, b.mac(), ip_b), qpn_b)?;
//! let _qp_b = up(qp_b, AddressVector::new(b.mac(), ip_b, a.mac(), ip_a), qpn_a)?;
//!
//! from.memory().write(0, b"over the wire");
//! let mut batch = qp_a.start_post_send();
//! batch.post(&SendWr::write(1, &[from.sge(0, 13)], to.remote(0)).signaled())?;
//! batch.ring()?;
//! let mut done = [Completion::default()];
//! while cq_a.poll(&mut done)? == 0 {}
//! assert!(done[0].is_success());
//! let mut there = [0; 13];
//! to.memory().read(0, &mut there);
//! assert_eq!(&there, b"over the wire");
//! # Ok(())
//! # }
//! ```

mod card;
mod command;
mod doorbell;
mod fabric;
mod host;
mod limits;
mod msix;
mod push;
mod registers;
mod rings;
mod wired;
mod world;
mod wqe;

pub use card::Card;
pub use fabric::{Fabric, FIRST_MAC};
pub use limits::CLOCK_KHZ;
pub use msix::Message;
pub use wired::Wired;
pub use world::{EngineBus, EngineWorld, Place, Slot};
