// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`LentMemory`]: memory of another process, which that process lends by the file of its own memory.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{fcntl_getfl, fstat, fstatfs, OFlags, PROC_SUPER_MAGIC};
use rustix::io::{pread, pwrite, retry_on_intr, Errno};

/// A range of addresses of another process, read and written by its file `/proc/PID/mem`.
///
/// The process opens that file itself and passes it on, so no right over the process is needed: Linux looks at rights when the file is
/// opened (`proc(5)`). Any memory can be lent so: heap, stack, mapped files. Nothing is mapped here, so memory that the process unmaps
/// or that ends with it is an error of the access and no signal.
///
/// An access is a system call and a copy. Until it returns, its bytes may be seen in any order, also those of one aligned word.
#[derive(Clone)]
pub struct LentMemory {
    file: Arc<OwnedFd>,
    start: u64,
    bytes: u64,
    writable: bool,
}

impl fmt::Debug for LentMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rights = if self.writable { "read and write" } else { "read" };
        write!(f, "LentMemory({:#x}, {} bytes, {rights})", self.start, self.bytes)
    }
}

impl LentMemory {
    /// `bytes` bytes at address `start` of the process that `file` is the memory of.
    ///
    /// # Errors
    /// `EPERM` when it is another file, or one that was not opened for what is wanted. `EINVAL` for a range that is empty or wraps.
    pub fn of_file(file: Arc<OwnedFd>, start: u64, bytes: u64, writable: bool) -> Result<Self, Errno> {
        if !Self::is_file(file.as_fd()) {
            return Err(Errno::PERM);
        }
        let mode = fcntl_getfl(&file)? & OFlags::RWMODE;
        if mode != OFlags::RDWR && (writable || mode != OFlags::RDONLY) {
            return Err(Errno::PERM);
        }
        let end = start.checked_add(bytes).filter(|_| bytes > 0);
        // The system takes offsets below 2^63 only.
        end.filter(|end| i64::try_from(*end).is_ok()).ok_or(Errno::INVAL)?;
        Ok(Self { file, start, bytes, writable })
    }

    /// Whether a file is the memory of a process: by its name, its rights (`-rw-------`) and its file system. A read of another file of that
    /// system may wait, and a write may change a setting of the machine. The name is first: the system knows it without asking the server of a file system.
    pub fn is_file(file: BorrowedFd<'_>) -> bool {
        const PLAIN_600: u32 = 0o100_600;
        let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        name.is_ok_and(|name| name.file_name().is_some_and(|name| name == "mem"))
            && fstat(file).is_ok_and(|status| status.st_mode == PLAIN_600)
            && fstatfs(file).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC)
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Never: an empty range cannot be lent.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Copies bytes out. Whether all of them were there; if not, `out` holds anything.
    #[must_use]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        self.all(offset, out.len(), |done, at| retry_on_intr(|| pread(&self.file, &mut out[done..], at)))
    }

    /// Copies bytes in. Whether all of them could be; if not, some of them may be.
    #[must_use]
    pub fn write(&self, offset: u64, data: &[u8]) -> bool {
        self.writable
            && self
                .all(offset, data.len(), |done, at| retry_on_intr(|| pwrite(&self.file, &data[done..], at)))
    }

    /// Moves bytes until all are moved: the system stops at a page that is not there.
    fn all(
        &self,
        offset: u64,
        bytes: usize,
        mut some: impl FnMut(usize, u64) -> Result<usize, Errno>,
    ) -> bool {
        let inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.bytes);
        let mut done = 0;
        while inside && done < bytes {
            match some(done, self.start + offset + done as u64) {
                Ok(moved) if moved > 0 => done += moved,
                // 0: the process has ended.
                _ => return false,
            }
        }
        inside
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};

    use super::*;
    use crate::sys::HostMemory;

    fn own(write: bool) -> Arc<OwnedFd> {
        let file = std::fs::File::options().read(true).write(write).open("/proc/self/mem").unwrap();
        Arc::new(file.into())
    }

    #[test]
    fn bytes_are_those_of_the_process_and_nothing_beside_them() {
        let memory = HostMemory::zeroed(3 * 4096, 4096).unwrap();
        let lent = LentMemory::of_file(own(true), memory.address() + 100, 8000, true).unwrap();
        memory.write(0, b"before");
        memory.write(100, b"lent memory");
        let mut back = [0; 11];
        assert!(lent.read(0, &mut back));
        assert_eq!(&back, b"lent memory");
        assert!(lent.write(7990, b"0123456789"));
        memory.read(8090, &mut back);
        assert_eq!(&back, b"0123456789\0");
        assert!(
            !lent.write(7991, b"0123456789")
                && !lent.read(8000, &mut back)
                && !lent.read(u64::MAX, &mut back)
        );
        memory.read(8090, &mut back);
        assert_eq!(&back, b"0123456789\0");
        assert!(lent.read(8000, &mut []) && lent.write(0, &[]));
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        // The first page of a process is never mapped (vm.mmap_min_addr).
        let lent = LentMemory::of_file(own(true), 0, 4096, true).unwrap();
        assert!(!lent.read(8, &mut [0; 8]) && !lent.write(8, &[0; 8]));
    }

    #[test]
    fn what_its_process_unmaps_is_refused_from_then_on() {
        const PAGE: usize = 4096;
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new pages, which only this test knows.
        let start = unsafe { mmap_anonymous(null_mut(), 3 * PAGE, rights, flags) }.unwrap();
        let lent = LentMemory::of_file(own(true), start as u64, 3 * PAGE as u64, true).unwrap();
        assert!(lent.write(0, &[7; 3 * PAGE]) && lent.read(0, &mut [0; 3 * PAGE]));
        // SAFETY: nothing refers to the page.
        unsafe { munmap(start.byte_add(PAGE), PAGE) }.unwrap();
        let mut back = [0; 3 * PAGE];
        assert!(!lent.read(0, &mut back) && !lent.read(PAGE as u64, &mut back[..1]), "there is a hole");
        assert!(!lent.write(PAGE as u64 - 1, &[1, 2]), "its first byte alone can be written");
        assert!(lent.read(2 * PAGE as u64, &mut back[..PAGE]) && back[..PAGE] == [7; PAGE]);
        // SAFETY: nothing refers to the pages.
        unsafe { munmap(start, 3 * PAGE) }.unwrap();
        assert!(!lent.read(0, &mut back[..1]));
    }

    #[test]
    fn memory_of_a_process_that_has_ended_is_refused() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let folder = format!("/proc/{}", child.id());
        // Its stack is there as soon as it has begun.
        let stack = loop {
            let maps = std::fs::read_to_string(format!("{folder}/maps")).unwrap();
            let line = maps.lines().find(|line| line.ends_with("[stack]"));
            if let Some(range) = line.and_then(|line| line.split_once(' ')).map(|(range, _)| range) {
                let (start, end) = range.split_once('-').unwrap();
                break [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
            }
        };
        let Ok(file) = std::fs::File::options().read(true).write(true).open(format!("{folder}/mem")) else {
            println!("this system gives nobody the memory of a child: not tested");
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        };
        let lent = LentMemory::of_file(Arc::new(file.into()), stack[0], stack[1] - stack[0], true).unwrap();
        let (at, mut word) = (stack[1] - stack[0] - 16, [0; 8]);
        assert!(lent.read(at, &mut word));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!lent.read(at, &mut word) && !lent.write(at, &word));
    }

    #[test]
    fn memory_lent_for_reading_is_not_written() {
        let memory = HostMemory::zeroed(64, 8).unwrap();
        for file in [own(false), own(true)] {
            let lent = LentMemory::of_file(file, memory.address(), 64, false).unwrap();
            assert!(lent.read(0, &mut [0; 64]) && !lent.write(0, &[1; 64]));
        }
        assert_eq!(LentMemory::of_file(own(false), memory.address(), 64, true).unwrap_err(), Errno::PERM);
        assert_eq!(memory.load_word(0), 0);
    }

    #[test]
    fn other_files_and_ranges_that_cannot_be_are_refused() {
        let at = |path: &str| Arc::new(OwnedFd::from(std::fs::File::open(path).unwrap()));
        for path in ["/proc/self/maps", "/proc/self/exe", "/proc/self/oom_score_adj", "/dev/zero", "/proc"] {
            assert_eq!(LentMemory::of_file(at(path), 0, 64, false).unwrap_err(), Errno::PERM, "{path}");
        }
        for (start, bytes) in [(0, 0), (u64::MAX, 2), (u64::MAX - 4095, 4096), (1 << 62, 1 << 62)] {
            assert_eq!(LentMemory::of_file(own(true), start, bytes, true).unwrap_err(), Errno::INVAL);
        }
    }
}
