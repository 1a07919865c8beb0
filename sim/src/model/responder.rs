// SPDX-License-Identifier: MIT OR Apache-2.0
//! The responder of connected services: checks requests, executes them, decides the answer (IBTA 9.7.4, 9.7.5, 9.8.2).
//!
//! The order of the checks is that of 9.7.4.1: state and addresses (before), PSN, sequence of opcodes, what the queue pair
//! allows, resources, length, keys. The first that fails decides, and nothing has been changed until all have passed.

use std::collections::VecDeque;

use ferrowire_spec::csr::{DropReason, HwCounter};
use ferrowire_spec::queue::cqe::{CqeOpcode, LocalCause, WcStatus};
use ferrowire_spec::queue::event::EventKind;
use ferrowire_spec::wire::opcode::{Operation, Service};
use ferrowire_spec::wire::syndrome::{NakCode, Syndrome};
use ferrowire_spec::wire::{AtomicEth, Frame, Opcode, Reth};
use ferrowire_spec::{Psn, PsnClass};

use super::answers::{Answer, First, Mark};
use super::engine::Node;
use super::qp::Qp;
use super::types::{Completion, RecvWr, Rights, MAX_MESSAGE};

/// A message of which packets are still to come, or the one whose packet is executed.
#[derive(Debug)]
struct Message {
    operation: Operation,
    recv: Option<RecvWr>,
    received: u64,
    reth: Reth,
}

/// The responder's state.
#[derive(Debug, Default)]
pub(super) struct Responder {
    pub(super) expected: Psn,
    /// Messages completed, modulo 2^24; a [`Psn`] for its arithmetic (IBTA 9.7.7.1).
    pub(super) msn: Psn,
    message: Option<Message>,
    /// A NAK has been sent, and nothing more is said about packets ahead until the expected one is here.
    silent: bool,
    pub(super) answers: VecDeque<Answer>,
    /// Answers of duplicates that come before them, of selective retransmission.
    pub(super) first: VecDeque<Answer>,
    /// Answers of the last atomics, for duplicates (IBTA 9.7.5.1.4).
    atomics: VecDeque<(Psn, u64)>,
    /// That the peer is there has been told.
    pub(super) told: bool,
}

impl Responder {
    /// Gives up the message in progress; its receive comes out.
    pub(super) fn abandon(&mut self) -> Option<RecvWr> {
        self.message.take().and_then(|message| message.recv)
    }

    /// Whether a message has a receive and is not complete.
    pub(super) fn has_receive(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.recv.is_some())
    }

    pub(super) fn forget_answers(&mut self) {
        self.answers.clear();
        self.first.clear();
    }
}

/// Why a request is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No receive.
    NotReady,
    /// Invalid request; the receive in progress ends with that status.
    Invalid(WcStatus, LocalCause),
    /// The key does not give that right.
    Access(LocalCause),
    /// A fault of this end.
    Local(LocalCause),
}

/// An invalid request that is no matter of lengths.
const INVALID: Refusal = Refusal::Invalid(WcStatus::RemInvReqErr, LocalCause::None);

impl Qp {
    pub(super) fn rc_request(&mut self, node: &mut Node, frame: &Frame<'_>, opcode: Opcode) {
        self.established(node);
        let psn = Psn::new(frame.bth.psn);
        match self.responder.expected.classify(psn) {
            PsnClass::Duplicate => {
                node.counters.count(HwCounter::DuplicateRequest);
                self.duplicate(node, frame, opcode, psn);
            }
            PsnClass::Ahead => {
                node.counters.count(HwCounter::OutOfSequence);
                // One NAK for a gap, and none while the peer was told to wait (IBTA 9.7.5.2.1, 9.7.5.2.8).
                if !self.responder.silent {
                    self.responder.silent = true;
                    let expected = self.responder.expected;
                    self.refuse_with(node, expected, Syndrome::Nak(NakCode::SequenceError));
                }
            }
            PsnClass::Expected => {
                self.responder.silent = false;
                match self.in_sequence(opcode).and_then(|()| self.execute(node, frame, opcode, psn)) {
                    Ok(packets) => {
                        self.responder.expected += packets;
                        if frame.bth.ackreq && !opcode.is_read_or_atomic() {
                            self.acknowledge(node, psn);
                        }
                    }
                    Err(refusal) => self.refuse(node, psn, refusal),
                }
            }
        }
    }

    /// Whether a packet may follow those before it (IBTA 9.7.4.1.3).
    fn in_sequence(&self, opcode: Opcode) -> Result<(), Refusal> {
        let fits = match &self.responder.message {
            Some(message) => !opcode.position().begins() && message.operation == opcode.operation(),
            None => opcode.position().begins(),
        };
        if fits {
            Ok(())
        } else {
            Err(INVALID)
        }
    }

    /// Sends the NAK; all but receiver-not-ready end the connection (IBTA 9.7.5.2, 9.9.3).
    pub(super) fn refuse(&mut self, node: &mut Node, psn: Psn, refusal: Refusal) {
        let (code, status, cause, event) = match refusal {
            Refusal::NotReady => {
                self.responder.silent = true;
                node.counters.count(HwCounter::OutOfBuffer);
                return self.refuse_with(node, psn, Syndrome::Rnr { timer: self.min_rnr_timer });
            }
            Refusal::Invalid(status, cause) => {
                (NakCode::InvalidRequest, status, cause, EventKind::QpRequestError)
            }
            Refusal::Access(cause) => {
                (NakCode::RemoteAccess, WcStatus::RemAccessErr, cause, EventKind::QpAccessError)
            }
            Refusal::Local(cause) => {
                (NakCode::RemoteOperational, WcStatus::LocProtErr, cause, EventKind::QpFatal)
            }
        };
        let nak = Syndrome::Nak(code);
        self.refuse_with(node, psn, nak);
        let receive = self.responder.abandon();
        if let Some(wr) = &receive {
            self.complete_recv(node, wr, status, cause as u8);
        }
        // A fault of this end is told by the receive's completion, where there is one. What the peer did wrong is told of in any case
        // (IBTA 11.6.3.2).
        if receive.is_none() || event != EventKind::QpFatal {
            node.event_for(event, self.qpn, nak.encode());
        }
        self.enter_error(node);
    }

    /// Checks and executes a packet in sequence; gives the PSNs that it takes.
    fn execute(
        &mut self,
        node: &mut Node,
        frame: &Frame<'_>,
        opcode: Opcode,
        psn: Psn,
    ) -> Result<u32, Refusal> {
        let operation = opcode.operation();
        let right = match operation {
            Operation::Write => Rights::REMOTE_WRITE,
            Operation::ReadRequest => Rights::REMOTE_READ,
            Operation::CompareSwap | Operation::FetchAdd => Rights::REMOTE_ATOMIC,
            _ => Rights::NONE,
        };
        // What the queue pair does not do is an invalid request (IBTA 9.7.4.1.4).
        if !self.access.has(right) {
            return Err(INVALID);
        }
        let (packets, counter) = match operation {
            Operation::ReadRequest => {
                let packets = self.read(node, &frame.ext.reth.ok_or(INVALID)?, psn, self.mark(frame))?;
                (packets, HwCounter::RxReadRequests)
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let packets =
                    self.atomic(node, &frame.ext.atomic.ok_or(INVALID)?, operation, psn, self.mark(frame))?;
                (packets, HwCounter::RxAtomicRequests)
            }
            _ => {
                self.place(node, frame, opcode)?;
                if operation != Operation::Write {
                    return Ok(1);
                }
                (1, HwCounter::RxWriteRequests)
            }
        };
        node.counters.count(counter);
        Ok(packets)
    }

    /// A packet of a SEND or WRITE.
    fn place(&mut self, node: &mut Node, frame: &Frame<'_>, opcode: Opcode) -> Result<(), Refusal> {
        let (operation, position) = (opcode.operation(), opcode.position());
        let mut message = match self.responder.message.take() {
            Some(message) if !position.begins() => message,
            _ => Message { operation, recv: None, received: 0, reth: frame.ext.reth.unwrap_or_default() },
        };
        // A SEND takes its receive with its first packet, a WRITE with immediate with its last (IBTA 9.7.5.1.6).
        let takes = match operation {
            Operation::Send => position.begins(),
            _ => opcode.has_immediate(),
        };
        if takes {
            message.recv = self.rq.take(node);
            if message.recv.is_none() {
                if !position.begins() {
                    self.responder.message = Some(message);
                }
                return Err(Refusal::NotReady);
            }
        }
        let fault = match &message.recv {
            Some(_) if self.rq.has_failed(node) => Some(LocalCause::Dma),
            receive => receive.as_ref().and_then(|wr| wr.fault),
        };
        let done = match operation {
            _ if fault.is_some() => Err(Refusal::Local(fault.unwrap_or(LocalCause::Dma))),
            Operation::Send => self.place_send(node, frame, opcode, &message),
            _ => self.place_write(node, frame, opcode, &message),
        };
        if let Err(refusal) = done {
            self.responder.message = Some(message);
            return Err(refusal);
        }
        message.received += frame.payload.len() as u64;
        if !position.ends() {
            self.responder.message = Some(message);
            return Ok(());
        }
        self.responder.msn = self.responder.msn.next();
        if let Some(wr) = message.recv {
            let kind = match (operation, opcode.has_immediate(), opcode.has_invalidate()) {
                (Operation::Write, ..) => CqeOpcode::RecvWriteImm,
                (_, true, _) => CqeOpcode::RecvImm,
                (_, _, true) => CqeOpcode::RecvInv,
                _ => CqeOpcode::Recv,
            };
            let done = Completion {
                byte_len: message.received as u32,
                imm: frame.ext.imm.map(|h| h.imm),
                invalidated: frame.ext.ieth.map(|h| h.rkey),
                solicited: frame.bth.se,
                ..Completion::new(self.qpn, wr.wr_id, kind)
            };
            node.complete(self.recv_cq, done);
        }
        Ok(())
    }

    fn place_send(
        &self,
        node: &mut Node,
        frame: &Frame<'_>,
        opcode: Opcode,
        message: &Message,
    ) -> Result<(), Refusal> {
        let bytes = frame.payload.len();
        let Some(wr) = &message.recv else { return Err(Refusal::NotReady) };
        // Too long for the receive: an invalid request for the peer, a length error here (IBTA 9.7.4.1.6, 9.9.3.1).
        if !opcode.payload().allows(bytes, self.mtu) || message.received + bytes as u64 > MAX_MESSAGE {
            return Err(INVALID);
        }
        if message.received + bytes as u64 > wr.len() {
            return Err(Refusal::Invalid(WcStatus::LocLenErr, LocalCause::Length));
        }
        let key = frame.ext.ieth.map(|h| h.rkey);
        if let Some(key) = key {
            node.keys.may_invalidate(self.pd, self.qpn, key).map_err(Refusal::Access)?;
        }
        let pd = self.rq.pd(node, self.pd);
        node.scatter(pd, &wr.sges, message.received, frame.payload).map_err(Refusal::Local)?;
        // Before the completion can be seen (IBTA 9.4.1.1.1).
        if let Some(key) = key {
            node.keys.invalidate(self.pd, self.qpn, key).map_err(Refusal::Access)?;
        }
        Ok(())
    }

    fn place_write(
        &self,
        node: &mut Node,
        frame: &Frame<'_>,
        opcode: Opcode,
        message: &Message,
    ) -> Result<(), Refusal> {
        let (bytes, position) = (frame.payload.len() as u64, opcode.position());
        let (reth, total) = (&message.reth, u64::from(message.reth.len));
        let after = message.received + bytes;
        let sum = if position.ends() { after == total } else { after < total };
        if total > MAX_MESSAGE || !opcode.payload().allows(frame.payload.len(), self.mtu) || !sum {
            return Err(INVALID);
        }
        // Key and address of nothing are not looked at (IBTA 9.7.4.1.5).
        if total == 0 {
            return Ok(());
        }
        let check =
            |va: u64, len: u64| node.keys.remote(self.pd, self.qpn, reth.rkey, va, len, Rights::REMOTE_WRITE);
        if position.begins() {
            // The whole, before anything of it is written (IBTA 9.7.4.1.5).
            check(reth.va, total).map_err(Refusal::Access)?;
        }
        // The right may have gone since.
        let addr = check(reth.va.wrapping_add(message.received), bytes).map_err(Refusal::Access)?;
        match node.memory.write(addr, frame.payload) {
            true => Ok(()),
            false => Err(Refusal::Local(LocalCause::Dma)),
        }
    }

    /// One answer more than the peer was granted is an invalid request (IBTA 9.7.4.1.4, 9.7.3.3.1).
    fn slot(&self) -> Result<(), Refusal> {
        let taken = self.responder.answers.iter().filter(|answer| answer.takes_slot()).count();
        if taken >= usize::from(self.max_dest_rd_atomic) {
            return Err(INVALID);
        }
        Ok(())
    }

    /// The PSNs of a READ, if its key gives all that it asks for and the bytes of its first response are there.
    fn check_read(&self, node: &Node, reth: &Reth) -> Result<u32, Refusal> {
        let len = u64::from(reth.len);
        if len > MAX_MESSAGE {
            return Err(INVALID);
        }
        if len == 0 {
            return Ok(1);
        }
        let addr = self.readable(node, reth, 0, len)?;
        match node.memory.covers(addr, len.min(self.mtu as u64)) {
            true => Ok(len.div_ceil(self.mtu as u64) as u32),
            false => Err(Refusal::Local(LocalCause::Dma)),
        }
    }

    /// The host address of a part of what a READ asks for.
    fn readable(&self, node: &Node, reth: &Reth, offset: u64, len: u64) -> Result<u64, Refusal> {
        let va = reth.va.wrapping_add(offset);
        node.keys.remote(self.pd, self.qpn, reth.rkey, va, len, Rights::REMOTE_READ).map_err(Refusal::Access)
    }

    /// The payload of a READ's response, of which `sent` have gone.
    pub(super) fn response(&self, node: &Node, reth: &Reth, sent: u32) -> Result<Vec<u8>, Refusal> {
        let (offset, mut data) = (u64::from(sent) * self.mtu as u64, Vec::new());
        let len = u64::from(reth.len).saturating_sub(offset).min(self.mtu as u64);
        if len == 0 {
            return Ok(data);
        }
        let addr = self.readable(node, reth, offset, len)?;
        match node.memory.read(addr, len, &mut data) {
            true => Ok(data),
            false => Err(Refusal::Local(LocalCause::Dma)),
        }
    }

    fn read(&mut self, node: &mut Node, reth: &Reth, psn: Psn, mark: Mark) -> Result<u32, Refusal> {
        self.slot()?;
        let packets = self.check_read(node, reth)?;
        self.responder.msn = self.responder.msn.next();
        self.answer_read(node, psn, *reth, false, mark);
        Ok(packets)
    }

    fn atomic(
        &mut self,
        node: &mut Node,
        eth: &AtomicEth,
        operation: Operation,
        psn: Psn,
        mark: Mark,
    ) -> Result<u32, Refusal> {
        self.slot()?;
        if eth.va % 8 != 0 {
            return Err(Refusal::Invalid(WcStatus::RemInvReqErr, LocalCause::Alignment));
        }
        let addr = node
            .keys
            .remote(self.pd, self.qpn, eth.rkey, eth.va, 8, Rights::REMOTE_ATOMIC)
            .map_err(Refusal::Access)?;
        let mut word = Vec::new();
        node.memory.read(addr, 8, &mut word);
        let original = u64::from_le_bytes(*word.first_chunk().ok_or(Refusal::Local(LocalCause::Dma))?);
        let new = match operation {
            Operation::FetchAdd => original.wrapping_add(eth.swap),
            _ if original == eth.compare => eth.swap,
            _ => original,
        };
        if !node.memory.write(addr, &new.to_le_bytes()) {
            return Err(Refusal::Local(LocalCause::Dma));
        }
        self.responder.msn = self.responder.msn.next();
        let kept = &mut self.responder.atomics;
        kept.push_back((psn, original));
        while kept.len() > usize::from(self.max_dest_rd_atomic) {
            kept.pop_front();
        }
        self.answer_atomic(node, psn, original, false, mark);
        Ok(1)
    }

    /// A request that was executed before (IBTA 9.7.5.1.4): SENDs and WRITEs are acknowledged by what is newest, READs executed
    /// again from where they say, atomics answered with what is kept.
    fn duplicate(&mut self, node: &mut Node, frame: &Frame<'_>, opcode: Opcode, psn: Psn) {
        match (opcode.operation(), &frame.ext.reth) {
            (Operation::Send | Operation::Write, _) => {
                let newest = self.responder.expected.previous();
                self.acknowledge(node, newest);
            }
            (Operation::ReadRequest, Some(reth)) => {
                // A late copy may ask for what is no longer granted, or for more than it did; that is no reason to end the connection.
                let past = self.responder.expected.distance_from(psn);
                match self.check_read(node, reth) {
                    Ok(packets) if packets <= past && self.access.has(Rights::REMOTE_READ) => {
                        let mark = self.mark(frame);
                        let first = self.selective.is_some() && packets == 1;
                        if self.is_pending(psn, packets) {
                            return;
                        }
                        if first && self.answer_first(node, psn, First::Read(*reth), mark) {
                        } else if !first && self.can_repeat(psn) {
                            self.answer_read(node, psn, *reth, true, mark);
                        } else {
                            node.drop_for(DropReason::Sequence);
                        }
                    }
                    _ => {}
                }
            }
            _ => match self.responder.atomics.iter().find(|(kept, _)| *kept == psn).copied() {
                Some((_, original)) if self.selective.is_some() => {
                    if self.is_pending(psn, 1) {
                        return;
                    }
                    let mark = self.mark(frame);
                    if !self.answer_first(node, psn, First::Atomic(original), mark) {
                        node.drop_for(DropReason::DuplicateAtomic);
                    }
                }
                Some((_, original)) if self.can_repeat(psn) => {
                    self.answer_atomic(node, psn, original, true, self.mark(frame));
                }
                _ => node.drop_for(DropReason::DuplicateAtomic),
            },
        }
    }

    /// Whether responses that are asked for again are still to be sent. An answer of its own would let the requester have them all and send
    /// a READ more than this end has slots for.
    fn is_pending(&self, psn: Psn, packets: u32) -> bool {
        let mtu = self.mtu as u64;
        let covers = |answer: &Answer| match answer {
            Answer::Acknowledge { .. } => false,
            Answer::Atomic { psn: at, .. } => *at == psn && packets == 1,
            Answer::Read { psn: at, reth, sent, .. } => {
                let left = (u64::from(reth.len).div_ceil(mtu).max(1) as u32).saturating_sub(*sent);
                psn.is_within(*at, left) && psn.distance_from(*at) + packets <= left
            }
        };
        let Responder { answers, first, .. } = &self.responder;
        self.selective.is_some() && answers.iter().chain(first).any(covers)
    }

    /// Makes room for a repeated answer: the peer has gone back, so repetitions of what lies behind are asked for again.
    fn can_repeat(&mut self, psn: Psn) -> bool {
        // With selective retransmission, what is pending stays.
        let selective = self.selective.is_some();
        self.responder.answers.retain(|answer| match answer {
            _ if selective => true,
            Answer::Read { psn: at, again: true, .. } | Answer::Atomic { psn: at, again: true, .. } => {
                at.is_before(psn)
            }
            _ => true,
        });
        let again = |answer: &&Answer| {
            matches!(answer, Answer::Read { again: true, .. } | Answer::Atomic { again: true, .. })
        };
        self.responder.answers.iter().filter(again).count() <= usize::from(self.max_dest_rd_atomic)
    }

    /// A request of an unreliable connection: no answer, and what does not fit is dropped with its message, silently (IBTA
    /// 9.8.2.2).
    pub(super) fn uc_request(&mut self, node: &mut Node, frame: &Frame<'_>, opcode: Opcode) {
        debug_assert_eq!(self.service, Service::Uc);
        self.established(node);
        let psn = Psn::new(frame.bth.psn);
        let expected = std::mem::replace(&mut self.responder.expected, psn.next());
        let begins = opcode.position().begins();
        if psn != expected || begins {
            // Packets are missing, or the rest of a message is: its receive is for the next one.
            self.drop_message();
        }
        if self.in_sequence(opcode).is_err() {
            self.drop_message();
            return node.drop_for(DropReason::Sequence);
        }
        let reason = match self.execute(node, frame, opcode, psn) {
            Ok(_) => return,
            Err(Refusal::Local(cause)) => {
                if let Some(wr) = self.responder.abandon() {
                    self.complete_recv(node, &wr, WcStatus::LocProtErr, cause as u8);
                }
                return self.enter_error(node);
            }
            Err(Refusal::NotReady) => {
                node.counters.count(HwCounter::OutOfBuffer);
                DropReason::NoReceive
            }
            Err(Refusal::Invalid(WcStatus::LocLenErr, _)) => DropReason::TooLong,
            Err(_) => DropReason::Malformed,
        };
        node.drop_for(reason);
        self.drop_message();
    }

    fn drop_message(&mut self) {
        if let Some(wr) = self.responder.abandon() {
            self.rq.give_back(wr);
        }
    }
}
