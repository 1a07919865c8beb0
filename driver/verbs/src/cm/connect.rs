// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: from a request to their end.

use core::ffi::{c_int, c_void};

use ferrowire::{QpAttributes, QpState};
use ferrowire_net::mad::RejectReason;
use ferrowire_net::rdma::{ConnParam, ManagedQp, Phase};
use rustix::io::Errno;

use super::event::Event;
use super::id::{seen, Id};
use super::qp::{create, Managed};
use super::zero;
use crate::abi::*;
use crate::failure::{Failure, Result};
use crate::selective;

/// A vendor's option in a request is not supported (IBTA 12.6.7.2, reason 35).
const VENDOR_OPTION: u16 = 35;

/// Bytes of a program.
///
/// # Safety
/// There are so many, or the pointer is null.
unsafe fn bytes(data: *const c_void, length: u8) -> Vec<u8> {
    match data.is_null() {
        true => Vec::new(),
        // SAFETY: as promised.
        false => unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length.into()) }.to_vec(),
    }
}

/// Parameters of a program. Without any: those of the queue pair, with as many READs as both sides take, and seven retries.
///
/// # Safety
/// It is null or valid.
unsafe fn parameters(id: &Id, param: *const rdma_conn_param) -> Result<ConnParam> {
    // SAFETY: as promised.
    let param = (!param.is_null()).then(|| unsafe { *param });
    if param.is_none() && id.qp().is_none() && !id.is_datagram() {
        return Err(Failure::invalid("without a queue pair of the identifier, conn_param must name one"));
    }
    let all = RDMA_MAX_RESP_RES as u8;
    let mut to = ConnParam {
        responder_resources: all,
        initiator_depth: all,
        retry_count: 7,
        rnr_retry_count: 7,
        ..ConnParam::default()
    };
    if let Some(from) = param {
        // SAFETY: the program gives so many.
        to.private_data = unsafe { bytes(from.private_data, from.private_data_len) };
        if !id.is_datagram() {
            check(id, &from)?;
            (to.responder_resources, to.initiator_depth) = (from.responder_resources, from.initiator_depth);
            (to.retry_count, to.rnr_retry_count) = (from.retry_count, from.rnr_retry_count);
            (to.flow_control, to.srq) = (from.flow_control != 0, from.srq != 0);
        }
        to.qp_num = from.qp_num;
    }
    if let Some(qp) = id.qp() {
        to.qp_num = qp.number();
        // SAFETY: the program does not change it.
        to.srq = unsafe { !(*qp.pointer()).srq.is_null() };
    }
    Ok(to)
}

/// More READs than the card has are an error; the largest number is as many as it has.
fn check(id: &Id, param: &rdma_conn_param) -> Result<()> {
    let can = id.card()?.context.capabilities();
    for (name, asked, most) in [
        ("responder_resources", param.responder_resources, can.max_dest_rd_atomic),
        ("initiator_depth", param.initiator_depth, can.max_rd_atomic),
    ] {
        if c_int::from(asked) != RDMA_MAX_RESP_RES && asked > most {
            let why = format!("{name} is {asked}; the card takes up to {most}, or RDMA_MAX_RESP_RES");
            return Err(Failure::text(Errno::INVAL, why));
        }
    }
    Ok(())
}

/// A queue pair that the program brings up by itself agrees to selective retransmission if this library can set it.
fn keep_selective(id: &Id, qp_num: u32) -> Result<()> {
    let wish = id.own().options.selective && id.qp().is_none() && !id.is_datagram();
    match wish && !selective::may_agree(id.card()?, qp_num) {
        true => id.with(|id| {
            id.set_options(|options| options.selective = false);
            Ok(())
        }),
        false => Ok(()),
    }
}

/// Asks for a connection, or for the queue pair of a datagram service.
///
/// # Safety
/// The identifier lives, `conn_param` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_connect(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    // SAFETY: as promised.
    let id = unsafe { Id::of(id) };
    let result = id.process.check().and_then(|()| {
        // SAFETY: as promised.
        let param = unsafe { parameters(id, conn_param)? };
        keep_selective(id, param.qp_num)?;
        id.with(|id| id.connect(&param))?;
        id.complete()
    });
    zero("rdma_connect", result)
}

/// Notes whether its queue pair has left INIT.
struct BringUp<'a> {
    qp: Managed<'a>,
    begun: bool,
}

impl ManagedQp for BringUp<'_> {
    fn number(&self) -> u32 {
        self.qp.number()
    }

    fn modify(&mut self, to: QpState, attributes: &QpAttributes) -> ferrowire::Result<()> {
        self.qp.modify(to, attributes)?;
        self.begun = true;
        Ok(())
    }
}

/// # Safety
/// The parameters are null or valid.
unsafe fn accept(id: &Id, param: *const rdma_conn_param) -> Result<()> {
    id.process.check()?;
    // SAFETY: as promised.
    let param = unsafe { parameters(id, param)? };
    keep_selective(id, param.qp_num)?;
    let mut qp = id.qp().map(|qp| BringUp { qp: Managed(qp), begun: false });
    let accepted = id.with(|id| id.accept(&param, qp.as_mut().map(|qp| qp as &mut dyn ManagedQp)));
    if id.is_datagram() {
        accepted?;
        if id.own().synchronous {
            // No event follows in whose place the request would be acknowledged.
            id.drop_event();
        }
        return Ok(());
    }
    if let (Err(_), Some(BringUp { qp, begun: true })) = (&accepted, &mut qp) {
        qp.give_up();
    }
    accepted?;
    id.complete()
}

/// Answers a request with yes, after the queue pair of the identifier, if it has one, was brought up.
///
/// # Safety
/// The identifier lives, `conn_param` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_accept(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    // SAFETY: as promised.
    zero("rdma_accept", unsafe { accept(Id::of(id), conn_param) })
}

/// # Safety
/// There are so many bytes.
unsafe fn reject(id: *mut rdma_cm_id, reason: RejectReason, data: *const c_void, length: u8) -> Result<()> {
    // SAFETY: as promised.
    let (id, data) = unsafe { (Id::of(id), bytes(data, length)) };
    id.with(|id| id.reject_with(reason, &data))?;
    id.own().ended = true;
    Ok(())
}

/// Answers a request with no.
///
/// # Safety
/// The identifier lives, and there are so many bytes.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_reject(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: as promised.
    let result = unsafe { reject(id, RejectReason::Consumer, private_data, private_data_len) };
    zero("rdma_reject", result)
}

/// The same, because of the options of the other side's device.
///
/// # Safety
/// As of `rdma_reject`.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_reject_ece(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: as promised.
    let result = unsafe { reject(id, RejectReason::from(VENDOR_OPTION), private_data, private_data_len) };
    zero("rdma_reject_ece", result)
}

/// Says that the program has its queue pair in RTS, after `CONNECT_RESPONSE`.
///
/// # Safety
/// The identifier lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_establish(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: as promised.
    let id = unsafe { Id::of(id) };
    let result = match id.qp().is_none() {
        true => id.with(ferrowire_net::rdma::Id::establish),
        false => Err(Failure::invalid("the identifier has a queue pair, and says so by itself")),
    };
    zero("rdma_establish", result)
}

fn notify(id: &Id, event: ibv_event_type) -> Result<()> {
    let phase = id.with(|id| Ok(id.phase()))?;
    match (event, phase) {
        (IBV_EVENT_COMM_EST, Phase::Accepted) => id.with(|id| {
            id.communication_established();
            Ok(())
        }),
        (IBV_EVENT_COMM_EST, Phase::Connected) => {
            Err(Failure::new(Errno::ISCONN, "the connection is established already"))
        }
        (IBV_EVENT_COMM_EST, _) => Err(Failure::invalid("the identifier has accepted no connection")),
        _ => Err(Failure::invalid("the connection manager has a use for IBV_EVENT_COMM_EST alone")),
    }
}

/// Tells the connection manager of an asynchronous event of the queue pair.
///
/// # Safety
/// The identifier lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_notify(id: *mut rdma_cm_id, event: ibv_event_type) -> c_int {
    // SAFETY: as promised.
    zero("rdma_notify", notify(unsafe { Id::of(id) }, event))
}

fn disconnect(id: &Id) -> Result<()> {
    id.process.check()?;
    // Its event is there or was taken: it must not be waited for again.
    let over = id.own().ended;
    let mut qp = id.qp().map(Managed);
    let phase = id.with(|id| {
        id.disconnect(&[], qp.as_mut().map(|qp| qp as &mut dyn ManagedQp))?;
        Ok(id.phase())
    })?;
    // What is not connected, or not any more, has no event.
    let silent = matches!(phase, Phase::Connecting | Phase::Requested | Phase::Replied | Phase::Ended);
    match over || silent || id.is_datagram() {
        true => Ok(()),
        false => id.complete(),
    }
}

/// Ends a connection: the queue pair goes to ERR, and the event `DISCONNECTED` follows.
///
/// # Safety
/// The identifier lives.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: as promised.
    zero("rdma_disconnect", disconnect(unsafe { Id::of(id) }))
}

fn get_request(listener: &Id) -> Result<*mut rdma_cm_id> {
    listener.process.check()?;
    if !listener.own().synchronous {
        return Err(Failure::invalid("the listener has a channel of the program; take its events there"));
    }
    listener.drop_event();
    // Other threads may wait here, too: the event is this one's, and not the listener's.
    let taken = listener.next_event()?;
    // SAFETY: the event lives until it is acknowledged.
    let (kind, status, pointer) = unsafe { ((*taken).event, (*taken).status, (*taken).id) };
    if status != 0 {
        listener.leave_event(taken);
        let errno = if status < 0 { Errno::from_raw_os_error(-status) } else { Errno::IO };
        return Err(Failure::text(errno, format!("the listener has ended with status {status}")));
    }
    if kind != RDMA_CM_EVENT_CONNECT_REQUEST {
        listener.leave_event(taken);
        return Err(Failure::text(Errno::INVAL, format!("event {kind} is no request")));
    }
    let endpoint = listener.own().endpoint;
    if let Some(mut attr) = endpoint {
        let pd = seen!(listener, pd);
        // SAFETY: the request lives; the domain is the program's, or that by default.
        if let Err(failure) = unsafe { create(Id::of(pointer), pd, &mut attr) } {
            // SAFETY: the program has neither.
            unsafe {
                drop(Event::back(taken));
                super::id::ferrowire_rdma_destroy_id(pointer);
            }
            return Err(failure);
        }
    }
    // SAFETY: the member is this library's, and no other thread knows the request.
    unsafe { (*pointer).event = taken };
    Ok(pointer)
}

/// Waits for the next request to a synchronous listener.
///
/// # Safety
/// The listener lives, `id` is valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_get_request(
    listen: *mut rdma_cm_id,
    id: *mut *mut rdma_cm_id,
) -> c_int {
    // SAFETY: as promised.
    let found = get_request(unsafe { Id::of(listen) });
    // SAFETY: as promised.
    zero("rdma_get_request", found.map(|found| unsafe { *id = found }))
}

const _: cma_functions::rdma_connect = ferrowire_rdma_connect;
const _: cma_functions::rdma_accept = ferrowire_rdma_accept;
const _: cma_functions::rdma_reject = ferrowire_rdma_reject;
const _: cma_functions::rdma_reject_ece = ferrowire_rdma_reject_ece;
const _: cma_functions::rdma_establish = ferrowire_rdma_establish;
const _: cma_functions::rdma_notify = ferrowire_rdma_notify;
const _: cma_functions::rdma_disconnect = ferrowire_rdma_disconnect;
const _: cma_functions::rdma_get_request = ferrowire_rdma_get_request;
