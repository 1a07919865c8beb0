// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Life`]: what a queue pair may make of the packets that it was sent, from RTR to RESET.
//!
//! ```text
//!  packet --> may it be executed in one of the states? --+--> the states behind it
//!                                                        +--> Effects: the writes, and answers, that it grants
//! ```
//!
//! A packet may be lost inside the card for want of room, or wait for a receive, so it is not known which packets were executed, but
//! which may have been: a state is an expected PSN and a message in progress, and each packet that its state takes leads to one more.
//! Answers say what is over: an acknowledgement ends all states before it. Nothing but the specification is asked (IBTA 9.7.4, 9.7.5).

use std::collections::{BTreeMap, HashSet};

use ferrowire_spec::wire::opcode::{Operation, Service};
use ferrowire_spec::wire::{Frame, Opcode};
use ferrowire_spec::Psn;

use super::ground::{Ground, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};

/// Longest message (IBTA 9.7.7).
const MAX_MESSAGE: u64 = 1 << 31;

/// A message of which packets are still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// None.
    None,
    /// A SEND, of which so many bytes have come.
    Send(u64),
    /// A WRITE: address, key, length of the whole, bytes that have come.
    Write(u64, u32, u64, u64),
}

/// Where a queue pair may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The PSN that it expects.
    pub psn: u32,
    /// The message in progress.
    pub progress: Progress,
}

/// What an atomic does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// It adds.
    Add(u64),
    /// It compares with the first, and stores the second.
    Swap(u64, u64),
}

impl Atomic {
    /// Whether it changes anything.
    pub fn writes(self, original: u64) -> bool {
        !matches!(self, Atomic::Swap(compare, _) if compare != original)
    }

    /// What is there afterwards.
    pub fn apply(self, original: u64) -> u64 {
        match self {
            Atomic::Add(value) => original.wrapping_add(value),
            Atomic::Swap(compare, swap) if original == compare => swap,
            Atomic::Swap(..) => original,
        }
    }
}

/// What a packet grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// These bytes at a place.
    Write(usize, usize, Vec<u8>),
    /// These bytes from that byte of a receive on.
    Send(u64, Vec<u8>),
    /// An atomic at a place.
    Atomic(usize, usize, Atomic),
    /// An answer of so many bytes of a place; an empty one has no place.
    Read(usize, usize, u64),
}

/// What a packet grants, and which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The packet's PSN.
    pub psn: u32,
    /// The key that it named.
    pub key: u32,
    /// That is gone: what was read before may still be on its way, and nothing more.
    pub void: bool,
    /// What.
    pub what: What,
}

/// The end of a message that takes a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Final {
    /// Its immediate.
    pub imm: Option<u32>,
    /// Its length.
    pub len: u64,
    /// It is a WRITE.
    pub write: bool,
    /// The key that it takes back.
    pub invalidated: Option<u32>,
    /// Queue pair that it names as its sender, of a datagram.
    pub source: Option<u32>,
}

/// A life of a queue pair.
#[derive(Clone, Debug)]
pub struct Life {
    /// Its number at the card.
    pub qpn: u32,
    /// Its peer's, which no other life has.
    pub own: u32,
    /// Its service.
    pub service: Service,
    /// The queue key of its datagrams.
    pub qkey: u32,
    /// It was sent packets that came marked by a switch.
    pub marked: bool,
    /// Protection domain, by number of the stage.
    pub pd: usize,
    /// What peers may do: bits of access.
    pub rights: u8,
    /// Path MTU.
    pub mtu: usize,
    /// IPv6.
    pub v6: bool,
    /// Where it may be; nowhere before RTR and after its end.
    pub states: HashSet<State>,
    /// PSNs that it may have expected, since all was settled: answers may be late.
    pub expected: HashSet<u32>,
    /// What its packets grant, since all was settled.
    pub effects: Vec<Effect>,
    /// Messages that may have taken a receive.
    pub finals: Vec<Final>,
    /// What atomics were answered with.
    pub answered: BTreeMap<u32, u64>,
    /// The newest PSN that was acknowledged.
    pub acked: Option<u32>,
    /// The PSN for which it had no receive, last.
    pub rnr: Option<u32>,
    /// A NAK that ends it: syndrome and PSN.
    pub fatal: Option<(u8, u32)>,
    /// Only late answers may still come.
    pub over: bool,
    /// What it was told to send; what is done may still be on its way, until all is settled.
    pub requests: Vec<Request>,
    /// How many of these are done.
    pub done: usize,
    /// PSNs that its peer has acknowledged, one way or another, some of them before they were sent.
    pub heard: Vec<u32>,
    /// Immediates that its receives brought, of raw frames their lengths, since all was settled.
    pub seen: Vec<u32>,
    /// Places of atomics that were executed since all was settled.
    pub touched: Vec<(usize, usize)>,
}

/// A request that a queue pair was told to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Comes back in the completion.
    pub id: u64,
    /// PSN of its first packet.
    pub first: u32,
    /// Where its bytes are.
    pub block: usize,
    /// The first of them.
    pub at: usize,
    /// How many.
    pub len: usize,
    /// It binds or takes back a window, and sends nothing.
    pub local: bool,
}

impl Request {
    /// Packets, at a path MTU.
    pub fn packets(&self, mtu: usize) -> u32 {
        if self.local {
            return 0;
        }
        self.len.div_ceil(mtu).max(1) as u32
    }
}

impl Life {
    /// One that has not begun.
    pub fn new(qpn: u32, own: u32, pd: usize, rights: u8, mtu: usize, v6: bool) -> Self {
        Self {
            qpn,
            own,
            service: Service::Rc,
            qkey: 0,
            marked: false,
            pd,
            rights,
            mtu,
            v6,
            states: HashSet::new(),
            expected: HashSet::new(),
            effects: Vec::new(),
            finals: Vec::new(),
            answered: BTreeMap::new(),
            acked: None,
            rnr: None,
            fatal: None,
            over: false,
            requests: Vec::new(),
            done: 0,
            heard: Vec::new(),
            seen: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// It answers, from that PSN on.
    pub fn begin(&mut self, psn: u32) {
        self.states.insert(State { psn, progress: Progress::None });
        self.expected.insert(psn);
    }

    /// It answers no more.
    pub fn end(&mut self) {
        self.states.clear();
        self.effects.clear();
        self.over = true;
    }

    /// Whether it may expect a PSN.
    pub fn may_expect(&self, psn: u32) -> bool {
        self.states.iter().any(|state| state.psn == psn)
    }

    /// Whether it has requests that are not done.
    pub fn waits(&self) -> bool {
        self.done < self.requests.len()
    }

    /// Whether it may have executed a PSN, or taken it for one that it had executed, since all was settled.
    pub fn may_have_done(&self, psn: u32) -> bool {
        self.expected.iter().any(|expected| Psn::new(psn).is_before(Psn::new(*expected)))
    }

    /// All before a PSN has been executed.
    pub fn prune(&mut self, expected: u32) {
        self.states.retain(|state| !Psn::new(state.psn).is_before(Psn::new(expected)));
    }

    /// Exactly this PSN is expected now.
    pub fn settle(&mut self, expected: u32) {
        self.states.retain(|state| state.psn == expected);
        self.expected = [expected].into();
        self.effects.clear();
    }

    /// Takes a packet that has passed all checks before the PSN's.
    pub fn take(&mut self, ground: &Ground, frame: &Frame<'_>, opcode: Opcode) {
        if opcode.service() != self.service || !opcode.is_request() {
            return;
        }
        if self.service != Service::Rc {
            return self.take_unanswered(ground, frame, opcode);
        }
        let psn = frame.bth.psn;
        let here: Vec<Progress> =
            self.states.iter().filter(|state| state.psn == psn).map(|state| state.progress).collect();
        for progress in here {
            if let Some((state, effect)) = self.execute(ground, frame, opcode, progress) {
                self.states.insert(state);
                self.expected.insert(state.psn);
                self.effects.extend(effect);
            }
        }
        // READs are executed again from the address and length that they carry, atomics are answered with what is kept (IBTA 9.7.5.1.4).
        if self.may_have_done(psn) && opcode.operation() == Operation::ReadRequest {
            let effect = self.read(ground, frame).map(|(_, effect)| effect);
            self.effects.extend(effect);
        }
    }

    pub(super) fn execute(
        &mut self,
        ground: &Ground,
        frame: &Frame<'_>,
        opcode: Opcode,
        progress: Progress,
    ) -> Option<(State, Option<Effect>)> {
        let (psn, position, bytes) = (frame.bth.psn, opcode.position(), frame.payload.len() as u64);
        let operation = opcode.operation();
        let fits = match progress {
            Progress::None => position.begins(),
            Progress::Send(_) => !position.begins() && operation == Operation::Send,
            Progress::Write(..) => !position.begins() && operation == Operation::Write,
        };
        if !fits || !opcode.payload().allows(frame.payload.len(), self.mtu) {
            return None;
        }
        let after = |packets: u32, progress| State { psn: Psn::new(psn).plus(packets).get(), progress };
        match operation {
            Operation::Send => {
                // Whatever other key it names is refused before anything happens.
                let invalidated = frame.ext.ieth.map(|h| h.rkey).filter(|_| opcode.has_invalidate());
                if invalidated.is_some_and(|key| !ground.may_invalidate(self.pd, self.qpn, key)) {
                    return None;
                }
                let received = if let Progress::Send(received) = progress { received } else { 0 };
                let what = What::Send(received, frame.payload.to_vec());
                let total = received + bytes;
                if position.ends() {
                    let imm = frame.ext.imm.map(|h| h.imm);
                    self.finals.push(Final { imm, len: total, write: false, invalidated, source: None });
                }
                let progress = if position.ends() { Progress::None } else { Progress::Send(total) };
                Some((after(1, progress), Some(Effect { psn, key: 0, void: false, what })))
            }
            Operation::Write => {
                let (va, key, len, received) = match progress {
                    Progress::Write(va, key, len, received) => (va, key, len, received),
                    _ => frame.ext.reth.map(|h| (h.va, h.rkey, h.len.into(), 0))?,
                };
                let total = received + bytes;
                let sum = if position.ends() { total == len } else { total < len };
                if self.rights & REMOTE_WRITE == 0 || !sum || len > MAX_MESSAGE {
                    return None;
                }
                // The whole of it must be granted before anything of it is written; nothing needs no right (IBTA 9.7.4.1.5).
                let effect = match len {
                    0 => None,
                    _ => {
                        let (block, at) = ground.granted((self.pd, self.qpn), key, va, len, REMOTE_WRITE)?;
                        let what = What::Write(block, at + received as usize, frame.payload.to_vec());
                        Some(Effect { psn, key, void: false, what })
                    }
                };
                if opcode.has_immediate() {
                    let imm = frame.ext.imm.map(|h| h.imm);
                    self.finals.push(Final { imm, len: total, write: true, invalidated: None, source: None });
                }
                let progress =
                    if position.ends() { Progress::None } else { Progress::Write(va, key, len, total) };
                Some((after(1, progress), effect))
            }
            Operation::ReadRequest => {
                let (packets, effect) = self.read(ground, frame)?;
                Some((after(packets, Progress::None), Some(effect)))
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let h = frame.ext.atomic?;
                if self.rights & REMOTE_ATOMIC == 0 || h.va % 8 != 0 {
                    return None;
                }
                let (block, at) = ground.granted((self.pd, self.qpn), h.rkey, h.va, 8, REMOTE_ATOMIC)?;
                let atomic = match operation {
                    Operation::FetchAdd => Atomic::Add(h.swap),
                    _ => Atomic::Swap(h.compare, h.swap),
                };
                let effect = Effect { psn, key: h.rkey, void: false, what: What::Atomic(block, at, atomic) };
                Some((after(1, Progress::None), Some(effect)))
            }
            _ => None,
        }
    }

    /// PSNs of a READ, and what it grants.
    fn read(&self, ground: &Ground, frame: &Frame<'_>) -> Option<(u32, Effect)> {
        let h = frame.ext.reth?;
        let len = u64::from(h.len);
        if self.rights & REMOTE_READ == 0 || len > MAX_MESSAGE {
            return None;
        }
        let (block, at) = match len {
            0 => (usize::MAX, 0),
            _ => ground.granted((self.pd, self.qpn), h.rkey, h.va, len, REMOTE_READ)?,
        };
        let packets = len.div_ceil(self.mtu as u64).max(1) as u32;
        Some((
            packets,
            Effect { psn: frame.bth.psn, key: h.rkey, void: false, what: What::Read(block, at, len) },
        ))
    }
}

#[cfg(test)]
mod tests {
    use ferrowire::HostMemory;
    use ferrowire_spec::wire::{Bth, Extensions, Reth};

    use super::super::ground::Region;
    use super::*;

    const KEY: u32 = 0x1234;

    fn ground() -> Ground {
        let mut ground = Ground::default();
        let block = ground.add(&HostMemory::zeroed(4096, 4096).unwrap());
        let rights = REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
        let region =
            Region { block, at: 0, len: 2000, va: 0x8000, key: KEY, pd: 0, rights, dead: false, owner: None };
        ground.regions.push(region);
        ground
    }

    fn life() -> Life {
        let mut life = Life::new(5, 9, 0, REMOTE_WRITE | REMOTE_READ, 256, false);
        life.begin(0xff_ffff);
        life
    }

    fn give(life: &mut Life, psn: u32, opcode: Opcode, reth: Option<Reth>, payload: &[u8]) {
        let bth = Bth { opcode: opcode as u8, psn, ..Bth::default() };
        let ext = Extensions { reth, ..Extensions::default() };
        life.take(&ground(), &Frame { bth, ext, payload, ..Frame::default() }, opcode);
    }

    fn reth(va: u64, len: u32) -> Option<Reth> {
        Some(Reth { va, rkey: KEY, len })
    }

    #[test]
    fn a_message_grants_its_bytes_packet_by_packet_and_only_in_sequence() {
        let mut life = life();
        give(&mut life, 1, Opcode::RcWriteOnly, reth(0x8000, 4), &[1; 4]);
        assert!(life.effects.is_empty(), "it is ahead");
        give(&mut life, 0xff_ffff, Opcode::RcWriteFirst, reth(0x8010, 300), &[2; 256]);
        give(&mut life, 0, Opcode::RcWriteLast, None, &[3; 43]);
        assert_eq!(life.effects.len(), 1, "the sum is wrong");
        give(&mut life, 0, Opcode::RcSendLast, None, &[3; 44]);
        assert_eq!(life.effects.len(), 1, "it is another operation");
        give(&mut life, 0, Opcode::RcWriteLast, None, &[3; 44]);
        assert_eq!(life.effects[1].what, What::Write(0, 0x10 + 256, vec![3; 44]));
        assert!(life.may_expect(1) && life.may_expect(0) && !life.may_expect(2));
        life.prune(1);
        assert!(!life.may_expect(0));
        let before = life.effects.len();
        give(&mut life, 0, Opcode::RcWriteLast, None, &[3; 44]);
        assert_eq!(life.effects.len(), before, "it has been acknowledged");
    }

    #[test]
    fn a_message_that_leaves_its_region_at_the_end_grants_nothing_at_all() {
        let mut life = life();
        give(&mut life, 0xff_ffff, Opcode::RcWriteFirst, reth(0x8000 + 1701, 300), &[2; 256]);
        assert!(life.effects.is_empty() && !life.may_expect(0));
        give(&mut life, 0xff_ffff, Opcode::RcFetchAdd, None, &[]);
        assert!(life.effects.is_empty());
    }

    #[test]
    fn reads_take_a_psn_for_each_response_and_may_come_again() {
        let mut life = life();
        give(&mut life, 0xff_ffff, Opcode::RcReadRequest, reth(0x8000, 600), &[]);
        assert!(life.may_expect(2) && !life.may_expect(0));
        life.settle(2);
        give(&mut life, 0, Opcode::RcReadRequest, reth(0x8100, 1000), &[]);
        assert_eq!(
            life.effects,
            [Effect { psn: 0, key: KEY, void: false, what: What::Read(0, 0x100, 1000) }]
        );
        give(&mut life, 7, Opcode::RcReadRequest, reth(0x8100, 10), &[]);
        assert_eq!(life.effects.len(), 1);
    }
}
