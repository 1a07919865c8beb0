// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the receiver anew when it does not align.
//!
//! ```text
//!  aligned --> not for long? --> a pulse --> gtwiz_reset_rx_datapath
//! ```
//!
//! A transceiver that has adapted to noise, because its cable came late or the peer changed, may stay so: then it needs a reset of its receive datapath (PG203, "Resets"; UG578, "RX Reset"). After `2^bits` cycles without
//! alignment comes a pulse of [`PULSE`] cycles, and as long a wait again. With [`WATCHDOG_BITS`] that is 0.8 s, which is long after a receiver has aligned. A cage without a cable has such a reset now and then, which does no harm.
//!
//! **Latency:** the pulse is from a register. **Reset** of the domain: the wait begins anew.

use ferrowire_rtl::{module, Scope, Sig};

/// Of the wait, at 322.27 MHz: 0.83 s.
pub const WATCHDOG_BITS: u32 = 28;
/// Cycles of a pulse; the block takes it in its slower `init_clk`.
pub const PULSE: u64 = 64;

/// See the page's top.
#[module]
pub fn watchdog(m: &Scope, #[param] bits: u32, aligned: Sig) -> Sig {
    let waited = m.reg("waited", bits).reset(0);
    m.set(&waited, aligned.then(ferrowire_rtl::lit(bits, 0), waited + 1));
    let pulse = m.reg("pulse", 1).reset(0);
    // The last cycles of a wait.
    m.set(&pulse, waited.slice(PULSE.ilog2(), bits - PULSE.ilog2()).all());
    pulse
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowire_rtl::{build, Sim};

    const BITS: u32 = 9;

    fn sim() -> Sim {
        let netlist = build("watched", |m| {
            let aligned = m.input("aligned", 1);
            m.output("reset", &watchdog(m, BITS, aligned));
        });
        let mut sim = Sim::new(&netlist.unwrap_or_else(|errors| panic!("{errors}")));
        sim.reset();
        sim
    }

    /// Cycles until the reset is at a level.
    fn until(sim: &mut Sim, level: u64) -> u64 {
        for cycles in 0..10_000 {
            if sim.get("reset") == level {
                return cycles;
            }
            sim.tick();
        }
        panic!("the reset stays");
    }

    #[test]
    fn a_receiver_that_does_not_align_is_reset_again_and_again() {
        let mut sim = sim();
        until(&mut sim, 1);
        for _ in 0..5 {
            assert_eq!(until(&mut sim, 0), PULSE);
            assert_eq!(until(&mut sim, 1), (1 << BITS) - PULSE);
        }
    }

    #[test]
    fn a_receiver_that_aligns_in_time_is_left_alone() {
        let mut sim = sim();
        for _ in 0..20 {
            sim.set("aligned", 0);
            for _ in 0..(1 << BITS) - PULSE - 2 {
                sim.tick();
                assert_eq!(sim.get("reset"), 0);
            }
            sim.set("aligned", 1);
            for _ in 0..3 {
                sim.tick();
                assert_eq!(sim.get("reset"), 0);
            }
        }
    }

    #[test]
    fn an_alignment_ends_the_pulse() {
        let mut sim = sim();
        until(&mut sim, 1);
        sim.set("aligned", 1);
        sim.tick();
        sim.tick();
        assert_eq!(sim.get("reset"), 0);
    }
}
