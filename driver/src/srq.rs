// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SharedReceiveQueue`]: receives that the messages of several queue pairs take (IBTA 10.2.9).

use std::fmt;
use std::sync::Arc;

use ferrowire_spec::queue::command::create_srq::CreateSrq;
use ferrowire_spec::queue::command::modify_srq::ModifySrq;
use ferrowire_spec::queue::command_completion::srq_summary::SrqSummary;
use ferrowire_spec::queue::{doorbell, recv_wqe, CommandOpcode};

use crate::context::Device;
use crate::error::{Error, Result};
use crate::handle::OwnedDma;
use crate::pd::{Pd, ProtectionDomain};
use crate::recv::{Owner, PostRecv, RecvQueue};
use crate::tracker::Tracker;
use crate::work::{stride, WorkQueue};

const CREATE: &str = "create_srq";
const ARM: &str = "arm limit";

/// What a shared receive queue is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrqInitAttr {
    /// Work requests in the queue, made a power of two. Those that unfinished messages hold count.
    pub max_wr: u32,
    /// SGEs of each of them: 4 in slots of 64 bytes, 8 in 128, 16 in 256.
    pub max_sge: u8,
    /// The event `SrqLimit` comes when a message leaves fewer than that; 0: never. See
    /// [`arm_limit`](SharedReceiveQueue::arm_limit).
    pub limit: u16,
}

/// 256 work requests of one SGE, without limit.
impl Default for SrqInitAttr {
    fn default() -> Self {
        Self { max_wr: 256, max_sge: 1, limit: 0 }
    }
}

/// How full a shared receive queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrqStatus {
    /// Receives that no message has taken yet, of those that the card was told.
    pub left: u16,
    /// The armed limit; 0: none, or its event has been told.
    pub limit: u16,
}

/// The queue itself, held by the queue pairs that use it.
pub(crate) struct Srq {
    pub(crate) pd: Arc<Pd>,
    pub(crate) number: u32,
    entries: u32,
    live: bool,
    /// Its memory.
    ring: Arc<OwnedDma>,
    /// What those who poll need of it: which work request each WQE is.
    pub(crate) tracker: Arc<Tracker>,
}

impl Srq {
    fn device(&self) -> &Device {
        &self.pd.device
    }

    fn destroy(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.live) {
            return Ok(());
        }
        let result = self.device().commands.simple(CommandOpcode::DestroySrq, self.number);
        if result.is_ok() {
            if let Some(events) = self.device().tables(|t| t.asynchronous.upgrade()) {
                events.forget_srq(self.number);
            }
            self.device().tables(|t| t.srqs.give_back(self.number));
        } else {
            self.ring.leak();
        }
        result.map(|_| ())
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // A queue that the card does not give back keeps its number and its memory.
        let _ = self.destroy();
    }
}

/// A shared receive queue: see [`QpInitAttr::srq`](crate::QpInitAttr::srq).
///
/// The first packet of a message takes the oldest receive that is left, whichever of the queue pairs it is for, and holds it until
/// the message ends. Completions go to the completion queues of the queue pairs, and say by `wr_id` which receive it was: they come in
/// any order. SGEs are of the queue's protection domain, whatever those of the queue pairs are.
///
/// A queue pair that goes to ERR completes what its message holds, and leaves the others. When it has told of all that it took, the
/// event `LastWqe` says so: who waits for it before RESET or destruction loses no receive (IBTA 10.2.9.3). Without that, what
/// was completed and not polled yet, or held, is gone without completion, though its place in the queue is not.
///
/// Slots are given out in a ring: a message that does not end keeps the slot of its receive, and the ring goes no further than once
/// round from there. Move a queue pair whose peer has fallen silent to ERR.
///
/// `Send` and `Sync`; who posts has it alone, so posting takes no lock, and completion queues of any threads may be polled meanwhile. It
/// is destroyed when it and the last queue pair that uses it are gone.
pub struct SharedReceiveQueue {
    pub(crate) srq: Arc<Srq>,
    queue: RecvQueue,
}

impl fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedReceiveQueue({:#x}, {} entries)", self.srq.number, self.srq.entries)
    }
}

impl SharedReceiveQueue {
    /// Its number on the card.
    pub fn number(&self) -> u32 {
        self.srq.number
    }

    /// Work requests that it has room for.
    pub fn capacity(&self) -> u32 {
        self.srq.entries
    }

    /// Begins a batch of receives; the doorbell is rung once, at its end.
    pub fn start_post_recv(&mut self) -> PostRecv<'_> {
        PostRecv { device: self.srq.device(), queue: Ok(&mut self.queue) }
    }

    /// Asks for one event `SrqLimit`, which goes to the asynchronous event queue, when fewer than `limit` receives are left: at once if
    /// fewer are left already, so who arms misses nothing. It takes the place of a limit that was armed before; 0 takes that
    /// back.
    ///
    /// # Errors
    /// `Attribute` for more than the queue has, `Command` when the card refuses, `Timeout` when it does not answer.
    pub fn arm_limit(&self, limit: u16) -> Result<()> {
        let object = self.srq.number;
        check_limit(ARM, limit, self.srq.entries)?;
        let commands = &self.srq.device().commands;
        let command = |token| ModifySrq { token, object, limit, ..ModifySrq::default() }.to_bytes();
        commands.run(CommandOpcode::ModifySrq, object, command).map(|_| ())
    }

    /// Asks the card how many receives are left.
    ///
    /// # Errors
    /// `Command` when the card refuses, `Timeout` when it does not answer.
    pub fn query(&self) -> Result<SrqStatus> {
        let value = self.srq.device().commands.simple(CommandOpcode::QuerySrq, self.srq.number)?;
        let summary =
            SrqSummary::parse(&value.to_le_bytes()).map_err(|e| Error::from_spec("query_srq", e))?;
        Ok(SrqStatus { left: summary.posted.wrapping_sub(summary.taken), limit: summary.limit })
    }

    /// Destroys it, and says whether that worked.
    ///
    /// # Errors
    /// `Busy` while a queue pair uses it: then it is destroyed with the last of these. `Command` when
    /// the card refuses.
    pub fn destroy(self) -> Result<()> {
        let number = self.srq.number;
        let users = Arc::strong_count(&self.srq) - 1;
        match Arc::into_inner(self.srq) {
            Some(mut srq) => srq.destroy(),
            None => Err(Error::Busy { what: "shared receive queue", number, users: users.max(1) }),
        }
    }
}

fn check_limit(operation: &'static str, limit: u16, entries: u32) -> Result<()> {
    if u32::from(limit) <= entries {
        return Ok(());
    }
    let fix = format!("the queue has {entries} work requests; choose 0 to that");
    Err(Error::Attribute { operation, attribute: "limit", value: limit.into(), fix })
}

impl ProtectionDomain {
    /// Makes a shared receive queue. Its SGEs must be of this domain.
    ///
    /// # Errors
    /// `Attribute` when the card has none, or not in these sizes, `NoResource` when no queue is left, `Bus` when there is no memory,
    /// `Command` when the card refuses.
    pub fn create_srq(&self, attr: &SrqInitAttr) -> Result<SharedReceiveQueue> {
        let device = &self.pd.device;
        let can = &device.capabilities;
        let refuse =
            |attribute, value: u64, fix| Error::Attribute { operation: CREATE, attribute, value, fix };
        if !can.srq {
            let fix = "the card has no shared receive queues; give each queue pair one of its own".into();
            return Err(refuse("srq", 0, fix));
        }
        let max = can.max_rq_log2;
        let log2 = attr.max_wr.checked_next_power_of_two().map(|n| n.trailing_zeros() as u8);
        let Some(log2) = log2.filter(|log2| attr.max_wr > 0 && *log2 <= max) else {
            return Err(refuse("max_wr", attr.max_wr.into(), format!("choose 1 to 2^{max}")));
        };
        if attr.max_sge > can.max_recv_sge {
            let fix = format!("the card takes up to {}", can.max_recv_sge);
            return Err(refuse("max_sge", attr.max_sge.into(), fix));
        }
        check_limit(CREATE, attr.limit, 1 << log2)?;
        let units = recv_wqe::units_for_sges(attr.max_sge.into());
        let (bell, stride) = (device.bell(doorbell::RQ)?, stride(units).min(recv_wqe::MAX_STRIDE));
        let queue = WorkQueue::alloc(&device.bus, bell, Tracker::shared, (log2, stride))?;
        let number = device.take(CREATE, "shared receive queues", can.max_srq, |t| &mut t.srqs)?;
        let queue = RecvQueue::new(device, Owner::Srq(number), queue).inspect_err(|_| {
            device.tables(|t| t.srqs.give_back(number));
        })?;
        let result = device.commands.run(CommandOpcode::CreateSrq, number, |token| {
            CreateSrq {
                token,
                object: number,
                pd: self.pd.number,
                log2_entries: log2,
                doorbell_page: device.options.doorbell_page,
                limit: attr.limit,
                base: queue.queue.bus_address(),
                rq_stride: queue.queue.stride(),
                ..CreateSrq::default()
            }
            .to_bytes()
        });
        if let Err(error) = result {
            if error.is_unanswered() {
                queue.queue.leak();
            } else {
                device.tables(|t| t.srqs.give_back(number));
            }
            return Err(error);
        }
        let (tracker, ring) = (Arc::clone(queue.queue.tracker()), Arc::clone(queue.queue.ring()));
        let srq = Srq { pd: Arc::clone(&self.pd), number, entries: 1 << log2, live: true, ring, tracker };
        Ok(SharedReceiveQueue { srq: Arc::new(srq), queue })
    }
}
