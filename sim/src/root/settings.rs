// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RootSettings`]: what a root complex is like, and what it let the card do.

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// How a read is cut into completions. Wherever it is cut, the cut lies at a multiple of the read completion boundary
/// (PCIe 2.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Each completion as long as the largest payload lets it be.
    Largest,
    /// At each multiple of so many bytes, as most chipsets do at 64 or 256. A number that the standard does not allow is
    /// brought to the next one below that it does.
    Fixed(u32),
    /// Anywhere where it may be cut.
    Random,
}

/// A root complex, and the registers of the card's configuration space as software wrote them.
#[derive(Clone, Debug)]
pub struct RootSettings {
    /// Cycles from the last beat of a read to its first completion, beyond the one that it takes at least.
    pub latency: u64,
    /// Random cycles on top of the latency: up to so many, for each read anew.
    pub spread: u64,
    /// Largest payload in bytes, both ways: 128 to 4,096.
    pub max_payload: u32,
    /// Largest read in bytes that the card was told: 128 to 4,096.
    pub max_read_request: u32,
    /// Where completions may be cut: 64 or 128.
    pub read_completion_boundary: u32,
    /// Whether tags have eight bits, or five (PCIe 2.2.6.2).
    pub extended_tags: bool,
    /// Bus, device and function of the card.
    pub requester: u16,
    /// Those of the root complex.
    pub completer: u16,
    /// Where BAR 0 lies.
    pub bar0: u64,
    /// Whether the card may set relaxed ordering.
    pub relaxed_ordering: bool,
    /// Whether the card may set no snoop.
    pub no_snoop: bool,
    /// How reads are cut.
    pub chunk: Split,
    /// Whether all happens as late, and in as strange an order, as the standard lets it. Completions of different reads
    /// come in any order; a read looks at memory at any moment between its arrival and its completion, piece by piece, if `late_reads`
    /// says so; writes wait, and those with relaxed ordering overtake. Without it, each is done when it arrives, in order.
    pub reorder: bool,
    /// Whether, with `reorder`, a read looks at memory only some time after it has come. The standard lets a later write of the CPU or
    /// the card pass it on its way there; few chipsets do.
    pub late_reads: bool,
    /// Reads that may be under way at once: while there are so many, no other is taken. `None`: any number.
    pub non_posted_credits: Option<u32>,
    /// Whether the card's beats must come one a cycle from the first of a packet to its last, as one kind of hard block wants it.
    pub gapless: bool,
    /// How probable it is, in a cycle, that a stream stands still; each stream for itself.
    pub stall: f64,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for RootSettings {
    /// The fastest that is legal and sensible: no latency, no stalls, all in order, 512 bytes both ways.
    fn default() -> Self {
        Self {
            latency: 0,
            spread: 0,
            max_payload: 512,
            max_read_request: 512,
            read_completion_boundary: 64,
            extended_tags: true,
            requester: 0x0100,
            completer: 0x0000,
            bar0: 0xf000_0000,
            relaxed_ordering: false,
            no_snoop: false,
            chunk: Split::Largest,
            reorder: false,
            late_reads: false,
            non_posted_credits: None,
            gapless: false,
            stall: 0.0,
            seed: 0,
        }
    }
}

impl RootSettings {
    /// Any that is legal, from a seed: slow or fast, orderly or not, stingy or generous. The latency is left at 0, and reads look at memory
    /// when they come.
    pub fn random(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut of = |least: u32, doublings: u32| least << rng.random_range(0..=doublings);
        let (max_payload, max_read_request) = (of(128, 3), of(128, 5));
        let read_completion_boundary = of(64, 1);
        let chunk = match rng.random_range(0..3) {
            0 => Split::Largest,
            1 => Split::Fixed(256),
            _ => Split::Random,
        };
        Self {
            spread: [0, 10, 100, 400][rng.random_range(0..4)],
            max_payload,
            max_read_request,
            read_completion_boundary,
            extended_tags: rng.random(),
            relaxed_ordering: rng.random(),
            requester: rng.random(),
            bar0: if rng.random() { 0xf000_0000 } else { 0x38_0000_0000 },
            chunk,
            reorder: rng.random(),
            non_posted_credits: if rng.random_bool(0.3) { Some(rng.random_range(1..40)) } else { None },
            gapless: true,
            stall: if rng.random_bool(0.5) { rng.random_range(0.0..0.4) } else { 0.0 },
            seed: rng.random(),
            ..Self::default()
        }
    }

    /// Number of tags that a requester has.
    pub fn tags(&self) -> usize {
        if self.extended_tags {
            256
        } else {
            32
        }
    }

    /// # Panics
    /// A number is none that the standard knows.
    pub(super) fn check(&self) {
        for (what, bytes) in [("max_payload", self.max_payload), ("max_read_request", self.max_read_request)]
        {
            let known = bytes.is_power_of_two() && (128..=4096).contains(&bytes);
            assert!(known, "{what} is {bytes}: not one of 128, 256, ... 4096");
        }
        let rcb = self.read_completion_boundary;
        assert!(rcb == 64 || rcb == 128, "read_completion_boundary is {rcb}: neither 64 nor 128");
        assert!(self.non_posted_credits != Some(0), "non_posted_credits is 0: no read would ever be taken");
        assert!((0.0..1.0).contains(&self.stall), "stall is {}: not from 0 to below 1", self.stall);
    }
}

/// What went through a root complex. Bytes of reads and writes, and those that were refused: see [`crate::host::HostStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootStats {
    /// Reads of the card.
    pub reads: u64,
    /// Bytes that they asked for.
    pub read_bytes: u64,
    /// Most of them under way at once.
    pub most_reads: u64,
    /// Completions that were sent, wrong ones included.
    pub completions: u64,
    /// Cycles in which a beat of them was taken.
    pub rc_beats: u64,
    /// Writes of the card, interrupts included.
    pub writes: u64,
    /// Those among them with relaxed ordering.
    pub relaxed: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Reads of the CPU that were answered.
    pub cpu_reads: u64,
    /// Rules that the card broke.
    pub violations: u64,
    /// What was done wrong on purpose, as [`super::FaultKind`] counts.
    pub faults: [u64; super::FaultKind::COUNT],
}
