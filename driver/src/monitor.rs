// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Monitor`]: a card that is looked at, and not touched.

use std::fmt;
use std::net::IpAddr;
use std::os::fd::RawFd;

use ferrowire_spec::csr::{identity, port, DropReason, HwCounter, TrafficCounter};
use ferrowire_spec::{Block, Field, Register};

use crate::bus::{Bus, BusError};
use crate::context::{identify, Capabilities, Context};
use crate::error::Result;
use crate::port::read_mac;

/// What a card is: its registers of the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Major and minor version.
    pub version: (u16, u16),
    /// Hash of the tables that it was built from.
    pub layout_hash: u64,
    /// Bytes a beat of its datapath.
    pub beat_bytes: u32,
    /// Clock of the datapath in kHz; 0: it has no rate.
    pub clock_khz: u32,
}

/// The network port, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortStatus {
    /// MAC address; zeros: none was set.
    pub mac: [u8; 6],
    /// The link is up.
    pub up: bool,
    /// Speed in units of 100 Mb/s; 0: the card does not know.
    pub speed: u16,
}

impl Identity {
    fn read(bus: &mut dyn Bus) -> Result<Self, BusError> {
        const MAJOR: Field = crate::csr::field(&identity::VERSION, "major");
        const MINOR: Field = crate::csr::field(&identity::VERSION, "minor");
        let mut read = |register: &Register| bus.csr_read32(identity::BLOCK.address(register));
        let version = read(&identity::VERSION)?;
        let low = read(&identity::LAYOUT_HASH_LO)?;
        Ok(Self {
            version: (crate::csr::get(&MAJOR, version) as u16, crate::csr::get(&MINOR, version) as u16),
            layout_hash: u64::from(read(&identity::LAYOUT_HASH_HI)?) << 32 | u64::from(low),
            beat_bytes: read(&identity::BEAT_BYTES)?,
            clock_khz: read(&identity::CLOCK_KHZ)?,
        })
    }
}

impl PortStatus {
    fn read(bus: &mut dyn Bus) -> Result<Self, BusError> {
        const UP: Field = crate::csr::field(&port::LINK, "up");
        const SPEED: Field = crate::csr::field(&port::LINK, "speed");
        let link = bus.csr_read32(port::BLOCK.address(&port::LINK))?;
        let [_, _, mac @ ..] = read_mac(bus)?.to_be_bytes();
        Ok(Self { mac, up: crate::csr::get(&UP, link) == 1, speed: crate::csr::get(&SPEED, link) as u16 })
    }
}

fn read_register(bus: &mut dyn Bus, block: &Block, register: &Register) -> Result<u64, BusError> {
    let address = block.address(register);
    match register.bytes {
        8 => bus.csr_read64(address),
        _ => bus.csr_read32(address).map(u64::from),
    }
}

impl Context {
    /// What the card is.
    ///
    /// # Errors
    /// The bus failed.
    pub fn identity(&self) -> Result<Identity> {
        Ok(self.device.bus.with(Identity::read)?)
    }

    /// The network port.
    ///
    /// # Errors
    /// The bus failed.
    pub fn port(&self) -> Result<PortStatus> {
        Ok(self.device.bus.with(PortStatus::read)?)
    }

    /// A register of the tables.
    ///
    /// # Errors
    /// The bus failed.
    pub fn register(&self, block: &Block, register: &Register) -> Result<u64> {
        Ok(self.device.bus.with(|bus| read_register(bus, block, register))?)
    }
}

/// A card that is looked at: it is not reset, and no register is written. What a program does with it goes on.
///
/// For cards on a socket take [`VfioUserBus::observe`](crate::VfioUserBus::observe), which takes the card from nobody.
pub struct Monitor {
    bus: Box<dyn Bus>,
    capabilities: Capabilities,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

impl Monitor {
    /// Looks at the card behind `bus`: whether it is one, of the version and layout that this driver was built for, and what it can do.
    ///
    /// # Errors
    /// `NotFerrowire`, `UnknownVersion`, `UnknownLayout`; `Bus` when the bus fails.
    pub fn open(bus: impl Bus + 'static) -> Result<Self> {
        let mut bus: Box<dyn Bus> = Box::new(bus);
        identify(bus.as_mut())?;
        let capabilities = Capabilities::read(bus.as_mut())?;
        Ok(Self { bus, capabilities })
    }

    /// What the card holds and can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// A register of the tables.
    ///
    /// # Errors
    /// The bus failed.
    pub fn register(&mut self, block: &Block, register: &Register) -> Result<u64> {
        Ok(read_register(self.bus.as_mut(), block, register)?)
    }

    /// What the card is.
    ///
    /// # Errors
    /// The bus failed.
    pub fn identity(&mut self) -> Result<Identity> {
        Ok(Identity::read(self.bus.as_mut())?)
    }

    /// The network port.
    ///
    /// # Errors
    /// The bus failed.
    pub fn port(&mut self) -> Result<PortStatus> {
        Ok(PortStatus::read(self.bus.as_mut())?)
    }

    /// A counter of the transport.
    ///
    /// # Errors
    /// The bus failed.
    pub fn hw_counter(&mut self, counter: HwCounter) -> Result<u64> {
        Ok(self.bus.csr_read64(counter.address())?)
    }

    /// How many packets were dropped for a reason.
    ///
    /// # Errors
    /// The bus failed.
    pub fn drop_counter(&mut self, reason: DropReason) -> Result<u64> {
        Ok(self.bus.csr_read64(reason.address())?)
    }

    /// A counter of frames or bytes.
    ///
    /// # Errors
    /// The bus failed.
    pub fn traffic_counter(&mut self, counter: TrafficCounter) -> Result<u64> {
        Ok(self.bus.csr_read64(counter.address())?)
    }

    /// Numbers of the files by which this process looks at the card: see [`Bus::files`].
    pub fn files(&self) -> Vec<RawFd> {
        self.bus.files()
    }

    /// IP addresses that the card's owner has given it: see [`Bus::addresses`].
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.bus.addresses()
    }

    /// Whether there is no card, but a model of the transport in the place of one: see [`Bus::is_engine`].
    pub fn is_engine(&self) -> bool {
        self.bus.is_engine()
    }

    /// Cycles of a simulated card's clock: see [`Bus::card_cycles`].
    ///
    /// # Errors
    /// The bus failed.
    pub fn card_cycles(&mut self) -> Result<Option<u64>> {
        Ok(self.bus.card_cycles()?)
    }
}
