// SPDX-License-Identifier: MIT OR Apache-2.0
//! How lives of a connection end, and the whole program.

use anyhow::{bail, Context as _, Result};
use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::QpState;

use super::inbox::Inbox;
use super::program::Trouble;
use super::run::{Area, Drain, Places, Play};

/// Steps in which all writes that have begun come to an end.
pub(super) const REST: u64 = 60;

/// What says in which state a queue pair is when all requests have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// It was moved to ERR.
    pub(super) moved: bool,
    /// How the first of its requests failed, or of its receives.
    pub(super) failed: Option<WcStatus>,
    /// How the first of the peer's did.
    pub(super) peer: Option<WcStatus>,
    /// One of those was a mistake that this end must refuse, should it see it.
    pub(super) spoilt: bool,
}

/// Of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// It may become so.
    Wait,
    /// It must be this one.
    Not(QpState),
}

impl Ends {
    /// `refused`: it has sent a NAK that ends the connection.
    ///
    /// A peer that was denied something says so, as a rule. When its retries ran out before, or it was moved to ERR itself, it does
    /// not, and the mistake may have come to this end or not, or be on its way still: then the NAK tells, which leaves with
    /// the change of state.
    pub(super) fn allow(self, refused: bool, got: Option<QpState>) -> Verdict {
        use WcStatus as W;
        let denied = matches!(self.peer, Some(W::RemAccessErr | W::RemInvReqErr | W::RemOpErr));
        let open = self.spoilt && self.peer.is_some() && !denied;
        let want = match self.moved || self.failed.is_some() || denied || open && refused {
            true => QpState::Err,
            false => QpState::Rts,
        };
        match got == Some(want) {
            true => Verdict::Fine,
            false if open && got == Some(QpState::Err) => Verdict::Wait,
            false => Verdict::Not(want),
        }
    }
}

impl Play<'_> {
    /// The next life, if there is one: RESET, or other queue pairs, `first` on that side.
    pub(super) fn end_life(&mut self, at: usize, first: usize) -> Result<()> {
        let run = &mut self.runs[at];
        let life = &run.lane.lives[run.life];
        let last = self.stopping || run.life + 1 == run.lane.lives.len();
        // A message that its sender has given up may still come, and complete a receive.
        let uneasy = (0..2).any(|side| {
            (run.lane.room.shared || run.inboxes[side].posted() > 0) && run.flows[1 - side].failed.is_some()
        });
        let reset = !last || uneasy || matches!(life.trouble, Trouble::Reset(..));
        if reset {
            for side in [first, 1 - first] {
                match life.anew {
                    true => run.qpns[side] = self.ends[side].renew(at)?,
                    false => self.ends[side].reset(at)?,
                }
            }
        }
        let run = &mut self.runs[at];
        // What is read must be known: then late writes of a peer's requests are waited for.
        let uncertain = run.flows.iter().any(|flow| flow.failed.is_some() || !flow.effects.is_empty());
        if reset && uncertain && run.lane.rd_atomic > 0 {
            run.rests = Some(self.steps + REST);
            return Ok(());
        }
        self.begin_next(at)
    }

    /// After RESET, and a rest if there is one: the next life, or the end.
    pub(super) fn begin_next(&mut self, at: usize) -> Result<()> {
        self.settle(at)?;
        let run = &mut self.runs[at];
        run.flows = Default::default();
        run.inboxes = [(); 2].map(|()| Inbox::of(run.lane.room.shared));
        (run.moved, run.drain, run.drained, run.rests) = ([false; 2], Drain::No, 0, None);
        if self.stopping || run.life + 1 == run.lane.lives.len() {
            run.over = true;
            return Ok(());
        }
        run.life += 1;
        self.connect(at)
    }

    /// No request of the life is under way any more: what has happened is seen now and stays (IBTA 10.3.1.2). Only what peers
    /// have written to memory that they may write any time may still be on its way there.
    fn settle(&mut self, at: usize) -> Result<()> {
        for side in 0..2 {
            self.check(at, side, "at the end of a life")?;
            let run = &self.runs[at];
            let Some(Places { answers, target, inbox, .. }) = run.areas[side] else { continue };
            let late = match run.rests {
                Some(_) => None,
                None => Some(&run.flows[side].effects),
            };
            for area in [answers, inbox].into_iter().flatten() {
                let Area { side, index, .. } = self.areas[area];
                self.areas[area].bytes.pin(self.ends[side].read(index), true);
            }
            let Area { side: peer, index, bytes, .. } = &mut self.areas[target];
            bytes.pin(self.ends[*peer].read(*index), late.is_none());
            for effect in late.into_iter().flatten() {
                bytes.maybe(effect.to, &effect.data);
            }
        }
        Ok(())
    }

    /// Whether states and receives are what they must be; not yet, when an end is about to say why it went to ERR, or how
    /// receives have ended.
    pub(super) fn check_states(&mut self, at: usize) -> Result<bool> {
        let run = &self.runs[at];
        for side in 0..2 {
            let (own, peer) = (&run.flows[side], &run.flows[1 - side]);
            let ends = Ends {
                moved: run.moved[side],
                failed: own.failed.or(run.inboxes[side].refused()),
                peer: peer.failed,
                spoilt: run.refuses(side),
            };
            // Before the state is asked for: the answer is older than what is on the wire when it comes.
            let first = run.lane.lives[run.life].psns[1 - side];
            let refused = self.watch.lock().refused(side, run.qpns[1 - side], first);
            let got = self.ends[side].state(at)?;
            match ends.allow(refused, got) {
                Verdict::Fine => {}
                Verdict::Wait => return Ok(false),
                Verdict::Not(want) => {
                    bail!("QP {:#x} of side {side} is in {got:?}, not {want:?}", run.qpns[side])
                }
            }
            // In error, every receive is completed. What the peer knows to have arrived has arrived.
            let inbox = &run.inboxes[side];
            let (open, missing) = (inbox.open().count(), inbox.well() < peer.sent_well);
            match got {
                Some(QpState::Err) if open > 0 => return Ok(false),
                // What has not come yet may: nobody knows which receives it has.
                Some(QpState::Err) if missing && run.lane.room.shared => return Ok(false),
                Some(QpState::Err) if missing => {
                    bail!("side {side} flushed a receive whose message its peer knows to have arrived")
                }
                Some(QpState::Rts) if inbox.is_flushed() => bail!("side {side} flushed receives in RTS"),
                Some(QpState::Rts) if missing => return Ok(false),
                _ => {}
            }
        }
        Ok(true)
    }

    /// The end of it all: nothing may come any more, and every byte is what it must be.
    ///
    /// # Errors
    /// What differs.
    pub fn finish(&mut self) -> Result<()> {
        if self.poll()? {
            bail!("completions after the last");
        }
        for at in 0..self.quiet.len() {
            let number = self.quiet[at].lane.number;
            self.finish_quiet(at).map_err(|error| error.context(format!("lane {number}, at the end")))?;
        }
        self.finish_raw().context("raw Ethernet, at the end")?;
        for (number, area) in self.areas.iter().enumerate() {
            let got = self.ends[area.side].read(area.index);
            let pool = self.pools[area.side].as_ref().filter(|pool| pool.area == number);
            let open = pool.map_or(Vec::new(), |pool| pool.open(&got));
            if let Some(wrong) = area.bytes.wrong(&got, 0..got.len(), &open) {
                bail!("side {}, region {}, at the end: {wrong}", area.side, area.index);
            }
        }
        for (side, end) in self.ends.iter().enumerate() {
            if let Some(offence) = end.offence() {
                bail!("side {side}: {offence}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_is_in_error_when_it_was_moved_or_failed_or_had_to_refuse() {
        let (err, rts) = (Some(QpState::Err), Some(QpState::Rts));
        let denied = Ends { peer: Some(WcStatus::RemAccessErr), spoilt: true, ..Ends::default() };
        let failed = Ends { failed: Some(WcStatus::LocProtErr), ..Ends::default() };
        for ends in [Ends { moved: true, ..Ends::default() }, failed, denied] {
            for refused in [false, true] {
                assert_eq!(ends.allow(refused, err), Verdict::Fine, "{ends:?}");
                assert_eq!(ends.allow(refused, rts), Verdict::Not(QpState::Err), "{ends:?}");
            }
        }
        // A NAK for nothing takes nobody to ERR.
        let gave_up = Ends { peer: Some(WcStatus::RetryExcErr), ..Ends::default() };
        for ends in [Ends::default(), gave_up] {
            assert_eq!(ends.allow(false, rts), Verdict::Fine, "{ends:?}");
            assert_eq!(ends.allow(true, err), Verdict::Not(QpState::Rts), "{ends:?}");
        }
    }

    #[test]
    fn a_mistake_that_its_sender_has_given_up_is_refused_with_a_nak_or_not_at_all() {
        for peer in [WcStatus::RetryExcErr, WcStatus::WrFlushErr] {
            let ends = Ends { peer: Some(peer), spoilt: true, ..Ends::default() };
            assert_eq!(ends.allow(false, Some(QpState::Rts)), Verdict::Fine);
            assert_eq!(ends.allow(true, Some(QpState::Err)), Verdict::Fine);
            assert_eq!(ends.allow(false, Some(QpState::Err)), Verdict::Wait);
            assert_eq!(ends.allow(true, Some(QpState::Rts)), Verdict::Not(QpState::Err));
            assert_eq!(ends.allow(false, Some(QpState::Sqd)), Verdict::Not(QpState::Rts));
        }
    }
}
