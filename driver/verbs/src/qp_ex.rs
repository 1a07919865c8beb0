// SPDX-License-Identifier: MIT OR Apache-2.0
//! The extended post interface: `ibv_wr_start`, one call for each work request and its parts, `ibv_wr_complete` (`ibv_wr_post(3)`).
//!
//! A work request of a connected queue pair goes into the queue when its data are set. One without data, or of another queue pair, goes there when the next
//! one begins, or with `ibv_wr_complete`, which rings the doorbell. What is wrong is kept until then: the call returns the first error, and nothing of the
//! series is posted.

use core::ffi::{c_int, c_void};

use ferrowire::{Payload, QueuePair, RemoteAddress, SendOp, SendWr, Service, Sge};
use rustix::io::Errno;

use crate::abi::*;
use crate::ah::Ah;
use crate::failure::{report, Failure, Result};
use crate::mw;
use crate::post::{element, with_flags, writes, Scratch, INLINE, NOT_READY, SGES};
use crate::qp::{Inner, Qp};

const CALL: &str = "ibv_wr_complete";

/// A work request that is being put together.
struct Work {
    wr_id: u64,
    flags: u32,
    op: SendOp,
    /// Address handle, queue pair and queue key of a datagram.
    to: Option<(*mut ibv_ah, u32, u32)>,
    /// Data that wait for the address.
    data: Data,
}

/// Data of a work request, in the builder.
#[derive(Clone, Copy)]
enum Data {
    Sges(usize),
    Inline,
}

// SAFETY: the pointer is C's; the handle lives until the work request is posted.
unsafe impl Send for Work {}

/// A series of work requests.
#[derive(Default)]
pub struct Builder {
    /// The one that was begun and is not in the queue.
    work: Option<Work>,
    failure: Option<Failure>,
}

impl Builder {
    /// Forgets what was begun.
    pub fn clear(&mut self) {
        self.work = None;
        self.failure = None;
    }

    #[cold]
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}

/// Puts a work request into the queue, without a doorbell.
#[inline]
fn post(queue: &mut QueuePair, work: &Work, payload: Payload<'_>) -> Result<()> {
    // Inline data is what `ibv_wr_set_inline_data` sets, whatever the flag says.
    let request = with_flags(SendWr::new(work.wr_id, work.op, payload), work.flags & !IBV_SEND_INLINE)?;
    let mut batch = queue.start_post_send();
    let posted = batch.post(&request);
    batch.keep();
    Ok(posted?)
}

/// Puts the work request that was begun into the queue, without a doorbell, with the data that were set.
#[inline(never)]
fn flush(qp: &Qp, inner: &mut Inner) -> Result<()> {
    let Inner { queue, builder, scratch, .. } = inner;
    let Some(work) = builder.work.take() else { return Ok(()) };
    if qp.card().is_dead() {
        return Err(qp.card().gone());
    }
    let payload = match work.data {
        Data::Sges(count) => {
            let sges = &mut scratch.sges[..count];
            qp.null().translate(sges, writes(&work.op))?;
            Payload::Sges(sges)
        }
        Data::Inline => Payload::Inline(scratch.inline.bytes()),
    };
    if queue.service() != Service::Ud {
        return post(queue, &work, payload);
    }
    let (ah, qpn, qkey) = match work.to {
        Some(to) if !to.0.is_null() => to,
        _ => return Err(Failure::invalid("a datagram needs an address: ibv_wr_set_ud_addr")),
    };
    let request = with_flags(SendWr::new(work.wr_id, work.op, payload), work.flags & !IBV_SEND_INLINE)?;
    let mut batch = queue.start_post_send();
    // SAFETY: the program's handle lives until the work request has completed.
    let posted = batch.post(&request.to(unsafe { &Ah::of(ah).handle }, qpn, qkey));
    batch.keep();
    Ok(posted?)
}

/// Begins a work request, and puts the one before it into the queue.
///
/// # Safety
/// The queue pair lives, and this thread has begun the series.
#[inline]
unsafe fn begin(qp: *mut ibv_qp_ex, op: Result<SendOp>) {
    // SAFETY: as promised.
    let shared = unsafe { Qp::of_ex(qp) };
    // SAFETY: this thread alone has it.
    let Some(inner) = (unsafe { shared.session.get() }) else { return };
    if inner.builder.work.is_some() {
        if let Err(failure) = flush(shared, inner) {
            inner.builder.fail(failure);
        }
    }
    // SAFETY: the program sets both before the call.
    let (wr_id, flags) = unsafe { ((*qp).wr_id, (*qp).wr_flags | inner.forced) };
    match op {
        Ok(op) => inner.builder.work = Some(Work { wr_id, flags, op, to: None, data: Data::Sges(0) }),
        Err(failure) => inner.builder.fail(failure),
    }
}

/// Changes the work request that was begun: `f` says what its data are, in the scratch of the queue pair.
///
/// # Safety
/// As of [`begin`].
unsafe fn set(qp: *mut ibv_qp_ex, f: impl FnOnce(&mut Work, &mut Scratch) -> Result<()>) {
    // SAFETY: as promised.
    let shared = unsafe { Qp::of_ex(qp) };
    // SAFETY: this thread alone has it.
    let Some(inner) = (unsafe { shared.session.get() }) else { return };
    let Inner { builder, scratch, .. } = inner;
    let result = match &mut builder.work {
        Some(work) => f(work, scratch),
        None if builder.failure.is_none() => {
            Err(Failure::invalid("data or an address was set before a work request"))
        }
        None => Ok(()),
    };
    if let Err(failure) = result {
        builder.fail(failure);
    }
}

/// Puts the work request that was begun into the queue with these data, if it is one of a connected queue pair that needs no other look.
///
/// # Safety
/// As of [`begin`].
#[inline(always)]
unsafe fn quick(qp: *mut ibv_qp_ex, payload: Payload<'_>) -> bool {
    // SAFETY: as promised.
    let shared = unsafe { Qp::of_ex(qp) };
    // SAFETY: this thread alone has it.
    let Some(Inner { queue, builder, .. }) = (unsafe { shared.session.get() }) else { return false };
    if queue.service() == Service::Ud || shared.null().is_used() || shared.card().is_dead() {
        return false;
    }
    let Some(work) = builder.work.take() else { return false };
    if let Err(failure) = post(queue, &work, payload) {
        builder.fail(failure);
    }
    true
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program's queue pair lives.
    let shared: &'static Qp = unsafe { Qp::of_ex(qp) };
    if shared.card().is_inherited() {
        // The lock may be held by a thread that is not in this process. `wr_complete` says what is wrong.
        return;
    }
    let mut guard = shared.lock();
    guard.builder.clear();
    if shared.card().is_dead() {
        guard.builder.fail(shared.card().gone());
    } else if !guard.takes_sends() {
        guard.builder.fail(NOT_READY);
    }
    shared.session.begin(guard);
}

/// Ends a series; the lock goes.
///
/// # Safety
/// The queue pair lives, and this thread has begun the series.
unsafe fn end(qp: *mut ibv_qp_ex, post: bool) -> c_int {
    // SAFETY: as promised.
    let shared = unsafe { Qp::of_ex(qp) };
    if shared.card().is_inherited() {
        return report(CALL, &shared.card().gone()).raw_os_error();
    }
    // SAFETY: this thread alone has it.
    let guard = unsafe { shared.session.end() };
    let Some(mut inner) = guard else { return Errno::INVAL.raw_os_error() };
    let flushed = if post { flush(shared, &mut inner) } else { Ok(()) };
    let failure = inner.builder.failure.take().or(flushed.err());
    inner.builder.clear();
    let batch = inner.queue.start_post_send();
    let result = match failure {
        None if post => batch.ring().map_err(Failure::from),
        other => {
            batch.abandon();
            other.map_or(Ok(()), Err)
        }
    };
    match result {
        Err(failure) if post => report(CALL, &failure).raw_os_error(),
        _ => 0,
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program has begun the series in this thread.
    unsafe { end(qp, true) }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: as above.
    unsafe { end(qp, false) };
}

/// Declares slots that begin a work request.
macro_rules! works {
    ($( $name:ident($qp:ident $(, $argument:ident: $ty:ty)*) = $op:expr; )+) => {$(
        unsafe extern "C" fn $name($qp: *mut ibv_qp_ex $(, $argument: $ty)*) {
            let op: Result<SendOp> = $op;
            // SAFETY: the program has begun a series in this thread.
            unsafe { begin($qp, op) }
        }
    )+};
}

/// A place in the peer's memory.
fn at(address: u64, rkey: u32) -> RemoteAddress {
    RemoteAddress { address, rkey }
}

works! {
    wr_atomic_cmp_swp(qp, rkey: u32, address: u64, compare: u64, swap: u64) =
        Ok(SendOp::CompareSwap { remote: at(address, rkey), compare, swap });
    wr_atomic_fetch_add(qp, rkey: u32, address: u64, add: u64) =
        Ok(SendOp::FetchAdd { remote: at(address, rkey), add });
    wr_bind_mw(qp, mw: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) =
        // SAFETY: the program gives a window and a range that are valid.
        unsafe { mw::bind_operation(Qp::of_ex(qp), mw, rkey, &*info) };
    wr_local_inv(qp, key: u32) = Ok(SendOp::LocalInv { key });
    wr_rdma_read(qp, rkey: u32, address: u64) = Ok(SendOp::Read { remote: at(address, rkey) });
    wr_rdma_write(qp, rkey: u32, address: u64) = Ok(SendOp::Write { remote: at(address, rkey) });
    wr_rdma_write_imm(qp, rkey: u32, address: u64, imm: be32) =
        Ok(SendOp::WriteImm { remote: at(address, rkey), imm: u32::from_be(imm) });
    wr_send(qp) = Ok(SendOp::Send);
    wr_send_imm(qp, imm: be32) = Ok(SendOp::SendImm { imm: u32::from_be(imm) });
    wr_send_inv(qp, key: u32) = Ok(SendOp::SendInv { key });
    wr_send_tso(qp, _hdr: *mut c_void, _hdr_sz: u16, _mss: u16) =
        Err(Failure::unsupported("the card does not segment TCP"));
    wr_atomic_write(qp, _rkey: u32, _address: u64, _data: *const c_void) =
        Err(Failure::unsupported("the card has no atomic WRITE"));
    wr_flush(qp, _rkey: u32, _address: u64, _len: usize, _kind: u8, _level: u8) =
        Err(Failure::unsupported("the card has no FLUSH"));
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: the program has begun a series in this thread.
    unsafe {
        set(qp, |work, _| {
            work.to = Some((ah, qpn, qkey));
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, _srqn: u32) {
    // SAFETY: as above.
    unsafe { set(qp, |_, _| Err(Failure::unsupported("the card has no XRC"))) }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let sge = Sge { address: addr, lkey, bytes: length };
    // SAFETY: as above.
    if unsafe { quick(qp, Payload::Sges(&[sge])) } {
        return;
    }
    // SAFETY: as above.
    unsafe {
        set(qp, |work, scratch| {
            scratch.sges[0] = sge;
            work.data = Data::Sges(1);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: as above.
    unsafe {
        set(qp, |work, scratch| {
            if count > SGES {
                return Err(Failure::invalid("num_sge is more than a work request has"));
            }
            for (i, sge) in scratch.sges[..count].iter_mut().enumerate() {
                // The program's list has `count` entries.
                *sge = element(&*list.add(i));
            }
            work.data = Data::Sges(count);
            Ok(())
        });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: the program's bytes are there.
    let data = || unsafe { core::slice::from_raw_parts(addr.cast_const().cast::<u8>(), length) };
    // SAFETY: the program has begun a series in this thread.
    if (1..=INLINE).contains(&length) && unsafe { quick(qp, Payload::Inline(data())) } {
        return;
    }
    // SAFETY: as above.
    unsafe {
        set(qp, |work, scratch| {
            work.data = Data::Inline;
            scratch.inline.clear();
            scratch.inline.add(addr.cast(), length)
        });
    }
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    // SAFETY: as above; the program's list has `count` entries, whose bytes are there.
    unsafe {
        set(qp, |work, scratch| {
            work.data = Data::Inline;
            scratch.inline.clear();
            for i in 0..count {
                let piece = *list.add(i);
                scratch.inline.add(piece.addr.cast(), piece.length)?;
            }
            Ok(())
        });
    }
}

/// The slots of a queue pair.
pub fn slots() -> ibv_qp_ex {
    ibv_qp_ex {
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: Some(wr_bind_mw),
        wr_local_inv: Some(wr_local_inv),
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: Some(wr_send_inv),
        wr_send_tso: Some(wr_send_tso),
        wr_set_ud_addr: Some(wr_set_ud_addr),
        wr_set_xrc_srqn: Some(wr_set_xrc_srqn),
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: Some(wr_atomic_write),
        wr_flush: Some(wr_flush),
        ..ibv_qp_ex::zeroed()
    }
}

/// Refuses operations that queue pairs of a service do not have.
pub fn check_ops(flags: u64, service: Service) -> Result<()> {
    let bits = |bits: &[ibv_qp_create_send_ops_flags]| bits.iter().fold(0, |all, bit| all | u64::from(*bit));
    let send = bits(&[IBV_QP_EX_WITH_SEND]);
    let datagrams = send | bits(&[IBV_QP_EX_WITH_SEND_WITH_IMM]);
    let unreliable = datagrams
        | bits(&[
            IBV_QP_EX_WITH_RDMA_WRITE,
            IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
            IBV_QP_EX_WITH_SEND_WITH_INV,
            IBV_QP_EX_WITH_BIND_MW,
            IBV_QP_EX_WITH_LOCAL_INV,
        ]);
    let reliable = unreliable
        | bits(&[
            IBV_QP_EX_WITH_RDMA_READ,
            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
        ]);
    let known = match service {
        Service::Rc => reliable,
        Service::Uc => unreliable,
        Service::Ud => datagrams,
        _ => send,
    };
    match flags & !known {
        0 => Ok(()),
        other => Err(Failure::text(
            Errno::OPNOTSUPP,
            format!("send_ops_flags {other:#x}: {service} does not have these operations"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_its_operations() {
        let read = u64::from(IBV_QP_EX_WITH_RDMA_READ);
        let (send, write) = (u64::from(IBV_QP_EX_WITH_SEND), u64::from(IBV_QP_EX_WITH_RDMA_WRITE));
        check_ops(read | send | write, Service::Rc).unwrap();
        check_ops(send | write, Service::Uc).unwrap();
        check_ops(send, Service::Ud).unwrap();
        for (flags, service) in
            [(read, Service::Uc), (write, Service::Ud), (1 << 10, Service::Rc), (1 << 40, Service::Rc)]
        {
            assert_eq!(
                check_ops(flags, service).unwrap_err().errno,
                Errno::OPNOTSUPP,
                "{service} {flags:#x}"
            );
        }
    }
}
