// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RawFilter`]: which frames go to the raw Ethernet queue pair, and which the card answers itself.

use ferrowire_spec::csr::port::{self as csr, multicast_hash};
use ferrowire_spec::wire::eth::mac_number;
use ferrowire_spec::{Field, Register};

use crate::context::Context;
use crate::error::{Error, Result};

/// Which frames that are not RoCE the raw Ethernet queue pair receives; RoCE packets never go there. None do with the
/// default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawFilter {
    /// Those to the port's MAC address; with [`Context::set_promiscuous`], those to any.
    pub unicast: bool,
    /// Those to the broadcast address, which ARP needs.
    pub broadcast: bool,
    /// Those to every other group address.
    pub multicast: bool,
    /// Those to these group addresses. The card compares six bits of them: some frames to other groups come too.
    pub groups: Vec<[u8; 6]>,
}

impl RawFilter {
    /// Everything for this port: its own address, broadcast and all groups.
    pub fn port() -> Self {
        Self { unicast: true, broadcast: true, multicast: true, groups: Vec::new() }
    }
}

const RESPOND: Field = crate::csr::field(&csr::RAW, "respond");
const ROCE: Field = crate::csr::field(&csr::RAW, "roce");

impl Context {
    /// Sets which frames go to the raw Ethernet queue pair, from now on. Opening the card clears it.
    ///
    /// # Errors
    /// `Attribute` for a group that is the address of a single station, or for a card without such a queue pair; the bus failed.
    pub fn set_raw_filter(&self, filter: &RawFilter) -> Result<()> {
        const UNICAST: Field = crate::csr::field(&csr::RAW, "unicast");
        const BROADCAST: Field = crate::csr::field(&csr::RAW, "broadcast");
        const MULTICAST: Field = crate::csr::field(&csr::RAW, "multicast");
        let refuse = |attribute, value, fix: &str| {
            Err(Error::Attribute { operation: "set raw filter", attribute, value, fix: fix.into() })
        };
        if !self.capabilities().raw_ethernet {
            return refuse("raw_ethernet", 0, "take a card that has the raw Ethernet queue pair");
        }
        if let Some(single) = filter.groups.iter().find(|mac| mac[0] & 1 == 0) {
            return refuse("groups", mac_number(*single), "take group addresses, whose first byte is odd");
        }
        let hash = filter.groups.iter().fold(0u64, |hash, mac| hash | 1 << multicast_hash(mac_number(*mac)));
        let passes = crate::csr::put(&UNICAST, filter.unicast.into())
            | crate::csr::put(&BROADCAST, filter.broadcast.into())
            | crate::csr::put(&MULTICAST, filter.multicast.into());
        self.change_raw(
            !(crate::csr::put(&RESPOND, 1) | crate::csr::put(&ROCE, 1)),
            passes,
            &[(&csr::RAW_HASH_LO, hash as u32), (&csr::RAW_HASH_HI, (hash >> 32) as u32)],
        )
    }

    /// Lets the card itself answer neighbours that ask for the MAC address of one of its GIDs, by ARP and by neighbour solicitations; or no longer
    /// so. Their questions do not go to the raw Ethernet queue pair then. Opening the card ends it.
    ///
    /// # Errors
    /// `Attribute` for a card that cannot; the bus failed.
    pub fn set_neighbour_responder(&self, responds: bool) -> Result<()> {
        if responds && !self.capabilities().neighbour_responder {
            return Err(Error::Attribute {
                operation: "set neighbour responder",
                attribute: "neighbour_responder",
                value: 0,
                fix: "answer over the raw Ethernet queue pair, as ferrowire-net does, or build the card with neighbour_responder = true".into(),
            });
        }
        self.change_raw(crate::csr::put(&RESPOND, 1), crate::csr::put(&RESPOND, responds.into()), &[])
    }

    /// Lets the raw Ethernet queue pair send frames that a receiver takes for RoCE: to UDP port 4791, or of EtherType 0x8915; or no longer so. Without
    /// it such a frame ends with [`LocalCause::RawRoce`](ferrowire_spec::queue::cqe::LocalCause::RawRoce), and nothing of it is sent. A program that has
    /// this right can forge packets of any peer, of queue pairs of this card too. Opening the card ends it.
    ///
    /// # Errors
    /// `Attribute` for a card without such a queue pair; the bus failed.
    pub fn set_raw_roce(&self, allowed: bool) -> Result<()> {
        if !self.capabilities().raw_ethernet {
            return Err(Error::Attribute {
                operation: "set raw RoCE",
                attribute: "raw_ethernet",
                value: 0,
                fix: "take a card that has the raw Ethernet queue pair".into(),
            });
        }
        self.change_raw(crate::csr::put(&ROCE, 1), crate::csr::put(&ROCE, allowed.into()), &[])
    }
    /// Writes these registers, and then `value` to the bits of `mask` in `raw`. All is in force when this returns.
    fn change_raw(&self, mask: u32, value: u32, before: &[(&Register, u32)]) -> Result<()> {
        self.device.tables(|t| {
            let raw = t.port.raw & !mask | value;
            self.device.bus.with(|bus| {
                for (register, value) in before.iter().chain(&[(&csr::RAW, raw)]) {
                    bus.csr_write32(csr::BLOCK.address(register), *value)?;
                }
                // Register writes are posted. A read is answered after them.
                bus.csr_read32(csr::BLOCK.address(&csr::RAW)).map(drop)
            })?;
            t.port.raw = raw;
            Ok(())
        })
    }
}
