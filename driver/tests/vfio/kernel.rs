// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that has VFIO: a tree of files as in `/sys`, and the requests, with the rules that the real one keeps. Behind the device is
//! the card of the other tests, in a thread of its own, which sees its BAR and its mapped memory alone.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ferrowire::spec::queue::doorbell;
use ferrowire::sys::MappedBar;
use ferrowire::vfio::uapi::{self, request as ask, *};
use ferrowire::vfio::{Argument, Kernel, Roots, VfioError};
use ferrowire::vfio_user::message::{pci, DeviceInfo, DmaUnmap, IrqInfo, IrqSet, RegionInfo};
use ferrowire::*;
use rustix::io::Errno;

use crate::common::Mock;

pub const ADDRESS: &str = "0000:01:00.0";
pub const GROUP: &str = "17";
/// Where the configuration space is in a device's file.
const CONFIG: u64 = 7 << 40;
/// The address space that `/dev/iommu` makes.
const IOAS: u32 = 5;
/// With the hole that x86 has for interrupts.
const RANGES: [(u64, u64); 2] = [(0, 0xfedf_ffff), (0xfef0_0000, (1 << 39) - 1)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Container,
    Group,
    Device,
    Cdev,
    Iommu,
}

/// What the machine is like; tests change it.
pub struct State {
    pub mock: Mock,
    pub bar: HostMemory,
    files: HashMap<RawFd, Kind>,
    /// Errors of files that are opened, by the end of their path.
    pub refuse: Vec<(&'static str, Errno)>,
    /// Errors of requests.
    pub fail: BTreeMap<u32, Errno>,
    pub viable: bool,
    pub region: RegionInfo,
    /// Areas of the BAR that can be mapped, if not all.
    pub sparse: Option<Vec<(u64, u64)>>,
    pub vectors: u32,
    /// Vectors that the machine has left.
    pub vectors_left: u32,
    pub irqs: Vec<OwnedFd>,
    /// Bytes that may be locked.
    pub limit: u64,
    pub mapped: BTreeMap<u64, u64>,
    /// How often memory was mapped.
    pub maps: u32,
    pub resets: u32,
    pub config: [u8; 4096],
    attached: bool,
}

/// The kernel, and the tree that it shows.
pub struct Machine {
    pub state: Arc<Mutex<State>>,
    pub root: PathBuf,
    stop: Arc<AtomicBool>,
    card: Option<std::thread::JoinHandle<()>>,
}

impl Machine {
    /// With the card bound to vfio-pci, in a group of its own.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("fw-vfio-{}-{count}", std::process::id()));
        let bytes = u64::from(doorbell::address(4, 0));
        let mock = Mock::new();
        let bar = HostMemory::zeroed(bytes as usize, 4096).unwrap();
        let region = RegionInfo { flags: REGION_MMAP | 3, size: bytes, ..RegionInfo::default() };
        let state = State {
            mock: mock.clone(),
            bar: bar.clone(),
            files: HashMap::new(),
            refuse: Vec::new(),
            fail: BTreeMap::new(),
            viable: true,
            region,
            sparse: None,
            vectors: 4,
            vectors_left: 100,
            irqs: Vec::new(),
            limit: 64 << 20,
            mapped: BTreeMap::new(),
            maps: 0,
            resets: 0,
            config: [0; 4096],
            attached: false,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let mut card = Card::new(mock, bar);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                card.step();
                std::thread::yield_now();
            }
        });
        let machine = Self { state: Arc::new(Mutex::new(state)), root, stop, card: Some(thread) };
        machine.device(ADDRESS, GROUP, Some("vfio-pci"), (0x1af4, 0x10f0));
        machine.file("dev/vfio/vfio");
        machine.file(&format!("dev/vfio/{GROUP}"));
        machine
    }

    /// A device in the tree.
    pub fn device(&self, address: &str, group: &str, driver: Option<&str>, (vendor, device): (u16, u16)) {
        let folder = self.root.join("sys/bus/pci/devices").join(address);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("vendor"), format!("{vendor:#06x}\n")).unwrap();
        fs::write(folder.join("device"), format!("{device:#06x}\n")).unwrap();
        let members = self.root.join("sys/kernel/iommu_groups").join(group).join("devices");
        fs::create_dir_all(&members).unwrap();
        symlink(&folder, members.join(address)).unwrap();
        symlink(format!("../../../../kernel/iommu_groups/{group}"), folder.join("iommu_group")).unwrap();
        if let Some(driver) = driver {
            symlink(format!("../../../../bus/pci/drivers/{driver}"), folder.join("driver")).unwrap();
        }
    }

    /// The kernel has device files of their own, and `/dev/iommu`.
    pub fn with_iommufd(self) -> Self {
        self.file("dev/iommu");
        self.file("dev/vfio/devices/vfio3");
        let folder = self.root.join("sys/bus/pci/devices").join(ADDRESS);
        fs::create_dir_all(folder.join("vfio-dev/vfio3")).unwrap();
        fs::create_dir_all(self.root.join("sys/class/vfio-dev/vfio3")).unwrap();
        symlink(&folder, self.root.join("sys/class/vfio-dev/vfio3/device")).unwrap();
        self
    }

    pub fn file(&self, path: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    pub fn open(&self, name: &str) -> std::result::Result<VfioBus, VfioError> {
        let kernel = Fake { state: Arc::clone(&self.state), root: self.root.clone() };
        VfioBus::open_in(Box::new(kernel), &Roots::below(&self.root), name)
    }

    /// What opening it fails with, as it is printed, with the tree's folder left out.
    pub fn refusal(&self) -> String {
        let error = self.open(ADDRESS).map(drop).unwrap_err();
        error.to_string().replace(self.root.to_str().unwrap(), "")
    }

    /// From now on, a request fails.
    pub fn fail(&self, request: u32, errno: Errno) {
        self.with(|state| state.fail.insert(request, errno));
    }

    /// Changes what the machine is like.
    pub fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.card.take().map(std::thread::JoinHandle::join);
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The card's side of the BAR: what is stored there is carried out, what the card writes is stored there.
struct Card {
    mock: Mock,
    bar: HostMemory,
    seen: BTreeMap<u32, u32>,
    bells: BTreeMap<u32, u64>,
}

impl Card {
    fn new(mock: Mock, bar: HostMemory) -> Self {
        let seen = mock.card().registers.clone();
        seen.iter().for_each(|(offset, value)| put(&bar, *offset, *value));
        let bells = [doorbell::SQ, doorbell::RQ, doorbell::CQ, doorbell::EQ];
        let bells = (0..4).flat_map(|page| bells.map(|bell| (doorbell::address(page, bell), 0))).collect();
        Self { mock, bar, seen, bells }
    }

    fn step(&mut self) {
        let now: BTreeMap<u32, u32> =
            self.seen.keys().map(|offset| (*offset, get(&self.bar, *offset))).collect();
        // Behind the registers: what was rung before a command is seen with it.
        for (offset, last) in &mut self.bells {
            let bell = self.bar.load_word(*offset as usize);
            if bell != *last {
                *last = bell;
                self.mock.doorbell(*offset, bell).unwrap();
            }
        }
        for (offset, value) in now {
            if self.seen.insert(offset, value) != Some(value) {
                self.mock.csr_write32(offset, value).unwrap();
            }
        }
        self.mock.step();
        for (offset, value) in &self.mock.card().registers {
            if self.seen.insert(*offset, *value) != Some(*value) {
                put(&self.bar, *offset, *value);
            }
        }
    }
}

fn get(bar: &HostMemory, offset: u32) -> u32 {
    bar.as_bar().unwrap().load32(offset).unwrap()
}

fn put(bar: &HostMemory, offset: u32, value: u32) {
    assert!(bar.as_bar().unwrap().store32(offset, value));
}

struct Fake {
    state: Arc<Mutex<State>>,
    root: PathBuf,
}

fn no<T>(errno: Errno) -> Result<T> {
    Err(Error::from(errno))
}

fn put_structure(out: &mut [u8], bytes: &[u8]) {
    out[..bytes.len()].copy_from_slice(bytes);
}

/// A capability with pairs of words, as the only one, behind a structure of `at` bytes.
fn put_pairs(out: &mut [u8], at: usize, id: u16, pairs: &[(u64, u64)]) {
    put_structure(&mut out[at..], &CapabilityHeader { id, version: 1, next: 0 }.to_bytes());
    put_structure(&mut out[at + 8..], &(pairs.len() as u32).to_le_bytes());
    for (i, (a, b)) in pairs.iter().enumerate() {
        put_structure(&mut out[at + 16 + 16 * i..], &a.to_le_bytes());
        put_structure(&mut out[at + 24 + 16 * i..], &b.to_le_bytes());
    }
}

impl State {
    fn make(&mut self, kind: Kind) -> OwnedFd {
        let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        self.files.insert(file.as_raw_fd(), kind);
        file
    }

    fn map(&mut self, iova: u64, vaddr: u64, size: u64) -> Result<i32> {
        let whole = [iova, vaddr, size].iter().all(|n| n % 4096 == 0) && size > 0;
        let inside = RANGES.iter().any(|(first, last)| *first <= iova && iova + (size - 1) <= *last);
        if !whole || !inside || !self.attached {
            return no(Errno::INVAL);
        }
        if self.mapped.iter().any(|(at, bytes)| *at < iova + size && iova < at + bytes) {
            return no(Errno::EXIST);
        }
        if self.mapped.values().sum::<u64>() + size > self.limit {
            return no(Errno::NOMEM);
        }
        let start = NonNull::new(vaddr as usize as *mut u8).ok_or(Errno::FAULT)?;
        // SAFETY: the bus keeps the memory until it has been unmapped here, and all who use it do so by `HostMemory`.
        let memory = unsafe { HostMemory::from_raw(start, size as usize, Box::new(())) };
        self.mock.card().map.insert(iova, memory).map_err(|_| Errno::EXIST)?;
        self.mapped.insert(iova, size);
        self.maps += 1;
        Ok(0)
    }

    fn unmap(&mut self, iova: u64, size: u64) -> Result<i32> {
        // The real one takes back parts; the driver asks for no such thing.
        if self.mapped.remove(&iova) != Some(size) {
            return no(Errno::INVAL);
        }
        self.mock.card().map.remove(iova).unwrap();
        Ok(0)
    }

    fn device_request(&mut self, request: u32, bytes: &mut [u8]) -> Result<i32> {
        match request {
            ask::DEVICE_GET_INFO => {
                let flags = pci::DEVICE_RESET | pci::DEVICE_PCI;
                let info = DeviceInfo { argsz: 16, flags, regions: 9, irqs: 5 };
                put_structure(bytes, &info.to_bytes());
            }
            ask::DEVICE_GET_REGION_INFO => {
                let index = RegionInfo::parse(bytes).ok_or(Errno::INVAL)?.0.index;
                let argsz = bytes.len() as u32;
                let mut info = match index {
                    0 => self.region,
                    7 => RegionInfo { flags: 3, size: 4096, offset: CONFIG, ..RegionInfo::default() },
                    _ => return no(Errno::INVAL),
                };
                (info.argsz, info.index) = (argsz, index);
                if let Some(areas) = self.sparse.as_ref().filter(|_| index == 0) {
                    (info.flags, info.capabilities) = (info.flags | REGION_CAPS, 32);
                    put_pairs(bytes, 32, CAP_SPARSE_MMAP, areas);
                }
                put_structure(bytes, &info.to_bytes());
            }
            ask::DEVICE_GET_IRQ_INFO => {
                let (info, _) = IrqInfo::parse(bytes).ok_or(Errno::INVAL)?;
                let count = if info.index == pci::MSIX { self.vectors } else { 0 };
                put_structure(bytes, &IrqInfo { count, flags: pci::IRQ_EVENTFD, ..info }.to_bytes());
            }
            ask::DEVICE_SET_IRQS => {
                let (set, files) = IrqSet::parse(bytes).ok_or(Errno::INVAL)?;
                let right = set.flags == pci::DATA_EVENTFD | pci::ACTION_TRIGGER
                    && set.index == pci::MSIX
                    && set.start + set.count <= self.vectors
                    && set.argsz as usize == IrqSet::BYTES + 4 * set.count as usize
                    && files.len() == 4 * set.count as usize;
                if !right {
                    return no(Errno::INVAL);
                }
                if set.count > self.vectors_left {
                    return no(Errno::NOSPC);
                }
                self.irqs.clear();
                for file in files.chunks_exact(4) {
                    let file = i32::from_le_bytes(file.try_into().unwrap());
                    // SAFETY: the driver has it open during this call.
                    let file = unsafe { BorrowedFd::borrow_raw(file) };
                    self.irqs.push(file.try_clone_to_owned()?);
                }
            }
            _ => return no(Errno::NOTTY),
        }
        Ok(0)
    }
}

impl Kernel for Fake {
    fn open(&self, path: &Path) -> Result<OwnedFd> {
        let mut state = self.state.lock().unwrap();
        if let Some((_, errno)) = state.refuse.iter().find(|(end, _)| path.ends_with(end)) {
            return no(*errno);
        }
        if !path.exists() {
            return no(Errno::NOENT);
        }
        let name = path.strip_prefix(&self.root).unwrap().to_str().unwrap();
        let kind = match name {
            "dev/vfio/vfio" => Kind::Container,
            "dev/iommu" => Kind::Iommu,
            name if name.starts_with("dev/vfio/devices/") => Kind::Cdev,
            _ => Kind::Group,
        };
        Ok(state.make(kind))
    }

    fn request(&self, file: BorrowedFd<'_>, request: u32, argument: Argument<'_>) -> Result<i32> {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        if let Some(errno) = state.fail.get(&request) {
            return no(*errno);
        }
        let kind = state.files[&file.as_raw_fd()];
        match argument {
            Argument::Value(value) => match (kind, request) {
                (Kind::Container, ask::GET_API_VERSION) => Ok(0),
                (Kind::Container, ask::CHECK_EXTENSION) => Ok(i32::from(value == TYPE1V2)),
                (Kind::Container, ask::SET_IOMMU) if state.attached && value == TYPE1V2 => Ok(0),
                (Kind::Device | Kind::Cdev, ask::DEVICE_RESET) => {
                    state.resets += 1;
                    Ok(0)
                }
                _ => no(Errno::NOTTY),
            },
            Argument::Bytes(bytes) => {
                let sized = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize == bytes.len();
                assert!(
                    sized || request == ask::GROUP_SET_CONTAINER,
                    "request {request:#x}: size in the first word"
                );
                match (kind, request) {
                    (Kind::Group, ask::GROUP_GET_STATUS) => {
                        let flags = if state.viable { GROUP_VIABLE } else { 0 };
                        put_structure(bytes, &GroupStatus { argsz: 8, flags }.to_bytes());
                        Ok(0)
                    }
                    (Kind::Group, ask::GROUP_SET_CONTAINER) => {
                        let container = i32::from_le_bytes((&*bytes).try_into().unwrap());
                        state.attached = state.files.get(&container) == Some(&Kind::Container);
                        if state.attached {
                            Ok(0)
                        } else {
                            no(Errno::BADF)
                        }
                    }
                    (Kind::Container, ask::IOMMU_GET_INFO) => {
                        let (argsz, flags) = (bytes.len() as u32, INFO_PGSIZES | INFO_CAPS);
                        let info =
                            IommuInfo { argsz, flags, page_sizes: 0x4020_1000, capabilities: 24, pad: 0 };
                        put_structure(bytes, &info.to_bytes());
                        put_pairs(bytes, 24, CAP_IOVA_RANGE, &RANGES);
                        Ok(0)
                    }
                    (Kind::Container, ask::IOMMU_MAP_DMA) => {
                        let (map, _) = MapDma::parse(bytes).unwrap();
                        assert_eq!(map.flags, pci::DMA_READ | pci::DMA_WRITE);
                        state.map(map.iova, map.vaddr, map.size)
                    }
                    (Kind::Container, ask::IOMMU_UNMAP_DMA) => {
                        let (unmap, _) = DmaUnmap::parse(bytes).unwrap();
                        state.unmap(unmap.address, unmap.size)
                    }
                    (Kind::Cdev, ask::DEVICE_BIND_IOMMUFD) => {
                        let (bind, _) = BindIommufd::parse(bytes).unwrap();
                        let right = state.files.get(&(bind.file as RawFd)) == Some(&Kind::Iommu);
                        if right {
                            Ok(0)
                        } else {
                            no(Errno::BADF)
                        }
                    }
                    (Kind::Cdev, ask::DEVICE_ATTACH_IOMMUFD_PT) => {
                        state.attached = AttachIoas::parse(bytes).unwrap().0.ioas == IOAS;
                        if state.attached {
                            Ok(0)
                        } else {
                            no(Errno::NOENT)
                        }
                    }
                    (Kind::Iommu, ask::IOAS_ALLOC) => {
                        put_structure(bytes, &IoasAlloc { size: 12, flags: 0, ioas: IOAS }.to_bytes());
                        Ok(0)
                    }
                    (Kind::Iommu, ask::IOAS_MAP) => {
                        let (map, _) = IoasMap::parse(bytes).unwrap();
                        assert_eq!(
                            (map.ioas, map.flags),
                            (IOAS, uapi::IOAS_FIXED_IOVA | uapi::IOAS_READ_WRITE)
                        );
                        state.map(map.iova, map.vaddr, map.length)
                    }
                    (Kind::Iommu, ask::IOAS_UNMAP) => {
                        let (unmap, _) = IoasUnmap::parse(bytes).unwrap();
                        state.unmap(unmap.iova, unmap.length)
                    }
                    (Kind::Device | Kind::Cdev, request) => state.device_request(request, bytes),
                    _ => no(Errno::NOTTY),
                }
            }
        }
    }

    fn device_of_group(&self, _: BorrowedFd<'_>, address: &str) -> Result<OwnedFd> {
        let mut state = self.state.lock().unwrap();
        if let Some(errno) = state.fail.get(&ask::GROUP_GET_DEVICE_FD) {
            return no(*errno);
        }
        if address != ADDRESS || !state.attached {
            return no(Errno::NODEV);
        }
        Ok(state.make(Kind::Device))
    }

    fn iova_ranges(&self, _: BorrowedFd<'_>, ioas: u32) -> Result<(Vec<(u64, u64)>, u64)> {
        assert_eq!(ioas, IOAS);
        Ok((RANGES.to_vec(), 4096))
    }

    fn read_at(&self, _: BorrowedFd<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        let at = (offset - CONFIG) as usize;
        out.copy_from_slice(&self.state.lock().unwrap().config[at..at + out.len()]);
        Ok(())
    }

    fn write_at(&self, _: BorrowedFd<'_>, offset: u64, data: &[u8]) -> Result<()> {
        let at = (offset - CONFIG) as usize;
        self.state.lock().unwrap().config[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn map(&self, _: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<MappedBar> {
        let state = self.state.lock().unwrap();
        assert_eq!(offset, state.region.offset);
        Ok(state.bar.slice(0, bytes).as_bar().unwrap())
    }

    fn locked_limit(&self) -> Option<u64> {
        Some(self.state.lock().unwrap().limit)
    }
}
