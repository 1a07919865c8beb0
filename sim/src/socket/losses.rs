// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Losses`]: when the server reports frames that its switch has lost: at once, then at most once in a [`PERIOD`], and when it ends.

use std::time::{Duration, Instant};

/// Least time between two reports.
const PERIOD: Duration = Duration::from_secs(1);

/// What was reported.
#[derive(Debug, Default)]
pub struct Losses {
    reported: u64,
    at: Option<Instant>,
}

impl Losses {
    /// How long to wait before `lost` frames are reported; `None`: they have been.
    pub fn due(&self, lost: u64, now: Instant) -> Option<Duration> {
        let passed = self.at.map(|at| now.saturating_duration_since(at));
        (lost != self.reported).then(|| passed.map_or(Duration::ZERO, |passed| PERIOD.saturating_sub(passed)))
    }

    /// They are reported now.
    pub fn report(&mut self, lost: u64, now: Instant) {
        (self.reported, self.at) = (lost, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_reported_at_once_and_then_once_in_a_period() {
        let (mut losses, start) = (Losses::default(), Instant::now());
        assert_eq!(losses.due(0, start), None);
        assert_eq!(losses.due(5, start), Some(Duration::ZERO));
        losses.report(5, start);
        assert_eq!(losses.due(5, start + 2 * PERIOD), None);
        assert_eq!(losses.due(6, start), Some(PERIOD));
        assert_eq!(losses.due(9, start + PERIOD / 4), Some(PERIOD * 3 / 4));
        assert_eq!(losses.due(9, start + 3 * PERIOD), Some(Duration::ZERO));
    }
}
