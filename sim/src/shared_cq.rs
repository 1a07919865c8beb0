// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SharedCq`]: a completion queue that is polled through a reference.

use std::cell::RefCell;

use ferrowire::{Completion, CompletionQueue, CompletionTarget, Result};

/// A completion queue for programs of one thread, where many parts hold a card and each may poll.
pub struct SharedCq(RefCell<CompletionQueue>);

impl From<CompletionQueue> for SharedCq {
    fn from(cq: CompletionQueue) -> Self {
        Self(RefCell::new(cq))
    }
}

impl From<&SharedCq> for CompletionTarget {
    fn from(cq: &SharedCq) -> Self {
        cq.0.borrow().target()
    }
}

impl SharedCq {
    /// As [`CompletionQueue::poll`].
    ///
    /// # Errors
    /// As there.
    pub fn poll(&self, out: &mut [Completion]) -> Result<usize> {
        self.0.borrow_mut().poll(out)
    }

    /// As [`CompletionQueue::request_notify`].
    ///
    /// # Errors
    /// As there.
    pub fn request_notify(&self, solicited_only: bool) -> Result<()> {
        self.0.borrow_mut().request_notify(solicited_only)
    }

    /// As [`CompletionQueue::number`].
    pub fn number(&self) -> u32 {
        self.0.borrow().number()
    }

    /// As [`CompletionQueue::capacity`].
    pub fn capacity(&self) -> u32 {
        self.0.borrow().capacity()
    }

    /// The queue, for who has it alone.
    pub fn into_inner(self) -> CompletionQueue {
        self.0.into_inner()
    }
}
