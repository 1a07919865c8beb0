// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Attacker`]: makes hostile packets, one after the other, out of what it knows and hears. It does no IO.
//!
//! ```text
//!   Sight: queue pairs, keys, old keys   ---+
//!   hear: what the card answers ------------+--> next: a packet good, forged, out of sequence, mangled, unasked for ...
//!   mood: what it likes to do ------------- +
//! ```
//!
//! It knows everything that a peer can know, and more: so its packets come far. Those that a queue pair must refuse end it, and the
//! others then only meet a closed door; so each live queue pair is spared after the first of these.

use std::collections::VecDeque;

use ferrowire_spec::wire::syndrome::Syndrome;
use ferrowire_spec::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Deth, Extensions, Frame, Ieth, ImmDt, Ip, Opcode, Reth,
};
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, RngCore, SeedableRng};

use super::forge::{damage, ip_between, mac_number, Packet, CARD, DAMAGES, FOE, FRIEND};
use super::ground::{REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE};

/// A queue pair, as it is attacked.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Its number.
    pub qpn: u32,
    /// The number that it believes to be its peer's.
    pub own: u32,
    /// IPv6.
    pub v6: bool,
    /// Path MTU.
    pub mtu: usize,
    /// Domain, by number of the stage.
    pub pd: usize,
    /// What peers may do.
    pub rights: u8,
    /// It answers.
    pub alive: bool,
    /// It was sent something that it must refuse.
    pub doomed: bool,
    /// The PSN that it expects, as far as is known.
    pub expect: u32,
    /// READs and atomics it takes.
    pub reads: usize,
    /// PSN of the newest request that it has sent itself.
    pub asked: Option<u32>,
    /// Its requests are acknowledged as they should be.
    pub kind: bool,
    /// It was asked to wait for long.
    pub stalled: bool,
    /// READs and atomics that were sent: opcode, PSN, address, key, length.
    past: VecDeque<(Opcode, u32, u64, u32, u32)>,
}

impl Mark {
    /// One that does not answer yet.
    pub fn new(qpn: u32, own: u32, v6: bool, mtu: usize, pd: usize, rights: u8, reads: usize) -> Self {
        Self {
            qpn,
            own,
            v6,
            mtu,
            pd,
            rights,
            alive: false,
            doomed: false,
            expect: 0,
            reads,
            asked: None,
            kind: false,
            stalled: false,
            past: VecDeque::new(),
        }
    }
}

/// A key, as it is attacked.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key.
    pub key: u32,
    /// Domain.
    pub pd: usize,
    /// Rights.
    pub rights: u8,
    /// First address.
    pub va: u64,
    /// Bytes.
    pub len: u64,
    /// It was given back.
    pub dead: bool,
}

/// A queue pair that is not attacked, and what the attacker has overheard of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Innocent {
    /// Its number.
    pub qpn: u32,
    /// Its peer's.
    pub peer: u32,
    /// PSN of the newest request that it has sent.
    pub asked: u32,
    /// PSN behind the newest request that it was sent.
    pub expect: u32,
}

/// What the attacker knows.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Queue pairs that may be attacked.
    pub marks: Vec<Mark>,
    /// Keys, old ones too.
    pub keys: Vec<Key>,
    /// Queue pairs that may only be sent what is not from their peer.
    pub innocents: Vec<Innocent>,
    /// Queue pairs of the card; those from there on do not exist.
    pub qps: u32,
    /// IPv6 of the innocents.
    pub v6: bool,
    /// Keys of the card.
    pub key_count: u32,
    /// Packets for another address, in the name of the peer, are among those that are sent.
    pub strict: bool,
}

/// A packet of the attacker.
#[derive(Clone, Debug)]
pub struct Shot {
    /// The frame.
    pub bytes: Vec<u8>,
    /// What it is.
    pub what: &'static str,
}

/// What it does, by weight: the columns of [`MOODS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Good,
    Keys,
    Psns,
    Opcodes,
    Lengths,
    Mangled,
    Answers,
    Reads,
    Tiny,
    Absent,
    Spoof,
}

use Way as W;
const WAYS: [Way; 11] = [
    W::Good,
    W::Keys,
    W::Psns,
    W::Opcodes,
    W::Lengths,
    W::Mangled,
    W::Answers,
    W::Reads,
    W::Tiny,
    W::Absent,
    W::Spoof,
];

/// A burst is of one mood: its name, and how often each of [`WAYS`] is gone.
pub const MOODS: [(&str, [u32; 11]); 9] = [
    ("all at once", [30, 8, 14, 6, 6, 14, 12, 4, 4, 2, 8]),
    ("forged keys", [40, 40, 8, 0, 0, 4, 4, 4, 0, 0, 4]),
    ("sequence numbers", [35, 2, 50, 3, 0, 2, 4, 4, 0, 0, 2]),
    ("opcodes and lengths", [30, 0, 6, 30, 30, 4, 0, 0, 0, 0, 4]),
    ("mangled frames", [12, 0, 2, 2, 2, 70, 2, 0, 0, 2, 10]),
    ("answers nobody asked for", [10, 0, 4, 0, 0, 4, 80, 0, 0, 0, 4]),
    ("a flood of READs", [6, 1, 6, 0, 0, 2, 2, 80, 0, 0, 4]),
    ("a flood of tiny packets", [4, 1, 4, 1, 1, 4, 10, 4, 70, 10, 10]),
    ("a flood to nobody", [4, 0, 2, 0, 0, 10, 4, 0, 4, 70, 20]),
];

/// Makes hostile packets.
pub struct Attacker {
    rng: SmallRng,
    weights: [u32; 11],
    /// Packets of a message that is under way.
    pending: VecDeque<Shot>,
}

impl Attacker {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), weights: MOODS[0].1, pending: VecDeque::new() }
    }

    /// Begins a burst; its mood.
    pub fn begin(&mut self) -> &'static str {
        let at = if self.rng.random_bool(0.3) { 0 } else { self.rng.random_range(0..MOODS.len()) };
        self.weights = MOODS[at].1;
        MOODS[at].0
    }

    /// Takes note of a frame that the card has sent.
    pub fn hear(&mut self, sight: &mut Sight, frame: &Frame<'_>, opcode: Opcode) {
        let Some(mark) = sight.marks.iter_mut().find(|mark| mark.own == frame.bth.destqp) else { return };
        if opcode.is_request() {
            mark.asked = Some(frame.bth.psn);
            return;
        }
        if let Some(aeth) = frame.ext.aeth {
            match aeth.syndrome {
                0x60 => mark.expect = frame.bth.psn,
                0x61..=0x63 => mark.alive = false,
                0x20..=0x3f => mark.expect = frame.bth.psn,
                _ => {
                    let next = Psn::new(frame.bth.psn).next();
                    if Psn::new(mark.expect).is_before(next) {
                        mark.expect = next.get();
                    }
                }
            }
        }
    }

    /// The next packet.
    pub fn next(&mut self, sight: &mut Sight) -> Shot {
        if !self.pending.is_empty() && self.rng.random_bool(0.92) {
            if let Some(shot) = self.pending.pop_front() {
                return shot;
            }
        }
        loop {
            let mut at = self.rng.random_range(0..self.weights.iter().sum());
            let way = WAYS.iter().zip(self.weights).find(|(_, weight)| {
                let here = at < *weight;
                at = at.wrapping_sub(*weight);
                here
            });
            let shot = match way.map_or(Way::Tiny, |(way, _)| *way) {
                Way::Good => self.good(sight),
                Way::Keys => self.keys(sight),
                Way::Psns => self.psns(sight),
                Way::Opcodes => self.opcodes(sight),
                Way::Lengths => self.lengths(sight),
                Way::Mangled => self.mangled(sight),
                Way::Answers => self.answers(sight),
                Way::Reads => self.reads(sight),
                Way::Tiny => self.tiny(sight),
                Way::Absent => self.absent(sight),
                Way::Spoof => self.spoof(sight),
            };
            if let Some(shot) = shot.filter(|shot| !shot.bytes.is_empty()) {
                return shot;
            }
            if let Some(shot) = self.absent(sight) {
                if self.rng.random_bool(0.2) {
                    return shot;
                }
            }
        }
    }

    /// A queue pair: as a rule one that is not lost yet.
    fn pick(&mut self, sight: &Sight, rights: u8) -> Option<usize> {
        let any = self.rng.random_bool(0.06);
        let fits = |mark: &Mark| any || mark.alive && !mark.doomed && mark.rights & rights == rights;
        let all: Vec<usize> = (0..sight.marks.len()).filter(|i| fits(&sight.marks[*i])).collect();
        all.choose(&mut self.rng).copied()
    }

    fn key(&mut self, sight: &Sight, pd: usize, right: u8, len: u64) -> Option<Key> {
        let fits = |key: &&Key| !key.dead && key.pd == pd && key.rights & right == right && key.len >= len;
        let all: Vec<&Key> = sight.keys.iter().filter(fits).collect();
        all.choose(&mut self.rng).map(|key| **key)
    }

    fn bth(&mut self, mark: &Mark, opcode: u8, psn: u32) -> Bth {
        Bth {
            opcode,
            psn: psn & 0xff_ffff,
            destqp: mark.qpn,
            pkey: 0xffff,
            ackreq: self.rng.random_bool(0.5),
            se: self.rng.random_bool(0.1),
            migreq: self.rng.random(),
            ..Bth::default()
        }
    }

    fn packet(&mut self, mark: &Mark, opcode: Opcode, psn: u32, ext: &Extensions, payload: &[u8]) -> Packet {
        let bth = self.bth(mark, opcode as u8, psn);
        Packet::new(mark.v6, bth).with(ext, payload)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    fn length(&mut self, mtu: usize) -> usize {
        match self.rng.random_range(0..8) {
            0 => 0,
            1..=4 => self.rng.random_range(1..=64),
            5 => mtu * self.rng.random_range(1..=3),
            _ => self.rng.random_range(1..=3 * mtu),
        }
    }

    /// Extension headers for an opcode, with that address.
    fn ext(&mut self, opcode: Opcode, va: u64, rkey: u32, len: u32) -> Extensions {
        use ferrowire_spec::wire::opcode::Ext as E;
        let rng = &mut self.rng;
        Extensions {
            deth: opcode.has(E::Deth).then(|| Deth { qkey: rng.random(), ..Deth::default() }),
            reth: opcode.has(E::Reth).then_some(Reth { va, rkey, len }),
            atomic: opcode.has(E::AtomicEth).then(|| {
                let small = rng.random_bool(0.5);
                let compare = if small { rng.random_range(0..4) } else { rng.random() };
                AtomicEth { va, rkey, swap: rng.random(), compare }
            }),
            aeth: opcode
                .has(E::Aeth)
                .then(|| Aeth { syndrome: rng.random(), msn: rng.random_range(0..1 << 24) }),
            atomic_ack: opcode.has(E::AtomicAckEth).then(|| AtomicAckEth { orig: rng.random() }),
            imm: opcode.has(E::ImmDt).then(|| ImmDt { imm: rng.random() }),
            ieth: opcode.has(E::Ieth).then_some(Ieth { rkey }),
            cnp: opcode.has(E::Cnp).then(Cnp::default),
        }
    }

    /// A message as it should be, for a queue pair and from the PSN that it expects: so that there is something to disturb.
    fn good(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let verb = self.rng.random_range(0..5);
        let right = [REMOTE_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC, 0][verb];
        if mark.rights & right != right {
            return None;
        }
        let len = if verb == 3 { 8 } else { self.length(mark.mtu) };
        let key = match right {
            0 => None,
            _ => Some(self.key(sight, mark.pd, right, len as u64)?),
        };
        let (va, rkey) = match key {
            Some(key) => {
                let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - len as u64));
                (if verb == 3 { va & !7 } else { va }, key.key)
            }
            None => (0, 0),
        };
        if key.is_some_and(|key| va < key.va) {
            return None;
        }
        let imm = self.rng.random_bool(0.2);
        let mark = &mut sight.marks[at];
        let first = mark.expect;
        let opcode = match verb {
            2 => Opcode::RcReadRequest,
            3 if imm => Opcode::RcCompareSwap,
            3 => Opcode::RcFetchAdd,
            _ => {
                let before = mark.clone();
                let count = len.div_ceil(mark.mtu).max(1);
                mark.expect = Psn::new(first).plus(count as u32).get();
                self.message(&before, (va, rkey), len, verb < 2, imm);
                return self.pending.pop_front();
            }
        };
        let packets = if verb == 2 { len.div_ceil(mark.mtu).max(1) } else { 1 };
        mark.expect = Psn::new(first).plus(packets as u32).get();
        mark.past.push_back((opcode, first, va, rkey, len as u32));
        if mark.past.len() > 24 {
            mark.past.pop_front();
        }
        let mark = mark.clone();
        let ext = self.ext(opcode, va, rkey, len as u32);
        let bytes = self.packet(&mark, opcode, first, &ext, &[]).frame();
        Some(Shot { bytes, what: "good" })
    }

    /// Queues the packets of a WRITE or SEND.
    fn message(&mut self, mark: &Mark, (va, rkey): (u64, u32), len: usize, write: bool, imm: bool) {
        use Opcode as O;
        let (first, count) = (mark.expect, len.div_ceil(mark.mtu).max(1));
        for i in 0..count {
            let opcode = match (write, i == 0, i + 1 == count, imm) {
                (true, true, true, false) => O::RcWriteOnly,
                (true, true, true, true) => O::RcWriteOnlyImm,
                (true, true, false, _) => O::RcWriteFirst,
                (true, false, true, false) => O::RcWriteLast,
                (true, false, true, true) => O::RcWriteLastImm,
                (true, false, false, _) => O::RcWriteMiddle,
                (false, true, true, false) => O::RcSendOnly,
                (false, true, true, true) => O::RcSendOnlyImm,
                (false, true, false, _) => O::RcSendFirst,
                (false, false, true, false) => O::RcSendLast,
                (false, false, true, true) => O::RcSendLastImm,
                (false, false, false, _) => O::RcSendMiddle,
            };
            let ext = self.ext(opcode, va, rkey, len as u32);
            let payload = self.bytes((len - i * mark.mtu).min(mark.mtu));
            let bytes = self.packet(mark, opcode, first.wrapping_add(i as u32), &ext, &payload).frame();
            self.pending.push_back(Shot { bytes, what: "good" });
        }
    }

    /// A request in sequence whose key, address or length is not granted.
    fn keys(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let opcodes = [
            Opcode::RcWriteOnly,
            Opcode::RcWriteFirst,
            Opcode::RcReadRequest,
            Opcode::RcFetchAdd,
            Opcode::RcCompareSwap,
            Opcode::RcSendOnlyInv,
        ];
        let opcode = *opcodes.choose(&mut self.rng)?;
        let key = *sight.keys.choose(&mut self.rng)?;
        let mark = sight.marks[at].clone();
        let len = self.rng.random_range(1..=64u64).min(key.len);
        let inside = key.va.wrapping_add(self.rng.random_range(0..=key.len - len));
        let end = key.va.wrapping_add(key.len);
        let rng = &mut self.rng;
        let (va, rkey, len) = match rng.random_range(0..13) {
            0 => (inside, key.key ^ 1 << rng.random_range(0..8), len),
            1 => (inside, key.key & !0xff | rng.random_range(0..256), len),
            2 => (inside, key.key ^ 0x100 << rng.random_range(0..8), len),
            3 => (inside, rng.random(), len),
            4 => (inside, (sight.key_count + rng.random_range(0..4)) << 8 | key.key & 0xff, len),
            5 => (key.va.wrapping_sub(1), key.key, len),
            6 => (end.wrapping_sub(len).wrapping_add(1), key.key, len),
            7 => (end, key.key, len),
            8 => (u64::MAX - rng.random_range(0..len), key.key, len),
            9 => (inside, key.key, key.len + rng.random_range(1..10)),
            10 => {
                (inside, key.key, [1 << 31, (1 << 31) + 1, u32::MAX.into(), 1 << 24][rng.random_range(0..4)])
            }
            // Nothing of nowhere is granted to everybody.
            11 => (rng.random(), rng.random(), 0),
            _ => (inside, key.key, len),
        };
        let payload = match opcode {
            Opcode::RcWriteOnly => self.bytes(len.min(mark.mtu as u64) as usize),
            Opcode::RcWriteFirst => self.bytes(mark.mtu),
            Opcode::RcSendOnlyInv => self.bytes(8),
            _ => Vec::new(),
        };
        let ext = self.ext(opcode, va, rkey, len.min(u32::MAX.into()) as u32);
        let bytes = self.packet(&mark, opcode, mark.expect, &ext, &payload).frame();
        sight.marks[at].doomed = true;
        Some(Shot { bytes, what: "forged key" })
    }

    /// What would be granted, at PSNs where it is not, and what was there before, changed.
    fn psns(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let old = mark.past.iter().copied().collect::<Vec<_>>().choose(&mut self.rng).copied();
        if let Some((opcode, psn, va, rkey, len)) = old.filter(|_| self.rng.random_bool(0.5)) {
            // A copy, or a tail, or more than before, or something else altogether.
            let rng = &mut self.rng;
            let (psn, va, len) = match (opcode, rng.random_range(0..4)) {
                (Opcode::RcReadRequest, 0) => (psn, va, len.saturating_add(rng.random_range(1..5000))),
                (Opcode::RcReadRequest, 1) if len as usize > mark.mtu => {
                    (psn + 1, va.wrapping_add(mark.mtu as u64), len - mark.mtu as u32)
                }
                (_, 2) => (psn.wrapping_add(rng.random_range(0..3)), va, len),
                _ => (psn, va, len),
            };
            let key = if self.rng.random_bool(0.1) { rkey ^ 1 } else { rkey };
            let ext = self.ext(opcode, va, key, len);
            let bytes = self.packet(&mark, opcode, psn, &ext, &[]).frame();
            return Some(Shot { bytes, what: "duplicate READ or atomic" });
        }
        let rng = &mut self.rng;
        let psn = match rng.random_range(0..8) {
            0 => rng.random(),
            1 | 2 => mark.expect.wrapping_sub(rng.random_range(1..20)),
            3 | 4 => mark.expect.wrapping_add(rng.random_range(1..20)),
            5 => mark.expect.wrapping_add((1 << 23) - rng.random_range(0..3)),
            6 => mark.expect.wrapping_sub((1 << 23) - rng.random_range(0..3)),
            _ => mark.expect.wrapping_add(1 << 23),
        };
        let opcodes = [
            Opcode::RcWriteOnly,
            Opcode::RcSendOnly,
            Opcode::RcReadRequest,
            Opcode::RcFetchAdd,
            Opcode::RcWriteMiddle,
            Opcode::RcSendLast,
        ];
        let opcode = *opcodes.choose(&mut self.rng)?;
        let right = match opcode {
            Opcode::RcReadRequest => REMOTE_READ,
            Opcode::RcFetchAdd => REMOTE_ATOMIC,
            _ => REMOTE_WRITE,
        };
        let len = self.rng.random_range(1..=100usize);
        let key = self.key(sight, mark.pd, right, 108)?;
        let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - 108)) & !7;
        let payload = match opcode {
            Opcode::RcWriteMiddle => self.bytes(mark.mtu),
            Opcode::RcReadRequest | Opcode::RcFetchAdd => Vec::new(),
            _ => self.bytes(len),
        };
        let ext = self.ext(opcode, va, key.key, len as u32);
        let bytes = self.packet(&mark, opcode, psn, &ext, &payload).frame();
        Some(Shot { bytes, what: "PSN" })
    }

    /// Any of the 256 opcodes, in sequence or not.
    fn opcodes(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let code = if self.rng.random_bool(0.4) { self.rng.random_range(0..0x18) } else { self.rng.random() };
        let key = *sight.keys.choose(&mut self.rng)?;
        let psn = if self.rng.random_bool(0.8) { mark.expect } else { self.rng.random() };
        let bth = self.bth(&mark, code, psn);
        let len = self.length(mark.mtu).min(mark.mtu);
        let packet = Packet::new(mark.v6, bth);
        let packet = match Opcode::from_code(code) {
            Some(opcode) => {
                let ext = self.ext(opcode, key.va, key.key, len as u32);
                let payload = match opcode.payload() {
                    ferrowire_spec::wire::opcode::PayloadRule::None => Vec::new(),
                    ferrowire_spec::wire::opcode::PayloadRule::Mtu => self.bytes(mark.mtu),
                    _ => self.bytes(len),
                };
                packet.with(&ext, &payload)
            }
            None => {
                let body = self.bytes(len & !3);
                Packet { body, ..packet }
            }
        };
        sight.marks[at].doomed |= code < 0x20;
        Some(Shot { bytes: packet.frame(), what: "opcode" })
    }

    /// Lengths that contradict each other, in sequence.
    fn lengths(&mut self, sight: &mut Sight) -> Option<Shot> {
        use Opcode as O;
        let at = self.pick(sight, REMOTE_WRITE)?;
        let mark = sight.marks[at].clone();
        let key = self.key(sight, mark.pd, REMOTE_WRITE, 256)?;
        let (mtu, rng) = (mark.mtu, &mut self.rng);
        // Opcode, bytes of payload, what the RETH says, PSN.
        let (opcode, bytes, len) = match rng.random_range(0..12) {
            0 => (O::RcWriteOnly, 100, 99),
            1 => (O::RcWriteOnly, 100, 101),
            2 => (O::RcWriteOnly, mtu + 4, mtu + 4),
            3 => (O::RcSendOnly, mtu + rng.random_range(1..64), 0),
            4 => (O::RcWriteFirst, mtu - rng.random_range(1..mtu), mtu + 9),
            5 => (O::RcWriteFirst, mtu, mtu),
            6 => (O::RcWriteFirst, mtu, rng.random_range(0..mtu)),
            7 => (O::RcSendFirst, 0, 0),
            8 => (O::RcSendMiddle, 0, 0),
            9 => (O::RcWriteMiddle, 0, 0),
            10 => (O::RcSendLast, 0, 0),
            _ => (O::RcReadRequest, rng.random_range(1..64), 64),
        };
        let spoilt = self.rng.random_bool(0.25);
        let payload = self.bytes(bytes);
        let ext = self.ext(opcode, key.va, key.key, len as u32);
        let mut packet = self.packet(&mark, opcode, mark.expect, &ext, &payload);
        if spoilt {
            // The pad says something else, or there are too many or too few bytes for it.
            match self.rng.random_range(0..3) {
                0 => packet.bth.pad = (packet.bth.pad + self.rng.random_range(1..4)) & 3,
                1 => packet
                    .body
                    .truncate(packet.body.len() - packet.body.len().min(self.rng.random_range(1..4))),
                _ => packet.body.resize(packet.body.len() + self.rng.random_range(1..8), 0x77),
            }
        }
        sight.marks[at].doomed = true;
        Some(Shot { bytes: packet.frame(), what: "length" })
    }

    /// A good packet, damaged.
    fn mangled(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, REMOTE_WRITE)?;
        let mark = sight.marks[at].clone();
        let len = self.rng.random_range(0..=mark.mtu.min(100));
        let key = self.key(sight, mark.pd, REMOTE_WRITE, len as u64)?;
        let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - len as u64));
        let opcode = if self.rng.random_bool(0.5) { Opcode::RcWriteOnly } else { Opcode::RcReadRequest };
        let payload = if opcode == Opcode::RcWriteOnly { self.bytes(len) } else { Vec::new() };
        let ext = self.ext(opcode, va, key.key, len as u32);
        let bytes = self.packet(&mark, opcode, mark.expect, &ext, &payload).frame();
        let which = self.rng.random_range(0..DAMAGES);
        let (what, bytes) = damage(&mut self.rng, which, bytes);
        sight.marks[at].doomed |= what == "bits of the transport";
        Some(Shot { bytes, what })
    }

    /// What only who has asked should get.
    fn answers(&mut self, sight: &mut Sight) -> Option<Shot> {
        use Opcode as O;
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let rng = &mut self.rng;
        let near = mark.asked.unwrap_or(mark.expect);
        let psn = match rng.random_range(0..10) {
            0..=5 => near.wrapping_sub(rng.random_range(0..4)),
            6 | 7 => near.wrapping_add(rng.random_range(1..9)),
            8 => near.wrapping_add(1 << 23),
            _ => rng.random(),
        };
        let (opcode, syndrome, what) = match rng.random_range(0..16) {
            0..=2 => {
                let timer =
                    if rng.random_bool(0.01) { rng.random_range(0..32) } else { rng.random_range(1..=8) };
                sight.marks[at].stalled |= timer == 0 || timer > 8;
                (O::RcAcknowledge, Syndrome::Rnr { timer }.encode(), "RNR NAK")
            }
            3 | 4 => (O::RcAcknowledge, 0x60, "sequence NAK"),
            // These end its requests.
            5 if rng.random_bool(0.2) => (O::RcAcknowledge, rng.random_range(0x61..0x64), "NAK"),
            6 => (O::RcAcknowledge, rng.random_range(0x64..0x80), "reserved NAK"),
            7 => (O::RcAcknowledge, rng.random_range(0x80..=0xff), "reserved syndrome"),
            8 => (O::RcAcknowledge, 0x40 | rng.random_range(0..32), "reserved syndrome"),
            9 => (O::RcReadResponseOnly, 0x1f, "READ response"),
            10 => (O::RcReadResponseFirst, 0x1f, "READ response"),
            11 => (O::RcReadResponseMiddle, 0x1f, "READ response"),
            12 => (O::RcReadResponseLast, 0x1f, "READ response"),
            13 => (O::RcAtomicAcknowledge, 0x1f, "atomic acknowledgement"),
            14 => (O::Cnp, 0, "CNP"),
            _ => (O::RcAcknowledge, rng.random_range(0..32), "ACK"),
        };
        let mut ext = self.ext(opcode, 0, 0, 0);
        if let Some(aeth) = &mut ext.aeth {
            aeth.syndrome = syndrome;
        }
        let len = match opcode {
            O::RcReadResponseFirst | O::RcReadResponseMiddle => mark.mtu,
            O::RcReadResponseOnly | O::RcReadResponseLast => self.rng.random_range(1..=mark.mtu),
            _ => 0,
        };
        let payload = self.bytes(len);
        let mut packet = self.packet(&mark, opcode, psn, &ext, &payload);
        packet.bth.becn = opcode == O::Cnp;
        Some(Shot { bytes: packet.frame(), what })
    }

    /// READs and atomics, more than may be outstanding.
    fn reads(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, REMOTE_READ)?;
        let many = self.rng.random_bool(0.05);
        if self.rng.random_bool(0.3) && !many {
            return self.psns(sight);
        }
        let mark = sight.marks[at].clone();
        let len = if self.rng.random_bool(0.1) { 3 * mark.mtu } else { self.rng.random_range(1..64) };
        let key = self.key(sight, mark.pd, REMOTE_READ, len as u64)?;
        let count = if many { mark.reads + 2 } else { self.rng.random_range(1..=mark.reads.clamp(1, 4)) };
        let mut psn = mark.expect;
        for _ in 0..count {
            let va = key.va.wrapping_add(self.rng.random_range(0..=key.len - len as u64));
            let ext = self.ext(Opcode::RcReadRequest, va, key.key, len as u32);
            let bytes = self.packet(&mark, Opcode::RcReadRequest, psn, &ext, &[]).frame();
            self.pending.push_back(Shot { bytes, what: "flood of READs" });
            sight.marks[at].past.push_back((Opcode::RcReadRequest, psn, va, key.key, len as u32));
            psn = Psn::new(psn).plus(len.div_ceil(mark.mtu) as u32).get();
        }
        let mark = &mut sight.marks[at];
        mark.past.truncate(24);
        mark.expect = psn;
        mark.doomed |= many;
        self.pending.pop_front()
    }

    /// The smallest packets that there are.
    fn tiny(&mut self, sight: &mut Sight) -> Option<Shot> {
        let at = self.pick(sight, 0)?;
        let mark = sight.marks[at].clone();
        let behind = mark.expect.wrapping_sub(1);
        let (opcode, psn) = match self.rng.random_range(0..4) {
            0 => (Opcode::RcWriteOnly, mark.expect),
            1 => (Opcode::RcWriteOnly, behind),
            2 => (Opcode::RcSendOnly, behind),
            _ => (Opcode::RcAcknowledge, behind),
        };
        if psn == mark.expect && mark.rights & REMOTE_WRITE != 0 {
            sight.marks[at].expect = Psn::new(psn).next().get();
        }
        let mut ext = self.ext(opcode, 0, 0, 0);
        if let Some(aeth) = &mut ext.aeth {
            aeth.syndrome = 0x1f;
        }
        let bytes = self.packet(&mark, opcode, psn, &ext, &[]).frame();
        Some(Shot { bytes, what: "flood of tiny packets" })
    }

    /// To a queue pair that there is not.
    fn absent(&mut self, sight: &mut Sight) -> Option<Shot> {
        let v6 = self.rng.random_bool(0.3);
        let qpn = if self.rng.random_bool(0.5) {
            sight.qps + self.rng.random_range(0..4)
        } else {
            self.rng.random_range(sight.qps..1 << 24)
        };
        let mark = Mark::new(qpn, 0, v6, 256, 0, 0, 0);
        let len = self.length(256).min(256);
        let codes = [
            Opcode::RcWriteOnly,
            Opcode::RcAcknowledge,
            Opcode::RcReadRequest,
            Opcode::Cnp,
            Opcode::UdSendOnly,
        ];
        let opcode = *codes.choose(&mut self.rng)?;
        let payload = if opcode.carries_payload() { self.bytes(len) } else { Vec::new() };
        let (psn, va, rkey) = (self.rng.random(), self.rng.random(), self.rng.random());
        let ext = self.ext(opcode, va, rkey, payload.len() as u32);
        let bytes = self.packet(&mark, opcode, psn, &ext, &payload).frame();
        Some(Shot { bytes, what: "flood to nobody" })
    }

    /// To an innocent queue pair, or in the name of its peer to another: with the wrong address, and all else of the best.
    fn spoof(&mut self, sight: &mut Sight) -> Option<Shot> {
        let (innocent, v6) = (*sight.innocents.choose(&mut self.rng)?, sight.v6);
        let at = self.pick(sight, 0)?;
        let to_innocent = self.rng.random_bool(0.7);
        let mark = if to_innocent {
            Mark::new(innocent.qpn, 0, v6, 1024, 0, 0xe, 1)
        } else {
            sight.marks[at].clone()
        };
        let opcodes = [
            Opcode::RcWriteOnly,
            Opcode::RcSendOnly,
            Opcode::RcAcknowledge,
            Opcode::RcReadRequest,
            Opcode::RcFetchAdd,
            Opcode::Cnp,
            Opcode::RcReadResponseOnly,
        ];
        let opcode = *opcodes.choose(&mut self.rng)?;
        let len = self.rng.random_range(1..64usize);
        let key = *sight.keys.choose(&mut self.rng)?;
        let payload = if opcode.carries_payload() { self.bytes(len) } else { Vec::new() };
        let mut ext = self.ext(opcode, key.va, key.key, len as u32);
        if let Some(aeth) = ext.aeth.as_mut().filter(|_| self.rng.random()) {
            aeth.syndrome = [0x1f, 0x60, 0x62, 0x21][self.rng.random_range(0..4)];
        }
        let psn = match (to_innocent, opcode.is_response()) {
            (false, _) => mark.expect,
            (true, true) => innocent.asked,
            (true, false) => innocent.expect,
        };
        let near = if self.rng.random() { 0 } else { self.rng.random_range(0..4) };
        let psn = psn.wrapping_add(near).wrapping_sub(self.rng.random_range(0..=near));
        let mut packet = self.packet(&mark, opcode, psn, &ext, &payload);
        if !to_innocent {
            packet.ip = ip_between(FRIEND, CARD, mark.v6);
            packet.eth.src = mac_number(FRIEND);
        } else {
            match self.rng.random_range(0..5) {
                // In its peer's name, but of another partition, to another address, or of another service.
                0 => {
                    packet.ip = ip_between(FRIEND, CARD, v6);
                    packet.bth.pkey = self.rng.random_range(0..0x7fff);
                }
                1 if sight.strict => packet.ip = ip_between(FRIEND, FOE, v6),
                2 if sight.strict => {
                    packet.ip = ip_between(FRIEND, CARD, v6);
                    packet.eth.dst = mac_number(FOE);
                }
                3 => {
                    packet.ip = ip_between(FRIEND, CARD, !v6);
                }
                _ => {}
            }
        }
        Some(Shot { bytes: packet.frame(), what: "spoofed source" })
    }

    /// Forgets the rest of the message that is under way.
    pub fn calm(&mut self) {
        self.pending.clear();
    }
}

/// An acknowledgement, as a peer should give it.
pub fn acknowledgement(mark: &Mark, psn: u32) -> Vec<u8> {
    let bth =
        Bth { opcode: Opcode::RcAcknowledge as u8, psn, destqp: mark.qpn, pkey: 0xffff, ..Bth::default() };
    let aeth = Some(Aeth { syndrome: Syndrome::ACK.encode(), msn: 0 });
    Packet::new(mark.v6, bth).with(&Extensions { aeth, ..Extensions::default() }, &[]).frame()
}

/// Whether a frame is between the addresses of two sides.
pub fn is_between(ip: &Ip, from: usize, to: usize) -> bool {
    [false, true].iter().any(|v6| ip_between(from, to, *v6).addresses() == ip.addresses())
}
