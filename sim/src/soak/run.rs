// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a [`Program`] on two ends, and compares all that comes of it with what must: [`super::post`] posts, [`super::taken`]
//! takes completions, [`super::lives`] ends lives.

use anyhow::{Context as _, Result};
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::compare::{Flow, Memory};
use super::ends::{End, Path, Region, Rights, PAGE};
use super::generate::{POOL, POOL_BUFFER};
use super::inbox::Inbox;
use super::network::Watch;
use super::pool::Pool;
use super::program::{Lane, Pace, Program, Trouble};
use super::{quiet, raw, windows, Tally};

/// Bytes of the region that peers may not write.
const CLOSED: usize = 256;

/// What the program writes where a request has given its memory back.
pub(super) const USED: u8 = 0xee;

/// The two ends of a case.
pub type Ends = [Box<dyn End>; 2];

/// A region of an end, and what must be in it.
pub(super) struct Area {
    pub(super) side: usize,
    pub(super) index: usize,
    pub(super) key: u32,
    pub(super) region: Region,
    pub(super) bytes: Memory,
}

/// Memory of a side's messages, by its place among the areas; target and inbox are the peer's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) source: usize,
    pub(super) answers: Option<usize>,
    pub(super) target: usize,
    pub(super) inbox: Option<usize>,
}

/// How far a lane has got with its trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    No,
    /// In SQD.
    Draining,
}

/// A lane under way.
pub(super) struct Run<'a> {
    pub(super) lane: &'a Lane,
    pub(super) qpns: [u32; 2],
    pub(super) areas: [Option<Places>; 2],
    pub(super) flows: [Flow; 2],
    pub(super) inboxes: [Inbox; 2],
    pub(super) life: usize,
    /// Queue pairs that were moved to ERR.
    pub(super) moved: [bool; 2],
    pub(super) drain: Drain,
    pub(super) drained: usize,
    /// Both queue pairs have been reset; until that step, nothing else is done.
    pub(super) rests: Option<u64>,
    pub(super) over: bool,
    pub(super) rng: SmallRng,
}

/// A program under way.
pub struct Play<'a> {
    pub(super) program: &'a Program,
    pub(super) ends: &'a mut Ends,
    pub(super) areas: Vec<Area>,
    /// For each side, an area that peers may not write.
    pub(super) closed: [usize; 2],
    pub(super) runs: Vec<Run<'a>>,
    /// Those of UC and UD, whose queue pairs were made behind the others.
    pub(super) quiet: Vec<quiet::Run<'a>>,
    /// Those with windows, made behind these.
    pub(super) windows: Vec<windows::Run<'a>>,
    /// That of raw Ethernet, made behind these.
    pub(super) raw: Vec<raw::Run<'a>>,
    /// For each side, what is in its shared receive queue.
    pub(super) pools: [Option<Pool>; 2],
    pub(super) next_id: u64,
    /// Steps so far.
    pub(super) steps: u64,
    /// No lane begins another life.
    pub(super) stopping: bool,
    pub(super) watch: Watch,
    /// Completions so far.
    pub completions: u64,
    /// What has happened so far.
    pub tally: Tally,
}

impl<'a> Play<'a> {
    /// Makes regions and queue pairs, and connects them for their first lives.
    ///
    /// # Errors
    /// An end refuses.
    pub fn new(program: &'a Program, ends: &'a mut Ends, seed: u64, watch: &Watch) -> Result<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut areas = Vec::new();
        let mut counts = [0; 2];
        let mut area = |ends: &mut Ends, side: usize, region: &Region| -> Result<usize> {
            let mut pages = vec![0; region.pages()];
            rng.fill_bytes(&mut pages);
            let key = ends[side].region(region, &pages).context("registering memory")?;
            let (index, bytes) = (counts[side], Memory::new(pages));
            counts[side] += 1;
            areas.push(Area { side, index, key, region: region.clone(), bytes });
            Ok(areas.len() - 1)
        };
        let address = 0x7_0000_0000 + PAGE as u64 / 2;
        let shut = Region { address, len: CLOSED, rights: Rights::Closed };
        let closed = [area(ends, 0, &shut)?, area(ends, 1, &shut)?];
        let mut pools = [None, None];
        if program.lanes.iter().any(|lane| lane.room.shared) {
            for (side, pool) in pools.iter_mut().enumerate() {
                // With something between any two, and behind the last.
                let region =
                    Region { address: 0x9_0000_0001, len: POOL * (POOL_BUFFER + 1), rights: Rights::Local };
                *pool = Some(Pool::new(area(ends, side, &region)?, region.front()));
                ends[side].share(POOL as u32).context("making a shared receive queue")?;
            }
        }
        let mut runs = Vec::new();
        for lane in &program.lanes {
            let mut places = [None; 2];
            for (side, place) in places.iter_mut().enumerate() {
                if let Some(memory) = &lane.memory[side] {
                    let mut maybe = |ends: &mut Ends, side: usize, region: &Option<Region>| {
                        region.as_ref().map(|region| area(ends, side, region)).transpose()
                    };
                    let (answers, inbox) =
                        (maybe(ends, side, &memory.answers)?, maybe(ends, 1 - side, &memory.inbox)?);
                    let source = area(ends, side, &memory.source)?;
                    let target = area(ends, 1 - side, &memory.target)?;
                    *place = Some(Places { source, answers, target, inbox });
                }
            }
            let mut create = |side: usize| ends[side].create(lane.room).context("making a queue pair");
            runs.push(Run {
                lane,
                qpns: [create(0)?, create(1)?],
                areas: places,
                flows: Default::default(),
                inboxes: [(); 2].map(|()| Inbox::of(lane.room.shared)),
                life: 0,
                moved: [false; 2],
                drain: Drain::No,
                drained: 0,
                rests: None,
                over: false,
                rng: SmallRng::seed_from_u64(lane.seed),
            });
        }
        let mut quiet = Vec::new();
        for lane in &program.quiet {
            let (near, far) = (lane.side, 1 - lane.side);
            let source = area(ends, near, &lane.source)?;
            let (target, inbox) = (area(ends, far, &lane.target)?, area(ends, far, &lane.inbox)?);
            let mut create = |side: usize| ends[side].create(lane.room).context("making a queue pair");
            let qpns = [create(0)?, create(1)?];
            quiet.push(quiet::Run::new(lane, runs.len() + quiet.len(), qpns, [source, target, inbox]));
        }
        let mut lending = Vec::new();
        for lane in &program.windows {
            let (owner, peer) = (lane.owner, 1 - lane.owner);
            let lent = area(ends, owner, &lane.lent)?;
            let read_only = area(ends, owner, &lane.read_only)?;
            let answers = area(ends, peer, &lane.answers)?;
            let sources = [area(ends, 0, &lane.sources[0])?, area(ends, 1, &lane.sources[1])?];
            let inboxes = [area(ends, 0, &lane.inboxes[0])?, area(ends, 1, &lane.inboxes[1])?];
            let mut create = |side: usize| ends[side].create(lane.room).context("making a queue pair");
            let (qpns, qp) = ([create(0)?, create(1)?], runs.len() + quiet.len() + lending.len());
            let places = windows::Places { lent, read_only, answers, sources, inboxes };
            lending.push(windows::Run::new(lane, qp, qpns, places));
        }
        let mut raw = Vec::new();
        for lane in &program.raw {
            let areas = [area(ends, 0, &lane.memory[0])?, area(ends, 1, &lane.memory[1])?];
            let mut create = |side: usize| ends[side].create(lane.room).context("making a queue pair");
            let (qpns, qp) = ([create(0)?, create(1)?], runs.len() + quiet.len() + lending.len());
            raw.push(raw::Run::new(lane, qp, qpns, areas));
        }
        let mut play = Self {
            program,
            ends,
            areas,
            closed,
            runs,
            quiet,
            windows: lending,
            raw,
            pools,
            next_id: 0,
            steps: 0,
            stopping: false,
            watch: watch.clone(),
            completions: 0,
            tally: Tally::new(),
        };
        for at in 0..play.runs.len() {
            play.connect(at)?;
        }
        for at in 0..play.quiet.len() {
            play.connect_quiet(at)?;
        }
        for at in 0..play.windows.len() {
            play.connect_lent(at)?;
        }
        for at in 0..play.raw.len() {
            play.connect_raw(at)?;
        }
        Ok(play)
    }

    pub(super) fn count(&mut self, what: impl ToString) {
        *self.tally.entry(what.to_string()).or_default() += 1;
    }

    pub(super) fn connect(&mut self, at: usize) -> Result<()> {
        for side in 0..2 {
            let Run { lane, qpns, areas, life, .. } = &self.runs[at];
            let (lane, life) = (*lane, &lane.lives[*life]);
            let path = Path {
                ipv6: self.program.ipv6,
                mtu: lane.mtu,
                peer: qpns[1 - side],
                sq_psn: life.psns[side],
                rq_psn: life.psns[1 - side],
                timeout: if life.patient { 0 } else { lane.timeout },
                retry_cnt: life.retry_cnt,
                rnr_retry: life.rnr_retry,
                min_rnr_timer: lane.min_rnr_timer,
                rd_atomic: lane.rd_atomic,
                selective: lane.selective,
            };
            if let Some(Places { target, .. }) = areas[side] {
                self.runs[at].flows[side].image = self.areas[target].bytes.want().to_vec();
            }
            let ahead = match life.pace[side] {
                Pace::Ahead => lane.room.receives as usize,
                _ => 0,
            };
            let receives = self.receives(at, side, ahead);
            let what = || format!("connecting lane {}", lane.number);
            self.ends[side].connect(at, &path, &receives).with_context(what)?;
        }
        Ok(())
    }

    /// Lets each lane do what it likes to, and takes completions; whether anything happened.
    ///
    /// # Errors
    /// What differs from what must be.
    pub fn step(&mut self) -> Result<bool> {
        let mut moved = false;
        self.steps += 1;
        for side in 0..2 {
            moved |= self.fill_pool(side)?;
        }
        for at in 0..self.runs.len() {
            let (number, life) = (self.runs[at].lane.number, self.runs[at].life);
            let what = |e: anyhow::Error| e.context(format!("lane {number}, life {life}"));
            moved |= self.advance(at).map_err(what)?;
        }
        for at in 0..self.quiet.len() {
            let number = self.quiet[at].lane.number;
            moved |= self.advance_quiet(at).map_err(|e| e.context(format!("lane {number}")))?;
        }
        for at in 0..self.windows.len() {
            let (number, life) = (self.windows[at].lane.number, self.windows[at].life);
            let what = |e: anyhow::Error| e.context(format!("lane {number}, life {life}"));
            moved |= self.advance_lent(at).map_err(what)?;
        }
        for at in 0..self.raw.len() {
            let number = self.raw[at].lane.number;
            moved |= self.advance_raw(at).map_err(|e| e.context(format!("lane {number}")))?;
        }
        Ok(self.poll()? | moved)
    }

    /// Lets each lane end with the life that it is in.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// The queue pairs of a side.
    pub fn qpns(&self, side: usize) -> Vec<u32> {
        self.runs.iter().map(|run| run.qpns[side]).collect()
    }

    /// Whether all is done.
    pub fn is_over(&self) -> bool {
        self.runs.iter().all(|run| run.over) && self.others_are_over()
    }

    /// Whether all is done but for reliable connections.
    fn others_are_over(&self) -> bool {
        self.quiet.iter().all(quiet::Run::is_over)
            && self.windows.iter().all(windows::Run::is_over)
            && self.raw.iter().all(raw::Run::is_over)
    }

    /// Whether only connections without a time-out are left, and an end has dropped frames because its receive buffer was full. Such a drop is a loss like one on
    /// the wire, which only a time-out repairs (IBTA 9.7.6.1.3). The case ends there, and is counted.
    ///
    /// # Errors
    /// An end does not say what it has lost.
    pub fn stands_for_a_loss(&mut self) -> Result<bool> {
        let mut open = self.runs.iter().filter(|run| !run.over);
        if !self.others_are_over() || !open.all(|run| run.lane.lives[run.life].patient) {
            return Ok(false);
        }
        let [first, second] = &mut *self.ends;
        let lost = first.has_lost()? || second.has_lost()?;
        if lost {
            self.count("stands for a loss in a receive buffer");
        }
        Ok(lost)
    }

    /// What lanes still wait for.
    pub fn waits(&self) -> String {
        let open = self.runs.iter().filter(|run| !run.over);
        let text = open.map(|run| {
            let ids = run.flows.each_ref().map(|flow| flow.open.iter().map(|o| o.id).collect::<Vec<_>>());
            let receives = run.inboxes.each_ref().map(|inbox| inbox.open().collect::<Vec<_>>());
            let Run { lane, life, drain, .. } = run;
            let number = lane.number;
            format!("lane {number} in life {life}, {drain:?}, requests {ids:?}, receives {receives:?}")
        });
        let quiet = self.quiet.iter().filter(|run| !run.is_over()).map(quiet::Run::waits);
        let windows = self.windows.iter().filter(|run| !run.is_over()).map(windows::Run::waits);
        let raw = self.raw.iter().filter(|run| !run.is_over()).map(raw::Run::waits);
        text.chain(quiet).chain(windows).chain(raw).collect::<Vec<_>>().join("; ")
    }

    fn advance(&mut self, at: usize) -> Result<bool> {
        let run = &mut self.runs[at];
        if run.over {
            return Ok(false);
        }
        if let Some(until) = run.rests {
            if self.steps >= until {
                self.begin_next(at)?;
            }
            return Ok(true);
        }
        let life = &run.lane.lives[run.life];
        let posted: usize = run.flows.iter().map(|flow| flow.posted).sum();
        let now = run.rng.random_bool(0.3);
        let mut moved = false;
        match &life.trouble {
            Trouble::Reset(first, after) if now && posted >= *after => {
                let first = *first;
                self.count("reset under way");
                self.end_life(at, first)?;
                return Ok(true);
            }
            Trouble::Error(side, after) if now && posted >= *after && !run.moved[*side] => {
                run.moved[*side] = true;
                self.ends[*side].modify(at, QpState::Err)?;
                self.count("moved to ERR");
                moved = true;
            }
            Trouble::Drain(side, when) => {
                let (side, next) = (*side, when.get(run.drained).copied());
                moved |= self.drain(at, side, next.is_some_and(|after| now && posted >= after))?;
            }
            _ => {}
        }
        for side in 0..2 {
            moved |= self.post_receives(at, side)?;
            if self.runs[at].rng.random_bool(0.5) {
                moved |= self.post(at, side)?;
            }
        }
        let run = &self.runs[at];
        let life = &run.lane.lives[run.life];
        let ended = (0..2)
            .all(|side| run.flows[side].open.is_empty() && run.flows[side].posted == life.work[side].len());
        let calm = match &life.trouble {
            Trouble::None => true,
            Trouble::Drain(_, when) => run.drained == when.len() && run.drain == Drain::No,
            Trouble::Error(side, _) => run.moved[*side],
            Trouble::Reset(..) => false,
        };
        if ended && calm {
            let first = self.runs[at].rng.random_range(0..2);
            if self.check_states(at)? {
                self.end_life(at, first)?;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// To SQD when it is time, and back when it is drained.
    fn drain(&mut self, at: usize, side: usize, begin: bool) -> Result<bool> {
        match self.runs[at].drain {
            Drain::No if begin => {
                self.ends[side].modify(at, QpState::Sqd)?;
                self.runs[at].drain = Drain::Draining;
                Ok(true)
            }
            Drain::Draining if self.ends[side].is_drained(at)? => {
                // What has ended is told before.
                self.poll()?;
                self.ends[side].modify(at, QpState::Rts)?;
                self.count("drained");
                let run = &mut self.runs[at];
                run.drain = Drain::No;
                run.drained += 1;
                run.flows[side].release();
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}
