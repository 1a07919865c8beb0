// SPDX-License-Identifier: MIT OR Apache-2.0
//! What there is to be tested: configurations, root complexes, seeds, and the Verilated engines.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::tier;
use ferrowire_hdl::config::RnicConfig;
use ferrowire_sim::lockstep::source;
use ferrowire_sim::root::{RootSettings, Split};
use ferrowire_verilator::{build, Library, OptLevel, Options};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// Where host memory lies: below 4 GiB, across that boundary, above, and at the very top.
pub const REGIONS: [u64; 4] = [0x8000_0000, 0xffff_8000, 0x12_3456_7000, 0xffff_ffff_ffff_0000 - ROOM as u64];
/// Bytes of each.
pub const ROOM: usize = 1 << 16;
/// Nothing is mapped there.
pub const NOWHERE: u64 = 0x55_0000_0000;
/// Addresses that are interrupts.
pub const WINDOW: u64 = 0xfee0_0000;

/// The configurations by name, with other beats, tags and time-outs.
pub fn config(name: &str, beat: u32, change: impl FnOnce(&mut RnicConfig)) -> RnicConfig {
    let mut config = RnicConfig { beat_bytes: beat, ..RnicConfig::named(name).unwrap() };
    change(&mut config);
    config
}

/// One of each width.
pub fn widths() -> Vec<RnicConfig> {
    vec![
        config("pcie-8b", 8, |_| {}),
        config("pcie-8b", 16, |config| config.pcie_tags = 8),
        config("pcie-64b", 32, |_| {}),
        config("pcie-64b", 64, |_| {}),
    ]
}

/// The widths that a seed runs over: all in the full tier, and one in the default tier, which rotates with the seed.
pub fn widths_of(seed: u64) -> Vec<RnicConfig> {
    let mut all = widths();
    match tier::full() {
        true => all,
        false => vec![all.swap_remove(seed as usize % all.len())],
    }
}

/// Runs a test with each seed, or with that of `FERROWIRE_SEED` alone.
pub fn seeds(test: &str, seeds: impl IntoIterator<Item = u64>, mut run: impl FnMut(u64)) {
    let given = std::env::var("FERROWIRE_SEED").ok().map(|text| text.parse().expect("a number"));
    let seeds: Vec<u64> = given.map_or_else(|| seeds.into_iter().collect(), |seed| vec![seed]);
    for seed in seeds {
        println!(
            "seed {seed}: FERROWIRE_SEED={seed} cargo test -p ferrowire-sim --test all pcie::{test} repeats it"
        );
        run(seed);
    }
}

/// A root complex of any kind.
pub fn settings(seed: u64) -> RootSettings {
    let mut random = SmallRng::seed_from_u64(seed ^ 0x5e77_1465);
    let any = |random: &mut SmallRng, of: &[u32]| of[random.random_range(0..of.len())];
    RootSettings {
        latency: random.random_range(0..300),
        spread: random.random_range(0..200),
        max_payload: any(&mut random, &[128, 256, 512, 1024, 4096]),
        max_read_request: any(&mut random, &[128, 256, 512, 1024, 2048, 4096]),
        read_completion_boundary: any(&mut random, &[64, 128]),
        extended_tags: random.random(),
        requester: random.random(),
        completer: random.random(),
        bar0: [0xf000_0000, 0x38_0000_0000][random.random_range(0..2)],
        chunk: match random.random_range(0..4) {
            0 => Split::Largest,
            1 => Split::Fixed(any(&mut random, &[64, 128, 256, 512])),
            _ => Split::Random,
        },
        reorder: random.random_bool(0.7),
        non_posted_credits: random.random_bool(0.3).then(|| random.random_range(1..20)),
        gapless: true,
        stall: [0.0, 0.1, 0.5][random.random_range(0..3)],
        seed,
        ..RootSettings::default()
    }
}

/// A Verilated engine, built once.
pub fn library(config: &RnicConfig) -> Library {
    static BUILT: Mutex<Option<HashMap<String, Library>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_with(HashMap::new);
    let make = || {
        let netlist = ferrowire_hdl::host::pcie::engine(config).unwrap_or_else(|errors| panic!("{errors}"));
        let options = Options { opt: OptLevel::O1, ..Options::default() };
        build(&source(&netlist), &options).unwrap_or_else(|error| panic!("{error}"))
    };
    built.entry(format!("{config:?}")).or_insert_with(make).clone()
}

/// Ports of the engine, but for the streams of packets.
pub const PORTS: [&str; 39] = [
    "clk",
    "rst",
    "read_valid",
    "read_ready",
    "read_address",
    "read_length",
    "data_valid",
    "data_ready",
    "data_data",
    "data_last",
    "data_error",
    "write_valid",
    "write_ready",
    "write_address",
    "write_length",
    "write_data",
    "write_strobe",
    "write_last",
    "csr_valid",
    "csr_ready",
    "csr_address",
    "csr_write",
    "csr_wide",
    "csr_data",
    "csr_response_valid",
    "csr_response_ready",
    "csr_response_data",
    "interrupt_valid",
    "interrupt_vector",
    "pcie_bus_master",
    "pcie_msix_enable",
    "pcie_msix_mask",
    "events_unexpected",
    "events_timeout",
    "events_refused",
    "interrupt_eqn",
    "pcie_extended_tags",
    "pcie_max_payload",
    "pcie_max_read_request",
];
