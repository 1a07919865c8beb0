// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`FlowControl`]: whether the other end of the wire may make the card stand still.

use ferrowire_spec::csr::{flow_control as csr, identity};
use ferrowire_spec::wire::pause::QUANTUM_BITS;
use ferrowire_spec::Field;

use crate::bus::{Bus, BusError};
use crate::context::Context;
use crate::error::{Error, Result};

/// Which frames make the card stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlowMode {
    /// None: they are counted alone.
    #[default]
    Off,
    /// PAUSE (IEEE 802.3 annex 31B): nothing is sent.
    Pause,
    /// PFC (IEEE 802.1Qbb, 802.3 annex 31D), for the priorities whose bit is set: nothing of these is sent. A packet's priority is that of its
    /// VLAN tag, [`AddressVector::vlan`](crate::AddressVector::vlan), bits 15:13; without a tag it is 0.
    ///
    /// Set the bits of those priorities alone that the network makes lossless. They share a part of the send buffer, so one that stands
    /// still does not hold up packets of others, but may hold up lossless ones.
    Pfc {
        /// Bit `n`: priority `n`.
        priorities: u8,
    },
}

/// Flow control of the link, towards the card: it obeys the other end, and never asks it to wait.
///
/// [`TrafficCounter::RxPause`](crate::TrafficCounter::RxPause) and [`RxPfc`](crate::TrafficCounter::RxPfc) count what came,
/// [`PauseDuration`](crate::TrafficCounter::PauseDuration) the cycles in which something stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowControl {
    /// Which frames are obeyed.
    pub mode: FlowMode,
    /// The rate of the wire in Mb/s, from which follows how long a pause is: it is told in times of 512 bits. 0: the rate of the card's
    /// datapath.
    pub line_rate_mbps: u32,
}

const PAUSE: Field = crate::csr::field(&csr::FLOW_MODE, "pause");
const PFC: Field = crate::csr::field(&csr::FLOW_MODE, "pfc");
const CYCLES: Field = crate::csr::field(&csr::QUANTUM, "cycles");
const PAUSED: Field = crate::csr::field(&csr::PAUSED, "priorities");

/// Cycles of a quantum, times 256, rounded up.
fn quantum(clock_khz: u32, line_rate_mbps: u32) -> u64 {
    (u64::from(QUANTUM_BITS) * 256 * u64::from(clock_khz)).div_ceil(1000 * u64::from(line_rate_mbps))
}

impl Context {
    /// Sets flow control of the link. What the card stood still for and is not to obey any more is let go. The priorities of PFC are to be
    /// changed only while nothing is sent: packets may overtake each other otherwise.
    ///
    /// # Errors
    /// A line rate that is higher than the datapath's, or so low that its quantum does not fit the register: nothing was written. The bus
    /// failed.
    pub fn set_flow_control(&self, flow: &FlowControl) -> Result<()> {
        let mut word = 0;
        match flow.mode {
            FlowMode::Off => {}
            FlowMode::Pause => word |= crate::csr::put(&PAUSE, 1),
            FlowMode::Pfc { priorities } => word |= crate::csr::put(&PFC, priorities.into()),
        }
        let clock_khz =
            self.device.bus.with(|bus| bus.csr_read32(identity::BLOCK.address(&identity::CLOCK_KHZ)))?;
        let cycles = match flow.line_rate_mbps {
            0 => 0,
            rate => quantum(clock_khz, rate),
        };
        if flow.line_rate_mbps != 0 && !(256..=CYCLES.max() as u64).contains(&cycles) {
            return Err(Error::Attribute {
                operation: "set flow control",
                attribute: "line_rate_mbps",
                value: flow.line_rate_mbps.into(),
                fix: "take the rate of the wire, or 0 for that of the datapath".into(),
            });
        }
        let write = |bus: &mut dyn Bus| -> std::result::Result<(), BusError> {
            bus.csr_write32(csr::BLOCK.address(&csr::QUANTUM), crate::csr::put(&CYCLES, cycles as u32))?;
            bus.csr_write32(csr::BLOCK.address(&csr::FLOW_MODE), word)
        };
        Ok(self.device.bus.with(write)?)
    }

    /// The priorities of which nothing is sent now, a bit each.
    ///
    /// # Errors
    /// The bus failed.
    pub fn paused_priorities(&self) -> Result<u8> {
        let word = self.device.bus.with(|bus| bus.csr_read32(csr::BLOCK.address(&csr::PAUSED)))?;
        Ok(crate::csr::get(&PAUSED, word) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_is_512_bits_of_the_wire() {
        // 5.12 ns at 4 ns a cycle, 512 ns at 16 ns a cycle.
        assert_eq!(quantum(250_000, 100_000), (1.28f64 * 256.0).ceil() as u64);
        assert_eq!(quantum(62_500, 1000), 32 * 256);
        assert!(quantum(62_500, 10) <= CYCLES.max() as u64);
    }
}
