// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Writes`]: addresses and data of writes, when memory has them, and when they are answered.
//!
//! ```text
//!  AW --> addresses --+--> judge --> blocks --> [ each waits ] --> memory
//!  W  --> data -------+       \----> [ waits for its blocks, and longer ] --> B
//! ```
//!
//! Data is in the order of the addresses (AXI4 A5.3), but may come before them. What has both is cut into blocks, each of which is seen when its
//! time comes: only blocks that are the same of one ID keep their order (AXI4 A6). The response comes when all of them can be seen.

use std::collections::VecDeque;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::channel::{Address, Response, WriteBeat, WriteResponse};
use super::faults::AccessInfo;
use super::rules::{mask, strobes};
use super::{Around, WriteOrder};
use crate::wire::MAX_BEAT;

/// Bursts of data that are taken before their address, the one that has begun included.
const AHEAD: u64 = 3;

/// Data of a write, as far as it has come.
#[derive(Default)]
struct Burst {
    beats: Vec<WriteBeat>,
    ended: bool,
    /// It breaks a rule: nothing of it is written.
    broken: bool,
}

/// Bytes that are seen together.
struct Piece {
    due: u64,
    write: u64,
    id: u8,
    block: u64,
    base: u64,
    data: [u8; MAX_BEAT],
    strobe: u64,
}

/// A write that waits for its response to be sent.
struct Waiting {
    number: u64,
    id: u8,
    due: u64,
    response: Response,
    /// Pieces that memory does not have; none counts, if it is answered early.
    left: u32,
}

pub(super) struct Writes {
    /// Addresses and data that have not found each other. The first ones belong together, if both are there.
    addresses: VecDeque<Address>,
    data: VecDeque<Burst>,
    /// How many have come.
    addressed: u64,
    ended: u64,
    /// Those that have both, and those of them that are answered.
    matched: u64,
    answered: u64,
    waiting: Vec<Waiting>,
    pieces: Vec<Piece>,
    /// No piece is due before.
    wake: u64,
}

impl Writes {
    pub fn new() -> Self {
        Self {
            addresses: VecDeque::new(),
            data: VecDeque::new(),
            addressed: 0,
            ended: 0,
            matched: 0,
            answered: 0,
            waiting: Vec::new(),
            pieces: Vec::new(),
            wake: u64::MAX,
        }
    }

    /// Whether nothing has begun that has not ended.
    pub fn idle(&self) -> bool {
        let open = self.addresses.is_empty() && self.data.is_empty();
        open && self.waiting.is_empty() && self.pieces.is_empty()
    }

    /// Which channel is first for a write.
    fn order(number: u64, order: WriteOrder, seed: u64) -> WriteOrder {
        if order != WriteOrder::Random {
            return order;
        }
        let mut random = SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        [WriteOrder::Any, WriteOrder::AddressFirst, WriteOrder::DataFirst, WriteOrder::AllDataFirst]
            [random.random_range(0..4)]
    }

    /// Whether an address may be taken: it waits for data where that comes first (AXI4 A3.3.1).
    pub fn takes_address(&self, most: Option<u32>, order: WriteOrder, seed: u64) -> bool {
        if most.is_some_and(|most| self.addressed - self.answered >= most.into()) {
            return false;
        }
        match Self::order(self.addressed, order, seed) {
            WriteOrder::DataFirst => {
                let begun = self.data.back().is_some_and(|burst| !burst.ended);
                self.addressed < self.ended + u64::from(begun)
            }
            WriteOrder::AllDataFirst => self.addressed < self.ended,
            _ => true,
        }
    }

    /// Whether a beat of data may be taken.
    pub fn takes_data(&self, order: WriteOrder, seed: u64) -> bool {
        match Self::order(self.ended, order, seed) {
            WriteOrder::AddressFirst => self.ended < self.addressed,
            _ => self.ended < self.addressed + AHEAD,
        }
    }

    /// Takes an address.
    ///
    /// # Errors
    /// The rule that its data breaks.
    pub fn address(&mut self, address: Address, around: &mut Around<'_>) -> Result<(), String> {
        self.addressed += 1;
        self.addresses.push_back(address);
        let judged = match self.data.get_mut(self.addresses.len() - 1) {
            Some(burst) => judge(&address, burst),
            None => Ok(()),
        };
        judged.and(self.join(around))
    }

    /// Takes a beat of data.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn beat(&mut self, beat: WriteBeat, around: &mut Around<'_>) -> Result<(), String> {
        if self.data.back().is_none_or(|burst| burst.ended) {
            self.data.push_back(Burst::default());
        }
        let at = self.data.len() - 1;
        around.stats.early_beats += u64::from(self.addresses.get(at).is_none());
        let burst = &mut self.data[at];
        // What goes on for ever needs no room.
        if burst.beats.len() <= 256 {
            burst.beats.push(beat);
        }
        burst.ended = beat.last;
        self.ended += u64::from(beat.last);
        let judged = match self.addresses.get(at) {
            Some(address) => judge(address, burst),
            None if burst.beats.len() > 256 && !burst.broken => {
                burst.broken = true;
                Err("more than 256 beats without WLAST (AXI4 A3.4.1)".into())
            }
            None => Ok(()),
        };
        judged.and(self.join(around))
    }

    /// Does what has both address and data.
    fn join(&mut self, around: &mut Around<'_>) -> Result<(), String> {
        let mut judged = Ok(());
        while self.data.front().is_some_and(|burst| burst.ended) && !self.addresses.is_empty() {
            let (Some(address), Some(burst)) = (self.addresses.pop_front(), self.data.pop_front()) else {
                break;
            };
            judged = judged.and(self.write(&address, burst, around));
        }
        judged
    }

    /// A whole write.
    fn write(&mut self, address: &Address, burst: Burst, around: &mut Around<'_>) -> Result<(), String> {
        let (number, cycle, settings) = (self.matched, around.cycle, around.settings);
        self.matched += 1;
        around.stats.writes += 1;
        let beats = || burst.beats.iter().enumerate();
        let judged = beats()
            .try_for_each(|(at, beat)| strobes(address, at, beat, around.width))
            .map_err(|why| format!("ID {}: {why}", address.id));
        let wait = match settings.write_spread {
            0 => settings.write_latency,
            spread => settings.write_latency + around.random.random_range(0..=spread),
        };
        let due = cycle + 1 + wait;
        let mut waiting = Waiting { number, id: address.id, due, response: Response::Okay, left: 0 };
        let width = around.width as u64;
        let base = |at: usize| address.beat(at) & !(width - 1);
        let mut enabled = beats().filter(|(_, beat)| beat.strobe != 0).map(|(at, beat)| {
            (
                base(at) + u64::from(beat.strobe.trailing_zeros()),
                base(at) + 63 - u64::from(beat.strobe.leading_zeros()),
            )
        });
        let first = enabled.next();
        let last = enabled.next_back().or(first);
        let mapped = match (first, last) {
            (Some((first, _)), Some((_, last))) if !burst.broken => {
                around.host.note_write(first, (last + 1 - first) as usize)
            }
            _ => true,
        };
        let info = AccessInfo {
            cycle,
            write: true,
            index: number,
            id: address.id,
            address: address.address,
            bytes: address.length(),
        };
        let fault = around.plan.choose(&info, around.random);
        if !mapped {
            waiting.response = Response::DecodeError;
        } else if let Some(fault) = fault {
            around.stats.faults[1] += 1;
            waiting.response = fault.response();
        } else if !burst.broken && judged.is_ok() {
            // Device and non-cacheable memory whose writes may be buffered.
            let early = settings.early_responses && matches!(address.cache, 0b0001 | 0b0011);
            let most = if early { 2 * wait + 64 } else { wait };
            let most = if settings.late_writes { most } else { 0 };
            for (at, beat) in beats() {
                waiting.left += self.cut(number, address.id, base(at), beat, most, around);
            }
            if early {
                waiting.left = 0;
            }
        }
        self.waiting.push(waiting);
        self.work(around);
        judged
    }

    /// Cuts a beat into blocks, each of which is seen at most so many cycles later. How many there are.
    fn cut(
        &mut self,
        write: u64,
        id: u8,
        base: u64,
        beat: &WriteBeat,
        most: u64,
        around: &mut Around<'_>,
    ) -> u32 {
        let atomic = u64::from(around.settings.atomic);
        let step = (around.width as u64).min(atomic);
        let mut pieces = 0;
        for from in (0..around.width as u64).step_by(step as usize) {
            let strobe = beat.strobe & mask((from + step) as usize) & !mask(from as usize);
            if strobe == 0 {
                continue;
            }
            let block = (base + from) / atomic;
            let before = self.pieces.iter().rev().find(|piece| (piece.id, piece.block) == (id, block));
            let due = match before {
                // The rest of a block that one burst has all of.
                Some(before) if before.write == write => before.due,
                _ if most == 0 => around.cycle,
                _ => around.cycle + around.random.random_range(0..=most),
            };
            let due = before.map_or(due, |before| due.max(before.due));
            self.wake = self.wake.min(due);
            self.pieces.push(Piece { due, write, id, block, base, data: beat.data, strobe });
            pieces += 1;
        }
        pieces
    }

    /// Lets memory have what is due.
    pub fn work(&mut self, around: &mut Around<'_>) {
        if around.cycle < self.wake {
            return;
        }
        let (host, waiting, width) = (&mut *around.host, &mut self.waiting, around.width);
        // In the order in which they came, which is that of blocks that are the same.
        self.pieces.retain(|piece| {
            if piece.due > around.cycle {
                return true;
            }
            host.write_beat_of(around.cycle, piece.base, &piece.data[..width], piece.strobe);
            if let Some(write) = waiting.iter_mut().find(|write| write.number == piece.write) {
                write.left = write.left.saturating_sub(1);
            }
            false
        });
        self.wake = self.pieces.iter().map(|piece| piece.due).min().unwrap_or(u64::MAX);
    }

    /// The next response that may be sent: of one ID in the order of its addresses.
    pub fn response(&mut self, around: &mut Around<'_>) -> Option<WriteResponse> {
        let first = |at: usize| self.waiting[..at].iter().all(|other| other.id != self.waiting[at].id);
        let ready = |at: &usize| {
            let write = &self.waiting[*at];
            write.due <= around.cycle
                && write.left == 0
                && (*at == 0 || around.settings.reorder && first(*at))
        };
        let ready: Vec<usize> = (0..self.waiting.len()).filter(ready).collect();
        let at = match ready[..] {
            [] => return None,
            [only] => only,
            _ => ready[around.random.random_range(0..ready.len())],
        };
        let Waiting { id, response, .. } = self.waiting.remove(at);
        around.stats.write_errors += u64::from(response != Response::Okay);
        Some(WriteResponse { id, response })
    }

    /// A response was taken.
    pub fn response_taken(&mut self) {
        self.answered += 1;
    }
}

/// Judges whether a burst has as many beats as its address says, as far as it has come.
fn judge(address: &Address, burst: &mut Burst) -> Result<(), String> {
    let (have, wanted) = (burst.beats.len(), address.beats());
    let wrong = if burst.ended { have != wanted } else { have >= wanted };
    if burst.broken || !wrong {
        return Ok(());
    }
    burst.broken = true;
    let at = address.address;
    Err(match burst.ended {
        true => format!("WLAST with beat {} of {wanted} at {at:#x} (AXI4 A3.4.1)", have - 1),
        false => format!("beat {} of {wanted} at {at:#x} is without WLAST (AXI4 A3.4.1)", have - 1),
    })
}
