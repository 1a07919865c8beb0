// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of the stage: regions with all kinds of rights, guards round them, and one that comes and goes.

use anyhow::Result;
use ferrowire::{AccessFlags, PageSize};
use rand::RngCore;

use super::super::ground::Region;
use super::super::judge::Judge;
use super::super::peer::Shared;
use super::{Stage, RECEIVES, ROOM};
use crate::soak::ends::PAGE;

/// Bytes of each window, and most of them.
pub(super) const WINDOW: usize = 700;
/// See [`WINDOW`].
pub(super) const WINDOWS: usize = 16;

/// What is made of a region.
#[derive(Clone, Copy)]
struct Plan {
    pd: usize,
    access: AccessFlags,
    /// Bytes before it in its block, and its own.
    at: usize,
    len: usize,
    /// Where its addresses are.
    va: Va,
    /// It shares the block of the one before.
    shares: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Va {
    /// Those of the block.
    Own,
    /// They end with the address space.
    Top,
    /// They begin in the first page.
    Zero,
}

/// The address of a byte of a block as keys count, the same in each run: blocks lie behind each other, so that what leaves one
/// comes near another.
fn place(block: usize, at: usize) -> u64 {
    0x7f12_0000_0000 + ((block as u64) << 20) + at as u64
}

impl Stage {
    pub(super) fn lay_out(&mut self, judge: &mut Judge, queue_pairs: usize) -> Result<()> {
        use AccessFlags as A;
        let (all, local) = (A::LOCAL_WRITE | A::REMOTE, A::LOCAL_WRITE);
        let inbox = queue_pairs * RECEIVES as usize * (ROOM + 40);
        let plan = |pd, access, at, len| Plan { pd, access, at, len, va: Va::Own, shares: false };
        let plans = [
            plan(0, all, 0x123, 9000),
            plan(0, local | A::REMOTE_WRITE, 0, 8192),
            plan(0, A::REMOTE_READ, 4000, 5000),
            plan(0, local | A::REMOTE_ATOMIC, 0x808, 256),
            plan(0, local, 17, 3000),
            plan(1, all, 0xff8, 6000),
            Plan { va: Va::Top, ..plan(0, all, 4096 - 708, 708 + 4096) },
            plan(0, local | A::REMOTE_WRITE, 100, 1000),
            Plan { shares: true, ..plan(0, A::REMOTE_READ, 1164, 2000) },
            Plan { va: Va::Zero, ..plan(0, all | A::ZERO_BASED, 0x200, 5000) },
            plan(0, all, 0x40, 4200),
            plan(0, A::LOCAL_READ, 5, 9000),
            plan(1, A::LOCAL_READ, 5, 9000),
            plan(0, local, 64, inbox),
            plan(1, local, 64, inbox),
            plan(0, local | A::MW_BIND, 0x30, WINDOWS * WINDOW),
            plan(1, local | A::MW_BIND, 0xff0, WINDOWS * WINDOW),
        ];
        (self.fickle, self.sources, self.inboxes) = (10, [11, 12], [13, 14]);
        self.lent = [15, 16];
        for plan in plans {
            if !plan.shares {
                // The pages before and behind it are nobody's.
                let whole =
                    self.context.alloc((plan.at + plan.len).next_multiple_of(PAGE) + 2 * PAGE, PAGE)?;
                let mut bytes = vec![0; whole.len()];
                self.rng.fill_bytes(&mut bytes);
                whole.write(0, &bytes);
                judge.ground.add(&whole);
                self.blocks.push(whole);
            }
            let block = self.blocks.len() - 1;
            self.register(judge, block, plan)?;
        }
        // Two keys that were given back, one of them before its index was used again.
        for i in [0, 1] {
            let memory = self.blocks[i].slice(PAGE, PAGE);
            let gone = self.pds[0].register_at(&memory, place(i, PAGE), all, PageSize::Size4K)?;
            let region = Region {
                block: i,
                at: PAGE,
                len: PAGE,
                va: gone.address(),
                key: gone.rkey(),
                pd: 0,
                rights: all.bits(),
                dead: true,
                owner: None,
            };
            judge.ground.regions.push(region);
            self.regions.push(None);
            gone.destroy()?;
        }
        Ok(())
    }

    fn register(&mut self, judge: &mut Judge, block: usize, plan: Plan) -> Result<()> {
        let Plan { pd, access, at, len, va, .. } = plan;
        let at = PAGE + at;
        let memory = self.blocks[block].slice(at, len);
        let region = match va {
            Va::Own => self.pds[pd].register_at(&memory, place(block, at), access, PageSize::Size4K)?,
            Va::Zero => self.pds[pd].register(&memory, access, PageSize::Size4K)?,
            Va::Top => {
                let va = (len as u64).wrapping_neg();
                self.pds[pd].register_at(&memory, va, access, PageSize::Size4K)?
            }
        };
        let (va, key, rights) = (region.address(), region.rkey(), access.bits());
        judge.ground.regions.push(Region { block, at, len, va, key, pd, rights, dead: false, owner: None });
        self.regions.push(Some(region));
        Ok(())
    }

    /// Takes the rights of the region back that comes and goes. When this is over, nothing may use them.
    ///
    /// # Errors
    /// The card refuses.
    pub fn deregister(&mut self) -> Result<()> {
        match self.regions[self.fickle].take() {
            Some(region) => Ok(region.destroy()?),
            None => Ok(()),
        }
    }

    /// Whether it is gone; then what it granted is granted no more.
    pub fn deregistered(&mut self, judge: &mut Judge, wire: &Shared) {
        if self.regions[self.fickle].is_some() {
            return;
        }
        judge.gone(judge.ground.regions[self.fickle].key);
        self.show(judge, wire);
    }

    /// Registers it again, under another key. Nothing may be on its way.
    ///
    /// # Errors
    /// The card refuses.
    pub fn register_again(&mut self, judge: &mut Judge, wire: &Shared) -> Result<()> {
        if self.regions[self.fickle].is_some() {
            return Ok(());
        }
        let Region { block, at, len, pd, .. } = judge.ground.regions[self.fickle];
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
        let memory = self.blocks[block].slice(at, len);
        let region = self.pds[pd].register_at(&memory, place(block, at), access, PageSize::Size4K)?;
        let old = judge.ground.regions[self.fickle].clone();
        let now = Region { key: region.rkey(), va: region.address(), dead: false, ..old.clone() };
        judge.ground.regions[self.fickle] = now;
        // The old key stays to be tried; a few of them are enough.
        if old.key != region.rkey() && judge.ground.regions.len() < 30 {
            judge.ground.regions.push(old);
            self.regions.push(None);
        }
        self.regions[self.fickle] = Some(region);
        self.show(judge, wire);
        Ok(())
    }
}
