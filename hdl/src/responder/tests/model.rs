// SPDX-License-Identifier: MIT OR Apache-2.0
//! A responder of the specification: one packet at a time, without any pipeline.

use super::{COUNTERS, MODULUS, PAGE};
use ferrowire_spec::qp_state::QpState;
use ferrowire_spec::queue::{EventKind, WcStatus};
use ferrowire_spec::wire::syndrome::{credits, CREDIT_INVALID};
use std::collections::VecDeque;

/// A request as it comes.
#[derive(Clone, Debug)]
pub struct Packet {
    pub opcode: u8,
    pub qpn: u32,
    pub psn: u32,
    pub ack_req: bool,
    pub pkey: u16,
    pub ipv6: bool,
    pub source: u128,
    /// The port's GID that it is sent to; a QP's own is its number, modulo 16.
    pub gid: u32,
    pub va: u64,
    pub rkey: u32,
    pub dma_length: u32,
    pub imm: u32,
    pub solicited: bool,
    pub payload: Vec<u8>,
    pub offset: usize,
    /// Of a datagram, what is before the payload.
    pub grh: Vec<u8>,
}

impl Packet {
    /// The last payload bytes are padded to a multiple of 4.
    pub fn pad(&self) -> usize {
        self.payload.len().wrapping_neg() % 4
    }
}

/// Registered memory; a page that is `None` has been taken away.
pub struct Region {
    pub key: u32,
    pub pd: u32,
    pub remote_write: bool,
    pub va: u64,
    pub length: u64,
    pub pages: Vec<Option<u64>>,
}

impl Region {
    pub fn page(&self, va: u64) -> Option<u64> {
        let index = (va >> 12).wrapping_sub(self.va >> 12);
        self.pages.get(index as usize).copied().flatten()
    }

    pub fn holds(&self, va: u64, length: u64) -> bool {
        let (va, end) = (u128::from(va), u128::from(va) + u128::from(length));
        va >= u128::from(self.va) && end <= u128::from(self.va) + u128::from(self.length)
    }
}

/// The region, if the key gives that access: everybody here may write locally.
pub fn region(regions: &[Region], key: u32, pd: u32, access: u64) -> Option<&Region> {
    regions.iter().find(|r| r.key == key && r.pd == pd && (r.remote_write || access == LOCAL_WRITE))
}

pub const LOCAL_WRITE: u64 = 1;
pub const REMOTE_WRITE: u64 = 2;

/// An element of a receive.
#[derive(Clone, Copy, Debug)]
pub struct Sge {
    pub va: u64,
    pub key: u32,
    pub length: u64,
}

/// What has been received of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub send: bool,
    pub va: u64,
    pub rkey: u32,
    pub remaining: u64,
    pub received: u64,
}

/// The end of a receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub qp: u32,
    pub index: u16,
    pub status: WcStatus,
    pub opcode: u8,
    pub length: u64,
    pub imm: Option<u32>,
    pub solicited: bool,
    /// The QP that sent a datagram, and whether its packet was of IPv4.
    pub source: Option<(u32, bool)>,
    /// Bytes that must have gone to memory before.
    pub before: usize,
}

/// A responder of the specification.
#[derive(Clone, Debug)]
pub struct Responder {
    pub state: QpState,
    /// After a NAK that ends the connection.
    pub ended: bool,
    pub service: u32,
    pub pd: u32,
    pub mtu: u32,
    pub allows_write: bool,
    pub allows_atomics: bool,
    pub ipv6: bool,
    pub peer: u128,
    pub pkey: u16,
    pub qkey: u32,
    pub expected: u32,
    pub msn: u32,
    pub message: Option<Message>,
    pub silent: bool,
    pub timer: u32,
    /// Index of the oldest receive, and all that are posted.
    pub oldest: u16,
    pub receives: VecDeque<Vec<Sge>>,
    /// Its receives come from this shared queue; then the one that it holds is in `receives`.
    pub shared: Option<usize>,
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq {
    pub pd: u32,
    /// Index of the next, and all that nobody has taken.
    pub next: u16,
    pub receives: VecDeque<Vec<Sge>>,
}

impl Responder {
    pub fn takes(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
    }
}

/// An answer, and how many bytes must have gone to memory before it.
pub type Answer = (u32, u32, u32, u32, usize);

pub struct Model {
    pub qps: Vec<Responder>,
    pub srqs: Vec<Srq>,
    pub regions: Vec<Region>,
    /// QP, PSN, syndrome, MSN, bytes before.
    pub answers: Vec<Answer>,
    pub bytes: Vec<(u64, u8)>,
    pub faults: Vec<(u32, u8)>,
    pub ended: Vec<Ended>,
    /// SEND packets executed.
    pub sends: u64,
    pub counts: [u64; COUNTERS.len()],
}

impl Model {
    pub fn count(&mut self, name: &str) {
        self.counts[COUNTERS.iter().position(|n| *n == name).unwrap()] += 1;
    }

    /// An acknowledgement, with the receives that no message has (9.7.7.2).
    pub fn acknowledge(&mut self, qp: u32, psn: u32) {
        let row = &self.qps[qp as usize];
        let code = match row.shared {
            Some(_) => CREDIT_INVALID,
            None => {
                let used = usize::from(row.message.is_some_and(|message| message.send));
                let free = row.receives.len() - used;
                (0..31)
                    .rfind(|code| credits(*code).is_some_and(|n| usize::from(n) <= free))
                    .expect("0 is one")
            }
        };
        self.answer(qp, psn, code.into());
    }

    pub fn answer(&mut self, qp: u32, psn: u32, syndrome: u32) {
        let msn = self.qps[qp as usize].msn;
        self.answers.push((qp, psn, syndrome, msn, self.bytes.len()));
    }

    /// A receive ends.
    fn complete(&mut self, qp: u32, status: WcStatus) -> &mut Ended {
        let row = &mut self.qps[qp as usize];
        row.receives.pop_front().expect("a receive");
        let index = row.oldest;
        row.oldest = index.wrapping_add(1);
        let before = self.bytes.len();
        let (opcode, length, imm) = (0x80, 0, None);
        let ended = Ended { qp, index, status, opcode, length, imm, solicited: false, source: None, before };
        self.ended.push(ended);
        self.ended.last_mut().unwrap()
    }

    /// The error state: what is posted ends.
    pub fn flush(&mut self, qp: u32) {
        while !self.qps[qp as usize].receives.is_empty() {
            // Others' data may come later.
            self.complete(qp, WcStatus::WrFlushErr).before = 0;
        }
    }

    /// A NAK that ends the connection, and the receive that the message has.
    fn end(&mut self, qp: u32, syndrome: u32, counter: &str, receive: Option<WcStatus>) {
        self.answer(qp, self.qps[qp as usize].expected, syndrome);
        if let Some(status) = receive {
            self.complete(qp, status);
        }
        self.qps[qp as usize].ended = true;
        let event = match syndrome {
            0x61 => EventKind::QpRequestError.code(),
            0x62 => EventKind::QpAccessError.code(),
            _ => 0,
        };
        self.faults.push((qp, event));
        self.count(counter);
    }

    /// 9.6 and 9.7.4: the checks in their order, and what follows.
    pub fn take(&mut self, p: &Packet) {
        let qp = match self.qps.get(p.qpn as usize) {
            Some(qp) if qp.takes() => qp.clone(),
            Some(_) => return self.count("qp_state"),
            None => return self.count("no_qp"),
        };
        if qp.service != [0, 1, 4, 2][usize::from(p.opcode >> 5)] {
            return self.count("service");
        }
        let full = p.pkey | qp.pkey;
        if p.pkey & 0x7fff != qp.pkey & 0x7fff || full & 0x8000 == 0 {
            return self.count("pkey");
        }
        if qp.service < 2 && (p.ipv6, p.source) != (qp.ipv6, qp.peer) {
            return self.count("source");
        }
        if qp.service < 2 && p.gid != p.qpn % 16 {
            return self.count("destination");
        }
        if qp.service == 2 && (p.va >> 32) as u32 != qp.qkey {
            return self.count("qkey");
        }
        if qp.ended {
            return self.count("qp_state");
        }
        if qp.service > 0 {
            return self.take_quietly(p, qp);
        }
        let ahead = p.psn.wrapping_sub(qp.expected) % MODULUS;
        if ahead >= MODULUS / 2 {
            let newest = qp.expected.wrapping_sub(1) % MODULUS;
            self.acknowledge(p.qpn, newest);
            return self.count("duplicate");
        }
        if ahead != 0 {
            if !qp.silent {
                self.answer(p.qpn, qp.expected, 0x60);
                self.qps[p.qpn as usize].silent = true;
            }
            return self.count("out_of_sequence");
        }
        let under_way = qp.message.is_some_and(|m| m.send).then_some(WcStatus::RemInvReqErr);
        // 9.9.3: what the QP does not offer its peer is as invalid as what it does not know.
        let Some(message) = Model::in_sequence(&qp, p).filter(|m| m.send || qp.allows_write) else {
            return self.end(p.qpn, 0x61, "invalid", under_way);
        };
        let takes = matches!(p.opcode, 0x00 | 0x04 | 0x05 | 0x09 | 0x0b);
        // 10.2.9: of a shared queue it takes the oldest.
        if let (true, Some(srq)) = (takes, qp.shared) {
            if let Some(receive) = self.srqs[srq].receives.pop_front() {
                let row = &mut self.qps[p.qpn as usize];
                row.oldest = self.srqs[srq].next;
                row.receives.push_back(receive);
                self.srqs[srq].next = row.oldest.wrapping_add(1);
            }
        }
        let qp = self.qps[p.qpn as usize].clone();
        if takes && qp.receives.is_empty() {
            self.answer(p.qpn, qp.expected, 0x20 | qp.timer);
            self.qps[p.qpn as usize].silent = true;
            return self.count("rnr_naks");
        }
        let holds = takes || message.send;
        let ends = matches!(p.opcode, 0x02..=0x05 | 0x08..=0x0b);
        let only = matches!(p.opcode, 0x04 | 0x05 | 0x0a | 0x0b);
        let (length, mtu) = (p.payload.len() as u64, u64::from(qp.mtu));
        let in_mtu = if ends { length <= mtu && (only || length > 0) } else { length == mtu };
        let in_total = match message.send {
            true => message.received + length <= 1 << 31,
            false if ends => length == message.remaining && length <= 1 << 31,
            false => length < message.remaining && message.remaining <= 1 << 31,
        };
        if !in_mtu || !in_total {
            return self.end(p.qpn, 0x61, "invalid", holds.then_some(WcStatus::RemInvReqErr));
        }
        let places = match message.send {
            true => {
                let receive = &qp.receives[0];
                let room: u64 = receive.iter().map(|sge| sge.length).sum();
                if length > 0 && message.received + length > room {
                    return self.end(p.qpn, 0x61, "invalid", Some(WcStatus::LocLenErr));
                }
                let Some(places) = self.scattered(&qp, receive, message.received, length) else {
                    return self.end(p.qpn, 0x63, "operation", Some(WcStatus::LocProtErr));
                };
                places
            }
            false => {
                let whole = Sge { va: message.va, key: message.rkey, length: message.remaining };
                let Some(places) = self.granted(qp.pd, &whole, length, REMOTE_WRITE) else {
                    return self.end(p.qpn, 0x62, "access", takes.then_some(WcStatus::RemAccessErr));
                };
                places
            }
        };
        self.bytes.extend(places.into_iter().zip(p.payload.iter().copied()));
        let next = Message {
            va: message.va.wrapping_add(length),
            remaining: message.remaining.saturating_sub(length),
            received: message.received + length,
            ..message
        };
        let row = &mut self.qps[p.qpn as usize];
        row.message = (!ends).then_some(next);
        row.expected = (qp.expected + 1) % MODULUS;
        row.msn = (qp.msn + u32::from(ends)) % MODULUS;
        row.silent = false;
        if ends && holds {
            let immediate = matches!(p.opcode, 0x03 | 0x05 | 0x09 | 0x0b);
            let ended = self.complete(p.qpn, WcStatus::Success);
            ended.opcode = match (message.send, immediate) {
                (false, _) => 0x84,
                (true, yes) => 0x80 + u8::from(yes),
            };
            (ended.length, ended.solicited) = (next.received, p.solicited);
            ended.imm = immediate.then_some(p.imm);
        }
        if p.ack_req {
            self.acknowledge(p.qpn, qp.expected);
        }
        match message.send {
            true => self.sends += 1,
            false => self.count("writes"),
        }
    }

    /// 9.8.2 and 9.8.3: executed, or dropped.
    fn take_quietly(&mut self, p: &Packet, qp: Responder) {
        let (opcode, uc) = (p.opcode & 0x1f, qp.service == 1);
        let begins = matches!(opcode, 0x00 | 0x04..=0x06 | 0x0a | 0x0b);
        let ends = matches!(opcode, 0x02..=0x05 | 0x08..=0x0b);
        let only = begins && ends;
        let send = opcode < 0x06;
        let row = &mut self.qps[p.qpn as usize];
        row.expected = (p.psn + 1) % MODULUS;
        let old = row.message.take().filter(|m| !begins && p.psn == qp.expected && m.send == send);
        let remaining = if send { 0 } else { p.dma_length.into() };
        let fresh = Message { send, va: p.va, rkey: p.rkey, remaining, received: 0 };
        let known = if uc { opcode < 0x0c } else { matches!(opcode, 4 | 5) };
        let Some(message) = if begins { Some(fresh) } else { old }.filter(|_| known) else {
            return self.count("sequence");
        };
        if !send && !qp.allows_write {
            return self.count("malformed");
        }
        let takes = matches!(opcode, 0x00 | 0x04 | 0x05 | 0x09 | 0x0b);
        let there =
            !qp.receives.is_empty() || qp.shared.is_some_and(|srq| !self.srqs[srq].receives.is_empty());
        if takes && !there {
            return self.count("no_receive");
        }
        let (length, mtu) = (p.payload.len() as u64, u64::from(qp.mtu));
        let in_mtu = if ends { length <= mtu && (only || length > 0) } else { length == mtu };
        let in_total = match send {
            true => true,
            false if ends => length == message.remaining && length <= 1 << 31,
            false => length < message.remaining && message.remaining <= 1 << 31,
        };
        if !in_mtu || !in_total {
            return self.count("malformed");
        }
        // One that a shared queue gave before is used first.
        if let (true, true, Some(srq)) = (takes, qp.receives.is_empty(), qp.shared) {
            let queue = &mut self.srqs[srq];
            let receive = queue.receives.pop_front().expect("one is there");
            let row = &mut self.qps[p.qpn as usize];
            row.oldest = queue.next;
            row.receives.push_back(receive);
            queue.next = row.oldest.wrapping_add(1);
        }
        let qp = self.qps[p.qpn as usize].clone();
        let bytes: Vec<u8> = p.grh.iter().chain(&p.payload).copied().collect();
        let placed = bytes.len() as u64;
        let places = match send {
            true => {
                let receive = &qp.receives[0];
                let room: u64 = receive.iter().map(|sge| sge.length).sum();
                if placed > 0 && message.received + placed > room {
                    return self.count("too_long");
                }
                let Some(places) = self.scattered(&qp, receive, message.received, placed) else {
                    // This end's own fault.
                    self.complete(p.qpn, WcStatus::LocProtErr);
                    self.qps[p.qpn as usize].ended = true;
                    self.faults.push((p.qpn, 0));
                    return self.count("operation");
                };
                places
            }
            false => {
                let whole = Sge { va: message.va, key: message.rkey, length: message.remaining };
                let Some(places) = self.granted(qp.pd, &whole, length, REMOTE_WRITE) else {
                    return self.count("malformed");
                };
                places
            }
        };
        self.bytes.extend(places.into_iter().zip(bytes));
        let next = Message {
            va: message.va.wrapping_add(length),
            remaining: message.remaining.saturating_sub(length),
            received: message.received + placed,
            ..message
        };
        self.qps[p.qpn as usize].message = (!ends).then_some(next);
        let immediate = matches!(opcode, 0x03 | 0x05 | 0x09 | 0x0b);
        if ends && (send || immediate) {
            let ended = self.complete(p.qpn, WcStatus::Success);
            ended.opcode = match (send, immediate) {
                (false, _) => 0x84,
                (true, yes) => 0x80 + u8::from(yes),
            };
            (ended.length, ended.solicited) = (next.received, p.solicited);
            ended.imm = immediate.then_some(p.imm);
            ended.source = (!uc).then_some((p.va as u32 & 0xff_ffff, !p.ipv6));
        }
        match send {
            true => self.sends += 1,
            false => self.count("writes"),
        }
    }

    /// 9.7.4.1.2 and 9.7.4.1.3: the sequence of opcodes. Gives the message from this packet on.
    fn in_sequence(qp: &Responder, p: &Packet) -> Option<Message> {
        let send = p.opcode < 0x06;
        let remaining = if send { 0 } else { p.dma_length.into() };
        let fresh = Message { send, va: p.va, rkey: p.rkey, remaining, received: 0 };
        match (p.opcode, qp.message) {
            (0x00 | 0x04..=0x06 | 0x0a | 0x0b, None) => Some(fresh),
            (0x01..=0x03 | 0x07..=0x09, Some(old)) if old.send == send => Some(old),
            _ => None,
        }
    }

    /// The place of each byte that comes at `from` in a receive.
    fn scattered(&self, qp: &Responder, receive: &[Sge], from: u64, length: u64) -> Option<Vec<u64>> {
        let pd = qp.shared.map_or(qp.pd, |srq| self.srqs[srq].pd);
        let (mut at, mut skip, mut left) = (Vec::new(), from, length);
        for sge in receive {
            let used = skip.min(sge.length);
            skip -= used;
            let here = left.min(sge.length - used);
            if here > 0 {
                let rest = Sge { va: sge.va.wrapping_add(used), length: sge.length - used, ..*sge };
                at.extend(self.granted(pd, &rest, here, LOCAL_WRITE)?);
            }
            left -= here;
        }
        Some(at)
    }

    /// 10.6.3 for all of a place. Gives the place of each byte of its beginning.
    fn granted(&self, pd: u32, place: &Sge, length: u64, access: u64) -> Option<Vec<u64>> {
        if length == 0 {
            return Some(Vec::new());
        }
        let region = region(&self.regions, place.key, pd, access)?;
        if !region.holds(place.va, place.length) {
            return None;
        }
        let at = |va: u64| Some(region.page(va)? * PAGE + va % PAGE);
        (0..length).map(|i| at(place.va + i)).collect()
    }
}
