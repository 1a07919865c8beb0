// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Bus`]: how the driver reaches a card, whether by VFIO, through a vfio-user socket, over a serial line or in this process.
//!
//! A card in this process is a `Bus` with a [`MemoryMap`](crate::MemoryMap). `dma_alloc` is the map's `alloc`, `dma_map` its `map_pages`,
//! both give back by `remove`. The card's DMA goes through the map's `read` and `write`, which refuse what is not mapped.
//! Register writes and doorbells are kept or carried out at once; `progress` clocks the card, `now` is its clock, and
//! `needs_progress` is true. Two cards on one wire are two `Bus` values that share the simulation.

use std::net::IpAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use crate::sys::{HostMemory, MappedBar};

/// What can go wrong between driver and card.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// The card does not answer any more.
    #[error("the card is gone ({0}); open it again")]
    Gone(String),
    /// The address is not in BAR 0, or not aligned.
    #[error("BAR 0 has nothing at {offset:#x}; the card's BAR is smaller than its registers say")]
    BadOffset {
        /// Address in BAR 0.
        offset: u32,
    },
    /// There is no such memory for the card.
    #[error("no {bytes} bytes aligned to {align} that the card can reach; free memory or raise the locked-memory limit")]
    NoMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Alignment asked for.
        align: u64,
    },
    /// A board has no room for it.
    #[error(
        "{bytes} bytes aligned to {align} of on-board memory: {free} of its {all} bytes are free, in pages of 4096; \
         use smaller queues and messages, or drop what is not needed"
    )]
    BoardMemory {
        /// Bytes asked for.
        bytes: u64,
        /// Alignment asked for.
        align: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes that the board has.
        all: u64,
    },
    /// More memory would be locked than the process may lock.
    #[error(
        "map {bytes} bytes for the card: {}; raise it with `ulimit -l`, `LimitMEMLOCK=` of a systemd unit or /etc/security/limits.conf, \
         or map less",
        limit_text(.limit)
    )]
    LockedMemory {
        /// Bytes that were to be mapped.
        bytes: u64,
        /// Bytes that the process may lock, all together; `None` when that is not limited.
        limit: Option<u64>,
    },
    /// A range cannot be mapped or unmapped.
    #[error("mapping of {bytes} bytes at {iova:#x}: {why}")]
    Map {
        /// Bus address.
        iova: u64,
        /// Bytes.
        bytes: u64,
        /// Reason.
        why: &'static str,
    },
    /// The card was opened to be looked at alone.
    #[error("{operation}: the card is only observed; open it with `VfioUserBus::connect` to use it")]
    Observed {
        /// What was asked for.
        operation: &'static str,
    },
    /// The operating system refused.
    #[error("{operation}: {message}")]
    Os {
        /// What was asked of it.
        operation: &'static str,
        /// What it said.
        message: String,
        /// The system's number of the error, if it has one.
        errno: Option<i32>,
    },
}

fn limit_text(limit: &Option<u64>) -> String {
    match limit {
        Some(limit) => format!("the locked-memory limit of this process is {limit} bytes (RLIMIT_MEMLOCK), with what is mapped already"),
        None => "the system has no memory left to lock".into(),
    }
}

/// Memory for queues: physically or IOMMU contiguous for the card, zeroed when allocated.
///
/// It stays mapped until it is given to [`Bus::dma_free`]. Dropping it alone takes no right from the card:
/// the bus keeps the memory.
#[derive(Debug)]
pub struct DmaBuffer {
    bus_address: u64,
    memory: HostMemory,
}

impl DmaBuffer {
    /// For implementations of [`Bus`]: `memory`, which the card reaches at `bus_address`.
    pub fn new(bus_address: u64, memory: HostMemory) -> Self {
        Self { bus_address, memory }
    }

    /// Address by which the card knows the first byte.
    pub fn bus_address(&self) -> u64 {
        self.bus_address
    }

    /// The bytes.
    pub fn memory(&self) -> &HostMemory {
        &self.memory
    }
}

/// User memory that a card can reach, page by page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmaMapping {
    /// Chosen by the bus, for [`Bus::dma_unmap`].
    pub id: u64,
    /// Bus address of each page, in order; multiples of the page size. The first byte of the memory lies in the
    /// first page, at the same place as in this process.
    pub pages: Vec<u64>,
}

/// How a thread that waits for the card lets others have the processor between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It looks again at once.
    None,
    /// Threads that are ready to run go first.
    Yield,
    /// It sleeps.
    Sleep(Duration),
}

impl Pause {
    /// Makes the pause.
    pub fn make(self) {
        match self {
            Pause::None => {}
            Pause::Yield => std::thread::yield_now(),
            Pause::Sleep(time) => std::thread::sleep(time),
        }
    }
}

/// A way to a card: registers, doorbells, memory.
///
/// The driver serialises all calls with a mutex, so an implementation need be `Send`, and not `Sync`; doorbells go past the mutex where
/// the bus has them [`mapped`](Bus::mapped). A simulated
/// card may run inside any of the calls; it never finds the driver holding a reference to memory that it
/// writes. Addresses are byte offsets in BAR 0. [`MemoryMap`](crate::MemoryMap) does the memory part for cards
/// that are not on a real bus.
pub trait Bus: Send {
    /// Reads a register.
    ///
    /// # Errors
    /// The card is gone, or `offset` lies outside the BAR.
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError>;

    /// Writes a register.
    ///
    /// # Errors
    /// The card is gone, or `offset` lies outside the BAR.
    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError>;

    /// Reads a 64-bit counter, low word at `offset`, which may move meanwhile: high, low, high, until both high words
    /// are the same.
    ///
    /// # Errors
    /// As [`csr_read32`](Self::csr_read32).
    fn csr_read64(&mut self, offset: u32) -> Result<u64, BusError> {
        let mut high = self.csr_read32(offset + 4)?;
        loop {
            let low = self.csr_read32(offset)?;
            let again = self.csr_read32(offset + 4)?;
            if again == high {
                return Ok(u64::from(high) << 32 | u64::from(low));
            }
            high = again;
        }
    }

    /// Writes a doorbell: one 64-bit store. The driver has put its barrier before.
    ///
    /// # Errors
    /// The card is gone, or `offset` lies outside the BAR.
    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError>;

    /// Writes the words of a WQE to a place of a doorbell page that begins at `offset`: in their order, each in one piece, and best all 64 bytes in one. The driver
    /// has put its barrier before, and rings behind it. Where the BAR is [`mapped`](Self::mapped) it stores the words itself.
    ///
    /// # Errors
    /// As [`doorbell`](Self::doorbell).
    fn push(&mut self, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        (offset..).step_by(8).zip(words).try_for_each(|(offset, word)| self.doorbell(offset, *word))
    }

    /// BAR 0 as this process has it mapped, from its first byte to behind the doorbell pages. The driver asks once, when the card is
    /// opened, and from then on stores doorbells there, from any thread and at any time, without [`doorbell`](Self::doorbell) and without
    /// its mutex. `None` where a doorbell is more than a store, as with a card on a socket or in this process.
    fn mapped(&mut self) -> Option<MappedBar> {
        None
    }

    /// Allocates zeroed memory that the card can read and write, contiguous in bus addresses, its bus
    /// address a multiple of `align` (a power of two).
    ///
    /// # Errors
    /// There is no such memory.
    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError>;

    /// Takes memory of [`dma_alloc`](Self::dma_alloc) back; the card may not touch it any more.
    ///
    /// # Errors
    /// The buffer is not of this bus.
    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError>;

    /// Memory in which a program keeps its data: zeroed, its address a multiple of `align`. The card reaches it only once
    /// it is mapped. A bus whose card lives in another process gives memory that can be shared with it.
    ///
    /// # Errors
    /// There is no such memory.
    fn host_alloc(&mut self, bytes: usize, align: usize) -> Result<HostMemory, BusError> {
        HostMemory::zeroed(bytes, align)
            .ok_or(BusError::NoMemory { bytes: bytes as u64, align: align as u64 })
    }

    /// Lets the card reach `memory`, and says by which pages of `1 << page_shift` bytes. Keeps the memory alive
    /// until [`dma_unmap`](Self::dma_unmap).
    ///
    /// # Errors
    /// The memory cannot be mapped with that page size.
    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError>;

    /// Takes a mapping away; the card may not touch the memory any more.
    ///
    /// # Errors
    /// The mapping is not of this bus.
    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError>;

    /// A file that can be read once the card has raised an interrupt, for `poll(2)`: an event file that does not wait when it is read. Each
    /// call gives a copy of the same one. `None` where interrupts cannot be waited for, as with a card in this process.
    ///
    /// # Errors
    /// The card is gone, or the system has no file left.
    fn interrupt(&mut self, vector: u16) -> Result<Option<OwnedFd>, BusError> {
        let _ = vector;
        Ok(None)
    }

    /// A file that hangs up (`POLLHUP`) when the card is gone or this bus is dropped, for programs that sleep: no interrupt comes then. Ask `poll(2)` for no
    /// events of it, as hanging up is told in any case: it may be the connection to the card's server, which can be read at every answer. A program that reads it
    /// breaks the connection. `None` where a card cannot go, or the system does not say so by a file.
    ///
    /// # Errors
    /// The system has no file left.
    fn lifeline(&self) -> Result<Option<OwnedFd>, BusError> {
        Ok(None)
    }

    /// Whether there is no card, but a model of the transport in the place of one: what passes on its clock measures nothing.
    fn is_engine(&self) -> bool {
        false
    }

    /// Whether the card moves only when [`progress`](Self::progress) is called. Asked once, when the card is opened.
    fn needs_progress(&self) -> bool {
        false
    }

    /// Lets a card that runs in this process take some steps. The driver calls it whenever it waits, and when a poll finds
    /// nothing.
    ///
    /// # Errors
    /// The card is gone.
    fn progress(&mut self) -> Result<(), BusError> {
        Ok(())
    }

    /// The same without a pause; says which one the driver makes then, when other threads have the bus again.
    ///
    /// # Errors
    /// The card is gone.
    fn progress_without_pause(&mut self) -> Result<Pause, BusError> {
        self.progress()?;
        Ok(Pause::None)
    }

    /// Cycles of the card's own clock since some moment, when it is simulated and tells: what passes on the clock of the wall means nothing then.
    /// `None` for every other card. What was asked of the card before has begun by then.
    ///
    /// # Errors
    /// The card is gone.
    fn card_cycles(&mut self) -> Result<Option<u64>, BusError> {
        Ok(None)
    }

    /// IP addresses that the card's owner has given it, for programs to put into its table of GIDs; none where nobody can say.
    fn addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// Numbers of the files by which this process has the card. A child that was forked must not keep or use them.
    fn files(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// The clock by which the driver bounds its waits, from any start. A simulated card gives simulated time,
    /// and must let it pass in [`progress`](Self::progress).
    fn now(&self) -> Duration {
        crate::sys::monotonic()
    }
}

impl<B: Bus + ?Sized> Bus for Box<B> {
    fn csr_read32(&mut self, offset: u32) -> Result<u32, BusError> {
        (**self).csr_read32(offset)
    }
    fn csr_write32(&mut self, offset: u32, value: u32) -> Result<(), BusError> {
        (**self).csr_write32(offset, value)
    }
    fn csr_read64(&mut self, offset: u32) -> Result<u64, BusError> {
        (**self).csr_read64(offset)
    }
    fn doorbell(&mut self, offset: u32, value: u64) -> Result<(), BusError> {
        (**self).doorbell(offset, value)
    }
    fn push(&mut self, offset: u32, words: &[u64; 8]) -> Result<(), BusError> {
        (**self).push(offset, words)
    }
    fn mapped(&mut self) -> Option<MappedBar> {
        (**self).mapped()
    }
    fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
        (**self).dma_alloc(bytes, align)
    }
    fn dma_free(&mut self, buffer: DmaBuffer) -> Result<(), BusError> {
        (**self).dma_free(buffer)
    }
    fn host_alloc(&mut self, bytes: usize, align: usize) -> Result<HostMemory, BusError> {
        (**self).host_alloc(bytes, align)
    }
    fn dma_map(&mut self, memory: &HostMemory, page_shift: u8) -> Result<DmaMapping, BusError> {
        (**self).dma_map(memory, page_shift)
    }
    fn dma_unmap(&mut self, mapping: DmaMapping) -> Result<(), BusError> {
        (**self).dma_unmap(mapping)
    }
    fn interrupt(&mut self, vector: u16) -> Result<Option<OwnedFd>, BusError> {
        (**self).interrupt(vector)
    }
    fn lifeline(&self) -> Result<Option<OwnedFd>, BusError> {
        (**self).lifeline()
    }
    fn is_engine(&self) -> bool {
        (**self).is_engine()
    }
    fn needs_progress(&self) -> bool {
        (**self).needs_progress()
    }
    fn progress(&mut self) -> Result<(), BusError> {
        (**self).progress()
    }
    fn progress_without_pause(&mut self) -> Result<Pause, BusError> {
        (**self).progress_without_pause()
    }
    fn card_cycles(&mut self) -> Result<Option<u64>, BusError> {
        (**self).card_cycles()
    }
    fn addresses(&self) -> Vec<IpAddr> {
        (**self).addresses()
    }
    fn files(&self) -> Vec<RawFd> {
        (**self).files()
    }
    fn now(&self) -> Duration {
        (**self).now()
    }
}
