// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that nobody acknowledges: UC and UD.

use super::*;
use ferrowire_spec::wire::opcode::Service;

/// A completer alone, and what should come of it: QP, index, status, cause of each completion.
struct Own {
    sim: Sim,
    sources: [Source; 4],
    sinks: [Sink; 4],
    random: Random,
    stall: f64,
    /// Of each QP: next PSN and index.
    next: Vec<(u32, u16)>,
    expected: Vec<Vec<(u16, u8, u8)>>,
    ghosts: u64,
    recovered: u64,
}

impl Own {
    fn new(seed: u64, stall: f64) -> Own {
        let cfg = config(256, 128);
        let Bench { sim, sources, sinks, random, .. } = bench_of(&cfg, seed, stall);
        let next = vec![(0, 0); QPS];
        let mut own = Own {
            sim,
            sources,
            sinks,
            random,
            stall,
            next,
            expected: vec![vec![]; QPS],
            ghosts: 0,
            recovered: 0,
        };
        for qp in 0..QPS {
            own.attributes(qp, if qp % 2 == 0 { Service::Uc } else { Service::Ud });
            own.next[qp].0 = MODULUS - 3;
            own.start(qp, false);
            own.state(qp, QpState::Rts);
        }
        own
    }

    fn attributes(&mut self, qp: usize, service: Service) {
        let fields =
            [("send_cq", qp as u64), ("service", service.code().into()), ("pkey", 0xffff), ("mtu", 3)];
        for (name, value) in fields {
            self.sim.set(&format!("broadcast_attributes_entry_{name}"), value);
        }
        self.sim.set("broadcast_attributes_index", qp as u64);
        self.sim.set("broadcast_attributes_enable", 1);
        self.step();
        self.sim.set("broadcast_attributes_enable", 0);
    }

    fn step(&mut self) {
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, self.stall);
        self.ghosts += self.sim.get("counts_dropped_valid");
        self.recovered += self.sim.get("recovered");
    }

    fn start(&mut self, qp: usize, recovers: bool) {
        let (psn, index) = self.next[qp];
        self.sources[START].push_values(&[
            ("qp", qp as u128),
            ("psn", psn.into()),
            ("index", index.into()),
            ("recovers", recovers.into()),
        ]);
        let recovered = self.recovered + u64::from(recovers);
        while self.sources[START].left() > 0 || self.recovered < recovered {
            self.step();
        }
    }

    fn state(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.step();
        self.sim.set("broadcast_state_enable", 0);
    }

    fn report(&mut self, qp: usize, last: bool, more: &[(&str, u128)]) {
        let (psn, index) = self.next[qp];
        let fields = [("qp", qp as u128), ("psn", psn.into()), ("index", index.into()), ("fresh", 1)];
        self.sources[SENT].push_values(&[&fields[..], &[("last", last.into())], more].concat());
        self.next[qp] = ((psn + 1) % MODULUS, index.wrapping_add(last.into()));
    }

    fn message(&mut self, qp: usize, packets: u32, signaled: bool) {
        (1..packets).for_each(|_| self.report(qp, false, &[]));
        if signaled {
            let index = self.next[qp].1;
            self.expected[qp].push((index, 0, 0));
        }
        self.report(qp, true, &[("signaled", signaled.into())]);
    }

    fn found(&self) -> Vec<Vec<(u16, u8, u8)>> {
        let mut found = vec![vec![]; QPS];
        for item in &self.sinks[COMPLETION].items {
            let of = |name: &str| item[name].to_u64();
            found[of("qpn") as usize].push((
                of("wqe_index") as u16,
                of("status") as u8,
                of("syndrome") as u8,
            ));
        }
        found
    }

    #[track_caller]
    fn settle(&mut self) {
        for _ in 0..3000 {
            self.step();
        }
        assert_eq!(self.found(), self.expected, "seed {}", self.random.seed);
    }
}

#[test]
fn messages_that_nobody_acknowledges_complete_in_order_when_they_are_sent() {
    for (seed, stall) in [(1, 0.0), (2, 0.3), (3, 0.7)] {
        let mut own = Own::new(seed, stall);
        for _ in 0..300 {
            let qp = own.random.rng.random_range(0..QPS);
            let (packets, signaled) = (own.random.rng.random_range(1..4), own.random.chance(0.7));
            own.message(qp, packets, signaled);
            if own.random.chance(0.1) {
                (0..60).for_each(|_| own.step());
            }
            // Fewer than there is room for.
            while own.sources[SENT].left() > 40 {
                own.step();
            }
        }
        // One that is not whole completes nothing.
        own.report(0, false, &[]);
        own.settle();
        assert_eq!((own.ghosts, own.sinks[FAULT].items.len()), (0, 0), "seed {seed}");
    }
}

#[test]
fn messages_of_one_packet_are_done_as_fast_as_they_can_be_told() {
    for qps in [1, 4] {
        let mut own = Own::new(4, 0.0);
        (0..64).for_each(|i| own.message(i % qps, 1, true));
        let start = own.sim.cycles();
        while own.sinks[COMPLETION].items.len() < 64 {
            own.step();
        }
        let cycles = own.sim.cycles() - start;
        println!("{qps} queue pairs: {cycles} cycles for 64 messages");
        // In a card with time, each look takes longer, and most find more than one message.
        assert!(cycles < 64 * 4, "{qps} queue pairs: {cycles} cycles");
        own.settle();
    }
}

#[test]
fn acknowledgements_from_the_wire_mean_nothing_to_them() {
    let mut own = Own::new(5, 0.2);
    own.report(2, false, &[]);
    (0..50).for_each(|_| own.step());
    for syndrome in [0x1f, 0x60, 0x62] {
        let (psn, _) = own.next[2];
        let fields = [
            ("opcode", u128::from(ferrowire_spec::wire::Opcode::RcAcknowledge.code())),
            ("dest_qpn", 2),
            ("psn", u128::from((psn + MODULUS - 1) % MODULUS)),
            ("pkey", 0xffff),
            ("origin_from_peer", 1),
            ("syndrome", syndrome),
        ];
        own.sources[ANSWER].push_values(&fields);
    }
    own.settle();
    assert_eq!((own.ghosts, own.sinks[FAULT].items.len()), (3, 0));
    own.message(2, 1, true);
    own.settle();
}

#[test]
fn a_send_queue_that_failed_is_flushed_and_goes_on_behind_that() {
    for (seed, stall) in [(6, 0.0), (7, 0.5)] {
        let mut own = Own::new(seed, stall);
        for round in 0..12 {
            let qp = own.random.rng.random_range(0..QPS);
            own.message(qp, 2, true);
            let index = own.next[qp].1;
            own.expected[qp].push((index, WcStatus::LocProtErr.code(), 0x84));
            let failure = [("status", u128::from(WcStatus::LocProtErr.code())), ("cause", 0x84)];
            own.report(qp, true, &failure);
            own.settle();
            assert_eq!(own.sinks[FAULT].items.len(), round + 1);
            own.state(qp, QpState::Sqe);
            // Flushed as far as the host has told, once or more; the last of it with the start.
            let flushed = own.random.rng.random_range(0..50);
            let (known, (_, first)) = (own.random.rng.random_range(0..=flushed), own.next[qp]);
            for i in 0..flushed {
                own.expected[qp].push((first.wrapping_add(i), WcStatus::WrFlushErr.code(), 0));
            }
            let producer = first.wrapping_add(known);
            own.sources[FLUSH].push_values(&[("qp", qp as u128), ("producer", producer.into())]);
            (0..own.random.rng.random_range(0..60)).for_each(|_| own.step());
            while own.sources[FLUSH].left() > 0 {
                own.step();
            }
            own.next[qp] = ((own.next[qp].0 + 7) % MODULUS, first.wrapping_add(flushed));
            own.start(qp, true);
            own.state(qp, QpState::Rts);
            own.message(qp, 3, true);
            own.message(qp, 1, true);
            own.settle();
        }
    }
}

#[test]
fn a_long_flush_before_a_queue_goes_on_holds_up_nobody_else() {
    let mut own = Own::new(8, 0.0);
    let failure = [("status", u128::from(WcStatus::LocProtErr.code())), ("cause", 0x84)];
    own.report(0, true, &failure);
    own.expected[0].push((0, WcStatus::LocProtErr.code(), 0x84));
    own.settle();
    own.state(0, QpState::Sqe);
    let flushed = 2000;
    own.expected[0].extend((1..=flushed).map(|index| (index, WcStatus::WrFlushErr.code(), 0)));
    own.next[0].1 = 1 + flushed;
    let (psn, index) = own.next[0];
    let start = [("qp", 0), ("psn", psn.into()), ("index", index.into()), ("recovers", 1)];
    own.sources[START].push_values(&start);
    let mut others = 0;
    for cycle in 1..=3 * u64::from(flushed) {
        if own.recovered == 0 && cycle % 100 == 0 {
            let index = own.next[1].1;
            own.message(1, 1, true);
            (0..60).for_each(|_| own.step());
            let last = own.found()[1].last().copied();
            assert_eq!(last, Some((index, 0, 0)), "cycle {cycle}: done at once");
            others += 1;
        }
        own.step();
    }
    assert_eq!(own.recovered, 1);
    assert!(others > 5, "{others} messages of another queue pair meanwhile");
    own.state(0, QpState::Rts);
    own.message(0, 1, true);
    own.settle();
}

/// A queue pair that stood in the line of those that nobody acknowledges, and begins a life of RC: what stands in the line still is
/// no acknowledgement of what it sends now.
#[test]
fn a_mark_of_a_life_before_acknowledges_nothing() {
    const FIRST: u16 = 1000;
    for seed in 30..62 {
        let mut own = Own::new(seed, [0.0, 0.3, 0.6][seed as usize % 3]);
        for _ in 0..6 {
            let qp = own.random.rng.random_range(0..QPS);
            (0..QPS).for_each(|i| own.report((qp + 1 + i) % QPS, true, &[("signaled", 1)]));
            while own.sources[SENT].left() > 0 {
                own.step();
            }
            let service = if qp % 2 == 0 { Service::Uc } else { Service::Ud };
            let before = own.next[qp];
            own.attributes(qp, Service::Rc);
            own.next[qp] = (0x1000, FIRST);
            own.start(qp, false);
            own.report(qp, true, &[("signaled", 1)]);
            (0..1500).for_each(|_| own.step());
            let ends = |own: &Own| own.found()[qp].iter().filter(|end| end.0 == FIRST).count();
            let so_far = ends(&own);
            let acknowledge = [
                ("opcode", u128::from(ferrowire_spec::wire::Opcode::RcAcknowledge.code())),
                ("dest_qpn", qp as u128),
                ("psn", 0x1000),
                ("pkey", 0xffff),
                ("origin_from_peer", 1),
                ("syndrome", 0x1f),
            ];
            own.sources[ANSWER].push_values(&acknowledge);
            (0..500).for_each(|_| own.step());
            assert_eq!(ends(&own), so_far + 1, "seed {seed}: QP {qp} is acknowledged once, by its answer");
            own.attributes(qp, service);
            own.next[qp] = before;
            own.start(qp, false);
        }
    }
}
