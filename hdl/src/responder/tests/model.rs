// SPDX-License-Identifier: MIT OR Apache-2.0
//! A responder of the specification: one packet at a time, without any pipeline.

use super::{COUNTERS, MODULUS, PAGE};
use ferrowire_spec::qp_state::QpState;

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
    pub va: u64,
    pub rkey: u32,
    pub dma_length: u32,
    pub payload: Vec<u8>,
    pub offset: usize,
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

pub fn region(regions: &[Region], key: u32, pd: u32) -> Option<&Region> {
    regions.iter().find(|r| r.key == key && r.pd == pd && r.remote_write)
}

/// What has been received of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub va: u64,
    pub rkey: u32,
    pub remaining: u64,
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
    pub ipv6: bool,
    pub peer: u128,
    pub pkey: u16,
    pub expected: u32,
    pub msn: u32,
    pub message: Option<Message>,
    pub gap_reported: bool,
}

impl Responder {
    pub fn takes(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd) && self.service == 0
    }
}

/// An answer, and how many bytes must have gone to memory before it.
pub type Answer = (u32, u32, u32, u32, usize);

pub struct Model {
    pub qps: Vec<Responder>,
    pub regions: Vec<Region>,
    /// QP, PSN, syndrome, MSN, bytes before.
    pub answers: Vec<Answer>,
    pub bytes: Vec<(u64, u8)>,
    pub faults: Vec<u32>,
    pub counts: [u64; COUNTERS.len()],
}

impl Model {
    pub fn count(&mut self, name: &str) {
        self.counts[COUNTERS.iter().position(|n| *n == name).unwrap()] += 1;
    }

    pub fn answer(&mut self, qp: u32, psn: u32, syndrome: u32) {
        let msn = self.qps[qp as usize].msn;
        self.answers.push((qp, psn, syndrome, msn, self.bytes.len()));
    }

    /// A NAK that ends the connection.
    pub fn end(&mut self, qp: u32, syndrome: u32, counter: &str) {
        self.answer(qp, self.qps[qp as usize].expected, syndrome);
        self.qps[qp as usize].ended = true;
        self.faults.push(qp);
        self.count(counter);
    }

    /// 9.6 and 9.7.4: the checks in their order, and what follows.
    pub fn take(&mut self, p: &Packet) {
        let qp = match self.qps.get(p.qpn as usize) {
            Some(qp) if qp.takes() && p.opcode < 0x20 => qp.clone(),
            _ => return self.count("no_qp"),
        };
        let full = p.pkey | qp.pkey;
        if p.pkey & 0x7fff != qp.pkey & 0x7fff || full & 0x8000 == 0 {
            return self.count("pkey");
        }
        if (p.ipv6, p.source) != (qp.ipv6, qp.peer) {
            return self.count("source");
        }
        if qp.ended {
            return self.count("no_qp");
        }
        let ahead = p.psn.wrapping_sub(qp.expected) % MODULUS;
        if ahead >= MODULUS / 2 {
            let newest = qp.expected.wrapping_sub(1) % MODULUS;
            self.answer(p.qpn, newest, 0x1f);
            return self.count("duplicate");
        }
        if ahead != 0 {
            if !qp.gap_reported {
                self.answer(p.qpn, qp.expected, 0x60);
                self.qps[p.qpn as usize].gap_reported = true;
            }
            return self.count("out_of_sequence");
        }
        // 9.9.3: what the QP does not offer its peer is as invalid as what it does not know.
        let Some(message) = Model::valid(&qp, p).filter(|_| qp.allows_write) else {
            return self.end(p.qpn, 0x61, "invalid");
        };
        let Some(bytes) = self.granted(&qp, &message, p.payload.len()) else {
            return self.end(p.qpn, 0x62, "access");
        };
        self.bytes.extend(bytes.into_iter().zip(p.payload.iter().copied()));
        let remaining = message.remaining - p.payload.len() as u64;
        let next = Message { va: message.va.wrapping_add(p.payload.len() as u64), remaining, ..message };
        let ends = matches!(p.opcode, 0x08 | 0x0a);
        let row = &mut self.qps[p.qpn as usize];
        row.message = (!ends).then_some(next);
        row.expected = (qp.expected + 1) % MODULUS;
        row.msn = (qp.msn + u32::from(ends)) % MODULUS;
        row.gap_reported = false;
        if p.ack_req {
            self.answer(p.qpn, qp.expected, 0x1f);
        }
        self.count("writes");
    }

    /// 9.7.4.1.2 to 9.7.4.1.6: the sequence of opcodes and the lengths. Gives the message from this packet on.
    pub fn valid(qp: &Responder, p: &Packet) -> Option<Message> {
        let fresh = Message { va: p.va, rkey: p.rkey, remaining: p.dma_length.into() };
        let (length, mtu) = (p.payload.len() as u64, u64::from(qp.mtu));
        let (message, fits) = match (p.opcode, qp.message) {
            (0x06, None) => (fresh, length == mtu && length < fresh.remaining),
            (0x07, Some(old)) => (old, length == mtu && length < old.remaining),
            (0x08, Some(old)) => (old, (1..=mtu).contains(&length) && length == old.remaining),
            (0x0a, None) => (fresh, length <= mtu && length == fresh.remaining),
            _ => return None,
        };
        (fits && message.remaining <= 1 << 31).then_some(message)
    }

    /// 10.6.3 for the rest of the message. Gives the place of each byte of this packet.
    pub fn granted(&self, qp: &Responder, message: &Message, length: usize) -> Option<Vec<u64>> {
        if length == 0 {
            return Some(Vec::new());
        }
        let region = region(&self.regions, message.rkey, qp.pd)?;
        if !region.holds(message.va, message.remaining) {
            return None;
        }
        let place = |va: u64| Some(region.page(va)? * PAGE + va % PAGE);
        (0..length as u64).map(|i| place(message.va + i)).collect()
    }
}
