// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ManagedQp`]: a queue pair of the caller that an identifier takes through its states; [`StagedQp`]: one of [`ferrowire`] as such.

use ferrowire::{
    AccessFlags, AddressVector, Init, InitAttributes, PathMtu, Psn, Qp, QpAttributes, QpState, QueuePair,
    Reset, Rtr, RtrAttributes, RtsAttributes, Service as Transport,
};

use super::id::Options;
use crate::exchange::SELECTIVE;
use crate::gsi::Limits;
use crate::mad::Req;

/// Partition key of the only partition.
pub(super) const PKEY: u16 = 0xffff;

/// A queue pair that an identifier takes through its states when its owner asks for that. All calls come from the thread that called the identifier.
pub trait ManagedQp {
    /// Its number.
    fn number(&self) -> u32;

    /// Takes it to a state.
    ///
    /// # Errors
    /// Those of the verbs; the queue pair is as before.
    fn modify(&mut self, to: QpState, attributes: &QpAttributes) -> ferrowire::Result<()>;
}

/// What a connection's queue pair needs of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) way: AddressVector,
    pub(super) path_mtu: PathMtu,
    pub(super) remote_qpn: u32,
    /// The PSN that the other side begins with; this side has chosen it.
    pub(super) rq_psn: Psn,
    /// The PSN that this side begins with.
    pub(super) sq_psn: Psn,
    /// READs and atomics that this side answers at once.
    pub(super) responder_resources: u8,
    /// READs and atomics that this side has outstanding.
    pub(super) initiator_depth: u8,
    pub(super) ack_timeout: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry: u8,
    /// The request asks for selective retransmission by this card's version.
    pub(super) offered: bool,
    /// Both sides agree on it, or this one will by its answer.
    pub(super) selective: bool,
}

impl Link {
    /// The asked side's, for a request that has come by `way`: the asker is to begin with `rq_psn`. Within what the card can do. `selective`: its owner wishes selective
    /// retransmission.
    pub(super) fn of_request(
        req: &Req,
        mut way: AddressVector,
        rq_psn: Psn,
        limits: &Limits,
        selective: bool,
    ) -> Self {
        way.traffic_class = req.primary_traffic_class;
        if way.dst_ip.is_ipv6() {
            way.flow_label = req.primary_flow_label;
        }
        let offered = limits.selective && req.transport_service == 0 && req.selective == SELECTIVE;
        Self {
            way,
            path_mtu: PathMtu::try_from(req.path_mtu).unwrap_or(PathMtu::B1024),
            remote_qpn: req.local_qpn,
            rq_psn,
            sq_psn: Psn::new(req.starting_psn),
            // The asker's view, turned round.
            responder_resources: req.initiator_depth.min(limits.max_dest_rd_atomic),
            initiator_depth: req.responder_resources.min(limits.max_rd_atomic),
            ack_timeout: req.primary_local_ack_timeout,
            retry_count: req.retry_count,
            rnr_retry: req.rnr_retry_count,
            offered,
            selective: offered && selective,
        }
    }

    fn rtr(&self, transport: Transport, atomics: bool) -> QpAttributes {
        let rc = transport == Transport::Rc;
        QpAttributes::new()
            .access(access(self.responder_resources, rc && atomics))
            .av(self.way)
            .path_mtu(self.path_mtu)
            .dest_qpn(self.remote_qpn)
            .rq_psn(self.rq_psn)
            .max_dest_rd_atomic(rc.then_some(self.responder_resources))
            .selective((rc && self.selective).then_some(true))
    }

    fn rts(&self, transport: Transport) -> QpAttributes {
        let rc = transport == Transport::Rc;
        QpAttributes::new()
            .sq_psn(self.sq_psn)
            .timeout(rc.then_some(self.ack_timeout))
            .retry_cnt(rc.then_some(self.retry_count))
            .rnr_retry(rc.then_some(self.rnr_retry))
            .max_rd_atomic(rc.then_some(self.initiator_depth))
    }
}

/// What the other side may do: as much as Linux grants.
fn access(responder_resources: u8, atomics: bool) -> AccessFlags {
    match (responder_resources, atomics) {
        (0, _) => AccessFlags::REMOTE_WRITE,
        (_, false) => AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ,
        (_, true) => AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC,
    }
}

/// The attributes with which a queue pair goes to a state, as `rdma_init_qp_attr` gives them. `asked`: READs of the other side that this side has asked to
/// answer. `None`: the connection is not so far.
pub(super) fn attributes(
    to: QpState,
    transport: Transport,
    link: Option<&Link>,
    asked: Option<u8>,
    psn: Psn,
    options: &Options,
    atomics: bool,
) -> Option<QpAttributes> {
    let none = QpAttributes::default();
    let ud = transport == Transport::Ud;
    Some(match to {
        QpState::Init if ud => none.pkey(PKEY).qkey(options.qkey),
        QpState::Init => {
            let rc = transport == Transport::Rc;
            let resources = link.map(|link| link.responder_resources).or(asked);
            let access = resources.map_or(AccessFlags::default(), |count| access(count, rc && atomics));
            none.pkey(PKEY).access(access)
        }
        QpState::Rtr if ud => none,
        QpState::Rts if ud => none.sq_psn(psn),
        QpState::Rtr => {
            let timer = (transport == Transport::Rc).then_some(options.min_rnr_timer);
            link?.rtr(transport, atomics).min_rnr_timer(timer)
        }
        QpState::Rts => link?.rts(transport),
        _ => none,
    })
}

/// A queue pair of [`ferrowire`] in whatever state of its bring-up.
#[derive(Debug)]
pub enum StagedQp {
    /// In RESET.
    Reset(Qp<Reset>),
    /// In INIT.
    Init(Qp<Init>),
    /// In RTR.
    Rtr(Qp<Rtr>),
    /// It was brought up.
    Rts(QueuePair),
}

macro_rules! each {
    ($staged:expr, $qp:ident => $value:expr) => {
        match $staged {
            StagedQp::Reset($qp) => $value,
            StagedQp::Init($qp) => $value,
            StagedQp::Rtr($qp) => $value,
            StagedQp::Rts($qp) => $value,
        }
    };
}

impl StagedQp {
    /// Its number.
    pub fn number(&self) -> u32 {
        each!(self, qp => qp.number())
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        each!(self, qp => qp.state())
    }

    /// Takes it to a state.
    ///
    /// # Errors
    /// Those of the verbs; the queue pair comes back as before.
    pub fn step(self, to: QpState, a: &QpAttributes) -> Result<Self, (ferrowire::Error, Self)> {
        let failed = |error, qp| Err((error, qp));
        match (self, to) {
            (StagedQp::Reset(qp), QpState::Init) => {
                let init = InitAttributes::new().access(a.access).pkey(a.pkey).qkey(a.qkey);
                qp.init(init).map(StagedQp::Init).or_else(|step| failed(step.error, StagedQp::Reset(step.qp)))
            }
            (StagedQp::Init(qp), QpState::Rtr) => {
                let rtr = RtrAttributes::new()
                    .av(a.av)
                    .path_mtu(a.path_mtu)
                    .dest_qpn(a.dest_qpn)
                    .rq_psn(a.rq_psn)
                    .max_dest_rd_atomic(a.max_dest_rd_atomic)
                    .min_rnr_timer(a.min_rnr_timer)
                    .sport(a.sport)
                    .selective(a.selective)
                    .access(a.access)
                    .pkey(a.pkey)
                    .qkey(a.qkey);
                qp.rtr(rtr).map(StagedQp::Rtr).or_else(|step| failed(step.error, StagedQp::Init(step.qp)))
            }
            (StagedQp::Rtr(qp), QpState::Rts) => {
                let rts = RtsAttributes::new()
                    .sq_psn(a.sq_psn)
                    .timeout(a.timeout)
                    .retry_cnt(a.retry_cnt)
                    .rnr_retry(a.rnr_retry)
                    .max_rd_atomic(a.max_rd_atomic)
                    .access(a.access)
                    .min_rnr_timer(a.min_rnr_timer)
                    .qkey(a.qkey)
                    .sport(a.sport);
                qp.rts(rts).map(StagedQp::Rts).or_else(|step| failed(step.error, StagedQp::Rtr(step.qp)))
            }
            (staged, QpState::Reset) => each!(staged, qp => {
                qp.reset().map(StagedQp::Reset).or_else(|step| failed(step.error, StagedQp::from(step.qp)))
            }),
            (StagedQp::Rts(mut qp), to) => match qp.modify(to, a) {
                Ok(()) => Ok(StagedQp::Rts(qp)),
                Err(error) => failed(error, StagedQp::Rts(qp)),
            },
            (staged, to) => {
                let error = ferrowire::Error::Attribute {
                    operation: "modify_qp",
                    attribute: "state",
                    value: to.code().into(),
                    fix: format!("the queue pair is in {}; go through the states between", staged.state()),
                };
                failed(error, staged)
            }
        }
    }
}

macro_rules! from {
    ($($State:ident)+) => {$(
        impl From<Qp<ferrowire::$State>> for StagedQp {
            fn from(qp: Qp<ferrowire::$State>) -> Self {
                StagedQp::$State(qp)
            }
        }
    )+};
}

from! { Reset Init Rtr Rts }

/// It is `Some` but while a transition is under way.
impl ManagedQp for Option<StagedQp> {
    fn number(&self) -> u32 {
        self.as_ref().map_or(0, StagedQp::number)
    }

    fn modify(&mut self, to: QpState, attributes: &QpAttributes) -> ferrowire::Result<()> {
        let Some(qp) = self.take() else {
            return Err(ferrowire::Error::Attribute {
                operation: "modify_qp",
                attribute: "qp",
                value: 0,
                fix: "there is no queue pair; put one into the option".into(),
            });
        };
        let (qp, result) = match qp.step(to, attributes) {
            Ok(qp) => (qp, Ok(())),
            Err((error, qp)) => (qp, Err(error)),
        };
        *self = Some(qp);
        result
    }
}
