// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`ConfigSpace`]: the card's PCI configuration space (PCIe 7.5).
//!
//! ```text
//!  0x00 header, type 0 ----> 0x40 PCI Express ----> 0x80 MSI-X ----> 0x90 power management
//!  0x100 the simulation's clock
//! ```
//!
//! Writes change the bits that software may change, and no others. What they ask for is carried out by the [device](super::device).

use ferrowire::vfio_user::simulation;
use ferrowire_spec::csr::{MSIX_PBA, MSIX_TABLE};
use ferrowire_spec::pci;

/// Bytes, those that are all zero included.
pub const BYTES: usize = 4096;

const COMMAND: usize = 0x04;
const BAR0: usize = 0x10;
const EXPRESS: usize = 0x40;
const MSIX: usize = 0x80;
const POWER: usize = 0x90;

/// Device control, in the PCI Express capability.
const DEVICE_CONTROL: usize = EXPRESS + 0x08;
/// Device control: begin a function level reset; reads 0.
const INITIATE_RESET: u16 = 1 << 15;
/// MSI-X message control.
const MSIX_CONTROL: usize = MSIX + 0x02;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK: u16 = 1 << 14;
/// Command register: the card may send requests.
const BUS_MASTER: u16 = 1 << 2;

/// Code of the largest payload and of the largest read request: 512 bytes.
const SIZE_512: u32 = 2;
/// Lanes and generation of the link; there is no link, but software expects one.
const LANES: u16 = 8;
const GENERATION: u16 = 3;

/// The configuration space.
#[derive(Debug)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    /// Bits that software may write.
    writable: Vec<u8>,
}

impl ConfigSpace {
    /// As after power-on, for a card with so many MSI-X vectors (1 to 2048).
    pub fn new(vectors: u32) -> Self {
        let mut space = Self { bytes: vec![0; BYTES], writable: vec![0; BYTES] };
        space.header();
        space.express();
        // Size of the table less one; which BAR and where (PCIe 7.7.2).
        space.put(MSIX, [0x11, POWER as u8]);
        space.set16(MSIX_CONTROL, (vectors - 1) as u16, MSIX_ENABLE | MSIX_MASK);
        space.put(MSIX + 4, (MSIX_TABLE | u32::from(pci::MSIX_BAR)).to_le_bytes());
        space.put(MSIX + 8, (MSIX_PBA | u32::from(pci::MSIX_BAR)).to_le_bytes());
        // Version 3; a state that is kept, for nothing happens in it (PCIe 7.5.2).
        space.put(POWER, [0x01, 0x00, 0x03, 0x00]);
        space.set16(POWER + 4, 1 << 3, 0x0003);
        space
    }

    /// Header of type 0 (PCIe 7.5.1).
    fn header(&mut self) {
        self.put(0x00, pci::VENDOR.to_le_bytes());
        self.put(0x02, pci::DEVICE.to_le_bytes());
        // Memory space, bus master, parity, SERR, no INTx.
        self.set16(COMMAND, 0, 0x0546);
        // There are capabilities.
        self.put(0x06, [0x10, 0x00]);
        self.put(0x08, (pci::CLASS << 8 | u32::from(pci::REVISION)).to_le_bytes());
        self.set8(0x0c, 0, 0xff);
        // Memory, 64 bits, not prefetchable. The address bits that its size leaves.
        self.put(BAR0, 0x04u64.to_le_bytes());
        self.allow(BAR0, (!(pci::BAR_BYTES - 1)).to_le_bytes());
        self.put(0x2c, pci::SUBSYSTEM_VENDOR.to_le_bytes());
        self.put(0x2e, pci::SUBSYSTEM.to_le_bytes());
        self.put(0x34, [EXPRESS as u8]);
        self.set8(0x3c, 0, 0xff);
    }

    /// Capability of a PCI Express endpoint (PCIe 7.5.3).
    fn express(&mut self) {
        self.put(EXPRESS, [0x10, MSIX as u8, 0x02, 0x00]);
        // Payload, role-based error reporting, function level reset.
        self.put(EXPRESS + 0x04, (SIZE_512 | 1 << 15 | 1 << 28).to_le_bytes());
        // Read requests of 512 bytes, no snoop, relaxed ordering; payload and read requests can be set.
        self.set16(DEVICE_CONTROL, 0x2810, 0x7aff);
        let link = LANES << 4 | GENERATION;
        self.put(EXPRESS + 0x0c, u32::from(link).to_le_bytes());
        self.put(EXPRESS + 0x12, link.to_le_bytes());
        self.put(EXPRESS + 0x2c, [0x0e]);
        self.set16(EXPRESS + 0x30, GENERATION, 0x000f);
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&bytes);
    }

    fn allow<const N: usize>(&mut self, at: usize, mask: [u8; N]) {
        self.writable[at..at + N].copy_from_slice(&mask);
    }

    fn set8(&mut self, at: usize, value: u8, mask: u8) {
        self.put(at, [value]);
        self.allow(at, [mask]);
    }

    fn set16(&mut self, at: usize, value: u16, mask: u16) {
        self.put(at, value.to_le_bytes());
        self.allow(at, mask.to_le_bytes());
    }

    fn get16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// The simulation's clock is so far; `engine`: the card is emulated.
    pub fn set_cycles(&mut self, cycles: u64, engine: bool) {
        self.put(simulation::AT as usize, simulation::to_bytes(cycles, engine));
    }

    /// Reads; `None` when the range leaves the space.
    pub fn read(&self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(bytes)?)
    }

    /// Writes what may be written. Whether a function level reset is asked for; `None` when the range leaves the space.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Option<bool> {
        self.read(offset, data.len())?;
        let start = offset as usize;
        for (at, new) in (start..).zip(data) {
            let mask = self.writable[at];
            self.bytes[at] = self.bytes[at] & !mask | new & mask;
        }
        let control = (DEVICE_CONTROL + 1).checked_sub(start).and_then(|at| data.get(at));
        Some(control.is_some_and(|byte| u16::from(*byte) << 8 & INITIATE_RESET != 0))
    }

    /// Whether the card may send requests.
    pub fn bus_master(&self) -> bool {
        self.get16(COMMAND) & BUS_MASTER != 0
    }

    /// Whether MSI-X interrupts are on.
    pub fn msix_enabled(&self) -> bool {
        self.get16(MSIX_CONTROL) & MSIX_ENABLE != 0
    }

    /// Whether all vectors are masked.
    pub fn msix_masked(&self) -> bool {
        self.get16(MSIX_CONTROL) & MSIX_MASK != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(space: &ConfigSpace, at: u64) -> u32 {
        u32::from_le_bytes(space.read(at, 4).unwrap().try_into().unwrap())
    }

    #[test]
    fn it_says_what_the_card_is() {
        let space = ConfigSpace::new(16);
        assert_eq!(word(&space, 0), u32::from(pci::DEVICE) << 16 | u32::from(pci::VENDOR));
        assert_eq!(word(&space, 8) >> 8, pci::CLASS);
        assert_eq!(word(&space, 0x80) >> 16, 15);
        assert_eq!((word(&space, 0x84), word(&space, 0x88)), (MSIX_TABLE, MSIX_PBA));
    }

    #[test]
    fn the_capabilities_are_a_list_that_ends() {
        let space = ConfigSpace::new(4);
        let mut at = u64::from(space.read(0x34, 1).unwrap()[0]);
        let mut kinds = Vec::new();
        while at != 0 {
            kinds.push(space.read(at, 1).unwrap()[0]);
            at = space.read(at + 1, 1).unwrap()[0].into();
        }
        assert_eq!(kinds, [0x10, 0x11, 0x01]);
    }

    #[test]
    fn software_finds_out_the_size_of_the_bar() {
        let mut space = ConfigSpace::new(4);
        space.write(BAR0 as u64, &[0xff; 8]).unwrap();
        let bar = u64::from(word(&space, 0x14)) << 32 | u64::from(word(&space, 0x10));
        assert_eq!((bar & 0xf, !(bar & !0xf) + 1), (4, pci::BAR_BYTES));
        space.write(0x14, &[0; 4]).unwrap();
        assert_eq!(word(&space, 0x14), 0);
    }

    #[test]
    fn only_writable_bits_change() {
        let mut space = ConfigSpace::new(4);
        let before = space.bytes.clone();
        for (at, byte) in (0..).zip(&before) {
            space.write(at, &[!byte]).unwrap();
        }
        let changed: Vec<usize> = (0..BYTES).filter(|at| space.bytes[*at] != before[*at]).collect();
        assert!(changed.iter().all(|at| space.writable[*at] != 0), "{changed:x?}");
        assert_eq!(word(&space, 0), u32::from_le_bytes(before[..4].try_into().unwrap()));
    }

    #[test]
    fn a_reset_is_asked_for_in_any_width_and_reads_zero() {
        let mut space = ConfigSpace::new(4);
        let at = DEVICE_CONTROL as u64;
        assert_eq!(space.write(at, &[0x10, 0xa8]), Some(true));
        assert_eq!(space.write(at + 1, &[0x80]), Some(true));
        assert_eq!(space.write(at - 2, &[0, 0, 0, 0x80]), Some(true));
        assert_eq!(space.write(at, &[0x10, 0x28]), Some(false));
        assert_eq!(space.write(at, &[0x80]), Some(false));
        assert_eq!(space.get16(DEVICE_CONTROL) & INITIATE_RESET, 0);
    }

    #[test]
    fn ranges_that_leave_it_are_none() {
        let mut space = ConfigSpace::new(4);
        assert!(space.read(BYTES as u64 - 2, 4).is_none());
        assert!(space.read(u64::MAX, 4).is_none());
        assert!(space.write(u64::MAX - 1, &[0; 4]).is_none());
        assert_eq!(space.read(BYTES as u64, 0), Some(&[][..]));
    }
}
