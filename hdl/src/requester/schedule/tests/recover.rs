// SPDX-License-Identifier: MIT OR Apache-2.0
//! A send queue that goes on after an error.

use super::*;

impl Bench {
    /// A cycle, whatever the others of these tests expect.
    fn pass(&mut self) {
        self.sim.set("returned", 0);
        step(&mut self.sim, &mut self.sources, &mut self.sinks, &mut self.random, 0.2);
    }

    fn set_to(&mut self, qp: usize, state: QpState) {
        self.sim.set("broadcast_state_enable", 1);
        self.sim.set("broadcast_state_index", qp as u64);
        self.sim.set("broadcast_state_entry", state.code().into());
        self.pass();
        self.sim.set("broadcast_state_enable", 0);
    }

    fn rings(&mut self, qp: usize, producer: u16) {
        self.sources[DOORBELL].push_values(&[("qp", qp as u128), ("producer", producer.into())]);
        (0..40).for_each(|_| self.pass());
    }

    fn flushed(&self) -> Vec<(u64, u64)> {
        let sink = &self.sinks[FLUSH];
        sink.values("qp").into_iter().zip(sink.values("producer")).collect()
    }
}

#[test]
fn what_is_told_before_it_goes_on_is_flushed_and_what_is_told_after_is_sent() {
    let mut bench = Bench::asleep(31);
    bench.sim.set("broadcast_attributes_entry_sq_log2", 5);
    for qp in 0..QPS {
        bench.sim.set("broadcast_attributes_index", qp as u64);
        bench.sim.set("broadcast_attributes_enable", 1);
        bench.pass();
    }
    bench.sim.set("broadcast_attributes_enable", 0);
    bench.set_to(3, QpState::Sqe);
    bench.rings(3, 7);
    bench.rings(3, 9);
    assert_eq!(bench.flushed(), [(3, 7), (3, 9)]);
    // The start goes the way of its WQEs with the index behind the last of them.
    bench.sources[START].push_values(&[("qp", 3), ("recovers", 1)]);
    (0..40).for_each(|_| bench.pass());
    let token = bench.sinks[GRANT].items.last().expect("a token").clone();
    let of = |name: &str| token[name].to_u64();
    assert_eq!((of("qp"), of("index"), of("start")), (3, 9, 1));
    // Told while it is on its way, WQEs are not flushed, though the state has not changed.
    bench.rings(3, 11);
    assert_eq!(bench.flushed().len(), 2);
    // Others are.
    bench.set_to(4, QpState::Sqe);
    bench.rings(4, 2);
    assert_eq!(bench.flushed().last(), Some(&(4, 2)));
    bench.sources[RESUME].push_values(&[("qp", 3), ("index", 9)]);
    (0..20).for_each(|_| bench.pass());
    bench.sim.set("started", 1);
    bench.pass();
    bench.sim.set("started", 0);
    (0..10).for_each(|_| bench.pass());
    assert_eq!((bench.sources[START].left(), bench.flushed().len()), (0, 3));
    bench.sim.set("oldest_enable", 1);
    bench.sim.set("oldest_index", 3);
    bench.sim.set("oldest_entry_index", 9);
    bench.pass();
    bench.sim.set("oldest_enable", 0);
    bench.set_to(3, QpState::Rts);
    let grants = bench.sinks[GRANT].items.len();
    bench.sources[KICK].push_values(&[("qp", 3)]);
    (0..60).for_each(|_| bench.pass());
    let granted: Vec<(u64, u64)> = bench.sinks[GRANT].items[grants..]
        .iter()
        .map(|grant| (grant["index"].to_u64(), grant["count"].to_u64()))
        .collect();
    assert_eq!(granted.iter().map(|grant| grant.1).sum::<u64>(), 2);
    assert_eq!(granted[0].0, 9);
    // It fails again: now it is flushed as before.
    bench.set_to(3, QpState::Sqe);
    bench.rings(3, 12);
    assert_eq!(bench.flushed().last(), Some(&(3, 12)));
}
