// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Tracker`]: by which numbers the completions of a queue find their work requests.

use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Ordering, Plain, Wrapping};

/// What posting and polling share: which work request each WQE is, and how far both have got.
///
/// The one poster writes the number of a WQE, then tells of it by `producer`, before it tells the card; the one poller reads `producer`, then the number
/// of a WQE before it, and moves `consumer`. So neither waits for the other, and a program may poll while it holds a batch.
///
/// Work requests of a shared receive queue end in any order, and in as many completion queues as it has queue pairs: there each place
/// has a state of its own, which pollers change from posted to done, and `consumer` means nothing.
pub(crate) struct Tracker {
    wr_ids: Wrapping<Plain>,
    /// Of a shared queue, by slot: [`POSTED`] with the index, or [`DONE`].
    states: Option<Wrapping<AtomicU32>>,
    /// How far from the oldest outstanding WQE a completion may be: 1 for receives, which complete in order.
    reach: u16,
    posted: Posted,
    polled: Polled,
}

/// What the poster writes, in a cache line of its own.
#[repr(align(64))]
struct Posted {
    /// WQEs that the card may know of.
    producer: AtomicU16,
    /// How often the queue pair has left SQE, and in the low 16 bits what was the next index then: failures of those before it say nothing
    /// new.
    recovery: AtomicU64,
}

/// What the poller writes, in another one.
#[repr(align(64))]
struct Polled {
    /// WQEs that have completed.
    consumer: AtomicU16,
    /// The recovery of which all sends that it left behind have completed.
    passed: AtomicU64,
    /// The recovery after which a completion said that the queue pair is in error; [`NEVER`].
    failed: AtomicU64,
}

/// No recovery.
const NEVER: u64 = u64::MAX;

/// A slot's work request is outstanding; its index is in the low bits.
const POSTED: u32 = 1 << 16;
/// It is completed, or there was none yet.
const DONE: u32 = 0;

impl Tracker {
    /// Of a send queue of `1 << log2` slots: the completion of one is that of all before it.
    pub(crate) fn sends(log2: u8) -> Self {
        Self {
            wr_ids: Wrapping::new(log2, |_| Plain::new(0)),
            states: None,
            reach: u16::MAX,
            posted: Posted { producer: AtomicU16::new(0), recovery: AtomicU64::new(0) },
            polled: Polled {
                consumer: AtomicU16::new(0),
                passed: AtomicU64::new(0),
                failed: AtomicU64::new(NEVER),
            },
        }
    }

    /// Of a receive queue: each one is completed, in order (IBTA 10.8.5.1).
    pub(crate) fn receives(log2: u8) -> Self {
        Self { reach: 1, ..Self::sends(log2) }
    }

    /// Of a shared receive queue.
    pub(crate) fn shared(log2: u8) -> Self {
        let states = Some(Wrapping::new(log2, |_| AtomicU32::new(DONE)));
        Self { states, ..Self::sends(log2) }
    }

    /// Another one of the same kind and size, with nothing in it.
    pub(crate) fn anew(&self, log2: u8) -> Self {
        Self { reach: self.reach, ..Self::sends(log2) }
    }

    /// For the poster: the WQE at `index` is work request `wr_id`. The card does not know of it yet.
    #[inline]
    pub(crate) fn post(&self, index: u16, wr_id: u64) {
        self.wr_ids.at(index).set(wr_id);
        if let Some(states) = &self.states {
            states.at(index).store(POSTED | u32::from(index), Ordering::Release);
        }
    }

    /// For the poster: the card is about to be told of all before `producer`.
    #[inline]
    pub(crate) fn publish(&self, producer: u16) {
        self.posted.producer.store(producer, Ordering::Release);
    }

    /// For the poster: the oldest WQE that is outstanding, if it was `seen` last and all before `next` are posted.
    pub(crate) fn oldest(&self, mut seen: u16, next: u16) -> u16 {
        let Some(states) = &self.states else { return self.polled.consumer.load(Ordering::Acquire) };
        while seen != next && states.at(seen).load(Ordering::Acquire) == DONE {
            seen = seen.wrapping_add(1);
        }
        seen
    }

    /// A success of the WQE at `index` of a queue that is not shared, of which nothing is left from before a [recovery](Self::recovered). None
    /// when it is not outstanding.
    #[inline]
    pub(crate) fn succeed(&self, index: u16) -> Option<u64> {
        let producer = self.posted.producer.load(Ordering::Acquire);
        let consumer = self.polled.consumer.load(Ordering::Relaxed);
        let ahead = index.wrapping_sub(consumer);
        if ahead >= producer.wrapping_sub(consumer) || ahead >= self.reach {
            return None;
        }
        let wr_id = self.wr_ids.at(index).get();
        // Before the poster may use the slot again.
        self.polled.consumer.store(index.wrapping_add(1), Ordering::Release);
        Some(wr_id)
    }

    /// The WQE at `index` of a queue that is not shared; it and all before it leave the queue. None when it is not outstanding.
    pub(crate) fn complete(&self, index: u16, success: bool) -> Option<u64> {
        let consumer = self.polled.consumer.load(Ordering::Relaxed);
        let wr_id = self.succeed(index)?;
        // Behind the producer: what was posted after a recovery is judged by it.
        let recovery = self.posted.recovery.load(Ordering::Relaxed);
        let stale = self.is_stale(recovery, consumer, index);
        if !success && !stale {
            self.polled.failed.store(recovery, Ordering::Relaxed);
        }
        Some(wr_id)
    }

    /// The receive at `index` of a shared queue. None when it is not outstanding.
    #[inline]
    pub(crate) fn complete_any(&self, index: u16) -> Option<u64> {
        let state = self.states.as_ref()?.at(index);
        let posted = POSTED | u32::from(index);
        if state.load(Ordering::Acquire) != posted {
            return None;
        }
        // Before the poster may use the slot again.
        let wr_id = self.wr_ids.at(index).get();
        state.compare_exchange(posted, DONE, Ordering::AcqRel, Ordering::Acquire).ok().map(|_| wr_id)
    }

    /// For the poller: whether no failure of before the last recovery can come any more.
    pub(crate) fn is_fresh(&self) -> bool {
        self.posted.recovery.load(Ordering::Relaxed) == self.polled.passed.load(Ordering::Relaxed)
    }

    /// Whether a completion said that the queue pair is in error.
    pub(crate) fn failed(&self) -> bool {
        self.polled.failed.load(Ordering::Relaxed) == self.posted.recovery.load(Ordering::Relaxed)
    }

    /// For the poster: the queue pair left SQE. What was posted until then, all before `next`, has failed or will; what is posted from now on has
    /// a new chance.
    pub(crate) fn recovered(&self, next: u16) {
        let count = (self.posted.recovery.load(Ordering::Relaxed) >> 16) + 1;
        self.posted.recovery.store(count << 16 | u64::from(next), Ordering::Relaxed);
    }

    /// Whether the send at `index` was posted before the queue pair left SQE.
    fn is_stale(&self, recovery: u64, consumer: u16, index: u16) -> bool {
        if self.polled.passed.load(Ordering::Relaxed) == recovery {
            return false;
        }
        let left = (recovery as u16).wrapping_sub(consumer);
        let stale = index.wrapping_sub(consumer) < left;
        if !stale {
            self.polled.passed.store(recovery, Ordering::Relaxed);
        }
        stale
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Posts one, and tells of it.
    fn post(tracker: &Tracker, index: u16, wr_id: u64) {
        tracker.post(index, wr_id);
        tracker.publish(index.wrapping_add(1));
    }

    #[test]
    fn failures_of_before_say_nothing_about_a_queue_pair_that_left_sqe() {
        let tracker = Tracker::sends(2);
        // Round the indices, too.
        for round in 0..20_000u16 {
            let at = |i: u16| round.wrapping_mul(4).wrapping_add(i);
            (0..3).for_each(|i| post(&tracker, at(i), i.into()));
            assert_eq!(tracker.complete(at(0), false), Some(0));
            assert!(tracker.failed(), "round {round}");
            tracker.recovered(at(3));
            post(&tracker, at(3), 3);
            // Flushed before, and polled now.
            tracker.complete(at(1), false);
            tracker.complete(at(2), false);
            assert!(!tracker.failed() && !tracker.is_fresh(), "round {round}");
            let fails = round % 2 == 0;
            tracker.complete(at(3), !fails);
            assert!(tracker.failed() == fails && tracker.is_fresh(), "round {round}");
            if fails {
                tracker.recovered(at(4));
            }
        }
    }

    #[test]
    fn a_success_frees_all_sends_before_it_and_a_receive_must_be_the_oldest() {
        let (sends, receives) = (Tracker::sends(3), Tracker::receives(3));
        for round in 0..20_000u16 {
            let at = |i: u16| round.wrapping_mul(8).wrapping_add(i);
            let number = |i: u64| Some((u64::from(round) << 8) + i);
            for queue in [&sends, &receives] {
                (0..8).for_each(|i| post(queue, at(i), (u64::from(round) << 8) + u64::from(i)));
                assert_eq!((queue.oldest(at(0), at(8)), queue.succeed(at(8))), (at(0), None));
            }
            // Those before it were not signalled.
            assert_eq!(sends.succeed(at(2)), number(2));
            assert_eq!((sends.oldest(at(0), at(8)), sends.succeed(at(2))), (at(3), None));
            assert_eq!(sends.complete(at(7), true), number(7));
            assert_eq!((sends.oldest(at(3), at(8)), sends.succeed(at(8))), (at(8), None));
            for i in 0..8 {
                assert_eq!((receives.succeed(at(i + 1)), receives.complete(at(i + 1), true)), (None, None));
                let done = if i % 2 == 0 { receives.succeed(at(i)) } else { receives.complete(at(i), true) };
                assert_eq!((done, receives.oldest(at(0), at(8))), (number(i.into()), at(i + 1)));
            }
        }
    }

    #[test]
    fn what_the_card_was_not_told_of_does_not_complete() {
        let tracker = Tracker::sends(2);
        tracker.post(0, 7);
        assert_eq!((tracker.succeed(0), tracker.complete(0, false)), (None, None));
        tracker.publish(1);
        assert_eq!(tracker.succeed(0), Some(7));
    }

    #[test]
    fn completions_come_in_any_order_and_slots_are_free_from_the_oldest_on() {
        let slots = Tracker::shared(2);
        let mut seen = 0;
        // More than once round, and round the indices too.
        for round in 0..20_000u16 {
            let at = |i: u16| round.wrapping_mul(4).wrapping_add(i);
            (0..4).for_each(|i| post(&slots, at(i), u64::from(round) + 10 * u64::from(i)));
            assert_eq!(slots.oldest(seen, at(4)), at(0));
            for (index, oldest) in [(2, 0), (1, 0), (0, 3), (3, 4)] {
                let wr_id = u64::from(round) + 10 * u64::from(index);
                assert_eq!(slots.complete_any(at(index)), Some(wr_id));
                assert_eq!(slots.complete_any(at(index)), None, "twice");
                seen = slots.oldest(seen, at(4));
                assert_eq!(seen, at(oldest));
            }
            assert_eq!(slots.complete_any(at(4)), None, "not posted");
        }
    }
}
