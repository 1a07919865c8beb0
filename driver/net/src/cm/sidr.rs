// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service ID resolution (IBTA volume 1, 12.11): which queue pair, with which key, serves datagrams at a peer.
//!
//! ```text
//!  resolve ---> asked --SIDR_REP--> gone            SIDR_REQ ---> heard --answer--> answered ---> gone
//!                 |                                                                   |
//!               no answer after all tries                       the same answer to the same request, for a while
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::machine::{timeout, Event, Manager, MAX_WAITING};
use crate::mad::{Mad, Message, SidrRep, SidrReq, SidrStatus};

/// How long an answer is kept for a request that is repeated, as a code of [`timeout`]: 17 s, four tries of Linux.
const KEPT: u8 = 22;

/// A request for a datagram service, of this side or of a peer.
#[derive(Debug)]
pub(super) struct Lookup<P> {
    pub(super) peer: P,
    deadline: Option<Duration>,
    transaction: u64,
    stage: Stage,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // They are messages, and not many.
enum Stage {
    /// This side has asked.
    Asked { sent: Mad, left: u8 },
    /// A peer has asked, by this number, and the program has not answered.
    Heard { request: SidrReq },
    /// It has.
    Answered { request: SidrReq, sent: Mad },
}

impl<P> Lookup<P> {
    fn request(&self) -> Option<&SidrReq> {
        match &self.stage {
            Stage::Heard { request } | Stage::Answered { request, .. } => Some(request),
            Stage::Asked { .. } => None,
        }
    }
}

/// Lookups by their numbers, with indexes, so that no message and no look at the clock walks over all of them.
#[derive(Debug)]
pub(super) struct Lookups<P> {
    all: BTreeMap<u32, Lookup<P>>,
    deadlines: BTreeSet<(Duration, u32)>,
    /// Those of peers by the peer, its number and the service.
    heard: BTreeMap<(P, u32, u64), u32>,
    /// Answers that are kept, by the time of their end.
    answered: BTreeSet<(Duration, u32)>,
}

impl<P> Default for Lookups<P> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            heard: BTreeMap::new(),
            answered: BTreeSet::new(),
        }
    }
}

impl<P: Clone + Ord> Lookups<P> {
    fn insert(&mut self, id: u32, lookup: Lookup<P>) {
        if let Some(request) = lookup.request() {
            self.heard.insert((lookup.peer.clone(), request.request_id, request.service_id), id);
        }
        if let Some(deadline) = lookup.deadline {
            self.deadlines.insert((deadline, id));
            if matches!(lookup.stage, Stage::Answered { .. }) {
                self.answered.insert((deadline, id));
            }
        }
        self.all.insert(id, lookup);
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Lookup<P>> {
        let lookup = self.all.remove(&id)?;
        if let Some(request) = lookup.request() {
            self.heard.remove(&(lookup.peer.clone(), request.request_id, request.service_id));
        }
        if let Some(deadline) = lookup.deadline {
            self.deadlines.remove(&(deadline, id));
            self.answered.remove(&(deadline, id));
        }
        Some(lookup)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Lookup<P>> {
        self.all.get(&id)
    }

    /// The lookup of a peer, if the same request has come before.
    fn same(&self, peer: &P, req: &SidrReq) -> Option<&Lookup<P>> {
        let id = self.heard.get(&(peer.clone(), req.request_id, req.service_id))?;
        self.all.get(id)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn due(&self, now: Duration) -> Vec<u32> {
        self.deadlines.range(..=(now, u32::MAX)).map(|(_, id)| *id).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.all.keys().copied()
    }
}

impl<P: Clone + Ord> Manager<P> {
    /// Asks a peer for the queue pair of a datagram service; the number of the lookup. It is filled in here.
    pub fn resolve(&mut self, now: Duration, peer: P, req: SidrReq) -> u32 {
        let id = self.fresh_id();
        let transaction = u64::from(id) | 2 << 32;
        let sent = Mad { transaction_id: transaction, message: SidrReq { request_id: id, ..req }.into() };
        let deadline = Some(now + timeout(self.timing.response));
        let stage = Stage::Asked { sent, left: self.timing.retries };
        self.push(peer.clone(), sent);
        self.lookups.insert(id, Lookup { peer, deadline, transaction, stage });
        id
    }

    /// Answers a peer's request, and answers the same if it is asked again; numbers are filled in here. Whether it was not answered before.
    pub fn answer(&mut self, now: Duration, id: u32, rep: SidrRep) -> bool {
        let Some(Lookup { stage: Stage::Heard { request }, .. }) = self.lookups.get(id) else { return false };
        let request = *request;
        let Some(lookup) = self.lookups.remove(id) else { return false };
        let rep = SidrRep { request_id: request.request_id, service_id: request.service_id, ..rep };
        let sent = Mad { transaction_id: lookup.transaction, message: rep.into() };
        self.push(lookup.peer.clone(), sent);
        let (stage, deadline) = (Stage::Answered { request, sent }, Some(now + timeout(KEPT)));
        self.lookups.insert(id, Lookup { stage, deadline, ..lookup });
        true
    }

    /// The program has given it up.
    pub(super) fn abandon_lookup(&mut self, now: Duration, id: u32) {
        if self.lookups.get(id).is_some_and(|lookup| matches!(lookup.stage, Stage::Asked { .. })) {
            self.lookups.remove(id);
        }
        self.answer(now, id, SidrRep { status: SidrStatus::Rejected.code(), ..SidrRep::default() });
    }

    /// A peer asks.
    pub(super) fn sidr_requested(&mut self, peer: &P, transaction: u64, req: &SidrReq) {
        if let Some(lookup) = self.lookups.same(peer, req) {
            // The same once more: the answer was lost, or there is none yet.
            if let Stage::Answered { sent, .. } = lookup.stage {
                self.push(peer.clone(), sent);
            }
            return;
        }
        if !self.services.contains(&req.service_id) {
            let rep = SidrRep {
                request_id: req.request_id,
                status: SidrStatus::Unsupported.code(),
                service_id: req.service_id,
                ..SidrRep::default()
            };
            return self.push_unsolicited(peer.clone(), transaction, rep);
        }
        if self.lookups.heard.len() >= MAX_WAITING {
            // The oldest answer goes.
            let Some((_, oldest)) = self.lookups.answered.first().copied() else { return };
            self.lookups.remove(oldest);
        }
        let id = self.fresh_id();
        let stage = Stage::Heard { request: *req };
        self.lookups.insert(id, Lookup { peer: peer.clone(), deadline: None, transaction, stage });
        self.events.push_back((id, Event::SidrRequested(*req)));
    }

    /// A peer answers.
    pub(super) fn sidr_replied(&mut self, peer: &P, rep: &SidrRep) {
        let asked = |lookup: &&Lookup<P>| {
            let Stage::Asked { sent, .. } = &lookup.stage else { return false };
            let service = |sent: &Mad| matches!(&sent.message, Message::SidrReq(req) if req.service_id == rep.service_id);
            lookup.peer == *peer && service(sent)
        };
        if self.lookups.get(rep.request_id).filter(asked).is_some() {
            self.lookups.remove(rep.request_id);
            self.events.push_back((rep.request_id, Event::SidrReplied(*rep)));
        }
    }

    /// Asks again, gives up, and forgets answers.
    pub(super) fn tick_lookups(&mut self, now: Duration) {
        let deadline = Some(now + timeout(self.timing.response));
        for id in self.lookups.due(now) {
            let Some(lookup) = self.lookups.remove(id) else { continue };
            match lookup.stage {
                Stage::Asked { sent, left } if left > 0 => {
                    self.push(lookup.peer.clone(), sent);
                    let stage = Stage::Asked { sent, left: left - 1 };
                    self.lookups.insert(id, Lookup { deadline, stage, ..lookup });
                }
                Stage::Asked { .. } => self.events.push_back((id, Event::TimedOut)),
                Stage::Heard { .. } | Stage::Answered { .. } => {}
            }
        }
    }
}
