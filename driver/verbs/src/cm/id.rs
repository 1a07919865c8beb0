// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Id`]: identifiers, asynchronous with a channel of the program, or synchronous with one of their own.
//!
//! An identifier belongs to no card until it gets an address ([`Id::attach`]). Its memory is the program's until `rdma_destroy_id`, which waits until all
//! events that the program has of it are acknowledged, so an event's pointer to it always holds.

use core::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ferrowire::Service as Transport;
use ferrowire_net::mad::PortSpace;
use ferrowire_net::rdma::{self, EventKind, Options};
use rustix::io::Errno;

use super::channel::Events;
use super::event::{self, Event};
use super::{address, failure, manager, zero, Process};
use crate::abi::*;
use crate::card::Card;
use crate::failure::{report, Failure, Result};
use crate::qp::Qp;
use crate::raw::{object, Raw};
use crate::selective;

/// An identifier.
#[repr(C)]
pub struct Id {
    base: Raw<rdma_cm_id>,
    /// Who made it.
    pub(super) process: Process,
    /// It as the service has it; `None` before it has an address and after its end. Read while a call uses it.
    service: RwLock<Option<rdma::Id>>,
    /// The card, once it has an address of one.
    card: OnceLock<&'static Card>,
    own: Mutex<Own>,
}

object!(Id, rdma_cm_id);

/// A member that the program sees, as it is now. Others may change meanwhile.
macro_rules! seen {
    ($id:expr, $($member:ident).+) => {
        // SAFETY: the memory is valid while the identifier lives; programs do not change it while they call.
        unsafe { (*$id.pointer()).$($member).+ }
    };
}
pub(super) use seen;

/// What the program does not see.
pub(super) struct Own {
    /// Its channel is its own, and calls wait for their events.
    pub(super) synchronous: bool,
    /// What the program has set before it had an address.
    pub(super) options: Options,
    /// Of a listener of `rdma_create_ep`: what queue pairs of its requests are made of.
    pub(super) endpoint: Option<ibv_qp_init_attr>,
    /// Completion queues and channels that `rdma_create_qp` made: `send_cq`, `recv_cq`, and their channels.
    pub(super) made: Made,
    /// It has ended: no event of `rdma_disconnect` comes.
    pub(super) ended: bool,
    /// The program has heard that its queue pair did not come up: it hears of no other end of the connection.
    pub(super) connect_error: bool,
}

/// Queues that this library made for the queue pair of an identifier; null if there are none.
#[derive(Clone, Copy)]
pub(super) struct Made {
    pub(super) send_cq: *mut ibv_cq,
    pub(super) recv_cq: *mut ibv_cq,
    pub(super) send_channel: *mut ibv_comp_channel,
    pub(super) recv_channel: *mut ibv_comp_channel,
}

impl Made {
    pub(super) const NONE: Self = Self {
        send_cq: ptr::null_mut(),
        recv_cq: ptr::null_mut(),
        send_channel: ptr::null_mut(),
        recv_channel: ptr::null_mut(),
    };
}

// SAFETY: the pointers are of objects of this library, which any thread may use.
unsafe impl Send for Own {}

/// The port space of a number of C.
pub fn port_space(ps: rdma_port_space) -> Result<PortSpace> {
    PortSpace::ALL.into_iter().find(|space| *space as u32 == ps).ok_or_else(|| {
        Failure::text(Errno::INVAL, format!("port space {ps:#x} is none of IPOIB, TCP, UDP and IB"))
    })
}

impl Id {
    pub(super) fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn service(&self) -> RwLockReadGuard<'_, Option<rdma::Id>> {
        self.service.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn service_mut(&self) -> RwLockWriteGuard<'_, Option<rdma::Id>> {
        self.service.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one; without a channel it is synchronous, with a channel of its own.
    pub fn create(
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        space: PortSpace,
        kind: ibv_qp_type,
    ) -> Result<*mut rdma_cm_id> {
        let synchronous = channel.is_null();
        let channel = match synchronous {
            true => Events::create()?,
            false => {
                // SAFETY: the program gives a channel that lives.
                unsafe { Events::of(channel) }.process.check()?;
                channel
            }
        };
        let base = rdma_cm_id {
            channel,
            context,
            ps: space as rdma_port_space,
            qp_type: kind,
            ..rdma_cm_id::zeroed()
        };
        let mut options = Options::default();
        options.selective = selective::wanted();
        let own = Own {
            synchronous,
            options,
            endpoint: None,
            made: Made::NONE,
            ended: false,
            connect_error: false,
        };
        let id = Box::new(Self {
            base: Raw::new(base),
            process: Process::this(),
            service: RwLock::new(None),
            card: OnceLock::new(),
            own: Mutex::new(own),
        });
        Ok(id.give())
    }

    /// That of a request to a listener.
    pub fn of_request(listener: &Id, request: rdma::Id) -> Result<*mut rdma_cm_id> {
        let kind = match request.transport() {
            Transport::Ud => IBV_QPT_UD,
            Transport::Uc => IBV_QPT_UC,
            _ => IBV_QPT_RC,
        };
        // A synchronous listener has synchronous requests.
        let synchronous = listener.own().synchronous;
        let channel = if synchronous { ptr::null_mut() } else { seen!(listener, channel) };
        let pointer = Self::create(channel, seen!(listener, context), request.port_space(), kind)?;
        // SAFETY: it was made just now.
        let new = unsafe { Id::of(pointer) };
        let channel = seen!(new, channel);
        // SAFETY: a channel outlives its identifiers.
        request.migrate(unsafe { &Events::of(channel).queue });
        request.set_context(pointer.expose_provenance());
        new.own().options = request.options();
        if let Some(card) = listener.card.get() {
            // It is empty.
            let _ = new.card.set(card);
        }
        *new.service_mut() = Some(request);
        let shown = new.show().and_then(|()| new.show_path());
        if let Err(failure) = shown {
            // SAFETY: the program does not have it.
            unsafe { Self::end(pointer) };
            return Err(failure);
        }
        Ok(pointer)
    }

    /// Gives it to the service of the process's card, unless it has been given.
    pub fn attach(&self) -> Result<()> {
        self.process.check()?;
        if self.service().is_some() {
            return Ok(());
        }
        let card = manager::here()?;
        let mut service = self.service_mut();
        if service.is_some() {
            return Ok(());
        }
        let channel = seen!(self, channel);
        // SAFETY: a channel outlives its identifiers.
        let channel = unsafe { &Events::of(channel).queue };
        let space = port_space(seen!(self, ps))?;
        let new = card.cm.service()?.create_id(channel, space, self.pointer().expose_provenance());
        let new = new.map_err(failure)?;
        let options = self.own().options;
        new.set_options(|own| *own = options);
        if seen!(self, qp_type) == IBV_QPT_UC {
            new.set_transport(Transport::Uc).map_err(failure)?;
        }
        // It is set once, under the lock.
        let _ = self.card.set(card);
        *service = Some(new);
        Ok(())
    }

    /// Does something with it as the service has it.
    pub fn with<T>(&self, f: impl FnOnce(&rdma::Id) -> ferrowire_net::Result<T>) -> Result<T> {
        self.process.check()?;
        match &*self.service() {
            Some(id) => f(id).map_err(failure),
            None => Err(Failure::invalid(
                "the identifier has no address; call rdma_bind_addr or rdma_resolve_addr first",
            )),
        }
    }

    /// The card, if it has an address of one.
    pub fn card(&self) -> Result<&'static Card> {
        self.card.get().copied().ok_or(Failure::invalid(
            "the identifier has no address; call rdma_bind_addr or rdma_resolve_addr first",
        ))
    }

    /// Its queue pair, if it has one.
    pub fn qp(&self) -> Option<&Qp> {
        let qp = seen!(self, qp);
        // SAFETY: the program keeps it while the identifier has it.
        (!qp.is_null()).then(|| unsafe { Qp::of(qp) })
    }

    /// Whether it is of datagrams.
    pub fn is_datagram(&self) -> bool {
        seen!(self, qp_type) == IBV_QPT_UD
    }

    /// Shows the program its addresses, and with an address of its own the card's context and the domain.
    pub fn show(&self) -> Result<()> {
        let card = self.card()?;
        let (local, remote) = self.with(|id| Ok((id.local(), id.remote())))?;
        let base = self.pointer();
        // `rdma_resolve_addr` writes the address of the other side, too.
        let own = self.own();
        // SAFETY: the program reads these members after the call, or after the event.
        unsafe {
            if let Some(local) = local {
                (*base).route.addr.src.src_storage = address::storage(local);
                (*base).route.addr.addr.ibaddr.sgid = address::gid(local.ip());
                (*base).route.addr.addr.ibaddr.pkey = crate::query::PKEY.to_be();
            }
            if let Some(remote) = remote {
                (*base).route.addr.dst.dst_storage = address::storage(remote);
                (*base).route.addr.addr.ibaddr.dgid = address::gid(remote.ip());
            }
        }
        drop(own);
        if local.is_some_and(|local| !local.ip().is_unspecified()) {
            let context = card.cm.context()?;
            // SAFETY: as above.
            unsafe {
                (*base).verbs = context;
                (*base).port_num = address::PORT;
            }
            let pd = card.cm.pd()?;
            // SAFETY: as above.
            unsafe {
                if (*base).pd.is_null() {
                    (*base).pd = pd;
                }
            }
        }
        Ok(())
    }

    /// Shows the program the path.
    pub fn show_path(&self) -> Result<()> {
        let route = self.with(|id| Ok(id.route()))?;
        let Some(path) = route.map(|route| address::path(&route)) else { return Ok(()) };
        let base = self.pointer();
        // SAFETY: the program reads these members after the event. The record is a box of this library.
        unsafe {
            if (*base).route.path_rec.is_null() {
                (*base).route.path_rec = Box::into_raw(Box::new(path));
            } else {
                *(*base).route.path_rec = path;
            }
            (*base).route.num_paths = 1;
        }
        Ok(())
    }

    /// Acknowledges the event that a synchronous call has left.
    pub fn drop_event(&self) {
        self.leave_event(ptr::null_mut());
    }

    /// Leaves an event in `event`, and acknowledges the one that was there. Several threads may wait for requests to one listener, so it is exchanged at once.
    pub fn leave_event(&self, event: *mut rdma_cm_event) {
        // SAFETY: the member is this library's and aligned, and lives as long as the identifier.
        let member = unsafe { AtomicPtr::from_ptr(ptr::addr_of_mut!((*self.pointer()).event)) };
        let before = member.swap(event, Ordering::AcqRel);
        if !before.is_null() {
            // SAFETY: the event lives until it is acknowledged, which the thread does that has taken it out.
            drop(unsafe { Event::back(before) });
        }
    }

    /// Waits for the event of a call, if the identifier is synchronous. The event stays in `event`; one that says that the call has failed becomes the
    /// error number of the call.
    pub fn complete(&self) -> Result<()> {
        if !self.own().synchronous {
            return Ok(());
        }
        self.drop_event();
        let taken = self.next_event()?;
        // SAFETY: the event was made just now.
        let (kind, status) = unsafe { ((*taken).event, (*taken).status) };
        self.leave_event(taken);
        if status == 0 {
            return Ok(());
        }
        let errno = match (kind, status) {
            (RDMA_CM_EVENT_REJECTED, _) => Errno::CONNREFUSED,
            (_, status) if status < 0 => Errno::from_raw_os_error(-status),
            // A datagram service is not there, by its status of SIDR.
            _ => Errno::CONNREFUSED,
        };
        // SAFETY: the function knows all numbers.
        let name = unsafe { std::ffi::CStr::from_ptr(event::ferrowire_rdma_event_str(kind)) };
        Err(Failure::text(errno, format!("{} with status {status}", name.to_string_lossy())))
    }

    /// Waits for the next event of its own channel, which the caller acknowledges.
    pub fn next_event(&self) -> Result<*mut rdma_cm_event> {
        let channel = seen!(self, channel);
        // SAFETY: the channel lives as long as the identifier.
        event::next(unsafe { Events::of(channel) })
    }

    /// Gives it another channel; null: one of its own, by which it becomes synchronous.
    fn migrate(&self, channel: *mut rdma_event_channel) -> Result<()> {
        self.process.check()?;
        let synchronous = channel.is_null();
        if synchronous && self.own().synchronous {
            return Err(Failure::invalid("the identifier has a channel of its own already"));
        }
        let new = if synchronous { Events::create()? } else { channel };
        // SAFETY: the program gives a channel that lives.
        let queue = unsafe { &Events::of(new).queue };
        let was = self.own().synchronous;
        if was {
            // Else the migration would wait for it.
            self.drop_event();
        }
        if let Some(id) = &*self.service() {
            id.migrate(queue);
        }
        let base = self.pointer();
        // SAFETY: the member is this library's.
        let old = unsafe { std::mem::replace(&mut (*base).channel, new) };
        self.own().synchronous = synchronous;
        if was {
            // SAFETY: it was this identifier's alone.
            unsafe { Events::destroy(old)? };
        }
        Ok(())
    }

    /// Ends it, after all events of it are acknowledged.
    ///
    /// # Safety
    /// It lives, and is not used any more.
    unsafe fn end(id: *mut rdma_cm_id) {
        // SAFETY: as promised.
        let own = unsafe { Id::of(id) };
        // A call that uses it goes first.
        let service = own.service_mut().take();
        own.drop_event();
        if let Some(service) = service {
            service.destroy();
        }
        let (path, channel) = (seen!(own, route.path_rec), seen!(own, channel));
        // SAFETY: as promised; the record is a box of this library.
        unsafe {
            if !path.is_null() {
                drop(Box::from_raw(path));
            }
            if own.own().synchronous {
                // Of this process.
                let _ = Events::destroy(channel);
            }
            drop(Id::back(id));
        }
    }

    /// Notes what an event says of it.
    pub fn note(&self, kind: EventKind) {
        let ended = match kind {
            EventKind::Established => false,
            EventKind::Disconnected
            | EventKind::Rejected
            | EventKind::Unreachable
            | EventKind::ConnectError
            | EventKind::DeviceRemoval => true,
            _ => return,
        };
        self.own().ended = ended;
    }
}

/// Creates an identifier. It needs no card until it gets an address.
///
/// # Safety
/// `channel` is null or lives, `id` is valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: rdma_port_space,
) -> c_int {
    let made = port_space(ps).and_then(|space| {
        let kind = if space.is_datagram() { IBV_QPT_UD } else { IBV_QPT_RC };
        Id::create(channel, context, space, kind)
    });
    // SAFETY: as promised.
    zero("rdma_create_id", made.map(|made| unsafe { *id = made }))
}

/// Destroys an identifier. Waits until the program has acknowledged all events of it; those that it has not taken are gone.
///
/// # Safety
/// The identifier lives, and is not used any more.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    if id.is_null() {
        return zero("rdma_destroy_id", Err(Failure::invalid("the identifier is null")));
    }
    // SAFETY: as promised.
    if let Err(failure) = unsafe { Id::of(id) }.process.check() {
        // It stays in the child's memory, and is the parent's.
        report("rdma_destroy_id", &failure);
        return 0;
    }
    // SAFETY: as promised.
    unsafe { Id::end(id) };
    0
}

/// Gives an identifier another channel, and takes the events there that the program has not taken. With null the identifier becomes synchronous.
///
/// # Safety
/// The identifier lives, `channel` is null or lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    // SAFETY: as promised.
    zero("rdma_migrate_id", unsafe { Id::of(id) }.migrate(channel))
}

const _: cma_functions::rdma_create_id = ferrowire_rdma_create_id;
const _: cma_functions::rdma_destroy_id = ferrowire_rdma_destroy_id;
const _: cma_functions::rdma_migrate_id = ferrowire_rdma_migrate_id;
