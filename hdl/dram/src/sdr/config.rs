// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`SdrConfig`]: the device, its window on the bus, and its times in cycles.

use crate::config::{cycles, microseconds, window, ConfigError};
use crate::rows::{Device, Times};

/// Words of a burst, which is all that is ever read or written at once.
pub const BURST: u32 = 2;
/// Bits of a word: one device with four bytes.
pub const WORD_BITS: u32 = 32;
/// Bits of a column's number: a row has 256 words.
const COLUMN_BITS: u32 = 8;
/// Bits of a bank's number.
pub const BANK_BITS: u32 = 2;
/// Bytes of a burst.
pub const LINE_BYTES: u32 = BURST * WORD_BITS / 8;
/// From READ to the edge that has its first word, in cycles.
pub(super) const CL: u32 = 2;
/// READ to WRITE: behind the last word read two cycles pass in which nobody drives, the FPGA's own time to turn round included.
const RTW: u32 = CL + BURST + 2;

/// A device of single data rate with 32 bits, and what of it is on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SdrConfig {
    /// The core's clock, which is the memory's too.
    pub clock_khz: u32,
    /// Bits of a row's number.
    pub row_bits: u32,
    /// Bytes on the bus, from the device's first.
    pub memory_bytes: u64,
    /// Bus address of the first: a multiple of them.
    pub memory_base: u64,
    /// How long the device has nothing but its clock behind the FPGA's reset, in microseconds: 200.
    pub start_us: u32,
}

impl SdrConfig {
    /// A device with so many rows, of which so much is on the bus, at an address that is as much.
    pub fn new(clock_khz: u32, row_bits: u32, memory_bytes: u64) -> Self {
        Self { clock_khz, row_bits, memory_bytes, memory_base: memory_bytes, start_us: 200 }
    }

    /// Bits of a row's number, of a device with so many bytes.
    pub fn row_bits_of(device_bytes: u64) -> u32 {
        (device_bytes >> (BANK_BITS + COLUMN_BITS + 2)).trailing_zeros()
    }

    /// Bytes of the device.
    pub fn device_bytes(&self) -> u64 {
        1 << (self.row_bits + BANK_BITS + COLUMN_BITS + 2)
    }

    /// # Errors
    /// Why it cannot be built.
    pub fn validate(&self) -> Result<(), ConfigError> {
        // A word is caught a whole cycle behind the device's edge: access, some 8 ns, and both ways are a cycle at most.
        if !(25_000..=62_500).contains(&self.clock_khz) {
            return Err(ConfigError::SdrClock(self.clock_khz));
        }
        if !(11..=12).contains(&self.row_bits) {
            return Err(ConfigError::SdrRows(self.row_bits));
        }
        window(self.memory_bytes, self.memory_base, self.device_bytes())
    }

    /// So many microseconds, in whole cycles, and a hundredth more: the oscillator may be too fast.
    pub(super) fn microseconds(&self, us: u32) -> u32 {
        microseconds(self.clock_khz, us)
    }

    /// The device (JEDEC 21-C 3.11.5; times are those of the slowest of the usual bins, for 143 MHz, and of whatever is longer in the others).
    pub(crate) fn device(&self) -> Device {
        let ns = |ns: u64| cycles(self.clock_khz, ns * 1000);
        let times = Times {
            rcd: ns(21),
            rp: ns(21),
            ras: ns(50),
            rc: ns(71),
            rfc: ns(80),
            written: BURST - 1,
            wr: 2,
            wtr: 1,
            rtp: BURST,
            rtw: RTW,
            ccd: BURST,
            rrd: ns(21),
            // 4,096 in 64 ms, and a hundredth sooner for a slow oscillator.
            refi: u32::try_from(15_460 * u64::from(self.clock_khz) / 1_000_000).expect("validated"),
        };
        Device {
            bank_bits: BANK_BITS,
            row_bits: self.row_bits,
            column_bits: COLUMN_BITS,
            burst: BURST,
            times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_and_refreshes_down() {
        let good = SdrConfig::new(50_000, 11, 4 << 20);
        let times = good.device().times;
        assert_eq!((times.rcd, times.rp, times.ras, times.rc, times.rfc), (2, 2, 3, 4, 4));
        assert_eq!((times.wr, times.rrd, times.refi), (2, 2, 773));
        assert_eq!((good.microseconds(200), good.device_bytes()), (10_100, 8 << 20));
        assert_eq!(SdrConfig::row_bits_of(8 << 20), 11);
    }

    #[test]
    fn what_cannot_be_built_is_refused_with_what_can() {
        let good = SdrConfig::new(50_000, 11, 4 << 20);
        assert_eq!(good.validate(), Ok(()));
        let wrong = |change: &dyn Fn(&mut SdrConfig)| {
            let mut config = good.clone();
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert!(wrong(&|c| c.clock_khz = 100_000).starts_with("clock_khz = 100000: must be from 25000"));
        assert_eq!(wrong(&|c| c.row_bits = 13), "row_bits = 13: must be 11 or 12");
        assert!(wrong(&|c| c.memory_bytes = 16 << 20).ends_with("the device's 8388608"));
        assert!(wrong(&|c| c.memory_base += 4096).starts_with("memory_base = 0x401000: must be a multiple"));
    }
}
