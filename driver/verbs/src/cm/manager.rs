// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Manager`]: the connection service of a card, and what identifiers have by default.

use core::ffi::c_int;
use std::net::IpAddr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ferrowire::ProtectionDomain;
use ferrowire_net::rdma::{Service, ServiceConfig};
use rustix::io::Errno;

use super::Process;
use crate::abi::*;
use crate::card::Card;
use crate::device::{self, Device};
use crate::failure::{pointer, Failure, Result};
use crate::sys::{at_exit, without_signals};

/// The connection manager of a card. Its service begins with the first identifier that gets an address of the card, and ends with the process.
#[derive(Default)]
pub struct Manager {
    open: OnceLock<Open>,
    /// Held by the thread that begins it.
    beginning: Mutex<()>,
}

/// What there is once it has begun.
struct Open {
    service: Service,
    process: Process,
    /// Of the queue pair for messages.
    _domain: ProtectionDomain,
    /// `verbs` of all identifiers of the card.
    context: *mut ibv_context,
    /// `pd` of all identifiers of the card; null until one wants it.
    pd: Mutex<*mut ibv_pd>,
}

// SAFETY: the pointers are of objects of this library that any thread may use, and that live as long as the process.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

impl Manager {
    fn begin(&self, card: &'static Card, device: &'static Device) -> Result<()> {
        let lock: MutexGuard<'_, ()> = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        if self.open.get().is_some() {
            return Ok(());
        }
        let net = card.neighbours.net()?;
        let domain = card.context.alloc_pd()?;
        let config = ServiceConfig::default();
        let begin = || Service::beside(&net, &card.context, &domain, &card.events, &config);
        let service = without_signals(begin).map_err(super::failure)?;
        let context = crate::context::open(device)?;
        let pd = Mutex::new(ptr::null_mut());
        let open = Open { service, process: Process::this(), _domain: domain, context, pd };
        // It is set once, under the lock.
        let _ = self.open.set(open);
        drop(lock);
        end_with_process(&card.cm);
        if card.is_dead() {
            self.remove("the server of the card is gone");
        }
        Ok(())
    }

    fn open(&self) -> Result<&Open> {
        self.open.get().ok_or(Failure::invalid("the card has no identifiers yet"))
    }

    /// An event has come that may be of a message or of a frame.
    pub fn wake(&self) {
        if let Some(open) = self.open.get() {
            open.service.wake();
        }
    }

    /// The card is gone: each identifier gets an event.
    pub fn remove(&self, why: &str) {
        if let Some(open) = self.open.get() {
            open.service.remove(why);
        }
    }

    /// The service.
    pub fn service(&self) -> Result<&Service> {
        Ok(&self.open()?.service)
    }

    /// Whether the connection with this queue pair of a peer has agreed on selective retransmission; `None`: there is none.
    pub fn selective_with(&self, (peer, qpn): (IpAddr, u32)) -> Option<bool> {
        self.open.get().and_then(|open| open.service.selective_with(peer, qpn))
    }

    /// The context that identifiers have.
    pub fn context(&self) -> Result<*mut ibv_context> {
        Ok(self.open()?.context)
    }

    /// The domain that identifiers have.
    pub fn pd(&self) -> Result<*mut ibv_pd> {
        let open = self.open()?;
        let mut pd = open.pd.lock().unwrap_or_else(PoisonError::into_inner);
        if pd.is_null() {
            // SAFETY: the context is open until the process ends.
            *pd = unsafe { crate::pd::ibv_alloc_pd(open.context) };
        }
        match pd.is_null() {
            false => Ok(*pd),
            true => Err(Failure::new(Errno::NOMEM, "the card has no domain left for identifiers")),
        }
    }
}

/// The manager that is told of the process's end.
static LAST: AtomicPtr<Manager> = AtomicPtr::new(ptr::null_mut());

/// Has the other sides told when the process ends without a word, as the kernel does for other devices. A process that is killed tells nobody.
fn end_with_process(manager: &'static Manager) {
    LAST.store(ptr::from_ref(manager).cast_mut(), Ordering::Release);
    // No thread waits here for another one, which a forked child would not have.
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::Relaxed) {
        at_exit(end);
    }
}

extern "C" fn end() {
    // SAFETY: it is null, or a manager of a card, which lives as long as the process.
    let manager = unsafe { LAST.load(Ordering::Acquire).as_ref() };
    if let Some(open) = manager.and_then(|manager| manager.open.get()) {
        // A forked child that ends is not the end of its parent's connections.
        if open.process.check().is_ok() {
            open.service.end();
        }
    }
}

/// The card of this process, with its connection manager. It is opened if it is not yet.
pub fn here() -> Result<&'static Card> {
    if device::observing() {
        return Err(Failure::new(Errno::BUSY, "the process only observes cards; run it without --observe"));
    }
    let device = device::first()?;
    let card = device.card().map_err(|error| match error.errno {
        // A card that cannot be reached is none.
        Errno::NOENT | Errno::CONNREFUSED => Failure::text(Errno::NODEV, error.to_string()),
        _ => error,
    })?;
    card.cm.begin(card, device)?;
    Ok(card)
}

/// The contexts of all cards, which a null pointer ends.
///
/// # Safety
/// `num_devices` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_get_devices(num_devices: *mut c_int) -> *mut *mut ibv_context {
    let found = here().and_then(|card| card.cm.context());
    if !num_devices.is_null() {
        // SAFETY: as promised.
        unsafe { *num_devices = found.is_ok().into() };
    }
    let list = found.map(|context| {
        let list: Box<[*mut ibv_context; 2]> = Box::new([context, ptr::null_mut()]);
        Box::into_raw(list).cast()
    });
    pointer("rdma_get_devices", list)
}

/// Frees the list; the contexts stay open.
///
/// # Safety
/// The list is null, or came from `rdma_get_devices` and was not freed.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_free_devices(list: *mut *mut ibv_context) {
    if !list.is_null() {
        // SAFETY: it was made of such a box.
        drop(unsafe { Box::from_raw(list.cast::<[*mut ibv_context; 2]>()) });
    }
}

const _: cma_functions::rdma_get_devices = ferrowire_rdma_get_devices;
const _: cma_functions::rdma_free_devices = ferrowire_rdma_free_devices;
