// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands about completion queues, event queues and shared receive queues.

use ferrowire_spec::queue::command::create_cq::CreateCq;
use ferrowire_spec::queue::command::create_eq::CreateEq;
use ferrowire_spec::queue::command::create_srq::CreateSrq;
use ferrowire_spec::queue::command::modify_cq::ModifyCq;
use ferrowire_spec::queue::command::modify_srq::ModifySrq;
use ferrowire_spec::queue::command::resize_cq::ResizeCq;
use ferrowire_spec::queue::command_completion::cq_summary::CqSummary;
use ferrowire_spec::queue::command_completion::srq_summary::SrqSummary;
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::queue::recv_wqe;
use ferrowire_spec::queue::{CommandAttribute as Attribute, CommandStatus as Status};

use super::super::card::{Card, SrqRing};
use super::super::limits;
use super::super::rings::{CqRing, EqRing, WorkRing};
use super::{base, need, object, page, refusal, Refusal};
use crate::model::{Event, Instant};

impl Card {
    pub(super) fn create_cq(&mut self, command: &CreateCq) -> Result<(), Refusal> {
        let cqn = command.object;
        object(cqn, limits::CQS, self.objects.cqs.contains_key(&cqn), false)?;
        need(command.log2_entries <= limits::CQ_LOG2, Status::BadSize, Attribute::Log2Entries)?;
        base(command.base, Attribute::Base)?;
        let known = command.eqn == 0 || self.objects.eqs.contains_key(&command.eqn.into());
        need(known, Status::BadAttribute, Attribute::Eqn)?;
        page(command.doorbell_page)?;
        let taken = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.add_cq(cqn, 1 << command.log2_entries).map_err(taken)?;
        let ring = CqRing::new(command.base, command.log2_entries, command.doorbell_page, command.eqn);
        self.objects.cqs.insert(cqn, ring);
        Ok(())
    }

    pub(super) fn modify_cq(&mut self, command: &ModifyCq) -> Result<(), Refusal> {
        let cqn = command.object;
        object(cqn, limits::CQS, self.objects.cqs.contains_key(&cqn), true)?;
        let gone = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.moderate_cq(cqn, command.count, Instant::from(command.period_us) * 1000).map_err(gone)
    }

    pub(super) fn resize_cq(&mut self, command: &ResizeCq) -> Result<u64, Refusal> {
        let cqn = command.object;
        object(cqn, limits::CQS, self.objects.cqs.contains_key(&cqn), true)?;
        need(command.log2_entries <= limits::CQ_LOG2, Status::BadSize, Attribute::Log2Entries)?;
        base(command.base, Attribute::Base)?;
        // What has come about before goes to the old ring.
        self.tell();
        let unknown = refusal(Status::BadObject, Attribute::Object);
        self.engine.resize_cq(cqn, 1 << command.log2_entries).map_err(|_| unknown)?;
        let ring = self.objects.cqs.get_mut(&cqn).ok_or(unknown)?;
        let producer = ring.resize(command.base, command.log2_entries);
        let summary = CqSummary { producer, ..CqSummary::default() };
        summary.to_bytes().map(u64::from_le_bytes).map_err(|_| unknown)
    }

    pub(super) fn destroy_cq(&mut self, cqn: u32) -> Result<(), Refusal> {
        object(cqn, limits::CQS, self.objects.cqs.contains_key(&cqn), true)?;
        need(!self.engine.uses_cq(cqn), Status::Busy, Attribute::Object)?;
        let gone = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.remove_cq(cqn).map_err(gone)?;
        self.objects.cqs.remove(&cqn);
        self.objects.eqs.values_mut().for_each(|eq| eq.forget_cq(cqn));
        Ok(())
    }

    pub(super) fn create_eq(&mut self, command: &CreateEq) -> Result<(), Refusal> {
        let eqn = command.object;
        object(eqn, limits::EQS, self.objects.eqs.contains_key(&eqn) || eqn == 0, false)?;
        need(command.log2_entries <= limits::CQ_LOG2, Status::BadSize, Attribute::Log2Entries)?;
        base(command.base, Attribute::Base)?;
        need(u32::from(command.vector) < limits::EQS, Status::BadAttribute, Attribute::Vector)?;
        page(command.doorbell_page)?;
        let (page, vector) = (command.doorbell_page, command.vector);
        let ring = EqRing::new(command.base, command.log2_entries, page, vector, command.moderation_us);
        self.objects.eqs.insert(eqn, ring);
        if command.asynchronous {
            self.objects.asynchronous = Some(eqn);
        }
        Ok(())
    }

    pub(super) fn destroy_eq(&mut self, eqn: u32) -> Result<(), Refusal> {
        object(eqn, limits::EQS, self.objects.eqs.contains_key(&eqn), true)?;
        let used = self.objects.cqs.values().any(|cq| u32::from(cq.eqn) == eqn);
        need(!used, Status::Busy, Attribute::Object)?;
        self.objects.eqs.remove(&eqn);
        self.objects.asynchronous = self.objects.asynchronous.filter(|other| *other != eqn);
        Ok(())
    }

    pub(super) fn create_srq(&mut self, command: &CreateSrq) -> Result<(), Refusal> {
        let srqn = command.object;
        object(srqn, limits::SRQS, self.objects.srqs.contains_key(&srqn), false)?;
        self.need_pd(command.pd)?;
        need(command.log2_entries <= limits::WQ_LOG2, Status::BadSize, Attribute::Log2Entries)?;
        need(command.rq_stride <= recv_wqe::MAX_STRIDE, Status::BadSize, Attribute::RqStride)?;
        base(command.base, Attribute::Base)?;
        page(command.doorbell_page)?;
        let ring = WorkRing::new(command.base, command.log2_entries, command.rq_stride);
        need(usize::from(command.limit) <= ring.size(), Status::BadAttribute, Attribute::Limit)?;
        let taken = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.add_srq(srqn, command.pd, ring.size()).map_err(taken)?;
        self.engine.arm_srq(srqn, command.limit.into()).map_err(taken)?;
        self.objects.srqs.insert(srqn, SrqRing { page: command.doorbell_page, ring });
        Ok(())
    }

    pub(super) fn modify_srq(&mut self, command: &ModifySrq) -> Result<(), Refusal> {
        let srqn = command.object;
        let unknown = refusal(Status::BadObject, Attribute::Object);
        let srq = self.objects.srqs.get(&srqn).ok_or(unknown)?;
        let limit = usize::from(command.limit);
        need(limit <= srq.ring.size(), Status::BadAttribute, Attribute::Limit)?;
        let (left, _) = self.engine.srq_left(srqn).ok_or(unknown)?;
        // What is true already is told at once, and the arming is used up.
        let at_once = left < limit;
        self.engine.arm_srq(srqn, if at_once { 0 } else { limit }).map_err(|_| unknown)?;
        if at_once {
            self.tell_of(Event { kind: EventKind::SrqLimit, object: srqn, cause: 0 });
        }
        Ok(())
    }

    pub(super) fn query_srq(&mut self, srqn: u32) -> Result<u64, Refusal> {
        let unknown = refusal(Status::BadObject, Attribute::Object);
        let srq = self.objects.srqs.get(&srqn).ok_or(unknown)?;
        let (left, limit) = self.engine.srq_left(srqn).ok_or(unknown)?;
        let posted = srq.ring.told;
        // A queue has at most 2^15 receives.
        let taken = posted.wrapping_sub(left as u16);
        let summary = SrqSummary { taken, posted, limit: limit as u16, ..SrqSummary::default() };
        summary.to_bytes().map(u64::from_le_bytes).map_err(|_| unknown)
    }

    pub(super) fn destroy_srq(&mut self, srqn: u32) -> Result<(), Refusal> {
        object(srqn, limits::SRQS, self.objects.srqs.contains_key(&srqn), true)?;
        need(!self.engine.uses_srq(srqn), Status::Busy, Attribute::Object)?;
        let gone = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.remove_srq(srqn).map_err(gone)?;
        self.objects.srqs.remove(&srqn);
        Ok(())
    }
}
