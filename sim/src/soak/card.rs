// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`CardEnd`]: a card, Verilated or emulated, with the driver between it and the program.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{bail, Context as _, Result};
use ferrowire::{
    AccessFlags, AddressHandle, AddressVector, Bus, Completion, CompletionQueue, CongestionControl, Context,
    ContextOptions, DropReason, HostMemory, HwCounter, InitAttributes, MemoryRegion, MemoryWindow, PageSize,
    Payload, PostRecv, ProtectionDomain, Psn, Qp, QpAttributes, QpInitAttr, QueuePair, RecvWr, RemoteAddress,
    Reset, RtrAttributes, RtsAttributes, SendOp, SendWr, Sge, SharedReceiveQueue, SrqInitAttr,
    TrafficCounter, WindowType, WorkKind,
};
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::QpState;

use super::ends::{
    ip, mac, Bind, Done, End, Path, Piece, Receive, Region, Request, Rights, Room, PAGE, QKEY, RECEIVE_PIECES,
};
use super::raw::Filter;
use crate::bus::SharedWorld;
use crate::emulated::{Place as _, Wired};
use crate::node::families;

/// Verbs that the card posts and answers: when one is built, it is added here.
pub const VERBS: &[SendOpcode] = &[
    SendOpcode::Write,
    SendOpcode::WriteImm,
    SendOpcode::Send,
    SendOpcode::SendImm,
    SendOpcode::Read,
    SendOpcode::CmpSwap,
    SendOpcode::FetchAdd,
    SendOpcode::SendInv,
    SendOpcode::LocalInv,
    SendOpcode::BindMw,
];

/// Pieces of memory that a request of the card may have.
pub const SEND_PIECES: usize = 16;

/// Bytes that a request of the card may carry itself.
pub const INLINE: usize = 256;

/// Longest wait for a command, in simulated time.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(100);

/// A queue pair in one of the states that the driver has types for.
enum Pair {
    Reset(Qp<Reset>),
    Up(QueuePair),
    /// Between two of them; it stays so when the card refuses.
    Gone,
}

/// What is behind the driver, as far as the driver does not tell.
pub(super) trait Behind {
    /// What was acknowledged may still be on its way to memory: lets a little time pass. Whether it did.
    fn settle(&self) -> bool {
        false
    }

    /// Accesses to memory that it was not given: reads and writes.
    fn refused(&self) -> (u64, u64);
}

/// A Verilated card of a world.
struct Verilated(SharedWorld, usize);

impl Behind for Verilated {
    fn settle(&self) -> bool {
        let mut world = self.0.lock();
        let late = world.card(self.1).writes_late();
        world.run(if late { 64 } else { 0 });
        late
    }

    fn refused(&self) -> (u64, u64) {
        let world = self.0.lock();
        let stats = world.card(self.1).host().stats();
        (stats.reads_refused, stats.writes_refused)
    }
}

impl Behind for Wired {
    fn refused(&self) -> (u64, u64) {
        (self.with(|card| card.refused()), 0)
    }
}

/// A card, opened.
pub struct CardEnd {
    side: usize,
    qps: Vec<(Pair, Room)>,
    /// Where the datagrams of a queue pair go: by its place, the way and the queue pair there.
    destinations: HashMap<usize, (AddressHandle, u32)>,
    /// Whole pages, and what of them is registered.
    regions: Vec<(HostMemory, MemoryRegion)>,
    windows: Vec<MemoryWindow>,
    srq: Option<SharedReceiveQueue>,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    context: Context,
    behind: Box<dyn Behind>,
}

impl CardEnd {
    /// Opens a card as one side. `tick` is the unit of its time-outs in cycles.
    ///
    /// # Errors
    /// The card does not come up.
    pub fn open(world: &SharedWorld, card: usize, side: usize, seed: u64, tick: u32) -> Result<Self> {
        Self::open_on(world.bus(card), world, card, side, seed, tick)
    }

    /// The same by a way to the card of the caller's.
    ///
    /// # Errors
    /// The card does not come up.
    pub fn open_on(
        bus: impl Bus + 'static,
        world: &SharedWorld,
        card: usize,
        side: usize,
        seed: u64,
        tick: u32,
    ) -> Result<Self> {
        Self::open_before(bus, Box::new(Verilated(world.clone(), card)), side, seed, tick)
    }

    /// The same of whatever card.
    pub(super) fn open_before(
        bus: impl Bus + 'static,
        behind: Box<dyn Behind>,
        side: usize,
        seed: u64,
        tick: u32,
    ) -> Result<Self> {
        let failed = || format!("opening the card of side {side}");
        let options = ContextOptions {
            command_timeout: COMMAND_TIMEOUT,
            seed: Some(seed.wrapping_mul(2).wrapping_add(side as u64)),
            ..ContextOptions::default()
        };
        let context = Context::open_with(bus, options).with_context(failed)?;
        context.set_timer_tick(tick).with_context(failed)?;
        context.set_mac(mac(side)).with_context(failed)?;
        for ipv6 in families(&context) {
            context.add_gid(ip(side, ipv6), None).with_context(failed)?;
        }
        let pd = context.alloc_pd().with_context(failed)?;
        let cq = context.create_cq(4096).with_context(failed)?;
        let (qps, regions) = (Vec::new(), Vec::new());
        let destinations = HashMap::new();
        let windows = Vec::new();
        Ok(Self { side, qps, destinations, regions, windows, srq: None, cq, pd, context, behind })
    }

    /// Lets notifications of congestion slow its queue pairs down, soon and for a short time, to no less than that part of the
    /// line's rate, in Mb/s: so they still have their time-outs' time.
    ///
    /// # Errors
    /// The card does not take it.
    pub fn slow_down(&self, line: u32, slowest: u32) -> Result<()> {
        let control = CongestionControl {
            cnp_interval_us: 4,
            line_rate_mbps: line,
            min_rate_mbps: line / slowest,
            gain_shift: 4,
            alpha_us: 10,
            rate_us: 10,
            byte_counter: 100_000,
            recovery_steps: 2,
            additive_mbps: (line / 64) as u16,
            hyper_mbps: (line / 16) as u16,
        };
        Ok(self.context.set_congestion_control(&control)?)
    }

    /// The open card, for who makes other objects there.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// All rights of peers that the card has.
    fn remote(&self) -> AccessFlags {
        match self.context.capabilities().atomics {
            true => AccessFlags::REMOTE,
            false => AccessFlags::REMOTE.without(AccessFlags::REMOTE_ATOMIC),
        }
    }

    /// A queue pair in RESET.
    fn fresh(&self, room: Room) -> Result<Qp<Reset>> {
        let mut attr = match room.service {
            Service::Uc => QpInitAttr::uc(&self.cq, &self.cq),
            Service::Ud => QpInitAttr::ud(&self.cq, &self.cq),
            Service::Raw => QpInitAttr::raw(&self.cq, &self.cq),
            _ => QpInitAttr::rc(&self.cq, &self.cq),
        };
        (attr.max_send_wr, attr.max_recv_wr) = (room.sends, room.receives);
        (attr.max_send_sge, attr.max_inline) = (room.send_pieces, room.inline);
        attr.max_recv_sge = room.receive_pieces;
        attr.srq = self.srq.as_ref().filter(|_| room.shared);
        // Where the card has it, and its WQEs are of 64 bytes.
        let small = room.send_pieces <= 1 && room.inline <= 16;
        attr.push = room.push && small && self.context.capabilities().wqe_push;
        Ok(self.pd.create_qp(&attr)?)
    }

    fn up(&self, qp: usize) -> Result<&QueuePair> {
        match &self.qps[qp].0 {
            Pair::Up(up) => Ok(up),
            _ => bail!("queue pair {qp} is not up"),
        }
    }

    fn up_mut(&mut self, qp: usize) -> Result<&mut QueuePair> {
        match &mut self.qps[qp].0 {
            Pair::Up(up) => Ok(up),
            _ => bail!("queue pair {qp} is not up"),
        }
    }
}

impl End for CardEnd {
    fn verbs(&self) -> &[SendOpcode] {
        VERBS
    }

    fn region(&mut self, region: &Region, pages: &[u8]) -> Result<u32> {
        let whole = self.context.alloc(pages.len(), PAGE)?;
        whole.write(0, pages);
        let memory = whole.slice(region.front(), region.len);
        let access = match region.rights {
            Rights::Closed => AccessFlags::LOCAL_READ,
            Rights::Local => AccessFlags::LOCAL_WRITE,
            Rights::Write => AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE,
            Rights::Shared => AccessFlags::LOCAL_WRITE | self.remote(),
            Rights::Lent => AccessFlags::LOCAL_WRITE | AccessFlags::MW_BIND,
            Rights::LentRead => AccessFlags::LOCAL_READ | AccessFlags::MW_BIND,
        };
        let registered = self.pd.register_at(&memory, region.address, access, PageSize::Size4K)?;
        let key = registered.rkey();
        self.regions.push((whole, registered));
        Ok(key)
    }

    fn read(&self, region: usize) -> Vec<u8> {
        crate::pair::bytes(&self.regions[region].0)
    }

    fn settle(&self) -> bool {
        self.behind.settle()
    }

    fn write(&mut self, region: usize, at: usize, bytes: &[u8]) {
        self.regions[region].0.write(at, bytes);
    }

    fn share(&mut self, receives: u32) -> Result<()> {
        let mut attr = SrqInitAttr::default();
        (attr.max_wr, attr.max_sge, attr.limit) = (receives, RECEIVE_PIECES as u8, 2);
        self.srq = Some(self.pd.create_srq(&attr)?);
        Ok(())
    }

    fn free_shared(&mut self) -> usize {
        self.srq.as_mut().map_or(0, |srq| srq.start_post_recv().room())
    }

    fn post_shared(&mut self, receives: &[Receive]) -> Result<()> {
        let Some(srq) = &mut self.srq else { bail!("no shared receive queue") };
        give(srq.start_post_recv(), receives)
    }

    fn window(&mut self) -> Result<u32> {
        let window = self.pd.alloc_window()?;
        let key = window.rkey();
        self.windows.push(window);
        Ok(key)
    }

    fn free_window(&mut self, key: u32) -> Result<()> {
        let at = self.windows.iter().position(|window| window.rkey() >> 8 == key >> 8);
        let Some(at) = at else { bail!("no window {key:#x}") };
        Ok(self.windows.swap_remove(at).destroy()?)
    }

    fn zero_base(&self, address: u64) -> u64 {
        address % PAGE as u64
    }

    fn create(&mut self, room: Room) -> Result<u32> {
        let qp = self.fresh(room)?;
        let qpn = qp.number();
        self.qps.push((Pair::Reset(qp), room));
        Ok(qpn)
    }

    fn connect(&mut self, qp: usize, path: &Path, receives: &[Receive]) -> Result<()> {
        let Pair::Reset(reset) = std::mem::replace(&mut self.qps[qp].0, Pair::Gone) else {
            bail!("queue pair {qp} is not in RESET")
        };
        let (near, far) = (self.side, 1 - self.side);
        let av = AddressVector::new(mac(near), ip(near, path.ipv6), mac(far), ip(far, path.ipv6));
        let service = self.qps[qp].1.service;
        if service == Service::Ud {
            self.destinations.insert(qp, (self.pd.create_ah(&av)?, path.peer));
        }
        let rtr = RtrAttributes::new()
            .av(av)
            .path_mtu(path.mtu)
            .dest_qpn(path.peer)
            .rq_psn(Psn::new(path.rq_psn))
            .max_dest_rd_atomic(path.rd_atomic)
            .min_rnr_timer(path.min_rnr_timer);
        let rts = RtsAttributes::new()
            .sq_psn(Psn::new(path.sq_psn))
            .timeout(path.timeout)
            .retry_cnt(path.retry_cnt)
            .rnr_retry(path.rnr_retry)
            .max_rd_atomic(path.rd_atomic);
        let access = if path.rd_atomic > 0 { self.remote() } else { AccessFlags::REMOTE_WRITE };
        let init = InitAttributes::new().access(access).pkey(0xffff);
        // Each service has attributes of its own.
        let sends = RtsAttributes::new().sq_psn(rts.sq_psn);
        let (init, rtr, rts) = match service {
            Service::Uc => (init, rtr.max_dest_rd_atomic(None).min_rnr_timer(None), sends),
            Service::Ud => (init.access(None).qkey(QKEY), RtrAttributes::default(), sends),
            Service::Raw => Default::default(),
            _ if path.selective => (init, rtr.selective(true), rts),
            _ => (init, rtr, rts),
        };
        let mut up = reset.init(init).map_err(|step| step.error)?;
        give(up.start_post_recv(), receives)?;
        let up = up.rtr(rtr).map_err(|step| step.error)?;
        self.qps[qp].0 = Pair::Up(up.rts(rts).map_err(|step| step.error)?);
        Ok(())
    }

    fn reset(&mut self, qp: usize) -> Result<()> {
        let Pair::Up(up) = std::mem::replace(&mut self.qps[qp].0, Pair::Gone) else {
            bail!("queue pair {qp} is not up")
        };
        self.qps[qp].0 = Pair::Reset(up.reset().map_err(|step| step.error)?);
        Ok(())
    }

    fn renew(&mut self, qp: usize) -> Result<u32> {
        match std::mem::replace(&mut self.qps[qp].0, Pair::Gone) {
            Pair::Up(up) => up.destroy()?,
            Pair::Reset(reset) => reset.destroy()?,
            Pair::Gone => bail!("queue pair {qp} is gone"),
        }
        let reset = self.fresh(self.qps[qp].1)?;
        let qpn = reset.number();
        self.qps[qp].0 = Pair::Reset(reset);
        Ok(qpn)
    }

    fn modify(&mut self, qp: usize, to: QpState) -> Result<()> {
        Ok(self.up_mut(qp)?.modify(to, &QpAttributes::default())?)
    }

    fn state(&mut self, qp: usize) -> Result<Option<QpState>> {
        Ok(self.up(qp)?.query()?.state.known())
    }

    fn is_drained(&mut self, qp: usize) -> Result<bool> {
        Ok(!self.up(qp)?.query()?.sq_draining)
    }

    fn free(&mut self, qp: usize) -> usize {
        match &mut self.qps[qp].0 {
            Pair::Up(up) => up.start_post_send().room(),
            _ => 0,
        }
    }

    fn post(&mut self, qp: usize, requests: &[Request]) -> Result<()> {
        let to = self.destinations.get(&qp).cloned();
        let mut batch = self.up_mut(qp)?.start_post_send();
        for request in requests {
            let sges = sges(&request.local);
            let remote = RemoteAddress { address: request.remote.0, rkey: request.remote.1 };
            let (imm, (first, swap)) = (request.imm, request.operands);
            let op = match request.opcode {
                SendOpcode::Send => SendOp::Send,
                SendOpcode::SendImm => SendOp::SendImm { imm },
                SendOpcode::Write => SendOp::Write { remote },
                SendOpcode::WriteImm => SendOp::WriteImm { remote, imm },
                SendOpcode::Read => SendOp::Read { remote },
                SendOpcode::CmpSwap => SendOp::CompareSwap { remote, compare: first, swap },
                SendOpcode::FetchAdd => SendOp::FetchAdd { remote, add: first },
                SendOpcode::SendInv => SendOp::SendInv { key: request.key },
                SendOpcode::LocalInv => SendOp::LocalInv { key: request.key },
                SendOpcode::BindMw => match request.bind {
                    Some(to) => bind(&to),
                    None => bail!("a bind to nothing"),
                },
            };
            let payload = match &request.inline {
                Some(data) => Payload::Inline(data),
                None => Payload::Sges(&sges),
            };
            let mut wr = SendWr::new(request.id, op, payload);
            if request.signaled {
                wr = wr.signaled();
            }
            if request.solicited {
                wr = wr.solicited();
            }
            if request.fence {
                wr = wr.fenced();
            }
            if let Some((ah, qpn)) = &to {
                wr = wr.to(ah, *qpn, QKEY);
            }
            batch.post(&wr)?;
        }
        Ok(batch.ring()?)
    }

    fn free_receives(&mut self, qp: usize) -> usize {
        match &mut self.qps[qp].0 {
            Pair::Up(up) => up.start_post_recv().room(),
            _ => 0,
        }
    }

    fn post_receives(&mut self, qp: usize, receives: &[Receive]) -> Result<()> {
        give(self.up_mut(qp)?.start_post_recv(), receives)
    }

    fn filter(&mut self, filter: &Filter) -> Result<()> {
        self.context.set_raw_filter(&filter.raw)?;
        // Some of its frames look like RoCE.
        self.context.set_raw_roce(true)?;
        self.context.set_promiscuous(filter.promiscuous)?;
        // A read does not pass the writes before it: behind it the card has them.
        self.raw_frames().map(|_| ())
    }

    fn raw_frames(&mut self) -> Result<[u64; 2]> {
        let count = |counter| self.context.traffic_counter(counter);
        Ok([count(TrafficCounter::RxRaw)?, count(TrafficCounter::TxRaw)?])
    }

    fn has_lost(&mut self) -> Result<bool> {
        // A READ or an atomic that finds no slot counts as an overrun, too, but a sequence NAK follows.
        let overruns = self.context.drop_counter(DropReason::Overrun)?;
        Ok(overruns > self.context.hw_counter(HwCounter::SeqNakSent)?)
    }

    fn poll(&mut self) -> Result<Vec<Done>> {
        let mut some = [Completion::default(); 64];
        let n = self.cq.poll(&mut some)?;
        let done = some[..n].iter().map(|c| Done {
            qpn: c.qpn(),
            id: c.wr_id(),
            receive: c.kind() == WorkKind::Receive,
            status: c.status().known(),
            opcode: c.opcode().known(),
            bytes: c.byte_len(),
            imm: c.imm(),
            solicited: c.solicited(),
            source: c.src_qpn().zip(c.is_ipv4()),
            invalidated: c.invalidated(),
        });
        Ok(done.collect())
    }

    fn offence(&self) -> Option<String> {
        let refused = self.behind.refused();
        (refused != (0, 0)).then(|| {
            format!("it asked for memory that it was not given: {} reads, {} writes", refused.0, refused.1)
        })
    }

    fn diagnose(&self) -> String {
        crate::node::counters(&self.context)
    }
}

fn bind(bind: &Bind) -> SendOp {
    let all = [AccessFlags::REMOTE_READ, AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC];
    let some = all.into_iter().zip(bind.rights).filter(|(_, given)| *given).map(|(right, _)| right);
    let base = if bind.zero_based { AccessFlags::ZERO_BASED } else { AccessFlags::LOCAL_READ };
    SendOp::BindMw {
        key: bind.key,
        lkey: bind.region,
        address: bind.address,
        bytes: bind.bytes,
        access: some.fold(base, |all, right| all | right),
        kind: WindowType::Type2B,
    }
}

fn sges(pieces: &[Piece]) -> Vec<Sge> {
    pieces.iter().map(|&(address, lkey, bytes)| Sge { address, lkey, bytes }).collect()
}

fn give(mut batch: PostRecv<'_>, receives: &[Receive]) -> Result<()> {
    for receive in receives {
        batch.post(&RecvWr::new(receive.id, &sges(&receive.local)))?;
    }
    Ok(batch.ring()?)
}
