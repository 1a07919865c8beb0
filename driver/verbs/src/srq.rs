// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Srq`]: shared receive queues.

use core::ffi::c_int;

use ferrowire::{SharedReceiveQueue, SrqInitAttr};
use rustix::io::Errno;

use crate::abi::*;
use crate::card::Card;
use crate::context::Context;
use crate::count::{Acks, Users};
use crate::failure::{number, pointer, report, Failure, Result};
use crate::lock::Lock;
use crate::pd::Pd;
use crate::post;
use crate::raw::{object, Raw};

/// A shared receive queue.
#[repr(C)]
pub struct Srq {
    base: Raw<ibv_srq>,
    queue: Lock<SharedReceiveQueue>,
    card: &'static Card,
    max_sge: u32,
    /// Queue pairs with it.
    pub users: Users,
    /// Asynchronous events that the program was given.
    pub acks: Acks,
}

object!(Srq, ibv_srq);

impl Srq {
    /// The context.
    pub fn context(&self) -> &Context {
        // SAFETY: the program does not change it, and a context outlives its queues.
        unsafe { Context::of((*self.base.get()).context) }
    }

    /// The domain.
    pub fn pd(&self) -> &Pd {
        // SAFETY: the program does not change it, and a domain outlives its queues.
        unsafe { Pd::of((*self.base.get()).pd) }
    }

    /// Does something with the queue, in one thread at a time.
    pub fn with<T>(&self, f: impl FnOnce(&mut SharedReceiveQueue) -> T) -> T {
        f(&mut self.queue.lock())
    }

    fn create(pd: &Pd, attr: &mut ibv_srq_init_attr) -> Result<*mut ibv_srq> {
        let card = pd.context().card()?;
        let can = card.context.capabilities();
        let max_sge = u8::try_from(attr.attr.max_sge).ok().filter(|sges| *sges <= can.max_recv_sge);
        let max_sge = max_sge.ok_or_else(|| {
            let why = format!("max_sge is {}; the card takes up to {}", attr.attr.max_sge, can.max_recv_sge);
            Failure::text(Errno::INVAL, why)
        })?;
        let mut wanted = SrqInitAttr::default();
        // As Linux, which makes a limit with `ibv_modify_srq` alone.
        (wanted.max_wr, wanted.max_sge, wanted.limit) = (attr.attr.max_wr, max_sge, 0);
        let queue = pd.domain().create_srq(&wanted)?;
        attr.attr.max_wr = queue.capacity();
        let number = queue.number();
        let base = ibv_srq {
            context: pd.context_pointer(),
            srq_context: attr.srq_context,
            pd: pd.pointer(),
            handle: number,
            ..ibv_srq::zeroed()
        };
        pd.users.add();
        let srq = Box::new(Self {
            base: Raw::new(base),
            queue: Lock::new(queue, pd.single_threaded()),
            card,
            max_sge: attr.attr.max_sge,
            users: Users::default(),
            acks: Acks::default(),
        });
        let srq = srq.give();
        card.objects().srqs.insert(number, srq.cast_const().cast());
        Ok(srq)
    }
}

/// Creates a shared receive queue.
///
/// # Safety
/// The domain lives, `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: as promised.
    pointer("ibv_create_srq", Srq::create(unsafe { Pd::of(pd) }, unsafe { &mut *attr }))
}

fn create_ex(attr: &mut ibv_srq_init_attr_ex) -> Result<*mut ibv_srq> {
    let kind = match attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE {
        0 => IBV_SRQT_BASIC,
        _ => attr.srq_type,
    };
    let known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    if kind != IBV_SRQT_BASIC || attr.comp_mask & !known != 0 {
        return Err(Failure::unsupported(
            "the card has basic shared receive queues: no XRC, no tag matching",
        ));
    }
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        return Err(Failure::invalid("comp_mask lacks IBV_SRQ_INIT_ATTR_PD, or pd is null"));
    }
    let mut plain = ibv_srq_init_attr { srq_context: attr.srq_context, attr: attr.attr };
    // SAFETY: the program gives a domain that lives.
    let srq = Srq::create(unsafe { Pd::of(attr.pd) }, &mut plain)?;
    attr.attr = plain.attr;
    Ok(srq)
}

/// Creates a shared receive queue with further attributes.
///
/// # Safety
/// The context is open, `attr` is valid.
pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    let _ = context;
    // SAFETY: as promised.
    pointer("ibv_create_srq_ex", create_ex(unsafe { &mut *attr }))
}

fn modify(srq: &Srq, attr: &ibv_srq_attr, mask: u32) -> Result<()> {
    srq.context().card()?;
    if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
        return Err(Failure::invalid("srq_attr_mask has unknown bits"));
    }
    if mask & IBV_SRQ_MAX_WR != 0 {
        let has = srq.with(|queue| queue.capacity());
        if attr.max_wr > has || attr.max_wr == 0 {
            return Err(Failure::text(
                Errno::OPNOTSUPP,
                format!("the queue has {has} work requests, and the card cannot make it {}", attr.max_wr),
            ));
        }
    }
    if mask & IBV_SRQ_LIMIT != 0 {
        let limit = u16::try_from(attr.srq_limit);
        let limit = limit.map_err(|_| Failure::invalid("srq_limit is more than the queue has"))?;
        srq.with(|queue| queue.arm_limit(limit))?;
    }
    Ok(())
}

/// Arms the limit of a shared receive queue, whose size stays.
///
/// # Safety
/// The queue lives, `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
) -> c_int {
    // SAFETY: as promised.
    let result = modify(unsafe { Srq::of(srq) }, unsafe { &*attr }, srq_attr_mask as u32);
    number("ibv_modify_srq", result)
}

/// Queries a shared receive queue.
///
/// # Safety
/// The queue lives, `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: as promised.
    let srq = unsafe { Srq::of(srq) };
    let found = srq.context().card().and_then(|_| {
        srq.with(|queue| {
            let status = queue.query()?;
            Ok(ibv_srq_attr {
                max_wr: queue.capacity(),
                max_sge: srq.max_sge,
                srq_limit: status.limit.into(),
            })
        })
    });
    // SAFETY: as promised.
    number("ibv_query_srq", found.map(|found| unsafe { *attr = found }))
}

/// The number of a shared receive queue on the card.
///
/// # Safety
/// The queue lives, `number` is valid.
pub unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int {
    // SAFETY: as promised.
    unsafe { *srq_num = (*srq).handle };
    0
}

/// Destroys a shared receive queue, after the program has acknowledged its events.
///
/// # Safety
/// The queue lives, and is not used any more if this succeeds.
#[no_mangle]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: as promised.
    let shared = unsafe { Srq::of(srq) };
    if shared.card.is_inherited() {
        return 0;
    }
    if let Err(failure) = shared.users.none("shared receive queue") {
        return number("ibv_destroy_srq", Err(failure));
    }
    let context = shared.context();
    if let crate::context::Backend::Card(card) = context.backend {
        let number = shared.with(|queue| queue.number());
        card.objects().srqs.remove(&number);
    }
    // From here on no event of it comes.
    context.events.remove(|pending| pending.is_about(srq));
    shared.acks.wait();
    shared.pd().users.remove();
    // SAFETY: nothing uses it.
    let own = unsafe { Srq::back(srq) };
    if let Err(error) = own.queue.into_inner().destroy() {
        report("ibv_destroy_srq", &error.into());
    }
    0
}

/// Posts receives to a shared receive queue.
///
/// # Safety
/// The queue lives, the list is valid.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    const CALL: &str = "ibv_post_srq_recv";
    // SAFETY: as promised.
    let srq = unsafe { Srq::of(srq) };
    if srq.card.is_dead() {
        // SAFETY: as promised.
        return unsafe { post::refuse(CALL, wr, bad_wr, srq.card.gone()) };
    }
    let mut queue = srq.queue.lock();
    // SAFETY: as promised.
    unsafe { post::receives(CALL, srq.pd().null(), queue.start_post_recv(), wr, bad_wr) }
}

const _: functions::ibv_create_srq = ibv_create_srq;
const _: functions::ibv_modify_srq = ibv_modify_srq;
const _: functions::ibv_query_srq = ibv_query_srq;
const _: functions::ibv_destroy_srq = ibv_destroy_srq;
