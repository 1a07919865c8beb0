// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host memory: areas of bytes at host addresses.
//!
//! An area is bytes of the engine's own, or memory that is somebody else's: then bytes go in and out by copies, and the owner says with each
//! access whether they are there.

use std::collections::BTreeMap;
use std::fmt;

/// Memory that is not the engine's own, counted from its first byte on.
pub trait Lent: fmt::Debug + Send {
    /// Whether all of these bytes are there.
    fn covers(&self, offset: u64, len: u64) -> bool;

    /// Copies bytes out: all of them, or none. Whether they are there.
    fn read(&self, offset: u64, out: &mut [u8]) -> bool;

    /// Copies bytes in: all of them, or none. Whether they are there.
    fn write(&mut self, offset: u64, data: &[u8]) -> bool;
}

#[derive(Debug)]
enum Area {
    Own(Vec<u8>),
    Lent(Box<dyn Lent>),
}

/// The memory of a node's host. What is not mapped can be neither read nor written.
#[derive(Debug, Default)]
pub struct Memory {
    areas: BTreeMap<u64, Area>,
}

/// A range of an area of so many bytes.
fn range(offset: u64, len: u64) -> Option<std::ops::Range<usize>> {
    let from = usize::try_from(offset).ok()?;
    Some(from..from.checked_add(usize::try_from(len).ok()?)?)
}

impl Memory {
    /// Puts bytes at an address. An area that begins there is replaced; areas must not overlap.
    pub fn map(&mut self, base: u64, bytes: Vec<u8>) {
        self.areas.insert(base, Area::Own(bytes));
    }

    /// The same with memory that is not the engine's own.
    pub fn lend(&mut self, base: u64, memory: Box<dyn Lent>) {
        self.areas.insert(base, Area::Lent(memory));
    }

    /// Takes away the area that begins at an address. Whether there is one.
    pub fn unmap(&mut self, base: u64) -> bool {
        self.areas.remove(&base).is_some()
    }

    fn find(&self, addr: u64) -> Option<(&Area, u64)> {
        let (base, area) = self.areas.range(..=addr).next_back()?;
        Some((area, addr - base))
    }

    /// The bytes, when all of them are there and the engine's own.
    pub fn get(&self, addr: u64, len: u64) -> Option<&[u8]> {
        match self.find(addr)? {
            (Area::Own(bytes), offset) => bytes.get(range(offset, len)?),
            (Area::Lent(_), _) => None,
        }
    }

    /// The same bytes, to be changed.
    pub fn get_mut(&mut self, addr: u64, len: u64) -> Option<&mut [u8]> {
        let (base, area) = self.areas.range_mut(..=addr).next_back()?;
        match area {
            Area::Own(bytes) => bytes.get_mut(range(addr - base, len)?),
            Area::Lent(_) => None,
        }
    }

    /// Whether all of these bytes are there, whosever they are.
    pub(super) fn covers(&self, addr: u64, len: u64) -> bool {
        match self.find(addr) {
            Some((Area::Lent(memory), offset)) => memory.covers(offset, len),
            _ => self.get(addr, len).is_some(),
        }
    }

    /// Appends bytes to `out`: all of them, or none. Whether they are there.
    pub(super) fn read(&self, addr: u64, len: u64, out: &mut Vec<u8>) -> bool {
        if let Some((Area::Lent(memory), offset)) = self.find(addr) {
            // Looked at first: a length that nobody has takes no memory here.
            let begin = out.len();
            if !memory.covers(offset, len) {
                return false;
            }
            out.resize(begin + len as usize, 0);
            let there = memory.read(offset, &mut out[begin..]);
            if !there {
                out.truncate(begin);
            }
            return there;
        }
        self.get(addr, len).map(|bytes| out.extend_from_slice(bytes)).is_some()
    }

    /// Changes bytes: all of them, or none. Whether they are there.
    pub(super) fn write(&mut self, addr: u64, data: &[u8]) -> bool {
        let Some((base, area)) = self.areas.range_mut(..=addr).next_back() else { return false };
        match area {
            Area::Lent(memory) => memory.write(addr - base, data),
            Area::Own(_) => match self.get_mut(addr, data.len() as u64) {
                Some(place) => {
                    place.copy_from_slice(data);
                    true
                }
                None => false,
            },
        }
    }
}
