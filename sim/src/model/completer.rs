// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completer: what answers do to the send queue (IBTA 9.7.5, 9.7.6, 9.9.2).

use ferrowire_spec::csr::{DropReason, HwCounter};
use ferrowire_spec::queue::cqe::{LocalCause, WcStatus};
use ferrowire_spec::wire::opcode::{Operation, Position};
use ferrowire_spec::wire::syndrome::{self, NakCode, Syndrome};
use ferrowire_spec::wire::{Aeth, Frame, Opcode};
use ferrowire_spec::Psn;

use super::engine::Node;
use super::qp::Qp;
use super::types::Instant;

impl Qp {
    pub(super) fn rc_response(&mut self, node: &mut Node, now: Instant, frame: &Frame<'_>, opcode: Opcode) {
        let psn = Psn::new(frame.bth.psn);
        // A reserved code is no answer, wherever it stands (IBTA 9.7.5.2.1).
        let syndrome = frame.ext.aeth.map(|aeth| Syndrome::decode(aeth.syndrome));
        if opcode == Opcode::RcAcknowledge && matches!(syndrome, Some(Syndrome::Reserved(_))) {
            return node.drop_for(DropReason::Malformed);
        }
        if !psn.is_within(self.sq.una, self.sq.outstanding()) {
            // Not outstanding: a ghost, unless it is an acknowledgement of the last PSN once more that grants credits
            // (IBTA 9.7.7.2.4).
            match frame.ext.aeth {
                Some(aeth) if opcode == Opcode::RcAcknowledge && psn.next() == self.sq.una => {
                    if let Syndrome::Ack { .. } = Syndrome::decode(aeth.syndrome) {
                        self.take_credits(&aeth);
                    }
                }
                _ => {}
            }
            node.drop_for(DropReason::GhostAck);
            return;
        }
        let before = self.sq.una;
        match opcode.operation() {
            Operation::Acknowledge => {
                let Some(aeth) = frame.ext.aeth else { return };
                node.counters.heard(Syndrome::decode(aeth.syndrome));
                self.acknowledgement(node, now, &aeth, psn);
            }
            Operation::ReadResponse => self.read_response(node, frame, opcode.position(), psn),
            _ => self.atomic_answer(node, frame, psn),
        }
        self.after_response(node, now, before);
    }

    /// What a response did beside: `una` was there before it.
    fn after_response(&mut self, node: &mut Node, now: Instant, before: Psn) {
        if !matches!(self.state, ferrowire_spec::QpState::Err) {
            if self.sq.una != before {
                self.was_acknowledged(node, now);
            }
            self.retire(node);
            self.expect_more(node, now);
        }
    }

    /// An acknowledgement or NAK that had to wait for responses.
    pub(super) fn late_acknowledgement(&mut self, node: &mut Node, now: Instant, aeth: &Aeth, psn: Psn) {
        let before = self.sq.una;
        self.acknowledgement(node, now, aeth, psn);
        self.after_response(node, now, before);
    }

    /// The last message that the peer has room for: those that it has completed, and its free receives (IBTA 9.7.7.2.2).
    fn take_credits(&mut self, aeth: &Aeth) {
        if let Syndrome::Ack { credit } = Syndrome::decode(aeth.syndrome) {
            self.sq.lsn = syndrome::credits(credit).map(|free| Psn::new(aeth.msn) + u32::from(free));
        }
    }

    fn acknowledgement(&mut self, node: &mut Node, now: Instant, aeth: &Aeth, psn: Psn) {
        let syndrome = Syndrome::decode(aeth.syndrome);
        if self.selective.is_some() {
            let upto = if matches!(syndrome, Syndrome::Ack { .. }) { psn.next() } else { psn };
            if !self.sq.acknowledge(upto) {
                return self.waits_for_responses(psn, *aeth);
            }
        }
        match syndrome {
            Syndrome::Ack { .. } => {
                self.take_credits(aeth);
                if !self.sq.acknowledge(psn.next()) {
                    self.implied_nak(node);
                }
            }
            Syndrome::Nak(NakCode::SequenceError) => {
                // It acknowledges what is before it (IBTA 9.7.5.1.1), unless an answer from there is missing.
                if !self.sq.acknowledge(psn) {
                    self.implied_nak(node);
                } else if self.sq.recovering != Some(psn) && psn.is_before(self.sq.next) {
                    self.sq.recovering = Some(psn);
                    self.retry(node, psn, LocalCause::Sequence);
                }
            }
            Syndrome::Rnr { timer } => {
                if !self.sq.acknowledge(psn) {
                    self.implied_nak(node);
                } else if psn.is_before(self.sq.next) {
                    self.not_ready(node, now, psn, timer, aeth.syndrome);
                }
            }
            Syndrome::Nak(code) => {
                if !self.sq.acknowledge(psn) {
                    self.implied_nak(node);
                    return;
                }
                self.retire(node);
                let status = match code {
                    NakCode::InvalidRequest => WcStatus::RemInvReqErr,
                    NakCode::RemoteAccess => WcStatus::RemAccessErr,
                    _ => WcStatus::RemOpErr,
                };
                self.fail_oldest(node, status, aeth.syndrome);
            }
            // Those have been dropped.
            Syndrome::Reserved(_) => {}
        }
    }

    /// Waits as long as the peer says, then sends from there (IBTA 9.7.5.2.8). While it waits, or when it has gone back
    /// already, another one says nothing new.
    fn not_ready(&mut self, node: &mut Node, now: Instant, psn: Psn, timer: u8, syndrome: u8) {
        if self.sq.rnr_until.is_some() {
            return;
        }
        if self.rnr_retry != 7 {
            if self.sq.rnr_retries == 0 {
                self.retire(node);
                self.fail_oldest(node, WcStatus::RnrRetryExcErr, syndrome);
                return;
            }
            self.sq.rnr_retries -= 1;
        }
        // It is an answer: the path works, and time-outs before it count no more (IBTA 9.9.2.1.1). Else a peer that is not
        // ready for ever, as 7 allows, would end the connection with the few answers that get lost.
        self.sq.retries = self.retry_cnt;
        let wait = node.config.by_tick(u64::from(syndrome::rnr_timer_us(timer)) * 1000);
        self.sq.rnr_until = Some(now.saturating_add(wait));
        self.sq.deadline = None;
        self.sq.recovering = None;
        self.gives_up_repetitions();
        self.sq.go_back(psn);
    }

    /// An answer of a READ or atomic is missing, and one that comes after it is here (IBTA 9.7.5.1.1): go back to it, once.
    fn implied_nak(&mut self, node: &mut Node) {
        let una = self.sq.una;
        if self.sq.recovering == Some(una) || !una.is_before(self.sq.next) {
            return;
        }
        node.counters.count(HwCounter::ImpliedNakSeqErr);
        self.sq.recovering = Some(una);
        self.retry(node, una, LocalCause::Sequence);
    }

    fn bad_response(&mut self, node: &mut Node) {
        self.retire(node);
        self.fail_oldest(node, WcStatus::BadRespErr, LocalCause::Response as u8);
    }

    /// Brings `una` to `psn`, if everything before it is acknowledged by it (IBTA 9.7.5.1.3: an answer acknowledges
    /// requests before it); else goes back.
    fn reach(&mut self, node: &mut Node, psn: Psn) -> bool {
        let reached = self.sq.acknowledge(psn);
        if !reached {
            self.implied_nak(node);
        }
        reached
    }

    fn read_response(&mut self, node: &mut Node, frame: &Frame<'_>, position: Position, psn: Psn) {
        if !self.reach(node, psn) {
            return;
        }
        let Some(at) = self.sq.find(psn).filter(|at| self.sq.entries[*at].is_read()) else {
            return self.bad_response(node);
        };
        let entry = &self.sq.entries[at];
        let index = psn.distance_from(entry.first);
        let offset = u64::from(index) * self.mtu as u64;
        let bytes = (entry.len - offset).min(self.mtu as u64);
        // A response may belong to any of the requests that were sent for it, so FIRST and ONLY may stand where one of
        // them began, and MIDDLE and LAST everywhere but at the very first. The last PSN is LAST or ONLY, and no other.
        // A peer that answers a request for the rest with MIDDLE, as Linux does, is understood so too.
        let begins = entry.starts.contains(&psn);
        let ends = psn.next() == entry.end();
        let in_place = match position {
            Position::First => begins && !ends,
            Position::Middle => index > 0 && !ends,
            Position::Last => index > 0 && ends,
            // One that was asked for alone is an ONLY wherever it is.
            Position::Only => begins && (ends || self.selective.is_some()),
        };
        let acked =
            frame.ext.aeth.is_none_or(|h| matches!(Syndrome::decode(h.syndrome), Syndrome::Ack { .. }));
        if !in_place || !acked || frame.payload.len() as u64 != bytes {
            return self.bad_response(node);
        }
        let sges = entry.wr.sges.clone();
        if let Err(cause) = node.scatter(self.pd, &sges, offset, frame.payload) {
            self.retire(node);
            self.fail_oldest(node, WcStatus::LocProtErr, cause as u8);
            return;
        }
        if let Some(aeth) = &frame.ext.aeth {
            self.take_credits(aeth);
        }
        self.sq.advance(psn.next());
    }

    fn atomic_answer(&mut self, node: &mut Node, frame: &Frame<'_>, psn: Psn) {
        if !self.reach(node, psn) {
            return;
        }
        let Some(at) = self.sq.find(psn).filter(|at| self.sq.entries[*at].is_atomic()) else {
            return self.bad_response(node);
        };
        let (Some(aeth), Some(answer)) = (frame.ext.aeth, frame.ext.atomic_ack) else { return };
        if !matches!(Syndrome::decode(aeth.syndrome), Syndrome::Ack { .. }) {
            return self.bad_response(node);
        }
        // The value comes as a number and is stored as the host has numbers (IBTA 9.4.5.1): least byte first.
        let sges = self.sq.entries[at].wr.sges.clone();
        if let Err(cause) = node.scatter(self.pd, &sges, 0, &answer.orig.to_le_bytes()) {
            self.retire(node);
            self.fail_oldest(node, WcStatus::LocProtErr, cause as u8);
            return;
        }
        self.take_credits(&aeth);
        self.sq.advance(psn.next());
    }
}
