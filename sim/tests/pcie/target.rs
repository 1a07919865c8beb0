// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU's reads and writes of registers.

use std::collections::HashMap;

use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::root::{ReadId, RootSettings};
use rand::Rng as _;

use super::registers::{Access, Registers};
use super::rig::Rig;
use super::setup::{seeds, settings, widths, widths_of};

/// What a read must bring: `None` for a byte that was not asked for.
type Wanted = Vec<Option<u8>>;

/// A place of the registers, not in the page of the MSI-X table: so many bytes from a multiple of `step`.
fn place(rig: &mut Rig, bytes: u64, step: u64) -> u64 {
    let page = [0u64, 1, 2, 3, 5, 6, 64, 4095][rig.client.random.random_range(0..8)];
    let at = rig.client.random.random_range(0..=(4096 - bytes) / step) * step;
    // In few places, so that reads meet writes.
    page * 4096 + if at > 256 && at < 3800 { at % 256 / step * step } else { at }
}

fn random_bytes(rig: &mut Rig, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    rig.client.random.fill(&mut data[..]);
    data
}

/// Byte enables of one or two double words, any at all.
fn enables(rig: &mut Rig) -> (u32, u8, u8) {
    if rig.client.random.random() {
        (1, rig.client.random.random_range(0..16), 0)
    } else {
        (2, rig.client.random.random_range(1..16), rig.client.random.random_range(1..16))
    }
}

fn is_enabled(i: usize, first_be: u8, last_be: u8) -> bool {
    let all = u16::from(first_be) | u16::from(last_be) << 4;
    all >> i & 1 == 1
}

/// A write, also in the mirror.
fn write(rig: &mut Rig, mirror: &mut Registers) {
    let set = |mirror: &mut Registers, at: u64, data: &[u8]| mirror.set(at as u32, data);
    match rig.client.random.random_range(0..4) {
        0 => {
            let at = place(rig, 64, 64);
            let data = random_bytes(rig, 64);
            rig.root.cpu_write(at, &data);
            set(mirror, at, &data);
        }
        1 => {
            let bytes = 4 * rig.client.random.random_range(1..=16);
            let at = place(rig, bytes, 4);
            let data = random_bytes(rig, bytes as usize);
            rig.root.cpu_write(at, &data);
            set(mirror, at, &data);
        }
        2 => {
            let (dwords, first_be, last_be) = enables(rig);
            let at = place(rig, 8, 8);
            let data = random_bytes(rig, 4 * dwords as usize);
            rig.root.cpu_write_enables(at, &data, first_be, last_be);
            for (i, byte) in data.iter().enumerate().filter(|(i, _)| is_enabled(*i, first_be, last_be)) {
                set(mirror, at + i as u64, &[*byte]);
            }
        }
        _ => {
            let bytes = rig.client.random.random_range(1..=8);
            let at = place(rig, bytes, 1);
            let data = random_bytes(rig, bytes as usize);
            rig.root.cpu_write(at, &data);
            set(mirror, at, &data);
        }
    }
}

/// A read, and what it must bring.
fn read(rig: &mut Rig, mirror: &Registers) -> (ReadId, Wanted) {
    let all = |at: u64, bytes: u64| mirror.get(at as u32, bytes as usize).into_iter().map(Some).collect();
    match rig.client.random.random_range(0..4) {
        0 => {
            let bytes = 4 * rig.client.random.random_range(1..=16);
            let at = place(rig, bytes, 4);
            (rig.root.cpu_read(at, bytes as usize), all(at, bytes))
        }
        1 => {
            let (dwords, first_be, last_be) = enables(rig);
            let at = place(rig, 8, 8);
            let id = rig.root.cpu_read_enables(at, dwords, first_be, last_be);
            if first_be == 0 {
                return (id, vec![Some(0)]);
            }
            let got: Vec<_> = (0..8).filter(|i| is_enabled(*i, first_be, last_be)).collect();
            let value =
                |i: usize| is_enabled(i, first_be, last_be).then(|| mirror.get(at as u32 + i as u32, 1)[0]);
            (id, (got[0]..=got[got.len() - 1]).map(value).collect())
        }
        _ => {
            let bytes = rig.client.random.random_range(1..=8);
            let at = place(rig, bytes, 1);
            (rig.root.cpu_read(at, bytes as usize), all(at, bytes))
        }
    }
}

/// Each read was answered with what it must bring.
fn compare(rig: &mut Rig, wanted: &mut HashMap<ReadId, Wanted>) {
    for (id, answer) in std::mem::take(&mut rig.answers) {
        let wanted = wanted.remove(&id).expect("an answer to a read");
        let got = answer.unwrap_or_else(|status| panic!("cycle {}: {status}", rig.cycle));
        let fits = got.len() == wanted.len()
            && got.iter().zip(&wanted).all(|(got, wanted)| wanted.is_none_or(|wanted| wanted == *got));
        assert!(fits, "cycle {}, {id:?}: {got:02x?}, not {wanted:02x?}", rig.cycle);
    }
}

fn accesses(cfg: &RnicConfig, seed: u64) {
    let mut rig = Rig::new(cfg, settings(seed));
    rig.stall([0.0, 0.5][seed as usize % 2]);
    let (mut mirror, mut wanted) = (Registers::new(0), HashMap::new());
    for _ in 0..400 {
        if rig.client.random.random() {
            write(&mut rig, &mut mirror);
        } else {
            let (id, bytes) = read(&mut rig, &mirror);
            wanted.insert(id, bytes);
        }
        // The other side is busy, too.
        if rig.client.random.random_bool(0.3) && rig.client.writes.len() + rig.client.reads.len() < 8 {
            let (address, length) = rig.place();
            rig.write(address, length);
            rig.read(address, length);
        }
        let cycles = rig.client.random.random_range(0..40);
        rig.run(cycles);
        compare(&mut rig, &mut wanted);
    }
    rig.finish();
    compare(&mut rig, &mut wanted);
    assert!(wanted.is_empty(), "{} reads have no answer", wanted.len());
    assert_eq!(rig.events.refused, 0);
    assert!(rig.client.done.iter().all(|done| !done.failed()));
}

#[test]
fn registers_are_read_and_written_byte_by_byte_at_any_place_and_length() {
    let test = "registers_are_read_and_written_byte_by_byte_at_any_place_and_length";
    seeds(test, 0..8, |seed| widths_of(seed).iter().for_each(|cfg| accesses(cfg, seed)));
}

/// The accesses that a write or read becomes.
fn become_of(rig: &mut Rig) -> Vec<Access> {
    rig.finish();
    rig.registers.log.drain(..).map(|(_, access)| access).collect()
}

#[test]
fn whole_words_are_written_at_once_and_a_burst_rings_one_doorbell_after_the_other() {
    for cfg in widths() {
        let mut rig = Rig::new(&cfg, RootSettings::default());
        let wide = |at: u64, data: &[u8]| Access {
            address: at as u32,
            write: true,
            wide: true,
            data: u64::from_le_bytes(data.try_into().unwrap()),
        };
        let data: Vec<u8> = (1..=64).collect();
        for at in [0x1_0000, 0x2040, 0xff_ffc0] {
            rig.root.cpu_write(at, &data);
            let rung: Vec<_> = (0..8).map(|i| wide(at + 8 * i as u64, &data[8 * i..8 * i + 8])).collect();
            assert_eq!(become_of(&mut rig), rung);
            rig.root.cpu_write(at + 8, &data[..8]);
            assert_eq!(become_of(&mut rig), [wide(at + 8, &data[..8])]);
            rig.root.cpu_write(at + 4, &data[..4]);
            let narrow = Access { address: at as u32 + 4, write: true, wide: false, data: 0 };
            let all = become_of(&mut rig);
            assert_eq!(all.len(), 1);
            assert_eq!(Access { data: 0, ..all[0] }, narrow);
            assert_eq!(all[0].data as u32, 0x0403_0201);
        }
    }
}

#[test]
fn a_read_of_no_byte_reads_no_register_and_a_write_of_none_writes_none() {
    for cfg in widths() {
        let mut rig = Rig::new(&cfg, settings(3));
        let id = rig.root.cpu_read_enables(0x44, 1, 0, 0);
        rig.root.cpu_write_enables(0x48, &[1, 2, 3, 4], 0, 0);
        let accesses = become_of(&mut rig);
        assert!(accesses.iter().all(|access| !access.write), "{accesses:x?}");
        assert!(accesses.iter().all(|access| access.address & !7 != 0x40), "{accesses:x?}");
        assert_eq!(rig.answers, [(id, Ok(vec![0]))]);
    }
}
