// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue pair: attributes, states, flush (IBTA 10.2.4, 10.3.1, 10.10.2).

use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::{self, AttributeBit, Attributes};
use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::Frame;
use ferrowire_spec::{Psn, QpState};

use super::congestion::Pace;
use super::engine::Node;
use super::packet;
use super::recvq::RecvQueue;
use super::responder::Responder;
use super::selective::Selective;
use super::sendq::SendQueue;
use super::types::{AddressVector, Completion, Error, Instant, RecvWr, Rights, SendWr, MAX_SGES};

/// A queue pair to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    /// Service.
    pub service: Service,
    /// Its number, if the caller chooses.
    pub qpn: Option<u32>,
    /// Protection domain.
    pub pd: u32,
    /// Where sends complete.
    pub send_cq: u32,
    /// Where receives complete.
    pub recv_cq: u32,
    /// Shared receive queue.
    pub srq: Option<u32>,
    /// Sends that may be outstanding.
    pub max_send: usize,
    /// Receives that may be posted.
    pub max_recv: usize,
}

impl QpInit {
    /// With 256 sends and receives, and one CQ for both.
    pub fn new(service: Service, pd: u32, cq: u32) -> Self {
        Self { service, qpn: None, pd, send_cq: cq, recv_cq: cq, srq: None, max_send: 256, max_recv: 256 }
    }
}

/// What to change of a queue pair (IBTA 11.2.5.2). `None` leaves an attribute as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpAttr {
    /// State to reach; `None`: the same.
    pub state: Option<QpState>,
    /// State that the caller believes it is in.
    pub cur_state: Option<QpState>,
    /// What peers may do.
    pub access: Option<Rights>,
    /// Partition key.
    pub pkey: Option<u16>,
    /// Queue key.
    pub qkey: Option<u32>,
    /// The peer's address.
    pub av: Option<AddressVector>,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: Option<usize>,
    /// The peer's queue pair.
    pub dest_qpn: Option<u32>,
    /// First PSN expected.
    pub rq_psn: Option<Psn>,
    /// First PSN to send.
    pub sq_psn: Option<Psn>,
    /// ACK time-out code, 5 bits.
    pub timeout: Option<u8>,
    /// Transport retries, 3 bits.
    pub retry_cnt: Option<u8>,
    /// RNR retries, 3 bits; 7: for ever.
    pub rnr_retry: Option<u8>,
    /// Timer code of RNR NAKs, 5 bits.
    pub min_rnr_timer: Option<u8>,
    /// READs and atomics outstanding as requester.
    pub max_rd_atomic: Option<u8>,
    /// READs and atomics taken as responder.
    pub max_dest_rd_atomic: Option<u8>,
    /// UDP source port.
    pub sport: Option<u16>,
    /// Selective retransmission.
    pub selective: Option<bool>,
    /// Event when drained.
    pub sqd_event: Option<bool>,
}

impl QpAttr {
    /// To a state, nothing else.
    pub fn to(state: QpState) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    fn mask(&self) -> Attributes {
        use AttributeBit as A;
        let given = [
            (self.access.is_some(), A::Access),
            (self.pkey.is_some(), A::Pkey),
            (self.qkey.is_some(), A::Qkey),
            (self.av.is_some(), A::Av),
            (self.path_mtu.is_some(), A::PathMtu),
            (self.dest_qpn.is_some(), A::DestQpn),
            (self.rq_psn.is_some(), A::RqPsn),
            (self.sq_psn.is_some(), A::SqPsn),
            (self.timeout.is_some(), A::Timeout),
            (self.retry_cnt.is_some(), A::RetryCnt),
            (self.rnr_retry.is_some(), A::RnrRetry),
            (self.min_rnr_timer.is_some(), A::MinRnrTimer),
            (self.max_rd_atomic.is_some(), A::MaxRdAtomic),
            (self.max_dest_rd_atomic.is_some(), A::MaxDestRdAtomic),
            (self.sport.is_some(), A::Sport),
            (self.cur_state.is_some(), A::CurState),
            (self.sqd_event.is_some(), A::SqdEvent),
            (self.selective.is_some(), A::Selective),
        ];
        given
            .iter()
            .filter(|(there, _)| *there)
            .fold(Attributes::NONE, |mask, (_, bit)| mask.with(Attributes::of(&[*bit])))
    }

    fn check_values(&self) -> Result<(), Error> {
        let small = |value: Option<u8>, bits: u32| value.is_none_or(|value| u32::from(value) < 1 << bits);
        let checks = [
            (self.path_mtu.is_none_or(|mtu| [256, 512, 1024, 2048, 4096].contains(&mtu)), "path_mtu"),
            (self.dest_qpn.is_none_or(|qpn| qpn < 1 << 24), "dest_qpn"),
            (small(self.timeout, 5), "timeout"),
            (small(self.retry_cnt, 3), "retry_cnt"),
            (small(self.rnr_retry, 3), "rnr_retry"),
            (small(self.min_rnr_timer, 5), "min_rnr_timer"),
        ];
        match checks.iter().find(|(good, _)| !good) {
            Some((_, name)) => Err(Error::BadAttribute(name)),
            None => Ok(()),
        }
    }
}

/// How far a queue pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpStatus {
    /// Its state.
    pub state: QpState,
    /// PSN of the next packet that is sent for the first time.
    pub sq_psn: Psn,
    /// PSN that is expected of the peer.
    pub rq_psn: Psn,
    /// In SQD: something that was begun has not ended.
    pub draining: bool,
    /// Sends that have not ended.
    pub sends: usize,
    /// Receives of its own queue that have not ended.
    pub receives: usize,
}

#[derive(Debug)]
pub(super) struct Qp {
    pub(super) qpn: u32,
    pub(super) service: Service,
    pub(super) state: QpState,
    pub(super) pd: u32,
    pub(super) send_cq: u32,
    pub(super) recv_cq: u32,
    pub(super) access: Rights,
    pub(super) pkey: u16,
    pub(super) qkey: u32,
    pub(super) av: Option<AddressVector>,
    pub(super) mtu: usize,
    pub(super) dest_qpn: u32,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) sport: u16,
    /// An event is wanted when SQD is drained.
    pub(super) drain_event: bool,
    pub(super) sq: SendQueue,
    pub(super) rq: RecvQueue,
    pub(super) responder: Responder,
    /// It has agreed on selective retransmission.
    pub(super) selective: Option<Box<Selective>>,
    pub(super) last_cnp: Option<Instant>,
    pub(super) cnps: u64,
    pub(super) pace: Option<Pace>,
    /// When something that waits for its pace may be sent.
    pub(super) wake: Option<Instant>,
    max_send: usize,
    max_recv: usize,
}

impl Qp {
    pub(super) fn new(qpn: u32, init: &QpInit) -> Self {
        Self {
            qpn,
            service: init.service,
            state: QpState::Reset,
            pd: init.pd,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            access: Rights::NONE,
            pkey: 0xffff,
            qkey: 0,
            av: None,
            mtu: 4096,
            dest_qpn: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            min_rnr_timer: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            // Entropy for the network, the same for all packets of a queue pair (IBTA A17.9.1).
            sport: 0xc000 | (qpn ^ qpn >> 10) as u16 & 0x3fff,
            drain_event: false,
            sq: SendQueue::default(),
            rq: RecvQueue::new(init.max_recv, init.srq),
            responder: Responder::default(),
            selective: None,
            last_cnp: None,
            cnps: 0,
            pace: None,
            wake: None,
            max_send: init.max_send,
            max_recv: init.max_recv,
        }
    }

    pub(super) fn modify(&mut self, node: &mut Node, attr: &QpAttr) -> Result<(), Error> {
        let to = attr.state.unwrap_or(self.state);
        if attr.cur_state.is_some_and(|state| state != self.state) {
            return Err(Error::BadAttribute("cur_state"));
        }
        qp_state::check(self.service, self.state, to, attr.mask()).map_err(Error::Transition)?;
        attr.check_values()?;
        if attr.selective == Some(true) && !node.config.selective {
            return Err(Error::BadAttribute("selective"));
        }
        if attr.av.is_some_and(|av| !av.is_of_one_family(&node.config)) {
            return Err(Error::BadAttribute("av"));
        }
        match to {
            QpState::Reset => {
                self.reset(node);
                return Ok(());
            }
            QpState::Err => {
                self.responder.forget_answers();
                self.enter_error(node);
                return Ok(());
            }
            _ => {}
        }
        fn set<T: Copy>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut self.access, attr.access);
        set(&mut self.pkey, attr.pkey);
        set(&mut self.qkey, attr.qkey);
        set(&mut self.av, attr.av.map(Some));
        set(&mut self.mtu, attr.path_mtu);
        set(&mut self.dest_qpn, attr.dest_qpn);
        set(&mut self.timeout, attr.timeout);
        set(&mut self.retry_cnt, attr.retry_cnt);
        set(&mut self.rnr_retry, attr.rnr_retry);
        set(&mut self.min_rnr_timer, attr.min_rnr_timer);
        set(&mut self.max_rd_atomic, attr.max_rd_atomic);
        set(&mut self.max_dest_rd_atomic, attr.max_dest_rd_atomic);
        set(&mut self.sport, attr.sport);
        if let Some(selective) = attr.selective {
            self.stop_selective(node);
            self.selective = selective.then(Box::default);
        }
        if let Some(psn) = attr.rq_psn {
            self.responder.expected = psn;
            self.start_flow(node, true, psn);
        }
        if let Some(psn) = attr.sq_psn {
            self.sq.start_at(psn);
            self.start_flow(node, false, psn);
        }
        let before = self.state;
        self.state = to;
        self.sq.allow_retries(self.retry_cnt, self.rnr_retry);
        if (before, to) == (QpState::Rts, QpState::Sqd) {
            self.drain_event = attr.sqd_event.unwrap_or(false);
            self.check_drained(node);
        }
        Ok(())
    }

    pub(super) fn status(&self) -> QpStatus {
        QpStatus {
            state: self.state,
            sq_psn: self.sq.top,
            rq_psn: self.responder.expected,
            draining: self.state == QpState::Sqd && self.is_busy(),
            sends: self.sq.len(),
            receives: self.rq.len() + usize::from(self.responder.has_receive()),
        }
    }

    /// Ends what it has taken from a shared receive queue, as flushed: its life is about to end.
    pub(super) fn surrender(&mut self, node: &mut Node) {
        if self.rq.srq.is_some() {
            let begun = self.responder.abandon();
            for wr in begun.into_iter().chain(self.rq.take_held()) {
                self.complete_recv(node, &wr, WcStatus::WrFlushErr, 0);
            }
        }
    }

    fn reset(&mut self, node: &mut Node) {
        for cq in [self.send_cq, self.recv_cq] {
            if let Some(cq) = node.cqs.get_mut(&cq) {
                cq.forget(self.qpn);
            }
        }
        node.keys.orphan(self.qpn);
        self.stop_selective(node);
        let init = QpInit {
            service: self.service,
            qpn: Some(self.qpn),
            pd: self.pd,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.rq.srq,
            max_send: self.max_send,
            max_recv: self.max_recv,
        };
        *self = Qp::new(self.qpn, &init);
    }

    /// To error: all that is outstanding is flushed, in order, one completion for each WQE (IBTA 10.3.1.7).
    pub(super) fn enter_error(&mut self, node: &mut Node) {
        if self.state == QpState::Err {
            return;
        }
        self.state = QpState::Err;
        self.stop_selective(node);
        self.flush_sends(node);
        let begun = self.responder.abandon();
        for wr in begun.into_iter().chain(self.rq.drain()) {
            self.complete_recv(node, &wr, WcStatus::WrFlushErr, 0);
        }
        if self.rq.srq.is_some() {
            node.event(EventKind::LastWqe, self.qpn);
        }
    }

    /// A receive that failed.
    pub(super) fn complete_recv(&self, node: &mut Node, wr: &RecvWr, status: WcStatus, cause: u8) {
        let done = Completion::new(self.qpn, wr.wr_id, CqeOpcode::Recv);
        node.complete(self.recv_cq, Completion { status, syndrome: cause, ..done });
    }

    pub(super) fn post_send(&mut self, node: &mut Node, wr: SendWr) -> Result<(), Error> {
        match self.state {
            QpState::Reset | QpState::Init | QpState::Rtr => return Err(Error::State(self.state)),
            _ if self.sq.len() == self.max_send => return Err(Error::Full),
            _ => {}
        }
        self.sq.post(wr);
        // In error it completes at once, and behind a failed send in SQE too (IBTA 10.3.1.6, 10.3.1.7).
        if matches!(self.state, QpState::Err | QpState::Sqe) {
            self.flush_sends(node);
        }
        Ok(())
    }

    pub(super) fn post_recv(&mut self, node: &mut Node, wr: RecvWr) -> Result<(), Error> {
        if self.rq.srq.is_some() {
            return Err(Error::HasSrq);
        }
        if wr.sges.len() > MAX_SGES {
            return Err(Error::TooManySges);
        }
        match self.state {
            QpState::Reset => return Err(Error::State(self.state)),
            QpState::Err => self.complete_recv(node, &wr, WcStatus::WrFlushErr, 0),
            _ if self.rq.is_full() => return Err(Error::Full),
            _ => self.rq.post(wr),
        }
        Ok(())
    }

    /// Checks of a packet that do not depend on what it asks for (IBTA 9.6.1, A17.4.8).
    pub(super) fn check_packet(&self, node: &Node, frame: &Frame<'_>) -> Result<(), DropReason> {
        if !packet::pkey_matches(self.pkey, frame.bth.pkey) {
            return Err(DropReason::Pkey);
        }
        let (src, dst) = packet::addresses(&frame.ip);
        // VLAN 0 is a priority alone (IEEE 802.1Q 6.9.1).
        let tagged = |vid: Option<u16>| vid.filter(|vid| *vid != 0);
        let vlan = tagged(frame.vlan.map(|tag| tag.vid));
        if let Some(av) = self.av {
            if av.ip != src {
                return Err(DropReason::SourceAddress);
            }
            if tagged(av.vlan.map(vid)) != vlan || av.source(&node.config).1 != dst {
                return Err(DropReason::Destination);
            }
        }
        let for_us = frame.eth.dst == node.config.mac || node.raw_filter.promiscuous;
        if !for_us || !node.is_own(dst, vlan) {
            return Err(DropReason::Destination);
        }
        Ok(())
    }

    /// The first packet in RTR says that the peer is there (IBTA 11.6.3.1.1).
    pub(super) fn established(&mut self, node: &mut Node) {
        if self.state == QpState::Rtr && !self.responder.told {
            self.responder.told = true;
            node.event(EventKind::CommEstablished, self.qpn);
        }
    }
}

const fn vid(tci: u16) -> u16 {
    tci & 0xfff
}
