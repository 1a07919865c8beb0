// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive queue: buffers for messages that peers send, and for immediates (IBTA 10.8.3.2).

use ferrowire_spec::queue::doorbell::{self, rq::RqDoorbell};
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
    pub fn new(wr_id: u64, sges: &'a [Sge]) -> Self {
        Self { wr_id, sges }
    }
}

/// The poster's side of a receive queue.
pub(crate) struct RecvQueue(pub(crate) WorkQueue);

impl RecvQueue {
    fn post(&mut self, device: &Device, full: Error, wr: &RecvWr<'_>) -> Result<()> {
        let Self(queue) = self;
        let slot = (queue.units() * SGES_PER_UNIT).min(recv_wqe::MAX_SGES);
        let card = usize::from(device.capabilities.max_recv_sge);
        let count = wr.sges.len();
        limit(OPERATION, "num_sge", count, (slot, "max_recv_sge"), card, "register one region for all")?;
        let bytes = total(wr.sges);
        if bytes > MAX_MESSAGE {
            let fix = "a message has at most 2^31 bytes; make the buffer smaller".into();
            return Err(refuse(OPERATION, "length", bytes, fix));
        }
        if queue.room() == 0 {
            return Err(full);
        }
        // What is not in use is written too, for it must be zero.
        for unit in 0..queue.units() {
            let here = wr.sges.get(unit * SGES_PER_UNIT..).unwrap_or_default();
            queue.write(unit, &unit_of(OPERATION, here)?);
        }
        queue.posted(wr.wr_id);
        Ok(())
    }

    fn ring_doorbell(&mut self, device: &Device, qpn: u32, srq: bool) -> Result<()> {
        self.0.ring_doorbell(device, doorbell::RQ, |producer| {
            let bell = RqDoorbell { qpn, srq, producer, ..RqDoorbell::default() };
            bell.to_bytes().map_err(|e| Error::from_spec(OPERATION, e))
        })
    }
}

/// Where a batch goes.
pub(crate) enum Poster<'a> {
    /// To the receive queue of a queue pair.
    Own { qpn: u32, queue: &'a mut RecvQueue },
    /// To a shared one.
    Shared { srqn: u32, queue: &'a mut RecvQueue },
    /// Nowhere: the queue pair's receives come from a shared queue.
    Nobody { qpn: u32 },
}

impl Poster<'_> {
    fn post(&mut self, device: &Device, wr: &RecvWr<'_>) -> Result<()> {
        match self {
            Poster::Own { qpn, queue } => {
                let full = Error::RecvQueueFull { qpn: *qpn, size: queue.0.size() };
                queue.post(device, full, wr)
            }
            Poster::Shared { srqn, queue } => {
                let full = Error::SharedQueueFull { srqn: *srqn, size: queue.0.size() };
                queue.post(device, full, wr)
            }
            Poster::Nobody { qpn } => {
                let fix = "its receives come from a shared receive queue; post there".into();
                Err(refuse(OPERATION, "qpn", u64::from(*qpn), fix))
            }
        }
    }

    fn room(&self) -> usize {
        match self {
            Poster::Own { queue, .. } => queue.0.room(),
            Poster::Shared { queue, .. } => queue.0.room(),
            Poster::Nobody { .. } => 0,
        }
    }

    fn ring_doorbell(&mut self, device: &Device) -> Result<()> {
        match self {
            Poster::Own { qpn, queue } => queue.ring_doorbell(device, *qpn, false),
            Poster::Shared { srqn, queue } => queue.ring_doorbell(device, *srqn, true),
            Poster::Nobody { .. } => Ok(()),
        }
    }
}

/// A batch of receives: the doorbell is rung once, by [`ring`](Self::ring) or when it is dropped.
///
/// Completions may be polled meanwhile. Posting does not allocate.
#[must_use = "dropping it rings the doorbell; post something first"]
pub struct PostRecv<'a> {
    pub(crate) device: &'a Device,
    pub(crate) poster: Poster<'a>,
}

impl PostRecv<'_> {
    /// Puts a receive into the queue. The card learns of it with the doorbell.
    ///
    /// # Errors
    /// Nothing was posted, and what was posted before stays: `RecvQueueFull` or `SharedQueueFull`, or `Attribute` for more elements or
    /// bytes than card or queue take, and for a queue pair that has a shared receive queue.
    pub fn post(&mut self, wr: &RecvWr<'_>) -> Result<()> {
        self.poster.post(self.device, wr)
    }

    /// Receives that the queue has room for.
    pub fn room(&self) -> usize {
        self.poster.room()
    }

    /// Rings the doorbell, if something was posted, and says whether that worked.
    ///
    /// # Errors
    /// `Bus` when the bus fails. What was posted is told to the card with the next doorbell.
    pub fn ring(mut self) -> Result<()> {
        // Dropping tries again only when this failed.
        let this = &mut self;
        this.poster.ring_doorbell(this.device)
    }
}

impl Drop for PostRecv<'_> {
    fn drop(&mut self) {
        // A failure shows with the next call of the bus.
        let _ = self.poster.ring_doorbell(self.device);
    }
}
