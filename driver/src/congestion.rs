// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`CongestionControl`]: who is told of congestion, and how far who is told slows down.

use ferrowire_spec::csr::congestion as csr;
use ferrowire_spec::{Field, Register};

use crate::bus::{Bus, BusError};
use crate::context::Context;
use crate::error::{Error, Result};

/// The parameters of congestion control, DCQCN (Zhu et al., SIGCOMM 2015): one set for all queue pairs of a card.
///
/// The default holds the published values and no line rate: a card tells peers whose packets come marked, and is not slowed
/// down itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CongestionControl {
    /// Shortest time between two CNPs of a queue pair, in microseconds.
    pub cnp_interval_us: u16,
    /// The rate from which queue pairs are slowed down, in Mb/s: that of the wire. 0: they are not.
    pub line_rate_mbps: u32,
    /// The least rate of a queue pair, in Mb/s.
    pub min_rate_mbps: u32,
    /// The estimate of congestion, alpha, moves by 2^-`gain_shift` of the way.
    pub gain_shift: u8,
    /// Microseconds without a CNP after which alpha decays.
    pub alpha_us: u16,
    /// Microseconds without a CNP after which the rate rises.
    pub rate_us: u16,
    /// Bytes sent after which the rate rises; 0: it rises by time alone.
    pub byte_counter: u32,
    /// Rises of a kind that only recover what was lost.
    pub recovery_steps: u8,
    /// By how much the rate to be reached rises behind these, in Mb/s.
    pub additive_mbps: u16,
    /// And when both kinds are behind them, in Mb/s.
    pub hyper_mbps: u16,
}

/// Where a parameter lies: its name here, its register and its field there.
type Place = (&'static str, &'static Register, Field);

/// In the order of [`CongestionControl::values`]; the fields of a register stand together.
const PLACES: [Place; 10] = [
    ("cnp_interval_us", &csr::NOTIFY, crate::csr::field(&csr::NOTIFY, "interval_us")),
    ("line_rate_mbps", &csr::LINE_RATE, crate::csr::field(&csr::LINE_RATE, "mbps")),
    ("min_rate_mbps", &csr::MIN_RATE, crate::csr::field(&csr::MIN_RATE, "mbps")),
    ("gain_shift", &csr::GAIN, crate::csr::field(&csr::GAIN, "shift")),
    ("alpha_us", &csr::PERIODS, crate::csr::field(&csr::PERIODS, "alpha_us")),
    ("rate_us", &csr::PERIODS, crate::csr::field(&csr::PERIODS, "rate_us")),
    ("byte_counter", &csr::BYTE_COUNTER, crate::csr::field(&csr::BYTE_COUNTER, "bytes")),
    ("recovery_steps", &csr::RECOVERY, crate::csr::field(&csr::RECOVERY, "steps")),
    ("additive_mbps", &csr::INCREASE, crate::csr::field(&csr::INCREASE, "additive_mbps")),
    ("hyper_mbps", &csr::INCREASE, crate::csr::field(&csr::INCREASE, "hyper_mbps")),
];

impl Default for CongestionControl {
    fn default() -> Self {
        Self::of(PLACES.map(|(_, _, field)| field.reset as u32))
    }
}

impl CongestionControl {
    fn values(&self) -> [u32; 10] {
        [
            self.cnp_interval_us.into(),
            self.line_rate_mbps,
            self.min_rate_mbps,
            self.gain_shift.into(),
            self.alpha_us.into(),
            self.rate_us.into(),
            self.byte_counter,
            self.recovery_steps.into(),
            self.additive_mbps.into(),
            self.hyper_mbps.into(),
        ]
    }

    fn of(values: [u32; 10]) -> Self {
        let [interval, line, min, gain, alpha, rate, bytes, steps, additive, hyper] = values;
        Self {
            cnp_interval_us: interval as u16,
            line_rate_mbps: line,
            min_rate_mbps: min,
            gain_shift: gain as u8,
            alpha_us: alpha as u16,
            rate_us: rate as u16,
            byte_counter: bytes,
            recovery_steps: steps as u8,
            additive_mbps: additive as u16,
            hyper_mbps: hyper as u16,
        }
    }
}

impl Context {
    /// The parameters of congestion control that hold.
    ///
    /// # Errors
    /// The bus failed.
    pub fn congestion_control(&self) -> Result<CongestionControl> {
        let mut values = [0; 10];
        self.device.bus.with(|bus| {
            for (value, (_, register, field)) in values.iter_mut().zip(&PLACES) {
                *value = crate::csr::get(field, bus.csr_read32(csr::BLOCK.address(register))?);
            }
            Ok::<_, BusError>(())
        })?;
        Ok(CongestionControl::of(values))
    }

    /// Sets the parameters of congestion control, for all queue pairs of the card. Those that are slowed down already go on from
    /// their rate; without a line rate they are let go.
    ///
    /// # Errors
    /// A card that has none, a value that its register does not hold, or a line rate below the least rate: nothing was written. The bus failed.
    pub fn set_congestion_control(&self, control: &CongestionControl) -> Result<()> {
        const OPERATION: &str = "set congestion control";
        if !self.capabilities().congestion {
            return Err(Error::Attribute {
                operation: OPERATION,
                attribute: "congestion",
                value: 0,
                fix: "leave it as it is, or build the card with congestion = true".into(),
            });
        }
        let values = control.values();
        for (value, (attribute, _, field)) in values.iter().zip(&PLACES) {
            if u128::from(*value) > field.max() {
                let fix = format!("at most {:#x} fit the register", field.max());
                return Err(Error::Attribute {
                    operation: OPERATION,
                    attribute,
                    value: u64::from(*value),
                    fix,
                });
            }
        }
        let (line, least) = (control.line_rate_mbps, control.min_rate_mbps);
        if line != 0 && line < least {
            let fix = format!("at least {least}, or 0");
            return Err(Error::Attribute {
                operation: OPERATION,
                attribute: "line_rate_mbps",
                value: line.into(),
                fix,
            });
        }
        let write = |bus: &mut dyn Bus| -> std::result::Result<(), BusError> {
            let mut word = 0;
            for (i, (value, (_, register, field))) in values.iter().zip(&PLACES).enumerate() {
                word |= crate::csr::put(field, *value);
                let next = PLACES.get(i + 1).map(|(_, next, _)| next.offset);
                if next != Some(register.offset) {
                    bus.csr_write32(csr::BLOCK.address(register), word)?;
                    word = 0;
                }
            }
            Ok(())
        };
        Ok(self.device.bus.with(write)?)
    }
}
