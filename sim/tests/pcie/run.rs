// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests do with a [`Rig`]: let it run, judge it, and ask for things.

use rand::Rng as _;

use super::rig::Rig;
use super::setup::{REGIONS, ROOM};

impl Rig {
    pub fn run(&mut self, cycles: u64) {
        (0..cycles).for_each(|_| self.step());
    }

    /// Until it is so, or a panic after so many cycles.
    pub fn until(&mut self, limit: u64, what: &str, is: impl Fn(&Rig) -> bool) {
        let from = self.cycle;
        while !is(self) {
            self.step();
            let (cycle, way) = (self.cycle, self.client.under_way());
            assert!(
                self.cycle - from < limit,
                "cycle {cycle}: not {what} after {limit} cycles; {way} reads under way, {} reads and {} writes wait, {:?}, {:?}",
                self.client.reads.len(),
                self.client.writes.len(),
                self.events,
                self.root.violation()
            );
        }
    }

    /// Until nothing is under way; then memory is as it must be and no rule was broken.
    pub fn finish(&mut self) {
        self.until(2_000_000, "idle", |rig| rig.client.idle() && rig.root.idle() && rig.raise.is_empty());
        let mut quiet = self.rq_ended.len();
        for _ in 0..10 {
            self.run(100);
            self.until(2_000_000, "idle", |rig| rig.root.idle());
            if std::mem::replace(&mut quiet, self.rq_ended.len()) == self.rq_ended.len() {
                break;
            }
        }
        self.check();
    }

    /// Memory is as it must be, and no rule was broken.
    pub fn check(&self) {
        assert_eq!(self.root.violation(), None);
        for (base, bytes) in &self.client.shadow.regions {
            let mut got = vec![0; bytes.len()];
            self.root.host().map().read(*base, &mut got).unwrap();
            if let Some(at) = (0..got.len()).find(|at| got[*at] != bytes[*at]) {
                let place = base + at as u64;
                panic!(
                    "cycle {}: memory at {place:#x} is {:#04x} and not {:#04x}",
                    self.cycle, got[at], bytes[at]
                );
            }
        }
    }

    /// A run of bytes in a page of mapped memory: of any length, short ones and whole pages often.
    pub fn place(&mut self) -> (u64, usize) {
        let random = &mut self.client.random;
        let region = REGIONS[random.random_range(0..REGIONS.len())];
        let page = region + 4096 * random.random_range(0..ROOM as u64 / 4096);
        let length = match random.random_range(0..8) {
            0 => 4096,
            1 | 2 => random.random_range(1..=4096),
            3 => 64 << random.random_range(0..7),
            4 => random.random_range(1..=8),
            _ => random.random_range(1..=300),
        };
        let most = 4096 - length as u64;
        let at = match random.random_range(0..4) {
            0 => most,
            1 => random.random_range(0..=most) / 64 * 64,
            _ => random.random_range(0..=most),
        };
        (page + at, length)
    }

    /// The same, where no read under way touches it.
    pub fn free_place(&mut self) -> (u64, usize) {
        loop {
            let (address, length) = self.place();
            if !self.client.overlaps(address, length) {
                return (address, length);
            }
        }
    }

    /// Asks for bytes.
    pub fn read(&mut self, address: u64, length: usize) {
        self.client.reads.push_back((address, length));
    }

    /// Writes random bytes.
    pub fn write(&mut self, address: u64, length: usize) {
        let mut bytes = vec![0; length];
        self.client.random.fill(&mut bytes[..]);
        self.client.writes.push_back((address, bytes));
    }
}
