// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ClientMemory`]: what a client lets its card reach.
//!
//! Each file is mapped into this process once, as a whole, and closed; a range that the card reaches is a piece of that. So a client that maps a
//! gigabyte page by page, as QEMU does with an IOMMU, costs one mapping here and no file. What the card reaches is in the [`MemoryMap`]
//! alone.
//!
//! A file must be sealed against becoming shorter, for a touch of what is gone would end this process: see
//! [`HostMemory::of_file`]. A range without a file (a BAR, a ROM), or that the card may not both read and write, is noted and
//! not reached.
//!
//! Memory that is in no such file a client lends by the file of its own memory, `/proc/self/mem`: its offsets are the client's addresses,
//! and nothing of it is mapped here ([`LentMemory`]). Of that, the card may also be allowed to read alone.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ferrowire::vfio_user::message::{pci, DmaMap, DmaUnmap};
use ferrowire::{HostMemory, LentMemory, MemoryMap};
use rustix::fs::{fcntl_get_seals, fcntl_getfl, fstat, OFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Ranges of a client, at most.
const RANGES: usize = 1 << 18;

/// Bytes of files that are mapped here for a client, at most: all clients together leave this process room among its addresses.
const BYTES: u64 = 1 << 40;

/// Files of a client's own memory, at most: each stays open here. A process needs one; a program that another starts has its own.
const LENT: usize = 4;

/// Which file: its device, its number there, and whether it is open for writing.
type File = (u64, u64, bool);

#[derive(Debug)]
struct Range {
    size: u64,
    file: Option<File>,
}

/// What a file gives.
#[derive(Debug, Clone)]
enum Source {
    /// Memory that is mapped here.
    Shared(HostMemory),
    /// The client's own memory.
    Lent(Arc<OwnedFd>),
}

impl Source {
    /// Whether it is memory of so many bytes.
    fn reaches(&self, end: u64) -> bool {
        matches!(self, Source::Shared(memory) if memory.len() as u64 >= end)
    }
}

/// Ranges of bus addresses, and the files behind them.
#[derive(Debug)]
pub struct ClientMemory {
    /// Files of the client, at most: each is a mapping of this process.
    most: usize,
    ranges: BTreeMap<u64, Range>,
    /// What is behind a file, and how many ranges need it.
    files: HashMap<File, (Source, usize)>,
}

impl ClientMemory {
    /// Nothing is mapped. The client may map `most` files.
    pub fn new(most: usize) -> Self {
        Self { most, ranges: BTreeMap::new(), files: HashMap::new() }
    }

    /// Lets the card of `map` reach a range.
    ///
    /// # Errors
    /// `EINVAL` for a range that is empty, wraps, is no whole pages or leaves its file; `EEXIST` for one that overlaps another; `EPERM` for a
    /// file that can become shorter, for the memory of another user's process, and for a file that was not opened for what is asked; `ENOSPC` when there are too many,
    /// or a file is longer than when it was mapped first and has ranges of before;
    /// `EMFILE` when this process may not open more.
    pub fn map(&mut self, map: &mut MemoryMap, ask: &DmaMap, file: Option<&OwnedFd>) -> Result<(), Errno> {
        let (address, size) = (ask.address, ask.size);
        let whole = [address, size, ask.offset].iter().all(|value| value % MemoryMap::PAGE == 0);
        let last = address.checked_add(size.wrapping_sub(1)).filter(|_| whole && size > 0);
        let last = last.ok_or(Errno::INVAL)?;
        let before = self.ranges.range(..=last).next_back();
        if before.is_some_and(|(start, range)| start + (range.size - 1) >= address) {
            return Err(Errno::EXIST);
        }
        if self.ranges.len() >= RANGES {
            return Err(Errno::NOSPC);
        }
        let may = |right| ask.flags & right == right;
        let file = match file {
            // Its seals are asked for first: only memory has some, and a look at another file may wait for a file system that the client serves.
            Some(file) if may(pci::DMA_READ) && !is_memory(file) && LentMemory::is_file(file.as_fd()) => {
                let (key, memory) = self.lent(file, ask)?;
                self.insert(key, map.insert_lent(address, memory).is_ok())?;
                Some(key)
            }
            Some(file) if may(pci::DMA_READ | pci::DMA_WRITE) => {
                let end = ask.offset.checked_add(size).ok_or(Errno::INVAL)?;
                let (key, memory) = self.shared(file, end)?;
                // `shared` has checked that it lies inside, so that it fits a `usize`.
                let memory = memory.slice(ask.offset as usize, size as usize);
                self.insert(key, map.insert(address, memory).is_ok())?;
                Some(key)
            }
            _ => None,
        };
        self.ranges.insert(address, Range { size, file });
        Ok(())
    }

    /// All of a file, which has `end` bytes at least.
    fn shared(&mut self, file: &OwnedFd, end: u64) -> Result<(File, HostMemory), Errno> {
        if !is_memory(file) {
            return Err(Errno::PERM);
        }
        let status = fstat(file)?;
        let key = (status.st_dev, status.st_ino, true);
        let known = self.files.get(&key);
        if let Some((Source::Shared(memory), _)) = known.filter(|(source, _)| source.reaches(end)) {
            return Ok((key, memory.clone()));
        }
        let size = u64::try_from(status.st_size).ok().filter(|size| *size >= end).ok_or(Errno::INVAL)?;
        // One that has become longer would be mapped here again and again, for ranges of before keep what they have.
        if known.is_some() || size > BYTES - self.mapped_bytes().min(BYTES) {
            return Err(Errno::NOSPC);
        }
        let memory = HostMemory::of_file(file.as_fd())
            .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
        if (memory.len() as u64) < end {
            return Err(Errno::INVAL);
        }
        self.keep(key, Source::Shared(memory.clone()))?;
        Ok((key, memory))
    }

    /// Bytes of all files that are mapped.
    fn mapped_bytes(&self) -> u64 {
        let bytes = |source: &Source| match source {
            Source::Shared(memory) => memory.len() as u64,
            Source::Lent(_) => 0,
        };
        self.files.values().map(|(source, _)| bytes(source)).fold(0, u64::saturating_add)
    }

    /// A range of a file is `inserted`, or is not, and then the file goes if no other range needs it.
    fn insert(&mut self, key: File, inserted: bool) -> Result<(), Errno> {
        if let Some((_, users)) = self.files.get_mut(&key) {
            *users += usize::from(inserted);
            if *users == 0 {
                self.files.remove(&key);
            }
        }
        inserted.then_some(()).ok_or(Errno::EXIST)
    }

    /// A range of a client's own memory. Its file is kept once, though each range comes with a copy.
    fn lent(&mut self, file: &OwnedFd, ask: &DmaMap) -> Result<(File, LentMemory), Errno> {
        let status = fstat(file)?;
        // Linux has checked the client's rights when the file was opened. A file of another user is none that a client of this one opens for itself.
        if status.st_uid != geteuid().as_raw() {
            return Err(Errno::PERM);
        }
        let key = (status.st_dev, status.st_ino, fcntl_getfl(file)? & OFlags::RWMODE == OFlags::RDWR);
        let file = match self.files.get(&key) {
            Some((Source::Lent(file), _)) => Arc::clone(file),
            _ => Arc::new(file.try_clone().map_err(|_| Errno::MFILE)?),
        };
        let writable = ask.flags & pci::DMA_WRITE != 0;
        let memory = LentMemory::of_file(Arc::clone(&file), ask.offset, ask.size, writable)?;
        let lent = self.files.values().filter(|(source, _)| matches!(source, Source::Lent(_))).count();
        if lent >= LENT && !self.files.contains_key(&key) {
            return Err(Errno::NOSPC);
        }
        self.keep(key, Source::Lent(file))?;
        Ok((key, memory))
    }

    /// Keeps what is behind a file, for as many ranges as it has.
    fn keep(&mut self, key: File, source: Source) -> Result<(), Errno> {
        let users = self.files.get(&key).map(|(_, users)| *users);
        if users.is_none() && self.files.len() >= self.most {
            return Err(Errno::NOSPC);
        }
        self.files.insert(key, (source, users.unwrap_or(0)));
        Ok(())
    }

    /// Takes all ranges away that lie in the one asked for. Their bytes together: 0 when there is none, which is no error, as with VFIO.
    ///
    /// # Errors
    /// `EINVAL` when it is empty or cuts a range in two; then nothing is taken away.
    pub fn unmap(&mut self, map: &mut MemoryMap, ask: &DmaUnmap) -> Result<u64, Errno> {
        if ask.flags & pci::UNMAP_ALL != 0 {
            return Ok(self.clear(map));
        }
        let last = ask.address.checked_add(ask.size.wrapping_sub(1)).filter(|_| ask.size > 0);
        let last = last.ok_or(Errno::INVAL)?;
        let before = self.ranges.range(..ask.address).next_back();
        if before.is_some_and(|(start, range)| start + (range.size - 1) >= ask.address) {
            return Err(Errno::INVAL);
        }
        let inside: Vec<u64> = self.ranges.range(ask.address..=last).map(|(start, _)| *start).collect();
        let end = inside.last().and_then(|start| Some(start + (self.ranges.get(start)?.size - 1)));
        if end.is_some_and(|end| end > last) {
            return Err(Errno::INVAL);
        }
        Ok(inside.into_iter().map(|start| self.remove(map, start)).sum())
    }

    /// Takes everything away. How many bytes that were.
    pub fn clear(&mut self, map: &mut MemoryMap) -> u64 {
        let all: Vec<u64> = self.ranges.keys().copied().collect();
        // Ranges do not overlap, but may be all there is.
        all.into_iter().map(|start| self.remove(map, start)).fold(0, u64::saturating_add)
    }

    /// Takes a range away, and gives its size.
    fn remove(&mut self, map: &mut MemoryMap, start: u64) -> u64 {
        let Some(Range { size, file }) = self.ranges.remove(&start) else { return 0 };
        let Some(key) = file else { return size };
        // It is there: it came with the range.
        let _ = map.remove(start);
        if let Some((_, users)) = self.files.get_mut(&key) {
            *users -= 1;
            if *users == 0 {
                self.files.remove(&key);
            }
        }
        size
    }
}

/// Whether a file is memory that may be sealed, as `memfd_create(2)` gives it. The system says so by itself, whatever the file is.
fn is_memory(file: &OwnedFd) -> bool {
    fcntl_get_seals(file).is_ok()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{ftruncate, memfd_create, MemfdFlags};

    use super::*;

    const PAGE: u64 = MemoryMap::PAGE;

    fn ask(address: u64, size: u64, offset: u64) -> DmaMap {
        DmaMap { argsz: 32, flags: 3, offset, address, size }
    }

    fn gone(address: u64, size: u64) -> DmaUnmap {
        DmaUnmap { argsz: 24, flags: 0, address, size }
    }

    fn file(memory: &HostMemory) -> OwnedFd {
        memory.shared_file().unwrap().0.try_clone_to_owned().unwrap()
    }

    #[test]
    fn pages_of_a_file_in_any_order_are_one_mapping() {
        let memory = HostMemory::shared(64 * 4096, 4096).unwrap();
        let (mut client, mut map, file) = (ClientMemory::new(8), MemoryMap::new(), file(&memory));
        for page in 0..64 {
            client.map(&mut map, &ask(page * PAGE, PAGE, (63 - page) * PAGE), Some(&file)).unwrap();
        }
        assert_eq!((client.ranges.len(), client.files.len(), map.len()), (64, 1, 64));
        memory.write(63 * 4096, b"first page of the card");
        let mut back = [0; 5];
        map.read(0, &mut back).unwrap();
        assert_eq!(&back, b"first");
        assert_eq!(client.unmap(&mut map, &gone(PAGE, 62 * PAGE)), Ok(62 * PAGE));
        assert_eq!((client.ranges.len(), client.files.len(), map.len()), (2, 1, 2));
        client.clear(&mut map);
        assert_eq!((client.ranges.len(), client.files.len(), map.len()), (0, 0, 0));
    }

    #[test]
    fn a_client_maps_as_many_files_as_it_may_and_another_one_when_it_gives_one_back() {
        let (mut client, mut map) = (ClientMemory::new(3), MemoryMap::new());
        let files: Vec<_> = (0..4).map(|_| HostMemory::shared(4096, 4096).unwrap()).collect();
        let mut ask =
            |at: u64, of: usize| client.map(&mut map, &ask(at * PAGE, PAGE, 0), Some(&file(&files[of])));
        let few = [(0, 0), (1, 1), (2, 2), (3, 1)].map(|(at, of)| ask(at, of));
        assert_eq!((few, ask(4, 3)), ([Ok(()); 4], Err(Errno::NOSPC)));
        client.unmap(&mut map, &gone(0, PAGE)).unwrap();
        client.map(&mut map, &self::ask(4 * PAGE, PAGE, 0), Some(&file(&files[3]))).unwrap();
    }

    #[test]
    fn a_file_that_grows_is_not_mapped_anew_while_it_has_ranges() {
        let loose = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("grows", loose).unwrap();
        let (mut client, mut map) = (ClientMemory::new(8), MemoryMap::new());
        ftruncate(&file, PAGE).unwrap();
        client.map(&mut map, &ask(0, PAGE, 0), Some(&file)).unwrap();
        ftruncate(&file, 2 * PAGE).unwrap();
        assert_eq!(client.map(&mut map, &ask(PAGE, PAGE, PAGE), Some(&file)), Err(Errno::NOSPC));
        client.map(&mut map, &ask(PAGE, PAGE, 0), Some(&file)).unwrap();
        client.clear(&mut map);
        client.map(&mut map, &ask(PAGE, PAGE, PAGE), Some(&file)).unwrap();
        assert_eq!((client.files.len(), client.mapped_bytes()), (1, 2 * PAGE));
    }

    #[test]
    fn files_of_a_client_have_a_bound_of_bytes_together() {
        let file = |bytes| {
            let file = memfd_create("large", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&file, bytes).unwrap();
            file
        };
        let (mut client, mut map) = (ClientMemory::new(8), MemoryMap::new());
        let large = file(BYTES + PAGE);
        assert_eq!(client.map(&mut map, &ask(0, PAGE, 0), Some(&large)), Err(Errno::NOSPC));
        client.map(&mut map, &ask(0, PAGE, 0), Some(&file(PAGE))).unwrap();
        let rest = file(BYTES);
        assert_eq!(client.map(&mut map, &ask(PAGE, PAGE, 0), Some(&rest)), Err(Errno::NOSPC));
        assert!(ftruncate(&rest, PAGE).is_ok(), "a file that is refused is not sealed");
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_changes_nothing() {
        let memory = HostMemory::shared(4 * 4096, 4096).unwrap();
        let (mut client, mut map, file) = (ClientMemory::new(8), MemoryMap::new(), file(&memory));
        client.map(&mut map, &ask(PAGE, 2 * PAGE, 0), Some(&file)).unwrap();
        let bad = [
            (ask(8 * PAGE, 0, 0), Errno::INVAL),
            (ask(8 * PAGE + 1, PAGE, 0), Errno::INVAL),
            (ask(8 * PAGE, PAGE + 1, 0), Errno::INVAL),
            (ask(8 * PAGE, PAGE, 1), Errno::INVAL),
            (ask(u64::MAX - PAGE + 1, 2 * PAGE, 0), Errno::INVAL),
            (ask(8 * PAGE, 5 * PAGE, 0), Errno::INVAL),
            (ask(8 * PAGE, PAGE, 4 * PAGE), Errno::INVAL),
            (ask(8 * PAGE, PAGE, u64::MAX - PAGE + 1), Errno::INVAL),
            (ask(0, 2 * PAGE, 0), Errno::EXIST),
            (ask(2 * PAGE, 2 * PAGE, 0), Errno::EXIST),
        ];
        for (ask, error) in bad {
            assert_eq!(client.map(&mut map, &ask, Some(&file)), Err(error), "{ask:?}");
        }
        let loose = rustix::fs::memfd_create("loose", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&loose, PAGE).unwrap();
        assert_eq!(client.map(&mut map, &ask(8 * PAGE, PAGE, 0), Some(&loose)), Err(Errno::PERM));
        for (gone, error) in [
            (gone(PAGE, PAGE), Errno::INVAL),
            (gone(2 * PAGE, PAGE), Errno::INVAL),
            (gone(PAGE, 0), Errno::INVAL),
            (gone(u64::MAX, 2), Errno::INVAL),
        ] {
            assert_eq!(client.unmap(&mut map, &gone), Err(error), "{gone:?}");
        }
        assert_eq!((client.ranges.len(), client.files.len(), map.len()), (1, 1, 1));
    }

    #[test]
    fn ranges_without_a_file_or_rights_are_noted_and_not_reached() {
        let memory = HostMemory::shared(4096, 4096).unwrap();
        let (mut client, mut map, file) = (ClientMemory::new(8), MemoryMap::new(), file(&memory));
        client.map(&mut map, &ask(0, 1 << 40, 0), None).unwrap();
        client.map(&mut map, &DmaMap { flags: pci::DMA_READ, ..ask(1 << 40, PAGE, 0) }, Some(&file)).unwrap();
        assert_eq!(client.map(&mut map, &ask(PAGE, PAGE, 0), Some(&file)), Err(Errno::EXIST));
        assert!(map.is_empty());
        let all = DmaUnmap { flags: pci::UNMAP_ALL, ..gone(0, 0) };
        assert_eq!(client.unmap(&mut map, &all), Ok((1 << 40) + PAGE));
        assert!(client.ranges.is_empty());
    }

    #[test]
    fn a_clients_own_memory_is_reached_by_its_addresses_and_nothing_of_it_is_mapped() {
        let memory = HostMemory::zeroed(8 * 4096, 4096).unwrap();
        let own = std::fs::File::options().read(true).write(true).open("/proc/self/mem").unwrap();
        let own = OwnedFd::from(own);
        let (mut client, mut map) = (ClientMemory::new(8), MemoryMap::new());
        for page in 0..4 {
            let copy = own.try_clone().unwrap();
            client
                .map(&mut map, &ask(page * PAGE, PAGE, memory.address() + page * PAGE), Some(&copy))
                .unwrap();
        }
        let read_only = DmaMap { flags: pci::DMA_READ, ..ask(8 * PAGE, PAGE, memory.address() + 7 * PAGE) };
        client.map(&mut map, &read_only, Some(&own)).unwrap();
        assert_eq!((client.ranges.len(), client.files.len(), map.len()), (5, 1, 5));
        map.write(PAGE - 3, b"across").unwrap();
        let mut back = [0; 6];
        memory.read(4093, &mut back);
        assert_eq!(&back, b"across");
        map.read(8 * PAGE, &mut back).unwrap();
        assert!(map.write(8 * PAGE, &back).is_err());
        // The first page of a process is never mapped.
        client.map(&mut map, &ask(16 * PAGE, PAGE, 0), Some(&own)).unwrap();
        assert!(map.read(16 * PAGE, &mut back).is_err() && map.write(16 * PAGE, &back).is_err());
        assert_eq!(
            client.map(&mut map, &ask(32 * PAGE, PAGE, u64::MAX - PAGE + 1), Some(&own)),
            Err(Errno::INVAL)
        );
        assert_eq!(client.clear(&mut map), 6 * PAGE);
        assert_eq!((client.ranges.len(), client.files.len(), map.len()), (0, 0, 0));
        // A range that was refused keeps no file.
        assert_eq!(client.map(&mut map, &ask(0, PAGE, u64::MAX - PAGE + 1), Some(&own)), Err(Errno::INVAL));
        assert!(client.files.is_empty());
    }

    #[test]
    fn a_file_of_own_memory_gives_the_rights_that_it_was_opened_with() {
        let memory = HostMemory::zeroed(4096, 4096).unwrap();
        let open = |write| {
            OwnedFd::from(std::fs::File::options().read(true).write(write).open("/proc/self/mem").unwrap())
        };
        for first in [true, false] {
            let (mut client, mut map) = (ClientMemory::new(8), MemoryMap::new());
            let read_only = DmaMap { flags: pci::DMA_READ, ..ask(16 * PAGE, PAGE, memory.address()) };
            client.map(&mut map, &read_only, Some(&open(first))).unwrap();
            let both = ask(0, PAGE, memory.address());
            assert_eq!(client.map(&mut map, &both, Some(&open(false))), Err(Errno::PERM));
            client.map(&mut map, &both, Some(&open(true))).unwrap();
            assert!(map.write(0, &[1]).is_ok() && map.write(16 * PAGE, &[1]).is_err());
        }
    }

    #[test]
    fn a_client_keeps_few_files_of_processes_open() {
        let memory = HostMemory::zeroed(4096, 4096).unwrap();
        let (mut client, mut map) = (ClientMemory::new(8), MemoryMap::new());
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(0);
        let stopped = std::sync::Mutex::new(stopped);
        std::thread::scope(|scope| {
            // Each thread has a file of the same memory.
            let threads: Vec<u32> = (0..LENT + 1)
                .map(|_| {
                    let (told, tid) = std::sync::mpsc::channel();
                    let stopped = &stopped;
                    scope.spawn(move || {
                        told.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                        let _ = stopped.lock().unwrap().recv();
                    });
                    tid.recv().unwrap()
                })
                .collect();
            let mut answers = threads.iter().zip(0u64..).map(|(tid, at)| {
                let file = std::fs::File::options()
                    .read(true)
                    .write(true)
                    .open(format!("/proc/self/task/{tid}/mem"));
                client.map(&mut map, &ask(at * PAGE, PAGE, memory.address()), Some(&file.unwrap().into()))
            });
            let (few, last) = (answers.by_ref().take(LENT).collect::<Vec<_>>(), answers.next());
            assert_eq!((few, last), (vec![Ok(()); LENT], Some(Err(Errno::NOSPC))));
            drop(stop);
        });
    }

    /// QEMU takes all addresses away so, in powers of two, whenever a guest's IOMMU gives its card another table.
    #[test]
    fn where_nothing_is_there_is_nothing_to_take_away() {
        let memory = HostMemory::shared(4096, 4096).unwrap();
        let (mut client, mut map, file) = (ClientMemory::new(8), MemoryMap::new(), file(&memory));
        client.map(&mut map, &ask(5 << 32, PAGE, 0), Some(&file)).unwrap();
        let halves =
            [(0, 1 << 32, 0), (1 << 32, 1 << 33, 0), (1 << 34, 1 << 34, PAGE), (1 << 63, 1 << 63, 0)];
        for (address, size, bytes) in halves {
            assert_eq!(client.unmap(&mut map, &gone(address, size)), Ok(bytes), "{address:#x}");
        }
        assert_eq!((client.ranges.len(), map.len()), (0, 0));
    }
}
