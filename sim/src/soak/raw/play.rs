// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plays a [`Lane`], and compares what comes of it.

use std::collections::VecDeque;

use anyhow::{anyhow, bail, ensure, Context as _, Result};
use ferrowire::PathMtu;
use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::ends::{Done, Path, Piece, Receive, Request};
use super::super::program::Pace;
use super::super::run::{Play, USED};
use super::wire::{Next, Traffic};
use super::{Lane, Life, Message, Mistake, SOURCE};

/// Steps without anything new after which nothing is under way, on a wire that holds nothing back.
const CALM: u64 = 200;

/// Cycles of a step, as a rule.
const STEP: u64 = 80;

/// Steps after which a receive that was posted is there, and a card has done what it was told, with a host that answers at once.
const SURE: u64 = 20;

/// A receive that was posted and has not ended.
struct Waiting {
    id: u64,
    slot: usize,
    /// Places in the slot, and bytes, in order.
    pieces: Vec<(usize, usize)>,
    spoilt: bool,
    step: u64,
}

impl Waiting {
    fn room(&self) -> usize {
        self.pieces.iter().map(|(_, len)| len).sum()
    }
}

/// An end of the lane.
#[derive(Default)]
struct Side {
    /// Requests under way: their numbers, and those of their messages.
    open: VecDeque<(u64, usize)>,
    posted: usize,
    /// A request was wrong: until all behind it are flushed, nothing is posted.
    wrong: bool,
    receives: VecDeque<Waiting>,
    free: Vec<usize>,
    /// The receive with a wrong key was posted; it has been found; the queue pair is in error for it.
    spoilt: bool,
    found: bool,
    failed: bool,
    /// Changes of the filter so far.
    changed: usize,
}

/// A lane under way.
pub(in super::super) struct Run<'a> {
    pub(in super::super) lane: &'a Lane,
    /// Its place among the queue pairs of the ends.
    qp: usize,
    pub(in super::super) qpns: [u32; 2],
    /// For each side, its memory among the areas.
    areas: [usize; 2],
    life: usize,
    sides: [Side; 2],
    /// The step of the last thing that happened.
    news: u64,
    /// Both queue pairs have been reset; until that step, nothing else is done.
    rests: Option<u64>,
    rng: SmallRng,
    over: bool,
}

impl<'a> Run<'a> {
    pub(in super::super) fn new(lane: &'a Lane, qp: usize, qpns: [u32; 2], areas: [usize; 2]) -> Self {
        let rng = SmallRng::seed_from_u64(lane.seed);
        let sides = Default::default();
        Self { lane, qp, qpns, areas, life: 0, sides, news: 0, rests: None, rng, over: false }
    }

    pub(in super::super) fn is_over(&self) -> bool {
        self.over
    }

    pub(in super::super) fn waits(&self) -> String {
        let under_way = self.sides.each_ref().map(|side| (side.posted, side.open.len(), side.receives.len()));
        format!("lane {} in life {}, posted, open, receives: {under_way:?}", self.lane.number, self.life)
    }

    fn plan(&self) -> &'a Life {
        &self.lane.lives[self.life]
    }

    /// Whether a side has nothing more to send: all is posted, or its queue pair is in error.
    fn is_done(&self, side: usize) -> bool {
        self.sides[side].failed || self.sides[side].posted == self.plan().work[side].len()
    }

    /// Whether a request of a side will tell of its end, whatever is posted behind it.
    fn awaits(&self, side: usize) -> bool {
        let work = &self.plan().work[side];
        self.sides[side]
            .open
            .iter()
            .any(|(_, number)| work[*number].signaled || work[*number].mistake.is_some())
    }

    /// The change of a side's filter that is due.
    fn due(&self, side: usize) -> Option<(bool, &'a super::Filter)> {
        let change = self.plan().changes[side].get(self.sides[side].changed)?;
        let peer = 1 - side;
        let time = self.sides[peer].posted >= change.after || self.is_done(peer);
        time.then_some((change.calm, &change.filter))
    }
}

impl Play<'_> {
    fn traffic<T>(&self, from: usize, f: impl FnOnce(&mut Traffic) -> T) -> T {
        f(&mut self.watch.lock().raw[from])
    }

    /// Whether frames from a side come in their order, each once.
    fn keeps_order(&self, from: usize) -> bool {
        self.program.faults[from].keeps_order()
    }

    fn sure(&self) -> u64 {
        SURE + 6 * self.program.host_latency / STEP
    }

    /// The receive of a side that is next.
    fn next_raw(&self, at: usize, side: usize) -> Option<Next> {
        let waiting = self.raw[at].sides[side].receives.front().filter(|waiting| !waiting.spoilt)?;
        Some(Next { room: waiting.room(), since: waiting.step + self.sure() })
    }

    pub(in super::super) fn connect_raw(&mut self, at: usize) -> Result<()> {
        let Run { lane, qp, qpns, .. } = self.raw[at];
        self.raw[at].news = self.steps;
        for side in 0..2 {
            let run = &mut self.raw[at];
            run.sides[side] = Side { free: (0..lane.room.receives as usize).collect(), ..Side::default() };
            let path = Path {
                ipv6: self.program.ipv6,
                mtu: PathMtu::B4096,
                peer: qpns[1 - side],
                sq_psn: 0,
                rq_psn: 0,
                timeout: 0,
                retry_cnt: 0,
                rnr_retry: 0,
                min_rnr_timer: 0,
                rd_atomic: 0,
                selective: false,
            };
            let ahead = match run.plan().pace[side] {
                Pace::Ahead => lane.room.receives as usize,
                _ => 0,
            };
            let receives = self.receives_for_raw(at, side, ahead);
            let what = || format!("connecting lane {}", lane.number);
            self.ends[side].connect(qp, &path, &receives).with_context(what)?;
            self.traffic(1 - side, |traffic| traffic.close(false));
        }
        Ok(())
    }

    /// At most so many receives of random length in random pieces.
    fn receives_for_raw(&mut self, at: usize, side: usize, most: usize) -> Vec<Receive> {
        let (steps, run) = (self.steps, &mut self.raw[at]);
        let (lane, spoil) = (run.lane, run.plan().spoilt[side] && !run.sides[side].spoilt);
        let area = &self.areas[run.areas[side]];
        let mut all = Vec::new();
        for _ in 0..most {
            let Some(slot) = run.sides[side].free.pop() else { break };
            let rng = &mut run.rng;
            let room = if rng.random_bool(0.7) { lane.slot } else { rng.random_range(1..=lane.slot) };
            let count = rng.random_range(1..=usize::from(lane.room.receive_pieces));
            let mut cuts: Vec<usize> = (1..count).map(|_| rng.random_range(0..=room)).collect();
            cuts.extend([0, room]);
            cuts.sort_unstable();
            let mut pieces: Vec<(usize, usize)> =
                cuts.windows(2).map(|cut| (cut[0], cut[1] - cut[0])).collect();
            if rng.random_bool(0.5) {
                pieces.reverse();
            }
            let spoilt = spoil && !run.sides[side].spoilt && rng.random_bool(0.3);
            run.sides[side].spoilt |= spoilt;
            let start = area.region.address.wrapping_add((SOURCE + slot * (lane.slot + 1)) as u64);
            let mut bad = spoilt;
            let piece = |&(at, len): &(usize, usize)| -> Piece {
                // The first piece with bytes has it.
                let wrong = bad && len > 0;
                bad &= !wrong;
                (start.wrapping_add(at as u64), area.key ^ u32::from(wrong), len as u32)
            };
            let local = pieces.iter().map(piece).collect();
            let id = self.next_id;
            self.next_id += 1;
            run.sides[side].receives.push_back(Waiting { id, slot, pieces, spoilt, step: steps });
            all.push(Receive { id, local });
        }
        all
    }

    pub(in super::super) fn advance_raw(&mut self, at: usize) -> Result<bool> {
        let steps = self.steps;
        (0..2).for_each(|side| self.traffic(side, |traffic| traffic.at(steps)));
        let run = &mut self.raw[at];
        if run.over {
            return Ok(false);
        }
        if let Some(until) = run.rests {
            if steps >= until {
                run.rests = None;
                self.connect_raw(at)?;
            }
            return Ok(true);
        }
        let posted: usize = run.sides.iter().map(|side| side.posted).sum();
        if run.plan().reset.is_some_and(|after| posted >= after) && run.rng.random_bool(0.3) {
            self.count("raw: reset under way");
            self.end_raw(at)?;
            return Ok(true);
        }
        let mut moved = false;
        for side in 0..2 {
            moved |= self.recover_raw(at, side)?;
            if let Some((false, _)) = self.raw[at].due(side) {
                self.change_raw(at, side)?;
                moved = true;
            }
            moved |= self.post_receives_raw(at, side)?;
            moved |= self.post_raw(at, side)?;
        }
        let run = &mut self.raw[at];
        if moved || (0..2).any(|side| run.awaits(side)) {
            run.news = steps;
        }
        let hold = self.program.faults.iter().map(|faults| faults.hold).max().unwrap_or(0);
        let calm = CALM + self.sure() + 2 * hold / STEP;
        if steps - self.raw[at].news > calm {
            // What others send may still be under way, and be raw by a fault of the wire.
            self.calm_raw(at, steps - calm / 2)?;
            moved = true;
        }
        Ok(moved)
    }

    /// Back to RTS, behind a request that was wrong.
    fn recover_raw(&mut self, at: usize, side: usize) -> Result<bool> {
        let (qp, state) = (self.raw[at].qp, &self.raw[at].sides[side]);
        if !state.wrong || state.failed || !state.open.is_empty() {
            return Ok(false);
        }
        let now = self.ends[side].state(qp)?;
        match now {
            Some(QpState::Sqe) => self.ends[side].modify(qp, QpState::Rts)?,
            // The receive with a wrong key was found meanwhile.
            Some(QpState::Err) if state.spoilt => return Ok(false),
            _ => bail!("side {side}, behind a request that was wrong, is in {now:?}"),
        }
        self.raw[at].sides[side].wrong = false;
        self.count("raw: SQE and back");
        Ok(true)
    }

    fn change_raw(&mut self, at: usize, side: usize) -> Result<()> {
        let Some((_, filter)) = self.raw[at].due(side) else { return Ok(()) };
        let from = 1 - side;
        self.traffic(from, |traffic| traffic.change(filter, false));
        self.ends[side].filter(filter).context("setting the raw filter")?;
        self.traffic(from, |traffic| traffic.change(filter, true));
        self.raw[at].sides[side].changed += 1;
        self.count("raw: filters");
        Ok(())
    }

    fn post_receives_raw(&mut self, at: usize, side: usize) -> Result<bool> {
        let run = &mut self.raw[at];
        if run.sides[side].failed || run.sides[side].free.is_empty() {
            return Ok(false);
        }
        let share = match run.plan().pace[side] {
            Pace::Ahead => 1.0,
            Pace::Steady => 0.3,
            Pace::Late => 0.03,
        };
        let qp = run.qp;
        let most = run.sides[side].free.len().min(self.ends[side].free_receives(qp));
        if most == 0 || !run.rng.random_bool(share) {
            return Ok(false);
        }
        let count = run.rng.random_range(1..=most);
        let receives = self.receives_for_raw(at, side, count);
        self.ends[side].post_receives(qp, &receives)?;
        Ok(true)
    }

    fn post_raw(&mut self, at: usize, side: usize) -> Result<bool> {
        let run = &mut self.raw[at];
        let state = &run.sides[side];
        // A filter that changes when nothing is under way has the sender wait for that.
        let waits = matches!(run.due(1 - side), Some((true, _)));
        if run.is_done(side) || state.wrong || waits || !run.rng.random_bool(0.4) {
            return Ok(false);
        }
        let (qp, left) = (run.qp, run.plan().work[side].len() - state.posted);
        let most = self.ends[side].free(qp).min(left);
        if most == 0 {
            return Ok(false);
        }
        let count = run.rng.random_range(1..=most);
        let requests: Vec<Request> = (0..count).map(|_| self.request_raw(at, side)).collect();
        self.ends[side].post(qp, &requests)?;
        Ok(true)
    }

    fn request_raw(&mut self, at: usize, side: usize) -> Request {
        let run = &mut self.raw[at];
        let (id, number, area) = (self.next_id, run.sides[side].posted, run.areas[side]);
        let message = &run.plan().work[side][number];
        self.next_id += 1;
        run.sides[side].posted += 1;
        run.sides[side].open.push_back((id, number));
        let (key, start) = (self.areas[area].key, self.areas[area].region.address);
        let key = key ^ u32::from(message.mistake == Some(Mistake::Key));
        let (mut cuts, len) = (vec![0, message.data.len()], message.data.len());
        (1..message.pieces).for_each(|_| cuts.push(run.rng.random_range(0..=len)));
        cuts.sort_unstable();
        let piece = |cut: &[usize]| -> Piece {
            (start.wrapping_add((message.at + cut[0]) as u64), key, (cut[1] - cut[0]) as u32)
        };
        let request = Request {
            id,
            opcode: match message.mistake {
                Some(Mistake::Opcode) => SendOpcode::Write,
                _ => SendOpcode::Send,
            },
            local: if message.inline { Vec::new() } else { cuts.windows(2).map(piece).collect() },
            inline: message.inline.then(|| message.data.clone()),
            remote: (0, 0),
            imm: 0,
            operands: (0, 0),
            signaled: message.signaled,
            solicited: false,
            fence: false,
            key: 0,
            bind: None,
        };
        self.put(area, message.at, &message.data);
        self.traffic(side, |traffic| traffic.post(id, message.data.clone()));
        request
    }

    pub(in super::super) fn completed_raw(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        self.raw[at].news = self.steps;
        if done.receive {
            return self.received_raw(at, side, done);
        }
        loop {
            let run = &mut self.raw[at];
            let state = &mut run.sides[side];
            let (id, number) = state.open.pop_front().ok_or_else(|| anyhow!("nothing is under way"))?;
            let message = &run.lane.lives[run.life].work[side][number];
            if id != done.id {
                let silent = !message.signaled && message.mistake.is_none() && !state.wrong;
                ensure!(silent, "request {id} is before it");
                self.used_raw(at, side, message);
                continue;
            }
            let want = match message.mistake {
                _ if state.wrong => WcStatus::WrFlushErr,
                None => WcStatus::Success,
                Some(Mistake::Key) => WcStatus::LocProtErr,
                Some(Mistake::Opcode) => WcStatus::LocQpOpErr,
            };
            // A receive with a wrong key ends all.
            let flushed = state.spoilt && !state.wrong && done.status == Some(WcStatus::WrFlushErr);
            ensure!(done.status == Some(want) || flushed, "it must end with {want}");
            if want == WcStatus::Success && !flushed {
                ensure!(message.signaled, "it was to be silent");
                ensure!(done.opcode == Some(CqeOpcode::Send), "it was a SEND");
            } else {
                state.wrong |= !flushed;
                state.failed |= flushed;
                // What was under way when the queue pair failed is flushed, and its frame has left, leaves yet, or does not.
                match flushed {
                    true => self.traffic(side, |traffic| traffic.release_one(id)),
                    false => {
                        ensure!(self.traffic(side, |traffic| traffic.withdraw(id)), "its frame has left")
                    }
                }
            }
            self.used_raw(at, side, message);
            return Ok(());
        }
    }

    /// The memory is the program's again: who still reads it sends something else.
    fn used_raw(&mut self, at: usize, side: usize, message: &Message) {
        let area = self.raw[at].areas[side];
        if !message.inline {
            self.put(area, message.at, &vec![USED; message.data.len()]);
        }
    }

    fn received_raw(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        let ordered = self.keeps_order(1 - side);
        let next = self.next_raw(at, side);
        let run = &mut self.raw[at];
        let (lane, area) = (run.lane, run.areas[side]);
        let state = &mut run.sides[side];
        let waiting = state.receives.pop_front().ok_or_else(|| anyhow!("nothing was posted"))?;
        ensure!(waiting.id == done.id, "receive {} is before it", waiting.id);
        state.free.push(waiting.slot);
        let front = self.areas[area].region.front() + SOURCE + waiting.slot * (lane.slot + 1);
        if done.status != Some(WcStatus::Success) {
            let want = if waiting.spoilt { WcStatus::LocProtErr } else { WcStatus::WrFlushErr };
            let found = waiting.spoilt || state.found;
            ensure!(found && done.status == Some(want), "it must not end so");
            (state.found, state.failed) = (true, true);
            self.traffic(1 - side, |traffic| traffic.close(true));
            self.pin_raw(area, front, lane.slot);
            self.count("raw: receives that failed");
            return Ok(());
        }
        ensure!(!waiting.spoilt, "its key is none");
        ensure!((done.opcode, done.imm) == (Some(CqeOpcode::Recv), None), "it is a SEND's");
        ensure!((done.source, done.solicited) == (None, false), "nobody is named in a frame");
        let bytes = done.bytes as usize;
        ensure!(bytes <= waiting.room(), "it has {} bytes", waiting.room());
        let got = self.ends[side].read(self.areas[area].index);
        let (mut frame, mut left) = (Vec::new(), bytes);
        for (place, len) in &waiting.pieces {
            let len = left.min(*len);
            let piece = &got[front + place..][..len];
            frame.extend_from_slice(piece);
            self.areas[area].bytes.set(front + place, piece);
            left -= len;
        }
        let wrong = self.areas[area].bytes.wrong(&got, front..front + lane.slot + 1, &[]);
        if let Some(wrong) = wrong {
            bail!("beside the frame: {wrong}");
        }
        let taken = self.traffic(1 - side, |traffic| {
            let next = next.unwrap_or(Next { room: 0, since: u64::MAX });
            traffic.take(&frame, next, ordered)
        });
        self.unless_overrun(side, taken)?;
        // The buffer is the program's again.
        let start = front - self.areas[area].region.front();
        self.put(area, start, &vec![USED; lane.slot]);
        self.count("raw: a frame came");
        Ok(())
    }

    /// What the wire says is wrong, or missing: a card whose buffer is full drops what finds no room.
    fn unless_overrun(&self, side: usize, said: Result<Option<String>, String>) -> Result<()> {
        let missing = said.map_err(|wrong| anyhow!(wrong))?;
        let excused = missing.is_none() || self.ends[side].diagnose().contains("drop_overrun");
        ensure!(excused, "{}", missing.unwrap_or_default());
        Ok(())
    }

    /// What is in a receive that has come to nothing stays so.
    fn pin_raw(&mut self, area: usize, front: usize, len: usize) {
        let area = &mut self.areas[area];
        let got = self.ends[area.side].read(area.index);
        area.bytes.set(front, &got[front..front + len]);
    }

    /// Nothing is under way: filters change that waited for that, or the life ends.
    fn calm_raw(&mut self, at: usize, before: u64) -> Result<()> {
        self.raw[at].news = self.steps;
        for side in 0..2 {
            let (ordered, next) = (self.keeps_order(1 - side), self.next_raw(at, side));
            let said = self.traffic(1 - side, |traffic| traffic.calm(before, next, ordered));
            self.unless_overrun(side, said)?;
        }
        let mut changed = false;
        for side in 0..2 {
            if self.raw[at].due(side).is_some() {
                self.change_raw(at, side)?;
                changed = true;
            }
        }
        let run = &self.raw[at];
        if changed
            || !(0..2).all(|side| run.is_done(side))
            || run.sides.iter().any(|side| side.wrong && !side.failed)
        {
            return Ok(());
        }
        for side in 0..2 {
            let want = if self.raw[at].sides[side].failed { QpState::Err } else { QpState::Rts };
            let state = self.ends[side].state(self.raw[at].qp)?;
            ensure!(state == Some(want), "the queue pair of side {side} is in {state:?}, not in {want}");
        }
        self.end_raw(at)
    }

    fn end_raw(&mut self, at: usize) -> Result<()> {
        let Run { lane, qp, areas, life, .. } = self.raw[at];
        let first = self.raw[at].rng.random_range(0..2);
        for side in [first, 1 - first] {
            self.traffic(1 - side, |traffic| traffic.close(true));
            match lane.lives[life].anew {
                true => self.raw[at].qpns[side] = self.ends[side].renew(qp)?,
                false => self.ends[side].reset(qp)?,
            }
            // Frames that are on their way to the wire may still leave.
            self.traffic(side, Traffic::release);
            let state = std::mem::take(&mut self.raw[at].sides[side]);
            for (_, number) in state.open {
                self.used_raw(at, side, &lane.lives[life].work[side][number]);
            }
            let front = self.areas[areas[side]].region.front() + SOURCE;
            for waiting in state.receives {
                self.pin_raw(areas[side], front + waiting.slot * (lane.slot + 1), lane.slot);
            }
        }
        self.count("raw: lives");
        let run = &mut self.raw[at];
        (run.life, run.news) = (life + 1, self.steps);
        run.over = run.life == lane.lives.len();
        run.rests = (!run.over).then(|| self.steps + run.rng.random_range(0..100));
        Ok(())
    }

    /// Everything has been sent, and the wire is quiet.
    pub(in super::super) fn finish_raw(&mut self) -> Result<()> {
        // Without a lane, its filter and its frames are others' affair.
        for side in (0..2).filter(|_| !self.raw.is_empty()) {
            let (sent, passed) = (
                self.traffic(side, |traffic| traffic.sent()),
                self.traffic(1 - side, |traffic| traffic.passed()),
            );
            let [came, left] = self.ends[side].raw_frames()?;
            ensure!(left == sent, "side {side} counts {left} raw frames sent, and {sent} have left");
            let (least, most) = passed;
            let overrun = self.ends[side].diagnose().contains("drop_overrun");
            ensure!(
                came <= most && (came >= least || overrun),
                "side {side} counts {came} raw frames that came, and {least} to {most} have passed"
            );
        }
        Ok(())
    }
}
