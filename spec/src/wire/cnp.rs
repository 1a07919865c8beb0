// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the base transport header in a congestion notification packet.

crate::table::layout! {
    /// What follows the base transport header in a congestion notification packet.
    struct Cnp, "cnp", Network, 16 bytes, "IBTA A17.9.3";
    /// Reserved: zero.
    RESV resv: u128 @ 0, 128, RSVD;
}
