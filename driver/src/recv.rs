// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive queue: buffers for messages that peers send, and for immediates (IBTA 10.8.3.2).

use std::mem::ManuallyDrop;

use ferrowire_spec::queue::doorbell::{rq, rq::RqDoorbell};
use ferrowire_spec::queue::recv_wqe::{self, SGES_PER_UNIT};

use crate::context::Device;
use crate::error::{Error, Result};
use crate::send::Sge;
use crate::work::{limit, refuse, total, unit_of, WorkQueue, MAX_MESSAGE};

const OPERATION: &str = "post receive";

/// A work request for the receive queue: where the next message goes.
///
/// A SEND takes one and fills its elements in their order; a WRITE with immediate takes one and leaves the elements alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvWr<'a> {
    wr_id: u64,
    sges: &'a [Sge],
}

impl<'a> RecvWr<'a> {
    /// A receive that the caller knows as `wr_id`. No elements: for messages without bytes.
    #[inline]
    pub fn new(wr_id: u64, sges: &'a [Sge]) -> Self {
        Self { wr_id, sges }
    }
}

/// Whose receives they are.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// Of a queue pair.
    Qp(u32),
    /// Of a shared receive queue.
    Srq(u32),
}

/// The poster's side of a receive queue.
pub(crate) struct RecvQueue {
    pub(crate) queue: WorkQueue,
    owner: Owner,
    /// Elements that queue and card take.
    max_sges: usize,
    /// Its slots are of one unit, and take an element.
    short: bool,
    /// What is the same in all doorbells.
    word: u64,
}

impl RecvQueue {
    /// Of a queue pair, or shared.
    pub(crate) fn new(device: &Device, owner: Owner, queue: WorkQueue) -> Result<Self> {
        let (qpn, srq) = match owner {
            Owner::Qp(qpn) => (qpn, false),
            Owner::Srq(srqn) => (srqn, true),
        };
        let bare = RqDoorbell { qpn, srq, ..RqDoorbell::default() }.to_words();
        let [word] = bare.map_err(|e| Error::from_spec(OPERATION, e))?;
        let max_sges = Self::slot_sges(&queue).min(device.capabilities.max_recv_sge.into());
        let short = queue.units() == 1 && max_sges > 0;
        Ok(Self { queue, owner, max_sges, short, word })
    }

    /// Elements that queue and card take.
    pub(crate) fn max_sges(&self) -> usize {
        self.max_sges
    }

    /// Elements for which a slot of the queue has room.
    fn slot_sges(queue: &WorkQueue) -> usize {
        (queue.units() * SGES_PER_UNIT).min(recv_wqe::MAX_SGES)
    }

    #[inline(always)]
    fn post(&mut self, device: &Device, wr: &RecvWr<'_>) -> Result<()> {
        if let [sge] = wr.sges {
            if self.short && u64::from(sge.bytes) <= MAX_MESSAGE && self.queue.has_room() {
                self.queue.write(0, &unit_of(OPERATION, &[*sge])?);
                self.queue.posted(wr.wr_id);
                return Ok(());
            }
        }
        self.post_any(device, *wr)
    }

    /// Posts a receive of any size, or says what is wrong with it.
    #[inline(never)]
    fn post_any(&mut self, device: &Device, wr: RecvWr<'_>) -> Result<()> {
        if wr.sges.len() > self.max_sges || total(wr.sges) > MAX_MESSAGE || !self.queue.has_room() {
            return Err(self.refusal(device, &wr));
        }
        // What is not in use is written too, for it must be zero.
        for unit in 0..self.queue.units() {
            let here = wr.sges.get(unit * SGES_PER_UNIT..).unwrap_or_default();
            self.queue.write(unit, &unit_of(OPERATION, here)?);
        }
        self.queue.posted(wr.wr_id);
        Ok(())
    }

    /// Why a receive is not posted.
    #[cold]
    fn refusal(&self, device: &Device, wr: &RecvWr<'_>) -> Error {
        let (slot, card) = (Self::slot_sges(&self.queue), device.capabilities.max_recv_sge.into());
        let asked = (slot, "max_recv_sge");
        let count = wr.sges.len();
        if let Err(error) = limit(OPERATION, "num_sge", count, asked, card, "register one region for all") {
            return error;
        }
        let bytes = total(wr.sges);
        if bytes > MAX_MESSAGE {
            let fix = "a message has at most 2^31 bytes; make the buffer smaller".into();
            return refuse(OPERATION, "length", bytes, fix);
        }
        let size = self.queue.size();
        match self.owner {
            Owner::Qp(qpn) => Error::RecvQueueFull { qpn, size },
            Owner::Srq(srqn) => Error::SharedQueueFull { srqn, size },
        }
    }

    #[inline]
    fn ring_doorbell(&mut self) -> Result<()> {
        let word = self.word;
        self.queue.ring_doorbell(|producer| word | rq::PRODUCER.to_word(producer.into()))
    }
}

/// A batch of receives: the doorbell is rung once, by [`ring`](Self::ring) or when it is dropped.
///
/// Completions may be polled meanwhile. Posting does not allocate.
#[must_use = "dropping it rings the doorbell; post something first"]
pub struct PostRecv<'a> {
    pub(crate) device: &'a Device,
    /// Where it goes; or the queue pair whose receives come from a shared queue.
    pub(crate) queue: std::result::Result<&'a mut RecvQueue, u32>,
}

impl PostRecv<'_> {
    /// Puts a receive into the queue. The card learns of it with the doorbell.
    ///
    /// # Errors
    /// Nothing was posted, and what was posted before stays: `RecvQueueFull` or `SharedQueueFull`, or `Attribute` for more elements or
    /// bytes than card or queue take, and for a queue pair that has a shared receive queue.
    #[inline(always)]
    pub fn post(&mut self, wr: &RecvWr<'_>) -> Result<()> {
        match &mut self.queue {
            Ok(queue) => queue.post(self.device, wr),
            Err(qpn) => {
                let fix =
                    "its receives come from a shared receive queue, or were taken out; post there".into();
                Err(refuse(OPERATION, "qpn", u64::from(*qpn), fix))
            }
        }
    }

    /// Receives that the queue has room for.
    pub fn room(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.queue.room())
    }

    /// Rings the doorbell, if something was posted, and says whether that worked.
    ///
    /// # Errors
    /// `Bus` when the bus fails. What was posted is told to the card with the next doorbell.
    #[inline]
    pub fn ring(self) -> Result<()> {
        // It does not ring once more when it is dropped.
        ManuallyDrop::new(self).ring_doorbell()
    }

    #[inline]
    fn ring_doorbell(&mut self) -> Result<()> {
        match &mut self.queue {
            Ok(queue) => queue.ring_doorbell(),
            Err(_) => Ok(()),
        }
    }
}

impl Drop for PostRecv<'_> {
    fn drop(&mut self) {
        // A failure shows with the next call of the bus.
        let _ = self.ring_doorbell();
    }
}
