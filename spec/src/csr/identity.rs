// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the card is.

/// Value of the register `magic`: "FERW", first letter in the low byte.
pub const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"FERW");

/// Value of the register `version`: major in bits 31:16, minor in 15:0.
pub const VERSION_VALUE: u32 = 0x0000_0001;

crate::table::registers! {
    /// What the card is. A driver reads this first, and refuses a card whose layout hash it does not know.
    block "identity", 0x0000, 0x40 bytes;
    /// Names the card.
    MAGIC magic @ 0x00 {
        /// "FERW", first letter in the low byte.
        value @ 0, 32, RO = MAGIC_VALUE as u64;
    }
    /// Version of the card; the layout hash decides whether a driver fits.
    VERSION version @ 0x04 {
        /// Minor.
        minor @ 0, 16, RO = VERSION_VALUE as u64 & 0xffff;
        /// Major.
        major @ 16, 16, RO = VERSION_VALUE as u64 >> 16;
    }
    /// Low word of `LAYOUT_HASH`, the hash over all tables of this crate.
    LAYOUT_HASH_LO layout_hash_lo @ 0x08 {
        /// Bits 31:0.
        value @ 0, 32, RO;
    }
    /// High word of `LAYOUT_HASH`.
    LAYOUT_HASH_HI layout_hash_hi @ 0x0c {
        /// Bits 63:32.
        value @ 0, 32, RO;
    }
    /// Width of the datapath.
    BEAT_BYTES beat_bytes @ 0x10 {
        /// Bytes a beat: 8, 16, 32 or 64.
        value @ 0, 32, RO;
    }
    /// Clock of the datapath.
    CLOCK_KHZ clock_khz @ 0x14 {
        /// In kHz; 0 in a simulation without a clock rate.
        value @ 0, 32, RO;
    }
}
