// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transaction layer packets of PCI Express, as far as a memory-mapped endpoint meets them.
//!
//! A packet is bytes in the order in which the standard draws it: byte 0 is the one with `fmt` and `type`. A header of three or four
//! double words is followed by the data, the byte of the lowest address first; the header's numbers are big-endian. Neither
//! prefixes nor a digest stand here. Addresses below 4 GiB are written with three double words, others with four (PCIe 2.2.4.1).
//!
//! These tables are no part of the layout hash: host software never sees them.

pub mod completion;
pub mod pcie4;
pub mod request32;
pub mod request64;

pub use completion::{Completion, CompletionStatus};
pub use request32::Request32;
pub use request64::Request64;

/// Values of `fmt` and `type` together, the first byte of a packet (PCIe 2.2.1, table 2-3).
pub mod kind {
    /// Memory read, address below 4 GiB.
    pub const READ32: u8 = 0x00;
    /// Memory read.
    pub const READ64: u8 = 0x20;
    /// Locked memory read, address below 4 GiB: unsupported by anything but legacy endpoints.
    pub const READ_LOCKED32: u8 = 0x01;
    /// Memory write, address below 4 GiB.
    pub const WRITE32: u8 = 0x40;
    /// Memory write.
    pub const WRITE64: u8 = 0x60;
    /// I/O read.
    pub const IO_READ: u8 = 0x02;
    /// I/O write.
    pub const IO_WRITE: u8 = 0x42;
    /// Message to the root complex, without data; the other messages have other low bits.
    pub const MESSAGE: u8 = 0x30;
    /// Completion without data.
    pub const COMPLETION: u8 = 0x0a;
    /// Completion with data.
    pub const COMPLETION_DATA: u8 = 0x4a;
}

/// Boundary that no request may cross (PCIe 2.2.7).
pub const PAGE: u32 = 4096;

/// Bytes of a double word, the unit of `length`.
pub const DWORD: u32 = 4;

/// What a field of 10 or 12 bits says: 0 stands for the number that does not fit (PCIe 2.2.2, 2.2.9).
pub const fn count(field: u16, bits: u32) -> u32 {
    if field == 0 {
        1 << bits
    } else {
        field as u32
    }
}

/// Largest payload or read request of a code of the device control register: 128 bytes at 0 to 4,096 at 5 (PCIe 7.5.3.4).
pub const fn size(code: u8) -> u32 {
    128 << code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_lie_where_the_standard_draws_them() {
        // Linux prints such headers in AER logs: a read of 4 bytes at 0xfe00_0000 by 01:00.0, tag 9.
        let bytes = [0x00, 0x00, 0x00, 0x01, 0x01, 0x00, 0x09, 0x0f, 0xfe, 0x00, 0x00, 0x00];
        let read = Request32::parse(&bytes).unwrap();
        assert_eq!((read.fmt << 5 | read.kind, read.length, read.requester), (kind::READ32, 1, 0x100));
        assert_eq!((read.tag, read.first_be, read.last_be, read.address << 2), (9, 15, 0, 0xfe00_0000));
        let bytes = [0x60, 0, 0x20, 0x10, 0x02, 0x08, 0, 0xfe, 0, 0, 0, 1, 0x23, 0x45, 0x67, 0x88];
        let write = Request64::parse(&bytes).unwrap();
        assert_eq!((write.fmt << 5 | write.kind, write.length, write.relaxed), (kind::WRITE64, 16, true));
        assert_eq!((write.first_be, write.last_be, write.address << 2), (14, 15, 0x1_2345_6788));
        let bytes = [0x4a, 0, 0, 0x10, 0, 0, 0x00, 0x46, 0x02, 0x08, 0x33, 0x42];
        let answer = Completion::parse(&bytes).unwrap();
        assert_eq!((answer.fmt << 5 | answer.kind, answer.length), (kind::COMPLETION_DATA, 16));
        assert_eq!((answer.byte_count, answer.tag, answer.lower_address), (0x46, 0x33, 0x42));
        assert_eq!((count(0, 10), count(0, 12), count(7, 12), size(0), size(5)), (1024, 4096, 7, 128, 4096));
    }
}
