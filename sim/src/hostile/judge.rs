// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Judge`]: whether what the card does is granted by what it was sent.
//!
//! | what the card does | must be |
//! |---|---|
//! | writes memory | bytes that a packet, or an atomic, brought to a place that it was granted; or to a posted receive |
//! | reads memory | what a READ or an atomic was granted, or what it was told to send |
//! | answers | to a queue pair's peer; data of a READ that was granted, as they were when it was executed; PSNs that it may have executed |
//! | asks | what it was told to send |
//! | drops | counted, for a reason that the frame gives |

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{bail, ensure, Result};
use ferrowire::DropReason;
use ferrowire_spec::wire::opcode::{Operation, Position, Service};
use ferrowire_spec::wire::syndrome::{NakCode, Syndrome};
use ferrowire_spec::wire::{Frame, Opcode};
use ferrowire_spec::Psn;

use super::forge::{ip_between, CARD, FOE};
use super::ground::Ground;
use super::ledger::{Place, SharedLedger};
use super::life::{Atomic, Effect, Final, Life, Request, What};
use crate::host::{Access, AccessKind};
use crate::soak::raw::Filter;

/// A receive that was posted: pieces that can be written, by block, place and bytes; one with a bad key has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// Comes back in the completion.
    pub id: u64,
    /// Its pieces, and whether their keys are good.
    pub pieces: Vec<(usize, usize, usize, bool)>,
}

/// What frames allow the card to count.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Frames that may have been dropped for a reason.
    pub most: BTreeMap<DropReason, u64>,
    /// Frames that must have been, for that reason alone.
    pub least: BTreeMap<DropReason, u64>,
    /// Frames that must have been dropped for some reason.
    pub sure: u64,
}

/// The judge.
#[derive(Default)]
pub struct Judge {
    /// Memory.
    pub ground: Ground,
    /// Lives of queue pairs by their peer's number; those that are over too, until all is settled.
    pub lives: HashMap<u32, Life>,
    /// Receives of queue pairs that are posted, by the queue pair's number.
    pub receives: HashMap<u32, Vec<Receive>>,
    /// Queue pairs that the friend has.
    pub innocents: Vec<u32>,
    /// IPv6 of these.
    pub innocents_v6: bool,
    /// Queue pairs that may go through another state just now, or do not answer.
    pub shut: Vec<u32>,
    /// What counters may say.
    pub allowed: Allowed,
    /// Which frames that are not RoCE come.
    pub raw_filter: Filter,
    /// When the attacked side did something, last.
    pub news: u64,
    /// Answers with data, and writes, that were compared.
    pub compared: u64,
    ledger: SharedLedger,
    /// Queue pairs that marked datagrams named as their senders, since all was settled.
    pub(super) marked: HashSet<u32>,
    /// Sound packets to each queue pair since all was settled: they may meet its next life.
    pub(super) recent: HashMap<u32, Vec<Vec<u8>>>,
    /// And how many answers.
    pub(super) recent_answers: HashMap<u32, u64>,
}

/// Reasons that do not depend on what a queue pair is doing.
pub const HEADER: [DropReason; 16] = [
    DropReason::Runt,
    DropReason::NotRoce,
    DropReason::IpHeader,
    DropReason::IpFragment,
    DropReason::IpChecksum,
    DropReason::Length,
    DropReason::UdpChecksum,
    DropReason::Icrc,
    DropReason::BthVersion,
    DropReason::ReservedOpcode,
    DropReason::NoQp,
    DropReason::Service,
    DropReason::Pkey,
    DropReason::Qkey,
    DropReason::SourceAddress,
    DropReason::Destination,
];

impl Judge {
    /// Of a card whose addresses are in that ledger.
    pub fn new(ledger: &SharedLedger) -> Self {
        Self { ledger: ledger.clone(), ..Self::default() }
    }

    pub(super) fn of_qpn(&self, qpn: u32) -> Option<&Life> {
        self.lives.values().find(|life| life.qpn == qpn && !life.over)
    }

    /// What the card did to its host's memory.
    ///
    /// # Errors
    /// Nobody has granted it.
    pub fn access(&mut self, access: &Access) -> Result<()> {
        let Access { cycle, address, kind } = access;
        let Some((place, room)) = self.ledger.lock().find(*address) else {
            bail!("the card reaches for {address:#x}, which is nothing")
        };
        match (place, kind) {
            (Place::Asked, AccessKind::Write(data)) => {
                bail!("cycle {cycle}: {} bytes are written to a ring that is the host's", data.len())
            }
            (Place::Told, AccessKind::Read(_)) => bail!("cycle {cycle}: a ring that the card writes is read"),
            (Place::Asked | Place::Both, AccessKind::Read(len)) => ensure!(*len <= room, "a ring is left"),
            (Place::Told | Place::Both, AccessKind::Write(data)) => {
                ensure!(data.len() as u64 <= room, "a ring is left")
            }
            (Place::Memory(at), kind) => {
                let Some((block, at)) = self.ground.find(at) else { return Ok(()) };
                self.news = self.news.max(*cycle);
                self.compared += 1;
                let fine = match kind {
                    AccessKind::Write(data) => self.write(block, at, data),
                    AccessKind::Read(len) => self.read(block, at, *len as usize),
                };
                let (verb, len) = match kind {
                    AccessKind::Write(data) => ("written", data.len()),
                    AccessKind::Read(len) => ("read", *len as usize),
                };
                ensure!(
                    fine,
                    "cycle {cycle}: {len} bytes at {at:#x} of block {block} are {verb}, which nothing that was sent grants{}{}",
                    self.ground.name(block, at),
                    match kind {
                        AccessKind::Write(data) => format!("; {:02x?}", &data[..data.len().min(16)]),
                        AccessKind::Read(_) => String::new(),
                    }
                );
            }
        }
        Ok(())
    }

    fn write(&mut self, block: usize, at: usize, data: &[u8]) -> bool {
        let mut atomic = None;
        let granted = self.lives.values().any(|life| {
            life.effects.iter().filter(|effect| !effect.void).any(|effect| match &effect.what {
                What::Write(to, from, bytes) => {
                    *to == block
                        && *from <= at
                        && bytes.get(at - from..).is_some_and(|bytes| bytes.starts_with(data))
                }
                What::Send(from, bytes) => self.receives.get(&life.qpn).is_some_and(|posted| {
                    posted.iter().any(|receive| {
                        let whole = matches!(life.service, Service::Ud | Service::Raw);
                        let fits = !whole || bytes.len() <= receive.room();
                        fits && receive.takes(*from, bytes, block, at, data)
                    })
                }),
                What::Atomic(to, from, what) => {
                    let here = (*to, *from, data.len()) == (block, at, 8);
                    let original = self.makes(block, at, *what, data).filter(|_| here);
                    atomic = original.map(|original| (life.own, effect.psn, original)).or(atomic);
                    original.is_some()
                }
                What::Read(..) => false,
            })
        });
        if granted {
            if let Some((own, psn, original)) = atomic {
                // It is executed once, however often it came.
                if let Some(life) = self.lives.get_mut(&own) {
                    life.answered.insert(psn, original);
                    let is_it =
                        |effect: &Effect| effect.psn == psn && matches!(effect.what, What::Atomic(..));
                    life.effects.retain(|effect| !is_it(effect));
                    life.touched.push((block, at));
                    life.prune(Psn::new(psn).next().get());
                }
            }
            self.ground.write(block, at, data);
        }
        granted
    }

    /// What an atomic makes these bytes of. Atomics are so among themselves; what a WRITE does meanwhile may be lost, and is not when
    /// a compare fails, for then nothing is written (IBTA 9.4.5).
    fn makes(&self, block: usize, at: usize, what: Atomic, data: &[u8]) -> Option<u64> {
        let words = self.ground.words(block, at);
        words.into_iter().find(|word| what.writes(*word) && what.apply(*word).to_le_bytes() == *data)
    }

    fn read(&self, block: usize, at: usize, len: usize) -> bool {
        let within =
            |to: usize, from: usize, bytes: usize| to == block && from <= at && at + len <= from + bytes;
        self.lives.values().any(|life| {
            life.requests.iter().any(|request| within(request.block, request.at, request.len))
                || life.effects.iter().filter(|effect| !effect.void).any(|effect| match effect.what {
                    What::Read(to, from, bytes) => within(to, from, bytes as usize),
                    What::Atomic(to, from, _) => within(to, from, 8),
                    _ => false,
                })
                || life.touched.iter().any(|(to, from)| within(*to, *from, 8))
        })
    }

    /// A frame of the card has come to the attacker.
    ///
    /// # Errors
    /// It must not be.
    pub fn heard(&mut self, cycle: u64, bytes: &[u8]) -> Result<()> {
        let Ok(frame) = Frame::parse(bytes) else { return Ok(()) };
        let opcode = frame.opcode()?;
        let own = frame.bth.destqp;
        // Whoever has sent something that came marked is told (IBTA A17.9.3); a datagram says itself who that is.
        if opcode == Opcode::Cnp && self.marked.contains(&own) {
            return Ok(());
        }
        let Some(life) = self.lives.get_mut(&own) else {
            bail!("cycle {cycle}: {opcode} to queue pair {own:#x}, which no queue pair has as its peer")
        };
        let what =
            format!("cycle {cycle}: queue pair {:#x} sends {opcode} with PSN {:#x}", life.qpn, frame.bth.psn);
        let psn = frame.bth.psn;
        ensure!(
            frame.ip.addresses() == ip_between(CARD, FOE, life.v6).addresses(),
            "{what} between other addresses"
        );
        if opcode.is_request() {
            return match life.request(&frame, opcode, &self.ground) {
                true => Ok(()),
                false => bail!("{what}, which it was not told to"),
            };
        }
        if opcode == Opcode::Cnp {
            ensure!(life.marked, "{what}, though nothing that it was sent came marked");
            return Ok(());
        }
        ensure!(life.service == Service::Rc, "{what}, and answers nothing by its service");
        self.news = self.news.max(cycle);
        if let Some(aeth) = frame.ext.aeth {
            match Syndrome::decode(aeth.syndrome) {
                Syndrome::Ack { .. } => {
                    ensure!(life.over || life.may_have_done(psn), "{what}, which it cannot have executed");
                    if life.acked.is_none_or(|acked| Psn::new(acked).is_before(Psn::new(psn))) {
                        life.acked = Some(psn);
                    }
                    // The response of a READ says nothing of what is behind it.
                    if opcode.operation() != Operation::ReadResponse {
                        life.prune(Psn::new(psn).next().get());
                    }
                }
                Syndrome::Nak(NakCode::SequenceError) | Syndrome::Rnr { .. } => {
                    let syndrome = aeth.syndrome;
                    ensure!(
                        life.over || life.expected.contains(&psn),
                        "{what}: syndrome {syndrome:#x} for a PSN that it cannot expect"
                    );
                    life.prune(psn);
                    if syndrome != 0x60 {
                        life.rnr = Some(psn);
                    }
                }
                Syndrome::Nak(_) => {
                    ensure!(life.fatal.is_none(), "{what}: a second NAK that ends it");
                    life.fatal = Some((aeth.syndrome, psn));
                }
                _ => bail!("{what} with syndrome {:#x}", aeth.syndrome),
            }
        }
        match opcode.operation() {
            Operation::ReadResponse => {
                self.compared += 1;
                let life = &self.lives[&own];
                let fine = life.effects.iter().any(|effect| self.answers(life, effect, &frame, opcode));
                ensure!(
                    fine || life.over,
                    "{what} and {} bytes, which no READ that was granted asks for: {:02x?}",
                    frame.payload.len(),
                    &frame.payload[..frame.payload.len().min(32)]
                );
            }
            Operation::AtomicAcknowledge => {
                self.compared += 1;
                let life = &self.lives[&own];
                let original = frame.ext.atomic_ack.map(|h| h.orig).unwrap_or_default();
                let kept = life.answered.get(&psn).copied();
                let fine = match kept {
                    Some(kept) => kept == original,
                    // One that changed nothing may not have been written.
                    None => life.effects.iter().any(|effect| match effect.what {
                        What::Atomic(block, at, _) if effect.psn == psn => {
                            self.ground.held(block, at, &original.to_le_bytes())
                        }
                        _ => false,
                    }),
                };
                ensure!(fine || life.over, "{what} and {original:#x}; {kept:x?} was answered before");
                if let Some(life) = self.lives.get_mut(&own) {
                    life.answered.insert(psn, original);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a response is one of a READ that was granted.
    fn answers(&self, life: &Life, effect: &Effect, frame: &Frame<'_>, opcode: Opcode) -> bool {
        let What::Read(block, at, len) = effect.what else { return false };
        let packets = len.div_ceil(life.mtu as u64).max(1);
        let i = u64::from(Psn::new(frame.bth.psn).distance_from(Psn::new(effect.psn)));
        if i >= packets {
            return false;
        }
        let from = i * life.mtu as u64;
        let bytes = (len - from).min(life.mtu as u64) as usize;
        let position = match (i == 0, i + 1 == packets) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        };
        position == opcode.position()
            && frame.payload.len() == bytes
            && (bytes == 0 || self.ground.held(block, at + from as usize, frame.payload))
    }

    /// A receive has been completed with success.
    ///
    /// # Errors
    /// No message can have taken it.
    pub fn received(&mut self, own: u32, end: Final) -> Result<()> {
        let Some(life) = self.lives.get_mut(&own) else { bail!("a receive of nobody") };
        ensure!(
            life.finals.contains(&end),
            "queue pair {:#x} has received {end:x?}, which nobody sent",
            life.qpn
        );
        life.seen.extend(end.imm);
        if life.service == Service::Raw {
            life.seen.push(end.len as u32);
        }
        if let Some(key) = end.invalidated {
            self.gone(key);
        }
        Ok(())
    }

    /// A window is gone, or a region: from now on its key grants nothing.
    pub fn gone(&mut self, key: u32) {
        self.ground
            .regions
            .iter_mut()
            .filter(|region| region.key == key)
            .for_each(|region| region.dead = true);
        for life in self.lives.values_mut() {
            life.effects.iter_mut().filter(|effect| effect.key == key).for_each(|effect| effect.void = true);
        }
    }

    /// All is settled: nothing that was sent has still to be done.
    pub fn settled(&mut self) {
        self.lives.retain(|_, life| !life.over);
        self.marked.clear();
        for life in self.lives.values_mut() {
            life.effects.clear();
            life.touched.clear();
            life.seen.clear();
            life.marked = false;
            life.requests.drain(..life.done);
            life.done = 0;
            let heard = std::mem::take(&mut life.heard);
            life.heard = heard.into_iter().filter(|psn| life.asked(*psn)).collect();
        }
        self.recent.clear();
        self.recent_answers.clear();
        self.ground.settled();
    }
}

impl Receive {
    /// Bytes that it has room for.
    fn room(&self) -> usize {
        self.pieces.iter().map(|(_, _, len, _)| len).sum()
    }

    /// Whether `bytes` from that byte of the message on put `data` there.
    fn takes(&self, from: u64, bytes: &[u8], block: usize, at: usize, data: &[u8]) -> bool {
        let mut before = 0;
        self.pieces.iter().any(|(to, first, len, good)| {
            let begins = before;
            before += *len as u64;
            if *to != block || !good || at < *first || at + data.len() > first + len {
                return false;
            }
            let place = begins + (at - first) as u64;
            let Some(skip) = place.checked_sub(from) else { return false };
            bytes.get(skip as usize..).is_some_and(|bytes| bytes.starts_with(data))
        })
    }
}

impl Life {
    /// Whether its peer has acknowledged a PSN, or one behind it that it was told to send.
    pub(super) fn is_acknowledged(&self, psn: Psn) -> bool {
        self.heard.iter().any(|heard| !Psn::new(*heard).is_before(psn) && self.asked(*heard))
    }

    /// Whether a PSN is one of a request that it was told to send.
    fn asked(&self, psn: u32) -> bool {
        let within = |r: &Request| Psn::new(psn).is_within(Psn::new(r.first), r.packets(self.mtu));
        self.requests.iter().any(within)
    }

    /// Whether a request of the card is one that it was told to send.
    fn request(&self, frame: &Frame<'_>, opcode: Opcode, ground: &Ground) -> bool {
        let psn = Psn::new(frame.bth.psn);
        self.requests.iter().any(|request| {
            let packets = request.packets(self.mtu);
            if !psn.is_within(Psn::new(request.first), packets) {
                return false;
            }
            let i = psn.distance_from(Psn::new(request.first));
            let from = i as usize * self.mtu;
            let bytes = (request.len - from).min(self.mtu);
            let ends = opcode.position().ends() == (i + 1 == packets);
            let begins = opcode.position().begins() == (i == 0);
            let same = ground.shadow(request.block, request.at + from, bytes) == Some(frame.payload);
            ends && begins && same
        })
    }
}
