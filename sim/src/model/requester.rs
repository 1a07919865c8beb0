// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requester: begins WQEs and makes packets of them (IBTA 9.7.2, 10.8.3).
//!
//! A WQE begins when nothing holds it back: the state, a fence, the depth of READs and atomics, credits, the PSN window. Then
//! it is checked, gets its PSNs, and its packets are made, as often as it takes. What is wrong with it completes it with an
//! error, when all before it are done.

use ferrowire_spec::csr::{HwCounter, TrafficCounter};
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause, WcStatus};
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::opcode::{Operation, Position, Service};
use ferrowire_spec::wire::report;
use ferrowire_spec::wire::{AtomicEth, Bth, Extensions, Ieth, ImmDt, Reth};
use ferrowire_spec::{Psn, QpState};

use super::engine::Node;
use super::packet;
use super::qp::Qp;
use super::raw;
use super::selective::What;
use super::sendq::Entry;
use super::types::{Completion, Instant, SendWr, MAX_MESSAGE, MAX_SGES};

/// Packets of a long message between two that ask for an acknowledgement, so that a long one shows progress.
const ACK_EVERY: u32 = 64;

/// PSNs that may be outstanding: they must stay comparable (IBTA 9.7.2).
const WINDOW: u32 = Psn::WINDOW - 1;

/// What came of beginning a WQE.
enum Begun {
    /// It has its PSNs.
    Yes,
    /// It must wait.
    Wait,
    /// It was a local operation, and is done.
    Local,
}

/// A packet of a request.
pub(super) struct Made {
    pub(super) frame: Vec<u8>,
    /// PSNs that it takes.
    pub(super) packets: u32,
    ackreq: bool,
}

type Failure = (WcStatus, u8);

fn failure(status: WcStatus, cause: LocalCause) -> Failure {
    (status, cause as u8)
}

/// What was checked cannot be read after all: by a fault of its key, or of the memory behind it.
fn unreadable(cause: LocalCause) -> Failure {
    let status = if cause == LocalCause::Dma { WcStatus::LocQpOpErr } else { WcStatus::LocProtErr };
    failure(status, cause)
}

/// The operation and what it carries besides data; `None` for local ones.
fn operation(opcode: SendOpcode) -> Option<(Operation, bool, bool)> {
    Some(match opcode {
        SendOpcode::Send => (Operation::Send, false, false),
        SendOpcode::SendImm => (Operation::Send, true, false),
        SendOpcode::SendInv => (Operation::Send, false, true),
        SendOpcode::Write => (Operation::Write, false, false),
        SendOpcode::WriteImm => (Operation::Write, true, false),
        SendOpcode::Read => (Operation::ReadRequest, false, false),
        SendOpcode::CmpSwap => (Operation::CompareSwap, false, false),
        SendOpcode::FetchAdd => (Operation::FetchAdd, false, false),
        SendOpcode::LocalInv | SendOpcode::BindMw => return None,
    })
}

/// What a service can do (IBTA 9.7, 9.8.2, 9.8.3; table 2 of chapter 9).
fn allowed(service: Service, opcode: SendOpcode) -> bool {
    use SendOpcode as O;
    match service {
        Service::Rc => true,
        Service::Uc => {
            matches!(opcode, O::Send | O::SendImm | O::Write | O::WriteImm | O::LocalInv | O::BindMw)
        }
        Service::Raw => opcode == O::Send,
        _ => matches!(opcode, O::Send | O::SendImm),
    }
}

/// Whether it takes a receive of the peer, and so a credit (IBTA 9.7.7.2).
fn takes_receive(opcode: SendOpcode) -> bool {
    use SendOpcode as O;
    matches!(opcode, O::Send | O::SendImm | O::SendInv | O::WriteImm)
}

impl Qp {
    /// The next packet of a request.
    pub(super) fn next_request(&mut self, node: &mut Node, now: Instant) -> Option<Vec<u8>> {
        loop {
            if !matches!(self.state, QpState::Rts | QpState::Sqd) {
                return None;
            }
            if self.sq.rnr_until.is_some_and(|until| now < until) {
                return None;
            }
            self.sq.rnr_until = None;
            if !self.sq.next.is_before(self.sq.top) {
                if let Some(frame) = self.next_repetition(node, now) {
                    return Some(frame);
                }
            }
            let entry = self.sq.entries.get(self.sq.cursor)?;
            if let Some(failed) = entry.failed {
                self.fail_when_oldest(node, failed);
                return None;
            }
            if entry.begun && entry.packets == 0 {
                self.sq.cursor += 1;
                continue;
            }
            if !entry.begun {
                match self.begin(node) {
                    Ok(Begun::Yes) => {}
                    Ok(Begun::Wait) => return None,
                    Ok(Begun::Local) => {
                        self.retire(node);
                        continue;
                    }
                    Err(failed) => {
                        self.sq.entries[self.sq.cursor].failed = Some(failed);
                        continue;
                    }
                }
            }
            // A message may be longer than the window (2^31 bytes at an MTU of 256); answers on the way move it.
            if self.sq.next.distance_from(self.sq.una) >= self.selective_window().unwrap_or(WINDOW) {
                return None;
            }
            match self.make(node, now) {
                Ok(frame) => return Some(frame),
                Err(failed) => self.sq.entries[self.sq.cursor].failed = Some(failed),
            }
        }
    }

    /// Ends the WQE at the cursor with its error, when all before it are done (IBTA 10.8.6: completions are in order).
    fn fail_when_oldest(&mut self, node: &mut Node, (status, cause): Failure) {
        if self.sq.cursor == 0 {
            self.fail_oldest(node, status, cause);
        }
    }

    fn begin(&mut self, node: &mut Node) -> Result<Begun, Failure> {
        // What is not begun waits in SQD (IBTA 10.3.1.5).
        if self.state != QpState::Rts {
            return Ok(Begun::Wait);
        }
        let at = self.sq.cursor;
        let wr = &self.sq.entries[at].wr;
        if wr.fence && self.sq.answers_awaited() > 0 {
            return Ok(Begun::Wait);
        }
        let packets = self.check(node, wr)?;
        let Some(packets) = packets else { return self.local_operation(node) };
        // Depth of READs and atomics (IBTA 9.7.3.3.1, 11.2.5.2).
        let wr = &self.sq.entries[at].wr;
        let answered = matches!(wr.opcode, SendOpcode::Read | SendOpcode::CmpSwap | SendOpcode::FetchAdd);
        if answered && self.sq.answers_awaited() >= usize::from(self.max_rd_atomic) {
            return Ok(Begun::Wait);
        }
        if self.service == Service::Rc
            && self.sq.outstanding() > 0
            && self.sq.outstanding() + packets > WINDOW
        {
            return Ok(Begun::Wait);
        }
        // What selective retransmission adds: its window, and the distance between READs and atomics that a packet can tell.
        let mut distance = 0;
        if let Some(window) = self.selective_window() {
            if self.sq.outstanding() >= window {
                return Ok(Begun::Wait);
            }
            if answered && self.sq.answers_awaited() > 0 {
                let before = self.sq.entries.range(..at).rev().find(|entry| entry.is_answered());
                let holes = before.map_or(0, |before| self.sq.sent.distance_from(before.end()));
                if holes > report::MAX_DISTANCE {
                    return Ok(Begun::Wait);
                }
                distance = holes as u8;
            }
        }
        // Without a credit, one message may still be sent; its first packet asks for an answer (IBTA 9.7.7.2.5).
        let ssn = self.sq.ssn.next();
        let beyond = match self.sq.lsn {
            Some(lsn) if takes_receive(wr.opcode) => ssn.offset_from(lsn),
            _ => 0,
        };
        if beyond > 1 {
            return Ok(Begun::Wait);
        }
        let len = wr.len();
        self.sq.ssn = ssn;
        let first = self.sq.sent;
        self.sq.next = first;
        self.sq.sent += packets;
        let entry = &mut self.sq.entries[at];
        (entry.begun, entry.first, entry.packets, entry.len) = (true, first, packets, len);
        (entry.ssn, entry.limited, entry.distance) = (ssn, beyond == 1, distance);
        if answered && self.sq.answers_awaited() == 1 {
            self.begins_responses(node, first);
        }
        Ok(Begun::Yes)
    }

    /// Checks a WQE as far as can be without the peer; gives its PSNs, or `None` for a local operation.
    fn check(&self, node: &Node, wr: &SendWr) -> Result<Option<u32>, Failure> {
        let bad = |cause| failure(WcStatus::LocQpOpErr, cause);
        if !allowed(self.service, wr.opcode) {
            return Err(bad(LocalCause::WqeOpcode));
        }
        if let Some((status, cause)) = wr.fault {
            return Err(failure(status, cause));
        }
        let Some((operation, ..)) = operation(wr.opcode) else { return Ok(None) };
        let reads_answer = matches!(wr.opcode, SendOpcode::Read) || operation_is_atomic(operation);
        if wr.sges.len() > MAX_SGES || wr.inline.is_some() && (reads_answer || !wr.sges.is_empty()) {
            return Err(bad(LocalCause::WqeSize));
        }
        let longest = if self.service == Service::Ud { self.mtu as u64 } else { MAX_MESSAGE };
        if wr.len() > longest {
            return Err(failure(WcStatus::LocLenErr, LocalCause::Length));
        }
        if self.service == Service::Raw {
            raw::check_length(wr)?;
        }
        if operation_is_atomic(operation) {
            // The place is on a multiple of 8 and so is the responder's (IBTA 9.4.5).
            if wr.len() != 8 || wr.remote_va % 8 != 0 {
                return Err(bad(LocalCause::Alignment));
            }
        }
        if reads_answer && self.max_rd_atomic == 0 {
            return Err(bad(LocalCause::ReadDepth));
        }
        if self.service == Service::Ud {
            match node.ahs.get(&wr.ah) {
                Some((pd, av)) if *pd == self.pd && av.is_of_one_family(&node.config) => {}
                _ => return Err(bad(LocalCause::AddressHandle)),
            }
        }
        node.check_sges(self.pd, &wr.sges, reads_answer)
            .map_err(|cause| failure(WcStatus::LocProtErr, cause))?;
        if operation_is_atomic(operation) {
            return Ok(Some(1));
        }
        // A READ takes a PSN for each response, at least one, as every message does (IBTA 9.7.2.1).
        Ok(Some(wr.len().div_ceil(self.mtu as u64).max(1) as u32))
    }

    /// Executes a bind or an invalidation, in the order of the queue: what follows sees it (IBTA 10.8.3.3). An invalidation
    /// waits for all before it, which may still need the key when they are sent again.
    fn local_operation(&mut self, node: &mut Node) -> Result<Begun, Failure> {
        let at = self.sq.cursor;
        let wr = &self.sq.entries[at].wr;
        let done = match wr.opcode {
            SendOpcode::LocalInv if at > 0 => return Ok(Begun::Wait),
            SendOpcode::LocalInv => node.keys.invalidate(self.pd, self.qpn, wr.imm),
            _ => node.keys.bind(self.pd, self.qpn, &wr.bind),
        };
        done.map_err(|cause| failure(WcStatus::MwBindErr, cause))?;
        let entry = &mut self.sq.entries[at];
        (entry.begun, entry.first, entry.packets) = (true, self.sq.sent, 0);
        self.sq.cursor += 1;
        Ok(Begun::Local)
    }

    /// Makes the packet at the cursor and moves on.
    fn make(&mut self, node: &mut Node, now: Instant) -> Result<Vec<u8>, Failure> {
        if self.service == Service::Raw {
            return self.make_raw(node);
        }
        let psn = self.sq.next;
        let again = psn.is_before(self.sq.top);
        let made = self.build_request(node, self.sq.cursor, psn, What::Rest, again)?;
        self.sq.next += made.packets;
        if again {
            node.counters.count(HwCounter::Retransmitted);
        } else {
            self.sq.top = self.sq.next;
        }
        self.was_sent(node, now, psn, made.packets, again);
        if self.sq.next == self.sq.entries[self.sq.cursor].end() {
            self.sq.cursor += 1;
        }
        if self.service != Service::Rc {
            self.sq.advance(psn.next());
            self.retire(node);
        } else if made.ackreq {
            self.expect_answer(node, now);
        }
        Ok(made.frame)
    }

    /// The frame of a raw Ethernet queue pair is what the WQE says, all of it.
    fn make_raw(&mut self, node: &mut Node) -> Result<Vec<u8>, Failure> {
        let entry = &self.sq.entries[self.sq.cursor];
        let bytes = entry.len.min(self.mtu as u64);
        let payload = node.gather(self.pd, &entry.wr, 0, bytes).map_err(unreadable)?;
        if !node.raw_roce && raw::is_roce(&payload) {
            node.counters.note(TrafficCounter::TxRawRefused, 1);
            return Err(failure(WcStatus::LocQpOpErr, LocalCause::RawRoce));
        }
        self.sq.next += 1;
        self.sq.top = self.sq.next;
        self.sq.cursor += 1;
        let next = self.sq.next;
        self.sq.advance(next);
        self.retire(node);
        Ok(payload)
    }

    /// Builds the packet of a WQE at one of its PSNs; `again`: a packet was sent there before. Of a READ it is a request for `what` from there on.
    pub(super) fn build_request(
        &mut self,
        node: &mut Node,
        cursor: usize,
        psn: Psn,
        what: What,
        again: bool,
    ) -> Result<Made, Failure> {
        let entry = &self.sq.entries[cursor];
        let wr = &entry.wr;
        let at = psn.distance_from(entry.first);
        let (operation, imm, inv) =
            operation(wr.opcode).ok_or(failure(WcStatus::GeneralErr, LocalCause::WqeOpcode))?;
        let offset = u64::from(at) * self.mtu as u64;
        let rest = entry.len.saturating_sub(offset);
        let mut ext = Extensions::default();
        let mut payload = Vec::new();
        let mut packets = 1;
        let position = match operation {
            Operation::Send | Operation::Write => packet::position(at, entry.packets),
            _ => Position::Only,
        };
        match operation {
            Operation::Send | Operation::Write => {
                payload = node.gather(self.pd, wr, offset, rest.min(self.mtu as u64)).map_err(unreadable)?;
                if operation == Operation::Write && position.begins() {
                    ext.reth = Some(Reth { va: wr.remote_va, rkey: wr.rkey, len: entry.len as u32 });
                }
                if position.ends() {
                    ext.imm = imm.then_some(ImmDt { imm: wr.imm });
                    ext.ieth = inv.then_some(Ieth { rkey: wr.imm });
                }
            }
            Operation::ReadRequest => {
                // From the middle on, when the beginning has been answered (IBTA 9.7.6.1.1, 9.4.4).
                let va = wr.remote_va.wrapping_add(offset);
                let bytes = if what == What::Response { rest.min(self.mtu as u64) } else { rest };
                ext.reth = Some(Reth { va, rkey: wr.rkey, len: bytes as u32 });
                packets = if what == What::Response { 1 } else { entry.packets - at };
            }
            _ => {
                let (swap, compare) = match operation {
                    Operation::FetchAdd => (wr.compare_add, 0),
                    _ => (wr.swap, wr.compare_add),
                };
                ext.atomic = Some(AtomicEth { va: wr.remote_va, rkey: wr.rkey, swap, compare });
            }
        }
        let ends = position.ends();
        let opcode = packet::opcode(self.service, operation, position, imm && ends, inv && ends)
            .ok_or(failure(WcStatus::LocQpOpErr, LocalCause::WqeOpcode))?;
        let reliable = self.service == Service::Rc;
        // With a small window an acknowledgement must come before it is full.
        let every = self.selective_window().map_or(ACK_EVERY, |window| ACK_EVERY.min(window / 4));
        let repeated = again && self.selective.is_some();
        let single = repeated && !self.sq.next.is_before(self.sq.top);
        let ackreq = reliable && (ends || at % every == every - 1 || entry.limited && at == 0 || single);
        // Of what makes a completion there, and of nothing else (IBTA 9.2.3).
        let solicited = wr.solicited && ends && takes_receive(wr.opcode);
        let bth = Bth {
            opcode: opcode as u8,
            se: solicited,
            ackreq,
            psn: psn.get(),
            migreq: !repeated,
            // What a READ begins with, and no part of it.
            resv7: if at == 0 { entry.distance } else { 0 },
            ..Bth::default()
        };
        let frame = match self.service {
            Service::Ud => self.datagram(node, wr, opcode, psn, ext, &payload)?,
            _ => self.connected(node, bth, ext, &payload)?,
        };
        let entry = &mut self.sq.entries[cursor];
        if operation == Operation::ReadRequest && !entry.starts.contains(&psn) {
            entry.starts.push(psn);
        }
        Ok(Made { frame, packets, ackreq })
    }

    fn connected(&self, node: &Node, bth: Bth, ext: Extensions, payload: &[u8]) -> Result<Vec<u8>, Failure> {
        let av = self.av.ok_or(failure(WcStatus::LocQpOpErr, LocalCause::AddressHandle))?;
        let bth = Bth { pkey: self.pkey, destqp: self.dest_qpn, ..bth };
        Ok(packet::build(&node.config, &av, self.sport, bth, ext, payload))
    }

    /// Completes what is done, oldest first.
    pub(super) fn retire(&mut self, node: &mut Node) {
        while let Some(entry) = self.sq.pop_done() {
            if entry.wr.signaled {
                let done = completion(self.qpn, &entry);
                node.complete(self.send_cq, done);
            }
        }
        self.check_drained(node);
    }

    /// Whether something has begun and not ended.
    pub(super) fn is_busy(&self) -> bool {
        self.sq.entries.iter().any(|entry| entry.begun)
    }

    /// In SQD, says once that nothing is in progress any more (IBTA 10.3.1.5).
    pub(super) fn check_drained(&mut self, node: &mut Node) {
        if self.state == QpState::Sqd && self.drain_event && !self.is_busy() {
            self.drain_event = false;
            node.event(EventKind::SqDrained, self.qpn);
        }
    }

    /// Ends the oldest WQE with an error. RC goes to error; UC and UD keep receiving (IBTA 10.3.1.6, 10.10.2.1).
    pub(super) fn fail_oldest(&mut self, node: &mut Node, status: WcStatus, cause: u8) {
        if let Some(entry) = self.sq.entries.pop_front() {
            self.sq.cursor = self.sq.cursor.saturating_sub(1);
            let done = completion(self.qpn, &entry);
            node.complete(self.send_cq, Completion { status, syndrome: cause, ..done });
        }
        if self.service == Service::Rc {
            self.responder.forget_answers();
            self.enter_error(node);
        } else {
            self.state = QpState::Sqe;
            self.flush_sends(node);
        }
    }

    /// Flushes the send queue.
    pub(super) fn flush_sends(&mut self, node: &mut Node) {
        for entry in std::mem::take(&mut self.sq.entries) {
            let done = completion(self.qpn, &entry);
            node.complete(self.send_cq, Completion { status: WcStatus::WrFlushErr, ..done });
        }
        self.sq.cursor = 0;
        (self.sq.deadline, self.sq.rnr_until) = (None, None);
        let next = self.sq.sent;
        self.sq.start_at(next);
    }
}

fn operation_is_atomic(operation: Operation) -> bool {
    matches!(operation, Operation::CompareSwap | Operation::FetchAdd)
}

fn completion(qpn: u32, entry: &Entry) -> Completion {
    use SendOpcode as O;
    let opcode = match entry.wr.opcode {
        O::Send => CqeOpcode::Send,
        O::SendImm => CqeOpcode::SendImm,
        O::SendInv => CqeOpcode::SendInv,
        O::Write => CqeOpcode::Write,
        O::WriteImm => CqeOpcode::WriteImm,
        O::Read => CqeOpcode::Read,
        O::CmpSwap => CqeOpcode::CmpSwap,
        O::FetchAdd => CqeOpcode::FetchAdd,
        O::LocalInv => CqeOpcode::LocalInv,
        O::BindMw => CqeOpcode::BindMw,
    };
    Completion { byte_len: entry.len as u32, ..Completion::new(qpn, entry.wr.wr_id, opcode) }
}
