// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Channel`]: a queue of events with a file for `poll(2)`; [`Account`]: which of an identifier's events are not acknowledged.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{eventfd, EventfdFlags};
use rustix::io::{preadv2, read, write, Errno, ReadWriteFlags};

use super::event::Event;
use crate::error::{Error, Result};

const GET: &str = "get event";

/// A queue of events, as `rdma_create_event_channel` makes it. One channel may have identifiers of several services, and one service may
/// have several channels.
///
/// Its [file](AsFd) can be read while there are events; it is for `poll(2)`, and not to be read. [`next`](Self::next) waits for one, unless the program has given the file `O_NONBLOCK`. `Send` and
/// `Sync`; clones are the same channel.
#[derive(Clone, Debug)]
pub struct Channel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Its counter is above 0 exactly while there are events, which is so whenever the lock is free, unless the program reads it, or a thread that has
    /// waited has just read it and not yet restored it.
    file: OwnedFd,
    queue: Mutex<VecDeque<Event>>,
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.file.as_fd()
    }
}

impl Channel {
    /// One without events.
    ///
    /// # Errors
    /// `System`: the process has no file left.
    pub fn new() -> Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC).map_err(system("create event channel"))?;
        Ok(Self { inner: Arc::new(Inner { file, queue: Mutex::new(VecDeque::new()) }) })
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.inner.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are clones of one channel.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The next event.
    ///
    /// # Errors
    /// `WouldBlock` when there is none and the file does not block, `Interrupted` by a signal whose handler lacks `SA_RESTART`, `System`.
    pub fn next(&self) -> Result<Event> {
        loop {
            if let Some(event) = self.try_next() {
                return Ok(event);
            }
            // The kernel restarts a read after a handler with `SA_RESTART`, and never a `poll(2)` (`signal(7)`).
            match read(self, &mut [0; 8]) {
                Ok(_) => self.signal_again(),
                Err(Errno::AGAIN) => return Err(Error::WouldBlock),
                Err(Errno::INTR) => return Err(Error::Interrupted),
                Err(errno) => return Err(system(GET)(errno)),
            }
        }
    }

    /// A read has taken the whole counter: what it stood for is still in the queue, or other threads have taken that.
    fn signal_again(&self) {
        let queue = self.queue();
        if !queue.is_empty() {
            let _ = write(self, &1u64.to_ne_bytes());
        }
    }

    /// The next event, if there is one.
    pub fn try_next(&self) -> Option<Event> {
        let mut queue = self.queue();
        let mut event = queue.pop_front()?;
        event.report();
        self.emptied(&queue);
        Some(event)
    }

    /// Each event is written to the file, so that an edge comes with it.
    pub(super) fn push(&self, event: Event) {
        let mut queue = self.queue();
        queue.push_back(event);
        // The counter has room for more events than there is memory.
        let _ = write(self, &1u64.to_ne_bytes());
    }

    /// Takes the events out that an identifier would have to acknowledge.
    pub(super) fn remove(&self, key: u64) -> Vec<Event> {
        let mut queue = self.queue();
        let (gone, stay): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut *queue).into_iter().partition(|event| event.owner.key == key);
        *queue = stay;
        if !gone.is_empty() {
            self.emptied(&queue);
        }
        gone.into()
    }

    /// Nothing can be read any more if nothing is left.
    fn emptied(&self, queue: &VecDeque<Event>) {
        if !queue.is_empty() {
            return;
        }
        // Another thread, the program, or its child after a fork, may have read the counter: a read that waits would then hold this lock, and with it
        // the service. Before Linux 5.8 the kernel does not know this for such files: then the counter stays, and wakes one that waits for nothing.
        let mut counter = [0; 8];
        let _ = preadv2(self, &mut [IoSliceMut::new(&mut counter)], u64::MAX, ReadWriteFlags::NOWAIT);
    }
}

fn system(operation: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::System { operation, source: errno.into() }
}

/// Number of the next identifier. Channels find events by it, and one channel serves several services, so it is the process's.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// What an identifier and its events share.
#[derive(Debug)]
pub(super) struct Account {
    /// No other identifier of the process has had it.
    pub(super) key: u64,
    /// The program's context.
    pub(super) context: AtomicUsize,
    channel: Mutex<Channel>,
    /// Events that the program has, and has not acknowledged.
    taken: Mutex<usize>,
    acknowledged: Condvar,
}

impl Account {
    pub(super) fn new(context: usize, channel: &Channel) -> Arc<Self> {
        Arc::new(Self {
            key: NEXT.fetch_add(1, Ordering::Relaxed),
            context: AtomicUsize::new(context),
            channel: Mutex::new(channel.clone()),
            taken: Mutex::new(0),
            acknowledged: Condvar::new(),
        })
    }

    pub(super) fn context(&self) -> usize {
        self.context.load(Ordering::Relaxed)
    }

    /// The channel of its events.
    pub(super) fn channel(&self) -> MutexGuard<'_, Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn report(&self) {
        *self.taken() += 1;
    }

    pub(super) fn acknowledge(&self) {
        *self.taken() -= 1;
        self.acknowledged.notify_all();
    }

    /// Waits until the program has acknowledged all events that it has.
    pub(super) fn settle(&self) {
        let mut taken = self.taken();
        while *taken > 0 {
            taken = self.acknowledged.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives it another channel, and takes its events there.
    pub(super) fn migrate(&self, to: &Channel) {
        let mut channel = self.channel();
        if !channel.is(to) {
            for event in channel.remove(self.key) {
                // Requests go on where their listener does.
                event.follow(to);
                to.push(event);
            }
            *channel = to.clone();
        }
    }
}
