// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that two processes share: files that live in memory, and their mappings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

use super::HostMemory;

/// Bytes of a page.
const PAGE: usize = 4096;

/// A mapping, which ends when it is dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    /// The file, for memory that is to be shared with somebody else.
    pub(super) file: Option<OwnedFd>,
}

impl Mapping {
    /// Of memory that was mapped, and that this value alone ends.
    pub(super) fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes, file: None }
    }

    /// Address of the first byte of the file.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as usize as u64
    }

    /// Bytes before the first that lies at a multiple of `align`.
    fn within(&self, align: usize) -> usize {
        let start = self.start.as_ptr() as usize;
        start.next_multiple_of(align) - start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`, and nobody has it any more: who shows its bytes holds this value.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the pointer is used only to end the mapping, which any thread may do.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives access to its file alone.
unsafe impl Sync for Mapping {}

/// Maps the first `bytes` of a file that cannot become shorter.
fn map(file: BorrowedFd<'_>, bytes: usize) -> Result<Mapping, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the place, so nothing that is mapped already changes.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file.as_fd(), 0) }?;
    let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
    Ok(Mapping { start, bytes, file: None })
}

/// A file in memory that keeps its length, its mapping, and that length: room for `bytes` at a multiple of `align`.
fn create(bytes: usize, align: usize) -> Result<(OwnedFd, Mapping, usize), Errno> {
    // A mapping lies at a page: what goes beyond is found inside a larger one, of which the rest is never touched.
    let spare = align.max(PAGE) - PAGE;
    let all = bytes.checked_next_multiple_of(PAGE).and_then(|bytes| bytes.checked_add(spare));
    let all = all.filter(|_| bytes > 0 && align.is_power_of_two()).ok_or(Errno::INVAL)?;
    let file = memfd_create("ferrowire", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, all as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let mapping = map(file.as_fd(), all)?;
    Ok((file, mapping, all))
}

impl HostMemory {
    /// Zeroed memory at a multiple of `align` (a power of two), in a file that another process can map too: see
    /// [`shared_file`](Self::shared_file).
    ///
    /// # Errors
    /// The system has no file or no memory left; `bytes` is 0 or too much.
    pub fn shared(bytes: usize, align: usize) -> Result<Self, std::io::Error> {
        let (file, mut mapping, all) = create(bytes, align)?;
        mapping.file = Some(file);
        let within = mapping.within(align);
        Ok(Self::from_mapping(mapping, all).slice(within, bytes))
    }

    /// The same, where the file is the caller's, who can close it when it is shared: a process has only so many. Also, where in the
    /// file the first byte is.
    ///
    /// # Errors
    /// As [`shared`](Self::shared).
    pub fn shared_once(bytes: usize, align: usize) -> Result<(Self, OwnedFd, u64), std::io::Error> {
        let (file, mapping, all) = create(bytes, align)?;
        let within = mapping.within(align);
        Ok((Self::from_mapping(mapping, all).slice(within, bytes), file, within as u64))
    }

    /// All of a file of another process, which must be in memory and sealed against becoming shorter; if it is not sealed, it is sealed here.
    /// The file may be closed afterwards.
    ///
    /// # Errors
    /// `EPERM` for a file that can become shorter: then a touch of what is gone would kill this process. `EINVAL` for an
    /// empty one; what the system says otherwise.
    pub fn of_file(file: BorrowedFd<'_>) -> Result<Self, std::io::Error> {
        let seals = fcntl_get_seals(file).map_err(|_| Errno::PERM)?;
        if !seals.contains(SealFlags::SHRINK) {
            fcntl_add_seals(file, SealFlags::SHRINK)?;
        }
        // Behind the seal: from here on it has at least this length.
        let bytes =
            usize::try_from(fstat(file)?.st_size).ok().filter(|bytes| *bytes > 0).ok_or(Errno::INVAL)?;
        Ok(Self::from_mapping(map(file, bytes)?, bytes))
    }

    fn from_mapping(mapping: Mapping, bytes: usize) -> Self {
        let start = mapping.start;
        // SAFETY: the bytes are mapped for as long as `mapping` lives; the file cannot become shorter; only this type touches them.
        unsafe { Self::from_shared(start, bytes, mapping) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_file_show_the_same_bytes() {
        for align in [1, 4096, 1 << 16, 1 << 21] {
            let memory = HostMemory::shared(5000, align).unwrap();
            assert_eq!((memory.address() % align as u64, memory.len()), (0, 5000));
            let part = memory.slice(4321, 100);
            let (file, offset) = part.shared_file().unwrap();
            let other = HostMemory::of_file(file).unwrap();
            part.write(0, b"shared");
            let mut back = [0; 6];
            other.read(offset as usize, &mut back);
            assert_eq!(&back, b"shared");
            // The mapping outlives the file.
            drop((memory, part));
            other.read(offset as usize, &mut back);
            assert_eq!(&back, b"shared");
        }
        assert!(HostMemory::zeroed(64, 8).unwrap().shared_file().is_none());
    }

    #[test]
    fn a_file_that_can_become_shorter_is_refused() {
        let file = memfd_create("loose", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(HostMemory::of_file(file.as_fd()).is_err());
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(HostMemory::of_file(file.as_fd()).is_err());
        let file = memfd_create("sealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(HostMemory::of_file(file.as_fd()).is_err(), "empty");
        ftruncate(&file, 8192).unwrap();
        let memory = HostMemory::of_file(file.as_fd()).unwrap();
        assert!(ftruncate(&file, 0).is_err(), "it was sealed");
        memory.fill(0, 8192, 1);
    }
}
