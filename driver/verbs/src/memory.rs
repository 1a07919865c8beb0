// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the program that is registered: whether it is there, and may be read or written.

use core::ffi::c_void;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::mm::{madvise, Advice};

/// Checks that all of a range is mapped, with the rights that are wanted, and lets the system put pages there, as it does when the kernel registers
/// memory. For reading and writing the system does all of this in one call; before Linux 5.14 the process's map says it.
///
/// # Errors
/// `EFAULT`: something is not mapped, or may not be read or written.
pub fn check(start: usize, bytes: usize, write: bool) -> Result<(), Errno> {
    let page = rustix::param::page_size();
    let first = start & !(page - 1);
    let end =
        start.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page)).ok_or(Errno::FAULT)?;
    if !populates() {
        return mapped(first, end, write).then_some(()).ok_or(Errno::FAULT);
    }
    let advice = if write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
    loop {
        // SAFETY: pages are put where the program has mapped memory; what it holds does not change.
        match unsafe { madvise(first as *mut c_void, end - first, advice) } {
            Ok(()) => return Ok(()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::NOMEM) if mapped(first, end, write) => return Err(Errno::NOMEM),
            Err(_) => return Err(Errno::FAULT),
        }
    }
}

/// Whether the kernel has the advice.
fn populates() -> bool {
    /// 0: not known yet. No thread waits here for another one, which a forked child would not have.
    static HAS: AtomicU8 = AtomicU8::new(0);
    match HAS.load(Ordering::Relaxed) {
        0 => {
            let page = rustix::param::page_size();
            let own = [0u8; 1];
            let first = own.as_ptr() as usize & !(page - 1);
            // SAFETY: a page of this stack is there already.
            let has = unsafe { madvise(first as *mut c_void, page, Advice::LinuxPopulateRead) }.is_ok();
            HAS.store(if has { 2 } else { 1 }, Ordering::Relaxed);
            has
        }
        known => known == 2,
    }
}

/// Whether the process's map has all of a range, with the rights.
fn mapped(first: usize, end: usize, write: bool) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    covers(&maps, first, end, write)
}

fn covers(maps: &str, mut first: usize, end: usize, write: bool) -> bool {
    for line in maps.lines() {
        let mut words = line.split(' ');
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((from, to)) = range.split_once('-') else { continue };
        let (Ok(from), Ok(to)) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)) else {
            continue;
        };
        if from > first {
            break;
        }
        let may = rights.starts_with('r') && (!write || rights.as_bytes().get(1) == Some(&b'w'));
        if to > first && may {
            first = to;
        }
        if first >= end {
            return true;
        }
    }
    first >= end
}

#[cfg(test)]
mod tests {
    use rustix::mm::{mmap_anonymous, mprotect, munmap, MapFlags, MprotectFlags, ProtFlags};

    use super::*;

    #[test]
    fn memory_that_is_there_passes_and_any_other_does_not() {
        let page = rustix::param::page_size();
        let (read, both) = (ProtFlags::READ, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses the place.
        let start =
            unsafe { mmap_anonymous(core::ptr::null_mut(), 4 * page, both, MapFlags::PRIVATE) }.unwrap();
        let at = start as usize;
        check(at + 1, 4 * page - 1, true).unwrap();
        // SAFETY: nothing else uses this memory.
        unsafe { mprotect(start.byte_add(page), page, MprotectFlags::READ) }.unwrap();
        check(at, 4 * page, false).unwrap();
        assert_eq!(check(at, 4 * page, true), Err(Errno::FAULT));
        check(at + 2 * page, 2 * page, true).unwrap();
        // SAFETY: as above.
        unsafe { munmap(start.byte_add(3 * page), page) }.unwrap();
        assert_eq!(check(at + 2 * page, page + 1, false), Err(Errno::FAULT));
        assert!(mapped(at, at + 3 * page, false) && !mapped(at, at + 3 * page, true));
        assert!(!mapped(at, at + 4 * page, false));
        assert_eq!(check(usize::MAX - 1, 4, false), Err(Errno::FAULT));
        assert_eq!(check(0, 1, false), Err(Errno::FAULT));
        // SAFETY: as above.
        unsafe { munmap(start, 3 * page) }.unwrap();
        let _ = read;
    }

    #[test]
    fn a_map_covers_a_range_without_gaps_and_with_the_rights() {
        let maps =
            "1000-3000 rw-p 0 0 0\n3000-4000 r--p 0 0 0 /lib\n5000-6000 rw-p 0 0 0\n6000-7000 ---p 0\n";
        assert!(covers(maps, 0x1000, 0x4000, false));
        assert!(covers(maps, 0x2000, 0x3000, true));
        assert!(!covers(maps, 0x2000, 0x4000, true));
        assert!(!covers(maps, 0x3000, 0x6000, false));
        assert!(!covers(maps, 0x5000, 0x7000, false));
        assert!(!covers(maps, 0, 0x1000, false));
    }
}
