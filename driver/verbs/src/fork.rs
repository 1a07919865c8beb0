// SPDX-License-Identifier: MIT OR Apache-2.0
//! Forks: a child has no part in its parent's card.
//!
//! A child inherits the parent's files and the memory of its queues. With the files it would keep the card in use after the parent has ended, and could
//! speak to the card in the parent's name. So in each child, before `fork` returns there:
//!
//! | what | becomes |
//! |---|---|
//! | files of the card, and all copies of a socket | `/dev/null` |
//! | the parent's cards and contexts | [inherited](Card::is_inherited): of an earlier [generation](generation) |
//! | the list of devices | empty: the next call makes a new one |
//!
//! Memory of queues is shared with the parent, or is not there at all, and another thread of the parent may have held any lock when it forked. So each
//! call for an inherited object ends before it takes a lock or touches a queue: with `EIO`, or, if it destroys the object, with success and nothing done.
//! Locks of this library that belong to no object are made anew (the list, the table of excluded pages) or are not there (the log).
//! The child of `fork` and `exec` has nothing of all this: the files are closed by `exec`.
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
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrowire::Bus;
use rustix::fs::{fstat, open, FileType, Mode, OFlags, RawDir};
use rustix::io::{dup3, DupFlags, Errno};
use rustix::mm::{madvise, Advice};
use rustix::process::{getrlimit, Resource};

use crate::abi::*;
use crate::card;
#[cfg(doc)]
use crate::card::Card;
use crate::device;
use crate::failure::{number, Failure, Result};
use crate::log::say;
use crate::sys::at_fork;

/// Numbers among which copies of sockets are looked for without `/proc`.
const MOST: u64 = 1 << 16;

/// Files of cards that a process has.
const FILES: usize = 64;

/// A file by which this process has a card.
struct Entry {
    /// Its number; -1: the entry is free.
    number: AtomicI32,
    /// Its device and inode, by which it is known: the number may be another file's by now.
    device: AtomicU64,
    inode: AtomicU64,
    /// It is a socket, whose copies are found by its inode.
    socket: AtomicBool,
}

/// The number of an entry that is being filled.
const BEING_NOTED: i32 = -2;

static OWNED: [Entry; FILES] = [const {
    Entry {
        number: AtomicI32::new(-1),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
        socket: AtomicBool::new(false),
    }
}; FILES];
/// `/dev/null`, to be put in their places.
static NULL: AtomicI32 = AtomicI32::new(-1);
/// How many forks lie between this process and the first one that had this library.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// `ibv_fork_init` was called.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// A card of this process pins memory.
static PINS: AtomicBool = AtomicBool::new(false);

/// Why a call for an inherited object fails.
pub const INHERITED: Failure = Failure::new(
    Errno::IO,
    "the object is the parent's, and a forked child has no part in its card; list and open devices in the child",
);

/// Sees to forks from now on. No thread waits for another one here, which a child would not have.
pub fn init() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Acquire) {
        return;
    }
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let null = OwnedFd::from(null).into_raw_fd();
        if let Err(other) = NULL.compare_exchange(-1, null, Ordering::Relaxed, Ordering::Relaxed) {
            // SAFETY: it was opened just now, and nothing else has it.
            drop(unsafe { OwnedFd::from_raw_fd(null) });
            debug_assert!(other >= 0);
        }
    }
    // Two threads may both have it called: what it does is done once.
    at_fork(child);
    DONE.store(true, Ordering::Release);
}

/// The number of `/dev/null`, -1 if it could not be opened.
pub fn null() -> RawFd {
    init();
    NULL.load(Ordering::Relaxed)
}

/// Which process of a line of forks this is: an object of another generation is the parent's.
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// What a file is known by: its device, its inode, and whether it is a socket.
fn identity(file: BorrowedFd<'_>) -> Option<(u64, u64, bool)> {
    let about = fstat(file).ok()?;
    Some((about.st_dev, about.st_ino, FileType::from_raw_mode(about.st_mode) == FileType::Socket))
}

/// Files of a card that forked children do not keep, until this is dropped.
#[derive(Debug, Default)]
pub struct Files(Vec<usize>);

impl Files {
    /// Notes files, which are open.
    pub fn note(files: &[RawFd]) -> Self {
        let mut entries = Vec::new();
        for file in files {
            // SAFETY: it is open, as the caller says.
            let Some((device, inode, socket)) = identity(unsafe { BorrowedFd::borrow_raw(*file) }) else {
                continue;
            };
            let taken = OWNED.iter().position(|entry| {
                entry.number.compare_exchange(-1, BEING_NOTED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            });
            let Some(at) = taken else {
                say!("more than {FILES} files of cards: a forked child keeps some of them open");
                continue;
            };
            OWNED[at].device.store(device, Ordering::Relaxed);
            OWNED[at].inode.store(inode, Ordering::Relaxed);
            OWNED[at].socket.store(socket, Ordering::Relaxed);
            OWNED[at].number.store(*file, Ordering::Release);
            entries.push(at);
        }
        Self(entries)
    }

    /// Notes the files by which this process has a card.
    pub fn of(bus: &dyn Bus) -> Self {
        // A card on a socket reaches memory through the process's own page tables.
        if !matches!(bus.lifeline(), Ok(Some(_))) {
            PINS.store(true, Ordering::Relaxed);
        }
        Self::note(&bus.files())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for at in &self.0 {
            OWNED[*at].inode.store(0, Ordering::Relaxed);
            OWNED[*at].number.store(-1, Ordering::Relaxed);
        }
    }
}

/// In a child, before `fork` returns there. Other threads of the parent may have held any lock, so nothing here takes one or allocates.
unsafe extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    card::forget_parent();
    device::forget_parent();
    // What is excluded is not in the child at all. The old table stays, for another thread may have been at it.
    EXCLUDED.store(ptr::null_mut(), Ordering::Relaxed);
    let null = NULL.load(Ordering::Relaxed);
    if null < 0 {
        return;
    }
    if OWNED.iter().any(|entry| entry.is_socket()) {
        replace_copies(null);
    }
    for entry in &OWNED {
        let number = entry.number.load(Ordering::Relaxed);
        if number < 0 {
            // The thread that was noting a file is not in the child.
            entry.number.store(-1, Ordering::Relaxed);
            continue;
        }
        // SAFETY: a number that is not open is none of a file, which the call says.
        let now = identity(unsafe { BorrowedFd::borrow_raw(number) });
        let noted = (entry.device.load(Ordering::Relaxed), entry.inode.load(Ordering::Relaxed));
        if now.is_some_and(|(device, inode, _)| (device, inode) == noted) {
            replace(null, number);
        }
        entry.inode.store(0, Ordering::Relaxed);
        entry.number.store(-1, Ordering::Relaxed);
    }
}

impl Entry {
    fn is_socket(&self) -> bool {
        self.number.load(Ordering::Relaxed) >= 0 && self.socket.load(Ordering::Relaxed)
    }
}

/// Puts `/dev/null` in the place of each file that is one of the sockets.
fn replace_copies(null: RawFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = open(c"/proc/self/fd", flags, Mode::empty()) else {
        // There is no `/proc`: each number may be one.
        let limit = getrlimit(Resource::Nofile).current.map_or(MOST, |limit| limit.min(MOST));
        (0..limit as RawFd).for_each(|file| replace_copy(null, file));
        return;
    };
    let mut room = [MaybeUninit::<u8>::uninit(); 2048];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(Ok(entry)) = entries.next() {
        let digits = entry.file_name().to_bytes();
        let Some(file) = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<RawFd>().ok())
        else {
            continue;
        };
        replace_copy(null, file);
    }
}

/// Puts `/dev/null` in the place of a file that is one of the sockets.
fn replace_copy(null: RawFd, file: RawFd) {
    // SAFETY: a number that is not open is none of a file, which the call says.
    let Some((_, inode, true)) = identity(unsafe { BorrowedFd::borrow_raw(file) }) else { return };
    if OWNED.iter().any(|owned| owned.is_socket() && owned.inode.load(Ordering::Relaxed) == inode) {
        replace(null, file);
    }
}

/// Puts `/dev/null` in the place of a file of a card that is gone but is never dropped, so that the file ends here.
pub fn release(file: BorrowedFd<'_>) {
    let null = null();
    if null >= 0 {
        replace(null, file.as_raw_fd());
    }
}

/// Puts one file in the place of another.
fn replace(null: RawFd, file: RawFd) {
    // SAFETY: `init` opened it, and nothing closes it.
    let null = unsafe { BorrowedFd::borrow_raw(null) };
    // SAFETY: the number is that of a file which objects of a card own that this process has no more: the parent's, or one that is gone. These are never
    // dropped, and the number stays in use.
    let mut file = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(file) });
    let _ = dup3(null.as_fd(), &mut file, DupFlags::CLOEXEC);
}

/// Whether this kernel copies pinned pages when a process forks.
fn copies_pinned() -> bool {
    /// 0: not known yet.
    static COPIES: AtomicU8 = AtomicU8::new(0);
    match COPIES.load(Ordering::Relaxed) {
        0 => {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            let copies = newer(&release, (5, 12));
            COPIES.store(if copies { 2 } else { 1 }, Ordering::Relaxed);
            copies
        }
        known => known == 2,
    }
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
type Table = BTreeMap<usize, u32>;

/// This process's table.
static EXCLUDED: AtomicPtr<Mutex<Table>> = AtomicPtr::new(ptr::null_mut());

fn excluded() -> MutexGuard<'static, Table> {
    made_once(&EXCLUDED).lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a place has, or its first value. No thread waits for another one; what was made in vain goes.
pub fn made_once<T: Default>(place: &'static AtomicPtr<T>) -> &'static T {
    let mut now = place.load(Ordering::Acquire);
    if now.is_null() {
        let new = Box::into_raw(Box::<T>::default());
        now = match place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
    }
    // SAFETY: what a place has is never freed.
    unsafe { &*now }
}

/// Pages round a piece of memory, which must end inside the address space.
fn pages(start: usize, bytes: usize) -> Result<(usize, usize), Errno> {
    let page = rustix::param::page_size();
    let end = start.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page));
    Ok((start & !(page - 1), end.ok_or(Errno::INVAL)?))
}

/// Counts one registration more or less of these pages, and calls `advise` for each run whose pages become excluded, or are not any more. If a run cannot be
/// excluded, no count changes. A run that cannot be included is counted all the same: the program has unmapped it, and what is mapped there next is not excluded.
fn recount(
    table: &mut Table,
    (start, end): (usize, usize),
    more: bool,
    mut advise: impl FnMut(usize, usize, bool) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut result = Ok(());
    let at = |table: &Table, address| table.range(..=address).next_back().map_or(0, |(_, count)| *count);
    for edge in [start, end] {
        let count = at(table, edge);
        table.insert(edge, count);
    }
    let runs: Vec<(usize, u32)> = table.range(start..end).map(|(at, count)| (*at, *count)).collect();
    for (i, (first, count)) in runs.iter().enumerate() {
        let last = runs.get(i + 1).map_or(end, |(next, _)| *next);
        let new = if more { count + 1 } else { count.saturating_sub(1) };
        let advised = if (*count == 0) != (new == 0) { advise(*first, last - first, more) } else { Ok(()) };
        if more && advised.is_err() {
            // Also this one: the system may have excluded its first pages.
            for (i, (first, count)) in runs[..=i].iter().enumerate() {
                let last = runs.get(i + 1).map_or(end, |(next, _)| *next);
                if *count == 0 {
                    let _ = advise(*first, last - first, false);
                }
                table.insert(*first, *count);
            }
            result = advised;
            break;
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
    result
}

fn advise(start: usize, bytes: usize, exclude: bool) -> Result<(), Errno> {
    let advice = if exclude { Advice::LinuxDontFork } else { Advice::LinuxDoFork };
    // SAFETY: the advice changes what a forked child gets, and nothing in this process.
    unsafe { madvise(start as *mut c_void, bytes, advice) }
}

fn change(start: usize, bytes: usize, more: bool) -> Result<(), Errno> {
    let pages = pages(start, bytes)?;
    recount(&mut excluded(), pages, more, advise)
}

/// Pages of a registration that are excluded from forks until this is dropped.
#[derive(Debug)]
pub struct Excluded {
    start: usize,
    bytes: usize,
}

impl Excluded {
    /// Excludes them; `None` where that is not needed.
    pub fn new(start: usize, bytes: usize) -> Result<Option<Self>> {
        match exclude(start, bytes) {
            Ok(excluded) => Ok(excluded.then_some(Self { start, bytes })),
            Err(errno) => Err(not_excluded(errno)),
        }
    }
}

fn not_excluded(errno: Errno) -> Failure {
    Failure::new(errno, "exclude memory from forks (MADV_DONTFORK)")
}

impl Drop for Excluded {
    fn drop(&mut self) {
        include(self.start, self.bytes);
    }
}

/// Excludes pages from forks, if that is needed. Whether it is.
fn exclude(start: usize, bytes: usize) -> Result<bool, Errno> {
    match excludes() {
        true => change(start, bytes, true).map(|()| true),
        false => Ok(false),
    }
}

/// Takes that back.
fn include(start: usize, bytes: usize) {
    // Memory that the program has unmapped meanwhile has no advice any more.
    let _ = change(start, bytes, false);
}

/// Prepares for forks: see the module.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_fork_init() -> c_int {
    init();
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
    number("ibv_dontfork_range", exclude(base as usize, size).map(drop).map_err(not_excluded))
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
        let mut advised = Vec::new();
        let mut step = |range, more| {
            advised.clear();
            recount(&mut table, range, more, |at, bytes, _| {
                advised.push((at, bytes));
                Ok(())
            })
            .unwrap();
            advised.clone()
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
    fn memory_that_was_unmapped_before_its_registration_ends_is_counted_all_the_same() {
        let mut table = BTreeMap::new();
        recount(&mut table, (0x1000, 0x4000), true, |_, _, _| Ok(())).unwrap();
        recount(&mut table, (0x2000, 0x3000), true, |_, _, _| Ok(())).unwrap();
        recount(&mut table, (0x1000, 0x4000), false, |_, _, _| Err(Errno::NOMEM)).unwrap();
        let count = |table: &Table, at| table.range(..=at).next_back().map_or(0, |(_, count)| *count);
        assert_eq!([0x1000, 0x2000, 0x3000].map(|at| count(&table, at)), [0, 1, 0]);
    }

    #[test]
    fn a_registration_whose_pages_cannot_be_excluded_leaves_all_counts_and_pages_as_they_were() {
        let mut table = BTreeMap::new();
        recount(&mut table, (0x2000, 0x3000), true, |_, _, _| Ok(())).unwrap();
        let before = table.clone();
        let mut advised = Vec::new();
        let failed = recount(&mut table, (0x1000, 0x4000), true, |at, bytes, exclude| {
            advised.push((at, bytes, exclude));
            if (at, exclude) == (0x3000, true) {
                Err(Errno::NOMEM)
            } else {
                Ok(())
            }
        });
        assert_eq!((failed, table), (Err(Errno::NOMEM), before));
        let runs = [(0x1000, 0x1000, true), (0x3000, 0x1000, true), (0x1000, 0x1000, false)];
        assert_eq!(advised, [&runs[..], &[(0x3000, 0x1000, false)]].concat());
    }

    #[test]
    fn a_range_that_runs_over_the_end_of_the_address_space_is_refused() {
        assert_eq!(pages(usize::MAX - 100, 50), Err(Errno::INVAL));
        assert_eq!(pages(0x1000, usize::MAX), Err(Errno::INVAL));
        assert_eq!(pages(0x1001, 1), Ok((0x1000, 0x2000)));
    }

    #[test]
    fn a_file_is_noted_as_long_as_a_card_has_it() {
        let file = std::fs::File::open("/dev/zero").unwrap();
        let noted = || {
            let entries =
                OWNED.iter().filter(|entry| entry.number.load(Ordering::Relaxed) == file.as_raw_fd());
            entries.count()
        };
        let files = Files::note(&[file.as_raw_fd()]);
        assert_eq!(noted(), 1);
        drop(files);
        assert_eq!(noted(), 0, "another file may have the number from now on");
    }

    #[test]
    fn a_copy_of_a_noted_socket_is_replaced_and_no_other_socket_is() {
        let (noted, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (copy, other) = (noted.try_clone().unwrap(), other.try_clone().unwrap());
        let _files = Files::note(&[noted.as_raw_fd()]);
        let socket = |file: BorrowedFd<'_>| identity(file).is_some_and(|(_, _, socket)| socket);
        for file in [&copy, &other] {
            replace_copy(null(), file.as_raw_fd());
        }
        assert!(!socket(copy.as_fd()) && socket(other.as_fd()));
    }

    #[test]
    fn pages_are_included_when_the_registration_ends() {
        // As a registration that excludes, whatever this kernel needs.
        let page = rustix::param::page_size();
        let memory = vec![0u8; 3 * page];
        let start = pages(memory.as_ptr() as usize, 1).unwrap().0 + page;
        change(start, page, true).unwrap();
        let count = || excluded().range(..=start).next_back().map_or(0, |(_, count)| *count);
        assert_eq!(count(), 1);
        drop(Excluded { start, bytes: page });
        assert_eq!(count(), 0);
    }

    #[test]
    fn kernels_are_distinguished_by_their_release() {
        for (release, is) in
            [("5.12.0-rc1", true), ("5.11.22", false), ("6.1.0-18-amd64", true), ("4.19", false), ("", false)]
        {
            assert_eq!(newer(release, (5, 12)), is, "{release}");
        }
    }
}
