// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bus behind its mutex, and memory that goes back to it when dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::bus::{Bus, BusError, DmaBuffer};
use crate::error::{Error, Result};
use crate::sys::{HostMemory, MappedBar, MappedDoorbell};

/// Alignment of every queue base.
const QUEUE_ALIGN: usize = 4096;

/// The bus, for all objects of a card.
pub(crate) struct BusHandle {
    /// Doorbells go here where the bus has it, past the mutex. It is dropped first, for it may keep the card open.
    mapped: Option<MappedBar>,
    needs_progress: bool,
    bus: Mutex<Box<dyn Bus>>,
}

impl BusHandle {
    pub(crate) fn new(mut bus: Box<dyn Bus>) -> Self {
        Self { mapped: bus.mapped(), needs_progress: bus.needs_progress(), bus: Mutex::new(bus) }
    }

    /// One or more calls of the bus.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut dyn Bus) -> T) -> T {
        // A panic inside a bus leaves no state of the driver half done.
        f(self.bus.lock().unwrap_or_else(PoisonError::into_inner).as_mut())
    }

    /// The doorbell at `offset`.
    ///
    /// # Errors
    /// `BadOffset` where doorbells are mapped, and this one is not.
    pub(crate) fn bell(self: &Arc<Self>, offset: u32) -> Result<Bell> {
        let mapped =
            self.mapped.as_ref().map(|bar| bar.doorbell(offset).ok_or(BusError::BadOffset { offset }));
        Ok(Bell { mapped: mapped.transpose()?, offset, bus: Arc::clone(self) })
    }

    /// Whether the card moves only in [`progress`](Self::progress).
    pub(crate) fn needs_progress(&self) -> bool {
        self.needs_progress
    }

    /// Lets a simulated card run; does nothing with a real one.
    pub(crate) fn progress(&self) -> Result<()> {
        match self.needs_progress {
            true => self.step(),
            false => Ok(()),
        }
    }

    /// The same of any card, between two looks of a thread that waits. The pause is made without the bus: doorbells of other threads do not wait for it.
    pub(crate) fn step(&self) -> Result<()> {
        self.with(|b| b.progress_without_pause())?.make();
        Ok(())
    }

    /// Waits until `done` gives something.
    pub(crate) fn wait<T>(
        &self,
        operation: &'static str,
        timeout: Duration,
        mut done: impl FnMut(&mut dyn Bus) -> Result<Option<T>, BusError>,
    ) -> Result<T> {
        let start = self.with(|b| b.now());
        loop {
            // The lock is given up between two looks, so that data paths of other threads go on meanwhile.
            let late = self.with(|b| {
                // The time is taken before the look: an answer just in time is not missed after a long pause.
                let late = b.now().saturating_sub(start) > timeout;
                if let Some(value) = done(b)? {
                    return Ok(Err(value));
                }
                Ok::<_, BusError>(Ok((late, b.progress_without_pause()?)))
            })?;
            match late {
                Err(value) => return Ok(value),
                Ok((true, _)) => return Err(Error::Timeout { operation, after: timeout }),
                Ok((false, pause)) => {
                    pause.make();
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// One doorbell, for who rings it often.
#[derive(Clone)]
pub(crate) struct Bell {
    /// Where the bus has it, past the mutex. It is dropped before the bus, for it may keep the card open.
    mapped: Option<MappedDoorbell>,
    offset: u32,
    bus: Arc<BusHandle>,
}

impl Bell {
    /// Tells the card, after all that was stored before.
    #[inline]
    pub(crate) fn ring(&self, value: u64) -> Result<()> {
        match &self.mapped {
            Some(bell) => {
                bell.ring(value);
                Ok(())
            }
            None => self.ring_by_bus(value),
        }
    }

    #[inline(never)]
    fn ring_by_bus(&self, value: u64) -> Result<()> {
        crate::sys::before_doorbell();
        Ok(self.bus.with(|b| b.doorbell(self.offset, value))?)
    }

    /// Writes a WQE to its place, which begins at `at`, then rings, all after what was stored before.
    ///
    /// Another thread's words may come between them where doorbells are mapped. The doorbell names the place, and the card sees that its words
    /// were not the last eight then.
    pub(crate) fn push(&self, at: u32, words: &[u64; 8], value: u64) -> Result<()> {
        crate::sys::before_doorbell();
        let (Some(bar), Some(bell)) = (&self.bus.mapped, &self.mapped) else {
            return Ok(self.bus.with(|b| b.push(at, words).and_then(|()| b.doorbell(self.offset, value)))?);
        };
        if let Some(offset) = bar.push(at, words) {
            return Err(BusError::BadOffset { offset }.into());
        }
        bell.ring(value);
        Ok(())
    }
}

/// Memory of the bus that goes back to it when dropped.
pub(crate) struct OwnedDma {
    bus: Arc<BusHandle>,
    bus_address: u64,
    memory: HostMemory,
    /// None while it is being dropped.
    buffer: Option<DmaBuffer>,
    /// It may not go back any more.
    leaked: AtomicBool,
}

impl OwnedDma {
    /// Zeroed memory, aligned as the base of a queue.
    pub(crate) fn alloc(bus: &Arc<BusHandle>, bytes: usize) -> Result<Self> {
        let wanted = bytes.max(QUEUE_ALIGN);
        let buffer = bus.with(|b| b.dma_alloc(wanted, QUEUE_ALIGN))?;
        if buffer.memory().len() < wanted || buffer.memory().address() % 8 != 0 {
            let why = "the bus gave less memory than it was asked for, or none of whole words";
            let (iova, bytes) = (buffer.bus_address(), buffer.memory().len() as u64);
            bus.with(|b| b.dma_free(buffer))?;
            return Err(BusError::Map { iova, bytes, why }.into());
        }
        Ok(Self {
            bus: Arc::clone(bus),
            bus_address: buffer.bus_address(),
            memory: buffer.memory().clone(),
            buffer: Some(buffer),
            leaked: AtomicBool::new(false),
        })
    }

    pub(crate) fn bus_address(&self) -> u64 {
        self.bus_address
    }

    pub(crate) fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// Leaves the memory to the bus for good: the card may still use it.
    pub(crate) fn leak(&self) {
        self.leaked.store(true, Ordering::Relaxed);
    }
}

impl Drop for OwnedDma {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take().filter(|_| !*self.leaked.get_mut()) {
            // The bus has nothing better to do with a failure than to keep the memory, which it then does.
            let _ = self.bus.with(|b| b.dma_free(buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::{DmaMapping, Pause};

    /// A bus whose card wants long pauses.
    struct Sleepy;

    impl Bus for Sleepy {
        fn csr_read32(&mut self, _offset: u32) -> Result<u32, BusError> {
            Ok(0)
        }
        fn csr_write32(&mut self, _offset: u32, _value: u32) -> Result<(), BusError> {
            Ok(())
        }
        fn doorbell(&mut self, _offset: u32, _value: u64) -> Result<(), BusError> {
            Ok(())
        }
        fn dma_alloc(&mut self, bytes: usize, align: usize) -> Result<DmaBuffer, BusError> {
            Err(BusError::NoMemory { bytes: bytes as u64, align: align as u64 })
        }
        fn dma_free(&mut self, _buffer: DmaBuffer) -> Result<(), BusError> {
            Ok(())
        }
        fn dma_map(&mut self, _memory: &HostMemory, _page_shift: u8) -> Result<DmaMapping, BusError> {
            Err(BusError::NoMemory { bytes: 0, align: 0 })
        }
        fn dma_unmap(&mut self, _mapping: DmaMapping) -> Result<(), BusError> {
            Ok(())
        }
        fn needs_progress(&self) -> bool {
            true
        }
        fn progress_without_pause(&mut self) -> Result<Pause, BusError> {
            Ok(Pause::Sleep(Duration::from_millis(100)))
        }
    }

    #[test]
    fn a_doorbell_does_not_wait_for_a_thread_that_waits_for_the_card() {
        let handle = Arc::new(BusHandle::new(Box::new(Sleepy)));
        let bell = handle.bell(0).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    handle.progress().unwrap();
                }
            });
            scope.spawn(|| {
                let done = |_: &mut dyn Bus| Ok(over.load(Ordering::Relaxed).then_some(()));
                handle.wait("test", Duration::from_secs(60), done).unwrap();
            });
            std::thread::sleep(Duration::from_millis(50));
            let start = std::time::Instant::now();
            // Each would take the rest of a pause, 50 ms in the mean.
            (0..100).for_each(|value| bell.ring(value).unwrap());
            let took = start.elapsed();
            over.store(true, Ordering::Relaxed);
            assert!(took < Duration::from_secs(1), "{took:?}");
        });
    }
}
