// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is held back.

use super::*;

/// Cycles after which a gate is obeyed for certain.
const SOON: u64 = 3;

/// How far each QP is held back, and what came of it.
#[derive(Default)]
pub struct Gates {
    now: u64,
    /// Packets may stand for long: they stay what they were.
    stalls: bool,
    /// It must wait, it must stop, and since when.
    of: [(bool, bool, u64); QPS],
    /// Bytes that were charged, and that should have been.
    pub charged: u64,
    pub expected: u64,
    /// WQEs that were not begun, and packets behind which a message stopped.
    pub refused: u64,
    pub stopped: u64,
}

impl Gates {
    fn certain(&self, qp: usize) -> bool {
        self.now > self.of[qp].2 + SOON
    }

    pub fn is_stopped(&self, qp: usize) -> bool {
        self.of[qp].1
    }

    pub fn must_stop(&self, qp: usize) -> bool {
        self.of[qp].1 && self.certain(qp)
    }

    pub fn may_stop(&self, qp: usize) -> bool {
        self.of[qp].1 || !self.certain(qp)
    }

    /// Whether a packet must ask for an acknowledgement that does or does not, and must for another reason.
    pub fn ack_req(&self, qp: usize, must: bool, does: bool) -> bool {
        must || (if self.certain(qp) && !self.stalls { self.of[qp].0 } else { does })
    }
}

impl Bench {
    fn gate(&mut self, qp: usize, shut: bool, stop: bool) {
        self.gates.of[qp] = (shut, stop, self.sim.cycles());
        self.sim.set("gate_index", qp as u64);
        self.sim.set("gate_entry_shut", shut.into());
        self.sim.set("gate_entry_stop", stop.into());
        self.sim.set("gate_enable", 1);
        self.tick(0.0, false);
        self.sim.set("gate_enable", 0);
    }

    /// QP `i` has priority `2 * i`.
    fn pause(&mut self, priorities: u8) {
        for qp in 0..QPS {
            let (shut, stop) = (self.gates.of[qp].0, priorities >> (2 * qp) & 1 == 1);
            if self.gates.of[qp].1 != stop {
                self.gates.of[qp] = (shut, stop, self.sim.cycles());
            }
        }
        self.sim.set("paused", priorities.into());
    }

    fn tick(&mut self, stall: f64, others: bool) {
        self.gates.now = self.sim.cycles();
        // What stood while it was, stands until it is taken.
        self.gates.stalls |= stall > 0.0;
        let before = self.packets;
        self.step(stall, others);
        self.gates.stalls &= stall > 0.0 || self.packets == before;
    }
}

/// Random messages, while `change` holds some of the QPs back, of which one has just posted and one sends; in the end `release` lets all go.
fn all_is_sent_whoever_is_held_back(
    seed: u64,
    beat_bytes: u32,
    mut change: impl FnMut(&mut Bench, usize, usize),
    release: impl FnOnce(&mut Bench),
) {
    let mut bench = Bench::new(seed, beat_bytes);
    for _ in 0..350 {
        let qp = bench.random.rng.random_range(0..QPS);
        let wqe = bench.any(qp);
        bench.post(qp, wqe);
        let sender = bench.under_way.front().map_or(qp, |w| w.0);
        change(&mut bench, qp, sender);
        let (stall, others) =
            ([0.0, 0.0, 0.5][bench.random.rng.random_range(0..3)], bench.random.chance(0.5));
        for _ in 0..bench.random.rng.random_range(1..60) {
            bench.tick(stall, others);
        }
    }
    release(&mut bench);
    (0..5).for_each(|_| bench.tick(0.0, false));
    bench.settle();
    bench.check_all_sent();
    let Gates { charged, expected, refused, stopped, .. } = bench.gates;
    assert_eq!(charged, expected, "seed {seed}");
    assert_eq!(bench.again, 0, "seed {seed}");
    assert!(refused > 10 && stopped > 3, "seed {seed}: {refused}, {stopped}");
}

#[test]
fn who_is_stopped_begins_nothing_and_yields_and_who_must_wait_asks_for_acknowledgements() {
    for (seed, beat_bytes) in [(11, 8), (18, 64), (13, 64)] {
        let change = |bench: &mut Bench, qp, sender| {
            // Mostly the one that sends.
            let at = if bench.random.chance(0.7) { sender } else { qp };
            match bench.random.rng.random_range(0..6) {
                0 | 1 => bench.gate(at, false, false),
                2 => bench.gate(at, true, false),
                3 => bench.gate(at, true, true),
                _ => {}
            }
        };
        let release = |bench: &mut Bench| (0..QPS).for_each(|qp| bench.gate(qp, false, false));
        all_is_sent_whoever_is_held_back(seed, beat_bytes, change, release);
    }
}

#[test]
fn whose_priority_stands_still_begins_nothing_and_yields() {
    for (seed, beat_bytes) in [(14, 8), (15, 64), (16, 64)] {
        let mut paused = 0u8;
        let change = |bench: &mut Bench, _, sender: usize| {
            match bench.random.rng.random_range(0..4) {
                0 => paused |= 1 << (2 * sender),
                1 => paused &= bench.random.rng.random::<u8>(),
                2 => paused |= 0b1010_1010,
                _ => {}
            }
            bench.pause(paused);
        };
        all_is_sent_whoever_is_held_back(seed, beat_bytes, change, |bench| bench.pause(0));
    }
}
