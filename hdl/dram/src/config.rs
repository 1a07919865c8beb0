// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`DramConfig`]: the device, its window on the bus, and its times in cycles.

use crate::rows::{Device, Times};

/// Words of a burst, which is all that is ever read or written at once.
pub const BURST: u32 = 8;
/// Bits of a word: one device with two bytes.
pub const WORD_BITS: u32 = 16;
/// Bits of a column's number: a row has 1,024 words.
pub const COLUMN_BITS: u32 = 10;
/// Bits of a bank's number.
pub const BANK_BITS: u32 = 3;
/// Bytes of a burst.
pub const LINE_BYTES: u32 = BURST * WORD_BITS / 8;
/// From WRITE to its first word, in cycles: what a device takes with its DLL off (JESD79-3F 4.4).
pub const CWL: u32 = 6;
/// From READ to its first word, likewise; with the DLL off the word comes one cycle earlier, and by up to 10 ns later.
pub const CL: u32 = 6;

/// Why no such controller can be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Too fast or too slow for a device whose DLL is off.
    #[error("clock_khz = {0}: must be from 25000 to 62500, for the memory's clock is the core's, and each bit is sampled twice or more")]
    Clock(u32),
    /// Too fast to catch what a device of single data rate sends at the edge that is the right one, or too slow for its refreshes.
    #[error("clock_khz = {0}: must be from 25000 to 62500, for the memory's clock is the core's, and a word is caught a cycle behind the edge of the device at which it begins")]
    SdrClock(u32),
    /// The device has no such rows.
    #[error("row_bits = {0}: must be from 12 to 16")]
    Rows(u32),
    /// Likewise, of single data rate: more would have to be refreshed twice as often.
    #[error("row_bits = {0}: must be 11 or 12")]
    SdrRows(u32),
    /// The window lies nowhere.
    #[error(
        "memory_base = {memory_base:#x}: must be a multiple of memory_bytes, which are {memory_bytes:#x}"
    )]
    Base {
        /// What was wanted.
        memory_base: u64,
        /// Of how many bytes.
        memory_bytes: u64,
    },
    /// The window is larger than the device.
    #[error("memory_bytes = {memory_bytes}: must be a power of two from 4096 to the device's {device}")]
    Window {
        /// What was wanted.
        memory_bytes: u64,
        /// What there is.
        device: u64,
    },
}

/// A DDR3 device of 16 bits, and what of it is on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DramConfig {
    /// The core's clock, which is the memory's too.
    pub clock_khz: u32,
    /// Bits of a row's number.
    pub row_bits: u32,
    /// Bytes on the bus, from the device's first.
    pub memory_bytes: u64,
    /// Bus address of the first: a multiple of them.
    pub memory_base: u64,
    /// How long RESET# is held behind the FPGA's reset, in microseconds (JESD79-3F 3.3.1: 200).
    pub reset_us: u32,
    /// How long CKE stays low behind it (500).
    pub cke_us: u32,
}

impl DramConfig {
    /// A device with so many rows, of which so much is on the bus, at an address that is as much.
    pub fn new(clock_khz: u32, row_bits: u32, memory_bytes: u64) -> Self {
        Self { clock_khz, row_bits, memory_bytes, memory_base: memory_bytes, reset_us: 200, cke_us: 500 }
    }

    /// Bits of a row's number, of a device with so many bytes.
    pub fn row_bits_of(device_bytes: u64) -> u32 {
        (device_bytes >> (BANK_BITS + COLUMN_BITS + 1)).trailing_zeros()
    }

    /// Bytes of the device.
    pub fn device_bytes(&self) -> u64 {
        1 << (self.row_bits + BANK_BITS + COLUMN_BITS + 1)
    }

    /// # Errors
    /// Why it cannot be built.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(25_000..=62_500).contains(&self.clock_khz) {
            return Err(ConfigError::Clock(self.clock_khz));
        }
        if !(12..=16).contains(&self.row_bits) {
            return Err(ConfigError::Rows(self.row_bits));
        }
        window(self.memory_bytes, self.memory_base, self.device_bytes())
    }

    /// So many microseconds, in whole cycles, and a hundredth more: the oscillator may be too fast.
    pub(crate) fn microseconds(&self, us: u32) -> u32 {
        microseconds(self.clock_khz, us)
    }

    /// The device (JESD79-3F, timing parameters by speed bin: the slowest of the usual bins).
    pub(crate) fn device(&self) -> Device {
        let times = self.times();
        Device {
            bank_bits: BANK_BITS,
            row_bits: self.row_bits,
            column_bits: COLUMN_BITS,
            burst: BURST,
            times,
        }
    }

    /// Its times in cycles.
    pub(crate) fn times(&self) -> Times {
        let ns = |tenths: u64| cycles(self.clock_khz, tenths * 100);
        Times {
            rcd: ns(150),
            rp: ns(150),
            ras: ns(380),
            rc: ns(530),
            // The longest row refresh that a device of these sizes has: 8 Gbit.
            rfc: ns(3500),
            written: CWL + CCD,
            wr: ns(150).max(4),
            wtr: ns(75).max(4),
            rtp: ns(75).max(4),
            rtw: RTW,
            ccd: CCD,
            rrd: ns(100).max(4),
            // A hundredth sooner than 7.8 us, for a slow oscillator.
            refi: u32::try_from(7_720 * u64::from(self.clock_khz) / 1_000_000).expect("validated"),
        }
    }
}

/// So many picoseconds, in whole cycles.
pub(crate) fn cycles(clock_khz: u32, ps: u64) -> u32 {
    u32::try_from((ps * u64::from(clock_khz)).div_ceil(1_000_000_000)).expect("validated")
}

/// So many microseconds, in whole cycles, and a hundredth more: the oscillator may be too fast.
pub(crate) fn microseconds(clock_khz: u32, us: u32) -> u32 {
    cycles(clock_khz, u64::from(us) * 1_010_000)
}

/// Whether a window on the bus is within a device.
pub(crate) fn window(memory_bytes: u64, memory_base: u64, device: u64) -> Result<(), ConfigError> {
    if !memory_bytes.is_power_of_two() || !(4096..=device).contains(&memory_bytes) {
        return Err(ConfigError::Window { memory_bytes, device });
    }
    if memory_base % memory_bytes != 0 {
        return Err(ConfigError::Base { memory_base, memory_bytes });
    }
    Ok(())
}

/// A burst's length on the wires, and from burst to burst.
pub(crate) const CCD: u32 = BURST / 2;
/// READ to WRITE: behind the last word read two cycles pass in which nobody drives, the FPGA's own time to turn round, two cycles early, included.
const RTW: u32 = CL + CCD;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_refreshes_down() {
        let times = DramConfig::new(50_000, 15, 4 << 20).times();
        assert_eq!((times.rcd, times.rp, times.ras, times.rc, times.rfc), (1, 1, 2, 3, 18));
        assert_eq!((times.wr, times.rrd, times.refi), (4, 4, 386));
        assert_eq!(DramConfig::new(50_000, 15, 4 << 20).microseconds(200), 10_100);
    }

    #[test]
    fn what_cannot_be_built_is_refused_with_what_can() {
        let good = DramConfig::new(50_000, 15, 4 << 20);
        assert_eq!(good.validate(), Ok(()));
        assert_eq!(good.device_bytes(), 512 << 20);
        assert_eq!(DramConfig::row_bits_of(512 << 20), 15);
        let wrong = |change: &dyn Fn(&mut DramConfig)| {
            let mut config = good.clone();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert!(wrong(&|c| c.clock_khz = 100_000).starts_with("clock_khz = 100000: must be from 25000"));
        assert_eq!(wrong(&|c| c.row_bits = 17), "row_bits = 17: must be from 12 to 16");
        assert!(wrong(&|c| c.memory_bytes = 1 << 30).ends_with("the device's 536870912"));
        assert!(wrong(&|c| c.memory_base += 4096).starts_with("memory_base = 0x401000: must be a multiple"));
        assert!(wrong(&|c| c.memory_bytes = 5000).starts_with("memory_bytes = 5000"));
    }
}
