// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Reads`]: the card's reads, from their arrival to their last completion.
//!
//! ```text
//!  read --> cut into pieces --> each looks at memory --> waits till it is due --> completion, completion, ...
//! ```
//!
//! A read has the place of its tag, so nothing is searched for.

use std::collections::VecDeque;

use ferrowire_spec::pcie::{Completion, CompletionStatus};
use rand::rngs::SmallRng;
use rand::Rng as _;

use super::faults::Plan;
use super::memory::Memory;
use super::request::Request;
use super::{Fault, FaultKind, ReadInfo, RootSettings, RootStats, Split};

/// What bytes hold that were not asked for: a card may not care.
const JUNK: u8 = 0xa5;

/// What one completion brings.
struct Piece {
    /// First byte behind it, counted from the first double word of the read.
    end: u32,
    /// When it looks at memory.
    looks: u64,
    looked: bool,
    /// What it looked for was not mapped any more.
    gone: bool,
}

/// A read under way.
#[derive(Default)]
struct Read {
    busy: bool,
    request: Option<Request>,
    /// Writes that came before it.
    behind: u64,
    due: u64,
    late: bool,
    refused: Option<CompletionStatus>,
    fault: Option<Fault>,
    /// The piece that has the fault.
    faulty: usize,
    pieces: Vec<Piece>,
    next: usize,
    data: Vec<u8>,
}

/// All that a read or completion needs to know of the rest.
pub(super) struct Around<'a> {
    pub cycle: u64,
    pub settings: &'a RootSettings,
    pub memory: &'a mut Memory,
    pub plan: &'a mut Plan,
    pub random: &'a mut SmallRng,
    pub stats: &'a mut RootStats,
}

impl Around<'_> {
    fn count(&mut self, fault: FaultKind) {
        self.stats.faults[fault as usize] += 1;
    }
}

pub(super) struct Reads {
    /// One for each tag.
    places: Vec<Read>,
    /// Tags of those that have a completion to send, the oldest first.
    waiting: VecDeque<u8>,
    busy: u32,
    /// Nothing looks at memory before.
    looks: u64,
    /// None is due before.
    wake: u64,
    /// Completions that nobody asked for.
    extra: VecDeque<Vec<u8>>,
    /// The tag that is free when the completion on its way has ended.
    ending: Option<u8>,
}

impl Reads {
    pub fn new() -> Self {
        Self {
            places: (0..256).map(|_| Read::default()).collect(),
            waiting: VecDeque::with_capacity(256),
            busy: 0,
            looks: u64::MAX,
            wake: u64::MAX,
            extra: VecDeque::new(),
            ending: None,
        }
    }

    /// Reads under way.
    pub fn under_way(&self) -> u32 {
        self.busy
    }

    /// Whether nothing is left to be sent.
    pub fn idle(&self) -> bool {
        self.busy == 0 && self.extra.is_empty()
    }

    /// Takes a read.
    ///
    /// # Errors
    /// Its tag is in use.
    pub fn accept(&mut self, request: Request, around: &mut Around<'_>) -> Result<(), String> {
        let (cycle, tag) = (around.cycle, request.header.tag);
        let read = &mut self.places[usize::from(tag)];
        if read.busy {
            return Err(format!("{}: the tag is in use (PCIe 2.2.6.2)", request.name()));
        }
        let (first, bytes) = request.span();
        let asked = if request.header.first_be == 0 { 0 } else { bytes };
        let address = request.address() + u64::from(first);
        let info = ReadInfo { cycle, index: around.stats.reads, address, bytes: asked, tag };
        around.stats.reads += 1;
        around.stats.read_bytes += u64::from(asked);
        let under_way = u64::from(self.busy) + 1;
        let mapped = around.memory.host.note_read(cycle, address, asked.into(), under_way);
        let fault = if mapped { around.plan.choose(&info, around.random) } else { None };
        if let Some(fault) = fault.filter(|fault| *fault != Fault::Unexpected) {
            around.count(fault.kind());
        }
        if fault == Some(Fault::Lost) {
            return Ok(());
        }
        around.stats.most_reads = around.stats.most_reads.max(under_way);
        let extra = match fault {
            Some(Fault::Late(cycles)) => cycles,
            _ => 0,
        };
        let spread = around.settings.spread;
        let random = if spread > 0 { around.random.random_range(0..=spread) } else { 0 };
        read.busy = true;
        read.request = Some(request);
        read.behind = around.memory.count();
        read.due = cycle + 1 + around.memory.host.latency() + random + extra;
        read.late = extra > 0;
        read.refused = match fault {
            _ if !mapped => Some(CompletionStatus::UnsupportedRequest),
            Some(Fault::UnsupportedRequest) => Some(CompletionStatus::UnsupportedRequest),
            Some(Fault::CompleterAbort) => Some(CompletionStatus::CompleterAbort),
            _ => None,
        };
        read.fault = fault;
        read.next = 0;
        read.data.clear();
        read.data.resize(4 * request.dwords() as usize, JUNK);
        read.cut(around);
        let pieces = read.pieces.len();
        read.faulty = match fault {
            Some(Fault::StatusInTheMiddle) if pieces > 1 => around.random.random_range(1..pieces),
            Some(_) => around.random.random_range(0..pieces),
            None => 0,
        };
        if around.settings.reorder && around.settings.late_reads {
            let (from, to) = (cycle, read.due);
            for piece in &mut read.pieces {
                piece.looks = around.random.random_range(from..=to);
                self.looks = self.looks.min(piece.looks);
            }
        }
        read.look(around);
        self.wake = self.wake.min(read.due);
        self.waiting.push_back(tag);
        self.busy += 1;
        Ok(())
    }

    /// Lets those look at memory whose moment has come.
    pub fn work(&mut self, around: &mut Around<'_>) {
        if around.cycle < self.looks {
            return;
        }
        self.looks = u64::MAX;
        for tag in &self.waiting {
            let read = &mut self.places[usize::from(*tag)];
            self.looks = self.looks.min(read.look(around));
        }
    }

    /// Writes the next completion to `packet`. Whether there is one.
    pub fn complete(&mut self, packet: &mut Vec<u8>, around: &mut Around<'_>) -> bool {
        if let Some(extra) = self.extra.pop_front() {
            packet.extend_from_slice(&extra);
            around.stats.completions += 1;
            return true;
        }
        let Some(at) = self.choose(around) else { return false };
        let tag = self.waiting[at];
        around.stats.completions += 1;
        if self.places[usize::from(tag)].fault == Some(Fault::Unexpected) {
            self.places[usize::from(tag)].fault = None;
            if let Some(other) = (0..=255).rev().find(|other| !self.places[usize::from(*other)].busy) {
                around.count(FaultKind::Unexpected);
                let read = &mut self.places[usize::from(tag)];
                read.emit(around, packet, Some(other));
                return true;
            }
        }
        let read = &mut self.places[usize::from(tag)];
        if !read.emit(around, packet, None) {
            return true;
        }
        if read.fault == Some(Fault::Twice) {
            self.extra.push_back(packet.clone());
        }
        self.waiting.remove(at);
        self.ending = Some(tag);
        true
    }

    /// The completion on its way has ended.
    pub fn ended(&mut self) {
        if let Some(tag) = self.ending.take() {
            self.places[usize::from(tag)].busy = false;
            self.busy -= 1;
        }
    }

    /// Which of those that wait is next.
    fn choose(&mut self, around: &mut Around<'_>) -> Option<usize> {
        let (cycle, waiting) = (around.cycle, self.waiting.len());
        if cycle < self.wake || waiting == 0 {
            return None;
        }
        let place = |at: usize| &self.places[usize::from(self.waiting[at])];
        let found = if around.settings.reorder {
            let start = around.random.random_range(0..waiting);
            (0..waiting).map(|i| (start + i) % waiting).find(|at| place(*at).due <= cycle)
        } else {
            // One that is late holds up nobody.
            let first = (0..waiting).find(|at| place(*at).due <= cycle || !place(*at).late);
            first.filter(|at| place(*at).due <= cycle)
        };
        if found.is_none() {
            self.wake = (0..waiting).map(|at| place(at).due.max(cycle + 1)).min().unwrap_or(u64::MAX);
        }
        found
    }
}

impl Read {
    /// Cuts it into pieces. One that is refused is a single one.
    fn cut(&mut self, around: &mut Around<'_>) {
        self.pieces.clear();
        let Some(request) = self.request else { return };
        let settings = around.settings;
        let all = u64::from(4 * request.dwords());
        let (start, end) = (request.address(), request.address() + all);
        let boundary = u64::from(settings.read_completion_boundary);
        let largest = u64::from(settings.max_payload);
        let mut at = start;
        while at < end {
            let (least, most) = ((at / boundary + 1) * boundary, (at + largest) / boundary * boundary);
            let cut = match settings.chunk {
                _ if self.refused.is_some() => end,
                _ if self.fault == Some(Fault::StatusInTheMiddle) => least,
                Split::Largest if at + largest >= end => end,
                Split::Largest => most,
                Split::Fixed(bytes) => {
                    let bytes = u64::from(bytes).clamp(boundary, largest) / boundary * boundary;
                    (at / bytes + 1) * bytes
                }
                Split::Random => around.random.random_range(least / boundary..=most / boundary) * boundary,
            };
            at = cut.min(end);
            self.pieces.push(Piece {
                end: (at - start) as u32,
                looks: around.cycle,
                looked: false,
                gone: false,
            });
        }
    }

    /// Looks at memory for those pieces whose moment has come. When the next one looks.
    fn look(&mut self, around: &mut Around<'_>) -> u64 {
        let mut next = u64::MAX;
        for at in self.next..self.pieces.len() {
            if self.pieces[at].looked {
                continue;
            }
            if self.pieces[at].looks <= around.cycle {
                self.look_at(at, around);
            } else {
                next = next.min(self.pieces[at].looks);
            }
        }
        next
    }

    fn look_at(&mut self, at: usize, around: &mut Around<'_>) {
        let Some(request) = self.request else { return };
        let start = self.start(at);
        let piece = &mut self.pieces[at];
        piece.looked = true;
        around.memory.push_out(around.cycle, self.behind);
        if self.refused.is_some() || request.header.first_be == 0 {
            return;
        }
        let (first, bytes) = request.span();
        let (from, to) = (start.max(first), piece.end.min(first + bytes));
        let data = &mut self.data[from as usize..to as usize];
        piece.gone = !around.memory.host.fetch(request.address() + u64::from(from), data);
        if request.has_holes() {
            (from..to)
                .filter(|byte| !request.enables(*byte))
                .for_each(|byte| self.data[byte as usize] = JUNK);
        }
    }

    /// First byte of a piece.
    fn start(&self, at: usize) -> u32 {
        at.checked_sub(1).map_or(0, |before| self.pieces[before].end)
    }

    /// Appends the next completion, and goes on to the one behind it; with `other`, the same under a tag that is not its own, and stays
    /// where it is. Whether it was the last.
    fn emit(&mut self, around: &mut Around<'_>, packet: &mut Vec<u8>, other: Option<u8>) -> bool {
        let Some(request) = self.request else { return true };
        let at = self.next;
        let start = self.start(at);
        if !self.pieces[at].looked {
            self.look_at(at, around);
        }
        let Piece { end, gone, .. } = self.pieces[at];
        let (first, bytes) = request.span();
        let from = start.max(first);
        let settings = around.settings;
        let mut header = Completion {
            tc: request.header.tc,
            ido: request.header.ido,
            relaxed: request.header.relaxed,
            no_snoop: request.header.no_snoop,
            completer: settings.completer,
            requester: request.header.requester,
            tag: other.unwrap_or(request.header.tag),
            byte_count: ((first + bytes - from) % 4096) as u16,
            lower_address: ((request.address() + u64::from(from)) % 128) as u8,
            length: ((end - start) / 4 % 1024) as u16,
            ..Completion::default()
        };
        let faulty = at == self.faulty && other.is_none();
        let mut refused = self.refused;
        if gone || (faulty && self.fault == Some(Fault::StatusInTheMiddle)) {
            refused = Some(CompletionStatus::UnsupportedRequest);
        }
        let mut data = &self.data[start as usize..end as usize];
        if let Some(status) = refused {
            header.status = status.code();
            (header.fmt, header.length) = (0, 0);
            data = &[];
        }
        let random = &mut *around.random;
        match self.fault.filter(|_| faulty && refused.is_none()) {
            Some(Fault::Poisoned) => header.ep = true,
            Some(Fault::WrongByteCount) => header.byte_count ^= random.random_range(1..4096),
            Some(Fault::WrongLowerAddress) => header.lower_address ^= random.random_range(1..128),
            Some(Fault::WrongLength) if header.length > 1 && random.random() => header.length -= 1,
            Some(Fault::WrongLength) => header.length = (header.length + 1) % 1024,
            _ => {}
        }
        packet.extend_from_slice(&header.to_bytes().expect("a completion that fits its header"));
        packet.extend_from_slice(data);
        if other.is_none() {
            self.next += 1;
        }
        refused.is_some() || self.next == self.pieces.len()
    }
}
