// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`CompletionQueue`]: how work requests ended (IBTA 10.8).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ferrowire_spec::queue::command::create_cq::CreateCq;
use ferrowire_spec::queue::cqe::{self, Cqe, LocalCause};
use ferrowire_spec::queue::doorbell::{self, cq::CqDoorbell};
use ferrowire_spec::queue::{CommandOpcode, CqeOpcode, WcStatus};

use crate::context::{Context, Device};
use crate::eq::{Eq, EventQueue};
use crate::error::{Coded, Error, Result};
use crate::ring::EntryRing;
use crate::srq::SharedTracker;
use crate::work::Tracker;

/// Queue of a queue pair that a work request was posted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

/// How a work request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The caller's number of the work request.
    pub wr_id: u64,
    /// Queue pair.
    pub qpn: u32,
    /// A send or a receive.
    pub kind: WorkKind,
    /// Success, or why it failed. With anything but success, what stands below `syndrome` means nothing.
    pub status: Coded<WcStatus>,
    /// Cause of a failure: the AETH syndrome of the peer, or a [`LocalCause`]; see [`cause`](Self::cause).
    pub syndrome: u8,
    /// What was completed.
    pub opcode: Coded<CqeOpcode>,
    /// Bytes received, the 40 before a datagram included, or asked for by a READ or atomic.
    pub byte_len: u32,
    /// Immediate of the message received.
    pub imm: Option<u32>,
    /// Key that the message received invalidated.
    pub invalidated: Option<u32>,
    /// The message was solicited.
    pub solicited: bool,
    /// Queue pair that sent the datagram received; `None`: it was none. The first 40 bytes of the buffer are then the IPv6 header that it
    /// came with, or 20 zeros and the IPv4 header (IBTA A17.4.5.2).
    pub src_qpn: Option<u32>,
}

impl Completion {
    /// Whether it ended well.
    pub fn is_success(&self) -> bool {
        self.status == WcStatus::Success
    }

    /// Why it failed, when that is known on this side; `None`: it did not, or `syndrome` is the peer's.
    pub fn cause(&self) -> Option<LocalCause> {
        LocalCause::from_code(self.syndrome).filter(|cause| *cause != LocalCause::None)
    }
}

/// For arrays that [`CompletionQueue::poll`] fills: of no queue pair.
impl Default for Completion {
    fn default() -> Self {
        Self {
            wr_id: 0,
            qpn: 0,
            kind: WorkKind::Send,
            status: Coded::Known(WcStatus::GeneralErr),
            syndrome: 0,
            opcode: Coded::Unknown(0xff),
            byte_len: 0,
            imm: None,
            invalidated: None,
            solicited: false,
            src_qpn: None,
        }
    }
}

/// Where the receives of a queue pair come from.
pub(crate) enum Receiver {
    /// From its own queue: they complete in order.
    Own(Arc<Tracker>),
    /// From a shared one.
    Shared {
        /// That one.
        queue: Arc<SharedTracker>,
        /// A completion said that the queue pair is in error.
        failed: Arc<AtomicBool>,
    },
}

impl Receiver {
    fn complete(&self, index: u16, success: bool) -> Option<u64> {
        match self {
            Receiver::Own(queue) => queue.complete_oldest(index, success),
            Receiver::Shared { queue, failed } => {
                let wr_id = queue.complete(index);
                if wr_id.is_some() && !success {
                    failed.store(true, Ordering::Relaxed);
                }
                wr_id
            }
        }
    }
}

/// What the queue knows about a queue pair that uses it.
#[derive(Default)]
struct Attached {
    sends: Option<Arc<Tracker>>,
    receives: Option<Receiver>,
    /// Entries before this one are of a queue pair that has the number no more, or was reset.
    stale_until: Option<u32>,
}

struct State {
    ring: EntryRing<{ cqe::BYTES }>,
    /// By QPN.
    attached: Vec<Attached>,
    /// An error met behind completions that were already handed out.
    deferred: Option<Error>,
}

impl State {
    /// Entries of `qpn` before `written` are about to be stale: the receives of a shared queue among them have their places back.
    fn release(&mut self, qpn: u32, written: u32) {
        let attached = &self.attached[qpn as usize];
        let Some(Receiver::Shared { queue, .. }) = &attached.receives else { return };
        let mut index = attached.stale_until.unwrap_or(self.ring.consumer());
        if (index.wrapping_sub(self.ring.consumer()) as i32) < 0 {
            index = self.ring.consumer();
        }
        while index != written {
            match Cqe::parse(&self.ring.peek(index)) {
                Ok(cqe) if cqe.qpn == qpn && cqe.receive => drop(queue.complete(cqe.wqe_index)),
                _ => {}
            }
            index = index.wrapping_add(1);
        }
    }

    /// What an entry says, unless it is stale.
    fn resolve(&mut self, index: u32, entry: &[u8]) -> Result<Option<Completion>> {
        let cqe = Cqe::parse(entry).map_err(|e| Error::from_spec("poll", e))?;
        let unexpected = Error::UnexpectedCompletion { qpn: cqe.qpn, wqe_index: cqe.wqe_index };
        let Some(attached) = self.attached.get_mut(cqe.qpn as usize) else { return Err(unexpected) };
        if let Some(until) = attached.stale_until {
            if (index.wrapping_sub(until) as i32) < 0 {
                return Ok(None);
            }
            attached.stale_until = None;
        }
        let status = Coded::<WcStatus>::from(cqe.status);
        let success = status == WcStatus::Success;
        let (kind, wr_id) = match cqe.receive {
            false => {
                let sends = attached.sends.as_ref();
                (WorkKind::Send, sends.and_then(|queue| queue.complete(cqe.wqe_index, success)))
            }
            true => {
                let receives = attached.receives.as_ref();
                (WorkKind::Receive, receives.and_then(|queue| queue.complete(cqe.wqe_index, success)))
            }
        };
        let Some(wr_id) = wr_id else { return Err(unexpected) };
        Ok(Some(Completion {
            wr_id,
            qpn: cqe.qpn,
            kind,
            status,
            syndrome: cqe.syndrome,
            opcode: Coded::from(cqe.opcode),
            byte_len: cqe.byte_len,
            imm: cqe.imm_valid.then_some(cqe.imm),
            invalidated: cqe.invalidated.then_some(cqe.imm),
            solicited: cqe.solicited,
            src_qpn: cqe.grh.then_some(cqe.src_qpn),
        }))
    }
}

/// The queue itself, held by the queue pairs that use it.
pub(crate) struct Cq {
    pub(crate) device: Arc<Device>,
    pub(crate) cqn: u32,
    entries: u32,
    live: bool,
    state: Mutex<State>,
    /// Where it tells; destroyed behind it.
    events: Option<Arc<Eq>>,
}

impl Cq {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on, completions of `qpn` are those of these queues; entries already there are of an earlier life of the number.
    pub(crate) fn attach(&self, qpn: u32, sends: Option<Arc<Tracker>>, receives: Option<Receiver>) {
        self.with(|state| {
            let at = qpn as usize;
            if at >= state.attached.len() {
                state.attached.resize_with(at + 1, Attached::default);
            }
            let written = state.ring.written();
            state.release(qpn, written);
            let stale_until = (written != state.ring.consumer()).then_some(written);
            state.attached[at] = Attached { sends, receives, stale_until };
        });
    }

    /// Entries of `qpn` that are there are handed to nobody any more. The card writes none behind them.
    pub(crate) fn detach(&self, qpn: u32) {
        self.attach(qpn, None, None);
    }

    fn destroy(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.live) {
            return Ok(());
        }
        let result = self.device.commands.simple(CommandOpcode::DestroyCq, self.cqn);
        if result.is_ok() {
            let asynchronous = || self.device.tables(|t| t.asynchronous.upgrade());
            if let Some(events) = self.events.clone().or_else(asynchronous) {
                events.forget(self.cqn);
            }
            self.device.tables(|t| t.cqs.give_back(self.cqn));
        } else {
            self.state.get_mut().unwrap_or_else(PoisonError::into_inner).ring.leak();
        }
        result.map(|_| ())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // A queue that the card does not give back keeps its number and its memory.
        let _ = self.destroy();
    }
}

/// A completion queue.
///
/// `Send` and `Sync`; clones are the same queue, and threads that poll take turns. It is destroyed when the last clone and
/// the last queue pair that uses it are gone. It must have room for all completions that may be there at once: an overrun
/// takes the queue pairs whose completions are lost to error, and nothing is put into it any more. The card tells it as an
/// event; from when that was taken ([`EventQueue::poll`]) on, `poll` fails.
#[derive(Clone)]
pub struct CompletionQueue {
    pub(crate) cq: Arc<Cq>,
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompletionQueue({:#x}, {} entries)", self.cq.cqn, self.cq.entries)
    }
}

impl CompletionQueue {
    /// Its number on the card.
    pub fn number(&self) -> u32 {
        self.cq.cqn
    }

    /// Entries it has room for.
    pub fn capacity(&self) -> u32 {
        self.cq.entries
    }

    /// Takes up to `out.len()` completions, tells the card once how far it got, and returns how many there are.
    /// Completions of queue pairs that were destroyed or reset are passed over. Does not allocate.
    ///
    /// # Errors
    /// `CqOverrun` when nothing is left, and an event told that it was overrun.
    /// `UnexpectedCompletion` for an entry that no work request belongs to; it is passed over, and completions before it
    /// are handed out first. `Bus` when the bus fails.
    pub fn poll(&self, out: &mut [Completion]) -> Result<usize> {
        let device = &self.cq.device;
        let (taken, result) = self.cq.with(|state| {
            if let Some(error) = state.deferred.take() {
                return (None, Err(error));
            }
            let before = state.ring.consumer();
            let mut n = 0;
            let mut result = Ok(());
            while n < out.len() && result.is_ok() {
                let index = state.ring.consumer();
                let Some(entry) = state.ring.take() else { break };
                match state.resolve(index, &entry) {
                    Ok(Some(completion)) => {
                        out[n] = completion;
                        n += 1;
                    }
                    Ok(None) => {}
                    Err(error) => result = Err(error),
                }
            }
            let after = state.ring.consumer();
            if after != before {
                // Inside the lock: the consumer must not go back.
                let rung = self.ring_doorbell("poll", after, None);
                result = result.and(rung);
            }
            if n == 0 && after == before && result.is_ok() && device.is_overrun(self.cq.cqn) {
                result = Err(Error::CqOverrun { cqn: self.cq.cqn, entries: self.cq.entries });
            }
            match result {
                Err(error) if n > 0 => state.deferred = Some(error),
                Err(error) => return (None, Err(error)),
                Ok(()) => {}
            }
            ((after != before).then_some(()), Ok(n))
        });
        if taken.is_none() && result.is_ok() && !out.is_empty() {
            device.bus.progress()?;
        }
        result
    }

    /// Asks for one event for the next completion, or, with `solicited_only`, for the next one that is solicited or failed: at once
    /// if there is one that `poll` has not taken. So who sees nothing, arms and sleeps until the event misses nothing. Asked for
    /// any completion already, the card stays at that. The event goes to the queue it was made with.
    ///
    /// # Errors
    /// `Attribute` for a completion queue without an event queue, `Bus` when the bus fails.
    pub fn request_notify(&self, solicited_only: bool) -> Result<()> {
        const OPERATION: &str = "request_notify";
        if self.cq.events.is_none() {
            return Err(Error::Attribute {
                operation: OPERATION,
                attribute: "cqn",
                value: self.cq.cqn.into(),
                fix: "it has no event queue; make it with create_cq_with_events".into(),
            });
        }
        // Inside the lock: the consumer must not go back.
        self.cq.with(|state| self.ring_doorbell(OPERATION, state.ring.consumer(), Some(solicited_only)))
    }

    /// Tells the card how far the host is, and arms it.
    fn ring_doorbell(&self, operation: &'static str, consumer: u32, solicited: Option<bool>) -> Result<()> {
        let bell = CqDoorbell {
            cqn: self.cq.cqn,
            consumer,
            arm_next: solicited == Some(false),
            arm_solicited: solicited == Some(true),
            ..CqDoorbell::default()
        };
        let bytes = bell.to_bytes().map_err(|e| Error::from_spec(operation, e))?;
        let device = &self.cq.device;
        let at = doorbell::address(device.options.doorbell_page, doorbell::CQ);
        device.bus.doorbell(at, u64::from_le_bytes(bytes))
    }

    /// Destroys it, and says whether that worked.
    ///
    /// # Errors
    /// `Busy` while a queue pair uses it or a clone is left: then it is destroyed with the last of these. `Command` when
    /// the card refuses.
    pub fn destroy(self) -> Result<()> {
        let number = self.cq.cqn;
        let users = Arc::strong_count(&self.cq) - 1;
        match Arc::into_inner(self.cq) {
            Some(mut cq) => cq.destroy(),
            None => Err(Error::Busy { what: "completion queue", number, users: users.max(1) }),
        }
    }
}

impl Context {
    /// Makes a completion queue with room for at least `entries`.
    ///
    /// # Errors
    /// `Attribute` for a size that the card does not have, `NoResource` when no queue is left, `Bus` when there is no
    /// memory for it, `Command` when the card refuses.
    pub fn create_cq(&self, entries: u32) -> Result<CompletionQueue> {
        self.completion_queue("create_cq", entries, None)
    }

    /// The same, with events that go to `events`: see [`CompletionQueue::request_notify`].
    ///
    /// # Errors
    /// As [`create_cq`](Self::create_cq); `Foreign` for an event queue of another card.
    pub fn create_cq_with_events(&self, entries: u32, events: &EventQueue) -> Result<CompletionQueue> {
        const OPERATION: &str = "create_cq_with_events";
        if !Arc::ptr_eq(&self.device, &events.eq.device) {
            return Err(Error::Foreign { operation: OPERATION, what: "event queue", of: "card" });
        }
        self.completion_queue(OPERATION, entries, Some(Arc::clone(&events.eq)))
    }

    fn completion_queue(
        &self,
        operation: &'static str,
        entries: u32,
        events: Option<Arc<Eq>>,
    ) -> Result<CompletionQueue> {
        let device = Arc::clone(&self.device);
        let log2 = device.queue_log2(operation, entries)?;
        let mut ring = EntryRing::alloc(&device.bus, log2, cqe::PHASE.offset)?;
        let cqn = device.take(operation, "completion queues", device.capabilities.max_cq, |t| &mut t.cqs)?;
        let result = device.commands.run(CommandOpcode::CreateCq, cqn, |token| {
            CreateCq {
                token,
                object: cqn,
                base: ring.bus_address(),
                log2_entries: log2,
                eqn: events.as_ref().map_or(0, |eq| eq.eqn),
                doorbell_page: device.options.doorbell_page,
                ..CreateCq::default()
            }
            .to_bytes()
        });
        if let Err(error) = result {
            if error.is_unanswered() {
                ring.leak();
            } else {
                device.tables(|t| t.cqs.give_back(cqn));
            }
            return Err(error);
        }
        let state = Mutex::new(State { ring, attached: Vec::new(), deferred: None });
        device.mark_overrun(cqn, false);
        Ok(CompletionQueue {
            cq: Arc::new(Cq { device, cqn, entries: 1 << log2, live: true, state, events }),
        })
    }
}
