// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Copies`]: on-board memory, what this process has of it, and what is to be carried to make both the same.
//!
//! ```text
//!  program --- HostMemory <-- merge ---+       +--- dirty blocks <--- board
//!                  |                   |       |
//!                  +---- compare --- known <---+
//!                           |
//!                           +--> writes of what differs ---> board
//! ```
//!
//! `known` is what was last known of the board's bytes. Where the program's copy differs from it, the program has written; where the board's bytes do, the card has. So bytes that both keep in one word, or one block,
//! do not overwrite each other.
//!
//! It has no line: it says what to ask for, and is told the answers.

use std::collections::BTreeMap;
use std::ops::Range;

use super::frame::Request;
use crate::bus::BusError;
use crate::spec::serial::{Command, BLOCK, DIRTY_BYTES};
use crate::sys::HostMemory;

/// Bytes of a page, in which memory is given out: a power of two.
pub const PAGE: usize = 4096;

const BLOCK_BYTES: usize = BLOCK as usize;

/// Blocks that one request can ask for.
const BLOCKS_ASKED: usize = 8 * DIRTY_BYTES as usize;

/// What the order of reads depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Queues: what is in them tells of data.
    Queue,
    /// Data.
    Data,
}

/// Memory that the card can reach.
struct Region {
    kind: Kind,
    memory: HostMemory,
    /// Place of the first byte in its page.
    within: usize,
    /// Where in on-board memory each page is.
    pages: Vec<usize>,
}

impl Region {
    /// Its pieces: where on the board, and where in the copy.
    fn pieces(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let end = self.within + self.memory.len();
        self.pages.iter().enumerate().map(move |(i, page)| {
            let (from, to) = ((i * PAGE).max(self.within), ((i + 1) * PAGE).min(end));
            (page + (from - i * PAGE), from - self.within..to - self.within)
        })
    }

    /// The same, cut at blocks: block, place in it, place in the copy.
    fn blocks(&self) -> impl Iterator<Item = (usize, usize, Range<usize>)> + '_ {
        self.pieces().flat_map(|(board, copy)| {
            let end = board + copy.len();
            (board / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |block| {
                let from = (block * BLOCK_BYTES).max(board);
                let to = ((block + 1) * BLOCK_BYTES).min(end);
                let at = copy.start + (from - board);
                (block, from - block * BLOCK_BYTES, at..at + (to - from))
            })
        })
    }
}

/// On-board memory, and copies of it.
pub struct Copies {
    base: u32,
    /// What was last known of the board's bytes.
    known: Vec<u8>,
    /// Of each block, whether that is right but for what the card writes.
    certain: Vec<bool>,
    /// Of each block, whether the card has written it since.
    dirty: Vec<bool>,
    /// Of each page, whether it is given out.
    taken: Vec<bool>,
    regions: BTreeMap<u64, Region>,
    next: u64,
}

impl Copies {
    /// Nothing is known of a memory of whole pages.
    pub fn new(base: u32, bytes: usize) -> Self {
        let (blocks, pages) = (bytes / BLOCK_BYTES, bytes / PAGE);
        Self {
            base,
            known: vec![0; bytes],
            certain: vec![false; blocks],
            dirty: vec![false; blocks],
            taken: vec![false; pages],
            regions: BTreeMap::new(),
            next: 1,
        }
    }

    /// Bus address of a place in on-board memory.
    fn address(&self, at: usize) -> u32 {
        self.base + at as u32
    }

    fn none(&self, bytes: usize, align: usize) -> BusError {
        let free = self.taken.iter().filter(|taken| !**taken).count() * PAGE;
        let (bytes, align) = (bytes as u64, align as u64);
        BusError::BoardMemory { bytes, align, free: free as u64, all: self.known.len() as u64 }
    }

    /// Pages in a row, the first of them at a multiple of `align`. Returns the region and its bus address.
    pub fn take_queue(&mut self, memory: HostMemory, align: usize) -> Result<(u64, u64), BusError> {
        let (pages, align) = (memory.len().div_ceil(PAGE), align.max(PAGE));
        let fits = |first: &usize| {
            (self.base as usize + first * PAGE) % align == 0
                && self.taken.get(*first..first + pages).is_some_and(|row| row.iter().all(|taken| !taken))
        };
        let first = (0..self.taken.len()).find(fits).ok_or_else(|| self.none(memory.len(), align))?;
        let pages = (first..first + pages).map(|page| page * PAGE).collect();
        Ok((self.insert(Kind::Queue, memory, 0, pages), self.address(first * PAGE).into()))
    }

    /// Any pages for memory that keeps its place in a page. Returns the region and the pages' bus addresses.
    pub fn take_data(&mut self, memory: HostMemory) -> Result<(u64, Vec<u64>), BusError> {
        let within = memory.address() as usize % PAGE;
        let count = (within + memory.len()).div_ceil(PAGE);
        let free = (0..self.taken.len()).filter(|page| !self.taken[*page]);
        let pages: Vec<usize> = free.take(count).map(|page| page * PAGE).collect();
        if pages.len() < count {
            return Err(self.none(memory.len(), PAGE));
        }
        let addresses = pages.iter().map(|page| self.address(*page).into()).collect();
        Ok((self.insert(Kind::Data, memory, within, pages), addresses))
    }

    fn insert(&mut self, kind: Kind, memory: HostMemory, within: usize, pages: Vec<usize>) -> u64 {
        pages.iter().for_each(|page| self.taken[page / PAGE] = true);
        let id = self.next;
        self.next += 1;
        self.regions.insert(id, Region { kind, memory, within, pages });
        id
    }

    /// The region of a queue at a bus address.
    pub fn queue_at(&self, address: u64) -> Option<u64> {
        let of = |region: &Region| region.pages.first().map(|page| u64::from(self.address(*page)));
        let mut queues = self.regions.iter().filter(|(_, region)| region.kind == Kind::Queue);
        queues.find(|(_, region)| of(region) == Some(address)).map(|(id, _)| *id)
    }

    /// Gives its pages back. Whether there was such a region.
    pub fn give_back(&mut self, id: u64) -> bool {
        let Some(region) = self.regions.remove(&id) else { return false };
        region.pages.iter().for_each(|page| self.taken[page / PAGE] = false);
        true
    }

    /// Whether nothing is given out.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Asks for the blocks that the card has written, of pages that are given out: each request, and the first of its blocks.
    pub fn scans(&self) -> Vec<(Request, usize)> {
        const PAGES: usize = BLOCKS_ASKED * BLOCK_BYTES / PAGE;
        let asked = self.taken.chunks(PAGES).enumerate().filter_map(|(i, pages)| {
            // Words of 64 blocks, from the first that has a page to the last.
            let last = pages.iter().rposition(|taken| *taken)?;
            let blocks = (last + 1) * PAGE / BLOCK_BYTES;
            let (first, bytes) = (i * BLOCKS_ASKED, blocks.div_ceil(64) * 8);
            Some((Request::read(Command::Dirty, first as u32, bytes as u16), first))
        });
        asked.collect()
    }

    /// The answer.
    pub fn scanned(&mut self, first: usize, bits: &[u8]) {
        let dirty = self.dirty.get_mut(first..).unwrap_or_default();
        for (i, dirty) in dirty.iter_mut().enumerate().take(8 * bits.len()) {
            *dirty |= bits[i / 8] >> (i % 8) & 1 == 1;
        }
    }

    /// Blocks of regions of a kind that the card has written. They count as read from now on.
    pub fn take_dirty(&mut self, kind: Kind) -> Vec<usize> {
        let of_kind = self.regions.values().filter(|region| region.kind == kind);
        let mut blocks: Vec<usize> =
            of_kind.flat_map(|region| region.blocks().map(|(block, ..)| block)).collect();
        blocks.retain(|block| std::mem::take(&mut self.dirty[*block]));
        blocks
    }

    /// Reads a block.
    pub fn read(&self, block: usize) -> Request {
        Request::read(Command::Read, self.address(block * BLOCK_BYTES), BLOCK as u16)
    }

    /// Whether a block is other than what was known.
    pub fn differs(&self, block: usize, bytes: &[u8]) -> bool {
        &self.known[block * BLOCK_BYTES..][..BLOCK_BYTES] != bytes
    }

    /// A block as it was read: the program sees what the card has changed, and keeps what itself has elsewhere.
    pub fn merge(&mut self, block: usize, bytes: &[u8]) {
        let known = &mut self.known[block * BLOCK_BYTES..][..BLOCK_BYTES];
        for region in self.regions.values() {
            for (_, at, copy) in region.blocks().filter(|(of, ..)| *of == block) {
                let part = at..at + copy.len();
                region.memory.merge(copy.start, &known[part.clone()], &bytes[part]);
            }
        }
        known.copy_from_slice(bytes);
    }

    /// Writes what a new region has to the board, whatever was there.
    pub fn fill(&mut self, id: u64) -> Vec<Request> {
        let Some(region) = self.regions.get(&id) else { return Vec::new() };
        let mut requests = Vec::new();
        let mut wanted = vec![0; BLOCK_BYTES];
        for (block, at, copy) in region.blocks() {
            let place = block * BLOCK_BYTES;
            let trusted = std::mem::replace(&mut self.certain[block], true) && !self.dirty[block];
            self.dirty[block] = false;
            let known = &mut self.known[place..place + BLOCK_BYTES];
            wanted.fill(0);
            region.memory.read(copy.start, &mut wanted[at..at + copy.len()]);
            if trusted && known == wanted {
                continue;
            }
            let address = self.base + place as u32;
            requests.push(match wanted.iter().all(|byte| *byte == 0) {
                true => Request::read(Command::Clear, address, BLOCK as u16),
                false => Request::write(Command::Write, address, &wanted),
            });
            known.copy_from_slice(&wanted);
        }
        requests
    }

    /// Whether programs have changed something in regions of a kind.
    pub fn changed(&self, kind: Kind) -> bool {
        let mut now = vec![0; BLOCK_BYTES];
        let mut blocks = self.regions.values().filter(|region| region.kind == kind).flat_map(|region| {
            region.blocks().map(move |(block, at, copy)| (region, block * BLOCK_BYTES + at, copy))
        });
        blocks.any(|(region, place, copy)| {
            let now = &mut now[..copy.len()];
            region.memory.read(copy.start, now);
            now != &self.known[place..place + copy.len()]
        })
    }

    /// Writes what programs have changed.
    pub fn changes(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        let mut now = vec![0; BLOCK_BYTES];
        for region in self.regions.values() {
            for (block, at, copy) in region.blocks() {
                let place = block * BLOCK_BYTES + at;
                let now = &mut now[..copy.len()];
                region.memory.read(copy.start, now);
                let known = &mut self.known[place..place + copy.len()];
                if now == known {
                    continue;
                }
                // Runs of bytes that differ. What is between them may be the card's to write.
                let mut from = 0;
                while let Some(first) = (from..now.len()).find(|i| now[*i] != known[*i]) {
                    let end = (first..now.len()).find(|i| now[*i] == known[*i]).unwrap_or(now.len());
                    let address = self.base + (place + first) as u32;
                    requests.push(Request::write(Command::Write, address, &now[first..end]));
                    from = end;
                }
                known.copy_from_slice(now);
            }
        }
        requests
    }
}
