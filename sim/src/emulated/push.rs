// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pushed WQEs: the places of the doorbell pages to which the host may write one ([`doorbell::PUSH`]).

use ferrowire_spec::queue::doorbell;
use ferrowire_spec::queue::WQE_UNIT;

/// What was written last: a WQE is believed only if the last eight words of all pages are those of its place, in order.
#[derive(Debug, Default)]
pub(super) struct Push {
    place: Option<(u16, u8)>,
    words: [u64; WQE_UNIT / 8],
    /// Words that have come in order.
    next: usize,
}

impl Push {
    /// A word for a place. Whether the offset is that of one.
    pub(super) fn word(&mut self, page: u16, offset: u32, data: u64) -> bool {
        let unit = WQE_UNIT as u32;
        let Some(slot) = offset.checked_sub(doorbell::PUSH).map(|at| at / unit) else { return false };
        if slot >= doorbell::PUSH_SLOTS {
            return false;
        }
        let (place, word) = (Some((page, slot as u8)), (offset % unit / 8) as usize);
        if word == 0 || word == self.next && place == self.place {
            self.words[word] = data;
            (self.place, self.next) = (place, word + 1);
        } else {
            (self.place, self.next) = (None, 0);
        }
        true
    }

    /// The WQE at a place, if it is there.
    pub(super) fn wqe(&self, page: u16, slot: u8) -> Option<Vec<u8>> {
        let whole = self.next == self.words.len() && self.place == Some((page, slot));
        whole.then(|| self.words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wqe_is_eight_words_in_order_with_nothing_between() {
        let mut push = Push::default();
        let mut write = |page, slot: u32, words: std::ops::Range<u32>| {
            words.for_each(|word| {
                assert!(push.word(page, doorbell::PUSH + 64 * slot + 8 * word, u64::from(word)));
            });
            push.wqe(page, slot as u8).is_some()
        };
        assert!(write(1, 3, 0..8));
        assert!(!write(1, 3, 0..7));
        assert!(write(1, 3, 7..8));
        assert!(!write(1, 4, 1..8), "without its first word");
        assert!(!write(1, 3, 0..4) && !write(2, 3, 4..8), "another page's");
        assert!(write(2, 31, 0..8));
        assert_eq!(push.wqe(2, 30), None);
        assert!(!push.word(0, doorbell::PUSH - 8, 0));
    }
}
