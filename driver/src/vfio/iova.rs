// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Iovas`]: addresses of the card that are free.

use std::collections::BTreeMap;

/// Free ranges of addresses, by their first, with the last. The first page is never given out: address 0 is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Iovas {
    free: BTreeMap<u64, u64>,
}

impl Iovas {
    /// Bytes that nobody gets, from address 0 on.
    const NOBODY: u64 = 1 << 20;

    /// All of these ranges, each with its last address, in whole pages of `page` bytes.
    pub(super) fn new(ranges: &[(u64, u64)], page: u64) -> Self {
        let mut iovas = Self::default();
        for (first, last) in ranges {
            let first = (*first).max(Self::NOBODY).checked_next_multiple_of(page);
            // The end behind the last whole page; that behind the last address of all is never reached.
            let end = last.checked_add(1).unwrap_or(u64::MAX) & !(page - 1);
            match first {
                Some(first) if first < end => iovas.insert(first, end - 1),
                _ => {}
            }
        }
        iovas
    }

    /// The lowest free `bytes` at a multiple of `align` (a power of two).
    pub(super) fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let (first, last, start) = self.free.iter().find_map(|(first, last)| {
            let start = first.checked_next_multiple_of(align)?;
            let end = start.checked_add(bytes.checked_sub(1)?)?;
            (end <= *last).then_some((*first, *last, start))
        })?;
        self.free.remove(&first);
        if first < start {
            self.free.insert(first, start - 1);
        }
        let end = start + (bytes - 1);
        if end < last {
            self.free.insert(end + 1, last);
        }
        Some(start)
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self, start: u64, bytes: u64) {
        self.insert(start, start + (bytes - 1));
    }

    fn insert(&mut self, first: u64, last: u64) {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_taken_in_whole_pages_and_without_the_first_megabyte() {
        let mut iovas = Iovas::new(&[(0, 0xfedf_ffff), (0xfef0_0000, u64::MAX)], 4096);
        assert_eq!(iovas.take(4096, 4096), Some(1 << 20));
        assert_eq!(iovas.take(0xfee0_0000, 4096), Some(0xfef0_0000), "not over the hole of the interrupts");
        assert_eq!(iovas.take(u64::MAX, 1), None);
        let mut narrow = Iovas::new(&[(0x20_0100, 0x20_2fff)], 4096);
        assert_eq!(
            (narrow.take(4096, 4096), narrow.take(4096, 4096), narrow.take(4096, 4096)),
            (Some(0x20_1000), Some(0x20_2000), None)
        );
        assert_eq!(Iovas::new(&[(0, 0xfffff), (0x20_0001, 0x20_0fff)], 4096), Iovas::default());
    }

    proptest! {
        /// Against a table of pages.
        #[test]
        fn what_is_given_out_is_free_aligned_and_the_lowest(
            steps in proptest::collection::vec((any::<bool>(), 1u64..20, 0u32..5, any::<prop::sample::Index>()), 1..120),
        ) {
            const PAGES: usize = 128;
            let base = 1u64 << 20;
            let ranges = [(base, base + 4096 * 100 - 1), (base + 4096 * 104, base + 4096 * PAGES as u64 - 1)];
            let mut iovas = Iovas::new(&ranges, 4096);
            let mut used = [false; PAGES];
            used[100..104].fill(true);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for (give, pages, shift, index) in steps {
                if give && !taken.is_empty() {
                    let (start, pages) = taken.swap_remove(index.index(taken.len()));
                    iovas.give_back(base + 4096 * start as u64, 4096 * pages as u64);
                    used[start..start + pages].fill(false);
                    continue;
                }
                let (step, pages) = (1usize << shift, pages as usize);
                // The base is a multiple of all these alignments.
                let lowest = (0..PAGES).step_by(step).find(|at| used.get(*at..at + pages).is_some_and(|all| all.iter().all(|used| !used)));
                let got = iovas.take(4096 * pages as u64, 4096 << shift);
                prop_assert_eq!(got, lowest.map(|at| base + 4096 * at as u64));
                if let Some(at) = lowest {
                    used[at..at + pages].fill(true);
                    taken.push((at, pages));
                }
            }
            for (start, pages) in taken {
                iovas.give_back(base + 4096 * start as u64, 4096 * pages as u64);
            }
            prop_assert_eq!(iovas, Iovas::new(&ranges, 4096), "all comes back in one piece");
        }
    }
}
