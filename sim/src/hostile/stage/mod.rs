// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Stage`]: what is attacked: regions with all kinds of rights, and queue pairs of all services in all kinds of states, made with
//! the driver. [`layout`] makes the memory, [`windows`] binds windows to some of it.

mod layout;
mod windows;

use anyhow::{anyhow, bail, Context as _, Result};
use ferrowire::{
    AccessFlags, AddressVector, Completion, CompletionQueue, Context, HostMemory, Init, InitAttributes,
    MemoryRegion, PathMtu, ProtectionDomain, Psn, Qp, QpAttributes, QpInitAttr, QpState, QueuePair, RecvWr,
    RemoteAddress, Reset, Rtr, RtrAttributes, RtsAttributes, SendWr, Sge,
};
use ferrowire_spec::qp_state::GSI_QKEY;
use ferrowire_spec::wire::opcode::Service;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::attack::{Key, Mark};
use super::forge::{CARD, FOE};
use super::ground::Region;
use super::judge::{Judge, Receive};
use super::ledger::{Place, SharedLedger};
use super::life::{Final, Life, Request};
use super::peer::Shared;
use crate::soak::ends::{ip, mac};
use crate::soak::raw::Filter;

/// Receives of a queue pair, and bytes of each.
const RECEIVES: u32 = 8;
const ROOM: usize = 1600;

/// Requests of a queue pair.
const SENDS: u32 = 16;

/// Bytes before the payload of a datagram.
const GRH: usize = 40;

/// Bytes of a frame that each receive of raw frames has room for.
pub const SHORT_FRAME: usize = 60;

/// Entries of the completion queues.
const COMPLETIONS: u32 = 1024;

/// Largest path MTU that queue pairs here have: larger ones make bursts long, not hostile.
const MTUS: [PathMtu; 3] = [PathMtu::B256, PathMtu::B512, PathMtu::B1024];

/// A queue pair in one of the states that the driver has types for.
enum Pair {
    Reset(Qp<Reset>),
    Init(Qp<Init>),
    Rtr(Qp<Rtr>),
    Up(QueuePair),
    /// Between two of them; it stays so when the card refuses.
    Gone,
}

/// A queue pair that is attacked.
pub struct Target {
    /// Its number.
    pub qpn: u32,
    /// Its peer's, in this life.
    pub own: u32,
    /// The state that it is kept in.
    pub state: QpState,
    /// Its service.
    pub service: Service,
    qkey: u32,
    /// Its window, if it has one.
    window: Option<windows::Window>,
    pair: Pair,
    pd: usize,
    rights: AccessFlags,
    mtu: PathMtu,
    v6: bool,
    reads: u8,
    next: u32,
    /// A completion has said that it failed.
    pub failed: bool,
}

impl Target {
    /// Whether it answers, as it is kept.
    pub fn answers(&self) -> bool {
        matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqd)
    }

    fn up(&mut self) -> Result<&mut QueuePair> {
        match &mut self.pair {
            Pair::Up(up) => Ok(up),
            _ => bail!("queue pair {:#x} is not up", self.qpn),
        }
    }
}

fn in_error<S: ferrowire::State>(qp: &Qp<S>) -> Result<bool> {
    Ok(qp.query()?.state == QpState::Err)
}

/// All that is attacked.
pub struct Stage {
    /// Queue pairs.
    pub targets: Vec<Target>,
    cqs: [CompletionQueue; 2],
    /// By region of the ground.
    regions: Vec<Option<MemoryRegion>>,
    blocks: Vec<HostMemory>,
    /// By domain: what is sent from, and what receives are in; by region of the ground.
    sources: [usize; 2],
    inboxes: [usize; 2],
    /// Which region comes and goes.
    fickle: usize,
    /// By domain, to what windows are bound.
    lent: [usize; 2],
    pds: [ProtectionDomain; 2],
    /// The card.
    pub context: Context,
    rng: SmallRng,
    next_own: u32,
    next_id: u64,
}

impl Stage {
    /// So many queue pairs in RTS, and one in each other state.
    ///
    /// # Errors
    /// The card refuses.
    pub fn new(
        context: &Context,
        ledger: &SharedLedger,
        judge: &mut Judge,
        wire: &Shared,
        seed: u64,
        count: usize,
        quiet: usize,
    ) -> Result<Self> {
        let rng = SmallRng::seed_from_u64(seed);
        let pds = [context.alloc_pd()?, context.alloc_pd()?];
        ledger.lock().set_next(Some(Place::Told));
        let cqs = [context.create_cq(COMPLETIONS)?, context.create_cq(COMPLETIONS)?];
        ledger.lock().set_next(None);
        let mut stage = Self {
            targets: Vec::new(),
            cqs,
            regions: Vec::new(),
            blocks: Vec::new(),
            sources: [0; 2],
            inboxes: [0; 2],
            fickle: 0,
            lent: [0; 2],
            pds,
            context: context.clone(),
            rng,
            next_own: 0x40_0000,
            next_id: 1,
        };
        stage.lay_out(judge, count + 5 + 2 * quiet + 2)?;
        let states = [QpState::Rtr, QpState::Sqd, QpState::Init, QpState::Err, QpState::Reset];
        for state in [QpState::Rts].into_iter().cycle().take(count).chain(states) {
            stage.add(judge, wire, state, Service::Rc, false)?;
        }
        for service in [Service::Uc, Service::Ud].into_iter().cycle().take(2 * quiet) {
            stage.add(judge, wire, QpState::Rts, service, false)?;
        }
        stage.add(judge, wire, QpState::Rts, Service::Ud, true)?;
        // Those to the card come, so that there is always something good to be received; RoCE packets to others are not looked at.
        let mut filter = Filter { promiscuous: false, ..Filter::random(&mut stage.rng) };
        filter.raw.unicast = true;
        stage.context.set_raw_filter(&filter.raw)?;
        judge.raw_filter = filter;
        stage.add(judge, wire, QpState::Rts, Service::Raw, false)?;
        stage.show(judge, wire);
        Ok(stage)
    }

    /// Lets the attacker see what there is.
    pub fn show(&self, judge: &Judge, wire: &Shared) {
        let region = |r: &Region| Key {
            key: r.key,
            pd: r.pd,
            rights: r.rights,
            va: r.va,
            len: r.len as u64,
            dead: r.dead,
            owner: r.owner,
        };
        wire.lock().sight.keys = judge.ground.regions.iter().map(region).collect();
    }

    fn add(
        &mut self,
        judge: &mut Judge,
        wire: &Shared,
        state: QpState,
        service: Service,
        gsi: bool,
    ) -> Result<()> {
        let pd = usize::from(self.rng.random_range(0..4) == 0);
        let (sends, receives) = (&self.cqs[0], &self.cqs[1]);
        let mut attr = match service {
            Service::Uc => QpInitAttr::uc(sends, receives),
            Service::Ud => QpInitAttr::ud(sends, receives),
            Service::Raw => QpInitAttr::raw(sends, receives),
            _ => QpInitAttr::rc(sends, receives),
        };
        attr.gsi = gsi;
        (attr.max_send_wr, attr.max_recv_wr, attr.max_recv_sge) = (SENDS, RECEIVES, 4);
        let reset = self.pds[pd].create_qp(&attr)?;
        let remote = [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_READ, AccessFlags::REMOTE_ATOMIC];
        let rights = match self.rng.random_range(0..3) {
            0 => remote.into_iter().filter(|_| self.rng.random()).fold(AccessFlags::default(), |a, b| a | b),
            _ => AccessFlags::REMOTE,
        };
        let target = Target {
            qpn: reset.number(),
            own: 0,
            state,
            service,
            qkey: if gsi { GSI_QKEY } else { self.rng.random_range(1..1 << 31) },
            window: None,
            pair: Pair::Reset(reset),
            pd,
            rights,
            mtu: MTUS[self.rng.random_range(0..MTUS.len())],
            v6: self.rng.random_range(0..4) == 0,
            reads: [1, 4, 16][self.rng.random_range(0..3)],
            next: 0,
            failed: false,
        };
        judge.shut.push(target.qpn);
        self.targets.push(target);
        self.bring_up(judge, wire, self.targets.len() - 1)
    }

    /// From RESET to the state that it is kept in: a life.
    fn bring_up(&mut self, judge: &mut Judge, wire: &Shared, i: usize) -> Result<()> {
        self.next_own += 1;
        let own = self.next_own;
        let (sq_psn, rq_psn) = (self.psn(), self.psn());
        let target = &mut self.targets[i];
        (target.own, target.next, target.failed) = (own, sq_psn, false);
        let (qpn, state, mtu) = (target.qpn, target.state, target.mtu);
        let rights = target.rights.bits();
        let (service, qkey) = (target.service, target.qkey);
        let mut life = Life::new(qpn, own, target.pd, rights, mtu.bytes(), target.v6);
        (life.service, life.qkey) = (service, qkey);
        let mut mark = Mark::new(qpn, own, target.v6, mtu.bytes(), target.pd, rights, target.reads.into());
        (mark.service, mark.qkey) = (service, qkey);
        wire.lock().sight.marks.retain(|mark| mark.qpn != qpn);
        // The raw Ethernet queue pair is no packet's.
        let show = |mark: Mark| {
            if service != Service::Raw {
                wire.lock().sight.marks.push(mark);
            }
        };
        if state == QpState::Reset {
            show(mark);
            return Ok(());
        }
        let Pair::Reset(reset) = std::mem::replace(&mut target.pair, Pair::Gone) else {
            bail!("queue pair {qpn:#x} is not in RESET")
        };
        let access = Some(target.rights).filter(|_| service != Service::Ud);
        let qkey = Some(qkey).filter(|_| service == Service::Ud);
        let init = match service {
            Service::Raw => InitAttributes::default(),
            _ => InitAttributes::new().access(access).pkey(0xffff).qkey(qkey),
        };
        target.pair = Pair::Init(reset.init(init).map_err(|step| step.error)?);
        self.post_receives(judge, i, RECEIVES as usize)?;
        let target = &mut self.targets[i];
        if state != QpState::Init {
            // It may answer from the moment on in which it is told to.
            mark.expect = rq_psn;
            mark.alive = true;
            if service == Service::Rc {
                life.begin(rq_psn);
            }
            judge.begin(life);
            let Pair::Init(init) = std::mem::replace(&mut target.pair, Pair::Gone) else {
                bail!("queue pair {qpn:#x} is not in INIT")
            };
            let (near, far) = (ip(CARD, target.v6), ip(FOE, target.v6));
            let rtr = RtrAttributes::new()
                .av(AddressVector::new(mac(CARD), near, mac(FOE), far))
                .path_mtu(mtu)
                .dest_qpn(own)
                .rq_psn(Psn::new(rq_psn))
                .max_dest_rd_atomic(target.reads)
                .min_rnr_timer(1);
            // Each service has attributes of its own.
            let rtr = match service {
                Service::Uc => rtr.max_dest_rd_atomic(None).min_rnr_timer(None),
                Service::Ud | Service::Raw => RtrAttributes::default(),
                _ => rtr,
            };
            target.pair = Pair::Rtr(init.rtr(rtr).map_err(|step| step.error)?);
        }
        show(mark);
        if !matches!(state, QpState::Init | QpState::Rtr) {
            let Pair::Rtr(rtr) = std::mem::replace(&mut target.pair, Pair::Gone) else {
                bail!("queue pair {qpn:#x} is not in RTR")
            };
            let rts = RtsAttributes::new()
                .sq_psn(Psn::new(sq_psn))
                .timeout(7)
                .retry_cnt(7)
                .rnr_retry(7)
                .max_rd_atomic(0);
            let rts = match service {
                Service::Rc => rts,
                Service::Raw => RtsAttributes::default(),
                _ => RtsAttributes::new().sq_psn(rts.sq_psn),
            };
            // An attacker may have been quicker: from RTR on it may have gone to ERR.
            match rtr.rts(rts) {
                Ok(up) => target.pair = Pair::Up(up),
                Err(step) if in_error(&step.qp)? => {
                    target.pair = Pair::Rtr(step.qp);
                    return Ok(());
                }
                Err(step) => return Err(step.error.into()),
            }
        }
        if state == QpState::Rts && service == Service::Rc {
            self.lend(judge, i)?;
        }
        let target = &mut self.targets[i];
        if matches!(state, QpState::Sqd | QpState::Err) {
            let up = target.up()?;
            match up.modify(state, &QpAttributes::default()) {
                Err(_) if state == QpState::Sqd && in_error(up)? => {}
                done => done?,
            }
        }
        if state == QpState::Err {
            let own = target.own;
            if let Some(life) = judge.lives.get_mut(&own) {
                life.end();
            }
            wire.lock().sight.marks.iter_mut().filter(|m| m.own == own).for_each(|m| m.alive = false);
        }
        Ok(())
    }

    fn psn(&mut self) -> u32 {
        // Often near the wrap.
        match self.rng.random_range(0..3) {
            0 => 0xff_ffff - self.rng.random_range(0..200),
            _ => self.rng.random_range(0..1 << 24),
        }
    }

    /// To RESET: the life is over, and nothing of it touches memory any more.
    ///
    /// # Errors
    /// The card refuses.
    pub fn take_down(&mut self, i: usize) -> Result<()> {
        let target = &mut self.targets[i];
        target.pair = match std::mem::replace(&mut target.pair, Pair::Gone) {
            Pair::Reset(qp) => Pair::Reset(qp),
            Pair::Init(qp) => Pair::Reset(qp.reset().map_err(|step| step.error)?),
            Pair::Rtr(qp) => Pair::Reset(qp.reset().map_err(|step| step.error)?),
            Pair::Up(qp) => Pair::Reset(qp.reset().map_err(|step| step.error)?),
            Pair::Gone => bail!("queue pair {:#x} is gone", target.qpn),
        };
        Ok(())
    }

    /// After [`take_down`](Self::take_down), when all that was written before has been looked at: another life.
    ///
    /// # Errors
    /// The card refuses.
    pub fn come_back(&mut self, judge: &mut Judge, wire: &Shared, i: usize) -> Result<()> {
        let (qpn, own) = (self.targets[i].qpn, self.targets[i].own);
        if let Some(life) = judge.lives.get_mut(&own) {
            life.end();
        }
        judge.receives.remove(&qpn);
        self.free_window(judge, wire, i)?;
        if self.targets[i].service == Service::Raw && self.rng.random() {
            self.make_anew(i)?;
        }
        self.bring_up(judge, wire, i).with_context(|| format!("queue pair {qpn:#x} comes back"))
    }

    /// Destroys the raw Ethernet queue pair, which is in RESET, and makes another one.
    fn make_anew(&mut self, i: usize) -> Result<()> {
        let target = &mut self.targets[i];
        let Pair::Reset(old) = std::mem::replace(&mut target.pair, Pair::Gone) else {
            bail!("queue pair {:#x} is not in RESET", target.qpn)
        };
        old.destroy()?;
        let mut attr = QpInitAttr::raw(&self.cqs[0], &self.cqs[1]);
        (attr.max_send_wr, attr.max_recv_wr, attr.max_recv_sge) = (SENDS, RECEIVES, 4);
        target.pair = Pair::Reset(self.pds[target.pd].create_qp(&attr)?);
        Ok(())
    }

    /// Posts up to so many receives; a few of them have a key of another domain.
    ///
    /// # Errors
    /// The bus failed.
    pub fn post_receives(&mut self, judge: &mut Judge, i: usize, most: usize) -> Result<()> {
        let target = &mut self.targets[i];
        let inbox = judge.ground.regions[self.inboxes[target.pd]].clone();
        let other = judge.ground.regions[self.inboxes[1 - target.pd]].key;
        // One that has no room for the header of a datagram, or for a short frame, would never be taken.
        let room = match target.service {
            Service::Ud => GRH,
            Service::Raw => SHORT_FRAME,
            _ => 0,
        };
        let posted = judge.receives.entry(target.qpn).or_default();
        let mut batch = match &mut target.pair {
            Pair::Init(qp) => qp.start_post_recv(),
            Pair::Rtr(qp) => qp.start_post_recv(),
            Pair::Up(qp) => qp.start_post_recv(),
            _ => return Ok(()),
        };
        for _ in 0..most.min(RECEIVES as usize - posted.len()) {
            let slots: Vec<u64> = posted.iter().map(|receive| receive.id % u64::from(RECEIVES)).collect();
            let Some(slot) = (0..u64::from(RECEIVES)).find(|slot| !slots.contains(slot)) else { break };
            self.next_id += 1;
            let id = self.next_id * u64::from(RECEIVES) + slot;
            let mut at = (i * RECEIVES as usize + slot as usize) * (ROOM + 40);
            let count = self.rng.random_range(1..=4);
            let bad = self.rng.random_bool(0.02);
            let (mut sges, mut pieces) = (Vec::new(), Vec::new());
            for piece in 0..count {
                at += self.rng.random_range(0..8);
                let least = if piece + 1 == count { room } else { 0 };
                let len = self.rng.random_range(least..=ROOM / 4);
                let lkey = if bad { other } else { inbox.key };
                sges.push(Sge { address: inbox.va + at as u64, lkey, bytes: len as u32 });
                pieces.push((inbox.block, inbox.at + at, len, !bad));
                at += len;
            }
            batch.post(&RecvWr::new(id, &sges))?;
            posted.push(Receive { id, pieces });
        }
        Ok(batch.ring()?)
    }

    /// Posts requests of a queue pair in RTS.
    ///
    /// # Errors
    /// The bus failed.
    pub fn post_sends(&mut self, judge: &mut Judge, i: usize, most: usize) -> Result<()> {
        let target = &mut self.targets[i];
        let source = judge.ground.regions[self.sources[target.pd]].clone();
        let Some(life) = judge.lives.get_mut(&target.own) else { return Ok(()) };
        let mtu = target.mtu.bytes();
        let rc = target.service == Service::Rc;
        let Pair::Up(up) = &mut target.pair else { return Ok(()) };
        if !rc {
            return Ok(());
        }
        let mut batch = up.start_post_send();
        for _ in 0..most.min(batch.room()) {
            let len = match self.rng.random_range(0..6) {
                0 => 0,
                1 => self.rng.random_range(1..=3 * mtu),
                _ => self.rng.random_range(1..=64),
            };
            let from = self.rng.random_range(0..=source.len - len);
            self.next_id += 1;
            let id = self.next_id;
            let sges = [Sge { address: source.va + from as u64, lkey: source.key, bytes: len as u32 }];
            let remote = RemoteAddress { address: self.rng.random(), rkey: self.rng.random() };
            let wr = match self.rng.random() {
                true => SendWr::send(id, &sges),
                false => SendWr::write(id, &sges, remote),
            };
            batch.post(&wr.signaled())?;
            let request = Request {
                id,
                first: target.next,
                block: source.block,
                at: source.at + from,
                len,
                local: false,
            };
            target.next = Psn::new(target.next).plus(request.packets(mtu)).get();
            life.requests.push(request);
        }
        Ok(batch.ring()?)
    }

    /// Takes completions of sends, or of receives, and says what is wrong with them. What was on the wire and in memory before
    /// must have been judged.
    ///
    /// # Errors
    /// A completion that cannot be.
    pub fn poll(&mut self, judge: &mut Judge, receives: bool) -> Result<()> {
        let mut some = [Completion::default(); 64];
        loop {
            let n = self.cqs[usize::from(receives)].poll(&mut some)?;
            for done in &some[..n] {
                let taken = if receives { self.received(judge, done) } else { self.sent(judge, done) };
                taken.with_context(|| format!("{done:?}"))?;
            }
            // A poll that finds nothing lets the card run: what comes then has not been judged.
            if n < some.len() {
                return Ok(());
            }
        }
    }

    fn of(&mut self, qpn: u32) -> Result<&mut Target> {
        let target = self.targets.iter_mut().find(|target| target.qpn == qpn);
        target.ok_or_else(|| anyhow!("a completion of no queue pair"))
    }

    fn sent(&mut self, judge: &mut Judge, done: &Completion) -> Result<()> {
        let target = self.of(done.qpn())?;
        let life = judge.lives.get_mut(&target.own).ok_or_else(|| anyhow!("a completion of no life"))?;
        let request = life.requests.get(life.done).copied().ok_or_else(|| anyhow!("nothing was posted"))?;
        if request.id != done.wr_id() {
            bail!("request {} is the next one", request.id);
        }
        life.done += 1;
        target.failed |= !done.is_success();
        if request.local {
            return self.lent(judge, done);
        }
        let last = Psn::new(request.first).plus(request.packets(life.mtu) - 1);
        if done.is_success() && !life.is_acknowledged(last) {
            bail!("PSN {last} was not acknowledged, only {:x?}", life.heard);
        }
        Ok(())
    }

    fn received(&mut self, judge: &mut Judge, done: &Completion) -> Result<()> {
        let target = self.of(done.qpn())?;
        let own = target.own;
        target.failed |= !done.is_success();
        let posted = judge.receives.entry(done.qpn()).or_default();
        match posted.first() {
            Some(receive) if receive.id == done.wr_id() => posted.remove(0),
            other => bail!("receive {other:?} is the next one"),
        };
        if target.state == QpState::Init {
            bail!("a receive completes in INIT");
        }
        if done.is_success() {
            let write = done.opcode() == ferrowire::CqeOpcode::RecvWriteImm;
            let (imm, len, invalidated) = (done.imm(), done.byte_len().into(), done.invalidated());
            judge.received(own, Final { imm, len, write, invalidated, source: done.src_qpn() })?;
            if invalidated.is_some() {
                self.taken_back(done.qpn());
            }
        }
        Ok(())
    }

    /// Its state, as the card says.
    ///
    /// # Errors
    /// The card does not say.
    pub fn query(&self, i: usize) -> Result<Option<QpState>> {
        let status = match &self.targets[i].pair {
            Pair::Reset(qp) => qp.query()?,
            Pair::Init(qp) => qp.query()?,
            Pair::Rtr(qp) => qp.query()?,
            Pair::Up(qp) => qp.query()?,
            Pair::Gone => bail!("queue pair {:#x} is gone", self.targets[i].qpn),
        };
        Ok(status.state.known())
    }

    /// Destroys everything.
    ///
    /// # Errors
    /// The card refuses.
    pub fn close(self) -> Result<()> {
        for target in self.targets {
            match target.pair {
                Pair::Reset(qp) => qp.destroy()?,
                Pair::Init(qp) => qp.destroy()?,
                Pair::Rtr(qp) => qp.destroy()?,
                Pair::Up(qp) => qp.destroy()?,
                Pair::Gone => {}
            }
        }
        self.regions.into_iter().flatten().try_for_each(|region| Ok(region.destroy()?))
    }
}
