// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Engine`]: a node with its queue pairs, and the way of frames in and out.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use ferrowire_spec::csr::DropReason;
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{ipv4, Frame, Opcode};
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::cq::{Added, Cq};
use super::keys::{Keys, RegionAttr};
use super::memory::Memory;
use super::qp::{Qp, QpAttr, QpInit};
use super::raw::{self, RawFilter};
use super::srq::Srq;
use super::types::{AddressVector, Completion, Error, Instant, RecvWr, SendWr, MAX_SGES};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// MAC address, a 48-bit number.
    pub mac: u64,
    /// IP address.
    pub ip: IpAddr,
    /// Seed of all that is random: key tags.
    pub seed: u64,
    /// Whether acknowledgements carry credits (IBTA 9.7.7.2).
    pub credits: bool,
    /// Least time between two congestion notifications of a queue pair, in nanoseconds (IBTA A17.9.3).
    pub cnp_interval: Instant,
    /// Rate of the wire in bits a second, from which queue pairs slow down when told of congestion; `None`: they do not.
    pub line_rate: Option<u64>,
}

impl Config {
    /// A node with these addresses.
    pub fn new(mac: u64, ip: IpAddr) -> Self {
        Self { mac, ip, seed: 0, credits: true, cnp_interval: 50_000, line_rate: None }
    }
}

/// Something that happened and is no completion (IBTA 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// To which queue pair, CQ or SRQ.
    pub object: u32,
}

/// What queue pairs share.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) config: Config,
    pub(super) memory: Memory,
    pub(super) keys: Keys,
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) srqs: BTreeMap<u32, Srq>,
    /// Address handles with their protection domains.
    pub(super) ahs: BTreeMap<u32, (u32, AddressVector)>,
    pub(super) raw_filter: RawFilter,
    /// Raw frames that came and passed the filter, and that were sent.
    pub(super) raw_frames: [u64; 2],
    events: VecDeque<Event>,
    drops: BTreeMap<DropReason, u64>,
    /// CQs that ran over and whose queue pairs have not been told.
    overrun: Vec<u32>,
}

impl Node {
    pub(super) fn event(&mut self, kind: EventKind, object: u32) {
        self.events.push_back(Event { kind, object });
    }

    pub(super) fn drop_for(&mut self, reason: DropReason) {
        *self.drops.entry(reason).or_default() += 1;
    }

    pub(super) fn complete(&mut self, cqn: u32, completion: Completion) {
        match self.cqs.get_mut(&cqn).map(|cq| cq.add(completion)) {
            Some(Added::Event) => self.event(EventKind::Completion, cqn),
            Some(Added::Overrun) => {
                self.event(EventKind::CqOverrun, cqn);
                self.overrun.push(cqn);
            }
            _ => {}
        }
    }
}

/// A node: memory, keys, queues, queue pairs.
#[derive(Debug)]
pub struct Engine {
    node: Node,
    qps: BTreeMap<u32, Qp>,
    /// Frames that belong to no queue: congestion notifications.
    out: VecDeque<Vec<u8>>,
    /// The queue pair that sent last: the next one has its turn.
    turn: u32,
    rng: SmallRng,
    next_qpn: u32,
    next_number: u32,
}

fn unknown(what: &'static str, number: u32) -> Error {
    Error::Unknown { what, number }
}

impl Engine {
    /// A node without any object.
    pub fn new(config: Config) -> Self {
        Self {
            node: Node {
                config,
                memory: Memory::default(),
                keys: Keys::default(),
                cqs: BTreeMap::new(),
                srqs: BTreeMap::new(),
                ahs: BTreeMap::new(),
                raw_filter: RawFilter::default(),
                raw_frames: [0; 2],
                events: VecDeque::new(),
                drops: BTreeMap::new(),
                overrun: Vec::new(),
            },
            qps: BTreeMap::new(),
            out: VecDeque::new(),
            turn: 0,
            rng: SmallRng::seed_from_u64(config.seed),
            next_qpn: 0x10,
            next_number: 0,
        }
    }

    /// What it was made of.
    pub fn config(&self) -> &Config {
        &self.node.config
    }

    /// The host's memory.
    pub fn memory(&self) -> &Memory {
        &self.node.memory
    }

    /// The host's memory, for the host's own writes.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.node.memory
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    /// Registers a region, with a key of the caller's or a random tag. Gives the key, local and remote.
    ///
    /// # Errors
    /// `Exists` when the key's index is in use.
    pub fn register(&mut self, attr: RegionAttr, key: Option<u32>) -> Result<u32, Error> {
        let tag = self.rng.random();
        self.node.keys.register(attr, key, tag)
    }

    /// Makes a window of type 2, not bound. Gives its key; a bind may choose another tag.
    ///
    /// # Errors
    /// `Exists` when the key's index is in use.
    pub fn alloc_window(&mut self, pd: u32, key: Option<u32>) -> Result<u32, Error> {
        let tag = self.rng.random();
        self.node.keys.window(pd, key, tag)
    }

    /// Removes a region or a window.
    ///
    /// # Errors
    /// `Unknown` when there is none by that key, `Busy` when windows are bound to it.
    pub fn deregister(&mut self, key: u32) -> Result<(), Error> {
        self.node.keys.remove(key)
    }

    /// Makes a completion queue. Gives its number.
    pub fn create_cq(&mut self, entries: usize) -> u32 {
        let number = self.number();
        self.node.cqs.insert(number, Cq::new(entries));
        number
    }

    /// Makes a shared receive queue. Gives its number.
    pub fn create_srq(&mut self, pd: u32, entries: usize) -> u32 {
        let number = self.number();
        self.node.srqs.insert(number, Srq::new(pd, entries));
        number
    }

    /// Asks for one event when a shared receive queue holds fewer than `limit`.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn arm_srq(&mut self, srq: u32, limit: usize) -> Result<(), Error> {
        self.node.srqs.get_mut(&srq).ok_or(unknown("srq", srq))?.arm(limit);
        Ok(())
    }

    /// Makes an address handle. Gives its number.
    pub fn create_ah(&mut self, pd: u32, av: AddressVector) -> u32 {
        let number = self.number();
        self.node.ahs.insert(number, (pd, av));
        number
    }

    /// Sets which frames the raw Ethernet queue pair gets.
    pub fn set_raw_filter(&mut self, filter: RawFilter) {
        self.node.raw_filter = filter;
    }

    /// Raw frames that came and passed the filter, and raw frames that were sent.
    pub fn raw_frames(&self) -> [u64; 2] {
        self.node.raw_frames
    }

    /// Makes a queue pair, in RESET. Gives its number, which is 0 for raw Ethernet and for nothing else.
    ///
    /// # Errors
    /// `Exists`, or `Unknown` for a queue that it names; `BadAttribute` when the shared receive queue is of another
    /// protection domain, or the number is another service's.
    pub fn create_qp(&mut self, init: QpInit) -> Result<u32, Error> {
        for cq in [init.send_cq, init.recv_cq] {
            self.node.cqs.get(&cq).ok_or(unknown("cq", cq))?;
        }
        if let Some(srq) = init.srq {
            if self.node.srqs.get(&srq).ok_or(unknown("srq", srq))?.pd != init.pd {
                return Err(Error::BadAttribute("srq"));
            }
        }
        let raw = init.service == Service::Raw;
        if init.qpn.is_some_and(|qpn| (qpn == RAW_QPN) != raw) {
            return Err(Error::BadAttribute("qpn"));
        }
        let qpn = init.qpn.unwrap_or_else(|| {
            if raw {
                return RAW_QPN;
            }
            while self.qps.contains_key(&self.next_qpn) {
                self.next_qpn += 1;
            }
            self.next_qpn
        });
        if self.qps.contains_key(&qpn) || qpn >= 1 << 24 {
            return Err(Error::Exists { what: "qp", number: qpn });
        }
        self.qps.insert(qpn, Qp::new(qpn, &init));
        Ok(qpn)
    }

    /// Changes a queue pair's state or attributes.
    ///
    /// # Errors
    /// `Unknown`, `Transition`, `BadAttribute`.
    pub fn modify_qp(&mut self, qpn: u32, attr: &QpAttr) -> Result<(), Error> {
        let qp = self.qps.get_mut(&qpn).ok_or(unknown("qp", qpn))?;
        let done = qp.modify(&mut self.node, attr);
        self.settle();
        done
    }

    /// Removes a queue pair; its completions go too.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn destroy_qp(&mut self, qpn: u32) -> Result<(), Error> {
        let qp = self.qps.remove(&qpn).ok_or(unknown("qp", qpn))?;
        for cq in [qp.send_cq, qp.recv_cq] {
            if let Some(cq) = self.node.cqs.get_mut(&cq) {
                cq.forget(qpn);
            }
        }
        Ok(())
    }

    /// The state of a queue pair.
    pub fn state(&self, qpn: u32) -> Option<QpState> {
        self.qps.get(&qpn).map(|qp| qp.state)
    }

    /// Posts a send. What is wrong with the request itself is told by its completion.
    ///
    /// # Errors
    /// `Unknown`; `State` in RESET, INIT and RTR; `Full`.
    pub fn post_send(&mut self, qpn: u32, wr: SendWr) -> Result<(), Error> {
        let qp = self.qps.get_mut(&qpn).ok_or(unknown("qp", qpn))?;
        let done = qp.post_send(&mut self.node, wr);
        self.settle();
        done
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// `Unknown`; `State` in RESET; `Full`; `HasSrq`; `TooManySges`.
    pub fn post_recv(&mut self, qpn: u32, wr: RecvWr) -> Result<(), Error> {
        let qp = self.qps.get_mut(&qpn).ok_or(unknown("qp", qpn))?;
        let done = qp.post_recv(&mut self.node, wr);
        self.settle();
        done
    }

    /// Posts a receive to a shared queue.
    ///
    /// # Errors
    /// `Unknown`, `Full`, `TooManySges`.
    pub fn post_srq_recv(&mut self, srq: u32, wr: RecvWr) -> Result<(), Error> {
        if wr.sges.len() > MAX_SGES {
            return Err(Error::TooManySges);
        }
        self.node.srqs.get_mut(&srq).ok_or(unknown("srq", srq))?.post(wr)
    }

    /// The oldest completion of a queue.
    pub fn poll_cq(&mut self, cq: u32) -> Option<Completion> {
        self.node.cqs.get_mut(&cq)?.poll()
    }

    /// Asks for an event with the next completion, or the next solicited one.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn arm_cq(&mut self, cq: u32, solicited_only: bool) -> Result<(), Error> {
        self.node.cqs.get_mut(&cq).ok_or(unknown("cq", cq))?.arm(solicited_only);
        Ok(())
    }

    /// The oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.node.events.pop_front()
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.node.drops.get(&reason).copied().unwrap_or_default()
    }

    /// Takes a frame, without FCS. Whatever it is: it has its effect, an answer, or a count in [`Engine::dropped`].
    pub fn handle_frame(&mut self, now: Instant, bytes: &[u8]) {
        if let Err(reason) = self.take(now, bytes) {
            self.node.drop_for(reason);
        }
        self.settle();
    }

    fn take(&mut self, now: Instant, bytes: &[u8]) -> Result<(), DropReason> {
        let frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                raw::admit(&self.node, bytes, &error)?;
                self.node.raw_frames[0] += 1;
                let qp = self.qps.get_mut(&RAW_QPN).ok_or(DropReason::NoQp)?;
                let taken = qp.state.responds();
                return if taken { qp.raw_frame(&mut self.node, bytes) } else { Err(DropReason::QpState) };
            }
        };
        let opcode = frame.opcode().map_err(|_| DropReason::ReservedOpcode)?;
        let qp = self.qps.get_mut(&frame.bth.destqp).ok_or(DropReason::NoQp)?;
        if opcode.service() != Service::Cnp && opcode.service() != qp.service {
            return Err(DropReason::Service);
        }
        // Answers are for requesters, requests for responders (IBTA 10.3.1).
        let taken = match opcode {
            Opcode::Cnp => qp.state.responds() && qp.service != Service::Ud,
            _ if opcode.is_request() => qp.state.responds(),
            _ => qp.state.takes_responses(),
        };
        if !taken {
            return Err(DropReason::QpState);
        }
        qp.check_packet(&self.node, &frame)?;
        if frame.ip.ecn() == ipv4::ECN_CE && opcode != Opcode::Cnp && qp.service != Service::Ud {
            if let Some(cnp) = qp.congested(&self.node, now) {
                self.out.push_back(cnp);
            }
        }
        let node = &mut self.node;
        match (qp.service, opcode) {
            (_, Opcode::Cnp) => qp.notified(node, now),
            (Service::Rc, _) if opcode.is_request() => qp.rc_request(node, &frame, opcode),
            (Service::Rc, _) => qp.rc_response(node, now, &frame, opcode),
            (Service::Uc, _) => qp.uc_request(node, &frame, opcode),
            _ => qp.ud_request(node, &frame)?,
        }
        Ok(())
    }

    /// Lets the deadlines pass that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        for qp in self.qps.values_mut() {
            qp.handle_timeout(&mut self.node, now);
        }
        self.settle();
    }

    /// The next deadline, if there is one: [`Engine::handle_timeout`] wants to be called then, and what
    /// [`Engine::poll_transmit`] gives may change.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.qps.values().filter_map(Qp::next_deadline).min()
    }

    /// The next frame to send. Queue pairs take turns; answers of a queue pair come before its requests.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if let Some(frame) = self.out.pop_front() {
            return Some(frame);
        }
        let after = self.qps.range(self.turn + 1..).map(|(qpn, _)| *qpn);
        let order: Vec<u32> = after.chain(self.qps.range(..=self.turn).map(|(qpn, _)| *qpn)).collect();
        let mut sent = None;
        for qpn in order {
            let Some(qp) = self.qps.get_mut(&qpn) else { continue };
            let node = &mut self.node;
            let wait = qp.must_wait(now);
            let answer = if wait && qp.answers_with_data() { None } else { qp.next_answer(node) };
            sent = match answer {
                None if !wait => qp.next_request(node, now),
                answer => answer,
            };
            if let Some(frame) = &sent {
                qp.took(now, frame.len());
                self.turn = qpn;
                break;
            }
            // What waits for its pace is asked for again then.
            qp.wake = if wait { qp.paced_until(now) } else { None };
        }
        self.settle();
        sent
    }

    /// Congestion notifications that a queue pair got.
    pub fn cnps(&self, qpn: u32) -> u64 {
        self.qps.get(&qpn).map_or(0, |qp| qp.cnps)
    }

    /// Bits a second to which a queue pair has slowed down; `None`: it has not.
    pub fn rate(&self, qpn: u32) -> Option<u64> {
        self.qps.get(&qpn)?.rate().map(|bytes| 8 * bytes)
    }

    /// Queue pairs of a CQ that ran over go to error (IBTA 10.10.2.4), which may make another CQ run over.
    fn settle(&mut self) {
        while let Some(cq) = self.node.overrun.pop() {
            for qp in self.qps.values_mut().filter(|qp| qp.send_cq == cq || qp.recv_cq == cq) {
                if !matches!(qp.state, QpState::Reset | QpState::Err) {
                    self.node.event(EventKind::QpFatal, qp.qpn);
                    qp.enter_error(&mut self.node);
                }
            }
        }
    }
}
