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
    fn post(&mut self, device: &Device, qpn: u32, wr: &RecvWr<'_>) -> Result<()> {
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
            return Err(Error::RecvQueueFull { qpn, size: queue.size() });
        }
        // What is not in use is written too, for it must be zero.
        for unit in 0..queue.units() {
            let here = wr.sges.get(unit * SGES_PER_UNIT..).unwrap_or_default();
            queue.write(unit, &unit_of(OPERATION, here)?);
        }
        queue.posted(wr.wr_id);
        Ok(())
    }

    fn ring_doorbell(&mut self, device: &Device, qpn: u32) -> Result<()> {
        self.0.ring_doorbell(device, doorbell::RQ, |producer| {
            let bell = RqDoorbell { qpn, producer, ..RqDoorbell::default() };
            bell.to_bytes().map_err(|e| Error::from_spec(OPERATION, e))
        })
    }
}

/// A batch of receives: the doorbell is rung once, by [`ring`](Self::ring) or when it is dropped.
///
/// Completions may be polled meanwhile. Posting does not allocate.
#[must_use = "dropping it rings the doorbell; post something first"]
pub struct PostRecv<'a> {
    pub(crate) device: &'a Device,
    pub(crate) qpn: u32,
    pub(crate) queue: &'a mut RecvQueue,
}

impl PostRecv<'_> {
    /// Puts a receive into the queue. The card learns of it with the doorbell.
    ///
    /// # Errors
    /// Nothing was posted, and what was posted before stays: `RecvQueueFull`, or `Attribute` for more elements or bytes than
    /// card or queue take.
    pub fn post(&mut self, wr: &RecvWr<'_>) -> Result<()> {
        self.queue.post(self.device, self.qpn, wr)
    }

    /// Receives that the queue has room for.
    pub fn room(&self) -> usize {
        self.queue.0.room()
    }

    /// Rings the doorbell, if something was posted, and says whether that worked.
    ///
    /// # Errors
    /// `Bus` when the bus fails. What was posted is told to the card with the next doorbell.
    pub fn ring(mut self) -> Result<()> {
        // Dropping tries again only when this failed.
        let this = &mut self;
        this.queue.ring_doorbell(this.device, this.qpn)
    }
}

impl Drop for PostRecv<'_> {
    fn drop(&mut self) {
        // A failure shows with the next call of the bus.
        let _ = self.queue.ring_doorbell(self.device, self.qpn);
    }
}
