// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests know of a QP: its WQEs, and where their packets lie among the PSNs.

use super::{Opcode, SendOpcode, SendWqe};
use ferrowire_spec::wire::opcode::{Operation, Position, Service};

/// What can be sent.
pub const SENDS: [SendOpcode; 5] =
    [SendOpcode::Send, SendOpcode::SendImm, SendOpcode::SendInv, SendOpcode::Write, SendOpcode::WriteImm];

/// What is wrong with a WQE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    Read,
    Opcode,
    /// More than its slot holds.
    Large,
    Long,
}

#[derive(Clone, Debug)]
pub struct Posted {
    pub unit: SendWqe,
    /// Bytes of its SGEs.
    pub total: u64,
    pub bank: Option<u32>,
    pub fault: Option<Fault>,
}

impl Posted {
    pub fn length(&self) -> u64 {
        if self.unit.inline {
            self.unit.inline_len.into()
        } else {
            self.total
        }
    }

    /// The opcode of one of its packets.
    pub fn opcode(&self, first: bool, last: bool) -> Opcode {
        let sent = SENDS.into_iter().find(|sent| sent.code() == self.unit.opcode).unwrap();
        let position = match (first, last) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, false) => Position::Middle,
            (false, true) => Position::Last,
        };
        let write = matches!(sent, SendOpcode::Write | SendOpcode::WriteImm);
        let operation = if write { Operation::Write } else { Operation::Send };
        let immediate = last && matches!(sent, SendOpcode::SendImm | SendOpcode::WriteImm);
        let invalidate = last && sent == SendOpcode::SendInv;
        let fits = |opcode: &&Opcode| {
            let is = (opcode.service(), opcode.operation(), opcode.position());
            is == (Service::Rc, operation, position)
                && (opcode.has_immediate(), opcode.has_invalidate()) == (immediate, invalidate)
        };
        *Opcode::ALL.iter().find(fits).expect("every kind has its packets")
    }

    /// A bind or an invalidation.
    pub fn is_local(&self) -> bool {
        let codes = [SendOpcode::BindMw.code(), SendOpcode::LocalInv.code()];
        self.fault.is_none() && codes.contains(&self.unit.opcode)
    }

    /// It takes a window back: an invalidation, a bind of nothing, or one of a window of type 1. In a bind's place for its type and its
    /// bytes an atomic has other fields.
    pub fn withdraws(&self) -> bool {
        let mut bytes = [0; 64];
        self.unit.emit(&mut bytes).expect("a WQE");
        let nothing = bytes[24..32].iter().all(|byte| *byte == 0);
        let of_type_1 = bytes[21] & 1 == 1;
        self.is_local() && (self.unit.opcode == SendOpcode::LocalInv.code() || nothing || of_type_1)
    }

    /// A broken one takes one PSN, a bind or an invalidation none.
    pub fn packets(&self, mtu: u32) -> u32 {
        match self.fault {
            Some(_) => 1,
            None if self.is_local() => 0,
            None => self.length().div_ceil(mtu.into()).max(1) as u32,
        }
    }
}

/// A place among the packets of a QP.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Place {
    pub index: u16,
    pub first_psn: u32,
    pub psn: u32,
}

#[derive(Clone, Default)]
pub struct Qp {
    pub wqes: Vec<Posted>,
    /// PSN of the first packet of each, and of the one to come.
    pub psns: Vec<u32>,
    pub mtu: u32,
    pub sig_all: bool,
    /// What comes next.
    pub at: Place,
    /// The PSN that comes next for the first time.
    pub high: u32,
    pub held: bool,
    /// The index behind the newest that has come to its end once.
    pub begun: u16,
    /// The completer's.
    pub oldest: Place,
}

/// How far one PSN, or index, is ahead of another.
pub fn ahead(to: u32, from: u32) -> u32 {
    to.wrapping_sub(from) & 0xff_ffff
}

impl Qp {
    pub fn due(&self, index: u16, oldest: Place) -> bool {
        let at = if self.behind(oldest) { oldest.index } else { self.at.index };
        !self.held && at == index
    }

    /// The completer is further.
    pub fn behind(&self, oldest: Place) -> bool {
        self.at.index.wrapping_sub(oldest.index) >> 15 == 1
    }

    /// Nothing more may be begun.
    pub fn full(&self, oldest: Place) -> bool {
        !self.behind(oldest) && (1 << 22..1 << 23).contains(&ahead(self.at.psn, oldest.psn))
    }

    /// Where a PSN lies; of several WQEs that begin there, the last that the completer may have come to.
    pub fn place(&self, psn: u32) -> Place {
        let start = self.psns[0];
        let index = self.psns.partition_point(|first| ahead(*first, start) <= ahead(psn, start)) - 1;
        let index = index.min(self.begun.into());
        Place { index: index as u16, first_psn: self.psns[index], psn }
    }

    pub fn push(&mut self, wqe: Posted) -> u16 {
        let next = self.psns[self.wqes.len()] + wqe.packets(self.mtu);
        self.psns.push(next & 0xff_ffff);
        self.wqes.push(wqe);
        self.wqes.len() as u16 - 1
    }
}
