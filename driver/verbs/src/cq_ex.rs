// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues with accessors: `ibv_start_poll` takes a completion, and the program asks for what it wants of it.

use core::ffi::c_int;

use ferrowire::Completion;
use rustix::io::Errno;

use crate::abi::*;
use crate::context::Context;
use crate::cq::{immediate, opcode, packet_type, status, wc_flags, Cq, Wanted};
use crate::failure::{pointer, report, Failure, Result};
use crate::pd::Pd;

/// Accessors that are there. Those of InfiniBand's link layer read as 0.
const ACCESSORS: u32 = IBV_WC_EX_WITH_BYTE_LEN
    | IBV_WC_EX_WITH_IMM
    | IBV_WC_EX_WITH_QP_NUM
    | IBV_WC_EX_WITH_SRC_QP
    | IBV_WC_EX_WITH_SLID
    | IBV_WC_EX_WITH_SL
    | IBV_WC_EX_WITH_DLID_PATH_BITS;

/// The slots of a queue.
pub fn slots() -> ibv_cq_ex {
    ibv_cq_ex {
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: Some(read_cvlan),
        read_flow_tag: Some(read_flow_tag),
        read_tm_info: Some(read_tm_info),
        read_completion_wallclock_ns: Some(read_completion_ts),
        ..ibv_cq_ex::zeroed()
    }
}

/// Shows the program the completion that was taken.
fn show(cq: &Cq, taken: &Completion) {
    let seen = cq.pointer_ex();
    // SAFETY: the program reads these between the calls, in the same thread.
    unsafe {
        (*seen).wr_id = taken.wr_id();
        (*seen).status = status(taken.status());
    }
}

unsafe extern "C" fn start_poll(current: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: the program gives a valid structure.
    if unsafe { (*attr).comp_mask } != 0 {
        return Errno::INVAL.raw_os_error();
    }
    // SAFETY: the queue lives, for the program polls it.
    let cq: &'static Cq = unsafe { Cq::of_ex(current) };
    if let Err(failure) = cq.own() {
        return report("ibv_start_poll", &failure).raw_os_error();
    }
    let mut polled = cq.lock();
    match Cq::take_one(&mut polled) {
        Ok(()) => {
            show(cq, &polled.current);
            // Until `end_poll`, which the program calls in this thread before it destroys the queue.
            cq.session.begin(polled);
            0
        }
        Err(Errno::NOENT) => {
            drop(polled);
            nothing(cq, "ibv_start_poll")
        }
        Err(errno) => errno.raw_os_error(),
    }
}

/// After a look that found nothing: `ENOENT`, unless nothing will come.
fn nothing(cq: &Cq, call: &str) -> c_int {
    cq.idle().map_or_else(|failure| report(call, &failure), |()| Errno::NOENT).raw_os_error()
}

unsafe extern "C" fn next_poll(current: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the program has called `start_poll` in this thread.
    let cq = unsafe { Cq::of_ex(current) };
    // SAFETY: as above.
    let Some(polled) = (unsafe { cq.session.get() }) else { return Errno::INVAL.raw_os_error() };
    let taken = cq.own().map_err(|failure| report("ibv_next_poll", &failure));
    match taken.and_then(|()| Cq::take_one(polled)) {
        Ok(()) => {
            show(cq, &polled.current);
            0
        }
        Err(Errno::NOENT) => nothing(cq, "ibv_next_poll"),
        Err(errno) => errno.raw_os_error(),
    }
}

unsafe extern "C" fn end_poll(current: *mut ibv_cq_ex) {
    // SAFETY: the program has called `start_poll` in this thread.
    let guard = unsafe { Cq::of_ex(current).session.end() };
    // Only now another thread may have the rest.
    drop(guard);
}

/// Declares accessors.
macro_rules! accessors {
    ($( $name:ident -> $ty:ty = |$completion:ident| $value:expr; )+) => {$(
        unsafe extern "C" fn $name(current: *mut ibv_cq_ex) -> $ty {
            // SAFETY: the program has called `start_poll` in this thread.
            let polled = unsafe { Cq::of_ex(current).session.get() };
            // Outside of a session there is nothing to read.
            polled.map_or(0, |polled| {
                let $completion = &polled.current;
                $value
            })
        }
    )+};
}

accessors! {
    read_opcode -> ibv_wc_opcode = |completion| opcode(completion);
    read_vendor_err -> u32 = |completion| completion.syndrome().into();
    read_byte_len -> u32 = |completion| completion.byte_len();
    read_imm_data -> be32 = |completion| immediate(completion);
    read_qp_num -> u32 = |completion| completion.qpn();
    read_src_qp -> u32 = |completion| completion.src_qpn().unwrap_or(0);
    read_wc_flags -> u32 = |completion| wc_flags(completion);
    read_slid -> u32 = |_completion| 0;
    read_sl -> u8 = |completion| packet_type(completion);
    read_dlid_path_bits -> u8 = |_completion| 0;
    read_completion_ts -> u64 = |_completion| 0;
    read_cvlan -> u16 = |_completion| 0;
    read_flow_tag -> u32 = |_completion| 0;
}

unsafe extern "C" fn read_tm_info(_current: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    // SAFETY: the program gives a valid structure.
    unsafe { *info = ibv_wc_tm_info::zeroed() };
}

fn create(context: &Context, attr: &ibv_cq_init_attr_ex) -> Result<*mut ibv_cq_ex> {
    let known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if attr.comp_mask & !known != 0 {
        return Err(Failure::unsupported("comp_mask has bits that this library does not know"));
    }
    if attr.wc_flags & !u64::from(ACCESSORS) != 0 {
        return Err(Failure::text(
            Errno::OPNOTSUPP,
            format!(
                "wc_flags {:#x}: the card reports no time stamps, VLANs, flow tags or tags",
                attr.wc_flags & !u64::from(ACCESSORS)
            ),
        ));
    }
    let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 { attr.flags } else { 0 };
    if flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0 {
        return Err(Failure::unsupported("the card does not ignore overruns"));
    }
    if flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
        return Err(Failure::invalid("flags has unknown bits"));
    }
    let given = attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0 && !attr.parent_domain.is_null();
    // SAFETY: the program gives a domain that lives.
    let parent = given.then(|| unsafe { Pd::of(attr.parent_domain) });
    if parent.is_some_and(|parent| !parent.is_parent()) {
        return Err(Failure::invalid("parent_domain is no parent domain"));
    }
    let single_threaded =
        flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 || parent.is_some_and(Pd::single_threaded);
    let wanted = Wanted {
        entries: c_int::try_from(attr.cqe).unwrap_or(c_int::MAX),
        cq_context: attr.cq_context,
        channel: attr.channel,
        vector: c_int::try_from(attr.comp_vector).unwrap_or(c_int::MAX),
        single_threaded,
    };
    Ok(Cq::create(context, &wanted)?.cast())
}

/// Creates a completion queue with accessors.
///
/// # Safety
/// The context is open, `attr` is valid.
pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: as promised.
    pointer("ibv_create_cq_ex", create(unsafe { Context::of(context) }, unsafe { &*attr }))
}
