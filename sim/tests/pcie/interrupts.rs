// SPDX-License-Identifier: MIT OR Apache-2.0
//! MSI-X: the table, the pending bits, and the messages.

use ferrowire_sim::root::RootSettings;
use ferrowire_spec::csr::{MSIX_PBA, MSIX_TABLE};
use rand::Rng as _;

use super::rig::Rig;
use super::setup::{seeds, settings, widths, widths_of, WINDOW};

const TABLE: u64 = MSIX_TABLE as u64;
const PBA: u64 = MSIX_PBA as u64;
/// No vector.
const NONE: [u64; 0] = [];

/// Where the message of a vector goes.
fn message(window: u64, vector: u64) -> u64 {
    window + 16 * vector
}

/// What it says.
fn data(vector: u64) -> u32 {
    0xc0de_0000 | (vector as u32) << 4 | 5
}

/// Gives each vector a message and takes its mask off.
pub fn bring_up(rig: &mut Rig, window: u64) {
    rig.root.set_interrupt_window(window..window + 0x1000);
    for vector in 0..u64::from(rig.vectors) {
        let at = TABLE + 16 * vector;
        rig.root.cpu_write(at, &message(window, vector).to_le_bytes());
        rig.root.cpu_write(at + 8, &data(vector).to_le_bytes());
        rig.root.cpu_write(at + 12, &[0; 4]);
    }
    rig.finish();
}

/// Reads a register of up to 8 bytes.
pub fn get(rig: &mut Rig, address: u64, bytes: usize) -> u64 {
    let id = rig.root.cpu_read(address, bytes);
    rig.until(100_000, "answered", |rig| rig.answers.iter().any(|(other, _)| *other == id));
    let at = rig.answers.iter().position(|(other, _)| *other == id).unwrap();
    let got = rig.answers.remove(at).1.unwrap_or_else(|status| panic!("{address:#x}: {status}"));
    assert_eq!(got.len(), bytes);
    let mut word = [0; 8];
    word[..bytes].copy_from_slice(&got);
    u64::from_le_bytes(word)
}

/// Masks a vector, or takes its mask off; then that is so.
fn mask(rig: &mut Rig, vector: u64, on: bool) {
    rig.root.cpu_write(TABLE + 16 * vector + 12, &u32::from(on).to_le_bytes());
    assert_eq!(get(rig, TABLE + 16 * vector + 12, 4) & 1, u64::from(on));
}

/// The vectors whose messages were seen; each is right.
fn seen(rig: &mut Rig, window: u64) -> Vec<u64> {
    let vector = |(_, address, word): (u64, u64, u32)| {
        let vector = (address - window) / 16;
        assert_eq!((address, word), (message(window, vector), data(vector)));
        vector
    };
    rig.messages.drain(..).map(vector).collect()
}

#[test]
fn every_vector_sends_its_own_message() {
    seeds("every_vector_sends_its_own_message", 0..4, |seed| {
        let window = [WINDOW, 0xffff_fee0_0000, WINDOW, 0x1_0000_0000][seed as usize % 4];
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            bring_up(&mut rig, window);
            let vectors: Vec<u64> = (0..u64::from(rig.vectors)).collect();
            for vector in &vectors {
                rig.raise.push_back(*vector as u8);
                rig.finish();
                assert_eq!(seen(&mut rig, window), [*vector]);
            }
            // All at once, too.
            rig.raise.extend(0..rig.vectors as u8);
            rig.finish();
            let mut all = seen(&mut rig, window);
            all.sort_unstable();
            assert_eq!(all, vectors);
            assert_eq!(get(&mut rig, PBA, 8), 0);
        }
    });
}

#[test]
fn after_reset_every_vector_is_masked_and_nothing_is_pending() {
    for cfg in widths() {
        let mut rig = Rig::new(&cfg, RootSettings::default());
        bring_up(&mut rig, WINDOW);
        mask(&mut rig, 1, true);
        rig.raise.extend([1, 1]);
        rig.finish();
        assert_eq!(get(&mut rig, PBA, 8), 2);
        rig.reset();
        assert_eq!(get(&mut rig, PBA, 8), 0);
        for vector in 0..u64::from(rig.vectors) {
            assert_eq!(get(&mut rig, TABLE + 16 * vector + 12, 4) & 1, 1, "mask of vector {vector}");
        }
        assert_eq!(seen(&mut rig, WINDOW), NONE);
    }
}

#[test]
fn a_vector_that_is_masked_is_pending_and_is_sent_once_when_the_mask_goes() {
    seeds("a_vector_that_is_masked_is_pending_and_is_sent_once_when_the_mask_goes", 0..3, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            bring_up(&mut rig, WINDOW);
            for vector in 0..u64::from(rig.vectors) {
                mask(&mut rig, vector, true);
                rig.raise.extend(vec![vector as u8; 1 + vector as usize % 3]);
                rig.finish();
                assert_eq!(seen(&mut rig, WINDOW), NONE);
                assert_eq!(get(&mut rig, PBA, 8), 1 << vector);
                assert_eq!(get(&mut rig, PBA, 4), 1 << vector);
                // The others go on.
                let other = (vector + 1) % u64::from(rig.vectors);
                rig.raise.push_back(other as u8);
                rig.finish();
                assert_eq!(seen(&mut rig, WINDOW), [other]);
                mask(&mut rig, vector, false);
                rig.finish();
                assert_eq!(seen(&mut rig, WINDOW), [vector]);
                assert_eq!(get(&mut rig, PBA, 8), 0);
            }
        }
    });
}

#[test]
fn the_function_mask_holds_back_all_vectors_and_the_enable_bit_too() {
    for cfg in widths() {
        let mut rig = Rig::new(&cfg, settings(5));
        bring_up(&mut rig, WINDOW);
        rig.set("pcie_msix_mask", 1);
        rig.raise.extend(0..rig.vectors as u8);
        rig.raise.extend(0..rig.vectors as u8);
        rig.finish();
        assert_eq!(seen(&mut rig, WINDOW), NONE);
        assert_eq!(get(&mut rig, PBA, 8), (1 << rig.vectors) - 1);
        mask(&mut rig, 2, true);
        rig.set("pcie_msix_mask", 0);
        rig.finish();
        let mut all = seen(&mut rig, WINDOW);
        all.sort_unstable();
        assert_eq!(all, (0..u64::from(rig.vectors)).filter(|vector| *vector != 2).collect::<Vec<_>>());
        assert_eq!(get(&mut rig, PBA, 8), 4);
        mask(&mut rig, 2, false);
        rig.finish();
        assert_eq!(seen(&mut rig, WINDOW), [2]);

        rig.set("pcie_msix_enable", 0);
        rig.raise.extend(0..rig.vectors as u8);
        rig.finish();
        assert_eq!(seen(&mut rig, WINDOW), NONE);
        assert_eq!(rig.root.stats().interrupts, u64::from(rig.vectors));
    }
}

#[test]
fn the_table_keeps_what_is_written_and_nothing_lies_behind_it() {
    seeds("the_table_keeps_what_is_written_and_nothing_lies_behind_it", 0..4, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            let vectors = u64::from(rig.vectors);
            let words: Vec<(u64, u32)> = (0..vectors)
                .map(|_| (rig.client.random.random::<u64>() & !3, rig.client.random.random()))
                .collect();
            for (vector, (address, word)) in (0..).zip(&words) {
                let at = TABLE + 16 * vector;
                if rig.client.random.random() {
                    rig.root.cpu_write(at, &address.to_le_bytes());
                    rig.root.cpu_write(at + 8, &(u64::from(*word) | 1 << 32).to_le_bytes());
                } else {
                    let bytes = address.to_le_bytes();
                    rig.root.cpu_write(at + 4, &bytes[4..]);
                    rig.root.cpu_write(at, &bytes[..4]);
                    rig.root.cpu_write(at + 8, &word.to_le_bytes());
                }
                // Behind the table and over the pending bits: nothing.
                rig.root.cpu_write(TABLE + 16 * vectors + 8 * vector, &[0xff; 8]);
                rig.root.cpu_write(PBA, &[0xff; 8]);
            }
            for (vector, (address, word)) in (0..).zip(&words) {
                let at = TABLE + 16 * vector;
                assert_eq!(get(&mut rig, at, 8), *address);
                assert_eq!(get(&mut rig, at, 4), address & 0xffff_ffff);
                assert_eq!(get(&mut rig, at + 4, 4), address >> 32);
                assert_eq!(get(&mut rig, at + 8, 4), u64::from(*word));
                assert_eq!(get(&mut rig, at + 12, 4), 1);
                assert_eq!(get(&mut rig, at + 8, 8), u64::from(*word) | 1 << 32);
                assert_eq!(get(&mut rig, TABLE + 16 * vectors + 8 * vector, 8), 0);
            }
            assert_eq!(get(&mut rig, PBA, 8), 0);
            assert_eq!(rig.registers.log, [], "accesses of the MSI-X table at the card's registers");
            rig.finish();
        }
    });
}

#[test]
fn no_interrupt_is_lost_while_masks_come_and_go() {
    seeds("no_interrupt_is_lost_while_masks_come_and_go", 0..6, |seed| {
        for cfg in widths_of(seed) {
            let mut rig = Rig::new(&cfg, settings(seed));
            bring_up(&mut rig, WINDOW);
            let vectors = rig.vectors as usize;
            // Interrupts and messages of each, and whether the mask is surely on.
            let (mut raised, mut sent) = (vec![0; vectors], vec![0; vectors]);
            let mut masked = vec![false; vectors];
            for _ in 0..120 {
                let vector = rig.client.random.random_range(0..vectors);
                if rig.client.random.random_range(0..4) == 0 {
                    let on = !masked[vector];
                    masked[vector] = false;
                    mask(&mut rig, vector as u64, on);
                    // What was sent before the mask has been seen before the answer.
                    seen(&mut rig, WINDOW).iter().for_each(|vector| sent[*vector as usize] += 1);
                    masked[vector] = on;
                } else {
                    let count = rig.client.random.random_range(1..4);
                    rig.raise.extend(vec![vector as u8; count]);
                    raised[vector] += count;
                }
                let cycles = rig.client.random.random_range(0..150);
                rig.run(cycles);
                for vector in seen(&mut rig, WINDOW) {
                    let vector = vector as usize;
                    assert!(!masked[vector], "cycle {}: vector {vector} is masked", rig.cycle);
                    sent[vector] += 1;
                    assert!(sent[vector] <= raised[vector], "vector {vector} was not raised");
                }
            }
            rig.finish();
            seen(&mut rig, WINDOW).iter().for_each(|vector| sent[*vector as usize] += 1);
            let pending = get(&mut rig, PBA, 8);
            for (vector, on) in masked.iter().enumerate() {
                assert!(*on || pending >> vector & 1 == 0, "vector {vector} stays pending without a mask");
            }
            (0..vectors as u64).for_each(|vector| mask(&mut rig, vector, false));
            rig.finish();
            let after = seen(&mut rig, WINDOW);
            let wanted: Vec<u64> = (0..vectors as u64).filter(|vector| pending >> vector & 1 == 1).collect();
            let mut sorted = after.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, wanted);
            println!("raised {raised:?}, sent {sent:?} and then {after:?}");
            assert_eq!(get(&mut rig, PBA, 8), 0);
        }
    });
}

#[test]
fn an_interrupt_of_a_vector_that_the_table_lacks_is_forgotten() {
    let mut tried = 0;
    for cfg in widths() {
        let mut rig = Rig::new(&cfg, RootSettings::default());
        bring_up(&mut rig, WINDOW);
        let most = (1u64 << rig.width("interrupt_vector")) - 1;
        for vector in [u64::from(rig.vectors), u64::from(rig.vectors) + 1, most] {
            if vector >= u64::from(rig.vectors) && vector <= most {
                tried += 1;
                rig.raise.push_back(vector as u8);
            }
        }
        rig.finish();
        assert_eq!(seen(&mut rig, WINDOW), NONE);
        assert_eq!(get(&mut rig, PBA, 8), 0);
    }
    println!("{tried} such vectors");
}
