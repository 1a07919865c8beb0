// SPDX-License-Identifier: MIT OR Apache-2.0
//! Service ID resolution (IBTA volume 1, 12.11): which queue pair, with which key, serves datagrams at a peer.
//!
//! ```text
//!  resolve ---> asked --SIDR_REP--> gone            SIDR_REQ ---> heard --answer--> answered ---> gone
//!                 |                                                                   |
//!               no answer after all tries                       the same answer to the same request, for a while
//! ```

use std::time::Duration;

use super::machine::{timeout, Event, Manager, MAX_WAITING};
use crate::mad::{Mad, Message, SidrRep, SidrReq, SidrStatus};

/// How long an answer is kept for a request that is repeated, as a code of [`timeout`]: 17 s, four tries of Linux.
const KEPT: u8 = 22;

/// A request for a datagram service, of this side or of a peer.
#[derive(Debug)]
pub(super) struct Lookup<P> {
    pub(super) peer: P,
    pub(super) deadline: Option<Duration>,
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
        let Some(lookup) = self.lookups.get_mut(&id) else { return false };
        let Stage::Heard { request } = lookup.stage else { return false };
        let rep = SidrRep { request_id: request.request_id, service_id: request.service_id, ..rep };
        let sent = Mad { transaction_id: lookup.transaction, message: rep.into() };
        lookup.stage = Stage::Answered { request, sent };
        lookup.deadline = Some(now + timeout(KEPT));
        let peer = lookup.peer.clone();
        self.push(peer, sent);
        true
    }

    /// The program has given it up.
    pub(super) fn abandon_lookup(&mut self, now: Duration, id: u32) {
        if self.lookups.get(&id).is_some_and(|lookup| matches!(lookup.stage, Stage::Asked { .. })) {
            self.lookups.remove(&id);
        }
        self.answer(now, id, SidrRep { status: SidrStatus::Rejected.code(), ..SidrRep::default() });
    }

    /// A peer asks.
    pub(super) fn sidr_requested(&mut self, peer: &P, transaction: u64, req: &SidrReq) {
        let same = |lookup: &&Lookup<P>| {
            let request = lookup.request();
            let number = |request: &SidrReq| (request.request_id, request.service_id);
            lookup.peer == *peer && request.is_some_and(|request| number(request) == number(req))
        };
        if let Some(lookup) = self.lookups.values().find(same) {
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
        let heard = |lookup: &&Lookup<P>| lookup.request().is_some();
        if self.lookups.values().filter(heard).count() >= MAX_WAITING {
            // The oldest answer goes.
            let answered = |lookup: &Lookup<P>| matches!(lookup.stage, Stage::Answered { .. });
            let answers = self.lookups.iter().filter(|(_, lookup)| answered(lookup));
            let oldest = answers.min_by_key(|(_, lookup)| lookup.deadline).map(|(id, _)| *id);
            let Some(oldest) = oldest else { return };
            self.lookups.remove(&oldest);
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
        if self.lookups.get(&rep.request_id).filter(asked).is_some() {
            self.lookups.remove(&rep.request_id);
            self.events.push_back((rep.request_id, Event::SidrReplied(*rep)));
        }
    }

    /// Asks again, gives up, and forgets answers.
    pub(super) fn tick_lookups(&mut self, now: Duration) {
        let due = |lookup: &Lookup<P>| lookup.deadline.is_some_and(|deadline| deadline <= now);
        let ids: Vec<u32> =
            self.lookups.iter().filter(|(_, lookup)| due(lookup)).map(|(id, _)| *id).collect();
        let wait = timeout(self.timing.response);
        for id in ids {
            let Some(lookup) = self.lookups.get_mut(&id) else { continue };
            match &mut lookup.stage {
                Stage::Asked { sent, left } if *left > 0 => {
                    *left -= 1;
                    lookup.deadline = Some(now + wait);
                    let (peer, sent) = (lookup.peer.clone(), *sent);
                    self.push(peer, sent);
                    continue;
                }
                Stage::Asked { .. } => self.events.push_back((id, Event::TimedOut)),
                Stage::Heard { .. } | Stage::Answered { .. } => {}
            }
            self.lookups.remove(&id);
        }
    }
}
