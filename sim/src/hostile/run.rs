// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Game`]: burst after burst, with all that must be true between and behind them.
//!
//! ```text
//!  burst, at line rate --> all settles --> states, counters, memory --> repair --> the next good messages --> burst ...
//!                     the friend's program runs all the time
//! ```

use std::collections::BTreeMap;

use anyhow::{bail, ensure, Context as _, Result};
use ferrowire::{DropReason, QpState, TrafficCounter};
use ferrowire_spec::wire::opcode::Service;
use ferrowire_spec::wire::{Bth, Deth, Extensions, ImmDt, Opcode, Reth};
use ferrowire_spec::Psn;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::forge::{Packet, CARD, FOE};
use super::ground::REMOTE_WRITE;
use super::judge::{Allowed, Judge, HEADER};
use super::life::{Life, Progress};
use super::peer::Shared;
use super::stage::{Stage, SHORT_FRAME};
use super::Outcome;
use crate::bus::SharedWorld;
use crate::soak::ends::mac;
use crate::soak::run::Play;

/// Cycles between two looks.
const STRIDE: u64 = 160;

/// Cycles without anything of the attacked side, after which all is settled.
const QUIET: u64 = 1_500;

/// Cycles in which all that a burst has begun must be over.
const SETTLE: u64 = 400_000;

/// Cycles for the answer to a good request.
const ANSWER: u64 = 40_000;

/// Cycles for the completions of a queue pair's requests: time-outs and pauses are among them.
const COMPLETE: u64 = 400_000;

/// Cycles in which the friend's program must come a step further.
const FRIEND: u64 = 3_000_000;

/// A case under way.
pub struct Game<'a, 'b> {
    /// The card and the wire.
    pub world: SharedWorld,
    /// Who is on the wire.
    pub wire: Shared,
    /// Who judges.
    pub judge: Judge,
    /// What is attacked.
    pub stage: Stage,
    /// What the friend does.
    pub play: &'a mut Play<'b>,
    /// What came of it so far.
    pub outcome: &'a mut Outcome,
    /// Of bursts.
    pub rng: SmallRng,
    counters: BTreeMap<DropReason, u64>,
    friend: (u64, u64),
    /// Immediate of the last good message that nobody answers.
    imm: u32,
}

impl<'a, 'b> Game<'a, 'b> {
    /// One that begins.
    pub fn new(
        world: &SharedWorld,
        wire: &Shared,
        (judge, stage): (Judge, Stage),
        play: &'a mut Play<'b>,
        outcome: &'a mut Outcome,
        seed: u64,
    ) -> Self {
        Self {
            world: world.clone(),
            wire: wire.clone(),
            judge,
            stage,
            play,
            outcome,
            rng: SmallRng::seed_from_u64(seed),
            counters: BTreeMap::new(),
            friend: (0, 0),
            imm: 0x5eed_0000,
        }
    }

    /// Plays until so many packets have been sent.
    ///
    /// # Errors
    /// What the card must not do.
    pub fn play(&mut self, packets: u64) -> Result<()> {
        self.counters = self.count()?;
        let mut round = 0;
        while self.outcome.packets < packets {
            let left = packets - self.outcome.packets;
            let (mood, burst) = {
                let core = &mut *self.wire.lock();
                let mood = core.attacker.begin();
                let most = if mood.starts_with("a flood") { 1200 } else { 300 };
                core.left = self.rng.random_range(20..=most).min(left);
                (mood, core.left)
            };
            self.round(burst, round).with_context(|| format!("burst {round}, {mood}"))?;
            self.outcome.packets += burst;
            self.outcome.bursts += 1;
            *self.outcome.moods.entry(mood.into()).or_default() += burst;
            round += 1;
        }
        Ok(())
    }

    /// Ends the friend's program and looks at everything once more.
    ///
    /// # Errors
    /// What the card must not have done.
    pub fn finish(mut self) -> Result<()> {
        self.play.stop();
        let limit = self.cycle() + FRIEND;
        while !self.play.is_over() {
            self.go(STRIDE)?;
            ensure!(self.cycle() < limit, "the innocents come to no end: {}", self.play.waits());
        }
        let world = self.world.clone();
        let calm = world.lock().run_until(SETTLE, |world| (0..2).all(|link| world.link(link).idle()));
        ensure!(calm, "frames without end, though nothing is under way");
        self.go(2 * QUIET)?;
        self.play.finish().context("the innocents")?;
        if let Some(wrong) = self.judge.ground.wrong() {
            bail!("memory at the end: {wrong}");
        }
        let (came, frames) =
            (self.stage.context.traffic_counter(TrafficCounter::RxFrames)?, self.wire.lock().frames);
        ensure!(came == frames, "the card has counted {came} frames of {frames}");
        self.outcome.compared = self.judge.compared;
        self.stage.close().context("taking everything down")
    }

    fn cycle(&self) -> u64 {
        self.world.lock().cycle()
    }

    /// Lets it all run for a while, and judges what happens.
    fn go(&mut self, cycles: u64) -> Result<()> {
        let until = self.cycle() + cycles;
        loop {
            let now = self.cycle();
            if now >= until {
                return Ok(());
            }
            self.world.lock().run(STRIDE.min(until - now));
            self.look()?;
            self.stage.poll(&mut self.judge, true)?;
            self.look()?;
            self.stage.poll(&mut self.judge, false)?;
            self.play.step().context("the innocents")?;
            self.look()?;
            if self.play.completions > self.friend.0 {
                self.friend = (self.play.completions, self.cycle());
            }
            let still = self.cycle() - self.friend.1;
            ensure!(
                self.play.is_over() || still < FRIEND,
                "nothing new of the innocents in {still} cycles: {}",
                self.play.waits()
            );
        }
    }

    /// Judges what has happened since the last time, in its order.
    fn look(&mut self) -> Result<()> {
        let (accesses, stats) = {
            let mut world = self.world.lock();
            world.check()?;
            let host = world.card_mut(0).host_mut();
            (host.take_accesses(), host.stats())
        };
        let (events, offence) = {
            let mut core = self.wire.lock();
            (std::mem::take(&mut core.events), core.offence.clone())
        };
        if let Some(offence) = offence {
            bail!("{offence}");
        }
        let refused = (stats.reads_refused, stats.writes_refused);
        ensure!(
            refused == (0, 0),
            "the card asks for memory that it was not given: {} reads, {} writes",
            refused.0,
            refused.1
        );
        let mut accesses = accesses.iter().peekable();
        for event in &events {
            while let Some(access) = accesses.next_if(|access| access.cycle < event.cycle) {
                self.judge.access(access)?;
            }
            match event.heard {
                true => self.judge.heard(event.cycle, &event.bytes)?,
                false => self.judge.sent(&event.bytes),
            }
        }
        accesses.try_for_each(|access| self.judge.access(access))
    }

    fn round(&mut self, burst: u64, round: u64) -> Result<()> {
        let limit = self.cycle() + SETTLE + 1_000 * burst;
        while self.wire.lock().left > 0 {
            self.go(STRIDE)?;
            ensure!(self.cycle() < limit, "the card takes no frames any more");
            self.disturb()?;
        }
        self.settle()?;
        self.check_states()?;
        self.judge.settled();
        self.check_counters()?;
        if round % 8 == 0 {
            if let Some(wrong) = self.judge.ground.wrong() {
                bail!("memory: {wrong}");
            }
        }
        self.repair()?;
        self.probe()
    }

    /// What the host does while packets come.
    fn disturb(&mut self) -> Result<()> {
        let i = self.rng.random_range(0..self.stage.targets.len());
        match self.rng.random_range(0..16) {
            0..=3 => self.stage.post_receives(&mut self.judge, i, 4)?,
            4..=7 if self.stage.targets[i].state == QpState::Rts => {
                let most = self.rng.random_range(1..4);
                self.stage.post_sends(&mut self.judge, i, most)?;
            }
            10 | 11 if self.rng.random_bool(0.3) => {
                self.stage.take_back(&mut self.judge, i)?;
            }
            12 | 13 => {
                self.stage.lend(&mut self.judge, i)?;
                self.stage.show(&self.judge, &self.wire);
            }
            8 if self.rng.random_range(0..4) == 0 => {
                self.stage.deregister()?;
                self.look()?;
                self.stage.deregistered(&mut self.judge, &self.wire);
            }
            9 if self.lost(i) => self.again(i)?,
            14 if self.rng.random_range(0..8) == 0 => {
                // Raw frames go on coming while their queue pair is taken down, or is not there.
                let raw = self.stage.targets.iter().position(|target| target.service == Service::Raw);
                raw.map_or(Ok(()), |raw| self.again(raw))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a queue pair has gone to the error state, as far as is known.
    fn lost(&self, i: usize) -> bool {
        let target = &self.stage.targets[i];
        let fatal = self.judge.lives.get(&target.own).is_some_and(|life| life.fatal.is_some());
        target.answers() && (target.failed || fatal)
    }

    /// RESET, and another life.
    fn again(&mut self, i: usize) -> Result<()> {
        self.stage.take_down(i)?;
        self.look()?;
        self.stage.come_back(&mut self.judge, &self.wire, i)?;
        self.outcome.lives += 1;
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.wire.lock().attacker.calm();
        let limit = self.cycle() + SETTLE;
        let mut since = self.cycle();
        loop {
            self.go(STRIDE)?;
            since = since.max(self.judge.news);
            let (now, idle) = (self.cycle(), self.wire.lock().replies.is_empty());
            if idle && now > since + QUIET {
                return Ok(());
            }
            ensure!(now < limit, "what the burst has begun is not over after {SETTLE} cycles");
        }
    }

    /// Each queue pair is where it must be, and expects what it may expect.
    fn check_states(&mut self) -> Result<()> {
        let mut asked = Vec::new();
        for i in 0..self.stage.targets.len() {
            let state = self.stage.query(i)?;
            self.look()?;
            // How it has failed is told by its completions.
            self.stage.poll(&mut self.judge, true)?;
            self.look()?;
            self.stage.poll(&mut self.judge, false)?;
            let target = &self.stage.targets[i];
            let what = format!("queue pair {:#x}", target.qpn);
            let quiet = target.service != Service::Rc;
            if quiet && state == Some(QpState::Err) {
                ensure!(target.failed, "{what} is in ERR, and has told nobody why");
                continue;
            }
            let life = self.judge.lives.get_mut(&target.own);
            let Some(life) = life.filter(|_| target.answers() && !quiet) else {
                ensure!(state == Some(target.state), "{what} is in {state:?}, not {}", target.state);
                continue;
            };
            if state == Some(QpState::Err) {
                ensure!(life.fatal.is_some() || target.failed, "{what} is in ERR, and has told nobody why");
                continue;
            }
            ensure!(state == Some(target.state), "{what} is in {state:?}, not {}", target.state);
            ensure!(life.fatal.is_none(), "{what} has refused a request for good, and is in {state:?}");
            // What is older than all that it may expect is acknowledged with the newest (IBTA 9.7.5.1.2).
            let oldest = life.states.iter().map(|state| Psn::new(state.psn));
            let oldest = oldest.reduce(|a, b| if b.is_before(a) { b } else { a });
            let Some(oldest) = oldest else { bail!("{what} expects what it cannot expect") };
            let bth = Bth {
                opcode: Opcode::RcSendOnly as u8,
                psn: oldest.previous().get(),
                destqp: life.qpn,
                pkey: 0xffff,
                ackreq: true,
                ..Bth::default()
            };
            let bytes = Packet::new(life.v6, bth).with(&Extensions::default(), &[]).frame();
            life.acked = None;
            self.wire.lock().replies.push_back(bytes.clone());
            asked.push((target.own, bytes));
        }
        let overruns = |run: &Self| run.stage.context.drop_counter(DropReason::Overrun);
        let (mut limit, mut lost) = (self.cycle() + ANSWER, overruns(self)?);
        loop {
            // Its own requests may have run out of retries meanwhile.
            let failed = |own: &u32| self.stage.targets.iter().any(|t| t.own == *own && t.failed);
            let waits = |(own, _): &&(u32, Vec<u8>)| self.judge.lives[own].acked.is_none() && !failed(own);
            let Some((own, _)) = asked.iter().find(waits) else { break };
            if self.cycle() >= limit {
                // It may be one of those for which there was no room: a requester would ask again.
                let (qpn, now) = (self.judge.lives[own].qpn, overruns(self)?);
                ensure!(now > lost, "queue pair {qpn:#x} does not acknowledge a repeated message");
                (limit, lost) = (self.cycle() + ANSWER, now);
                let again = asked.iter().filter(waits).map(|(_, bytes)| bytes.clone());
                self.wire.lock().replies.extend(again);
            }
            self.go(STRIDE)?;
        }
        for (own, _) in asked {
            let Some(life) = self.judge.lives.get_mut(&own) else { continue };
            let Some(acked) = life.acked else { continue };
            let expected = Psn::new(acked).next().get();
            ensure!(
                life.may_expect(expected),
                "queue pair {:#x} expects PSN {expected:#x}, which no packets that it was sent lead to",
                life.qpn
            );
            life.settle(expected);
            let marks = &mut self.wire.lock().sight.marks;
            marks.iter_mut().filter(|mark| mark.own == own).for_each(|mark| {
                (mark.expect, mark.doomed) = (expected, false);
            });
        }
        Ok(())
    }

    fn count(&self) -> Result<BTreeMap<DropReason, u64>> {
        let context = &self.stage.context;
        DropReason::ALL.iter().map(|reason| Ok((*reason, context.drop_counter(*reason)?))).collect()
    }

    /// What must be dropped is counted, and nothing is counted that was not sent.
    fn check_counters(&mut self) -> Result<()> {
        let now = self.count()?;
        let more: BTreeMap<DropReason, u64> =
            now.iter().map(|(reason, n)| (*reason, n - self.counters[reason])).collect();
        self.counters = now;
        let Allowed { most, least, sure } = std::mem::take(&mut self.judge.allowed);
        let of =
            |counts: &BTreeMap<DropReason, u64>, reason| counts.get(&reason).copied().unwrap_or_default();
        let overrun = more[&DropReason::Overrun];
        for (reason, n) in &more {
            if *n > 0 {
                *self.outcome.drops.entry(reason.name().into()).or_default() += n;
            }
        }
        for reason in HEADER {
            let (n, most, least) = (more[&reason], of(&most, reason), of(&least, reason));
            let name = reason.name();
            ensure!(n <= most, "{name} has counted {n} packets, and at most {most} were such");
            ensure!(
                n + overrun >= least,
                "{name} has counted {n} packets, and {overrun} found no room, but {least} were such"
            );
        }
        let also = [DropReason::QpState, DropReason::Malformed, DropReason::Overrun, DropReason::GhostAck];
        let all: u64 = HEADER.iter().chain(&also).map(|reason| more[reason]).sum();
        ensure!(all >= sure, "{sure} packets had to be dropped, and {all} were counted: {more:?}");
        Ok(())
    }

    /// Queue pairs that are lost begin another life, most of them.
    fn repair(&mut self) -> Result<()> {
        for i in 0..self.stage.targets.len() {
            let own = self.stage.targets[i].own;
            let stalled = self.wire.lock().sight.marks.iter().any(|mark| mark.own == own && mark.stalled);
            if stalled || self.lost(i) {
                self.again(i)?;
            }
            self.stage.post_receives(&mut self.judge, i, 8)?;
        }
        for i in 0..self.stage.targets.len() {
            self.stage.lend(&mut self.judge, i)?;
        }
        self.stage.register_again(&mut self.judge, &self.wire)?;
        self.go(STRIDE)?;
        self.stage.show(&self.judge, &self.wire);
        Ok(())
    }

    /// The next good message to each queue pair is answered, and each one's own requests come to an end.
    fn probe(&mut self) -> Result<()> {
        let mut waits = Vec::new();
        for i in 0..self.stage.targets.len() {
            let target = &self.stage.targets[i];
            let Some(life) = self.judge.lives.get_mut(&target.own).filter(|_| target.answers()) else {
                continue;
            };
            if target.service != Service::Rc {
                continue;
            }
            let Some(psn) = life.states.iter().next().map(|state| state.psn) else { continue };
            // A message in progress may have been left in its middle: then this one is out of sequence.
            let sure = life.states.iter().all(|state| state.progress == Progress::None && state.psn == psn);
            let bth = |opcode: Opcode| Bth {
                opcode: opcode as u8,
                psn,
                destqp: life.qpn,
                pkey: 0xffff,
                ackreq: true,
                ..Bth::default()
            };
            let granted = |region: &&super::ground::Region| {
                !region.dead
                    && region.owner.is_none()
                    && region.pd == life.pd
                    && region.rights & REMOTE_WRITE != 0
                    && region.len > 64
            };
            let regions: Vec<_> = self.judge.ground.regions.iter().filter(granted).collect();
            let bytes = match life.rights & REMOTE_WRITE != 0 && !regions.is_empty() {
                true => {
                    let region = regions[self.rng.random_range(0..regions.len())];
                    let len = self.rng.random_range(1..=64usize);
                    let va = region.va.wrapping_add(self.rng.random_range(0..=region.len - len) as u64);
                    let reth = Some(Reth { va, rkey: region.key, len: len as u32 });
                    let data: Vec<u8> = (0..len).map(|_| self.rng.random()).collect();
                    let ext = Extensions { reth, ..Extensions::default() };
                    Packet::new(life.v6, bth(Opcode::RcWriteOnly)).with(&ext, &data).frame()
                }
                false => {
                    let ready = self.judge.receives.get(&life.qpn).is_some_and(|posted| !posted.is_empty());
                    if !ready {
                        continue;
                    }
                    Packet::new(life.v6, bth(Opcode::RcSendOnly)).with(&Extensions::default(), &[]).frame()
                }
            };
            (life.acked, life.rnr) = (None, None);
            self.wire.lock().replies.push_back(bytes.clone());
            waits.push((i, target.own, psn, sure, bytes));
        }
        let limit = self.cycle() + ANSWER;
        loop {
            self.go(STRIDE)?;
            let lives = &self.judge.lives;
            waits.retain(|(i, own, psn, sure, _)| {
                lives.get(own).is_some_and(|life| {
                    // Its own requests may have run out of retries meanwhile.
                    let failed = self.stage.targets[*i].failed;
                    !failed && life.acked != Some(*psn) && (*sure || life.fatal != Some((0x61, *psn)))
                })
            });
            // Without a receive, the peer tries again.
            for (i, own, psn, _, bytes) in &waits {
                let life = self.judge.lives.get_mut(own);
                let Some(life) = life.filter(|life| life.rnr == Some(*psn)) else { continue };
                life.rnr = None;
                self.stage.post_receives(&mut self.judge, *i, 8)?;
                self.wire.lock().replies.push_back(bytes.clone());
            }
            let Some((i, own, psn, ..)) = waits.first() else { break };
            let fatal = self.judge.lives[own].fatal;
            ensure!(
                fatal.is_none() && self.cycle() < limit,
                "a good message with PSN {psn:#x} to queue pair {:#x} is not acknowledged; NAK {fatal:x?}",
                self.stage.targets[*i].qpn
            );
            self.outcome.waited = self.outcome.waited.max(ANSWER + self.cycle() - limit);
        }
        self.probe_quiet()?;
        self.probe_requests()
    }

    /// The next good message to each queue pair of UC and UD is received, and what was half done before it is done no more.
    fn probe_quiet(&mut self) -> Result<()> {
        let mut waits = Vec::new();
        for i in 0..self.stage.targets.len() {
            self.stage.post_receives(&mut self.judge, i, 8)?;
            let target = &self.stage.targets[i];
            if target.service == Service::Rc || self.lost(i) {
                continue;
            }
            if target.service == Service::Raw {
                let Some(life) = self.judge.lives.get_mut(&target.own) else { continue };
                life.seen.clear();
                let len = self.rng.random_range(14..=SHORT_FRAME);
                let mut frame = [&mac(CARD)[..], &mac(FOE), &[0x88, 0xb5]].concat();
                frame.resize(len, self.rng.random());
                self.wire.lock().replies.push_back(frame);
                waits.push((i, target.own, len as u32));
                continue;
            }
            let life = &self.judge.lives[&target.own];
            self.imm += 1;
            let (imm, datagram) = (self.imm, target.service == Service::Ud);
            let opcode = if datagram { Opcode::UdSendOnlyImm } else { Opcode::UcSendOnlyImm };
            let psn = self.rng.random_range(0..1 << 24);
            let bth = Bth { opcode: opcode as u8, psn, destqp: life.qpn, pkey: 0xffff, ..Bth::default() };
            let deth = datagram.then_some(Deth { qkey: life.qkey, srcqp: 5, ..Deth::default() });
            let ext = Extensions { deth, imm: Some(ImmDt { imm }), ..Extensions::default() };
            let bytes = Packet::new(life.v6, bth).with(&ext, &[]).frame();
            self.wire.lock().replies.push_back(bytes);
            waits.push((i, target.own, imm));
        }
        let limit = self.cycle() + ANSWER;
        while let Some(&(i, own, imm)) = waits.first() {
            if self.stage.targets[i].failed || self.judge.lives[&own].seen.contains(&imm) {
                if let Some(life) = self.judge.lives.get_mut(&own) {
                    life.states.clear();
                }
                waits.remove(0);
                continue;
            }
            let qpn = self.stage.targets[i].qpn;
            ensure!(self.cycle() < limit, "queue pair {qpn:#x} does not receive a good message");
            self.go(STRIDE)?;
        }
        Ok(())
    }

    fn probe_requests(&mut self) -> Result<()> {
        let all = 0..self.stage.targets.len();
        let up: Vec<usize> =
            all.filter(|i| self.stage.targets[*i].state == QpState::Rts && !self.lost(*i)).collect();
        let be_kind =
            |wire: &Shared, kind| wire.lock().sight.marks.iter_mut().for_each(|mark| mark.kind = kind);
        be_kind(&self.wire, true);
        for i in &up {
            self.stage.post_sends(&mut self.judge, *i, 1)?;
        }
        let limit = self.cycle() + COMPLETE;
        loop {
            self.go(STRIDE)?;
            let waits = |i: &&usize| {
                let life = self.judge.lives.get(&self.stage.targets[**i].own);
                !self.lost(**i) && life.is_some_and(Life::waits)
            };
            let Some(i) = up.iter().find(waits) else { break };
            let qpn = self.stage.targets[*i].qpn;
            ensure!(
                self.cycle() < limit,
                "requests of queue pair {qpn:#x} are not completed in {COMPLETE} cycles, though they are acknowledged"
            );
        }
        be_kind(&self.wire, false);
        Ok(())
    }
}
