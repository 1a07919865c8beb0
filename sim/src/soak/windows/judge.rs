// SPDX-License-Identifier: MIT OR Apache-2.0
//! What must come of a lane of windows: completions and their order, bytes, states.
//!
//! - A window gives what it was bound to give, from when the peer is told until it is taken back; and what it does not give, no
//!   byte of (IBTA 10.6.7.2.4).
//! - What is taken back while it is in use ends well or is denied. From then on nothing is written there (10.6.7.2.5).
//! - A bind or an invalidation that must be refused ends with `MW_BIND_ERR`.
//! - A receive says which key its message has invalidated.

use anyhow::{anyhow, bail, ensure, Result};
use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::QpState;

use super::super::ends::Done;
use super::super::lives::{Ends, Verdict};
use super::super::program::ENOUGH;
use super::super::run::Play;
use super::play::{Fate, Mark, Open, Run, Stage};
use super::PART;

impl Run<'_> {
    /// Why a request may not end so, if it may not. `hurt`: frames of the lane that did not come as sent.
    fn objection(&self, side: usize, open: &Open, done: &Done, hurt: u64) -> Option<String> {
        use {Fate as F, WcStatus as W};
        let (flow, other) = (&self.flows[side], &self.flows[1 - side]);
        let Some(status) = done.status else { return Some("its status does not exist".into()) };
        let silent = other.failed.is_some() || other.fails || other.moved || flow.wrong && flow.answered;
        let tired = hurt + u64::from(self.life > 0) > ENOUGH.into();
        let fine = match (flow.failed, status, open.fate) {
            (Some(_), W::WrFlushErr, _) => true,
            (Some(_), _, _) => return Some("one before it has failed".into()),
            (None, W::Success, F::Well | F::Either) => {
                let bytes = open.answer.as_ref().map_or(done.bytes as usize, |(_, bytes)| bytes.len());
                if done.opcode != Some(open.opcode) || done.bytes as usize != bytes {
                    return Some(format!("as {:?} of {} bytes", done.opcode, done.bytes));
                }
                true
            }
            (None, W::RemAccessErr, F::Denied | F::Either)
            | (None, W::MwBindErr, F::Refused)
            | (None, W::LocProtErr, F::Local) => true,
            (None, W::WrFlushErr, _) => flow.moved || other.wrong,
            (None, W::RetryExcErr, _) => silent || tired,
            _ => false,
        };
        (!fine).then(|| format!("it must end {:?}", open.fate))
    }
}

impl Play<'_> {
    pub(in super::super) fn completed_lent(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        if done.receive {
            return self.received_lent(at, side, done);
        }
        let run = &mut self.windows[at];
        let hurt = (0..2).map(|from| self.watch.lock().hurt(from, run.qpns[1 - from])).sum::<u64>();
        let place = run.flows[side].open.iter().position(|open| open.id == done.id);
        let place = place.ok_or_else(|| anyhow!("request {} is not under way", done.id))?;
        let flow = &run.flows[side];
        let skipped = flow.open.iter().take(place).find(|open| {
            open.signaled || flow.failed.is_some() || !matches!(open.fate, Fate::Well | Fate::Either)
        });
        if let Some(before) = skipped {
            bail!("request {} must end before {}: {:?}", before.id, done.id, before.fate);
        }
        let open = &flow.open[place];
        if let Some(why) = run.objection(side, open, done, hurt) {
            bail!("request {} ends with {:?}, but {why}", done.id, done.status);
        }
        let well = done.status == Some(WcStatus::Success);
        let ended: Vec<Open> = run.flows[side].open.drain(..=place).collect();
        let last = ended.len() - 1;
        for (i, open) in ended.iter().enumerate() {
            self.ended_lent(at, side, open, i < last || well);
        }
        if !well {
            self.windows[at].flows[side].failed = self.windows[at].flows[side].failed.or(done.status);
        }
        self.check_lent(at)?;
        for open in &ended {
            // The program's again: who still reads it sends something else.
            let (from, len) = open.source;
            let run = &self.windows[at];
            let source = &self.areas[run.places.sources[side]];
            let (area, from) = (run.places.sources[side], from + source.region.front());
            self.give_back(area, from, len);
            if let Some((from, bytes)) = &open.answer {
                let area = self.windows[at].places.answers;
                let from = from + self.areas[area].region.front();
                let len = bytes.len();
                self.give_back(area, from, len);
            }
        }
        for (i, open) in ended.iter().enumerate().filter(|(i, _)| *i < last || well) {
            let _ = i;
            self.marked(at, open.window, open.mark)?;
        }
        Ok(())
    }

    /// What a request did.
    fn ended_lent(&mut self, at: usize, side: usize, open: &Open, well: bool) {
        let run = &mut self.windows[at];
        let lent = run.places.lent;
        if side != run.lane.owner {
            let count = run.effects.iter().take_while(|effect| effect.id <= open.id).count();
            for effect in run.effects.drain(..count) {
                let bytes = &mut self.areas[lent].bytes;
                match well || effect.id < open.id {
                    true => bytes.set(effect.to, &effect.data),
                    false => bytes.maybe(effect.to, &effect.data),
                }
            }
            let uses = &mut run.windows.get_mut(open.window);
            if let Some(window) = uses.as_mut().filter(|_| open.mark == Mark::None) {
                window.uses = window.uses.saturating_sub(1);
            }
        }
        if let Some((from, bytes)) = &open.answer {
            let area = &mut self.areas[run.places.answers];
            let from = from + area.region.front();
            match well {
                true => area.bytes.set(from, bytes),
                false if open.fate != Fate::Denied => area.bytes.maybe(from, bytes),
                false => {}
            }
        }
        run.flows[side].sent_well += usize::from(well && open.takes);
    }

    /// What a window has come to.
    fn marked(&mut self, at: usize, number: usize, mark: Mark) -> Result<()> {
        let Some(window) = self.windows[at].windows.get_mut(number) else { return Ok(()) };
        match (mark, window.stage) {
            (Mark::Bound, Stage::Binding) => {
                (window.stage, window.frozen) = (Stage::Lent(0), None);
            }
            (Mark::Back, Stage::Returning | Stage::Ruined) => {
                self.freeze(at, number);
                self.returned(at, number)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A window is gone: from now on nothing may be written by it (IBTA 10.6.7.2.5).
    pub(super) fn freeze(&mut self, at: usize, number: usize) {
        let run = &self.windows[at];
        let area = &self.areas[run.places.lent];
        let start = area.region.front() + number * PART;
        let got = self.ends[area.side].read(area.index)[start..start + PART].to_vec();
        self.windows[at].windows[number].frozen = Some(got);
    }

    fn received_lent(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        let run = &mut self.windows[at];
        let slot_len = run.lane.slot;
        let peer = 1 - side;
        let (id, slot) = run.flows[side].receives.pop_front().ok_or_else(|| anyhow!("nothing was posted"))?;
        ensure!(id == done.id, "receive {id} is before it");
        let may_refuse = run.flows[peer].wrong;
        let sent = run.flows[peer].sent.front().cloned();
        let flow = &mut run.flows[side];
        match done.status {
            // Why may be told later; at the end the state must be ERR for a reason.
            Some(WcStatus::WrFlushErr) => {
                flow.flushed = true;
                return Ok(());
            }
            _ if flow.flushed || flow.refused.is_some() => {
                bail!("receive {id} is not flushed, though one before is")
            }
            // A message that is denied with its last packet has taken its receive (IBTA 11.6.2).
            Some(status @ (WcStatus::LocAccessErr | WcStatus::RemAccessErr)) => {
                let denied = self.windows[at].flows[peer].sent.iter().any(|sent| sent.denied);
                ensure!(denied || may_refuse, "receive {id} ends with {status}, but nothing is denied");
                self.windows[at].flows[side].refused = Some(status);
                return Ok(());
            }
            Some(WcStatus::Success) => {}
            status => bail!("receive {id} ends with {status:?}"),
        }
        let sent = sent.ok_or_else(|| anyhow!("receive {id} ends well, but nothing was sent for it"))?;
        run.flows[peer].sent.pop_front();
        ensure!(!sent.denied, "receive {id} ends well, but its message must be denied");
        let got = (done.opcode, done.imm, done.invalidated, done.bytes as usize);
        let want = (Some(sent.opcode), sent.imm, sent.invalidated, sent.len);
        ensure!(got == want, "receive {id} is for {got:x?}, not for {want:x?}");
        run.flows[side].received += 1;
        // All before the message has been done too (IBTA 10.8.3.3).
        if side == run.lane.owner {
            let count = run.effects.iter().take_while(|effect| effect.id <= sent.id).count();
            for effect in run.effects.drain(..count) {
                self.areas[run.places.lent].bytes.set(effect.to, &effect.data);
            }
        }
        let inbox = run.places.inboxes[side];
        run.flows[side].free.push(slot);
        let area = &self.areas[inbox];
        let start = area.region.front() + slot * (slot_len + 1);
        let got = &self.ends[side].read(area.index)[start..start + slot_len];
        let before = &area.bytes.want()[start..start + slot_len];
        let placed = sent.data.len();
        ensure!(got[..placed] == sent.data[..], "receive {id} has other bytes");
        ensure!(got[placed..] == before[placed..], "receive {id} has bytes behind its message");
        self.give_back(inbox, start, slot_len);
        self.check_lent(at)?;
        self.marked(at, sent.window, sent.mark)
    }

    /// Compares what is lent, and what was asked for.
    fn check_lent(&self, at: usize) -> Result<()> {
        let run = &self.windows[at];
        let area = &self.areas[run.places.lent];
        let open: Vec<(usize, &[u8])> = run.effects.iter().map(|e| (e.to, &e.data[..])).collect();
        if let Some(wrong) = self.wrong_at_last(area, &open) {
            bail!("in what is lent: {wrong}");
        }
        let got = self.ends[area.side].read(area.index);
        for (number, window) in run.windows.iter().enumerate() {
            let Some(frozen) = &window.frozen else { continue };
            let start = area.region.front() + number * PART;
            let late = (0..PART).find(|at| got[start + at] != frozen[*at]);
            if let Some(late) = late {
                bail!("window {number} was taken back, and byte {late:#x} of its part is written");
            }
        }
        let area = &self.areas[run.places.answers];
        let got = self.ends[area.side].read(area.index);
        let front = area.region.front();
        let asked = run.flows[1 - run.lane.owner].open.iter().filter(|open| open.fate != Fate::Denied);
        let asked = asked.filter_map(|open| open.answer.as_ref());
        let open: Vec<(usize, &[u8])> = asked.map(|(from, bytes)| (front + from, &bytes[..])).collect();
        match area.bytes.wrong(&got, 0..got.len(), &open) {
            Some(wrong) => bail!("in what was read: {wrong}"),
            None => Ok(()),
        }
    }

    /// Whether states and receives are what they must be; not yet, when one is about to be.
    pub(super) fn check_lent_states(&mut self, at: usize) -> Result<bool> {
        for side in 0..2 {
            let run = &self.windows[at];
            let (own, peer, qp) = (&run.flows[side], &run.flows[1 - side], run.qp);
            let ends = Ends {
                moved: own.moved,
                failed: own.failed.or(own.refused),
                peer: peer.failed,
                spoilt: peer.wrong,
            };
            let first = run.life().psns[1 - side];
            let refused = self.watch.lock().refused(side, run.qpns[1 - side], first);
            let got = self.ends[side].state(qp)?;
            match ends.allow(refused, got) {
                Verdict::Fine => {}
                Verdict::Wait => return Ok(false),
                Verdict::Not(want) => bail!("side {side} is in {got:?}, not {want:?}"),
            }
            let (open, missing) = (own.receives.len(), own.received < peer.sent_well);
            match got {
                Some(QpState::Err) if open > 0 => return Ok(false),
                Some(QpState::Err) if missing => {
                    bail!("side {side} flushed a receive whose message its peer knows to have arrived")
                }
                Some(QpState::Rts) if own.flushed => bail!("side {side} flushed receives in RTS"),
                Some(QpState::Rts) if missing => return Ok(false),
                _ => {}
            }
        }
        Ok(true)
    }

    /// The life is over: what has happened is seen now and stays.
    pub(super) fn settle_lent(&mut self, at: usize) -> Result<()> {
        self.check_lent(at)?;
        let places = self.windows[at].places;
        for area in [places.lent, places.answers] {
            let area = &mut self.areas[area];
            area.bytes.pin(self.ends[area.side].read(area.index), true);
        }
        // In a receive that was not completed there may be a part of a message.
        let (slots, len) = (self.windows[at].lane.room.receives as usize, self.windows[at].lane.slot);
        for inbox in places.inboxes {
            let area = &mut self.areas[inbox];
            let got = self.ends[area.side].read(area.index);
            let mut want = area.bytes.want().to_vec();
            for slot in 0..slots {
                let start = area.region.front() + slot * (len + 1);
                want[start..start + len].copy_from_slice(&got[start..start + len]);
            }
            area.bytes.pin(want, true);
        }
        Ok(())
    }
}
