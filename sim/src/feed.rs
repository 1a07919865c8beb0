// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs that always have something to send, for tests of what slows them down or stops them.
//!
//! A [`Feed`] goes round and round over some slots, from memory to memory. [`run`] keeps those that are busy full for some cycles,
//! [`drain`] and [`finish`] let all come to their end; they check that messages complete in order, once and well, the last one that nothing
//! was lost as well.

use anyhow::{ensure, Context, Result};
use ferrowire::{AccessFlags, Completion, HwCounter, MemoryRegion, QueuePair, SendOp, SendWr};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};

use crate::pair::{bytes, Connection, Pair};

/// Messages after which a feed begins at its first slot again.
pub const SLOTS: usize = 8;

/// Cycles from one look at the completions to the next.
const STEP: u64 = 50;

/// Cycles in which what was posted comes to its end.
const STUCK: u64 = 3_000_000;

/// A queue pair of card 0 whose send queue is kept full: message `i` goes from slot `i` to slot `i`.
pub struct Feed<'a> {
    pair: &'a Pair,
    /// The one that is fed.
    pub qp: QueuePair,
    /// Its peer.
    pub peer: QueuePair,
    from: MemoryRegion,
    to: MemoryRegion,
    size: usize,
    reads: bool,
    posted: u64,
    /// Messages that have completed.
    pub done: u64,
}

impl<'a> Feed<'a> {
    /// Messages of `size` bytes each: WRITEs to card 1, or READs from there.
    ///
    /// # Errors
    /// The queue pairs or regions cannot be made.
    pub fn new(pair: &'a Pair, size: usize, connection: &Connection, reads: bool) -> Result<Self> {
        let (qp, peer) = pair.connect(&Connection { signal_all: true, ..*connection })?;
        let all = connection.access | AccessFlags::LOCAL_READ | AccessFlags::LOCAL_WRITE;
        let (source, target) = if reads { (&pair.b, &pair.a) } else { (&pair.a, &pair.b) };
        let (from, to) = (source.region(0, SLOTS * size, all)?, target.region(0, SLOTS * size, all)?);
        let mut data = vec![0; SLOTS * size];
        SmallRng::seed_from_u64(size as u64).fill_bytes(&mut data);
        from.memory().write(0, &data);
        Ok(Self { pair, qp, peer, from, to, size, reads, posted: 0, done: 0 })
    }

    fn post(&mut self) -> Result<()> {
        let mut batch = self.qp.start_post_send();
        while batch.room() > 0 {
            let at = self.posted as usize % SLOTS * self.size;
            let (op, own) = match self.reads {
                false => (SendOp::Write { remote: self.to.remote(at) }, &self.from),
                true => (SendOp::Read { remote: self.from.remote(at) }, &self.to),
            };
            batch.post(&SendWr::new(self.posted, op, &[own.sge(at, self.size as u32)]))?;
            self.posted += 1;
        }
        Ok(batch.ring()?)
    }

    /// Messages that were posted and have not completed.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        (self.posted - self.done) as usize
    }

    /// The same slots with both QPs reset and connected anew; begins at the first.
    ///
    /// # Errors
    /// The QPs cannot be connected again.
    pub fn reconnect(self, connection: &Connection) -> Result<Self> {
        let (qp, peer) =
            self.pair.reconnect(self.qp, self.peer, &Connection { signal_all: true, ..*connection })?;
        Ok(Self { qp, peer, posted: 0, done: 0, ..self })
    }

    fn took(&mut self, done: &Completion) -> Result<()> {
        let wanted = (self.done, true);
        ensure!((done.wr_id(), done.is_success()) == wanted, "{done:?}{}", self.pair.diagnose());
        self.done += 1;
        Ok(())
    }
}

/// Runs for some cycles; those of `feeds` that are said to be busy have always something to send.
///
/// # Errors
/// A card fails, or a message does.
pub fn run(pair: &Pair, feeds: &mut [Feed<'_>], busy: &[bool], cycles: u64) -> Result<()> {
    let end = pair.world.lock().cycle() + cycles;
    let mut some = [Completion::default(); 64];
    while pair.world.lock().cycle() < end {
        for (feed, _) in feeds.iter_mut().zip(busy).filter(|(_, busy)| **busy) {
            feed.post()?;
        }
        let left = end.saturating_sub(pair.world.lock().cycle());
        pair.world.lock().run(left.min(STEP));
        let n = pair.a.cq.poll(&mut some)?;
        for done in &some[..n] {
            let feed = feeds.iter_mut().find(|feed| feed.qp.number() == done.qpn());
            feed.context("a completion of nobody's")?.took(done)?;
        }
    }
    Ok(pair.world.lock().check()?)
}

/// Lets what was posted come to its end, and checks that it did: at least so many messages of each, with their bytes.
///
/// # Errors
/// It did not.
pub fn drain(pair: &Pair, feeds: &mut [Feed<'_>], least: u64) -> Result<()> {
    let limit = pair.world.lock().cycle() + STUCK;
    while feeds.iter().any(|feed| feed.done < feed.posted) {
        run(pair, feeds, &vec![false; feeds.len()], 1_000)?;
        ensure!(pair.world.lock().cycle() < limit, "a message does not end{}", pair.diagnose());
    }
    for feed in feeds {
        ensure!(feed.done >= least, "{} messages", feed.done);
        ensure!(bytes(feed.from.memory()) == bytes(feed.to.memory()), "other bytes than were sent");
    }
    Ok(())
}

/// Like [`drain`], and checks that nothing was lost or sent again.
///
/// # Errors
/// Something was.
pub fn finish(pair: &Pair, feeds: &mut [Feed<'_>], least: u64) -> Result<()> {
    drain(pair, feeds, least)?;
    let counters = [
        HwCounter::Retransmitted,
        HwCounter::LocalAckTimeoutErr,
        HwCounter::PacketSeqErr,
        HwCounter::OutOfSequence,
    ];
    for counter in counters {
        for node in [&pair.a, &pair.b] {
            let count = node.context.hw_counter(counter)?;
            ensure!(count == 0, "{} is {count}{}", counter.name(), pair.diagnose());
        }
    }
    Ok(())
}
