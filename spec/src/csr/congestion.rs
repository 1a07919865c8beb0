// SPDX-License-Identifier: MIT OR Apache-2.0
//! Congestion control: notifications, and the reaction to them.

crate::table::registers! {
    /// Congestion control: the parameters of DCQCN (Zhu et al., SIGCOMM 2015), with the values published there. Without effect while
    /// the feature `congestion` is not there.
    block "congestion", 0x0240, 0x40 bytes;
    /// Notifications (IBTA A17.9.3).
    NOTIFY notify @ 0x00 {
        /// Shortest time between two CNPs of a queue pair, in microseconds.
        interval_us @ 0, 15, RW = 50;
    }
    /// The rate up to which queue pairs send, and which they leave when a CNP comes.
    LINE_RATE line_rate @ 0x04 {
        /// In Mb/s; 0: CNPs are ignored, and no queue pair is held back.
        mbps @ 0, 20, RW;
    }
    /// The least rate of a queue pair.
    MIN_RATE min_rate @ 0x08 {
        /// In Mb/s.
        mbps @ 0, 20, RW = 10;
    }
    /// How fast the estimate of congestion, alpha, moves.
    GAIN gain @ 0x0c {
        /// It moves by 2^-shift of the way.
        shift @ 0, 4, RW = 8;
    }
    /// Periods without a CNP.
    PERIODS periods @ 0x10 {
        /// After which alpha decays, in microseconds.
        alpha_us @ 0, 16, RW = 55;
        /// After which the rate rises, in microseconds.
        rate_us @ 16, 16, RW = 55;
    }
    /// Bytes sent after which the rate rises.
    BYTE_COUNTER byte_counter @ 0x14 {
        /// Bytes.
        bytes @ 0, 32, RW = 10_000_000;
    }
    /// Fast recovery.
    RECOVERY recovery @ 0x18 {
        /// Rises of a kind that only recover what was lost.
        steps @ 0, 4, RW = 5;
    }
    /// By how much the target rises: behind fast recovery, and when both kinds of rises are behind it.
    INCREASE increase @ 0x1c {
        /// Additive, in Mb/s.
        additive_mbps @ 0, 16, RW = 40;
        /// Hyper, in Mb/s.
        hyper_mbps @ 16, 16, RW = 400;
    }
}
