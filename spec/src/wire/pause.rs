// SPDX-License-Identifier: MIT OR Apache-2.0
//! PAUSE: a MAC control frame that makes a station stop sending for a while.

use super::{eth, Eth};

crate::table::layout! {
    /// PAUSE: what stands behind an ethertype of 0x8808; the rest of 60 bytes is zero.
    struct Pause, "pause", Network, 4 bytes, "IEEE 802.3 31B";
    /// Which MAC control frame: [`CODE`], or that of [`crate::wire::pfc`].
    OPCODE opcode: u16 @ 0, 16, RW = CODE as u64, "IEEE 802.3 31.4.1.3";
    /// For how long nothing is to be sent, in [`QUANTUM_BITS`]; 0 ends the pause.
    TIME time: u16 @ 16, 16, RW, "IEEE 802.3 31B.2";
}

/// The opcode of PAUSE.
pub const CODE: u16 = 0x0001;
/// Where MAC control frames are sent to, if not to the station itself: a group address that no bridge forwards.
pub const GROUP: u64 = 0x0180_c200_0001;
/// Bits on the wire that a unit of time takes.
pub const QUANTUM_BITS: u32 = 512;
/// The length of a MAC control frame, without frame check sequence.
pub const FRAME_BYTES: usize = 60;

/// A MAC control frame to the group address.
pub(super) fn frame_of(src: u64, emit: impl FnOnce(&mut [u8])) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    let header = Eth { dst: GROUP, src, ethertype: eth::ethertype::MAC_CONTROL };
    // Both fit.
    let _ = header.emit(&mut frame);
    emit(&mut frame[eth::BYTES..]);
    frame
}

impl Pause {
    /// A PAUSE for so many quanta.
    pub fn new(time: u16) -> Self {
        Pause { time, ..Self::default() }
    }

    /// The frame that a station of this address sends.
    pub fn frame(&self, src: u64) -> [u8; FRAME_BYTES] {
        frame_of(src, |bytes| {
            let _ = self.emit(bytes);
        })
    }
}
