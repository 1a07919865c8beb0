// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time base of the transport.

crate::table::registers! {
    /// The time base of the transport.
    block "timers", 0x0200, 0x40 bytes;
    /// The unit of all transport timers, 4.096 us by the specification (IBTA volume 1, 9.7.6.1.3): time-outs and the pauses
    /// after RNR NAKs. A smaller value makes all of them shorter by the same factor, as a simulation may want.
    TICK tick @ 0x00 {
        /// Cycles of the pipeline's clock in a unit; 0: as many as 4.096 us take.
        cycles @ 0, 24, RW;
    }
}
