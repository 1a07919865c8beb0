// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Device`]: a card as the vfio-user protocol shows it. Answers messages; knows no sockets.
//!
//! | message | what becomes of it |
//! |---|---|
//! | region 0 | register accesses of the [card](super::bar), or the [MSI-X table](super::msix) |
//! | region 7 | the [configuration space](super::config_space); it may ask for a function level reset |
//! | map, unmap | the [memory](super::memory) that the card reaches |
//! | set interrupts | files of the MSI-X vectors |
//! | reset | a card that faces PCIe does it itself, by its function level reset; of others, another one is put in the place of this one, as after power-on |
//!
//! A reset leaves what the client owns as it is: mapped memory and event files. When the client leaves, that goes too.

use std::net::IpAddr;

use ferrowire::vfio_user::message::{
    command, pci, server_capabilities, DeviceInfo, DmaMap, DmaUnmap, IrqInfo, IrqSet, RegionAccess,
    RegionInfo, Version, MAJOR, MAX_TRANSFER, MINOR,
};
use ferrowire::vfio_user::Message;
use ferrowire::BusError;
use ferrowire_spec::csr::port;
use ferrowire_spec::pci::BAR_BYTES;
use rustix::io::Errno;

use super::bar;
use super::config_space::{self, ConfigSpace};
use super::memory::ClientMemory;
use super::msix::Msix;
use super::refusals::Refusals;
use crate::bus::World;
use crate::card::{CardModel, CsrAccess};

/// A card of a world, and what its client has set up.
pub struct Device {
    card: usize,
    model: CardModel,
    /// What the card has from the start, as from a board's memory.
    mac: Option<u64>,
    /// What programs are to give it.
    addresses: Vec<IpAddr>,
    config: ConfigSpace,
    msix: Msix,
    memory: ClientMemory,
    refusals: Refusals,
}

impl Device {
    /// Card `card` of a world, with so many interrupts. With a MAC address it has that from power-on.
    ///
    /// # Errors
    /// The card does not answer.
    pub fn new(
        world: &mut World,
        card: usize,
        model: CardModel,
        vectors: u32,
        mac: Option<u64>,
    ) -> anyhow::Result<Self> {
        let (config, msix) = (ConfigSpace::new(vectors), Msix::new(vectors, model.has_pcie()));
        let (memory, refusals) = (ClientMemory::new(), Refusals::default());
        let mut device = Self { card, model, mac, addresses: Vec::new(), config, msix, memory, refusals };
        device.power_on(world)?;
        Ok(device)
    }

    /// The same, with IP addresses that its clients are told.
    pub fn with_addresses(self, addresses: Vec<IpAddr>) -> Self {
        Self { addresses, ..self }
    }

    /// What its clients are told.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The card as after power-on. One that faces PCIe ends what it has begun (PCIe 6.6.2); where it does not in time, it is replaced like the others.
    fn renew(&mut self, world: &mut World) -> anyhow::Result<()> {
        self.refusals.look(&world.card(self.card).host().stats());
        if world.reset_function(self.card) {
            return self.begin(world);
        }
        if self.model.has_pcie() {
            eprintln!(
                "card {} does not end its function level reset; another one takes its place",
                self.card
            );
        }
        self.power_on(world)
    }

    fn power_on(&mut self, world: &mut World) -> anyhow::Result<()> {
        world.power_on(self.card, &self.model)?;
        self.begin(world)
    }

    /// What a card has before a driver comes.
    fn begin(&mut self, world: &mut World) -> anyhow::Result<()> {
        self.apply(world)?;
        let Some(mac) = self.mac else { return Ok(()) };
        for (register, value) in [(&port::MAC_LO, mac as u32), (&port::MAC_HI, (mac >> 32) as u32)] {
            let address = port::BLOCK.address(register);
            world.access(self.card, CsrAccess { address, write: true, wide: false, data: value.into() })?;
        }
        Ok(())
    }

    /// Tells a card that faces PCIe what the configuration space says, and of the masks of its vectors. Of others the bus master bit is not looked at.
    fn apply(&mut self, world: &mut World) -> Result<(), BusError> {
        let (enabled, masked) = (self.config.msix_enabled(), self.config.msix_masked());
        self.msix.set_open(enabled && !masked);
        let card = world.card_mut(self.card);
        if card.set_interrupts(enabled, masked) {
            card.set_bus_master(self.config.bus_master());
        }
        for (address, value) in self.msix.take_changes() {
            world.access(self.card, CsrAccess { address, write: true, wide: false, data: value.into() })?;
        }
        Ok(())
    }

    /// Which card of the world.
    pub fn card(&self) -> usize {
        self.card
    }

    /// What is to be told of the memory that the card was refused, when there is something new.
    pub fn refused(&mut self, world: &World) -> Option<String> {
        self.refusals.look(&world.card(self.card).host().stats());
        self.refusals.news()
    }

    /// Passes on the interrupts that the card has raised.
    pub fn interrupts(&mut self, world: &mut World) {
        while let Some(interrupt) = world.card_mut(self.card).interrupt() {
            self.msix.raise(interrupt.vector);
        }
    }

    /// The client has left: the card is as after power-on, and reaches nothing.
    ///
    /// # Errors
    /// There is no other card.
    pub fn leave(&mut self, world: &mut World) -> anyhow::Result<()> {
        self.config = ConfigSpace::new(self.msix.count());
        self.msix = Msix::new(self.msix.count(), self.model.has_pcie());
        self.renew(world)?;
        self.refusals = Refusals::since(&world.card(self.card).host().stats());
        self.memory.clear(world.card_mut(self.card).host_mut().map_mut());
        Ok(())
    }

    /// The card as after power-on.
    ///
    /// # Errors
    /// There is no other card.
    pub fn reset(&mut self, world: &mut World) -> anyhow::Result<()> {
        self.msix.reset();
        self.renew(world)
    }

    /// Carries out a message. What to answer behind the header.
    ///
    /// # Errors
    /// Why not.
    pub fn answer(&mut self, world: &mut World, message: Message) -> Result<Vec<u8>, Errno> {
        let Message { header, body, files } = message;
        match header.command {
            command::VERSION => {
                let (version, _) = parsed(Version::parse(&body))?;
                if version.major != MAJOR {
                    return Err(Errno::PROTONOSUPPORT);
                }
                let version = Version { major: MAJOR, minor: version.minor.min(MINOR) };
                Ok([&version.to_bytes()[..], &server_capabilities(false, &self.addresses)].concat())
            }
            command::DEVICE_GET_INFO => {
                parsed(DeviceInfo::parse(&body))?;
                let info = DeviceInfo {
                    argsz: DeviceInfo::BYTES as u32,
                    flags: pci::DEVICE_PCI | pci::DEVICE_RESET,
                    regions: pci::REGIONS,
                    irqs: pci::IRQS,
                };
                Ok(info.to_bytes().to_vec())
            }
            command::DEVICE_GET_REGION_INFO => {
                let (ask, _) = parsed(RegionInfo::parse(&body))?;
                let size = region_bytes(ask.index)?;
                let flags = if size > 0 { pci::REGION_READ | pci::REGION_WRITE } else { 0 };
                let argsz = RegionInfo::BYTES as u32;
                let info = RegionInfo { argsz, flags, index: ask.index, capabilities: 0, size, offset: 0 };
                Ok(info.to_bytes().to_vec())
            }
            command::DEVICE_GET_IRQ_INFO => {
                let (ask, _) = parsed(IrqInfo::parse(&body))?;
                let count = match ask.index {
                    pci::MSIX => self.msix.count(),
                    index if index < pci::IRQS => 0,
                    _ => return Err(Errno::INVAL),
                };
                let flags = if count > 0 { pci::IRQ_EVENTFD } else { 0 };
                Ok(IrqInfo { argsz: IrqInfo::BYTES as u32, flags, index: ask.index, count }
                    .to_bytes()
                    .to_vec())
            }
            command::DEVICE_SET_IRQS => {
                let (set, data) = parsed(IrqSet::parse(&body))?;
                // Of kinds that the card does not have, there is nothing to take back.
                if set.index < pci::IRQS && set.index != pci::MSIX && set.count == 0 {
                    return Ok(Vec::new());
                }
                self.msix.set(&set, data, files)?;
                self.apply(world).map_err(|_| Errno::IO)?;
                Ok(Vec::new())
            }
            command::REGION_READ => self.region_read(world, &body),
            command::REGION_WRITE => self.region_write(world, &body),
            command::DMA_MAP => {
                let (ask, _) = parsed(DmaMap::parse(&body))?;
                // As VFIO does: no memory where a write is an interrupt.
                let window = world.card(self.card).interrupt_window();
                if ask.address < window.end && ask.address.saturating_add(ask.size) > window.start {
                    return Err(Errno::INVAL);
                }
                let map = world.card_mut(self.card).host_mut().map_mut();
                self.memory.map(map, &ask, files.first()).map(|()| Vec::new())
            }
            command::DMA_UNMAP => {
                let (ask, _) = parsed(DmaUnmap::parse(&body))?;
                let map = world.card_mut(self.card).host_mut().map_mut();
                self.memory.unmap(map, &ask).map(|size| DmaUnmap { size, ..ask }.to_bytes().to_vec())
            }
            command::DEVICE_RESET => {
                self.reset(world).map_err(|_| Errno::IO)?;
                Ok(Vec::new())
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn region_read(&mut self, world: &mut World, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let (access, _) = parsed(RegionAccess::parse(body))?;
        let bytes = allowed(&access)?;
        let mut answer = access.to_bytes().to_vec();
        match access.region {
            pci::CONFIG => {
                self.config.set_cycles(world.cycle());
                answer.extend_from_slice(self.config.read(access.offset, bytes).ok_or(Errno::INVAL)?);
            }
            _ => {
                let mut data = vec![0; bytes];
                bar::read(world, self.card, &self.msix, access.offset, &mut data).map_err(|_| Errno::IO)?;
                answer.extend_from_slice(&data);
            }
        }
        Ok(answer)
    }

    fn region_write(&mut self, world: &mut World, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let (access, data) = parsed(RegionAccess::parse(body))?;
        if allowed(&access)? != data.len() {
            return Err(Errno::INVAL);
        }
        match access.region {
            pci::CONFIG => {
                if self.config.write(access.offset, data).ok_or(Errno::INVAL)? {
                    self.config = ConfigSpace::new(self.msix.count());
                    self.reset(world).map_err(|_| Errno::IO)?;
                }
            }
            _ => bar::write(world, self.card, &mut self.msix, access.offset, data).map_err(|_| Errno::IO)?,
        }
        self.apply(world).map_err(|_| Errno::IO)?;
        Ok(access.to_bytes().to_vec())
    }
}

/// Bytes of a region; 0 for one that the card does not have.
fn region_bytes(region: u32) -> Result<u64, Errno> {
    match region {
        pci::BAR0 => Ok(BAR_BYTES),
        pci::CONFIG => Ok(config_space::BYTES as u64),
        region if region < pci::REGIONS => Ok(0),
        _ => Err(Errno::INVAL),
    }
}

/// Bytes of an access, if it is not too long and lies in its region.
fn allowed(access: &RegionAccess) -> Result<usize, Errno> {
    let bytes = access.count as usize;
    let end = access.offset.checked_add(access.count.into()).ok_or(Errno::INVAL)?;
    match bytes <= MAX_TRANSFER && end <= region_bytes(access.region)? {
        true => Ok(bytes),
        false => Err(Errno::INVAL),
    }
}

/// A structure that must be there.
fn parsed<T>(found: Option<T>) -> Result<T, Errno> {
    found.ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use ferrowire::vfio_user::message::Header;
    use ferrowire_hdl::config::RnicConfig;
    use ferrowire_spec::csr::MSIX_TABLE;

    use super::*;
    use crate::wire::{Delivery, TimedFilter};

    fn ask(device: &mut Device, world: &mut World, command: u16, body: &[u8]) -> Vec<u8> {
        let header = Header::of(1, command, body.len());
        device.answer(world, Message { header, body: body.to_vec(), files: Vec::new() }).unwrap()
    }

    #[test]
    fn a_card_that_faces_pcie_resets_itself_and_others_are_replaced() {
        for name in ["pcie-8b", "generic-8b"] {
            let config = RnicConfig::named(name).unwrap();
            let model = CardModel::rnic(&config, false).unwrap();
            let itself = model.has_pcie();
            let mut world = World::pair(&model, 0, 0).unwrap();
            for link in 0..2 {
                let filter: TimedFilter = Box::new(|frame| vec![Delivery::at_once(frame.to_vec())]);
                world.link_mut(link).set_timed_filter(Some(filter));
            }
            let mut device = Device::new(&mut world, 0, model, config.eqs, Some(5)).unwrap();
            world.run(2000);
            let bar = |offset: u32| RegionAccess { offset: offset.into(), region: pci::BAR0, count: 4 };
            let word = |device: &mut Device, world: &mut World, offset: u32| {
                ask(device, world, command::REGION_READ, &bar(offset).to_bytes())[16..].to_vec()
            };
            let (mac, control) = (port::BLOCK.address(&port::MAC_LO), MSIX_TABLE + 12);
            for (offset, value) in [(mac, 77), (control, 0)] {
                let write = [&bar(offset).to_bytes()[..], &[value, 0, 0, 0]].concat();
                ask(&mut device, &mut world, command::REGION_WRITE, &write);
                assert_eq!(word(&mut device, &mut world, offset), [value, 0, 0, 0], "{name}");
            }
            let before = world.card(0).cycle();
            ask(&mut device, &mut world, command::DEVICE_RESET, &[]);
            assert_eq!(world.card(0).cycle() > before, itself, "{name}: the card's own clock goes on");
            assert_eq!(word(&mut device, &mut world, mac), [5, 0, 0, 0], "{name}");
            assert_eq!(word(&mut device, &mut world, control), [1, 0, 0, 0], "{name}: masked");
            // Where a write is an interrupt there is no memory.
            let window = world.card(0).interrupt_window();
            assert_eq!(!window.is_empty(), itself, "{name}");
            let map = DmaMap { argsz: 32, flags: 3, offset: 0, address: window.start & !4095, size: 8192 };
            let body = map.to_bytes().to_vec();
            let header = Header::of(1, command::DMA_MAP, body.len());
            let refused = device.answer(&mut world, Message { header, body, files: Vec::new() });
            assert_eq!(refused.is_err(), itself, "{name}");
        }
    }
}
