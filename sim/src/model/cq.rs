// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues (IBTA 10.2.6, 11.4.2).

use std::collections::VecDeque;

use super::types::Completion;

/// What an armed queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Next,
}

/// What adding a completion came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    Quiet,
    /// The queue was armed for it.
    Event,
    /// There was no room: the queue has failed (IBTA 10.2.6.3).
    Overrun,
    /// It had failed before.
    Lost,
}

#[derive(Debug)]
pub(super) struct Cq {
    entries: VecDeque<Completion>,
    capacity: usize,
    /// Completions that were taken, and whose places are not free yet.
    held: usize,
    armed: Armed,
    overrun: bool,
}

impl Cq {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::new(), capacity, held: 0, armed: Armed::No, overrun: false }
    }

    pub(super) fn add(&mut self, completion: Completion) -> Added {
        if self.overrun {
            return Added::Lost;
        }
        if self.entries.len() + self.held >= self.capacity {
            self.overrun = true;
            return Added::Overrun;
        }
        // Whoever waits for solicited ones is woken by errors too (IBTA 11.4.2.2).
        let wakes = match self.armed {
            Armed::No => false,
            Armed::Next => true,
            Armed::Solicited => completion.solicited || !completion.is_success(),
        };
        self.entries.push_back(completion);
        if wakes {
            self.armed = Armed::No;
            return Added::Event;
        }
        Added::Quiet
    }

    /// Asks for an event: `Next` wins over `Solicited` (IBTA 11.4.2.2).
    pub(super) fn arm(&mut self, solicited_only: bool) {
        self.armed = match (solicited_only, self.armed) {
            (true, Armed::No) => Armed::Solicited,
            (true, armed) => armed,
            (false, _) => Armed::Next,
        };
    }

    pub(super) fn poll(&mut self) -> Option<Completion> {
        self.entries.pop_front()
    }

    /// As `poll`, but the place stays taken until it is released: so with queues that are rings of a host's.
    pub(super) fn take(&mut self) -> Option<Completion> {
        let taken = self.poll();
        self.held += usize::from(taken.is_some());
        taken
    }

    pub(super) fn release(&mut self, places: usize) {
        self.held = self.held.saturating_sub(places);
    }

    /// Forgets the completions of a queue pair, as when it is reset or destroyed (IBTA 10.2.4.1).
    pub(super) fn forget(&mut self, qpn: u32) {
        self.entries.retain(|completion| completion.qpn != qpn);
    }
}
