// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Beat`]: one clock cycle's worth of a frame.

use ferrowire_rtl::{bits, clog2, Bundle, Sig};

/// `beat_bytes` bytes of a frame. Byte 0 of the wire is bits 7:0 of the first beat.
#[derive(Clone, Bundle)]
pub struct Beat {
    /// The bytes.
    pub data: Sig,
    /// The frame ends with this beat.
    pub last: Sig,
    /// Bytes at the top of the last beat that are not the frame's; zero in all other beats.
    pub empty: Sig,
}

impl Beat {
    /// The shape of a beat of `beat_bytes` bytes.
    pub fn of(beat_bytes: u32) -> Beat {
        Beat { data: bits(8 * beat_bytes), last: bits(1), empty: bits(clog2(u64::from(beat_bytes))) }
    }

    /// Bytes in a beat.
    pub fn bytes(&self) -> u32 {
        self.data.width() / 8
    }
}
