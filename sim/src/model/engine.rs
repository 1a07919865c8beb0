// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Engine`]: a node with its queue pairs, and the way of frames in and out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use ferrowire_spec::csr::{DropReason, HwCounter, TrafficCounter};
use ferrowire_spec::qp_state::RAW_QPN;
use ferrowire_spec::queue::command::PathMtu;
use ferrowire_spec::queue::cqe::LocalCause;
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{ipv4, Eth, Frame, Opcode};
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::SeedableRng as _;

use super::counters::Counters;
use super::cq::{Added, Cq};
use super::keys::Keys;
use super::memory::Memory;
use super::qp::{Qp, QpAttr, QpStatus};
use super::qps::Qps;
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
    /// Unit of all time-outs and pauses in nanoseconds, 4,096 by the specification (IBTA 9.7.6.1.3): with a smaller one all are shorter by the
    /// same factor.
    pub tick: Instant,
    /// Frames to `mac` return inside the node.
    pub loopback: bool,
    /// Queue pairs may agree on selective retransmission. Without it, its reports are packets with a reserved opcode.
    pub selective: bool,
    /// Time in nanoseconds without an acknowledgement after which selective retransmission probes.
    pub selective_probe: Instant,
    /// Bytes of the frames after gaps that all queue pairs together keep.
    pub reorder_buffer: u64,
}

/// Nanoseconds of the unit of time-outs (IBTA 9.7.6.1.3).
const TICK: Instant = 4096;

impl Config {
    /// A node with these addresses.
    pub fn new(mac: u64, ip: IpAddr) -> Self {
        Self {
            mac,
            ip,
            seed: 0,
            credits: true,
            cnp_interval: 50_000,
            line_rate: None,
            tick: TICK,
            loopback: true,
            selective: false,
            selective_probe: 16_000,
            reorder_buffer: 1 << 20,
        }
    }

    /// A time of the specification, by the unit that this node has.
    pub(super) fn by_tick(&self, time: Instant) -> Instant {
        let stretched = u128::from(time) * u128::from(self.tick) / u128::from(TICK);
        stretched.try_into().unwrap_or(Instant::MAX)
    }
}

/// What [`Engine::transmit_one`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transmitted {
    /// This frame leaves the node.
    Frame(Vec<u8>),
    /// A frame of that length came back to the node. There may be more to send.
    Looped(usize),
    /// Nothing is to be sent now.
    Nothing,
}

/// Something that happened and is no completion (IBTA 11.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// To which queue pair, CQ or SRQ.
    pub object: u32,
    /// Why, as the syndrome of a completion says it: the NAK that was sent, or a [`LocalCause`]; 0: another event or completion says.
    pub cause: u8,
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
    /// The raw Ethernet queue pair may send RoCE.
    pub(super) raw_roce: bool,
    /// IP addresses that packets may come to, each in its VLAN or in none; `None`: that of the configuration, wherever it comes.
    gids: Option<Vec<(IpAddr, Option<u16>)>>,
    pub(super) counters: Counters,
    events: VecDeque<Event>,
    /// CQs that something has come into since somebody asked.
    ready: BTreeSet<u32>,
    /// CQs that ran over and whose queue pairs have not been told.
    overrun: Vec<u32>,
    /// When moderated CQs tell of what waits there.
    pub(super) moderated: BTreeMap<u32, Instant>,
    /// The time of the last thing that happened.
    pub(super) now: Instant,
    /// Bytes of the frames after gaps that are kept.
    pub(super) kept_bytes: u64,
}

impl Node {
    pub(super) fn event(&mut self, kind: EventKind, object: u32) {
        self.event_for(kind, object, LocalCause::None as u8);
    }

    pub(super) fn event_for(&mut self, kind: EventKind, object: u32, cause: u8) {
        self.events.push_back(Event { kind, object, cause });
    }

    pub(super) fn drop_for(&mut self, reason: DropReason) {
        self.counters.dropped(reason);
    }

    /// Whether packets to that address, in that VLAN, are for this node.
    pub(super) fn is_own(&self, ip: IpAddr, vid: Option<u16>) -> bool {
        match &self.gids {
            None => ip == self.config.ip,
            Some(gids) => gids.contains(&(ip, vid)),
        }
    }

    pub(super) fn complete(&mut self, cqn: u32, completion: Completion) {
        self.counters.completed(&completion);
        let Some(cq) = self.cqs.get_mut(&cqn) else { return };
        let (added, deadline) = (cq.add(self.now, completion), cq.deadline());
        self.waits_until(cqn, deadline);
        let kept = matches!(added, Added::Quiet | Added::Event);
        let counter = if kept { TrafficCounter::Completions } else { TrafficCounter::CompletionsLost };
        self.counters.note(counter, 1);
        if kept {
            self.ready.insert(cqn);
        }
        match added {
            Added::Event => self.event(EventKind::Completion, cqn),
            Added::Overrun => {
                self.event(EventKind::CqOverrun, cqn);
                self.overrun.push(cqn);
            }
            Added::Quiet | Added::Lost => {}
        }
    }

    /// When a CQ tells of what waits there, if something does.
    fn waits_until(&mut self, cqn: u32, deadline: Option<Instant>) {
        match deadline {
            Some(deadline) => {
                self.moderated.insert(cqn, deadline);
            }
            None if self.moderated.is_empty() => {}
            None => {
                self.moderated.remove(&cqn);
            }
        }
    }

    /// Does something with a CQ after which it may tell: then it is an event.
    fn with_cq(&mut self, cqn: u32, f: impl FnOnce(&mut Cq, Instant) -> bool) -> Result<(), Error> {
        let cq = self.cqs.get_mut(&cqn).ok_or(unknown("cq", cqn))?;
        let (tells, deadline) = (f(cq, self.now), cq.deadline());
        self.waits_until(cqn, deadline);
        if tells {
            self.event(EventKind::Completion, cqn);
        }
        Ok(())
    }
}

/// A node: memory, keys, queues, queue pairs.
#[derive(Debug)]
pub struct Engine {
    pub(super) node: Node,
    pub(super) qps: Qps,
    /// Frames that belong to no queue: congestion notifications.
    out: VecDeque<Vec<u8>>,
    /// The queue pair that sent last: the next one has its turn.
    turn: u32,
    pub(super) rng: SmallRng,
    pub(super) next_qpn: u32,
    pub(super) next_number: u32,
}

pub(super) fn unknown(what: &'static str, number: u32) -> Error {
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
                raw_roce: false,
                gids: None,
                counters: Counters::default(),
                events: VecDeque::new(),
                ready: BTreeSet::new(),
                overrun: Vec::new(),
                moderated: BTreeMap::new(),
                now: 0,
                kept_bytes: 0,
            },
            qps: Qps::default(),
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

    /// The same, to be changed. The seed counts when the engine is made, and not afterwards.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.node.config
    }

    /// Gives it the IP addresses that packets may come to, each in a VLAN or in none (IBTA A17.4.3); what comes to others is dropped. Without this it
    /// has that of its configuration, in whatever VLAN.
    pub fn set_gids(&mut self, gids: Vec<(IpAddr, Option<u16>)>) {
        self.node.gids = Some(gids);
    }

    /// Forgets every object and all that is under way. Addresses, filter and counters stay.
    pub fn clear(&mut self) {
        let new = Engine::new(self.node.config);
        let old = std::mem::replace(self, new);
        self.node.gids = old.node.gids;
        self.node.raw_filter = old.node.raw_filter;
        self.node.raw_roce = old.node.raw_roce;
        self.node.counters = old.node.counters;
        self.node.now = old.node.now;
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.node.counters
    }

    /// The host's memory.
    pub fn memory(&self) -> &Memory {
        &self.node.memory
    }

    /// The host's memory, for the host's own writes.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.node.memory
    }

    /// Changes a queue pair's state or attributes.
    ///
    /// # Errors
    /// `Unknown`, `Transition`, `BadAttribute`.
    pub fn modify_qp(&mut self, qpn: u32, attr: &QpAttr) -> Result<(), Error> {
        let done = self.qps.with(qpn, |qp| qp.modify(&mut self.node, attr)).ok_or(unknown("qp", qpn))?;
        self.settle();
        done
    }

    /// Removes a queue pair; its completions go too.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn destroy_qp(&mut self, qpn: u32) -> Result<(), Error> {
        let mut qp = self.qps.remove(qpn).ok_or(unknown("qp", qpn))?;
        qp.stop_selective(&mut self.node);
        for cq in [qp.send_cq, qp.recv_cq] {
            if let Some(cq) = self.node.cqs.get_mut(&cq) {
                cq.forget(qpn);
            }
        }
        self.node.keys.orphan(qpn);
        Ok(())
    }

    /// Completes, as flushed, what a queue pair has taken from its shared receive queue, before its life ends.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn surrender(&mut self, qpn: u32) -> Result<(), Error> {
        self.qps.with(qpn, |qp| qp.surrender(&mut self.node)).ok_or(unknown("qp", qpn))?;
        self.settle();
        Ok(())
    }

    /// Takes a queue pair to error for something that its host did, and tells so.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn fail_qp(&mut self, qpn: u32, cause: LocalCause) -> Result<(), Error> {
        let node = &mut self.node;
        let fail = |qp: &mut Qp| {
            if !matches!(qp.state, QpState::Reset | QpState::Err) {
                node.event_for(EventKind::QpFatal, qpn, cause as u8);
                qp.responder.forget_answers();
                qp.enter_error(node);
            }
        };
        self.qps.with(qpn, fail).ok_or(unknown("qp", qpn))?;
        self.settle();
        Ok(())
    }

    /// How far a queue pair is.
    pub fn status(&self, qpn: u32) -> Option<QpStatus> {
        self.qps.get(qpn).map(Qp::status)
    }

    /// The state of a queue pair.
    pub fn state(&self, qpn: u32) -> Option<QpState> {
        self.qps.get(qpn).map(|qp| qp.state)
    }

    /// Posts a send. What is wrong with the request itself is told by its completion.
    ///
    /// # Errors
    /// `Unknown`; `State` in RESET, INIT and RTR; `Full`.
    pub fn post_send(&mut self, qpn: u32, wr: SendWr) -> Result<(), Error> {
        let done = self.qps.with(qpn, |qp| qp.post_send(&mut self.node, wr)).ok_or(unknown("qp", qpn))?;
        self.settle();
        done
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// `Unknown`; `State` in RESET; `Full`; `HasSrq`; `TooManySges`.
    pub fn post_recv(&mut self, qpn: u32, wr: RecvWr) -> Result<(), Error> {
        let done = self.qps.with(qpn, |qp| qp.post_recv(&mut self.node, wr)).ok_or(unknown("qp", qpn))?;
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

    /// A completion queue that something has come into since this was asked last.
    pub fn poll_ready(&mut self) -> Option<u32> {
        self.node.ready.pop_first()
    }

    /// The same as [`Engine::poll_cq`] for a queue that is a ring of its host's: the place stays taken until [`Engine::release`] says that the host has read it.
    pub fn take_completion(&mut self, cq: u32) -> Option<Completion> {
        self.node.cqs.get_mut(&cq)?.take()
    }

    /// So many places of [`Engine::take_completion`] are free again.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn release(&mut self, cq: u32, places: usize) -> Result<(), Error> {
        self.node.cqs.get_mut(&cq).ok_or(unknown("cq", cq))?.release(places);
        Ok(())
    }

    /// Tells it the time, for what is done to it next.
    pub fn set_now(&mut self, now: Instant) {
        self.node.now = self.node.now.max(now);
    }

    /// Asks for an event with the next completion, or the next solicited one. Those that are there give none (IBTA 11.4.2.2).
    ///
    /// # Errors
    /// `Unknown`.
    pub fn arm_cq(&mut self, cq: u32, solicited_only: bool) -> Result<(), Error> {
        self.arm_cq_behind(cq, solicited_only, (0, false))
    }

    /// The same for a queue that is a ring of its host's. The host has neither taken nor seen so many completions, of which one may be solicited or failed.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn arm_cq_behind(
        &mut self,
        cq: u32,
        solicited_only: bool,
        there: (usize, bool),
    ) -> Result<(), Error> {
        self.node.with_cq(cq, |cq, now| cq.arm(now, solicited_only, there))
    }

    /// From now on a queue that is armed has an event when `count` completions wait that it is armed for, or when the first of them has waited for
    /// `period`. With 0 or 1, or no period, at once.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn moderate_cq(&mut self, cq: u32, count: u16, period: Instant) -> Result<(), Error> {
        self.node.with_cq(cq, |cq, now| cq.moderate(now, count.into(), period))
    }

    /// The oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.node.events.pop_front()
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.node.counters.drops(reason)
    }

    /// Takes a frame, without FCS. Whatever it is: it has its effect, an answer, or a count in [`Engine::dropped`].
    pub fn handle_frame(&mut self, now: Instant, bytes: &[u8]) {
        self.set_now(now);
        self.node.counters.note(TrafficCounter::RxFrames, 1);
        self.node.counters.note(TrafficCounter::RxBytes, bytes.len() as u64);
        self.receive(now, bytes, false);
    }

    fn receive(&mut self, now: Instant, bytes: &[u8], looped: bool) {
        if let Err(reason) = self.take(now, bytes, looped) {
            self.node.drop_for(reason);
        }
        self.settle();
    }

    fn take(&mut self, now: Instant, bytes: &[u8], looped: bool) -> Result<(), DropReason> {
        if let Some(counter) = raw::mac_control(&self.node, bytes, looped)? {
            self.node.counters.note(counter, 1);
            return Ok(());
        }
        let parsed = match self.node.config.selective {
            true => Frame::parse(bytes),
            false => Frame::parse_standard(bytes),
        };
        let frame = match parsed {
            Ok(frame) => frame,
            Err(error) => {
                raw::admit(&self.node, bytes, &error)?;
                self.node.counters.note(TrafficCounter::RxRaw, 1);
                let take = |qp: &mut Qp| match qp.state.responds() {
                    true => qp.raw_frame(&mut self.node, bytes),
                    false => Err(DropReason::QpState),
                };
                return self.qps.with(RAW_QPN, take).ok_or(DropReason::NoQp)?;
            }
        };
        self.node.counters.note(TrafficCounter::RxRoce, 1);
        let opcode = frame.opcode().map_err(|_| DropReason::ReservedOpcode)?;
        // Longer than any path MTU: whosever it is.
        if frame.payload.len() > PathMtu::B4096.bytes() {
            return Err(DropReason::Malformed);
        }
        let Self { qps, node, out, .. } = self;
        let take = |qp: &mut Qp| take_packet(node, qp, now, &frame, opcode, bytes, out);
        let taken = qps.with(frame.bth.destqp, take).unwrap_or(Err(DropReason::NoQp));
        if taken.is_err() && opcode == Opcode::RcReport {
            node.counters.selective.reports_dropped += 1;
        }
        taken
    }

    /// Lets the deadlines pass that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.set_now(now);
        for qpn in self.qps.due(now) {
            self.qps.with(qpn, |qp| qp.handle_timeout(&mut self.node, now));
        }
        let due = self.node.moderated.iter().filter(|(_, deadline)| **deadline <= now);
        for cqn in due.map(|(cqn, _)| *cqn).collect::<Vec<u32>>() {
            // It is there.
            let _ = self.node.with_cq(cqn, |cq, _| {
                cq.tell();
                true
            });
        }
        self.settle();
    }

    /// The next deadline, if there is one: [`Engine::handle_timeout`] wants to be called then, and what
    /// [`Engine::poll_transmit`] gives may change.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.qps.deadline().into_iter().chain(self.node.moderated.values().copied()).min()
    }

    /// The next frame to send. Queue pairs take turns; answers of a queue pair come before its requests. Frames to the node itself come back to it at once,
    /// however many they are: [`Engine::transmit_one`] returns after each.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        loop {
            match self.transmit_one(now) {
                Transmitted::Frame(frame) => return Some(frame),
                Transmitted::Looped(_) => {}
                Transmitted::Nothing => return None,
            }
        }
    }

    /// Builds the next frame. One to the node itself comes back to it before this returns.
    pub fn transmit_one(&mut self, now: Instant) -> Transmitted {
        self.set_now(now);
        let notice = self.out.pop_front();
        let raw = notice.is_none();
        let Some(frame) = notice.or_else(|| self.transmit(now)) else { return Transmitted::Nothing };
        let raw = raw && self.turn == RAW_QPN;
        let own = Eth::parse(&frame).is_ok_and(|header| header.dst == self.node.config.mac);
        let looped = self.node.config.loopback && own;
        let counters = &mut self.node.counters;
        let (frames, bytes) = match looped {
            true => (TrafficCounter::LoopbackFrames, TrafficCounter::LoopbackBytes),
            false => (TrafficCounter::TxFrames, TrafficCounter::TxBytes),
        };
        counters.note(frames, 1);
        counters.note(bytes, frame.len() as u64);
        if looped {
            self.receive(now, &frame, true);
            return Transmitted::Looped(frame.len());
        }
        counters.note(if raw { TrafficCounter::TxRaw } else { TrafficCounter::TxRoce }, 1);
        Transmitted::Frame(frame)
    }

    fn transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut sent = None;
        let mut qpn = self.turn;
        for _ in 0..self.qps.active() {
            let Some(next) = self.qps.next_active(qpn) else { break };
            qpn = next;
            let node = &mut self.node;
            let send = |qp: &mut Qp| {
                let wait = qp.must_wait(now);
                let answer = if wait && qp.answers_with_data() { None } else { qp.next_answer(node) };
                let frame = match answer {
                    None if !wait => qp.next_request(node, now),
                    answer => answer,
                };
                match &frame {
                    Some(frame) => qp.took(now, frame.len()),
                    // What waits for its pace is asked for again then.
                    None => qp.wake = if wait { qp.paced_until(now) } else { None },
                }
                (frame, wait)
            };
            match self.qps.with(qpn, send) {
                Some((Some(frame), _)) => {
                    self.turn = qpn;
                    sent = Some(frame);
                    break;
                }
                Some((None, true)) => {}
                Some((None, false)) | None => self.qps.rests(qpn),
            }
        }
        self.settle();
        sent
    }

    /// Congestion notifications that a queue pair got.
    pub fn cnps(&self, qpn: u32) -> u64 {
        self.qps.get(qpn).map_or(0, |qp| qp.cnps)
    }

    /// Bits a second to which a queue pair has slowed down; `None`: it has not.
    pub fn rate(&self, qpn: u32) -> Option<u64> {
        self.qps.get(qpn)?.rate().map(|bytes| 8 * bytes)
    }

    /// Queue pairs of a CQ that ran over go to error (IBTA 10.10.2.4), which may make another CQ run over.
    fn settle(&mut self) {
        while let Some(cq) = self.node.overrun.pop() {
            let of_cq = |qp: &&Qp| qp.send_cq == cq || qp.recv_cq == cq;
            let all: Vec<u32> = self.qps.values().filter(of_cq).map(|qp| qp.qpn).collect();
            for qpn in all {
                let node = &mut self.node;
                self.qps.with(qpn, |qp| {
                    if !matches!(qp.state, QpState::Reset | QpState::Err) {
                        node.event(EventKind::QpFatal, qpn);
                        qp.enter_error(node);
                    }
                });
            }
        }
    }
}

/// Takes a RoCE packet for a queue pair. Congestion notifications that it causes go to `out`.
fn take_packet(
    node: &mut Node,
    qp: &mut Qp,
    now: Instant,
    frame: &Frame<'_>,
    opcode: Opcode,
    bytes: &[u8],
    out: &mut VecDeque<Vec<u8>>,
) -> Result<(), DropReason> {
    if opcode == Opcode::RcReport && qp.selective.is_none() {
        return Err(DropReason::ReservedOpcode);
    }
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
    qp.check_packet(node, frame)?;
    if frame.ip.ecn() == ipv4::ECN_CE && opcode != Opcode::Cnp && qp.service != Service::Ud {
        node.counters.count(HwCounter::NpEcnMarkedRocePackets);
        if let Some(cnp) = qp.congested(node, now) {
            node.counters.count(HwCounter::NpCnpSent);
            out.push_back(cnp);
        }
    }
    match (qp.service, opcode) {
        (_, Opcode::Cnp) => qp.notified(node, now),
        (_, Opcode::RcReport) => {
            let report = frame.ext.report.ok_or(DropReason::Malformed)?;
            qp.take_report(node, now, &report)?;
        }
        (Service::Rc, _) if qp.selective.is_some() && opcode != Opcode::RcAcknowledge => {
            qp.flow_packet(node, now, frame, opcode, bytes)?;
        }
        (Service::Rc, _) if opcode.is_request() => qp.rc_request(node, frame, opcode),
        (Service::Rc, _) => qp.rc_response(node, now, frame, opcode),
        (Service::Uc, _) => qp.uc_request(node, frame, opcode),
        _ => qp.ud_request(node, frame)?,
    }
    Ok(())
}
