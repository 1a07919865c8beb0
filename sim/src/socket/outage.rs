// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Outage`]: a wire that goes dark once, both ways, and carries again after a while.
//!
//! A cable is pulled and put back, a switch starts anew: nobody is told, and who waits for an answer has its timers alone. Time passes by the card's
//! clock, and where guests' clocks stand while the card computes, by theirs too: the wire is dark until each has seen all of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use ferrowire_spec::wire::frame::Frame;

use crate::wire::TimedFilter;

/// When, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dark {
    /// The first RoCE packet that is lost, counted both ways from 1.
    pub packet: u64,
    /// How long.
    pub time: Duration,
}

/// A wire that goes dark.
pub struct Outage {
    dark: Dark,
    clock_khz: u32,
    /// RoCE packets that have been sent on the wire, up to the first that was lost.
    packets: Arc<AtomicU64>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    /// Since that cycle of the card, and when guests had run for so long.
    Dark(u64, Option<Duration>),
    Behind,
}

/// In the place of the count, when the wire carries again.
const BEHIND: u64 = u64::MAX;

impl Outage {
    /// Of a wire whose card has that clock.
    pub fn new(dark: Dark, clock_khz: u32) -> Self {
        Self { dark, clock_khz, packets: Arc::default(), state: State::Before }
    }

    /// One direction of the wire, which else does what `carries` says.
    pub fn filter(&self, mut carries: TimedFilter) -> TimedFilter {
        let (packets, first) = (self.packets.clone(), self.dark.packet);
        Box::new(move |frame| {
            // Both directions are of one thread.
            let sent = packets.load(Ordering::Relaxed);
            let sent = match sent {
                BEHIND => return carries(frame),
                sent if sent >= first => return Vec::new(),
                sent => sent + u64::from(Frame::parse(frame).is_ok()),
            };
            packets.store(sent, Ordering::Relaxed);
            if sent < first {
                carries(frame)
            } else {
                Vec::new()
            }
        })
    }

    /// Whether the wire is dark.
    pub fn is_dark(&self) -> bool {
        matches!(self.state, State::Dark(..))
    }

    /// Looks at both clocks: the card's cycle, and how long guests have run. What is to be told.
    pub fn look(&mut self, cycle: u64, ran: Option<Duration>) -> Option<String> {
        match self.state {
            State::Before if self.packets.load(Ordering::Relaxed) >= self.dark.packet => {
                self.state = State::Dark(cycle, ran);
                Some(format!(
                    "the wire is dark from RoCE packet {} on, for {} ms",
                    self.dark.packet,
                    self.dark.time.as_millis()
                ))
            }
            State::Dark(since, had_run) => {
                let passed = cycle.saturating_sub(since);
                let card = u128::from(passed) >= self.dark.time.as_millis() * u128::from(self.clock_khz);
                // Without guests that stand now and then nobody has another clock.
                let guests = ran.zip(had_run).is_none_or(|(ran, had_run)| ran - had_run >= self.dark.time);
                (card && guests).then(|| {
                    self.state = State::Behind;
                    self.packets.store(BEHIND, Ordering::Relaxed);
                    format!("the wire carries again, {} cycles later", passed)
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrowire_spec::wire::bth::Bth;

    use super::*;
    use crate::wire::{encoded, Delivery};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_is_dark_both_ways_until_both_clocks_have_seen_it() {
        let mut frame =
            Frame { bth: Bth { opcode: 4, ..Bth::default() }, payload: &[1; 8], ..Frame::default() };
        frame.seal().unwrap();
        let (roce, other) = (encoded(&frame).unwrap(), vec![0xff; 60]);
        let mut outage = Outage::new(Dark { packet: 3, time: 5 * MS }, 1000);
        let carries = || -> TimedFilter { Box::new(|frame| vec![Delivery::at_once(frame.to_vec())]) };
        let (mut there, mut back) = (outage.filter(carries()), outage.filter(carries()));
        for _ in 0..9 {
            assert_eq!(there(&other).len(), 1, "no RoCE packet");
        }
        assert_eq!((there(&roce).len(), back(&roce).len()), (1, 1));
        assert_eq!(outage.look(10, Some(MS)), None);
        assert_eq!((there(&roce).len(), back(&roce).len(), back(&other).len()), (0, 0, 0));
        assert!(outage.look(20, Some(2 * MS)).is_some_and(|told| told.contains("packet 3 on, for 5 ms")));
        assert_eq!(outage.look(5019, Some(9 * MS)), None, "the card has not seen all of it");
        assert_eq!(outage.look(5020, Some(6 * MS)), None, "nor has a guest");
        assert_eq!((there(&roce).len(), back(&other).len()), (0, 0));
        assert!(outage.look(6020, Some(7 * MS)).is_some_and(|told| told.contains("6000 cycles later")));
        assert_eq!((there(&roce).len(), back(&roce).len(), back(&other).len()), (1, 1, 1));
        assert_eq!(outage.look(99_999, None), None, "it is dark once");
    }

    #[test]
    fn without_guests_the_cards_clock_counts_alone() {
        let mut outage = Outage::new(Dark { packet: 1, time: MS }, 62_500);
        let mut there = outage.filter(Box::new(|frame| vec![Delivery::at_once(frame.to_vec())]));
        let mut frame = Frame { bth: Bth { opcode: 4, ..Bth::default() }, ..Frame::default() };
        frame.seal().unwrap();
        assert!(there(&encoded(&frame).unwrap()).is_empty());
        assert!(outage.look(0, None).is_some());
        assert_eq!(outage.look(62_499, None), None);
        assert!(outage.look(62_500, None).is_some());
    }
}
