// SPDX-License-Identifier: MIT OR Apache-2.0
//! Immediate extended transport header.

crate::table::layout! {
    /// Immediate extended transport header.
    struct ImmDt, "imm_dt", Network, 4 bytes, "IBTA 9.3.6";
    /// The immediate, handed to the receiver's completion.
    IMM imm: u32 @ 0, 32, RW, "IBTA 9.3.6";
}
