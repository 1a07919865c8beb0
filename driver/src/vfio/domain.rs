// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Domain`]: the IOMMU's side of a device: by group and container, or by `/dev/iommu`.

use std::io::Error;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::io::Errno;

use super::error::VfioError;
use super::find::{Found, Roots};
use super::kernel::{Argument, Kernel};
use super::uapi::{
    self, request, AttachIoas, BindIommufd, GroupStatus, IoasAlloc, IoasMap, IoasUnmap, IommuInfo, MapDma,
};
use crate::vfio_user::message::{pci, DmaUnmap};

/// Addresses where the kernel does not say: below the interrupts' window of x86, so that none is hit.
const SAFE: (u64, u64) = (0, 0xfedf_ffff);

/// What maps memory for a device.
#[derive(Debug)]
pub(super) enum Domain {
    /// A container; the group that is in it, for it leaves when its file is closed.
    Container { container: OwnedFd, group: OwnedFd },
    /// An address space of an IOMMU file.
    Ioas { file: OwnedFd, ioas: u32 },
}

/// A device that is open, with its IOMMU.
pub(super) struct Attached {
    pub(super) device: OwnedFd,
    pub(super) domain: Domain,
    /// Addresses that it has, with the last of each range.
    pub(super) ranges: Vec<(u64, u64)>,
    /// Bytes of its smallest page.
    pub(super) page: u64,
}

fn errno(error: &Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

/// Opens a file of VFIO.
fn open(kernel: &dyn Kernel, roots: &Roots, path: &Path, address: &str) -> Result<OwnedFd, VfioError> {
    kernel.open(path).map_err(|source| {
        let path = path.to_path_buf();
        match errno(&source) {
            Some(Errno::NOENT | Errno::NODEV) => VfioError::NoFile { path },
            Some(Errno::ACCESS | Errno::PERM) => VfioError::Permission { path },
            Some(Errno::BUSY) => VfioError::Busy { holders: roots.holders(&path), path },
            _ => VfioError::Os { operation: "open", address: address.into(), source },
        }
    })
}

/// Opens a device by its own file where the kernel has one that this user may open, and by its group otherwise.
pub(super) fn attach(kernel: &dyn Kernel, roots: &Roots, found: &Found) -> Result<Attached, VfioError> {
    let own = found.cdev.as_ref().map(|name| roots.dev.join("vfio/devices").join(name));
    let own = own.filter(|path| path.exists() && roots.dev.join("iommu").exists());
    let group = roots.dev.join("vfio").join(&found.group);
    let Some(own) = own else { return by_group(kernel, roots, found, &group) };
    match by_file(kernel, roots, found, &own) {
        // Permissions may have been given for the group alone.
        Err(VfioError::Permission { .. } | VfioError::NoFile { .. }) if group.exists() => {
            by_group(kernel, roots, found, &group)
        }
        result => result,
    }
}

fn os(operation: &'static str, found: &Found) -> impl FnOnce(Error) -> VfioError {
    let address = found.address.clone();
    move |source| VfioError::Os { operation, address, source }
}

fn by_file(kernel: &dyn Kernel, roots: &Roots, found: &Found, path: &Path) -> Result<Attached, VfioError> {
    let device = open(kernel, roots, path, &found.address)?;
    let file = open(kernel, roots, &roots.dev.join("iommu"), &found.address)?;
    let bind =
        BindIommufd { argsz: BindIommufd::BYTES as u32, file: file.as_raw_fd() as u32, ..Default::default() };
    kernel
        .request(device.as_fd(), request::DEVICE_BIND_IOMMUFD, Argument::Bytes(&mut bind.to_bytes()))
        .map_err(|source| {
            match errno(&source) {
                // Another program is bound to it.
                Some(Errno::BUSY | Errno::INVAL) => {
                    VfioError::Busy { path: path.into(), holders: others(roots, path) }
                }
                _ => os("bind the IOMMU's file", found)(source),
            }
        })?;
    let mut bytes = IoasAlloc { size: IoasAlloc::BYTES as u32, ..Default::default() }.to_bytes();
    kernel
        .request(file.as_fd(), request::IOAS_ALLOC, Argument::Bytes(&mut bytes))
        .map_err(os("make an address space", found))?;
    let ioas = IoasAlloc::parse(&bytes).map_or(0, |(alloc, _)| alloc.ioas);
    let attach = AttachIoas { argsz: AttachIoas::BYTES as u32, flags: 0, ioas };
    kernel
        .request(device.as_fd(), request::DEVICE_ATTACH_IOMMUFD_PT, Argument::Bytes(&mut attach.to_bytes()))
        .map_err(os("attach the address space", found))?;
    let (ranges, alignment) =
        kernel.iova_ranges(file.as_fd(), ioas).map_err(os("ask for the addresses", found))?;
    Ok(Attached { device, domain: Domain::Ioas { file, ioas }, ranges, page: alignment })
}

/// Programs that have a file open, but for this one.
fn others(roots: &Roots, path: &Path) -> Vec<String> {
    let own = format!("(process {})", std::process::id());
    let mut holders = roots.holders(path);
    holders.retain(|holder| !holder.ends_with(&own));
    holders
}

fn by_group(kernel: &dyn Kernel, roots: &Roots, found: &Found, path: &Path) -> Result<Attached, VfioError> {
    let group = open(kernel, roots, path, &found.address)?;
    let container = open(kernel, roots, &roots.dev.join("vfio/vfio"), &found.address)?;
    let ask = |request, value| {
        kernel
            .request(container.as_fd(), request, Argument::Value(value))
            .map_err(os("ask for the IOMMU", found))
    };
    if ask(request::GET_API_VERSION, 0)? != 0 {
        return Err(VfioError::Unsupported { what: "VFIO has another version" });
    }
    if ask(request::CHECK_EXTENSION, uapi::TYPE1V2)? == 0 {
        return Err(VfioError::Unsupported { what: "VFIO has no IOMMU of type 1, version 2" });
    }
    let mut bytes = GroupStatus { argsz: GroupStatus::BYTES as u32, flags: 0 }.to_bytes();
    kernel
        .request(group.as_fd(), request::GROUP_GET_STATUS, Argument::Bytes(&mut bytes))
        .map_err(os("ask for the group's status", found))?;
    let status = GroupStatus::parse(&bytes).map_or(0, |(status, _)| status.flags);
    if status & uapi::GROUP_VIABLE == 0 {
        let (address, group) = (found.address.clone(), found.group.clone());
        return Err(VfioError::NotViable { address, others: roots.used(&group), group });
    }
    let mut number = container.as_raw_fd().to_le_bytes();
    kernel
        .request(group.as_fd(), request::GROUP_SET_CONTAINER, Argument::Bytes(&mut number))
        .map_err(os("put the group into a container", found))?;
    kernel
        .request(container.as_fd(), request::SET_IOMMU, Argument::Value(uapi::TYPE1V2))
        .map_err(os("set the IOMMU (EPERM: the machine cannot remap interrupts)", found))?;
    let device =
        kernel.device_of_group(group.as_fd(), &found.address).map_err(|source| match errno(&source) {
            Some(Errno::BUSY) => VfioError::Busy { path: path.into(), holders: others(roots, path) },
            _ => os("open", found)(source),
        })?;
    let mut bytes = vec![0; 4096];
    let ask = IommuInfo { argsz: bytes.len() as u32, ..Default::default() };
    bytes[..IommuInfo::BYTES].copy_from_slice(&ask.to_bytes());
    kernel
        .request(container.as_fd(), request::IOMMU_GET_INFO, Argument::Bytes(&mut bytes))
        .map_err(os("ask for the addresses", found))?;
    let info = IommuInfo::parse(&bytes).map(|(info, _)| info).unwrap_or_default();
    let page = if info.flags & uapi::INFO_PGSIZES != 0 {
        1 << info.page_sizes.trailing_zeros().min(30)
    } else {
        4096
    };
    let told = (info.flags & uapi::INFO_CAPS != 0).then_some(info.capabilities);
    let ranges = told.and_then(|first| uapi::pairs(uapi::capability(&bytes, first, uapi::CAP_IOVA_RANGE)?));
    let domain = Domain::Container { container, group };
    Ok(Attached { device, domain, ranges: ranges.unwrap_or_else(|| vec![SAFE]), page })
}

impl Domain {
    /// Numbers of its files.
    pub(super) fn files(&self) -> Vec<RawFd> {
        match self {
            Domain::Container { container, group } => vec![container.as_raw_fd(), group.as_raw_fd()],
            Domain::Ioas { file, .. } => vec![file.as_raw_fd()],
        }
    }

    /// Makes `size` bytes at `vaddr` of this process reachable at `iova`.
    pub(super) fn map(&self, kernel: &dyn Kernel, iova: u64, vaddr: u64, size: u64) -> Result<(), Error> {
        let result = match self {
            Domain::Container { container, .. } => {
                let (argsz, flags) = (MapDma::BYTES as u32, pci::DMA_READ | pci::DMA_WRITE);
                let mut bytes = MapDma { argsz, flags, vaddr, iova, size }.to_bytes();
                kernel.request(container.as_fd(), request::IOMMU_MAP_DMA, Argument::Bytes(&mut bytes))
            }
            Domain::Ioas { file, ioas } => {
                let flags = uapi::IOAS_FIXED_IOVA | uapi::IOAS_READ_WRITE;
                let map = IoasMap {
                    size: IoasMap::BYTES as u32,
                    flags,
                    ioas: *ioas,
                    pad: 0,
                    vaddr,
                    length: size,
                    iova,
                };
                kernel.request(file.as_fd(), request::IOAS_MAP, Argument::Bytes(&mut map.to_bytes()))
            }
        };
        result.map(drop)
    }

    /// Takes back what was mapped.
    pub(super) fn unmap(&self, kernel: &dyn Kernel, iova: u64, size: u64) -> Result<(), Error> {
        let result = match self {
            Domain::Container { container, .. } => {
                let mut bytes =
                    DmaUnmap { argsz: DmaUnmap::BYTES as u32, flags: 0, address: iova, size }.to_bytes();
                kernel.request(container.as_fd(), request::IOMMU_UNMAP_DMA, Argument::Bytes(&mut bytes))
            }
            Domain::Ioas { file, ioas } => {
                let unmap = IoasUnmap { size: IoasUnmap::BYTES as u32, ioas: *ioas, iova, length: size };
                kernel.request(file.as_fd(), request::IOAS_UNMAP, Argument::Bytes(&mut unmap.to_bytes()))
            }
        };
        result.map(drop)
    }
}
