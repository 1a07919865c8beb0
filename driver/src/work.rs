// SPDX-License-Identifier: MIT OR Apache-2.0
//! What send and receive queues have in common: slots of one size in host memory, and the producer.

use std::sync::Arc;

use ferrowire_spec::queue::send_wqe::sge;
use ferrowire_spec::queue::WQE_UNIT;

use crate::error::{Error, Result};
use crate::handle::{Bell, BusHandle, OwnedDma};
use crate::send::Sge;
use crate::sys::Slots;
use crate::tracker::Tracker;

/// Longest message (IBTA 9.7.7), and so the largest buffer that makes sense.
pub(crate) const MAX_MESSAGE: u64 = 1 << 31;

/// Words of a unit of a WQE.
pub(crate) const UNIT_WORDS: usize = WQE_UNIT / 8;

/// A unit of a WQE.
pub(crate) type Unit = [u64; UNIT_WORDS];

/// The poster's side of a queue.
pub(crate) struct WorkQueue {
    /// Doorbells of all queues of its kind.
    bell: Bell,
    slots: Slots<UNIT_WORDS>,
    tracker: Arc<Tracker>,
    /// WQEs posted, modulo 2^16; completed, as far as was looked; told to the card.
    next: u16,
    seen: u16,
    rung: u16,
    log2: u8,
    stride: u8,
    ring: Arc<OwnedDma>,
}

impl WorkQueue {
    /// `1 << log2` slots of `1 << stride` units; `tracker` makes what follows so many.
    pub(crate) fn alloc(
        bus: &Arc<BusHandle>,
        bell: Bell,
        tracker: impl FnOnce(u8) -> Tracker,
        (log2, stride): (u8, u8),
    ) -> Result<Self> {
        let tracker = Arc::new(tracker(log2));
        let ring = Arc::new(OwnedDma::alloc(bus, WQE_UNIT << stride << log2)?);
        let slots = Slots::new(ring.memory().clone(), log2 + stride);
        Ok(Self { bell, slots, tracker, next: 0, seen: 0, rung: 0, log2, stride, ring })
    }

    /// Its memory, which the card may use for as long as this lives.
    pub(crate) fn ring(&self) -> &Arc<OwnedDma> {
        &self.ring
    }

    pub(crate) fn tracker(&self) -> &Arc<Tracker> {
        &self.tracker
    }

    /// Empty, as after RESET; completions of before find nothing here.
    pub(crate) fn reset(&mut self) {
        self.tracker = Arc::new(self.tracker.anew(self.log2));
        (self.next, self.seen, self.rung) = (0, 0, 0);
    }

    /// The queue pair left SQE: what was posted until now has failed or will.
    pub(crate) fn recovered(&self) {
        self.tracker.recovered(self.next);
    }

    pub(crate) fn leak(&self) {
        self.ring.leak();
    }

    pub(crate) fn bus_address(&self) -> u64 {
        self.ring.bus_address()
    }

    pub(crate) fn log2(&self) -> u8 {
        self.log2
    }

    pub(crate) fn stride(&self) -> u8 {
        self.stride
    }

    /// Units of a slot.
    #[inline]
    pub(crate) fn units(&self) -> usize {
        1 << self.stride
    }

    /// Slots.
    pub(crate) fn size(&self) -> usize {
        1 << self.log2
    }

    /// Free slots.
    pub(crate) fn room(&self) -> usize {
        let oldest = self.tracker.oldest(self.seen, self.next);
        self.size() - usize::from(self.next.wrapping_sub(oldest))
    }

    /// Whether there is a free slot. It looks how far the poller is only when there seems to be none.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        self.next.wrapping_sub(self.seen) >> self.log2 == 0 || self.look_for_room()
    }

    #[inline(never)]
    fn look_for_room(&mut self) -> bool {
        self.seen = self.tracker.oldest(self.seen, self.next);
        self.next.wrapping_sub(self.seen) >> self.log2 == 0
    }

    /// Writes a unit of the next slot.
    #[inline]
    pub(crate) fn write(&self, unit: usize, words: &Unit) {
        self.slots.store((usize::from(self.next) << self.stride) + unit, words);
    }

    /// The next slot is work request `wr_id`, and whole.
    #[inline]
    pub(crate) fn posted(&mut self, wr_id: u64) {
        self.tracker.post(self.next, wr_id);
        self.next = self.next.wrapping_add(1);
    }

    /// Forgets what the card has not been told of, of a queue that is not shared.
    pub(crate) fn take_back(&mut self) {
        // A doorbell that failed has told the poller of them.
        self.tracker.publish(self.rung);
        self.next = self.rung;
    }

    /// The WQE that the card has not been told of, if that is one alone, and all of it.
    pub(crate) fn only_new(&self) -> Option<Unit> {
        let alone = self.next.wrapping_sub(self.rung) == 1 && self.stride == 0;
        alone.then(|| self.slots.load(self.rung.into()))
    }

    /// Tells the card of the one new WQE by giving it its words as well, which go to `place` in BAR 0. `word` makes the doorbell
    /// of a producer.
    pub(crate) fn push(&mut self, place: u32, words: &Unit, word: impl FnOnce(u16) -> u64) -> Result<()> {
        self.tracker.publish(self.next);
        self.bell.push(place, words, word(self.next))?;
        self.rung = self.next;
        Ok(())
    }

    /// Tells the card how far the queue is filled, if it does not know: `word` makes the doorbell of a producer.
    #[inline]
    pub(crate) fn ring_doorbell(&mut self, word: impl FnOnce(u16) -> u64) -> Result<()> {
        if self.next == self.rung {
            return Ok(());
        }
        self.tracker.publish(self.next);
        self.bell.ring(word(self.next))?;
        self.rung = self.next;
        Ok(())
    }
}

/// The smallest slot of so many units, as a power of two.
pub(crate) fn stride(units: usize) -> u8 {
    units.next_power_of_two().trailing_zeros() as u8
}

/// A unit of a WQE with these elements, as many as it holds at most; the places that are left are zero.
#[inline]
pub(crate) fn unit_of(operation: &'static str, sges: &[Sge]) -> Result<Unit> {
    let mut unit = [0; UNIT_WORDS];
    for (sge, to) in sges.iter().zip(unit.chunks_exact_mut(sge::WORDS)) {
        let sge = sge::Sge { addr: sge.address, lkey: sge.lkey, len: sge.bytes };
        to.copy_from_slice(&sge.to_words().map_err(|e| Error::from_spec(operation, e))?);
    }
    Ok(unit)
}

/// The bytes of a work request's elements.
#[inline]
pub(crate) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.bytes)).sum()
}

/// A value of a work request that card or queue do not take.
#[cold]
pub(crate) fn refuse(operation: &'static str, attribute: &'static str, value: u64, fix: String) -> Error {
    Error::Attribute { operation, attribute, value, fix }
}

/// What a work request may have at most: by the queue's slots, and by the card.
pub(crate) fn limit(
    operation: &'static str,
    attribute: &'static str,
    value: usize,
    (slot, asked): (usize, &str),
    card: usize,
    instead: &str,
) -> Result<()> {
    let fix = match value {
        value if value > card => format!("the card takes {card}; {instead}"),
        value if value > slot => {
            format!("the queue takes {slot}; create the queue pair with a larger {asked}")
        }
        _ => return Ok(()),
    };
    Err(refuse(operation, attribute, value as u64, fix))
}
