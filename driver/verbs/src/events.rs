// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asynchronous events (IBTA 11.6.3): from the card to the contexts, and from these to the program.

use core::ffi::c_int;

use ferrowire::EventKind;

use crate::abi::*;
use crate::card::Card;
use crate::context::Context;
use crate::count::Acks;
use crate::cq::Cq;
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

    /// The acknowledgements of the object, and its context.
    ///
    /// # Safety
    /// The object lives.
    unsafe fn acks<'a>(self) -> Option<(&'a Acks, &'a Context)> {
        // SAFETY: as promised.
        let (cq, qp, srq) = unsafe {
            match self {
                About::Cq(cq) => (Some(Cq::of(cq)), None, None),
                About::Qp(qp) => (None, Some(Qp::of(qp)), None),
                About::Srq(srq) => (None, None, Some(Srq::of(srq))),
                About::Port => return None,
            }
        };
        cq.map(|cq| (&cq.async_acks, cq.context()))
            .or(qp.map(|qp| (&qp.acks, qp.context())))
            .or(srq.map(|srq| (&srq.acks, srq.context())))
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

fn pending(kind: ibv_event_type, element: ibv_async_event_element) -> Pending {
    Pending(ibv_async_event { element, event_type: kind })
}

/// Hands an event of the card on. Called by the service thread.
pub fn deliver(card: &Card, event: &ferrowire::Event) {
    use EventKind as K;
    if event.lost {
        say!(
            "the card lost asynchronous events before this one, for their queue was full; query what matters"
        );
    }
    say!("event: {event}");
    let Some(kind) = event.kind.known() else {
        say!("its kind is unknown");
        return;
    };
    let code = match kind {
        K::Completion | K::Command => return,
        K::PortUp => return port_event(card, IBV_EVENT_PORT_ACTIVE),
        K::PortDown => return port_event(card, IBV_EVENT_PORT_ERR),
        K::DeviceFatal => return port_event(card, IBV_EVENT_DEVICE_FATAL),
        K::CqOverrun => IBV_EVENT_CQ_ERR,
        K::QpFatal => IBV_EVENT_QP_FATAL,
        K::QpRequestError => IBV_EVENT_QP_REQ_ERR,
        K::QpAccessError => IBV_EVENT_QP_ACCESS_ERR,
        K::SqDrained => IBV_EVENT_SQ_DRAINED,
        K::CommEstablished => IBV_EVENT_COMM_EST,
        K::LastWqe => IBV_EVENT_QP_LAST_WQE_REACHED,
        K::SrqLimit => IBV_EVENT_SRQ_LIMIT_REACHED,
        K::SrqFatal => IBV_EVENT_SRQ_ERR,
    };
    let objects = card.objects();
    // SAFETY: what is in a table lives, and this thread has the lock of all tables.
    let found = unsafe {
        match kind {
            K::CqOverrun => objects.cqs.get(&event.object).map(|cq| {
                let cq = &**cq;
                (cq.context(), ibv_async_event_element { cq: cq.pointer() })
            }),
            K::SrqLimit | K::SrqFatal => objects.srqs.get(&event.object).map(|srq| {
                let srq = &**srq;
                (srq.context(), ibv_async_event_element { srq: srq.pointer() })
            }),
            _ => objects.qps.get(&event.object).map(|qp| {
                let qp = &**qp;
                (qp.context(), ibv_async_event_element { qp: qp.pointer() })
            }),
        }
    };
    if let Some((context, element)) = found {
        context.events.push(pending(code, element));
    }
}

/// An event of the port or of the device, for every context.
pub fn port_event(card: &Card, kind: ibv_event_type) {
    for context in &card.objects().contexts {
        // SAFETY: it is in the table, whose lock this thread has.
        tell(unsafe { &**context }, kind);
    }
}

/// Marks a card as gone and says so to each context, once: under the lock with which contexts are opened. Whether the card was there until now.
pub fn tell_end(card: &Card) -> bool {
    let objects = card.objects();
    let was_there = card.bury();
    for context in objects.contexts.iter().filter(|_| was_there) {
        // SAFETY: it is in the table, whose lock this thread has.
        tell(unsafe { &**context }, IBV_EVENT_DEVICE_FATAL);
    }
    was_there
}

/// The same for one context.
pub fn tell(context: &Context, kind: ibv_event_type) {
    context.events.push(pending(kind, ibv_async_event_element { port_num: 1 }));
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
    let taken = context.events.take_for("ibv_get_async_event", context, |Pending(pending)| {
        // SAFETY: an event is removed before its object ends.
        if let Some((acks, _)) = unsafe { About::of(&pending).acks() } {
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
        Err(()) => -1,
    }
}

/// Acknowledges an asynchronous event, after which its object may be destroyed.
///
/// # Safety
/// The event came from `ibv_get_async_event`.
#[no_mangle]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: as promised: and its object waits for this.
    match unsafe { About::of(&*event).acks() } {
        Some((acks, context)) if !context.is_inherited() => acks.acknowledge(1),
        _ => {}
    }
}

const _: functions::ibv_get_async_event = ibv_get_async_event;
const _: functions::ibv_ack_async_event = ibv_ack_async_event;
