// SPDX-License-Identifier: MIT OR Apache-2.0
//! The send queue: work requests in, WQEs out.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use ferrowire_spec::qp_state::MAX_RAW_FRAME;
use ferrowire_spec::queue::doorbell::{self, sq, sq::SqDoorbell};
use ferrowire_spec::queue::send_wqe::{
    self, bind::SendWqeBind, ud::SendWqeUd, SendWqe, INLINE_AT, SGES_PER_UNIT,
};
use ferrowire_spec::queue::{SendOpcode, WQE_UNIT};
use ferrowire_spec::wire::eth;
use ferrowire_spec::wire::opcode::Service;

use crate::access::AccessFlags;
use crate::ah::AddressHandle;
use crate::context::{Capabilities, Device};
use crate::error::{Error, Result};
use crate::mw::WindowType;
use crate::work::{limit, refuse, total, unit_of, Unit, WorkQueue, MAX_MESSAGE, UNIT_WORDS};

const OPERATION: &str = "post send";

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
    /// SEND: the bytes go to the peer's next receive.
    Send,
    /// SEND with immediate.
    SendImm {
        /// Value for the peer's completion.
        imm: u32,
    },
    /// SEND with invalidate.
    SendInv {
        /// Key of the peer that is invalid when its receive completes.
        key: u32,
    },
    /// RDMA WRITE.
    Write {
        /// Where to.
        remote: RemoteAddress,
    },
    /// RDMA WRITE with immediate, which takes a receive of the peer.
    WriteImm {
        /// Where to.
        remote: RemoteAddress,
        /// Value for the peer's completion.
        imm: u32,
    },
    /// RDMA READ into the elements.
    Read {
        /// Where from.
        remote: RemoteAddress,
    },
    /// Compare and swap of the 8 bytes at `remote`; what was there goes to the element, of 8 bytes.
    CompareSwap {
        /// Where, a multiple of 8.
        remote: RemoteAddress,
        /// What must be there.
        compare: u64,
        /// What is stored then.
        swap: u64,
    },
    /// Fetch and add of the 8 bytes at `remote`; what was there goes to the element, of 8 bytes.
    FetchAdd {
        /// Where, a multiple of 8.
        remote: RemoteAddress,
        /// What is added, modulo 2^64.
        add: u64,
    },
    /// Invalidates a key of this side: that of a window of type 2B which this queue pair has bound (IBTA 10.6.7.2.5). What is posted after it
    /// finds that done. Peers' READs that are being answered then end with a remote access error.
    LocalInv {
        /// The key.
        key: u32,
    },
    /// Binds a memory window; [`MemoryWindow::bind`](crate::MemoryWindow::bind) makes these (IBTA 10.6.7.2).
    BindMw {
        /// The window's key as it shall be: its index, with a tag that no peer knows.
        key: u32,
        /// Key of the region.
        lkey: u32,
        /// First address of the window, as the region names it.
        address: u64,
        /// Bytes of the window; 0 unbinds.
        bytes: u64,
        /// What the peer may do.
        access: AccessFlags,
        /// Type of the window; the card refuses a bind of one of the other type.
        kind: WindowType,
    },
}

/// Fields of a WQE that follow from the operation.
#[inline]
fn fields(op: &SendOp) -> SendWqe {
    let at = |remote: RemoteAddress| SendWqe {
        remote_va: remote.address,
        rkey: remote.rkey,
        ..SendWqe::default()
    };
    let wqe = match *op {
        SendOp::Send => SendWqe::default(),
        SendOp::SendImm { imm } => SendWqe { imm, ..SendWqe::default() },
        SendOp::SendInv { key } | SendOp::LocalInv { key } => SendWqe { imm: key, ..SendWqe::default() },
        SendOp::Write { remote } | SendOp::Read { remote } => at(remote),
        SendOp::WriteImm { remote, imm } => SendWqe { imm, ..at(remote) },
        SendOp::CompareSwap { remote, compare, swap } => SendWqe { compare_add: compare, swap, ..at(remote) },
        SendOp::FetchAdd { remote, add } => SendWqe { compare_add: add, ..at(remote) },
        SendOp::BindMw { .. } => SendWqe::default(),
    };
    SendWqe { opcode: op.opcode().code(), ..wqe }
}

impl SendOp {
    /// As WQE and CQE name it.
    #[inline]
    pub const fn opcode(&self) -> SendOpcode {
        match self {
            SendOp::Send => SendOpcode::Send,
            SendOp::SendImm { .. } => SendOpcode::SendImm,
            SendOp::SendInv { .. } => SendOpcode::SendInv,
            SendOp::Write { .. } => SendOpcode::Write,
            SendOp::WriteImm { .. } => SendOpcode::WriteImm,
            SendOp::Read { .. } => SendOpcode::Read,
            SendOp::CompareSwap { .. } => SendOpcode::CmpSwap,
            SendOp::FetchAdd { .. } => SendOpcode::FetchAdd,
            SendOp::LocalInv { .. } => SendOpcode::LocalInv,
            SendOp::BindMw { .. } => SendOpcode::BindMw,
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
    #[inline]
    fn from(sges: &'a [Sge]) -> Self {
        Payload::Sges(sges)
    }
}

impl<'a, const N: usize> From<&'a [Sge; N]> for Payload<'a> {
    #[inline]
    fn from(sges: &'a [Sge; N]) -> Self {
        Payload::Sges(sges)
    }
}

impl Payload<'_> {
    #[inline]
    fn bytes(&self) -> u64 {
        match self {
            Payload::Sges(sges) => total(sges),
            Payload::Inline(data) => data.len() as u64,
        }
    }
}

/// Where a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The way to the port.
    pub ah: &'a AddressHandle,
    /// Queue pair there.
    pub qpn: u32,
    /// That queue pair's queue key; with the highest bit set, the sender's own is sent (IBTA 10.2.5).
    pub qkey: u32,
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
    to: Option<Datagram<'a>>,
}

impl<'a> SendWr<'a> {
    /// A work request that the caller knows as `wr_id`, not signalled.
    #[inline]
    pub fn new(wr_id: u64, op: SendOp, payload: impl Into<Payload<'a>>) -> Self {
        let payload = payload.into();
        Self { wr_id, op, payload, signaled: false, solicited: false, fence: false, to: None }
    }

    /// A SEND of `payload`.
    #[inline]
    pub fn send(wr_id: u64, payload: impl Into<Payload<'a>>) -> Self {
        Self::new(wr_id, SendOp::Send, payload)
    }

    /// A SEND of `payload` with an immediate.
    #[inline]
    pub fn send_imm(wr_id: u64, payload: impl Into<Payload<'a>>, imm: u32) -> Self {
        Self::new(wr_id, SendOp::SendImm { imm }, payload)
    }

    /// A SEND of `payload` that invalidates a key of the peer.
    #[inline]
    pub fn send_inv(wr_id: u64, payload: impl Into<Payload<'a>>, key: u32) -> Self {
        Self::new(wr_id, SendOp::SendInv { key }, payload)
    }

    /// An RDMA WRITE of `payload` to `remote` with an immediate.
    #[inline]
    pub fn write_imm(wr_id: u64, payload: impl Into<Payload<'a>>, remote: RemoteAddress, imm: u32) -> Self {
        Self::new(wr_id, SendOp::WriteImm { remote, imm }, payload)
    }

    /// An RDMA READ from `remote` into `sges`.
    #[inline]
    pub fn read(wr_id: u64, sges: &'a [Sge], remote: RemoteAddress) -> Self {
        Self::new(wr_id, SendOp::Read { remote }, sges)
    }

    /// A compare and swap at `remote`; `sges` are 8 bytes for what was there.
    #[inline]
    pub fn compare_swap(wr_id: u64, sges: &'a [Sge], remote: RemoteAddress, compare: u64, swap: u64) -> Self {
        Self::new(wr_id, SendOp::CompareSwap { remote, compare, swap }, sges)
    }

    /// A fetch and add at `remote`; `sges` are 8 bytes for what was there.
    #[inline]
    pub fn fetch_add(wr_id: u64, sges: &'a [Sge], remote: RemoteAddress, add: u64) -> Self {
        Self::new(wr_id, SendOp::FetchAdd { remote, add }, sges)
    }

    /// An invalidation of a key of this side.
    #[inline]
    pub fn local_inv(wr_id: u64, key: u32) -> Self {
        Self::local(wr_id, SendOp::LocalInv { key })
    }

    /// One without bytes.
    #[inline]
    pub(crate) fn local(wr_id: u64, op: SendOp) -> Self {
        Self::new(wr_id, op, Payload::Sges(&[]))
    }

    /// An RDMA WRITE of `payload` to `remote`.
    #[inline]
    pub fn write(wr_id: u64, payload: impl Into<Payload<'a>>, remote: RemoteAddress) -> Self {
        Self::new(wr_id, SendOp::Write { remote }, payload)
    }

    /// Complete it also when it succeeds. One that is not signalled frees its place with the next completion behind it.
    #[inline]
    pub fn signaled(self) -> Self {
        Self { signaled: true, ..self }
    }

    /// Set the solicited event bit of its last packet.
    #[inline]
    pub fn solicited(self) -> Self {
        Self { solicited: true, ..self }
    }

    /// Send it as a datagram to queue pair `qpn` at the port that `ah` leads to, with its queue key `qkey`; with the highest bit
    /// of that set, the sender's own is sent (IBTA 10.2.5). Work requests of UD need it, and no others may have it.
    #[inline]
    pub fn to(self, ah: &'a AddressHandle, qpn: u32, qkey: u32) -> Self {
        Self { to: Some(Datagram { ah, qpn, qkey }), ..self }
    }

    /// Begin only when all earlier READs and atomics are answered (IBTA 10.8.3.3).
    #[inline]
    pub fn fenced(self) -> Self {
        Self { fence: true, ..self }
    }
}

/// How much of a WQE is elements, and how much inline data: `num_sge`, `inline_len`, and whether it is inline.
#[inline]
fn sizes(payload: Payload<'_>) -> (u8, u16, bool) {
    match payload {
        Payload::Sges(sges) => (sges.len() as u8, 0, false),
        Payload::Inline(data) => (0, data.len() as u16, true),
    }
}

/// The first unit of the WQE of a connected queue pair, but for inline data, and not of a bind. `wqe` has what follows from the operation.
#[inline(always)]
fn connected_unit(wr: &SendWr<'_>, wqe: SendWqe, sge: Sge) -> Result<Unit> {
    let (num_sge, inline_len, inline) = sizes(wr.payload);
    let wqe = SendWqe {
        signaled: wr.signaled,
        solicited: wr.solicited,
        fence: wr.fence,
        inline,
        num_sge,
        inline_len,
        sge0_addr: sge.address,
        sge0_lkey: sge.lkey,
        sge0_len: sge.bytes,
        ..wqe
    };
    wqe.to_words().map_err(|e| Error::from_spec(OPERATION, e))
}

/// The first unit of any WQE, but for inline data.
fn first_unit(wr: &SendWr<'_>, sge: Sge) -> Result<Unit> {
    let (num_sge, inline_len, inline) = sizes(wr.payload);
    let words = match (&wr.op, wr.to) {
        (&SendOp::BindMw { key, lkey, address, bytes, access, kind }, _) => SendWqeBind {
            signaled: wr.signaled,
            solicited: wr.solicited,
            fence: wr.fence,
            mw_key: key,
            va: address,
            mr_key: lkey,
            access: access.bits(),
            type_1: kind == WindowType::Type1,
            length: bytes,
            ..SendWqeBind::default()
        }
        .to_words(),
        (_, None) => return connected_unit(wr, fields(&wr.op), sge),
        (_, Some(to)) => {
            let wqe = fields(&wr.op);
            SendWqeUd {
                opcode: wqe.opcode,
                signaled: wr.signaled,
                solicited: wr.solicited,
                fence: wr.fence,
                inline,
                num_sge,
                imm: wqe.imm,
                dest_qpn: to.qpn,
                ah: to.ah.number(),
                qkey: to.qkey,
                inline_len,
                sge0_addr: sge.address,
                sge0_lkey: sge.lkey,
                sge0_len: sge.bytes,
                ..SendWqeUd::default()
            }
            .to_words()
        }
    };
    words.map_err(|e| Error::from_spec(OPERATION, e))
}

/// No element: what a WQE without elements, or with inline data, has in place of its first one.
const NO_SGE: Sge = Sge { address: 0, lkey: 0, bytes: 0 };

/// First word of inline data.
const INLINE_WORD: usize = INLINE_AT / 8;

/// Inline data as words of a unit; what is not in use is zero.
#[inline]
fn inline_words<const WORDS: usize>(data: &[u8]) -> [u64; WORDS] {
    let mut bytes = [[0; 8]; WORDS];
    let all = bytes.as_flattened_mut();
    let there = data.len().min(all.len());
    all[..there].copy_from_slice(&data[..there]);
    bytes.map(u64::from_le_bytes)
}

/// A place of the doorbell page, for the WQEs that one queue pair pushes.
pub(crate) struct Place {
    device: Arc<Device>,
    number: u32,
    /// Where it is in BAR 0.
    at: u32,
    /// What doorbells say of it.
    word: u64,
}

impl Place {
    /// One that nobody has, if there is one.
    pub(crate) fn take(device: &Arc<Device>) -> Option<Self> {
        let number = device.tables(|t| t.places.take())?;
        let at = doorbell::address(device.options.doorbell_page, doorbell::PUSH + number * WQE_UNIT as u32);
        let word = sq::PUSHED.to_word(1) | sq::PUSH_SLOT.to_word(number.into());
        Some(Self { device: Arc::clone(device), number, at, word })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.device.tables(|t| t.places.give_back(self.number));
    }
}

/// The poster's side of a send queue.
pub(crate) struct SendQueue {
    pub(crate) queue: WorkQueue,
    qpn: u32,
    service: Service,
    /// It is connected, and takes an element.
    plain: bool,
    /// Bytes of inline data that it takes in the first unit.
    short_inline: usize,
    /// What is the same in all doorbells.
    word: u64,
    /// It pushes WQEs that are posted alone.
    place: Option<Place>,
}

impl SendQueue {
    /// Of a queue pair of a card.
    pub(crate) fn new(
        device: &Device,
        (qpn, service): (u32, Service),
        queue: WorkQueue,
        place: Option<Place>,
    ) -> Result<Self> {
        let [word] = SqDoorbell { qpn, ..SqDoorbell::default() }
            .to_words()
            .map_err(|e| Error::from_spec(OPERATION, e))?;
        let can = &device.capabilities;
        let plain = matches!(service, Service::Rc | Service::Uc) && can.max_send_sge > 0;
        let short_inline = usize::from(can.max_inline).min(WQE_UNIT - INLINE_AT);
        Ok(Self { queue, qpn, service, plain, short_inline, word, place })
    }

    /// Elements, and bytes of inline data, that queue and card take.
    pub(crate) fn sizes(&self, can: &Capabilities) -> (u32, u32) {
        let (sges, inline) = (Self::slot_sges(&self.queue), Self::slot_inline(&self.queue));
        (sges.min(can.max_send_sge.into()) as u32, inline.min(can.max_inline.into()) as u32)
    }

    /// Elements for which a slot of the queue has room.
    fn slot_sges(queue: &WorkQueue) -> usize {
        (1 + SGES_PER_UNIT * (queue.units() - 1)).min(send_wqe::MAX_SGES)
    }

    /// Inline data for which it has.
    fn slot_inline(queue: &WorkQueue) -> usize {
        (queue.units() * WQE_UNIT - INLINE_AT).min(send_wqe::MAX_INLINE)
    }

    /// The one unit of a work request that needs no other look: a message of a connected queue pair, of up to one element or up to as many bytes inline,
    /// as any card takes it. `None` for all others, and for those that are wrong.
    #[inline(always)]
    fn plain_unit(&self, wr: &SendWr<'_>) -> Option<Unit> {
        let (answers, wqe) = match wr.op {
            SendOp::Send => (false, fields(&SendOp::Send)),
            SendOp::SendImm { imm } => (false, fields(&SendOp::SendImm { imm })),
            SendOp::Write { remote } => (false, fields(&SendOp::Write { remote })),
            SendOp::WriteImm { remote, imm } => (false, fields(&SendOp::WriteImm { remote, imm })),
            SendOp::Read { remote } => (true, fields(&SendOp::Read { remote })),
            _ => return None,
        };
        if !self.plain || wr.to.is_some() {
            return None;
        }
        match wr.payload {
            Payload::Sges([]) => connected_unit(wr, wqe, NO_SGE).ok(),
            Payload::Sges([sge]) if u64::from(sge.bytes) <= MAX_MESSAGE => connected_unit(wr, wqe, *sge).ok(),
            Payload::Inline(data) if data.len() <= self.short_inline && !answers => {
                let mut unit = connected_unit(wr, wqe, NO_SGE).ok()?;
                unit[INLINE_WORD..].copy_from_slice(&inline_words::<{ UNIT_WORDS - INLINE_WORD }>(data));
                Some(unit)
            }
            _ => None,
        }
    }

    /// What is wrong with a work request by itself, for this card and this queue.
    fn check(&self, device: &Device, wr: &SendWr<'_>) -> Result<()> {
        let refuse = |attribute, value: u64, fix: &str| Err(refuse(OPERATION, attribute, value, fix.into()));
        match wr.payload {
            Payload::Sges(sges) => {
                let card = device.capabilities.max_send_sge.into();
                let asked = (Self::slot_sges(&self.queue), "max_send_sge");
                limit(OPERATION, "num_sge", sges.len(), asked, card, "post several work requests")?;
            }
            Payload::Inline(data) => {
                let card = device.capabilities.max_inline.into();
                let asked = (Self::slot_inline(&self.queue), "max_inline");
                limit(OPERATION, "inline_len", data.len(), asked, card, "send from registered memory")?;
            }
        }
        let bytes = wr.payload.bytes();
        if bytes > MAX_MESSAGE {
            return refuse("length", bytes, "a message has at most 2^31 bytes; post several");
        }
        match (self.service == Service::Ud, wr.to) {
            (true, None) => {
                return refuse("to", 0, "a datagram has an address of its own; give it with `to`");
            }
            (false, Some(to)) => {
                let fix = "the queue pair is connected to its peer; leave `to` out";
                return refuse("to", to.ah.number().into(), fix);
            }
            (true, Some(to)) if !std::ptr::eq(&*to.ah.pd().device, device) => {
                return Err(Error::Foreign { operation: OPERATION, what: "ah", of: "card" });
            }
            _ => {}
        }
        if self.service == Service::Raw && !(eth::BYTES as u64..=MAX_RAW_FRAME.into()).contains(&bytes) {
            return refuse("length", bytes, "a frame has 14 to 4096 bytes, its Ethernet header among them");
        }
        let inline = matches!(wr.payload, Payload::Inline(_));
        let (can, opcode) = (&device.capabilities, || u64::from(wr.op.opcode().code()));
        match wr.op {
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } if !can.atomics => {
                refuse("opcode", opcode(), "the card has no atomics; send a message to the peer instead")
            }
            SendOp::SendInv { .. } | SendOp::LocalInv { .. } | SendOp::BindMw { .. }
                if !can.memory_windows =>
            {
                refuse(
                    "opcode",
                    opcode(),
                    "the card has no memory windows, hence no invalidations; leave them out",
                )
            }
            SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } if inline => {
                refuse("inline_len", bytes, "the answer needs registered memory; give elements")
            }
            SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } if bytes != 8 => {
                refuse("length", bytes, "an atomic answers 8 bytes; give elements for them")
            }
            SendOp::LocalInv { .. } | SendOp::BindMw { .. } if wr.payload != Payload::Sges(&[]) => {
                refuse("length", bytes, "binds and invalidations carry nothing; give no payload")
            }
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn post(&mut self, device: &Device, wr: &SendWr<'_>) -> Result<()> {
        if let Some(unit) = self.plain_unit(wr) {
            if self.queue.has_room() {
                self.queue.write(0, &unit);
                self.queue.posted(wr.wr_id);
                return Ok(());
            }
        }
        // By value: the plain ones need no place in memory then.
        self.post_any(device, *wr)
    }

    /// Posts a work request of any kind, or says what is wrong with it.
    #[inline(never)]
    fn post_any(&mut self, device: &Device, wr: SendWr<'_>) -> Result<()> {
        let wr = &wr;
        self.check(device, wr)?;
        if !self.queue.has_room() {
            return Err(Error::SendQueueFull { qpn: self.qpn, size: self.queue.size() });
        }
        let queue = &self.queue;
        match wr.payload {
            Payload::Sges([]) => queue.write(0, &first_unit(wr, NO_SGE)?),
            Payload::Sges([first, rest @ ..]) => {
                let unit = first_unit(wr, *first)?;
                for (i, four) in rest.chunks(SGES_PER_UNIT).enumerate() {
                    queue.write(1 + i, &unit_of(OPERATION, four)?);
                }
                queue.write(0, &unit);
            }
            Payload::Inline(data) => {
                let mut unit = first_unit(wr, NO_SGE)?;
                let (first, rest) = data.split_at(data.len().min(WQE_UNIT - INLINE_AT));
                unit[INLINE_WORD..].copy_from_slice(&inline_words::<{ UNIT_WORDS - INLINE_WORD }>(first));
                for (i, part) in rest.chunks(WQE_UNIT).enumerate() {
                    queue.write(1 + i, &inline_words(part));
                }
                queue.write(0, &unit);
            }
        }
        self.queue.posted(wr.wr_id);
        Ok(())
    }

    #[inline]
    fn ring_doorbell(&mut self) -> Result<()> {
        if self.place.is_some() {
            return self.push();
        }
        let word = self.word;
        self.queue.ring_doorbell(|producer| word | sq::PRODUCER.to_word(producer.into()))
    }

    /// Rings, and pushes a WQE that is alone.
    #[inline(never)]
    fn push(&mut self) -> Result<()> {
        let bare = self.word;
        let word = |producer: u16| bare | sq::PRODUCER.to_word(producer.into());
        match (&self.place, self.queue.only_new()) {
            (Some(place), Some(unit)) => {
                let pushed = place.word;
                self.queue.push(place.at, &unit, |producer| word(producer) | pushed)
            }
            _ => self.queue.ring_doorbell(word),
        }
    }
}

/// A batch of work requests: the doorbell is rung once, by [`ring`](Self::ring) or when it is dropped.
///
/// Completions may be polled meanwhile. Posting does not allocate.
#[must_use = "dropping it rings the doorbell; post something first"]
pub struct PostSend<'a> {
    pub(crate) device: &'a Device,
    pub(crate) queue: &'a mut SendQueue,
}

impl PostSend<'_> {
    /// Puts a work request into the queue. The card learns of it with the doorbell.
    ///
    /// # Errors
    /// Nothing was posted, and what was posted before stays: `SendQueueFull`, or `Attribute` for more SGEs, inline data or bytes than
    /// card or queue take, and for operations that the card does not have.
    #[inline(always)]
    pub fn post(&mut self, wr: &SendWr<'_>) -> Result<()> {
        self.queue.post(self.device, wr)
    }

    /// Work requests that the queue has room for.
    pub fn room(&self) -> usize {
        self.queue.queue.room()
    }

    /// Rings the doorbell, if something was posted, and says whether that worked.
    ///
    /// # Errors
    /// `Bus` when the bus fails. What was posted is told to the card with the next doorbell.
    #[inline]
    pub fn ring(self) -> Result<()> {
        // It does not ring once more when it is dropped.
        ManuallyDrop::new(self).queue.ring_doorbell()
    }

    /// Ends the batch without a doorbell: what was posted is a part of the next batch.
    pub fn keep(self) {
        std::mem::forget(self);
    }

    /// Takes back all that the card has not been told of, also what [`keep`](Self::keep) left.
    pub fn abandon(self) {
        self.queue.queue.take_back();
    }
}

impl Drop for PostSend<'_> {
    fn drop(&mut self) {
        // A failure shows with the next call of the bus.
        let _ = self.queue.ring_doorbell();
    }
}
