// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must hold in every order. A card is an atomic number: how many entries it has written. The thread that rings a doorbell moves it on.

use loom::thread;

use crate::attach::{Attachments, Done, Followed, Found, Receiver, Written};
use crate::sync::{fence, Arc, AtomicBool, AtomicU32, Ordering};
use crate::tracker::Tracker;

/// Entries that the card has written to a completion queue.
struct Card(AtomicU32);

impl Card {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU32::new(0)))
    }

    /// A doorbell is rung, with the fence that the driver has before it; the card has then written the entries before `count`.
    fn write(&self, count: u32) {
        fence(Ordering::Release);
        self.0.store(count, Ordering::Relaxed);
    }

    /// Looks at the phase of entries, with the fence that the driver has after it.
    fn written(&self) -> u32 {
        let written = self.0.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        written
    }

    /// Waits for entry `index`.
    fn wait_for(&self, index: u32) {
        while self.written() <= index {
            thread::yield_now();
        }
    }
}

/// Posts one, and rings.
fn post(tracker: &Tracker, card: &Card, index: u16, wr_id: u64) {
    tracker.post(index, wr_id);
    tracker.publish(index + 1);
    card.write(u32::from(index) + 1);
}

/// Entries of one queue pair, all receives, as the poller sees them in a ring that is never full.
impl Written for Card {
    fn written(&self, consumer: u32) -> u32 {
        let written = self.0.load(Ordering::Relaxed);
        assert!(written >= consumer, "the poller takes only what is there");
        written
    }

    fn entry(&self, index: u32) -> Option<Done> {
        let done = Done { qpn: 0, index: index as u16, receive: true, success: true };
        (self.0.load(Ordering::Relaxed) > index).then_some(done)
    }
}

#[test]
fn a_completion_that_the_card_invents_gives_no_number_that_is_being_written() {
    loom::model(|| {
        let tracker = Arc::new(Tracker::sends(1));
        let poster = thread::spawn({
            let tracker = Arc::clone(&tracker);
            move || {
                tracker.post(0, 10);
                tracker.publish(1);
            }
        });
        assert!(matches!(tracker.succeed(0), None | Some(10)));
        poster.join().unwrap();
    });
}

#[test]
fn a_slot_that_is_used_again_never_gives_the_number_of_another_work_request() {
    loom::model(|| {
        let (tracker, card) = (Arc::new(Tracker::sends(0)), Card::new());
        let poster = thread::spawn({
            let (tracker, card) = (Arc::clone(&tracker), Arc::clone(&card));
            move || {
                post(&tracker, &card, 0, 10);
                while tracker.oldest(0, 1) == 0 {
                    thread::yield_now();
                }
                post(&tracker, &card, 1, 11);
            }
        });
        for index in [0, 1] {
            card.wait_for(index);
            let done = tracker.succeed(index as u16);
            assert_eq!(done, Some(10 + u64::from(index)));
        }
        poster.join().unwrap();
    });
}

#[test]
fn a_completion_behind_unsignalled_sends_frees_them_all() {
    loom::model(|| {
        let (tracker, card) = (Arc::new(Tracker::sends(1)), Card::new());
        let poster = thread::spawn({
            let (tracker, card) = (Arc::clone(&tracker), Arc::clone(&card));
            move || {
                tracker.post(0, 10);
                tracker.post(1, 11);
                tracker.publish(2);
                card.write(1);
                while tracker.oldest(0, 2) != 2 {
                    thread::yield_now();
                }
                tracker.post(2, 12);
                tracker.publish(3);
                card.write(2);
            }
        });
        for (entry, index) in [(0, 1), (1, 2)] {
            card.wait_for(entry);
            assert_eq!(tracker.succeed(index), Some(10 + u64::from(index)));
        }
        poster.join().unwrap();
    });
}

#[test]
fn failures_from_before_a_recovery_say_nothing_whenever_they_are_polled() {
    loom::model(|| {
        let (tracker, card) = (Arc::new(Tracker::sends(2)), Card::new());
        let poster = thread::spawn({
            let (tracker, card) = (Arc::clone(&tracker), Arc::clone(&card));
            move || {
                tracker.post(0, 10);
                tracker.post(1, 11);
                tracker.publish(2);
                card.write(2);
                // Both failed; the queue pair is brought from SQE back to RTS.
                tracker.recovered(2);
                post(&tracker, &card, 2, 12);
            }
        });
        for index in 0..3 {
            card.wait_for(index);
            let index = index as u16;
            assert_eq!(tracker.complete(index, index == 2), Some(10 + u64::from(index)));
        }
        poster.join().unwrap();
        assert!(!tracker.failed());
    });
}

#[test]
fn a_failure_behind_a_recovery_is_seen() {
    loom::model(|| {
        let (tracker, card) = (Arc::new(Tracker::sends(1)), Card::new());
        let poster = thread::spawn({
            let (tracker, card) = (Arc::clone(&tracker), Arc::clone(&card));
            move || {
                post(&tracker, &card, 0, 10);
                tracker.recovered(1);
                post(&tracker, &card, 1, 11);
            }
        });
        for index in 0..2 {
            card.wait_for(index);
            assert_eq!(tracker.complete(index as u16, false), Some(10 + u64::from(index)));
        }
        poster.join().unwrap();
        assert!(tracker.failed());
    });
}

#[test]
fn receives_of_a_shared_queue_end_once_each_in_two_completion_queues() {
    loom::model(|| {
        let (tracker, card) = (Arc::new(Tracker::shared(1)), Card::new());
        tracker.post(0, 10);
        tracker.post(1, 11);
        tracker.publish(2);
        let pollers: Vec<_> = [1u16, 0]
            .into_iter()
            .map(|index| {
                let tracker = Arc::clone(&tracker);
                thread::spawn(move || tracker.complete_any(index))
            })
            .collect();
        // The poster goes on when the oldest place is free.
        while tracker.oldest(0, 2) == 0 {
            thread::yield_now();
        }
        tracker.post(2, 12);
        tracker.publish(3);
        card.write(1);
        let mut done: Vec<_> = pollers.into_iter().map(|poller| poller.join().unwrap()).collect();
        done.sort();
        assert_eq!(done, [Some(10), Some(11)]);
        assert_eq!((tracker.complete_any(0), tracker.complete_any(2)), (None, Some(12)));
    });
}

#[test]
fn who_sees_an_entry_of_a_new_queue_pair_finds_its_work_request() {
    loom::model(|| {
        let (attachments, card) = (Arc::new(Attachments::new()), Card::new());
        let maker = thread::spawn({
            let (attachments, card) = (Arc::clone(&attachments), Arc::clone(&card));
            move || {
                let tracker = Arc::new(Tracker::sends(0));
                attachments.change(3, (Some(Arc::clone(&tracker)), None), None, |_| {});
                post(&tracker, &card, 0, 10);
            }
        });
        let mut followed = Followed::new();
        if card.written() > 0 {
            if attachments.moved(&followed) {
                followed.follow(&attachments);
            }
            assert_eq!(followed.succeed(3, 0, false), Some(10));
        }
        maker.join().unwrap();
    });
}

#[test]
fn an_entry_of_a_queue_pair_that_is_reset_is_found_or_passed_over() {
    loom::model(|| {
        let (attachments, card) = (Arc::new(Attachments::new()), Card::new());
        let first = Arc::new(Tracker::sends(0));
        attachments.change(0, (Some(Arc::clone(&first)), None), None, |_| {});
        post(&first, &card, 0, 10);
        let maker = thread::spawn({
            let (attachments, card) = (Arc::clone(&attachments), Arc::clone(&card));
            move || {
                // The first entry is of the life before.
                let second = Arc::new(Tracker::sends(0));
                attachments.change(0, (Some(Arc::clone(&second)), None), Some(1), |_| {});
                second.post(0, 20);
                second.publish(1);
                card.write(2);
            }
        });
        let mut followed = Followed::new();
        let done = Done { qpn: 0, index: 0, receive: false, success: true };
        let found = [0, 1].map(|at| {
            card.wait_for(at);
            if attachments.moved(&followed) {
                followed.follow(&attachments);
            }
            followed.complete(&attachments, at, &done)
        });
        assert!(matches!(found[0], Found::Work(10) | Found::Stale), "{:?}", found[0]);
        assert_eq!(found[1], Found::Work(20));
        maker.join().unwrap();
    });
}

#[test]
fn places_of_a_shared_queue_come_back_once_when_a_queue_pair_goes_while_it_is_polled() {
    let mut bounded = loom::model::Builder::new();
    // All orders of this one take minutes.
    bounded.preemption_bound = Some(3);
    bounded.check(|| {
        let (attachments, card) = (Arc::new(Attachments::new()), Card::new());
        let queue = Arc::new(Tracker::shared(1));
        for index in 0..2 {
            queue.post(index, 10 + u64::from(index));
        }
        queue.publish(2);
        let failed = Arc::new(AtomicBool::new(false));
        let receiver = Receiver::Shared { queue: Arc::clone(&queue), failed };
        attachments.attach(&*card, 0, None, Some(receiver));
        card.write(1);
        let maker = thread::spawn({
            let (attachments, card) = (Arc::clone(&attachments), Arc::clone(&card));
            move || attachments.attach(&*card, 0, None, None)
        });
        let mut followed = Followed::new();
        let mut take = |at: u32| {
            if attachments.moved(&followed) {
                followed.follow(&attachments);
            }
            let found = followed.complete(&attachments, at, &card.entry(at).unwrap());
            attachments.taken(at + 1);
            found
        };
        let first = take(0);
        assert!(matches!(first, Found::Work(10) | Found::Stale), "{first:?}");
        // The card writes a second entry, unless the queue pair has gone by now.
        card.write(2);
        let second = take(1);
        assert!(matches!(second, Found::Work(11) | Found::Stale | Found::Nothing), "{second:?}");
        maker.join().unwrap();
        assert_eq!(queue.complete_any(0), None, "the place of the first is free");
    });
}
