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

mod others;
mod quiet;
mod requests;
mod windows;

use std::collections::VecDeque;

use ferrowire_spec::wire::opcode::Service;
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
use crate::wire::mark_congestion;

/// A queue pair, as it is attacked.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Its number.
    pub qpn: u32,
    /// The number that it believes to be its peer's.
    pub own: u32,
    /// Its service.
    pub service: Service,
    /// The queue key of its datagrams.
    pub qkey: u32,
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
            service: Service::Rc,
            qkey: 0,
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
    /// It is a window of this queue pair's.
    pub owner: Option<u32>,
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
    Datagrams,
    Unreliable,
    Windows,
    Rnr,
    Cnps,
    Raw,
}

use Way as W;
const WAYS: [Way; 17] = [
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
    W::Datagrams,
    W::Unreliable,
    W::Windows,
    W::Rnr,
    W::Cnps,
    W::Raw,
];

/// A burst is of one mood: its name, and how often each of [`WAYS`] is gone.
pub const MOODS: [(&str, [u32; 17]); 15] = [
    ("all at once", [30, 8, 14, 6, 6, 14, 12, 4, 4, 2, 8, 8, 12, 12, 2, 2, 8]),
    ("forged keys", [40, 40, 8, 0, 0, 4, 4, 4, 0, 0, 4, 0, 4, 8, 0, 0, 0]),
    ("sequence numbers", [35, 2, 50, 3, 0, 2, 4, 4, 0, 0, 2, 0, 0, 2, 0, 0, 0]),
    ("opcodes and lengths", [30, 0, 6, 30, 30, 4, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]),
    ("mangled frames", [12, 0, 2, 2, 2, 70, 2, 0, 0, 2, 10, 4, 4, 0, 0, 0, 10]),
    ("answers nobody asked for", [10, 0, 4, 0, 0, 4, 80, 0, 0, 0, 4, 0, 0, 0, 2, 2, 0]),
    ("a flood of READs", [6, 1, 6, 0, 0, 2, 2, 80, 0, 0, 4, 0, 0, 0, 0, 0, 0]),
    ("a flood of tiny packets", [4, 1, 4, 1, 1, 4, 10, 4, 70, 10, 10, 0, 0, 0, 0, 0, 0]),
    ("a flood to nobody", [4, 0, 2, 0, 0, 10, 4, 0, 4, 70, 20, 4, 0, 0, 0, 0, 2]),
    ("a flood of RNR NAKs", [10, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 80, 0, 0]),
    ("a flood of CNPs", [10, 0, 2, 0, 0, 0, 4, 0, 0, 0, 10, 0, 2, 0, 0, 80, 0]),
    ("datagrams", [6, 0, 2, 2, 0, 4, 0, 0, 0, 2, 2, 80, 6, 0, 0, 0, 0]),
    ("unreliable connections", [6, 0, 2, 4, 0, 4, 0, 0, 0, 0, 2, 6, 80, 0, 0, 0, 0]),
    ("windows", [12, 4, 4, 0, 0, 2, 0, 2, 0, 0, 2, 0, 2, 80, 0, 0, 0]),
    ("raw frames", [6, 0, 2, 0, 0, 8, 2, 0, 0, 4, 2, 4, 2, 0, 0, 0, 80]),
];

/// Makes hostile packets.
pub struct Attacker {
    rng: SmallRng,
    weights: [u32; 17],
    /// Packets of a message that is under way.
    pending: VecDeque<Shot>,
    /// Packets of this burst come marked.
    marks: bool,
}

impl Attacker {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            weights: MOODS[0].1,
            pending: VecDeque::new(),
            marks: false,
        }
    }

    /// Begins a burst; its mood.
    pub fn begin(&mut self) -> &'static str {
        let at = if self.rng.random_bool(0.3) { 0 } else { self.rng.random_range(0..MOODS.len()) };
        self.weights = MOODS[at].1;
        self.marks = self.rng.random_bool(0.2);
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

    /// The next packet; in some bursts a switch marks a few.
    pub fn next(&mut self, sight: &mut Sight) -> Shot {
        let mut shot = self.one(sight);
        if self.marks && self.rng.random_bool(0.1) {
            mark_congestion(&mut shot.bytes);
        }
        shot
    }

    fn one(&mut self, sight: &mut Sight) -> Shot {
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
                Way::Datagrams => self.datagram(sight),
                Way::Unreliable => self.unreliable(sight),
                Way::Windows => self.windows(sight),
                Way::Rnr => self.not_ready(sight),
                Way::Cnps => self.notify(sight),
                Way::Raw => self.raw(),
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
        let fits = |mark: &Mark| {
            let sound = mark.service == Service::Rc && mark.alive && !mark.doomed;
            any || sound && mark.rights & rights == rights
        };
        let all: Vec<usize> = (0..sight.marks.len()).filter(|i| fits(&sight.marks[*i])).collect();
        all.choose(&mut self.rng).copied()
    }

    /// A key that gives the peer of a queue pair that right.
    fn key(&mut self, sight: &Sight, mark: &Mark, right: u8, len: u64) -> Option<Key> {
        let fits = |key: &&Key| {
            let mine = key.owner.is_none_or(|owner| owner == mark.qpn);
            !key.dead && key.pd == mark.pd && mine && key.rights & right == right && key.len >= len
        };
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
            report: None,
        }
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
