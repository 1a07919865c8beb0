// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`VfioUserBus`]: the way to a card that another process serves on a Unix socket, as vfio-user does.
//!
//! ```text
//!  driver --- VfioUserBus --- Client --- socket --- server --- card
//!                  |                                             |
//!             memory files ------------- mapped by both ---- DMA +
//!             event files  <------------------------ interrupts -+
//! ```
//!
//! - Registers and doorbells are messages. Writes are posted: an answer is waited for only where something is read.
//! - The card reaches memory of [`Bus::host_alloc`] and [`Bus::dma_alloc`] of any such bus by itself, for both processes map it. Any other memory of
//!   this process is lent: the server gets the file of this process's memory, `/proc/self/mem`, and each access is a system call there. When such memory
//!   is unmapped while it is registered, the card's accesses fail, as those of a card behind an IOMMU do. A program that polls a word which the card writes
//!   takes it from [`Bus::host_alloc`]: of lent memory the bytes of a word may change one by one.
//! - Pages of 4 KiB are the smallest that can be shared: what is mapped is the pages round a piece of memory.
//! - An interrupt is an event file, which a program waits for with `poll(2)`.
//! - When the bus is dropped, or its program dies, the server resets the card and forgets its memory.

mod client;
mod error;
pub mod message;
pub mod simulation;
mod stream;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{eventfd, EventfdFlags};
use rustix::io::Errno;
use rustix::process::{geteuid, Uid};

pub use client::Client;
pub use error::SocketError;
pub use stream::{Message, Stream, StreamError};

use crate::bus::{Bus, BusError, DmaBuffer, DmaMapping, Pause};
use crate::memory_map::MemoryMap;
use crate::spec::pci as card;
use crate::sys::HostMemory;
use message::pci;

/// Offsets in the configuration space (PCIe 7.5.1).
mod config {
    /// Vendor and device.
    pub const IDS: u64 = 0x00;
    /// Command.
    pub const COMMAND: u64 = 0x04;
    /// First capability.
    pub const CAPABILITIES: u64 = 0x34;
    /// Command: BAR 0 answers, and the card may be master of the bus.
    pub const MEMORY_AND_MASTER: u16 = 0x0006;
    /// Kind of the MSI-X capability.
    pub const MSIX: u8 = 0x11;
    /// MSI-X message control: on.
    pub const MSIX_ENABLE: u16 = 0x8000;
}

/// Time after something was posted in which a thread that waits gives the processor away and does not sleep: an emulated card answers in less.
const EAGER: Duration = Duration::from_micros(100);

/// How long it sleeps after that: the card's process needs the processor more.
const NAP: Duration = Duration::from_micros(50);

/// The way to a card on a socket.
#[derive(Debug)]
pub struct VfioUserBus {
    client: Client,
    bar_bytes: u64,
    vectors: u32,
    /// It only looks.
    observer: bool,
    /// The card says how far its clock is.
    simulated: bool,
    /// Which addresses are in use; it keeps the memory.
    map: MemoryMap,
    /// What the server has mapped, by the address that the map has for it: its own, and its size.
    mapped: BTreeMap<u64, (u64, u64)>,
    /// Event files, by their vectors.
    interrupts: BTreeMap<u16, OwnedFd>,
    /// When something was posted last.
    posted: Instant,
}

impl VfioUserBus {
    /// Connects to the card whose server listens on `path`, and turns on its bus mastering and MSI-X.
    ///
    /// # Errors
    /// Nobody listens there, another program has the card, or the device is none of ours.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, SocketError> {
        Self::of(Client::connect(path.as_ref())?, false)
    }

    /// Looks at the card whose server listens on `path`, beside the program that has it, if there is one: for [`Monitor`](crate::Monitor). Registers
    /// can be read, and nothing else.
    ///
    /// # Errors
    /// Nobody listens there, too many look already, or the device is none of ours.
    pub fn observe(path: impl AsRef<Path>) -> Result<Self, SocketError> {
        Self::observe_within(path, client::PATIENCE)
    }

    /// The same of a server that may be none of a card, which has so long for each answer.
    ///
    /// # Errors
    /// As [`observe`](Self::observe), and that the time is over.
    pub fn observe_within(path: impl AsRef<Path>, patience: Duration) -> Result<Self, SocketError> {
        Self::of(Client::observe(path.as_ref(), patience)?, true)
    }

    fn of(mut client: Client, observer: bool) -> Result<Self, SocketError> {
        let wrong = |found: String| SocketError::Protocol { asked: "device info", found };
        let info = client.device_info()?;
        if info.flags & pci::DEVICE_PCI == 0 {
            return Err(wrong("the device is not on a PCI bus".into()));
        }
        let mut ids = [0; 4];
        client.region_read(pci::CONFIG, config::IDS, &mut ids)?;
        let [v0, v1, d0, d1] = ids;
        let ids = (u16::from_le_bytes([v0, v1]), u16::from_le_bytes([d0, d1]));
        if ids != (card::VENDOR, card::DEVICE) {
            return Err(wrong(format!(
                "device {:04x}:{:04x}, a Ferrowire card is {:04x}:{:04x}",
                ids.0,
                ids.1,
                card::VENDOR,
                card::DEVICE
            )));
        }
        let bar_bytes = client.region_info(pci::BAR0)?.size;
        let vectors = client.irq_info(pci::MSIX)?.count;
        let simulated = cycles(&mut client)?.is_some();
        let mut bus = Self {
            client,
            bar_bytes,
            vectors,
            observer,
            simulated,
            map: MemoryMap::new(),
            mapped: BTreeMap::new(),
            interrupts: BTreeMap::new(),
            posted: Instant::now(),
        };
        if !observer {
            let command = config::MEMORY_AND_MASTER.to_le_bytes();
            bus.client.region_write(pci::CONFIG, config::COMMAND, &command)?;
            bus.enable_msix()?;
        }
        Ok(bus)
    }

    /// An observer does nothing but look.
    fn allow(&self, operation: &'static str) -> Result<(), BusError> {
        match self.observer {
            true => Err(BusError::Observed { operation }),
            false => Ok(()),
        }
    }

    /// Brings the card to its state after power-on. What is mapped stays mapped.
    ///
    /// # Errors
    /// The server is gone.
    pub fn reset(&mut self) -> Result<(), SocketError> {
        self.client.reset()
    }

    /// Finds the MSI-X capability and turns it on. A card without one has no interrupts.
    fn enable_msix(&mut self) -> Result<(), SocketError> {
        let mut byte = [0; 1];
        self.client.region_read(pci::CONFIG, config::CAPABILITIES, &mut byte)?;
        // The configuration space has room for so many capabilities; a list that is longer goes in circles.
        for _ in 0..48 {
            let at = u64::from(byte[0] & !3);
            if at == 0 {
                break;
            }
            let mut head = [0; 4];
            self.client.region_read(pci::CONFIG, at, &mut head)?;
            let [kind, next, low, high] = head;
            if kind == config::MSIX {
                let control = u16::from_le_bytes([low, high]) | config::MSIX_ENABLE;
                return self.client.region_write(pci::CONFIG, at + 2, &control.to_le_bytes());
            }
            byte = [next];
        }
        self.vectors = 0;
        Ok(())
    }

    /// Whether `bytes` of BAR 0 are there.
    fn check(&self, offset: u32, bytes: u32) -> Result<u64, BusError> {
        let at = u64::from(offset);
        match offset % bytes == 0 && at + u64::from(bytes) <= self.bar_bytes {
            true => Ok(at),
            false => Err(BusError::BadOffset { offset }),
        }
    }

    /// Tells the server of memory that the map has at `iova`, which is at `offset` of a file: of the whole pages round it. If the
    /// server refuses, the map forgets it.
    fn share(&mut self, iova: u64, bytes: usize, file: BorrowedFd<'_>, offset: u64) -> Result<(), BusError> {
        let within = offset % MemoryMap::PAGE;
        let start = iova - within;
        let size = (within + bytes as u64).next_multiple_of(MemoryMap::PAGE);
        if let Err(error) = self.client.dma_map(start, size, file, offset - within) {
            self.map.remove(iova)?;
            return Err(error.into());
        }
        self.mapped.insert(iova, (start, size));
        Ok(())
    }

    /// The file of this process's memory, for a server of the same user. It is opened for each mapping and not kept: a process that is forked
    /// has a copy of all files.
    fn own_memory(&self) -> Result<OwnedFd, BusError> {
        may_lend(self.client.server_user()?, geteuid())?;
        let file = std::fs::File::options().read(true).write(true).open("/proc/self/mem");
        Ok(file.map_err(|error| cannot_lend(format!("/proc/self/mem: {error}; mount /proc, leave the process dumpable (`prctl(PR_SET_DUMPABLE)`)")))?.into())
    }

    fn unmap(&mut self, iova: u64) -> Result<(), BusError> {
        let Some((start, size)) = self.mapped.remove(&iova) else {
            return self.map.remove(iova);
        };
        // While the server may still reach it, the map keeps it.
        self.client.dma_unmap(start, size)?;
        self.map.remove(iova)
    }
}

/// What a process sees of a user that its user namespace does not map (user_namespaces(7)).
const UNKNOWN_USER: u32 = 65_534;

/// Whether a process of user `own` lends its memory to a server of user `server`.
fn may_lend(server: Uid, own: Uid) -> Result<(), BusError> {
    if server == own && own.as_raw() != UNKNOWN_USER {
        return Ok(());
    }
    let (server, own) = (server.as_raw(), own.as_raw());
    Err(cannot_lend(format!(
        "the card's server runs as user {server}, this process as user {own}; run both as one user"
    )))
}

fn cannot_lend(why: String) -> BusError {
    let message = format!("{why}, or take memory from `Context::alloc`");
    let errno = Some(Errno::ACCESS.raw_os_error());
    BusError::Os { operation: "lend memory of this process to the card", message, errno }
}

/// How far the card's clock is, if it is simulated.
fn cycles(client: &mut Client) -> Result<Option<u64>, SocketError> {
    let mut bytes = [0; simulation::BYTES];
    client.region_read(pci::CONFIG, simulation::AT, &mut bytes)?;
    Ok(simulation::parse(&bytes).map(|(cycles, _)| cycles))
}

/// What to do when the system has no memory to be shared.
fn no_memory(error: std::io::Error) -> BusError {
    BusError::Os {
        operation: "allocate memory to be shared with the card",
        message: format!("{error}; free memory, or raise `ulimit -n` and `vm.max_map_count`"),
        errno: Some(error.raw_os_error().unwrap_or(Errno::NOMEM.raw_os_error())),
    }
}

impl Bus for VfioUserBus {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        let at = self.check(offset, 4)?;
        let mut bytes = [0; 4];
        self.client.region_read(pci::BAR0, at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        self.allow("write a register")?;
        let at = self.check(offset, 4)?;
        self.posted = Instant::now();
        Ok(self.client.region_post(pci::BAR0, at, &value.to_le_bytes())?)
    }

    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        self.allow("ring a doorbell")?;
        let at = self.check(offset, 8)?;
        self.posted = Instant::now();
        Ok(self.client.region_post(pci::BAR0, at, &value.to_le_bytes())?)
    }

    fn push(&mut self, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        self.allow("push a work request")?;
        let at = self.check(offset, 64)?;
        self.posted = Instant::now();
        let mut bytes = [0; 64];
        for (part, word) in bytes.chunks_exact_mut(8).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        Ok(self.client.region_post(pci::BAR0, at, &bytes)?)
    }

    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        self.allow("share memory")?;
        let align = align.max(MemoryMap::PAGE as usize);
        // The file is closed behind this: a queue is shared once, and there may be thousands.
        let (memory, file, offset) = HostMemory::shared_once(bytes, align).map_err(no_memory)?;
        let iova = self.map.map(memory.clone(), align as u64)?;
        self.share(iova, bytes, file.as_fd(), offset)?;
        Ok(DmaBuffer::new(iova, memory))
    }

    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        self.unmap(buffer.bus_address())
    }

    fn host_alloc(&mut self, bytes: usize, align: usize) -> Result<HostMemory, BusError> {
        HostMemory::shared(bytes, align).map_err(no_memory)
    }

    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        self.allow("share memory")?;
        let own = match memory.shared_file() {
            Some(_) => None,
            None => Some(self.own_memory()?),
        };
        let mapping = self.map.map_pages(memory, page_shift)?;
        // The offsets of a process's memory are its addresses.
        let own = own.as_ref().map(|own| (own.as_fd(), memory.address()));
        if let Some((file, offset)) = memory.shared_file().or(own) {
            self.share(mapping.id, memory.len(), file, offset)?;
        }
        Ok(mapping)
    }

    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        self.unmap(mapping.id)
    }

    fn interrupt(&mut self, vector: u16) -> Result<Option<OwnedFd>, BusError> {
        self.allow("take an interrupt")?;
        if u32::from(vector) >= self.vectors {
            return Ok(None);
        }
        if !self.interrupts.contains_key(&vector) {
            let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let file = file.map_err(|e| SocketError::os("make an event file")(e.into()))?;
            self.client.set_irq(pci::MSIX, vector.into(), file.as_fd())?;
            self.interrupts.insert(vector, file);
        }
        let copy = self.interrupts.get(&vector).map(OwnedFd::try_clone).transpose();
        Ok(copy.map_err(SocketError::os("copy an event file"))?)
    }

    fn needs_progress(&self) -> bool {
        // The card moves without it; but who waits for it must not take the processor that it needs.
        true
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.client.addresses.clone()
    }

    fn files(&self) -> Vec<RawFd> {
        vec![self.client.file().as_raw_fd()]
    }

    fn card_cycles(&mut self) -> Result<Option<u64>, BusError> {
        match self.simulated {
            true => Ok(cycles(&mut self.client)?),
            false => Ok(None),
        }
    }

    fn is_engine(&self) -> bool {
        self.client.engine
    }

    fn lifeline(&self) -> Result<Option<OwnedFd>, BusError> {
        Ok(Some(self.client.lifeline()?))
    }

    fn progress(&mut self) -> Result<(), BusError> {
        self.progress_without_pause()?.make();
        Ok(())
    }

    fn progress_without_pause(&mut self) -> Result<Pause, BusError> {
        if self.posted.elapsed() < EAGER {
            return Ok(Pause::Yield);
        }
        // Completions come by memory, which tells nothing of a server that is gone.
        self.client.alive()?;
        Ok(Pause::Sleep(NAP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_lent_to_servers_of_the_same_user_alone() {
        let [root, ann, bob, unknown] = [0, 1000, 1001, UNKNOWN_USER].map(Uid::from_raw);
        for user in [root, ann] {
            assert_eq!(may_lend(user, user), Ok(()));
        }
        for (server, own) in [(bob, ann), (root, ann), (ann, root), (unknown, unknown)] {
            let error = may_lend(server, own).unwrap_err().to_string();
            assert!(error.contains("run both as one user") && error.contains("Context::alloc"), "{error}");
        }
    }
}
