// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Linux`]: the calls of the real kernel; and memory for cards behind an IOMMU.

use std::ffi::{c_void, CString};
use std::io::{Error, Result};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{ioctl, Ioctl, IoctlOutput, Opcode};
use rustix::mm::{mmap, mmap_anonymous, MapFlags, ProtFlags};
use rustix::process::{getrlimit, Resource};

use super::shared::Mapping;
use super::{HostMemory, MappedBar};
use crate::vfio::uapi::request;
use crate::vfio::{Argument, Kernel};

/// The kernel that this process runs on.
pub(crate) struct Linux;

/// A request with its argument, and the number that comes back.
struct Request(u32, *mut c_void);

// SAFETY: the opcode goes to the kernel as it is, and the output is the number alone; who makes one answers for the pointer.
unsafe impl Ioctl for Request {
    type Output = i32;
    // The kernel may write to what the pointer names.
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.0 as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.1
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

/// Ranges of an address space, as `linux/iommufd.h` has them.
#[repr(C)]
struct IovaRanges {
    size: u32,
    ioas: u32,
    count: u32,
    reserved: u32,
    ranges: u64,
    alignment: u64,
}

impl Kernel for Linux {
    fn open(&self, path: &Path) -> Result<OwnedFd> {
        Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn request(&self, file: BorrowedFd<'_>, request: u32, argument: Argument<'_>) -> Result<i32> {
        let pointer = match argument {
            Argument::Value(value) => value as usize as *mut c_void,
            Argument::Bytes(bytes) => {
                // The kernel reads and writes as many bytes as the structure's first word says.
                let size = bytes.first_chunk().map_or(0, |size| u32::from_le_bytes(*size));
                let sized = request != request::GROUP_SET_CONTAINER;
                if sized && size as usize > bytes.len() {
                    return Err(Errno::INVAL.into());
                }
                bytes.as_mut_ptr().cast()
            }
        };
        // SAFETY: the bytes live over the call, and the kernel stays inside the size in their first word, checked above; one request
        // reads a number of 4 bytes instead. What a structure asks the kernel to map is kept for as long as it is mapped.
        Ok(unsafe { ioctl(file, Request(request, pointer)) }?)
    }

    fn device_of_group(&self, group: BorrowedFd<'_>, address: &str) -> Result<OwnedFd> {
        let name = CString::new(address).map_err(|_| Errno::INVAL)?;
        // SAFETY: the request reads a string that ends with 0.
        let file =
            unsafe { ioctl(group, Request(request::GROUP_GET_DEVICE_FD, name.as_ptr().cast_mut().cast())) }?;
        // SAFETY: the kernel has made the file for this call, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    fn iova_ranges(&self, file: BorrowedFd<'_>, ioas: u32) -> Result<(Vec<(u64, u64)>, u64)> {
        let mut room = vec![(0u64, 0u64); 16];
        loop {
            let mut words = vec![[0u64; 2]; room.len()];
            let mut ask = IovaRanges {
                size: size_of::<IovaRanges>() as u32,
                ioas,
                count: words.len() as u32,
                reserved: 0,
                ranges: words.as_mut_ptr() as usize as u64,
                alignment: 0,
            };
            let pointer = (&raw mut ask).cast();
            // SAFETY: the structure has the size that it says, and the ranges have room for so many.
            let result = unsafe { ioctl(file, Request(request::IOAS_IOVA_RANGES, pointer)) };
            match result {
                // There are more: the number says how many.
                Err(Errno::MSGSIZE) if ask.count as usize > room.len() => {
                    room.resize(ask.count as usize, (0, 0))
                }
                Err(error) => return Err(error.into()),
                Ok(_) => {
                    words.truncate(ask.count as usize);
                    return Ok((words.iter().map(|[first, last]| (*first, *last)).collect(), ask.alignment));
                }
            }
        }
    }

    fn read_at(&self, file: BorrowedFd<'_>, offset: u64, out: &mut [u8]) -> Result<()> {
        let all = out.len();
        match rustix::io::pread(file, out, offset)? {
            n if n == all => Ok(()),
            _ => Err(Error::from(std::io::ErrorKind::UnexpectedEof)),
        }
    }

    fn write_at(&self, file: BorrowedFd<'_>, offset: u64, data: &[u8]) -> Result<()> {
        match rustix::io::pwrite(file, data, offset)? {
            n if n == data.len() => Ok(()),
            _ => Err(Error::from(std::io::ErrorKind::WriteZero)),
        }
    }

    fn map(&self, file: BorrowedFd<'_>, offset: u64, bytes: usize) -> Result<MappedBar> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that is mapped already changes.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, offset) }?;
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        // A forked child has no part in the card. A kernel that does not do this leaves it to the child.
        // SAFETY: the range was mapped just now; this process keeps it.
        let _ =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxDontFork) };
        let mapping = Arc::new(Mapping::new(start, bytes));
        // SAFETY: the registers are mapped, from the start of a page on, for as long as `mapping` lives; only `MappedBar` touches them.
        Ok(unsafe { MappedBar::from_raw(start, bytes, mapping) })
    }

    fn locked_limit(&self) -> Option<u64> {
        getrlimit(Resource::Memlock).current
    }
}

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

impl HostMemory {
    /// Zeroed memory of this process alone, at a multiple of `align` (a power of two), for a card behind an IOMMU. From 2 MiB on it is of huge
    /// pages where the system has some, and may become so where it has not: the IOMMU then needs fewer entries. A child that is forked does
    /// not get it, so that its pages stay where the card knows them.
    ///
    /// # Errors
    /// The system has no memory left; `bytes` is 0 or too much.
    pub fn pinnable(bytes: usize, align: usize) -> Result<Self> {
        if bytes == 0 || !align.is_power_of_two() {
            return Err(Errno::INVAL.into());
        }
        let large = bytes >= HUGE;
        if large && align <= HUGE {
            if let Some(all) = bytes.checked_next_multiple_of(HUGE) {
                if let Ok(memory) = anonymous(all, MapFlags::HUGETLB) {
                    return Ok(memory.slice(0, bytes));
                }
            }
        }
        let align = if large { align.max(HUGE) } else { align.max(4096) };
        let all = bytes.checked_add(align - 4096).and_then(|all| all.checked_next_multiple_of(4096));
        let memory = anonymous(all.ok_or(Errno::NOMEM)?, MapFlags::empty())?;
        if large {
            // Where the kernel was built without them, small pages do.
            let _ = advise(&memory, rustix::mm::Advice::LinuxHugepage);
        }
        let within = (memory.address() as usize).next_multiple_of(align) - memory.address() as usize;
        Ok(memory.slice(within, bytes))
    }
}

fn anonymous(bytes: usize, more: MapFlags) -> Result<HostMemory> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the place, so nothing that is mapped already changes.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE | more) }?;
    let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
    // SAFETY: the bytes are mapped for as long as the mapping lives; only `HostMemory` touches them.
    let memory = unsafe { HostMemory::from_shared(start, bytes, Mapping::new(start, bytes)) };
    advise(&memory, rustix::mm::Advice::LinuxDontFork)?;
    Ok(memory)
}

/// Of a whole mapping.
fn advise(memory: &HostMemory, advice: rustix::mm::Advice) -> Result<()> {
    // SAFETY: the mapping is there, and neither advice changes its bytes in this process.
    Ok(unsafe { rustix::mm::madvise(memory.address() as usize as *mut c_void, memory.len(), advice) }?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn memory_for_a_card_is_zeroed_and_aligned() {
        for (bytes, align) in
            [(1, 1), (5000, 4096), (3 << 20, 4096), (2 << 20, 2 << 20), (4096, 1 << 21), (5, 1 << 22)]
        {
            let memory = HostMemory::pinnable(bytes, align).unwrap();
            assert_eq!((memory.len(), memory.address() % align.max(4096) as u64), (bytes, 0));
            let mut last = [1];
            memory.read(bytes - 1, &mut last);
            assert_eq!(last, [0]);
            memory.fill(0, bytes, 7);
        }
        assert!(HostMemory::pinnable(0, 1).is_err() && HostMemory::pinnable(1, 3).is_err());
        assert!(HostMemory::pinnable(usize::MAX, 1).is_err());
    }

    #[test]
    fn the_real_kernel_refuses_what_is_no_device() {
        let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let refused = Linux.request(file.as_fd(), request::GET_API_VERSION, Argument::Value(0)).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::NOTTY));
        // A structure that says more than there is never reaches the kernel.
        let mut bytes = 100u32.to_le_bytes().to_vec();
        let refused =
            Linux.request(file.as_fd(), request::DEVICE_GET_INFO, Argument::Bytes(&mut bytes)).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::INVAL));
        assert!(Linux.device_of_group(file.as_fd(), "0000:00:00.0").is_err());
        assert!(Linux.iova_ranges(file.as_fd(), 1).is_err());
        assert!(Linux.read_at(file.as_fd(), 0, &mut [0; 4]).is_err(), "an empty file");
        Linux.write_at(file.as_fd(), 0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let bar = Linux.map(file.as_fd(), 0, 4096).unwrap();
        assert_eq!(bar.load32(4), Some(0x0807_0605));
        drop(file);
        assert!(bar.store64(8, 5) && bar.load32(8) == Some(5));
    }
}
