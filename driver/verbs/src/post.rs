// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting of work requests: `ibv_post_send`, `ibv_post_recv`, `ibv_post_srq_recv`.
//!
//! A list is posted up to the first work request that is refused, which `bad_wr` then names; the card learns of those before it by one doorbell.

use core::ffi::{c_int, c_uint};

use ferrowire::spec::queue::{recv_wqe, send_wqe};
use ferrowire::{Payload, PostRecv, PostSend, RecvWr, RemoteAddress, SendOp, SendWr, Service, Sge};
use rustix::io::Errno;

use crate::abi::*;
use crate::ah::Ah;
use crate::failure::{report, Failure, Result};
use crate::mw;
use crate::null::Null;
use crate::qp::{Inner, Qp, Receiver};

/// Elements of a work request, at most.
pub const SGES: usize =
    if send_wqe::MAX_SGES > recv_wqe::MAX_SGES { send_wqe::MAX_SGES } else { recv_wqe::MAX_SGES };
/// Bytes of inline data, at most.
pub const INLINE: usize = send_wqe::MAX_INLINE;

/// An element of nothing.
pub const EMPTY: Sge = Sge { address: 0, lkey: 0, bytes: 0 };

/// The driver's form of an element.
pub fn element(sge: &ibv_sge) -> Sge {
    Sge { address: sge.addr, lkey: sge.lkey, bytes: sge.length }
}

/// Elements of a list in the driver's form.
///
/// # Safety
/// The list has `count` elements.
#[inline]
unsafe fn elements(list: *const ibv_sge, count: c_int, into: &mut [Sge; SGES]) -> Result<&mut [Sge]> {
    let wanted = usize::try_from(count).ok().and_then(|count| into.get_mut(..count));
    let into = wanted.ok_or(Failure::invalid("num_sge is more than a work request has"))?;
    for (i, to) in into.iter_mut().enumerate() {
        // SAFETY: as promised.
        *to = element(unsafe { &*list.add(i) });
    }
    Ok(into)
}

/// Copies inline data.
pub struct Inline {
    bytes: [u8; INLINE],
    length: usize,
}

impl Inline {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { bytes: [0; INLINE], length: 0 }
    }

    /// Forgets what was copied.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Copies `length` more bytes.
    ///
    /// # Safety
    /// They are there.
    pub unsafe fn add(&mut self, from: *const u8, length: usize) -> Result<()> {
        let end = self.length.checked_add(length).filter(|end| *end <= INLINE);
        let end = end.ok_or(Failure::invalid("inline data is longer than max_inline_data"))?;
        if length > 0 {
            // SAFETY: as promised; there is room.
            unsafe { core::ptr::copy_nonoverlapping(from, self.bytes.as_mut_ptr().add(self.length), length) };
        }
        self.length = end;
        Ok(())
    }

    /// What was copied.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Room for what a work request has; it is kept from one to the next.
pub struct Scratch {
    /// Elements.
    pub sges: [Sge; SGES],
    /// Inline data.
    pub inline: Inline,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { sges: [EMPTY; SGES], inline: Inline::new() }
    }
}

/// The inline data of a work request.
///
/// # Safety
/// The list has `num_sge` elements, whose bytes are there.
unsafe fn inline_data<'a>(wr: &ibv_send_wr, inline: &'a mut Inline) -> Result<&'a [u8]> {
    inline.clear();
    let count = usize::try_from(wr.num_sge).map_err(|_| Failure::invalid("num_sge is negative"))?;
    for i in 0..count {
        // SAFETY: as promised; an element's address is that of its bytes.
        unsafe {
            let sge = *wr.sg_list.add(i);
            inline.add(core::ptr::with_exposed_provenance(sge.addr as usize), sge.length as usize)?;
        }
    }
    Ok(inline.bytes())
}

/// The operation of a send work request.
///
/// # Safety
/// The members that the opcode uses are valid.
unsafe fn operation(qp: &Qp, wr: &ibv_send_wr) -> Result<SendOp> {
    // SAFETY: as promised, here and below: the opcode says which member of each union is set.
    let rdma = || unsafe {
        let rdma = wr.wr.rdma;
        RemoteAddress { address: rdma.remote_addr, rkey: rdma.rkey }
    };
    // SAFETY: as above.
    let imm = || u32::from_be(unsafe { wr.imm.imm_data });
    // SAFETY: as above.
    let key = || unsafe { wr.imm.invalidate_rkey };
    Ok(match wr.opcode {
        IBV_WR_RDMA_WRITE => SendOp::Write { remote: rdma() },
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm { remote: rdma(), imm: imm() },
        IBV_WR_SEND => SendOp::Send,
        IBV_WR_SEND_WITH_IMM => SendOp::SendImm { imm: imm() },
        IBV_WR_RDMA_READ => SendOp::Read { remote: rdma() },
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
            // SAFETY: as above.
            let atomic = unsafe { wr.wr.atomic };
            let remote = RemoteAddress { address: atomic.remote_addr, rkey: atomic.rkey };
            match wr.opcode {
                IBV_WR_ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd { remote, add: atomic.compare_add },
                _ => SendOp::CompareSwap { remote, compare: atomic.compare_add, swap: atomic.swap },
            }
        }
        IBV_WR_LOCAL_INV => SendOp::LocalInv { key: key() },
        IBV_WR_SEND_WITH_INV => SendOp::SendInv { key: key() },
        IBV_WR_BIND_MW => {
            // SAFETY: as above.
            let bind = unsafe { wr.op.bind_mw };
            // SAFETY: as above.
            unsafe { mw::bind_operation(qp, bind.mw, bind.rkey, &bind.bind_info)? }
        }
        other => {
            return Err(Failure::text(Errno::OPNOTSUPP, format!("opcode {other}: the card does not have it")))
        }
    })
}

/// Whether the card writes to the elements.
pub fn writes(op: &SendOp) -> bool {
    matches!(op, SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. })
}

/// A work request with its flags.
#[inline]
pub fn with_flags(wr: SendWr<'_>, flags: c_uint) -> Result<SendWr<'_>> {
    if flags & !FLAGS != 0 {
        return Err(Failure::text(
            Errno::INVAL,
            format!("send_flags {flags:#x}: the card has no checksums to offer"),
        ));
    }
    Ok(flagged(wr, flags))
}

/// Flags that the card has.
const FLAGS: c_uint = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

/// What became of a work request that was tried the quick way.
#[derive(PartialEq)]
enum Quick {
    Posted,
    /// It is another one.
    Other,
    /// The error is where the caller wanted it.
    Refused,
}

/// Posts a work request of a connected queue pair, if it is a message of one element or of one piece of inline data. `flags` are its own and those of the
/// queue pair. The compiler knows the operation in each arm, and leaves out what the others need.
///
/// # Safety
/// As of [`send`].
#[inline(always)]
unsafe fn quick(
    batch: &mut PostSend<'_>,
    wr: &ibv_send_wr,
    flags: c_uint,
    error: &mut Option<ferrowire::Error>,
) -> Quick {
    const KNOWN: c_uint = FLAGS & !IBV_SEND_INLINE;
    if wr.num_sge != 1 || flags & !KNOWN != 0 {
        return match flags & IBV_SEND_INLINE {
            0 => Quick::Other,
            // SAFETY: as promised.
            _ => unsafe { quick_inline(batch, wr, flags, error) },
        };
    }
    let post = |batch: &mut PostSend<'_>, error: &mut Option<ferrowire::Error>, op, payload| {
        post(batch, error, (wr.wr_id, flags), op, payload)
    };
    // Read in each arm: binds and invalidations have no elements, whatever the members say.
    // SAFETY: as promised.
    let sges = || [element(unsafe { &*wr.sg_list })];
    // SAFETY: as promised: the opcode says which members are set.
    let remote = || unsafe { RemoteAddress { address: wr.wr.rdma.remote_addr, rkey: wr.wr.rdma.rkey } };
    // SAFETY: as above.
    let imm = || u32::from_be(unsafe { wr.imm.imm_data });
    match wr.opcode {
        IBV_WR_RDMA_WRITE => post(batch, error, SendOp::Write { remote: remote() }, Payload::Sges(&sges())),
        IBV_WR_SEND => post(batch, error, SendOp::Send, Payload::Sges(&sges())),
        IBV_WR_RDMA_READ => post(batch, error, SendOp::Read { remote: remote() }, Payload::Sges(&sges())),
        IBV_WR_SEND_WITH_IMM => post(batch, error, SendOp::SendImm { imm: imm() }, Payload::Sges(&sges())),
        IBV_WR_RDMA_WRITE_WITH_IMM => {
            post(batch, error, SendOp::WriteImm { remote: remote(), imm: imm() }, Payload::Sges(&sges()))
        }
        _ => Quick::Other,
    }
}

/// The same with inline data.
///
/// # Safety
/// As of [`send`].
#[inline(never)]
unsafe fn quick_inline(
    batch: &mut PostSend<'_>,
    wr: &ibv_send_wr,
    flags: c_uint,
    error: &mut Option<ferrowire::Error>,
) -> Quick {
    if wr.num_sge != 1 || flags & !FLAGS != 0 || ![IBV_WR_RDMA_WRITE, IBV_WR_SEND].contains(&wr.opcode) {
        return Quick::Other;
    }
    // SAFETY: as promised.
    let sge = unsafe { &*wr.sg_list };
    if !(1..=INLINE).contains(&(sge.length as usize)) {
        return Quick::Other;
    }
    let from = core::ptr::with_exposed_provenance(sge.addr as usize);
    // SAFETY: as promised; an element's address is that of its bytes. They go into the queue from where they are.
    let payload = Payload::Inline(unsafe { core::slice::from_raw_parts(from, sge.length as usize) });
    match wr.opcode {
        IBV_WR_RDMA_WRITE => {
            // SAFETY: as promised: the opcode says which members are set.
            let remote = unsafe { RemoteAddress { address: wr.wr.rdma.remote_addr, rkey: wr.wr.rdma.rkey } };
            post(batch, error, (wr.wr_id, flags), SendOp::Write { remote }, payload)
        }
        IBV_WR_SEND => post(batch, error, (wr.wr_id, flags), SendOp::Send, payload),
        _ => Quick::Other,
    }
}

/// Posts a work request, all of whose flags the card has.
#[inline(always)]
fn post(
    batch: &mut PostSend<'_>,
    error: &mut Option<ferrowire::Error>,
    (wr_id, flags): (u64, c_uint),
    op: SendOp,
    payload: Payload<'_>,
) -> Quick {
    match batch.post(&flagged(SendWr::new(wr_id, op, payload), flags)) {
        Ok(()) => Quick::Posted,
        Err(why) => {
            *error = Some(why);
            Quick::Refused
        }
    }
}

/// A work request with flags that the card has.
#[inline(always)]
fn flagged(mut wr: SendWr<'_>, flags: c_uint) -> SendWr<'_> {
    if flags & IBV_SEND_SIGNALED != 0 {
        wr = wr.signaled();
    }
    if flags & IBV_SEND_SOLICITED != 0 {
        wr = wr.solicited();
    }
    if flags & IBV_SEND_FENCE != 0 {
        wr = wr.fenced();
    }
    wr
}

/// Posts one work request.
///
/// # Safety
/// The members that the opcode uses are valid.
#[inline(never)]
unsafe fn send(
    qp: &Qp,
    service: Service,
    batch: &mut PostSend<'_>,
    scratch: &mut Scratch,
    wr: &ibv_send_wr,
    flags: c_uint,
) -> Result<()> {
    // SAFETY: as promised.
    let op = unsafe { operation(qp, wr)? };
    let payload = if matches!(op, SendOp::LocalInv { .. } | SendOp::BindMw { .. }) {
        // They have no bytes, whatever the members say, which may be anything.
        Payload::Sges(&[])
    } else if flags & IBV_SEND_INLINE != 0 {
        // SAFETY: as promised.
        Payload::Inline(unsafe { inline_data(wr, &mut scratch.inline)? })
    } else {
        // SAFETY: as promised.
        let sges = unsafe { elements(wr.sg_list, wr.num_sge, &mut scratch.sges)? };
        let null = qp.null();
        if null.is_used() {
            null.translate(sges, writes(&op))?;
        }
        Payload::Sges(sges)
    };
    let mut request = with_flags(SendWr::new(wr.wr_id, op, payload), flags)?;
    if service == Service::Ud {
        // SAFETY: as promised: datagrams have this member.
        let ud = unsafe { wr.wr.ud };
        if ud.ah.is_null() {
            return Err(Failure::invalid("a datagram needs an address handle"));
        }
        // SAFETY: as promised.
        request = request.to(unsafe { &Ah::of(ud.ah).handle }, ud.remote_qpn, ud.remote_qkey);
    }
    Ok(batch.post(&request)?)
}

/// The queue pair cannot take sends.
pub const NOT_READY: Failure = Failure::invalid("the queue pair is not in RTS, and was not since RESET");
/// Names the work request that is refused, and why.
///
/// # Safety
/// `bad_wr` is valid.
#[cold]
pub unsafe fn refuse<T>(call: &str, wr: *mut T, bad_wr: *mut *mut T, failure: Failure) -> c_int {
    // SAFETY: as promised.
    unsafe { *bad_wr = wr };
    report(call, &failure).raw_os_error()
}

/// Posts a list of sends.
///
/// # Safety
/// The queue pair lives, the list and what it names are valid.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    const CALL: &str = "ibv_post_send";
    // SAFETY: as promised.
    let qp = unsafe { Qp::of(qp) };
    // Before the lock, which a thread of the parent may have held when this process was forked.
    if qp.card().is_dead() {
        // SAFETY: as promised.
        return unsafe { refuse(CALL, wr, bad_wr, qp.card().gone()) };
    }
    let mut inner = qp.lock();
    if !inner.takes_sends() {
        // SAFETY: as promised.
        return unsafe { refuse(CALL, wr, bad_wr, NOT_READY) };
    }
    let Inner { queue, scratch, forced, .. } = &mut *inner;
    let forced = *forced;
    let service = queue.service();
    let simple = service != Service::Ud && !qp.null().is_used();
    let mut batch = queue.start_post_send();
    let mut error = None;
    let mut next = wr;
    while !next.is_null() {
        // SAFETY: as promised.
        let request = unsafe { &*next };
        let flags = request.send_flags | forced;
        let quick = match simple {
            // SAFETY: as promised.
            true => unsafe { quick(&mut batch, request, flags, &mut error) },
            false => Quick::Other,
        };
        if quick == Quick::Posted {
            next = request.next;
            continue;
        }
        let result = match error.take() {
            Some(error) => Err(error.into()),
            // SAFETY: as promised.
            None => unsafe { send(qp, service, &mut batch, scratch, request, flags) },
        };
        if let Err(failure) = result {
            // SAFETY: as promised.
            let errno = unsafe { refuse(CALL, next, bad_wr, failure) };
            // Those before it are posted.
            if let Err(error) = batch.ring() {
                report(CALL, &error.into());
            }
            return errno;
        }
        next = request.next;
    }
    match batch.ring() {
        Ok(()) => 0,
        // SAFETY: as promised.
        Err(error) => unsafe { refuse(CALL, wr, bad_wr, error.into()) },
    }
}

/// Posts a list of receives.
///
/// # Safety
/// The list and what it names are valid.
#[inline(always)]
pub unsafe fn receives(
    call: &str,
    null: &Null,
    mut batch: PostRecv<'_>,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    let simple = !null.is_used();
    let mut next = wr;
    while !next.is_null() {
        // SAFETY: as promised.
        let request = unsafe { &*next };
        let result = if simple && request.num_sge == 1 {
            // SAFETY: as promised.
            let sges = [element(unsafe { &*request.sg_list })];
            batch.post(&RecvWr::new(request.wr_id, &sges)).map_err(Failure::from)
        } else {
            // SAFETY: as promised.
            unsafe { receive(null, &mut batch, request) }
        };
        if let Err(failure) = result {
            // SAFETY: as promised.
            let errno = unsafe { refuse(call, next, bad_wr, failure) };
            if let Err(error) = batch.ring() {
                report(call, &error.into());
            }
            return errno;
        }
        next = request.next;
    }
    match batch.ring() {
        Ok(()) => 0,
        // SAFETY: as promised.
        Err(error) => unsafe { refuse(call, wr, bad_wr, error.into()) },
    }
}

/// Posts one receive of any kind.
///
/// # Safety
/// What it names is valid.
#[inline(never)]
unsafe fn receive(null: &Null, batch: &mut PostRecv<'_>, wr: &ibv_recv_wr) -> Result<()> {
    let mut sges = [EMPTY; SGES];
    // SAFETY: as promised.
    let sges = unsafe { elements(wr.sg_list, wr.num_sge, &mut sges)? };
    null.translate(sges, true)?;
    Ok(batch.post(&RecvWr::new(wr.wr_id, sges))?)
}

/// Posts a list of receives to a queue pair.
///
/// # Safety
/// The queue pair lives, the list and what it names are valid.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    const CALL: &str = "ibv_post_recv";
    // SAFETY: as promised.
    let qp = unsafe { Qp::of(qp) };
    if qp.card().is_dead() {
        // SAFETY: as promised.
        return unsafe { refuse(CALL, wr, bad_wr, qp.card().gone()) };
    }
    let mut receiver = qp.receiver();
    let failure = match &mut *receiver {
        Receiver { queue: Some(queue), ready: true } => {
            // SAFETY: as promised.
            return unsafe { receives(CALL, qp.null(), queue.start_post_recv(), wr, bad_wr) };
        }
        Receiver { queue: None, .. } => {
            Failure::invalid("its receives come from a shared receive queue; post them there")
        }
        Receiver { ready: false, .. } => {
            Failure::invalid("the queue pair is in RESET; take it to INIT first")
        }
    };
    // SAFETY: as promised.
    unsafe { refuse(CALL, wr, bad_wr, failure) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_data_is_copied_piece_by_piece_up_to_its_limit() {
        let mut inline = Inline::new();
        let data: Vec<u8> = (0..=255).collect();
        // SAFETY: the bytes are there.
        unsafe {
            inline.add(data.as_ptr(), 100).unwrap();
            inline.add(core::ptr::null(), 0).unwrap();
            inline.add(data.as_ptr().add(100), INLINE - 100).unwrap();
            assert_eq!(inline.bytes(), data);
            assert_eq!(inline.add(data.as_ptr(), 1).unwrap_err().errno, Errno::INVAL);
            assert_eq!(inline.add(data.as_ptr(), usize::MAX).unwrap_err().errno, Errno::INVAL);
        }
        inline.clear();
        assert!(inline.bytes().is_empty());
    }

    #[test]
    fn flags_that_the_card_does_not_have_are_refused() {
        let wr = || SendWr::send(1, Payload::Sges(&[]));
        let all = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
        assert_eq!(with_flags(wr(), all).unwrap(), wr().signaled().solicited().fenced());
        assert_eq!(with_flags(wr(), IBV_SEND_IP_CSUM).unwrap_err().errno, Errno::INVAL);
    }
}
