// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Qp`]: queue pairs.

use core::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrowire::spec::queue::{recv_wqe, send_wqe};
use ferrowire::{Capabilities, QpInitAttr, QpState, QueuePair, Service};
use rustix::io::Errno;

use crate::abi::*;
use crate::card::Card;
use crate::context::{Backend, Context};
use crate::count::Acks;
use crate::cq::Cq;
use crate::failure::{number, pointer, report, Failure, Result};
use crate::lock::{Guard, Hold, Lock};
use crate::pd::Pd;
use crate::post::Scratch;
use crate::qp_ex::{self, Builder};
use crate::raw::{object, Raw};
use crate::srq::Srq;

/// A queue pair, with the extended post interface or without.
#[repr(C)]
pub struct Qp {
    /// Its first members are those of `ibv_qp`.
    base: Raw<ibv_qp_ex>,
    inner: Lock<Inner>,
    card: &'static Card,
    /// What the program has set last.
    attributes: Mutex<ibv_qp_attr>,
    /// The program may use the extended post interface.
    extended: bool,
    sq_sig_all: bool,
    /// The series of the extended interface that a thread has begun.
    pub session: Hold<Inner>,
    /// Asynchronous events that the program was given.
    pub acks: Acks,
}

object!(Qp, ibv_qp);

/// What posting and modifying change.
pub struct Inner {
    /// The queue pair as the driver has it.
    pub queue: QueuePair,
    /// It was brought to a state that takes sends, and not to RESET since.
    pub ready: bool,
    /// It was brought to a state that takes receives, which is any but RESET.
    pub takes_receives: bool,
    /// Work requests of the extended interface that are being put together.
    pub builder: Builder,
    /// For work requests that are being posted.
    pub scratch: Scratch,
}

impl Inner {
    /// Whether sends may be posted (IBTA 10.3.1).
    #[inline]
    pub fn takes_sends(&self) -> bool {
        // In RTR, only if a receive has failed.
        self.ready || takes_sends(self.queue.state())
    }
}

/// Whether sends may be posted in a state (IBTA 10.3.1).
pub fn takes_sends(state: QpState) -> bool {
    matches!(state, QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err)
}

/// A kind of queue pair, by its number in verbs.
pub fn service(kind: ibv_qp_type) -> Result<Service> {
    match kind {
        IBV_QPT_RC => Ok(Service::Rc),
        IBV_QPT_UC => Ok(Service::Uc),
        IBV_QPT_UD => Ok(Service::Ud),
        IBV_QPT_RAW_PACKET => Ok(Service::Raw),
        IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV => Err(Failure::unsupported("the card has no XRC")),
        other => Err(Failure::text(Errno::OPNOTSUPP, format!("queue pairs of type {other} are unknown"))),
    }
}

/// A state as verbs have it.
pub fn state_code(state: QpState) -> ibv_qp_state {
    match state {
        QpState::Reset => IBV_QPS_RESET,
        QpState::Init => IBV_QPS_INIT,
        QpState::Rtr => IBV_QPS_RTR,
        QpState::Rts => IBV_QPS_RTS,
        QpState::Sqd => IBV_QPS_SQD,
        QpState::Sqe => IBV_QPS_SQE,
        QpState::Err => IBV_QPS_ERR,
    }
}

/// A state by its number in verbs.
pub fn state_of(code: ibv_qp_state) -> Option<QpState> {
    QpState::ALL.iter().copied().find(|state| state_code(*state) == code)
}

/// Sizes that a queue pair has when it was asked for these: as the driver and the card make them.
fn granted(asked: &ibv_qp_cap, can: &Capabilities, has_srq: bool) -> ibv_qp_cap {
    let units = send_wqe::units_for_sges(asked.max_send_sge as usize)
        .max(send_wqe::units_for_inline(asked.max_inline_data as usize))
        .next_power_of_two();
    let sges = (1 + send_wqe::SGES_PER_UNIT * (units - 1)).min(can.max_send_sge.into());
    let inline = (units * ferrowire::spec::queue::WQE_UNIT - send_wqe::INLINE_AT).min(can.max_inline.into());
    let recv_units = recv_wqe::units_for_sges(asked.max_recv_sge as usize).next_power_of_two();
    let recv_sges = (recv_units * recv_wqe::SGES_PER_UNIT).min(can.max_recv_sge.into());
    let depth = |wr: u32| wr.max(1).next_power_of_two();
    ibv_qp_cap {
        max_send_wr: depth(asked.max_send_wr),
        max_recv_wr: if has_srq { 0 } else { depth(asked.max_recv_wr) },
        max_send_sge: sges as u32,
        max_recv_sge: if has_srq { 0 } else { recv_sges as u32 },
        max_inline_data: inline as u32,
    }
}

/// A number that fits a narrower field of the driver.
fn fits<T: TryFrom<u32>>(name: &str, value: u32, most: u32) -> Result<T> {
    let fitting = (value <= most).then(|| T::try_from(value).ok()).flatten();
    fitting
        .ok_or_else(|| Failure::text(Errno::INVAL, format!("{name} is {value}; the card takes up to {most}")))
}

impl Qp {
    /// The queue pair of a program's pointer to one with the extended post interface.
    ///
    /// # Safety
    /// The pointer came from this library, and the queue pair lives.
    pub unsafe fn of_ex<'a>(qp: *mut ibv_qp_ex) -> &'a Self {
        // SAFETY: as promised.
        unsafe { Self::of(qp.cast()) }
    }

    /// The pointer that programs have.
    pub fn pointer(&self) -> *mut ibv_qp {
        self.base.get().cast()
    }

    /// The same, of the extended post interface.
    pub fn pointer_ex(&self) -> *mut ibv_qp_ex {
        self.base.get()
    }

    /// The context.
    pub fn context(&self) -> &Context {
        // SAFETY: the program does not change it, and a context outlives its queue pairs.
        unsafe { Context::of((*self.pointer()).context) }
    }

    /// The domain.
    pub fn pd(&self) -> &Pd {
        // SAFETY: the program does not change it, and a domain outlives its queue pairs.
        unsafe { Pd::of((*self.pointer()).pd) }
    }

    /// Its number on the card.
    pub fn number(&self) -> u32 {
        // SAFETY: the program does not change it.
        unsafe { (*self.pointer()).qp_num }
    }

    /// What posting and modifying change.
    #[inline]
    pub fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether the card is gone.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.card.is_dead()
    }

    /// What the program has set.
    pub fn attributes(&self) -> MutexGuard<'_, ibv_qp_attr> {
        self.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the program the state.
    pub fn show_state(&self, state: QpState) {
        // SAFETY: programs read it while they modify the queue pair in no other thread.
        unsafe { (*self.pointer()).state = state_code(state) };
    }

    /// Makes a queue pair, in RESET.
    fn create(pd: &Pd, attr: &mut ibv_qp_init_attr, extended: bool) -> Result<*mut ibv_qp> {
        let context = pd.context();
        let card = context.card()?;
        let service = service(attr.qp_type)?;
        if attr.send_cq.is_null() || attr.recv_cq.is_null() {
            return Err(Failure::invalid("send_cq or recv_cq is null"));
        }
        // SAFETY: the program gives queues that live.
        let (send_cq, recv_cq) = unsafe { (Cq::of(attr.send_cq), Cq::of(attr.recv_cq)) };
        // SAFETY: as above.
        let srq = (!attr.srq.is_null()).then(|| unsafe { Srq::of(attr.srq) });
        let can = card.context.capabilities();
        let mut wanted = QpInitAttr::rc(&send_cq.target, &recv_cq.target);
        wanted.service = service;
        wanted.max_send_wr = attr.cap.max_send_wr;
        wanted.max_send_sge = fits("max_send_sge", attr.cap.max_send_sge, can.max_send_sge.into())?;
        wanted.max_inline = fits("max_inline_data", attr.cap.max_inline_data, can.max_inline.into())?;
        wanted.sq_sig_all = attr.sq_sig_all != 0;
        if srq.is_none() {
            wanted.max_recv_wr = attr.cap.max_recv_wr;
            wanted.max_recv_sge = fits("max_recv_sge", attr.cap.max_recv_sge, can.max_recv_sge.into())?;
        }
        if service == Service::Raw {
            // The card has one.
            card.neighbours.lend();
        }
        let made = match srq {
            Some(srq) => srq.with(|shared| {
                let mut wanted = wanted.clone();
                wanted.srq = Some(shared);
                pd.domain().create_qp(&wanted)
            }),
            None => pd.domain().create_qp(&wanted),
        };
        let mut made = made.map(ferrowire::Qp::untyped);
        if service == Service::Raw {
            made = made
                .and_then(|queue| card.context.set_raw_filter(&ferrowire::RawFilter::port()).map(|()| queue));
        }
        let queue = made.inspect_err(|_| give_back(card, service))?;
        let number = queue.number();
        let cap = granted(&attr.cap, can, srq.is_some());
        attr.cap = cap;
        let single_threaded = pd.single_threaded();
        let base = ibv_qp_ex {
            qp_base: ibv_qp {
                context: context.pointer(),
                qp_context: attr.qp_context,
                pd: pd.pointer(),
                send_cq: attr.send_cq,
                recv_cq: attr.recv_cq,
                srq: attr.srq,
                handle: number,
                qp_num: number,
                state: IBV_QPS_RESET,
                qp_type: attr.qp_type,
                ..ibv_qp::zeroed()
            },
            ..qp_ex::slots()
        };
        let qp = Box::new(Self {
            base: Raw::new(base),
            inner: Lock::new(
                Inner {
                    queue,
                    ready: false,
                    takes_receives: false,
                    builder: Builder::default(),
                    scratch: Scratch::default(),
                },
                single_threaded,
            ),
            card,
            attributes: Mutex::new(ibv_qp_attr { cap, ..ibv_qp_attr::zeroed() }),
            extended,
            sq_sig_all: attr.sq_sig_all != 0,
            session: Hold::default(),
            acks: Acks::default(),
        });
        pd.users.add();
        send_cq.users.add();
        recv_cq.users.add();
        if let Some(srq) = srq {
            srq.users.add();
        }
        let qp = qp.give();
        card.objects().qps.insert(number, qp.cast_const().cast());
        Ok(qp)
    }
}

/// The raw Ethernet queue pair is the library's again.
fn give_back(card: &Card, service: Service) {
    if service == Service::Raw {
        card.neighbours.take_back();
    }
}

/// Creates a queue pair.
///
/// # Safety
/// The domain lives, `attr` is valid, and so are the objects in it.
#[no_mangle]
pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: as promised.
    pointer("ibv_create_qp", Qp::create(unsafe { Pd::of(pd) }, unsafe { &mut *attr }, false))
}

/// Members of `ibv_qp_init_attr_ex` that this library knows.
const MASK: u32 = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

fn create_ex(attr: &mut ibv_qp_init_attr_ex) -> Result<*mut ibv_qp> {
    if attr.comp_mask & !MASK != 0 {
        return Err(Failure::text(
            Errno::OPNOTSUPP,
            format!("comp_mask {:#x}: the card has no XRC, TSO and receive hashing", attr.comp_mask & !MASK),
        ));
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        return Err(Failure::invalid("comp_mask lacks IBV_QP_INIT_ATTR_PD, or pd is null"));
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 && attr.create_flags != 0 {
        return Err(Failure::text(
            Errno::OPNOTSUPP,
            format!("create_flags {:#x}: the card has none of them", attr.create_flags),
        ));
    }
    let extended = attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
    if extended {
        qp_ex::check_ops(attr.send_ops_flags, service(attr.qp_type)?)?;
    }
    let mut plain = ibv_qp_init_attr {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
    };
    // SAFETY: the program gives a domain that lives.
    let qp = Qp::create(unsafe { Pd::of(attr.pd) }, &mut plain, extended)?;
    attr.cap = plain.cap;
    Ok(qp)
}

/// Creates a queue pair with further attributes.
///
/// # Safety
/// The context is open, `attr` is valid, and so are the objects in it.
pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    let _ = context;
    // SAFETY: as promised.
    pointer("ibv_create_qp_ex", create_ex(unsafe { &mut *attr }))
}

/// The extended post interface of a queue pair that was created with `send_ops_flags`; null for others.
///
/// # Safety
/// The queue pair lives.
#[no_mangle]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: as promised.
    let shared = unsafe { Qp::of(qp) };
    if shared.extended {
        shared.pointer_ex()
    } else {
        core::ptr::null_mut()
    }
}

fn query(qp: &Qp) -> Result<(ibv_qp_attr, ibv_qp_init_attr)> {
    qp.context().card()?;
    let status = qp.lock().queue.query()?;
    let known = status.state.known().ok_or(Failure::new(Errno::IO, "the card told an unknown state"))?;
    let state = state_code(known);
    let set = *qp.attributes();
    let psn = |told: u32, set: u32, there: bool| if there { told } else { set };
    let attr = ibv_qp_attr {
        qp_state: state,
        cur_qp_state: state,
        sq_draining: status.sq_draining.into(),
        rq_psn: psn(status.rq_psn.get(), set.rq_psn, known.responds()),
        sq_psn: psn(status.sq_psn.get(), set.sq_psn, matches!(known, QpState::Rts | QpState::Sqd)),
        ..set
    };
    qp.show_state(known);
    // SAFETY: the program does not change it.
    let base = unsafe { *qp.pointer() };
    let init = ibv_qp_init_attr {
        qp_context: base.qp_context,
        send_cq: base.send_cq,
        recv_cq: base.recv_cq,
        srq: base.srq,
        cap: set.cap,
        qp_type: base.qp_type,
        sq_sig_all: qp.sq_sig_all.into(),
    };
    Ok((attr, init))
}

/// Queries a queue pair: all attributes, whatever the mask says.
///
/// # Safety
/// The queue pair lives; the structures are valid, `init_attr` may be null.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    attr_mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    let _ = attr_mask;
    // SAFETY: as promised.
    let found = query(unsafe { Qp::of(qp) }).map(|(found, init)| {
        // SAFETY: as promised.
        unsafe {
            *attr = found;
            if !init_attr.is_null() {
                *init_attr = init;
            }
        }
    });
    number("ibv_query_qp", found)
}

/// Whether data of a message come in order: the card does not promise it.
///
/// # Safety
/// None is needed.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(qp: *mut ibv_qp, op: ibv_wr_opcode, flags: u32) -> c_int {
    let _ = (qp, op, flags);
    0
}

/// Destroys a queue pair, after the program has acknowledged its events. Work requests that have not completed are gone.
///
/// # Safety
/// The queue pair lives, and is not used any more.
#[no_mangle]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: as promised.
    let shared = unsafe { Qp::of(qp) };
    let context = shared.context();
    if let Backend::Card(card) = context.backend {
        card.objects().qps.remove(&shared.number());
    }
    // From here on no event of it comes.
    context.events.remove(|pending| pending.is_about(qp));
    shared.acks.wait();
    // SAFETY: nothing uses it.
    let Qp { base, inner, .. } = *unsafe { Qp::back(qp) };
    // SAFETY: the objects outlive their queue pairs.
    let (pd, send_cq, recv_cq, srq) = unsafe {
        let base = (*base.get()).qp_base;
        let srq = (!base.srq.is_null()).then(|| Srq::of(base.srq));
        (Pd::of(base.pd), Cq::of(base.send_cq), Cq::of(base.recv_cq), srq)
    };
    let queue = inner.into_inner().queue;
    let service = queue.service();
    if let Err(error) = queue.destroy() {
        // The number and the memory stay with the driver.
        report("ibv_destroy_qp", &error.into());
    }
    pd.users.remove();
    send_cq.users.remove();
    recv_cq.users.remove();
    if let Some(srq) = srq {
        srq.users.remove();
    }
    if let Backend::Card(card) = context.backend {
        give_back(card, service);
    }
    0
}

const _: functions::ibv_create_qp = ibv_create_qp;
const _: functions::ibv_qp_to_qp_ex = ibv_qp_to_qp_ex;
const _: functions::ibv_query_qp = ibv_query_qp;
const _: functions::ibv_query_qp_data_in_order = ibv_query_qp_data_in_order;
const _: functions::ibv_destroy_qp = ibv_destroy_qp;

/// A C integer, for the compiler: states have its type.
const _: c_uint = IBV_QPS_RESET;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_types_have_the_numbers_of_verbs() {
        for state in QpState::ALL {
            assert_eq!(state_of(state_code(*state)), Some(*state));
        }
        assert_eq!(state_of(IBV_QPS_UNKNOWN), None);
        assert_eq!(service(IBV_QPT_UC).unwrap(), Service::Uc);
        assert_eq!(service(IBV_QPT_XRC_SEND).unwrap_err().errno, Errno::OPNOTSUPP);
        assert_eq!(service(1).unwrap_err().errno, Errno::OPNOTSUPP);
    }
}
