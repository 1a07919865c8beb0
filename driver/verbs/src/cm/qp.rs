// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs and queues of identifiers; [`Managed`]: how the service takes a queue pair through its states.

use core::ffi::c_int;
use std::ptr;

use ferrowire::{QpAttributes, QpState, Service as Transport};
use ferrowire_net::rdma::ManagedQp;
use rustix::io::Errno;

use super::id::{seen, Id, Made};
use super::{address, zero};
use crate::abi::*;
use crate::card::Card;
use crate::context::Backend;
use crate::failure::{Failure, Result};
use crate::log::say;
use crate::modify::{apply, source_port};
use crate::qp::{state_code, state_of, Qp};
use crate::query::mtu_code;
use crate::{channel, cq, qp, srq};

/// A queue pair of the program that the service takes through its states, in the program's thread.
pub struct Managed<'a>(pub &'a Qp);

impl Managed<'_> {
    /// There will be no connection: work requests end with errors.
    pub fn give_up(&mut self) {
        if let Err(error) = self.modify(QpState::Err, &QpAttributes::default()) {
            say!("queue pair {}: {error}", self.0.number());
        }
    }
}

impl ManagedQp for Managed<'_> {
    fn number(&self) -> u32 {
        self.0.number()
    }

    fn modify(&mut self, to: QpState, attributes: &QpAttributes) -> ferrowire::Result<()> {
        let mut new = *attributes;
        let (own, label) = (self.0.number(), attributes.av.map_or(0, |way| way.flow_label));
        // As `ibv_modify_qp` chooses it.
        new.sport = match attributes.dest_qpn {
            Some(peer) => Some(source_port(label, own, peer)),
            None if to == QpState::Rts && self.is_datagram() => Some(source_port(0, own, 1)),
            None => attributes.sport,
        };
        let card = match self.0.context().backend {
            Backend::Card(card) => Some(card),
            Backend::Observer(_) => None,
        };
        let (attr, mask) = verbs(card, attributes, to);
        apply(self.0, to, &new, &attr, mask)
    }
}

impl Managed<'_> {
    fn is_datagram(&self) -> bool {
        // SAFETY: the program does not change it.
        unsafe { (*self.0.pointer()).qp_type == IBV_QPT_UD }
    }
}

/// Attributes of the driver as verbs have them, and which are given.
fn verbs(card: Option<&Card>, from: &QpAttributes, to: QpState) -> (ibv_qp_attr, u32) {
    let mut attr = ibv_qp_attr { qp_state: state_code(to), ..ibv_qp_attr::zeroed() };
    let mut mask = IBV_QP_STATE;
    macro_rules! give {
        ($($bit:ident: $member:ident = $value:expr;)+) => {$(
            if let Some(value) = $value {
                mask |= $bit;
                attr.$member = value;
            }
        )+};
    }
    let rights = |access: ferrowire::AccessFlags| {
        [
            (ferrowire::AccessFlags::REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE),
            (ferrowire::AccessFlags::REMOTE_READ, IBV_ACCESS_REMOTE_READ),
            (ferrowire::AccessFlags::REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC),
        ]
        .into_iter()
        .filter(|(right, _)| access.contains(*right))
        .fold(0, |all, (_, bit)| all | bit)
    };
    give! {
        IBV_QP_ACCESS_FLAGS: qp_access_flags = from.access.map(rights);
        IBV_QP_QKEY: qkey = from.qkey;
        IBV_QP_PATH_MTU: path_mtu = from.path_mtu.map(mtu_code);
        IBV_QP_DEST_QPN: dest_qp_num = from.dest_qpn;
        IBV_QP_RQ_PSN: rq_psn = from.rq_psn.map(|psn| psn.get());
        IBV_QP_SQ_PSN: sq_psn = from.sq_psn.map(|psn| psn.get());
        IBV_QP_TIMEOUT: timeout = from.timeout;
        IBV_QP_RETRY_CNT: retry_cnt = from.retry_cnt;
        IBV_QP_RNR_RETRY: rnr_retry = from.rnr_retry;
        IBV_QP_MIN_RNR_TIMER: min_rnr_timer = from.min_rnr_timer;
        IBV_QP_MAX_QP_RD_ATOMIC: max_rd_atomic = from.max_rd_atomic;
        IBV_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = from.max_dest_rd_atomic;
        IBV_QP_AV: ah_attr = card.and_then(|card| Some(address::ah_attr(card, from.av.as_ref()?)));
    }
    if to == QpState::Init {
        // The only ones: both are 0 or 1.
        mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        attr.port_num = address::PORT;
    }
    (attr, mask)
}

/// Makes the completion queues that the program does not give, each with a channel.
fn queues(id: &Id, attr: &ibv_qp_init_attr) -> Result<Made> {
    let verbs = seen!(id, verbs);
    let mut made = Made::NONE;
    let queue = |entries: u32| -> Option<(*mut ibv_cq, *mut ibv_comp_channel)> {
        let entries = c_int::try_from(entries.max(1)).unwrap_or(c_int::MAX);
        // SAFETY: the context is open until the process ends.
        let channel = unsafe { channel::ibv_create_comp_channel(verbs) };
        if channel.is_null() {
            return None;
        }
        // SAFETY: as above; the channel was made just now.
        let cq = unsafe { cq::ibv_create_cq(verbs, entries, id.pointer().cast(), channel, 0) };
        if cq.is_null() {
            // SAFETY: nothing uses it.
            unsafe { channel::ibv_destroy_comp_channel(channel) };
            return None;
        }
        Some((cq, channel))
    };
    let receives = match attr.srq.is_null() {
        true => attr.cap.max_recv_wr,
        false => {
            let mut shared = ibv_srq_attr::zeroed();
            // SAFETY: the program gives a queue that lives.
            let known = unsafe { srq::ibv_query_srq(attr.srq, &mut shared) } == 0;
            if known {
                shared.max_wr.max(attr.cap.max_recv_wr)
            } else {
                attr.cap.max_recv_wr
            }
        }
    };
    let failed = || {
        let why = "no completion queue for the queue pair; give one with send_cq and recv_cq".to_string();
        Failure::text(errno(), why)
    };
    if attr.recv_cq.is_null() {
        (made.recv_cq, made.recv_channel) = queue(receives).ok_or_else(failed)?;
    }
    if attr.send_cq.is_null() {
        match queue(attr.cap.max_send_wr) {
            Some((cq, channel)) => (made.send_cq, made.send_channel) = (cq, channel),
            None => {
                let failure = failed();
                end_queues(id, made);
                return Err(failure);
            }
        }
    }
    Ok(made)
}

/// Ends the queues that were made for an identifier, and takes them out of what the program sees.
fn end_queues(id: &Id, made: Made) {
    let base = id.pointer();
    // SAFETY: the queues are this library's, and nothing uses them.
    unsafe {
        for (cq, channel) in [(made.send_cq, made.send_channel), (made.recv_cq, made.recv_channel)] {
            if !cq.is_null() {
                cq::ibv_destroy_cq(cq);
            }
            if !channel.is_null() {
                channel::ibv_destroy_comp_channel(channel);
            }
        }
        if !made.send_cq.is_null() {
            (*base).send_cq = ptr::null_mut();
            (*base).send_cq_channel = ptr::null_mut();
        }
        if !made.recv_cq.is_null() {
            (*base).recv_cq = ptr::null_mut();
            (*base).recv_cq_channel = ptr::null_mut();
        }
    }
}

/// The error number that a call of verbs has left.
fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The domain that a program gives, or that of the identifier.
fn domain(id: &Id, pd: *mut ibv_pd) -> Result<*mut ibv_pd> {
    let verbs = seen!(id, verbs);
    if verbs.is_null() {
        return Err(Failure::invalid("the identifier has no card yet; resolve an address first"));
    }
    let pd = if pd.is_null() { seen!(id, pd) } else { pd };
    // SAFETY: the program gives a domain that lives.
    if pd.is_null() || unsafe { (*pd).context } != verbs {
        return Err(Failure::invalid("the domain is not of the identifier's context `verbs`"));
    }
    Ok(pd)
}

/// What a queue pair is made of, checked and filled up; and the queues that were made for it.
fn prepare(id: &Id, pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr) -> Result<(*mut ibv_pd, Made)> {
    id.process.check()?;
    if !seen!(id, qp).is_null() {
        return Err(Failure::invalid("the identifier has a queue pair"));
    }
    let pd = domain(id, pd)?;
    let own = seen!(id, qp_type);
    if attr.qp_type != own {
        let datagrams = [attr.qp_type, own].contains(&IBV_QPT_UD);
        if datagrams || ![IBV_QPT_RC, IBV_QPT_UC].contains(&attr.qp_type) {
            let why = format!("qp_type {} is not that of the identifier, {own}", attr.qp_type);
            return Err(Failure::text(Errno::INVAL, why));
        }
        let transport = if attr.qp_type == IBV_QPT_UC { Transport::Uc } else { Transport::Rc };
        id.with(|id| id.set_transport(transport))?;
        // SAFETY: the member is this library's.
        unsafe { (*id.pointer()).qp_type = attr.qp_type };
    }
    one_of("send_cq", seen!(id, send_cq), &mut attr.send_cq)?;
    one_of("recv_cq", seen!(id, recv_cq), &mut attr.recv_cq)?;
    one_of("srq", seen!(id, srq), &mut attr.srq)?;
    let made = queues(id, attr)?;
    if attr.send_cq.is_null() {
        attr.send_cq = made.send_cq;
    }
    if attr.recv_cq.is_null() {
        attr.recv_cq = made.recv_cq;
    }
    Ok((pd, made))
}

/// An object of the identifier, or one of the program: not two.
fn one_of<T>(name: &str, own: *mut T, given: &mut *mut T) -> Result<()> {
    if given.is_null() {
        *given = own;
    } else if !own.is_null() && own != *given {
        return Err(Failure::text(Errno::INVAL, format!("the identifier has another {name}")));
    }
    Ok(())
}

/// A queue pair was made: takes it as far as it goes without a peer, and shows it.
fn begin(id: &Id, pd: *mut ibv_pd, qp: *mut ibv_qp, made: Made) -> Result<()> {
    let result = match qp.is_null() {
        true => Err(Failure::text(errno(), "no queue pair; see the line above".into())),
        // SAFETY: it was made just now.
        false => id.with(|id| id.init_qp(&mut Managed(unsafe { Qp::of(qp) }))),
    };
    if let Err(failure) = result {
        if !qp.is_null() {
            // SAFETY: nothing uses it.
            unsafe { qp::ibv_destroy_qp(qp) };
        }
        end_queues(id, made);
        return Err(failure);
    }
    id.own().made = made;
    let base = id.pointer();
    // SAFETY: the program reads these members after the call.
    unsafe {
        (*base).qp = qp;
        (*base).pd = pd;
        if !made.send_cq.is_null() {
            ((*base).send_cq, (*base).send_cq_channel) = (made.send_cq, made.send_channel);
        }
        if !made.recv_cq.is_null() {
            ((*base).recv_cq, (*base).recv_cq_channel) = (made.recv_cq, made.recv_channel);
        }
    }
    Ok(())
}

/// Creates the queue pair of an identifier, in INIT, or in RTS if it is of datagrams.
///
/// # Safety
/// The objects live.
pub unsafe fn create(id: &Id, pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr) -> Result<()> {
    let mut filled = *attr;
    let (pd, made) = prepare(id, pd, &mut filled)?;
    // SAFETY: as promised.
    let qp = unsafe { qp::ibv_create_qp(pd, &mut filled) };
    begin(id, pd, qp, made)?;
    // Queues of an attempt that has failed are gone, so the program gets nothing of those.
    *attr = filled;
    Ok(())
}

/// Creates the queue pair of an identifier. What the program does not give is made: the domain, and completion queues with channels.
///
/// # Safety
/// The identifier lives, `pd` is null or lives, `qp_init_attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: as promised.
    zero("rdma_create_qp", unsafe { create(Id::of(id), pd, &mut *qp_init_attr) })
}

/// # Safety
/// The objects in the attributes live.
unsafe fn create_ex(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Result<()> {
    let given = attr.comp_mask & IBV_QP_INIT_ATTR_PD != 0;
    let mut plain = crate::qp::plain(attr);
    let (pd, made) = prepare(id, if given { attr.pd } else { ptr::null_mut() }, &mut plain)?;
    // Programs of older headers have fewer members: no copy of the whole.
    let before = (attr.send_cq, attr.recv_cq, attr.srq, attr.pd, attr.comp_mask);
    (attr.send_cq, attr.recv_cq, attr.srq, attr.pd) = (plain.send_cq, plain.recv_cq, plain.srq, pd);
    attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
    let verbs = seen!(id, verbs);
    // SAFETY: as promised.
    let qp = unsafe { qp::create_qp_ex(verbs, attr) };
    let begun = begin(id, pd, qp, made);
    if begun.is_err() {
        // Queues that were made for it are gone.
        (attr.send_cq, attr.recv_cq, attr.srq, attr.pd, attr.comp_mask) = before;
    }
    begun
}

/// The same with further attributes.
///
/// # Safety
/// The identifier lives, `qp_init_attr` is valid, and so are the objects in it.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_create_qp_ex(
    id: *mut rdma_cm_id,
    qp_init_attr: *mut ibv_qp_init_attr_ex,
) -> c_int {
    // SAFETY: as promised.
    zero("rdma_create_qp_ex", unsafe { create_ex(Id::of(id), &mut *qp_init_attr) })
}

/// Destroys the queue pair of an identifier, with the queues that were made for it.
///
/// # Safety
/// The identifier lives, its queue pair is not used any more.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_destroy_qp(id: *mut rdma_cm_id) {
    // SAFETY: as promised.
    let id = unsafe { Id::of(id) };
    if let Err(failure) = id.process.check() {
        crate::failure::report("rdma_destroy_qp", &failure);
        return;
    }
    // SAFETY: as promised; the member is this library's.
    unsafe {
        let qp = std::mem::replace(&mut (*id.pointer()).qp, ptr::null_mut());
        if !qp.is_null() {
            qp::ibv_destroy_qp(qp);
        }
    }
    let made = std::mem::replace(&mut id.own().made, Made::NONE);
    end_queues(id, made);
}

/// Checks what a shared receive queue is made of; its domain.
fn prepare_srq(id: &Id, pd: *mut ibv_pd) -> Result<*mut ibv_pd> {
    id.process.check()?;
    if !seen!(id, srq).is_null() {
        return Err(Failure::invalid("the identifier has a shared receive queue"));
    }
    domain(id, pd)
}

fn begin_srq(id: &Id, pd: *mut ibv_pd, srq: *mut ibv_srq) -> Result<()> {
    if srq.is_null() {
        return Err(Failure::text(errno(), "no shared receive queue; see the line above".into()));
    }
    // SAFETY: the program reads these members after the call.
    unsafe {
        (*id.pointer()).srq = srq;
        (*id.pointer()).pd = pd;
    }
    Ok(())
}

/// Creates the shared receive queue of an identifier.
///
/// # Safety
/// The identifier lives, `pd` is null or lives, `attr` is valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    // SAFETY: as promised.
    let id = unsafe { Id::of(id) };
    let made = prepare_srq(id, pd).and_then(|pd| {
        // SAFETY: as promised.
        begin_srq(id, pd, unsafe { srq::ibv_create_srq(pd, attr) })
    });
    zero("rdma_create_srq", made)
}

/// The same with further attributes.
///
/// # Safety
/// The identifier lives, `attr` is valid, and so are the objects in it.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_create_srq_ex(
    id: *mut rdma_cm_id,
    attr: *mut ibv_srq_init_attr_ex,
) -> c_int {
    // SAFETY: as promised.
    let (id, attr) = unsafe { (Id::of(id), &mut *attr) };
    let given = attr.comp_mask & IBV_SRQ_INIT_ATTR_PD != 0;
    let verbs = seen!(id, verbs);
    let made = prepare_srq(id, if given { attr.pd } else { ptr::null_mut() }).and_then(|pd| {
        attr.pd = pd;
        attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
        // SAFETY: as promised.
        begin_srq(id, pd, unsafe { srq::create_srq_ex(verbs, attr) })
    });
    zero("rdma_create_srq_ex", made)
}

/// Destroys the shared receive queue of an identifier, after its queue pair.
///
/// # Safety
/// The identifier lives, the queue is not used any more.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_destroy_srq(id: *mut rdma_cm_id) {
    // SAFETY: as promised.
    let id = unsafe { Id::of(id) };
    if let Err(failure) = id.process.check() {
        crate::failure::report("rdma_destroy_srq", &failure);
        return;
    }
    let srq = seen!(id, srq);
    // SAFETY: as promised; the member is this library's.
    unsafe {
        if !srq.is_null() && srq::ibv_destroy_srq(srq) == 0 {
            (*id.pointer()).srq = ptr::null_mut();
        }
    }
}

fn init_attr(id: &Id, attr: &mut ibv_qp_attr) -> Result<u32> {
    let state = attr.qp_state;
    let to = state_of(state).filter(|to| matches!(to, QpState::Init | QpState::Rtr | QpState::Rts));
    let to = to.ok_or_else(|| {
        Failure::text(Errno::INVAL, format!("qp_state {state} is none of INIT, RTR and RTS"))
    })?;
    let mut found = id.with(|id| id.qp_attributes(to))?;
    if to == QpState::Rtr {
        // Rights are those of INIT (as Linux): what the program has added there stays.
        found.access = None;
    }
    let card = id.card()?;
    let (found, mask) = verbs(Some(card), &found, to);
    *attr = found;
    Ok(mask)
}

/// The attributes with which a queue pair that the program has made goes to `qp_attr->qp_state`.
///
/// # Safety
/// The identifier lives, the pointers are valid.
#[no_mangle]
pub unsafe extern "C" fn ferrowire_rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    qp_attr: *mut ibv_qp_attr,
    qp_attr_mask: *mut c_int,
) -> c_int {
    // SAFETY: as promised.
    let found = unsafe { init_attr(Id::of(id), &mut *qp_attr) };
    // SAFETY: as promised.
    zero("rdma_init_qp_attr", found.map(|mask| unsafe { *qp_attr_mask = mask as c_int }))
}

const _: cma_functions::rdma_create_qp = ferrowire_rdma_create_qp;
const _: cma_functions::rdma_create_qp_ex = ferrowire_rdma_create_qp_ex;
const _: cma_functions::rdma_destroy_qp = ferrowire_rdma_destroy_qp;
const _: cma_functions::rdma_create_srq = ferrowire_rdma_create_srq;
const _: cma_functions::rdma_create_srq_ex = ferrowire_rdma_create_srq_ex;
const _: cma_functions::rdma_destroy_srq = ferrowire_rdma_destroy_srq;
const _: cma_functions::rdma_init_qp_attr = ferrowire_rdma_init_qp_attr;

#[cfg(test)]
mod tests {
    use ferrowire::{AccessFlags, PathMtu, Psn};

    use super::*;

    #[test]
    fn attributes_of_the_service_have_the_bits_of_verbs() {
        let init = QpAttributes::new().pkey(0xffff).access(AccessFlags::REMOTE_WRITE);
        let (attr, mask) = verbs(None, &init, QpState::Init);
        assert_eq!(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        assert_eq!((attr.qp_state, attr.port_num), (IBV_QPS_INIT, 1));
        assert_eq!(attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
        let rtr = QpAttributes::new()
            .path_mtu(PathMtu::B1024)
            .dest_qpn(7)
            .rq_psn(Psn::new(8))
            .max_dest_rd_atomic(Some(4))
            .min_rnr_timer(Some(12));
        let (attr, mask) = verbs(None, &rtr, QpState::Rtr);
        let expected = IBV_QP_STATE
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        assert_eq!(mask, expected);
        assert_eq!((attr.path_mtu, attr.dest_qp_num, attr.rq_psn), (IBV_MTU_1024, 7, 8));
        let ud = QpAttributes::new().pkey(0xffff).qkey(0x0123_4567);
        let (attr, mask) = verbs(None, &ud, QpState::Init);
        assert_eq!(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
        assert_eq!(attr.qkey, RDMA_UDP_QKEY);
    }
}
