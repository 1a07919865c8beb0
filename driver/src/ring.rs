// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that the card writes: entries with a phase bit as their last bit.

use std::sync::Arc;

use ferrowire_spec::Field;

use crate::error::Result;
use crate::handle::{BusHandle, OwnedDma};
use crate::sys::Slots;

/// The words of such a ring, with entries of `WORDS`, for who reads it.
#[derive(Clone)]
pub(crate) struct Entries<const WORDS: usize> {
    slots: Slots<WORDS>,
    log2: u8,
}

impl<const WORDS: usize> Entries<WORDS> {
    /// The index behind the last entry that the card has written from `consumer` on: it writes in order.
    pub(crate) fn written(&self, consumer: u32) -> u32 {
        let mut index = consumer;
        while index.wrapping_sub(consumer) < 1 << self.log2 && self.is_there(index) {
            index = index.wrapping_add(1);
        }
        index
    }

    /// Entries that the card has written from `consumer` on, up to `most`.
    pub(crate) fn ahead(&self, consumer: u32, most: u32) -> u32 {
        let mut count = 0;
        while count < most && self.is_there(consumer.wrapping_add(count)) {
            count += 1;
        }
        count
    }

    /// Whether the card has written an entry.
    #[inline]
    pub(crate) fn is_there(&self, index: u32) -> bool {
        self.is_written(index, self.slots.word(index as usize, WORDS - 1))
    }

    /// An entry, if the card has written it.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<[u64; WORDS]> {
        self.slots.entry(index as usize, |last| self.is_written(index, last))
    }

    /// The phase, the last bit of an entry, is 1 on the first pass through the ring, then alternates.
    #[inline]
    fn is_written(&self, index: u32, last: u64) -> bool {
        (last >> 63 ^ u64::from(index >> self.log2)) & 1 == 1
    }
}

/// The host's side of such a ring: its memory, and how far it is read.
pub(crate) struct EntryRing<const WORDS: usize> {
    dma: OwnedDma,
    entries: Entries<WORDS>,
    consumer: u32,
}

impl<const WORDS: usize> EntryRing<WORDS> {
    /// `1 << log2` zeroed entries, whose phase is their last bit.
    pub(crate) fn alloc(bus: &Arc<BusHandle>, log2: u8, phase: &Field) -> Result<Self> {
        assert_eq!((phase.end(), phase.width), (64 * WORDS, 1), "the phase is the last bit of an entry");
        let dma = OwnedDma::alloc(bus, (8 * WORDS) << log2)?;
        let entries = Entries { slots: Slots::new(dma.memory().clone(), log2), log2 };
        Ok(Self { dma, entries, consumer: 0 })
    }

    pub(crate) fn bus_address(&self) -> u64 {
        self.dma.bus_address()
    }

    /// Its words, which go back to the bus with the ring all the same.
    pub(crate) fn entries(&self) -> &Entries<WORDS> {
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
    pub(crate) fn take(&mut self) -> Option<[u64; WORDS]> {
        let entry = self.entries.get(self.consumer)?;
        self.consumer = self.consumer.wrapping_add(1);
        Some(entry)
    }

    pub(crate) fn leak(&mut self) {
        self.dma.leak();
    }
}
