// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Reads`]: reads that have come, when they look at memory, and when their data leaves.

use rand::Rng as _;

use super::channel::{Address, ReadBeat, Response};
use super::faults::{AccessInfo, Fault};
use super::Around;
use crate::wire::MAX_BEAT;

/// What lanes hold that were not asked for, and all of them with an error.
const JUNK: u8 = 0xa5;

/// When a beat looks at memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// In the cycle in which the read has come.
    First,
    /// At the read's moment between.
    Between,
    /// When it is sent.
    Last,
}

/// A beat that has looked.
type Seen = ([u8; MAX_BEAT], Response);

struct Read {
    address: Address,
    due: u64,
    /// When beats that look between do.
    moment: u64,
    looks: Vec<(Look, Option<Seen>)>,
    next: usize,
    fault: Option<Fault>,
    failed: bool,
}

impl Read {
    fn look(&mut self, at: usize, around: &Around<'_>) -> Seen {
        let (beats, width) = (self.address.beats(), around.width);
        let fault = self.fault.filter(|fault| fault.hits(at, beats));
        let mut data = [JUNK; MAX_BEAT];
        let (first, end) = self.address.lanes(at, width);
        let seen = match fault {
            Some(fault) => (data, fault.response()),
            None if around.host.fetch_beat(self.address.beat(at), &mut data[first..end]) => {
                (data, Response::Okay)
            }
            None => (data, Response::DecodeError),
        };
        self.looks[at].1 = Some(seen);
        seen
    }
}

#[derive(Default)]
pub(super) struct Reads {
    reads: Vec<Read>,
    came: u64,
    /// The beat on offer is the last one of its read.
    ending: bool,
    /// No moment between comes before.
    wake: u64,
}

impl Reads {
    pub fn idle(&self) -> bool {
        self.reads.is_empty() && !self.ending
    }

    /// Reads of which the last beat was not taken.
    pub fn under_way(&self) -> u64 {
        self.reads.len() as u64 + u64::from(self.ending)
    }

    /// Takes an address.
    pub fn address(&mut self, address: Address, around: &mut Around<'_>) {
        let (cycle, settings) = (around.cycle, around.settings);
        let info = AccessInfo {
            cycle,
            write: false,
            index: self.came,
            id: address.id,
            address: address.address,
            bytes: address.length(),
        };
        self.came += 1;
        around.stats.reads += 1;
        let under_way = self.under_way() + 1;
        around.stats.most_reads = around.stats.most_reads.max(under_way);
        let mapped = around.host.note_beats(cycle, address.address, address.length(), under_way);
        let fault = around.plan.choose(&info, around.random).filter(|_| mapped);
        around.stats.faults[0] += u64::from(fault.is_some());
        let spread = match settings.spread {
            0 => 0,
            most => around.random.random_range(0..=most),
        };
        let wait = around.host.latency() + spread;
        let look = |around: &mut Around<'_>| match settings.late_reads {
            true => [Look::First, Look::Between, Look::Last][around.random.random_range(0..3)],
            false => Look::First,
        };
        let looks = (0..address.beats()).map(|_| (look(around), None)).collect();
        let moment = if settings.late_reads { cycle + around.random.random_range(0..=wait) } else { cycle };
        let due = cycle + 1 + wait;
        let mut read = Read { address, due, moment, looks, next: 0, fault, failed: false };
        for at in 0..address.beats() {
            if read.looks[at].0 == Look::First {
                read.look(at, around);
            }
        }
        self.wake = self.wake.min(moment);
        self.reads.push(read);
    }

    /// Lets those look whose moment has come.
    pub fn work(&mut self, around: &Around<'_>) {
        if around.cycle < self.wake {
            return;
        }
        self.wake = u64::MAX;
        for read in &mut self.reads {
            if read.moment > around.cycle {
                self.wake = self.wake.min(read.moment);
                continue;
            }
            for at in read.next..read.looks.len() {
                if matches!(read.looks[at], (Look::Between, None)) {
                    read.look(at, around);
                }
            }
        }
    }

    /// The next beat that may be sent: of one ID in the order of the addresses, of several as it comes.
    pub fn beat(&mut self, around: &mut Around<'_>) -> Option<ReadBeat> {
        let first =
            |at: usize| self.reads[..at].iter().all(|other| other.address.id != self.reads[at].address.id);
        let ready = |at: &usize| {
            self.reads[*at].due <= around.cycle && (*at == 0 || around.settings.reorder && first(*at))
        };
        // Of one ID only the first one may, and there are few.
        let ready: Vec<usize> = (0..self.reads.len()).filter(ready).collect();
        let at = match ready[..] {
            [] => return None,
            [only] => only,
            _ => ready[around.random.random_range(0..ready.len())],
        };
        let read = &mut self.reads[at];
        let beat = read.next;
        let (data, response) = match read.looks[beat].1 {
            Some(seen) => seen,
            None => read.look(beat, around),
        };
        read.next += 1;
        read.failed |= response != Response::Okay;
        let (id, last) = (read.address.id, read.next == read.looks.len());
        if last {
            around.stats.read_errors += u64::from(read.failed);
            self.reads.remove(at);
            self.ending = true;
        }
        Some(ReadBeat { id, data, response, last })
    }

    /// The beat on offer was taken.
    pub fn beat_taken(&mut self) {
        self.ending = false;
    }
}
