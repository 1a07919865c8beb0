// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands about protection domains, regions and windows.

use ferrowire_spec::queue::command::alloc_mw::AllocMw;
use ferrowire_spec::queue::command::reg_mr::RegMr;
use ferrowire_spec::queue::{Access, CommandAttribute as Attribute, CommandStatus as Status};

use super::super::card::Card;
use super::super::host::Pages;
use super::super::limits;
use super::{need, object, refusal, Refusal};
use crate::model::{self, RegionAttr, Rights, WindowType};

/// Bytes of a page list that are read at once.
const PIECE: usize = 4096;

/// Where a region begins in the engine's address space: each index has room for the largest.
const fn engine_base(index: u32) -> u64 {
    (index as u64) << 48
}

const _: () = assert!((limits::PAGES as u64) << 30 <= 1 << 48 && limits::KEYS <= 1 << 16);

impl Card {
    pub(super) fn alloc_pd(&mut self, pd: u32) -> Result<(), Refusal> {
        object(pd, limits::PDS, self.objects.pds.contains(&pd) || pd == 0, false)?;
        self.objects.pds.insert(pd);
        Ok(())
    }

    pub(super) fn free_pd(&mut self, pd: u32) -> Result<(), Refusal> {
        object(pd, limits::PDS, self.objects.pds.contains(&pd), true)?;
        need(!self.engine.uses_pd(pd), Status::Busy, Attribute::Object)?;
        self.objects.pds.remove(&pd);
        Ok(())
    }

    /// A key that is to be made has an index that is in range and free.
    fn new_key(&self, key: u32) -> Result<(), Refusal> {
        let index = key >> 8;
        object(index, limits::KEYS, index == 0 || self.engine.key(index).is_some(), false)
    }

    pub(super) fn reg_mr(&mut self, command: &RegMr) -> Result<(), Refusal> {
        self.new_key(command.object)?;
        self.need_pd(command.pd)?;
        let rights = Rights(command.access);
        let all = Access::ALL.iter().fold(0, |all, right| all | right.code());
        let writes = rights.has(Rights::REMOTE_WRITE) || rights.has(Rights::REMOTE_ATOMIC);
        let allowed = command.access & !all == 0 && (!writes || rights.has(Rights::LOCAL_WRITE));
        need(allowed, Status::BadAttribute, Attribute::MrAccess)?;
        let shift = command.page_shift;
        need(matches!(shift, 12 | 21 | 30), Status::BadAttribute, Attribute::PageShift)?;
        let RegMr { va, length, page_count, mtt_index, page_list_addr, .. } = *command;
        need(length > 0, Status::BadSize, Attribute::Length)?;
        let first = va & ((1 << shift) - 1);
        let ends = va.checked_add(length - 1).is_some();
        let zero_based = rights.has(Rights::ZERO_BASED);
        need(ends && (!zero_based || va == first), Status::BadAddress, Attribute::Va)?;
        let pages = (u128::from(first) + u128::from(length)).div_ceil(1 << shift);
        let fits = u128::from(page_count) == pages && page_count <= limits::PAGES;
        need(fits, Status::BadSize, Attribute::PageCount)?;
        let end = u64::from(mtt_index) + u64::from(page_count);
        need(end <= limits::PAGES.into(), Status::BadAttribute, Attribute::MttIndex)?;
        let list_ends = page_list_addr.checked_add(8 * u64::from(page_count)).is_some();
        need(page_list_addr % 8 == 0 && list_ends, Status::BadAddress, Attribute::PageListAddr)?;
        // The last region that begins before the end is the only one that may reach into it.
        let before = self.objects.pages.range(..end as u32).next_back();
        let free = before.is_none_or(|(first, (count, _))| first + count <= mtt_index);
        need(free, Status::BadAttribute, Attribute::MttIndex)?;
        let list = self.page_list(page_list_addr, page_count, shift)?;
        let index = command.object >> 8;
        let region = RegionAttr {
            pd: command.pd,
            base: engine_base(index),
            va,
            len: length,
            // Its addresses begin where the host says, within the first page: the engine's own begin at 0.
            rights: Rights(command.access & !Rights::ZERO_BASED.0),
            page: 1 << shift,
        };
        let taken = |_| refusal(Status::BadObject, Attribute::Object);
        self.engine.register(region, Some(command.object)).map_err(taken)?;
        let memory = Pages::new(&self.host, shift, first, length, list);
        self.engine.memory_mut().lend(engine_base(index), Box::new(memory));
        self.objects.pages.insert(mtt_index, (page_count, index));
        Ok(())
    }

    fn page_list(&self, address: u64, count: u32, shift: u8) -> Result<Vec<u64>, Refusal> {
        let mut list = Vec::with_capacity(count as usize);
        let mut piece = [0; PIECE];
        while list.len() < count as usize {
            let bytes = (8 * (count as usize - list.len())).min(PIECE);
            let there = self.host.read(address + 8 * list.len() as u64, &mut piece[..bytes]);
            need(there, Status::DmaError, Attribute::PageListAddr)?;
            for entry in piece[..bytes].chunks_exact(8) {
                let at = entry.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                if at & ((1 << shift) - 1) != 0 {
                    let bad = refusal(Status::BadAddress, Attribute::PageListEntry);
                    return Err(Refusal { value: list.len() as u64, ..bad });
                }
                list.push(at);
            }
        }
        Ok(list)
    }

    /// A key that is to be removed is that of a region, or of a window.
    fn known_key(&self, key: u32, window: bool) -> Result<u8, Refusal> {
        let index = key >> 8;
        let status = self.engine.key(index);
        object(index, limits::KEYS, status.is_some_and(|status| status.window == window), true)?;
        Ok(status.map_or(0, |status| status.tag))
    }

    fn remove_key(&mut self, key: u32) -> Result<(), Refusal> {
        self.engine.deregister(key).map_err(|error| match error {
            model::Error::Busy => refusal(Status::Busy, Attribute::Object),
            _ => refusal(Status::BadObject, Attribute::Object),
        })
    }

    pub(super) fn dereg_mr(&mut self, key: u32) -> Result<(), Refusal> {
        let tag = self.known_key(key, false)?;
        need(tag == key as u8, Status::BadKey, Attribute::Object)?;
        self.remove_key(key)?;
        let index = key >> 8;
        self.engine.memory_mut().unmap(engine_base(index));
        self.objects.pages.retain(|_, (_, owner)| *owner != index);
        Ok(())
    }

    pub(super) fn alloc_mw(&mut self, command: &AllocMw) -> Result<(), Refusal> {
        self.new_key(command.object)?;
        self.need_pd(command.pd)?;
        let taken = |_| refusal(Status::BadObject, Attribute::Object);
        let kind = if command.type_1 { WindowType::Type1 } else { WindowType::Type2B };
        self.engine.alloc_window(command.pd, kind, Some(command.object)).map(|_| ()).map_err(taken)
    }

    pub(super) fn free_mw(&mut self, key: u32) -> Result<(), Refusal> {
        self.known_key(key, true)?;
        self.remove_key(key)
    }
}
