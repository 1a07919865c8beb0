// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows of the queue pairs that are attacked: bound by WQE, taken back by the peer, by their owner, or freed.

use anyhow::{anyhow, Result};
use ferrowire::{AccessFlags, Completion, MemoryWindow, SendWr};
use rand::Rng;

use super::super::ground::Region;
use super::super::judge::Judge;
use super::super::life::Request;
use super::super::peer::Shared;
use super::layout::{WINDOW, WINDOWS};
use super::{Pair, Stage};

/// A window, and what it was told to be.
pub struct Window {
    window: MemoryWindow,
    /// The request that binds it, or takes it back, while that is under way.
    asked: Option<(u64, bool)>,
    /// It is bound, as far as is known.
    bound: bool,
}

impl Stage {
    /// Binds the window of a queue pair to a part of what windows of its domain may have, with some rights. The first queue pairs have one.
    ///
    /// # Errors
    /// The card refuses.
    pub fn lend(&mut self, judge: &mut Judge, i: usize) -> Result<()> {
        let target = &mut self.targets[i];
        let most = if self.context.capabilities().max_mr < 64 { 3 } else { WINDOWS };
        if i >= most || target.window.as_ref().is_some_and(|window| window.asked.is_some() || window.bound) {
            return Ok(());
        }
        let Pair::Up(up) = &mut target.pair else { return Ok(()) };
        let Some(life) = judge.lives.get_mut(&target.own) else { return Ok(()) };
        let place = self.lent[target.pd];
        let Some(region) = &self.regions[place] else { return Ok(()) };
        if target.window.is_none() {
            let window = self.pds[target.pd].alloc_window()?;
            target.window = Some(Window { window, asked: None, bound: false });
        }
        let Some(window) = &mut target.window else { return Ok(()) };
        let all = [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_READ, AccessFlags::REMOTE_ATOMIC];
        let some = all.into_iter().filter(|_| self.rng.random_bool(0.8));
        let rights = some.fold(AccessFlags::REMOTE_READ, |a, b| a | b);
        let at = i % WINDOWS * WINDOW + self.rng.random_range(0..64);
        let len = self.rng.random_range(1..=WINDOW - 64);
        self.next_id += 1;
        let id = self.next_id;
        let mut batch = up.start_post_send();
        if batch.room() == 0 {
            return Ok(());
        }
        let bind = window.window.bind(id, region, at, len, rights)?;
        let key = window.window.rkey();
        batch.post(&bind.signaled())?;
        let first = target.next;
        life.requests.push(Request { id, first, block: 0, at: 0, len: 0, local: true });
        let whole = judge.ground.regions[place].clone();
        let owner = Some(target.qpn);
        let va = whole.va + at as u64;
        let window_region = Region { at: whole.at + at, len, va, key, rights: rights.bits(), owner, ..whole };
        // Old keys stay to be tried; a few of them are enough.
        if judge.ground.regions.iter().filter(|region| region.owner.is_some()).count() > 24 {
            if let Some(old) =
                judge.ground.regions.iter_mut().find(|region| region.owner.is_some() && region.dead)
            {
                *old = window_region;
            } else {
                judge.ground.regions.push(window_region);
            }
        } else {
            judge.ground.regions.push(window_region);
        }
        window.asked = Some((id, true));
        Ok(batch.ring()?)
    }

    /// Lets the owner of a window take it back.
    ///
    /// # Errors
    /// The bus failed.
    pub fn take_back(&mut self, judge: &mut Judge, i: usize) -> Result<()> {
        let target = &mut self.targets[i];
        let Pair::Up(up) = &mut target.pair else { return Ok(()) };
        let Some(life) = judge.lives.get_mut(&target.own) else { return Ok(()) };
        let Some(window) = target.window.as_mut().filter(|window| window.asked.is_none()) else {
            return Ok(());
        };
        let mut batch = up.start_post_send();
        if batch.room() == 0 {
            return Ok(());
        }
        self.next_id += 1;
        let id = self.next_id;
        batch.post(&SendWr::local_inv(id, window.window.rkey()).signaled())?;
        life.requests.push(Request { id, first: target.next, block: 0, at: 0, len: 0, local: true });
        window.asked = Some((id, false));
        Ok(batch.ring()?)
    }

    /// A bind has ended, or an invalidation.
    pub(super) fn lent(&mut self, judge: &mut Judge, done: &Completion) -> Result<()> {
        let target = self.of(done.qpn())?;
        let window = target.window.as_mut().ok_or_else(|| anyhow!("it has no window"))?;
        let Some((_, bind)) = window.asked.take_if(|(id, _)| *id == done.wr_id()) else { return Ok(()) };
        let key = window.window.rkey();
        match (done.is_success(), bind) {
            (true, true) => {
                // The peer may have taken it back already.
                let live = |region: &Region| region.key == key && !region.dead;
                window.bound = judge.ground.regions.iter().any(live);
            }
            (true, false) => {
                window.bound = false;
                judge.gone(key);
            }
            // The queue pair is in error, and the window what it was.
            (false, _) => {}
        }
        Ok(())
    }

    /// The peer has taken the window of a queue pair back.
    pub(super) fn taken_back(&mut self, qpn: u32) {
        let target = self.targets.iter_mut().find(|target| target.qpn == qpn);
        if let Some(window) = target.and_then(|target| target.window.as_mut()) {
            window.bound = false;
        }
    }

    /// Frees the window of a queue pair that is in RESET: nothing is on its way by it.
    pub(super) fn free_window(&mut self, judge: &mut Judge, wire: &Shared, i: usize) -> Result<()> {
        if let Some(Window { window, .. }) = self.targets[i].window.take() {
            let key = window.rkey();
            window.destroy()?;
            judge.gone(key);
            self.show(judge, wire);
        }
        Ok(())
    }
}
