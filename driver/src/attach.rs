// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which work requests the completions of a queue belong to: told by those who make queue pairs, followed by the one who polls.
//!
//! ```text
//!  create, reset, destroy                              poll
//!     change ---> table (mutex) ----------- follow ---> records of the poller's own, by QPN
//!        |                                    ^
//!        +------> generation ----- differs ---+
//! ```
//!
//! The card writes an entry of a queue pair only after the command that let it, which comes after the change. So the poller that sees the
//! entry sees the generation move, and takes the change over before it looks for the work request. That is the only lock of a poll.

use crate::sync::{fence, Arc, AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError};
use crate::tracker::Tracker;

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

/// What an entry of a completion queue is about.
pub(crate) struct Done {
    /// Queue pair.
    pub(crate) qpn: u32,
    /// WQE, counted as doorbells count.
    pub(crate) index: u16,
    /// Of the receive queue.
    pub(crate) receive: bool,
    /// It ended well.
    pub(crate) success: bool,
}

/// The entries of a completion queue, which the card writes in order.
pub(crate) trait Written {
    /// The index after the last entry that the card has written from `consumer` on.
    fn written(&self, consumer: u32) -> u32;

    /// An entry, if the card has written it.
    fn entry(&self, index: u32) -> Option<Done>;

    /// Where entry `index` is: at another index if a ring ends before it, and the queue goes on in the next one.
    fn place(&self, index: u32) -> u32 {
        index
    }
}

/// What belongs to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A work request, with the caller's number.
    Work(u64),
    /// One of an earlier owner of the number, which is handed to nobody.
    Stale,
    /// None that is outstanding.
    Nothing,
}

/// What a completion queue knows about a queue pair: flat, for the poller looks into one for each completion.
#[derive(Clone)]
pub(crate) struct Record {
    /// Of sends and of receives; one in which nothing is outstanding where the queue pair does not complete here.
    queues: [Arc<Tracker>; 2],
    /// Of sends and of receives: there is more to look at than [`succeed`](Self::succeed) does.
    slow: [bool; 2],
    /// Entries before `until` are of a queue pair that has the number no more, or was reset.
    stale: bool,
    until: u32,
    /// Its number is in the list of [`Followed::settle`].
    listed: bool,
    /// Receives come from a shared queue: where a failure is noted.
    shared: Option<Arc<AtomicBool>>,
}

impl Record {
    /// Of no queue pair.
    fn none(nothing: &Arc<Tracker>) -> Self {
        let queues = [Arc::clone(nothing), Arc::clone(nothing)];
        Self { queues, slow: [false; 2], stale: false, until: 0, listed: false, shared: None }
    }

    fn new(
        nothing: &Arc<Tracker>,
        sends: Option<Arc<Tracker>>,
        receives: Option<Receiver>,
        stale_until: Option<u32>,
    ) -> Self {
        let nothing = || Arc::clone(nothing);
        let (receives, shared) = match receives {
            None => (nothing(), None),
            Some(Receiver::Own(queue)) => (queue, None),
            Some(Receiver::Shared { queue, failed }) => (queue, Some(failed)),
        };
        let stale = stale_until.is_some();
        Self {
            queues: [sends.unwrap_or_else(nothing), receives],
            slow: [stale, stale || shared.is_some()],
            stale,
            until: stale_until.unwrap_or(0),
            listed: false,
            shared,
        }
    }

    /// The work request of a success; `None` when there is more to look at.
    #[inline]
    fn succeed(&self, index: u16, receive: bool) -> Option<u64> {
        let which = usize::from(receive);
        match self.slow[which] {
            false => self.queues[which].succeed(index),
            true => None,
        }
    }

    /// Whether the entry at `index` of the completion queue is of an earlier owner of the number. The first that is not ends that.
    fn is_stale(&mut self, index: u32) -> bool {
        self.stale && !self.settle(index)
    }

    /// Ends staleness if the poller has come to `index` and no entry from before `until` is left. Whether it ended.
    fn settle(&mut self, index: u32) -> bool {
        let settled = self.stale && (index.wrapping_sub(self.until) as i32) >= 0;
        if settled {
            self.stale = false;
            self.slow = [false, self.shared.is_some()];
        }
        settled
    }

    /// The first entry that may be of this one, if the poller is at `consumer` and the card has `written` so far.
    pub(crate) fn begins(&self, consumer: u32, written: u32) -> u32 {
        match self.stale && self.until.wrapping_sub(consumer) <= written.wrapping_sub(consumer) {
            true => self.until,
            false => consumer,
        }
    }

    /// The work request of any completion; `None` when it is not outstanding.
    fn complete(&mut self, done: &Done) -> Option<u64> {
        match (done.receive, &self.shared) {
            (false, _) => {
                let queue = &self.queues[0];
                let wr_id = queue.complete(done.index, done.success);
                // A queue pair leaves SQE only after a failure was polled. From that on there is more to look at, until none of before can come.
                self.slow[0] = !done.success || queue.failed() || !queue.is_fresh();
                wr_id
            }
            (true, None) => self.queues[1].complete(done.index, done.success),
            (true, Some(failed)) => {
                let wr_id = self.queues[1].complete_any(done.index);
                if wr_id.is_some() && !done.success {
                    failed.store(true, Ordering::Relaxed);
                }
                wr_id
            }
        }
    }

    /// The shared receive queue that receives come from.
    pub(crate) fn shared(&self) -> Option<&Tracker> {
        self.shared.as_ref().map(|_| &*self.queues[1])
    }
}

/// By QPN, and what has been changed since the poller looked.
struct Table {
    /// Nothing is outstanding in it.
    nothing: Arc<Tracker>,
    records: Vec<Record>,
    changes: Vec<(u32, Record)>,
    /// Room for the poller's records and for its list, where it needs more: it does not allocate.
    grown: Option<(Vec<Record>, Vec<u32>)>,
}

/// What is changed by any thread.
pub(crate) struct Attachments {
    table: Mutex<Table>,
    /// How often the table was changed.
    generation: AtomicU32,
    /// Entries that the poller has taken, before the card hears of it.
    consumer: AtomicU32,
}

impl Attachments {
    pub(crate) fn new() -> Self {
        let nothing = Arc::new(Tracker::sends(0));
        let (records, changes) = (Vec::new(), Vec::new());
        let table = Mutex::new(Table { nothing, records, changes, grown: None });
        Self { table, generation: AtomicU32::new(0), consumer: AtomicU32::new(0) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, completions of `qpn` are those of these queues, but for entries before `stale_until`. After the poller can see the change,
    /// calls `end` with the old record.
    pub(crate) fn change(
        &self,
        qpn: u32,
        (sends, receives): (Option<Arc<Tracker>>, Option<Receiver>),
        stale_until: Option<u32>,
        end: impl FnOnce(&Record),
    ) {
        let mut table = self.table();
        let Table { nothing, records, changes, grown } = &mut *table;
        let new = Record::new(nothing, sends, receives, stale_until);
        if records.len() <= qpn as usize {
            records.resize_with((qpn as usize + 1).next_power_of_two(), || Record::none(nothing));
            *grown = Some((Vec::with_capacity(records.len()), Vec::with_capacity(records.len())));
        }
        let old = std::mem::replace(&mut records[qpn as usize], new.clone());
        // A queue that nobody polls keeps one change of each queue pair.
        changes.retain(|(changed, _)| *changed != qpn);
        changes.push((qpn, new));
        // Before `end` gives places back: a poller that finds one so looks here for the reason.
        self.generation.fetch_add(1, Ordering::Release);
        end(&old);
    }

    /// For the poller: it has taken all entries before `consumer`.
    #[inline]
    pub(crate) fn taken(&self, consumer: u32) {
        self.consumer.store(consumer, Ordering::Release);
    }

    /// Where the poller is, and the index after the last entry that the card has written; both of one look.
    fn look(&self, entries: &impl Written) -> (u32, u32) {
        let mut consumer = self.consumer.load(Ordering::Acquire);
        loop {
            let written = entries.written(consumer);
            // The card writes again only where the poller has taken: nothing, while the consumer stays.
            fence(Ordering::Acquire);
            let now = self.consumer.load(Ordering::Acquire);
            if now == consumer {
                return (consumer, written);
            }
            consumer = now;
        }
    }

    /// From now on, completions of `qpn` are those of these queues; entries that are there already are of an earlier life of the number. The
    /// receives of a shared queue among these have their places back.
    pub(crate) fn attach(
        &self,
        entries: &impl Written,
        qpn: u32,
        sends: Option<Arc<Tracker>>,
        receives: Option<Receiver>,
    ) {
        let (consumer, written) = self.look(entries);
        let stale_until = (written != consumer).then_some(written);
        self.change(qpn, (sends, receives), stale_until, |old| {
            let Some(queue) = old.shared() else { return };
            let mut index = entries.place(old.begins(consumer, written));
            while index != written {
                let entry = entries.entry(index);
                fence(Ordering::Acquire);
                // What the poller has taken meanwhile, it has completed; the card may have written over it.
                let taken = (index.wrapping_sub(self.consumer.load(Ordering::Acquire)) as i32) < 0;
                match entry {
                    Some(done) if !taken && done.qpn == qpn && done.receive => {
                        queue.complete_any(done.index);
                    }
                    _ => {}
                }
                index = entries.place(index.wrapping_add(1));
            }
        });
    }

    /// Whether something was changed since `followed`.
    #[inline]
    pub(crate) fn moved(&self, followed: &Followed) -> bool {
        self.generation.load(Ordering::Acquire) != followed.generation
    }
}

/// The poller's records: the table as it was at some generation.
pub(crate) struct Followed {
    records: Vec<Record>,
    /// Queue pairs whose records are stale, and some that are no more.
    stale: Vec<u32>,
    generation: u32,
}

impl Followed {
    /// As after [`Attachments::new`].
    pub(crate) fn new() -> Self {
        Self { records: Vec::new(), stale: Vec::new(), generation: 0 }
    }

    /// The work request of a success of queue pair `qpn`; `None` when there is [more to look at](Self::complete).
    #[inline]
    pub(crate) fn succeed(&self, qpn: u32, index: u16, receive: bool) -> Option<u64> {
        self.records.get(qpn as usize)?.succeed(index, receive)
    }

    /// What any completion belongs to, which is at `at` in the completion queue.
    pub(crate) fn complete(&mut self, attachments: &Attachments, at: u32, done: &Done) -> Found {
        loop {
            if let Some(record) = self.records.get_mut(done.qpn as usize) {
                if record.is_stale(at) {
                    return Found::Stale;
                }
                if let Some(wr_id) = record.complete(done) {
                    return Found::Work(wr_id);
                }
            }
            // The table may have been changed meanwhile, and the place of a shared receive given back.
            if !self.follow(attachments) {
                return Found::Nothing;
            }
        }
    }

    /// Takes over what was changed. Whether anything was.
    #[cold]
    pub(crate) fn follow(&mut self, attachments: &Attachments) -> bool {
        if !attachments.moved(self) {
            return false;
        }
        let mut table = attachments.table();
        self.generation = attachments.generation.load(Ordering::Relaxed);
        let Table { nothing, changes, grown, .. } = &mut *table;
        if let Some((mut grown, mut stale)) = grown.take() {
            grown.append(&mut self.records);
            grown.resize_with(grown.capacity(), || Record::none(nothing));
            stale.append(&mut self.stale);
            (self.records, self.stale) = (grown, stale);
        }
        for (qpn, mut new) in changes.drain(..) {
            let record = &mut self.records[qpn as usize];
            new.listed = record.listed || new.stale;
            if new.listed && !record.listed {
                self.stale.push(qpn);
            }
            *record = new;
        }
        true
    }

    /// The poller has come to `consumer`: ends the staleness of records of which no stale entry is left. Indices are compared as signed
    /// differences, so this is called at least once in 2^31 entries. It takes a lock only when something ends.
    pub(crate) fn settle(&mut self, attachments: &Attachments, consumer: u32) {
        if !self.stale.is_empty() {
            self.settle_listed(attachments, consumer);
        }
    }

    #[cold]
    fn settle_listed(&mut self, attachments: &Attachments, consumer: u32) {
        let Self { records, stale, .. } = self;
        stale.retain(|qpn| {
            let record = &mut records[*qpn as usize];
            if record.settle(consumer) {
                // A record that was changed meanwhile is stale until a later entry, or not at all.
                let kept = &mut attachments.table().records[*qpn as usize];
                kept.settle(consumer);
            }
            record.listed = record.stale;
            record.listed
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_that_was_idle_for_more_entries_than_half_the_count_loses_none() {
        let (attachments, mut followed) = (Attachments::new(), Followed::new());
        let sends = Arc::new(Tracker::sends(0));
        let done = Done { qpn: 3, index: 0, receive: false, success: true };
        // One that is stale until an entry which is there, and one that ends meanwhile and begins anew.
        attachments.change(3, (Some(Arc::clone(&sends)), None), Some(5), |_| {});
        attachments.change(4, (None, None), Some(5), |_| {});
        assert!(followed.follow(&attachments));
        assert_eq!(followed.complete(&attachments, 4, &done), Found::Stale);
        attachments.change(4, (None, None), Some(9), |_| {});
        assert!(followed.follow(&attachments));
        assert_eq!(followed.stale, [3, 4]);
        followed.settle(&attachments, 4);
        assert_eq!(followed.stale, [3, 4]);
        followed.settle(&attachments, 5);
        assert_eq!(followed.stale, [4]);
        followed.settle(&attachments, 0x4000_0000);
        assert!(followed.stale.is_empty());
        followed.settle(&attachments, 0x8000_0005);
        assert!(attachments.table().records[3..5].iter().all(|record| !record.stale && !record.listed));
        sends.post(0, 10);
        sends.publish(1);
        assert_eq!(followed.complete(&attachments, 0x8000_0006, &done), Found::Work(10));
    }
}
