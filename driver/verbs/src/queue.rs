// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`FdQueue`]: a queue whose entries are counted by a descriptor, for `poll(2)`, `epoll(7)` and `O_NONBLOCK`.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{eventfd, EventfdFlags};
use rustix::io::{preadv2, read, write, Errno, ReadWriteFlags};

use crate::context::Context;
use crate::failure::{report, Failure};
use crate::sys::set_errno;

/// A queue of entries that the program waits for. Its descriptor is an event file that counts them down by one with each read: so a read waits for an
/// entry, or ends with `EAGAIN` if the program has set `O_NONBLOCK`, as a read from the kernel's descriptors does.
#[derive(Debug)]
pub struct FdQueue<T> {
    file: OwnedFd,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    entries: VecDeque<T>,
    /// Why no entry will come any more.
    ended: Option<Errno>,
}

impl<T> FdQueue<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> Result<Self, Errno> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?;
        Ok(Self { file, state: Mutex::new(State { entries: VecDeque::new(), ended: None }) })
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) {
        // Its counter has room for more entries than there is memory.
        let _ = write(&self.file, &1u64.to_ne_bytes());
    }

    /// Adds an entry.
    pub fn push(&self, entry: T) {
        self.state().entries.push_back(entry);
        self.count();
    }

    /// Nothing comes any more: a thread that waits, or takes from the empty queue, gets `errno`.
    pub fn end(&self, errno: Errno) {
        self.state().ended = Some(errno);
        self.count();
    }

    /// Takes the next entry and hands it to `given` before any other thread sees the queue. Waits for one, unless the descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    /// `EAGAIN` without an entry, `EINTR` after a signal, or the number of [`end`](Self::end).
    pub fn take<R>(&self, given: impl FnOnce(T) -> R) -> Result<R, Errno> {
        loop {
            read(self.file.as_fd(), &mut [0; 8])?;
            let mut state = self.state();
            if let Some(entry) = state.entries.pop_front() {
                return Ok(given(entry));
            }
            if let Some(errno) = state.ended {
                drop(state);
                // For the next one.
                self.count();
                return Err(errno);
            }
            // The entry was removed after it was counted.
        }
    }

    /// As [`take`](Self::take), in a call of the program that returns -1 and sets `errno`.
    ///
    /// # Errors
    /// `errno` is set, and the log has a line unless that is how programs wait.
    pub fn take_for<R>(&self, call: &str, context: &Context, given: impl FnOnce(T) -> R) -> Result<R, ()> {
        if let Err(failure) = context.own() {
            // The descriptor is the parent's, too: a read would take an event from the parent.
            report(call, &failure);
            return Err(());
        }
        self.take(given).map_err(|errno| match errno {
            Errno::AGAIN | Errno::INTR => set_errno(errno),
            _ => {
                report(call, &Failure::new(errno, "the card is gone"));
            }
        })
    }

    /// Removes entries.
    pub fn remove(&self, which: impl Fn(&T) -> bool) {
        let mut state = self.state();
        let before = state.entries.len();
        state.entries.retain(|entry| !which(entry));
        for _ in state.entries.len()..before {
            // Without waiting: another thread may have counted it down. A system that cannot leaves the descriptor readable once too often.
            let _ =
                preadv2(&self.file, &mut [IoSliceMut::new(&mut [0; 8])], u64::MAX, ReadWriteFlags::NOWAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::{poll, PollFd, PollFlags, Timespec};
    use rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};

    use super::*;

    fn readable<T>(queue: &FdQueue<T>) -> bool {
        poll(&mut [PollFd::new(&queue.file, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn the_descriptor_is_readable_while_there_are_entries() {
        let queue = FdQueue::new().unwrap();
        assert!(!readable(&queue));
        (1..=3).for_each(|entry| queue.push(entry));
        assert_eq!(queue.take(|entry| entry), Ok(1));
        assert!(readable(&queue));
        queue.remove(|entry| *entry == 2);
        assert!(readable(&queue));
        assert_eq!(queue.take(|entry| entry), Ok(3));
        assert!(!readable(&queue));
    }

    #[test]
    fn an_empty_queue_waits_or_says_again() {
        let queue = FdQueue::new().unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| queue.take(|entry| entry));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            queue.push(7);
            assert_eq!(waiter.join().unwrap(), Ok(7));
        });
        fcntl_setfl(&queue.file, fcntl_getfl(&queue.file).unwrap() | OFlags::NONBLOCK).unwrap();
        assert_eq!(queue.take(|_| ()), Err(Errno::AGAIN));
    }

    #[test]
    fn the_end_of_a_queue_wakes_all() {
        let queue = FdQueue::<u8>::new().unwrap();
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3).map(|_| scope.spawn(|| queue.take(|entry| entry))).collect();
            std::thread::sleep(Duration::from_millis(20));
            queue.push(1);
            queue.end(Errno::IO);
            let mut all: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
            all.sort_by_key(|one| one.is_err());
            assert_eq!(all, [Ok(1), Err(Errno::IO), Err(Errno::IO)]);
        });
        assert!(readable(&queue));
    }
}
