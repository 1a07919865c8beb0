// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SerialConfig`]: what a board chooses.

/// Why a configuration cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The line is too fast for the clock.
    #[error("baud {baud} needs a clock of at least {} kHz, for a bit is sampled 8 times, and clock_khz is {clock_khz}; lower baud", baud * 8 / 1000)]
    Baud {
        /// Symbols a second.
        baud: u32,
        /// The clock.
        clock_khz: u32,
    },
    /// Sampling would be too slow to be counted.
    #[error("baud {baud} is below 1200, the slowest that is supported; raise baud")]
    Slow {
        /// Symbols a second.
        baud: u32,
    },
    /// The memory has no such size.
    #[error("memory_bytes is {memory_bytes}: a power of two from 4096 to 4194304")]
    Memory {
        /// Bytes.
        memory_bytes: u64,
    },
    /// The memory has no such place.
    #[error("memory_base is {memory_base:#x}: a multiple of memory_bytes below 2^32 is needed, for the serial line has addresses of 32 bits")]
    Base {
        /// Its first address.
        memory_base: u64,
    },
    /// The bus has no such width.
    #[error("beat_bytes is {beat_bytes}: the bridge has a bus of 8 bytes")]
    Beat {
        /// Bytes a beat.
        beat_bytes: u32,
    },
}

/// What a board chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialConfig {
    /// The clock, in kHz.
    pub clock_khz: u32,
    /// Bits a second on the line, start and stop bits among them.
    pub baud: u32,
    /// Bytes of on-board memory.
    pub memory_bytes: u64,
    /// Bus address of its first byte.
    pub memory_base: u64,
    /// Bytes of a beat of AXI4.
    pub beat_bytes: u32,
}

impl Default for SerialConfig {
    fn default() -> Self {
        Self { clock_khz: 50_000, baud: 1_000_000, memory_bytes: 64 << 10, memory_base: 0, beat_bytes: 8 }
    }
}

impl SerialConfig {
    /// Bits of the fraction by which samples are counted.
    pub(crate) const FRACTION: u32 = 20;

    /// Bus address of a board's memory of so many bytes, a multiple of these: no address of zero is one of memory.
    pub fn base_of(memory_bytes: u64) -> u64 {
        memory_bytes.max(1 << 20)
    }

    /// Samples of a bit: 16, or 8 where the clock is too slow.
    pub fn oversampling(&self) -> u32 {
        match u64::from(self.baud) * 16 <= u64::from(self.clock_khz) * 1000 {
            true => 16,
            false => 8,
        }
    }

    /// What is added each cycle to a fraction whose overflow is a sample.
    pub(crate) fn step(&self) -> u64 {
        let clock = u64::from(self.clock_khz) * 1000;
        let samples = u64::from(self.baud) * u64::from(self.oversampling());
        ((samples << Self::FRACTION) + clock / 2) / clock
    }

    /// Cycles of a byte on the line, rounded up.
    pub fn byte_cycles(&self) -> u64 {
        (u64::from(self.clock_khz) * 10_000).div_ceil(u64::from(self.baud))
    }

    /// # Errors
    /// Why it cannot be built.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let &Self { clock_khz, baud, memory_bytes, memory_base, beat_bytes } = self;
        if baud < 1200 {
            return Err(ConfigError::Slow { baud });
        }
        if u64::from(baud) * 8 > u64::from(clock_khz) * 1000 {
            return Err(ConfigError::Baud { baud, clock_khz });
        }
        if !memory_bytes.is_power_of_two() || !(4096..=4 << 20).contains(&memory_bytes) {
            return Err(ConfigError::Memory { memory_bytes });
        }
        if memory_base % memory_bytes != 0 || memory_base >= 1 << 32 {
            return Err(ConfigError::Base { memory_base });
        }
        if beat_bytes != 8 {
            return Err(ConfigError::Beat { beat_bytes });
        }
        Ok(())
    }
}
