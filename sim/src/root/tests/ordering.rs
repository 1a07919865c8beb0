// SPDX-License-Identifier: MIT OR Apache-2.0
//! What PCIe 2.4.1 promises is kept, and what it does not promise happens.

use std::collections::BTreeSet;

use super::endpoint::{Endpoint, Event};
use crate::root::{RootSettings, Split};

const HIGH: u64 = 0x12_3456_0000;

fn wild(seed: u64) -> RootSettings {
    RootSettings {
        reorder: true,
        late_reads: true,
        relaxed_ordering: true,
        latency: 10,
        spread: 30,
        chunk: Split::Random,
        stall: 0.1,
        seed,
        ..RootSettings::default()
    }
}

#[test]
fn a_read_never_passes_a_write_before_it() {
    for seed in 0..50 {
        let mut card = Endpoint::new(16, wild(seed));
        card.memory(HIGH);
        for tag in 0..32u8 {
            card.write(HIGH + 64 * u64::from(tag), &[tag; 64], tag % 2 == 1);
            card.read(tag, HIGH + 64 * u64::from(tag), 64);
        }
        card.finish();
        for event in &card.events {
            let Event::Data(tag, data) = event else { panic!("{event:?}") };
            assert_eq!(data[..], [*tag; 64], "seed {seed}");
        }
        assert_eq!(card.root.violation(), None);
    }
}

#[test]
fn a_read_may_see_a_write_behind_it_or_not_and_even_a_part() {
    let (mut old, mut new, mut mixed) = (0, 0, 0);
    for seed in 0..100 {
        let mut card = Endpoint::new(64, wild(seed));
        card.memory(HIGH);
        card.write(HIGH, &[0; 512], false);
        card.read(0, HIGH, 512);
        card.write(HIGH, &[1; 512], false);
        card.finish();
        let Event::Data(0, data) = &card.events[0] else { panic!("{:?}", card.events) };
        match data.iter().map(|byte| usize::from(*byte)).sum() {
            0 => old += 1,
            512 => new += 1,
            _ => mixed += 1,
        }
    }
    assert!(old > 0 && new > 0 && mixed > 0, "{old}, {new}, {mixed}");
}

#[test]
fn completions_of_different_reads_come_in_any_order_and_those_of_one_in_order() {
    let mut orders = BTreeSet::new();
    for seed in 0..20 {
        let mut card = Endpoint::new(64, wild(seed));
        card.memory(HIGH);
        (0..8).for_each(|tag| card.read(tag, HIGH, 512));
        card.finish();
        // That those of one read are in order, the endpoint checks by their byte counts.
        let order = |event: &Event| if let Event::Data(tag, _) = event { *tag } else { panic!("{event:?}") };
        orders.insert(card.events.iter().map(order).collect::<Vec<_>>());
    }
    assert!(orders.len() > 15);
    let mut card = Endpoint::new(64, RootSettings { reorder: false, ..wild(1) });
    card.memory(HIGH);
    (0..8).for_each(|tag| card.read(tag, HIGH, 512));
    card.finish();
    let tags: Vec<_> = card.events.iter().map(|event| matches!(event, Event::Data(..))).collect();
    assert_eq!(tags, [true; 8]);
    assert!(card.events.windows(2).all(|two| matches!(two, [Event::Data(a, _), Event::Data(b, _)] if a < b)));
}

/// Writes a word with each of these attributes, then an interrupt; the orders in which all were seen.
fn seen(relaxed: &[bool]) -> BTreeSet<Vec<u64>> {
    let mut orders = BTreeSet::new();
    for seed in 0..60 {
        let mut card = Endpoint::new(64, wild(seed));
        card.root.set_interrupt_window(0xfee0_0000..0xfee0_1000);
        card.memory(HIGH);
        card.root.host_mut().keep_accesses(true);
        for (i, relaxed) in relaxed.iter().enumerate() {
            card.write(HIGH + 4 * i as u64, &[1; 4], *relaxed);
        }
        card.write(0xfee0_0010, &0x4321u32.to_le_bytes(), false);
        card.finish();
        let (cycle, address, data) = card.root.interrupt().unwrap();
        assert_eq!((address, data, card.root.interrupt()), (0xfee0_0010, 0x4321, None));
        let accesses = card.root.host_mut().take_accesses();
        assert_eq!(accesses.len(), relaxed.len());
        assert!(accesses.iter().all(|access| access.cycle <= cycle), "an interrupt passed a write");
        orders.insert(accesses.iter().map(|access| (access.address - HIGH) / 4).collect());
    }
    orders
}

#[test]
fn writes_stay_in_order_and_relaxed_ones_pass() {
    assert_eq!(seen(&[false; 4]), BTreeSet::from([vec![0, 1, 2, 3]]));
    assert_eq!(seen(&[false, true]), BTreeSet::from([vec![0, 1], vec![1, 0]]));
    assert_eq!(seen(&[true, false]), BTreeSet::from([vec![0, 1]]));
    assert_eq!(seen(&[true, true, true]).len(), 6);
}

#[test]
fn an_answer_to_the_cpu_pushes_writes_in_front_of_itself() {
    for seed in 0..30 {
        let mut card = Endpoint::new(64, RootSettings { stall: 0.0, ..wild(seed) });
        card.memory(HIGH);
        for i in 0..8u8 {
            card.write(HIGH, &[i; 4], i % 3 == 1);
        }
        card.run(8);
        let id = card.root.cpu_read(0, 4);
        while card.root.answer().is_none_or(|(other, _)| other != id) {
            card.step();
        }
        assert!(!card.root.memory.busy());
        assert_eq!(card.root.host().stats().writes, 8);
    }
}

#[test]
fn watching_sees_when_a_write_is_done() {
    let mut card = Endpoint::new(64, wild(5));
    card.memory(HIGH);
    card.root.host_mut().watch(HIGH + 9);
    card.write(HIGH, &[1; 16], false);
    card.finish();
    assert!(card.root.host().seen().is_some());
}
