// SPDX-License-Identifier: MIT OR Apache-2.0
//! A serial line in plain Rust, for simulations: levels from bytes and bytes from levels, by time alone.

use std::collections::VecDeque;

/// Drives a pin, of which each cycle asks for the level.
pub struct Driver {
    /// Cycles of a bit.
    bit: f64,
    levels: VecDeque<bool>,
    /// When the level that is driven ends.
    until: f64,
    level: bool,
    now: f64,
}

impl Driver {
    /// One that is high. `bit`: cycles of a bit.
    pub fn new(bit: f64) -> Self {
        Self { bit, levels: VecDeque::new(), until: 0.0, level: true, now: 0.0 }
    }

    /// Bytes to be sent.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.levels.push_back(false);
            self.levels.extend((0..8).map(|i| byte >> i & 1 == 1));
            self.levels.push_back(true);
        }
    }

    /// Bits of one level.
    pub fn push_level(&mut self, level: bool, bits: usize) {
        self.levels.extend(std::iter::repeat_n(level, bits));
    }

    /// Bits that have not been sent.
    pub fn waiting(&self) -> usize {
        self.levels.len()
    }

    /// Whether all has been sent.
    pub fn idle(&self) -> bool {
        self.levels.is_empty() && self.now >= self.until
    }

    /// The level in the next cycle.
    pub fn level(&mut self) -> bool {
        if self.now >= self.until {
            match self.levels.pop_front() {
                Some(level) => {
                    self.level = level;
                    // Bits begin where they should, and not at whole cycles.
                    self.until = self.until.max(self.now - 1.0) + self.bit;
                }
                None => self.level = true,
            }
        }
        self.now += 1.0;
        self.level
    }
}

/// Understands a pin.
pub struct Reader {
    bit: f64,
    now: f64,
    /// When the byte's start bit began, and the bits so far.
    start: Option<(f64, Vec<bool>)>,
    /// Bytes that came.
    pub bytes: Vec<u8>,
    /// Of these with a wrong start or stop bit.
    pub broken: u64,
}

impl Reader {
    /// One of a line that is high. `bit`: cycles of a bit.
    pub fn new(bit: f64) -> Self {
        Self { bit, now: 0.0, start: None, bytes: Vec::new(), broken: 0 }
    }

    /// The level of the next cycle.
    pub fn take(&mut self, level: bool) {
        self.now += 1.0;
        match &mut self.start {
            None if !level => self.start = Some((self.now, Vec::new())),
            None => {}
            Some((start, bits)) => {
                if self.now >= *start + (bits.len() as f64 + 0.5) * self.bit {
                    bits.push(level);
                }
                if bits.len() == 10 {
                    self.broken += u64::from(bits[0] || !bits[9]);
                    self.bytes.push((0..8).fold(0, |byte, i| byte | u8::from(bits[i + 1]) << i));
                    self.start = None;
                }
            }
        }
    }
}
