// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queue pairs that are reset or destroyed in the middle of everything: when the command is completed, what they had posted is read no more, so that
//! the memory can be given away.

use super::{each, Life};
use crate::tier;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::axi::AxiSettings;
use ferrowire_sim::bus::{SharedWorld, World};
use ferrowire_sim::card::CardModel;
use ferrowire_sim::root::RootSettings;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn reading(world: &SharedWorld, card: usize) -> bool {
    world.lock().card(card).reading()
}

/// How many lives had something of a card's under way when the first of its queue pairs was taken down.
fn lives(config: &RnicConfig, seed: u64, count: usize) -> usize {
    println!("seed {seed}, {} bytes a beat", config.beat_bytes);
    let mut rng = SmallRng::seed_from_u64(seed);
    let latency = [100, 700, 1500][rng.random_range(0..3)];
    let root = RootSettings { latency, ..RootSettings::random(seed) };
    let axi = AxiSettings { latency, ..AxiSettings::random(seed) };
    let model = CardModel::rnic(config, false).unwrap().with_root(root).with_axi(axi);
    let world = World::pair(&model, latency, rng.random_range(0..50)).unwrap().share();
    let mut read = 0;
    for life in 0..count {
        let mut own = Life::begin(&world, &mut rng);
        own.work_hard(&mut rng);
        let (first, moment, destroy) =
            (rng.random_range(0..2), rng.random_range(0..3000), rng.random::<bool>());
        world.lock().run(moment);
        println!("life {life}: card {first}, {moment} cycles, destroy: {destroy}");
        let (a, b): (Vec<_>, Vec<_>) = std::mem::take(&mut own.qps).into_iter().unzip();
        let mut sides = [a, b];
        for card in [first, 1 - first] {
            read += usize::from(reading(&world, card));
            let mut kept = Vec::new();
            for qp in std::mem::take(&mut sides[card]) {
                match destroy {
                    true => qp.destroy().unwrap(),
                    false => kept.push(qp.reset().unwrap()),
                }
            }
            // Nobody else has anything to read there.
            assert!(!reading(&world, card), "card {card} still reads");
        }
        own.dies();
    }
    Life::begin(&world, &mut rng).works(&mut rng);
    read
}

/// Some had something under way.
fn all(configs: &[&str]) {
    let mut read = 0;
    each(configs, |config, seed| read += lives(config, seed, tier::number(4, 8)));
    assert!(read > tier::number(2, 4), "{read}");
}

#[test]
fn what_a_queue_pair_has_posted_is_read_no_more_when_it_is_gone() {
    all(&["generic-8b", "generic-64b"]);
}

#[test]
fn over_pcie_too() {
    all(&["pcie-8b", "pcie-64b", "pcie4-64b"]);
}

#[test]
fn over_axi_too() {
    all(&["axi-8b", "axi-64b"]);
}
