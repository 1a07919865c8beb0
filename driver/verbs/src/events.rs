// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asynchronous events (IBTA 11.6.3): from the card to the contexts, and from these to the program.

use core::ffi::c_int;

use ferrowire::EventKind;

use crate::abi::*;
use crate::card::Card;
use crate::context::Context;
use crate::count::Acks;
use crate::cq::Cq;
use crate::failure::{report, Failure};
use crate::log::say;
use crate::qp::Qp;
use crate::srq::Srq;

/// An event that the program has not taken yet.
pub struct Pending(pub ibv_async_event);

// SAFETY: the pointer in it is C's; the event goes when its object does.
unsafe impl Send for Pending {}

/// Which object an event is about.
enum About {
    Cq(*mut ibv_cq),
    Qp(*mut ibv_qp),
    Srq(*mut ibv_srq),
    Port,
}

impl About {
    fn of(event: &ibv_async_event) -> Self {
        // SAFETY: the kind says which member of the union this library has set, and all are pointers of one size or a number.
        unsafe {
            match event.event_type {
                IBV_EVENT_CQ_ERR => About::Cq(event.element.cq),
                IBV_EVENT_QP_FATAL
                | IBV_EVENT_QP_REQ_ERR
                | IBV_EVENT_QP_ACCESS_ERR
                | IBV_EVENT_COMM_EST
                | IBV_EVENT_SQ_DRAINED
                | IBV_EVENT_QP_LAST_WQE_REACHED => About::Qp(event.element.qp),
                IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => About::Srq(event.element.srq),
                _ => About::Port,
            }
        }
    }

    /// The acknowledgements of the object.
    ///
    /// # Safety
    /// The object lives.
    unsafe fn acks<'a>(self) -> Option<&'a Acks> {
        // SAFETY: as promised.
        unsafe {
            match self {
                About::Cq(cq) => Some(&Cq::of(cq).async_acks),
                About::Qp(qp) => Some(&Qp::of(qp).acks),
                About::Srq(srq) => Some(&Srq::of(srq).acks),
                About::Port => None,
            }
        }
    }
}

impl Pending {
    /// Whether it is about the object of this pointer.
    pub fn is_about<T>(&self, object: *const T) -> bool {
        match About::of(&self.0) {
            About::Cq(cq) => std::ptr::addr_eq(cq, object),
            About::Qp(qp) => std::ptr::addr_eq(qp, object),
            About::Srq(srq) => std::ptr::addr_eq(srq, object),
            About::Port => false,
        }
    }
}

fn event(kind: ibv_event_type, element: ibv_async_event_element) -> Pending {
    Pending(ibv_async_event { element, event_type: kind })
}

/// Hands an event of the card on. Called by the service thread.
pub fn deliver(card: &Card, told: &ferrowire::Event) {
    use EventKind as K;
    if told.lost {
        say!("the card lost asynchronous events before: {told}");
    }
    let Some(kind) = told.kind.known() else {
        say!("event of unknown kind: {told}");
        return;
    };
    let qp_event = |kind| {
        let objects = card.objects();
        if let Some(qp) = objects.qps.get(&told.object) {
            // SAFETY: it is in the table, whose lock this thread has.
            let qp = unsafe { &**qp };
            let element = ibv_async_event_element { qp: qp.pointer() };
            qp.context().events.push(event(kind, element));
        }
    };
    let srq_event = |kind| {
        let objects = card.objects();
        if let Some(srq) = objects.srqs.get(&told.object) {
            // SAFETY: as above.
            let srq = unsafe { &**srq };
            let element = ibv_async_event_element { srq: srq.pointer() };
            srq.context().events.push(event(kind, element));
        }
    };
    match kind {
        K::Completion | K::Command => return,
        K::CqOverrun => {
            let objects = card.objects();
            if let Some(cq) = objects.cqs.get(&told.object) {
                // SAFETY: as above.
                let cq = unsafe { &**cq };
                let element = ibv_async_event_element { cq: cq.pointer() };
                cq.context().events.push(event(IBV_EVENT_CQ_ERR, element));
            }
        }
        K::QpFatal => qp_event(IBV_EVENT_QP_FATAL),
        K::QpRequestError => qp_event(IBV_EVENT_QP_REQ_ERR),
        K::QpAccessError => qp_event(IBV_EVENT_QP_ACCESS_ERR),
        K::SqDrained => qp_event(IBV_EVENT_SQ_DRAINED),
        K::CommEstablished => qp_event(IBV_EVENT_COMM_EST),
        K::LastWqe => qp_event(IBV_EVENT_QP_LAST_WQE_REACHED),
        K::SrqLimit => srq_event(IBV_EVENT_SRQ_LIMIT_REACHED),
        K::SrqFatal => srq_event(IBV_EVENT_SRQ_ERR),
        K::PortUp => port_event(card, IBV_EVENT_PORT_ACTIVE),
        K::PortDown => port_event(card, IBV_EVENT_PORT_ERR),
        K::DeviceFatal => port_event(card, IBV_EVENT_DEVICE_FATAL),
    }
    say!("event: {told}");
}

/// An event of the port or of the device, for every context.
pub fn port_event(card: &Card, kind: ibv_event_type) {
    for context in &card.objects().contexts {
        // SAFETY: it is in the table, whose lock this thread has.
        let context = unsafe { &**context };
        context.events.push(event(kind, ibv_async_event_element { port_num: 1 }));
    }
}

/// Takes the next asynchronous event. Waits for one, unless `async_fd` has `O_NONBLOCK`.
///
/// # Safety
/// The context is open, `event` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: as promised.
    let context = unsafe { Context::of(context) };
    let taken = context.events.take(|Pending(pending)| {
        // SAFETY: an event is removed before its object ends.
        if let Some(acks) = unsafe { About::of(&pending).acks() } {
            acks.give();
        }
        pending
    });
    match taken {
        Ok(pending) => {
            // SAFETY: as promised.
            unsafe { *event = pending };
            0
        }
        Err(errno) => {
            match errno {
                // These are how programs wait.
                rustix::io::Errno::AGAIN | rustix::io::Errno::INTR => crate::sys::set_errno(errno),
                _ => {
                    report("ibv_get_async_event", &Failure::new(errno, "the card is gone"));
                }
            }
            -1
        }
    }
}

/// Acknowledges an asynchronous event, after which its object may be destroyed.
///
/// # Safety
/// The event came from `ibv_get_async_event`.
#[no_mangle]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: as promised: and its object waits for this.
    if let Some(acks) = unsafe { About::of(&*event).acks() } {
        acks.acknowledge(1);
    }
}

const _: functions::ibv_get_async_event = ibv_get_async_event;
const _: functions::ibv_ack_async_event = ibv_ack_async_event;
