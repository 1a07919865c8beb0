// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random reads and writes before root complexes of all kinds.

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::root::RootSettings;
use rand::Rng as _;

use super::rig::Rig;
use super::setup::{config, seeds, settings, widths, widths_of, NOWHERE, REGIONS};
use crate::tier;

/// Keeps reads and writes waiting until so many of both were taken.
fn traffic(rig: &mut Rig, operations: u64) {
    let from = rig.client.reads_taken + rig.client.writes_taken;
    let begin = rig.cycle;
    while rig.client.reads_taken + rig.client.writes_taken < from + operations {
        if rig.client.reads.len() < 2 {
            let (address, length) = rig.place();
            rig.read(address, length);
        }
        if rig.client.writes.len() < 2 {
            let (address, length) = rig.place();
            rig.write(address, length);
        }
        // Now and then other kinds of traffic: all stop, only reads, only writes.
        if rig.cycle % 4096 == 0 {
            let stalls = [0.0, 0.0, 0.2, 0.7];
            for stream in 0..3 {
                rig.client.stall[stream] = stalls[rig.client.random.random_range(0..4)];
            }
        }
        rig.step();
        assert!(rig.cycle - begin < operations * 6000, "cycle {}: it stands still", rig.cycle);
    }
}

fn reads_and_writes(cfg: &RnicConfig, seed: u64, operations: u64) {
    let mut rig = Rig::new(cfg, settings(seed));
    traffic(&mut rig, operations);
    rig.finish();
    let failed = rig.client.done.iter().find(|done| done.failed());
    assert!(failed.is_none(), "a read failed: {failed:?}");
    assert_eq!(rig.client.done.len() as u64, rig.client.reads_taken);
    assert_eq!((rig.events.unexpected, rig.events.timeout, rig.events.refused), (0, 0, 0));
}

#[test]
fn random_reads_bring_what_was_written_before_them_and_all_writes_land() {
    for (i, cfg) in (0..).zip(widths()) {
        let test = "random_reads_bring_what_was_written_before_them_and_all_writes_land";
        seeds(test, 100 * i..100 * i + tier::number(2, 8), |seed| reads_and_writes(&cfg, seed, 600));
    }
}

#[test]
fn random_traffic_with_few_tags_and_a_small_buffer_is_right() {
    let test = "random_traffic_with_few_tags_and_a_small_buffer_is_right";
    let small = |config: &mut RnicConfig| (config.pcie_tags, config.pcie_read_bytes) = (8, 8192);
    for (i, cfg) in (0..).zip([config("pcie-64b", 64, small), config("pcie-8b", 8, small)]) {
        seeds(test, 1000 + 100 * i..1000 + 100 * i + tier::number(1, 4), |seed| {
            reads_and_writes(&cfg, seed, 500)
        });
    }
}

#[test]
fn reads_and_writes_outside_mapped_memory_fail_alone() {
    seeds("reads_and_writes_outside_mapped_memory_fail_alone", 0..4, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            for i in 0..200 {
                let (address, length) = rig.place();
                let to = if i % 3 == 0 { NOWHERE + address % 4096 } else { address };
                rig.read(to, length);
                rig.write(to, length);
            }
            rig.finish();
            for done in &rig.client.done {
                assert_eq!(
                    done.failed(),
                    done.address >= NOWHERE && done.address < NOWHERE + 4096,
                    "{done:?}"
                );
            }
            assert!(rig.root.host().stats().writes_refused > 0);
        }
    });
}

#[test]
fn nothing_leaves_while_the_card_is_no_bus_master_and_all_goes_on_afterwards() {
    let test = "nothing_leaves_while_the_card_is_no_bus_master_and_all_goes_on_afterwards";
    seeds(test, 0..4, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            for _ in 0..6 {
                traffic(&mut rig, 40);
                rig.set("pcie_bus_master", 0);
                // A packet that has begun goes on to its end, and one that is on offer stays there.
                let ended = rig.rq_ended.len();
                rig.run(3000);
                rig.until(20_000, "at a packet's end", |rig| !rig.rq_open);
                let packets = rig.rq_ended.len() - ended;
                println!("{packets} packets left after the right was taken away");
                assert!(packets <= 2, "{packets} packets left after the right was taken away");
                let beats = rig.rq_beats;
                rig.run(3000);
                assert_eq!(rig.rq_beats, beats, "beats on rq without bus master");
                rig.set("pcie_bus_master", 1);
            }
            rig.finish();
            assert!(rig.client.done.iter().all(|done| !done.failed()));
            assert_eq!(rig.events.timeout, 0);
        }
    });
}

#[test]
fn registers_answer_while_the_card_is_no_bus_master() {
    seeds("registers_answer_while_the_card_is_no_bus_master", 0..2, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            traffic(&mut rig, 40);
            rig.finish();
            rig.set("pcie_bus_master", 0);
            let id = rig.root.cpu_read(0x100, 4);
            rig.until(20_000, "answered", |rig| rig.answers.iter().any(|(other, _)| *other == id));
            assert_eq!(rig.root.violation(), None);
        }
    });
}

/// While the right is away, software reads registers to find out why: it must not wait for an answer for ever.
#[test]
fn registers_answer_while_writes_wait_for_the_card_to_be_a_bus_master() {
    let cfg = config("pcie-64b", 64, |_| {});
    let mut rig = Rig::new(&cfg, RootSettings::default());
    rig.set("pcie_bus_master", 0);
    rig.write(REGIONS[0], 8);
    rig.until(100, "taken", |rig| rig.client.writes_taken == 1);
    rig.run(20);
    let id = rig.root.cpu_read(0x100, 4);
    rig.until(20_000, "answered", |rig| rig.answers.iter().any(|(other, _)| *other == id));
}

#[test]
fn a_reset_in_the_middle_of_traffic_leaves_an_engine_that_works() {
    seeds("a_reset_in_the_middle_of_traffic_leaves_an_engine_that_works", 0..6, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            for _ in 0..5 {
                traffic(&mut rig, 60);
                // Between two packets, or the root complex sees half of one.
                rig.until(20_000, "at a packet's end", |rig| !rig.rq_open);
                rig.reset();
                rig.client.forget();
                rig.until(200_000, "idle", |rig| rig.root.idle());
                // Writes that had not left are gone.
                for (base, bytes) in &mut rig.client.shadow.regions {
                    rig.root.host().map().read(*base, bytes).unwrap();
                }
                rig.client.done.clear();
            }
            traffic(&mut rig, 100);
            rig.finish();
            assert!(rig.client.done.iter().all(|done| !done.failed()));
            assert_eq!((rig.events.timeout, rig.events.refused), (0, 0));
        }
    });
}

/// Packets that a write and a read of 4,096 bytes become with that code of both sizes.
fn packets(cfg: &RnicConfig, code: u64) -> (u64, u64) {
    let sizes = RootSettings { max_payload: 4096, max_read_request: 4096, ..RootSettings::default() };
    let mut rig = Rig::new(cfg, sizes);
    rig.set("pcie_max_payload", code);
    rig.set("pcie_max_read_request", code);
    // What begins in the next cycle has them.
    rig.run(1);
    rig.write(REGIONS[0], 4096);
    rig.read(REGIONS[1], 4096);
    rig.finish();
    assert!(!rig.client.done[0].failed());
    (rig.root.stats().writes, rig.root.stats().reads)
}

/// Writes are never longer than 1,024 bytes.
#[test]
fn requests_are_as_long_as_the_sizes_let_them_be() {
    for cfg in widths() {
        let all: Vec<_> = (0..8).map(|code| packets(&cfg, code)).collect();
        let longest = [32, 16, 8, 4, 2, 1, 1, 1].map(|reads| (reads.max(4), reads));
        assert_eq!(all, longest, "packets of a write and a read of 4,096 bytes by code");
    }
}
