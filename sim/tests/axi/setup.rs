// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards, pairs, and what a CPU sees that looks at memory in every cycle.

use std::collections::HashMap;

use crate::few_tables;
use ferrowire::{AccessFlags, HostMemory, MemoryRegion};
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::axi::AxiSettings;
use ferrowire_sim::bus::World;
use ferrowire_sim::card::CardModel;
use ferrowire_sim::host::AccessKind;
use ferrowire_sim::pair::{Connection, Node, Pair, PairOptions};
use ferrowire_spec::queue::cqe::Cqe;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

pub const CONFIGS: [&str; 2] = ["axi-8b", "axi-64b"];

/// Runs it for each seed of the range, at one of the configurations in turn, or for the one that is asked for.
pub fn seeds(test: &str, range: std::ops::Range<u64>, mut run: impl FnMut(&RnicConfig, u64)) {
    let only =
        std::env::var("FERROWIRE_SEED").ok().map(|seed| seed.parse().expect("FERROWIRE_SEED: a number"));
    let seeds: Vec<u64> = only.map_or(range.collect(), |seed| vec![seed]);
    for seed in seeds {
        println!(
            "seed {seed}: FERROWIRE_SEED={seed} cargo test -p ferrowire-sim --test all axi::{test} repeats it"
        );
        run(&few_tables(CONFIGS[seed as usize % 2]), seed);
    }
}

/// What a seed makes of a subordinate.
pub fn settings(seed: u64) -> AxiSettings {
    AxiSettings { latency: [0, 0, 60, 300][seed as usize / 2 % 4], ..AxiSettings::random(seed) }
}

/// Two cards before such subordinates.
pub fn pair(config: &RnicConfig, settings: &AxiSettings, seed: u64) -> Pair {
    println!("{} bytes a beat, {settings:?}", config.beat_bytes);
    let model = CardModel::rnic(config, false).unwrap().with_axi(settings.clone());
    assert!(model.has_axi(), "the card does not face AXI4");
    let options =
        PairOptions { host_latency: settings.latency, seed, cq_entries: 256, ..PairOptions::default() };
    let mut world = World::pair(&model, options.host_latency, seed % 3 * 20).unwrap();
    // Before a host that takes less than the wire brings, frames would be lost: that is not what is looked for.
    let slow = settings.stalls.iter().any(|stall| *stall > 0.3) || settings.most_writes.is_some();
    world.set_line_share(if slow { 0.05 } else { 0.9 });
    let pair = Pair::of(world.share(), &options).unwrap();
    [&pair.a, &pair.b].iter().for_each(|node| node.context.set_timer_tick(64).unwrap());
    pair
}

pub fn connection() -> Connection {
    Connection { access: AccessFlags::REMOTE, rd_atomic: 8, timeout: 10, ..Connection::default() }
}

/// Memory with random bytes, at an odd place.
pub fn region(node: &Node, bytes: usize, rng: &mut SmallRng) -> MemoryRegion {
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE;
    let region = node.region(rng.random_range(0..8) * 8, bytes, access).unwrap();
    let mut data = vec![0; bytes];
    SmallRng::seed_from_u64(rng.random()).fill_bytes(&mut data);
    region.memory().write(0, &data);
    region
}

/// Bytes that must be in memory.
pub struct Expected {
    pub memory: HostMemory,
    pub at: usize,
    pub data: Vec<u8>,
}

impl Expected {
    pub fn check(&self, what: &str) {
        let mut now = vec![0; self.data.len()];
        self.memory.read(self.at, &mut now);
        let wrong = now.iter().zip(&self.data).position(|(now, expected)| now != expected);
        assert_eq!(wrong, None, "{what}: byte of {} at {:#x} is not there", self.data.len(), self.at);
    }
}

/// A completion, as who posted the work knows it: queue pair, of a receive, index in its queue.
pub type Key = (u32, bool, u16);

/// A CPU that looks at memory in every cycle: in the one in which it can see a completion, it looks for what this tells of.
pub struct Observer {
    card: usize,
    regions: Vec<HostMemory>,
    pub expected: HashMap<Key, Vec<Expected>>,
    pub seen: usize,
}

impl Observer {
    /// From now on the card writes to these regions, and completions.
    pub fn begin(pair: &Pair, card: usize, regions: &[&MemoryRegion]) -> Self {
        let mut world = pair.world.lock();
        let host = world.card_mut(card).host_mut();
        host.keep_accesses(true);
        host.take_accesses();
        let regions = regions.iter().map(|region| region.memory().clone()).collect();
        Self { card, regions, expected: HashMap::new(), seen: 0 }
    }

    /// Looks at what the last cycle has brought.
    pub fn look(&mut self, world: &mut World) {
        let accesses = world.card_mut(self.card).host_mut().take_accesses();
        let host = world.card(self.card).host();
        for access in accesses {
            let AccessKind::Write(data) = access.kind else { continue };
            let of = |memory: &HostMemory| {
                let place = (0..memory.len()).step_by(4096).chain([memory.len() - 1]);
                let mut pages = place.filter_map(|at| host.bus_address(memory.address() + at as u64));
                pages.any(|at| at / 4096 == access.address / 4096)
            };
            // The last byte of an entry has its phase.
            let end = access.address + data.len() as u64;
            if end % 32 != 0 || self.regions.iter().any(of) {
                continue;
            }
            for slot in (access.address / 32..end / 32).map(|slot| slot * 32) {
                let mut entry = [0; 32];
                host.map().read(slot, &mut entry).unwrap();
                let cqe = Cqe::parse(&entry).unwrap();
                let key = (cqe.qpn, cqe.receive, cqe.wqe_index);
                let what = format!("cycle {}, card {}: {cqe:?}", access.cycle, self.card);
                let Some(expected) = self.expected.get(&key) else { panic!("{what}: nobody waits for it") };
                expected.iter().for_each(|expected| expected.check(&what));
                self.seen += 1;
            }
        }
    }
}
