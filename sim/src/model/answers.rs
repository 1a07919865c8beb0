// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a responder has yet to send: acknowledgements, NAKs, READ responses, answers of atomics, in PSN order (IBTA 9.7.5).

use ferrowire_spec::wire::opcode::{Operation, Position, Service};
use ferrowire_spec::wire::syndrome::Syndrome;
use ferrowire_spec::wire::{Aeth, AtomicAckEth, Bth, Extensions, Opcode};
use ferrowire_spec::Psn;

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
        data: Vec<u8>,
        /// Responses sent.
        sent: u32,
        aeth: Aeth,
        /// The request was a duplicate.
        again: bool,
    },
    /// Of an atomic.
    Atomic { psn: Psn, original: u64, aeth: Aeth, again: bool },
}

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

    /// Answers a READ with a copy of the memory.
    pub(super) fn answer_read(&mut self, node: &Node, psn: Psn, data: Vec<u8>, again: bool) {
        let aeth = self.aeth(node, Syndrome::ACK);
        self.responder.answers.push_back(Answer::Read { psn, data, sent: 0, aeth, again });
    }

    /// Answers an atomic.
    pub(super) fn answer_atomic(&mut self, node: &Node, psn: Psn, original: u64, again: bool) {
        let aeth = self.aeth(node, Syndrome::ACK);
        self.responder.answers.push_back(Answer::Atomic { psn, original, aeth, again });
    }

    /// Whether the next packet of an answer carries data.
    pub(super) fn answers_with_data(&self) -> bool {
        matches!(self.responder.answers.front(), Some(Answer::Read { .. }))
    }

    /// The next packet of an answer.
    pub(super) fn next_answer(&mut self, node: &Node) -> Option<Vec<u8>> {
        let mtu = self.mtu;
        let front = self.responder.answers.front_mut()?;
        let mut ext = Extensions::default();
        let mut payload = Vec::new();
        let mut more = false;
        let (opcode, psn) = match front {
            Answer::Acknowledge { psn, aeth } => {
                ext.aeth = Some(*aeth);
                (Opcode::RcAcknowledge, *psn)
            }
            Answer::Atomic { psn, original, aeth, .. } => {
                ext.aeth = Some(*aeth);
                ext.atomic_ack = Some(AtomicAckEth { orig: *original });
                (Opcode::RcAtomicAcknowledge, *psn)
            }
            Answer::Read { psn, data, sent, aeth, .. } => {
                let at = *psn;
                let rest = data.get(*sent as usize * mtu..).unwrap_or_default();
                payload.extend_from_slice(&rest[..rest.len().min(mtu)]);
                more = rest.len() > mtu;
                // By what was asked for, not by what it was a part of (IBTA 9.7.5.1.5): a request for the rest of a READ
                // is answered with FIRST or ONLY at its beginning.
                let count = if more { *sent + 2 } else { *sent + 1 };
                let position = packet::position(*sent, count);
                ext.aeth = (position != Position::Middle).then_some(*aeth);
                *psn = psn.next();
                *sent += 1;
                (packet::opcode(Service::Rc, Operation::ReadResponse, position, false, false)?, at)
            }
        };
        if !more {
            self.responder.answers.pop_front();
        }
        let bth = Bth {
            opcode: opcode as u8,
            pkey: self.pkey,
            destqp: self.dest_qpn,
            psn: psn.get(),
            ..Bth::default()
        };
        Some(packet::build(&node.config, &self.av?, self.sport, bth, ext, &payload))
    }
}
