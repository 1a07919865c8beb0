// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the wire does to frames, within what a reliable connection must bear; and what was seen of them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrowire_spec::wire::opcode::Operation;
use ferrowire_spec::wire::syndrome::{NakCode, Syndrome};
use ferrowire_spec::wire::{Frame, Opcode};
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use super::program::LIFE_PSNS;
use super::raw::Traffic;
use crate::wire::{mark_congestion, Delivery, Faults, TimedFilter};

/// How often a packet is lost, or its answers are in a row: seven retries are more than both, and a NAK.
const MOST: u32 = 2;

/// What happened to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Sent by the ends.
    pub frames: u64,
    /// Lost.
    pub dropped: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Overtaken by later ones.
    pub reordered: u64,
    /// With a bit changed.
    pub corrupted: u64,
    /// Late.
    pub delayed: u64,
    /// Marked by a switch.
    pub marked: u64,
    /// Notifications of congestion that the ends sent for these.
    pub cnps: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.frames += more.frames;
        self.dropped += more.dropped;
        self.duplicated += more.duplicated;
        self.reordered += more.reordered;
        self.corrupted += more.corrupted;
        self.delayed += more.delayed;
        self.marked += more.marked;
        self.cnps += more.cnps;
    }
}

impl Counts {
    fn note(&mut self, sent: &[u8], delivered: &[Delivery]) {
        self.frames += 1;
        self.dropped += u64::from(delivered.is_empty());
        self.duplicated += u64::from(delivered.len() > 1);
        self.corrupted += u64::from(delivered.first().is_some_and(|d| d.frame != sent));
        self.reordered += u64::from(delivered.iter().any(|d| d.behind > 0));
        self.delayed += u64::from(delivered.iter().any(|d| d.behind == 0 && d.delay > 0));
    }
}

/// What was on the wire.
#[derive(Debug)]
pub struct Seen {
    /// Of both directions.
    pub counts: Counts,
    /// A frame that no end may send, the first one.
    pub offence: Option<String>,
    /// Frames that did not pass as they should, by direction and queue pair that should have had them.
    hurt: HashMap<(usize, u32), u64>,
    /// PSNs of the NAKs that end a queue pair, by direction and queue pair that should have had them.
    fatal: HashMap<(usize, u32), Vec<u32>>,
    /// Marked frames have been on their way to a side.
    marked: [bool; 2],
    /// What each request packet was the first time, and the bytes that a READ or WRITE names, by direction, queue pair and PSN.
    first: HashMap<(usize, u32, u32), (u64, Option<u32>)>,
    /// A card may read a message's memory when the message has ended: the read was under way when the last acknowledgement came.
    late_reads: bool,
    /// PSNs that answers of a side acknowledge, where that is so.
    acknowledged: [Vec<u32>; 2],
    /// Raw frames from each side on.
    pub raw: [Traffic; 2],
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            offence: None,
            hurt: HashMap::new(),
            fatal: HashMap::new(),
            marked: [false; 2],
            first: HashMap::new(),
            late_reads: false,
            acknowledged: Default::default(),
            raw: [Traffic::to(1), Traffic::to(0)],
        }
    }
}

impl Seen {
    /// How many frames to a queue pair did not come once, soon and as they were.
    pub fn hurt(&self, side: usize, qpn: u32) -> u64 {
        self.hurt.get(&(side, qpn)).copied().unwrap_or_default()
    }

    /// Whether a side has refused a request of a queue pair for good, in the life whose requests begin at `first`.
    pub fn refused(&self, side: usize, qpn: u32, first: u32) -> bool {
        let mut naks = self.fatal.get(&(side, qpn)).into_iter().flatten();
        naks.any(|psn| Psn::new(*psn).is_within(Psn::new(first), LIFE_PSNS))
    }

    /// A side tells of congestion, of which it must have been told (IBTA A17.9.3).
    fn notified(&mut self, side: usize) {
        self.counts.cnps += 1;
        if !self.marked[side] {
            self.offence.get_or_insert(format!("side {side} tells of congestion, and nothing was marked"));
        }
    }

    /// Where cards read memory over PCIe or AXI4, a write passes a read: what ends a message may pass a read for its packet that is sent
    /// again, and the program's memory is its own by then. The peer, who has acknowledged the packet, does not execute it again.
    pub fn allow_late_reads(&mut self) {
        self.late_reads = true;
    }

    /// A packet that acknowledges others (IBTA 9.7.5.1.1: a NAK those before its PSN).
    fn answer(&mut self, side: usize, frame: &Frame<'_>) {
        let Some(aeth) = frame.ext.aeth.filter(|_| self.late_reads) else { return };
        let psn = match Syndrome::decode(aeth.syndrome) {
            Syndrome::Ack { .. } => Psn::new(frame.bth.psn),
            _ => Psn::new(frame.bth.psn) - 1,
        };
        self.acknowledged[side].push(psn.get());
    }

    /// A packet that is sent again is what it was (IBTA 9.7.5.1: opcode and data do not change), as long as it is not acknowledged.
    fn request(&mut self, side: usize, frame: &Frame<'_>) {
        let bth = &frame.bth;
        let mut hasher = DefaultHasher::new();
        (bth.opcode, bth.pad, bth.pkey, frame.payload).hash(&mut hasher);
        frame.ext.reth.map(|reth| (reth.va, reth.rkey)).hash(&mut hasher);
        frame.ext.ieth.map(|ieth| ieth.rkey).hash(&mut hasher);
        let now = (hasher.finish(), frame.ext.reth.map(|reth| reth.len));
        let was = *self.first.entry((side, bth.destqp, bth.psn)).or_insert(now);
        // With selective retransmission, a READ asks again for a part.
        let part = bth.opcode == Opcode::RcReadRequest.code() && !bth.migreq;
        let same = was.0 == now.0 && (was.1 == now.1 || part);
        let known = |psn: &u32| Psn::new(*psn).is_within(Psn::new(bth.psn), LIFE_PSNS);
        if !same && !self.acknowledged[1 - side].iter().any(known) {
            let (qpn, psn) = (bth.destqp, bth.psn);
            let what = format!("side {side} sends PSN {psn:#x} to QP {qpn:#x} again as another packet");
            self.offence.get_or_insert(what);
        }
    }
}

/// What both directions share.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Seen>>);

impl Watch {
    /// What was seen so far.
    pub fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wire from `side` on. `patience` is how late a frame may be before its sender has given it up.
    ///
    /// Each request packet is lost, changed or later than that at most twice, and of a queue pair's answers at most two in a row
    /// are; a READ's response of a PSN leaves a gap at most twice. A NAK that ends a queue pair always comes: it is sent once, and without it the peer sees no more than silence.
    pub fn filter(&self, side: usize, faults: Faults, marks: f64, seed: u64, patience: u64) -> TimedFilter {
        let watch = self.clone();
        let mut faults = faults.filter(seed);
        let mut marking = SmallRng::seed_from_u64(!seed);
        let mut gaps: HashMap<(u32, u32), u32> = HashMap::new();
        let mut lost: HashMap<(u32, Option<u32>), u32> = HashMap::new();
        Box::new(move |bytes| {
            let mut seen = watch.lock();
            let mut delivered = faults(bytes);
            match Frame::parse(bytes) {
                Ok(frame) => {
                    let bth = &frame.bth;
                    let request = frame.opcode().is_ok_and(|opcode| opcode.is_request());
                    if request {
                        seen.request(side, &frame);
                    } else {
                        seen.answer(side, &frame);
                    }
                    let fatal = frame.ext.aeth.is_some_and(|aeth| is_fatal(aeth.syndrome));
                    if fatal {
                        seen.fatal.entry((side, bth.destqp)).or_default().push(bth.psn);
                    }
                    // Nobody waits for a notification, and it says nothing of answers that are lost.
                    let cnp = frame.opcode() == Ok(Opcode::Cnp);
                    if cnp {
                        seen.notified(side);
                    }
                    let which = if cnp { Some(u32::MAX) } else { request.then_some(bth.psn) };
                    let lost = lost.entry((bth.destqp, which)).or_default();
                    let well = |d: &Delivery| d.frame == bytes && (d.behind > 0 || d.delay < patience);
                    if !delivered.iter().any(well) {
                        *lost += 1;
                        if !cnp && (*lost > MOST || fatal) {
                            delivered = vec![Delivery::at_once(bytes.to_vec())];
                        }
                    }
                    let soon = |d: &Delivery| d.is_prompt() && d.frame == bytes;
                    // A response that comes late or behind others is a gap to who has asked, and asks again from there on.
                    let read = frame.opcode().is_ok_and(|o| o.operation() == Operation::ReadResponse);
                    if read && !delivered.iter().any(soon) {
                        let gaps = gaps.entry((bth.destqp, bth.psn)).or_default();
                        *gaps += 1;
                        if *gaps > MOST {
                            delivered = vec![Delivery::at_once(bytes.to_vec())];
                        }
                    }
                    let fine = delivered.len() == 1 && delivered.iter().all(soon);
                    if !cnp && !fine {
                        *seen.hurt.entry((side, bth.destqp)).or_default() += 1;
                    }
                    if !request && delivered.iter().any(well) {
                        *lost = 0;
                    }
                }
                // What the wire spoils of a raw frame falls to the frame check sequence.
                Err(_) if seen.raw[side].leaves(bytes) => delivered.retain(|d| d.frame == bytes),
                Err(error) => {
                    seen.offence.get_or_insert(format!("side {side} sends a frame that is none: {error}"));
                }
            }
            seen.counts.note(bytes, &delivered);
            for delivery in delivered.iter_mut().filter(|_| marks > 0.0 && marking.random_bool(marks)) {
                mark_congestion(&mut delivery.frame);
                seen.counts.marked += 1;
                seen.marked[1 - side] = true;
            }
            delivered.iter().for_each(|delivery| seen.raw[side].arrives(&delivery.frame));
            delivered
        })
    }
}

/// A NAK that ends a queue pair: 0x61 to 0x63.
fn is_fatal(code: u8) -> bool {
    matches!(Syndrome::decode(code), Syndrome::Nak(nak) if nak != NakCode::SequenceError)
}
