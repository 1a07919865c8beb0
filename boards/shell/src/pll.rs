// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of an ECP5's PLL (FPGA-TN-02200; limits: FPGA-DS-02012, table of sysCLOCK PLL timing).
//!
//! ```text
//!  oscillator --> / refclk --> phase detector --> VCO --+--> / wire --> 125 MHz ---+
//!                                   ^                   +--> / core --> the core's |
//!                                   |                   +--> / twice --> twice that, where DRAM wants it
//!                                   +--- / feedback <------------------------------+
//! ```
//!
//! Where 125 MHz is no multiple of what the phase detector takes, the feedback comes of an output of its own, from the VCO through `own`.

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
    /// From the VCO to an output for the feedback alone, `CLKOS2_DIV`; without it the feedback is 125 MHz.
    pub own: Option<u32>,
    /// From the VCO to 125 MHz, `CLKOP_DIV`.
    pub wire: u32,
    /// From the VCO to the core's clock, `CLKOS_DIV`.
    pub core: u32,
    /// From the VCO to twice the core's clock, `CLKOS3_DIV`.
    pub twice: Option<u32>,
}

impl Pll {
    /// Settings that make exactly these clocks; of several those without an output for the feedback, then those with the fastest phase detector, then with
    /// the fastest VCO. `with_twice`: twice the core's clock, too.
    pub fn find(khz: u32, core_khz: u32, with_twice: bool) -> Option<Pll> {
        let divides = |whole: u32, part: u32| (whole % part == 0).then(|| whole / part);
        let divider = |whole: u32, part: u32| divides(whole, part).filter(|n| (1..=128).contains(n));
        let mut found = None;
        for refclk in (1..=128).rev().filter(|n| khz % n == 0 && DETECTOR.contains(&(khz / n))) {
            let detector = khz / refclk;
            for wire in (1..=128).filter(|n| VCO.contains(&(WIRE_KHZ * n))) {
                let vco = WIRE_KHZ * wire;
                let Some(core) = divider(vco, core_khz) else { continue };
                let twice = with_twice.then_some(core / 2);
                if with_twice && core % 2 == 1 {
                    continue;
                }
                let feedback =
                    divides(WIRE_KHZ, detector).filter(|n| (1..=80).contains(n)).map(|n| (n, None));
                let own = || divider(vco, detector).map(|own| (1, Some(own)));
                let Some((feedback, own)) = feedback.or_else(own) else { continue };
                let pll = Pll { khz, refclk, feedback, own, wire, core, twice };
                if own.is_none() || found.is_none_or(|found: Pll| found.own.is_some()) {
                    found = Some(pll);
                }
            }
        }
        found
    }

    /// Frequency of the VCO, in kHz.
    fn vco_khz(&self) -> u32 {
        self.khz / self.refclk * self.feedback * self.own.unwrap_or(self.wire)
    }

    /// Frequency of the core's clock, in kHz.
    pub fn core_khz(&self) -> u32 {
        self.vco_khz() / self.core
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_exact_and_within_what_the_device_takes() {
        for khz in [25_000, 30_000, 50_000, 60_000, 100_000, 125_000] {
            for core_khz in [25_000, 31_250, 50_000, 62_500, 75_000] {
                let pll = Pll::find(khz, core_khz, false).unwrap_or_else(|| panic!("{core_khz} of {khz}"));
                let detector = khz / pll.refclk;
                assert_eq!(detector * pll.refclk, khz);
                assert!(DETECTOR.contains(&detector), "{pll:?}");
                // Both ways to the phase detector agree, and the clocks are what is wanted.
                let back = pll.own.map_or(WIRE_KHZ, |own| pll.vco_khz() / own);
                assert_eq!(detector * pll.feedback, back, "{pll:?}");
                assert_eq!(pll.own.map_or(0, |own| pll.vco_khz() % own), 0, "{pll:?}");
                assert!(VCO.contains(&pll.vco_khz()), "{pll:?}");
                assert_eq!(pll.vco_khz(), WIRE_KHZ * pll.wire, "{pll:?}");
                assert_eq!(pll.vco_khz(), core_khz * pll.core, "{pll:?}");
                assert_eq!(pll.core_khz(), core_khz);
            }
        }
        // 125 MHz would need a divider of 6, and the phase detector is too slow then; 750 MHz are 25 times 30.
        let own = Pll { khz: 30_000, refclk: 1, feedback: 1, own: Some(25), wire: 6, core: 15, twice: None };
        assert_eq!(Pll::find(30_000, 50_000, false), Some(own));
        assert_eq!(Pll::find(100_000, 50_000, false).unwrap().own, None);
        assert_eq!(Pll::find(100_000, 51_000, false), None);
        // 100 MHz and 50 want a VCO of 500, which 30 give at the slowest that the phase detector takes.
        let slow =
            Pll { khz: 30_000, refclk: 3, feedback: 1, own: Some(50), wire: 4, core: 10, twice: Some(5) };
        assert_eq!(Pll::find(30_000, 50_000, true), Some(slow));
        assert_eq!(
            Pll::find(100_000, 50_000, true).map(|pll| (pll.own, pll.core, pll.twice)),
            Some((None, 10, Some(5)))
        );
    }
}
