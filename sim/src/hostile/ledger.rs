// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Ledger`]: what each bus address of a card is, as its driver was told; [`LedgerBus`] writes it on the way to the card.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrowire::{Bus, BusError, DmaBuffer, DmaMapping, HostMemory};

use crate::bus::SimBus;

/// What is at a bus address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A ring or a list that the driver writes: the card reads it.
    Asked,
    /// A ring that the card writes: completions, events, answers to commands.
    Told,
    /// Both: commands and their answers.
    Both,
    /// Registered memory: address of the byte in this process.
    Memory(u64),
}

/// What has been allocated and mapped. Addresses are not used again, so what was given back stays known: a late access to it is
/// refused by the memory map.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By first address: bytes, and what they are.
    rings: BTreeMap<u64, (u64, Place)>,
    /// By bus address of the page: bytes, and the address of its first byte in this process.
    pages: BTreeMap<u64, (u64, u64)>,
    next: Option<Place>,
}

/// A ledger that a bus writes and others read.
#[derive(Clone, Debug, Default)]
pub struct SharedLedger(Arc<Mutex<Ledger>>);

impl SharedLedger {
    /// The ledger.
    pub fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// What is allocated from now on; the card only reads it, unless this says more.
    pub fn set_next(&mut self, next: Option<Place>) {
        self.next = next;
    }

    /// What is at an address, and bytes from there to the end of it.
    pub fn find(&self, address: u64) -> Option<(Place, u64)> {
        if let Some((first, (bytes, place))) = self.rings.range(..=address).next_back() {
            if address - first < *bytes {
                return Some((*place, bytes - (address - first)));
            }
        }
        let (first, (bytes, memory)) = self.pages.range(..=address).next_back()?;
        let at = address - first;
        (at < *bytes).then(|| (Place::Memory(memory + at), bytes - at))
    }
}

/// The driver's way to a card, on which everything that the card can reach is written down.
pub struct LedgerBus {
    bus: SimBus,
    ledger: SharedLedger,
}

impl LedgerBus {
    /// On the way of `bus`.
    pub fn new(bus: SimBus, ledger: &SharedLedger) -> Self {
        Self { bus, ledger: ledger.clone() }
    }
}

impl Bus for LedgerBus {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        self.bus.csr_read32(offset)
    }

    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.bus.csr_write32(offset, value)
    }

    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.bus.doorbell(offset, value)
    }

    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        let buffer = self.bus.dma_alloc(bytes, align)?;
        let mut ledger = self.ledger.lock();
        let place = ledger.next.unwrap_or(Place::Asked);
        ledger.rings.insert(buffer.bus_address(), (bytes as u64, place));
        Ok(buffer)
    }

    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.bus.dma_free(buffer)
    }

    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        let mapping = self.bus.dma_map(memory, page_shift)?;
        let page = 1u64 << page_shift;
        let first = memory.address() & !(page - 1);
        let mut ledger = self.ledger.lock();
        for (i, at) in mapping.pages.iter().enumerate() {
            ledger.pages.insert(*at, (page, first + i as u64 * page));
        }
        Ok(mapping)
    }

    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.bus.dma_unmap(mapping)
    }

    fn needs_progress(&self) -> bool {
        self.bus.needs_progress()
    }

    fn progress(&mut self) -> Result<(), BusError> {
        self.bus.progress()
    }

    fn now(&self) -> Duration {
        self.bus.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_with_what_is_left_behind_it() {
        let mut ledger = Ledger::default();
        ledger.rings.insert(0x1000, (64, Place::Told));
        ledger.pages.insert(0x3000, (0x1000, 0x7f_0000));
        assert_eq!(ledger.find(0x1010), Some((Place::Told, 48)));
        assert_eq!(ledger.find(0x1040), None);
        assert_eq!(ledger.find(0x3010), Some((Place::Memory(0x7f_0010), 0xff0)));
        assert_eq!(ledger.find(0xfff), None);
        assert_eq!(ledger.find(0x4000), None);
    }
}
