// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings in host memory: those that the card writes, with a phase, and those of WQEs that it reads.

use std::collections::VecDeque;

use ferrowire_spec::queue::cqe::{self, Cqe};
use ferrowire_spec::queue::event::{self, EventKind};
use ferrowire_spec::queue::WQE_UNIT;

use super::host::Host;
use crate::model::{self, Instant};

/// A ring that the card writes.
#[derive(Clone, Copy, Debug)]
struct Written {
    base: u64,
    log2: u8,
    /// Entries written and taken, modulo 2^32.
    producer: u32,
    consumer: u32,
}

impl Written {
    fn new(base: u64, log2: u8) -> Self {
        Self { base, log2, producer: 0, consumer: 0 }
    }

    fn held(&self) -> u32 {
        self.producer.wrapping_sub(self.consumer)
    }

    fn is_full(&self) -> bool {
        self.held() >> self.log2 != 0
    }

    /// Where the next entry goes, and its phase.
    fn next(&mut self, bytes: usize) -> (u64, bool) {
        let index = self.producer;
        self.producer = index.wrapping_add(1);
        let slot = u64::from(index & ((1 << self.log2) - 1));
        (self.base.wrapping_add(slot * bytes as u64), index >> self.log2 & 1 == 0)
    }

    /// The host has taken all before `consumer`: how many that is; `None` when these were never written.
    fn take(&mut self, consumer: u32) -> Option<u32> {
        let taken = consumer.wrapping_sub(self.consumer);
        let known = taken <= self.held();
        if known {
            self.consumer = consumer;
        }
        known.then_some(taken)
    }
}

/// A completion queue. The engine has its own of the same number, which says when it runs over.
#[derive(Debug)]
pub(super) struct CqRing {
    ring: Written,
    pub(super) page: u16,
    /// Where its events go; 0: nowhere, and it cannot be armed.
    pub(super) eqn: u8,
    /// Of each entry that the host has not taken: whether it wakes a program that waits for solicited ones (IBTA 11.4.2.2).
    unread: VecDeque<bool>,
}

impl CqRing {
    pub(super) fn new(base: u64, log2: u8, page: u16, eqn: u8) -> Self {
        Self { ring: Written::new(base, log2), page, eqn, unread: VecDeque::new() }
    }

    /// Goes to another ring, from its first entry on: how many entries went to the old one.
    pub(super) fn resize(&mut self, base: u64, log2: u8) -> u32 {
        self.unread.clear();
        std::mem::replace(&mut self.ring, Written::new(base, log2)).producer
    }

    pub(super) fn write(&mut self, host: &Host, done: &model::Completion) {
        let (at, phase) = self.ring.next(cqe::BYTES);
        self.unread.push_back(done.solicited || !done.is_success());
        let entry = Cqe {
            qpn: done.qpn,
            opcode: done.opcode.code(),
            byte_len: done.byte_len,
            imm: done.imm.or(done.invalidated).unwrap_or(0),
            src_qpn: if done.grh { done.src_qpn } else { 0 },
            imm_valid: done.imm.is_some(),
            invalidated: done.invalidated.is_some(),
            solicited: done.solicited,
            receive: done.opcode.is_receive(),
            grh: done.grh,
            ipv4: done.ipv4,
            wqe_index: done.wr_id as u16,
            status: done.status.code(),
            syndrome: done.syndrome,
            phase,
            ..Cqe::default()
        };
        // Every field fits: numbers of queue pairs have 24 bits.
        if let Ok(bytes) = entry.to_bytes() {
            host.write_entry(at, &bytes);
        }
    }

    /// As [`Written::take`].
    pub(super) fn take(&mut self, consumer: u32) -> Option<u32> {
        let taken = self.ring.take(consumer)?;
        self.unread.drain(..taken as usize);
        Some(taken)
    }

    /// Entries that the host has neither taken nor seen, and whether one of them wakes a program that waits for solicited ones.
    pub(super) fn unread(&self, seen: u8) -> (usize, bool) {
        // More than there are: all count, as with other cards.
        let seen = Some(usize::from(seen)).filter(|seen| *seen <= self.unread.len());
        let news = self.unread.iter().skip(seen.unwrap_or(0));
        (news.clone().count(), news.clone().any(|wakes| *wakes))
    }
}

/// When an event queue interrupts.
#[derive(Clone, Copy, Debug)]
struct Interrupts {
    vector: u8,
    /// One was asked for, with the next entry.
    armed: bool,
    /// One is to be raised, as soon as the queue is no longer quiet.
    due: bool,
    /// Shortest time between two, in nanoseconds.
    moderation: Instant,
    quiet_until: Instant,
}

/// An event queue.
#[derive(Debug)]
pub(super) struct EqRing {
    ring: Written,
    pub(super) page: u16,
    /// Events of completion queues that found no room.
    waiting: VecDeque<model::Event>,
    /// Others were lost.
    lost: bool,
    interrupts: Interrupts,
}

impl EqRing {
    pub(super) fn new(base: u64, log2: u8, page: u16, vector: u8, moderation_us: u16) -> Self {
        let moderation = Instant::from(moderation_us) * 1000;
        let interrupts = Interrupts { vector, armed: false, due: false, moderation, quiet_until: 0 };
        Self { ring: Written::new(base, log2), page, waiting: VecDeque::new(), lost: false, interrupts }
    }

    /// Writes an event; one of a completion queue waits for room, another one is lost without. Whether it was not lost.
    pub(super) fn tell(&mut self, host: &Host, event: model::Event, waits: bool, written: &mut u64) -> bool {
        if self.waiting.is_empty() && !self.ring.is_full() {
            self.write(host, event, written);
        } else if waits {
            // Of a queue that is armed again meanwhile one is enough: who takes it polls.
            if !self.waiting.contains(&event) {
                self.waiting.push_back(event);
            }
        } else {
            self.lost = true;
            return false;
        }
        true
    }

    fn write(&mut self, host: &Host, event: model::Event, written: &mut u64) {
        let (at, phase) = self.ring.next(event::BYTES);
        let entry = event::Event {
            object: event.object,
            kind: event.kind.code(),
            cause: event.cause,
            lost: std::mem::take(&mut self.lost),
            phase,
            ..event::Event::default()
        };
        if let Ok(bytes) = entry.to_bytes() {
            host.write_entry(at, &bytes);
        }
        *written += 1;
        self.interrupts.due |= std::mem::take(&mut self.interrupts.armed);
    }

    /// The host asks for an interrupt with the next entry after those that it has taken, at once if there is one.
    pub(super) fn arm(&mut self) {
        match self.ring.held() {
            0 => self.interrupts.armed = true,
            _ => self.interrupts.due = true,
        }
    }

    /// When the interrupt may be raised that is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.interrupts.due.then_some(self.interrupts.quiet_until)
    }

    /// The vector of an interrupt that is due now. From then on the queue is quiet for its moderation time.
    pub(super) fn interrupt(&mut self, now: Instant) -> Option<u8> {
        let Interrupts { vector, due, moderation, quiet_until, .. } = &mut self.interrupts;
        let raised = *due && *quiet_until <= now;
        if raised {
            (*due, *quiet_until) = (false, now.saturating_add(*moderation));
        }
        raised.then_some(*vector)
    }

    /// The host has taken all before `consumer`, so what waits has room. Whether that can be.
    pub(super) fn take(&mut self, host: &Host, consumer: u32, written: &mut u64) -> bool {
        let known = self.ring.take(consumer).is_some();
        while !self.ring.is_full() {
            let Some(event) = self.waiting.pop_front() else { break };
            self.write(host, event, written);
        }
        known
    }

    /// A completion queue is gone: nothing about it is written any more.
    pub(super) fn forget_cq(&mut self, cqn: u32) {
        let of_cq = |event: &model::Event| {
            event.object == cqn && matches!(event.kind, EventKind::Completion | EventKind::CqOverrun)
        };
        self.waiting.retain(|event| !of_cq(event));
    }
}

/// A ring of WQEs, which the host writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkRing {
    base: u64,
    log2: u8,
    pub(super) stride: u8,
    /// WQEs that the host has told of, and that the engine has, modulo 2^16.
    pub(super) told: u16,
    pub(super) read: u16,
}

impl WorkRing {
    pub(super) fn new(base: u64, log2: u8, stride: u8) -> Self {
        Self { base, log2, stride, told: 0, read: 0 }
    }

    pub(super) fn size(&self) -> usize {
        1 << self.log2
    }

    /// WQEs that are told of and that nobody has read.
    pub(super) fn waiting(&self) -> usize {
        self.told.wrapping_sub(self.read).into()
    }

    /// Takes a doorbell: how many WQEs are new; `None` when the ring has not so much room beside `busy` ones: then nothing changes.
    pub(super) fn tell(&mut self, producer: u16, busy: usize) -> Option<usize> {
        let new = usize::from(producer.wrapping_sub(self.told));
        let fits = new + self.waiting() + busy <= self.size();
        if fits {
            self.told = producer;
        }
        fits.then_some(new)
    }

    /// The WQE that is read next, and its index; `None` in place of bytes that are not there.
    pub(super) fn next(&mut self, host: &Host) -> Option<(u16, Option<Vec<u8>>)> {
        if self.read == self.told {
            return None;
        }
        let index = self.read;
        self.read = index.wrapping_add(1);
        let mut wqe = vec![0; WQE_UNIT << self.stride];
        let slot = usize::from(index) & (self.size() - 1);
        let at = self.base.wrapping_add((slot * wqe.len()) as u64);
        Some((index, host.read(at, &mut wqe).then_some(wqe)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_ring_takes_what_fits_beside_what_has_not_ended() {
        let mut ring = WorkRing::new(0x1000, 2, 0);
        assert_eq!(ring.tell(4, 0), Some(4));
        assert_eq!(ring.tell(5, 0), None, "five in a ring of four");
        assert_eq!(ring.tell(3, 0), None, "fewer than before");
        assert_eq!(ring.tell(4, 0), Some(0));
        let host = Host::default();
        let indices: Vec<u16> = std::iter::from_fn(|| ring.next(&host)).map(|(index, _)| index).collect();
        assert_eq!(indices, [0, 1, 2, 3]);
        assert_eq!(ring.tell(6, 3), None);
        assert_eq!(ring.tell(6, 2), Some(2));
        // Round 2^16.
        ring = WorkRing { told: 0xffff, read: 0xffff, ..ring };
        assert_eq!(ring.tell(2, 1), Some(3));
    }

    const EVENT: model::Event = model::Event { kind: EventKind::Completion, object: 1, cause: 0 };

    #[test]
    fn an_event_queue_interrupts_once_for_each_arming() {
        let (host, mut written) = (Host::default(), 0);
        let mut eq = EqRing::new(0x1000, 2, 0, 9, 0);
        eq.tell(&host, EVENT, true, &mut written);
        assert_eq!(eq.interrupt(0), None, "not armed");
        // An entry is there that the host has not taken.
        eq.arm();
        assert_eq!((eq.interrupt(0), eq.interrupt(0)), (Some(9), None));
        assert!(eq.take(&host, 1, &mut written));
        eq.arm();
        assert_eq!(eq.interrupt(5), None);
        eq.tell(&host, EVENT, true, &mut written);
        eq.tell(&host, EVENT, true, &mut written);
        assert_eq!((eq.interrupt(5), eq.interrupt(5), written), (Some(9), None, 3));
        // An arming lasts until an entry uses it up.
        assert!(eq.take(&host, 3, &mut written));
        eq.arm();
        assert!(eq.take(&host, 3, &mut written));
        eq.tell(&host, EVENT, true, &mut written);
        assert_eq!(eq.interrupt(5), Some(9));
    }

    #[test]
    fn a_moderated_event_queue_is_quiet_after_an_interrupt_and_makes_up_for_it() {
        let (host, mut written) = (Host::default(), 0);
        let mut eq = EqRing::new(0x1000, 4, 0, 3, 50);
        let mut tell = |eq: &mut EqRing| {
            eq.arm();
            eq.tell(&host, EVENT, true, &mut written);
        };
        tell(&mut eq);
        assert_eq!((eq.deadline(), eq.interrupt(1000), eq.deadline()), (Some(0), Some(3), None));
        tell(&mut eq);
        tell(&mut eq);
        assert_eq!((eq.deadline(), eq.interrupt(50_999)), (Some(51_000), None));
        assert_eq!((eq.interrupt(51_000), eq.interrupt(99_000)), (Some(3), None));
        tell(&mut eq);
        assert_eq!((eq.interrupt(100_999), eq.interrupt(101_000)), (None, Some(3)));
    }

    #[test]
    fn the_host_cannot_take_what_was_not_written() {
        let mut ring = Written::new(0x1000, 1);
        assert_eq!(ring.take(1), None);
        assert_eq!([ring.next(32), ring.next(32)], [(0x1000, true), (0x1020, true)]);
        assert!(ring.is_full());
        assert_eq!(ring.take(3), None);
        assert_eq!(ring.take(2), Some(2));
        assert_eq!(ring.take(1), None, "backwards");
        assert_eq!(ring.next(32), (0x1000, false));
    }
}
