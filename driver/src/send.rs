// SPDX-License-Identifier: MIT OR Apache-2.0
//! The send queue: work requests in, WQEs out, and the numbers by which completions find back.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

use ferrowire_spec::queue::doorbell::{self, sq::SqDoorbell};
use ferrowire_spec::queue::send_wqe::{self, sge, SendWqe, INLINE_AT, SGES_PER_UNIT};
use ferrowire_spec::queue::{SendOpcode, WQE_UNIT};

use crate::context::Device;
use crate::error::{Error, Result};
use crate::handle::OwnedDma;

const OPERATION: &str = "post send";

/// Largest message (IBTA 9.7.7).
const MAX_MESSAGE: u64 = 1 << 31;

/// Scatter/gather element: a run of bytes in a registered region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sge {
    /// First address, as the region names it.
    pub address: u64,
    /// Local key of the region.
    pub lkey: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A place in the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address, as the peer's region names it.
    pub address: u64,
    /// The peer's key.
    pub rkey: u32,
}

/// What a work request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendOp {
    /// RDMA WRITE.
    Write {
        /// Where to.
        remote: RemoteAddress,
    },
}

impl SendOp {
    /// As WQE and CQE name it.
    pub const fn opcode(&self) -> SendOpcode {
        match self {
            SendOp::Write { .. } => SendOpcode::Write,
        }
    }
}

/// Where the bytes of a work request are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// In registered memory, to be read by the card any time before the completion.
    Sges(&'a [Sge]),
    /// Here: they are copied into the WQE, and the memory is free at once.
    Inline(&'a [u8]),
}

impl<'a> From<&'a [Sge]> for Payload<'a> {
    fn from(sges: &'a [Sge]) -> Self {
        Payload::Sges(sges)
    }
}

impl<'a, const N: usize> From<&'a [Sge; N]> for Payload<'a> {
    fn from(sges: &'a [Sge; N]) -> Self {
        Payload::Sges(sges)
    }
}

impl Payload<'_> {
    fn bytes(&self) -> u64 {
        match self {
            Payload::Sges(sges) => sges.iter().map(|s| u64::from(s.bytes)).sum(),
            Payload::Inline(data) => data.len() as u64,
        }
    }

    fn units(&self) -> usize {
        match self {
            Payload::Sges(sges) => send_wqe::units_for_sges(sges.len()),
            Payload::Inline(data) => send_wqe::units_for_inline(data.len()),
        }
    }
}

/// A work request for the send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendWr<'a> {
    wr_id: u64,
    op: SendOp,
    payload: Payload<'a>,
    signaled: bool,
    solicited: bool,
    fence: bool,
}

impl<'a> SendWr<'a> {
    /// A work request that the caller knows as `wr_id`, not signalled.
    pub fn new(wr_id: u64, op: SendOp, payload: impl Into<Payload<'a>>) -> Self {
        Self { wr_id, op, payload: payload.into(), signaled: false, solicited: false, fence: false }
    }

    /// An RDMA WRITE of `payload` to `remote`.
    pub fn write(wr_id: u64, payload: impl Into<Payload<'a>>, remote: RemoteAddress) -> Self {
        Self::new(wr_id, SendOp::Write { remote }, payload)
    }

    /// Complete it also when it succeeds. One that is not signalled frees its place with the next completion behind it.
    pub fn signaled(self) -> Self {
        Self { signaled: true, ..self }
    }

    /// Set the solicited event bit of its last packet.
    pub fn solicited(self) -> Self {
        Self { solicited: true, ..self }
    }

    /// Begin only when all earlier READs and atomics are answered (IBTA 10.8.3.3).
    pub fn fenced(self) -> Self {
        Self { fence: true, ..self }
    }
}

/// A WQE in the queue, kept at the place of its first unit.
#[derive(Default)]
struct Shadow {
    wr_id: AtomicU64,
    /// Units; 0 where no WQE begins.
    units: AtomicU8,
}

/// What posting and polling share: which work request each WQE is, and how far both have got.
///
/// The one poster writes the shadow of a WQE, then `producer`; a poller reads `producer`, then the shadow of a WQE
/// before it, and moves `consumer` (pollers take turns by the CQ's lock). So neither waits for the other, and a program may
/// poll while it holds a [`PostSend`].
pub(crate) struct SendTracker {
    shadow: Box<[Shadow]>,
    producer: AtomicU16,
    consumer: AtomicU16,
    /// A completion said that the queue pair is in error.
    failed: AtomicBool,
}

impl SendTracker {
    fn new(log2: u8) -> Self {
        Self {
            shadow: (0..1 << log2).map(|_| Shadow::default()).collect(),
            producer: AtomicU16::new(0),
            consumer: AtomicU16::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn slot(&self, index: u16) -> &Shadow {
        &self.shadow[usize::from(index) & (self.shadow.len() - 1)]
    }

    fn free(&self) -> usize {
        let used = self.producer.load(Ordering::Relaxed).wrapping_sub(self.consumer.load(Ordering::Acquire));
        self.shadow.len() - usize::from(used)
    }

    /// The work request whose WQE begins at `index`; it and all before it leave the queue. None when no WQE begins there.
    pub(crate) fn complete(&self, index: u16, success: bool) -> Option<u64> {
        let producer = self.producer.load(Ordering::Acquire);
        let consumer = self.consumer.load(Ordering::Relaxed);
        if index.wrapping_sub(consumer) >= producer.wrapping_sub(consumer) {
            return None;
        }
        let shadow = self.slot(index);
        let units = shadow.units.load(Ordering::Relaxed);
        if units == 0 {
            return None;
        }
        let wr_id = shadow.wr_id.load(Ordering::Relaxed);
        if !success {
            self.failed.store(true, Ordering::Relaxed);
        }
        self.consumer.store(index.wrapping_add(units.into()), Ordering::Release);
        Some(wr_id)
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The queue pair left SQE.
    pub(crate) fn recovered(&self) {
        self.failed.store(false, Ordering::Relaxed);
    }
}

/// The poster's side of a send queue.
pub(crate) struct SendQueue {
    ring: OwnedDma,
    tracker: Arc<SendTracker>,
    log2: u8,
    /// Producer that the card was told.
    rung: u16,
}

impl SendQueue {
    pub(crate) fn new(ring: OwnedDma, log2: u8) -> Self {
        Self { ring, tracker: Arc::new(SendTracker::new(log2)), log2, rung: 0 }
    }

    pub(crate) fn tracker(&self) -> &Arc<SendTracker> {
        &self.tracker
    }

    /// Empty, as after RESET; completions of before find nothing here.
    pub(crate) fn reset(&mut self) {
        self.tracker = Arc::new(SendTracker::new(self.log2));
        self.rung = 0;
    }

    pub(crate) fn leak(&mut self) {
        self.ring.leak();
    }

    pub(crate) fn bus_address(&self) -> u64 {
        self.ring.bus_address()
    }

    pub(crate) fn log2(&self) -> u8 {
        self.log2
    }

    fn write_unit(&self, index: u16, unit: &[u8; WQE_UNIT]) {
        let slot = usize::from(index) & ((1 << self.log2) - 1);
        self.ring.memory().write(slot * WQE_UNIT, unit);
    }

    fn post(&mut self, device: &Device, qpn: u32, wr: &SendWr<'_>) -> Result<()> {
        let bytes = wr.payload.bytes();
        let limit = |attribute, value: u64, fix: String| {
            Err(Error::Attribute { operation: OPERATION, attribute, value, fix })
        };
        let (num_sge, inline_len) = match wr.payload {
            Payload::Sges(sges) => (sges.len(), 0),
            Payload::Inline(data) => (0, data.len()),
        };
        let max_sge = usize::from(device.capabilities.max_send_sge);
        let max_inline = usize::from(device.capabilities.max_inline);
        if num_sge > max_sge {
            return limit(
                "num_sge",
                num_sge as u64,
                format!("the card takes {max_sge}; post several work requests"),
            );
        }
        if inline_len > max_inline {
            let fix = format!("the card takes {max_inline} bytes; send from registered memory");
            return limit("inline_len", inline_len as u64, fix);
        }
        if bytes > MAX_MESSAGE {
            return limit("length", bytes, "a message has at most 2^31 bytes; post several".into());
        }
        let units = wr.payload.units();
        if units > usize::from(u8::MAX) {
            return limit("units", units as u64, "a WQE has at most 255; post several work requests".into());
        }
        let (free, size) = (self.tracker.free(), self.tracker.shadow.len());
        if units > free {
            return Err(Error::SendQueueFull { qpn, needed: units, free, size });
        }

        let producer = self.tracker.producer.load(Ordering::Relaxed);
        let wqe = SendWqe {
            opcode: wr.op.opcode().code(),
            signaled: wr.signaled,
            solicited: wr.solicited,
            fence: wr.fence,
            inline: matches!(wr.payload, Payload::Inline(_)),
            num_sge: num_sge as u8,
            units: units as u8,
            inline_len: inline_len as u16,
            ..SendWqe::default()
        };
        let wqe = match wr.op {
            SendOp::Write { remote } => SendWqe { remote_va: remote.address, rkey: remote.rkey, ..wqe },
        };
        let unit_of = |wqe: SendWqe| wqe.to_bytes().map_err(|e| Error::from_spec(OPERATION, e));
        match wr.payload {
            Payload::Sges(sges) => {
                let (first, rest) = sges.split_first().map_or((None, sges), |(f, r)| (Some(f), r));
                let sge0 = first.copied().unwrap_or(Sge { address: 0, lkey: 0, bytes: 0 });
                let unit = unit_of(SendWqe {
                    sge0_addr: sge0.address,
                    sge0_lkey: sge0.lkey,
                    sge0_len: sge0.bytes,
                    ..wqe
                })?;
                for (i, four) in rest.chunks(SGES_PER_UNIT).enumerate() {
                    let mut more = [0; WQE_UNIT];
                    for (sge, at) in four.iter().zip(more.chunks_exact_mut(sge::BYTES)) {
                        let sge = sge::Sge { addr: sge.address, lkey: sge.lkey, len: sge.bytes };
                        sge.emit(at).map_err(|e| Error::from_spec(OPERATION, e))?;
                    }
                    self.write_unit(producer.wrapping_add(1 + i as u16), &more);
                }
                self.write_unit(producer, &unit);
            }
            Payload::Inline(data) => {
                let mut unit = unit_of(wqe)?;
                let (first, rest) = data.split_at(data.len().min(WQE_UNIT - INLINE_AT));
                unit[INLINE_AT..][..first.len()].copy_from_slice(first);
                for (i, part) in rest.chunks(WQE_UNIT).enumerate() {
                    let mut more = [0; WQE_UNIT];
                    more[..part.len()].copy_from_slice(part);
                    self.write_unit(producer.wrapping_add(1 + i as u16), &more);
                }
                self.write_unit(producer, &unit);
            }
        }
        for i in 1..units as u16 {
            self.tracker.slot(producer.wrapping_add(i)).units.store(0, Ordering::Relaxed);
        }
        let shadow = self.tracker.slot(producer);
        shadow.wr_id.store(wr.wr_id, Ordering::Relaxed);
        shadow.units.store(units as u8, Ordering::Relaxed);
        self.tracker.producer.store(producer.wrapping_add(units as u16), Ordering::Release);
        Ok(())
    }

    /// Tells the card how far the queue is filled, if it does not know.
    fn ring_doorbell(&mut self, device: &Device, qpn: u32) -> Result<()> {
        let producer = self.tracker.producer.load(Ordering::Relaxed);
        if producer == self.rung {
            return Ok(());
        }
        let bell = SqDoorbell { qpn, producer, ..SqDoorbell::default() };
        let bytes = bell.to_bytes().map_err(|e| Error::from_spec(OPERATION, e))?;
        let at = doorbell::address(device.options.doorbell_page, doorbell::SQ);
        device.bus.doorbell(at, u64::from_le_bytes(bytes))?;
        self.rung = producer;
        Ok(())
    }
}

/// A batch of work requests: the doorbell is rung once, by [`ring`](Self::ring) or when it is dropped.
///
/// Completions may be polled meanwhile. Posting does not allocate.
#[must_use = "dropping it rings the doorbell; post something first"]
pub struct PostSend<'a> {
    pub(crate) device: &'a Device,
    pub(crate) qpn: u32,
    pub(crate) queue: &'a mut SendQueue,
}

impl PostSend<'_> {
    /// Puts a work request into the queue. The card learns of it with the doorbell.
    ///
    /// # Errors
    /// Nothing was posted, and what was posted before stays: `SendQueueFull`, or `Attribute` for more SGEs, inline data or bytes than
    /// the card takes.
    pub fn post(&mut self, wr: &SendWr<'_>) -> Result<()> {
        self.queue.post(self.device, self.qpn, wr)
    }

    /// Units of the queue that are free: a work request with one SGE takes one.
    pub fn free_units(&self) -> usize {
        self.queue.tracker.free()
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

impl Drop for PostSend<'_> {
    fn drop(&mut self) {
        // A failure shows with the next call of the bus.
        let _ = self.queue.ring_doorbell(self.device, self.qpn);
    }
}
