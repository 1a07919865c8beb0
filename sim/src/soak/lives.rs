// SPDX-License-Identifier: MIT OR Apache-2.0
//! How lives of a connection end, and the whole program.

use anyhow::{bail, Result};
use ferrowire_spec::queue::cqe::WcStatus;
use ferrowire_spec::QpState;

use super::program::Trouble;
use super::run::{Drain, Play};

impl Play<'_> {
    /// What is under way may have happened or not.
    pub(super) fn bury(&mut self, at: usize) {
        let run = &mut self.runs[at];
        for (flow, areas) in run.flows.iter_mut().zip(run.areas) {
            let Some((_, target)) = areas else { continue };
            for open in flow.open.drain(..).filter(|open| open.message.mistake.is_none()) {
                self.areas[target].bytes.maybe(open.message.to, &open.data);
            }
        }
    }

    /// The next life, if there is one: RESET, or other queue pairs, `first` on that side.
    pub(super) fn end_life(&mut self, at: usize, first: usize) -> Result<()> {
        let run = &mut self.runs[at];
        let life = &run.lane.lives[run.life];
        let last = run.life + 1 == run.lane.lives.len();
        if !last || matches!(life.trouble, Trouble::Reset(..)) {
            for side in [first, 1 - first] {
                match life.anew {
                    true => run.qpns[side] = self.ends[side].renew(at)?,
                    false => self.ends[side].reset(at)?,
                }
            }
        }
        run.flows = Default::default();
        (run.moved, run.drain, run.drained) = ([false; 2], Drain::No, 0);
        if last {
            run.over = true;
            return Ok(());
        }
        run.life += 1;
        self.connect(at)
    }

    /// States follow from how requests ended.
    pub(super) fn check_states(&mut self, at: usize) -> Result<()> {
        let run = &self.runs[at];
        for side in 0..2 {
            let failed = |side: usize| run.flows[side].failed;
            let denied = failed(1 - side) == Some(WcStatus::RemAccessErr);
            let want = match run.moved[side] || failed(side).is_some() || denied {
                true => QpState::Err,
                false => QpState::Rts,
            };
            let got = self.ends[side].state(at)?;
            if got != Some(want) {
                bail!("QP {:#x} of side {side} is in {got:?}, not {want:?}", run.qpns[side]);
            }
        }
        Ok(())
    }

    /// The end of it all: nothing may come any more, and every byte is what it must be.
    ///
    /// # Errors
    /// What differs.
    pub fn finish(&mut self) -> Result<()> {
        if self.poll()? {
            bail!("completions after the last");
        }
        for area in &self.areas {
            let got = self.ends[area.side].read(area.index);
            if let Some(wrong) = area.bytes.wrong(&got, 0..got.len(), &[]) {
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
