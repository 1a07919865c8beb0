// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a responder has yet to send: acknowledgements, NAKs, READ responses, answers of atomics, in PSN order (IBTA 9.7.5).

use std::collections::VecDeque;

use ferrowire_spec::wire::opcode::{Operation, Position, Service};
use ferrowire_spec::wire::report;
use ferrowire_spec::wire::syndrome::Syndrome;
use ferrowire_spec::wire::{Aeth, AtomicAckEth, Bth, Extensions, Frame, Opcode, Reth};
use ferrowire_spec::{Psn, QpState};

use super::engine::Node;
use super::packet;
use super::qp::Qp;

/// An answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// Acknowledgement or NAK.
    Acknowledge { psn: Psn, aeth: Aeth },
    /// The rest of a READ's responses.
    Read {
        /// Of the next response.
        psn: Psn,
        /// What was asked for. Its bytes are read when their response is sent, so that an answer takes no memory however long it is.
        reth: Reth,
        /// Responses sent.
        sent: u32,
        aeth: Aeth,
        /// The request was a duplicate.
        again: bool,
        mark: Mark,
    },
    /// Of an atomic.
    Atomic { psn: Psn, original: u64, aeth: Aeth, again: bool, mark: Mark },
}

/// What of a READ or atomic request its responses repeat for selective retransmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    first_time: bool,
    distance: u8,
}

/// The answer of a duplicate that has one response.
pub(super) enum First {
    /// Of a READ.
    Read(Reth),
    /// Of an atomic.
    Atomic(u64),
}

/// Answers before all others that may wait to be sent: as many as a peer has PSNs under way.
const MAX_FIRST: usize = report::REACH as usize;

impl Answer {
    /// Whether it takes one of the slots that the peer may fill (IBTA 9.7.3.3.1): repetitions do not.
    pub(super) fn takes_slot(&self) -> bool {
        matches!(self, Answer::Read { again: false, .. } | Answer::Atomic { again: false, .. })
    }
}

impl Qp {
    fn aeth(&self, node: &Node, syndrome: Syndrome) -> Aeth {
        let syndrome = match syndrome {
            Syndrome::Ack { .. } if node.config.credits => Syndrome::Ack { credit: self.rq.credit() },
            other => other,
        };
        Aeth { syndrome: syndrome.encode(), msn: self.responder.msn.get() }
    }

    /// Acknowledges everything through `psn`. One that still waits to be sent is replaced: they may be coalesced (IBTA
    /// 9.7.5.1.2).
    pub(super) fn acknowledge(&mut self, node: &Node, psn: Psn) {
        let new = Answer::Acknowledge { psn, aeth: self.aeth(node, Syndrome::ACK) };
        match self.responder.answers.back_mut() {
            Some(Answer::Acknowledge { aeth, .. })
                if matches!(Syndrome::decode(aeth.syndrome), Syndrome::Ack { .. }) =>
            {
                self.responder.answers.pop_back();
            }
            _ => {}
        }
        self.responder.answers.push_back(new);
    }

    /// A NAK of any kind.
    pub(super) fn refuse_with(&mut self, node: &mut Node, psn: Psn, syndrome: Syndrome) {
        node.counters.refused(syndrome);
        let aeth = self.aeth(node, syndrome);
        self.responder.answers.push_back(Answer::Acknowledge { psn, aeth });
    }

    /// Answers a READ.
    pub(super) fn answer_read(&mut self, node: &Node, psn: Psn, reth: Reth, again: bool, mark: Mark) {
        let aeth = self.aeth(node, Syndrome::ACK);
        self.responder.answers.push_back(Answer::Read { psn, reth, sent: 0, aeth, again, mark });
    }

    /// Answers an atomic.
    pub(super) fn answer_atomic(&mut self, node: &Node, psn: Psn, original: u64, again: bool, mark: Mark) {
        let aeth = self.aeth(node, Syndrome::ACK);
        self.responder.answers.push_back(Answer::Atomic { psn, original, aeth, again, mark });
    }

    /// What the responses to a request repeat of it. Without agreement, nothing.
    pub(super) fn mark(&self, frame: &Frame<'_>) -> Mark {
        match self.selective {
            Some(_) => Mark { first_time: frame.bth.migreq, distance: frame.bth.resv7 },
            None => Mark { first_time: true, distance: 0 },
        }
    }

    /// Answers a duplicate that has one response before all that is pending; gives whether there was room.
    pub(super) fn answer_first(&mut self, node: &Node, psn: Psn, what: First, mark: Mark) -> bool {
        let aeth = self.aeth(node, Syndrome::ACK);
        let first = &mut self.responder.first;
        if first.len() >= MAX_FIRST {
            return false;
        }
        first.push_back(match what {
            First::Read(reth) => Answer::Read { psn, reth, sent: 0, aeth, again: true, mark },
            First::Atomic(original) => Answer::Atomic { psn, original, aeth, again: true, mark },
        });
        true
    }

    fn next_in_line(&mut self) -> &mut VecDeque<Answer> {
        match self.responder.first.is_empty() {
            true => &mut self.responder.answers,
            false => &mut self.responder.first,
        }
    }

    /// Whether the next packet of an answer carries data.
    pub(super) fn answers_with_data(&self) -> bool {
        let next = self.responder.first.front().or(self.responder.answers.front());
        self.due_report().is_none() && matches!(next, Some(Answer::Read { .. }))
    }

    /// The payload of the next answer. The right to read, or the memory, may have gone since the request: then a NAK takes the place of this answer and
    /// of all after it, as in the hardware.
    fn answer_payload(&mut self, node: &mut Node) -> Vec<u8> {
        loop {
            let Some(Answer::Read { psn, reth, sent, again, .. }) = self.next_in_line().front() else {
                return Vec::new();
            };
            let (psn, reth, sent, again) = (*psn, *reth, *sent, *again);
            match self.response(node, &reth, sent) {
                Ok(data) => return data,
                // The answer of a late copy, without which the connection goes on, or of one that has ended.
                Err(_) if again || self.state == QpState::Err => drop(self.next_in_line().pop_front()),
                Err(refusal) => {
                    self.responder.forget_answers();
                    self.refuse(node, psn, refusal);
                }
            }
        }
    }

    /// The next packet of an answer.
    pub(super) fn next_answer(&mut self, node: &mut Node) -> Option<Vec<u8>> {
        if let Some(report) = self.next_report(node) {
            return Some(report);
        }
        let mtu = self.mtu;
        let payload = self.answer_payload(node);
        let front = self.next_in_line().front_mut()?;
        let mut ext = Extensions::default();
        let mut more = false;
        let (mut migreq, mut resv7) = (true, 0);
        let (opcode, psn) = match front {
            Answer::Acknowledge { psn, aeth } => {
                ext.aeth = Some(*aeth);
                (Opcode::RcAcknowledge, *psn)
            }
            Answer::Atomic { psn, original, aeth, mark, .. } => {
                (migreq, resv7) = (mark.first_time, mark.distance);
                ext.aeth = Some(*aeth);
                ext.atomic_ack = Some(AtomicAckEth { orig: *original });
                (Opcode::RcAtomicAcknowledge, *psn)
            }
            Answer::Read { psn, reth, sent, aeth, mark, .. } => {
                let at = *psn;
                more = u64::from(reth.len) > (u64::from(*sent) + 1) * mtu as u64;
                // By what was asked for, not by what it was a part of (IBTA 9.7.5.1.5): a request for the rest of a READ
                // is answered with FIRST or ONLY at its beginning.
                let count = if more { *sent + 2 } else { *sent + 1 };
                let position = packet::position(*sent, count);
                ext.aeth = (position != Position::Middle).then_some(*aeth);
                migreq = mark.first_time;
                resv7 = if position.begins() { mark.distance } else { 0 };
                *psn = psn.next();
                *sent += 1;
                (packet::opcode(Service::Rc, Operation::ReadResponse, position, false, false)?, at)
            }
        };
        if !more {
            self.next_in_line().pop_front();
        }
        let bth = Bth {
            opcode: opcode as u8,
            pkey: self.pkey,
            destqp: self.dest_qpn,
            psn: psn.get(),
            migreq,
            resv7,
            ..Bth::default()
        };
        Some(packet::build(&node.config, &self.av?, self.sport, bth, ext, &payload))
    }
}
