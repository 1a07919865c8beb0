// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared receive queue of an end, and its buffers: all alike, for whichever message comes.
//!
//! Which receive a message has taken is known with its completion; those of a queue pair still come in the order of its messages. So
//! the receive is noted then, as if it had always been that message's, and all else is as for a queue pair's own queue. Until
//! then any message may have written to any buffer that is posted. A buffer that was lost with the life of a queue pair
//! is never used again (IBTA 10.2.9.3).

use std::collections::HashMap;

use anyhow::{anyhow, bail, Result};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::ends::{Done, Receive};
use super::generate::{POOL, POOL_BUFFER};
use super::program::Buffer;
use super::run::{Area, Places, Play};

/// What is in the shared receive queue of a side.
pub struct Pool {
    /// Its memory.
    pub area: usize,
    buffers: Vec<Buffer>,
    /// Buffers by the id of the receive that they are posted as.
    posted: HashMap<u64, usize>,
    free: Vec<usize>,
    rng: SmallRng,
}

impl Pool {
    /// None is posted. `front`: bytes of the pages before the first.
    pub fn new(area: usize, front: usize) -> Self {
        let buffer = |i: usize| {
            let (at, first) = (front + i * (POOL_BUFFER + 1), POOL_BUFFER / 3 * (i % 3));
            let pieces = vec![(at + first, POOL_BUFFER - first), (at, 0), (at, first)];
            Buffer { pieces, spoilt: false }
        };
        let buffers = (0..POOL).map(buffer).collect();
        let (posted, free, rng) = (HashMap::new(), (0..POOL).collect(), SmallRng::seed_from_u64(area as u64));
        Self { area, buffers, posted, free, rng }
    }

    /// What may be anything, in `got`: where, and what there is.
    pub fn open<'a>(&self, got: &'a [u8]) -> Vec<(usize, &'a [u8])> {
        let pieces = self.posted.values().flat_map(|buffer| &self.buffers[*buffer].pieces);
        pieces.map(|&(at, len)| (at, &got[at..at + len])).collect()
    }
}

impl Play<'_> {
    /// Posts some buffers to the shared queue of a side.
    pub(super) fn fill_pool(&mut self, side: usize) -> Result<bool> {
        let Some(pool) = &mut self.pools[side] else { return Ok(false) };
        let most = pool.free.len().min(self.ends[side].free_shared());
        if most == 0 || !pool.rng.random_bool(0.2) {
            return Ok(false);
        }
        let count = pool.rng.random_range(1..=most);
        let Area { key, region, .. } = &self.areas[pool.area];
        let mut all = Vec::new();
        for buffer in pool.free.drain(..count) {
            self.next_id += 1;
            pool.posted.insert(self.next_id, buffer);
            let pieces = pool.buffers[buffer].pieces.iter();
            let piece = |&(at, len): &(usize, usize)| {
                (region.address + (at - region.front()) as u64, *key, len as u32)
            };
            all.push(Receive { id: self.next_id, local: pieces.map(piece).collect() });
        }
        self.ends[side].post_shared(&all)?;
        Ok(true)
    }

    /// A receive of the shared queue has ended.
    pub(super) fn received_shared(&mut self, at: usize, side: usize, done: &Done) -> Result<()> {
        let Some(pool) = &mut self.pools[side] else { bail!("nothing is shared") };
        let Some(number) = pool.posted.get(&done.id).copied() else {
            bail!("receive {} is not in the shared queue", done.id)
        };
        let (area, buffer) = (pool.area, pool.buffers[number].clone());
        let run = &mut self.runs[at];
        run.inboxes[side].post(done.id, &buffer, 0);
        let flow = &mut run.flows[1 - side];
        let received = run.inboxes[side].take(done, &flow.sent).map_err(|why| anyhow!(why))?;
        let Some(Places { target, .. }) = run.areas[1 - side] else {
            bail!("a completion where nothing was posted")
        };
        if let Some(sent) = received.sent.filter(|_| received.well) {
            for effect in flow.executed(flow.sent[sent].id) {
                self.areas[target].bytes.set(effect.to, &effect.data);
            }
        }
        // What a receive that failed holds is part of a message, or none of it.
        if received.well {
            for (place, data) in &received.wrote {
                self.areas[area].bytes.set(*place, data);
            }
            pool.posted.remove(&done.id);
        }
        self.check(at, 1 - side, "with this receive of the shared queue")?;
        for (place, len) in received.places {
            self.give_back(area, place, len);
        }
        if let Some(pool) = &mut self.pools[side] {
            pool.posted.remove(&done.id);
            pool.free.push(number);
        }
        self.count("receives of shared queues");
        Ok(())
    }
}
