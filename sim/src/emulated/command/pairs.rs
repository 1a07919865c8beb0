// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands about queue pairs and address handles.

use ferrowire_spec::qp_state::{self, AttributeBit, Attributes, TransitionError, GSI_QKEY, GSI_QPN, RAW_QPN};
use ferrowire_spec::queue::command::create_ah::CreateAh;
use ferrowire_spec::queue::command::create_qp::CreateQp;
use ferrowire_spec::queue::command::modify_qp::ModifyQp;
use ferrowire_spec::queue::command::set_av::SetAv;
use ferrowire_spec::queue::command::PathMtu;
use ferrowire_spec::queue::command_completion::qp_summary::QpSummary;
use ferrowire_spec::queue::recv_wqe;
use ferrowire_spec::queue::{CommandAttribute as Attribute, CommandStatus as Status};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::{Psn, QpState};

use super::super::card::{address, Card, QpRings, Receives};
use super::super::limits;
use super::super::rings::WorkRing;
use super::{base, need, object, page, refusal, Refusal};
use crate::model::{AddressVector, QpAttr, QpInit, Rights};

/// What `SET_AV` and `CREATE_AH` say alike.
struct Way {
    dst_mac: u64,
    src_mac: u64,
    ipv6: bool,
    dst_ip: u128,
    src_ip: u128,
    vlan: Option<u16>,
    traffic_class: u8,
    hop_limit: u8,
    flow_label: u32,
}

/// The way of a command that has the fields of an address vector.
macro_rules! way {
    ($command:expr) => {
        Way {
            dst_mac: $command.dst_mac,
            src_mac: $command.src_mac,
            ipv6: $command.ipv6,
            dst_ip: $command.dst_ip,
            src_ip: $command.src_ip,
            vlan: $command.vlan.then_some($command.vlan_tci),
            traffic_class: $command.traffic_class,
            hop_limit: $command.hop_limit,
            flow_label: $command.flow_label,
        }
    };
}

impl Way {
    fn vector(&self) -> Result<AddressVector, Refusal> {
        // Zero and a group are nobody to send from. The first byte sent is the highest.
        let station = self.src_mac != 0 && self.src_mac >> 40 & 1 == 0;
        need(station, Status::BadAttribute, Attribute::SrcMac)?;
        need(self.dst_mac != 0, Status::BadAttribute, Attribute::DstMac)?;
        let fits = |ip: u128| self.ipv6 || ip >> 32 == 0;
        need(fits(self.src_ip), Status::BadAttribute, Attribute::SrcIp)?;
        need(fits(self.dst_ip), Status::BadAttribute, Attribute::DstIp)?;
        Ok(AddressVector {
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            vlan: self.vlan,
            source: Some((self.src_mac, address(self.src_ip, self.ipv6))),
            ..AddressVector::new(self.dst_mac, address(self.dst_ip, self.ipv6))
        })
    }
}

/// The attribute of a bit of the mask, as completions name it.
fn of_bit(bit: AttributeBit) -> u8 {
    bit.code() + 1
}

impl Card {
    fn known_qp(&self, qpn: u32) -> Result<QpState, Refusal> {
        let state = self.engine.state(qpn).filter(|_| qpn < limits::QPS);
        state.ok_or(refusal(Status::BadObject, Attribute::Object))
    }

    pub(super) fn create_qp(&mut self, command: &CreateQp) -> Result<(), Refusal> {
        let qpn = command.object;
        object(qpn, limits::QPS, self.objects.qps.contains_key(&qpn), false)?;
        self.need_pd(command.pd)?;
        let bad_service = refusal(Status::BadAttribute, Attribute::Service);
        let service = Service::from_code(command.service).ok_or(bad_service)?;
        let served = matches!(service, Service::Rc | Service::Uc | Service::Ud | Service::Raw);
        let well_known = qpn != GSI_QPN || service == Service::Ud;
        let raw = (service == Service::Raw) == (qpn == RAW_QPN);
        need(served && well_known && raw, Status::BadAttribute, Attribute::Service)?;
        page(command.doorbell_page)?;
        need(command.sq_log2 <= limits::WQ_LOG2, Status::BadSize, Attribute::SqLog2)?;
        need(command.rq_log2 <= limits::WQ_LOG2, Status::BadSize, Attribute::RqLog2)?;
        need(command.rq_stride <= recv_wqe::MAX_STRIDE, Status::BadSize, Attribute::RqStride)?;
        base(command.sq_base, Attribute::SqBase)?;
        base(command.rq_base, Attribute::RqBase)?;
        let has_cq = |cqn| self.objects.cqs.contains_key(&cqn);
        need(has_cq(command.send_cqn), Status::BadAttribute, Attribute::SendCqn)?;
        need(has_cq(command.recv_cqn), Status::BadAttribute, Attribute::RecvCqn)?;
        let shared = self.objects.srqs.contains_key(&command.srqn);
        let known = if command.has_srq { shared } else { command.srqn == 0 };
        need(known, Status::BadAttribute, Attribute::Srqn)?;
        let own = !command.has_srq;
        need(own || command.rq_log2 == 0, Status::BadSize, Attribute::RqLog2)?;
        need(own || command.rq_stride == 0, Status::BadSize, Attribute::RqStride)?;
        need(own || command.rq_base == 0, Status::BadAddress, Attribute::RqBase)?;
        let sends = WorkRing::new(command.sq_base, command.sq_log2, command.sq_stride);
        let receives = WorkRing::new(command.rq_base, command.rq_log2, command.rq_stride);
        let init = QpInit {
            qpn: Some(qpn),
            recv_cq: command.recv_cqn,
            srq: command.has_srq.then_some(command.srqn),
            max_send: sends.size(),
            max_recv: receives.size(),
            ..QpInit::new(service, command.pd, command.send_cqn)
        };
        // All that can be wrong was looked at.
        let refused = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.create_qp(init).map_err(refused)?;
        let receives = if own { Receives::Own(receives) } else { Receives::Shared };
        let rings = QpRings {
            service,
            page: command.doorbell_page,
            signal_all: command.sq_sig_all,
            sends,
            receives,
            av: None,
        };
        self.objects.qps.insert(qpn, rings);
        Ok(())
    }

    pub(super) fn set_av(&mut self, command: &SetAv) -> Result<(), Refusal> {
        self.known_qp(command.object)?;
        let unknown = refusal(Status::BadObject, Attribute::Object);
        let rings = self.objects.qps.get_mut(&command.object).ok_or(unknown)?;
        let connected = matches!(rings.service, Service::Rc | Service::Uc);
        need(connected, Status::BadAttribute, Attribute::Service)?;
        rings.av = Some(way!(command).vector()?);
        Ok(())
    }

    pub(super) fn modify_qp(&mut self, command: &ModifyQp) -> Result<(), Refusal> {
        let qpn = command.object;
        let from = self.known_qp(qpn)?;
        let unknown = refusal(Status::BadObject, Attribute::Object);
        let rings = self.objects.qps.get(&qpn).ok_or(unknown)?;
        let given = Attributes(command.attr_mask);
        let has = |bit| given.contains(bit);
        let believed = !has(AttributeBit::CurState) || command.cur_state == from.code();
        need(believed, Status::BadState, Attribute::CurState)?;
        let no_transition = refusal(Status::BadTransition, Attribute::State);
        let to = QpState::from_code(command.state).ok_or(no_transition)?;
        qp_state::check(rings.service, from, to, given).map_err(|error| match error {
            TransitionError::Illegal { .. } => no_transition,
            TransitionError::Missing(set) | TransitionError::NotAllowed(set) => Refusal {
                attribute: set.0.trailing_zeros() as u8 + 1,
                ..refusal(Status::BadAttribute, Attribute::None)
            },
        })?;
        let range = |bit, good: bool| match !has(bit) || good {
            true => Ok(()),
            false => {
                Err(Refusal { attribute: of_bit(bit), ..refusal(Status::BadAttribute, Attribute::None) })
            }
        };
        range(AttributeBit::Access, command.access & !Rights::REMOTE.0 == 0)?;
        range(AttributeBit::Av, rings.av.is_some())?;
        range(AttributeBit::Qkey, qpn != GSI_QPN || command.qkey == GSI_QKEY)?;
        let mtu = PathMtu::from_code(command.path_mtu);
        range(AttributeBit::PathMtu, mtu.is_some())?;
        range(AttributeBit::MaxRdAtomic, command.max_rd_atomic <= limits::RD_ATOMIC)?;
        range(AttributeBit::MaxDestRdAtomic, command.max_dest_rd_atomic <= limits::RD_ATOMIC)?;
        fn when<T>(has: bool, value: T) -> Option<T> {
            has.then_some(value)
        }
        let attr = QpAttr {
            state: Some(to),
            cur_state: None,
            access: when(has(AttributeBit::Access), Rights(command.access)),
            pkey: when(has(AttributeBit::Pkey), command.pkey),
            qkey: when(has(AttributeBit::Qkey), command.qkey),
            av: rings.av.filter(|_| has(AttributeBit::Av)),
            path_mtu: mtu.filter(|_| has(AttributeBit::PathMtu)).map(PathMtu::bytes),
            dest_qpn: when(has(AttributeBit::DestQpn), command.dest_qpn),
            rq_psn: when(has(AttributeBit::RqPsn), Psn::new(command.rq_psn)),
            sq_psn: when(has(AttributeBit::SqPsn), Psn::new(command.sq_psn)),
            timeout: when(has(AttributeBit::Timeout), command.timeout),
            retry_cnt: when(has(AttributeBit::RetryCnt), command.retry_cnt),
            rnr_retry: when(has(AttributeBit::RnrRetry), command.rnr_retry),
            min_rnr_timer: when(has(AttributeBit::MinRnrTimer), command.min_rnr_timer),
            max_rd_atomic: when(has(AttributeBit::MaxRdAtomic), command.max_rd_atomic),
            max_dest_rd_atomic: when(has(AttributeBit::MaxDestRdAtomic), command.max_dest_rd_atomic),
            sport: when(has(AttributeBit::Sport), command.sport),
            selective: when(has(AttributeBit::Selective), command.selective),
            sqd_event: when(has(AttributeBit::SqdEvent), command.sqd_event),
        };
        if to == QpState::Reset {
            self.end_life(qpn)?;
        }
        // All that can be wrong was looked at.
        self.engine.modify_qp(qpn, &attr).map_err(|_| no_transition)?;
        if let Some(rings) = self.objects.qps.get_mut(&qpn) {
            if to == QpState::Reset {
                rings.begin_again();
            } else if has(AttributeBit::Av) {
                rings.av = None;
            }
        }
        self.read_sends(qpn, None);
        Ok(())
    }

    /// What a queue pair holds of its shared receive queue is flushed, and brought to memory, before its life ends.
    fn end_life(&mut self, qpn: u32) -> Result<(), Refusal> {
        let unknown = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.surrender(qpn).map_err(unknown)?;
        self.tell();
        self.objects.waiting.remove(&qpn);
        Ok(())
    }

    pub(super) fn query_qp(&mut self, qpn: u32) -> Result<u64, Refusal> {
        self.known_qp(qpn)?;
        let unknown = refusal(Status::BadObject, Attribute::Object);
        let status = self.engine.status(qpn).ok_or(unknown)?;
        let summary = QpSummary {
            state: status.state.code(),
            sq_draining: status.draining,
            sq_psn: status.sq_psn.get(),
            rq_psn: status.rq_psn.get(),
            ..QpSummary::default()
        };
        summary.to_bytes().map(u64::from_le_bytes).map_err(|_| unknown)
    }

    pub(super) fn destroy_qp(&mut self, qpn: u32) -> Result<(), Refusal> {
        self.known_qp(qpn)?;
        self.end_life(qpn)?;
        let unknown = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.destroy_qp(qpn).map_err(unknown)?;
        self.objects.qps.remove(&qpn);
        Ok(())
    }

    pub(super) fn create_ah(&mut self, command: &CreateAh) -> Result<(), Refusal> {
        let number = command.object;
        object(number, limits::AHS, self.engine.has_ah(number), false)?;
        self.need_pd(command.pd)?;
        let vector = way!(command).vector()?;
        let taken = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.add_ah(number, command.pd, vector).map_err(taken)
    }

    pub(super) fn destroy_ah(&mut self, number: u32) -> Result<(), Refusal> {
        let unknown = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.remove_ah(number).map_err(unknown)
    }
}

impl QpRings {
    /// In RESET, both queues are empty.
    fn begin_again(&mut self) {
        let empty = |ring: &mut WorkRing| (ring.told, ring.read) = (0, 0);
        empty(&mut self.sends);
        if let Receives::Own(ring) = &mut self.receives {
            empty(ring);
        }
        self.av = None;
    }
}
