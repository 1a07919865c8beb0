// SPDX-License-Identifier: MIT OR Apache-2.0
//! A requester's memory of what is under way: a list of messages for each QP.

use super::MODULUS;
use ferrowire_spec::queue::cqe::WcStatus;
use std::collections::VecDeque;

/// What the host sees: opcode, bytes, WQE, status, syndrome.
pub type Done = (u8, u32, u16, u8, u8);

#[derive(Clone, Debug)]
pub struct Message {
    pub first: u32,
    pub last: u32,
    pub signaled: bool,
    pub opcode: u8,
    pub length: u32,
    pub status: u8,
    pub cause: u8,
}

/// A requester's memory of what is under way.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    pub runs: bool,
    pub dead: bool,
    pub ipv6: bool,
    pub peer: u128,
    pub messages: VecDeque<Message>,
    pub next_psn: u32,
    pub oldest_psn: u32,
    pub oldest_index: u16,
    pub sent_index: u16,
    /// First PSN of a message of which some packets are sent.
    pub open: Option<u32>,
    /// Beats of `sent` up to the last one of this QP.
    pub sent_beats: usize,
    pub done: Vec<Done>,
    pub faults: usize,
    /// It stands at its limit until the next kick.
    pub blocked: bool,
    /// What the scheduler has been told.
    pub told: u16,
}

impl Requester {
    /// Distance from the oldest unacknowledged PSN.
    pub fn ahead(&self, psn: u32) -> u32 {
        psn.wrapping_sub(self.oldest_psn) % MODULUS
    }

    /// Everything before `upto` has arrived (IBTA volume 1, 9.7.5.1).
    pub fn acknowledge(&mut self, upto: u32) {
        while let Some(message) = self.messages.front() {
            if message.status != 0 || self.ahead(message.last) >= self.ahead(upto) {
                break;
            }
            let m = self.messages.pop_front().unwrap();
            if m.signaled {
                self.done.push((m.opcode, m.length, self.oldest_index, 0, 0));
            }
            self.oldest_index = self.oldest_index.wrapping_add(1);
        }
        self.oldest_psn = upto;
    }

    pub fn fail(&mut self, status: u8, cause: u8) {
        self.done.push((0, 0, self.oldest_index, status, cause));
        self.oldest_index = self.oldest_index.wrapping_add(1);
        self.dead = true;
        self.faults += 1;
    }

    /// A WQE that failed here ends once it is the oldest.
    pub fn settle(&mut self) {
        if let Some(message) = self.messages.front() {
            if message.status != 0 && !self.dead {
                let (status, cause) = (message.status, message.cause);
                self.fail(status, cause);
            }
        }
    }

    /// Returns whether the answer is dropped.
    pub fn answer(&mut self, psn: u32, syndrome: u8) -> bool {
        let unsent = self.ahead(psn) >= self.ahead(self.next_psn);
        if self.dead || !self.runs || unsent || !matches!(syndrome >> 5, 0 | 1 | 3) {
            return true;
        }
        if syndrome >> 5 == 0 {
            self.acknowledge((psn + 1) % MODULUS);
            self.settle();
            return false;
        }
        self.acknowledge(psn);
        self.settle();
        if !self.dead {
            let status = match syndrome {
                0x20..0x40 => WcStatus::RnrRetryExcErr,
                0x61 => WcStatus::RemInvReqErr,
                0x62 => WcStatus::RemAccessErr,
                0x63 => WcStatus::RemOpErr,
                _ => WcStatus::RetryExcErr,
            };
            self.fail(status.code(), syndrome);
        }
        false
    }
}
