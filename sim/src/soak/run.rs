// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a [`Program`] on two ends, and compares all that comes of it with what must.

use anyhow::{anyhow, bail, Context as _, Result};
use ferrowire_spec::QpState;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::compare::{Dangers, Flow, Memory, Open};
use super::ends::{Done, End, Path, Region, Request, Rights, PAGE};
use super::network::Watch;
use super::program::{Lane, Life, Message, Mistake, Program, Trouble, ENOUGH};
use super::Tally;

/// Bytes of the region that peers may not write.
const CLOSED: usize = 256;

/// What the program writes where a request has given its memory back.
const USED: u8 = 0xee;

/// The two ends of a case.
pub type Ends = [Box<dyn End>; 2];

/// A region of an end, and what must be in it.
pub(super) struct Area {
    pub(super) side: usize,
    pub(super) index: usize,
    key: u32,
    region: Region,
    pub(super) bytes: Memory,
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
    /// Source and target of each side, by their place among the areas.
    pub(super) areas: [Option<(usize, usize)>; 2],
    pub(super) flows: [Flow; 2],
    pub(super) life: usize,
    /// Queue pairs that were moved to ERR.
    pub(super) moved: [bool; 2],
    pub(super) drain: Drain,
    pub(super) drained: usize,
    pub(super) over: bool,
    rng: SmallRng,
}

/// A program under way.
pub struct Play<'a> {
    program: &'a Program,
    pub(super) ends: &'a mut Ends,
    pub(super) areas: Vec<Area>,
    /// For each side, an area that peers may not write.
    closed: [usize; 2],
    pub(super) runs: Vec<Run<'a>>,
    next_id: u64,
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
        let mut runs = Vec::new();
        for lane in &program.lanes {
            let mut places = [None; 2];
            for (side, place) in places.iter_mut().enumerate() {
                if let Some((source, target)) = &lane.memory[side] {
                    *place = Some((area(ends, side, source)?, area(ends, 1 - side, target)?));
                }
            }
            let mut create = |side: usize| ends[side].create(lane.room).context("making a queue pair");
            runs.push(Run {
                lane,
                qpns: [create(0)?, create(1)?],
                areas: places,
                flows: Default::default(),
                life: 0,
                moved: [false; 2],
                drain: Drain::No,
                drained: 0,
                over: false,
                rng: SmallRng::seed_from_u64(lane.seed),
            });
        }
        let mut play = Self {
            program,
            ends,
            areas,
            closed,
            runs,
            next_id: 0,
            watch: watch.clone(),
            completions: 0,
            tally: Tally::new(),
        };
        for at in 0..play.runs.len() {
            play.connect(at)?;
        }
        Ok(play)
    }

    fn count(&mut self, what: impl ToString) {
        *self.tally.entry(what.to_string()).or_default() += 1;
    }

    pub(super) fn connect(&mut self, at: usize) -> Result<()> {
        let Run { lane, qpns, .. } = &self.runs[at];
        let life = &lane.lives[self.runs[at].life];
        for side in 0..2 {
            let path = Path {
                ipv6: self.program.ipv6,
                mtu: lane.mtu,
                peer: qpns[1 - side],
                sq_psn: life.psns[side],
                rq_psn: life.psns[1 - side],
                timeout: lane.timeout,
                retry_cnt: life.retry_cnt,
            };
            self.ends[side].connect(at, &path).with_context(|| format!("connecting lane {}", lane.number))?;
        }
        Ok(())
    }

    /// Lets each lane do what it likes to, and takes completions; whether anything happened.
    ///
    /// # Errors
    /// What differs from what must be.
    pub fn step(&mut self) -> Result<bool> {
        let mut moved = false;
        for at in 0..self.runs.len() {
            let (number, life) = (self.runs[at].lane.number, self.runs[at].life);
            let what = |e: anyhow::Error| e.context(format!("lane {number}, life {life}"));
            moved |= self.advance(at).map_err(what)?;
        }
        Ok(self.poll()? | moved)
    }

    /// Whether all is done.
    pub fn is_over(&self) -> bool {
        self.runs.iter().all(|run| run.over)
    }

    /// What lanes still wait for.
    pub fn waits(&self) -> String {
        let open = self.runs.iter().filter(|run| !run.over);
        let text = open.map(|run| {
            let ids = run.flows.each_ref().map(|flow| flow.open.iter().map(|o| o.id).collect::<Vec<_>>());
            let Run { lane, life, drain, .. } = run;
            format!("lane {} in life {life}, {drain:?}, requests {ids:?}", lane.number)
        });
        text.collect::<Vec<_>>().join("; ")
    }

    fn advance(&mut self, at: usize) -> Result<bool> {
        let run = &mut self.runs[at];
        if run.over {
            return Ok(false);
        }
        let life = &run.lane.lives[run.life];
        let posted: usize = run.flows.iter().map(|flow| flow.posted).sum();
        let now = run.rng.random_bool(0.3);
        let mut moved = false;
        match &life.trouble {
            Trouble::Reset(first, after) if now && posted >= *after => {
                let first = *first;
                self.bury(at);
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
                run.flows[side].open.iter_mut().for_each(|open| open.held = false);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Posts some of what a side has to post.
    fn post(&mut self, at: usize, side: usize) -> Result<bool> {
        let life: &Life = &self.runs[at].lane.lives[self.runs[at].life];
        let free = self.ends[side].free(at);
        let left = life.work[side].len() - self.runs[at].flows[side].posted;
        let most = free.min(left);
        if most == 0 {
            return Ok(false);
        }
        let count = self.runs[at].rng.random_range(1..=most);
        let trouble = &life.trouble;
        let held =
            self.runs[at].drain == Drain::Draining && matches!(trouble, Trouble::Drain(s, _) if *s == side);
        let mut requests = Vec::new();
        for _ in 0..count {
            let message = &life.work[side][self.runs[at].flows[side].posted];
            let request = self.request(at, side, message);
            let (source, target) = self.runs[at].areas[side].unwrap_or_default();
            let from = self.areas[source].region.front() + message.from;
            let data = self.areas[source].bytes.want()[from..from + message.len].to_vec();
            // Places are of the target's pages from here on.
            let to = self.areas[target].region.front() + message.to;
            let message = Message { to, ..message.clone() };
            let flow = &mut self.runs[at].flows[side];
            flow.posted += 1;
            flow.mistake = flow.mistake.or(message.mistake);
            flow.open.push_back(Open { id: request.id, message, data, held });
            requests.push(request);
        }
        self.ends[side].post(at, &requests)?;
        Ok(true)
    }

    /// A message as a request, with its mistake.
    fn request(&mut self, at: usize, side: usize, message: &Message) -> Request {
        let (source, target) = self.runs[at].areas[side].unwrap_or_default();
        let (source, target) = (&self.areas[source], &self.areas[target]);
        let len = message.len as u64;
        let mut local = (source.region.address + message.from as u64, source.key, message.len as u32);
        let mut remote = (target.region.address + message.to as u64, target.key);
        match message.mistake {
            None => {}
            Some(Mistake::LocalKey) => local.1 ^= 1,
            Some(Mistake::LocalBounds) => {
                local.0 = source.region.address + source.region.len as u64 - len + 1;
            }
            Some(Mistake::RemoteKey) => remote.1 ^= 1,
            Some(Mistake::RemoteBounds) => {
                remote.0 = target.region.address + target.region.len as u64 - len + 1;
            }
            Some(Mistake::RemoteRights) => {
                let closed = &self.areas[self.closed[1 - side]];
                remote = (closed.region.address, closed.key);
            }
        }
        self.next_id += 1;
        let Message { verb: opcode, signaled, solicited, .. } = *message;
        Request { id: self.next_id, opcode, local, remote, signaled, solicited }
    }

    pub(super) fn poll(&mut self) -> Result<bool> {
        let mut any = false;
        for side in 0..2 {
            for done in self.ends[side].poll()? {
                any = true;
                self.completions += 1;
                self.count(done.status.map_or("no status".into(), |status| status.to_string()));
                self.completed(side, &done).with_context(|| format!("side {side}, {done:?}"))?;
            }
        }
        Ok(any)
    }

    fn completed(&mut self, side: usize, done: &Done) -> Result<()> {
        let run = self.runs.iter_mut().find(|run| run.qpns[side] == done.qpn);
        let run = run.ok_or_else(|| anyhow!("a completion of no queue pair"))?;
        let (lane, life) = (run.lane.number, run.life);
        let peer = &run.flows[1 - side];
        // Without a fault, or with fewer than it has retries, a request does not run out of them.
        let hurt = (0..2).map(|from| self.watch.lock().hurt(from, run.qpns[1 - from])).sum::<u64>();
        let retry_cnt = run.lane.lives[life].retry_cnt;
        let dangers = Dangers {
            own: run.moved[side] || peer.mistake.is_some_and(|mistake| !mistake.is_local()),
            peer: run.moved[1 - side]
                || peer.mistake.is_some()
                || peer.failed.is_some()
                || retry_cnt < ENOUGH && hurt > retry_cnt.into(),
        };
        let what = || format!("lane {lane}, life {life}");
        let ended = run.flows[side].take(done, dangers).map_err(|why| anyhow!(why)).with_context(what)?;
        let Some((source, target)) = run.areas[side] else { bail!("a completion where nothing was posted") };
        for open in &ended.well {
            self.areas[target].bytes.set(open.message.to, &open.data);
        }
        if let Some(open) = ended.badly.as_ref().filter(|open| open.message.mistake.is_none()) {
            self.areas[target].bytes.maybe(open.message.to, &open.data);
        }
        // Memory is given back with the completion: whoever still reads it sends something else (IBTA 10.8.5).
        for open in ended.well.iter().chain(&ended.badly) {
            let Area { region, index, bytes, .. } = &mut self.areas[source];
            let at = region.front() + open.message.from;
            let used = vec![USED; open.message.len];
            bytes.set(at, &used);
            self.ends[side].write(*index, at, &used);
        }
        let got = self.ends[1 - side].read(self.areas[target].index);
        let under_way = run.flows[side].under_way();
        match self.areas[target].bytes.wrong(&got, 0..got.len(), &under_way) {
            Some(wrong) => Err(anyhow!("with this completion, in the target: {wrong}").context(what())),
            None => Ok(()),
        }
    }
}
