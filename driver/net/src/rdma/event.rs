// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Event`]: an event of an identifier, with the fields of `rdma_cm_event`.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use ferrowire::AddressVector;
use rustix::io::Errno;

use super::channel::{Account, Channel};
use super::id::Id;
use crate::mad::{IpCm, Req};

/// What happened, with the numbers of `rdma_cm_event_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The way to the address is known.
    AddressResolved = 0,
    /// It is not: status `-ETIMEDOUT` if the host does not answer, `-ENETUNREACH` if there is no way there any more.
    AddressError = 1,
    /// The route is known.
    RouteResolved = 2,
    /// It is not.
    RouteError = 3,
    /// A peer asks; the event has a new identifier.
    ConnectRequest = 4,
    /// The asked side has accepted, and the queue pair is to be brought up: [`Id::complete`].
    ConnectResponse = 5,
    /// The connection could not be made: the status says why.
    ConnectError = 6,
    /// The other side does not answer, status `-ETIMEDOUT`; or a datagram service is not there, with the status of SIDR.
    Unreachable = 7,
    /// The other side refuses: the status is its reason.
    Rejected = 8,
    /// The connection works, or the datagram service is known.
    Established = 9,
    /// The connection has ended: status `-ETIMEDOUT` if the other side has not confirmed it, `-ECONNRESET` if it does not know the connection any more.
    Disconnected = 10,
    /// The card has failed.
    DeviceRemoval = 11,
    /// The queue pair of a connection that has ended may be used again.
    TimeWaitExit = 15,
}

/// Parameters of a connection, as `rdma_conn_param` has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnParam {
    /// Bytes for the other side's program, or from it: of a request up to 56, of an answer up to 196. Those received are filled up with zeros.
    pub private_data: Vec<u8>,
    /// READs and atomics that this side answers at once.
    pub responder_resources: u8,
    /// READs and atomics that this side would have outstanding.
    pub initiator_depth: u8,
    /// There is end-to-end flow control.
    pub flow_control: bool,
    /// Retries after time-outs and sequence NAKs, up to 7; those of the asker count.
    pub retry_count: u8,
    /// Retries after RNR NAKs that the other side shall make, up to 6; 7: for ever.
    pub rnr_retry_count: u8,
    /// Receives come from a shared queue.
    pub srq: bool,
    /// Queue pair: the own one when connecting or accepting, the other side's in events.
    pub qp_num: u32,
}

impl ConnParam {
    /// Those of a request, as the asked side sees them.
    pub(super) fn of_request(req: &Req) -> Self {
        Self {
            private_data: req.private_data[IpCm::BYTES..].to_vec(),
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            flow_control: req.flow_control,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            srq: req.srq,
            qp_num: req.local_qpn,
        }
    }
}

/// Parameters of a datagram service, as `rdma_ud_param` has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UdParam {
    /// Bytes from the other side's program, filled up with zeros.
    pub private_data: Vec<u8>,
    /// The way to the service, for an address handle.
    pub way: Option<AddressVector>,
    /// Queue pair of the service.
    pub qp_num: u32,
    /// Its queue key.
    pub qkey: u32,
}

/// Parameters of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Param {
    /// Nothing.
    #[default]
    None,
    /// Of a connection.
    Conn(ConnParam),
    /// Of a datagram service.
    Ud(UdParam),
}

/// A request that the program has not taken yet counts against the backlog.
#[derive(Debug)]
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Something that happened to an identifier. Dropping it acknowledges it, as [`acknowledge`](Self::acknowledge) does; until then
/// [`Id::destroy`] of the identifier waits, and for a request that of the listener.
pub struct Event {
    /// The identifier that waits for the acknowledgement.
    pub(super) owner: Arc<Account>,
    subject: Arc<Account>,
    kind: EventKind,
    status: i32,
    param: Param,
    /// The new identifier of a request.
    request: Option<Id>,
    waiting: Option<Waiting>,
    /// The program has it.
    reported: bool,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Event");
        text.field("id", &self.subject.key).field("kind", &self.kind).field("status", &self.status);
        text.field("param", &self.param).finish_non_exhaustive()
    }
}

impl Event {
    pub(super) fn new(subject: &Arc<Account>, kind: EventKind, status: i32, param: Param) -> Self {
        let (owner, subject) = (Arc::clone(subject), Arc::clone(subject));
        Self { owner, subject, kind, status, param, request: None, waiting: None, reported: false }
    }

    pub(super) fn request(listener: &Arc<Account>, id: Id, waiting: Waiting, param: Param) -> Self {
        Self {
            owner: Arc::clone(listener),
            subject: Arc::clone(id.account()),
            kind: EventKind::ConnectRequest,
            status: 0,
            param,
            request: Some(id),
            waiting: Some(waiting),
            reported: false,
        }
    }

    /// The program takes it.
    pub(super) fn report(&mut self) {
        self.reported = true;
        self.waiting = None;
        self.owner.report();
    }

    /// The identifier of a request gets the channel to which its listener goes.
    pub(super) fn follow(&self, to: &Channel) {
        if self.request.is_some() {
            self.subject.migrate(to);
        }
    }

    /// Changes the outcome: after the bring-up of a queue pair, or when the caller fails with what follows from the event.
    pub fn turn(&mut self, kind: EventKind, error: Option<Errno>) {
        (self.kind, self.status) = (kind, error.map_or(0, status));
    }

    /// What happened.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// 0, or why it failed: a negative number of the system, or a positive reason of the other side.
    pub fn status(&self) -> i32 {
        self.status
    }

    /// Number of the identifier: see [`Id::number`].
    pub fn id(&self) -> u64 {
        self.subject.key
    }

    /// The program's context of the identifier: see [`Id::set_context`].
    pub fn context(&self) -> usize {
        self.subject.context()
    }

    /// The listener's number, for a request.
    pub fn listen_id(&self) -> Option<u64> {
        (self.kind == EventKind::ConnectRequest).then_some(self.owner.key)
    }

    /// The program's context of the listener, for a request.
    pub fn listen_context(&self) -> Option<usize> {
        (self.kind == EventKind::ConnectRequest).then(|| self.owner.context())
    }

    /// Its parameters.
    pub fn param(&self) -> &Param {
        &self.param
    }

    /// Parameters of the connection.
    pub fn conn(&self) -> Option<&ConnParam> {
        match &self.param {
            Param::Conn(param) => Some(param),
            _ => None,
        }
    }

    /// Parameters of the datagram service.
    pub fn ud(&self) -> Option<&UdParam> {
        match &self.param {
            Param::Ud(param) => Some(param),
            _ => None,
        }
    }

    /// Bytes of the other side's program.
    pub fn private_data(&self) -> &[u8] {
        match &self.param {
            Param::Conn(param) => &param.private_data,
            Param::Ud(param) => &param.private_data,
            Param::None => &[],
        }
    }

    /// The new identifier of a request, once. Without it, the end of the event refuses the request.
    pub fn take_request(&mut self) -> Option<Id> {
        self.request.take()
    }

    /// The program is done with it.
    pub fn acknowledge(self) {}
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.reported {
            self.owner.acknowledge();
        }
    }
}

/// A number of the system as a status.
pub(super) fn status(errno: Errno) -> i32 {
    -errno.raw_os_error()
}
