// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that the card writes: entries with a phase bit as their last bit.

use std::sync::Arc;

use crate::error::Result;
use crate::handle::{BusHandle, OwnedDma};
use crate::sys::after_phase;

/// Phase of the entries of pass `n` through a ring: 1 on the first, then alternating.
const fn phase_of_pass(n: u32) -> bool {
    n & 1 == 0
}

/// The host's side of such a ring, with entries of `BYTES`.
pub(crate) struct EntryRing<const BYTES: usize> {
    dma: OwnedDma,
    log2: u8,
    /// Bit of the entry that holds the phase.
    phase_bit: u16,
    consumer: u32,
}

impl<const BYTES: usize> EntryRing<BYTES> {
    /// `1 << log2` zeroed entries, whose phase is at `phase_bit`.
    pub(crate) fn alloc(bus: &Arc<BusHandle>, log2: u8, phase_bit: u16) -> Result<Self> {
        Ok(Self { dma: OwnedDma::alloc(bus, BYTES << log2)?, log2, phase_bit, consumer: 0 })
    }

    pub(crate) fn bus_address(&self) -> u64 {
        self.dma.bus_address()
    }

    /// Entries taken, modulo 2^32.
    pub(crate) fn consumer(&self) -> u32 {
        self.consumer
    }

    /// The index behind the last entry that the card has written: it writes in order.
    pub(crate) fn written(&self) -> u32 {
        let mut index = self.consumer;
        while index.wrapping_sub(self.consumer) < 1 << self.log2 && self.is_written(index) {
            index = index.wrapping_add(1);
        }
        index
    }

    /// The next entry, if the card has written it.
    pub(crate) fn take(&mut self) -> Option<[u8; BYTES]> {
        if !self.is_written(self.consumer) {
            return None;
        }
        after_phase();
        let mut entry = [0; BYTES];
        self.dma.memory().read(self.offset(self.consumer), &mut entry);
        self.consumer = self.consumer.wrapping_add(1);
        Some(entry)
    }

    /// An entry that the card has written, and that was not taken.
    pub(crate) fn peek(&self, index: u32) -> [u8; BYTES] {
        after_phase();
        let mut entry = [0; BYTES];
        self.dma.memory().read(self.offset(index), &mut entry);
        entry
    }

    pub(crate) fn leak(&mut self) {
        self.dma.leak();
    }

    fn is_written(&self, index: u32) -> bool {
        let word = self.dma.memory().load_word(self.offset(index) + usize::from(self.phase_bit / 64) * 8);
        (word >> (self.phase_bit % 64) & 1 == 1) == phase_of_pass(index >> self.log2)
    }

    fn offset(&self, index: u32) -> usize {
        (index as usize & ((1 << self.log2) - 1)) * BYTES
    }
}
