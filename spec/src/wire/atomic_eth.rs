// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic extended transport header: the request of an atomic operation.

crate::table::layout! {
    /// Atomic extended transport header: the request of an atomic operation.
    struct AtomicEth, "atomic_eth", Network, 28 bytes, "IBTA 9.3.4";
    /// Virtual address of the 8 bytes, a multiple of 8.
    VA va: u64 @ 0, 64, RW, "IBTA 9.3.4.1";
    /// Key that grants access to it.
    RKEY rkey: u32 @ 64, 32, RW, "IBTA 9.3.4.2";
    /// Value to store if the compare succeeds, or to add.
    SWAP swap: u64 @ 96, 64, RW, "IBTA 9.3.4.3";
    /// Value to compare with; not used by FETCH ADD.
    COMPARE compare: u64 @ 160, 64, RW, "IBTA 9.3.4.4";
}
