// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Qp`]: queue pairs.

use core::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrowire::{QpAttributes, QpInitAttr, QpSizes, QpState, QueuePair, ReceiveQueue, Service};
use rustix::io::Errno;

use crate::abi::*;
use crate::card::Card;
use crate::context::Context;
use crate::count::Acks;
use crate::cq::Cq;
use crate::failure::{number, pointer, report, Failure, Result};
use crate::lock::{Guard, Hold, Lock};
use crate::null::Null;
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
    /// Where a thread needs both, it takes this one first.
    inner: Lock<Inner>,
    receiver: Lock<Receiver>,
    card: &'static Card,
    /// The null regions of its domain, if it has any.
    null: &'static Null,
    /// What the program has set last.
    attributes: Mutex<ibv_qp_attr>,
    /// The program may use the extended post interface.
    extended: bool,
    sq_sig_all: bool,
    /// The series of the extended interface that a thread has begun.
    pub session: Hold<Inner>,
    /// Asynchronous events that the program was given.
    pub acks: Acks,
    /// It was brought up with selective retransmission.
    selective: AtomicBool,
}

object!(Qp, ibv_qp);

/// What posting sends and modifying change.
pub struct Inner {
    /// The queue pair as the driver has it, without its receives.
    pub queue: QueuePair,
    /// It was brought to a state that takes sends, and not to RESET since.
    pub ready: bool,
    /// Flags of each send: `IBV_SEND_SIGNALED` for `sq_sig_all`. The card does not know of it, so the library can post what completes silently.
    pub forced: c_uint,
    /// Work requests of the extended interface that are being put together.
    pub builder: Builder,
    /// For work requests that are being posted.
    pub scratch: Scratch,
}

/// What posting receives changes.
pub struct Receiver {
    /// The receives; `None` with a shared receive queue.
    pub queue: Option<ReceiveQueue>,
    /// The queue pair was brought to a state that takes receives, which is any but RESET.
    pub ready: bool,
}

impl Inner {
    /// Takes the queue pair to RESET, with its receives.
    pub fn reset(&mut self, receiver: &mut Receiver, attributes: &QpAttributes) -> ferrowire::Result<()> {
        if let Some(receives) = receiver.queue.take() {
            self.queue.join_receives(receives)?;
        }
        let reset = self.queue.reset_in_place(attributes);
        receiver.queue = self.queue.take_receives();
        reset
    }

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

/// Sizes of a queue pair as verbs have them.
fn cap(sizes: &QpSizes) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: sizes.max_send_wr,
        max_recv_wr: sizes.max_recv_wr,
        max_send_sge: sizes.max_send_sge,
        max_recv_sge: sizes.max_recv_sge,
        max_inline_data: sizes.max_inline,
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

    /// The pointer of programs to one with the extended post interface.
    pub fn pointer_ex(&self) -> *mut ibv_qp_ex {
        self.pointer().cast()
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

    /// What posting sends and modifying change.
    #[inline]
    pub fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// What posting receives changes.
    #[inline]
    pub fn receiver(&self) -> Guard<'_, Receiver> {
        self.receiver.lock()
    }

    /// Calls `f` with what posting sends and modifying change. This thread has it already, if it is in a series of the extended interface, or gets it.
    pub fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        // SAFETY: the thread is in one call of this library, which uses it here alone.
        match unsafe { self.session.mine() } {
            Some(inner) => f(inner),
            None => f(&mut self.lock()),
        }
    }

    /// The null regions of its domain.
    #[inline]
    pub fn null(&self) -> &Null {
        self.null
    }

    /// The card.
    #[inline]
    pub fn card(&self) -> &'static Card {
        self.card
    }

    /// What the program has set.
    pub fn attributes(&self) -> MutexGuard<'_, ibv_qp_attr> {
        self.attributes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows the program the state.
    pub fn show_state(&self, state: QpState) {
        // SAFETY: the object lives, and the number is aligned. Threads may query at once; programs read it while they do not.
        let shown = unsafe { AtomicU32::from_ptr(&raw mut (*self.pointer()).state) };
        shown.store(state_code(state), Ordering::Relaxed);
    }

    /// The state that the program is shown, without a lock; `None`: verbs do not know it.
    pub fn shown_state(&self) -> Option<QpState> {
        // SAFETY: as in `show_state`.
        let shown = unsafe { AtomicU32::from_ptr(&raw mut (*self.pointer()).state) };
        state_of(shown.load(Ordering::Relaxed))
    }

    /// Whether it is of RC.
    pub fn is_rc(&self) -> bool {
        // SAFETY: the program does not change it.
        unsafe { (*self.pointer()).qp_type == IBV_QPT_RC }
    }

    /// Whether it retransmits selectively.
    pub fn is_selective(&self) -> bool {
        self.selective.load(Ordering::Relaxed)
    }

    /// Notes the attribute with which it went to a state.
    pub fn note_selective(&self, to: QpState, selective: Option<bool>) {
        if matches!(to, QpState::Reset | QpState::Rtr) {
            self.selective.store(to == QpState::Rtr && selective == Some(true), Ordering::Relaxed);
        }
    }

    /// Makes a queue pair, in RESET, for the program.
    fn create(pd: &Pd, attr: &mut ibv_qp_init_attr, extended: bool) -> Result<*mut ibv_qp> {
        let card = pd.context().card()?;
        if attr.send_cq.is_null() || attr.recv_cq.is_null() {
            return Err(Failure::invalid("send_cq or recv_cq is null"));
        }
        // SAFETY: the program gives queues that live.
        let (send_cq, recv_cq) = unsafe { (Cq::of(attr.send_cq), Cq::of(attr.recv_cq)) };
        // SAFETY: as above.
        let srq = (!attr.srq.is_null()).then(|| unsafe { Srq::of(attr.srq) });
        let wanted = wanted(card, attr, send_cq, recv_cq, srq.is_some())?;
        let make = || match srq {
            Some(srq) => srq.with(|shared| {
                let mut wanted = wanted.clone();
                wanted.srq = Some(shared);
                pd.domain().create_qp(&wanted)
            }),
            None => pd.domain().create_qp(&wanted),
        };
        let queue = match wanted.service {
            Service::Raw => card.neighbours.lend(|| {
                let queue = make()?.untyped();
                card.context.set_raw_filter(&ferrowire::RawFilter::port())?;
                Ok(queue)
            })?,
            _ => make()?.untyped(),
        };
        let qp = Self::over(queue, card, pd, attr, extended);
        pd.users.add();
        send_cq.users.add();
        recv_cq.users.add();
        if let Some(srq) = srq {
            srq.users.add();
        }
        let number = qp.number();
        let qp = qp.give();
        card.objects().qps.insert(number, qp.cast_const().cast());
        Ok(qp)
    }

    /// The object of a queue pair that the driver has made; `attr` gets its sizes.
    fn over(
        mut queue: QueuePair,
        card: &'static Card,
        pd: &Pd,
        attr: &mut ibv_qp_init_attr,
        extended: bool,
    ) -> Box<Self> {
        let number = queue.number();
        attr.cap = cap(&queue.sizes());
        let receiver = Receiver { queue: queue.take_receives(), ready: false };
        let inner = Inner {
            queue,
            ready: false,
            forced: if attr.sq_sig_all != 0 { IBV_SEND_SIGNALED } else { 0 },
            builder: Builder::default(),
            scratch: Scratch::default(),
        };
        let base = ibv_qp_ex {
            qp_base: ibv_qp {
                context: pd.context_pointer(),
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
        let single_threaded = pd.single_threaded();
        Box::new(Self {
            base: Raw::new(base),
            inner: Lock::new(inner, single_threaded),
            receiver: Lock::new(receiver, single_threaded),
            card,
            // SAFETY: a domain outlives its queue pairs.
            null: unsafe { &*core::ptr::from_ref(pd.null()) },
            attributes: Mutex::new(ibv_qp_attr { cap: attr.cap, ..ibv_qp_attr::zeroed() }),
            extended,
            sq_sig_all: attr.sq_sig_all != 0,
            session: Hold::default(),
            acks: Acks::default(),
            selective: AtomicBool::new(false),
        })
    }
}

/// The driver's form of what a program wants. Every send is signalled by this library, where `sq_sig_all` says so.
fn wanted<'a>(
    card: &Card,
    attr: &ibv_qp_init_attr,
    send_cq: &Cq,
    recv_cq: &Cq,
    has_srq: bool,
) -> Result<QpInitAttr<'a>> {
    let can = card.context.capabilities();
    let mut wanted = QpInitAttr::rc(&send_cq.target, &recv_cq.target);
    wanted.service = service(attr.qp_type)?;
    wanted.max_send_wr = attr.cap.max_send_wr;
    wanted.max_send_sge = fits("max_send_sge", attr.cap.max_send_sge, can.max_send_sge.into())?;
    wanted.max_inline = fits("max_inline_data", attr.cap.max_inline_data, can.max_inline.into())?;
    if !has_srq {
        wanted.max_recv_wr = attr.cap.max_recv_wr;
        wanted.max_recv_sge = fits("max_recv_sge", attr.cap.max_recv_sge, can.max_recv_sge.into())?;
    }
    Ok(wanted)
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

/// The members that `ibv_qp_init_attr` has, too.
pub fn plain(attr: &ibv_qp_init_attr_ex) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
    }
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
    let mut plain = plain(attr);
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
    let status = qp.with(|inner| inner.queue.query())?;
    let known = status.state.known().ok_or(Failure::new(Errno::IO, "the card is in an unknown state"))?;
    let state = state_code(known);
    let set = *qp.attributes();
    let psn = |now: u32, set: u32, there: bool| if there { now } else { set };
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
    const CALL: &str = "ibv_destroy_qp";
    // SAFETY: as promised.
    let shared = unsafe { Qp::of(qp) };
    let card = shared.card;
    if card.is_inherited() {
        return 0;
    }
    card.objects().qps.remove(&shared.number());
    // From here on no event of it comes.
    shared.context().events.remove(|pending| pending.is_about(qp));
    shared.acks.wait();
    // SAFETY: nothing uses it.
    let Qp { base, inner, receiver, .. } = *unsafe { Qp::back(qp) };
    // SAFETY: the objects outlive their queue pairs.
    let (pd, send_cq, recv_cq, srq) = unsafe {
        let base = (*base.get()).qp_base;
        let srq = (!base.srq.is_null()).then(|| Srq::of(base.srq));
        (Pd::of(base.pd), Cq::of(base.send_cq), Cq::of(base.recv_cq), srq)
    };
    let mut queue = inner.into_inner().queue;
    let service = queue.service();
    let joined = receiver.into_inner().queue.map_or(Ok(()), |receives| queue.join_receives(receives));
    if let Err(error) = joined.and_then(|()| queue.destroy()) {
        // The number and the memory stay with the driver.
        report(CALL, &error.into());
    }
    pd.users.remove();
    send_cq.users.remove();
    recv_cq.users.remove();
    if let Some(srq) = srq {
        srq.users.remove();
    }
    if service == Service::Raw {
        card.neighbours.take_back();
    }
    0
}

const _: functions::ibv_create_qp = ibv_create_qp;
const _: functions::ibv_qp_to_qp_ex = ibv_qp_to_qp_ex;
const _: functions::ibv_query_qp = ibv_query_qp;
const _: functions::ibv_query_qp_data_in_order = ibv_query_qp_data_in_order;
const _: functions::ibv_destroy_qp = ibv_destroy_qp;

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
