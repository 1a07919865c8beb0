// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`CompletionQueue`]: how work requests ended (IBTA 10.8).

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrowire_spec::queue::command::create_cq::CreateCq;
use ferrowire_spec::queue::command::modify_cq::ModifyCq;
use ferrowire_spec::queue::command::resize_cq::ResizeCq;
use ferrowire_spec::queue::command_completion::cq_summary::CqSummary;
use ferrowire_spec::queue::cqe::{self, Cqe};
use ferrowire_spec::queue::doorbell;
use ferrowire_spec::queue::doorbell::cq::{self as bell, CqDoorbell};
use ferrowire_spec::queue::{CommandOpcode, WcStatus};

use crate::attach::{Attachments, Done, Followed, Found, Receiver, Written};
use crate::completion::{field, Completion};
use crate::context::{Context, Device};
use crate::eq::{Eq, EventQueue};
use crate::error::{Error, Result};
use crate::handle::Bell;
use crate::ring::{Entries, EntryRing};
use crate::tracker::Tracker;

/// The queue itself, held by the queue pairs that use it.
pub(crate) struct Cq {
    pub(crate) device: Arc<Device>,
    pub(crate) cqn: u32,
    live: bool,
    rings: Mutex<Rings>,
    attachments: Attachments,
    /// Where it tells; destroyed behind it.
    events: Option<Arc<Eq>>,
}

impl Cq {
    /// From now on, completions of `qpn` are those of these queues.
    pub(crate) fn attach(&self, qpn: u32, sends: Option<Arc<Tracker>>, receives: Option<Receiver>) {
        // Under the lock: while the queue goes to another ring, it is not known where its entries are.
        self.attachments.attach(&*self.rings(), qpn, sends, receives);
    }

    /// Entries of `qpn` that are there are passed over. The card writes none after them.
    pub(crate) fn detach(&self, qpn: u32) {
        self.attach(qpn, None, None);
    }

    /// See [`CompletionQueue::moderate`].
    fn moderate(&self, count: u16, period_us: u16) -> Result<()> {
        let object = self.cqn;
        let command = |token| ModifyCq { token, object, count, period_us, ..ModifyCq::default() }.to_bytes();
        self.device.commands.run(CommandOpcode::ModifyCq, object, command).map(|_| ())
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.rings().last.leak();
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

/// A ring that the card has left for another one, and in which entries are to be polled.
struct OldRing {
    ring: EntryRing<{ cqe::WORDS }>,
    /// Indices of its first entry, and after its last one.
    begin: u32,
    end: u32,
}

/// Where the entries of a completion queue are. They are counted on from ring to ring, but for a gap: the first index of a ring is a multiple of twice its size, so
/// the bits of an index say slot and phase in every ring, and the poller computes nothing.
struct Rings {
    /// The poller is in the first one; all their entries are there.
    old: VecDeque<OldRing>,
    /// The one that the card writes, and the index of its first entry.
    last: EntryRing<{ cqe::WORDS }>,
    begin: u32,
}

impl Rings {
    /// The first index of a ring of `1 << log2` entries after one that ends at `end`.
    fn after(end: u32, log2: u8) -> u32 {
        let round = (2u32 << log2) - 1;
        end.wrapping_add(round) & !round
    }

    /// Entries that a poller at `consumer` has not taken.
    fn unpolled(&self, consumer: u32) -> u32 {
        let begins = self.old.iter().skip(1).map(|next| next.begin).chain([self.begin]);
        let (mut at, mut count) = (consumer, 0u32);
        for (ring, next) in self.old.iter().zip(begins) {
            count = count.saturating_add(ring.end.wrapping_sub(at));
            at = next;
        }
        count.saturating_add(self.last.entries().written(at).wrapping_sub(at))
    }
}

impl Written for Rings {
    fn written(&self, consumer: u32) -> u32 {
        self.last.entries().written(if self.old.is_empty() { consumer } else { self.begin })
    }

    fn entry(&self, index: u32) -> Option<Done> {
        let holds = |old: &&OldRing| index.wrapping_sub(old.begin) < old.end.wrapping_sub(old.begin);
        let entries = self.old.iter().find(holds).map_or(self.last.entries(), |old| old.ring.entries());
        let Cqe { qpn, wqe_index, receive, status, .. } = Cqe::from_words(&entries.get(index)?);
        Some(Done { qpn, index: wqe_index, receive, success: status == WcStatus::Success.code() })
    }

    fn place(&self, mut index: u32) -> u32 {
        for (n, ring) in self.old.iter().enumerate() {
            if index == ring.end {
                index = self.old.get(n + 1).map_or(self.begin, |next| next.begin);
            }
        }
        index
    }
}

/// How large a queue is, and how far the card may be behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    /// Entries of the ring, as a power of two.
    log2: u8,
    /// The driver writes the consumer doorbell every `lag` entries.
    lag: u32,
}

impl Size {
    /// A ring for `entries` completions. The card judges by the last consumer doorbell whether the queue is full, and the driver writes that once a
    /// quarter of the ring. So the ring is at least a third larger than asked. More than three quarters of the card's largest ring may
    /// be asked for all the same, up to [`Capabilities::max_cqe`](crate::Capabilities::max_cqe): the doorbell is written more often then.
    fn of(entries: u32, max_log2: u8) -> Option<Self> {
        let log2_of = |count: u64| count.next_power_of_two().trailing_zeros() as u8;
        let asked = u64::from(entries);
        if entries == 0 || asked >= 1 << max_log2 {
            return None;
        }
        let log2 = log2_of(asked + asked.div_ceil(3)).min(max_log2);
        let ring = 1u64 << log2;
        let lag = (ring / 4).clamp(1, ring - asked);
        Some(Self { log2, lag: lag as u32 })
    }

    /// The same, for a card.
    fn for_card(operation: &'static str, entries: u32, device: &Device) -> Result<Self> {
        Self::of(entries, device.capabilities.max_cq_log2).ok_or_else(|| Error::Attribute {
            operation,
            attribute: "entries",
            value: entries.into(),
            fix: format!("choose 1 to {}", device.capabilities.max_cqe()),
        })
    }

    /// Completions that may be outstanding between two consumer doorbells. The send queue has room again as soon as `poll` has taken an entry,
    /// before the doorbell: so another thread may post while `lag` entries are taken of which the card does not know.
    fn capacity(self) -> u32 {
        (1 << self.log2) - self.lag
    }
}

/// A completion queue.
///
/// `Send` and `Sync`; polling takes `&mut`, so one thread polls at a time, and a poll takes no lock. To poll one
/// queue from several threads, put it into a mutex, or better give each thread a queue. Queue pairs whose completions come here may be
/// made, by its [`target`](Self::target), used and destroyed by other threads meanwhile: the poll after one was made, reset or destroyed takes that
/// over under a lock.
///
/// It is destroyed when it, its targets and the last queue pair that uses it are gone. It must have room for all completions that may be
/// there at once: an overrun takes the queue pairs whose completions are lost to error, and nothing is put into it any more. The card
/// tells it as an event; from when that was taken ([`EventQueue::poll`]) on, `poll` fails.
pub struct CompletionQueue {
    /// Doorbells, and what is the same in all of them.
    bell: Bell,
    word: u64,
    pub(crate) cq: Arc<Cq>,
    size: Size,
    /// The ring that is polled.
    entries: Entries<{ cqe::WORDS }>,
    consumer: u32,
    /// When the consumer gets there, a doorbell follows; or, in an old ring, the next ring is polled.
    tell_at: u32,
    /// The ring is an old one, which ends there.
    is_old: bool,
    /// The index of the first entry of the card's ring: the card counts from there.
    begin: u32,
    followed: Followed,
    /// An error met behind completions that were already handed out.
    deferred: Option<Error>,
    /// An empty queue has [more to look at](Self::look_around): such an error, or a card that moves only when it is let.
    has_more: bool,
    /// A poll that finds nothing lets the card run.
    lets_run: bool,
    /// An event told that it was overrun.
    overrun: Arc<AtomicBool>,
}

/// Why the poller takes no more successes.
enum Stop {
    /// There is no more, or no place.
    Done,
    /// The card is to be told.
    Tell,
    /// There is more to look at.
    Look,
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompletionQueue({:#x}, {} entries)", self.cq.cqn, self.capacity())
    }
}

/// A completion queue as the place where completions go: for [`QpInitAttr`](crate::QpInitAttr), also in threads that do not poll it.
///
/// `Send`, `Sync` and `Clone`. Queues do not end while it is there.
#[derive(Clone)]
pub struct CompletionTarget {
    pub(crate) cq: Arc<Cq>,
}

impl CompletionTarget {
    /// As [`CompletionQueue::moderate`], also while another thread polls.
    ///
    /// # Errors
    /// As [`CompletionQueue::moderate`].
    pub fn moderate(&self, count: u16, period_us: u16) -> Result<()> {
        self.cq.moderate(count, period_us)
    }
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

    /// Completions that it has room for, all together: those that are in it, and those of work requests that are posted.
    pub fn capacity(&self) -> u32 {
        self.size.capacity()
    }

    /// From now on a poll that finds nothing does not let the card run. That takes its time with a card on a socket, for which a thread that shares the
    /// queue does not keep the others away: it calls [`Context::progress`] when it has let go of the queue.
    pub fn leave_progress(&mut self) {
        self.lets_run = false;
    }

    /// Takes up to `out.len()` completions, and returns how many there are. Completions of queue pairs that were destroyed or reset are passed
    /// over. The card is told each quarter of the queue how far it got.
    ///
    /// It does not allocate. It takes no lock and makes no system call where the bus has [mapped doorbells](crate::Bus::mapped) and the card
    /// moves by itself; but see above for the one after a queue pair came or went.
    ///
    /// # Errors
    /// `CqOverrun` when nothing is left, and an event told that it was overrun.
    /// `UnexpectedCompletion` for an entry that no work request belongs to; it is passed over, and completions before it
    /// are handed out first. `Bus` when the bus fails.
    #[inline]
    pub fn poll(&mut self, out: &mut [Completion]) -> Result<usize> {
        if !out.is_empty() && self.entries.is_there(self.consumer) {
            return self.take(out);
        }
        match self.overrun.load(Ordering::Relaxed) || self.has_more {
            false => Ok(0),
            true => self.look_around(out.is_empty()),
        }
    }

    /// Takes what is there: in most polls, successes alone.
    #[inline(never)]
    fn take(&mut self, out: &mut [Completion]) -> Result<usize> {
        if self.has_more {
            return self.take_any(out, 0, Stop::Look);
        }
        match self.take_successes(out) {
            (n, Stop::Done) => {
                self.cq.attachments.taken(self.consumer);
                Ok(n)
            }
            (n, stop) => self.take_any(out, n, stop),
        }
    }

    /// Goes on behind `n` completions.
    #[inline(never)]
    fn take_any(&mut self, out: &mut [Completion], mut n: usize, mut stop: Stop) -> Result<usize> {
        if n == 0 {
            self.deferred()?;
        }
        loop {
            match stop {
                Stop::Done => break,
                Stop::Tell => {}
                Stop::Look => {
                    let at = self.consumer;
                    let (Some(words), Some(place)) = (self.entries.get(at), out.get_mut(n)) else { break };
                    self.consumer = at.wrapping_add(1);
                    match self.look(at, &words) {
                        Ok(Some(wr_id)) => {
                            *place = Completion::of_words(wr_id, words);
                            n += 1;
                        }
                        Ok(None) => {}
                        Err(error) => {
                            // The next poll begins after this entry: it would not see that a quarter ends here.
                            let told = if self.consumer == self.tell_at { self.tell(0) } else { Ok(()) };
                            return self.failed(n, told.err().unwrap_or(error));
                        }
                    }
                }
            }
            if self.consumer == self.tell_at {
                if let Err(error) = self.tell(0) {
                    return self.failed(n, error);
                }
            }
            let taken;
            (taken, stop) = self.take_successes(&mut out[n..]);
            n += taken;
        }
        self.cq.attachments.taken(self.consumer);
        Ok(n)
    }

    /// Takes successes of queue pairs of which nothing else is to be looked at: how many, and why no more. It calls nothing.
    #[inline(always)]
    fn take_successes(&mut self, out: &mut [Completion]) -> (usize, Stop) {
        let first = self.consumer;
        let mut at = first;
        let mut stop = Stop::Done;
        for place in out {
            let Some(words) = self.entries.get(at) else { break };
            let (qpn, receive) = (field!(words, QPN) as u32, field!(words, RECEIVE) == 1);
            let success = field!(words, STATUS) == WcStatus::Success as u64;
            // Behind the entry's phase: what was changed before the card could write it is seen.
            let wr_id = match success && !self.cq.attachments.moved(&self.followed) {
                true => self.followed.succeed(qpn, field!(words, WQE_INDEX) as u16, receive),
                false => None,
            };
            let Some(wr_id) = wr_id else {
                stop = Stop::Look;
                break;
            };
            *place = Completion::of_words(wr_id, words);
            at = at.wrapping_add(1);
            if at == self.tell_at {
                stop = Stop::Tell;
                break;
            }
        }
        self.consumer = at;
        (at.wrapping_sub(first) as usize, stop)
    }

    /// The work request of any entry; none when it is stale.
    fn look(&mut self, at: u32, words: &[u64; cqe::WORDS]) -> Result<Option<u64>> {
        self.followed.follow(&self.cq.attachments);
        let Cqe { qpn, wqe_index, receive, status, .. } = Cqe::from_words(words);
        let success = status == WcStatus::Success.code();
        match self.followed.complete(
            &self.cq.attachments,
            at,
            &Done { qpn, index: wqe_index, receive, success },
        ) {
            Found::Work(wr_id) => Ok(Some(wr_id)),
            Found::Stale => Ok(None),
            Found::Nothing => Err(Error::UnexpectedCompletion { qpn, wqe_index }),
        }
    }

    /// An error behind so many completions.
    #[cold]
    fn failed(&mut self, taken: usize, error: Error) -> Result<usize> {
        self.cq.attachments.taken(self.consumer);
        match taken {
            0 => Err(error),
            _ => {
                (self.deferred, self.has_more) = (Some(error), true);
                Ok(taken)
            }
        }
    }

    /// The error that was met behind what was handed out.
    #[inline(never)]
    fn deferred(&mut self) -> Result<()> {
        self.has_more = self.cq.device.bus.needs_progress();
        self.deferred.take().map_or(Ok(()), Err)
    }

    /// There is no entry.
    #[inline(never)]
    fn look_around(&mut self, nothing_wanted: bool) -> Result<usize> {
        self.deferred()?;
        if self.overrun.load(Ordering::Relaxed) {
            return Err(Error::CqOverrun { cqn: self.cq.cqn, entries: self.capacity() });
        }
        if !nothing_wanted && self.lets_run {
            self.cq.device.bus.progress()?;
        }
        Ok(0)
    }

    /// Asks for one event for the next completion, or, with `solicited_only`, for the next one that is solicited or failed: at once
    /// if there is one that `poll` has not taken, unless the queue is [moderated](Self::moderate). So a program that sees nothing, arms and sleeps until the event misses nothing. Asked for
    /// any completion already, the card stays at that. The event goes to the queue it was made with.
    ///
    /// # Errors
    /// `Attribute` for a completion queue without an event queue, `Bus` when the bus fails.
    pub fn request_notify(&mut self, solicited_only: bool) -> Result<()> {
        match self.cq.events {
            Some(_) => self.tell(Self::arm(solicited_only)),
            None => Err(self.has_no_events("request_notify")),
        }
    }

    /// The same, as IBTA volume 1, 11.4.2.2, has it: completions that are in the queue at the call send no event, whether `poll` has taken them or not. So arm, then poll until
    /// nothing is left, then sleep: a program that sleeps without that poll misses what came before the call. Of more than 63 that are there, the others may send one. Do not mix it with
    /// [`request_notify`](Self::request_notify) without a poll in between: of two calls that meet in the card, the first one says what was seen.
    ///
    /// # Errors
    /// As [`request_notify`](Self::request_notify).
    pub fn request_notify_of_next(&mut self, solicited_only: bool) -> Result<()> {
        const MOST: u32 = (1 << bell::SEEN.width) - 1;
        if self.cq.events.is_none() {
            return Err(self.has_no_events("request_notify_of_next"));
        }
        // The card compares with what it has written when the doorbell comes: an entry of the time between sends its event at once. That no arm hides what an earlier one asked
        // for is the card's to see, which knows whether that one was answered.
        let seen = match self.is_old {
            false => self.entries.ahead(self.consumer, MOST),
            true => {
                self.move_on();
                let from = if self.is_old { self.begin } else { self.consumer };
                self.cq.rings().last.entries().ahead(from, MOST)
            }
        };
        self.tell(Self::arm(solicited_only) | bell::SEEN.to_word(seen.into()))
    }

    /// The bits of a doorbell that arms.
    fn arm(solicited_only: bool) -> u64 {
        match solicited_only {
            false => bell::ARM_NEXT.to_word(1),
            true => bell::ARM_SOLICITED.to_word(1),
        }
    }

    #[cold]
    fn has_no_events(&self, operation: &'static str) -> Error {
        Error::Attribute {
            operation,
            attribute: "cqn",
            value: self.cq.cqn.into(),
            fix: "it has no event queue; make it with create_cq_with_events".into(),
        }
    }

    /// From now on an event that was [asked for](Self::request_notify) comes when `count` completions of the kind are there, or `period_us`
    /// microseconds after the first of them, whichever is first. So a program is woken less often, and no completion waits for longer than
    /// the period and the card's sweep over its queues (a cycle a queue). What is there already when the event is asked for counts as if it came then, but for what
    /// [`request_notify_of_next`](Self::request_notify_of_next) counts as seen: all completions that `poll` has not taken; if the event is asked for with
    /// `solicited_only`, one, however many of them are. So a program that sees nothing, asks and sleeps does not sleep for longer than the period while a completion is there.
    ///
    /// A count of 0 or 1, or a period of 0, ends the moderation, as a new queue has none. It holds at once, also for an event that is asked for
    /// already. For interrupts of an event queue see [`Context::create_moderated_eq`].
    ///
    /// # Errors
    /// `Command` when the card refuses, `Timeout` when it does not answer.
    pub fn moderate(&self, count: u16, period_us: u16) -> Result<()> {
        self.cq.moderate(count, period_us)
    }

    /// Gives it room for at least `entries` completions, more or fewer than before, whatever is posted and outstanding: no completion is lost, and all come in their
    /// order. What it was armed for stays. The memory of before goes back when its completions have been polled. Until then they count as seen, and no event that is asked for later comes
    /// for them: poll before you sleep.
    ///
    /// # Errors
    /// `Attribute` for a size that the card does not have, or fewer entries than are to be polled; `Bus` when there is no memory for it, `Command` when the card refuses. The queue
    /// is as before then.
    pub fn resize(&mut self, entries: u32) -> Result<()> {
        const OPERATION: &str = "resize_cq";
        let cq = Arc::clone(&self.cq);
        let (device, cqn) = (&cq.device, cq.cqn);
        let size = Size::for_card(OPERATION, entries, device)?;
        let mut rings = cq.rings();
        let unpolled = rings.unpolled(self.consumer);
        if entries < unpolled {
            return Err(Error::Attribute {
                operation: OPERATION,
                attribute: "entries",
                value: entries.into(),
                fix: format!(
                    "{unpolled} completions are in the queue: poll them, or choose as many at least"
                ),
            });
        }
        let mut ring = EntryRing::alloc(&device.bus, size.log2, &cqe::PHASE)?;
        // A doorbell with a consumer of the old ring must not come after the command. Only the owner of `self` rings, and stands here. What it rang before, the card
        // gets before the command's: writes to a card do not pass each other (PCIe 2.4.1). And the card carries the command out after the doorbells that it got
        // before.
        let result = device.commands.run(CommandOpcode::ResizeCq, cqn, |token| {
            ResizeCq {
                token,
                object: cqn,
                base: ring.bus_address(),
                log2_entries: size.log2,
                ..ResizeCq::default()
            }
            .to_bytes()
        });
        let value = result.inspect_err(|error| {
            if error.is_unanswered() {
                ring.leak();
            }
        })?;
        let summary = CqSummary::parse(&value.to_le_bytes()).map_err(|e| Error::from_spec(OPERATION, e))?;
        let end = rings.begin.wrapping_add(summary.producer);
        let begin = Rings::after(end, size.log2);
        let ring = std::mem::replace(&mut rings.last, ring);
        let old = OldRing { ring, begin: std::mem::replace(&mut rings.begin, begin), end };
        rings.old.push_back(old);
        drop(rings);
        (self.size, self.begin) = (size, begin);
        if !std::mem::replace(&mut self.is_old, true) {
            self.tell_at = end;
        }
        self.move_on();
        Ok(())
    }

    /// From rings of which nothing is left to the next one.
    fn move_on(&mut self) {
        let cq = Arc::clone(&self.cq);
        let mut rings = cq.rings();
        while self.is_old && self.consumer == self.tell_at {
            // Its memory goes back with the last one that has its words.
            let left = rings.old.pop_front();
            let next = rings.old.front();
            self.is_old = next.is_some();
            (self.consumer, self.tell_at) = match next {
                Some(next) => (next.begin, next.end),
                None => (self.begin, self.begin.wrapping_add(self.size.lag)),
            };
            self.entries = next.map_or(&rings.last, |next| &next.ring).entries().clone();
            drop(left);
        }
        // Under the lock: another thread that looks at the rings finds the poller in the first of them.
        self.cq.attachments.taken(self.consumer);
        drop(rings);
        self.followed.settle(&self.cq.attachments, self.consumer);
    }

    /// As [`tell`](Self::tell), in an old ring.
    #[cold]
    fn tell_in_old(&mut self, arm: u64) -> Result<()> {
        self.move_on();
        match (self.is_old, arm) {
            // There is nothing to tell of entries that the card has forgotten.
            (_, 0) => Ok(()),
            (true, arm) => self.bell.ring(self.word | arm),
            (false, arm) => self.tell(arm),
        }
    }

    /// Tells the card how far the host is, and arms it.
    fn tell(&mut self, arm: u64) -> Result<()> {
        if self.is_old {
            return self.tell_in_old(arm);
        }
        self.followed.settle(&self.cq.attachments, self.consumer);
        // Before the card may write there again.
        self.cq.attachments.taken(self.consumer);
        let consumer = self.consumer.wrapping_sub(self.begin);
        let told = self.bell.ring(self.word | arm | bell::CONSUMER.to_word(consumer.into()));
        // After a failure it is told with the next entry.
        let until = if told.is_ok() { self.size.lag } else { 1 };
        self.tell_at = self.consumer.wrapping_add(until);
        told
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
        let size = Size::for_card(operation, entries, &device)?;
        let bell = device.bell(doorbell::CQ)?;
        let mut ring = EntryRing::alloc(&device.bus, size.log2, &cqe::PHASE)?;
        let cqn = device.take(operation, "completion queues", device.capabilities.max_cq, |t| &mut t.cqs)?;
        let result = device.commands.run(CommandOpcode::CreateCq, cqn, |token| {
            CreateCq {
                token,
                object: cqn,
                base: ring.bus_address(),
                log2_entries: size.log2,
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
        let overrun = device.overrun_of(cqn);
        let (entries, needs_progress) = (ring.entries().clone(), device.bus.needs_progress());
        let attachments = Attachments::new();
        let rings = Mutex::new(Rings { old: VecDeque::new(), last: ring, begin: 0 });
        let cq = Cq { device, cqn, live: true, rings, attachments, events };
        let bare = CqDoorbell { cqn, ..CqDoorbell::default() }.to_words();
        let [word] = bare.map_err(|e| Error::from_spec(operation, e))?;
        Ok(CompletionQueue {
            bell,
            word,
            cq: Arc::new(cq),
            size,
            entries,
            consumer: 0,
            tell_at: size.lag,
            is_old: false,
            begin: 0,
            followed: Followed::new(),
            deferred: None,
            has_more: needs_progress,
            lets_run: true,
            overrun,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_begins_where_the_bits_of_an_index_are_slot_and_first_pass() {
        for log2 in [0u8, 3, 22] {
            for end in [0u32, 1, 7, 16, 1000, 1 << 23, u32::MAX - 3, u32::MAX] {
                let begin = Rings::after(end, log2);
                assert!(begin.wrapping_sub(end) < 2 << log2, "{end}, {log2}: {begin}");
                assert_eq!(begin & ((2 << log2) - 1), 0);
            }
        }
    }

    #[test]
    fn a_ring_has_room_for_what_was_asked_for_while_the_card_is_a_quarter_behind() {
        for max in [1, 4, 15, 24] {
            for entries in (1..300).chain([1 << 14, (1 << 14) + 1, 3 << 13, (3 << 13) + 1, 1 << 15]) {
                let Some(size) = Size::of(entries, max) else {
                    assert!(entries >= 1 << max, "{entries}");
                    continue;
                };
                let ring = 1u32 << size.log2;
                assert!(size.capacity() >= entries && size.lag >= 1, "{entries}: {size:?}");
                assert!(size.lag == (ring / 4).max(1) || size.log2 == max, "{entries}: {size:?}");
                assert!(3 * ring >= 4 * entries || size.log2 == max, "a third larger: {entries}, {size:?}");
                // The next smaller ring would not do.
                assert!(ring / 2 < entries + entries.div_ceil(3), "{entries}: {size:?}");
            }
            let most = (1 << max) - 1;
            assert_eq!(Size::of(most, max).map(Size::capacity), Some(most));
            assert_eq!(Size::of(0, max), None);
            assert_eq!(Size::of(u32::MAX, max), None);
        }
    }
}
