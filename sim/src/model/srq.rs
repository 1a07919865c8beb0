// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared receive queues (IBTA 10.2.9).

use std::collections::VecDeque;

use super::types::{Error, RecvWr};

#[derive(Debug)]
pub(super) struct Srq {
    pub(super) pd: u32,
    queue: VecDeque<RecvWr>,
    capacity: usize,
    /// The event comes when fewer are left; 0: never.
    limit: usize,
    /// It cannot be relied upon any more: whoever takes a receive from it fails.
    pub(super) failed: bool,
}

impl Srq {
    pub(super) fn new(pd: u32, capacity: usize) -> Self {
        Self { pd, queue: VecDeque::new(), capacity, limit: 0, failed: false }
    }

    pub(super) fn post(&mut self, wr: RecvWr) -> Result<(), Error> {
        if self.queue.len() == self.capacity {
            return Err(Error::Full);
        }
        self.queue.push_back(wr);
        Ok(())
    }

    /// Receives that no message has taken.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The armed limit.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn arm(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The next receive, and whether the limit was passed: once for each arming (IBTA 10.2.9.1).
    pub(super) fn take(&mut self) -> (Option<RecvWr>, bool) {
        let wr = self.queue.pop_front();
        let passed = wr.is_some() && self.queue.len() < self.limit;
        if passed {
            self.limit = 0;
        }
        (wr, passed)
    }
}
