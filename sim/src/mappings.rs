// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Mappings`]: what a program has mapped for a card in this process, page by page.

use std::collections::BTreeMap;

use ferrowire::{BusError, DmaMapping, HostMemory, MemoryMap};

#[derive(Debug)]
struct Mapping {
    /// Address in this process, and bytes.
    memory: (u64, u64),
    page: u64,
    /// Bus address of each page's part, in order.
    parts: Vec<u64>,
}

/// Mappings in a [`MemoryMap`], each page of which lies somewhere else in bus addresses: so who takes one for the next is caught.
#[derive(Debug)]
pub struct Mappings {
    scatter: bool,
    known: BTreeMap<u64, Mapping>,
}

impl Default for Mappings {
    fn default() -> Self {
        Self { scatter: true, known: BTreeMap::new() }
    }
}

impl Mappings {
    /// Whether each page of a mapping lies somewhere else in bus addresses, as it does at first, or all in a row.
    pub fn set_scatter(&mut self, scatter: bool) {
        self.scatter = scatter;
    }

    /// Maps memory, as [`ferrowire::Bus::dma_map`] asks.
    ///
    /// # Errors
    /// No address is left.
    pub fn map(
        &mut self,
        map: &mut MemoryMap,
        memory: &HostMemory,
        page_shift: u8,
    ) -> Result<DmaMapping, BusError> {
        let page = 1u64 << page_shift;
        let within = memory.address() & (page - 1);
        let count = (within + memory.len() as u64).div_ceil(page);
        let mut parts = vec![0; count as usize];
        if self.scatter {
            // Backwards, so that no page follows the one before it.
            for (i, at) in parts.iter_mut().enumerate().rev() {
                let from = (i as u64 * page).saturating_sub(within) as usize;
                let to = ((i as u64 + 1) * page - within).min(memory.len() as u64) as usize;
                *at = map.map(memory.slice(from, to - from), page)?;
            }
        } else {
            let base = map.map(memory.clone(), page)? & !(page - 1);
            for (i, at) in parts.iter_mut().enumerate() {
                *at = base + i as u64 * page + if i == 0 { within } else { 0 };
            }
        }
        let pages = parts.iter().map(|at| at & !(page - 1)).collect();
        let id = parts[0];
        let memory = (memory.address(), memory.len() as u64);
        self.known.insert(id, Mapping { memory, page, parts });
        Ok(DmaMapping { id, pages })
    }

    /// Takes a mapping back, as [`ferrowire::Bus::dma_unmap`] asks.
    ///
    /// # Errors
    /// There is no such mapping.
    pub fn unmap(&mut self, map: &mut MemoryMap, mapping: &DmaMapping) -> Result<(), BusError> {
        let unknown = BusError::Map { iova: mapping.id, bytes: 0, why: "no mapping begins there" };
        let known = self.known.remove(&mapping.id).ok_or(unknown)?;
        for at in known.parts {
            match map.remove(at) {
                Ok(_) => {}
                // The parts behind the first of one that was not scattered.
                Err(_) if at != mapping.id => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bus address of a byte of mapped memory, from its address in this process.
    pub fn bus_address(&self, address: u64) -> Option<u64> {
        self.known.values().find_map(|mapping| {
            let (start, bytes) = mapping.memory;
            let offset = address.checked_sub(start).filter(|offset| *offset < bytes)?;
            let in_pages = offset + (start & (mapping.page - 1));
            let part = mapping.parts[(in_pages / mapping.page) as usize];
            Some((part & !(mapping.page - 1)) + in_pages % mapping.page)
        })
    }
}
