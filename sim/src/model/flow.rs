// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Flow`]: the packets of one direction of a queue pair with selective retransmission, and which of them are missing.
//!
//! ```text
//!   handed on | missing | kept | missing | kept, kept | not here
//!             ^ base                            ^ last kept
//! ```

use ferrowire_spec::wire::report::REACH;
use ferrowire_spec::wire::Report;
use ferrowire_spec::Psn;

use super::types::Instant;

/// Kept packets after a missing one that make it a lost one, at first.
pub(super) const TOLERANCE: u32 = 32;
/// As few as these do when the network loses packets.
const LEAST_TOLERANCE: u32 = 2;
/// Packets between two reports of the same loss.
const EVERY: u32 = 8;

/// A packet that came after a gap.
#[derive(Debug)]
struct Kept {
    first: Psn,
    last: Psn,
    frame: Vec<u8>,
}

/// Where a packet lies in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// All that it covers has been handed on.
    Duplicate,
    /// It covers `base`.
    Next,
    /// It begins after a gap.
    Early,
    /// It begins where a kept packet does.
    Copy,
    /// It is too far away.
    Beyond,
}

/// Which of the missing PSNs count as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// Those that the tolerance says.
    Tolerated,
    /// All before the last kept packet.
    All,
}

/// A flow.
#[derive(Debug)]
pub(super) struct Flow {
    /// First PSN that no packet received so far covers.
    pub(super) base: Psn,
    /// By their first PSNs, which are all different.
    kept: Vec<Kept>,
    /// Bytes of the kept packets.
    pub(super) bytes: u64,
    pub(super) tolerance: u32,
    /// When a packet was handed on last, or the first packet was kept.
    since: Instant,
    /// Packets that arrived since the last report.
    arrived: u32,
    /// Missing PSNs before this one have been reported.
    reported: Psn,
    /// Repetitions that arrived since `base` is where it is.
    repetitions: u32,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            base: Psn::default(),
            kept: Vec::new(),
            bytes: 0,
            tolerance: TOLERANCE,
            since: 0,
            arrived: 0,
            reported: Psn::default(),
            repetitions: 0,
        }
    }
}

impl Flow {
    /// Moves `base`. Nothing is kept then; gives the bytes that were.
    pub(super) fn move_to(&mut self, psn: Psn) -> u64 {
        (self.base, self.repetitions) = (psn, 0);
        self.give_up()
    }

    /// Forgets the kept packets, which are missing again. Gives their bytes.
    pub(super) fn give_up(&mut self) -> u64 {
        self.kept.clear();
        (self.arrived, self.reported) = (0, self.base);
        std::mem::take(&mut self.bytes)
    }

    pub(super) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// When a packet was handed on last, or the first packet was kept, if packets are kept.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.keeps().then_some(self.since)
    }

    pub(super) fn place(&self, first: Psn, last: Psn) -> Place {
        if last.is_before(self.base) {
            Place::Duplicate
        } else if !self.base.is_before(first) {
            Place::Next
        } else if first.distance_from(self.base) >= REACH {
            Place::Beyond
        } else if self.kept.iter().any(|kept| kept.first == first) {
            Place::Copy
        } else {
            Place::Early
        }
    }

    /// A duplicate is handed on.
    pub(super) fn pass_duplicate(&mut self, now: Instant, first_time: bool) {
        self.since = now;
        if first_time {
            self.tolerance = TOLERANCE;
        }
    }

    /// A packet that covers `base` is handed on.
    pub(super) fn pass(&mut self, now: Instant, last: Psn, first_time: bool) {
        if self.keeps() {
            self.tolerance = match first_time {
                true => TOLERANCE,
                false => (self.tolerance / 2).max(LEAST_TOLERANCE),
            };
        }
        (self.since, self.base, self.repetitions) = (now, last.next(), 0);
    }

    /// The next kept packet that covers `base`, if there is one: it is handed on.
    pub(super) fn take(&mut self, now: Instant) -> Option<Vec<u8>> {
        while self.kept.first().is_some_and(|kept| !self.base.is_before(kept.first)) {
            let kept = self.kept.remove(0);
            self.bytes -= kept.frame.len() as u64;
            // Of one that lies before `base` all has been handed on.
            if !kept.last.is_before(self.base) {
                (self.since, self.base) = (now, kept.last.next());
                return Some(kept.frame);
            }
        }
        None
    }

    /// Keeps a packet, which is early.
    pub(super) fn keep(&mut self, now: Instant, first: Psn, last: Psn, frame: &[u8]) {
        if !self.keeps() {
            self.since = now;
        }
        let at = self.kept.partition_point(|kept| kept.first.is_before(first));
        self.bytes += frame.len() as u64;
        self.kept.insert(at, Kept { first, last, frame: frame.to_vec() });
    }

    /// PSNs from `base` on, up to and with the first PSN of the last kept packet; 0: nothing is kept.
    pub(super) fn heard(&self) -> u32 {
        self.kept.last().map_or(0, |kept| kept.first.distance_from(self.base) + 1)
    }

    /// So many PSNs from `base` on are lost if they are missing.
    pub(super) fn lost(&self, loss: Loss) -> u32 {
        match loss {
            Loss::All => self.heard(),
            Loss::Tolerated => {
                let nth = self.kept.len().checked_sub(self.tolerance as usize);
                nth.and_then(|at| self.kept.get(at)).map_or(0, |kept| kept.first.distance_from(self.base))
            }
        }
    }

    /// Whether no packet received so far covers a PSN.
    pub(super) fn is_missing(&self, psn: Psn) -> bool {
        let covers = |kept: &Kept| !psn.is_before(kept.first) && !kept.last.is_before(psn);
        !psn.is_before(self.base) && !self.kept.iter().any(covers)
    }

    /// The missing ones of so many PSNs from `base` on.
    pub(super) fn missing(&self, count: u32) -> Vec<Psn> {
        (0..count).map(|at| self.base + at).filter(|psn| self.is_missing(*psn)).collect()
    }

    /// A packet of the flow has arrived: whether a report is due, and of what. `repeated`: it was a repetition that was no news, or that filled the gap at
    /// `base`.
    pub(super) fn report_is_due(&mut self, repeated: bool) -> Option<Loss> {
        if !self.keeps() {
            self.arrived = 0;
            return None;
        }
        let from = if self.reported.is_before(self.base) { self.base } else { self.reported };
        let lost = self.lost(Loss::Tolerated);
        let upto = self.base + lost;
        let mut due = None;
        if lost == 0 {
            self.arrived = 0;
        } else {
            self.arrived += 1;
            let new =
                from.is_before(upto) && (0..upto.distance_from(from)).any(|at| self.is_missing(from + at));
            due = (new || self.arrived >= EVERY).then_some(Loss::Tolerated);
        }
        if repeated {
            if self.repetitions % EVERY == 0 {
                due = Some(Loss::All);
            }
            self.repetitions += 1;
        }
        if let Some(loss) = due {
            self.arrived = 0;
            let upto = self.base + self.lost(loss);
            self.reported = if upto.is_before(from) { from } else { upto };
        }
        due
    }

    /// The report of what is missing.
    pub(super) fn report(&self, loss: Loss) -> Option<Report> {
        let (heard, lost) = (self.heard(), self.lost(loss));
        if lost == 0 {
            return None;
        }
        let mut report =
            Report { base: self.base.get(), heard: heard as u16, lost: lost as u16, ..Report::default() };
        self.kept.iter().for_each(|kept| report.mark(kept.first.get()));
        Some(report)
    }
}
