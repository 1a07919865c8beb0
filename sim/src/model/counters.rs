// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a node counts, by the names that a card has for it.

use ferrowire_spec::csr::{DropReason, HwCounter, TrafficCounter};
use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::wire::syndrome::{NakCode, Syndrome};

use super::types::Completion;

/// Counters of selective retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectiveCounters {
    /// `selective_repeats`: packets sent again, without those of going back.
    pub repeats: u64,
    /// `selective_reports_sent`: reports sent.
    pub reports_sent: u64,
    /// `selective_reports_received`: reports received that were sound.
    pub reports_received: u64,
    /// `selective_reports_dropped`: reports received that were not.
    pub reports_dropped: u64,
    /// `selective_kept`: packets kept that came after a gap.
    pub kept: u64,
    /// `selective_probes`: probes sent.
    pub probes: u64,
    /// `reorder_buffer_full`: packets after a gap dropped because there was no room.
    pub reorder_buffer_full: u64,
}

/// Counters of a node, since it was made.
#[derive(Clone, Debug)]
pub struct Counters {
    drops: [u64; DropReason::ALL.len()],
    hw: [u64; HwCounter::ALL.len()],
    traffic: [u64; TrafficCounter::ALL.len()],
    pub(super) selective: SelectiveCounters,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            drops: [0; DropReason::ALL.len()],
            hw: [0; HwCounter::ALL.len()],
            traffic: [0; TrafficCounter::ALL.len()],
            selective: SelectiveCounters::default(),
        }
    }
}

/// Codes are the places of their counters, without gaps.
const _: () = {
    let mut at = 0;
    while at < HwCounter::ALL.len() {
        assert!(HwCounter::ALL[at] as usize == at);
        at += 1;
    }
    at = 0;
    while at < DropReason::ALL.len() {
        assert!(DropReason::ALL[at] as usize == at);
        at += 1;
    }
    at = 0;
    while at < TrafficCounter::ALL.len() {
        assert!(TrafficCounter::ALL[at] as usize == at);
        at += 1;
    }
};

impl Counters {
    /// Packets dropped for a reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// What a node does beside sending and receiving well.
    pub fn hw(&self, counter: HwCounter) -> u64 {
        self.hw[counter as usize]
    }

    /// Frames, bytes and completions. What only a card has, commands and doorbells and the like, is zero here.
    pub fn traffic(&self, counter: TrafficCounter) -> u64 {
        self.traffic[counter as usize]
    }

    /// What selective retransmission did.
    pub fn selective(&self) -> SelectiveCounters {
        self.selective
    }

    pub(super) fn dropped(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
        if reason == DropReason::Icrc {
            self.count(HwCounter::RxIcrcEncapsulated);
        }
    }

    pub(super) fn count(&mut self, counter: HwCounter) {
        self.hw[counter as usize] += 1;
    }

    pub(super) fn note(&mut self, counter: TrafficCounter, amount: u64) {
        self.traffic[counter as usize] += amount;
    }

    /// A completion, whether its queue has room or not.
    pub(super) fn completed(&mut self, done: &Completion) {
        let counter = match (done.opcode.is_receive(), done.status) {
            (_, WcStatus::Success) => return,
            (true, WcStatus::WrFlushErr) => HwCounter::RespCqeFlushError,
            (false, WcStatus::WrFlushErr) => HwCounter::ReqCqeFlushError,
            (true, status) => {
                if status == WcStatus::LocLenErr {
                    self.count(HwCounter::RespLocalLengthError);
                }
                HwCounter::RespCqeError
            }
            (false, WcStatus::RnrRetryExcErr) => {
                self.count(HwCounter::RnrNakRetryErr);
                HwCounter::ReqCqeError
            }
            (false, WcStatus::RetryExcErr) => {
                self.count(HwCounter::RetryExceededErr);
                HwCounter::ReqCqeError
            }
            (false, _) => HwCounter::ReqCqeError,
        };
        self.count(counter);
    }

    /// A NAK that is sent.
    pub(super) fn refused(&mut self, syndrome: Syndrome) {
        self.count(match syndrome {
            Syndrome::Rnr { .. } => HwCounter::SendRnrErr,
            Syndrome::Nak(NakCode::SequenceError) => HwCounter::SeqNakSent,
            Syndrome::Nak(NakCode::InvalidRequest) => HwCounter::RespRemoteInvalidRequest,
            Syndrome::Nak(NakCode::RemoteAccess) => HwCounter::RespRemoteAccessErrors,
            Syndrome::Nak(NakCode::RemoteOperational) => HwCounter::RespRemoteOperationErrors,
            _ => return,
        });
    }

    /// A NAK that has come and is no ghost.
    pub(super) fn heard(&mut self, syndrome: Syndrome) {
        self.count(match syndrome {
            Syndrome::Rnr { .. } => HwCounter::RcvdRnrErr,
            Syndrome::Nak(NakCode::SequenceError) => HwCounter::PacketSeqErr,
            Syndrome::Nak(NakCode::InvalidRequest) => HwCounter::ReqRemoteInvalidRequest,
            Syndrome::Nak(NakCode::RemoteAccess) => HwCounter::ReqRemoteAccessErrors,
            Syndrome::Nak(NakCode::RemoteOperational) => HwCounter::ReqRemoteOperationErrors,
            _ => return,
        });
    }
}
