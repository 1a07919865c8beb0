// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`MappedBar`]: registers that this process reaches by loads and stores.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Part of BAR 0, from its first byte on, mapped into this process. Clones show the same registers and keep the mapping.
///
/// Each access is one load or store of its size, which the compiler neither leaves out nor moves against another such access. Values
/// are little-endian, as PCI has them. Order against host memory is made with [`before_doorbell`](super::before_doorbell).
#[derive(Clone)]
pub struct MappedBar {
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<dyn Send + Sync>,
}

// SAFETY: registers may be reached from any thread, and the owner is `Send` and `Sync`.
unsafe impl Send for MappedBar {}
// SAFETY: an access is one instruction on a device; the card takes those of several threads in some order.
unsafe impl Sync for MappedBar {}

impl fmt::Debug for MappedBar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedBar({} bytes, {} owners)", self.bytes, Arc::strong_count(&self.owner))
    }
}

impl MappedBar {
    /// Registers that the caller has mapped. `owner` is dropped with the last clone, and may then end the mapping.
    ///
    /// # Safety
    /// Until `owner` is dropped, the `bytes` bytes at `start`, which is a multiple of 8, must be mapped for reads and writes, and
    /// no reference to any of them may exist.
    pub unsafe fn from_raw(start: NonNull<u8>, bytes: usize, owner: Arc<dyn Send + Sync>) -> Self {
        Self { start, bytes, owner }
    }

    /// Bytes that are mapped.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where a register of `size` bytes is, if it is mapped and aligned.
    fn at(&self, offset: u32, size: usize) -> Option<NonNull<u8>> {
        let offset = offset as usize;
        let inside = offset % size == 0 && offset < self.bytes && size <= self.bytes - offset;
        // SAFETY: inside the mapping.
        inside.then(|| unsafe { self.start.add(offset) })
    }

    /// One store of 8 bytes. Whether there is such a place.
    #[must_use]
    pub fn store64(&self, offset: u32, value: u64) -> bool {
        let Some(at) = self.at(offset, 8) else { return false };
        // SAFETY: mapped and aligned, as `at` and the constructor say.
        unsafe { at.cast::<u64>().write_volatile(value.to_le()) };
        true
    }

    /// One store of 4 bytes. Whether there is such a place.
    #[must_use]
    pub fn store32(&self, offset: u32, value: u32) -> bool {
        let Some(at) = self.at(offset, 4) else { return false };
        // SAFETY: mapped and aligned, as `at` and the constructor say.
        unsafe { at.cast::<u32>().write_volatile(value.to_le()) };
        true
    }

    /// One load of 4 bytes, if there is such a place.
    pub fn load32(&self, offset: u32) -> Option<u32> {
        // SAFETY: mapped and aligned, as `at` and the constructor say.
        self.at(offset, 4).map(|at| u32::from_le(unsafe { at.cast::<u32>().read_volatile() }))
    }
}

impl super::HostMemory {
    /// The same bytes as registers of a card that lives in this process, or in one that shares them.
    ///
    /// `None` when its address is not a multiple of 8.
    pub fn as_bar(&self) -> Option<MappedBar> {
        let start =
            NonNull::new(self.address() as usize as *mut u8).filter(|at| at.as_ptr() as usize % 8 == 0)?;
        // SAFETY: the memory is valid for as long as this clone of it lives; no reference into it is ever made.
        Some(unsafe { MappedBar::from_raw(start, self.len(), Arc::new(self.clone())) })
    }
}

#[cfg(test)]
mod tests {
    use crate::sys::HostMemory;

    #[test]
    fn registers_are_where_they_are_and_nowhere_else() {
        let memory = HostMemory::zeroed(64, 64).unwrap();
        let bar = memory.as_bar().unwrap();
        assert!(bar.store64(56, 0x0102_0304_0506_0708) && bar.store32(4, 0xa0b0_c0d0));
        assert_eq!((bar.load32(56), bar.load32(60)), (Some(0x0506_0708), Some(0x0102_0304)));
        assert_eq!((memory.load_word(56), memory.load_word(0)), (0x0102_0304_0506_0708, 0xa0b0_c0d0 << 32));
        for (offset, size) in [(64, 8), (60, 8), (4, 8), (u32::MAX - 7, 8), (64, 4), (62, 4)] {
            let there = if size == 8 {
                bar.store64(offset, 1)
            } else {
                bar.load32(offset).is_some() || bar.store32(offset, 1)
            };
            assert!(!there, "{offset}");
        }
        assert!(memory.slice(4, 8).as_bar().is_none());
        drop(memory);
        assert_eq!(bar.load32(4), Some(0xa0b0_c0d0));
    }
}
