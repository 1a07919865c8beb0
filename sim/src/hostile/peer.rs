// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`HostilePeer`]: the far end of the card's wire, where a well-behaved peer and the attacker share the line.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrowire_spec::wire::Frame;

use super::attack::{acknowledgement, is_between, Attacker, Shot, Sight};
use super::forge::{CARD, FOE, FRIEND};
use crate::bus::Peer;
use crate::soak::network::Watch;
use crate::wire::{Faults, TimedFilter};

/// Something on the wire that is the attacker's.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub cycle: u64,
    /// From the card, or to it.
    pub heard: bool,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// What both who is on the wire and who judges it use.
pub struct Core {
    /// Makes packets.
    pub attacker: Attacker,
    /// What it knows.
    pub sight: Sight,
    /// Packets that it may still send.
    pub left: u64,
    /// Frames to be sent before these.
    pub replies: VecDeque<Vec<u8>>,
    /// What the attacker sent and heard, since somebody looked.
    pub events: Vec<Event>,
    /// How often it sent what.
    pub kinds: BTreeMap<String, u64>,
    /// Frames to the card, the friend's too.
    pub frames: u64,
    /// What no card may send.
    pub offence: Option<String>,
    friend: Box<dyn Peer>,
    /// Take note of what the friend and the card say to each other.
    watch: [TimedFilter; 2],
    turn: bool,
}

impl Core {
    /// The friend's next frame.
    fn friendly(&mut self, cycle: u64) -> Option<Vec<u8>> {
        let frame = self.friend.give(cycle)?;
        (self.watch[1])(&frame);
        if let Ok(parsed) = Frame::parse(&frame) {
            let mut innocents = self.sight.innocents.iter_mut();
            let innocent = innocents.find(|innocent| innocent.qpn == parsed.bth.destqp);
            if let Some(innocent) =
                innocent.filter(|_| parsed.opcode().is_ok_and(|opcode| opcode.is_request()))
            {
                innocent.expect = parsed.bth.psn.wrapping_add(1);
            }
        }
        Some(frame)
    }

    fn hostile(&mut self, cycle: u64) -> Option<Vec<u8>> {
        let bytes = match self.replies.pop_front() {
            Some(bytes) => bytes,
            None if self.left > 0 => {
                self.left -= 1;
                let Shot { bytes, what } = self.attacker.next(&mut self.sight);
                *self.kinds.entry(what.into()).or_default() += 1;
                bytes
            }
            None => return None,
        };
        self.events.push(Event { cycle, heard: false, bytes: bytes.clone() });
        Some(bytes)
    }
}

/// The core, as all use it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Core>>);

impl Shared {
    /// With that friend; `watch` sees what it and the card say to each other.
    pub fn new(seed: u64, friend: Box<dyn Peer>, watch: &Watch) -> Self {
        let filter = |side| watch.filter(side, Faults::default(), 0.0, 0, u64::MAX);
        Self(Arc::new(Mutex::new(Core {
            attacker: Attacker::new(seed),
            sight: Sight::default(),
            left: 0,
            replies: VecDeque::new(),
            events: Vec::new(),
            kinds: BTreeMap::new(),
            frames: 0,
            offence: None,
            friend,
            watch: [filter(0), filter(1)],
            turn: false,
        })))
    }

    /// The core.
    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The far end.
pub struct HostilePeer(pub Shared);

impl Peer for HostilePeer {
    fn take(&mut self, cycle: u64, bytes: Vec<u8>) {
        let core = &mut *self.0.lock();
        let frame = match Frame::parse(&bytes) {
            Ok(frame) => frame,
            Err(error) => {
                core.offence
                    .get_or_insert(format!("the card sends a frame that is none: {error}: {bytes:02x?}"));
                return;
            }
        };
        if is_between(&frame.ip, CARD, FRIEND) {
            (core.watch[0])(&bytes);
            let innocent = core.sight.innocents.iter_mut().find(|innocent| innocent.peer == frame.bth.destqp);
            if let Some(innocent) =
                innocent.filter(|_| frame.opcode().is_ok_and(|opcode| opcode.is_request()))
            {
                innocent.asked = frame.bth.psn;
            }
            core.friend.take(cycle, bytes);
        } else if is_between(&frame.ip, CARD, FOE) {
            if let Ok(opcode) = frame.opcode() {
                core.attacker.hear(&mut core.sight, &frame, opcode);
                let mark = core.sight.marks.iter().find(|mark| mark.own == frame.bth.destqp && mark.kind);
                if let Some(mark) = mark.filter(|_| opcode.is_request() && frame.bth.ackreq) {
                    core.replies.push_back(acknowledgement(mark, frame.bth.psn));
                }
            }
            core.events.push(Event { cycle, heard: true, bytes });
        } else {
            core.offence.get_or_insert(format!("the card sends a frame to nobody: {bytes:02x?}"));
        }
    }

    fn give(&mut self, cycle: u64) -> Option<Vec<u8>> {
        let core = &mut *self.0.lock();
        core.turn = !core.turn;
        let frame = match core.turn {
            true => core.friendly(cycle).or_else(|| core.hostile(cycle)),
            false => core.hostile(cycle).or_else(|| core.friendly(cycle)),
        };
        core.frames += u64::from(frame.is_some());
        frame
    }
}
