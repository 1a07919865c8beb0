// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of the card that may be given out.

use crate::tables::Ranges;

/// Bytes that nobody gets, from address 0 on: that is none.
const NOBODY: u64 = 1 << 20;

/// All of these ranges, each with its last address, in whole pages of `page` bytes.
pub(super) fn free(ranges: &[(u64, u64)], page: u64) -> Ranges {
    let mut free = Ranges::default();
    for (first, last) in ranges {
        let first = (*first).max(NOBODY).checked_next_multiple_of(page);
        // The end behind the last whole page; that behind the last address of all is never reached.
        let end = last.checked_add(1).unwrap_or(u64::MAX) & !(page - 1);
        match first {
            Some(first) if first < end => free.insert(first, end - 1),
            _ => {}
        }
    }
    free
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_taken_in_whole_pages_and_without_the_first_megabyte() {
        let mut iovas = free(&[(0, 0xfedf_ffff), (0xfef0_0000, u64::MAX)], 4096);
        assert_eq!(iovas.take_aligned(4096, 4096), Some(1 << 20));
        assert_eq!(
            iovas.take_aligned(0xfee0_0000, 4096),
            Some(0xfef0_0000),
            "not over the hole of the interrupts"
        );
        assert_eq!(iovas.take_aligned(u64::MAX, 1), None);
        let mut narrow = free(&[(0x20_0100, 0x20_2fff)], 4096);
        assert_eq!(
            (
                narrow.take_aligned(4096, 4096),
                narrow.take_aligned(4096, 4096),
                narrow.take_aligned(4096, 4096)
            ),
            (Some(0x20_1000), Some(0x20_2000), None)
        );
        assert_eq!(free(&[(0, 0xfffff), (0x20_0001, 0x20_0fff)], 4096), Ranges::default());
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
            let mut iovas = free(&ranges, 4096);
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
                let got = iovas.take_aligned(4096 * pages as u64, 4096 << shift);
                prop_assert_eq!(got, lowest.map(|at| base + 4096 * at as u64));
                if let Some(at) = lowest {
                    used[at..at + pages].fill(true);
                    taken.push((at, pages));
                }
            }
            for (start, pages) in taken {
                iovas.give_back(base + 4096 * start as u64, 4096 * pages as u64);
            }
            prop_assert_eq!(iovas, free(&ranges, 4096), "all comes back in one piece");
        }
    }
}
