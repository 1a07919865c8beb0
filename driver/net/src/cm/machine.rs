// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Manager`]: the protocol of the communication manager (IBTA volume 1, 12.9), without input, output or clock of its own.
//!
//! ```text
//!  connect ---> ReqSent --REP--> RepReceived --ready--> Established --disconnect--> DreqSent --DREP--+
//!                  |                                        ^  |                                     |
//!                 REJ                                       |  +--------DREQ--------------------> TimeWait ---> gone
//!                  v                                        |                                        ^
//!               refused        REQ ---> ReqReceived --accept--> RepSent --RTU--> Established ... ----+
//! ```
//!
//! What was sent and wants an answer is sent again when that does not come in time; what is received twice is answered twice with the same, and
//! tells the program once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::mad::{Drep, Dreq, Mad, Message, Rej, RejectReason, Rep, Req, Rtu};

/// 4.096 us times 2 to the power of a code (IBTA 9.7.5.1.3).
pub fn timeout(code: u8) -> Duration {
    Duration::from_nanos(4096 << code.min(31))
}

/// Connections that may wait for the program's answer at once; requests beyond are dropped, for the asker asks again.
const MAX_WAITING: usize = 256;

/// How messages are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long an answer may take, as a code of [`timeout`].
    pub response: u8,
    /// How often a message is sent again, up to 15.
    pub retries: u8,
    /// How long the number of a connection that has ended is not used again, as such a code.
    pub time_wait: u8,
}

/// 67 ms, which is much for two hosts of one room, 15 times; half a second.
impl Default for Timing {
    fn default() -> Self {
        Self { response: 14, retries: 15, time_wait: 17 }
    }
}

/// What the program is told of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // They are messages, and not many.
pub enum Event {
    /// Somebody asks: [`Manager::accept`] or [`Manager::reject`] it.
    Requested(Req),
    /// The asked side says yes: bring the queue pair up, then [`Manager::ready`].
    Replied(Rep),
    /// The asker is ready.
    Established,
    /// The other side says no.
    Rejected(Rej),
    /// The other side does not answer.
    TimedOut,
    /// The other side has ended it, or has confirmed that this side has, or does not answer to that.
    Disconnected,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Asked, and no answer yet.
    ReqSent,
    /// The answer is yes, and the program brings its queue pair up.
    RepReceived,
    /// The program has been asked.
    ReqReceived,
    /// Said yes, and the asker has not said that it is ready.
    RepSent,
    /// It works.
    Established,
    /// Said that it ends.
    DreqSent,
    /// It has ended; messages that are late are answered.
    TimeWait,
}

/// A connection.
#[derive(Debug)]
struct Connection<P> {
    state: State,
    peer: P,
    transaction: u64,
    /// 0: not known yet.
    remote_id: u32,
    /// Queue pair of the other side.
    remote_qpn: u32,
    /// The last message of this side, as long as it may have to be sent again.
    sent: Option<Mad>,
    deadline: Option<Duration>,
    left: u8,
}

/// The connections of a card. `P` is the way to a peer: messages of one connection come from one.
#[derive(Debug)]
pub struct Manager<P> {
    timing: Timing,
    connections: BTreeMap<u32, Connection<P>>,
    services: BTreeSet<u64>,
    next_id: u32,
    out: VecDeque<(P, Mad)>,
    events: VecDeque<(u32, Event)>,
}

impl<P: Clone + PartialEq> Manager<P> {
    /// One without connections. `seed` is the first number of a connection: a random one, so that messages of before the last restart mean nothing.
    pub fn new(seed: u32, timing: Timing) -> Self {
        Self {
            timing,
            connections: BTreeMap::new(),
            services: BTreeSet::new(),
            next_id: seed,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes requests for a service. Whether nobody did before.
    pub fn listen(&mut self, service_id: u64) -> bool {
        self.services.insert(service_id)
    }

    /// Takes none any more.
    pub fn unlisten(&mut self, service_id: u64) {
        self.services.remove(&service_id);
    }

    /// Where a connection stands; `None`: it is gone.
    pub fn state(&self, id: u32) -> Option<State> {
        self.connections.get(&id).map(|c| c.state)
    }

    /// Whose messages a connection's are.
    pub fn peer(&self, id: u32) -> Option<&P> {
        self.connections.get(&id).map(|c| &c.peer)
    }

    /// Connections that there are.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn fresh_id(&mut self) -> u32 {
        loop {
            let id = self.next_id;
            self.next_id = id.wrapping_add(1);
            if id != 0 && !self.connections.contains_key(&id) {
                return id;
            }
        }
    }

    /// Asks a peer for a connection; its number. Numbers, time-outs and retries of the request are filled in here.
    pub fn connect(&mut self, now: Duration, peer: P, req: Req) -> u32 {
        let id = self.fresh_id();
        let Timing { response, retries, .. } = self.timing;
        let req = Req {
            local_comm_id: id,
            remote_cm_response_timeout: response,
            local_cm_response_timeout: response,
            max_cm_retries: retries,
            ..req
        };
        // Requests repeated are known by the number; the transaction is of no other use.
        let transaction = u64::from(id) | 1 << 32;
        let connection = Connection {
            state: State::ReqSent,
            peer,
            transaction,
            remote_id: 0,
            remote_qpn: 0,
            sent: None,
            deadline: None,
            left: 0,
        };
        self.connections.insert(id, connection);
        self.send(now, id, req, true);
        id
    }

    /// Says yes to a request; its numbers are filled in here. Whether the asker still waits.
    pub fn accept(&mut self, now: Duration, id: u32, rep: Rep) -> bool {
        let Some(c) = self.connections.get_mut(&id).filter(|c| c.state == State::ReqReceived) else {
            return false;
        };
        c.state = State::RepSent;
        let rep = Rep { local_comm_id: id, remote_comm_id: c.remote_id, ..rep };
        self.send(now, id, rep, true);
        true
    }

    /// Says no, to a request or to its answer; the connection is gone.
    pub fn reject(&mut self, id: u32, reason: RejectReason, private_data: [u8; 148]) {
        let Some(c) = self.connections.get(&id) else { return };
        let message = match c.state {
            State::ReqReceived => 0,
            State::RepReceived => 1,
            State::ReqSent | State::RepSent => 2,
            _ => return,
        };
        let rej = Rej {
            local_comm_id: id,
            remote_comm_id: c.remote_id,
            message,
            reason: reason.code(),
            private_data,
            ..Rej::default()
        };
        self.out.push_back((c.peer.clone(), Mad { transaction_id: c.transaction, message: rej.into() }));
        self.connections.remove(&id);
    }

    /// The asker's queue pair is up: says so. Whether the other side still waits for that.
    pub fn ready(&mut self, now: Duration, id: u32) -> bool {
        let Some(c) = self.connections.get_mut(&id).filter(|c| c.state == State::RepReceived) else {
            return false;
        };
        c.state = State::Established;
        let rtu = Rtu { local_comm_id: id, remote_comm_id: c.remote_id, ..Rtu::default() };
        self.send(now, id, rtu, false);
        true
    }

    /// The asked side's queue pair has received something, which it could not if the asker were not ready (IBTA 12.9.7.2, COMM_EST).
    pub fn communication_established(&mut self, id: u32) {
        if let Some(c) = self.connections.get_mut(&id).filter(|c| c.state == State::RepSent) {
            (c.state, c.sent, c.deadline) = (State::Established, None, None);
            self.events.push_back((id, Event::Established));
        }
    }

    /// Ends a connection that works. Whether there was one.
    pub fn disconnect(&mut self, now: Duration, id: u32) -> bool {
        let there = |c: &&mut Connection<P>| matches!(c.state, State::Established | State::RepSent);
        let Some(c) = self.connections.get_mut(&id).filter(there) else { return false };
        c.state = State::DreqSent;
        let dreq = Dreq {
            local_comm_id: id,
            remote_comm_id: c.remote_id,
            remote_qpn: c.remote_qpn,
            ..Dreq::default()
        };
        self.send(now, id, dreq, true);
        true
    }

    /// Sends a message of a connection, keeps it, and waits for its answer if it wants one.
    fn send(&mut self, now: Duration, id: u32, message: impl Into<Message>, waits: bool) {
        let wait = timeout(self.timing.response);
        let Some(c) = self.connections.get_mut(&id) else { return };
        let mad = Mad { transaction_id: c.transaction, message: message.into() };
        c.sent = Some(mad);
        c.deadline = waits.then(|| now + wait);
        c.left = self.timing.retries;
        self.out.push_back((c.peer.clone(), mad));
    }

    /// The connection has ended; its number is free later.
    fn end(&mut self, now: Duration, id: u32, event: bool) {
        let time_wait = timeout(self.timing.time_wait);
        if let Some(c) = self.connections.get_mut(&id) {
            (c.state, c.sent, c.deadline) = (State::TimeWait, None, Some(now + time_wait));
            if event {
                self.events.push_back((id, Event::Disconnected));
            }
        }
    }

    /// A message has come.
    pub fn receive(&mut self, now: Duration, peer: &P, mad: &Mad) {
        let answer = |message: Message| (peer.clone(), Mad { transaction_id: mad.transaction_id, message });
        let (id, remote_id) = match &mad.message {
            Message::Req(req) => return self.requested(peer, mad.transaction_id, req),
            Message::Mra(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Rej(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Rep(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Rtu(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Dreq(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Drep(m) => (m.remote_comm_id, m.local_comm_id),
        };
        // The other side's number is that of all its messages, once it is known; who refuses a request may have none.
        let none_yet =
            |c: &Connection<P>| c.state == State::ReqSent || matches!(mad.message, Message::Rej(_));
        let known = |c: &&mut Connection<P>| c.peer == *peer && (c.remote_id == remote_id || none_yet(c));
        let Some(c) = self.connections.get_mut(&id).filter(known) else {
            match &mad.message {
                // It ended here and the number is gone: the other side may end, too (IBTA 12.9.8.3).
                Message::Dreq(m) => {
                    let (local_comm_id, remote_comm_id) = (m.remote_comm_id, m.local_comm_id);
                    let drep = Drep { local_comm_id, remote_comm_id, ..Drep::default() };
                    self.out.push_back(answer(drep.into()));
                }
                Message::Rep(m) => {
                    let rej = Rej {
                        local_comm_id: m.remote_comm_id,
                        remote_comm_id: m.local_comm_id,
                        message: 1,
                        reason: RejectReason::InvalidCommId.code(),
                        ..Rej::default()
                    };
                    self.out.push_back(answer(rej.into()));
                }
                _ => {}
            }
            return;
        };
        match (&mad.message, c.state) {
            (Message::Mra(m), State::ReqSent | State::RepSent) => {
                c.deadline = Some(now + timeout(m.service_timeout) + timeout(self.timing.response));
                c.left = self.timing.retries;
            }
            (Message::Rep(rep), State::ReqSent) => {
                (c.remote_id, c.remote_qpn) = (remote_id, rep.local_qpn);
                (c.state, c.sent, c.deadline) = (State::RepReceived, None, None);
                self.events.push_back((id, Event::Replied(*rep)));
            }
            // The RTU was lost.
            (Message::Rep(_), State::Established) => {
                if let Some(rtu) = c.sent {
                    self.out.push_back((peer.clone(), rtu));
                }
            }
            (Message::Rtu(_), State::RepSent) => self.communication_established(id),
            (
                Message::Rej(rej),
                State::ReqSent | State::ReqReceived | State::RepSent | State::RepReceived,
            ) => {
                let event = Event::Rejected(*rej);
                self.connections.remove(&id);
                self.events.push_back((id, event));
            }
            // The other side does not know the connection any more.
            (Message::Rej(_), State::Established | State::DreqSent) => self.end(now, id, true),
            (Message::Dreq(_), state) if state != State::ReqSent && state != State::ReqReceived => {
                let ends = c.state != State::TimeWait;
                let drep = Drep { local_comm_id: id, remote_comm_id: remote_id, ..Drep::default() };
                self.out.push_back(answer(drep.into()));
                self.end(now, id, ends);
            }
            (Message::Drep(_), State::DreqSent) => self.end(now, id, true),
            _ => {}
        }
    }

    /// A request has come.
    fn requested(&mut self, peer: &P, transaction: u64, req: &Req) {
        let same = |c: &&Connection<P>| c.remote_id == req.local_comm_id && c.peer == *peer;
        if let Some(c) = self.connections.values().find(same) {
            // The same once more: the answer was lost, or there is none yet.
            if let (State::RepSent, Some(rep)) = (c.state, c.sent) {
                self.out.push_back((peer.clone(), rep));
            }
            return;
        }
        let refuse = |reason: RejectReason| {
            let reason = reason.code();
            let rej = Rej { remote_comm_id: req.local_comm_id, reason, ..Rej::default() };
            (peer.clone(), Mad { transaction_id: transaction, message: rej.into() })
        };
        if !self.services.contains(&req.service_id) {
            return self.out.push_back(refuse(RejectReason::InvalidServiceId));
        }
        if req.transport_service != 0 || req.extended_transport != 0 {
            return self.out.push_back(refuse(RejectReason::InvalidTransport));
        }
        let waiting = |c: &&Connection<P>| c.state == State::ReqReceived;
        if self.connections.values().filter(waiting).count() >= MAX_WAITING {
            return;
        }
        let id = self.fresh_id();
        let connection = Connection {
            state: State::ReqReceived,
            peer: peer.clone(),
            transaction,
            remote_id: req.local_comm_id,
            remote_qpn: req.local_qpn,
            sent: None,
            deadline: None,
            left: 0,
        };
        self.connections.insert(id, connection);
        self.events.push_back((id, Event::Requested(*req)));
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.connections.values().filter_map(|c| c.deadline).min()
    }

    /// Sends again what was not answered, and gives up what was not often enough.
    pub fn tick(&mut self, now: Duration) {
        let due = |c: &Connection<P>| c.deadline.is_some_and(|deadline| deadline <= now);
        let ids: Vec<u32> = self.connections.iter().filter(|(_, c)| due(c)).map(|(id, _)| *id).collect();
        for id in ids {
            let wait = timeout(self.timing.response);
            let Some(c) = self.connections.get_mut(&id) else { continue };
            match (c.state, c.left) {
                (State::TimeWait, _) => drop(self.connections.remove(&id)),
                (State::DreqSent, 0) => self.end(now, id, true),
                (_, 0) => {
                    // So that the other side does not wait for what does not come (IBTA 12.9.7.1).
                    self.reject(id, RejectReason::Timeout, [0; 148]);
                    self.events.push_back((id, Event::TimedOut));
                }
                (_, left) => {
                    (c.left, c.deadline) = (left - 1, Some(now + wait));
                    self.out.extend(c.sent.map(|mad| (c.peer.clone(), mad)));
                }
            }
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<(P, Mad)> {
        self.out.pop_front()
    }

    /// What the program is to be told next, and of which connection.
    pub fn poll_event(&mut self) -> Option<(u32, Event)> {
        self.events.pop_front()
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
