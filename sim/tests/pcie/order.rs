// SPDX-License-Identifier: MIT OR Apache-2.0
//! What sees what: reads, interrupts and answers to the CPU see every write that was taken before them.

use std::collections::VecDeque;

use ferrowire_sim::root::RootSettings;
use rand::Rng as _;

use super::interrupts::bring_up;
use super::rig::Rig;
use super::setup::{seeds, settings, widths, widths_of, REGIONS, WINDOW};

/// A root complex that does all as late as it may.
fn late(seed: u64) -> RootSettings {
    RootSettings { reorder: true, ..settings(seed) }
}

#[test]
fn a_read_in_the_cycle_of_a_write_or_in_the_next_one_sees_it() {
    seeds("a_read_in_the_cycle_of_a_write_or_in_the_next_one_sees_it", 0..6, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, late(seed));
            let mut seen = [0; 2];
            for i in 0..300 {
                let (address, length) = rig.free_place();
                let length = if i % 4 == 0 { length } else { length.min(rig.beat) };
                rig.write(address, length);
                // Offered with the last beat, or in the cycle after it.
                rig.until(50_000, "at its end", |rig| rig.client.at_last_beat());
                if i % 2 == 1 {
                    rig.until(50_000, "taken", |rig| rig.client.writes.is_empty());
                }
                rig.read(address, length);
                let reads = rig.client.reads_taken;
                rig.until(50_000, "taken", |rig| {
                    rig.client.reads_taken > reads && rig.client.writes.is_empty()
                });
                let (write, read) = (rig.client.write_at, rig.client.read_at);
                if let Some(count) = read.checked_sub(write).and_then(|gap| seen.get_mut(gap as usize)) {
                    *count += 1;
                }
            }
            rig.finish();
            println!("{} in the same cycle, {} in the next one", seen[0], seen[1]);
            assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
            assert!(rig.client.done.iter().all(|done| !done.failed()));
        }
    });
}

const CELLS: u64 = 6;

/// Where a cell lies: some of them across a limit of packets.
fn cell(i: u64) -> u64 {
    REGIONS[2] + 64 * 19 * i + [0, 60, 124, 4, 1, 32][i as usize]
}

/// Numbers that only rise, written to cells one after the other, with longer writes between them.
struct Counter {
    next: u64,
}

impl Counter {
    fn feed(&mut self, rig: &mut Rig) {
        if rig.client.writes.len() > 2 {
            return;
        }
        self.next += 1;
        let at = cell(rig.client.random.random_range(0..CELLS));
        rig.client.writes.push_back((at, self.next.to_le_bytes().to_vec()));
        if rig.client.random.random_bool(0.1) {
            let (page, length) = (REGIONS[0], rig.client.random.random_range(1..=4096));
            rig.write(page, length);
        }
    }

    /// What cells hold when all that was taken is there.
    fn taken(rig: &Rig) -> Vec<u64> {
        let get = |i| rig.client.shadow.read(cell(i), 8).unwrap();
        (0..CELLS).map(|i| u64::from_le_bytes(get(i).try_into().unwrap())).collect()
    }

    /// What they hold.
    fn there(rig: &Rig) -> Vec<u64> {
        let get = |i| {
            let mut bytes = [0; 8];
            rig.root.host().map().read(cell(i), &mut bytes).unwrap();
            u64::from_le_bytes(bytes)
        };
        (0..CELLS).map(get).collect()
    }

    fn new(rig: &mut Rig) -> Self {
        (0..CELLS).for_each(|i| rig.client.writes.push_back((cell(i), vec![0; 8])));
        rig.finish();
        Self { next: 0 }
    }
}

/// Each cell holds at least what it must.
fn assert_seen(what: &str, cycle: u64, there: &[u64], wanted: &[u64]) {
    let behind = there.iter().zip(wanted).any(|(there, wanted)| there < wanted);
    assert!(!behind, "cycle {cycle}: {what}, but cells hold {there:?} and not yet {wanted:?}");
}

#[test]
fn who_gets_an_interrupt_finds_all_that_was_written_before_it() {
    seeds("who_gets_an_interrupt_finds_all_that_was_written_before_it", 0..8, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, late(seed));
            bring_up(&mut rig, WINDOW);
            let mut counter = Counter::new(&mut rig);
            rig.client.stall = [0.0, [0.0, 0.3][seed as usize % 2], 0.0];
            let mut waiting: Vec<Option<Vec<u64>>> = vec![None; rig.vectors as usize];
            let mut seen = 0;
            while seen < 150 {
                counter.feed(&mut rig);
                if rig.client.random.random_bool(0.05) {
                    let vector = rig.client.random.random_range(0..rig.vectors) as u8;
                    if waiting[usize::from(vector)].is_none() {
                        waiting[usize::from(vector)] = Some(Counter::taken(&rig));
                        rig.raise.push_back(vector);
                    }
                }
                rig.step();
                for (cycle, address, _) in std::mem::take(&mut rig.messages) {
                    let vector = ((address - WINDOW) / 16) as usize;
                    let wanted = waiting[vector].take().expect("an interrupt that was raised");
                    assert_seen("an interrupt", cycle, &Counter::there(&rig), &wanted);
                    seen += 1;
                }
                assert!(rig.cycle < 1_000_000, "interrupts do not come: {waiting:?}");
            }
            rig.finish();
        }
    });
}

#[test]
fn who_reads_a_register_finds_all_that_was_written_before_it_answered() {
    seeds("who_reads_a_register_finds_all_that_was_written_before_it_answered", 0..8, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, late(seed));
            let mut counter = Counter::new(&mut rig);
            rig.registers.spread = 30;
            let (mut waiting, mut seen) = (VecDeque::new(), 0);
            while seen < 150 {
                counter.feed(&mut rig);
                if rig.client.random.random_bool(0.02) {
                    rig.root.cpu_read(8 * rig.client.random.random_range(0..100), 8);
                }
                let (taken, answers) = (Counter::taken(&rig), rig.registers.answers);
                rig.step();
                if rig.registers.answers > answers {
                    waiting.push_back(taken);
                }
                for (_, answer) in std::mem::take(&mut rig.answers) {
                    assert!(answer.is_ok(), "{answer:?}");
                    let wanted = waiting.pop_front().expect("an answer of the registers");
                    assert_seen("an answer", rig.cycle - 1, &Counter::there(&rig), &wanted);
                    seen += 1;
                }
                assert!(rig.cycle < 2_000_000, "answers do not come");
            }
            rig.finish();
        }
    });
}

#[test]
fn an_answer_waits_for_a_write_that_was_taken_just_before_it() {
    let mut wrong = Vec::new();
    for cfg in widths() {
        for length in [1, 8, 100] {
            for wait in 0..4 {
                let mut rig = Rig::new(&cfg, RootSettings::default());
                rig.run(300);
                rig.registers.hold = true;
                rig.root.cpu_read(0, 8);
                rig.until(1000, "asked for", |rig| rig.registers.log.len() == 1);
                rig.run(20);
                // The link takes no write; so no answer may come.
                rig.standstill = true;
                rig.write(REGIONS[2], length);
                rig.until(1000, "taken", |rig| rig.client.writes_taken == 1);
                rig.run(wait);
                rig.registers.hold = false;
                rig.run(300);
                if !rig.answers.is_empty() {
                    let (write, answer) = (rig.client.write_at, rig.registers.answered_at);
                    wrong.push(format!(
                        "{} bytes a beat: write of {length} bytes, last beat taken in cycle {write}, csr_response in cycle {answer}",
                        rig.beat
                    ));
                }
                rig.standstill = false;
                rig.finish();
                assert_eq!(rig.answers.len(), 1);
            }
        }
    }
    assert!(wrong.is_empty(), "answers passed writes: {wrong:#?}");
}
