// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues (IBTA 10.2.6, 11.4.2).

use std::collections::VecDeque;

use super::types::{Completion, Instant};

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
    /// An armed queue tells when so many are there that it is armed for.
    count: usize,
    /// Or so long after the first of them; 0: at once.
    period: Instant,
    /// Those that wait to be told of, and since when the first does.
    waiting: usize,
    since: Option<Instant>,
}

impl Cq {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            capacity,
            held: 0,
            armed: Armed::No,
            overrun: false,
            count: 0,
            period: 0,
            waiting: 0,
            since: None,
        }
    }

    /// Gives it room for `capacity` completions, those that are in it included; what was taken and not released lies outside. It stays armed, or overrun
    /// (IBTA 11.2.8.3). Whether there was room.
    pub(super) fn resize(&mut self, capacity: usize) -> bool {
        let fits = self.entries.len() <= capacity;
        if fits {
            (self.capacity, self.held) = (capacity, 0);
        }
        fits
    }

    pub(super) fn add(&mut self, now: Instant, completion: Completion) -> Added {
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
        self.waiting += usize::from(wakes);
        match wakes && self.tells(now) {
            true => Added::Event,
            false => Added::Quiet,
        }
    }

    /// Asks for an event: `Next` wins over `Solicited` (IBTA 11.4.2.2). `there`: completions that the host has not taken, and whether one of them
    /// is solicited or failed; they count as if they came now, the latter as one, and what waits already goes on waiting. Whether it tells at once.
    pub(super) fn arm(&mut self, now: Instant, solicited_only: bool, there: (usize, bool)) -> bool {
        self.armed = match (solicited_only, self.armed) {
            (true, Armed::No) => Armed::Solicited,
            (true, armed) => armed,
            (false, _) => Armed::Next,
        };
        let news = match self.armed {
            Armed::Next => there.0,
            _ => there.1.into(),
        };
        // It takes back none that waits: an earlier call asked for it.
        if news > 0 {
            self.waiting = news;
        }
        self.tells(now)
    }

    /// From now on it tells when `count` completions wait, or after `period`. Whether it tells at once.
    pub(super) fn moderate(&mut self, now: Instant, count: usize, period: Instant) -> bool {
        (self.count, self.period) = (count, period);
        self.tells(now)
    }

    /// When those that wait are told of.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since.saturating_add(self.period))
    }

    /// Whether it tells, of those that wait since `now` or before: this uses the arming up.
    fn tells(&mut self, now: Instant) -> bool {
        if self.waiting == 0 {
            self.since = None;
            return false;
        }
        self.since.get_or_insert(now);
        let tells = self.waiting >= self.count || self.deadline().is_some_and(|deadline| deadline <= now);
        if tells {
            self.tell();
        }
        tells
    }

    /// It tells of those that wait.
    pub(super) fn tell(&mut self) {
        (self.armed, self.waiting, self.since) = (Armed::No, 0, None);
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
