// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands behind WQEs that take windows back.

use super::reads::{cycles, with_reads};
use super::*;
use ferrowire_spec::queue::send_wqe::bind::SendWqeBind;

/// A segmenter with an RC QP that has sent nothing; what is taken back is over when the test says so.
struct Waits {
    bench: Bench,
    packets: usize,
    index: u16,
}

impl Waits {
    fn new(seed: u64) -> Waits {
        let mut bench = with_reads(seed, 0);
        bench.sim.set("by_hand", 1);
        bench.sinks.iter_mut().for_each(|sink| sink.stall = Some(0.0));
        let packets = bench.sinks[CANDIDATE].items.len();
        Waits { bench, packets, index: 0 }
    }

    fn push(&mut self, bytes: &[u8; 64], total: u64, index: u16) {
        let fields = [("index", index.into()), ("total", total.into())];
        let mut wqe = item(&Wqe::of(&self.bench.cfg), &fields);
        wqe.insert("unit".into(), Bits::from_bytes(512, bytes));
        self.bench.sources[FETCHED].push(wqe);
        self.index = index + 1;
    }

    fn wqe(&mut self, opcode: SendOpcode, index: u16) {
        let (num_sge, total) = if opcode == SendOpcode::LocalInv { (0, 0) } else { (1, 64) };
        let unit = SendWqe { opcode: opcode.code(), num_sge, sge0_len: total, ..SendWqe::default() };
        let mut bytes = [0; 64];
        unit.emit(&mut bytes).unwrap();
        self.push(&bytes, total.into(), index);
    }

    fn bind(&mut self, length: u64) {
        self.bind_of(length, false);
    }

    fn bind_of(&mut self, length: u64, type_1: bool) {
        let mut bytes = [0; 64];
        SendWqeBind { length, type_1, opcode: SendOpcode::BindMw.code(), ..SendWqeBind::default() }
            .emit(&mut bytes)
            .unwrap();
        self.push(&bytes, 0, self.index);
    }

    fn back(&mut self) {
        self.wqe(SendOpcode::LocalInv, self.index);
    }

    fn send(&mut self) {
        self.wqe(SendOpcode::Write, self.index);
    }

    fn tell(&mut self, count: u64, open: bool) {
        let sim = &mut self.bench.sim;
        sim.set("told_enable", 1);
        sim.set("told_index", 0);
        sim.set("told_entry_count", count % 32);
        sim.set("told_entry_open", open.into());
        cycles(&mut self.bench, 1);
        self.bench.sim.set("told_enable", 0);
    }

    /// Of each packet so far: its WQE, and whether that takes something back.
    fn sent(&mut self, n: u32) -> Vec<(u64, bool)> {
        cycles(&mut self.bench, n);
        let items = &self.bench.sinks[CANDIDATE].items;
        let found = items[self.packets..]
            .iter()
            .map(|packet| (packet["packet_index"].to_u64(), packet["packet_withdraws"].to_u64() == 1));
        let found = found.collect();
        self.packets = items.len();
        found
    }
}

#[test]
fn behind_what_takes_a_window_back_only_others_of_the_kind_are_begun_until_it_is_over() {
    let mut waits = Waits::new(1);
    waits.back();
    waits.bind(0);
    waits.bind(64);
    waits.send();
    assert_eq!(waits.sent(200), [(0, true), (1, true), (2, false)]);
    // Neither with the first, nor while the second is open.
    for (count, open) in [(1, true), (1, false), (2, true)] {
        waits.tell(count, open);
        assert_eq!(waits.sent(100), []);
    }
    waits.tell(2, false);
    assert_eq!(waits.sent(8), [(3, false)], "it follows at once");
    // A bind of something keeps nothing back.
    waits.bind(64);
    waits.send();
    assert_eq!(waits.sent(20), [(4, false), (5, false)]);
    // Their number wraps.
    for n in 3..80 {
        let index = u64::from(waits.index);
        waits.back();
        waits.send();
        assert_eq!(waits.sent(20), [(index, true)]);
        waits.tell(n, false);
        assert_eq!(waits.sent(10), [(index + 1, false)]);
    }
}

/// A window of type 1 may be bound when it is bound (IBTA volume 1, 10.6.7.2.1).
#[test]
fn behind_a_bind_of_a_window_of_type_1_nothing_is_begun_until_its_old_binding_is_over() {
    let mut waits = Waits::new(5);
    waits.bind_of(64, true);
    waits.bind_of(0, true);
    waits.send();
    assert_eq!(waits.sent(200), [(0, true), (1, true)]);
    for (count, open) in [(1, true), (1, false), (2, true)] {
        waits.tell(count, open);
        assert_eq!(waits.sent(100), []);
    }
    waits.tell(2, false);
    assert_eq!(waits.sent(8), [(2, false)]);
}

#[test]
fn who_waits_for_that_makes_way_for_another() {
    let mut waits = Waits::new(2);
    waits.bench.sim.set("waiting_others", 1);
    let told = waits.bench.sinks[RESUME].items.len();
    waits.back();
    waits.send();
    assert_eq!(waits.sent(60), [(0, true)]);
    let resume = &waits.bench.sinks[RESUME].items[told];
    let of = |name: &str| resume[name].to_u64();
    assert_eq!((of("index"), of("limited"), of("unheard")), (1, 1, 1), "as for receives of its peer");
    assert_eq!((waits.bench.sources[FETCHED].left(), waits.bench.sinks[RESUME].items.len()), (0, told + 1));
}

/// What was sent before goes on being sent, what was executed is not executed again, and what is behind goes on waiting.
#[test]
fn one_that_goes_back_sends_again_what_was_before() {
    let mut waits = Waits::new(3);
    waits.send();
    waits.back();
    waits.send();
    assert_eq!(waits.sent(60), [(0, false), (1, true)]);
    // It falls out, once another one wants to send.
    waits.bench.sim.set("waiting_others", 1);
    waits.sent(20);
    waits.bench.sources[RESTART].push_values(&[("qp", 0)]);
    waits.sent(20);
    waits.bench.sim.set("waiting_others", 0);
    waits.wqe(SendOpcode::Write, 0);
    waits.wqe(SendOpcode::LocalInv, 1);
    waits.wqe(SendOpcode::Write, 2);
    assert_eq!(waits.sent(60), [(0, false)]);
    waits.tell(1, false);
    assert_eq!(waits.sent(20), [(2, false)]);
}

/// A life counts from what its QP has been told of by then.
#[test]
fn a_new_life_waits_for_nothing_that_a_former_one_began() {
    let mut waits = Waits::new(4);
    waits.back();
    waits.sent(20);
    waits.tell(9, false);
    waits.bench.sources[FETCHED].push_values(&[("start", 1)]);
    waits.sent(20);
    waits.wqe(SendOpcode::Write, 0);
    assert_eq!(waits.sent(20), [(0, false)]);
    // What is open of the former one is waited for.
    waits.tell(9, true);
    waits.send();
    assert_eq!(waits.sent(60), []);
    waits.tell(9, false);
    assert_eq!(waits.sent(10), [(1, false)]);
}
