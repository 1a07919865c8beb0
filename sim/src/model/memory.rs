// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host memory: areas of bytes at host addresses.

use std::collections::BTreeMap;

/// The memory of a node's host. What is not mapped can be neither read nor written.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    areas: BTreeMap<u64, Vec<u8>>,
}

impl Memory {
    /// Puts bytes at an address. An area that begins there is replaced; areas must not overlap.
    pub fn map(&mut self, base: u64, bytes: Vec<u8>) {
        self.areas.insert(base, bytes);
    }

    /// Takes away the area that begins at an address.
    pub fn unmap(&mut self, base: u64) -> Option<Vec<u8>> {
        self.areas.remove(&base)
    }

    /// The bytes, when all of them are there.
    pub fn get(&self, addr: u64, len: u64) -> Option<&[u8]> {
        let (base, area) = self.areas.range(..=addr).next_back()?;
        let from = usize::try_from(addr - base).ok()?;
        area.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    /// The bytes, to be changed.
    pub fn get_mut(&mut self, addr: u64, len: u64) -> Option<&mut [u8]> {
        let (base, area) = self.areas.range_mut(..=addr).next_back()?;
        let from = usize::try_from(addr - base).ok()?;
        area.get_mut(from..from.checked_add(usize::try_from(len).ok()?)?)
    }
}
