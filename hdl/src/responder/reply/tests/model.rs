// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must come of replies, QP by QP.

/// What an atomic does.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Add(u64),
    /// Compare with the first, store the second.
    Swap(u64, u64),
}

impl Operation {
    pub fn apply(self, word: u64) -> u64 {
        match self {
            Operation::Add(n) => word.wrapping_add(n),
            Operation::Swap(compare, swap) if word == compare => swap,
            Operation::Swap(..) => word,
        }
    }

    /// As a request carries them: compares, swap, compare.
    pub fn operands(self) -> (u8, u64, u64) {
        match self {
            Operation::Add(n) => (0, n, 0x1234),
            Operation::Swap(compare, swap) => (1, swap, compare),
        }
    }
}

/// A reply: an ACK has neither length nor operation nor data.
#[derive(Clone, Default)]
pub struct Expect {
    pub psn: u32,
    pub syndrome: u8,
    pub msn: u32,
    pub again: bool,
    /// And not granted any more: nothing must come of it.
    pub refused: bool,
    /// Of an atomic again: its answer is kept.
    pub known: bool,
    /// Of a READ the place in the QP's memory, of an atomic the bus address.
    pub at: u64,
    pub length: u32,
    pub data: Vec<u8>,
    pub operation: Option<Operation>,
    /// A READ of no bytes.
    pub empty: bool,
}

impl std::fmt::Debug for Expect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Expect { psn, syndrome, msn, again, known, length, operation, .. } = self;
        write!(f, "PSN {psn:#x}, AETH {syndrome:#x} {msn:#x}, {length} bytes, {operation:x?}, again {again} {known}")
    }
}

impl Expect {
    pub fn is_ack(&self) -> bool {
        self.operation.is_none() && !self.is_read()
    }

    pub fn is_read(&self) -> bool {
        self.operation.is_none() && (self.length > 0 || self.empty)
    }
}

/// A packet that came.
#[derive(Clone)]
pub struct Sent {
    pub qp: u32,
    pub life: usize,
    pub opcode: u8,
    pub psn: u32,
    pub syndrome: u8,
    pub msn: u32,
    pub original: u64,
    pub bytes: usize,
    pub lane: usize,
    pub payload: Vec<u8>,
    pub poisoned: bool,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sent { opcode, psn, syndrome, msn, bytes, .. } = self;
        write!(f, "opcode {opcode:#x}, PSN {psn:#x}, AETH {syndrome:#x} {msn:#x}, {bytes} bytes")
    }
}

impl Sent {
    pub fn is_response(&self) -> bool {
        (0x0d..=0x10).contains(&self.opcode)
    }
}

/// From the start of a QP to its end.
pub struct Life {
    pub psn: u32,
    pub msn: u32,
    pub mtu: u32,
    /// The QP's own word, when all its atomics are done.
    pub private: u64,
    pub expected: Vec<Expect>,
    /// A lookup was refused, a read failed.
    pub injected: [bool; 2],
    pub faults: u32,
    pub ending: bool,
    pub ended: bool,
}

impl Life {
    pub fn new(psn: u32, mtu: u32, private: u64) -> Life {
        Life {
            psn,
            msn: 0,
            mtu,
            private,
            expected: Vec::new(),
            injected: [false; 2],
            faults: 0,
            ending: false,
            ended: false,
        }
    }

    /// Holds what came against what had to come; gives how many repetitions were not answered, how many of them
    /// are atomics that are no longer known, and how many READs that may have come once more behind.
    pub fn check(&self, sent: &[&Sent]) -> Result<[u64; 3], String> {
        // The entry that is being answered, its packets that came, and the newest ACK that came.
        let (mut at, mut packets, mut newest, mut missing) = (0, 0, None, [0; 3]);
        // What answers a READ may have been taken for the answer of the same request before.
        let twin = |at: usize| {
            let is = |other: &Expect| other.is_read() && other.psn == self.expected[at].psn;
            is(&self.expected[at]) && self.expected[..at].iter().any(is)
        };
        let miss = |missing: &mut [u64; 3], at: usize| {
            let e = &self.expected[at];
            missing[0] += 1;
            missing[1] += u64::from(e.operation.is_some() && !e.known);
            missing[2] += u64::from(twin(at));
        };
        let needless = |missing: &mut [u64; 3], at: usize, packets: u32| {
            let unanswered = u64::from(self.expected[at].again && packets == 0);
            missing[0] += unanswered;
            missing[2] += unanswered;
        };
        let skip = |at: &mut usize| {
            while self.expected.get(*at).is_some_and(Expect::is_ack) {
                *at += 1;
            }
        };
        let all = sent.len();
        for (i, sent) in sent.iter().enumerate() {
            skip(&mut at);
            if sent.opcode == 0x11 && [0x62, 0x63].contains(&sent.syndrome) {
                // Where it failed. Repetitions before may not have been taken.
                while let Some(e) = self.expected.get(at) {
                    if !e.is_ack() && (e.psn + packets) % (1 << 24) == sent.psn {
                        break;
                    }
                    if self.comes_again(at, packets) {
                        packets = 0;
                    } else if !e.is_ack() && (!e.again || packets > 0) {
                        return Err(format!("a NAK for {:#x} at {e:?}, packet {packets}", sent.psn));
                    }
                    at += 1;
                }
                let cause = self.injected[usize::from(sent.syndrome == 0x63)];
                return match cause && i + 1 == all && self.faults == 1 {
                    true => Ok(missing),
                    false => Err(format!("{sent:?}, {i} of {all}, {} faults", self.faults)),
                };
            }
            if sent.opcode == 0x11 {
                let same = |e: &Expect| {
                    e.is_ack() && (e.psn, e.syndrome, e.msn) == (sent.psn, sent.syndrome, sent.msn)
                };
                let ack = self.expected.iter().position(same).ok_or(format!("nobody's ACK: {sent:?}"))?;
                if newest.is_some_and(|n| n >= ack) {
                    return Err(format!("ACK {ack} behind {newest:?}"));
                }
                while at < ack {
                    match &self.expected[at] {
                        e if e.is_ack() => {}
                        _ if self.comes_again(at, packets) => {
                            needless(&mut missing, at, packets);
                            packets = 0;
                        }
                        e if packets > 0 => return Err(format!("ACK {ack} within {e:?}, packet {packets}")),
                        e if e.again => miss(&mut missing, at),
                        e => return Err(format!("an ACK overtakes {e:?}")),
                    }
                    at += 1;
                }
                if self.expected[ack..at].iter().any(|e| !e.is_ack() && !e.again) {
                    return Err(format!("ACK {ack} comes late, behind {at}"));
                }
                if packets > 0 {
                    return Err(format!("ACK {ack} within {packets} packets"));
                }
                newest = Some(ack);
                continue;
            }
            loop {
                skip(&mut at);
                let e = self.expected.get(at).ok_or(format!("nobody's packet: {sent:?}"))?;
                match self.compare(e, packets, sent) {
                    Ok(whole) => {
                        packets = if whole { 0 } else { packets + 1 };
                        at += usize::from(whole);
                        break;
                    }
                    Err(_) if self.comes_again(at, packets) => {
                        needless(&mut missing, at, packets);
                        (at, packets) = (at + 1, 0);
                    }
                    Err(_) if e.again && packets == 0 => {
                        miss(&mut missing, at);
                        at += 1;
                    }
                    Err(why) => return Err(format!("{why}: {sent:x?} for {e:x?}, packet {packets}")),
                }
            }
        }
        if self.faults > 0 {
            return Err("a fault without a NAK".into());
        }
        if self.ending {
            return Ok(missing);
        }
        if self.injected[0] || self.injected[1] {
            return Err("a failure without a NAK".into());
        }
        // Nothing is left but repetitions; and the newest ACK came unless something new acknowledged as much.
        while let Some(e) = self.expected.get(at) {
            match e {
                e if e.is_ack() => {}
                _ if self.comes_again(at, packets) => {
                    needless(&mut missing, at, packets);
                    packets = 0;
                }
                e if e.again && packets == 0 => miss(&mut missing, at),
                e => return Err(format!("no answer for {e:?}")),
            }
            at += 1;
        }
        let ack = self.expected.iter().rposition(Expect::is_ack);
        let new = self.expected.iter().rposition(|e| !e.is_ack() && !e.again);
        if ack > new && newest != ack {
            return Err(format!("the last ACK is {newest:?}, not {ack:?}"));
        }
        Ok(missing)
    }

    /// Whether what is left of a READ, `packets` of which have come, comes once more: behind it are repetitions, from its
    /// next packet or an earlier one on to the newest request that had come before them.
    fn comes_again(&self, at: usize, packets: u32) -> bool {
        let reaches = |psn: u32, other: u32| psn.wrapping_sub(other) % (1 << 24) < 1 << 23;
        let e = &self.expected[at];
        let (mut started, mut newest) = (false, e.psn);
        for (behind, other) in self.expected.iter().enumerate().filter(|(_, e)| !e.is_ack()) {
            if !other.again {
                newest = other.psn;
            } else if behind > at {
                started |= reaches(e.psn + packets, other.psn);
                if started && reaches(other.psn, newest) {
                    return e.is_read();
                }
            }
        }
        false
    }

    /// Whether a packet is this one of an entry; gives whether the entry is whole with it.
    fn compare(&self, e: &Expect, packet: u32, sent: &Sent) -> Result<bool, &'static str> {
        let same = |ok: bool, what: &'static str| if ok { Ok(()) } else { Err(what) };
        let aeth = || same((sent.syndrome, sent.msn) == (e.syndrome, e.msn), "AETH");
        same(sent.psn == (e.psn + packet) % (1 << 24), "PSN")?;
        if e.operation.is_some() {
            same(sent.opcode == 0x12 && sent.bytes == 0, "opcode")?;
            same(!e.again || e.known, "an answer that must have been forgotten")?;
            aeth()?;
            return Ok(true);
        }
        let from = packet * self.mtu;
        let (first, last) = (packet == 0, e.length - from <= self.mtu);
        let opcode = [[0x0e, 0x0f], [0x0d, 0x10]][usize::from(first)][usize::from(last)];
        same(sent.opcode == opcode, "opcode")?;
        if first || last {
            aeth()?;
        }
        let to = e.length.min(from + self.mtu);
        same(sent.payload == e.data[from as usize..to as usize], "payload")?;
        Ok(last)
    }
}
