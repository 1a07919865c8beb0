// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`HostMemory`]: memory that a card may read and write at any time.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

use super::shared::Mapping;

/// Keeps the bytes where they are and valid; dropped with the last [`HostMemory`] that shows any of them.
enum Owner {
    Heap { start: NonNull<u8>, layout: Layout },
    Shared(Mapping),
    Foreign(#[allow(dead_code)] Box<dyn Send + Sync>),
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Owner::Heap { start, layout } = self {
            // SAFETY: `start` came from `alloc_zeroed` with this layout and is freed once, here.
            unsafe { dealloc(start.as_ptr(), *layout) };
        }
    }
}

// SAFETY: a heap owner is used only to free the allocation, which any thread may do; a foreign one is `Send`.
unsafe impl Send for Owner {}
// SAFETY: a shared owner gives access to nothing.
unsafe impl Sync for Owner {}

/// A run of bytes that host and card share. Clones and [slices](Self::slice) show the same bytes and keep
/// them alive.
///
/// No reference into it is ever made: a card, another thread or another process may change it at any
/// time. Bytes go in and out by copies, done with relaxed atomic operations of 8 bytes where an aligned
/// word lies inside the range and of one byte at its ends, so an aligned word is never torn. Order
/// against doorbells and phase bits is made with [`before_doorbell`](super::before_doorbell) and
/// [`after_phase`](super::after_phase).
///
/// Offsets are in bytes. A range that leaves the memory panics, as it does for a slice.
#[derive(Clone)]
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<Owner>,
}

// SAFETY: all access is atomic, and the owner is `Send` and `Sync`.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({:#x}, {} bytes)", self.address(), self.bytes)
    }
}

impl HostMemory {
    /// Zeroed memory from the process's heap, at a multiple of `align` (a power of two; at least 8 is taken).
    ///
    /// `None` when there is no such memory, or when `bytes` is 0 or `align` no power of two.
    pub fn zeroed(bytes: usize, align: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, align.max(8)).ok()?;
        if bytes == 0 {
            return None;
        }
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, bytes, owner: Arc::new(Owner::Heap { start, layout }) })
    }

    /// Memory that the caller has, for instance a mapping of huge pages. `owner` is dropped when no
    /// [`HostMemory`] shows it any more, and may then release it.
    ///
    /// # Safety
    /// From now until `owner` is dropped, the `bytes` bytes at `start` must be valid for reads and writes
    /// from any thread, and nobody may hold a `&` or `&mut` to them while a card has rights to them, or
    /// access them in a way that is not atomic while a card or another user of this memory may write them.
    pub unsafe fn from_raw(start: NonNull<u8>, bytes: usize, owner: Box<dyn Send + Sync>) -> Self {
        Self { start, bytes, owner: Arc::new(Owner::Foreign(owner)) }
    }

    /// The same for a mapping, which ends with the last [`HostMemory`] that shows any of it.
    ///
    /// # Safety
    /// As of [`from_raw`](Self::from_raw).
    pub(super) unsafe fn from_shared(start: NonNull<u8>, bytes: usize, mapping: Mapping) -> Self {
        Self { start, bytes, owner: Arc::new(Owner::Shared(mapping)) }
    }

    /// The file of memory that was made to be [`shared`](Self::shared), and where in it the first byte is.
    pub fn shared_file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        match &*self.owner {
            Owner::Shared(mapping) => {
                Some((mapping.file.as_ref()?.as_fd(), self.address() - mapping.address()))
            }
            _ => None,
        }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Virtual address of the first byte in this process.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as usize as u64
    }

    /// Part of it.
    ///
    /// # Panics
    /// When the range leaves the memory.
    #[track_caller]
    pub fn slice(&self, offset: usize, bytes: usize) -> Self {
        let start = self.at(offset, bytes);
        Self { start, bytes, owner: Arc::clone(&self.owner) }
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// When the range leaves the memory.
    #[track_caller]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let mut from = self.at(offset, out.len());
        let (head, out) = out.split_at_mut(before_word(from).min(out.len()));
        let (words, tail) = out.split_at_mut(out.len() & !7);
        for byte in head {
            // SAFETY: `at` checked the range, of which one byte is taken; valid as the constructors promise.
            (*byte, from) =
                unsafe { (AtomicU8::from_ptr(from.as_ptr()).load(Ordering::Relaxed), from.add(1)) };
        }
        for word in words.chunks_exact_mut(8) {
            // SAFETY: behind the head, `from` is aligned; the range has a word more; valid as the constructors promise.
            let value = unsafe { AtomicU64::from_ptr(from.as_ptr().cast()) }.load(Ordering::Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
            // SAFETY: by the word that was taken.
            from = unsafe { from.add(8) };
        }
        for byte in tail {
            // SAFETY: as of the head.
            (*byte, from) =
                unsafe { (AtomicU8::from_ptr(from.as_ptr()).load(Ordering::Relaxed), from.add(1)) };
        }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// When the range leaves the memory.
    #[track_caller]
    pub fn write(&self, offset: usize, data: &[u8]) {
        let mut to = self.at(offset, data.len());
        let (head, data) = data.split_at(before_word(to).min(data.len()));
        let (words, tail) = data.split_at(data.len() & !7);
        for byte in head {
            // SAFETY: `at` checked the range, of which one byte is taken; valid as the constructors promise.
            to = unsafe {
                AtomicU8::from_ptr(to.as_ptr()).store(*byte, Ordering::Relaxed);
                to.add(1)
            };
        }
        for word in words.chunks_exact(8) {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            // SAFETY: behind the head, `to` is aligned; the range has a word more; valid as the constructors promise.
            to = unsafe {
                AtomicU64::from_ptr(to.as_ptr().cast()).store(u64::from_ne_bytes(value), Ordering::Relaxed);
                to.add(8)
            };
        }
        for byte in tail {
            // SAFETY: as of the head.
            to = unsafe {
                AtomicU8::from_ptr(to.as_ptr()).store(*byte, Ordering::Relaxed);
                to.add(1)
            };
        }
    }

    /// Takes over what somebody else has changed elsewhere: bytes that differ between `before` and `now` become those of `now`, and all others stay what they are, even where another
    /// thread writes them meanwhile. An aligned word changes at once, and becomes visible behind those before it.
    ///
    /// # Panics
    /// When the range leaves the memory, or the two have not the same length.
    #[track_caller]
    pub fn merge(&self, offset: usize, before: &[u8], now: &[u8]) {
        assert_eq!(before.len(), now.len(), "what is merged has one length");
        let mut at = offset;
        let first = self.at(offset, now.len());
        let head = before_word(first).min(now.len());
        let words = head + ((now.len() - head) & !7);
        let byte = |i: usize| {
            if before[i] != now[i] {
                let to = self.at(offset + i, 1);
                // SAFETY: `at` checked the range of one byte; valid as the constructors promise.
                unsafe { AtomicU8::from_ptr(to.as_ptr()) }.store(now[i], Ordering::Release);
            }
        };
        (0..head).for_each(byte);
        at += head;
        for (before, now) in before[head..words].chunks_exact(8).zip(now[head..words].chunks_exact(8)) {
            if before != now {
                // SAFETY: `word` checked bounds and alignment; valid as the constructors promise.
                let word = unsafe { AtomicU64::from_ptr(self.word(at)) };
                let merged = |word: u64| {
                    let mut bytes = word.to_ne_bytes();
                    for (byte, (before, now)) in bytes.iter_mut().zip(before.iter().zip(now)) {
                        if before != now {
                            *byte = *now;
                        }
                    }
                    Some(u64::from_ne_bytes(bytes))
                };
                // It always gives a word, so it does not fail.
                let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, merged);
            }
            at += 8;
        }
        (words..now.len()).for_each(byte);
    }

    /// Sets every byte of a range.
    ///
    /// # Panics
    /// When the range leaves the memory.
    #[track_caller]
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) {
        let block = [value; 64];
        let mut done = 0;
        while done < bytes {
            let step = (bytes - done).min(block.len());
            self.write(offset + done, &block[..step]);
            done += step;
        }
    }

    /// The little-endian 64-bit word at `offset`, in one load.
    ///
    /// # Panics
    /// When it lies outside, or its address is not a multiple of 8.
    #[track_caller]
    pub fn load_word(&self, offset: usize) -> u64 {
        // SAFETY: `word` checked bounds and alignment; valid as the constructors promise.
        u64::from_le(unsafe { AtomicU64::from_ptr(self.word(offset)) }.load(Ordering::Acquire))
    }

    /// Stores a little-endian 64-bit word at `offset`, in one store that stays behind those before it.
    ///
    /// # Panics
    /// When it lies outside, or its address is not a multiple of 8.
    #[track_caller]
    pub fn store_word(&self, offset: usize, value: u64) {
        // SAFETY: `word` checked bounds and alignment; valid as the constructors promise.
        unsafe { AtomicU64::from_ptr(self.word(offset)) }.store(value.to_le(), Ordering::Release);
    }

    #[track_caller]
    fn word(&self, offset: usize) -> *mut u64 {
        let at = self.at(offset, 8);
        assert!(
            at.as_ptr() as usize % 8 == 0,
            "word at {:#x} is not aligned to 8 bytes",
            at.as_ptr() as usize
        );
        at.as_ptr().cast()
    }

    #[track_caller]
    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        assert!(
            offset <= self.bytes && bytes <= self.bytes - offset,
            "{bytes} bytes at {offset} leave a memory of {} bytes",
            self.bytes
        );
        // SAFETY: inside the memory, or one behind its last byte.
        unsafe { self.start.add(offset) }
    }
}

/// Bytes before the next aligned word.
fn before_word(at: NonNull<u8>) -> usize {
    (at.as_ptr() as usize).wrapping_neg() & 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_at_every_alignment_touch_their_range_only() {
        let memory = HostMemory::zeroed(64, 64).unwrap();
        for offset in 0..24 {
            for bytes in 0..33 {
                memory.fill(0, 64, 0xee);
                let data: Vec<u8> = (0..bytes as u8).map(|b| b ^ offset as u8).collect();
                memory.write(offset, &data);
                let mut back = [0; 64];
                memory.read(0, &mut back);
                let mut expected = [0xee; 64];
                expected[offset..offset + bytes].copy_from_slice(&data);
                assert_eq!(back, expected, "{bytes} bytes at {offset}");
                let mut part = vec![0; bytes];
                memory.read(offset, &mut part);
                assert_eq!(part, data);
            }
        }
    }

    #[test]
    fn a_merge_changes_what_differs_and_nothing_else() {
        let memory = HostMemory::zeroed(64, 64).unwrap();
        for offset in 0..9 {
            for bytes in 0..33 {
                let own: Vec<u8> = (0..64).collect();
                memory.write(0, &own);
                let before: Vec<u8> = (0..bytes as u8).map(|i| i * 3).collect();
                let mut now = before.clone();
                now.iter_mut().step_by(3).for_each(|byte| *byte ^= 0x80);
                memory.merge(offset, &before, &now);
                let mut expected = own;
                (0..bytes).step_by(3).for_each(|i| expected[offset + i] = now[i]);
                let mut back = [0; 64];
                memory.read(0, &mut back);
                assert_eq!(back[..], expected, "{bytes} bytes at {offset}");
            }
        }
    }

    #[test]
    fn a_merge_leaves_what_another_thread_writes() {
        let memory = HostMemory::zeroed(8, 8).unwrap();
        let other = memory.clone();
        let writer = std::thread::spawn(move || {
            (0..20_000u32).for_each(|i| (0..4).for_each(|k| other.write(k, &i.to_le_bytes()[k..=k])));
        });
        for i in 0..20_000u32 {
            let word = |i: u32| [[0; 4], i.to_le_bytes()].concat();
            memory.merge(0, &word(i), &word(i + 1));
        }
        writer.join().unwrap();
        let both = u64::from(20_000u32) << 32 | 19_999;
        assert_eq!(memory.load_word(0), both);
    }

    #[test]
    fn words_are_little_endian_and_slices_share_them() {
        let memory = HostMemory::zeroed(32, 8).unwrap();
        let slice = memory.slice(8, 16);
        slice.store_word(8, 0x0102_0304_0506_0708);
        let mut bytes = [0; 8];
        memory.read(16, &mut bytes);
        assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1]);
        drop(memory);
        assert_eq!(slice.load_word(8), 0x0102_0304_0506_0708);
    }

    #[test]
    #[should_panic(expected = "leave a memory")]
    fn a_range_that_leaves_the_memory_panics() {
        HostMemory::zeroed(32, 8).unwrap().read(30, &mut [0; 3]);
    }

    #[test]
    fn a_foreign_owner_lives_as_long_as_the_last_slice() {
        let mark = Arc::new(());
        let heap = HostMemory::zeroed(64, 8).unwrap();
        // SAFETY: the owner keeps the heap memory alive.
        let foreign =
            unsafe { HostMemory::from_raw(heap.start, 64, Box::new((heap.clone(), Arc::clone(&mark)))) };
        let slice = foreign.slice(1, 2);
        drop(foreign);
        assert_eq!(Arc::strong_count(&mark), 2);
        drop(slice);
        assert_eq!(Arc::strong_count(&mark), 1);
    }
}
