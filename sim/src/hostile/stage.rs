// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Stage`]: what is attacked: regions with all kinds of rights, and queue pairs in all kinds of states, made with the driver.

use anyhow::{anyhow, bail, Context as _, Result};
use ferrowire::{
    AccessFlags, AddressVector, Completion, CompletionQueue, Context, HostMemory, Init, InitAttributes,
    MemoryRegion, PageSize, PathMtu, ProtectionDomain, Psn, Qp, QpAttributes, QpInitAttr, QpState, QueuePair,
    RecvWr, RemoteAddress, Reset, Rtr, RtrAttributes, RtsAttributes, SendWr, Sge,
};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::attack::{Key, Mark};
use super::forge::{CARD, FOE};
use super::ground::Region;
use super::judge::{Judge, Receive};
use super::ledger::{Place, SharedLedger};
use super::life::{Life, Request};
use super::peer::Shared;
use crate::soak::ends::{ip, mac, PAGE};

/// Receives of a queue pair, and bytes of each.
const RECEIVES: u32 = 8;
const ROOM: usize = 1600;

/// Requests of a queue pair.
const SENDS: u32 = 16;

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

/// What is made of a region.
#[derive(Clone, Copy)]
struct Plan {
    pd: usize,
    access: AccessFlags,
    /// Bytes before it in its block, and its own.
    at: usize,
    len: usize,
    /// Where its addresses are.
    va: Va,
    /// It shares the block of the one before.
    shares: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Va {
    /// Those of the block.
    Own,
    /// They end with the address space.
    Top,
    /// They begin in the first page.
    Zero,
}

fn in_error<S: ferrowire::State>(qp: &Qp<S>) -> Result<bool> {
    Ok(qp.query()?.state == QpState::Err)
}

/// The address of a byte of a block as keys count, the same in each run: blocks lie behind each other, so that what leaves one
/// comes near another.
fn place(block: usize, at: usize) -> u64 {
    0x7f12_0000_0000 + ((block as u64) << 20) + at as u64
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
            pds,
            context: context.clone(),
            rng,
            next_own: 0x40_0000,
            next_id: 1,
        };
        stage.lay_out(judge, count + 5)?;
        let states = [QpState::Rtr, QpState::Sqd, QpState::Init, QpState::Err, QpState::Reset];
        for state in [QpState::Rts].into_iter().cycle().take(count).chain(states) {
            stage.add(judge, wire, state)?;
        }
        stage.show(judge, wire);
        Ok(stage)
    }

    fn lay_out(&mut self, judge: &mut Judge, queue_pairs: usize) -> Result<()> {
        use AccessFlags as A;
        let (all, local) = (A::LOCAL_WRITE | A::REMOTE, A::LOCAL_WRITE);
        let inbox = queue_pairs * RECEIVES as usize * (ROOM + 40);
        let plan = |pd, access, at, len| Plan { pd, access, at, len, va: Va::Own, shares: false };
        let plans = [
            plan(0, all, 0x123, 9000),
            plan(0, local | A::REMOTE_WRITE, 0, 8192),
            plan(0, A::REMOTE_READ, 4000, 5000),
            plan(0, local | A::REMOTE_ATOMIC, 0x808, 256),
            plan(0, local, 17, 3000),
            plan(1, all, 0xff8, 6000),
            Plan { va: Va::Top, ..plan(0, all, 4096 - 708, 708 + 4096) },
            plan(0, local | A::REMOTE_WRITE, 100, 1000),
            Plan { shares: true, ..plan(0, A::REMOTE_READ, 1164, 2000) },
            Plan { va: Va::Zero, ..plan(0, all | A::ZERO_BASED, 0x200, 5000) },
            plan(0, all, 0x40, 4200),
            plan(0, A::LOCAL_READ, 5, 9000),
            plan(1, A::LOCAL_READ, 5, 9000),
            plan(0, local, 64, inbox),
            plan(1, local, 64, inbox),
        ];
        (self.fickle, self.sources, self.inboxes) = (10, [11, 12], [13, 14]);
        for plan in plans {
            if !plan.shares {
                // The pages before and behind it are nobody's.
                let whole =
                    self.context.alloc((plan.at + plan.len).next_multiple_of(PAGE) + 2 * PAGE, PAGE)?;
                let mut bytes = vec![0; whole.len()];
                self.rng.fill_bytes(&mut bytes);
                whole.write(0, &bytes);
                judge.ground.add(&whole);
                self.blocks.push(whole);
            }
            let block = self.blocks.len() - 1;
            self.register(judge, block, plan)?;
        }
        // Two keys that were given back, one of them before its index was used again.
        for i in [0, 1] {
            let memory = self.blocks[i].slice(PAGE, PAGE);
            let gone = self.pds[0].register_at(&memory, place(i, PAGE), all, PageSize::Size4K)?;
            let region = Region {
                block: i,
                at: PAGE,
                len: PAGE,
                va: gone.address(),
                key: gone.rkey(),
                pd: 0,
                rights: all.bits(),
                dead: true,
            };
            judge.ground.regions.push(region);
            self.regions.push(None);
            gone.destroy()?;
        }
        Ok(())
    }

    fn register(&mut self, judge: &mut Judge, block: usize, plan: Plan) -> Result<()> {
        let Plan { pd, access, at, len, va, .. } = plan;
        let at = PAGE + at;
        let memory = self.blocks[block].slice(at, len);
        let region = match va {
            Va::Own => self.pds[pd].register_at(&memory, place(block, at), access, PageSize::Size4K)?,
            Va::Zero => self.pds[pd].register(&memory, access, PageSize::Size4K)?,
            Va::Top => {
                let va = (len as u64).wrapping_neg();
                self.pds[pd].register_at(&memory, va, access, PageSize::Size4K)?
            }
        };
        let (va, key, rights) = (region.address(), region.rkey(), access.bits());
        judge.ground.regions.push(Region { block, at, len, va, key, pd, rights, dead: false });
        self.regions.push(Some(region));
        Ok(())
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
        };
        wire.lock().sight.keys = judge.ground.regions.iter().map(region).collect();
    }

    fn add(&mut self, judge: &mut Judge, wire: &Shared, state: QpState) -> Result<()> {
        let pd = usize::from(self.rng.random_range(0..4) == 0);
        let mut attr = QpInitAttr::rc(&self.cqs[0], &self.cqs[1]);
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
        let mut life = Life::new(qpn, own, target.pd, rights, mtu.bytes(), target.v6);
        let mut mark = Mark::new(qpn, own, target.v6, mtu.bytes(), target.pd, rights, target.reads.into());
        wire.lock().sight.marks.retain(|mark| mark.qpn != qpn);
        if state == QpState::Reset {
            wire.lock().sight.marks.push(mark);
            return Ok(());
        }
        let Pair::Reset(reset) = std::mem::replace(&mut target.pair, Pair::Gone) else {
            bail!("queue pair {qpn:#x} is not in RESET")
        };
        let init = InitAttributes { access: Some(target.rights), pkey: Some(0xffff), qkey: None };
        target.pair = Pair::Init(reset.init(init).map_err(|step| step.error)?);
        self.post_receives(judge, i, RECEIVES as usize)?;
        let target = &mut self.targets[i];
        if state != QpState::Init {
            // It may answer from the moment on in which it is told to.
            mark.expect = rq_psn;
            mark.alive = true;
            life.begin(rq_psn);
            judge.begin(life);
            let Pair::Init(init) = std::mem::replace(&mut target.pair, Pair::Gone) else {
                bail!("queue pair {qpn:#x} is not in INIT")
            };
            let (near, far) = (ip(CARD, target.v6), ip(FOE, target.v6));
            let rtr = RtrAttributes {
                av: Some(AddressVector::new(mac(CARD), near, mac(FOE), far)),
                path_mtu: Some(mtu),
                dest_qpn: Some(own),
                rq_psn: Some(Psn::new(rq_psn)),
                max_dest_rd_atomic: Some(target.reads),
                min_rnr_timer: Some(1),
                ..RtrAttributes::default()
            };
            target.pair = Pair::Rtr(init.rtr(rtr).map_err(|step| step.error)?);
        }
        wire.lock().sight.marks.push(mark);
        if !matches!(state, QpState::Init | QpState::Rtr) {
            let Pair::Rtr(rtr) = std::mem::replace(&mut target.pair, Pair::Gone) else {
                bail!("queue pair {qpn:#x} is not in RTR")
            };
            let rts = RtsAttributes {
                sq_psn: Some(Psn::new(sq_psn)),
                timeout: Some(7),
                retry_cnt: Some(7),
                rnr_retry: Some(7),
                max_rd_atomic: Some(0),
                ..RtsAttributes::default()
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
        self.bring_up(judge, wire, i).with_context(|| format!("queue pair {qpn:#x} comes back"))
    }

    /// Posts up to so many receives; a few of them have a key of another domain.
    ///
    /// # Errors
    /// The bus failed.
    pub fn post_receives(&mut self, judge: &mut Judge, i: usize, most: usize) -> Result<()> {
        let target = &mut self.targets[i];
        let inbox = judge.ground.regions[self.inboxes[target.pd]].clone();
        let other = judge.ground.regions[self.inboxes[1 - target.pd]].key;
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
            for _ in 0..count {
                at += self.rng.random_range(0..8);
                let len = self.rng.random_range(0..=ROOM / 4);
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
        let Pair::Up(up) = &mut target.pair else { return Ok(()) };
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
            let request = Request { id, first: target.next, block: source.block, at: source.at + from, len };
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
        let target = self.of(done.qpn)?;
        let life = judge.lives.get_mut(&target.own).ok_or_else(|| anyhow!("a completion of no life"))?;
        let request = life.requests.get(life.done).copied().ok_or_else(|| anyhow!("nothing was posted"))?;
        if request.id != done.wr_id {
            bail!("request {} is the next one", request.id);
        }
        life.done += 1;
        target.failed |= !done.is_success();
        let last = Psn::new(request.first).plus(request.packets(life.mtu) - 1);
        if done.is_success() && !life.is_acknowledged(last) {
            bail!("PSN {last} was not acknowledged, only {:x?}", life.heard);
        }
        Ok(())
    }

    fn received(&mut self, judge: &mut Judge, done: &Completion) -> Result<()> {
        let target = self.of(done.qpn)?;
        let own = target.own;
        target.failed |= !done.is_success();
        let posted = judge.receives.entry(done.qpn).or_default();
        match posted.first() {
            Some(receive) if receive.id == done.wr_id => posted.remove(0),
            other => bail!("receive {other:?} is the next one"),
        };
        if target.state == QpState::Init {
            bail!("a receive completes in INIT");
        }
        if done.is_success() {
            let write = done.opcode == ferrowire::CqeOpcode::RecvWriteImm;
            judge.received(own, done.imm, done.byte_len, write)?;
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

    /// Takes the rights of the region back that comes and goes. When this is over, nothing may use them.
    ///
    /// # Errors
    /// The card refuses.
    pub fn deregister(&mut self) -> Result<()> {
        match self.regions[self.fickle].take() {
            Some(region) => Ok(region.destroy()?),
            None => Ok(()),
        }
    }

    /// Whether it is gone; then what it granted is granted no more.
    pub fn deregistered(&mut self, judge: &mut Judge, wire: &Shared) {
        if self.regions[self.fickle].is_some() {
            return;
        }
        let region = &mut judge.ground.regions[self.fickle];
        region.dead = true;
        let key = region.key;
        for life in judge.lives.values_mut() {
            life.effects.iter_mut().filter(|effect| effect.key == key).for_each(|effect| effect.void = true);
        }
        self.show(judge, wire);
    }

    /// Registers it again, under another key. Nothing may be on its way.
    ///
    /// # Errors
    /// The card refuses.
    pub fn register_again(&mut self, judge: &mut Judge, wire: &Shared) -> Result<()> {
        if self.regions[self.fickle].is_some() {
            return Ok(());
        }
        let Region { block, at, len, pd, .. } = judge.ground.regions[self.fickle];
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let memory = self.blocks[block].slice(at, len);
        let region = self.pds[pd].register_at(&memory, place(block, at), access, PageSize::Size4K)?;
        let old = judge.ground.regions[self.fickle].clone();
        let now = Region { key: region.rkey(), va: region.address(), dead: false, ..old.clone() };
        judge.ground.regions[self.fickle] = now;
        // The old key stays to be tried; a few of them are enough.
        if old.key != region.rkey() && judge.ground.regions.len() < 30 {
            judge.ground.regions.push(old);
            self.regions.push(None);
        }
        self.regions[self.fickle] = Some(region);
        self.show(judge, wire);
        Ok(())
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
