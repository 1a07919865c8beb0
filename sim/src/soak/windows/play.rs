// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plays a lane of windows: when which side posts what, and what is to come of it.

use std::collections::VecDeque;

use anyhow::{Context as _, Result};
use ferrowire_spec::queue::cqe::{CqeOpcode, WcStatus};
use ferrowire_spec::queue::send_wqe::SendOpcode;
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::compare::Effect;
use super::super::ends::{Bind, Path, Receive};
use super::super::lives::REST;
use super::super::program::ENOUGH;
use super::super::run::Play;
use super::{Back, Lane, Life, Round, Trouble, Use, When};

/// Memory of a lane, by its place among the areas.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Places {
    pub(in super::super) lent: usize,
    pub(in super::super) read_only: usize,
    pub(in super::super) answers: usize,
    pub(in super::super) sources: [usize; 2],
    pub(in super::super) inboxes: [usize; 2],
}

/// How a request must end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Well,
    /// The window goes while it is under way.
    Either,
    /// The peer must refuse it.
    Denied,
    /// It must not be bound or invalidated.
    Refused,
    /// Its local key is none.
    Local,
}

/// What it means for the window that a request has ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    /// It is bound, and the peer is told.
    Bound,
    /// It is not bound any more.
    Back,
}

/// A request under way.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) window: usize,
    pub(super) fate: Fate,
    pub(super) mark: Mark,
    pub(super) signaled: bool,
    pub(super) opcode: CqeOpcode,
    /// What it brings to the answers, and where.
    pub(super) answer: Option<(usize, Vec<u8>)>,
    /// What it is sent from: place and bytes.
    pub(super) source: (usize, usize),
    /// It takes a receive.
    pub(super) takes: bool,
}

/// A message that takes a receive.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) id: u64,
    pub(super) window: usize,
    pub(super) mark: Mark,
    pub(super) denied: bool,
    /// As its receive is completed.
    pub(super) opcode: CqeOpcode,
    pub(super) imm: Option<u32>,
    pub(super) invalidated: Option<u32>,
    pub(super) len: usize,
    /// What it places; a WRITE nothing.
    pub(super) data: Vec<u8>,
}

/// How far a window is in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    Binding,
    /// The peer may use it, and has begun so many uses.
    Lent(usize),
    /// It is being taken back.
    Returning,
    /// Something wrong has been done.
    Ruined,
}

/// A window under way.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) key: u32,
    pub(super) round: usize,
    pub(super) stage: Stage,
    /// Uses that have not ended.
    pub(super) uses: usize,
    /// It was taken back: what was in its part of the region then.
    pub(super) frozen: Option<Vec<u8>>,
    /// It was freed, and none has taken its place.
    pub(super) freed: bool,
}

/// One side of a connection, in a life.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) open: VecDeque<Open>,
    pub(super) sent: VecDeque<Sent>,
    /// Messages that are known to have come, and receives that ended well.
    pub(super) sent_well: usize,
    pub(super) received: usize,
    /// Receives posted, with their slots; slots that are free.
    pub(super) receives: VecDeque<(u64, usize)>,
    pub(super) free: Vec<usize>,
    pub(super) flushed: bool,
    /// How the first request, or receive, failed.
    pub(super) failed: Option<WcStatus>,
    pub(super) refused: Option<WcStatus>,
    /// It has posted what the peer must or may refuse; what fails here; READs or atomics.
    pub(super) wrong: bool,
    pub(super) fails: bool,
    pub(super) answered: bool,
    pub(super) moved: bool,
}

/// A lane under way.
pub struct Run<'a> {
    pub(in super::super) lane: &'a Lane,
    /// Its place among the queue pairs of the ends.
    pub(super) qp: usize,
    pub(in super::super) qpns: [u32; 2],
    pub(super) places: Places,
    pub(super) flows: [Flow; 2],
    pub(super) windows: Vec<Window>,
    /// What is written in the region by requests that nobody has heard the end of, and what it is when all of them are.
    pub(super) effects: VecDeque<Effect>,
    pub(super) image: Vec<u8>,
    pub(in super::super) life: usize,
    /// Requests posted in the life.
    posted: usize,
    rests: Option<u64>,
    over: bool,
    pub(super) rng: SmallRng,
}

impl<'a> Run<'a> {
    pub(in super::super) fn new(lane: &'a Lane, qp: usize, qpns: [u32; 2], places: Places) -> Self {
        Self {
            lane,
            qp,
            qpns,
            places,
            flows: Default::default(),
            windows: Vec::new(),
            effects: VecDeque::new(),
            image: Vec::new(),
            life: 0,
            posted: 0,
            rests: None,
            over: false,
            rng: SmallRng::seed_from_u64(lane.seed),
        }
    }

    pub(in super::super) fn is_over(&self) -> bool {
        self.over
    }

    pub(in super::super) fn waits(&self) -> String {
        let ids = self.flows.each_ref().map(|flow| flow.open.iter().map(|o| o.id).collect::<Vec<_>>());
        let stages: Vec<_> = self.windows.iter().map(|w| (w.round, w.stage, w.uses)).collect();
        format!("lane {} in life {}, windows {stages:?}, requests {ids:?}", self.lane.number, self.life)
    }

    pub(super) fn life(&self) -> &'a Life {
        &self.lane.lives[self.life]
    }

    /// Nothing more is begun.
    fn is_ending(&self) -> bool {
        self.flows.iter().any(|flow| flow.failed.is_some() || flow.refused.is_some() || flow.moved)
    }
}

impl Play<'_> {
    /// Windows, receives and queue pairs of a life.
    pub(in super::super) fn connect_lent(&mut self, at: usize) -> Result<()> {
        let Run { lane, qp, qpns, places, .. } = self.windows[at];
        let life = self.windows[at].life();
        self.windows[at].image = self.areas[places.lent].bytes.want().to_vec();
        if self.windows[at].windows.is_empty() {
            for _ in 0..lane.windows() {
                let key = self.ends[lane.owner].window().context("making a window")?;
                let window =
                    Window { key, round: 0, stage: Stage::Idle, uses: 0, frozen: None, freed: false };
                self.windows[at].windows.push(window);
            }
        }
        for side in 0..2 {
            self.windows[at].flows[side].free = (0..lane.room.receives as usize).collect();
            let ahead = self.windows[at].rng.random_range(0..=lane.room.receives as usize);
            let receives = self.receives_lent(at, side, ahead);
            let path = Path {
                ipv6: self.program.ipv6,
                mtu: lane.mtu,
                peer: qpns[1 - side],
                sq_psn: life.psns[side],
                rq_psn: life.psns[1 - side],
                timeout: lane.timeout,
                retry_cnt: ENOUGH,
                rnr_retry: 7,
                min_rnr_timer: lane.min_rnr_timer,
                rd_atomic: lane.rd_atomic,
                selective: false,
            };
            let what = || format!("connecting lane {}", lane.number);
            self.ends[side].connect(qp, &path, &receives).with_context(what)?;
        }
        Ok(())
    }

    fn receives_lent(&mut self, at: usize, side: usize, most: usize) -> Vec<Receive> {
        let run = &mut self.windows[at];
        let (area, len) = (&self.areas[run.places.inboxes[side]], run.lane.slot);
        let flow = &mut run.flows[side];
        let mut all = Vec::new();
        for slot in flow.free.drain(..most.min(flow.free.len())) {
            self.next_id += 1;
            let id = self.next_id;
            flow.receives.push_back((id, slot));
            let address = area.region.address + (slot * (len + 1)) as u64;
            all.push(Receive { id, local: vec![(address, area.key, len as u32)] });
        }
        all
    }

    pub(in super::super) fn advance_lent(&mut self, at: usize) -> Result<bool> {
        let run = &mut self.windows[at];
        if run.over {
            return Ok(false);
        }
        if let Some(until) = run.rests {
            if self.steps >= until {
                self.next_lent(at)?;
            }
            return Ok(true);
        }
        let still = run.flows.iter().all(|flow| flow.open.is_empty());
        let mut rounds = run.life().rounds.iter().zip(&run.windows);
        let done = still && rounds.all(|(rounds, window)| window.round == rounds.len());
        let (qp, now, posted) = (run.qp, run.rng.random_bool(0.3), run.posted);
        match run.life().trouble {
            Trouble::Reset(first, after) if now && (posted >= after || done) => {
                self.count("windows: reset under way");
                return self.end_lent(at, first).map(|()| true);
            }
            Trouble::Error(side, after) if now && (posted >= after || done) && !run.flows[side].moved => {
                run.flows[side].moved = true;
                self.ends[side].modify(qp, QpState::Err)?;
                self.count("windows: moved to ERR");
                return Ok(true);
            }
            _ => {}
        }
        let mut moved = false;
        for side in 0..2 {
            let run = &mut self.windows[at];
            let most = self.ends[side].free_receives(qp).min(run.flows[side].free.len());
            if most > 0 && run.rng.random_bool(0.3) {
                let count = run.rng.random_range(1..=most);
                let receives = self.receives_lent(at, side, count);
                self.ends[side].post_receives(qp, &receives)?;
                moved = true;
            }
        }
        for window in 0..self.windows[at].windows.len() {
            if !self.windows[at].is_ending() && self.windows[at].rng.random_bool(0.4) {
                moved |= self.advance_window(at, window)?;
            }
        }
        let run = &self.windows[at];
        let still = run.flows.iter().all(|flow| flow.open.is_empty());
        let calm = run.life().trouble == Trouble::None;
        if still && (run.is_ending() || done && calm && !moved) && self.check_lent_states(at)? {
            let first = self.windows[at].rng.random_range(0..2);
            self.end_lent(at, first)?;
            moved = true;
        }
        Ok(moved)
    }

    /// Lets a window do what comes next in its round.
    fn advance_window(&mut self, at: usize, number: usize) -> Result<bool> {
        let run = &mut self.windows[at];
        let (qp, owner) = (run.qp, run.lane.owner);
        let rounds = &run.life().rounds[number];
        let window = &run.windows[number];
        let Some(round) = rounds.get(window.round) else { return Ok(false) };
        let (peer, misuse) = (1 - owner, round.misuse);
        let poster = match window.stage {
            Stage::Lent(used) if used < round.uses.len() => peer,
            Stage::Lent(_) => match misuse.filter(|misuse| misuse.when() == When::Bound) {
                Some(misuse) if misuse.is_of_peer() => peer,
                None if matches!(round.back, Back::SendInv(..)) => peer,
                _ => owner,
            },
            _ => owner,
        };
        // A step posts up to two requests beside uses.
        let room = self.ends[poster].free(qp);
        if room < 3 {
            return Ok(false);
        }
        let mut requests = Vec::new();
        match window.stage {
            Stage::Binding | Stage::Returning | Stage::Ruined => return Ok(false),
            Stage::Idle if misuse.is_some_and(|misuse| misuse.when() == When::Unbound) => {
                requests.extend(misuse.map(|misuse| self.misuse(at, number, round, misuse)));
            }
            Stage::Idle => self.bind_window(at, number, round, &mut requests),
            Stage::Lent(used) if used < round.uses.len() => {
                let early = round.early && used > 0 && run.rng.random_bool(0.5);
                if early && self.ends[owner].free(qp) >= 3 {
                    return self.take_back(at, number, round);
                }
                let count = run.rng.random_range(1..=(round.uses.len() - used).min(room - 2));
                for (i, one) in round.uses[used..used + count].iter().enumerate() {
                    // With silent ones alone a queue would have no room any more.
                    let one = Use { signaled: one.signaled || i + 1 == count, ..one.clone() };
                    requests.push(self.use_window(at, number, round, &one, Fate::Well));
                }
                self.windows[at].windows[number].stage = Stage::Lent(used + count);
                let all = used + count == round.uses.len() && misuse.is_none();
                if let Back::SendInv(from, len) = round.back {
                    if all && self.windows[at].rng.random_bool(0.5) {
                        requests.push(self.send_inv(at, number, (from, len), None));
                        self.windows[at].windows[number].stage = Stage::Returning;
                    }
                }
            }
            Stage::Lent(_) => match (misuse.filter(|misuse| misuse.when() == When::Bound), round.back) {
                (Some(misuse), _) => requests.push(self.misuse(at, number, round, misuse)),
                (None, Back::SendInv(from, len)) => {
                    requests.push(self.send_inv(at, number, (from, len), None));
                    self.windows[at].windows[number].stage = Stage::Returning;
                    // What is behind it finds the window gone.
                    if let Some(misuse) = misuse {
                        requests.push(self.misuse(at, number, round, misuse));
                    }
                }
                (None, _) if window.uses > 0 && !round.early => return Ok(false),
                (None, _) => return self.take_back(at, number, round),
            },
        }
        self.windows[at].posted += requests.len();
        self.ends[poster].post(qp, &requests)?;
        Ok(true)
    }

    /// The owner takes a window back, whether it is in use or not.
    fn take_back(&mut self, at: usize, number: usize, round: &Round) -> Result<bool> {
        let (owner, qp) = (self.windows[at].lane.owner, self.windows[at].qp);
        let mut in_use = false;
        for open in self.windows[at].flows[1 - owner].open.iter_mut().filter(|open| open.window == number) {
            if open.fate == Fate::Well {
                (open.fate, in_use) = (Fate::Either, true);
            }
        }
        self.windows[at].flows[1 - owner].wrong |= in_use;
        if in_use {
            self.count("windows: taken back in use");
        }
        let request = match round.back {
            Back::Free => {
                let key = self.windows[at].windows[number].key;
                self.ends[owner].free_window(key).context("freeing a window")?;
                self.windows[at].windows[number].freed = true;
                self.count("windows: freed");
                self.poll()?;
                self.freeze(at, number);
                self.returned(at, number)?;
                return Ok(true);
            }
            Back::Unbind => {
                self.renew_tag(at, number);
                let mut bind = self.request_lent(SendOpcode::BindMw);
                let nothing = Bind { bytes: 0, ..self.binding(at, number, round) };
                bind.bind = Some(nothing);
                bind
            }
            _ => {
                let mut inv = self.request_lent(SendOpcode::LocalInv);
                inv.key = self.windows[at].windows[number].key;
                inv
            }
        };
        self.note(at, owner, number, &request, Fate::Well, Mark::Back);
        self.windows[at].windows[number].stage = Stage::Returning;
        self.windows[at].posted += 1;
        self.ends[owner].post(qp, &[request])?;
        self.count("windows: taken back");
        Ok(true)
    }

    /// A window is not bound any more, and its round is over, but for what is still to be done wrong.
    pub(super) fn returned(&mut self, at: usize, number: usize) -> Result<()> {
        let run = &mut self.windows[at];
        let (owner, qp) = (run.lane.owner, run.qp);
        let Some(round) = run.life().rounds[number].get(run.windows[number].round) else { return Ok(()) };
        if run.windows[number].stage == Stage::Ruined || run.is_ending() {
            return Ok(());
        }
        if let Some(misuse) = round.misuse.filter(|misuse| misuse.when() == When::After) {
            if self.ends[1 - owner].free(qp) > 0 {
                let request = self.misuse(at, number, round, misuse);
                self.windows[at].posted += 1;
                self.ends[1 - owner].post(qp, &[request])?;
                return Ok(());
            }
        }
        if round.back == Back::Free {
            let key = self.ends[owner].window().context("making a window")?;
            let window = &mut self.windows[at].windows[number];
            (window.key, window.freed) = (key, false);
        }
        let window = &mut self.windows[at].windows[number];
        (window.round, window.stage) = (window.round + 1, Stage::Idle);
        Ok(())
    }

    /// The end of a life: RESET, or other queue pairs, `first` on that side.
    fn end_lent(&mut self, at: usize, first: usize) -> Result<()> {
        let Run { qp, lane, .. } = self.windows[at];
        let run = &self.windows[at];
        let (anew, last) = (run.life().anew, self.stopping || run.life + 1 == lane.lives.len());
        let still = run.flows.iter().all(|flow| flow.open.is_empty());
        let idle = run.windows.iter().all(|window| window.stage == Stage::Idle);
        let clean = still && idle && !run.is_ending();
        if last && clean {
            return self.next_lent(at);
        }
        for side in [first, 1 - first] {
            match anew {
                true => self.windows[at].qpns[side] = self.ends[side].renew(qp)?,
                false => self.ends[side].reset(qp)?,
            }
        }
        // What a failed life has done to its windows is not known. They can be freed whatever they are, but not twice.
        if !clean || last {
            for window in std::mem::take(&mut self.windows[at].windows) {
                if !window.freed {
                    self.ends[lane.owner].free_window(window.key).context("freeing a window")?;
                }
            }
        }
        self.windows[at].rests = Some(self.steps + REST);
        Ok(())
    }

    /// After the rest: the next life, or the end.
    fn next_lent(&mut self, at: usize) -> Result<()> {
        self.settle_lent(at)?;
        let run = &mut self.windows[at];
        run.flows = Default::default();
        (run.effects, run.posted, run.rests) = (VecDeque::new(), 0, None);
        for window in &mut run.windows {
            (window.round, window.stage, window.uses, window.frozen) = (0, Stage::Idle, 0, None);
        }
        if self.stopping || run.life + 1 == run.lane.lives.len() {
            run.over = true;
            return Ok(());
        }
        run.life += 1;
        self.connect_lent(at)
    }
}
