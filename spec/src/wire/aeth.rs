// SPDX-License-Identifier: MIT OR Apache-2.0
//! ACK extended transport header.

crate::table::layout! {
    /// ACK extended transport header.
    struct Aeth, "aeth", Network, 4 bytes, "IBTA 9.3.5";
    /// Acknowledgement, RNR NAK or NAK: see [`crate::wire::Syndrome`].
    SYNDROME syndrome: u8 @ 0, 8, RW, "IBTA 9.3.5.1";
    /// Messages completed by the responder, modulo 2^24.
    MSN msn: u32 @ 8, 24, RW, "IBTA 9.3.5.2";
}
