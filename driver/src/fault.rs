// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`WriteFault`]: host memory refused a write of the card.

use std::fmt;

use ferrowire_spec::csr::host_memory::{self as csr, WriteKind};
use ferrowire_spec::Field;

use crate::bus::{Bus, BusError};
use crate::context::Context;
use crate::error::{Coded, Result};

/// The first write of the card that host memory refused since the card was opened. What was written is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteFault {
    /// What the write carried.
    pub kind: Coded<WriteKind>,
    /// Bus address of the page of 4,096 bytes that it was for.
    pub page: u64,
}

impl WriteFault {
    /// What the card's registers say.
    pub(crate) fn read(bus: &mut dyn Bus) -> Result<Option<Self>, BusError> {
        const VALID: Field = crate::csr::field(&csr::WRITE_FAULT, "valid");
        const KIND: Field = crate::csr::field(&csr::WRITE_FAULT, "kind");
        const PAGE: Field = crate::csr::field(&csr::WRITE_FAULT, "page");
        let low = bus.csr_read32(csr::BLOCK.address(&csr::WRITE_FAULT))?;
        if crate::csr::get(&VALID, low) == 0 {
            return Ok(None);
        }
        let high = bus.csr_read32(csr::BLOCK.address(&csr::WRITE_FAULT_HI))?;
        let page = u64::from(high) << 32 | u64::from(crate::csr::get(&PAGE, low)) << PAGE.offset;
        Ok(Some(Self { kind: Coded::from(crate::csr::get(&KIND, low) as u8), page }))
    }
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind.known() {
            Some(WriteKind::Payload) => "payload of a message",
            Some(WriteKind::Completion) => "a completion queue entry",
            Some(WriteKind::Event) => "an event or the answer to a command",
            None => "something unknown",
        };
        write!(
            f,
            "host memory refused a write of the card: {what}, in the page at bus address {:#x}, is lost. Check that this memory exists and \
             that the card may write it, then open the card again, which resets it",
            self.page
        )
    }
}

impl Context {
    /// The first write of the card that host memory refused since it was opened, on cards whose bus reports that (AXI4). The counter
    /// [`AxiWriteErrors`](crate::TrafficCounter::AxiWriteErrors) says how many there were.
    ///
    /// # Errors
    /// The bus failed.
    pub fn write_fault(&self) -> Result<Option<WriteFault>> {
        Ok(self.device.bus.with(|bus| WriteFault::read(bus))?)
    }
}
