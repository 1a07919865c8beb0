// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`VfioBus`]: the way to a card on PCI Express, through the kernel's VFIO.
//!
//! ```text
//!  driver --- VfioBus --- Domain: container and group, or /dev/iommu ---> IOMMU <--- DMA --+
//!                |                                                                         |
//!                +------- device file: registers, configuration space, event files ------ card
//! ```
//!
//! - BAR 0 is mapped: registers are loads and stores, doorbells go past every lock.
//! - The card reaches what is mapped in the IOMMU, and nothing else. Any memory of the process can be mapped, in whole pages round
//!   it; each mapping has addresses of its own, so mappings may overlap. What is mapped is locked in memory, and counts against the limit.
//! - The addresses of a mapping have no gap, whatever the memory is made of: a region may have large pages without memory of large pages.
//! - No rights are needed but those of the files in `/dev/vfio`. When the last file is closed, also by death, the kernel takes the card off
//!   the bus and resets it; it is reset when it is opened, too.

mod domain;
mod error;
mod find;
mod iova;
mod kernel;
pub mod uapi;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Error;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::{eventfd, EventfdFlags};
use rustix::io::Errno;

pub use error::VfioError;
pub use find::Roots;
pub use kernel::{Argument, Kernel};

use crate::bus::{Bus, BusError, DmaBuffer, DmaMapping};
use crate::spec::queue::doorbell;
use crate::sys::{HostMemory, Linux, MappedBar};
use crate::tables::Ranges;
use crate::vfio_user::message::{pci, DeviceInfo, IrqInfo, IrqSet, RegionInfo};
use crate::vfio_user::simulation;
use domain::{Attached, Domain};
use find::Found;
use uapi::request;

/// Command register of the configuration space, and its bits for memory and bus mastering (PCIe 7.5.1.1.3).
const COMMAND: u64 = 0x04;
const MEMORY_AND_MASTER: u16 = 0x0006;
const MASTER: u16 = 0x0004;

/// Bytes of BAR 0 without which there is no doorbell page.
const NEEDED: u64 = (doorbell::BASE + doorbell::PAGE_BYTES) as u64;

/// Memory that the card reaches.
#[derive(Debug)]
struct Mapped {
    /// Kept for as long as the card reaches it.
    _memory: HostMemory,
    /// What the IOMMU has.
    iova: u64,
    size: u64,
    /// What was taken of the addresses: whole pages of the region's size.
    taken: (u64, u64),
}

/// The way to a card through VFIO.
///
/// `Send`, and not `Sync`: [`Context`](crate::Context) puts it behind a mutex, past which doorbells go.
pub struct VfioBus {
    // In the order in which they are dropped: first nobody reaches the memory any more, then it may go.
    address: String,
    interrupts: Vec<OwnedFd>,
    bar: MappedBar,
    /// Where the configuration space is in the device's file.
    config: u64,
    /// Its configuration space tells how far its clock is.
    simulated: bool,
    /// The same says that it is emulated.
    engine: bool,
    vectors: u32,
    device: OwnedFd,
    domain: Domain,
    page: u64,
    iovas: Ranges,
    mapped: BTreeMap<u64, Mapped>,
    kernel: Box<dyn Kernel>,
}

impl fmt::Debug for VfioBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VfioBus({}, {:?})", self.address, self.domain)
    }
}

impl VfioBus {
    /// Opens the card at a PCI address, as `0000:01:00.0`, or of a file `/dev/vfio/devices/vfioN`: resets it and lets it be master of the bus.
    /// The card must be bound to vfio-pci; `/dev/iommu` is used where kernel and permissions have it, and the group otherwise.
    ///
    /// # Errors
    /// Each reason has its own, with what to do: see [`VfioError`].
    pub fn open(name: &str) -> Result<Self, VfioError> {
        Self::open_in(Box::new(Linux), &Roots::default(), name)
    }

    /// The same of another kernel, or of another tree of its files.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_in(kernel: Box<dyn Kernel>, roots: &Roots, name: &str) -> Result<Self, VfioError> {
        let found = find::find(roots, name)?;
        let Attached { device, domain, ranges, page } = domain::attach(&*kernel, roots, &found)?;
        let address = found.address.clone();
        let asks = Asks { kernel: &*kernel, device: &device, found: &found };
        let info = asks.info()?;
        if info.flags & pci::DEVICE_RESET != 0 {
            asks.os("reset", kernel.request(device.as_fd(), request::DEVICE_RESET, Argument::Value(0)))?;
        }
        let (region, bytes) = asks.region(pci::BAR0)?;
        if region.size < NEEDED {
            return Err(VfioError::SmallBar { address, bytes: region.size, needed: NEEDED });
        }
        let length = mappable(&region, &bytes);
        if length < NEEDED {
            return Err(VfioError::NotMappable { address });
        }
        let bar = asks.os("map BAR 0", kernel.map(device.as_fd(), region.offset, length as usize))?;
        let vectors = asks.vectors()?;
        if vectors == 0 {
            return Err(VfioError::NoMsix { address });
        }
        let (space, _) = asks.region(pci::CONFIG)?;
        let config = space.offset;
        let (iovas, page) = (iova::free(&ranges, page.max(4096)), page.max(4096));
        let (interrupts, mapped) = (Vec::new(), BTreeMap::new());
        let mut bus = Self {
            address,
            interrupts,
            bar,
            config,
            simulated: false,
            engine: false,
            vectors,
            device,
            domain,
            page,
            iovas,
            mapped,
            kernel,
        };
        let os = |operation| {
            let address = found.address.clone();
            move |source| VfioError::Os { operation, address, source }
        };
        if space.size >= simulation::AT + simulation::BYTES as u64 {
            let found = bus.simulation().map_err(os("look for a simulation's clock"))?;
            (bus.simulated, bus.engine) = (found.is_some(), found.is_some_and(|(_, engine)| engine));
        }
        bus.command(MEMORY_AND_MASTER, 0).map_err(os("turn on bus mastering"))?;
        Ok(bus)
    }

    /// PCI address of the card.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sets and clears bits of the command register.
    fn command(&self, set: u16, clear: u16) -> Result<(), Error> {
        let mut word = [0; 2];
        let (file, at) = (self.device.as_fd(), self.config + COMMAND);
        self.kernel.read_at(file, at, &mut word)?;
        let word = (u16::from_le_bytes(word) | set) & !clear;
        self.kernel.write_at(file, at, &word.to_le_bytes())
    }

    /// How far the card's clock is, and whether the card is emulated, if it is simulated: it may be, in a virtual machine.
    fn simulation(&self) -> Result<Option<(u64, bool)>, Error> {
        let read = || -> Result<Option<(u64, bool)>, Error> {
            let mut bytes = [0; simulation::BYTES];
            self.kernel.read_at(self.device.as_fd(), self.config + simulation::AT, &mut bytes)?;
            Ok(simulation::parse(&bytes))
        };
        loop {
            // The kernel reads four bytes at a time, between which the upper ones may change.
            match (read()?, read()?) {
                (Some((before, _)), Some((now, _))) if before >> 32 != now >> 32 => {}
                (_, now) => return Ok(now),
            }
        }
    }

    /// Gives all vectors event files, for kernels before 6.5 cannot add one later; fewer vectors where the system has no more. If it fails, there are none.
    fn enable_interrupts(&mut self) -> Result<(), BusError> {
        let files = (0..self.vectors).map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK));
        let files: Result<Vec<OwnedFd>, Errno> = files.collect();
        let mut files = files.map_err(|e| os("make an event file; raise `ulimit -n`", e.into()))?;
        loop {
            let count = files.len() as u32;
            let argsz = IrqSet::BYTES as u32 + 4 * count;
            let flags = pci::DATA_EVENTFD | pci::ACTION_TRIGGER;
            let set = IrqSet { argsz, flags, index: pci::MSIX, start: 0, count };
            let mut bytes = set.to_bytes().to_vec();
            files.iter().for_each(|file| bytes.extend(file.as_raw_fd().to_le_bytes()));
            match self.kernel.request(
                self.device.as_fd(),
                request::DEVICE_SET_IRQS,
                Argument::Bytes(&mut bytes),
            ) {
                Ok(0) => break,
                // So many vectors are not left in this machine.
                Ok(left) if left > 0 && (left as u32) < count => files.truncate(left as usize),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOSPC) && count > 1 => {
                    files.truncate(count as usize / 2);
                }
                Ok(_) => return Err(os("turn on MSI-X", Errno::NOSPC.into())),
                Err(error) => return Err(os("turn on MSI-X", error)),
            }
        }
        self.vectors = files.len() as u32;
        self.interrupts = files;
        Ok(())
    }

    /// Makes memory reachable at addresses whose places in pages of `align` bytes are those of `memory`. The first address.
    fn share(&mut self, memory: &HostMemory, align: u64) -> Result<u64, BusError> {
        let (start, bytes) = (memory.address(), memory.len() as u64);
        let refuse = |why| BusError::Map { iova: start, bytes, why };
        let align = align.max(self.page);
        let end = start.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(self.page));
        let outer = start & !(self.page - 1);
        let size = end.ok_or(refuse("the memory runs over the end of the address space"))? - outer;
        let within = outer & (align - 1);
        let room = within.checked_add(size).and_then(|room| room.checked_next_multiple_of(self.page));
        let room =
            room.filter(|room| bytes > 0 && *room > 0).ok_or(refuse("the memory is empty, or too large"))?;
        let base = self
            .iovas
            .take_aligned(room, align)
            .ok_or(refuse("the IOMMU has no addresses left; unmap some"))?;
        let iova = base + within;
        if let Err(error) = self.domain.map(&*self.kernel, iova, outer, size) {
            self.iovas.give_back(base, room);
            return Err(match Errno::from_io_error(&error) {
                Some(Errno::NOMEM) => BusError::LockedMemory { bytes: size, limit: self.kernel.locked_limit() },
                Some(Errno::NOSPC) => refuse("the kernel takes no more mappings (dma_entry_limit of vfio_iommu_type1); map larger pieces"),
                Some(Errno::FAULT) => refuse("the process may not both read and write this memory"),
                _ => os("map memory in the IOMMU", error),
            });
        }
        let first = iova + (start - outer);
        let mapped = Mapped { _memory: memory.clone(), iova, size, taken: (base, room) };
        self.mapped.insert(first, mapped);
        Ok(first)
    }

    fn unshare(&mut self, first: u64) -> Result<(), BusError> {
        let why = "nothing is mapped there; give back what this bus has given";
        let none = BusError::Map { iova: first, bytes: 0, why };
        let Mapped { iova, size, .. } = *self.mapped.get(&first).ok_or(none)?;
        // While the card may still reach it, it is kept.
        self.domain.unmap(&*self.kernel, iova, size).map_err(|e| os("unmap memory in the IOMMU", e))?;
        if let Some(mapped) = self.mapped.remove(&first) {
            self.iovas.give_back(mapped.taken.0, mapped.taken.1);
        }
        Ok(())
    }
}

/// The bytes from the first on that can be mapped.
fn mappable(region: &RegionInfo, bytes: &[u8]) -> u64 {
    if region.flags & uapi::REGION_MMAP == 0 {
        return 0;
    }
    let told = region.flags & uapi::REGION_CAPS != 0;
    let sparse = told.then(|| uapi::capability(bytes, region.capabilities, uapi::CAP_SPARSE_MMAP)).flatten();
    match sparse.map(uapi::pairs) {
        None => region.size,
        Some(areas) => {
            let first = areas.unwrap_or_default().into_iter().find(|(offset, _)| *offset == 0);
            first.map_or(0, |(_, size)| size.min(region.size))
        }
    }
}

fn os(operation: &'static str, error: Error) -> BusError {
    BusError::Os { operation, message: error.to_string(), errno: error.raw_os_error() }
}

/// Questions to a device that is being opened.
struct Asks<'a> {
    kernel: &'a dyn Kernel,
    device: &'a OwnedFd,
    found: &'a Found,
}

impl Asks<'_> {
    fn os<T>(&self, operation: &'static str, result: Result<T, Error>) -> Result<T, VfioError> {
        result.map_err(|source| VfioError::Os { operation, address: self.found.address.clone(), source })
    }

    fn ask(&self, operation: &'static str, request: u32, bytes: &mut [u8]) -> Result<(), VfioError> {
        self.os(operation, self.kernel.request(self.device.as_fd(), request, Argument::Bytes(bytes)))
            .map(drop)
    }

    fn info(&self) -> Result<DeviceInfo, VfioError> {
        let mut bytes = DeviceInfo { argsz: DeviceInfo::BYTES as u32, ..Default::default() }.to_bytes();
        self.ask("ask for the device", request::DEVICE_GET_INFO, &mut bytes)?;
        Ok(DeviceInfo::parse(&bytes).map(|(info, _)| info).unwrap_or_default())
    }

    /// A region, with its capabilities behind it.
    fn region(&self, index: u32) -> Result<(RegionInfo, Vec<u8>), VfioError> {
        let mut bytes = vec![0; 1024];
        let ask = RegionInfo { argsz: bytes.len() as u32, index, ..Default::default() };
        bytes[..RegionInfo::BYTES].copy_from_slice(&ask.to_bytes());
        self.ask("ask for a region", request::DEVICE_GET_REGION_INFO, &mut bytes)?;
        Ok((RegionInfo::parse(&bytes).map(|(info, _)| info).unwrap_or_default(), bytes))
    }

    fn vectors(&self) -> Result<u32, VfioError> {
        let ask = IrqInfo { argsz: IrqInfo::BYTES as u32, index: pci::MSIX, ..Default::default() };
        let mut bytes = ask.to_bytes();
        self.ask("ask for the interrupts", request::DEVICE_GET_IRQ_INFO, &mut bytes)?;
        Ok(IrqInfo::parse(&bytes).map_or(0, |(info, _)| info.count).min(crate::spec::pci::MSIX_MAX))
    }
}

impl Drop for VfioBus {
    fn drop(&mut self) {
        // Before its memory goes. The kernel does the same when the last file is closed.
        let _ = self.command(0, MASTER);
    }
}

impl Bus for VfioBus {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        self.bar.load32(offset).ok_or(BusError::BadOffset { offset })
    }

    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.bar.store32(offset, value).then_some(()).ok_or(BusError::BadOffset { offset })
    }

    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.bar.store64(offset, value).then_some(()).ok_or(BusError::BadOffset { offset })
    }

    fn mapped(&mut self) -> Option<MappedBar> {
        Some(self.bar.clone())
    }

    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        let memory = self.host_alloc(bytes, align)?;
        let iova = self.share(&memory, align as u64)?;
        Ok(DmaBuffer::new(iova, memory))
    }

    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.unshare(buffer.bus_address())
    }

    fn host_alloc(&mut self, bytes: usize, align: usize) -> Result<HostMemory, BusError> {
        let none = BusError::NoMemory { bytes: bytes as u64, align: align as u64 };
        HostMemory::pinnable(bytes, align.max(self.page as usize)).map_err(|_| none)
    }

    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        let page = 1u64 << page_shift;
        let first = self.share(memory, page)?;
        let pages = (first & !(page - 1)..first + memory.len() as u64).step_by(page as usize).collect();
        Ok(DmaMapping { id: first, pages })
    }

    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.unshare(mapping.id)
    }

    fn files(&self) -> Vec<RawFd> {
        [self.device.as_raw_fd()].into_iter().chain(self.domain.files()).collect()
    }

    fn card_cycles(&mut self) -> Result<Option<u64>, BusError> {
        if !self.simulated {
            return Ok(None);
        }
        let now = self.simulation().map_err(|e| os("read the simulation's clock", e))?;
        Ok(now.map(|(cycles, _)| cycles))
    }

    fn is_engine(&self) -> bool {
        self.engine
    }

    fn interrupt(&mut self, vector: u16) -> Result<Option<OwnedFd>, BusError> {
        if self.interrupts.is_empty() {
            self.enable_interrupts()?;
        }
        let copy = self.interrupts.get(usize::from(vector)).map(OwnedFd::try_clone).transpose();
        copy.map_err(|e| os("copy an event file", e))
    }
}
