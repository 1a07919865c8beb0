// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that the card writes: entries with a phase bit as their last bit.

use std::sync::Arc;

use crate::error::Result;
use crate::handle::{BusHandle, OwnedDma};
use crate::sys::{after_phase, HostMemory};

/// Phase of the entries of pass `n` through a ring: 1 on the first, then alternating.
const fn phase_of_pass(n: u32) -> bool {
    n & 1 == 0
}

/// The bytes of such a ring, with entries of `BYTES`, for who reads it.
#[derive(Clone)]
pub(crate) struct Entries<const BYTES: usize> {
    memory: HostMemory,
    log2: u8,
    /// Bit of the entry that holds the phase.
    phase_bit: u16,
}

impl<const BYTES: usize> Entries<BYTES> {
    /// The index behind the last entry that the card has written from `consumer` on: it writes in order.
    pub(crate) fn written(&self, consumer: u32) -> u32 {
        let mut index = consumer;
        while index.wrapping_sub(consumer) < 1 << self.log2 && self.is_written(index) {
            index = index.wrapping_add(1);
        }
        index
    }

    /// An entry, if the card has written it.
    pub(crate) fn get(&self, index: u32) -> Option<[u8; BYTES]> {
        if !self.is_written(index) {
            return None;
        }
        after_phase();
        let mut entry = [0; BYTES];
        self.memory.read(self.offset(index), &mut entry);
        Some(entry)
    }

    fn is_written(&self, index: u32) -> bool {
        let word = self.memory.load_word(self.offset(index) + usize::from(self.phase_bit / 64) * 8);
        (word >> (self.phase_bit % 64) & 1 == 1) == phase_of_pass(index >> self.log2)
    }

    fn offset(&self, index: u32) -> usize {
        (index as usize & ((1 << self.log2) - 1)) * BYTES
    }
}

/// The host's side of such a ring: its memory, and how far it is read.
pub(crate) struct EntryRing<const BYTES: usize> {
    dma: OwnedDma,
    entries: Entries<BYTES>,
    consumer: u32,
}

impl<const BYTES: usize> EntryRing<BYTES> {
    /// `1 << log2` zeroed entries, whose phase is at `phase_bit`.
    pub(crate) fn alloc(bus: &Arc<BusHandle>, log2: u8, phase_bit: u16) -> Result<Self> {
        let dma = OwnedDma::alloc(bus, BYTES << log2)?;
        let entries = Entries { memory: dma.memory().clone(), log2, phase_bit };
        Ok(Self { dma, entries, consumer: 0 })
    }

    pub(crate) fn bus_address(&self) -> u64 {
        self.dma.bus_address()
    }

    /// Its bytes, which go back to the bus with the ring all the same.
    pub(crate) fn entries(&self) -> &Entries<BYTES> {
        &self.entries
    }

    /// Entries taken, modulo 2^32.
    pub(crate) fn consumer(&self) -> u32 {
        self.consumer
    }

    /// The index behind the last entry that the card has written.
    pub(crate) fn written(&self) -> u32 {
        self.entries.written(self.consumer)
    }

    /// The next entry, if the card has written it.
    pub(crate) fn take(&mut self) -> Option<[u8; BYTES]> {
        let entry = self.entries.get(self.consumer)?;
        self.consumer = self.consumer.wrapping_add(1);
        Some(entry)
    }

    pub(crate) fn leak(&mut self) {
        self.dma.leak();
    }
}
