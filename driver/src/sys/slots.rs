// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Slots`]: a ring of slots of whole words, for queues.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{after_phase, HostMemory};

/// A ring of a power of two of slots, each of `WORDS` little-endian words. An index counts on round the ring, so none leaves it.
#[derive(Clone)]
pub(crate) struct Slots<const WORDS: usize> {
    start: NonNull<[AtomicU64; WORDS]>,
    /// Slots, less one.
    mask: usize,
    _memory: HostMemory,
}

// SAFETY: it accesses its memory by atomic operations alone, and keeps it.
unsafe impl<const WORDS: usize> Send for Slots<WORDS> {}
// SAFETY: as above.
unsafe impl<const WORDS: usize> Sync for Slots<WORDS> {}

impl<const WORDS: usize> Slots<WORDS> {
    /// `1 << log2` slots, from the first byte of `memory` on.
    ///
    /// # Panics
    /// When they leave the memory, or it does not begin at a multiple of 8.
    pub(crate) fn new(memory: HostMemory, log2: u8) -> Self {
        let bytes = (8 * WORDS) << log2;
        assert!(bytes <= memory.len(), "{bytes} bytes of slots leave a memory of {} bytes", memory.len());
        assert_eq!(memory.address() % 8, 0, "slots are of whole words");
        Self { start: memory.start().cast(), mask: (1 << log2) - 1, _memory: memory }
    }

    #[inline]
    fn slot(&self, index: usize) -> &[AtomicU64; WORDS] {
        // SAFETY: `new` checked that the memory has all slots, aligned, and the mask keeps the index below their number. `HostMemory` is valid for as
        // long as it is kept, and accesses its words by atomics of 8 bytes alone, as is done here.
        unsafe { &*self.start.as_ptr().add(index & self.mask) }
    }

    /// Writes all words of a slot, in any order.
    #[inline]
    pub(crate) fn store(&self, index: usize, words: &[u64; WORDS]) {
        let slot = self.slot(index);
        for (to, word) in slot.iter().zip(words) {
            to.store(word.to_le(), Ordering::Relaxed);
        }
    }

    /// One word.
    #[inline]
    pub(crate) fn word(&self, index: usize, word: usize) -> u64 {
        u64::from_le(self.slot(index)[word].load(Ordering::Relaxed))
    }

    /// All words of a slot, which this process has written.
    #[inline]
    pub(crate) fn load(&self, index: usize) -> [u64; WORDS] {
        let slot = self.slot(index);
        std::array::from_fn(|word| u64::from_le(slot[word].load(Ordering::Relaxed)))
    }

    /// All words of a slot that the card writes, if `is_written` says so of the last one, which it writes last: the others are of the same
    /// entry then.
    #[inline]
    pub(crate) fn entry(&self, index: usize, is_written: impl FnOnce(u64) -> bool) -> Option<[u64; WORDS]> {
        let slot = self.slot(index);
        let last = u64::from_le(slot[WORDS - 1].load(Ordering::Relaxed));
        if !is_written(last) {
            return None;
        }
        after_phase();
        let mut words = [last; WORDS];
        for (word, from) in words.iter_mut().zip(&slot[..WORDS - 1]) {
            *word = u64::from_le(from.load(Ordering::Relaxed));
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_round_the_ring() {
        let memory = HostMemory::zeroed(4096, 4096).unwrap();
        let slots = Slots::<4>::new(memory.slice(64, 128), 2);
        for index in 0..8usize {
            let words = [index as u64, 2, 3, 1 << 63 | index as u64];
            slots.store(index, &words);
            assert_eq!(slots.load(index + 4), words);
            assert_eq!(memory.load_word(64 + 32 * (index % 4)), index as u64);
            assert_eq!(slots.word(index, 3), words[3]);
            assert_eq!(slots.entry(index, |last| last >> 63 == 1), Some(words));
            assert_eq!(slots.entry(index, |last| last >> 63 == 0), None);
        }
        assert_eq!((memory.load_word(56), memory.load_word(192)), (0, 0));
        drop(memory);
        assert_eq!(slots.load(3)[0], 7);
    }

    #[test]
    #[should_panic(expected = "leave a memory")]
    fn slots_that_leave_the_memory_panic() {
        Slots::<8>::new(HostMemory::zeroed(4095, 4096).unwrap(), 6);
    }
}
