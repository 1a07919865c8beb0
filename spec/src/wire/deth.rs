// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagram extended transport header.

crate::table::layout! {
    /// Datagram extended transport header.
    struct Deth, "deth", Network, 8 bytes, "IBTA 9.3.2";
    /// Queue key: must equal that of the receiving queue pair.
    QKEY qkey: u32 @ 0, 32, RW, "IBTA 9.3.2.1";
    /// Reserved.
    RESV resv: u8 @ 32, 8, RSVD, "IBTA 9.3.2";
    /// Queue pair that sent the datagram.
    SRCQP srcqp: u32 @ 40, 24, RW, "IBTA 9.3.2.2";
}
