// SPDX-License-Identifier: MIT OR Apache-2.0
//! How messages become requests, and buffers receives.

use anyhow::Result;
use ferrowire_spec::queue::send_wqe::SendOpcode;
use rand::Rng;

use super::compare::{Effect, Open};
use super::ends::{Piece, Receive, Request};
use super::inbox::Sent;
use super::program::{consumes, is_answered, is_atomic, Message, Mistake, Pace, Trouble};
use super::run::{Area, Drain, Places, Play, USED};

/// A run of bytes as pieces, the last ones smaller or empty.
fn split((address, key, len): Piece, pieces: usize) -> Vec<Piece> {
    let each = len.div_ceil(pieces as u32) | 1;
    let cut = |i: usize| len.min(each * i as u32);
    let piece = |i: usize| (address.wrapping_add(cut(i).into()), key, cut(i + 1) - cut(i));
    (0..pieces).map(piece).collect()
}

/// What an atomic stores, where `old` was.
pub(super) fn new_value(verb: SendOpcode, (first, swap): (u64, u64), old: u64) -> u64 {
    match verb {
        SendOpcode::FetchAdd => old.wrapping_add(first),
        _ if old == first => swap,
        _ => old,
    }
}

impl Play<'_> {
    /// Posts some of what a side has to post.
    pub(super) fn post(&mut self, at: usize, side: usize) -> Result<bool> {
        let life = &self.runs[at].lane.lives[self.runs[at].life];
        let left = life.work[side].len() - self.runs[at].flows[side].posted;
        let most = self.ends[side].free(at).min(left);
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
            requests.push(self.request(at, side, message, held));
        }
        self.ends[side].post(at, &requests)?;
        // What stands in the request is the program's again.
        for request in requests.iter().filter(|request| request.inline.is_some()) {
            let flow = &self.runs[at].flows[side];
            let Some(open) = flow.open.iter().find(|open| open.id == request.id) else { continue };
            let (from, len) = (open.message.from, open.message.len);
            let Some(Places { source, .. }) = self.runs[at].areas[side] else { continue };
            self.give_back(source, from, len);
        }
        Ok(true)
    }

    /// The program writes memory that is its own again.
    pub(super) fn give_back(&mut self, area: usize, at: usize, len: usize) {
        let Area { side, index, bytes, .. } = &mut self.areas[area];
        let used = vec![USED; len];
        bytes.set(at, &used);
        self.ends[*side].write(*index, at, &used);
    }

    /// A message as a request, with its mistake; what it does is noted.
    fn request(&mut self, at: usize, side: usize, message: &Message, held: bool) -> Request {
        let places = self.runs[at].areas[side].unwrap_or_default();
        let answered = is_answered(message.verb);
        let local = &self.areas[if answered { places.answers.unwrap_or_default() } else { places.source }];
        let target = &self.areas[places.target];
        // Places are of the pages from here on.
        let message = Message {
            from: local.region.front() + message.from,
            to: target.region.front() + message.to,
            ..message.clone()
        };
        let Message { verb, from, to, len, .. } = message;
        let mut near = (
            local.region.address + (from - local.region.front()) as u64,
            local.key,
            u32::try_from(len).unwrap_or(u32::MAX),
        );
        let mut remote = (target.region.address + (to - target.region.front()) as u64, target.key);
        match message.mistake {
            None => {}
            Some(Mistake::LocalKey) => near.1 ^= 1,
            Some(Mistake::LocalBounds) => {
                near.0 = local.region.address + (local.region.len - len) as u64 + 1;
            }
            Some(Mistake::RemoteKey) => remote.1 ^= 1,
            Some(Mistake::RemoteBounds) => {
                remote.0 = target.region.address + (target.region.len - len) as u64 + 1;
            }
            Some(Mistake::RemoteRights) => {
                let closed = &self.areas[self.closed[1 - side]];
                remote = (closed.region.address, closed.key);
            }
        }
        let data = match answered {
            true => Vec::new(),
            false => local.bytes.want()[from..from + len].to_vec(),
        };
        self.next_id += 1;
        let id = self.next_id;
        let run = &mut self.runs[at];
        let flow = &mut run.flows[side];
        flow.posted += 1;
        flow.mistake = flow.mistake.or(message.mistake);
        flow.answered |= answered;
        let answer = if answered { flow.image[to..to + len].to_vec() } else { Vec::new() };
        let old = answer.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let first = message.operands.0.unwrap_or(if verb == SendOpcode::FetchAdd { 1 } else { old });
        let operands = (first, message.operands.1);
        let written = match verb {
            SendOpcode::Write | SendOpcode::WriteImm => data.clone(),
            verb if is_atomic(verb) => new_value(verb, operands, old).to_le_bytes().to_vec(),
            _ => Vec::new(),
        };
        if message.mistake.is_none() && !written.is_empty() {
            flow.image[to..to + written.len()].copy_from_slice(&written);
            flow.effects.push_back(Effect { id, to, data: written, held });
        }
        let takes = consumes(verb).then_some(flow.sent.len());
        let inline = message.inline.then(|| data.clone());
        if takes.is_some() {
            let step = self.steps;
            flow.sent.push(Sent { id, message: message.clone(), data, held, step });
        }
        let Message { signaled, solicited, fence, imm, pieces, .. } = message;
        flow.open.push_back(Open { id, message, answer, takes, held });
        let local = if inline.is_some() { Vec::new() } else { split(near, pieces) };
        let (key, bind) = (0, None);
        Request {
            id,
            opcode: verb,
            local,
            inline,
            remote,
            imm,
            operands,
            signaled,
            solicited,
            fence,
            key,
            bind,
        }
    }

    /// Posts some of the receives that a side has.
    pub(super) fn post_receives(&mut self, at: usize, side: usize) -> Result<bool> {
        let life = &self.runs[at].lane.lives[self.runs[at].life];
        let left = life.buffers[side].len().saturating_sub(self.runs[at].inboxes[side].posted());
        let chance = match life.pace[side] {
            Pace::Ahead => 0.9,
            Pace::Steady => 0.3,
            Pace::Late => 0.03,
        };
        if left == 0 || !self.runs[at].rng.random_bool(chance) {
            return Ok(false);
        }
        let most = self.ends[side].free_receives(at).min(left);
        if most == 0 {
            return Ok(false);
        }
        let count = self.runs[at].rng.random_range(1..=most);
        let receives = self.receives(at, side, count);
        self.ends[side].post_receives(at, &receives)?;
        Ok(true)
    }

    /// The next buffers of a side as receives.
    pub(super) fn receives(&mut self, at: usize, side: usize, count: usize) -> Vec<Receive> {
        let run = &mut self.runs[at];
        let life = &run.lane.lives[run.life];
        let inbox = run.areas[1 - side].and_then(|places| places.inbox).map(|inbox| &self.areas[inbox]);
        let mut all = Vec::new();
        let Some(Area { key, region, .. }) = inbox else { return all };
        for buffer in life.buffers[side].iter().skip(run.inboxes[side].posted()).take(count) {
            self.next_id += 1;
            let mut spoilt = buffer.spoilt;
            let piece = |&(at, len): &(usize, usize)| {
                let wrong = len > 0 && std::mem::take(&mut spoilt);
                (region.address + at as u64, key ^ u32::from(wrong), len as u32)
            };
            all.push(Receive { id: self.next_id, local: buffer.pieces.iter().map(piece).collect() });
            let mut placed = buffer.clone();
            placed.pieces.iter_mut().for_each(|(at, _)| *at += region.front());
            run.inboxes[side].post(self.next_id, &placed, self.steps);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole_in_order() {
        for len in [0, 1, 2, 3, 7, 100] {
            for pieces in 1..=4 {
                let all = split((1000, 5, len), pieces);
                assert_eq!(all.len(), pieces);
                let mut at = 1000;
                for (address, key, bytes) in all {
                    assert_eq!((address, key), (at, 5));
                    at += u64::from(bytes);
                }
                assert_eq!(at, 1000 + u64::from(len));
            }
        }
    }

    #[test]
    fn atomics_store_what_they_should() {
        assert_eq!(new_value(SendOpcode::FetchAdd, (2, 9), u64::MAX), 1);
        assert_eq!(new_value(SendOpcode::CmpSwap, (5, 9), 5), 9);
        assert_eq!(new_value(SendOpcode::CmpSwap, (4, 9), 5), 5);
    }
}
