// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Registers`]: BAR 0 as plain bytes behind `csr`, which answers after a while.

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

/// An access, as the engine asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub address: u32,
    pub write: bool,
    pub wide: bool,
    pub data: u64,
}

pub struct Registers {
    bytes: HashMap<u32, u8>,
    pub random: SmallRng,
    pub stall: f64,
    /// An answer comes after up to so many cycles more than one.
    pub spread: u64,
    /// No answer is given.
    pub hold: bool,
    /// What was asked for, and when.
    pub log: Vec<(u64, Access)>,
    answer: Option<(u64, u64)>,
    /// When the last answer was taken.
    pub answered_at: u64,
    pub answers: u64,
}

impl Registers {
    pub fn new(seed: u64) -> Self {
        Self {
            bytes: HashMap::new(),
            random: SmallRng::seed_from_u64(seed ^ 0x4e60_0000),
            stall: 0.0,
            spread: 0,
            hold: false,
            log: Vec::new(),
            answer: None,
            answered_at: 0,
            answers: 0,
        }
    }

    /// Bytes, which are made from their address where nobody has written them.
    pub fn get(&self, address: u32, length: usize) -> Vec<u8> {
        let byte = |at: u32| self.bytes.get(&at).copied().unwrap_or((at ^ at >> 8).wrapping_mul(167) as u8);
        (address..address + length as u32).map(byte).collect()
    }

    pub fn set(&mut self, address: u32, bytes: &[u8]) {
        self.bytes.extend((address..).zip(bytes.iter().copied()));
    }

    /// Whether it takes an access: none while a read has no answer.
    pub fn ready(&mut self) -> bool {
        self.answer.is_none() && !(self.stall > 0.0 && self.random.random_bool(self.stall))
    }

    pub fn access(&mut self, cycle: u64, access: Access) {
        let bytes = if access.wide { 8 } else { 4 };
        assert_eq!(access.address % bytes, 0, "cycle {cycle}, csr: {access:x?} is not aligned");
        self.log.push((cycle, access));
        if access.write {
            self.set(access.address, &access.data.to_le_bytes()[..bytes as usize]);
            return;
        }
        // The high half of a narrow answer means nothing.
        let mut answer = self.random.random::<u64>().to_le_bytes();
        answer[..bytes as usize].copy_from_slice(&self.get(access.address, bytes as usize));
        let wait = if self.spread > 0 { self.random.random_range(0..=self.spread) } else { 0 };
        self.answer = Some((cycle + 1 + wait, u64::from_le_bytes(answer)));
    }

    /// The answer on offer.
    pub fn offer(&self, cycle: u64) -> Option<u64> {
        self.answer.filter(|(due, _)| *due <= cycle && !self.hold).map(|(_, data)| data)
    }

    pub fn taken(&mut self, cycle: u64) {
        self.answer = None;
        self.answered_at = cycle;
        self.answers += 1;
    }
}
