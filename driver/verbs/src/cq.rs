// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Cq`]: completion queues and their completions.

use core::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use ferrowire::{Coded, Completion, CompletionQueue, CompletionTarget, CqeOpcode, Error, WcStatus};
use rustix::io::Errno;

use crate::abi::*;
use crate::card::Card;
use crate::channel::Channel;
use crate::context::Context;
use crate::count::{Acks, Users};
use crate::cq_ex;
use crate::failure::{number, pointer, report, Failure, Result};
use crate::fork::INHERITED;
use crate::lock::{Guard, Hold, Lock};
use crate::raw::{object, Raw};

/// Completions that are taken at a time.
const BATCH: usize = 16;

/// A completion queue, with accessors or without.
#[repr(C)]
pub struct Cq {
    /// Its first members are those of `ibv_cq`.
    base: Raw<ibv_cq_ex>,
    polled: Lock<Polled>,
    card: &'static Card,
    /// Where queue pairs complete.
    pub target: CompletionTarget,
    /// Queue pairs that complete there.
    pub users: Users,
    /// Events that the program was given.
    pub acks: Acks,
    /// Asynchronous events that the program was given.
    pub async_acks: Acks,
    /// What a thread has from `ibv_start_poll` to `ibv_end_poll`.
    pub session: Hold<Polled>,
}

object!(Cq, ibv_cq);

/// What polling changes.
pub struct Polled {
    queue: CompletionQueue,
    /// Completions that were taken, for a moment.
    batch: [Completion; BATCH],
    /// The completion that `ibv_start_poll` or `ibv_next_poll` has taken.
    pub current: Completion,
}

/// How a completion queue is made.
pub struct Wanted {
    /// Entries.
    pub entries: c_int,
    /// The program's own pointer.
    pub cq_context: *mut c_void,
    /// Where events go.
    pub channel: *mut ibv_comp_channel,
    /// The interrupt vector.
    pub vector: c_int,
    /// The program polls it in one thread at a time.
    pub single_threaded: bool,
}

impl Cq {
    /// The queue of a program's pointer to one with accessors.
    ///
    /// # Safety
    /// The pointer came from this library, and the queue lives.
    pub unsafe fn of_ex<'a>(cq: *mut ibv_cq_ex) -> &'a Self {
        // SAFETY: as promised.
        unsafe { Self::of(cq.cast()) }
    }

    /// The pointer of programs to a queue with accessors.
    pub fn pointer_ex(&self) -> *mut ibv_cq_ex {
        self.pointer().cast()
    }

    /// The context.
    pub fn context(&self) -> &Context {
        // SAFETY: the program does not change it, and a context outlives its queues.
        unsafe { Context::of((*self.base.get()).context) }
    }

    /// The channel.
    pub fn channel(&self) -> Option<&Channel> {
        // SAFETY: as above.
        unsafe {
            let channel = (*self.base.get()).channel;
            (!channel.is_null()).then(|| Channel::of(channel))
        }
    }

    /// The queue, for one thread.
    pub fn lock(&self) -> Guard<'_, Polled> {
        self.polled.lock()
    }

    /// Calls `f` with the queue, which this thread has already or gets for that.
    fn with<R>(&self, f: impl FnOnce(&mut CompletionQueue) -> R) -> R {
        // SAFETY: the thread is in one call of this library, which uses the queue here alone.
        match unsafe { self.session.mine() } {
            Some(polled) => f(&mut polled.queue),
            None => f(&mut self.lock().queue),
        }
    }

    /// Makes a queue, for the program.
    pub fn create(context: &Context, wanted: &Wanted) -> Result<*mut ibv_cq> {
        let card = context.card()?;
        let entries = u32::try_from(wanted.entries).ok().filter(|entries| *entries > 0);
        let entries = entries.ok_or(Failure::invalid("cqe must be at least 1"))?;
        // SAFETY: the context is open; the program does not change it.
        let vectors = unsafe { (*context.pointer()).num_comp_vectors };
        if !(0..vectors).contains(&wanted.vector) {
            return Err(Failure::text(
                Errno::INVAL,
                format!("comp_vector {}: the device has {vectors} vectors", wanted.vector),
            ));
        }
        let mut queue = match wanted.channel.is_null() {
            true => card.context.create_cq(entries)?,
            false => card.context.create_cq_with_events(entries, &card.events)?,
        };
        // Where the card is to be let run, `idle` does it, without the lock.
        queue.leave_progress();
        let target = queue.target();
        let base = ibv_cq_ex {
            context: context.pointer(),
            channel: wanted.channel,
            cq_context: wanted.cq_context,
            handle: queue.number(),
            cqe: queue.capacity() as c_int,
            ..cq_ex::slots()
        };
        let cqn = queue.number();
        let cq = Box::new(Self {
            base: Raw::new(base),
            polled: Lock::new(
                Polled { queue, batch: [Completion::default(); BATCH], current: Completion::default() },
                wanted.single_threaded,
            ),
            card,
            target,
            users: Users::default(),
            acks: Acks::default(),
            async_acks: Acks::default(),
            session: Hold::default(),
        });
        if let Some(channel) = cq.channel() {
            channel.use_by_one(true);
        }
        context.users.add();
        let cq = cq.give();
        card.objects().cqs.insert(cqn, cq.cast_const().cast());
        Ok(cq)
    }

    fn number(&self) -> u32 {
        // SAFETY: the program does not change it.
        unsafe { (*self.base.get()).handle }
    }

    /// Takes up to `out.len()` completions.
    #[inline]
    fn poll(queue: &mut CompletionQueue, out: &mut [Completion]) -> Result<usize> {
        match queue.poll(out) {
            Ok(count) => Ok(count),
            Err(error) => Self::go_on(queue, out, error),
        }
    }

    /// Takes completions after an entry that belongs to none: it is passed over, and those after it are good.
    #[cold]
    fn go_on(queue: &mut CompletionQueue, out: &mut [Completion], mut error: Error) -> Result<usize> {
        while let Error::UnexpectedCompletion { .. } = error {
            report("ibv_poll_cq", &error.into());
            match queue.poll(out) {
                Ok(count) => return Ok(count),
                Err(next) => error = next,
            }
        }
        Err(error.into())
    }

    /// Takes the next completion; `ENOENT` if there is none.
    pub fn take_one(polled: &mut Polled) -> Result<(), Errno> {
        let mut one = [Completion::default()];
        match Self::poll(&mut polled.queue, &mut one) {
            Ok(1..) => {
                [polled.current] = one;
                Ok(())
            }
            Ok(_) => Err(Errno::NOENT),
            Err(failure) => Err(report("ibv_start_poll", &failure)),
        }
    }

    /// After a look that found nothing: an error if nothing will come; otherwise a simulated card is let run. Other threads have the queue meanwhile.
    #[inline(never)]
    pub fn idle(&self) -> Result<()> {
        match self.card.is_dead() {
            true => Err(self.card.gone()),
            false => Ok(self.card.context.progress()?),
        }
    }

    /// Refuses calls in a forked child, for the parent's queue: see [`crate::fork`].
    #[inline]
    pub fn own(&self) -> Result<()> {
        match self.card.is_inherited() {
            true => Err(INHERITED),
            false => Ok(()),
        }
    }
}

/// The status as verbs have it: the numbers are the same.
pub fn status(status: Coded<WcStatus>) -> ibv_wc_status {
    match status {
        Coded::Known(status) => c_uint::from(status.code()),
        Coded::Unknown(_) => IBV_WC_GENERAL_ERR,
    }
}

/// The status of a completion, which is of a success in most cases.
#[inline]
fn status_of(completion: &Completion) -> ibv_wc_status {
    #[cold]
    fn failure(completion: &Completion) -> ibv_wc_status {
        status(completion.status())
    }
    match completion.is_success() {
        true => IBV_WC_SUCCESS,
        false => failure(completion),
    }
}

/// Opcodes of verbs by those of the card. An unknown one is that of a SEND or of a receive.
const OPCODES: [u8; 256] = {
    use CqeOpcode as C;
    let mut table = [IBV_WC_SEND as u8; 256];
    let mut code = C::Recv as usize;
    while code < table.len() {
        table[code] = IBV_WC_RECV as u8;
        code += 1;
    }
    table[C::Write as usize] = IBV_WC_RDMA_WRITE as u8;
    table[C::WriteImm as usize] = IBV_WC_RDMA_WRITE as u8;
    table[C::Read as usize] = IBV_WC_RDMA_READ as u8;
    table[C::CmpSwap as usize] = IBV_WC_COMP_SWAP as u8;
    table[C::FetchAdd as usize] = IBV_WC_FETCH_ADD as u8;
    table[C::LocalInv as usize] = IBV_WC_LOCAL_INV as u8;
    table[C::BindMw as usize] = IBV_WC_BIND_MW as u8;
    table[C::RecvWriteImm as usize] = IBV_WC_RECV_RDMA_WITH_IMM as u8;
    table
};

/// The opcode as verbs have it. It says nothing of failures.
#[inline]
pub fn opcode(completion: &Completion) -> ibv_wc_opcode {
    OPCODES[usize::from(completion.opcode_code())].into()
}

/// Flags of a completion.
pub fn wc_flags(completion: &Completion) -> c_uint {
    let mut flags = 0;
    if completion.imm().is_some() {
        flags |= IBV_WC_WITH_IMM;
    }
    if completion.invalidated().is_some() {
        flags |= IBV_WC_WITH_INV;
    }
    if completion.src_qpn().is_some() {
        flags |= IBV_WC_GRH;
    }
    flags
}

/// What the completion of a received datagram has in `sl`, of which RoCE has none; 0 for others. IBTA A17.4.5.1 has the completion say
/// whether the packet was of IPv4 or IPv6, and verbs have no member for it. Devices of mlx5 say it here, and UCX 1.13 looks here for
/// where the destination is in the 40 bytes before the datagram: in bits 2 to 0, 1 is IPv6 and 2 is IPv4; bit 3 says that there was a UDP
/// header.
pub fn packet_type(completion: &Completion) -> u8 {
    completion.is_ipv4().map_or(0, |ipv4| if ipv4 { PACKET_IPV4 } else { PACKET_IPV6 })
}

/// A packet of IPv6 in `sl`.
pub const PACKET_IPV6: u8 = 8 | 1;
/// A packet of IPv4.
pub const PACKET_IPV4: u8 = 8 | 2;

/// Immediate data in network byte order, or the key that was invalidated.
pub fn immediate(completion: &Completion) -> u32 {
    completion.imm().map(u32::to_be).or(completion.invalidated()).unwrap_or(0)
}

/// A completion as verbs have it.
#[inline]
fn to_wc(completion: &Completion) -> ibv_wc {
    let mut wc = ibv_wc {
        wr_id: completion.wr_id(),
        status: status_of(completion),
        opcode: opcode(completion),
        vendor_err: completion.syndrome().into(),
        byte_len: completion.byte_len(),
        qp_num: completion.qpn(),
        ..ibv_wc::zeroed()
    };
    if !completion.is_bare() {
        wc.imm = ibv_wc_imm { imm_data: immediate(completion) };
        wc.src_qp = completion.src_qpn().unwrap_or(0);
        wc.sl = packet_type(completion);
        wc.wc_flags = wc_flags(completion);
    }
    wc
}

/// Says that polling failed.
#[cold]
fn failed(failure: &Failure) -> c_int {
    report("ibv_poll_cq", failure);
    -1
}

/// Takes completions: how many there were, or -1.
///
/// # Safety
/// The queue lives, `wc` has room for `num_entries`.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: as promised.
    let cq = unsafe { Cq::of(cq) };
    if let Err(failure) = cq.own() {
        return failed(&failure);
    }
    let wanted = usize::try_from(num_entries).unwrap_or(0);
    if wanted == 0 {
        return 0;
    }
    let mut polled = cq.lock();
    let Polled { queue, batch, .. } = &mut *polled;
    let mut taken = 0;
    loop {
        let room = (wanted - taken).min(BATCH);
        let count = match Cq::poll(queue, &mut batch[..room]) {
            Ok(0) if taken == 0 => {
                drop(polled);
                return cq.idle().map_or_else(|failure| failed(&failure), |()| 0);
            }
            Ok(count) => count,
            // What was taken is handed out; the error comes again.
            Err(_) if taken > 0 => break,
            Err(failure) => return failed(&failure),
        };
        // SAFETY: the program has room for `wanted`, and so for these.
        let places =
            unsafe { std::slice::from_raw_parts_mut(wc.add(taken).cast::<MaybeUninit<ibv_wc>>(), room) };
        for (place, completion) in places.iter_mut().zip(&batch[..count]) {
            place.write(to_wc(completion));
        }
        taken += count;
        if count < BATCH || taken == wanted {
            break;
        }
    }
    taken as c_int
}

/// Asks for an event with the next completion, or with the next that is solicited or failed; for none with those that are there.
///
/// # Safety
/// The queue lives.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: as promised.
    let cq = unsafe { Cq::of(cq) };
    let armed = cq.own().and_then(|()| match cq.channel() {
        // Nothing can wait for the event.
        None => Ok(()),
        Some(_) => Ok(cq.with(|queue| queue.request_notify_of_next(solicited_only != 0))?),
    });
    number("ibv_req_notify_cq", armed)
}

/// Creates a completion queue.
///
/// # Safety
/// The context is open; `channel` is null or lives.
#[no_mangle]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: as promised.
    let context = unsafe { Context::of(context) };
    let wanted = Wanted { entries: cqe, cq_context, channel, vector: comp_vector, single_threaded: false };
    pointer("ibv_create_cq", Cq::create(context, &wanted))
}

/// Makes room for `cqe` completions, whatever is in it and outstanding; threads that poll, post and arm go on.
///
/// # Safety
/// The queue lives.
#[no_mangle]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: as promised.
    let cq = unsafe { Cq::of(cq) };
    if let Err(failure) = cq.own() {
        return number("ibv_resize_cq", Err(failure));
    }
    let result = match u32::try_from(cqe) {
        Ok(0) | Err(_) => Err(Failure::invalid("cqe must be at least 1")),
        Ok(wanted) => cq.with(|queue| {
            queue.resize(wanted)?;
            // SAFETY: programs read it alone, and two threads that resize do so in turns.
            unsafe { (*cq.base.get()).cqe = queue.capacity() as c_int };
            Ok(())
        }),
    };
    number("ibv_resize_cq", result)
}

/// Changes the moderation of events.
///
/// # Safety
/// The queue lives, `attr` is valid.
pub unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    // SAFETY: as promised.
    let (cq, attr) = unsafe { (Cq::of(cq), &*attr) };
    let moderate = || -> Result<()> {
        cq.own()?;
        match attr.attr_mask {
            IBV_CQ_ATTR_MODERATE => {}
            0 => return Err(Failure::invalid("attr_mask must be IBV_CQ_ATTR_MODERATE")),
            _ => return Err(Failure::unsupported("attr_mask has more than IBV_CQ_ATTR_MODERATE")),
        }
        let ibv_moderate_cq { cq_count, cq_period } = attr.moderate;
        Ok(cq.target.moderate(cq_count, cq_period)?)
    };
    number("ibv_modify_cq", moderate())
}

/// Destroys a completion queue, after the program has acknowledged its events.
///
/// # Safety
/// The queue lives, and is not used any more if this succeeds.
#[no_mangle]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    const CALL: &str = "ibv_destroy_cq";
    // SAFETY: as promised.
    let shared = unsafe { Cq::of(cq) };
    if shared.own().is_err() {
        return 0;
    }
    if let Err(failure) = shared.users.none("completion queue") {
        return number(CALL, Err(failure));
    }
    let context = shared.context();
    if let crate::context::Backend::Card(card) = context.backend {
        card.objects().cqs.remove(&shared.number());
    }
    // From here on no event of it comes.
    context.events.remove(|pending| pending.is_about(cq));
    if let Some(channel) = shared.channel() {
        channel.events.remove(|event| ptr::addr_eq(*event, cq));
    }
    shared.acks.wait();
    shared.async_acks.wait();
    if let Some(channel) = shared.channel() {
        channel.use_by_one(false);
    }
    context.users.remove();
    // SAFETY: nothing uses it.
    let Cq { polled, target, .. } = *unsafe { Cq::back(cq) };
    drop(target);
    match polled.into_inner().queue.destroy() {
        Ok(()) => {}
        // The number and the memory stay with the driver, and the program has no use for the queue.
        Err(error) => {
            report(CALL, &error.into());
        }
    }
    0
}

const _: functions::ibv_create_cq = ibv_create_cq;
const _: functions::ibv_resize_cq = ibv_resize_cq;
const _: functions::ibv_destroy_cq = ibv_destroy_cq;

#[cfg(test)]
mod tests {
    use ferrowire::spec::queue::cqe::Cqe;

    use super::*;

    #[test]
    fn a_completion_has_the_members_of_verbs() {
        let entry = Cqe {
            qpn: 9,
            receive: true,
            status: WcStatus::Success.code(),
            opcode: CqeOpcode::RecvWriteImm.code(),
            byte_len: 100,
            imm_valid: true,
            imm: 0x0102_0304,
            grh: true,
            src_qpn: 5,
            ..Cqe::default()
        };
        let completion = Completion::of_entry(7, &entry).unwrap();
        let wc = to_wc(&completion);
        assert_eq!((wc.wr_id, wc.status, wc.opcode), (7, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM));
        assert_eq!((wc.byte_len, wc.qp_num, wc.src_qp), (100, 9, 5));
        assert_eq!(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
        // The family of a datagram's packet.
        for (grh, ipv4, sl) in [(true, true, 10), (true, false, 9), (false, false, 0)] {
            let completion = Completion::of_entry(7, &Cqe { grh, ipv4, ..entry }).unwrap();
            assert_eq!(to_wc(&completion).sl, sl);
        }
        // SAFETY: it was set so.
        assert_eq!(unsafe { wc.imm.imm_data }.to_ne_bytes(), [1, 2, 3, 4]);
    }

    #[test]
    fn statuses_have_the_numbers_of_verbs() {
        for (status, number) in [
            (WcStatus::LocLenErr, IBV_WC_LOC_LEN_ERR),
            (WcStatus::WrFlushErr, IBV_WC_WR_FLUSH_ERR),
            (WcStatus::RetryExcErr, IBV_WC_RETRY_EXC_ERR),
            (WcStatus::FatalErr, IBV_WC_FATAL_ERR),
            (WcStatus::GeneralErr, IBV_WC_GENERAL_ERR),
        ] {
            assert_eq!(super::status(Coded::Known(status)), number);
        }
        assert_eq!(super::status(Coded::Unknown(77)), IBV_WC_GENERAL_ERR);
    }
}
