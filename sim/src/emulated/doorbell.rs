// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells: what is rung for, by whom it may be, and what comes of it.

use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::queue::doorbell::cq::CqDoorbell;
use ferrowire_spec::queue::doorbell::eq::EqDoorbell;
use ferrowire_spec::queue::doorbell::rq::RqDoorbell;
use ferrowire_spec::queue::doorbell::sq::SqDoorbell;
use ferrowire_spec::queue::doorbell::{CQ, EQ, RQ, SQ};
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::QpState;

use super::card::{Card, Receives};
use super::wqe;
use crate::model::Event;

impl Card {
    /// A doorbell of a page. Whether it is one, of a queue that there is and that answers to that page, and says what can be.
    pub(super) fn ring(&mut self, page: u16, offset: u32, word: [u8; 8]) -> bool {
        let rung = match offset {
            SQ => SqDoorbell::parse(&word).map(|bell| self.ring_sends(page, &bell)),
            RQ => RqDoorbell::parse(&word).map(|bell| match bell.srq {
                false => self.ring_receives(page, &bell),
                true => self.ring_shared(page, &bell),
            }),
            CQ => CqDoorbell::parse(&word).map(|bell| self.ring_completions(page, &bell)),
            EQ => EqDoorbell::parse(&word).map(|bell| self.ring_events(page, &bell)),
            _ => return false,
        };
        rung.unwrap_or(false)
    }

    fn is_live(&self, qpn: u32) -> bool {
        self.engine.state(qpn).is_some_and(|state| state != QpState::Reset)
    }

    /// What the host did with its queue is no work request: the queue pair ends.
    fn overrun(&mut self, qpn: u32) {
        // It is there.
        let _ = self.engine.fail_qp(qpn, LocalCause::Overrun);
    }

    fn ring_sends(&mut self, page: u16, bell: &SqDoorbell) -> bool {
        let (live, busy) = (self.is_live(bell.qpn), self.engine.status(bell.qpn).map_or(0, |qp| qp.sends));
        let Some(rings) = self.objects.qps.get_mut(&bell.qpn).filter(|rings| rings.page == page && live)
        else {
            return false;
        };
        let stride = rings.sends.stride;
        match rings.sends.tell(bell.producer, busy) {
            None => self.overrun(bell.qpn),
            Some(new) => {
                // Of WQEs that wait for others, or have another size, the ring's are read.
                let alone = bell.pushed && new == 1 && rings.sends.waiting() == 1 && stride == 0;
                let pushed = alone.then(|| self.pushed(page, bell.push_slot)).flatten();
                self.read_sends(bell.qpn, pushed);
            }
        }
        true
    }

    fn ring_receives(&mut self, page: u16, bell: &RqDoorbell) -> bool {
        let (live, busy) = (self.is_live(bell.qpn), self.engine.status(bell.qpn).map_or(0, |qp| qp.receives));
        let Some(rings) = self.objects.qps.get_mut(&bell.qpn).filter(|rings| rings.page == page && live)
        else {
            return false;
        };
        let Receives::Own(ring) = &mut rings.receives else { return false };
        if ring.tell(bell.producer, busy).is_none() {
            self.overrun(bell.qpn);
            return true;
        }
        while let Some((index, bytes)) = ring.next(&self.host) {
            // There is room for as many as the ring has.
            let _ = self.engine.post_recv(bell.qpn, wqe::receive(index, bytes.as_deref()));
        }
        true
    }

    fn ring_shared(&mut self, page: u16, bell: &RqDoorbell) -> bool {
        let left = self.engine.srq_left(bell.qpn).map_or(0, |(left, _)| left);
        let Some(srq) = self.objects.srqs.get_mut(&bell.qpn).filter(|srq| srq.page == page) else {
            return false;
        };
        if srq.ring.tell(bell.producer, left).is_none() {
            if self.engine.fail_srq(bell.qpn) {
                let cause = LocalCause::Overrun.code();
                self.tell_of(Event { kind: EventKind::SrqFatal, object: bell.qpn, cause });
            }
            return true;
        }
        while let Some((index, bytes)) = srq.ring.next(&self.host) {
            let _ = self.engine.post_srq_recv(bell.qpn, wqe::receive(index, bytes.as_deref()));
        }
        true
    }

    fn ring_completions(&mut self, page: u16, bell: &CqDoorbell) -> bool {
        let Some(cq) = self.objects.cqs.get_mut(&bell.cqn).filter(|cq| cq.page == page) else {
            return false;
        };
        let Some(taken) = cq.take(bell.consumer) else { return false };
        let armed = cq.eqn != 0 && (bell.arm_next || bell.arm_solicited);
        let there = cq.unread(bell.seen);
        // They are there, as the queue is.
        let _ = self.engine.release(bell.cqn, taken as usize);
        if armed {
            let _ = self.engine.arm_cq_behind(bell.cqn, !bell.arm_next, there);
        }
        true
    }

    fn ring_events(&mut self, page: u16, bell: &EqDoorbell) -> bool {
        let Some(eq) = self.objects.eqs.get_mut(&bell.eqn.into()).filter(|eq| eq.page == page) else {
            return false;
        };
        let known = eq.take(&self.host, bell.consumer, &mut self.counts.events);
        if known && bell.arm {
            eq.arm();
        }
        known
    }
}
