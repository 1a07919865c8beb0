// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`EventQueue`]: what the card tells of its own accord (IBTA 11.4.2, 11.6.3).

use std::collections::HashMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ferrowire_spec::queue::command::create_eq::CreateEq;
use ferrowire_spec::queue::doorbell::{self, eq as bell, eq::EqDoorbell};
use ferrowire_spec::queue::event;
use ferrowire_spec::queue::{CommandOpcode, EventKind};

use crate::bus::BusError;
use crate::context::{Context, Device};
use crate::error::{Coded, Error, Result};
use crate::fault::WriteFault;
use crate::handle::Bell;
use crate::ring::EntryRing;

/// Something that the card tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: Coded<EventKind>,
    /// Whom it befell: the number of the completion queue, queue pair or shared receive queue.
    pub object: u32,
    /// Why, coded as the syndrome of a [`Completion`](crate::Completion).
    pub cause: u8,
    /// Events of others than completion queues were lost before this one, for the queue was full: query what matters.
    pub lost: bool,
    /// Of `DEVICE_FATAL`: the write that host memory refused.
    pub fault: Option<WriteFault>,
}

/// For arrays that [`EventQueue::poll`] fills: of no kind.
impl Default for Event {
    fn default() -> Self {
        Self { kind: Coded::Unknown(0xff), object: 0, cause: 0, lost: false, fault: None }
    }
}

/// Its name, what it is about, and why; of `DEVICE_FATAL` what to do.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match (self.kind.known(), &self.fault) {
            (Some(EventKind::DeviceFatal), Some(fault)) => write!(f, ": {fault}")?,
            (Some(EventKind::DeviceFatal), None) => {
                write!(f, ": the card has failed; open it again, which resets it")?
            }
            (Some(EventKind::PortUp | EventKind::PortDown), _) => {}
            _ => write!(f, " of {:#x}", self.object)?,
        }
        if self.cause != 0 && self.fault.is_none() {
            write!(f, ", cause {:#04x}", self.cause)?;
        }
        if self.lost {
            write!(f, "; other events were lost before it")?;
        }
        Ok(())
    }
}

/// Queues that can be gone when their events are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Cq,
    Srq,
}

impl Kind {
    fn of(event: &Event) -> Option<Self> {
        match event.kind.known()? {
            EventKind::Completion | EventKind::CqOverrun => Some(Kind::Cq),
            EventKind::SrqLimit | EventKind::SrqFatal => Some(Kind::Srq),
            _ => None,
        }
    }
}

struct State {
    ring: EntryRing<{ event::WORDS }>,
    /// By kind and number: entries before this one are of a queue that had the number before.
    stale: HashMap<(Kind, u32), u32>,
}

/// The queue itself, held by the completion queues that use it.
pub(crate) struct Eq {
    /// Doorbells, and what is the same in all of them.
    bell: Bell,
    word: u64,
    pub(crate) device: Arc<Device>,
    pub(crate) eqn: u8,
    entries: u32,
    live: bool,
    /// What its interrupt raises, where that can be waited for.
    interrupt: Option<OwnedFd>,
    /// What hangs up when the card is gone.
    lifeline: Option<OwnedFd>,
    state: Mutex<State>,
}

impl Eq {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A completion queue is gone: events about it that are there are handed to nobody any more, and the card writes no more.
    pub(crate) fn forget(&self, cqn: u32) {
        self.forget_all((Kind::Cq, cqn));
    }

    /// The same of a shared receive queue.
    pub(crate) fn forget_srq(&self, srqn: u32) {
        self.forget_all((Kind::Srq, srqn));
    }

    fn forget_all(&self, queue: (Kind, u32)) {
        self.with(|state| {
            let written = state.ring.written();
            if written == state.ring.consumer() {
                state.stale.remove(&queue);
            } else {
                state.stale.insert(queue, written);
            }
        });
    }

    fn destroy(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.live) {
            return Ok(());
        }
        let number = u32::from(self.eqn);
        let result = self.device.commands.simple(CommandOpcode::DestroyEq, number);
        if result.is_ok() {
            self.device.tables(|t| t.eqs.give_back(number));
        } else {
            self.state.get_mut().unwrap_or_else(PoisonError::into_inner).ring.leak();
        }
        result.map(|_| ())
    }
}

impl Drop for Eq {
    fn drop(&mut self) {
        // A queue that the card does not give back keeps its number and its memory.
        let _ = self.destroy();
    }
}

/// An event queue: where completion queues tell that they have something new, and the asynchronous one where all else is
/// told.
///
/// `Send` and `Sync`; clones are the same queue, and threads that poll take turns. It is destroyed when the last clone and
/// the last completion queue that uses it are gone. An event of a completion queue that finds no room waits for it; one of
/// anything else is lost, and the next one says so ([`Event::lost`]).
#[derive(Clone)]
pub struct EventQueue {
    pub(crate) eq: Arc<Eq>,
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventQueue({:#x}, {} entries)", self.eq.eqn, self.eq.entries)
    }
}

impl EventQueue {
    /// Its number on the card.
    pub fn number(&self) -> u8 {
        self.eq.eqn
    }

    /// Entries it has room for.
    pub fn capacity(&self) -> u32 {
        self.eq.entries
    }

    /// Takes up to `out.len()` events, tells the card once how far it got, and returns how many there are. Events of queues that
    /// were destroyed are passed over. Does not allocate.
    ///
    /// From the overrun of a completion queue on, its `poll` fails when it has handed out what is there.
    ///
    /// # Errors
    /// `Bus` when the bus fails.
    pub fn poll(&self, out: &mut [Event]) -> Result<usize> {
        let device = &self.eq.device;
        let (moved, taken) = self.eq.with(|state| {
            let before = state.ring.consumer();
            let mut n = 0;
            while n < out.len() {
                let index = state.ring.consumer();
                let Some(entry) = state.ring.take() else { break };
                let entry = event::Event::from_words(&entry);
                let event = Event {
                    kind: Coded::from(entry.kind),
                    object: entry.object,
                    cause: entry.cause,
                    lost: entry.lost,
                    fault: match entry.kind == EventKind::DeviceFatal.code() {
                        true => device.bus.with(|bus| WriteFault::read(bus))?,
                        false => None,
                    },
                };
                let queue = Kind::of(&event).map(|kind| (kind, event.object));
                let until = queue.and_then(|queue| state.stale.get(&queue));
                let stale = until.is_some_and(|until| (index.wrapping_sub(*until) as i32) < 0);
                if stale && !event.lost {
                    continue;
                }
                if let (Some(queue), false) = (queue, stale) {
                    state.stale.remove(&queue);
                    if event.kind == EventKind::CqOverrun {
                        device.mark_overrun(event.object);
                    }
                }
                out[n] = event;
                n += 1;
            }
            let after = state.ring.consumer();
            if after != before {
                // Inside the lock: the consumer must not go back. A card that is gone takes no doorbell, and what it told before counts: the next call says
                // that it is gone.
                let rung = self.ring_doorbell(after, false);
                if n == 0 {
                    rung?;
                }
            }
            Ok::<_, Error>((after != before, n))
        })?;
        if !moved && !out.is_empty() {
            device.bus.progress()?;
        }
        Ok(taken)
    }

    /// Asks for one interrupt for the next event, at once if there is one that `poll` has not taken. It has the MSI-X vector of the
    /// queue's number.
    ///
    /// # Errors
    /// `Bus` when the bus fails.
    pub fn request_interrupt(&self) -> Result<()> {
        // Inside the lock: the consumer must not go back.
        self.eq.with(|state| self.ring_doorbell(state.ring.consumer(), true))
    }

    /// A file that can be read once the interrupt has come that [`request_interrupt`](Self::request_interrupt) asked for; it stays so until
    /// [`acknowledge`](Self::acknowledge). For `poll(2)` beside other files. `None` where the bus has none, as with a card in this process.
    pub fn interrupt_file(&self) -> Option<BorrowedFd<'_>> {
        self.eq.interrupt.as_ref().map(AsFd::as_fd)
    }

    /// Forgets interrupts that have come: the [file](Self::interrupt_file) cannot be read any more until the next one.
    ///
    /// # Errors
    /// `Bus` when the system fails.
    pub fn acknowledge(&self) -> Result<()> {
        match &self.eq.interrupt {
            Some(file) => Ok(crate::sys::drain(file.as_fd()).map_err(waiting)?),
            None => Ok(()),
        }
    }

    /// As [`poll`](Self::poll), but waits until there is an event, or until `timeout` is over: then it returns 0. Where the bus has interrupts
    /// to wait for, the thread sleeps meanwhile; a simulated card in this process runs.
    ///
    /// # Errors
    /// `Bus` when the bus or the system fails, or when the card is gone, which ends the wait.
    pub fn wait(&self, out: &mut [Event], timeout: Duration) -> Result<usize> {
        let bus = &self.eq.device.bus;
        let start = bus.with(|b| b.now());
        loop {
            // Armed before the look: what comes after the look raises an interrupt, and what came before it is seen.
            let armed = match self.eq.interrupt {
                Some(_) => self.acknowledge().and_then(|()| self.request_interrupt()),
                None => Ok(()),
            };
            // Of a card that is gone, too: what it told before is there.
            let taken = self.poll(out)?;
            if taken > 0 {
                return Ok(taken);
            }
            armed?;
            let left = timeout.saturating_sub(bus.with(|b| b.now()).saturating_sub(start));
            if out.is_empty() || left.is_zero() {
                return Ok(0);
            }
            if let Some(file) = self.interrupt_file() {
                let lifeline = self.eq.lifeline.as_ref().map(AsFd::as_fd);
                if let Err(error) = crate::sys::wait_with(file, lifeline, left) {
                    return match self.poll(out) {
                        Ok(taken) if taken > 0 => Ok(taken),
                        _ => Err(waiting(error).into()),
                    };
                }
            }
        }
    }

    /// Tells the card how far the host is, and arms it.
    fn ring_doorbell(&self, consumer: u32, arm: bool) -> Result<()> {
        let consumer = bell::CONSUMER.to_word(consumer.into());
        self.eq.bell.ring(self.eq.word | consumer | bell::ARM.to_word(arm.into()))
    }

    /// Destroys it, and says whether that worked.
    ///
    /// # Errors
    /// `Busy` while a completion queue uses it or a clone is left: then it is destroyed with the last of these. `Command` when
    /// the card refuses.
    pub fn destroy(self) -> Result<()> {
        let number = self.eq.eqn.into();
        let users = Arc::strong_count(&self.eq) - 1;
        match Arc::into_inner(self.eq) {
            Some(mut eq) => eq.destroy(),
            None => Err(Error::Busy { what: "event queue", number, users: users.max(1) }),
        }
    }
}

impl Context {
    /// Makes an event queue with room for at least `entries`, for completion queues: see
    /// [`create_cq_with_events`](Self::create_cq_with_events).
    ///
    /// # Errors
    /// `Attribute` for a size that the card does not have, `NoResource` when no queue is left, `Bus` when there is no
    /// memory for it, `Command` when the card refuses.
    pub fn create_eq(&self, entries: u32) -> Result<EventQueue> {
        self.event_queue("create_eq", entries, false, 0)
    }

    /// The same, where the card raises an interrupt at most once in `moderation_us` microseconds. Events are there at once all the same; those of the time
    /// between are told of at its end.
    ///
    /// # Errors
    /// As [`create_eq`](Self::create_eq).
    pub fn create_moderated_eq(&self, entries: u32, moderation_us: u16) -> Result<EventQueue> {
        self.event_queue("create_moderated_eq", entries, false, moderation_us)
    }

    /// The same, and from now on the card tells there what belongs to no completion queue, and the overruns of those that have no
    /// event queue. Another one that was made so before gets no more of these.
    ///
    /// # Errors
    /// As [`create_eq`](Self::create_eq).
    pub fn create_async_eq(&self, entries: u32) -> Result<EventQueue> {
        self.event_queue("create_async_eq", entries, true, 0)
    }

    fn event_queue(
        &self,
        operation: &'static str,
        entries: u32,
        asynchronous: bool,
        moderation_us: u16,
    ) -> Result<EventQueue> {
        let device = Arc::clone(&self.device);
        let log2 = device.queue_log2(operation, entries)?;
        let bell = device.bell(doorbell::EQ)?;
        let mut ring = EntryRing::alloc(&device.bus, log2, &event::PHASE)?;
        let eqn = device.take(operation, "event queues", device.capabilities.max_eq, |t| &mut t.eqs)?;
        let result = device.commands.run(CommandOpcode::CreateEq, eqn, |token| {
            CreateEq {
                token,
                object: eqn,
                base: ring.bus_address(),
                log2_entries: log2,
                vector: eqn as u8,
                doorbell_page: device.options.doorbell_page,
                asynchronous,
                moderation_us,
                ..CreateEq::default()
            }
            .to_bytes()
        });
        if let Err(error) = result {
            if error.is_unanswered() {
                ring.leak();
            } else {
                device.tables(|t| t.eqs.give_back(eqn));
            }
            return Err(error);
        }
        let state = Mutex::new(State { ring, stale: HashMap::new() });
        let (entries, eqn) = (1 << log2, eqn as u8);
        let mut eq =
            Eq { bell, word: 0, device, eqn, entries, live: true, interrupt: None, lifeline: None, state };
        let bare = EqDoorbell { eqn, ..EqDoorbell::default() }.to_words();
        [eq.word] = bare.map_err(|e| Error::from_spec(operation, e))?;
        // After the queue: if there is no file, it is destroyed.
        eq.interrupt = eq.device.bus.with(|b| b.interrupt(eqn.into()))?;
        if eq.interrupt.is_some() {
            eq.lifeline = eq.device.bus.with(|b| b.lifeline())?;
        }
        let eq = Arc::new(eq);
        if asynchronous {
            self.device.tables(|t| t.asynchronous = Arc::downgrade(&eq));
        }
        Ok(EventQueue { eq })
    }
}

/// The system's error, of the bus.
fn waiting(error: std::io::Error) -> BusError {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return BusError::Gone(format!("wait for an interrupt: {error}"));
    }
    BusError::Os {
        operation: "wait for an interrupt",
        message: error.to_string(),
        errno: error.raw_os_error(),
    }
}

/// Where events of a completion queue without an event queue go.
pub(crate) type Asynchronous = Weak<Eq>;
