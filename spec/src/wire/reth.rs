// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA extended transport header: first packet of a WRITE, and the READ request.

crate::table::layout! {
    /// RDMA extended transport header: first packet of a WRITE, and the READ request.
    struct Reth, "reth", Network, 16 bytes, "IBTA 9.3.3";
    /// Virtual address in the responder's memory.
    VA va: u64 @ 0, 64, RW, "IBTA 9.3.3.1";
    /// Key that grants access to it.
    RKEY rkey: u32 @ 64, 32, RW, "IBTA 9.3.3.2";
    /// Bytes of the whole message, at most 2^31.
    LEN len: u32 @ 96, 32, RW, "IBTA 9.3.3.3";
}
