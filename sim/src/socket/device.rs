// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Device`]: a card as the vfio-user protocol shows it. Answers messages; knows no sockets.
//!
//! | message | what becomes of it |
//! |---|---|
//! | region 0 | register accesses of the [card](super::bar), or the [MSI-X table](super::msix) |
//! | region 7 | the [configuration space](super::config_space); it may ask for a function level reset |
//! | map, unmap | the [memory](super::memory) that the card reaches |
//! | set interrupts | files of the MSI-X vectors |
//! | reset | a card that faces PCIe does it itself, by its function level reset; another card takes the place of others, as after power-on |
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
use super::cards::{Cards, Function};
use super::config_space::{self, ConfigSpace};
use super::limits;
use super::memory::ClientMemory;
use super::msix::Msix;
use super::refusals::Refusals;
use crate::card::CsrAccess;

/// A card, and what its client has set up.
pub struct Device {
    card: usize,
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
    /// A card, by its number, with `vectors` interrupts. With a MAC address it has that from power-on. Its client may have one of `of` shares of the
    /// mappings that this process has.
    ///
    /// # Errors
    /// The card does not answer.
    pub fn new(
        cards: &mut impl Cards,
        card: usize,
        of: usize,
        vectors: u32,
        mac: Option<u64>,
    ) -> anyhow::Result<Self> {
        let (config, msix) = (ConfigSpace::new(vectors), Msix::new(vectors, cards.has_msix()));
        let (memory, refusals) = (ClientMemory::new(limits::mapped_files(of)), Refusals::default());
        let mut device = Self { card, mac, addresses: Vec::new(), config, msix, memory, refusals };
        device.begin(cards)?;
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

    /// The card as after power-on.
    fn renew(&mut self, cards: &mut impl Cards) -> anyhow::Result<()> {
        self.refusals.look(cards.refused(self.card));
        cards.renew(self.card)?;
        self.begin(cards)
    }

    /// What a card has before a driver comes.
    fn begin(&mut self, cards: &mut impl Cards) -> anyhow::Result<()> {
        self.apply(cards)?;
        let Some(mac) = self.mac else { return Ok(()) };
        for (register, value) in [(&port::MAC_LO, mac as u32), (&port::MAC_HI, (mac >> 32) as u32)] {
            let address = port::BLOCK.address(register);
            cards.access(self.card, CsrAccess { address, write: true, wide: false, data: value.into() })?;
        }
        Ok(())
    }

    /// Tells the card what the configuration space says, and of the masks of its vectors.
    fn apply(&mut self, cards: &mut impl Cards) -> Result<(), BusError> {
        let (msix_enabled, msix_masked) = (self.config.msix_enabled(), self.config.msix_masked());
        self.msix.set_open(msix_enabled && !msix_masked);
        let bus_master = self.config.bus_master();
        cards.set_function(self.card, Function { msix_enabled, msix_masked, bus_master });
        for (address, value) in self.msix.take_changes() {
            cards.access(self.card, CsrAccess { address, write: true, wide: false, data: value.into() })?;
        }
        Ok(())
    }

    /// Which card it is.
    pub fn card(&self) -> usize {
        self.card
    }

    /// What is to be told of the memory that the card was refused, when there is something new.
    pub fn refused(&mut self, cards: &impl Cards) -> Option<String> {
        self.refusals.look(cards.refused(self.card));
        self.refusals.news()
    }

    /// Passes on the interrupts that the card has raised.
    pub fn interrupts(&mut self, cards: &mut impl Cards) {
        while let Some(vector) = cards.interrupt(self.card) {
            self.msix.raise(vector);
        }
    }

    /// The client has left: the card is as after power-on, and reaches nothing. As a system does, this first turns bus mastering off, so that the
    /// card begins nothing, and then resets the card.
    ///
    /// # Errors
    /// The card does not answer.
    pub fn leave(&mut self, cards: &mut impl Cards) -> anyhow::Result<()> {
        self.config = ConfigSpace::new(self.msix.count());
        self.msix = Msix::new(self.msix.count(), cards.has_msix());
        self.apply(cards)?;
        cards.settle(self.card);
        self.renew(cards)?;
        self.refusals = Refusals::since(cards.refused(self.card));
        cards.memory(self.card, |map| self.memory.clear(map));
        Ok(())
    }

    /// The card as after power-on.
    ///
    /// # Errors
    /// The card does not answer.
    pub fn reset(&mut self, cards: &mut impl Cards) -> anyhow::Result<()> {
        self.msix.reset();
        self.renew(cards)
    }

    /// Carries out a message. What to answer behind the header.
    ///
    /// # Errors
    /// Why not.
    pub fn answer(&mut self, cards: &mut impl Cards, message: Message) -> Result<Vec<u8>, Errno> {
        let Message { header, body, files, lost_files } = message;
        // What earlier messages have raised goes to the files and by the masks that are there until this one.
        self.interrupts(cards);
        // Without its file, memory would be mapped and not reached, and an interrupt would go nowhere.
        if lost_files {
            return Err(Errno::MFILE);
        }
        match header.command {
            command::VERSION => {
                let (version, _) = parsed(Version::parse(&body))?;
                if version.major != MAJOR {
                    return Err(Errno::PROTONOSUPPORT);
                }
                let version = Version { major: MAJOR, minor: version.minor.min(MINOR) };
                Ok([&version.to_bytes()[..], &server_capabilities(false, cards.is_engine(), &self.addresses)]
                    .concat())
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
                self.apply(cards).map_err(|_| Errno::IO)?;
                Ok(Vec::new())
            }
            command::REGION_READ => self.region_read(cards, &body),
            command::REGION_WRITE => self.region_write(cards, &body),
            command::DMA_MAP => {
                let (ask, _) = parsed(DmaMap::parse(&body))?;
                // As VFIO does: no memory where a write is an interrupt.
                let window = cards.interrupt_window(self.card);
                if ask.address < window.end && ask.address.saturating_add(ask.size) > window.start {
                    return Err(Errno::INVAL);
                }
                let memory = &mut self.memory;
                cards.memory(self.card, |map| memory.map(map, &ask, files.first())).map(|()| Vec::new())
            }
            command::DMA_UNMAP => {
                let (ask, _) = parsed(DmaUnmap::parse(&body))?;
                let memory = &mut self.memory;
                let size = cards.memory(self.card, |map| memory.unmap(map, &ask))?;
                Ok(DmaUnmap { size, ..ask }.to_bytes().to_vec())
            }
            command::DEVICE_RESET => {
                self.reset(cards).map_err(|_| Errno::IO)?;
                Ok(Vec::new())
            }
            _ => Err(Errno::NOSYS),
        }
    }

    fn region_read(&mut self, cards: &mut impl Cards, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let (access, _) = parsed(RegionAccess::parse(body))?;
        let bytes = allowed(&access)?;
        let mut answer = access.to_bytes().to_vec();
        match access.region {
            pci::CONFIG => {
                self.config.set_cycles(cards.cycle(), cards.is_engine());
                answer.extend_from_slice(self.config.read(access.offset, bytes).ok_or(Errno::INVAL)?);
            }
            _ => {
                let mut data = vec![0; bytes];
                bar::read(cards, self.card, &self.msix, access.offset, &mut data).map_err(|_| Errno::IO)?;
                answer.extend_from_slice(&data);
            }
        }
        Ok(answer)
    }

    fn region_write(&mut self, cards: &mut impl Cards, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let (access, data) = parsed(RegionAccess::parse(body))?;
        if allowed(&access)? != data.len() {
            return Err(Errno::INVAL);
        }
        match access.region {
            pci::CONFIG => {
                if self.config.write(access.offset, data).ok_or(Errno::INVAL)? {
                    self.config = ConfigSpace::new(self.msix.count());
                    self.reset(cards).map_err(|_| Errno::IO)?;
                }
            }
            _ => bar::write(cards, self.card, &mut self.msix, access.offset, data).map_err(|_| Errno::IO)?,
        }
        self.apply(cards).map_err(|_| Errno::IO)?;
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
    use crate::bus::World;
    use crate::card::CardModel;
    use crate::emulated::Fabric;
    use crate::socket::{Engines, Verilated};
    use crate::wire::{Delivery, TimedFilter};

    fn ask(device: &mut Device, cards: &mut impl Cards, command: u16, body: &[u8]) -> Vec<u8> {
        let header = Header::of(1, command, body.len());
        let (body, files) = (body.to_vec(), Vec::new());
        device.answer(cards, Message { header, body, files, lost_files: false }).unwrap()
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
            world.run(2000);
            let mut cards = Verilated::new(world, model, false);
            let mut device = Device::new(&mut cards, 0, 2, config.eqs, Some(5)).unwrap();
            let bar = |offset: u32| RegionAccess { offset: offset.into(), region: pci::BAR0, count: 4 };
            let word = |device: &mut Device, cards: &mut Verilated, offset: u32| {
                ask(device, cards, command::REGION_READ, &bar(offset).to_bytes())[16..].to_vec()
            };
            let (mac, control) = (port::BLOCK.address(&port::MAC_LO), MSIX_TABLE + 12);
            for (offset, value) in [(mac, 77), (control, 0)] {
                let write = [&bar(offset).to_bytes()[..], &[value, 0, 0, 0]].concat();
                ask(&mut device, &mut cards, command::REGION_WRITE, &write);
                assert_eq!(word(&mut device, &mut cards, offset), [value, 0, 0, 0], "{name}");
            }
            let own_cycle = |cards: &mut Verilated| cards.world().unwrap().card(0).cycle();
            let before = own_cycle(&mut cards);
            ask(&mut device, &mut cards, command::DEVICE_RESET, &[]);
            assert_eq!(own_cycle(&mut cards) > before, itself, "{name}: the card's own clock goes on");
            assert_eq!(word(&mut device, &mut cards, mac), [5, 0, 0, 0], "{name}");
            assert_eq!(word(&mut device, &mut cards, control), [1, 0, 0, 0], "{name}: masked");
            // Where a write is an interrupt there is no memory.
            let window = cards.interrupt_window(0);
            assert_eq!(!window.is_empty(), itself, "{name}");
            let map = DmaMap { argsz: 32, flags: 3, offset: 0, address: window.start & !4095, size: 8192 };
            let body = map.to_bytes().to_vec();
            let header = Header::of(1, command::DMA_MAP, body.len());
            let files = Vec::new();
            let refused = device.answer(&mut cards, Message { header, body, files, lost_files: false });
            assert_eq!(refused.is_err(), itself, "{name}");
        }
    }

    fn signalled(file: &std::os::fd::OwnedFd) -> bool {
        rustix::io::read(file, &mut [0; 8]).is_ok()
    }

    /// An emulated card with MSI-X enabled, and the event file of its vector 5.
    fn with_an_event_file(cards: &mut Engines) -> (Device, std::os::fd::OwnedFd) {
        let mut device = Device::new(cards, 0, 2, 128, None).unwrap();
        // Message control of its MSI-X capability: enabled.
        let enable = RegionAccess { offset: 0x82, region: pci::CONFIG, count: 2 };
        let enable = [&enable.to_bytes()[..], &[0, 0x80]].concat();
        ask(&mut device, cards, command::REGION_WRITE, &enable);
        let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        let flags = pci::DATA_EVENTFD | pci::ACTION_TRIGGER;
        let body = IrqSet { argsz: 20, flags, index: pci::MSIX, start: 5, count: 1 }.to_bytes().to_vec();
        let header = Header::of(1, command::DEVICE_SET_IRQS, body.len());
        let files = vec![file.try_clone().unwrap()];
        device.answer(cards, Message { header, body, files, lost_files: false }).unwrap();
        (device, file)
    }

    #[test]
    fn an_interrupt_goes_to_the_file_that_was_there_when_it_was_raised() {
        let mut cards = Engines::new(Fabric::pair());
        let (mut device, file) = with_an_event_file(&mut cards);
        // Between the message that raises it and the end of the turn, the file is taken back.
        cards.raise(0, 5);
        let flags = pci::DATA_EVENTFD | pci::ACTION_TRIGGER;
        let none = IrqSet { argsz: 20, flags, index: pci::MSIX, start: 5, count: 1 };
        ask(&mut device, &mut cards, command::DEVICE_SET_IRQS, &none.to_bytes());
        device.interrupts(&mut cards);
        assert!(signalled(&file), "it was sent before");
    }

    #[test]
    fn when_a_mask_is_read_back_all_interrupts_before_it_have_come() {
        let mut cards = Engines::new(Fabric::pair());
        let (mut device, file) = with_an_event_file(&mut cards);
        cards.raise(0, 5);
        let control = RegionAccess { offset: (MSIX_TABLE + 16 * 5 + 12).into(), region: pci::BAR0, count: 4 };
        let mask = [&control.to_bytes()[..], &[1, 0, 0, 0]].concat();
        ask(&mut device, &mut cards, command::REGION_WRITE, &mask);
        ask(&mut device, &mut cards, command::REGION_READ, &control.to_bytes());
        assert!(signalled(&file));
        cards.raise(0, 5);
        device.interrupts(&mut cards);
        assert!(!signalled(&file), "it is masked");
    }

    #[test]
    fn a_message_whose_files_the_system_has_closed_is_refused() {
        let mut cards = Engines::new(Fabric::pair());
        let mut device = Device::new(&mut cards, 0, 2, 128, None).unwrap();
        let body = DmaMap { argsz: 32, flags: 3, offset: 0, address: 0, size: 4096 }.to_bytes().to_vec();
        let header = Header::of(1, command::DMA_MAP, body.len());
        let answer = |device: &mut Device, cards: &mut Engines, lost_files| {
            device.answer(cards, Message { header, body: body.clone(), files: Vec::new(), lost_files })
        };
        assert_eq!(answer(&mut device, &mut cards, true), Err(Errno::MFILE));
        assert!(answer(&mut device, &mut cards, false).is_ok(), "nothing was mapped before");
    }

    #[test]
    fn an_emulated_card_has_a_table_of_vectors_and_is_as_after_power_on_when_it_is_reset() {
        let mut cards = Engines::new(Fabric::pair());
        let mut device = Device::new(&mut cards, 1, 2, 128, Some(5)).unwrap();
        let bar = |offset: u32, count| RegionAccess { offset: offset.into(), region: pci::BAR0, count };
        let read = |device: &mut Device, cards: &mut Engines, offset: u32, count| {
            ask(device, cards, command::REGION_READ, &bar(offset, count).to_bytes())[16..].to_vec()
        };
        let (mac, entry) = (port::BLOCK.address(&port::MAC_LO), MSIX_TABLE + 16 * 127);
        for (offset, value) in [(mac, 77), (entry, 0x44), (entry + 12, 0)] {
            let write = [&bar(offset, 4).to_bytes()[..], &[value, 0, 0, 0]].concat();
            ask(&mut device, &mut cards, command::REGION_WRITE, &write);
            assert_eq!(read(&mut device, &mut cards, offset, 4), [value, 0, 0, 0]);
        }
        let whole = [&[0x44][..], &[0; 15]].concat();
        assert_eq!(read(&mut device, &mut cards, entry, 16), whole);
        assert_eq!(read(&mut device, &mut cards, mac + 1, 2), [0, 0]);
        ask(&mut device, &mut cards, command::DEVICE_RESET, &[]);
        assert_eq!(read(&mut device, &mut cards, mac, 4), [5, 0, 0, 0]);
        assert_eq!(read(&mut device, &mut cards, entry + 12, 4), [1, 0, 0, 0], "masked");
        // Any address may be mapped.
        let map = DmaMap { argsz: 32, flags: 3, offset: 0, address: 0xffff_fee0_0000, size: 4096 };
        ask(&mut device, &mut cards, command::DMA_MAP, &map.to_bytes());
    }
}
