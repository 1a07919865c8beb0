// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive queue of a queue pair: its own, or a shared one (IBTA 10.2.9, 10.8.3.1).

use std::collections::VecDeque;

use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::syndrome::{self, CREDIT_INVALID};

use super::engine::Node;
use super::types::RecvWr;

#[derive(Debug)]
pub(super) struct RecvQueue {
    queue: VecDeque<RecvWr>,
    capacity: usize,
    /// The shared queue, if receives come from there.
    pub(super) srq: Option<u32>,
    /// A receive that was taken and not used: the next message gets it.
    held: Option<RecvWr>,
}

impl RecvQueue {
    pub(super) fn new(capacity: usize, srq: Option<u32>) -> Self {
        Self { queue: VecDeque::new(), capacity, srq, held: None }
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() == self.capacity
    }

    pub(super) fn post(&mut self, wr: RecvWr) {
        self.queue.push_back(wr);
    }

    /// The next receive.
    pub(super) fn take(&mut self, node: &mut Node) -> Option<RecvWr> {
        if self.held.is_some() {
            return self.held.take();
        }
        let Some(number) = self.srq else { return self.queue.pop_front() };
        let (wr, passed) = node.srqs.get_mut(&number)?.take();
        if passed {
            node.event(EventKind::SrqLimit, number);
        }
        wr
    }

    /// Receives that are left in its own queue, or held.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.held.is_some())
    }

    /// Takes the one of a shared queue that is held for the next message.
    pub(super) fn take_held(&mut self) -> Option<RecvWr> {
        self.held.take()
    }

    /// The protection domain of its receives' elements: that of a shared queue, or else `own` (IBTA 10.2.9.1).
    pub(super) fn pd(&self, node: &Node, own: u32) -> u32 {
        self.srq.and_then(|number| node.srqs.get(&number)).map_or(own, |srq| srq.pd)
    }

    /// Whether the shared queue that it has has failed.
    pub(super) fn has_failed(&self, node: &Node) -> bool {
        self.srq.and_then(|number| node.srqs.get(&number)).is_some_and(|srq| srq.failed)
    }

    /// Gives back what `take` gave; the next message gets it.
    pub(super) fn give_back(&mut self, wr: RecvWr) {
        match self.srq {
            None => self.queue.push_front(wr),
            Some(_) => self.held = Some(wr),
        }
    }

    /// The credit code of an acknowledgement. With a shared queue nothing can be promised (IBTA 9.7.7.2.3).
    pub(super) fn credit(&self) -> u8 {
        match self.srq {
            None => syndrome::credit_code(self.queue.len() as u32),
            Some(_) => CREDIT_INVALID,
        }
    }

    /// All that is left, to be flushed: those of a shared queue stay there.
    pub(super) fn drain(&mut self) -> Vec<RecvWr> {
        self.held.take().into_iter().chain(self.queue.drain(..)).collect()
    }
}
