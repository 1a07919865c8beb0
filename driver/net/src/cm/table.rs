// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Table`]: the connections of a manager, with indexes, so that no message and no look at the clock walks over all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::machine::State;
use crate::mad::{Mad, Rej};

/// A connection.
#[derive(Debug)]
pub(super) struct Connection<P> {
    pub(super) state: State,
    pub(super) peer: P,
    pub(super) transaction: u64,
    /// 0: not known yet.
    pub(super) remote_id: u32,
    /// Adapter of the other side; with the queue pair, it says which connection is meant.
    pub(super) remote_guid: u64,
    /// Queue pair of the other side.
    pub(super) remote_qpn: u32,
    pub(super) local_qpn: u32,
    /// Version of selective retransmission that the REQ names; 0: none.
    pub(super) selective: u8,
    /// The last message of this side, as long as it may have to be sent again.
    pub(super) sent: Option<Mad>,
    pub(super) deadline: Option<Duration>,
    pub(super) left: u8,
    /// How long an answer may take, and how often it is asked for.
    pub(super) wait: Duration,
    pub(super) retries: u8,
    /// How long a refusal is kept, so that a request that is repeated is refused again.
    pub(super) kept: Duration,
    /// The refusal for an older connection of this queue pair.
    pub(super) stale: Option<Rej>,
    /// The program has given it up: no more events.
    pub(super) abandoned: bool,
}

/// Connections by their numbers. All changes of a connection go through [`change`](Self::change), which keeps the indexes.
#[derive(Debug)]
pub(super) struct Table<P> {
    all: BTreeMap<u32, Connection<P>>,
    deadlines: BTreeSet<(Duration, u32)>,
    /// By the peer and its number, once that is known. A peer may give several the same.
    remote: BTreeSet<(P, u32, u32)>,
    /// Live ones by the peer, its adapter and its queue pair.
    live: BTreeSet<(P, u64, u32, u32)>,
    /// In [`State::Refused`], by the time of their end.
    refused: BTreeSet<(Duration, u32)>,
    unanswered: usize,
}

impl<P> Default for Table<P> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            remote: BTreeSet::new(),
            live: BTreeSet::new(),
            refused: BTreeSet::new(),
            unanswered: 0,
        }
    }
}

impl<P: Clone + Ord> Table<P> {
    fn index(&mut self, id: u32) {
        let Some(c) = self.all.get(&id) else { return };
        if let Some(deadline) = c.deadline {
            self.deadlines.insert((deadline, id));
            if c.state == State::Refused {
                self.refused.insert((deadline, id));
            }
        }
        if c.state != State::ReqSent {
            self.remote.insert((c.peer.clone(), c.remote_id, id));
        }
        if c.state.is_live() {
            self.live.insert((c.peer.clone(), c.remote_guid, c.remote_qpn, id));
        }
        self.unanswered += usize::from(c.state == State::ReqReceived);
    }

    fn unindex(&mut self, id: u32) {
        let Some(c) = self.all.get(&id) else { return };
        if let Some(deadline) = c.deadline {
            self.deadlines.remove(&(deadline, id));
            self.refused.remove(&(deadline, id));
        }
        self.remote.remove(&(c.peer.clone(), c.remote_id, id));
        self.live.remove(&(c.peer.clone(), c.remote_guid, c.remote_qpn, id));
        self.unanswered -= usize::from(c.state == State::ReqReceived);
    }

    pub(super) fn insert(&mut self, id: u32, connection: Connection<P>) {
        self.all.insert(id, connection);
        self.index(id);
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.unindex(id);
        self.all.remove(&id);
    }

    pub(super) fn get(&self, id: u32) -> Option<&Connection<P>> {
        self.all.get(&id)
    }

    /// Changes a connection, if there is one.
    pub(super) fn change<T>(&mut self, id: u32, f: impl FnOnce(&mut Connection<P>) -> T) -> Option<T> {
        self.unindex(id);
        let result = self.all.get_mut(&id).map(f);
        self.index(id);
        result
    }

    /// The same, if it is in this state.
    pub(super) fn change_in<T>(
        &mut self,
        id: u32,
        state: State,
        f: impl FnOnce(&mut Connection<P>) -> T,
    ) -> Option<T> {
        self.all.get(&id).filter(|c| c.state == state)?;
        self.change(id, f)
    }

    /// The connection to which a peer has given a number.
    pub(super) fn by_remote(&self, peer: &P, remote_id: u32) -> Option<(u32, &Connection<P>)> {
        let key = |id| (peer.clone(), remote_id, id);
        let (.., id) = self.remote.range(key(0)..=key(u32::MAX)).next()?;
        self.all.get(id).map(|c| (*id, c))
    }

    /// The live connection with a queue pair of a peer.
    pub(super) fn by_queue_pair(&self, peer: &P, guid: u64, qpn: u32) -> Option<u32> {
        let key = |id| (peer.clone(), guid, qpn, id);
        self.live.range(key(0)..=key(u32::MAX)).next().map(|(.., id)| *id)
    }

    /// The first time at which something is due.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Connections with something due, the oldest first.
    pub(super) fn due(&self, now: Duration) -> Vec<u32> {
        self.deadlines.range(..=(now, u32::MAX)).map(|(_, id)| *id).collect()
    }

    /// Requests that the program has not answered.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Forgets the oldest refusals beyond `limit`.
    pub(super) fn trim_refused(&mut self, limit: usize) {
        while self.refused.len() > limit {
            if let Some((_, id)) = self.refused.first().copied() {
                self.remove(id);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.all.keys().copied()
    }

    /// Every index says what a walk would say.
    #[cfg(test)]
    pub(super) fn check(&self)
    where
        P: std::fmt::Debug,
    {
        let deadlines = self.all.iter().filter_map(|(id, c)| c.deadline.map(|deadline| (deadline, *id)));
        assert_eq!(self.deadlines, deadlines.collect());
        let refused = |(id, c): (&u32, &Connection<P>)| match (c.state, c.deadline) {
            (State::Refused, deadline) => Some((deadline.expect("a refusal ends"), *id)),
            _ => None,
        };
        assert_eq!(self.refused, self.all.iter().filter_map(refused).collect());
        assert_eq!(self.unanswered, self.all.values().filter(|c| c.state == State::ReqReceived).count());
        let known = self.all.iter().filter(|(_, c)| c.state != State::ReqSent);
        assert_eq!(self.remote, known.map(|(id, c)| (c.peer.clone(), c.remote_id, *id)).collect());
        let live = self.all.iter().filter(|(_, c)| c.state.is_live());
        let live = live.map(|(id, c)| (c.peer.clone(), c.remote_guid, c.remote_qpn, *id));
        assert_eq!(self.live, live.collect());
    }
}
