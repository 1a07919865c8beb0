// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic acknowledge extended transport header.

crate::table::layout! {
    /// Atomic acknowledge extended transport header: the answer of an atomic operation.
    struct AtomicAckEth, "atomic_ack_eth", Network, 8 bytes, "IBTA 9.5.3";
    /// What the memory held before.
    ORIG orig: u64 @ 0, 64, RW, "IBTA 9.5.3";
}
