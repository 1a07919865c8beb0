// SPDX-License-Identifier: MIT OR Apache-2.0
//! What send and receive queues have in common: slots of one size in host memory, the producer, and the numbers by which
//! completions find back.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use ferrowire_spec::queue::send_wqe::sge;
use ferrowire_spec::queue::{doorbell, WQE_UNIT};

use crate::context::Device;
use crate::error::{Error, Result};
use crate::handle::{BusHandle, OwnedDma};
use crate::send::Sge;

/// Longest message (IBTA 9.7.7), and so the largest buffer that makes sense.
pub(crate) const MAX_MESSAGE: u64 = 1 << 31;

/// What posting and polling share: which work request each WQE is, and how far both have got.
///
/// The one poster writes the number of a WQE, then `producer`; the one poller reads `producer`, then the number of a WQE
/// before it, and moves `consumer`. So neither waits for the other, and a program may poll while it holds a batch.
///
/// Work requests of a shared receive queue end in any order, and in as many completion queues as it has queue pairs: there each place
/// has a state of its own, which pollers change from posted to done, and `consumer` is the poster's.
pub(crate) struct Tracker {
    wr_ids: Box<[AtomicU64]>,
    producer: AtomicU16,
    consumer: AtomicU16,
    /// A completion said that the queue pair is in error.
    failed: AtomicBool,
    /// Until all before this index have completed, their failures say nothing new: the queue pair left SQE behind them.
    fresh_from: AtomicU16,
    stale: AtomicBool,
    /// Of a shared queue, by slot: [`POSTED`] with the index, or [`DONE`].
    states: Option<Box<[AtomicU32]>>,
}

/// A slot's work request is outstanding; its index is in the low bits.
const POSTED: u32 = 1 << 16;
/// It is completed, or there was none yet.
const DONE: u32 = 0;

impl Tracker {
    /// Of a shared queue.
    pub(crate) fn shared(log2: u8) -> Self {
        let states = (0..1 << log2).map(|_| AtomicU32::new(DONE)).collect();
        Self { states: Some(states), ..Self::new(log2) }
    }

    pub(crate) fn new(log2: u8) -> Self {
        Self {
            states: None,
            wr_ids: (0..1 << log2).map(|_| AtomicU64::default()).collect(),
            producer: AtomicU16::new(0),
            consumer: AtomicU16::new(0),
            failed: AtomicBool::new(false),
            fresh_from: AtomicU16::new(0),
            stale: AtomicBool::new(false),
        }
    }

    fn slot(&self, index: u16) -> &AtomicU64 {
        &self.wr_ids[self.at(index)]
    }

    fn at(&self, index: u16) -> usize {
        usize::from(index) & (self.wr_ids.len() - 1)
    }

    /// Free slots, for the poster.
    pub(crate) fn free(&self) -> usize {
        let producer = self.producer.load(Ordering::Relaxed);
        let mut consumer = self.consumer.load(Ordering::Acquire);
        if let Some(states) = &self.states {
            while consumer != producer && states[self.at(consumer)].load(Ordering::Acquire) == DONE {
                consumer = consumer.wrapping_add(1);
            }
            self.consumer.store(consumer, Ordering::Relaxed);
        }
        self.wr_ids.len() - usize::from(producer.wrapping_sub(consumer))
    }

    /// The next slot is work request `wr_id`.
    pub(crate) fn post(&self, wr_id: u64) {
        let producer = self.producer.load(Ordering::Relaxed);
        self.slot(producer).store(wr_id, Ordering::Relaxed);
        if let Some(states) = &self.states {
            states[self.at(producer)].store(POSTED | u32::from(producer), Ordering::Release);
        }
        self.producer.store(producer.wrapping_add(1), Ordering::Release);
    }

    /// The send at `index`; it and all before it leave the queue. None when it is not outstanding.
    pub(crate) fn complete(&self, index: u16, success: bool) -> Option<u64> {
        let producer = self.producer.load(Ordering::Acquire);
        let consumer = self.consumer.load(Ordering::Relaxed);
        if index.wrapping_sub(consumer) >= producer.wrapping_sub(consumer) {
            return None;
        }
        let wr_id = self.slot(index).load(Ordering::Relaxed);
        let stale = self.is_stale(consumer, index);
        if !success && !stale {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.consumer.store(index.wrapping_add(1), Ordering::Release);
        Some(wr_id)
    }

    /// The receive at `index`, which must be the oldest: each one is completed, in order (IBTA 10.8.5.1).
    pub(crate) fn complete_oldest(&self, index: u16, success: bool) -> Option<u64> {
        let oldest = self.consumer.load(Ordering::Relaxed) == index;
        oldest.then(|| self.complete(index, success)).flatten()
    }

    /// The receive at `index` of a shared queue. None when it is not outstanding.
    pub(crate) fn complete_any(&self, index: u16) -> Option<u64> {
        let state = &self.states.as_ref()?[self.at(index)];
        let posted = POSTED | u32::from(index);
        if state.load(Ordering::Acquire) != posted {
            return None;
        }
        // Before the poster may use the slot again.
        let wr_id = self.slot(index).load(Ordering::Relaxed);
        state.compare_exchange(posted, DONE, Ordering::AcqRel, Ordering::Acquire).ok().map(|_| wr_id)
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The queue pair left SQE: what was posted until then has failed or will, and what is posted from now on has a new chance.
    pub(crate) fn recovered(&self) {
        self.fresh_from.store(self.producer.load(Ordering::Relaxed), Ordering::Relaxed);
        self.stale.store(true, Ordering::Release);
        self.failed.store(false, Ordering::Relaxed);
    }

    /// Whether the send at `index` was posted before the queue pair left SQE.
    fn is_stale(&self, consumer: u16, index: u16) -> bool {
        let old = self.fresh_from.load(Ordering::Relaxed).wrapping_sub(consumer);
        let stale = self.stale.load(Ordering::Acquire) && index.wrapping_sub(consumer) < old;
        if !stale {
            self.stale.store(false, Ordering::Relaxed);
        }
        stale
    }
}

/// The poster's side of a queue.
pub(crate) struct WorkQueue {
    ring: Arc<OwnedDma>,
    tracker: Arc<Tracker>,
    log2: u8,
    stride: u8,
    /// Producer that the card was told.
    rung: u16,
}

impl WorkQueue {
    /// `1 << log2` slots of `1 << stride` units.
    pub(crate) fn alloc(bus: &Arc<BusHandle>, log2: u8, stride: u8) -> Result<Self> {
        Self::with(bus, stride, Tracker::new(log2), log2)
    }

    /// The same, shared.
    pub(crate) fn alloc_shared(bus: &Arc<BusHandle>, log2: u8, stride: u8) -> Result<Self> {
        Self::with(bus, stride, Tracker::shared(log2), log2)
    }

    fn with(bus: &Arc<BusHandle>, stride: u8, tracker: Tracker, log2: u8) -> Result<Self> {
        let ring = Arc::new(OwnedDma::alloc(bus, WQE_UNIT << stride << log2)?);
        Ok(Self { ring, tracker: Arc::new(tracker), log2, stride, rung: 0 })
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
        self.tracker = Arc::new(Tracker::new(self.log2));
        self.rung = 0;
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
    pub(crate) fn units(&self) -> usize {
        1 << self.stride
    }

    /// Slots.
    pub(crate) fn size(&self) -> usize {
        1 << self.log2
    }

    /// Free slots.
    pub(crate) fn room(&self) -> usize {
        self.tracker.free()
    }

    /// Writes a unit of the next slot.
    pub(crate) fn write(&self, unit: usize, bytes: &[u8; WQE_UNIT]) {
        let producer = usize::from(self.tracker.producer.load(Ordering::Relaxed));
        let slot = producer & (self.size() - 1);
        self.ring.memory().write(((slot << self.stride) + unit) * WQE_UNIT, bytes);
    }

    /// The next slot is work request `wr_id`, and whole.
    pub(crate) fn posted(&mut self, wr_id: u64) {
        self.tracker.post(wr_id);
    }

    /// The WQE that the card has not been told of, if that is one alone, and all of it.
    pub(crate) fn only_new(&self) -> Option<[u64; WQE_UNIT / 8]> {
        let producer = self.tracker.producer.load(Ordering::Relaxed);
        let alone = producer.wrapping_sub(self.rung) == 1 && self.stride == 0;
        alone.then(|| {
            let at = (usize::from(self.rung) & (self.size() - 1)) * WQE_UNIT;
            std::array::from_fn(|word| self.ring.memory().load_word(at + 8 * word))
        })
    }

    /// Tells the card of the one new WQE by giving it its words as well, which go to `place` of the doorbell page. `bell` makes the doorbell
    /// of a producer.
    pub(crate) fn push(
        &mut self,
        device: &Device,
        place: u32,
        words: &[u64; WQE_UNIT / 8],
        bell: impl FnOnce(u16) -> Result<[u8; 8]>,
    ) -> Result<()> {
        let producer = self.tracker.producer.load(Ordering::Relaxed);
        let at = |offset| doorbell::address(device.options.doorbell_page, offset);
        let bell = (at(doorbell::SQ), u64::from_le_bytes(bell(producer)?));
        device.bus.push(at(doorbell::PUSH + place * WQE_UNIT as u32), words, bell)?;
        self.rung = producer;
        Ok(())
    }

    /// Tells the card how far the queue is filled, if it does not know: `bell` makes the doorbell of a producer.
    pub(crate) fn ring_doorbell(
        &mut self,
        device: &Device,
        offset: u32,
        bell: impl FnOnce(u16) -> Result<[u8; 8]>,
    ) -> Result<()> {
        let producer = self.tracker.producer.load(Ordering::Relaxed);
        if producer == self.rung {
            return Ok(());
        }
        let at = doorbell::address(device.options.doorbell_page, offset);
        device.bus.doorbell(at, u64::from_le_bytes(bell(producer)?))?;
        self.rung = producer;
        Ok(())
    }
}

/// The smallest slot of so many units, as a power of two.
pub(crate) fn stride(units: usize) -> u8 {
    units.next_power_of_two().trailing_zeros() as u8
}

/// A unit of a WQE with these elements, as many as it holds at most; the places that are left are zero.
pub(crate) fn unit_of(operation: &'static str, sges: &[Sge]) -> Result<[u8; WQE_UNIT]> {
    let mut unit = [0; WQE_UNIT];
    for (sge, at) in sges.iter().zip(unit.chunks_exact_mut(sge::BYTES)) {
        let sge = sge::Sge { addr: sge.address, lkey: sge.lkey, len: sge.bytes };
        sge.emit(at).map_err(|e| Error::from_spec(operation, e))?;
    }
    Ok(unit)
}

/// The bytes of a work request's elements.
pub(crate) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.bytes)).sum()
}

/// A value of a work request that card or queue do not take.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_before_say_nothing_about_a_queue_pair_that_left_sqe() {
        let tracker = Tracker::new(2);
        // Round the indices, too.
        for round in 0..20_000u16 {
            let at = round.wrapping_mul(4);
            (0..3).for_each(|i| tracker.post(i));
            assert_eq!(tracker.complete(at, false), Some(0));
            assert!(tracker.failed(), "round {round}");
            tracker.recovered();
            tracker.post(3);
            // Flushed before, and polled now.
            tracker.complete(at.wrapping_add(1), false);
            tracker.complete(at.wrapping_add(2), false);
            assert!(!tracker.failed(), "round {round}");
            let fails = round % 2 == 0;
            tracker.complete(at.wrapping_add(3), !fails);
            assert_eq!(tracker.failed(), fails, "round {round}");
            if fails {
                tracker.recovered();
            }
        }
    }
}
