// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invalidate extended transport header.

crate::table::layout! {
    /// Invalidate extended transport header.
    struct Ieth, "ieth", Network, 4 bytes, "IBTA 9.3.7";
    /// Key that the responder invalidates before it completes the receive.
    RKEY rkey: u32 @ 0, 32, RW, "IBTA 9.3.7";
}
