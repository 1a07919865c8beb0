// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`AxiSettings`]: what a subordinate and its CPU are like, and [`AxiStats`]: what went through.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// Which of a write's two channels is taken first (AXI4 A3.3.1 leaves it to the subordinate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrder {
    /// Whatever comes.
    Any,
    /// No data before its address.
    AddressFirst,
    /// No address before the first beat of its data.
    DataFirst,
    /// No address before all of its data.
    AllDataFirst,
    /// One of these, for each write anew.
    Random,
}

/// What a subordinate is like.
#[derive(Clone, Debug)]
pub struct AxiSettings {
    /// Cycles from the address of a read to its first beat, beyond the one that it takes at least.
    pub latency: u64,
    /// Random cycles on top of that: up to so many, for each read anew.
    pub spread: u64,
    /// Cycles from the end of a write to its response, beyond the one that it takes at least.
    pub write_latency: u64,
    /// Random cycles on top of that.
    pub write_spread: u64,
    /// Which channel of a write is taken first.
    pub write_order: WriteOrder,
    /// Whether responses and data of different IDs come in any order, data of reads also between each other (AXI4 A5.3).
    pub reorder: bool,
    /// Whether a write is seen in memory at any moment between its last beat and its response, each block of it at another, and in no order but among
    /// blocks that are the same of the same ID (AXI4 A6).
    pub late_writes: bool,
    /// Whether a read looks at memory at any moment between its address and its data, each beat at another.
    pub late_reads: bool,
    /// Whether a write that may be buffered is answered before it can be seen: a response from an intermediate point says no more (AXI4 A4.4).
    pub early_responses: bool,
    /// Bytes of an aligned block that is seen whole or not at all, if one burst has all of it: the single-copy atomicity size (AXI4 A7.1).
    pub atomic: u32,
    /// Reads that may be under way at once; `None`: any number.
    pub most_reads: Option<u32>,
    /// The same for writes.
    pub most_writes: Option<u32>,
    /// How probable it is, in a cycle, that a channel stands still: AW, W, B, AR, R, each for itself.
    pub stalls: [f64; 5],
    /// The same for the CPU's channels, all of them.
    pub cpu_stall: f64,
    /// Cycles by which one of the two channels of the CPU's writes may be behind the other.
    pub cpu_skew: u64,
    /// Accesses of the CPU that may be under way at once: none but of one kind.
    pub cpu_most: u32,
    /// Whether the CPU's addresses are always those of eight bytes.
    pub cpu_aligned: bool,
    /// IDs of writes that the manager promised: below this.
    pub write_ids: u8,
    /// IDs of reads that the manager promised: below this.
    pub read_ids: u8,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for AxiSettings {
    /// The fastest that is legal: no latency, no stalls, all in order and at once. The IDs are those of a card.
    fn default() -> Self {
        Self {
            latency: 0,
            spread: 0,
            write_latency: 0,
            write_spread: 0,
            write_order: WriteOrder::Any,
            reorder: false,
            late_writes: false,
            late_reads: false,
            early_responses: false,
            atomic: 64,
            most_reads: None,
            most_writes: None,
            stalls: [0.0; 5],
            cpu_stall: 0.0,
            cpu_skew: 0,
            cpu_most: 1,
            cpu_aligned: false,
            write_ids: 3,
            read_ids: 1,
            seed: 0,
        }
    }
}

impl AxiSettings {
    /// Any that is legal, from a seed: slow or fast, orderly or not. The latency of reads is left at 0.
    pub fn random(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut few = |least: u32, most: u32| rng.random_bool(0.3).then(|| rng.random_range(least..most));
        let (most_reads, most_writes) = (few(1, 40), few(1, 20));
        let stalls = match rng.random_range(0..3) {
            0 => [0.0; 5],
            1 => [rng.random_range(0.0..0.4); 5],
            // One channel hardly moves, another one is fast.
            _ => std::array::from_fn(|_| [0.0, 0.1, 0.5, 0.8][rng.random_range(0..4)]),
        };
        Self {
            spread: [0, 10, 100, 400][rng.random_range(0..4)],
            write_latency: [0, 0, 20, 150][rng.random_range(0..4)],
            write_spread: [0, 10, 100, 400][rng.random_range(0..4)],
            write_order: match rng.random_range(0..6) {
                0 => WriteOrder::Any,
                1 => WriteOrder::AddressFirst,
                2 => WriteOrder::DataFirst,
                3 => WriteOrder::AllDataFirst,
                _ => WriteOrder::Random,
            },
            reorder: rng.random(),
            late_writes: rng.random_bool(0.8),
            late_reads: rng.random(),
            most_reads,
            most_writes,
            stalls,
            cpu_stall: if rng.random() { rng.random_range(0.0..0.5) } else { 0.0 },
            cpu_skew: [0, 3, 30][rng.random_range(0..3)],
            cpu_most: rng.random_range(1..=4),
            cpu_aligned: rng.random(),
            seed: rng.random(),
            ..Self::default()
        }
    }

    /// # Panics
    /// A number is none with which anything would pass.
    pub(super) fn check(&self) {
        for stall in self.stalls.iter().chain([&self.cpu_stall]) {
            assert!((0.0..1.0).contains(stall), "a stall is {stall}: not from 0 to below 1");
        }
        let some = ![self.most_reads, self.most_writes, Some(self.cpu_most)].contains(&Some(0));
        assert!(some, "most_reads, most_writes or cpu_most is 0: nothing would ever be taken");
        let atomic = self.atomic;
        let known = atomic.is_power_of_two() && (1..=64).contains(&atomic);
        assert!(known, "atomic is {atomic}: not one of 1, 2, 4, ... 64");
    }
}

/// What went through a subordinate. Bytes, and what was not mapped: see [`crate::host::HostStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AxiStats {
    /// Reads.
    pub reads: u64,
    /// Beats of their data that were taken.
    pub read_beats: u64,
    /// Most of them under way at once.
    pub most_reads: u64,
    /// Writes whose address and data have come.
    pub writes: u64,
    /// Responses that were taken.
    pub responses: u64,
    /// Beats of data that came before their address.
    pub early_beats: u64,
    /// Reads with a beat that was an error.
    pub read_errors: u64,
    /// Responses of writes that were errors.
    pub write_errors: u64,
    /// Rules that the manager broke.
    pub violations: u64,
    /// What was done wrong on purpose: reads, writes.
    pub faults: [u64; 2],
}
