// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Msix`]: the MSI-X table, the pending bits, and where interrupts go (PCIe 7.7.2).
//!
//! ```text
//!  interrupt of the card ---> pending ---> enabled, not masked? ---> event file of the vector
//!                                ^  |                no: it waits
//!                                +--+
//! ```
//!
//! A card that faces PCIe has table and pending bits of its own, and decides by them. The table's messages go to the simulated root complex, which knows
//! them by vector; so what is kept here of an entry is the address and data that a client has written, and where its file is, while its mask and
//! the pending bits are read and written in the card.
//!
//! A client says in two ways where an interrupt goes. It may write an entry of the table, as a driver on a bus does; address and data are kept
//! and mean nothing here. And it gives an event file with SET_IRQS, as who owns the device for a guest does: that unmasks the entry, and
//! taking the file back masks it, for then nobody writes the table itself. An interrupt that may go and has no file is lost, as a
//! write to an address where nobody is.

use std::os::fd::OwnedFd;

use ferrowire::vfio_user::message::{pci, IrqSet};
use ferrowire_spec::csr::{MSIX_PBA, MSIX_TABLE};
use ferrowire_spec::pci::MSIX_ENTRY;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fcntl_getfl, fcntl_setfl, readlink, OFlags};
use rustix::io::Errno;

/// Last word of an entry: vector control.
const CONTROL: usize = 3;
/// Vector control: masked.
const MASKED: u32 = 1;

#[derive(Debug)]
struct Vector {
    entry: [u32; 4],
    pending: bool,
    file: Option<OwnedFd>,
}

impl Vector {
    fn new() -> Self {
        Self { entry: [0, 0, 0, MASKED], pending: false, file: None }
    }

    fn signal(&self) {
        if let Some(file) = &self.file {
            // One that counts to its end has told enough. The client has the same file, and may have it wait.
            let mut files = [PollFd::new(file, PollFlags::OUT)];
            let room = poll(&mut files, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
            if room && do_not_wait(file).is_ok() {
                let _ = rustix::io::write(file, &1u64.to_ne_bytes());
            }
        }
    }
}

/// Table, pending bits and event files.
#[derive(Debug)]
pub struct Msix {
    vectors: Vec<Vector>,
    /// MSI-X is enabled, and not masked as a whole.
    open: bool,
    /// Masks and pending bits are the card's own.
    of_card: bool,
    /// Masks that the card is yet to be told of.
    changes: Vec<usize>,
}

impl Msix {
    /// So many vectors, all masked. `of_card`: masks and pending bits are the card's own.
    pub fn new(vectors: u32, of_card: bool) -> Self {
        let vectors = (0..vectors).map(|_| Vector::new()).collect();
        let mut msix = Self { vectors, open: false, of_card, changes: Vec::new() };
        msix.tell_all();
        msix
    }

    /// The card is to be told of all masks.
    fn tell_all(&mut self) {
        self.changes = (0..self.vectors.len()).filter(|_| self.of_card).collect();
    }

    /// The vector's mask is another one.
    fn changed(&mut self, vector: usize) {
        if self.of_card {
            self.changes.push(vector);
        }
    }

    /// What is to be written to the card's own table: where in BAR 0, and what.
    pub fn take_changes(&mut self) -> Vec<(u32, u32)> {
        let write = |vector: usize| {
            let at = MSIX_TABLE + MSIX_ENTRY * vector as u32 + 4 * CONTROL as u32;
            (at, self.vectors[vector].entry[CONTROL])
        };
        std::mem::take(&mut self.changes).into_iter().map(write).collect()
    }

    /// Whether the word at an address of BAR 0 is the card's own.
    pub fn is_of_card(&self, offset: u64) -> bool {
        let control = offset % u64::from(MSIX_ENTRY) / 4 == CONTROL as u64;
        !Self::covers(offset) || self.of_card && (control || offset >= MSIX_PBA.into())
    }

    /// Whether an address in BAR 0 is in the range that is answered here.
    pub fn covers(offset: u64) -> bool {
        (u64::from(MSIX_TABLE)..u64::from(MSIX_PBA) + u64::from(MSIX_PBA - MSIX_TABLE)).contains(&offset)
    }

    /// Vectors there are.
    pub fn count(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// As after a reset: no interrupt waits. Vectors with a file stay as they are: whoever gave it owns the table.
    pub fn reset(&mut self) {
        for vector in &mut self.vectors {
            vector.pending = false;
            if vector.file.is_none() {
                vector.entry = Vector::new().entry;
            }
        }
        self.tell_all();
    }

    /// Whether interrupts may go at all: MSI-X is enabled, and the function is not masked.
    pub fn set_open(&mut self, open: bool) {
        self.open = open;
        self.deliver();
    }

    /// The card raises a vector; one that has masks of its own has looked at them.
    pub fn raise(&mut self, vector: u8) {
        let Some(vector) = self.vectors.get_mut(usize::from(vector)) else { return };
        if self.of_card {
            vector.signal();
            return;
        }
        vector.pending = true;
        self.deliver();
    }

    /// Lets go what may.
    fn deliver(&mut self) {
        if !self.open {
            return;
        }
        for vector in self.vectors.iter_mut().filter(|v| v.pending && v.entry[CONTROL] & MASKED == 0) {
            vector.pending = false;
            vector.signal();
        }
    }

    /// The 32-bit word at an address of BAR 0, a multiple of 4.
    pub fn read(&self, offset: u64) -> u32 {
        let place = |base: u32, unit: u32| {
            let at = offset.checked_sub(base.into())?;
            Some(((at / u64::from(unit)) as usize, (at % u64::from(unit) / 4) as usize))
        };
        if let Some((word, _)) = place(MSIX_PBA, 4) {
            let pending = self.vectors.iter().skip(word * 32).take(32).map(|vector| vector.pending);
            return pending.rev().fold(0, |bits, pending| bits << 1 | u32::from(pending));
        }
        let entry = place(MSIX_TABLE, MSIX_ENTRY);
        entry.and_then(|(i, word)| Some(self.vectors.get(i)?.entry[word])).unwrap_or(0)
    }

    /// Writes it. Pending bits cannot be written.
    pub fn write(&mut self, offset: u64, value: u32) {
        let Some(at) = offset.checked_sub(MSIX_TABLE.into()) else { return };
        let (i, word) = ((at / u64::from(MSIX_ENTRY)) as usize, (at % u64::from(MSIX_ENTRY) / 4) as usize);
        if let Some(vector) = self.vectors.get_mut(i).filter(|_| offset < MSIX_PBA.into()) {
            vector.entry[word] = if word == CONTROL { value & MASKED } else { value };
            if word == CONTROL {
                self.changed(i);
            }
            self.deliver();
        }
    }

    /// What SET_IRQS asks for.
    ///
    /// # Errors
    /// `EINVAL` for vectors that are not there, for files that are no event files, and for what makes no sense.
    pub fn set(&mut self, set: &IrqSet, data: &[u8], files: Vec<OwnedFd>) -> Result<(), Errno> {
        let (start, count) = (set.start as usize, set.count as usize);
        let end = start.checked_add(count).filter(|end| *end <= self.vectors.len()).ok_or(Errno::INVAL)?;
        let bools = set.flags & pci::DATA_BOOL != 0;
        if set.index != pci::MSIX || bools && data.len() != count {
            return Err(Errno::INVAL);
        }
        let all = pci::DATA_NONE | pci::DATA_BOOL | pci::DATA_EVENTFD;
        let action = set.flags & !all;
        let chosen = |i: usize| !bools || data[i] != 0;
        match (action, set.flags & all) {
            (pci::ACTION_TRIGGER, pci::DATA_EVENTFD) => return self.route(start..end, files),
            (pci::ACTION_TRIGGER, pci::DATA_NONE) if count == 0 => {
                return self.route(0..self.vectors.len(), Vec::new());
            }
            (pci::ACTION_TRIGGER, pci::DATA_NONE | pci::DATA_BOOL) => {
                // The card does not know of it, whose masks these are.
                let of_card = self.of_card;
                let vectors = self.vectors[start..end].iter_mut().enumerate();
                vectors.filter(|(i, _)| chosen(*i)).for_each(|(_, vector)| match of_card {
                    true => vector.signal(),
                    false => vector.pending = true,
                });
            }
            (pci::ACTION_MASK | pci::ACTION_UNMASK, pci::DATA_NONE | pci::DATA_BOOL) => {
                let masked = if action == pci::ACTION_MASK { MASKED } else { 0 };
                for i in (start..end).filter(|i| chosen(i - start)) {
                    self.vectors[i].entry[CONTROL] = masked;
                    self.changed(i);
                }
            }
            _ => return Err(Errno::INVAL),
        }
        self.deliver();
        Ok(())
    }

    /// Gives each vector of a range its file, or takes all of theirs.
    fn route(&mut self, range: std::ops::Range<usize>, files: Vec<OwnedFd>) -> Result<(), Errno> {
        if !files.is_empty() && files.len() != range.len() {
            return Err(Errno::INVAL);
        }
        files.iter().try_for_each(prepare)?;
        let mut files = files.into_iter();
        for i in range {
            let vector = &mut self.vectors[i];
            vector.file = files.next();
            vector.entry[CONTROL] = if vector.file.is_some() { 0 } else { MASKED };
            self.changed(i);
        }
        self.deliver();
        Ok(())
    }
}

/// Refuses what is no event file, whose writing might wait, or do anything; and lets the file not wait: nobody here may.
fn prepare(file: &OwnedFd) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let name = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    if name.as_bytes() != b"anon_inode:[eventfd]" {
        return Err(Errno::INVAL);
    }
    do_not_wait(file)
}

/// Writes to a file do not wait from now on.
fn do_not_wait(file: &OwnedFd) -> Result<(), Errno> {
    let flags = fcntl_getfl(file)?;
    match flags.contains(OFlags::NONBLOCK) {
        true => Ok(()),
        false => fcntl_setfl(file, flags | OFlags::NONBLOCK),
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{eventfd, EventfdFlags};

    use super::*;

    fn file() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC).unwrap()
    }

    fn count(file: &OwnedFd) -> u64 {
        let mut bytes = [0; 8];
        match rustix::io::read(file, &mut bytes) {
            Ok(_) => u64::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }

    fn set(flags: u32, start: u32, count: u32) -> IrqSet {
        IrqSet { argsz: 20, flags, index: pci::MSIX, start, count }
    }

    const ROUTE: u32 = pci::DATA_EVENTFD | pci::ACTION_TRIGGER;

    fn routed() -> (Msix, OwnedFd) {
        let (mut msix, file) = (Msix::new(4, false), file());
        msix.set(&set(ROUTE, 1, 1), &[], vec![file.try_clone().unwrap()]).unwrap();
        (msix, file)
    }

    #[test]
    fn what_is_masked_waits_and_shows_as_pending() {
        let (mut msix, file) = routed();
        msix.raise(1);
        assert_eq!((msix.read(MSIX_PBA.into()), count(&file)), (2, 0), "not enabled");
        msix.set_open(true);
        assert_eq!((msix.read(MSIX_PBA.into()), count(&file)), (0, 1));
        let control = u64::from(MSIX_TABLE) + 16 + 12;
        msix.write(control, 0xffff_ffff);
        msix.raise(1);
        msix.raise(1);
        assert_eq!((msix.read(control), msix.read(MSIX_PBA.into()), count(&file)), (1, 2, 0));
        msix.write(control, 0);
        assert_eq!((msix.read(MSIX_PBA.into()), count(&file)), (0, 1));
        msix.set(&set(pci::DATA_NONE | pci::ACTION_MASK, 0, 4), &[], vec![]).unwrap();
        msix.raise(1);
        assert_eq!(count(&file), 0);
        msix.set(&set(pci::DATA_BOOL | pci::ACTION_UNMASK, 0, 2), &[0, 1], vec![]).unwrap();
        assert_eq!(count(&file), 1);
    }

    #[test]
    fn masks_of_a_card_that_has_some_go_there_and_what_it_sends_goes_on() {
        let control = |vector: u32| MSIX_TABLE + 16 * vector + 12;
        let (mut msix, file) = (Msix::new(2, true), file());
        assert_eq!(msix.take_changes(), [(control(0), 1), (control(1), 1)]);
        msix.set(&set(ROUTE, 1, 1), &[], vec![file.try_clone().unwrap()]).unwrap();
        assert_eq!(msix.take_changes(), [(control(1), 0)]);
        msix.raise(1);
        assert_eq!(count(&file), 1);
        msix.write(control(1).into(), 1);
        msix.write(u64::from(MSIX_TABLE) + 16, 0xfee0_0000);
        assert_eq!(
            (msix.take_changes(), msix.read(u64::from(MSIX_TABLE) + 16)),
            (vec![(control(1), 1)], 0xfee0_0000)
        );
        msix.set(&set(pci::DATA_BOOL | pci::ACTION_UNMASK, 0, 2), &[1, 0], vec![]).unwrap();
        assert_eq!(msix.take_changes(), [(control(0), 0)]);
        msix.reset();
        assert_eq!(msix.take_changes(), [(control(0), 1), (control(1), 1)], "the client has masked it");
        let own = |offset: u32| msix.is_of_card(offset.into());
        assert!(own(control(1)) && own(MSIX_PBA) && own(0) && !own(MSIX_TABLE + 16));
        let native = Msix::new(2, false);
        assert!(!native.is_of_card(control(1).into()) && !native.is_of_card(MSIX_PBA.into()));
    }

    #[test]
    fn a_file_taken_back_masks_its_vector() {
        let (mut msix, file) = routed();
        msix.set_open(true);
        msix.set(&set(ROUTE, 0, 4), &[], vec![]).unwrap();
        msix.raise(1);
        msix.raise(3);
        assert_eq!((msix.read(MSIX_PBA.into()), count(&file)), (10, 0));
        msix.set(&set(pci::DATA_NONE | pci::ACTION_TRIGGER, 0, 0), &[], vec![]).unwrap();
        msix.reset();
        assert_eq!(msix.read(MSIX_PBA.into()), 0);
    }

    #[test]
    fn only_event_files_are_taken() {
        let (mut msix, _) = routed();
        let (pipe, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(msix.set(&set(ROUTE, 0, 1), &[], vec![pipe.into()]), Err(Errno::INVAL));
        assert_eq!(msix.set(&set(ROUTE, 0, 2), &[], vec![file()]), Err(Errno::INVAL));
        assert_eq!(msix.set(&set(ROUTE, 3, 2), &[], vec![file(), file()]), Err(Errno::INVAL));
        assert_eq!(msix.set(&set(ROUTE, u32::MAX, u32::MAX), &[], vec![]), Err(Errno::INVAL));
        assert_eq!(msix.set(&set(pci::DATA_BOOL | pci::ACTION_MASK, 0, 2), &[1], vec![]), Err(Errno::INVAL));
        assert_eq!(msix.set(&set(0, 0, 1), &[], vec![]), Err(Errno::INVAL));
    }

    #[test]
    fn an_event_file_that_is_full_stops_nobody() {
        let (mut msix, file) = routed();
        rustix::io::write(&file, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        msix.set_open(true);
        msix.raise(1);
        msix.raise(200);
        assert_eq!(count(&file), u64::MAX - 1);
        // The client has the same file, and its flags.
        rustix::io::write(&file, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        fcntl_setfl(&file, fcntl_getfl(&file).unwrap() - OFlags::NONBLOCK).unwrap();
        msix.raise(1);
        assert_eq!(count(&file), u64::MAX - 1);
    }
}
