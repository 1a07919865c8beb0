// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU's registers on AXI4-Lite: four and eight bytes, in order, whichever half and whichever channel is first.

use crate::tier::number;
use ferrowire_sim::bus::World;
use ferrowire_sim::card::{CardModel, CsrAccess};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::setup::{seeds, settings};

/// Registers that hold what is written: `cmdq_base_lo`, `cmdq_base_hi`, `compl_base_lo`, `compl_base_hi`, and the bits of each.
const HOLD: [(u32, u32); 4] = [(0x100, 0xffff_f000), (0x104, !0), (0x110, 0xffff_f000), (0x114, !0)];
/// Not of 16 bits as its neighbour, `cmdq_log2`.
const MAGIC: u64 = 0x5752_4546;

fn access(address: u32, write: bool, wide: bool, data: u64) -> CsrAccess {
    CsrAccess { address, write, wide, data }
}

#[test]
fn registers_are_read_and_written_by_four_and_eight_bytes() {
    seeds("registers_are_read", 0..16, |config, seed| {
        let model = CardModel::rnic(config, false).unwrap().with_axi(settings(seed));
        let mut world = World::single(&model, 0).unwrap();
        let mut rng = SmallRng::seed_from_u64(seed);
        assert_eq!(world.access(0, access(0, false, false, 0)).unwrap(), MAGIC);
        let mut held = [0u32; 4];
        for (address, _) in HOLD {
            world.access(0, access(address, true, false, 0)).unwrap();
        }
        for _ in 0..100 {
            let at = rng.random_range(0..4);
            let value: u64 = rng.random();
            if rng.random() {
                world.access(0, access(HOLD[at].0, true, false, value & 0xffff_ffff)).unwrap();
                held[at] = value as u32;
            } else {
                let at = at & !1;
                world.access(0, access(HOLD[at].0, true, true, value)).unwrap();
                (held[at], held[at + 1]) = (value as u32, (value >> 32) as u32);
            }
            let word = |at: usize| u64::from(held[at] & HOLD[at].1);
            let at = rng.random_range(0..4);
            let got = world.access(0, access(HOLD[at].0, false, false, 0)).unwrap();
            assert_eq!(got & u64::from(HOLD[at].1), word(at), "seed {seed}, {:#x}", HOLD[at].0);
            let at = at & !1;
            let got = world.access(0, access(HOLD[at].0, false, true, 0)).unwrap();
            let bits = u64::from(HOLD[at].1) | u64::from(HOLD[at + 1].1) << 32;
            assert_eq!(
                got & bits,
                word(at) | word(at + 1) << 32,
                "seed {seed}, eight bytes at {:#x}",
                HOLD[at].0
            );
        }
        world.check().unwrap();
    });
}

/// Many accesses at once: they come to the card in order, and each is answered.
#[test]
fn registers_are_in_order_when_many_accesses_are_under_way() {
    seeds("registers_are_in_order", 0..number(8, 16), |config, seed| {
        let model = CardModel::rnic(config, false).unwrap().with_axi(settings(seed));
        let mut world = World::single(&model, 0).unwrap();
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut held, mut expected) = ([0u32; 2], Vec::new());
        world.card_mut(0).csr(access(0x104, true, false, 0));
        world.card_mut(0).csr(access(0x114, true, false, 0));
        for _ in 0..200 {
            let at = rng.random_range(0..2);
            let address = [0x104, 0x114][at];
            if rng.random() {
                held[at] = rng.random();
                world.card_mut(0).csr(access(address, true, false, held[at].into()));
            } else {
                world.card_mut(0).csr(access(address, false, false, 0));
                expected.push(u64::from(held[at]));
            }
        }
        let mut got = Vec::new();
        for _ in 0..100_000 {
            world.step();
            got.extend(world.card_mut(0).csr_response());
        }
        world.check().unwrap();
        assert!(got == expected, "seed {seed}: {} answers, {} reads", got.len(), expected.len());
    });
}
