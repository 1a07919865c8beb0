// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Qps`]: the queue pairs of a node, which of them may have something to send, and when the next deadline is.
//!
//! A node may have thousands of them, of which few have something to do: neither a frame nor a deadline costs a look at all.

use std::collections::{BTreeMap, BTreeSet};

use super::qp::Qp;
use super::types::Instant;

#[derive(Debug)]
struct Slot {
    qp: Qp,
    /// Its deadline, as it is in the list of all.
    deadline: Option<Instant>,
}

/// Queue pairs by number.
#[derive(Debug, Default)]
pub(super) struct Qps {
    slots: BTreeMap<u32, Slot>,
    /// Those that may have something to send: something was done to them since they had nothing.
    active: BTreeSet<u32>,
    deadlines: BTreeSet<(Instant, u32)>,
}

impl Qps {
    pub(super) fn get(&self, qpn: u32) -> Option<&Qp> {
        self.slots.get(&qpn).map(|slot| &slot.qp)
    }

    pub(super) fn contains(&self, qpn: u32) -> bool {
        self.slots.contains_key(&qpn)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Qp> {
        self.slots.values().map(|slot| &slot.qp)
    }

    pub(super) fn insert(&mut self, qp: Qp) {
        self.slots.insert(qp.qpn, Slot { qp, deadline: None });
    }

    pub(super) fn remove(&mut self, qpn: u32) -> Option<Qp> {
        let Slot { qp, deadline } = self.slots.remove(&qpn)?;
        self.active.remove(&qpn);
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, qpn));
        }
        Some(qp)
    }

    /// Does something to a queue pair, which may have something to send then; `None` if there is none of that number.
    pub(super) fn with<T>(&mut self, qpn: u32, f: impl FnOnce(&mut Qp) -> T) -> Option<T> {
        let Slot { qp, deadline } = self.slots.get_mut(&qpn)?;
        let done = f(qp);
        self.active.insert(qpn);
        let next = qp.next_deadline();
        if next != *deadline {
            if let Some(before) = std::mem::replace(deadline, next) {
                self.deadlines.remove(&(before, qpn));
            }
            if let Some(next) = next {
                self.deadlines.insert((next, qpn));
            }
        }
        Some(done)
    }

    /// How many may have something to send.
    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    /// The next one that may have something to send: after that number, or from the lowest on.
    pub(super) fn next_active(&self, after: u32) -> Option<u32> {
        let next = self.active.range(after.saturating_add(1)..).next();
        next.or_else(|| self.active.first()).copied()
    }

    /// It has nothing to send before something is done to it.
    pub(super) fn rests(&mut self, qpn: u32) {
        self.active.remove(&qpn);
    }

    /// The next deadline of all.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Those whose deadlines are due.
    pub(super) fn due(&self, now: Instant) -> Vec<u32> {
        self.deadlines.range(..=(now, u32::MAX)).map(|(_, qpn)| *qpn).collect()
    }
}
