// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Manager`]: the protocol of the communication manager (IBTA volume 1, 12.9 and 12.11), without input, output or clock of its own.
//!
//! ```text
//!  connect ---> ReqSent --REP--> RepReceived --ready--> Established --disconnect--> DreqSent --DREP--> TimeWait ---> gone
//!                  |                  |                  ^   |                                            ^
//!                 REJ               reject               |   +---DREQ---> DreqReceived ---disconnect-----+
//!                  v                  v                  |
//!                gone              Refused               +-----RTU------+
//!                                     ^                                 |
//!                        REQ ---> ReqReceived --------accept-------> RepSent
//! ```
//!
//! A message that wants an answer is sent again when the answer does not come in time. A message that comes twice gets the same answer twice, and
//! the program hears of it once. A message that comes twice while the program thinks gets an MRA. [`sidr`](super::sidr) has the lookup of
//! datagram services.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::sidr::Lookups;
use super::table::{Connection, Table};
use crate::mad::{Drep, Dreq, Mad, Message, Mra, Rej, RejectReason, Rep, Req, Rtu, SidrRep, SidrReq};

/// 4.096 us times 2 to the power of a code (IBTA 9.7.5.1.3).
pub fn timeout(code: u8) -> Duration {
    Duration::from_nanos(4096 << code.min(31))
}

/// Longest time that a peer's message makes this side wait, as a code of [`timeout`]: 69 s, as long as Linux' MRA asks for.
const LONGEST: u8 = 24;

/// Requests that may wait for the program's answer at once. Requests beyond are dropped, for the asker asks again.
pub(super) const MAX_WAITING: usize = 4096;

/// Longest time-out of an asker, as such a code, for which refusals are kept: 4.3 s, that of Linux.
const KEPT: u8 = 20;

/// How often a request is sent again that was refused for an older connection of its queue pair: the other side ends that meanwhile.
const STALE_TRIES: u8 = 3;

/// The version of selective retransmission that a request names: RC alone has it.
fn selective(req: &Req) -> u8 {
    match (req.transport_service, req.extended_transport) {
        (0, 0) => req.selective,
        _ => 0,
    }
}

/// The version that an answer agrees to: the one that was asked for, or none.
fn agreed(asked: u8, answered: u8) -> u8 {
    if asked == answered {
        asked
    } else {
        0
    }
}

/// How messages are repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long an answer may take, as a code of [`timeout`].
    pub response: u8,
    /// How often a message is sent again, up to 15.
    pub retries: u8,
    /// How long the number of a connection that has ended is not used again, as such a code.
    pub time_wait: u8,
    /// How much longer an MRA asks the other side to wait for the program, as such a code.
    pub service: u8,
}

/// 67 ms, which is much for two hosts of one room, 15 times; half a second; 17 seconds.
impl Default for Timing {
    fn default() -> Self {
        Self { response: 14, retries: 15, time_wait: 17, service: 22 }
    }
}

/// What ended a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // They are messages, and not many.
pub enum End {
    /// A DREQ of the other side. The program answers with [`Manager::disconnect`].
    Dreq(Dreq),
    /// The other side's answer to this side's DREQ.
    Drep(Drep),
    /// The other side does not know the connection.
    Rejected(Rej),
    /// The other side does not answer.
    TimedOut,
}

/// An event of a connection or a lookup, for the program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // They are messages, and not many.
pub enum Event {
    /// A peer asks for a connection: [`Manager::accept`] or [`Manager::reject`] it.
    Requested(Req),
    /// The asked side has accepted: bring the queue pair up, then [`Manager::ready`]. `selective` is 0 unless it is the version that was asked for.
    Replied(Rep),
    /// The asker is ready: it said so, or its queue pair has sent something.
    Established(Option<Rtu>),
    /// The other side refuses.
    Rejected(Rej),
    /// The other side does not answer.
    TimedOut,
    /// It has ended.
    Disconnected(End),
    /// The number of the connection is free again, and so is its queue pair.
    TimeWaitOver,
    /// A peer asks for a datagram service: [`Manager::answer`].
    SidrRequested(SidrReq),
    /// The answer to a lookup.
    SidrReplied(SidrRep),
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Asked, and no answer yet.
    ReqSent,
    /// The answer is yes, and the program brings its queue pair up.
    RepReceived,
    /// The program has been asked.
    ReqReceived,
    /// Accepted, and the asker has not reported that it is ready.
    RepSent,
    /// It works.
    Established,
    /// Said that it ends.
    DreqSent,
    /// The other side has ended it, and the program has not answered.
    DreqReceived,
    /// It has ended; messages that are late are answered.
    TimeWait,
    /// This side has refused it; messages that are late are answered.
    Refused,
}

impl State {
    /// Both sides may still use it.
    pub(super) fn is_live(self) -> bool {
        !matches!(self, State::ReqSent | State::DreqSent | State::TimeWait | State::Refused)
    }
}

/// A message to send.
#[derive(Debug)]
pub(crate) struct Outgoing<P> {
    pub(crate) peer: P,
    pub(crate) mad: Mad,
    /// It answers a message that belongs to no connection. Anybody can have it sent, and the other side asks again.
    pub(crate) unsolicited: bool,
}

/// The connections of a card. `P` is the way to a peer: messages of one connection come from one.
#[derive(Debug)]
pub struct Manager<P> {
    guid: u64,
    pub(super) timing: Timing,
    connections: Table<P>,
    pub(super) lookups: Lookups<P>,
    pub(super) services: BTreeSet<u64>,
    next_id: u32,
    out: VecDeque<Outgoing<P>>,
    pub(super) events: VecDeque<(u32, Event)>,
}

impl<P: Clone + Ord> Manager<P> {
    /// One without connections. `seed` is the first number of a connection: a random one, so that late messages of an earlier run match no connection.
    /// `guid` is the adapter's, as in `local_ca_guid` of its requests.
    pub fn new(seed: u32, guid: u64, timing: Timing) -> Self {
        Self {
            guid,
            timing,
            connections: Table::default(),
            lookups: Lookups::default(),
            services: BTreeSet::new(),
            next_id: seed,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes requests for a service, of connections or of datagrams.
    pub fn listen(&mut self, service_id: u64) {
        self.services.insert(service_id);
    }

    /// Takes none any more.
    pub fn unlisten(&mut self, service_id: u64) {
        self.services.remove(&service_id);
    }

    /// The state of a connection; `None`: it is gone.
    pub fn state(&self, id: u32) -> Option<State> {
        self.connections.get(id).map(|c| c.state)
    }

    /// The peer of a connection or a lookup.
    pub fn peer(&self, id: u32) -> Option<&P> {
        let lookup = || self.lookups.get(id).map(|lookup| &lookup.peer);
        self.connections.get(id).map(|c| &c.peer).or_else(lookup)
    }

    /// Connections and lookups that there are.
    pub fn connections(&self) -> usize {
        self.connections.len() + self.lookups.len()
    }

    pub(super) fn fresh_id(&mut self) -> u32 {
        loop {
            let id = self.next_id;
            self.next_id = id.wrapping_add(1);
            if id != 0 && self.connections.get(id).is_none() && self.lookups.get(id).is_none() {
                return id;
            }
        }
    }

    /// Sends a message of a connection or a lookup.
    pub(super) fn push(&mut self, peer: P, mad: Mad) {
        self.out.push_back(Outgoing { peer, mad, unsolicited: false });
    }

    /// Answers a message that belongs to no connection.
    pub(super) fn push_unsolicited(&mut self, peer: P, transaction_id: u64, message: impl Into<Message>) {
        let mad = Mad { transaction_id, message: message.into() };
        self.out.push_back(Outgoing { peer, mad, unsolicited: true });
    }

    /// Asks a peer for a connection; its number. Numbers, time-outs and retries of the request are filled in here.
    pub fn connect(&mut self, now: Duration, peer: P, req: Req) -> u32 {
        let id = self.fresh_id();
        let Timing { response, retries, .. } = self.timing;
        let retries = retries.min(15);
        let req = Req {
            local_comm_id: id,
            remote_cm_response_timeout: response,
            local_cm_response_timeout: response,
            max_cm_retries: retries,
            ..req
        };
        let connection = Connection {
            state: State::ReqSent,
            peer,
            // Requests repeated are known by the number; the transaction is of no other use.
            transaction: u64::from(id) | 1 << 32,
            remote_id: 0,
            remote_guid: 0,
            remote_qpn: 0,
            local_qpn: req.local_qpn,
            selective: selective(&req),
            sent: None,
            deadline: None,
            left: 0,
            wait: timeout(response),
            retries,
            kept: timeout(self.timing.time_wait),
            stale: None,
            abandoned: false,
        };
        self.connections.insert(id, connection);
        self.send(now, id, req, true);
        id
    }

    /// Accepts a request; its numbers are filled in here. It agrees to the version of selective retransmission that the request names, and to no other one.
    /// Whether the asker still waits.
    pub fn accept(&mut self, now: Duration, id: u32, rep: Rep) -> bool {
        let accepted = self.connections.change_in(id, State::ReqReceived, |c| {
            (c.state, c.local_qpn) = (State::RepSent, rep.local_qpn);
            (c.remote_id, c.selective)
        });
        let Some((remote_comm_id, asked)) = accepted else { return false };
        let rep = Rep { local_comm_id: id, remote_comm_id, selective: agreed(asked, rep.selective), ..rep };
        self.send(now, id, rep, true);
        true
    }

    /// Refuses a request or its answer, and once more if that is repeated. Whether there was something to refuse.
    pub fn reject(
        &mut self,
        now: Duration,
        id: u32,
        reason: RejectReason,
        private_data: [u8; Rej::PRIVATE],
    ) -> bool {
        let Some(c) = self.connections.get(id) else { return false };
        // 0: a REQ is refused, 1: a REP, 2: neither.
        let message = match c.state {
            State::ReqReceived => 0,
            State::RepReceived => 1,
            State::ReqSent | State::RepSent => 2,
            _ => return false,
        };
        let rej = Rej {
            local_comm_id: id,
            remote_comm_id: c.remote_id,
            message,
            info_length: if reason == RejectReason::Timeout { 8 } else { 0 },
            reason: reason.code(),
            // The other side may know this side's number alone, which is one of this adapter (IBTA 12.6.7.2, reason 4).
            info: if reason == RejectReason::Timeout { u128::from(self.guid) << 64 } else { 0 },
            private_data,
        };
        let asked = c.state != State::ReqSent;
        self.send(now, id, rej, false);
        if asked {
            self.connections.change(id, |c| (c.state, c.deadline) = (State::Refused, Some(now + c.kept)));
            self.connections.trim_refused(MAX_WAITING);
        } else {
            self.connections.remove(id);
        }
        true
    }

    /// Refuses a request of which the program does not hear, and forgets it: the same request gets the same refusal. Whether it was not answered before.
    pub fn refuse(&mut self, id: u32, reason: RejectReason) -> bool {
        let Some(c) = self.connections.get(id).filter(|c| c.state == State::ReqReceived) else {
            return false;
        };
        let rej = Rej { remote_comm_id: c.remote_id, reason: reason.code(), ..Rej::default() };
        self.push_unsolicited(c.peer.clone(), c.transaction, rej);
        self.connections.remove(id);
        true
    }

    /// Asks the peer to wait, for the program takes longer with a request or an answer (IBTA 12.6.6). Whether the peer waits for it.
    pub fn delay(&mut self, id: u32) -> bool {
        let service_timeout = self.timing.service;
        let Some(c) = self.connections.get(id) else { return false };
        let message = match c.state {
            State::ReqReceived => 0,
            State::RepReceived => 1,
            _ => return false,
        };
        let remote_comm_id = c.remote_id;
        let mra = Mra { local_comm_id: id, remote_comm_id, message, service_timeout, ..Mra::default() };
        let (peer, transaction_id) = (c.peer.clone(), c.transaction);
        self.push(peer, Mad { transaction_id, message: mra.into() });
        true
    }

    /// The asker's queue pair is up: sends the RTU. Whether the other side still waits for that.
    pub fn ready(&mut self, now: Duration, id: u32) -> bool {
        let ready = self.connections.change_in(id, State::RepReceived, |c| {
            c.state = State::Established;
            c.remote_id
        });
        let Some(remote_comm_id) = ready else { return false };
        self.send(now, id, Rtu { local_comm_id: id, remote_comm_id, ..Rtu::default() }, false);
        true
    }

    /// The asked side's queue pair has received something, which it could not if the asker were not ready (IBTA 12.9.7.2, COMM_EST).
    pub fn communication_established(&mut self, id: u32) {
        self.established(id, None);
    }

    fn established(&mut self, id: u32, rtu: Option<Rtu>) {
        let up = self.connections.change_in(id, State::RepSent, |c| {
            (c.state, c.sent, c.deadline) = (State::Established, None, None);
        });
        if up.is_some() {
            self.report(id, Event::Established(rtu));
        }
    }

    /// Ends a connection that works, or answers the other side's DREQ. Whether there was one.
    pub fn disconnect(&mut self, now: Duration, id: u32, private_data: [u8; Dreq::PRIVATE]) -> bool {
        let Some(c) = self.connections.get(id) else { return false };
        let (local_comm_id, remote_comm_id, remote_qpn) = (id, c.remote_id, c.remote_qpn);
        match c.state {
            State::Established | State::RepSent => {
                self.connections.change(id, |c| c.state = State::DreqSent);
                let dreq = Dreq { local_comm_id, remote_comm_id, remote_qpn, private_data };
                self.send(now, id, dreq, true);
            }
            State::DreqReceived => {
                let mut drep = Drep { local_comm_id, remote_comm_id, ..Drep::default() };
                drep.private_data[..Dreq::PRIVATE].copy_from_slice(&private_data);
                self.end(now, id, None);
                self.send(now, id, drep, false);
            }
            _ => return false,
        }
        true
    }

    /// The program has given a connection or a lookup up: ends it as its state needs, and reports no more events of it.
    pub fn abandon(&mut self, now: Duration, id: u32) {
        self.abandon_lookup(now, id);
        let abandoned = self.connections.change(id, |c| {
            c.abandoned = true;
            c.state
        });
        let Some(state) = abandoned else { return };
        match state {
            State::ReqSent => drop(self.reject(now, id, RejectReason::Timeout, [0; Rej::PRIVATE])),
            State::ReqReceived | State::RepReceived | State::RepSent => {
                self.reject(now, id, RejectReason::Consumer, [0; Rej::PRIVATE]);
            }
            State::Established | State::DreqReceived => {
                self.disconnect(now, id, [0; Dreq::PRIVATE]);
            }
            State::DreqSent | State::TimeWait | State::Refused => {}
        }
    }

    /// Forgets a request without a word, so that the asker asks again.
    pub fn forget(&mut self, id: u32) {
        self.connections.remove(id);
        self.lookups.remove(id);
    }

    fn report(&mut self, id: u32, event: Event) {
        if self.connections.get(id).is_none_or(|c| !c.abandoned) {
            self.events.push_back((id, event));
        }
    }

    /// The last event of a connection: it is gone.
    fn last(&mut self, id: u32, event: Event) {
        self.report(id, event);
        self.connections.remove(id);
    }

    /// Sends a message of a connection, keeps it, and waits for its answer if it wants one.
    fn send(&mut self, now: Duration, id: u32, message: impl Into<Message>, waits: bool) {
        let message = message.into();
        let sent = self.connections.change(id, |c| {
            let mad = Mad { transaction_id: c.transaction, message };
            c.sent = Some(mad);
            if waits {
                (c.deadline, c.left) = (Some(now + c.wait), c.retries);
            }
            (c.peer.clone(), mad)
        });
        if let Some((peer, mad)) = sent {
            self.push(peer, mad);
        }
    }

    /// Sends the last message of a connection once more, if there is one.
    fn repeat(&mut self, id: u32) {
        let Some((peer, Some(mad))) = self.connections.get(id).map(|c| (c.peer.clone(), c.sent)) else {
            return;
        };
        self.push(peer, mad);
    }

    /// The connection has ended; its number is free later.
    fn end(&mut self, now: Duration, id: u32, why: Option<End>) {
        let until = now + timeout(self.timing.time_wait);
        let ended = self.connections.change(id, |c| {
            (c.state, c.sent, c.deadline) = (State::TimeWait, None, Some(until));
        });
        if let (Some(()), Some(why)) = (ended, why) {
            self.report(id, Event::Disconnected(why));
        }
    }

    /// Which connection a message is of, if its sender's numbers fit.
    fn find(&self, peer: &P, id: u32, remote_id: u32, mad: &Mad) -> Option<u32> {
        if let (Message::Rej(_), 0) = (&mad.message, id) {
            // The asker has given up before it knew this side's number.
            let asked =
                |c: &Connection<P>| matches!(c.state, State::ReqReceived | State::RepSent | State::DreqSent);
            return self.connections.by_remote(peer, remote_id).filter(|(_, c)| asked(c)).map(|(id, _)| id);
        }
        let c = self.connections.get(id).filter(|c| c.peer == *peer)?;
        // The other side's number is that of all its messages, once it is known; a refusal of a request may have none. A peer that guesses this side's
        // number ends nothing without the other one.
        let none_yet = c.state == State::ReqSent;
        (c.remote_id == remote_id || none_yet).then_some(id)
    }

    /// A message has come.
    pub fn receive(&mut self, now: Duration, peer: &P, mad: &Mad) {
        let (id, remote_id) = match &mad.message {
            Message::Req(req) => return self.requested(now, peer, mad.transaction_id, req),
            Message::SidrReq(req) => return self.sidr_requested(peer, mad.transaction_id, req),
            Message::SidrRep(rep) => return self.sidr_replied(peer, rep),
            Message::Mra(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Rej(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Rep(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Rtu(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Dreq(m) => (m.remote_comm_id, m.local_comm_id),
            Message::Drep(m) => (m.remote_comm_id, m.local_comm_id),
        };
        match self.find(peer, id, remote_id, mad) {
            Some(id) => self.received(now, id, remote_id, mad),
            None => self.unknown(peer, id, remote_id, mad),
        }
    }

    /// A message of a connection that there is not: so that the other side need not wait.
    fn unknown(&mut self, peer: &P, id: u32, remote_id: u32, mad: &Mad) {
        let (local_comm_id, remote_comm_id) = (id, remote_id);
        let message: Message = match &mad.message {
            // It ended here and the number is gone: the other side may end, too (IBTA 12.9.8.3).
            Message::Dreq(_) => Drep { local_comm_id, remote_comm_id, ..Drep::default() }.into(),
            Message::Rep(_) => {
                let reason = RejectReason::InvalidCommId.code();
                Rej { local_comm_id, remote_comm_id, message: 1, reason, ..Rej::default() }.into()
            }
            _ => return,
        };
        self.push_unsolicited(peer.clone(), mad.transaction_id, message);
    }

    /// A message of a connection has come.
    fn received(&mut self, now: Duration, id: u32, remote_id: u32, mad: &Mad) {
        let Some(c) = self.connections.get(id) else { return };
        match (&mad.message, c.state) {
            (Message::Mra(m), State::ReqSent | State::RepSent) => {
                self.connections.change(id, |c| {
                    c.deadline = Some(now + timeout(m.service_timeout.min(LONGEST)) + c.wait);
                    c.left = c.retries;
                });
            }
            (Message::Rep(rep), State::ReqSent) => self.replied(now, id, rep),
            (Message::Rep(_), State::RepReceived) => drop(self.delay(id)),
            // The RTU or the REJ was lost.
            (Message::Rep(_), State::Established | State::Refused) => self.repeat(id),
            // The asker has not heard that this side has given its answer up, and takes itself for connected.
            (Message::Rtu(_), State::Refused) => self.repeat(id),
            (Message::Rtu(rtu), State::RepSent) => self.established(id, Some(*rtu)),
            (Message::Rej(rej), State::ReqSent) if rej.reason == RejectReason::StaleConnection.code() => {
                // Asked again when the time is over.
                self.connections.change(id, |c| {
                    c.left = c.left.min(if c.stale.is_some() { c.left } else { STALE_TRIES });
                    c.stale = Some(*rej);
                });
            }
            (
                Message::Rej(rej),
                State::ReqSent | State::ReqReceived | State::RepSent | State::RepReceived,
            ) => self.last(id, Event::Rejected(*rej)),
            // The other side does not know the connection any more.
            (Message::Rej(rej), State::Established | State::DreqSent) => {
                self.end(now, id, Some(End::Rejected(*rej)));
            }
            (Message::Rej(_), State::DreqReceived) => self.end(now, id, None),
            (Message::Dreq(dreq), _) if dreq.remote_qpn == c.local_qpn => {
                self.ended(now, id, remote_id, mad.transaction_id, dreq);
            }
            (Message::Drep(drep), State::DreqSent) => self.end(now, id, Some(End::Drep(*drep))),
            _ => {}
        }
    }

    /// The other side ends a connection.
    fn ended(&mut self, now: Duration, id: u32, remote_id: u32, transaction_id: u64, dreq: &Dreq) {
        let Some(c) = self.connections.get(id) else { return };
        match c.state {
            // The asked side has accepted, which was lost, and ends it: that is a refusal.
            State::ReqSent => {
                let drep = Drep { local_comm_id: id, remote_comm_id: remote_id, ..Drep::default() };
                let peer = c.peer.clone();
                self.push(peer, Mad { transaction_id, message: drep.into() });
                let (local_comm_id, reason) = (remote_id, RejectReason::Consumer.code());
                let rej = Rej { local_comm_id, remote_comm_id: id, message: 2, reason, ..Rej::default() };
                self.last(id, Event::Rejected(rej));
            }
            State::RepReceived | State::RepSent | State::Established => {
                let abandoned = c.abandoned;
                self.connections.change(id, |c| {
                    (c.state, c.sent, c.deadline) = (State::DreqReceived, None, None);
                    // An answer is of the transaction of its question.
                    c.transaction = transaction_id;
                });
                match abandoned {
                    true => drop(self.disconnect(now, id, [0; Dreq::PRIVATE])),
                    false => self.report(id, Event::Disconnected(End::Dreq(*dreq))),
                }
            }
            State::DreqSent | State::TimeWait => {
                let fresh = Drep { local_comm_id: id, remote_comm_id: remote_id, ..Drep::default() };
                let fresh = Mad { transaction_id, message: fresh.into() };
                // The one with the program's bytes, if there is one.
                let drep = c.sent.filter(|sent| matches!(sent.message, Message::Drep(_)));
                let (peer, state) = (c.peer.clone(), c.state);
                self.push(peer, drep.unwrap_or(fresh));
                if state == State::DreqSent {
                    self.end(now, id, Some(End::Dreq(*dreq)));
                }
            }
            State::ReqReceived | State::DreqReceived | State::Refused => {}
        }
    }

    /// The answer to a request is yes.
    fn replied(&mut self, now: Duration, id: u32, rep: &Rep) {
        let Some(peer) = self.peer(id).cloned() else { return };
        let stale = self.connections.by_queue_pair(&peer, rep.local_ca_guid, rep.local_qpn);
        self.connections.change(id, |c| {
            (c.state, c.sent, c.deadline) = (State::RepReceived, None, None);
            (c.remote_id, c.remote_qpn, c.remote_guid) =
                (rep.local_comm_id, rep.local_qpn, rep.local_ca_guid);
        });
        let asked = self.connections.get(id).map_or(0, |c| c.selective);
        let rep = Rep { selective: agreed(asked, rep.selective), ..*rep };
        match stale {
            None => self.report(id, Event::Replied(rep)),
            Some(stale) => {
                self.end_stale(now, stale);
                self.refuse_stale(now, id);
            }
        }
    }

    /// Refuses an answer because of an older connection. The program gets the event of a refusal by the other side.
    fn refuse_stale(&mut self, now: Duration, id: u32) {
        let reason = RejectReason::StaleConnection;
        let heard = Rej { remote_comm_id: id, reason: reason.code(), ..Rej::default() };
        self.report(id, Event::Rejected(heard));
        self.reject(now, id, reason, [0; Rej::PRIVATE]);
        self.connections.change(id, |c| c.abandoned = true);
    }

    /// Ends a connection whose queue pair the other side cannot have any more, after a restart (IBTA 12.9.8.3.1).
    fn end_stale(&mut self, now: Duration, id: u32) {
        match self.state(id) {
            Some(State::RepReceived) => self.refuse_stale(now, id),
            // The asker does not wait for the program's answer any more.
            Some(State::ReqReceived) => {
                let reason = RejectReason::StaleConnection.code();
                self.last(id, Event::Rejected(Rej { remote_comm_id: id, reason, ..Rej::default() }));
            }
            _ => drop(self.disconnect(now, id, [0; Dreq::PRIVATE])),
        }
    }

    /// A request has come.
    fn requested(&mut self, now: Duration, peer: &P, transaction: u64, req: &Req) {
        if let Some((id, c)) = self.connections.by_remote(peer, req.local_comm_id) {
            // The same once more: the answer was lost, or there is none yet.
            match c.state {
                State::RepSent | State::Refused => self.repeat(id),
                State::ReqReceived => drop(self.delay(id)),
                // The answer was lost, and the connection has ended here since: there is nothing to wait for.
                State::DreqSent | State::TimeWait => {
                    let reason = RejectReason::Consumer.code();
                    let rej = Rej { remote_comm_id: req.local_comm_id, reason, ..Rej::default() };
                    self.push_unsolicited(peer.clone(), transaction, rej);
                }
                _ => {}
            }
            return;
        }
        let refuse = |manager: &mut Self, reason: RejectReason| {
            let rej = Rej { remote_comm_id: req.local_comm_id, reason: reason.code(), ..Rej::default() };
            manager.push_unsolicited(peer.clone(), transaction, rej);
        };
        if let Some(id) = self.connections.by_queue_pair(peer, req.local_ca_guid, req.local_qpn) {
            let unanswered = self.state(id) == Some(State::ReqReceived);
            self.end_stale(now, id);
            if !unanswered {
                return refuse(self, RejectReason::StaleConnection);
            }
        }
        if !self.services.contains(&req.service_id) {
            return refuse(self, RejectReason::InvalidServiceId);
        }
        // RC and UC.
        if req.transport_service > 1 || req.extended_transport != 0 {
            return refuse(self, RejectReason::InvalidTransport);
        }
        if self.connections.unanswered() >= MAX_WAITING {
            return;
        }
        let id = self.fresh_id();
        let connection = Connection {
            state: State::ReqReceived,
            peer: peer.clone(),
            transaction,
            remote_id: req.local_comm_id,
            remote_guid: req.local_ca_guid,
            remote_qpn: req.local_qpn,
            local_qpn: 0,
            selective: selective(req),
            sent: None,
            deadline: None,
            left: 0,
            wait: timeout(req.local_cm_response_timeout.min(LONGEST)).max(timeout(self.timing.response)),
            retries: req.max_cm_retries,
            // Twice the time after which it is repeated.
            kept: timeout(self.timing.time_wait).max(2 * timeout(req.remote_cm_response_timeout.min(KEPT))),
            stale: None,
            abandoned: false,
        };
        self.connections.insert(id, connection);
        self.report(id, Event::Requested(*req));
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.connections.next_deadline().into_iter().chain(self.lookups.next_deadline()).min()
    }

    /// Sends again what was not answered, and gives up what was not often enough.
    pub fn tick(&mut self, now: Duration) {
        for id in self.connections.due(now) {
            let Some(c) = self.connections.get(id) else { continue };
            match (c.state, c.left) {
                (State::TimeWait, _) => self.last(id, Event::TimeWaitOver),
                (State::Refused, _) => self.connections.remove(id),
                (State::DreqSent, 0) => self.end(now, id, Some(End::TimedOut)),
                (_, 0) => {
                    let event = c.stale.map_or(Event::TimedOut, Event::Rejected);
                    self.report(id, event);
                    self.connections.change(id, |c| c.abandoned = true);
                    // So that the other side does not wait for what does not come (IBTA 12.9.7.1). A request is kept as refused: its asker may ask again.
                    self.reject(now, id, RejectReason::Timeout, [0; Rej::PRIVATE]);
                }
                (_, left) => {
                    self.connections.change(id, |c| (c.left, c.deadline) = (left - 1, Some(now + c.wait)));
                    self.repeat(id);
                }
            }
        }
        self.tick_lookups(now);
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<(P, Mad)> {
        self.poll_outgoing().map(|out| (out.peer, out.mad))
    }

    /// The same, with what may become of it.
    pub(crate) fn poll_outgoing(&mut self) -> Option<Outgoing<P>> {
        self.out.pop_front()
    }

    /// The next event for the program, and its connection or lookup.
    pub fn poll_event(&mut self) -> Option<(u32, Event)> {
        self.events.pop_front()
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
