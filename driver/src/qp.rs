// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Qp`]: queue pairs, typed by their state while they are brought up (IBTA 10.3).

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use ferrowire_spec::qp_state::{check, AttributeBit, Attributes, QpState, GSI_QPN, RAW_QPN};
use ferrowire_spec::queue::command::create_qp::CreateQp;
use ferrowire_spec::queue::command::modify_qp::ModifyQp;
use ferrowire_spec::queue::command::PathMtu;
use ferrowire_spec::queue::command_completion::qp_summary::QpSummary;
use ferrowire_spec::queue::doorbell::{self, PUSH_SLOTS};
use ferrowire_spec::queue::{recv_wqe, send_wqe, CommandOpcode};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::Psn;

use crate::access::AccessFlags;
use crate::attach::Receiver;
use crate::av::AddressVector;
use crate::context::{Capabilities, Device};
use crate::cq::{CompletionTarget, Cq};
use crate::error::{Coded, Error, Result};
use crate::pd::{Pd, ProtectionDomain};
use crate::recv::{Owner, PostRecv, RecvQueue};
use crate::send::{Place, PostSend, SendQueue};
use crate::srq::{SharedReceiveQueue, Srq};
use crate::tracker::Tracker;
use crate::work::{stride, WorkQueue};

const CREATE: &str = "create_qp";
const MODIFY: &str = "modify_qp";

/// What a queue pair is made with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QpInitAttr<'a> {
    /// Transport service.
    pub service: Service,
    /// Where sends complete.
    pub send_cq: CompletionTarget,
    /// Where receives complete.
    pub recv_cq: CompletionTarget,
    /// Work requests in the send queue, made a power of two. 0 is as good as 1, for a queue pair that does not send: the queue has at least as
    /// many entries as are asked for (IBTA volume 1, 11.2.4.1), and no queue of the card has none.
    pub max_send_wr: u32,
    /// SGEs of each of them. The queue has slots of 64 bytes for one, 128 for 5, 256 for 13, 512 for 16.
    pub max_send_sge: u8,
    /// Bytes of inline data of each of them: 16, 80, 208 and 256 in the same slots.
    pub max_inline: u16,
    /// Where receives come from, if not from a queue of its own: then `max_recv_wr` and `max_recv_sge` do not count.
    pub srq: Option<&'a SharedReceiveQueue>,
    /// Work requests in the receive queue, made a power of two. 0 is as good as 1, for a queue pair that does not receive.
    pub max_recv_wr: u32,
    /// SGEs of each of them: 4 in slots of 64 bytes, 8 in 128, 16 in 256.
    pub max_recv_sge: u8,
    /// Every send is signalled.
    pub sq_sig_all: bool,
    /// It is QP1, the one of the general services (GSI): UD, with the queue key [`GSI_QKEY`](ferrowire_spec::qp_state::GSI_QKEY).
    /// A card has one.
    pub gsi: bool,
    /// Push WQEs: each batch of one work request is also written to the card, which need not read it from memory then. The send queue has slots of 64 bytes,
    /// so `max_send_sge` is 1 and `max_inline` at most 16. The card has the feature [`wqe_push`](crate::Capabilities::wqe_push); 32 queue pairs of a
    /// context can have it. It saves a read of host memory before the first packet, and costs eight stores into the BAR, so it is for latency. Where threads
    /// push at the same time, the card may have to read all the same.
    pub push: bool,
}

impl QpInitAttr<'_> {
    /// A reliable connection with queues of 64 work requests of one SGE.
    pub fn rc(send_cq: impl Into<CompletionTarget>, recv_cq: impl Into<CompletionTarget>) -> Self {
        Self::of(Service::Rc, send_cq.into(), recv_cq.into())
    }

    /// An unreliable connection, likewise.
    pub fn uc(send_cq: impl Into<CompletionTarget>, recv_cq: impl Into<CompletionTarget>) -> Self {
        Self::of(Service::Uc, send_cq.into(), recv_cq.into())
    }

    /// Unreliable datagrams, likewise. Messages have up to one path MTU, 4,096 bytes.
    pub fn ud(send_cq: impl Into<CompletionTarget>, recv_cq: impl Into<CompletionTarget>) -> Self {
        Self::of(Service::Ud, send_cq.into(), recv_cq.into())
    }

    /// Raw Ethernet, likewise: each message is a frame of 14 to 4,096 bytes, from the destination address on and without frame check
    /// sequence. It receives what is not RoCE and passes [`Context::set_raw_filter`](crate::Context::set_raw_filter). A card has one such queue
    /// pair. Its transitions need no attributes.
    pub fn raw(send_cq: impl Into<CompletionTarget>, recv_cq: impl Into<CompletionTarget>) -> Self {
        Self::of(Service::Raw, send_cq.into(), recv_cq.into())
    }

    fn of(service: Service, send_cq: CompletionTarget, recv_cq: CompletionTarget) -> Self {
        Self {
            service,
            send_cq,
            recv_cq,
            max_send_wr: 64,
            max_send_sge: 1,
            max_inline: 0,
            srq: None,
            max_recv_wr: 64,
            max_recv_sge: 1,
            sq_sig_all: false,
            gsi: false,
            push: false,
        }
    }
}

/// For each attribute a function of its name, so that attributes are given one after the other.
macro_rules! setters {
    ($Struct:ident: $($field:ident $Type:ident,)+) => {
        impl $Struct {
            /// None is given.
            pub fn new() -> Self {
                Self::default()
            }

            $(
                #[doc = concat!("Gives `", stringify!($field), "`; with `None` it is not given.")]
                #[must_use]
                pub fn $field(self, value: impl Into<Option<$Type>>) -> Self {
                    Self { $field: value.into(), ..self }
                }
            )+
        }
    };
}

/// Attributes of `MODIFY_QP`; those that are `None` are not given. Which are needed and which allowed depends on the
/// transition: [`ferrowire_spec::qp_state`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct QpAttributes {
    /// What peers may do.
    pub access: Option<AccessFlags>,
    /// Partition key.
    pub pkey: Option<u16>,
    /// Queue key; UD.
    pub qkey: Option<u32>,
    /// The way to the peer.
    pub av: Option<AddressVector>,
    /// Path MTU.
    pub path_mtu: Option<PathMtu>,
    /// Queue pair of the peer.
    pub dest_qpn: Option<u32>,
    /// First PSN expected.
    pub rq_psn: Option<Psn>,
    /// First PSN to send.
    pub sq_psn: Option<Psn>,
    /// ACK time-out: 4.096 us times 2 to that power; 0: never.
    pub timeout: Option<u8>,
    /// Retries after time-outs and sequence NAKs, 0 to 7.
    pub retry_cnt: Option<u8>,
    /// Retries after RNR NAKs, 0 to 6; 7: for ever.
    pub rnr_retry: Option<u8>,
    /// Timer code of the RNR NAKs it sends.
    pub min_rnr_timer: Option<u8>,
    /// READs and atomics outstanding as requester.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics taken as responder.
    pub max_dest_rd_atomic: Option<u8>,
    /// UDP source port.
    pub sport: Option<u16>,
    /// Selective retransmission, which the peer must have agreed to; cards without the feature refuse it.
    pub selective: Option<bool>,
    /// State that the caller believes it is in; the card refuses when it is another.
    pub cur_state: Option<QpState>,
    /// Going to SQD: send the event `SQ_DRAINED` to the asynchronous event queue when what is in progress has ended.
    pub sqd_event: Option<bool>,
}

setters! {
    QpAttributes:
    access AccessFlags, pkey u16, qkey u32, av AddressVector, path_mtu PathMtu, dest_qpn u32,
    rq_psn Psn, sq_psn Psn, timeout u8, retry_cnt u8, rnr_retry u8, min_rnr_timer u8,
    max_rd_atomic u8, max_dest_rd_atomic u8, sport u16, selective bool, cur_state QpState, sqd_event bool,
}

impl QpAttributes {
    /// Which are given.
    pub fn mask(&self) -> Attributes {
        use AttributeBit as B;
        let given = [
            (B::Access, self.access.is_some()),
            (B::Pkey, self.pkey.is_some()),
            (B::Qkey, self.qkey.is_some()),
            (B::Av, self.av.is_some()),
            (B::PathMtu, self.path_mtu.is_some()),
            (B::DestQpn, self.dest_qpn.is_some()),
            (B::RqPsn, self.rq_psn.is_some()),
            (B::SqPsn, self.sq_psn.is_some()),
            (B::Timeout, self.timeout.is_some()),
            (B::RetryCnt, self.retry_cnt.is_some()),
            (B::RnrRetry, self.rnr_retry.is_some()),
            (B::MinRnrTimer, self.min_rnr_timer.is_some()),
            (B::MaxRdAtomic, self.max_rd_atomic.is_some()),
            (B::MaxDestRdAtomic, self.max_dest_rd_atomic.is_some()),
            (B::Sport, self.sport.is_some()),
            (B::CurState, self.cur_state.is_some()),
            (B::SqdEvent, self.sqd_event.is_some()),
            (B::Selective, self.selective.is_some()),
        ];
        given
            .iter()
            .filter(|(_, is)| *is)
            .fold(Attributes::NONE, |mask, (bit, _)| mask.with(Attributes::of(&[*bit])))
    }

    /// As `MODIFY_QP` takes them.
    fn command(&self, token: u16, object: u32, to: QpState) -> ModifyQp {
        let reset = ModifyQp::default();
        ModifyQp {
            token,
            object,
            attr_mask: self.mask().0,
            state: to.code(),
            access: self.access.map_or(reset.access, AccessFlags::bits),
            pkey: self.pkey.unwrap_or(reset.pkey),
            qkey: self.qkey.unwrap_or(reset.qkey),
            path_mtu: self.path_mtu.map_or(reset.path_mtu, PathMtu::code),
            dest_qpn: self.dest_qpn.unwrap_or(reset.dest_qpn),
            rq_psn: self.rq_psn.map_or(reset.rq_psn, Psn::get),
            sq_psn: self.sq_psn.map_or(reset.sq_psn, Psn::get),
            timeout: self.timeout.unwrap_or(reset.timeout),
            retry_cnt: self.retry_cnt.unwrap_or(reset.retry_cnt),
            rnr_retry: self.rnr_retry.unwrap_or(reset.rnr_retry),
            min_rnr_timer: self.min_rnr_timer.unwrap_or(reset.min_rnr_timer),
            max_rd_atomic: self.max_rd_atomic.unwrap_or(reset.max_rd_atomic),
            max_dest_rd_atomic: self.max_dest_rd_atomic.unwrap_or(reset.max_dest_rd_atomic),
            sport: self.sport.unwrap_or(reset.sport),
            cur_state: self.cur_state.map_or(reset.cur_state, QpState::code),
            sqd_event: self.sqd_event.unwrap_or(reset.sqd_event),
            selective: self.selective.unwrap_or(reset.selective),
            ..reset
        }
    }

    /// Refuses values that this card does not take.
    fn check(&self, device: &Device) -> Result<()> {
        let can = &device.capabilities;
        let within = |attribute, value: Option<u8>, max: u8| match value {
            Some(value) if value > max => Err(Error::Attribute {
                operation: MODIFY,
                attribute,
                value: value.into(),
                fix: format!("the card takes up to {max}"),
            }),
            _ => Ok(()),
        };
        within("max_rd_atomic", self.max_rd_atomic, can.max_rd_atomic)?;
        within("max_dest_rd_atomic", self.max_dest_rd_atomic, can.max_dest_rd_atomic)?;
        if let Coded::Known(max) = can.max_mtu {
            within("path_mtu", self.path_mtu.map(PathMtu::code), max.code())?;
        }
        let local = self.access.unwrap_or_default().without(AccessFlags::REMOTE);
        if local != AccessFlags::default() {
            return Err(Error::Attribute {
                operation: MODIFY,
                attribute: "access",
                value: local.bits().into(),
                fix: "a queue pair has remote rights only".into(),
            });
        }
        if self.selective == Some(true) && !can.selective {
            return Err(Error::Attribute {
                operation: MODIFY,
                attribute: "selective",
                value: 1,
                fix: "the card has no selective retransmission; leave it out for go-back-N".into(),
            });
        }
        self.access.unwrap_or_default().check(MODIFY, can)?;
        self.av.map_or(Ok(()), |av| av.check(can.ipv6, can.vlan))
    }
}

/// Attributes for RESET to INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InitAttributes {
    /// What peers may do: remote rights. RC and UC need it.
    pub access: Option<AccessFlags>,
    /// Partition key; all but raw Ethernet need it. 0xffff is the default partition.
    pub pkey: Option<u16>,
    /// Queue key. UD needs it.
    pub qkey: Option<u32>,
}

setters! {
    InitAttributes:
    access AccessFlags, pkey u16, qkey u32,
}

/// Attributes for INIT to RTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RtrAttributes {
    /// The way to the peer. RC and UC need it.
    pub av: Option<AddressVector>,
    /// Path MTU. RC and UC need it.
    pub path_mtu: Option<PathMtu>,
    /// Queue pair of the peer. RC and UC need it.
    pub dest_qpn: Option<u32>,
    /// First PSN expected. RC and UC need it.
    pub rq_psn: Option<Psn>,
    /// READs and atomics taken as responder. RC needs it.
    pub max_dest_rd_atomic: Option<u8>,
    /// Timer code of the RNR NAKs it sends. RC needs it.
    pub min_rnr_timer: Option<u8>,
    /// UDP source port; 0xc000 to 0xffff spread connections over paths.
    pub sport: Option<u16>,
    /// Selective retransmission, if the peer has agreed to it; RC, by cards with the feature.
    pub selective: Option<bool>,
    /// Other rights than those given with INIT.
    pub access: Option<AccessFlags>,
    /// Another partition than that given with INIT.
    pub pkey: Option<u16>,
    /// Another queue key than that given with INIT; UD.
    pub qkey: Option<u32>,
}

setters! {
    RtrAttributes:
    av AddressVector, path_mtu PathMtu, dest_qpn u32, rq_psn Psn, max_dest_rd_atomic u8,
    min_rnr_timer u8, sport u16, selective bool, access AccessFlags, pkey u16, qkey u32,
}

/// Attributes for RTR to RTS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RtsAttributes {
    /// First PSN to send; all but raw Ethernet need it.
    pub sq_psn: Option<Psn>,
    /// ACK time-out: 4.096 us times 2 to that power; 0: never. RC needs it.
    pub timeout: Option<u8>,
    /// Retries after time-outs and sequence NAKs, 0 to 7. RC needs it.
    pub retry_cnt: Option<u8>,
    /// Retries after RNR NAKs, 0 to 6; 7: for ever. RC needs it.
    pub rnr_retry: Option<u8>,
    /// READs and atomics outstanding as requester. RC needs it.
    pub max_rd_atomic: Option<u8>,
    /// Other rights than those given before.
    pub access: Option<AccessFlags>,
    /// Another timer code than that given with RTR.
    pub min_rnr_timer: Option<u8>,
    /// Another queue key than that given before; UD.
    pub qkey: Option<u32>,
    /// UDP source port of datagrams; UD.
    pub sport: Option<u16>,
}

setters! {
    RtsAttributes:
    sq_psn Psn, timeout u8, retry_cnt u8, rnr_retry u8, max_rd_atomic u8, access AccessFlags,
    min_rnr_timer u8, qkey u32, sport u16,
}

impl From<InitAttributes> for QpAttributes {
    fn from(a: InitAttributes) -> Self {
        Self { access: a.access, pkey: a.pkey, qkey: a.qkey, ..Self::default() }
    }
}

impl From<RtrAttributes> for QpAttributes {
    fn from(a: RtrAttributes) -> Self {
        Self {
            av: a.av,
            path_mtu: a.path_mtu,
            dest_qpn: a.dest_qpn,
            rq_psn: a.rq_psn,
            max_dest_rd_atomic: a.max_dest_rd_atomic,
            min_rnr_timer: a.min_rnr_timer,
            sport: a.sport,
            selective: a.selective,
            access: a.access,
            pkey: a.pkey,
            qkey: a.qkey,
            ..Self::default()
        }
    }
}

impl From<RtsAttributes> for QpAttributes {
    fn from(a: RtsAttributes) -> Self {
        Self {
            sq_psn: a.sq_psn,
            timeout: a.timeout,
            retry_cnt: a.retry_cnt,
            rnr_retry: a.rnr_retry,
            max_rd_atomic: a.max_rd_atomic,
            access: a.access,
            min_rnr_timer: a.min_rnr_timer,
            qkey: a.qkey,
            sport: a.sport,
            ..Self::default()
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A state of the bring-up, as a type.
pub trait State: sealed::Sealed {
    /// The state.
    const STATE: QpState;
}

macro_rules! states {
    ($($(#[doc = $doc:literal])+ $State:ident;)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $State {}
        impl sealed::Sealed for $State {}
        impl State for $State {
            const STATE: QpState = QpState::$State;
        }
    )+};
}

states! {
    /// RESET: nothing works.
    Reset;
    /// INIT: receives may be posted; nothing runs.
    Init;
    /// RTR: answers, does not ask.
    Rtr;
    /// RTS, and whatever state it goes to from there: from now on the state is a run-time value, for errors come when they
    /// like.
    Rts;
}

/// A step of the bring-up failed; the queue pair is as before.
pub struct StepError<S: State> {
    /// Why.
    pub error: Error,
    /// The queue pair, to try again or to destroy.
    pub qp: Qp<S>,
}

impl<S: State> fmt::Debug for StepError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepError").field("error", &self.error).field("qp", &self.qp).finish()
    }
}

impl<S: State> fmt::Display for StepError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S: State> std::error::Error for StepError<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Gives the queue pair up, which destroys it.
impl<S: State> From<StepError<S>> for Error {
    fn from(step: StepError<S>) -> Self {
        step.error
    }
}

/// Where a queue pair's receives come from.
enum Receives {
    Own(RecvQueue),
    /// Its own, of which a [`ReceiveQueue`] has the poster's side.
    Apart(Arc<Tracker>),
    Shared {
        srq: Arc<Srq>,
        /// A completion said that the queue pair is in error.
        failed: Arc<AtomicBool>,
    },
}

impl Receives {
    fn failed(&self) -> bool {
        match self {
            Receives::Own(queue) => queue.queue.tracker().failed(),
            Receives::Apart(tracker) => tracker.failed(),
            Receives::Shared { failed, .. } => failed.load(Ordering::Relaxed),
        }
    }

    fn reset(&mut self) {
        match self {
            Receives::Own(queue) => queue.queue.reset(),
            // `modify` has refused that.
            Receives::Apart(_) => {}
            Receives::Shared { failed, .. } => *failed = Arc::default(),
        }
    }

    fn leak(&self) {
        if let Receives::Own(queue) = self {
            queue.queue.leak();
        }
    }

    fn receiver(&self) -> Receiver {
        match self {
            Receives::Own(queue) => Receiver::Own(Arc::clone(queue.queue.tracker())),
            Receives::Apart(tracker) => Receiver::Own(Arc::clone(tracker)),
            Receives::Shared { srq, failed } => {
                Receiver::Shared { queue: Arc::clone(&srq.tracker), failed: Arc::clone(failed) }
            }
        }
    }
}

/// What a queue pair is in every state.
struct Inner {
    qpn: u32,
    service: Service,
    /// As far as the driver knows; a failed completion makes it ERR.
    state: QpState,
    live: bool,
    sends: SendQueue,
    receives: Receives,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    pd: Arc<Pd>,
}

impl Inner {
    fn device(&self) -> &Device {
        &self.pd.device
    }

    fn state(&self) -> QpState {
        if self.state.responds() && self.receives.failed() {
            return QpState::Err;
        }
        let ended = matches!(self.state, QpState::Rts | QpState::Sqd) && self.sends.queue.tracker().failed();
        match self.service {
            _ if !ended => self.state,
            Service::Rc => QpState::Err,
            // IBTA 10.3.1.7: a failed send of the others takes only the send queue along.
            _ => QpState::Sqe,
        }
    }

    fn modify(&mut self, to: QpState, attributes: &QpAttributes) -> Result<()> {
        let (qpn, from) = (self.qpn, self.state());
        if let (QpState::Reset, Receives::Apart(_)) = (to, &self.receives) {
            return Err(Error::Busy { what: "receive queue", number: qpn, users: 1 });
        }
        check(self.service, from, to, attributes.mask()).map_err(|source| Error::Transition {
            qpn,
            from,
            to,
            source,
        })?;
        attributes.check(self.device())?;
        let gid = attributes.av.map(|av| self.device().gid_of(&av)).transpose()?;
        // Before SET_AV, so that a value that does not fit changes nothing.
        attributes.command(0, qpn, to).to_bytes().map_err(|e| Error::from_spec(MODIFY, e))?;
        let commands = &self.device().commands;
        if let (Some(av), Some(gid)) = (attributes.av, gid) {
            commands.run(CommandOpcode::SetAv, qpn, |token| av.command(token, qpn, gid).to_bytes())?;
        }
        commands.run(CommandOpcode::ModifyQp, qpn, |token| attributes.command(token, qpn, to).to_bytes())?;
        if to == QpState::Reset {
            // The card has stopped: what was posted is gone, and what it completed is of an earlier life.
            self.sends.queue.reset();
            self.receives.reset();
            self.attach();
        }
        if from == QpState::Sqe {
            self.sends.queue.recovered();
        }
        self.state = to;
        Ok(())
    }

    fn attach(&self) {
        let (sends, receives) = (Arc::clone(self.sends.queue.tracker()), self.receives.receiver());
        if Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
            self.send_cq.attach(self.qpn, Some(sends), Some(receives));
        } else {
            self.send_cq.attach(self.qpn, Some(sends), None);
            self.recv_cq.attach(self.qpn, None, Some(receives));
        }
    }

    fn query(&self) -> Result<QpStatus> {
        let value = self.device().commands.simple(CommandOpcode::QueryQp, self.qpn)?;
        let summary = QpSummary::parse(&value.to_le_bytes()).map_err(|e| Error::from_spec("query_qp", e))?;
        Ok(QpStatus {
            state: Coded::from(summary.state),
            sq_draining: summary.sq_draining,
            sq_psn: Psn::new(summary.sq_psn),
            rq_psn: Psn::new(summary.rq_psn),
        })
    }

    fn destroy(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.live) {
            return Ok(());
        }
        let result = self.device().commands.simple(CommandOpcode::DestroyQp, self.qpn);
        self.send_cq.detach(self.qpn);
        self.recv_cq.detach(self.qpn);
        if result.is_ok() {
            self.device().tables(|t| t.give_back_qp(self.qpn));
        } else {
            self.sends.queue.leak();
            self.receives.leak();
        }
        result.map(|_| ())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A queue pair that the card does not give back keeps its number and its memory.
        let _ = self.destroy();
    }
}

/// What `QUERY_QP` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpStatus {
    /// State.
    pub state: Coded<QpState>,
    /// In SQD: sends in progress have not finished yet. Once this is false, their completions can be polled.
    pub sq_draining: bool,
    /// PSN of the next packet to send for the first time; 0 before RTS.
    pub sq_psn: Psn,
    /// PSN expected of the peer; 0 before RTR.
    pub rq_psn: Psn,
}

/// What a queue pair has room for: at least what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpSizes {
    /// Work requests of the send queue.
    pub max_send_wr: u32,
    /// Elements of one of them.
    pub max_send_sge: u32,
    /// Bytes of its inline data.
    pub max_inline: u32,
    /// Work requests of the receive queue; 0 where receives come from a shared queue, or were taken out.
    pub max_recv_wr: u32,
    /// Elements of one of them; 0 as above.
    pub max_recv_sge: u32,
}

/// A queue pair in state `S`.
///
/// `Send`; posting takes `&mut`, so threads that share one put it behind a lock of theirs. It holds its protection domain and its
/// completion queues. Dropping it destroys it: when the card has answered, it touches none of its memory; should it
/// not answer, the memory stays mapped as long as the bus.
pub struct Qp<S: State> {
    inner: Box<Inner>,
    state: PhantomData<fn() -> S>,
}

/// A queue pair that was brought up.
pub type QueuePair = Qp<Rts>;

impl<S: State> fmt::Debug for Qp<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Qp({:#x}, {}, {})", self.inner.qpn, self.inner.service, self.inner.state())
    }
}

impl<S: State> Qp<S> {
    fn of(inner: Box<Inner>) -> Self {
        Self { inner, state: PhantomData }
    }

    /// Its number, which the peer has to know.
    pub fn number(&self) -> u32 {
        self.inner.qpn
    }

    /// Its service.
    pub fn service(&self) -> Service {
        self.inner.service
    }

    /// What its card can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.inner.device().capabilities
    }

    /// What it has room for.
    pub fn sizes(&self) -> QpSizes {
        let Inner { sends, receives, .. } = &*self.inner;
        let (max_send_sge, max_inline) = sends.sizes(&self.inner.device().capabilities);
        let (max_recv_wr, max_recv_sge) = match receives {
            Receives::Own(queue) => (queue.queue.size() as u32, queue.max_sges() as u32),
            Receives::Apart(_) | Receives::Shared { .. } => (0, 0),
        };
        let max_send_wr = sends.queue.size() as u32;
        QpSizes { max_send_wr, max_send_sge, max_inline, max_recv_wr, max_recv_sge }
    }

    /// Its state as far as the driver knows: what it was brought to, or ERR after a failed completion was polled.
    pub fn state(&self) -> QpState {
        self.inner.state()
    }

    /// Asks the card for state and PSNs.
    ///
    /// # Errors
    /// `Command` when the card refuses, `Timeout` when it does not answer.
    pub fn query(&self) -> Result<QpStatus> {
        self.inner.query()
    }

    /// Takes it back to RESET. What was posted is gone without completion, and completions not polled yet are passed
    /// over.
    ///
    /// # Errors
    /// As [`query`](Self::query); the queue pair comes back.
    pub fn reset(self) -> Result<Qp<Reset>, StepError<S>> {
        self.step(&QpAttributes::default())
    }

    /// Destroys it, and says whether that worked.
    ///
    /// # Errors
    /// As [`query`](Self::query); its memory then stays mapped.
    pub fn destroy(mut self) -> Result<()> {
        self.inner.destroy()
    }

    fn step<T: State>(mut self, attributes: &QpAttributes) -> Result<Qp<T>, StepError<S>> {
        match self.inner.modify(T::STATE, attributes) {
            Ok(()) => Ok(Qp::of(self.inner)),
            Err(error) => Err(StepError { error, qp: self }),
        }
    }
}

impl Qp<Reset> {
    /// The same queue pair, whose state is a run-time value from now on: for programs that choose transitions as they run, like those of the C
    /// interface. [`modify`](Qp::modify) checks each.
    pub fn untyped(self) -> QueuePair {
        Qp::of(self.inner)
    }

    /// Takes it to INIT.
    ///
    /// # Errors
    /// `Transition` when an attribute is missing or not allowed, `Attribute` for a value that the card does not take: the
    /// card was asked nothing. `Command` when the card refuses. The queue pair comes back.
    pub fn init(self, attributes: InitAttributes) -> Result<Qp<Init>, StepError<Reset>> {
        self.step(&attributes.into())
    }
}

impl Qp<Init> {
    /// Takes it to RTR: it answers its peer.
    ///
    /// # Errors
    /// As [`init`](Qp::init).
    pub fn rtr(self, attributes: RtrAttributes) -> Result<Qp<Rtr>, StepError<Init>> {
        self.step(&attributes.into())
    }
}

impl Qp<Rtr> {
    /// Takes it to RTS: everything runs.
    ///
    /// # Errors
    /// As [`init`](Qp::init).
    pub fn rts(self, attributes: RtsAttributes) -> Result<Qp<Rts>, StepError<Rtr>> {
        self.step(&attributes.into())
    }
}

/// Receives may be posted from INIT on (IBTA 10.3.1.2): so that they are there before the peer's first message.
macro_rules! receives {
    ($($State:ident)+) => {$(
        impl Qp<$State> {
            /// Begins a batch of receives; the doorbell is rung once, at its end. Those of a queue pair with a shared receive
            /// queue are posted [there](SharedReceiveQueue::start_post_recv).
            #[inline]
            pub fn start_post_recv(&mut self) -> PostRecv<'_> {
                let Inner { pd, qpn, receives, .. } = &mut *self.inner;
                let queue = match receives {
                    Receives::Own(queue) => Ok(queue),
                    Receives::Apart(_) | Receives::Shared { .. } => Err(*qpn),
                };
                PostRecv { device: &pd.device, queue }
            }
        }
    )+};
}

receives! { Init Rtr Rts }

impl Qp<Rts> {
    /// Begins a batch of work requests; the doorbell is rung once, at its end.
    #[inline]
    pub fn start_post_send(&mut self) -> PostSend<'_> {
        let Inner { pd, sends, .. } = &mut *self.inner;
        PostSend { device: &pd.device, queue: sends }
    }

    /// Takes its receives out, for a thread that posts them while another one posts sends; `None` where they come from a shared queue, or are taken
    /// out already. Until [`join_receives`](Self::join_receives) it takes none itself, and does not go back to RESET.
    pub fn take_receives(&mut self) -> Option<ReceiveQueue> {
        let Receives::Own(queue) = &self.inner.receives else { return None };
        let apart = Receives::Apart(Arc::clone(queue.queue.tracker()));
        let Receives::Own(queue) = std::mem::replace(&mut self.inner.receives, apart) else { return None };
        Some(ReceiveQueue { pd: Arc::clone(&self.inner.pd), queue: Some(queue) })
    }

    /// Puts its receives back.
    ///
    /// # Errors
    /// `Foreign` for those of another queue pair, which stay with the bus as long as that.
    pub fn join_receives(&mut self, mut receives: ReceiveQueue) -> Result<()> {
        match (&self.inner.receives, &receives.queue) {
            (Receives::Apart(tracker), Some(queue)) if Arc::ptr_eq(tracker, queue.queue.tracker()) => {}
            _ => {
                return Err(Error::Foreign {
                    operation: "join_receives",
                    what: "receive queue",
                    of: "queue pair",
                })
            }
        }
        if let Some(queue) = receives.queue.take() {
            self.inner.receives = Receives::Own(queue);
        }
        Ok(())
    }

    /// Takes it to RESET and keeps it, for [`untyped`](Qp::untyped) queue pairs: see [`reset`](Self::reset).
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn reset_in_place(&mut self, attributes: &QpAttributes) -> Result<()> {
        self.inner.modify(QpState::Reset, attributes)
    }

    /// Changes attributes, or goes to SQD, back to RTS, or to ERR; an [`untyped`](Qp::untyped) one also through the states of the bring-up. To RESET goes
    /// [`reset`](Self::reset).
    ///
    /// # Errors
    /// As [`init`](Qp::init).
    pub fn modify(&mut self, to: QpState, attributes: &QpAttributes) -> Result<()> {
        if to == QpState::Reset {
            return Err(Error::Attribute {
                operation: MODIFY,
                attribute: "state",
                value: to.code().into(),
                fix: "call reset, which gives a queue pair that can be brought up again".into(),
            });
        }
        self.inner.modify(to, attributes)
    }
}

/// The receives of a queue pair, which were [taken out](Qp::take_receives). What is dropped in place of being put back keeps its memory as long as
/// the bus: the card may read there.
pub struct ReceiveQueue {
    pd: Arc<Pd>,
    /// `None` while it is being dropped.
    queue: Option<RecvQueue>,
}

impl fmt::Debug for ReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceiveQueue")
    }
}

impl ReceiveQueue {
    /// Begins a batch of receives; the doorbell is rung once, at its end.
    #[inline]
    pub fn start_post_recv(&mut self) -> PostRecv<'_> {
        // It is there until it is dropped.
        PostRecv { device: &self.pd.device, queue: self.queue.as_mut().ok_or(0) }
    }
}

impl Drop for ReceiveQueue {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.queue.leak();
        }
    }
}

impl ProtectionDomain {
    /// Makes a queue pair, in RESET.
    ///
    /// # Errors
    /// `Attribute` for sizes or a service that card or driver do not have, `Foreign` for queues of another card, `NoResource` when no queue pair is left, `Bus` when there is no memory, `Command` when the card refuses.
    pub fn create_qp(&self, attr: &QpInitAttr<'_>) -> Result<Qp<Reset>> {
        let device = &self.pd.device;
        let can = &device.capabilities;
        let refuse = |attribute, value: u64, fix: String| Error::Attribute {
            operation: CREATE,
            attribute,
            value,
            fix,
        };
        for (what, cq) in [("send_cq", &attr.send_cq), ("recv_cq", &attr.recv_cq)] {
            if !Arc::ptr_eq(&cq.cq.device, device) {
                return Err(Error::Foreign { operation: CREATE, what, of: "card" });
            }
        }
        if attr.srq.as_ref().is_some_and(|srq| !Arc::ptr_eq(&srq.srq.pd.device, device)) {
            return Err(Error::Foreign { operation: CREATE, what: "srq", of: "card" });
        }
        let has = match attr.service {
            Service::Rc => can.rc,
            Service::Uc => can.uc,
            Service::Ud => can.ud,
            Service::Raw => can.raw_ethernet,
            Service::Cnp => false,
        };
        if !has {
            let fix = "card or driver do not have the service; see the card's features".into();
            return Err(refuse("service", attr.service.code().into(), fix));
        }
        if attr.gsi && attr.service != Service::Ud {
            return Err(refuse("service", attr.service.code().into(), "QP1 is UD; take that".into()));
        }
        let log2_of = |attribute, count: u32, max: u8| {
            // A queue of none is one of one.
            let log2 = count.max(1).checked_next_power_of_two().map(|n| n.trailing_zeros() as u8);
            log2.filter(|log2| *log2 <= max)
                .ok_or_else(|| refuse(attribute, count.into(), format!("choose 0 to 2^{max}")))
        };
        let sq_log2 = log2_of("max_send_wr", attr.max_send_wr, can.max_sq_log2)?;
        let rq_log2 = match attr.srq {
            None => log2_of("max_recv_wr", attr.max_recv_wr, can.max_rq_log2)?,
            Some(_) => 0,
        };
        for (attribute, value, max) in [
            ("max_send_sge", attr.max_send_sge.into(), can.max_send_sge.into()),
            ("max_inline", attr.max_inline, can.max_inline),
            ("max_recv_sge", attr.max_recv_sge.into(), can.max_recv_sge.into()),
        ] {
            if value > max && (attribute != "max_recv_sge" || attr.srq.is_none()) {
                return Err(refuse(attribute, value.into(), format!("the card takes up to {max}")));
            }
        }
        let units = send_wqe::units_for_sges(attr.max_send_sge.into())
            .max(send_wqe::units_for_inline(attr.max_inline.into()));
        let sq_stride = stride(units).min(send_wqe::MAX_STRIDE);
        let rq_stride = stride(recv_wqe::units_for_sges(attr.max_recv_sge.into())).min(recv_wqe::MAX_STRIDE);
        let place = match attr.push {
            false => None,
            true => {
                let refuse = |fix: String| refuse("push", 1, fix);
                if !can.wqe_push {
                    let fix = "the card takes no pushed WQEs; leave push out, or use a configuration with push_slots";
                    return Err(refuse(fix.into()));
                }
                if sq_stride > 0 {
                    let fix = "only WQEs of 64 bytes are pushed; give max_send_sge 1 and max_inline up to 16";
                    return Err(refuse(fix.into()));
                }
                let fix = || {
                    format!("all {PUSH_SLOTS} places of the doorbell page are taken; destroy a queue pair that pushes, or leave push out")
                };
                Some(Place::take(device).ok_or_else(|| refuse(fix()))?)
            }
        };
        let (sq, rq) = (device.bell(doorbell::SQ)?, device.bell(doorbell::RQ)?);
        let sends = WorkQueue::alloc(&device.bus, sq, Tracker::sends, (sq_log2, sq_stride))?;
        let own = match attr.srq {
            None => Ok(WorkQueue::alloc(&device.bus, rq, Tracker::receives, (rq_log2, rq_stride))?),
            Some(shared) => Err(&shared.srq),
        };
        let qpn = match attr.service {
            Service::Raw => RAW_QPN,
            _ if attr.gsi => GSI_QPN,
            _ => device.take(CREATE, "queue pairs", can.max_qp, |t| &mut t.qps)?,
        };
        let give_back = |error| {
            device.tables(|t| t.give_back_qp(qpn));
            error
        };
        let sends = SendQueue::new(device, (qpn, attr.service), sends, place).map_err(give_back)?;
        let receives = match own {
            Ok(own) => Receives::Own(RecvQueue::new(device, Owner::Qp(qpn), own).map_err(give_back)?),
            Err(srq) => Receives::Shared { srq: Arc::clone(srq), failed: Arc::default() },
        };
        let own = match &receives {
            Receives::Own(RecvQueue { queue, .. }) => (queue.log2(), queue.stride(), queue.bus_address()),
            Receives::Apart(_) | Receives::Shared { .. } => (0, 0, 0),
        };
        let result = device.commands.run(CommandOpcode::CreateQp, qpn, |token| {
            CreateQp {
                token,
                object: qpn,
                pd: self.pd.number,
                service: attr.service.code(),
                doorbell_page: device.options.doorbell_page,
                sq_log2: sends.queue.log2(),
                sq_stride: sends.queue.stride(),
                rq_log2: own.0,
                rq_stride: own.1,
                send_cqn: attr.send_cq.cq.cqn,
                recv_cqn: attr.recv_cq.cq.cqn,
                sq_sig_all: attr.sq_sig_all,
                sq_base: sends.queue.bus_address(),
                rq_base: own.2,
                has_srq: attr.srq.is_some(),
                srqn: attr.srq.map_or(0, SharedReceiveQueue::number),
                ..CreateQp::default()
            }
            .to_bytes()
        });
        if let Err(error) = result {
            if error.is_unanswered() {
                sends.queue.leak();
                receives.leak();
                return Err(error);
            }
            return Err(give_back(error));
        }
        let inner = Inner {
            qpn,
            service: attr.service,
            state: QpState::Reset,
            live: true,
            sends,
            receives,
            send_cq: Arc::clone(&attr.send_cq.cq),
            recv_cq: Arc::clone(&attr.recv_cq.cq),
            pd: Arc::clone(&self.pd),
        };
        inner.attach();
        Ok(Qp::of(Box::new(inner)))
    }
}
