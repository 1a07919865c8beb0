// SPDX-License-Identifier: MIT OR Apache-2.0
//! Priority-based flow control: a MAC control frame that makes a station stop sending packets of some priorities for a while.

use super::pause::{frame_of, FRAME_BYTES};

crate::table::layout! {
    /// PFC: what stands behind an ethertype of 0x8808; the rest of 60 bytes is zero. A time is a number of quanta of 512 bits, 0 ends the
    /// pause of its priority; it counts where its bit of `enables` is set.
    struct Pfc, "pfc", Network, 20 bytes, "IEEE 802.3 31D";
    /// Which MAC control frame: [`CODE`].
    OPCODE opcode: u16 @ 0, 16, RW = CODE as u64, "IEEE 802.3 31D.2";
    /// Reserved.
    RESV resv: u8 @ 16, 8, RSVD;
    /// Bit `n` set: the time of priority `n` counts.
    ENABLES enables: u8 @ 24, 8, RW, "IEEE 802.3 31D.2";
    /// Priority 0.
    TIME0 time0: u16 @ 32, 16, RW, "IEEE 802.3 31D.2";
    /// Priority 1.
    TIME1 time1: u16 @ 48, 16, RW, "IEEE 802.3 31D.2";
    /// Priority 2.
    TIME2 time2: u16 @ 64, 16, RW, "IEEE 802.3 31D.2";
    /// Priority 3.
    TIME3 time3: u16 @ 80, 16, RW, "IEEE 802.3 31D.2";
    /// Priority 4.
    TIME4 time4: u16 @ 96, 16, RW, "IEEE 802.3 31D.2";
    /// Priority 5.
    TIME5 time5: u16 @ 112, 16, RW, "IEEE 802.3 31D.2";
    /// Priority 6.
    TIME6 time6: u16 @ 128, 16, RW, "IEEE 802.3 31D.2";
    /// Priority 7.
    TIME7 time7: u16 @ 144, 16, RW, "IEEE 802.3 31D.2";
}

/// The opcode of PFC.
pub const CODE: u16 = 0x0101;
/// The times, by priority.
pub const TIMES: [crate::Field; 8] = [TIME0, TIME1, TIME2, TIME3, TIME4, TIME5, TIME6, TIME7];

impl Pfc {
    /// Times for those priorities that have one.
    pub fn new(times: [Option<u16>; 8]) -> Self {
        let enables = (0..8).filter(|i| times[*i].is_some()).fold(0, |set, i| set | 1 << i);
        let [time0, time1, time2, time3, time4, time5, time6, time7] = times.map(Option::unwrap_or_default);
        Pfc { enables, time0, time1, time2, time3, time4, time5, time6, time7, ..Self::default() }
    }

    /// The frame that a station of this address sends.
    pub fn frame(&self, src: u64) -> [u8; FRAME_BYTES] {
        frame_of(src, |bytes| {
            let _ = self.emit(bytes);
        })
    }
}
