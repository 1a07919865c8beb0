// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`CompletionQueue`]: how work requests ended (IBTA 10.8).

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{fence, AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrowire_spec::queue::command::create_cq::CreateCq;
use ferrowire_spec::queue::cqe::{self, Cqe, LocalCause};
use ferrowire_spec::queue::doorbell::{self, cq::CqDoorbell};
use ferrowire_spec::queue::{CommandOpcode, CqeOpcode, WcStatus};

use crate::context::{Context, Device};
use crate::eq::{Eq, EventQueue};
use crate::error::{Coded, Error, Result};
use crate::ring::{Entries, EntryRing};
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
#[derive(Clone)]
pub(crate) enum Receiver {
    /// From its own queue: they complete in order.
    Own(Arc<Tracker>),
    /// From a shared one.
    Shared {
        /// That one.
        queue: Arc<Tracker>,
        /// A completion said that the queue pair is in error.
        failed: Arc<AtomicBool>,
    },
}

impl Receiver {
    fn complete(&self, index: u16, success: bool) -> Option<u64> {
        match self {
            Receiver::Own(queue) => queue.complete_oldest(index, success),
            Receiver::Shared { queue, failed } => {
                let wr_id = queue.complete_any(index);
                if wr_id.is_some() && !success {
                    failed.store(true, Ordering::Relaxed);
                }
                wr_id
            }
        }
    }
}

/// What the queue knows about a queue pair that uses it.
#[derive(Clone, Default)]
struct Attached {
    sends: Option<Arc<Tracker>>,
    receives: Option<Receiver>,
    /// Entries before this one are of a queue pair that has the number no more, or was reset.
    stale_until: Option<u32>,
}

/// By QPN, and what has been changed since the poller looked.
#[derive(Default)]
struct Table {
    attached: Vec<Attached>,
    changes: Vec<(u32, Attached)>,
    /// Room for the poller's table, where it needs more: it does not allocate.
    grown: Option<Vec<Attached>>,
}

impl Table {
    fn change(&mut self, qpn: u32, new: Attached) {
        if self.attached.len() <= qpn as usize {
            self.attached.resize_with((qpn as usize + 1).next_power_of_two(), Attached::default);
            self.grown = Some(Vec::with_capacity(self.attached.len()));
        }
        self.attached[qpn as usize] = new.clone();
        // A queue that nobody polls keeps one change of each queue pair.
        self.changes.retain(|(changed, _)| *changed != qpn);
        self.changes.push((qpn, new));
    }
}

/// The queue itself, held by the queue pairs that use it.
pub(crate) struct Cq {
    pub(crate) device: Arc<Device>,
    pub(crate) cqn: u32,
    entries: u32,
    live: bool,
    ring: EntryRing<{ cqe::BYTES }>,
    /// Entries that the poller has taken, before the card is told.
    consumer: AtomicU32,
    table: Mutex<Table>,
    /// How often the table was changed. Who sees an entry of the card sees the change that came before the command which let the
    /// card write it.
    generation: AtomicU32,
    /// Where it tells; destroyed behind it.
    events: Option<Arc<Eq>>,
}

impl Cq {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index behind the last entry that the card has written.
    fn written(&self) -> u32 {
        let mut consumer = self.consumer.load(Ordering::Acquire);
        loop {
            let written = self.ring.entries().written(consumer);
            // The card writes again only where the poller has taken: nothing was while the consumer stood.
            fence(Ordering::Acquire);
            let now = self.consumer.load(Ordering::Acquire);
            if now == consumer {
                return written;
            }
            consumer = now;
        }
    }

    /// From now on, completions of `qpn` are those of these queues; entries already there are of an earlier life of the number.
    pub(crate) fn attach(&self, qpn: u32, sends: Option<Arc<Tracker>>, receives: Option<Receiver>) {
        let mut table = self.table();
        let written = self.written();
        let consumer = self.consumer.load(Ordering::Acquire);
        let stale_until = (written != consumer).then_some(written);
        let new = Attached { sends, receives, stale_until };
        let old = table.attached.get(qpn as usize).cloned().unwrap_or_default();
        table.change(qpn, new);
        // Before places are given back: a poller that finds one so looks here for the reason.
        self.generation.fetch_add(1, Ordering::Release);
        self.release(qpn, &old, consumer, written);
    }

    /// Entries of `qpn` before `written` are stale: the receives of a shared queue among them have their places back.
    fn release(&self, qpn: u32, old: &Attached, consumer: u32, written: u32) {
        let Some(Receiver::Shared { queue, .. }) = &old.receives else { return };
        let mut index = old.stale_until.unwrap_or(consumer);
        if index.wrapping_sub(consumer) > written.wrapping_sub(consumer) {
            index = consumer;
        }
        while index != written {
            let entry = self.ring.entries().get(index);
            fence(Ordering::Acquire);
            // What the poller has taken meanwhile, it has completed; the card may have written over it.
            let taken = (index.wrapping_sub(self.consumer.load(Ordering::Acquire)) as i32) < 0;
            match entry.as_ref().map(|entry| Cqe::parse(entry)) {
                Some(Ok(cqe)) if !taken && cqe.qpn == qpn && cqe.receive => {
                    queue.complete_any(cqe.wqe_index);
                }
                _ => {}
            }
            index = index.wrapping_add(1);
        }
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
            self.ring.leak();
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

/// What only the one who polls has.
struct Poller {
    entries: Entries<{ cqe::BYTES }>,
    consumer: u32,
    /// The table as it was at this generation, by QPN.
    attached: Vec<Attached>,
    generation: u32,
    /// An error met behind completions that were already handed out.
    deferred: Option<Error>,
}

impl Poller {
    /// Takes over what was changed, if anything was: the only lock of a poll.
    fn follow(&mut self, cq: &Cq) -> bool {
        if cq.generation.load(Ordering::Acquire) == self.generation {
            return false;
        }
        let mut table = cq.table();
        self.generation = cq.generation.load(Ordering::Relaxed);
        if let Some(mut grown) = table.grown.take() {
            grown.append(&mut self.attached);
            grown.resize_with(grown.capacity(), Attached::default);
            self.attached = grown;
        }
        for (qpn, new) in table.changes.drain(..) {
            self.attached[qpn as usize] = new;
        }
        true
    }

    /// What an entry says, unless it is stale.
    fn resolve(&mut self, cq: &Cq, index: u32, entry: &[u8]) -> Result<Option<Completion>> {
        let cqe = Cqe::parse(entry).map_err(|e| Error::from_spec("poll", e))?;
        // Behind the entry's phase: what the table was changed to before the card could write it is seen.
        self.follow(cq);
        loop {
            match self.look(index, &cqe) {
                // The table may have been changed between the two looks, and the place of a shared receive given back.
                Err(_) if self.follow(cq) => {}
                result => return result,
            }
        }
    }

    fn look(&mut self, index: u32, cqe: &Cqe) -> Result<Option<Completion>> {
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

/// A completion queue.
///
/// `Send`, and not `Sync`: one thread polls it at a time, so a poll takes no lock. It may move between threads; who wants to poll one
/// queue from several threads puts it into a mutex, or better gives each thread a queue. Queue pairs whose completions come here may be
/// made, by its [`target`](Self::target), used and destroyed by other threads meanwhile: the poll after one was made, reset or destroyed takes that
/// over under a lock.
///
/// It is destroyed when it, its targets and the last queue pair that uses it are gone. It must have room for all completions that may be
/// there at once: an overrun takes the queue pairs whose completions are lost to error, and nothing is put into it any more. The card
/// tells it as an event; from when that was taken ([`EventQueue::poll`]) on, `poll` fails.
pub struct CompletionQueue {
    pub(crate) cq: Arc<Cq>,
    poller: RefCell<Poller>,
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompletionQueue({:#x}, {} entries)", self.cq.cqn, self.cq.entries)
    }
}

/// A completion queue as the place where completions go: for [`QpInitAttr`](crate::QpInitAttr), also in threads that do not poll it.
///
/// `Send`, `Sync` and `Clone`. Queues do not end while it is there.
#[derive(Clone)]
pub struct CompletionTarget {
    pub(crate) cq: Arc<Cq>,
}

impl fmt::Debug for CompletionTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompletionTarget({:#x})", self.cq.cqn)
    }
}

impl From<&CompletionQueue> for CompletionTarget {
    fn from(queue: &CompletionQueue) -> Self {
        queue.target()
    }
}

impl From<&CompletionTarget> for CompletionTarget {
    fn from(target: &CompletionTarget) -> Self {
        target.clone()
    }
}

impl CompletionQueue {
    /// The place where completions go, for queue pairs that are made elsewhere.
    pub fn target(&self) -> CompletionTarget {
        CompletionTarget { cq: Arc::clone(&self.cq) }
    }

    /// Its number on the card.
    pub fn number(&self) -> u32 {
        self.cq.cqn
    }

    /// Entries it has room for.
    pub fn capacity(&self) -> u32 {
        self.cq.entries
    }

    /// Takes up to `out.len()` completions, tells the card once how far it got, and returns how many there are.
    /// Completions of queue pairs that were destroyed or reset are passed over.
    ///
    /// It does not allocate. It takes no lock and makes no system call where the bus has [mapped doorbells](crate::Bus::mapped) and the card
    /// moves by itself; but see above for the one after a queue pair came or went.
    ///
    /// # Errors
    /// `CqOverrun` when nothing is left, and an event told that it was overrun.
    /// `UnexpectedCompletion` for an entry that no work request belongs to; it is passed over, and completions before it
    /// are handed out first. `Bus` when the bus fails.
    pub fn poll(&self, out: &mut [Completion]) -> Result<usize> {
        let cq = &*self.cq;
        let poller = &mut *self.poller.borrow_mut();
        // There hardly ever is one: nothing is moved to find that out.
        if let Some(error) = poller.deferred.clone() {
            poller.deferred = None;
            return Err(error);
        }
        let before = poller.consumer;
        let mut n = 0;
        let mut result = Ok(());
        while n < out.len() && result.is_ok() {
            let index = poller.consumer;
            let Some(entry) = poller.entries.get(index) else { break };
            poller.consumer = index.wrapping_add(1);
            match poller.resolve(cq, index, &entry) {
                Ok(Some(completion)) => {
                    out[n] = completion;
                    n += 1;
                }
                Ok(None) => {}
                Err(error) => result = Err(error),
            }
        }
        if poller.consumer == before {
            if cq.device.is_overrun(cq.cqn) {
                return Err(Error::CqOverrun { cqn: cq.cqn, entries: cq.entries });
            }
            if !out.is_empty() {
                cq.device.bus.progress()?;
            }
            return Ok(0);
        }
        // Before the card may write there again.
        cq.consumer.store(poller.consumer, Ordering::Release);
        let rung = self.ring_doorbell("poll", poller.consumer, None);
        match result.and(rung) {
            Err(error) if n > 0 => poller.deferred = Some(error),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        Ok(n)
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
        self.ring_doorbell(OPERATION, self.poller.borrow().consumer, Some(solicited_only))
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
    /// `Busy` while a queue pair uses it or a target is left: then it is destroyed with the last of these. `Command` when the card refuses.
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
        let poller = Poller {
            entries: ring.entries().clone(),
            consumer: 0,
            attached: Vec::new(),
            generation: 0,
            deferred: None,
        };
        device.mark_overrun(cqn, false);
        let (table, consumer, generation) = Default::default();
        let entries = 1 << log2;
        let cq = Cq { device, cqn, entries, live: true, ring, consumer, table, generation, events };
        Ok(CompletionQueue { cq: Arc::new(cq), poller: RefCell::new(poller) })
    }
}
