// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Event`]: what a program takes from an event channel.

use core::ffi::{c_char, c_int, CStr};
use std::ptr;

use ferrowire_net::mad::RejectReason;
use ferrowire_net::rdma::{self, EventKind, Param};
use rustix::io::Errno;

use super::channel::Events;
use super::id::Id;
use super::qp::Managed;
use super::{address, failure, zero, Process};
use crate::abi::*;
use crate::failure::{report, Failure, Result};
use crate::log::say;
use crate::raw::{object, Raw};
use crate::sys::set_errno;

/// An event that the program has. Its end acknowledges it.
#[repr(C)]
pub struct Event {
    base: Raw<rdma_cm_event>,
    /// It as the service has it, with the bytes to which `private_data` points.
    told: rdma::Event,
    /// Who took it. The identifier of a request may be gone by now.
    process: Process,
}

object!(Event, rdma_cm_event);

/// Takes the next event. Waits for one, unless `fd` has `O_NONBLOCK`.
pub fn next(channel: &Events) -> Result<*mut rdma_cm_event> {
    channel.process.check()?;
    loop {
        let told = channel.queue.next().map_err(failure)?;
        if let Some(event) = hand_on(told) {
            return Ok(event);
        }
    }
}

/// An identifier by the number that its events carry.
fn of_context<'a>(context: usize) -> Option<&'a Id> {
    let pointer: *mut rdma_cm_id = ptr::with_exposed_provenance_mut(context);
    // SAFETY: the number was made of an identifier, which waits in `rdma_destroy_id` until the event is acknowledged.
    (!pointer.is_null()).then(|| unsafe { Id::of(pointer) })
}

/// Does what an event asks of this library, and makes the program's form of it. `None`: the program is not told.
fn hand_on(mut told: rdma::Event) -> Option<*mut rdma_cm_event> {
    let mut listener = None;
    let id = if told.kind() == EventKind::ConnectRequest {
        // Without them the end of the event refuses the request.
        let own = of_context(told.listen_context()?)?;
        let request = told.take_request()?;
        listener = Some(own);
        match Id::of_request(own, request) {
            // SAFETY: it was made just now.
            Ok(new) => unsafe { Id::of(new) },
            Err(failure) => {
                say!("a request is refused: {failure}");
                return None;
            }
        }
    } else {
        of_context(told.context())?
    };
    let shown = match told.kind() {
        EventKind::AddressResolved => id.show().map_err(|failure| (EventKind::AddressError, failure)),
        EventKind::RouteResolved => id.show_path().map_err(|failure| (EventKind::RouteError, failure)),
        // The program has heard that there is no connection.
        EventKind::Rejected | EventKind::Disconnected if id.own().connect_error => return None,
        EventKind::ConnectResponse => {
            if let Some(qp) = id.qp() {
                // The identifier may be at its end: then nobody takes the event.
                let _ = id.with(|service| {
                    service.complete(&mut told, &mut Managed(qp));
                    Ok(())
                });
            }
            id.own().connect_error |= told.kind() == EventKind::ConnectError;
            Ok(())
        }
        _ => Ok(()),
    };
    if let Err((instead, failure)) = shown {
        say!("{}: {failure}", name(told.kind() as rdma_cm_event_type).to_string_lossy());
        told.turn(instead, Some(failure.errno));
    }
    let failed =
        matches!(told.kind(), EventKind::Rejected | EventKind::Unreachable | EventKind::ConnectError);
    if let (true, Some(qp)) = (failed, id.qp()) {
        Managed(qp).give_up();
    }
    id.note(told.kind());
    if told.status() != 0 {
        say!("{}: {}", name(told.kind() as rdma_cm_event_type).to_string_lossy(), why(&told, id));
    }
    let base = rdma_cm_event {
        id: id.pointer(),
        listen_id: listener.map_or(ptr::null_mut(), Id::pointer),
        event: told.kind() as rdma_cm_event_type,
        status: told.status(),
        param: param(id, told.param()),
    };
    Some(Box::new(Event { base: Raw::new(base), told, process: Process::this() }).give())
}

/// What the status of an event means, for the log.
fn why(told: &rdma::Event, id: &Id) -> String {
    let reason = match (told.kind(), told.status()) {
        (_, status) if status < 0 => {
            let number = Errno::from_raw_os_error(-status);
            std::io::Error::from(number).to_string()
        }
        (EventKind::Rejected, status) => RejectReason::from(status as u16).to_string(),
        (_, status) => format!("status {status} of SIDR"),
    };
    match id.with(|id| Ok(id.remote())) {
        Ok(Some(remote)) => format!("{remote}: {reason}"),
        _ => reason,
    }
}

/// The parameters of an event. The bytes stay where they are as long as the event lives.
fn param(id: &Id, param: &Param) -> rdma_cm_event_param {
    let bytes = |bytes: &[u8]| match bytes.is_empty() {
        true => (ptr::null(), 0),
        // Messages of the communication manager have up to 224.
        false => (bytes.as_ptr().cast(), bytes.len() as u8),
    };
    let mut all = rdma_cm_event_param::zeroed();
    match param {
        Param::None => {}
        Param::Conn(conn) => {
            let (private_data, private_data_len) = bytes(&conn.private_data);
            all.conn = rdma_conn_param {
                private_data,
                private_data_len,
                responder_resources: conn.responder_resources,
                initiator_depth: conn.initiator_depth,
                flow_control: conn.flow_control.into(),
                retry_count: conn.retry_count,
                rnr_retry_count: conn.rnr_retry_count,
                srq: conn.srq.into(),
                qp_num: conn.qp_num,
            };
        }
        Param::Ud(ud) => {
            let (private_data, private_data_len) = bytes(&ud.private_data);
            let way = ud.way.as_ref().and_then(|way| Some(address::ah_attr(id.card().ok()?, way)));
            all.ud = rdma_ud_param {
                private_data,
                private_data_len,
                ah_attr: way.unwrap_or(ibv_ah_attr::zeroed()),
                qp_num: ud.qp_num,
                qkey: ud.qkey,
            };
        }
    }
    all
}

/// Takes the next event of a channel. Waits for one, unless `fd` has `O_NONBLOCK`.
///
/// # Safety
/// The channel lives, `event` is valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    const CALL: &str = "rdma_get_cm_event";
    if channel.is_null() || event.is_null() {
        return zero(CALL, Err(Failure::invalid("the channel or the event is null")));
    }
    // SAFETY: as promised.
    match next(unsafe { Events::of(channel) }) {
        Ok(taken) => {
            // SAFETY: as promised.
            unsafe { *event = taken };
            0
        }
        Err(failure) => {
            match failure.errno {
                // These are how programs wait.
                Errno::AGAIN | Errno::INTR => set_errno(failure.errno),
                _ => {
                    report(CALL, &failure);
                }
            }
            -1
        }
    }
}

/// Acknowledges an event, whose memory is freed.
///
/// # Safety
/// The event is null, or came from `rdma_get_cm_event` and was not acknowledged.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    if event.is_null() {
        return zero("rdma_ack_cm_event", Err(Failure::invalid("the event is null")));
    }
    // SAFETY: as promised.
    let result = unsafe { Event::of(event) }.process.check();
    if result.is_ok() {
        // SAFETY: as promised.
        drop(unsafe { Event::back(event) });
    }
    zero("rdma_ack_cm_event", result)
}

/// The name of a kind of event.
fn name(event: rdma_cm_event_type) -> &'static CStr {
    const NAMES: [&CStr; 20] = [
        c"RDMA_CM_EVENT_ADDR_RESOLVED",
        c"RDMA_CM_EVENT_ADDR_ERROR",
        c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        c"RDMA_CM_EVENT_ROUTE_ERROR",
        c"RDMA_CM_EVENT_CONNECT_REQUEST",
        c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        c"RDMA_CM_EVENT_CONNECT_ERROR",
        c"RDMA_CM_EVENT_UNREACHABLE",
        c"RDMA_CM_EVENT_REJECTED",
        c"RDMA_CM_EVENT_ESTABLISHED",
        c"RDMA_CM_EVENT_DISCONNECTED",
        c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        c"RDMA_CM_EVENT_MULTICAST_JOIN",
        c"RDMA_CM_EVENT_MULTICAST_ERROR",
        c"RDMA_CM_EVENT_ADDR_CHANGE",
        c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
        c"RDMA_CM_EVENT_ADDRINFO_ERROR",
        c"RDMA_CM_EVENT_USER",
        c"RDMA_CM_EVENT_INTERNAL",
    ];
    NAMES.get(event as usize).copied().unwrap_or(c"UNKNOWN EVENT")
}

/// The name of a kind of event.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_event_str(event: rdma_cm_event_type) -> *const c_char {
    name(event).as_ptr()
}

const _: cma_functions::rdma_get_cm_event = ferrowire_rdma_get_cm_event;
const _: cma_functions::rdma_ack_cm_event = ferrowire_rdma_ack_cm_event;
const _: cma_functions::rdma_event_str = ferrowire_rdma_event_str;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_names_of_their_constants() {
        for (event, expected) in [
            (RDMA_CM_EVENT_ADDR_RESOLVED, "RDMA_CM_EVENT_ADDR_RESOLVED"),
            (RDMA_CM_EVENT_ESTABLISHED, "RDMA_CM_EVENT_ESTABLISHED"),
            (RDMA_CM_EVENT_TIMEWAIT_EXIT, "RDMA_CM_EVENT_TIMEWAIT_EXIT"),
            (RDMA_CM_EVENT_INTERNAL, "RDMA_CM_EVENT_INTERNAL"),
            (20, "UNKNOWN EVENT"),
        ] {
            // SAFETY: the function gives a text that ends.
            assert_eq!(unsafe { CStr::from_ptr(ferrowire_rdma_event_str(event)) }.to_str(), Ok(expected));
        }
    }

    #[test]
    fn kinds_of_the_service_have_the_numbers_of_c() {
        for (kind, number) in [
            (EventKind::AddressResolved, RDMA_CM_EVENT_ADDR_RESOLVED),
            (EventKind::AddressError, RDMA_CM_EVENT_ADDR_ERROR),
            (EventKind::RouteResolved, RDMA_CM_EVENT_ROUTE_RESOLVED),
            (EventKind::RouteError, RDMA_CM_EVENT_ROUTE_ERROR),
            (EventKind::ConnectRequest, RDMA_CM_EVENT_CONNECT_REQUEST),
            (EventKind::ConnectResponse, RDMA_CM_EVENT_CONNECT_RESPONSE),
            (EventKind::ConnectError, RDMA_CM_EVENT_CONNECT_ERROR),
            (EventKind::Unreachable, RDMA_CM_EVENT_UNREACHABLE),
            (EventKind::Rejected, RDMA_CM_EVENT_REJECTED),
            (EventKind::Established, RDMA_CM_EVENT_ESTABLISHED),
            (EventKind::Disconnected, RDMA_CM_EVENT_DISCONNECTED),
            (EventKind::DeviceRemoval, RDMA_CM_EVENT_DEVICE_REMOVAL),
            (EventKind::TimeWaitExit, RDMA_CM_EVENT_TIMEWAIT_EXIT),
        ] {
            assert_eq!(kind as rdma_cm_event_type, number, "{kind:?}");
        }
    }
}
