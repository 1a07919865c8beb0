// SPDX-License-Identifier: MIT OR Apache-2.0
//! Legal traffic: every byte arrives, however it is delayed, stalled and reordered; and it is fast.

use rand::Rng as _;

use super::manager::{Script, AT, MEMORY};
use crate::axi::{AxiSettings, Response, WriteOrder};

const WIDTHS: [usize; 4] = [8, 16, 32, 64];

/// A random place in a page, and so many bytes there that 256 beats have them.
fn place(script: &mut Script, first_page: usize) -> (usize, usize) {
    let page = first_page + script.random.random_range(0..MEMORY / 4096 / 2);
    let at = script.random.random_range(0..4096);
    let most = (4096 - at).min(256 * script.width - at % script.width);
    let most = if script.random.random() { most.min(70) } else { most };
    (page * 4096 + at, script.random.random_range(1..=most))
}

#[test]
fn every_byte_arrives_whatever_the_subordinate_is_like() {
    let mut early = 0;
    for seed in 0..96 {
        let any = AxiSettings::random(seed);
        let settings = AxiSettings { latency: [0, 50][seed as usize % 2], read_ids: 3, ..any };
        let mut script = Script::new(WIDTHS[seed as usize % 4], settings);
        script.stall = [0.0, 0.3][seed as usize / 2 % 2];
        let mut memory = script.memory();
        let (mut writes, mut reads) = (0, 0);
        // The lower half is written, each ID in pages of its own; the upper one is read.
        for _ in 0..1500 {
            if script.random.random_bool(0.3) && script.aw.len() < 4 {
                let id = script.random.random_range(0..3);
                let (at, bytes) = place(&mut script, 0);
                let at = at % 8192 + usize::from(id) * 8192;
                let mut data = vec![0; bytes];
                script.random.fill(&mut data[..]);
                script.write(id, AT + at as u64, &data);
                memory[at..at + bytes].copy_from_slice(&data);
                writes += 1;
            }
            if script.random.random_bool(0.3) && script.ar.len() < 4 {
                let id = script.random.random_range(0..3);
                let (at, bytes) = place(&mut script, MEMORY / 4096 / 2);
                script.read(id, AT + at as u64, bytes);
                reads += 1;
            }
            script.step();
        }
        script.finish();
        assert_eq!(script.axi.violation(), None, "seed {seed}");
        for (_, read) in &script.reads {
            let at = (read.address.address - AT) as usize;
            assert!(read.data == memory[at..at + read.data.len()], "seed {seed}: {:?}", read.address);
            assert!(read.responses.iter().all(|response| *response == Response::Okay));
        }
        assert!(script.now() == memory, "seed {seed}: other bytes in memory than were written");
        let stats = script.axi.stats();
        assert_eq!((script.reads.len(), script.responses.len()), (reads, writes), "seed {seed}");
        assert_eq!((stats.reads as usize, stats.writes as usize), (reads, writes));
        assert_eq!(
            (stats.responses as usize, stats.read_errors + stats.write_errors, stats.violations),
            (writes, 0, 0)
        );
        let host = script.axi.host().stats();
        assert_eq!((host.reads as usize, host.writes as usize, host.violations), (reads, writes, 0));
        if let Some(most) = script.axi.settings().most_reads {
            assert!(stats.most_reads <= most.into());
        }
        early += stats.early_beats;
    }
    assert!(early > 1000, "{early} beats of data came before their address");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let run = |seed| {
        let stalls = [0.2; 5];
        let settings = AxiSettings {
            spread: 40,
            write_spread: 40,
            reorder: true,
            late_writes: true,
            stalls,
            seed,
            ..AxiSettings::default()
        };
        let mut script = Script::new(16, settings);
        script.random = rand::SeedableRng::seed_from_u64(1);
        script.memory();
        (0..32).for_each(|i| script.read(0, AT + 512 * i, 400));
        (0..32).for_each(|i| script.write((i % 3) as u8, AT + 512 * i, &[i as u8; 400]));
        script.finish();
        let reads: Vec<u64> = script.reads.iter().map(|(cycle, _)| *cycle).collect();
        (reads, script.responses)
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn data_and_responses_come_after_the_latency_and_one_cycle_and_without_a_lost_one() {
    for latency in [0, 13] {
        let settings = AxiSettings { latency, write_latency: latency, ..AxiSettings::default() };
        let mut script = Script::new(64, settings);
        script.memory();
        script.read(0, AT, 1024);
        script.read(0, AT + 4096, 1024);
        script.write(0, AT, &[1; 256]);
        script.finish();
        let ends: Vec<u64> = script.reads.iter().map(|(cycle, _)| *cycle).collect();
        assert_eq!(ends, [latency + 16, latency + 32]);
        // Four beats of data, the last one in cycle 3.
        assert_eq!(script.responses[0].0, 4 + latency);
    }
}

#[test]
fn each_order_of_address_and_data_is_taken_and_is_what_it_says() {
    let first = |order, data_only: bool| {
        let mut script = Script::new(8, AxiSettings { write_order: order, ..AxiSettings::default() });
        script.memory();
        script.write(0, AT, &[1; 32]);
        if data_only {
            script.aw.clear();
        } else {
            script.w.clear();
        }
        script.run(20);
        if data_only {
            script.w.is_empty()
        } else {
            script.aw.is_empty()
        }
    };
    // Whether data passes without an address, and an address without data.
    let both = |order| (first(order, true), first(order, false));
    assert_eq!(both(WriteOrder::Any), (true, true));
    assert_eq!(both(WriteOrder::AddressFirst), (false, true));
    assert_eq!(both(WriteOrder::DataFirst), (true, false));
    assert_eq!(both(WriteOrder::AllDataFirst), (true, false));
}

#[test]
fn what_is_not_mapped_is_refused_and_counted_and_beats_are_read_where_any_byte_is() {
    let mut script = Script::new(64, AxiSettings::default());
    script.memory();
    let few = ferrowire::HostMemory::zeroed(100, 4096).unwrap();
    few.write(0, &[7; 100]);
    script.axi.host_mut().map_mut().insert(AT + (1 << 20) + 30, few).unwrap();
    script.read(0, AT + (1 << 20), 192);
    script.read(0, AT + (1 << 20), 64);
    script.write(1, AT - 64, &[1; 64]);
    script.write(0, AT + (1 << 20) + 126, &[9; 10]);
    script.finish();
    let (okay, bad) = (Response::Okay, Response::DecodeError);
    assert_eq!(script.reads[0].1.responses, [okay, okay, okay]);
    assert!(script.reads[0].1.data[30..130].iter().all(|byte| *byte == 7));
    assert!(script.reads[0].1.data[130..].iter().all(|byte| *byte == 0xa5));
    assert_eq!(script.reads[1].1.responses, [okay]);
    assert_eq!(script.responses.iter().map(|(_, b)| b.response).collect::<Vec<_>>(), [bad, bad]);
    script.read(0, AT + (1 << 20), 256);
    script.finish();
    assert_eq!(script.reads[2].1.responses, [okay, okay, okay, bad]);
    let (stats, errors) = (script.axi.host().stats(), script.axi.stats());
    assert_eq!((stats.reads_refused, stats.writes_refused), (1, 2));
    assert_eq!((errors.read_errors, errors.write_errors), (1, 2));
    assert_eq!(script.axi.violation(), None);
}
