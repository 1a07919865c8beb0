// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of an ECP5's PLL (FPGA-TN-02200; limits: FPGA-DS-02012, table of sysCLOCK PLL timing).
//!
//! ```text
//!  oscillator --> / refclk --> phase detector --> VCO --+--> / wire --> 125 MHz ---+
//!                                   ^                   +--> / core --> the core's |
//!                                   +--- / feedback <------------------------------+
//! ```

/// The clock of RGMII at 1 Gb/s.
pub const WIRE_KHZ: u32 = 125_000;

/// What the phase detector takes, in kHz.
const DETECTOR: std::ops::RangeInclusive<u32> = 10_000..=400_000;
/// What the VCO gives.
const VCO: std::ops::RangeInclusive<u32> = 400_000..=800_000;

/// Dividers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pll {
    /// The oscillator, in kHz.
    pub khz: u32,
    /// Of the oscillator, `CLKI_DIV`.
    pub refclk: u32,
    /// Of the feedback, `CLKFB_DIV`.
    pub feedback: u32,
    /// From the VCO to 125 MHz, `CLKOP_DIV`.
    pub wire: u32,
    /// From the VCO to the core's clock, `CLKOS_DIV`.
    pub core: u32,
}

impl Pll {
    /// Settings that make exactly these clocks; of several those with the fastest phase detector, then with the fastest VCO.
    pub fn find(khz: u32, core_khz: u32) -> Option<Pll> {
        let mut found = None;
        for refclk in (1..=128).rev().filter(|n| khz % n == 0 && DETECTOR.contains(&(khz / n))) {
            let detector = khz / refclk;
            let feedback = WIRE_KHZ / detector;
            if WIRE_KHZ % detector != 0 || !(1..=80).contains(&feedback) {
                continue;
            }
            for wire in (1..=128).filter(|n| VCO.contains(&(WIRE_KHZ * n))) {
                let vco = WIRE_KHZ * wire;
                if vco % core_khz == 0 && (1..=128).contains(&(vco / core_khz)) {
                    found = Some(Pll { khz, refclk, feedback, wire, core: vco / core_khz });
                }
            }
        }
        found
    }

    /// Frequency of the core's clock, in kHz.
    pub fn core_khz(&self) -> u32 {
        self.khz / self.refclk * self.feedback * self.wire / self.core
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_exact_and_within_what_the_device_takes() {
        for khz in [25_000, 50_000, 100_000, 125_000] {
            for core_khz in [25_000, 31_250, 50_000, 62_500, 75_000] {
                let pll = Pll::find(khz, core_khz).unwrap_or_else(|| panic!("{core_khz} of {khz}"));
                let detector = khz / pll.refclk;
                assert_eq!(detector * pll.refclk, khz);
                assert!(DETECTOR.contains(&detector), "{pll:?}");
                assert_eq!(detector * pll.feedback, WIRE_KHZ, "{pll:?}");
                assert!(VCO.contains(&(WIRE_KHZ * pll.wire)), "{pll:?}");
                assert_eq!(WIRE_KHZ * pll.wire, core_khz * pll.core, "{pll:?}");
                assert_eq!(pll.core_khz(), core_khz);
            }
        }
        // Its divider would have to be 6, and the phase detector is too slow then.
        assert_eq!(Pll::find(30_000, 50_000), None);
        assert_eq!(Pll::find(100_000, 51_000), None);
    }
}
