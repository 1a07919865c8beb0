// SPDX-License-Identifier: MIT OR Apache-2.0
//! What AXI promises of order is kept, and what it does not promise happens.

use std::collections::BTreeSet;

use super::manager::{Script, AT};
use crate::axi::{Address, AxiSettings};

fn wild(seed: u64) -> AxiSettings {
    AxiSettings {
        latency: 5,
        spread: 40,
        write_spread: 60,
        reorder: true,
        late_writes: true,
        late_reads: true,
        stalls: [0.1; 5],
        read_ids: 3,
        seed,
        ..AxiSettings::default()
    }
}

/// A byte of memory.
fn byte(script: &Script, at: u64) -> u8 {
    let mut byte = [0];
    script.axi.host().map().read(at, &mut byte).unwrap();
    byte[0]
}

#[test]
fn what_is_answered_is_seen_and_what_is_not_is_seen_at_any_moment() {
    let (mut seen_early, mut reordered, mut torn) = (0, 0, 0);
    for seed in 0..60 {
        let mut script = Script::new(64, wild(seed));
        script.memory();
        let clean = vec![0; 0x1000];
        script.axi.host_mut().map_mut().write(AT, &clean).unwrap();
        // Sixteen writes of two blocks each, all of one ID.
        for i in 0..16u64 {
            script.write(0, AT + 128 * i, &[i as u8 + 1; 128]);
        }
        let mut order = Vec::new();
        while !script.is_idle() {
            script.step();
            for i in 0..16u64 {
                let [first, second] = [0, 64].map(|at| byte(&script, AT + 128 * i + at) != 0);
                torn += u64::from(first != second);
                if (first || second) && !order.contains(&i) {
                    order.push(i);
                    seen_early += u64::from(script.responses.len() as u64 <= i);
                }
            }
            // Responses of one ID are in order: so many are answered.
            for i in 0..script.responses.len() as u64 {
                assert!(
                    byte(&script, AT + 128 * i) != 0 && byte(&script, AT + 128 * i + 64) != 0,
                    "seed {seed}"
                );
            }
        }
        reordered += u64::from(!order.is_sorted());
    }
    assert!(seen_early > 100 && reordered > 50 && torn > 100, "{seen_early} {reordered} {torn}");
}

#[test]
fn a_block_is_seen_at_once_and_writes_of_one_id_to_the_same_one_in_order() {
    for (atomic, width) in [(64, 8), (64, 64), (32, 16)] {
        let mut torn = 0;
        for seed in 0..30 {
            let mut script = Script::new(width, AxiSettings { atomic, ..wild(seed) });
            script.memory();
            script.axi.host_mut().map_mut().write(AT, &[0; 64]).unwrap();
            (1..=20).for_each(|i| script.write(1, AT, &[i; 64]));
            let mut last = 0;
            while !script.is_idle() {
                script.step();
                let block = &script.now()[..64];
                assert!(block[0] >= last, "seed {seed}: an older write comes after a newer one");
                last = block[0];
                let atomic = atomic as usize;
                for part in block.chunks(atomic) {
                    assert!(part.iter().all(|byte| *byte == part[0]), "seed {seed}: {part:?}");
                }
                torn += u64::from(block[0] != block[63]);
            }
            assert_eq!(last, 20);
        }
        assert_eq!(torn > 0, atomic < 64, "blocks of {atomic}");
    }
}

#[test]
fn responses_and_data_of_one_id_stay_in_order_and_others_pass() {
    let (mut passed, mut interleaved) = (0, 0);
    for seed in 0..40 {
        let mut script = Script::new(16, wild(seed));
        script.memory();
        for i in 0..24u64 {
            script.write((i % 3) as u8, AT + 64 * i, &[1; 64]);
            script.read((i % 3) as u8, AT + 0x8000 + 64 * i, 64);
        }
        script.finish();
        let ids: Vec<u8> = script.responses.iter().map(|(_, b)| b.id).collect();
        passed += u64::from(ids.windows(2).any(|two| two[1] != (two[0] + 1) % 3));
        let mut last = [0; 3];
        for (_, read) in &script.reads {
            let Address { id, address, .. } = read.address;
            assert!(last[usize::from(id)] < address, "seed {seed}: reads of ID {id} out of order");
            last[usize::from(id)] = address;
        }
        // Data of four beats is cut by that of another ID.
        interleaved += script.beats.chunks(4).filter(|four| four.iter().any(|id| *id != four[0])).count();
        assert_eq!(script.axi.violation(), None);
    }
    assert!(passed > 30 && interleaved > 100, "{passed} {interleaved}");
}

#[test]
fn a_read_looks_between_its_address_and_its_data() {
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        let mut script = Script::new(8, AxiSettings { latency: 30, stalls: [0.0; 5], ..wild(seed) });
        script.memory();
        script.read(0, AT, 8);
        script.run(1);
        let from = script.cycle;
        while script.reads.is_empty() {
            let now = script.cycle.to_le_bytes();
            script.axi.host_mut().map_mut().write(AT, &now).unwrap();
            script.step();
        }
        let data = u64::from_le_bytes(script.reads[0].1.data[..].try_into().unwrap());
        if data < script.cycle {
            assert!(data >= from);
            seen.insert(data);
        }
    }
    assert!(seen.len() > 10, "{seen:?}");
}

#[test]
fn a_buffered_write_may_be_answered_before_it_is_seen() {
    let mut early = [0; 2];
    for seed in 0..40 {
        for (which, cache) in [(0, 0b0010), (1, 0b0011)] {
            let mut script = Script::new(64, AxiSettings { early_responses: true, ..wild(seed) });
            script.memory();
            script.axi.host_mut().map_mut().write(AT, &[0; 64]).unwrap();
            script.write(0, AT, &[5; 64]);
            script.aw[0].cache = cache;
            while script.responses.is_empty() {
                script.step();
            }
            early[which] += u64::from(byte(&script, AT) == 0);
            script.finish();
            assert_eq!(byte(&script, AT), 5);
        }
    }
    assert!(early[0] == 0 && early[1] > 5, "{early:?}");
}
