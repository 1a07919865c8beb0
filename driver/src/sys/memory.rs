// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`HostMemory`]: memory that a card may read and write at any time.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::fmt;
use std::ops::Range;
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

/// What was given once, and is shown by many.
struct Owned {
    owner: Owner,
    /// Addresses of the aligned words in it, which are accessed as words alone. What is before and after is accessed byte by byte.
    words: Range<usize>,
}

/// A run of bytes that host and card share. Clones and [slices](Self::slice) show the same bytes and keep
/// them alive.
///
/// No reference into it is ever made: a card, another thread or another process may change it at any
/// time. Bytes go in and out by copies, done with relaxed atomic operations, so an aligned word of 8 bytes is never torn. Order
/// against doorbells and phase bits is made with [`before_doorbell`](super::before_doorbell) and
/// [`after_phase`](super::after_phase).
///
/// **Each address is accessed in one width**, whatever the alignment of a slice or a copy: Rust's memory model calls unsynchronised atomic accesses
/// of two widths a race. Words are 8 bytes at multiples of 8. Part of a word is read by a load of the word, and written by a compare and
/// exchange that leaves its other bytes alone. Memory that was [given](Self::from_raw) from or to the middle of a word has the bytes of that word
/// accessed one by one, by all.
///
/// Offsets are in bytes. A range that leaves the memory panics, as it does for a slice.
#[derive(Clone)]
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    owned: Arc<Owned>,
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
        let layout = Layout::from_size_align(bytes.checked_next_multiple_of(8)?, align.max(8)).ok()?;
        if bytes == 0 {
            return None;
        }
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { bytes, ..Self::of(start, layout.size(), Owner::Heap { start, layout }) })
    }

    fn of(start: NonNull<u8>, bytes: usize, owner: Owner) -> Self {
        let from = start.as_ptr() as usize;
        let words = from.next_multiple_of(8)..(from + bytes) & !7;
        Self { start, bytes, owned: Arc::new(Owned { owner, words }) }
    }

    /// Memory that the caller has, for instance a mapping of huge pages. `owner` is dropped when no
    /// [`HostMemory`] shows it any more, and may then release it.
    ///
    /// # Safety
    /// From now until `owner` is dropped, the `bytes` bytes at `start` must be valid for reads and writes
    /// from any thread, and nobody may hold a `&` or `&mut` to them while a card has rights to them. While this memory is copied to or from, or a card
    /// in this process uses it, other accesses of the same bytes must be synchronised with that, or be atomic in the same width: 8 bytes for the
    /// aligned words that lie in the range, one byte for those before and after. So ranges that overlap, given apart, must not be in use at
    /// once if one ends inside a word of the other.
    pub unsafe fn from_raw(start: NonNull<u8>, bytes: usize, owner: Box<dyn Send + Sync>) -> Self {
        Self::of(start, bytes, Owner::Foreign(owner))
    }

    /// The same for a mapping, which ends with the last [`HostMemory`] that shows any of it.
    ///
    /// # Safety
    /// As of [`from_raw`](Self::from_raw).
    pub(super) unsafe fn from_shared(start: NonNull<u8>, bytes: usize, mapping: Mapping) -> Self {
        Self::of(start, bytes, Owner::Shared(mapping))
    }

    /// The file of memory that was made to be [`shared`](Self::shared), and where in it the first byte is.
    pub fn shared_file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        match &self.owned.owner {
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
        Self { start, bytes, owned: Arc::clone(&self.owned) }
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
        self.read_part(from, head);
        // SAFETY: `at` checked the range, whose first bytes these are.
        from = unsafe { from.add(head.len()) };
        for word in words.chunks_exact_mut(8) {
            // SAFETY: behind the head, `from` is aligned; the range has a word more; valid as the constructors promise.
            let value = unsafe { AtomicU64::from_ptr(from.as_ptr().cast()) }.load(Ordering::Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
            // SAFETY: by the word that was taken.
            from = unsafe { from.add(8) };
        }
        self.read_part(from, tail);
    }

    /// Copies bytes out that lie in one word, and are not all of it. The caller has checked that they are there.
    fn read_part(&self, mut from: NonNull<u8>, out: &mut [u8]) {
        match self.whole(from, out.len()) {
            Whole::Nothing => {}
            Whole::Word(word, place) => {
                let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
                out.copy_from_slice(&bytes[place..][..out.len()]);
            }
            Whole::Bytes => {
                for byte in out {
                    // SAFETY: the caller checked the range, of which one byte is taken; valid as the constructors promise.
                    (*byte, from) =
                        unsafe { (AtomicU8::from_ptr(from.as_ptr()).load(Ordering::Relaxed), from.add(1)) };
                }
            }
        }
    }

    /// Copies bytes in, from the first to the last: a word becomes visible behind those before it, as a card's do.
    ///
    /// # Panics
    /// When the range leaves the memory.
    #[track_caller]
    pub fn write(&self, offset: usize, data: &[u8]) {
        let mut to = self.at(offset, data.len());
        let (head, data) = data.split_at(before_word(to).min(data.len()));
        let (words, tail) = data.split_at(data.len() & !7);
        self.write_part(to, head, |_| true);
        // SAFETY: `at` checked the range, whose first bytes these are.
        to = unsafe { to.add(head.len()) };
        for word in words.chunks_exact(8) {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            // SAFETY: behind the head, `to` is aligned; the range has a word more; valid as the constructors promise.
            to = unsafe {
                AtomicU64::from_ptr(to.as_ptr().cast()).store(u64::from_ne_bytes(value), Ordering::Release);
                to.add(8)
            };
        }
        self.write_part(to, tail, |_| true);
    }

    /// Copies bytes in that lie in one word, those of them that are `wanted`. The caller has checked that they are there.
    fn write_part(&self, to: NonNull<u8>, data: &[u8], wanted: impl Fn(usize) -> bool) {
        match self.whole(to, data.len()) {
            Whole::Nothing => {}
            Whole::Word(word, place) => {
                if !(0..data.len()).any(&wanted) {
                    return;
                }
                let merged = |old: u64| {
                    let mut bytes = old.to_ne_bytes();
                    let wanted = data.iter().enumerate().filter(|(i, _)| wanted(*i));
                    wanted.for_each(|(i, byte)| bytes[place + i] = *byte);
                    Some(u64::from_ne_bytes(bytes))
                };
                // It always gives a word, so it does not fail.
                let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, merged);
            }
            Whole::Bytes => {
                for (i, byte) in data.iter().enumerate().filter(|(i, _)| wanted(*i)) {
                    // SAFETY: the caller checked the range, of which this is a byte; valid as the constructors promise.
                    unsafe { AtomicU8::from_ptr(to.add(i).as_ptr()).store(*byte, Ordering::Release) };
                }
            }
        }
    }

    /// How bytes are accessed that lie in one word.
    fn whole(&self, at: NonNull<u8>, bytes: usize) -> Whole<'_> {
        let place = at.as_ptr() as usize % 8;
        let word = at.as_ptr() as usize - place;
        match bytes {
            0 => Whole::Nothing,
            _ if self.owned.words.start <= word && word < self.owned.words.end => {
                // SAFETY: an aligned word of what the owner has, as was just checked; valid as the constructors promise.
                Whole::Word(unsafe { AtomicU64::from_ptr(at.sub(place).as_ptr().cast()) }, place)
            }
            _ => Whole::Bytes,
        }
    }

    /// Takes over changes that were made elsewhere: bytes that differ between `before` and `now` become those of `now`, and all others stay what they are, even where another
    /// thread writes them meanwhile. An aligned word changes at once, and becomes visible behind those before it.
    ///
    /// # Panics
    /// When the range leaves the memory, or the two have not the same length.
    #[track_caller]
    pub fn merge(&self, offset: usize, before: &[u8], now: &[u8]) {
        assert_eq!(before.len(), now.len(), "what is merged has one length");
        let first = self.at(offset, now.len());
        let mut done = 0;
        while done < now.len() {
            // SAFETY: inside the range that was checked.
            let at = unsafe { first.add(done) };
            let end = now.len().min(done + 8 - at.as_ptr() as usize % 8);
            let (before, now) = (&before[done..end], &now[done..end]);
            self.write_part(at, now, |i| before[i] != now[i]);
            done = end;
        }
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

    /// The first byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
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

/// How bytes of one word are accessed.
enum Whole<'a> {
    /// There are none.
    Nothing,
    /// By the word, in which they begin at this place.
    Word(&'a AtomicU64, usize),
    /// One by one: the word is not all the owner's.
    Bytes,
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
    fn parts_of_words_are_written_by_threads_side_by_side() {
        let memory = HostMemory::zeroed(24, 8).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let memory = memory.slice(1 + 5 * thread, 5);
                scope.spawn(move || (0..20_000u32).for_each(|i| memory.write(0, &[(i % 251) as u8; 5])));
            }
        });
        let mut all = [0; 24];
        memory.read(0, &mut all);
        let last = (19_999 % 251) as u8;
        assert_eq!((all[0], &all[1..21], &all[21..]), (0, &[last; 20][..], &[0; 3][..]));
    }

    #[test]
    fn memory_that_begins_and_ends_inside_words_is_accessed_to_its_bounds() {
        let heap = HostMemory::zeroed(32, 8).unwrap();
        // SAFETY: the owner keeps the heap memory alive, and nothing accesses it meanwhile.
        let foreign = |from: usize, bytes| unsafe {
            HostMemory::from_raw(heap.start.add(from), bytes, Box::new(heap.clone()))
        };
        for from in 0..8 {
            for bytes in 0..20 {
                heap.fill(0, 32, 0xee);
                let memory = foreign(from, bytes);
                let data: Vec<u8> = (0..bytes as u8).collect();
                memory.write(0, &data);
                let mut back = vec![0; bytes];
                memory.read(0, &mut back);
                assert_eq!(back, data, "{bytes} at {from}");
                let mut all = [0xee; 32];
                all[from..from + bytes].copy_from_slice(&data);
                let mut found = [0; 32];
                heap.read(0, &mut found);
                assert_eq!(found, all, "{bytes} at {from}");
                let changed: Vec<u8> = data.iter().map(|byte| byte + byte % 2).collect();
                memory.merge(0, &data, &changed);
                all[from..from + bytes].copy_from_slice(&changed);
                heap.read(0, &mut found);
                assert_eq!(found, all, "{bytes} at {from}");
            }
        }
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
