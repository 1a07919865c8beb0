// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flow control of the link: PAUSE and PFC frames that come, and whether they are obeyed.

crate::table::registers! {
    /// Flow control of the link (IEEE 802.3 annexes 31B and 31D). The card obeys PAUSE and PFC frames, as told here, and sends none.
    block "flow_control", 0x0280, 0x40 bytes;
    /// Which frames are obeyed; the others are counted alone.
    FLOW_MODE flow_mode @ 0x00 {
        /// PAUSE: nothing is sent. PFC frames are then not obeyed.
        pause @ 0, 1, RW;
        /// PFC, for the priorities whose bit is set. To be changed only while nothing is sent: packets may leave out of order otherwise.
        pfc @ 8, 8, RW;
    }
    /// How long a quantum is: 512 bits of the wire.
    QUANTUM quantum @ 0x04 {
        /// Cycles of the pipeline's clock, times 256; at least 256. 0: as many as its datapath takes for 512 bits.
        cycles @ 0, 20, RW;
    }
    /// What stands still.
    PAUSED paused @ 0x08 {
        /// Bit `n` set: nothing of priority `n` is sent now. A PAUSE sets all.
        priorities @ 0, 8, RO;
    }
}
