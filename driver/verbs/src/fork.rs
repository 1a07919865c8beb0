// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forks: a child has no part in its parent's card.
//!
//! A child inherits the parent's files and the memory of its queues. With the files it would keep the card in use after the parent has ended, and could
//! speak to the card in the parent's name. So in each child the files of the card, and all copies of a socket, are replaced by `/dev/null`, and the list of
//! devices begins anew.
//! Calls for the parent's objects fail there. The child of `fork` and `exec` has nothing of all this: the files are closed by `exec`.
//!
//! Registered memory needs no care of the program, so `ibv_fork_init` has nothing to do:
//!
//! | card | why a fork does not take registered memory from the card |
//! |---|---|
//! | on a socket | the card reads and writes the memory of the parent through the parent's own page tables |
//! | VFIO | Linux copies pinned pages for the child when it forks, since 5.12 |
//!
//! On an older kernel with VFIO, `ibv_fork_init` makes registrations exclude their pages from forks (`MADV_DONTFORK`).

use core::ffi::{c_int, c_void};
use std::collections::BTreeMap;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use ferrowire::Bus;
use rustix::fs::{fstat, open, FileType, Mode, OFlags, RawDir};
use rustix::io::{dup3, DupFlags, Errno};
use rustix::mm::{madvise, Advice};

use crate::abi::*;
use crate::device;
use crate::failure::{number, Failure, Result};
use crate::log::say;
use crate::sys::at_fork;

/// Files of the card that a process has.
const FILES: usize = 16;
/// Their numbers; -1: none.
static OWNED: [AtomicI32; FILES] = [const { AtomicI32::new(-1) }; FILES];
/// The inode of each that is a socket, by which its copies are found; 0: it is no socket.
static SOCKETS: [AtomicU64; FILES] = [const { AtomicU64::new(0) }; FILES];
/// `/dev/null`, to be put in their places.
static NULL: AtomicI32 = AtomicI32::new(-1);
/// `ibv_fork_init` was called.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// A card of this process pins memory.
static PINS: AtomicBool = AtomicBool::new(false);

/// Sees to forks from now on.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
            NULL.store(OwnedFd::from(null).into_raw_fd(), Ordering::Relaxed);
        }
        at_fork(child);
    });
}

/// The inode of a file, if it is a socket.
fn socket(file: BorrowedFd<'_>) -> Option<u64> {
    let about = fstat(file).ok()?;
    (FileType::from_raw_mode(about.st_mode) == FileType::Socket).then_some(about.st_ino)
}

/// Notes the files by which this process has a card.
pub fn own(bus: &mut dyn Bus) {
    // A card on a socket reaches memory through the process's own page tables.
    if !matches!(bus.lifeline(), Ok(Some(_))) {
        PINS.store(true, Ordering::Relaxed);
    }
    for file in bus.files() {
        // SAFETY: the bus has it open.
        let inode = socket(unsafe { BorrowedFd::borrow_raw(file) }).unwrap_or(0);
        let mut free = OWNED.iter().zip(&SOCKETS);
        let free = free.find(|(place, _)| {
            place.compare_exchange(-1, file, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        match free {
            Some((_, socket)) => socket.store(inode, Ordering::Relaxed),
            None => say!("more than {FILES} files of cards: a forked child keeps some of them open"),
        }
    }
}

/// In a child, before `fork` returns there. Other threads of the parent may have held any lock, so nothing here takes one or allocates.
unsafe extern "C" fn child() {
    device::forget_parent();
    let null = NULL.load(Ordering::Relaxed);
    if null < 0 {
        return;
    }
    let inodes: [u64; FILES] = std::array::from_fn(|i| SOCKETS[i].swap(0, Ordering::Relaxed));
    if inodes.iter().any(|inode| *inode != 0) {
        replace_copies(null, &inodes);
    }
    for place in &OWNED {
        let file = place.swap(-1, Ordering::Relaxed);
        if file >= 0 {
            replace(null, file);
        }
    }
}

/// Puts `/dev/null` in the place of each file that is one of these sockets.
fn replace_copies(null: RawFd, inodes: &[u64; FILES]) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = open(c"/proc/self/fd", flags, Mode::empty()) else { return };
    let mut room = [MaybeUninit::<u8>::uninit(); 2048];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(Ok(entry)) = entries.next() {
        let digits = entry.file_name().to_bytes();
        let Some(file) = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<RawFd>().ok())
        else {
            continue;
        };
        // SAFETY: the folder says that it is open.
        let inode = socket(unsafe { BorrowedFd::borrow_raw(file) });
        if inode.is_some_and(|inode| inodes.contains(&inode)) {
            replace(null, file);
        }
    }
}

/// Puts one file in the place of another.
fn replace(null: RawFd, file: RawFd) {
    // SAFETY: `init` opened it, and nothing closes it.
    let null = unsafe { BorrowedFd::borrow_raw(null) };
    // SAFETY: the number is that of a file of the parent's card, which the child's copies of the parent's objects own. These are never dropped,
    // and the number stays in use.
    let mut file = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(file) });
    let _ = dup3(null.as_fd(), &mut file, DupFlags::CLOEXEC);
}

/// Whether this kernel copies pinned pages when a process forks.
fn copies_pinned() -> bool {
    static COPIES: OnceLock<bool> = OnceLock::new();
    *COPIES.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        newer(&release, (5, 12))
    })
}

/// Whether a kernel's release is at least this one.
fn newer(release: &str, wanted: (u32, u32)) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= wanted
}

/// Whether registrations must exclude their pages from forks.
fn excludes() -> bool {
    ENABLED.load(Ordering::Relaxed) && PINS.load(Ordering::Relaxed) && !copies_pinned()
}

/// How many registrations have each run of pages, from its first address on, until the next entry.
static EXCLUDED: Mutex<BTreeMap<usize, u32>> = Mutex::new(BTreeMap::new());

/// Pages round a piece of memory.
fn pages(start: usize, bytes: usize) -> (usize, usize) {
    let page = rustix::param::page_size();
    (start & !(page - 1), start.saturating_add(bytes).next_multiple_of(page))
}

/// Counts one registration more or less of these pages, and calls `advise` for each run whose pages become excluded, or are not any more.
fn recount(
    table: &mut BTreeMap<usize, u32>,
    (start, end): (usize, usize),
    more: bool,
    mut advise: impl FnMut(usize, usize) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let at = |table: &BTreeMap<usize, u32>, address| {
        table.range(..=address).next_back().map_or(0, |(_, count)| *count)
    };
    for edge in [start, end] {
        let count = at(table, edge);
        table.insert(edge, count);
    }
    let runs: Vec<(usize, u32)> = table.range(start..end).map(|(at, count)| (*at, *count)).collect();
    for (i, (first, count)) in runs.iter().enumerate() {
        let last = runs.get(i + 1).map_or(end, |(next, _)| *next);
        let new = if more { count + 1 } else { count.saturating_sub(1) };
        if (*count == 0) != (new == 0) {
            advise(*first, last - first)?;
        }
        table.insert(*first, new);
    }
    // Runs that are alike are one.
    let mut before = table.range(..start).next_back().map_or(0, |(_, count)| *count);
    let touched: Vec<(usize, u32)> = table.range(start..=end).map(|(at, count)| (*at, *count)).collect();
    for (first, count) in touched {
        if count == before {
            table.remove(&first);
        }
        before = count;
    }
    Ok(())
}

fn advise(start: usize, bytes: usize, advice: Advice) -> Result<(), Errno> {
    // SAFETY: the advice changes what a forked child gets, and nothing in this process.
    unsafe { madvise(start as *mut c_void, bytes, advice) }
}

fn change(start: usize, bytes: usize, more: bool) -> Result<(), Errno> {
    let mut table = EXCLUDED.lock().unwrap_or_else(PoisonError::into_inner);
    let advice = if more { Advice::LinuxDontFork } else { Advice::LinuxDoFork };
    recount(&mut table, pages(start, bytes), more, |first, length| advise(first, length, advice))
}

/// A registration begins: its pages are excluded from forks, where that is needed. Whether they were.
pub fn exclude(start: usize, bytes: usize) -> Result<bool> {
    if !excludes() {
        return Ok(false);
    }
    match change(start, bytes, true) {
        Ok(()) => Ok(true),
        Err(errno) => Err(Failure::new(errno, "exclude memory from forks (MADV_DONTFORK)")),
    }
}

/// A registration that had them excluded has ended.
pub fn include(start: usize, bytes: usize) {
    // Memory that the program has unmapped meanwhile has no advice any more.
    let _ = change(start, bytes, false);
}

/// Prepares for forks: see the module.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_fork_init() -> c_int {
    ENABLED.store(true, Ordering::Relaxed);
    0
}

/// Whether a program must call `ibv_fork_init`.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    if copies_pinned() {
        return IBV_FORK_UNNEEDED;
    }
    match ENABLED.load(Ordering::Relaxed) {
        true => IBV_FORK_ENABLED,
        false => IBV_FORK_DISABLED,
    }
}

/// Excludes memory from forks.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_dontfork_range(base: *mut c_void, size: usize) -> c_int {
    number("ibv_dontfork_range", exclude(base as usize, size).map(drop))
}

/// Takes that back.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_dofork_range(base: *mut c_void, size: usize) -> c_int {
    if excludes() {
        include(base as usize, size);
    }
    0
}

const _: functions::ibv_fork_init = ibv_fork_init;
const _: functions::ibv_is_fork_initialized = ibv_is_fork_initialized;
const _: undeclared::ibv_dontfork_range = ibv_dontfork_range;
const _: undeclared::ibv_dofork_range = ibv_dofork_range;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_excluded_with_the_first_registration_and_included_after_the_last() {
        let mut table = BTreeMap::new();
        let mut told = Vec::new();
        let mut step = |range, more| {
            told.clear();
            recount(&mut table, range, more, |at, bytes| {
                told.push((at, bytes));
                Ok(())
            })
            .unwrap();
            told.clone()
        };
        assert_eq!(step((0x1000, 0x4000), true), [(0x1000, 0x3000)]);
        assert_eq!(step((0x3000, 0x6000), true), [(0x4000, 0x2000)]);
        assert_eq!(step((0x0000, 0x8000), true), [(0, 0x1000), (0x6000, 0x2000)]);
        assert_eq!(step((0x1000, 0x4000), false), []);
        assert_eq!(step((0x0000, 0x8000), false), [(0, 0x3000), (0x6000, 0x2000)]);
        assert_eq!(step((0x3000, 0x6000), false), [(0x3000, 0x3000)]);
        assert!(table.values().all(|count| *count == 0), "{table:?}");
    }

    #[test]
    fn kernels_are_told_apart_by_their_release() {
        for (release, is) in
            [("5.12.0-rc1", true), ("5.11.22", false), ("6.1.0-18-amd64", true), ("4.19", false), ("", false)]
        {
            assert_eq!(newer(release, (5, 12)), is, "{release}");
        }
    }
}
