// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Refusals`]: what a card wanted of memory that its client has not mapped. On a machine the IOMMU keeps count of that; here the server does.

/// Reads and writes.
type Count = (u64, u64);

/// What was refused since the client came.
#[derive(Debug, Default)]
pub struct Refusals {
    /// What the card's host had counted at the last look. It begins anew when another card takes the place of one.
    seen: Count,
    total: Count,
    /// Of the total, what was told.
    told: Count,
}

impl Refusals {
    /// Nothing was refused yet to the client that comes now.
    pub fn since(counted: Count) -> Self {
        Self { seen: counted, ..Self::default() }
    }

    /// Takes over what was counted since the last look.
    pub fn look(&mut self, now: Count) {
        let more = |now: u64, seen: u64| now.checked_sub(seen).unwrap_or(now);
        self.total.0 += more(now.0, self.seen.0);
        self.total.1 += more(now.1, self.seen.1);
        self.seen = now;
    }

    /// Says how much it is: at the first read and the first write, and whenever it has doubled.
    pub fn news(&mut self) -> Option<String> {
        let ((reads, writes), (reads_told, writes_told)) = (self.total, self.told);
        let first = (reads > 0 && reads_told == 0) || (writes > 0 && writes_told == 0);
        let all = reads + writes;
        if !first && (all == 0 || all < 2 * (reads_told + writes_told)) {
            return None;
        }
        self.told = self.total;
        Some(format!("the card was refused memory that is not mapped: {reads} reads, {writes} writes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_then_what_has_doubled() {
        let mut refusals = Refusals::since((5, 7));
        refusals.look((5, 7));
        assert_eq!(refusals.news(), None, "those were of another client");
        refusals.look((6, 7));
        assert!(refusals.news().unwrap().ends_with(": 1 reads, 0 writes"));
        assert_eq!(refusals.news(), None);
        refusals.look((6, 8));
        assert!(refusals.news().unwrap().ends_with(": 1 reads, 1 writes"));
        refusals.look((7, 8));
        assert_eq!(refusals.news(), None);
        // Another card, whose host begins to count.
        refusals.look((0, 4));
        assert!(refusals.news().unwrap().ends_with(": 2 reads, 5 writes"));
    }
}
