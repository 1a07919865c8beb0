// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the card is on a PCI bus: who made it, what it is, and how large its BAR is.
//!
//! The identity is the only one of the project; the card on a socket, boards and drivers take it from here.

/// Vendor: the one whose device IDs 0x10f0 to 0x10ff are documented for experiments without registration (QEMU, `docs/specs/pci-ids`).
/// **Nobody has registered a vendor for this project.** A product needs one of its own.
pub const VENDOR: u16 = 0x1af4;
/// Device: the first of the experimental ones.
pub const DEVICE: u16 = 0x10f0;
/// Subsystem vendor.
pub const SUBSYSTEM_VENDOR: u16 = VENDOR;
/// Subsystem: "FW".
pub const SUBSYSTEM: u16 = 0x4657;
/// Revision.
pub const REVISION: u8 = 1;
/// Class: network controller (02), InfiniBand (07), without a programming interface of its own (00). The card is used by verbs.
/// Ethernet (00) would promise frames to a network stack, and other (80) says nothing.
pub const CLASS: u32 = 0x02_07_00;

/// Bytes of BAR 0, which is 64 bits wide. It is not prefetchable: a doorbell is a write with an effect, which no bridge may merge with
/// its neighbour.
pub const BAR_BYTES: u64 = 1 << 24;

/// The MSI-X table and the pending bits lie in this BAR, at [`MSIX_TABLE`](crate::csr::MSIX_TABLE) and [`MSIX_PBA`](crate::csr::MSIX_PBA).
pub const MSIX_BAR: u8 = 0;
/// Bytes of an entry of the MSI-X table (PCIe 7.7.2).
pub const MSIX_ENTRY: u32 = 16;
/// Vectors for which BAR 0 has room.
pub const MSIX_MAX: u32 = (crate::csr::MSIX_PBA - crate::csr::MSIX_TABLE) / MSIX_ENTRY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_one_of_the_experimental_ones() {
        assert_eq!((VENDOR, DEVICE & !0xf), (0x1af4, 0x10f0));
    }

    #[test]
    fn every_event_queue_that_a_card_may_have_has_a_vector() {
        assert_eq!(MSIX_MAX, 128);
    }
}
