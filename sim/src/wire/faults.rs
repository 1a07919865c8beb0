// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Faults`]: what a bad wire does, by chance.

use ferrowire_spec::wire::ipv4;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Most frames that overtake one that changes places.
const OVERTAKERS: u32 = 4;

/// A frame to deliver, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The frame.
    pub frame: Vec<u8>,
    /// Cycles that it is late.
    pub delay: u64,
    /// So many frames that are sent later, and are not held back themselves, come before it. When `delay` is over it comes
    /// though there were fewer.
    pub behind: u32,
}

impl Delivery {
    /// As soon as the link can.
    pub fn at_once(frame: Vec<u8>) -> Self {
        Self { frame, delay: 0, behind: 0 }
    }

    /// So many cycles late.
    pub fn late(frame: Vec<u8>, delay: u64) -> Self {
        Self { frame, delay, behind: 0 }
    }

    /// Whether nothing is held back.
    pub fn is_prompt(&self) -> bool {
        self.delay == 0 && self.behind == 0
    }
}

/// Marks an IP packet as a switch does that is congested: ECN 3, with the IPv4 checksum that belongs to it (RFC 3168 and 1624).
/// Other frames, and those that are too short, stay as they are. The ICRC does not change: it leaves the field out.
pub fn mark_congestion(frame: &mut [u8]) {
    let tagged = frame.get(12..14) == Some(&[0x81, 0x00]);
    let at = if tagged { 18 } else { 14 };
    if frame.len() < at + 20 {
        return;
    }
    match frame[at] >> 4 {
        4 => {
            let word = |frame: &[u8], at: usize| u32::from(frame[at]) << 8 | u32::from(frame[at + 1]);
            let before = word(frame, at);
            frame[at + 1] |= ipv4::ECN_CE;
            let sum = (!word(frame, at + 10) & 0xffff) + (!before & 0xffff) + word(frame, at);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        6 => frame[at + 1] |= ipv4::ECN_CE << 4,
        _ => {}
    }
}

/// What becomes of a frame: what is delivered in its place, and when.
pub type TimedFilter = Box<dyn FnMut(&[u8]) -> Vec<Delivery> + Send>;

/// What a bad wire does, each with its probability for a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The frame is lost.
    pub drop: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// One more copy of it comes 1 to `hold` cycles later.
    pub stale: f64,
    /// One of its bits is another one.
    pub corrupt: f64,
    /// It changes places with 1 to 4 later ones, if these come within `hold` cycles.
    pub reorder: f64,
    /// It is 1 to `hold` cycles late.
    pub delay: f64,
    /// Longest time that a frame is held back, in cycles.
    pub hold: u64,
}

impl Faults {
    /// A frame may come more than once.
    pub fn repeats(&self) -> bool {
        self.duplicate > 0.0 || self.stale > 0.0
    }

    /// Frames come in the order in which they were sent, each once.
    pub fn keeps_order(&self) -> bool {
        self.reorder == 0.0 && self.delay == 0.0 && !self.repeats()
    }

    /// Each frame comes once, in its order, and as it was.
    pub fn does_nothing(&self) -> bool {
        self.drop == 0.0 && self.corrupt == 0.0 && self.keeps_order()
    }

    /// As a filter; the same seed does the same. Of a frame that comes twice, each copy may be held back on its own.
    pub fn filter(self, seed: u64) -> TimedFilter {
        let mut rng = SmallRng::seed_from_u64(seed);
        let hold = self.hold.max(1);
        Box::new(move |frame| {
            if rng.random_bool(self.drop) {
                return Vec::new();
            }
            let mut frame = frame.to_vec();
            if rng.random_bool(self.corrupt) {
                let bit = rng.random_range(0..frame.len() * 8);
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            let copies = if rng.random_bool(self.duplicate) { 2 } else { 1 };
            let mut when = |frame: Vec<u8>| {
                let reorder = rng.random_bool(self.reorder);
                let delay = rng.random_bool(self.delay);
                match (reorder, delay) {
                    (true, _) => Delivery { frame, delay: hold, behind: rng.random_range(1..=OVERTAKERS) },
                    (false, true) => Delivery::late(frame, rng.random_range(1..=hold)),
                    (false, false) => Delivery::at_once(frame),
                }
            };
            let mut all: Vec<Delivery> = (0..copies).map(|_| when(frame.clone())).collect();
            if self.stale > 0.0 && rng.random_bool(self.stale) {
                all.push(Delivery::late(frame, rng.random_range(1..=hold)));
            }
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Vec<u8>> {
        (0..500).map(|i| vec![i as u8; 60]).collect()
    }

    fn go(faults: Faults, seed: u64) -> Vec<Vec<Delivery>> {
        let mut filter = faults.filter(seed);
        all().iter().map(|frame| filter(frame)).collect()
    }

    #[test]
    fn faults_are_the_same_for_the_same_seed() {
        let faults = Faults {
            drop: 0.2,
            duplicate: 0.2,
            corrupt: 0.2,
            reorder: 0.2,
            delay: 0.2,
            hold: 900,
            ..Faults::default()
        };
        let once = go(faults, 5);
        assert_eq!(once, go(faults, 5));
        assert_ne!(once, go(faults, 6));
        for count in [0, 2] {
            let n = once.iter().filter(|out| out.len() == count).count();
            assert!((50..150).contains(&n), "{n} frames became {count}");
        }
        let changed = once
            .iter()
            .zip(all())
            .filter(|(out, frame)| out.first().is_some_and(|d| d.frame != *frame))
            .count();
        assert!((40..130).contains(&changed), "{changed} changed");
    }

    #[test]
    fn faults_hold_frames_back_as_often_and_as_long_as_they_say() {
        let held = go(Faults { reorder: 0.2, delay: 0.25, hold: 900, ..Faults::default() }, 7);
        assert!(held.iter().all(|out| out.len() == 1));
        let held: Vec<&Delivery> = held.iter().flatten().collect();
        let behind = held.iter().filter(|d| d.behind > 0).count();
        assert!((60..140).contains(&behind), "{behind} change places");
        assert!(held.iter().all(|d| d.behind <= OVERTAKERS && (d.behind == 0 || d.delay == 900)));
        let late = held.iter().filter(|d| d.behind == 0 && d.delay > 0).count();
        assert!((60..140).contains(&late), "{late} are late");
        assert!(held.iter().all(|d| d.delay <= 900));
        assert!(held.iter().zip(all()).all(|(d, frame)| d.frame == frame));
    }

    #[test]
    fn a_stale_copy_comes_after_the_frame() {
        let out = go(Faults { stale: 0.3, hold: 900, ..Faults::default() }, 7);
        let twice: Vec<_> = out.iter().filter(|out| out.len() == 2).collect();
        assert!((100..200).contains(&twice.len()), "{} have a copy", twice.len());
        for (all, frame) in out.iter().zip(all()) {
            assert_eq!(all[0], Delivery::at_once(frame.clone()));
            assert!(all[1..]
                .iter()
                .all(|d| d.frame == frame && d.behind == 0 && (1..=900).contains(&d.delay)));
        }
    }

    #[test]
    fn no_faults_change_nothing() {
        let through = go(Faults::default(), 1);
        assert!(through.iter().zip(all()).all(|(out, frame)| *out == [Delivery::at_once(frame)]));
    }
}
