// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a completion says: what must be in memory with it, and what is the program's again.

use anyhow::{anyhow, bail, Context as _, Result};

use super::compare::{by_itself, Dangers, Fate};
use super::ends::Done;
use super::program::{is_answered, ENOUGH};
use super::run::{Area, Places, Play, Run};

/// How often a card may let time pass until what it acknowledged is in memory.
const SETTLES: u32 = 500;

impl Run<'_> {
    /// Whether a side must refuse something that was posted to it.
    pub(super) fn refuses(&self, side: usize) -> bool {
        let peer = &self.flows[1 - side];
        peer.mistake.is_some_and(|mistake| !mistake.is_local()) || self.inboxes[side].refuses(&peer.sent)
    }

    /// What else than its own mistakes may end the requests of a side; `hurt`: frames of the lane that did not come as sent.
    fn dangers(&self, side: usize, hurt: u64) -> Dangers {
        let life = &self.lane.lives[self.life];
        let (peer, other) = (1 - side, &self.flows[1 - side]);
        // Without a fault, or with fewer than it has retries, a request does not run out of them. Pauses for receives are no
        // progress, so faults before and after them add up. What is late of an earlier life looks like a gap, once.
        let waits = self.flows.iter().any(|flow| !flow.sent.is_empty());
        let hurt = hurt + u64::from(self.life > 0);
        let tired = (life.retry_cnt < ENOUGH || waits) && hurt > life.retry_cnt.into();
        let starves = life.rnr_retry < 7 && !other.sent.is_empty();
        Dangers {
            own: self.moved[side] || self.refuses(side),
            peer: self.moved[peer] || other.mistake.is_some() || other.failed.is_some() || starves || tired,
            refused: self.refuses(peer),
        }
    }
}

impl Play<'_> {
    pub(super) fn poll(&mut self) -> Result<bool> {
        let mut any = false;
        for side in 0..2 {
            for done in self.ends[side].poll()? {
                any = true;
                self.completions += 1;
                let status = done.status.map_or("no status".into(), |status| status.to_string());
                self.count(if done.receive { format!("receive: {status}") } else { status });
                self.completed(side, &done).with_context(|| format!("side {side}, {done:?}"))?;
            }
        }
        Ok(any)
    }

    fn completed(&mut self, side: usize, done: &Done) -> Result<()> {
        if let Some(at) = self.quiet.iter().position(|run| run.qpns[side] == done.qpn) {
            let number = self.quiet[at].lane.number;
            return self.completed_quiet(at, side, done).with_context(|| format!("lane {number}"));
        }
        if let Some(at) = self.windows.iter().position(|run| run.qpns[side] == done.qpn) {
            let (number, life) = (self.windows[at].lane.number, self.windows[at].life);
            let taken = self.completed_lent(at, side, done);
            return taken.with_context(|| format!("lane {number}, life {life}"));
        }
        if let Some(at) = self.raw.iter().position(|run| run.qpns[side] == done.qpn) {
            let number = self.raw[at].lane.number;
            return self.completed_raw(at, side, done).with_context(|| format!("lane {number}"));
        }
        let at = self.runs.iter().position(|run| run.qpns[side] == done.qpn);
        let at = at.ok_or_else(|| anyhow!("a completion of no queue pair"))?;
        let (lane, life) = (self.runs[at].lane.number, self.runs[at].life);
        let taken = if done.receive { self.received(at, side, done) } else { self.ended(at, side, done) };
        taken.with_context(|| format!("lane {lane}, life {life}"))
    }

    /// A request has ended.
    fn ended(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        let run = &mut self.runs[at];
        let hurt = (0..2).map(|from| self.watch.lock().hurt(from, run.qpns[1 - from])).sum::<u64>();
        let dangers = run.dangers(side, hurt);
        let (flow, inbox) = (&run.flows[side], &run.inboxes[1 - side]);
        let fates: Vec<(u64, Fate)> = flow
            .open
            .iter()
            .map(|open| match open.takes {
                Some(taken) => (open.id, inbox.fate(&flow.sent, taken)),
                None => (open.id, by_itself(&open.message)),
            })
            .collect();
        let fate = |id: u64| fates.iter().find(|(of, _)| *of == id).map_or(Fate::Well, |(_, fate)| *fate);
        let ended = run.flows[side].take(done, dangers, |open| fate(open.id)).map_err(|why| anyhow!(why))?;
        let Some(places) = run.areas[side] else { bail!("a completion where nothing was posted") };
        for open in &ended.well {
            for effect in self.runs[at].flows[side].executed(open.id) {
                self.areas[places.target].bytes.set(effect.to, &effect.data);
            }
            if let Some(answers) = places.answers.filter(|_| is_answered(open.message.verb)) {
                self.areas[answers].bytes.set(open.message.from, &open.answer);
            }
        }
        if let Some(open) = &ended.badly {
            for effect in self.runs[at].flows[side].executed(open.id) {
                self.areas[places.target].bytes.maybe(effect.to, &effect.data);
            }
            let answers = places.answers.filter(|_| is_answered(open.message.verb));
            if let Some(answers) = answers.filter(|_| open.message.mistake.is_none()) {
                self.areas[answers].bytes.maybe(open.message.from, &open.answer);
            }
        }
        self.check(at, side, "with this completion")?;
        // Memory is given back with the completion: whoever still reads it sends something else, and whoever still writes it
        // is seen (IBTA 10.8.5).
        for open in ended.well.iter().chain(&ended.badly).filter(|open| !open.message.inline) {
            let area = if is_answered(open.message.verb) { places.answers } else { Some(places.source) };
            if let Some(area) = area {
                self.give_back(area, open.message.from, open.message.len);
            }
        }
        Ok(())
    }

    /// A receive has ended.
    pub(super) fn received(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        if self.runs[at].lane.room.shared {
            return self.received_shared(at, side, done);
        }
        let run = &mut self.runs[at];
        let flow = &mut run.flows[1 - side];
        let received = run.inboxes[side].take(done, &flow.sent).map_err(|why| anyhow!(why))?;
        let places = run.areas[1 - side];
        let Some(Places { target, inbox: Some(inbox), .. }) = places else {
            bail!("a completion where nothing was posted")
        };
        // All before the message has been done too, and is there to be seen (IBTA 10.8.3.3, 9.7.5.1.6).
        if let Some(sent) = received.sent.filter(|_| received.well) {
            for effect in flow.executed(flow.sent[sent].id) {
                self.areas[target].bytes.set(effect.to, &effect.data);
            }
        }
        for (place, data) in &received.wrote {
            let bytes = &mut self.areas[inbox].bytes;
            match received.well {
                true => bytes.set(*place, data),
                false => bytes.maybe(*place, data),
            }
        }
        self.check(at, 1 - side, "with this receive")?;
        for (place, len) in received.places {
            self.give_back(inbox, place, len);
        }
        Ok(())
    }

    /// Compares all memory of a side's messages, but for what they are sent from.
    pub(super) fn check(&self, at: usize, side: usize, when: &str) -> Result<()> {
        let Run { flows, inboxes, areas, .. } = &self.runs[at];
        let Some(Places { target, answers, inbox, .. }) = areas[side] else { return Ok(()) };
        let flow = &flows[side];
        let arriving = inboxes[1 - side].under_way(&flow.sent);
        let arriving: Vec<(usize, &[u8])> =
            arriving.iter().map(|(place, data)| (*place, &data[..])).collect();
        let all = [
            ("target", Some(target), flow.under_way()),
            ("answers", answers, flow.answers()),
            ("inbox", inbox, arriving),
        ];
        let pool = self.pools[1 - side].as_ref().filter(|_| self.runs[at].lane.room.shared);
        if let Some(pool) = pool {
            let area = &self.areas[pool.area];
            let got = self.ends[area.side].read(area.index);
            if let Some(wrong) = area.bytes.wrong(&got, 0..got.len(), &pool.open(&got)) {
                bail!("{when}, in the shared receives: {wrong}");
            }
        }
        for (what, area, under_way) in all {
            let Some(area) = area.map(|area| &self.areas[area]) else { continue };
            let wrong = match what {
                "target" => self.wrong_at_last(area, &under_way),
                _ => {
                    let got = self.ends[area.side].read(area.index);
                    area.bytes.wrong(&got, 0..got.len(), &under_way)
                }
            };
            if let Some(wrong) = wrong {
                bail!("{when}, in the {what}: {wrong}");
            }
        }
        Ok(())
    }

    /// What is wrong of an area that a peer writes, when the peer knows that it did. Writes over PCIe are posted, and over AXI4 seen late: of what a card acknowledges
    /// nobody can say more than that it is on its way. Its own completions are behind it.
    pub(super) fn wrong_at_last(&self, area: &Area, under_way: &[(usize, &[u8])]) -> Option<String> {
        let end = &self.ends[area.side];
        for _ in 0..SETTLES {
            let got = end.read(area.index);
            let wrong = area.bytes.wrong(&got, 0..got.len(), under_way)?;
            if !end.settle() {
                return Some(wrong);
            }
        }
        let got = end.read(area.index);
        area.bytes.wrong(&got, 0..got.len(), under_way)
    }
}
