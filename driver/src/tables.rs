// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which numbers, keys and page table entries of the card are given out.

use std::collections::{BTreeMap, VecDeque};

use crate::random::Random;

/// Numbers of one kind of object. Those given back are used again last, so that a late use of one is seen.
#[derive(Debug)]
pub(crate) struct Numbers {
    next: u32,
    end: u32,
    free: VecDeque<u32>,
}

impl Numbers {
    /// `first..end` are free.
    pub(crate) fn new(first: u32, end: u32) -> Self {
        Self { next: first, end, free: VecDeque::new() }
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.next < self.end {
            self.next += 1;
            return Some(self.next - 1);
        }
        self.free.pop_front()
    }

    pub(crate) fn give_back(&mut self, number: u32) {
        self.free.push_back(number);
    }
}

/// Runs of page table entries or of addresses, first fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// First of each free run to its last; no two touch.
    free: BTreeMap<u64, u64>,
}

impl Ranges {
    /// `0..count` are free.
    pub(crate) fn new(count: u64) -> Self {
        Self { free: count.checked_sub(1).map(|last| (0, last)).into_iter().collect() }
    }

    /// The first run of `count`.
    pub(crate) fn take(&mut self, count: u64) -> Option<u64> {
        self.take_aligned(count, 1)
    }

    /// The first run of `count` that begins at a multiple of `align` (a power of two).
    pub(crate) fn take_aligned(&mut self, count: u64, align: u64) -> Option<u64> {
        let (first, last, start) = self.free.iter().find_map(|(first, last)| {
            let start = first.checked_next_multiple_of(align)?;
            let end = start.checked_add(count.checked_sub(1)?)?;
            (end <= *last).then_some((*first, *last, start))
        })?;
        self.free.remove(&first);
        if first < start {
            self.free.insert(first, start - 1);
        }
        let end = start + (count - 1);
        if end < last {
            self.free.insert(end + 1, last);
        }
        Some(start)
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&mut self, first: u64, count: u64) {
        self.insert(first, first + (count - 1));
    }

    /// All from `first` to `last` are free.
    pub(crate) fn insert(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        if let Some((before, end)) = self.free.range(..first).next_back().map(|(a, b)| (*a, *b)) {
            if end.checked_add(1) >= Some(first) {
                self.free.remove(&before);
                (first, last) = (before, last.max(end));
            }
        }
        while let Some((next, end)) = self.free.range(first..).next().map(|(a, b)| (*a, *b)) {
            if next > last.saturating_add(1) {
                break;
            }
            self.free.remove(&next);
            last = last.max(end);
        }
        self.free.insert(first, last);
    }
}

/// Memory keys: index in bits 31:8, and a tag in 7:0 that a peer has to know besides.
#[derive(Debug)]
pub(crate) struct Keys {
    indices: Numbers,
    /// Last tag of each index that was used once.
    tags: Vec<u8>,
}

impl Keys {
    /// `max` indices, of which 0 is not given out.
    pub(crate) fn new(max: u32) -> Self {
        Self { indices: Numbers::new(1, max.min(1 << 24)), tags: Vec::new() }
    }

    /// A free index with a random tag that is not the one it had before, so that an old key never works again at once.
    pub(crate) fn take(&mut self, random: &mut Random) -> crate::Result<Option<u32>> {
        let step = random.next_u32()?;
        let Some(index) = self.indices.take() else { return Ok(None) };
        let at = index as usize;
        let fresh = at >= self.tags.len();
        if fresh {
            self.tags.resize(at + 1, 0);
        }
        let tag = if fresh { step as u8 } else { self.tags[at].wrapping_add(1 + (step % 255) as u8) };
        self.tags[at] = tag;
        Ok(Some(index << 8 | u32::from(tag)))
    }

    /// The same index with another tag, as `take` chooses it.
    pub(crate) fn renew(&mut self, key: u32, random: &mut Random) -> crate::Result<u32> {
        let step = random.next_u32()?;
        let tag = &mut self.tags[(key >> 8) as usize];
        *tag = tag.wrapping_add(1 + (step % 255) as u8);
        Ok(key & !0xff | u32::from(*tag))
    }

    pub(crate) fn give_back(&mut self, key: u32) {
        self.indices.give_back(key >> 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_given_back_in_any_order_become_one_again() {
        let mut ranges = Ranges::new(100);
        let runs: Vec<(u64, u64)> = [10, 20, 30, 40].map(|n| (ranges.take(n).unwrap(), n)).into();
        assert_eq!(ranges.take(1), None);
        for i in [2, 0, 3, 1] {
            ranges.give_back(runs[i].0, runs[i].1);
        }
        assert_eq!(ranges.take(100), Some(0));
    }

    #[test]
    fn a_run_is_taken_from_the_first_gap_that_holds_it() {
        let mut ranges = Ranges::new(100);
        let (a, _b, c, _d) = (ranges.take(10), ranges.take(10), ranges.take(20), ranges.take(60));
        ranges.give_back(a.unwrap(), 10);
        ranges.give_back(c.unwrap(), 20);
        assert_eq!(ranges.take(15), Some(20));
        assert_eq!(ranges.take(10), Some(0));
        assert_eq!(ranges.take(6), None);
    }

    #[test]
    fn a_number_given_back_is_used_last() {
        let mut numbers = Numbers::new(2, 5);
        assert_eq!([numbers.take(), numbers.take()], [Some(2), Some(3)]);
        numbers.give_back(2);
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [Some(4), Some(2), None]);
    }

    #[test]
    fn a_key_never_comes_back_with_the_tag_it_had() {
        let seed = 1;
        let mut random = Random::Seeded(seed);
        let mut keys = Keys::new(2);
        let mut last = None;
        for _ in 0..2000 {
            let key = keys.take(&mut random).unwrap().unwrap();
            assert_eq!(key >> 8, 1);
            assert_ne!(Some(key), last, "seed {seed}");
            assert_eq!(keys.take(&mut random).unwrap(), None);
            let renewed = keys.renew(key, &mut random).unwrap();
            assert_eq!(renewed >> 8, 1);
            assert_ne!(renewed, key, "seed {seed}");
            keys.give_back(renewed);
            last = Some(renewed);
        }
    }
}
