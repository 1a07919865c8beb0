// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts: [`Users`] of an object, and [`Acks`] of its events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::failure::{Failure, Result};

/// How many objects use another one, which cannot be destroyed meanwhile.
#[derive(Debug, Default)]
pub struct Users(AtomicUsize);

impl Users {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub fn remove(&self) {
        // What the user did with the object is done when another thread sees that there is no user.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Refuses if there are any.
    pub fn none(&self, what: &str) -> Result<()> {
        match self.0.load(Ordering::Acquire) {
            0 => Ok(()),
            users => {
                Err(Failure::text(Errno::BUSY, format!("{users} objects use the {what}; destroy them first")))
            }
        }
    }
}

/// Events of an object that the program was given and has acknowledged. The object cannot be destroyed between these (`ibv_get_cq_event(3)`,
/// `ibv_get_async_event(3)`).
#[derive(Debug, Default)]
pub struct Acks {
    /// Given and not acknowledged.
    open: Mutex<u32>,
    changed: Condvar,
}

impl Acks {
    fn open(&self) -> MutexGuard<'_, u32> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program is given an event.
    pub fn give(&self) {
        *self.open() += 1;
    }

    /// The program has acknowledged `count`. More than it was given count as all.
    pub fn acknowledge(&self, count: u32) {
        let mut open = self.open();
        *open = open.saturating_sub(count);
        self.changed.notify_all();
    }

    /// Waits until all are acknowledged.
    pub fn wait(&self) {
        let open = self.changed.wait_while(self.open(), |open| *open > 0);
        drop(open.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_object_in_use_says_by_how_many() {
        let users = Users::default();
        users.none("queue").unwrap();
        users.add();
        users.add();
        let failure = users.none("queue").unwrap_err();
        assert_eq!(failure.errno, Errno::BUSY);
        assert!(failure.to_string().starts_with("2 objects use the queue"), "{failure}");
        users.remove();
        users.remove();
        users.none("queue").unwrap();
    }

    #[test]
    fn a_wait_ends_with_the_last_acknowledgement() {
        let acks = Acks::default();
        acks.wait();
        (0..3).for_each(|_| acks.give());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| acks.wait());
            acks.acknowledge(2);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            acks.acknowledge(1);
            waiter.join().unwrap();
        });
    }
}
