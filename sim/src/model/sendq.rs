// SPDX-License-Identifier: MIT OR Apache-2.0
//! The send queue: WQEs, their PSNs, and how far each is sent and acknowledged (IBTA 9.7.2, 10.8.3).
//!
//! ```text
//!   retired | acknowledged | sent, not acknowledged | to be sent (again)     | never sent
//!           +--------------+------------------------+------------------------+-----------
//!                          ^ una                    ^ next (a go-back moves  ^ sent
//!                                                     it left)
//! ```

use std::collections::VecDeque;

use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::Psn;

use super::types::{Instant, SendWr};

/// A WQE.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) wr: SendWr,
    /// It has its PSNs, or, when it takes none, has been executed.
    pub(super) begun: bool,
    pub(super) first: Psn,
    /// PSNs; 0 for a local operation.
    pub(super) packets: u32,
    /// Bytes of the message.
    pub(super) len: u64,
    /// Number of the message, modulo 2^24 (IBTA 9.7.7.2.1); a [`Psn`] for its arithmetic.
    pub(super) ssn: Psn,
    /// It could begin only because one message may be sent without a credit.
    pub(super) limited: bool,
    /// PSNs at which a READ was sent: there a response begins.
    pub(super) starts: Vec<Psn>,
    /// PSNs between the READ or atomic before it and this one, for selective retransmission.
    pub(super) distance: u8,
    /// It has failed for a local reason, and completes when those before it have.
    pub(super) failed: Option<(WcStatus, u8)>,
}

impl Entry {
    pub(super) fn end(&self) -> Psn {
        self.first + self.packets
    }

    pub(super) fn is_read(&self) -> bool {
        self.wr.opcode == SendOpcode::Read
    }

    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.wr.opcode, SendOpcode::CmpSwap | SendOpcode::FetchAdd)
    }

    /// Whether an answer must come that no acknowledgement of a later packet replaces.
    pub(super) fn is_answered(&self) -> bool {
        self.is_read() || self.is_atomic()
    }

    fn holds(&self, psn: Psn) -> bool {
        self.begun && psn.is_within(self.first, self.packets)
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    pub(super) entries: VecDeque<Entry>,
    /// The entry whose packet is next.
    pub(super) cursor: usize,
    /// PSN of the next packet.
    pub(super) next: Psn,
    /// Oldest PSN not acknowledged.
    pub(super) una: Psn,
    /// One past the last PSN that was given out.
    pub(super) sent: Psn,
    /// One past the last PSN that was sent: what is before it is sent again.
    pub(super) top: Psn,
    /// Number of the last message begun.
    pub(super) ssn: Psn,
    /// Number of the last message that the peer has room for; `None`: no limit (IBTA 9.7.7.2).
    pub(super) lsn: Option<Psn>,
    /// Transport and RNR retries left, and as many as there are after progress.
    pub(super) retries: u8,
    pub(super) rnr_retries: u8,
    full: (u8, u8),
    /// Nothing is sent before.
    pub(super) rnr_until: Option<Instant>,
    /// An acknowledgement must come before.
    pub(super) deadline: Option<Instant>,
    /// It was gone back to that PSN for a NAK; another one for the same PSN says nothing new.
    pub(super) recovering: Option<Psn>,
}

impl SendQueue {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn start_at(&mut self, psn: Psn) {
        (self.next, self.una, self.sent, self.top) = (psn, psn, psn, psn);
    }

    pub(super) fn allow_retries(&mut self, transport: u8, rnr: u8) {
        self.full = (transport, rnr);
        (self.retries, self.rnr_retries) = self.full;
    }

    pub(super) fn post(&mut self, wr: SendWr) {
        self.entries.push_back(Entry {
            wr,
            begun: false,
            first: Psn::default(),
            packets: 0,
            len: 0,
            ssn: Psn::default(),
            limited: false,
            starts: Vec::new(),
            distance: 0,
            failed: None,
        });
    }

    /// PSNs given out and not acknowledged.
    pub(super) fn outstanding(&self) -> u32 {
        self.sent.distance_from(self.una)
    }

    /// READs and atomics begun and not answered.
    pub(super) fn answers_awaited(&self) -> usize {
        self.entries.iter().filter(|e| e.begun && e.is_answered() && self.una.is_before(e.end())).count()
    }

    /// The entry that has a PSN.
    pub(super) fn find(&self, psn: Psn) -> Option<usize> {
        self.entries.iter().position(|entry| entry.holds(psn))
    }

    /// Sends from a PSN on, which has been given out or is the next to be.
    pub(super) fn go_back(&mut self, psn: Psn) {
        self.next = psn;
        self.cursor = match self.find(psn) {
            Some(at) => at,
            None => self.entries.iter().take_while(|entry| entry.begun).count(),
        };
    }

    /// Something was acknowledged: retries are as at the beginning, and the time runs anew.
    fn progress(&mut self) {
        (self.retries, self.rnr_retries) = self.full;
        self.recovering = None;
        self.deadline = None;
    }

    /// Acknowledges what lies before `upto`, but for answers that are missing: then it stops there and gives `false`
    /// (IBTA 9.7.5.1.1, 9.7.6.1.1: implied NAK).
    pub(super) fn acknowledge(&mut self, upto: Psn) -> bool {
        while self.una != upto {
            let Some(entry) = self.find(self.una).map(|at| &self.entries[at]) else { return true };
            if entry.is_answered() {
                return false;
            }
            let end = entry.end();
            let to = if upto.is_before(end) { upto } else { end };
            self.advance(to);
        }
        true
    }

    /// Acknowledges everything before `to`.
    pub(super) fn advance(&mut self, to: Psn) {
        if to == self.una {
            return;
        }
        self.una = to;
        self.progress();
        if self.next.is_before(to) {
            self.go_back(to);
        }
    }

    /// The oldest entry, if it is done.
    pub(super) fn pop_done(&mut self) -> Option<Entry> {
        let head = self.entries.front()?;
        // A local operation is done when it is begun.
        if !head.begun || head.packets > 0 && self.una.is_before(head.end()) {
            return None;
        }
        self.cursor = self.cursor.saturating_sub(1);
        self.entries.pop_front()
    }
}
