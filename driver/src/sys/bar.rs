// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`MappedBar`]: registers that this process reaches by loads and stores.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{device, fence, HostMemory};

/// Part of BAR 0, from its first byte on, mapped into this process. Clones show the same registers and keep the mapping.
///
/// Each access is one load or store of its size, which the compiler neither leaves out nor moves against another such access. Values
/// are little-endian, as PCI has them. Order against host memory is made with [`before_doorbell`](super::before_doorbell); a [`MappedDoorbell`]
/// makes it itself.
#[derive(Clone)]
pub struct MappedBar {
    start: NonNull<u8>,
    bytes: usize,
    /// The processor may hold stores back, to combine them.
    combines: bool,
    keeper: Keeper,
}

/// What keeps the registers where they are.
#[derive(Clone)]
enum Keeper {
    /// Of a device.
    Device(#[allow(dead_code)] Arc<dyn Send + Sync>),
    /// They are memory of this process.
    Memory(HostMemory),
}

// SAFETY: registers may be reached from any thread, and what keeps them is `Send` and `Sync`.
unsafe impl Send for MappedBar {}
// SAFETY: an access is one instruction on a device, which takes those of several threads in some order; on memory, an atomic one.
unsafe impl Sync for MappedBar {}

impl fmt::Debug for MappedBar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match &self.keeper {
            Keeper::Device(_) => "a device",
            Keeper::Memory(_) => "memory",
        };
        write!(f, "MappedBar({} bytes of {of})", self.bytes)
    }
}

impl MappedBar {
    /// Registers that the caller has mapped, uncached. `owner` is dropped with the last clone, and may then end the mapping.
    ///
    /// # Safety
    /// Until `owner` is dropped, the `bytes` bytes at `start`, which is a multiple of 8, must be mapped for reads and writes, and they must be no
    /// memory that Rust code accesses in any other way; for memory of this process there is [`HostMemory::as_bar`].
    pub unsafe fn from_raw(start: NonNull<u8>, bytes: usize, owner: Arc<dyn Send + Sync>) -> Self {
        Self { start, bytes, combines: false, keeper: Keeper::Device(owner) }
    }

    /// The same registers, for a mapping that is write-combining: doorbells then have stronger barriers round them. It costs some 10 ns a
    /// doorbell, and is not needed for uncached mappings, as VFIO makes.
    #[must_use]
    pub fn write_combining(self) -> Self {
        Self { combines: true, ..self }
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
        // SAFETY: mapped and aligned, as `at` and the constructors say.
        unsafe { device::store64(at.as_ptr().cast(), value.to_le()) };
        true
    }

    /// One store of 4 bytes. Whether there is such a place.
    #[must_use]
    pub fn store32(&self, offset: u32, value: u32) -> bool {
        let Some(at) = self.at(offset, 4) else { return false };
        match &self.keeper {
            // SAFETY: mapped and aligned, as `at` and the constructor say.
            Keeper::Device(_) => unsafe { device::store32(at.as_ptr().cast(), value.to_le()) },
            Keeper::Memory(memory) => memory.write(offset as usize, &value.to_le_bytes()),
        }
        true
    }

    /// One load of 4 bytes, if there is such a place.
    pub fn load32(&self, offset: u32) -> Option<u32> {
        let at = self.at(offset, 4)?;
        Some(match &self.keeper {
            // SAFETY: mapped and aligned, as `at` and the constructor say.
            Keeper::Device(_) => u32::from_le(unsafe { device::load32(at.as_ptr().cast()) }),
            Keeper::Memory(memory) => {
                let mut bytes = [0; 4];
                memory.read(offset as usize, &mut bytes);
                u32::from_le_bytes(bytes)
            }
        })
    }

    /// Stores words in order, from `offset` on, behind all that was stored in host memory before. The offset of the first word that has no place.
    pub(crate) fn push(&self, offset: u32, words: &[u64; 8]) -> Option<u32> {
        if self.combines {
            fence::around_combined_doorbell();
        }
        let mut stores = (offset..).step_by(8).zip(words);
        stores.find(|(offset, word)| !self.store64(*offset, **word)).map(|(offset, _)| offset)
    }

    /// A doorbell of 8 bytes, to be rung often; `None` when nothing is mapped there.
    pub fn doorbell(&self, offset: u32) -> Option<MappedDoorbell> {
        let at = self.at(offset, 8)?.cast();
        Some(MappedDoorbell { at, combines: self.combines, _keeper: self.keeper.clone() })
    }
}

/// One doorbell of a [`MappedBar`], which it keeps mapped.
#[derive(Clone)]
pub struct MappedDoorbell {
    at: NonNull<u64>,
    combines: bool,
    _keeper: Keeper,
}

// SAFETY: as of the BAR.
unsafe impl Send for MappedDoorbell {}
// SAFETY: as of the BAR.
unsafe impl Sync for MappedDoorbell {}

impl fmt::Debug for MappedDoorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedDoorbell({:p})", self.at)
    }
}

impl MappedDoorbell {
    /// One store of 8 bytes, which the card sees after all that was stored before in host memory and in its BAR.
    #[inline]
    pub fn ring(&self, value: u64) {
        if self.combines {
            return self.ring_combined(value);
        }
        fence::before_doorbell();
        // SAFETY: mapped and aligned, as `doorbell` found it; kept so by the keeper.
        unsafe { device::store64(self.at.as_ptr(), value.to_le()) };
    }

    #[cold]
    fn ring_combined(&self, value: u64) {
        fence::around_combined_doorbell();
        // SAFETY: as above.
        unsafe { device::store64(self.at.as_ptr(), value.to_le()) };
        fence::around_combined_doorbell();
    }
}

impl HostMemory {
    /// The same bytes as registers of a card that lives in this process, or in one that shares them.
    ///
    /// `None` when its address is not a multiple of 8.
    pub fn as_bar(&self) -> Option<MappedBar> {
        let start = self.start();
        let (bytes, keeper) = (self.len(), Keeper::Memory(self.clone()));
        (start.as_ptr() as usize % 8 == 0).then_some(MappedBar { start, bytes, combines: false, keeper })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::MappedBar;
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
                bar.store64(offset, 1) || bar.doorbell(offset).is_some()
            } else {
                bar.load32(offset).is_some() || bar.store32(offset, 1)
            };
            assert!(!there, "{offset}");
        }
        assert!(memory.slice(4, 8).as_bar().is_none());
        let bell = bar.doorbell(8).unwrap();
        drop((memory, bar));
        bell.ring(7);
    }

    #[test]
    fn a_device_s_registers_are_reached_in_their_width() {
        let file = rustix::fs::memfd_create("bar", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        let flags = rustix::mm::MapFlags::SHARED;
        // SAFETY: the kernel chooses the place, so nothing that is mapped already changes.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, protection, flags, &file, 0) };
        let start = std::ptr::NonNull::new(start.unwrap().cast()).unwrap();
        // SAFETY: it stays mapped, and nothing but this value reaches it.
        let bar = unsafe { MappedBar::from_raw(start, 4096, Arc::new(())) };
        assert!(bar.store64(8, 0x0102_0304_0506_0708) && bar.store32(4, 0xa0b0_c0d0));
        bar.doorbell(16).unwrap().ring(0x1112_1314_1516_1718);
        bar.clone().write_combining().doorbell(24).unwrap().ring(9);
        let words = [4, 8, 12, 16, 20, 24].map(|offset| bar.load32(offset).unwrap());
        assert_eq!(words, [0xa0b0_c0d0, 0x0506_0708, 0x0102_0304, 0x1516_1718, 0x1112_1314, 9]);
        let mut bytes = [0; 8];
        rustix::io::pread(&file, &mut bytes, 8).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 0x0102_0304_0506_0708);
    }
}
