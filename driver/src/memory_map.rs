// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`MemoryMap`]: which host memory a card without a real bus may reach, and by which addresses.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::bus::{BusError, DmaBuffer, DmaMapping};
use crate::sys::{HostMemory, LentMemory};

/// An access of a card that the map does not cover or not allow, or to memory that its process has unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("DMA of {bytes} bytes at {iova:#x}: the card does not reach {at:#x}")]
pub struct UnmappedError {
    /// Address that the card gave.
    pub iova: u64,
    /// Bytes that it asked for.
    pub bytes: usize,
    /// First of these that the card does not reach. Where lent memory is gone, the first of its mapping.
    pub at: u64,
}

/// Memory behind an address.
#[derive(Debug)]
enum Mapped {
    /// It is in this process.
    Here(HostMemory),
    /// Another process lends it.
    Lent(LentMemory),
}

impl Mapped {
    fn len(&self) -> u64 {
        match self {
            Mapped::Here(memory) => memory.len() as u64,
            Mapped::Lent(memory) => memory.len(),
        }
    }
}

/// An IOMMU in software: bus addresses (IOVAs) to host memory, for cards that run in this process and for
/// those behind a vfio-user socket.
///
/// A card reaches what is mapped and nothing else; an access that is not covered in full changes and
/// returns nothing. What is mapped is kept alive, but for memory that another process lends: when that has unmapped it, an access is refused as if it were not
/// covered, and a write may have changed a part. Addresses that the map chooses rise, are not used again and have
/// unmapped pages between them, so a card that keeps an address too long, or runs over the end, is caught.
#[derive(Debug)]
pub struct MemoryMap {
    mapped: BTreeMap<u64, Mapped>,
    next: u64,
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryMap {
    /// Bytes of a page of the map, and of the smallest gap between addresses that it chooses.
    pub const PAGE: u64 = 4096;

    /// First address that the map chooses: over 4 GiB, so that a card that drops the high word is caught.
    const FIRST: u64 = 0x10_0000_0000;

    /// Nothing is mapped.
    pub fn new() -> Self {
        Self { mapped: BTreeMap::new(), next: Self::FIRST }
    }

    /// Maps `memory` at an address of the caller's choice.
    ///
    /// # Errors
    /// The range is empty, wraps or overlaps a mapping.
    pub fn insert(&mut self, iova: u64, memory: HostMemory) -> Result<(), BusError> {
        self.place(iova, Mapped::Here(memory))
    }

    /// The same for memory of another process.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_lent(&mut self, iova: u64, memory: LentMemory) -> Result<(), BusError> {
        self.place(iova, Mapped::Lent(memory))
    }

    fn place(&mut self, iova: u64, memory: Mapped) -> Result<(), BusError> {
        let bytes = memory.len();
        let refuse = |why| BusError::Map { iova, bytes, why };
        if bytes == 0 {
            return Err(refuse("the range is empty"));
        }
        let Some(last) = iova.checked_add(bytes - 1) else {
            return Err(refuse("the range wraps"));
        };
        if let Some((start, before)) = self.mapped.range(..=last).next_back() {
            if start + (before.len() - 1) >= iova {
                return Err(refuse("the range overlaps a mapping"));
            }
        }
        self.mapped.insert(iova, memory);
        Ok(())
    }

    /// Maps `memory` at an address that the map chooses, congruent to its address in this process modulo
    /// `page` (a power of two). Returns the address of the first byte.
    ///
    /// # Errors
    /// The range is empty, or no address is left.
    pub fn map(&mut self, memory: HostMemory, page: u64) -> Result<u64, BusError> {
        let page = page.max(Self::PAGE);
        let full = BusError::NoMemory { bytes: memory.len() as u64, align: page };
        let within = memory.address() & (page - 1);
        let base = self.next.checked_next_multiple_of(page).ok_or(full.clone())?;
        let end = (base + within).checked_add(memory.len() as u64 + Self::PAGE).ok_or(full.clone())?;
        let next = end.checked_next_multiple_of(Self::PAGE).ok_or(full)?;
        self.insert(base + within, memory)?;
        self.next = next;
        Ok(base + within)
    }

    /// Allocates zeroed memory on the heap and maps it: what [`Bus::dma_alloc`](crate::Bus::dma_alloc) of an in-process
    /// card needs.
    ///
    /// # Errors
    /// There is no such memory.
    pub fn alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        let align = align.max(Self::PAGE as usize);
        let memory = HostMemory::zeroed(bytes, align)
            .ok_or(BusError::NoMemory { bytes: bytes as u64, align: align as u64 })?;
        let iova = self.map(memory.clone(), align as u64)?;
        Ok(DmaBuffer::new(iova, memory))
    }

    /// Maps `memory` in pages of `1 << page_shift` bytes with rising addresses: what
    /// [`Bus::dma_map`](crate::Bus::dma_map) of an in-process card needs. The mapping's `id` is what
    /// [`remove`](Self::remove) takes.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_pages(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        let page = 1u64 << page_shift;
        let iova = self.map(memory.clone(), page)?;
        let first = iova & !(page - 1);
        let count = (iova - first + memory.len() as u64).div_ceil(page);
        Ok(DmaMapping { id: iova, pages: (0..count).map(|i| first + i * page).collect() })
    }

    /// Takes the mapping that begins at `iova` away.
    ///
    /// # Errors
    /// No mapping begins there.
    pub fn remove(&mut self, iova: u64) -> Result<(), BusError> {
        let removed = self.mapped.remove(&iova).map(|_| ());
        removed.ok_or(BusError::Map { iova, bytes: 0, why: "no mapping begins there" })
    }

    /// Mappings there are.
    pub fn len(&self) -> usize {
        self.mapped.len()
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.mapped.is_empty()
    }

    /// Every mapping of memory of this process, by rising addresses: that of its first byte, and its memory.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &HostMemory)> {
        self.mapped.iter().filter_map(|(iova, memory)| match memory {
            Mapped::Here(memory) => Some((*iova, memory)),
            Mapped::Lent(_) => None,
        })
    }

    /// The card reads.
    ///
    /// # Errors
    /// Not all of the range is mapped; `out` is as before. Or memory that was lent is gone; `out` holds anything.
    pub fn read(&self, iova: u64, out: &mut [u8]) -> Result<(), UnmappedError> {
        self.check(iova, out.len())?;
        self.pieces(iova, out.len(), |memory, offset, piece| match memory {
            Mapped::Here(memory) => {
                memory.read(offset as usize, &mut out[piece]);
                true
            }
            Mapped::Lent(memory) => memory.read(offset, &mut out[piece]),
        })
    }

    /// The card writes.
    ///
    /// # Errors
    /// Not all of the range is mapped for writing; nothing was written. Or memory that was lent is gone; what is before it was written.
    pub fn write(&self, iova: u64, data: &[u8]) -> Result<(), UnmappedError> {
        self.check_write(iova, data.len())?;
        self.pieces(iova, data.len(), |memory, offset, piece| match memory {
            Mapped::Here(memory) => {
                memory.write(offset as usize, &data[piece]);
                true
            }
            Mapped::Lent(memory) => memory.write(offset, &data[piece]),
        })
    }

    /// Whether all of the range is mapped.
    ///
    /// # Errors
    /// Names the first byte that is not.
    pub fn check(&self, iova: u64, bytes: usize) -> Result<(), UnmappedError> {
        self.allowed(iova, bytes, |_| true)
    }

    /// Whether all of the range is mapped, and may be written.
    ///
    /// # Errors
    /// Names the first byte that is not or may not.
    pub fn check_write(&self, iova: u64, bytes: usize) -> Result<(), UnmappedError> {
        self.allowed(iova, bytes, |memory| match memory {
            Mapped::Here(_) => true,
            Mapped::Lent(memory) => memory.is_writable(),
        })
    }

    fn allowed(&self, iova: u64, bytes: usize, may: impl Fn(&Mapped) -> bool) -> Result<(), UnmappedError> {
        let mut at = iova;
        let mut left = bytes as u64;
        while left > 0 {
            let found = self.find(at).filter(|(memory, ..)| may(memory));
            let Some((_, _, room)) = found else { return Err(UnmappedError { iova, bytes, at }) };
            if room >= left {
                break;
            }
            left -= room;
            at = at.checked_add(room).ok_or(UnmappedError { iova, bytes, at })?;
        }
        Ok(())
    }

    /// Calls `f(memory, offset in it, which of the bytes)` for each mapping's piece of a checked range, until it says no.
    fn pieces(
        &self,
        iova: u64,
        bytes: usize,
        mut f: impl FnMut(&Mapped, u64, Range<usize>) -> bool,
    ) -> Result<(), UnmappedError> {
        let mut done = 0;
        while done < bytes {
            let at = iova + done as u64;
            let gone = UnmappedError { iova, bytes, at };
            let (memory, offset, room) = self.find(at).ok_or(gone)?;
            let now = room.min((bytes - done) as u64) as usize;
            if !f(memory, offset, done..done + now) {
                return Err(gone);
            }
            done += now;
        }
        Ok(())
    }

    /// The mapping of a byte, the byte's offset in it and the bytes from there to its end.
    fn find(&self, at: u64) -> Option<(&Mapped, u64, u64)> {
        let (start, memory) = self.mapped.range(..=at).next_back()?;
        let offset = at - start;
        let room = memory.len().checked_sub(offset).filter(|room| *room > 0)?;
        Some((memory, offset, room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_is_refused_as_a_whole() {
        let mut map = MemoryMap::new();
        let memory = HostMemory::zeroed(100, 4096).unwrap();
        let iova = map.map(memory.clone(), 4096).unwrap();
        map.write(iova + 90, &[7; 10]).unwrap();
        let error = map.write(iova + 95, &[9; 10]).unwrap_err();
        assert_eq!(error, UnmappedError { iova: iova + 95, bytes: 10, at: iova + 100 });
        let mut back = [0; 10];
        memory.read(90, &mut back);
        assert_eq!(back, [7; 10]);
        assert!(map.read(iova - 1, &mut back).is_err());
        assert!(map.check(u64::MAX, 2).is_err());
        map.remove(iova).unwrap();
        assert!(map.read(iova, &mut back).is_err());
    }

    #[test]
    fn an_access_may_cross_mappings_that_touch() {
        let mut map = MemoryMap::new();
        let (a, b) = (HostMemory::zeroed(16, 8).unwrap(), HostMemory::zeroed(16, 8).unwrap());
        map.insert(0x1000, a.clone()).unwrap();
        map.insert(0x1010, b.clone()).unwrap();
        assert!(map.insert(0x101f, a.clone()).is_err());
        assert!(map.insert(0xff1, a.clone()).is_err());
        map.write(0x100c, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let mut back = [0; 8];
        map.read(0x100c, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4, 5, 6, 7, 8]);
        b.read(0, &mut back[..4]);
        assert_eq!(back[..4], [5, 6, 7, 8]);
    }

    #[test]
    fn chosen_addresses_keep_the_place_in_the_page() {
        let mut map = MemoryMap::new();
        let memory = HostMemory::zeroed(0x3000, 4096).unwrap().slice(0x123, 0x2000);
        for page in [1 << 12, 1 << 21, 1 << 30] {
            let iova = map.map(memory.clone(), page).unwrap();
            assert_eq!(iova % page, memory.address() % page);
        }
        let mapping = map.map_pages(&memory, 12).unwrap();
        assert_eq!(mapping.pages, [0, 1, 2].map(|i| mapping.id - 0x123 + i * 0x1000));
        map.write(mapping.pages[2], &[1; 0x123]).unwrap();
        map.write(mapping.pages[2], &[1; 0x124]).unwrap_err();
        map.remove(mapping.id).unwrap();
    }
}
