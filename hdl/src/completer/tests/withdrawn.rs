// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that have taken a window back: they end when nothing is under way by it.

use super::*;
use ferrowire_spec::queue::SendOpcode;
use ferrowire_spec::wire::opcode::Opcode;

/// A completer alone, and what should come of it: index and status of each QP's completions.
struct Back {
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 4],
    random: Random,
    stall: f64,
    /// Of each QP: next PSN and index.
    next: Vec<(u32, u16)>,
    expected: Vec<Vec<(u16, u8)>>,
    eased: Vec<u32>,
}

impl Back {
    fn new(seed: u64, stall: f64) -> Back {
        let cfg = config(256, 128);
        let Bench { sim, sources, sinks, random, .. } = bench_of(&cfg, seed, stall);
        let next = vec![(MODULUS - 3, 0); QPS];
        let (expected, eased) = (vec![vec![]; QPS], vec![0; QPS]);
        let mut back = Back { sim, sources, sinks, random, stall, next, expected, eased };
        for qp in 0..QPS {
            back.sim.set("broadcast_attributes_entry_pkey", 0xffff);
            back.sim.set("broadcast_attributes_entry_retry_cnt", 7);
            back.sim.set("broadcast_attributes_index", qp as u64);
            back.sim.set("broadcast_attributes_enable", 1);
            back.step();
            back.sim.set("broadcast_attributes_enable", 0);
            back.start(qp);
        }
        back
    }

    fn step(&mut self) {
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        if self.sim.get("eased") == 1 {
            self.eased[self.sim.get("eased_qp") as usize] += 1;
        }
    }

    fn state(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.step();
        self.sim.set("broadcast_state_enable", 0);
    }

    fn start(&mut self, qp: usize) {
        let (psn, index) = self.next[qp];
        let fields = [("qp", qp as u128), ("psn", psn.into()), ("index", index.into())];
        self.sources[START].push_values(&fields);
        while self.sources[START].left() > 0 {
            self.step();
        }
        self.state(qp, QpState::Rts);
    }

    fn report(&mut self, qp: usize, packets: u32, more: &[(&str, u128)]) {
        let (psn, index) = self.next[qp];
        let last = psn.wrapping_sub(1 - packets) % MODULUS;
        let fields = [("qp", qp as u128), ("psn", last.into()), ("index", index.into())];
        let always = [("fresh", 1), ("last", 1), ("signaled", 1)];
        self.sources[SENT].push_values(&[&fields[..], &always, more].concat());
        self.next[qp] = ((psn + packets) % MODULUS, index.wrapping_add(1));
    }

    fn write(&mut self, qp: usize) {
        self.report(qp, 1, &[("wqe_opcode", SendOpcode::Write.code().into())]);
    }

    fn bind(&mut self, qp: usize) {
        self.report(qp, 0, &[("wqe_opcode", SendOpcode::BindMw.code().into())]);
    }

    fn take_back(&mut self, qp: usize) {
        self.report(qp, 0, &[("wqe_opcode", SendOpcode::LocalInv.code().into()), ("withdraws", 1)]);
    }

    /// All that was sent is acknowledged.
    fn acknowledge(&mut self, qp: usize) {
        while self.sources[SENT].left() > 0 {
            self.step();
        }
        (0..20).for_each(|_| self.step());
        let psn = self.next[qp].0.wrapping_sub(1) % MODULUS;
        self.sources[ANSWER].push_values(&[
            ("opcode", Opcode::RcAcknowledge.code().into()),
            ("dest_qpn", qp as u128),
            ("psn", psn.into()),
            ("pkey", 0xffff),
            ("origin_from_peer", 1),
            ("syndrome", ACK.into()),
        ]);
    }

    fn open(&mut self, qp: usize, open: bool) {
        self.sim.set("withdrawals_enable", 1);
        self.sim.set("withdrawals_index", qp as u64);
        self.sim.set("withdrawals_entry_open", open.into());
        self.step();
        self.sim.set("withdrawals_enable", 0);
    }

    fn over(&mut self, qp: usize) {
        self.open(qp, false);
        self.sim.set("over", qp as u64);
        self.sim.set("over_valid", 1);
        while self.sim.get("over_ready") == 0 {
            self.step();
        }
        self.step();
        self.sim.set("over_valid", 0);
    }

    fn ends(&mut self, qp: usize, index: u16, status: WcStatus) {
        self.expected[qp].push((index, status.code()));
    }

    fn well(&mut self, qp: usize, indices: std::ops::Range<u16>) {
        indices.for_each(|index| self.ends(qp, index, WcStatus::Success));
    }

    #[track_caller]
    fn settle(&mut self) {
        (0..600).for_each(|_| self.step());
        let mut found = vec![vec![]; QPS];
        for item in &self.sinks[COMPLETION].items {
            let of = |name: &str| item[name].to_u64();
            found[of("qpn") as usize].push((of("wqe_index") as u16, of("status") as u8));
        }
        assert_eq!(found, self.expected, "seed {}", self.random.seed);
        assert!(self.sinks[FAULT].items.is_empty() && self.sinks[RESTART].items.is_empty());
    }
}

#[test]
fn what_has_taken_a_window_back_ends_when_that_is_over_and_others_end_meanwhile() {
    for (seed, stall) in [(1, 0.0), (2, 0.3), (3, 0.7)] {
        let mut back = Back::new(seed, stall);
        back.open(0, true);
        back.write(0);
        back.take_back(0);
        back.take_back(0);
        for qp in 1..QPS {
            back.write(qp);
            back.bind(qp);
            back.write(qp);
            back.acknowledge(qp);
            back.well(qp, 0..3);
        }
        // Before its own are over, and once more.
        (0..2).for_each(|_| back.acknowledge(0));
        back.well(0, 0..1);
        back.settle();
        let eased = back.eased[0];
        back.over(0);
        back.well(0, 1..3);
        back.settle();
        assert_eq!(back.eased[0], eased + 1, "its queue is looked at again");
        back.write(0);
        back.acknowledge(0);
        back.well(0, 3..4);
        back.settle();
    }
}

#[test]
fn what_is_over_before_the_acknowledgement_ends_with_it() {
    for (seed, stall) in [(1, 0.0), (2, 0.5)] {
        let mut back = Back::new(seed, stall);
        back.open(3, true);
        back.write(3);
        back.take_back(3);
        back.settle();
        back.over(3);
        back.settle();
        // Behind it more may be sent now.
        back.write(3);
        back.acknowledge(3);
        back.well(3, 0..3);
        back.settle();
    }
}

/// A bind or an invalidation that takes nothing back waits for nothing, whatever else is open.
#[test]
fn what_takes_nothing_back_waits_for_what_is_before_it_only() {
    let mut back = Back::new(4, 0.2);
    back.open(1, true);
    back.bind(1);
    back.bind(1);
    back.well(1, 0..2);
    back.settle();
    back.take_back(1);
    back.bind(1);
    back.settle();
    back.over(1);
    back.well(1, 2..4);
    back.settle();
}

#[test]
fn an_error_flushes_what_has_taken_a_window_back_and_a_new_life_owes_nothing() {
    for (seed, stall) in [(5, 0.0), (6, 0.4)] {
        let mut back = Back::new(seed, stall);
        back.open(2, true);
        back.take_back(2);
        back.take_back(2);
        back.settle();
        back.state(2, QpState::Err);
        back.sources[FLUSH].push_values(&[("qp", 2), ("producer", 3)]);
        (0..3).for_each(|index| back.ends(2, index, WcStatus::WrFlushErr));
        back.settle();
        // What was open in the former life is over in the next one, or does no harm.
        back.state(2, QpState::Reset);
        back.settle();
        back.next[2] = (77, 0);
        back.start(2);
        back.write(2);
        back.acknowledge(2);
        back.well(2, 0..1);
        back.settle();
        back.over(2);
        back.take_back(2);
        back.well(2, 1..2);
        back.settle();
    }
}
