// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`MemoryRegion`]: memory that work requests and peers may name by a key (IBTA 10.6).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrowire_spec::queue::command::reg_mr::RegMr;
use ferrowire_spec::queue::CommandOpcode;

use crate::access::AccessFlags;
use crate::bus::{BusError, DmaMapping};
use crate::context::{Capabilities, Device};
use crate::error::{Error, Result};
use crate::handle::{BusHandle, OwnedDma};
use crate::pd::{Pd, ProtectionDomain};
use crate::send::{RemoteAddress, Sge};
use crate::sys::HostMemory;

const OPERATION: &str = "register memory";

/// Size of the pages by which a region is translated. Larger ones take fewer of the card's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageSize {
    /// 4 KiB.
    Size4K,
    /// 2 MiB.
    Size2M,
    /// 1 GiB.
    Size1G,
}

impl PageSize {
    /// As a power of two.
    pub const fn shift(self) -> u8 {
        match self {
            PageSize::Size4K => 12,
            PageSize::Size2M => 21,
            PageSize::Size1G => 30,
        }
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }
}

impl Capabilities {
    /// The page size by which a region of so many bytes takes few of the card's page table entries and little of the bus's addresses: the
    /// largest that it fills once, of those that the card has.
    pub fn page_size(&self, bytes: usize) -> PageSize {
        let sizes = [PageSize::Size1G, PageSize::Size2M];
        let fits =
            |size: &PageSize| bytes as u64 >= size.bytes() && self.page_shifts >> size.shift() & 1 == 1;
        sizes.into_iter().find(fits).unwrap_or(PageSize::Size4K)
    }
}

/// Registered memory.
///
/// `Send` and `Sync`; holds its memory and its protection domain. Dropping it takes the rights back: when the card has
/// answered, no access by the key is in progress. While memory windows are bound to it, the card keeps the rights: then the memory
/// stays registered until the last window is freed, or the domain is given back. Should the card not answer, the memory stays mapped.
pub struct MemoryRegion {
    pd: Arc<Pd>,
    memory: HostMemory,
    key: u32,
    address: u64,
    access: AccessFlags,
    /// None once deregistered.
    registration: Option<Registration>,
}

/// What a region has taken of the card and of the bus.
pub(crate) struct Registration {
    key: u32,
    mtt: (u64, u64),
    page: PageSize,
    mapping: DmaMapping,
}

impl Registration {
    /// Takes the rights back. What the card keeps comes back with its error.
    fn end(self, device: &Device) -> std::result::Result<(), (Error, Option<Self>)> {
        if let Err(error) = device.commands.simple(CommandOpcode::DeregMr, self.key) {
            return Err((error, Some(self)));
        }
        give_back(device, self.key, self.mtt);
        device.bus.with(|b| b.dma_unmap(self.mapping)).map_err(|error| (error.into(), None))
    }
}

/// Memory from which the card reads page lists, kept mapped for the next registration: so that one costs a command and the mapping of its
/// own memory.
pub(crate) struct PageLists(Mutex<Vec<OwnedDma>>);

impl PageLists {
    /// Lists that are kept: as many as threads that register at once can use.
    const KEPT: usize = 4;
    /// Bytes of the largest one that is kept: a list of 32 MiB in pages of 4 KiB.
    const KEPT_BYTES: usize = 64 << 10;

    /// With one list, for the first registration.
    pub(crate) fn open(bus: &Arc<BusHandle>) -> Result<Self> {
        Ok(Self(Mutex::new(vec![OwnedDma::alloc(bus, 1)?])))
    }

    fn kept(&self) -> MutexGuard<'_, Vec<OwnedDma>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A list of these pages.
    fn take(&self, bus: &Arc<BusHandle>, pages: &[u64]) -> Result<OwnedDma> {
        let bytes = pages.len() * 8;
        let kept = {
            let mut kept = self.kept();
            let len = |at: &usize| kept[*at].memory().len();
            // The smallest that fits: a small region leaves a large list to a large one.
            let fits = (0..kept.len()).filter(|at| len(at) >= bytes).min_by_key(len);
            fits.map(|at| kept.swap_remove(at))
        };
        let list = kept.map_or_else(|| OwnedDma::alloc(bus, bytes), Ok)?;
        for (i, at) in pages.iter().enumerate() {
            list.memory().store_word(i * 8, *at);
        }
        Ok(list)
    }

    /// The card has read it.
    fn give_back(&self, list: OwnedDma) {
        let mut kept = self.kept();
        if list.memory().len() <= Self::KEPT_BYTES && kept.len() < Self::KEPT {
            kept.push(list);
        }
    }

    /// The card could not be stopped: it may still use them.
    pub(crate) fn leak(&self) {
        self.kept().iter().for_each(OwnedDma::leak);
    }
}

/// Regions that their owners have given up while the card still kept them: windows were bound, or it did not answer.
#[derive(Default)]
pub(crate) struct Leftovers(Mutex<Vec<Registration>>);

impl Leftovers {
    fn push(&self, registration: Registration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(registration);
    }

    /// Tries once more to give them back.
    pub(crate) fn retry(&self, device: &Device) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = std::mem::take(&mut *left);
        left.extend(tried.into_iter().filter_map(|registration| registration.end(device).err()?.1));
    }
}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegion")
            .field("address", &format_args!("{:#x}", self.address))
            .field("bytes", &self.memory.len())
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl MemoryRegion {
    /// Key for own work requests.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// Key for peers. The same number as [`lkey`](Self::lkey).
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// First address, as work requests and peers name it: that in this process; the place in the first page when the
    /// region is zero-based; or the one that [`register_at`](ProtectionDomain::register_at) was given.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Never: an empty region cannot be registered.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Its rights.
    pub fn access(&self) -> AccessFlags {
        self.access
    }

    /// The bytes.
    pub fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// Part of the region as an element of a work request.
    ///
    /// # Panics
    /// When the range leaves the region.
    #[track_caller]
    pub fn sge(&self, offset: usize, bytes: u32) -> Sge {
        assert!(
            offset <= self.len() && bytes as usize <= self.len() - offset,
            "{bytes} bytes at {offset} leave a region of {} bytes",
            self.len()
        );
        Sge { address: self.address + offset as u64, lkey: self.key, bytes }
    }

    /// What a peer needs to know to reach byte `offset`.
    pub fn remote(&self, offset: usize) -> RemoteAddress {
        RemoteAddress { address: self.address.wrapping_add(offset as u64), rkey: self.key }
    }

    /// Takes the rights back, and says whether that worked.
    ///
    /// # Errors
    /// `Command` when the card refuses: with `Busy`, memory windows are bound to the region, and its rights end when the last of them is
    /// freed. `Timeout` when it does not answer: then the memory stays mapped.
    pub fn destroy(mut self) -> Result<()> {
        self.deregister()
    }

    /// The same, but a region to which memory windows are bound comes back, as it was.
    ///
    /// # Errors
    /// As [`destroy`](Self::destroy); the region comes with the error if the card refused.
    pub fn try_destroy(mut self) -> Result<(), (Error, Option<Box<Self>>)> {
        let Some(registration) = self.registration.take() else { return Ok(()) };
        match registration.end(&self.pd.device) {
            Ok(()) => Ok(()),
            Err((error @ Error::Command { .. }, Some(registration))) => {
                self.registration = Some(registration);
                Err((error, Some(Box::new(self))))
            }
            Err((error, registration)) => {
                if let Some(registration) = registration {
                    self.pd.leftovers.push(registration);
                }
                Err((error, None))
            }
        }
    }

    /// Registers the region anew, under the key of another one, which ends: so that peers that have the key go on with it (`ibv_rereg_mr`).
    /// In between no access by either key is allowed.
    ///
    /// # Errors
    /// The other region comes back if the card does not give it up, as of [`try_destroy`](Self::try_destroy); this one has ended then. If the card
    /// refuses the key after that, or does not answer, both have ended.
    pub fn take_over(mut self, other: Self) -> Result<Self, (Error, Option<Box<Self>>)> {
        let pd = Arc::clone(&self.pd);
        let device = &pd.device;
        let Some(mut own) = self.registration.take() else { return Ok(self) };
        let key = other.key;
        let ended = other.try_destroy_but_its_key();
        if let Err((error, other)) = ended {
            self.registration = Some(own);
            return Err((error, other));
        }
        let moved = device.commands.simple(CommandOpcode::DeregMr, own.key).map_err(|error| (error, true));
        let moved = moved.and_then(|_| {
            device.tables(|t| t.keys.give_back(std::mem::replace(&mut own.key, key)));
            let what =
                Described { pd: pd.number, access: self.access, page: own.page, address: self.address };
            what.tell(device, key, own.mtt, &own.mapping.pages, self.memory.len() as u64).map_err(|error| {
                let kept = error.is_unanswered();
                (error, kept)
            })
        });
        match moved {
            Ok(()) => {
                self.key = key;
                self.registration = Some(own);
                Ok(self)
            }
            // The card may have a region, which is given back later.
            Err((error, true)) => {
                pd.leftovers.push(own);
                Err((error, None))
            }
            Err((error, false)) => {
                give_back(device, own.key, own.mtt);
                let unmapped = device.bus.with(|b| b.dma_unmap(own.mapping));
                Err((unmapped.map_or_else(Error::from, |()| error), None))
            }
        }
    }

    /// [`try_destroy`](Self::try_destroy), but the key stays taken.
    fn try_destroy_but_its_key(mut self) -> Result<(), (Error, Option<Box<Self>>)> {
        let Some(registration) = self.registration.take() else { return Ok(()) };
        let device = &self.pd.device;
        match device.commands.simple(CommandOpcode::DeregMr, registration.key) {
            Ok(_) => {
                device.tables(|t| t.mtt.give_back(registration.mtt.0, registration.mtt.1));
                let unmapped = device.bus.with(|b| b.dma_unmap(registration.mapping));
                unmapped.map_err(|error| (error.into(), None))
            }
            Err(error @ Error::Command { .. }) => {
                self.registration = Some(registration);
                Err((error, Some(Box::new(self))))
            }
            Err(error) => {
                self.pd.leftovers.push(registration);
                Err((error, None))
            }
        }
    }

    fn deregister(&mut self) -> Result<()> {
        let Some(registration) = self.registration.take() else { return Ok(()) };
        registration.end(&self.pd.device).map_err(|(error, registration)| {
            if let Some(registration) = registration {
                self.pd.leftovers.push(registration);
            }
            error
        })
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // A region that the card does not give back keeps its key, its entries and its mapping, until it does.
        let _ = self.deregister();
    }
}

fn give_back(device: &Device, key: u32, (first, count): (u64, u64)) {
    device.tables(|t| {
        t.keys.give_back(key);
        t.mtt.give_back(first, count);
    });
}

/// What a card is told of a region, but its memory and its key.
struct Described {
    pd: u32,
    access: AccessFlags,
    page: PageSize,
    address: u64,
}

impl Described {
    /// Gives the region to the card, under a key, with its page table entries.
    fn tell(&self, device: &Device, key: u32, mtt: (u64, u64), pages: &[u64], length: u64) -> Result<()> {
        let page_count = u32::try_from(pages.len()).map_err(|_| Error::Attribute {
            operation: OPERATION,
            attribute: "page_count",
            value: pages.len() as u64,
            fix: "use larger pages".into(),
        })?;
        let list = device.page_lists.take(&device.bus, pages)?;
        let result = device.commands.run(CommandOpcode::RegMr, key, |token| {
            RegMr {
                token,
                object: key,
                pd: self.pd,
                access: self.access.bits(),
                page_shift: self.page.shift(),
                va: self.address,
                length,
                page_list_addr: list.bus_address(),
                page_count,
                mtt_index: mtt.0 as u32,
                ..RegMr::default()
            }
            .to_bytes()
        });
        match result {
            Ok(_) => {
                device.page_lists.give_back(list);
                Ok(())
            }
            Err(error) => {
                match error.is_unanswered() {
                    true => list.leak(),
                    false => device.page_lists.give_back(list),
                }
                Err(error)
            }
        }
    }
}

impl ProtectionDomain {
    /// Registers all of `memory`, translated by pages of `page`.
    ///
    /// # Errors
    /// `Attribute` for an empty region, rights that exclude each other or are to what the card does not have, or a page size that it does not have;
    /// `NoResource` when keys or page table entries are used up; `Bus` when the memory cannot be mapped; `Command`
    /// when the card refuses.
    pub fn register(&self, memory: &HostMemory, access: AccessFlags, page: PageSize) -> Result<MemoryRegion> {
        let within = memory.address() & (page.bytes() - 1);
        let address = if access.contains(AccessFlags::ZERO_BASED) { within } else { memory.address() };
        self.register_as(memory, address, access, page)
    }

    /// Registers all of `memory` under addresses that begin at `address`, whatever its address in this process: so a region
    /// that moves to another process or card can keep the addresses that its peers know (`ibv_reg_mr_iova`).
    ///
    /// A page of the region is a page of the memory, so `address` must have the memory's place in a page of `page`.
    ///
    /// # Errors
    /// As [`register`](Self::register); and `Attribute` when `address` has another place in a page, when the region would
    /// run over the end of the address space, and with `ZERO_BASED`, which chooses the address itself.
    pub fn register_at(
        &self,
        memory: &HostMemory,
        address: u64,
        access: AccessFlags,
        page: PageSize,
    ) -> Result<MemoryRegion> {
        let refuse = |attribute, value, fix: String| {
            Err(Error::Attribute { operation: OPERATION, attribute, value, fix })
        };
        if access.contains(AccessFlags::ZERO_BASED) {
            let fix = "a zero-based region has no other address; leave ZERO_BASED out".into();
            return refuse("access", access.bits().into(), fix);
        }
        let within = memory.address() & (page.bytes() - 1);
        if address & (page.bytes() - 1) != within {
            let fix = format!("choose one whose place in a page of {} bytes is {within:#x}", page.bytes());
            return refuse("address", address, fix);
        }
        if address.checked_add((memory.len() as u64).saturating_sub(1)).is_none() {
            return refuse("address", address, "choose one that leaves room for the region".into());
        }
        self.register_as(memory, address, access, page)
    }

    fn register_as(
        &self,
        memory: &HostMemory,
        address: u64,
        access: AccessFlags,
        page: PageSize,
    ) -> Result<MemoryRegion> {
        let device = &self.pd.device;
        let refuse = |attribute, value, fix: &str| {
            Err(Error::Attribute { operation: OPERATION, attribute, value, fix: fix.into() })
        };
        if memory.is_empty() {
            return refuse("length", 0, "register at least a byte");
        }
        access.check(OPERATION, &device.capabilities)?;
        // IBTA 10.6.3.1: who lets peers write lets the card write.
        let writes = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(writes) && !access.contains(AccessFlags::LOCAL_WRITE) {
            return refuse("access", access.bits().into(), "remote write and atomic need LOCAL_WRITE too");
        }
        if device.capabilities.page_shifts >> page.shift() & 1 == 0 {
            return refuse("page_shift", page.shift().into(), "the card's page_shifts names those it has");
        }
        let within = memory.address() & (page.bytes() - 1);
        let count = (within + memory.len() as u64).div_ceil(page.bytes());
        let mapping = device.bus.with(|b| b.dma_map(memory, page.shift()))?;
        let result = self.register_mapped(memory, address, access, page, &mapping, count);
        let (pd, memory) = (Arc::clone(&self.pd), memory.clone());
        match result {
            Ok((key, mtt)) => {
                let registration = Some(Registration { key, mtt, page, mapping });
                Ok(MemoryRegion { pd, memory, key, address, access, registration })
            }
            Err(error) => {
                if !error.is_unanswered() {
                    device.bus.with(|b| b.dma_unmap(mapping))?;
                }
                Err(error)
            }
        }
    }

    /// Gives a mapped region its key and its page table entries. On an error nothing is taken, unless the card may have
    /// done it and not said so.
    fn register_mapped(
        &self,
        memory: &HostMemory,
        address: u64,
        access: AccessFlags,
        page: PageSize,
        mapping: &DmaMapping,
        count: u64,
    ) -> Result<(u32, (u64, u64))> {
        let device = &self.pd.device;
        let pages = &mapping.pages;
        if pages.len() as u64 != count || pages.iter().any(|at| at % page.bytes() != 0) {
            let why = "the bus gave another number of pages, or pages that are not aligned";
            return Err(BusError::Map { iova: mapping.id, bytes: memory.len() as u64, why }.into());
        }
        let (key, mtt) = device.tables(|t| {
            let none =
                |what, limit: u32| Error::NoResource { operation: OPERATION, what, limit: limit.into() };
            let first =
                t.mtt.take(count).ok_or(none("page table entries", device.capabilities.mtt_entries))?;
            match t.keys.take(&mut t.random) {
                Ok(Some(key)) => Ok((key, (first, count))),
                other => {
                    t.mtt.give_back(first, count);
                    other.and(Err(none("memory keys", device.capabilities.max_mr)))
                }
            }
        })?;
        let what = Described { pd: self.pd.number, access, page, address };
        match what.tell(device, key, mtt, pages, memory.len() as u64) {
            Ok(()) => Ok((key, mtt)),
            Err(error) => {
                if !error.is_unanswered() {
                    give_back(device, key, mtt);
                }
                Err(error)
            }
        }
    }
}
