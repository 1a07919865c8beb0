// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host's memory as the card reaches it, and regions of it by their page lists.

use std::ops::Range;
use std::sync::atomic::{fence, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrowire::{BusError, DmaBuffer, DmaMapping, HostMemory, MemoryMap};

use crate::mappings::Mappings;
use crate::model::Lent;

/// What a host has mapped for its card.
#[derive(Debug, Default)]
struct Inner {
    map: MemoryMap,
    mappings: Mappings,
    /// Reads and writes of what is not mapped.
    refused: (u64, u64),
}

/// Memory that a card and its regions share. Every access goes through the map, which refuses what it does not hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Host(Arc<Mutex<Inner>>);

impl Host {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn alloc(&self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.lock().map.alloc(bytes, align)
    }

    pub(super) fn free(&self, buffer: &DmaBuffer) -> Result<(), BusError> {
        self.lock().map.remove(buffer.bus_address())
    }

    pub(super) fn map(&self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        let Inner { map, mappings, .. } = &mut *self.lock();
        mappings.map(map, memory, page_shift)
    }

    pub(super) fn unmap(&self, mapping: &DmaMapping) -> Result<(), BusError> {
        let Inner { map, mappings, .. } = &mut *self.lock();
        mappings.unmap(map, mapping)
    }

    /// Takes away a page that a program has mapped, by its first byte there.
    pub(super) fn forget_page(&self, address: u64) -> bool {
        let Inner { map, mappings, .. } = &mut *self.lock();
        mappings.bus_address(address).is_some_and(|at| map.remove(at).is_ok())
    }

    pub(super) fn mapped(&self) -> usize {
        self.lock().map.len()
    }

    pub(super) fn refusals(&self) -> (u64, u64) {
        self.lock().refused
    }

    /// Does something with the map.
    pub(super) fn with_map<T>(&self, f: impl FnOnce(&mut MemoryMap) -> T) -> T {
        f(&mut self.lock().map)
    }

    /// Reads; whether all of it is mapped.
    pub(super) fn read(&self, address: u64, out: &mut [u8]) -> bool {
        let mut inner = self.lock();
        let there = inner.map.read(address, out).is_ok();
        inner.refused.0 += u64::from(!there);
        there
    }

    /// Writes an entry of a ring: the phase, which is in its last word, behind all that was written before. As with a card on a bus,
    /// nobody is told when nothing is there.
    pub(super) fn write_entry(&self, address: u64, entry: &[u8]) {
        let mut inner = self.lock();
        let (body, phase) = entry.split_at(entry.len().saturating_sub(8));
        let Some(last) = address.checked_add(body.len() as u64) else { return };
        if inner.map.check(address, entry.len()).is_err() {
            inner.refused.1 += 1;
            return;
        }
        // All of it is mapped.
        let _ = inner.map.write(address, body);
        fence(Ordering::Release);
        let _ = inner.map.write(last, phase);
    }
}

/// A region: the engine counts its bytes from 0, and each lies in one of the pages.
#[derive(Debug)]
pub(super) struct Pages {
    host: Host,
    shift: u8,
    /// Where in the first page the region begins.
    first: u64,
    len: u64,
    pages: Vec<u64>,
}

impl Pages {
    pub(super) fn new(host: &Host, shift: u8, first: u64, len: u64, pages: Vec<u64>) -> Self {
        Self { host: host.clone(), shift, first, len, pages }
    }

    /// Calls `f` with the bus address of each page's part of a range, and with its place in the range. Whether the range is in the region and `f` has
    /// always agreed.
    fn pieces(&self, offset: u64, len: u64, mut f: impl FnMut(u64, Range<usize>) -> bool) -> bool {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {}
            _ => return false,
        }
        let page = 1u64 << self.shift;
        let mut done = 0;
        while done < len {
            let at = self.first + offset + done;
            let within = at & (page - 1);
            let bytes = (page - within).min(len - done);
            let Some(start) = self.pages.get((at >> self.shift) as usize) else { return false };
            // Pages are aligned, so nothing is carried.
            if !f(start | within, done as usize..(done + bytes) as usize) {
                return false;
            }
            done += bytes;
        }
        true
    }

    /// Whether all of a range is mapped.
    fn mapped(&self, inner: &Inner, offset: u64, len: u64) -> bool {
        self.pieces(offset, len, |at, part| inner.map.check(at, part.len()).is_ok())
    }
}

impl Lent for Pages {
    fn covers(&self, offset: u64, len: u64) -> bool {
        let mut inner = self.host.lock();
        let there = self.mapped(&inner, offset, len);
        inner.refused.0 += u64::from(!there);
        there
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let len = out.len() as u64;
        let mut inner = self.host.lock();
        // A page that is mapped may be gone from the process that has lent it.
        let there = self.mapped(&inner, offset, len)
            && self.pieces(offset, len, |at, part| inner.map.read(at, &mut out[part]).is_ok());
        inner.refused.0 += u64::from(!there);
        there
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        let len = data.len() as u64;
        let mut inner = self.host.lock();
        let there = self.mapped(&inner, offset, len)
            && self.pieces(offset, len, |at, part| inner.map.write(at, &data[part]).is_ok());
        inner.refused.1 += u64::from(!there);
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_its_pages_and_nothing_beside_them() {
        let host = Host::default();
        let memory = HostMemory::zeroed(3 * 4096, 4096).unwrap().slice(100, 2 * 4096);
        let mapping = host.map(&memory, 12).unwrap();
        assert!(mapping.pages.windows(2).all(|pair| pair[1] != pair[0] + 4096), "the pages lie apart");
        let mut pages = Pages::new(&host, 12, 100, 2 * 4096, mapping.pages.clone());
        let data: Vec<u8> = (0..2 * 4096).map(|i| (i * 7) as u8).collect();
        assert!(pages.write(0, &data));
        let mut back = vec![0; data.len()];
        memory.read(0, &mut back);
        assert!(back == data);
        let mut part = [0; 200];
        assert!(pages.read(4096 - 150, &mut part));
        assert_eq!(part, data[4096 - 150..4096 + 50]);
        for (offset, len) in [(2 * 4096, 1), (2 * 4096 - 1, 2), (u64::MAX, 2), (0, u64::MAX)] {
            assert!(!pages.covers(offset, len), "{offset} {len}");
        }
        assert_eq!(host.refusals(), (4, 0));
        // What is not mapped any more is not written in part.
        assert!(host.forget_page(memory.address() + 4096 - 100));
        assert!(!pages.write(0, &vec![0xff; data.len()]));
        memory.read(0, &mut back);
        assert!(back == data);
        assert!(pages.covers(0, 4096 - 100) && !pages.covers(0, 4096 - 99));
    }
}
