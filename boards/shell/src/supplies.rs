// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pulses for the regulators of an FPGA's own supplies.
//!
//! ```text
//!  count of 1,024 cycles --< level ?--> pulses of each, to a filter and its regulator
//!  count of milliseconds ------------> enable, of all
//! ```
//!
//! A period is 1,024 cycles, some 50 kHz, three orders of magnitude above what the filters let through. What is pulsed settles first: a regulator that
//! began before would give its highest voltage. From a reset on, all of it begins anew.

use ferrowire_boards::Supplies;
use ferrowire_rtl::{cat, clog2, lit, Scope, Sig};

/// Bits of the count.
const BITS: u32 = 10;

/// For how many cycles of a period the wire is high: the voltage falls evenly from the one of a low wire to the one of a high wire.
fn level(supplies: &Supplies, mv: u32) -> u64 {
    let (below, whole) = (u64::from(supplies.low_mv - mv), u64::from(supplies.low_mv - supplies.high_mv));
    // The nearest: to either side of it the voltage is off by half a step, which is 1.3 mV of 2.6 V.
    ((below << BITS) + whole / 2) / whole
}

/// Enable, and the pulses of each.
pub(crate) fn supplies(m: &Scope, clock_khz: u32, supplies: &Supplies) -> (Sig, Sig) {
    let count = m.reg("count", BITS).reset(0);
    m.set(&count, count + 1);
    let pulses: Vec<Sig> = supplies
        .each
        .iter()
        .map(|supply| match level(supplies, supply.mv) {
            level if level >> BITS == 1 => lit(1, 1),
            level => count.lt(lit(BITS, level)),
        })
        .collect();
    let pulses = m.delay("pulses", &cat(&pulses));
    let cycles = u64::from(clock_khz) * u64::from(supplies.settle_ms);
    let left = m.reg("settling", clog2(cycles + 1)).reset(cycles);
    let settled = left.eq(0);
    m.when(!settled, |m| m.set(&left, left - 1));
    (m.delay("settled", &settled), pulses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_boards::Board;
    use ferrowire_rtl::{build, Sim};

    #[test]
    fn the_mean_of_the_pulses_gives_the_voltage_and_nothing_begins_before_they_have_settled() {
        let mut own = Board::named("butterstick").unwrap().supplies.unwrap();
        own.settle_ms = 3;
        own.each[1].mv = own.high_mv;
        own.each[2].mv = own.low_mv;
        let netlist = build("supplies", |m| {
            let (enable, pulses) = supplies(m, 1000, &own);
            m.output("enable", &enable);
            m.output("pulses", &pulses);
        });
        let mut sim = Sim::new(&netlist.unwrap());
        sim.reset();
        let mut begins = None;
        let mut high = [0u32; 3];
        for cycle in 0..8 * 1024 {
            if sim.get("enable") == 1 && begins.is_none() {
                begins = Some(cycle);
            }
            let pulses = sim.get("pulses");
            (0..3).for_each(|i| high[i] += u32::from(pulses >> i & 1 == 1));
            sim.tick();
        }
        // 3 ms of 1 MHz, and the register.
        assert!((3000..3003).contains(&begins.unwrap()), "{begins:?}");
        let share = |high: u32| f64::from(high) / 8192.0;
        let volts = |high: u32| 3.547 - share(high) * (3.547 - 0.946);
        assert!((volts(high[0]) - 3.3).abs() < 0.003, "{}", volts(high[0]));
        assert!(share(high[1]) > 0.99 && share(high[2]) < 0.001, "{high:?}");
    }
}
