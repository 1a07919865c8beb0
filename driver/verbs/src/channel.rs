// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Channel`]: completion channels, by which a program sleeps until completions are there.

use core::ffi::{c_int, c_uint, c_void};

use rustix::io::Errno;

use crate::abi::*;
use crate::context::{Backend, Context};
use crate::count::Users;
use crate::cq::Cq;
use crate::failure::{number, pointer, Failure, Result};
use crate::queue::FdQueue;
use crate::raw::{object, Raw};

/// A completion channel.
#[repr(C)]
pub struct Channel {
    base: Raw<ibv_comp_channel>,
    /// Events that the program has not taken.
    pub events: FdQueue<*mut ibv_cq>,
    /// Completion queues with it.
    pub users: Users,
}

object!(Channel, ibv_comp_channel);

// SAFETY: the queue's pointers are taken out before their completion queues end.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

impl Channel {
    /// The context.
    fn context<'a>(&self) -> &'a Context {
        // SAFETY: the program does not change it, and a context outlives its channels.
        unsafe { Context::of((*self.base.get()).context) }
    }

    /// A completion queue more or less has it; `refcnt` says so.
    pub fn use_by_one(&self, more: bool) {
        // SAFETY: programs do not change it.
        let count = unsafe { core::sync::atomic::AtomicI32::from_ptr(&raw mut (*self.base.get()).refcnt) };
        let change = if more { 1 } else { -1 };
        if more {
            self.users.add();
        }
        count.fetch_add(change, core::sync::atomic::Ordering::Relaxed);
        // Last: after that another thread may destroy the channel.
        if !more {
            self.users.remove();
        }
    }
}

fn create(context: &Context) -> Result<*mut ibv_comp_channel> {
    let card = context.card()?;
    let events =
        FdQueue::new().map_err(|errno| Failure::new(errno, "make an event file; raise `ulimit -n`"))?;
    let base = ibv_comp_channel { context: context.pointer(), fd: events.fd(), refcnt: 0 };
    context.users.add();
    let channel = Box::new(Channel { base: Raw::new(base), events, users: Users::default() }).give();
    let shared = channel.cast_const().cast::<Channel>();
    let mut objects = card.objects();
    objects.channels.push(shared);
    // A card that went meanwhile may have looked into the table before.
    if card.is_dead() {
        // SAFETY: it was made just now.
        unsafe { &*shared }.events.end(Errno::IO);
    }
    Ok(channel)
}

/// Creates a completion channel.
///
/// # Safety
/// The context is open.
#[no_mangle]
pub unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    // SAFETY: as promised.
    pointer("ibv_create_comp_channel", create(unsafe { Context::of(context) }))
}

/// Destroys a completion channel.
///
/// # Safety
/// The channel lives, and is not used any more if this succeeds.
#[no_mangle]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: as promised.
    let shared = unsafe { Channel::of(channel) };
    if shared.context().is_inherited() {
        return 0;
    }
    if let Err(failure) = shared.users.none("completion channel") {
        return number("ibv_destroy_comp_channel", Err(failure));
    }
    if let Backend::Card(card) = shared.context().backend {
        let own: *const Channel = shared;
        card.objects().channels.retain(|other| *other != own);
    }
    // SAFETY: nothing uses it.
    let own = unsafe { Channel::back(channel) };
    own.context().users.remove();
    0
}

/// Takes the next event of a channel. Waits for one, unless `fd` has `O_NONBLOCK`.
///
/// # Safety
/// The channel lives, the other pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    const CALL: &str = "ibv_get_cq_event";
    // SAFETY: as promised.
    let channel = unsafe { Channel::of(channel) };
    let taken = channel.events.take_for(CALL, channel.context(), |event| {
        // SAFETY: an event is removed before its completion queue ends.
        unsafe { Cq::of(event) }.acks.give();
        event
    });
    match taken {
        Ok(event) => {
            // SAFETY: as promised; the queue waits for the acknowledgement.
            unsafe {
                *cq = event;
                *cq_context = (*event).cq_context;
            }
            0
        }
        Err(()) => -1,
    }
}

/// Acknowledges events of a completion queue, which may be destroyed after the last.
///
/// # Safety
/// The queue lives.
#[no_mangle]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    // SAFETY: as promised.
    let cq = unsafe { Cq::of(cq) };
    if cq.own().is_ok() {
        cq.acks.acknowledge(nevents);
    }
}

const _: functions::ibv_create_comp_channel = ibv_create_comp_channel;
const _: functions::ibv_destroy_comp_channel = ibv_destroy_comp_channel;
const _: functions::ibv_get_cq_event = ibv_get_cq_event;
const _: functions::ibv_ack_cq_events = ibv_ack_cq_events;
